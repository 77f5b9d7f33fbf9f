//! `shoal doc ls`: the documents of a database.

use std::io::Write;

use serde_json::json;
use shoal::{Access, Database};

use crate::args::{Format, LsArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(args: &LsArgs) -> Result<(), Failure> {
    let mut database = open::database(&args.file, Access::ReadOnly)?;
    if args.removed {
        return removed(args, &mut database);
    }
    let documents = database.documents().map_err(|error| open::about(&args.file, &error))?;
    if args.format == Format::Json {
        let list: Vec<_> = documents
            .iter()
            .map(|document| {
                json!({
                    "name": document.name,
                    "changes": document.changes,
                    "bytes": document.bytes,
                    "heads": document.heads.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
            })
            .collect();
        out::line(json!(list))?;
        return Ok(());
    }
    let mut out = out::stdout();
    for document in &documents {
        let (name, changes, bytes) = (&document.name, document.changes, document.bytes);
        writeln!(out, "{name}\t{changes} changes\t{bytes} bytes")?;
    }
    Ok(out.flush()?)
}

/// The tombstones.
fn removed(args: &LsArgs, database: &mut Database) -> Result<(), Failure> {
    let removed = database.removed().map_err(|error| open::about(&args.file, &error))?;
    if args.format == Format::Json {
        let heads = |heads: &[shoal::ChangeHash]| -> Vec<String> {
            heads.iter().map(ToString::to_string).collect()
        };
        let list = removed.iter();
        let list = list.map(|it| json!({ "name": it.name, "heads": heads(&it.heads) }));
        out::line(json!(list.collect::<Vec<_>>()))?;
        return Ok(());
    }
    for document in &removed {
        out::line(&document.name)?;
    }
    Ok(())
}
