//! Virtual tables: made, dropped and renamed, and rows passed to their writers.

use std::sync::Arc;

use shoal_store::Pgno;

use super::create_table::is_free;
use super::insert::Inserted;
use super::references::Outstanding;
use super::row::Row;
use super::schema_rows::{SchemaRow, delete_where, is_name};
use super::triggers::Within;
use super::{Context, Done, Failure, Kind, Running, Scratch, execute, prepare as prepare_write};
use crate::Error;
use crate::parse::ast::{
    Conflict, CreateVirtualTable, ExprKind, Insert, InsertSource, SelectCore, Stmt,
};
use crate::parse::parse;
use crate::schema::{
    Connected, Definition, MAIN, Object, Parts, Schema, TEMP, TableModule, TableWrites,
    VirtualDefinition, VirtualRow, VirtualWriter, VirtualWriters, transaction_of,
};
use crate::value::Value;

/// A prepared `CREATE VIRTUAL TABLE`.
#[derive(Debug)]
pub(crate) struct CreateVirtualPlan {
    module: Arc<dyn TableModule>,
    name: String,
    module_name: String,
    arguments: Vec<String>,
    /// The row of the schema.
    sql: String,
}

/// Prepares a `CREATE VIRTUAL TABLE`.
///
/// # Errors
/// A taken name; `no such module`.
pub(crate) fn prepare_create(
    within: &Within<'_>,
    create: &CreateVirtualTable,
) -> Result<Kind, Error> {
    if !is_free(within.own, &create.name, create.if_not_exists)? {
        return Ok(Kind::Nothing);
    }
    let (name, module) = (&create.name.name.text, &create.module);
    let found = within.schema.table_module(&module.text, Some(module.offset))?;
    Ok(Kind::CreateVirtual(Box::new(CreateVirtualPlan {
        module: Arc::clone(found),
        name: name.clone(),
        module_name: module.text.clone(),
        arguments: create.arguments.clone(),
        sql: format!("CREATE VIRTUAL TABLE {}", create.text),
    })))
}

impl CreateVirtualPlan {
    /// Adds the table to the schema, and has the module make what is below it.
    ///
    /// # Errors
    /// Errors of the module and of the store.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let row = SchemaRow {
            kind: "table",
            name: &self.name,
            table: &self.name,
            root: None,
            sql: Some(&self.sql),
        };
        row.insert(context.transaction)?;
        context.transaction.bump_schema_cookie()?;
        let definition = Definition {
            name: &self.name,
            database: context.schema.database_name(context.home),
            module: &self.module_name,
            arguments: &self.arguments,
        };
        let mut writes = context.table_writes();
        self.module.create(&definition, &mut writes)?;
        // A table is made only if its module can open the table.
        let schema = context.own_schema().reread(context.transaction)?;
        self.module.connect(&definition, &schema)?;
        Ok(Done::default())
    }
}

/// Rows of `sqlite_schema` for virtual tables whose shadow tables are made by statements of their
/// own: how a dump declares a virtual table.
#[derive(Debug)]
pub(crate) struct DeclareVirtualPlan(Vec<Declared>);

#[derive(Debug)]
struct Declared {
    name: String,
    sql: String,
}

/// True for an `INSERT INTO sqlite_schema` after `PRAGMA writable_schema = on`.
pub(crate) fn declares(within: &Within<'_>, insert: &Insert) -> bool {
    let name = &insert.table.name;
    within.schema.flags().writable_schema && (name.is("sqlite_schema") || name.is("sqlite_master"))
}

/// Prepares an `INSERT INTO sqlite_schema`.
///
/// # Errors
/// Rows of anything but a virtual table of their name; a taken name.
pub(crate) fn prepare_declared(within: &Within<'_>, insert: &Insert) -> Result<Kind, Error> {
    const COLUMNS: [&str; 5] = ["type", "name", "tbl_name", "rootpage", "sql"];
    let offset = insert.table.name.offset;
    let refused = || {
        let what = "writing to sqlite_schema anything but the row of a virtual table";
        Error::unsupported(what, offset)
    };
    let InsertSource::Select(select) = &insert.source else { return Err(refused()) };
    let SelectCore::Values(values) = &select.first else { return Err(refused()) };
    let is_plain = insert.with.is_none() && insert.upserts.is_empty();
    if !is_plain || insert.returning.is_some() || !select.compounds.is_empty() {
        return Err(refused());
    }
    let mut declared: Vec<Declared> = Vec::new();
    for row in &values.rows {
        let value = |column: &str| {
            let place = match &insert.columns {
                Some(names) => names.iter().position(|name| name.is(column)),
                None => COLUMNS.iter().position(|known| *known == column),
            };
            match row.get(place?).map(|value| &value.kind) {
                Some(ExprKind::Literal(value)) => Some(value.clone()),
                _ => None,
            }
        };
        let text = |column: &str| match value(column) {
            Some(Value::Text(text)) => String::from_utf8(text).ok(),
            _ => None,
        };
        let is_table = text("type").as_deref() == Some("table");
        let has_no_root = matches!(value("rootpage"), Some(Value::Int(0) | Value::Null));
        let (Some(name), Some(sql), true, true) =
            (text("name"), text("sql"), is_table, has_no_root)
        else {
            return Err(refused());
        };
        let parsed = parse(&sql).map_err(|error| error.at(offset))?;
        match &parsed.stmt {
            Stmt::CreateVirtualTable(create)
                if create.name.name.is(&name) && text("tbl_name").as_ref() == Some(&name) =>
            {
                is_free(within.own, &create.name, false).map_err(|error| error.at(offset))?;
            }
            _ => return Err(refused()),
        }
        if declared.iter().any(|before| before.name.eq_ignore_ascii_case(&name)) {
            return Err(Error::meaning(format!("table {name} already exists"), offset));
        }
        declared.push(Declared { name, sql });
    }
    Ok(Kind::DeclareVirtual(DeclareVirtualPlan(declared)))
}

