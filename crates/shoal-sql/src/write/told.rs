//! Changes of rows, told to the program's hooks.

use super::row::Row;
use crate::schema::Table;
use crate::session::{ChangeKind, RowChange, RowHooks, RowImage, Session};

/// A change told to the hooks beforehand, to be told again afterwards.
pub(super) struct Told<'a>(Option<(&'a RowHooks, RowChange<'a>)>);

impl<'a> Told<'a> {
    /// Tells of a coming change, with the row before and after. Cost: a comparison without hooks.
    #[inline]
    pub(super) fn before(
        session: &'a dyn Session,
        table: &'a Table,
        kind: ChangeKind,
        [old, new]: [Option<&'a Row>; 2],
    ) -> Told<'a> {
        let Some(hooks) = session.row_hooks() else { return Told(None) };
        let image = |row: &'a Row| RowImage { rowid: row.rowid, values: &row.values };
        let change = RowChange {
            kind,
            database: hooks.database(table.database),
            table: &table.name,
            has_rowid: !table.without_rowid,
            old: old.map(image),
            new: new.map(image),
        };
        hooks.before(&change);
        Told(Some((hooks, change)))
    }

    /// Tells of the finished change.
    #[inline]
    pub(super) fn after(self) {
        if let Some((hooks, change)) = self.0 {
            hooks.after(&change);
        }
    }
}
