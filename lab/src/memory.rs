//! Memory in huge pages, for peers that let their caller find it.
//!
//! Where transparent huge pages are given on request only, a peer whose caller hands it a `Vec`
//! would walk four levels of page tables for each block, and Shoal, which asks, would not. So what
//! is kept from hash to hash lies in the same kind of pages for everybody.

use memmap2::MmapMut;

use crate::engine::Miss;

/// A huge page of x86-64 and, with pages of 4 KiB, of AArch64.
const HUGE_BYTES: usize = 2 << 20;

/// Zeroed memory that begins at a huge page, asked for in huge pages and touched.
pub struct HugePages {
    map: MmapMut,
    start: usize,
    bytes: usize,
}

impl HugePages {
    /// Takes this many bytes and touches them all. Smaller than a huge page, they lie in plain ones.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(bytes: usize) -> Result<Self, Miss> {
        let map = MmapMut::map_anon(bytes + HUGE_BYTES).map_err(Miss::failed)?;
        #[cfg(target_os = "linux")]
        {
            // A kernel without huge pages refuses; `share in huge pages` then says what came of it.
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
