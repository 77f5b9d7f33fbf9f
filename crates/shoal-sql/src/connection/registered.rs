//! Views and layers that the program registers with a connection. They are in no file: they are
//! found before any table, as what is in `temp` is.

use std::sync::Arc;

use super::{Connection, plan};
use crate::Error;
use crate::layer::{Layer, ViewBuilder};
use crate::parse::ast::{Select, Stmt};
use crate::parse::parse;
use crate::schema::{Module, Object, View};
use crate::table_function::TableFunction;

impl Connection {
    /// Makes a query a view for the statements of this connection. It hides a table or view of the
    /// same name, and takes the place of what was registered under it. Conditions on the view reach
    /// its tables: it costs nothing.
    ///
    /// # Errors
    /// [`Error::Syntax`]; [`Error::Meaning`] for a statement that is no query or has parameters.
    /// Names are looked up when the view is used.
    pub fn register_query(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        let select = query(sql)?;
        self.unregister(name);
        let view = View {
            name: name.to_owned(),
            columns: None,
            select: *select,
            triggers: crate::schema::Triggers::default(),
            is_listed: true,
        };
        self.schemas.registered.views.push(Object::View(Arc::new(view)));
        self.plan_again();
        Ok(())
    }

    /// Makes a view for the statements of this connection, as [`Connection::register_query`]. The
    /// names of a filtered view's columns are those of now.
    ///
    /// # Errors
    /// No such table, view or column.
    pub fn register_view(&mut self, view: ViewBuilder) -> Result<(), Error> {
        let sql = view.sql();
        let select = query(&sql)?;
        let program = plan::plan(&*self.schema()?, &select, None)?;
        match view.keep {
            None => self.register_query(&view.name, &sql),
            Some(keep) => {
                let columns = program.columns.iter().map(|column| column.name.clone()).collect();
                self.register_module(Arc::new(Layer::filtered(view.name, columns, select, keep)));
                Ok(())
            }
        }
    }

    /// Makes rows of the program's a table for the statements of this connection. It hides a table
    /// or view of the same name, and takes the place of what was registered under it.
    pub fn register_layer(&mut self, layer: Layer) {
        self.register_module(Arc::new(layer));
    }

    /// Makes a table-valued function or a table of the program's own known to the statements of
    /// this connection. It takes the place of what was registered under its name, and hides what is
    /// built in.
    pub fn register_module(&mut self, module: Arc<dyn Module>) {
        self.unregister(module.name());
        self.schemas.registered.modules.push(module);
        self.plan_again();
    }

    /// Makes a table-valued function of closures known to the statements of this connection, as
    /// [`Connection::register_module`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for an empty name, a function without columns, and columns and arguments
    /// that share a name.
    pub fn create_table_function(&mut self, function: TableFunction) -> Result<(), Error> {
        function.check()?;
        self.register_module(Arc::new(function));
        Ok(())
    }

    /// Forgets what was registered under a name; false when nothing was.
    pub fn unregister(&mut self, name: &str) -> bool {
        let registered = &mut self.schemas.registered;
        let before = registered.views.len() + registered.modules.len();
        registered.views.retain(|view| !view.name().eq_ignore_ascii_case(name));
        registered.modules.retain(|module| !module.name().eq_ignore_ascii_case(name));
        let found = registered.views.len() + registered.modules.len() < before;
        self.plan_again();
        found
    }

    /// The names of what is registered.
    pub fn registered(&self) -> impl Iterator<Item = &str> {
        let registered = &self.schemas.registered;
        let modules = registered.modules.iter().map(|module| module.name());
        registered.views.iter().map(Object::name).chain(modules)
    }
}

/// A text that is a query without parameters.
fn query(sql: &str) -> Result<Box<Select>, Error> {
    let parsed = parse(sql)?;
    match parsed.stmt {
        Stmt::Select(select) if parsed.parameters.is_empty() => Ok(select),
        Stmt::Select(_) => Err(Error::meaning("parameters are not allowed in views", 0)),
        _ => Err(Error::meaning("a view is made of a query", 0)),
    }
}
