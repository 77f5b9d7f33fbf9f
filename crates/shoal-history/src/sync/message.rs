//! Sync messages (format: sync, message bytes).
//!
//! Layout: `0x42` (version 1) or `0x43` (version 2); heads; need; have, each with the hashes of
//! the last sync and a length-prefixed filter; changes, each length-prefixed; then, unless the
//! sender is an old one, length-prefixed flags. Lists begin with their length. What follows the
//! flags is ignored, for those who come after us.

use super::bloom::BloomFilter;
use crate::column::leb128::{Reader, uleb_len, write_length_prefixed, write_uleb};
use crate::{ChangeHash, Error, Fault};

const STRUCTURE: &str = "sync message";
const V1: u8 = 0x42;
const V2: u8 = 0x43;

/// In the flags of a message, what says that its sender understands version 2. Kept first for
/// peers from before the other flags.
const LEGACY_V2: u8 = 0x02;
/// The bit that tells bytes of flags from older things.
const FLAGS: u8 = 0x80;

/// More summaries than any peer sends (the reference sends one): each is asked about every
/// change.
const MAX_HAVE: usize = 64;

/// What one peer tells another about one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncMessage {
    /// How the changes are laid out.
    pub version: SyncVersion,
    /// The heads of the sender, ascending.
    pub heads: Vec<ChangeHash>,
    /// Changes that the sender asks for by name, ascending.
    pub need: Vec<ChangeHash>,
    /// What the sender has: implicitly, it asks for the rest.
    pub have: Vec<Have>,
    /// Changes for the receiver.
    pub changes: ChangeData,
    /// What else the sender says; peers from before version 2 say nothing.
    pub flags: Option<SyncFlags>,
}

/// The layout of the changes in a message. Receivers take either in every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncVersion {
    /// One entry for each change.
    V1,
    /// One entry with any chunks, such as a whole document.
    V2,
}

/// A summary of what the sender of a message has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Have {
    /// The heads that both peers had when they last agreed.
    pub last_sync: Vec<ChangeHash>,
    /// The changes that the sender has had since then.
    pub bloom: BloomFilter,
}

/// The changes of a message: entries of chunks, kept in one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeData {
    bytes: Vec<u8>,
    /// Where each entry ends in `bytes`.
    ends: Vec<usize>,
}

/// What a sender says of itself, and signals for the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SyncFlags(u8);

