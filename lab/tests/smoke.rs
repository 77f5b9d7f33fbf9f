//! Every row once, at the smallest working sizes: answers checked, nothing failed.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use shoal_lab::engine::Miss;
use shoal_lab::record::Record;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shoal-lab"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("the lab starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_quick_run_covers_every_row_and_fails_none() {
    let folder = std::env::temp_dir().join(format!("shoal-lab-smoke-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (json, html) = (folder.join("record.json"), folder.join("report.html"));
    let output =
        lab(&["--quick", "--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let record = Record::read(&json).unwrap();
    let listed = text(&lab(&["--list"]).stdout);
    let rows = listed.lines().filter(|line| !line.starts_with("contender ")).count();
    assert_eq!(record.rows.len(), rows);
    for row in &record.rows {
        for outcome in &row.outcomes {
            let failed = matches!(outcome.miss, Some(Miss::Failed(_)));
            assert!(!failed, "{} {}: {:?}", row.row.id, outcome.contender, outcome.miss);
        }
    }
    let measured = record
        .rows
        .iter()
        .flat_map(|row| &row.outcomes)
        .filter(|outcome| outcome.miss.is_none())
        .inspect(|outcome| assert!(!outcome.cold.is_empty()))
        .count();
    assert!(measured > 0, "not one row was measured");
    assert!(std::fs::read_to_string(&html).unwrap().ends_with("</html>\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_unknown_row_is_named_and_the_rest_goes_on() {
    let output = lab(&["--quick", "--filter", "19MiB_t2_p1/cold/1,no_such_row"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no row matches no_such_row"));
    assert!(text(&output.stdout).contains("argon/19MiB_t2_p1/cold/1"));
}

#[test]
fn rows_are_left_out() {
    let listed = text(&lab(&["--list", "--filter", "scan_id", "--except", "/5M,/1M"]).stdout);
    let rows: Vec<&str> = listed.lines().filter(|line| !line.starts_with("contender ")).collect();
    assert_eq!(rows.len(), 1, "{listed}");
    assert!(rows[0].starts_with("table/scan_id ["), "{listed}");
}

#[test]
fn a_missing_corpus_and_an_unreadable_record_are_said() {
    let output = lab(&["report", "/nonexistent/record.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nonexistent/record.json"));
}

#[test]
fn revisions_that_do_not_exist_are_both_named() {
    let output = lab(&["ab", "--base", "no-such-base", "--candidate", "no-such-candidate"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("no-such-base") && complaint.contains("no-such-candidate"));
}
