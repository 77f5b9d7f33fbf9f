//! The places for saved rows: SQL as text, or a new database.

use std::collections::HashMap;
use std::io::Write;

use shoal_sql::{Connection, Statement, Value};
use shoal_store::{FileHeader, Mode, SalvagedRow, TextEncoding};

use super::plan::Shape;
use crate::dump::{declare_virtual, without_clash};
use crate::failure::Failure;
use crate::out;
use crate::rows::literal::{literal_on_a_line, quoted};

/// A place for saved rows.
pub(crate) trait Sink {
    fn begin(&mut self, header: Option<&FileHeader>, page_size: u32) -> Result<(), Failure>;
    fn table(&mut self, shape: &Shape) -> Result<(), Failure>;
    /// Takes a row; false for one refused by a constraint.
    fn row(&mut self, shape: &Shape, row: &SalvagedRow<'_>) -> Result<bool, Failure>;
    /// An index, a view or a trigger.
    fn definition(&mut self, name: &str, sql: &str) -> Result<(), Failure>;
    fn virtual_table(&mut self, name: &str, sql: &str) -> Result<(), Failure>;
    fn end(&mut self, header: Option<&FileHeader>) -> Result<(), Failure>;
}

/// SQL, one statement a line, for `shoal sql` or `sqlite3`.
pub(crate) struct Script<W>(pub(crate) W);

impl<W: Write> Sink for Script<W> {
    fn begin(&mut self, header: Option<&FileHeader>, page_size: u32) -> Result<(), Failure> {
        let out = &mut self.0;
        match header.map(|header| header.text_encoding) {
            Some(TextEncoding::Utf16Le) => writeln!(out, "PRAGMA encoding = 'UTF-16le';")?,
            Some(TextEncoding::Utf16Be) => writeln!(out, "PRAGMA encoding = 'UTF-16be';")?,
            _ => {}
        }
        if page_size != 4096 {
            writeln!(out, "PRAGMA page_size = {page_size};")?;
        }
        Ok(writeln!(out, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?)
    }

    fn table(&mut self, shape: &Shape) -> Result<(), Failure> {
        match &shape.sql {
            Some(sql) => Ok(writeln!(self.0, "{};", without_clash(sql))?),
            None => Ok(writeln!(self.0, "DELETE FROM {};", quoted(&shape.name))?),
        }
    }

    fn row(&mut self, shape: &Shape, row: &SalvagedRow<'_>) -> Result<bool, Failure> {
        let out = &mut self.0;
        let values = shape.values(row);
        if values.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = values.iter().map(|(name, _)| quoted(name)).collect();
        write!(out, "INSERT OR IGNORE INTO {}({}) VALUES(", quoted(&shape.name), names.join(","))?;
        for (place, (_, value)) in values.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            literal_on_a_line(out, value)?;
        }
        out.write_all(b");\n")?;
        Ok(true)
    }

    fn definition(&mut self, _: &str, sql: &str) -> Result<(), Failure> {
        Ok(writeln!(self.0, "{sql};")?)
    }

    fn virtual_table(&mut self, name: &str, sql: &str) -> Result<(), Failure> {
        let out = &mut self.0;
        writeln!(out, "PRAGMA writable_schema = ON;")?;
        declare_virtual(out, name, sql)?;
        Ok(writeln!(out, "PRAGMA writable_schema = OFF;")?)
    }

    fn end(&mut self, header: Option<&FileHeader>) -> Result<(), Failure> {
        let out = &mut self.0;
        if let Some(header) = header {
            writeln!(out, "PRAGMA user_version = {};", header.user_version)?;
            writeln!(out, "PRAGMA application_id = {};", header.application_id.cast_signed())?;
        }
        writeln!(out, "COMMIT;")?;
        Ok(out.flush()?)
    }
}

/// A new database, filled by one transaction.
pub(crate) struct Target {
    connection: Connection,
    inserts: HashMap<(String, usize), Statement>,
    pub(crate) refused: u64,
}

impl Target {
    pub(crate) fn new(connection: Connection) -> Target {
        Target { connection, inserts: HashMap::new(), refused: 0 }
    }

    fn run(&mut self, sql: &str) -> Result<(), shoal_sql::Error> {
        let mut statement = self.connection.prepare(sql)?;
        self.connection.execute(&mut statement).map(drop)
    }
}

/// The target failed as a file, not by a statement of the damaged one.
fn is_fatal(error: &shoal_sql::Error) -> bool {
    matches!(error, shoal_sql::Error::Store(_) | shoal_sql::Error::Interrupted)
}

impl Sink for Target {
    fn begin(&mut self, _: Option<&FileHeader>, _: u32) -> Result<(), Failure> {
        self.connection.begin(Mode::Write).map_err(Failure::new)
    }

    fn table(&mut self, shape: &Shape) -> Result<(), Failure> {
        let delete = format!("DELETE FROM {}", quoted(&shape.name));
        let sql = shape.sql.as_ref().unwrap_or(&delete);
        match self.run(sql) {
            Err(error) if is_fatal(&error) => Err(Failure::new(error)),
            Err(error) => {
                out::note(format_args!("left out: {}: {error}", shape.name));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn row(&mut self, shape: &Shape, row: &SalvagedRow<'_>) -> Result<bool, Failure> {
        let values = shape.values(row);
        let key = (shape.name.clone(), values.len());
        if !self.inserts.contains_key(&key) {
            let names: Vec<String> = values.iter().map(|(name, _)| quoted(name)).collect();
            let marks = vec!["?"; values.len()].join(",");
            let (table, names) = (quoted(&shape.name), names.join(","));
            let sql = format!("INSERT OR IGNORE INTO {table}({names}) VALUES({marks})");
            match self.connection.prepare(&sql) {
                Ok(insert) => self.inserts.insert(key.clone(), insert),
                Err(error) if is_fatal(&error) => return Err(Failure::new(error)),
                Err(_) => {
                    self.refused += 1;
                    return Ok(false);
                }
            };
        }
        let insert = self.inserts.get_mut(&key).expect("inserted above where it was missing");
        for (place, (_, value)) in values.iter().enumerate() {
            insert.bind(place + 1, Value::from(*value)).map_err(Failure::new)?;
        }
        match self.connection.execute(insert) {
            Ok(changed) => {
                self.refused += u64::from(changed == 0);
                Ok(changed > 0)
            }
            Err(error) if is_fatal(&error) => Err(Failure::new(error)),
            Err(_) => {
                self.refused += 1;
                Ok(false)
            }
        }
    }

    fn definition(&mut self, name: &str, sql: &str) -> Result<(), Failure> {
        match self.run(sql) {
            Err(error) if is_fatal(&error) => Err(Failure::new(error)),
            Err(error) => {
                out::note(format_args!("left out: {name}: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn virtual_table(&mut self, name: &str, sql: &str) -> Result<(), Failure> {
        let mut row = Vec::new();
        declare_virtual(&mut row, name, sql)?;
        self.run("PRAGMA writable_schema = ON").map_err(Failure::new)?;
        self.definition(name, &String::from_utf8_lossy(&row))?;
        self.run("PRAGMA writable_schema = OFF").map_err(Failure::new)
    }

    fn end(&mut self, header: Option<&FileHeader>) -> Result<(), Failure> {
        self.inserts.clear();
        if let Some(header) = header {
            let (version, id) = (header.user_version, header.application_id.cast_signed());
            self.run(&format!("PRAGMA user_version = {version}")).map_err(Failure::new)?;
            self.run(&format!("PRAGMA application_id = {id}")).map_err(Failure::new)?;
        }
        self.connection.commit().map_err(Failure::new)
    }
}
