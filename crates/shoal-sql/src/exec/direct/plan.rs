//! Which selects run directly, and how: compiled from the plan of the general executor.

use rustc_hash::FxHashMap;
use shoal_store::{ColumnFinder, KeyOrder, Pgno};

use super::leaf_rows::Given;
use super::run::compare;
use crate::expr::{Code, Compiler, Op, Reg};
use crate::plan::{
    AnyScan, BodyPlan, Bound, EachCodes, EachScan, GroupPlan, IndexScan, Level, Loads, NullKey,
    QueryPlan, RowidRange, Scan, SelectPlan, TableKey, TableScan, UnmatchedScan,
};
use crate::resolve::tree::Comparison;
use crate::value::{Affinity, Collation, PATTERN_BYTES_MAX, Pattern, Value, ValueRef, text_of};

/// Most records that make up one joined row.
pub(super) const RECORDS_MAX: usize = 8;

/// Most values that an index is sought by.
pub(super) const KEYS_MAX: usize = 16;

/// A select whose rows are read straight from the pages.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(super) levels: Box<[DirectLevel]>,
    /// By number: the fields that are wanted of each record.
    pub(super) records: Box<[RecordPlan]>,
    /// How many fields the records have together.
    pub(super) fields: usize,
    /// The result's columns and sort keys, when each is a column, a constant or a parameter.
    pub(crate) outputs: Option<Box<[Operand]>>,
    /// What those are of a row that is given as places on a page.
    pub(super) given: Box<[Given]>,
    pub(crate) group: Option<DirectGroup>,
    /// Whether the rows are those of a table, or the entries of an index, with the rows of tables that
    /// each names by their rowids.
    pub(super) joins: bool,
    /// The one record that all columns of the result are of, where that is one.
    pub(super) gives: Option<usize>,
    /// Whether the rows are those that an index finds by equality, and nothing else is asked.
    pub(super) seeks: bool,
    /// Whether the column that its rows are sorted by first, of which so many are wanted, is found
    /// before others.
    pub(crate) chooses: bool,
    /// Whether all that is asked is how many rows a table has.
    pub(crate) counts_rows: bool,
    /// The roots of the tables whose rows are looked up, and of the indexes.
    pub(super) lookups: Box<[Pgno]>,
    pub(super) indexes: Box<[Pgno]>,
    /// Where the outermost loop goes over a table and the next one looks rows up by a column of it:
    /// the column's place in the record and the lookup.
    pub(super) warms: Option<(usize, usize)>,
    /// The key of the one row that can be found, where nothing else is asked.
    pub(super) point: Option<Operand>,
    /// Whether rows that a list of rowids names are all that is asked for.
    pub(super) listed: bool,
    /// The number of the one database that all of it is in.
    pub(crate) database: usize,
    /// How many sets of rows there are that found a match.
    pub(super) marks: usize,
    /// The number of the set whose rows are left out of the first table's.
    pub(super) leaves_out: Option<usize>,
    /// For each table of which rows stay without a match: the select of those, whose rows come behind
    /// these.
    pub(crate) unmatched: Box<[Direct]>,
}

#[derive(Debug)]
pub(super) struct DirectLevel {
    pub(super) access: Access,
    /// The record of the row; of an index's entry where the index is all that is read.
    pub(super) record: usize,
    pub(super) left_join: bool,
    /// The number of the set in which rows are noted that found a match, and their rowid.
    pub(super) marks: Option<(usize, Operand)>,
    /// Conditions that ask for nothing of a row but its rowid, where it is looked up by that; that ask
    /// for nothing but an index's entry, where that names the row.
    pub(super) before: Box<[Test]>,
    /// What decides whether a row matches a left join.
    pub(super) on: Box<[Test]>,
    pub(super) filter: Box<[Test]>,
}

/// How a level's rows are found.
#[derive(Debug)]
pub(super) enum Access {
    Rows {
        root: Pgno,
        low: Option<End>,
        high: Option<End>,
        descending: bool,
    },
    Rowid {
        key: Operand,
        lookup: usize,
    },
    Index(Box<IndexAccess>),
    /// The rows that any arm finds, each once; of the outermost loop alone.
    Any {
        arms: Box<[Arm]>,
        lookup: usize,
    },
}

