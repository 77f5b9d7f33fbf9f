//! The last fault that pages of a program's files had, for its exit code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use shoal_store::{Fault, Refused};

const FAULTS: [Fault; 6] =
    [Fault::NoKey, Fault::WrongKey, Fault::Header, Fault::Damaged, Fault::Moved, Fault::Old];

/// Clones note in the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultNote(Arc<AtomicU8>);

impl FaultNote {
    pub(crate) fn note(&self, fault: Fault) {
        let number = FAULTS.iter().zip(1..).find(|(known, _)| **known == fault);
        self.0.store(number.map_or(0, |(_, number)| number), Ordering::Relaxed);
    }

    /// The refusal, noted.
    pub(crate) fn noted(&self, refused: Refused) -> Refused {
        self.note(refused.fault);
        refused
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Fault> {
        FAULTS.get(usize::from(self.0.load(Ordering::Relaxed)).checked_sub(1)?).copied()
    }
}
