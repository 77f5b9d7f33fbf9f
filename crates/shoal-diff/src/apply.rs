//! Changesets and patchsets applied to a database, in one transaction.

use shoal_sql::{Connection, ConstraintKind, Error as SqlError, Value, ValueRef};
use shoal_store::Mode;

use crate::Error;
use crate::changeset::{Change, Form, Head, Op, Reader};
use crate::concat::{Record, borrowed, owned};
use crate::rebase::push_note;
use crate::sink::Counts;

mod gathered;
mod target;

use gathered::Gathered;
pub(crate) use target::{Done, Target};

/// The ways a change may not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// The row to update or delete has other values than the change remembers.
    Data,
    /// The row to update or delete is not there.
    NotFound,
    /// A row with the key of the insertion is there.
    Conflict,
    /// A constraint refuses the row, also after all other changes of the table.
    Constraint,
}

impl ConflictKind {
    /// The conflict in words, as the end of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            ConflictKind::Data => "the row has other values",
            ConflictKind::NotFound => "the row is not there",
            ConflictKind::Conflict => "a row with the key is there",
            ConflictKind::Constraint => "a constraint refuses the row",
        }
    }
}

/// A change in conflict with the present row, and the row.
#[derive(Debug)]
pub struct Conflict<'c> {
    /// The kind.
    pub kind: ConflictKind,
    /// The change.
    pub change: &'c Change<'c, 'c>,
    /// The present row; its first columns are the change's.
    pub present: Option<&'c [Value]>,
}

/// The fate of a change in conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Leave the change out.
    Omit,
    /// Apply the change over the present row: for [`ConflictKind::Data`] and
    /// [`ConflictKind::Conflict`] alone.
    Replace,
    /// Take everything back.
    Abort,
}

/// The extent of an application.
#[derive(Default)]
pub struct ApplyOptions<'o> {
    /// True for tables to be left out, with all their changes.
    pub is_left_out: Option<&'o dyn Fn(&str) -> bool>,
}

/// The outcome of an application.
#[derive(Debug, Default)]
pub struct Applied {
    /// Rows changed.
    pub counts: Counts,
    /// Conflicts answered by leaving a change out.
    pub omitted: u64,
    /// Conflicts answered by replacing a row.
    pub replaced: u64,
    /// Tables of the changeset without a table to match here, and the reason; none of their
    /// changes was applied.
    pub skipped: Vec<(String, &'static str)>,
    /// Notes about the conflicts, for [`rebase`](crate::rebase).
    pub rebase: Vec<u8>,
}

/// Applies a changeset or a patchset as one transaction, or within the open one as a whole or not
/// at all. Foreign keys, where the connection enforces them, are checked behind the last change.
/// `handler` answers each conflict. A change refused by a constraint is tried again behind the
/// table's other changes before the change counts as a conflict.
///
/// # Errors
/// [`Error::Aborted`] by the handler, [`Error::ForeignKeys`], [`Error::Corrupt`], [`Error::Sql`];
/// nothing was applied then.
pub fn apply(
    connection: &mut Connection,
    changes: &[u8],
    options: &ApplyOptions<'_>,
    handler: &mut dyn FnMut(&Conflict<'_>) -> Answer,
) -> Result<Applied, Error> {
    let is_nested = connection.in_transaction();
    match is_nested {
        true => run(connection, "SAVEPOINT shoal_apply")?,
        false => connection.begin(Mode::Write)?,
    }
    let mut applying = Applying { connection, handler, applied: Applied::default(), noted: None };
    let done = applying.all(changes, options);
    let Applying { connection, applied, .. } = applying;
    let done = done.and_then(|()| match is_nested {
        true => Ok(run(connection, "RELEASE shoal_apply")?),
        false => connection.commit().map_err(|error| match error {
            SqlError::Constraint { constraint: ConstraintKind::ForeignKey, .. } => {
                Error::ForeignKeys
            }
            error => error.into(),
        }),
    });
    if done.is_err() && connection.in_transaction() {
        match is_nested {
            true => {
                run(connection, "ROLLBACK TO shoal_apply")?;
                run(connection, "RELEASE shoal_apply")?;
            }
            false => connection.rollback()?,
        }
    }
    done.map(|()| applied)
}

pub(crate) fn run(connection: &mut Connection, sql: &str) -> Result<(), SqlError> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement)?;
    Ok(())
}

/// Fewer changes are made one by one.
const MANY_MIN: usize = 8;

