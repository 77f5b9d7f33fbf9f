//! Errors of a query, in the classes of the openCypher compatibility kit.

use std::fmt;

/// The class of a fault, as the compatibility kit names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The text is not a query, or is a query without a meaning.
    SyntaxError,
    /// A query asks for what a graph cannot do.
    SemanticError,
    /// A parameter that the query reads was not given.
    ParameterMissing,
    /// A constraint of the graph would not hold afterwards.
    ConstraintVerificationFailed,
    /// A node or relationship was deleted.
    EntityNotFound,
    /// An operation met a value of a wrong type.
    TypeError,
    /// An operation met a value out of its domain.
    ArgumentError,
    /// Overflow, division by zero.
    ArithmeticError,
    /// A procedure is unknown.
    ProcedureError,
    /// A bound on time, memory or size was reached.
    Limit,
    /// The storage beneath the graph failed, or holds what is no graph.
    Storage,
}

/// The time of a fault's discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before any row is read.
    Compile,
    /// While rows are read.
    Runtime,
}

/// A fault of a query: class, phase, the kit's word for it, a sentence and a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    class: ErrorClass,
    phase: Phase,
    detail: &'static str,
    message: String,
    offset: Option<usize>,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A fault found before any row is read, at a byte of the query's text.
    pub(crate) fn compile(
        class: ErrorClass,
        detail: &'static str,
        offset: usize,
        message: impl Into<String>,
    ) -> Error {
        let message = message.into();
        let inner = Inner { class, phase: Phase::Compile, detail, message, offset: Some(offset) };
        Error { inner: Box::new(inner) }
    }

    /// A syntax error.
    pub(crate) fn syntax(detail: &'static str, offset: usize, message: impl Into<String>) -> Error {
        Error::compile(ErrorClass::SyntaxError, detail, offset, message)
    }

    /// A fault found while rows are read.
    pub(crate) fn runtime(
        class: ErrorClass,
        detail: &'static str,
        message: impl Into<String>,
    ) -> Error {
        let message = message.into();
        let inner = Inner { class, phase: Phase::Runtime, detail, message, offset: None };
        Error { inner: Box::new(inner) }
    }

    /// A value of a wrong type, found while rows are read.
    pub(crate) fn value_type(message: impl Into<String>) -> Error {
        Error::runtime(ErrorClass::TypeError, "InvalidArgumentValue", message)
    }

    /// An argument out of its domain, found while rows are read.
    pub(crate) fn argument(message: impl Into<String>) -> Error {
        Error::runtime(ErrorClass::ArgumentError, "InvalidArgumentValue", message)
    }

    /// A bound reached while rows are read.
    pub(crate) fn limit(message: impl Into<String>) -> Error {
        Error::runtime(ErrorClass::Limit, "Limit", message)
    }

    /// A fault of the storage, or of a [`Graph`](crate::Graph) that a program made.
    pub fn storage(message: impl Into<String>) -> Error {
        Error::runtime(ErrorClass::Storage, "Storage", message)
    }

    /// The same fault with a place, where it has none.
    pub(crate) fn at(mut self, offset: usize) -> Error {
        self.inner.offset.get_or_insert(offset);
        self
    }

    /// The class.
    pub fn class(&self) -> ErrorClass {
        self.inner.class
    }

    /// The phase of the fault's discovery.
    pub fn phase(&self) -> Phase {
        self.inner.phase
    }

    /// The kit's word for the fault: `UndefinedVariable`, `InvalidArgumentType`.
    pub fn detail(&self) -> &'static str {
        self.inner.detail
    }

    /// A sentence for a person.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The byte of the query's text at which the fault lies.
    pub fn offset(&self) -> Option<usize> {
        self.inner.offset
    }

    /// The line of `query` with the fault, and a caret beneath its place.
    pub fn caret(&self, query: &str) -> Option<String> {
        let offset = self.inner.offset?.min(query.len());
        let start =
            query.as_bytes()[..offset].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let end = query[start..].find('\n').map_or(query.len(), |at| start + at);
        let line = query.get(start..end)?;
        let column = query.get(start..offset)?.chars().count();
        Some(format!("{}\n{}^", line.replace('\t', " "), " ".repeat(column)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.class {
            ErrorClass::Limit | ErrorClass::Storage => f.write_str(&self.inner.message),
            class => write!(f, "{class:?}: {}: {}", self.inner.detail, self.inner.message),
        }
    }
}

impl std::error::Error for Error {}
