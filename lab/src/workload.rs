//! The rows: each written once, generic over the engine.

pub(crate) mod db;
pub(crate) mod document;
pub(crate) mod hash;
pub(crate) mod table;
mod traces;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::engine::{About, Miss};
use crate::watch::Watch;

/// One engine family; its name opens the ids of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Automerge's kind: `doc/...`.
    Doc,
    /// SQLite's kind: `table/...`.
    Table,
    /// Argon2id: `argon/...`.
    Argon,
    /// Documents in files: `db/...`.
    Db,
    /// Sealed files beside plain ones: `seal/...`.
    Seal,
}

impl Family {
    /// All families, in the order of reports.
    pub const ALL: [Family; 5] = [Self::Doc, Self::Table, Self::Seal, Self::Db, Self::Argon];

    /// The family's part of row ids.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doc => "doc",
            Self::Table => "table",
            Self::Argon => "argon",
            Self::Db => "db",
            Self::Seal => "seal",
        }
    }

    /// As a heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Doc => "Documents",
            Self::Table => "Tables",
            Self::Argon => "Argon2id",
            Self::Db => "Databases of documents",
            Self::Seal => "Sealed files",
        }
    }
}

/// The description of a row, known before anything runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// `family/name`, unique and stable.
    pub id: String,
    /// Whose engines compete.
    pub family: Family,
    /// The unit of one operation: times are given per operation.
    pub unit: String,
    /// Set-up, timed part, and facts needed to judge the row: guarantees, unlike work.
    pub text: String,
    /// The curve of the row and the row's place there, for the scaling plots.
    pub series: Option<(String, u64)>,
    /// The figure reported is `peak memory` instead of time: the process's own growth in bytes.
    /// Each sample then runs in a process of its own.
    pub memory: bool,
    /// Contenders take turns in having a process at all, because not all of them fit into memory at
    /// once. Each sample is then the second of a fresh process.
    pub solo: bool,
}

impl Row {
    /// A timed row of no series.
    pub(crate) fn new(family: Family, name: &str, unit: &str, text: &str) -> Self {
        Self {
            id: format!("{}/{name}", family.name()),
            family,
            unit: unit.into(),
            text: text.into(),
            series: None,
            memory: false,
            solo: false,
        }
    }

    /// Puts the row on a curve.
    pub(crate) fn in_series(mut self, series: &str, size: u64) -> Self {
        self.series = Some((format!("{}/{series}", self.family.name()), size));
        self
    }

    /// Lets one contender at a time have a process.
    pub(crate) fn taking_turns(mut self) -> Self {
        self.solo = true;
        self
    }

    /// Makes memory the reported figure.
    pub(crate) fn of_memory(mut self) -> Self {
        self.memory = true;
        self
    }
}

/// How large the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// The sizes named by the rows.
    Full,
    /// Sizes showing only whether a row works.
    Quick,
}

/// Where a workload runs.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// How large the rows are.
    pub scale: Scale,
    /// The corpora: the repository's `testdata/`.
    pub data: PathBuf,
    /// Files of this contender, living as long as the run.
    pub scratch: PathBuf,
    /// Large databases, made once and kept.
    pub cache: PathBuf,
    /// Where every random choice starts from.
    pub seed: u64,
}

impl Context {
    /// The size of the row: the first when full, the second when quick.
    pub(crate) fn pick(&self, full: usize, quick: usize) -> usize {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }

    /// The path of a corpus file.
    ///
    /// # Errors
    /// `failed` for a missing file: a corpus is part of the repository.
    pub(crate) fn corpus(&self, name: &str) -> Result<PathBuf, Miss> {
        let path = self.data.join(name);
        if path.exists() {
            return Ok(path);
        }
        Err(Miss::Failed(format!("corpus file is missing: {}", path.display())))
    }

