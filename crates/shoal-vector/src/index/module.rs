//! The module `vec_index`: made beside a `vec0` table, filled from its rows.

use std::sync::Arc;

use shoal_sql::{
    Definition as Words, Error, IndexChoice, IndexRequest, Object, Schema, ShadowTable,
    TableModule, TableReads, TableWrites, Value, ValueRef, VirtualColumn, VirtualCursor,
    VirtualRow, VirtualTable, VirtualWriter,
};

use super::check;
use super::definition::{IndexDefinition, MODULE};
use super::writer::{rebuild, refresh};
use crate::definition::Definition;
use crate::shadow::{Parts, drop_shadows, quoted, rename_shadows};

/// The suffixes of the shadow tables.
const SUFFIXES: [&str; 2] = ["nodes", "meta"];

/// The columns of a node.
const LINKS: usize = 0;
const PARENT: usize = 1;
/// The hidden column of commands, called like the index.
const COMMAND: usize = 2;

/// The module of indexes.
#[derive(Debug)]
pub(crate) struct IndexModule;

/// The `vec0` table of an index, with the place among the table's indexes; `None` where the table
/// is gone, or no longer has the column.
fn base(definition: &IndexDefinition, schema: &Schema) -> Option<(Arc<Parts>, usize)> {
    let Some(Object::Virtual(known)) = schema.object(&definition.table) else { return None };
    if !known.module().eq_ignore_ascii_case("vec0") {
        return None;
    }
    let table = Definition::parse(known.name(), known.arguments()).ok()?;
    let parts = Parts::open(table, schema).ok()?;
    let is_own = |name: &str| name.eq_ignore_ascii_case(&definition.name);
    let place = parts.indexes.iter().position(|index| is_own(&index.definition.name))?;
    Some((Arc::new(parts), place))
}

impl TableModule for IndexModule {
    fn name(&self) -> &str {
        MODULE
    }

    fn create(&self, words: &Words<'_>, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let definition = IndexDefinition::parse(words.name, words.arguments)?;
        let table = |suffix: &str| quoted(&format!("{}_{suffix}", words.name));
        writes.execute(
            &format!(
                "CREATE TABLE {} (id INTEGER PRIMARY KEY, node BLOB NOT NULL)",
                table("nodes")
            ),
            &[],
        )?;
        writes.execute(
            &format!(
                "CREATE TABLE {} (id INTEGER PRIMARY KEY, version INTEGER, shape TEXT, \
                 root INTEGER, nodes INTEGER, digest INTEGER, generation INTEGER)",
                table("meta")
            ),
            &[],
        )?;
        let found = {
            let reads = writes.reads();
            let schema = reads.schema();
            match schema.object(&definition.table) {
                Some(Object::Virtual(known)) if known.module().eq_ignore_ascii_case("vec0") => {
                    let table = Definition::parse(known.name(), known.arguments())?;
                    let parts = Parts::open(table, schema)?;
                    parts.refuse_utf16(&reads)?;
                    // The refusal of a column has its reason.
                    super::definition::Index::open(definition.clone(), &parts.definition, schema)?;
                    base(&definition, schema)
                }
                _ => None,
            }
        };
        let Some((parts, place)) = found else {
            let why = format!("vec_index: there is no vec0 table {}", definition.table);
            return Err(Error::of_function(why));
        };
        rebuild(&parts, place, writes)
    }

    fn connect(&self, words: &Words<'_>, schema: &Schema) -> Result<Arc<dyn VirtualTable>, Error> {
        let definition = IndexDefinition::parse(words.name, words.arguments)?;
        let nodes = ShadowTable::of(schema, &format!("{}_nodes", definition.name))?;
        let mut columns = vec![
            VirtualColumn::new("links", "INTEGER"),
            VirtualColumn::new("parent", "INTEGER"),
            VirtualColumn::hidden(&definition.name),
        ];
        columns[COMMAND].declared_type.clear();
        let base = base(&definition, schema);
        Ok(Arc::new(IndexTable { definition, nodes, base, columns }))
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        SUFFIXES.iter().any(|known| known.eq_ignore_ascii_case(suffix))
    }
}

