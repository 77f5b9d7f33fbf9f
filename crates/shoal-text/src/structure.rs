//! The structure record (row 10 of `%_data`): levels of segments, and what is merged where.

use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::varint;

/// Row of `%_data` with the averages.
pub(crate) const AVERAGES_ROW: i64 = 1;
/// Row of `%_data` with the structure.
pub(crate) const STRUCTURE_ROW: i64 = 10;
/// Segments of an index at most.
pub(crate) const SEGMENT_MAX: usize = 2000;
/// Levels of an index at most.
const LEVEL_MAX: usize = 64;
/// Behind the cookie: the record's entries have origins and tombstones.
const VERSION_2: [u8; 4] = [0xff, 0, 0, 1];
/// Added to a segment's id in the rows of its tombstone pages.
const TOMBSTONES: u32 = 1 << 16;

/// Row of `%_data` with a leaf.
pub(crate) fn leaf_row(segment: u32, page: u32) -> i64 {
    row(segment, false, 0, page)
}

/// Row of `%_data` with a page of a doclist index.
pub(crate) fn doclist_index_row(segment: u32, height: u32, page: u32) -> i64 {
    row(segment, true, height, page)
}

/// Row of `%_data` with a page of tombstones.
pub(crate) fn tombstone_row(segment: u32, page: u32) -> i64 {
    row(segment + TOMBSTONES, false, 0, page)
}

/// The last row that a segment's leaves and doclist indexes may have.
pub(crate) fn last_row(segment: u32) -> i64 {
    row(segment + 1, false, 0, 0) - 1
}

fn row(segment: u32, is_doclist_index: bool, height: u32, page: u32) -> i64 {
    (i64::from(segment) << 37)
        + (i64::from(is_doclist_index) << 36)
        + (i64::from(height) << 31)
        + i64::from(page)
}

/// A segment: an ascending run of terms with their doclists, on leaves of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) id: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Smallest and largest origin of the documents within, in tables with tombstones.
    pub(crate) origins: (u64, u64),
    pub(crate) tombstone_pages: u32,
    pub(crate) tombstones: u64,
    pub(crate) entries: u64,
}

impl Segment {
    /// Leaves of the segment.
    pub(crate) fn pages(&self) -> u32 {
        (1 + self.last).saturating_sub(self.first)
    }
}

/// A level: segments from old to new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// Segments, from the oldest, whose merge into the newest of the next level has begun.
    pub(crate) merging: usize,
    pub(crate) segments: Vec<Segment>,
}

/// All segments of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure {
    /// The cookie, raised with each change of `%_config`.
    pub(crate) cookie: u32,
    /// Leaves written to level 0 since the index was made.
    pub(crate) write_counter: u64,
    /// The origin of the next segment; 0 in tables without tombstones.
    pub(crate) next_origin: u64,
    pub(crate) levels: Vec<Level>,
}

impl Structure {
    /// The structure of an index without documents.
    pub(crate) fn empty(has_tombstones: bool) -> Structure {
        Structure { next_origin: u64::from(has_tombstones), ..Structure::default() }
    }

    /// Reads the record.
    pub(crate) fn read(store: &dyn Storage, buffer: &mut Vec<u8>) -> Result<Structure> {
        if !store.block(STRUCTURE_ROW, buffer)? {
            return Err(fault("is absent"));
        }
        Structure::parse(buffer)
    }

    /// Writes the record.
    pub(crate) fn write(&self, store: &dyn Storage, buffer: &mut Vec<u8>) -> Result<()> {
        self.encode(buffer);
        store.put_block(STRUCTURE_ROW, buffer)
    }

