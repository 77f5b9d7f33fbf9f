//! Memo of a query within an expression: its results for rows like the current one.

use rustc_hash::FxHashMap;

use crate::plan::Reg;
use crate::value::Value;

/// Most bytes of all answers kept.
const BYTES_MAX: usize = 1 << 22;
/// Number of rows deciding if answers repeat, and for queries by a rowid of a row around, whose
/// values seldom do.
const TRIALS: usize = 2048;
const TRIALS_BY_ROWID: usize = 128;
/// Answers worth keeping: as many as fit into the bytes, about.
const ANSWERS_MAX: usize = BYTES_MAX / 96;

/// Answers by the values the query reads of the rows around.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: FxHashMap<Box<[u8]>, Value>,
    /// The key of the last lookup.
    key: Vec<u8>,
    bytes: usize,
    hits: usize,
    misses: usize,
    /// True for a query by a rowid of a row around.
    by_rowid: bool,
}

impl Memo {
    /// No answers yet; `by_rowid` for a query by a rowid of a row around.
    pub(super) fn new(by_rowid: bool) -> Memo {
        Memo { by_rowid, ..Memo::default() }
    }

    /// The answer for the registers' current values.
    pub(super) fn find(&mut self, reads: &[Reg], registers: &[Value]) -> Option<&Value> {
        if !self.is_worth_it() {
            return None;
        }
        self.key.clear();
        reads.iter().for_each(|&reg| push_exact(&registers[reg], &mut self.key));
        let found = self.known.get(self.key.as_slice());
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    /// Keeps the answer for the key of the last lookup.
    pub(super) fn keep(&mut self, answer: &Value) {
        let size = self.key.len() + byte_count(answer) + 64;
        if !self.is_worth_it() || size > BYTES_MAX / 16 {
            return;
        }
        if self.bytes + size > BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += size;
        self.known.insert(self.key.as_slice().into(), answer.clone());
    }

    /// Of `n` rows with values in no order, of which so many were seen before, there are about
    /// `n * n / (2 * seen)` different ones: where those fit, most rows to come are known.
    fn is_worth_it(&self) -> bool {
        let rows = self.misses + self.hits;
        let trials = if self.by_rowid { TRIALS_BY_ROWID } else { TRIALS };
        self.misses < trials
            || self.hits >= self.misses / 4
            || rows < ANSWERS_MAX && rows * rows < 2 * ANSWERS_MAX * self.hits
    }
}

fn byte_count(value: &Value) -> usize {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        _ => 8,
    }
}

/// Appends a value's exact key: different values have different bytes, 1 and 1.0 among them.
fn push_exact(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Int(int) => {
            out.push(1);
            out.extend_from_slice(&int.to_le_bytes());
        }
        Value::Real(real) => {
            out.push(2);
            out.extend_from_slice(&real.to_bits().to_le_bytes());
        }
        Value::Text(bytes) | Value::Blob(bytes) => {
            out.push(if matches!(value, Value::Text(_)) { 3 } else { 4 });
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_belong_to_exact_values() {
        let mut memo = Memo::default();
        let values =
            [Value::Int(1), Value::Real(1.0), Value::text("1"), Value::Blob(b"1".to_vec())];
        for (place, value) in values.iter().enumerate() {
            assert_eq!(memo.find(&[0], std::slice::from_ref(value)), None);
            memo.keep(&Value::Int(place as i64));
        }
        for (place, value) in values.iter().enumerate() {
            let found = memo.find(&[0], std::slice::from_ref(value));
            assert_eq!(found, Some(&Value::Int(place as i64)));
        }
    }

    #[test]
    fn answers_that_never_repeat_are_not_kept() {
        let mut memo = Memo::default();
        for row in 0..10_000 {
            assert_eq!(memo.find(&[0], &[Value::Int(row)]), None);
            memo.keep(&Value::Null);
        }
        assert!(memo.known.len() <= TRIALS);
    }
}
