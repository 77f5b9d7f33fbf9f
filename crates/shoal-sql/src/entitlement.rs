//! Entitlements: the tables, columns and rows open to a principal's reads and writes, as rules.
//!
//! A rule is text until a connection is narrowed by the rule
//! ([`Connection::narrowed`](crate::Connection::narrowed)): only the schema tells the meaning of
//! names. Syntax is checked when a rule is added, names and functions when a connection is
//! narrowed.

use std::sync::Arc;

use crate::Error;
use crate::parse::ast::{Expr, ResultColumn, SelectCore, Stmt};
use crate::parse::parse;

/// The name of the only parameter of predicates and masks.
const PRINCIPAL: &str = ":principal";
/// The longest predicate or mask, in bytes.
const TEXT_MAX: usize = 16 << 10;

/// The rules of one principal: tables without a rule do not exist.
#[derive(Clone, Debug)]
pub struct Entitlement {
    principal: Arc<str>,
    pub(crate) tables: Vec<Granted>,
}

/// The part of a table or view open to a principal's reads, at first all columns and rows, and the
/// changes open to the principal, at first none.
#[derive(Clone, Debug)]
#[must_use]
pub struct TableRule {
    table: String,
    columns: Option<Vec<String>>,
    rows: Option<String>,
    masks: Vec<(String, String)>,
    is_listed: bool,
    writes: Writes,
}

/// The columns open to a principal's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenColumns {
    /// Every visible column without a mask.
    Visible,
    /// These; `rowid` among them stands for the rowid.
    Only(Vec<String>),
}

/// The changes of a table granted to a principal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    pub(crate) insert: Option<WrittenColumns>,
    pub(crate) update: Option<WrittenColumns>,
    pub(crate) delete: bool,
}

impl Writes {
    /// True where there is no change to make.
    pub(crate) fn is_none(&self) -> bool {
        self.insert.is_none() && self.update.is_none() && !self.delete
    }
}

/// A rule with its texts parsed.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) table: String,
    /// The columns; `None` for all of them.
    pub(crate) columns: Option<Vec<String>>,
    /// The predicate of visible rows.
    pub(crate) rows: Option<Arc<Expr>>,
    /// Expressions in the place of columns.
    pub(crate) masks: Vec<(String, Arc<Expr>)>,
    /// False keeps the table out of `sqlite_schema` and `PRAGMA table_list`.
    pub(crate) is_listed: bool,
    pub(crate) writes: Writes,
}

impl TableRule {
    /// The whole table, or the whole view.
    pub fn of(table: impl Into<String>) -> TableRule {
        let (table, masks, writes) = (table.into(), Vec::new(), Writes::default());
        TableRule { table, columns: None, rows: None, masks, is_listed: true, writes }
    }

    /// Only these columns; `rowid` among them stands for the rowid. Without a list all columns are
    /// visible, those that are added later among them.
    pub fn columns<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> TableRule {
        let columns = columns.into_iter().map(Into::into).collect();
        TableRule { columns: Some(columns), ..self }
    }

    /// Only rows that meet a predicate: a condition over all columns of the table, hidden ones too,
    /// with `:principal` for the name of the principal.
    pub fn rows(self, predicate: impl Into<String>) -> TableRule {
        TableRule { rows: Some(predicate.into()), ..self }
    }

    /// An expression in the place of a column's value: a constant, or something made of the row.
    pub fn mask(mut self, column: impl Into<String>, expr: impl Into<String>) -> TableRule {
        self.masks.push((column.into(), expr.into()));
        self
    }

    /// The table can be read, and is in no list of tables.
    pub fn unlisted(self) -> TableRule {
        TableRule { is_listed: false, ..self }
    }

    /// Rows may be inserted, as far as they meet the predicate of [`TableRule::rows`]; columns
    /// without a value take their defaults.
    pub fn insert(mut self, columns: WrittenColumns) -> TableRule {
        self.writes.insert = Some(columns);
        self
    }

    /// Visible rows may be updated, as far as they meet the predicate afterwards, too.
    pub fn update(mut self, columns: WrittenColumns) -> TableRule {
        self.writes.update = Some(columns);
        self
    }

    /// Visible rows may be deleted.
    pub fn delete(mut self) -> TableRule {
        self.writes.delete = true;
        self
    }
}

impl Entitlement {
    /// A principal who may read nothing yet.
    pub fn new(principal: impl Into<Arc<str>>) -> Entitlement {
        Entitlement { principal: principal.into(), tables: Vec::new() }
    }

