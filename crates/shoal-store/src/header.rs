//! Reading the file header at the start of a transaction, and what follows from it.

use std::path::Path;

use shoal_format::{Corrupt, FileHeader, PageEdit, PageKind, Pgno};
use shoal_vfs::File;

use crate::Error;
use crate::page::PageRef;

/// Bytes of a page in a database that this crate creates.
pub(crate) const NEW_PAGE_SIZE: u32 = 4096;

/// What a transaction knows of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) header: FileHeader,
    /// Pages of the snapshot; 0 in an empty file.
    pub(crate) page_count: u32,
}

impl FileState {
    /// The state of a file of no bytes, which is an empty database.
    pub(crate) fn empty() -> FileState {
        FileState { header: FileHeader::create(NEW_PAGE_SIZE), page_count: 0 }
    }

    /// Bytes of all pages.
    #[inline]
    pub(crate) fn byte_len(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.header.page_size)
    }

    /// Reads and checks the header of the locked file `path`. What was `known` of it is taken as
    /// the rest of the state when the header is the same and vouches for its page count.
    pub(crate) fn read(
        file: &dyn File,
        path: &Path,
        known: Option<FileState>,
    ) -> Result<FileState, Error> {
        let mut bytes = [0; FileHeader::SIZE];
        let length = file.read_at(&mut bytes, 0)?;
        if length == 0 {
            return Ok(FileState::empty());
        }
        if length < FileHeader::SIZE || !FileHeader::is_database(&bytes) {
            return Err(Error::NotADatabase { path: path.to_path_buf() });
        }
        let header = FileHeader::parse(&bytes)?;
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
        // As SQLite counts: a last page that is cut short is still a page.
        let in_file = size.div_ceil(u64::from(header.page_size)).min(u64::from(Pgno::MAX));
        let in_file = u32::try_from(in_file).expect("it is at most Pgno::MAX");
        let page_count = header.stated_page_count().unwrap_or(in_file);
        if page_count > in_file && !header.is_wal() {
            let why = "states more pages than the file has";
            return Err(Corrupt::new("file header", why, u64::from(page_count)).into());
        }
        Ok(FileState { header, page_count })
    }

    /// Page 1 of an empty database: the header and an empty `sqlite_schema`.
    pub(crate) fn first_page(&self) -> PageRef {
        let mut bytes = vec![0; self.header.page_size as usize];
        let usable = self.header.usable();
        PageEdit::create(&mut bytes, Pgno::FIRST, usable, PageKind::TableLeaf, None);
        PageRef { bytes: bytes.into(), pgno: Pgno::FIRST }
    }
}

/// Returns the path of the file that goes with the database `path` under `suffix`.
pub(crate) fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// Returns the folder that `path` is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
