//! `shoal-sql`: prepared statements over a file, with and without an open transaction.

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Error, Statement, ValueRef};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access as StoreAccess, Locking, Mode, Options, Store};

use crate::engine::table::{
    Access, Cell, Fields, HandleWork, Keeping, TableSpec, each_on_a_thread,
};
use crate::engine::{About, Guarantee, Miss, TableEngine};

/// The promise made to readers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Every statement locks, checks for change, and unlocks.
    Autocommit,
    /// All reads of a row happen in one open read transaction.
    InTransaction,
    /// The lock is taken when the file is opened, and kept: nobody else can write.
    Exclusive,
}

/// Shoal's SQL.
pub(super) struct Tables(pub(super) Form);

/// A row of a result.
pub(super) struct Row<'a>(shoal_sql::Row<'a>);

impl Fields for Row<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        cell(self.0.get(index))
    }
}

/// An open database with the scans prepared so far.
pub(super) struct Db {
    connection: Connection,
    scans: Vec<(String, Statement)>,
}

#[inline]
pub(super) fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Int(value) => Cell::Int(value),
        ValueRef::Real(value) => Cell::Real(value),
        ValueRef::Text(bytes) => Cell::Text(bytes),
        ValueRef::Blob(bytes) => Cell::Blob(bytes),
    }
}

pub(super) const fn value(cell: Cell<'_>) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Int(value) => ValueRef::Int(value),
        Cell::Real(value) => ValueRef::Real(value),
        Cell::Text(bytes) => ValueRef::Text(bytes),
        Cell::Blob(bytes) => ValueRef::Blob(bytes),
    }
}

/// A feature refused as unsupported is still to come: not run, rather than failed.
pub(super) fn failed<T>(result: Result<T, Error>) -> Result<T, Miss> {
    result.map_err(|error| match error {
        Error::Unsupported { what, .. } => Miss::NotRun(format!("not built: {what}")),
        other => Miss::failed(other),
    })
}

pub(super) fn store(path: &Path, access: Access, form: Form) -> Result<Store, Miss> {
    let access = match access {
        Access::Read => StoreAccess::ReadOnly,
        Access::Write => StoreAccess::Create,
    };
    let locking = match form {
        Form::Exclusive => Locking::Exclusive,
        Form::Autocommit | Form::InTransaction => Locking::Shared,
    };
    let options = Options { locking, ..Options::new(access) };
    Store::open_with(Arc::new(OsVfs::new()), path, options).map_err(Miss::failed)
}

fn column_list(table: &TableSpec, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column]).collect::<Vec<_>>().join(", ")
}

fn run(
    connection: &mut Connection,
    statement: &mut Statement,
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    let mut rows = failed(connection.query(statement))?;
    while let Some(row) = failed(rows.next())? {
        visit(&Row(row));
    }
    Ok(())
}

impl Db {
    /// A database of this store.
    pub(super) fn over(store: Store) -> Result<Db, Miss> {
        Ok(Db { connection: failed(Connection::open(store))?, scans: Vec::new() })
    }

    /// Runs a prepared statement once for each row of parameters, in one transaction.
    fn change<'a>(
        &mut self,
        sql: &str,
        rows: impl Iterator<Item = Vec<Cell<'a>>>,
    ) -> Result<(), Miss> {
        failed(self.connection.begin(Mode::Write))?;
        let mut statement = failed(self.connection.prepare(sql))?;
        for row in rows {
            for (index, parameter) in row.into_iter().enumerate() {
                failed(statement.bind(index + 1, value(parameter)))?;
            }
            failed(self.connection.execute(&mut statement))?;
        }
        failed(self.connection.commit())
    }
}

