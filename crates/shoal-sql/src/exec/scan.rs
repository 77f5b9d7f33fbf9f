//! Scans: the rows of one source, one after the other, into the registers.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;
use shoal_store::Record;

use super::eval;
use super::hash::HashRun;
use super::intersection::common_rowids;
use super::operator::OperatorRun;
use super::pages_scan::PagesScanRun;
use super::pipeline_scan::PipelineScanRun;
use super::query::QueryRun;
use super::virtual_scan::VirtualRun;
use super::{Machine, Slot};
use crate::Error;
use crate::exec::eval_operand;
use crate::keep::listed::{ListPlace, ListRule};
use crate::plan::{
    Bound, Code, EachCodes, EachScan, IndexScan, IndexedTable, Loads, ModuleScan, NullKey,
    RowidRange, Scan, TableKey, TableScan,
};
use crate::schema::ModuleRows;
use crate::value::{Affinity, Value, ValueRef, assign};

/// The state of a scan.
#[derive(Debug, Default)]
pub(super) enum ScanRun {
    #[default]
    Closed,
    Table(TableRun),
    Index(Box<IndexRun>),
    Columns(Box<PipelineScanRun>),
    Pages(Box<PagesScanRun>),
    Query(Box<QueryRun>),
    Hash(HashRun),
    Each(Box<EachRun>),
    Any(Box<AnyRun>),
    /// True once the row was given.
    Taken(bool),
    Module(ModuleRun),
    Operator(Box<OperatorRun>),
    Virtual(Box<VirtualRun>),
}

/// The rows of a module, and the arguments they were made of.
#[derive(Debug)]
pub(super) struct ModuleRun {
    rows: Box<dyn ModuleRows>,
    /// The row last given, without the arguments.
    row: Vec<Value>,
    arguments: Vec<Option<Value>>,
}

/// A scan once for each value.
#[derive(Debug)]
pub(super) struct EachRun {
    values: EachValues,
    inner: ScanRun,
    /// True where the value found a row, or no value was taken yet.
    found: bool,
}

/// The values still to come.
#[derive(Debug)]
enum EachValues {
    List(std::vec::IntoIter<Value>),
    /// The values of a query.
    Query(ListPlace),
    /// Rowids named by indexes.
    Common(std::vec::IntoIter<i64>),
}

impl EachValues {
    /// The values of an `IN`, converted, in order, each once.
    fn of(plan: &EachScan, machine: &mut Machine<'_, '_>) -> Result<EachValues, Error> {
        let rule = ListRule { affinity: plan.affinity, collation: plan.collation };
        match &plan.values {
            EachCodes::List(codes) => {
                let mut values = Vec::with_capacity(codes.len());
                for code in codes {
                    eval(machine, code)?;
                    values.push(machine.registers[code.result].clone());
                }
                Ok(EachValues::List(rule.prepare(values).into_iter()))
            }
            EachCodes::Query(query) => {
                machine.list(*query, rule)?;
                Ok(EachValues::Query(ListPlace::default()))
            }
            EachCodes::Common(walks) => {
                let rowids = common_rowids(walks, plan.reg, machine)?;
                Ok(EachValues::Common(rowids.into_iter()))
            }
        }
    }

