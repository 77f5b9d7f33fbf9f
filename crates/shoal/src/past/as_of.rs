//! `documents`, and the module behind `table AS OF heads`.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_crdt::{Document, ROOT};
use shoal_history::ChangeHash;
use shoal_sql::{
    Error as SqlError, Module, ModuleContext, ModuleRows, PAST_MODULE, TableFunctionRows, Value,
};

use super::functions::sql_error;
use super::heads::Heads;
use super::library::{DocName, Library, ask, ends, names};
use super::stored;
use super::values::json;
use crate::tables::{DOC, DOCUMENTS, heads_of_value};
use crate::{Error, projection};

/// `documents`: one row a document.
#[derive(Debug)]
pub(super) struct Documents;

impl Module for Documents {
    fn name(&self) -> &str {
        DOCUMENTS
    }

    fn columns(&self) -> Vec<&str> {
        vec!["id", "name", "heads", "json"]
    }

    fn is_of_main(&self) -> bool {
        true
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn reads_by_queries(&self) -> bool {
        true
    }

    fn open(
        &self,
        _arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, SqlError> {
        let names = names(context, None).map_err(sql_error)?;
        Ok(Box::new(DocumentRows(names.into_iter())))
    }
}

/// The documents still to be told of.
#[derive(Debug)]
struct DocumentRows(std::vec::IntoIter<DocName>);

impl ModuleRows for DocumentRows {
    fn next(
        &mut self,
        row: &mut Vec<Value>,
        context: &ModuleContext<'_>,
    ) -> Result<bool, SqlError> {
        let Some(DocName { id, name }) = self.0.next() else { return Ok(false) };
        let sql = "SELECT heads, json FROM main._shoal_doc WHERE id = ?1";
        ask(context, sql, &[Value::Int(id)], |found| {
            let [heads, json] = found else { return Err(Error::Layout { table: DOC }) };
            let heads = heads_of_value(heads.as_ref(), DOC, id)?;
            *row = vec![id.into(), name.as_str().into(), heads_text(&heads), json.clone()];
            Ok(())
        })
        .map_err(sql_error)?;
        Ok(true)
    }
}

/// Heads as `AS OF` takes them.
fn heads_text(heads: &[ChangeHash]) -> Value {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    heads.join(",").into()
}

/// A document of a state, with its heads there.
type PastDocument = (DocName, Arc<Document>, Vec<ChangeHash>);

/// Gives the rows of `documents` and of projections as they were.
#[derive(Debug)]
pub(super) struct AsOf {
    library: Arc<Library>,
}

impl AsOf {
    pub(super) fn new(library: &Arc<Library>) -> AsOf {
        AsOf { library: Arc::clone(library) }
    }

    /// The documents of a state, each with its heads there.
    fn documents(
        &self,
        context: &ModuleContext<'_>,
        (is_time, value): (bool, &Value),
        mut is_chosen: impl FnMut(&str) -> Result<bool, Error>,
    ) -> Result<Vec<PastDocument>, Error> {
        let mut found = Vec::new();
        if is_time {
            let time_ms = time(context, value)?;
            for doc in names(context, None)? {
                context.check()?;
                if !is_chosen(&doc.name)? {
                    continue;
                }
                let document = self.library.document(context, doc.id)?;
                if let Some(heads) = stored::heads_at(context, doc.id, &document, time_ms)? {
                    found.push((doc, document, heads));
                }
            }
            return Ok(found);
        }
        let heads = Heads::parse(value)?;
        if heads.len() == 0 {
            return Ok(found);
        }
        let mut missing: Vec<usize> = (0..heads.len()).collect();
        let names = names(context, None)?;
        let ends = if names.is_empty() { BTreeMap::new() } else { ends(context)? };
        for doc in names {
            context.check()?;
            let end = ends.get(&doc.id);
            if !self.library.may_have(doc.id, end, &heads) {
                continue;
            }
            let document = self.library.document(context, doc.id)?;
            let of_doc = heads.within(&document)?;
            if let Some(end) = end {
                self.library.remember(doc.id, end, &document);
            }
            missing.retain(|place| !of_doc.iter().any(|(at, _)| at == place));
            if !of_doc.is_empty() && is_chosen(&doc.name)? {
                let hashes = of_doc.into_iter().map(|(_, hash)| hash).collect();
                found.push((doc, document, hashes));
            }
            // A whole hash is in one document and its copies: all are looked at.
        }
        match missing.first() {
            Some(&place) => Err(heads.unknown(place)),
            None => Ok(found),
        }
    }

    fn rows(
        &self,
        table: &str,
        point: (bool, &Value),
        context: &ModuleContext<'_>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut rows = Vec::new();
        if table.eq_ignore_ascii_case(DOCUMENTS) {
            for (doc, document, heads) in self.documents(context, point, |_| Ok(true))? {
                let json = json(&document.at(&heads), &ROOT)?;
                rows.push(vec![doc.id.into(), doc.name.into(), heads_text(&heads), json]);
            }
            return Ok(rows);
        }
        let mut all = Vec::new();
        if context.schema().is_some_and(|schema| schema.table("_shoal_projection").is_some()) {
            ask(context, "SELECT sql FROM main._shoal_projection", &[], |row| {
                if let [Value::Text(sql)] = row {
                    all.push(String::from_utf8_lossy(sql).into_owned());
                }
                Ok(())
            })?;
        }
        let Some(definition) = projection::kept_definition(&all, table)? else {
            let why = format!(
                "{table} AS OF: only documents and projections of documents keep their past"
            );
            return Err(Error::Past { why });
        };
        let documents = self.documents(context, point, |name| {
            let Some(condition) = &definition.documents else { return Ok(true) };
            let sql = format!("SELECT 1 FROM (SELECT ?1 AS name) WHERE ({condition})");
            let mut chosen = false;
            ask(context, &sql, &[name.into()], |_| {
                chosen = true;
                Ok(())
            })?;
            Ok(chosen)
        })?;
        for (doc, document, heads) in documents {
            context.check()?;
            projection::past_rows((doc.id, &document), &definition, &heads, &mut rows)?;
        }
        Ok(rows)
    }
}

/// A time as milliseconds since 1970: a number of these, or a text for SQLite's date
/// functions.
fn time(context: &ModuleContext<'_>, value: &Value) -> Result<i64, Error> {
    if let Value::Int(time_ms) = value {
        return Ok(*time_ms);
    }
    let mut time_ms = None;
    let sql = "SELECT CAST(round(unixepoch(?1, 'subsec') * 1000) AS INTEGER)";
    if let Value::Text(_) = value {
        ask(context, sql, std::slice::from_ref(value), |row| {
            if let [Value::Int(found)] = row {
                time_ms = Some(*found);
            }
            Ok(())
        })?;
    }
    time_ms.ok_or_else(|| {
        let given = match value {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        };
        let why = format!("{given}: not a time, such as '2026-11-23 12:00:00' or milliseconds");
        Error::Past { why }
    })
}

impl Module for AsOf {
    fn name(&self) -> &str {
        PAST_MODULE
    }

    fn columns(&self) -> Vec<&str> {
        Vec::new()
    }

    fn arguments(&self) -> &[&str] {
        &["table", "time", "value"]
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, SqlError> {
        let [Some(Value::Text(table)), Some(Value::Int(is_time)), value] = arguments else {
            return Err(SqlError::of_function("AS OF stands behind a table's name"));
        };
        let table = String::from_utf8_lossy(table);
        let value = value.clone().unwrap_or_default();
        let rows = self.rows(&table, (*is_time == 1, &value), context).map_err(sql_error)?;
        let rows: TableFunctionRows = Box::new(rows.into_iter().map(Ok));
        Ok(Box::new(Made(rows)))
    }
}

/// Rows made at the beginning of the statement.
struct Made(TableFunctionRows);

impl ModuleRows for Made {
    fn next(
        &mut self,
        row: &mut Vec<Value>,
        _context: &ModuleContext<'_>,
    ) -> Result<bool, SqlError> {
        let Some(next) = self.0.next() else { return Ok(false) };
        *row = next?;
        Ok(true)
    }
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}
