//! A contender at work on one row, in a process of its own.
//!
//! Every contender gets a fresh process for every row: no other contender's heap, caches or crash
//! disturbs the row, and its memory can be read off the process. The coordinator writes one word a
//! line (`verify`, `sample`), the worker answers with one line of JSON.

pub(crate) mod client;
pub(crate) mod serve;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::engine::{About, Miss};
use crate::workload::Family;

/// The beginning of every answer's line; other lines were printed by some library.
const MARK: &str = "@lab ";

/// A worker's line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Prepared.
    Ready,
    /// One sample.
    Sample(Reply),
    /// The row cannot be run, or went wrong.
    Miss(Miss),
    /// Who this program has.
    Contenders(Vec<(Family, About, Option<Miss>)>),
}

/// One sample as seen by the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) nanos: u64,
    pub(crate) ops: u64,
    /// Absent when the program has no counting allocator.
    pub(crate) allocations: Option<u64>,
    /// Bytes of these allocations. Absent from builds older than the count.
    #[serde(default)]
    pub(crate) allocated_bytes: Option<u64>,
    pub(crate) figures: Vec<(String, f64)>,
    pub(crate) answer: Option<Answer>,
    /// Growth of the process over the sample in KiB: at its peak, and after the sample.
    pub(crate) peak_kib: Option<u64>,
    pub(crate) steady_kib: Option<u64>,
}

/// An order to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A sample with its full answer.
    Verify,
    /// A sample.
    Sample,
}

impl Ask {
    const fn word(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Sample => "sample",
        }
    }
}
