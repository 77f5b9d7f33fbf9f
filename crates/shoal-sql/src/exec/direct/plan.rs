//! Direct selects: how the rows of each loop are found, what is asked of them and what they give.

use shoal_store::{ColumnFinder, KeyOrder, Pgno};

use super::leaf_rows::Given;
use super::run::compare;
use crate::plan::{BodyPlan, Code, Compiler, GroupPlan, NullKey, QueryPlan, Reg};
use crate::value::{Affinity, Collation, Comparison, Pattern, Value, ValueRef, text_of};

/// Most records that make up one joined row.
pub(super) const RECORDS_MAX: usize = 8;

/// Most values that an index is sought by.
pub(super) const KEYS_MAX: usize = 16;

/// A select whose rows are read straight from the pages.
#[derive(Debug)]
pub(crate) struct Direct {
    /// Conditions on nothing of its rows; of a query within an expression alone.
    pub(super) constant: Box<[Test]>,
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
    /// How the rows of a query within an expression are found at once, where they are few.
    pub(super) quick: Option<Quick>,
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

/// How few rows of one table are found without what a loop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quick {
    /// One by its rowid.
    Row,
    /// Those that an index finds by equality.
    Entries,
    /// The same, where it is asked how many they are and for nothing of them.
    Count,
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
    /// The rows that all arms find, by their rowids; of the outermost loop alone. The entries of each
    /// arm but the first have one key.
    Common {
        arms: Box<[IndexAccess]>,
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
    /// By number from 1. Those of a query within an expression are all registers, of which the first has
    /// this number: what it reads of the rows around it is among them.
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

    pub(super) fn operands(&self) -> impl Iterator<Item = &Operand> {
        let (first, second) = match self {
            Test::Compare { left, right, .. } => (left, Some(right)),
            Test::IsNull { operand, .. } | Test::Fits { operand, .. } => (operand, None),
        };
        [Some(first), second].into_iter().flatten()
    }
}

impl Operand {
    pub(super) fn is_field_of(&self, wanted: usize) -> bool {
        matches!(self, Operand::Field { record, .. } if *record == wanted)
    }

    /// Whether it is of that record, or of none.
    pub(super) fn is_at_most_of(&self, wanted: usize) -> bool {
        match self {
            Operand::Field { record, .. } | Operand::Rowid { record } => *record == wanted,
            Operand::Constant(_) | Operand::Parameter(_) => true,
        }
    }

    pub(super) fn is_of(&self, wanted: usize) -> bool {
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
    /// What else aggregates are given, one for each, or none for all where that is nothing.
    pub(crate) more: Box<[MoreOfAggregate]>,
    pub(crate) kept: Box<[Operand]>,
    /// The result's columns, where each is one of these and every group is given.
    pub(crate) given: Option<Box<[GroupColumn]>>,
}

/// What an aggregate is given beside an argument.
#[derive(Debug, Default)]
pub(crate) struct MoreOfAggregate {
    pub(crate) second: Option<Operand>,
    /// What must hold of the rows that it takes.
    pub(crate) filter: Option<Operand>,
}

impl MoreOfAggregate {
    /// Whether it is given anything.
    pub(crate) fn is_any(&self) -> bool {
        self.second.is_some() || self.filter.is_some()
    }
}

/// What a column of a result is of a group: by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupColumn {
    /// A value of the row that is kept.
    Kept(usize),
    Aggregate(usize),
}

impl GroupColumn {
    pub(crate) fn of(code: &Code, group: &GroupPlan) -> Option<GroupColumn> {
        let reg = code.copied()?;
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
        let keeps = compares || root_parts(body).flatten().any(Direct::keeps_rowids);
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
pub(crate) fn constant(reg: Reg, compiler: &Compiler) -> Option<Operand> {
    if let Some((_, value)) = compiler.constants.iter().find(|(known, _)| *known == reg) {
        return Some(Operand::Constant(value.clone()));
    }
    let (_, number) = compiler.parameters.iter().find(|(known, _)| *known == reg)?;
    Some(Operand::Parameter(*number))
}

impl Direct {
    /// Whether more is kept the more rows there are: which of them found a match, or which ones indexes
    /// have in common.
    pub(crate) fn keeps_rowids(&self) -> bool {
        let is_common = |level: &DirectLevel| matches!(level.access, Access::Common { .. });
        self.notes_matches() || self.levels.first().is_some_and(is_common)
    }

    /// Whether it notes which rows found a match, or gives those that found none.
    pub(crate) fn notes_matches(&self) -> bool {
        self.marks > 0
    }
}
