//! How a query runs: access paths, join order, and every expression compiled.
//!
//! A plan is data: it borrows nothing, so that a statement keeps it as long as the schema stays
//! the same. All its queries, those within expressions included, share one set of registers.

mod access;
mod again;
mod bushy;
mod code;
mod column_table;
mod compile;
pub(crate) mod correlate;
mod cost;
mod explain;
mod groups_below;
mod intersection;
mod key_sets;
mod keyed;
mod keys_below;
mod lower;
mod lower_pages;
pub(crate) mod node;
mod order;
mod pages_scan;
pub(crate) mod pipeline;
mod pipeline_scan;
mod query;
mod query_rows;
mod restrict;
mod sample;
mod scan;
mod select;
mod semi_join;
pub(crate) mod tree;
mod virtual_table;
mod window;

use shoal_store::{KeyOrder, Pgno};

use crate::Error;
use crate::keep::SortPlan;
use crate::parse::ast;
use crate::resolve::encoding::in_utf16;
use crate::resolve::factor::factor;
use crate::resolve::imply::imply;
use crate::resolve::leakproof::keeps_hidden;
use crate::resolve::merge::place_common;
use crate::resolve::once::take_once;
use crate::resolve::orders::{bound_parts, lower_bounds};
use crate::resolve::outputs::{compute_late, drop_unread, merge_views};
use crate::resolve::push::push_down;
use crate::resolve::tree::{Aggregate, OutputColumn, Query, SourceId};
use crate::resolve::unnest::{Free, unnest};
use crate::resolve::{Around, Resolver};
use crate::schema::{Module, Schema, Txns};
use crate::session::forced::Forced;
use crate::value::{Affinity, Collation, CompareOp, Value};
pub(crate) use again::{Learned, MadeAgain, Misjudged, WatchedStep};
pub(crate) use code::{Code, Op, Predicate, Reg, Shape, When};
pub(crate) use column_table::ColumnTable;
pub(crate) use compile::Compiler;
use groups_below::group_below;
use keys_below::keys_below;
pub(crate) use lower::Asked;
pub(crate) use lower_pages::are_rowids;
pub(crate) use node::QueryPlan;
pub(crate) use pages_scan::PagesScan;
pub(crate) use pipeline_scan::{GroupScan, PipelineScan};
pub(crate) use virtual_table::VirtualScan;
pub(crate) use window::{BoundPlan, WindowCallPlan, WindowPass, WindowPlan};

/// Everything needed to run one query.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) root: QueryPlan,
    /// The queries within expressions.
    pub(crate) queries: Vec<SubqueryPlan>,
    pub(crate) registers: usize,
    pub(crate) constants: Vec<(Reg, Value)>,
    pub(crate) parameters: Vec<(Reg, usize)>,
    pub(crate) once: OnceCodes,
    pub(crate) sets: usize,
    /// The number of each cursor's database.
    pub(crate) cursors: Vec<usize>,
    /// The database and the root of each table read.
    pub(crate) trees: Vec<(usize, Pgno)>,
    pub(crate) stores: usize,
    /// How many recursions there are.
    pub(crate) slots: usize,
    /// How many common tables there are whose rows are made once.
    pub(crate) shared: usize,
    /// How many sets of rows there are that found a match.
    pub(crate) marks: usize,
    /// How many measures there are.
    pub(crate) measures: usize,
    /// What functions that describe the schema read; `Some` where there is one.
    pub(crate) schema: Option<std::sync::Arc<Schema>>,
    pub(crate) needs_schema: bool,
    /// True where rows of virtual tables are read.
    pub(crate) reads_virtual: bool,
    /// True where writers of virtual tables are flushed before: they may keep a part of the rows
    /// read in memory.
    pub(crate) reads_pending: bool,
    pub(crate) columns: Vec<OutputColumn>,
    /// True where its rows can be given straight from the pages.
    pub(crate) pipeline: Option<node::Root>,
    /// What a test decided in the planner's place.
    pub(crate) forced: Forced,
    /// True where functions of the program's own are called: each call may be seen.
    pub(crate) calls_own: bool,
    /// The lessons of earlier plans' runs.
    pub(crate) learned: Vec<Learned>,
    /// The steps of the watched join, if any.
    pub(crate) watched: Vec<WatchedStep>,
}

