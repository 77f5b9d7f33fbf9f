//! Plans made anew while a statement runs: a join with far more rows than its estimate stops before
//! the first row is given, and the statement is planned with the number found.
//!
//! A plan is watched where all rows are gathered before the first is given (groups, sorts), so
//! nobody has seen a row of the run given up. Each step of the loops but the last counts its rows:
//! the rows of the last step are there whatever the order of the tables.

use std::sync::{Arc, OnceLock};

use super::node::{GroupSource, Node};
use super::pipeline::{Pipeline, Walk};
use super::{Program, Scan, plan_again};
use crate::Error;
use crate::parse::ast::Stmt;
use crate::resolve::tree::SourceId;
use crate::schema::{Schema, Txns};

/// A statement is planned anew at most so many times in one run.
const AGAIN_MAX: usize = 3;

/// So many times more rows than expected stop a run.
const MISJUDGED: f64 = 100.0;

/// Fewer rows behind a step stop no run: they are soon gone through.
const ROWS_MIN: u64 = 20_000;

/// The lesson of a run given up: the number of joined rows of some sources.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    pub(crate) sources: Vec<SourceId>,
    /// The names of the sources, where the plan has words.
    pub(crate) names: Vec<String>,
    pub(crate) expected: f64,
    /// Rows found before the run stopped.
    pub(crate) found: u64,
    /// How many times more rows than expected are behind these sources.
    pub(crate) factor: f64,
}

/// A step of a watched join with too many rows: the step's number, its rows, and the rows of the
/// first step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misjudged {
    pub(crate) step: usize,
    pub(crate) found: u64,
    pub(crate) first: u64,
}

/// The programs of one query made anew while the query ran, each planned with the lessons of all
/// programs before.
#[derive(Debug, Default)]
pub(crate) struct MadeAgain {
    programs: [OnceLock<Box<Program>>; AGAIN_MAX],
}

impl MadeAgain {
    /// The query's newest program, and its number: 0 for `first`, the program of the statement.
    pub(crate) fn latest<'p>(&'p self, first: &'p Program) -> (usize, &'p Program) {
        let made = self.programs.iter().map_while(OnceLock::get).enumerate().last();
        made.map_or((0, first), |(number, program)| (number + 1, program))
    }

    /// The program after a run of `before`, the program of number `stage`; `None` where the run was
    /// of no watched plan.
    ///
    /// Cost: the query is planned, once.
    ///
    /// # Errors
    /// The errors of planning.
    pub(crate) fn again(
        &self,
        (schema, stmt): (&Arc<Schema>, &Stmt),
        (stage, before): (usize, &Program),
        misjudged: Misjudged,
        txns: Txns<'_>,
    ) -> Result<Option<&Program>, Error> {
        let Some(slot) = self.programs.get(stage) else { return Ok(None) };
        if let Some(known) = slot.get() {
            return Ok(Some(known));
        }
        let (stmt, in_words) = match stmt {
            Stmt::Explain { stmt, .. } => (&**stmt, true),
            stmt => (stmt, false),
        };
        let (Stmt::Select(select), Some(learned)) = (stmt, before.learn(misjudged)) else {
            return Ok(None);
        };
        let learned = before.learned.iter().cloned().chain([learned]).collect();
        let how = (before.forced, in_words, learned);
        let mut program = plan_again(schema, select, txns, how)?;
        program.schema = program.needs_schema.then(|| Arc::clone(schema));
        if stage + 1 < AGAIN_MAX {
            program.watch();
        }
        Ok(Some(slot.get_or_init(|| Box::new(program))))
    }
}

/// A step of a watched join.
#[derive(Clone, Debug)]
pub(crate) struct WatchedStep {
    source: SourceId,
    name: Option<String>,
    estimate: f64,
}

impl Program {
    /// Has the join below the topmost gathering node watched, if any; not where functions of the
    /// program's own would be called twice.
    pub(crate) fn watch(&mut self) {
        if self.calls_own {
            return;
        }
        if let Some(pipeline) = watchable(&mut self.root.node) {
            self.watched = pipeline.watch(self.forced.plans_again).unwrap_or_default();
        }
    }

    /// The lesson of the rows found by a step of the watched join.
    fn learn(&self, misjudged: Misjudged) -> Option<Learned> {
        let Misjudged { step, found, first } = misjudged;
        let steps = self.watched.get(..=step)?;
        let expected = steps.last()?.estimate.max(1.0);
        // The rows of the first step yet to come find as many rows as the ones so far.
        let ahead = match step {
            0 => 1.0,
            _ => (steps.first()?.estimate / first.max(1) as f64).max(1.0),
        };
        Some(Learned {
            sources: steps.iter().map(|step| step.source).collect(),
            names: steps.iter().filter_map(|step| step.name.clone()).collect(),
            expected,
            found,
            factor: (found as f64 * ahead / expected).max(1.0),
        })
    }
}

/// The pipeline whose rows are all gathered before the query gives its first row.
fn watchable(node: &mut Node) -> Option<&mut Pipeline> {
    let (mut node, mut gathers) = (node, false);
    loop {
        node = match node {
            Node::Project(project) => &mut project.input,
            Node::Limit(limit) => &mut limit.input,
            Node::Distinct(distinct) => &mut distinct.input,
            Node::Sort(sort) => {
                gathers = true;
                &mut sort.input
            }
            Node::Group(group) => {
                return match &mut group.source {
                    GroupSource::Pages(pipeline) => Some(pipeline),
                    GroupSource::Columns { scan, .. } => Some(&mut scan.pipeline),
                    GroupSource::Loops(loops) => {
                        match loops.levels.first_mut().map(|it| &mut it.scan) {
                            Some(Scan::Columns(scan)) => Some(&mut scan.pipeline),
                            _ => None,
                        }
                    }
                };
            }
            Node::Pages(pages) if gathers => return Some(&mut pages.pipeline),
            Node::Computed(computed) if gathers => return Some(&mut computed.scan.pipeline),
            Node::Loops(loops) if gathers => {
                return match loops.levels.first_mut().map(|it| &mut it.scan) {
                    Some(Scan::Columns(scan)) => Some(&mut scan.pipeline),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
}

impl Pipeline {
    /// Has each step but the last count its rows; `None` for a pipeline other than of loops.
    fn watch(&mut self, forced: Option<u64>) -> Option<Vec<WatchedStep>> {
        let is_loop = matches!(self.walk, Walk::NestedLoop { .. });
        if !is_loop || self.marks > 0 {
            return None;
        }
        let steps = self.levels.iter().map(|step| {
            let name = step.words.as_ref().map(|words| words.name.clone());
            Some(WatchedStep { source: step.source?, name, estimate: step.estimate })
        });
        let watched = steps.collect::<Option<_>>()?;
        if let Some((_, steps)) = self.levels.split_last_mut() {
            for step in steps {
                let most = (MISJUDGED * step.estimate).min(u64::MAX as f64) as u64;
                step.most = forced.unwrap_or(most.max(ROWS_MIN));
            }
        }
        Some(watched)
    }
}
