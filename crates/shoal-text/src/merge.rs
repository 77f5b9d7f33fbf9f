//! Merging segments: many of one level become one of the next.

use crate::definition::Detail;
use crate::error::Error;
use crate::error::Result;
use crate::segment::SegmentCursor;
use crate::storage::Storage;
use crate::structure::{STRUCTURE_ROW, Segment, Structure, last_row, leaf_row, tombstone_row};
use crate::writer::SegmentWriter;

/// Sizes and kinds of what is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) page_size: usize,
    pub(crate) detail: Detail,
}

/// Merges the segments of `level` into one of the level above, at most about `budget` leaves of it
/// now; the rest with the next call. Takes the leaves written off the budget.
pub(crate) fn merge_level(
    store: &dyn Storage,
    structure: &mut Structure,
    level: usize,
    shape: Shape,
    budget: &mut Option<u32>,
) -> Result<()> {
    structure.reach_level(level + 1)?;
    let has_origins = structure.next_origin > 0;
    let inputs = match structure.levels[level].merging {
        0 => {
            let id = structure.free_id()?;
            let inputs = structure.levels[level].segments.len();
            let segments = &structure.levels[level].segments;
            let mut output = Segment { id, first: 1, ..Segment::default() };
            if let (true, Some(old), Some(new)) = (has_origins, segments.first(), segments.last()) {
                output.origins = (old.origins.0, new.origins.1);
            }
            structure.levels[level + 1].segments.push(output);
            inputs
        }
        merging => merging,
    };
    let is_oldest = structure.levels[level + 1].segments.len() == 1
        && structure.levels[level + 2..].iter().all(|level| level.segments.is_empty());
    let output = *structure.levels[level + 1].segments.last().ok_or_else(|| {
        Error::corrupt("structure record", STRUCTURE_ROW, "merges into no segment")
    })?;
    let mut writer = SegmentWriter::new(output.id, output.last + 1, shape.page_size, shape.detail);
    let mut cursors = Vec::with_capacity(inputs);
    for segment in structure.levels[level].segments[..inputs].iter().rev() {
        let mut cursor = SegmentCursor::new(*segment, shape.detail);
        cursor.first(store)?;
        cursors.push(cursor);
    }
    let is_complete = merge_terms(store, &mut cursors, &mut writer, is_oldest, *budget)?;
    let (last, written) = writer.finish(store)?;
    if let Some(budget) = budget {
        *budget = budget.saturating_sub(written);
    }
    let output = structure.levels[level + 1].segments.last_mut().expect("the output is the last");
    output.last = last;
    if !is_complete {
        structure.levels[level].merging = inputs;
        return trim(store, structure, level, &cursors);
    }
    let old: Vec<Segment> = structure.levels[level].segments.drain(..inputs).collect();
    structure.levels[level].merging = 0;
    let kept = old.iter().map(|old| old.entries.saturating_sub(old.tombstones)).sum::<u64>();
    let segments = &mut structure.levels[level + 1].segments;
    segments.last_mut().expect("the output is the last").entries += kept;
    if last == 0 {
        segments.pop();
    }
    old.iter().try_for_each(|segment| remove_segment(store, segment))
}

/// Merges doclists, term by term; false where the budget ended before the terms.
fn merge_terms(
    store: &dyn Storage,
    cursors: &mut [SegmentCursor],
    writer: &mut SegmentWriter,
    is_oldest: bool,
    budget: Option<u32>,
) -> Result<bool> {
    let mut active: Vec<usize> = Vec::with_capacity(cursors.len());
    let mut term = Vec::new();
    loop {
        active.clear();
        for at in 0..cursors.len() {
            let cursor = &cursors[at];
            if cursor.is_done() {
                continue;
            }
            let order = match active.first() {
                Some(&first) => cursor.term.cmp(&cursors[first].term),
                None => std::cmp::Ordering::Less,
            };
            if order.is_lt() {
                active.clear();
            }
            if order.is_le() {
                active.push(at);
            }
        }
        let Some(&first) = active.first() else { return Ok(true) };
        if budget.is_some_and(|budget| writer.written >= budget) {
            return Ok(false);
        }
        term.clone_from(&cursors[first].term);
        let mut is_begun = false;
        loop {
            // Newest first: of equal rowids the first wins, the others are passed over.
            let mut best: Option<(usize, i64)> = None;
            for &at in &active {
                if cursors[at].is_valid() {
                    let rowid = cursors[at].entry.rowid;
                    if best.is_none_or(|(_, least)| rowid < least) {
                        best = Some((at, rowid));
                    }
                }
            }
            let Some((best, rowid)) = best else { break };
            let entry = cursors[best].entry;
            if entry.is_present || entry.is_delete && !is_oldest {
                if !is_begun {
                    writer.term(store, &term)?;
                    is_begun = true;
                }
                let positions = cursors[best].positions();
                writer.row(store, rowid, entry.is_delete, entry.is_present, positions)?;
            }
            for &at in &active {
                if cursors[at].is_valid() && cursors[at].entry.rowid == rowid {
                    cursors[at].next(store)?;
                }
            }
        }
        for &at in &active {
            cursors[at].next_term(store)?;
        }
    }
}

/// Removes from the inputs of an unfinished merge what was merged.
fn trim(
    store: &dyn Storage,
    structure: &mut Structure,
    level: usize,
    cursors: &[SegmentCursor],
) -> Result<()> {
    let inputs = cursors.len();
    for (at, cursor) in cursors.iter().rev().enumerate() {
        let segment = &mut structure.levels[level].segments[at];
        debug_assert!(at < inputs && segment.id == cursor.segment.id);
        if cursor.is_done() {
            if segment.first > 0 {
                store.remove_blocks(leaf_row(segment.id, 0), last_row(segment.id))?;
                store.remove_leaves(segment.id)?;
            }
            (segment.first, segment.last) = (0, 0);
            continue;
        }
        let (page, bytes) = cursor.trimmed(store)?;
        store.remove_blocks(leaf_row(segment.id, 1), leaf_row(segment.id, page))?;
        store.put_block(leaf_row(segment.id, page), &bytes)?;
        segment.first = page;
    }
    Ok(())
}

/// Removes the rows of a segment.
pub(crate) fn remove_segment(store: &dyn Storage, segment: &Segment) -> Result<()> {
    store.remove_blocks(leaf_row(segment.id, 0), last_row(segment.id))?;
    if segment.tombstone_pages > 0 {
        let last = tombstone_row(segment.id, segment.tombstone_pages - 1);
        store.remove_blocks(tombstone_row(segment.id, 0), last)?;
    }
    store.remove_leaves(segment.id)
}