/// Values computed when a run begins: see [`crate::resolve::once`].
#[derive(Debug, Default)]
pub(crate) struct OnceCodes {
    /// How many parameters come before.
    pub(crate) own: usize,
    /// The value of each parameter behind.
    pub(crate) codes: Vec<Code>,
}

impl Program {
    /// True where any of it reads a database.
    pub(crate) fn reads(&self, database: usize) -> bool {
        self.needs_schema || self.cursors.contains(&database)
    }
}

/// A query within an expression.
#[derive(Debug)]
pub(crate) struct SubqueryPlan {
    pub(crate) plan: QueryPlan,
    /// True where it depends on the row of an enclosing query.
    pub(crate) correlated: bool,
    /// True where its rows are what an `IN` looks in.
    pub(crate) is_list: bool,
    /// True where running it can fail but for what is wrong with the file: a list of such a query
    /// is looked at as a whole.
    pub(crate) may_fail: bool,
    /// What it reads of the rows around it.
    pub(crate) around: Box<[Reg]>,
    /// True where that alone decides what it gives, and that is worth being kept.
    pub(crate) is_decided: bool,
    /// True where a rowid of a row around is among those: it seldom comes twice.
    pub(crate) by_rowid: bool,
    /// True where running it costs so little that it is done for many rows before the first is
    /// given.
    pub(crate) is_short: bool,
}

impl SubqueryPlan {
    /// What decides what it gives, if anything does.
    #[inline]
    pub(crate) fn reads(&self) -> Option<&[Reg]> {
        self.is_decided.then_some(&*self.around)
    }
}

/// A loop as `EXPLAIN QUERY PLAN` tells it.
#[derive(Clone, Debug)]
pub(crate) struct LevelWords {
    /// What the source is called.
    pub(crate) name: String,
    pub(crate) label: String,
    /// The ways that it is made of.
    pub(crate) arms: Vec<String>,
}

/// One loop: a source, how its rows are found, and what must hold for them.
#[derive(Debug)]
pub(crate) struct Level {
    /// `None` where nobody asked for them.
    pub(crate) words: Option<Box<LevelWords>>,
    pub(crate) scan: Scan,
    /// About how many rows it finds for each row of the loops around it, and how many rows there
    /// are behind it.
    pub(crate) rows: f64,
    pub(crate) estimate: f64,
    /// True of a left join keeping the rows without a match alone.
    pub(crate) anti: bool,
    /// About how many rows the table has, for one of a join whose size was looked at.
    pub(crate) table_rows: Option<f64>,
    /// The number of its measure.
    pub(crate) measure: usize,
    /// The source; `None` for several as one.
    pub(crate) source: Option<SourceId>,
    /// The conditions that decide whether a row matches an outer join; others are in `filter`.
    pub(crate) on: Vec<Code>,
    /// True where rows of the loops around it stay without a match.
    pub(crate) keeps_left: bool,
    /// True where its own rows stay without a match: they are given once all loops are done.
    pub(crate) keeps_right: bool,
    /// How those are found; `None` where a hash table knows.
    pub(crate) unmatched: Option<Box<UnmatchedScan>>,
    pub(crate) filter: Vec<Code>,
    /// Columns read once the conditions hold.
    pub(crate) late: Loads,
    /// Every register of the source, to be NULL where a left join finds no row.
    pub(crate) registers: Vec<Reg>,
}