impl DeclareVirtualPlan {
    /// Adds the rows to the schema. No module is asked: the tables' parts may come later.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        for Declared { name, sql } in &self.0 {
            SchemaRow { kind: "table", name, table: name, root: None, sql: Some(sql) }
                .insert(context.transaction)?;
        }
        context.transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

/// A prepared `DROP TABLE` or `ALTER TABLE ... RENAME TO` of a virtual table.
#[derive(Debug)]
pub(crate) struct ChangeVirtualPlan {
    table: Arc<Connected>,
    /// The new name; `None` for a table to be dropped.
    new_name: Option<String>,
}

/// Prepares to drop or rename a virtual table.
///
/// # Errors
/// `no such module`; refusals of the module.
pub(crate) fn prepare_change(
    (schema, home): (&Schema, usize),
    definition: &VirtualDefinition,
    new_name: Option<&str>,
) -> Result<Kind, Error> {
    let table = Arc::clone(definition.connect(schema, home)?);
    let new_name = new_name.map(str::to_owned);
    Ok(Kind::ChangeVirtual(ChangeVirtualPlan { table, new_name }))
}

impl ChangeVirtualPlan {
    /// Has the module change the shadow tables, and changes the schema.
    ///
    /// # Errors
    /// The module's; the store's.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let name = &self.table.table.name;
        if let Some(new_name) = &self.new_name {
            self.table.instance.rename(new_name, &mut context.table_writes())?;
            super::alter::rename_virtual(context, &self.table.table, new_name)?;
            return Ok(Done::default());
        }
        self.table.instance.destroy(&mut context.table_writes())?;
        delete_where(context.transaction, Pgno::FIRST, |row| {
            // A trigger of `temp` may be on another database's table of the same name.
            let is_trigger = context.home != TEMP && is_name(row.first(), "trigger");
            is_name(row.get(2), name) && (is_name(row.first(), "table") || is_trigger)
        })?;
        context.transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

/// A virtual table whose rows a statement changes.
#[derive(Clone, Debug)]
pub(crate) struct VirtualTarget {
    pub(crate) table: Arc<Connected>,
    /// For each column whether the statement names it.
    pub(crate) named: Vec<bool>,
    /// The statement's `OR` clause.
    pub(crate) conflict: Option<Conflict>,
}

impl VirtualTarget {
    /// True where a row's insertion leaves the file as it was when it fails.
    pub(crate) fn inserts_whole(&self) -> bool {
        self.conflict != Some(Conflict::Replace) && self.table.instance.inserts_whole(&self.named)
    }

    /// Inserts a row with the statement's rowid.
    ///
    /// # Errors
    /// The module's.
    pub(crate) fn insert(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        rowid: Option<&Value>,
    ) -> Result<Inserted, Failure> {
        let conflict = self.conflict.map(Into::into);
        let (values, named) = (row.values.as_slice(), self.named.as_slice());
        let given = VirtualRow { rowid, values, named, conflict };
        let done = context.with_writer(&self.table, |writer, writes| writer.insert(&given, writes));
        match self.obeyed(done)? {
            Some(rowid) => {
                row.rowid = rowid;
                Ok(Inserted::Row(rowid))
            }
            None => Ok(Inserted::Nothing),
        }
    }

    /// Changes a row; false where the row was left alone.
    ///
    /// # Errors
    /// The module's.
    pub(crate) fn update(
        &self,
        context: &mut Context<'_>,
        rowid: i64,
        new: &Row,
    ) -> Result<bool, Failure> {
        let conflict = self.conflict.map(Into::into);
        let new_rowid = Value::Int(new.rowid);
        let given = VirtualRow {
            rowid: Some(&new_rowid),
            values: &new.values,
            named: &self.named,
            conflict,
        };
        let done =
            context.with_writer(&self.table, |writer, writes| writer.update(rowid, &given, writes));
        Ok(self.obeyed(done)?.is_some())
    }

