//! Triggers: the programs that changes of rows run.
//!
//! A program is compiled when the statement that may run it is prepared. `OLD` and `NEW` are
//! parameters of its queries, so that it is run for each row with other values.
//!
//! A trigger writes to its own database, but for `temp`'s: a trigger of `temp` may be on a table of
//! any database, and each of its steps writes to a database of its own ([`Context::in_database`]).

use std::sync::Arc;

use super::actions::{self, Action, NEW, OLD};
use super::delete::DeletePlan;
use super::insert::InsertPlan;
use super::query::RowQuery;
use super::row::Row;
use super::target::Target;
use super::update::UpdatePlan;
use super::{Context, Done, Failure, delete, home, insert, references, update};
use crate::Error;
use crate::error::Raise;
use crate::parse::Guard;
use crate::parse::ast::{self, Conflict, Name, Stmt, TriggerEvent, TriggerTime};
use crate::resolve::{Around, GivenRow};
use crate::schema::{MAIN, Schema, TEMP, Table, Trigger};
use crate::session::Counts;
use crate::value::{Value, truth};

/// Programs may run each other this deep, as in SQLite.
const DEPTH_MAX: usize = 1000;
/// Every level takes a part of the stack, up to 35 KiB in builds for tests: so many levels fit into
/// the 2 MiB threads have by default, and the next so many run on a stack of their own.
const STACK_DEPTH: usize = 50;
/// Bytes of such a stack. Only what is used of them takes memory.
const STACK_BYTES: usize = 4 << 20;

/// The program of a trigger, or of a foreign key's action.
#[derive(Debug)]
pub(crate) struct Program {
    /// `None` for an action: actions may always run within themselves.
    trigger: Option<Arc<Trigger>>,
    when: Option<RowQuery>,
    /// Each with the number of the database written to.
    steps: Vec<(usize, Step)>,
}

#[derive(Debug)]
enum Step {
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    Select(Box<RowQuery>),
    /// Any row of the query violates the foreign key, unless all keys are deferred.
    Restrict(Box<RowQuery>),
}

/// The source of a program.
#[derive(Clone, Debug)]
enum Origin {
    Trigger(Arc<Trigger>),
    /// The action of a foreign key, by its table and its place there.
    Action(Arc<Table>, usize, TriggerEvent),
}

impl Origin {
    fn is(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::Trigger(a), Origin::Trigger(b)) => Arc::ptr_eq(a, b),
            (Origin::Action(a, place, event), Origin::Action(b, other, same)) => {
                Arc::ptr_eq(a, b) && place == other && event == same
            }
            _ => false,
        }
    }
}

/// The programs of a statement, by number.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<Program>);

/// Which programs a change of a row runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Firing {
    pub(crate) before: Vec<usize>,
    /// After the change and before `RETURNING` looks at the row: `temp`'s programs for a table of
    /// another database.
    pub(crate) early: Vec<usize>,
    pub(crate) after: Vec<usize>,
    pub(crate) instead: Vec<usize>,
}

impl Firing {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && !self.fires_after() && self.instead.is_empty()
    }

    /// True where programs run after the change.
    pub(crate) fn fires_after(&self) -> bool {
        !self.early.is_empty() || !self.after.is_empty()
    }
}

/// What the parts of a statement are prepared within.
#[derive(Debug)]
pub(crate) struct Within<'a> {
    pub(crate) schema: &'a Schema,
    /// The database written to by the statement, or by the step being compiled, and its own schema.
    pub(crate) home: usize,
    pub(crate) own: &'a Schema,
    /// The databases written to by steps and consequences, the statement's own among them or not.
    written: Vec<usize>,
    /// Every compiled program with the `OR` clause of the statement around; the program is `None`
    /// while being compiled.
    compiled: Vec<(Origin, Option<Conflict>, Option<Program>)>,
    /// The `OR` clause of the statement around the program that is compiled.
    pub(crate) conflict: Option<Conflict>,
    /// Nothing fires.
    is_silent: bool,
    /// Tells the guards of kept tables.
    guard: Option<Guard>,
    /// Rows of kept tables may change.
    is_kept: bool,
}

