//! The rows of a query, and the places of its phrases in a row.
//!
//! Nodes of the tree step from document to document as SQLite's do. The places of a phrase shown
//! by a row, and the documents counted by `matchinfo`, depend on the current document of a node:
//! a phrase below `OR` may be ahead of the row, each test of `NEAR` drops places.

use rustc_hash::FxHashMap;

use super::positions::{self, Place};
use super::postings::{Filter, Postings};
use super::query::{Id, Join, Kind, Phrase, Tree};
use super::segment;
use super::store::Store;
use crate::error::{Error, Result};

/// Phrases of more terms are read at once by SQLite.
const INCREMENTAL_TERMS: usize = 4;

/// Hits of a phrase in a column, and documents with hits, over all documents.
pub(super) type Totals = (u32, u32);

/// A running query.
#[derive(Debug)]
pub(super) struct Search {
    nodes: Vec<Node>,
    root: Option<Id>,
    columns: usize,
    is_descending: bool,
    row: i64,
}

#[derive(Debug)]
struct Node {
    state: State,
    parent: Option<Id>,
    docid: i64,
    is_end: bool,
    is_begun: bool,
    totals: Option<Vec<Totals>>,
}

#[derive(Debug)]
enum State {
    Phrase(Box<PhraseState>),
    Join(Join, Id, Id),
}

#[derive(Debug)]
struct PhraseState {
    terms: usize,
    column: Option<usize>,
    /// Number among the phrases shown by a row.
    number: usize,
    postings: Postings,
    /// Documents already passed, in the order of the rows.
    passed: usize,
    current: Current,
    /// The places in documents left by `NEAR`, by the documents' place in the postings. SQLite
    /// drops places from the doclist in memory, and meets a document without them from then on.
    trimmed: FxHashMap<usize, Vec<Place>>,
    /// SQLite reads the doclist piece by piece, until something starts the phrase anew.
    is_incremental: bool,
    /// The whole doclist is at hand: rows passed can be looked up.
    is_loaded: bool,
}

/// The places in the current document of a phrase.
#[derive(Debug)]
enum Current {
    Nothing,
    /// As they are in the postings.
    Stored(usize),
    Trimmed(Vec<Place>),
}

/// The places of phrases in the row: terms of the phrase, and places of its last term.
pub(super) struct RowPhrase {
    pub(super) terms: usize,
    pub(super) places: Vec<Place>,
}

/// A phrase whose current document is the row's.
pub(super) struct Hits {
    pub(super) number: usize,
    /// The only column searched for the phrase.
    pub(super) column: Option<usize>,
    pub(super) places: Vec<Place>,
}

impl PhraseState {
    /// The places in a document left by `NEAR`.
    fn stored(&self, at: usize, columns: usize, out: &mut Vec<Place>) -> Result<()> {
        match self.trimmed.get(&at) {
            Some(kept) => {
                out.clone_from(kept);
                Ok(())
            }
            None => self.postings.places(at, columns, out),
        }
    }
}

impl RowPhrase {
    /// Positions in a column.
    pub(super) fn column(&self, column: usize) -> Vec<i64> {
        let own = self.places.iter().filter(|(own, _)| *own as usize == column);
        own.map(|&(_, position)| i64::from(position)).collect()
    }
}

