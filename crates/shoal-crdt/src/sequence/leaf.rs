//! A leaf of the tree below a sequence: runs, and their contents side by side.

use std::ops::Range;

use shoal_history::{OpId, Scalar};

use super::index::{LeafIdx, NONE};
use super::run::{ElemView, Kind, Run, RunView, Shows, Sides, Unit};
use super::scalars::{Scalars, ScalarsView};
use crate::register::RegOp;

/// The capacity of a leaf; little under debug assertions, for tests to see deep trees.
const MAX_RUNS: usize = if cfg!(debug_assertions) { 6 } else { 32 };
const MAX_TEXT: usize = if cfg!(debug_assertions) { 32 } else { 1024 };
const MAX_SCALARS: usize = if cfg!(debug_assertions) { 8 } else { 128 };

/// The longest text put into a leaf at once.
pub(super) const PIECE: usize = MAX_TEXT / 2;

/// The weights of a run, a byte and a scalar for dividing a leaf in the middle.
const WEIGHTS: (usize, usize, usize) = (MAX_TEXT / MAX_RUNS, 1, MAX_TEXT / MAX_SCALARS);

/// Runs in document order.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(super) parent: u32,
    pub(super) previous: LeafIdx,
    pub(super) next: LeafIdx,
    pub(super) runs: Vec<Run>,
    /// The characters of all runs of text, deleted ones included.
    text: String,
    scalars: Scalars,
}

/// A run on its way into a leaf.
#[derive(Clone, Debug)]
pub(super) struct NewRun<'a> {
    pub(super) run: Run,
    /// For [`Kind::Chars`].
    pub(super) text: &'a str,
    /// For [`Kind::Scalars`], one at a time.
    pub(super) scalar: Option<Scalar>,
}

impl Leaf {
    pub(super) fn new(previous: LeafIdx, next: LeafIdx) -> Self {
        Self {
            parent: NONE,
            previous,
            next,
            runs: Vec::new(),
            text: String::new(),
            scalars: Scalars::default(),
        }
    }

    /// Gives unneeded room back, as after loading.
    pub(super) fn shrink(&mut self) {
        self.runs.shrink_to_fit();
        self.text.shrink_to_fit();
        self.scalars.shrink_to_fit();
    }

