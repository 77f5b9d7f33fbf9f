//! Payloads too long for their page (file format §1.6, "cell payload overflow pages").

use crate::{Corrupt, PageKind, Pgno};

/// Most bytes of a payload.
pub const MAX_PAYLOAD: usize = 0x7fff_ffff;

/// Returns how many of a payload's `payload_len` bytes stay in a cell on a page of `kind` with
/// `usable` bytes; the rest goes to overflow pages.
#[inline]
pub fn local_len(kind: PageKind, usable: usize, payload_len: usize) -> usize {
    let max = match kind {
        PageKind::TableLeaf | PageKind::TableInterior => usable - 35,
        PageKind::IndexLeaf | PageKind::IndexInterior => (usable - 12) * 64 / 255 - 23,
    };
    if payload_len <= max {
        return payload_len;
    }
    let min = (usable - 12) * 32 / 255 - 23;
    let local = min + (payload_len - min) % (usable - 4);
    if local <= max { local } else { min }
}

/// An overflow page: the next page of the chain, then the payload's bytes.
#[derive(Clone, Copy, Debug)]
pub struct OverflowPage<'a> {
    /// The next page of the chain.
    pub next: Option<Pgno>,
    /// Payload bytes: all the page can hold, whether or not the payload needs them.
    pub content: &'a [u8],
}

impl<'a> OverflowPage<'a> {
    /// Bytes in front of the content.
    pub const HEADER: usize = 4;

    /// Views the first `usable` bytes of page `pgno`.
    ///
    /// # Errors
    /// [`Corrupt`] for shorter `bytes`.
    pub fn new(bytes: &'a [u8], pgno: Pgno, usable: usize) -> Result<OverflowPage<'a>, Corrupt> {
        match bytes.get(..usable).and_then(|bytes| bytes.split_first_chunk::<4>()) {
            Some((next, content)) => {
                Ok(OverflowPage { next: Pgno::new(u32::from_be_bytes(*next)), content })
            }
            None => {
                let length = bytes.len() as u64;
                Err(Corrupt::on_page(pgno, "overflow page", "is too short", length))
            }
        }
    }

    /// Writes an overflow page into `bytes`, with zeros behind `content`.
    ///
    /// # Panics
    /// When `content` does not fit.
    pub fn write(bytes: &mut [u8], next: Option<Pgno>, content: &[u8]) {
        let (head, body) = bytes.split_at_mut(Self::HEADER);
        head.copy_from_slice(&next.map_or(0, Pgno::get).to_be_bytes());
        let (target, rest) = body.split_at_mut(content.len());
        target.copy_from_slice(content);
        rest.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_lengths_follow_the_formula() {
        let table = |payload| local_len(PageKind::TableLeaf, 4096, payload);
        assert_eq!(table(4061), 4061);
        // M = 489; 489 + (4062 - 489) % 4092 = 4062 is above X, so M stays.
        assert_eq!(table(4062), 489);
        assert_eq!(table(4581), 489);
        assert_eq!(table(4582), 490);
        let index = |payload| local_len(PageKind::IndexInterior, 512, payload);
        assert_eq!(index(102), 102);
        assert_eq!(index(103), 39);
        assert_eq!(index(39 + 508 + 5), 44);
    }

    #[test]
    fn writes_what_it_reads() {
        let mut bytes = [0xee; 512];
        OverflowPage::write(&mut bytes, Pgno::new(5), b"abc");
        let page = OverflowPage::new(&bytes, Pgno::FIRST, 512).unwrap();
        assert_eq!(page.next, Pgno::new(5));
        assert_eq!(&page.content[..4], b"abc\0");
        assert_eq!(page.content.len(), 508);
        assert!(OverflowPage::new(&bytes, Pgno::FIRST, 513).is_err());
    }
}
