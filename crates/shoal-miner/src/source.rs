//! Messages between a session and a source of work, a pool or a node.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_pow::{TAG_BYTES, Target};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::work::Handover;

/// A running source: its events, its orders, its end.
#[derive(Debug)]
pub struct Source {
    /// Its events.
    pub events: mpsc::Receiver<SourceEvent>,
    /// Where orders go. As many wait there as a source can hold.
    pub orders: mpsc::Sender<Order>,
    /// Set to `true` for the end: the source waits a moment for answers under way, then ends.
    pub finish: watch::Sender<bool>,
    /// Ends with the source.
    pub task: JoinHandle<()>,
}

/// A header to try nonces on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The source's name for the task: a job or a template.
    pub id: String,
    /// The block header without its nonce.
    pub header: Vec<u8>,
    /// Greatest tag of a share.
    pub target: Target,
    /// Greatest tag of a block, where known.
    pub network_target: Option<Target>,
    /// The nonces to try.
    pub nonces: Range<u64>,
    /// Height of the block.
    pub height: u64,
    /// Hashes a solution takes on average.
    pub difficulty: u64,
    /// Fate of hashes under way when this task comes.
    pub handover: Handover,
}

/// A nonce to be sold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The task.
    pub task: Arc<Task>,
    /// The nonce.
    pub nonce: u64,
    /// Its tag.
    pub tag: [u8; TAG_BYTES],
    /// The moment of its discovery.
    pub found: Instant,
}

/// An order of a session to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Sell this share, and tell its verdict.
    Sell(Share),
    /// Every nonce of the task with this name was tried: another is wanted.
    WindowDone(String),
}

/// The fate of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The share counts.
    Accepted {
        /// `true` when checked, `false` when only believed for now. A node checks always.
        verified: bool,
    },
    /// The share does not count.
    Refused {
        /// The other side's words, fit to be shown.
        reason: String,
        /// `true` for a share too late.
        stale: bool,
    },
    /// Not sent, or taken by nobody.
    Lost {
        /// Why.
        reason: &'static str,
    },
    /// Sent, and so far nobody said yes or no.
    Unknown {
        /// Why, fit to be shown.
        reason: String,
    },
}

/// An event of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceEvent {
    /// The other side is there.
    Connected {
        /// The place, and the terms.
        detail: String,
    },
    /// The other side is gone, and will be tried again.
    Disconnected {
        /// Why.
        reason: String,
        /// In how long.
        retry: Duration,
    },
    /// A task, in place of the one before.
    Task(Arc<Task>),
    /// The task before is worth nothing any more, and there is no other yet.
    NoTask {
        /// Why.
        reason: String,
    },
    /// A verdict. Each share gets exactly one of these, unless the source ends before.
    Verdict {
        /// The share.
        share: Share,
        /// Its fate.
        verdict: Verdict,
    },
    /// A late verdict on a share after [`Verdict::Unknown`].
    Settled {
        /// The share.
        share: Share,
        /// Its fate after all.
        verdict: Verdict,
    },
    /// The other side has something to say to people.
    Notice {
        /// The subject.
        kind: String,
        /// The words, fit to be shown.
        message: String,
    },
    /// Words for people; the source goes on.
    Warning(String),
    /// The end: trying again would not help.
    Failed(SourceError),
}

/// Why a source gives up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The pool refuses this miner for good.
    #[error("the pool refused the login: {0}")]
    LoginRefused(String),
    /// The pool asks for a capability this miner lacks.
    #[error("the pool requires what this miner does not know: {0}")]
    UnknownCapability(String),
    /// The node refuses the request for good.
    #[error("the node refused: {0}")]
    NodeRefused(String),
    /// The file with the node's token cannot be read.
    #[error("cannot read the node's token: {0}")]
    Cookie(String),
}

/// Waiting times, doubled from one failure to the next, each shorter or longer by chance so
/// that many miners do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Times from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// The wait after one more failure: three to five quarters of the doubled time.
    pub fn fail(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.longest).mul_f64(0.75 + chance() / 2.0)
    }

    /// A success: the next failure is a first one.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

/// A number from 0 to 1. Where the system has no entropy, always the middle.
pub(crate) fn chance() -> f64 {
    random_u64().map_or(0.5, |bits| bits as f64 / u64::MAX as f64)
}

/// Random bits of the system.
pub(crate) fn random_u64() -> Option<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Words from elsewhere, fit for a terminal, a log line and a JSON string: no control characters,
/// and not too many.
pub(crate) fn clean(words: &str) -> String {
    let mut text: String =
        words.chars().take(WORDS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if words.chars().nth(WORDS_MAX).is_some() {
        text.push_str("...");
    }
    text
}

impl Verdict {
    /// One word for it: `accepted`, `stale`, `refused`, `lost` or `unknown`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Refused { stale: true, .. } => "stale",
            Self::Refused { .. } => "refused",
            Self::Lost { .. } => "lost",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { verified: true } => f.write_str("accepted"),
            Self::Accepted { verified: false } => f.write_str("accepted for now"),
            Self::Refused { reason, .. } => write!(f, "refused: {reason}"),
            Self::Lost { reason } => write!(f, "lost: {reason}"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

const WORDS_MAX: usize = 300;
const DOUBLINGS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_up_to_a_bound_and_starts_anew() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(first, longest);
        for nominal in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.fail().as_secs_f64() * 1000.0;
            let nominal = f64::from(nominal);
            assert!((0.75 * nominal..=1.25 * nominal).contains(&wait), "{wait} of {nominal}");
        }
        for _ in 0..100 {
            assert!(backoff.fail() <= longest.mul_f64(1.25));
        }
        backoff.succeed();
        assert!(backoff.fail() <= first.mul_f64(1.25));
    }

    #[test]
    fn words_from_elsewhere_cannot_move_the_cursor() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a [2Jb c");
        let long = clean(&"é".repeat(1000));
        assert_eq!(long.chars().count(), WORDS_MAX + 3);
    }
}