/// An index as a table: a row for each node, and a column of commands.
#[derive(Debug)]
struct IndexTable {
    definition: IndexDefinition,
    nodes: ShadowTable,
    base: Option<(Arc<Parts>, usize)>,
    columns: Vec<VirtualColumn>,
}

impl VirtualTable for IndexTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, _request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        Ok(Some(IndexChoice { cost: 1_000_000.0, rows: 100_000.0, ..IndexChoice::default() }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        let nodes = self.nodes.clone();
        Ok(Box::new(NodeCursor { nodes, last: None, links: 0, parent: Value::Null }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        let Some((parts, place)) = &self.base else {
            let IndexDefinition { name, table, column, .. } = &self.definition;
            let why =
                format!("vec_index {name}: there is no column {column} of a vec0 table {table}");
            return Err(Error::of_function(why));
        };
        Ok(Box::new(CommandWriter { parts: Arc::clone(parts), place: *place }))
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        rename_shadows((&self.definition.name, new_name), SUFFIXES, writes)
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        drop_shadows(&self.definition.name, SUFFIXES, writes)
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        match &self.base {
            Some((parts, place)) => check::faults(parts, *place, reads),
            None => Ok(Vec::new()),
        }
    }
}

/// A cursor over the nodes of an index.
#[derive(Debug)]
struct NodeCursor {
    nodes: ShadowTable,
    last: Option<i64>,
    links: i64,
    parent: Value,
}

impl VirtualCursor for NodeCursor {
    fn filter(
        &mut self,
        _choice: &IndexChoice,
        _arguments: &[Value],
        _reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        self.last = None;
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        let mut rows = reads.rows(&self.nodes)?;
        let found = match self.last {
            None => rows.first()?,
            Some(i64::MAX) => false,
            Some(last) => rows.seek(last + 1)? || rows.is_valid(),
        };
        if !found {
            return Ok(false);
        }
        reads.check()?;
        let rowid = rows.rowid()?;
        let bytes = match rows.column(1)? {
            ValueRef::Blob(bytes) => bytes,
            _ => &[],
        };
        let (links, parent) =
            (bytes.first_chunk(), bytes.get(16..).and_then(|it| it.first_chunk()));
        let (Some(links), Some(parent)) = (links, parent) else {
            let (table, why) = (self.nodes.name().to_owned(), format!("node {rowid} is too short"));
            return Err(Error::CorruptVirtual { table, why });
        };
        self.links = i64::from(u16::from_le_bytes(*links));
        self.parent = match i64::from_le_bytes(*parent) {
            own if own == rowid => Value::Null,
            parent => Value::Int(parent),
        };
        self.last = Some(rowid);
        Ok(true)
    }

    fn rowid(&self) -> i64 {
        self.last.unwrap_or(0)
    }

    fn column(
        &mut self,
        column: usize,
        _reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        *out = match column {
            LINKS => Value::Int(self.links),
            PARENT => self.parent.clone(),
            _ => Value::Null,
        };
        Ok(())
    }
}

/// Runs commands.
#[derive(Debug)]
struct CommandWriter {
    parts: Arc<Parts>,
    place: usize,
}

fn refused() -> Error {
    Error::of_function(
        "the rows of a vec_index are kept by its vec0 table: its commands are 'rebuild' and \
         'refresh', inserted into the column of the index's own name",
    )
}

impl VirtualWriter for CommandWriter {
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        let Some(Value::Text(command)) = row.values.get(COMMAND) else { return Err(refused()) };
        match command.as_slice() {
            b"rebuild" => rebuild(&self.parts, self.place, writes)?,
            b"refresh" => refresh(&self.parts, self.place, writes)?,
            _ => return Err(refused()),
        }
        Ok(0)
    }

    fn update(
        &mut self,
        _rowid: i64,
        _row: &VirtualRow<'_>,
        _writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        Err(refused())
    }

    fn delete(&mut self, _rowid: i64, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Err(refused())
    }
}
