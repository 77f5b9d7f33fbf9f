//! Bloom filters over change hashes (format: sync, bloom filter): which changes a peer has, at ten
//! bits each, with one wrong yes in a hundred.
//!
//! Layout: nothing for the empty filter, else the number of entries, bits per entry, and probes
//! (LEB128 each), then `entries * bits per entry` bits, rounded up to bytes. Each filter brings
//! its parameters, so these bound what a stranger's filter may cost.

use crate::column::leb128::{Reader, write_uleb};
use crate::{ChangeHash, Error, Fault};

const STRUCTURE: &str = "bloom filter";
const BITS_PER_ENTRY: u32 = 10;
const PROBES: u32 = 7;

/// More probes than any sound filter has; a test of membership costs one step for each.
const MAX_PROBES: u32 = 64;

/// Places of bits are 32-bit numbers.
const MAX_BYTES: u64 = (1 << 29) - 1;

/// A set of change hashes that sometimes claims to hold one that it does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BloomFilter {
    entries: u32,
    bits_per_entry: u32,
    probes: u32,
    /// Empty exactly when there are no entries.
    bits: Box<[u8]>,
}

impl BloomFilter {
    /// A filter that holds `hashes`, which must be fewer than 2^28, with one wrong yes in a
    /// hundred. Cost: 10 bits and 7 steps for each.
    pub fn from_hashes<'a>(hashes: impl ExactSizeIterator<Item = &'a ChangeHash>) -> Self {
        Self::with_bits(hashes, BITS_PER_ENTRY)
    }

    /// Like [`from_hashes`](Self::from_hashes) with fewer bits, and more wrong answers, as it takes
    /// to stay within `max_bytes`. The empty filter when there is not even one bit for each.
    pub fn from_hashes_within<'a>(
        hashes: impl ExactSizeIterator<Item = &'a ChangeHash>,
        max_bytes: usize,
    ) -> Self {
        let max_bits = (max_bytes as u64).saturating_mul(8);
        let bits_per_entry = max_bits.checked_div(hashes.len() as u64).unwrap_or(u64::MAX);
        match u32::try_from(bits_per_entry).unwrap_or(u32::MAX) {
            0 => Self::default(),
            bits => Self::with_bits(hashes, bits.min(BITS_PER_ENTRY)),
        }
    }

    fn with_bits<'a>(
        hashes: impl ExactSizeIterator<Item = &'a ChangeHash>,
        bits_per_entry: u32,
    ) -> Self {
        if hashes.len() == 0 {
            return Self::default();
        }
        let entries = u32::try_from(hashes.len()).expect("there are fewer than 2^28 hashes");
        let byte_len = byte_len(entries, bits_per_entry);
        assert!(byte_len <= MAX_BYTES, "there are fewer than 2^28 hashes");
        // 7 for 10: as many probes as give the fewest wrong answers.
        let probes = (bits_per_entry * PROBES + BITS_PER_ENTRY / 2) / BITS_PER_ENTRY;
        let bits = vec![0; usize::try_from(byte_len).expect("2^29 bytes fit an address space")];
        let mut filter = Self { entries, bits_per_entry, probes, bits: bits.into() };
        for hash in hashes {
            let probes = filter.probes(hash);
            for place in probes {
                filter.bits[(place >> 3) as usize] |= 1 << (place & 7);
            }
        }
        filter
    }

    /// Whether the filter claims to hold the hash. Cost: at most 64 steps.
    pub fn contains(&self, hash: &ChangeHash) -> bool {
        self.entries > 0
            && self
                .probes(hash)
                .all(|place| self.bits[(place >> 3) as usize] & (1 << (place & 7)) != 0)
    }

    /// Whether the filter holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many hashes were put in, as far as its maker tells.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// The bytes of the filter.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.entries > 0 {
            out.reserve(self.encoded_len());
            write_uleb(u64::from(self.entries), &mut out);
            write_uleb(u64::from(self.bits_per_entry), &mut out);
            write_uleb(u64::from(self.probes), &mut out);
            out.extend_from_slice(&self.bits);
        }
        out
    }

    /// How many bytes [`encode`](Self::encode) gives at most.
    pub(super) fn encoded_len(&self) -> usize {
        if self.entries == 0 { 0 } else { self.bits.len() + 15 }
    }

    /// Reads a filter. Bytes after its end are ignored, as the reference ignores them.
    ///
    /// # Errors
    /// [`Error::Sync`] when bytes are missing, when there are entries but no bits, or more than
    /// 64 probes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fault = |part| move |fault| Error::Sync { structure: STRUCTURE, part, fault };
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(bytes);
        let entries = reader.u32_minimal().map_err(fault("entry count"))?;
        let bits_per_entry = reader.u32_minimal().map_err(fault("bits per entry"))?;
        let probes = reader.u32_minimal().map_err(fault("probe count"))?;
        let byte_len = byte_len(entries, bits_per_entry);
        if entries == 0 {
            return Ok(Self::default());
        }
        if bits_per_entry == 0 {
            return Err(fault("bits per entry")(Fault::OutOfRange(0)));
        }
        if probes > MAX_PROBES {
            return Err(fault("probe count")(Fault::TooMany(u64::from(probes))));
        }
        if byte_len > MAX_BYTES {
            return Err(fault("bits")(Fault::TooMany(byte_len)));
        }
        let bits = usize::try_from(byte_len)
            .map_err(|_| Fault::Truncated)
            .and_then(|len| reader.bytes(len))
            .map_err(fault("bits"))?;
        Ok(Self { entries, bits_per_entry, probes, bits: bits.into() })
    }

    /// The places of the bits that stand for a hash. The filter must not be empty. The first place
    /// is probed even by a filter that says it has no probes, as the reference does.
    fn probes(&self, hash: &ChangeHash) -> impl Iterator<Item = u32> + use<> {
        let modulus = u32::try_from(self.bits.len()).expect("a filter has under 2^29 bytes") * 8;
        let word = |at: usize| {
            let bytes = [hash.0[at], hash.0[at + 1], hash.0[at + 2], hash.0[at + 3]];
            u32::from_le_bytes(bytes) % modulus
        };
        let (mut x, mut y, z) = (word(0), word(4), word(8));
        (0..self.probes.max(1)).map(move |_| {
            let place = x;
            x = add(x, y, modulus);
            y = add(y, z, modulus);
            place
        })
    }
}

