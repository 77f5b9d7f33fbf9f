//! The rows of a query.
//!
//! Rows are produced in batches, by loops over pages or by the general executor. The caller walks
//! two numbers: the next row of the batch and the batch's end. A row is a position, and its values
//! are decoded on demand; both are small enough to be inlined into the caller's loop. Everything
//! done once a batch is behind a call.

use std::ops::Range;
use std::sync::Arc;

use crate::Error;
use crate::exec::pipeline::{LazyRow, Memory, PipelineRows, combine};
use crate::exec::{Batch, Run};
use crate::parse::ast::Stmt;
use crate::plan::node::{Node, Root, root_parts};
use crate::plan::pipeline::{Operand, Pipeline};
use crate::plan::{MadeAgain, Misjudged, Program};
use crate::schema::{AttachedSnapshots, BESIDE, Schema, Snapshot, Txns};
use crate::session::{Analysis, StatementSession};
use crate::value::{Affinity, Value, ValueRef};

/// The rows of a query, computed as they are asked for.
///
/// Outside a transaction they hold a read transaction of their own until the last row was given
/// or they are dropped.
#[derive(Debug)]
pub struct Rows<'c> {
    /// The next row of the batch, and the end of the batch.
    next: usize,
    end: usize,
    source: Source<'c>,
    /// The place to return a reusable run to.
    spare: Option<&'c mut Option<Box<General>>>,
    /// Rows still allowed by the limit on a result, and true once there were more.
    left: u64,
    is_over: bool,
    rows_max: u64,
    /// True where no row follows the batch, and nothing is to be given back.
    ended: bool,
}

/// The general executor at work: its run, and the batch its rows go through.
#[derive(Debug)]
pub(crate) struct General {
    run: Run,
    batch: Batch,
    /// Number of rows asked for with the next batch.
    size: usize,
    session: Option<StatementSession>,
    /// The number of the program: how often the query was planned anew.
    stage: usize,
    /// Measures of a program made anew under `EXPLAIN ANALYZE`.
    analysis: Option<Arc<Analysis>>,
}

/// The schema and the text of a query, and the programs made anew while the query ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'c> {
    pub(crate) schema: &'c Arc<Schema>,
    pub(crate) stmt: &'c Stmt,
    pub(crate) made: &'c MadeAgain,
}

#[derive(Debug)]
enum Source<'c> {
    /// The batch's rows are positions on pages.
    Leaf(PipelineSource<'c>),
    /// The batch's rows are values.
    Pipeline(PipelineSource<'c>),
    General {
        snapshot: Snapshot<'c>,
        attached: AttachedSnapshots<'c>,
        origin: Origin<'c>,
        program: &'c Program,
        general: Box<General>,
    },
    /// All rows are in the batch; the run may serve again.
    Ended(Box<General>),
    Values(Box<Batch>),
    Done,
}

/// Rows straight from the pages.
#[derive(Debug)]
struct PipelineSource<'c> {
    /// The memory of the current part, and behind it of the parts that follow.
    memory: &'c mut [Memory],
    pipeline: &'c Pipeline,
    parameters: &'c [Value],
    snapshot: Snapshot<'c>,
    program: &'c Program,
    rows: PipelineRows,
    part: usize,
    /// `compares` while the parts are still to be compared; `kept` once they were, and each gives
    /// its own rows.
    compares: bool,
    kept: bool,
}

/// Batches grow up to this many rows: few rows cost little, and many rows little each.
const BATCH_ROWS_MAX: usize = 256;

impl<'c> PipelineSource<'c> {
    /// Fills the batch; an empty range when there are no more rows.
    #[inline]
    fn refill(&mut self) -> Result<Range<usize>, Error> {
        if self.compares
            && let Some(ready) = self.compare()?
        {
            return Ok(ready);
        }
        loop {
            let Some(memory) = self.memory.first_mut() else { return Ok(0..0) };
            let txn = self.snapshot.get();
            let ready = self.rows.fill(self.pipeline, txn, self.parameters, memory)?;
            if !ready.is_empty() || self.memory.len() < 2 || !self.next_part() {
                return Ok(ready);
            }
        }
    }

