//! A record made readable: a table for a terminal, a page for a browser, a chapter for the docs.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod picture;
pub(crate) mod svg;
pub(crate) mod terminal;

use crate::args::ReportArguments;
use crate::out;
use crate::record::{Record, RowRecord};
use crate::statistics::Interval;
use crate::workload::Family;

/// Reads records and writes the reports asked for; without any, the table.
pub(crate) fn from_file(args: &ReportArguments) -> Result<bool, String> {
    let (first, others) = args.records.split_first().ok_or("no record is named")?;
    let mut record = Record::read(first)?;
    for path in others {
        record
            .take_in(Record::read(path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let write = |path: &std::path::Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &args.json {
        record.write(path)?;
    }
    if let Some(path) = &args.html {
        write(path, html::page(&record))?;
    }
    if let Some(path) = &args.markdown {
        let name = args.json.as_ref().unwrap_or(first);
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write(path, markdown::chapter(&record, &name))?;
    }
    if let Some(path) = &args.picture {
        let name = first.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let peer = args.against.as_deref().ok_or("--picture wants a peer: --against NAME")?;
        write(path, picture::picture(&record, &name, peer, &args.rows)?)?;
    }
    let files = [&args.json, &args.html, &args.markdown, &args.picture];
    if files.iter().all(|file| file.is_none()) {
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

/// A row's figure with its unit: bytes or time.
pub(crate) fn value(row: &RowRecord, value: f64) -> String {
    if row.row.memory { bytes(value) } else { duration(value) }
}

/// Three significant digits: 0.0123, 1.23, 12.3, 123.
pub(crate) fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{v:.2}"),
        v if v >= 0.01 => format!("{v:.3}"),
        v => format!("{v:.4}"),
    }
}

/// The ratio of `peer`'s time to ours on a row, and the engine of ours: the fastest among those
/// with the peer's promise to readers. Above 1, ours is faster. `None` without such a pair.
pub(crate) fn against<'a>(
    record: &'a Record,
    row: &'a RowRecord,
    peer: &str,
) -> Option<(&'a str, Interval)> {
    let family = || record.of_family(row.row.family);
    let guarantee = family().find(|about| about.name == peer && !about.ours)?.guarantee;
    let ours = family()
        .filter(|about| about.ours && about.guarantee == guarantee)
        .filter_map(|about| {
            let median = row.outcome(&about.name)?.median(row.row.memory)?;
            Some((about.name.as_str(), median))
        })
        .min_by(|left, right| left.1.total_cmp(&right.1))?
        .0;
    Some((ours, row.ratio(ours, peer, record.seed)?))
}

/// A row's closest race.
pub(crate) struct Race<'a> {
    /// Ours.
    pub(crate) ours: &'a str,
    /// The peer doing best against the engine of ours with the same promise.
    pub(crate) peer: &'a str,
    /// Its time over ours.
    pub(crate) ratio: Interval,
}

/// The race deciding a row's winner. `None` when no peer can be compared.
pub(crate) fn closest<'a>(record: &'a Record, row: &'a RowRecord) -> Option<Race<'a>> {
    record
        .of_family(row.row.family)
        .filter_map(|about| {
            let (ours, ratio) = against(record, row, &about.name)?;
            Some(Race { ours, peer: &about.name, ratio })
        })
        .min_by(|left, right| left.ratio.middle.total_cmp(&right.ratio.middle))
}

/// The families with rows in the record.
pub(crate) fn families(record: &Record) -> impl Iterator<Item = Family> + '_ {
    Family::ALL.into_iter().filter(|family| record.rows_of(*family).next().is_some())
}

#[cfg(test)]
mod tests;
