//! `ALTER TABLE`, run by Shoal and by SQLite side by side: the same texts in the schema afterwards,
//! to the byte, the same rows and the same errors.

use crate::write_support::script;

/// Runs one statement after another on a database of its own for each of some changes.
fn each(setup: &[&str], changes: &[&str]) {
    for change in changes {
        let mut statements = setup.to_vec();
        statements.push(change);
        script(&statements);
    }
}

const SCHEMA: &[&str] = &[
    "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT UNIQUE, \"b\" INT DEFAULT 5, [c d] REAL, CHECK (p.a <> '' OR \"b\" > 0))",
    "CREATE TABLE q(x INT REFERENCES p(id), y /* a */ TEXT REFERENCES \"p\" ( a ) ON DELETE CASCADE, z AS (x + 1), FOREIGN KEY (x, y) REFERENCES p(id, a))",
    "CREATE TABLE w(k TEXT, v INT, n, PRIMARY KEY (k, v)) WITHOUT ROWID",
    "CREATE INDEX p_b ON p(\"b\" DESC, a COLLATE nocase) WHERE p.b > 1",
    "CREATE INDEX p_e ON p(lower(a), id + 1)",
    "CREATE INDEX w_n ON w(n)",
    "CREATE VIEW v1 AS SELECT p.a, b, rowid AS r, \"c d\" FROM p WHERE p.b > (SELECT max(b) FROM p AS other WHERE other.a = p.a)",
    "CREATE VIEW v2(one, two) AS SELECT a, r FROM v1 UNION SELECT a, b FROM p ORDER BY a",
    "CREATE VIEW v3 AS WITH p AS (SELECT 1 AS a), u AS (SELECT a FROM main.p) SELECT p.a, u.a FROM p, u",
    "CREATE VIEW v4 AS SELECT p.*, pp.* FROM p JOIN p AS pp ON p.id = pp.id ORDER BY pp.a, 1",
    "CREATE TRIGGER t1 AFTER UPDATE OF a, \"b\" ON p WHEN NEW.a <> old.a BEGIN UPDATE p SET a = new.a, b = (SELECT max(b) FROM p) WHERE p.id = OLD.id; INSERT INTO q(x, y) SELECT id, a FROM p WHERE a = 'a'; DELETE FROM p WHERE b IN (SELECT b FROM p WHERE p.a IS NULL); SELECT a FROM p; END",
    "CREATE TRIGGER t2 BEFORE INSERT ON w BEGIN INSERT INTO p(id, a) VALUES (new.v, new.k) ON CONFLICT (id) DO UPDATE SET a = 'x', b = p.b + 1 WHERE p.b > 2; UPDATE w SET n = p.b FROM p WHERE p.a = w.k; END",
    "INSERT INTO p VALUES (1, 'one', 2, 1.5), (2, 'two', 3, 2), (7, 'seven', NULL, 3)",
    "INSERT INTO q VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO w VALUES ('k', 12, 'n'), ('l', 13, 'm')",
];

#[test]
fn tables_are_renamed_wherever_they_are_named() {
    each(
        SCHEMA,
        &[
            "ALTER TABLE p RENAME TO \"new \"\"name\"",
            "ALTER TABLE p RENAME TO P2",
            "ALTER TABLE main.q RENAME TO q2",
            "ALTER TABLE w RENAME TO [w w]",
            "ALTER TABLE p RENAME TO P",
            "ALTER TABLE p RENAME TO q",
            "ALTER TABLE p RENAME TO v1",
            "ALTER TABLE p RENAME TO p_b",
            "ALTER TABLE p RENAME TO sqlite_p",
            "ALTER TABLE v1 RENAME TO v9",
            "ALTER TABLE nowhere RENAME TO v9",
            "ALTER TABLE main.nowhere RENAME TO v9",
            "ALTER TABLE sqlite_schema RENAME TO x",
        ],
    );
}

