//! A table from its `CREATE TABLE`: rowid alias, keys, and each column's place in the record.

use shoal_store::Pgno;

use super::stats::TreeStats;
use super::{
    Check, Column, ForeignKey, Generated, Index, IndexColumn, IndexOrigin, IndexSource, KeyPart,
    Table, Triggers,
};
use crate::parse::ast::{
    self, ColumnConstraint, ColumnDef, Conflict, CreateIndex, Expr, ExprKind, OrderTerm,
    TableConstraint, UnaryOp,
};
use crate::value::{Affinity, Collation, Value};

/// A key demanded by the definition, perhaps with an index of its own.
#[derive(Debug)]
pub(crate) struct Constraint {
    pub(crate) parts: Vec<KeyPart>,
    pub(crate) origin: IndexOrigin,
    pub(crate) conflict: Option<Conflict>,
}

/// A table and the constraints of its automatic indexes, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) table: Table,
    pub(crate) constraints: Vec<Constraint>,
}

/// Builds a table from its definition.
///
/// # Errors
/// The fault of the definition, in SQLite's words.
pub(crate) fn build(
    name: &str,
    root: Pgno,
    columns: &[ColumnDef],
    constraints: &[TableConstraint],
    without_rowid: bool,
    strict: bool,
) -> Result<Built, String> {
    let mut builder = Builder {
        table: Table {
            name: name.to_owned(),
            database: super::MAIN,
            root,
            columns: Vec::with_capacity(columns.len()),
            rowid_alias: None,
            without_rowid,
            strict,
            autoincrement: false,
            indexes: Vec::new(),
            missing_index: None,
            own_index: None,
            primary_key: Vec::new(),
            key_conflict: None,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Triggers::default(),
            stored_columns: 0,
            stats: TreeStats::default(),
        },
        constraints: Vec::new(),
    };
    for column in columns {
        builder.column(column)?;
    }
    // A column's `COLLATE` may stand after its `UNIQUE`, so keys wait until columns are complete.
    for (index, column) in columns.iter().enumerate() {
        builder.column_keys(index, column)?;
    }
    for constraint in constraints {
        builder.table_constraint(constraint)?;
    }
    builder.finish()
}

const NO_EXPRESSIONS: &str = "expressions prohibited in PRIMARY KEY and UNIQUE constraints";

struct Builder {
    table: Table,
    constraints: Vec<Constraint>,
}

impl Builder {
    fn column(&mut self, def: &ColumnDef) -> Result<(), String> {
        let affinity = match def.type_name.to_ascii_uppercase().as_str() {
            "ANY" if self.table.strict => Affinity::Blob,
            _ => Affinity::of_declared_type(&def.type_name),
        };
        let mut column = Column {
            name: def.name.text.clone(),
            declared_type: standard_type(&def.type_name),
            affinity,
            collation: Ok(Collation::Binary),
            not_null: false,
            not_null_conflict: None,
            default: None,
            default_text: None,
            missing_value: Value::Null,
            generated: None,
            primary_key_place: 0,
            stored: None,
            hidden: false,
        };
        for constraint in &def.constraints {
            match constraint {
                ColumnConstraint::NotNull { conflict } => {
                    column.not_null = true;
                    column.not_null_conflict = *conflict;
                }
                ColumnConstraint::Collate(name) => column.collation = collation(&name.text),
                ColumnConstraint::Default { expr, text } => {
                    column.missing_value = affinity.apply(constant(expr));
                    column.default = Some(expr.clone());
                    column.default_text = Some(text.clone());
                }
                ColumnConstraint::Generated { expr, stored } => {
                    column.generated = Some(Generated { expr: expr.clone(), stored: *stored });
                }
                ColumnConstraint::Check { name, expr, text } => self.table.checks.push(Check {
                    label: name.as_ref().map_or_else(|| text.clone(), |name| name.text.clone()),
                    expr: expr.clone(),
                }),
                ColumnConstraint::ForeignKey(key) => {
                    let own = vec![self.table.columns.len()];
                    self.table.foreign_keys.push(foreign_key(own, key));
                }
                ColumnConstraint::Deferrable(deferred) => {
                    if let Some(key) = self.table.foreign_keys.last_mut() {
                        key.deferred = *deferred;
                    }
                }
                ColumnConstraint::PrimaryKey { .. }
                | ColumnConstraint::Unique { .. }
                | ColumnConstraint::Null => {}
            }
        }
        if self.table.column_index(&column.name).is_some() {
            return Err(format!("duplicate column name: {}", column.name));
        }
        self.table.columns.push(column);
        Ok(())
    }

