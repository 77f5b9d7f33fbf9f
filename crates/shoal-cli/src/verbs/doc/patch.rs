//! `shoal doc patch`: a JSON Patch or a JSON Merge Patch, applied as one change.

use serde_json::{Value as Json, json};

use crate::args::{Format, PatchArgs};
use crate::document::edit::edit;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

pub(crate) fn run(args: &PatchArgs) -> Result<(), Failure> {
    let source = Place::parse(&args.patch);
    let bytes = open::bytes(&source, "a patch is a file, or - for stdin")?;
    let patch: Json = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::at(&args.patch, format_args!("not JSON: {error}")))?;
    let change = edit(&args.doc, &args.edit, |transaction, place| match &patch {
        Json::Array(_) => {
            transaction.apply_json_patch(&patch).map_err(|error| Failure::at(place, error))
        }
        Json::Object(_) => {
            transaction.apply_merge_patch(&patch).map_err(|error| Failure::at(place, error))
        }
        _ => Err(Failure::at(&args.patch, "a patch is a JSON array or a JSON object")),
    })?;
    if args.format == Format::Json {
        out::line(json!({"change": change.map(|hash| hash.to_string())}))?;
    }
    Ok(())
}
