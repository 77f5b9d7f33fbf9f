//! `.backup`, `.save` and `.restore`.

use std::path::Path;

use super::Command;
use crate::backup;
use crate::failure::Failure;
use crate::shell::session::Session;

/// `.backup ?DB? FILE` and `.save ?DB? FILE`
pub(super) fn backup(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let (database, file) = arguments(command, words)?;
    let Some(source) = session.connection.store_of(database) else {
        return Err(unknown(database));
    };
    backup::to_file(source, Path::new(file)).map(drop)
}

/// `.restore ?DB? FILE`
pub(super) fn restore(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let (database, file) = arguments(command, words)?;
    if !database.eq_ignore_ascii_case("main") {
        return Err(match session.connection.store_of(database) {
            Some(_) => Failure::new("not supported: .restore of an attached database")
                .hint("open the file by itself"),
            None => unknown(database),
        });
    }
    if session.connection.in_transaction() {
        return Err(Failure::new("a transaction is open").hint("COMMIT or ROLLBACK ends it"));
    }
    session.create_missing()?;
    backup::from_file(&session.connection, Path::new(file)).map(drop)
}

fn arguments<'w>(command: &Command, words: &[&'w str]) -> Result<(&'w str, &'w str), Failure> {
    match words {
        [option, ..] if option.starts_with('-') => {
            Err(Failure::new(format_args!("not supported: {option}")))
        }
        [file] => Ok(("main", file)),
        [database, file] => Ok((database, file)),
        _ => Err(command.misused()),
    }
}

fn unknown(database: &str) -> Failure {
    Failure::new(format_args!("unknown database {database}"))
}
