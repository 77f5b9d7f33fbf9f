//! Two files compared as a principal sees them.
//!
//! Rows are those of queries of the narrowed connections, in the order of their rowids or keys: no
//! page is read by its bytes, for pages hold hidden rows, too.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use shoal_sql::{Narrowed, Statement, Value};

use crate::Error;
use crate::changeset::Op;
use crate::compare::{Comparison, Emit, Row, Rows};
use crate::diff::{DiffOptions, File, LeftOut, in_snapshots};
use crate::literal::quoted;
use crate::schema::{Definitions, Object, SchemaChange};
use crate::shape::{Identity, Shape};
use crate::sink::{RowDiff, Sink};

/// Tells `sink` of every change from what the principal of `a` sees to what the principal of `b`
/// does, as [`diff`](crate::diff()) does of whole files: the differences of two files made of the
/// visible tables, columns and rows. Definitions are those of `sqlite_schema` under rules; indexes,
/// views, triggers and the header's numbers are left out. Each file is read in one snapshot.
///
/// Cost: every visible row of both files is read and ordered.
///
/// # Errors
/// As [`diff`](crate::diff()); [`Error::Table`] for a changeset of a table with a hidden, masked or
/// generated column, and for a key of texts in a file of UTF-16.
pub fn diff_narrowed(
    a: &mut Narrowed,
    b: &mut Narrowed,
    options: &DiffOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Vec<LeftOut>, Error> {
    in_snapshot(a, |a| in_snapshot(b, |b| in_snapshots(a, b, options, sink)))
}

fn run(connection: &mut Narrowed, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    Ok(connection.execute(&mut statement)?)
}

/// Runs `work` within a transaction for reading: the open one, or one of its own.
fn in_snapshot<T>(
    connection: &mut Narrowed,
    work: impl FnOnce(&mut Narrowed) -> Result<T, Error>,
) -> Result<T, Error> {
    if connection.in_transaction() {
        return work(connection);
    }
    run(connection, "BEGIN")?;
    let done = work(connection);
    let ended = run(connection, "ROLLBACK");
    let done = done?;
    ended?;
    Ok(done)
}

/// A part of a table's rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// Rows with a whole key, in the order of the key.
    Keyed,
    /// Rows with NULL in their key.
    Unkeyed,
}

/// The query of some rows: the rowid, where one is visible, and the columns of the shape.
fn sql(shape: &Shape, part: Part) -> String {
    let columns = shape.columns.iter().enumerate();
    let columns = columns.filter(|(place, _)| *place > 0 || shape.identity != Identity::Rowid);
    let columns: Vec<String> = columns.map(|(_, name)| quoted(name)).collect();
    let rowid = match shape.identity {
        // The names of the rowid may all be taken, where a column of a visible name is the rowid.
        Identity::RowidColumn => {
            shape.head.key_columns().next().map(|it| quoted(&shape.columns[it]))
        }
        _ => shape.rowid_name.map(str::to_owned),
    };
    let rowid = rowid.unwrap_or_else(|| "NULL".to_owned());
    let keys: Vec<String> = shape.head.key_columns().map(|it| quoted(&shape.columns[it])).collect();
    let null = |join: &str, test: &str| {
        let tests: Vec<String> = keys.iter().map(|key| format!("{key} {test}")).collect();
        tests.join(join)
    };
    let by_key = || {
        // The key's columns in the key's order, which is not that of the table.
        let mut places: Vec<(u8, usize)> =
            shape.head.key_columns().map(|it| (shape.head.keys[it], it)).collect();
        places.sort_unstable();
        let key =
            |(_, place): &(u8, usize)| format!("{} COLLATE BINARY", quoted(&shape.columns[*place]));
        places.iter().map(key).collect::<Vec<_>>().join(", ")
    };
    let (filter, order) = match part {
        Part::All => (String::new(), rowid.clone()),
        Part::Keyed => (format!(" WHERE {}", null(" AND ", "IS NOT NULL")), by_key()),
        Part::Unkeyed => (format!(" WHERE {}", null(" OR ", "IS NULL")), rowid.clone()),
    };
    let (list, table) = (columns.join(", "), quoted(&shape.head.table));
    format!("SELECT {rowid}, {list} FROM {table}{filter} ORDER BY {order}")
}

/// The rows of a query on their way.
struct Queried<'q> {
    rows: shoal_sql::Rows<'q>,
    /// The row: its rowid, and the columns.
    row: Option<Vec<Value>>,
    /// The places of the values that order the rows.
    by: Vec<usize>,
    table: &'q str,
    /// True where the rowid is a column of the shape.
    tells_rowid: bool,
}

impl<'q> Queried<'q> {
    fn begin(
        connection: &'q mut Narrowed,
        statement: &'q mut Statement,
        (shape, part): (&'q Shape, Part),
    ) -> Result<Queried<'q>, Error> {
        let mut keys: Vec<(u8, usize)> =
            shape.head.key_columns().map(|it| (shape.head.keys[it], it + 1)).collect();
        keys.sort_unstable();
        let by = match part {
            Part::Keyed => keys.into_iter().map(|(_, place)| place).collect(),
            Part::All | Part::Unkeyed => vec![0],
        };
        let rows = connection.query(statement)?;
        let tells_rowid = shape.identity == Identity::Rowid;
        Ok(Queried { rows, row: None, by, table: &shape.head.table, tells_rowid })
    }

