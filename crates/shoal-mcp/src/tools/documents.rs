//! `documents`: listed, shown at a path and at heads, their histories and differences.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal_sql::Value;

use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::desk::Work;
use crate::page::{self, Query, rows, text};
use crate::refusal::{Refusal, no_document};

pub(super) const KIND: Kind = Kind {
    name: "documents",
    title: "Read documents",
    words: "Reads Automerge documents (JSON with history). Without name it lists them. With name it \
            shows the document, or with path (a JSON Pointer such as /todos/0) a part of it; heads \
            shows it as it was at these changes. action history lists the changes, newest first; \
            action diff tells the steps from the heads from (the beginning unless told) to the \
            heads to (now unless told). Heads are hashes of changes, or their first digits, \
            separated by commas. What is too long for an answer is outlined, with its paths and \
            offsets to go on with.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["list", "show", "history", "diff"]},
                "name": {"type": "string", "description": "The document"},
                "path": {"type": "string", "description": "show: a JSON Pointer"},
                "heads": {"type": "string", "description": "show: the state; now unless told"},
                "from": {"type": "string", "description": "diff: the earlier state"},
                "to": {"type": "string", "description": "diff: the later state"},
                "offset": {
                    "type": "integer", "minimum": 0,
                    "description": "show: the first character, item or entry of a long value"
                },
                "prefix": {"type": "string", "description": "list: how the names begin"},
                "after": {"type": "string", "description": "list: the name to go on behind"},
                "rows": {"type": "integer", "minimum": 1, "description": "Rows of a page at most"},
                "cursor": {"type": "string", "description": "The next_cursor of a page"}
            },
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Reads granted Automerge documents (JSON with history). Without name it lists them. With \
         name it shows the document, or with path (a JSON Pointer such as /todos/0) a part of it. \
         Where rules grant histories, heads shows it as it was at these changes, action history \
         lists the changes, newest first, and action diff tells the steps from the heads from (the \
         beginning unless told) to the heads to (now unless told). What is too long for an answer \
         is outlined, with its paths and offsets to go on with.",
    ),
    call,
};

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Show,
    History,
    Diff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    action: Option<Action>,
    name: Option<String>,
    path: Option<String>,
    heads: Option<String>,
    from: Option<String>,
    to: Option<String>,
    offset: Option<usize>,
    prefix: Option<String>,
    after: Option<String>,
    rows: Option<usize>,
    cursor: Option<String>,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    if let Some(cursor) = &given.cursor {
        return page::next(work, cursor, given.rows).map(Answer::Object);
    }
    let action = given.action.unwrap_or(match given.name {
        Some(_) => Action::Show,
        None => Action::List,
    });
    if action == Action::List {
        return list(work, &given).map(Answer::Object);
    }
    let Some(name) = given.name.clone() else {
        return Err(no_document(Refusal::new("name is missing")));
    };
    let answer = match action {
        Action::List | Action::Show => show(work, &name, &given),
        Action::History => history(work, &name, given.rows),
        Action::Diff => diff(work, &name, &given),
    };
    answer.map(Answer::Object)
}

/// A document in a list; of its history nothing is told where rules grant none.
struct Listed {
    name: String,
    history: Option<Size>,
}

/// The sum of a document's chunks.
struct Size {
    heads: Vec<String>,
    changes: i64,
    bytes: i64,
}

/// The documents in sight, by name, without their histories under rules.
fn listed(work: &mut Work<'_>) -> Result<Vec<Listed>, Refusal> {
    let grants = Grants::of(work)?;
    let mut documents: Vec<Listed> = match work.seen.whole() {
        Some(database) => {
            let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let listed = database.documents()?.into_iter().map(|document| {
                let heads = document.heads.iter().map(ToString::to_string).collect();
                let (changes, bytes) = (count(document.changes), count(document.bytes));
                let history = Some(Size { heads, changes, bytes });
                Listed { name: document.name, history }
            });
            listed.collect()
        }
        None if !grants.names => Vec::new(),
        None => {
            let found = rows(work, "SELECT name FROM _shoal_doc", &[])?;
            found.iter().map(|row| Listed { name: text(&row[0]), history: None }).collect()
        }
    };
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(documents)
}

