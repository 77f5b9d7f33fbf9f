//! The table on a terminal: one block a row, one line a contender.

use std::fmt::Write;

use super::{against, bytes, closest, duration, families, three_digits, value};
use crate::engine::Miss;
use crate::record::{Outcome, Record, RowRecord};

/// The whole record as text.
pub(crate) fn table(record: &Record) -> String {
    let mut text = String::new();
    let environment = &record.environment;
    let _ = writeln!(
        text,
        "{} | {} cores | Linux {} | {} | {} | huge pages {} | seed {} | {} rounds",
        environment.cpu,
        environment.cores,
        environment.kernel,
        environment.rustc,
        environment.commit,
        environment.huge_pages,
        record.seed,
        record.rounds,
    );
    for warning in record.remarks() {
        let _ = writeln!(text, "warning: {warning}");
    }
    for family in families(record) {
        let _ = writeln!(text, "\n# {}", family.title());
        let width = record.of_family(family).map(|about| about.name.chars().count()).max();
        for row in record.rows_of(family) {
            block(&mut text, record, row, width.unwrap_or(0));
        }
    }
    let _ = writeln!(text, "\n{}", summary(record));
    text
}

fn block(text: &mut String, record: &Record, row: &RowRecord, width: usize) {
    let _ = writeln!(text, "\n{} (per {})", row.row.id, row.row.unit);
    for outcome in &row.outcomes {
        let _ = write!(text, "  {:width$}  ", outcome.contender);
        match &outcome.miss {
            Some(miss) => {
                let _ = writeln!(text, "{miss}");
            }
            None => {
                let _ = writeln!(text, "{}", figures(record, row, outcome));
            }
        }
    }
}

fn figures(record: &Record, row: &RowRecord, outcome: &Outcome) -> String {
    let memory = row.row.memory;
    let mut line = outcome
        .median(memory)
        .map_or_else(|| "no sample".into(), |median| format!("{:>9}", value(row, median)));
    line.push(if outcome.is_noisy(memory) { '~' } else { ' ' });
    if memory {
        if let Some(steady) = outcome.steady_bytes() {
            let _ = write!(line, " steady {}", super::bytes(steady));
        }
    } else if let Some(cold) = outcome.cold_median() {
        let _ = write!(line, " cold {:>9}", duration(cold));
    }
    if let Some(allocations) = outcome.allocations_per_op() {
        let _ = write!(line, "  {} allocs", three_digits(allocations));
        if let Some(size) = outcome.allocated_bytes_per_op().filter(|size| *size > 0.0) {
            let _ = write!(line, " of {}", bytes(size));
        }
    }
    if let Some((ours, ratio)) = against(record, row, &outcome.contender) {
        let _ = write!(
            line,
            "  {ours} x{} [{} {}]",
            three_digits(ratio.middle),
            three_digits(ratio.low),
            three_digits(ratio.high)
        );
    }
    for (name, figure) in &outcome.figures {
        let _ = write!(line, "  {name} {figure}");
    }
    line
}

/// How many rows were won, lost, missed and failed.
fn summary(record: &Record) -> String {
    let (mut won, mut lost, mut level, mut alone) = (0, 0, 0, 0);
    for row in &record.rows {
        match closest(record, row) {
            Some(race) if race.ratio.low > 1.0 => won += 1,
            Some(race) if race.ratio.high < 1.0 => lost += 1,
            Some(_) => level += 1,
            None => alone += 1,
        }
    }
    let missed = |failed: bool| {
        record
            .rows
            .iter()
            .flat_map(|row| &row.outcomes)
            .filter(|outcome| match &outcome.miss {
                Some(Miss::Failed(_)) => failed,
                Some(Miss::NotRun(_)) => !failed,
                None => false,
            })
            .count()
    };
    format!(
        "{} rows in {:.0} s: ours ahead of every peer in {won}, behind the best in {lost}, level \
         in {level}, without a pair in {alone}; {} not run, {} failed; ~ marks samples that lie \
         more than a tenth apart",
        record.rows.len(),
        record.seconds,
        missed(false),
        missed(true),
    )
}
