//! Memory in huge pages, for peers able to hash in their caller's memory.
//!
//! Where transparent huge pages are given on request only, a peer handed a plain `Vec` would walk
//! four levels of page tables for each block, while Shoal asks for huge pages. So memory kept from
//! hash to hash lies in the same kind of pages for everybody.

use memmap2::MmapMut;

use crate::engine::Miss;

/// A huge page of x86-64 and, with pages of 4 KiB, of AArch64.
const HUGE_BYTES: usize = 2 << 20;

/// Zeroed memory, beginning at a huge page, asked for in huge pages and touched.
pub struct HugePages {
    map: MmapMut,
    start: usize,
    bytes: usize,
}

impl HugePages {
    /// Maps and touches `bytes` bytes. Less than a huge page lies in plain pages.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(bytes: usize) -> Result<Self, Miss> {
        let map = MmapMut::map_anon(bytes + HUGE_BYTES).map_err(Miss::failed)?;
        #[cfg(target_os = "linux")]
        {
            // A kernel without huge pages refuses; the figure `share in huge pages` tells the
            // outcome.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let start = map.as_ptr().align_offset(HUGE_BYTES);
        let mut memory = Self { map, start, bytes };
        memory.bytes().fill(0);
        Ok(memory)
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.start..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_huge_page_and_has_its_length() {
        for bytes in [1, HUGE_BYTES - 1, 3 * HUGE_BYTES] {
            let mut memory = HugePages::new(bytes).unwrap();
            let memory = memory.bytes();
            assert_eq!((memory.len(), memory.as_ptr() as usize % HUGE_BYTES), (bytes, 0));
            assert!(memory.iter().all(|byte| *byte == 0));
        }
    }
}
