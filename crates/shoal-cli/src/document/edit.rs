//! One edit, one change.

use serde_json::Value as Json;
use shoal::{Access, ActorId, ChangeHash, Document, Environment};
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
    if let Place::Stored { file, name } = &place {
        let failed = |error: shoal::Error| open::about(file, &error);
        let mut database = open::database(file, Access::ReadWrite)?;
        let mut document = database.open_document(name).map_err(failed)?;
        let hash = commit(&mut document, args, |transaction| change(transaction, &place))?;
        if hash.is_some() {
            database.close(document).map_err(failed)?;
        }
        return Ok(hash);
    }
    let mut document: Document = open::load(&place)?;
    let hash = commit(&mut document, args, |transaction| change(transaction, &place))?;
    if hash.is_some() {
        open::save(&place, &mut document)?;
    }
    Ok(hash)
}

/// Runs `change` as one change of a document.
fn commit(
    document: &mut Document,
    args: &EditArgs,
    change: impl FnOnce(&mut Transaction<'_>) -> Result<(), Failure>,
) -> Result<Option<ChangeHash>, Failure> {
    if let Some(actor) = &args.actor {
        let actor = ActorId::from_hex(actor).map_err(|error| Failure::at("--actor", error))?;
        document.set_actor(actor);
    }
    let mut transaction = document.transaction();
    change(&mut transaction)?;
    let mut options = CommitOptions::default().with_time(Environment::os().now_seconds());
    if let Some(message) = &args.message {
        options = options.with_message(message);
    }
    Ok(transaction.commit(options))
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