/// The rows of a table that found no match: those that others looked up are noted by their rowids.
#[derive(Debug)]
pub(crate) struct UnmatchedScan {
    /// The number of the set that they are noted in.
    pub(crate) mark: usize,
    /// Where every way to a row leaves its rowid.
    pub(crate) rowid: Reg,
    /// All rows, and what is read of one that meets the conditions.
    pub(crate) scan: Scan,
    pub(crate) late: Loads,
}

/// Columns of a record and the registers they go to, by their place in the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    pub(crate) columns: Vec<Load>,
    pub(crate) rowid: Option<Reg>,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) place: usize,
    pub(crate) reg: Reg,
    /// True where integers are reals that were stored short.
    pub(crate) real: bool,
    /// What records that end early hold.
    pub(crate) missing: Value,
}

/// Where a level's rows come from.
#[derive(Debug)]
pub(crate) enum Scan {
    Table(TableScan),
    Index(IndexScan),
    /// Either of them, read straight from the pages.
    Columns(Box<PipelineScan>),
    /// Rows of tables found on their pages for each row around.
    Pages(Box<PagesScan>),
    /// A query's rows, which appear in its own registers.
    Query(Box<QueryPlan>),
    /// Rows kept in memory and found by a hash of their keys.
    Hash(Box<HashScan>),
    /// A scan once for each value of an `IN`.
    Each(Box<EachScan>),
    /// Several scans of one table, each row once.
    Any(Box<AnyScan>),
    /// The row that a recursion has taken.
    Taken(TakenScan),
    /// The rows of a module.
    Module(Box<ModuleScan>),
    /// The rows of a module's operator, over the loops before.
    Operator(Box<OperatorScan>),
    /// The rows of a virtual table.
    Virtual(Box<VirtualScan>),
    /// No rows at all.
    Nothing,
}

/// The row that a recursion has taken, and the registers its columns go to.
#[derive(Debug)]
pub(crate) struct TakenScan {
    pub(crate) slot: usize,
    pub(crate) columns: Vec<(usize, Reg)>,
}

/// A module, its arguments, and the registers its columns go to.
#[derive(Debug)]
pub(crate) struct ModuleScan {
    pub(crate) module: std::sync::Arc<dyn Module>,
    pub(crate) arguments: Vec<Option<Code>>,
    pub(crate) columns: Vec<(usize, Reg)>,
    /// How many of the columns are no arguments.
    pub(crate) visible: usize,
    /// True where equal rows may come as one with their number.
    pub(crate) folds: bool,
}

/// A module's operator above loops.
#[derive(Debug)]
pub(crate) struct OperatorScan {
    pub(crate) input: node::LoopsNode,
    pub(crate) call: ModuleScan,
    /// The registers of the loops' sources: the row read behind the operator.
    pub(crate) kept: Vec<Reg>,
}

/// A walk over a table by rowid.
#[derive(Debug)]
pub(crate) struct TableScan {
    pub(crate) cursor: usize,
    pub(crate) root: Pgno,
    pub(crate) early: Loads,
    pub(crate) range: RowidRange,
    pub(crate) descending: bool,
}

/// Which rowids are wanted.
#[derive(Debug)]
pub(crate) enum RowidRange {
    Equal(Code),
    Between { low: Option<Bound>, high: Option<Bound> },
}

/// One end of a range.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) value: Code,
    pub(crate) inclusive: bool,
    /// What the value is converted to before it is compared.
    pub(crate) affinity: Option<Affinity>,
}

/// A walk over an index, or over a table without rowid, which is one.
#[derive(Debug)]
pub(crate) struct IndexScan {
    pub(crate) cursor: usize,
    pub(crate) root: Pgno,
    pub(crate) order: KeyOrder,
    /// Values that the first columns must have.
    pub(crate) equal: Vec<(Code, Option<Affinity>, NullKey)>,
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    /// True where the column of the range is stored in descending order.
    pub(crate) range_descending: bool,
    /// True where entries whose column of the range is NULL are left out where nothing bounds it.
    pub(crate) above_null: bool,
    /// True where the entries are walked backwards.
    pub(crate) descending: bool,
    /// Columns read from the entry.
    pub(crate) early: Loads,
    /// Where the rest of the row is found.
    pub(crate) table: Option<IndexedTable>,
}

