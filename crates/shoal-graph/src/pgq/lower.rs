//! A pattern as a query of SQL: nodes and edges are tables, a path that is walked again and again
//! is a call of `graph_walk`.
//!
//! Where a variable may be of several tables, the query is a compound of one `SELECT` for each
//! choice that fits together; all that remains is the planner's.

use std::collections::BTreeMap;

use shoal_sql::Error;

use super::around::Demand;
use super::compact;
use super::definition::{EdgeTable, ElementTable, MappedGraph};
use super::elements::{Truth, literal, quoted};
use super::expression::{Parameters, Scope, Shown, joined};
use super::pattern::{
    Direction, Element, GraphTable, LabelExpr, PathPattern, Repeated, Restrictor, Selector, Step,
};
use super::words::{Word, at_place};

/// `SELECT`s of one compound.
const CHOICES_MAX: usize = 400;

/// A node of all patterns; equal variables are one.
#[derive(Debug)]
pub(super) struct Node<'t> {
    pub(super) alias: String,
    pub(super) labels: Vec<LabelExpr>,
    pub(super) filters: Vec<Vec<Word<'t>>>,
    place: usize,
}

/// An edge between two nodes.
#[derive(Debug)]
pub(super) struct Edge<'t> {
    pub(super) alias: String,
    pub(super) label: Option<LabelExpr>,
    pub(super) filter: Option<Vec<Word<'t>>>,
    pub(super) direction: Direction,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A path walked again and again between two nodes.
#[derive(Debug)]
pub(super) struct Walk<'t> {
    pub(super) alias: String,
    pub(super) inner: Pattern<'t>,
    hop: String,
    parameters: Vec<String>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) mode: String,
    /// True where a round has a condition of its own.
    pub(super) has_filter: bool,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A part of a path, for its length and its elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Edge(usize),
    Walk(usize),
}

/// A path with a name: its nodes and the parts between them.
#[derive(Debug)]
pub(super) struct NamedPath {
    pub(super) name: String,
    pub(super) nodes: Vec<usize>,
    pub(super) parts: Vec<Part>,
}

/// A list without repeated elements.
#[derive(Clone, Debug)]
enum Distinct {
    /// The edges of paths, one behind the other.
    Edges(Vec<usize>),
    /// The nodes of a path.
    Nodes(usize),
    /// The nodes of a path, without the last node of a closed path.
    NodesOfSimple(usize),
}

/// All patterns of a clause.
#[derive(Debug, Default)]
pub(super) struct Pattern<'t> {
    pub(super) nodes: Vec<Node<'t>>,
    pub(super) edges: Vec<Edge<'t>>,
    pub(super) walks: Vec<Walk<'t>>,
    pub(super) paths: Vec<NamedPath>,
    /// Pairs of edges to be different.
    pub(super) different: Vec<(Part, Part)>,
    pub(super) different_nodes: Vec<(usize, usize)>,
    /// Lists of elements without repetitions, where quantified paths are among several steps.
    distinct: Vec<Distinct>,
    names: BTreeMap<String, ()>,
}

/// The tables chosen for nodes and edges; an edge's second is true where it is followed backwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) nodes: Vec<Option<usize>>,
    pub(super) edges: Vec<(usize, bool)>,
}

