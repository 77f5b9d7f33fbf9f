//! Sources of rows: a file, readable again and again, or a stream, whose beginning is kept.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;

use crate::failure::Failure;
use crate::progress::{Bar, Counted};

/// An input as named by the caller.
pub(crate) enum Input {
    File(PathBuf),
    Stream(Box<dyn Read>),
}

impl Input {
    /// The length in bytes, where known.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Input::File(path) => {
                path.metadata().ok().filter(std::fs::Metadata::is_file).map(|data| data.len())
            }
            Input::Stream(_) => None,
        }
    }
}

/// An input readable twice: for its types, and then for its rows.
pub(super) struct Source {
    place: String,
    whole: Whole,
}

enum Whole {
    File(PathBuf),
    /// The beginning of a stream, decompressed, and the rest of the stream.
    Stream {
        beginning: Vec<u8>,
        rest: Option<Box<dyn BufRead>>,
    },
}

/// Bytes at the beginning of a stream used to infer types.
const SAMPLE: usize = 8 << 20;
/// The same of a file, which can be read again where later values have other types.
const SAMPLE_OF_FILE: u64 = 1 << 20;

/// How much of the input the types are inferred from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The beginning of a file.
    Beginning,
    /// As much as there is: of a stream its beginning.
    Whole,
}

impl Source {
    pub(super) fn open(place: &str, input: Input) -> Result<Source, Failure> {
        let failed = |error: io::Error| Failure::at(place, error);
        let whole = match input {
            // Pipes and devices can be read only once and are streams, whatever their names.
            Input::File(path) if is_file(&path) => Whole::File(path),
            Input::File(path) => {
                stream(Box::new(File::open(path).map_err(failed)?)).map_err(failed)?
            }
            Input::Stream(input) => stream(input).map_err(failed)?,
        };
        Ok(Source { place: place.to_owned(), whole })
    }

    /// The path of a file, which can be read from any place.
    #[cfg(any(feature = "columnar", feature = "excel"))]
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        match &self.whole {
            Whole::File(path) => Some(path),
            Whole::Stream { .. } => None,
        }
    }

    /// True where a look is not all there is, or may not be.
    pub(super) fn is_sampled(&self, look: Look) -> bool {
        match &self.whole {
            Whole::File(_) => look == Look::Beginning,
            Whole::Stream { rest, .. } => rest.is_some(),
        }
    }

    /// True for an input readable again.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.whole, Whole::File(_))
    }

    /// The input to infer types from.
    pub(super) fn sample(&self, look: Look) -> Result<Box<dyn BufRead + '_>, Failure> {
        match &self.whole {
            Whole::File(path) => {
                let file = File::open(path).map_err(|error| self.failed(error))?;
                let whole = decompressed(Box::new(file)).map_err(|error| self.failed(error))?;
                Ok(match look {
                    Look::Whole => whole,
                    Look::Beginning => Box::new(whole.take(SAMPLE_OF_FILE)),
                })
            }
            Whole::Stream { beginning, .. } => {
                let mut reader: Box<dyn BufRead + '_> = Box::new(Cursor::new(beginning));
                skip_mark(&mut reader).map_err(|error| self.failed(error))?;
                Ok(reader)
            }
        }
    }

    /// The input to read rows from, whose bytes `bar` counts. Once.
    pub(super) fn rows(&mut self, bar: &Bar) -> Result<Box<dyn BufRead>, Failure> {
        match &mut self.whole {
            Whole::File(path) => {
                let opened = File::open(path)
                    .and_then(|file| decompressed(Box::new(Counted::new(file, bar))));
                opened.map_err(|error| Failure::at(&self.place, error))
            }
            Whole::Stream { beginning, rest } => {
                let beginning = Cursor::new(std::mem::take(beginning));
                let mut reader: Box<dyn BufRead> = match rest.take() {
                    Some(rest) => Box::new(beginning.chain(rest)),
                    None => Box::new(beginning),
                };
                skip_mark(&mut reader).map_err(|error| Failure::at(&self.place, error))?;
                Ok(reader)
            }
        }
    }

    fn failed(&self, error: io::Error) -> Failure {
        Failure::at(&self.place, error)
    }
}

fn is_file(path: &std::path::Path) -> bool {
    // A missing file counts as one: opening the file then gives the error.
    path.metadata().map_or(true, |data| data.is_file() || data.is_dir())
}

fn stream(input: Box<dyn Read>) -> io::Result<Whole> {
    let mut reader = decompressed_without_mark(input)?;
    let mut beginning = Vec::new();
    (&mut reader).take(SAMPLE as u64).read_to_end(&mut beginning)?;
    let rest = (beginning.len() == SAMPLE && !reader.fill_buf()?.is_empty()).then_some(reader);
    Ok(Whole::Stream { beginning, rest })
}

/// The input without gzip and without a byte order mark.
fn decompressed(input: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut reader = decompressed_without_mark(input)?;
    skip_mark(&mut reader)?;
    Ok(reader)
}

fn decompressed_without_mark(input: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut reader = BufReader::with_capacity(BUFFER, input);
    if reader.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// Passes over the byte order mark of UTF-8, and refuses the marks of UTF-16.
fn skip_mark(reader: &mut Box<dyn BufRead + '_>) -> io::Result<()> {
    let start = reader.fill_buf()?;
    if start.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    } else if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "UTF-16 is not supported, UTF-8 is",
        ));
    }
    Ok(())
}

const BUFFER: usize = 256 << 10;
