//! What is asked of a schema: columns, keys and foreign keys of tables.

use shoal_sql::{Connection, Error, ModuleContext, Value, VisibleKeys};

/// Whoever runs queries: a connection, or the statement of a table-valued function.
pub(crate) trait Reads {
    /// Calls `each` with every row of a query.
    ///
    /// # Errors
    /// The query's, and those of `each`.
    fn rows(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// The keys of a table under rules; `None` for any other table.
    ///
    /// # Errors
    /// Those of reading the schema.
    fn visible_keys(&mut self, table: &str) -> Result<Option<VisibleKeys>, Error>;
}

impl Reads for Connection {
    fn rows(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut statement = self.prepare(sql)?;
        for (at, value) in parameters.iter().enumerate() {
            statement.bind(at + 1, value.clone())?;
        }
        let width = statement.column_count();
        let mut rows = self.query(&mut statement)?;
        let mut values = Vec::new();
        while let Some(row) = rows.next()? {
            values.clear();
            values.extend((0..width).map(|column| Value::from(row.get(column))));
            each(&values)?;
        }
        Ok(())
    }

    fn visible_keys(&mut self, table: &str) -> Result<Option<VisibleKeys>, Error> {
        Ok(self.schema()?.visible_keys(table))
    }
}

impl Reads for ModuleContext<'_> {
    fn rows(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.query(sql, parameters, each)
    }

    fn visible_keys(&mut self, table: &str) -> Result<Option<VisibleKeys>, Error> {
        Ok(self.schema().and_then(|schema| schema.visible_keys(table)))
    }
}

/// A table as a graph sees it.
#[derive(Clone, Debug)]
pub(crate) struct TableFacts {
    pub(crate) columns: Vec<String>,
    /// Columns of the primary key, in its order; empty where there is none.
    primary_key: Vec<String>,
    /// The name of the rowid; `None` in a table without one.
    pub(crate) rowid: Option<String>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    /// Columns that an index begins with, or that are the rowid.
    pub(crate) indexed: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
    /// Empty where the parent's primary key is meant.
    pub(crate) references: Vec<String>,
}

impl TableFacts {
    /// A table whose integer primary key is `id`.
    pub(crate) fn with_id(columns: &[&str]) -> TableFacts {
        TableFacts {
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            primary_key: vec!["id".to_owned()],
            rowid: Some("id".to_owned()),
            foreign_keys: Vec::new(),
            indexed: Vec::new(),
        }
    }

    /// True of columns whose values no two rows share: the rowid, or the primary key.
    pub(crate) fn is_unique(&self, columns: &[String]) -> bool {
        let is_rowid = matches!((columns, &self.rowid), ([one], Some(rowid)) if one == rowid);
        is_rowid
            || !self.primary_key.is_empty()
                && self.primary_key.iter().all(|column| columns.contains(column))
    }

    /// The columns that make a row known where nothing else is said.
    pub(crate) fn key(&self) -> Vec<String> {
        match self.primary_key.is_empty() {
            true => self.rowid.iter().cloned().collect(),
            false => self.primary_key.clone(),
        }
    }
}

/// Names of columns, compared as SQL does.
pub(crate) trait ColumnNames {
    fn find_name(&self, name: &str) -> Option<&String>;
}

impl ColumnNames for [String] {
    fn find_name(&self, name: &str) -> Option<&String> {
        self.iter().find(|column| column.eq_ignore_ascii_case(name))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// What a graph asks of a table; `None` where there is none of the name, or a view.
///
/// # Errors
/// Those of reading the schema.
pub(crate) fn table_facts(reads: &mut dyn Reads, table: &str) -> Result<Option<TableFacts>, Error> {
    if let Some(keys) = reads.visible_keys(table)? {
        return visible_facts(reads, table, keys).map(Some);
    }
    let name = [Value::text(table)];
    let mut found = None;
    reads.rows(
        "SELECT wr FROM pragma_table_list WHERE name = ?1 COLLATE NOCASE AND type = 'table'",
        &name,
        &mut |row| {
            found = Some(row.first() == Some(&Value::Int(1)));
            Ok(())
        },
    )?;
    let Some(is_without_rowid) = found else { return Ok(None) };
    let (mut columns, mut keyed, mut integer) = (Vec::new(), Vec::new(), false);
    reads.rows("SELECT name, type, pk FROM pragma_table_xinfo(?1)", &name, &mut |row| {
        let [column, declared, Value::Int(place)] = row else { return Ok(()) };
        columns.push(text(column));
        if *place > 0 {
            keyed.push((*place, text(column)));
            integer = text(declared).eq_ignore_ascii_case("INTEGER");
        }
        Ok(())
    })?;
    keyed.sort();
    let primary_key: Vec<String> = keyed.into_iter().map(|(_, column)| column).collect();
    let rowid = match is_without_rowid {
        true => None,
        false if primary_key.len() == 1 && integer => primary_key.first().cloned(),
        false => {
            let free = |name: &&str| columns.find_name(name).is_none();
            ["rowid", "_rowid_", "oid"].iter().find(|name| free(name)).map(|&name| name.to_owned())
        }
    };
    let mut foreign_keys: Vec<(i64, ForeignKey)> = Vec::new();
    let sql =
        "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id, seq";
    reads.rows(sql, &name, &mut |row| {
        let [Value::Int(id), parent, from, to] = row else { return Ok(()) };
        if foreign_keys.last().is_none_or(|(last, _)| last != id) {
            let key =
                ForeignKey { table: text(parent), columns: Vec::new(), references: Vec::new() };
            foreign_keys.push((*id, key));
        }
        if let Some((_, key)) = foreign_keys.last_mut() {
            key.columns.push(text(from));
            key.references.extend((*to != Value::Null).then(|| text(to)));
        }
        Ok(())
    })?;
    let foreign_keys = foreign_keys.into_iter().map(|(_, key)| key).collect();
    let mut indexed: Vec<String> = rowid.iter().cloned().collect();
    let sql = "SELECT it.name FROM pragma_index_list(?1) AS list, pragma_index_info(list.name) AS it \
               WHERE it.seqno = 0 AND list.partial = 0 AND it.name IS NOT NULL";
    reads.rows(sql, &name, &mut |row| {
        indexed.extend(row.first().map(text));
        Ok(())
    })?;
    Ok(Some(TableFacts { columns, primary_key, rowid, foreign_keys, indexed }))
}

/// What a graph asks of a table under rules: hidden columns and keys over them are none.
///
/// # Errors
/// A table with neither its rowid nor its primary key in sight, whose rows nothing tells apart.
fn visible_facts(
    reads: &mut dyn Reads,
    table: &str,
    keys: VisibleKeys,
) -> Result<TableFacts, Error> {
    let VisibleKeys { rowid, primary_key, indexed, foreign_keys } = keys;
    if rowid.is_none() && primary_key.is_empty() {
        let message =
            format!("the rules show neither the rowid nor the primary key of {table} to a graph");
        return Err(Error::Meaning { message, offset: None });
    }
    let mut columns = Vec::new();
    let sql = "SELECT name FROM pragma_table_xinfo(?1)";
    reads.rows(sql, &[Value::text(table)], &mut |row| {
        columns.extend(row.first().map(text));
        Ok(())
    })?;
    let foreign_keys = foreign_keys.into_iter().map(|key| ForeignKey {
        table: key.parent,
        columns: key.columns,
        references: key.references,
    });
    let foreign_keys = foreign_keys.collect();
    let indexed = rowid.iter().cloned().chain(indexed).collect();
    Ok(TableFacts { columns, primary_key, rowid, foreign_keys, indexed })
}
