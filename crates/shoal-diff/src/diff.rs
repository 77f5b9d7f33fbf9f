//! Two whole files compared.

use std::collections::{BTreeMap, BTreeSet};

use shoal_sql::{Connection, Value};
use shoal_store::Mode;

use crate::Error;
use crate::changeset::Op;
use crate::compare::{Comparison, Emit};
use crate::schema::{Definitions, Object, SchemaChange, Steps, numbers, query, sequences, steps};
use crate::shape::{Identity, Shape};
use crate::sink::{RowDiff, Sink};

/// The extent of a comparison.
#[derive(Default)]
pub struct DiffOptions<'o> {
    /// These tables alone; all where empty.
    pub tables: Vec<String>,
    /// Leaves rows out: definitions alone are compared.
    pub skips_rows: bool,
    /// Leaves definitions out: rows of tables in both files alone are compared.
    pub skips_definitions: bool,
    /// Tables kept by someone else, with their indexes and triggers: neither compared nor named.
    pub is_left_out: Option<&'o dyn Fn(&str) -> bool>,
}

/// A table whose rows were not compared, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The table.
    pub table: String,
    /// The reason, as the end of a sentence about the table.
    pub why: &'static str,
}

/// Tells `sink` of every change from the content of the file of `a` to the content of `b`'s.
/// Both are read in one snapshot each.
///
/// Rows are the same by their rowid or their primary key ([`Identity`]); values by type and bytes.
/// Rowids without a name in a table with another primary key are not compared.
///
/// # Errors
/// [`Error::Sql`] when a file cannot be read, [`Error::Io`] of the sink; [`Error::Table`] for a
/// table without rowids in files of two text encodings.
pub fn diff(
    a: &mut Connection,
    b: &mut Connection,
    options: &DiffOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Vec<LeftOut>, Error> {
    in_snapshot(a, |a| in_snapshot(b, |b| in_snapshots(a, b, options, sink)))
}

/// A file as a comparison reads one.
pub(crate) trait File: Sized {
    /// The definitions, without SQLite's own tables and the tables named by `is_left_out`.
    fn definitions(&mut self, is_left_out: &dyn Fn(&str) -> bool) -> Result<Definitions, Error>;

    /// The shape of a table; or why its rows are not compared, as the end of a sentence about the
    /// table.
    ///
    /// # Errors
    /// [`Error::Table`] for a table that differences of the kind wanted cannot tell of.
    fn shape(&mut self, table: &str, by_place: bool) -> Result<Result<Shape, &'static str>, Error>;

    /// Every row of a table as an insertion.
    fn all_rows(&mut self, shape: &Shape, emit: &mut Emit<'_>) -> Result<(), Error>;

    /// Tells of the differing rows of a table; gives the end of a sentence about rows of the table
    /// that were not compared, where there are some.
    fn rows(
        a: &mut Self,
        b: &mut Self,
        comparison: &Comparison<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<Option<&'static str>, Error>;

    /// The header's numbers with another value in the second file.
    fn numbers(a: &mut Self, b: &mut Self) -> Result<Vec<SchemaChange>, Error>;

    /// The counters of `AUTOINCREMENT` by table.
    fn sequences(&mut self) -> Result<BTreeMap<String, i64>, Error>;
}

impl File for Connection {
    fn definitions(&mut self, is_left_out: &dyn Fn(&str) -> bool) -> Result<Definitions, Error> {
        Definitions::read(self, is_left_out)
    }

    fn shape(
        &mut self,
        table: &str,
        _by_place: bool,
    ) -> Result<Result<Shape, &'static str>, Error> {
        shape_of(self, table).map(Ok)
    }

    fn all_rows(&mut self, shape: &Shape, emit: &mut Emit<'_>) -> Result<(), Error> {
        all_rows(self, shape, emit)
    }

    fn rows(
        a: &mut Self,
        b: &mut Self,
        comparison: &Comparison<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<Option<&'static str>, Error> {
        let shape = comparison.shape;
        if shape.identity == Identity::WithoutRowid && encoding(a)? != encoding(b)? {
            let why = "has no rowids, and the files have different text encodings";
            return Err(Error::Table { table: shape.head.table.clone(), why });
        }
        comparison.run(a, b, emit).map(|()| None)
    }

    fn numbers(a: &mut Self, b: &mut Self) -> Result<Vec<SchemaChange>, Error> {
        numbers(a, b)
    }

    fn sequences(&mut self) -> Result<BTreeMap<String, i64>, Error> {
        sequences(self)
    }
}

/// Runs `work` within a transaction for reading: the open one, or one of its own.
pub(crate) fn in_snapshot<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    if connection.in_transaction() {
        return work(connection);
    }
    connection.begin(Mode::Read)?;
    let done = work(connection);
    let ended = connection.rollback();
    let done = done?;
    ended?;
    Ok(done)
}

pub(crate) fn in_snapshots<F: File>(
    a: &mut F,
    b: &mut F,
    options: &DiffOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Vec<LeftOut>, Error> {
    let wanted = |table: &str| {
        let is = |wanted: &String| wanted.eq_ignore_ascii_case(table);
        options.tables.is_empty() || options.tables.iter().any(is)
    };
    let is_left_out =
        |table: &str| !wanted(table) || options.is_left_out.is_some_and(|is| is(table));
    let old = a.definitions(&is_left_out)?;
    let new = b.definitions(&is_left_out)?;
    for table in &options.tables {
        if old.find("table", table).is_none() && new.find("table", table).is_none() {
            return Err(Error::Table { table: table.clone(), why: "is in neither file" });
        }
    }
    let takes_definitions = sink.takes_definitions() && !options.skips_definitions;
    let steps = steps(&old, &new);
    let mut rows = RowsOf { old, new, steps, takes_definitions, ..RowsOf::default() };
    if takes_definitions {
        rows.steps.before.iter().try_for_each(|step| sink.schema(step))?;
    }
    if !options.skips_rows {
        rows.compare(a, b, sink)?;
    }
    if takes_definitions {
        rows.steps.after.iter().try_for_each(|step| sink.schema(step))?;
    }
    rows.silenced.iter().try_for_each(|step| sink.schema(step))?;
    if takes_definitions && options.tables.is_empty() {
        F::numbers(a, b)?.iter().try_for_each(|step| sink.schema(step))?;
    }
    if !options.skips_rows {
        rows.compare_sequences(a, b, sink)?;
    }
    Ok(rows.left_out)
}

/// The tables of both files while their rows are compared.
#[derive(Default)]
struct RowsOf {
    old: Definitions,
    new: Definitions,
    steps: Steps,
    takes_definitions: bool,
    left_out: Vec<LeftOut>,
    /// Tables with a row told of.
    touched: BTreeSet<String>,
    /// Definitions of triggers dropped for the time rows change.
    silenced: Vec<SchemaChange>,
}

impl RowsOf {
    fn compare<F: File>(&mut self, a: &mut F, b: &mut F, sink: &mut dyn Sink) -> Result<(), Error> {
        let tables: Vec<Object> = self.new.tables().cloned().collect();
        for object in &tables {
            if self.new.is_shadow(&object.name) || self.old.is_shadow(&object.name) {
                continue;
            }
            if object.is_virtual() {
                self.leave_out(&object.name, "is a virtual table");
                continue;
            }
            self.compare_table(a, b, &object.name, sink)?;
        }
        if !self.takes_definitions {
            let gone: Vec<String> = self.old.tables().map(|object| object.name.clone()).collect();
            for table in gone {
                if self.new.find("table", &table).is_none() && !self.old.is_shadow(&table) {
                    self.leave_out(&table, "is not in the second file");
                }
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, table: &str, why: &'static str) {
        self.left_out.push(LeftOut { table: table.to_owned(), why });
    }

    fn compare_table<F: File>(
        &mut self,
        a: &mut F,
        b: &mut F,
        table: &str,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let is_made = self.steps.made.contains(&table.to_ascii_lowercase());
        let by_place = sink.is_by_place();
        let shape = match b.shape(table, by_place)? {
            Ok(shape) => shape,
            Err(why) => {
                self.leave_out(table, why);
                return Ok(());
            }
        };
        let in_stages = sink.is_script();
        if in_stages && shape.identity == Identity::Rowid && shape.rowid_name.is_none() {
            self.leave_out(table, "has no primary key, and its columns hide the rowid");
            return Ok(());
        }
        let mut emit = |row: &RowDiff<'_>| {
            if self.touched.insert(table.to_owned()) && sink.is_script() {
                silence(&self.new, &self.steps, table, sink, &mut self.silenced)?;
            }
            sink.row(row)
        };
        if is_made && self.takes_definitions {
            return b.all_rows(&shape, &mut emit);
        }
        if is_made {
            if self.old.find("table", table).is_none() {
                self.leave_out(table, "is not in the first file");
                return Ok(());
            }
            // Rows of another definition compare where columns and key are the same.
            if a.shape(table, by_place)? != Ok(shape.clone())
                || shape.identity == Identity::WithoutRowid
            {
                self.leave_out(table, "has another definition in the first file");
                return Ok(());
            }
        }
        let has_same_definition = !is_made;
        let comparison = Comparison { shape: &shape, has_same_definition, in_stages };
        if let Some(why) = F::rows(a, b, &comparison, &mut emit)? {
            self.leave_out(table, why);
        }
        Ok(())
    }

    /// Counters of `AUTOINCREMENT`: different ones, and in scripts the ones moved by rows of the
    /// script.
    fn compare_sequences<F: File>(
        &self,
        a: &mut F,
        b: &mut F,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let (before, after) = (a.sequences()?, b.sequences()?);
        for table in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let value = after.get(table).copied();
            let is_made = self.steps.made.contains(&table.to_ascii_lowercase());
            let moves = sink.is_script() && (is_made || self.touched.contains(table));
            let differs = before.get(table).copied() != value;
            if (differs || moves) && self.new.find("table", table).is_some() {
                sink.schema(&SchemaChange::Sequence { table: table.clone(), value })?;
            }
        }
        Ok(())
    }
}

/// Drops the triggers of a table for the rest of a script, unless the script makes them anyway.
fn silence(
    new: &Definitions,
    steps: &Steps,
    table: &str,
    sink: &mut dyn Sink,
    silenced: &mut Vec<SchemaChange>,
) -> Result<(), Error> {
    let is_of = |it: &&Object| it.kind == "trigger" && it.table.eq_ignore_ascii_case(table);
    for trigger in new.objects.iter().filter(is_of) {
        let create = trigger.create();
        if !steps.after.contains(&create) {
            sink.schema(&trigger.drop())?;
            silenced.push(create);
        }
    }
    Ok(())
}

/// Every row of a table as an insertion.
pub(crate) fn all_rows(
    b: &mut Connection,
    shape: &Shape,
    emit: &mut dyn FnMut(&RowDiff<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut walk = b.row_walk(&shape.head.table)?;
    while walk.next()? {
        let new = shape.read(&mut walk)?;
        let rowid = walk.rowid()?;
        emit(&RowDiff { shape, op: Op::Insert, rowid, old: &[], new: &new })?;
    }
    Ok(())
}

pub(crate) fn shape_of(connection: &mut Connection, table: &str) -> Result<Shape, Error> {
    Ok(Shape::of(connection.row_walk(table)?.table()))
}

fn encoding(connection: &mut Connection) -> Result<Vec<Vec<Value>>, Error> {
    query(connection, "PRAGMA encoding")
}
