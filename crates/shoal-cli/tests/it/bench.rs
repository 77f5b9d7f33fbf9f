//! `shoal bench`: the lab as a verb.

use crate::shoal;

#[test]
fn rows_are_listed_and_one_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let listed = shoal(dir.path(), &["bench", "--list"]).ok();
    assert!(listed.contains("contender doc/shoal "), "{listed}");
    assert!(listed.contains("\ndoc/map_put ["), "{listed}");

    let measured = shoal(
        dir.path(),
        &["bench", "--quick", "--filter", "doc/map_put_batch/10", "--json", "record.json"],
    );
    assert!(measured.ok().contains("doc/map_put_batch/10 (per "));
    let reported = shoal(dir.path(), &["bench", "report", "record.json"]).ok();
    assert!(reported.contains("doc/map_put_batch/10 (per "), "{reported}");
}

#[test]
fn what_is_not_there_is_named_once() {
    let dir = tempfile::tempdir().unwrap();
    let error = shoal(dir.path(), &["bench", "report", "no-such-record.json"]).error();
    assert!(error.contains("no-such-record.json"), "{error}");

    let run = shoal(dir.path(), &["bench", "--quick", "--filter", "doc/map_get,no_such_row"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no row matches no_such_row"), "{}", run.stderr);
    assert!(run.stdout.contains("doc/map_get (per "), "{}", run.stdout);
}
