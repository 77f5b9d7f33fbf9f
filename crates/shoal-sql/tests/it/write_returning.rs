//! `RETURNING`, `ON CONFLICT`, `WITH` before `INSERT`, `UPDATE` and `DELETE`, `UPDATE ... FROM`,
//! row values.

use crate::write_support::script;

#[test]
fn returning() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT COLLATE NOCASE, c AS (b || '!'), d DEFAULT 7)",
        "INSERT INTO t (b) VALUES ('x'), ('Y') RETURNING *",
        "INSERT INTO t (b) VALUES ('z') RETURNING a, rowid, b = 'Z', c, d + 1 AS e, (SELECT count(*) FROM t)",
        "INSERT INTO t (b) VALUES ('z') RETURNING t.a, T.b, main.t.c",
        "INSERT INTO t (b) VALUES ('q') RETURNING t.*",
        "INSERT INTO t (b) VALUES ('q') RETURNING nosuch",
        "INSERT INTO t (b) VALUES ('q') RETURNING max(a)",
        "INSERT OR IGNORE INTO t (a, b) VALUES (1, 'q'), (10, 'r') RETURNING a, b",
        "REPLACE INTO t (a, b) VALUES (1, 'q') RETURNING a, b, changes(), last_insert_rowid()",
        "UPDATE t SET b = b || a, d = NULL WHERE a < 3 RETURNING a, b, d",
        "UPDATE t AS u SET b = 'k' WHERE u.a = 2 RETURNING b, t.a",
        "UPDATE t AS u SET b = 'k' WHERE u.a = 2 RETURNING u.a",
        "UPDATE t SET a = a + 100 RETURNING a, rowid",
        "DELETE FROM t WHERE a > 102 RETURNING *",
        "DELETE FROM t RETURNING a",
        "CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID",
        "INSERT INTO w VALUES ('b', 2), ('a', 1) RETURNING k, v, k || v",
        "INSERT INTO w VALUES ('c', 3) RETURNING rowid",
        "UPDATE w SET v = v * 10 RETURNING *",
        "DELETE FROM w WHERE v = 10 RETURNING k",
        "INSERT INTO w SELECT 'x' || v, v FROM w RETURNING *",
        "INSERT INTO w DEFAULT VALUES RETURNING *",
        "CREATE TABLE n (a)",
        "INSERT INTO n DEFAULT VALUES RETURNING *, rowid",
        "INSERT INTO n VALUES (5) RETURNING CASE a WHEN 5 THEN 'five' END AS word, a IN (SELECT a FROM n)",
    ]);
}

#[test]
fn upserts() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE, c UNIQUE, n DEFAULT 0)",
        "INSERT INTO t (a, b, c) VALUES (1, 'x', 'p'), (2, 'y', 'q')",
        "INSERT INTO t (a, b, c) VALUES (1, 'z', 'r') ON CONFLICT DO NOTHING",
        "INSERT INTO t (a, b, c) VALUES (1, 'z', 'r') ON CONFLICT (a) DO NOTHING",
        "INSERT INTO t (a, b, c) VALUES (3, 'x', 'r') ON CONFLICT (a) DO NOTHING",
        "INSERT INTO t (a, b, c) VALUES (1, 'z', 'r') ON CONFLICT (a) DO UPDATE SET b = excluded.b, n = n + 1",
        "INSERT INTO t (a, b, c) VALUES (9, 'z', 's') ON CONFLICT (b) DO UPDATE SET c = c || excluded.c WHERE n < 5 RETURNING *",
        "INSERT INTO t (a, b, c) VALUES (9, 'z', 's') ON CONFLICT (b) DO UPDATE SET c = 1 WHERE n > 5 RETURNING *",
        "INSERT INTO t (a, b, c) VALUES (9, 'z', 'q') ON CONFLICT (c) DO UPDATE SET n = -1 ON CONFLICT (b) DO UPDATE SET n = -2",
        "INSERT INTO t (a, b, c) VALUES (1, 'y', 'q') ON CONFLICT (b) DO UPDATE SET n = 30 ON CONFLICT (a) DO UPDATE SET n = 31",
        "INSERT INTO t (a, b, c) VALUES (1, 'y', 'q') ON CONFLICT (c) DO NOTHING ON CONFLICT DO UPDATE SET n = 99",
        "INSERT INTO t (a, b, c) VALUES (1, 'n', 'n') ON CONFLICT (c) DO NOTHING ON CONFLICT DO UPDATE SET n = 98",
        "INSERT INTO t (a, b, c) VALUES (2, 'z', 'w') ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (n) DO NOTHING",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (a) DO NOTHING ON CONFLICT (n) DO NOTHING",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (nosuch) DO NOTHING",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (a) DO UPDATE SET nosuch = 1",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (rowid) DO UPDATE SET b = 2",
        "INSERT INTO t (a, b) VALUES (5, 'five') ON CONFLICT (rowid) DO UPDATE SET b = 2",
        "INSERT OR REPLACE INTO t (a, b, c) VALUES (5, 'y', 'q') ON CONFLICT (a) DO UPDATE SET n = 7",
        "INSERT INTO t AS u (a, b) VALUES (5, 'five') ON CONFLICT (a) DO UPDATE SET n = u.n + excluded.a, (b, c) = (SELECT 'k', u.a)",
        "INSERT INTO t (a, b) SELECT a, 'again' || a FROM t WHERE true ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "INSERT INTO t (a, b) VALUES (5, 6) ON CONFLICT (a) DO UPDATE SET a = excluded.a + 100, n = (SELECT max(n) FROM t)",
        "SELECT * FROM t",
        "CREATE TABLE w (k, l COLLATE NOCASE, v, PRIMARY KEY (k, l)) WITHOUT ROWID",
        "INSERT INTO w VALUES (1, 'a', 1), (1, 'A', 2) ON CONFLICT (l, k) DO UPDATE SET v = v + excluded.v",
        "INSERT INTO w VALUES (1, 'A', 2) ON CONFLICT (k) DO UPDATE SET v = v + excluded.v",
        "INSERT INTO w VALUES (1, 'A', 2) ON CONFLICT (k, l COLLATE BINARY) DO UPDATE SET v = 100",
        "SELECT * FROM w",
        "CREATE TABLE s (word TEXT PRIMARY KEY, count INT DEFAULT 1)",
        "INSERT INTO s (word) VALUES ('a'), ('b'), ('a'), ('a') ON CONFLICT (word) DO UPDATE SET count = count + 1 RETURNING *",
    ]);
}

