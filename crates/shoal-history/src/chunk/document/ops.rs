//! Reading the op rows of a document chunk, one by one or as runs.

use super::DocumentChunk;
use super::op_table::{KeyKind, OpTable, Place, Succs};
use crate::chunk::op_runs;
use crate::column::value::{self, RawValue};
use crate::{Action, ActorIdx, InsertRun, Key, Op, OpId, ScalarRef, TextRun};

impl DocumentChunk {
    /// The ops, in document order: object by object, in a map by key and id, in a sequence by
    /// place; links are the superseding ops. The ascending order of objects is checked; within an
    /// object the order is the writer's word, not covered by the hashes. Reading allocates nothing.
    pub fn ops(&self) -> DocumentOps<'_> {
        DocumentOps::over(&self.ops, &self.payloads, 0, self.ops.len() as u32)
    }
}

/// The ops of a document chunk. Lends each op, so not an `Iterator`.
#[derive(Clone, Debug)]
pub struct DocumentOps<'a> {
    table: &'a OpTable,
    payloads: &'a [u8],
    /// The next row.
    place: Place,
    row: u32,
    /// The first row behind.
    end: u32,
    /// The place of the row's successors, if any.
    succ_run: usize,
    /// The successor of the lent op, if one.
    link: [OpId; 1],
}

impl<'a> DocumentOps<'a> {
    /// The rows from the first of `chain` on, before the row `end`, the first of a chain.
    pub(super) fn over(table: &'a OpTable, payloads: &'a [u8], chain: u32, end: u32) -> Self {
        let row = table.chains.get(chain as usize).map_or(end, |chain| chain.first_row);
        Self {
            table,
            payloads,
            place: Place { chain, at: 0 },
            row,
            end,
            succ_run: table.succ_runs.partition_point(|run| run.first_row + run.rows <= row),
            link: [OpId { counter: 0, actor: ActorIdx(0) }],
        }
    }

    /// The number of the next op's key among the strings of the chunk, in a map; see
    /// [`super::OpRows::string`].
    pub fn next_key(&self) -> Option<u32> {
        if self.remaining() == 0 {
            return None;
        }
        match self.table.segment(self.place).key {
            KeyKind::Map(string) => Some(string),
            KeyKind::Head | KeyKind::Elem(_) => None,
        }
    }

    /// The next op, or `None` after the last.
    pub fn next_op(&mut self) -> Option<Op<'_>> {
        if self.remaining() == 0 {
            return None;
        }
        let (table, place) = (self.table, self.place);
        let segment = table.segment(place);
        let payload = table.payloads(self.payloads, place, 1);
        let value = RawValue { type_code: segment.value_type, payload };
        let value = value.scalar().expect("the values were read when it was parsed");
        let succs = self.succs().0;
        self.advance(1);
        let links = match succs {
            None => &[][..],
            Some(Succs::Up(id) | Succs::Down(id)) => {
                self.link = [id];
                &self.link
            }
            Some(Succs::List { start, count }) => table.listed_of_row(start, count),
        };
        Some(Op {
            id: table.id(place),
            obj: segment.obj(),
            key: table.key(segment, place),
            insert: segment.insert,
            action: segment.action,
            value,
            expand: segment.expand,
            mark_name: table.mark_name(segment),
            links,
        })
    }

    /// The next op, or the next ones where they are a run, or `None` after the last.
    pub fn next_rows(&mut self) -> Option<DocumentRows<'_>> {
        match self.next_run() {
            Some(run) => Some(run),
            None => self.next_op().map(DocumentRows::Op),
        }
    }

    /// The next ops, if they insert a character or a scalar each, the later ones after the one
    /// before.
    fn next_run(&mut self) -> Option<DocumentRows<'a>> {
        if self.remaining() == 0 {
            return None;
        }
        let (table, place) = (self.table, self.place);
        let segment = table.segment(place);
        let value_len = segment.payload_len as usize;
        let is_text = segment.value_type == op_runs::STR && (1..=4).contains(&value_len);
        let is_plain = segment.insert
            && segment.action == Action::Set
            && !(segment.expand || segment.mark_name > 0);
        if !is_plain || !(is_text || value::is_plain(segment.value_type)) {
            return None;
        }
        let (succs, alike) = self.succs();
        let (succ, descends) = match succs {
            None => (None, false),
            Some(Succs::Up(id)) => (Some(id), false),
            Some(Succs::Down(id)) => (Some(id), true),
            Some(Succs::List { .. }) => return None,
        };
        let mut len = (table.chain_len(place.chain as usize) - place.at).min(alike) as usize;
        let mut values = table.payloads(self.payloads, place, len as u32);
        let mut text = "";
        if is_text {
            if value_len > 1 {
                let chars = values.chunks_exact(value_len);
                len = chars.take_while(|bytes| op_runs::is_char(bytes)).count();
                values = &values[..len * value_len];
            }
            // Each of the values is text, so they are so together.
            text = std::str::from_utf8(values).ok().filter(|text| !text.is_empty())?;
        }
        let run = InsertRun {
            id: table.id(place),
            obj: segment.obj(),
            reference: match table.key(segment, place) {
                Key::Elem(id) => Some(id),
                Key::Head | Key::Map(_) => None,
            },
            len: len as u32,
            succ,
            succ_descends: descends && len > 1,
        };
        self.advance(run.len);
        if is_text {
            let InsertRun { id, obj, reference, len, succ, succ_descends } = run;
            let run = TextRun { id, obj, reference, text, len, succ, succ_descends };
            return Some(DocumentRows::Text(run));
        }
        let values = Scalars { type_code: segment.value_type, len: value_len, count: len, values };
        Some(DocumentRows::Scalars(run, values))
    }

    /// The successors of the next row, and the number of rows with successors of the same form.
    fn succs(&mut self) -> (Option<Succs>, u32) {
        while let Some(run) = self.table.succ_runs.get(self.succ_run) {
            let Some(done) = self.row.checked_sub(run.first_row) else {
                return (None, run.first_row - self.row);
            };
            if done < run.rows {
                return (Some(run.succs.after(done)), run.rows - done);
            }
            self.succ_run += 1;
        }
        (None, u32::MAX)
    }

    /// Goes over rows of the chain.
    fn advance(&mut self, rows: u32) {
        self.row += rows;
        self.place.at += rows;
        if self.place.at == self.table.chain_len(self.place.chain as usize) {
            self.place = Place { chain: self.place.chain + 1, at: 0 };
        }
    }

    /// How many ops are left.
    pub fn remaining(&self) -> usize {
        (self.end - self.row) as usize
    }
}

/// One op of a document chunk, or a run of them.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentRows<'a> {
    /// One op.
    Op(Op<'a>),
    /// Typed text, alive or deleted.
    Text(TextRun<'a>),
    /// Scalars, alive or deleted.
    Scalars(InsertRun, Scalars<'a>),
}

/// The scalars of a run. They are of one type, and none is a string or a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalars<'a> {
    type_code: u8,
    /// How long each payload is.
    len: usize,
    count: usize,
    values: &'a [u8],
}

impl<'a> Iterator for Scalars<'a> {
    type Item = ScalarRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<ScalarRef<'a>> {
        self.count = self.count.checked_sub(1)?;
        let payload;
        (payload, self.values) = self.values.split_at(self.len);
        let value = RawValue { type_code: self.type_code, payload };
        Some(value.scalar().expect("the values were read when it was parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Scalars<'_> {}
