//! SQLite through rusqlite, in four honest forms: statements prepared once, parameters bound,
//! values read as borrowed.

use std::path::Path;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Statement, params_from_iter};
use self_cell::self_cell;
use shoal_lab::engine::table::{
    Access, Cell, Fields, HandleWork, Keeping, TableSpec, each_on_a_thread,
};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};

/// The promise made to readers, and its cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every statement locks, checks for change, and unlocks.
    Autocommit,
    /// All reads of a row happen in one open read transaction.
    InTransaction,
    /// The file is locked once and for all, and mapped.
    Exclusive,
    /// The file is copied into memory first.
    Memory,
}

pub(crate) const FORMS: [Form; 4] =
    [Form::Autocommit, Form::InTransaction, Form::Exclusive, Form::Memory];

pub(crate) struct Sqlite(pub(crate) Form);

type Statements<'a> = Vec<Statement<'a>>;

self_cell! {
    /// A connection with the statements borrowing from the connection.
    pub(crate) struct Db {
        owner: Connection,
        #[not_covariant]
        dependent: Statements,
    }
}

/// A row under the statement's cursor.
pub(crate) struct Row<'a>(&'a rusqlite::Row<'a>);

impl Fields for Row<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        match self.0.get_ref(index) {
            Ok(ValueRef::Integer(value)) => Cell::Int(value),
            Ok(ValueRef::Real(value)) => Cell::Real(value),
            Ok(ValueRef::Text(bytes)) => Cell::Text(bytes),
            Ok(ValueRef::Blob(bytes)) => Cell::Blob(bytes),
            Ok(ValueRef::Null) | Err(_) => Cell::Null,
        }
    }
}

/// A value to bind.
struct Bound<'a>(Cell<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Int(value) => ValueRef::Integer(value),
            Cell::Real(value) => ValueRef::Real(value),
            Cell::Text(bytes) => ValueRef::Text(bytes),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn failed<T>(result: rusqlite::Result<T>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

fn keep(db: &mut Db, sql: &str) -> Result<usize, Miss> {
    db.with_dependent_mut(|connection, statements| {
        statements.push(failed(connection.prepare(sql))?);
        Ok(statements.len() - 1)
    })
}

#[inline]
fn run(
    statement: &mut Statement<'_>,
    parameters: &[Cell<'_>],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    for (index, parameter) in parameters.iter().enumerate() {
        failed(statement.raw_bind_parameter(index + 1, Bound(*parameter)))?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = failed(rows.next())? {
        visit(&Row(row));
    }
    Ok(())
}

/// The columns of a keyed read, as SQL.
pub(super) fn column_list(table: &TableSpec, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column]).collect::<Vec<_>>().join(", ")
}

impl Sqlite {
    fn connect(&self, path: &Path, access: Access) -> rusqlite::Result<Connection> {
        if access == Access::Write {
            let connection = Connection::open(path)?;
            // SQLite's defaults, said aloud: rollback journal, every fsync.
            connection.pragma_update(None, "journal_mode", "delete")?;
            connection.pragma_update(None, "synchronous", "full")?;
            if self.0 == Form::Exclusive {
                connection.pragma_update(None, "locking_mode", "exclusive")?;
            }
            return Ok(connection);
        }
        match self.0 {
            Form::Autocommit => Connection::open_with_flags(path, READ_ONLY),
            Form::InTransaction => {
                let connection = Connection::open_with_flags(path, READ_ONLY)?;
                connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema")?;
                Ok(connection)
            }
            Form::Exclusive => {
                let connection = Connection::open_with_flags(path, READ_ONLY)?;
                connection.pragma_update(None, "locking_mode", "exclusive")?;
                connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
                Ok(connection)
            }
            Form::Memory => {
                let mut memory = Connection::open_in_memory()?;
                let file = Connection::open_with_flags(path, READ_ONLY)?;
                rusqlite::backup::Backup::new(&file, &mut memory)?.run_to_completion(
                    10_000,
                    std::time::Duration::ZERO,
                    None,
                )?;
                Ok(memory)
            }
        }
    }
}

