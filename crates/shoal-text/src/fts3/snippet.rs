//! `snippet` and `offsets`: where the phrases of a query stand in a row's texts.

use super::query::Id;
use super::search::{RowPhrase, Search};
use super::store::Store;
use super::until_nul;
use crate::error::{Error, Result};

/// Fragments of a snippet at most.
const FRAGMENTS: usize = 4;
/// Score of a phrase's first place in the fragments, and of each further one.
const FIRST: i64 = 1000;

/// The arguments of `snippet`.
pub(super) struct Snippet<'a> {
    pub(super) open: &'a [u8],
    pub(super) close: &'a [u8],
    pub(super) ellipsis: &'a [u8],
    /// A column, or all.
    pub(super) column: Option<usize>,
    /// Tokens of all fragments together; of each, where negative. From -64 to 64, not 0.
    pub(super) tokens: i64,
}

/// A part of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Fragment {
    column: usize,
    /// First token.
    position: i64,
    /// Bits of phrases with places in the part.
    covered: u64,
    /// Bits of tokens to be marked.
    marked: u64,
}

/// Places of a phrase in a column, as a window of tokens moves over them.
struct Track {
    terms: usize,
    positions: Vec<i64>,
    /// The first place behind the window, and the first one within.
    head: Option<usize>,
    tail: Option<usize>,
}

impl Track {
    fn new(phrase: &RowPhrase, column: usize) -> Track {
        let positions = phrase.column(column);
        let first = (!positions.is_empty()).then_some(0);
        Track { terms: phrase.terms, positions, head: first, tail: first }
    }

    fn advance(positions: &[i64], at: &mut Option<usize>, to: i64) {
        while let Some(here) = *at {
            if positions[here] >= to {
                return;
            }
            *at = Some(here + 1).filter(|&next| next < positions.len());
        }
    }
}

/// The phrases of the row.
fn phrases(store: &Store<'_, '_>, search: &mut Search) -> Result<Vec<RowPhrase>> {
    let shown: Vec<Id> = search.shown();
    shown.into_iter().map(|id| search.phrase(store, id)).collect()
}

/// The snippet of a row with the texts `texts`; `None` without any text.
///
/// # Errors
/// Damaged position lists.
pub(super) fn snippet(
    store: &Store<'_, '_>,
    search: &mut Search,
    texts: &[Option<Vec<u8>>],
    wanted: &Snippet<'_>,
) -> Result<Option<Vec<u8>>> {
    // SQLite asks twice, too: the first time may start phrases anew.
    phrases(store, search)?;
    let phrases = phrases(store, search)?;
    let mut fragments: Vec<Fragment> = Vec::new();
    let mut length = 1;
    for count in 1..=FRAGMENTS {
        length = match wanted.tokens {
            tokens @ 0.. => (tokens + count as i64 - 1) / count as i64,
            tokens => -tokens,
        };
        fragments.clear();
        let (mut covered, mut seen) = (0, 0);
        for _ in 0..count {
            let (mut best, mut best_score) = (Fragment::default(), -1);
            for column in 0..search.columns() {
                if wanted.column.is_some_and(|wanted| wanted != column) {
                    continue;
                }
                let (fragment, score) = fragment(&phrases, column, length, covered, &mut seen);
                if score > best_score {
                    (best, best_score) = (fragment, score);
                }
            }
            covered |= best.covered;
            fragments.push(best);
        }
        if seen == covered {
            break;
        }
    }
    let mut out = None;
    for (at, fragment) in fragments.iter().enumerate() {
        let is_last = at + 1 == fragments.len();
        let text = texts.get(fragment.column).and_then(Option::as_deref);
        if let Some(text) = text {
            let out = out.get_or_insert_with(Vec::new);
            append(store, text, *fragment, (at == 0, is_last), length, wanted, out);
        }
    }
    Ok(out.map(|out| until_nul(&out).to_vec()))
}

/// The best fragment of a column for the phrases not yet covered, with its score.
fn fragment(
    phrases: &[RowPhrase],
    column: usize,
    length: i64,
    covered: u64,
    seen: &mut u64,
) -> (Fragment, i64) {
    let mut tracks: Vec<Track> = phrases.iter().map(|phrase| Track::new(phrase, column)).collect();
    for (number, track) in tracks.iter().enumerate() {
        if track.head.is_some() {
            *seen |= 1 << (number % 64);
        }
    }
    let mut best = Fragment { column, ..Fragment::default() };
    let mut best_score = -1;
    let mut start = 0;
    for track in &mut tracks {
        Track::advance(&track.positions, &mut track.head, length);
    }
    loop {
        let (mut score, mut cover, mut marked) = (0, 0_u64, 0_u64);
        for (number, track) in tracks.iter().enumerate() {
            let phrase = 1 << (number % 64);
            let from = track.tail.unwrap_or(track.positions.len());
            let inside = track.positions[from..]
                .iter()
                .take_while(|&&position| (start..start + length).contains(&position));
            for &position in inside {
                score += if (cover | covered) & phrase != 0 { 1 } else { FIRST };
                cover |= phrase;
                let last = 1_u64 << (position - start);
                for back in 0..track.terms.min(length as usize) {
                    marked |= last.checked_shr(back as u32).unwrap_or(0);
                }
            }
        }
        if score > best_score {
            best = Fragment { column, position: start, covered: cover, marked };
            best_score = score;
        }
        let heads = tracks.iter().filter_map(|track| Some(track.positions[track.head?]));
        let Some(end) = heads.min() else { return (best, best_score) };
        start = end - length + 1;
        for track in &mut tracks {
            Track::advance(&track.positions, &mut track.head, end + 1);
            Track::advance(&track.positions, &mut track.tail, start);
        }
    }
}