impl Search {
    /// Reads the doclists of a query's terms.
    ///
    /// # Errors
    /// Damaged segments; faults of the file.
    pub(super) fn open(
        store: &Store<'_, '_>,
        tree: Tree,
        language: i64,
        is_descending: bool,
    ) -> Result<Search> {
        let columns = store.definition.columns.len();
        let root = tree.root;
        let mut nodes = Vec::with_capacity(tree.nodes.len());
        for kind in tree.nodes {
            let state = match kind {
                Kind::Join(join, left, right) => State::Join(join, left, right),
                Kind::Phrase(phrase) => {
                    let is_incremental = is_descending == store.definition.is_descending
                        && (1..=INCREMENTAL_TERMS).contains(&phrase.terms.len())
                        && phrase.terms.iter().all(|term| {
                            let has_index = store.definition.prefixes.contains(&term.bytes.len());
                            !term.is_first && (!term.is_prefix || has_index)
                        });
                    State::Phrase(Box::new(PhraseState {
                        terms: phrase.terms.len(),
                        column: phrase.column,
                        number: 0,
                        postings: load(store, &phrase, language)?,
                        passed: 0,
                        current: Current::Nothing,
                        trimmed: FxHashMap::default(),
                        is_incremental,
                        is_loaded: !is_incremental,
                    }))
                }
            };
            let (docid, is_end, is_begun) = (0, false, false);
            nodes.push(Node { state, parent: None, docid, is_end, is_begun, totals: None });
        }
        for id in 0..nodes.len() {
            if let State::Join(_, left, right) = nodes[id].state {
                nodes[left].parent = Some(id);
                nodes[right].parent = Some(id);
            }
        }
        let mut search = Search { nodes, root, columns, is_descending, row: 0 };
        for (number, id) in search.shown().into_iter().enumerate() {
            if let State::Phrase(phrase) = &mut search.nodes[id].state {
                phrase.number = number;
            }
        }
        Ok(search)
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The phrases shown by a row, from left to right: none to the right of a `NOT`.
    pub(super) fn shown(&self) -> Vec<Id> {
        let mut found = Vec::new();
        let mut waiting: Vec<Id> = self.root.into_iter().collect();
        while let Some(id) = waiting.pop() {
            match &self.nodes[id].state {
                State::Phrase(_) => found.push(id),
                State::Join(Join::Not, left, _) => waiting.push(*left),
                State::Join(_, left, right) => waiting.extend([*right, *left]),
            }
        }
        found
    }

    /// Goes to the next row.
    ///
    /// # Errors
    /// Damaged position lists; an interrupted statement.
    pub(super) fn next(&mut self, store: &Store<'_, '_>) -> Result<Option<i64>> {
        let Some(root) = self.root else { return Ok(None) };
        loop {
            store.step()?;
            self.advance(store, root)?;
            if self.nodes[root].is_end {
                return Ok(None);
            }
            self.row = self.nodes[root].docid;
            if self.test(root)? {
                return Ok(Some(self.row));
            }
        }
    }

    /// True where the first docid comes before the second one in the order of rows.
    fn is_before(&self, first: i64, second: i64) -> bool {
        if self.is_descending { first > second } else { first < second }
    }

    /// Steps a node to its next document.
    fn advance(&mut self, store: &Store<'_, '_>, id: Id) -> Result<()> {
        if self.nodes[id].is_end {
            return Ok(());
        }
        self.nodes[id].is_begun = true;
        let (join, left, right) = match &mut self.nodes[id].state {
            State::Join(join, left, right) => (*join, *left, *right),
            State::Phrase(phrase) => {
                let passed = phrase.passed;
                let at = match self.is_descending {
                    false => Some(passed),
                    true => phrase.postings.len().checked_sub(passed + 1),
                };
                let docid = at.and_then(|at| phrase.postings.docid(at));
                phrase.current = match (docid, at) {
                    (Some(_), Some(at)) => Current::Stored(at),
                    _ => Current::Nothing,
                };
                phrase.passed += usize::from(docid.is_some());
                match docid {
                    Some(docid) => self.nodes[id].docid = docid,
                    None => self.nodes[id].is_end = true,
                }
                return Ok(());
            }
        };
        match join {
            Join::Near(_) | Join::And => {
                self.advance(store, left)?;
                self.advance(store, right)?;
                while !self.nodes[left].is_end && !self.nodes[right].is_end {
                    store.step()?;
                    let (here, there) = (self.nodes[left].docid, self.nodes[right].docid);
                    if here == there {
                        break;
                    }
                    let behind = if self.is_before(here, there) { left } else { right };
                    self.advance(store, behind)?;
                }
                let is_end = self.nodes[left].is_end || self.nodes[right].is_end;
                self.nodes[id].docid = self.nodes[left].docid;
                self.nodes[id].is_end = is_end;
                if is_end && matches!(join, Join::Near(_)) {
                    (self.nodes[left].is_end, self.nodes[right].is_end) = (true, true);
                }
            }
            Join::Or => {
                let (takes_left, takes_right) = self.least(left, right);
                if takes_left {
                    self.advance(store, left)?;
                }
                if takes_right {
                    self.advance(store, right)?;
                }
                let is_end = self.nodes[left].is_end && self.nodes[right].is_end;
                let is_left = self.least(left, right) == (true, false);
                let from = if is_left { left } else { right };
                self.nodes[id].docid = self.nodes[from].docid;
                self.nodes[id].is_end = is_end;
            }
            Join::Not => {
                if !self.nodes[right].is_begun {
                    self.advance(store, right)?;
                }
                self.advance(store, left)?;
                if !self.nodes[left].is_end {
                    while !self.nodes[right].is_end
                        && self.is_before(self.nodes[right].docid, self.nodes[left].docid)
                    {
                        store.step()?;
                        self.advance(store, right)?;
                    }
                }
                self.nodes[id].docid = self.nodes[left].docid;
                self.nodes[id].is_end = self.nodes[left].is_end;
            }
        }
        Ok(())
    }

    /// The first of two nodes in the order of rows, both where they stand on one document.
    fn least(&self, left: Id, right: Id) -> (bool, bool) {
        let (left, right) = (&self.nodes[left], &self.nodes[right]);
        if right.is_end || !left.is_end && self.is_before(left.docid, right.docid) {
            (true, false)
        } else if left.is_end || self.is_before(right.docid, left.docid) {
            (false, true)
        } else {
            (true, true)
        }
    }

    fn is_near(&self, id: Option<Id>) -> bool {
        id.is_some_and(|id| matches!(self.nodes[id].state, State::Join(Join::Near(_), ..)))
    }

    fn is_here(&self, id: Id) -> bool {
        !self.nodes[id].is_end && self.nodes[id].docid == self.row
    }

    /// True where the row meets a node's condition; `NEAR` drops places.
    fn test(&mut self, id: Id) -> Result<bool> {
        let (join, left, right) = match &self.nodes[id].state {
            State::Join(join, left, right) => (*join, *left, *right),
            State::Phrase(phrase) => {
                return Ok(self.is_here(id) && !matches!(phrase.current, Current::Nothing));
            }
        };
        Ok(match join {
            Join::And => self.test(left)? && self.test(right)?,
            Join::Or => {
                let is_left = self.test(left)?;
                self.test(right)? || is_left
            }
            Join::Not => self.test(left)? && !self.test(right)?,
            Join::Near(_) => {
                let is_top = !self.is_near(self.nodes[id].parent);
                let is_met = self.test(left)? && self.test(right)? && (!is_top || self.trim(id)?);
                if !is_met && is_top {
                    for (phrase, _) in self.near_phrases(id) {
                        if self.nodes[phrase].docid == self.row
                            && let State::Phrase(phrase) = &mut self.nodes[phrase].state
                        {
                            phrase.current = Current::Nothing;
                        }
                    }
                }
                is_met
            }
        })
    }

    /// The phrases below a `NEAR` from left to right, each with the distance to the one before.
    fn near_phrases(&self, mut id: Id) -> Vec<(Id, u64)> {
        let mut found = Vec::new();
        while let State::Join(Join::Near(distance), left, right) = self.nodes[id].state {
            found.push((right, distance));
            id = left;
        }
        found.push((id, 0));
        found.reverse();
        found
    }

    /// Drops places far from all places of a neighbour; false where a phrase has none left.
    fn trim(&mut self, top: Id) -> Result<bool> {
        let phrases = self.near_phrases(top);
        let count = phrases.len();
        let rightwards = (1..count).map(|at| (at - 1, at, phrases[at].1));
        let leftwards = (1..count).rev().map(|at| (at, at - 1, phrases[at].1));
        for (from, to, distance) in rightwards.chain(leftwards) {
            let (beside, list) = (phrases[from].0, phrases[to].0);
            let (near, own) = (self.current(beside)?, self.current(list)?);
            let terms = |id: Id| match &self.nodes[id].state {
                State::Phrase(phrase) => phrase.terms as u64,
                State::Join(..) => 0,
            };
            let after = distance + terms(list);
            let before = distance + terms(beside);
            let kept = positions::near(&near, &own, after, before);
            if kept.is_empty() {
                return Ok(false);
            }
            let is_shorter = kept.len() < own.len();
            let row = self.nodes[list].docid;
            if let State::Phrase(phrase) = &mut self.nodes[list].state
                && is_shorter
            {
                // Phrases put together piece by piece are copies.
                let is_copy = phrase.is_incremental && phrase.terms > 1;
                if let Some(at) = phrase.postings.find(row).filter(|_| !is_copy) {
                    phrase.trimmed.insert(at, kept.clone());
                }
                phrase.current = Current::Trimmed(kept);
            }
        }
        Ok(true)
    }

    /// The places in the current document of a phrase, after `NEAR`.
    fn current(&self, id: Id) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        if let State::Phrase(phrase) = &self.nodes[id].state {
            match &phrase.current {
                Current::Nothing => {}
                Current::Stored(at) => phrase.stored(*at, self.columns, &mut places)?,
                Current::Trimmed(kept) => places.extend_from_slice(kept),
            }
        }
        Ok(places)
    }

