//! Conditions of DataFusion as conditions of SQL.
//!
//! A condition goes down where SQL keeps the rows kept by DataFusion (exact), or these rows and a
//! few others (inexact: DataFusion asks again). Both languages agree on comparisons of a column
//! with a literal of its type, on `IN`, `BETWEEN`, `IS NULL`, `AND` and `OR`, but for two cases:
//! Arrow orders -0.0 before 0.0 where SQL has them equal, and a file in UTF-16 orders texts by
//! other bytes. A column with converted values takes `IS NULL` alone: SQL compares the values as
//! stored.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;
use shoal_arrow::Fit;
use shoal_sql::Value;

use crate::columns::Columns;
use crate::table::quoted;

/// Values bound for one condition at most.
const VALUES_MAX: usize = 1000;

/// A condition in SQL, with `?` for each of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
    /// True where exactly DataFusion's rows are kept; otherwise a few more may be.
    pub(crate) is_exact: bool,
    /// Columns held to single values.
    pub(crate) pinned: Vec<usize>,
}

/// The tables' side of a translation.
pub(crate) struct Translator<'c> {
    pub(crate) columns: &'c Columns,
    /// True where the order of texts is the order of their bytes in UTF-8.
    pub(crate) is_utf8: bool,
}

impl Translator<'_> {
    /// The condition in SQL; `None` where nothing of it goes down.
    pub(crate) fn condition(&self, expr: &Expr) -> Option<Condition> {
        self.translate(expr).filter(|condition| condition.values.len() <= VALUES_MAX)
    }

    fn translate(&self, expr: &Expr) -> Option<Condition> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                // Each side alone keeps the rows of both, and others.
                match (self.translate(left), self.translate(right)) {
                    (Some(left), Some(right)) => Some(left.and(right)),
                    (Some(one), None) | (None, Some(one)) => {
                        Some(Condition { is_exact: false, ..one })
                    }
                    (None, None) => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                Some(self.translate(left)?.or(self.translate(right)?))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                match (self.column(left), self.column(right)) {
                    (Some(column), None) => self.comparison(column, *op, right),
                    (None, Some(column)) => self.comparison(column, op.swap()?, left),
                    _ => None,
                }
            }
            Expr::IsNull(of) => self.null(of, "IS NULL"),
            Expr::IsNotNull(of) => self.null(of, "IS NOT NULL"),
            Expr::Between(between) if !between.negated => {
                let column = self.column(&between.expr)?;
                let low = self.comparison(column, Operator::GtEq, &between.low)?;
                Some(low.and(self.comparison(column, Operator::LtEq, &between.high)?))
            }
            Expr::InList(list) => self.list(self.column(&list.expr)?, &list.list, list.negated),
            _ => None,
        }
    }

    /// The place of the column that an expression is.
    fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(column) => self.columns.schema.index_of(&column.name).ok(),
            _ => None,
        }
    }

    fn null(&self, of: &Expr, words: &str) -> Option<Condition> {
        let name = quoted(&self.columns.names[self.column(of)?]);
        let sql = format!("{name} {words}");
        Some(Condition { sql, values: Vec::new(), is_exact: true, pinned: Vec::new() })
    }

    fn kind(&self, column: usize) -> &DataType {
        self.columns.schema.field(column).data_type()
    }

    /// The column as a side of a comparison, whatever collation the table gives it.
    fn side(&self, column: usize) -> String {
        let name = quoted(&self.columns.names[column]);
        match self.kind(column) {
            DataType::Utf8 => format!("{name} COLLATE BINARY"),
            _ => name,
        }
    }

    /// The value of a literal of the column's type.
    fn value(&self, column: usize, literal: &Expr) -> Option<Value> {
        let Expr::Literal(literal, _) = literal else { return None };
        if self.columns.fits[column] != Fit::AsIs {
            return None;
        }
        match (self.kind(column), literal) {
            (DataType::Int64, ScalarValue::Int64(Some(value))) => Some(Value::Int(*value)),
            (DataType::Float64, ScalarValue::Float64(Some(value))) => {
                let is_negative_zero = *value == 0.0 && value.is_sign_negative();
                (!value.is_nan() && !is_negative_zero).then_some(Value::Real(*value))
            }
            (
                DataType::Utf8,
                ScalarValue::Utf8(Some(text))
                | ScalarValue::LargeUtf8(Some(text))
                | ScalarValue::Utf8View(Some(text)),
            ) => Some(Value::text(text.as_str())),
            (
                DataType::Binary,
                ScalarValue::Binary(Some(bytes))
                | ScalarValue::LargeBinary(Some(bytes))
                | ScalarValue::BinaryView(Some(bytes)),
            ) => Some(Value::Blob(bytes.clone())),
            _ => None,
        }
    }

    fn comparison(&self, column: usize, op: Operator, literal: &Expr) -> Option<Condition> {
        let value = self.value(column, literal)?;
        let is_zero = matches!(value, Value::Real(value) if value == 0.0);
        // -0.0 among the values, before 0.0 for Arrow, is 0.0 for SQL.
        let (sign, is_exact) = match (op, is_zero) {
            (Operator::Eq, false) => ("=", true),
            (Operator::Eq, true) => ("=", false),
            (Operator::NotEq, false) => ("<>", true),
            (Operator::NotEq, true) => return None,
            (Operator::Lt, false) => ("<", true),
            (Operator::Lt, true) => ("<=", false),
            (Operator::LtEq, _) => ("<=", true),
            (Operator::Gt, _) => (">", true),
            (Operator::GtEq, false) => (">=", true),
            (Operator::GtEq, true) => (">=", false),
            _ => return None,
        };
        let is_order = !matches!(op, Operator::Eq | Operator::NotEq);
        if is_order && !self.is_utf8 && *self.kind(column) == DataType::Utf8 {
            return None;
        }
        let pinned = if op == Operator::Eq { vec![column] } else { Vec::new() };
        let sql = format!("{} {sign} ?", self.side(column));
        Some(Condition { sql, values: vec![value], is_exact, pinned })
    }

    fn list(&self, column: usize, list: &[Expr], is_negated: bool) -> Option<Condition> {
        if list.is_empty() || list.len() > VALUES_MAX {
            return None;
        }
        let values = list.iter().map(|literal| self.value(column, literal));
        let values = values.collect::<Option<Vec<Value>>>()?;
        let has_zero = values.iter().any(|value| matches!(value, Value::Real(0.0)));
        if has_zero && is_negated {
            return None;
        }
        let (side, places) = (self.side(column), vec!["?"; values.len()].join(", "));
        let word = if is_negated { "NOT IN" } else { "IN" };
        let sql = format!("{side} {word} ({places})");
        let pinned = if is_negated { Vec::new() } else { vec![column] };
        Some(Condition { sql, values, is_exact: !has_zero, pinned })
    }
}

