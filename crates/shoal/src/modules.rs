//! The modules of virtual tables, with crates of their own: registered here and nowhere else.

use std::sync::Arc;

use shoal_sql::{Connection, Error};

/// Makes the virtual tables of a file usable by a connection: FTS5's tables, those of FTS3 and FTS4
/// for reading, R-Trees, and vectors with their functions.
///
/// # Errors
/// None but a name refused by the connection.
pub fn register_modules(connection: &mut Connection) -> Result<(), Error> {
    connection.register_table_module(Arc::new(shoal_text::TextModule));
    connection.register_table_module(Arc::new(shoal_text::VocabularyModule));
    connection.register_table_module(Arc::new(shoal_text::Fts3Module::fts3()));
    connection.register_table_module(Arc::new(shoal_text::Fts3Module::fts4()));
    connection.register_table_module(Arc::new(shoal_text::Fts3TermsModule));
    connection.register_table_module(Arc::new(shoal_text::Fts3TokensModule));
    shoal_rtree::register(connection)?;
    shoal_vector::register(connection)
}
