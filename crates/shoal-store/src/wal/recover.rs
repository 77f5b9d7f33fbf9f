//! Rebuilding the index from the log, as far as the log's checksums vouch for its frames.

use shoal_format::Pgno;
use shoal_format::wal::{Checksum, Frame, FrameHeader, WalHeader, WalStart};
use shoal_format::wal_index::{CHECKPOINT_LOCK, IndexHeader, READ_LOCK, READ_MARKS, UNUSED_MARK};
use shoal_vfs::File;

use super::Log;
use crate::Error;
use crate::store::Inner;

/// The committed frames of a log.
pub(super) struct Scanned {
    pub(super) start: WalStart,
    /// The page of each frame.
    pub(super) frames: Vec<Pgno>,
    /// Pages of the database with them.
    pub(super) page_count: u32,
    /// The checksum after the last of them.
    pub(super) checksum: Checksum,
}

/// Reads a log from its beginning to its last whole commit; `None` where there is no log.
pub(super) fn scan(log: &dyn File) -> Result<Option<Scanned>, Error> {
    let mut header = [0; WalHeader::SIZE];
    let length = log.read_at(&mut header, 0)?;
    let Some(start) = WalStart::parse(&header).filter(|_| length == header.len()) else {
        return Ok(None);
    };
    let (mut frames, mut committed) = (Vec::new(), 0);
    let (mut checksum, mut last, mut page_count) = (start.checksum, start.checksum, 0);
    let mut bytes = vec![0; FrameHeader::SIZE + start.page_size as usize];
    let mut number: u32 = 1;
    loop {
        let at = WalStart::frame_offset(start.page_size, number);
        if log.read_at(&mut bytes, at)? < bytes.len() {
            break;
        }
        let Some(frame) = Frame::parse(&bytes, start.salt, &mut checksum) else { break };
        frames.push(frame.pgno);
        if let Some(pages) = frame.commits {
            (committed, page_count, last) = (frames.len(), pages, checksum);
        }
        let Some(next) = number.checked_add(1) else { break };
        number = next;
    }
    frames.truncate(committed);
    Ok(Some(Scanned { start, frames, page_count, checksum: last }))
}

impl Log {
    /// Rebuilds the index. The lock of writers is held; current readers of the index find the same
    /// frames there at every moment.
    pub(super) fn recover(&self, store: &Inner) -> Result<IndexHeader, Error> {
        if !self.index.lock(CHECKPOINT_LOCK, 2)? {
            return Err(Error::busy(&store.path));
        }
        let made = self.make_index(store);
        self.index.unlock(CHECKPOINT_LOCK, 2);
        made
    }

    fn make_index(&self, store: &Inner) -> Result<IndexHeader, Error> {
        let index = &self.index;
        let scanned = match self.file(store)? {
            Some(file) => scan(&*file)?,
            None => None,
        };
        let mut header = IndexHeader::EMPTY;
        if let Some(found) = &scanned {
            header.page_size = found.start.page_size;
            header.big_endian = found.checksum.big_endian;
            header.salt = found.start.salt;
            header.checksum = found.checksum.sums;
            header.page_count = found.page_count;
            let mut told = true;
            for (number, pgno) in (1..).zip(&found.frames) {
                // Notes already there stay, for the readers using them.
                if told && index.is_told(number, *pgno)? {
                    continue;
                }
                if std::mem::replace(&mut told, false) {
                    index.forget_after(number - 1)?;
                }
                index.append(number, *pgno)?;
            }
            header.frames = u32::try_from(found.frames.len()).unwrap_or(u32::MAX);
        }
        index.forget_after(header.frames)?;
        index.set_backfilled(0)?;
        index.set_backfill_attempted(header.frames)?;
        index.set_mark(0, 0)?;
        for mark in 1..READ_MARKS {
            let byte = READ_LOCK + mark as u64;
            if index.lock(byte, 1)? {
                let first = mark == 1 && header.frames > 0;
                let set = index.set_mark(mark, if first { header.frames } else { UNUSED_MARK });
                index.unlock(byte, 1);
                set?;
            }
        }
        index.publish(&header)?;
        Ok(header)
    }
}
