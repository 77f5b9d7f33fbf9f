//! Plans kept by the text of their statements, for programs preparing one text again and again, and
//! by the [`Shape`] of small queries, for programs writing other values into one text.
//!
//! A plan holds the [`Schema`] of its making and serves while the connection's schema is the same
//! value ([`Arc::ptr_eq`]). A change of the file's schema by anybody, `ATTACH`, registered modules
//! and pragmas with an effect on meanings all give the connection a new schema, and so end all
//! plans before. Running a plan checks the file's schema once more (`Connection::query`).

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHasher};

use super::statement::Compiled;
use crate::exec::pipeline::Memory;
use crate::parse::{Parsed, Shape};
use crate::plan::node::Node;
use crate::plan::pipeline::{Access, PipelineStep};
use crate::plan::{MadeAgain, Program};
use crate::rows::Origin;
use crate::schema::{Object, Schema};
use crate::value::Value;
use crate::write::RowsWritten;

/// Most plans kept of either kind; the least recently used goes first.
const PLANS_MAX: usize = 256;

/// Number of texts remembered, by their hashes, after their first preparing.
const SEEN: usize = 256;

/// A statement's plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sql: Box<str>,
    pub(crate) parsed: Arc<Parsed>,
    pub(crate) compiled: Compiled,
    /// The schema of its making.
    pub(crate) schema: Arc<Schema>,
    /// The names of the result's columns.
    pub(crate) columns: Vec<String>,
    /// Memory left by a statement for the next of the same plan; empty while there is none.
    spare: Mutex<Vec<Memory>>,
    /// The programs made anew while the query ran.
    pub(crate) again: MadeAgain,
}

impl Plan {
    pub(crate) fn new(
        sql: &str,
        parsed: Arc<Parsed>,
        compiled: Compiled,
        schema: Arc<Schema>,
    ) -> Arc<Plan> {
        let columns = compiled.columns();
        let (spare, again) = (Mutex::default(), MadeAgain::default());
        Arc::new(Plan { sql: sql.into(), parsed, compiled, schema, columns, spare, again })
    }

    /// The ground of a new plan: the schema, the statement, the programs made anew so far.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin { schema: &self.schema, stmt: &self.parsed.stmt, made: &self.again }
    }

    /// Takes the memory left by a statement of the plan.
    pub(crate) fn take_memory(&self) -> Vec<Memory> {
        self.spare.try_lock().map_or_else(|_| Vec::new(), |mut spare| std::mem::take(&mut *spare))
    }

    /// Keeps a statement's memory for the next one: the memory of points and seeks in one table, a
    /// few hundred bytes with the table's leaves in mind.
    pub(crate) fn give_memory(&self, memory: &mut Vec<Memory>) {
        if self.steps().is_some_and(|steps| steps.len() == 1)
            && self.is_small()
            && memory.iter().all(Memory::is_small)
            && let Ok(mut spare) = self.spare.try_lock()
        {
            std::mem::swap(&mut *spare, memory);
        }
    }

    /// True for a query by a rowid or the key of an index, and rows of other tables found so.
    fn is_small(&self) -> bool {
        self.steps().is_some_and(|steps| steps.iter().all(is_small))
    }

    /// The steps of a query as one pipeline.
    fn steps(&self) -> Option<&[PipelineStep]> {
        let Compiled::Query(program) = &self.compiled else { return None };
        match &program.root.node {
            Node::Pages(pages) if program.pipeline.is_some() => Some(&pages.pipeline.levels),
            _ => None,
        }
    }

    /// True where one statement of the plan does the same as any other: not for pragmas, looked up
    /// as they are prepared, nor for printed plans.
    fn may_be_kept(&self) -> bool {
        !matches!(
            self.compiled,
            Compiled::QueryPlan(_)
                | Compiled::Tree(_)
                | Compiled::Analyze(_)
                | Compiled::Pragma(_)
                | Compiled::Attach(_)
                | Compiled::Detach(_)
        )
    }

    /// True where no literal could have led to another plan, or to one much better: rows by their
    /// rowids; rows by an index, unless an index is partial, with a condition for a literal to
    /// meet; rows of `VALUES`.
    fn is_of_any_literal(&self) -> bool {
        let has_partial = |object: &Object| match object {
            Object::Table(table) => table.has_partial_index(),
            Object::Narrowed(narrowed) => narrowed.table.has_partial_index(),
            _ => false,
        };
        let is_by_rowid = |step: &PipelineStep| matches!(step.access, Access::Rowid { .. });
        let no_partial = || !self.schema.objects().iter().any(has_partial);
        let is_of_any = |program: &Program| match program.root.node.sources() {
            Some(found) => {
                let steps = || found.iter().flat_map(|pipeline| &pipeline.levels);
                steps().all(is_small) && (steps().all(is_by_rowid) || no_partial())
            }
            None => program.queries.is_empty() && program.root.node.finds_equal() && no_partial(),
        };
        match &self.compiled {
            Compiled::Query(program) => is_of_any(program),
            Compiled::Write(plan) => match plan.rows_written() {
                RowsWritten::Given => true,
                RowsWritten::Found(program) => is_of_any(program),
                RowsWritten::Other => false,
            },
            _ => false,
        }
    }
}

/// True for rows by a rowid or the key of an index.
fn is_small(step: &PipelineStep) -> bool {
    match &step.access {
        Access::Rowid { .. } => true,
        Access::Index(access) => access.is_by_equality(),
        _ => false,
    }
}

