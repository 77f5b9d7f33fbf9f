//! Reading pragmas, beside SQLite's.

use crate::common::{Scratch, check, check_all, ours};

#[test]
fn foreign_keys_are_checked() {
    let scratch = Scratch::new(
        "PRAGMA foreign_keys = off;
         CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE, x INT, y TEXT,
             UNIQUE (x, y));
         CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
         CREATE TABLE c(a REFERENCES p, b REFERENCES p(name), d, e, f REFERENCES w, g REFERENCES gone,
             FOREIGN KEY (e, d) REFERENCES p(y, x), FOREIGN KEY (a) REFERENCES p(id));
         CREATE TABLE cw(k PRIMARY KEY, a TEXT REFERENCES p(id), self REFERENCES cw) WITHOUT ROWID;
         CREATE TABLE cg(a INT, twice AS (a * 2) REFERENCES p, kept AS (a + 1) STORED REFERENCES p(id));
         CREATE TABLE tree(id INTEGER PRIMARY KEY, parent REFERENCES tree);
         INSERT INTO p VALUES (1, 'One', 1, 'a'), (2, 'two', 2, 'b'), (4, '5', NULL, 'c');
         INSERT INTO w VALUES ('k1', 1), ('2', 2);
         INSERT INTO c VALUES (1, 'ONE', 1, 'a', 'k1', NULL), (2.0, 5, '2', 'b', 2, NULL),
             ('2', 'x', 1, 'b', x'6b31', 1), (3, NULL, NULL, 'zz', 'K1', 'g'),
             ('abc', 'TWO', 2, 'a', NULL, NULL), (NULL, NULL, NULL, NULL, NULL, NULL);
         INSERT INTO cw VALUES ('r', '1', 'r'), ('s', '3', 's'), ('t', ' 2 ', 'nobody'), ('u', NULL, NULL);
         INSERT INTO cg VALUES (1), (2), (3), (NULL);
         INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 9), (5, '3');
         CREATE VIEW v AS SELECT 1;",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    check_all(
        &mut connection,
        &peer,
        "PRAGMA foreign_key_check; PRAGMA foreign_key_check(c); PRAGMA foreign_key_check('cw');
         PRAGMA foreign_key_check = tree; PRAGMA main.foreign_key_check(cg);
         PRAGMA foreign_key_check(p); PRAGMA foreign_key_check(v); PRAGMA foreign_key_check(nope);
         SELECT \"table\", rowid, parent, fkid FROM pragma_foreign_key_check;
         SELECT count(*), parent FROM pragma_foreign_key_check('c') GROUP BY parent;",
    );
    let rows = ours(&mut connection, "PRAGMA foreign_key_check").unwrap().rows;
    assert!(rows.len() > 10, "{rows:?}");
}

#[test]
fn foreign_keys_that_nothing_answers_to_are_an_error() {
    let scratch = Scratch::new(
        "PRAGMA foreign_keys = off;
         CREATE TABLE p(a, b UNIQUE, c UNIQUE); CREATE UNIQUE INDEX p_a ON p(a) WHERE b > 0;
         CREATE UNIQUE INDEX p_c ON p(c COLLATE NOCASE);
         CREATE TABLE no_key(x REFERENCES p); CREATE TABLE partial(x REFERENCES p(a));
         CREATE TABLE fine(x REFERENCES p(b)); CREATE TABLE other(x REFERENCES p(c));
         INSERT INTO fine VALUES (1); INSERT INTO other VALUES ('x');",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in ["no_key", "partial", "fine", "other"] {
        check(&mut connection, &peer, &format!("PRAGMA foreign_key_check({sql})"), &[]).unwrap();
    }
    let error = ours(&mut connection, "PRAGMA foreign_key_check").unwrap_err().to_string();
    assert_eq!(error, "foreign key mismatch - \"no_key\" referencing \"p\"");
}

/// `NOCASE` looks at nothing behind a NUL but the length.
#[test]
fn nocase_beside_a_nul() {
    let scratch = Scratch::new(
        "CREATE TABLE t(a TEXT COLLATE NOCASE);
         INSERT INTO t VALUES ('ab'), ('AB'), ('a' || char(0) || 'x'), ('A' || char(0) || 'y'),
             ('a' || char(0)), ('a'), ('A' || char(0) || 'xyz'), ('b' || char(0) || 'q'), ('B'),
             ('a' || char(0) || 'Longer text'), (char(0)), (char(0) || 'z'), (''), ('a ');
         CREATE TABLE i(a TEXT COLLATE NOCASE); INSERT INTO i SELECT a FROM t;
         CREATE INDEX i_a ON i(a);",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    check_all(
        &mut connection,
        &peer,
        "SELECT hex(x.a), hex(y.a), x.a = y.a, x.a < y.a, x.a IN (y.a, 'q') FROM t x, t y;
         SELECT count(*), min(length(hex(a))) FROM t GROUP BY a ORDER BY a;
         SELECT count(*) FROM (SELECT DISTINCT a FROM t);
         SELECT count(*) FROM i GROUP BY a ORDER BY a;
         SELECT hex(a) FROM i WHERE a = 'A' || char(0) || 'Q' ORDER BY rowid;
         SELECT hex(a) FROM i WHERE a > 'A' || char(0) AND a <= 'B' ORDER BY a, rowid;
         SELECT count(*) FROM t JOIN i USING (a); SELECT count(*) FROM t x JOIN t y ON x.a = y.a;
         SELECT length(hex(max(a))), length(hex(min(a))) FROM t;
         SELECT count(*) FROM (SELECT a FROM t UNION SELECT a FROM i);
         SELECT count(*) FROM (SELECT a FROM t INTERSECT SELECT 'A' || char(0) || '?' COLLATE NOCASE);",
    );
}

#[test]
fn all_tables_are_listed_the_temporary_schema_too() {
    let scratch = Scratch::new(
        "create table t(a, b); create table u(c primary key, d) without rowid;
         create view v as select 1 as x, 2 as y; create table s(a int) strict;",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "pragma table_list; select * from pragma_table_list order by schema, name;
         select * from pragma_table_list where schema = 'temp'; pragma temp.table_list;
         pragma main.table_list; pragma table_list(v); pragma table_list(sqlite_master);
         pragma table_list(sqlite_schema); pragma table_list(sqlite_temp_master);",
    );
}
