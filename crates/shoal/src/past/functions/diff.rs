//! `document_diff`: the steps from one state of a document to another.

use shoal_crdt::{
    DocumentAt, ObjId, Patch, PatchAction, PatchProp, PatchScalar, PatchValue, ROOT, ReadDoc,
    hydrate,
};
use shoal_sql::Value;

use super::{Asked, Row};
use crate::Error;
use crate::past::values::{brought, json, push, scalar, scalar_json};

/// One row a step, in terms of the document after the steps before: where, `put`, `insert`,
/// `delete`, `increment`, `mark` or `conflict`, the value before and after. New objects come
/// with everything in them.
///
/// Cost: the document at `from` whole, and the changes since.
pub(super) fn diff(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let from = asked.heads(0)?.unwrap_or_default();
    let to = asked.heads(1)?.unwrap_or_else(|| asked.document.heads());
    let patches = asked.document.diff(&from, &to)?;
    let mut steps = Steps {
        after: asked.document.at(&to),
        copy: asked.document.at(&from).hydrate(&ROOT)?,
        new: Vec::new(),
        rows: Vec::new(),
    };
    for patch in &patches {
        asked.context.check()?;
        let is_within_new = steps.new.contains(&patch.obj)
            || patch.path.iter().any(|(object, _)| steps.new.contains(object));
        if !is_within_new {
            steps.tell(patch)?;
        }
        steps.copy.apply_patch(patch, asked.document.text_encoding()).map_err(|error| {
            Error::Past { why: format!("document {}: {error}", asked.doc.name) }
        })?;
    }
    Ok(steps.rows)
}

struct Steps<'d> {
    after: DocumentAt<'d>,
    /// The document behind the steps told.
    copy: hydrate::Value,
    /// Objects told of with everything in them.
    new: Vec<ObjId>,
    rows: Vec<Row>,
}

impl Steps<'_> {
    fn tell(&mut self, patch: &Patch) -> Result<(), Error> {
        let mut path = String::new();
        for (_, prop) in &patch.path {
            push(&mut path, prop);
        }
        let at = |prop: &PatchProp| {
            let mut inner = path.clone();
            push(&mut inner, prop);
            inner
        };
        match &patch.action {
            PatchAction::PutMap { key, value } => {
                let prop = PatchProp::Key(key.clone());
                let before = self.before(patch, &prop);
                let action = if before.is_some() { "put" } else { "insert" };
                let value = self.value(value)?;
                self.row(at(&prop), action, before.map_or(Value::Null, sql), value);
            }
            PatchAction::PutSeq { index, value } => {
                let prop = PatchProp::Index(*index);
                let before = self.before(patch, &prop).map_or(Value::Null, sql);
                let value = self.value(value)?;
                self.row(at(&prop), "put", before, value);
            }
            PatchAction::Insert { index, values } => {
                for (place, value) in values.iter().enumerate() {
                    let value = self.value(value)?;
                    self.row(at(&PatchProp::Index(index + place)), "insert", Value::Null, value);
                }
            }
            PatchAction::SpliceText { index, text, .. } => {
                let text = text.as_str().into();
                self.row(at(&PatchProp::Index(*index)), "insert", Value::Null, text);
            }
            PatchAction::DeleteMap { key } => {
                let prop = PatchProp::Key(key.clone());
                let before = self.before(patch, &prop).map_or(Value::Null, sql);
                self.row(at(&prop), "delete", before, Value::Null);
            }
            PatchAction::DeleteSeq { index, length } => {
                let gone: Vec<Value> = match self.object(patch) {
                    Some(hydrate::Value::List(items)) => {
                        let items = items.iter().skip(*index).take(*length);
                        items.cloned().map(sql).collect()
                    }
                    Some(hydrate::Value::Text(text)) => {
                        let gone: String = text.chars().skip(*index).take(*length).collect();
                        vec![gone.into()]
                    }
                    _ => vec![Value::Null],
                };
                for before in gone {
                    self.row(at(&PatchProp::Index(*index)), "delete", before, Value::Null);
                }
            }
            PatchAction::Increment { prop, by } => {
                let before = self.before(patch, prop).map_or(Value::Null, sql);
                let after = match &before {
                    Value::Int(total) => Value::Int(total.wrapping_add(*by)),
                    _ => Value::Int(*by),
                };
                self.row(at(prop), "increment", before, after);
            }
            PatchAction::Conflict { prop } => {
                let winner = self.before(patch, prop).map_or(Value::Null, sql);
                self.row(at(prop), "conflict", winner.clone(), winner);
            }
            PatchAction::Mark { marks } => {
                for mark in marks {
                    let told = serde_json::json!({
                        "name": &*mark.name, "start": mark.start, "end": mark.end,
                        "value": scalar_json(&mark.value),
                    });
                    self.row(path.clone(), "mark", Value::Null, told.to_string().into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, path: String, action: &str, before: Value, after: Value) {
        self.rows.push(vec![path.into(), action.into(), before, after]);
    }

    /// The value brought by a patch; an object with its contents in the later state.
    fn value(&mut self, value: &PatchValue) -> Result<Value, Error> {
        match &value.value {
            PatchScalar::Scalar(found) => Ok(scalar(found.as_ref())),
            PatchScalar::Object(kind) => {
                self.new.push(value.id.clone());
                match *kind {
                    shoal_crdt::ObjType::Text => Ok(self.after.text(&value.id)?.into()),
                    _ => match json(&self.after, &value.id)? {
                        Value::Null => Ok(brought(value).to_string().into()),
                        json => Ok(json),
                    },
                }
            }
        }
    }

    /// The object changed by a patch, before the patch.
    fn object(&self, patch: &Patch) -> Option<&hydrate::Value> {
        let mut value = &self.copy;
        for (_, prop) in &patch.path {
            value = inner(value, prop)?;
        }
        Some(value)
    }

    /// The value at a place before a patch.
    fn before(&self, patch: &Patch, prop: &PatchProp) -> Option<hydrate::Value> {
        inner(self.object(patch)?, prop).cloned()
    }
}

fn inner<'v>(value: &'v hydrate::Value, prop: &PatchProp) -> Option<&'v hydrate::Value> {
    match (value, prop) {
        (hydrate::Value::Map(entries), PatchProp::Key(key)) => entries.get(&**key),
        (hydrate::Value::List(items), PatchProp::Index(index)) => items.get(*index),
        _ => None,
    }
}

/// A value as SQL shows it: objects as JSON, texts as text.
fn sql(value: hydrate::Value) -> Value {
    match value {
        hydrate::Value::Scalar(found) => scalar(found.as_ref()),
        hydrate::Value::Text(text) => text.into(),
        other => serde_json::to_string(&other).map_or(Value::Null, Value::text),
    }
}
