//! Rows of a full text table: all of them, those of a query, or those of a query by rank.

use std::collections::VecDeque;

use shoal_sql::{Error, IndexChoice, TableReads, Value, VirtualCursor};

use super::rows::ReadStore;
use super::{BY_RANK, DESCENDING, TextTable, Use};
use crate::auxiliary::{Highlight, Snippet};
use crate::config::Rank;
use crate::query::Query;
use crate::search::Search;
use crate::storage::Storage;

/// Rows by rank that are found first; more, once these are used up.
const FIRST_RANKED: usize = 64;

/// Rows of a query read ahead at once: at first, and at most.
const AHEAD_MIN: usize = 8;
const AHEAD_MAX: usize = 512;

#[derive(Debug)]
pub(super) struct TextCursor {
    table: TextTable,
    query: Option<Query>,
    search: Option<Search>,
    /// The function of `rank`, by its arguments.
    weights: Vec<f64>,
    rowid: i64,
    rank: Option<f64>,
    /// Bounds of rowids, both included.
    from: i64,
    to: i64,
    is_begun: bool,
    ranked: Option<Ranked>,
    /// Rows behind the current one: read ahead until something is asked of a row but its rowid
    /// and texts.
    ahead: VecDeque<i64>,
    /// How many are read next; 0 for one at a time.
    ahead_next: usize,
}

/// Rows in the order of their ranks.
#[derive(Debug)]
struct Ranked {
    rows: Vec<(f64, i64)>,
    next: usize,
    is_complete: bool,
    is_descending: bool,
}

impl TextCursor {
    pub(super) fn new(table: TextTable) -> TextCursor {
        TextCursor {
            table,
            query: None,
            search: None,
            weights: Vec::new(),
            rowid: 0,
            rank: None,
            from: i64::MIN,
            to: i64::MAX,
            is_begun: false,
            ranked: None,
            ahead: VecDeque::new(),
            ahead_next: 0,
        }
    }

    fn store<'s, 't>(&'s self, reads: &TableReads<'t>) -> ReadStore<'s, 't> {
        ReadStore::new(&self.table.definition, &self.table.shadows, *reads)
    }

    /// The query that the arguments make; true where they can have no row.
    fn read(&mut self, choice: &IndexChoice, arguments: &[Value]) -> Result<bool, Error> {
        let definition = &*self.table.definition;
        let mut rank = None;
        for (action, value) in Use::read(&choice.text).into_iter().zip(arguments) {
            let query = match action {
                Use::Rank => {
                    rank = Some(rank_of(value)?);
                    continue;
                }
                Use::RowidEqual | Use::RowidFrom | Use::RowidTo => {
                    let Some((low, high)) = bounds(value) else { return Ok(true) };
                    if action != Use::RowidTo {
                        self.from = self.from.max(low);
                    }
                    if action != Use::RowidFrom {
                        self.to = self.to.min(high);
                    }
                    if action == Use::RowidEqual && low != high {
                        return Ok(true);
                    }
                    continue;
                }
                Use::Match(column) => {
                    let mut text = Vec::new();
                    super::text_of(value, &mut text);
                    let text = String::from_utf8_lossy(&text);
                    let column = Some(column).filter(|&it| it < definition.columns.len());
                    Some(Query::parse(definition, &text, column)?)
                }
                Use::Like(column) | Use::Glob(column) => {
                    let is_like = matches!(action, Use::Like(_));
                    match value {
                        Value::Text(bytes) => match std::str::from_utf8(bytes) {
                            Ok(text) => Query::pattern(definition, text, is_like, column),
                            Err(_) => None,
                        },
                        _ => None,
                    }
                }
            };
            if let Some(query) = query {
                self.query = Some(match self.query.take() {
                    Some(before) => before.and(query),
                    None => query,
                });
            }
        }
        self.weights = rank.map(|rank| weights(&rank)).transpose()?.unwrap_or_default();
        Ok(self.from > self.to)
    }

    /// The rank of the current row.
    fn rank(&mut self, reads: &TableReads<'_>) -> Result<Option<f64>, Error> {
        if self.rank.is_none() && self.query.is_some() {
            let weights = std::mem::take(&mut self.weights);
            let rank = self.with_search(reads, |search, store, definition| {
                search.bm25(store, definition, &weights)
            })?;
            self.weights = weights;
            self.rank = Some(rank);
        }
        Ok(self.rank)
    }

