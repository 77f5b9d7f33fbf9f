//! Indexes of neighbours: answers beside exact ones, rows written and taken back, files changed by
//! sqlite-vec.

use crate::support::{Answer, Cell, Random, ours, run, shoal, sqlite, theirs};
use shoal_sql::{Connection, Limits, Value};

const DIMENSIONS: usize = 12;

/// Vectors about some centres.
struct Vectors {
    random: Random,
    centres: Vec<Vec<f32>>,
}

impl Vectors {
    fn new(seed: u64) -> Vectors {
        let mut random = Random(seed);
        let mut number = || random.next(2001) as f32 / 100.0 - 10.0;
        let centres = (0..30).map(|_| (0..DIMENSIONS).map(|_| number()).collect()).collect();
        Vectors { random, centres }
    }

    fn next(&mut self) -> Vec<u8> {
        let centre = self.random.next(self.centres.len() as u64) as usize;
        let mut near = || self.random.next(2001) as f32 / 300.0 - 3.3;
        let floats: Vec<f32> = self.centres[centre].iter().map(|it| it + near()).collect();
        floats.iter().flat_map(|float| float.to_le_bytes()).collect()
    }
}

fn insert(connection: &mut Connection, rowid: i64, vector: Vec<u8>, random: &mut Random) {
    let sql = "INSERT INTO v(rowid, e, p, n, word) VALUES (?1, ?2, ?3, ?4, ?5)";
    let word = ["red", "green", "a longer word of its own"][random.next(3) as usize];
    let (p, n) = (random.next(4) as i64, random.next(100) as i64);
    let values = [Value::Int(rowid), Value::Blob(vector), p.into(), n.into(), Value::text(word)];
    run(connection, sql, &values);
}

const CREATE: &str = "CREATE VIRTUAL TABLE v USING vec0(e float[12], p integer partition key, \
                      n integer, word text, chunk_size=256)";

fn filled(rows: i64) -> (Connection, Vectors) {
    let mut connection = shoal(std::path::Path::new(":memory:"));
    let vectors = fill(&mut connection, rows);
    (connection, vectors)
}

fn fill(connection: &mut Connection, rows: i64) -> Vectors {
    ours(connection, CREATE).unwrap();
    let (mut vectors, mut random) = (Vectors::new(7), Random(5));
    run(connection, "BEGIN", &[]);
    for rowid in 1..=rows {
        insert(connection, rowid, vectors.next(), &mut random);
    }
    run(connection, "COMMIT", &[]);
    vectors
}

fn asked(connection: &mut Connection, sql: &str, query: &[u8]) -> Answer {
    let hex: String = query.iter().map(|byte| format!("{byte:02x}")).collect();
    ours(connection, &sql.replace(":q", &format!("x'{hex}'")))
}

fn distances(rows: &[Vec<Cell>]) -> Vec<f64> {
    let real = |row: &Vec<Cell>| match row[1] {
        Cell::Real(real) => real,
        _ => f64::NAN,
    };
    rows.iter().map(real).collect()
}

/// The share of rows as near as those of an exact search, over some queries; every row meets the
/// conditions, none comes twice.
fn recall(connection: &mut Connection, vectors: &mut Vectors, conditions: &str, ef: usize) -> f64 {
    let (mut found, mut all) = (0, 0);
    for _ in 0..40 {
        let query = vectors.next();
        let sql = |ef: usize| {
            format!(
                "SELECT rowid, distance, p, n, word FROM v WHERE e MATCH :q AND k = 10 \
                 AND ef = {ef} {conditions} ORDER BY distance"
            )
        };
        let exact = asked(connection, &sql(0), &query).unwrap();
        let got = asked(connection, &sql(ef), &query).unwrap();
        assert_eq!(got.len(), exact.len());
        let mut rowids: Vec<_> = got.iter().map(|row| format!("{:?}", row[0])).collect();
        rowids.sort();
        rowids.dedup();
        assert_eq!(rowids.len(), got.len(), "a row came twice");
        let again = asked(connection, &sql(ef), &query).unwrap();
        assert_eq!(got, again, "answers are the same each time");
        let (near, exact) = (distances(&got), distances(&exact));
        assert!(near.is_sorted());
        let farthest = exact.last().copied().unwrap_or(0.0);
        found += near.iter().filter(|distance| **distance <= farthest).count();
        all += exact.len();
    }
    found as f64 / all as f64
}

