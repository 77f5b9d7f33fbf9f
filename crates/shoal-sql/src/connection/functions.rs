//! Functions, aggregates and collations registered with a connection.

use std::cmp::Ordering;
use std::sync::Arc;

use shoal_store::OwnCollation;

use super::{Connection, Plans};
use crate::Error;
use crate::functions::{Aggregate, ArgumentCount, FunctionFlags, SubtypedFunction};
use crate::value::Value;

/// The longest name of a function, in bytes, as in SQLite.
const NAME_BYTES_MAX: usize = 255;
/// The most arguments of a registered function, as in SQLite.
const ARGUMENTS_MAX: usize = 1000;

impl Connection {
    /// Makes a function known to the statements of this connection: in queries, and as its flags
    /// allow in the definitions of a file (`CHECK`, triggers, views, indexes on expressions). Takes
    /// the place of a function of the same name and number of arguments, a built-in one too: `LIKE`
    /// calls `like` with two arguments, `REGEXP` calls `regexp`. A function for
    /// [`ArgumentCount::Any`] serves the calls left over by all others of its name.
    ///
    /// Other connections and programs do not know the function: they refuse to write to a table
    /// with an index or constraint in need of it.
    ///
    /// Earlier statements are planned again at their next run. Several threads may call the
    /// function at once, as often as the plan sees fit. A returned NaN is NULL, a text over a
    /// billion bytes an error.
    ///
    /// ```
    /// # use shoal_sql::{Connection, Error, FunctionFlags, Value, ValueRef};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// connection.create_function("initials", 1, FunctionFlags::DETERMINISTIC, |arguments| {
    ///     let Value::Text(name) = &arguments[0] else { return Ok(Value::Null) };
    ///     let name = String::from_utf8_lossy(name);
    ///     let initials = name.split_whitespace().filter_map(|word| word.chars().next());
    ///     Ok(Value::text(initials.collect::<String>()))
    /// })?;
    /// let mut statement = connection.prepare("SELECT initials('Ada King Lovelace')")?;
    /// let mut rows = connection.query(&mut statement)?;
    /// assert_eq!(rows.next()?.unwrap().get(0), ValueRef::Text(b"AKL"));
    /// # Ok::<(), shoal_sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a name without or with over 255 bytes, and more than 1,000 arguments.
    /// An error of the function, best made by [`Error::of_function`], ends the statement and undoes
    /// its changes.
    pub fn create_function<R: Into<Value>>(
        &mut self,
        name: &str,
        arguments: impl Into<ArgumentCount>,
        flags: FunctionFlags,
        function: impl Fn(&[Value]) -> Result<R, Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let count = checked(name, arguments.into())?;
        let body = Arc::new(move |arguments: &[Value]| function(arguments).map(R::into));
        self.schemas.own.add_scalar(name, count, flags, body);
        self.plan_again();
        Ok(())
    }

    /// Makes a function with subtypes known to the statements of this connection, in the way of
    /// [`Connection::create_function`].
    ///
    /// # Errors
    /// As [`Connection::create_function`].
    pub fn create_subtyped_function(
        &mut self,
        name: &str,
        arguments: impl Into<ArgumentCount>,
        flags: FunctionFlags,
        function: impl SubtypedFunction,
    ) -> Result<(), Error> {
        let count = checked(name, arguments.into())?;
        self.schemas.own.add_subtyped(name, count, flags, Arc::new(function));
        self.plan_again();
        Ok(())
    }

