//! The rows of one table in two files, by a merge-join of both.

use std::cmp::Ordering;

use shoal_sql::{Connection, RowWalk, Value};

use crate::Error;
use crate::changeset::{Op, push_value};
use crate::shape::{Identity, Shape};
use crate::sink::RowDiff;

/// A comparison of one table.
pub(crate) struct Comparison<'s> {
    pub(crate) shape: &'s Shape,
    /// True where both definitions are the same text, and so equal bytes are equal rows.
    pub(crate) has_same_definition: bool,
    /// True for deletions first and insertions last, an update of a unique column being both.
    pub(crate) in_stages: bool,
}

/// Rows of a table in the order of their rowids or keys, by which rows of two files are matched.
pub(crate) trait Rows {
    /// Goes to the next row; false behind the last.
    fn next(&mut self) -> Result<bool, Error>;

    /// True on a row.
    fn is_valid(&self) -> bool;

    /// Passes over rows that are equal in both files, where that is known without reading them;
    /// true when there were some.
    fn skip_equal(&mut self, other: &mut Self) -> Result<bool, Error>;

    /// The order of both rows by what they are matched by.
    fn compare(&mut self, other: &mut Self) -> Result<Ordering, Error>;

    /// True where both rows are known to have equal values.
    fn is_equal(&mut self, other: &mut Self) -> Result<bool, Error>;

    /// The row.
    fn read(&mut self, shape: &Shape) -> Result<Row, Error>;
}

/// A row read.
pub(crate) struct Row {
    /// The rowid, where there is one to be seen.
    pub(crate) rowid: Option<i64>,
    pub(crate) values: Vec<Value>,
}

impl Rows for RowWalk<'_> {
    fn next(&mut self) -> Result<bool, Error> {
        Ok(RowWalk::next(self)?)
    }

    fn is_valid(&self) -> bool {
        RowWalk::is_valid(self)
    }

    fn skip_equal(&mut self, other: &mut Self) -> Result<bool, Error> {
        Ok(self.skip_equal_page(other)?)
    }

    fn compare(&mut self, other: &mut Self) -> Result<Ordering, Error> {
        Ok(RowWalk::compare(self, other)?)
    }

    fn is_equal(&mut self, other: &mut Self) -> Result<bool, Error> {
        Ok(self.record()? == other.record()?)
    }

    fn read(&mut self, shape: &Shape) -> Result<Row, Error> {
        Ok(Row { values: shape.read(self)?, rowid: self.rowid()? })
    }
}

/// Takes a row of the first file, of the second, or both.
type EachPair<'e, R> = dyn FnMut(Option<&mut R>, Option<&mut R>) -> Result<(), Error> + 'e;

pub(crate) type Emit<'e> = dyn FnMut(&RowDiff<'_>) -> Result<(), Error> + 'e;

