//! Which selects become pipelines, and which node goes through the rows of each.
//!
//! Operands name columns by their places in their records until all columns that are wanted of a
//! record are known; [`number_fields`] then numbers the fields of all records.

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_store::{ColumnFinder, Pgno};

use super::key_sets::key_sets;
use super::lower::SelectDraft;
use super::pipeline::{
    Access, Arm, End, GroupColumn, GroupInput, HashAccess, HashedKey, IndexAccess, KEYS_MAX,
    Operand, OutputPlace, Pipeline, PipelineStep, ProbeWalk, RECORDS_MAX, RecordPlan, Test, Walk,
};
use super::{
    AnyScan, Bound, EachCodes, EachScan, GroupPlan, HashKey, HashScan, IndexScan, Level, Loads,
    RowidRange, Scan, TableKey, TableScan, UnmatchedScan,
};
use crate::plan::{Code, Compiler, Predicate, Reg};
use crate::session::forced::{Forced, ForcedCarrier};
use crate::value::{CompareOp, Comparison, Value};

/// Makes a select a pipeline; `None` for one that computes what pages do not tell.
///
/// `top_n` is the number of the output that the rows are sorted by first, where so many of them are
/// wanted.
///
/// Every part of the plan is named here: a plan that learns more must say what that means.
pub(crate) fn lower(
    select: &SelectDraft,
    top_n: Option<usize>,
    compiler: &Compiler,
) -> Option<Pipeline> {
    if !compiler.forced.allows(ForcedCarrier::Pages) {
        return None;
    }
    lower_scan(select, top_n, compiler)
}

/// Lowers a scan whose rows become columns.
pub(crate) fn lower_scan(
    select: &SelectDraft,
    top_n: Option<usize>,
    compiler: &Compiler,
) -> Option<Pipeline> {
    let mut pipeline = lower_part(select, None, top_n, (compiler, None))?;
    let keeps = |(_, level): &(usize, &Level)| level.keeps_right;
    let unmatched = select.levels.iter().enumerate().filter(keeps).enumerate();
    let unmatched: Option<Box<[Pipeline]>> = unmatched
        .map(|(mark, (first, _))| lower_part(select, Some((first, mark)), None, (compiler, None)))
        .collect();
    pipeline.unmatched = unmatched?;
    Some(pipeline)
}

/// Makes a select within an expression a pipeline that reads registers of the rows around it: all
/// registers are its parameters. Its rows are given as often as they are found, also those of a
/// `DISTINCT`, and one group is made of them or none.
pub(crate) fn lower_probe(
    select: &SelectDraft,
    around: &FxHashSet<Reg>,
    compiler: &Compiler,
) -> Option<Pipeline> {
    let is_one = select.group.as_ref().is_none_or(|group| group.keys.is_empty());
    let keeps = select.levels.iter().any(|level| level.keeps_right);
    let is_plain = is_one && !keeps && select.windows.is_none();
    if !is_plain || !compiler.forced.allows(ForcedCarrier::Pages) {
        return None;
    }
    lower_inner(select, around, compiler)
}

/// Lowers loops that begin anew for each row around them: all registers are the parameters.
pub(super) fn lower_inner(
    select: &SelectDraft,
    around: &FxHashSet<Reg>,
    compiler: &Compiler,
) -> Option<Pipeline> {
    let mut pipeline = lower_part(select, None, None, (compiler, Some(around)))?;
    pipeline.probe = probe_node(&pipeline);
    Some(pipeline)
}