/// One of several ways to the rows of a table.
#[derive(Debug)]
pub(super) enum Arm {
    Rowid { key: Operand },
    Rows { root: Pgno, low: Option<End>, high: Option<End> },
    Index(IndexAccess),
}

#[derive(Debug)]
pub(super) struct IndexAccess {
    /// The number of the lookup that finds its entries.
    pub(super) lookup: usize,
    pub(super) order: KeyOrder,
    pub(super) equal: Box<[(Operand, Option<Affinity>, NullKey)]>,
    /// Where the range begins and ends, in the index's own direction. NULL is in no range.
    pub(super) start: Option<End>,
    pub(super) stop: Option<End>,
    /// Whether the entries are walked backwards, from the stop to the start.
    pub(super) descending: bool,
    /// The record of the entry.
    pub(super) entry: usize,
    /// Where the entry has the rowid, and the lookup that finds the row, when the row is read.
    pub(super) row: Option<(usize, usize)>,
    /// That rowid, where the row is read.
    pub(super) rowid: Option<Operand>,
    /// Whether rows that were found before are left out.
    pub(super) once: bool,
}

/// One end of a range.
#[derive(Debug)]
pub(super) struct End {
    pub(super) value: Operand,
    pub(super) inclusive: bool,
    pub(super) affinity: Option<Affinity>,
    /// Whether it stands for "above NULL", where nothing else bounds the range.
    pub(super) above_null: bool,
}

/// The fields wanted of a record.
#[derive(Debug, Default)]
pub(super) struct RecordPlan {
    /// Places in the record, ascending.
    pub(super) places: Box<[usize]>,
    /// All of them; the first ones, which decide whether the row is wanted; the others.
    pub(super) all: ColumnFinder,
    pub(super) early: ColumnFinder,
    pub(super) late: ColumnFinder,
    /// The one by which rows are chosen, where nothing else is asked of them first: its number among
    /// these.
    pub(super) key: Option<(usize, ColumnFinder)>,
    /// Where the first one is kept among the fields of all records.
    pub(super) first: usize,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Field {
        record: usize,
        /// Among the fields of all records.
        field: usize,
        /// Whether integers are reals that were stored short.
        real: bool,
        /// What records that end early hold.
        missing: Value,
    },
    Rowid {
        record: usize,
    },
    Constant(Value),
    /// By number from 1.
    Parameter(usize),
}

/// A condition on a row.
#[derive(Debug)]
pub(super) enum Test {
    Compare {
        rule: Comparison,
        left: Operand,
        right: Operand,
    },
    IsNull {
        operand: Operand,
        not: bool,
    },
    /// `LIKE` or `GLOB` with a pattern that is a constant.
    Fits {
        language: Pattern,
        operand: Operand,
        pattern: Box<[u8]>,
        not: bool,
    },
}

impl Test {
    /// Whether a row meets the condition, of which `value` tells the values of operands.
    #[inline(always)]
    pub(super) fn holds<'v>(&'v self, value: impl Fn(&'v Operand) -> ValueRef<'v>) -> bool {
        match self {
            Test::Compare { rule, left, right } => compare(rule, value(left), value(right)),
            Test::IsNull { operand, not } => (value(operand) == ValueRef::Null) != *not,
            Test::Fits { language, operand, pattern, not } => text_of(value(operand))
                .is_some_and(|text| language.matches(pattern, &text, None) != *not),
        }
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        let (first, second) = match self {
            Test::Compare { left, right, .. } => (left, Some(right)),
            Test::IsNull { operand, .. } | Test::Fits { operand, .. } => (operand, None),
        };
        [Some(first), second].into_iter().flatten()
    }
}

impl Operand {
    fn is_field_of(&self, wanted: usize) -> bool {
        matches!(self, Operand::Field { record, .. } if *record == wanted)
    }

    fn is_of(&self, wanted: usize) -> bool {
        matches!(
            self,
            Operand::Field { record, .. } | Operand::Rowid { record } if *record == wanted
        )
    }
}