struct Applying<'a> {
    connection: &'a mut Connection,
    handler: &'a mut dyn FnMut(&Conflict<'_>) -> Answer,
    applied: Applied,
    /// The table of the last note.
    noted: Option<Head>,
}

/// A change put off until the table's other changes are done.
struct Delayed {
    op: Op,
    indirect: bool,
    old: Record,
    new: Record,
}

impl Applying<'_> {
    fn all(&mut self, changes: &[u8], options: &ApplyOptions<'_>) -> Result<(), Error> {
        run(self.connection, "PRAGMA defer_foreign_keys=ON")?;
        let mut reader = Reader::new(changes);
        let mut target: Option<Target> = None;
        let mut head = Head::default();
        let mut delayed = Vec::new();
        let mut gathered = Gathered::default();
        let mut form = Form::Changeset;
        let mut next = reader.next()?;
        while let Some(change) = next {
            form = change.form;
            if *change.head != head {
                self.finish_table(target.as_mut(), &head, form, &mut delayed)?;
                head = change.head.clone();
                target = self.target(&head, options)?;
            }
            let Some(target) = &mut target else {
                next = reader.next()?;
                continue;
            };
            if target.takes_many {
                gathered.clear();
                let fault = gathered.take(&mut reader);
                self.many(target, &gathered, &mut delayed)?;
                next = match fault? {
                    true => Some(reader.again()),
                    false => None,
                };
                continue;
            }
            self.one_or_later(target, &reader.again(), &mut delayed)?;
            next = reader.next()?;
        }
        self.finish_table(target.as_mut(), &head, form, &mut delayed)
    }

    /// Makes changes of one table together, and changes in conflict one by one, in their order: the
    /// fate of a change depends on the row of its key alone.
    fn many(
        &mut self,
        target: &mut Target,
        gathered: &Gathered<'_>,
        delayed: &mut Vec<Delayed>,
    ) -> Result<(), Error> {
        let mut start = 0;
        while start < gathered.len() {
            let edited = match gathered.len() - start {
                0..MANY_MIN => None,
                _ => self.connection.edit_rows(&target.name, &gathered.edits(start))?,
            };
            let (dealt, left) = match edited {
                Some(edited) => (edited.dealt, edited.left),
                None => (gathered.len() - start, (0..gathered.len() - start).collect()),
            };
            let mut is_left = left.iter().peekable();
            for number in 0..dealt {
                if is_left.next_if_eq(&&number).is_none() {
                    self.applied.counts.count(gathered.op(start + number));
                }
            }
            let left: Vec<usize> = left.into_iter().map(|number| start + number).collect();
            self.each(target, gathered, &left, delayed)?;
            start += dealt;
        }
        Ok(())
    }

    /// Applies changes one by one.
    fn each(
        &mut self,
        target: &mut Target,
        gathered: &Gathered<'_>,
        mut numbers: &[usize],
        delayed: &mut Vec<Delayed>,
    ) -> Result<(), Error> {
        let head = target.head.clone();
        while let [number, rest @ ..] = numbers {
            let is_insert = |number: &usize| gathered.op(*number) == Op::Insert;
            if target.takes_rows
                && numbers.len() >= MANY_MIN
                && numbers[..MANY_MIN].iter().all(is_insert)
            {
                let done = self.insert_rows(target, gathered, numbers)?;
                numbers = &numbers[done..];
                if done > 0 {
                    continue;
                }
            }
            self.one_or_later(target, &gathered.change(*number, &head), delayed)?;
            numbers = rest;
        }
        Ok(())
    }

    /// Applies a change, or puts it off.
    fn one_or_later(
        &mut self,
        target: &mut Target,
        change: &Change<'_, '_>,
        delayed: &mut Vec<Delayed>,
    ) -> Result<(), Error> {
        if !self.one(target, change, true)? {
            delayed.push(Delayed {
                op: change.op,
                indirect: change.indirect,
                old: owned(change.old),
                new: owned(change.new),
            });
        }
        Ok(())
    }

    /// Inserts rows by a writer of rows, up to the first change other than an insertion, or refused
    /// by a constraint: gives the number of rows before.
    fn insert_rows(
        &mut self,
        target: &Target,
        gathered: &Gathered<'_>,
        numbers: &[usize],
    ) -> Result<usize, Error> {
        let mut writer = self.connection.table_writer(&target.name)?;
        let mut row = Vec::new();
        for (done, number) in numbers.iter().enumerate() {
            let change = gathered.change(*number, &target.head);
            row.clear();
            row.extend((0..change.new.len()).map(|column| told(change.new, column)));
            if change.op != Op::Insert || target::is_refused(writer.insert(&row))? {
                return Ok(done);
            }
            self.applied.counts.count(Op::Insert);
        }
        Ok(numbers.len())
    }

    /// The table of a head; `None`, with a note of the reason, where no table is like the head's.
    fn target(&mut self, head: &Head, options: &ApplyOptions<'_>) -> Result<Option<Target>, Error> {
        if options.is_left_out.is_some_and(|is| is(&head.table)) {
            return Ok(None);
        }
        match Target::find(self.connection, head)? {
            Ok(target) => Ok(Some(target)),
            Err(why) => {
                self.applied.skipped.push((head.table.clone(), why));
                Ok(None)
            }
        }
    }

    /// Tries delayed changes again until none of them fits any more; the rest are conflicts.
    fn finish_table(
        &mut self,
        target: Option<&mut Target>,
        head: &Head,
        form: Form,
        delayed: &mut Vec<Delayed>,
    ) -> Result<(), Error> {
        let Some(target) = target else { return Ok(()) };
        let mut may_delay = true;
        while !delayed.is_empty() {
            let before = delayed.len();
            for change in std::mem::take(delayed) {
                let (old, new) = (borrowed(&change.old), borrowed(&change.new));
                let Delayed { op, indirect, .. } = change;
                let whole = Change { head, form, op, indirect, old: &old, new: &new };
                if !self.one(target, &whole, may_delay)? {
                    drop((old, new));
                    delayed.push(change);
                }
            }
            may_delay = delayed.len() < before;
        }
        Ok(())
    }

    /// Applies a change; false for a change to be tried again later.
    fn one(
        &mut self,
        target: &mut Target,
        change: &Change<'_, '_>,
        may_delay: bool,
    ) -> Result<bool, Error> {
        let kind = match (target.apply(self.connection, change, false)?, change.op) {
            (Done::Changed, op) => {
                self.applied.counts.count(op);
                return Ok(true);
            }
            (Done::Constraint, Op::Insert) => ConflictKind::Conflict,
            (Done::Constraint, _) => return self.refused(change, may_delay),
            (Done::NoRow, _) => ConflictKind::Data,
        };
        let present = target.present(self.connection, change)?;
        let kind = match (kind, &present) {
            (kind, Some(_)) => kind,
            (ConflictKind::Data, None) => ConflictKind::NotFound,
            (_, None) => return self.refused(change, may_delay),
        };
        let replaces = self.ask(change, kind, present.as_deref())?;
        if !replaces {
            return Ok(true);
        }
        if change.op == Op::Insert {
            target.delete(self.connection, change.new)?;
        }
        match target.apply(self.connection, change, true)? {
            Done::Constraint => self.refused(change, may_delay),
            Done::Changed | Done::NoRow => {
                self.applied.counts.count(change.op);
                Ok(true)
            }
        }
    }

    /// A constraint refused a change: later, or never.
    fn refused(&mut self, change: &Change<'_, '_>, may_delay: bool) -> Result<bool, Error> {
        if may_delay {
            return Ok(false);
        }
        self.ask(change, ConflictKind::Constraint, None)?;
        Ok(true)
    }

    /// True where the change takes the place of the present row.
    fn ask(
        &mut self,
        change: &Change<'_, '_>,
        kind: ConflictKind,
        present: Option<&[Value]>,
    ) -> Result<bool, Error> {
        let answer = (self.handler)(&Conflict { kind, change, present });
        let replaces = match answer {
            Answer::Omit => false,
            Answer::Replace if matches!(kind, ConflictKind::Data | ConflictKind::Conflict) => true,
            Answer::Replace => {
                let what = "a conflict about a missing row or a constraint cannot be replaced";
                return Err(Error::Unfit { what });
            }
            Answer::Abort => {
                let table = change.head.table.clone();
                let (op, kind) = (change.op.word(), kind.words());
                return Err(Error::Aborted { table, op, kind });
            }
        };
        match replaces {
            true => self.applied.replaced += 1,
            false => self.applied.omitted += 1,
        }
        push_note(&mut self.applied.rebase, &mut self.noted, change, replaces);
        Ok(replaces)
    }
}

/// The value of a column present in every sound change.
pub(crate) fn told<'a>(record: &[Option<ValueRef<'a>>], column: usize) -> ValueRef<'a> {
    record[column].unwrap_or(ValueRef::Null)
}
