//! The tools: the name, words and arguments of each, and its call.

pub(crate) mod changes;
mod documents;
mod edit;
mod graph;
mod query;
mod schema;
mod search;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::desk::Work;
use crate::refusal::Refusal;

pub(crate) use documents::{json_of, names as document_names};
pub(crate) use schema::describe;

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Text for a model, of no structure for programs.
    Text(String),
    /// A JSON object.
    Object(Map<String, Json>),
}

/// The arguments of a call.
pub(crate) type Arguments = Map<String, Json>;

/// A tool.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The words for a model.
    pub(crate) words: &'static str,
    /// The JSON Schema of the arguments.
    pub(crate) arguments: fn() -> Json,
    /// True of a tool for servers with writing on.
    pub(crate) writes: bool,
    pub(crate) under_rules: UnderRules,
    pub(crate) call: fn(&mut Work<'_>, Arguments) -> Result<Answer, Refusal>,
}

/// A tool on a server under rules.
#[derive(Clone, Copy)]
pub(crate) enum UnderRules {
    /// Answers about granted tables; the words for a model in the place of [`Kind::words`].
    Narrowed(&'static str),
    /// Without an answer; the reason, and a way on.
    Refused(&'static str),
}

/// Every tool, in the order of a list.
pub(crate) const ALL: [Kind; 7] = [
    schema::KIND,
    query::KIND,
    documents::KIND,
    search::KIND,
    graph::KIND,
    changes::KIND,
    edit::KIND,
];

/// The tools of a server, writing or not, under rules or not.
pub(crate) fn of(is_writable: bool, is_narrowed: bool) -> impl Iterator<Item = &'static Kind> {
    ALL.iter().filter(move |kind| {
        let is_refused = is_narrowed && matches!(kind.under_rules, UnderRules::Refused(_));
        (is_writable || !kind.writes) && !is_refused
    })
}

/// The arguments of the tool `name` as its type.
///
/// # Errors
/// Arguments of another shape.
fn read<T: DeserializeOwned>(name: &str, arguments: Arguments) -> Result<T, Refusal> {
    serde_json::from_value(Json::Object(arguments))
        .map_err(|error| Refusal::new(format!("the arguments of {name} do not fit: {error}")))
}
