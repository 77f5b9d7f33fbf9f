//! Reading the file header at the start of a transaction, and the state of the file derived
//! from it.

use std::path::Path;

use shoal_format::{Corrupt, FileHeader, PageEdit, PageKind, Pgno};

use crate::Error;
use crate::page::PageRef;
use crate::settings::{AutoVacuum, NewFile};
use crate::store::Inner;

/// Page size of a database created by this crate, in bytes.
pub(crate) const NEW_PAGE_SIZE: u32 = 4096;

/// A transaction's view of its file: the header and the number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) header: FileHeader,
    /// Pages of the snapshot; 0 in an empty file.
    pub(crate) page_count: u32,
}

impl FileState {
    /// The state of a file without bytes: an empty database.
    pub(crate) fn empty() -> FileState {
        FileState { header: FileHeader::create(NEW_PAGE_SIZE), page_count: 0 }
    }

    /// The state of a file without bytes, to have such pages.
    pub(crate) fn shaped(new: NewFile) -> FileState {
        let mut header = FileHeader::create(new.page_size.unwrap_or(NEW_PAGE_SIZE));
        header.reserved = new.reserved;
        header.text_encoding = new.text_encoding;
        if new.wal {
            (header.write_version, header.read_version) = (2, 2);
        }
        let auto_vacuum = new.auto_vacuum.unwrap_or_default();
        header.largest_root = u32::from(auto_vacuum != AutoVacuum::None);
        header.incremental_vacuum = u32::from(auto_vacuum == AutoVacuum::Incremental);
        FileState { header, page_count: 0 }
    }

    /// Bytes of all pages.
    #[inline]
    pub(crate) fn byte_len(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.header.page_size)
    }

    /// Reads and checks the header of the locked file of `store`. A `known` state with the same
    /// header is returned whole, when the header vouches for its own page count.
    pub(crate) fn read(store: &Inner, known: Option<FileState>) -> Result<FileState, Error> {
        let (file, path) = (&*store.file, &store.real_path);
        let mut bytes = [0; FileHeader::SIZE];
        let length = file.read_at(&mut bytes, 0)?;
        if length == 0 {
            return Ok(FileState::empty());
        }
        if let Some(codec) = store.codec()
            && length == FileHeader::SIZE
        {
            // A file unchanged by its clear header has the pages that were decoded before.
            if let (Some(known), Some(clear)) = (known, codec.clear_header(&bytes))
                && FileHeader::parse(&clear).is_ok_and(|header| header == known.header)
                && known.header.stated_page_count() == Some(known.page_count)
                && !known.header.is_wal()
            {
                return Ok(known);
            }
            bytes = decoded_header(store, &bytes, |page| Ok(file.read_at(page, 0)?))?;
        }
        if length < FileHeader::SIZE || !FileHeader::is_database(&bytes) {
            return Err(Error::NotADatabase { path: path.to_path_buf() });
        }
        let header = FileHeader::parse(&bytes)?;
        store.check_reserved(&header)?;
        if let Some(known) = known
            && known.header == header
            && header.stated_page_count() == Some(known.page_count)
            && !header.is_wal()
        {
            return Ok(known);
        }
        let size = file.size()?;
        if header.read_version > 2 {
            let what = "this version of the file format";
            return Err(Error::Unsupported { what, path: path.to_path_buf() });
        }
        // Rounded up as SQLite does: a last page cut short is still a page.
        let in_file = size.div_ceil(u64::from(header.page_size)).min(u64::from(Pgno::MAX));
        let in_file = u32::try_from(in_file).expect("it is at most Pgno::MAX");
        let page_count = header.stated_page_count().unwrap_or(in_file);
        if page_count > in_file && !header.is_wal() {
            let why = "states more pages than the file has";
            return Err(Corrupt::new("file header", why, u64::from(page_count)).into());
        }
        Ok(FileState { header, page_count })
    }

    /// The shape of the locked file by the bytes a codec leaves visible; all else is as in a new
    /// file. For a file whose page 1 is read from its log.
    pub(crate) fn visible(store: &Inner) -> Result<FileState, Error> {
        let mut bytes = [0; FileHeader::SIZE];
        store.file.read_at(&mut bytes, 0)?;
        let shape = store.codec().and_then(|codec| codec.shape(&bytes));
        let shape = shape.ok_or_else(|| Error::NotADatabase { path: store.path.clone() })?;
        let mut header = FileHeader::create(shape.page_size);
        (header.write_version, header.read_version) = shape.versions.unwrap_or((2, 2));
        header.reserved = shape.reserved;
        Ok(FileState { header, page_count: 1 })
    }

    /// True where a refused page 1 may be torn, and whole in a log. A file that hides its versions
    /// has a log where there is one.
    pub(crate) fn may_have_log(store: &Inner) -> Result<bool, Error> {
        let mut bytes = [0; FileHeader::SIZE];
        store.file.read_at(&mut bytes, 0)?;
        let Some(shape) = store.codec().and_then(|codec| codec.shape(&bytes)) else {
            return Ok(false);
        };
        match shape.versions {
            Some((_, read)) => Ok(read == 2),
            None => {
                let size = store.vfs.size(&beside(&store.real_path, "-wal"))?;
                Ok(size.is_some_and(|size| size > 0))
            }
        }
    }

    /// Page 1 of an empty database: the header and an empty `sqlite_schema`.
    pub(crate) fn first_page(&self) -> PageRef {
        let mut bytes = vec![0; self.header.page_size as usize];
        let usable = self.header.usable();
        PageEdit::create(&mut bytes, Pgno::FIRST, usable, PageKind::TableLeaf, None);
        PageRef { bytes: bytes.into(), pgno: Pgno::FIRST }
    }
}

/// The header in the plain form of page 1. `stored` is the beginning of the stored form; `read`
/// fills the whole of it and says how many bytes there were.
pub(crate) fn decoded_header(
    store: &Inner,
    stored: &[u8; FileHeader::SIZE],
    read: impl FnOnce(&mut [u8]) -> Result<usize, Error>,
) -> Result<[u8; FileHeader::SIZE], Error> {
    let not_a_database = || Error::NotADatabase { path: store.path.clone() };
    let shape = store.codec().and_then(|codec| codec.shape(stored));
    let size = shape.ok_or_else(not_a_database)?.page_size;
    let mut page = vec![0; size as usize];
    if read(&mut page)? < page.len() {
        return Err(not_a_database());
    }
    store.decode(Pgno::FIRST, &mut page)?;
    page.first_chunk().copied().ok_or_else(not_a_database)
}

/// Returns the path of the file beside the database `path` with `suffix`: journal, log or index.
pub(crate) fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// Returns the folder of `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
