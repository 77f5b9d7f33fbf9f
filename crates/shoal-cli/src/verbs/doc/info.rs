//! `shoal doc info`: heads, actors and counts of a document.

use std::io::Write;

use serde_json::json;
use shoal::Document;

use crate::args::{Format, InfoArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
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

/// The document, and its stored size in bytes.
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