/// An entry of the cache.
#[derive(Debug)]
struct Kept<T> {
    value: T,
    /// The time of its last use, counted in searches.
    used: u64,
}

/// A plan, or the schema without a plan for every literal.
#[derive(Debug)]
enum OfShape {
    Plan(Arc<Plan>),
    None(Arc<Schema>),
}

/// A plan found in the cache, with the text's literals where found by shape.
#[derive(Debug)]
pub(crate) enum Found {
    OfText(Arc<Plan>),
    OfShape(Arc<Plan>, Vec<Value>, Option<Vec<String>>),
}

impl Found {
    pub(super) fn plan(&self) -> &Arc<Plan> {
        match self {
            Found::OfText(plan) | Found::OfShape(plan, ..) => plan,
        }
    }
}

/// The plans of a connection.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_text: FxHashMap<Box<str>, Kept<Arc<Plan>>>,
    by_shape: FxHashMap<Box<str>, Kept<OfShape>>,
    /// Hashes of texts and shapes, each where its last bits say.
    seen: Vec<u64>,
    /// How often plans were asked for.
    asked: u64,
    /// The shape of the last text searched for, where `has_shape`.
    shape: Shape,
    has_shape: bool,
}

impl Plans {
    /// The plan kept for a text or its shape, perhaps one for an earlier schema.
    pub(super) fn find(&mut self, sql: &str) -> Option<Found> {
        self.asked += 1;
        self.has_shape = false;
        if let Some(kept) = self.by_text.get_mut(sql) {
            kept.used = self.asked;
            return Some(Found::OfText(Arc::clone(&kept.value)));
        }
        self.has_shape = self.shape.read(sql);
        if !self.has_shape {
            return None;
        }
        let kept = self.by_shape.get_mut(&*self.shape.text)?;
        kept.used = self.asked;
        let OfShape::Plan(plan) = &kept.value else { return None };
        let mut columns = None;
        for (number, name) in self.shape.names(sql) {
            let columns = columns.get_or_insert_with(|| plan.columns.clone());
            name.clone_into(columns.get_mut(number)?);
        }
        Some(Found::OfShape(Arc::clone(plan), self.shape.values(sql), columns))
    }

    /// Forgets the plans for other schemas.
    pub(super) fn forget_others(&mut self, schema: &Arc<Schema>) {
        let is_of = |known: &Arc<Schema>| Arc::ptr_eq(known, schema);
        self.by_text.retain(|_, kept| is_of(&kept.value.schema));
        self.by_shape.retain(|_, kept| match &kept.value {
            OfShape::Plan(plan) => is_of(&plan.schema),
            OfShape::None(schema) => is_of(schema),
        });
    }

    /// Keeps the plan of a text not found by [`Plans::find`].
    pub(super) fn keep(&mut self, plan: &Arc<Plan>) {
        make_room(&mut self.by_text);
        let kept = Kept { value: Arc::clone(plan), used: self.asked };
        self.by_text.insert(plan.sql.clone(), kept);
    }

    /// The same where the text was prepared before: most texts come once only.
    pub(super) fn keep_if_seen(&mut self, plan: &Arc<Plan>) {
        if plan.may_be_kept() && self.was_seen(&plan.sql, 0) {
            self.keep(plan);
        }
    }

    /// The shape of the last text searched for, where a plan of the shape is worth making: the
    /// shape came before, and nothing is known of it for this schema.
    pub(super) fn wanted_shape(&mut self, schema: &Arc<Schema>) -> Option<String> {
        // Literals of a text in UTF-8 are converted where a plan is made.
        if !self.has_shape || schema.utf16().is_some() {
            return None;
        }
        if let Some(kept) = self.by_shape.get(&*self.shape.text) {
            let known = match &kept.value {
                OfShape::Plan(plan) => &plan.schema,
                OfShape::None(schema) => schema,
            };
            return (!Arc::ptr_eq(known, schema)).then(|| self.shape.text.clone());
        }
        let text = std::mem::take(&mut self.shape.text);
        let seen = self.was_seen(&text, 1);
        self.shape.text = text;
        seen.then(|| self.shape.text.clone())
    }

    /// Keeps the plan of a shape where the plan serves every literal, or else a note of its
    /// absence.
    pub(super) fn keep_shape(
        &mut self,
        text: String,
        plan: Option<Arc<Plan>>,
        schema: &Arc<Schema>,
    ) {
        make_room(&mut self.by_shape);
        let value = match plan.filter(|plan| plan.is_of_any_literal()) {
            Some(plan) => OfShape::Plan(plan),
            None => OfShape::None(Arc::clone(schema)),
        };
        self.by_shape.insert(text.into_boxed_str(), Kept { value, used: self.asked });
    }

    /// Notes a text; true where the text was noted before.
    fn was_seen(&mut self, text: &str, kind: u64) -> bool {
        if self.seen.is_empty() {
            self.seen.resize(SEEN, 0);
        }
        // Zero stands for none.
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one((text, kind)) | 1;
        let seen = &mut self.seen[(hash >> 1) as usize % SEEN];
        std::mem::replace(seen, hash) == hash
    }
}

/// Makes room for one more entry, in the place of the least recently used.
fn make_room<T>(kept: &mut FxHashMap<Box<str>, Kept<T>>) {
    if kept.len() < PLANS_MAX {
        return;
    }
    let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(text, _)| text.clone());
    if let Some(oldest) = oldest {
        kept.remove(&oldest);
    }
}
