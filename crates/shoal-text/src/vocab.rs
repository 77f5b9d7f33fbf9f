//! `fts5vocab`: the terms of an index, with their documents and places.

use std::collections::VecDeque;

use crate::definition::{Definition, Detail};
use crate::doclist::each_term;
use crate::error::Result;
use crate::positions::{Positions, column, offset};
use crate::storage::Storage;
use crate::structure::Structure;

/// The three kinds of `fts5vocab` tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// A row of each term.
    Row,
    /// A row of each term and column.
    Column,
    /// A row of each place of each term.
    Instance,
}

/// A row of an `fts5vocab` table.
#[derive(Clone, Debug, PartialEq)]
pub struct VocabularyRow {
    /// The term.
    pub term: Vec<u8>,
    /// The column, where the table has one and the index knows.
    pub column: Option<usize>,
    /// Documents of the term (in the column); of an instance its rowid.
    pub documents: i64,
    /// Places of the term (in the column); of an instance its offset; none where unknown.
    pub places: Option<i64>,
}

impl Vocabulary {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Vocabulary> {
        Some(match name.to_ascii_lowercase().as_str() {
            "row" => Vocabulary::Row,
            "col" => Vocabulary::Column,
            "instance" => Vocabulary::Instance,
            _ => return None,
        })
    }

    /// All rows of the terms from `first` to `last`, both included, in their order.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn rows(
        self,
        store: &dyn Storage,
        definition: &Definition,
        first: Option<&[u8]>,
        last: Option<&[u8]>,
    ) -> Result<Vec<VocabularyRow>> {
        let structure = Structure::read(store, &mut Vec::new())?;
        let detail = definition.detail;
        let mut counts = Counts::new(self, definition.columns.len());
        each_term(store, &structure, b"0", detail, &mut |key, rowid, positions| {
            let term = &key[1..];
            if first.is_some_and(|first| term < first) {
                return Ok(true);
            }
            if last.is_some_and(|last| term > last) {
                return Ok(false);
            }
            counts.add(term, rowid, positions, detail);
            Ok(true)
        })?;
        counts.end();
        Ok(counts.rows.into())
    }
}

struct Counts {
    kind: Vocabulary,
    rows: VecDeque<VocabularyRow>,
    term: Option<Vec<u8>>,
    documents: Vec<i64>,
    places: Vec<i64>,
    /// The last row counted of each column, plus one.
    detail: Detail,
}

impl Counts {
    fn new(kind: Vocabulary, columns: usize) -> Counts {
        let count = if kind == Vocabulary::Row { 1 } else { columns.max(1) };
        Counts {
            kind,
            rows: VecDeque::new(),
            term: None,
            documents: vec![0; count],
            places: vec![0; count],
            detail: Detail::Full,
        }
    }

    fn add(&mut self, term: &[u8], rowid: i64, positions: &[u8], detail: Detail) {
        if self.term.as_deref() != Some(term) {
            self.end();
            self.term = Some(term.to_vec());
        }
        self.detail = detail;
        let places = Positions::new(positions, detail);
        match self.kind {
            Vocabulary::Row => {
                self.documents[0] += 1;
                self.places[0] += if detail == Detail::Full { places.count() as i64 } else { 0 };
            }
            Vocabulary::Column if detail == Detail::None => self.documents[0] += 1,
            Vocabulary::Column => {
                let mut before = None;
                for place in places {
                    let column = column(place);
                    let Some(count) = self.documents.get_mut(column) else { continue };
                    *count += i64::from(before != Some(column));
                    self.places[column] += 1;
                    before = Some(column);
                }
            }
            Vocabulary::Instance => {
                let row = |column, places| VocabularyRow {
                    term: term.to_vec(),
                    column,
                    documents: rowid,
                    places,
                };
                match detail {
                    Detail::None => self.rows.push_back(row(None, None)),
                    Detail::Columns => {
                        self.rows.extend(places.map(|place| row(Some(column(place)), None)));
                    }
                    Detail::Full => self.rows.extend(
                        places.map(|place| row(Some(column(place)), Some(offset(place) as i64))),
                    ),
                }
            }
        }
    }

    /// Gives the rows of the current term.
    fn end(&mut self) {
        let Some(term) = self.term.take() else { return };
        if self.kind == Vocabulary::Instance {
            return;
        }
        for number in 0..self.documents.len() {
            let documents = std::mem::take(&mut self.documents[number]);
            let places = std::mem::take(&mut self.places[number]);
            if documents == 0 {
                continue;
            }
            let has_column = self.kind == Vocabulary::Column && self.detail != Detail::None;
            let is_counted = self.detail == Detail::Full;
            self.rows.push_back(VocabularyRow {
                term: term.clone(),
                column: has_column.then_some(number),
                documents,
                places: is_counted.then_some(places),
            });
        }
    }
}
