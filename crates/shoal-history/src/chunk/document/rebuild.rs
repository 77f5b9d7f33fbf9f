//! Rebuilding the changes of a document chunk, which keeps their ops apart from them.
//!
//! The ops that an op supersedes are the reverse of `succ`. An id in `succ` that has no row is
//! that of a delete, whose object and key are those of what it deletes. Everything is sorted once
//! by id, actor by actor; the changes of an actor then take consecutive slices. Cost: n log n of
//! the ops for those sorts, linear else.

use super::{DocumentChunk, Fault, in_part, lamport, obj_lamport};
use crate::chunk::change::{ChangeEncoder, Meta};
use crate::chunk::header::ChunkType;
use crate::chunk::op_rows::{Body, Row, RowValue, VALUE};
use crate::column::value::RawValue;
use crate::{Action, ActorIdx, Change, ChangeHash, Error, Key, ObjId, OpId, ScalarRef};

use super::change_rows::ChangeRow;

/// Whether the heads of rebuilt changes are compared with those that the chunk names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// They are; a difference is an error.
    Heads,
    /// They are not, to save what can be saved: hashes may then differ from the authors'.
    Nothing,
}

impl DocumentChunk {
    /// Rebuilds the changes, in the order of their rows, which is topological. Their bytes and so
    /// their hashes are those of the authors, if those encoded them canonically.
    ///
    /// Cost: n log n of the ops, 32 bytes an op and some while it runs; one SHA-256 of each change.
    ///
    /// # Errors
    /// When an id is used twice, an op belongs to no change or a change lacks one, a delete has
    /// several keys; [`Error::MismatchingHeads`], if asked for; [`Error::Limit`].
    pub fn changes(&self, verify: Verify) -> Result<Vec<Change>, Error> {
        let (rows, ids, edges) = self.read_rows()?;
        let ops = merge(&rows, &ids, &edges)?;
        drop(ids);
        let slices = self.slices(&ops)?;
        self.encode(&rows, &ops, &edges, &slices, verify)
    }

