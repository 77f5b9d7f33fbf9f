//! Checks that ops name only ops made before them.
//!
//! The rows of changes are in an order of applying them, one after the other. So an op names ops of
//! its own change or of one in an earlier row, dependency or not: the reference makes ops naming
//! others outside of their past. Otherwise two changes could wait for each other, and a reader
//! receiving them one by one would never see either.

use super::windows::Windows;
use super::{KeyKind, OpTable, Place, SUCC_COUNTER_NAME, SuccPart, Succs};
use crate::chunk::columns::{KEY_COUNTER, NAMES, OBJ_COUNTER};
use crate::{ActorIdx, ChunkType, Error, Fault, OpId};

/// Checks the ops of each actor with names of other actors' ops; own ops are earlier by their
/// counters. Cost: linear in the checked ops.
pub(super) fn check(rows: &OpTable, windows: &mut Windows) -> Result<(), Error> {
    let mut first = 0;
    for (index, segment) in (0_u32..).zip(&rows.segments) {
        let count = rows.chains[first..].iter().take_while(|chain| chain.segment == index).count();
        let chains = first as u32..(first + count) as u32;
        first += count;
        let mut places = chains.map(|chain| Place { chain, at: 0 });
        if segment.obj_counter > 0 && segment.obj_actor != segment.id_actor {
            // The change coming first has the least counter.
            let least = places.clone().min_by_key(|place| rows.id(*place).counter);
            let object = OpId { counter: segment.obj_counter, actor: ActorIdx(segment.obj_actor) };
            if let Some(place) = least.filter(|place| windows.is_later(object, rows.id(*place))) {
                return Err(later(NAMES[OBJ_COUNTER], rows.row(place), object));
            }
        }
        if let KeyKind::Elem(actor) = segment.key
            && actor != segment.id_actor
        {
            let elem = |place| OpId { counter: rows.key_counter(place), actor: ActorIdx(actor) };
            if let Some(place) = places.find(|at| windows.is_later(elem(*at), rows.id(*at))) {
                return Err(later(NAMES[KEY_COUNTER], rows.row(place), elem(place)));
            }
        }
    }
    for part in rows.succ_parts() {
        check_succs(rows, part, windows)?;
    }
    Ok(())
}

fn check_succs(rows: &OpTable, part: SuccPart, windows: &mut Windows) -> Result<(), Error> {
    let SuccPart { place, len, succs } = part;
    let first = rows.id(place);
    if let Succs::Up(succ) | Succs::Down(succ) = succs {
        if succ.actor == first.actor {
            return Ok(());
        }
        // The changes of an actor's ops ascend with them, so if the last row is not later than the
        // least successor, none is.
        let last = OpId { counter: first.counter + (len - 1), ..first };
        let least = match succs {
            Succs::Down(succ) => OpId { counter: succ.counter - (len - 1), ..succ },
            _ => succ,
        };
        if len > 1 && windows.is_at_or_before(last, least) {
            return Ok(());
        }
    }
    for at in 0..len {
        let (of_row, one);
        match succs.after(at) {
            Succs::Up(id) | Succs::Down(id) => {
                one = [id];
                of_row = &one[..];
            }
            Succs::List { start, count } => of_row = rows.listed_of_row(start, count),
        }
        let place = Place { at: place.at + at, ..place };
        let superseded = rows.id(place);
        for succ in of_row {
            if succ.actor != superseded.actor && windows.is_later(superseded, *succ) {
                return Err(later(SUCC_COUNTER_NAME, rows.row(place), superseded));
            }
        }
    }
    Ok(())
}

fn later(part: &'static str, row: u32, named: OpId) -> Error {
    let fault = Fault::LaterChange(named.counter);
    Error::Corrupt { chunk: ChunkType::Document, part, row: Some(row), fault }
}
