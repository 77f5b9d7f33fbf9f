//! Bytes as a script: choices read one by one; past the end every choice is the first.

/// The bytes not yet taken.
#[derive(Clone, Debug)]
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    /// The next byte, or 0.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// A number below `count`; counts above 256 are not reached.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of `all`.
    pub fn pick<'c, T>(&mut self, all: &'c [T]) -> &'c T {
        &all[self.below(all.len())]
    }

    /// True once there is nothing left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
