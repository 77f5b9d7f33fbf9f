//! The seam between the pager and the file: every page goes through a codec on its way in and out.
//!
//! A rollback journal and a write-ahead log hold pages as they are stored. So recovery and
//! checkpoints copy bytes and need no codec. A store without a codec reads and maps its file
//! directly.

mod temporary;

use std::fmt;
use std::sync::Arc;

use shoal_format::{FileHeader, Pgno};

pub(crate) use temporary::CodedFile;

use crate::Error;
use crate::store::Inner;

/// Bytes of page 1 equal in its stored and its plain form: page size, versions, reserved bytes and
/// fractions of the header. A file's shape is known before any of its pages is decoded.
pub(crate) const VISIBLE: std::ops::Range<usize> = 16..24;

/// Turns pages into their stored form and back, each page by itself, in place and of the same
/// length.
///
/// The last [`PageCodec::reserved`] bytes of a page are the codec's own, for a nonce, a tag or a
/// generation number. The pager keeps them as `decode` left them: `encode` finds the reserved bytes
/// of the page's previous form, or zeroes for a page without one. A page may be encoded several
/// times and stored once, or not at all.
///
/// Bytes 16 to 24 of page 1 must be the same in both forms. The first 16 bytes of page 1 are a
/// constant in the plain form, and room for 16 bytes of the codec's own in the stored form.
pub trait PageCodec: fmt::Debug + Send + Sync {
    /// Bytes at the end of each page kept free of content. New files reserve so many; files
    /// reserving fewer are not opened.
    fn reserved(&self) -> u8;

    /// Replaces a plain page by its stored form.
    ///
    /// # Errors
    /// [`Refused`], and nothing is stored.
    fn encode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused>;

    /// Replaces a stored page by its plain form. The bytes may be anything.
    ///
    /// # Errors
    /// [`Refused`] for bytes that no `encode` made.
    fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused>;

    /// A codec for the pages of one temporary file, read by this process only and gone with the
    /// file: its keys need not be stored anywhere.
    fn for_temporary(&self) -> Arc<dyn PageCodec>;
}

/// A page refused by a codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason, in words that follow the number of the page.
    pub why: String,
}

impl Inner {
    /// The stored form of a page becomes its plain form.
    #[inline]
    pub(crate) fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Error> {
        match &self.options.codec {
            None => Ok(()),
            Some(codec) => codec.decode(pgno, page).map_err(|refused| self.refused(pgno, refused)),
        }
    }

    /// The plain form of a page becomes its stored form.
    pub(crate) fn encode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Error> {
        let Some(codec) = &self.options.codec else { return Ok(()) };
        let visible = page.get(VISIBLE).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        codec.encode(pgno, page).map_err(|refused| self.refused(pgno, refused))?;
        if pgno == Pgno::FIRST && page.get(VISIBLE) != visible.as_ref().map(|bytes| &bytes[..]) {
            return Err(Error::Misuse("a codec was to hide the shape of the file"));
        }
        Ok(())
    }

    /// True where the stored form of a page is not its plain form.
    #[inline]
    pub(crate) fn is_coded(&self) -> bool {
        self.options.codec.is_some()
    }

    /// An error unless pages of such a file have room for the codec.
    pub(crate) fn check_reserved(&self, header: &FileHeader) -> Result<(), Error> {
        match &self.options.codec {
            Some(codec) if codec.reserved() > header.reserved => {
                let what = "a file whose pages have no room for the codec";
                Err(Error::Unsupported { what, path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Bytes each new page reserves.
    pub(crate) fn reserved_at_least(&self, asked: u8) -> u8 {
        self.options.codec.as_ref().map_or(asked, |codec| codec.reserved().max(asked))
    }

    fn refused(&self, pgno: Pgno, Refused { why }: Refused) -> Error {
        Error::Refused { pgno, why, path: self.path.clone() }
    }
}
