//! Finding the rows of a query, one after the other.

use std::sync::Arc;

use crate::config::{Config, Rank};
use crate::definition::{Definition, Detail};
use crate::doclist::{Doclist, Gathered, TermCursor};
use crate::error::Result;
use crate::index::Totals;
use crate::positions::{Positions, column, offset};
use crate::query::{Phrase, Query, Tree};
use crate::storage::Storage;
use crate::structure::Structure;

/// What all searches in one state of an index share.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) structure: Structure,
    pub(crate) totals: Totals,
    rank: Option<Rank>,
}

impl Opened {
    pub(crate) fn read(store: &dyn Storage, definition: &Definition) -> Result<Opened> {
        let config = Config::read(store)?;
        let structure = Structure::read(store, &mut Vec::new())?;
        let totals = Totals::read(store, definition.columns.len())?;
        Ok(Opened { structure, totals, rank: config.rank })
    }
}

/// Rows of a query, ascending, with the places of its phrases.
#[derive(Debug)]
pub struct Search {
    root: Node,
    pub(crate) phrases: Vec<PhraseCursor>,
    row: Option<i64>,
    pub(crate) bounds: (i64, i64),
    pub(crate) detail: Detail,
    pub(crate) opened: Arc<Opened>,
    /// What ranking knows of each phrase, once it was asked.
    pub(crate) weights: Option<Vec<f64>>,
    /// Places of phrases in the current row, and the row they are of.
    instances: Vec<Instance>,
    instances_of: Option<i64>,
    scratch: Vec<u8>,
}

/// A phrase at a place of the current row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instance {
    pub(crate) column: usize,
    pub(crate) offset: usize,
    pub(crate) phrase: usize,
}

/// A phrase: its terms' rows, and its positions in the row they agree on.
#[derive(Debug)]
pub(crate) struct PhraseCursor {
    pub(crate) phrase: Phrase,
    doclists: Vec<Doclist>,
    pub(crate) columns: Option<Vec<usize>>,
    /// Positions of the first token, of the row `found_in`.
    found: Vec<u64>,
    found_in: Option<i64>,
    scratch: Vec<u64>,
    detail: Detail,
    /// Alone in its node: no NEAR takes places away.
    pub(crate) is_single: bool,
}

/// A node on a row: where all of its tokens are, in a match or not. Places count towards ranks and
/// marks on the row of their own node, as SQLite counts them: `(NEAR("a b" "c d") NOT e) OR f`
/// counts the phrase of `a b` in a row that `f` alone matches, if all of the tokens are there.
#[derive(Debug)]
struct Node {
    row: Option<i64>,
    is_match: bool,
    /// No more rows: of this node, or of one that needs it.
    is_over: bool,
    is_root: bool,
    /// Places count no more in this row: a node above gave a row up, this one perhaps stayed ahead.
    is_silent: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Never,
    Near { phrases: Vec<usize>, distance: u64, scratch: NearScratch },
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>, Box<Node>),
}

/// Memory of a comparison of places, from row to row.
#[derive(Debug, Default)]
struct NearScratch {
    /// For each phrase the place looked at, and the places kept.
    at: Vec<usize>,
    kept: Vec<Vec<u64>>,
}

