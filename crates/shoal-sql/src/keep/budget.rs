//! Memory kept by a statement, counted against the statement's limit.

use std::sync::Arc;

use crate::Error;
use crate::session::{Budget, Session};
use crate::value::ValueRef;

/// The bytes kept by one structure; they count for as long as this value lives beside the
/// structure.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: u64,
    /// `None` until something was counted, and where there is no limit.
    budget: Option<Arc<Budget>>,
    /// Nothing is counted: known from the first call on, so that the others cost no call.
    is_free: bool,
}

impl Kept {
    /// Counts more bytes. Cost: a call where there is no limit.
    ///
    /// # Errors
    /// [`Error::Limit`] when the statement goes over its limit.
    #[inline]
    pub(crate) fn add(&mut self, session: &dyn Session, bytes: usize) -> Result<(), Error> {
        match session.meter() {
            None => Ok(()),
            Some(budget) => self.take(budget, bytes as u64),
        }
    }

    fn take(&mut self, budget: &Arc<Budget>, bytes: u64) -> Result<(), Error> {
        self.budget.get_or_insert_with(|| Arc::clone(budget));
        self.bytes += bytes;
        if budget.take(bytes) {
            return Ok(());
        }
        Err(Error::Limit { what: "bytes kept by a statement", max: budget.max() })
    }

    /// Counts more bytes; false where a limit leaves no room for the bytes and a reserve to grow
    /// by. The bytes are counted all the same, and their structure keeps nothing more. `size` gives
    /// bytes and reserve. Cost: a call where nothing is counted.
    #[inline]
    pub(crate) fn try_add(
        &mut self,
        session: &dyn Session,
        size: impl FnOnce() -> (usize, usize),
    ) -> bool {
        if self.is_free {
            return true;
        }
        let Some(meter) = session.meter() else {
            self.is_free = true;
            return true;
        };
        let (bytes, reserve) = size();
        let has_room = meter.has_room(bytes.saturating_add(reserve));
        let reserve = if session.budget().is_some() { reserve } else { 0 };
        // An error means the limit is passed: other structures see the count.
        let _ = self.take(meter, bytes.saturating_add(reserve) as u64);
        has_room
    }

    /// Counts more bytes of a structure able to spill, as soon as [`is_full`] says so. Never fails:
    /// such a structure may always keep a little.
    pub(crate) fn note(&mut self, session: &dyn Session, bytes: usize) {
        if let Some(budget) = session.meter() {
            // An error means the limit is passed: other structures see the count.
            let _ = self.take(budget, bytes as u64);
        }
    }

    /// Counts `bytes` bytes less.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let bytes = (bytes as u64).min(self.bytes);
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
            self.bytes -= bytes;
        }
    }

    /// Counts nothing any more.
    pub(crate) fn clear(&mut self) {
        if let Some(budget) = self.budget.take() {
            budget.give_back(self.bytes);
        }
        self.bytes = 0;
        self.is_free = false;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A structure able to spill may always keep this many bytes.
pub(crate) const SPILL_BYTES_MIN: u64 = 64 << 10;

/// True where a structure of `bytes` bytes should spill rather than keep `more` bytes.
#[inline]
pub(crate) fn is_full(session: &dyn Session, bytes: usize, more: usize) -> bool {
    let full = |budget: &Arc<Budget>| bytes as u64 >= SPILL_BYTES_MIN && !budget.has_room(more);
    session.budget().is_some_and(full)
}

/// Estimate of the bytes of a kept row.
pub(crate) fn row_size<'v>(row: impl Iterator<Item = ValueRef<'v>>) -> usize {
    row.map(value_size).sum()
}

/// Estimate of the bytes of a kept value.
pub(crate) fn value_size(value: ValueRef<'_>) -> usize {
    const SLOT: usize = 24;
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => SLOT + bytes.len(),
        _ => SLOT,
    }
}
