//! Prepared statements and their rows.

use std::sync::Arc;

use crate::connection::plans::Plan;
use crate::connection::pragma::Pragma;
use crate::connection::session::StatementSession;
use crate::exec::direct::{Direct, DirectRows, Memory, Operand, combine, root_parts};
use crate::exec::{AttachedSnapshots, Batch, Run, Snapshot, Txns};
use crate::parse::Parsed;
use crate::parse::ast::{Name, TransactionMode};
use crate::plan::Program;
use crate::schema::Schema;
use crate::value::{Affinity, Value, ValueRef};
use crate::write;
use crate::{Connection, Error};

/// A statement, parsed and planned; run it as often as you like.
///
/// It belongs to no connection: when it is run against another schema than it was planned for, it
/// is planned again.
#[derive(Debug)]
pub struct Statement {
    pub(crate) sql: Arc<str>,
    pub(crate) parsed: Arc<Parsed>,
    pub(crate) compiled: Arc<Compiled>,
    /// The schema that `compiled` is for.
    pub(crate) schema: Arc<Schema>,
    pub(crate) columns: Vec<String>,
    pub(crate) parameters: Vec<Value>,
    /// What running it leaves for the next time; of no use once it is planned again.
    pub(crate) memory: Vec<Memory>,
    pub(crate) spare: Option<Spare>,
    /// What stands for the states of the databases that it read last; 0 before it ran.
    pub(crate) state: u64,
}

/// A run that has ended, and the batch its rows went through.
#[derive(Debug)]
pub(crate) struct Spare {
    run: Box<Run>,
    batch: Batch,
}

/// What a statement became.
#[derive(Debug)]
pub(crate) enum Compiled {
    Query(Box<Program>),
    Write(write::Plan),
    /// The rows of `EXPLAIN QUERY PLAN`.
    Explain(Vec<Vec<Value>>),
    Pragma(Pragma),
    /// The file and the name.
    Attach(Box<Program>),
    /// The name.
    Detach(Box<Program>),
    Begin(TransactionMode),
    Commit,
    Rollback,
    Savepoint(Name),
    Release(Name),
    RollbackTo(Name),
}

impl Compiled {
    /// Whether running it reads the database of that number, which was attached.
    pub(crate) fn reads_attached(&self, database: usize) -> bool {
        match self {
            Compiled::Query(program) => program.reads_attached(database),
            Compiled::Write(plan) => plan.reads_attached(),
            Compiled::Pragma(_) => true,
            _ => false,
        }
    }

    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Compiled::Query(program) => {
                program.columns.iter().map(|column| column.name.clone()).collect()
            }
            Compiled::Explain(_) => {
                ["id", "parent", "notused", "detail"].map(str::to_owned).to_vec()
            }
            Compiled::Pragma(pragma) => pragma.columns(),
            _ => Vec::new(),
        }
    }
}

impl Statement {
    pub(crate) fn new(sql: &str, plan: Plan) -> Statement {
        let Plan { parsed, compiled, schema } = plan;
        Statement {
            sql: sql.into(),
            columns: compiled.columns(),
            parameters: vec![Value::Null; parsed.parameters.len()],
            memory: Vec::new(),
            spare: None,
            state: 0,
            compiled,
            parsed,
            schema,
        }
    }

    /// The statement's text.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The names of the result's columns, as SQLite gives them; empty for what gives no rows.
    pub fn column_names(&self) -> &[String] {
        &self.columns
    }

    /// How many columns the result has; 0 for what gives no rows.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The declared type of the table's column behind a column of the result.
    pub fn column_declared_type(&self, index: usize) -> Option<&str> {
        match &*self.compiled {
            Compiled::Query(program) => program.columns.get(index)?.declared_type.as_deref(),
            _ => None,
        }
    }

    /// How many parameters there are: the highest number of one.
    pub fn parameter_count(&self) -> usize {
        self.parsed.parameters.len()
    }

    /// The number of the parameter of that name, which includes its `:`, `@`, `$` or `?`.
    pub fn parameter_index(&self, name: &str) -> Option<usize> {
        let known = |parameter: &Option<String>| parameter.as_deref() == Some(name);
        self.parsed.parameters.iter().position(known).map(|index| index + 1)
    }

    /// The name of a parameter, by its number from 1.
    pub fn parameter_name(&self, index: usize) -> Option<&str> {
        self.parsed.parameters.get(index.checked_sub(1)?)?.as_deref()
    }

