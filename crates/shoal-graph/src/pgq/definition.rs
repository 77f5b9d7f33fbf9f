//! `CREATE PROPERTY GRAPH`: tables of a user's own as a graph. Its words, and what they mean in the
//! schema of now.
//!
//! ```sql
//! CREATE PROPERTY GRAPH social
//!   VERTEX TABLES (person KEY (id) LABEL person PROPERTIES (name, born AS year))
//!   EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
//!                      DESTINATION KEY (b) REFERENCES person NO PROPERTIES)
//! ```
//!
//! The statement is kept as a text in `_graph_definition`, and read again by whoever asks the
//! graph.

use shoal_sql::{Connection, Error, Value};

use super::computed::Computed;
use super::elements::quoted;
use super::tables::{ColumnNames, Reads, TableFacts, table_facts};
use super::words::{Words, at_place};
use super::{follow, layout};

/// The table of definitions.
pub(super) const DEFINITIONS: &str = "_graph_definition";

/// A statement about a graph.
#[derive(Debug)]
pub(super) enum Statement {
    Create { graph: Written, if_not_exists: bool, or_replace: bool },
    Drop { name: String, if_exists: bool },
}

/// A definition as written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) vertices: Vec<WrittenTable>,
    pub(super) edges: Vec<(WrittenTable, WrittenEnd, WrittenEnd)>,
}

#[derive(Debug)]
pub(super) struct WrittenTable {
    pub(super) table: String,
    pub(super) alias: Option<String>,
    pub(super) key: Vec<String>,
    pub(super) labels: Vec<(Option<String>, Properties)>,
    place: usize,
}

impl WrittenTable {
    /// The name of the table within the graph.
    pub(super) fn name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.table)
    }
}

/// The end of an edge: columns of the edge's table, the vertex table's alias, its columns.
#[derive(Debug)]
pub(super) struct WrittenEnd {
    pub(super) key: Vec<String>,
    pub(super) vertex: String,
    pub(super) references: Vec<String>,
    place: usize,
}

#[derive(Debug)]
pub(super) enum Properties {
    /// All columns but some.
    All(Vec<String>),
    /// Columns and expressions, and the names of the properties.
    Listed(Vec<(WrittenProperty, String)>),
}

#[derive(Debug)]
pub(super) enum WrittenProperty {
    Column(String),
    Computed(WrittenComputed),
}

/// An expression as written, until the columns of its table are known.
#[derive(Debug)]
pub(super) struct WrittenComputed {
    text: String,
    place: usize,
    pub(super) made: Option<Computed>,
}

/// True for a text that [`parse`] reads as a statement, or refuses.
pub(super) fn is_statement(sql: &str) -> bool {
    let Ok(mut words) = Words::new(sql, false) else { return false };
    if words.take("CREATE") {
        if words.take("OR") && !words.take("REPLACE") {
            return false;
        }
    } else if !words.take("DROP") {
        return false;
    }
    words.take("PROPERTY") && words.take("GRAPH")
}

/// Reads a statement.
///
/// # Errors
/// The first word that fits nowhere.
pub(super) fn parse(sql: &str) -> Result<Statement, Error> {
    let mut words = Words::new(sql, false)?;
    let is_create = words.take("CREATE");
    let or_replace = is_create && words.take("OR") && words.take("REPLACE");
    if !is_create {
        words.expect("DROP")?;
    }
    words.expect("PROPERTY")?;
    words.expect("GRAPH")?;
    let conditional = words.take("IF");
    if conditional {
        if is_create {
            words.expect("NOT")?;
        }
        words.expect("EXISTS")?;
    }
    let name = words.expect_name("the name of the graph")?;
    let statement = if is_create {
        let graph = written(&mut words, name)?;
        Statement::Create { graph, if_not_exists: conditional, or_replace }
    } else {
        Statement::Drop { name, if_exists: conditional }
    };
    words.take_sign(";");
    match words.peek().text {
        "" => Ok(statement),
        _ => Err(words.unexpected("the end of the statement")),
    }
}

