//! `shoal doc history`: one line per change, or every change in full.

use std::io::Write;

use serde_json::json;
use shoal_crdt::ExpandedChange;

use crate::args::{Format, HistoryArgs};
use crate::document::write_json;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;
use crate::time::utc;

pub(crate) fn run(args: &HistoryArgs) -> Result<(), Failure> {
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
