//! The rows of a table with a match, as a set of rowids.

use rustc_hash::FxHashMap;

use crate::Error;
use crate::keep::Kept;
use crate::keep::kept_keys::KeptKeys;
use crate::session::{Room, Session};

/// A set of rowids: one bit for each rowid while they lie close together, and about the cost of a
/// key in a hash table for each lone rowid.
#[derive(Debug, Default)]
pub(crate) struct MatchedRows {
    /// A bit for each rowid from 0 on.
    near: Vec<u64>,
    /// Rowids too far away on insertion, in words of 64: the key is the rowid divided by 64.
    far: FxHashMap<i64, u64>,
    kept: Kept,
    /// The room of the statement, where memory is limited.
    room: Option<Room>,
    /// Rowids inserted when no room was left.
    rest: Option<Box<KeptKeys>>,
}

/// The bits begin with so many words: 8 KiB.
const WORDS_MIN: usize = 1 << 10;

/// Bytes of a word in the table of far rowids, roughly.
const FAR_BYTES: usize = 32;

impl MatchedRows {
    /// Keeps within the limit of a statement from now on.
    pub(crate) fn keep_within(&mut self, session: &dyn Session) {
        self.room = session.room();
    }

    /// Adds a rowid.
    ///
    /// # Errors
    /// When there is no room left and a file cannot be written.
    #[inline(always)]
    pub(crate) fn insert(&mut self, rowid: i64) -> Result<(), Error> {
        let (word, bit) = place(rowid);
        match usize::try_from(word).ok().and_then(|at| self.near.get_mut(at)) {
            Some(known) => {
                *known |= bit;
                Ok(())
            }
            None => self.insert_far(rowid),
        }
    }

    #[cold]
    fn insert_far(&mut self, rowid: i64) -> Result<(), Error> {
        let (word, bit) = place(rowid);
        if let Some(known) = self.far.get_mut(&word) {
            *known |= bit;
            return Ok(());
        }
        // Bits for the gap pay off up to as many words again as are in use.
        let len = WORDS_MIN.max(self.near.len() * 2);
        let at = usize::try_from(word).ok().filter(|&at| at < len);
        if let Some(room) = &self.room {
            let more = at.map_or(FAR_BYTES, |_| (len - self.near.len()) * size_of::<u64>());
            if self.rest.is_none() && !self.kept.try_add(room, || (more, 0)) {
                self.kept.give_back(more);
                self.rest = Some(Box::default());
            }
            if let Some(rest) = &mut self.rest {
                return rest.insert(room, &rowid.to_be_bytes()).map(drop);
            }
        }
        match at {
            Some(at) => {
                self.near.resize(len, 0);
                self.near[at] |= bit;
            }
            None => *self.far.entry(word).or_default() |= bit,
        }
        Ok(())
    }

    /// True where a rowid is in the set.
    ///
    /// # Errors
    /// When a file cannot be read.
    #[inline(always)]
    pub(crate) fn contains(&mut self, rowid: i64) -> Result<bool, Error> {
        let (word, bit) = place(rowid);
        let near = usize::try_from(word).ok().and_then(|at| self.near.get(at));
        if near.is_some_and(|known| known & bit != 0)
            || (!self.far.is_empty() && self.far.get(&word).is_some_and(|known| known & bit != 0))
        {
            return Ok(true);
        }
        match &mut self.rest {
            None => Ok(false),
            Some(rest) => rest.contains(&rowid.to_be_bytes()),
        }
    }

    /// True where all rowids from `low` to `high` are in the set, as far as the bits tell.
    pub(crate) fn contains_all(&self, low: i64, high: i64) -> bool {
        let at = |rowid: i64| usize::try_from(rowid >> 6).ok();
        let (Some(first), Some(last)) = (at(low), at(high)) else { return false };
        let Some(words) = self.near.get(first..=last.max(first)) else { return false };
        let (above, below) = (u64::MAX << (low & 63), u64::MAX >> (63 - (high & 63)));
        let all = |(number, word): (usize, &u64)| {
            let above = if number == 0 { above } else { u64::MAX };
            let below = if number == last - first { below } else { u64::MAX };
            let wanted = above & below;
            word & wanted == wanted
        };
        low <= high && words.iter().enumerate().all(all)
    }

    /// Forgets all rowids, and keeps the memory without a limit.
    pub(crate) fn clear(&mut self) {
        match self.room {
            Some(_) => self.near = Vec::new(),
            None => self.near.fill(0),
        }
        self.far.clear();
        self.kept.clear();
        self.rest = None;
    }
}

/// The word of a rowid and its bit in there.
#[inline(always)]
fn place(rowid: i64) -> (i64, u64) {
    (rowid >> 6, 1 << (rowid & 63))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Rowids near 0 and far away, in an order making the bits grow over earlier rowids.
    #[test]
    fn what_was_added_is_there() {
        let mut numbers = vec![i64::MIN, i64::MAX, -1, -64, -65, 0, 1, 63, 64, 1 << 40];
        let mut next = 1_u64;
        for _ in 0..3000 {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            numbers.push((next >> 44).cast_signed());
        }
        numbers.extend((0..400_000).step_by(7));
        numbers.extend((60..200).chain(8_001..8_290));
        let mut rows = MatchedRows::default();
        for _ in 0..2 {
            let mut model = BTreeSet::new();
            for &number in &numbers {
                assert_eq!(rows.contains(number).unwrap(), model.contains(&number), "{number}");
                rows.insert(number).unwrap();
                model.insert(number);
            }
            for number in (-300..500_000).chain([i64::MIN + 1, i64::MAX - 1, (1 << 40) + 64]) {
                assert_eq!(rows.contains(number).unwrap(), model.contains(&number), "{number}");
            }
            for low in (0..400).chain(8_000..8_300) {
                for high in (low..low + 300).chain([400_003, low - 1]) {
                    let all = (low..=high).all(|number| model.contains(&number));
                    let told = rows.contains_all(low, high);
                    assert!(
                        told == (all && low <= high) || (!told && high > 65_535),
                        "{low} {high}"
                    );
                }
            }
            rows.clear();
            assert!(numbers.iter().all(|&number| !rows.contains(number).unwrap()));
        }
    }
}
