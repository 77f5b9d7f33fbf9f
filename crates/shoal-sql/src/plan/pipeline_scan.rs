//! Scans that take their rows from a pipeline: those of the first tables of a select are found as
//! many at a time as lie on a leaf, joined, and asked the conditions that are simple enough where
//! they are stored. What a pipeline cannot compute is computed once columns are read, of many rows
//! at a time: conditions, and where those are all that is left to be asked, the columns of the
//! result or what groups are made of.

use super::lower::{DistinctDraft, SelectDraft};
use super::lower_pages::lower_scan;
use super::pipeline::{GroupColumn, GroupInput, MoreOfAggregate, Operand, Pipeline, constant};
use super::{AggregatePlan, GroupPlan, Level, Loads, Scan};
use crate::plan::{Code, ColumnTable, Compiler, Reg};
use crate::session::forced::ForcedCarrier;
use crate::value::Value;

/// Such a scan.
#[derive(Debug)]
pub(crate) struct PipelineScan {
    pub(crate) pipeline: Pipeline,
    /// The registers of its outputs.
    pub(crate) registers: Box<[Reg]>,
    /// How many of them are read before conditions are asked.
    pub(crate) early: usize,
    /// What is asked of rows many at a time.
    pub(crate) conditions: Box<[Code]>,
    /// What is computed of those that are left.
    pub(crate) outputs: Box<[Code]>,
    /// Where the registers of all that are columns.
    pub(crate) table: ColumnTable,
    /// The columns that it gives of a row, and the registers they go to.
    pub(crate) given: Box<[(usize, Reg)]>,
    /// True where anything of it runs a query.
    pub(crate) runs_query: bool,
}

/// Groups of rows whose keys and arguments are columns.
#[derive(Debug)]
pub(crate) struct GroupScan {
    /// Keys and arguments that are computed first.
    pub(crate) computed: Box<[GroupCode]>,
    pub(crate) group: GroupInput,
}

/// A code of a group, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupCode {
    Key(usize),
    /// An argument of an aggregate, by the aggregate's number and its own.
    Argument(usize, usize),
    /// What must hold of the rows that an aggregate takes.
    Filter(usize),
}

impl GroupCode {
    /// The code itself.
    pub(crate) fn of(self, group: &GroupPlan) -> Option<&Code> {
        match self {
            GroupCode::Key(number) => group.keys.get(number).map(|(code, _)| code),
            GroupCode::Argument(number, of) => group.aggregates.get(number)?.arguments.get(of),
            GroupCode::Filter(number) => group.aggregates.get(number)?.filter.as_ref(),
        }
    }
}

/// What became of a select, as far as its rows are columns.
pub(super) enum Carried {
    /// Rows of the first loops at most; conditions, groups and outputs are left to the select.
    Rows,
    /// Whole rows: the column of each output; `None` for one that is the same for all rows.
    Outputs(Box<[Option<usize>]>),
    /// Rows that are taken into groups many at a time.
    Groups(GroupScan),
}

/// Makes the first loops of a select one scan that reads columns, as many of them as their rows can
/// be found so. Expressions without columns are left to the loop and to the select.
///
/// Rows of a `DISTINCT` of which all are wanted are taken as groups.
pub(super) fn carry(draft: &mut SelectDraft, is_limited: bool, compiler: &mut Compiler) -> Carried {
    if !compiler.forced.allows(ForcedCarrier::Columns) {
        return Carried::Rows;
    }
    let levels = &mut draft.levels;
    let is_asked = |code: &Code| code.predicate().is_some();
    let rest = levels.iter().position(|level| !level.filter.iter().all(is_asked));
    let all = levels.len();
    if rest.is_some_and(|first| first + 1 < all)
        && levels.iter().all(fits_pipeline)
        && let Some(moved) = ask_behind(levels, compiler)
    {
        if feed(levels, all, compiler) {
            return compute(draft, is_limited, compiler);
        }
        ask_before(levels, moved);
    }
    // Rows that a condition leaves out are not joined with others before it is asked.
    let most = rest.map_or(all, |last| last + 1);
    for count in (1..=most).rev() {
        if levels[..count].iter().all(fits_pipeline) && feed(levels, count, compiler) {
            return compute(draft, is_limited, compiler);
        }
    }
    Carried::Rows
}