    /// Reads the op rows. Ids and edges come sorted.
    fn read_rows(&self) -> Result<(Rows<'_>, Vec<Id>, Vec<Edge>), Error> {
        let mut rows = Rows {
            packed: Vec::with_capacity(self.op_count()),
            strings: Vec::new(),
            payloads: &self.op_columns[VALUE],
        };
        let mut ids = Vec::with_capacity(self.op_count());
        let mut edges = Vec::new();
        let mut reader = self.rows();
        let mut links = Vec::new();
        let mut payload_start = 0;
        for row in 0..self.op_count {
            let (id, body) =
                reader.next(&mut links).expect("the rows were read when it was parsed");
            rows.push(&body, payload_start);
            payload_start += body.value.payload.len();
            ids.push(Id { id: place(id), row });
            let pred = lamport(id);
            edges.extend(links.iter().map(|&succ| Edge { succ: place(succ), pred, row }));
        }
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Error::Corrupt {
                chunk: ChunkType::Document,
                part: "id counter column",
                row: Some(pair[1].row),
                fault: Fault::RepeatedOpId(op_id(pair[1].id).counter),
            });
        }
        edges.sort_unstable();
        Ok((rows, ids, edges))
    }

    /// The slice of `ops` that each change takes.
    fn slices(&self, ops: &[BuiltOp]) -> Result<Vec<Slice>, Error> {
        // Of each actor the next op that no change has taken.
        let mut next = vec![0_usize; self.actors.len() + 1];
        for op in ops {
            next[op_id(op.id).actor.as_usize() + 1] += 1;
        }
        for actor in 1..next.len() {
            next[actor] += next[actor - 1];
        }
        let ends: Vec<usize> = next[1..].to_vec();

        let fault = |row, fault| Error::Corrupt {
            chunk: ChunkType::Document,
            part: "ops of a change",
            row,
            fault,
        };
        let counter = |at: usize| op_id(ops[at].id).counter;
        let mut slices = Vec::with_capacity(self.change_count());
        let mut max_ops = Vec::with_capacity(self.change_count());
        let mut reader = self.change_rows();
        let mut deps = Vec::new();
        for row in 0..self.change_count {
            let change = reader.next(&mut deps).expect("the rows were read when it was parsed");
            let before = deps.iter().map(|&dep| max_ops[dep as usize]).max().unwrap_or(0);
            max_ops.push(change.max_op);
            let actor = change.actor.as_usize();
            let start = next[actor];
            let mut end = start;
            while end < ends[actor] && counter(end) <= change.max_op {
                if end > start && counter(end) != counter(end - 1) + 1 {
                    return Err(fault(Some(row), Fault::MissingOp(counter(end - 1) + 1)));
                }
                end += 1;
            }
            next[actor] = end;
            let mut start_op = change.max_op + 1;
            if end > start {
                start_op = counter(start);
                if start_op <= before {
                    return Err(fault(Some(row), Fault::StrayOp(start_op)));
                }
                if counter(end - 1) != change.max_op {
                    return Err(fault(Some(row), Fault::MissingOp(counter(end - 1) + 1)));
                }
            }
            slices.push(Slice { start, end, start_op });
        }
        match (0..ends.len()).find(|&actor| next[actor] < ends[actor]) {
            Some(actor) => Err(fault(None, Fault::StrayOp(counter(next[actor])))),
            None => Ok(slices),
        }
    }

    fn encode(
        &self,
        rows: &Rows<'_>,
        ops: &[BuiltOp],
        edges: &[Edge],
        slices: &[Slice],
        verify: Verify,
    ) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::<Change>::with_capacity(self.change_count());
        let mut is_head = vec![true; self.change_count()];
        let mut encoder = ChangeEncoder::default();
        let mut reader = self.change_rows();
        let mut dep_rows = Vec::new();
        let mut budget = self.limits.max_rebuilt_bytes;
        let over_budget = Error::Limit {
            chunk: ChunkType::Document,
            what: "bytes of rebuilt changes",
            max: budget,
        };
        for slice in slices {
            let change = reader.next(&mut dep_rows).expect("the rows were read when it was parsed");
            let ChangeRow { actor, seq, time, message, extra, .. } = change;
            encoder.begin(actor);
            let mut text = TextBudget::default();
            for at in slice.start..slice.end {
                let op = &ops[at];
                let edges_end =
                    ops.get(at + 1).map_or(edges.len(), |next| next.edges_start as usize);
                let preds = &edges[op.edges_start as usize..edges_end];
                let row = rows.row(op, preds);
                text.spend(&row);
                if text.bytes > budget {
                    return Err(over_budget);
                }
                encoder.push(&row, preds.iter().map(|edge| from_lamport(edge.pred)));
            }
            let deps = dep_rows
                .iter()
                .map(|&dep| {
                    is_head[dep as usize] = false;
                    changes[dep as usize].hash()
                })
                .collect();
            let meta =
                Meta { seq, start_op: slice.start_op, time, message, deps, extra_bytes: extra };
            let change = encoder.finish(meta, &self.actors)?;
            budget = budget.checked_sub(change.raw_bytes().len() as u64).ok_or(over_budget)?;
            changes.push(change);
        }
        if verify == Verify::Heads {
            let heads = changes.iter().zip(is_head).filter(|(_, is_head)| *is_head);
            let mut heads: Vec<ChangeHash> = heads.map(|(change, _)| change.hash()).collect();
            heads.sort_unstable();
            self.check_heads(&heads, &changes)?;
        }
        Ok(changes)
    }

    fn check_heads(&self, heads: &[ChangeHash], changes: &[Change]) -> Result<(), Error> {
        if heads != &*self.heads {
            let unexplained = self.heads.iter().position(|head| heads.binary_search(head).is_err());
            let head = unexplained.unwrap_or(self.heads.len());
            return Err(Error::MismatchingHeads { head: u32::try_from(head).unwrap_or(u32::MAX) });
        }
        let Some(rows) = &self.head_rows else { return Ok(()) };
        for (head, &row) in self.heads.iter().zip(rows) {
            let change = usize::try_from(row).ok().and_then(|row| changes.get(row));
            if change.is_none_or(|change| change.hash() != *head) {
                return Err(in_part("head index")(Fault::HeadIndex(row)));
            }
        }
        Ok(())
    }
}