impl<'a> Within<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        home: usize,
        is_silent: bool,
        guard: Option<Guard>,
    ) -> Within<'a> {
        let (home, own) = match schema.of_database(home) {
            Some(own) => (home, own),
            None => (MAIN, schema),
        };
        let (compiled, conflict, is_kept) = (Vec::new(), None, false);
        let written = Vec::new();
        Within { schema, home, own, written, compiled, conflict, is_silent, guard, is_kept }
    }

    /// Notes a database written to.
    pub(crate) fn writes_to(&mut self, database: usize) {
        if !self.written.contains(&database) {
            self.written.push(database);
        }
    }

    /// The databases written to beside the statement's own, in the order of their numbers.
    pub(crate) fn others(&self) -> Vec<usize> {
        let mut others = self.written.clone();
        others.retain(|database| *database != self.home);
        others.sort_unstable();
        others
    }

    /// The triggers of changes of a table or view, in the order of firing.
    pub(crate) fn triggers<'t>(
        &self,
        target: &'t Target,
    ) -> impl Iterator<Item = &'t Arc<Trigger>> + use<'t, 'a>
    where
        'a: 't,
    {
        let schema: &'t Schema = self.schema;
        let temporary = schema.temporary_triggers(self.home, &target.table.name);
        temporary.chain(&target.triggers().list)
    }

    /// True where an event of a table or view runs triggers.
    pub(crate) fn has_triggers(&self, target: &Target, event: TriggerEvent) -> bool {
        self.triggers(target).any(|trigger| trigger.definition.event == event)
    }

    /// True where the rows of a table are kept by the connection's keeper, who is asked then.
    pub(crate) fn keeps(&mut self, table: &Table) -> bool {
        let mut triggers = table.triggers.list.iter();
        let is_kept = !self.is_silent && triggers.any(|it| self.is_guard(table, &it.name));
        self.is_kept |= is_kept;
        is_kept
    }

    /// True for a trigger that the connection's keeper stands for.
    fn is_guard(&self, table: &Table, trigger: &str) -> bool {
        let [first, second, ..] = table.columns.as_slice() else { return false };
        let columns = [first.name.as_str(), second.name.as_str()];
        self.home == MAIN
            && table.without_rowid
            && self.guard.is_some_and(|guard| guard(&table.name, columns, trigger))
    }

    /// True once a kept table was asked about.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// What was compiled.
    pub(crate) fn into_programs(self) -> Programs {
        let programs = self.compiled.into_iter();
        let whole = "a program is compiled before the statement that runs it is";
        Programs(programs.map(|(_, _, program)| program.expect(whole)).collect())
    }

    /// Compiles the programs that an event of a table runs; `changed` are the columns that an
    /// `UPDATE` names.
    ///
    /// # Errors
    /// What the programs' statements are refused for.
    pub(crate) fn firing(
        &mut self,
        target: &Target,
        event: TriggerEvent,
        changed: &[&str],
        conflict: Option<Conflict>,
    ) -> Result<Firing, Error> {
        let mut firing = Firing::default();
        if self.is_silent {
            return Ok(firing);
        }
        for trigger in self.triggers(target) {
            let definition = &trigger.definition;
            let names = |name: &Name| changed.iter().any(|changed| name.is(changed));
            let wanted = definition.columns.is_empty() || definition.columns.iter().any(names);
            let is_far = trigger.database != self.home;
            let is_guard = !is_far && self.is_guard(&target.table, &trigger.name);
            if definition.event != event || !wanted || is_guard {
                continue;
            }
            let number = self.program(trigger, &target.table, conflict)?;
            match definition.time {
                TriggerTime::Before => firing.before.push(number),
                TriggerTime::After if is_far => firing.early.push(number),
                TriggerTime::After => firing.after.push(number),
                TriggerTime::InsteadOf => firing.instead.push(number),
            }
        }
        Ok(firing)
    }

    /// The number of a trigger's program.
    fn program(
        &mut self,
        trigger: &Arc<Trigger>,
        table: &Table,
        conflict: Option<Conflict>,
    ) -> Result<usize, Error> {
        let origin = Origin::Trigger(Arc::clone(trigger));
        self.numbered(origin, conflict, |within| within.compile(trigger, table))
    }

    /// The number of the program of a foreign key's action. `(child, place)` names the key,
    /// `(parent, pairs)` the table acted upon and the columns referring to it.
    ///
    /// # Errors
    /// Errors of compiling the action's statement.
    pub(crate) fn action(
        &mut self,
        (child, place): (&Arc<Table>, usize),
        (parent, pairs): (&Arc<Table>, &[(usize, usize)]),
        event: TriggerEvent,
        action: Action,
    ) -> Result<usize, Error> {
        let origin = Origin::Action(Arc::clone(child), place, event);
        self.numbered(origin, Some(Conflict::Abort), |within| {
            let schema = within.schema;
            let text = actions::text(schema, parent, child, pairs, event, action);
            let (rows, next) = rows_at_hand(parent, event, (OLD, NEW));
            let around = Around { rows: &rows, next, ..Around::statement(0) };
            let when = condition(schema, text.when.as_ref(), around)?;
            let step = match &text.step {
                Stmt::Select(it) => {
                    Step::Restrict(Box::new(RowQuery::compile(schema, it, around)?))
                }
                other => within.step(other, around)?,
            };
            Ok(Program { trigger: None, when, steps: vec![(within.home, step)] })
        })
    }

    /// The number of the program of an origin, compiled at its first use.
    fn numbered(
        &mut self,
        origin: Origin,
        conflict: Option<Conflict>,
        compile: impl FnOnce(&mut Within<'a>) -> Result<Program, Error>,
    ) -> Result<usize, Error> {
        let is = |known: &(Origin, Option<Conflict>, _)| known.0.is(&origin) && known.1 == conflict;
        if let Some(number) = self.compiled.iter().position(is) {
            return Ok(number);
        }
        let number = self.compiled.len();
        self.compiled.push((origin, conflict, None));
        let outer = std::mem::replace(&mut self.conflict, conflict);
        let program = compile(self);
        self.conflict = outer;
        // A place in the trigger's text is none in the statement's.
        self.compiled[number].2 = Some(program.map_err(Error::nowhere)?);
        Ok(number)
    }

    fn compile(&mut self, trigger: &Arc<Trigger>, table: &Table) -> Result<Program, Error> {
        let schema = self.schema;
        let definition = &trigger.definition;
        let (rows, next) = rows_at_hand(table, definition.event, ("old", "new"));
        // Names in `temp`'s triggers are looked up in all databases, other names in the trigger's.
        let home = Some(trigger.database).filter(|database| *database != TEMP);
        let around = Around { rows: &rows, in_trigger: true, home, next, ..Around::statement(0) };
        let when = condition(schema, definition.when.as_ref(), around)?;
        let mut steps = Vec::with_capacity(definition.body.len());
        for step in &definition.body {
            let target = step.changed_table();
            let database = match target {
                Some(target) if home.is_none() => home::of_object(schema, target)?,
                _ => self.home,
            };
            let Some(own) = schema.of_database(database) else {
                return Err(Error::Misuse { what: "a trigger of a database that is not there" });
            };
            if target.is_some() {
                self.writes_to(database);
            }
            let around_step = (self.home, self.own);
            (self.home, self.own) = (database, own);
            let compiled = self.step(step, around);
            (self.home, self.own) = around_step;
            steps.push((database, compiled?));
        }
        Ok(Program { trigger: Some(Arc::clone(trigger)), when, steps })
    }

    fn step(&mut self, step: &Stmt, around: Around<'_>) -> Result<Step, Error> {
        Ok(match step {
            Stmt::Insert(it) => Step::Insert(Box::new(insert::prepare(self, it, around)?)),
            Stmt::Update(it) => Step::Update(Box::new(update::prepare(self, it, around)?)),
            Stmt::Delete(it) => Step::Delete(Box::new(delete::prepare(self, it, around)?)),
            Stmt::Select(it) => Step::Select(Box::new(RowQuery::compile(self.schema, it, around)?)),
            other => unreachable!("no step of a trigger: {other:?}"),
        })
    }
}

