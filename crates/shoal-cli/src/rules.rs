//! Files in the sight of a principal.

use std::path::Path;

use shoal::Access;
use shoal_server::rules::Rules;
use shoal_sql::{Connection, Entitlement, Error, Narrowed};

use crate::args::rules::AsPrincipal;
use crate::failure::Failure;
use crate::open;
use crate::query::Reads;

/// What rules grant a principal.
///
/// # Errors
/// Rules that cannot be read; a principal whom they grant nothing.
pub(crate) fn entitlement((principal, rules): (&str, &Path)) -> Result<Entitlement, Failure> {
    let at = |why: String| Failure::at(rules.display(), why);
    let found = Rules::read(rules).and_then(|rules| rules.entitlement(principal)).map_err(at)?;
    found.ok_or_else(|| at(format!("nothing is granted to {principal}")))
}

/// The part of a file that an entitlement grants.
///
/// # Errors
/// Rules that do not fit the file's tables.
pub(crate) fn narrowed(
    connection: Connection,
    file: &Path,
    (entitlement, rules): (Entitlement, &Path),
) -> Result<Narrowed, Failure> {
    connection.narrowed(entitlement).map_err(|error| match error {
        Error::Meaning { message, .. } => Failure::at(rules.display(), message),
        other => open::about(file, &other),
    })
}

/// A file to read: the whole of it, or what a principal sees.
///
/// # Errors
/// Those of opening the file, and of the rules.
pub(crate) fn reading(file: &Path, by: &AsPrincipal) -> Result<Box<dyn Reads>, Failure> {
    let Some(by) = by.given() else {
        return Ok(Box::new(open::connection(file, Access::ReadOnly)?));
    };
    let entitlement = entitlement(by)?.read_only();
    let connection = open::connection(file, Access::ReadOnly)?;
    Ok(Box::new(narrowed(connection, file, (entitlement, by.1))?))
}
