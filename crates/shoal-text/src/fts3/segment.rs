//! Segments: b-trees of terms, whose leaves hold doclists.
//!
//! A node begins with its height. A leaf has height 0, then terms in ascending order: bytes shared
//! with the term before, length and bytes of the rest, length and bytes of the doclist; nothing is
//! shared by the first term: a leaf's first number is the height. Other nodes have the number of
//! their first child in `%_segments`, then terms without doclists, each between two children;
//! children have consecutive numbers.

use super::postings::{Filter, Origin, Postings};
use super::store::{Segment, Store};
use super::varint;
use crate::error::{Error, Result};

/// Height of a tree at most.
const HEIGHT_MAX: u64 = 48;

/// A leaf's terms on their way, then the terms of the leaves behind.
struct Terms<'s> {
    segment: &'s Segment,
    node: Vec<u8>,
    at: usize,
    /// The leaf in `node`, and the last one to be read; both 0 for a root.
    block: i64,
    last: i64,
    term: Vec<u8>,
    doclist: std::ops::Range<usize>,
    is_first: bool,
}

impl<'s> Terms<'s> {
    /// The terms from the leaf with `from` on; of one leaf alone where one term is sought.
    fn open(
        store: &Store<'_, '_>,
        segment: &'s Segment,
        from: &[u8],
        is_one: bool,
    ) -> Result<Terms<'s>> {
        let mut terms = Terms {
            segment,
            node: Vec::new(),
            at: 0,
            block: 0,
            last: 0,
            term: Vec::new(),
            doclist: 0..0,
            is_first: true,
        };
        if segment.first == 0 {
            terms.node.extend_from_slice(&segment.root);
            return Ok(terms);
        }
        terms.block = leaf(store, segment, from)?;
        terms.last = if is_one { terms.block } else { segment.last };
        store.block(terms.block, &mut terms.node)?;
        Ok(terms)
    }

    fn origin(&self) -> Origin {
        match self.block {
            0 => ("root of the segment in row", self.segment.row),
            block => ("segment leaf", block),
        }
    }

    /// Goes to the next term; false behind the last.
    fn next(&mut self, store: &Store<'_, '_>) -> Result<bool> {
        store.step()?;
        if self.at >= self.node.len() {
            if self.block >= self.last {
                return Ok(false);
            }
            self.block += 1;
            store.block(self.block, &mut self.node)?;
            (self.at, self.is_first) = (0, true);
        }
        let (structure, place) = self.origin();
        let fault = |why| Error::corrupt(structure, place, why);
        let mut rest = &self.node[self.at..];
        let shared = varint::take(&mut rest).ok_or_else(|| fault("a term is cut off"))?;
        if self.is_first && shared != 0 {
            return Err(fault("it is no leaf"));
        }
        let suffix = varint::take_bytes(&mut rest).filter(|suffix| !suffix.is_empty());
        let suffix = suffix.ok_or_else(|| fault("a term is empty or cut off"))?;
        let shared = usize::try_from(shared).unwrap_or(usize::MAX);
        if shared > self.term.len() {
            return Err(fault("a term shares more bytes than the one before has"));
        }
        let is_behind = self.term[shared..] < *suffix;
        if !self.is_first && !is_behind {
            return Err(fault("terms do not ascend"));
        }
        self.term.truncate(shared);
        self.term.extend_from_slice(suffix);
        let doclist = varint::take_bytes(&mut rest);
        let doclist = doclist.ok_or_else(|| fault("a doclist is cut off"))?;
        if doclist.last() != Some(&0) {
            return Err(fault("a doclist has no end"));
        }
        let end = self.node.len() - rest.len();
        self.doclist = end - doclist.len()..end;
        (self.at, self.is_first) = (end, false);
        Ok(true)
    }
}

/// The only leaf of a segment where a term can stand.
fn leaf(store: &Store<'_, '_>, segment: &Segment, term: &[u8]) -> Result<i64> {
    let mut block = Vec::new();
    let (mut node, mut origin): (&[u8], Origin) =
        (&segment.root, ("root of the segment in row", segment.row));
    let mut above = HEIGHT_MAX + 1;
    loop {
        let fault = |why| Error::corrupt(origin.0, origin.1, why);
        let mut rest = node;
        let height = varint::take(&mut rest).ok_or_else(|| fault("it is empty"))?;
        if height == 0 || height >= above {
            return Err(fault("its height does not fit its place"));
        }
        above = height;
        let child = varint::take(&mut rest).ok_or_else(|| fault("it has no child"))?;
        let mut child = child as i64;
        let mut between: Vec<u8> = Vec::new();
        let mut is_first = true;
        while !rest.is_empty() {
            let mut shared = 0;
            if !is_first {
                let taken = varint::take(&mut rest).ok_or_else(|| fault("a term is cut off"))?;
                shared = usize::try_from(taken).unwrap_or(usize::MAX);
            }
            is_first = false;
            if shared > between.len() {
                return Err(fault("a term shares more bytes than the one before has"));
            }
            let suffix = varint::take_bytes(&mut rest).filter(|suffix| !suffix.is_empty());
            let suffix = suffix.ok_or_else(|| fault("a term is empty or cut off"))?;
            between.truncate(shared);
            between.extend_from_slice(suffix);
            if term < between.as_slice() {
                break;
            }
            child = child.checked_add(1).ok_or_else(|| fault("it has too many children"))?;
        }
        if height == 1 {
            if !(segment.first..=segment.last).contains(&child) {
                return Err(fault("a child is no leaf of its segment"));
            }
            return Ok(child);
        }
        store.block(child, &mut block)?;
        (node, origin) = (&block, ("segment node", child));
    }
}

