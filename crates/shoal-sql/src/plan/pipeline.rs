//! Pipelines: selects whose rows stay on their pages until a column is asked for.
//!
//! A pipeline is a chain of steps, each with the way to its rows and the predicates that they must
//! meet, and what is made of a row that meets all of them: outputs, or groups. [`Walk`] says which
//! loop goes through the rows; it is chosen once, by [`super::lower`].

use shoal_store::{ColumnFinder, ColumnPlace, KeyOrder, Pgno};

use crate::plan::{Code, Compiler, GroupPlan, LevelWords, NullKey, Reg};
use crate::resolve::tree::SourceId;
use crate::session::forced::Forced;
use crate::value::{
    Affinity, Collation, Comparison, InRule, Pattern, Pieces, Value, ValueRef, holds, is_in_values,
    text_of,
};

/// Most records that make up one joined row.
pub(crate) const RECORDS_MAX: usize = 8;

/// Most values that an index is sought by.
pub(crate) const KEYS_MAX: usize = 16;

/// Most values that the entries of [`Walk::Seek`] are sought by.
pub(crate) const SEEK_KEYS_MAX: usize = 4;

/// The loop that goes through the rows of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Walk {
    /// At most one row, looked up by its rowid and asked nothing else.
    Point { key: Operand },
    /// The entries of an index that equal a key. A handful is found without a batch; the other node
    /// finds more, and those whose keys need a conversion.
    Seek(Box<Walk>),
    /// Rows looked up by the rowids of a list, or by those that several indexes have in common.
    RowidList,
    /// One table from its first leaf to its last, many rows at a time.
    TableScan,
    /// As a table scan whose rows are sorted and cut: of a row the first sort key is read before
    /// other columns, which few rows need.
    TopN,
    /// The entries of one index in their order, many at a time, with the rows that they name.
    IndexScan,
    /// A table scan or an index scan, each of whose rows names at most one row of each other table.
    LookupJoin,
    /// One loop in the other, row by row.
    NestedLoop {
        /// The column of the outermost table, by its place in the record, whose values are rowids
        /// of the next step, and the lookup that finds these: rows of one leaf are prefetched
        /// together.
        prefetch: Option<(usize, usize)>,
    },
    /// The number of rows of a table, or entries of an index, from the cell counts of its leaves.
    Count,
}

impl Walk {
    /// The node that goes through all rows, where the first finds a handful.
    #[inline]
    pub(crate) fn all_rows(&self) -> &Walk {
        match self {
            Walk::Seek(rest) => rest,
            other => other,
        }
    }

    /// True where rows are given as places on pages, or in what was put together of several, from
    /// which values are decoded when they are asked for.
    #[inline]
    pub(crate) fn is_lazy(&self) -> bool {
        !matches!(self.all_rows(), Walk::NestedLoop { .. } | Walk::Count)
    }
}

/// How the few rows of one table are found for one row of an enclosing query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeWalk {
    /// One by its rowid.
    Point,
    /// The entries of an index that equal a key, and their rows.
    Seek,
    /// The same, counted and not read.
    Count,
    /// By the loops of every pipeline.
    Loops,
}