    /// Gives a parameter its value, by its number from 1. It keeps the value until it is given
    /// another; parameters without one are NULL.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such parameter.
    pub fn bind(&mut self, index: usize, value: impl Into<Value>) -> Result<(), Error> {
        let slot = index.checked_sub(1).and_then(|index| self.parameters.get_mut(index));
        match slot {
            Some(slot) => {
                *slot = value.into();
                Ok(())
            }
            None => Err(Error::Misuse { what: "no parameter has that number" }),
        }
    }

    /// Makes every parameter NULL again.
    pub fn clear_bindings(&mut self) {
        self.parameters.fill(Value::Null);
    }

    /// Whether what the statement gave when it last ran may have changed by now: whether anybody has
    /// committed since, this connection included, to `main` or an attached database that it reads.
    /// True before it ran, and sometimes where the file's pages were forgotten since or a log has no
    /// commit in it.
    ///
    /// Cost: as [`Connection::is_stale`].
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn is_stale(&self, connection: &Connection) -> Result<bool, Error> {
        Ok(self.state == 0 || self.state != connection.state_of(&self.compiled)?)
    }

    /// Whether the rows are a plan: `EXPLAIN QUERY PLAN`.
    pub fn is_plan(&self) -> bool {
        matches!(*self.compiled, Compiled::Explain(_))
    }

    /// Whether the statement only reads.
    pub fn is_read_only(&self) -> bool {
        match &*self.compiled {
            Compiled::Query(_) | Compiled::Explain(_) => true,
            Compiled::Write(_) => false,
            Compiled::Pragma(pragma) => !pragma.writes(),
            Compiled::Attach(_)
            | Compiled::Detach(_)
            | Compiled::Begin(_)
            | Compiled::Commit
            | Compiled::Rollback
            | Compiled::Savepoint(_)
            | Compiled::Release(_)
            | Compiled::RollbackTo(_) => true,
        }
    }
}

/// The rows of a query, computed as they are asked for.
///
/// Outside a transaction they hold a read transaction of their own until the last row was given
/// or they are dropped.
#[derive(Debug)]
pub struct Rows<'c> {
    source: Source<'c>,
    batch: Batch,
    /// The next row of the batch.
    next: usize,
    /// How many rows the next batch asks for.
    size: usize,
    /// Where a run that can be used again goes.
    spare: Option<&'c mut Option<Spare>>,
    /// How many more rows may be given.
    left: u64,
    rows_max: u64,
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        let Some(spare) = self.spare.take() else { return };
        if let Source::Ended(run) = std::mem::replace(&mut self.source, Source::Done) {
            *spare = Some(Spare { run, batch: std::mem::take(&mut self.batch) });
        }
    }
}

#[derive(Debug)]
enum Source<'c> {
    Query {
        snapshot: Snapshot<'c>,
        attached: AttachedSnapshots<'c>,
        program: &'c Program,
        run: Box<Run>,
        session: StatementSession,
    },
    /// All rows are in the batch; the run may serve again.
    Ended(Box<Run>),
    Direct(DirectSource<'c>),
    /// Whatever is in the batch is all there is.
    Done,
}

/// Rows straight from the pages.
#[derive(Debug)]
struct DirectSource<'c> {
    snapshot: Snapshot<'c>,
    program: &'c Program,
    parameters: &'c [Value],
    /// One for each part.
    memory: &'c mut [Memory],
    part: usize,
    direct: &'c Direct,
    rows: DirectRows,
    /// Whether the parts are still to be compared, and whether they were and each has its own rows.
    compares: bool,
    kept: bool,
}

