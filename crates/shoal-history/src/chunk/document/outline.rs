//! The op rows of a document chunk for readers of a part: the object of each row, and the rows of
//! one object. Values stay encoded until somebody reads them.

use std::sync::Arc;

use super::op_table::{KeyKind, OpTable};
use super::{DocumentChunk, DocumentOps};
use crate::chunk::op_rows;
use crate::{Action, ActorIdx, ObjId, OpId};

/// The op rows of a document chunk, kept apart from the chunk. A copy costs nothing.
#[derive(Clone, Debug)]
pub struct OpRows {
    table: Arc<OpTable>,
    payloads: Arc<Box<[u8]>>,
}

/// Neighbouring rows of one object with ids counting up: in a map of one key, in a sequence each
/// naming the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// The number of the first row.
    pub row: u32,
    /// The number of rows.
    pub len: u32,
    /// The id of the first row.
    pub id: OpId,
    /// The object.
    pub obj: ObjId,
    /// The key of the first row.
    pub key: RowKey,
    /// True for rows inserting an element.
    pub insert: bool,
    /// The action of all of them.
    pub action: Action,
}

/// A key, with the number of the string in the place of the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// Of a map: the number of the string, see [`OpRows::string`].
    Map(u32),
    /// Before the first element.
    Head,
    /// An element.
    Elem(OpId),
}

impl DocumentChunk {
    /// The op rows.
    pub fn op_rows(&self) -> OpRows {
        OpRows { table: Arc::clone(&self.ops), payloads: Arc::clone(&self.payloads) }
    }
}

impl OpRows {
    /// The number of groups: all rows, in their order.
    pub fn group_count(&self) -> u32 {
        self.table.chains.len() as u32
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of rows making an object. O(n) for n groups.
    pub fn object_count(&self) -> usize {
        let is_making = |action| op_rows::runs_of(action) > 1;
        let chains = (0..).zip(&self.table.chains);
        let made = chains
            .filter(|(_, chain)| is_making(self.table.segments[chain.segment as usize].action));
        made.map(|(at, _)| self.table.chain_len(at) as usize).sum()
    }

    /// True without any row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group at `index`, below [`OpRows::group_count`].
    #[inline]
    pub fn group(&self, index: u32) -> RowGroup {
        let table = &*self.table;
        let chain = &table.chains[index as usize];
        let segment = &table.segments[chain.segment as usize];
        let key = match segment.key {
            KeyKind::Map(string) => RowKey::Map(string),
            KeyKind::Head => RowKey::Head,
            KeyKind::Elem(actor) => {
                RowKey::Elem(OpId { counter: chain.key_counter_at(0), actor: ActorIdx(actor) })
            }
        };
        RowGroup {
            row: chain.first_row,
            len: table.chain_len(index as usize),
            id: OpId { counter: chain.id_counter, actor: ActorIdx(segment.id_actor) },
            obj: segment.obj(),
            key,
            insert: segment.insert,
            action: segment.action,
        }
    }

    /// The number of strings: keys of maps, and names of marks.
    pub fn string_count(&self) -> usize {
        self.table.string_count()
    }

    /// The string with this number, below [`OpRows::string_count`]. Several may be equal.
    #[inline]
    pub fn string(&self, number: u32) -> &str {
        self.table.text(number)
    }

    /// The ops of the groups from `first` on and before `end`.
    pub fn ops(&self, first: u32, end: u32) -> DocumentOps<'_> {
        let chains = &self.table.chains;
        let len = self.table.len() as u32;
        let end_row = chains.get(end as usize).map_or(len, |chain| chain.first_row);
        DocumentOps::over(&self.table, &self.payloads, first, end_row)
    }
}
