//! A CSV file into a table made for it: the input is cut into pieces of whole rows, whose values
//! are read and encoded on all cores, and the table is filled piece after piece.
//!
//! A piece without a quote ends behind any line. In others the rows are looked for by the rules of
//! RFC 4180, on the thread that cuts.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};

use csv::{ByteRecord, Reader, ReaderBuilder};
use shoal_sql::{BulkLoader, RowEncoder, ValueRef};

use super::cells::{Misfit, value_of};
use super::target::Target;
use super::{Job, Stopped};
use crate::failure::Failure;

/// Bytes of a piece, as long as no row is longer.
const PIECE: usize = 1 << 20;

/// Rows of the input behind each other.
struct Piece {
    bytes: Vec<u8>,
    /// The line of its first byte, from 1.
    line: u64,
}

/// The input, cut.
struct Pieces<'r> {
    place: &'r str,
    input: Box<dyn BufRead + 'r>,
    delimiter: u8,
    /// Records to be passed over.
    skip: u64,
    /// Bytes read and not given.
    rest: Vec<u8>,
    line: u64,
    ended: bool,
}

/// The records of a piece's rows, each behind the one before.
struct Encoded {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Fills the table of `target`, made for this input, with the rows of `input`; gives their number.
/// `rethinks` stops at a value that the types inferred from the beginning do not hold.
///
/// # Errors
/// [`Stopped::Misfit`] for such a value; a fault of the input, with line and column.
pub(super) fn load(
    job: &Job<'_>,
    (target, rethinks): (&Target, bool),
    mut loader: BulkLoader<'_>,
    input: Box<dyn BufRead + '_>,
    (delimiter, skip): (u8, u64),
) -> Result<u64, Stopped> {
    let failed = |error: shoal_sql::Error| Failure::at(job.place, error);
    let encoder = loader.encoder();
    let rest = Vec::new();
    let place = job.place;
    let mut pieces = Pieces { place, input, delimiter, skip, rest, line: 1, ended: false };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (give, take) = mpsc::channel::<(usize, Piece)>();
    let take = Mutex::new(take);
    let (answer, answers) = mpsc::channel();
    let (give, take, encoder) = (Some(give), &take, &encoder);
    let rows = std::thread::scope(|scope| -> Result<u64, Stopped> {
        // Dropped with this closure, also after an error: the workers end then.
        let give = give;
        for _ in 0..workers {
            let answer = answer.clone();
            scope.spawn(move || {
                while let Some((number, piece)) = next_of(take) {
                    let encoded = encode(&piece, delimiter, (job, target, rethinks), encoder);
                    if answer.send((number, encoded)).is_err() {
                        break;
                    }
                }
            });
        }
        let (mut given, mut done, mut rows) = (0_usize, 0_usize, 0_u64);
        let mut waiting = BTreeMap::new();
        loop {
            while given - done < 2 * workers + 1 {
                let Some(piece) = pieces.next()? else { break };
                if let Some(give) = &give {
                    give.send((given, piece))
                        .expect("workers take pieces as long as this thread gives");
                }
                given += 1;
            }
            if given == done {
                return Ok(rows);
            }
            let encoded = loop {
                if let Some(encoded) = waiting.remove(&done) {
                    break encoded;
                }
                let (number, encoded) = answers.recv().expect("a worker answers for each piece");
                waiting.insert(number, encoded);
            };
            let Encoded { bytes, ends }: Encoded = encoded?;
            let mut start = 0;
            for end in ends {
                loader.push_record(&bytes[start..end]).map_err(failed)?;
                start = end;
                rows += 1;
            }
            done += 1;
        }
    })?;
    loader.finish().map_err(failed)?;
    Ok(rows)
}

fn next_of(take: &Mutex<Receiver<(usize, Piece)>>) -> Option<(usize, Piece)> {
    take.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn reader(bytes: &[u8], delimiter: u8) -> Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(delimiter).from_reader(bytes)
}

impl Pieces<'_> {
    /// The next piece; `None` at the end of the input.
    fn next(&mut self) -> Result<Option<Piece>, Failure> {
        loop {
            if self.ended && self.rest.is_empty() {
                return Ok(None);
            }
            if !self.ended {
                // A row longer than a piece: twice as much each time.
                let wanted = PIECE.max(self.rest.len());
                let read = (&mut self.input).take(wanted as u64).read_to_end(&mut self.rest);
                let read = read.map_err(|error| Failure::at(self.place, error))?;
                self.ended = read < wanted;
            }
            let end = if self.ended { self.rest.len() } else { self.whole_rows() };
            if end == 0 {
                continue;
            }
            let rest = self.rest.split_off(end);
            let bytes = std::mem::replace(&mut self.rest, rest);
            let line = self.line;
            self.line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let mut piece = Piece { bytes, line };
            if self.skip > 0 {
                self.pass_over(&mut piece)?;
            }
            return Ok(Some(piece));
        }
    }

    /// How many bytes from the front are whole rows; more may follow.
    fn whole_rows(&self) -> usize {
        if !self.rest.contains(&b'"') {
            return self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        }
        let mut reader = reader(&self.rest, self.delimiter);
        let mut record = ByteRecord::new();
        // The last row may go on.
        let (mut before, mut end) = (0, 0);
        while let Ok(true) = reader.read_byte_record(&mut record) {
            before = end;
            end = reader.position().byte();
        }
        usize::try_from(before).expect("a place in a buffer fits in memory")
    }