/// A group's keys and what its aggregates are given.
#[derive(Debug)]
pub(crate) struct DirectGroup {
    pub(crate) keys: Box<[(Operand, Collation)]>,
    /// One for each aggregate; `None` for `count(*)`.
    pub(crate) arguments: Box<[Option<Operand>]>,
    pub(crate) kept: Box<[Operand]>,
    /// The result's columns, where each is one of these and every group is given.
    pub(crate) given: Option<Box<[GroupColumn]>>,
}

/// What a column of a result is of a group: by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupColumn {
    /// A value of the row that is kept.
    Kept(usize),
    Aggregate(usize),
}

impl GroupColumn {
    fn of(code: &Code, group: &GroupPlan) -> Option<GroupColumn> {
        let reg = match &*code.ops {
            [Op::Copy { from, to }] if *to == code.result => *from,
            _ => return None,
        };
        if let Some(number) = group.aggregates.iter().position(|it| it.result == reg) {
            return Some(GroupColumn::Aggregate(number));
        }
        Some(GroupColumn::Kept(group.kept.iter().position(|&kept| kept == reg)?))
    }
}

/// A whole statement that is direct selects: one after the other, or compared with one another.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) limit: Option<Operand>,
    pub(crate) offset: Option<Operand>,
    /// Whether rows of the parts are compared.
    pub(crate) compares: bool,
    /// Whether more is kept the more rows there are.
    pub(crate) keeps: bool,
    /// The number of the one database that all parts are in.
    pub(crate) database: usize,
}

impl Root {
    /// What a query is when its rows are those of direct selects.
    pub(crate) fn of(query: &QueryPlan, compiler: &Compiler) -> Option<Root> {
        let QueryPlan { body, output: _, width: _, sort, limit, offset, queries: _ } = query;
        if sort.is_some() || root_parts(body).any(|it| it.is_none()) {
            return None;
        }
        let operand = |code: &Option<Code>| match code {
            None => Some(None),
            Some(code) if code.ops.is_empty() => Some(Some(constant(code.result, compiler)?)),
            Some(_) => None,
        };
        let compares = matches!(body, BodyPlan::Compound(plan) if !plan.is_chain());
        let keeps = compares || root_parts(body).flatten().any(Direct::notes_matches);
        let mut databases = root_parts(body).flatten().map(|direct| direct.database);
        let database = databases.next()?;
        if databases.any(|other| other != database) {
            return None;
        }
        let (limit, offset) = (operand(limit)?, operand(offset)?);
        Some(Root { limit, offset, compares, keeps, database })
    }
}

/// The parts of a query's body whose rows are simply given one after the other; `None` for one that
/// is not a direct select of columns.
pub(crate) fn parts(body: &BodyPlan) -> impl Iterator<Item = Option<&Direct>> {
    let compares = matches!(body, BodyPlan::Compound(plan) if !plan.is_chain());
    let none = compares.then_some(None);
    none.into_iter().chain(root_parts(body).filter(move |_| !compares))
}

/// The parts of a query's body, however they are combined; `None` for one that is not a direct
/// select of columns. Rows without a match are a part of their own, which is not compared.
pub(crate) fn root_parts(body: &BodyPlan) -> impl Iterator<Item = Option<&Direct>> {
    let compares = matches!(body, BodyPlan::Compound(plan) if !plan.is_chain());
    let fits =
        move |direct: &&Direct| direct.outputs.is_some() && !(compares && direct.notes_matches());
    let (alone, first, rest) = match body {
        BodyPlan::Compound(plan) => (None, Some(&plan.first), &plan.rest[..]),
        other => (Some(other), None, &[][..]),
    };
    let parts = first.into_iter().chain(rest.iter().map(|(_, part)| part));
    alone.into_iter().chain(parts.map(part_body)).flat_map(move |body| {
        let first = match body {
            BodyPlan::Select(select) => select.direct.as_deref().filter(fits),
            _ => None,
        };
        let unmatched = first.map_or(&[][..], |direct| &direct.unmatched);
        std::iter::once(first).chain(unmatched.iter().map(Some))
    })
}

/// The body of a part of a compound, which has neither order nor bounds of its own.
fn part_body(part: &QueryPlan) -> &BodyPlan {
    &part.body
}

