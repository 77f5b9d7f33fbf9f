//! Tables of every kind, with a few rows, indexes and views.

use super::Choices;
use super::words::ALL;

/// Tables: their columns, and whether `g` is computed.
const TABLES: &[(&str, bool)] = &[
    ("(a INTEGER PRIMARY KEY, b INT, c TEXT, d, j TEXT, g AS (b + 1))", true),
    ("(a INT, b TEXT COLLATE NOCASE, c REAL, d INT, j, g TEXT AS (c || '') STORED)", true),
    (
        "(a TEXT, b INT, c INT, d, j TEXT, g INT AS (coalesce(b, 0)) STORED, PRIMARY KEY(b, a DESC)) \
         WITHOUT ROWID",
        true,
    ),
    ("(a, b, c, d, j)", true),
    ("(a INT, b TEXT, c ANY, d REAL, j TEXT, g INT) STRICT", false),
    ("(a TEXT COLLATE RTRIM PRIMARY KEY, b NUMERIC, c, d BLOB, j, g) WITHOUT ROWID", false),
    ("(a INTEGER PRIMARY KEY DESC, b, c TEXT COLLATE NOCASE, d DATE, j TEXT, g NUM)", false),
    (
        "(a INT UNIQUE, b INT NOT NULL DEFAULT 2, c VARCHAR(3), d DOUBLE, j JSON, \
         g AS (json_extract(j, '$.k')))",
        true,
    ),
    ("(a INT, b INT, c TEXT, d REAL, j TEXT, g, PRIMARY KEY(b, a DESC)) WITHOUT ROWID", false),
    ("(a INTEGER PRIMARY KEY AUTOINCREMENT, b INT, c INT, d INT, j TEXT, g INT)", false),
];

const INDEXES: &[&str] = &[
    "",
    "",
    "(b)",
    "(c, b DESC)",
    "(a, d)",
    "(c)",
    "(c) WHERE c IS NOT NULL",
    "(b) WHERE a > 1",
    "(length(c))",
    "(b + 1, c)",
    "(c COLLATE NOCASE DESC)",
    "(a, b, c, d, j, g)",
    "(d) WHERE b IN (1, 2)",
    "(json_extract(j, '$.k'))",
    "(g)",
    "(g, a DESC)",
    "(lower(c), b) WHERE g IS NOT NULL",
    "(coalesce(b, c))",
    "(d, c, b)",
];

const VIEWS: &[&str] = &[
    "SELECT a, b, c, d, j, g FROM t0",
    "SELECT a, b, c, d, j, g FROM t0 WHERE b > 0",
    "SELECT b AS a, count(*) AS b, min(c) AS c, max(d) AS d, NULL AS j, total(g) AS g FROM t1 GROUP BY b",
    "SELECT x.a, y.b, x.c, y.d, x.j, y.g FROM t0 x LEFT JOIN t2 y ON x.b = y.b",
    "SELECT a, b, c, d, j, g FROM t3 WHERE b > 0 UNION ALL SELECT a, b, c, d, j, g FROM t3",
    "SELECT DISTINCT a, b, c, d, NULL AS j, g FROM t2",
    "SELECT a, b, c, d, j, rank() OVER (PARTITION BY b ORDER BY c) AS g FROM t1",
    "SELECT x.a, x.b, y.c, y.d, y.j, x.g FROM t1 x FULL JOIN t2 y ON x.a = y.b",
    "SELECT a + 1 AS a, b, upper(c) AS c, d, j, coalesce(g, b) AS g FROM t3 WHERE c IS NOT NULL",
];

/// Values of the columns. No value equals another of a different form, and no two texts differ in
/// case or trailing spaces alone. No blob reads as a text matching `LIKE 'a%'`: SQLite loses such
/// rows when turning `LIKE` within `OR` into a range of an index.
const VALUES: &[&str] = &[
    "1", "2", "3", "NULL", "4", "0", "-3", "2.5", "-0.5", "'a'", "'b'", "'ab'", "'x'", "'y'", "''",
    "x'62'", "5", "7", "'2'", "'\u{e9}'", "1", "2", "3", "NULL",
];
const JSON: &[&str] = &[
    "NULL",
    "'{\"k\":1}'",
    "'[1,2,\"a\"]'",
    "'{\"k\":\"b\",\"l\":[null,2.5]}'",
    "'3'",
    "'\"a\"'",
    "'null'",
    "'[]'",
    "'{}'",
    "'[[1],[2,[3]]]'",
    "'true'",
    "'{\"a.b\":{\"k\":[{\"x\":1},{\"x\":\"\\u00e9\"}]}}'",
];

/// `ANALYZE`'s result for large tables with unselective indexes: makes plans for such tables.
const MANY_ROWS: &str = "ANALYZE;\nUPDATE sqlite_stat1 SET stat = '90000 300 200 150 90 20';\n";

/// A script creating the tables `t0` to `t3` and the views `v0` to `v3`. Statements are separated
/// by line breaks; some may fail, on both sides alike, and are left out then.
#[must_use]
pub fn schema(bytes: &[u8]) -> String {
    let mut choices = Choices::new(bytes);
    let page = choices.one(&["4096", "512", "1024"]);
    let mut script = format!("PRAGMA page_size = {page};\n");
    for number in 0..4 {
        choices.make_table(number, &mut script);
    }
    for number in 0..4 {
        script += &format!("CREATE VIEW v{number} AS {};\n", choices.one(VIEWS));
    }
    script + choices.one(&["", "", "ANALYZE;\n", MANY_ROWS])
}

impl Choices<'_> {
    fn make_table(&mut self, number: usize, script: &mut String) {
        let (columns, computed) = TABLES[self.below(TABLES.len())];
        *script += &format!("CREATE TABLE t{number}{columns};\n");
        let into = |computed: bool| match computed {
            true => format!("INSERT OR IGNORE INTO t{number}(a, b, c, d, j)"),
            false => format!("INSERT OR IGNORE INTO t{number}({ALL})"),
        };
        let added = columns == "(a, b, c, d, j)";
        if number == 0 && self.once_in(6) {
            *script += &format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90) \
                 {} SELECT i, i % 7, char(97 + i % 5) || (i % 11), i % 3 + 0.5, '[' || i || ']'{} FROM n;\n",
                into(computed),
                if computed { "" } else { ", i % 4" }
            );
        }
        let rows = self.below(14);
        for row in 0..rows {
            if added && row == rows / 2 {
                let with = self.one(&["", " DEFAULT 3", " TEXT DEFAULT 'a'", " INT AS (b)"]);
                *script += &format!("ALTER TABLE t{number} ADD COLUMN g{with};\n");
            }
            let mut values: Vec<&str> = (0..4).map(|_| self.one(VALUES)).collect();
            values.push(self.one(JSON));
            if !computed {
                values.push(self.one(VALUES));
            }
            *script += &format!("{} VALUES ({});\n", into(computed), values.join(", "));
        }
        if added && rows == 0 {
            *script += &format!("ALTER TABLE t{number} ADD COLUMN g DEFAULT 1;\n");
        }
        for index in 0..3 {
            let columns = self.one(INDEXES);
            if !columns.is_empty() {
                *script += &format!("CREATE INDEX t{number}_{index} ON t{number}{columns};\n");
            }
        }
    }
}