/// A query in a `SET` sees the rows changed before, unless it depends on no row: then it runs once.
#[test]
fn queries_in_assignments() {
    script(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)",
        "CREATE TABLE u (k INTEGER PRIMARY KEY, v)",
        "INSERT INTO t VALUES (1, 1, 10, 0), (2, 2, 20, 0), (3, 3, 30, 0), (4, 2, 40, 0), (5, 1, 50, 0)",
        "INSERT INTO u VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "UPDATE t SET a = (SELECT count(*) FROM t AS o WHERE o.a >= t.a) RETURNING id, a",
        "UPDATE t SET a = (SELECT count(*) FROM t WHERE a > 2) + a RETURNING id, a",
        "UPDATE t SET a = 7 WHERE id = 9 AND a = (SELECT max(a) FROM t)",
        "UPDATE t SET a = (SELECT sum(o.b) FROM t AS o WHERE o.id <= t.id), b = b + 1 RETURNING *",
        "UPDATE t SET (a, b) = (SELECT o.b, o.a FROM t AS o WHERE o.id = t.id - 1) RETURNING *",
        "UPDATE t SET (b, a) = (SELECT max(b), min(b) FROM t) RETURNING *",
        "UPDATE t SET (b, a) = (SELECT 1, 2, 3)",
        "UPDATE t SET (b, a) = (SELECT k, v FROM u WHERE k = t.id), c = (SELECT count(*) FROM u) RETURNING *",
        "UPDATE t SET (b, a) = (SELECT k, v FROM u WHERE 0), (c) = (SELECT 5) RETURNING *",
        "UPDATE t SET (a, b) = (SELECT v, v FROM u ORDER BY random() LIMIT 1)",
        "SELECT count(*) FROM t WHERE a IS NOT b",
        "UPDATE t SET a = (SELECT random()), b = id",
        "SELECT count(DISTINCT a) FROM t",
        "UPDATE t SET a = (SELECT random() + t.id), b = id",
        "SELECT count(DISTINCT a) FROM t",
        "UPDATE t SET a = id, c = (SELECT v FROM u WHERE k = 2) = 'two', b = EXISTS (SELECT 1 FROM t o WHERE o.a = t.id) RETURNING *",
        "UPDATE t SET a = CASE WHEN id > 2 THEN (SELECT count(*) FROM t AS o WHERE o.a > t.a) ELSE -a END RETURNING *",
        "UPDATE t SET a = id IN (SELECT o.a + 1 FROM t AS o WHERE o.id < t.id), b = b || (SELECT max(b) FROM t) RETURNING *",
        "UPDATE t SET id = (SELECT max(id) FROM t) + id RETURNING *",
        "UPDATE t SET id = id - (SELECT min(id) FROM t AS o WHERE o.id >= t.id) + 1 WHERE id < 8 RETURNING *",
        "SELECT * FROM t",
        "UPDATE OR REPLACE t SET id = 6 + id % 2, b = (SELECT count(*) FROM t), a = (SELECT count(*) FROM t AS o WHERE o.id <> t.id) RETURNING *",
        "SELECT * FROM t",
        "CREATE TABLE log (x)",
        "CREATE TRIGGER seen AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (new.b); INSERT INTO u (v) VALUES (new.id); END",
        "CREATE TRIGGER first BEFORE UPDATE ON t BEGIN INSERT INTO u (v) VALUES ('before'); END",
        "UPDATE t SET b = (SELECT count(*) FROM u) RETURNING *",
        "UPDATE t SET b = (SELECT count(*) FROM u) + (SELECT count(*) FROM u WHERE t.id > 0) RETURNING *",
        "UPDATE t SET (a, b) = (SELECT count(*), max(k) FROM u), c = (SELECT count(*) FROM u WHERE k <> t.id) RETURNING *",
        "SELECT * FROM log",
        "DROP TRIGGER seen",
        "CREATE TRIGGER inner AFTER INSERT ON log BEGIN UPDATE t SET (a, b) = (SELECT new.x, count(*) FROM t AS o WHERE o.id >= t.id), c = (SELECT new.x + count(*) FROM u); END",
        "INSERT INTO log VALUES (100)",
        "SELECT * FROM t",
        "CREATE TABLE w (k TEXT PRIMARY KEY, n) WITHOUT ROWID",
        "INSERT INTO w VALUES ('a', 1), ('b', 2), ('c', 3)",
        "UPDATE w SET n = (SELECT sum(n) FROM w AS o WHERE o.k <= w.k) RETURNING *",
        "WITH x(n) AS (SELECT count(*) FROM w) UPDATE w SET (n) = (SELECT n FROM x), k = (SELECT k || n FROM x) RETURNING *",
        "UPDATE w SET n = (SELECT max(n) FROM w AS o WHERE o.k <> w.k) FROM u WHERE u.k = 1 RETURNING w.k, n",
        "UPDATE w SET n = (SELECT abs(-9223372036854775808)) WHERE k = 'nosuch'",
        "UPDATE w SET n = (SELECT nosuch FROM u)",
    ]);
}