/// A select whose rows stay on their pages.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// How the rows are gone through.
    pub(crate) walk: Walk,
    /// The number of its measure, that of its first level.
    pub(crate) measure: usize,
    /// How the rows of a query within an expression are found for one row around it.
    pub(crate) probe: ProbeWalk,
    /// Predicates on none of its rows; of a query within an expression alone.
    pub(crate) constant: Box<[Test]>,
    pub(crate) levels: Box<[PipelineStep]>,
    /// By number: the fields that are wanted of each record.
    pub(crate) records: Box<[RecordPlan]>,
    /// How many fields the records have together.
    pub(crate) fields: usize,
    /// The result's columns and sort keys, when each is a column, a constant or a parameter.
    pub(crate) outputs: Option<Box<[Operand]>>,
    /// Where each of them is in a row that is given as places on a page.
    pub(crate) given: Box<[OutputPlace]>,
    pub(crate) group: Option<GroupInput>,
    /// The one record that all columns of the result are of, where that is one.
    pub(crate) output_record: Option<usize>,
    /// The roots of the tables whose rows are looked up, and of the indexes.
    pub(crate) lookups: Box<[Pgno]>,
    pub(crate) indexes: Box<[Pgno]>,
    /// The number of the one database that all of it is in.
    pub(crate) database: usize,
    /// How many sets of rows there are that found a match.
    pub(crate) marks: usize,
    /// The number of the set whose rows the first table's scan skips.
    pub(crate) skipped: Option<usize>,
    /// For each table of which rows stay without a match: the select of those, whose rows come
    /// behind these.
    pub(crate) unmatched: Box<[Pipeline]>,
    /// Keys gathered before the scan of a lookup join: see [`super::key_sets`].
    pub(crate) key_sets: Box<[KeySetPlan]>,
    /// How many tables of rowids hash steps make.
    pub(crate) tables: usize,
    /// Choices that a test made in the place of the planner.
    pub(crate) forced: Forced,
}

/// A set of rowids, and the key of a scan to be looked for.
#[derive(Debug)]
pub(crate) struct KeySetPlan {
    pub(crate) key: Operand,
    /// The pipeline gathering the rowids, of its first record.
    pub(crate) pipeline: Pipeline,
}

#[derive(Debug)]
pub(crate) struct PipelineStep {
    pub(crate) access: Access,
    /// The record of the row; of an index's entry where the index is all that is read.
    pub(crate) record: usize,
    pub(crate) left_join: bool,
    /// True of a left join keeping the rows without a match alone: the first match ends the search.
    pub(crate) anti: bool,
    /// The number of the set in which rows are noted that found a match, and their rowid.
    pub(crate) marks: Option<(usize, Operand)>,
    /// Predicates on nothing of a row but its rowid, where it is looked up by that; on nothing but
    /// an index's entry, where that names the row.
    pub(crate) before: Box<[Test]>,
    /// Predicates that decide whether a row matches a left join.
    pub(crate) on: Box<[Test]>,
    pub(crate) filter: Box<[Test]>,
    /// About how many rows it finds for each row of the steps before, and how many rows are behind
    /// it.
    pub(crate) rows: f64,
    pub(crate) estimate: f64,
    /// For `EXPLAIN`; `None` where nobody asked.
    pub(crate) words: Option<Box<LevelWords>>,
    /// The source, and the number of its measure; `None` for one outside of a select's loops.
    pub(crate) source: Option<SourceId>,
    pub(crate) measure: Option<usize>,
    /// Most rows behind the step: one more stops the run, for another plan.
    pub(crate) most: u64,
}

impl PipelineStep {
    /// A step of a table alone, outside of joins: a row is found, and asked the filter.
    pub(crate) fn alone(
        access: Access,
        record: usize,
        filter: Box<[Test]>,
        (rows, estimate): (f64, f64),
    ) -> PipelineStep {
        PipelineStep {
            access,
            record,
            left_join: false,
            anti: false,
            marks: None,
            before: Box::default(),
            on: Box::default(),
            filter,
            rows,
            estimate,
            words: None,
            source: None,
            measure: None,
            most: u64::MAX,
        }
    }
}

/// How a level's rows are found.
#[derive(Debug)]
pub(crate) enum Access {
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
    /// The rows with a key, by a table of rowids made when the loops begin; never of the outermost
    /// loop.
    Hash(Box<HashAccess>),
    /// The rows that any arm finds, each once; of the outermost loop alone.
    Any {
        arms: Box<[Arm]>,
        lookup: usize,
    },
    /// The rows that all arms find, by their rowids; of the outermost loop alone. The entries of
    /// each arm but the first have one key.
    Common {
        arms: Box<[IndexAccess]>,
        lookup: usize,
    },
}

/// Rows found by the hash of their keys. Equalities of several keys are tested again on a row: rows
/// of other keys may have the same hash.
#[derive(Debug)]
pub(crate) struct HashAccess {
    /// The number of the table of rowids.
    pub(crate) table: usize,
    /// The rows kept: the keys and a rowid of each.
    pub(crate) build: Pipeline,
    /// The keys looked up, with the rules of their equalities.
    pub(crate) keys: Box<[HashedKey]>,
    /// The lookup that finds a row by its rowid, where columns of it are asked for.
    pub(crate) lookup: usize,
}