fn written(words: &mut Words<'_>, name: String) -> Result<Written, Error> {
    if words.take("LAYOUT") {
        let place = words.peek().start;
        let layout = words.expect_name("the name of a layout")?;
        let Some(definition) = layout::definition(&layout) else {
            let why = format!("there is no layout {layout}: {}", layout::names());
            return Err(at_place(&why, place));
        };
        let graph = written(&mut Words::new(definition, false)?, name)?;
        return Ok(graph.at(place));
    }
    let mut graph = Written { name, vertices: Vec::new(), edges: Vec::new() };
    if !words.take("VERTEX") && !words.take("NODE") {
        return Err(words.unexpected("VERTEX TABLES"));
    }
    words.expect("TABLES")?;
    list(words, |words| {
        let mut table = table(words)?;
        table.labels = labels(words)?;
        graph.vertices.push(table);
        Ok(())
    })?;
    if words.take("EDGE") || words.take("RELATIONSHIP") {
        words.expect("TABLES")?;
        list(words, |words| {
            let mut table = table(words)?;
            words.expect("SOURCE")?;
            let source = end(words)?;
            if !words.take("DESTINATION") {
                words.expect("TARGET")?;
            }
            let target = end(words)?;
            table.labels = labels(words)?;
            graph.edges.push((table, source, target));
            Ok(())
        })?;
    }
    Ok(graph)
}

impl Written {
    /// The same with one place for whatever is wrong.
    fn at(mut self, place: usize) -> Written {
        let edges = self.edges.iter_mut().map(|(table, source, target)| {
            (source.place, target.place) = (place, place);
            table
        });
        for table in self.vertices.iter_mut().chain(edges) {
            table.place = place;
        }
        self
    }
}

/// Items in parentheses.
fn list(
    words: &mut Words<'_>,
    mut item: impl FnMut(&mut Words<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    words.expect_sign("(")?;
    loop {
        item(words)?;
        if !words.take_sign(",") {
            return words.expect_sign(")");
        }
    }
}

fn names(words: &mut Words<'_>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    list(words, |words| {
        names.push(words.expect_name("a column")?);
        Ok(())
    })?;
    Ok(names)
}

fn table(words: &mut Words<'_>) -> Result<WrittenTable, Error> {
    let place = words.peek().start;
    let table = words.expect_name("a table")?;
    let alias = match words.take("AS") {
        true => Some(words.expect_name("the table's name in the graph")?),
        false => None,
    };
    let key = if words.take("KEY") { names(words)? } else { Vec::new() };
    Ok(WrittenTable { table, alias, key, labels: Vec::new(), place })
}

fn end(words: &mut Words<'_>) -> Result<WrittenEnd, Error> {
    let place = words.peek().start;
    let key = match words.take("KEY") {
        true => {
            let key = names(words)?;
            words.expect("REFERENCES")?;
            key
        }
        false => Vec::new(),
    };
    let vertex = words.expect_name("a vertex table")?;
    let references = if words.peek().is_sign("(") { names(words)? } else { Vec::new() };
    Ok(WrittenEnd { key, vertex, references, place })
}

fn labels(words: &mut Words<'_>) -> Result<Vec<(Option<String>, Properties)>, Error> {
    let mut labels = Vec::new();
    if let Some(properties) = properties(words)? {
        labels.push((None, properties));
        return Ok(labels);
    }
    loop {
        let label = if words.take("LABEL") {
            Some(words.expect_name("a label")?)
        } else if words.take("DEFAULT") {
            words.expect("LABEL")?;
            None
        } else {
            break;
        };
        labels.push((label, properties(words)?.unwrap_or(Properties::All(Vec::new()))));
    }
    if labels.is_empty() {
        labels.push((None, Properties::All(Vec::new())));
    }
    Ok(labels)
}