/// Names of the documents in sight, ascending.
///
/// # Errors
/// The database's.
pub(crate) fn names(work: &mut Work<'_>) -> Result<Vec<String>, Refusal> {
    Ok(listed(work)?.into_iter().map(|document| document.name).collect())
}

/// The chunks of the document of a row `d` of `_shoal_doc`.
const CHUNKS: &str =
    "_shoal_chunk AS c WHERE c.id BETWEEN d.id << 32 AND (d.id << 32) + 4294967295";

/// The size of a document whose chunks rules grant.
fn size_of(work: &mut Work<'_>, name: &str) -> Result<Option<Size>, Refusal> {
    let sql = format!(
        "SELECT (SELECT lower(hex(c.heads)) FROM {CHUNKS} ORDER BY c.id DESC LIMIT 1), \
         (SELECT sum(c.changes) FROM {CHUNKS}), (SELECT sum(length(c.bytes)) FROM {CHUNKS}) \
         FROM _shoal_doc AS d WHERE d.name = ?1"
    );
    let found = rows(work, &sql, &[Value::text(name)])?;
    Ok(found.first().map(|row| Size {
        heads: heads_in(&text(&row[0])),
        changes: row[1].to_int(),
        bytes: row[2].to_int(),
    }))
}

/// The parts of documents granted by rules: columns of `_shoal_doc`, and `_shoal_chunk` for the
/// history.
#[derive(Clone, Copy, Debug, Default)]
struct Grants {
    names: bool,
    heads: bool,
    contents: bool,
    history: bool,
}

impl Grants {
    fn of(work: &mut Work<'_>) -> Result<Grants, Refusal> {
        if !work.seen.is_narrowed() {
            return Ok(Grants { names: true, heads: true, contents: true, history: true });
        }
        let mut columns = |table: &str| {
            let sql = "SELECT name FROM pragma_table_info(?1)";
            let found = rows(work, sql, &[Value::text(table)])?;
            Ok::<_, Refusal>(found.iter().map(|row| text(&row[0])).collect::<Vec<String>>())
        };
        let (doc, chunk) = (columns("_shoal_doc")?, columns("_shoal_chunk")?);
        let has = |columns: &[String], name: &str| columns.iter().any(|column| column == name);
        let names = has(&doc, "name");
        let chunks = ["id", "heads", "changes", "waiting", "stored", "bytes"];
        Ok(Grants {
            names,
            heads: names && has(&doc, "heads"),
            contents: names && has(&doc, "json"),
            history: names && has(&doc, "id") && chunks.iter().all(|column| has(&chunk, column)),
        })
    }

    /// Refuses a question about the past where rules grant no history, of absent documents alike.
    fn check_history(self) -> Result<(), Refusal> {
        match self.history || !self.names {
            true => Ok(()),
            false => Err(Refusal::new("the rules of this server grant documents as they are now")),
        }
    }
}

