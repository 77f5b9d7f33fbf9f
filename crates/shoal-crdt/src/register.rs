//! A register: the ops of one map key, or of one overwritten sequence element.
//!
//! Knows the visible ops and the sums of counters. Ops are kept in the order of arrival, so adding
//! and undoing one is cheap however long the history; saving sorts them.

use std::cmp::Ordering;
use std::slice;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_history::{Action, Op, OpId, Scalar, ScalarRef};

use crate::actors::Actors;

/// The place of an object in [`crate::opset::OpSet`]; [`ObjIdx::NONE`] for ops making none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjIdx(pub(crate) u32);

impl ObjIdx {
    pub(crate) const ROOT: Self = Self(0);
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// The ids of the superseding ops. Not sorted.
#[derive(Clone, Debug, Default)]
pub(crate) enum Succ {
    #[default]
    None,
    One(OpId),
    Many(Vec<OpId>),
}

impl Succ {
    pub(crate) fn as_slice(&self) -> &[OpId] {
        match self {
            Self::None => &[],
            Self::One(id) => slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }

    pub(crate) fn from_slice(ids: &[OpId]) -> Self {
        match ids {
            [] => Self::None,
            [id] => Self::One(*id),
            ids => Self::Many(ids.to_vec()),
        }
    }

    pub(crate) fn push(&mut self, id: OpId) {
        match self {
            Self::None => *self = Self::One(id),
            Self::One(first) => *self = Self::Many(vec![*first, id]),
            Self::Many(ids) => ids.push(id),
        }
    }

    /// Takes `id` out again; looks from the end, the likely place for undoing.
    fn remove(&mut self, id: OpId) {
        match self {
            Self::None => {}
            Self::One(only) => {
                if *only == id {
                    *self = Self::None;
                }
            }
            Self::Many(ids) => {
                if let Some(at) = ids.iter().rposition(|other| *other == id) {
                    ids.remove(at);
                }
            }
        }
    }
}

/// The ids of the superseding ops, borrowed. Not sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SuccRef<'a> {
    None,
    One(OpId),
    Many(&'a [OpId]),
}

impl<'a> SuccRef<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = OpId> + 'a {
        let (one, many) = match self {
            Self::None => (None, &[][..]),
            Self::One(id) => (Some(id), &[][..]),
            Self::Many(ids) => (None, ids),
        };
        one.into_iter().chain(many.iter().copied())
    }

    pub(crate) fn to_succ(self) -> Succ {
        match self {
            Self::None => Succ::None,
            Self::One(id) => Succ::One(id),
            Self::Many(ids) => Succ::from_slice(ids),
        }
    }
}

/// An op in a register: everything but the place.
#[derive(Clone, Debug)]
pub(crate) struct RegOp {
    pub(crate) id: OpId,
    pub(crate) action: Action,
    pub(crate) expand: bool,
    pub(crate) object: ObjIdx,
    pub(crate) value: Scalar,
    pub(crate) mark_name: Option<Arc<str>>,
    pub(crate) succ: Succ,
}

/// A borrowed view of a stored op, wherever stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpRef<'a> {
    pub(crate) id: OpId,
    pub(crate) action: Action,
    pub(crate) expand: bool,
    pub(crate) object: ObjIdx,
    /// As stored; for a visible counter read through a register, its total.
    pub(crate) value: ScalarRef<'a>,
    pub(crate) mark_name: Option<&'a str>,
    /// Not sorted.
    pub(crate) succ: SuccRef<'a>,
}

impl RegOp {
    /// The op for a register, not yet superseded. `object` is the one made by the op.
    pub(crate) fn of(op: &Op<'_>, object: ObjIdx) -> RegOp {
        RegOp {
            id: op.id,
            action: op.action,
            expand: op.expand,
            object,
            value: op.value.to_scalar(),
            mark_name: op.mark_name.map(Arc::from),
            succ: Succ::None,
        }
    }

