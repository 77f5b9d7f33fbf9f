//! Rows of a table: all rows, one row, or the rows of a query.

use shoal_sql::{Error, IndexChoice, TableReads, Value, VirtualCursor};

use super::definition::Content;
use super::matchinfo::{self, MatchInfo};
use super::query::Tree;
use super::search::Search;
use super::snippet::{self, Snippet};
use super::{DOCID, FROM, FUNCTIONS, Fts3Table, LANGUAGE, MATCH, SCAN, TO, outwards};
use crate::module::{rowid_of, text_of, texts};

#[derive(Debug)]
pub(super) struct Fts3Cursor {
    table: Fts3Table,
    way: Way,
    is_descending: bool,
    /// Bounds of docids, both included.
    from: i64,
    to: i64,
    language: i64,
    docid: i64,
    /// The row's columns: `Some(None)` of a row missing from the content table.
    document: Option<Option<Vec<Value>>>,
    info: Option<MatchInfo>,
}

#[derive(Debug)]
enum Way {
    Nowhere,
    /// Docids read ahead in reverse, the last one read, and whether more may follow.
    Scan {
        ahead: Vec<i64>,
        last: Option<i64>,
        is_end: bool,
    },
    One(Option<i64>),
    Search(Box<Search>),
}

impl Fts3Cursor {
    pub(super) fn new(table: Fts3Table) -> Fts3Cursor {
        Fts3Cursor {
            table,
            way: Way::Nowhere,
            is_descending: false,
            from: i64::MIN,
            to: i64::MAX,
            language: 0,
            docid: 0,
            document: None,
            info: None,
        }
    }

    fn outwards(&self, error: crate::Error) -> Error {
        outwards(self.table.definition.module(), error)
    }

    /// Reads the row's columns, unless they are known.
    fn document(&mut self, reads: &TableReads<'_>) -> Result<Option<&[Value]>, Error> {
        if self.document.is_none() {
            let found = self.table.store(reads).document(self.docid);
            let found = found.map_err(|error| self.outwards(error))?;
            if found.is_none() && self.table.definition.content == Content::Own {
                let why = "the index knows it, %_content lacks it";
                return Err(self.outwards(crate::Error::corrupt("document", self.docid, why)));
            }
            self.document = Some(found);
        }
        Ok(self.document.as_ref().and_then(Option::as_deref))
    }

    /// The row's texts.
    fn texts(&mut self, reads: &TableReads<'_>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let count = self.table.definition.columns.len();
        let Some(values) = self.document(reads)? else { return Ok(vec![None; count]) };
        // The language lies behind the columns.
        let texts = texts(&values[..count.min(values.len())]).into_iter();
        Ok(texts.map(|text| text.map(std::borrow::Cow::into_owned)).collect())
    }

    fn next_scanned(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        let (from, to, is_descending) = (self.from, self.to, self.is_descending);
        let store = self.table.store(reads);
        let Way::Scan { ahead, last, is_end } = &mut self.way else { return Ok(false) };
        if ahead.is_empty() && !*is_end {
            // The first docids lie behind the bound's neighbour.
            let bound = if is_descending { to.checked_add(1) } else { from.checked_sub(1) };
            let read = store.rowids(last.or(bound), is_descending, ahead);
            drop(store);
            read.map_err(|error| outwards(self.table.definition.module(), error))?;
            *last = ahead.last().copied();
            *is_end = ahead.is_empty();
            ahead.reverse();
        }
        let Some(docid) = ahead.pop().filter(|docid| (from..=to).contains(docid)) else {
            ahead.clear();
            *is_end = true;
            return Ok(false);
        };
        self.docid = docid;
        Ok(true)
    }

    fn snippet(&mut self, arguments: &[Value], reads: &TableReads<'_>) -> Result<Value, Error> {
        if arguments.len() > 5 {
            return Err(Error::of_function("wrong number of arguments to function snippet()"));
        }
        let text = |place: usize, default: &str| {
            let mut text = default.as_bytes().to_vec();
            match arguments.get(place) {
                None => Ok(text),
                Some(Value::Null) => Err(Error::of_function("snippet() takes no NULL for a text")),
                Some(value) => {
                    text_of(value, &mut text);
                    Ok(text)
                }
            }
        };
        let number = |place: usize, default: i64| {
            arguments.get(place).map_or(default, shoal_sql::Value::to_int)
        };
        let (open, close) = (text(0, "<b>")?, text(1, "</b>")?);
        let ellipsis = text(2, "<b>...</b>")?;
        let (column, tokens) = (number(3, -1), number(4, 15));
        let columns = self.table.definition.columns.len();
        let column = usize::try_from(column).ok();
        if tokens == 0 || column.is_some_and(|column| column >= columns) {
            return Ok(Value::text(""));
        }
        let texts = self.texts(reads)?;
        let store = self.table.store(reads);
        let Way::Search(search) = &mut self.way else { return Ok(Value::text("")) };
        let tokens = tokens.clamp(-64, 64);
        let wanted = Snippet { open: &open, close: &close, ellipsis: &ellipsis, column, tokens };
        let found = snippet::snippet(&store, search, &texts, &wanted);
        drop(store);
        let found = found.map_err(|error| self.outwards(error))?;
        Ok(found.map_or(Value::Null, Value::Text))
    }

