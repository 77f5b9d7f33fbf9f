//! Editing traces as the rows use them: read once, cut short when the run is quick.

use std::io::Read;

use flate2::read::GzDecoder;
use shoal_testkit::trace::Trace;

use super::{Context, Scale};
use crate::engine::Miss;

/// A trace, and the text at the end of its replay.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    /// Known in advance for whole traces, replayed on a plain string for shortened ones.
    pub(super) end: String,
}

impl Recorded {
    /// Loads `traces/<name>.json.gz`; a quick run keeps the first 300 transactions.
    pub(super) fn load(cx: &Context, name: &str) -> Result<Self, Miss> {
        let path = cx.corpus(&format!("traces/{name}.json.gz"))?;
        let packed = std::fs::read(&path).map_err(Miss::failed)?;
        let mut json = String::new();
        GzDecoder::new(packed.as_slice()).read_to_string(&mut json).map_err(Miss::failed)?;
        let mut trace: Trace = serde_json::from_str(&json).map_err(Miss::failed)?;
        let mut end = std::mem::take(&mut trace.end_content);
        if cx.scale == Scale::Quick {
            trace.txns.truncate(QUICK_TXNS);
            end = if concurrent(&trace) { String::new() } else { replay(&trace) };
        }
        Ok(Self { trace, end })
    }

    /// Number of patches.
    pub(super) fn patch_count(&self) -> u64 {
        self.trace.patches().count() as u64
    }

    /// Fails when a replay ended elsewhere.
    pub(super) fn check(&self, text: &str) -> Result<(), Miss> {
        if text == self.end || (self.end.is_empty() && concurrent(&self.trace)) {
            return Ok(());
        }
        let ours = text.chars().count();
        let theirs = self.end.chars().count();
        Err(Miss::Failed(format!(
            "the replay ended in {ours} characters, not the trace's {theirs}"
        )))
    }
}

fn concurrent(trace: &Trace) -> bool {
    trace.txns.iter().any(|txn| txn.agent != 0 || !txn.parents.is_empty())
}

/// The definition of a sequential replay; used on short ones only.
fn replay(trace: &Trace) -> String {
    let mut text: Vec<char> = Vec::new();
    for patch in trace.patches() {
        text.splice(patch.0..patch.0 + patch.1, patch.2.chars());
    }
    text.into_iter().collect()
}

const QUICK_TXNS: usize = 300;