    fn next(
        &mut self,
        plan: &EachScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<Option<Value>, Error> {
        match (self, &plan.values) {
            (EachValues::Query(place), EachCodes::Query(query)) => {
                machine.next_listed(*query, place)
            }
            (EachValues::List(values), _) => Ok(values.next()),
            (EachValues::Common(rowids), _) => Ok(rowids.next().map(Value::Int)),
            (EachValues::Query(_), EachCodes::List(_) | EachCodes::Common(_)) => Ok(None),
        }
    }
}

/// Several scans, one after the other.
#[derive(Debug, Default)]
pub(super) struct AnyRun {
    /// The next scan to open.
    next: usize,
    inner: ScanRun,
    /// The rowids of the rows given so far.
    seen: FxHashSet<i64>,
}

/// A walk over a table.
#[derive(Debug)]
pub(super) struct TableRun {
    low: i64,
    high: i64,
    at: At<i64>,
}

/// A walk over an index.
#[derive(Debug, Default)]
pub(super) struct IndexRun {
    /// The required values of the first columns.
    prefix: Vec<Value>,
    /// Start and end of the range, in the index's own direction.
    start: Option<(Value, bool)>,
    stop: Option<(Value, bool)>,
    at: At<Vec<u8>>,
}

/// The place of a cursor.
#[derive(Debug, Default)]
enum At<P> {
    /// Before the first row.
    #[default]
    Fresh,
    /// On a row, the cursor being there.
    Live,
    /// On a row, to be sought again.
    Parked(P),
    Done,
}

impl ScanRun {
    /// Begins a scan with the rows known so far.
    pub(super) fn open(plan: &Scan, machine: &mut Machine<'_, '_>) -> Result<ScanRun, Error> {
        Ok(match plan {
            Scan::Table(plan) => ScanRun::Table(TableRun::open(plan, machine)?),
            Scan::Index(plan) => {
                let mut run = Box::new(IndexRun::default());
                run.open(plan, machine)?;
                ScanRun::Index(run)
            }
            Scan::Columns(plan) => ScanRun::Columns(Box::new(PipelineScanRun::open(plan, machine))),
            Scan::Pages(plan) => ScanRun::Pages(Box::new(PagesScanRun::open(plan, machine)?)),
            Scan::Query(plan) => {
                let mut run = Box::new(QueryRun::default());
                run.start(plan, machine);
                ScanRun::Query(run)
            }
            Scan::Hash(plan) => ScanRun::Hash(HashRun::open(plan, machine)?),
            Scan::Each(plan) => {
                let values = EachValues::of(plan, machine)?;
                ScanRun::Each(Box::new(EachRun { values, inner: ScanRun::Closed, found: true }))
            }
            Scan::Any(_) => ScanRun::Any(Box::default()),
            Scan::Taken(_) => ScanRun::Taken(false),
            Scan::Module(plan) => ScanRun::Module(ModuleRun::open(plan, machine)?),
            Scan::Operator(plan) => ScanRun::Operator(Box::new(OperatorRun::open(plan)?)),
            Scan::Virtual(plan) => ScanRun::Virtual(Box::new(VirtualRun::open(plan, machine)?)),
            Scan::Nothing => ScanRun::Closed,
        })
    }

    /// Begins again a scan opened before, with the rows known so far: with its memory, where there
    /// is some.
    pub(super) fn open_again(
        &mut self,
        plan: &Scan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        match (&mut *self, plan) {
            (ScanRun::Index(run), Scan::Index(plan)) => run.open(plan, machine),
            (ScanRun::Table(run), Scan::Table(plan)) => {
                *run = TableRun::open(plan, machine)?;
                Ok(())
            }
            (ScanRun::Query(run), Scan::Query(plan)) => {
                run.start(plan, machine);
                Ok(())
            }
            (ScanRun::Virtual(run), Scan::Virtual(plan)) => run.open_again(plan, machine),
            (ScanRun::Pages(run), Scan::Pages(plan)) => run.open_again(plan, machine),
            (ScanRun::Columns(run), Scan::Columns(_)) => {
                run.open_again();
                Ok(())
            }
            (ScanRun::Operator(run), Scan::Operator(_)) => {
                run.restart();
                Ok(())
            }
            _ => {
                *self = ScanRun::open(plan, machine)?;
                Ok(())
            }
        }
    }

