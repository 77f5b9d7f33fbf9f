//! The entries of an index in parts, to be read side by side.

use shoal_format::{Payload, Pgno};

use crate::{Error, IndexCursor, Transaction};

/// Entries of an index one after another: those below one child of the root, and before them the
/// entry of the root itself.
#[derive(Debug)]
pub struct IndexPart<'t> {
    cursor: IndexCursor<'t>,
    root: Pgno,
    /// The child of the root.
    child: usize,
    state: State,
    /// The root has no children.
    is_leaf: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Within,
    Done,
}

impl Transaction {
    /// The parts of the index at `root`, in the order of their entries; one for a small index.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn index_parts(&self, root: Pgno) -> Result<Vec<IndexPart<'_>>, Error> {
        let page = self.btree_page(root)?;
        let is_leaf = page.kind().is_leaf();
        let children = if is_leaf { 0..1 } else { 0..page.cell_count() + 1 };
        let part = |child| {
            Ok(IndexPart { cursor: self.index(root)?, root, child, state: State::Fresh, is_leaf })
        };
        children.map(part).collect()
    }
}

impl<'t> IndexPart<'t> {
    /// The payload of the next entry, as stored on its page, in the file's encoding; `None` after
    /// the part's last.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[allow(clippy::should_implement_trait)] // it can fail
    #[inline]
    pub fn next(&mut self) -> Result<Option<Payload<'t>>, Error> {
        let more = match self.state {
            State::Within => self.cursor.next()? && self.is_within(),
            State::Done => false,
            State::Fresh if self.child == 0 => self.cursor.first()? && self.is_within(),
            State::Fresh => self.cursor.stand_on_root(self.child - 1)?,
        };
        self.state = if more { State::Within } else { State::Done };
        if more { Ok(Some(self.cursor.cell_payload()?)) } else { Ok(None) }
    }

    /// True unless the cursor came back to the root.
    #[inline]
    fn is_within(&self) -> bool {
        self.is_leaf || self.cursor.page().pgno() != self.root
    }
}