/// A key of a hash step: the value looked up, and the rules of the equality.
#[derive(Debug)]
pub(crate) struct HashedKey {
    pub(crate) probe: Operand,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
}

/// One of several ways to the rows of a table.
#[derive(Debug)]
pub(crate) enum Arm {
    Rowid { key: Operand },
    Rows { root: Pgno, low: Option<End>, high: Option<End> },
    Index(IndexAccess),
}

#[derive(Debug)]
pub(crate) struct IndexAccess {
    /// The number of the lookup that finds its entries.
    pub(crate) lookup: usize,
    pub(crate) order: KeyOrder,
    pub(crate) equal: Box<[(Operand, Option<Affinity>, NullKey)]>,
    /// Where the range begins and ends, in the index's own direction. NULL is in no range.
    pub(crate) start: Option<End>,
    pub(crate) stop: Option<End>,
    /// True where the entries are walked backwards, from the stop to the start.
    pub(crate) descending: bool,
    /// The record of the entry.
    pub(crate) entry: usize,
    /// Where the entry has the rowid, and the lookup that finds the row, when the row is read.
    pub(crate) row: Option<(usize, usize)>,
    /// That rowid, where the row is read.
    pub(crate) rowid: Option<Operand>,
    /// True where the walk alone reads an entry, and nothing of the entry but the rowid.
    pub(crate) names_rows: bool,
    /// Skips rows that were found before.
    pub(crate) once: bool,
}

/// One end of a range.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) value: Operand,
    pub(crate) inclusive: bool,
    pub(crate) affinity: Option<Affinity>,
    /// True where it stands for "above NULL", where nothing else bounds the range.
    pub(crate) above_null: bool,
}

/// The fields wanted of a record.
#[derive(Debug, Default)]
pub(crate) struct RecordPlan {
    /// Places in the record, ascending.
    pub(crate) places: Box<[usize]>,
    /// Finds all of them; the first ones, which predicates read; the others.
    pub(crate) all: ColumnFinder,
    pub(crate) early: ColumnFinder,
    pub(crate) late: ColumnFinder,
    /// The first sort key of a top-N, where nothing else is asked of rows first: its number among
    /// these.
    pub(crate) key: Option<(usize, ColumnFinder)>,
    /// Where the first one is kept among the fields of all records.
    pub(crate) first: usize,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Field {
        record: usize,
        /// Among the fields of all records; while it is being lowered the place in its own record.
        field: usize,
        /// True where integers are reals that were stored short.
        real: bool,
        /// What records that end early hold.
        missing: Value,
    },
    Rowid {
        record: usize,
    },
    Constant(Value),
    /// By number from 1. Those of a query within an expression are all registers, of which the
    /// first has this number: what it reads of the rows around it is among them.
    Parameter(usize),
}

/// A predicate on a row.
#[derive(Debug)]
pub(crate) enum Test {
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
    Like {
        language: Pattern,
        operand: Operand,
        pattern: Box<[u8]>,
        /// The pattern as pieces; `None` for other wild cards, and for characters beyond ASCII.
        pieces: Option<Pieces>,
        not: bool,
    },
    /// `IN` a list of constants and parameters.
    In {
        operand: Operand,
        list: Box<[Operand]>,
        rule: InRule,
    },
    /// An `OR`, each part a list of predicates holding together.
    Any(Box<[Box<[Test]>]>),
}