impl Search {
    /// Begins a search; the first call of [`Search::next`] gives its first row.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn open(store: &dyn Storage, definition: &Definition, query: &Query) -> Result<Search> {
        let opened = Arc::new(Opened::read(store, definition)?);
        Search::within(opened, store, definition, query)
    }

    /// Begins a search in a state that was opened before.
    pub(crate) fn within(
        opened: Arc<Opened>,
        store: &dyn Storage,
        definition: &Definition,
        query: &Query,
    ) -> Result<Search> {
        let structure = &opened.structure;
        let mut columns = vec![None; query.phrases.len()];
        let mut root = node(&query.root, &mut columns);
        root.is_root = true;
        let mut phrases = Vec::with_capacity(query.phrases.len());
        for (phrase, columns) in query.phrases.iter().zip(columns) {
            phrases.push(PhraseCursor::open(store, definition, structure, phrase, columns)?);
        }
        mark_single(&root, &mut phrases);
        Ok(Search {
            root,
            phrases,
            row: None,
            bounds: (i64::MIN, i64::MAX),
            detail: definition.detail,
            opened,
            weights: None,
            instances: Vec::new(),
            instances_of: None,
            scratch: Vec::new(),
        })
    }

    /// The rank function of the table's settings.
    #[must_use]
    pub fn rank(&self) -> Option<&Rank> {
        self.opened.rank.as_ref()
    }

    /// The current row.
    #[must_use]
    pub fn row(&self) -> Option<i64> {
        self.row
    }

    /// Goes to the next row.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn next(&mut self, store: &dyn Storage) -> Result<Option<i64>> {
        let from = match (self.row, self.root.row) {
            (Some(i64::MAX), _) => {
                self.row = None;
                return Ok(None);
            }
            (Some(row), _) => row + 1,
            (None, _) => i64::MIN,
        };
        self.seek(store, from)
    }

    /// Is at a row, whether the query has the row or not: without places where it has not.
    pub(crate) fn settle_at(&mut self, rowid: i64) {
        self.row = Some(rowid);
    }

    /// Rows outside of these bounds, both included, are not given by [`Search::best`].
    pub fn bound(&mut self, from: i64, to: i64) {
        self.bounds = (from, to);
    }

    /// Goes to the first row from `rowid` on, never back.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn seek(&mut self, store: &dyn Storage, rowid: i64) -> Result<Option<i64>> {
        let mut from = rowid;
        self.row = loop {
            let Some(row) = self.root.seek(store, &mut self.phrases, from)? else { break None };
            if self.root.is_match {
                break Some(row);
            }
            match row.checked_add(1) {
                Some(next) => from = next,
                None => break None,
            }
        };
        Ok(self.row)
    }

    /// Appends rows from `from` up to `to`, until `rows` has `count`; the last one is the current
    /// row afterwards.
    pub(crate) fn read_ahead(
        &mut self,
        store: &dyn Storage,
        (mut from, to): (i64, i64),
        count: usize,
        rows: &mut Vec<i64>,
    ) -> Result<()> {
        while rows.len() < count {
            let Some(mut row) = self.seek(store, from)?.filter(|&row| row <= to) else { break };
            rows.push(row);
            if let Some(only) = self.only_phrase()
                && let Some(doclist) = self.phrases[only].plain_doclist()
            {
                // All rows of the doclist are rows of the query.
                doclist.read_rows(store, to, count, rows)?;
                row = rows.last().copied().unwrap_or(row);
                (self.row, self.root.row) = (Some(row), Some(row));
            }
            match row.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Columns of the current row, and the places of phrases in them, ascending.
    pub(crate) fn instances(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
    ) -> Result<&[Instance]> {
        if self.instances_of.is_none() || self.instances_of != self.row {
            self.instances_of = self.row;
            self.instances.clear();
            if self.detail == Detail::Full {
                let (phrases, instances) = (&mut self.phrases, &mut self.instances);
                self.root.active(self.row, &mut |number| {
                    let phrase = &mut phrases[number];
                    if phrase.is_single {
                        phrase.find();
                    }
                    instances.extend(phrase.found.iter().map(|&position| Instance {
                        column: column(position),
                        offset: offset(position),
                        phrase: number,
                    }));
                });
            } else if definition.has_texts() {
                self.instances_of_texts(store, definition)?;
            }
            self.instances.sort_unstable();
        }
        Ok(&self.instances)
    }

    /// Places found in the texts, where the index keeps none.
    fn instances_of_texts(&mut self, store: &dyn Storage, definition: &Definition) -> Result<()> {
        let Some(row) = self.row else { return Ok(()) };
        let mut active = Vec::new();
        self.root.active(self.row, &mut |number| active.push(number));
        let mut text = Vec::new();
        for (number, _) in definition.columns.iter().enumerate().filter(|(_, c)| !c.is_unindexed) {
            store.text(row, number, &mut text)?;
            let (phrases, instances) = (&self.phrases, &mut self.instances);
            let mut position = 0;
            definition.tokenizer.tokenize(&text, &mut self.scratch, &mut |token, _, _| {
                for &phrase in &active {
                    let cursor = &phrases[phrase];
                    let is_searched =
                        cursor.columns.as_ref().is_none_or(|columns| columns.contains(&number));
                    let term = &cursor.phrase.terms[0];
                    let is_found = if term.is_prefix {
                        token.starts_with(&term.text)
                    } else {
                        token == term.text
                    };
                    if is_searched && is_found {
                        instances.push(Instance { column: number, offset: position, phrase });
                    }
                }
                position += 1;
                true
            });
        }
        Ok(())
    }

    /// Phrases that take part in the current row.
    pub(crate) fn active(&self, each: &mut dyn FnMut(usize)) {
        self.root.active(self.row, each);
    }

    /// The only phrase of a query.
    pub(crate) fn only_phrase(&self) -> Option<usize> {
        match &self.root.kind {
            Kind::Near { phrases, .. } if phrases.len() == 1 => Some(phrases[0]),
            _ => None,
        }
    }
}

/// The node of a tree; the column filter of each phrase into `columns`.
fn node(tree: &Tree, columns: &mut [Option<Vec<usize>>]) -> Node {
    let kind = match tree {
        Tree::Never => Kind::Never,
        Tree::Near(near) => {
            for &phrase in &near.phrases {
                columns[phrase].clone_from(&near.columns);
            }
            {
                let (phrases, distance) = (near.phrases.clone(), near.distance);
                Kind::Near { phrases, distance, scratch: NearScratch::default() }
            }
        }
        Tree::And(children) => Kind::And(children.iter().map(|c| node(c, columns)).collect()),
        Tree::Or(children) => Kind::Or(children.iter().map(|c| node(c, columns)).collect()),
        Tree::Not(left, right) => {
            Kind::Not(Box::new(node(left, columns)), Box::new(node(right, columns)))
        }
    };
    Node { row: None, is_match: false, is_over: false, is_root: false, is_silent: false, kind }
}

/// Marks the phrases that are alone in their node.
fn mark_single(node: &Node, phrases: &mut [PhraseCursor]) {
    match &node.kind {
        Kind::Never => {}
        Kind::Near { phrases: numbers, .. } => {
            if let &[only] = numbers.as_slice() {
                phrases[only].is_single = true;
            }
        }
        Kind::And(children) | Kind::Or(children) => {
            children.iter().for_each(|child| mark_single(child, phrases));
        }
        Kind::Not(left, right) => {
            mark_single(left, phrases);
            mark_single(right, phrases);
        }
    }
}

impl Node {
    /// The first row of the node from `from` on.
    fn seek(
        &mut self,
        store: &dyn Storage,
        phrases: &mut [PhraseCursor],
        from: i64,
    ) -> Result<Option<i64>> {
        if self.is_over || self.row.is_some_and(|row| row >= from) {
            return Ok(self.row);
        }
        self.row = match &mut self.kind {
            Kind::Never => None,
            Kind::Near { phrases: numbers, distance, scratch } => {
                self.is_silent = false;
                let row = align(store, phrases, numbers, from)?;
                self.is_match = row.is_some() && is_near(phrases, numbers, *distance, scratch);
                row
            }
            Kind::And(children) => 'found: {
                let mut target = from;
                let mut agreed = 0;
                let count = children.len();
                let mut at = 0;
                while agreed < count {
                    let Some(row) = children[at].seek(store, phrases, target)? else {
                        break 'found None;
                    };
                    agreed = if row == target && agreed > 0 { agreed + 1 } else { 1 };
                    target = row;
                    at = (at + 1) % count;
                }
                self.is_match = children.iter().all(|child| child.is_match);
                if !self.is_match && !self.is_root {
                    children.iter_mut().for_each(Node::silence);
                }
                Some(target)
            }
            Kind::Or(children) => {
                let mut least = None;
                for child in &mut *children {
                    let row = child.seek(store, phrases, from)?;
                    least = match (least, row) {
                        (Some(least), Some(row)) => Some(row.min(least)),
                        (least, row) => least.or(row),
                    };
                }
                self.is_match = children.iter().any(|child| child.is_match && child.row == least);
                least
            }
            Kind::Not(left, right) => {
                let mut target = Some(from);
                loop {
                    let Some(from) = target else { break None };
                    let Some(row) = left.seek(store, phrases, from)? else { break None };
                    if right.seek(store, phrases, row)? != Some(row) || !right.is_match {
                        self.is_match = left.is_match;
                        break Some(row);
                    }
                    target = row.checked_add(1);
                }
            }
        };
        if self.row.is_none() {
            self.end();
        }
        Ok(self.row)
    }

    /// Takes the places of all below out of the count, until they move.
    fn silence(&mut self) {
        self.is_silent = true;
        match &mut self.kind {
            Kind::Never | Kind::Near { .. } => {}
            Kind::And(children) | Kind::Or(children) => {
                children.iter_mut().for_each(Node::silence);
            }
            Kind::Not(left, right) => {
                left.silence();
                right.silence();
            }
        }
    }

    /// Ends the node and all below.
    fn end(&mut self) {
        (self.row, self.is_over) = (None, true);
        match &mut self.kind {
            Kind::Never | Kind::Near { .. } => {}
            Kind::And(children) | Kind::Or(children) => children.iter_mut().for_each(Node::end),
            Kind::Not(left, right) => {
                left.end();
                right.end();
            }
        }
    }

    /// Calls `each` with the phrases whose node is at `row`.
    fn active(&self, row: Option<i64>, each: &mut dyn FnMut(usize)) {
        match &self.kind {
            Kind::Never => {}
            Kind::Near { phrases, .. } => {
                if row.is_some() && self.row == row && !self.is_silent {
                    phrases.iter().for_each(|&phrase| each(phrase));
                }
            }
            Kind::And(children) | Kind::Or(children) => {
                children.iter().for_each(|child| child.active(row, each));
            }
            Kind::Not(left, right) => {
                left.active(row, each);
                right.active(row, each);
            }
        }
    }
}

