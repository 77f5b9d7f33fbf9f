//! The shadow tables of an FTS3 table, read through the engine's seam.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shoal_sql::{Object, Schema, ShadowRows, ShadowTable, TableReads, Value, ValueRef};

use super::definition::{Content, Definition};
use crate::error::{Error, Result};
use crate::module::rows::{quoted, seek_near, seek_once, to_storage, with_rows};

/// The number of levels of one index; the levels of the next index follow.
const LEVELS: i64 = 1024;
/// Rowids of another program's table are asked for this many at a time.
const ROWIDS: i64 = 256;
/// Steps between two looks at the statement's interruption.
const STEPS: u32 = 1024;

/// The shadow tables of a table.
#[derive(Clone, Debug)]
pub(super) struct Shadows {
    segments: ShadowTable,
    segdir: ShadowTable,
    sizes: Option<ShadowTable>,
    stat: Option<ShadowTable>,
    /// `%_content`, with the places of our columns and of the language.
    content: Option<(ShadowTable, Vec<usize>, Option<usize>)>,
}

impl Shadows {
    /// The shadow tables in a schema.
    ///
    /// # Errors
    /// `no such table`; a content table without a column.
    pub(super) fn of(
        definition: &Definition,
        schema: &Schema,
    ) -> std::result::Result<Shadows, shoal_sql::Error> {
        let shadow =
            |suffix: &str| ShadowTable::of(schema, &format!("{}_{suffix}", definition.name));
        let content = match definition.content {
            Content::Own => {
                let name = format!("{}_content", definition.name);
                let place = |column: &str| match schema.object(&name) {
                    Some(Object::Table(table)) => table.column_index(column).ok_or_else(|| {
                        shoal_sql::Error::of_function(format!("no such column: {name}.{column}"))
                    }),
                    _ => Err(shoal_sql::Error::of_function(format!("no such table: {name}"))),
                };
                let places = (0..definition.columns.len())
                    .map(|column| place(&definition.stored_column(column)))
                    .collect::<std::result::Result<_, _>>()?;
                let language = match definition.language {
                    Some(_) => Some(place("langid")?),
                    None => None,
                };
                Some((shadow("content")?, places, language))
            }
            _ => None,
        };
        // `%_stat` is FTS4's; the command `merge` made one beside some FTS3 tables.
        let stat = if definition.is_fts4 { Some(shadow("stat")?) } else { None };
        let sizes = if definition.has_sizes { Some(shadow("docsize")?) } else { None };
        let (segments, segdir) = (shadow("segments")?, shadow("segdir")?);
        Ok(Shadows { segments, segdir, sizes, stat, content })
    }
}

/// A row of `%_segdir`.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// Row of `%_segdir`, for faults.
    pub(super) row: i64,
    level: i64,
    index: i64,
    /// First and last leaf in `%_segments`; 0 where the root is the only leaf.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) root: Vec<u8>,
}

/// Shadow tables of a running statement; cursors are opened once.
pub(super) struct Store<'s, 't> {
    pub(super) definition: &'s Definition,
    shadows: &'s Shadows,
    reads: TableReads<'t>,
    segments: RefCell<Option<ShadowRows<'t>>>,
    content: RefCell<Option<ShadowRows<'t>>>,
    /// All rows of `%_segdir`, once read.
    known: RefCell<Option<Rc<[Segment]>>>,
    steps: Cell<u32>,
}

impl<'s, 't> Store<'s, 't> {
    pub(super) fn new(
        definition: &'s Definition,
        shadows: &'s Shadows,
        reads: TableReads<'t>,
    ) -> Store<'s, 't> {
        Store {
            definition,
            shadows,
            reads,
            segments: RefCell::default(),
            content: RefCell::default(),
            known: RefCell::default(),
            steps: Cell::new(0),
        }
    }

    /// To be called at each step of a long loop.
    ///
    /// # Errors
    /// An interrupted statement.
    pub(super) fn step(&self) -> Result<()> {
        self.steps.set(self.steps.get().wrapping_add(1));
        match self.steps.get() % STEPS {
            0 => self.reads.check().map_err(to_storage),
            _ => Ok(()),
        }
    }