/// True where a NULL key finds rows (`IS NULL`) or none (`=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullKey {
    Finds,
    FindsNothing,
}

/// The table behind an index.
#[derive(Debug)]
pub(crate) struct IndexedTable {
    pub(crate) cursor: usize,
    pub(crate) root: Pgno,
    /// Columns that the conditions need and the index does not have.
    pub(crate) early: Loads,
    pub(crate) key: TableKey,
}

/// How an index's entry names its row.
#[derive(Debug)]
pub(crate) enum TableKey {
    /// By the rowid at a place of the entry.
    Rowid { place: usize },
    /// By the primary key's columns, each at a place of the entry.
    Primary { places: Vec<usize>, order: KeyOrder },
}

/// The values of an `IN`, each put into a register before a scan that uses it as its key.
#[derive(Debug)]
pub(crate) struct EachScan {
    pub(crate) values: EachCodes,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
    pub(crate) reg: Reg,
    pub(crate) inner: Scan,
}

/// Several scans of a table with rowids. What is read of a row late is read by one cursor, which
/// every scan leaves on its row.
#[derive(Debug)]
pub(crate) struct AnyScan {
    pub(crate) arms: Vec<Scan>,
    /// What the scans read together, as the table's row has it.
    pub(crate) early: Loads,
    /// The register in which every scan leaves the rowid.
    pub(crate) rowid: Reg,
    pub(crate) cursor: usize,
}

#[derive(Debug)]
pub(crate) enum EachCodes {
    List(Vec<Code>),
    /// The number of a query within an expression.
    Query(usize),
    /// The rowids that all of these walks over indexes find, each of which leaves them in the
    /// register. Those of each walk but the first ascend.
    Common(Vec<IndexScan>),
}

/// Rows gathered once, then probed by key.
#[derive(Debug)]
pub(crate) struct HashScan {
    pub(crate) store: usize,
    pub(crate) source: Scan,
    /// What a row must meet to be kept.
    pub(crate) filter: Vec<Code>,
    pub(crate) keys: Vec<HashKey>,
    /// The registers that are kept of every row.
    pub(crate) row: Vec<Reg>,
    /// True where the rows may differ when the enclosing query runs again.
    pub(crate) rebuild: bool,
    /// True where it is noted which rows found a match.
    pub(crate) marks: bool,
}

/// One equality of a hash join.
#[derive(Debug)]
pub(crate) struct HashKey {
    pub(crate) build: Code,
    pub(crate) probe: Code,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
    /// True where rows of equal keys are compared once more.
    pub(crate) near: bool,
}

/// Grouping and its aggregates.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    pub(crate) keys: Vec<(Code, Collation)>,
    pub(crate) aggregates: Vec<AggregatePlan>,
    /// Registers that keep the values of one row of each group.
    pub(crate) kept: Vec<Reg>,
    /// The aggregate whose row that is: the only `min` or `max` there is.
    pub(crate) picks: Option<usize>,
    pub(crate) having: Option<Code>,
    /// Parts of `having` that are told from a group's aggregates alone.
    pub(crate) tests: Vec<AggregateTest>,
    /// True where the first row whose argument is not NULL has the only aggregate's value.
    pub(crate) ends_early: bool,
    /// True where the rows of one group come one after the other.
    pub(crate) ordered: bool,
    /// True where the groups are the rows of a `DISTINCT`, given out as they come.
    pub(crate) distinct: bool,
    /// The number of its measure.
    pub(crate) measure: usize,
}

