//! Tables as a module read them: has anybody changed them since?

use std::fmt;

use shoal_store::{PageSet, Version};

use super::{MAIN, ModuleContext, Object};
use crate::Error;

/// Tables of `main` in a state that a module read, for results kept behind a commit
/// ([`ModuleContext::see_tables`]).
pub struct SeenTables {
    version: Version,
    cookie: u32,
    pages: PageSet,
}

impl fmt::Debug for SeenTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenTables").finish_non_exhaustive()
    }
}

impl ModuleContext<'_> {
    /// The present state of some tables. True beside a name asks for the whole rows, false for the
    /// rowids alone. `None` where no state has a number ([`ModuleContext::states`]), and where a
    /// name is not that of a table of `main`.
    ///
    /// Cost: the pages of tables whose rows are asked for are read, and else those above the
    /// leaves.
    ///
    /// # Errors
    /// The store's.
    pub fn see_tables(&self, tables: &[(&str, bool)]) -> Result<Option<SeenTables>, Error> {
        let (Some(schema), Some(_)) = (self.schema, self.states()) else { return Ok(None) };
        let mut roots = Vec::new();
        for (name, with_rows) in tables {
            match schema.find(None, name) {
                Some((MAIN, Object::Table(table))) => roots.push((table.root, *with_rows)),
                _ => return Ok(None),
            }
        }
        let txn = self.txns.of(MAIN)?;
        let pages = txn.pages_of_trees(&roots)?;
        Ok(Some(SeenTables { version: txn.version(), cookie: txn.schema_cookie(), pages }))
    }

    /// True where no commit behind `seen` changed the tables or the schema; `seen` is their present
    /// state then. Never true after a change, and false without one where nobody knows the pages
    /// that commits changed: the states are far apart, or another program committed without a
    /// write-ahead log.
    ///
    /// Cost: a look at each page that commits changed.
    pub fn are_unchanged(&self, seen: &mut SeenTables) -> bool {
        let (Some(_), Ok(txn)) = (self.states(), self.txns.of(MAIN)) else { return false };
        if txn.schema_cookie() != seen.cookie {
            return false;
        }
        let Some(changed) = txn.changed_since(&seen.version) else { return false };
        if changed.iter().any(|page| seen.pages.contains(*page)) {
            return false;
        }
        seen.version = txn.version();
        true
    }
}
