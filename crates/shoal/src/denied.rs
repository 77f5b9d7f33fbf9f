//! What a server keeps in the file beside documents: names that are not to be served, and a mark of
//! the last attempt to write.

use shoal_sql::{Value, ValueRef};

use crate::layout::Layout;
use crate::{Database, Error, tables};

/// How their keys in `_shoal_meta` begin.
const DENIED: &str = "denied:";
/// The key of the time of the last attempt to write.
const TRIED: &str = "tried";

impl Database {
    /// The denied names, ascending.
    ///
    /// # Errors
    /// The store's; what is wrong with the tables.
    pub fn denied(&mut self) -> Result<Vec<String>, Error> {
        self.snapshot(|database| {
            let mut names = Vec::new();
            if Layout::of(&mut database.connection)? != Layout::Second {
                return Ok(names);
            }
            let sql = "SELECT key FROM _shoal_meta WHERE key >= ?1 AND key < ?2 ORDER BY key";
            // The character behind the colon ends the range.
            let range = [Value::text(DENIED), Value::text("denied;")];
            tables::query(&mut database.connection, sql, &range, |row| {
                if let [ValueRef::Text(key)] = row {
                    let key = String::from_utf8_lossy(key);
                    names.extend(key.strip_prefix(DENIED).map(str::to_owned));
                }
                Ok(())
            })?;
            Ok(names)
        })
    }

    /// Writes a row of no meaning, durably: the way to learn whether a file that refused to be
    /// written takes changes again.
    ///
    /// # Errors
    /// The store's.
    pub fn try_writing(&mut self) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            let key = Value::text(TRIED);
            tables::write(
                connection,
                "DELETE FROM _shoal_meta WHERE key = ?1",
                std::slice::from_ref(&key),
            )?;
            let values = [key, Value::Int(now_ms)];
            tables::write(connection, "INSERT INTO _shoal_meta VALUES (?1, ?2)", &values)
        })
    }

    /// Denies a name, or no longer. Documents of that name need not exist.
    ///
    /// # Errors
    /// The store's.
    pub fn set_denied(&mut self, name: &str, is_denied: bool) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            let key = Value::text(format!("{DENIED}{name}"));
            tables::write(
                connection,
                "DELETE FROM _shoal_meta WHERE key = ?1",
                std::slice::from_ref(&key),
            )?;
            if is_denied {
                let values = [key, Value::Int(now_ms)];
                tables::write(connection, "INSERT INTO _shoal_meta VALUES (?1, ?2)", &values)?;
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
    fn names_are_denied_and_allowed_again() {
        let mut database = Database::memory(Environment::os()).unwrap();
        assert_eq!(database.denied().unwrap(), [""; 0]);
        for name in ["b", "a", "b", "it's"] {
            database.set_denied(name, true).unwrap();
        }
        assert_eq!(database.denied().unwrap(), ["a", "b", "it's"]);
        database.storage_id().unwrap();
        database.try_writing().unwrap();
        database.try_writing().unwrap();
        database.set_denied("b", false).unwrap();
        assert_eq!(database.denied().unwrap(), ["a", "it's"]);
    }
}
