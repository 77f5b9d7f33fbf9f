//! When this file stored the changes of a document, kept where compacting puts many changes into
//! one chunk.
//!
//! A chunk of one change has a row with a time. For the changes in a document chunk `_shoal_stored`
//! has runs: so many changes, in the order of the chunk, and the latest time among them. Changes
//! stored within a minute of each other are one run: the runs of a history take a small part of its
//! bytes.

use std::collections::BTreeMap;

use shoal_crdt::{Document, LoadOptions};
use shoal_history::{ActorId, Change, ChangeHash, Limits};

use crate::Error;
use crate::intake::is_change;

/// Times further apart than this are runs of their own.
const RUN_MS: i64 = 60_000;

/// Times of changes, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// By the first four bytes of the hash: the checksum in the header of a chunk. Of several
    /// changes with the same, the latest time.
    by_checksum: BTreeMap<[u8; 4], i64>,
    by_hash: BTreeMap<ChangeHash, i64>,
}

impl Times {
    /// Takes the times of the changes in a chunk stored at `stored`: for a document chunk from its
    /// runs, if any.
    pub(crate) fn add_chunk(
        &mut self,
        bytes: &[u8],
        stored: i64,
        runs: Option<&Vec<u8>>,
    ) -> Result<(), Error> {
        if is_change(bytes) {
            if let Some(Ok(checksum)) = bytes.get(4..8).map(<[u8; 4]>::try_from) {
                let known = self.by_checksum.entry(checksum).or_insert(stored);
                *known = stored.max(*known);
            }
            return Ok(());
        }
        let options = LoadOptions {
            limits: Limits { by_size: None, ..Limits::default() },
            ..LoadOptions::default()
        };
        let document = Document::load(bytes, ActorId::new(&[0]), &options)?;
        let runs = runs.and_then(|runs| decode(runs, document.changes().len()));
        for (place, change) in document.changes().enumerate() {
            let time = runs.as_ref().map_or(stored, |runs| runs[place]);
            self.by_hash.insert(change.hash(), time);
        }
        Ok(())
    }

    /// When a change was stored.
    pub(crate) fn of(&self, hash: &ChangeHash) -> Option<i64> {
        let by_hash = self.by_hash.get(hash);
        by_hash.or_else(|| self.by_checksum.get(hash.0.first_chunk::<4>()?)).copied()
    }

    /// The heads of the changes stored by `time_ms`; `None` where there is no such change.
    pub(crate) fn heads_at<'d>(
        &self,
        changes: impl Iterator<Item = &'d Change> + Clone,
        time_ms: i64,
    ) -> Option<Vec<ChangeHash>> {
        let stored =
            changes.filter(|change| self.of(&change.hash()).is_some_and(|it| it <= time_ms));
        let mut heads: std::collections::BTreeSet<ChangeHash> =
            stored.clone().map(Change::hash).collect();
        for change in stored {
            change.deps().iter().for_each(|dep| {
                heads.remove(dep);
            });
        }
        (!heads.is_empty()).then(|| heads.into_iter().collect())
    }

    /// The runs of changes in their order; `now_ms` for changes of unknown times.
    pub(crate) fn encode(&self, hashes: impl Iterator<Item = ChangeHash>, now_ms: i64) -> Vec<u8> {
        let mut runs: Vec<(u64, i64, i64)> = Vec::new();
        for hash in hashes {
            let time = self.of(&hash).unwrap_or(now_ms);
            match runs.last_mut() {
                Some((count, least, most))
                    if time.max(*most).saturating_sub(time.min(*least)) <= RUN_MS =>
                {
                    *count += 1;
                    (*least, *most) = (time.min(*least), time.max(*most));
                }
                _ => runs.push((1, time, time)),
            }
        }
        let (mut bytes, mut before) = (Vec::new(), 0_i64);
        for (count, _, time) in runs {
            write_varint(&mut bytes, count);
            let step = time.wrapping_sub(before);
            write_varint(&mut bytes, ((step << 1) ^ (step >> 63)).cast_unsigned());
            before = time;
        }
        bytes
    }
}

/// The times of `count` changes; `None` for runs of another number of changes.
fn decode(bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    let (mut times, mut rest, mut time) = (Vec::new(), bytes, 0_i64);
    while !rest.is_empty() {
        let run = usize::try_from(read_varint(&mut rest)?).ok()?;
        let step = read_varint(&mut rest)?;
        time = time.wrapping_add((step >> 1).cast_signed() ^ -(step & 1).cast_signed());
        if run > count - times.len() {
            return None;
        }
        times.resize(times.len() + run, time);
    }
    (times.len() == count).then_some(times)
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back() {
        let mut times = Times::default();
        let hash = |n: u8| ChangeHash([n; 32]);
        for (n, time) in [(1, 1_000_000), (2, 1_000_500), (3, 1_090_000), (4, 5), (5, -7)] {
            times.by_hash.insert(hash(n), time);
        }
        let bytes = times.encode((1..=6).map(hash), 2_000_000);
        let expected = [1_000_500, 1_000_500, 1_090_000, 5, 5, 2_000_000];
        assert_eq!(decode(&bytes, 6).unwrap(), expected);
        assert_eq!(decode(&bytes, 5), None);
        assert_eq!(decode(&bytes, 7), None);
        assert_eq!(decode(&bytes[..bytes.len() - 1], 6), None);
        assert_eq!(decode(&[0xff; 30], 6), None);
    }
}
