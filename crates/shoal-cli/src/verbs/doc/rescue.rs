//! `shoal doc rescue`: the readable parts of a damaged Automerge file.

use serde_json::json;
use shoal::{Document, Environment};
use shoal_crdt::{Limits, Rescue, TextEncoding};

use crate::args::{Format, RescueArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

pub(crate) fn run(args: &RescueArgs) -> Result<(), Failure> {
    let bytes = open::bytes(&Place::parse(&args.file), "only files are rescued, not databases")?;
    let actor = Environment::os().new_actor();
    let limits = Limits::default();
    let Rescue { mut document, lost } =
        Document::rescue(&bytes, actor, TextEncoding::default(), &limits);
    open::save(&Place::parse(&args.output), &mut document)?;
    match args.format {
        Format::Json => {
            let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
            out::line(json!(lost))?;
        }
        Format::Text => lost.iter().for_each(|loss| out::note(format_args!("lost: {loss}"))),
    }
    match lost.len() {
        0 => Ok(()),
        count => Err(Failure::at(&args.file, format_args!("damaged, losses: {count}"))),
    }
}
