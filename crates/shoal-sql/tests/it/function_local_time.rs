//! The modifiers of dates for local time.

use crate::common::{Scratch, check_all};

/// Local time is the system's: compared with SQLite in a process with a zone of its own.
#[test]
fn local_times_are_the_systems() {
    const ASKED: &str = "SHOAL_TEST_LOCAL_TIMES";
    if std::env::var_os(ASKED).is_none() {
        for zone in ["EST5EDT,M3.2.0,M11.1.0", "XST-5:45", "AEST-10AEDT,M10.1.0,M4.1.0/3", "UTC0"] {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "function_local_time::local_times_are_the_systems"])
                .env("TZ", zone)
                .env(ASKED, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{zone}: {said}");
        }
        return;
    }
    let moments = [
        "'2024-07-01 12:00:00.250'",
        "'2024-01-01'",
        "'2024-03-10 02:30'",
        "'2024-03-10 07:00'",
        "'2024-11-03 01:30'",
        "'2024-04-06 16:30'",
        "'1900-03-01'",
        "'-1000-07-01 03:00'",
        "'9999-12-31 23:59'",
        "'2038-01-18 00:00'",
        "'2038-01-19'",
        "'1969-12-31 23:59:59.999'",
        "0",
        "2460000.5",
        "1e10",
        "'12:00'",
        "'2024-07-01T12:00Z'",
        "'2024-07-01 12:00+02:00'",
        "null",
        "'x'",
        "-4713",
    ];
    let modifiers = [
        "'localtime'",
        "'utc'",
        "'localtime', 'utc'",
        "'utc', 'localtime'",
        "'localtime', 'localtime'",
        "'utc', 'utc'",
        "'UTC', 'start of day', 'LocalTime'",
        "'localtime', 'subsec'",
        "'subsec', 'utc'",
        "'auto', 'localtime', '+1 month'",
        "'unixepoch', 'localtime'",
        "'localtime', 'weekday 0', 'utc'",
        "'+1 day', 'utc', '-1 hour'",
    ];
    let mut queries = String::new();
    for moment in moments {
        for modifier in modifiers {
            queries += &format!(
                "select datetime({moment}, {modifier}), strftime('%J %s %f', {moment}, {modifier}), julianday({moment}, {modifier});"
            );
        }
    }
    let scratch = Scratch::new("create table t(a)");
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
    let now = "select abs(unixepoch('now', 'localtime') - unixepoch('now')) / 60;";
    check_all(&mut scratch.ours(), &scratch.theirs(), now);
}
