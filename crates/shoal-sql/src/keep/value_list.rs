//! Values side by side: many of them in two allocations.

use crate::value::ValueRef;

/// A list of values, found by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ValueList {
    slots: Vec<Slot>,
    /// Texts and blobs, one behind the other.
    bytes: Vec<u8>,
}

/// A number, or the place of a text or blob; and its length, with the kind in the lowest bits.
#[derive(Clone, Copy, Debug)]
struct Slot {
    word: u64,
    tail: u64,
}

const NULL: u64 = 0;
const INT: u64 = 1;
const REAL: u64 = 2;
const TEXT: u64 = 3;
const BLOB: u64 = 4;
/// The bits of a kind.
const KIND_BITS: u32 = 3;
const KINDS: u64 = (1 << KIND_BITS) - 1;

impl ValueList {
    /// The value with the number `number`.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> ValueRef<'_> {
        let Slot { word, tail } = self.slots[number];
        match tail & KINDS {
            NULL => ValueRef::Null,
            INT => ValueRef::Int(word.cast_signed()),
            REAL => ValueRef::Real(f64::from_bits(word)),
            kind => {
                // Start and length both were lengths in memory.
                let (start, len) = (word as usize, (tail >> KIND_BITS) as usize);
                let bytes = &self.bytes[start..start + len];
                if kind == TEXT { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) }
            }
        }
    }

    /// Adds a value.
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        let slot = match value {
            ValueRef::Null => Slot { word: 0, tail: NULL },
            ValueRef::Int(int) => Slot { word: int.cast_unsigned(), tail: INT },
            ValueRef::Real(real) => Slot { word: real.to_bits(), tail: REAL },
            ValueRef::Text(text) => self.keep(TEXT, text),
            ValueRef::Blob(blob) => self.keep(BLOB, blob),
        };
        self.slots.push(slot);
    }

    /// Adds a value, perhaps equal to one of the last `near` ones: its bytes are then kept once.
    #[inline]
    pub(crate) fn push_again(&mut self, value: ValueRef<'_>, near: usize) {
        if let ValueRef::Text(_) | ValueRef::Blob(_) = value {
            for number in self.slots.len().saturating_sub(near)..self.slots.len() {
                if self.get(number) == value {
                    self.slots.push(self.slots[number]);
                    return;
                }
            }
        }
        self.push(value);
    }

    fn keep(&mut self, kind: u64, bytes: &[u8]) -> Slot {
        let slot =
            Slot { word: self.bytes.len() as u64, tail: (bytes.len() as u64) << KIND_BITS | kind };
        self.bytes.extend_from_slice(bytes);
        slot
    }

    /// `count` values from number `from` on.
    pub(crate) fn values(
        &self,
        from: usize,
        count: usize,
    ) -> impl Iterator<Item = ValueRef<'_>> + Clone {
        (from..from + count).map(|number| self.get(number))
    }

    /// Forgets the first `count` values; the values behind are then counted from 0.
    pub(crate) fn remove_first(&mut self, count: usize) {
        self.slots.drain(..count.min(self.slots.len()));
        let starts = self.slots.iter().filter(|slot| slot.tail & KINDS >= TEXT);
        let unused = starts.map(|slot| slot.word).min().unwrap_or(self.bytes.len() as u64);
        self.bytes.drain(..unused as usize);
        for slot in &mut self.slots {
            if slot.tail & KINDS >= TEXT {
                slot.word -= unused;
            }
        }
    }

    /// Puts `count` values from number `from` on in place of those from `to` on, before them.
    pub(crate) fn move_down(&mut self, from: usize, to: usize, count: usize) {
        self.slots.copy_within(from..from + count, to);
    }

    /// Forgets the values from number `count` on. Bytes of texts and blobs stay until all values
    /// are forgotten.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.slots.truncate(count);
    }

    /// Forgets all values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn values_come_back_as_they_were() {
        let values = [
            Value::Null,
            Value::Int(i64::MIN),
            Value::text("abc"),
            Value::Real(-0.5),
            Value::Blob(vec![]),
            Value::text("abc"),
            Value::Blob(b"abc".to_vec()),
            Value::Int(7),
        ];
        let mut list = ValueList::default();
        for value in &values {
            list.push_again(value.as_ref(), 3);
        }
        assert_eq!(list.bytes, b"abcabc");
        for removed in [0, 3, 2, 3] {
            list.remove_first(removed);
            let rest = &values[values.len() - list.slots.len()..];
            let got: Vec<Value> = list.values(0, list.slots.len()).map(Value::from).collect();
            assert_eq!(got, rest);
        }
        assert!(list.bytes.is_empty());
        assert_eq!(list.slots.len(), 0);
        values.iter().for_each(|value| list.push(value.as_ref()));
        list.move_down(4, 1, 2);
        list.truncate(3);
        let got: Vec<Value> = list.values(0, list.slots.len()).map(Value::from).collect();
        assert_eq!(got, [0, 4, 5].map(|number: usize| values[number].clone()));
    }
}