impl TableEngine for Sqlite {
    type Db = Db;
    type Statement = usize;
    type Reader = usize;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        let (name, note) = match self.0 {
            Form::Autocommit => {
                ("sqlite", "autocommit: shared with other processes, fresh at every statement")
            }
            Form::InTransaction => {
                ("sqlite in tx", "one open read transaction: a snapshot that others wait for")
            }
            Form::Exclusive => ("sqlite excl", "exclusive locking and mmap: no other writer"),
            Form::Memory => ("sqlite mem", "copied into memory when opened: no file, no locks"),
        };
        let guarantee = match self.0 {
            Form::Autocommit => Guarantee::Fresh,
            Form::InTransaction | Form::Exclusive | Form::Memory => Guarantee::Snapshot,
        };
        About::peer(name, rusqlite::version(), note).c_heap().promising(guarantee)
    }

    fn open(&self, path: &Path, access: Access, _scratch: &Path) -> Result<Db, Miss> {
        if access == Access::Write && matches!(self.0, Form::Memory | Form::InTransaction) {
            return Err(Miss::NotRun("a form for reading only".into()));
        }
        Ok(Db::new(failed(self.connect(path, access))?, |_| Vec::new()))
    }

    fn opens_in_place(&self) -> bool {
        self.0 != Form::Memory
    }

    fn prepare(&self, db: &mut Db, sql: &str) -> Result<usize, Miss> {
        keep(db, sql)
    }

    fn query(
        &self,
        db: &mut Db,
        statement: &mut usize,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        db.with_dependent_mut(|_, statements| run(&mut statements[*statement], parameters, visit))
    }

    fn word(&self, keeping: Keeping) -> Option<&'static str> {
        matches!(keeping, Keeping::Nothing | Keeping::Cache).then_some("")
    }

    fn run_text(
        &self,
        db: &mut Db,
        sql: &str,
        keeping: Keeping,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let connection = db.borrow_owner();
        match keeping {
            Keeping::Nothing => run(&mut failed(connection.prepare(sql))?, parameters, visit),
            Keeping::Cache => run(&mut *failed(connection.prepare_cached(sql))?, parameters, visit),
            Keeping::Direct | Keeping::Jit => Err(Miss::NotRun("a word of Shoal's".into())),
        }
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<usize, Miss> {
        let list = column_list(table, columns);
        keep(db, &format!("SELECT {list} FROM {} WHERE {} = ?1", table.name, table.columns[0]))
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut usize,
        rowid: i64,
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        self.query(db, reader, &[Cell::Int(rowid)], visit)
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        // Prepared by the first scan of a database, found again by the others.
        let sql = format!("SELECT {} FROM {}", column_list(table, columns), table.name);
        let mut visit = visit;
        db.with_dependent_mut(|connection, _| {
            let mut statement = failed(connection.prepare_cached(&sql))?;
            let mut rows = statement.raw_query();
            while let Some(row) = failed(rows.next())? {
                visit(&Row(row));
            }
            Ok(())
        })
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        self.execute(db, table.create)
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        failed(db.borrow_owner().execute_batch(sql))
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let marks = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({marks})", table.name);
        in_transaction(db, &sql, |statement| {
            for row in rows {
                statement.execute(params_from_iter(row.iter().map(|cell| Bound(*cell))))?;
            }
            Ok(())
        })
    }

    fn update(
        &self,
        db: &mut Db,
        table: &TableSpec,
        column: usize,
        rows: &[(i64, i64)],
    ) -> Result<(), Miss> {
        let (set, key) = (table.columns[column], table.columns[0]);
        let sql = format!("UPDATE {} SET {set} = ?2 WHERE {key} = ?1", table.name);
        in_transaction(db, &sql, |statement| {
            rows.iter().try_for_each(|row| statement.execute(*row).map(|_| ()))
        })
    }

    fn delete(&self, db: &mut Db, table: &TableSpec, rowids: &[i64]) -> Result<(), Miss> {
        let sql = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        in_transaction(db, &sql, |statement| {
            rowids.iter().try_for_each(|rowid| statement.execute([rowid]).map(|_| ()))
        })
    }

    fn maintains(&self) -> bool {
        true
    }

    fn on_handles(
        &self,
        path: &Path,
        threads: usize,
        work: HandleWork<'_, Db>,
    ) -> Result<(), Miss> {
        if self.0 != Form::Autocommit {
            return Err(Miss::NotRun("a form for one handle".into()));
        }
        let open = || {
            let connection = failed(Connection::open(path))?;
            failed(connection.busy_timeout(std::time::Duration::from_secs(60)))?;
            failed(connection.pragma_update(None, "synchronous", "full"))?;
            Ok(Db::new(connection, |_| Vec::new()))
        };
        each_on_a_thread(threads, open, work)
    }

    fn import(&self, csv: &Path, path: &Path, table: &str) -> Result<(), Miss> {
        if self.0 != Form::Autocommit {
            return Err(Miss::NotRun("the command has one form".into()));
        }
        let import = format!(".import --csv {} {table}", csv.display());
        let output = std::process::Command::new("sqlite3").arg(path).arg(import).output();
        match output {
            Err(_) => Err(Miss::NotRun("there is no `sqlite3` command".into())),
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(Miss::Failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}

/// Runs `work` with a prepared statement in one transaction, and commits.
fn in_transaction(
    db: &mut Db,
    sql: &str,
    work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<()>,
) -> Result<(), Miss> {
    let connection = db.borrow_owner();
    let run = || {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        work(&mut *connection.prepare_cached(sql)?)?;
        connection.execute_batch("COMMIT")
    };
    failed(run())
}

const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// More than any database of the lab.
const MAPPED_BYTES: i64 = 4 << 30;
