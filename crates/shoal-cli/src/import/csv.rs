//! Rows of separated values (RFC 4180).

use std::io::BufRead;

use csv::{ByteRecord, Reader, ReaderBuilder};
use shoal_sql::ValueRef;

use super::cells::{NotThatType, typed};
use super::target::Column;
use super::{Rows, Type};
use crate::failure::Failure;

/// Records, one after another.
pub(super) struct CsvRows<'r> {
    place: String,
    reader: Reader<Box<dyn BufRead + 'r>>,
    record: ByteRecord,
    /// How many values each record has to have.
    wanted: Option<usize>,
}

impl<'r> CsvRows<'r> {
    /// Passes over `skip` records. Records have `wanted` values, or any number of them.
    pub(super) fn open(
        place: &str,
        input: Box<dyn BufRead + 'r>,
        delimiter: u8,
        skip: u64,
        wanted: Option<usize>,
    ) -> Result<CsvRows<'r>, Failure> {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(256 << 10)
            .from_reader(input);
        let place = place.to_owned();
        let mut rows = CsvRows { place, reader, record: ByteRecord::new(), wanted: None };
        for _ in 0..skip {
            rows.next()?;
        }
        rows.wanted = wanted;
        Ok(rows)
    }

    /// The record read last.
    pub(super) fn record(&self) -> &ByteRecord {
        &self.record
    }
}

impl Rows for CsvRows<'_> {
    fn next(&mut self) -> Result<bool, Failure> {
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|error| Failure::at(&self.place, error))? {
            return Ok(false);
        }
        match self.wanted {
            Some(wanted) if self.record.len() != wanted => Err(Failure::at(
                &self.place,
                format_args!(
                    "line {}: {} values where there are {wanted} columns",
                    self.line(),
                    self.record.len()
                ),
            )),
            _ => Ok(true),
        }
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(1, csv::Position::line)
    }

    fn length(&self) -> Option<usize> {
        Some(self.record.len())
    }

    fn cell(&self, column: usize, target: &Column) -> Result<ValueRef<'_>, NotThatType> {
        match self.record.get(column) {
            Some(text) if target.as_it_stands => typed(text, Type::Text),
            // The table's affinity converts such a text as far as possible.
            Some(text) if !target.must_fit => {
                typed(text, target.kind).or_else(|_| typed(text, Type::Text))
            }
            Some(text) => typed(text, target.kind),
            None => Ok(ValueRef::Null),
        }
    }
}
