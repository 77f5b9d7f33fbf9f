//! Queries made of bytes: joins of every kind, common tables, windows, row values, groups and set
//! operations over tables with indexes of every kind, so that every way to their rows is taken.
//!
//! Where SQL leaves open which of several equal values is given, the data have only one of them.

/// What the queries are about: every table has the columns `a`, `b`, `c` and `d`.
pub const SETUP: &str = "
    CREATE TABLE t0(a INTEGER PRIMARY KEY, b INT, c TEXT, d);
    CREATE INDEX t0_bc ON t0(b, c DESC);
    CREATE INDEX t0_c ON t0(c);
    CREATE INDEX t0_some ON t0(d) WHERE c IS NOT NULL;
    CREATE TABLE t1(a INT, b TEXT COLLATE NOCASE, c REAL, d INT);
    CREATE UNIQUE INDEX t1_ad ON t1(a, d);
    CREATE INDEX t1_b ON t1(b);
    CREATE INDEX t1_sum ON t1(a + d);
    CREATE TABLE t2(a TEXT, b INT, c INT, d, PRIMARY KEY(b, a DESC)) WITHOUT ROWID;
    CREATE INDEX t2_c ON t2(c, d);
    CREATE TABLE t3(a, b, c, d);
    CREATE VIEW v0 AS SELECT a, b, c, d FROM t0 WHERE b > 0 UNION ALL SELECT a, b, c, d FROM t0;
    CREATE VIEW v1 AS SELECT b AS a, count(*) AS b, min(c) AS c, max(d) AS d FROM t0 GROUP BY b;
    INSERT INTO t0(a, b, c, d) VALUES (-3, 1, 'a', 'x'), (1, 2, 'b', 4), (2, NULL, 'b', NULL),
        (3, 2, NULL, 'x'), (4, 3, 'a', 5), (7, 1, 'c', NULL), (8, 1, 'a', 2), (9, 4, 'ab', 'y');
    INSERT INTO t1(a, b, c, d) VALUES (1, 'a', 0.5, 1), (1, 'b', 2.5, 2), (NULL, 'c', NULL, 3),
        (2, NULL, 1.5, NULL), (3, 'ab', 7.5, 4), (4, 'x', -0.5, 4), (NULL, 'a', 0.5, 3);
    INSERT INTO t2(a, b, c, d) VALUES ('a', 1, 1, 'a'), ('b', 1, NULL, 'b'), ('a', 2, 3, NULL),
        ('c', 3, 3, 7), ('ab', 4, 2, 'a');
    INSERT INTO t3(a, b, c, d) VALUES (1, 2, 'a', NULL), (2, 2, 'b', 3), (NULL, NULL, NULL, NULL),
        (3, 1, 'ab', 'x');
";

const SOURCES: &[&str] = &["t0", "t1", "t2", "t3", "v0", "v1"];
const COLUMNS: &[&str] = &["a", "b", "c", "d"];
const VALUES: &[&str] =
    &["NULL", "0", "1", "2", "3", "-3", "2.5", "'a'", "'b'", "'ab'", "'A'", "x'61'", "''"];
const COMPARE: &[&str] = &["=", "=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"];

