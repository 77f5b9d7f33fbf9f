//! `shoal tour`: passes, and leaves a file SQLite calls sound.

use crate::shoal;

#[test]
fn the_tour_holds_every_check() {
    let dir = tempfile::tempdir().unwrap();
    let testdata = shoal_testkit::testdata("");
    let told =
        shoal(dir.path(), &["tour", "--dir", "tour", "--testdata", testdata.to_str().unwrap()])
            .ok();
    assert!(told.contains("all held"), "{told}");
    let file = dir.path().join("tour/tour.db");
    let sqlite = rusqlite::Connection::open(file).unwrap();
    let verdict: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let tracks: i64 = sqlite.query_row("SELECT count(*) FROM Track", [], |row| row.get(0)).unwrap();
    assert_eq!(tracks, 3503);
}

#[test]
fn a_folder_that_exists_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let error = shoal(dir.path(), &["tour", "--dir", "."]).error();
    assert!(error.contains("exists"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