/// Names, heads and sizes, in the order of the names.
fn list(work: &mut Work<'_>, given: &Given) -> Result<Map<String, Json>, Refusal> {
    let grants = Grants::of(work)?;
    let mut documents = listed(work)?;
    let prefix = given.prefix.as_deref().unwrap_or_default();
    documents.retain(|document| {
        document.name.starts_with(prefix)
            && given.after.as_ref().is_none_or(|after| document.name > *after)
    });
    let limits = work.desk.limits;
    let most = given.rows.unwrap_or(100).clamp(1, limits.rows);
    let mut room = limits.bytes;
    let mut told = Vec::new();
    for document in documents.iter_mut().take(most) {
        if document.history.is_none() && grants.history {
            document.history = size_of(work, &document.name)?;
        }
        let heads = document.history.as_ref().map_or(0, |history| history.heads.len());
        let used = document.name.len() + 67 * heads + 60;
        if used > room && !told.is_empty() {
            break;
        }
        room = room.saturating_sub(used);
        told.push(match &document.history {
            Some(Size { heads, changes, bytes }) => json!({
                "name": document.name, "heads": heads, "changes": changes, "bytes": bytes
            }),
            None => json!({"name": document.name}),
        });
    }
    let mut answer = Map::new();
    if told.len() < documents.len() {
        let left = documents.len() - told.len();
        let last = &documents[told.len() - 1].name;
        page::note(&mut answer, &[format!("{left} more: call with after {last:?}.")]);
    }
    answer.insert("documents".to_owned(), Json::Array(told));
    Ok(answer)
}

/// The JSON of a document, now or at heads.
///
/// # Errors
/// No such document or change.
pub(crate) fn json_of(
    work: &mut Work<'_>,
    name: &str,
    heads: Option<&str>,
) -> Result<Json, Refusal> {
    let grants = Grants::of(work)?;
    let json = if grants.history || !grants.names {
        let values = [Value::text(name), heads.map_or(Value::Null, Value::text)];
        let found =
            rows(work, "SELECT json FROM document_json(?1, ?2)", &values).map_err(|refusal| {
                match refusal.0.starts_with("no such document") {
                    true => no_document(refusal),
                    false => refusal.hint("action history lists the changes of a document"),
                }
            })?;
        found.first().map(|row| text(&row[0])).unwrap_or_default()
    } else {
        if heads.is_some() {
            grants.check_history()?;
        }
        if !grants.contents {
            return Err(Refusal::new("the rules of this server grant names of documents alone"));
        }
        let found = rows(work, "SELECT json FROM _shoal_doc WHERE name = ?1", &[name.into()])?;
        let absent = || no_document(Refusal::new(format!("no such document: {name}")));
        text(&found.first().ok_or_else(absent)?[0])
    };
    work.stop.check()?;
    serde_json::from_str(&json)
        .map_err(|error| Refusal::new(format!("document {name} has no JSON: {error}")))
}

fn show(work: &mut Work<'_>, name: &str, given: &Given) -> Result<Map<String, Json>, Refusal> {
    let whole = json_of(work, name, given.heads.as_deref())?;
    let path = given.path.as_deref().unwrap_or_default();
    let Some(value) = whole.pointer(path) else { return Err(no_value(&whole, path)) };
    let mut answer = Map::new();
    answer.insert("name".to_owned(), json!(name));
    let heads = match &given.heads {
        Some(heads) => json!(heads),
        None => json!(heads_of(work, name)),
    };
    answer.insert("heads".to_owned(), heads);
    if !path.is_empty() {
        answer.insert("path".to_owned(), json!(path));
    }
    let most = work.desk.limits.bytes;
    let bytes = length(value);
    if bytes <= most && given.offset.is_none() {
        answer.insert("value".to_owned(), value.clone());
        return Ok(answer);
    }
    let offset = given.offset.unwrap_or_default();
    let part = part(value, offset, most);
    answer.insert("part".to_owned(), part.value);
    answer.insert("offset".to_owned(), json!(offset));
    answer.insert("of".to_owned(), json!(part.of));
    let mut notes = vec![format!(
        "The value has {bytes} bytes; this is a part, in which … stands for a long value: ask for \
         its path."
    )];
    if let Some(next) = part.next {
        answer.insert("next_offset".to_owned(), json!(next));
        notes.push(format!("Go on with offset {next}."));
    }
    page::note(&mut answer, &notes);
    Ok(answer)
}

