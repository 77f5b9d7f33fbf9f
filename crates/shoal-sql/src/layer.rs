//! Tables made by the program: views with a predicate of its own, and rows from anywhere.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::exec::for_each_row;
use crate::keep::{Kept, row_size};
use crate::parse::ast;
use crate::schema::{Module, ModuleContext, ModuleRows};
use crate::session::Session;
use crate::value::{Value, ValueRef};
use crate::{Error, plan};

/// A row of a layer: one value for each column; missing ones are NULL.
pub type LayerRow = Vec<Value>;

type Iter = Box<dyn Iterator<Item = LayerRow> + Send>;
type Predicate = Arc<dyn Fn(&[ValueRef<'_>]) -> bool + Send + Sync>;

/// Rows of a program, to be named in a `FROM`
/// ([`Connection::register_layer`](crate::Connection::register_layer)).
pub struct Layer {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    source: Source,
}

enum Source {
    Rows(Box<dyn Fn() -> Iter + Send + Sync>),
    Filtered { select: Box<ast::Select>, keep: Predicate },
}

impl Layer {
    /// A layer of these columns. `rows` is called once for each statement naming the layer; its
    /// iterator is asked for no more rows than the statement needs, and the rows are kept until the
    /// statement ends.
    pub fn new<I>(
        name: impl Into<String>,
        columns: &[&str],
        rows: impl Fn() -> I + Send + Sync + 'static,
    ) -> Layer
    where
        I: Iterator<Item = LayerRow> + Send + 'static,
    {
        Layer {
            name: name.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            source: Source::Rows(Box::new(move || -> Iter { Box::new(rows()) })),
        }
    }

    pub(crate) fn filtered(
        name: String,
        columns: Vec<String>,
        select: Box<ast::Select>,
        keep: Predicate,
    ) -> Layer {
        Layer { name, columns, source: Source::Filtered { select, keep } }
    }
}

impl Module for Layer {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }

    fn is_table(&self) -> bool {
        true
    }

    fn reads_schema(&self) -> bool {
        true
    }

    /// Begins to give rows to one statement. The whole query of a filtered view runs now.
    fn open(
        &self,
        _arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let ModuleContext { schema, txns, session, .. } = *context;
        let mut kept = Kept::default();
        let mut rows = Vec::new();
        let rest = match &self.source {
            Source::Rows(make) => Some(make()),
            Source::Filtered { select, keep } => {
                let schema = schema.expect("a module that reads the schema is given it");
                // The view sees modules registered before: none contains itself.
                let schema = schema.before_module(&self.name);
                let program = plan::plan(&schema, select, None)?;
                for_each_row(&program, (txns, Some(&schema)), session, &[], |row| {
                    let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    if keep(&values) {
                        kept.add(session, row_size(values.iter().copied()))?;
                        rows.push(row.to_vec());
                    }
                    Ok(())
                })?;
                None
            }
        };
        let layer = OpenLayer(Arc::new(Mutex::new(Given { rest, rows, kept })));
        Ok(Box::new(LayerRows { layer, next: 0 }))
    }
}

/// One reader of a layer.
#[derive(Debug)]
struct LayerRows {
    layer: OpenLayer,
    next: usize,
}

impl ModuleRows for LayerRows {
    fn next(&mut self, row: &mut Vec<Value>, context: &ModuleContext<'_>) -> Result<bool, Error> {
        let Some(next) = self.layer.row(self.next, context.session)? else { return Ok(false) };
        self.next += 1;
        *row = next;
        Ok(true)
    }

    fn again(&self) -> Option<Box<dyn ModuleRows>> {
        Some(Box::new(LayerRows { layer: self.layer.clone(), next: 0 }))
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer")
            .field("name", &self.name)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// A layer's rows during one statement, for one or more passes.
#[derive(Clone)]
struct OpenLayer(Arc<Mutex<Given>>);

struct Given {
    rest: Option<Iter>,
    rows: Vec<LayerRow>,
    kept: Kept,
}

impl OpenLayer {
    /// The row at a place; `None` past the last.
    ///
    /// # Errors
    /// When the statement goes over its limit of memory.
    fn row(&self, place: usize, session: &dyn Session) -> Result<Option<LayerRow>, Error> {
        let mut given = self.lock();
        while given.rows.len() <= place {
            let Some(row) = given.rest.as_mut().and_then(Iterator::next) else { return Ok(None) };
            given.kept.add(session, row_size(row.iter().map(Value::as_ref)))?;
            given.rows.push(row);
        }
        Ok(given.rows.get(place).cloned())
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OpenLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenLayer").finish_non_exhaustive()
    }
}

/// A view over a table or view, made without SQL
/// ([`Connection::register_view`](crate::Connection::register_view)).
#[derive(Clone)]
pub struct ViewBuilder {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) columns: Vec<String>,
    pub(crate) keep: Option<Predicate>,
}

impl ViewBuilder {
    /// The view `name` of all columns and rows of the table or view `from`.
    pub fn new(name: impl Into<String>, from: impl Into<String>) -> ViewBuilder {
        ViewBuilder { name: name.into(), from: from.into(), columns: Vec::new(), keep: None }
    }

    /// Restricts the view to these columns.
    #[must_use]
    pub fn columns(mut self, columns: &[&str]) -> ViewBuilder {
        self.columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self
    }

    /// Keeps the rows for which `keep` holds; `keep` is given the view's columns. Each statement
    /// naming such a view reads all of it; conditions do not reach its table.
    #[must_use]
    pub fn filter(
        mut self,
        keep: impl Fn(&[ValueRef<'_>]) -> bool + Send + Sync + 'static,
    ) -> ViewBuilder {
        self.keep = Some(Arc::new(keep));
        self
    }

    /// The view's query, its filter aside.
    pub(crate) fn sql(&self) -> String {
        let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let columns: Vec<String> = self.columns.iter().map(quoted).collect();
        let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
        format!("SELECT {columns} FROM {}", quoted(&self.from))
    }
}

impl fmt::Debug for ViewBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewBuilder")
            .field("name", &self.name)
            .field("sql", &self.sql())
            .field("filtered", &self.keep.is_some())
            .finish()
    }
}
