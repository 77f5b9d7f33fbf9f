//! Expressions: values, conditions, aggregates.

use super::words::{
    COLLATE, COLUMNS, COMPARE, DATES, DIRECTION, FORMATS, JSON5, LITERALS, MODIFIERS, MOMENTS,
    PATTERNS, TABLES,
};
use super::{Choices, Source};

impl Choices<'_> {
    /// A value of any kind.
    pub(super) fn expr(&mut self, scope: &[Source], depth: usize) -> String {
        if depth == 0 {
            return if self.below(3) == 2 { self.literal() } else { self.column(scope) };
        }
        match self.below(14) {
            0..=2 => self.column(scope),
            3 => self.literal(),
            4 | 5 => {
                let (left, right) = (self.expr(scope, depth - 1), self.expr(scope, depth - 1));
                let op = self.one(&["+", "||", "-", "*", "/", "%", "&", "|", "<<", ">>"]);
                format!("({left} {op} {right})")
            }
            6 => {
                let op = self.one(&["-", "~", "NOT ", "+"]);
                format!("{op}{}", self.expr(scope, depth - 1))
            }
            7 => {
                let value = self.expr(scope, depth - 1);
                let kind = self.one(&["INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "VARCHAR(2)"]);
                format!("CAST({value} AS {kind})")
            }
            8 => self.case(scope, depth),
            9 | 10 => self.call(scope, depth),
            11 => self.date(scope),
            12 => self.json(scope),
            _ => match self.below(3) {
                0 => format!("({})", self.condition(scope, depth - 1)),
                _ => self.scalar_query(scope, depth - 1),
            },
        }
    }

    fn case(&mut self, scope: &[Source], depth: usize) -> String {
        let simple = self.once_in(3);
        let mut text = "CASE".to_owned();
        if simple {
            text += &format!(" {}", self.column(scope));
        }
        for _ in 0..=self.below(2) {
            let when = match simple {
                true => self.expr(scope, 0),
                false => self.condition(scope, depth - 1),
            };
            text += &format!(" WHEN {when} THEN {}", self.expr(scope, depth - 1));
        }
        if !self.once_in(3) {
            text += &format!(" ELSE {}", self.expr(scope, depth - 1));
        }
        text + " END"
    }

    fn call(&mut self, scope: &[Source], depth: usize) -> String {
        let value = self.expr(scope, depth - 1);
        match self.below(21) {
            0 => format!("length({value})"),
            1 => format!("lower({value})"),
            2 => format!("upper({value})"),
            3 => format!("typeof({value})"),
            4 => format!("quote({value})"),
            5 => format!("hex({value})"),
            6 => {
                format!("substr({value}, {}, {})", self.one(LITERALS), self.one(&["1", "2", "-1"]))
            }
            7 => format!("instr({value}, {})", self.expr(scope, 0)),
            8 => format!("replace({value}, {}, {})", self.expr(scope, 0), self.expr(scope, 0)),
            9 => {
                let trim = self.one(&["trim", "ltrim", "rtrim"]);
                format!("{trim}({value}{})", self.one(&["", ", 'a'", ", 'ab'"]))
            }
            10 => format!("coalesce({value}, {})", self.expr(scope, depth - 1)),
            11 => format!("nullif({value}, {})", self.expr(scope, 0)),
            12 => {
                let condition = self.condition(scope, 0);
                format!("iif({condition}, {value}, {})", self.expr(scope, 0))
            }
            13 => format!("round({value}{})", self.one(&["", ", 1", ", -1", ", 30"])),
            14 => {
                let function = self.one(&["min", "max"]);
                format!("{function}({value}, {})", self.expr(scope, depth - 1))
            }
            15 => format!("unicode({value})"),
            16 => {
                let form = self.one(&[
                    "'%d|%s'",
                    "'%5.2f %5s'",
                    "'%-4d%04d'",
                    "'%x%Q'",
                    "'%g %q'",
                    "'%,d %c'",
                ]);
                format!("printf({form}, {value}, {})", self.expr(scope, 0))
            }
            17 => format!("abs(CAST({value} AS REAL))"),
            18 => {
                format!(
                    "{}({value})",
                    self.one(&["likely", "unlikely", "sign", "octet_length", "unhex"])
                )
            }
            19 => format!("ifnull({value}, {})", self.literal()),
            _ => {
                let function = self.one(&["concat", "concat_ws", "concat_ws"]);
                format!(
                    "{function}({}, {value}, {})",
                    self.one(&["'-'", "''"]),
                    self.expr(scope, 0)
                )
            }
        }
    }

    fn date(&mut self, scope: &[Source]) -> String {
        let moment = match self.below(4) {
            0 => self.column(scope),
            _ => {
                let moment = self.one(MOMENTS);
                self.bound(moment)
            }
        };
        let modifiers: Vec<&str> = (0..self.below(3)).map(|_| self.one(MODIFIERS)).collect();
        let modifiers: String = modifiers.iter().map(|modifier| format!(", {modifier}")).collect();
        match self.below(5) {
            0 | 1 => format!("strftime({}, {moment}{modifiers})", self.one(FORMATS)),
            2 => format!("timediff({moment}, {})", self.one(MOMENTS)),
            _ => format!("{}({moment}{modifiers})", self.one(DATES)),
        }
    }

    fn json(&mut self, scope: &[Source]) -> String {
        // Every source has a column `j` of valid JSON, but for the table functions.
        let holders: Vec<&Source> = scope.iter().filter(|source| source.is_whole()).collect();
        let json = match holders.len() {
            0 => "'[1,{\"k\":2}]'".to_owned(),
            count => holders[self.below(count)].at("j"),
        };
        let path = self.one(&[
            "'$.k'",
            "'$[1]'",
            "'$'",
            "'$.l[0]'",
            "'$[#-1]'",
            "'$.\"a.b\".k'",
            "'$[1][0]'",
        ]);
        match self.below(26) {
            0 | 1 => format!("json_extract({json}, {path})"),
            2 => format!("{json} -> {}", self.one(&["'k'", "0", "'$.k'", "-1"])),
            3 => format!("{json} ->> {}", self.one(&["'k'", "1", "'$.l'", "'$[#-1]'"])),
            4 => format!("json_type({json}{})", self.one(&["", ", '$.k'", ", '$[0]'"])),
            5 => format!("json_array_length({json})"),
            6 => format!("json_valid({json})"),
            7 => format!("json({json})"),
            8 => format!(
                "json_array({json}, {})",
                self.one(&["1", "NULL", "'a'", "2.5", "json('[1]')"])
            ),
            9 => format!("json_object('x', {json}, 'y', json_quote({json}))"),
            10 => format!(
                "json_set({json}, {path}, {})",
                self.one(&["1", "'b'", "NULL", "json('{}')"])
            ),
            11 => format!("json_remove({json}, {})", self.one(&["'$.k'", "'$[0]'", "'$.l'"])),
            12 => format!("json_patch({json}, '{{\"k\":null,\"m\":1}}')"),
            13 => format!("json_insert({json}, {path}, {})", self.one(&["1", "'b'", "json('[]')"])),
            14 => format!("json_replace({json}, {path}, {}, '$.k', 7)", self.one(&["1", "2.5"])),
            15 => format!("json_pretty({json}{})", self.one(&["", ", '-'"])),
            16 => format!("json_error_position({})", self.one(&["'[1,}'", "'{\"a\":'", "'[]'"])),
            17 => format!("jsonb({json})"),
            18 => format!("jsonb_set({json}, {path}, {})", self.one(&["1", "NULL", "'a'"])),
            19 => format!("jsonb_extract({json}, '$.k', {path})"),
            20 => format!("json_valid({json}, {})", self.one(&["1", "2", "4", "6", "8"])),
            21 => format!("json_array_length({json}, {path})"),
            22 => {
                // The plan decides which rows reach a function, so a function must take every value
                // without error.
                let json = self.one(JSON5);
                let json = format!("iif(json_valid({json}, 2), {json}, '[3]')");
                let function = self.one(&["json_extract", "jsonb_extract", "json_type"]);
                let form = self.one(&["jsonb(J)", "J", "json(J)"]).replace('J', &json);
                match self.below(4) {
                    0 => format!("json_error_position({})", self.one(JSON5)),
                    1 => form,
                    2 => format!("jsonb_replace({json}, {path}, {})", self.one(&["1", "'b'"])),
                    _ => format!("{function}({form}, {path})"),
                }
            }
            23 => format!("json_type(jsonb({json}), {path})"),
            24 => format!("json(jsonb_remove({json}, {path}, '$.k'))"),
            _ => format!("json_extract({json}, '$.k', {path})"),
        }
    }

    /// A query certain to give exactly one value.
    fn scalar_query(&mut self, scope: &[Source], depth: usize) -> String {
        let (mut inner, from) = self.table(scope);
        let filter = self.inner_filter(&mut inner, depth);
        match self.below(5) {
            4 => {
                // As many rows as the outer one has elements, numbered.
                let (value, key) = (self.last_column(&inner), self.last_column(&inner));
                let outer = self.column(scope);
                format!(
                    "(SELECT sum(n) FROM (SELECT rank() OVER (ORDER BY {key}) + count({outer}) OVER () AS n, \
                     {value} AS v FROM {from}{filter}))"
                )
            }
            0 | 1 => {
                let value = self.last_column(&inner);
                let aggregate =
                    self.one(&["count(*)", "min(V)", "max(V)", "count(V)", "total(V)", "sum(V)"]);
                format!("(SELECT {} FROM {from}{filter})", aggregate.replace('V', &value))
            }
            2 => {
                let value = self.last_column(&inner);
                let direction = self.one(&["", " DESC"]);
                let offset = self.one(&["", " OFFSET 1"]);
                format!(
                    "(SELECT {value} FROM {from}{filter} ORDER BY {value}{direction} LIMIT 1{offset})"
                )
            }
            _ => format!("EXISTS (SELECT 1 FROM {from}{filter})"),
        }
    }

    /// A table under a new name, or two joined, and the scope with them.
    fn table(&mut self, scope: &[Source]) -> (Vec<Source>, String) {
        let name = self.name("s");
        let table = self.one(TABLES);
        let mut inner = scope.to_vec();
        let mut from = format!("{table} {name}");
        let first = Source::whole(&name);
        if self.once_in(4) {
            let (other, table) = (self.name("s"), self.one(TABLES));
            let kind = self.one(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let second = Source::whole(&other);
            let (left, right) = (self.one(COLUMNS), self.one(COLUMNS));
            from +=
                &format!(" {kind} {table} {other} ON {} = {}", first.at(left), second.at(right));
            inner.push(second);
        }
        inner.push(first);
        (inner, from)
    }

    /// The `WHERE` of a query within an expression, mostly correlated with the row outside.
    fn inner_filter(&mut self, inner: &mut [Source], depth: usize) -> String {
        let outer = &inner[..inner.len() - 1];
        match self.below(4) {
            0 => String::new(),
            1 | 2 if !outer.is_empty() => {
                let (column, outer) = (self.column(outer), self.last_column(inner));
                format!(" WHERE {outer} {} {column}", self.one(COMPARE))
            }
            _ => format!(" WHERE {}", self.condition(inner, depth.min(1))),
        }
    }

    /// A condition.
    pub(super) fn condition(&mut self, scope: &[Source], depth: usize) -> String {
        let column = self.last_column(scope);
        let kinds = if depth == 0 { 10 } else { 22 };
        match self.below(kinds) {
            0..=2 => {
                let right = self.expr(scope, depth.min(1));
                format!("{column} {} {right}{}", self.one(COMPARE), self.one(COLLATE))
            }
            3 => {
                let not = self.one(&["", "", "NOT "]);
                format!("{column} {not}BETWEEN {} AND {}", self.expr(scope, 0), self.expr(scope, 0))
            }
            4 => format!(
                "{column} {}",
                self.one(&["IS NULL", "IS NOT NULL", "NOTNULL", "IS TRUE", "IS NOT FALSE"])
            ),
            5 => {
                // Of `b IN () AND c` SQLite looks at no name, ambiguous ones included.
                let least = usize::from(scope.iter().any(Source::is_merged));
                let count = self.below(6).max(least);
                // The collation of a value in the list means nothing.
                let item = |choices: &mut Self| match choices.once_in(8) {
                    true => format!("'A'{}", choices.one(COLLATE)),
                    false => choices.literal(),
                };
                let list: Vec<String> = (0..count).map(|_| item(self)).collect();
                let collate = self.one(COLLATE);
                format!("{column}{collate} {}IN ({})", self.one(&["", "", "NOT "]), list.join(", "))
            }
            6 => {
                let like = self.one(PATTERNS);
                format!("{column} {like}")
            }
            7 => {
                let second = self.column(scope);
                let compare = self.one(&["=", "<", ">=", "IS", "<>"]);
                format!(
                    "({column}, {second}) {compare} ({}, {})",
                    self.expr(scope, 0),
                    self.literal()
                )
            }
            8 => format!("{} {} {column}", self.expr(scope, 0), self.one(COMPARE)),
            9 => {
                let like = self.one(&["LIKE", "GLOB", "NOT LIKE", "NOT GLOB"]);
                format!("{column} {like} {}", self.expr(scope, 0))
            }
            18 => {
                let (mut inner, from) = self.table(scope);
                let filter = self.inner_filter(&mut inner, depth - 1);
                let (first, second) = (self.last_column(&inner), self.last_column(&inner));
                let other = self.column(scope);
                let compare = self.one(&["=", "<", ">=", "IS", "<>", "IS NOT"]);
                format!(
                    "({column}, {other}) {compare} (SELECT min({first}), max({second}) FROM {from}{filter})"
                )
            }
            19 => {
                let (other, third) = (self.column(scope), self.literal());
                let rows: Vec<String> = (0..=self.below(3))
                    .map(|_| format!("({}, {})", self.literal(), self.one(LITERALS)))
                    .collect();
                match self.below(3) {
                    0 => format!(
                        "({column}, {other}) BETWEEN ({third}, {}) AND ({}, {other})",
                        self.literal(),
                        self.literal()
                    ),
                    not => {
                        let not = if not == 1 { "" } else { "NOT " };
                        format!("({column}, {other}) {not}IN (VALUES {})", rows.join(", "))
                    }
                }
            }
            20 => {
                let value = self.expr(scope, 0);
                let (mut inner, from) = self.table(scope);
                let filter = self.inner_filter(&mut inner, depth - 1);
                let (first, second) = (self.last_column(&inner), self.last_column(&inner));
                let op = self.one(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
                let table = self.one(TABLES);
                format!(
                    "{column} {}IN (SELECT {first} FROM {from}{filter} {op} SELECT b FROM {table} \
                     WHERE a IS NOT {value} {op} SELECT {second} FROM {from}{filter})",
                    self.one(&["", "", "NOT "])
                )
            }
            21 => {
                let name = self.name("e");
                let holders: Vec<&Source> =
                    scope.iter().filter(|source| source.is_whole()).collect();
                let json = match holders.len() {
                    0 => "'[1,\"a\"]'".to_owned(),
                    count => holders[self.below(count)].at("j"),
                };
                let function = self.one(&["json_each", "json_tree"]);
                format!(
                    "{}EXISTS (SELECT 1 FROM {function}({json}) {name} WHERE {name}.atom {} {column})",
                    self.one(&["", "NOT "]),
                    self.one(COMPARE)
                )
            }
            10 | 11 => {
                let (left, right) =
                    (self.condition(scope, depth - 1), self.condition(scope, depth - 1));
                format!("({left} {} {right})", self.one(&["AND", "OR", "OR"]))
            }
            12 => format!("NOT ({})", self.condition(scope, depth - 1)),
            13 => self.expr(scope, depth),
            14 => {
                let (mut inner, from) = self.table(scope);
                let filter = self.inner_filter(&mut inner, depth - 1);
                format!("{}EXISTS (SELECT 1 FROM {from}{filter})", self.one(&["", "", "NOT "]))
            }
            15 => {
                let (mut inner, from) = self.table(scope);
                let filter = self.inner_filter(&mut inner, depth - 1);
                let value = self.last_column(&inner);
                format!(
                    "{column} {}IN (SELECT {value} FROM {from}{filter})",
                    self.one(&["", "", "NOT "])
                )
            }
            16 => {
                let (mut inner, from) = self.table(scope);
                let filter = self.inner_filter(&mut inner, depth - 1);
                let (first, second) = (self.last_column(&inner), self.last_column(&inner));
                let other = self.column(scope);
                format!("({column}, {other}) IN (SELECT {first}, {second} FROM {from}{filter})")
            }
            _ => format!("{column} {} {}", self.one(COMPARE), self.scalar_query(scope, depth - 1)),
        }
    }

    /// An aggregate whose value does not depend on the order of the rows.
    pub(super) fn aggregate(&mut self, scope: &[Source]) -> String {
        let value = self.column(scope);
        let plain = match self.below(17) {
            0 => "count(*)".to_owned(),
            1 => format!("count({value})"),
            2 => format!("count(DISTINCT {value})"),
            3 => format!("min({value})"),
            4 => format!("max({value})"),
            5 => format!("sum({value})"),
            6 => format!("total({value})"),
            7 => format!("avg({value})"),
            8 => format!("sum(DISTINCT {value})"),
            9 => format!("group_concat({value}, '-' ORDER BY {value}{})", self.one(DIRECTION)),
            10 => format!("string_agg({value}, '' ORDER BY {value} DESC)"),
            11 => {
                format!("json_group_array(quote({value}) ORDER BY {value}{})", self.one(DIRECTION))
            }
            12 => format!("json_group_object(quote({value}), 1 ORDER BY {value})"),
            13 => format!("count({})", self.expr(scope, 1)),
            14 => {
                let query = self.scalar_query(scope, 0);
                format!("{}({query})", self.one(&["max", "min", "total", "count"]))
            }
            15 => format!("json(jsonb_group_array(quote({value}) ORDER BY {value}))"),
            _ => format!("max(length({value}))"),
        };
        if self.once_in(5) {
            return format!("{plain} FILTER (WHERE {})", self.condition(scope, 0));
        }
        plain
    }
}
