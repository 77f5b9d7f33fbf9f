//! A direct select while it is compiled: what registers are, and which columns of each record are wanted.
//! Where a column is kept is known once all are.

use rustc_hash::FxHashMap;
use shoal_store::{ColumnFinder, KeyOrder, Pgno};

use super::plan::{
    Access, Arm, DirectLevel, End, IndexAccess, KEYS_MAX, Operand, RECORDS_MAX, RecordPlan, Test,
};
use crate::plan::{
    AnyScan, Bound, Code, EachCodes, EachScan, GroupPlan, IndexScan, Level, Loads, NullKey, Op,
    Reg, RowidRange, Scan, TableKey, TableScan, UnmatchedScan,
};
use crate::value::{Affinity, Collation, Comparison, PATTERN_BYTES_MAX, Pattern, Value};

/// A field before it is known where it is kept.
#[derive(Clone, Debug)]
pub(super) enum Draft {
    Field { record: usize, place: usize, real: bool, missing: Value },
    Ready(Operand),
}

/// What is known of the registers, and the records so far.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) known: FxHashMap<Reg, Draft>,
    /// For each record the places that are wanted, and whether early.
    pub(super) wanted: Vec<Vec<(usize, bool)>>,
    pub(super) lookups: Vec<Pgno>,
    pub(super) indexes: Vec<Pgno>,
    /// How many sets of rows there are so far that found a match.
    pub(super) marks: usize,
}

/// A level before it is known where fields are kept.
pub(super) struct LevelDraft {
    access: AccessDraft,
    record: usize,
    left_join: bool,
    marks: Option<(usize, Draft)>,
    on: Vec<TestDraft>,
    filter: Vec<TestDraft>,
}

enum AccessDraft {
    Rows { root: Pgno, low: Option<EndDraft>, high: Option<EndDraft>, descending: bool },
    Rowid { key: Draft, lookup: usize },
    Index(IndexDraft),
    Any { arms: Vec<AccessDraft>, lookup: usize },
    Common { arms: Vec<IndexDraft>, lookup: usize },
}

struct IndexDraft {
    lookup: usize,
    order: KeyOrder,
    equal: Vec<(Draft, Option<Affinity>, NullKey)>,
    start: Option<EndDraft>,
    stop: Option<EndDraft>,
    descending: bool,
    entry: usize,
    row: Option<(usize, usize)>,
    once: bool,
}

struct EndDraft {
    value: Draft,
    inclusive: bool,
    affinity: Option<Affinity>,
    above_null: bool,
}

pub(super) enum TestDraft {
    Compare { rule: Comparison, left: Draft, right: Draft },
    IsNull { operand: Draft, not: bool },
    Fits { language: Pattern, operand: Draft, pattern: Box<[u8]>, not: bool },
}

impl Builder {
    fn record(&mut self) -> Option<usize> {
        self.wanted.push(Vec::new());
        (self.wanted.len() <= RECORDS_MAX).then_some(self.wanted.len() - 1)
    }

    fn lookup(&mut self, root: Pgno) -> usize {
        self.lookups.push(root);
        self.lookups.len() - 1
    }

    /// Notes where a record's columns go.
    fn load(&mut self, record: usize, loads: &Loads) {
        for load in &loads.columns {
            let (place, real, missing) = (load.place, load.real, load.missing.clone());
            self.known.insert(load.reg, Draft::Field { record, place, real, missing });
        }
        if let Some(reg) = loads.rowid {
            self.known.insert(reg, Draft::Ready(Operand::Rowid { record }));
        }
    }

    fn register(&self, reg: Reg) -> Option<Draft> {
        self.known.get(&reg).cloned()
    }

    /// The operand of a code that computes nothing.
    fn plain(&self, code: &Code) -> Option<Draft> {
        if code.ops.is_empty() { self.register(code.result) } else { None }
    }

    /// The operand of a code that copies a register, or computes nothing.
    pub(super) fn copied(&self, code: &Code) -> Option<Draft> {
        self.register(code.copied()?)
    }

    pub(super) fn want(&mut self, draft: &Draft, early: bool) {
        if let Draft::Field { record, place, .. } = draft {
            self.wanted[*record].push((*place, early));
        }
    }

