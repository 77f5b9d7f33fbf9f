//! A record made readable: a table for a terminal, a page for a browser, a chapter for the docs.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod svg;
pub(crate) mod terminal;

use crate::args::ReportArguments;
use crate::out;
use crate::record::{Record, RowRecord};
use crate::statistics::Interval;
use crate::workload::Family;

/// Reads a record and writes what was asked for; the table when nothing was.
pub(crate) fn from_file(args: &ReportArguments) -> Result<bool, String> {
    let record = Record::read(&args.record)?;
    let write = |path: &std::path::Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &args.html {
        write(path, html::page(&record))?;
    }
    if let Some(path) = &args.markdown {
        let name = args.record.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write(path, markdown::chapter(&record, &name))?;
    }
    if args.html.is_none() && args.markdown.is_none() {
        for line in terminal::table(&record).lines() {
            out::line(line);
        }
    }
    Ok(true)
}

/// A time with three digits and a unit.
pub(crate) fn duration(nanos: f64) -> String {
    for (unit, size) in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)] {
        if nanos >= size {
            return format!("{} {unit}", three_digits(nanos / size));
        }
    }
    format!("{} ns", three_digits(nanos))
}

/// Bytes with three digits and a unit.
pub(crate) fn bytes(count: f64) -> String {
    for (unit, size) in
        [("GiB", 1024.0 * 1024.0 * 1024.0), ("MiB", 1024.0 * 1024.0), ("KiB", 1024.0)]
    {
        if count >= size {
            return format!("{} {unit}", three_digits(count / size));
        }
    }
    format!("{count:.0} B")
}

/// What a row reports.
pub(crate) fn value(row: &RowRecord, value: f64) -> String {
    if row.row.memory { bytes(value) } else { duration(value) }
}

/// Three digits that mean something: 1.23, 12.3, 123.
pub(crate) fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The contender of ours that a row is judged by: the first of ours that has a figure.
pub(crate) fn ours<'a>(record: &'a Record, row: &'a RowRecord) -> Option<&'a str> {
    record
        .of_family(row.row.family)
        .filter(|about| about.ours)
        .map(|about| about.name.as_str())
        .find(|name| row.outcome(name).is_some_and(|outcome| outcome.miss.is_none()))
}

/// The fastest peer of a row, and how ours stands to it: above 1, ours is faster.
pub(crate) fn best_peer<'a>(record: &'a Record, row: &'a RowRecord) -> Option<(&'a str, Interval)> {
    let ours = ours(record, row)?;
    record
        .of_family(row.row.family)
        .filter(|about| !about.ours)
        .filter_map(|about| Some((about.name.as_str(), row.ratio(ours, &about.name, record.seed)?)))
        .min_by(|left, right| left.1.middle.total_cmp(&right.1.middle))
}

/// The families that a record has rows of.
pub(crate) fn families(record: &Record) -> impl Iterator<Item = Family> + '_ {
    [Family::Doc, Family::Table, Family::Argon]
        .into_iter()
        .filter(|family| record.rows_of(*family).next().is_some())
}

#[cfg(test)]
mod tests;
