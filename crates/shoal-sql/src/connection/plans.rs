//! Plans kept by the text of their statements, for those who prepare the same text again and again,
//! and by the [`Shape`] of small queries, for those who write other values into the same text.
//!
//! A plan is for one [`Schema`], which it holds: it serves as long as the connection's schema is
//! that very value ([`Arc::ptr_eq`]), so a change of the file's schema, by whomever, what is
//! attached or registered, and pragmas that change meanings, each of which makes the connection a
//! new schema, end all plans of before. Running a plan checks the file's schema once more
//! (`Connection::query`).

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHasher};

use super::statement::Compiled;
use crate::exec::pipeline::Memory;
use crate::parse::{Parsed, Shape};
use crate::plan::BodyPlan;
use crate::plan::node::Access;
use crate::schema::{Object, Schema};
use crate::value::Value;

/// Most plans that are kept of either kind; the one that was longest not asked for goes first.
const PLANS_MAX: usize = 256;

/// Texts that were prepared once, as remembered by their hashes.
const SEEN: usize = 256;

/// A statement's plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sql: Box<str>,
    pub(crate) parsed: Arc<Parsed>,
    pub(crate) compiled: Compiled,
    /// The schema that it is for.
    pub(crate) schema: Arc<Schema>,
    /// The names of the result's columns.
    pub(crate) columns: Vec<String>,
    /// What a statement that ended keeps for the next of the same plan; nothing while there is
    /// none.
    spare: Mutex<Vec<Memory>>,
}

impl Plan {
    pub(crate) fn new(
        sql: &str,
        parsed: Arc<Parsed>,
        compiled: Compiled,
        schema: Arc<Schema>,
    ) -> Arc<Plan> {
        let columns = compiled.columns();
        let spare = Mutex::default();
        Arc::new(Plan { sql: sql.into(), parsed, compiled, schema, columns, spare })
    }

    /// Takes what a statement of the plan left.
    pub(crate) fn take_memory(&self) -> Vec<Memory> {
        self.spare.try_lock().map_or_else(|_| Vec::new(), |mut spare| std::mem::take(&mut *spare))
    }

    /// Keeps a statement's memory for the next one: that of points and seeks, which is a few
    /// hundred bytes and knows its way.
    pub(crate) fn give_memory(&self, memory: &mut Vec<Memory>) {
        if self.is_small()
            && memory.iter().all(Memory::is_small)
            && let Ok(mut spare) = self.spare.try_lock()
        {
            std::mem::swap(&mut *spare, memory);
        }
    }

    /// Whether the plan is a query that finds its rows by a rowid or the key of an index.
    fn is_small(&self) -> bool {
        match self.access() {
            Some(Access::Rowid { .. }) => true,
            Some(Access::Index(access)) => access.is_by_equality(),
            _ => false,
        }
    }

    /// How a query that is a pipeline of one table finds its rows.
    fn access(&self) -> Option<&Access> {
        let Compiled::Query(program) = &self.compiled else { return None };
        match &program.root.body {
            BodyPlan::Select(select) if program.pipeline.is_some() => {
                match &*select.pipeline.as_deref()?.levels {
                    [level] => Some(&level.access),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a statement of the plan does what another one would: not what shows plans, and
    /// pragmas, whose meanings are looked up as they are prepared.
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

    /// Whether no literal could have made the plan another one: a row by its rowid, or rows by an
    /// index where no index is partial, whose condition a literal could meet.
    fn is_of_any_literal(&self) -> bool {
        let has_partial = |object: &Object| match object {
            Object::Table(table) => table.indexes.iter().any(|index| index.filter.is_some()),
            _ => false,
        };
        let is_by_rowid = matches!(self.access(), Some(Access::Rowid { .. }));
        self.is_small() && (is_by_rowid || !self.schema.objects().iter().any(has_partial))
    }
}

/// What is kept under a text.
#[derive(Debug)]
struct Kept<T> {
    value: T,
    /// When it was asked for last.
    used: u64,
}

/// A plan, or the schema for which there is none that serves every literal.
#[derive(Debug)]
enum OfShape {
    Plan(Arc<Plan>),
    None(Arc<Schema>),
}

/// A plan that was found, and the literals of the text where it is a shape's.
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
    /// The shape of the text that was asked for last, if it has one.
    shape: Shape,
    has_shape: bool,
}

impl Plans {
    /// The plan kept for a text or its shape. It may be for another schema than that of now.
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

    /// Keeps the plan of a text that [`Plans::find`] did not find.
    pub(super) fn keep(&mut self, plan: &Arc<Plan>) {
        make_room(&mut self.by_text);
        let kept = Kept { value: Arc::clone(plan), used: self.asked };
        self.by_text.insert(plan.sql.clone(), kept);
    }

    /// The same where the text was prepared before, as the last that was: few texts that come once
    /// come again.
    pub(super) fn keep_if_seen(&mut self, plan: &Arc<Plan>) {
        if plan.may_be_kept() && self.was_seen(&plan.sql, 0) {
            self.keep(plan);
        }
    }

    /// The shape of the text that was asked for last, if a plan should be made of it now: texts of
    /// that shape come again, and none was made for this schema.
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

    /// Keeps the plan of a shape, if it serves every literal, or that there is none.
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

    /// Whether a text was noted before; notes it.
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

/// Forgets what was longest not asked for, where there are as many as may be kept.
fn make_room<T>(kept: &mut FxHashMap<Box<str>, Kept<T>>) {
    if kept.len() < PLANS_MAX {
        return;
    }
    let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(text, _)| text.clone());
    if let Some(oldest) = oldest {
        kept.remove(&oldest);
    }
}
