//! Values in boxes, in the place of locked memory on systems other than Unix.

use std::ops::Deref;

/// A value in a box of its own; elsewhere its pages are locked in memory.
pub struct Locked<T: ?Sized>(Box<T>);

impl<T> Locked<T> {
    /// The value, boxed.
    pub fn new(value: T) -> Locked<T> {
        Locked(Box::new(value))
    }
}

impl Locked<[u8]> {
    /// A copy of the bytes.
    pub fn copied(bytes: &[u8]) -> Locked<[u8]> {
        Locked(bytes.into())
    }
}

/// True: nothing is locked here.
pub fn is_memory_lock_refused() -> bool {
    true
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