    /// Compares the parts; `None` where each gives its own rows then.
    #[cold]
    fn compare(&mut self) -> Result<Option<Range<usize>>, Error> {
        self.compares = false;
        let node = &self.program.root.node;
        combine(node, self.snapshot.get(), self.parameters, self.memory)?;
        let Some(first) = self.memory.first() else { return Ok(Some(0..0)) };
        let ready = self.rows.combined(first);
        self.kept = ready.is_none();
        Ok(ready)
    }

    /// Goes on with the next part, if there is one whose rows are given.
    #[cold]
    fn next_part(&mut self) -> bool {
        let gives_all = |root: &Root| !root.compares || self.kept;
        if !self.program.pipeline.as_ref().is_some_and(gives_all) || !self.rows.wants_more() {
            return false;
        }
        let next = root_parts(&self.program.root.node).nth(self.part + 1).flatten();
        let (Some(pipeline), Some((before, rest))) =
            (next, std::mem::take(&mut self.memory).split_first_mut())
        else {
            return false;
        };
        if let Some(memory) = rest.first_mut() {
            memory.take_marks(pipeline, before);
        }
        (self.pipeline, self.memory) = (pipeline, rest);
        self.part += 1;
        match self.memory.first_mut() {
            Some(memory) if self.kept => self.rows.begin_kept(memory),
            Some(memory) => self.rows.begin(memory),
            None => {}
        }
        true
    }

    /// True where all rows were produced, and the snapshot outlives them.
    #[inline]
    fn has_ended(&self) -> bool {
        let last = matches!(&*self.memory, [memory] if memory.has_ended());
        (last || !self.rows.wants_more()) && matches!(self.snapshot, Snapshot::Shared(_))
    }

    /// The kind of the batch's rows.
    #[inline]
    fn kind(&self) -> Kind {
        match self.memory.first() {
            Some(memory) if !self.rows.are_combined() => {
                if self.pipeline.is_lazy(memory) {
                    Kind::Leaf
                } else {
                    Kind::Pipeline
                }
            }
            _ => Kind::Pipeline,
        }
    }

    /// Slow path for a column of a row unable to give the value itself; `fields` is where the row's
    /// fields begin.
    #[inline(never)]
    fn slow_value(&self, fields: u32, column: usize) -> ValueRef<'_> {
        let Some(memory) = self.memory.first() else { return ValueRef::Null };
        let txn = self.snapshot.get();
        self.pipeline.slow_value(memory, (fields, column), txn, self.parameters)
    }
}

/// The source behind rows straight from the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Leaf,
    Pipeline,
}

/// The count given by `LIMIT` or `OFFSET`.
fn row_count(operand: &Operand, parameters: &[Value]) -> Result<i64, Error> {
    let value = match operand {
        Operand::Constant(value) => value.clone(),
        Operand::Parameter(number) => parameters.get(number - 1).cloned().unwrap_or_default(),
        Operand::Field { .. } | Operand::Rowid { .. } => Value::Null,
    };
    match Affinity::Integer.apply(value) {
        Value::Int(count) => Ok(count),
        _ => Err(Error::runtime("datatype mismatch")),
    }
}

/// Makes the memory of each part of a program, unless it is there.
#[inline]
fn make_memory(program: &Program, memory: &mut Vec<Memory>) {
    if memory.is_empty() {
        memory.extend(root_parts(&program.root.node).flatten().map(Memory::new));
    }
}