    fn offsets(&mut self, reads: &TableReads<'_>) -> Result<Value, Error> {
        let texts = self.texts(reads)?;
        let store = self.table.store(reads);
        let keeps_texts = self.table.definition.content == Content::Own;
        let Way::Search(search) = &mut self.way else { return Ok(Value::text("")) };
        let found = snippet::offsets(&store, search, self.docid, &texts, keeps_texts);
        drop(store);
        let found = found.map_err(|error| self.outwards(error))?;
        Ok(found.map_or(Value::Null, Value::Text))
    }

    fn matchinfo(&mut self, arguments: &[Value], reads: &TableReads<'_>) -> Result<Value, Error> {
        let mut format = matchinfo::DEFAULT.to_vec();
        if let Some(value) = arguments.first().filter(|value| !matches!(value, Value::Null)) {
            text_of(value, &mut format);
        }
        let store = self.table.store(reads);
        let Way::Search(search) = &mut self.way else { return Ok(Value::Blob(Vec::new())) };
        let found = matchinfo::matchinfo(&store, search, self.docid, &format, &mut self.info);
        drop(store);
        if found.is_err() {
            self.info = None;
        }
        found.map(Value::Blob).map_err(|error| self.outwards(error))
    }
}

impl VirtualCursor for Fts3Cursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        *self = Fts3Cursor::new(self.table.clone());
        let definition = std::sync::Arc::clone(&self.table.definition);
        let kind = choice.number & 0xffff;
        let mut arguments = arguments.iter();
        let mut next = |is_there: bool| if is_there { arguments.next() } else { None };
        let key = next(kind != SCAN);
        let language = next(choice.number & LANGUAGE != 0);
        let from = next(choice.number & FROM != 0);
        let to = next(choice.number & TO != 0);
        if kind >= MATCH
            && language.is_none()
            && definition.language.is_some()
            && reads.is_utf16()?
        {
            // The engine keeps conditions on columns of such files to itself.
            return Err(Error::of_function(format!(
                "{} tables with a languageid answer no MATCH in files of UTF-16",
                definition.module()
            )));
        }
        if let Some(Value::Int(from)) = from {
            self.from = *from;
        }
        if let Some(Value::Int(to)) = to {
            self.to = *to;
        }
        self.is_descending = match choice.text.as_str() {
            "ASC" => false,
            "DESC" => true,
            _ => definition.is_descending,
        };
        self.way = match key {
            None => Way::Scan { ahead: Vec::new(), last: None, is_end: false },
            Some(key) if kind == DOCID => Way::One(rowid_of(key)),
            Some(Value::Null) => Way::Nowhere,
            Some(key) => {
                self.language = language.map_or(0, |value| i64::from(value.to_int() as i32));
                let mut text = Vec::new();
                text_of(key, &mut text);
                let column = usize::try_from(kind - MATCH).ok();
                let column = column.filter(|&column| column < definition.columns.len());
                let store = self.table.store(reads);
                let tree = Tree::parse(&definition, self.table.syntax, &text, column);
                let search = tree
                    .and_then(|tree| Search::open(&store, tree, self.language, self.is_descending));
                drop(store);
                Way::Search(Box::new(search.map_err(|error| self.outwards(error))?))
            }
        };
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        self.document = None;
        match &mut self.way {
            Way::Nowhere => Ok(false),
            Way::Scan { .. } => self.next_scanned(reads),
            Way::One(docid) => {
                let Some(docid) = docid.take() else { return Ok(false) };
                let found = self.table.store(reads).document(docid);
                self.document = Some(found.map_err(|error| self.outwards(error))?);
                self.docid = docid;
                Ok(self.document.as_ref().is_some_and(Option::is_some))
            }
            Way::Search(search) => {
                let store = self.table.store(reads);
                loop {
                    let found = search.next(&store);
                    let found =
                        found.map_err(|error| outwards(self.table.definition.module(), error))?;
                    let Some(docid) = found else { return Ok(false) };
                    let is_past =
                        if self.is_descending { docid < self.from } else { docid > self.to };
                    if is_past {
                        self.way = Way::Nowhere;
                        return Ok(false);
                    }
                    if (self.from..=self.to).contains(&docid) {
                        self.docid = docid;
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn rowid(&self) -> i64 {
        self.docid
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
            *out = Value::Int(self.docid);
        } else if column == count + 2 && matches!(self.way, Way::Search(_)) {
            *out = Value::Int(self.language);
        } else if column == count + 2 && self.table.definition.language.is_none() {
            *out = Value::Int(0);
        } else if column != count {
            // The language lies behind the columns of a document.
            let place = if column > count { count } else { column };
            if let Some(value) = self.document(reads)?.and_then(|values| values.get(place)) {
                *out = value.clone();
            }
        }
        Ok(())
    }

    fn auxiliary(
        &mut self,
        function: usize,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        let most = [usize::MAX, 0, 0, 1];
        let name = FUNCTIONS[function];
        if arguments.len() > most[function] {
            let message = format!("wrong number of arguments to function {name}()");
            return Err(Error::of_function(message));
        }
        match name {
            "snippet" => self.snippet(arguments, reads),
            "offsets" => self.offsets(reads),
            "matchinfo" => self.matchinfo(arguments, reads),
            _ => {
                let name = &self.table.definition.name;
                Err(self.table.refused(&format!("optimize() writes the index of {name} anew")))
            }
        }
    }
}
