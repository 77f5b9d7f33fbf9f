//! The `FROM` of a query: tables, views, queries, table functions and common tables, joined.

use super::VALUES_BOUND;
use super::words::{ALL, COLLATE, COLUMNS, EACH, NARROW, SERIES, TABLES};
use super::{Choices, MERGED_IN_FULL, Source};

impl Choices<'_> {
    /// One source under a new name; a table function may read the sources in `scope`.
    fn source(&mut self, scope: &[Source], ctes: &[String], depth: usize) -> (Source, String) {
        let name = self.name("r");
        let plain = Source::whole(&name);
        match self.below(if depth == 0 { 5 } else { 11 }) {
            0..=4 => {
                let named = self.below(TABLES.len() + 2 * ctes.len());
                let table = match named.checked_sub(TABLES.len()) {
                    Some(place) => ctes[place / 2].as_str(),
                    None => TABLES[named],
                };
                let hint = if table == "t0" && self.once_in(24) { " NOT INDEXED" } else { "" };
                (plain, format!("{table} {name}{hint}"))
            }
            5 => {
                let function = self.one(&["json_each", "json_tree"]);
                let holders: Vec<&Source> =
                    scope.iter().filter(|source| source.is_whole()).collect();
                let json = match holders.len() {
                    0 => "'{\"k\":[1,2],\"l\":\"a\"}'".to_owned(),
                    count => format!("{}.j", holders[self.below(count)].name),
                };
                let path = self.one(&["", "", ", '$.k'", ", '$[1]'"]);
                (
                    Source { name: name.clone(), columns: EACH },
                    format!("{function}({json}{path}) {name}"),
                )
            }
            6 => self.series(name),
            7 => self.narrow(name),
            _ => {
                let query = self.table_query(ctes, depth - 1);
                (plain, format!("({query}) {name}"))
            }
        }
    }

    /// A few numbers.
    fn series(&mut self, name: String) -> (Source, String) {
        let (first, last) = (self.one(&["1", "0", "-2", "3"]), self.one(&["3", "0", "6", "1"]));
        let step = self.one(&["", "", ", 2"]);
        let call = format!("generate_series({first}, {last}{step})");
        let by = if step.is_empty() { 1 } else { 2 };
        let query = format!(
            "(SELECT value FROM numbers WHERE value BETWEEN {first} AND {last} AND (value - {first}) % {by} = 0)"
        );
        let text = format!("{call} {name}");
        self.series.push((call, query));
        (Source { name, columns: SERIES }, text)
    }

    /// Some columns of a table.
    fn narrow(&mut self, name: String) -> (Source, String) {
        let columns = NARROW[self.below(NARROW.len())];
        let table = self.one(TABLES);
        let distinct = self.one(&["", "", "DISTINCT "]);
        let text = format!("(SELECT {distinct}{} FROM {table}) {name}", columns.join(", "));
        (Source { name, columns }, text)
    }

    /// A query with the columns of a table, whose answer depends on no order of rows.
    pub(super) fn table_query(&mut self, ctes: &[String], depth: usize) -> String {
        let table = self.one(TABLES);
        let scope = [Source::whole("x")];
        match self.below(11) {
            0 => format!("SELECT {ALL} FROM {table} x WHERE {}", self.condition(&scope, depth)),
            10 => {
                let order = self.one(&["c", "b DESC, a", "d, c DESC", "a + b"]);
                format!("SELECT {ALL} FROM {table} ORDER BY {order}")
            }
            1 => format!("SELECT DISTINCT {ALL} FROM {table}"),
            // Parts of different types give SQLite's column now one affinity, now the other: all
            // parts are of one table.
            2 => {
                let op = self.one(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
                format!(
                    "SELECT {ALL} FROM {table} {op} SELECT {ALL} FROM {table} x WHERE {}",
                    self.condition(&scope, depth)
                )
            }
            3 => format!(
                "SELECT b AS a, c AS b, count(*) AS c, max(a) AS d, NULL AS j, min(d) AS g FROM {table} \
                 GROUP BY b, c{}",
                self.one(&["", " HAVING count(*) > 1", " HAVING max(a) IS NOT NULL"])
            ),
            4 => {
                let function =
                    self.one(&["rank()", "count(*)", "dense_rank()", "min(a)", "sum(b)"]);
                format!(
                    "SELECT a, b, c, {function} OVER (PARTITION BY b ORDER BY c) AS d, j, g FROM {table}"
                )
            }
            5 => {
                let limit = self.one(&["1", "2", "3", "5 OFFSET 1"]);
                let filter = self.condition(&scope, depth);
                format!("SELECT {ALL} FROM {table} x WHERE {filter} ORDER BY {ALL} LIMIT {limit}")
            }
            6 => {
                let (first, second) = (self.literal(), self.literal());
                format!(
                    "SELECT column1 AS a, column2 AS b, column1 AS c, column2 AS d, NULL AS j, 1 AS g \
                     FROM (VALUES (1, {first}), (2, {second}), ({first}, NULL)){VALUES_BOUND}"
                )
            }
            7 => {
                let kind = self.one(&["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]);
                let other = self.one(TABLES);
                let key = self.one(&["a", "b", "c", "d"]);
                format!(
                    "SELECT x.a, y.b, x.c, y.d, y.j, x.g FROM {table} x {kind} {other} y ON x.{key} = y.b"
                )
            }
            8 => {
                let computed = self.expr(&scope, depth.min(1));
                format!("SELECT a, {computed} AS b, c, lower(d) AS d, j, g FROM {table} x")
            }
            _ => {
                let filter = self.condition(&scope, depth);
                let from = match ctes.len() {
                    0 => table,
                    count => ctes[self.below(count)].as_str(),
                };
                format!(
                    "SELECT b AS a, a AS b, d AS c, c AS d, j, b AS g FROM {from} x WHERE {filter}"
                )
            }
        }
    }

    /// A `FROM` of up to three sources, all added to the scope.
    pub(super) fn from(
        &mut self,
        scope: &mut Vec<Source>,
        ctes: &[String],
        depth: usize,
    ) -> String {
        let outer = scope.len();
        let (first, mut text) = self.source(&[], ctes, depth);
        scope.push(first);
        let more = match self.below(5) {
            0 | 1 => 0,
            2 | 3 => 1,
            _ => 2,
        };
        for _ in 0..more {
            let kind = self.one(&[
                "JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "CROSS JOIN",
                ",",
                "LEFT JOIN",
            ]);
            // A table function may read the sources to its left, unless an outer join can leave
            // them NULL.
            let readable = match kind {
                "RIGHT JOIN" | "FULL JOIN" => Vec::new(),
                _ => scope[outer..].to_vec(),
            };
            if kind != "," && kind != "CROSS JOIN" && self.once_in(6) {
                text += &self.merging_join(kind, scope);
                continue;
            }
            let (source, reference) = self.source(&readable, ctes, depth);
            let plain = source.is_whole();
            let last = scope.iter().rev().find(|source| !source.is_merged()).cloned();
            let name = source.name.clone();
            scope.push(source);
            let last = last.filter(|last| plain && last.is_whole());
            let on = match (kind, last) {
                ("CROSS JOIN" | ",", _) => String::new(),
                (_, Some(last)) if self.below(3) > 0 => {
                    let (left, right) = (self.one(COLUMNS), self.one(COLUMNS));
                    let collate = self.one(COLLATE);
                    format!(" ON {}.{left} = {name}.{right}{collate}", last.name)
                }
                _ => {
                    let from = if self.once_in(2) { outer } else { scope.len() - 1 };
                    format!(" ON {}", self.condition(&scope[from..], 1))
                }
            };
            text += &format!(" {kind} {reference}{on}");
        }
        text
    }

    /// A join by columns of the same name (`NATURAL` or `USING`), merged by the join into one.
    fn merging_join(&mut self, kind: &str, scope: &mut Vec<Source>) -> String {
        let name = self.name("r");
        let natural = self.once_in(2);
        let (source, reference) = match natural && !self.once_in(4) {
            true => self.narrow(name),
            false => {
                let table = self.one(TABLES);
                (Source::whole(&name), format!("{table} {name}"))
            }
        };
        let columns = match natural {
            true => source.columns,
            false => NARROW[self.below(NARROW.len())],
        };
        scope.push(source);
        let merged = if kind == "FULL JOIN" { MERGED_IN_FULL } else { "" };
        scope.push(Source { name: merged.to_owned(), columns });
        match natural {
            true => format!(" NATURAL {kind} {reference}"),
            false => format!(" {kind} {reference} USING ({})", columns.join(", ")),
        }
    }
}
