//! Two descendants of one file made one, cell by cell.

use std::collections::HashMap;

use shoal_sql::{Connection, ConstraintKind, Error as SqlError, Value};
use shoal_store::Mode;

use crate::Error;
use crate::apply::{Done, Target, run};
use crate::changeset::{Change, Form, Op};
use crate::diff::{DiffOptions, all_rows, diff, in_snapshot, shape_of};
use crate::literal::{literal, quoted};
use crate::schema::{Definitions, Object, SchemaChange};
use crate::shape::{Identity, Shape, whole};
use crate::sink::{Counts, RowDiff, Sink, Summary};

/// The table of conflicts in a merged file.
const CONFLICTS: &str = "merge_conflict";

/// The extent of a merge.
#[derive(Default)]
pub struct MergeOptions<'o> {
    /// Takes their value where both sides changed a cell; else ours stays. Rows deleted on one
    /// side and changed on the other stay as they are in ours.
    pub prefers_theirs: bool,
    /// Tables merged by someone else, with their indexes and triggers.
    pub is_left_out: Option<&'o dyn Fn(&str) -> bool>,
}

/// A place where both sides want different things.
#[derive(Clone, Debug, PartialEq)]
pub struct CellConflict {
    /// The table, or the object whose definition both changed.
    pub table: String,
    /// `cell`, `insert`, `delete`, `update`, `constraint`, `key` or `definition`; `delete` is a
    /// deletion of theirs against a change of ours, `update` the reverse.
    pub kind: &'static str,
    /// The row, as a condition in SQL.
    pub row: String,
    /// The column; `None` for a whole row or a definition.
    pub column: Option<String>,
    /// The values in the ancestor, here and there; NULL where there is none.
    pub values: [Value; 3],
}

/// The outcome of a merge.
#[derive(Debug, Default)]
pub struct Merged {
    /// Rows of ours changed.
    pub counts: Counts,
    /// Objects of the schema taken from theirs.
    pub objects: u64,
    /// The conflicts, also in the table `merge_conflict` of the merged file.
    pub conflicts: Vec<CellConflict>,
    /// Tables whose rows were not merged, and the reason.
    pub left_out: Vec<(String, &'static str)>,
}

/// Brings the changes from `base` to `theirs` into `ours`, in one transaction. Rows are matched as
/// in [`diff`](crate::diff); triggers of ours do not run, and foreign keys, where enforced, are
/// checked behind the last change.
///
/// A cell changed on one side takes the changed value, a cell changed differently on both is a
/// conflict. With conflicts, the merged file gets a table `merge_conflict(id, tbl, kind, row, col,
/// base, ours, theirs)`; without, an older one is dropped.
///
/// # Errors
/// [`Error::Sql`], [`Error::ForeignKeys`]; ours is as before then.
pub fn merge(
    base: &mut Connection,
    ours: &mut Connection,
    theirs: &mut Connection,
    options: &MergeOptions<'_>,
) -> Result<Merged, Error> {
    in_snapshot(base, |base| {
        in_snapshot(theirs, |theirs| {
            ours.begin(Mode::Write)?;
            ours.silence_triggers(true);
            let done = run(ours, "PRAGMA defer_foreign_keys=ON").map_err(Error::from);
            let done = done.and_then(|()| {
                let prefers_theirs = options.prefers_theirs;
                let mut merging = Merging { ours, prefers_theirs, merged: Merged::default() };
                merging.all(base, theirs, options)?;
                Ok(merging.merged)
            });
            ours.silence_triggers(false);
            let done = done.and_then(|merged| {
                ours.commit().map_err(|error| match error {
                    SqlError::Constraint { constraint: ConstraintKind::ForeignKey, .. } => {
                        Error::ForeignKeys
                    }
                    error => error.into(),
                })?;
                Ok(merged)
            });
            if done.is_err() && ours.in_transaction() {
                ours.rollback()?;
            }
            done
        })
    })
}

/// A row changed from the ancestor to theirs.
struct TheirRow {
    shape: Shape,
    op: Op,
    old: Vec<Value>,
    new: Vec<Value>,
    has_no_key: bool,
}

impl From<&RowDiff<'_>> for TheirRow {
    fn from(row: &RowDiff<'_>) -> TheirRow {
        TheirRow {
            shape: row.shape.clone(),
            op: row.op,
            old: row.old.to_vec(),
            new: row.new.to_vec(),
            has_no_key: row.is_by_rowid() && row.shape.identity != Identity::Rowid,
        }
    }
}

/// Keeps the rows of a comparison.
#[derive(Default)]
struct Rows(Vec<TheirRow>);

impl Sink for Rows {
    fn takes_definitions(&self) -> bool {
        false
    }