#[test]
fn columns_are_renamed_wherever_they_are_named() {
    each(
        SCHEMA,
        &[
            "ALTER TABLE p RENAME COLUMN a TO aa",
            "ALTER TABLE p RENAME a TO \"a a\"",
            "ALTER TABLE p RENAME COLUMN a TO 'q'",
            "ALTER TABLE p RENAME COLUMN \"b\" TO bb",
            "ALTER TABLE p RENAME COLUMN [c d] TO cd",
            "ALTER TABLE p RENAME COLUMN id TO ident",
            "ALTER TABLE q RENAME COLUMN x TO xx",
            "ALTER TABLE q RENAME COLUMN y TO [y]",
            "ALTER TABLE q RENAME COLUMN z TO zz",
            "ALTER TABLE w RENAME COLUMN k TO kk",
            "ALTER TABLE w RENAME COLUMN n TO key",
            "ALTER TABLE p RENAME COLUMN a TO b",
            "ALTER TABLE p RENAME COLUMN nope TO b",
            "ALTER TABLE p RENAME COLUMN \"nope\" TO b",
            "ALTER TABLE p RENAME COLUMN a TO rowid",
            "ALTER TABLE w RENAME COLUMN n TO rowid",
            "ALTER TABLE p RENAME COLUMN rowid TO b",
            "ALTER TABLE v1 RENAME COLUMN a TO b",
            "ALTER TABLE sqlite_schema RENAME COLUMN name TO b",
        ],
    );
}

#[test]
fn names_in_other_scopes_stay() {
    let setup = [
        "CREATE TABLE t(a, b)",
        "CREATE TABLE u(a, c)",
        "CREATE VIEW s1 AS SELECT t.a, u.a AS b, (SELECT a FROM u WHERE u.c = t.a) FROM t, u",
        "CREATE VIEW s2 AS SELECT a AS b, b AS a FROM t ORDER BY a",
        "CREATE VIEW s3 AS SELECT t.b FROM u AS t JOIN t AS x ON x.b = t.c WHERE x.a = 1",
        "CREATE VIEW s4 AS SELECT sum(a) OVER (PARTITION BY b ORDER BY a) FROM t GROUP BY a HAVING count(a) > 1",
        "CREATE VIEW s5 AS SELECT 't', \"text\", 'a' AS \"a\" FROM t WHERE a LIKE \"a\"",
        "CREATE VIEW s6 AS SELECT * FROM (SELECT a FROM t) AS t WHERE t.a > 1 AND EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a)",
        "CREATE VIEW s7 AS SELECT a FROM t UNION ALL SELECT a FROM u EXCEPT SELECT c FROM u ORDER BY 1",
        "CREATE VIEW s8 AS WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 5) SELECT a FROM t",
        "CREATE VIEW s9 AS SELECT nosuchfunction(a, t.b) FROM t",
        "CREATE VIEW sa AS SELECT CASE a WHEN t.a THEN t.b ELSE -a END, a BETWEEN b AND a, CAST(a AS TEXT) COLLATE nocase, a IS NULL, t.a -> '$', a IN (1, a, b) FROM main.t",
        "CREATE TRIGGER r1 AFTER INSERT ON u BEGIN SELECT a, new.a, \"lit\" FROM t WHERE b = new.c; INSERT INTO t VALUES (new.a, new.c); INSERT INTO t(b, a) VALUES (1, 2); UPDATE u SET a = 1, c = a WHERE a = 2; DELETE FROM t WHERE t.a = 5; END",
    ];
    each(
        &setup,
        &[
            "ALTER TABLE t RENAME TO t2",
            "ALTER TABLE u RENAME TO u2",
            "ALTER TABLE t RENAME COLUMN a TO aa",
            "ALTER TABLE t RENAME COLUMN b TO bb",
            "ALTER TABLE u RENAME COLUMN a TO aa",
            "ALTER TABLE u RENAME COLUMN c TO cc",
            "ALTER TABLE u RENAME COLUMN c TO a",
            "ALTER TABLE t RENAME COLUMN b TO text",
            "ALTER TABLE t RENAME COLUMN b TO lit",
        ],
    );
}

