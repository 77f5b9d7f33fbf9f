//! Patterns without quantifiers as calls of `graph_match`: compressed rows in place of a join.
//!
//! A call gives rowids of the nodes whose properties are asked for, and tables of those nodes alone
//! are joined to the call. Conditions on one node choose its candidates. A walk of any number of
//! edges whose shortest path alone is asked for, and of it the ends, is a call as well. Conditions
//! on one edge choose the edges that the call reads. Other patterns stay joins: those whose columns
//! or whose conditions with others read edges, those with tables to choose from.

use shoal_sql::Error;

use super::around::Demand;
use super::call::{Call, CallEdge, CallNode, CallWalk};
use super::definition::{EdgeTable, ElementTable, MappedGraph, Property};
use super::elements::{Truth, literal, quoted};
use super::expression::{Parameters, Scope, Shown};
use super::lower::{Choice, Edge, Part, Pattern, Walk, select};
use super::matching::{CALL_COLUMNS, CALL_PARAMETERS};
use super::pattern::{Direction, GraphTable, LabelExpr};
use super::words::{Kind, Word};

/// The alias of the call in the query.
const ALIAS: &str = "_match";

/// Paths of a walk asked of the tables before the graph is read.
const FEW_PATHS: usize = 512;

/// Words of conditions on one row alone.
const PLAIN_WORDS: [&str; 13] = [
    "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "GLOB", "ISNULL", "NOTNULL", "TRUE",
    "FALSE",
];

/// The uses of a node in columns and conditions behind the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    None,
    /// The rowid as a property: the call's own column.
    Rowid,
    /// A row of its table.
    Row,
}

/// A query that calls `graph_match`; `None` where the join serves as well, or alone.
///
/// # Errors
/// Those of expressions, as the join would have.
pub(super) fn query(
    graph: &MappedGraph,
    table: &GraphTable<'_>,
    pattern: &Pattern<'_>,
    demand: Demand,
) -> Result<Option<String>, Error> {
    let walk = match &*pattern.walks {
        [] if !pattern.edges.is_empty() => None,
        [walk] if reaches(pattern, walk) => Some(walk),
        _ => return Ok(None),
    };
    if demand == Demand::Unknown {
        return Ok(None);
    }
    let choices = pattern.choices(graph)?;
    let compact = Compact { graph, pattern, choices: &choices };
    let Some(classes) = compact.classes() else { return Ok(None) };
    let edges = match walk {
        None => compact.edges(&classes),
        Some(walk) => compact.edge_of(&walk.inner.edges[0], (walk.from, walk.to), None, &[]),
    };
    let Some(edges) = edges else { return Ok(None) };
    let parameters = Parameters::numbered();
    // A condition on one node chooses the node's candidates, a condition on one edge chooses the
    // edges read; conditions on several places are asked of the call's rows.
    let Some(Conditions { own, of_edges, outer, behind }) = compact.conditions(table) else {
        return Ok(None);
    };
    let mut edges = edges;
    if !compact.filter_edges(&mut edges, &of_edges, &parameters)? {
        return Ok(None);
    }
    let has_one_edge = walk.is_none() && pattern.edges.len() == 1;
    if has_one_edge && own.iter().any(|(node, words)| compact.is_by_index(*node, words)) {
        return Ok(None);
    }
    let columns: Vec<&[Word<'_>]> = match demand {
        Demand::Count if behind.is_empty() => Vec::new(),
        _ => table.columns.iter().map(|column| &*column.words).collect(),
    };
    let Some(uses) = compact.uses(columns.iter().chain(&behind)) else { return Ok(None) };
    let shown: Vec<usize> = (0..uses.len()).filter(|node| uses[*node] != Use::None).collect();
    if shown.len() > CALL_COLUMNS || has_one_edge && !shown.is_empty() {
        return Ok(None);
    }
    let Some(nodes) = compact.nodes(&own, &parameters)? else { return Ok(None) };
    let join = |paths_max| compact.join(&shown, &outer, &parameters, paths_max);
    let Some(all) = join(None)? else { return Ok(None) };
    let walk = match walk {
        None => None,
        Some(walk) => {
            let Some(few) = join(Some(FEW_PATHS))? else { return Ok(None) };
            Some(CallWalk { from_zero: walk.min == 0, steps_max: walk.max, few })
        }
    };
    let call = Call {
        graph: graph.name.clone(),
        tables: compact.tables(),
        nodes,
        edges,
        walk,
        different: pattern.different_nodes.clone(),
        shown: shown.clone(),
        join: all,
    };
    // The query around the call.
    let mut choice = Choice { nodes: vec![None; uses.len()], edges: Vec::new() };
    let (mut from, mut conditions) = (Vec::new(), Vec::new());
    for (column, &node) in shown.iter().enumerate() {
        let Some((place, element)) = compact.only_table(node) else { return Ok(None) };
        choice.nodes[node] = Some(place);
        let Some(rowid) = &element.facts.rowid else { return Ok(None) };
        if uses[node] == Use::Row {
            let alias = quoted(pattern.node_alias(node));
            from.push(format!("{} AS {alias}", quoted(&element.table)));
            let rowid = super::elements::quoted_rowid(rowid);
            conditions.push(format!("{alias}.{rowid} = {ALIAS}.n{column}"));
        }
    }
    let rowid_of = |node: usize| {
        let column = shown.iter().position(|other| *other == node)?;
        (uses[node] == Use::Rowid).then(|| format!("{ALIAS}.n{column}"))
    };
    let scope = Scope { rowid_of: Some(&rowid_of), ..Scope::of(graph, pattern, &choice) };
    for part in behind {
        conditions.push(format!("({})", scope.sql(part)?));
    }
    let mut outputs = Vec::new();
    for column in &table.columns {
        let name = quoted(&column.name);
        outputs.push(match columns.is_empty() {
            true => format!("NULL AS {name}"),
            false => format!("{} AS {name}", scope.sql(&column.words)?),
        });
    }
    let given = parameters.into_names();
    if given.len() > CALL_PARAMETERS {
        return Ok(None);
    }
    let given: String = given.iter().map(|name| format!(", {name}")).collect();
    from.insert(0, format!("graph_match({}{given}) AS {ALIAS}", literal(&call.to_text())));
    Ok(Some(select(&outputs, &from, &conditions)))
}