    fn column_keys(&mut self, index: usize, def: &ColumnDef) -> Result<(), String> {
        for constraint in &def.constraints {
            match constraint {
                ColumnConstraint::PrimaryKey { descending, conflict, autoincrement } => {
                    let part = self.part(index, *descending);
                    // `INTEGER PRIMARY KEY DESC` is no alias: an old mistake kept for old files.
                    let alias = !descending;
                    self.primary_key(vec![part], alias, *conflict, *autoincrement)?;
                }
                ColumnConstraint::Unique { conflict } => {
                    let part = self.part(index, false);
                    self.add(vec![part], IndexOrigin::Unique, *conflict)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn table_constraint(&mut self, constraint: &TableConstraint) -> Result<(), String> {
        match constraint {
            TableConstraint::PrimaryKey { columns, conflict, autoincrement } => {
                let parts = self.parts(columns)?;
                self.primary_key(parts, true, *conflict, *autoincrement)?;
            }
            TableConstraint::Unique { columns, conflict } => {
                let parts = self.parts(columns)?;
                self.add(parts, IndexOrigin::Unique, *conflict)?;
            }
            TableConstraint::Check { name, expr, text } => self.table.checks.push(Check {
                label: name.as_ref().map_or_else(|| text.clone(), |name| name.text.clone()),
                expr: expr.clone(),
            }),
            TableConstraint::ForeignKey { columns, key } => {
                let mut own = Vec::with_capacity(columns.len());
                for column in columns {
                    own.push(self.table.column_index(&column.text).ok_or_else(|| {
                        format!("unknown column \"{}\" in foreign key definition", column.text)
                    })?);
                }
                self.table.foreign_keys.push(foreign_key(own, key));
            }
        }
        Ok(())
    }

    fn part(&self, column: usize, descending: bool) -> KeyPart {
        KeyPart { column, collation: self.table.columns[column].collation.clone(), descending }
    }

    fn parts(&self, terms: &[OrderTerm]) -> Result<Vec<KeyPart>, String> {
        terms
            .iter()
            .map(|term| {
                let (name, explicit) = column_of(&term.expr).ok_or(NO_EXPRESSIONS)?;
                let column = self.table.column_index(name).ok_or_else(|| {
                    match is_double_quoted(&term.expr) {
                        // Nothing but a text could be meant.
                        true => NO_EXPRESSIONS.to_owned(),
                        false => format!("no such column: {name}"),
                    }
                })?;
                let mut part = self.part(column, term.descending);
                if let Some(explicit) = explicit {
                    part.collation = collation(explicit);
                }
                Ok(part)
            })
            .collect()
    }

    fn primary_key(
        &mut self,
        parts: Vec<KeyPart>,
        may_alias: bool,
        conflict: Option<Conflict>,
        autoincrement: bool,
    ) -> Result<(), String> {
        if !self.table.primary_key.is_empty() {
            return Err(format!("table \"{}\" has more than one primary key", self.table.name));
        }
        for part in &parts {
            if self.table.columns[part.column].generated.is_some() {
                return Err("generated columns cannot be part of the PRIMARY KEY".to_owned());
            }
        }
        let alias = match parts.as_slice() {
            [only] if may_alias => {
                let declared = &self.table.columns[only.column].declared_type;
                declared.eq_ignore_ascii_case("integer").then_some(only.column)
            }
            _ => None,
        };
        if autoincrement && alias.is_none() {
            return Err("AUTOINCREMENT is only allowed on an INTEGER PRIMARY KEY".to_owned());
        }
        if autoincrement && self.table.without_rowid {
            return Err("AUTOINCREMENT not allowed on WITHOUT ROWID tables".to_owned());
        }
        self.table.autoincrement = autoincrement;
        for (place, part) in parts.iter().enumerate() {
            let column = &mut self.table.columns[part.column];
            if column.primary_key_place == 0 {
                column.primary_key_place = place + 1;
            }
        }
        self.table.primary_key.clone_from(&parts);
        if alias.is_some() || self.table.without_rowid {
            self.table.key_conflict = conflict;
        }
        if alias.is_some() {
            self.table.rowid_alias = alias.filter(|_| !self.table.without_rowid);
        } else {
            self.add(parts, IndexOrigin::PrimaryKey, conflict)?;
        }
        Ok(())
    }

    /// Notes a key unless an earlier one covers the same columns.
    fn add(
        &mut self,
        parts: Vec<KeyPart>,
        origin: IndexOrigin,
        conflict: Option<Conflict>,
    ) -> Result<(), String> {
        let same = |known: &Constraint| {
            known.parts.len() == parts.len()
                && known.parts.iter().zip(&parts).all(|(a, b)| {
                    a.column == b.column && same_collation(&a.collation, &b.collation)
                })
        };
        match self.constraints.iter_mut().find(|known| same(known)) {
            Some(known) => {
                if known.conflict.is_some() && conflict.is_some() && known.conflict != conflict {
                    return Err("conflicting ON CONFLICT clauses specified".to_owned());
                }
                if origin == IndexOrigin::PrimaryKey {
                    known.origin = origin;
                }
                known.conflict = known.conflict.or(conflict);
            }
            None => self.constraints.push(Constraint { parts, origin, conflict }),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Built, String> {
        if self.table.without_rowid {
            if self.table.primary_key.is_empty() {
                return Err(format!("PRIMARY KEY missing on table {}", self.table.name));
            }
            let integer_key =
                !self.constraints.iter().any(|key| key.origin == IndexOrigin::PrimaryKey);
            if integer_key {
                // Such a key has the collation of its column, whatever is written.
                let mut parts = self.table.primary_key.clone();
                for part in &mut parts {
                    part.collation = self.table.columns[part.column].collation.clone();
                }
                let conflict = self.table.key_conflict;
                self.add(parts, IndexOrigin::PrimaryKey, conflict)?;
            }
            let key = self.constraints.iter().find(|key| key.origin == IndexOrigin::PrimaryKey);
            let table = &mut self.table;
            // A UNIQUE of the key's columns that stands before it is the key, with its order.
            if let Some(key) = key {
                table.primary_key.clone_from(&key.parts);
                table.key_conflict = table.key_conflict.or(key.conflict);
            }
            // A column named twice in the key is stored once.
            let mut kept: Vec<KeyPart> = Vec::new();
            for part in std::mem::take(&mut table.primary_key) {
                let known = kept.iter().any(|known| {
                    known.column == part.column && same_collation(&known.collation, &part.collation)
                });
                if !known {
                    kept.push(part);
                }
            }
            table.primary_key = kept;
            let mut place = 0;
            for part in &table.primary_key {
                let column = &mut table.columns[part.column];
                column.not_null = true;
                column.stored.get_or_insert(place);
                place += 1;
            }
            for column in &mut table.columns {
                let virtual_column = column.generated.as_ref().is_some_and(|it| !it.stored);
                if column.stored.is_none() && !virtual_column {
                    column.stored = Some(place);
                    place += 1;
                }
            }
            table.stored_columns = place;
        } else {
            let table = &mut self.table;
            let mut place = 0;
            for column in &mut table.columns {
                if column.generated.as_ref().is_none_or(|generated| generated.stored) {
                    column.stored = Some(place);
                    place += 1;
                }
            }
            table.stored_columns = place;
        }
        let table = &mut self.table;
        if table.strict {
            for part in &table.primary_key {
                if table.rowid_alias.is_none() {
                    table.columns[part.column].not_null = true;
                }
            }
        }
        Ok(Built { table: self.table, constraints: self.constraints })
    }
}

impl Constraint {
    /// The constraint's index, once its b-tree is known.
    pub(crate) fn index(&self, name: &str, root: Pgno, table: &Table) -> Index {
        let columns = self
            .parts
            .iter()
            .map(|part| IndexColumn {
                source: IndexSource::Column(part.column),
                collation: part.collation.clone(),
                descending: part.descending,
            })
            .collect();
        with_suffix(
            Index {
                name: name.to_owned(),
                root,
                unique: true,
                origin: self.origin,
                conflict: self.conflict,
                columns,
                key_columns: self.parts.len(),
                filter: None,
                stats: TreeStats::default(),
            },
            table,
        )
    }
}

impl Constraint {
    /// A table without rowid as an index: the primary key, then all other stored columns.
    pub(crate) fn own_index(&self, name: &str, table: &Table) -> Index {
        let mut index = self.index(name, table.root, table);
        for (column, known) in table.columns.iter().enumerate() {
            let in_key = table.primary_key.iter().any(|part| part.column == column);
            if known.stored.is_some() && !in_key {
                index.columns.push(IndexColumn {
                    source: IndexSource::Column(column),
                    collation: known.collation.clone(),
                    descending: false,
                });
            }
        }
        index
    }
}

/// An index from its `CREATE INDEX`.
///
/// # Errors
/// The fault of the definition, in SQLite's words.
pub(crate) fn build_index(def: &CreateIndex, root: Pgno, table: &Table) -> Result<Index, String> {
    let mut columns = Vec::with_capacity(def.columns.len());
    for term in &def.columns {
        let (source, implied) = match column_of(&term.expr) {
            Some((name, _)) => match table.column_index(name) {
                Some(column) => {
                    (IndexSource::Column(column), table.columns[column].collation.clone())
                }
                None if is_double_quoted(&term.expr) => {
                    (IndexSource::Expr(term.expr.clone()), Ok(Collation::Binary))
                }
                None => return Err(format!("table {} has no column named {name}", table.name)),
            },
            None => (IndexSource::Expr(term.expr.clone()), Ok(Collation::Binary)),
        };
        let collation = match &term.expr.kind {
            ExprKind::Collate { collation: name, .. } => collation(&name.text),
            _ => implied,
        };
        columns.push(IndexColumn { source, collation, descending: term.descending });
    }
    let key_columns = columns.len();
    Ok(with_suffix(
        Index {
            name: def.name.name.text.clone(),
            root,
            unique: def.unique,
            origin: IndexOrigin::Create,
            conflict: None,
            columns,
            key_columns,
            filter: def.filter.clone(),
            stats: TreeStats::default(),
        },
        table,
    ))
}

/// Adds the columns making every entry unique: the rowid, or the primary key's columns missing so
/// far.
fn with_suffix(mut index: Index, table: &Table) -> Index {
    if table.without_rowid {
        for part in &table.primary_key {
            let known = index.columns.iter().any(|column| {
                matches!(column.source, IndexSource::Column(known) if known == part.column)
                    && same_collation(&column.collation, &part.collation)
            });
            if !known {
                index.columns.push(IndexColumn {
                    source: IndexSource::Column(part.column),
                    collation: part.collation.clone(),
                    descending: part.descending,
                });
            }
        }
    } else {
        index.columns.push(IndexColumn {
            source: IndexSource::Rowid,
            collation: Ok(Collation::Binary),
            descending: false,
        });
    }
    index
}

/// The table `sqlite_schema` itself.
pub(crate) fn schema_table() -> Table {
    let column = |name: &str, declared: &str, stored: usize| Column {
        name: name.to_owned(),
        declared_type: declared.to_owned(),
        affinity: Affinity::of_declared_type(declared),
        collation: Ok(Collation::Binary),
        not_null: false,
        not_null_conflict: None,
        default: None,
        default_text: None,
        missing_value: Value::Null,
        generated: None,
        primary_key_place: 0,
        stored: Some(stored),
        hidden: false,
    };
    Table {
        name: "sqlite_schema".to_owned(),
        database: super::MAIN,
        root: Pgno::FIRST,
        columns: vec![
            column("type", "TEXT", 0),
            column("name", "TEXT", 1),
            column("tbl_name", "TEXT", 2),
            column("rootpage", "INT", 3),
            column("sql", "TEXT", 4),
        ],
        rowid_alias: None,
        without_rowid: false,
        strict: false,
        autoincrement: false,
        indexes: Vec::new(),
        missing_index: None,
        own_index: None,
        primary_key: Vec::new(),
        key_conflict: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Triggers::default(),
        stored_columns: 5,
        stats: TreeStats::default(),
    }
}

/// A table with the columns of a view, without a b-tree.
pub(crate) fn view_table(
    name: &str,
    root: Pgno,
    columns: impl Iterator<Item = (String, Option<Affinity>, Option<String>)>,
) -> Table {
    let columns = columns.map(|(name, affinity, declared_type)| Column {
        name,
        affinity: affinity.unwrap_or(Affinity::Blob),
        declared_type: declared_type.unwrap_or_default(),
        collation: Ok(Collation::Binary),
        not_null: false,
        not_null_conflict: None,
        default: None,
        default_text: None,
        missing_value: Value::Null,
        generated: None,
        primary_key_place: 0,
        stored: Some(0),
        hidden: false,
    });
    Table {
        name: name.to_owned(),
        root,
        columns: columns.collect(),
        // There is no rowid to name.
        without_rowid: true,
        stored_columns: 0,
        ..schema_table()
    }
}

fn foreign_key(columns: Vec<usize>, key: &ast::ForeignKey) -> ForeignKey {
    ForeignKey {
        columns,
        parent: key.table.text.clone(),
        parent_columns: key.columns.iter().map(|column| column.text.clone()).collect(),
        on_update: key.on_update,
        on_delete: key.on_delete,
        deferred: key.deferred,
    }
}

/// A declared type in SQLite's spelling: its own six types in capitals, others as written.
fn standard_type(declared: &str) -> String {
    let standard = ["ANY", "BLOB", "INT", "INTEGER", "REAL", "TEXT"];
    match standard.iter().find(|name| name.eq_ignore_ascii_case(declared)) {
        Some(name) => (*name).to_owned(),
        None => declared.to_owned(),
    }
}

/// The column named by a key term, and the collation written with the name.
fn column_of(expr: &Expr) -> Option<(&str, Option<&str>)> {
    match &expr.kind {
        ExprKind::Column { table: None, column, .. } => Some((&column.text, None)),
        ExprKind::Literal(Value::Text(text)) => Some((std::str::from_utf8(text).ok()?, None)),
        ExprKind::Collate { expr, collation } => {
            column_of(expr).map(|(name, _)| (name, Some(collation.text.as_str())))
        }
        _ => None,
    }
}

fn is_double_quoted(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Column { column, .. } if column.quote == crate::parse::ast::Quote::Double)
}

fn collation(name: &str) -> Result<Collation, String> {
    Collation::named(name).ok_or_else(|| name.to_owned())
}

fn same_collation(a: &Result<Collation, String>, b: &Result<Collation, String>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => a == b,
        (Err(a), Err(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

/// The value of a default left to old rows by `ALTER TABLE ADD COLUMN`. Anything but a constant was
/// refused there, so old rows cannot depend on one.
fn constant(expr: &Expr) -> Value {
    constant_default(expr).unwrap_or(Value::Null)
}

/// The value of a default written as a literal, with signs and casts around perhaps.
pub(crate) fn constant_default(expr: &Expr) -> Option<Value> {
    Some(match &expr.kind {
        ExprKind::Literal(value) => value.clone(),
        ExprKind::Column { table: None, column, .. } if column.is("true") => Value::Int(1),
        ExprKind::Column { table: None, column, .. } if column.is("false") => Value::Int(0),
        ExprKind::Column { table: None, column, .. } => Value::text(column.text.as_str()),
        ExprKind::Unary(UnaryOp::Plus, inner) => constant_default(inner)?,
        ExprKind::Unary(UnaryOp::Negate, inner) => {
            let value = constant_default(inner)?;
            if value.is_null() { value } else { crate::value::negate(value.as_ref()) }
        }
        ExprKind::Cast { expr, type_name } => {
            let affinity = match type_name.as_str() {
                "" => Affinity::Numeric,
                name => Affinity::of_declared_type(name),
            };
            crate::value::cast(constant_default(expr)?.as_ref(), affinity)
        }
        _ => return None,
    })
}
