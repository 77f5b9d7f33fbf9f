//! The way from a root to a place in its tree.

use std::ops::{Deref, DerefMut};

use shoal_format::Pgno;

use crate::cursor::MAX_DEPTH;

/// One page on the way from a root to a place: `index` counts cells on the last page, children on
/// the pages before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) pgno: Pgno,
    pub(super) index: usize,
}

/// The pages from a root to a place. A step is allocated nowhere: no tree is deeper than
/// [`MAX_DEPTH`], and a root moving its content down adds one page.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    steps: [Step; MAX_DEPTH + 1],
    len: usize,
}

impl Trail {
    #[inline]
    pub(super) fn new() -> Trail {
        Trail { steps: [Step { pgno: Pgno::FIRST, index: 0 }; MAX_DEPTH + 1], len: 0 }
    }

    /// Appends a step.
    ///
    /// # Panics
    /// Behind [`MAX_DEPTH`] + 1 steps: whoever descends refuses deeper trees.
    #[inline]
    pub(super) fn push(&mut self, step: Step) {
        self.steps[self.len] = step;
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Step> {
        self.len = self.len.checked_sub(1)?;
        Some(self.steps[self.len])
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Trail {
    type Target = [Step];

    #[inline]
    fn deref(&self) -> &[Step] {
        &self.steps[..self.len]
    }
}

impl DerefMut for Trail {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Step] {
        &mut self.steps[..self.len]
    }
}
