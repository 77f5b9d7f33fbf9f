//! Compares an index with the indexed texts.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::definition::Content;
use super::postings::Filter;
use super::segment::scan;
use super::store::Store;
use super::until_nul;
use crate::error::Result;
use crate::module::text_of;

/// A place of a term: language, index, term, document, column, position.
type Entry<'e> = (i64, usize, &'e [u8], i64, u32, u32);

fn hash(entry: Entry<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    entry.hash(&mut hasher);
    hasher.finish()
}

/// True where the index has the terms of all texts and no others; sums of hashes are compared.
/// Indexes of tables without texts are read alone. Cost: all texts, all segments.
///
/// # Errors
/// Damaged structures; faults of the file.
pub(super) fn is_whole(store: &Store<'_, '_>) -> Result<bool> {
    let definition = store.definition;
    let columns = definition.columns.len();
    let mut indexed = 0_u64;
    let mut places = Vec::new();
    for language in store.languages()? {
        for index in 0..=definition.prefixes.len() {
            let segments = store.index_segments(language, index)?;
            scan(
                store,
                &segments,
                b"",
                false,
                Filter::default(),
                |_| true,
                |term, postings| {
                    for at in 0..postings.len() {
                        let Some(docid) = postings.docid(at) else { break };
                        postings.places(at, columns, &mut places)?;
                        for &(column, position) in &places {
                            let entry = (language, index, term, docid, column, position);
                            indexed = indexed.wrapping_add(hash(entry));
                        }
                    }
                    Ok(())
                },
            )?;
        }
    }
    if definition.content == Content::Nowhere {
        return Ok(true);
    }
    let mut texts = 0_u64;
    let (mut ahead, mut last, mut text) = (Vec::new(), None, Vec::new());
    loop {
        store.rowids(last, false, &mut ahead)?;
        last = ahead.last().copied();
        if last.is_none() {
            return Ok(indexed == texts);
        }
        for &docid in &ahead {
            store.step()?;
            let Some(values) = store.document(docid)? else { continue };
            let language = values.get(columns).map_or(0, |value| i64::from(value.to_int() as i32));
            for (column, value) in values.iter().take(columns).enumerate() {
                if definition.unindexed[column] {
                    continue;
                }
                text_of(value, &mut text);
                let mut position = 0_u32;
                definition.tokenizer.tokenize(until_nul(&text), &mut |term, _, _| {
                    let mut add = |index, term| {
                        let entry = (language, index, term, docid, column as u32, position);
                        texts = texts.wrapping_add(hash(entry));
                    };
                    add(0, term);
                    for (index, &length) in definition.prefixes.iter().enumerate() {
                        if let Some(prefix) = term.get(..length) {
                            add(index + 1, prefix);
                        }
                    }
                    position += 1;
                    true
                });
            }
        }
    }
}
