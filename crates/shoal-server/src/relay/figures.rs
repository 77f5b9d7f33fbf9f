//! Figures of a relay, for `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::metrics::push;

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) is_connected: AtomicBool,
    pub(super) published: AtomicU64,
    /// Published changes already in NATS.
    pub(super) duplicates: AtomicU64,
    pub(super) received: AtomicU64,
    /// Received changes already in the database.
    pub(super) known: AtomicU64,
    pub(super) snapshots_written: AtomicU64,
    pub(super) snapshots_read: AtomicU64,
    /// Ended sessions with NATS, and failed attempts.
    pub(super) failures: AtomicU64,
    /// Skipped messages, by reason.
    pub(super) skipped: Mutex<BTreeMap<&'static str, u64>>,
}

pub(super) fn add(figure: &AtomicU64, count: usize) {
    figure.fetch_add(count as u64, Ordering::Relaxed);
}

impl Figures {
    pub(super) fn skip(&self, reason: &'static str, count: usize) {
        let mut skipped = self.skipped.lock().expect("nobody panics with the counts");
        *skipped.entry(reason).or_default() += count as u64;
    }

    /// The text of the relay's metrics.
    pub(super) fn render(&self, unpublished: usize, waiting: usize) -> String {
        let mut out = String::new();
        let mut one = |kind: &str, name: &str, help: &str, value: u64| {
            push(&mut out, (kind, &format!("relay_{name}"), help), value);
        };
        let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let is_connected = self.is_connected.load(Ordering::Relaxed);
        one("gauge", "connected", "1 while NATS is there", is_connected.into());
        let behind = "documents with changes to publish";
        one("gauge", "unpublished_documents", behind, unpublished as u64);
        let lacking = "documents that wait for missing changes";
        one("gauge", "waiting_documents", lacking, waiting as u64);
        for (name, help, figure) in [
            ("published_total", "changes published", &self.published),
            ("duplicates_total", "changes published that NATS had", &self.duplicates),
            ("received_total", "changes received and stored", &self.received),
            ("known_total", "changes received that the database had", &self.known),
            ("snapshots_written_total", "snapshots written", &self.snapshots_written),
            ("snapshots_read_total", "snapshots read and stored", &self.snapshots_read),
            ("failures_total", "ended sessions, failed attempts", &self.failures),
        ] {
            one("counter", name, help, count(figure));
        }
        let name = "shoal_relay_skipped_total";
        let _ = writeln!(out, "# HELP {name} messages skipped\n# TYPE {name} counter");
        for (reason, count) in &*self.skipped.lock().expect("nobody panics with the counts") {
            let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {count}");
        }
        out
    }
}