/// True of a walk whose ends alone may be asked for: the one step of a pattern between two nodes,
/// along edges without a condition, of whose paths any shortest one will do.
fn reaches(pattern: &Pattern<'_>, walk: &Walk<'_>) -> bool {
    let inner = &walk.inner;
    let is_plain = inner.walks.is_empty()
        && inner.nodes.iter().all(|node| node.labels.is_empty() && node.filters.is_empty())
        && matches!(&*inner.edges, [edge] if edge.filter.is_none() && edge.from != edge.to);
    is_plain
        && !walk.has_filter
        && walk.mode == "walk shortest 1"
        && walk.min <= 1
        && walk.from != walk.to
        && pattern.nodes.len() == 2
        && pattern.edges.is_empty()
}

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Node(usize),
    Edge(usize),
}

/// The conditions of a pattern and of the clause.
#[derive(Default)]
struct Conditions<'w, 't> {
    /// Those of one node, with the node.
    own: Vec<(usize, &'w [Word<'t>])>,
    /// Those of one edge, with the edge.
    of_edges: Vec<(usize, &'w [Word<'t>])>,
    /// Those of both that the pattern does not have.
    outer: Vec<&'w [Word<'t>]>,
    /// All others.
    behind: Vec<&'w [Word<'t>]>,
}

struct Compact<'c, 't> {
    graph: &'c MappedGraph,
    pattern: &'c Pattern<'t>,
    /// The choices of tables that fit together.
    choices: &'c [Choice],
}