impl SyncMessage {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        out.push(match self.version {
            SyncVersion::V1 => V1,
            SyncVersion::V2 => V2,
        });
        write_hashes(&self.heads, &mut out);
        write_hashes(&self.need, &mut out);
        write_uleb(self.have.len() as u64, &mut out);
        for have in &self.have {
            write_hashes(&have.last_sync, &mut out);
            write_length_prefixed(&have.bloom.encode(), &mut out);
        }
        write_uleb(self.changes.len() as u64, &mut out);
        for entry in self.changes.entries() {
            write_length_prefixed(entry, &mut out);
        }
        if let Some(flags) = self.flags {
            write_length_prefixed(&[LEGACY_V2, FLAGS | flags.0], &mut out);
        }
        out
    }

    /// Reads a message; its changes are not looked at. Memory: the bytes, and eight for each entry
    /// of changes.
    ///
    /// # Errors
    /// [`Error::Sync`] when the bytes are no message, or hold more than 64 summaries.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fault = |part| move |fault| Error::Sync { structure: STRUCTURE, part, fault };
        let mut reader = Reader::new(bytes);
        let version = match reader.byte().map_err(fault("version"))? {
            V1 => SyncVersion::V1,
            V2 => SyncVersion::V2,
            other => return Err(fault("version")(Fault::OutOfRange(i64::from(other)))),
        };
        let heads = read_hashes(&mut reader).map_err(fault("heads"))?;
        let need = read_hashes(&mut reader).map_err(fault("need"))?;
        let have_count = reader.count(2).map_err(fault("have"))?;
        if have_count > MAX_HAVE {
            return Err(fault("have")(Fault::TooMany(have_count as u64)));
        }
        let mut have = Vec::with_capacity(have_count);
        for _ in 0..have_count {
            let last_sync = read_hashes(&mut reader).map_err(fault("last sync"))?;
            let bloom = reader.length_prefixed().map_err(fault("bloom filter"))?;
            have.push(Have { last_sync, bloom: BloomFilter::decode(bloom)? });
        }
        let entry_count = reader.count(1).map_err(fault("changes"))?;
        let mut changes = ChangeData {
            bytes: Vec::with_capacity(reader.len() - entry_count),
            ends: Vec::with_capacity(entry_count),
        };
        for _ in 0..entry_count {
            changes.push(reader.length_prefixed().map_err(fault("changes"))?);
        }
        let flags = if reader.is_empty() {
            None
        } else {
            let bytes = reader.length_prefixed().map_err(fault("flags"))?;
            let flags = bytes.iter().filter(|&&byte| byte & FLAGS != 0);
            Some(SyncFlags(flags.fold(0, |flags, byte| flags | (byte & !FLAGS))))
        };
        Ok(Self { version, heads, need, have, changes, flags })
    }

    /// How many bytes [`encode`](Self::encode) gives, or a few less.
    pub(super) fn encoded_len(&self) -> usize {
        let hashes = |hashes: &[ChangeHash]| 2 + hashes.len() * 32;
        let have = |have: &Have| hashes(&have.last_sync) + 16 + have.bloom.encoded_len();
        let entries = self.changes.entries();
        1 + hashes(&self.heads)
            + hashes(&self.need)
            + self.have.iter().map(have).sum::<usize>()
            + entries.map(|entry| uleb_len(entry.len() as u64) + entry.len()).sum::<usize>()
            + 8
    }
}

impl ChangeData {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The one entry with these chunks; none when there are no bytes.
    pub fn whole(bytes: Vec<u8>) -> Self {
        let ends = if bytes.is_empty() { Vec::new() } else { vec![bytes.len()] };
        Self { bytes, ends }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &[u8]) {
        self.bytes.extend_from_slice(entry);
        self.ends.push(self.bytes.len());
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ends.iter().enumerate().map(|(at, &end)| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..end]
        })
    }

    /// The chunks of all entries, one after the other.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl SyncFlags {
    /// The receiver shall forget what it has sent.
    pub const RESET: Self = Self(1);
    /// The sender ignores changes.
    pub const READ_ONLY: Self = Self(2);
    /// The sender knows what [`RESET`](Self::RESET) means.
    pub const SUPPORTS_RESET: Self = Self(4);

    /// These flags and others.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the others are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

pub(super) fn write_hashes(hashes: &[ChangeHash], out: &mut Vec<u8>) {
    write_uleb(hashes.len() as u64, out);
    for hash in hashes {
        out.extend_from_slice(&hash.0);
    }
}

