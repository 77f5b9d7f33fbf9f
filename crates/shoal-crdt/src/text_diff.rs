//! Turning one text into another by a shortest edit script over grapheme clusters (Myers, "An O(ND)
//! Difference Algorithm and Its Variations", 1986, the linear-space form).

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::error::Error;
use crate::id::ObjId;
use crate::read_doc::ReadDoc;
use crate::transaction::Transaction;

/// One step of an edit script, in places of the two sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Equal(Range<usize>),
    Delete(Range<usize>),
    Insert(Range<usize>),
}

impl Transaction<'_> {
    /// Makes the text `new` by as few inserts and deletes of grapheme clusters as possible:
    /// concurrent edits of the rest survive. O((n + m) d) for d differences.
    ///
    /// # Errors
    /// As [`Transaction::splice_text`].
    pub fn update_text(&mut self, obj: &ObjId, new: &str) -> Result<(), Error> {
        self.text_only(obj, "update its text")?;
        let old = self.text(obj)?;
        let old: Vec<&str> = old.graphemes(true).collect();
        let new: Vec<&str> = new.graphemes(true).collect();
        let encoding = self.view().doc.text_encoding();
        let width = |parts: &[&str]| parts.iter().map(|part| encoding.width(part)).sum::<usize>();
        let mut index = 0;
        for edit in diff(&old, &new) {
            match edit {
                Edit::Equal(range) => index += width(&old[range]),
                Edit::Delete(range) => {
                    let delete = isize::try_from(width(&old[range])).unwrap_or(isize::MAX);
                    self.splice_text(obj, index, delete, "")?;
                }
                Edit::Insert(range) => {
                    let text = new[range].concat();
                    self.splice_text(obj, index, 0, &text)?;
                    index += encoding.width(&text);
                }
            }
        }
        Ok(())
    }
}

/// A shortest script from `old` to `new`; the ranges of `Equal` and `Delete` are in `old`, the
/// ranges of `Insert` in `new`.
pub(crate) fn diff<T: PartialEq>(old: &[T], new: &[T]) -> Vec<Edit> {
    let mut script = Vec::new();
    // Boxes of the edit graph still to solve, the next one last.
    let mut boxes = vec![Part::Box(0..old.len(), 0..new.len())];
    let size = usize::midpoint(old.len(), new.len()) + 3;
    let mut forward = Diagonals::new(size);
    let mut backward = Diagonals::new(size);
    while let Some(part) = boxes.pop() {
        let (mut old_range, mut new_range) = match part {
            Part::Box(old_range, new_range) => (old_range, new_range),
            Part::Equal(range) => {
                script.push(Edit::Equal(range));
                continue;
            }
        };
        let prefix = common_prefix(&old[old_range.clone()], &new[new_range.clone()]);
        if prefix > 0 {
            script.push(Edit::Equal(old_range.start..old_range.start + prefix));
        }
        old_range.start += prefix;
        new_range.start += prefix;
        let suffix = common_suffix(&old[old_range.clone()], &new[new_range.clone()]);
        if suffix > 0 {
            boxes.push(Part::Equal(old_range.end - suffix..old_range.end));
        }
        old_range.end -= suffix;
        new_range.end -= suffix;
        if new_range.is_empty() {
            if !old_range.is_empty() {
                script.push(Edit::Delete(old_range));
            }
        } else if old_range.is_empty() {
            script.push(Edit::Insert(new_range));
        } else {
            let (old_part, new_part) = (&old[old_range.clone()], &new[new_range.clone()]);
            let (x, y) = middle(old_part, new_part, &mut forward, &mut backward);
            let (x, y) = (x + old_range.start, y + new_range.start);
            boxes.push(Part::Box(x..old_range.end, y..new_range.end));
            boxes.push(Part::Box(old_range.start..x, new_range.start..y));
        }
    }
    script
}

enum Part {
    Box(Range<usize>, Range<usize>),
    Equal(Range<usize>),
}

