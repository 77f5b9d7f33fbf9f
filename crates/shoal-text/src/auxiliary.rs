//! `highlight` and `snippet`: a column's text with its matches marked, whole or a part.

use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::search::{Instance, Search};
use crate::storage::Storage;

/// Score of a phrase seen for the first time within a part of a text, and again.
const SCORE_NEW: i64 = 1000;
const SCORE_AGAIN: i64 = 1;
/// Added where a part begins with the text, or with a sentence.
const SCORE_START: i64 = 120;
const SCORE_SENTENCE: i64 = 100;

/// Arguments of `highlight`.
#[derive(Clone, Copy, Debug)]
pub struct Highlight<'a> {
    /// The column's number.
    pub column: i64,
    /// Put before a match.
    pub open: &'a [u8],
    /// Put behind a match.
    pub close: &'a [u8],
}

/// Arguments of `snippet`.
#[derive(Clone, Copy, Debug)]
pub struct Snippet<'a> {
    /// The column's number; below zero the best one.
    pub column: i64,
    /// Put before a match.
    pub open: &'a [u8],
    /// Put behind a match.
    pub close: &'a [u8],
    /// Put where text is left out.
    pub ellipsis: &'a [u8],
    /// Tokens at most.
    pub tokens: i64,
}

/// Neighbouring or overlapping matches of a column, one after the other.
struct Runs<'i> {
    instances: &'i [Instance],
    lengths: &'i [usize],
    column: usize,
    next: usize,
    /// First and last token.
    run: Option<(i64, i64)>,
}

impl<'i> Runs<'i> {
    fn new(instances: &'i [Instance], lengths: &'i [usize], column: usize) -> Runs<'i> {
        let mut runs = Runs { instances, lengths, column, next: 0, run: None };
        runs.step();
        runs
    }

    fn step(&mut self) {
        self.run = None;
        while let Some(instance) = self.instances.get(self.next) {
            if instance.column == self.column {
                let first = instance.offset as i64;
                let last = first - 1 + self.lengths[instance.phrase] as i64;
                self.run = match self.run {
                    None => Some((first, last)),
                    Some((start, end)) if first <= end => Some((start, end.max(last))),
                    Some(_) => return,
                };
            }
            self.next += 1;
        }
    }
}

/// The tokens of a text to show; both ends included.
#[derive(Clone, Copy)]
struct Range {
    first: i64,
    last: i64,
}

/// Copies a text with its runs marked; gives the byte behind the last one copied.
fn mark(
    definition: &Definition,
    text: &[u8],
    mut runs: Runs<'_>,
    (open, close): (&[u8], &[u8]),
    range: Option<Range>,
    out: &mut Vec<u8>,
) -> usize {
    let mut copied = 0;
    let mut is_open = false;
    let mut token = -1;
    definition.tokenizer.tokenize(text, &mut Vec::new(), &mut |_, start, end| {
        token += 1;
        if let Some(range) = range {
            if token < range.first || token > range.last {
                return token <= range.last;
            }
            if range.first > 0 && token == range.first {
                copied = start;
            }
        }
        let is_behind = runs.run.is_none_or(|(first, _)| token <= first);
        if is_open && is_behind && start >= copied {
            out.extend_from_slice(close);
            is_open = false;
        }
        if !is_open && runs.run.is_some_and(|(first, _)| token == first) {
            out.extend_from_slice(text.get(copied..start).unwrap_or_default());
            out.extend_from_slice(open);
            copied = start;
            is_open = true;
        }
        if runs.run.is_some_and(|(_, last)| token == last) {
            if !is_open {
                out.extend_from_slice(open);
                is_open = true;
            }
            out.extend_from_slice(text.get(copied..end).unwrap_or_default());
            copied = end;
            runs.step();
        }
        if range.is_some_and(|range| token == range.last) {
            if is_open {
                if runs.run.is_some_and(|(first, _)| token >= first) {
                    out.extend_from_slice(text.get(copied..end).unwrap_or_default());
                    copied = end;
                }
                out.extend_from_slice(close);
                is_open = false;
            }
            out.extend_from_slice(text.get(copied..end).unwrap_or_default());
            copied = end;
        }
        true
    });
    if is_open {
        out.extend_from_slice(close);
    }
    copied
}