fn properties(words: &mut Words<'_>) -> Result<Option<Properties>, Error> {
    if words.peek().is("NO") && words.ahead(1).is("PROPERTIES") {
        words.next();
        words.next();
        return Ok(Some(Properties::Listed(Vec::new())));
    }
    if !words.take("PROPERTIES") {
        return Ok(None);
    }
    let _ = words.take("ARE");
    if words.take("ALL") {
        words.expect("COLUMNS")?;
        let except = if words.take("EXCEPT") { names(words)? } else { Vec::new() };
        return Ok(Some(Properties::All(except)));
    }
    let mut listed = Vec::new();
    list(words, |words| {
        let expression = words.expression(&["AS"], true)?;
        let column = match &*expression {
            [one] => one.name(),
            _ => None,
        };
        let property = match (words.take("AS"), &column) {
            (true, _) => words.expect_name("a property")?,
            (false, Some(column)) => column.clone(),
            (false, None) => return Err(words.unexpected("AS and a name for the property")),
        };
        let made_of = match column {
            Some(column) => WrittenProperty::Column(column),
            None => WrittenProperty::Computed(WrittenComputed {
                text: words.text_of(&expression).to_owned(),
                place: expression[0].start,
                made: None,
            }),
        };
        listed.push((made_of, property));
        Ok(())
    })?;
    Ok(Some(Properties::Listed(listed)))
}

/// A graph in the schema of now.
#[derive(Clone, Debug)]
pub(crate) struct MappedGraph {
    pub(crate) name: String,
    pub(crate) vertices: Vec<ElementTable>,
    pub(crate) edges: Vec<EdgeTable>,
}

impl MappedGraph {
    /// True where each row of an edge table is an edge between one pair of vertices.
    pub(crate) fn has_single_ends(&self) -> bool {
        let is_single = |end: &EdgeEnd| self.vertices[end.vertex].facts.is_unique(&end.references);
        self.edges.iter().all(|edge| is_single(&edge.source) && is_single(&edge.target))
    }
}

/// A table of vertices or edges.
#[derive(Clone, Debug)]
pub(crate) struct ElementTable {
    pub(crate) table: String,
    pub(crate) facts: TableFacts,
    /// Key columns: of `KEY`, or else of the primary key.
    pub(crate) key: Vec<String>,
    pub(crate) labels: Vec<Label>,
    /// A table of the graph that `shoal cypher` makes: labels are rows, properties JSON.
    pub(crate) is_default: bool,
}

/// A label, and its properties by name.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) properties: Vec<(String, Property)>,
}

/// The value of a property of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Column(String),
    Computed(Computed),
}

impl Property {
    /// The value in the row of an alias.
    pub(crate) fn sql(&self, alias: &str) -> String {
        match self {
            Property::Column(column) => format!("{}.{}", quoted(alias), quoted(column)),
            Property::Computed(computed) => computed.sql(alias),
        }
    }
}

/// A table of edges.
#[derive(Clone, Debug)]
pub(crate) struct EdgeTable {
    pub(crate) element: ElementTable,
    pub(crate) source: EdgeEnd,
    pub(crate) target: EdgeEnd,
}

/// Columns of an edge's table, equal to columns of a vertex's.
#[derive(Clone, Debug)]
pub(crate) struct EdgeEnd {
    pub(crate) columns: Vec<String>,
    pub(crate) vertex: usize,
    pub(crate) references: Vec<String>,
}

impl ElementTable {
    /// The first label, or the table's name where there is none: the type of an edge.
    pub(crate) fn first_label(&self) -> &str {
        self.labels.first().map_or(&*self.table, |label| &*label.name)
    }