/// The refusal of a path into nowhere: its last good place, and the names there.
fn no_value(whole: &Json, path: &str) -> Refusal {
    if !path.starts_with('/') {
        return Refusal::new(format!("{path}: not a path; those begin with a slash, as /todos/0"));
    }
    let mut reached = "";
    for (place, _) in path.match_indices('/').chain([(path.len(), "")]) {
        if whole.pointer(&path[..place]).is_some() {
            reached = &path[..place];
        }
    }
    let there = whole.pointer(reached).unwrap_or(whole);
    let shown = if reached.is_empty() { "the document" } else { reached };
    let refusal = Refusal::new(format!("there is no value at {path}"));
    match there {
        Json::Object(entries) => {
            let names: Vec<&str> = entries.keys().take(40).map(String::as_str).collect();
            refusal.hint(format_args!("{shown} has: {}", names.join(", ")))
        }
        Json::Array(items) => refusal.hint(format_args!("{shown} is a list of {}", items.len())),
        _ => refusal.hint(format_args!("{shown} is neither an object nor a list")),
    }
}

/// The heads of a document as stored; none where the file is of the first layout. Without its
/// history the heads of its JSON.
fn heads_of(work: &mut Work<'_>, name: &str) -> Vec<String> {
    let grants = Grants::of(work).unwrap_or_default();
    let whole = "SELECT lower(hex(c.heads)) FROM _shoal_doc AS d JOIN _shoal_chunk AS c \
               ON c.id BETWEEN d.id << 32 AND (d.id << 32) + 4294967295 \
               WHERE d.name = ?1 ORDER BY c.id DESC LIMIT 1";
    let sql = match grants {
        Grants { history: true, .. } => whole,
        Grants { heads: true, .. } => "SELECT lower(hex(heads)) FROM _shoal_doc WHERE name = ?1",
        _ => return Vec::new(),
    };
    let found = rows(work, sql, &[Value::text(name)]).unwrap_or_default();
    heads_in(&found.first().map(|row| text(&row[0])).unwrap_or_default())
}

/// The hashes of a text of 64 digits each.
fn heads_in(digits: &str) -> Vec<String> {
    let heads = digits.as_bytes().chunks(64);
    heads.map(|head| String::from_utf8_lossy(head).into_owned()).collect()
}

fn history(
    work: &mut Work<'_>,
    name: &str,
    most: Option<usize>,
) -> Result<Map<String, Json>, Refusal> {
    Grants::of(work)?.check_history()?;
    let sql = "SELECT hash, at, actor, seq, ops, message, stored_at FROM \
               (SELECT row_number() OVER () AS place, hash, \
                strftime('%Y-%m-%dT%H:%M:%SZ', time, 'unixepoch') AS at, actor, seq, ops, message, \
                strftime('%Y-%m-%dT%H:%M:%fZ', stored_at / 1000.0, 'unixepoch') AS stored_at \
                FROM document_history(?1)) ORDER BY place DESC";
    page::first(work, Query::new(sql, vec![Value::text(name)]), most).map_err(missing)
}

fn diff(work: &mut Work<'_>, name: &str, given: &Given) -> Result<Map<String, Json>, Refusal> {
    Grants::of(work)?.check_history()?;
    let heads = |heads: &Option<String>| heads.as_deref().map_or(Value::Null, Value::text);
    let values = vec![Value::text(name), heads(&given.from), heads(&given.to)];
    let sql = "SELECT path, action, before, after FROM document_diff(?1, ?2, ?3)";
    page::first(work, Query::new(sql, values), given.rows).map_err(missing)
}

fn missing(refusal: Refusal) -> Refusal {
    match refusal.0.starts_with("no such document") {
        true => no_document(refusal),
        false => refusal,
    }
}

fn length(value: &Json) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

/// A part of a value.
struct Part {
    value: Json,
    /// Characters, items or entries of the whole.
    of: usize,
    /// The first one behind the part.
    next: Option<usize>,
}

