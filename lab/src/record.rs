//! The record of a run: every sample, and all facts needed to read the samples later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::{About, Miss};
use crate::environment::Environment;
use crate::statistics::{Interval, median, ratio, spread};
use crate::workload::{Family, Row, Scale};

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Changes when the shape of this record does.
    pub version: u32,
    /// Seconds since 1970 when the run began.
    pub started_unix: u64,
    /// Duration of the run.
    pub seconds: f64,
    /// The lab's own arguments.
    pub command: String,
    /// Full or quick.
    pub scale: Scale,
    /// Where every random choice started: order of contenders, keys, data.
    pub seed: u64,
    /// Rounds asked for.
    pub rounds: usize,
    /// The ids of rows chosen and not reached: the run was cut off.
    #[serde(default)]
    pub missing: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// Warnings to read before the figures: load, steal, a debug build.
    pub warnings: Vec<String>,
    /// Who took part, in the order of the tables.
    pub contenders: Vec<Listed>,
    /// The rows in their order.
    pub rows: Vec<RowRecord>,
}

/// A contender of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its family.
    pub family: Family,
    /// The contender; the name is unique within the family.
    #[serde(flatten)]
    pub about: About,
}

/// A row with the results of all contenders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowRecord {
    /// The row.
    #[serde(flatten)]
    pub row: Row,
    /// The outcome of each contender of the family.
    pub outcomes: Vec<Outcome>,
}

/// One contender on one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The contender's name.
    pub contender: String,
    /// Why there is no figure, when there is none.
    pub miss: Option<Miss>,
    /// First samples of fresh processes.
    pub cold: Vec<Sample>,
    /// Samples of a process with the same work done before, in the order of rounds.
    pub warm: Vec<Sample>,
    /// Figures beside time: bytes, rows.
    pub figures: Vec<(String, f64)>,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The round of the sample.
    pub round: usize,
    /// Its place within the round, from 0.
    pub place: usize,
    /// Wall clock of the measured region.
    pub nanos: u64,
    /// Operations in the measured region.
    pub ops: u64,
    /// Allocations in the measured region by its thread; absent where they cannot be counted.
    pub allocations: Option<u64>,
    /// Bytes of these allocations; absent from records before 2026-11-23, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Growth of the process over the sample, at most, in KiB.
    pub peak_kib: Option<u64>,
    /// Growth of the process after the sample, in KiB.
    pub steady_kib: Option<u64>,
}

impl Sample {
    /// Nanoseconds for one operation.
    pub fn nanos_per_op(&self) -> f64 {
        self.nanos as f64 / self.ops.max(1) as f64
    }
}

impl Outcome {
    pub(crate) fn missed(contender: &str, miss: Miss) -> Self {
        Self {
            contender: contender.to_owned(),
            miss: Some(miss),
            cold: Vec::new(),
            warm: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// The row's figures, sample by sample: ns per operation of warm samples (of cold ones in the
    /// absence of warm ones), or bytes of peak memory.
    pub fn values(&self, memory: bool) -> Vec<f64> {
        if memory {
            let bytes = |sample: &Sample| sample.peak_kib.map(|kib| kib as f64 * 1024.0);
            return self.cold.iter().filter_map(bytes).collect();
        }
        let samples = if self.warm.is_empty() { &self.cold } else { &self.warm };
        samples.iter().map(Sample::nanos_per_op).collect()
    }

    /// The median of [`Self::values`], when the row was measured.
    pub fn median(&self, memory: bool) -> Option<f64> {
        if self.miss.is_some() {
            return None;
        }
        median(&self.values(memory))
    }

    /// Median ns per operation of the first samples of fresh processes.
    pub fn cold_median(&self) -> Option<f64> {
        median(&self.cold.iter().map(Sample::nanos_per_op).collect::<Vec<_>>())
    }

    /// Allocations for one operation, where they could be counted.
    pub fn allocations_per_op(&self) -> Option<f64> {
        self.per_op(|sample| sample.allocations)
    }

    /// Bytes allocated for one operation, where they could be counted.
    pub fn allocated_bytes_per_op(&self) -> Option<f64> {
        self.per_op(|sample| sample.allocated_bytes)
    }

    fn per_op(&self, count: fn(&Sample) -> Option<u64>) -> Option<f64> {
        let samples = if self.warm.is_empty() { &self.cold } else { &self.warm };
        let counts: Vec<f64> = samples
            .iter()
            .filter_map(|sample| Some(count(sample)? as f64 / sample.ops.max(1) as f64))
            .collect();
        median(&counts)
    }

    /// Bytes still held after the sample.
    pub fn steady_bytes(&self) -> Option<f64> {
        let bytes: Vec<f64> = self
            .cold
            .iter()
            .filter_map(|sample| Some(sample.steady_kib? as f64 * 1024.0))
            .collect();
        median(&bytes)
    }

    /// True when the quartiles of the samples lie more than a tenth of the median apart.
    pub fn is_noisy(&self, memory: bool) -> bool {
        spread(&self.values(memory)).is_some_and(|spread| spread > NOISY)
    }
}

impl RowRecord {
    /// The outcome of a contender.
    pub fn outcome(&self, contender: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.contender == contender)
    }

    /// How many times as much `peer` takes as `ours`: above 1, ours is faster or smaller.
    pub fn ratio(&self, ours: &str, peer: &str, seed: u64) -> Option<Interval> {
        let memory = self.row.memory;
        let (ours, peer) = (self.outcome(ours)?, self.outcome(peer)?);
        if ours.miss.is_some() || peer.miss.is_some() {
            return None;
        }
        ratio(&peer.values(memory), &ours.values(memory), seed)
    }

    /// True when any contender failed, a worse outcome than not having run.
    pub fn has_failed(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome.miss, Some(Miss::Failed(_))))
    }
}