pub(super) fn read_hashes(reader: &mut Reader<'_>) -> Result<Vec<ChangeHash>, Fault> {
    let count = reader.count(32)?;
    (0..count).map(|_| reader.hash()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashes() -> impl Strategy<Value = Vec<ChangeHash>> {
        proptest::collection::btree_set(any::<[u8; 32]>().prop_map(ChangeHash), 0..4)
            .prop_map(|hashes| hashes.into_iter().collect())
    }

    prop_compose! {
        fn message()(
            is_v2: bool,
            heads in hashes(),
            need in hashes(),
            have in proptest::collection::vec((hashes(), hashes()), 0..3),
            entries in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..200), 0..4),
            flags in proptest::option::of(0_u8..128),
        ) -> SyncMessage {
            let mut changes = ChangeData::new();
            for entry in &entries {
                changes.push(entry);
            }
            let have = have.into_iter().map(|(last_sync, held)| {
                Have { last_sync, bloom: BloomFilter::from_hashes(held.iter()) }
            });
            SyncMessage {
                version: if is_v2 { SyncVersion::V2 } else { SyncVersion::V1 },
                heads,
                need,
                have: have.collect(),
                changes,
                flags: flags.map(SyncFlags),
            }
        }
    }

    fn refused(bytes: &[u8]) -> (&'static str, Fault) {
        match SyncMessage::decode(bytes) {
            Err(Error::Sync { structure: STRUCTURE, part, fault }) => (part, fault),
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn counts_are_checked_before_anything_is_allocated() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let with = |start: &[u8]| [start, &most[..], &[0; 40][..]].concat();
        assert_eq!(refused(&with(&[V1])), ("heads", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0])), ("need", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0])), ("have", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0, 1])), ("last sync", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0, 1, 0])), ("bloom filter", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0, 0])), ("changes", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0, 0, 1])), ("changes", Fault::Truncated));
        assert_eq!(refused(&with(&[V1, 0, 0, 0, 0])), ("flags", Fault::Truncated));
    }

    #[test]
    fn refusals() {
        assert_eq!(refused(&[]), ("version", Fault::Truncated));
        assert_eq!(refused(&[0x41, 0, 0, 0, 0]), ("version", Fault::OutOfRange(0x41)));
        assert_eq!(refused(&[V1, 0x80, 0, 0, 0, 0]), ("heads", Fault::Overlong));
        let mut many = vec![V1, 0, 0, 65];
        many.extend([0; 200]);
        assert_eq!(refused(&many), ("have", Fault::TooMany(65)));
        many[3] = 64;
        assert!(SyncMessage::decode(&many).is_ok());
        let filter = SyncMessage::decode(&[V1, 0, 0, 1, 0, 4, 1, 0, 7, 0, 0]).unwrap_err();
        assert_eq!(filter.to_string(), "bloom filter: bits per entry: number out of range: 0");
    }

    #[test]
    fn flags_of_every_age() {
        let flags =
            |end: &[u8]| SyncMessage::decode(&[&[V2, 0, 0, 0, 0], end].concat()).unwrap().flags;
        assert_eq!(flags(&[]), None);
        assert_eq!(flags(&[0]), Some(SyncFlags(0)));
        assert_eq!(flags(&[2, 1, 2]), Some(SyncFlags(0)));
        let both = SyncFlags::READ_ONLY.with(SyncFlags::SUPPORTS_RESET);
        assert_eq!(flags(&[3, 2, 0x82, 0x84]), Some(both));
        assert_eq!(flags(&[2, 2, 0x86, 9, 9, 9]), Some(both));
        assert!(both.contains(SyncFlags::READ_ONLY) && !both.contains(SyncFlags::RESET));
    }

    proptest! {
        #[test]
        fn both_ways(message in message(), end in 0_usize..1000) {
            let bytes = message.encode();
            prop_assert!(message.encoded_len() + 20 > bytes.len());
            prop_assert_eq!(SyncMessage::decode(&bytes), Ok(message.clone()));
            let longer = [&bytes[..], &[7, 7]].concat();
            if message.flags.is_some() {
                prop_assert_eq!(SyncMessage::decode(&longer), Ok(message.clone()));
            }
            let end = end % bytes.len();
            // Without its flags, and only then, a message that is cut is one.
            let cut = SyncMessage::decode(&bytes[..end]);
            let without_flags = end + 3 == bytes.len() && message.flags.is_some();
            prop_assert_eq!(cut.is_ok(), without_flags);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0x42_u8..0x44) {
            let _ = SyncMessage::decode(&bytes);
            let small: Vec<u8> = bytes.iter().map(|byte| byte % 5).collect();
            for bytes in [bytes, small] {
                if let Ok(message) = SyncMessage::decode(&[&[version], &bytes[..]].concat()) {
                    prop_assert_eq!(SyncMessage::decode(&message.encode()), Ok(message));
                }
            }
        }
    }
}
