//! Running plans.
//!
//! A [`Run`] is the state of one execution: registers, the position of each loop, gathered rows. A
//! run borrows nothing. To go on, it is given a transaction and makes a [`Machine`], with cursors
//! besides; at the end of a batch of rows the cursors are dropped and their places noted. So a
//! result set can own its transaction, at a cost in one place of the code, once per batch.

mod batch;
pub(crate) mod computed;
mod computed_rows;
mod distinct;
mod each_row;
mod eval;
mod frame;
mod group;
mod group_store;
mod grouped;
mod hash;
mod intersection;
mod large_partition;
mod leaf_sort;
mod loops;
mod memo;
mod operator;
mod ordered;
mod overflow;
mod pages;
mod pages_scan;
mod partitions;
pub(crate) mod pipeline;
mod pipeline_scan;
mod probe;
mod query;
mod recursion;
mod row_expr;
mod scan;
mod sets;
mod shared;
mod virtual_scan;
mod window;

use std::sync::Arc;

use shoal_store::{IndexCursor, Pgno, TableCursor, TableLookup, Transaction};

pub(crate) use batch::Batch;
pub(crate) use eval::{current_time, eval, eval_condition, eval_operand};
pub(crate) use row_expr::{Place, RowExpr};

use crate::Error;
use crate::keep::KeySet;
use crate::keep::kept_keys::{QueryRows, QuerySet, Rules};
use crate::keep::key::push_converted_key;
use crate::keep::listed::{ListPlace, ListRule, Listed, Listing};
use crate::keep::matched::MatchedRows;
use crate::plan::node::{GroupSource, Node};
use crate::plan::pipeline::Walk;
use crate::plan::{OnceCodes, Program, SubqueryPlan};
use crate::schema::{Module, ModuleContext, ModuleRows, Schema, Txns};
use crate::session::{Analysis, Session};
use crate::value::{InRule, Value, ValueRef, assign};
use each_row::{each_row, each_row_of};
use hash::HashStore;
use memo::Memo;
use probe::Probe;
use query::{NodeRun, QueryRun};
use shared::SharedRows;

/// The state of a run between batches.
#[derive(Debug, Default)]
struct State {
    /// `None` while a machine has them.
    parameters: Option<Arc<Vec<Value>>>,
    registers: Vec<Value>,
    sets: Vec<Option<KeySet>>,
    queries: Vec<SubqueryRun>,
    stores: Vec<Option<HashStore>>,
    /// The matched rows of outer joins.
    marks: Vec<MatchedRows>,
    /// The rows taken by recursions.
    taken: Vec<Vec<Value>>,
    /// The rows of common tables made once.
    shared: Vec<Option<Arc<SharedRows>>>,
    /// Modules whose rows are made once for a statement.
    modules: Vec<(Arc<dyn Module>, Box<dyn ModuleRows>)>,
    /// Lookups of rows by rowid, by the number of the cursor.
    lookups: Vec<Option<TableLookup>>,
}

/// A query within an expression.
#[derive(Debug, Default)]
struct SubqueryRun {
    run: Option<Box<QueryRun>>,
    /// In place of both, for rows straight from the pages.
    probe: Option<Box<Probe>>,
    /// The result of a query independent of any row.
    value: Option<Value>,
    exists: Option<bool>,
    set: Option<QuerySet>,
    rows: Option<QueryRows>,
    /// The values an `IN` looks up.
    listed: Option<Listed>,
    /// Results of a correlated query for some rows.
    memo: Memo,
}

/// One execution of a program.
#[derive(Debug)]
pub(crate) struct Run {
    state: State,
    root: QueryRun,
    started: bool,
    done: bool,
    /// The error that ended the run behind the rows given.
    failed: Option<Error>,
}

