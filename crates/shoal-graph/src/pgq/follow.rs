//! Names that follow `ALTER TABLE`: a view beside each definition names its tables and columns, and
//! whoever renames one of them, `sqlite3` too, rewrites the view as any other.

use shoal_sql::{Error, Value};

use super::computed::Computed;
use super::definition::{Properties, Written, WrittenComputed, WrittenProperty};
use super::elements::quoted;
use super::tables::Reads;
use super::words::Words;

/// The name of a graph's view.
pub(super) fn view_name(graph: &str) -> String {
    format!("_graph_names_{graph}")
}

/// The tables of a definition, vertices first, and its columns and expressions with the numbers of
/// their tables.
struct Names<'w> {
    tables: Vec<(&'w mut String, &'w mut Option<String>)>,
    columns: Vec<(usize, &'w mut String)>,
    computed: Vec<(usize, &'w mut WrittenComputed)>,
}

fn names(written: &mut Written) -> Names<'_> {
    let known: Vec<String> =
        written.vertices.iter().map(|vertex| vertex.name().to_owned()).collect();
    let mut names = Names { tables: Vec::new(), columns: Vec::new(), computed: Vec::new() };
    let mut ends = Vec::new();
    let edges = written.edges.iter_mut().map(|(table, source, target)| {
        ends.push([source, target]);
        table
    });
    for (at, table) in written.vertices.iter_mut().chain(edges).enumerate() {
        names.tables.push((&mut table.table, &mut table.alias));
        names.columns.extend(table.key.iter_mut().map(|column| (at, column)));
        for (_, properties) in &mut table.labels {
            match properties {
                Properties::All(except) => {
                    names.columns.extend(except.iter_mut().map(|column| (at, column)));
                }
                Properties::Listed(listed) => {
                    for (made_of, _) in listed {
                        match made_of {
                            WrittenProperty::Column(column) => names.columns.push((at, column)),
                            WrittenProperty::Computed(made) => names.computed.push((at, made)),
                        }
                    }
                }
            }
        }
    }
    for (edge, both) in ends.into_iter().enumerate() {
        for end in both {
            let vertex = known.iter().position(|name| name.eq_ignore_ascii_case(&end.vertex));
            let own = known.len() + edge;
            names.columns.extend(end.key.iter_mut().map(|column| (own, column)));
            if let Some(vertex) = vertex {
                names.columns.extend(end.references.iter_mut().map(|column| (vertex, column)));
            }
        }
    }
    names
}

/// The `CREATE VIEW` statement of a definition's view.
pub(super) fn view_sql(written: &mut Written) -> String {
    let view = quoted(&view_name(&written.name));
    let names = names(written);
    let mut columns: Vec<String> =
        names.columns.iter().map(|(at, column)| format!("t{at}.{}", quoted(column))).collect();
    for (at, computed) in &names.computed {
        columns.extend(computed.made.as_ref().map(|made| made.sql(&format!("t{at}"))));
    }
    let columns = if columns.is_empty() { "1".to_owned() } else { columns.join(", ") };
    let tables = names.tables.iter().enumerate();
    let tables: Vec<String> =
        tables.map(|(at, (table, _))| format!("{} AS t{at}", quoted(table))).collect();
    format!("CREATE VIEW {view} AS SELECT {columns} FROM {}", tables.join(", "))
}

/// Gives a definition the present names of its view. A table keeps its name in the graph. A file
/// of an older Shoal has no view, and its names stay.
///
/// # Errors
/// Errors of reading the schema.
pub(super) fn follow(reads: &mut dyn Reads, written: &mut Written) -> Result<(), Error> {
    let mut sql = None;
    let select =
        "SELECT sql FROM main.sqlite_schema WHERE type = 'view' AND name = ?1 COLLATE NOCASE";
    reads.rows(select, &[Value::text(view_name(&written.name))], &mut |row| {
        if let Some(Value::Text(text)) = row.first() {
            sql = Some(String::from_utf8_lossy(text).into_owned());
        }
        Ok(())
    })?;
    let Some(Present { tables, columns, computed }) = sql.as_deref().and_then(present) else {
        return Ok(());
    };
    let names = names(written);
    let counts = (tables.len(), columns.len(), computed.len());
    if counts != (names.tables.len(), names.columns.len(), names.computed.len()) {
        return Ok(());
    }
    for ((table, alias), present) in names.tables.into_iter().zip(tables) {
        if !table.eq_ignore_ascii_case(&present) {
            alias.get_or_insert_with(|| table.clone());
            *table = present;
        }
    }
    for ((_, column), present) in names.columns.into_iter().zip(columns) {
        *column = present;
    }
    for ((_, computed), present) in names.computed.into_iter().zip(computed) {
        computed.made = Some(present);
    }
    Ok(())
}

/// The tables, columns and expressions in the text of a view.
struct Present {
    tables: Vec<String>,
    columns: Vec<String>,
    computed: Vec<Computed>,
}

/// The names of a view's text, in its order.
fn present(sql: &str) -> Option<Present> {
    let mut words = Words::new(sql, false).ok()?;
    while !words.take("SELECT") {
        if words.next().text.is_empty() {
            return None;
        }
    }
    let (mut columns, mut computed) = (Vec::new(), Vec::new());
    loop {
        let first = words.peek();
        if first.is_sign("(") {
            let expression = words.expression(&["FROM"], true).ok()?;
            let [_, inner @ .., _] = &*expression else { return None };
            computed.push(Computed::written(inner));
        } else if words.next().text.is_empty() {
            return None;
        } else if words.take_sign(".") {
            columns.push(words.next().name()?);
        } else if first.text != "1" {
            return None;
        }
        if words.take("FROM") {
            break;
        }
        words.expect_sign(",").ok()?;
    }
    let mut tables = Vec::new();
    loop {
        tables.push(words.next().name()?);
        words.expect("AS").ok()?;
        words.next().name()?;
        if !words.take_sign(",") {
            return Some(Present { tables, columns, computed });
        }
    }
}