/// The rows of a document chunk, for access in any order. Half the size of [`Body`]s.
struct Rows<'a> {
    packed: Vec<PackedRow>,
    /// Keys and mark names; neighbours share them.
    strings: Vec<&'a str>,
    payloads: &'a [u8],
}

#[derive(Clone, Copy)]
struct PackedRow {
    /// As [`lamport`]; 0 is the root.
    obj: u64,
    /// As [`lamport`], 0 for the head; or the number of a string.
    key: u64,
    payload_start: u32,
    payload_len: u32,
    /// The number of the string + 1, 0 for none.
    mark_name: u32,
    action: Action,
    value_type: u8,
    is_map_key: bool,
    /// Bit 0: insert, bit 1: expand.
    flags: u8,
}

impl<'a> Rows<'a> {
    fn push(&mut self, body: &Body<'a>, payload_start: usize) {
        let offset = |at| u32::try_from(at).expect("a column is smaller than 4 GiB");
        let (key, is_map_key) = match body.key {
            Key::Map(key) => (u64::from(self.string(key)), true),
            Key::Head => (0, false),
            Key::Elem(id) => (lamport(id), false),
        };
        let mark_name = body.mark_name.map_or(0, |name| self.string(name) + 1);
        self.packed.push(PackedRow {
            obj: obj_lamport(body.obj),
            key,
            payload_start: offset(payload_start),
            payload_len: offset(body.value.payload.len()),
            mark_name,
            action: body.action,
            value_type: body.value.type_code,
            is_map_key,
            flags: u8::from(body.insert) | u8::from(body.expand) << 1,
        });
    }

    /// The number of a string: that of the last one if it is the same bytes of the column.
    fn string(&mut self, text: &'a str) -> u32 {
        if self.strings.last().is_none_or(|last| !std::ptr::eq(*last, text)) {
            self.strings.push(text);
        }
        u32::try_from(self.strings.len() - 1).expect("a document has fewer than 2^31 ops")
    }

    /// The row of an op as its change holds it.
    fn row(&self, op: &BuiltOp, preds: &[Edge]) -> Row<'a> {
        let packed = &self.packed[op.row as usize];
        let obj = if packed.obj == 0 { ObjId::Root } else { ObjId::Op(from_lamport(packed.obj)) };
        if op.is_delete {
            return Row {
                obj,
                key: self.target(op.row, preds[0].pred),
                insert: false,
                action: Action::Delete,
                value: RowValue::Scalar(ScalarRef::Null),
                expand: false,
                mark_name: None,
            };
        }
        let start = packed.payload_start as usize;
        let payload = &self.payloads[start..start + packed.payload_len as usize];
        Row {
            obj,
            key: self.key(packed),
            insert: packed.flags & 1 != 0,
            action: packed.action,
            value: RowValue::Raw(RawValue { type_code: packed.value_type, payload }),
            expand: packed.flags & 2 != 0,
            mark_name: (packed.mark_name as usize).checked_sub(1).map(|name| self.strings[name]),
        }
    }

    /// The key under which a row is found, given its id: an insertion's is the element it makes.
    fn target(&self, row: u32, id: u64) -> Key<'a> {
        let packed = &self.packed[row as usize];
        if packed.flags & 1 != 0 { Key::Elem(from_lamport(id)) } else { self.key(packed) }
    }

    fn key(&self, packed: &PackedRow) -> Key<'a> {
        if packed.is_map_key {
            let string = usize::try_from(packed.key).expect("the number of a string is an index");
            Key::Map(self.strings[string])
        } else if packed.key == 0 {
            Key::Head
        } else {
            Key::Elem(from_lamport(packed.key))
        }
    }
}

