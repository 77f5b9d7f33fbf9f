//! Opens the database of a server: no other module does.

use shoal::{Access, Database};

use crate::Options;
use crate::guard::Guard;

/// A way to open the database, again after a fault.
pub(crate) struct Opening {
    pub(crate) options: Options,
    pub(crate) guard: Guard,
}

impl Opening {
    /// The database with its guard and its bounds. Every tool reads and writes through this
    /// connection: whoever narrows connections for a principal does so here.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub(crate) fn open(&self) -> Result<Database, shoal::Error> {
        let Options { environment, path, is_writable, limits } = &self.options;
        let access = if *is_writable { Access::ReadWrite } else { Access::ReadOnly };
        let mut database = Database::open(environment.clone(), path, access)?;
        let connection = database.sql();
        connection.set_read_only(!is_writable);
        connection.set_limits(shoal_sql::Limits {
            memory_bytes: Some(limits.memory_bytes),
            ..shoal_sql::Limits::default()
        });
        self.guard.watch(connection, *is_writable);
        Ok(database)
    }
}