    /// Cuts records to be passed over from the front.
    fn pass_over(&mut self, piece: &mut Piece) -> Result<(), Failure> {
        let mut reader = reader(&piece.bytes, self.delimiter);
        let mut record = ByteRecord::new();
        while self.skip > 0 {
            let more = reader.read_byte_record(&mut record);
            if !more.map_err(|error| Failure::at(self.place, error))? {
                break;
            }
            self.skip -= 1;
        }
        let end = usize::try_from(reader.position().byte()).expect("a place in a buffer fits");
        let passed = piece.bytes.drain(..end).filter(|byte| *byte == b'\n').count();
        piece.line += passed as u64;
        Ok(())
    }
}

/// Encodes the rows of a piece.
fn encode(
    piece: &Piece,
    delimiter: u8,
    (job, target, rethinks): (&Job<'_>, &Target, bool),
    encoder: &RowEncoder,
) -> Result<Encoded, Stopped> {
    let mut encoded = Encoded { bytes: Vec::with_capacity(piece.bytes.len()), ends: Vec::new() };
    let mut push = |values: &[ValueRef<'_>], line: u64| -> Result<(), Stopped> {
        if values.len() != target.given {
            let (found, wanted) = (values.len(), target.given);
            let why = format_args!("line {line}: {found} values where there are {wanted} columns");
            return Err(Failure::at(job.place, why).into());
        }
        let failed = |error: shoal_sql::Error| Failure::at(job.place, error);
        encoder.encode(values, &mut encoded.bytes).map_err(failed)?;
        encoded.ends.push(encoded.bytes.len());
        Ok(())
    };
    let mut values = Vec::with_capacity(target.given);
    if !piece.bytes.contains(&b'"') && !piece.bytes.contains(&b'\r') {
        for (line, row) in (piece.line..).zip(piece.bytes.split(|byte| *byte == b'\n')) {
            if row.is_empty() {
                continue;
            }
            values.clear();
            for (column, text) in row.split(|byte| *byte == delimiter).enumerate() {
                values.push(cell(text, column, line, (job, target, rethinks))?);
            }
            push(&values, line)?;
        }
        return Ok(encoded);
    }
    let mut reader = reader(&piece.bytes, delimiter);
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| Failure::at(job.place, error))? {
        let line = record.position().map_or(1, csv::Position::line) + piece.line - 1;
        let mut values = Vec::with_capacity(target.given);
        for (column, text) in record.iter().enumerate() {
            values.push(cell(text, column, line, (job, target, rethinks))?);
        }
        push(&values, line)?;
    }
    Ok(encoded)
}

/// The value of a cell.
fn cell<'t>(
    text: &'t [u8],
    column: usize,
    line: u64,
    (job, target, rethinks): (&Job<'_>, &Target, bool),
) -> Result<ValueRef<'t>, Stopped> {
    // A row too long is refused as such.
    let Some(known) = target.columns.get(column) else { return Ok(ValueRef::Null) };
    value_of(text, known, rethinks).map_err(|misfit| match misfit {
        Misfit::Rethink => Stopped::Misfit,
        Misfit::Wrong(wrong) => {
            let why = format!("line {line}, column {}: {wrong}", known.name);
            let failure = Failure::at(job.place, why);
            match wrong.is_after_sample(target) {
                true => failure.hint(super::SAMPLE_HINT).into(),
                false => failure.into(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text, from pieces as short as `wanted` asks.
    fn rows(text: &[u8], skip: u64) -> Vec<(u64, Vec<Vec<u8>>)> {
        let input: Box<dyn BufRead> = Box::new(text);
        let rest = Vec::new();
        let mut pieces =
            Pieces { place: "t", input, delimiter: b',', skip, rest, line: 1, ended: false };
        let mut found = Vec::new();
        while let Some(piece) = pieces.next().unwrap() {
            let mut reader = reader(&piece.bytes, b',');
            let mut record = ByteRecord::new();
            while reader.read_byte_record(&mut record).unwrap() {
                let line = record.position().unwrap().line() + piece.line - 1;
                found.push((line, record.iter().map(<[u8]>::to_vec).collect()));
            }
        }
        found
    }

    /// Pieces give the rows and the lines that one reader of everything gives.
    #[test]
    fn pieces_are_the_whole() {
        let quoted = b"1,\"a\nb\"\r\n\"x\"\"\n\",2\n\n3,plain\r\n".as_slice();
        let plain = b"1,abc\n22,defg\n\n333,h\n".as_slice();
        let odd = b"1,a\"b\n2,\"c\"d\n".as_slice();
        for part in [quoted, plain, odd] {
            let mut text = Vec::new();
            while text.len() < 3 * PIECE + 100 {
                text.extend_from_slice(part);
                // Rows of all lengths, so that pieces end in all places of a row.
                text.extend_from_slice(b"0,");
                text.resize(text.len() + text.len() % 97, b'z');
                text.push(b'\n');
            }
            for text in [&text[..], &text[..text.len() - 1]] {
                let mut reader = reader(text, b',');
                let mut expect = Vec::new();
                let mut record = ByteRecord::new();
                while reader.read_byte_record(&mut record).unwrap() {
                    let line = record.position().unwrap().line();
                    let cells: Vec<Vec<u8>> = record.iter().map(<[u8]>::to_vec).collect();
                    expect.push((line, cells));
                }
                assert!(rows(text, 0) == expect);
                assert!(rows(text, 3) == expect[3..]);
            }
        }
    }

    #[test]
    fn a_row_may_be_longer_than_a_piece() {
        let mut text = b"1,\"".to_vec();
        text.resize(5 * PIECE, b'\n');
        text.extend_from_slice(b"\"\n2,b\n");
        let found = rows(&text, 0);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].1[1], b"b");
    }
}
