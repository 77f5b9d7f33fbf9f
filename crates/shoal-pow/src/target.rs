//! The bound of tags.

use std::fmt;

use crate::TAG_BYTES;

/// The greatest tag to count, as a 256-bit number.
///
/// A share and a block are the same tag held against different targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target([u8; TAG_BYTES]);

impl Target {
    /// From its big-endian bytes.
    pub const fn from_bytes(bytes: [u8; TAG_BYTES]) -> Self {
        Self(bytes)
    }

    /// `(2^256 - 1) / difficulty`, rounded down: one tag in about `difficulty` meets it.
    ///
    /// Difficulty 0 means nothing: its target is zero, met by no tag in practice.
    pub fn from_difficulty(difficulty: u64) -> Self {
        let mut bytes = [0; TAG_BYTES];
        if difficulty == 0 {
            return Self(bytes);
        }
        // Long division of 32 bytes of 255, the most significant first.
        let mut rest = 0;
        for byte in &mut bytes {
            let part = rest << 8 | 0xff;
            // The rest is below the difficulty, so the quotient is below 256.
            *byte = (part / u128::from(difficulty)) as u8;
            rest = part % u128::from(difficulty);
        }
        Self(bytes)
    }

    /// Its big-endian bytes.
    pub const fn to_bytes(self) -> [u8; TAG_BYTES] {
        self.0
    }

    /// `true` for a tag at most this, both read as big-endian numbers. The only place where the
    /// order of bytes decides.
    pub fn is_met_by(&self, tag: &[u8; TAG_BYTES]) -> bool {
        *tag <= self.0
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn hex(difficulty: u64) -> String {
        shoal_stdx::hex::encode(&Target::from_difficulty(difficulty).to_bytes())
    }

    #[test]
    fn difficulties_of_the_chain() {
        for (difficulty, expect) in [
            (0, "0".repeat(64)),
            (1, "f".repeat(64)),
            (2, "7".to_owned() + &"f".repeat(63)),
            (3, "5".repeat(64)),
            (4, "3".to_owned() + &"f".repeat(63)),
            (60, "0".to_owned() + &"4".repeat(63)),
            (128, "01".to_owned() + &"f".repeat(62)),
            (256, "00".to_owned() + &"f".repeat(62)),
            (321, "00cc29786c7607f99eb43c9c4fc0330a5e1b1d81fe67ad0f2713f00cc29786c7".into()),
            (1000, "004189374bc6a7ef9db22d0e5604189374bc6a7ef9db22d0e5604189374bc6a7".into()),
            (1_000_000, "000010c6f7a0b5ed8d36b4c7f34938583621fafc8b0079a2834d26fa3fcc9ea9".into()),
            (
                1_000_000_000,
                "000000044b82fa09b5a52cb98b405447c4a98187eebb22f008d5d64f9c394ae9".into(),
            ),
            (u64::MAX, "0000000000000001".repeat(4)),
        ] {
            assert_eq!(hex(difficulty), expect, "{difficulty}");
        }
    }

    #[test]
    fn the_first_byte_weighs_most_and_equal_passes() {
        let mut bytes = [0; TAG_BYTES];
        (bytes[0], bytes[31]) = (1, 1);
        let target = Target::from_bytes(bytes);
        assert!(target.is_met_by(&bytes));
        bytes[31] = 2;
        assert!(!target.is_met_by(&bytes));
        (bytes[0], bytes[31]) = (0, 255);
        assert!(target.is_met_by(&bytes));
    }

    proptest! {
        /// Harder means no more tags.
        #[test]
        fn targets_fall_as_difficulty_rises(a in 1u64.., b in 1u64..) {
            let (low, high) = (a.min(b), a.max(b));
            let (low, high) = (Target::from_difficulty(low), Target::from_difficulty(high));
            prop_assert!(low.is_met_by(&high.to_bytes()));
        }
    }
}