    /// A property; `None` where the table has none of the name.
    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        let mut all = self.labels.iter().flat_map(|label| &label.properties);
        all.find(|(property, _)| property.eq_ignore_ascii_case(name)).map(|(_, made_of)| made_of)
    }

    /// The column of a property; `None` where the table has none of the name, and for expressions.
    pub(crate) fn column(&self, name: &str) -> Option<&str> {
        match self.property(name)? {
            Property::Column(column) => Some(column),
            Property::Computed(_) => None,
        }
    }

    pub(crate) fn has_label(&self, name: &str) -> bool {
        self.labels.iter().any(|label| label.name.eq_ignore_ascii_case(name))
    }
}

/// The graph of a definition.
///
/// # Errors
/// Tables and columns that are not there; an end without a key that no one foreign key tells.
pub(super) fn resolve(reads: &mut dyn Reads, written: &Written) -> Result<MappedGraph, Error> {
    let mut names: Vec<String> = Vec::new();
    let mut vertices = Vec::new();
    for table in &written.vertices {
        vertices.push(element(reads, &written.name, table, &mut names)?);
    }
    let vertex_names = names.clone();
    let mut edges = Vec::new();
    for (table, source, target) in &written.edges {
        let element = element(reads, &written.name, table, &mut names)?;
        let mut ends = Vec::new();
        for end in [source, target] {
            ends.push(edge_end(&written.name, end, &element, &vertices, &vertex_names)?);
        }
        let (Some(target), Some(source)) = (ends.pop(), ends.pop()) else { unreachable!() };
        edges.push(EdgeTable { element, source, target });
    }
    Ok(MappedGraph { name: written.name.clone(), vertices, edges })
}

fn element(
    reads: &mut dyn Reads,
    graph: &str,
    written: &WrittenTable,
    names: &mut Vec<String>,
) -> Result<ElementTable, Error> {
    let (table, place) = (&written.table, written.place);
    let Some(facts) = table_facts(reads, table)? else {
        return Err(at_place(&format!("graph {graph}: there is no table {table}"), place));
    };
    let name = written.name().to_owned();
    if names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
        let why = format!("graph {graph} has two tables {name}: AS gives one another name");
        return Err(at_place(&why, place));
    }
    let key = match written.key.is_empty() {
        true => facts.key(),
        false => columns(graph, table, &facts, &written.key, place)?,
    };
    let mut labels = Vec::new();
    for (label, properties) in &written.labels {
        let properties = match properties {
            Properties::Listed(listed) => {
                let mut properties = Vec::new();
                for (made_of, property) in listed {
                    let made_of = match made_of {
                        WrittenProperty::Column(name) => {
                            Property::Column(column(graph, table, &facts, name, place)?)
                        }
                        WrittenProperty::Computed(written) => {
                            Property::Computed(written.of(table, &name, &facts)?)
                        }
                    };
                    properties.push((property.clone(), made_of));
                }
                properties
            }
            Properties::All(except) => {
                let except = columns(graph, table, &facts, except, place)?;
                let all = facts.columns.iter().filter(|column| !except.contains(column));
                all.map(|column| (column.clone(), Property::Column(column.clone()))).collect()
            }
        };
        let label = label.clone().unwrap_or_else(|| name.clone());
        labels.push(Label { name: label, properties });
    }
    let mut seen: Vec<&(String, Property)> = Vec::new();
    for pair in labels.iter().flat_map(|label| &label.properties) {
        let other = seen.iter().find(|it| it.0.eq_ignore_ascii_case(&pair.0));
        if other.is_some_and(|other| other.1 != pair.1) {
            let why = format!("graph {graph}: property {} of {table} has two meanings", pair.0);
            return Err(at_place(&why, place));
        }
        seen.push(pair);
    }
    names.push(name);
    Ok(ElementTable { table: table.clone(), facts, key, labels, is_default: false })
}

impl WrittenComputed {
    /// The expression over the columns of a table.
    fn of(&self, table: &str, name: &str, facts: &TableFacts) -> Result<Computed, Error> {
        if let Some(made) = &self.made {
            return Ok(made.clone());
        }
        let words = Words::new(&self.text, false)?;
        Computed::of(words.rest(), &facts.columns, [table, name]).map_err(|error| self.at(error))
    }