/// The rows known to a program, and the number of the first parameter behind them.
fn rows_at_hand<'t>(
    table: &'t Table,
    event: TriggerEvent,
    (old, new): (&str, &str),
) -> (Vec<GivenRow<'t>>, usize) {
    let mut rows: Vec<GivenRow<'t>> = Vec::new();
    let mut next = 1;
    for (name, known) in
        [(old, event != TriggerEvent::Insert), (new, event != TriggerEvent::Delete)]
    {
        if known {
            let row = GivenRow::new(table, name, next).by_name_only().without_affinity();
            next = row.end();
            rows.push(row);
        }
    }
    (rows, next)
}

fn condition(
    schema: &Schema,
    when: Option<&ast::Expr>,
    around: Around<'_>,
) -> Result<Option<RowQuery>, Error> {
    let Some(when) = when else { return Ok(None) };
    let column = ast::ResultColumn::Expr { expr: when.clone(), alias: None, text: String::new() };
    RowQuery::of_exprs(schema, vec![column], None, around).map(Some)
}

/// Runs programs for a row; false when one of them said that the row is to be left out.
///
/// # Errors
/// What the programs' statements fail with.
pub(crate) fn fire(
    context: &mut Context<'_>,
    programs: &[usize],
    old: Option<&Row>,
    new: Option<&Row>,
) -> Result<bool, Failure> {
    if programs.is_empty() {
        return Ok(true);
    }
    let mut parameters = Vec::new();
    for row in [old, new].into_iter().flatten() {
        row.push_parameters(&mut parameters);
    }
    let all = context.programs;
    for &number in programs {
        let program = &all.0[number];
        let runs = |running: &usize| match (&all.0[*running].trigger, &program.trigger) {
            (Some(running), Some(trigger)) => Arc::ptr_eq(running, trigger),
            _ => false,
        };
        if !context.schema.flags().recursive_triggers && context.state.firing.iter().any(runs) {
            continue;
        }
        if context.state.firing.len() >= DEPTH_MAX {
            return Err(Error::runtime("triggers nested too deep").into());
        }
        let is_stack_full = (context.state.firing.len() + 1).is_multiple_of(STACK_DEPTH);
        context.state.firing.push(number);
        let session = context.session;
        let before = counts(session);
        let mut inner = Context {
            home: context.home,
            main: context.main,
            transaction: &mut *context.transaction,
            others: &mut *context.others,
            attached: context.attached,
            schema: context.schema,
            session,
            parameters: &parameters,
            programs: all,
            keeper: context.keeper,
            state: &mut *context.state,
        };
        let done = match is_stack_full {
            true => on_another_stack(|| program.run(&mut inner)),
            false => program.run(&mut inner),
        };
        // What changed counts for ever; the rest is the program's own.
        let total_changes = session.total_changes();
        session.set_counts(Counts { total_changes, ..before });
        context.state.firing.pop();
        match done {
            Ok(()) => {}
            Err(Failure { error: Error::Raised { raise: Raise::Ignore, .. }, .. }) => {
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(true)
}

/// Runs `work` on a thread of its own, and waits for its end.
///
/// # Errors
/// Those of `work`; one where the system has no thread left.
fn on_another_stack(work: impl FnOnce() -> Result<(), Failure> + Send) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work).map_err(|error| {
            Error::runtime(format!("no stack for another level of triggers: {error}"))
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn counts(session: &dyn crate::session::Session) -> Counts {
    Counts {
        changes: session.changes(),
        total_changes: session.total_changes(),
        last_insert_rowid: session.last_insert_rowid(),
    }
}

impl Program {
    fn run(&self, context: &mut Context<'_>) -> Result<(), Failure> {
        if let Some(when) = &self.when {
            let rows = when.run(context)?;
            let value = rows.first().and_then(|row| row.first());
            if value.is_none_or(|value| truth(value.as_ref()) != Some(true)) {
                return Ok(());
            }
        }
        for (database, step) in &self.steps {
            let done = context.in_database(*database, |context| step.run(context));
            let done = done.map_err(|failure| Failure { done: Done::default(), ..failure })?;
            let Some(done) = done else { continue };
            let mut counts = counts(context.session);
            counts.note(done.changes, done.last_insert_rowid);
            context.session.set_counts(counts);
        }
        Ok(())
    }
}

impl Step {
    /// Runs the step in its target's database; `None` for a step without changes of rows.
    fn run(&self, context: &mut Context<'_>) -> Result<Option<Done>, Failure> {
        match self {
            Step::Select(query) => {
                query.run(context)?;
                Ok(None)
            }
            Step::Restrict(query) => {
                let applies = !context.state.violations.outstanding.defers_all;
                if applies && !query.run(context)?.is_empty() {
                    return Err(references::failed());
                }
                Ok(None)
            }
            Step::Insert(plan) => plan.execute(context).map(Some),
            Step::Update(plan) => plan.execute(context).map(Some),
            Step::Delete(plan) => plan.execute(context).map(Some),
        }
    }
}

impl Row {
    /// Appends the values that a [`GivenRow`] stands for.
    pub(crate) fn push_parameters(&self, parameters: &mut Vec<Value>) {
        parameters.extend(self.values.iter().cloned());
        parameters.push(Value::Int(self.rowid));
    }
}
