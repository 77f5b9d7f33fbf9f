//! Tables followed from one state of a file to the next: has anybody changed their rows?

use shoal_store::{PageSet, Pgno, Transaction, TreePages, Version};

use super::statement::{Compiled, Statement};
use super::{Connection, main_schema};
use crate::Error;
use crate::schema::{MAIN, Object};

/// A state of a table's rows, to compare with a later one ([`Connection::follow_table`]).
#[derive(Clone, Debug, Default)]
pub struct TableState {
    known: Option<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    version: Version,
    root: Pgno,
    pages: PageSet,
    /// `None` behind commits whose pages were known.
    digest: Option<u64>,
}

impl Known {
    fn of(transaction: &Transaction, root: Pgno) -> Result<Known, Error> {
        let TreePages { pages, digest } = transaction.tree_pages(root)?;
        Ok(Known { version: transaction.version(), root, pages, digest: Some(digest) })
    }
}

impl Connection {
    /// True where the rows of a table of `main` differ from `state`, whoever changed them; `state`
    /// is the table's state within the open transaction afterwards. A missing table has no rows.
    ///
    /// Never false after a change. True without one in two cases: another program committed without
    /// a write-ahead log behind a change of the table, or a page that the table lost went to
    /// another table at once.
    ///
    /// Cost: a look at the pages that commits changed since, where they are known: commits of this
    /// connection, and those in a write-ahead log. Otherwise, and for the first call, each page of
    /// the table is read.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; the store's.
    pub fn follow_table(&mut self, table: &str, state: &mut TableState) -> Result<bool, Error> {
        let Some(transaction) = &self.transaction else {
            return Err(Error::Misuse { what: "a table is followed within a transaction" });
        };
        self.control.begin();
        self.schemas.refresh_main(&self.store, transaction)?;
        let root = match main_schema(&self.schemas)?.object(table) {
            Some(Object::Table(table)) => Some(table.root),
            _ => None,
        };
        let Some(root) = root else { return Ok(state.known.take().is_some()) };
        let Some(known) = &mut state.known else {
            state.known = Some(Known::of(transaction, root)?);
            return Ok(true);
        };
        if known.root == root
            && let Some(changed) = transaction.changed_since(&known.version)
        {
            known.version = transaction.version();
            let differs = changed.iter().any(|page| known.pages.contains(*page));
            if differs {
                transaction.extend_tree_pages(&mut known.pages, &changed)?;
                known.digest = None;
            }
            return Ok(differs);
        }
        let before = std::mem::replace(known, Known::of(transaction, root)?);
        Ok((before.root, before.digest) != (root, known.digest))
    }
}

impl Statement {
    /// The tables read by a query, `sqlite_schema` among them; all are of `main`. `None` where
    /// tables of `main` are not all: of other statements, and of queries that read virtual tables,
    /// other databases, or tables by table-valued functions.
    pub fn tables_read(&self) -> Option<Vec<&str>> {
        let Compiled::Query(program) = &self.plan.compiled else { return None };
        let is_elsewhere = |(database, _): &(usize, Pgno)| *database != MAIN;
        if program.needs_schema || program.reads_virtual || program.trees.iter().any(is_elsewhere) {
            return None;
        }
        let is_read = |root| program.trees.contains(&(MAIN, root));
        let tables = self.plan.schema.objects().iter().filter_map(|object| match object {
            Object::Table(table) if is_read(table.root) => Some(table.name()),
            _ => None,
        });
        Some(tables.collect())
    }
}