    /// The name of the principal.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    pub(crate) fn shared_principal(&self) -> Arc<str> {
        Arc::clone(&self.principal)
    }

    /// True where some rule lets the principal change rows.
    pub fn writes(&self) -> bool {
        self.tables.iter().any(|granted| !granted.writes.is_none())
    }

    /// The same rules without their changes: for reading connections.
    #[must_use]
    pub fn read_only(mut self) -> Entitlement {
        self.tables.iter_mut().for_each(|granted| granted.writes = Writes::default());
        self
    }

    /// Adds a rule. Tables that are not there are left out, so that the same rules serve several
    /// databases.
    ///
    /// # Errors
    /// [`Error::Meaning`], with the table's name: a second rule of the table, a table of SQLite's
    /// own, a predicate or mask that is no expression or has a parameter other than `:principal`.
    pub fn allow(&mut self, rule: TableRule) -> Result<(), Error> {
        let TableRule { table, columns, rows, masks, is_listed, writes } = rule;
        if table.to_ascii_lowercase().starts_with("sqlite_") {
            return Err(fault(&table, "tables of SQLite's own are nobody's to read"));
        }
        if self.tables.iter().any(|known| known.table.eq_ignore_ascii_case(&table)) {
            return Err(fault(&table, "a table has one rule for a principal"));
        }
        let expr = |text: &str| {
            expression(text).map(Arc::new).map_err(|why| fault(&table, format!("{text:?}: {why}")))
        };
        let rows = rows.as_deref().map(expr).transpose()?;
        let masks = masks.into_iter().map(|(column, text)| Ok((column, expr(&text)?)));
        let masks = masks.collect::<Result<Vec<_>, Error>>()?;
        self.tables.push(Granted { table, columns, rows, masks, is_listed, writes });
        Ok(())
    }
}

/// The fault of a rule.
pub(crate) fn fault(table: &str, why: impl std::fmt::Display) -> Error {
    Error::Meaning { message: format!("the rule of {table}: {why}"), offset: None }
}

/// Parses a text that is an expression and nothing more.
fn expression(text: &str) -> Result<Expr, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("an expression has at most {TEXT_MAX} bytes"));
    }
    // A comment at the end of the text ends with its line.
    let parsed = parse(&format!("SELECT (\n{text}\n)")).map_err(|error| error.to_string())?;
    let mut names = parsed.parameters.iter();
    if !names.all(|name| name.as_deref() == Some(PRINCIPAL)) {
        return Err(format!("the only parameter is {PRINCIPAL}"));
    }
    let no_expression = || "it is no expression".to_owned();
    let Stmt::Select(select) = parsed.stmt else { return Err(no_expression()) };
    let is_bare = select.with.is_none()
        && select.compounds.is_empty()
        && select.order_by.is_empty()
        && select.limit.is_none()
        && select.offset.is_none();
    let SelectCore::Select(clauses) = select.first else { return Err(no_expression()) };
    let is_bare = is_bare
        && !clauses.distinct
        && clauses.from.is_none()
        && clauses.filter.is_none()
        && clauses.group_by.is_empty()
        && clauses.having.is_none()
        && clauses.windows.is_empty();
    let mut columns = clauses.columns.into_iter();
    match (columns.next(), columns.next()) {
        (Some(ResultColumn::Expr { expr, alias: None, .. }), None) if is_bare => Ok(expr),
        _ => Err(no_expression()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_nothing_more() {
        for text in ["a = 1", "owner = :principal -- mine", "a) + (b", "x IN (1, 2)", "NULL"] {
            assert!(expression(text).is_ok(), "{text}");
        }
        let long = "1 + ".repeat(TEXT_MAX) + "1";
        for text in [
            "",
            "a = ?",
            "a = :other",
            "1), (2",
            "1) AS x, (2",
            "1) FROM t WHERE (1",
            "1); SELECT (1",
            "1) UNION SELECT (2",
            "1) ORDER BY (2",
            "1) LIMIT (2",
            "*",
            &long,
        ] {
            assert!(expression(text).is_err(), "{text}");
        }
    }

    #[test]
    fn faults_name_the_table() {
        let mut entitlement = Entitlement::new("ada");
        entitlement.allow(TableRule::of("note")).unwrap();
        let mut refused = |rule| entitlement.allow(rule).unwrap_err().to_string();
        assert_eq!(
            refused(TableRule::of("NOTE")),
            "the rule of NOTE: a table has one rule for a principal"
        );
        assert!(refused(TableRule::of("sqlite_stat1")).contains("SQLite's own"));
        assert!(refused(TableRule::of("x").rows("1 +")).starts_with("the rule of x: \"1 +\""));
        assert!(refused(TableRule::of("x").mask("a", "?1")).contains(":principal"));
    }
}
