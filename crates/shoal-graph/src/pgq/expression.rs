//! Expressions over variables of a pattern as SQL over tables.

use std::cell::RefCell;

use shoal_sql::Error;

use super::definition::{EdgeTable, ElementTable, MappedGraph};
use super::elements::{Truth, literal, quoted};
use super::lower::{Choice, NamedPath, Part, Pattern, Walk};
use super::pattern::label_of;
use super::words::{Kind, Word, at_place};

/// Aggregates over lists of elements.
const AGGREGATES: [&str; 9] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "total",
    "group_concat",
    "string_agg",
    "json_group_array",
];

/// The variables of a pattern where tables are chosen for them.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s, 't> {
    pub(super) graph: &'s MappedGraph,
    pub(super) pattern: &'s Pattern<'t>,
    pub(super) choice: &'s Choice,
    /// In a query that a function runs: the parameters of the statement.
    pub(super) parameters: Option<&'s Parameters>,
    /// In a query over the rows of `graph_match`: the rowid of a node whose table is not joined.
    pub(super) rowid_of: Option<&'s dyn Fn(usize) -> Option<String>>,
    /// Paths of each walk at most.
    pub(super) paths_max: Option<usize>,
}

impl<'s, 't> Scope<'s, 't> {
    /// The variables of a statement's own query.
    pub(super) fn of(
        graph: &'s MappedGraph,
        pattern: &'s Pattern<'t>,
        choice: &'s Choice,
    ) -> Scope<'s, 't> {
        Scope { graph, pattern, choice, parameters: None, rowid_of: None, paths_max: None }
    }
}

/// Parameters of a statement in a query that a function runs.
pub(super) struct Parameters {
    names: RefCell<Vec<String>>,
    /// True where they are given as a JSON array, false where each has its number.
    are_json: bool,
}

impl Parameters {
    /// Parameters given as a JSON array, behind those known.
    pub(super) fn json(known: Vec<String>) -> Parameters {
        Parameters { names: RefCell::new(known), are_json: true }
    }

    /// Parameters by numbers.
    pub(super) fn numbered() -> Parameters {
        Parameters { names: RefCell::default(), are_json: false }
    }

    /// The parameters as the statement names them.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names.into_inner()
    }

    fn sql(&self, name: &str) -> String {
        let mut names = self.names.borrow_mut();
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        if self.are_json { format!("(?2 ->> {at})") } else { format!("?{}", at + 1) }
    }
}

/// The kind of a variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'s, 't> {
    Node(usize),
    Edge(usize),
    Path(&'s NamedPath),
    /// The nodes at a place of each round.
    NodesOf(&'s Walk<'t>, usize),
    /// The edges at a place of each round.
    EdgesOf(&'s Walk<'t>, usize),
}