    pub(crate) fn as_ref(&self) -> OpRef<'_> {
        OpRef {
            id: self.id,
            action: self.action,
            expand: self.expand,
            object: self.object,
            value: self.value.as_ref(),
            mark_name: self.mark_name.as_deref(),
            succ: match &self.succ {
                Succ::None => SuccRef::None,
                Succ::One(id) => SuccRef::One(*id),
                Succ::Many(ids) => SuccRef::Many(ids),
            },
        }
    }

    fn is_counter(&self) -> bool {
        self.action == Action::Set && matches!(self.value, Scalar::Counter(_))
    }

    /// The number added by this op to counters; `None` unless the op is an increment.
    fn increment(&self) -> Option<i64> {
        match (self.action, &self.value) {
            (Action::Increment, Scalar::Int(by)) => Some(*by),
            (Action::Increment, Scalar::Uint(by)) => Some(by.cast_signed()),
            (Action::Increment, _) => Some(0),
            _ => None,
        }
    }
}

/// A visible op: the place among the register's ops, and the sum of increments.
#[derive(Clone, Copy, Debug)]
struct Visible {
    at: u32,
    increments: i64,
}

/// The ops of one place in a document.
#[derive(Clone, Debug)]
pub(crate) struct Register(Repr);

#[derive(Clone, Debug)]
enum Repr {
    One(RegOp),
    Many(Box<Many>),
}

#[derive(Clone, Debug, Default)]
struct Many {
    /// In order of arrival.
    ops: Vec<RegOp>,
    /// Ascending by op id.
    visible: Vec<Visible>,
    /// Where each op is, once there are more than [`SCAN_MAX`].
    index: FxHashMap<OpId, u32>,
}

/// Up to this many ops an id is looked for by comparing; beyond, through an index.
const SCAN_MAX: usize = 16;

impl Register {
    /// A register whose first op is `op`, with nothing superseded.
    pub(crate) fn new(op: RegOp) -> Self {
        Self(Repr::One(op))
    }

    /// A register of ops with known successors, as listed by a document chunk. Takes them out of
    /// `ops`.
    pub(crate) fn from_rows(ops: &mut Vec<RegOp>, actors: &Actors) -> Self {
        if ops.len() == 1
            && let Some(op) = ops.pop()
        {
            return Self(Repr::One(op));
        }
        let mut many = Many { ops: std::mem::take(ops), ..Many::default() };
        if many.ops.len() > SCAN_MAX {
            many.reindex();
        }
        for at in 0..many.ops.len() {
            if let Some(increments) = many.visibility(at) {
                many.show(at, increments, actors);
            }
        }
        Self(Repr::Many(Box::new(many)))
    }