/// Lowers a select to the rows that its loops find; with the number of a loop and of a set, to the
/// rows of the loop's table that are not in the set, for which the loops around it have no row.
fn lower_part(
    select: &SelectDraft,
    without: Option<(usize, usize)>,
    top_n: Option<usize>,
    (compiler, around): (&Compiler, Option<&FxHashSet<Reg>>),
) -> Option<Pipeline> {
    let SelectDraft { constant, levels, group, windows, outputs, distinct } = select;
    let is_plain = constant.is_empty() && distinct.is_none();
    if levels.is_empty() || compiler.utf16 || !(is_plain || around.is_some()) {
        return None;
    }
    let database = database_of(levels, compiler)?;
    let mut lowering = Lowering::new(compiler, around);
    let mut constant = lowering.tests(constant)?;
    let mut steps = Vec::with_capacity(levels.len());
    for (number, level) in levels.iter().enumerate() {
        let first = without.map_or(0, |(first, _)| first);
        if number < first {
            for &reg in &level.registers {
                lowering.known.insert(reg, Operand::Constant(Value::Null));
            }
            lowering.marks += usize::from(level.keeps_right);
        } else if number == first && without.is_some() {
            steps.push(lowering.unmatched(level)?);
        } else {
            steps.push(lowering.level(level, number == first, compiler)?);
        }
    }
    let mut group_input = match group {
        Some(group) => Some(lowering.group(group)?),
        None => None,
    };
    if let (Some(input), Some(group)) = (&mut group_input, group)
        && windows.is_none()
        && group.having.is_none()
    {
        input.given = GroupColumn::all_of(outputs, group);
    }
    let mut outputs: Option<Box<[Operand]>> = match group {
        None if windows.is_none() => outputs.iter().map(|code| lowering.copied(code)).collect(),
        _ => None,
    };
    if group_input.is_none() && outputs.is_none() {
        return None;
    }
    for (number, operand) in outputs.iter().flatten().enumerate() {
        lowering.want(operand, top_n == Some(number));
    }
    let key = top_n.and_then(|number| match outputs.as_ref()?.get(number)? {
        Operand::Field { record, field, .. } => Some((*record, *field)),
        Operand::Rowid { .. } | Operand::Constant(_) | Operand::Parameter(_) => None,
    });
    let mut key_sets = match (without, around) {
        (None, None) => key_sets(select, &steps, compiler),
        _ => Box::default(),
    };
    for step in &mut steps {
        if let Access::Index(index) = &mut step.access {
            // The walk's own wish for the rowid is the only one.
            index.names_rows = index.row.is_some() && lowering.wanted[index.entry].len() == 1;
        }
    }
    let (records, fields) = lowering.records(key);
    let mut number = |operand: &mut Operand| number_field(operand, &records);
    constant.iter_mut().for_each(|test| test.each_operand(&mut number));
    steps.iter_mut().for_each(|level| level.each_operand(&mut number));
    outputs.iter_mut().flatten().for_each(&mut number);
    group_input.iter_mut().for_each(|group| group.each_operand(&mut number));
    key_sets.iter_mut().for_each(|set| number(&mut set.key));
    let levels: Box<[PipelineStep]> = steps.into();
    let walk =
        walk(&levels, &records, (outputs.as_deref(), group_input.as_ref()), (without, top_n));
    let places: Box<[OutputPlace]> = outputs.iter().flatten().map(OutputPlace::of).collect();
    let mut of_rows = places.iter().filter(|place| place.is_of_row());
    let output_record = of_rows.next().map_or(0, |first| first.record);
    let output_record =
        of_rows.all(|place| place.record == output_record).then_some(usize::from(output_record));
    let is_joined = matches!(walk.all_rows(), Walk::IndexScan | Walk::LookupJoin);
    let is_scan = |step: &PipelineStep| matches!(step.access, Access::Rows { .. });
    let asks_keys = match walk {
        Walk::LookupJoin => true,
        Walk::NestedLoop { .. } => levels.first().is_some_and(is_scan),
        _ => false,
    };
    let given = match &outputs {
        Some(outputs) if is_joined && output_record.is_none() => {
            let given = outputs.iter().enumerate();
            given.map(|(number, operand)| OutputPlace::of_output(number, operand)).collect()
        }
        _ => places,
    };
    Some(Pipeline {
        walk,
        measure: select.levels.first().map_or(0, |level| level.measure),
        probe: ProbeWalk::Loops,
        constant: constant.into(),
        levels,
        records,
        fields,
        outputs,
        given,
        group: group_input,
        output_record,
        lookups: lowering.lookups.into(),
        indexes: lowering.indexes.into(),
        database,
        marks: lowering.marks,
        tables: lowering.tables,
        skipped: without.map(|(_, mark)| mark),
        unmatched: Box::default(),
        key_sets: if asks_keys { key_sets } else { Box::default() },
        forced: compiler.forced,
    })
}

/// The one database that the loops read.
fn database_of(levels: &[Level], compiler: &Compiler) -> Option<usize> {
    let cursor = |level: &Level| match &level.scan {
        Scan::Table(scan) => Some(scan.cursor),
        Scan::Index(scan) => Some(scan.cursor),
        Scan::Any(scan) => Some(scan.cursor),
        Scan::Hash(hash) => match &hash.source {
            Scan::Table(scan) => Some(scan.cursor),
            _ => None,
        },
        Scan::Each(scan) => match &scan.inner {
            Scan::Table(scan) => Some(scan.cursor),
            _ => None,
        },
        _ => None,
    };
    let database = |level: &Level| compiler.cursors.get(cursor(level)?).copied();
    let first = database(levels.first()?)?;
    levels.iter().all(|level| database(level) == Some(first)).then_some(first)
}