/// The first row from `from` on with all tokens of all phrases.
fn align(
    store: &dyn Storage,
    phrases: &mut [PhraseCursor],
    numbers: &[usize],
    from: i64,
) -> Result<Option<i64>> {
    let mut target = from;
    'rows: loop {
        for &number in numbers {
            match phrases[number].align(store, target)? {
                None => return Ok(None),
                Some(row) if row > target => {
                    target = row;
                    if numbers.len() > 1 {
                        continue 'rows;
                    }
                }
                Some(_) => {}
            }
        }
        return Ok(Some(target));
    }
}

/// True where all phrases are in the row they are at, near each other.
fn is_near(
    phrases: &mut [PhraseCursor],
    numbers: &[usize],
    distance: u64,
    scratch: &mut NearScratch,
) -> bool {
    if let &[only] = numbers {
        let phrase = &mut phrases[only];
        if !phrase.is_tested() {
            return true;
        }
        phrase.find();
        return !phrase.found.is_empty();
    }
    for &number in numbers {
        phrases[number].find();
        if phrases[number].found.is_empty() {
            return false;
        }
    }
    keep_near(phrases, numbers, distance, scratch)
}

/// Keeps of each phrase the positions that lie near positions of all others; false without any.
fn keep_near(
    phrases: &mut [PhraseCursor],
    numbers: &[usize],
    distance: u64,
    scratch: &mut NearScratch,
) -> bool {
    let count = numbers.len();
    let NearScratch { at, kept } = scratch;
    at.clear();
    at.resize(count, 0);
    kept.resize_with(count, Vec::new);
    kept.iter_mut().for_each(Vec::clear);
    let found = |i: usize| phrases[numbers[i]].found.as_slice();
    'all: loop {
        let mut highest = found(0)[at[0]];
        let mut is_close = false;
        while !is_close {
            is_close = true;
            for i in 0..count {
                let (list, place) = (found(i), &mut at[i]);
                let length = phrases[numbers[i]].phrase.terms.len() as u64;
                let lowest = highest.saturating_sub(length + distance);
                let position = list[*place];
                if position >= lowest && position <= highest {
                    continue;
                }
                is_close = false;
                while list[*place] < lowest {
                    *place += 1;
                    if *place == list.len() {
                        break 'all;
                    }
                }
                highest = highest.max(list[*place]);
            }
        }
        for i in 0..count {
            let position = found(i)[at[i]];
            if kept[i].last() != Some(&position) {
                kept[i].push(position);
            }
        }
        // The phrase goes on whose next position is the smallest.
        let ahead = |i: usize| found(i).get(at[i] + 1).copied().unwrap_or(u64::MAX);
        let next = (0..count).min_by_key(|&i| ahead(i)).unwrap_or(0);
        at[next] += 1;
        if at[next] == found(next).len() {
            break;
        }
    }
    for (&number, kept) in numbers.iter().zip(kept) {
        std::mem::swap(&mut phrases[number].found, kept);
    }
    !phrases[numbers[0]].found.is_empty()
}

