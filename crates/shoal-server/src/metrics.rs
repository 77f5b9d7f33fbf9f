//! Metrics in Prometheus' text format. No document is named.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use shoal_sync::{Counters, Totals};

use crate::admission::AdmissionFigures;
use crate::storage::Figures;

/// Appends one metric: its kind, its name without `shoal_`, its help.
pub(crate) fn push(
    out: &mut String,
    (kind, name, help): (&str, &str, &str),
    value: impl std::fmt::Display,
) {
    let _ = writeln!(
        out,
        "# HELP shoal_{name} {help}\n# TYPE shoal_{name} {kind}\nshoal_{name} {value}"
    );
}

/// The text of `/metrics`.
pub(crate) fn render(
    counters: &Counters,
    totals: Totals,
    (figures, admission, incoming_kib): (&Figures, Option<&AdmissionFigures>, usize),
) -> String {
    let mut out = String::new();
    let mut one = |kind: &str, name: &str, help: &str, value: f64| {
        push(&mut out, (kind, name, help), value);
    };
    #[expect(clippy::cast_precision_loss, reason = "Prometheus' numbers are floats")]
    let float = |value: u64| value as f64;
    let size = |value: usize| float(u64::try_from(value).unwrap_or(u64::MAX));
    one("gauge", "connections", "open sockets", size(totals.connections));
    one("gauge", "peers", "sockets that have joined", size(totals.joined));
    one("gauge", "documents_in_memory", "documents in memory", size(totals.documents));
    one("gauge", "queued_bytes", "bytes queued for peers", size(totals.queued_bytes));
    one("gauge", "pending_bytes", "changes on their way to the disk", size(totals.pending_bytes));
    let failed = figures.has_failed.load(Ordering::Relaxed);
    one("gauge", "storage_failed", "1 when the file refuses to be written", float(failed.into()));
    let count = |figure: &std::sync::atomic::AtomicU64| float(figure.load(Ordering::Relaxed));
    one("counter", "commits_total", "transactions", count(&figures.commits));
    one(
        "counter",
        "commit_seconds_total",
        "seconds in transactions, the fsync included",
        count(&figures.commit_us) / 1e6,
    );
    one("counter", "jobs_total", "messages with changes, committed", count(&figures.jobs));
    one(
        "gauge",
        "incoming_bytes",
        "room taken by long messages under way",
        size(incoming_kib << 10),
    );
    let broken = count(&figures.broken);
    one("counter", "broken_total", "connections that ended within a request or handshake", broken);
    let looks = count(&figures.looks);
    one("counter", "refreshes_total", "looks at documents that others may have changed", looks);
    let failures = count(&figures.policy_failures);
    one(
        "counter",
        "policy_failures_total",
        "failures of the share policy's file or server",
        failures,
    );
    if let Some(admission) = admission {
        for (name, help, value) in [
            ("challenges", "challenges of admission given", admission.challenges),
            ("tickets", "tickets of admission given", admission.tickets),
            ("stamps", "stamps of admission verified", admission.hashes),
        ] {
            one("counter", &format!("{name}_total"), help, float(value));
        }
        let seconds = float(admission.hash_us) / 1e6;
        one("counter", "stamp_seconds_total", "seconds of verifying stamps", seconds);
        one("gauge", "stamps_waiting", "stamps that wait", size(admission.waiting));
        let effort = float(admission.effort.into());
        one("gauge", "admission_effort", "the multiple of the idle price asked for", effort);
    }
    let turned_away = count(&figures.turned_away);
    one("counter", "turned_away_total", "sockets beyond the greatest number", turned_away);
    for (name, help, value) in [
        ("connections_total", "sockets that came", counters.connected),
        ("joins_total", "joins", counters.joined),
        ("received_total", "messages taken", counters.received),
        ("received_bytes_total", "bytes of messages taken", counters.received_bytes),
        ("sent_total", "messages sent", counters.sent),
        ("sent_bytes_total", "bytes of messages sent", counters.sent_bytes),
        ("changes_total", "changes stored that peers sent", counters.stored),
        ("ephemeral_total", "ephemeral messages handed on", counters.ephemeral),
        ("ephemeral_bounced_total", "ephemeral messages that came back", counters.bounced),
        (
            "ephemeral_dropped_total",
            "ephemeral messages dropped for slow readers",
            counters.dropped,
        ),
        ("paused_total", "times that a socket was paused", counters.paused),
        ("unavailable_total", "requests for absent documents", counters.unavailable),
        ("gossip_total", "gossip of remote heads, ignored", counters.gossip),
        ("evicted_total", "documents that left the memory", counters.evicted),
    ] {
        one("counter", name, help, float(value));
    }
    let _ = writeln!(
        out,
        "# HELP shoal_faults_total faults of peers\n# TYPE shoal_faults_total counter"
    );
    for (word, count) in &counters.faults {
        let _ = writeln!(out, "shoal_faults_total{{fault=\"{word}\"}} {count}");
    }
    if let Some(admission) = admission {
        let _ = writeln!(
            out,
            "# HELP shoal_admission_refused_total challenges and stamps refused\n\
             # TYPE shoal_admission_refused_total counter"
        );
        for (word, count) in &admission.refused {
            let _ = writeln!(out, "shoal_admission_refused_total{{reason=\"{word}\"}} {count}");
        }
    }
    out
}