/// The query of a clause.
///
/// # Errors
/// Patterns without a fitting table, and unsupported ones.
pub(super) fn query(
    graph: &MappedGraph,
    table: &GraphTable<'_>,
    demand: Demand,
) -> Result<String, Error> {
    let mut pattern = Pattern::default();
    for path in &table.paths {
        pattern.add(graph, path, false)?;
    }
    if table.has_different_edges {
        pattern.require_different_edges();
    }
    let columns: Vec<(&[Word<'_>], String)> =
        table.columns.iter().map(|column| (&*column.words, quoted(&column.name))).collect();
    let mut parts = Vec::new();
    for choice in pattern.choices(graph)? {
        let pattern = &pattern;
        let scope = Scope::of(graph, pattern, &choice);
        let mut shown = Vec::new();
        for (words, name) in &columns {
            shown.push(format!("{} AS {name}", scope.sql(words)?));
        }
        let mut conditions = Vec::new();
        if let Some(filter) = &table.filter {
            conditions.push(format!("({})", scope.sql(filter)?));
        }
        let (from, joined) = pattern.from(&scope)?;
        conditions.splice(0..0, joined);
        parts.push(select(&shown, &from, &conditions));
    }
    if parts.is_empty() {
        // Nothing fits together: no rows, of the same columns.
        let nulls: Vec<String> =
            columns.iter().map(|(_, name)| format!("NULL AS {name}")).collect();
        parts.push(format!("SELECT {} WHERE 0", nulls.join(", ")));
    }
    // Faults were told in the words of the join.
    let compact = compact::query(graph, table, &pattern, demand)?;
    Ok(compact.unwrap_or_else(|| parts.join(" UNION ALL ")))
}

pub(super) fn select(columns: &[String], from: &[String], conditions: &[String]) -> String {
    let mut sql = format!("SELECT {} FROM {}", columns.join(", "), from.join(", "));
    if !conditions.is_empty() {
        sql.push_str(" WHERE ");
        sql.push_str(&conditions.join(" AND "));
    }
    sql
}

impl<'t> Pattern<'t> {
    /// The place of a node's or an edge's variable among names.
    fn name(&self, variable: Option<&String>, prefix: &str) -> String {
        match variable {
            Some(name) => name.clone(),
            None => format!("_{prefix}{}", self.nodes.len() + self.edges.len() + self.walks.len()),
        }
    }

    fn node(&mut self, element: &Element<'t>) -> Result<usize, Error> {
        let filters = element.filter.iter().cloned();
        if let Some(name) = &element.variable {
            let is = |it: &Node<'_>| it.alias.eq_ignore_ascii_case(name);
            if let Some(at) = self.nodes.iter().position(is) {
                self.nodes[at].labels.extend(element.label.clone());
                self.nodes[at].filters.extend(filters);
                return Ok(at);
            }
            self.claim(name, element.place)?;
        }
        let alias = self.name(element.variable.as_ref(), "node");
        self.nodes.push(Node {
            alias,
            labels: element.label.clone().into_iter().collect(),
            filters: filters.collect(),
            place: element.place,
        });
        Ok(self.nodes.len() - 1)
    }

    /// A name for one thing alone.
    fn claim(&mut self, name: &str, place: usize) -> Result<(), Error> {
        match self.names.insert(name.to_ascii_lowercase(), ()) {
            None => Ok(()),
            Some(()) => {
                Err(at_place(&format!("{name} is the name of something else already"), place))
            }
        }
    }

    fn add(
        &mut self,
        graph: &MappedGraph,
        path: &PathPattern<'t>,
        is_inner: bool,
    ) -> Result<(), Error> {
        let repeated = path.steps.iter().filter(|step| matches!(step, Step::Repeated(_))).count();
        let is_one_walk = repeated == 1 && path.steps.len() == 1;
        if !is_one_walk && path.selector != Selector::All {
            let why = "ANY and SHORTEST are for one quantified step between two nodes";
            return Err(at_place(why, path.place));
        }
        let mut nodes = Vec::new();
        for node in &path.nodes {
            nodes.push(self.node(node)?);
        }
        let mut parts = Vec::new();
        for (at, step) in path.steps.iter().enumerate() {
            let (from, to) = (nodes[at], nodes[at + 1]);
            parts.push(match step {
                Step::Edge(direction, element) => {
                    if let Some(name) = &element.variable {
                        self.claim(name, element.place)?;
                    }
                    let alias = self.name(element.variable.as_ref(), "edge");
                    self.edges.push(Edge {
                        alias,
                        label: element.label.clone(),
                        filter: element.filter.clone(),
                        direction: *direction,
                        from,
                        to,
                    });
                    Part::Edge(self.edges.len() - 1)
                }
                Step::Repeated(repeated) => {
                    let mode = mode(path, repeated)?;
                    let walk = self.walk(graph, repeated, mode, (from, to))?;
                    self.walks.push(walk);
                    Part::Walk(self.walks.len() - 1)
                }
            });
        }
        let place = self.paths.len();
        match (repeated > 0, path.restrictor) {
            // `graph_walk` itself keeps to the restrictor.
            _ if is_one_walk => {}
            (_, Restrictor::Walk) => {}
            (true, Restrictor::Trail) => self.distinct.push(Distinct::Edges(vec![place])),
            (true, Restrictor::Acyclic) => self.distinct.push(Distinct::Nodes(place)),
            (true, Restrictor::Simple) => self.distinct.push(Distinct::NodesOfSimple(place)),
            (false, Restrictor::Trail) => self.different.extend(pairs(&parts)),
            (false, Restrictor::Acyclic | Restrictor::Simple) => {
                let last = nodes.len() - 1;
                let is_closed = |(a, b): &(usize, usize)| (*a, *b) == (0, last) && last > 0;
                let places: Vec<usize> = (0..nodes.len()).collect();
                let kept = pairs(&places)
                    .into_iter()
                    .filter(|pair| path.restrictor == Restrictor::Acyclic || !is_closed(pair));
                self.different_nodes.extend(kept.map(|(a, b)| (nodes[a], nodes[b])));
            }
        }
        if let Some(name) = &path.variable {
            if is_inner {
                return Err(at_place("a path within a path has no name of its own", path.place));
            }
            self.claim(name, path.place)?;
        }
        let name = path.variable.clone().unwrap_or_default();
        self.paths.push(NamedPath { name, nodes, parts });
        Ok(())
    }

    /// Leaves out matches with an edge in two paths; each path has no edge twice by itself.
    fn require_different_edges(&mut self) {
        if self.walks.is_empty() {
            for (at, path) in self.paths.iter().enumerate() {
                for other in &self.paths[at + 1..] {
                    let pairs = path
                        .parts
                        .iter()
                        .flat_map(|one| other.parts.iter().map(|another| (*one, *another)));
                    self.different.extend(pairs);
                }
            }
        } else if self.paths.len() > 1 {
            self.distinct.push(Distinct::Edges((0..self.paths.len()).collect()));
        }
    }

    fn walk(
        &mut self,
        graph: &MappedGraph,
        repeated: &Repeated<'t>,
        mode: String,
        (from, to): (usize, usize),
    ) -> Result<Walk<'t>, Error> {
        let mut inner = Pattern::default();
        inner.add(graph, &repeated.path, true)?;
        for name in inner.names.keys() {
            if self.names.contains_key(name) {
                let why = format!("{name} is named within the quantified path and outside of it");
                return Err(at_place(&why, repeated.place));
            }
        }
        self.names.extend(inner.names.keys().map(|name| (name.clone(), ())));
        let mut parameters = Vec::new();
        let hop = inner.hop(graph, repeated, &mut parameters)?;
        let alias = self.name(None, "walk");
        Ok(Walk {
            alias,
            inner,
            hop,
            parameters,
            min: repeated.min,
            max: repeated.max,
            mode,
            has_filter: repeated.filter.is_some(),
            from,
            to,
        })
    }

    /// The query of one round: the node before it and behind it, its edges, the nodes between.
    fn hop(
        &self,
        graph: &MappedGraph,
        repeated: &Repeated<'_>,
        parameters: &mut Vec<String>,
    ) -> Result<String, Error> {
        let [path] = &*self.paths else { unreachable!("a round is one path") };
        let mut parts = Vec::new();
        for choice in self.choices(graph)? {
            let kept = Parameters::json(std::mem::take(parameters));
            let scope = Scope { parameters: Some(&kept), ..Scope::of(graph, self, &choice) };
            let node = |at: usize| scope.node_id(at);
            let (first, last) = (path.nodes[0], path.nodes[path.nodes.len() - 1]);
            let edges: Vec<String> = path
                .parts
                .iter()
                .map(|part| match part {
                    Part::Edge(at) => scope.edge_id(*at),
                    Part::Walk(_) => unreachable!("a quantifier within a quantified path"),
                })
                .collect();
            let between: Vec<String> =
                path.nodes[1..path.nodes.len() - 1].iter().map(|&at| node(at)).collect();
            let shown = [
                node(first),
                node(last),
                format!("json_array({})", edges.join(", ")),
                format!("json_array({})", between.join(", ")),
            ];
            let (from, mut conditions) = self.from(&scope)?;
            let (table, place) = scope.node_table(first);
            conditions.push(table.is_in_sql(place, &self.nodes[first].alias, "?1"));
            if let Some(filter) = &repeated.filter {
                conditions.push(format!("({})", scope.sql(filter)?));
            }
            parts.push(select(&shown, &from, &conditions));
            *parameters = kept.into_names();
        }
        match parts.is_empty() {
            true => Ok("SELECT NULL, NULL, NULL, NULL WHERE 0".to_owned()),
            false => Ok(parts.join(" UNION ALL ")),
        }
    }

    /// The consistent choices of tables.
    pub(super) fn choices(&self, graph: &MappedGraph) -> Result<Vec<Choice>, Error> {
        let mut found = Vec::new();
        let empty = Choice { nodes: vec![None; self.nodes.len()], edges: Vec::new() };
        self.choose(graph, empty, &mut found)?;
        Ok(found)
    }

    fn choose(
        &self,
        graph: &MappedGraph,
        choice: Choice,
        found: &mut Vec<Choice>,
    ) -> Result<(), Error> {
        let may_be = |node: usize, table: usize| {
            let element = &graph.vertices[table];
            let Node { alias, labels, .. } = &self.nodes[node];
            labels.iter().all(|label| element.label_truth(alias, label) != Truth::No)
        };
        if let Some(edge) = self.edges.get(choice.edges.len()) {
            for (at, EdgeTable { element, source, target }) in graph.edges.iter().enumerate() {
                let label = edge.label.as_ref();
                if label.is_some_and(|it| element.label_truth(&edge.alias, it) == Truth::No) {
                    continue;
                }
                for is_backwards in [false, true] {
                    let fits = match edge.direction {
                        Direction::Right => !is_backwards,
                        Direction::Left => is_backwards,
                        Direction::Either => true,
                    };
                    let (first, last) = match is_backwards {
                        false => (source.vertex, target.vertex),
                        true => (target.vertex, source.vertex),
                    };
                    let takes = |choice: &Choice, node: usize, table: usize| {
                        choice.nodes[node].is_none_or(|it| it == table) && may_be(node, table)
                    };
                    if !fits || !takes(&choice, edge.from, first) {
                        continue;
                    }
                    let mut next = choice.clone();
                    next.nodes[edge.from] = Some(first);
                    if !takes(&next, edge.to, last) {
                        continue;
                    }
                    next.nodes[edge.to] = Some(last);
                    next.edges.push((at, is_backwards));
                    self.choose(graph, next, found)?;
                }
            }
            return Ok(());
        }
        if let Some(node) = choice.nodes.iter().position(Option::is_none) {
            for table in (0..graph.vertices.len()).filter(|&table| may_be(node, table)) {
                let mut next = choice.clone();
                next.nodes[node] = Some(table);
                self.choose(graph, next, found)?;
            }
            return Ok(());
        }
        if found.len() == CHOICES_MAX {
            let place = self.nodes.first().map_or(0, |node| node.place);
            let why = format!(
                "the pattern fits the tables of the graph in over {CHOICES_MAX} ways: labels make it less"
            );
            return Err(at_place(&why, place));
        }
        found.push(choice);
        Ok(())
    }

    /// The tables of a choice, and their join conditions.
    pub(super) fn from(&self, scope: &Scope<'_, '_>) -> Result<(Vec<String>, Vec<String>), Error> {
        let (mut from, mut conditions) = (Vec::new(), Vec::new());
        for (at, node) in self.nodes.iter().enumerate() {
            let (element, _) = scope.node_table(at);
            from.push(format!("{} AS {}", quoted(&element.table), quoted(&node.alias)));
            for label in &node.labels {
                condition(element, &node.alias, label, &mut conditions);
            }
            for filter in &node.filters {
                conditions.push(format!("({})", scope.sql(filter)?));
            }
        }
        for (at, edge) in self.edges.iter().enumerate() {
            let (table, is_backwards) = scope.edge_table(at);
            from.push(format!("{} AS {}", quoted(&table.element.table), quoted(&edge.alias)));
            let (first, last) = match is_backwards {
                false => (&table.source, &table.target),
                true => (&table.target, &table.source),
            };
            conditions.push(first.join_sql(&edge.alias, &self.nodes[edge.from].alias));
            conditions.push(last.join_sql(&edge.alias, &self.nodes[edge.to].alias));
            // A loop followed both ways is one edge.
            if edge.direction == Direction::Either && is_backwards && edge.from != edge.to {
                conditions.push(format!(
                    "{} <> {}",
                    scope.node_id(edge.from),
                    scope.node_id(edge.to)
                ));
            }
            if edge.direction == Direction::Either && is_backwards && edge.from == edge.to {
                conditions.push("0".to_owned());
            }
            if let Some(label) = &edge.label {
                condition(&table.element, &edge.alias, label, &mut conditions);
            }
            if let Some(filter) = &edge.filter {
                conditions.push(format!("({})", scope.sql(filter)?));
            }
        }
        for walk in &self.walks {
            let parameters = match walk.parameters.is_empty() {
                true => "NULL".to_owned(),
                false => format!("json_array({})", walk.parameters.join(", ")),
            };
            let max = walk.max.map_or("NULL".to_owned(), |max| max.to_string());
            let within = scope.paths_max.map_or(String::new(), |most| format!(" within {most}"));
            from.push(format!(
                "graph_walk({}, {}, {}, {max}, '{}{within}', {parameters}) AS {}",
                literal(&walk.hop),
                scope.node_id(walk.from),
                walk.min,
                walk.mode,
                quoted(&walk.alias),
            ));
            let (table, place) = scope.node_table(walk.to);
            let vertex = format!("{}.vertex", quoted(&walk.alias));
            conditions.push(table.is_id_sql(place, &self.nodes[walk.to].alias, &vertex));
        }
        for (a, b) in &self.different_nodes {
            conditions.push(match a == b {
                true => "0".to_owned(),
                false => format!("{} <> {}", scope.node_id(*a), scope.node_id(*b)),
            });
        }
        for distinct in &self.distinct {
            let (list, filter) = match distinct {
                Distinct::Edges(paths) => {
                    let lists = paths.iter().map(|at| scope.edges(&self.paths[*at])).collect();
                    (joined(lists), String::new())
                }
                Distinct::Nodes(at) => (scope.vertices(&self.paths[*at]), String::new()),
                Distinct::NodesOfSimple(at) => {
                    let path = &self.paths[*at];
                    let (first, last) = (path.nodes[0], path.nodes[path.nodes.len() - 1]);
                    let length = scope.length(path);
                    let (first, last) = (scope.node_id(first), scope.node_id(last));
                    let filter =
                        format!(" WHERE key < {length} OR {length} = 0 OR {first} <> {last}");
                    (scope.vertices(path), filter)
                }
            };
            conditions.push(format!(
                "(SELECT count(*) = count(DISTINCT value) FROM json_each({list}){filter})"
            ));
        }
        for pair in &self.different {
            let (Part::Edge(a), Part::Edge(b)) = pair else { continue };
            conditions.push(format!("{} <> {}", scope.edge_id(*a), scope.edge_id(*b)));
        }
        Ok((from, conditions))
    }

    pub(super) fn node_alias(&self, node: usize) -> &str {
        &self.nodes[node].alias
    }

    pub(super) fn edge_alias(&self, edge: usize) -> &str {
        &self.edges[edge].alias
    }

    pub(super) fn walk_alias(&self, walk: usize) -> &str {
        &self.walks[walk].alias
    }

    /// The element, path or list of a name.
    pub(super) fn shown(&self, name: &str) -> Option<Shown<'_, 't>> {
        let is = |alias: &str| alias.eq_ignore_ascii_case(name);
        if let Some(at) = self.nodes.iter().position(|node| is(&node.alias)) {
            return Some(Shown::Node(at));
        }
        if let Some(at) = self.edges.iter().position(|edge| is(&edge.alias)) {
            return Some(Shown::Edge(at));
        }
        if let Some(path) = self.paths.iter().find(|path| !path.name.is_empty() && is(&path.name)) {
            return Some(Shown::Path(path));
        }
        self.walks.iter().find_map(|walk| {
            let path = walk.inner.paths.first()?;
            let node = path.nodes.iter().position(|&at| is(&walk.inner.nodes[at].alias));
            let edge = path.parts.iter().position(
                |part| matches!(part, Part::Edge(at) if is(&walk.inner.edges[*at].alias)),
            );
            match (node, edge) {
                (Some(at), _) => Some(Shown::NodesOf(walk, at)),
                (_, Some(at)) => Some(Shown::EdgesOf(walk, at)),
                _ => None,
            }
        })
    }
}

impl<'t> Pattern<'t> {
    /// Candidate vertex tables of a node.
    pub(super) fn tables_of_node<'g>(
        &self,
        graph: &'g MappedGraph,
        node: usize,
    ) -> impl Iterator<Item = (usize, &'g ElementTable)> {
        let Node { alias, labels, .. } = &self.nodes[node];
        graph.vertices.iter().enumerate().filter(move |(_, element)| {
            labels.iter().all(|label| element.label_truth(alias, label) != Truth::No)
        })
    }

    /// Candidate edge tables of an edge.
    pub(super) fn tables_of_edge<'g>(
        &self,
        graph: &'g MappedGraph,
        edge: usize,
    ) -> impl Iterator<Item = (usize, &'g ElementTable)> {
        let Edge { alias, label, .. } = &self.edges[edge];
        graph.edges.iter().map(|edge| &edge.element).enumerate().filter(move |(_, element)| {
            label.iter().all(|label| element.label_truth(alias, label) != Truth::No)
        })
    }
}