/// How far paths have come on each diagonal; diagonals are numbered from minus to plus the size.
struct Diagonals {
    ends: Vec<usize>,
    size: usize,
}

impl Diagonals {
    fn new(size: usize) -> Self {
        Self { ends: vec![0; 2 * size + 1], size }
    }

    fn at(&self, diagonal: isize) -> usize {
        self.ends[self.size.wrapping_add_signed(diagonal)]
    }

    fn set(&mut self, diagonal: isize, x: usize) {
        let at = self.size.wrapping_add_signed(diagonal);
        self.ends[at] = x;
    }

    /// The begin of a path of `d` edits on a diagonal: from the neighbour further ahead.
    fn start(&self, d: isize, diagonal: isize) -> usize {
        let (below, above) = (diagonal - 1, diagonal + 1);
        if diagonal == -d || (diagonal != d && self.at(below) < self.at(above)) {
            self.at(above)
        } else {
            self.at(below) + 1
        }
    }
}

/// A point on a shortest path through the edit graph of two sequences, neither empty and different
/// at both ends: the meeting point of searches from both corners.
fn middle<T: PartialEq>(
    old: &[T],
    new: &[T],
    forward: &mut Diagonals,
    backward: &mut Diagonals,
) -> (usize, usize) {
    let (n, m) = (old.len(), new.len());
    let delta = n.cast_signed() - m.cast_signed();
    let is_odd = delta % 2 != 0;
    forward.set(1, 0);
    backward.set(1, 0);
    let most = (n + m).div_ceil(2).cast_signed();
    for d in 0..=most {
        for k in (-d..=d).rev().step_by(2) {
            let start = forward.start(d, k);
            let y = start.wrapping_add_signed(-k);
            let mut x = start;
            if x < n && y < m {
                x += common_prefix(&old[x..], &new[y..]);
            }
            forward.set(k, x);
            if is_odd && (k - delta).abs() < d && x + backward.at(delta - k) >= n {
                return (start, y);
            }
        }
        for k in (-d..=d).rev().step_by(2) {
            let mut x = backward.start(d, k);
            let mut y = x.wrapping_add_signed(-k);
            if x < n && y < m {
                let same = common_suffix(&old[..n - x], &new[..m - y]);
                x += same;
                y += same;
            }
            backward.set(k, x);
            if !is_odd && (k - delta).abs() <= d && x + forward.at(delta - k) >= n {
                return (n - x, m - y);
            }
        }
    }
    unreachable!("the two searches meet when each has made half of the edits")
}

fn common_prefix<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common_suffix<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_script_turns_one_into_the_other_by_as_few_edits_as_possible(
            old in prop::collection::vec(0..4_u8, 0..12),
            new in prop::collection::vec(0..4_u8, 0..12),
        ) {
            let (mut made, mut edits, mut at) = (Vec::new(), 0, 0);
            for edit in diff(&old, &new) {
                match edit {
                    Edit::Equal(range) => {
                        prop_assert_eq!(range.start, at);
                        at = range.end;
                        made.extend_from_slice(&old[range]);
                    }
                    Edit::Delete(range) => {
                        prop_assert_eq!(range.start, at);
                        at = range.end;
                        edits += range.len();
                    }
                    Edit::Insert(range) => {
                        edits += range.len();
                        made.extend_from_slice(&new[range]);
                    }
                }
            }
            prop_assert_eq!(at, old.len());
            prop_assert_eq!(&made, &new);
            let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
            for (x, a) in old.iter().enumerate() {
                for (y, b) in new.iter().enumerate() {
                    common[x + 1][y + 1] = if a == b {
                        common[x][y] + 1
                    } else {
                        common[x][y + 1].max(common[x + 1][y])
                    };
                }
            }
            prop_assert_eq!(edits, old.len() + new.len() - 2 * common[old.len()][new.len()]);
        }
    }
}