/// The id of a row, ordered by actor and counter: see [`place`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    id: u64,
    row: u32,
}

/// `succ` supersedes `pred`, which is the id of `row`. Ordered as preds are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// See [`place`].
    succ: u64,
    /// See [`lamport`].
    pred: u64,
    row: u32,
}

/// An op of a change.
struct BuiltOp {
    /// See [`place`].
    id: u64,
    /// Its row; of a delete that of what it deletes.
    row: u32,
    /// Where its preds begin in the edges.
    edges_start: u32,
    is_delete: bool,
}

/// The ops of a change.
struct Slice {
    start: usize,
    end: usize,
    start_op: u32,
}

/// An upper bound of what the strings of a change take, which can be far more than they take in
/// the document: there equal keys are neighbours, in a change they need not be.
#[derive(Default)]
struct TextBudget<'a> {
    key: Option<&'a str>,
    mark_name: Option<&'a str>,
    bytes: u64,
}

impl<'a> TextBudget<'a> {
    fn spend(&mut self, row: &Row<'a>) {
        let key = match row.key {
            Key::Map(key) => Some(key),
            _ => None,
        };
        for (last, now) in [(&mut self.key, key), (&mut self.mark_name, row.mark_name)] {
            if let Some(text) = now
                && last.is_none_or(|last| !std::ptr::eq(last, text))
            {
                self.bytes = self.bytes.saturating_add(text.len() as u64);
            }
            *last = now;
        }
    }
}

/// Joins rows and edges by id: all ops, actor by actor and ascending.
fn merge(rows: &Rows<'_>, ids: &[Id], edges: &[Edge]) -> Result<Vec<BuiltOp>, Error> {
    let mut ops = Vec::with_capacity(ids.len());
    let mut ids = ids.iter().copied().peekable();
    let mut at = 0;
    loop {
        let row_id = ids.peek().map(|id| id.id);
        let edge_id = edges.get(at).map(|edge| edge.succ);
        let (id, is_delete) = match (row_id, edge_id) {
            (None, None) => return Ok(ops),
            (Some(row), Some(edge)) if edge < row => (edge, true),
            (None, Some(edge)) => (edge, true),
            (Some(row), _) => (row, false),
        };
        let start = at;
        while edges.get(at).is_some_and(|edge| edge.succ == id) {
            at += 1;
        }
        let edges_start = u32::try_from(start).expect("a document has fewer than 2^32 succs");
        let row = if is_delete {
            check_delete(rows, &edges[start..at])?;
            edges[start].row
        } else {
            ids.next().expect("the id was peeked at").row
        };
        ops.push(BuiltOp { id, row, edges_start, is_delete });
    }
}

/// All that one delete deletes must be at one key of one object.
fn check_delete(rows: &Rows<'_>, preds: &[Edge]) -> Result<(), Error> {
    let (first, others) = preds.split_first().expect("a delete is known by what it deletes");
    let obj = |edge: &Edge| rows.packed[edge.row as usize].obj;
    let target = |edge: &Edge| rows.target(edge.row, edge.pred);
    for other in others {
        if obj(other) != obj(first) || target(other) != target(first) {
            return Err(Error::Corrupt {
                chunk: ChunkType::Document,
                part: "succ counter column",
                row: Some(other.row),
                fault: Fault::DeleteOfDifferentKeys(op_id(other.succ).counter),
            });
        }
    }
    Ok(())
}

/// A number that orders ids by actor, then by counter.
fn place(id: OpId) -> u64 {
    u64::from(id.actor.0) << 32 | u64::from(id.counter)
}

/// The id whose [`place`] this is.
fn op_id(place: u64) -> OpId {
    OpId { counter: low(place), actor: ActorIdx(low(place >> 32)) }
}

fn from_lamport(number: u64) -> OpId {
    OpId { counter: low(number >> 32), actor: ActorIdx(low(number)) }
}

fn low(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}