impl Run {
    /// Prepares an execution with its parameters, by number from 1.
    pub(crate) fn new(program: &Program, parameters: &[Value]) -> Run {
        let mut registers = vec![Value::Null; program.registers];
        for (reg, value) in &program.constants {
            registers[*reg] = value.clone();
        }
        for (reg, number) in &program.parameters {
            registers[*reg] = parameters.get(number - 1).cloned().unwrap_or_default();
        }
        let state = State {
            parameters: Some(Arc::new(parameters.to_vec())),
            registers,
            sets: std::iter::repeat_with(|| None).take(program.sets).collect(),
            queries: program
                .queries
                .iter()
                .map(|plan| SubqueryRun {
                    memo: Memo::new(plan.by_rowid),
                    ..SubqueryRun::default()
                })
                .collect(),
            stores: std::iter::repeat_with(|| None).take(program.stores).collect(),
            marks: std::iter::repeat_with(MatchedRows::default).take(program.marks).collect(),
            taken: vec![Vec::new(); program.slots],
            shared: vec![None; program.shared],
            modules: Vec::new(),
            lookups: Vec::new(),
        };
        Run { state, root: QueryRun::default(), started: false, done: false, failed: None }
    }

    /// True where a run of the program leaves nothing behind for the next one to mistake for its
    /// own: every register is written before it is read.
    pub(crate) fn can_restart(program: &Program) -> bool {
        program.queries.is_empty() && program.sets == 0 && restarts(&program.root.node)
    }

    /// Prepares another execution of the same program.
    pub(crate) fn restart(&mut self, program: &Program, parameters: &[Value]) {
        for (reg, number) in &program.parameters {
            let value = parameters.get(number - 1).map_or(ValueRef::Null, Value::as_ref);
            assign(&mut self.state.registers[*reg], value);
        }
        let known = Arc::make_mut(self.state.parameters.get_or_insert_default());
        known.resize(parameters.len(), Value::Null);
        for (known, value) in known.iter_mut().zip(parameters) {
            assign(known, value.as_ref());
        }
        (self.started, self.done, self.failed) = (false, false, None);
    }

    /// The parameters of a run given up.
    pub(crate) fn take_parameters(&mut self) -> Vec<Value> {
        let parameters = self.state.parameters.take().unwrap_or_default();
        Arc::try_unwrap(parameters).unwrap_or_else(|shared| shared.to_vec())
    }

    /// Appends up to `count` rows to `out`; false when there are no more.
    ///
    /// # Errors
    /// Errors of expressions and of the file, once the rows before were given; then the run is
    /// over.
    pub(crate) fn fill(
        &mut self,
        program: &Program,
        txns: Txns<'_>,
        session: &dyn Session,
        count: usize,
        out: &mut Batch,
    ) -> Result<bool, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.done {
            return Ok(false);
        }
        let before = out.len();
        let state = std::mem::take(&mut self.state);
        let mut machine = Machine::new(program, txns, session, state);
        let result = self.rows(program, &mut machine, count, out);
        match result {
            Ok(true) => {
                let parked = self.root.park(&program.root, &mut machine);
                self.state = machine.into_state();
                self.done = parked.is_err();
                parked.map(|()| true)
            }
            ended => {
                self.done = true;
                self.state = machine.into_state();
                if !Run::can_restart(program) {
                    self.root = QueryRun::default();
                }
                match ended {
                    Err(error) if out.len() > before => {
                        self.failed = Some(error);
                        Ok(true)
                    }
                    ended => ended,
                }
            }
        }
    }

    fn rows(
        &mut self,
        program: &Program,
        machine: &mut Machine<'_, '_>,
        count: usize,
        out: &mut Batch,
    ) -> Result<bool, Error> {
        let plan = &program.root;
        if !self.started {
            self.started = true;
            machine.compute_once(program)?;
            self.root.start(plan, machine);
        }
        if let Some(more) = self.root.fill_groups(plan, machine, count, out)? {
            return Ok(more);
        }
        let end = out.len() + count;
        while out.len() < end && !out.is_long() {
            if !self.root.next(plan, machine)? {
                return Ok(false);
            }
            out.push(&machine.registers[plan.output..plan.output + plan.width]);
            self.root.push_batch(plan, machine, end - out.len(), out);
        }
        Ok(true)
    }
}

