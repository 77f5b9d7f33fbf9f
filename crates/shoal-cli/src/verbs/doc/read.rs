//! What a document says: show, info, history, ls.

use std::io::Write;

use serde::Serialize;
use serde_json::json;
use shoal::{Access, Document};
use shoal_crdt::{ExpandedChange, ROOT, ReadDoc, pointer};

use super::heads::heads;
use crate::args::{Format, HistoryArgs, InfoArgs, LsArgs, ShowArgs};
use crate::failure::Failure;
use crate::open;
use crate::out::{self, Stdout};
use crate::place::Place;
use crate::time::utc;

/// `shoal doc show`.
pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.doc);
    let document = open::load(&place)?;
    let at_place = |error: shoal_crdt::Error| Failure::at(&place, error);
    let mut out = out::stdout();
    let past = match &args.at {
        Some(text) => Some(document.at(&heads(&place, &document, text)?)),
        None => None,
    };
    if args.path.is_empty() {
        match &past {
            None => write_json(&mut out, args.format, &document.to_json())?,
            Some(past) => {
                write_json(&mut out, args.format, &past.hydrate(&ROOT).map_err(at_place)?)?;
            }
        }
    } else {
        let json = match &past {
            None => {
                pointer::resolve(&document, &args.path)
                    .map_err(|error| Failure::at(&place, error))?;
                serde_json::to_value(document.to_json())
            }
            Some(past) => {
                pointer::resolve(past, &args.path).map_err(|error| Failure::at(&place, error))?;
                serde_json::to_value(past.hydrate(&ROOT).map_err(at_place)?)
            }
        };
        let json = json.map_err(|error| Failure::at(&place, error))?;
        let value = json.pointer(&args.path).ok_or_else(|| {
            Failure::at(&place, format_args!("there is no value at path: {}", args.path))
        })?;
        write_json(&mut out, args.format, value)?;
    }
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

pub(super) fn write_json(
    out: &mut Stdout,
    format: Format,
    json: &impl Serialize,
) -> Result<(), Failure> {
    match format {
        Format::Text => serde_json::to_writer_pretty(out, json),
        Format::Json => serde_json::to_writer(out, json),
    }
    .map_err(|error| {
        if error.is_io() { std::io::Error::from(error).into() } else { Failure::new(error) }
    })
}

/// `shoal doc info`.
pub(super) fn info(args: &InfoArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.doc);
    let (document, bytes) = load_measured(&place)?;
    let heads: Vec<String> = document.heads().iter().map(ToString::to_string).collect();
    let mut actors: Vec<String> = document.authors().map(ToString::to_string).collect();
    actors.sort_unstable();
    let stats = document.stats();
    match args.format {
        Format::Json => out::line(json!({
            "heads": heads,
            "actors": actors,
            "changes": stats.num_changes,
            "ops": stats.num_ops,
            "queued": stats.num_queued,
            "bytes": bytes,
        }))?,
        Format::Text => {
            let mut out = out::stdout();
            writeln!(out, "heads    {}", heads.join("\n         "))?;
            writeln!(out, "actors   {}", actors.join("\n         "))?;
            writeln!(out, "changes  {}", stats.num_changes)?;
            writeln!(out, "ops      {}", stats.num_ops)?;
            if stats.num_queued > 0 {
                writeln!(
                    out,
                    "queued   {} (they wait for changes that are missing)",
                    stats.num_queued
                )?;
            }
            writeln!(out, "bytes    {bytes}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The document and the bytes it takes where it is.
fn load_measured(place: &Place) -> Result<(Document, u64), Failure> {
    let bytes = match place {
        Place::Stream => open::stdin()?,
        Place::File(path) => open::read(path)?,
        Place::Stored { .. } => {
            let document = open::load(place)?;
            let bytes = document.changes().map(|change| change.raw_bytes().len() as u64).sum();
            return Ok((document, bytes));
        }
    };
    Ok((open::parse(place, &bytes)?, bytes.len() as u64))
}

/// `shoal doc history`.
pub(super) fn history(args: &HistoryArgs) -> Result<(), Failure> {
    let document = open::load(&Place::parse(&args.doc))?;
    let mut out = out::stdout();
    for change in document.changes() {
        if args.ops {
            write_json(&mut out, args.format, &ExpandedChange::from(change))?;
            writeln!(out)?;
            continue;
        }
        match args.format {
            Format::Json => writeln!(
                out,
                "{}",
                json!({
                    "hash": change.hash().to_string(),
                    "actor": change.actor().to_string(),
                    "seq": change.seq(),
                    "time": change.time(),
                    "start_op": change.start_op(),
                    "ops": change.len(),
                    "deps": change.deps().iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "message": change.message(),
                })
            )?,
            Format::Text => {
                let ops = change.len();
                let plural = if ops == 1 { "op" } else { "ops" };
                write!(
                    out,
                    "{}  {}  {:<12} #{:<4} {ops:>6} {plural:<3}",
                    short(&change.hash().to_string(), 12),
                    utc(change.time()),
                    short(&change.actor().to_string(), 12),
                    change.seq(),
                )?;
                match change.message() {
                    Some(message) => writeln!(out, "  {}", message.escape_debug())?,
                    None => writeln!(out)?,
                }
            }
        }
    }
    Ok(out.flush()?)
}

/// The first `digits` of a hexadecimal id.
fn short(hex: &str, digits: usize) -> &str {
    hex.get(..digits).unwrap_or(hex)
}

/// `shoal doc ls`.
pub(super) fn ls(args: &LsArgs) -> Result<(), Failure> {
    let mut database = open::database(&args.file, Access::ReadOnly)?;
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
