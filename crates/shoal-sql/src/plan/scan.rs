//! Scans of tables and indexes, now that it is known which of their columns anything reads.

use shoal_store::{KeyOrder, Pgno};

use super::select::{CompiledEach, CompiledScan};
use super::{
    AnyScan, Bound, EachScan, IndexScan, IndexedTable, Load, Loads, ModuleScan, NullKey,
    RowidRange, Scan, TableKey, TableScan,
};
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::tree::ROWID;
use crate::schema::{IndexSource, Module, Table};
use crate::value::Affinity;
use std::sync::Arc;

impl Compiler {
    pub(super) fn module_scan(
        &mut self,
        module: &Arc<dyn Module>,
        arguments: Vec<Option<Code>>,
        columns: Vec<(usize, Reg)>,
    ) -> Scan {
        self.needs_schema |= module.reads_schema();
        let (visible, module) = (module.columns().len(), Arc::clone(module));
        Scan::Module(Box::new(ModuleScan { module, arguments, columns, visible, folds: false }))
    }

    /// A cursor over a table or one of its indexes.
    fn cursor(&mut self, table: &Table) -> usize {
        self.cursors.push(table.database);
        self.trees.push((table.database, table.root));
        self.cursors.len() - 1
    }

    /// A scan of a table and what it reads of a row once the conditions hold.
    pub(super) fn scan(
        &mut self,
        table: &Table,
        compiled: CompiledScan,
        early: &[(usize, Reg)],
        late: &[(usize, Reg)],
        descending: bool,
    ) -> (Scan, Loads) {
        let cursor = self.cursor(table);
        let range = match compiled {
            CompiledScan::Index { index: Some(number), equal, low, high } => {
                let keys = KeyCodes { equal, low, high, descending };
                return self.index_scan(table, number, cursor, keys, early, late);
            }
            CompiledScan::Index { index: None, equal, low, high } => {
                let keys = KeyCodes { equal, low, high, descending };
                return primary_scan(table, cursor, keys, early, late);
            }
            _ if table.without_rowid => {
                let keys = KeyCodes { descending, ..KeyCodes::default() };
                return primary_scan(table, cursor, keys, early, late);
            }
            CompiledScan::Any(arms) => {
                return self.any_scan(table, cursor, arms, early, late);
            }
            CompiledScan::RowidEqual(key) => RowidRange::Equal(key),
            CompiledScan::RowidRange(low, high) => RowidRange::Between { low, high },
            CompiledScan::Full | CompiledScan::Hash { .. } => {
                RowidRange::Between { low: None, high: None }
            }
        };
        let early = row_loads(table, early);
        let scan = TableScan { cursor, root: table.root, early, range, descending };
        (Scan::Table(scan), row_loads(table, late))
    }

    fn index_scan(
        &mut self,
        table: &Table,
        number: usize,
        cursor: usize,
        keys: KeyCodes,
        early: &[(usize, Reg)],
        late: &[(usize, Reg)],
    ) -> (Scan, Loads) {
        let (mut scan, loads) = index_entries(table, number, cursor, keys, early);
        let covered = |wanted: &[(usize, Reg)]| {
            wanted.iter().all(|(column, _)| entry_place(table, number, *column).is_some())
        };
        if covered(early) && covered(late) {
            return (Scan::Index(scan), entry_loads(table, number, late));
        }
        let cursor = self.cursor(table);
        scan.table = Some(indexed_table(table, number, cursor, &loads));
        (Scan::Index(scan), row_loads(table, late))
    }

    /// Walks over a table's indexes that put the rowids of their entries into a register.
    pub(super) fn rowid_scans(
        &mut self,
        table: &Table,
        arms: Vec<CompiledScan>,
        reg: Reg,
    ) -> Vec<IndexScan> {
        let mut scans = Vec::with_capacity(arms.len());
        for arm in arms {
            if let CompiledScan::Index { index: Some(number), equal, low, high } = arm {
                let keys = KeyCodes { equal, low, high, descending: false };
                let cursor = self.cursor(table);
                scans.push(index_entries(table, number, cursor, keys, &[(ROWID, reg)]).0);
            }
        }
        scans
    }

    /// The rows that any arm finds: each arm leads to the table's row, where the rest is read.
    fn any_scan(
        &mut self,
        table: &Table,
        cursor: usize,
        arms: Vec<(CompiledScan, Option<CompiledEach>)>,
        early: &[(usize, Reg)],
        late: &[(usize, Reg)],
    ) -> (Scan, Loads) {
        let mut early = early.to_vec();
        let known = early.iter().chain(late).find(|(column, _)| *column == ROWID);
        let rowid = known.map_or_else(|| self.register(), |(_, reg)| *reg);
        if !early.iter().any(|(column, _)| *column == ROWID) {
            early.push((ROWID, rowid));
        }
        let mut scans = Vec::with_capacity(arms.len());
        for (compiled, each) in arms {
            let scan = match compiled {
                CompiledScan::Index { index: Some(number), equal, low, high } => {
                    let keys = KeyCodes { equal, low, high, descending: false };
                    let (mut scan, missing) =
                        index_entries(table, number, self.cursor(table), keys, &early);
                    scan.table = Some(indexed_table(table, number, cursor, &missing));
                    Scan::Index(scan)
                }
                other => {
                    let range = match other {
                        CompiledScan::RowidEqual(key) => RowidRange::Equal(key),
                        CompiledScan::RowidRange(low, high) => RowidRange::Between { low, high },
                        _ => RowidRange::Between { low: None, high: None },
                    };
                    let early = row_loads(table, &early);
                    let (root, descending) = (table.root, false);
                    Scan::Table(TableScan { cursor, root, early, range, descending })
                }
            };
            scans.push(for_each(each, scan));
        }
        let scan = AnyScan { arms: scans, early: row_loads(table, &early), rowid, cursor };
        (Scan::Any(Box::new(scan)), row_loads(table, late))
    }
}

