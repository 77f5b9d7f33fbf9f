//! Whole queries: output columns, groups, window functions, compounds, order.

use super::words::{ALL, COLLATE, DIRECTION, EACH, EXCLUDE, FRAMES, RANGES, TABLES};
use super::{Choices, Source};

impl Choices<'_> {
    /// A statement, and whether its rows come in one order.
    pub(super) fn top(&mut self) -> (String, bool) {
        let mut ctes = Vec::new();
        let mut with = Vec::new();
        let mut recursive = "";
        for _ in 0..self.below(5).saturating_sub(2) {
            let name = self.name("q");
            let hint = self.one(&["", "", "", " MATERIALIZED", " NOT MATERIALIZED"]);
            let query = match self.below(3) {
                0 => {
                    recursive = "RECURSIVE ";
                    self.recursive(&name)
                }
                _ => self.table_query(&ctes, 1),
            };
            with.push(format!("{name}({ALL}) AS{hint} ({query})"));
            ctes.push(name);
        }
        let with = match with.is_empty() {
            true => String::new(),
            false => format!("WITH {recursive}{} ", with.join(", ")),
        };
        let (body, ordered) = self.body(&ctes);
        (with + &body, ordered)
    }

    /// A recursive query with the columns of a table; the numbers counted with stay whole, because
    /// SQLite's queue makes integers of some reals.
    fn recursive(&mut self, name: &str) -> String {
        let op = self.one(&["UNION", "UNION", "UNION ALL"]);
        let table = self.one(TABLES);
        let bound = self.one(&["2", "3"]);
        match self.below(4) {
            0 => format!(
                "SELECT 1, 1, 'a', NULL, NULL, 0 {op} SELECT a + 1, b * 2, c || 'b', a, j, g + b FROM {name} \
                 WHERE a < {bound} + 3{}",
                self.one(&["", "", " LIMIT 3", " ORDER BY 1 DESC"])
            ),
            1 => format!(
                "SELECT 0, CAST(b AS INT), 'a', 1, NULL, 1 FROM {table} UNION SELECT {name}.a + 1, \
                 CAST(x.a AS INT), 'b', 1, NULL, 2 FROM {name} JOIN {table} x ON x.b = {name}.b WHERE {name}.a < {bound}"
            ),
            2 => format!(
                "SELECT 0, CAST(b AS INT), 'a', 1, NULL, 1 FROM {table} UNION SELECT {name}.a + 1, \
                 CAST(coalesce(x.a, 1) AS INT), 'b', 1, NULL, 2 FROM {name} LEFT JOIN {table} x ON x.b = {name}.b \
                 WHERE {name}.a < {bound}"
            ),
            _ => format!(
                "VALUES (1, 1, 'x', 0, '[1]', 1), (2, 1, 'y', 0, NULL, 2) {op} SELECT b, a + b, c, d + 1, j, g \
                 FROM {name} WHERE d < {bound} {op} SELECT a, b, c || 'z', d + 2, j, 3 FROM {name} WHERE d < {bound}"
            ),
        }
    }

    fn body(&mut self, ctes: &[String]) -> (String, bool) {
        let (text, ordered) = self.core(ctes);
        // A page of an ordered query, as tools ask for.
        match ordered && self.once_in(5) {
            true => {
                let limit = self.one(&["", " LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT 40"]);
                (format!("SELECT * FROM ({text}){limit}"), true)
            }
            false => (text, ordered),
        }
    }

    fn core(&mut self, ctes: &[String]) -> (String, bool) {
        match self.below(13) {
            12 => self.values(ctes),
            0..=3 => self.plain_select(ctes),
            4..=6 => (self.grouped(ctes), false),
            7 | 8 => (self.windows(ctes), false),
            9 | 10 => self.compound(ctes),
            _ => {
                let mut scope = Vec::new();
                let from = self.from(&mut scope, ctes, 2);
                let filter = self.filter(&scope);
                let aggregates: Vec<String> =
                    (0..=self.below(3)).map(|_| self.aggregate(&scope)).collect();
                (format!("SELECT {} FROM {from}{filter}", aggregates.join(", ")), false)
            }
        }
    }

    /// A `VALUES` query of literal rows.
    fn values(&mut self, ctes: &[String]) -> (String, bool) {
        let width = 1 + self.below(2);
        let mut row = |_| {
            let values: Vec<String> = (0..width).map(|_| self.expr(&[], 2)).collect();
            format!("({})", values.join(", "))
        };
        let rows: Vec<String> = (0..3).map(&mut row).collect();
        let mut text = format!("VALUES {}", rows.join(", "));
        if self.once_in(3) {
            let mut scope = Vec::new();
            let from = self.from(&mut scope, ctes, 1);
            let columns: Vec<String> = (0..width).map(|_| self.column(&scope)).collect();
            text += &format!(" UNION ALL SELECT {} FROM {from}", columns.join(", "));
        }
        (text, false)
    }

    fn filter(&mut self, scope: &[Source]) -> String {
        match self.below(4) {
            0 => String::new(),
            _ => format!(" WHERE {}", self.condition(scope, 2)),
        }
    }

    fn plain_select(&mut self, ctes: &[String]) -> (String, bool) {
        let mut scope = Vec::new();
        let from = self.from(&mut scope, ctes, 2);
        let filter = self.filter(&scope);
        let distinct = self.once_in(4);
        // Numbers of rows within `json_each` depend on how JSON is stored.
        if scope.iter().all(|source| source.columns != EACH) && self.once_in(10) {
            let all = match self.once_in(3) {
                true => format!("*, {}", self.expr(&scope, 1)),
                false => "*".to_owned(),
            };
            let distinct = if distinct { "DISTINCT " } else { "" };
            return (format!("SELECT {distinct}{all} FROM {from}{filter}"), false);
        }
        let columns: Vec<String> = (0..=self.below(3))
            .map(|_| if distinct { self.plain(&scope) } else { self.expr(&scope, 2) })
            .collect();
        let mut tail = self.order(columns.len());
        if !distinct && !tail.is_empty() && self.once_in(4) {
            let first = format!("({}) || ''{}", self.expr(&scope, 1), self.one(DIRECTION));
            tail = tail.replacen(" ORDER BY ", &format!(" ORDER BY {first}, "), 1);
        }
        let distinct = if distinct { "DISTINCT " } else { "" };
        let ordered = !tail.is_empty();
        (format!("SELECT {distinct}{} FROM {from}{filter}{tail}", columns.join(", ")), ordered)
    }

    /// An order by all columns, so that only equal rows tie, and a limit.
    fn order(&mut self, width: usize) -> String {
        if self.below(3) == 0 {
            return String::new();
        }
        let mut terms = Vec::new();
        if self.once_in(2) {
            let place = 1 + self.below(width);
            terms.push(format!("{place}{}{}", self.one(COLLATE), self.one(DIRECTION)));
        }
        for place in 1..=width {
            terms.push(format!("{place} COLLATE BINARY{}", self.one(DIRECTION)));
        }
        let limit = match self.below(4) {
            0 => {
                let limit = self.one(&["3", "1", "0", "-1", "1 + 1", "20"]);
                let limit = self.bound_number(limit);
                format!(
                    " LIMIT {limit}{}",
                    self.one(&["", "", " OFFSET 1", " OFFSET 2 - 1", " OFFSET 40"])
                )
            }
            _ => String::new(),
        };
        format!(" ORDER BY {}{limit}", terms.join(", "))
    }

    fn bound_number(&mut self, number: &'static str) -> String {
        if number.contains('+') { number.to_owned() } else { self.bound(number) }
    }

    fn grouped(&mut self, ctes: &[String]) -> String {
        let mut scope = Vec::new();
        let from = self.from(&mut scope, ctes, 2);
        let filter = self.filter(&scope);
        let mut keys = Vec::new();
        for _ in 0..=self.below(2) {
            keys.push(match self.once_in(4) {
                // A number alone would be the place of a column.
                true => format!("({}) || ''", self.expr(&scope, 1)),
                false => format!("{}{}", self.column(&scope), self.one(COLLATE)),
            });
        }
        let mut columns: Vec<String> = keys.iter().map(|key| format!("lower({key})")).collect();
        columns.extend((0..=self.below(3)).map(|_| self.aggregate(&scope)));
        if self.once_in(5) {
            let inner = self.one(&["count(*)", "max(count(*))", "sum(count(*))"]);
            let window = match inner {
                "count(*)" => "rank() OVER (ORDER BY count(*))".to_owned(),
                inner => format!("{inner} OVER ()"),
            };
            columns.push(window);
        }
        let having = match self.below(6) {
            0 => " HAVING count(*) > 1".to_owned(),
            1 => format!(" HAVING {} IS NOT {}", self.aggregate(&scope), self.literal()),
            2 => format!(" HAVING {} > {}", keys[0], self.literal()),
            3 => {
                let table = self.one(TABLES);
                let column = self.one(&["a", "b", "c", "d"]);
                format!(
                    " HAVING (SELECT count(*) FROM {table} h WHERE h.{column} = {}) > 0",
                    keys[0]
                )
            }
            _ => String::new(),
        };
        format!(
            "SELECT {} FROM {from}{filter} GROUP BY {}{having}",
            columns.join(", "),
            keys.join(", ")
        )
    }

    fn windows(&mut self, ctes: &[String]) -> String {
        let mut scope = Vec::new();
        let from = self.from(&mut scope, ctes, 1);
        let filter = self.filter(&scope);
        // All columns in scope: rows equal in the answer are then equal as a whole.
        let everything: Vec<String> = scope
            .iter()
            .filter(|source| !source.is_merged())
            .flat_map(|source| {
                let columns: &[&str] = match source.is_whole() {
                    true => &["a", "b", "c", "d", "j", "g"],
                    false => source.columns,
                };
                columns.iter().map(|column| source.at(column))
            })
            .collect();
        let everything = everything.join(", ");
        let part = match self.below(5) {
            0 | 1 => String::new(),
            2 => format!("PARTITION BY ({}) || '' ", self.expr(&scope, 1)),
            _ => format!("PARTITION BY {}{} ", self.column(&scope), self.one(COLLATE)),
        };
        let named = self.once_in(5);
        let first = self.column(&scope);
        let mut columns = vec![first.clone()];
        for _ in 0..=self.below(2) {
            let value = self.column(&scope);
            let total = format!("ORDER BY {first}{}, {everything}", self.one(DIRECTION));
            let (function, order) = match self.below(17) {
                0 => ("rank()".to_owned(), format!("ORDER BY {first}{}", self.one(DIRECTION))),
                1 => {
                    ("dense_rank()".to_owned(), format!("ORDER BY {first}{}", self.one(DIRECTION)))
                }
                2 => ("percent_rank()".to_owned(), format!("ORDER BY {first}")),
                3 => ("cume_dist()".to_owned(), format!("ORDER BY {first} DESC")),
                4 => ("row_number()".to_owned(), total),
                5 => (format!("ntile({})", self.one(&["2", "3", "1", "100"])), total),
                6 => {
                    (format!("lag({value}{})", self.one(&["", ", 2", ", 1, 'none'", ", 0"])), total)
                }
                7 => (format!("lead({value}{})", self.one(&["", ", 3", ", 2, -1"])), total),
                8 => (format!("first_value({value})"), total),
                9 => (format!("last_value({value})"), total),
                10 => (format!("nth_value({value}, {})", self.one(&["1", "2", "3"])), total),
                11 => {
                    // A frame by value: its rows are the same whatever the order among peers.
                    let key = self.column(&scope);
                    let frame = self.one(RANGES);
                    let function =
                        self.one(&["count(*)", "min(V)", "max(V)", "sum(V)", "count(V)"]);
                    let order = format!(
                        "ORDER BY {key}{}{frame}{}",
                        self.one(DIRECTION),
                        self.one(EXCLUDE)
                    );
                    (function.replace('V', &value), order)
                }
                12 => {
                    let text = self.one(&["quote(V)", "iif(V > 0, '', quote(V))", "trim(V, 'ab')"]);
                    let text = text.replace('V', &value);
                    let filter = match self.once_in(3) {
                        true => format!(" FILTER (WHERE {})", self.condition(&scope, 0)),
                        false => String::new(),
                    };
                    (format!("group_concat({text}, '.'){filter}"), total)
                }
                13 => (format!("json_group_array(quote({value}))"), total),
                14 => {
                    let filter = self.condition(&scope, 0);
                    let function = self.one(&["count(*)", "sum(V)", "min(V)", "total(V)"]);
                    (format!("{} FILTER (WHERE {filter})", function.replace('V', &value)), total)
                }
                _ => {
                    let function =
                        self.one(&["count(*)", "min(V)", "max(V)", "sum(V)", "avg(V)", "total(V)"]);
                    (function.replace('V', &value), total)
                }
            };
            let frame = match order.ends_with(&everything) && self.below(3) > 0 {
                true => self.one(FRAMES),
                false => "",
            };
            let exclude = if frame.is_empty() { "" } else { self.one(EXCLUDE) };
            let base = if named { "w " } else { &part };
            columns.push(format!("{function} OVER ({base}{order}{frame}{exclude})"));
        }
        let window = if named { format!(" WINDOW w AS ({part})") } else { String::new() };
        format!("SELECT {} FROM {from}{filter}{window}", columns.join(", "))
    }

    fn compound(&mut self, ctes: &[String]) -> (String, bool) {
        let width = 1 + self.below(2);
        let mut text = String::new();
        for part in 0..2 + self.below(2) {
            if part > 0 {
                text += &format!(" {} ", self.one(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]));
            }
            match self.below(6) {
                0 => {
                    let rows: Vec<String> = (0..=self.below(3))
                        .map(|_| {
                            let values: Vec<String> = (0..width).map(|_| self.plain(&[])).collect();
                            format!("({})", values.join(", "))
                        })
                        .collect();
                    text += &format!("SELECT * FROM (VALUES {})", rows.join(", "));
                }
                1 => {
                    let mut scope = Vec::new();
                    let from = self.from(&mut scope, ctes, 1);
                    let key = self.column(&scope);
                    let columns = [key.clone(), "count(*)".to_owned()];
                    // Directly there, SQLite loses the group's columns where the whole is ordered.
                    text += &format!(
                        "SELECT * FROM (SELECT {} FROM {from} GROUP BY {key})",
                        columns[..width].join(", ")
                    );
                }
                _ => {
                    let mut scope = Vec::new();
                    let from = self.from(&mut scope, ctes, 1);
                    let filter = self.filter(&scope);
                    let columns: Vec<String> = (0..width).map(|_| self.plain(&scope)).collect();
                    text += &format!("SELECT {} FROM {from}{filter}", columns.join(", "));
                }
            }
        }
        let tail = self.order(width);
        let ordered = !tail.is_empty();
        (text + &tail, ordered)
    }
}
