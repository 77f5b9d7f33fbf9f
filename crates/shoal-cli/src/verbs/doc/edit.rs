//! One edit, one change: put and splice.

use serde_json::Value as Json;
use shoal::{ActorId, ChangeHash, Document, Environment};
use shoal_crdt::pointer::{self, Resolved};
use shoal_crdt::{CommitOptions, ObjType, ReadDoc, Transaction};

use crate::args::{EditArgs, PutArgs, SpliceArgs};
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

/// `shoal doc put`.
pub(super) fn put(args: &PutArgs) -> Result<(), Failure> {
    let value = json("VALUE", &args.value)?;
    edit(&args.doc, &args.edit, |transaction, place| {
        let resolved = pointer::resolve(&*transaction, &args.path)
            .map_err(|error| Failure::at(place, error))?;
        let put = match &resolved {
            Resolved::Root => {
                return Err(Failure::at(place, "the root cannot be replaced")
                    .hint("a path such as /title names a value"));
            }
            Resolved::Entry { obj, key } => transaction.put_json(obj, key.as_str(), &value),
            Resolved::Item { obj, index } => {
                let index = *index;
                if transaction.length(obj) == Ok(index) {
                    transaction.insert_json(obj, index, &value)
                } else {
                    transaction.put_json(obj, index, &value)
                }
            }
        };
        put.map_err(|error| Failure::at(place, error))
    })?;
    Ok(())
}

/// `shoal doc splice`.
pub(super) fn splice(args: &SpliceArgs) -> Result<(), Failure> {
    let (position, delete) = (args.position, args.delete);
    edit(&args.doc, &args.edit, |transaction, place| {
        let at_place = |error: shoal_crdt::Error| Failure::at(place, error);
        let obj = pointer::resolve_object(&*transaction, &args.path)
            .map_err(|error| Failure::at(place, error))?;
        let kind = transaction.object_type(&obj).map_err(at_place)?;
        if !kind.is_sequence() {
            return Err(Failure::at(
                place,
                format_args!("neither a text nor a list but a {}: {}", kind.name(), args.path),
            ));
        }
        let length = transaction.length(&obj).map_err(at_place)?;
        if position.checked_add(delete).is_none_or(|end| end > length) {
            return Err(Failure::at(
                place,
                format_args!(
                    "the {} at {} has length {length}, too short for position {position} \
                     and {delete} to delete",
                    kind.name(),
                    args.path,
                ),
            ));
        }
        if kind == ObjType::Text {
            let delete = isize::try_from(delete).expect("a length fits, as checked above");
            return transaction.splice_text(&obj, position, delete, &args.text).map_err(at_place);
        }
        let Json::Array(items) = json("TEXT, for a list,", &args.text)? else {
            return Err(Failure::new("TEXT, for a list, is a JSON array of the items to insert"));
        };
        for (offset, item) in items.iter().enumerate() {
            transaction.insert_json(&obj, position + offset, item).map_err(at_place)?;
        }
        for _ in 0..delete {
            transaction.delete(&obj, position + items.len()).map_err(at_place)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Loads the document, runs `change` on it as one change, and saves it if there was any.
/// Returns the hash of the change.
pub(super) fn edit(
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

fn json(what: &str, text: &str) -> Result<Json, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let failure = Failure::new(format_args!("{what} is not JSON: {error}"));
        match text.trim_start().starts_with(['{', '[', '"']) {
            true => failure,
            // Most likely a string whose quotes the shell took.
            false => failure.hint(format_args!("a string is written as '{}'", Json::from(text))),
        }
    })
}
