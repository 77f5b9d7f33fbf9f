//! `turso`, SQLite rewritten in Rust. Its interface is asynchronous and hands out owned values.

use std::path::Path;

use shoal_lab::engine::table::{Access, Cell, Fields, TableSpec};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};
use tokio::runtime::Runtime;
use turso::{Connection, Database, Statement, Value};

pub(crate) struct Turso;

/// A connection, the runtime driving the connection on this thread, and the scans prepared so far.
pub(crate) struct Db {
    scans: Vec<(String, Statement)>,
    connection: Connection,
    _database: Database,
    runtime: Runtime,
}

/// A row's values, copied: the driver offers no way to borrow them.
pub(crate) struct Row(Vec<Value>);

impl Fields for Row {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        match self.0.get(index) {
            Some(Value::Integer(value)) => Cell::Int(*value),
            Some(Value::Real(value)) => Cell::Real(*value),
            Some(Value::Text(text)) => Cell::Text(text.as_bytes()),
            Some(Value::Blob(bytes)) => Cell::Blob(bytes),
            Some(Value::Null) | None => Cell::Null,
        }
    }
}

fn failed<T>(result: turso::Result<T>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

fn value(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(value) => Value::Integer(value),
        Cell::Real(value) => Value::Real(value),
        Cell::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        Cell::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Runs a statement to its end.
fn run(
    runtime: &Runtime,
    statement: &mut Statement,
    parameters: Vec<Value>,
    mut visit: impl FnMut(&Row),
) -> Result<(), Miss> {
    runtime.block_on(async {
        let mut rows = failed(statement.query(parameters).await)?;
        let width = rows.column_count();
        let mut values = Row(Vec::with_capacity(width));
        while let Some(row) = failed(rows.next().await)? {
            values.0.clear();
            for column in 0..width {
                values.0.push(failed(row.get_value(column))?);
            }
            visit(&values);
        }
        Ok(())
    })
}

fn columns_of(table: &TableSpec, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column]).collect::<Vec<_>>().join(", ")
}

impl Db {
    fn change(&mut self, sql: &str, rows: impl Iterator<Item = Vec<Value>>) -> Result<(), Miss> {
        self.runtime.block_on(async {
            failed(self.connection.execute("BEGIN IMMEDIATE", ()).await)?;
            let mut statement = failed(self.connection.prepare_cached(sql).await)?;
            for row in rows {
                failed(statement.execute(row).await)?;
            }
            drop(statement);
            failed(self.connection.execute("COMMIT", ()).await).map(|_| ())
        })
    }
}

impl TableEngine for Turso {
    type Db = Db;
    type Statement = Statement;
    type Reader = Statement;
    type Row<'a> = Row;

    fn about(&self) -> About {
        About::peer(
            "turso",
            "0.9.0-pre.2",
            "autocommit over its own WAL; opening converts a file to WAL, so it works on a copy; \
             its rows are owned values",
        )
        .promising(Guarantee::Fresh)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        let path = if access == Access::Read {
            let name = path.file_name().unwrap_or_default();
            let copy = scratch.join(format!("turso-{}", name.to_string_lossy()));
            if !copy.exists() {
                let making = copy.with_extension("making");
                std::fs::copy(path, &making)
                    .and_then(|_| std::fs::rename(&making, &copy))
                    .map_err(Miss::failed)?;
            }
            copy
        } else {
            path.to_path_buf()
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().build().map_err(Miss::failed)?;
        let name = path.to_string_lossy().into_owned();
        let database = failed(runtime.block_on(turso::Builder::new_local(&name).build()))?;
        let connection = failed(database.connect())?;
        Ok(Db { scans: Vec::new(), connection, _database: database, runtime })
    }

    fn prepare(&self, db: &mut Db, sql: &str) -> Result<Statement, Miss> {
        // Statements that Turso cannot parse or plan count as operations not offered, not as
        // failures.
        db.runtime
            .block_on(db.connection.prepare(sql))
            .map_err(|error| Miss::NotRun(error.to_string()))
    }

    fn query(
        &self,
        db: &mut Db,
        statement: &mut Statement,
        parameters: &[Cell<'_>],
        visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        run(&db.runtime, statement, parameters.iter().copied().map(value).collect(), visit)
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<Statement, Miss> {
        let list = columns_of(table, columns);
        let sql = format!("SELECT {list} FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        self.prepare(db, &sql)
    }

    fn seek(
        &self,
        db: &mut Db,
        reader: &mut Statement,
        rowid: i64,
        visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        run(&db.runtime, reader, vec![Value::Integer(rowid)], visit)
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Row),
    ) -> Result<(), Miss> {
        let sql = format!("SELECT {} FROM {}", columns_of(table, columns), table.name);
        if !db.scans.iter().any(|(known, _)| *known == sql) {
            let statement = self.prepare(db, &sql)?;
            db.scans.push((sql.clone(), statement));
        }
        let Some((_, statement)) = db.scans.iter_mut().find(|(known, _)| *known == sql) else {
            return Err(Miss::Failed("a scan that was just prepared is gone".into()));
        };
        run(&db.runtime, statement, Vec::new(), visit)
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        self.execute(db, table.create)
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        failed(db.runtime.block_on(db.connection.execute(sql, ()))).map(|_| ())
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let marks = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({marks})", table.name);
        db.change(&sql, rows.iter().map(|row| row.iter().copied().map(value).collect()))
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
        db.change(&sql, rows.iter().map(|row| vec![Value::Integer(row.0), Value::Integer(row.1)]))
    }

    fn delete(&self, db: &mut Db, table: &TableSpec, rowids: &[i64]) -> Result<(), Miss> {
        let sql = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.columns[0]);
        db.change(&sql, rowids.iter().map(|rowid| vec![Value::Integer(*rowid)]))
    }
}