impl Test {
    /// True where a row meets the predicate, of which `value` gives the values of operands.
    #[inline(always)]
    pub(crate) fn holds<'v>(&'v self, value: impl Fn(&'v Operand) -> ValueRef<'v>) -> bool {
        match self {
            Test::Any(parts) => any_part(parts, &value),
            Test::In { operand, list, rule } => {
                is_in_values(value(operand), list.iter().map(&value), *rule)
                    .is_some_and(|found| found != rule.not)
            }
            Test::Compare { rule, left, right } => holds(rule, value(left), value(right)),
            Test::IsNull { operand, not } => (value(operand) == ValueRef::Null) != *not,
            Test::Like { language, operand, pattern, pieces, not } => match pieces {
                Some(pieces) => match value(operand) {
                    ValueRef::Text(text) => pieces.matches(text) != *not,
                    other => text_of(other).is_some_and(|text| pieces.matches(&text) != *not),
                },
                None => text_of(value(operand))
                    .is_some_and(|text| language.matches(pattern, &text, None) != *not),
            },
        }
    }

    pub(crate) fn operands(&self) -> impl Iterator<Item = &Operand> {
        let (first, second) = match self {
            Test::Compare { left, right, .. } => (Some(left), Some(right)),
            Test::IsNull { operand, .. }
            | Test::Like { operand, .. }
            | Test::In { operand, .. } => (Some(operand), None),
            Test::Any(_) => (None, None),
        };
        let listed: &[Operand] = match self {
            Test::In { list, .. } => list,
            _ => &[],
        };
        // The iterator calls itself: boxed, for a size.
        let parts: Option<Box<dyn Iterator<Item = &Operand>>> = match self {
            Test::Any(parts) => {
                Some(Box::new(parts.iter().flatten().flat_map(|test| test.operands())))
            }
            _ => None,
        };
        let pair = [first, second].into_iter().flatten();
        pair.chain(listed).chain(parts.into_iter().flatten())
    }
}

/// True where all predicates of a part hold.
#[inline(never)]
fn any_part<'v>(parts: &'v [Box<[Test]>], value: &dyn Fn(&'v Operand) -> ValueRef<'v>) -> bool {
    parts.iter().any(|part| part.iter().all(|test| test.holds(value)))
}

impl Operand {
    pub(crate) fn is_field_of(&self, wanted: usize) -> bool {
        matches!(self, Operand::Field { record, .. } if *record == wanted)
    }

    /// True where it is of that record, or of none.
    pub(crate) fn is_at_most_of(&self, wanted: usize) -> bool {
        match self {
            Operand::Field { record, .. } | Operand::Rowid { record } => *record == wanted,
            Operand::Constant(_) | Operand::Parameter(_) => true,
        }
    }

    pub(crate) fn is_of(&self, wanted: usize) -> bool {
        matches!(
            self,
            Operand::Field { record, .. } | Operand::Rowid { record } if *record == wanted
        )
    }
}

impl IndexAccess {
    /// True where its entries are found by equality with a few of its first columns, in their
    /// order.
    pub(crate) fn is_by_equality(&self) -> bool {
        let has_range = self.start.is_some() || self.stop.is_some();
        let keys = 1..=SEEK_KEYS_MAX;
        !has_range && !self.once && !self.descending && keys.contains(&self.equal.len())
    }
}

/// The place of an output in a row, in so few bytes that reading them costs little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputPlace {
    /// The number of a field, or one of the two below.
    pub(crate) field: u32,
    /// True where integers are reals that were stored short.
    pub(crate) real: bool,
    /// The record that it is of.
    pub(crate) record: u8,
}

impl OutputPlace {
    pub(crate) const ROWID: u32 = u32::MAX - 1;
    /// No column of a row: a constant or a parameter.
    pub(crate) const FIXED: OutputPlace = OutputPlace { field: u32::MAX, real: false, record: 0 };

    /// True where it is a column of a row, or its rowid.
    pub(crate) fn is_of_row(self) -> bool {
        self.field != OutputPlace::FIXED.field
    }

    pub(crate) fn of(operand: &Operand) -> OutputPlace {
        // A row has few records.
        match operand {
            Operand::Field { record, field, real, .. } => match u32::try_from(*field) {
                Ok(field) if field < OutputPlace::ROWID => {
                    OutputPlace { field, real: *real, record: *record as u8 }
                }
                _ => OutputPlace::FIXED,
            },
            Operand::Rowid { record } => {
                OutputPlace { field: OutputPlace::ROWID, real: false, record: *record as u8 }
            }
            Operand::Constant(_) | Operand::Parameter(_) => OutputPlace::FIXED,
        }
    }

