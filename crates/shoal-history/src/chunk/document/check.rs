//! The rules of op rows of a document chunk, row by row: the slow way, with the place of the first
//! fault.

use std::collections::BTreeSet;

use super::op_table::Columns;
use super::{in_document, lamport, obj_lamport, shared, sort_links};
use crate::chunk::columns::{
    ACTION, ID_ACTOR, ID_COUNTER, LINK_COUNTER, MARK_NAME, NAMES, OBJ_COUNTER,
};
use crate::chunk::op_rows::{Body, OpReader};
use crate::column::delta::DeltaDecoder;
use crate::column::rle::RleDecoder;
use crate::error::{ColumnFault, InColumn};
use crate::{Action, ActorIdx, ChunkType, Error, Fault, ObjId, OpId};

/// Reads the rows one by one, to find the first fault and its place.
pub(super) fn check_ops(
    columns: &Columns,
    op_count: u32,
    actor_count: u32,
    mut marks: MarkOrder,
) -> Result<(), Error> {
    let mut rows = IdentifiedReader {
        id_actor: RleDecoder::new(&columns[ID_ACTOR]),
        id_counter: DeltaDecoder::new(&columns[ID_COUNTER]),
        actor_count,
        ops: OpReader::new(&shared(columns), actor_count),
    };
    let mut links = Vec::new();
    let mut last_obj = 0;
    for row in 0..op_count {
        rows.next(&mut links)
            .and_then(|(id, body)| {
                check_row(id, &body, &mut links)?;
                let obj = obj_lamport(body.obj);
                if obj < last_obj {
                    let column = NAMES[OBJ_COUNTER];
                    return Err(ColumnFault { column, fault: Fault::Unsorted });
                }
                last_obj = obj;
                if body.action != Action::Mark {
                    return Ok(());
                }
                marks.check_mark(id, body.obj, body.mark_name.is_some()).in_column(NAMES[MARK_NAME])
            })
            .map_err(|fault| fault.at_row(ChunkType::Document, row))?;
    }
    rows.ops.finish().map_err(in_document)
}

/// Reads op rows with their ids.
#[derive(Clone, Debug)]
struct IdentifiedReader<'a> {
    id_actor: RleDecoder<'a, u64>,
    id_counter: DeltaDecoder<'a>,
    actor_count: u32,
    ops: OpReader<'a>,
}

impl<'a> IdentifiedReader<'a> {
    #[inline]
    fn next(&mut self, links: &mut Vec<OpId>) -> Result<(OpId, Body<'a>), ColumnFault> {
        let actor = self.next_actor().in_column(NAMES[ID_ACTOR])?;
        let counter = match self.id_counter.next_u32().in_column(NAMES[ID_COUNTER])? {
            Some(0) => Err(Fault::OutOfRange(0)),
            Some(counter) => Ok(counter),
            None => Err(Fault::UnexpectedNull),
        };
        let counter = counter.in_column(NAMES[ID_COUNTER])?;
        Ok((OpId { counter, actor }, self.ops.next(links)?))
    }

    #[inline]
    fn next_actor(&mut self) -> Result<ActorIdx, Fault> {
        let index = self.id_actor.next()?.ok_or(Fault::UnexpectedNull)?;
        match u32::try_from(index) {
            Ok(index) if index < self.actor_count => Ok(ActorIdx(index)),
            _ => Err(Fault::NoSuchActor(index)),
        }
    }
}

/// Checks that marks end after their begin, in the same object.
#[derive(Clone, Default)]
pub(super) struct MarkOrder {
    /// True to accept any order.
    any: bool,
    obj: Option<ObjId>,
    /// The begins in this object so far, see [`lamport`].
    begins: BTreeSet<u64>,
}

impl MarkOrder {
    /// For a document at its begin; `any` accepts every order.
    pub(super) fn new(any: bool) -> Self {
        Self { any, ..Self::default() }
    }

    /// Checks the begin of a mark, with a name, or the end.
    pub(super) fn check_mark(&mut self, id: OpId, obj: ObjId, is_begin: bool) -> Result<(), Fault> {
        if self.obj != Some(obj) {
            self.obj = Some(obj);
            self.begins.clear();
        }
        if is_begin {
            self.begins.insert(lamport(id));
            return Ok(());
        }
        let begin = OpId { counter: id.counter - 1, actor: id.actor };
        if self.any || self.begins.contains(&lamport(begin)) {
            Ok(())
        } else {
            Err(Fault::MarkOrder)
        }
    }
}

/// The rules of a single row of a document. Sorts its links.
fn check_row(id: OpId, body: &Body<'_>, links: &mut [OpId]) -> Result<(), ColumnFault> {
    if body.action == Action::Delete {
        let column = NAMES[ACTION];
        return Err(ColumnFault { column, fault: Fault::ExplicitDelete });
    }
    body.check(id)?;
    let column = NAMES[LINK_COUNTER];
    if let Some(link) = links.iter().find(|link| link.counter <= id.counter) {
        return Err(ColumnFault { column, fault: Fault::NotAfter(link.counter) });
    }
    sort_links(links);
    match links.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ColumnFault { column, fault: Fault::RepeatedLink(pair[0].counter) }),
        None => Ok(()),
    }
}
