//! Undoing a crashed program's unfinished changes (file format §3, SQLite's "hot journal").

use std::path::{Path, PathBuf};

use shoal_format::Pgno;
use shoal_format::journal::{
    COUNT_FROM_SIZE, JournalHeader, MAGIC, RECORD_OVERHEAD, SUPER_TRAILER, journal_names,
    parse_record, parse_super_trailer, super_checksum,
};
use shoal_vfs::{File, LockLevel, OpenMode, Vfs, VfsError};

use crate::Error;
use crate::header::folder_of;
use crate::store::{Access, Inner};

/// Longest super-journal name looked at, in bytes; SQLite's own limit is lower.
const MAX_SUPER_NAME: u32 = 4096;

/// Longest super-journal read, in bytes: no transaction spans so many files. A longer one stays
/// where it is.
const MAX_SUPER_LEN: u64 = 1 << 20;

/// With the shared lock held and no transaction open: if there is a journal nobody is writing, puts
/// back its pages and deletes the journal. True when the file may have changed.
///
/// # Errors
/// [`Error::HotJournal`] when the store may not write, [`Error::Busy`] when someone else reads.
pub(crate) fn undo_crashed(store: &Inner) -> Result<bool, Error> {
    let path = store.journal_path();
    if store.vfs.size(&path)?.is_none() || store.file.is_reserved_elsewhere()? {
        return Ok(false);
    }
    if store.file.size()? == 0 {
        // Nothing to put back into; a writer of a new file may have just made the journal.
        return Ok(false);
    }
    if !is_hot(store, &path)? {
        return Ok(false);
    }
    if store.options.access == Access::ReadOnly {
        return Err(Error::HotJournal { path: store.path.clone() });
    }
    // Straight to exclusive: with a reserved lock another process would take the journal for one
    // being written, and read the half-written file.
    let undone = match store.file.lock(LockLevel::Exclusive)? {
        true => undo(store, &path),
        false => Err(Error::busy(&store.path)),
    };
    store.file.unlock(LockLevel::Shared)?;
    undone.map(|()| true)
}

