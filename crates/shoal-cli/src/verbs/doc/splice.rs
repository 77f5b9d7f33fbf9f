//! `shoal doc splice`: text, or elements of a list, deleted and inserted at a position.

use serde_json::Value as Json;
use shoal_crdt::{ObjType, ReadDoc, pointer};

use crate::args::SpliceArgs;
use crate::document::edit::{edit, json};
use crate::failure::Failure;

pub(crate) fn run(args: &SpliceArgs) -> Result<(), Failure> {
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
