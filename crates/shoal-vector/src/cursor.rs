//! Rows found: all of them, one by its key, or the nearest to a vector.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use shoal_sql::{Error, IndexChoice, TableReads, Value, VirtualCursor};

use crate::distance;
use crate::filter::{Condition, Filter, Subject};
use crate::index::search::IndexSearch;
use crate::search::{Hit, Residents, nearest};
use crate::shadow::{Parts, Place};
use crate::table::{ALL, BY_KEY, INDEX, NEAREST, Use};
use crate::vector::Vector;

/// The first batch of rows of a search without a number of rows.
const FIRST: usize = 64;

/// How the rows of a cursor come.
#[derive(Debug)]
enum Way {
    Nothing,
    /// All rows behind a rowid.
    After(Option<i64>),
    Key(i64),
    Nearest(Box<Search>),
}

/// A search whose rows are found some at a time.
#[derive(Debug)]
struct Search {
    number: usize,
    query: Value,
    filter: Filter,
    /// The place of an index to be asked, until the index has no more to give.
    index: Option<usize>,
    /// The number of nodes kept by a search of the index, where the query names one.
    ef: Option<usize>,
    found: Vec<Hit>,
    next: usize,
    /// The rows given before, where an index found some: a wider search may order them otherwise.
    given: FxHashSet<i64>,
    /// The number of rows asked for last.
    wanted: usize,
    is_complete: bool,
}

/// A cursor over a table.
#[derive(Debug)]
pub(crate) struct VectorCursor {
    parts: Arc<Parts>,
    residents: Arc<Residents>,
    way: Way,
    rowid: i64,
    distance: Option<f32>,
    /// The place of the row, once a column has asked.
    place: Option<Place>,
}

impl VectorCursor {
    pub(crate) fn new((parts, residents): (Arc<Parts>, Arc<Residents>)) -> VectorCursor {
        let (rowid, distance, place) = (0, None, None);
        VectorCursor { parts, residents, way: Way::Nothing, rowid, distance, place }
    }