    /// Makes an aggregate known to the statements of this connection, in the way of
    /// [`Connection::create_function`]. With `OVER` the aggregate is a window function.
    ///
    /// ```
    /// # use shoal_sql::{Aggregate, Connection, Error, FunctionFlags, Value, ValueRef};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// struct Product;
    ///
    /// impl Aggregate for Product {
    ///     type State = i64;
    ///
    ///     fn start(&self) -> i64 {
    ///         1
    ///     }
    ///
    ///     fn step(&self, state: &mut i64, arguments: &[Value]) -> Result<(), Error> {
    ///         if let Value::Int(factor) = arguments[0] {
    ///             let overflow = || Error::of_function("integer overflow");
    ///             *state = state.checked_mul(factor).ok_or_else(overflow)?;
    ///         }
    ///         Ok(())
    ///     }
    ///
    ///     fn value(&self, state: &i64) -> Result<Value, Error> {
    ///         Ok((*state).into())
    ///     }
    /// }
    ///
    /// connection.create_aggregate("product", 1, FunctionFlags::DETERMINISTIC, Product)?;
    /// let mut statement = connection.prepare("SELECT product(value) FROM generate_series(1, 5)")?;
    /// let mut rows = connection.query(&mut statement)?;
    /// assert_eq!(rows.next()?.unwrap().get(0), ValueRef::Int(120));
    /// # Ok::<(), shoal_sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Connection::create_function`].
    pub fn create_aggregate(
        &mut self,
        name: &str,
        arguments: impl Into<ArgumentCount>,
        flags: FunctionFlags,
        aggregate: impl Aggregate,
    ) -> Result<(), Error> {
        let count = checked(name, arguments.into())?;
        self.schemas.own.add_aggregate(name, count, flags, aggregate);
        self.plan_again();
        Ok(())
    }

    /// Forgets the program's function or aggregate of a name and number of arguments; false when
    /// there is none. A built-in function of the name is found again.
    pub fn remove_function(&mut self, name: &str, arguments: impl Into<ArgumentCount>) -> bool {
        let removed = self.schemas.own.remove(name, arguments.into());
        self.plan_again();
        removed
    }

    /// Makes an order of texts known to the statements of this connection. `COLLATE` names the
    /// order; columns and indexes of the file with its name become usable. Takes the place of a
    /// collation of the same name, in any case, `NOCASE` and `RTRIM` too; indexes sorted by another
    /// order need a `REINDEX` then.
    ///
    /// `compare` is given texts in UTF-8, perhaps broken, and has to be a total order. Its memory,
    /// captures included, is given back when the process ends: create a collation when a connection
    /// is opened, not for each statement.
    ///
    /// ```
    /// # use shoal_sql::{Connection, ValueRef};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// connection.create_collation("unicode_nocase", |a, b| {
    ///     let folded = |text: &[u8]| String::from_utf8_lossy(text).to_lowercase();
    ///     folded(a).cmp(&folded(b))
    /// })?;
    /// let mut statement = connection.prepare("SELECT 'ÄRGER' = 'ärger' COLLATE unicode_nocase")?;
    /// let mut rows = connection.query(&mut statement)?;
    /// assert_eq!(rows.next()?.unwrap().get(0), ValueRef::Int(1));
    /// # Ok::<(), shoal_sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for an empty name and for `BINARY`, the order behind everything else.
    pub fn create_collation(
        &mut self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Result<(), Error> {
        if name.is_empty() || name.eq_ignore_ascii_case("BINARY") {
            return Err(Error::Misuse { what: "a collation of that name cannot be created" });
        }
        self.schemas.own.add_collation(OwnCollation::define(name, compare));
        self.collations_changed();
        Ok(())
    }

    /// Forgets the program's collation of a name; false when there is none.
    pub fn remove_collation(&mut self, name: &str) -> bool {
        let removed = self.schemas.own.remove_collation(name);
        self.collations_changed();
        removed
    }

    fn collations_changed(&mut self) {
        self.control.collations = Arc::clone(self.schemas.own.collations());
        self.plan_again();
    }

    /// Statements are planned again: names may mean something else.
    pub(super) fn plan_again(&mut self) {
        self.schemas.forget();
        self.plans = Plans::default();
    }
}

fn checked(name: &str, count: ArgumentCount) -> Result<ArgumentCount, Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::Misuse { what: "a function's name has 1 to 255 bytes" });
    }
    match count {
        ArgumentCount::Exactly(count) if count > ARGUMENTS_MAX => {
            Err(Error::Misuse { what: "a function takes at most 1,000 arguments" })
        }
        count => Ok(count),
    }
}