/// A register that nothing writes while the statement runs.
fn constant(reg: Reg, compiler: &Compiler) -> Option<Operand> {
    if let Some((_, value)) = compiler.constants.iter().find(|(known, _)| *known == reg) {
        return Some(Operand::Constant(value.clone()));
    }
    let (_, number) = compiler.parameters.iter().find(|(known, _)| *known == reg)?;
    Some(Operand::Parameter(*number))
}

/// A field before it is known where it is kept.
#[derive(Clone, Debug)]
enum Draft {
    Field { record: usize, place: usize, real: bool, missing: Value },
    Ready(Operand),
}

/// What is known of the registers, and the records so far.
#[derive(Default)]
struct Builder {
    known: FxHashMap<Reg, Draft>,
    /// For each record the places that are wanted, and whether early.
    wanted: Vec<Vec<(usize, bool)>>,
    lookups: Vec<Pgno>,
    indexes: Vec<Pgno>,
    /// How many sets of rows there are so far that found a match.
    marks: usize,
}

/// Compiles a select that runs directly; `None` for one that does not.
///
/// `chooses` is the number of the output that the rows are sorted by first, where so many of them are
/// wanted.
///
/// Every part of the plan is named here: a plan that learns more must say what that means.
pub(crate) fn compile(
    select: &SelectPlan,
    chooses: Option<usize>,
    compiler: &Compiler,
) -> Option<Direct> {
    let mut direct = compile_part(select, None, chooses, compiler)?;
    let keeps = |(_, level): &(usize, &Level)| level.keeps_right;
    let unmatched = select.levels.iter().enumerate().filter(keeps).enumerate();
    let unmatched: Option<Box<[Direct]>> = unmatched
        .map(|(mark, (first, _))| compile_part(select, Some((first, mark)), None, compiler))
        .collect();
    direct.unmatched = unmatched?;
    Some(direct)
}

