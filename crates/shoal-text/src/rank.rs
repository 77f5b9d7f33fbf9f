//! Ranking by bm25: of a row, and of the best rows alone.

use std::collections::BinaryHeap;

use crate::definition::{Definition, Detail};
use crate::error::Result;
use crate::index::decode_sizes;
use crate::positions::{Positions, column};
use crate::search::{PhraseCursor, Search};
use crate::storage::Storage;

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Weight of a phrase that more than half of the rows have.
const WEIGHT_MIN: f64 = 1e-6;

/// A row with its rank; smaller ranks are better, smaller rowids among equals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranked {
    rank: f64,
    rowid: i64,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.rank.total_cmp(&other.rank).then(self.rowid.cmp(&other.rowid))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The score of one phrase: `frequency` in a row of `size` tokens, where rows have `mean`.
#[inline]
fn score(weight: f64, frequency: f64, size: f64, mean: f64) -> f64 {
    weight * ((frequency * (K1 + 1.0)) / (frequency + K1 * (1.0 - B + B * size / mean)))
}

impl Search {
    /// The rank of the current row: bm25 with a weight of each column, 1 of those without.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn bm25(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        weights: &[f64],
    ) -> Result<f64> {
        let Some(row) = self.row() else { return Ok(0.0) };
        self.weigh_phrases(store, definition)?;
        let mut frequencies = vec![0.0; self.phrases.len()];
        for instance in self.instances(store, definition)? {
            frequencies[instance.phrase] += weights.get(instance.column).copied().unwrap_or(1.0);
        }
        let mut sizes = Vec::new();
        let size = self.row_size(store, definition, row, &mut sizes)?;
        Ok(self.rank_of(&frequencies, size))
    }

    fn rank_of(&self, frequencies: &[f64], size: f64) -> f64 {
        let mean = self.mean_size();
        let phrases = self.weights.as_deref().unwrap_or_default();
        let mut sum = 0.0;
        for (&weight, &frequency) in phrases.iter().zip(frequencies) {
            sum += score(weight, frequency, size, mean);
        }
        -sum
    }

    fn mean_size(&self) -> f64 {
        let totals = &self.opened.totals;
        totals.tokens.iter().sum::<u64>() as f64 / totals.rows as f64
    }

    /// Tokens of a row in all columns.
    fn row_size(
        &self,
        store: &dyn Storage,
        definition: &Definition,
        row: i64,
        buffer: &mut Vec<u8>,
    ) -> Result<f64> {
        let mut size = 0.0;
        let mut sizes = Vec::new();
        self.column_sizes(store, definition, row, buffer, &mut sizes)?;
        for tokens in sizes {
            size += tokens as f64;
        }
        Ok(size)
    }

    /// Tokens of each column of a row: from `%_docsize`, or from the texts.
    pub(crate) fn column_sizes(
        &self,
        store: &dyn Storage,
        definition: &Definition,
        row: i64,
        buffer: &mut Vec<u8>,
        sizes: &mut Vec<u64>,
    ) -> Result<()> {
        sizes.clear();
        if definition.has_sizes {
            if !store.sizes(row, buffer)? {
                return Err(crate::error::Error::corrupt("document sizes", row, "are absent"));
            }
            decode_sizes(buffer, definition.columns.len(), sizes);
            return Ok(());
        }
        let mut term = Vec::new();
        for (number, column) in definition.columns.iter().enumerate() {
            let mut size = 0;
            if !column.is_unindexed && definition.has_texts() {
                store.text(row, number, buffer)?;
                definition.tokenizer.tokenize(buffer, &mut term, &mut |_, _, _| {
                    size += 1;
                    true
                });
            }
            sizes.push(size);
        }
        Ok(())
    }

    /// Finds the weight of each phrase: how few of all rows have it.
    fn weigh_phrases(&mut self, store: &dyn Storage, definition: &Definition) -> Result<()> {
        if self.weights.is_some() {
            return Ok(());
        }
        let structure = &self.opened.structure;
        let mut weights = Vec::with_capacity(self.phrases.len());
        for phrase in &self.phrases {
            let (columns, phrase) = (phrase.columns.clone(), &phrase.phrase);
            let mut cursor = PhraseCursor::open(store, definition, structure, phrase, columns)?;
            let (mut hits, mut from) = (0_u64, Some(i64::MIN));
            while let Some(next) = from {
                let Some(row) = cursor.seek(store, next)? else { break };
                hits += 1;
                from = row.checked_add(1);
            }
            weights.push(self.weight(hits));
        }
        self.weights = Some(weights);
        Ok(())
    }

    fn weight(&self, hits: u64) -> f64 {
        let (rows, hits) = (self.opened.totals.rows as f64, hits as f64);
        let weight = ((rows - hits + 0.5) / (hits + 0.5)).ln();
        if weight <= 0.0 { WEIGHT_MIN } else { weight }
    }

    /// All rows from here on, or the best `limit`, by ascending rank.
    ///
    /// Rows whose frequencies alone cannot bring them among the best are not asked for their size.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn best(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        weights: &[f64],
        limit: Option<usize>,
    ) -> Result<Vec<(f64, i64)>> {
        if limit == Some(0) {
            return Ok(Vec::new());
        }
        let count = self.phrases.len();
        // Frequencies of all phrases of a row lie side by side.
        let (mut rows, mut frequencies) = (Vec::new(), Vec::new());
        let only = self.only_phrase().filter(|_| definition.detail == Detail::Full);
        let (from, to) = self.bounds;
        let is_bounded = self.bounds != (i64::MIN, i64::MAX);
        let mut found = self.seek(store, from)?;
        while let Some(row) = found.filter(|&row| row <= to) {
            rows.push(row);
            let start = frequencies.len();
            frequencies.resize(start + count, 0.0);
            self.frequencies(store, definition, weights, &mut frequencies[start..])?;
            found = self.next(store)?;
        }
        match only {
            Some(_) if count == 1 && !is_bounded => {
                self.weights = Some(vec![self.weight(rows.len() as u64)])
            }
            _ => self.weigh_phrases(store, definition)?,
        }
        let can_skip = weights.iter().all(|&weight| (0.0..=1.0).contains(&weight));
        let mut heap: BinaryHeap<Ranked> = BinaryHeap::new();
        let mut buffer = Vec::new();
        for (at, &rowid) in rows.iter().enumerate() {
            let row = &frequencies[at * count..][..count];
            if let (Some(limit), Some(worst)) = (limit, heap.peek())
                && heap.len() >= limit
                && can_skip
            {
                // A row has at least as many tokens as the most frequent phrase has places.
                let least = row.iter().copied().fold(0.0, f64::max);
                if self.rank_of(row, least) >= worst.rank {
                    continue;
                }
            }
            let size = self.row_size(store, definition, rowid, &mut buffer)?;
            heap.push(Ranked { rank: self.rank_of(row, size), rowid });
            if limit.is_some_and(|limit| heap.len() > limit) {
                heap.pop();
            }
        }
        let sorted = heap.into_sorted_vec();
        Ok(sorted.into_iter().map(|ranked| (ranked.rank, ranked.rowid)).collect())
    }

    /// Weighted counts of each phrase in the current row.
    fn frequencies(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        weights: &[f64],
        out: &mut [f64],
    ) -> Result<()> {
        let weight = |column: usize| weights.get(column).copied().unwrap_or(1.0);
        if definition.detail != Detail::Full {
            for instance in self.instances(store, definition)? {
                out[instance.phrase] += weight(instance.column);
            }
            return Ok(());
        }
        let mut active = [0; 8];
        let mut count = 0;
        let mut more = Vec::new();
        self.active(&mut |number| {
            match active.get_mut(count) {
                Some(slot) => *slot = number,
                None => more.push(number),
            }
            count += 1;
        });
        for &number in active[..count.min(8)].iter().chain(&more) {
            let is_single = self.phrases[number].is_single;
            let phrase = &mut self.phrases[number];
            // A phrase of NEAR has fewer places than its term.
            if is_single && let Some(positions) = phrase.plain_positions() {
                for position in Positions::new(positions, definition.detail) {
                    out[number] += weight(column(position));
                }
                continue;
            }
            if is_single {
                phrase.find();
            }
            for &position in phrase.found() {
                out[number] += weight(column(position));
            }
        }
        Ok(())
    }
}
