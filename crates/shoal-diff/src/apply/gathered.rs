//! Changes of one table, gathered to be made together.

use shoal_sql::{RowEdit, ValueRef};

use crate::Error;
use crate::changeset::{Change, Form, Head, Op, Reader};

/// Most values and changes gathered: some megabytes.
const VALUES_MAX: usize = 1 << 20;
const CHANGES_MAX: usize = 1 << 17;

/// Changes of one table, their values those of the changeset's bytes.
#[derive(Debug, Default)]
pub(super) struct Gathered<'a> {
    values: Vec<Option<ValueRef<'a>>>,
    changes: Vec<Kind>,
    form: Option<Form>,
    /// A record without values.
    nothing: Vec<Option<ValueRef<'a>>>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    op: Op,
    indirect: bool,
    /// Where its values begin: the old ones, then the new ones, as many as there are columns.
    start: usize,
    width: usize,
}

impl<'a> Gathered<'a> {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.changes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Takes the reader's change and those of the same table behind, as far as there is room; true
    /// where the reader has another.
    ///
    /// # Errors
    /// The reader's; what was read before is taken.
    pub(super) fn take(&mut self, reader: &mut Reader<'a>) -> Result<bool, Error> {
        let table = reader.table_number();
        loop {
            self.push(&reader.again());
            let is_more = reader.next()?.is_some();
            let is_full = self.values.len() >= VALUES_MAX || self.len() >= CHANGES_MAX;
            if !is_more || is_full || reader.table_number() != table {
                return Ok(is_more);
            }
        }
    }

    fn push(&mut self, change: &Change<'_, 'a>) {
        let (start, width) = (self.values.len(), change.old.len());
        let Change { op, indirect, old, new, form, .. } = *change;
        self.form = Some(form);
        self.nothing.resize(width, None);
        for (values, is_empty) in [(old, op == Op::Insert), (new, op == Op::Delete)] {
            if !is_empty {
                self.values.extend_from_slice(values);
            }
        }
        self.changes.push(Kind { op, indirect, start, width });
    }

    /// The operation of the change of a number.
    pub(super) fn op(&self, number: usize) -> Op {
        self.changes[number].op
    }

    /// The change of a number.
    pub(super) fn change<'s>(&'s self, number: usize, head: &'s Head) -> Change<'s, 'a> {
        let Kind { op, indirect, start, width } = self.changes[number];
        let record = |place: usize| &self.values[start + place * width..][..width];
        let (old, new) = match op {
            Op::Insert => (&*self.nothing, record(0)),
            Op::Delete => (record(0), &*self.nothing),
            Op::Update => (record(0), record(1)),
        };
        Change { head, form: self.form.unwrap_or(Form::Changeset), op, indirect, old, new }
    }

    /// The changes from a number on for [`shoal_sql::Connection::edit_rows`].
    pub(super) fn edits(&self, start: usize) -> Vec<RowEdit<'_>> {
        let edit = |kind: &Kind| {
            let record =
                |place: usize| &self.values[kind.start + place * kind.width..][..kind.width];
            match kind.op {
                Op::Insert => RowEdit::Insert(record(0)),
                Op::Delete => RowEdit::Delete(record(0)),
                Op::Update => RowEdit::Update { old: record(0), new: record(1) },
            }
        };
        self.changes[start..].iter().map(edit).collect()
    }
}
