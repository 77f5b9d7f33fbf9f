//! Pages in the write-ahead log.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_format::Pgno;
use shoal_vfs::File;

use crate::Error;

/// Where the newest version of each page of the log is.
#[derive(Clone)]
pub(crate) struct WalPages {
    pub(crate) file: Arc<dyn File>,
    /// Offsets of page images in the log.
    pub(crate) places: Arc<FxHashMap<Pgno, u64>>,
}

impl WalPages {
    /// Reads page `pgno` if the log has it.
    pub(crate) fn read(&self, pgno: Pgno, bytes: &mut [u8]) -> Result<bool, Error> {
        let Some(&place) = self.places.get(&pgno) else { return Ok(false) };
        self.file.read_at(bytes, place)?;
        Ok(true)
    }
}

impl fmt::Debug for WalPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalPages").field("pages", &self.places.len()).finish_non_exhaustive()
    }
}