/// Moves a fragment until the marks are in the middle, as far as the text reaches.
fn shift(store: &Store<'_, '_>, text: &[u8], length: i64, fragment: &mut Fragment) {
    if fragment.marked == 0 {
        return;
    }
    let left = i64::from(fragment.marked.trailing_zeros());
    let right = length - 1 - (63 - i64::from(fragment.marked.leading_zeros()));
    let wanted = (left - right) / 2;
    if wanted <= 0 {
        return;
    }
    let mut tokens = 0;
    store.definition.tokenizer.tokenize(text, &mut |_, _, _| {
        tokens += 1;
        tokens <= length + wanted
    });
    // Where the text has enough tokens, the last one read is the one behind the window.
    let moved = (tokens - length).min(wanted);
    if moved > 0 {
        fragment.position += moved;
        fragment.marked = fragment.marked.checked_shr(moved as u32).unwrap_or(0);
    }
}

/// Appends a fragment's text.
fn append(
    store: &Store<'_, '_>,
    text: &[u8],
    mut fragment: Fragment,
    (is_first, is_last): (bool, bool),
    length: i64,
    wanted: &Snippet<'_>,
    out: &mut Vec<u8>,
) {
    let (mut current, mut before, mut is_shifted, mut is_cut) = (-1, 0, false, false);
    store.definition.tokenizer.tokenize(text, &mut |_, start, end| {
        current += 1;
        if current < fragment.position {
            return true;
        }
        if !is_shifted {
            is_shifted = true;
            shift(store, &text[start..], length, &mut fragment);
            if fragment.position > 0 || !is_first {
                out.extend_from_slice(wanted.ellipsis);
            } else {
                out.extend_from_slice(&text[..start]);
            }
            if current < fragment.position {
                return true;
            }
        }
        if current >= fragment.position + length {
            if is_last {
                out.extend_from_slice(wanted.ellipsis);
            }
            is_cut = true;
            return false;
        }
        let place = current - fragment.position;
        let is_marked = fragment.marked >> place & 1 == 1;
        if current > fragment.position {
            out.extend_from_slice(&text[before..start]);
        }
        if is_marked {
            out.extend_from_slice(wanted.open);
        }
        out.extend_from_slice(&text[start..end]);
        if is_marked {
            out.extend_from_slice(wanted.close);
        }
        before = end;
        true
    });
    if !is_cut {
        out.extend_from_slice(until_nul(&text[before..]));
    }
}

/// Four numbers for each term of the row: column, number of the term in the query, first byte,
/// bytes. `None` without any.
///
/// # Errors
/// Damaged position lists; a text shorter than the index knows, where the table keeps its texts.
pub(super) fn offsets(
    store: &Store<'_, '_>,
    search: &mut Search,
    docid: i64,
    texts: &[Option<Vec<u8>>],
    keeps_texts: bool,
) -> Result<Option<Vec<u8>>> {
    search.reload();
    let phrases = phrases(store, search)?;
    let mut out = String::new();
    for (column, text) in texts.iter().enumerate() {
        let Some(text) = text else { continue };
        // A term's places: the places of its phrase's last term, so many tokens before.
        let mut places: Vec<(i64, usize)> = Vec::new();
        let mut number = 0;
        for phrase in &phrases {
            let positions = phrase.column(column);
            for term in 0..phrase.terms {
                let back = (phrase.terms - term - 1) as i64;
                places.extend(positions.iter().map(|position| (position - back, number)));
                number += 1;
            }
        }
        places.sort_unstable();
        let (mut next, mut current) = (0, -1);
        store.definition.tokenizer.tokenize(text, &mut |_, start, end| {
            current += 1;
            while let Some(&(position, term)) = places.get(next) {
                if position > current {
                    return true;
                }
                next += 1;
                out.push_str(&format!("{column} {term} {start} {} ", end - start));
            }
            false
        });
        if next < places.len() && keeps_texts {
            let why = "a text has fewer terms than the index knows";
            return Err(Error::corrupt("text of document", docid, why));
        }
    }
    out.pop();
    Ok((!out.is_empty()).then(|| out.into_bytes()))
}
