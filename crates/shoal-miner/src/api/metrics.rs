//! The state in Prometheus's format.

use std::fmt::Write as _;

use crate::board::{Lifecycle, State};

/// The text of `/metrics`.
pub(super) fn render(state: &State) -> String {
    let mut page = Page::default();
    page.gauge("running", "Whether a run is under way.", [("", f64::from(state.running))]);
    let lifecycle = Lifecycle::ALL
        .map(|one| (format!("{{state=\"{}\"}}", one.name()), f64::from(one == state.lifecycle)));
    page.gauge("lifecycle_info", "Where the miner stands.", lifecycle);
    page.gauge(
        "source_connected",
        "Whether the pool or the node is there.",
        [("", f64::from(state.source.connected))],
    );
    let engine = state.engine.as_ref();
    let rates = [("now", engine.map(|e| e.rate_now)), ("average", engine.map(|e| e.rate_average))];
    page.gauge(
        "hash_rate",
        "Hashes a second, of late and over the whole run.",
        rates.map(|(window, rate)| (format!("{{window=\"{window}\"}}"), rate.unwrap_or(0.0))),
    );
    let workers = engine.iter().flat_map(|engine| &engine.backends).flat_map(|backend| {
        let name = escaped(&backend.name);
        backend.workers.iter().enumerate().map(move |(number, worker)| {
            let pages = escaped(&worker.worker.pages);
            let labels = format!("{{backend=\"{name}\",worker=\"{number}\",pages=\"{pages}\"}}");
            (labels, worker.rate_now)
        })
    });
    page.gauge("worker_hash_rate", "Hashes a second of late, by worker.", workers);
    let watts = engine.iter().flat_map(|engine| &engine.backends).filter_map(|backend| {
        Some((format!("{{backend=\"{}\"}}", escaped(&backend.name)), backend.watts?))
    });
    page.gauge("backend_watts", "Watts that a device draws, where its driver tells.", watts);
    page.counter(
        "hashes_total",
        "Hashes of this run.",
        [
            ("{kind=\"counted\"}", engine.map_or(0, |engine| engine.hashes)),
            ("{kind=\"late\"}", engine.map_or(0, |engine| engine.late_hashes)),
        ],
    );
    let shares = state.shares;
    page.counter(
        "shares_total",
        "What became of shares, or of blocks where the source is a node, in this run.",
        [
            ("{verdict=\"accepted\"}", shares.accepted),
            ("{verdict=\"stale\"}", shares.stale),
            ("{verdict=\"refused\"}", shares.refused),
            ("{verdict=\"lost\"}", shares.lost),
            ("{verdict=\"unknown\"}", shares.unknown),
        ],
    );
    page.counter("shares_found_total", "Shares found in this run.", [("", shares.found)]);
    page.counter("blocks_found_total", "Shares that were blocks.", [("", shares.blocks)]);
    page.counter("connects_total", "Connections to the source.", [("", state.source.connects)]);
    let metrics = state.metrics;
    for (name, help, value) in [
        ("start_requests_total", "Starts asked for.", metrics.start_requests),
        ("stop_requests_total", "Stops asked for.", metrics.stop_requests),
        ("restart_requests_total", "Restarts asked for.", metrics.restart_requests),
        ("live_config_patches_total", "Changes asked for.", metrics.live_config_patches),
        ("log_events_total", "Lines of the log.", metrics.log_events),
        ("tasks_total", "Tasks that came.", metrics.tasks),
        (
            "backend_quarantines_total",
            "Backends that lost their place.",
            metrics.backend_quarantines,
        ),
    ] {
        page.counter(name, help, [("", value)]);
    }
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (impl AsRef<str>, f64)>,
    ) {
        self.head(name, help, "gauge");
        for (labels, value) in values {
            self.line(name, labels.as_ref(), &value.to_string());
        }
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (impl AsRef<str>, u64)>,
    ) {
        self.head(name, help, "counter");
        for (labels, value) in values {
            self.line(name, labels.as_ref(), &value.to_string());
        }
    }

    // Writing to a text cannot fail.
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: &str) {
        let _ = writeln!(self.0, "{PREFIX}{name}{labels} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

const PREFIX: &str = "shoal_miner_";

#[cfg(test)]
mod tests {
    use super::*;

    use crate::board::Board;
    use crate::source::Verdict;

    #[test]
    fn every_line_is_one_that_prometheus_reads() {
        let board = Board::new();
        board.move_to(Lifecycle::Starting, "test");
        board.judged(5, &Verdict::Accepted { verified: true });
        let text = render(&board.state());
        assert!(text.contains("shoal_miner_hash_rate{window=\"now\"} 0\n"), "{text}");
        assert!(text.contains("shoal_miner_shares_total{verdict=\"accepted\"} 1\n"), "{text}");
        assert!(text.contains("shoal_miner_lifecycle_info{state=\"starting\"} 1\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(PREFIX), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        assert_eq!(escaped("a\"b\\"), "a\\\"b\\\\");
    }
}
