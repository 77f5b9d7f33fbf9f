//! Rows kept for a moment: of a result read to find the types of its columns. The fetch of the
//! result needs no second run. Nothing but time depends on kept rows: dropped rows are read again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::readers::Caller;

/// Bytes of all rows kept.
const BYTES: usize = 64 << 20;
/// Results kept.
const RESULTS: usize = 256;
/// The longest time of kept rows.
const TIME: Duration = Duration::from_secs(30);

/// The rows of a few results.
#[derive(Default)]
pub(crate) struct KeptRows(Mutex<VecDeque<Kept>>);

/// All rows of a result.
pub(crate) struct KeptResult {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

struct Kept {
    name: Vec<u8>,
    caller: Caller,
    /// The number of the rules in force when the rows were read.
    generation: u64,
    rows: KeptResult,
    bytes: usize,
    since: Instant,
}

impl KeptRows {
    /// Keeps rows under an unguessable name. The oldest make room.
    pub(crate) fn put(&self, name: Vec<u8>, caller: &Caller, generation: u64, rows: KeptResult) {
        let bytes = rows.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let mut kept = self.lock();
        kept.retain(|kept| kept.since.elapsed() < TIME);
        let (caller, since) = (caller.clone(), Instant::now());
        kept.push_back(Kept { name, caller, generation, rows, bytes, since });
        let mut all: usize = kept.iter().map(|kept| kept.bytes).sum();
        while all > BYTES || kept.len() > RESULTS {
            let Some(oldest) = kept.pop_front() else { break };
            all -= oldest.bytes;
        }
    }

    /// Takes the rows kept under a name for the same caller and by the same rules.
    pub(crate) fn take(&self, name: &[u8], caller: &Caller, generation: u64) -> Option<KeptResult> {
        let mut kept = self.lock();
        kept.retain(|kept| kept.since.elapsed() < TIME);
        let place = kept.iter().position(|kept| {
            kept.name == name && kept.caller == *caller && kept.generation == generation
        })?;
        kept.remove(place).map(|kept| kept.rows)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
