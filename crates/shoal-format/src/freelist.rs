//! Freelist trunk pages (file format §1.5): the numbers of free pages.

use crate::{Corrupt, Pgno};

/// A trunk page: the next trunk, a count, then as many page numbers of free leaves.
#[derive(Clone, Copy, Debug)]
pub struct Trunk<'a> {
    /// The next trunk.
    pub next: Option<Pgno>,
    leaves: &'a [u8],
    pgno: Pgno,
}

impl<'a> Trunk<'a> {
    /// Views the first `usable` bytes of trunk page `pgno`.
    ///
    /// # Errors
    /// [`Corrupt`] for more stated leaves than fit.
    pub fn new(bytes: &'a [u8], pgno: Pgno, usable: usize) -> Result<Trunk<'a>, Corrupt> {
        let corrupt = |why, value: u64| Corrupt::on_page(pgno, "freelist trunk", why, value);
        let parts = bytes.get(..usable).and_then(|bytes| {
            let (next, rest) = bytes.split_first_chunk::<4>()?;
            let (count, leaves) = rest.split_first_chunk::<4>()?;
            Some((u32::from_be_bytes(*next), u32::from_be_bytes(*count), leaves))
        });
        let (next, count, leaves) =
            parts.ok_or_else(|| corrupt("is too short", bytes.len() as u64))?;
        let leaves = (count as usize)
            .checked_mul(4)
            .and_then(|length| leaves.get(..length))
            .ok_or_else(|| corrupt("has more leaves than fit", u64::from(count)))?;
        Ok(Trunk { next: Pgno::new(next), leaves, pgno })
    }

    /// Returns the number of leaves.
    pub fn leaf_count(&self) -> usize {
        self.leaves.len() / 4
    }

    /// Returns leaf `index`.
    ///
    /// # Errors
    /// [`Corrupt`] without a leaf, or for page 0.
    pub fn leaf(&self, index: usize) -> Result<Pgno, Corrupt> {
        self.leaves
            .get(index * 4..)
            .and_then(|rest| rest.first_chunk())
            .and_then(|bytes| Pgno::new(u32::from_be_bytes(*bytes)))
            .ok_or_else(|| {
                Corrupt::on_page(self.pgno, "freelist trunk", "has no such leaf", index as u64)
            })
    }

    /// Returns how many leaves a writer puts on a trunk. Readers accept six more; old versions of
    /// SQLite called a trunk with those corrupt.
    pub fn max_written(usable: usize) -> usize {
        usable / 4 - 8
    }

    /// Makes `bytes` a trunk without leaves.
    ///
    /// # Panics
    /// When `bytes` is shorter than 8 bytes.
    pub fn write(bytes: &mut [u8], next: Option<Pgno>) {
        bytes.fill(0);
        bytes[..4].copy_from_slice(&next.map_or(0, Pgno::get).to_be_bytes());
    }

    /// Appends `leaf` to the trunk in `bytes`, `count` leaves long.
    ///
    /// # Panics
    /// When there is no room.
    pub fn push(bytes: &mut [u8], count: usize, leaf: Pgno) {
        bytes[8 + 4 * count..12 + 4 * count].copy_from_slice(&leaf.get().to_be_bytes());
        Self::set_count(bytes, count + 1);
    }

    /// Keeps the first `count` leaves of the trunk in `bytes`.
    ///
    /// # Panics
    /// When `bytes` is shorter than 8 bytes.
    pub fn set_count(bytes: &mut [u8], count: usize) {
        let count = u32::try_from(count).expect("a page holds fewer than 2^14 numbers");
        bytes[4..8].copy_from_slice(&count.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_it_reads() {
        let mut bytes = [0xee; 512];
        Trunk::write(&mut bytes, Pgno::new(8));
        Trunk::push(&mut bytes, 0, Pgno::new(5).unwrap());
        Trunk::push(&mut bytes, 1, Pgno::new(6).unwrap());
        let trunk = Trunk::new(&bytes, Pgno::FIRST, 512).unwrap();
        assert_eq!((trunk.next, trunk.leaf_count()), (Pgno::new(8), 2));
        assert_eq!(trunk.leaf(1), Ok(Pgno::new(6).unwrap()));
        assert!(trunk.leaf(2).is_err());
        Trunk::set_count(&mut bytes, 1);
        assert_eq!(Trunk::new(&bytes, Pgno::FIRST, 512).unwrap().leaf_count(), 1);
    }

    #[test]
    fn a_trunk_cannot_state_more_than_it_holds() {
        let mut bytes = [0; 512];
        Trunk::set_count(&mut bytes, 126);
        assert!(Trunk::new(&bytes, Pgno::FIRST, 512).is_ok());
        Trunk::set_count(&mut bytes, 127);
        assert!(Trunk::new(&bytes, Pgno::FIRST, 512).is_err());
        bytes[4..8].fill(0xff);
        assert!(Trunk::new(&bytes, Pgno::FIRST, 512).is_err());
    }
}