/// The filter that holds nothing.
impl Default for BloomFilter {
    fn default() -> Self {
        Self { entries: 0, bits_per_entry: BITS_PER_ENTRY, probes: PROBES, bits: Box::default() }
    }
}

fn byte_len(entries: u32, bits_per_entry: u32) -> u64 {
    (u64::from(entries) * u64::from(bits_per_entry)).div_ceil(8)
}

/// The sum of two numbers below the modulus.
fn add(a: u32, b: u32, modulus: u32) -> u32 {
    let room = modulus - a;
    if b < room { a + b } else { b - room }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn hash(seed: u64) -> ChangeHash {
        ChangeHash(Sha256::digest(seed.to_le_bytes()).into())
    }

    #[test]
    fn wrong_answers_are_few() {
        let held: Vec<ChangeHash> = (0..1000).map(hash).collect();
        let filter = BloomFilter::from_hashes(held.iter());
        assert_eq!(filter.encode().len(), 2 + 1 + 1 + 1250);
        assert!(held.iter().all(|hash| filter.contains(hash)));
        let wrong = (0..10_000).filter(|seed| filter.contains(&hash(seed + 1_000_000))).count();
        assert!(wrong < 300, "{wrong}");
    }

    #[test]
    fn a_bound_costs_bits_but_no_entries() {
        let held: Vec<ChangeHash> = (0..1000).map(hash).collect();
        for (max_bytes, bits) in [(10_000, 10), (1250, 10), (1249, 9), (700, 5), (125, 1)] {
            let filter = BloomFilter::from_hashes_within(held.iter(), max_bytes);
            assert_eq!(filter.bits_per_entry, bits);
            assert!(filter.bits.len() <= max_bytes && filter.probes > 0);
            assert!(held.iter().all(|hash| filter.contains(hash)));
        }
        assert!(BloomFilter::from_hashes_within(held.iter(), 124).is_empty());
        assert!(BloomFilter::from_hashes_within([].iter(), 0).is_empty());
    }

    #[test]
    fn refusals() {
        let refused = |bytes: &[u8]| match BloomFilter::decode(bytes) {
            Err(Error::Sync { part, fault, .. }) => (part, fault),
            other => panic!("not refused: {other:?}"),
        };
        assert_eq!(refused(&[1]), ("bits per entry", Fault::Truncated));
        assert_eq!(refused(&[1, 10, 7, 0]), ("bits", Fault::Truncated));
        assert_eq!(refused(&[1, 0, 7, 0, 0]), ("bits per entry", Fault::OutOfRange(0)));
        assert_eq!(refused(&[1, 8, 65, 0]), ("probe count", Fault::TooMany(65)));
        assert_eq!(refused(&[0x81, 0, 8, 7, 0]), ("entry count", Fault::Overlong));
        let huge = [0xff, 0xff, 0xff, 0xff, 15, 0xff, 0xff, 0xff, 0xff, 15, 1, 0];
        assert!(matches!(refused(&huge), ("bits", Fault::TooMany(_))));
        let large = [0xff, 0xff, 0xff, 0x7f, 10, 7, 1];
        assert_eq!(refused(&large), ("bits", Fault::Truncated));
    }

    #[test]
    fn odd_parameters_are_read() {
        let filter = BloomFilter::decode(&[1, 8, 0, 0xff, 9]).unwrap();
        assert!(filter.contains(&hash(7)));
        assert_eq!(filter.encode(), [1, 8, 0, 0xff]);
        assert!(BloomFilter::decode(&[0, 0, 0]).unwrap().is_empty());
        assert_eq!(add(5, 3, 7), 1);
        assert_eq!(add(u32::MAX - 8, u32::MAX - 8, u32::MAX - 7), u32::MAX - 9);
    }

    proptest! {
        #[test]
        fn both_ways(seeds in proptest::collection::vec(any::<u64>(), 0..80)) {
            let held: Vec<ChangeHash> = seeds.into_iter().map(hash).collect();
            let filter = BloomFilter::from_hashes(held.iter());
            prop_assert_eq!(filter.len(), held.len());
            let again = BloomFilter::decode(&filter.encode()).unwrap();
            prop_assert!(held.iter().all(|hash| again.contains(hash)));
            prop_assert_eq!(again, filter);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80), seed: u64) {
            if let Ok(filter) = BloomFilter::decode(&bytes) {
                let _ = filter.contains(&hash(seed));
                prop_assert!(bytes.starts_with(&filter.encode()) || filter.is_empty());
            }
        }
    }
}
