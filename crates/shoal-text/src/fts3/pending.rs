//! Terms of documents that were added or removed, until they are flushed into segments.

use std::collections::BTreeMap;

use super::definition::Definition;
use super::positions::{self, Place};
use super::varint;

/// An index: the language, and 0 or the place of a prefix.
pub(super) type Index = (i64, usize);

/// Bytes of a place or a document in memory, roughly.
const PLACE_BYTES: usize = 16;

/// Documents of a term; without places, a removed one.
type Documents = BTreeMap<i64, Vec<Place>>;

/// Terms of each index.
#[derive(Debug, Default)]
pub(super) struct Pending {
    indexes: BTreeMap<Index, BTreeMap<Vec<u8>, Documents>>,
    bytes: usize,
}

/// Terms in each column of a document, and bytes of its texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    pub(super) terms: Vec<u64>,
    pub(super) bytes: u64,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Bytes in memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds (or else removes) a document's terms, and gives its sizes.
    pub(super) fn change(
        &mut self,
        definition: &Definition,
        (language, docid): (i64, i64),
        texts: &[Option<Vec<u8>>],
        adds: bool,
    ) -> Sizes {
        let mut sizes = Sizes { terms: vec![0; definition.columns.len()], bytes: 0 };
        for (column, text) in texts.iter().enumerate() {
            let Some(text) = text.as_ref().filter(|_| !definition.unindexed[column]) else {
                continue;
            };
            sizes.bytes += text.len() as u64;
            let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
            let mut position = 0;
            definition.tokenizer.tokenize(text, &mut |term, _, _| {
                let place = adds.then_some((column as u32, position));
                self.put((language, 0), term, docid, place);
                for (index, &length) in definition.prefixes.iter().enumerate() {
                    if let Some(prefix) = term.get(..length) {
                        self.put((language, index + 1), prefix, docid, place);
                    }
                }
                position += 1;
                true
            });
            sizes.terms[column] = u64::from(position);
        }
        sizes
    }

    fn put(&mut self, index: Index, term: &[u8], docid: i64, place: Option<Place>) {
        let terms = self.indexes.entry(index).or_default();
        if !terms.contains_key(term) {
            self.bytes += term.len() + 4 * PLACE_BYTES;
            terms.insert(term.to_vec(), Documents::new());
        }
        let documents = terms.entry(term.to_vec()).or_default();
        let places = documents.entry(docid).or_default();
        self.bytes += PLACE_BYTES;
        match place {
            Some(place) => places.push(place),
            None => places.clear(),
        }
    }

    /// Takes everything: for each index its terms in ascending order, with their doclists.
    pub(super) fn take(&mut self, is_descending: bool) -> Vec<(Index, Vec<(Vec<u8>, Vec<u8>)>)> {
        self.bytes = 0;
        let indexes = std::mem::take(&mut self.indexes).into_iter();
        let doclists = |terms: BTreeMap<Vec<u8>, Documents>| {
            let terms = terms.into_iter();
            terms.map(|(term, documents)| (term, doclist(&documents, is_descending))).collect()
        };
        indexes.map(|(index, terms)| (index, doclists(terms))).collect()
    }
}

fn doclist(documents: &Documents, is_descending: bool) -> Vec<u8> {
    let mut list = Doclist::new(is_descending);
    let mut push = |(&docid, places): (&i64, &Vec<Place>)| {
        let mut bytes = Vec::new();
        positions::encode(places, &mut bytes);
        list.push(docid, &bytes);
    };
    match is_descending {
        false => documents.iter().for_each(&mut push),
        true => documents.iter().rev().for_each(&mut push),
    }
    list.bytes
}

/// A doclist in the making; documents are pushed in its order.
pub(super) struct Doclist {
    pub(super) bytes: Vec<u8>,
    is_descending: bool,
    before: Option<i64>,
}

impl Doclist {
    pub(super) fn new(is_descending: bool) -> Doclist {
        Doclist { bytes: Vec::new(), is_descending, before: None }
    }

    pub(super) fn push(&mut self, docid: i64, list: &[u8]) {
        let delta = match self.before {
            None => docid,
            Some(before) if self.is_descending => before.wrapping_sub(docid),
            Some(before) => docid.wrapping_sub(before),
        };
        varint::put(&mut self.bytes, delta as u64);
        self.bytes.extend_from_slice(list);
        self.bytes.push(0);
        self.before = Some(docid);
    }
}