fn check(connection: &mut Connection) {
    let faults = ours(connection, "SELECT * FROM vec_check('v')").unwrap();
    assert_eq!(faults, [[Cell::Text("ok".into())]]);
    let nodes = ours(connection, "SELECT (SELECT count(*) FROM i) = count(*) FROM v").unwrap();
    assert_eq!(nodes, [[Cell::Int(1)]]);
}

/// True where searches of this state of the file go by the index: another answer than the exact one
/// at the smallest `ef`, for some query.
fn is_asked(connection: &mut Connection, vectors: &mut Vectors) -> bool {
    (0..40).any(|_| {
        let query = vectors.next();
        let sql = "SELECT rowid FROM v WHERE e MATCH :q AND k = 4 AND ef = ";
        asked(connection, &format!("{sql}4"), &query)
            != asked(connection, &format!("{sql}0"), &query)
    })
}

#[test]
fn an_index_finds_nearly_what_an_exact_search_finds_under_conditions_too() {
    let (mut connection, mut vectors) = filled(4000);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=8)").unwrap();
    check(&mut connection);
    assert!(is_asked(&mut connection, &mut vectors));
    for (conditions, least) in [
        ("", 0.95),
        ("AND n < 50", 0.95),
        ("AND n < 20 AND word > 'b'", 0.95),
        ("AND p = 2", 0.95),
        ("AND p = 2 AND n = 7", 1.0),
        ("AND word = 'red'", 0.95),
        ("AND rowid > 3990", 1.0),
        ("AND rowid IN (1, 5, 77, 1002)", 1.0),
        ("AND word IN ('green', 'red')", 0.9),
        ("AND distance > 2.5", 1.0),
        ("AND distance < 6.5", 0.9),
    ] {
        let share = recall(&mut connection, &mut vectors, conditions, 64);
        assert!(share >= least, "{conditions}: {share}");
    }
    let none = "SELECT rowid FROM v WHERE e MATCH :q AND k = 3 AND n = 1000";
    assert_eq!(asked(&mut connection, none, &vectors.next()).unwrap(), Vec::<Vec<Cell>>::new());
    let all = "SELECT count(*), count(DISTINCT rowid) FROM v WHERE e MATCH :q AND k = 4000";
    let all = asked(&mut connection, all, &vectors.next()).unwrap();
    assert_eq!(all, [[Cell::Int(4000), Cell::Int(4000)]]);
    let plan = "EXPLAIN QUERY PLAN SELECT rowid FROM v WHERE e MATCH :q AND k = 3";
    let told = format!("{:?}", asked(&mut connection, plan, &vectors.next()).unwrap());
    assert!(told.contains("INDEX 2:MK index i"), "{told}");
}

#[test]
fn rows_deleted_never_come_back_and_rows_changed_move() {
    let (mut connection, mut vectors) = filled(2500);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=6)").unwrap();
    let mut random = Random(11);
    for round in 0..3 {
        run(&mut connection, "BEGIN", &[]);
        for _ in 0..150 {
            let rowid = 1 + random.next(2600) as i64;
            match random.next(4) {
                0 => {
                    run(&mut connection, "DELETE FROM v WHERE rowid = ?1", &[Value::Int(rowid)]);
                }
                1 => {
                    let values = [Value::Int(rowid), Value::Blob(vectors.next())];
                    run(&mut connection, "UPDATE v SET e = ?2 WHERE rowid = ?1", &values);
                }
                2 => {
                    let sql = "UPDATE v SET p = (p + 1) % 4, n = 7 WHERE rowid = ?1";
                    run(&mut connection, sql, &[Value::Int(rowid)]);
                }
                _ => {
                    run(&mut connection, "DELETE FROM v WHERE rowid = ?1", &[Value::Int(rowid)]);
                    insert(&mut connection, rowid, vectors.next(), &mut random);
                }
            }
        }
        // Half of a transaction is taken back, with the nodes of its rows.
        run(&mut connection, "SAVEPOINT half", &[]);
        run(&mut connection, "DELETE FROM v WHERE n < 50", &[]);
        run(&mut connection, "ROLLBACK TO half", &[]);
        if round == 1 {
            run(&mut connection, "INSERT INTO i(i) VALUES ('rebuild')", &[]);
            insert(&mut connection, 9000, vectors.next(), &mut random);
        }
        run(&mut connection, "COMMIT", &[]);
        check(&mut connection);
        assert!(recall(&mut connection, &mut vectors, "", 64) > 0.95);
    }
    assert!(is_asked(&mut connection, &mut vectors));
    // Within the transaction a search is exact, and sees the transaction's own rows.
    run(&mut connection, "BEGIN", &[]);
    run(&mut connection, "DELETE FROM v WHERE rowid < 2000", &[]);
    assert!(!is_asked(&mut connection, &mut vectors));
    run(&mut connection, "COMMIT", &[]);
    check(&mut connection);
    run(&mut connection, "DELETE FROM v", &[]);
    check(&mut connection);
    insert(&mut connection, 3, vectors.next(), &mut random);
    check(&mut connection);
}

