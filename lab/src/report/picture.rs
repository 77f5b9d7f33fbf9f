//! A picture of some rows beside one peer, for the README: a file of its own, readable in light and
//! in dark.

use std::fmt::Write;

use super::svg::escape;
use super::{against, three_digits};
use crate::record::Record;

/// One bar: how many times as long the peer takes.
struct Bar<'a> {
    row: &'a str,
    ratio: f64,
}

/// The rows named, in their order, each with the peer's time over ours. `name` is the record's.
///
/// # Errors
/// When a row is missing from the record, or has no pair of figures to compare: a picture never
/// drops a row asked for.
pub(crate) fn picture(
    record: &Record,
    name: &str,
    peer: &str,
    rows: &[String],
) -> Result<String, String> {
    let mut bars = Vec::new();
    for id in rows {
        let row = record
            .rows
            .iter()
            .find(|row| row.row.id == *id)
            .ok_or_else(|| format!("{name} has no row {id}"))?;
        let (_, ratio) = against(record, row, peer)
            .ok_or_else(|| format!("{name}: {id} has no figures of ours and of {peer}"))?;
        let short = id.split_once('/').map_or(id.as_str(), |(_, short)| short);
        bars.push(Bar { row: short, ratio: ratio.middle });
    }
    if bars.is_empty() {
        return Err("--picture wants rows: --rows ID,ID".into());
    }
    Ok(draw(&bars, &format!("how many times as long {peer} takes; record {name}")))
}

/// Bars from 1 to the right where ours is faster, to the left where ours is slower, on a
/// logarithmic scale.
fn draw(bars: &[Bar<'_>], title: &str) -> String {
    let (least, most) = bars
        .iter()
        .fold((0.5_f64, 2.0_f64), |(least, most), bar| (least.min(bar.ratio), most.max(bar.ratio)));
    let (from, to) = (least.log10(), most.log10());
    let place = |ratio: f64| START + (ratio.log10() - from) / (to - from) * (END - START);
    let height = TOP + STEP * bars.len() as f64 + 8.0;
    let title = escape(title);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{title}"><title>{title}</title><style>{STYLE}</style><text x="8" y="16">{title}</text>"#
    );
    let one = place(1.0);
    for power in from.ceil() as i32..=to.floor() as i32 {
        let tick = 10_f64.powi(power);
        let x = place(tick);
        let _ = write!(
            svg,
            r#"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{height:.0}"/><text class="tick" x="{x:.1}" y="{:.0}">{tick}×</text>"#,
            TOP - 4.0
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let end = place(bar.ratio);
        let (left, width) = (one.min(end), (end - one).abs().max(1.0));
        let (class, anchor, x) = if bar.ratio >= 1.0 {
            ("ahead", "start", end + 5.0)
        } else {
            ("behind", "end", end - 5.0)
        };
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.0}" y="{text:.1}">{}</text><rect class="{class}" x="{left:.1}" y="{:.1}" width="{width:.1}" height="{:.1}"/><text x="{x:.1}" y="{text:.1}" text-anchor="{anchor}">{}×</text>"#,
            START - 56.0,
            escape(bar.row),
            y + 3.0,
            STEP - 6.0,
            three_digits(bar.ratio),
            text = y + STEP * 0.5 + 4.0,
        );
    }
    svg + "</svg>\n"
}

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1b1f24}line{stroke:#d5d9df}\
     .label{text-anchor:end}.tick{text-anchor:middle;fill:#5a636e}.ahead{fill:#1f5fbf}\
     .behind{fill:#c2410c}@media(prefers-color-scheme:dark){text{fill:#e6e8eb}\
     line{stroke:#363c44}.tick{fill:#a3adb8}.ahead{fill:#7fb2ff}.behind{fill:#ff9d6b}}";
const WIDTH: f64 = 760.0;
/// The left end of the scale, behind the names of rows and a figure.
const START: f64 = 300.0;
const END: f64 = 690.0;
const TOP: f64 = 40.0;
const STEP: f64 = 20.0;