    /// Puts the values the conditions read of the next row into the registers; false when there is
    /// none.
    pub(super) fn next(
        &mut self,
        plan: &Scan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        match (self, plan) {
            (ScanRun::Table(run), Scan::Table(plan)) => run.next(plan, machine),
            (ScanRun::Index(run), Scan::Index(plan)) => run.next(plan, machine),
            (ScanRun::Columns(run), Scan::Columns(plan)) => run.next(plan, machine),
            (ScanRun::Pages(run), Scan::Pages(plan)) => run.next(plan, machine),
            (ScanRun::Query(run), Scan::Query(plan)) => run.next(plan, machine),
            (ScanRun::Hash(run), Scan::Hash(plan)) => run.next(plan, machine),
            (ScanRun::Taken(given), Scan::Taken(plan)) => {
                let first = !std::mem::replace(given, true);
                if first {
                    for &(column, reg) in &plan.columns {
                        let value = &machine.taken[plan.slot][column];
                        assign(&mut machine.registers[reg], value.as_ref());
                    }
                }
                Ok(first)
            }
            (ScanRun::Module(run), Scan::Module(plan)) => run.next(plan, machine),
            (ScanRun::Operator(run), Scan::Operator(plan)) => run.next(plan, machine),
            (ScanRun::Virtual(run), Scan::Virtual(plan)) => run.next(plan, machine),
            (ScanRun::Each(run), Scan::Each(plan)) => loop {
                if run.inner.next(&plan.inner, machine)? {
                    run.found = true;
                    return Ok(true);
                }
                // A row named by an index must exist.
                if !run.found
                    && let (EachValues::Common(_), Value::Int(rowid)) =
                        (&run.values, &machine.registers[plan.reg])
                {
                    return Err(Error::names_no_row(*rowid));
                }
                let Some(value) = run.values.next(plan, machine)? else { return Ok(false) };
                machine.registers[plan.reg] = value;
                run.found = false;
                run.inner.open_again(&plan.inner, machine)?;
            },
            (ScanRun::Any(run), Scan::Any(plan)) => loop {
                let open = run.next.checked_sub(1).and_then(|arm| plan.arms.get(arm));
                if let Some(arm) = open
                    && run.inner.next(arm, machine)?
                {
                    match machine.registers[plan.rowid] {
                        Value::Int(rowid) if !run.seen.insert(rowid) => continue,
                        _ => return Ok(true),
                    }
                }
                let Some(arm) = plan.arms.get(run.next) else { return Ok(false) };
                run.next += 1;
                run.inner = ScanRun::open(arm, machine)?;
            },
            _ => Ok(false),
        }
    }

    /// Number of equal rows behind the row in the registers.
    pub(super) fn repeats(&self) -> u64 {
        match self {
            ScanRun::Module(run) => run.rows.repeats(),
            ScanRun::Virtual(run) => run.repeats(),
            _ => 1,
        }
    }

    /// Reads columns put off until the conditions held.
    pub(super) fn load_late(
        &mut self,
        plan: &Scan,
        loads: &Loads,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if let (ScanRun::Virtual(run), Scan::Virtual(plan)) = (&mut *self, plan) {
            return run.load(plan, &plan.late, machine);
        }
        if loads.columns.is_empty() && loads.rowid.is_none() {
            return Ok(());
        }
        match row_cursor(plan) {
            Some(cursor) => load_from(cursor, loads, machine),
            None => Ok(()),
        }
    }