/// Bytes taken for choices, one after the other; zeros when they are used up.
pub struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    /// Choices by these bytes.
    pub fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices(bytes)
    }

    fn below(&mut self, count: usize) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                usize::from(*first) % count
            }
            None => 0,
        }
    }

    fn one<'c>(&mut self, of: &[&'c str]) -> &'c str {
        of[self.below(of.len())]
    }

    fn often(&mut self) -> bool {
        self.below(3) > 0
    }

    fn seldom(&mut self) -> bool {
        self.below(4) == 3
    }

    fn column(&mut self, tables: usize) -> String {
        let table = self.below(tables);
        let plus = if self.below(16) == 15 { "+" } else { "" };
        format!("{plus}r{table}.{}", self.one(COLUMNS))
    }

    fn operand(&mut self, tables: usize) -> String {
        match self.below(6) {
            0..=2 => self.column(tables),
            3 => format!("{} + {}", self.column(tables), self.column(tables)),
            _ => self.one(VALUES).to_owned(),
        }
    }

    fn condition(&mut self, tables: usize, depth: usize) -> String {
        let column = self.column(tables);
        match self.below(if depth == 0 { 9 } else { 16 }) {
            0..=3 => format!("{column} {} {}", self.one(COMPARE), self.operand(tables)),
            4 => format!("{column} BETWEEN {} AND {}", self.operand(tables), self.operand(tables)),
            5 => format!("{column} IS {}NULL", self.one(&["", "NOT "])),
            6 => {
                let list: Vec<&str> = (0..=self.below(5)).map(|_| self.one(VALUES)).collect();
                format!("{column} {}IN ({})", self.one(&["", "", "NOT "]), list.join(", "))
            }
            7 => format!("{column} {}", self.one(&["LIKE 'a%'", "GLOB 'a*'", "LIKE '_'"])),
            8 => {
                let second = self.column(tables);
                let compare = self.one(&["=", "<", ">=", "IS"]);
                let (left, right) = (self.operand(tables), self.one(VALUES));
                format!("({column}, {second}) {compare} ({left}, {right})")
            }
            9 | 10 => {
                let (left, right) =
                    (self.condition(tables, depth - 1), self.condition(tables, depth - 1));
                format!("({left} {} {right})", self.one(&["AND", "OR", "OR"]))
            }
            11 => format!("NOT ({})", self.condition(tables, depth - 1)),
            12 => {
                let (table, inner) = (self.one(SOURCES), self.one(COLUMNS));
                let not = self.one(&["", "", "NOT "]);
                let compare = self.one(COMPARE);
                format!("{not}EXISTS (SELECT 1 FROM {table} s WHERE s.{inner} {compare} {column})")
            }
            13 => {
                let (table, inner, key) = (self.one(SOURCES), self.one(COLUMNS), self.one(COLUMNS));
                let filter = match self.below(3) {
                    0 => String::new(),
                    1 => format!(" WHERE s.{key} > {}", self.one(VALUES)),
                    _ => format!(" WHERE s.{key} = {}", self.column(tables)),
                };
                let not = self.one(&["", "", "NOT "]);
                format!("{column} {not}IN (SELECT s.{inner} FROM {table} s{filter})")
            }
            14 => {
                let (table, inner, key) = (self.one(SOURCES), self.one(COLUMNS), self.one(COLUMNS));
                let function = self.one(&["count(*)", "min(s.V)", "max(s.V)"]).replace('V', inner);
                let compare = self.one(COMPARE);
                format!(
                    "{column} {compare} (SELECT {function} FROM {table} s WHERE s.{key} = {})",
                    self.column(tables)
                )
            }
            _ => {
                let (table, first, second) =
                    (self.one(SOURCES), self.one(COLUMNS), self.one(COLUMNS));
                let other = self.column(tables);
                format!("({column}, {other}) IN (SELECT s.{first}, s.{second} FROM {table} s)")
            }
        }
    }

    fn source(&mut self, number: usize, depth: usize) -> String {
        let table = self.one(SOURCES);
        if depth == 0 || self.often() {
            return format!("{table} r{number}");
        }
        let value = self.one(VALUES);
        let op = self.one(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
        let inner = match self.below(5) {
            0 => format!("SELECT DISTINCT a, b, c, d FROM {table}"),
            // SQLite gives a column of parts of different types now one affinity, now the other.
            1 => format!(
                "SELECT a, b, c, d FROM {table} {op} SELECT a, b, c, d FROM {table} WHERE b > {value}"
            ),
            2 => format!(
                "SELECT b AS a, c AS b, count(*) AS c, max(a) AS d FROM {table} GROUP BY b, c"
            ),
            3 => {
                let filter = self.condition(1, depth - 1);
                format!("SELECT r0.a, r0.b, r0.d AS c, r0.c AS d FROM {table} r0 WHERE {filter}")
            }
            _ => {
                format!("SELECT a, b, c, rank() OVER (PARTITION BY b ORDER BY c) AS d FROM {table}")
            }
        };
        format!("({inner}) r{number}")
    }

    fn from(&mut self, tables: usize, depth: usize) -> String {
        let mut from = self.source(0, depth);
        for number in 1..tables {
            let kind = self.one(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
            let source = self.source(number, depth);
            let on = match kind {
                "CROSS JOIN" => String::new(),
                _ if self.often() => format!(
                    " ON r{}.{} = r{number}.{}",
                    number - 1,
                    self.one(COLUMNS),
                    self.one(COLUMNS)
                ),
                _ => format!(" ON {}", self.condition(number + 1, 1)),
            };
            from += &format!(" {kind} {source}{on}");
        }
        from
    }

    /// One query without `LIMIT`, whose rows may come in any order.
    pub fn query(&mut self) -> String {
        let tables = 1 + self.below(3);
        let from = self.from(tables, 2);
        let filter = match self.below(4) {
            0 => String::new(),
            _ => format!(" WHERE {}", self.condition(tables, 2)),
        };
        let plain = match self.below(6) {
            0 => {
                let (key, value) = (self.column(tables), self.column(tables));
                let having = if self.seldom() { " HAVING count(*) > 1" } else { "" };
                format!(
                    "SELECT {key}, count(*), count({value}), min({value}), max({value}), \
                     count(DISTINCT {value}) FROM {from}{filter} GROUP BY {key}{having}"
                )
            }
            1 => {
                let function = self.one(&["min", "max", "count", "total"]);
                format!("SELECT {function}({}) FROM {from}{filter}", self.column(tables))
            }
            2 => {
                let (part, order, value) =
                    (self.column(tables), self.column(tables), self.column(tables));
                let function = self.one(&[
                    "rank()",
                    "dense_rank()",
                    "count(*)",
                    "min(V)",
                    "max(V)",
                    "count(V) FILTER (WHERE V > 1)",
                ]);
                let frame = self.one(&[
                    "",
                    " RANGE CURRENT ROW",
                    " GROUPS 1 PRECEDING",
                    " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
                    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
                ]);
                let function = function.replace('V', &value);
                let direction = self.one(&["", " DESC", " NULLS LAST"]);
                format!(
                    "SELECT {part}, {order}, {function} OVER (PARTITION BY {part} ORDER BY \
                     {order}{direction}{frame}) FROM {from}{filter}"
                )
            }
            _ => {
                let distinct = if self.seldom() { "DISTINCT " } else { "" };
                let columns: Vec<String> =
                    (0..=self.below(3)).map(|_| self.operand(tables)).collect();
                let order = match self.below(3) {
                    0 => format!(" ORDER BY {} {}", self.column(tables), self.one(&["", "DESC"])),
                    _ => String::new(),
                };
                let order = if distinct.is_empty() { order } else { String::new() };
                format!("SELECT {distinct}{} FROM {from}{filter}{order}", columns.join(", "))
            }
        };
        match self.below(8) {
            0 => format!("WITH q AS ({plain}) SELECT * FROM q"),
            1 => format!(
                "WITH RECURSIVE q(x, n) AS (SELECT b, 0 FROM t0 UNION SELECT r0.{}, n + 1 FROM q JOIN {} \
                 ON r0.{} = q.x WHERE n < 3) SELECT n, count(*) FROM q GROUP BY n",
                self.one(COLUMNS),
                self.source(0, 0),
                self.one(COLUMNS),
            ),
            _ => plain,
        }
    }
}