impl Search {
    /// `highlight(t, column, open, close)` of the current row; none of a table without texts.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn highlight(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        arguments: &Highlight<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(column) = usize::try_from(arguments.column)
            .ok()
            .filter(|&column| column < definition.columns.len())
        else {
            return Ok(Some(Vec::new()));
        };
        let Some(row) = self.row().filter(|_| definition.has_texts()) else { return Ok(None) };
        let mut text = Vec::new();
        store.text(row, column, &mut text)?;
        let lengths = self.lengths();
        let instances = self.instances(store, definition)?;
        let mut out = Vec::with_capacity(text.len() + 64);
        let runs = Runs::new(instances, &lengths, column);
        let marks = (arguments.open, arguments.close);
        let copied = mark(definition, &text, runs, marks, None, &mut out);
        out.extend_from_slice(text.get(copied..).unwrap_or_default());
        Ok(Some(out))
    }

    fn lengths(&self) -> Vec<usize> {
        self.phrases.iter().map(|cursor| cursor.phrase.terms.len()).collect()
    }

    /// `snippet(t, column, open, close, ellipsis, tokens)` of the current row.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn snippet(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        arguments: &Snippet<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(row) = self.row().filter(|_| definition.has_texts()) else { return Ok(None) };
        let (mut sizes, mut buffer, mut text) = (Vec::new(), Vec::new(), Vec::new());
        self.column_sizes(store, definition, row, &mut buffer, &mut sizes)?;
        let lengths = self.lengths();
        let instances = self.instances(store, definition)?;
        let wanted = arguments.tokens;
        let mut best = Best { score: 0, column: arguments.column.max(0) as usize, start: 0 };
        for (column, &size) in sizes.iter().enumerate() {
            if arguments.column >= 0 && arguments.column != column as i64 {
                continue;
            }
            store.text(row, column, &mut text)?;
            let sentences = sentences(definition, &text);
            let size = size as i64;
            let window = Window { instances, lengths: &lengths, column, size, tokens: wanted };
            for instance in instances.iter().filter(|instance| instance.column == column) {
                let offset = instance.offset as i64;
                if offset > size {
                    return Err(Error::corrupt("position list", row, "points behind the text"));
                }
                let (score, start) = window.score(offset);
                best.take(score, column, start);
                if !sentences.is_empty() && size > wanted {
                    let before = sentences.partition_point(|&sentence| sentence <= offset);
                    let sentence = sentences[before.saturating_sub(1)];
                    if sentence < offset {
                        let bonus = if sentence == 0 { SCORE_START } else { SCORE_SENTENCE };
                        let (score, _) = window.score(sentence);
                        best.take(score + bonus, column, sentence);
                    }
                }
            }
        }
        let mut out = Vec::new();
        if best.column >= definition.columns.len() {
            return Ok(Some(out));
        }
        store.text(row, best.column, &mut text)?;
        let range = Range { first: best.start, last: best.start.saturating_add(wanted) - 1 };
        if best.start > 0 {
            out.extend_from_slice(arguments.ellipsis);
        }
        let mut runs = Runs::new(instances, &lengths, best.column);
        while runs.run.is_some_and(|(first, _)| first < best.start) {
            runs.step();
        }
        let marks = (arguments.open, arguments.close);
        let copied = mark(definition, &text, runs, marks, Some(range), &mut out);
        if range.last >= sizes[best.column] as i64 - 1 {
            out.extend_from_slice(text.get(copied..).unwrap_or_default());
        } else {
            out.extend_from_slice(arguments.ellipsis);
        }
        Ok(Some(out))
    }
}

/// The best part of a row's texts so far.
struct Best {
    score: i64,
    column: usize,
    start: i64,
}

impl Best {
    fn take(&mut self, score: i64, column: usize, start: i64) {
        if score > self.score {
            *self = Best { score, column, start };
        }
    }
}

/// A column, for the scores of its parts.
struct Window<'i> {
    instances: &'i [Instance],
    lengths: &'i [usize],
    column: usize,
    /// Tokens of the column.
    size: i64,
    /// Tokens of a part.
    tokens: i64,
}

impl Window<'_> {
    /// The score of the part that begins at `start`, and where it begins once its matches are
    /// moved to its middle.
    fn score(&self, start: i64) -> (i64, i64) {
        let mut seen = vec![false; self.lengths.len()];
        let (mut score, mut first, mut end) = (0, None, 0);
        for instance in self.instances {
            let offset = instance.offset as i64;
            if instance.column != self.column || offset < start || offset >= start + self.tokens {
                continue;
            }
            score += if seen[instance.phrase] { SCORE_AGAIN } else { SCORE_NEW };
            seen[instance.phrase] = true;
            first.get_or_insert(offset);
            end = offset + self.lengths[instance.phrase] as i64;
        }
        let first = first.unwrap_or(-1);
        let moved = first - (self.tokens - (end - first)) / 2;
        (score, moved.min(self.size - self.tokens).max(0))
    }
}

/// Numbers of the tokens that begin sentences.
fn sentences(definition: &Definition, text: &[u8]) -> Vec<i64> {
    let mut starts = Vec::new();
    let mut token = 0;
    definition.tokenizer.tokenize(text, &mut Vec::new(), &mut |_, start, _| {
        let before = &text[..start];
        let spaces =
            before.iter().rev().take_while(|&&b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
        let spaces = spaces.count();
        let end = before.len() - spaces;
        let is_start = end == 0 || spaces > 0 && matches!(before[end - 1], b'.' | b':');
        if token == 0 || is_start {
            starts.push(token);
        }
        token += 1;
        true
    });
    starts
}
