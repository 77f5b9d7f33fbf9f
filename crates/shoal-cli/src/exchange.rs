//! Shared by verbs about differences: databases as rows beside documents.

use std::path::Path;

use shoal::Database;
use shoal_sql::Connection;
use shoal_store::Access;

use crate::failure::Failure;
use crate::open;
use crate::query::{rows, text};

/// The names of tables kept by documents: their own, and projections.
pub(crate) struct DocumentTables(Vec<String>);

impl DocumentTables {
    /// The names of some databases together.
    pub(crate) fn of(connections: &mut [&mut Connection]) -> Result<DocumentTables, Failure> {
        let mut names = Vec::new();
        for connection in connections {
            if connection.schema().map_err(Failure::new)?.table("_shoal_projection").is_some() {
                let found = rows(&mut **connection, "SELECT name FROM _shoal_projection", &[]);
                names.extend(found.map_err(Failure::new)?.iter().map(|row| text(&row[0])));
            }
        }
        Ok(DocumentTables(names))
    }

    /// True for a table left out of differences of rows.
    pub(crate) fn has(&self, table: &str) -> bool {
        let is = |name: &String| name.eq_ignore_ascii_case(table);
        table.starts_with("_shoal_") || self.0.iter().any(is)
    }
}

/// Merges the documents of one database into another; gives the number of documents changed there.
/// Changes present on both sides are not written again.
pub(crate) fn merge_documents(theirs: &Path, ours: &Path) -> Result<u64, Failure> {
    let about = |path: &Path| {
        let path = path.to_owned();
        move |error: shoal::Error| open::about(&path, &error)
    };
    let mut from = open::database(theirs, Access::ReadOnly)?;
    let documents = from.documents().map_err(about(theirs))?;
    if documents.is_empty() {
        return Ok(0);
    }
    let mut into: Database = open::database(ours, Access::Create)?;
    let known = into.documents().map_err(about(ours))?;
    let mut changed = 0;
    for document in documents {
        let same = known.iter().find(|it| it.name == document.name);
        if same.is_some_and(|it| it.heads == document.heads) {
            continue;
        }
        let mut theirs_document = from.load(&document.name).map_err(about(theirs))?;
        let heads = into.store(&document.name, &mut theirs_document).map_err(about(ours))?;
        changed += u64::from(same.is_none_or(|it| it.heads != heads));
    }
    Ok(changed)
}