    /// Notes the places of cursors before they are dropped.
    pub(super) fn park(&mut self, plan: &Scan, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        match (self, plan) {
            (ScanRun::Table(run), Scan::Table(plan)) => {
                if let (At::Live, Slot::Table(cursor)) = (&run.at, &machine.cursors[plan.cursor]) {
                    run.at = if cursor.is_valid() { At::Parked(cursor.rowid()?) } else { At::Done };
                }
            }
            (ScanRun::Index(run), Scan::Index(plan)) => {
                if let (At::Live, Slot::Index(cursor)) =
                    (&run.at, &mut machine.cursors[plan.cursor])
                {
                    run.at = if cursor.is_valid() {
                        At::Parked(cursor.payload()?.to_vec())
                    } else {
                        At::Done
                    };
                }
            }
            (ScanRun::Query(run), Scan::Query(plan)) => run.park(plan, machine)?,
            (ScanRun::Operator(run), Scan::Operator(plan)) => run.park(plan, machine)?,
            (ScanRun::Each(run), Scan::Each(plan)) => run.inner.park(&plan.inner, machine)?,
            (ScanRun::Any(run), Scan::Any(plan)) => {
                if let Some(arm) = run.next.checked_sub(1).and_then(|arm| plan.arms.get(arm)) {
                    run.inner.park(arm, machine)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl ModuleRun {
    fn open(plan: &ModuleScan, machine: &mut Machine<'_, '_>) -> Result<ModuleRun, Error> {
        let arguments = arguments(plan, machine)?;
        let mut rows = machine.open_module(&plan.module, &arguments)?;
        let mut columns: Vec<usize> = plan.columns.iter().map(|(column, _)| *column).collect();
        columns.retain(|column| *column < plan.visible);
        columns.sort_unstable();
        rows.reads(&columns, plan.folds);
        Ok(ModuleRun { rows, row: Vec::new(), arguments })
    }

    fn next(&mut self, plan: &ModuleScan, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        self.row.clear();
        let found = self.rows.next(&mut self.row, &machine.module_context()?)?;
        if found {
            put_row(plan, &self.row, &self.arguments, machine);
        }
        Ok(found)
    }
}

/// The arguments of a module's call.
pub(super) fn arguments(
    plan: &ModuleScan,
    machine: &mut Machine<'_, '_>,
) -> Result<Vec<Option<Value>>, Error> {
    let argument = |code: &Option<Code>| match code {
        Some(code) => {
            eval(machine, code)?;
            Ok(Some(machine.registers[code.result].clone()))
        }
        None => Ok(None),
    };
    plan.arguments.iter().map(argument).collect()
}

/// Puts a row of a module into the registers: its values, then the arguments of the call.
pub(super) fn put_row(
    plan: &ModuleScan,
    row: &[Value],
    arguments: &[Option<Value>],
    machine: &mut Machine<'_, '_>,
) {
    for &(column, reg) in &plan.columns {
        machine.registers[reg] = match column.checked_sub(plan.visible) {
            Some(place) => match arguments.get(place) {
                Some(Some(value)) => value.clone(),
                _ => plan.module.default_argument(place),
            },
            None => row.get(column).cloned().unwrap_or_default(),
        };
    }
}

/// The cursor on the row given by a scan.
fn row_cursor(plan: &Scan) -> Option<usize> {
    match plan {
        Scan::Table(plan) => Some(plan.cursor),
        Scan::Index(plan) => Some(plan.table.as_ref().map_or(plan.cursor, |table| table.cursor)),
        Scan::Each(plan) => row_cursor(&plan.inner),
        Scan::Any(plan) => Some(plan.cursor),
        _ => None,
    }
}

/// Reads columns of the row under a cursor.
fn load_from(cursor: usize, loads: &Loads, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
    let registers = &mut machine.registers;
    match &mut machine.cursors[cursor] {
        Slot::Table(cursor) => {
            if let Some(reg) = loads.rowid {
                registers[reg] = Value::Int(cursor.rowid()?);
            }
            if !loads.columns.is_empty() {
                load(cursor.payload()?, loads, registers)?;
            }
        }
        Slot::Index(cursor) => {
            if !loads.columns.is_empty() {
                load(cursor.payload()?, loads, registers)?;
            }
        }
        Slot::Row(row) => {
            if let Some(reg) = loads.rowid {
                registers[reg] = Value::Int(row.rowid);
            }
            if !loads.columns.is_empty() {
                load(row.record(), loads, registers)?;
            }
        }
        Slot::Empty => {}
    }
    Ok(())
}

/// Decodes the wanted columns of a record, listed in the order of their places.
fn load(payload: &[u8], loads: &Loads, registers: &mut [Value]) -> Result<(), Error> {
    let mut values = Record::new(payload).map_err(Error::corrupt)?.values();
    let mut place = 0;
    for wanted in &loads.columns {
        while place < wanted.place {
            values.skip_one().map_err(Error::corrupt)?;
            place += 1;
        }
        place += 1;
        match values.next() {
            Some(Ok(ValueRef::Int(int))) if wanted.real => {
                registers[wanted.reg] = Value::Real(int as f64);
            }
            Some(value) => {
                assign(&mut registers[wanted.reg], value.map_err(Error::corrupt)?);
            }
            None => registers[wanted.reg] = wanted.missing.clone(),
        }
    }
    Ok(())
}

impl TableRun {
    fn open(plan: &TableScan, machine: &mut Machine<'_, '_>) -> Result<TableRun, Error> {
        let (low, high) = match &plan.range {
            RowidRange::Equal(code) => {
                let reg = eval_operand(machine, code)?;
                match exact_rowid(&machine.registers[reg]) {
                    Some(rowid) => (Some(rowid), Some(rowid)),
                    None => (None, None),
                }
            }
            RowidRange::Between { low, high } => {
                let low = match low {
                    Some(bound) => lowest_rowid(&bound_value(bound, machine)?, bound.inclusive),
                    None => Some(i64::MIN),
                };
                let high = match high {
                    Some(bound) => highest_rowid(&bound_value(bound, machine)?, bound.inclusive),
                    None => Some(i64::MAX),
                };
                (low, high)
            }
        };
        Ok(match (low, high) {
            (Some(low), Some(high)) if low <= high => TableRun { low, high, at: At::Fresh },
            _ => TableRun { low: 0, high: 0, at: At::Done },
        })
    }

    fn next(&mut self, plan: &TableScan, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        if matches!(self.at, At::Done) {
            return Ok(false);
        }
        if self.low == self.high {
            // One row was asked for.
            let found = matches!(self.at, At::Fresh)
                && machine.find_row(plan.cursor, plan.root, self.low)?;
            self.at = if found { At::Live } else { At::Done };
            if found {
                load_from(plan.cursor, &plan.early, machine)?;
            }
            return Ok(found);
        }
        let cursor = machine.table_cursor(plan.cursor, plan.root)?;
        let found = match (&self.at, plan.descending) {
            (At::Done, _) => false,
            (At::Live, false) => cursor.next()?,
            (At::Live, true) => cursor.prev()?,
            (At::Parked(rowid), descending) => {
                cursor.seek(*rowid)?;
                if descending { cursor.prev()? } else { cursor.next()? }
            }
            (At::Fresh, false) if self.low == i64::MIN => cursor.first()?,
            (At::Fresh, false) => {
                cursor.seek(self.low)?;
                cursor.is_valid()
            }
            (At::Fresh, true) if self.high == i64::MAX => cursor.last()?,
            (At::Fresh, true) => {
                if cursor.seek(self.high)? {
                    true
                } else if cursor.is_valid() {
                    cursor.prev()?
                } else {
                    cursor.last()?
                }
            }
        };
        let inside = found
            && match plan.descending {
                false => self.high == i64::MAX || cursor.rowid()? <= self.high,
                true => self.low == i64::MIN || cursor.rowid()? >= self.low,
            };
        if !inside {
            self.at = At::Done;
            return Ok(false);
        }
        self.at = At::Live;
        load_from(plan.cursor, &plan.early, machine)?;
        Ok(true)
    }
}

/// A bound's value, converted for its comparison.
fn bound_value(bound: &Bound, machine: &mut Machine<'_, '_>) -> Result<Value, Error> {
    eval(machine, &bound.value)?;
    let value = machine.registers[bound.value.result].clone();
    Ok(match bound.affinity {
        Some(affinity) => affinity.apply_for_comparison(value),
        None => value,
    })
}

/// The rowid a value is equal to.
#[inline]
pub(super) fn exact_rowid(value: &Value) -> Option<i64> {
    if let Value::Int(rowid) = value {
        return Some(*rowid);
    }
    match Affinity::Numeric.apply_for_comparison(value.clone()) {
        Value::Int(int) => Some(int),
        Value::Real(real) => {
            let int = real as i64;
            ValueRef::Int(int)
                .compare(ValueRef::Real(real), crate::value::Collation::Binary)
                .is_eq()
                .then_some(int)
        }
        _ => None,
    }
}

/// The first rowid above a bound; `None` when there is none.
pub(super) fn lowest_rowid(value: &Value, inclusive: bool) -> Option<i64> {
    match value {
        Value::Null | Value::Text(_) | Value::Blob(_) => None,
        Value::Int(int) if inclusive => Some(*int),
        Value::Int(int) => int.checked_add(1),
        Value::Real(real) => {
            if *real < -9_223_372_036_854_775_808.0 {
                return Some(i64::MIN);
            }
            let up = real.ceil();
            if up >= 9_223_372_036_854_775_808.0 {
                return None;
            }
            let int = up as i64;
            if inclusive || up != *real { Some(int) } else { int.checked_add(1) }
        }
    }
}

/// The last rowid below a bound; `None` when there is none. Text and blobs are above all numbers.
pub(super) fn highest_rowid(value: &Value, inclusive: bool) -> Option<i64> {
    match value {
        Value::Null => None,
        Value::Text(_) | Value::Blob(_) => Some(i64::MAX),
        Value::Int(int) if inclusive => Some(*int),
        Value::Int(int) => int.checked_sub(1),
        Value::Real(real) => {
            if *real >= 9_223_372_036_854_775_808.0 {
                return Some(i64::MAX);
            }
            let down = real.floor();
            if down < -9_223_372_036_854_775_808.0 {
                return None;
            }
            let int = down as i64;
            if inclusive || down != *real { Some(int) } else { int.checked_sub(1) }
        }
    }
}

impl IndexRun {
    /// Begins the walk, with the memory of one before.
    pub(super) fn open(
        &mut self,
        plan: &IndexScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let run = self;
        run.prefix.resize(plan.equal.len(), Value::Null);
        (run.start, run.stop, run.at) = (None, None, At::Fresh);
        for ((code, affinity, null), known) in plan.equal.iter().zip(&mut run.prefix) {
            let reg = eval_operand(machine, code)?;
            assign(known, machine.registers[reg].as_ref());
            if let Some(affinity) = affinity {
                *known = affinity.apply_for_comparison(std::mem::take(known));
            }
            if known.is_null() && *null == NullKey::FindsNothing {
                run.at = At::Done;
                return Ok(());
            }
        }
        if plan.low.is_none() && plan.high.is_none() && !plan.above_null {
            return Ok(());
        }
        let mut end = |bound: &Option<Bound>| match bound {
            Some(bound) => Ok::<_, Error>(Some((bound_value(bound, machine)?, bound.inclusive))),
            None => Ok(None),
        };
        // NULL is below everything and in no range.
        let low = end(&plan.low)?;
        let high = end(&plan.high)?;
        if [&low, &high].into_iter().flatten().any(|(value, _)| value.is_null()) {
            run.at = At::Done;
            return Ok(());
        }
        let low = Some(low.unwrap_or((Value::Null, false)));
        (run.start, run.stop) = if plan.range_descending { (high, low) } else { (low, high) };
        Ok(())
    }

    /// Moves to the next entry, whose columns go into the registers; false when there is none.
    pub(super) fn next(
        &mut self,
        plan: &IndexScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if matches!(self.at, At::Done) {
            return Ok(false);
        }
        let cursor = machine.index_cursor(plan.cursor, plan.root)?;
        let found = match &self.at {
            At::Done => false,
            At::Live if plan.descending => cursor.prev()?,
            At::Live => cursor.next()?,
            At::Parked(entry) => {
                let key: Result<Vec<_>, _> =
                    Record::new(entry).map_err(Error::corrupt)?.values().collect();
                cursor.seek(&key.map_err(Error::corrupt)?, &plan.order)?;
                if plan.descending { cursor.prev()? } else { cursor.next()? }
            }
            At::Fresh if plan.descending => {
                let mut key: Vec<ValueRef<'_>> = self.prefix.iter().map(Value::as_ref).collect();
                match &self.stop {
                    Some((value, inclusive)) => {
                        key.push(value.as_ref());
                        match inclusive {
                            true => cursor.seek_after(&key, &plan.order)?,
                            false => cursor.seek(&key, &plan.order)?,
                        };
                        cursor.prev()?
                    }
                    None if key.is_empty() => cursor.last()?,
                    None => {
                        cursor.seek_after(&key, &plan.order)?;
                        cursor.prev()?
                    }
                }
            }
            At::Fresh if let ([only], None, None) = (&*self.prefix, &self.start, &self.stop) => {
                // The usual case: the entries with one value, found by a single seek or missing.
                if !cursor.seek(&[only.as_ref()], &plan.order)? {
                    self.at = At::Done;
                    return Ok(false);
                }
                return self.give(plan, machine);
            }
            At::Fresh => {
                let mut key: Vec<ValueRef<'_>> = self.prefix.iter().map(Value::as_ref).collect();
                match &self.start {
                    Some((value, true)) => {
                        key.push(value.as_ref());
                        cursor.seek(&key, &plan.order)?;
                    }
                    Some((value, false)) => {
                        key.push(value.as_ref());
                        cursor.seek_after(&key, &plan.order)?;
                    }
                    None if key.is_empty() => {
                        cursor.first()?;
                    }
                    None => {
                        cursor.seek(&key, &plan.order)?;
                    }
                }
                cursor.is_valid()
            }
        };
        if !found || !self.is_inside(plan, cursor.payload()?)? {
            self.at = At::Done;
            return Ok(false);
        }
        self.give(plan, machine)
    }

    /// Moves to the first entry with a rowid not below `rowid`, where all entries have the same
    /// key; false when there is none.
    pub(super) fn seek_rowid(
        &mut self,
        plan: &IndexScan,
        rowid: i64,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if matches!(self.at, At::Done) {
            return Ok(false);
        }
        let cursor = machine.index_cursor(plan.cursor, plan.root)?;
        let mut key: Vec<ValueRef<'_>> = self.prefix.iter().map(Value::as_ref).collect();
        key.push(ValueRef::Int(rowid));
        cursor.seek(&key, &plan.order)?;
        if !cursor.is_valid() || !self.is_inside(plan, cursor.payload()?)? {
            self.at = At::Done;
            return Ok(false);
        }
        self.give(plan, machine)
    }

    /// Puts the row of the cursor's entry into the registers.
    fn give(&mut self, plan: &IndexScan, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        self.at = At::Live;
        load_from(plan.cursor, &plan.early, machine)?;
        if let Some(table) = &plan.table {
            find_row(plan.cursor, table, machine)?;
            load_from(table.cursor, &table.early, machine)?;
        }
        Ok(true)
    }

    /// True where an entry has the wanted first columns and is not past the end of the range.
    fn is_inside(&self, plan: &IndexScan, entry: &[u8]) -> Result<bool, Error> {
        let order = &plan.order;
        let end = if plan.descending { &self.start } else { &self.stop };
        if self.prefix.is_empty() && end.is_none() {
            return Ok(true);
        }
        let mut values = Record::new(entry).map_err(Error::corrupt)?.values();
        for (index, wanted) in self.prefix.iter().enumerate() {
            let Some(value) = values.next() else { return Ok(false) };
            let value = value.map_err(Error::corrupt)?;
            if order.compare_column(index, value, wanted.as_ref()).is_ne() {
                return Ok(false);
            }
        }
        let Some((end, inclusive)) = end else { return Ok(true) };
        let Some(value) = values.next() else { return Ok(false) };
        let value = value.map_err(Error::corrupt)?;
        let order = order.compare_column(self.prefix.len(), value, end.as_ref());
        let order = if plan.descending { order.reverse() } else { order };
        Ok(match order {
            Ordering::Less => true,
            Ordering::Equal => *inclusive,
            Ordering::Greater => false,
        })
    }
}

/// Moves the table's cursor to the row named by an index's entry.
fn find_row(
    index: usize,
    table: &IndexedTable,
    machine: &mut Machine<'_, '_>,
) -> Result<(), Error> {
    // Both cursors are needed at once; the index's is put back below.
    let mut slot = std::mem::replace(&mut machine.cursors[index], Slot::Empty);
    let Slot::Index(entry) = &mut slot else { return Ok(()) };
    let record = Record::new(entry.payload()?).map_err(Error::corrupt)?;
    match &table.key {
        TableKey::Rowid { place } => {
            let Some(ValueRef::Int(rowid)) = record.column(*place).map_err(Error::corrupt)? else {
                return Err(Error::names_no_row(0));
            };
            if !machine.find_row(table.cursor, table.root, rowid)? {
                return Err(Error::names_no_row(rowid));
            }
        }
        TableKey::Primary { places, order } => {
            let mut key = Vec::with_capacity(places.len());
            for &place in places {
                let value = record.column(place).map_err(Error::corrupt)?;
                key.push(value.unwrap_or(ValueRef::Null));
            }
            if !machine.index_cursor(table.cursor, table.root)?.seek(&key, order)? {
                return Err(Error::names_no_row(0));
            }
        }
    }
    machine.cursors[index] = slot;
    Ok(())
}