impl Record {
    /// The contenders of a family, in order.
    pub fn of_family(&self, family: Family) -> impl Iterator<Item = &About> {
        self.contenders.iter().filter(move |one| one.family == family).map(|one| &one.about)
    }

    /// The rows of a family, in order.
    pub fn rows_of(&self, family: Family) -> impl Iterator<Item = &RowRecord> {
        self.rows.iter().filter(move |row| row.row.family == family)
    }

    /// Takes in the rows of another run of the same commit on the same machine; a row present in
    /// both keeps this record's samples. The other run's warnings are repeated with the names of
    /// its families.
    ///
    /// # Errors
    /// The difference between the two runs, as a sentence.
    pub fn take_in(&mut self, other: Self) -> Result<(), String> {
        let of = |record: &Self| {
            (record.environment.commit.clone(), record.environment.cpu.clone(), record.scale)
        };
        if of(self) != of(&other) {
            return Err(format!(
                "records of different runs cannot be one: {:?} and {:?}",
                of(self),
                of(&other)
            ));
        }
        let known = |rows: &[RowRecord], id: &str| rows.iter().any(|row| row.row.id == id);
        let added: Vec<RowRecord> =
            other.rows.into_iter().filter(|row| !known(&self.rows, &row.row.id)).collect();
        let mut families: Vec<&str> = added.iter().map(|row| row.row.family.title()).collect();
        families.dedup();
        let families = families.join(", ");
        self.warnings
            .extend(other.warnings.into_iter().map(|warning| format!("{families}: {warning}")));
        self.missing.extend(other.missing);
        for contender in other.contenders {
            if !self.contenders.contains(&contender) {
                self.contenders.push(contender);
            }
        }
        self.seconds += other.seconds;
        self.command = format!("{}; {}", self.command, other.command);
        self.rows.extend(added);
        self.missing.sort_unstable();
        self.missing.dedup();
        self.missing.retain(|id| !known(&self.rows, id));
        Ok(())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The file's or the JSON's own, with the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The remarks at the head of every report: [`Self::warnings`], and the count of rows not
    /// reached by a run cut off.
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let missing = self.missing.len();
        let cut = (missing > 0).then(|| format!("the run was cut off before {missing} more rows"));
        self.warnings.iter().cloned().chain(cut)
    }

    /// Writes the record as JSON; the file at `path` is replaced only by a complete one.
    ///
    /// # Errors
    /// The file's own, with the path.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let json = serde_json::to_string(self).expect("a record holds plain data");
        let mut whole = path.as_os_str().to_owned();
        whole.push(".part");
        std::fs::write(&whole, json + "\n")
            .and_then(|()| std::fs::rename(&whole, path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The version of the records' shape, as written by this lab.
pub(crate) const VERSION: u32 = 1;

/// A spread beyond this share of the median is said.
const NOISY: f64 = 0.1;
