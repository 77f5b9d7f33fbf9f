//! Tables of elements as SQL: identifiers, properties, labels, ends of edges.

use super::definition::{EdgeEnd, EdgeTable, ElementTable, Label, MappedGraph};
use super::pattern::LabelExpr;
use super::tables::TableFacts;

/// The name of the graph in `_graph_node`, `_graph_label` and `_graph_edge`.
pub(super) const DEFAULT_GRAPH: &str = "_graph";

/// The truth of a label expression for a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    No,
    Yes,
    /// A condition on each row.
    If(String),
}

/// A name as SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The graph that `shoal cypher` makes: labels and properties are rows and JSON.
pub(super) fn default_graph() -> MappedGraph {
    let element = |table: &str, columns: &[&str]| ElementTable {
        table: table.to_owned(),
        facts: TableFacts::with_id(columns),
        key: vec!["id".to_owned()],
        labels: Vec::new(),
        is_default: true,
    };
    let end = |column: &str| EdgeEnd {
        columns: vec![column.to_owned()],
        vertex: 0,
        references: vec!["id".to_owned()],
    };
    MappedGraph {
        name: DEFAULT_GRAPH.to_owned(),
        vertices: vec![element("_graph_node", &["id", "properties"])],
        edges: vec![EdgeTable {
            element: element("_graph_edge", &["id", "source", "type", "target", "properties"]),
            source: end("source"),
            target: end("target"),
        }],
    }
}

impl ElementTable {
    /// A property of the row of an alias; `None` where the table has none of the name.
    pub(crate) fn property_sql(&self, alias: &str, name: &str) -> Option<String> {
        if self.is_default {
            let path = format!("$.\"{}\"", name.replace('"', "\\\""));
            return Some(format!("({}.properties ->> {})", quoted(alias), literal(&path)));
        }
        Some(self.property(name)?.sql(alias))
    }

    /// The identifier of the row of an alias: the table's place and the row's key.
    pub(super) fn id_sql(&self, place: usize, alias: &str) -> String {
        let alias = quoted(alias);
        match &self.facts.rowid {
            Some(rowid) => format!("'{place}/' || {alias}.{}", quoted_rowid(rowid)),
            None => {
                let key: Vec<String> =
                    self.facts.key().iter().map(|it| format!("{alias}.{}", quoted(it))).collect();
                format!("'{place}/' || json_array({})", key.join(", "))
            }
        }
    }

    /// The condition that the row of an alias has an identifier, an expression of SQL.
    pub(super) fn is_id_sql(&self, place: usize, alias: &str, id: &str) -> String {
        let alias = quoted(alias);
        let prefix = format!("{place}/");
        let rest = format!("substr({id}, {})", prefix.len() + 1);
        let is_of_table = format!("substr({id}, 1, {}) = '{prefix}'", prefix.len());
        match &self.facts.rowid {
            Some(rowid) => format!(
                "{is_of_table} AND {alias}.{} = CAST({rest} AS INTEGER)",
                quoted_rowid(rowid)
            ),
            None => {
                let mut all = is_of_table;
                for (at, column) in self.facts.key().iter().enumerate() {
                    all.push_str(&format!(" AND {alias}.{} = {rest} ->> {at}", quoted(column)));
                }
                all
            }
        }
    }

    /// The condition that the identifier of the row of an alias is in a JSON array.
    pub(super) fn is_in_sql(&self, place: usize, alias: &str, array: &str) -> String {
        let alias = quoted(alias);
        let prefix = format!("{place}/");
        let from = format!("FROM json_each({array}) WHERE value GLOB '{prefix}*'");
        let rest = format!("substr(value, {})", prefix.len() + 1);
        match &self.facts.rowid {
            Some(rowid) => format!(
                "{alias}.{} IN (SELECT CAST({rest} AS INTEGER) {from})",
                quoted_rowid(rowid)
            ),
            None => {
                let key = self.facts.key();
                let left: Vec<String> =
                    key.iter().map(|column| format!("{alias}.{}", quoted(column))).collect();
                let right: Vec<String> =
                    (0..key.len()).map(|at| format!("{rest} ->> {at}")).collect();
                format!("({}) IN (SELECT {} {from})", left.join(", "), right.join(", "))
            }
        }
    }

    /// The truth of a label expression for the row of an alias.
    pub(super) fn label_truth(&self, alias: &str, label: &LabelExpr) -> Truth {
        match label {
            LabelExpr::Any => Truth::Yes,
            LabelExpr::Name(name) if self.is_default => {
                let alias = quoted(alias);
                let name = literal(name);
                Truth::If(match &*self.table {
                    "_graph_edge" => format!("{alias}.type = {name}"),
                    _ => format!(
                        "EXISTS (SELECT 1 FROM _graph_label WHERE label = {name} AND node = {alias}.id)"
                    ),
                })
            }
            LabelExpr::Name(name) => {
                if self.has_label(name) {
                    Truth::Yes
                } else {
                    Truth::No
                }
            }
            LabelExpr::Not(inner) => match self.label_truth(alias, inner) {
                Truth::Yes => Truth::No,
                Truth::No => Truth::Yes,
                Truth::If(sql) => Truth::If(format!("NOT {sql}")),
            },
            LabelExpr::And(left, right) => {
                match (self.label_truth(alias, left), self.label_truth(alias, right)) {
                    (Truth::No, _) | (_, Truth::No) => Truth::No,
                    (Truth::Yes, other) | (other, Truth::Yes) => other,
                    (Truth::If(left), Truth::If(right)) => {
                        Truth::If(format!("({left} AND {right})"))
                    }
                }
            }
            LabelExpr::Or(left, right) => {
                match (self.label_truth(alias, left), self.label_truth(alias, right)) {
                    (Truth::Yes, _) | (_, Truth::Yes) => Truth::Yes,
                    (Truth::No, other) | (other, Truth::No) => other,
                    (Truth::If(left), Truth::If(right)) => {
                        Truth::If(format!("({left} OR {right})"))
                    }
                }
            }
        }
    }

    /// The labels of the row of an alias, as a JSON array.
    pub(super) fn labels_sql(&self, alias: &str) -> String {
        let alias = quoted(alias);
        match (self.is_default, &*self.table) {
            (true, "_graph_edge") => format!("json_array({alias}.type)"),
            (true, _) => format!(
                "(SELECT json_group_array(label) FROM \
                 (SELECT label FROM _graph_label WHERE node = {alias}.id ORDER BY label))"
            ),
            (false, _) => {
                let mut names: Vec<&str> =
                    self.labels.iter().map(|label: &Label| &*label.name).collect();
                names.sort_unstable();
                names.dedup();
                let names: Vec<String> = names.into_iter().map(literal).collect();
                format!("json_array({})", names.join(", "))
            }
        }
    }
}

impl EdgeEnd {
    /// The condition that the end of an edge is a vertex.
    pub(crate) fn join_sql(&self, edge: &str, vertex: &str) -> String {
        let (edge, vertex) = (quoted(edge), quoted(vertex));
        let pairs = self.columns.iter().zip(&self.references);
        let equal: Vec<String> = pairs
            .map(|(column, reference)| {
                format!("{edge}.{} = {vertex}.{}", quoted(column), quoted_rowid(reference))
            })
            .collect();
        equal.join(" AND ")
    }
}

/// A column, or the rowid, whose name in quotes would be a text where it is no column.
pub(super) fn quoted_rowid(name: &str) -> String {
    match name {
        "rowid" | "_rowid_" | "oid" => name.to_owned(),
        _ => quoted(name),
    }
}