/// The node that goes through the rows of a pipeline. `without` tells that rows of a set are
/// skipped.
fn walk(
    levels: &[PipelineStep],
    records: &[RecordPlan],
    (outputs, group): (Option<&[Operand]>, Option<&GroupInput>),
    (without, top_n): (Option<(usize, usize)>, Option<usize>),
) -> Walk {
    let counts = |group: &GroupInput| {
        let is_empty = group.keys.is_empty() && group.kept.is_empty();
        is_empty && group.arguments.iter().all(Option::is_none)
    };
    if without.is_none() && group.is_some_and(counts) && is_whole(levels) {
        return Walk::Count;
    }
    if let ([level], true) = (levels, outputs.is_some())
        && level.filter.is_empty()
    {
        match &level.access {
            Access::Rowid { key, .. } if level.before.is_empty() => {
                return Walk::Point { key: key.clone() };
            }
            Access::Common { .. } => return Walk::RowidList,
            Access::Any { arms, .. } if are_rowids(arms) => return Walk::RowidList,
            _ => {}
        }
    }
    let all = match levels {
        [level] if is_table_scan(level) => match top_n {
            Some(_) => Walk::TopN,
            None => Walk::TableScan,
        },
        [_] if is_lookup_join(levels) => Walk::IndexScan,
        levels if is_lookup_join(levels) => Walk::LookupJoin,
        levels => Walk::NestedLoop { prefetch: prefetch(levels, records) },
    };
    if is_seek(levels, outputs) { Walk::Seek(Box::new(all)) } else { all }
}

/// True where all rows of one table are found, or all entries of one index, and nothing is asked of
/// them.
fn is_whole(levels: &[PipelineStep]) -> bool {
    let [level] = levels else { return false };
    let all = match &level.access {
        Access::Rows { low, high, .. } => low.is_none() && high.is_none(),
        Access::Index(access) => {
            access.equal.is_empty()
                && access.start.is_none()
                && access.stop.is_none()
                && access.row.is_none()
        }
        Access::Rowid { .. } | Access::Any { .. } | Access::Common { .. } | Access::Hash(_) => {
            false
        }
    };
    all && level.filter.is_empty()
}

fn is_table_scan(level: &PipelineStep) -> bool {
    let is_ascending = matches!(level.access, Access::Rows { descending: false, .. });
    is_ascending && level.on.is_empty() && !level.left_join
}

/// True where all ways to the rows are rowids.
pub(crate) fn are_rowids(arms: &[Arm]) -> bool {
    arms.iter().all(|arm| matches!(arm, Arm::Rowid { .. }))
}

/// True where rows of a table, or entries of an index, come in their order, each with the rows of
/// other tables that it names by their rowids.
fn is_lookup_join(levels: &[PipelineStep]) -> bool {
    let [outer, inner @ ..] = levels else { return false };
    let (first, last) = match &outer.access {
        Access::Rows { descending: false, .. } => (0, 0),
        Access::Index(access) if !access.descending && !access.once => {
            (access.entry, usize::from(access.row.is_some()))
        }
        _ => return false,
    };
    // One table alone is a table scan.
    let alone = inner.is_empty() && matches!(outer.access, Access::Rows { .. });
    let mut inner_levels = inner.iter().zip(last + 1..);
    first == 0
        && outer.record == last
        && !alone
        && !outer.left_join
        && outer.on.is_empty()
        && inner_levels.all(|(level, record)| {
            matches!(level.access, Access::Rowid { .. }) && level.record == record
        })
}

/// True where rows are found by equality with an index's first columns and asked nothing else, and
/// all outputs are of one record.
fn is_seek(levels: &[PipelineStep], outputs: Option<&[Operand]>) -> bool {
    let ([level], Some(outputs)) = (levels, outputs) else { return false };
    let Access::Index(access) = &level.access else { return false };
    let tests = [&level.before, &level.on, &level.filter];
    let bare = !level.left_join && tests.iter().all(|tests| tests.is_empty());
    let of_one = outputs.iter().all(|output| output.is_at_most_of(level.record));
    bare && access.is_by_equality() && of_one
}

/// The column of the outermost table by which the next step looks rows up, and the lookup.
fn prefetch(levels: &[PipelineStep], records: &[RecordPlan]) -> Option<(usize, usize)> {
    let [PipelineStep { access: Access::Rows { .. }, record, .. }, next, ..] = levels else {
        return None;
    };
    match &next.access {
        Access::Rowid { key: Operand::Field { record: of, field, .. }, lookup } if of == record => {
            let plan = &records[*of];
            Some((plan.places[field - plan.first], *lookup))
        }
        _ => None,
    }
}