#[test]
fn an_index_grown_row_by_row_is_as_whole_as_one_built() {
    let mut connection = shoal(std::path::Path::new(":memory:"));
    ours(&mut connection, CREATE).unwrap();
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=8)").unwrap();
    let (mut vectors, mut random) = (Vectors::new(3), Random(5));
    run(&mut connection, "BEGIN", &[]);
    for rowid in 1..=1500 {
        insert(&mut connection, rowid, vectors.next(), &mut random);
    }
    run(&mut connection, "COMMIT", &[]);
    check(&mut connection);
    assert!(recall(&mut connection, &mut vectors, "", 32) > 0.95);
    assert!(is_asked(&mut connection, &mut vectors));
}

#[test]
fn sqlite_vec_goes_on_with_the_table_and_the_index_notices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut connection = shoal(&path);
    let mut vectors = fill(&mut connection, 1500);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=6)").unwrap();
    assert!(is_asked(&mut connection, &mut vectors));
    for (sql, heals) in [
        ("UPDATE v SET e = (SELECT e FROM v WHERE rowid = 9) WHERE rowid = 700", "refresh"),
        ("DELETE FROM v WHERE rowid = 12", "refresh"),
        (
            "INSERT INTO v(rowid, e, p, n, word) SELECT 5000, e, p, n, word FROM v WHERE rowid = 3",
            "rebuild",
        ),
        ("DELETE FROM v WHERE rowid > 40", "refresh"),
    ] {
        drop(connection);
        let peer = sqlite(&path);
        theirs(&peer, sql).unwrap();
        let rows = theirs(&peer, "SELECT count(*) FROM v").unwrap();
        drop(peer);
        connection = shoal(&path);
        assert_eq!(ours(&mut connection, "SELECT count(*) FROM v").unwrap(), rows);
        assert!(!is_asked(&mut connection, &mut vectors), "{sql}: the index is not asked");
        let told = ours(&mut connection, "SELECT * FROM vec_check('v')").unwrap();
        assert!(format!("{told:?}").contains("older than the rows of v"), "{told:?}");
        // A row written by Shoal makes nothing fresh.
        run(&mut connection, "UPDATE v SET e = e WHERE rowid = 20", &[]);
        assert!(!is_asked(&mut connection, &mut vectors), "{sql}: the index is not asked");
        run(&mut connection, &format!("INSERT INTO i(i) VALUES ('{heals}')"), &[]);
        check(&mut connection);
    }
    drop(connection);
    // The peer drops the table; the index without a table is dropped by its own name.
    theirs(&sqlite(&path), "DROP TABLE v").unwrap();
    connection = shoal(&path);
    assert_eq!(ours(&mut connection, "SELECT count(*) FROM i").unwrap(), [[Cell::Int(39)]]);
    assert!(ours(&mut connection, "INSERT INTO i(i) VALUES ('rebuild')").is_err());
    ours(&mut connection, "DROP TABLE i").unwrap();
    let left = ours(&mut connection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'i%'");
    assert_eq!(left.unwrap(), [[Cell::Int(0)]]);
}