    /// True if undoing has left nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Many(many) if many.ops.is_empty())
    }

    /// The visible ops, ascending by id, the winner last.
    pub(crate) fn visible(&self) -> impl DoubleEndedIterator<Item = OpRef<'_>> + Clone {
        let (one, many) = match &self.0 {
            Repr::One(op) => (op_alone_is_visible(op).then(|| op.as_ref()), None),
            Repr::Many(many) => (None, Some(many)),
        };
        let many = many.into_iter().flat_map(|many| {
            many.visible.iter().map(|visible| {
                let op = &many.ops[visible.at as usize];
                let mut op = op.as_ref();
                if let ScalarRef::Counter(start) = op.value {
                    op.value = ScalarRef::Counter(start.wrapping_add(visible.increments));
                }
                op
            })
        });
        one.into_iter().chain(many)
    }

    /// True for a visible op.
    pub(crate) fn is_visible(&self) -> bool {
        match &self.0 {
            Repr::One(op) => op_alone_is_visible(op),
            Repr::Many(many) => !many.visible.is_empty(),
        }
    }

    /// The winner, if any op is visible.
    pub(crate) fn winner(&self) -> Option<OpRef<'_>> {
        self.visible().next_back()
    }

    /// The op `id`.
    pub(crate) fn get(&self, id: OpId) -> Option<OpRef<'_>> {
        match &self.0 {
            Repr::One(op) => (op.id == id).then(|| op.as_ref()),
            Repr::Many(many) => many.position(id).map(|at| many.ops[at].as_ref()),
        }
    }

    /// The only op of a register; `None` once a second op came.
    #[inline]
    pub(crate) fn alone(&self) -> Option<&RegOp> {
        match &self.0 {
            Repr::One(op) => Some(op),
            Repr::Many(_) => None,
        }
    }

    /// Every op, ascending by id, as rows of a document list them.
    pub(crate) fn rows<'a>(&'a self, actors: &Actors, rows: &mut Vec<OpRef<'a>>) {
        self.rows_where(|_| true, actors, rows);
    }

    /// The ops with an id accepted by `is_wanted`, ascending by id. O(n) for n ops, and little but
    /// for those.
    pub(crate) fn rows_of<'a>(
        &'a self,
        is_wanted: impl Fn(OpId) -> bool,
        actors: &Actors,
        rows: &mut Vec<OpRef<'a>>,
    ) {
        self.rows_where(|op| is_wanted(op.id), actors, rows);
    }

    /// The ops open to different views, ascending by id: counters, increments, and ops without a
    /// successor accepted by `is_known`. O(n) for n ops, and little but for the returned ones.
    pub(crate) fn rows_unsettled<'a>(
        &'a self,
        is_known: impl Fn(OpId) -> bool,
        actors: &Actors,
        rows: &mut Vec<OpRef<'a>>,
    ) {
        let may_be_seen = |op: &RegOp| {
            op.is_counter()
                || op.increment().is_some()
                || !op.succ.as_slice().iter().any(|succ| is_known(*succ))
        };
        self.rows_where(may_be_seen, actors, rows);
    }

    fn rows_where<'a>(
        &'a self,
        is_wanted: impl Fn(&RegOp) -> bool,
        actors: &Actors,
        rows: &mut Vec<OpRef<'a>>,
    ) {
        match &self.0 {
            Repr::One(op) => rows.extend(is_wanted(op).then(|| op.as_ref())),
            Repr::Many(many) => {
                let start = rows.len();
                let wanted = many.ops.iter().filter(|op| is_wanted(op));
                rows.extend(wanted.map(RegOp::as_ref));
                rows[start..].sort_by(|a, b| actors.compare(a.id, b.id));
            }
        }
    }

    /// The first of `ids` without an op in this register.
    pub(crate) fn first_unknown(&self, ids: &[OpId]) -> Option<OpId> {
        ids.iter().copied().find(|id| match &self.0 {
            Repr::One(op) => op.id != *id,
            Repr::Many(many) => many.position(*id).is_none(),
        })
    }

    /// Adds `op`, superseding `preds`; all of them are here.
    pub(crate) fn push(&mut self, op: RegOp, preds: &[OpId], actors: &Actors) {
        let many = self.many();
        let (id, increment) = (op.id, op.increment());
        many.supersede(id, increment, preds);
        let at = many.ops.len();
        many.ops.push(op);
        if !many.index.is_empty() {
            many.index.insert(id, index(at));
        } else if many.ops.len() > SCAN_MAX {
            many.reindex();
        }
        if let Some(increments) = many.visibility(at) {
            many.show(at, increments, actors);
        }
    }

    /// Records the delete op `id`, superseding `preds`; all of them are here.
    pub(crate) fn delete(&mut self, id: OpId, preds: &[OpId]) {
        match &mut self.0 {
            Repr::One(op) => {
                for _ in preds {
                    op.succ.push(id);
                }
            }
            Repr::Many(many) => many.supersede(id, None, preds),
        }
    }

    /// Takes back the op `id`, the last added one, superseding `preds`. A delete op is not in the
    /// register, so then only the preds are restored.
    pub(crate) fn undo(&mut self, id: OpId, preds: &[OpId], actors: &Actors) {
        let many = self.many();
        let mut increment = None;
        if many.ops.last().is_some_and(|op| op.id == id) {
            let at = many.ops.len() - 1;
            many.hide(at);
            increment = many.ops.pop().and_then(|op| op.increment());
            many.index.remove(&id);
        }
        for pred in preds {
            let Some(at) = many.position(*pred) else { continue };
            many.ops[at].succ.remove(id);
            match increment {
                Some(by) if many.ops[at].is_counter() => {
                    if let Some(visible) = many.visible_entry(at) {
                        visible.increments = visible.increments.wrapping_sub(by);
                    }
                }
                _ => {
                    if let Some(increments) = many.visibility(at) {
                        many.show(at, increments, actors);
                    }
                }
            }
        }
    }

    fn many(&mut self) -> &mut Many {
        if let Repr::One(_) = &self.0 {
            let empty = Repr::Many(Box::default());
            if let (Repr::One(op), Repr::Many(many)) =
                (std::mem::replace(&mut self.0, empty), &mut self.0)
            {
                if op_alone_is_visible(&op) {
                    many.visible.push(Visible { at: 0, increments: 0 });
                }
                many.ops.push(op);
            }
        }
        match &mut self.0 {
            Repr::Many(many) => many,
            Repr::One(_) => unreachable!("replaced above"),
        }
    }
}

