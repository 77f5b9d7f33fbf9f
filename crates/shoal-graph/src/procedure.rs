//! Procedures, run by `CALL`.

use crate::error::Result;
use crate::graph::Graph;
use crate::value::Value;

/// The kind of an argument's values; null always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any.
    Any,
    /// True or false.
    Boolean,
    /// An integer.
    Integer,
    /// A float; an integer becomes one.
    Float,
    /// An integer or a float.
    Number,
    /// A string.
    Text,
    /// A list.
    List,
    /// A map.
    Map,
    /// A node.
    Node,
}

/// An argument of a procedure.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name, which is also that of the parameter read where `CALL` has no parentheses; one that
    /// is missing leaves an optional argument out.
    pub name: String,
    /// The kind of value.
    pub kind: ValueKind,
    /// True lets a call leave the argument out, and those after it.
    pub is_optional: bool,
}

/// A procedure's arguments and results.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The arguments.
    pub inputs: Vec<Input>,
    /// Names of the results, in the order of the values of a row.
    pub outputs: Vec<String>,
}

impl Signature {
    /// The least number of arguments of a call.
    pub(crate) fn required(&self) -> usize {
        self.inputs.iter().filter(|input| !input.is_optional).count()
    }
}

/// A query's bounds on time and memory, as a procedure meets them.
pub trait Bounds {
    /// Counts a step of the work.
    ///
    /// # Errors
    /// The query's time is over.
    fn tick(&self) -> Result<()>;

    /// Looks at the time at once, where [`Bounds::tick`] may look every so many steps.
    ///
    /// # Errors
    /// The query's time is over.
    fn check(&self) -> Result<()> {
        self.tick()
    }

    /// Counts bytes held until the procedure returns, its rows among them.
    ///
    /// # Errors
    /// The query holds more than it may.
    fn keep(&self, bytes: usize) -> Result<()>;
}

/// No bounds, for work that is bounded by itself.
pub(crate) struct Unbounded;

impl Bounds for Unbounded {
    fn tick(&self) -> Result<()> {
        Ok(())
    }

    fn keep(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

/// A set of procedures.
pub trait Procedures {
    /// The signature of a procedure, or nothing where none has the name.
    fn signature(&self, name: &str) -> Option<Signature>;

    /// Runs a procedure; gives its rows. Long work ticks, and counts its memory before taking it.
    ///
    /// # Errors
    /// The procedure's own refusals, and those of `bounds`.
    fn call(
        &self,
        name: &str,
        args: &[Value],
        graph: &dyn Graph,
        bounds: &dyn Bounds,
    ) -> Result<Vec<Vec<Value>>>;
}

/// No procedures.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProcedures;

impl Procedures for NoProcedures {
    fn signature(&self, _: &str) -> Option<Signature> {
        None
    }

    fn call(
        &self,
        name: &str,
        _: &[Value],
        _: &dyn Graph,
        _: &dyn Bounds,
    ) -> Result<Vec<Vec<Value>>> {
        Err(crate::Error::argument(format!("no procedure is named {name}")))
    }
}
