//! Functions that give rows: `json_each`, `json_tree`, `generate_series`, `pragma_...`.

use super::json::{Walk, walk};
use crate::Error;
use crate::connection::pragma::Kind;
use crate::layer::OpenLayer;
use crate::schema::{Schema, Txns};
use crate::session::Session;
use crate::value::{Affinity, Value, text_of, to_int};

/// A function in a `FROM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFunction {
    Json(Walk),
    Series,
    Pragma(Kind),
    /// A layer by its number, and how many columns it has; their names are its own.
    Layer {
        number: usize,
        columns: usize,
    },
}

impl TableFunction {
    /// The function of that name, in any case.
    pub(crate) fn named(name: &str) -> Option<TableFunction> {
        let lower = name.to_ascii_lowercase();
        Some(match lower.as_str() {
            "json_each" => TableFunction::Json(Walk { deep: false, blob: false }),
            "jsonb_each" => TableFunction::Json(Walk { deep: false, blob: true }),
            "json_tree" => TableFunction::Json(Walk { deep: true, blob: false }),
            "jsonb_tree" => TableFunction::Json(Walk { deep: true, blob: true }),
            "generate_series" => TableFunction::Series,
            other => TableFunction::Pragma(Kind::of_table(other.strip_prefix("pragma_")?)?),
        })
    }

    /// The columns that `*` stands for.
    pub(crate) fn columns(self) -> Vec<&'static str> {
        match self {
            TableFunction::Json(_) => {
                vec!["key", "value", "type", "atom", "id", "parent", "fullkey", "path"]
            }
            TableFunction::Series => vec!["value"],
            TableFunction::Pragma(kind) => kind.columns().to_vec(),
            TableFunction::Layer { columns, .. } => vec![""; columns],
        }
    }

    /// The columns behind them, which are the arguments.
    pub(crate) fn hidden_columns(self) -> &'static [&'static str] {
        match self {
            TableFunction::Json(_) => &["json", "root"],
            TableFunction::Series => &["start", "stop", "step"],
            TableFunction::Pragma(kind) if kind.has_argument() => &["arg", "schema"],
            TableFunction::Pragma(_) => &["schema"],
            TableFunction::Layer { .. } => &[],
        }
    }

    pub(crate) fn affinity(self) -> Affinity {
        Affinity::Blob
    }

    /// What an argument is that was not given, as its column shows it.
    pub(crate) fn default_argument(self, place: usize) -> Value {
        match (self, place) {
            (TableFunction::Json(_), 1) => "$".into(),
            (TableFunction::Series, 1) => Value::Int(i64::from(u32::MAX)),
            (TableFunction::Series, 2) => Value::Int(1),
            _ => Value::Null,
        }
    }

    /// Whether its rows depend on the schema.
    pub(crate) fn needs_schema(self) -> bool {
        matches!(self, TableFunction::Pragma(_) | TableFunction::Layer { .. })
    }

    /// The rows for some arguments; one that was not given is `None`.
    ///
    /// # Errors
    /// What the arguments are refused for.
    pub(crate) fn rows(
        self,
        arguments: &[Option<Value>],
        schema: Option<&Schema>,
        txns: Txns<'_>,
    ) -> Result<FunctionRows, Error> {
        let given = |place: usize| arguments.get(place).and_then(Option::as_ref);
        Ok(match self {
            TableFunction::Json(kind) => {
                let rows = match given(0) {
                    None => Vec::new(),
                    Some(json) => walk(kind, json, given(1))?,
                };
                FunctionRows::Rows(rows.into_iter())
            }
            TableFunction::Series => Series::rows(given(0), given(1), given(2))?,
            TableFunction::Pragma(kind) => {
                let rows = match schema {
                    Some(schema) => {
                        let place = usize::from(kind.has_argument());
                        let argument = if kind.has_argument() { given(0) } else { None };
                        let database = given(place).and_then(|name| text_of(name.as_ref()));
                        let database =
                            database.map(|name| String::from_utf8_lossy(&name).into_owned());
                        kind.rows(argument, database.as_deref(), schema, txns)?
                    }
                    None => Vec::new(),
                };
                FunctionRows::Rows(rows.into_iter())
            }
            // Opened once for a statement, by whoever runs it.
            TableFunction::Layer { .. } => FunctionRows::Rows(Vec::new().into_iter()),
        })
    }
}

/// Rows on their way, without the columns of the arguments.
#[derive(Debug)]
pub(crate) enum FunctionRows {
    Rows(std::vec::IntoIter<Vec<Value>>),
    Series(Series),
    /// With the place of the next row.
    Layer(OpenLayer, usize),
}

impl FunctionRows {
    /// The next row.
    ///
    /// # Errors
    /// When the statement keeps more than it may.
    pub(crate) fn next(&mut self, session: &dyn Session) -> Result<Option<Vec<Value>>, Error> {
        Ok(match self {
            FunctionRows::Rows(rows) => rows.next(),
            FunctionRows::Series(series) => series.next().map(|value| vec![Value::Int(value)]),
            FunctionRows::Layer(layer, next) => {
                *next += 1;
                layer.row(*next - 1, session)?
            }
        })
    }
}

/// Integers at equal distances.
#[derive(Debug)]
pub(crate) struct Series {
    next: Option<i64>,
    stop: i64,
    step: i64,
}

impl Series {
    fn rows(
        start: Option<&Value>,
        stop: Option<&Value>,
        step: Option<&Value>,
    ) -> Result<FunctionRows, Error> {
        let Some(start) = start else {
            let message = "first argument to \"generate_series()\" missing or unusable";
            return Err(Error::runtime(message));
        };
        if [Some(start), stop, step].into_iter().flatten().any(Value::is_null) {
            return Ok(FunctionRows::Rows(Vec::new().into_iter()));
        }
        let int = |value: &Value| to_int(value.as_ref());
        let start = int(start);
        let stop = stop.map_or(i64::from(u32::MAX), int);
        let step = match step.map_or(1, int) {
            0 => 1,
            step => step,
        };
        let any = if step > 0 { start <= stop } else { start >= stop };
        Ok(FunctionRows::Series(Series { next: any.then_some(start), stop, step }))
    }

    fn next(&mut self) -> Option<i64> {
        let here = self.next?;
        let inside =
            |next: &i64| if self.step > 0 { *next <= self.stop } else { *next >= self.stop };
        self.next = here.checked_add(self.step).filter(inside);
        Some(here)
    }
}
