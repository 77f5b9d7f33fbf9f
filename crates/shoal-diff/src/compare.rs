//! The rows of one table in two files, by a merge-join of both b-trees.

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

/// Takes a row of the first file, of the second, or both.
type EachPair<'e> =
    dyn FnMut(Option<&mut RowWalk<'_>>, Option<&mut RowWalk<'_>>) -> Result<(), Error> + 'e;

type Emit<'e> = dyn FnMut(&RowDiff<'_>) -> Result<(), Error> + 'e;

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
            self.join(&mut left, &mut right, &mut |left, right| match (left, right) {
                (Some(left), None) => self.one(Op::Delete, left, *stage, emit),
                (None, Some(right)) => self.one(Op::Insert, right, *stage, emit),
                (Some(left), Some(right)) => self.two(left, right, *stage, emit),
                (None, None) => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Walks over both trees, and calls `each` with the rows in one alone, and with pairs of equal
    /// rowid or key whose records differ.
    fn join(
        &self,
        left: &mut RowWalk<'_>,
        right: &mut RowWalk<'_>,
        each: &mut EachPair<'_>,
    ) -> Result<(), Error> {
        left.next()?;
        right.next()?;
        while left.is_valid() && right.is_valid() {
            if self.has_same_definition && left.skip_equal_page(right)? {
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
                    if !self.has_same_definition || left.record()? != right.record()? {
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
    fn one(
        &self,
        op: Op,
        walk: &mut RowWalk<'_>,
        stage: Option<Op>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        if stage.is_some_and(|stage| stage != op) {
            return Ok(());
        }
        let row = self.shape.read(walk)?;
        let (old, new): (&[Value], &[Value]) = match op {
            Op::Insert => (&[], &row),
            _ => (&row, &[]),
        };
        emit(&RowDiff { shape: self.shape, op, rowid: walk.rowid()?, old, new })
    }

    /// Tells of a row in both files, unless all values are the same.
    fn two(
        &self,
        left: &mut RowWalk<'_>,
        right: &mut RowWalk<'_>,
        stage: Option<Op>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Error> {
        let shape = self.shape;
        let (old, new) = (shape.read(left)?, shape.read(right)?);
        if old == new {
            return Ok(());
        }
        let rowid = left.rowid()?;
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
    fn by_key(
        &self,
        left: &mut RowWalk<'_>,
        right: &mut RowWalk<'_>,
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