impl Condition {
    fn and(self, other: Condition) -> Condition {
        let pinned = [self.pinned.clone(), other.pinned.clone()].concat();
        Condition { pinned, ..self.joined("AND", other) }
    }

    fn or(self, other: Condition) -> Condition {
        Condition { pinned: Vec::new(), ..self.joined("OR", other) }
    }

    fn joined(mut self, word: &str, other: Condition) -> Condition {
        self.values.extend(other.values);
        let sql = format!("({} {word} {})", self.sql, other.sql);
        Condition { sql, is_exact: self.is_exact && other.is_exact, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn of(expr: Expr, is_utf8: bool) -> Option<(String, bool, usize)> {
        let kinds = [DataType::Int64, DataType::Float64, DataType::Utf8, DataType::Utf8];
        let fields = ["i", "r", "s", "mixed"].into_iter().zip(kinds);
        let fields: Vec<Field> = fields.map(|(name, kind)| Field::new(name, kind, true)).collect();
        let columns = Columns {
            names: ["i", "r", "s", "mixed"].map(str::to_owned).to_vec(),
            schema: Arc::new(Schema::new(fields)),
            fits: vec![Fit::AsIs, Fit::AsIs, Fit::AsIs, Fit::Converted],
            come_from_values: false,
        };
        let condition = Translator { columns: &columns, is_utf8 }.condition(&expr)?;
        Some((condition.sql, condition.is_exact, condition.values.len()))
    }

    #[test]
    fn conditions_go_down_where_both_languages_agree() {
        let some = |sql: &str, is_exact, values| Some((sql.to_owned(), is_exact, values));
        assert_eq!(of(col("i").gt(lit(5_i64)), true), some("\"i\" > ?", true, 1));
        assert_eq!(of(lit(5_i64).gt(col("i")), true), some("\"i\" < ?", true, 1));
        assert_eq!(of(col("s").lt(lit("x")), true), some("\"s\" COLLATE BINARY < ?", true, 1));
        assert_eq!(of(col("s").lt(lit("x")), false), None);
        assert_eq!(of(col("s").eq(lit("x")), false), some("\"s\" COLLATE BINARY = ?", true, 1));
        assert_eq!(of(col("r").lt(lit(0.0)), true), some("\"r\" <= ?", false, 1));
        assert_eq!(of(col("r").gt(lit(0.0)), true), some("\"r\" > ?", true, 1));
        assert_eq!(of(col("r").not_eq(lit(0.0)), true), None);
        assert_eq!(of(col("r").eq(lit(-0.0)), true), None);
        assert_eq!(of(col("r").eq(lit(f64::NAN)), true), None);
        assert_eq!(of(col("mixed").eq(lit("1")), true), None);
        assert_eq!(of(col("mixed").is_null(), true), some("\"mixed\" IS NULL", true, 0));
        let list = col("i").in_list(vec![lit(1_i64), lit(2_i64)], true);
        assert_eq!(of(list, true), some("\"i\" NOT IN (?, ?)", true, 2));
        let between = col("r").between(lit(0.0), lit(1.0));
        assert_eq!(of(between, true), some("(\"r\" >= ? AND \"r\" <= ?)", false, 2));
        // A side that stays above makes the other inexact under AND, and both useless under OR.
        let above = || (col("i") + lit(1_i64)).gt(lit(2_i64));
        assert_eq!(of(col("i").eq(lit(1_i64)).and(above()), true), some("\"i\" = ?", false, 1));
        assert_eq!(of(col("i").eq(lit(1_i64)).or(above()), true), None);
        let either = col("i").eq(lit(1_i64)).or(col("s").is_not_null());
        assert_eq!(of(either, true), some("(\"i\" = ? OR \"s\" IS NOT NULL)", true, 1));
        assert_eq!(of(col("i").eq(lit("1")), true), None);
        assert_eq!(of(col("absent").eq(lit(1_i64)), true), None);
    }
}
