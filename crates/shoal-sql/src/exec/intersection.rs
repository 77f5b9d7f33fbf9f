//! The rowids common to several walks over indexes.

use super::Machine;
use super::scan::IndexRun;
use crate::Error;
use crate::keep::Kept;
use crate::plan::{IndexScan, Reg};
use crate::value::Value;

/// Number of entries passed before the next rowid is sought.
const STEPS_BEFORE_SEEK: usize = 8;

/// Intersects ascending rowids with another walk. `at_least` finds the walk's first rowid not below
/// a given one, and is called with ascending rowids.
///
/// Cost: at most one call for each rowid; none for rowids passed over.
///
/// # Errors
/// Errors of `at_least`.
pub(super) fn keep_common(
    rowids: &mut Vec<i64>,
    mut at_least: impl FnMut(i64) -> Result<Option<i64>, Error>,
) -> Result<(), Error> {
    let mut kept = 0;
    let mut other = None;
    for number in 0..rowids.len() {
        let rowid = rowids[number];
        if other.is_none_or(|other| other < rowid) {
            other = at_least(rowid)?;
            if other.is_none() {
                break;
            }
        }
        if other == Some(rowid) {
            rowids[kept] = rowid;
            kept += 1;
        }
    }
    rowids.truncate(kept);
    Ok(())
}

/// Sorts rowids given in the order of an index's entries.
pub(super) fn put_in_order(rowids: &mut Vec<i64>) {
    if !rowids.is_sorted_by(|a, b| a < b) {
        rowids.sort_unstable();
        rowids.dedup();
    }
}

/// Finds the rowids common to all walks, ascending; each walk leaves its rowid in a register.
pub(super) fn common_rowids(
    walks: &[IndexScan],
    rowid: Reg,
    machine: &mut Machine<'_, '_>,
) -> Result<Vec<i64>, Error> {
    let [first, others @ ..] = walks else { return Ok(Vec::new()) };
    let mut kept = Kept::default();
    let mut rowids = Vec::new();
    let mut run = IndexRun::default();
    run.open(first, machine)?;
    while run.next(first, machine)? {
        machine.tick()?;
        kept.note(machine.session, size_of::<i64>());
        rowids.push(found(machine, rowid)?);
    }
    put_in_order(&mut rowids);
    for walk in others {
        run.open(walk, machine)?;
        let mut last = None;
        keep_common(&mut rowids, |wanted| {
            machine.tick()?;
            // The rowid given before is below the wanted one.
            let mut more = last.is_some();
            for _ in 0..STEPS_BEFORE_SEEK {
                more = more && run.next(walk, machine)?;
                if !more {
                    break;
                }
                let rowid = found(machine, rowid)?;
                last = Some(rowid);
                if rowid >= wanted {
                    return Ok(last);
                }
            }
            if last.is_some() && !more {
                return Ok(None);
            }
            last = match run.seek_rowid(walk, wanted, machine)? {
                true => Some(found(machine, rowid)?),
                false => None,
            };
            Ok(last)
        })?;
    }
    Ok(rowids)
}

/// The rowid left by a walk.
fn found(machine: &Machine<'_, '_>, reg: Reg) -> Result<i64, Error> {
    match machine.registers[reg] {
        Value::Int(rowid) => Ok(rowid),
        _ => Err(Error::names_no_row(0)),
    }
}