#[test]
fn an_index_follows_its_table_and_refuses_what_it_cannot_be() {
    let (mut connection, _) = filled(30);
    for (sql, why) in [
        ("CREATE VIRTUAL TABLE i USING vec_index(v)", "a vec0 table and its vector column"),
        ("CREATE VIRTUAL TABLE i USING vec_index(v, n)", "table v has no vector column n"),
        ("CREATE VIRTUAL TABLE i USING vec_index(w, e)", "there is no vec0 table w"),
        ("CREATE VIRTUAL TABLE i USING vec_index(v, e, m=1)", "m is a number of 4 to 64"),
    ] {
        let error = ours(&mut connection, sql).unwrap_err();
        assert!(error.contains(why), "{sql}: {error}");
    }
    ours(&mut connection, "CREATE VIRTUAL TABLE l USING vec0(e float[4] distance_metric=l1)")
        .unwrap();
    let error = ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(l, e)").unwrap_err();
    assert!(error.contains("searched without an index"), "{error}");
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e)").unwrap();
    assert!(ours(&mut connection, "INSERT INTO i(links) VALUES (1)").is_err());
    assert!(ours(&mut connection, "DELETE FROM i").is_err());
    assert!(ours(&mut connection, "DELETE FROM i_nodes").is_err());
    let error = ours(&mut connection, "ALTER TABLE v RENAME TO w").unwrap_err();
    assert!(error.contains("vec_index i"), "{error}");
    ours(&mut connection, "ALTER TABLE i RENAME TO j").unwrap();
    assert_eq!(
        ours(&mut connection, "SELECT count(*), count(parent), min(links) > 0 FROM j").unwrap(),
        [[Cell::Int(30), Cell::Int(29), Cell::Int(1)]]
    );
    ours(&mut connection, "DROP TABLE v").unwrap();
    let left = ours(&mut connection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'j%'");
    assert_eq!(left.unwrap(), [[Cell::Int(0)]]);
}

#[test]
fn every_kind_of_vector_is_indexed() {
    for (kind, cast) in [
        ("float[12] distance_metric=cosine", "?2"),
        ("f16[12]", "vec_f16(vec_f32(?2))"),
        ("int8[12]", "vec_quantize_int8(vec_normalize(?2), 'unit')"),
        ("int8[12] distance_metric=l1", "vec_quantize_int8(vec_normalize(?2), 'unit')"),
        ("bit[96]", "vec_bit(substr(?2, 1, 12))"),
    ] {
        let mut connection = shoal(std::path::Path::new(":memory:"));
        ours(&mut connection, &format!("CREATE VIRTUAL TABLE v USING vec0(e {kind})")).unwrap();
        let mut vectors = Vectors::new(3);
        run(&mut connection, "BEGIN", &[]);
        let insert = format!("INSERT INTO v(rowid, e) VALUES (?1, {cast})");
        for rowid in 1..=1200 {
            run(&mut connection, &insert, &[Value::Int(rowid), Value::Blob(vectors.next())]);
        }
        run(&mut connection, "COMMIT", &[]);
        ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=8)").unwrap();
        check(&mut connection);
        let (mut found, mut all) = (0, 0);
        for _ in 0..30 {
            let query = vectors.next();
            let sql = |ef: usize| {
                let cast = cast.replace("?2", ":q");
                format!(
                    "SELECT rowid, distance FROM v WHERE e MATCH {cast} AND k = 10 AND ef = {ef}"
                )
            };
            let exact = distances(&asked(&mut connection, &sql(0), &query).unwrap());
            let near = distances(&asked(&mut connection, &sql(40), &query).unwrap());
            found += near.iter().filter(|distance| **distance <= exact[9]).count();
            all += 10;
        }
        assert!(found as f64 / all as f64 > 0.9, "{kind}: {found} of {all}");
    }
}

#[test]
fn with_little_memory_nodes_are_read_one_by_one_and_built_row_by_row() {
    let (mut connection, mut vectors) = filled(1500);
    let little = Limits { memory_bytes: Some(50_000), ..Limits::default() };
    connection.set_limits(little);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=6)").unwrap();
    assert!(is_asked(&mut connection, &mut vectors));
    assert!(recall(&mut connection, &mut vectors, "", 32) > 0.95);
    assert!(recall(&mut connection, &mut vectors, "AND n < 50", 32) == 1.0);
    // The same nodes are walked over in memory: answers do not tell the ways apart.
    let sql = "SELECT rowid, distance FROM v WHERE e MATCH :q AND k = 5 AND ef = 8";
    for _ in 0..20 {
        let query = vectors.next();
        connection.set_limits(little);
        let paged = asked(&mut connection, sql, &query).unwrap();
        connection.set_limits(Limits::default());
        assert_eq!(asked(&mut connection, sql, &query).unwrap(), paged);
    }
    check(&mut connection);
}

#[test]
fn the_building_of_an_index_is_interrupted() {
    let (mut connection, _) = filled(1500);
    let mut left = 40;
    connection.set_progress_handler(
        1,
        Some(Box::new(move || {
            left -= 1;
            left == 0
        })),
    );
    let error = ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e)").unwrap_err();
    assert!(error.contains("interrupted"), "{error}");
    connection.set_progress_handler(1, None);
    let left = ours(&mut connection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'i%'");
    assert_eq!(left.unwrap(), [[Cell::Int(0)]]);
}