    /// The runs with their contents.
    pub(super) fn views(&self) -> impl Iterator<Item = RunView<'_>> {
        let (mut text, mut scalars) = (0, 0);
        self.runs.iter().map(move |run| {
            let view = self.view_from(run, text, scalars);
            text += view.text.len();
            scalars += view.scalars.len();
            view
        })
    }

    /// The run at `at` with its contents.
    pub(super) fn view(&self, at: usize) -> Option<RunView<'_>> {
        let run = self.runs.get(at)?;
        let (text, scalars) = self.starts(at);
        Some(self.view_from(run, text, scalars))
    }

    pub(super) fn view_from<'a>(
        &'a self,
        run: &'a Run,
        text: usize,
        scalars: usize,
    ) -> RunView<'a> {
        let (bytes, count) = held(run);
        let text = if bytes > 0 { &self.text[text..text + bytes] } else { "" };
        RunView { run, text, scalars: ScalarsView::new(&self.scalars, scalars, count) }
    }

    /// The begins, in the text and in the scalars, of the contents of the run at `at`.
    pub(super) fn starts(&self, at: usize) -> (usize, usize) {
        self.runs[..at].iter().map(held).fold((0, 0), |sum, add| (sum.0 + add.0, sum.1 + add.1))
    }

    /// The next element of `run`; moves the begins of the contents on.
    #[inline]
    pub(super) fn element<'a>(
        &'a self,
        run: &'a Run,
        at: u32,
        text: &mut usize,
        scalars: &mut usize,
    ) -> ElemView<'a> {
        let mut elem = ElemView { run, at, text: "", scalar: None };
        match run.kind {
            Kind::Chars => {
                let rest = &self.text[*text..];
                let len = rest.chars().next().map_or(0, char::len_utf8);
                elem.text = &rest[..len];
                *text += len;
            }
            Kind::Scalars => {
                elem.scalar = self.scalars.get(*scalars);
                *scalars += 1;
            }
            Kind::Object | Kind::Mark | Kind::Register => {}
        }
        elem
    }

    /// The run at `at`, a run of one, as an element.
    pub(super) fn single(&self, at: usize) -> ElemView<'_> {
        let (mut text, mut scalars) = self.starts(at);
        self.element(&self.runs[at], 0, &mut text, &mut scalars)
    }

    /// The run of the element `id`, and the place in the run.
    pub(super) fn position(&self, id: OpId) -> Option<(usize, u32)> {
        self.runs
            .iter()
            .enumerate()
            .find_map(|(at, run)| run.position(id).map(|position| (at, position)))
    }

    /// True if ids numbered by [`super::index::key`] within `range` are here.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.runs.iter().any(|run| {
            let first = super::index::key(run.id);
            first < range.end && first + u64::from(run.len) > range.start
        })
    }

    /// True if a piece of `text` bytes, or else a scalar, and up to two more runs fit.
    pub(super) fn has_room(&self, text: usize) -> bool {
        self.runs.len() + 2 <= MAX_RUNS
            && self.text.len() + text <= MAX_TEXT
            && (text > 0 || self.scalars.len() < MAX_SCALARS)
    }

    /// True if one more run with its contents fits.
    pub(super) fn has_room_for(&self, new: &NewRun<'_>) -> bool {
        self.runs.len() < MAX_RUNS
            && self.text.len() + new.text.len() <= MAX_TEXT
            && self.scalars.len() < MAX_SCALARS
    }

    /// Makes a run begin at element `at` of the run `run`; returns the new run.
    pub(super) fn cut(&mut self, run: usize, at: u32, unit: Unit) -> usize {
        let Some(view) = self.view(run) else { return run };
        if at == 0 {
            return run;
        }
        if at >= view.run.len {
            return run + 1;
        }
        let bytes = if view.run.kind == Kind::Chars { view.byte_at(at) } else { 0 };
        let width = view.width_before(at, unit);
        let rest = self.runs[run].divide(at, bytes as u32, width);
        self.runs.insert(run + 1, rest);
        run + 1
    }

    /// Makes one run of the runs before and behind the boundary `at`, if possible.
    pub(super) fn join(&mut self, at: usize) -> bool {
        let Some((before, behind)) = self.runs.split_at_mut_checked(at) else { return false };
        let joined = match (before.last_mut(), behind.first()) {
            (Some(before), Some(behind)) => before.join(behind),
            _ => false,
        };
        if joined {
            self.runs.remove(at);
        }
        joined
    }

    /// Puts a run in at element `at` of the run `run`; returns where its first element went.
    pub(super) fn insert(
        &mut self,
        run: usize,
        at: u32,
        new: NewRun<'_>,
        unit: Unit,
    ) -> (usize, u32) {
        let run = self.cut(run, at, unit);
        let (text, scalars) = self.starts(run);
        if !new.text.is_empty() {
            self.text.insert_str(text, new.text);
        }
        if let Some(scalar) = new.scalar {
            self.scalars.insert(scalars, scalar);
        }
        if let Some(before) = run.checked_sub(1).and_then(|before| self.runs.get_mut(before)) {
            let len = before.len;
            if before.join(&new.run) {
                return (run - 1, len);
            }
        }
        self.runs.insert(run, new.run);
        (run, 0)
    }

    /// Appends `text`, of `len` elements and this width, to the run ending at `byte`, if the op
    /// `id` continues the run and there is room. Returns the element before.
    #[inline]
    pub(super) fn type_on(
        &mut self,
        run: usize,
        byte: usize,
        id: OpId,
        text: &str,
        (len, width): (u32, u32),
    ) -> Option<OpId> {
        let has_room = self.text.len() + text.len() <= MAX_TEXT;
        let run = self.runs.get_mut(run)?;
        let follows = run.kind == Kind::Chars
            && run.shows == Shows::Values
            && run.id_at(run.len) == id
            && has_room;
        if !follows {
            return None;
        }
        self.text.insert_str(byte, text);
        let reference = run.id_at(run.len - 1);
        run.len += len;
        run.width += width;
        run.extent += text.len() as u32;
        Some(reference)
    }

    /// Appends a run.
    pub(super) fn push(&mut self, new: NewRun<'_>) {
        self.text.push_str(new.text);
        self.scalars.extend(new.scalar);
        if !self.runs.last_mut().is_some_and(|last| last.join(&new.run)) {
            self.runs.push(new.run);
        }
    }

    /// How many scalars may be appended as one more run.
    pub(super) fn scalar_room(&self) -> usize {
        if self.runs.len() < MAX_RUNS { MAX_SCALARS.saturating_sub(self.scalars.len()) } else { 0 }
    }

    /// Appends a run of as many scalars as `values` are.
    pub(super) fn push_scalars(&mut self, run: Run, values: impl Iterator<Item = Scalar>) {
        self.scalars.extend(values);
        if !self.runs.last_mut().is_some_and(|last| last.join(&run)) {
            self.runs.push(run);
        }
    }

    /// Takes one element out, with its text or scalar.
    pub(super) fn remove(&mut self, run: usize, at: u32, unit: Unit) -> (Run, Option<Scalar>) {
        let run = self.cut(run, at, unit);
        self.cut(run, 1, unit);
        let (text, scalars) = self.starts(run);
        let removed = self.runs.remove(run);
        let (bytes, count) = held(&removed);
        if bytes > 0 {
            self.text.drain(text..text + bytes);
        }
        let scalar = (count > 0).then(|| self.scalars.remove(scalars));
        self.join(run);
        (removed, scalar)
    }

    /// Takes the last element, without a register, back as an op.
    pub(super) fn pop_op(&mut self, unit: Unit, sides: &mut Sides) -> Option<RegOp> {
        let last = self.runs.len().checked_sub(1)?;
        let at = self.cut(last, self.runs[last].len - 1, unit);
        let op = sides.take_op(self.single(at));
        let (text, scalars) = self.starts(at);
        self.text.truncate(text);
        self.scalars.truncate(scalars);
        self.runs.truncate(at);
        Some(op)
    }

    /// Replaces a run of one by `new`, a run without contents in the leaf.
    pub(super) fn replace(&mut self, run: usize, new: Run) {
        let (text, scalars) = self.starts(run);
        let (bytes, count) = held(&self.runs[run]);
        self.text.drain(text..text + bytes);
        self.scalars.drain(scalars..scalars + count);
        self.runs[run] = new;
    }

    /// The place for dividing the leaf in the middle: a run and an element of it.
    pub(super) fn middle(&self) -> (usize, u32) {
        let weight = |run: &Run| {
            let (bytes, count) = held(run);
            WEIGHTS.0 + bytes * WEIGHTS.1 + count * WEIGHTS.2
        };
        let half = self.runs.iter().map(weight).sum::<usize>() / 2;
        let mut before = 0;
        for (at, run) in self.runs.iter().enumerate() {
            let weight = weight(run);
            if before + weight > half {
                // A run of most of the leaf is divided; else the cut goes to the lighter side.
                if run.len > 1 && weight > half {
                    return (at, run.len / 2);
                }
                let at = if at > 0 && half - before < weight / 2 { at } else { at + 1 };
                return (at.clamp(1, self.runs.len().max(2) - 1), 0);
            }
            before += weight;
        }
        (self.runs.len(), 0)
    }

    /// Moves everything from the run `run` on to a new leaf behind this one.
    pub(super) fn split(&mut self, run: usize, here: LeafIdx) -> Self {
        let (text, scalars) = self.starts(run);
        let mut right = Self::new(here, self.next);
        right.text.reserve(MAX_TEXT.min(4 * (self.text.len() - text)));
        right.text.push_str(&self.text[text..]);
        self.text.truncate(text);
        right.scalars = self.scalars.split_off(scalars);
        right.runs.reserve(MAX_RUNS);
        right.runs.extend(self.runs.drain(run..));
        right
    }
}

/// How many bytes of text and how many scalars a run holds in its leaf.
#[inline]
fn held(run: &Run) -> (usize, usize) {
    match run.kind {
        Kind::Chars => (run.extent as usize, 0),
        Kind::Scalars => (0, run.len as usize),
        Kind::Object | Kind::Mark | Kind::Register => (0, 0),
    }
}