    /// Deletes a row; false where the row was left alone.
    ///
    /// # Errors
    /// The module's.
    pub(crate) fn delete(&self, context: &mut Context<'_>, rowid: i64) -> Result<bool, Failure> {
        let done = context.with_writer(&self.table, |writer, writes| writer.delete(rowid, writes));
        Ok(self.obeyed(done)?.is_some())
    }

    /// The fate of a refused row by the statement's conflict clause; `None` leaves the row out.
    fn obeyed<T>(&self, done: Result<T, Error>) -> Result<Option<T>, Failure> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Error::Constraint { .. }) if self.conflict == Some(Conflict::Ignore) => Ok(None),
            Err(error @ Error::Constraint { .. }) => {
                let mut failure = Failure::from(error);
                if let Some(conflict @ (Conflict::Fail | Conflict::Rollback)) = self.conflict {
                    failure.resolution = conflict;
                }
                Err(failure)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Context<'_> {
    /// The writing end of virtual tables.
    pub(crate) fn table_writes(&mut self) -> TableWrites<'_> {
        let main = transaction_of(self.others, MAIN).or(self.main);
        let (read, home) = ((main, self.attached), (self.schema, self.home));
        TableWrites::new(self.transaction, home, read, self.session)
    }

    /// Does some work with a table's writer.
    fn with_writer<T>(
        &mut self,
        table: &Arc<Connected>,
        work: impl FnOnce(&mut dyn VirtualWriter, &mut TableWrites<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut writers = std::mem::take(&mut self.state.writers);
        let done = writers.of(table).and_then(|writer| work(writer, &mut self.table_writes()));
        self.state.writers = writers;
        done
    }

    /// Does some work with all writers of the database.
    pub(crate) fn with_writers<T: Default>(
        &mut self,
        work: impl FnOnce(
            &mut VirtualWriters,
            &Parts<'_>,
            &mut shoal_store::Transaction,
        ) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.state.writers.is_empty() {
            return Ok(T::default());
        }
        let mut writers = std::mem::take(&mut self.state.writers);
        let parts = Parts {
            schema: self.schema,
            home: self.home,
            main: transaction_of(self.others, MAIN).or(self.main),
            attached: self.attached,
            session: self.session,
        };
        let done = work(&mut writers, &parts, self.transaction);
        self.state.writers = writers;
        done
    }

    /// Flushes all writers of the databases written to.
    ///
    /// # Errors
    /// Theirs.
    pub(crate) fn flush_writers(&mut self) -> Result<(), Error> {
        match self.state.writers.is_empty() {
            true => Ok(()),
            false => self.in_each(|context| context.with_writers(VirtualWriters::flush)),
        }
    }
}

impl TableWrites<'_> {
    /// Runs a statement on tables of the database, shadow tables among them: `CREATE TABLE`,
    /// `DROP TABLE`, `ALTER TABLE`, `INSERT`, `UPDATE` or `DELETE`. Names are those of the database
    /// alone, written without its name. Gives how many rows changed. For what happens seldom: the
    /// schema is read again and the statement planned at each call.
    ///
    /// # Errors
    /// Errors of preparing and of running the statement.
    pub fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, Error> {
        let parsed = parse(sql)?;
        let schema = match &self.changed {
            Some(schema) => Arc::clone(schema),
            None => {
                let own = self.schema.of_database(self.home).unwrap_or(self.schema);
                Arc::new(own.reread(self.transaction)?.for_nested_writes())
            }
        };
        let plan = prepare_write(&schema, &parsed, sql, None)?;
        let (mut outstanding, mut scratch) = (Outstanding::default(), Scratch::default());
        let mut writers = VirtualWriters::default();
        let running = Running {
            home: MAIN,
            main: None,
            transaction: self.transaction,
            others: &mut [],
            attached: &[],
            schema: &schema,
            session: self.session,
            parameters,
            outstanding: &mut outstanding,
            scratch: &mut scratch,
            keeper: None,
            writers: &mut writers,
            flushes: true,
        };
        let done = execute(&plan, running).map_err(|failure| failure.error)?;
        let is_row_change =
            matches!(parsed.stmt, Stmt::Insert(_) | Stmt::Update(_) | Stmt::Delete(_));
        self.changed = Some(match is_row_change {
            true => schema,
            false => Arc::new(schema.reread(self.transaction)?.for_nested_writes()),
        });
        Ok(done.0.changes)
    }
}

/// Finds the virtual table written to by a statement.
///
/// # Errors
/// `no such module`; refusals of the module.
pub(crate) fn find<'s>(
    within: &Within<'s>,
    name: &str,
) -> Result<Option<&'s Arc<Connected>>, Error> {
    match within.own.object(name) {
        Some(Object::Virtual(known)) => known.connect(within.schema, within.home).map(Some),
        _ => Ok(None),
    }
}