impl DirectSource<'_> {
    #[inline]
    fn next(&mut self) -> Result<bool, Error> {
        if self.compares {
            self.compare()?;
        }
        loop {
            let memory = &mut self.memory[self.part];
            if self.rows.next(self.direct, self.snapshot.get(), self.parameters, memory)? {
                return Ok(true);
            }
            if !self.next_part() {
                return Ok(false);
            }
        }
    }

    #[cold]
    fn compare(&mut self) -> Result<(), Error> {
        self.compares = false;
        let body = &self.program.root.body;
        combine(body, self.snapshot.get(), self.parameters, self.memory)?;
        self.kept = !self.rows.start_combined(&self.memory[0]);
        Ok(())
    }

    /// The current row.
    #[inline(always)]
    fn row(&self) -> RowPlace<'_> {
        let (txn, memory) = (self.snapshot.get(), &self.memory[self.part]);
        match self.rows.leaf_bytes(txn, memory) {
            Some(bytes) => RowPlace::Leaf(self, bytes),
            None => RowPlace::Direct(self),
        }
    }

    /// Goes on with the next part, if there is one whose rows are given.
    #[cold]
    fn next_part(&mut self) -> bool {
        if self.program.direct.as_ref().is_none_or(|root| root.compares && !self.kept) {
            return false;
        }
        let next = root_parts(&self.program.root.body).nth(self.part + 1).flatten();
        let Some(direct) = next.filter(|_| self.rows.wants_more()) else { return false };
        self.part += 1;
        self.direct = direct;
        let memory = &mut self.memory[self.part];
        if self.kept {
            self.rows.start_kept(memory);
        } else {
            self.rows.start_part(direct, memory);
        }
        true
    }
}

/// What `LIMIT` or `OFFSET` says.
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

/// Batches grow up to this many rows, so that few rows cost little and many rows little each.
const BATCH_ROWS_MAX: usize = 256;

impl<'c> Rows<'c> {
    pub(crate) fn of_query(
        (snapshot, attached): (Snapshot<'c>, AttachedSnapshots<'c>),
        program: &'c Program,
        parameters: &[Value],
        session: StatementSession,
        spare: &'c mut Option<Spare>,
    ) -> Rows<'c> {
        let Spare { mut run, mut batch } = spare.take().unwrap_or_else(|| Spare {
            run: Box::new(Run::new(program, parameters)),
            batch: Batch::new(program.columns.len()),
        });
        run.restart(program, parameters);
        batch.clear();
        let spare = Run::can_restart(program).then_some(spare);
        let source = Source::Query { snapshot, attached, program, run, session };
        let mut rows = Rows::of_source(source, batch);
        rows.spare = spare;
        rows
    }

    #[inline(always)]
    fn of_source(source: Source<'c>, batch: Batch) -> Rows<'c> {
        let unlimited = u64::MAX;
        Rows { source, batch, next: 0, size: 1, spare: None, left: unlimited, rows_max: unlimited }
    }

    /// The same rows, of which more than so many are an error.
    #[inline(always)]
    pub(crate) fn at_most(self, rows: Option<u64>) -> Rows<'c> {
        let rows = rows.unwrap_or(u64::MAX);
        let mut this = self;
        (this.left, this.rows_max) = (rows, rows);
        this
    }

    /// Rows straight from the pages; `None` when the program's are not.
    pub(crate) fn of_direct(
        snapshot: Snapshot<'c>,
        program: &'c Program,
        parameters: &'c [Value],
        memory: &'c mut Vec<Memory>,
    ) -> Result<Rows<'c>, Error> {
        if memory.is_empty() {
            memory.extend(root_parts(&program.root.body).flatten().map(Memory::new));
        }
        let misuse = || Error::Misuse { what: "a statement changed its kind" };
        let root = program.direct.as_ref().ok_or_else(misuse)?;
        let (mut limit, mut offset) = (u64::MAX, 0);
        if let Some(operand) = &root.limit {
            // Negative stands for no limit.
            limit = u64::try_from(row_count(operand, parameters)?).unwrap_or(u64::MAX);
        }
        if let Some(operand) = &root.offset {
            offset = u64::try_from(row_count(operand, parameters)?).unwrap_or(0);
        }
        let direct = root_parts(&program.root.body).next().flatten().ok_or_else(misuse)?;
        let rows = DirectRows::start(direct, &mut memory[0], limit, offset);
        let (part, compares, kept) = (0, root.compares, false);
        let source = Source::Direct(DirectSource {
            snapshot,
            program,
            parameters,
            memory,
            part,
            direct,
            rows,
            compares,
            kept,
        });
        Ok(Rows::of_source(source, Batch::default()))
    }

    /// Rows that are known already.
    pub(crate) fn of_values(width: usize, rows: &[Vec<Value>]) -> Rows<'c> {
        let mut batch = Batch::new(width);
        rows.iter().for_each(|row| batch.push(row));
        Rows::of_source(Source::Done, batch)
    }

    /// Whether anybody has committed since the statement began, to a database that it reads: see
    /// [`shoal_store::Transaction::is_stale`]. False once the last row was given.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn is_stale(&self) -> Result<bool, Error> {
        let none: &[Option<Snapshot<'_>>] = &[];
        let (snapshot, attached) = match &self.source {
            Source::Query { snapshot, attached, .. } => (snapshot, attached.as_slice()),
            Source::Direct(source) => (&source.snapshot, none),
            Source::Ended(_) | Source::Done => return Ok(false),
        };
        for snapshot in std::iter::once(snapshot).chain(attached.iter().flatten()) {
            if snapshot.get().is_stale()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next row, which stays valid until the next call; `None` after the last.
    ///
    /// # Errors
    /// What the statement's expressions raise, and what is wrong with the file. There are no more
    /// rows then.
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    #[inline]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        if let Source::Direct(source) = &mut self.source
            && self.left > 0
            && source.rows.step()
        {
            self.left -= 1;
            return Ok(self.direct_row());
        }
        self.next_any()
    }

    /// As [`Rows::next`], where the batch has no more rows.
    #[inline(never)]
    fn next_any(&mut self) -> Result<Option<Row<'_>>, Error> {
        if let Source::Direct(source) = &mut self.source {
            match source.next() {
                Ok(true) => self.count_row()?,
                ended => {
                    self.source = Source::Done;
                    return ended.map(|_| None);
                }
            }
            return Ok(self.direct_row());
        }
        self.next_of_batch()
    }

    #[inline]
    fn count_row(&mut self) -> Result<(), Error> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.source = Source::Done;
                self.batch.clear();
                return Err(Error::Limit { what: "rows of a result", max: self.rows_max });
            }
        }
        Ok(())
    }

    #[inline]
    fn direct_row(&self) -> Option<Row<'_>> {
        let Source::Direct(source) = &self.source else { return None };
        Some(Row { place: source.row() })
    }

    fn next_of_batch(&mut self) -> Result<Option<Row<'_>>, Error> {
        while self.next >= self.batch.len() {
            let Source::Query { snapshot, attached, program, run, session } = &mut self.source
            else {
                return Ok(None);
            };
            self.batch.clear();
            self.next = 0;
            let txns = Txns::new(snapshot.get(), attached);
            let more = run.fill(program, txns, session, self.size, &mut self.batch);
            self.size = (self.size * 2).min(BATCH_ROWS_MAX);
            match more {
                Ok(true) => {}
                Ok(false) => {
                    // The snapshot ends here.
                    let ended = std::mem::replace(&mut self.source, Source::Done);
                    if let (Source::Query { run, .. }, Some(_)) = (ended, &self.spare) {
                        self.source = Source::Ended(run);
                    }
                }
                Err(error) => {
                    self.source = Source::Done;
                    self.batch.clear();
                    return Err(error);
                }
            }
        }
        self.next += 1;
        self.count_row()?;
        Ok(Some(Row { place: RowPlace::Batch(&self.batch, self.next - 1) }))
    }
}

