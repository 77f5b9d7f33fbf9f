//! Contenders as traits: one small trait per engine family, every operation optional.
//!
//! Workloads are generic over these traits, so an adapter's calls are inlined into the timed region
//! and no contender pays for dynamic dispatch. An adapter without an operation keeps the trait's
//! default, and the row says `not run`.

pub mod db;
pub mod document;
pub mod hash;
pub mod table;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use db::DbEngine;
pub use document::DocEngine;
pub use hash::HashEngine;
pub use table::TableEngine;

/// Who is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Short and unique within the family: the column of the table.
    pub name: String,
    /// The version built.
    pub version: String,
    /// Facts a reader needs to judge the figures: form, flags, guarantee.
    pub note: String,
    /// True for Shoal's own engines: ratios are taken against them.
    pub ours: bool,
    /// True for a heap of Rust's: the counting allocator then sees the engine's allocations.
    pub rust_heap: bool,
    /// True for an engine in a process of its own, with a heap nobody here sees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_process: bool,
    /// The promise to readers: ratios are taken between equal promises.
    pub guarantee: Guarantee,
}

/// An engine's promise to readers while others may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// The question does not arise.
    #[default]
    None,
    /// Every read sees the commits made before by other processes.
    Fresh,
    /// Reads see one state until the reader moves on, or no one else can write.
    Snapshot,
}

impl About {
    /// A peer whose heap is Rust's.
    pub fn peer(name: &str, version: &str, note: &str) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            note: note.into(),
            ours: false,
            rust_heap: true,
            other_process: false,
            guarantee: Guarantee::None,
        }
    }

    /// One of Shoal's own engines, in the version of this build.
    pub fn ours(name: &str, note: &str) -> Self {
        Self { ours: true, ..Self::peer(name, env!("CARGO_PKG_VERSION"), note) }
    }

    /// The same, with a promise to readers.
    #[must_use]
    pub fn promising(mut self, guarantee: Guarantee) -> Self {
        self.guarantee = guarantee;
        self
    }

    /// The same, but allocating in C: counted only where `malloc` counts.
    #[must_use]
    pub fn c_heap(mut self) -> Self {
        self.rust_heap = false;
        self
    }

    /// The same, but working in another process, whose allocations are counted nowhere.
    #[must_use]
    pub fn in_other_process(mut self) -> Self {
        self.rust_heap = false;
        self.other_process = true;
        self
    }
}

/// Why a row has no figure for a contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "why", rename_all = "snake_case")]
pub enum Miss {
    /// Could not be run, without any fault: the operation is not offered, or a corpus or an
    /// instruction set is not there.
    NotRun(String),
    /// Ran and went wrong: an error, a crash, a different answer.
    Failed(String),
}

impl Miss {
    /// How the reason ends when an engine has not the operation.
    pub(crate) const ABSENT: &str = ": not offered";

    /// The operation is not offered by the engine.
    pub fn absent(operation: &str) -> Self {
        Self::NotRun(format!("{operation}{}", Self::ABSENT))
    }

    /// One of Shoal's own, still to come.
    pub fn not_built() -> Self {
        Self::NotRun("not built".into())
    }

    /// An engine's own error.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(why) => write!(out, "not run: {why}"),
            Self::Failed(why) => write!(out, "failed: {why}"),
        }
    }
}

impl std::error::Error for Miss {}