    pub(super) fn level(&mut self, level: &Level, first: bool) -> Option<LevelDraft> {
        let Level {
            words: _,
            scan,
            on,
            keeps_left,
            keeps_right,
            unmatched,
            filter,
            late,
            registers: _,
        } = level;
        let (access, record) = match scan {
            Scan::Table(TableScan { cursor: _, root, early, range, descending }) => {
                let access = self.rows(*root, range, *descending)?;
                let record = self.record()?;
                self.load(record, early);
                self.load(record, late);
                (access, record)
            }
            Scan::Index(scan) => self.index(scan, late)?,
            Scan::Any(scan) if first => self.any(scan, late)?,
            Scan::Each(scan) if first => self.listed(scan, late)?,
            Scan::Query(_)
            | Scan::Hash(_)
            | Scan::Each(_)
            | Scan::Any(_)
            | Scan::Taken(_)
            | Scan::Module(_)
            | Scan::Nothing
            | Scan::Fed(_) => return None,
        };
        let marks = match unmatched {
            Some(unmatched) => Some(self.mark(unmatched.rowid)?),
            None if *keeps_right => return None,
            None => None,
        };
        let on = self.tests(on)?;
        let filter = self.tests(filter)?;
        Some(LevelDraft { access, record, left_join: *keeps_left, marks, on, filter })
    }

    /// A set for rows that find a match, whose rowid is in a register.
    fn mark(&mut self, rowid: Reg) -> Option<(usize, Draft)> {
        let rowid = self.register(rowid)?;
        self.want(&rowid, true);
        self.marks += 1;
        Some((self.marks - 1, rowid))
    }

    /// The rows of a level's table that found no match.
    pub(super) fn unmatched(&mut self, level: &Level) -> Option<LevelDraft> {
        let UnmatchedScan { mark: _, rowid: _, scan, late } = level.unmatched.as_deref()?;
        let Scan::Table(TableScan { cursor: _, root, early, range, descending }) = scan else {
            return None;
        };
        let access = self.rows(*root, range, *descending)?;
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        self.marks += 1;
        let filter = self.tests(&level.filter)?;
        Some(LevelDraft { access, record, left_join: false, marks: None, on: Vec::new(), filter })
    }

    /// The rows of a table by their rowids.
    fn rows(&mut self, root: Pgno, range: &RowidRange, descending: bool) -> Option<AccessDraft> {
        Some(match range {
            RowidRange::Equal(key) => {
                let key = self.plain(key)?;
                self.want(&key, true);
                AccessDraft::Rowid { key, lookup: self.lookup(root) }
            }
            RowidRange::Between { low, high } => {
                let (low, high) = (self.end(low.as_ref())?, self.end(high.as_ref())?);
                AccessDraft::Rows { root, low, high, descending }
            }
        })
    }

    /// The rows that any of several scans finds. All columns are read from the table's row.
    fn any(&mut self, scan: &AnyScan, late: &Loads) -> Option<(AccessDraft, usize)> {
        let AnyScan { arms: scans, early, rowid: _, cursor: _ } = scan;
        let mut arms = Vec::with_capacity(scans.len());
        let mut root = None;
        for arm in scans {
            arms.push(match arm {
                Scan::Table(scan) => {
                    root = Some(scan.root);
                    self.rows(scan.root, &scan.range, false)?
                }
                Scan::Index(scan) => {
                    let table = scan.table.as_ref()?;
                    let TableKey::Rowid { place } = &table.key else { return None };
                    root = Some(table.root);
                    let mut index = self.entries(scan)?;
                    self.wanted[index.entry].push((*place, true));
                    (index.row, index.once) = (Some((*place, 0)), true);
                    AccessDraft::Index(index)
                }
                _ => return None,
            });
        }
        let lookup = self.lookup(root?);
        for arm in &mut arms {
            if let AccessDraft::Index(IndexDraft { row: Some((_, target)), .. }) = arm {
                *target = lookup;
            }
        }
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        Some((AccessDraft::Any { arms, lookup }, record))
    }