    /// Decodes the record.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Structure> {
        let (cookie, mut rest) =
            bytes.split_first_chunk::<4>().ok_or_else(|| fault("ends in its cookie"))?;
        let has_origins = rest.starts_with(&VERSION_2);
        if has_origins {
            rest = &rest[4..];
        }
        let mut number = || {
            let (value, length) = varint::get(rest).ok_or_else(|| fault("ends too early"))?;
            rest = &rest[length..];
            Ok::<u64, Error>(value)
        };
        let small = |value: u64| u32::try_from(value).map_err(|_| fault("has a number too large"));
        let (level_count, segment_count) = (number()? as usize, number()? as usize);
        if level_count > LEVEL_MAX || segment_count > SEGMENT_MAX {
            return Err(fault("has too many levels or segments"));
        }
        let write_counter = number()?;
        let mut structure = Structure {
            cookie: u32::from_be_bytes(*cookie),
            write_counter,
            next_origin: 0,
            levels: Vec::with_capacity(level_count),
        };
        let (mut seen, mut last_origin) = (0, 0);
        for _ in 0..level_count {
            let (merging, count) = (number()? as usize, number()? as usize);
            seen += count.min(SEGMENT_MAX + 1);
            if merging > count || seen > segment_count {
                return Err(fault("counts its segments wrongly"));
            }
            let was_merging =
                structure.levels.last().is_some_and(|level: &Level| level.merging > 0);
            if was_merging && count == 0 {
                return Err(fault("merges into a level without segments"));
            }
            let mut level = Level { merging, segments: Vec::with_capacity(count) };
            for _ in 0..count {
                let mut segment = Segment {
                    id: small(number()?)?,
                    first: small(number()?)?,
                    last: small(number()?)?,
                    ..Segment::default()
                };
                if has_origins {
                    segment.origins = (number()?, number()?);
                    segment.tombstone_pages = small(number()?)?;
                    (segment.tombstones, segment.entries) = (number()?, number()?);
                    last_origin = last_origin.max(segment.origins.1);
                }
                if segment.last < segment.first || segment.last >= 1 << 31 {
                    return Err(fault("has a segment that ends before it begins"));
                }
                if !(1..=SEGMENT_MAX as u32).contains(&segment.id) {
                    return Err(fault("has a segment without a number"));
                }
                level.segments.push(segment);
            }
            structure.levels.push(level);
        }
        if structure.levels.last().is_some_and(|level| level.merging > 0) {
            return Err(fault("merges into a level that is absent"));
        }
        if seen != segment_count {
            return Err(fault("counts its segments wrongly"));
        }
        if has_origins {
            structure.next_origin = last_origin.saturating_add(1);
        }
        Ok(structure)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.cookie.to_be_bytes());
        if self.next_origin > 0 {
            out.extend_from_slice(&VERSION_2);
        }
        let count = self.segments().count();
        [self.levels.len() as u64, count as u64, self.write_counter]
            .into_iter()
            .for_each(|value| varint::put(out, value));
        for level in &self.levels {
            varint::put(out, level.merging as u64);
            varint::put(out, level.segments.len() as u64);
            for segment in &level.segments {
                for value in [segment.id, segment.first, segment.last] {
                    varint::put(out, u64::from(value));
                }
                if self.next_origin > 0 {
                    varint::put(out, segment.origins.0);
                    varint::put(out, segment.origins.1);
                    varint::put(out, u64::from(segment.tombstone_pages));
                    varint::put(out, segment.tombstones);
                    varint::put(out, segment.entries);
                }
            }
        }
    }

    /// Segments, level by level, each from old to new.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.levels.iter().flat_map(|level| &level.segments)
    }

    /// Segments from the newest to the oldest.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Segment> {
        self.levels.iter().flat_map(|level| level.segments.iter().rev())
    }

    /// The smallest free id of a segment.
    pub(crate) fn free_id(&self) -> Result<u32> {
        let mut used = [false; SEGMENT_MAX + 1];
        self.segments().for_each(|segment| used[segment.id as usize] = true);
        let free = (1..=SEGMENT_MAX).find(|&id| !used[id]);
        free.map(|id| id as u32)
            .ok_or_else(|| Error::Limit(format!("an index has at most {SEGMENT_MAX} segments")))
    }

    /// Adds level `index` and those before it.
    pub(crate) fn reach_level(&mut self, index: usize) -> Result<()> {
        if index >= LEVEL_MAX {
            return Err(Error::Limit(format!("an index has at most {LEVEL_MAX} levels")));
        }
        while self.levels.len() <= index {
            self.levels.push(Level::default());
        }
        Ok(())
    }

    /// Moves segments down to where others are of their size: after the newest of `level` was
    /// written, it may be as small as segments of a level below, or larger than some above.
    pub(crate) fn promote(&mut self, level: usize) {
        let Some(written) = self.levels[level].segments.last() else { return };
        let size = written.pages();
        let below = (0..level).rev().find(|&below| !self.levels[below].segments.is_empty());
        let largest =
            below.and_then(|below| self.levels[below].segments.iter().map(Segment::pages).max());
        let (target, bound) = match (below, largest) {
            (Some(below), Some(largest)) if largest >= size => (below, largest),
            _ => (level, size),
        };
        if self.levels[target].merging > 0 {
            return;
        }
        for above in target + 1..self.levels.len() {
            if self.levels[above].merging > 0 {
                return;
            }
            while let Some(segment) = self.levels[above].segments.last().copied() {
                if segment.pages() > bound {
                    return;
                }
                self.levels[above].segments.pop();
                self.levels[target].segments.insert(0, segment);
            }
        }
    }
}

fn fault(why: &'static str) -> Error {
    Error::corrupt("structure record", STRUCTURE_ROW, why)
}

#[cfg(test)]
mod tests {
    use super::{Level, Segment, Structure};

    #[test]
    fn a_record_comes_back() {
        for next_origin in [0, 4] {
            let segment = Segment { id: 3, first: 1, last: 700, ..Segment::default() };
            let newer = Segment { id: 1, first: 2, last: 2, ..Segment::default() };
            let mut structure =
                Structure { cookie: 7, write_counter: 300, next_origin, levels: vec![] };
            structure.levels.push(Level { merging: 1, segments: vec![segment, newer] });
            structure.levels.push(Level { merging: 0, segments: vec![segment] });
            if next_origin > 0 {
                structure.levels[0].segments[1].origins = (2, 3);
            }
            let mut bytes = Vec::new();
            structure.encode(&mut bytes);
            assert_eq!(Structure::parse(&bytes).unwrap(), structure);
            for end in 0..bytes.len() {
                assert!(Structure::parse(&bytes[..end]).is_err());
            }
        }
    }
}