    /// Works with the search at the current row; rows by rank are sought first.
    fn with_search<T>(
        &mut self,
        reads: &TableReads<'_>,
        work: impl FnOnce(
            &mut Search,
            &dyn Storage,
            &crate::definition::Definition,
        ) -> crate::error::Result<T>,
    ) -> Result<T, Error> {
        self.ahead_next = 0;
        self.ahead.clear();
        let mut search = self.search.take();
        let store = self.store(reads);
        let definition = &*self.table.definition;
        let is_here = search.as_ref().is_some_and(|search| search.row() == Some(self.rowid));
        if !is_here {
            let nothing = Query::default();
            let query = self.query.as_ref().unwrap_or(&nothing);
            let weights = search.as_mut().and_then(|search| search.weights.take());
            let opened = self.table.opened(&store, reads)?;
            let mut here = Search::within(opened, &store, definition, query)?;
            here.weights = weights;
            here.seek(&store, self.rowid)?;
            here.settle_at(self.rowid);
            search = Some(here);
        }
        let mut search = search.expect("a search was opened where there was none");
        let done = work(&mut search, &store, definition);
        drop(store);
        self.search = Some(search);
        Ok(done?)
    }

    /// Finds rows by rank: the best ones first, all of them where more are asked for.
    fn rank_rows(&mut self, reads: &TableReads<'_>, limit: Option<usize>) -> Result<(), Error> {
        let store = self.store(reads);
        let definition = &*self.table.definition;
        let nothing = Query::default();
        let query = self.query.as_ref().unwrap_or(&nothing);
        let opened = self.table.opened(&store, reads)?;
        let mut search = Search::within(opened, &store, definition, query)?;
        search.bound(self.from, self.to);
        let is_descending = self.ranked.as_ref().is_some_and(|ranked| ranked.is_descending);
        let limit = limit.filter(|_| !is_descending);
        let mut rows = search.best(&store, definition, &self.weights, limit)?;
        if is_descending {
            rows.reverse();
        }
        drop(store);
        self.search = Some(search);
        if let Some(ranked) = &mut self.ranked {
            ranked.is_complete = limit.is_none_or(|limit| rows.len() < limit);
            ranked.rows = rows;
        }
        Ok(())
    }

    /// Appends rows from `from` on, until `rows` has `count`.
    fn find_rows(
        &mut self,
        from: i64,
        count: usize,
        reads: &TableReads<'_>,
        rows: &mut Vec<i64>,
    ) -> Result<(), Error> {
        let bounds = (from, self.to);
        // A scan has a search only where a function was asked of a row: it finds no rows.
        let Some(mut search) = self.search.take().filter(|_| self.query.is_some()) else {
            return Ok(self.store(reads).documents(bounds, count, rows)?);
        };
        let read = search.read_ahead(&self.store(reads), bounds, count, rows);
        self.search = Some(search);
        Ok(read?)
    }

    fn next_ranked(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.rank_rows(reads, Some(FIRST_RANKED))?;
        }
        let is_used_up = self
            .ranked
            .as_ref()
            .is_some_and(|ranked| ranked.next == ranked.rows.len() && !ranked.is_complete);
        if is_used_up {
            self.rank_rows(reads, None)?;
        }
        let Some(ranked) = &mut self.ranked else { return Ok(false) };
        let Some(&(rank, rowid)) = ranked.rows.get(ranked.next) else { return Ok(false) };
        ranked.next += 1;
        (self.rowid, self.rank) = (rowid, Some(rank));
        Ok(true)
    }
}