impl<'c> Rows<'c> {
    /// The rows of a program, straight from the pages where possible. `is_limited` tells of a limit
    /// on memory: a pipeline's memory is then counted as rows come one after the other.
    ///
    /// # Errors
    /// Refused values of `LIMIT` and `OFFSET`; a database no longer attached.
    pub(crate) fn of_program(
        (snapshot, mut attached): (Snapshot<'c>, AttachedSnapshots<'c>),
        (origin, program): (Origin<'c>, &'c Program),
        (parameters, memory, spare): (
            &'c [Value],
            &'c mut Vec<Memory>,
            &'c mut Option<Box<General>>,
        ),
        is_limited: bool,
        session: impl FnOnce() -> StatementSession,
    ) -> Result<Rows<'c>, Error> {
        match &program.pipeline {
            Some(root) if !(root.compares && is_limited) => {
                if root.keeps_rowids && is_limited {
                    make_memory(program, memory);
                    let session = session();
                    memory.iter_mut().for_each(|it| it.keep_within(&session));
                }
                let snapshot = match root.database.checked_sub(BESIDE) {
                    None => snapshot,
                    Some(place) => attached
                        .get_mut(place)
                        .and_then(Option::take)
                        .ok_or(Error::Misuse { what: "a database is not attached any more" })?,
                };
                Rows::of_pipeline(snapshot, (program, root), parameters, memory, None)
            }
            _ => {
                let snapshots = (snapshot, attached);
                Ok(Rows::of_query(snapshots, (origin, program), parameters, session(), spare))
            }
        }
    }

    /// The rows of a program by the general executor.
    pub(crate) fn of_query(
        (snapshot, attached): (Snapshot<'c>, AttachedSnapshots<'c>),
        (origin, program): (Origin<'c>, &'c Program),
        parameters: &[Value],
        session: StatementSession,
        spare: &'c mut Option<Box<General>>,
    ) -> Rows<'c> {
        let (stage, program) = origin.made.latest(program);
        let spared = spare.take().filter(|general| general.stage == stage);
        let mut general = spared.unwrap_or_else(|| {
            let (run, batch) = (Run::new(program, parameters), Batch::new(program.columns.len()));
            Box::new(General { run, batch, size: 1, session: None, stage, analysis: None })
        });
        general.run.restart(program, parameters);
        general.batch.clear();
        (general.size, general.session) = (1, Some(session));
        let spare = Run::can_restart(program).then_some(spare);
        let source = Source::General { snapshot, attached, origin, program, general };
        let mut rows = Rows::of_source(source);
        rows.spare = spare;
        rows
    }

    fn of_source(source: Source<'c>) -> Rows<'c> {
        let (left, rows_max) = (u64::MAX, u64::MAX);
        let (next, end, spare, is_over, ended) = (0, 0, None, false, false);
        Rows { next, end, source, spare, left, is_over, rows_max, ended }
    }

    /// The same rows, with an error after `rows` of them.
    pub(crate) fn at_most(mut self, rows: Option<u64>) -> Rows<'c> {
        if let Some(rows) = rows {
            (self.left, self.rows_max) = (rows, rows);
        }
        self
    }

    /// Rows straight from the pages, at most so many where there is a limit.
    #[inline(always)]
    pub(crate) fn of_pipeline(
        snapshot: Snapshot<'c>,
        (program, root): (&'c Program, &'c Root),
        parameters: &'c [Value],
        memory: &'c mut Vec<Memory>,
        rows_max: Option<u64>,
    ) -> Result<Rows<'c>, Error> {
        make_memory(program, memory);
        const MISUSE: Error = Error::Misuse { what: "a statement changed its kind" };
        let (mut limit, mut offset) = (u64::MAX, 0);
        if let Some(operand) = &root.limit {
            // Negative stands for no limit.
            limit = u64::try_from(row_count(operand, parameters)?).unwrap_or(u64::MAX);
        }
        if let Some(operand) = &root.offset {
            offset = u64::try_from(row_count(operand, parameters)?).unwrap_or(0);
        }
        let pipeline = match &program.root.node {
            // The usual case, in a few instructions.
            Node::Pages(pages) => Some(&pages.pipeline),
            node => root_parts(node).next().flatten(),
        };
        let (Some(pipeline), Some(first)) = (pipeline, memory.first_mut()) else {
            return Err(MISUSE);
        };
        let (part, compares, kept) = (0, root.compares, false);
        let mut rows = PipelineRows::new(limit, offset);
        rows.begin(first);
        let source = PipelineSource {
            memory,
            pipeline,
            parameters,
            snapshot,
            program,
            rows,
            part,
            compares,
            kept,
        };
        let rows_max = rows_max.unwrap_or(u64::MAX);
        let (next, end, spare, is_over, ended) = (0, 0, None, false, false);
        let source = Source::Leaf(source);
        Ok(Rows { next, end, source, spare, left: rows_max, is_over, rows_max, ended })
    }

    /// The measures of the last program, where the query was planned anew under
    /// `EXPLAIN ANALYZE`.
    pub(crate) fn analysed(&self) -> Option<Arc<Analysis>> {
        match &self.source {
            Source::General { general, .. } | Source::Ended(general) => general.analysis.clone(),
            _ => None,
        }
    }

    /// Rows of known values.
    pub(crate) fn of_values(width: usize, rows: &[Vec<Value>]) -> Rows<'c> {
        let mut batch = Batch::new(width);
        rows.iter().for_each(|row| batch.push(row));
        let mut this = Rows::of_source(Source::Values(Box::new(batch)));
        this.end = rows.len();
        this
    }

    /// True where anybody has committed to one of the statement's databases since it began: see
    /// [`shoal_store::Transaction::is_stale`]. False once the last row was given.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn is_stale(&self) -> Result<bool, Error> {
        let none: &[Option<Snapshot<'_>>] = &[];
        if self.ended && self.next >= self.end {
            return Ok(false);
        }
        let (snapshot, attached) = match &self.source {
            Source::General { snapshot, attached, .. } => (snapshot, attached.as_slice()),
            Source::Leaf(source) | Source::Pipeline(source) => (&source.snapshot, none),
            Source::Ended(_) | Source::Values(_) | Source::Done => return Ok(false),
        };
        for snapshot in std::iter::once(snapshot).chain(attached.iter().flatten()) {
            if snapshot.get().is_stale()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next row, valid until the next call; `None` after the last.
    ///
    /// Cost: a step to a row of the batch, inlined into the caller's loop; a call for each batch.
    ///
    /// # Errors
    /// Errors of the statement's expressions and of the file. There are no more
    /// rows then.
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        if self.next >= self.end && (self.ended || !self.refill()?) {
            return Ok(None);
        }
        let row = self.next;
        self.next += 1;
        Ok(Some(self.row(row)))
    }

    /// A row of the batch.
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'_> {
        let place = match &self.source {
            Source::Leaf(source) => match source.memory.first() {
                Some(memory) => {
                    let row = memory.leaf.row(row, source.snapshot.get());
                    RowPlace::Leaf { source, row }
                }
                None => RowPlace::Kept { rows: self, row },
            },
            _ => RowPlace::Kept { rows: self, row },
        };
        Row { place }
    }

    /// Makes more rows ready; false when there are none.
    #[inline(never)]
    fn refill(&mut self) -> Result<bool, Error> {
        if self.is_over {
            return self.refuse_more();
        }
        let ready = match &mut self.source {
            Source::Leaf(source) | Source::Pipeline(source) => source.refill(),
            Source::General { .. } => self.refill_general(),
            Source::Ended(_) | Source::Values(_) | Source::Done => return Ok(false),
        };
        let ready = match ready {
            Ok(ready) if !ready.is_empty() => {
                let (kind, source) = match &self.source {
                    Source::Leaf(source) => (Kind::Leaf, Some(source)),
                    Source::Pipeline(source) => (Kind::Pipeline, Some(source)),
                    _ => (Kind::Pipeline, None),
                };
                if let Some(turned) = source.map(PipelineSource::kind).filter(|&it| it != kind) {
                    self.turn(turned);
                }
                ready
            }
            ended => {
                // A snapshot of its own ends here.
                if !matches!(self.source, Source::Ended(_)) {
                    self.source = Source::Done;
                }
                return ended.map(|_| false);
            }
        };
        let given = usize::try_from(self.left).unwrap_or(usize::MAX).min(ready.len());
        self.left -= given as u64;
        (self.next, self.end) = (ready.start, ready.start + given);
        // Whoever asks for the row behind these is told.
        self.is_over = given < ready.len();
        let has_ended = match &self.source {
            Source::Leaf(source) => source.has_ended(),
            _ => false,
        };
        self.ended = !self.is_over && has_ended;
        if given == 0 { self.refuse_more() } else { Ok(true) }
    }

    /// Goes on with a part whose rows are of the other kind.
    #[cold]
    fn turn(&mut self, kind: Kind) {
        self.source = match std::mem::replace(&mut self.source, Source::Done) {
            Source::Leaf(source) | Source::Pipeline(source) => match kind {
                Kind::Leaf => Source::Leaf(source),
                Kind::Pipeline => Source::Pipeline(source),
            },
            other => other,
        };
    }

    /// Ends the result at the first row over the limit.
    #[cold]
    fn refuse_more(&mut self) -> Result<bool, Error> {
        (self.source, self.is_over) = (Source::Done, false);
        Err(Error::Limit { what: "rows of a result", max: self.rows_max })
    }

    fn refill_general(&mut self) -> Result<Range<usize>, Error> {
        let Source::General { snapshot, attached, origin, program, general } = &mut self.source
        else {
            return Ok(0..0);
        };
        let General { run, batch, size, session, stage, analysis } = &mut **general;
        let Some(session) = session else { return Ok(0..0) };
        loop {
            batch.clear();
            let txns = Txns::new(snapshot.get(), attached);
            let more = match run.fill(program, txns, session, *size, batch) {
                Err(Error::Misjudged { step, found, first }) => {
                    let misjudged = Misjudged { step, found, first };
                    let Origin { schema, stmt, made } = *origin;
                    let before = (*stage, *program);
                    let Some(next) = made.again((schema, stmt), before, misjudged, txns)? else {
                        return Err(Error::Misjudged { step, found, first });
                    };
                    // No row was given so far: see `plan::again`.
                    *run = Run::new(next, &run.take_parameters());
                    if let Some(before) = &mut session.analysis {
                        *before = Arc::new(before.anew(next.measures));
                        *analysis = Some(Arc::clone(before));
                    }
                    (*program, *stage, self.spare) = (next, *stage + 1, None);
                    continue;
                }
                filled => filled?,
            };
            *size = (*size * 2).min(program.forced.batch_rows(BATCH_ROWS_MAX));
            if !more || batch.len() > 0 {
                let ready = 0..batch.len();
                if !more
                    && let Source::General { mut general, .. } =
                        std::mem::replace(&mut self.source, Source::Done)
                {
                    // The snapshot ends here.
                    general.session = None;
                    self.source = Source::Ended(general);
                }
                return Ok(ready);
            }
        }
    }
}

