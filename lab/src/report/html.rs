//! The report as one self-contained page.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::svg::{self, escape};
use super::{against, bytes, closest, duration, families, three_digits, value};
use crate::record::{Outcome, Record, RowRecord};
use crate::workload::Family;

/// The page.
pub(crate) fn page(record: &Record) -> String {
    let mut body = String::new();
    head(&mut body, record);
    for family in families(record) {
        section(&mut body, record, family);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" \
         content=\"light dark\"><title>Shoal lab</title><style>{}</style></head><body>{body}\
         </body></html>\n",
        style()
    )
}

fn head(body: &mut String, record: &Record) {
    let environment = &record.environment;
    body.push_str("<h1>Shoal lab</h1>");
    let _ = write!(
        body,
        "<p>Every row's answer was compared before it was timed. Medians; the interval of a ratio \
         holds 95 % of what resampling its rounds gives; <b>×2</b> means that the peer takes \
         twice as long as the fastest of ours that promises its readers the same. <b>~</b> marks samples that lie more \
         than a tenth apart. Cold is the first sample of a fresh process.</p>"
    );
    for warning in record.remarks() {
        let _ = write!(body, "<p class=\"warning\">{}</p>", escape(&warning));
    }
    let facts = [
        ("processor", environment.cpu.clone()),
        ("cores", environment.cores.to_string()),
        ("microcode", environment.microcode.clone()),
        ("instruction sets", environment.isa.join(" ")),
        ("governor", environment.governor.clone()),
        ("hypervisor", environment.hypervisor.clone()),
        ("Linux", environment.kernel.clone()),
        ("memory", super::bytes(environment.memory_kib as f64 * 1024.0)),
        ("transparent huge pages", environment.huge_pages.clone()),
        ("huge pages set aside", environment.huge_pages_reserved.clone()),
        ("compiler", environment.rustc.clone()),
        ("commit", environment.commit.clone()),
        ("seed, rounds", format!("{}, {}", record.seed, record.rounds)),
        ("duration", format!("{:.0} s", record.seconds)),
        ("command", record.command.clone()),
    ];
    body.push_str("<details><summary>Machine and run</summary><table>");
    for (name, fact) in facts {
        let _ = write!(body, "<tr><th>{name}</th><td>{}</td></tr>", escape(&fact));
    }
    body.push_str("</table></details>");
}

fn section(body: &mut String, record: &Record, family: Family) {
    let _ = write!(
        body,
        "<h2>{}</h2><table><tr><th>contender</th><th>version</th><th>",
        family.title()
    );
    body.push_str("what it is</th></tr>");
    for about in record.of_family(family) {
        let _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&about.name),
            escape(&about.version),
            escape(&about.note)
        );
    }
    body.push_str("</table>");
    let picture = svg::ratios(record, family);
    if picture.is_empty() {
        body.push_str("<p>No row has both one of ours and a peer: there is no ratio to draw.</p>");
    } else {
        let _ = write!(
            body,
            "<figure>{picture}<figcaption>Right of the line at 1×, ours is faster or smaller. A bar \
             is the interval.</figcaption></figure>"
        );
    }
    let mut series: BTreeMap<&str, Vec<&RowRecord>> = BTreeMap::new();
    for row in record.rows_of(family) {
        if let Some((name, _)) = &row.row.series {
            series.entry(name).or_default().push(row);
        }
    }
    let plots: Vec<(&str, String)> = series
        .into_iter()
        .map(|(name, mut rows)| {
            rows.sort_by_key(|row| row.row.series.as_ref().map(|of| of.1));
            (name, svg::scaling(record, &rows))
        })
        .filter(|(_, plot)| !plot.is_empty())
        .collect();
    if !plots.is_empty() {
        body.push_str("<details><summary>Time against size</summary>");
        for (name, plot) in plots {
            let _ =
                write!(body, "<figure><figcaption>{}</figcaption>{plot}</figure>", escape(name));
        }
        body.push_str("</details>");
    }
    body.push_str("<h3>Rows</h3>");
    for row in record.rows_of(family) {
        block(body, record, row);
    }
}