#[test]
fn a_definition_that_means_nothing_stops_a_rename() {
    let broken = |definition: &str| {
        for change in [
            "ALTER TABLE t RENAME TO t2",
            "ALTER TABLE t RENAME COLUMN a TO aa",
            "ALTER TABLE t DROP COLUMN b",
            "ALTER TABLE t ADD COLUMN d",
        ] {
            script(&["CREATE TABLE t(a, b)", "CREATE TABLE u(c)", definition, change]);
        }
    };
    broken("CREATE VIEW v AS SELECT * FROM nowhere");
    broken("CREATE VIEW v AS SELECT nothing FROM t");
    broken("CREATE VIEW v AS SELECT b FROM t");
    broken("CREATE VIEW v AS SELECT t.* FROM t");
    broken("CREATE VIEW v AS SELECT * FROM t JOIN t AS t3 USING (a)");
    broken("CREATE VIEW v AS WITH x AS (SELECT a FROM t), y AS (SELECT b FROM t) SELECT * FROM x");
    broken("CREATE TRIGGER r AFTER INSERT ON u BEGIN SELECT nothing FROM t; END");
    broken("CREATE TRIGGER r AFTER INSERT ON u BEGIN SELECT new.x FROM t; END");
    broken("CREATE TRIGGER r AFTER INSERT ON u BEGIN INSERT INTO nowhere VALUES (1); END");
    broken("CREATE TRIGGER r AFTER INSERT ON u BEGIN UPDATE t SET nothing = 1; END");
    broken("CREATE TRIGGER r AFTER INSERT ON u BEGIN DELETE FROM t WHERE b = 1; END");
    broken("CREATE INDEX i ON t(b)");
    broken("CREATE INDEX i ON t(b + 1) WHERE a > 0");
    broken("CREATE INDEX i ON t(a) WHERE b > 0");
}

#[test]
fn counters_follow_their_table() {
    script(&[
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
        "INSERT INTO t(a) VALUES (1), (2)",
        "ALTER TABLE t RENAME TO u",
        "INSERT INTO u(a) VALUES (3)",
        "SELECT * FROM sqlite_sequence",
        "ALTER TABLE u RENAME COLUMN id TO key",
        "ALTER TABLE u RENAME COLUMN a TO \"b\"",
        "SELECT key, b FROM u",
        "BEGIN",
        "ALTER TABLE u RENAME TO x",
        "INSERT INTO x(b) VALUES (4)",
        "ROLLBACK",
        "INSERT INTO u(b) VALUES (5)",
        "SELECT * FROM u",
    ]);
}

#[test]
fn columns_are_added() {
    let setup = [
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT -- last\n, CHECK (b <> 'x'))",
        "CREATE TABLE s(a INT, b TEXT) STRICT, WITHOUT ROWID",
        "CREATE TABLE s(a INT PRIMARY KEY, b TEXT) STRICT, WITHOUT ROWID",
        "CREATE TABLE e(a)",
        "CREATE VIEW v AS SELECT * FROM t",
        "INSERT INTO t VALUES (1, 'one'), (2, NULL)",
        "INSERT INTO s VALUES (1, 'one')",
    ];
    let changes = [
        "ALTER TABLE t ADD COLUMN c",
        "ALTER TABLE t ADD c INT DEFAULT 7 ; ",
        "ALTER TABLE t ADD COLUMN \"c d\" VARCHAR( 10 ) DEFAULT 'x' COLLATE nocase /* end */",
        "ALTER TABLE t ADD COLUMN c DEFAULT -5.5",
        "ALTER TABLE t ADD COLUMN c TEXT DEFAULT 5",
        "ALTER TABLE t ADD COLUMN c DEFAULT (CAST('12' AS INTEGER))",
        "ALTER TABLE t ADD COLUMN c DEFAULT (1 + 1)",
        "ALTER TABLE e ADD COLUMN c DEFAULT (1 + 1)",
        "ALTER TABLE t ADD COLUMN c DEFAULT CURRENT_TIMESTAMP",
        "ALTER TABLE e ADD COLUMN c DEFAULT CURRENT_TIMESTAMP",
        "ALTER TABLE t ADD COLUMN c DEFAULT TRUE",
        "ALTER TABLE t ADD COLUMN c DEFAULT x'0102'",
        "ALTER TABLE t ADD COLUMN c NOT NULL",
        "ALTER TABLE t ADD COLUMN c NOT NULL DEFAULT NULL",
        "ALTER TABLE t ADD COLUMN c NOT NULL DEFAULT 1",
        "ALTER TABLE e ADD COLUMN c NOT NULL",
        "ALTER TABLE t ADD COLUMN c UNIQUE",
        "ALTER TABLE t ADD COLUMN c PRIMARY KEY",
        "ALTER TABLE e ADD COLUMN c INTEGER PRIMARY KEY",
        "ALTER TABLE t ADD COLUMN B",
        "ALTER TABLE t ADD COLUMN rowid",
        "ALTER TABLE s ADD COLUMN rowid INT",
        "ALTER TABLE t ADD COLUMN c REFERENCES e(a)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 5 REFERENCES e(a)",
        "ALTER TABLE t ADD COLUMN c CHECK (c > 5)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 3 CHECK (c > 5)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 3 CHECK (c > a)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 3 CHECK (c > nothing)",
        "ALTER TABLE t ADD COLUMN c AS (a + 1)",
        "ALTER TABLE t ADD COLUMN c AS (a + 1) STORED",
        "ALTER TABLE e ADD COLUMN c AS (a + 1) STORED",
        "ALTER TABLE t ADD COLUMN c AS (b) NOT NULL",
        "ALTER TABLE t ADD COLUMN c AS (a) NOT NULL",
        "ALTER TABLE t ADD COLUMN c AS (nothing)",
        "ALTER TABLE s ADD COLUMN c",
        "ALTER TABLE s ADD COLUMN c NUMBER",
        "ALTER TABLE s ADD COLUMN c INT DEFAULT 5",
        "ALTER TABLE s ADD COLUMN c INT DEFAULT 'x'",
        "ALTER TABLE s ADD COLUMN c ANY DEFAULT 'x'",
        "ALTER TABLE v ADD COLUMN c",
        "ALTER TABLE sqlite_schema ADD COLUMN c",
    ];
    for change in changes {
        let mut statements = setup.to_vec();
        statements.extend([
            change,
            "INSERT INTO t(a, b) VALUES (10, 'new')",
            "INSERT INTO s(a) VALUES (10)",
            "SELECT * FROM t",
            "SELECT * FROM s",
            "SELECT * FROM v",
            "ALTER TABLE t ADD COLUMN z DEFAULT 'more'",
            "UPDATE t SET z = 5 WHERE a = 1",
            "SELECT * FROM t",
        ]);
        if change.contains("CURRENT_TIMESTAMP") {
            statements.retain(|sql| !sql.starts_with("INSERT INTO e"));
        }
        script(&statements);
    }
}