/// How few rows of one table are found at once for one row around them.
fn probe_node(pipeline: &Pipeline) -> ProbeWalk {
    let [level] = &*pipeline.levels else { return ProbeWalk::Loops };
    if level.left_join || level.marks.is_some() || !level.on.is_empty() {
        return ProbeWalk::Loops;
    }
    let access = match &level.access {
        Access::Rowid { .. } => return ProbeWalk::Point,
        Access::Index(access) if access.is_by_equality() => access,
        _ => return ProbeWalk::Loops,
    };
    let of_group =
        pipeline.group.iter().flat_map(|group| group.arguments.iter().flatten().chain(&group.kept));
    let of_tests = level.before.iter().chain(&level.filter).flat_map(Test::operands);
    let mut operands = pipeline.outputs.iter().flatten().chain(of_group).chain(of_tests);
    if !level.before.is_empty() || !operands.all(|operand| operand.is_at_most_of(level.record)) {
        return ProbeWalk::Loops;
    }
    let plan = &pipeline.records[level.record];
    let reads = access.row.is_some() || !level.filter.is_empty() || !plan.places.is_empty();
    if reads { ProbeWalk::Seek } else { ProbeWalk::Count }
}

/// A pipeline while it is made: the values of registers, and the columns wanted of each record.
#[derive(Default)]
pub(super) struct Lowering {
    known: FxHashMap<Reg, Operand>,
    /// For each record the places that are wanted, and whether predicates read them.
    wanted: Vec<Vec<(usize, bool)>>,
    lookups: Vec<Pgno>,
    indexes: Vec<Pgno>,
    /// How many sets of rows there are so far that found a match.
    marks: usize,
    /// How many tables of rowids there are so far.
    tables: usize,
}

impl Lowering {
    pub(super) fn new(compiler: &Compiler, around: Option<&FxHashSet<Reg>>) -> Lowering {
        let mut known = FxHashMap::default();
        for (reg, value) in &compiler.constants {
            known.insert(*reg, Operand::Constant(value.clone()));
        }
        for (reg, number) in &compiler.parameters {
            let number = if around.is_some() { reg + 1 } else { *number };
            known.insert(*reg, Operand::Parameter(number));
        }
        for reg in around.into_iter().flatten() {
            known.insert(*reg, Operand::Parameter(reg + 1));
        }
        Lowering { known, ..Lowering::default() }
    }

    pub(super) fn record(&mut self) -> Option<usize> {
        self.wanted.push(Vec::new());
        (self.wanted.len() <= RECORDS_MAX).then_some(self.wanted.len() - 1)
    }

    fn lookup(&mut self, root: Pgno) -> usize {
        self.lookups.push(root);
        self.lookups.len() - 1
    }

    /// Notes where a record's columns go.
    pub(super) fn load(&mut self, record: usize, loads: &Loads) {
        for load in &loads.columns {
            let (field, real, missing) = (load.place, load.real, load.missing.clone());
            self.known.insert(load.reg, Operand::Field { record, field, real, missing });
        }
        if let Some(reg) = loads.rowid {
            self.known.insert(reg, Operand::Rowid { record });
        }
    }

    fn register(&self, reg: Reg) -> Option<Operand> {
        self.known.get(&reg).cloned()
    }

    /// The operand of a key, which predicates read.
    fn key(&mut self, code: &Code) -> Option<Operand> {
        let key = self.register(code.in_place()?)?;
        self.want(&key, true);
        Some(key)
    }

    /// The operand of a code that copies a register, or computes nothing.
    fn copied(&self, code: &Code) -> Option<Operand> {
        self.register(code.copied()?)
    }

    fn want(&mut self, operand: &Operand, early: bool) {
        if let Operand::Field { record, field, .. } = operand {
            self.wanted[*record].push((*field, early));
        }
    }

