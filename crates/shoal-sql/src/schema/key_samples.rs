//! Samples of an index's keys, written by an `ANALYZE` of SQLite compiled with `STAT4` to the table
//! `sqlite_stat4`: entries of the index, each with the number of entries of an equal key, and of a
//! smaller one. Samples tell a frequent value from a rare one, where `sqlite_stat1` knows the
//! average.
//!
//! Samples choose plans and nothing else: an unreadable one is skipped.

use std::cmp::Ordering;

use shoal_store::{KeyOrder, Record, ValueRef};

use crate::value::Value;

/// Most samples kept of an index: SQLite writes 24 and a few more.
const SAMPLES_MAX: usize = 512;

/// Longest record of a sample to be read.
const SAMPLE_BYTES_MAX: usize = 1 << 12;

/// Samples of one index, by their keys.
#[derive(Debug, Default)]
pub(super) struct KeySamples {
    samples: Vec<KeySample>,
}

/// One entry of an index. The numbers are by count of columns, of the key's first ones.
#[derive(Debug)]
pub(super) struct KeySample {
    key: Vec<Value>,
    /// Entries with equal first columns, and with smaller ones.
    equal: Vec<f64>,
    less: Vec<f64>,
    /// Different smaller values of these columns.
    distinct_less: Vec<f64>,
}

impl KeySample {
    /// A sample by the columns of a row of `sqlite_stat4`; `None` for an empty one.
    pub(super) fn read(counts: [&str; 3], sample: &[u8], columns: usize) -> Option<KeySample> {
        if sample.len() > SAMPLE_BYTES_MAX {
            return None;
        }
        let numbers = |text: &str| {
            let words = text.split_ascii_whitespace().take(columns);
            let numbers = words.map(|word| word.parse::<f64>().ok().filter(|it| it.is_finite()));
            let numbers: Option<Vec<f64>> = numbers.collect();
            numbers.filter(|numbers| numbers.iter().all(|number| *number >= 0.0))
        };
        let [equal, less, distinct_less] = counts.map(numbers);
        let (equal, less, distinct_less) = (equal?, less?, distinct_less?);
        let values = Record::new(sample).ok()?.values().take(columns);
        let key: Vec<Value> =
            values.map(|value| value.ok().map(Value::from)).collect::<Option<_>>()?;
        let known = [equal.len(), less.len(), distinct_less.len(), key.len()];
        let is_whole = columns > 0 && known.iter().all(|&known| known == columns);
        is_whole.then_some(KeySample { key, equal, less, distinct_less })
    }

    fn compare(&self, order: &KeyOrder, key: &[Value]) -> Ordering {
        let columns = self.key.iter().zip(key).enumerate();
        columns
            .map(|(place, (own, other))| order.compare_column(place, own.as_ref(), other.as_ref()))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl KeySamples {
    pub(super) fn push(&mut self, sample: KeySample) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
        }
    }

    /// Brings the samples into the index's order, and leaves out samples in contradiction to an
    /// earlier one: behind a larger key there are no fewer smaller keys.
    pub(super) fn sort(&mut self, order: &KeyOrder) {
        self.samples.sort_by(|a, b| a.compare(order, &b.key));
        let mut highest = 0.0;
        self.samples.retain(|sample| {
            let stays = sample.less[0] >= highest;
            highest = if stays { sample.less[0] } else { highest };
            stays
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Entries with NULL as their first value.
    pub(super) fn nulls(&self) -> f64 {
        let is_null = |sample: &&KeySample| sample.key.first().is_some_and(Value::is_null);
        self.samples.iter().find(is_null).map_or(0.0, |sample| sample.equal[0])
    }

    /// About how many of `rows` entries have these first values; an average value has `per_key`
    /// entries.
    pub(super) fn rows_equal(
        &self,
        order: &KeyOrder,
        key: &[Value],
        (rows, per_key): (f64, f64),
    ) -> Option<f64> {
        let columns = key.len();
        let last = columns.checked_sub(1)?;
        let at = self.samples.partition_point(|sample| sample.compare(order, key).is_lt());
        let next = self.samples.get(at);
        if let Some(found) = next.filter(|sample| sample.compare(order, key).is_eq()) {
            return found.equal.get(last).map(|rows| rows.max(1.0));
        }
        // A value without a sample: the average of all values without one, as far as there is room
        // between the samples around.
        let mut sampled = (0.0, 0.0);
        for (number, sample) in self.samples.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &self.samples[before]);
            let is_new = before.is_none_or(|before| {
                before.compare(order, sample.key.get(..columns).unwrap_or_default()).is_ne()
            });
            if is_new {
                sampled = (sampled.0 + sample.equal.get(last)?, sampled.1 + 1.0);
            }
        }
        let values = rows / per_key.max(1.0);
        let others = ((rows - sampled.0) / (values - sampled.1).max(1.0)).clamp(1.0, rows.max(1.0));
        let before = at.checked_sub(1).and_then(|before| self.samples.get(before));
        let low = before.map_or(0.0, |sample| sample.less[last] + sample.equal[last]);
        let high = next.map_or(rows, |sample| sample.less[last]);
        let distinct = next.map_or(values, |sample| sample.distinct_less[last])
            - before.map_or(0.0, |sample| sample.distinct_less[last] + 1.0);
        let room = (high - low).max(1.0);
        Some(match distinct >= 1.0 {
            true => (room / distinct).max(1.0),
            false => others.min(room),
        })
    }

    /// About how many of `rows` entries have a first value below this one, in the index's
    /// direction; with `inclusive` entries with the value count, too.
    pub(super) fn rows_below(
        &self,
        order: &KeyOrder,
        value: &Value,
        (rows, inclusive): (f64, bool),
    ) -> f64 {
        let key = std::slice::from_ref(value);
        let at = self.samples.partition_point(|sample| sample.compare(order, key).is_lt());
        let next = self.samples.get(at);
        if let Some(found) = next.filter(|sample| sample.compare(order, key).is_eq()) {
            return found.less[0] + if inclusive { found.equal[0] } else { 0.0 };
        }
        let before = at.checked_sub(1).and_then(|before| self.samples.get(before));
        let low = before.map_or(0.0, |sample| sample.less[0] + sample.equal[0]);
        let high = next.map_or(rows, |sample| sample.less[0]).max(low);
        // Numbers lie between the samples around as they do, other values in the middle.
        let place = match (before.map(number_of), number(value), next.map(number_of)) {
            (Some(Some(low)), Some(value), Some(Some(high))) if low != high => {
                ((value - low) / (high - low)).clamp(0.0, 1.0)
            }
            _ => 0.5,
        };
        low + place * (high - low)
    }
}

fn number_of(sample: &KeySample) -> Option<f64> {
    number(sample.key.first()?)
}

fn number(value: &Value) -> Option<f64> {
    match value.as_ref() {
        ValueRef::Int(int) => Some(int as f64),
        ValueRef::Real(real) => Some(real),
        _ => None,
    }
}