impl Many {
    fn position(&self, id: OpId) -> Option<usize> {
        if self.index.is_empty() {
            self.ops.iter().rposition(|op| op.id == id)
        } else {
            self.index.get(&id).map(|at| *at as usize)
        }
    }

    fn reindex(&mut self) {
        self.index = self.ops.iter().enumerate().map(|(at, op)| (op.id, index(at))).collect();
    }

    fn visible_entry(&mut self, at: usize) -> Option<&mut Visible> {
        self.visible.iter_mut().rev().find(|visible| visible.at as usize == at)
    }

    fn hide(&mut self, at: usize) {
        if let Some(found) = self.visible.iter().rposition(|visible| visible.at as usize == at) {
            self.visible.remove(found);
        }
    }

    fn show(&mut self, at: usize, increments: i64, actors: &Actors) {
        let id = self.ops[at].id;
        let place = self.visible.partition_point(|visible| {
            actors.compare(self.ops[visible.at as usize].id, id) == Ordering::Less
        });
        if self.visible.get(place).is_none_or(|visible| visible.at as usize != at) {
            self.visible.insert(place, Visible { at: index(at), increments });
        }
    }

    fn supersede(&mut self, id: OpId, increment: Option<i64>, preds: &[OpId]) {
        // Preds ascend, and so do the visible ops: from the back each is found at once.
        for pred in preds.iter().rev() {
            let Some(at) = self.position(*pred) else { continue };
            self.ops[at].succ.push(id);
            match increment {
                Some(by) if self.ops[at].is_counter() => {
                    if let Some(visible) = self.visible_entry(at) {
                        visible.increments = visible.increments.wrapping_add(by);
                    }
                }
                _ => self.hide(at),
            }
        }
    }

    /// `Some` sum of increments for a visible op: an op with a value, superseded by nothing but
    /// increments of a counter.
    fn visibility(&self, at: usize) -> Option<i64> {
        let op = &self.ops[at];
        if matches!(op.action, Action::Increment | Action::Delete) {
            return None;
        }
        if !op.is_counter() {
            return op.succ.as_slice().is_empty().then_some(0);
        }
        let mut total = 0_i64;
        for id in op.succ.as_slice() {
            let by = self.position(*id).and_then(|at| self.ops[at].increment())?;
            total = total.wrapping_add(by);
        }
        Some(total)
    }
}

fn op_alone_is_visible(op: &RegOp) -> bool {
    op.action != Action::Increment && op.succ.as_slice().is_empty()
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("op ids, and so the ops of a register, are limited to 32 bits")
}
