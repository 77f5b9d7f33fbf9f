//! The table-valued functions of documents.

mod contents;
mod diff;

use std::sync::Arc;

use shoal_crdt::pointer::resolve_object;
use shoal_crdt::{Document, DocumentAt, ObjId, ObjType, ReadDoc, Span};
use shoal_sql::{Error as SqlError, ModuleContext, TableFunction, Value};

use super::heads::Heads;
use super::library::{DocName, Library};
use super::values::{count, json, scalar};
use super::{named_document, stored};
use crate::Error;

type Row = Vec<Value>;
/// The rows of a function for one document: its name, itself, the arguments behind it.
type Rows = fn(&Asked<'_>) -> Result<Vec<Row>, Error>;

/// A call of a function.
struct Asked<'a> {
    context: &'a ModuleContext<'a>,
    doc: &'a DocName,
    document: &'a Document,
    /// The arguments behind the document.
    arguments: &'a [Option<Value>],
}

impl Asked<'_> {
    /// The heads in an argument; `None` for NULL or a missing one.
    fn heads(&self, argument: usize) -> Result<Option<Vec<shoal_history::ChangeHash>>, Error> {
        match self.arguments.get(argument).and_then(Option::as_ref) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => Heads::parse(value)?.all_within(self.document, &self.doc.name).map(Some),
        }
    }

    /// The document at the heads in an argument, at present for a missing one.
    fn at(&self, argument: usize) -> Result<DocumentAt<'_>, Error> {
        let heads = self.heads(argument)?.unwrap_or_else(|| self.document.heads());
        Ok(self.document.at(&heads))
    }

    /// The text at the path in an argument; `None` where the path leads to no text.
    fn text(&self, document: &DocumentAt<'_>, argument: usize) -> Result<Option<ObjId>, Error> {
        let path = match self.arguments.get(argument).and_then(Option::as_ref) {
            Some(Value::Text(path)) => String::from_utf8_lossy(path).into_owned(),
            Some(Value::Null) => return Ok(None),
            _ => return Err(past("the path of a text is missing, such as '/body'")),
        };
        if !path.is_empty() && !path.starts_with('/') {
            return Err(past(&format!("{path}: not a path; those begin with a slash")));
        }
        let Ok(object) = resolve_object(document, &path) else { return Ok(None) };
        let is_text = document.object_type(&object)? == ObjType::Text;
        Ok(is_text.then_some(object))
    }
}

fn past(why: &str) -> Error {
    Error::Past { why: why.to_owned() }
}

/// All functions, reading documents from `library`.
pub(super) fn all(library: &Arc<Library>) -> Vec<TableFunction> {
    let of_text = ["document", "path", "heads"];
    let functions: [(&str, &[&str], &[&'static str], Rows); 8] = [
        (
            "document_history",
            &["hash", "actor", "seq", "time", "message", "deps", "ops", "stored_at"],
            &["document"],
            history,
        ),
        (
            "document_tree",
            &["path", "parent", "key", "type", "value", "op", "conflict"],
            &["document", "heads"],
            contents::tree,
        ),
        (
            "document_conflicts",
            &["path", "type", "value", "op", "winner"],
            &["document", "heads"],
            contents::conflicts,
        ),
        (
            "document_diff",
            &["path", "action", "before", "after"],
            &["document", "from", "to"],
            diff::diff,
        ),
        ("document_text", &["text"], &of_text, text),
        ("document_marks", &["start", "stop", "name", "value", "text"], &of_text, marks),
        ("document_blocks", &["position", "block", "text"], &of_text, blocks),
        ("document_json", &["json"], &["document", "heads"], document_json),
    ];
    let functions = functions.into_iter();
    functions
        .map(|(name, columns, arguments, rows)| {
            let library = Arc::clone(library);
            let made = TableFunction::new(name, columns, arguments, move |arguments, context| {
                let rows = called(&library, name, rows, arguments, context);
                Ok(rows.map_err(sql_error)?.into_iter().map(Ok))
            });
            made.reads_databases().for_narrowed().of_main()
        })
        .collect()
}

/// An error as statements of SQL report it.
pub(super) fn sql_error(error: Error) -> SqlError {
    match error {
        Error::Sql(error) => error,
        error => SqlError::of_function(error.to_string()),
    }
}

fn called(
    library: &Library,
    function: &str,
    rows: Rows,
    arguments: &[Option<Value>],
    context: &ModuleContext<'_>,
) -> Result<Vec<Row>, Error> {
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) => (first.as_ref(), rest),
        None => (None, arguments),
    };
    let Some((doc, document)) = named_document((library, context), function, first)? else {
        return Ok(Vec::new());
    };
    rows(&Asked { context, doc: &doc, document: &document, arguments: rest })
}

/// One row a change, in the order of application.
fn history(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let stored = stored::times(asked.context, asked.doc.id)?;
    let changes = asked.document.changes();
    let rows = changes.map(|change| {
        let deps: Vec<String> = change.deps().iter().map(ToString::to_string).collect();
        let stored_at = stored.of(&change.hash());
        vec![
            change.hash().to_string().into(),
            change.actor().to_string().into(),
            i64::from(change.seq()).into(),
            change.time().into(),
            change.message().map_or(Value::Null, Value::text),
            serde_json::to_string(&deps).map_or(Value::Null, Value::text),
            count(change.len()),
            stored_at.map_or(Value::Null, Value::Int),
        ]
    });
    Ok(rows.collect())
}

fn text(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let document = asked.at(1)?;
    let Some(object) = asked.text(&document, 0)? else { return Ok(Vec::new()) };
    Ok(vec![vec![document.text(&object)?.into()]])
}

fn document_json(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    Ok(vec![vec![json(&asked.at(0)?, &shoal_crdt::ROOT)?]])
}

/// One row a mark; positions count characters from 0.
fn marks(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let document = asked.at(1)?;
    let Some(object) = asked.text(&document, 0)? else { return Ok(Vec::new()) };
    let text: Vec<char> = document.text(&object)?.chars().collect();
    let marks = document.marks(&object)?.into_iter();
    let rows = marks.map(|mark| {
        let covered = text.get(mark.start..mark.end.min(text.len())).unwrap_or_default();
        vec![
            count(mark.start),
            count(mark.end),
            (&*mark.name).into(),
            scalar(mark.value.as_ref()),
            covered.iter().collect::<String>().into(),
        ]
    });
    Ok(rows.collect())
}

/// One row a block marker, with the text behind it up to the next; text before the first marker
/// has a row without a block.
fn blocks(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let document = asked.at(1)?;
    let Some(object) = asked.text(&document, 0)? else { return Ok(Vec::new()) };
    let mut rows: Vec<(usize, Value, String)> = Vec::new();
    let mut position = 0;
    for span in document.spans(&object)? {
        match span {
            Span::Block { id } => {
                rows.push((position, json(&document, &id)?, String::new()));
                position += 1;
            }
            Span::Text { text, .. } => {
                if rows.is_empty() {
                    rows.push((0, Value::Null, String::new()));
                }
                position += text.chars().count();
                if let Some((_, _, behind)) = rows.last_mut() {
                    behind.push_str(&text);
                }
            }
        }
    }
    let rows = rows.into_iter();
    Ok(rows.map(|(position, block, text)| vec![count(position), block, text.into()]).collect())
}