impl<'c, 't> Compact<'c, 't> {
    /// The conditions of the pattern and the clause; `None` where one of the pattern is about more
    /// than its element.
    fn conditions<'w>(&'w self, table: &'w GraphTable<'t>) -> Option<Conditions<'w, 't>> {
        let mut all = Conditions::default();
        for (at, node) in self.pattern.nodes.iter().enumerate() {
            for filter in &node.filters {
                let only = self.only(filter)?;
                if only.is_some_and(|only| only != Only::Node(at)) {
                    return None;
                }
                all.own.push((at, filter));
            }
        }
        for (at, edge) in self.pattern.edges.iter().enumerate() {
            if let Some(filter) = &edge.filter {
                let only = self.only(filter)?;
                if only.is_some_and(|only| only != Only::Edge(at)) {
                    return None;
                }
                all.of_edges.push((at, filter));
            }
        }
        for part in table.filter.iter().flat_map(|filter| conjuncts(filter)) {
            match self.only(part) {
                Some(Some(Only::Node(node))) => all.own.push((node, part)),
                Some(Some(Only::Edge(edge))) => all.of_edges.push((edge, part)),
                _ => {
                    all.behind.push(part);
                    continue;
                }
            }
            all.outer.push(part);
        }
        Some(all)
    }

    /// Gives edges the queries of their tables where conditions choose some of the edges; false
    /// where an index answers such a condition, and where edges of a class could not be told apart.
    fn filter_edges(
        &self,
        edges: &mut [CallEdge],
        conditions: &[(usize, &[Word<'_>])],
        parameters: &Parameters,
    ) -> Result<bool, Error> {
        for at in 0..self.pattern.edges.len() {
            let own: Vec<&[Word<'_>]> =
                conditions.iter().filter(|(edge, _)| *edge == at).map(|(_, it)| *it).collect();
            if own.is_empty() {
                continue;
            }
            let edge = &self.pattern.edges[at];
            let shares = |(other, it): (usize, &CallEdge)| {
                let has_kind = |kind| edges[at].kinds.is_empty() || edges[at].kinds.contains(kind);
                let is_one = it.kinds.is_empty() || it.kinds.iter().any(has_kind);
                other != at && it.class.is_some() && it.class == edges[at].class && is_one
            };
            if edges.iter().enumerate().any(shares) {
                return Ok(false);
            }
            let mut filter = Vec::new();
            for (place, table) in self.pattern.tables_of_edge(self.graph, at) {
                let names = own.iter().flat_map(|words| properties(words));
                let mut columns = names.filter_map(|name| table.column(&name).map(str::to_owned));
                if columns.any(|column| table.facts.indexed.contains(&column)) {
                    return Ok(false);
                }
                let mut chosen = vec![(place, false); self.pattern.edges.len()];
                chosen[at] = (place, false);
                let choice = Choice { nodes: vec![None; self.pattern.nodes.len()], edges: chosen };
                let scope = Scope {
                    parameters: Some(parameters),
                    ..Scope::of(self.graph, self.pattern, &choice)
                };
                let mut all = Vec::new();
                if let Some(label) = &edge.label {
                    super::lower::condition(table, &edge.alias, label, &mut all);
                }
                for words in &own {
                    all.push(format!("({})", scope.sql(words)?));
                }
                filter.push((place, all.join(" AND ")));
            }
            edges[at].filter = Some((edge.alias.clone(), filter));
        }
        Ok(true)
    }

    /// The class of each edge: edges to be different from each other. `None` where the differences
    /// wanted are no classes.
    fn classes(&self) -> Option<Vec<Option<usize>>> {
        let mut classes: Vec<Option<usize>> = vec![None; self.pattern.edges.len()];
        let mut pairs = Vec::new();
        for pair in &self.pattern.different {
            let (Part::Edge(a), Part::Edge(b)) = pair else { return None };
            let pair = ((*a).min(*b), (*a).max(*b));
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        for (a, b) in &pairs {
            let class = classes[*a].or(classes[*b]).unwrap_or(*a);
            let (old_a, old_b) = (classes[*a], classes[*b]);
            for known in &mut classes {
                if known.is_some() && (*known == old_a || *known == old_b) {
                    *known = Some(class);
                }
            }
            (classes[*a], classes[*b]) = (Some(class), Some(class));
        }
        // All pairs of a class are wanted different.
        let within = (0..classes.len())
            .flat_map(|a| (a + 1..classes.len()).map(move |b| (a, b)))
            .filter(|(a, b)| classes[*a].is_some() && classes[*a] == classes[*b]);
        (within.count() == pairs.len()).then_some(classes)
    }

    /// The edges as a call has them; `None` where a label chooses no type, and where edges of a
    /// class cannot be told apart by their ends.
    fn edges(&self, classes: &[Option<usize>]) -> Option<Vec<CallEdge>> {
        let mut edges: Vec<CallEdge> = Vec::new();
        for (edge, class) in self.pattern.edges.iter().zip(classes) {
            edges.extend(self.edge_of(edge, (edge.from, edge.to), *class, &edges)?);
        }
        Some(edges)
    }

    /// An edge between two nodes, behind those `known`.
    fn edge_of(
        &self,
        edge: &Edge<'_>,
        (from, to): (usize, usize),
        class: Option<usize>,
        known: &[CallEdge],
    ) -> Option<Vec<CallEdge>> {
        let kinds = self.kinds(edge)?;
        let (from, to) = match edge.direction {
            Direction::Left => (to, from),
            Direction::Right | Direction::Either => (from, to),
        };
        let is_either = edge.direction == Direction::Either;
        if class.is_some() {
            let mut known = known.iter().filter(|known| known.class == class);
            let is_apart = |known: &CallEdge| {
                let is_same = known.kinds == kinds && known.is_either == is_either;
                let shares = known.kinds.iter().any(|kind| kinds.contains(kind));
                is_same || !(shares || known.kinds.is_empty() || kinds.is_empty())
            };
            if !known.all(is_apart) || !self.graph.has_single_ends() {
                return None;
            }
        }
        Some(vec![CallEdge { from, to, is_either, kinds, class, filter: None }])
    }

    /// The types of an edge's tables, none where all tables fit; `None` where they are no types.
    fn kinds(&self, edge: &Edge<'_>) -> Option<Vec<String>> {
        let Some(label) = &edge.label else { return Some(Vec::new()) };
        if self.is_default() {
            return names(label);
        }
        let fits: Vec<bool> = self
            .graph
            .edges
            .iter()
            .map(|table| match table.element.label_truth(&edge.alias, label) {
                Truth::Yes => Some(true),
                Truth::No => Some(false),
                Truth::If(_) => None,
            })
            .collect::<Option<_>>()?;
        if fits.iter().all(|fits| *fits) {
            return Some(Vec::new());
        }
        let tables = self.graph.edges.iter().map(|table| table.element.first_label());
        let of = |wanted: bool| {
            let tables = tables.clone().zip(&fits).filter(move |(_, fits)| **fits == wanted);
            let mut kinds: Vec<String> = tables.map(|(kind, _)| kind.to_owned()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        };
        let (kinds, others) = (of(true), of(false));
        (!kinds.is_empty() && !kinds.iter().any(|kind| others.contains(kind))).then_some(kinds)
    }

    fn is_default(&self) -> bool {
        self.graph.vertices.iter().any(|table| table.is_default)
    }

    fn tables(&self) -> Vec<String> {
        let vertices = self.graph.vertices.iter().map(|table| table.table.clone());
        vertices.chain(self.graph.edges.iter().map(|edge| edge.element.table.clone())).collect()
    }

    /// The tables of a node, as edges and labels choose them.
    fn tables_of(&self, node: usize) -> Vec<(usize, &'c ElementTable)> {
        let mut places: Vec<usize> =
            self.choices.iter().filter_map(|choice| choice.nodes[node]).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| (place, &self.graph.vertices[place])).collect()
    }

    /// The only table of a node.
    fn only_table(&self, node: usize) -> Option<(usize, &'c ElementTable)> {
        match *self.tables_of(node) {
            [only] => Some(only),
            _ => None,
        }
    }

    /// True where an edge of the node leads to no other nodes than those with its labels.
    fn is_any(&self, at: usize) -> bool {
        let node = &self.pattern.nodes[at];
        let has_labels = |place: usize| {
            let table = &self.graph.vertices[place];
            node.labels.iter().all(|label| table.label_truth(&node.alias, label) == Truth::Yes)
        };
        let mut edges = self.pattern.edges.iter().enumerate();
        edges.any(|(edge, it)| {
            let ends = |(_, table): (usize, &EdgeTable)| {
                let (first, last) = match it.direction {
                    Direction::Right => (&table.source, &table.target),
                    Direction::Left => (&table.target, &table.source),
                    Direction::Either => {
                        return has_labels(table.source.vertex) && has_labels(table.target.vertex);
                    }
                };
                (it.from != at || has_labels(first.vertex))
                    && (it.to != at || has_labels(last.vertex))
            };
            let fitting: Vec<usize> =
                self.pattern.tables_of_edge(self.graph, edge).map(|(place, _)| place).collect();
            let mut tables =
                self.graph.edges.iter().enumerate().filter(|(place, _)| fitting.contains(place));
            (it.from == at || it.to == at) && tables.all(ends)
        })
    }

    /// The node or the edge of a condition that reads properties of one, parameters and literals;
    /// `None` inside of a condition without any, and outside of any other condition.
    fn only(&self, words: &[Word<'_>]) -> Option<Option<Only>> {
        let mut only = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            match word.kind {
                Kind::Text | Kind::Number | Kind::Sign => continue,
                Kind::Parameter if word.text != "?" => continue,
                Kind::Name if PLAIN_WORDS.iter().any(|plain| word.is(plain)) => continue,
                _ => {}
            }
            let found = match self.pattern.shown(&word.name()?)? {
                Shown::Node(node) => Only::Node(node),
                Shown::Edge(edge) => Only::Edge(edge),
                _ => return None,
            };
            let is_property = words.get(at).is_some_and(|dot| dot.is_sign("."));
            let property = words.get(at + 1).and_then(Word::name)?;
            let has_it = |(_, table): (usize, &ElementTable)| {
                table.is_default || table.property(&property).is_some()
            };
            let is_other = only.is_some_and(|only| only != found);
            let have_it = match found {
                Only::Node(node) => self.tables_of(node).into_iter().all(has_it),
                Only::Edge(edge) => self.pattern.tables_of_edge(self.graph, edge).all(has_it),
            };
            if !is_property || is_other || !have_it {
                return None;
            }
            only = Some(found);
            at += 2;
        }
        Some(only)
    }

    /// True of a condition that an index may answer: the join begins there.
    fn is_by_index(&self, node: usize, words: &[Word<'_>]) -> bool {
        properties(words).any(|name| {
            let is_indexed = |(_, table): &(usize, &ElementTable)| {
                let column = table.column(&name);
                column.is_some_and(|column| table.facts.indexed.iter().any(|it| it == column))
            };
            self.is_default() || self.tables_of(node).iter().any(is_indexed)
        })
    }

    /// How nodes are used by expressions behind the call; `None` where edges or paths are.
    fn uses<'w>(&self, expressions: impl Iterator<Item = &'w &'w [Word<'w>]>) -> Option<Vec<Use>> {
        let mut uses = vec![Use::None; self.pattern.nodes.len()];
        for words in expressions {
            for (at, word) in words.iter().enumerate() {
                let is_member = at > 0 && words[at - 1].is_sign(".");
                let Some(name) = word.name().filter(|_| !is_member) else { continue };
                let Some(shown) = self.pattern.shown(&name) else { continue };
                let Shown::Node(node) = shown else { return None };
                let is_property = words.get(at + 1).is_some_and(|dot| dot.is_sign("."));
                let property = words.get(at + 2).and_then(Word::name).filter(|_| is_property);
                let (_, table) = self.only_table(node)?;
                let is_rowid = property.is_some_and(|property| {
                    matches!((table.property(&property), &table.facts.rowid),
                        (Some(Property::Column(column)), Some(rowid)) if column == rowid)
                });
                uses[node] = match (uses[node], is_rowid) {
                    (Use::None | Use::Rowid, true) => Use::Rowid,
                    _ => Use::Row,
                };
            }
        }
        Some(uses)
    }

    /// The candidates of each node; `None` where all of a node's tables are left out.
    fn nodes(
        &self,
        own: &[(usize, &[Word<'_>])],
        parameters: &Parameters,
    ) -> Result<Option<Vec<CallNode>>, Error> {
        let mut nodes = Vec::new();
        for at in 0..self.pattern.nodes.len() {
            let node = &self.pattern.nodes[at];
            let mut tables = Vec::new();
            for (place, table) in self.tables_of(at) {
                let mut choice =
                    Choice { nodes: vec![None; self.pattern.nodes.len()], edges: Vec::new() };
                choice.nodes[at] = Some(place);
                let (graph, pattern) = (self.graph, self.pattern);
                let own_parameters = Some(parameters);
                let scope =
                    Scope { parameters: own_parameters, ..Scope::of(graph, pattern, &choice) };
                let mut conditions = Vec::new();
                for label in &node.labels {
                    super::lower::condition(table, &node.alias, label, &mut conditions);
                }
                for (_, words) in own.iter().filter(|(node, _)| *node == at) {
                    conditions.push(format!("({})", scope.sql(words)?));
                }
                let candidates = (!conditions.is_empty()).then(|| {
                    let alias = quoted(&node.alias);
                    let key = match &table.facts.rowid {
                        Some(rowid) => vec![super::elements::quoted_rowid(rowid)],
                        None => table.facts.key().iter().map(|column| quoted(column)).collect(),
                    };
                    let key: Vec<String> =
                        key.iter().map(|column| format!("{alias}.{column}")).collect();
                    select(&key, &[format!("{} AS {alias}", quoted(&table.table))], &conditions)
                });
                tables.push((place, candidates));
            }
            if tables.is_empty() {
                return Ok(None);
            }
            let is_any = tables.iter().all(|(_, candidates)| candidates.is_none());
            let are_all = tables.len() == self.graph.vertices.len();
            nodes.push(match is_any && (are_all || self.is_any(at)) {
                true => CallNode::Any,
                false => CallNode::Of(tables),
            });
        }
        Ok(Some(nodes))
    }

    /// The join with the rows of the call; `None` where a node shown has no rowid.
    fn join(
        &self,
        shown: &[usize],
        outer: &[&[Word<'_>]],
        parameters: &Parameters,
        paths_max: Option<usize>,
    ) -> Result<Option<String>, Error> {
        let mut parts = Vec::new();
        for choice in self.choices {
            let (graph, pattern) = (self.graph, self.pattern);
            let parameters = Some(parameters);
            let scope = Scope { parameters, paths_max, ..Scope::of(graph, pattern, choice) };
            let (from, mut conditions) = pattern.from(&scope)?;
            for words in outer {
                conditions.push(format!("({})", scope.sql(words)?));
            }
            let mut columns = Vec::new();
            for node in shown {
                let (table, _) = scope.node_table(*node);
                let Some(rowid) = &table.facts.rowid else { return Ok(None) };
                let alias = quoted(pattern.node_alias(*node));
                columns.push(format!("{alias}.{}", super::elements::quoted_rowid(rowid)));
            }
            if columns.is_empty() {
                columns.push("NULL".to_owned());
            }
            parts.push(select(&columns, &from, &conditions));
        }
        Ok((!parts.is_empty()).then(|| parts.join(" UNION ALL ")))
    }
}

/// The names of properties in a condition.
fn properties<'w>(words: &'w [Word<'_>]) -> impl Iterator<Item = String> + 'w {
    let members = words.windows(3).filter(|three| three[1].is_sign("."));
    members.filter_map(|three| three[2].name())
}

/// The names of a label expression of alternatives, none where any label fits; `None` of others.
fn names(label: &LabelExpr) -> Option<Vec<String>> {
    match label {
        LabelExpr::Any => Some(Vec::new()),
        LabelExpr::Name(name) => Some(vec![name.clone()]),
        LabelExpr::Or(left, right) => {
            let (mut all, right) = (names(left)?, names(right)?);
            if all.is_empty() || right.is_empty() {
                return Some(Vec::new());
            }
            all.extend(right);
            all.sort_unstable();
            all.dedup();
            Some(all)
        }
        LabelExpr::Not(_) | LabelExpr::And(..) => None,
    }
}

/// The parts of a condition that hold together.
fn conjuncts<'w, 't>(words: &'w [Word<'t>]) -> Vec<&'w [Word<'t>]> {
    if words.iter().any(|word| word.is("BETWEEN") || word.is("CASE") || word.is("OR")) {
        return vec![words];
    }
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, word) in words.iter().enumerate() {
        match word.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ if depth == 0 && word.is("AND") => {
                parts.push(&words[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&words[from..]);
    parts
}
