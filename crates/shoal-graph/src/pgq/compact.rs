//! Patterns without quantifiers as calls of `graph_match`: compressed rows in place of a join.
//!
//! A call gives rowids of the nodes whose properties are asked for, and tables of those nodes alone
//! are joined to the call. Conditions on one node choose its candidates. Other patterns stay joins:
//! those with properties of edges, with tables to choose from, with a node found by an index.

use shoal_sql::Error;

use super::around::Demand;
use super::definition::{EdgeTable, ElementTable, MappedGraph, Property};
use super::elements::{Truth, literal, quoted};
use super::expression::{Parameters, Scope, Shown};
use super::lower::{Choice, Part, Pattern, select};
use super::matching::{CALL_COLUMNS, CALL_PARAMETERS, Call, CallEdge, CallNode};
use super::pattern::{Direction, GraphTable};
use super::words::{Kind, Word};

/// The alias of the call in the query.
const ALIAS: &str = "_match";

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
    let is_plain = pattern.walks.is_empty()
        && !pattern.edges.is_empty()
        && pattern.edges.iter().all(|edge| edge.filter.is_none());
    if demand == Demand::Unknown || !is_plain {
        return Ok(None);
    }
    let choices = pattern.choices(graph)?;
    let compact = Compact { graph, pattern, choices: &choices };
    let Some(classes) = compact.classes() else { return Ok(None) };
    let Some(edges) = compact.edges(&classes) else { return Ok(None) };
    let parameters = Parameters::numbered();
    // Conditions of one node choose its candidates; the others are asked of the call's rows.
    let mut behind: Vec<&[Word<'_>]> = Vec::new();
    let mut own: Vec<(usize, &[Word<'_>])> = Vec::new();
    for (at, node) in pattern.nodes.iter().enumerate() {
        for filter in &node.filters {
            match compact.only_node(filter) {
                Some(only) if only.is_none_or(|only| only == at) => own.push((at, filter)),
                _ => return Ok(None),
            }
        }
    }
    for part in table.filter.iter().flat_map(|filter| conjuncts(filter)) {
        match compact.only_node(part) {
            Some(Some(node)) => own.push((node, part)),
            _ => behind.push(part),
        }
    }
    if own.iter().any(|(node, words)| compact.is_by_index(*node, words)) {
        return Ok(None);
    }
    let columns: Vec<&[Word<'_>]> = match demand {
        Demand::Count if behind.is_empty() => Vec::new(),
        _ => table.columns.iter().map(|column| &*column.words).collect(),
    };
    let Some(uses) = compact.uses(columns.iter().chain(&behind)) else { return Ok(None) };
    let shown: Vec<usize> = (0..uses.len()).filter(|node| uses[*node] != Use::None).collect();
    let has_one_edge = pattern.edges.len() == 1;
    if shown.len() > CALL_COLUMNS || has_one_edge && !shown.is_empty() {
        return Ok(None);
    }
    let Some(nodes) = compact.nodes(&own, &parameters)? else { return Ok(None) };
    let Some(join) = compact.join(&shown, &own, &parameters)? else { return Ok(None) };
    let call = Call {
        graph: graph.name.clone(),
        tables: compact.tables(),
        nodes,
        edges,
        different: pattern.different_nodes.clone(),
        shown: shown.clone(),
        join,
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
    let scope =
        Scope { graph, pattern, choice: &choice, parameters: None, rowid_of: Some(&rowid_of) };
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

struct Compact<'c, 't> {
    graph: &'c MappedGraph,
    pattern: &'c Pattern<'t>,
    /// The choices of tables that fit together.
    choices: &'c [Choice],
}

impl<'c> Compact<'c, '_> {
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
            let kind = self.kind(edge)?;
            let (from, to) = match edge.direction {
                Direction::Left => (edge.to, edge.from),
                Direction::Right | Direction::Either => (edge.from, edge.to),
            };
            let is_either = edge.direction == Direction::Either;
            if class.is_some() {
                let known = edges.iter().filter(|known| known.class == *class);
                let is_apart = |known: &CallEdge| match (&known.kind, &kind) {
                    (Some(a), Some(b)) if a != b => true,
                    (a, b) => a == b && known.is_either == is_either,
                };
                if !known.into_iter().all(is_apart) || !self.graph.has_single_ends() {
                    return None;
                }
            }
            edges.push(CallEdge { from, to, is_either, kind, class: *class });
        }
        Some(edges)
    }

    /// The type of an edge's tables, nothing where all tables fit; `None` where they are neither
    /// all, nor those of one type.
    fn kind(&self, edge: &super::lower::Edge<'_>) -> Option<Option<String>> {
        let Some(label) = &edge.label else { return Some(None) };
        if self.is_default() {
            return match label {
                super::pattern::LabelExpr::Name(name) => Some(Some(name.clone())),
                super::pattern::LabelExpr::Any => Some(None),
                _ => None,
            };
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
            return Some(None);
        }
        let kinds = self.graph.edges.iter().map(|table| table.element.first_label());
        let kind = kinds.clone().zip(&fits).find(|(_, fits)| **fits).map(|(kind, _)| kind)?;
        let is_kind = kinds.zip(&fits).all(|(other, fits)| (other == kind) == *fits);
        is_kind.then(|| Some(kind.to_owned()))
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

    /// The node of a condition that reads properties of one node, parameters and literals; `None`
    /// inside of a condition without nodes, and outside of any other condition.
    fn only_node(&self, words: &[Word<'_>]) -> Option<Option<usize>> {
        let mut node = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            match word.kind {
                Kind::Text | Kind::Number | Kind::Sign => continue,
                Kind::Parameter if word.text != "?" => continue,
                Kind::Name if PLAIN_WORDS.iter().any(|plain| word.is(plain)) => continue,
                _ => {}
            }
            let Some(Shown::Node(found)) = self.pattern.shown(&word.name()?) else { return None };
            let is_property = words.get(at).is_some_and(|dot| dot.is_sign("."));
            let property = words.get(at + 1).and_then(Word::name)?;
            let has_it = |(_, table): (usize, &ElementTable)| {
                table.is_default || table.property(&property).is_some()
            };
            let is_other = node.is_some_and(|node| node != found);
            if !is_property || is_other || !self.tables_of(found).into_iter().all(has_it) {
                return None;
            }
            node = Some(found);
            at += 2;
        }
        Some(node)
    }

    /// True of a condition that an index may answer: the join begins there.
    fn is_by_index(&self, node: usize, words: &[Word<'_>]) -> bool {
        let properties = words.windows(3).filter(|three| three[1].is_sign("."));
        let mut names = properties.filter_map(|three| three[2].name());
        names.any(|name| {
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
                let scope = Scope {
                    graph,
                    pattern,
                    choice: &choice,
                    parameters: Some(parameters),
                    rowid_of: None,
                };
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
            nodes.push(match is_any && self.is_any(at) {
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
        own: &[(usize, &[Word<'_>])],
        parameters: &Parameters,
    ) -> Result<Option<String>, Error> {
        let mut parts = Vec::new();
        let in_nodes = |words: &[Word<'_>]| {
            let mut filters = self.pattern.nodes.iter().flat_map(|node| &node.filters);
            filters.any(|filter| std::ptr::eq(filter.as_slice(), words))
        };
        for choice in self.choices {
            let (graph, pattern) = (self.graph, self.pattern);
            let scope =
                Scope { graph, pattern, choice, parameters: Some(parameters), rowid_of: None };
            let (from, mut conditions) = pattern.from(&scope)?;
            for (_, words) in own.iter().filter(|(_, words)| !in_nodes(words)) {
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
