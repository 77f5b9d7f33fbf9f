//! Notes of a program in the file, beside documents: short values under keys of its own.

use std::collections::BTreeMap;

use shoal_sql::{Value, ValueRef};

use crate::layout::Layout;
use crate::{Database, Error, tables};

/// How their keys in `_shoal_meta` begin.
const NOTE: &str = "note:";

impl Database {
    /// The notes with keys of this beginning, by key.
    ///
    /// # Errors
    /// The store's; faults of the tables.
    pub fn notes(&mut self, beginning: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        self.snapshot(|database| {
            let mut notes = BTreeMap::new();
            if Layout::of(&mut database.connection)? != Layout::Second {
                return Ok(notes);
            }
            let sql = "SELECT key, value FROM _shoal_meta WHERE key >= ?1 AND key < ?2";
            let first = format!("{NOTE}{beginning}");
            // No text goes on with the last of characters.
            let range = [Value::text(first.clone()), Value::text(format!("{first}\u{10ffff}"))];
            tables::query(&mut database.connection, sql, &range, |row| {
                if let [ValueRef::Text(key), ValueRef::Blob(value)] = row {
                    let key = String::from_utf8_lossy(key);
                    notes
                        .extend(key.strip_prefix(NOTE).map(|key| (key.to_owned(), value.to_vec())));
                }
                Ok(())
            })?;
            Ok(notes)
        })
    }

    /// Writes notes, all in one transaction; `None` removes one.
    ///
    /// # Errors
    /// The store's.
    pub fn set_notes(&mut self, notes: &BTreeMap<String, Option<Vec<u8>>>) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            for (key, value) in notes {
                let key = Value::text(format!("{NOTE}{key}"));
                let of_key = std::slice::from_ref(&key);
                tables::write(connection, "DELETE FROM _shoal_meta WHERE key = ?1", of_key)?;
                if let Some(value) = value {
                    let values = [key, Value::Blob(value.clone())];
                    tables::write(connection, "INSERT INTO _shoal_meta VALUES (?1, ?2)", &values)?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    #[test]
    fn notes_are_written_over_and_removed() {
        let mut database = Database::memory(Environment::os()).unwrap();
        assert!(database.notes("").unwrap().is_empty());
        let note = |key: &str, value: Option<&[u8]>| (key.to_owned(), value.map(<[u8]>::to_vec));
        let first = [note("a:1", Some(b"x")), note("a:2", Some(b"")), note("b", Some(b"y"))];
        database.set_notes(&BTreeMap::from(first)).unwrap();
        let second = [note("a:1", Some(b"z")), note("a:2", None), note("c", None)];
        database.set_notes(&BTreeMap::from(second)).unwrap();
        let kept = |(key, value): (&str, &[u8])| (key.to_owned(), value.to_vec());
        assert_eq!(database.notes("a:").unwrap(), BTreeMap::from([kept(("a:1", b"z"))]));
        assert_eq!(database.notes("").unwrap().len(), 2);
        database.set_denied("d", true).unwrap();
        assert_eq!(database.notes("").unwrap().len(), 2);
    }
}