/// What an index is sought by, and in which direction it is walked.
#[derive(Default)]
struct KeyCodes {
    equal: Vec<(Code, Option<Affinity>, NullKey)>,
    low: Option<Bound>,
    high: Option<Bound>,
    descending: bool,
}

impl KeyCodes {
    /// A walk over a tree that has all that is read.
    fn scan(
        self,
        cursor: usize,
        (root, order): (Pgno, KeyOrder),
        range_descending: bool,
        early: Loads,
    ) -> IndexScan {
        let KeyCodes { equal, low, high, descending } = self;
        IndexScan {
            cursor,
            root,
            order,
            equal,
            low,
            high,
            range_descending,
            above_null: false,
            descending,
            early,
            table: None,
        }
    }
}

/// A scan once for each value of an `IN`, where there is one.
pub(super) fn for_each(each: Option<CompiledEach>, inner: Scan) -> Scan {
    match each {
        Some(each) => Scan::Each(Box::new(EachScan {
            values: each.codes,
            affinity: each.affinity,
            collation: each.collation,
            reg: each.reg,
            inner,
        })),
        None => inner,
    }
}

/// Where an index's entries have a column of the table.
fn entry_place(table: &Table, number: usize, column: usize) -> Option<usize> {
    table.indexes[number].columns.iter().position(|known| match known.source {
        IndexSource::Column(known) => {
            known == column || (column == ROWID && table.rowid_alias == Some(known))
        }
        IndexSource::Rowid => column == ROWID,
        IndexSource::Expr(_) => false,
    })
}

/// Columns by their places in an index's entries; those it does not have are left out.
fn entry_loads(table: &Table, number: usize, wanted: &[(usize, Reg)]) -> Loads {
    let mut columns: Vec<Load> = wanted
        .iter()
        .filter_map(|&(column, reg)| {
            Some(load(table, column, entry_place(table, number, column)?, reg))
        })
        .collect();
    columns.sort_by_key(|load| load.place);
    Loads { columns, rowid: None }
}

/// A walk over an index's entries, and the columns that they do not have.
fn index_entries(
    table: &Table,
    number: usize,
    cursor: usize,
    keys: KeyCodes,
    early: &[(usize, Reg)],
) -> (IndexScan, Vec<(usize, Reg)>) {
    let index = &table.indexes[number];
    let next = index.columns.get(keys.equal.len());
    let range_descending = next.is_some_and(|column| column.descending);
    let early_loads = entry_loads(table, number, early);
    let scan = keys.scan(cursor, (index.root, index.order()), range_descending, early_loads);
    let missing = early.iter().copied();
    let missing = missing.filter(|(column, _)| entry_place(table, number, *column).is_none());
    (scan, missing.collect())
}

/// The table behind an index, of whose rows the conditions need `missing`.
fn indexed_table(
    table: &Table,
    number: usize,
    cursor: usize,
    missing: &[(usize, Reg)],
) -> IndexedTable {
    let index = &table.indexes[number];
    let key = if table.without_rowid {
        let place = |column| entry_place(table, number, column).unwrap_or(0);
        let places = table.primary_key.iter().map(|part| place(part.column));
        TableKey::Primary { places: places.collect(), order: table.primary_key_order() }
    } else {
        TableKey::Rowid { place: index.columns.len() - 1 }
    };
    IndexedTable { cursor, root: table.root, early: row_loads(table, missing), key }
}

/// A scan of a table without rowid, which is an index of its own.
fn primary_scan(
    table: &Table,
    cursor: usize,
    keys: KeyCodes,
    early: &[(usize, Reg)],
    late: &[(usize, Reg)],
) -> (Scan, Loads) {
    let next = table.primary_key.get(keys.equal.len());
    let range_descending = next.is_some_and(|part| part.descending);
    let tree = (table.root, table.primary_key_order());
    let scan = keys.scan(cursor, tree, range_descending, row_loads(table, early));
    (Scan::Index(scan), row_loads(table, late))
}

fn load(table: &Table, column: usize, place: usize, reg: Reg) -> Load {
    let known = table.columns.get(column);
    Load {
        place,
        reg,
        real: known.is_some_and(|column| column.affinity == Affinity::Real),
        missing: known.map(|column| column.missing_value.clone()).unwrap_or_default(),
    }
}

/// Columns by their places in the table's own record.
fn row_loads(table: &Table, wanted: &[(usize, Reg)]) -> Loads {
    let mut loads = Loads::default();
    for &(column, reg) in wanted {
        if column == ROWID {
            loads.rowid = Some(reg);
        } else if let Some(place) = table.columns.get(column).and_then(|column| column.stored) {
            loads.columns.push(load(table, column, place, reg));
        }
    }
    // A record is read from its beginning to its end.
    loads.columns.sort_by_key(|load| load.place);
    loads
}
