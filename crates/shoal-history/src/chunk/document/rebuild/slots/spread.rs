//! The ops of a change one by one, where some of them both have a row and supersede others, or
//! supersede several.

use super::{Kind, Lists, OpRun, Piece, Preds, SUCC_COUNTER_NAME, TOO_MANY, ops_of, same_target};
use crate::chunk::columns::{ID_COUNTER, NAMES};
use crate::chunk::document::op_table::{OpTable, Place};
use crate::chunk::document::{lamport, of_lamport};
use crate::{ChunkType, Error, Fault};

/// The ops of one change; its buffers serve one after the other.
#[derive(Default)]
pub(super) struct Spread {
    /// The row of each op, or [`DELETE`].
    rows: Vec<Place>,
    /// An op, by its number in the change, and a superseded row, with the row's id as the sort key.
    edges: Vec<(u32, u64, Place)>,
}

/// In the place of the missing row of a delete.
const DELETE: Place = Place { chain: u32::MAX, at: 0 };

impl Spread {
    /// Takes in the pieces of a change of `len` ops from `least` on.
    pub(super) fn fill(
        &mut self,
        rows: &OpTable,
        pieces: &[Piece],
        least: u32,
        len: u32,
    ) -> Result<(), Error> {
        self.rows.clear();
        self.rows.resize(len as usize, DELETE);
        self.edges.clear();
        for piece in pieces {
            let first = piece.counter - least;
            for at in 0..piece.len {
                let (slot, row) = (first + at, piece.place_at(at));
                if piece.kind != Kind::Rows {
                    self.edges.push((slot, lamport(rows.id(row)), row));
                } else if std::mem::replace(&mut self.rows[slot as usize], row) != DELETE {
                    return Err(Error::Corrupt {
                        chunk: ChunkType::Document,
                        part: NAMES[ID_COUNTER],
                        row: Some(rows.row(row)),
                        fault: Fault::RepeatedOpId(piece.counter + at),
                    });
                }
            }
        }
        self.edges.sort_unstable();
        Ok(())
    }

    /// Appends the ops to `runs`, and the superseded ops to `lists`.
    pub(super) fn take(
        &self,
        rows: &OpTable,
        change: usize,
        least: u32,
        runs: &mut Vec<OpRun>,
        lists: &mut Lists,
    ) -> Result<(), Error> {
        let first_run = runs.len();
        let mut edges = &self.edges[..];
        for (slot, &row) in (0_u32..).zip(&self.rows) {
            let count = edges.iter().take_while(|edge| edge.0 == slot).count();
            let own;
            (own, edges) = edges.split_at(count);
            let is_delete = row == DELETE;
            let Some(&(_, _, first)) = own.first() else {
                if is_delete {
                    return Err(ops_of(change, Fault::MissingOp(least + slot)));
                }
                match runs[first_run..].last_mut() {
                    Some(last)
                        if last.preds == Preds::None
                            && last.place.chain == row.chain
                            && last.place.at + last.len == row.at =>
                    {
                        last.len += 1;
                    }
                    _ => runs.push(OpRun { len: 1, place: row, preds: Preds::None }),
                }
                continue;
            };
            let at = if is_delete { first } else { row };
            if let Some(&(_, _, other)) = own.iter().find(|edge| !same_target(rows, edge.2, at)) {
                let counter = least + slot;
                return Err(Error::Corrupt {
                    chunk: ChunkType::Document,
                    part: SUCC_COUNTER_NAME,
                    row: Some(rows.row(other)),
                    fault: match is_delete {
                        true => Fault::DeleteOfDifferentKeys(counter),
                        false => Fault::SuccessorElsewhere(counter),
                    },
                });
            }
            let list = u32::try_from(lists.ends.len()).map_err(|_| TOO_MANY)?;
            lists.ids.extend(own.iter().map(|edge| of_lamport(edge.1)));
            lists.ends.push(u32::try_from(lists.ids.len()).map_err(|_| TOO_MANY)?);
            runs.push(OpRun { len: 1, place: at, preds: Preds::Listed { list, is_delete } });
        }
        Ok(())
    }
}