impl GroupPlan {
    /// True where groups end one after the other, and failing ones are forgotten before all rows
    /// have come.
    pub(crate) fn drops_failing(&self) -> bool {
        let is_plain = |it: &AggregatePlan| !it.distinct && it.order.is_empty();
        self.ordered
            && !self.tests.is_empty()
            && self.picks.is_none()
            && self.aggregates.iter().all(is_plain)
    }
}

/// An aggregate compared with a number: no group passes a `HAVING` without it.
#[derive(Debug)]
pub(crate) struct AggregateTest {
    /// The place of the aggregate in its plan.
    pub(crate) aggregate: usize,
    pub(crate) op: CompareOp,
    pub(crate) number: Value,
}

#[derive(Debug)]
pub(crate) struct AggregatePlan {
    pub(crate) function: crate::functions::Aggregation,
    pub(crate) arguments: Vec<Code>,
    pub(crate) first: Reg,
    pub(crate) filter: Option<Code>,
    /// In which order rows are taken, if in one: by codes, and how their values compare. The
    /// registers of the keys count from the first argument; the values of the codes stand behind
    /// the arguments.
    pub(crate) order: Vec<Code>,
    pub(crate) sort: SortPlan,
    pub(crate) distinct: bool,
    pub(crate) collation: Collation,
    pub(crate) json: u64,
    pub(crate) result: Reg,
}

/// Resolves and plans a query. Where transactions are given, the trees that could serve are looked
/// into, so that their sizes decide.
///
/// # Errors
/// What the resolver refuses.
pub(crate) fn plan(
    schema: &Schema,
    select: &ast::Select,
    txns: Option<Txns<'_>>,
) -> Result<Program, Error> {
    let how = (Forced::default(), false, Vec::new());
    plan_with(schema, Resolver::new(schema), select, txns, how)
}

/// The same with choices that are made already.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_forced(
    schema: &Schema,
    select: &ast::Select,
    txns: Txns<'_>,
    forced: Forced,
) -> Result<Program, Error> {
    plan_with(schema, Resolver::new(schema), select, Some(txns), (forced, false, Vec::new()))
}

/// Plans a query anew with the lessons of its earlier plans' runs.
///
/// # Errors
/// As [`plan`].
fn plan_again(
    schema: &Schema,
    select: &ast::Select,
    txns: Txns<'_>,
    how: (Forced, bool, Vec<Learned>),
) -> Result<Program, Error> {
    plan_with(schema, Resolver::new(schema), select, Some(txns), how)
}

/// Resolves and plans a query within a statement that writes.
///
/// # Errors
/// What the resolver refuses.
pub(crate) fn plan_within(
    schema: &Schema,
    select: &ast::Select,
    around: Around<'_>,
) -> Result<Program, Error> {
    let how = (Forced::default(), false, Vec::new());
    plan_with(schema, Resolver::within(schema, around), select, around.txns, how)
}

/// Plans a query to show the plan: with the words of each loop.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_in_words(
    schema: &Schema,
    select: &ast::Select,
    txns: Txns<'_>,
    forced: Forced,
) -> Result<Program, Error> {
    plan_with(schema, Resolver::new(schema), select, Some(txns), (forced, true, Vec::new()))
}

fn plan_with<'a>(
    schema: &'a Schema,
    mut resolver: Resolver<'a>,
    select: &'a ast::Select,
    txns: Option<Txns<'_>>,
    (forced, in_words, learned): (Forced, bool, Vec<Learned>),
) -> Result<Program, Error> {
    let mut query = resolved(schema, &mut resolver, select)?;
    let mut compiler = Compiler::default();
    compiler.shared = resolver.made_once().len();
    compiler.utf16 = schema.utf16().is_some();
    compiler.in_words = in_words;
    compiler.forced = forced;
    compiler.learned = learned;
    if let Some(txns) = txns {
        sample::sample(&query, txns);
        if keys_below(&mut query, forced.keys_below) {
            sample::sample(&query, txns);
        }
        group_below(&mut query, forced.groups_below);
        compiler.join_bushy(&mut query);
        // A statement with writes may change rows kept by a run before.
        compiler.runs = 1.0;
    }
    plan_resolved(query, compiler)
}