    /// Where the column is in a row whose fields begin there.
    pub(crate) fn place(self, fields: &[ColumnPlace], from: u32) -> Option<ColumnPlace> {
        fields.get(from.wrapping_add(self.field) as usize).copied()
    }

    /// The place of an operand in a row that was put together of its outputs, by the output's
    /// number.
    pub(crate) fn of_output(number: usize, operand: &Operand) -> OutputPlace {
        match (operand, u32::try_from(number)) {
            (Operand::Field { real, .. }, Ok(field)) => {
                OutputPlace { field, real: *real, record: 0 }
            }
            (Operand::Rowid { .. }, Ok(field)) => OutputPlace { field, real: false, record: 0 },
            _ => OutputPlace::FIXED,
        }
    }
}

/// A group's keys and the arguments of its aggregates.
#[derive(Debug)]
pub(crate) struct GroupInput {
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
    /// True where it is given anything.
    pub(crate) fn is_any(&self) -> bool {
        self.second.is_some() || self.filter.is_some()
    }
}

/// A column of a result by its number in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupColumn {
    /// A value of the row that is kept.
    Kept(usize),
    Aggregate(usize),
}

impl GroupColumn {
    /// The columns of a result; `None` where one is computed, and where an aggregate stands twice:
    /// a group gives the value of each once.
    pub(crate) fn all_of(outputs: &[Code], group: &GroupPlan) -> Option<Box<[GroupColumn]>> {
        let all: Box<[GroupColumn]> =
            outputs.iter().map(|code| GroupColumn::of(code, group)).collect::<Option<_>>()?;
        let mut seen = vec![false; group.aggregates.len()];
        let is_first = |column: &GroupColumn| match column {
            GroupColumn::Kept(_) => true,
            GroupColumn::Aggregate(number) => !std::mem::replace(&mut seen[*number], true),
        };
        all.iter().all(is_first).then_some(all)
    }

    fn of(code: &Code, group: &GroupPlan) -> Option<GroupColumn> {
        let reg = code.copied()?;
        if let Some(number) = group.aggregates.iter().position(|it| it.result == reg) {
            return Some(GroupColumn::Aggregate(number));
        }
        Some(GroupColumn::Kept(group.kept.iter().position(|&kept| kept == reg)?))
    }
}

/// A register that nothing writes while the statement runs.
pub(crate) fn constant(reg: Reg, compiler: &Compiler) -> Option<Operand> {
    if let Some((_, value)) = compiler.constants.iter().find(|(known, _)| *known == reg) {
        return Some(Operand::Constant(value.clone()));
    }
    let (_, number) = compiler.parameters.iter().find(|(known, _)| *known == reg)?;
    Some(Operand::Parameter(*number))
}

impl Pipeline {
    /// True where more is kept the more rows there are: rows that found a match, rowids that
    /// indexes have in common, or the rowids of hash steps.
    pub(crate) fn keeps_rowids(&self) -> bool {
        let is_common = |level: &PipelineStep| matches!(level.access, Access::Common { .. });
        self.notes_matches() || self.tables > 0 || self.levels.first().is_some_and(is_common)
    }

    /// True where it notes which rows found a match, or gives those that found none.
    pub(crate) fn notes_matches(&self) -> bool {
        self.marks > 0
    }

    /// True where each row is found by a key, so that finding all of them costs little.
    pub(crate) fn is_by_key(&self) -> bool {
        self.levels.iter().all(|level| match &level.access {
            Access::Rowid { .. } => true,
            Access::Index(access) => !access.equal.is_empty(),
            Access::Rows { .. } | Access::Any { .. } | Access::Common { .. } | Access::Hash(_) => {
                false
            }
        })
    }

    /// True where the first row is found without all others being found.
    pub(crate) fn has_first(&self) -> bool {
        let inner = self.levels.get(1..).unwrap_or_default();
        inner.iter().all(|level| matches!(level.access, Access::Rowid { .. }))
    }
}