    /// Replaces `into` by a node of `%_segments`.
    ///
    /// # Errors
    /// A missing node; faults of the file.
    pub(super) fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<()> {
        self.step()?;
        into.clear();
        let is_found = with_rows(&self.reads, &self.segments, &self.shadows.segments, |rows| {
            if !seek_near(rows, id)? {
                return Ok(false);
            }
            let value = rows.column(1)?;
            Ok(match value {
                ValueRef::Blob(bytes) => {
                    into.extend_from_slice(bytes);
                    true
                }
                _ => false,
            })
        })?;
        if is_found { Ok(()) } else { Err(Error::corrupt("segment node", id, "it is missing")) }
    }

    /// The segments of an index, the oldest first.
    ///
    /// # Errors
    /// A damaged row; faults of the file.
    pub(super) fn index_segments(&self, language: i64, index: usize) -> Result<Vec<Segment>> {
        let indexes = self.definition.prefixes.len() as i64 + 1;
        let base = language.checked_mul(indexes).and_then(|base| base.checked_add(index as i64));
        let Some(base) = base.and_then(|base| base.checked_mul(LEVELS)) else {
            return Ok(Vec::new());
        };
        let levels = base..base.saturating_add(LEVELS);
        let all = self.all_segments()?;
        let own = all.iter().filter(|segment| levels.contains(&segment.level));
        let mut found: Vec<Segment> = own.cloned().collect();
        found.sort_by_key(|segment| (std::cmp::Reverse(segment.level), segment.index));
        Ok(found)
    }

    /// All languages of the index, ascending.
    ///
    /// # Errors
    /// As [`Store::index_segments`].
    pub(super) fn languages(&self) -> Result<Vec<i64>> {
        let indexes = self.definition.prefixes.len() as i64 + 1;
        let segments = self.all_segments()?;
        let of = |segment: &Segment| segment.level.div_euclid(LEVELS).div_euclid(indexes);
        let mut languages: Vec<i64> = segments.iter().map(of).collect();
        languages.sort_unstable();
        languages.dedup();
        Ok(languages)
    }

    fn all_segments(&self) -> Result<Rc<[Segment]>> {
        if let Some(known) = &*self.known.borrow() {
            return Ok(Rc::clone(known));
        }
        let read = || {
            let mut rows = self.reads.rows(&self.shadows.segdir)?;
            let mut segments = Vec::new();
            let mut is_row = rows.first()?;
            while is_row {
                let mut segment = Segment { row: rows.rowid()?, ..Segment::default() };
                segment.level = number(rows.column(0)?);
                segment.index = number(rows.column(1)?);
                segment.first = number(rows.column(2)?);
                segment.last = number(rows.column(3)?);
                if let ValueRef::Blob(root) = rows.column(5)? {
                    segment.root.extend_from_slice(root);
                }
                segments.push(segment);
                is_row = rows.next()?;
            }
            Ok(segments)
        };
        let segments: Rc<[Segment]> = read().map_err(to_storage)?.into();
        *self.known.borrow_mut() = Some(Rc::clone(&segments));
        Ok(segments)
    }

    /// Column `size` of a document's row in `%_docsize`.
    ///
    /// # Errors
    /// A missing row; faults of the file.
    pub(super) fn sizes(&self, docid: i64) -> Result<Vec<u8>> {
        let read = || match &self.shadows.sizes {
            Some(table) => blob_of(&mut self.reads.rows(table)?, docid),
            None => Ok(None),
        };
        let sizes = read().map_err(to_storage)?;
        sizes.ok_or_else(|| Error::corrupt("sizes of document", docid, "they are missing"))
    }

    /// The totals of all documents, row 0 of `%_stat`.
    ///
    /// # Errors
    /// A missing row; faults of the file.
    pub(super) fn totals(&self) -> Result<Vec<u8>> {
        let read = || match &self.shadows.stat {
            Some(table) => blob_of(&mut self.reads.rows(table)?, 0),
            None => Ok(None),
        };
        let totals = read().map_err(to_storage)?;
        totals.ok_or_else(|| Error::corrupt("totals in row", 0, "they are missing"))
    }