/// Gives terms from `from` on with their documents to `each`, as long as `wants` a term.
///
/// # Errors
/// A damaged segment; errors of `each`.
pub(super) fn scan(
    store: &Store<'_, '_>,
    segments: &[Segment],
    from: &[u8],
    is_one: bool,
    filter: Filter,
    mut wants: impl FnMut(&[u8]) -> bool,
    mut each: impl FnMut(&[u8], Postings) -> Result<()>,
) -> Result<()> {
    let columns = store.definition.columns.len();
    let is_descending = store.definition.is_descending;
    let mut open = Vec::with_capacity(segments.len());
    for segment in segments.iter().filter(|segment| segment.first != 0 || !segment.root.is_empty())
    {
        let mut terms = Terms::open(store, segment, from, is_one)?;
        let mut is_open = terms.next(store)?;
        while is_open && terms.term.as_slice() < from {
            is_open = terms.next(store)?;
        }
        if is_open {
            open.push(terms);
        }
    }
    let mut term = Vec::new();
    while let Some(least) = open.iter().map(|terms| terms.term.as_slice()).min() {
        if !wants(least) {
            return Ok(());
        }
        term.clear();
        term.extend_from_slice(least);
        let own = open.iter().filter(|terms| terms.term == term);
        let lists: Vec<_> =
            own.map(|terms| (&terms.node[terms.doclist.clone()], terms.origin())).collect();
        each(&term, Postings::merge(&lists, is_descending, columns, filter)?)?;
        if is_one {
            return Ok(());
        }
        let mut at = 0;
        while let Some(terms) = open.get_mut(at) {
            if terms.term != term || terms.next(store)? {
                at += 1;
            } else {
                open.remove(at);
            }
        }
    }
    Ok(())
}

/// The documents of one term of an index.
///
/// # Errors
/// As [`scan`].
fn one(
    store: &Store<'_, '_>,
    (language, index): (i64, usize),
    term: &[u8],
    filter: Filter,
) -> Result<Postings> {
    let segments = store.index_segments(language, index)?;
    let mut found = Postings::default();
    let wants = |next: &[u8]| next == term;
    scan(store, &segments, term, true, filter, wants, |_, postings| {
        found = postings;
        Ok(())
    })?;
    Ok(found)
}

/// The documents of each term of an index with a prefix.
fn all(
    store: &Store<'_, '_>,
    (language, index): (i64, usize),
    prefix: &[u8],
    filter: Filter,
    parts: &mut Vec<Postings>,
) -> Result<()> {
    let segments = store.index_segments(language, index)?;
    let wants = |next: &[u8]| next.starts_with(prefix);
    scan(store, &segments, prefix, false, filter, wants, |_, postings| {
        parts.push(postings);
        Ok(())
    })
}

/// The documents with a term, or with any term beginning with a prefix.
///
/// # Errors
/// As [`scan`].
pub(super) fn find(
    store: &Store<'_, '_>,
    language: i64,
    term: &[u8],
    is_prefix: bool,
    filter: Filter,
) -> Result<Postings> {
    if !is_prefix {
        return one(store, (language, 0), term, filter);
    }
    let prefixes = &store.definition.prefixes;
    let with_length = |length: usize| prefixes.iter().position(|&prefix| prefix == length);
    if let Some(index) = with_length(term.len()) {
        return one(store, (language, index + 1), term, filter);
    }
    let mut parts = Vec::new();
    match with_length(term.len() + 1) {
        // The index of longer prefixes lacks the term itself.
        Some(index) => {
            all(store, (language, index + 1), term, filter, &mut parts)?;
            parts.push(one(store, (language, 0), term, filter)?);
        }
        None => all(store, (language, 0), term, filter, &mut parts)?,
    }
    Postings::union(parts, store.definition.columns.len())
}