impl VirtualCursor for TextCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        *self = TextCursor::new(self.table.clone());
        if self.read(choice, arguments)? {
            (self.from, self.to) = (1, 0);
            return Ok(());
        }
        if let Some(query) = &self.query {
            let store = self.store(reads);
            let opened = self.table.opened(&store, reads)?;
            let search = Search::within(opened, &store, &self.table.definition, query)?;
            drop(store);
            let has_arguments = Use::read(&choice.text).contains(&Use::Rank);
            if !has_arguments && let Some(rank) = search.rank() {
                self.weights = weights(rank)?;
            }
            self.search = Some(search);
        }
        if choice.number & BY_RANK != 0 {
            self.ranked = Some(Ranked {
                rows: Vec::new(),
                next: 0,
                is_complete: false,
                is_descending: choice.number & DESCENDING != 0,
            });
        }
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        if self.from > self.to {
            return Ok(false);
        }
        self.rank = None;
        if self.ranked.is_some() {
            return self.next_ranked(reads);
        }
        let after = std::mem::replace(&mut self.is_begun, true).then_some(self.rowid);
        let from = match after {
            None => self.from,
            Some(i64::MAX) => return Ok(false),
            Some(rowid) => rowid + 1,
        };
        if let Some(rowid) = self.ahead.pop_front() {
            self.rowid = rowid;
            return Ok(true);
        }
        let count = self.ahead_next;
        let mut rows: Vec<i64> = std::mem::take(&mut self.ahead).into();
        self.find_rows(from, count.max(1), reads, &mut rows)?;
        self.ahead = rows.into();
        // The first row is read alone: functions called for the row end reading ahead.
        self.ahead_next = match count {
            0 if after.is_some() => 0,
            0 => AHEAD_MIN,
            count => AHEAD_MAX.min(4 * count),
        };
        let found = self.ahead.pop_front();
        match found.filter(|&rowid| rowid <= self.to) {
            Some(rowid) => {
                self.rowid = rowid;
                Ok(true)
            }
            None => {
                (self.from, self.to) = (1, 0);
                Ok(false)
            }
        }
    }

    fn next_rowids(
        &mut self,
        most: usize,
        reads: &TableReads<'_>,
        out: &mut Vec<i64>,
    ) -> Result<(), Error> {
        let is_ahead = !self.ahead.is_empty() || self.ranked.is_some();
        let from = if self.is_begun { self.rowid.checked_add(1) } else { Some(self.from) };
        let Some(from) = from.filter(|&from| from <= self.to && self.from <= self.to && !is_ahead)
        else {
            if self.next(reads)? {
                out.push(self.rowid);
            }
            return Ok(());
        };
        let before = out.len();
        self.find_rows(from, before + most, reads, out)?;
        (self.is_begun, self.rank) = (true, None);
        match out.last().filter(|_| out.len() > before) {
            Some(&last) => self.rowid = last,
            None => (self.from, self.to) = (1, 0),
        }
        Ok(())
    }

    fn rowid(&self) -> i64 {
        self.rowid
    }

    fn column(
        &mut self,
        column: usize,
        reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        let count = self.table.definition.columns.len();
        *out = Value::Null;
        if column == count + 1 {
            if let Some(rank) = self.rank(reads)? {
                *out = Value::Real(rank);
            }
        } else if column < count {
            self.store(reads).value(self.rowid, column, out)?;
        }
        Ok(())
    }

    fn auxiliary(
        &mut self,
        function: usize,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        let text = |place: usize| {
            let mut text = Vec::new();
            super::text_of(&arguments[place], &mut text);
            text
        };
        let number = |place: usize| match &arguments[place] {
            Value::Int(number) => *number,
            Value::Real(number) => *number as i64,
            Value::Text(_) => String::from_utf8_lossy(&text(place)).trim().parse().unwrap_or(0),
            _ => 0,
        };
        let wrong = |name: &str| {
            Err(Error::of_function(format!("wrong number of arguments to function {name}()")))
        };
        let marked = match function {
            0 => {
                let weights: Vec<f64> = arguments.iter().map(real).collect();
                let rank = self.with_search(reads, |search, store, definition| {
                    search.bm25(store, definition, &weights)
                })?;
                return Ok(Value::Real(rank));
            }
            1 if arguments.len() != 3 => return wrong("highlight"),
            1 => {
                let (open, close) = (text(1), text(2));
                let wanted = Highlight { column: number(0), open: &open, close: &close };
                self.with_search(reads, |search, store, definition| {
                    search.highlight(store, definition, &wanted)
                })?
            }
            _ if arguments.len() != 5 => return wrong("snippet"),
            _ => {
                let (open, close, ellipsis) = (text(1), text(2), text(3));
                let wanted = Snippet {
                    column: number(0),
                    open: &open,
                    close: &close,
                    ellipsis: &ellipsis,
                    tokens: number(4),
                };
                self.with_search(reads, |search, store, definition| {
                    search.snippet(store, definition, &wanted)
                })?
            }
        };
        Ok(marked.map_or(Value::Null, Value::Text))
    }
}

/// A weight as SQL's numbers are read.
fn real(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Real(number) => *number,
        Value::Text(bytes) => {
            std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

fn rank_of(value: &Value) -> Result<Rank, Error> {
    let mut text = Vec::new();
    super::text_of(value, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let fault = || Error::of_function(format!("parse error in rank function: {text}"));
    Rank::parse(&text).ok_or_else(fault)
}

/// The weights of `bm25(...)`, the only function of ranks.
fn weights(rank: &Rank) -> Result<Vec<f64>, Error> {
    if !rank.function.eq_ignore_ascii_case("bm25") {
        return Err(Error::of_function(format!("no such function: {}", rank.function)));
    }
    let weight = |text: &String| text.trim_matches('\'').trim().parse().unwrap_or(0.0);
    Ok(rank.arguments.iter().map(weight).collect())
}

/// The rowids at the bound of a comparison with a value: from this one on, up to that one.
fn bounds(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Int(number) => Some((*number, *number)),
        Value::Real(number) => Some((number.ceil() as i64, number.floor() as i64)),
        // A text is above all numbers; NULL compares with nothing.
        Value::Null => None,
        Value::Text(_) | Value::Blob(_) => Some((i64::MAX, i64::MAX)),
    }
}