impl PhraseCursor {
    /// A cursor of its own before the rows of a phrase.
    pub(crate) fn open(
        store: &dyn Storage,
        definition: &Definition,
        structure: &Structure,
        phrase: &Phrase,
        columns: Option<Vec<usize>>,
    ) -> Result<PhraseCursor> {
        let detail = definition.detail;
        let mut doclists = Vec::with_capacity(phrase.terms.len());
        let mut key = Vec::new();
        for term in &phrase.terms {
            key.clear();
            key.push(b'0');
            key.extend_from_slice(&term.text);
            if !term.is_prefix {
                doclists.push(Doclist::Term(TermCursor::open(store, structure, &key, detail)?));
                continue;
            }
            // A prefix index of the same length has the prefix as a term.
            let length = String::from_utf8_lossy(&term.text).chars().count();
            match definition.prefixes.iter().position(|&prefix| prefix == length) {
                Some(index) => {
                    key[0] = b'1' + index as u8;
                    doclists.push(Doclist::Term(TermCursor::open(store, structure, &key, detail)?));
                }
                None => doclists
                    .push(Doclist::Gathered(Gathered::open(store, structure, &key, detail)?)),
            }
        }
        Ok(PhraseCursor {
            phrase: phrase.clone(),
            doclists,
            columns,
            found: Vec::new(),
            found_in: None,
            scratch: Vec::new(),
            detail,
            is_single: false,
        })
    }