pub(super) fn condition(
    table: &ElementTable,
    alias: &str,
    label: &LabelExpr,
    conditions: &mut Vec<String>,
) {
    match table.label_truth(alias, label) {
        Truth::Yes => {}
        Truth::No => conditions.push("0".to_owned()),
        Truth::If(sql) => conditions.push(sql),
    }
}

fn pairs<T: Copy>(all: &[T]) -> Vec<(T, T)> {
    let mut pairs = Vec::new();
    for (at, &one) in all.iter().enumerate() {
        pairs.extend(all[at + 1..].iter().map(|&other| (one, other)));
    }
    pairs
}

/// The words of `graph_walk` for the paths wanted.
fn mode(path: &PathPattern<'_>, repeated: &Repeated<'_>) -> Result<String, Error> {
    let restrictor = match path.restrictor {
        Restrictor::Walk => "walk",
        Restrictor::Trail => "trail",
        Restrictor::Acyclic => "acyclic",
        Restrictor::Simple => "simple",
    };
    let is_endless = repeated.max.is_none() && path.restrictor == Restrictor::Walk;
    Ok(match path.selector {
        Selector::All if is_endless => {
            let why = "a quantifier without an upper bound needs a path prefix: TRAIL, ACYCLIC, SIMPLE, \
                       ANY, ANY SHORTEST, ALL SHORTEST or SHORTEST k";
            return Err(at_place(why, repeated.place));
        }
        Selector::All => restrictor.to_owned(),
        Selector::Any => format!("{restrictor} shortest 1"),
        Selector::AllShortest => format!("{restrictor} groups 1"),
        Selector::Shortest(count) => format!("{restrictor} shortest {count}"),
        Selector::Groups(count) => format!("{restrictor} groups {count}"),
    })
}
