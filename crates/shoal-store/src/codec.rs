//! The seam between the pager and the file: every page goes through a codec on its way in and out.
//!
//! A rollback journal and a write-ahead log hold pages as they are stored. So recovery and
//! checkpoints copy bytes and need no codec. A store without a codec reads and maps its file
//! directly.

mod seal;
mod source;
mod temporary;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use shoal_format::{FileHeader, Pgno};

pub use seal::Seal;
pub(crate) use source::PendingKey;
pub use source::{CodecRequest, CodecSource};
pub(crate) use temporary::CodedFile;

use crate::Error;
use crate::store::Inner;

/// Bytes of page 1 equal in its stored and its plain form, unless a codec says otherwise: page
/// size, versions, reserved bytes and fractions of the header. A file's shape is known before any
/// of its pages is decoded.
const VISIBLE: std::ops::Range<usize> = 16..24;

/// Turns pages into their stored form and back, each page by itself, in place and of the same
/// length.
///
/// The last [`PageCodec::reserved`] bytes of a page are the codec's own, for a nonce, a tag or a
/// generation number. `decode` leaves them as they are stored, and the pager keeps them: `encode`
/// finds the reserved bytes of the page's previous form, or zeroes for a page without one. A page
/// may be encoded several times and stored once, or not at all.
///
/// The first 16 bytes of page 1 are a constant in the plain form, and room for 16 bytes of the
/// codec's own in the stored form. Bytes 16 to 24 of page 1 are the same in both forms, unless
/// [`PageCodec::shape`] knows better.
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

    /// The shape of a file that begins with these stored bytes; `None` for no such file.
    fn shape(&self, stored: &[u8; FileHeader::SIZE]) -> Option<Shape> {
        let page_size = FileHeader::stated_page_size(stored)?;
        Some(Shape { page_size, versions: Some((stored[18], stored[19])), reserved: stored[20] })
    }

    /// Bytes of a page of a new file, where the format has pages of one size.
    fn new_page_size(&self) -> Option<u32> {
        None
    }

    /// The plain form of the header, where its stored form is readable without the page behind;
    /// nothing vouches for the bytes. A known header saves decoding page 1 again.
    fn clear_header(&self, _stored: &[u8; FileHeader::SIZE]) -> Option<[u8; FileHeader::SIZE]> {
        None
    }

    /// The number of pages behind page 1 with content of the codec's own: no tree, chain or
    /// freelist has them. They are stored as they are.
    fn own_pages(&self) -> u32 {
        0
    }

    /// The content of an own page in a new file.
    ///
    /// # Errors
    /// [`Refused`] for pages too short.
    fn own_page(&self, _pgno: Pgno, _page_size: u32) -> Result<Vec<u8>, Refused> {
        Err(Refused::new(Fault::Damaged, "is no page of the codec's"))
    }

    /// The seal of the commit after the one that left page 1 in the plain form `first` (empty for
    /// a new file). `None` for codecs that seal no commits.
    fn seal(&self, _first: &[u8]) -> Option<Seal> {
        None
    }

    /// As [`PageCodec::encode`], within a commit. Page 1 comes last, with the seal complete.
    ///
    /// # Errors
    /// As [`PageCodec::encode`].
    fn encode_sealed(&self, _seal: &Seal, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        self.encode(pgno, page)
    }

    /// A stored page's part of the seal's sum.
    fn term(&self, _pgno: Pgno, _stored: &[u8]) -> u128 {
        0
    }

    /// The codec as a value of its own type, for those who know the type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The shape of a coded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page.
    pub page_size: u32,
    /// The versions for writing and reading; `None` where they are hidden.
    pub versions: Option<(u8, u8)>,
    /// Bytes at the end of each page without content.
    pub reserved: u8,
}

/// A page refused by a codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of fault.
    pub fault: Fault,
    /// The reason, in words that follow the number of the page.
    pub why: String,
}

impl Refused {
    /// A refusal for this reason.
    pub fn new(fault: Fault, why: impl Into<String>) -> Refused {
        Refused { fault, why: why.into() }
    }
}

/// What is wrong with a sealed file, for programs that tell faults apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The file is sealed, and there is no key.
    NoKey,
    /// No key slot opens with the key given.
    WrongKey,
    /// The key slots, or the clear bytes of page 1, are not as they were written.
    Header,
    /// A page is not as it was written.
    Damaged,
    /// A page lies in the place of another.
    Moved,
    /// A page is of an earlier state of the file.
    Old,
}

impl Inner {
    /// The stored form of a page becomes its plain form.
    #[inline]
    pub(crate) fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Error> {
        match self.codec() {
            None => Ok(()),
            Some(codec) => codec.decode(pgno, page).map_err(|refused| self.refused(pgno, refused)),
        }
    }

    /// The codec, once there is one.
    #[inline]
    pub(crate) fn codec(&self) -> Option<&Arc<dyn PageCodec>> {
        self.codec.get()
    }

    /// Pages behind page 1 of no tree, chain or freelist.
    #[inline]
    pub(crate) fn own_pages(&self) -> u32 {
        self.codec().map_or(0, |codec| codec.own_pages())
    }

    /// True where the stored form of a page is not its plain form.
    #[inline]
    pub(crate) fn is_coded(&self) -> bool {
        self.codec().is_some()
    }

    /// An error unless pages of such a file have room for the codec.
    pub(crate) fn check_reserved(&self, header: &FileHeader) -> Result<(), Error> {
        if self.own_pages() > 0 && header.is_auto_vacuum() {
            let what = "auto-vacuum in a sealed file";
            return Err(Error::Unsupported { what, path: self.path.clone() });
        }
        match self.codec() {
            Some(codec) if codec.reserved() > header.reserved => {
                let what = "a file whose pages have no room for the codec";
                Err(Error::Unsupported { what, path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Bytes each new page reserves.
    pub(crate) fn reserved_at_least(&self, asked: u8) -> u8 {
        self.codec().map_or(asked, |codec| codec.reserved().max(asked))
    }

    pub(crate) fn refused(&self, pgno: Pgno, Refused { fault, why }: Refused) -> Error {
        Error::Refused { pgno, fault, why, path: self.path.clone() }
    }

    /// An error where the shape of the file is not to be seen in page 1 as it is about to be
    /// stored.
    fn check_shape(&self, plain: &[u8], stored: &[u8]) -> Result<(), Error> {
        let head = stored.first_chunk().and_then(|head| self.codec()?.shape(head));
        let size = plain.first_chunk().and_then(FileHeader::stated_page_size);
        let same = head.is_some_and(|shape| {
            Some(shape.page_size) == size
                && (shape.versions.is_none() || plain.get(VISIBLE) == stored.get(VISIBLE))
        });
        match same {
            true => Ok(()),
            false => Err(Error::Misuse("a codec was to hide the shape of the file")),
        }
    }
}
