//! Triggers: the programs that changes of rows run.
//!
//! A program is compiled when the statement that may run it is prepared. `OLD` and `NEW` are
//! parameters of its queries, so that it is run for each row with other values.

use std::sync::Arc;

use super::delete::DeletePlan;
use super::insert::InsertPlan;
use super::query::RowQuery;
use super::row::Row;
use super::target::Target;
use super::update::UpdatePlan;
use super::{Context, Done, Failure, delete, insert, update};
use crate::Error;
use crate::error::Raise;
use crate::parse::ast::{self, Conflict, Name, Stmt, TriggerEvent, TriggerTime};
use crate::resolve::{Around, GivenRow};
use crate::schema::{Schema, Table, Trigger};
use crate::session::Counts;
use crate::value::{Value, truth};

/// Programs may run each other this deep. SQLite allows 1000; here every level takes a part of the
/// thread's stack, and this many fit into what threads have by default.
const DEPTH_MAX: usize = 60;

/// A trigger's program.
#[derive(Debug)]
pub(crate) struct Program {
    trigger: Arc<Trigger>,
    when: Option<RowQuery>,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    Select(Box<RowQuery>),
}

/// The programs that a statement may run, by number.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<Program>);

impl Programs {
    /// No programs at all.
    pub(crate) const fn new() -> Programs {
        Programs(Vec::new())
    }
}

/// Which programs a change of a row runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Firing {
    pub(crate) before: Vec<usize>,
    pub(crate) after: Vec<usize>,
    pub(crate) instead: Vec<usize>,
}

impl Firing {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty() && self.instead.is_empty()
    }
}

/// What the parts of a statement are prepared within.
#[derive(Debug)]
pub(crate) struct Within<'a> {
    pub(crate) schema: &'a Schema,
    /// Every trigger that is compiled, and the `OR` clause of the statement that runs it; the
    /// program is `None` while it is compiled.
    compiled: Vec<(Arc<Trigger>, Option<Conflict>, Option<Program>)>,
    /// The `OR` clause of the statement around the program that is compiled.
    pub(crate) conflict: Option<Conflict>,
    /// Nothing fires.
    is_silent: bool,
}

impl<'a> Within<'a> {
    pub(crate) fn new(schema: &'a Schema, is_silent: bool) -> Within<'a> {
        Within { schema, compiled: Vec::new(), conflict: None, is_silent }
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
        for trigger in &target.triggers().list {
            let definition = &trigger.definition;
            let names = |name: &Name| changed.iter().any(|changed| name.is(changed));
            let wanted = definition.columns.is_empty() || definition.columns.iter().any(names);
            if definition.event != event || !wanted {
                continue;
            }
            let number = self.program(trigger, &target.table, conflict)?;
            match definition.time {
                TriggerTime::Before => firing.before.push(number),
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
        let is = |known: &(Arc<Trigger>, Option<Conflict>, _)| {
            Arc::ptr_eq(&known.0, trigger) && known.1 == conflict
        };
        if let Some(number) = self.compiled.iter().position(is) {
            return Ok(number);
        }
        let number = self.compiled.len();
        self.compiled.push((Arc::clone(trigger), conflict, None));
        let outer = std::mem::replace(&mut self.conflict, conflict);
        let program = self.compile(trigger, table);
        self.conflict = outer;
        // A place in the trigger's text is none in the statement's.
        self.compiled[number].2 = Some(program.map_err(Error::nowhere)?);
        Ok(number)
    }

    fn compile(&mut self, trigger: &Arc<Trigger>, table: &Table) -> Result<Program, Error> {
        let schema = self.schema;
        let definition = &trigger.definition;
        let mut rows: Vec<GivenRow<'_>> = Vec::new();
        let mut next = 1;
        for (name, known) in [
            ("old", definition.event != TriggerEvent::Insert),
            ("new", definition.event != TriggerEvent::Delete),
        ] {
            if known {
                let row = GivenRow::new(table, name, next).by_name_only();
                next = row.end();
                rows.push(row);
            }
        }
        let around = Around { rows: &rows, with: None, is_row: false, in_trigger: true, next };
        let when = definition.when.as_ref().map(|when| {
            let when =
                ast::ResultColumn::Expr { expr: when.clone(), alias: None, text: String::new() };
            RowQuery::of_exprs(schema, vec![when], None, around)
        });
        let when = when.transpose()?;
        let mut steps = Vec::with_capacity(definition.body.len());
        for step in &definition.body {
            steps.push(match step {
                Stmt::Insert(it) => Step::Insert(Box::new(insert::prepare(self, it, around)?)),
                Stmt::Update(it) => Step::Update(Box::new(update::prepare(self, it, around)?)),
                Stmt::Delete(it) => Step::Delete(Box::new(delete::prepare(self, it, around)?)),
                Stmt::Select(it) => Step::Select(Box::new(RowQuery::compile(schema, it, around)?)),
                other => unreachable!("no step of a trigger: {other:?}"),
            });
        }
        Ok(Program { trigger: Arc::clone(trigger), when, steps })
    }
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
        let runs = |running: &usize| Arc::ptr_eq(&all.0[*running].trigger, &program.trigger);
        if !context.schema.flags().recursive_triggers && context.state.firing.iter().any(runs) {
            continue;
        }
        if context.state.firing.len() >= DEPTH_MAX {
            return Err(Error::runtime("triggers nested too deep").into());
        }
        context.state.firing.push(number);
        let session = context.session;
        let before = counts(session);
        let done = program.run(&mut Context {
            transaction: &mut *context.transaction,
            attached: context.attached,
            schema: context.schema,
            session,
            parameters: &parameters,
            programs: all,
            state: &mut *context.state,
        });
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
        for step in &self.steps {
            let done = match step {
                Step::Select(query) => {
                    query.run(context)?;
                    continue;
                }
                Step::Insert(plan) => plan.execute(context),
                Step::Update(plan) => plan.execute(context),
                Step::Delete(plan) => plan.execute(context),
            };
            let done = done.map_err(|failure| Failure { done: Done::default(), ..failure })?;
            let mut counts = counts(context.session);
            counts.note(done.changes, done.last_insert_rowid);
            context.session.set_counts(counts);
        }
        Ok(())
    }
}

impl Row {
    /// Appends the values that a [`GivenRow`] stands for.
    pub(crate) fn push_parameters(&self, parameters: &mut Vec<Value>) {
        parameters.extend(self.values.iter().cloned());
        parameters.push(Value::Int(self.rowid));
    }
}
