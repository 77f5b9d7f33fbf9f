//! Copies of whole b-trees from one database into another, each filled from its front to its end.

use shoal_format::{Corrupt, Pgno};

use super::trail::{Step, Trail};
use crate::cursor::TreeKind;
use crate::{Error, Transaction};

impl Transaction {
    /// Copies the table at `from_root` of another database into the empty table at `root`, records
    /// as they are. `renumbers` gives the rows the rowids from 1 on instead of their own.
    ///
    /// Cost: the other table is read once; each leaf is written once.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Corrupt`] for a table whose
    /// rowids do not ascend, an unreadable page.
    pub fn copy_table(
        &mut self,
        root: Pgno,
        from: &Transaction,
        from_root: Pgno,
        renumbers: bool,
    ) -> Result<(), Error> {
        self.change(|txn| {
            let mut cursor = from.table(from_root)?;
            let mut more = cursor.first()?;
            let (mut record, mut cell) = (Vec::new(), Vec::new());
            let mut last: Option<i64> = None;
            while more {
                let own = cursor.rowid()?;
                let number = last.map_or(Some(1), |last| last.checked_add(1));
                let rowid = if renumbers { number } else { Some(own) };
                let rowid = rowid.filter(|rowid| last.is_none_or(|last| last < *rowid));
                let rowid = rowid.ok_or_else(|| {
                    let why = "has a rowid out of order";
                    Corrupt::on_page(from_root, "table", why, own.cast_unsigned())
                })?;
                if let Some((page, index)) = cursor.leaf() {
                    from.read_payload(page.table_leaf(index)?.payload, &mut record)?;
                }
                txn.build_cell(Some(rowid), &record, &mut cell)?;
                txn.put_at_end(root, TreeKind::Table, &cell)?;
                last = Some(rowid);
                more = cursor.next()?;
            }
            Ok(())
        })
    }

    /// Copies the index at `from_root` of another database into the empty index at `root`, entries
    /// as they are and in their order, also in an unknown one.
    ///
    /// # Errors
    /// As [`Transaction::copy_table`].
    pub fn copy_index(
        &mut self,
        root: Pgno,
        from: &Transaction,
        from_root: Pgno,
    ) -> Result<(), Error> {
        self.change(|txn| {
            let mut cursor = from.index(from_root)?;
            let mut more = cursor.first()?;
            let (mut record, mut cell) = (Vec::new(), Vec::new());
            while more {
                from.read_payload(cursor.cell_payload()?, &mut record)?;
                txn.build_cell(None, &record, &mut cell)?;
                txn.put_at_end(root, TreeKind::Index, &cell)?;
                more = cursor.next()?;
            }
            Ok(())
        })
    }

    fn put_at_end(&mut self, root: Pgno, kind: TreeKind, cell: &[u8]) -> Result<(), Error> {
        self.changes_mut()?.packs = true;
        let put = self.put_last(root, kind, cell);
        self.changes_mut()?.packs = false;
        put
    }

    fn put_last(&mut self, root: Pgno, kind: TreeKind, cell: &[u8]) -> Result<(), Error> {
        let mut trail = Trail::new();
        let mut pgno = root;
        loop {
            let view = self.tree_page(pgno, kind, trail.len())?;
            let index = view.cell_count();
            trail.push(Step { pgno, index });
            if view.kind().is_leaf() {
                return self.put_cell(trail, index, cell);
            }
            pgno = view.child(index)?;
        }
    }
}