    fn order(&self, a: &[Value], b: &[Value]) -> Ordering {
        let orders = self.by.iter().map(|place| a[*place].compare(&b[*place]));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl Rows for Queried<'_> {
    fn next(&mut self) -> Result<bool, Error> {
        let next: Option<Vec<Value>> =
            self.rows.next()?.map(|row| row.values().map(Value::from).collect());
        if let (Some(before), Some(next)) = (&self.row, &next)
            && self.order(before, next).is_gt()
        {
            let why =
                "has texts in its key, in the order of UTF-16: it is not compared under rules";
            return Err(Error::Table { table: self.table.to_owned(), why });
        }
        self.row = next;
        Ok(self.row.is_some())
    }

    fn is_valid(&self) -> bool {
        self.row.is_some()
    }

    fn skip_equal(&mut self, _other: &mut Self) -> Result<bool, Error> {
        Ok(false)
    }

    fn compare(&mut self, other: &mut Self) -> Result<Ordering, Error> {
        Ok(match (&self.row, &other.row) {
            (Some(a), Some(b)) => self.order(a, b),
            _ => Ordering::Equal,
        })
    }

    fn is_equal(&mut self, _other: &mut Self) -> Result<bool, Error> {
        Ok(false)
    }

    fn read(&mut self, _shape: &Shape) -> Result<Row, Error> {
        let row = self.row.as_deref().unwrap_or_default();
        let rowid = match row.first() {
            Some(Value::Int(rowid)) => Some(*rowid),
            _ => None,
        };
        let from = usize::from(!self.tells_rowid).min(row.len());
        Ok(Row { rowid, values: row[from..].to_vec() })
    }
}

impl File for Narrowed {
    fn definitions(&mut self, is_left_out: &dyn Fn(&str) -> bool) -> Result<Definitions, Error> {
        let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'table'";
        let mut statement = self.prepare(sql)?;
        let mut rows = self.query(&mut statement)?;
        let mut objects = Vec::new();
        while let Some(row) = rows.next()? {
            let mut texts = row.values().map(|value| match Value::from(value) {
                Value::Text(text) => String::from_utf8_lossy(&text).into_owned(),
                _ => String::new(),
            });
            let mut next = || texts.next().unwrap_or_default();
            let object = Object { kind: next(), name: next(), table: next(), sql: next() };
            if !is_left_out(&object.table) {
                objects.push(object);
            }
        }
        Ok(Definitions { objects, ..Definitions::default() })
    }

    fn shape(&mut self, table: &str, by_place: bool) -> Result<Result<Shape, &'static str>, Error> {
        let Some(visible) = self.table(table)? else { return Ok(Err("cannot be read")) };
        if by_place && !visible.is_whole {
            let why = "a changeset names columns by their places, and holds values as they are \
                       stored: under rules it takes a table with all its columns visible, and none \
                       masked or generated";
            return Err(Error::Table { table: visible.name, why });
        }
        Ok(Shape::visible(&visible).ok_or("shows neither its rowid nor its primary key"))
    }

    fn all_rows(&mut self, shape: &Shape, emit: &mut Emit<'_>) -> Result<(), Error> {
        let is_keyed = matches!(shape.identity, Identity::Key | Identity::WithoutRowid);
        let parts: &[Part] = if is_keyed { &[Part::Keyed, Part::Unkeyed] } else { &[Part::All] };
        for part in parts {
            let mut statement = self.prepare(&sql(shape, *part))?;
            let mut rows = Queried::begin(self, &mut statement, (shape, *part))?;
            while rows.next()? {
                let Row { rowid, values } = rows.read(shape)?;
                emit(&RowDiff { shape, op: Op::Insert, rowid, old: &[], new: &values })?;
            }
        }
        Ok(())
    }

    fn rows(
        a: &mut Self,
        b: &mut Self,
        comparison: &Comparison<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<Option<&'static str>, Error> {
        let shape = comparison.shape;
        let mut tell = |part: Part| {
            let text = sql(shape, part);
            let (mut of_a, mut of_b) = (a.prepare(&text)?, b.prepare(&text)?);
            let mut left = Queried::begin(a, &mut of_a, (shape, part))?;
            let mut right = Queried::begin(b, &mut of_b, (shape, part))?;
            if part == Part::Unkeyed && shape.rowid_name.is_none() {
                return Ok(left.next()? || right.next()?);
            }
            comparison.tell(&mut left, &mut right, None, emit).map(|()| false)
        };
        match shape.identity {
            Identity::RowidColumn | Identity::Rowid => tell(Part::All).map(|_| None),
            Identity::Key | Identity::WithoutRowid => {
                tell(Part::Keyed)?;
                let why = "has rows with NULL in the key: no visible rowid tells which they are";
                Ok(tell(Part::Unkeyed)?.then_some(why))
            }
        }
    }

    fn numbers(_a: &mut Self, _b: &mut Self) -> Result<Vec<SchemaChange>, Error> {
        Ok(Vec::new())
    }

    fn sequences(&mut self) -> Result<BTreeMap<String, i64>, Error> {
        Ok(BTreeMap::new())
    }
}