#[test]
fn columns_are_dropped() {
    let setup = [
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL DEFAULT (1), d INT UNIQUE, e /* x */ VARCHAR(3, 4), f AS (a + 1), g, UNIQUE (g, b), CHECK (e > 0))",
        "CREATE TABLE w(a, b, c, d, PRIMARY KEY (c, a)) WITHOUT ROWID",
        "CREATE TABLE one(a)",
        "CREATE TABLE f(a, b, FOREIGN KEY (b) REFERENCES t(a), CONSTRAINT x CHECK (a > 0))",
        "CREATE TABLE g(a, b AS (c), c, d REFERENCES f)",
        "CREATE INDEX t_c ON t(c)",
        "CREATE VIEW v AS SELECT \"lit\", f FROM t",
        "INSERT INTO t(a, b, c, d, e, g) VALUES (1, 'b', 2.0, 3, 4, 5), (2, 'bb', 2.5, 4, 5, 6)",
        "ALTER TABLE t ADD COLUMN h DEFAULT 'h'",
        "INSERT INTO t(a, b, c, d, e, g, h) VALUES (3, 'b', 9.0, 7, 6, 7, 8)",
        "INSERT INTO w VALUES (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 3, 12)",
        "INSERT INTO f VALUES (1, 2)",
        "INSERT INTO g(a, c, d) VALUES (1, 2, 3)",
    ];
    let changes = [
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t DROP COLUMN c",
        "ALTER TABLE t DROP COLUMN d",
        "ALTER TABLE t DROP e",
        "ALTER TABLE t DROP COLUMN f",
        "ALTER TABLE t DROP COLUMN g",
        "ALTER TABLE t DROP COLUMN h",
        "ALTER TABLE t DROP COLUMN nope",
        "ALTER TABLE t DROP COLUMN rowid",
        "ALTER TABLE w DROP COLUMN b",
        "ALTER TABLE w DROP COLUMN d",
        "ALTER TABLE w DROP COLUMN c",
        "ALTER TABLE one DROP COLUMN a",
        "ALTER TABLE f DROP COLUMN a",
        "ALTER TABLE f DROP COLUMN b",
        "ALTER TABLE g DROP COLUMN a",
        "ALTER TABLE g DROP COLUMN b",
        "ALTER TABLE g DROP COLUMN c",
        "ALTER TABLE g DROP COLUMN d",
        "ALTER TABLE v DROP COLUMN f",
    ];
    for change in changes {
        let mut statements = setup.to_vec();
        statements.extend([change, "SELECT * FROM t", "SELECT * FROM w", "SELECT * FROM g"]);
        script(&statements);
    }
}

