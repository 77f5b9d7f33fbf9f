//! `shoal doc diff`: the steps from one state of a document, or one document, to another.

use std::io::Write;

use serde_json::{Map, Value as Json, json};
use shoal::{ChangeHash, Document};
use shoal_crdt::hydrate::Value;
use shoal_crdt::{ObjType, Patch, PatchAction, PatchProp, PatchScalar, PatchValue};
use shoal_crdt::{ROOT, ReadDoc, Scalar, json_patch};

use crate::args::{DiffArgs, DiffForm, Format};
use crate::document::heads::heads;
use crate::document::write_json;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.doc);
    let other_place = args.other.as_deref().map(Place::parse);
    if place == Place::Stream && other_place == Some(Place::Stream) {
        return Err(Failure::new("only one of the two documents can come from stdin"));
    }
    if args.form == DiffForm::Steps && other_place.is_some() {
        return Err(Failure::new("steps lead from one state of a document to another state of it")
            .hint("shoal doc merge makes one document of two")
            .code(2));
    }
    let document = open::load(&place)?;
    let from = args.from.as_deref().map(|text| heads(&place, &document, text)).transpose()?;
    let Some(other_place) = other_place else {
        let from = from.unwrap_or_default();
        let to = match &args.to {
            Some(text) => heads(&place, &document, text)?,
            None => document.heads(),
        };
        return match args.form {
            DiffForm::Steps => steps(&place, &document, &from, &to, args.format),
            form => {
                let old = json_at(&place, &document, Some(&from))?;
                write_diff(&old, &json_at(&place, &document, Some(&to))?, form, args.format)
            }
        };
    };
    let other = open::load(&other_place)?;
    let to = args.to.as_deref().map(|text| heads(&other_place, &other, text)).transpose()?;
    let old = json_at(&place, &document, from.as_deref())?;
    let new = json_at(&other_place, &other, to.as_deref())?;
    write_diff(&old, &new, args.form, args.format)
}

fn write_diff(old: &Json, new: &Json, form: DiffForm, format: Format) -> Result<(), Failure> {
    let patch = match form {
        DiffForm::Merge => json_patch::merge_diff(old, new),
        DiffForm::Patch | DiffForm::Steps => json_patch::diff(old, new),
    };
    let mut out = out::stdout();
    write_json(&mut out, format, &patch)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// The document as JSON, at heads or at present.
fn json_at(
    place: &Place,
    document: &Document,
    heads: Option<&[ChangeHash]>,
) -> Result<Json, Failure> {
    let value = match heads {
        Some(heads) => document.at(heads).hydrate(&ROOT),
        None => document.hydrate(&ROOT),
    };
    let value = value.map_err(|error| Failure::at(place, error))?;
    serde_json::to_value(value).map_err(|error| Failure::at(place, error))
}

/// Prints the patches leading from one state to another, one a line.
fn steps(
    place: &Place,
    document: &Document,
    from: &[ChangeHash],
    to: &[ChangeHash],
    format: Format,
) -> Result<(), Failure> {
    let patches = document.diff(from, to).map_err(|error| Failure::at(place, error))?;
    let mut out = out::stdout();
    for patch in &patches {
        let step = step(patch);
        match format {
            Format::Json => writeln!(out, "{step}")?,
            Format::Text => {
                let word = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
                write!(out, "{:<10}{}", word("action"), word("path"))?;
                let rest = ["value", "values", "text", "by", "length", "marks"];
                for value in rest.iter().filter_map(|name| step.get(*name)) {
                    write!(out, "  {value}")?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(out.flush()?)
}

/// A patch as JSON: an action, the JSON Pointer of the action's target, and any new value.
fn step(patch: &Patch) -> Json {
    let mut pointer = String::new();
    for (_, prop) in &patch.path {
        push_prop(&mut pointer, prop);
    }
    let at = |prop: &PatchProp| {
        let mut pointer = pointer.clone();
        push_prop(&mut pointer, prop);
        pointer
    };
    match &patch.action {
        PatchAction::PutMap { key, value } => {
            let path = at(&PatchProp::Key(key.clone()));
            json!({"action": "put", "path": path, "value": brought(value)})
        }
        PatchAction::PutSeq { index, value } => {
            json!({"action": "put", "path": at(&PatchProp::Index(*index)), "value": brought(value)})
        }
        PatchAction::Insert { index, values } => {
            let values: Vec<Json> = values.iter().map(brought).collect();
            json!({"action": "insert", "path": at(&PatchProp::Index(*index)), "values": values})
        }
        PatchAction::SpliceText { index, text, marks } => {
            let path = at(&PatchProp::Index(*index));
            let mut step = json!({"action": "splice", "path": path, "text": text});
            if !marks.is_empty() {
                let marks = marks.iter().map(|(name, value)| (name.to_string(), scalar(value)));
                step["marks"] = Json::Object(marks.collect());
            }
            step
        }
        PatchAction::Increment { prop, by } => {
            json!({"action": "increment", "path": at(prop), "by": by})
        }
        PatchAction::Conflict { prop } => json!({"action": "conflict", "path": at(prop)}),
        PatchAction::DeleteMap { key } => {
            json!({"action": "delete", "path": at(&PatchProp::Key(key.clone()))})
        }
        PatchAction::DeleteSeq { index, length } => {
            json!({"action": "delete", "path": at(&PatchProp::Index(*index)), "length": length})
        }
        PatchAction::Mark { marks } => {
            let marks: Vec<Json> = marks
                .iter()
                .map(|mark| {
                    json!({
                        "name": &*mark.name,
                        "start": mark.start,
                        "end": mark.end,
                        "value": scalar(&mark.value),
                    })
                })
                .collect();
            json!({"action": "mark", "path": pointer, "marks": marks})
        }
        _ => json!({"action": "unknown", "path": pointer}),
    }
}

fn push_prop(pointer: &mut String, prop: &PatchProp) {
    pointer.push('/');
    match prop {
        PatchProp::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
        PatchProp::Index(index) => pointer.push_str(&index.to_string()),
    }
}

/// The new value of a patch; objects come empty.
fn brought(value: &PatchValue) -> Json {
    match &value.value {
        PatchScalar::Object(ObjType::Map | ObjType::Table) => Json::Object(Map::new()),
        PatchScalar::Object(ObjType::List) => json!([]),
        PatchScalar::Object(ObjType::Text) => json!(""),
        PatchScalar::Scalar(value) => scalar(value),
    }
}

/// Numbers without a form in JSON read as null.
fn scalar(value: &Scalar) -> Json {
    serde_json::to_value(Value::Scalar(value.clone())).unwrap_or(Json::Null)
}
