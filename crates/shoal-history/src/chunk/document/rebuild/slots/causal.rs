//! Whether ops name only ops that were there when they were made.
//!
//! The rows of changes are in an order in which they can be applied, one after the other. So what an
//! op names belongs to its own change or to one in an earlier row, whether its change depends on that
//! one or not: the reference makes ops that name what is not in their past. Were it otherwise, two
//! changes could wait for each other, and nobody who gets them one by one would ever see them.

use super::windows::Windows;
use super::{KeyKind, OpTable, SUCC_COUNTER_NAME};
use crate::chunk::header::ChunkType;
use crate::chunk::op_rows::{KEY_COUNTER, NAMES, OBJ_COUNTER};
use crate::{ActorIdx, Error, Fault, OpId};

/// Checks the ops of each actor that name ops of others; of their own they can name earlier ones only,
/// which their counters tell. Cost: linear in those.
pub(super) fn check(rows: &OpTable, windows: &mut Windows) -> Result<(), Error> {
    for (index, segment) in rows.segments.iter().enumerate() {
        let own = |row: u32| OpId {
            counter: rows.id_counters[row as usize],
            actor: ActorIdx(segment.id_actor),
        };
        let in_segment = segment.first_row..rows.segment_end(index);
        if segment.obj_counter > 0 && segment.obj_actor != segment.id_actor {
            // The change that comes first has the least counter.
            let first = in_segment.clone().min_by_key(|row| rows.id_counters[*row as usize]);
            let object = OpId { counter: segment.obj_counter, actor: ActorIdx(segment.obj_actor) };
            if let Some(row) = first.filter(|row| windows.is_later(object, own(*row))) {
                return Err(later(NAMES[OBJ_COUNTER], row, object));
            }
        }
        if let KeyKind::Elem(actor) = segment.key
            && actor != segment.id_actor
        {
            for row in in_segment {
                let counter = rows.key_counters[row as usize];
                let elem = OpId { counter, actor: ActorIdx(actor) };
                if windows.is_later(elem, own(row)) {
                    return Err(later(NAMES[KEY_COUNTER], row, elem));
                }
            }
        }
    }
    let (mut row, mut succs) = (0_u32, &rows.succs[..]);
    for run in &rows.succ_runs {
        if run.count == 0 {
            row += run.rows;
            continue;
        }
        for _ in 0..run.rows {
            let of_row;
            (of_row, succs) = succs.split_at(run.count as usize);
            let superseded = rows.id(row);
            for succ in of_row {
                if succ.actor != superseded.actor && windows.is_later(superseded, *succ) {
                    return Err(later(SUCC_COUNTER_NAME, row, superseded));
                }
            }
            row += 1;
        }
    }
    Ok(())
}

fn later(part: &'static str, row: u32, named: OpId) -> Error {
    let fault = Fault::LaterChange(named.counter);
    Error::Corrupt { chunk: ChunkType::Document, part, row: Some(row), fault }
}
