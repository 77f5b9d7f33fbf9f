//! `integrity-check`: an index is whole, and says what its documents say.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::definition::{Definition, Detail};
use crate::doclist::each_term;
use crate::error::{Error, Result};
use crate::index::{Totals, decode_sizes, indexes, prefix_length};
use crate::positions::Positions;
use crate::segment::SegmentCursor;
use crate::storage::Storage;
use crate::structure::{AVERAGES_ROW, STRUCTURE_ROW, Segment, Structure};

/// Checks the structure, all segments, and, with `compares`, the documents' texts against them.
pub(crate) fn check(store: &dyn Storage, definition: &Definition, compares: bool) -> Result<()> {
    let structure = Structure::read(store, &mut Vec::new())?;
    let mut ids: Vec<u32> = structure.segments().map(|segment| segment.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::corrupt("structure record", STRUCTURE_ROW, "names a segment twice"));
    }
    for segment in structure.segments() {
        check_segment(store, *segment, definition.detail)?;
    }
    let mut sum = 0;
    each_term(store, &structure, b"", definition.detail, &mut |key, rowid, positions| {
        if definition.detail == Detail::None {
            sum ^= place(key, rowid, 0);
        }
        for position in Positions::new(positions, definition.detail) {
            sum ^= place(key, rowid, position);
        }
        Ok(true)
    })?;
    if definition.has_texts() && compares {
        compare(store, definition, sum)?;
    }
    Ok(())
}

/// Every term of a segment is above the last, and `%_idx` finds it.
fn check_segment(store: &dyn Storage, segment: Segment, detail: Detail) -> Result<()> {
    let mut cursor = SegmentCursor::new(segment, detail);
    let mut before: Option<Vec<u8>> = None;
    let mut seeker = SegmentCursor::new(segment, detail);
    cursor.first(store)?;
    while !cursor.is_done() {
        if before.as_ref().is_some_and(|before| *before >= cursor.term) {
            return Err(cursor.fault("has terms that do not ascend"));
        }
        seeker.seek_from(store, &cursor.term)?;
        if seeker.term != cursor.term {
            return Err(cursor.fault("has a term that the index of leaves does not find"));
        }
        let mut last = None;
        while cursor.is_valid() {
            last = Some(cursor.entry.rowid);
            cursor.next(store)?;
        }
        if let Some(last) = last {
            // The doclist index, where there is one, leads to the last row.
            seeker.skip_to(store, last)?;
            if !seeker.is_valid() || seeker.entry.rowid != last {
                return Err(cursor.fault("has a row that its doclist index does not find"));
            }
        }
        before = Some(cursor.term.clone());
        cursor.next_term(store)?;
    }
    Ok(())
}

fn place(key: &[u8], rowid: i64, position: u64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.write_i64(rowid);
    hasher.write_u64(position);
    hasher.finish()
}

/// Tokens of all documents against the sum of the index, sizes and totals.
fn compare(store: &dyn Storage, definition: &Definition, found: u64) -> Result<()> {
    let mut sum = 0;
    let columns = definition.columns.len();
    let mut totals = Totals { rows: 0, tokens: vec![0; columns] };
    let (mut text, mut term, mut key) = (Vec::new(), Vec::new(), Vec::new());
    let (mut block, mut sizes) = (Vec::new(), Vec::new());
    // With less detail than positions, a term counts once a column, or once a document.
    let mut seen = rustc_hash::FxHashSet::default();
    let mut document = store.document_after(None)?;
    while let Some(rowid) = document {
        totals.rows += 1;
        seen.clear();
        if definition.has_sizes {
            if !store.sizes(rowid, &mut block)? {
                return Err(Error::corrupt("document sizes", rowid, "are absent"));
            }
            decode_sizes(&block, columns, &mut sizes);
        }
        for (number, column) in definition.columns.iter().enumerate() {
            let mut size = 0_u64;
            if !column.is_unindexed {
                store.text(rowid, number, &mut text)?;
                definition.tokenizer.tokenize(&text, &mut term, &mut |token, _, _| {
                    let token = &token[..token.len().min(32_768)];
                    let position = match definition.detail {
                        Detail::Full => (number as u64) << 32 | size,
                        Detail::Columns => (number as u64) << 32,
                        Detail::None => 0,
                    };
                    for (index, length) in indexes(definition) {
                        let Some(length) = prefix_length(token, length) else { continue };
                        key.clear();
                        key.push(b'0' + index as u8);
                        key.extend_from_slice(&token[..length]);
                        let place = place(&key, rowid, position);
                        if definition.detail == Detail::Full || seen.insert(place) {
                            sum ^= place;
                        }
                    }
                    size += 1;
                    true
                });
            }
            totals.tokens[number] += size;
            if definition.has_sizes && sizes[number] != size {
                return Err(Error::corrupt("document sizes", rowid, "are others than the text's"));
            }
        }
        document = store.document_after(Some(rowid))?;
    }
    if sum != found {
        return Err(Error::corrupt("index", STRUCTURE_ROW, "says other than the documents"));
    }
    let stored = Totals::read(store, columns)?;
    if stored != totals {
        return Err(Error::corrupt("averages record", AVERAGES_ROW, "counts other than there are"));
    }
    if definition.has_sizes && store.sizes_count()? != totals.rows {
        return Err(Error::corrupt("document sizes", 0, "are of other documents than there are"));
    }
    Ok(())
}