impl Drop for Rows<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(spare) = self.spare.take()
            && let Source::Ended(general) = std::mem::replace(&mut self.source, Source::Done)
        {
            *spare = Some(general);
        }
    }
}

/// One row of a result.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    place: RowPlace<'r>,
}

#[derive(Clone, Copy, Debug)]
enum RowPlace<'r> {
    /// The positions of the columns on the row's page; values are decoded on demand.
    Leaf { source: &'r PipelineSource<'r>, row: LazyRow<'r> },
    /// The row's number in the batch.
    Kept { rows: &'r Rows<'r>, row: usize },
}

impl<'r> Row<'r> {
    /// The value of a column, from 0; NULL past the last column.
    ///
    /// Cost: for a row straight from a page, the decoding of one value, inlined into the caller.
    #[inline(always)]
    pub fn get(&self, column: usize) -> ValueRef<'r> {
        match &self.place {
            RowPlace::Leaf { source, row } => match row.value(source.pipeline.given(column)) {
                Some(value) => value,
                None => source.slow_value(row.fields_from(), column),
            },
            RowPlace::Kept { rows, row } => rows.kept(*row, column),
        }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        match &self.place {
            RowPlace::Leaf { source, .. } => source.program.columns.len(),
            RowPlace::Kept { rows, .. } => match &rows.source {
                Source::Leaf(source) | Source::Pipeline(source) => source.program.columns.len(),
                Source::General { general, .. } | Source::Ended(general) => general.batch.width(),
                Source::Values(batch) => batch.width(),
                Source::Done => 0,
            },
        }
    }

    /// True for a row without columns: no query has such rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values from first to last.
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'r>> {
        let row = *self;
        (0..row.len()).map(move |column| row.get(column))
    }
}

impl Rows<'_> {
    /// A column of a batch's row on no page.
    #[inline(never)]
    fn kept(&self, row: usize, column: usize) -> ValueRef<'_> {
        match &self.source {
            Source::Leaf(source) | Source::Pipeline(source) => {
                let Some(memory) = source.memory.first() else { return ValueRef::Null };
                let txn = source.snapshot.get();
                source.pipeline.kept(memory, (row, column), txn, source.parameters)
            }
            Source::General { general, .. } | Source::Ended(general) => {
                general.batch.get(row, column)
            }
            Source::Values(batch) => batch.get(row, column),
            Source::Done => ValueRef::Null,
        }
    }
}
