//! Random numbers of a test: the same for a seed, everywhere.

/// A xorshift generator of 64 bits.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator in a state; 0 gives zeros forever.
    ///
    /// # Panics
    /// When the state is 0.
    pub fn new(state: u64) -> Random {
        assert!(state != 0, "a xorshift generator in state 0 stays there");
        Random(state)
    }

    /// A generator for one of many seeds, 0 among them; neighbouring seeds give other numbers.
    pub fn seeded(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 up to `bound`, which is left out.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A place in a sequence of `length` items.
    pub fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("a place fits a usize")
    }

    /// One of some items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.place(items.len())]
    }
}