impl<'s> Scope<'s, '_> {
    /// The table chosen for a node, and its place in the graph.
    pub(super) fn node_table(&self, node: usize) -> (&'s ElementTable, usize) {
        let place = self.choice.nodes[node].expect("a choice has a table for every node");
        (&self.graph.vertices[place], place)
    }

    /// The table chosen for an edge; true where it is followed backwards.
    pub(super) fn edge_table(&self, edge: usize) -> (&'s EdgeTable, bool) {
        let (table, is_backwards) = self.choice.edges[edge];
        (&self.graph.edges[table], is_backwards)
    }

    pub(super) fn node_id(&self, node: usize) -> String {
        let (table, place) = self.node_table(node);
        table.id_sql(place, self.pattern.node_alias(node))
    }

    pub(super) fn edge_id(&self, edge: usize) -> String {
        let (place, _) = self.choice.edges[edge];
        self.graph.edges[place].element.id_sql(place, self.pattern.edge_alias(edge))
    }

    /// An expression as SQL.
    ///
    /// # Errors
    /// Properties that no table has, and functions of elements that do not fit.
    pub(super) fn sql(&self, words: &[Word<'_>]) -> Result<String, Error> {
        let mut sql = String::new();
        let mut at = 0;
        while at < words.len() {
            if at > 0 && words[at - 1].end() < words[at].start {
                sql.push(' ');
            }
            let is_member = at > 0 && words[at - 1].is_sign(".");
            let (piece, taken) = match is_member {
                true => (words[at].text.to_owned(), 1),
                false => self.piece(&words[at..])?,
            };
            sql.push_str(&piece);
            at += taken;
        }
        Ok(sql)
    }

    /// The words at the start of an expression as SQL, and how many they are.
    fn piece(&self, words: &[Word<'_>]) -> Result<(String, usize), Error> {
        let word = words[0];
        if word.kind == Kind::Parameter {
            return Ok((self.parameter(word)?, 1));
        }
        let sign = |at: usize, sign: &str| words.get(at).is_some_and(|word| word.is_sign(sign));
        let Some(name) = word.name() else { return Ok((word.text.to_owned(), 1)) };
        if sign(1, "(") && word.kind == Kind::Name {
            let end = closing(words, 1);
            let arguments = &words[2..end];
            if let Some(sql) = self.call(word, arguments)? {
                return Ok((sql, end + 1));
            }
            return Ok((word.text.to_owned(), 1));
        }
        let Some(shown) = self.pattern.shown(&name) else { return Ok((word.text.to_owned(), 1)) };
        if sign(1, ".") {
            let Some(property) = words.get(2).and_then(Word::name) else {
                let why = format!("{name}.* is not supported: name the properties");
                return Err(at_place(&why, word.start));
            };
            return Ok((self.property(word, shown, &property)?, 3));
        }
        if words.get(1).is_some_and(|word| word.is("IS"))
            && let Some(found) = self.predicate(shown, words)?
        {
            return Ok(found);
        }
        Ok((word.text.to_owned(), 1))
    }

    fn parameter(&self, word: Word<'_>) -> Result<String, Error> {
        if word.text == "?" {
            let why = "a parameter in GRAPH_TABLE has a number or a name: ?1, :name";
            return Err(at_place(why, word.start));
        }
        let Some(parameters) = self.parameters else { return Ok(word.text.to_owned()) };
        Ok(parameters.sql(word.text))
    }

    fn property(
        &self,
        word: Word<'_>,
        shown: Shown<'_, '_>,
        property: &str,
    ) -> Result<String, Error> {
        let variable = word.text;
        let (chosen, alias, is_elsewhere) = match shown {
            Shown::Node(at) => {
                if let Some(rowid) = self.rowid_of.and_then(|rowid_of| rowid_of(at)) {
                    return Ok(rowid);
                }
                let mut tables = self.pattern.tables_of_node(self.graph, at);
                let is_elsewhere = tables.any(|(_, table)| table.property(property).is_some());
                (self.node_table(at).0, self.pattern.node_alias(at), is_elsewhere)
            }
            Shown::Edge(at) => {
                let mut tables = self.pattern.tables_of_edge(self.graph, at);
                let is_elsewhere = tables.any(|(_, table)| table.property(property).is_some());
                (&self.edge_table(at).0.element, self.pattern.edge_alias(at), is_elsewhere)
            }
            Shown::Path(_) => {
                return Err(at_place(
                    &format!("{variable} is a path and has no properties"),
                    word.start,
                ));
            }
            Shown::NodesOf(..) | Shown::EdgesOf(..) => {
                let why = format!(
                    "{variable} stands for the elements of several rounds: count({variable}), \
                     sum({variable}.{property}) and other aggregates take them"
                );
                return Err(at_place(&why, word.start));
            }
        };
        match chosen.property_sql(alias, property) {
            Some(sql) => Ok(sql),
            // A property of some of the tables is NULL in the others.
            None if is_elsewhere => Ok("NULL".to_owned()),
            None => {
                let graph = &self.graph.name;
                let why =
                    format!("no table of graph {graph} for {variable} has a property {property}");
                Err(at_place(&why, word.start))
            }
        }
    }

    /// `v IS [NOT] LABELED label`, `v IS [NOT] SOURCE OF e`, `v IS [NOT] DESTINATION OF e`.
    fn predicate(
        &self,
        shown: Shown<'_, '_>,
        words: &[Word<'_>],
    ) -> Result<Option<(String, usize)>, Error> {
        let mut at = 2;
        let is_not = words.get(at).is_some_and(|word| word.is("NOT"));
        at += usize::from(is_not);
        let Some(kind) = words.get(at) else { return Ok(None) };
        let negated =
            |sql: String| if is_not { format!("(NOT ({sql}))") } else { format!("({sql})") };
        if kind.is("LABELED") {
            let (label, taken) = label_of(&words[at + 1..])?;
            let (table, alias) = match shown {
                Shown::Node(node) => (self.node_table(node).0, self.pattern.node_alias(node)),
                Shown::Edge(edge) => {
                    (&self.edge_table(edge).0.element, self.pattern.edge_alias(edge))
                }
                _ => return Err(at_place("IS LABELED is asked of a node or an edge", kind.start)),
            };
            let sql = match table.label_truth(alias, &label) {
                Truth::Yes => "1".to_owned(),
                Truth::No => "0".to_owned(),
                Truth::If(sql) => sql,
            };
            return Ok(Some((negated(sql), at + 1 + taken)));
        }
        let is_source = kind.is("SOURCE");
        if !is_source && !kind.is("DESTINATION") {
            return Ok(None);
        }
        at += 1;
        at += usize::from(words.get(at).is_some_and(|word| word.is("OF")));
        let edge = words.get(at).and_then(Word::name).and_then(|name| self.pattern.shown(&name));
        let (Shown::Node(node), Some(Shown::Edge(edge))) = (shown, edge) else {
            return Err(at_place("a node is asked to be the end of an edge", kind.start));
        };
        let (table, _) = self.edge_table(edge);
        let end = if is_source { &table.source } else { &table.target };
        let sql = match self.node_table(node).1 == end.vertex {
            true => end.join_sql(self.pattern.edge_alias(edge), self.pattern.node_alias(node)),
            false => "0".to_owned(),
        };
        Ok(Some((negated(sql), at + 1)))
    }

    /// A call of a function of elements; `None` for other functions.
    fn call(&self, word: Word<'_>, arguments: &[Word<'_>]) -> Result<Option<String>, Error> {
        let is = |name: &str| word.text.eq_ignore_ascii_case(name);
        let refused = |why: &str| Err(at_place(&format!("{}: {why}", word.text), word.start));
        let only = match arguments {
            [one] => one.name().and_then(|name| self.pattern.shown(&name)),
            _ => None,
        };
        if is("element_id") || is("labels") {
            let (table, alias, id) = match only {
                Some(Shown::Node(at)) => {
                    (self.node_table(at).0, self.pattern.node_alias(at), self.node_id(at))
                }
                Some(Shown::Edge(at)) => {
                    (&self.edge_table(at).0.element, self.pattern.edge_alias(at), self.edge_id(at))
                }
                _ => return refused("a node or an edge is its argument"),
            };
            return Ok(Some(match is("labels") {
                true => table.labels_sql(alias),
                false => format!("({id})"),
            }));
        }
        if is("path_length") || is("vertices") || is("edges") {
            let Some(Shown::Path(path)) = only else { return refused("a path is its argument") };
            return Ok(Some(match () {
                () if is("path_length") => self.length(path),
                () if is("vertices") => self.vertices(path),
                () => self.edges(path),
            }));
        }
        if is("same") || is("all_different") {
            let mut ids = Vec::new();
            for argument in arguments.split(|word| word.is_sign(",")) {
                let shown = match argument {
                    [one] => one.name().and_then(|name| self.pattern.shown(&name)),
                    _ => None,
                };
                ids.push(match shown {
                    Some(Shown::Node(at)) => format!("'n' || {}", self.node_id(at)),
                    Some(Shown::Edge(at)) => format!("'e' || {}", self.edge_id(at)),
                    _ => return refused("nodes and edges are its arguments"),
                });
            }
            if ids.len() < 2 {
                return refused("it takes two elements or more");
            }
            let mut all = Vec::new();
            for (at, one) in ids.iter().enumerate() {
                for other in &ids[at + 1..] {
                    all.push(format!("{one} {} {other}", if is("same") { "=" } else { "<>" }));
                }
            }
            return Ok(Some(format!("({})", all.join(" AND "))));
        }
        if AGGREGATES.iter().any(|name| is(name)) {
            return self.aggregate(word, arguments);
        }
        Ok(None)
    }

    /// An aggregate over the elements of a path that was walked again and again; `None` for others.
    fn aggregate(&self, word: Word<'_>, arguments: &[Word<'_>]) -> Result<Option<String>, Error> {
        let is_distinct = arguments.first().is_some_and(|word| word.is("DISTINCT"));
        let rest = &arguments[usize::from(is_distinct)..];
        let Some(name) = rest.first().and_then(Word::name) else { return Ok(None) };
        let (walk, place, is_edge) = match self.pattern.shown(&name) {
            Some(Shown::NodesOf(walk, place)) => (walk, place, false),
            Some(Shown::EdgesOf(walk, place)) => (walk, place, true),
            _ => return Ok(None),
        };
        let (property, behind) = match rest {
            [_] => (None, &rest[1..]),
            [_, comma, ..] if comma.is_sign(",") => (None, &rest[1..]),
            [_, dot, property, behind @ ..] if dot.is_sign(".") => (property.name(), behind),
            _ => {
                let why = format!("an aggregate of {name} takes {name}.property, nothing else");
                return Err(at_place(&why, word.start));
            }
        };
        let inner = &walk.inner;
        let [path] = &*inner.paths else { return Ok(None) };
        let tables: Vec<(usize, &ElementTable)> = match is_edge {
            true => {
                let Part::Edge(edge) = path.parts[place] else { return Ok(None) };
                inner.tables_of_edge(self.graph, edge).collect()
            }
            false => inner.tables_of_node(self.graph, path.nodes[place]).collect(),
        };
        let value = match &property {
            None => "value".to_owned(),
            Some(property) => {
                let mut cases = String::new();
                for (at, table) in &tables {
                    let Some(sql) = table.property_sql("_it", property) else { continue };
                    cases.push_str(&format!(
                        " WHEN value GLOB '{at}/*' THEN (SELECT {sql} FROM {} AS _it WHERE {})",
                        quoted(&table.table),
                        table.is_id_sql(*at, "_it", "value"),
                    ));
                }
                if cases.is_empty() {
                    let why = format!("no table for {name} has a property {property}");
                    return Err(at_place(&why, word.start));
                }
                format!("CASE{cases} END")
            }
        };
        let rounds = path.parts.len();
        let alias = quoted(&walk.alias);
        let (list, chosen) = match is_edge {
            true => ("edges", format!("key % {rounds} = {place}")),
            false => (
                "vertices",
                format!(
                    "key >= {place} AND (key - {place}) % {rounds} = 0 \
                     AND key - {place} <= {alias}.length - {rounds}"
                ),
            ),
        };
        let behind = self.sql(behind)?;
        Ok(Some(format!(
            "(SELECT {}({}_value{behind}) FROM (SELECT {value} AS _value FROM json_each({alias}.{list}) \
             WHERE {chosen} ORDER BY key))",
            word.text,
            if is_distinct { "DISTINCT " } else { "" },
        )))
    }

    pub(super) fn length(&self, path: &NamedPath) -> String {
        let fixed = path.parts.iter().filter(|part| matches!(part, Part::Edge(_))).count();
        let mut sum = format!("({fixed}");
        for part in &path.parts {
            if let Part::Walk(at) = part {
                sum.push_str(&format!(" + {}.length", quoted(self.pattern.walk_alias(*at))));
            }
        }
        sum.push(')');
        sum
    }

    pub(super) fn edges(&self, path: &NamedPath) -> String {
        let lists = path.parts.iter().map(|part| match part {
            Part::Edge(at) => format!("json_array({})", self.edge_id(*at)),
            Part::Walk(at) => format!("{}.edges", quoted(self.pattern.walk_alias(*at))),
        });
        joined(lists.collect())
    }

    pub(super) fn vertices(&self, path: &NamedPath) -> String {
        let mut lists = vec![format!("json_array({})", self.node_id(path.nodes[0]))];
        for (at, part) in path.parts.iter().enumerate() {
            lists.push(match part {
                Part::Edge(_) => format!("json_array({})", self.node_id(path.nodes[at + 1])),
                Part::Walk(walk) => format!(
                    "json_remove({}.vertices, '$[0]')",
                    quoted(self.pattern.walk_alias(*walk))
                ),
            });
        }
        joined(lists)
    }
}

/// JSON arrays one behind the other.
pub(super) fn joined(lists: Vec<String>) -> String {
    if let [one] = &*lists {
        return one.clone();
    }
    let parts: Vec<String> = lists
        .iter()
        .enumerate()
        .map(|(at, list)| format!("SELECT {at} AS part, key, value FROM json_each({list})"))
        .collect();
    match parts.is_empty() {
        true => literal("[]"),
        false => format!(
            "(SELECT json_group_array(value) FROM (SELECT value FROM ({}) ORDER BY part, key))",
            parts.join(" UNION ALL ")
        ),
    }
}

/// The place of the parenthesis that closes the one at a place.
fn closing(words: &[Word<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.text {
            "(" => depth += 1,
            ")" if depth == 1 => return at,
            ")" => depth -= 1,
            _ => {}
        }
    }
    words.len() - 1
}
