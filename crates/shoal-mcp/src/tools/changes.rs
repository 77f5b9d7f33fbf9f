//! `changes_since`: documents and tables that changed since an earlier call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal::{ChangeHash, Event, Topics, Watch};

use super::schema::quoted;
use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::desk::Work;
use crate::page;
use crate::refusal::Refusal;

pub(super) const KIND: Kind = Kind {
    name: "changes_since",
    title: "Tell what changed",
    words: "Tells which documents and tables changed since a version. Without version it gives the \
            version of now; with it, the changes since and the next version. A document comes with \
            its heads before and now: documents with action diff tells the steps between them. A \
            table comes by name. The server remembers the last 64 versions, until it ends.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "version": {"type": "string", "description": "The version of an earlier answer"}
            },
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Tells which granted tables have other rows than at a version. Without version it gives \
         the version of now; with it, the tables that changed, came or went since, and the next \
         version. The server remembers the last 64 versions, until it ends.",
    ),
    call,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    version: Option<String>,
}

/// A version told to a client.
#[derive(Debug)]
pub(crate) enum Told {
    /// Nobody asked for the changes behind the version yet.
    Open(Box<Followed>),
    /// The answer to whoever asked, given again where the first was lost.
    Answered(Map<String, Json>),
}

/// A state to compare with a later one.
#[derive(Debug)]
pub(crate) struct Followed {
    state: State,
    /// Tables and views there were.
    names: BTreeSet<String>,
}

/// A state of the database as one caller sees it.
#[derive(Debug)]
enum State {
    /// Pages and documents of the whole file.
    Watched(Box<Watch>),
    /// Under rules: digests of the visible rows by table. Pages would tell of hidden rows.
    Digested(BTreeMap<String, Option<page::Digest>>),
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    let Some(version) = given.version else {
        let followed = follow(work)?;
        let mut answer = Map::new();
        answer.insert("version".to_owned(), json!(keep(work, followed)));
        return Ok(Answer::Object(answer));
    };
    let unknown = || {
        Refusal::new("the version is not known, or not known any more")
            .hint("Call without version for the one of now")
    };
    let mut followed = match take(work, &version).ok_or_else(unknown)? {
        Told::Open(followed) => followed,
        Told::Answered(answer) => return Ok(Answer::Object(answer)),
    };
    match compare(work, &mut followed) {
        Ok((mut answer, next)) => {
            let next = keep(work, next.unwrap_or(*followed));
            answer.insert("version".to_owned(), json!(next));
            put(work, &version, Told::Answered(answer.clone()));
            Ok(Answer::Object(answer))
        }
        Err(refusal) => {
            put(work, &version, Told::Open(followed));
            Err(refusal)
        }
    }
}

/// The version of a name; one that is open is taken out, to be put back.
fn take(work: &Work<'_>, version: &str) -> Option<Told> {
    let mut watches = work.desk.watches.lock().unwrap_or_else(PoisonError::into_inner);
    let told = watches.get(work.caller, version)?;
    match told {
        Told::Answered(answer) => Some(Told::Answered(answer.clone())),
        Told::Open(_) => Some(std::mem::replace(told, Told::Answered(Map::new()))),
    }
}

fn put(work: &Work<'_>, version: &str, told: Told) {
    let mut watches = work.desk.watches.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = watches.get(work.caller, version) {
        *place = told;
    }
}

fn keep(work: &Work<'_>, followed: Followed) -> String {
    let name = work.desk.new_name();
    let mut watches = work.desk.watches.lock().unwrap_or_else(PoisonError::into_inner);
    watches.put(work.caller, name.clone(), Told::Open(Box::new(followed)));
    name
}

/// The state of now.
fn follow(work: &mut Work<'_>) -> Result<Followed, Refusal> {
    let names = names(work, "'table', 'view'")?;
    let Some(database) = work.seen.whole() else {
        return Ok(Followed { state: State::Digested(digests(work)?), names });
    };
    let schema = database.sql().schema()?;
    let tables = names.iter().filter(|name| schema.table(name).is_some());
    let topics = tables.fold(Topics::default().all_documents(), |topics, name| topics.table(name));
    Ok(Followed { state: State::Watched(Box::new(database.watch(topics)?)), names })
}

/// Digests of the tables in sight; `None` of a table that cannot be read.
fn digests(work: &mut Work<'_>) -> Result<BTreeMap<String, Option<page::Digest>>, Refusal> {
    let mut digests = BTreeMap::new();
    for name in names(work, "'table'")? {
        let sql = format!("SELECT * FROM {}", quoted(&name));
        let digest = page::digest_of(work, &sql).ok();
        // A table that cannot be read is told apart from a call that was stopped.
        work.stop.check()?;
        digests.insert(name, digest);
    }
    Ok(digests)
}

/// Names of the user's objects of these kinds.
fn names(work: &mut Work<'_>, kinds: &str) -> Result<BTreeSet<String>, Refusal> {
    let sql = format!(
        "SELECT name FROM sqlite_schema WHERE type IN ({kinds}) \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_shoal\\_%' ESCAPE '\\'"
    );
    let found = page::rows(work, &sql, &[])?;
    Ok(found.iter().map(|row| page::text(&row[0])).collect())
}

/// The changes since a state, and another state to go on from where tables came or went.
fn compare(
    work: &mut Work<'_>,
    followed: &mut Followed,
) -> Result<(Map<String, Json>, Option<Followed>), Refusal> {
    // The new state is taken first: what changes in between is told twice rather than never.
    let names = names(work, "'table', 'view'")?;
    let is_same = names == followed.names;
    let mut answer = Map::new();
    let (mut documents, mut tables) = (Vec::new(), Vec::new());
    let (events, next) = match &mut followed.state {
        State::Watched(watch) => {
            let next = if is_same { None } else { Some(follow(work)?) };
            (work.database("changes of the file")?.poll(watch)?, next)
        }
        State::Digested(before) => {
            let now = digests(work)?;
            let changed = now
                .iter()
                .filter(|(name, digest)| before.get(*name).is_some_and(|before| before != *digest));
            tables.extend(changed.map(|(name, _)| json!(name)));
            let next = Followed { state: State::Digested(now), names: names.clone() };
            (Vec::new(), Some(next))
        }
    };
    for event in events {
        match event {
            Event::Document { name, before, heads } => documents.push(json!({
                "name": name, "before": hex(&before), "heads": hex(&heads)
            })),
            Event::Renamed { from, to } => {
                documents.push(json!({"name": to, "renamed_from": from}));
            }
            Event::Removed { name } => documents.push(json!({"name": name, "removed": true})),
            Event::Table { name } if names.contains(&name) => tables.push(json!(name)),
            _ => {}
        }
    }
    let created: Vec<&String> = names.difference(&followed.names).collect();
    let dropped: Vec<&String> = followed.names.difference(&names).collect();
    if !created.is_empty() {
        answer.insert("created".to_owned(), json!(created));
    }
    if !dropped.is_empty() {
        answer.insert("dropped".to_owned(), json!(dropped));
    }
    let most = work.desk.limits.rows;
    if documents.len() > most {
        let left = documents.len() - most;
        documents.truncate(most);
        page::note(&mut answer, &[format!("{left} more documents changed: list them all.")]);
    }
    answer.insert("documents".to_owned(), Json::Array(documents));
    answer.insert("tables".to_owned(), Json::Array(tables));
    Ok((answer, next))
}

fn hex(heads: &[ChangeHash]) -> Vec<String> {
    heads.iter().map(ToString::to_string).collect()
}
