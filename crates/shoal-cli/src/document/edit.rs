//! One edit, one change.

use serde_json::Value as Json;
use shoal::{ActorId, ChangeHash, Document, Environment};
use shoal_crdt::{CommitOptions, Transaction};

use crate::args::EditArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

/// Loads the document, runs `change` as one change, and saves the document if anything changed.
/// Returns the hash of the change.
pub(crate) fn edit(
    doc: &str,
    args: &EditArgs,
    change: impl FnOnce(&mut Transaction<'_>, &Place) -> Result<(), Failure>,
) -> Result<Option<ChangeHash>, Failure> {
    let place = Place::parse(doc);
    if place == Place::Stream {
        return Err(Failure::new("an edit needs a document it can save: FILE or DB::NAME"));
    }
    let mut document: Document = open::load(&place)?;
    if let Some(actor) = &args.actor {
        let actor = ActorId::from_hex(actor).map_err(|error| Failure::at("--actor", error))?;
        document.set_actor(actor);
    }
    let mut transaction = document.transaction();
    change(&mut transaction, &place)?;
    let mut options = CommitOptions::default().with_time(Environment::os().now_seconds());
    if let Some(message) = &args.message {
        options = options.with_message(message);
    }
    let hash = transaction.commit(options);
    if hash.is_some() {
        open::save(&place, &mut document)?;
    }
    Ok(hash)
}

/// Parses a JSON argument; `what` names the argument in the error.
pub(crate) fn json(what: &str, text: &str) -> Result<Json, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let failure = Failure::new(format_args!("{what} is not JSON: {error}"));
        match text.trim_start().starts_with(['{', '[', '"']) {
            true => failure,
            // Most likely a string whose quotes the shell took.
            false => failure.hint(format_args!("a string is written as '{}'", Json::from(text))),
        }
    })
}
