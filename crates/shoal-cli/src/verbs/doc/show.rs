//! `shoal doc show`: a document as JSON, at present or in an earlier state.

use std::io::Write;

use shoal_crdt::{ROOT, ReadDoc, pointer};

use crate::args::ShowArgs;
use crate::document::heads::heads;
use crate::document::write_json;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
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