    /// An error about the expression, with its place in the definition.
    fn at(&self, error: Error) -> Error {
        match error {
            Error::Meaning { message, offset } => {
                Error::Meaning { message, offset: Some(self.place + offset.unwrap_or(0)) }
            }
            error => at_place(&error.to_string(), self.place),
        }
    }
}

/// Makes the expressions of a new definition, and prepares each as a condition on its table: only
/// expressions over a row's columns are one.
///
/// # Errors
/// Unknown functions and columns, aggregates, and the faults of [`Computed::of`].
fn make_computed(reads: &mut dyn Reads, written: &mut Written) -> Result<(), Error> {
    let edges = written.edges.iter_mut().map(|(table, ..)| table);
    for table in written.vertices.iter_mut().chain(edges) {
        let name = table.name().to_owned();
        let Some(facts) = table_facts(reads, &table.table)? else { continue };
        for (_, properties) in &mut table.labels {
            let Properties::Listed(listed) = properties else { continue };
            for (made_of, _) in listed {
                let WrittenProperty::Computed(computed) = made_of else { continue };
                let made = computed.of(&table.table, &name, &facts)?;
                let (condition, table) = (made.sql("_row"), quoted(&table.table));
                let sql = format!("SELECT 1 FROM {table} AS _row WHERE {condition} LIMIT 0");
                let checked = reads.rows(&sql, &[], &mut |_| Ok(()));
                checked.map_err(|error| at_place(&error.to_string(), computed.place))?;
                computed.made = Some(made);
            }
        }
    }
    Ok(())
}

/// Columns of a table, spelled as in its definition.
fn columns(
    graph: &str,
    table: &str,
    facts: &TableFacts,
    names: &[String],
    place: usize,
) -> Result<Vec<String>, Error> {
    names.iter().map(|name| column(graph, table, facts, name, place)).collect()
}

fn column(
    graph: &str,
    table: &str,
    facts: &TableFacts,
    name: &str,
    place: usize,
) -> Result<String, Error> {
    facts.columns.find_name(name).cloned().ok_or_else(|| {
        at_place(&format!("graph {graph}: table {table} has no column {name}"), place)
    })
}

fn edge_end(
    graph: &str,
    end: &WrittenEnd,
    edge: &ElementTable,
    vertices: &[ElementTable],
    names: &[String],
) -> Result<EdgeEnd, Error> {
    let refused = |why: String| at_place(&format!("graph {graph}: {why}"), end.place);
    let found = names.iter().position(|name| name.eq_ignore_ascii_case(&end.vertex));
    let Some(vertex) = found else {
        return Err(refused(format!("there is no vertex table {}", end.vertex)));
    };
    let of = &vertices[vertex];
    let (key, references) = if end.key.is_empty() {
        let is_of = |key: &&super::tables::ForeignKey| key.table.eq_ignore_ascii_case(&of.table);
        let mut keys = edge.facts.foreign_keys.iter().filter(is_of);
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(refused(format!(
                "KEY (...) REFERENCES {} is missing: {} has no foreign key to it, or several",
                end.vertex, edge.table
            )));
        };
        let references =
            if key.references.is_empty() { of.facts.key() } else { key.references.clone() };
        (key.columns.clone(), references)
    } else {
        let references =
            if end.references.is_empty() { of.key.clone() } else { end.references.clone() };
        (end.key.clone(), references)
    };
    if key.len() != references.len() {
        return Err(refused(format!(
            "{} columns of {} cannot be equal to {} of {}",
            key.len(),
            edge.table,
            references.len(),
            of.table
        )));
    }
    Ok(EdgeEnd {
        columns: columns(graph, &edge.table, &edge.facts, &key, end.place)?,
        vertex,
        references: columns(graph, &of.table, &of.facts, &references, end.place)?,
    })
}