/// The share of an answer for one item; a longer one is outlined.
const ITEM_SHARE: usize = 8;

/// The part of a value from `offset` on, in about `most` bytes.
fn part(value: &Json, offset: usize, most: usize) -> Part {
    match value {
        Json::String(text) => {
            let of = text.chars().count();
            let mut shown = String::new();
            for letter in text.chars().skip(offset) {
                if shown.len() + letter.len_utf8() > most {
                    break;
                }
                shown.push(letter);
            }
            let end = offset.saturating_add(shown.chars().count());
            Part { value: json!(shown), of, next: (end < of).then_some(end) }
        }
        Json::Array(items) => {
            let mut shown = Vec::new();
            let mut room = most;
            for item in items.iter().skip(offset) {
                let item = outlined(item, most / ITEM_SHARE);
                let used = length(&item) + 1;
                if used > room && !shown.is_empty() {
                    break;
                }
                room = room.saturating_sub(used);
                shown.push(item);
            }
            let end = offset.saturating_add(shown.len());
            Part {
                value: Json::Array(shown),
                of: items.len(),
                next: (end < items.len()).then_some(end),
            }
        }
        Json::Object(entries) => {
            let mut shown = Map::new();
            let mut room = most;
            for (key, entry) in entries.iter().skip(offset) {
                let entry = outlined(entry, most / ITEM_SHARE);
                let used = length(&entry) + key.len() + 4;
                if used > room && !shown.is_empty() {
                    break;
                }
                room = room.saturating_sub(used);
                shown.insert(key.clone(), entry);
            }
            let end = offset.saturating_add(shown.len());
            Part {
                of: entries.len(),
                next: (end < entries.len()).then_some(end),
                value: Json::Object(shown),
            }
        }
        scalar => Part { value: scalar.clone(), of: 1, next: None },
    }
}

/// A value, or the size of a long one.
fn outlined(value: &Json, most: usize) -> Json {
    let bytes = length(value);
    if bytes <= most {
        return value.clone();
    }
    match value {
        Json::String(text) => {
            let begin: String = text.chars().take(80).collect();
            json!(format!("{begin}… ({} characters)", text.chars().count()))
        }
        Json::Array(items) => json!(format!("… a list of {} items, {bytes} bytes", items.len())),
        Json::Object(entries) => {
            let keys: Vec<&str> = entries.keys().take(10).map(String::as_str).collect();
            let more = if entries.len() > keys.len() { ", …" } else { "" };
            json!(format!("… an object of {bytes} bytes with {}{more}", keys.join(", ")))
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_long_value_make_the_whole() {
        let items: Vec<Json> = (0..500).map(|n| json!({"n": n})).collect();
        let whole = Json::Array(items.clone());
        let (mut offset, mut seen) = (Some(0), Vec::new());
        while let Some(at) = offset {
            let part = part(&whole, at, 1000);
            assert!(length(&part.value) <= 1100);
            seen.extend(part.value.as_array().unwrap().clone());
            offset = part.next;
        }
        assert_eq!(seen, items);
        let text = "é".repeat(900);
        let first = part(&json!(text), 0, 1000);
        assert_eq!((first.of, first.next), (900, Some(500)));
        let last = part(&json!(text), 500, 1000);
        assert_eq!((last.value, last.next), (json!("é".repeat(400)), None));
    }

    #[test]
    fn a_path_that_leads_nowhere_tells_how_far_it_led() {
        let whole = json!({"todos": [{"title": "a"}], "x": 1});
        let refusal = |path| no_value(&whole, path).0;
        assert!(refusal("/todos/0/titel").contains("/todos/0 has: title"));
        assert!(refusal("/todos/7").contains("/todos is a list of 1"));
        assert!(refusal("/nothing").contains("the document has: todos, x"));
        assert!(refusal("/x/y").contains("neither an object nor a list"));
        assert!(refusal("todos").contains("begin with a slash"));
    }
}