fn block(body: &mut String, record: &Record, row: &RowRecord) {
    let verdict = closest(record, row).map_or_else(String::new, |race| {
        format!(
            "{} ×{} against {} [{} {}]",
            escape(race.ours),
            three_digits(race.ratio.middle),
            escape(race.peer),
            three_digits(race.ratio.low),
            three_digits(race.ratio.high)
        )
    });
    let _ = write!(
        body,
        "<details class=\"row\"><summary><code>{}</code> <span>{verdict}</span></summary><p>{}. Per \
         {}.</p><table><tr><th>contender</th><th>{}</th><th>cold or steady</th><th>allocations</th>\
         <th>ours ×</th><th>also</th></tr>",
        escape(&row.row.id),
        escape(&row.row.text),
        escape(&row.row.unit),
        if row.row.memory { "peak" } else { "median" },
    );
    for outcome in &row.outcomes {
        let _ = write!(body, "<tr><td>{}</td>", escape(&outcome.contender));
        match &outcome.miss {
            Some(miss) => {
                let _ = write!(body, "<td colspan=\"5\">{}</td>", escape(&miss.to_string()));
            }
            None => cells(body, record, row, outcome),
        }
        body.push_str("</tr>");
    }
    body.push_str("</table></details>");
}

fn cells(body: &mut String, record: &Record, row: &RowRecord, outcome: &Outcome) {
    let memory = row.row.memory;
    let median = outcome.median(memory).map_or_else(String::new, |median| value(row, median));
    let noisy = if outcome.is_noisy(memory) { "~" } else { "" };
    let second = if memory {
        outcome.steady_bytes().map(super::bytes)
    } else {
        outcome.cold_median().map(duration)
    };
    let size = outcome.allocated_bytes_per_op().filter(|size| *size > 0.0);
    let size = size.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let allocations =
        outcome.allocations_per_op().map(|count| format!("{}{size}", three_digits(count)));
    let ratio = against(record, row, &outcome.contender).map(|(ours, ratio)| {
        format!(
            "{ours} {} [{} {}]",
            three_digits(ratio.middle),
            three_digits(ratio.low),
            three_digits(ratio.high)
        )
    });
    let also: Vec<String> =
        outcome.figures.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
    let _ = write!(
        body,
        "<td class=\"n\">{median}{noisy}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td>{}</td>",
        second.unwrap_or_default(),
        allocations.unwrap_or_else(|| "-".into()),
        ratio.unwrap_or_default(),
        escape(&also.join(", "))
    );
}

/// Two palettes, chosen by the reader's system preference.
fn style() -> String {
    let light = [
        "#1f5fbf", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#4d7c0f",
        "#475569", "#7c2d12", "#0f766e", "#a21caf",
    ];
    let dark = [
        "#7fb2ff", "#ff9d6b", "#6ee7a0", "#d0a5ff", "#f5c26b", "#67d9ee", "#ff8fc0", "#b6e36b",
        "#b3c0d1", "#e8a98a", "#5eead4", "#f0abfc",
    ];
    let variables = |palette: &[&str]| {
        let mut text = String::new();
        for (index, colour) in palette.iter().enumerate() {
            let _ = write!(text, "--c{index}:{colour};");
        }
        text
    };
    let mut classes = String::new();
    for index in 0..svg::COLOURS {
        let _ = write!(
            classes,
            ".c{index} circle{{fill:var(--c{index})}}.c{index} line,.c{index} polyline\
             {{stroke:var(--c{index});stroke-width:2;fill:none}}"
        );
    }
    format!(
        ":root{{--ink:#1b1f24;--paper:#fff;--faint:#d5d9df;--soft:#5a636e;{}}}\
         @media(prefers-color-scheme:dark){{:root{{--ink:#e6e8eb;--paper:#14171b;--faint:#363c44;\
         --soft:#a3adb8;{}}}}}\
         body{{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);\
         max-width:1040px;margin:2rem auto;padding:0 1rem}}\
         table{{border-collapse:collapse;margin:.5rem 0}}\
         th,td{{text-align:left;padding:.15rem .6rem;border-bottom:1px solid var(--faint);\
         vertical-align:top}}\
         td.n{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}\
         .row summary span{{color:var(--soft);margin-left:1rem}}\
         .warning{{border-left:4px solid var(--c1);padding-left:.6rem}}\
         figure{{margin:1rem 0}}figcaption{{color:var(--soft)}}svg{{width:100%;height:auto}}\
         svg text{{fill:var(--ink);font:12px system-ui,sans-serif}}\
         svg .label{{text-anchor:end}}svg .tick{{text-anchor:middle;fill:var(--soft)}}\
         svg .grid{{stroke:var(--faint)}}svg .one{{stroke:var(--ink);stroke-width:1.5}}{classes}",
        variables(&light),
        variables(&dark)
    )
}
