//! Groups found by the stored bytes of their key, without decoding, hashing or comparing values.
//!
//! Columns stored alike have one value, whatever rules compare the values. So the stored bytes of a
//! short key name the group found for the same bytes before. The converse does not hold: 1 is
//! stored in several ways.

/// A cache of groups by serial type and bytes of their key: each slot has the last group noted.
#[derive(Debug, Default)]
pub(crate) struct ShortKeys {
    /// Empty before the first, then [`PLACES`] of them.
    known: Vec<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    word: u64,
    serial: u32,
    group: u32,
}

/// No record has the serial type.
const NONE: Known = Known { word: 0, serial: 10, group: 0 };

/// A power of two; 4 KiB of them.
const PLACES: usize = 256;

impl ShortKeys {
    /// The group noted for a key.
    #[inline(always)]
    pub(crate) fn get(&self, (serial, word): (u32, u64)) -> Option<u32> {
        let known = self.known.get(place(serial, word))?;
        (known.word == word && known.serial == serial).then_some(known.group)
    }

    /// Notes the group of a key.
    pub(crate) fn note(&mut self, (serial, word): (u32, u64), group: u32) {
        if self.known.is_empty() {
            self.known.resize(PLACES, NONE);
        }
        if let Some(known) = self.known.get_mut(place(serial, word)) {
            *known = Known { word, serial, group };
        }
    }

    /// Forgets all and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.known.fill(NONE);
    }
}

/// The slot for a key.
#[inline(always)]
fn place(serial: u32, word: u64) -> usize {
    // An odd number without a pattern; the highest bits depend on all others.
    let mixed = (word ^ u64::from(serial)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_type_and_bytes() {
        let mut keys = ShortKeys::default();
        assert_eq!(keys.get((8, 0)), None);
        for group in 0..1000_u32 {
            let key = (group % 9 + 1, u64::from(group) << 40);
            keys.note(key, group);
            assert_eq!(keys.get(key), Some(group));
            assert_eq!(keys.get((key.0, key.1 + 1)), None);
            assert_ne!(keys.get((key.0 + 10, key.1)), Some(group));
        }
        keys.clear();
        assert!(
            (0..1000_u32)
                .all(|group| { keys.get((group % 9 + 1, u64::from(group) << 40)).is_none() })
        );
    }
}