/// Moves the computed conditions of the levels but the last behind the last: joining rows on their
/// pages costs less than going through registers behind a condition that most rows meet. Gives how
/// many conditions of which level were moved; `None` for conditions that leave out most rows, run a
/// query for each row, or would be asked of more rows.
fn ask_behind(levels: &mut [Level], compiler: &Compiler) -> Option<Vec<(usize, usize)>> {
    let (last, before) = levels.split_last_mut()?;
    let is_computed = |code: &&Code| code.predicate().is_none();
    let mut found = 1.0;
    for level in &*before {
        let read = found * level.rows;
        found = level.estimate;
        let mut computed = level.filter.iter().filter(is_computed).peekable();
        let asks = computed.peek().is_some();
        if computed.any(|code| compiler.runs_for_rows(code))
            || (asks && (found < read / LEFT_BY_MOVED || last.estimate > found * GROWN_MAX))
        {
            return None;
        }
    }
    let mut moved = Vec::new();
    for (number, level) in before.iter_mut().enumerate() {
        let filter = std::mem::take(&mut level.filter).into_iter();
        let (kept, computed): (Vec<Code>, Vec<Code>) =
            filter.partition(|code| code.predicate().is_some());
        level.filter = kept;
        moved.push((number, computed.len()));
        last.filter.extend(computed);
    }
    Some(moved)
}

/// Moves conditions back that [`ask_behind`] has moved.
fn ask_before(levels: &mut [Level], moved: Vec<(usize, usize)>) {
    let Some((last, before)) = levels.split_last_mut() else { return };
    for (number, count) in moved.into_iter().rev() {
        let from = last.filter.len() - count;
        before[number].filter.extend(last.filter.drain(from..));
    }
}

/// A condition asked behind the joins leaves one row in so many at least.
const LEFT_BY_MOVED: f64 = 4.0;

/// Behind the joins are at most so many times the rows that the condition leaves.
const GROWN_MAX: f64 = 1.5;

/// Replaces so many levels by one scan, if that can be done.
fn feed(levels: &mut Vec<Level>, count: usize, compiler: &Compiler) -> bool {
    let behind = levels.split_off(count);
    let (mut first, mut late) = (Vec::new(), Vec::new());
    for (number, level) in levels.iter().enumerate() {
        first.extend(read_early(&level.scan));
        let last = number + 1 == count;
        if last { &mut late } else { &mut first }.extend(loaded(&level.late));
    }
    late.retain(|reg| !first.contains(reg));
    let (early, mut registers) = (first.len(), first);
    registers.append(&mut late);
    let copied = |&reg: &Reg| Code::register(reg);
    let mut draft = SelectDraft {
        constant: Vec::new(),
        levels: std::mem::take(levels),
        group: None,
        windows: None,
        outputs: registers.iter().map(copied).collect(),
        distinct: None,
    };
    let mut rest = Vec::new();
    let mut pipeline = None;
    // Conditions that look simple may ask for what queries around this one read.
    for asks in [true, false] {
        if let (None, Some(last)) = (&pipeline, draft.levels.last_mut()) {
            let filter = std::mem::take(&mut last.filter).into_iter().chain(rest.drain(..));
            (last.filter, rest) = filter.partition(|code| asks && code.predicate().is_some());
            pipeline = lower_scan(&draft, None, compiler);
        }
    }
    *levels = draft.levels;
    let is_fed = pipeline.is_some();
    if let (Some(pipeline), [first, ..], [.., last]) = (pipeline, &**levels, &**levels) {
        let scan = PipelineScan {
            pipeline,
            registers: registers.into(),
            early,
            conditions: Box::default(),
            outputs: Box::default(),
            table: ColumnTable::default(),
            given: Box::default(),
            runs_query: false,
        };
        let fed = Level {
            words: None,
            scan: Scan::Columns(Box::new(scan)),
            rows: last.rows,
            estimate: last.estimate,
            anti: false,
            table_rows: None,
            measure: first.measure,
            source: None,
            on: Vec::new(),
            keeps_left: false,
            keeps_right: false,
            unmatched: None,
            filter: rest,
            late: Loads::default(),
            registers: levels.iter().flat_map(|level| level.registers.iter().copied()).collect(),
        };
        *levels = vec![fed];
    } else if let Some(last) = levels.last_mut() {
        last.filter.append(&mut rest);
    }
    levels.extend(behind);
    is_fed
}