    /// The rows that the values of an `IN`, or several indexes together, name by their rowids.
    fn listed(&mut self, scan: &EachScan, late: &Loads) -> Option<(AccessDraft, usize)> {
        // What values are compared by is no matter: each is sought as the rowid it is equal to.
        let EachScan { values, affinity: _, collation: _, reg, inner } = scan;
        let Scan::Table(scan) = inner else { return None };
        let TableScan { cursor: _, root, early, range, descending: _ } = scan;
        match range {
            RowidRange::Equal(key) if key.ops.is_empty() && key.result == *reg => {}
            RowidRange::Equal(_) | RowidRange::Between { .. } => return None,
        }
        let lookup = self.lookup(*root);
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        let access = match values {
            EachCodes::Query(_) => return None,
            EachCodes::List(codes) => {
                let arm = |code: &Code| Some(AccessDraft::Rowid { key: self.plain(code)?, lookup });
                AccessDraft::Any { arms: codes.iter().map(arm).collect::<Option<_>>()?, lookup }
            }
            EachCodes::Common(walks) => {
                let mut arms = Vec::with_capacity(walks.len());
                for walk in walks {
                    let arm = self.entries(walk)?;
                    let rowids = walk.early.columns.iter().map(|load| (load.place, true));
                    self.wanted[arm.entry].extend(rowids);
                    arms.push(arm);
                }
                AccessDraft::Common { arms, lookup }
            }
        };
        Some((access, record))
    }

    fn index(&mut self, scan: &IndexScan, late: &Loads) -> Option<(AccessDraft, usize)> {
        let mut index = self.entries(scan)?;
        let entry = index.entry;
        self.load(entry, &scan.early);
        let record = match &scan.table {
            None => {
                self.load(entry, late);
                entry
            }
            Some(table) => {
                let TableKey::Rowid { place } = &table.key else { return None };
                let record = self.record()?;
                self.load(record, &table.early);
                self.load(record, late);
                self.wanted[entry].push((*place, true));
                index.row = Some((*place, self.lookup(table.root)));
                record
            }
        };
        Some((AccessDraft::Index(index), record))
    }

    /// The entries of an index, without what is read of them.
    fn entries(&mut self, scan: &IndexScan) -> Option<IndexDraft> {
        let IndexScan {
            cursor: _,
            root,
            order,
            equal: keys,
            low,
            high,
            range_descending,
            above_null,
            descending,
            early: _,
            table: _,
        } = scan;
        if keys.len() + 2 > KEYS_MAX {
            return None;
        }
        let mut equal = Vec::with_capacity(keys.len());
        for (code, affinity, null) in keys {
            let key = self.plain(code)?;
            self.want(&key, true);
            equal.push((key, *affinity, *null));
        }
        let (low, high) = (self.end(low.as_ref())?, self.end(high.as_ref())?);
        let null = || EndDraft {
            value: Draft::Ready(Operand::Constant(Value::Null)),
            inclusive: false,
            affinity: None,
            above_null: true,
        };
        // NULL is below everything and in no range.
        let (start, stop) = match (low, high) {
            (None, None) if !above_null => (None, None),
            (low, high) => {
                let low = Some(low.unwrap_or_else(null));
                if *range_descending { (high, low) } else { (low, high) }
            }
        };
        let entry = self.record()?;
        self.indexes.push(*root);
        let (lookup, order, descending) = (self.indexes.len() - 1, order.clone(), *descending);
        let (row, once) = (None, false);
        Some(IndexDraft { lookup, order, equal, start, stop, descending, entry, row, once })
    }

    fn end(&mut self, bound: Option<&Bound>) -> Option<Option<EndDraft>> {
        let Some(bound) = bound else { return Some(None) };
        let value = self.plain(&bound.value)?;
        self.want(&value, true);
        let (inclusive, affinity) = (bound.inclusive, bound.affinity);
        Some(Some(EndDraft { value, inclusive, affinity, above_null: false }))
    }