#[test]
fn long_tables_lose_columns() {
    script(&[
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c)",
        "CREATE TABLE w(a PRIMARY KEY, b, c) WITHOUT ROWID",
        "CREATE INDEX t_c ON t(c)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2500) INSERT INTO t SELECT x * 3, zeroblob(x % 700), x FROM n",
        "INSERT INTO t VALUES (-9223372036854775808, 1, 2), (9223372036854775807, 3, 4)",
        "INSERT INTO w SELECT a, b, c FROM t",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE w DROP COLUMN b",
        "SELECT count(*), sum(c) FROM t",
    ]);
}

#[test]
fn constraints_come_and_go() {
    let setup = [
        "CREATE TABLE t(a INT NOT NULL, b TEXT CONSTRAINT bb NOT NULL ON CONFLICT IGNORE, c CONSTRAINT cc CHECK (c > 0) DEFAULT 4, d CONSTRAINT dd REFERENCES u(x) ON DELETE SET NULL, e CONSTRAINT ee UNIQUE, f, CONSTRAINT \"two\" CHECK (a < 10), CONSTRAINT ff FOREIGN KEY (a, b) REFERENCES u(x, y))",
        "INSERT INTO t VALUES (1, 'b', 1, 1, 1, NULL), (2, 'b', 2, 2, 2, 2)",
        "CREATE VIEW v AS SELECT 1 AS a",
    ];
    each(
        &setup,
        &[
            "ALTER TABLE t DROP CONSTRAINT bb",
            "ALTER TABLE t DROP CONSTRAINT cc",
            "ALTER TABLE t DROP CONSTRAINT DD",
            "ALTER TABLE t DROP CONSTRAINT ee",
            "ALTER TABLE t DROP CONSTRAINT ff",
            "ALTER TABLE t DROP CONSTRAINT two",
            "ALTER TABLE t DROP CONSTRAINT nope",
            "ALTER TABLE v DROP CONSTRAINT nope",
            "ALTER TABLE t ALTER COLUMN a DROP NOT NULL",
            "ALTER TABLE t ALTER b DROP NOT NULL",
            "ALTER TABLE t ALTER c DROP NOT NULL",
            "ALTER TABLE t ALTER nope DROP NOT NULL",
            "ALTER TABLE t ALTER a SET NOT NULL",
            "ALTER TABLE t ALTER a SET NOT NULL ON CONFLICT REPLACE -- so",
            "ALTER TABLE t ALTER e SET NOT NULL /* so */",
            "ALTER TABLE t ALTER f SET NOT NULL",
            "ALTER TABLE t ALTER COLUMN c SET NOT NULL; ",
            "ALTER TABLE t ADD CHECK (a > 0)",
            "ALTER TABLE t ADD CONSTRAINT more CHECK (a > 0 AND b <> '') ON CONFLICT FAIL",
            "ALTER TABLE t ADD CONSTRAINT \"two\" CHECK (a > 0)",
            "ALTER TABLE t ADD CHECK (a > 1)",
            "ALTER TABLE t ADD CHECK (f > 1)",
            "ALTER TABLE t ADD CHECK (nope > 1)",
            "ALTER TABLE t ADD CHECK ((SELECT 1))",
            "ALTER TABLE v ADD CHECK (a > 1)",
        ],
    );
    script(&[
        setup[0],
        "ALTER TABLE t ADD CONSTRAINT odd CHECK (a % 2 = 1)",
        "INSERT INTO t(a, b) VALUES (2, '')",
        "INSERT INTO t(a, b) VALUES (3, '')",
        "ALTER TABLE t DROP CONSTRAINT odd",
        "INSERT INTO t(a, b) VALUES (2, '')",
        "ALTER TABLE t ALTER a DROP NOT NULL",
        "INSERT INTO t(b) VALUES ('')",
        "SELECT * FROM t",
    ]);
}

#[test]
fn columns_with_enforced_foreign_keys_need_no_row_elsewhere() {
    script(&[
        "PRAGMA foreign_keys = on",
        "CREATE TABLE u(x INTEGER PRIMARY KEY)",
        "CREATE TABLE t(a)",
        "ALTER TABLE t ADD COLUMN b DEFAULT 5 REFERENCES u(x)",
        "INSERT INTO t(a, b) VALUES (5, NULL)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 5 REFERENCES u(x)",
        "ALTER TABLE t ADD COLUMN c DEFAULT NULL REFERENCES u(x)",
        "ALTER TABLE t ADD COLUMN d REFERENCES u(x)",
        "SELECT * FROM t",
    ]);
}