    /// Begins a node anew.
    fn restart(&mut self, id: Id) {
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let node = &mut self.nodes[id];
            (node.docid, node.is_end, node.is_begun) = (0, false, false);
            match &mut node.state {
                State::Join(_, left, right) => waiting.extend([*left, *right]),
                State::Phrase(phrase) => {
                    (phrase.passed, phrase.current) = (0, Current::Nothing);
                    (phrase.is_incremental, phrase.is_loaded) = (false, true);
                }
            }
        }
    }

    /// A phrase's places in the row.
    ///
    /// # Errors
    /// Damaged position lists; an interrupted statement.
    pub(super) fn phrase(&mut self, store: &Store<'_, '_>, id: Id) -> Result<RowPhrase> {
        let mut found = RowPhrase { terms: 0, places: Vec::new() };
        let State::Phrase(phrase) = &self.nodes[id].state else { return Ok(found) };
        found.terms = phrase.terms;
        if self.is_here(id) {
            found.places = self.current(id)?;
            return Ok(found);
        }
        let (mut near, mut is_below_or, mut is_below_end) = (id, false, false);
        let mut parent = self.nodes[id].parent;
        while let Some(above) = parent {
            match self.nodes[above].state {
                State::Join(Join::Or, ..) => is_below_or = true,
                State::Join(Join::Near(_), ..) => near = above,
                _ => {}
            }
            is_below_end |= self.nodes[above].is_end;
            parent = self.nodes[above].parent;
        }
        if !is_below_or {
            return Ok(found);
        }
        let phrases = self.near_phrases(near);
        if phrase.is_incremental {
            // SQLite goes through all documents of the group anew, up to the current one.
            for &(id, _) in &phrases {
                let node = &mut self.nodes[id];
                if let State::Phrase(phrase) = &mut node.state {
                    (phrase.is_incremental, phrase.is_loaded) = (false, true);
                    if let Some(at) = phrase.postings.find(node.docid).filter(|_| !node.is_end) {
                        phrase.current = Current::Stored(at);
                    }
                }
            }
        }
        while is_below_end && !self.nodes[near].is_end {
            self.advance(store, near)?;
        }
        let place = |id: Id| match &self.nodes[id].state {
            State::Phrase(phrase) if phrase.is_loaded => {
                phrase.postings.find(self.row).map(|at| (phrase, at))
            }
            _ => None,
        };
        if phrases.iter().all(|&(id, _)| place(id).is_some())
            && let Some((phrase, at)) = place(id)
        {
            phrase.stored(at, self.columns, &mut found.places)?;
        }
        Ok(found)
    }

    /// Starts phrases read piece by piece anew, as `offsets` does. Places dropped by `NEAR` from a
    /// phrase of several terms come back.
    pub(super) fn reload(&mut self) {
        for id in self.shown() {
            let node = &mut self.nodes[id];
            let State::Phrase(phrase) = &mut node.state else { continue };
            if !std::mem::take(&mut phrase.is_incremental) || node.is_end {
                continue;
            }
            phrase.is_loaded = true;
            let at = phrase.postings.find(node.docid);
            phrase.current = at.map_or(Current::Nothing, Current::Stored);
        }
    }

    /// Hits of the phrases on the row's document, by [`PhraseState::number`]: `y` and `b` of
    /// `matchinfo`.
    ///
    /// # Errors
    /// Damaged position lists.
    pub(super) fn hits_here(&self) -> Result<Vec<Hits>> {
        let mut found = Vec::new();
        let mut waiting: Vec<Id> = self.root.into_iter().collect();
        while let Some(id) = waiting.pop() {
            if !self.is_here(id) {
                continue;
            }
            match &self.nodes[id].state {
                State::Join(_, left, right) => waiting.extend([*right, *left]),
                State::Phrase(phrase) => found.push(Hits {
                    number: phrase.number,
                    column: phrase.column,
                    places: self.current(id)?,
                }),
            }
        }
        Ok(found)
    }

    /// Hits of a phrase over all documents, for each column. Hits of a phrase in `NEAR` count if
    /// they stay when the whole query is asked of a document, nodes outside the `NEAR` unmoved.
    ///
    /// # Errors
    /// Damaged position lists; an interrupted statement.
    pub(super) fn totals(&mut self, store: &Store<'_, '_>, id: Id) -> Result<Vec<Totals>> {
        if let Some(totals) = &self.nodes[id].totals {
            return Ok(totals.clone());
        }
        let mut root = id;
        while self.is_near(self.nodes[root].parent) {
            root = self.nodes[root].parent.unwrap_or(root);
        }
        let (docid, is_end, row) = (self.nodes[root].docid, self.nodes[root].is_end, self.row);
        let phrases: Vec<Id> = self.near_phrases(root).into_iter().map(|(id, _)| id).collect();
        let mut totals = vec![vec![(0, 0); self.columns]; phrases.len()];
        let whole = self.root.filter(|_| self.is_near(Some(root)));
        self.restart(root);
        loop {
            loop {
                store.step()?;
                self.advance(store, root)?;
                self.row = self.nodes[root].docid;
                let is_wanted = match whole {
                    Some(whole) if !self.nodes[root].is_end => self.test(whole)?,
                    _ => true,
                };
                if is_wanted {
                    break;
                }
            }
            if self.nodes[root].is_end {
                break;
            }
            for (&phrase, totals) in phrases.iter().zip(&mut totals) {
                let places = self.current(phrase)?;
                for run in places.chunk_by(|a, b| a.0 == b.0) {
                    let (hits, documents) = &mut totals[run[0].0 as usize];
                    *hits += run.len() as u32;
                    *documents += 1;
                }
            }
        }
        self.row = row;
        if !is_end {
            self.restart(root);
            loop {
                self.advance(store, root)?;
                if self.nodes[root].is_end {
                    return Err(Error::corrupt("doclist of document", docid, "it has changed"));
                }
                if self.nodes[root].docid == docid {
                    break;
                }
            }
        }
        for (&phrase, totals) in phrases.iter().zip(totals) {
            self.nodes[phrase].totals = Some(totals);
        }
        Ok(self.nodes[id].totals.clone().unwrap_or_default())
    }

    /// Asks the whole query of the row again, after [`Search::totals`] moved its nodes.
    ///
    /// # Errors
    /// Damaged position lists.
    pub(super) fn test_again(&mut self) -> Result<()> {
        if let Some(root) = self.root {
            self.test(root)?;
        }
        Ok(())
    }
}

/// The documents of a phrase, with the places of its last term.
fn load(store: &Store<'_, '_>, phrase: &Phrase, language: i64) -> Result<Postings> {
    let columns = store.definition.columns.len();
    let mut before: Option<Postings> = None;
    for term in &phrase.terms {
        let filter = Filter { column: phrase.column, is_first: term.is_first };
        let own = segment::find(store, language, &term.bytes, term.is_prefix, filter)?;
        before = Some(match before {
            None => own,
            Some(left) => own.follow(&left, 1, columns)?,
        });
    }
    Ok(before.unwrap_or_default())
}