/// True where a query gives groups of rows straight from the pages, or rows computed over columns,
/// and keeps nothing else between rows.
fn restarts(node: &Node) -> bool {
    match node {
        Node::Group(group) => matches!(group.source, GroupSource::Pages(_)),
        Node::Computed(_) => true,
        Node::Project(project) => restarts(&project.input),
        Node::Sort(sort) => !matches!(sort.input, Node::Computed(_)) && restarts(&sort.input),
        Node::Limit(limit) => restarts(&limit.input),
        _ => false,
    }
}

/// Runs a program to its end, calling `each` with every row. `schema` is the schema for functions
/// reading one, unless the program has its own.
///
/// # Errors
/// Errors of expressions and of `each`, and of the file.
pub(crate) fn for_each_row(
    program: &Program,
    (txns, schema): (Txns<'_>, Option<&Schema>),
    session: &dyn Session,
    parameters: &[Value],
    mut each: impl FnMut(&[Value]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut run = Run::new(program, parameters);
    let mut machine = Machine::new(program, txns, session, std::mem::take(&mut run.state));
    machine.schema = machine.schema.or(schema);
    machine.compute_once(program)?;
    let plan = &program.root;
    if walks_pages(&plan.node) && machine.analysis.is_none() {
        // Rows go from their pages to the caller, by no register.
        let mut values = vec![Value::Null; plan.width];
        let mut count = 0_u32;
        let columns = (plan.output, plan.width);
        let run = &mut NodeRun::Fresh;
        return each_row_of(&plan.node, columns, run, &mut machine, |row| {
            count = count.wrapping_add(1);
            if count.is_multiple_of(CHECKED_ROWS) {
                session.check()?;
            }
            for (value, found) in values.iter_mut().zip(row.values()) {
                assign(value, found);
            }
            each(&values)
        });
    }
    run.root.start(plan, &mut machine);
    while run.root.next(plan, &mut machine)? {
        each(&machine.registers[plan.output..plan.output + plan.width])?;
    }
    Ok(())
}

/// Rows between two looks at whether to go on.
const CHECKED_ROWS: u32 = 1 << 12;

/// True where all rows come from pages, in the order of the walk over them.
fn walks_pages(node: &Node) -> bool {
    match node {
        Node::Pages(pages) => !matches!(pages.pipeline.walk.all_rows(), Walk::TopN | Walk::Count),
        _ => false,
    }
}

/// The parameters of a run: the given ones, and behind them the values computed when a run begins.
///
/// # Errors
/// None of the functions called fails.
pub(crate) fn with_once(
    program: &Program,
    parameters: &[Value],
    session: &dyn Session,
) -> Result<Vec<Value>, Error> {
    let registers = Run::new(program, parameters).state.registers;
    let mut machine = Machine::of_registers(registers, program.sets, session);
    machine.parameters = Arc::new(parameters.to_vec());
    machine.compute_once(program)?;
    Ok(Arc::unwrap_or_clone(machine.parameters))
}

/// A run with cursors: the machine expressions and loops work on.
pub(crate) struct Machine<'m, 't> {
    plans: &'m [SubqueryPlan],
    /// `None` where expressions alone are evaluated.
    txns: Option<Txns<'t>>,
    pub(crate) session: &'m dyn Session,
    /// The statement's parameters.
    parameters: Arc<Vec<Value>>,
    pub(crate) registers: Vec<Value>,
    pub(crate) sets: Vec<Option<KeySet>>,
    queries: Vec<SubqueryRun>,
    stores: Vec<Option<HashStore>>,
    marks: Vec<MatchedRows>,
    taken: Vec<Vec<Value>>,
    shared: Vec<Option<Arc<SharedRows>>>,
    modules: Vec<(Arc<dyn Module>, Box<dyn ModuleRows>)>,
    lookups: Vec<Option<TableLookup>>,
    schema: Option<&'m Schema>,
    /// One for each of `cursor_count`, once any is needed.
    cursors: Vec<Slot<'t>>,
    /// The database of each.
    cursor_databases: &'m [usize],
    /// Measures of the plan's nodes, where anybody asks for them.
    analysis: Option<&'m Analysis>,
    /// Rows looked at, to ask now and then whether to go on.
    ticks: u32,
}

/// A cursor in use.
enum Slot<'t> {
    Empty,
    Table(Box<TableCursor<'t>>),
    Index(Box<IndexCursor<'t>>),
    Row(FoundRow<'t>),
}

/// A row looked up by its rowid.
struct FoundRow<'t> {
    rowid: i64,
    record: &'t [u8],
    /// The whole record, if continued on overflow pages.
    far: Option<Vec<u8>>,
}

impl FoundRow<'_> {
    fn record(&self) -> &[u8] {
        self.far.as_deref().unwrap_or(self.record)
    }
}

impl<'m, 't> Machine<'m, 't> {
    fn new(program: &'m Program, txns: Txns<'t>, session: &'m dyn Session, state: State) -> Self {
        Machine {
            plans: &program.queries,
            txns: Some(txns),
            session,
            parameters: state.parameters.unwrap_or_default(),
            registers: state.registers,
            sets: state.sets,
            queries: state.queries,
            stores: state.stores,
            marks: state.marks,
            taken: state.taken,
            shared: state.shared,
            modules: state.modules,
            lookups: state.lookups,
            schema: program.schema.as_deref(),
            cursors: Vec::new(),
            cursor_databases: &program.cursors,
            analysis: session.analysis(),
            ticks: 0,
        }
    }

    /// A machine for expressions without queries.
    pub(crate) fn of_registers(
        registers: Vec<Value>,
        sets: usize,
        session: &'m dyn Session,
    ) -> Self {
        Machine {
            plans: &[],
            txns: None,
            session,
            parameters: Arc::default(),
            registers,
            sets: std::iter::repeat_with(|| None).take(sets).collect(),
            queries: Vec::new(),
            stores: Vec::new(),
            marks: Vec::new(),
            taken: Vec::new(),
            shared: Vec::new(),
            modules: Vec::new(),
            lookups: Vec::new(),
            schema: None,
            cursors: Vec::new(),
            cursor_databases: &[],
            analysis: None,
            ticks: 0,
        }
    }

    /// Computes the values staying the same for a whole run.
    fn compute_once(&mut self, program: &Program) -> Result<(), Error> {
        let OnceCodes { own, codes } = &program.once;
        if codes.is_empty() {
            return Ok(());
        }
        let mut parameters = std::mem::take(&mut self.parameters);
        let known = Arc::make_mut(&mut parameters);
        known.resize(*own, Value::Null);
        for code in codes {
            eval(self, code)?;
            known.push(self.registers[code.result].clone());
        }
        for (reg, number) in program.parameters.iter().filter(|(_, number)| number > own) {
            self.registers[*reg] = known[number - 1].clone();
        }
        self.parameters = parameters;
        Ok(())
    }

    /// Does a part of a node's work under `EXPLAIN ANALYZE`; `rows` gives the number of rows it
    /// gave.
    #[inline]
    fn measured<T>(
        &mut self,
        measure: usize,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
        rows: impl FnOnce(&T) -> u64,
    ) -> Result<T, Error> {
        let Some(analysis) = self.analysis else { return work(self) };
        let begun = analysis.begin();
        let done = work(self)?;
        analysis.end(measure, begun, rows(&done));
        Ok(done)
    }

    /// As [`Machine::measured`] for a node beginning anew.
    #[inline]
    fn measured_run<T>(
        &mut self,
        measure: usize,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
        rows: impl FnOnce(&T) -> u64,
    ) -> Result<T, Error> {
        if let Some(analysis) = self.analysis {
            analysis.opened(measure);
        }
        self.measured(measure, work, rows)
    }

    /// Makes room for the cursors.
    #[inline]
    fn open_cursors(&mut self) {
        if self.cursors.len() < self.cursor_databases.len() {
            self.cursors.resize_with(self.cursor_databases.len(), || Slot::Empty);
        }
    }

    /// Called for every row of a loop: now and then asks whether to go on.
    #[inline]
    fn tick(&mut self) -> Result<(), Error> {
        const EVERY: u32 = 64;
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(EVERY) { self.session.check() } else { Ok(()) }
    }

    /// The transactions of the statement's databases.
    fn txns(&self) -> Result<Txns<'t>, Error> {
        self.txns.ok_or(Error::Misuse { what: "a query was run outside a transaction" })
    }

    /// The transaction for reading a database.
    fn txn(&self, database: usize) -> Result<&'t Transaction, Error> {
        self.txns()?.of(database)
    }

    /// The transaction of a cursor.
    fn cursor_txn(&self, cursor: usize) -> Result<&'t Transaction, Error> {
        self.txn(self.cursor_databases.get(cursor).copied().unwrap_or(crate::schema::MAIN))
    }

    fn into_state(self) -> State {
        State {
            parameters: Some(self.parameters),
            registers: self.registers,
            sets: self.sets,
            queries: self.queries,
            stores: self.stores,
            marks: self.marks,
            taken: self.taken,
            shared: self.shared,
            modules: self.modules,
            lookups: self.lookups,
        }
    }

    /// A cursor over a table, opened on first use.
    #[inline]
    fn table_cursor(&mut self, cursor: usize, root: Pgno) -> Result<&mut TableCursor<'t>, Error> {
        let txn = self.cursor_txn(cursor)?;
        let slot = &mut self.cursors[cursor];
        if !matches!(slot, Slot::Table(_)) {
            *slot = Slot::Table(Box::new(txn.table(root)?));
        }
        let Slot::Table(cursor) = slot else {
            return Err(Error::Misuse { what: "a cursor over a table is none" });
        };
        Ok(cursor)
    }

    /// A cursor over an index, opened on first use.
    #[inline]
    fn index_cursor(&mut self, cursor: usize, root: Pgno) -> Result<&mut IndexCursor<'t>, Error> {
        let txn = self.cursor_txn(cursor)?;
        let slot = &mut self.cursors[cursor];
        if !matches!(slot, Slot::Index(_)) {
            *slot = Slot::Index(Box::new(txn.index(root)?));
        }
        let Slot::Index(cursor) = slot else {
            return Err(Error::Misuse { what: "a cursor over an index is none" });
        };
        Ok(cursor)
    }

    /// Puts a cursor on the row with a rowid; false where there is none.
    fn find_row(&mut self, cursor: usize, root: Pgno, rowid: i64) -> Result<bool, Error> {
        let txn = self.cursor_txn(cursor)?;
        // A lookup keeps its knowledge of the tree, which a writer changes, and gives records as
        // stored, which UTF-16 forbids.
        if txn.is_writer() || txn.utf16().is_some() {
            return Ok(self.table_cursor(cursor, root)?.seek(rowid)?);
        }
        let slot = &mut self.cursors[cursor];
        if self.lookups.len() <= cursor {
            self.lookups.resize_with(cursor + 1, || None);
        }
        let lookup = self.lookups[cursor].get_or_insert_with(|| TableLookup::new(root));
        let Some((page, index, cell)) = lookup.locate(txn, rowid)? else {
            *slot = Slot::Empty;
            return Ok(false);
        };
        let (mut record, mut far) = (&[][..], None);
        if cell.goes_on() {
            let payload = page.table_leaf(index).map_err(Error::corrupt)?.payload;
            txn.read_payload(payload, far.insert(Vec::new()))?;
        } else {
            record = page.bytes().get(cell.range()).unwrap_or_default();
        }
        *slot = Slot::Row(FoundRow { rowid, record, far });
        Ok(true)
    }

    /// Begins to read a module; one whose rows are made once for a statement is opened once.
    fn open_module(
        &mut self,
        module: &Arc<dyn Module>,
        arguments: &[Option<Value>],
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let is_open = |(known, _): &&(Arc<dyn Module>, _)| Arc::ptr_eq(known, module);
        if let Some((_, rows)) = self.modules.iter().find(is_open) {
            return Ok(rows.again().expect("rows that were kept can be read again"));
        }
        let rows = module.open(arguments, &self.module_context()?)?;
        if let Some(again) = rows.again() {
            self.modules.push((Arc::clone(module), again));
        }
        Ok(rows)
    }

    /// The context for modules giving rows.
    fn module_context(&self) -> Result<ModuleContext<'_>, Error> {
        let (schema, txns, session) = (self.schema, self.txns()?, self.session);
        Ok(ModuleContext { schema, txns, session, module: None })
    }

    /// A column of a query's first row, or NULL, put into a register.
    pub(crate) fn scalar(&mut self, index: usize, column: usize, to: usize) -> Result<(), Error> {
        let plans = self.plans;
        let SubqueryPlan { plan, correlated, .. } = &plans[index];
        let reads = plans[index].reads();
        let known = match (&self.queries[index].value, reads) {
            (None, Some(reads)) => self.queries[index].memo.find(reads, &self.registers),
            (known, _) => known.as_ref(),
        };
        if let Some(value) = known {
            assign(&mut self.registers[to], value.as_ref());
            return Ok(());
        }
        let found = self.first_row(index)?;
        let from = plan.output + column;
        if !found {
            self.registers[to] = Value::Null;
        } else if from != to {
            let mut target = std::mem::take(&mut self.registers[to]);
            assign(&mut target, self.registers[from].as_ref());
            self.registers[to] = target;
        }
        let value = &self.registers[to];
        if reads.is_some() {
            self.queries[index].memo.keep(value);
        }
        if !correlated {
            self.queries[index].value = Some(value.clone());
        }
        Ok(())
    }

    /// True where a query gives any row.
    pub(crate) fn exists(&mut self, index: usize) -> Result<bool, Error> {
        if let Some(exists) = self.queries[index].exists {
            return Ok(exists);
        }
        let plans = self.plans;
        let reads = plans[index].reads();
        if let Some(reads) = reads
            && let Some(known) = self.queries[index].memo.find(reads, &self.registers)
        {
            return Ok(*known == Value::Int(1));
        }
        let exists = match &plans[index].plan.node {
            Node::Probe(probe) => {
                let measure = plans[index].plan.measure;
                self.measured_run(
                    measure,
                    |machine| machine.probe_any(index, probe),
                    |found| u64::from(*found),
                )?
            }
            _ => self.first_row(index)?,
        };
        if reads.is_some() {
            self.queries[index].memo.keep(&exists.into());
        }
        if !self.plans[index].correlated {
            self.queries[index].exists = Some(exists);
        }
        Ok(exists)
    }

    fn first_row(&mut self, index: usize) -> Result<bool, Error> {
        let plans = self.plans;
        let plan = &plans[index].plan;
        if let Node::Probe(probe) = &plan.node {
            return self.measured_run(
                plan.measure,
                |machine| machine.probe_first(index, probe),
                |found| u64::from(*found),
            );
        }
        let mut run = self.queries[index].run.take().unwrap_or_default();
        run.start(plan, self);
        let found = run.next(plan, self)?;
        self.queries[index].run = Some(run);
        Ok(found)
    }

    /// Lists the first column of every row of a query; one independent of any row is listed once.
    fn list(&mut self, index: usize, rule: ListRule) -> Result<(), Error> {
        if self.queries[index].listed.is_none() || self.plans[index].correlated {
            let mut listing = Listing::new(rule);
            self.gather(index, |session, row| listing.push(session, row[0].clone()))?;
            self.queries[index].listed = Some(listing.finish(self.session)?);
        }
        Ok(())
    }

    /// The value at a place of the list made by [`Machine::list`].
    fn next_listed(&mut self, index: usize, at: &mut ListPlace) -> Result<Option<Value>, Error> {
        match &mut self.queries[index].listed {
            Some(listed) => listed.next(at),
            None => Ok(None),
        }
    }

    /// Runs a query to its end and calls `take` with every row.
    fn gather(
        &mut self,
        index: usize,
        mut take: impl FnMut(&dyn Session, &[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let plans = self.plans;
        let plan = &plans[index].plan;
        let mut run = self.queries[index].run.take().unwrap_or_default();
        run.start(plan, self);
        while run.next(plan, self)? {
            take(self.session, &self.registers[plan.output..plan.output + plan.width])?;
        }
        self.queries[index].run = Some(run);
        Ok(())
    }

    /// True where a row of registers is among a query's rows; NULL where only a NULL could tell.
    pub(crate) fn row_in_query(
        &mut self,
        index: usize,
        row: &[usize],
        rules: Rules<'_>,
    ) -> Result<Option<bool>, Error> {
        if self.queries[index].rows.is_none() || self.plans[index].correlated {
            self.queries[index].rows = None;
            let mut set = QueryRows::default();
            self.gather(index, |session, row| set.insert(session, row, rules))?;
            self.queries[index].rows = Some(set);
        }
        let row: Vec<Value> = row.iter().map(|&reg| self.registers[reg].clone()).collect();
        match &mut self.queries[index].rows {
            Some(set) => set.contains(&row, rules),
            None => Ok(None),
        }
    }

    /// True where a register's value is among the first column of a query's rows; NULL where only a
    /// NULL could tell.
    pub(crate) fn in_query(
        &mut self,
        index: usize,
        from: usize,
        rule: InRule,
    ) -> Result<Option<bool>, Error> {
        let plans = self.plans;
        let SubqueryPlan { correlated, may_fail, .. } = &plans[index];
        if *correlated && !may_fail {
            return self.in_rows(index, from, rule);
        }
        if self.queries[index].set.is_none() || *correlated {
            self.queries[index].set = None;
            let mut set = QuerySet::default();
            let plan = &plans[index].plan;
            if *correlated {
                self.gather(index, |session, row| set.insert(session, row[0].as_ref(), rule))?;
            } else {
                let session = self.session;
                each_row(plan, &mut NodeRun::Fresh, self, |row| {
                    let value = row.values().next().unwrap_or(ValueRef::Null);
                    set.insert(session, value, rule)
                })?;
            }
            self.queries[index].set = Some(set);
        }
        let value = self.registers[from].as_ref();
        match &mut self.queries[index].set {
            Some(set) => set.contains(value, rule),
            None => Ok(None),
        }
    }

    /// As [`Machine::in_query`] for a query asked for one value alone: the search ends at the first
    /// equal row.
    fn in_rows(&mut self, index: usize, from: usize, rule: InRule) -> Result<Option<bool>, Error> {
        let plans = self.plans;
        let plan = &plans[index].plan;
        if let Node::Probe(probe) = &plan.node {
            return self.measured_run(
                plan.measure,
                |machine| machine.probe_in(index, probe, from, rule),
                |_| 0,
            );
        }
        let is_null = self.registers[from].is_null();
        let (mut found, mut empty, mut has_null) = (false, true, false);
        let mut wanted = Vec::new();
        push_converted_key(
            self.registers[from].as_ref(),
            rule.affinity,
            rule.collation,
            &mut wanted,
        );
        let mut key = Vec::new();
        let mut run = self.queries[index].run.take().unwrap_or_default();
        run.start(plan, self);
        while !found && run.next(plan, self)? {
            empty = false;
            // Nothing is equal to NULL, but whether there is a row at all still counts.
            if is_null {
                break;
            }
            let value = self.registers[plan.output].as_ref();
            if value == ValueRef::Null {
                has_null = true;
                continue;
            }
            key.clear();
            push_converted_key(value, rule.affinity, rule.collation, &mut key);
            found = key == wanted;
        }
        self.queries[index].run = Some(run);
        Ok(match found || empty {
            true => Some(found),
            false => (!is_null && !has_null).then_some(false),
        })
    }
}