/// Makes the scan of the first level compute what can be computed of many rows at a time.
fn compute(draft: &mut SelectDraft, is_limited: bool, compiler: &mut Compiler) -> Carried {
    if !is_limited {
        group_distinct(draft, compiler);
    }
    let compiler = &*compiler;
    let by_row = |code: &Code| compiler.is_by_row(code);
    let SelectDraft { levels, group, windows, outputs, distinct, .. } = draft;
    let is_alone = levels.len() == 1;
    let Some(Level { scan: Scan::Columns(piped), filter, .. }) = levels.first_mut() else {
        return Carried::Rows;
    };
    let conditions = std::mem::take(filter).into_iter();
    let (conditions, rest): (Vec<Code>, _) = conditions.partition(|code| !by_row(code));
    *filter = rest;
    piped.conditions = conditions.into();
    // Whether there is nothing between its rows and what becomes of them.
    let is_whole = is_alone && filter.is_empty();
    let loaded = &piped.registers;
    let gives_outputs =
        is_whole && group.is_none() && windows.is_none() && !outputs.iter().any(by_row);
    if gives_outputs {
        let codes = outputs.iter().filter(|code| code.copied().is_none());
        let table = ColumnTable::new(loaded, piped.conditions.iter().chain(codes));
        let column = |code: &Code| table.column(code.copied().unwrap_or(code.result));
        let row = outputs.iter().map(column).collect::<Box<[_]>>();
        let given = row.iter().zip(&*outputs);
        piped.given = given.filter_map(|(&it, code)| Some((it?, code.result))).collect();
        let computed = outputs.iter_mut().zip(&row).filter(|(_, column)| column.is_some());
        let taken = computed.map(|(code, _)| {
            let result = code.result;
            std::mem::replace(code, Code::register(result))
        });
        piped.outputs = taken.filter(|code| code.copied().is_none()).collect();
        piped.table = table;
        return Carried::Outputs(row);
    }
    let mut carried = Carried::Rows;
    let grouped = match group {
        Some(group) if is_whole && !group.ordered => {
            codes_of(group, compiler).map(|codes| (group, codes))
        }
        _ => None,
    };
    if let Some((group, codes)) = grouped {
        let computed: Box<[GroupCode]> = codes
            .into_iter()
            .filter(|code| code.of(group).is_some_and(|code| code.copied().is_none()))
            .collect();
        let codes = computed.iter().filter_map(|code| code.of(group));
        piped.runs_query = piped.conditions.iter().chain(codes.clone()).any(Code::runs_query);
        piped.table = ColumnTable::new(loaded, piped.conditions.iter().chain(codes));
        // What a group gives is its own, and nothing more is asked of it.
        let is_given = windows.is_none() && distinct.is_none() && group.having.is_none();
        let given = if is_given { GroupColumn::all_of(outputs, group) } else { None };
        if let Some(group) = group_input((group, given), &piped.table, compiler) {
            carried = Carried::Groups(GroupScan { computed, group });
        }
    } else {
        piped.table = ColumnTable::new(loaded, piped.conditions.iter());
    }
    let given = piped.registers.iter().filter_map(|&reg| Some((piped.table.column(reg)?, reg)));
    piped.given = given.collect();
    carried
}

/// Makes groups without aggregates of rows of which each is wanted once, where those can be taken
/// many at a time: what they are told apart by is what they are.
fn group_distinct(draft: &mut SelectDraft, compiler: &mut Compiler) {
    let SelectDraft { levels, group, windows, outputs, distinct, .. } = draft;
    let [Level { scan: Scan::Columns(piped), filter, .. }] = &**levels else { return };
    let is_whole = !filter.iter().any(|code| compiler.is_by_row(code));
    // What varies with the row: the others are in their registers once.
    let varies = |code: &Code| {
        let is_loaded = |reg: Reg| piped.registers.contains(&reg);
        code.copied().map_or(!compiler.is_by_row(code), is_loaded)
    };
    let is_plain = group.is_none() && windows.is_none() && outputs.iter().all(varies);
    match distinct {
        Some(distinct) if is_whole && is_plain && !distinct.ordered => {
            if distinct.collations.len() != outputs.len() {
                return;
            }
        }
        _ => return,
    }
    let Some(DistinctDraft { collations, .. }) = distinct.take() else { return };
    let kept: Vec<Reg> = outputs.iter().map(|code| code.result).collect();
    let outputs = outputs.iter_mut().map(|code| {
        let result = code.result;
        std::mem::replace(code, Code::register(result))
    });
    *group = Some(GroupPlan {
        keys: outputs.zip(collations).collect(),
        aggregates: Vec::new(),
        kept,
        picks: None,
        having: None,
        tests: Vec::new(),
        ends_early: false,
        ordered: false,
        distinct: true,
        measure: compiler.measure(),
    });
}