/// True when the journal begins as one whose transaction may have reached the database.
fn is_hot(store: &Inner, path: &Path) -> Result<bool, Error> {
    let journal = match store.vfs.open(path, OpenMode::ReadOnly) {
        Ok(journal) => journal,
        Err(VfsError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let mut first = [0];
    Ok(journal.read_at(&mut first, 0)? == 1 && first[0] != 0)
}

/// With the exclusive lock held: the recovery itself.
fn undo(store: &Inner, path: &Path) -> Result<(), Error> {
    let journal = match store.vfs.open(path, OpenMode::ReadWrite) {
        Ok(journal) => journal,
        // Another process was faster.
        Err(VfsError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let named = super_journal(&*journal)?;
    let stale = match &named {
        // The transaction over several files was committed when its super-journal went.
        Some(name) => store.vfs.size(name)?.is_none(),
        None => false,
    };
    if stale && let Some(folder) = named.as_deref().map(folder_of) {
        // The end of the super-journal outlasts a crash from here on: were it to come back after
        // some of its journals are gone, only the others' files would be undone.
        match store.vfs.sync_dir(folder) {
            Ok(()) | Err(VfsError::NotFound { .. } | VfsError::PermissionDenied { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !stale {
        // The crashed program may have written records without reaching its fsync. The records are
        // read from memory now; were the machine to fail during the replay, they would be gone.
        journal.sync()?;
        replay(&*journal, &*store.file)?;
        store.file.sync()?;
    }
    drop(journal);
    store.vfs.delete(path, true)?;
    if let Some(name) = named.filter(|_| !stale) {
        // A super-journal left over tells of journals there are no more, and does no harm.
        let _ = delete_unused_super(&*store.vfs, &name);
    }
    Ok(())
}

/// Deletes the super-journal `name` once no journal of its list names it.
fn delete_unused_super(vfs: &dyn Vfs, name: &Path) -> Result<(), Error> {
    let file = vfs.open(name, OpenMode::ReadOnly)?;
    let size = file.size()?;
    if size > MAX_SUPER_LEN {
        return Ok(());
    }
    let mut list = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = file.read_at(&mut list, 0)?;
    for journal in journal_names(&list[..read]) {
        let Some(path) = path_of(journal.to_vec()) else { return Ok(()) };
        match vfs.open(&path, OpenMode::ReadOnly) {
            Ok(journal) if super_journal(&*journal)?.as_deref() == Some(name) => return Ok(()),
            Ok(_) | Err(VfsError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop(file);
    Ok(vfs.delete(name, false)?)
}

/// Puts the pages of `journal` back into `database`, up to the first incomplete record, and cuts
/// the database to the size before the transaction.
pub(crate) fn replay(journal: &dyn File, database: &dyn File) -> Result<(), Error> {
    let size = journal.size()?;
    let mut at = 0;
    let mut geometry: Option<Geometry> = None;
    let mut record = Vec::new();
    loop {
        let mut bytes = [0; JournalHeader::SIZE];
        if journal.read_at(&mut bytes, at)? < bytes.len() {
            return Ok(());
        }
        let header = JournalHeader::new(&bytes);
        if header.magic() != MAGIC {
            return Ok(());
        }
        let known = match geometry {
            Some(known) => known,
            None => {
                let Some(known) = Geometry::of(&header, database.size()?, size) else {
                    return Ok(());
                };
                geometry = Some(known);
                let length = u64::from(known.page_count) * u64::from(known.page_size);
                if length < database.size()? {
                    database.truncate(length)?;
                }
                known
            }
        };
        if at + u64::from(known.sector_size) > size {
            return Ok(());
        }
        let page_size = known.page_size as usize;
        let record_size = known.page_size as u64 + RECORD_OVERHEAD;
        at += u64::from(known.sector_size);
        let room = size.saturating_sub(at) / record_size;
        let count = match header.record_count() {
            COUNT_FROM_SIZE => room,
            count => u64::from(count).min(room),
        };
        record.resize(page_size + RECORD_OVERHEAD as usize, 0);
        for _ in 0..count {
            if journal.read_at(&mut record, at)? < record.len() {
                return Ok(());
            }
            let Some((pgno, page)) = parse_record(&record, page_size, header.checksum_init())
            else {
                return Ok(());
            };
            at += record_size;
            if pgno == Pgno::lock_page(known.page_size) {
                return Ok(());
            }
            if pgno.get() <= known.page_count {
                database.write_at(page, pgno.offset(known.page_size))?;
            }
        }
        at = at.next_multiple_of(u64::from(known.sector_size));
    }
}

/// The numbers in the first header, valid for the whole journal.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    page_size: u32,
    sector_size: u32,
    page_count: u32,
}

impl Geometry {
    /// `None` when the numbers cannot be right.
    ///
    /// The page count is the header's, but not more than the database has and the journal could
    /// add: every page cut off by a transaction is in its journal.
    fn of(header: &JournalHeader<'_>, database_len: u64, journal_len: u64) -> Option<Geometry> {
        let (page_size, sector_size) = (header.page_size(), header.sector_size());
        let in_range = |size: u32, least| (least..=65536).contains(&size) && size.is_power_of_two();
        if !in_range(page_size, 512) || !in_range(sector_size, 32) {
            return None;
        }
        let page_len = u64::from(page_size);
        let most = database_len.div_ceil(page_len) + journal_len / (page_len + RECORD_OVERHEAD);
        let page_count = header.page_count().min(u32::try_from(most).unwrap_or(u32::MAX));
        Some(Geometry { page_size, sector_size, page_count })
    }
}

/// Returns the path of the super-journal named at the end of the journal.
fn super_journal(journal: &dyn File) -> Result<Option<PathBuf>, Error> {
    let size = journal.size()?;
    let mut trailer = [0; SUPER_TRAILER];
    let Some(start) = size.checked_sub(SUPER_TRAILER as u64) else { return Ok(None) };
    journal.read_at(&mut trailer, start)?;
    let Some((length, checksum)) = parse_super_trailer(&trailer) else { return Ok(None) };
    let Some(start) = start.checked_sub(u64::from(length)) else { return Ok(None) };
    if length > MAX_SUPER_NAME {
        return Ok(None);
    }
    let mut name = vec![0; length as usize];
    journal.read_at(&mut name, start)?;
    if super_checksum(&name) != checksum {
        return Ok(None);
    }
    Ok(path_of(name))
}

/// The path of these bytes; `None` where the system has no such paths.
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    #[cfg(unix)]
    return Some(PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(
        bytes,
    )));
    #[cfg(not(unix))]
    return String::from_utf8(bytes).ok().map(PathBuf::from);
}

/// The bytes of `path`, as a journal and a super-journal hold them.
pub(crate) fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