    /// The folder where an engine of another format keeps its copy of the database `path`: beside a
    /// generated database, to be found again by the next run, in the run's own folder otherwise.
    ///
    /// # Errors
    /// `failed` when the folder cannot be made.
    pub(crate) fn copies(&self, path: &Path, about: &About) -> Result<PathBuf, Miss> {
        if !path.starts_with(&self.cache) {
            return Ok(self.scratch.clone());
        }
        let name = format!("{}-{}", about.name, about.version).replace([' ', '/'], "-");
        let folder = self.cache.join(name);
        std::fs::create_dir_all(&folder).map_err(Miss::failed)?;
        Ok(folder)
    }

    /// Bytes costly to make: made once for a contender and run, and read from a file afterwards. A
    /// process merely loading them has never held the objects they were made from.
    ///
    /// # Errors
    /// The errors of `make`, and `failed` when the file cannot be written.
    pub(crate) fn artifact(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Vec<u8>, Miss>,
    ) -> Result<Vec<u8>, Miss> {
        let path = self.scratch.join(name.replace('/', "-"));
        if let Ok(bytes) = std::fs::read(&path) {
            return Ok(bytes);
        }
        let bytes = make()?;
        std::fs::write(&path, &bytes).map_err(Miss::failed)?;
        Ok(bytes)
    }
}

/// Takes one sample: sets up, times, and answers. `None` stands for an answer not asked for in this
/// run ([`Watch::verifying`]).
pub(crate) type Sampler = Box<dyn FnMut(&mut Watch) -> Result<Option<Answer>, Miss>>;

/// Makes a sampler for an engine; the preparation is never timed.
pub(crate) type Prepare<E> = Box<dyn Fn(&Arc<E>, &Context) -> Result<Sampler, Miss> + Send + Sync>;

/// The rows of one family with their work.
pub(crate) struct Bench<E> {
    pub(crate) workloads: Vec<(Row, Prepare<E>)>,
}

impl<E> Bench<E> {
    pub(crate) const fn new() -> Self {
        Self { workloads: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn add(
        &mut self,
        row: Row,
        prepare: impl Fn(&Arc<E>, &Context) -> Result<Sampler, Miss> + Send + Sync + 'static,
    ) {
        self.workloads.push((row, Box::new(prepare)));
    }
}

/// Boxes a sampler; helps the compiler infer the closure's type.
pub(crate) fn sampler(
    work: impl FnMut(&mut Watch) -> Result<Option<Answer>, Miss> + 'static,
) -> Result<Sampler, Miss> {
    Ok(Box::new(work))
}

/// Threads of parallel rows: one per core granted.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Splits `items` as evenly as possible over `thread_count` threads (one of them the caller's),
/// runs `work` on each part at once, and returns the results in the order of the parts.
pub(crate) fn on_threads<T: Sync, R: Send>(
    items: &[T],
    thread_count: usize,
    work: impl Fn(&[T]) -> Result<R, Miss> + Sync,
) -> Result<Vec<R>, Miss> {
    if thread_count < 2 {
        return Ok(vec![work(items)?]);
    }
    at_once(items.chunks(items.len().div_ceil(thread_count).max(1)), work)
}

/// As [`on_threads`], with mutable items.
pub(crate) fn on_threads_mut<T: Send, R: Send>(
    items: &mut [T],
    thread_count: usize,
    work: impl Fn(&mut [T]) -> Result<R, Miss> + Sync,
) -> Result<Vec<R>, Miss> {
    if thread_count < 2 {
        return Ok(vec![work(items)?]);
    }
    at_once(items.chunks_mut(items.len().div_ceil(thread_count).max(1)), work)
}

/// Runs `work` on each part, on a thread of its own.
fn at_once<P: Send, R: Send>(
    parts: impl Iterator<Item = P>,
    work: impl Fn(P) -> Result<R, Miss> + Sync,
) -> Result<Vec<R>, Miss> {
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        workers.into_iter().map(joined).collect()
    })
}

/// A worker thread's result; a panic is a failure.
pub(crate) fn joined<R>(
    worker: std::thread::ScopedJoinHandle<'_, Result<R, Miss>>,
) -> Result<R, Miss> {
    worker.join().unwrap_or_else(|_| Err(Miss::Failed("a thread panicked".into())))
}
