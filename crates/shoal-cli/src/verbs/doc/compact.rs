//! `shoal doc compact`: the changes of stored documents in the fewest bytes.

use std::path::Path;

use serde_json::json;
use shoal::{Access, Compacted};

use crate::args::{CompactArgs, Format};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;
use crate::progress::spin;

pub(crate) fn run(args: &CompactArgs) -> Result<(), Failure> {
    let mut told = Vec::new();
    for doc in &args.docs {
        let (file, name) = match Place::parse(doc) {
            Place::Stored { file, name } => (file, Some(name)),
            Place::File(file) => (file, None),
            Place::Stream => return Err(Failure::at("-", "compacting works in a database")),
        };
        compact(&file, name, args.format, &mut told)?;
    }
    if args.format == Format::Json {
        out::line(json!(told))?;
    }
    Ok(())
}

fn compact(
    file: &Path,
    name: Option<String>,
    format: Format,
    told: &mut Vec<serde_json::Value>,
) -> Result<(), Failure> {
    let failed = |error: shoal::Error| open::about(file, &error);
    let mut database = open::database(file, Access::ReadWrite)?;
    let names = match name {
        Some(name) => vec![name],
        None => {
            let documents = database.documents().map_err(failed)?;
            documents.into_iter().map(|document| document.name).collect()
        }
    };
    for name in names {
        let done = spin("compacting", || database.compact(&name)).map_err(failed)?;
        let Compacted { changes, bytes_before, bytes_after } = done;
        if format == Format::Json {
            told.push(json!({
                "name": name,
                "changes": changes,
                "bytes_before": bytes_before,
                "bytes_after": bytes_after,
            }));
        } else {
            out::line(format_args!(
                "{name}\t{changes} changes\t{bytes_before} -> {bytes_after} bytes"
            ))?;
        }
    }
    Ok(())
}