    /// The stored columns of a document, and the language's behind them where the table has one;
    /// `None` without a row.
    ///
    /// # Errors
    /// A table without texts; faults of the file.
    pub(super) fn document(&self, docid: i64) -> Result<Option<Vec<Value>>> {
        let is_plain =
            self.definition.uncompress.is_none() && !self.reads.is_utf16().map_err(to_storage)?;
        if let (Some((table, places, language)), true) = (&self.shadows.content, is_plain) {
            return with_rows(&self.reads, &self.content, table, |rows| {
                if !seek_once(rows, docid)? {
                    return Ok(None);
                }
                let places = places.iter().chain(language);
                let values = places.map(|&place| rows.column(place).map(Value::from));
                values.collect::<std::result::Result<_, _>>().map(Some)
            });
        }
        let sql = format!("{} WHERE rowid = ?1", self.select(true)?);
        let mut found = None;
        let parameters = [Value::Int(docid)];
        let each = |row: &[Value]| {
            found = Some(row[1..].to_vec());
            Ok(())
        };
        self.reads.query(&sql, &parameters, each).map_err(to_storage)?;
        Ok(found)
    }

    /// `SELECT` of rowid and columns from the content table, or of rowids alone.
    fn select(&self, has_columns: bool) -> Result<String> {
        let definition = self.definition;
        let table = match &definition.content {
            Content::Own => format!("{}_content", definition.name),
            Content::Table(name) => name.clone(),
            Content::Nowhere => {
                return Err(Error::Refused(format!(
                    "the {} table {} keeps no texts (content=\"\"): it finds docids alone",
                    definition.module(),
                    definition.name
                )));
            }
        };
        let mut sql = "SELECT rowid".to_owned();
        let is_own = definition.content == Content::Own;
        for column in (0..definition.columns.len()).filter(|_| has_columns) {
            let name = match is_own {
                true => quoted(&definition.stored_column(column)),
                false => quoted(&definition.columns[column]),
            };
            sql.push_str(", ");
            match &definition.uncompress {
                Some(function) => sql.push_str(&format!("{}({name})", quoted(function))),
                None => sql.push_str(&name),
            }
        }
        if let Some(language) = definition.language.as_ref().filter(|_| has_columns) {
            sql.push_str(", ");
            sql.push_str(&if is_own { "langid".to_owned() } else { quoted(language) });
        }
        sql.push_str(&format!(" FROM {}.{}", quoted(&definition.database), quoted(&table)));
        Ok(sql)
    }

    /// Rowids behind (or, descending, before) one, up to some hundred; all of them at `None`.
    ///
    /// # Errors
    /// As [`Store::document`].
    pub(super) fn rowids(
        &self,
        after: Option<i64>,
        is_descending: bool,
        into: &mut Vec<i64>,
    ) -> Result<()> {
        into.clear();
        let (sign, order) = if is_descending { ('<', "DESC") } else { ('>', "ASC") };
        let bound = after.map_or(String::new(), |_| format!(" WHERE rowid {sign} ?1"));
        let select = self.select(false)?;
        let sql = format!("{select}{bound} ORDER BY rowid {order} LIMIT {ROWIDS}");
        let each = |row: &[Value]| {
            if let Some(Value::Int(rowid)) = row.first() {
                into.push(*rowid);
            }
            Ok(())
        };
        let parameters: Vec<Value> = after.map(Value::Int).into_iter().collect();
        self.reads.query(&sql, &parameters, each).map_err(to_storage)
    }
}

/// A number, also at the begin of a text: `%_segdir` has the sizes of some segments behind one.
fn number(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int(number) => number,
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::Text(bytes.to_vec()).to_int(),
        ValueRef::Null => 0,
    }
}

/// Column 1 of a row, where the row has a blob there.
fn blob_of(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
) -> std::result::Result<Option<Vec<u8>>, shoal_sql::Error> {
    if !rows.seek(rowid)? {
        return Ok(None);
    }
    Ok(match rows.column(1)? {
        ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        _ => None,
    })
}