    fn level(&mut self, level: &Level, first: bool, compiler: &Compiler) -> Option<PipelineStep> {
        let Level {
            words,
            scan,
            rows,
            estimate,
            anti,
            table_rows: _,
            measure,
            source,
            on,
            keeps_left,
            keeps_right,
            unmatched,
            filter,
            late,
            registers: _,
        } = level;
        let mut equal = Vec::new();
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
            Scan::Each(scan) if first => self.rowid_list(scan, late)?,
            Scan::Hash(scan) if !first && unmatched.is_none() => {
                let (access, record, tests) = self.hash(scan, level, compiler)?;
                equal = tests;
                (access, record)
            }
            Scan::Query(_)
            | Scan::Hash(_)
            | Scan::Each(_)
            | Scan::Any(_)
            | Scan::Taken(_)
            | Scan::Module(_)
            | Scan::Operator(_)
            | Scan::Virtual(_)
            | Scan::Nothing
            | Scan::Columns(_)
            | Scan::Pages(_) => return None,
        };
        let marks = match unmatched {
            Some(unmatched) => Some(self.mark(unmatched.rowid)?),
            None if *keeps_right => return None,
            None => None,
        };
        equal.append(&mut self.tests(on)?);
        let on = equal.into();
        let (mut before, mut filter) = (Vec::new(), self.tests(filter)?);
        let left_join = *keeps_left;
        let reads_row: Option<fn(&Operand, usize) -> bool> = match &access {
            Access::Rowid { .. } => Some(Operand::is_field_of),
            Access::Index(access) if access.row.is_some() => Some(Operand::is_of),
            Access::Hash(_) => Some(Operand::is_field_of),
            _ => None,
        };
        // A row that a predicate leaves out has found its match.
        if let Some(reads_row) = reads_row.filter(|_| !left_join && marks.is_none()) {
            let reads_row = |test: &Test| test.operands().any(|operand| reads_row(operand, record));
            (filter, before) = filter.into_iter().partition(reads_row);
        }
        let (before, filter) = (before.into(), filter.into());
        let (rows, estimate, words) = (*rows, *estimate, words.clone());
        Some(PipelineStep {
            access,
            record,
            left_join,
            anti: *anti,
            marks,
            before,
            on,
            filter,
            rows,
            estimate,
            words,
            source: *source,
            measure: Some(*measure),
            most: u64::MAX,
        })
    }

    /// A set for rows that find a match, whose rowid is in a register.
    fn mark(&mut self, rowid: Reg) -> Option<(usize, Operand)> {
        let rowid = self.register(rowid)?;
        self.want(&rowid, true);
        self.marks += 1;
        Some((self.marks - 1, rowid))
    }

    /// The rows of a level's table that found no match.
    fn unmatched(&mut self, level: &Level) -> Option<PipelineStep> {
        let UnmatchedScan { mark: _, rowid: _, scan, late } = level.unmatched.as_deref()?;
        let Scan::Table(TableScan { cursor: _, root, early, range, descending }) = scan else {
            return None;
        };
        let access = self.rows(*root, range, *descending)?;
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        self.marks += 1;
        let filter = self.tests(&level.filter)?.into();
        Some(PipelineStep::alone(access, record, filter, (level.rows, level.estimate)))
    }

    /// The rows of a table by their rowids.
    pub(super) fn rows(
        &mut self,
        root: Pgno,
        range: &RowidRange,
        descending: bool,
    ) -> Option<Access> {
        Some(match range {
            RowidRange::Equal(key) => {
                let key = self.key(key)?;
                Access::Rowid { key, lookup: self.lookup(root) }
            }
            RowidRange::Between { low, high } => {
                let (low, high) = (self.end(low.as_ref())?, self.end(high.as_ref())?);
                Access::Rows { root, low, high, descending }
            }
        })
    }

    /// The rows that any of several scans finds. All columns are read from the table's row.
    fn any(&mut self, scan: &AnyScan, late: &Loads) -> Option<(Access, usize)> {
        let AnyScan { arms: scans, early, rowid: _, cursor: _ } = scan;
        // Every arm leads to the same table.
        let root = scans.iter().find_map(|arm| match arm {
            Scan::Table(scan) => Some(scan.root),
            Scan::Index(scan) => scan.table.as_ref().map(|table| table.root),
            _ => None,
        });
        let mut arms = Vec::with_capacity(scans.len());
        for arm in scans {
            arms.push(match arm {
                Scan::Table(scan) => match self.rows(scan.root, &scan.range, false)? {
                    Access::Rowid { key, lookup: _ } => Arm::Rowid { key },
                    Access::Rows { root, low, high, descending: _ } => {
                        Arm::Rows { root, low, high }
                    }
                    Access::Index(_)
                    | Access::Any { .. }
                    | Access::Common { .. }
                    | Access::Hash(_) => return None,
                },
                Scan::Index(scan) => {
                    let TableKey::Rowid { place } = scan.table.as_ref()?.key else { return None };
                    let mut index = self.entries(scan)?;
                    // The number of the lookup is known once all arms are.
                    self.row_of_entry(&mut index, place, 0);
                    index.once = true;
                    Arm::Index(index)
                }
                _ => return None,
            });
        }
        let lookup = self.lookup(root?);
        for arm in &mut arms {
            if let Arm::Index(IndexAccess { row: Some((_, target)), .. }) = arm {
                *target = lookup;
            }
        }
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        Some((Access::Any { arms: arms.into(), lookup }, record))
    }

    /// The rows that the values of an `IN`, or several indexes together, name by their rowids.
    fn rowid_list(&mut self, scan: &EachScan, late: &Loads) -> Option<(Access, usize)> {
        // What values are compared by is no matter: each is sought as the rowid it is equal to.
        let EachScan { values, affinity: _, collation: _, reg, inner } = scan;
        let Scan::Table(scan) = inner else { return None };
        let TableScan { cursor: _, root, early, range, descending: _ } = scan;
        match range {
            RowidRange::Equal(key) if key.in_place() == Some(*reg) => {}
            RowidRange::Equal(_) | RowidRange::Between { .. } => return None,
        }
        let lookup = self.lookup(*root);
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        let access = match values {
            EachCodes::Query(_) => return None,
            EachCodes::List(codes) => {
                let arm = |code: &Code| Some(Arm::Rowid { key: self.register(code.in_place()?)? });
                Access::Any { arms: codes.iter().map(arm).collect::<Option<_>>()?, lookup }
            }
            EachCodes::Common(walks) => {
                let mut arms = Vec::with_capacity(walks.len());
                for walk in walks {
                    let arm = self.entries(walk)?;
                    let rowids = walk.early.columns.iter().map(|load| (load.place, true));
                    self.wanted[arm.entry].extend(rowids);
                    arms.push(arm);
                }
                Access::Common { arms: arms.into(), lookup }
            }
        };
        Some((access, record))
    }

    /// The rows of a table by the hash of their keys, and the equalities tested on a row.
    fn hash(
        &mut self,
        scan: &HashScan,
        level: &Level,
        compiler: &Compiler,
    ) -> Option<(Access, usize, Vec<Test>)> {
        let HashScan { store: _, source, filter, keys, row: _, rebuild, marks } = scan;
        let Scan::Table(TableScan { cursor, root, early, range, descending: _ }) = source else {
            return None;
        };
        let RowidRange::Between { low: None, high: None } = range else { return None };
        // The rows are gathered for each run: one that begins anew for many rows keeps its own.
        let is_run_once = compiler.runs == 1.0 && !compiler.is_repeated && !rebuild && !marks;
        if !is_run_once || !compiler.forced.allows(ForcedCarrier::Pages) {
            return None;
        }
        let database = compiler.cursors.get(*cursor).copied()?;
        // Near keys are compared by a condition of their own.
        let is_hashed = |key: &&HashKey| {
            !key.near && key.build.in_place().is_some() && key.probe.in_place().is_some()
        };
        let hashed: Vec<&HashKey> = keys.iter().filter(is_hashed).collect();
        if hashed.is_empty() || keys.iter().any(|key| !key.near && !is_hashed(&key)) {
            return None;
        }
        let mut lowering = Lowering::new(compiler, None);
        let record = lowering.record()?;
        lowering.load(record, early);
        let filter: Box<[Test]> = lowering.tests(filter)?.into();
        if !filter.iter().flat_map(Test::operands).all(|operand| operand.is_at_most_of(record)) {
            return None;
        }
        let own = |key: &&HashKey| lowering.key(&key.build).filter(|own| own.is_of(record));
        let mut outputs = hashed.iter().map(own).collect::<Option<Vec<Operand>>>()?;
        outputs.push(Operand::Rowid { record });
        let access = Access::Rows { root: *root, low: None, high: None, descending: false };
        let step = PipelineStep::alone(access, record, filter, (level.rows, level.estimate));
        let build = lowering.rows_of(vec![step], outputs.into(), (database, compiler.forced));
        let record = self.record()?;
        self.load(record, early);
        let mut tests = Vec::new();
        let mut probed = Vec::with_capacity(hashed.len());
        for key in &hashed {
            let (affinity, collation) = (key.affinity, key.collation);
            probed.push(HashedKey { probe: self.key(&key.probe)?, affinity, collation });
            if hashed.len() > 1 {
                let (own, other) = (key.build.in_place()?, key.probe.in_place()?);
                let rule = Comparison { op: CompareOp::Equal, affinity, collation };
                tests.push(self.compare(&rule, own, other)?);
            }
        }
        for operand in tests.iter().flat_map(Test::operands) {
            self.want(operand, true);
        }
        let (table, lookup) = (self.tables, self.lookup(*root));
        self.tables += 1;
        let access = HashAccess { table, build, keys: probed.into(), lookup };
        Some((Access::Hash(Box::new(access)), record, tests))
    }

    fn index(&mut self, scan: &IndexScan, late: &Loads) -> Option<(Access, usize)> {
        let mut index = self.entries(scan)?;
        let entry = index.entry;
        self.load(entry, &scan.early);
        let record = match &scan.table {
            None => {
                self.load(entry, late);
                entry
            }
            Some(table) => {
                let TableKey::Rowid { place } = table.key else { return None };
                let record = self.record()?;
                self.load(record, &table.early);
                self.load(record, late);
                let lookup = self.lookup(table.root);
                self.row_of_entry(&mut index, place, lookup);
                record
            }
        };
        Some((Access::Index(Box::new(index)), record))
    }

    /// Has the rows that an index's entries name by the rowid at a place read with a lookup.
    fn row_of_entry(&mut self, index: &mut IndexAccess, place: usize, lookup: usize) {
        let (record, real, missing) = (index.entry, false, Value::Null);
        self.wanted[record].push((place, true));
        index.row = Some((place, lookup));
        index.rowid = Some(Operand::Field { record, field: place, real, missing });
    }

    /// The entries of an index, without their columns.
    fn entries(&mut self, scan: &IndexScan) -> Option<IndexAccess> {
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
            equal.push((self.key(code)?, *affinity, *null));
        }
        let (low, high) = (self.end(low.as_ref())?, self.end(high.as_ref())?);
        let null = || End {
            value: Operand::Constant(Value::Null),
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
        Some(IndexAccess {
            lookup: self.indexes.len() - 1,
            order: order.clone(),
            equal: equal.into(),
            start,
            stop,
            descending: *descending,
            entry,
            row: None,
            rowid: None,
            names_rows: false,
            once: false,
        })
    }

    fn end(&mut self, bound: Option<&Bound>) -> Option<Option<End>> {
        let Some(bound) = bound else { return Some(None) };
        let value = self.key(&bound.value)?;
        let (inclusive, affinity) = (bound.inclusive, bound.affinity);
        Some(Some(End { value, inclusive, affinity, above_null: false }))
    }

    pub(super) fn tests(&mut self, codes: &[Code]) -> Option<Vec<Test>> {
        let mut tests = Vec::with_capacity(codes.len());
        for code in codes {
            self.test(code.predicate()?, &mut tests)?;
        }
        for operand in tests.iter().flat_map(Test::operands) {
            self.want(operand, true);
        }
        Some(tests)
    }

    /// Adds the tests of a predicate.
    fn test(&self, predicate: &Predicate, tests: &mut Vec<Test>) -> Option<()> {
        match predicate {
            Predicate::Compare { rule, left, right } => {
                tests.push(self.compare(rule, *left, *right)?);
            }
            Predicate::Between { value, low, high } => {
                tests.push(self.compare(&low.0, *value, low.1)?);
                tests.push(self.compare(&high.0, *value, high.1)?);
            }
            Predicate::IsNull { operand, not } => {
                tests.push(Test::IsNull { operand: self.register(*operand)?, not: *not });
            }
            Predicate::Like { language, operand, pattern, not } => tests.push(Test::Like {
                language: *language,
                operand: self.register(*operand)?,
                pattern: pattern.clone(),
                pieces: language.pieces(pattern),
                not: *not,
            }),
            Predicate::In { operand, list, rule } => tests.push(Test::In {
                operand: self.register(*operand)?,
                list: list.iter().map(|&item| self.register(item)).collect::<Option<_>>()?,
                rule: *rule,
            }),
            Predicate::Any(parts) => {
                let parts = parts.iter().map(|part| {
                    let mut tests = Vec::with_capacity(part.len());
                    part.iter().try_for_each(|it| self.test(it, &mut tests))?;
                    Some(tests.into_boxed_slice())
                });
                tests.push(Test::Any(parts.collect::<Option<_>>()?));
            }
        }
        Some(())
    }

    fn compare(&self, rule: &Comparison, left: Reg, right: Reg) -> Option<Test> {
        let (left, right) = (self.register(left)?, self.register(right)?);
        // The field on the left: that side is the one that varies.
        let (left, right, op) = match &left {
            Operand::Constant(_) | Operand::Parameter(_) => (right, left, rule.op.flipped()),
            Operand::Field { .. } | Operand::Rowid { .. } => (left, right, rule.op),
        };
        Some(Test::Compare { rule: Comparison { op, ..*rule }, left, right })
    }

    /// Keys, arguments of aggregates and the values kept of a row.
    fn group(&mut self, group: &GroupPlan) -> Option<GroupInput> {
        // The groups themselves know in which order their rows come, and when to stop.
        let GroupPlan {
            keys,
            aggregates,
            kept,
            picks: _,
            having: _,
            tests: _,
            ends_early: _,
            ordered: _,
            distinct: _,
            measure: _,
        } = group;
        let keys: Option<Box<_>> =
            keys.iter().map(|(code, by)| Some((self.copied(code)?, *by))).collect();
        let mut arguments = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let is_own = aggregate.function.is_own();
            if is_own || aggregate.filter.is_some() || !aggregate.order.is_empty() {
                return None;
            }
            arguments.push(match &*aggregate.arguments {
                [] => None,
                [one] => Some(self.copied(one)?),
                _ => return None,
            });
        }
        let kept: Option<Box<_>> = kept.iter().map(|&reg| self.register(reg)).collect();
        let (keys, arguments, more, kept) = (keys?, arguments.into(), Box::default(), kept?);
        let mut group = GroupInput { keys, arguments, more, kept, given: None };
        group.each_operand(&mut |operand| self.want(operand, false));
        Some(group)
    }

    /// A pipeline giving columns of the first of some steps, of rows joined by rowid.
    pub(super) fn rows_of(
        mut self,
        mut steps: Vec<PipelineStep>,
        mut outputs: Box<[Operand]>,
        (database, forced): (usize, Forced),
    ) -> Pipeline {
        let (records, fields) = self.records(None);
        let mut number = |operand: &mut Operand| number_field(operand, &records);
        steps.iter_mut().for_each(|step| step.each_operand(&mut number));
        outputs.iter_mut().for_each(&mut number);
        Pipeline {
            walk: if steps.len() == 1 { Walk::TableScan } else { Walk::LookupJoin },
            measure: 0,
            probe: ProbeWalk::Loops,
            constant: Box::default(),
            levels: steps.into(),
            records,
            fields,
            given: outputs.iter().map(OutputPlace::of).collect(),
            outputs: Some(outputs),
            group: None,
            output_record: Some(0),
            lookups: self.lookups.into(),
            indexes: self.indexes.into(),
            database,
            marks: 0,
            tables: 0,
            skipped: None,
            unmatched: Box::default(),
            key_sets: Box::default(),
            forced,
        }
    }

    /// Where each record's fields are kept, and how many there are. `key` is the first sort key of
    /// a top-N: a place in a record.
    fn records(&mut self, key: Option<(usize, usize)>) -> (Box<[RecordPlan]>, usize) {
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

/// Turns a column's place in its record into the number of its field.
fn number_field(operand: &mut Operand, records: &[RecordPlan]) {
    if let Operand::Field { record, field, .. } = operand {
        let plan = &records[*record];
        *field = plan.first + plan.places.partition_point(|known| *known < *field);
    }
}

impl PipelineStep {
    fn each_operand(&mut self, each: &mut impl FnMut(&mut Operand)) {
        let PipelineStep { access, marks, before, on, filter, .. } = self;
        match access {
            Access::Rows { root: _, low, high, descending: _ } => {
                low.iter_mut().chain(high).for_each(|end| each(&mut end.value));
            }
            Access::Rowid { key, lookup: _ } => each(key),
            Access::Hash(access) => access.keys.iter_mut().for_each(|key| each(&mut key.probe)),
            Access::Index(index) => index.each_operand(each),
            Access::Any { arms, lookup: _ } => {
                for arm in arms {
                    match arm {
                        Arm::Rowid { key } => each(key),
                        Arm::Rows { root: _, low, high } => {
                            low.iter_mut().chain(high).for_each(|end| each(&mut end.value));
                        }
                        Arm::Index(index) => index.each_operand(each),
                    }
                }
            }
            Access::Common { arms, lookup: _ } => {
                arms.iter_mut().for_each(|index| index.each_operand(each));
            }
        }
        marks.iter_mut().for_each(|(_, rowid)| each(rowid));
        for test in before.iter_mut().chain(on).chain(filter) {
            test.each_operand(each);
        }
    }
}

impl IndexAccess {
    fn each_operand(&mut self, each: &mut impl FnMut(&mut Operand)) {
        self.equal.iter_mut().for_each(|(key, ..)| each(key));
        self.start.iter_mut().chain(&mut self.stop).for_each(|end| each(&mut end.value));
        self.rowid.iter_mut().for_each(each);
    }
}

impl Test {
    fn each_operand(&mut self, each: &mut impl FnMut(&mut Operand)) {
        match self {
            Test::Compare { rule: _, left, right } => {
                each(left);
                each(right);
            }
            Test::IsNull { operand, .. } | Test::Like { operand, .. } => each(operand),
            Test::In { operand, list, rule: _ } => {
                each(operand);
                list.iter_mut().for_each(each);
            }
            Test::Any(parts) => {
                parts.iter_mut().flatten().for_each(|test| test.each_operand(&mut *each));
            }
        }
    }
}

impl GroupInput {
    fn each_operand(&mut self, each: &mut impl FnMut(&mut Operand)) {
        self.keys.iter_mut().for_each(|(key, _)| each(key));
        self.arguments.iter_mut().flatten().for_each(&mut *each);
        self.kept.iter_mut().for_each(each);
    }
}