    pub(super) fn tests(&mut self, codes: &[Code]) -> Option<Vec<TestDraft>> {
        let mut tests = Vec::with_capacity(codes.len());
        for code in codes {
            match &*code.ops {
                [Op::IsNull { from, to, not }] if *to == code.result => {
                    tests.push(TestDraft::IsNull { operand: self.register(*from)?, not: *not });
                }
                [compare @ Op::Compare { to, .. }] if *to == code.result => {
                    tests.push(self.compare(compare)?);
                }
                // BETWEEN.
                [
                    low @ Op::Compare { to: above, .. },
                    high @ Op::Compare { to: below, .. },
                    Op::And { left, right, to },
                ] if left == above && right == below && *to == code.result => {
                    tests.push(self.compare(low)?);
                    tests.push(self.compare(high)?);
                }
                [text, call @ Op::Call { to, .. }] if *to == code.result => {
                    tests.push(self.fits(text, call, false)?);
                }
                [text, call @ Op::Call { to: fits, .. }, Op::Not { from, to }]
                    if from == fits && *to == code.result =>
                {
                    tests.push(self.fits(text, call, true)?);
                }
                _ => return None,
            }
        }
        for test in &tests {
            match test {
                TestDraft::Compare { left, right, .. } => {
                    self.want(left, true);
                    self.want(right, true);
                }
                TestDraft::IsNull { operand, .. } | TestDraft::Fits { operand, .. } => {
                    self.want(operand, true);
                }
            }
        }
        Some(tests)
    }

    /// `LIKE` or `GLOB`, whose operation is a call with the pattern first, which is there already where it
    /// is a constant, and the text behind it, which is copied there.
    fn fits(&self, text: &Op, call: &Op, not: bool) -> Option<TestDraft> {
        let (Op::Copy { from: text, to }, Op::Call { function, first: pattern, count: 2, .. }) =
            (text, call)
        else {
            return None;
        };
        let language = function.pattern().filter(|_| *to == pattern + 1)?;
        let operand = self.register(*text)?;
        let Draft::Ready(Operand::Constant(Value::Text(pattern))) = self.register(*pattern)? else {
            return None;
        };
        let is_short = pattern.len() <= PATTERN_BYTES_MAX;
        is_short.then(|| TestDraft::Fits { language, operand, pattern: pattern.into(), not })
    }

    fn compare(&self, op: &Op) -> Option<TestDraft> {
        let Op::Compare { rule, left, right, .. } = op else { return None };
        let (left, right) = (self.register(*left)?, self.register(*right)?);
        // The field on the left: that side is the one that varies.
        let (left, right, op) = match &left {
            Draft::Ready(Operand::Constant(_) | Operand::Parameter(_)) => {
                (right, left, rule.op.flipped())
            }
            _ => (left, right, rule.op),
        };
        Some(TestDraft::Compare { rule: Comparison { op, ..*rule }, left, right })
    }

    pub(super) fn group(&mut self, group: &GroupPlan) -> Option<GroupDraft> {
        // The groups themselves know in which order their rows come, and when to stop.
        let GroupPlan {
            keys,
            aggregates,
            kept,
            picks: _,
            having: _,
            ends_early: _,
            ordered: _,
            distinct: _,
        } = group;
        let keys: Option<Vec<_>> =
            keys.iter().map(|(code, by)| Some((self.copied(code)?, *by))).collect();
        let mut arguments = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            if aggregate.filter.is_some() || !aggregate.order.is_empty() {
                return None;
            }
            arguments.push(match &*aggregate.arguments {
                [] => None,
                [one] => Some(self.copied(one)?),
                _ => return None,
            });
        }
        let kept: Option<Vec<_>> = kept.iter().map(|&reg| self.register(reg)).collect();
        Some((keys?, arguments, kept?))
    }

    /// Where each record's fields are kept, and how many there are. Rows are chosen by the `key`, a place
    /// in a record.
    pub(super) fn records(&mut self, key: Option<(usize, usize)>) -> (Box<[RecordPlan]>, usize) {
        let mut first = 0;
        let records = self
            .wanted
            .iter_mut()
            .enumerate()
            .map(|(record, wanted)| {
                // A place that is wanted twice is early when it once is.
                wanted.sort_unstable_by_key(|&(place, early)| (place, !early));
                wanted.dedup_by_key(|(place, _)| *place);
                // The walk to an early field passes the others before it.
                let early = wanted.iter().rposition(|(_, early)| *early).map_or(0, |at| at + 1);
                let places: Box<[usize]> = wanted.iter().map(|(place, _)| *place).collect();
                let key = key.filter(|&(of, _)| of == record).map(|(_, place)| {
                    let number = places.partition_point(|&known| known < place);
                    (number, ColumnFinder::new(&[place]))
                });
                let record = RecordPlan {
                    key,
                    all: ColumnFinder::new(&places),
                    early: ColumnFinder::new(&places[..early]),
                    late: ColumnFinder::new(&places[early..]),
                    first,
                    places,
                };
                first += record.places.len();
                record
            })
            .collect();
        (records, first)
    }
}