impl TableEngine for Tables {
    type Db = Db;
    type Statement = Statement;
    type Reader = Statement;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        match self.0 {
            Form::Autocommit => About::ours(
                "shoal",
                "SQL, autocommit: shared with other processes, fresh at every statement",
            )
            .promising(Guarantee::Fresh),
            Form::InTransaction => About::ours(
                "shoal in tx",
                "SQL in one open read transaction: a snapshot that others wait for",
            )
            .promising(Guarantee::Snapshot),
            Form::Exclusive => About::ours(
                "shoal excl",
                "SQL, autocommit, exclusive: the lock is kept and the file mapped, no other writer",
            )
            .promising(Guarantee::Snapshot),
        }
    }

    fn open(&self, path: &Path, access: Access, _scratch: &Path) -> Result<Db, Miss> {
        if access == Access::Write && self.0 == Form::InTransaction {
            return Err(Miss::NotRun("a form for reading only".into()));
        }
        let mut connection = failed(Connection::open(store(path, access, self.0)?))?;
        failed(shoal::register_modules(&mut connection))?;
        if self.0 == Form::InTransaction {
            failed(connection.begin(Mode::Read))?;
        }
        Ok(Db { connection, scans: Vec::new() })
    }

    fn prepare(&self, db: &mut Db, sql: &str) -> Result<Statement, Miss> {
        failed(db.connection.prepare(sql))
    }

    fn query(
        &self,
        db: &mut Db,
        statement: &mut Statement,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        for (index, parameter) in parameters.iter().enumerate() {
            failed(statement.bind(index + 1, value(*parameter)))?;
        }
        run(&mut db.connection, statement, visit)
    }

    fn word(&self, keeping: Keeping) -> Option<&'static str> {
        Some(match keeping {
            Keeping::Nothing => "",
            Keeping::Direct => "DIRECT ",
            Keeping::Cache => "CACHED ",
            Keeping::Jit => "JIT ",
        })
    }

    fn run_text(
        &self,
        db: &mut Db,
        sql: &str,
        _keeping: Keeping,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let mut statement = self.prepare(db, sql)?;
        self.query(db, &mut statement, parameters, visit)
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<Statement, Miss> {
        let list = column_list(table, columns);
        let sql = format!("SELECT {list} FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        self.prepare(db, &sql)
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut Statement,
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
        let sql = format!("SELECT {} FROM {}", column_list(table, columns), table.name);
        if !db.scans.iter().any(|(known, _)| *known == sql) {
            let statement = self.prepare(db, &sql)?;
            db.scans.push((sql.clone(), statement));
        }
        let Db { connection, scans } = db;
        let Some((_, statement)) = scans.iter_mut().find(|(known, _)| *known == sql) else {
            return Err(Miss::Failed("a scan that was just prepared is gone".into()));
        };
        run(connection, statement, visit)
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        self.execute(db, table.create)
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        let mut statement = failed(db.connection.prepare(sql))?;
        failed(db.connection.execute(&mut statement)).map(|_| ())
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let marks = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({marks})", table.name);
        db.change(&sql, rows.iter().cloned())
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
        db.change(&sql, rows.iter().map(|row| vec![Cell::Int(row.0), Cell::Int(row.1)]))
    }

    fn delete(&self, db: &mut Db, table: &TableSpec, rowids: &[i64]) -> Result<(), Miss> {
        let sql = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        db.change(&sql, rowids.iter().map(|rowid| vec![Cell::Int(*rowid)]))
    }

    fn maintains(&self) -> bool {
        true
    }

    fn has_vectors(&self) -> bool {
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
        let options = Options {
            busy_timeout: std::time::Duration::from_secs(60),
            ..Options::new(StoreAccess::ReadWrite)
        };
        let store =
            Store::open_with(Arc::new(OsVfs::new()), path, options).map_err(Miss::failed)?;
        let open = || {
            let connection = failed(Connection::open(store.clone()))?;
            Ok(Db { connection, scans: Vec::new() })
        };
        each_on_a_thread(threads, open, work)
    }

    fn import(&self, csv: &Path, path: &Path, table: &str) -> Result<(), Miss> {
        if self.0 != Form::Autocommit {
            return Err(Miss::NotRun("the command has one form".into()));
        }
        let this = std::env::current_exe().map_err(Miss::failed)?;
        let named = std::env::var_os("SHOAL_COMMAND").map(std::path::PathBuf::from);
        let beside = || Some(this.with_file_name("shoal")).filter(|path| path.exists());
        let Some(program) = named.or_else(beside) else {
            let why = "no `shoal` command beside the lab, and none named by SHOAL_COMMAND";
            return Err(Miss::NotRun(why.into()));
        };
        let output = std::process::Command::new(program)
            .arg("import")
            .args([csv, path])
            .arg(table)
            .output()
            .map_err(Miss::failed)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Miss::Failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}