/// A select, resolved and rewritten. In a narrowed schema hidden rows meet leakproof conditions
/// alone: where others stand beside a table with hidden rows, tables are resolved once more, behind
/// barriers. A statement that searches virtual tables with hidden rows is resolved with tables of
/// their visible rows. `resolver` is the one of the last time.
///
/// # Errors
/// The resolver's; [`Error::Denied`] for a condition that a barrier would not keep back.
pub(crate) fn resolved<'a>(
    schema: &'a Schema,
    resolver: &mut Resolver<'a>,
    select: &'a ast::Select,
) -> Result<Query, Error> {
    let mut query = resolver.query(select);
    if let Some(searching) = resolver.searching() {
        *resolver = searching;
        query = resolver.query(select);
    }
    let query = rewritten(query?, schema, &resolver.made_once());
    if schema.narrowing().is_none() || keeps_hidden(&query) {
        return Ok(query);
    }
    *resolver = resolver.behind_barriers();
    let query = resolver.query(select)?;
    let query = rewritten(query, schema, &resolver.made_once());
    match keeps_hidden(&query) {
        true => Ok(query),
        false => {
            let message = "a condition of this statement would be asked of hidden rows".to_owned();
            Err(Error::Denied { message })
        }
    }
}

/// A resolved query in the form plans look for; `made_once` is [`Resolver::made_once`].
fn rewritten(mut query: Query, schema: &Schema, made_once: &[bool]) -> Query {
    place_common(&mut query, made_once);
    if let Some(order) = schema.utf16() {
        in_utf16(&mut query, order);
    }
    factor(&mut query);
    merge_views(&mut query);
    imply(&mut query);
    push_down(&mut query);
    lower_bounds(&mut query);
    drop_unread(&mut query);
    let mut free = Free::of(&query);
    unnest(&mut query, &mut free);
    compute_late(&mut query, &mut free);
    bound_parts(&mut query, &mut free);
    query
}

fn plan_resolved(mut query: Query, mut compiler: Compiler) -> Result<Program, Error> {
    let once = take_once(&mut query);
    let root = compiler.plan_query(&query);
    let codes = once.values.iter().map(|value| compiler.code(value)).collect();
    let once = OnceCodes { own: once.own, codes };
    let pipeline = node::Root::of(&root, &compiler);
    if let Some(error) = compiler.failed.take() {
        return Err(error);
    }
    if let Some(error) = compiler.refused.take().filter(|_| compiler.no_solution) {
        return Err(error);
    }
    if compiler.no_solution {
        return Err(Error::Meaning { message: "no query solution".to_owned(), offset: None });
    }
    Ok(Program {
        root,
        queries: compiler.queries,
        registers: compiler.registers,
        constants: compiler.constants,
        parameters: compiler.parameters,
        once,
        sets: compiler.sets,
        cursors: compiler.cursors,
        trees: compiler.trees,
        stores: compiler.stores,
        slots: compiler.slots,
        shared: compiler.shared,
        marks: compiler.marks,
        measures: compiler.measures,
        schema: None,
        needs_schema: compiler.needs_schema,
        reads_virtual: compiler.reads_virtual,
        reads_pending: compiler.reads_pending,
        columns: query.columns,
        pipeline,
        forced: compiler.forced,
        calls_own: compiler.calls_own,
        learned: compiler.learned,
        watched: Vec::new(),
    })
}

/// The only `min` or `max` among aggregates, whose row gives the bare columns.
fn picking(aggregates: &[Aggregate]) -> Option<usize> {
    let mut picking =
        aggregates.iter().enumerate().filter(|(_, aggregate)| aggregate.function.picks_row());
    let first = picking.next()?;
    picking.next().is_none().then_some(first.0)
}