    fn schema(&mut self, _change: &SchemaChange) -> Result<(), Error> {
        Ok(())
    }

    fn row(&mut self, row: &RowDiff<'_>) -> Result<(), Error> {
        self.0.push(row.into());
        Ok(())
    }
}

struct Merging<'a> {
    ours: &'a mut Connection,
    prefers_theirs: bool,
    merged: Merged,
}

impl Merging<'_> {
    fn all(
        &mut self,
        base: &mut Connection,
        theirs: &mut Connection,
        options: &MergeOptions<'_>,
    ) -> Result<(), Error> {
        let left_out = |table: &str| {
            table.eq_ignore_ascii_case(CONFLICTS) || options.is_left_out.is_some_and(|is| is(table))
        };
        let old = Definitions::read(base, &left_out)?;
        let here = Definitions::read(self.ours, &left_out)?;
        let there = Definitions::read(theirs, &left_out)?;
        let mut rows = Rows::default();
        let mut after = Vec::new();
        // Triggers, views and indexes go before tables do, and come after them.
        for kind in ["trigger", "view", "index", "table"] {
            for object in here.of_kind(kind) {
                let gone = there.find(kind, &object.name).is_none();
                let same = old.find(kind, &object.name).is_some_and(|it| it.sql == object.sql);
                let known = old.find(kind, &object.name).is_some();
                if !gone || !known || here.is_shadow(&object.name) {
                    continue;
                }
                if !same || !self.is_unchanged(base, object, &left_out)? {
                    self.definition(object, old.find(kind, &object.name), None);
                    continue;
                }
                run(self.ours, &format!("DROP {kind} {}", quoted(&object.name)))?;
                self.merged.objects += 1;
            }
        }
        for kind in ["table", "index", "view", "trigger"] {
            for object in there.of_kind(kind).filter(|object| !there.is_shadow(&object.name)) {
                let before = old.find(kind, &object.name);
                if before.is_some_and(|before| before.sql == object.sql) {
                    continue;
                }
                match here.find(kind, &object.name) {
                    Some(ours) if ours.sql == object.sql => {}
                    Some(ours) => {
                        let unchanged = before.is_some_and(|before| before.sql == ours.sql)
                            && self.is_unchanged(base, ours, &left_out)?;
                        if !unchanged {
                            self.definition(ours, before, Some(object));
                            continue;
                        }
                        run(self.ours, &format!("DROP {kind} {}", quoted(&object.name)))?;
                        self.make(object, &mut after)?;
                    }
                    None if before.is_some() => self.definition(object, before, Some(object)),
                    None => self.make(object, &mut after)?,
                }
            }
        }
        self.rows_of_new_tables(theirs, [&old, &here, &there], &mut rows)?;
        let compared = DiffOptions { is_left_out: Some(&left_out), ..DiffOptions::default() };
        for table in diff(base, theirs, &compared, &mut rows)? {
            let is_known = old.find("table", &table.table).is_some();
            if table.why == "is a virtual table" && is_known {
                self.merged.left_out.push((table.table, table.why));
            }
        }
        self.rows(rows.0)?;
        for sql in after {
            run(self.ours, &sql)?;
        }
        self.write_conflicts()
    }

    /// Rows of tables missing from the ancestor, or defined otherwise there, where ours has the
    /// definition of theirs by now.
    fn rows_of_new_tables(
        &mut self,
        theirs: &mut Connection,
        [old, here, there]: [&Definitions; 3],
        rows: &mut Rows,
    ) -> Result<(), Error> {
        for object in there.of_kind("table") {
            if there.is_shadow(&object.name) {
                continue;
            }
            let before = old.find("table", &object.name);
            if before.is_some_and(|before| before.sql == object.sql) {
                continue;
            }
            if object.is_virtual() {
                self.merged.left_out.push((object.name.clone(), "is a virtual table"));
                continue;
            }
            let is_made = self.ours.schema()?.table(&object.name).is_some()
                && here.find("table", &object.name).is_none_or(|ours| {
                    ours.sql == object.sql || before.is_some_and(|before| before.sql == ours.sql)
                });
            if is_made && shape_of(self.ours, &object.name)? == shape_of(theirs, &object.name)? {
                let shape = shape_of(theirs, &object.name)?;
                all_rows(theirs, &shape, &mut |row| rows.row(row))?;
            }
        }
        Ok(())
    }

    /// Makes an object of theirs: tables now, the rest behind all rows.
    fn make(&mut self, object: &Object, after: &mut Vec<String>) -> Result<(), Error> {
        self.merged.objects += 1;
        match object.kind.as_str() {
            "table" => Ok(run(self.ours, &object.sql)?),
            _ => {
                after.push(object.sql.clone());
                Ok(())
            }
        }
    }

    /// True where ours has the ancestor's rows in a table; other objects have none.
    fn is_unchanged(
        &mut self,
        base: &mut Connection,
        object: &Object,
        left_out: &dyn Fn(&str) -> bool,
    ) -> Result<bool, Error> {
        if object.kind != "table" || object.is_virtual() {
            return Ok(true);
        }
        let tables = vec![object.name.clone()];
        let skips_definitions = true;
        let is_left_out = Some(left_out);
        let options =
            DiffOptions { tables, skips_definitions, is_left_out, ..DiffOptions::default() };
        let mut summary = Summary::default();
        diff(base, self.ours, &options, &mut summary)?;
        Ok(summary.tables.is_empty())
    }

    fn definition(&mut self, ours: &Object, base: Option<&Object>, theirs: Option<&Object>) {
        let sql = |object: Option<&Object>| {
            object.map_or(Value::Null, |object| Value::text(object.sql.as_str()))
        };
        let is_theirs = theirs.is_some_and(|theirs| theirs == ours);
        let ours_sql = if is_theirs { Value::Null } else { sql(Some(ours)) };
        self.merged.conflicts.push(CellConflict {
            table: ours.name.clone(),
            kind: "definition",
            row: String::new(),
            column: None,
            values: [sql(base), ours_sql, sql(theirs)],
        });
    }

    /// Brings rows of theirs in; rows refused by a constraint are tried again behind the others.
    fn rows(&mut self, mut rows: Vec<TheirRow>) -> Result<(), Error> {
        let mut targets: HashMap<String, Option<Target>> = HashMap::new();
        let mut may_delay = true;
        while !rows.is_empty() {
            let before = rows.len();
            let mut delayed = Vec::new();
            for row in rows {
                let table = &row.shape.head.table;
                if !targets.contains_key(table) {
                    let found = self.target(&row.shape)?;
                    targets.insert(table.clone(), found);
                }
                let Some(Some(target)) = targets.get_mut(table) else { continue };
                if !self.row(target, &row, may_delay)? {
                    delayed.push(row);
                }
            }
            may_delay = delayed.len() < before;
            rows = delayed;
        }
        Ok(())
    }

    fn target(&mut self, shape: &Shape) -> Result<Option<Target>, Error> {
        let table = &shape.head.table;
        let exists = self.ours.schema()?.table(table).is_some();
        if !exists || shape_of(self.ours, table)? != *shape {
            let why = "is not in ours, or has other columns there";
            self.merged.left_out.push((table.clone(), why));
            return Ok(None);
        }
        match Target::find(self.ours, &shape.head)? {
            Ok(target) => Ok(Some(target)),
            Err(why) => {
                self.merged.left_out.push((table.clone(), why));
                Ok(None)
            }
        }
    }

    /// Merges one row; false for a row to be tried again.
    fn row(&mut self, target: &mut Target, row: &TheirRow, may_delay: bool) -> Result<bool, Error> {
        if row.has_no_key {
            self.whole_row(row, "key");
            return Ok(true);
        }
        let (old, new) = (whole(&row.old), whole(&row.new));
        let head = &row.shape.head;
        let (form, indirect) = (Form::Changeset, false);
        let change = Change { head, form, op: row.op, indirect, old: &old, new: &new };
        let present = target.present(self.ours, &change)?;
        let done = match (row.op, present) {
            (Op::Insert, Some(ours)) if ours == row.new => return Ok(true),
            // Rowids without a name are given anew: two rows at one rowid are two rows.
            (Op::Insert, Some(_)) if row.shape.identity == Identity::Rowid => {
                let mut new = new.clone();
                new[0] = Some(shoal_sql::ValueRef::Null);
                target.apply(self.ours, &Change { new: &new, ..change }, true)?
            }
            (Op::Insert, None) => target.apply(self.ours, &change, true)?,
            (Op::Insert, Some(ours)) => {
                return self.cells(target, row, &[], &ours, "insert", may_delay);
            }
            (Op::Delete, None) => return Ok(true),
            (Op::Delete, Some(ours)) if ours == row.old => {
                target.apply(self.ours, &change, true)?
            }
            (Op::Delete, Some(ours)) => {
                self.changed_cells(row, &row.old, &ours, "delete");
                return Ok(true);
            }
            (Op::Update, None) => {
                self.changed_cells(row, &row.old, &row.new, "update");
                return Ok(true);
            }
            (Op::Update, Some(ours)) => {
                return self.cells(target, row, &row.old, &ours, "cell", may_delay);
            }
        };
        self.finish(row, done, may_delay)
    }

    /// Merges the cells of a row present on both sides; `base` is empty for a row of both sides'.
    fn cells(
        &mut self,
        target: &mut Target,
        row: &TheirRow,
        base: &[Value],
        ours: &[Value],
        kind: &'static str,
        may_delay: bool,
    ) -> Result<bool, Error> {
        let head = &row.shape.head;
        let mut new = vec![None; ours.len()];
        let mut conflicts = Vec::new();
        for column in (0..ours.len()).filter(|column| !head.is_key(*column)) {
            let (here, there) = (&ours[column], &row.new[column]);
            if here == there || base.get(column) == Some(there) {
                continue;
            }
            let is_conflict = base.get(column) != Some(here);
            if is_conflict {
                let base = base.get(column).cloned().unwrap_or_default();
                conflicts.push((column, [base, here.clone(), there.clone()]));
            }
            if !is_conflict || self.prefers_theirs {
                new[column] = Some(there.as_ref());
            }
        }
        let is_changed = new.iter().any(Option::is_some);
        let old = whole(ours);
        let (form, indirect, op) = (Form::Changeset, false, Op::Update);
        let change = Change { head, form, op, indirect, old: &old, new: &new };
        let done = match is_changed {
            true => target.apply(self.ours, &change, true)?,
            false => Done::NoRow,
        };
        if done == Done::Constraint && may_delay {
            return Ok(false);
        }
        for (column, values) in conflicts {
            self.conflict(row, kind, Some(column), values);
        }
        match done {
            Done::Changed => self.merged.counts.count(Op::Update),
            Done::Constraint => self.changed_cells(row, ours, &row.new, "constraint"),
            Done::NoRow => {}
        }
        Ok(true)
    }

    fn finish(&mut self, row: &TheirRow, done: Done, may_delay: bool) -> Result<bool, Error> {
        match done {
            Done::Constraint if may_delay => return Ok(false),
            Done::Constraint => self.whole_row(row, "constraint"),
            Done::Changed | Done::NoRow => self.merged.counts.count(row.op),
        }
        Ok(true)
    }

    /// A conflict for each column with different values in two states of a row.
    fn changed_cells(&mut self, row: &TheirRow, a: &[Value], b: &[Value], kind: &'static str) {
        for column in (0..a.len()).filter(|column| a[*column] != b[*column]) {
            let base = row.old.get(column).cloned().unwrap_or_default();
            let values = match kind {
                "delete" => [base, b[column].clone(), Value::Null],
                "constraint" => [base, a[column].clone(), b[column].clone()],
                _ => [base, Value::Null, b[column].clone()],
            };
            self.conflict(row, kind, Some(column), values);
        }
    }

    fn whole_row(&mut self, row: &TheirRow, kind: &'static str) {
        self.conflict(row, kind, None, [Value::Null, Value::Null, Value::Null]);
    }

    fn conflict(
        &mut self,
        row: &TheirRow,
        kind: &'static str,
        column: Option<usize>,
        values: [Value; 3],
    ) {
        let values_of_row = if row.op == Op::Insert { &row.new } else { &row.old };
        let mut condition = Vec::new();
        for key in row.shape.head.key_columns() {
            let before = if condition.is_empty() { "" } else { " AND " };
            condition.extend(format!("{before}{} IS ", quoted(&row.shape.columns[key])).bytes());
            literal(&mut condition, &values_of_row[key].as_ref()).expect("memory takes any bytes");
        }
        self.merged.conflicts.push(CellConflict {
            table: row.shape.head.table.clone(),
            kind,
            row: String::from_utf8_lossy(&condition).into_owned(),
            column: column.map(|column| row.shape.columns[column].clone()),
            values,
        });
    }

    fn write_conflicts(&mut self) -> Result<(), Error> {
        run(self.ours, &format!("DROP TABLE IF EXISTS {CONFLICTS}"))?;
        if self.merged.conflicts.is_empty() {
            return Ok(());
        }
        let columns = "(id INTEGER PRIMARY KEY, tbl TEXT, kind TEXT, row TEXT, col TEXT, \
                       base, ours, theirs)";
        run(self.ours, &format!("CREATE TABLE {CONFLICTS}{columns}"))?;
        let sql = format!("INSERT INTO {CONFLICTS} VALUES(NULL,?,?,?,?,?,?,?)");
        let mut insert = self.ours.prepare(&sql)?;
        for conflict in &self.merged.conflicts {
            let texts = [conflict.table.as_str(), conflict.kind, conflict.row.as_str()];
            for (place, text) in texts.into_iter().enumerate() {
                insert.bind(place + 1, Value::text(text))?;
            }
            let column = conflict.column.as_deref().map_or(Value::Null, Value::text);
            insert.bind(4, column)?;
            for (place, value) in conflict.values.iter().enumerate() {
                insert.bind(place + 5, value.clone())?;
            }
            self.ours.execute(&mut insert)?;
        }
        Ok(())
    }
}
