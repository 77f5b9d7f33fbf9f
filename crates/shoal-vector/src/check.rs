//! `vec_check`: rows and chunks of a table name each other, and its indexes are whole.

use shoal_sql::{Connection, Error, TableFunction, TableReads, Value};

use crate::index;
use crate::shadow::Parts;

/// The most faults told.
const FAULTS_MAX: usize = 100;

/// Looks for faults, a sentence for each.
///
/// # Errors
/// Errors of the file.
pub(crate) fn faults(parts: &Parts, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    let mut rows = 0_u64;
    for number in 0..parts.vectors.len() {
        let found = parts.each_block(
            number,
            reads,
            |_| Ok(true),
            |block| {
                if number > 0 {
                    return Ok(true);
                }
                for (slot, rowid) in block.slots.iter().zip(&block.rowids) {
                    rows += 1;
                    let place = parts.place(*rowid, reads)?;
                    let is_there = place.is_some_and(|place| {
                        place.chunk == block.chunk && place.slot == usize::from(*slot)
                    });
                    if !is_there {
                        let chunk = block.chunk;
                        faults.push(format!("slot {slot} of chunk {chunk} is of no row {rowid}"));
                    }
                    if faults.len() >= FAULTS_MAX {
                        return Ok(false);
                    }
                }
                for (number, kind) in parts.definition.metadata().enumerate() {
                    parts.metadata_of((number, kind), &block, reads)?;
                }
                Ok(true)
            },
        );
        match found {
            Err(Error::CorruptVirtual { why, .. }) => faults.push(why),
            found => found?,
        }
    }
    if faults.is_empty() {
        let mut known = 0;
        let mut cursor = reads.rows(&parts.rowids)?;
        let mut found = cursor.first()?;
        while found {
            known += 1;
            found = cursor.next()?;
        }
        if known != rows {
            faults.push(format!("{known} rows have a key, {rows} a place in a chunk"));
        }
    }
    let name = &parts.definition.name;
    let mut faults: Vec<String> =
        faults.into_iter().map(|fault| format!("vec0 table {name}: {fault}")).collect();
    for place in 0..parts.indexes.len() {
        faults.extend(index::check::faults(parts, place, reads)?);
    }
    Ok(faults)
}

/// Makes `vec_check('table')` known to a connection: a row for each fault, or `ok`.
///
/// # Errors
/// None but a name refused by the connection.
pub(crate) fn register(connection: &mut Connection) -> Result<(), Error> {
    let check = TableFunction::new("vec_check", &["fault"], &["table_name"], |given, context| {
        let Some(Value::Text(name)) = &given[0] else {
            return Err(Error::of_function("vec_check() wants the name of a vec0 table"));
        };
        let mut faults = context.check_virtual(None, &String::from_utf8_lossy(name))?;
        if faults.is_empty() {
            faults.push("ok".to_owned());
        }
        Ok(faults.into_iter().map(|fault| Ok(vec![fault.into()])))
    });
    connection.create_table_function(check.reads_databases())
}
