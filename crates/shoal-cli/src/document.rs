//! Shared by the verbs of `shoal doc`: names of heads, an edit as one change, JSON on stdout.

pub(crate) mod edit;
pub(crate) mod heads;

use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;
use crate::out::Stdout;

/// Writes `json` indented (text) or on one line (json).
pub(crate) fn write_json(
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