#[test]
fn common_tables_before() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b)",
        "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 5) INSERT INTO t SELECT x, x * x FROM n",
        "WITH c AS (SELECT 3 AS k) UPDATE t SET b = (SELECT k FROM c) + b WHERE a IN (SELECT k FROM c)",
        "WITH c AS (SELECT 1 AS k UNION SELECT 2) DELETE FROM t WHERE a IN c RETURNING a, (SELECT count(*) FROM c)",
        "WITH c AS (SELECT 1) INSERT INTO t VALUES ((SELECT * FROM c), 'one') RETURNING *, (SELECT * FROM c)",
        "WITH c AS (SELECT 1) INSERT INTO t VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = (SELECT * FROM c)",
        "WITH t AS (SELECT 7 AS a) INSERT INTO t SELECT a, a FROM t",
        "WITH t AS (SELECT 7 AS a) DELETE FROM t WHERE a = 7",
        "WITH c AS (SELECT nosuch) INSERT INTO t SELECT * FROM c",
        "SELECT * FROM t",
    ]);
}

#[test]
fn updates_from_and_row_values() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c)",
        "CREATE TABLE s (k, v)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')",
        "INSERT INTO s VALUES (1, 'one'), (3, 'three'), (4, 'four')",
        "UPDATE t SET c = s.v FROM s WHERE s.k = t.a",
        "SELECT * FROM t",
        "UPDATE t SET b = t.b + u.b FROM t AS u WHERE u.a = t.a + 1 RETURNING a, b",
        "UPDATE t SET c = v FROM (SELECT k, v || '!' AS v FROM s) WHERE k = a",
        "UPDATE t SET c = s.v FROM s LEFT JOIN s AS r ON r.k = s.k + 1 WHERE s.k = t.a AND r.v IS NULL",
        "UPDATE t SET (b, c) = (1, 2), a = a + 10 WHERE a = 1",
        "UPDATE t SET (b, c) = (SELECT k, v FROM s WHERE k = t.a)",
        "UPDATE t SET (b, c) = (SELECT k FROM s)",
        "UPDATE t SET (b, c) = (SELECT * FROM s WHERE k = 4) WHERE a = 2 RETURNING *",
        "UPDATE t SET (b, c) = (1, 2, 3)",
        "UPDATE t SET (b, c) = 1",
        "UPDATE OR IGNORE t SET a = s.k FROM s WHERE t.a = s.k - 1",
        "SELECT * FROM t",
        "CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID",
        "INSERT INTO w VALUES (1, 1), (2, 2)",
        "UPDATE w SET v = s.v, k = w.k + 10 FROM s WHERE s.k = w.k",
        "SELECT * FROM w",
        "CREATE TABLE u (a INTEGER PRIMARY KEY, b UNIQUE)",
        "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3), (5, 5)",
        "UPDATE OR REPLACE u SET a = a + 1, b = b + 1",
        "UPDATE OR REPLACE u SET b = 9 WHERE a > 1",
        "SELECT * FROM u",
    ]);
}