/// One row of a result.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    place: RowPlace<'r>,
}

#[derive(Clone, Copy, Debug)]
enum RowPlace<'r> {
    Batch(&'r Batch, usize),
    /// The bytes in which it was found, from which columns are decoded when they are asked for.
    Leaf(&'r DirectSource<'r>, &'r [u8]),
    Direct(&'r DirectSource<'r>),
}

impl<'r> Row<'r> {
    /// The value of a column, from 0; NULL past the last column.
    #[inline]
    pub fn get(&self, column: usize) -> ValueRef<'r> {
        match self.place {
            RowPlace::Leaf(source, bytes) => {
                let outputs = source.direct.outputs.as_deref().unwrap_or_default();
                let memory = &source.memory[source.part];
                source.rows.get_in(outputs, source.parameters, memory, bytes, column)
            }
            _ => self.get_kept(column),
        }
    }

    #[inline(never)]
    fn get_kept(&self, column: usize) -> ValueRef<'r> {
        match self.place {
            RowPlace::Batch(batch, row) => batch.get(row, column),
            RowPlace::Leaf(source, _) | RowPlace::Direct(source) => {
                let (txn, memory) = (source.snapshot.get(), &source.memory[source.part]);
                source.rows.get(source.direct, txn, source.parameters, memory, column)
            }
        }
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        match self.place {
            RowPlace::Batch(batch, _) => batch.width(),
            RowPlace::Leaf(source, _) | RowPlace::Direct(source) => source.program.columns.len(),
        }
    }

    /// Whether there is no column, which no query's row has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values from first to last.
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'r>> {
        let row = *self;
        (0..row.len()).map(move |column| row.get(column))
    }
}