    /// Begins a search.
    fn begin(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<Way, Error> {
        let definition = &self.parts.definition;
        let number = usize::try_from(choice.number - NEAREST).unwrap_or(0);
        let (mut query, mut filter, mut wanted) = (Value::Null, Filter::default(), FIRST);
        let mut ef = None;
        for (action, value) in Use::read(&choice.text).into_iter().zip(arguments) {
            match action {
                Use::Match => query = value.clone(),
                Use::Effort => match usize::try_from(value.to_int()) {
                    Ok(nodes) => ef = Some(nodes),
                    Err(_) => {
                        let why = "ef in knn queries must be greater than or equal to 0.";
                        return Err(Error::of_function(why));
                    }
                },
                Use::Limit => {
                    let Ok(limit) = usize::try_from(value.to_int()) else {
                        let why = "k value in knn queries must be greater than or equal to 0.";
                        return Err(Error::of_function(why));
                    };
                    wanted = limit;
                }
                Use::Condition(op, column) => {
                    let Some(subject) = Subject::of(definition, column) else { continue };
                    filter.0.push(Condition { subject, op, value: value.clone() });
                }
            }
        }
        if wanted == 0 {
            return Ok(Way::Nothing);
        }
        let has_index = choice.text.contains(INDEX) && ef != Some(0);
        let index = self.parts.index_of(number).filter(|_| has_index);
        let (found, next, given, is_complete) = (Vec::new(), 0, FxHashSet::default(), false);
        let mut search =
            Search { number, query, filter, index, ef, found, next, given, wanted, is_complete };
        self.find(&mut search, wanted, reads)?;
        Ok(Way::Nearest(Box::new(search)))
    }

    /// Finds the nearest rows of a search.
    fn find(
        &self,
        search: &mut Search,
        wanted: usize,
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        let (name, column) = self.parts.vector_column(search.number)?;
        let vector = Vector::read(&search.query, column.element).map_err(|error| {
            Error::of_function(format!("Query vector on the \"{name}\" column is invalid: {error}"))
        })?;
        if vector.dimensions != column.dimensions {
            return Err(Error::of_function(format!(
                "Dimension mismatch for query vector for the \"{name}\" column. Expected {} \
                 dimensions but received {}.",
                column.dimensions, vector.dimensions
            )));
        }
        search.wanted = wanted;
        if let Some(place) = search.index {
            let (parts, residents) = (&*self.parts, &*self.residents);
            let (filter, ef) = (&search.filter, search.ef);
            let asked =
                IndexSearch { parts, residents, place, vector: &vector, filter, wanted, ef };
            if let Some(mut hits) = asked.find(reads)? {
                let is_cut = hits.len() < wanted;
                hits.retain(|hit| search.given.insert(hit.rowid));
                search.is_complete = is_cut;
                (search.found, search.next) = (hits, 0);
                return Ok(());
            }
            search.index = None;
        }
        let table = (&*self.parts, &*self.residents);
        search.found = nearest(table, (search.number, &vector), &search.filter, wanted, reads)?;
        search.is_complete = search.found.len() < wanted;
        if !search.given.is_empty() {
            search.found.retain(|hit| search.given.insert(hit.rowid));
            search.next = 0;
        }
        Ok(())
    }
}

impl VirtualCursor for VectorCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        self.parts.refuse_utf16(reads)?;
        (self.distance, self.place) = (None, None);
        self.way = match choice.number {
            ALL => Way::After(None),
            BY_KEY => match arguments.first() {
                Some(key) => match self.parts.rowid_of(key, reads)? {
                    Some(rowid) => Way::Key(rowid),
                    None => Way::Nothing,
                },
                None => Way::Nothing,
            },
            _ => self.begin(choice, arguments, reads)?,
        };
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        self.place = None;
        match std::mem::replace(&mut self.way, Way::Nothing) {
            Way::Nothing => Ok(false),
            Way::Key(rowid) => {
                self.rowid = rowid;
                Ok(true)
            }
            Way::After(last) => {
                let mut rows = reads.rows(&self.parts.rowids)?;
                let found = match last {
                    None => rows.first()?,
                    Some(i64::MAX) => false,
                    Some(last) => rows.seek(last + 1)? || rows.is_valid(),
                };
                if found {
                    reads.check()?;
                    self.rowid = rows.rowid()?;
                    self.way = Way::After(Some(self.rowid));
                }
                Ok(found)
            }
            Way::Nearest(mut search) => {
                while search.next == search.found.len() && !search.is_complete {
                    let wanted = search.wanted.saturating_mul(4).max(FIRST);
                    self.find(&mut search, wanted, reads)?;
                }
                let Some(hit) = search.found.get(search.next) else { return Ok(false) };
                (self.rowid, self.distance) = (hit.rowid, Some(hit.distance));
                search.next += 1;
                self.way = Way::Nearest(search);
                Ok(true)
            }
        }
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
        let definition = &self.parts.definition;
        *out = match definition.kind(column) {
            Some(kind) => {
                let place = match self.place {
                    Some(place) => place,
                    None => match self.parts.place(self.rowid, reads)? {
                        Some(place) => *self.place.insert(place),
                        None => {
                            let why = format!("row {} of a chunk is missing", self.rowid);
                            return Err(self.parts.corrupt(why));
                        }
                    },
                };
                self.parts.value(kind, (self.rowid, place), reads)?
            }
            None if column == 0 && definition.is_text_key => {
                let mut rows = reads.rows(&self.parts.rowids)?;
                match rows.seek(self.rowid)? {
                    true => Value::from(rows.column(1)?),
                    false => Value::Null,
                }
            }
            None if column == 0 => Value::Int(self.rowid),
            None if column == definition.distance_place() => {
                self.distance.map_or(Value::Null, distance::value)
            }
            None => Value::Null,
        };
        Ok(())
    }
}
