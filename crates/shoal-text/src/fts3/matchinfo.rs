//! `matchinfo`: numbers about a row's match, 32 bits each, in the machine's byte order.

use super::search::{RowPhrase, Search};
use super::store::Store;
use super::{until_nul, varint};
use crate::error::{Error, Result};

/// The format without an argument.
pub(super) const DEFAULT: &[u8] = b"pcx";
/// Numbers of a result at most.
const NUMBERS_MAX: usize = 1 << 22;

/// The numbers of the row before, for a format: numbers of the whole table stay as they are.
#[derive(Debug)]
pub(super) struct MatchInfo {
    format: Vec<u8>,
    numbers: Vec<u32>,
}

/// How many numbers a letter stands for; `None` for a letter without a meaning in the
/// table.
fn size(store: &Store<'_, '_>, letter: u8, phrases: usize) -> Option<usize> {
    let definition = store.definition;
    let columns = definition.columns.len();
    Some(match letter {
        b'p' | b'c' => 1,
        b'n' if definition.is_fts4 => 1,
        b'a' if definition.is_fts4 => columns,
        b'l' if definition.has_sizes => columns,
        b's' => columns,
        b'x' => columns * phrases * 3,
        b'y' => columns * phrases,
        b'b' => columns.div_ceil(32) * phrases,
        _ => return None,
    })
}

/// The numbers of the current row of a search.
///
/// # Errors
/// Letters unknown to the table, in SQLite's words; damaged rows.
pub(super) fn matchinfo(
    store: &Store<'_, '_>,
    search: &mut Search,
    docid: i64,
    format: &[u8],
    known: &mut Option<MatchInfo>,
) -> Result<Vec<u8>> {
    let format = until_nul(format);
    let shown = search.shown();
    let is_new = known.as_ref().is_none_or(|known| known.format != format);
    if is_new {
        let mut count = 0_usize;
        for &letter in format {
            let size = size(store, letter, shown.len()).ok_or_else(|| {
                let letter = String::from_utf8_lossy(&[letter]).into_owned();
                Error::Query(format!("unrecognized matchinfo request: {letter}"))
            })?;
            count = count.saturating_add(size);
        }
        if count > NUMBERS_MAX {
            return Err(Error::Limit(format!("matchinfo() of more than {NUMBERS_MAX} numbers")));
        }
        *known = Some(MatchInfo { format: format.to_vec(), numbers: vec![0; count] });
    }
    let Some(known) = known else { return Ok(Vec::new()) };
    let mut rest = known.numbers.as_mut_slice();
    for &letter in format {
        let (own, behind) =
            rest.split_at_mut(size(store, letter, shown.len()).unwrap_or(0).min(rest.len()));
        rest = behind;
        let columns = search.columns();
        match letter {
            b'p' => own[0] = shown.len() as u32,
            b'c' => own[0] = columns as u32,
            b'n' if is_new => own[0] = totals(store)?.0 as u32,
            b'a' if is_new => averages(store, own)?,
            b'l' => lengths(store, docid, own)?,
            b's' => {
                for (column, longest) in own.iter_mut().enumerate() {
                    let phrases = shown.iter().map(|&id| search.phrase(store, id));
                    *longest = longest_run(&phrases.collect::<Result<Vec<_>>>()?, column);
                }
            }
            b'x' => {
                if is_new {
                    for (&id, own) in shown.iter().zip(own.chunks_mut(3 * columns)) {
                        let totals = search.totals(store, id)?;
                        for ((hits, documents), own) in totals.into_iter().zip(own.chunks_mut(3)) {
                            (own[1], own[2]) = (hits, documents);
                        }
                    }
                    search.test_again()?;
                }
                for (&id, own) in shown.iter().zip(own.chunks_mut(3 * columns)) {
                    own.iter_mut().step_by(3).for_each(|hits| *hits = 0);
                    for (column, _) in search.phrase(store, id)?.places {
                        own[3 * column as usize] += 1;
                    }
                }
            }
            b'y' | b'b' => hits(search, letter == b'b', own)?,
            _ => {}
        }
    }
    Ok(known.numbers.iter().flat_map(|number| number.to_ne_bytes()).collect())
}

/// The number of documents, and the bytes behind the number.
fn totals(store: &Store<'_, '_>) -> Result<(u64, Vec<u8>)> {
    let bytes = store.totals()?;
    let mut rest = bytes.as_slice();
    let documents = varint::take(&mut rest).filter(|&count| (1..=i64::MAX as u64).contains(&count));
    let fault = || Error::corrupt("totals in row", 0, "they count no documents");
    let documents = documents.ok_or_else(fault)?;
    Ok((documents, rest.to_vec()))
}

/// Terms of a column in a document, on average.
fn averages(store: &Store<'_, '_>, out: &mut [u32]) -> Result<()> {
    let (documents, bytes) = totals(store)?;
    let mut rest = bytes.as_slice();
    for average in out {
        let terms = varint::take(&mut rest);
        let terms =
            terms.ok_or_else(|| Error::corrupt("totals in row", 0, "a column is missing"))?;
        *average = (((terms & 0xffff_ffff) + documents / 2) / documents) as u32;
    }
    Ok(())
}

/// Terms of each column in a document.
fn lengths(store: &Store<'_, '_>, docid: i64, out: &mut [u32]) -> Result<()> {
    let bytes = store.sizes(docid)?;
    let mut rest = bytes.as_slice();
    for length in out {
        let terms = varint::take(&mut rest);
        let fault = || Error::corrupt("sizes of document", docid, "a column is missing");
        *length = terms.ok_or_else(fault)? as u32;
    }
    Ok(())
}

/// The longest run of phrases one behind the other in a column, as in the query.
fn longest_run(phrases: &[RowPhrase], column: usize) -> u32 {
    // Positions as though all phrases began at the same place.
    let mut offset = 0;
    let lists = phrases.iter().map(|phrase| {
        offset -= phrase.terms as i64;
        let positions = phrase.column(column).into_iter();
        positions.map(|position| position + offset).collect::<Vec<_>>()
    });
    let lists: Vec<Vec<i64>> = lists.collect();
    let mut at = vec![0; lists.len()];
    let mut longest = 0;
    loop {
        let heads: Vec<Option<i64>> =
            lists.iter().zip(&at).map(|(list, &at)| list.get(at).copied()).collect();
        let Some(least) = heads.iter().flatten().min() else { return longest };
        let mut run = 0;
        for (place, head) in heads.iter().enumerate() {
            run = match head {
                None => 0,
                Some(_) if run == 0 || heads[place - 1] == *head => run + 1,
                Some(_) => 1,
            };
            longest = longest.max(run);
        }
        if let Some(first) = heads.iter().position(|head| head.as_ref() == Some(least)) {
            at[first] += 1;
        }
    }
}

/// Hits of each phrase in each column of the row, or a bit for each column with hits.
fn hits(search: &Search, as_bits: bool, out: &mut [u32]) -> Result<()> {
    let columns = search.columns();
    out.fill(0);
    for found in search.hits_here()? {
        if found.places.is_empty() {
            continue;
        }
        let begin = found.number * if as_bits { columns.div_ceil(32) } else { columns };
        if !as_bits && found.column.is_none_or(|column| column == 0) {
            out[begin] = 0;
        }
        for run in found.places.chunk_by(|a, b| a.0 == b.0) {
            let column = run[0].0 as usize;
            match as_bits {
                true => out[begin + column / 32] |= 1 << (column % 32),
                false => out[begin + column] = run.len() as u32,
            }
        }
    }
    Ok(())
}
