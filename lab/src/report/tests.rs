//! Reports of a small record, made by hand.

use super::*;
use crate::engine::{About, Miss};
use crate::environment::Environment;
use crate::record::{Listed, Outcome, Sample, VERSION};
use crate::workload::{Row, Scale};

fn measured(contender: &str, nanos: u64) -> Outcome {
    let sample = |round| Sample {
        round,
        place: 0,
        nanos,
        ops: 1,
        allocations: Some(2),
        allocated_bytes: Some(2048),
        peak_kib: None,
        steady_kib: None,
    };
    Outcome {
        contender: contender.into(),
        miss: None,
        cold: vec![sample(0)],
        warm: (0..4).map(sample).collect(),
        figures: vec![("bytes".into(), 12.0)],
    }
}

fn record() -> Record {
    let row = |name: &str, size, outcomes| RowRecord {
        row: Row::new(Family::Doc, name, "op", "text <of> the row").in_series("grow", size),
        outcomes,
    };
    Record {
        version: VERSION,
        started_unix: 0,
        seconds: 1.0,
        command: String::new(),
        scale: Scale::Full,
        seed: 1,
        rounds: 4,
        missing: vec!["doc/late".into(), "doc/later".into()],
        environment: Environment::default(),
        warnings: vec!["the machine was busy".into()],
        contenders: vec![
            Listed { family: Family::Doc, about: About::ours("shoal", "") },
            Listed { family: Family::Doc, about: About::peer("peer", "1", "") },
        ],
        rows: vec![
            row("won", 10, vec![measured("shoal", 100), measured("peer", 400)]),
            row("lost", 20, vec![measured("shoal", 300), measured("peer", 100)]),
            row(
                "alone",
                30,
                vec![Outcome::missed("shoal", Miss::not_built()), measured("peer", 100)],
            ),
        ],
    }
}

#[test]
fn the_table_names_wins_losses_gaps_and_warnings() {
    let table = terminal::table(&record());
    for part in [
        "warning: the machine was busy",
        "warning: the run was cut off before 2 more rows",
        "shoal x4.00",
        "shoal x0.33",
        "not run: not built",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert!(table.contains("ahead of every peer in 1, behind the best in 1"));
}

#[test]
fn the_chapter_puts_losses_first() {
    let chapter = markdown::chapter(&record(), "today.json");
    let lost = chapter.find("Where we lose: 1").expect("one loss");
    let won = chapter.find("Where we win: 1").expect("one win");
    assert!(lost < won);
    assert!(chapter.contains("`today.json`"));
    assert!(chapter.contains("| `doc/alone` | not built | 100 ns |"), "{chapter}");
}

#[test]
fn the_page_is_whole_escaped_and_asks_for_nothing() {
    let page = html::page(&record());
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(page.contains("text &lt;of&gt; the row"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn figures_have_three_digits() {
    for (nanos, text) in
        [(0.5, "0.50 ns"), (12.34, "12.3 ns"), (1_234.0, "1.23 µs"), (5e9, "5.00 s")]
    {
        assert_eq!(duration(nanos), text);
    }
    assert_eq!(bytes(3.0 * 1024.0 * 1024.0), "3.00 MiB");
}

#[test]
fn records_of_one_commit_are_put_together_and_others_refused() {
    let mut whole = record();
    let mut other = record();
    other.rows.truncate(1);
    other.rows[0].row.id = "doc/late".into();
    other.missing = vec!["doc/later".into(), "doc/won".into(), "doc/last".into()];
    let stranger = Record {
        environment: Environment { commit: "another".into(), ..Environment::default() },
        ..other.clone()
    };
    assert!(whole.take_in(stranger).is_err_and(|error| error.contains("another")));
    whole.take_in(other).expect("one commit, one machine");
    assert_eq!(whole.rows.len(), 4);
    assert_eq!(whole.missing, ["doc/last", "doc/later"], "those that neither of them reached");
    assert_eq!(whole.contenders.len(), 2);
    assert!(whole.warnings.contains(&"Documents: the machine was busy".to_owned()));
}

#[test]
fn a_picture_has_a_bar_for_each_row_and_refuses_rows_without_a_pair() {
    let record = record();
    let rows = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let svg = picture::picture(&record, "r.json", "peer", &rows(&["doc/won", "doc/lost"])).unwrap();
    assert_eq!(svg.matches("<rect").count(), 2);
    assert!(svg.contains("4.00×") && svg.contains("0.33×") && svg.contains("r.json"), "{svg}");
    for absent in ["doc/alone", "doc/none"] {
        picture::picture(&record, "r.json", "peer", &rows(&[absent])).unwrap_err();
    }
}