/// What a group computes of its rows; `None` for one whose rows are not taken many at a time.
fn codes_of(group: &GroupPlan, compiler: &Compiler) -> Option<Vec<GroupCode>> {
    let is_plain = |aggregate: &AggregatePlan| {
        let AggregatePlan { function, arguments, filter, order, distinct, .. } = aggregate;
        let has_more = arguments.len() == 2 || filter.is_some();
        // What fails of a row that is not taken is no error.
        let fails = |code: &Code| code.runs_query() || code.calls_function();
        let is_safe = filter.is_none() || !arguments.iter().any(fails);
        let is_few = arguments.len() <= 2 && order.is_empty() && !(has_more && *distinct);
        !function.is_own() && is_few && is_safe
    };
    let mut codes: Vec<GroupCode> = (0..group.keys.len()).map(GroupCode::Key).collect();
    for (number, aggregate) in group.aggregates.iter().enumerate() {
        codes.extend((0..aggregate.arguments.len()).map(|of| GroupCode::Argument(number, of)));
        codes.extend(aggregate.filter.is_some().then_some(GroupCode::Filter(number)));
    }
    let fits = !group.ends_early
        && group.aggregates.iter().all(is_plain)
        && !codes.iter().filter_map(|code| code.of(group)).any(|code| compiler.is_by_row(code));
    fits.then_some(codes)
}

/// The group's values as columns; `None` where one is not.
fn group_input(
    (group, given): (&GroupPlan, Option<Box<[GroupColumn]>>),
    table: &ColumnTable,
    compiler: &Compiler,
) -> Option<GroupInput> {
    let of_register = |reg: Reg| {
        let field = table.column(reg)?;
        Some(Operand::Field { record: 0, field, real: false, missing: Value::Null })
    };
    let of_code = |code: &Code| {
        let reg = code.copied().unwrap_or(code.result);
        of_register(reg).or_else(|| constant(reg, compiler))
    };
    let keys = group.keys.iter().map(|(code, by)| Some((of_code(code)?, *by)));
    let arguments = group.aggregates.iter().map(|aggregate| match aggregate.arguments.first() {
        Some(code) => of_code(code).map(Some),
        None => Some(None),
    });
    let mut more = Vec::new();
    if group.aggregates.iter().any(|it| it.filter.is_some() || it.arguments.len() > 1) {
        for AggregatePlan { arguments, filter, .. } in &group.aggregates {
            let of = |code: Option<&Code>| code.map_or(Some(None), |code| of_code(code).map(Some));
            more.push(MoreOfAggregate {
                second: of(arguments.get(1))?,
                filter: of(filter.as_ref())?,
            });
        }
    }
    // What is kept of a row may be what it is grouped by.
    let kept = group.kept.iter().map(|&reg| {
        let key = group.keys.iter().find(|(code, _)| code.result == reg);
        key.map_or_else(|| of_register(reg), |(code, _)| of_code(code))
    });
    Some(GroupInput {
        keys: keys.collect::<Option<_>>()?,
        arguments: arguments.collect::<Option<_>>()?,
        more: more.into(),
        kept: kept.collect::<Option<_>>()?,
        given,
    })
}

/// True where all that is known of a level is what a pipeline can say of it.
fn fits_pipeline(level: &Level) -> bool {
    let read: Vec<Reg> = read_early(&level.scan).chain(loaded(&level.late)).collect();
    // Where a left join finds no row these are NULL.
    let whole = !level.keeps_left || level.registers.iter().all(|reg| read.contains(reg));
    whole && !level.keeps_right && level.on.iter().all(|code| code.predicate().is_some())
}

/// The registers that a scan reads columns into early.
pub(super) fn read_early(scan: &Scan) -> impl Iterator<Item = Reg> {
    let (of_row, of_table) = match scan {
        Scan::Table(scan) => (Some(&scan.early), None),
        Scan::Index(scan) => (Some(&scan.early), scan.table.as_ref().map(|table| &table.early)),
        Scan::Any(scan) => (Some(&scan.early), None),
        Scan::Hash(hash) => match &hash.source {
            Scan::Table(scan) => (Some(&scan.early), None),
            _ => (None, None),
        },
        Scan::Each(scan) => match &scan.inner {
            Scan::Table(scan) => (Some(&scan.early), None),
            _ => (None, None),
        },
        _ => (None, None),
    };
    [of_row, of_table].into_iter().flatten().flat_map(loaded)
}

pub(super) fn loaded(loads: &Loads) -> impl Iterator<Item = Reg> {
    loads.columns.iter().map(|load| load.reg).chain(loads.rowid)
}