impl Comparison<'_> {
    /// Tells of every row in one file alone or with other values.
    ///
    /// Cost: a comparison of bytes a page where both pages are equal; memory for rows matched by a
    /// key beside rowids only: key and rowid of each row differing at its rowid.
    pub(crate) fn run(
        &self,
        a: &mut Connection,
        b: &mut Connection,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        let name = &self.shape.head.table;
        if self.shape.identity == Identity::Key {
            let (mut left, mut right) = (a.row_walk(name)?, b.row_walk(name)?);
            return self.by_key(&mut left, &mut right, emit);
        }
        let stages: &[Option<Op>] = match self.in_stages && self.shape.has_unique() {
            true => &[Some(Op::Delete), Some(Op::Update), Some(Op::Insert)],
            false => &[None],
        };
        for stage in stages {
            let (mut left, mut right) = (a.row_walk(name)?, b.row_walk(name)?);
            self.tell(&mut left, &mut right, *stage, emit)?;
        }
        Ok(())
    }

    /// Tells of the rows of one stage, or of all in the order of their keys.
    pub(crate) fn tell<R: Rows>(
        &self,
        left: &mut R,
        right: &mut R,
        stage: Option<Op>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        self.join(left, right, &mut |left, right| match (left, right) {
            (Some(left), None) => self.one(Op::Delete, left, stage, emit),
            (None, Some(right)) => self.one(Op::Insert, right, stage, emit),
            (Some(left), Some(right)) => self.two(left, right, stage, emit),
            (None, None) => Ok(()),
        })
    }

    /// Walks over both tables, and calls `each` with the rows in one alone, and with pairs of equal
    /// rowid or key that may differ.
    fn join<R: Rows>(
        &self,
        left: &mut R,
        right: &mut R,
        each: &mut EachPair<'_, R>,
    ) -> Result<(), Error> {
        left.next()?;
        right.next()?;
        while left.is_valid() && right.is_valid() {
            if self.has_same_definition && left.skip_equal(right)? {
                continue;
            }
            match left.compare(right)? {
                Ordering::Less => {
                    each(Some(left), None)?;
                    left.next()?;
                }
                Ordering::Greater => {
                    each(None, Some(right))?;
                    right.next()?;
                }
                Ordering::Equal => {
                    if !self.has_same_definition || !left.is_equal(right)? {
                        each(Some(left), Some(right))?;
                    }
                    left.next()?;
                    right.next()?;
                }
            }
        }
        while left.is_valid() {
            each(Some(left), None)?;
            left.next()?;
        }
        while right.is_valid() {
            each(None, Some(right))?;
            right.next()?;
        }
        Ok(())
    }

    /// Tells of a row in one file alone.
    fn one<R: Rows>(
        &self,
        op: Op,
        rows: &mut R,
        stage: Option<Op>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        if stage.is_some_and(|stage| stage != op) {
            return Ok(());
        }
        let Row { rowid, values } = rows.read(self.shape)?;
        let (old, new): (&[Value], &[Value]) = match op {
            Op::Insert => (&[], &values),
            _ => (&values, &[]),
        };
        emit(&RowDiff { shape: self.shape, op, rowid, old, new })
    }

    /// Tells of a row in both files, unless all values are the same.
    fn two<R: Rows>(
        &self,
        left: &mut R,
        right: &mut R,
        stage: Option<Op>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape;
        let (Row { rowid, values: old }, new) = (left.read(shape)?, right.read(shape)?.values);
        if old == new {
            return Ok(());
        }
        let mut tell = |op: Op| {
            if stage.is_some_and(|stage| stage != op) {
                return Ok(());
            }
            let (old, new): (&[Value], &[Value]) = match op {
                Op::Insert => (&[], &new),
                Op::Delete => (&old, &[]),
                Op::Update => (&old, &new),
            };
            emit(&RowDiff { shape, op, rowid, old, new })
        };
        // Keys equal by their collation alone are two keys.
        let is_split =
            !shape.has_same_key(&old, &new) || (self.in_stages && shape.changes_unique(&old, &new));
        if is_split {
            tell(Op::Delete)?;
            return tell(Op::Insert);
        }
        tell(Op::Update)
    }

    /// Rows of a table with rowids and a key beside them: rows alike at the same rowid are passed
    /// over, the others matched by key. Deletions come first, insertions last.
    fn by_key<'w>(
        &self,
        left: &mut RowWalk<'w>,
        right: &mut RowWalk<'w>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        let mut rest = [Rest::default(), Rest::default()];
        self.join(left, right, &mut |left, right| {
            if let Some(walk) = left {
                rest[0].push(self.shape, walk)?;
            }
            match right {
                Some(walk) => rest[1].push(self.shape, walk),
                None => Ok(()),
            }
        })?;
        let [mut before, mut after] = rest;
        before.keyed.sort_unstable();
        after.keyed.sort_unstable();
        let mut pairs = Vec::new();
        join_sorted(&before.keyed, &after.keyed, &mut pairs);
        let places = |rowids: Vec<i64>| rowids.into_iter().map(|rowid| (rowid, rowid)).collect();
        let unkeyed: [Vec<(i64, i64)>; 2] = [places(before.unkeyed), places(after.unkeyed)];
        join_sorted(&unkeyed[0], &unkeyed[1], &mut pairs);
        drop((before.keyed, after.keyed));
        let stages: &[Option<Op>] = &[Some(Op::Delete), Some(Op::Update), Some(Op::Insert)];
        for stage in stages {
            for (old, new) in &pairs {
                let [old, new] = [*old, *new];
                if let Some(rowid) = old {
                    left.seek(rowid)?;
                }
                if let Some(rowid) = new {
                    right.seek(rowid)?;
                }
                match (old, new) {
                    (Some(_), None) => self.one(Op::Delete, left, *stage, emit)?,
                    (None, Some(_)) => self.one(Op::Insert, right, *stage, emit)?,
                    _ => self.two(left, right, *stage, emit)?,
                }
            }
        }
        Ok(())
    }
}

/// Rows still without a partner.
#[derive(Default)]
struct Rest {
    /// Key and rowid.
    keyed: Vec<(Vec<u8>, i64)>,
    /// The rowids of rows with NULL in their key, ascending.
    unkeyed: Vec<i64>,
}

impl Rest {
    fn push(&mut self, shape: &Shape, walk: &mut RowWalk<'_>) -> Result<(), Error> {
        let row = shape.read(walk)?;
        let rowid = walk.rowid()?.unwrap_or_default();
        if shape.has_null_key(&row) {
            self.unkeyed.push(rowid);
            return Ok(());
        }
        let mut key = Vec::new();
        for column in shape.head.key_columns() {
            push_value(Some(row[column].as_ref()), &mut key);
        }
        self.keyed.push((key, rowid));
        Ok(())
    }
}

/// The rowids of two sorted lists, paired by key; `None` for a key in one list alone.
fn join_sorted<K: Ord>(
    a: &[(K, i64)],
    b: &[(K, i64)],
    pairs: &mut Vec<(Option<i64>, Option<i64>)>,
) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let left = if order.is_le() { a.next().map(|(_, rowid)| *rowid) } else { None };
        let right = if order.is_ge() { b.next().map(|(_, rowid)| *rowid) } else { None };
        pairs.push((left, right));
    }
}