/// Compiles what gives the rows that the loops find; with the number of a loop and of a set those of the
/// loop's table that are not in the set, to which the loops around it have no row.
fn compile_part(
    select: &SelectPlan,
    without: Option<(usize, usize)>,
    chooses: Option<usize>,
    compiler: &Compiler,
) -> Option<Direct> {
    let SelectPlan { constant, levels, group, windows, outputs, distinct, direct: _ } = select;
    if !constant.is_empty() || levels.is_empty() || distinct.is_some() || compiler.utf16 {
        return None;
    }
    let database = database_of(levels, compiler)?;
    let mut builder = Builder::default();
    for (reg, value) in &compiler.constants {
        builder.known.insert(*reg, Draft::Ready(Operand::Constant(value.clone())));
    }
    for (reg, number) in &compiler.parameters {
        builder.known.insert(*reg, Draft::Ready(Operand::Parameter(*number)));
    }
    let mut drafts = Vec::with_capacity(levels.len());
    for (number, level) in levels.iter().enumerate() {
        let first = without.map_or(0, |(first, _)| first);
        if number < first {
            for &reg in &level.registers {
                builder.known.insert(reg, Draft::Ready(Operand::Constant(Value::Null)));
            }
            builder.marks += usize::from(level.keeps_right);
        } else if number == first && without.is_some() {
            drafts.push(builder.unmatched(level)?);
        } else {
            drafts.push(builder.level(level, number == first)?);
        }
    }
    let group_draft = match group {
        Some(group) => Some(builder.group(group)?),
        None => None,
    };
    let given = match group {
        Some(group) if windows.is_none() && group.having.is_none() => {
            outputs.iter().map(|code| GroupColumn::of(code, group)).collect()
        }
        _ => None,
    };
    let outputs: Option<Vec<Draft>> = match group {
        None if windows.is_none() => outputs.iter().map(|code| builder.copied(code)).collect(),
        _ => None,
    };
    if group_draft.is_none() && outputs.is_none() {
        return None;
    }
    for (number, draft) in outputs.iter().flatten().enumerate() {
        builder.want(draft, chooses == Some(number));
    }
    if let Some((keys, arguments, kept)) = &group_draft {
        let drafts = keys.iter().map(|(draft, _)| draft).chain(arguments.iter().flatten());
        for draft in drafts.chain(kept) {
            builder.want(draft, false);
        }
    }
    let key = chooses.and_then(|number| match outputs.as_ref()?.get(number)? {
        Draft::Field { record, place, .. } => Some((*record, *place)),
        Draft::Ready(_) => None,
    });
    let (records, fields) = builder.records(key);
    let finish = |draft: Draft| finish(draft, &records);
    let levels: Box<[DirectLevel]> =
        drafts.into_iter().map(|level| level.finish(&finish)).collect();
    let group = group_draft.map(|(keys, arguments, kept)| DirectGroup {
        keys: keys.into_iter().map(|(draft, by)| (finish(draft), by)).collect(),
        arguments: arguments.into_iter().map(|draft| draft.map(finish)).collect(),
        kept: kept.into_iter().map(finish).collect(),
        given,
    });
    let outputs: Option<Box<[Operand]>> =
        outputs.map(|drafts| drafts.into_iter().map(finish).collect());
    let given: Box<[Given]> = outputs.iter().flatten().map(Given::of).collect();
    let mut given_of = given.iter().filter(|given| given.is_of_row());
    let gives = given_of.next().map_or(0, |first| first.record);
    let gives = given_of.all(|given| given.record == gives).then_some(usize::from(gives));
    let whole = match &*levels {
        [level] => {
            let all = match &level.access {
                Access::Rows { low, high, .. } => low.is_none() && high.is_none(),
                Access::Index(access) => {
                    access.equal.is_empty()
                        && access.start.is_none()
                        && access.stop.is_none()
                        && access.row.is_none()
                }
                Access::Rowid { .. } | Access::Any { .. } => false,
            };
            all && level.filter.is_empty()
        }
        _ => false,
    };
    let counts_rows = whole
        && without.is_none()
        && group.as_ref().is_some_and(|group| {
            group.keys.is_empty()
                && group.kept.is_empty()
                && group.arguments.iter().all(Option::is_none)
        });
    let (lookups, indexes) = (builder.lookups.into(), builder.indexes.into());
    let point = match (&*levels, &outputs) {
        ([level], Some(_)) if level.filter.is_empty() && level.before.is_empty() => {
            match &level.access {
                Access::Rowid { key, .. } => Some(key.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    let warms = match &*levels {
        [DirectLevel { access: Access::Rows { .. }, record, .. }, next, ..] => match &next.access {
            Access::Rowid { key: Operand::Field { record: of, field, .. }, lookup }
                if of == record =>
            {
                let plan: &RecordPlan = &records[*of];
                Some((plan.places[field - plan.first], *lookup))
            }
            _ => None,
        },
        _ => None,
    };
    let listed = outputs.is_some() && super::rowids::is_list(&levels);
    let joins = super::join::is_join(&levels);
    let given = match &outputs {
        Some(outputs) if joins && gives.is_none() => {
            let given = outputs.iter().enumerate();
            given.map(|(number, operand)| Given::of_output(number, operand)).collect()
        }
        _ => given,
    };
    let seeks = super::seek::is_seek(&levels, outputs.as_deref());
    Some(Direct {
        levels,
        records,
        fields,
        outputs,
        given,
        group,
        joins,
        gives,
        seeks,
        chooses: chooses.is_some(),
        counts_rows,
        lookups,
        indexes,
        warms,
        point,
        listed,
        database,
        marks: builder.marks,
        leaves_out: without.map(|(_, mark)| mark),
        unmatched: Box::default(),
    })
}

impl Direct {
    /// Whether it notes which rows found a match, or gives those that found none.
    pub(crate) fn notes_matches(&self) -> bool {
        self.marks > 0
    }
}

/// The one database that the loops read.
fn database_of(levels: &[Level], compiler: &Compiler) -> Option<usize> {
    let cursor = |level: &Level| match &level.scan {
        Scan::Table(scan) => Some(scan.cursor),
        Scan::Index(scan) => Some(scan.cursor),
        Scan::Any(scan) => Some(scan.cursor),
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

/// A level before it is known where fields are kept.
struct LevelDraft {
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

enum TestDraft {
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
    fn copied(&self, code: &Code) -> Option<Draft> {
        match &*code.ops {
            [Op::Copy { from, to }] if *to == code.result => self.register(*from),
            _ => self.plain(code),
        }
    }

    fn want(&mut self, draft: &Draft, early: bool) {
        if let Draft::Field { record, place, .. } = draft {
            self.wanted[*record].push((*place, early));
        }
    }

    fn level(&mut self, level: &Level, first: bool) -> Option<LevelDraft> {
        let Level {
            name: _,
            label: _,
            arms: _,
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
            | Scan::Function(_)
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
    fn unmatched(&mut self, level: &Level) -> Option<LevelDraft> {
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

    /// The rows that the values of an `IN` name by their rowids.
    fn listed(&mut self, scan: &EachScan, late: &Loads) -> Option<(AccessDraft, usize)> {
        // What values are compared by is no matter: each is sought as the rowid it is equal to.
        let EachScan { values, affinity: _, collation: _, reg, inner } = scan;
        let (EachCodes::List(codes), Scan::Table(scan)) = (values, inner) else { return None };
        let TableScan { cursor: _, root, early, range, descending: _ } = scan;
        match range {
            RowidRange::Equal(key) if key.ops.is_empty() && key.result == *reg => {}
            RowidRange::Equal(_) | RowidRange::Between { .. } => return None,
        }
        let lookup = self.lookup(*root);
        let arm = |code: &Code| Some(AccessDraft::Rowid { key: self.plain(code)?, lookup });
        let arms = codes.iter().map(arm).collect::<Option<Vec<_>>>()?;
        let record = self.record()?;
        self.load(record, early);
        self.load(record, late);
        Some((AccessDraft::Any { arms, lookup }, record))
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

    fn tests(&mut self, codes: &[Code]) -> Option<Vec<TestDraft>> {
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
                [pattern, text, call @ Op::Call { to, .. }] if *to == code.result => {
                    tests.push(self.fits([pattern, text, call], false)?);
                }
                [pattern, text, call @ Op::Call { to: fits, .. }, Op::Not { from, to }]
                    if from == fits && *to == code.result =>
                {
                    tests.push(self.fits([pattern, text, call], true)?);
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

    /// `LIKE` or `GLOB`, whose operation is a call with the pattern first, both copied there.
    fn fits(&self, ops: [&Op; 3], not: bool) -> Option<TestDraft> {
        let [
            Op::Copy { from: pattern, to: first },
            Op::Copy { from: text, to: second },
            Op::Call { function, first: arguments, count: 2, .. },
        ] = ops
        else {
            return None;
        };
        let language = function.pattern()?;
        if first != arguments || *second != arguments + 1 {
            return None;
        }
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

    fn group(&mut self, group: &GroupPlan) -> Option<GroupDraft> {
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
            if aggregate.filter.is_some() || aggregate.distinct || !aggregate.order.is_empty() {
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

type GroupDraft = (Vec<(Draft, Collation)>, Vec<Option<Draft>>, Vec<Draft>);

fn finish(draft: Draft, records: &[RecordPlan]) -> Operand {
    match draft {
        Draft::Ready(operand) => operand,
        Draft::Field { record, place, real, missing } => {
            let plan = &records[record];
            let field = plan.first + plan.places.partition_point(|&known| known < place);
            Operand::Field { record, field, real, missing }
        }
    }
}

impl LevelDraft {
    fn finish(self, finish: &impl Fn(Draft) -> Operand) -> DirectLevel {
        let tests = |drafts: Vec<TestDraft>| -> Box<[Test]> {
            let test = |draft| match draft {
                TestDraft::Compare { rule, left, right } => {
                    Test::Compare { rule, left: finish(left), right: finish(right) }
                }
                TestDraft::IsNull { operand, not } => {
                    Test::IsNull { operand: finish(operand), not }
                }
                TestDraft::Fits { language, operand, pattern, not } => {
                    Test::Fits { language, operand: finish(operand), pattern, not }
                }
            };
            drafts.into_iter().map(test).collect()
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
                        AccessDraft::Any { .. } => return None,
                    })
                };
                Access::Any { arms: arms.into_iter().filter_map(arm).collect(), lookup }
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
