//! The documents of a term, merged from the doclists of its segments.
//!
//! A doclist in the file: the first docid, then differences of docids, each followed by a position
//! list and the byte 0. A document without positions was deleted from older segments.

use super::positions::{self, Place};
use super::varint;
use crate::error::{Error, Result};

/// Documents in ascending order, each with its position list.
#[derive(Clone, Debug, Default)]
pub(super) struct Postings {
    docs: Vec<Doc>,
    bytes: Vec<u8>,
}

/// A document, and its list in the bytes.
#[derive(Clone, Copy, Debug)]
struct Doc {
    id: i64,
    start: usize,
    end: usize,
}

/// The positions of a term wanted by a phrase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    pub(super) column: Option<usize>,
    /// At the begin of a column.
    pub(super) is_first: bool,
}

/// A place in the file for faults: a structure and its row.
pub(super) type Origin = (&'static str, i64);

/// The documents of a doclist on their way.
struct Doclist<'b> {
    rest: &'b [u8],
    origin: Origin,
    is_descending: bool,
    docid: i64,
    list: &'b [u8],
    is_begun: bool,
}

impl<'b> Doclist<'b> {
    /// Goes to the next document; false behind the last.
    fn next(&mut self) -> Result<bool> {
        let (structure, place) = self.origin;
        let fault = |why| Error::corrupt(structure, place, why);
        if self.is_begun {
            // Zeros behind a list are left from a longer list.
            let zeros = self.rest.iter().take_while(|&&byte| byte == 0).count();
            self.rest = &self.rest[zeros..];
            if self.rest.is_empty() {
                return Ok(false);
            }
        }
        let delta = varint::take(&mut self.rest).ok_or_else(|| fault("a docid is cut off"))?;
        let before = self.docid;
        self.docid = match self.is_begun && self.is_descending {
            true => before.wrapping_sub(delta as i64),
            false => before.wrapping_add(delta as i64),
        };
        let is_ordered = match self.is_descending {
            true => self.docid < before,
            false => self.docid > before,
        };
        if self.is_begun && !is_ordered {
            return Err(fault("docids are out of order"));
        }
        self.is_begun = true;
        let length = positions::length(self.rest);
        let length = length.ok_or_else(|| fault("a position list has no end"))?;
        self.list = &self.rest[..length];
        self.rest = &self.rest[length + 1..];
        Ok(true)
    }
}

impl Postings {
    /// Merges doclists, the oldest first: of a document in several the newest counts.
    ///
    /// # Errors
    /// A damaged doclist.
    pub(super) fn merge(
        lists: &[(&[u8], Origin)],
        is_descending: bool,
        columns: usize,
        filter: Filter,
    ) -> Result<Postings> {
        let mut open = Vec::with_capacity(lists.len());
        for &(rest, origin) in lists.iter().rev() {
            let mut list =
                Doclist { rest, origin, is_descending, docid: 0, list: &[], is_begun: false };
            if list.next()? {
                open.push(list);
            }
        }
        let mut postings = Postings::default();
        let mut places = Vec::new();
        while let Some(first) = open
            .iter()
            .map(|list| list.docid)
            .reduce(|a, b| if is_descending { a.max(b) } else { a.min(b) })
        {
            let newest = open.iter().find(|list| list.docid == first).map_or(&[][..], |it| it.list);
            postings.push_filtered(first, newest, columns, filter, &mut places)?;
            let mut at = 0;
            while let Some(list) = open.get_mut(at) {
                if list.docid != first || list.next()? {
                    at += 1;
                } else {
                    open.remove(at);
                }
            }
        }
        if is_descending {
            postings.docs.reverse();
        }
        Ok(postings)
    }

    fn push_filtered(
        &mut self,
        docid: i64,
        list: &[u8],
        columns: usize,
        filter: Filter,
        places: &mut Vec<Place>,
    ) -> Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        positions::decode(list, columns, docid, places)?;
        match (filter.column, filter.is_first) {
            (None, false) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(list);
                self.docs.push(Doc { id: docid, start, end: self.bytes.len() });
            }
            (column, is_first) => {
                places.retain(|&(own, position)| {
                    column.is_none_or(|column| column == own as usize)
                        && (!is_first || position == 0)
                });
                self.push(docid, places);
            }
        }
        Ok(())
    }

    /// Adds a document, unless no place is left.
    fn push(&mut self, docid: i64, places: &[Place]) {
        let start = self.bytes.len();
        positions::encode(places, &mut self.bytes);
        if self.bytes.len() > start {
            self.docs.push(Doc { id: docid, start, end: self.bytes.len() });
        }
    }

    /// The documents of any of several terms, with all of their positions.
    pub(super) fn union(mut parts: Vec<Postings>, columns: usize) -> Result<Postings> {
        if parts.len() < 2 {
            return Ok(parts.pop().unwrap_or_default());
        }
        let mut all: Vec<(Doc, usize)> = Vec::new();
        for (part, postings) in parts.iter().enumerate() {
            all.extend(postings.docs.iter().map(|&doc| (doc, part)));
        }
        all.sort_by_key(|(doc, _)| doc.id);
        let mut whole = Postings::default();
        let (mut places, mut more) = (Vec::new(), Vec::new());
        for run in all.chunk_by(|(a, _), (b, _)| a.id == b.id) {
            places.clear();
            for &(doc, part) in run {
                let list = &parts[part].bytes[doc.start..doc.end];
                positions::decode(list, columns, doc.id, &mut more)?;
                places.append(&mut more);
            }
            places.sort_unstable();
            places.dedup();
            whole.push(run[0].0.id, &places);
        }
        Ok(whole)
    }

    /// Keeps the positions `distance` behind a position of `left`, and their documents.
    pub(super) fn follow(self, left: &Postings, distance: u32, columns: usize) -> Result<Postings> {
        let mut kept = Postings::default();
        let (mut places, mut before) = (Vec::new(), Vec::new());
        for (at, doc) in self.docs.iter().enumerate() {
            let Some(beside) = left.find(doc.id) else { continue };
            left.places(beside, columns, &mut before)?;
            self.places(at, columns, &mut places)?;
            positions::follow(&before, &mut places, distance);
            kept.push(doc.id, &places);
        }
        Ok(kept)
    }

    pub(super) fn len(&self) -> usize {
        self.docs.len()
    }

    /// The docid at a place in the order.
    pub(super) fn docid(&self, at: usize) -> Option<i64> {
        self.docs.get(at).map(|doc| doc.id)
    }

    /// The place of a document in the order.
    pub(super) fn find(&self, docid: i64) -> Option<usize> {
        self.docs.binary_search_by_key(&docid, |doc| doc.id).ok()
    }

    /// Replaces `out` by the positions in the document at a place in the order.
    pub(super) fn places(&self, at: usize, columns: usize, out: &mut Vec<Place>) -> Result<()> {
        let Some(doc) = self.docs.get(at) else {
            out.clear();
            return Ok(());
        };
        positions::decode(&self.bytes[doc.start..doc.end], columns, doc.id, out)
    }
}
