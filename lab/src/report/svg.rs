//! Pictures: ratios with intervals on a log scale, and time against size. Colours are the page's
//! own variables: one picture reads in light and in dark.

use std::fmt::Write;

use super::{against, duration, three_digits};
use crate::record::{Record, RowRecord};
use crate::workload::Family;

/// A horizontal bar of the ratio picture.
struct Mark<'a> {
    row: &'a str,
    peer: usize,
    low: f64,
    middle: f64,
    high: f64,
}

/// Ours against each peer, row by row: right of 1 we are faster. Empty when nothing compares.
pub(crate) fn ratios(record: &Record, family: Family) -> String {
    let peers: Vec<&str> = record
        .of_family(family)
        .filter(|about| !about.ours)
        .map(|about| about.name.as_str())
        .collect();
    let mut marks = Vec::new();
    for row in record.rows_of(family) {
        for (peer, name) in peers.iter().enumerate() {
            if let Some((_, ratio)) = against(record, row, name) {
                marks.push(Mark {
                    row: &row.row.id,
                    peer,
                    low: ratio.low,
                    middle: ratio.middle,
                    high: ratio.high,
                });
            }
        }
    }
    if marks.is_empty() {
        return String::new();
    }
    draw_ratios(&marks, &peers)
}

fn draw_ratios(marks: &[Mark<'_>], peers: &[&str]) -> String {
    let (least, most) = marks
        .iter()
        .fold((0.5_f64, 2.0_f64), |(least, most), mark| (least.min(mark.low), most.max(mark.high)));
    let scale =
        Log { from: decade_below(least), to: decade_above(most), start: LABELS, end: WIDTH - 24.0 };
    let mut rows: Vec<&str> = Vec::new();
    for mark in marks {
        if rows.last() != Some(&mark.row) {
            rows.push(mark.row);
        }
    }
    let step = (MARK * (peers.len() as f64 + 1.0)).max(ROW);
    let height = TOP + step * rows.len() as f64 + 10.0;
    let mut svg = open(height, "ratios of time, peer over ours, with 95 % intervals");
    for tick in scale.decades() {
        let x = scale.place(tick);
        let class = if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        let _ = write!(
            svg,
            r#"<line class="{class}" x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{height:.0}"/><text class="tick" x="{x:.1}" y="{:.0}">{}×</text>"#,
            TOP - 6.0,
            plain(tick),
        );
    }
    legend(&mut svg, peers);
    for (line, row) in rows.iter().enumerate() {
        let top = TOP + step * line as f64;
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.0}" y="{:.1}">{}</text>"#,
            LABELS - 8.0,
            top + step * 0.5 + 4.0,
            escape(row)
        );
        for mark in marks.iter().filter(|mark| mark.row == *row) {
            let y = top + step * (mark.peer as f64 + 1.0) / (peers.len() as f64 + 1.0);
            let (low, middle, high) =
                (scale.place(mark.low), scale.place(mark.middle), scale.place(mark.high));
            let _ = write!(
                svg,
                r#"<g class="c{}"><title>{}: {} {}× [{} {}]</title><line x1="{low:.1}" y1="{y:.1}" x2="{high:.1}" y2="{y:.1}"/><circle cx="{middle:.1}" cy="{y:.1}" r="3"/></g>"#,
                mark.peer % COLOURS,
                escape(row),
                escape(peers[mark.peer]),
                three_digits(mark.middle),
                three_digits(mark.low),
                three_digits(mark.high),
            );
        }
    }
    svg + "</svg>"
}

/// Time against size for the rows of one series, one line a contender, both axes logarithmic.
pub(crate) fn scaling(record: &Record, rows: &[&RowRecord]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<&str> =
        record.of_family(first.row.family).map(|about| about.name.as_str()).collect();
    let mut lines: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let points: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|row| {
                let size = row.row.series.as_ref()?.1 as f64;
                let value = row.outcome(name)?.median(row.row.memory)?;
                (value > 0.0).then_some((size, value))
            })
            .collect();
        if points.len() > 1 {
            lines.push((index, points));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let bounds = |pick: fn(&(f64, f64)) -> f64| {
        points()
            .map(pick)
            .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)))
    };
    let ((least_size, most_size), (least, most)) = (bounds(|it| it.0), bounds(|it| it.1));
    let height = 300.0;
    let across = Log { from: least_size, to: most_size, start: 90.0, end: WIDTH - 20.0 };
    let up =
        Log { from: decade_below(least), to: decade_above(most), start: height - 40.0, end: TOP };
    let mut svg = open(height, "time for one operation against size");
    for tick in up.decades() {
        let y = up.place(tick);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="90" y1="{y:.1}" x2="{:.0}" y2="{y:.1}"/><text class="label" x="84" y="{:.1}">{}</text>"#,
            WIDTH - 20.0,
            y + 4.0,
            duration(tick)
        );
    }
    for row in rows {
        if let Some((_, size)) = &row.row.series {
            let x = across.place(*size as f64);
            let _ = write!(
                svg,
                r#"<text class="tick" x="{x:.1}" y="{:.0}">{size}</text>"#,
                height - 20.0
            );
        }
    }
    legend(&mut svg, &names);
    for (index, points) in &lines {
        let path: Vec<String> = points
            .iter()
            .map(|(size, value)| format!("{:.1},{:.1}", across.place(*size), up.place(*value)))
            .collect();
        let class = index % COLOURS;
        let _ = write!(svg, r#"<g class="c{class}"><title>{}</title>"#, escape(names[*index]));
        let _ = write!(svg, r#"<polyline points="{}"/>"#, path.join(" "));
        for (size, value) in points {
            let _ = write!(
                svg,
                r#"<circle cx="{:.1}" cy="{:.1}" r="3"/>"#,
                across.place(*size),
                up.place(*value)
            );
        }
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

/// A logarithmic axis.
struct Log {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Log {
    fn place(&self, value: f64) -> f64 {
        let span = (self.to / self.from).log10().max(1e-9);
        self.start + (value / self.from).log10() / span * (self.end - self.start)
    }

    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.from.log10().round() as i32, self.to.log10().round() as i32);
        (first..=last).map(|power| 10_f64.powi(power)).collect()
    }
}

fn decade_below(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

fn decade_above(value: f64) -> f64 {
    10_f64.powf(value.log10().ceil())
}

fn plain(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}

fn open(height: f64, title: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}

/// The contenders with their colours, on as many lines as they need; two fit.
fn legend(svg: &mut String, names: &[&str]) {
    let (mut x, mut y) = (10.0, 12.0);
    for (index, name) in names.iter().enumerate() {
        let width = 24.0 + 7.2 * name.chars().count() as f64;
        if x + width > WIDTH {
            (x, y) = (10.0, y + 18.0);
        }
        let _ = write!(
            svg,
            r#"<g class="c{}"><circle cx="{x:.0}" cy="{y:.0}" r="5"/></g><text class="key" x="{:.0}" y="{:.0}">{}</text>"#,
            index % COLOURS,
            x + 9.0,
            y + 4.0,
            escape(name)
        );
        x += width;
    }
}

/// Text escaped for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const WIDTH: f64 = 980.0;
const LABELS: f64 = 280.0;
const TOP: f64 = 66.0;
const ROW: f64 = 22.0;
/// Room for one contender within a row.
const MARK: f64 = 7.0;
/// Colours of the page, `--c0` and on.
pub(crate) const COLOURS: usize = 12;
