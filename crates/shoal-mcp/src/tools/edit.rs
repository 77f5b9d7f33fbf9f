//! `edit_document`: one edit as one change.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal_crdt::{CommitOptions, ObjType, ReadDoc, Transaction, pointer};

use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::desk::Work;
use crate::refusal::{Refusal, no_document};

pub(super) const KIND: Kind = Kind {
    name: "edit_document",
    title: "Edit a document",
    words: "Edits a document as one change, beside the edits of others: patch is a JSON Patch (RFC \
            6902), merge a JSON Merge Patch (RFC 7386), splice deletes and inserts at a position of \
            a text or a list. Give exactly one of them. Concurrent edits of other programs are \
            merged, never overwritten; with if_heads the edit is refused unless the document is \
            still at these heads. message says why, for the history. The answer has the hash of \
            the change and the new heads.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The document"},
                "patch": {
                    "type": "array", "items": {"type": "object"},
                    "description": "[{\"op\": \"replace\", \"path\": \"/todos/0/done\", \"value\": true}]"
                },
                "merge": {"type": "object", "description": "{\"title\": \"New\", \"gone\": null}"},
                "splice": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "JSON Pointer of a text or list"},
                        "position": {"type": "integer", "minimum": 0},
                        "delete": {"type": "integer", "minimum": 0},
                        "text": {"type": "string", "description": "Inserted into a text"},
                        "items": {"type": "array", "description": "Inserted into a list"}
                    },
                    "required": ["path", "position"],
                    "additionalProperties": false
                },
                "message": {"type": "string"},
                "create": {"type": "boolean", "description": "True makes a document that is missing"},
                "if_heads": {"type": "array", "items": {"type": "string"}}
            },
            "required": ["name"],
            "additionalProperties": false
        })
    },
    writes: true,
    under_rules: UnderRules::Refused(
        "under rules nothing is written. Whoever started this server can let an agent write \
         with shoal mcp --write, without --as",
    ),
    call,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    name: String,
    patch: Option<Json>,
    merge: Option<Json>,
    splice: Option<Splice>,
    message: Option<String>,
    #[serde(default)]
    create: bool,
    if_heads: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Splice {
    path: String,
    position: usize,
    #[serde(default)]
    delete: usize,
    text: Option<String>,
    items: Option<Vec<Json>>,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    let edits = [given.patch.is_some(), given.merge.is_some(), given.splice.is_some()];
    if edits.iter().filter(|is_given| **is_given).count() != 1 {
        return Err(Refusal::new("give exactly one of patch, merge and splice"));
    }
    let guard = work.desk.guard.clone();
    let now = work.desk.environment.now_seconds();
    let stop = work.stop;
    let database = work.database("an edit of a document")?;
    let opened = match given.create {
        true => database.open_or_create(&given.name),
        false => database.open_document(&given.name),
    };
    let mut document = opened.map_err(|error| match error {
        shoal::Error::NoDocument { .. } => {
            no_document(Refusal::new(error.to_string()).hint("create true makes it"))
        }
        error => error.into(),
    })?;
    if let Some(wanted) = &given.if_heads {
        let mut heads: Vec<String> = document.heads().iter().map(ToString::to_string).collect();
        let mut wanted = wanted.clone();
        heads.sort();
        wanted.sort();
        if heads != wanted {
            return Err(Refusal::new(format!(
                "the document is at other heads by now: {}",
                heads.join(", ")
            ))
            .hint("Read it again, and edit what is there now"));
        }
    }
    let mut transaction = document.transaction();
    apply(&mut transaction, &given)?;
    let mut options = CommitOptions::default().with_time(now);
    if let Some(message) = &given.message {
        options = options.with_message(message);
    }
    let change = transaction.commit(options);
    stop.check()?;
    let heads = match change {
        None => document.stored_heads().to_vec(),
        Some(_) => guard.own_work(|| database.close(document))?,
    };
    let mut answer = Map::new();
    answer.insert("name".to_owned(), json!(given.name));
    answer.insert("change".to_owned(), json!(change.map(|hash| hash.to_string())));
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    answer.insert("heads".to_owned(), json!(heads));
    Ok(Answer::Object(answer))
}

fn apply(transaction: &mut Transaction<'_>, given: &Given) -> Result<(), Refusal> {
    let patched = |error: shoal_crdt::json_patch::PatchError| {
        Refusal::new(format!("nothing was changed: {error}"))
            .hint("The tool documents shows the values there are, and their paths")
    };
    if let Some(patch) = &given.patch {
        return transaction.apply_json_patch(patch).map_err(patched);
    }
    if let Some(merge) = &given.merge {
        return transaction.apply_merge_patch(merge).map_err(faulty);
    }
    match &given.splice {
        Some(splice) => apply_splice(transaction, splice),
        None => Ok(()),
    }
}

fn faulty(error: shoal_crdt::Error) -> Refusal {
    Refusal::new(format!("nothing was changed: {error}"))
}

fn apply_splice(transaction: &mut Transaction<'_>, splice: &Splice) -> Result<(), Refusal> {
    let Splice { path, position, delete, text, items } = splice;
    let object = pointer::resolve_object(&*transaction, path)
        .map_err(|error| Refusal::new(format!("nothing was changed: {error}")))?;
    let kind = transaction.object_type(&object).map_err(faulty)?;
    let length = transaction.length(&object).map_err(faulty)?;
    if position.checked_add(*delete).is_none_or(|end| end > length) {
        return Err(Refusal::new(format!(
            "nothing was changed: the {} at {path} has length {length}, too short for position \
             {position} and {delete} to delete",
            kind.name()
        )));
    }
    match (kind, text, items) {
        (ObjType::Text, text, None) => {
            let count = isize::try_from(*delete).expect("a length fits, as compared above");
            let text = text.as_deref().unwrap_or_default();
            transaction.splice_text(&object, *position, count, text).map_err(faulty)
        }
        (ObjType::List, None, items) => {
            let items = items.as_deref().unwrap_or_default();
            for (offset, item) in items.iter().enumerate() {
                transaction.insert_json(&object, position + offset, item).map_err(faulty)?;
            }
            for _ in 0..*delete {
                transaction.delete(&object, position + items.len()).map_err(faulty)?;
            }
            Ok(())
        }
        (kind, _, _) => Err(Refusal::new(format!(
            "nothing was changed: {path} is a {}; a text takes text, a list takes items",
            kind.name()
        ))),
    }
}