/// The graph of a name, and the names of the others where there is none.
///
/// # Errors
/// A definition and a schema in disagreement.
pub(crate) fn find(reads: &mut dyn Reads, name: &str) -> Result<Option<MappedGraph>, Error> {
    let Some(sql) = text_of(reads, name)? else { return Ok(None) };
    let broken = |error: Error| match error {
        Error::Meaning { message, .. } => Error::Meaning { message, offset: None },
        error => error,
    };
    let Statement::Create { mut graph, .. } = parse(&sql).map_err(broken)? else {
        let message = format!("{DEFINITIONS} has no definition of graph {name} but another text");
        return Err(Error::Meaning { message, offset: None });
    };
    follow::follow(reads, &mut graph)?;
    resolve(reads, &graph).map(Some).map_err(broken)
}

/// The defining statement of a graph.
pub(super) fn text_of(reads: &mut dyn Reads, name: &str) -> Result<Option<String>, Error> {
    if table_facts(reads, DEFINITIONS)?.is_none() {
        return Ok(None);
    }
    let mut found = None;
    let sql = format!("SELECT sql FROM {DEFINITIONS} WHERE name = ?1");
    reads.rows(&sql, &[Value::text(name)], &mut |row| {
        if let Some(Value::Text(text)) = row.first() {
            found = Some(String::from_utf8_lossy(text).into_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

/// Runs a statement in a transaction of its own, or in the open one.
pub(super) fn run(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    let mut statement = parse(sql)?;
    let mut view = None;
    if let Statement::Create { graph, .. } = &mut statement {
        make_computed(connection, graph)?;
        resolve(connection, graph)?;
        view = Some(follow::view_sql(graph));
    }
    let (name, exists) = match &statement {
        Statement::Create { graph, .. } => (&graph.name, text_of(connection, &graph.name)?),
        Statement::Drop { name, .. } => (name, text_of(connection, name)?),
    };
    let exists = exists.is_some();
    let mut execute = |sql: &str, parameters: &[Value]| {
        let mut statement = connection.prepare(sql)?;
        for (at, value) in parameters.iter().enumerate() {
            statement.bind(at + 1, value.clone())?;
        }
        connection.execute(&mut statement).map(drop)
    };
    let key = Value::text(&**name);
    let drop_view = format!("DROP VIEW IF EXISTS {}", quoted(&follow::view_name(name)));
    match &statement {
        Statement::Create { or_replace, if_not_exists, .. } => {
            if exists && *if_not_exists {
                return Ok(());
            }
            if exists && !or_replace {
                return Err(at_place(&format!("graph {name} already exists"), 0));
            }
            execute("SAVEPOINT _graph", &[])?;
            let made = execute(
                &format!(
                    "CREATE TABLE IF NOT EXISTS {DEFINITIONS}\
                     (name TEXT PRIMARY KEY COLLATE NOCASE, sql TEXT NOT NULL) WITHOUT ROWID"
                ),
                &[],
            )
            .and_then(|()| {
                let text = Value::text(sql.trim());
                execute(
                    &format!("INSERT OR REPLACE INTO {DEFINITIONS} VALUES (?1, ?2)"),
                    &[key, text],
                )
            })
            .and_then(|()| execute(&drop_view, &[]))
            .and_then(|()| view.as_ref().map_or(Ok(()), |view| execute(view, &[])));
            if made.is_err() {
                execute("ROLLBACK TO _graph", &[])?;
            }
            execute("RELEASE _graph", &[])?;
            made
        }
        Statement::Drop { if_exists, .. } => match (exists, if_exists) {
            (true, _) => {
                execute(&format!("DELETE FROM {DEFINITIONS} WHERE name = ?1"), &[key])?;
                execute(&drop_view, &[])
            }
            (false, true) => Ok(()),
            (false, false) => Err(at_place(&format!("no such property graph: {name}"), 0)),
        },
    }
}