/// Keys, arguments of aggregates and what is kept of a row.
type GroupDraft = (Vec<(Draft, Collation)>, Vec<Option<Draft>>, Vec<Draft>);

/// Where the value is, once all columns that are wanted of the records are known.
pub(super) fn finish(draft: Draft, records: &[RecordPlan]) -> Operand {
    match draft {
        Draft::Ready(operand) => operand,
        Draft::Field { record, place, real, missing } => {
            let plan = &records[record];
            let field = plan.first + plan.places.partition_point(|&known| known < place);
            Operand::Field { record, field, real, missing }
        }
    }
}

impl TestDraft {
    pub(super) fn finish(self, finish: &impl Fn(Draft) -> Operand) -> Test {
        match self {
            TestDraft::Compare { rule, left, right } => {
                Test::Compare { rule, left: finish(left), right: finish(right) }
            }
            TestDraft::IsNull { operand, not } => Test::IsNull { operand: finish(operand), not },
            TestDraft::Fits { language, operand, pattern, not } => {
                Test::Fits { language, operand: finish(operand), pattern, not }
            }
        }
    }
}

impl LevelDraft {
    pub(super) fn finish(self, finish: &impl Fn(Draft) -> Operand) -> DirectLevel {
        let tests = |drafts: Vec<TestDraft>| -> Box<[Test]> {
            drafts.into_iter().map(|draft| draft.finish(finish)).collect()
        };
        let end = |draft: Option<EndDraft>| {
            draft.map(|draft| End {
                value: finish(draft.value),
                inclusive: draft.inclusive,
                affinity: draft.affinity,
                above_null: draft.above_null,
            })
        };
        let index = |draft: IndexDraft| {
            let IndexDraft { lookup, order, equal, start, stop, descending, entry, row, once } =
                draft;
            let equal = equal.into_iter().map(|(draft, by, null)| (finish(draft), by, null));
            let rowid = row.map(|(place, _)| {
                finish(Draft::Field { record: entry, place, real: false, missing: Value::Null })
            });
            IndexAccess {
                lookup,
                order,
                equal: equal.collect(),
                start: end(start),
                stop: end(stop),
                descending,
                entry,
                row,
                rowid,
                once,
            }
        };
        let access = match self.access {
            AccessDraft::Rows { root, low, high, descending } => {
                Access::Rows { root, low: end(low), high: end(high), descending }
            }
            AccessDraft::Rowid { key, lookup } => Access::Rowid { key: finish(key), lookup },
            AccessDraft::Index(draft) => Access::Index(Box::new(index(draft))),
            AccessDraft::Any { arms, lookup } => {
                let arm = |draft| {
                    Some(match draft {
                        AccessDraft::Rowid { key, .. } => Arm::Rowid { key: finish(key) },
                        AccessDraft::Rows { root, low, high, .. } => {
                            Arm::Rows { root, low: end(low), high: end(high) }
                        }
                        AccessDraft::Index(draft) => Arm::Index(index(draft)),
                        // No way is made of such ways.
                        AccessDraft::Any { .. } | AccessDraft::Common { .. } => return None,
                    })
                };
                Access::Any { arms: arms.into_iter().filter_map(arm).collect(), lookup }
            }
            AccessDraft::Common { arms, lookup } => {
                Access::Common { arms: arms.into_iter().map(index).collect(), lookup }
            }
        };
        let (record, left_join) = (self.record, self.left_join);
        let (mut before, mut filter) = (Vec::new(), Vec::from(tests(self.filter)));
        let asks: Option<fn(&Operand, usize) -> bool> = match &access {
            Access::Rowid { .. } => Some(Operand::is_field_of),
            Access::Index(access) if access.row.is_some() => Some(Operand::is_of),
            _ => None,
        };
        let marks = self.marks.map(|(mark, rowid)| (mark, finish(rowid)));
        // A row that a condition leaves out has found its match.
        if let Some(asks) = asks.filter(|_| !left_join && marks.is_none()) {
            let asks = |test: &Test| test.operands().any(|operand| asks(operand, record));
            (filter, before) = filter.into_iter().partition(asks);
        }
        let (before, on, filter) = (before.into(), tests(self.on), filter.into());
        DirectLevel { access, record, left_join, marks, before, on, filter }
    }
}