    /// The row that the terms agree on.
    #[inline]
    fn row(&self) -> Option<i64> {
        self.doclists.first()?.row()
    }

    /// A row with all tokens may lack the phrase.
    fn is_tested(&self) -> bool {
        self.doclists.len() > 1 || self.phrase.is_first || self.columns.is_some()
    }

    /// The first row from `from` on that has the phrase.
    pub(crate) fn seek(&mut self, store: &dyn Storage, from: i64) -> Result<Option<i64>> {
        let mut target = from;
        loop {
            let Some(row) = self.align(store, target)? else { return Ok(None) };
            if !self.is_tested() {
                return Ok(Some(row));
            }
            self.find();
            if !self.found.is_empty() {
                return Ok(Some(row));
            }
            match row.checked_add(1) {
                Some(next) => target = next,
                None => return Ok(None),
            }
        }
    }

    /// Brings all terms to the first row from `target` on that has them.
    fn align(&mut self, store: &dyn Storage, mut target: i64) -> Result<Option<i64>> {
        if let [only] = self.doclists.as_mut_slice() {
            match only.row() {
                // The next row is the most frequent wish.
                Some(row) if row < target && row + 1 == target => only.next(store)?,
                _ => only.skip_to(store, target)?,
            }
            return Ok(only.row());
        }
        'rows: loop {
            for doclist in &mut self.doclists {
                doclist.skip_to(store, target)?;
                match doclist.row() {
                    None => return Ok(None),
                    Some(row) if row > target => {
                        target = row;
                        continue 'rows;
                    }
                    Some(_) => {}
                }
            }
            return Ok(self.row());
        }
    }

    /// Finds the positions of the phrase in the current row.
    pub(crate) fn find(&mut self) {
        let row = self.row();
        if self.found_in == row && row.is_some() {
            return;
        }
        self.found_in = row;
        self.found.clear();
        let detail = self.detail;
        let Some((first, others)) = self.doclists.split_first_mut() else { return };
        let is_first = self.phrase.is_first;
        let columns = self.columns.as_deref();
        let positions = Positions::new(first.positions(), detail);
        if detail == Detail::None {
            self.found.push(0);
            return;
        }
        self.found.extend(positions.filter(|&position| {
            columns.is_none_or(|columns| columns.binary_search(&column(position)).is_ok())
                && (!is_first || offset(position) == 0)
        }));
        for (distance, doclist) in (1_u64..).zip(others) {
            if self.found.is_empty() {
                return;
            }
            self.scratch.clear();
            let mut wanted = self.found.iter().copied().peekable();
            for position in Positions::new(doclist.positions(), detail) {
                while wanted.next_if(|&wanted| wanted + distance < position).is_some() {}
                match wanted.peek() {
                    Some(&next) if next + distance == position => self.scratch.push(next),
                    Some(_) => {}
                    None => break,
                }
            }
            std::mem::swap(&mut self.found, &mut self.scratch);
        }
    }

    /// The only doclist of a phrase whose positions need not be looked at.
    fn plain_doclist(&mut self) -> Option<&mut Doclist> {
        if self.is_tested() {
            return None;
        }
        match self.doclists.as_mut_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Positions of the current row, once [`PhraseCursor::find`] ran.
    pub(crate) fn found(&self) -> &[u64] {
        &self.found
    }

    /// One term without a filter: its encoded positions are those of the phrase.
    pub(crate) fn plain_positions(&mut self) -> Option<&[u8]> {
        let is_plain = !self.phrase.is_first && self.columns.is_none();
        match self.doclists.as_mut_slice() {
            [only] if is_plain => Some(only.positions()),
            _ => None,
        }
    }
}
