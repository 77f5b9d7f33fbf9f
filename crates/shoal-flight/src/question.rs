//! Questions, their tickets and handles. A ticket is the statement itself, its
//! values and the types of its columns: its bearer is judged as if asking anew, so a
//! forged ticket gets nothing beyond its maker's own rights.

use prost::Message;
use shoal_sql::Value;
use tonic::Status;

/// A statement with its values.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Question {
    #[prost(string, tag = "1")]
    pub(crate) sql: String,
    /// Values of the parameters; the rows of several sets follow each other. Without a set the
    /// statement is run once, its parameters NULL.
    #[prost(message, repeated, tag = "2")]
    pub(crate) sets: Vec<Set>,
}

/// Values of all parameters of a statement.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Set {
    #[prost(message, repeated, tag = "1")]
    cells: Vec<Cell>,
}

/// A value; NULL without any kind.
#[derive(Clone, PartialEq, Message)]
struct Cell {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(int64, tag = "1")]
    Int(i64),
    #[prost(double, tag = "2")]
    Real(f64),
    #[prost(bytes = "vec", tag = "3")]
    Text(Vec<u8>),
    #[prost(bytes = "vec", tag = "4")]
    Blob(Vec<u8>),
}

impl Set {
    /// A set of these values.
    pub(crate) fn new(values: impl IntoIterator<Item = Value>) -> Set {
        let cells = values.into_iter().map(|value| Cell {
            kind: match value {
                Value::Null => None,
                Value::Int(value) => Some(Kind::Int(value)),
                Value::Real(value) => Some(Kind::Real(value)),
                Value::Text(bytes) => Some(Kind::Text(bytes)),
                Value::Blob(bytes) => Some(Kind::Blob(bytes)),
            },
        });
        Set { cells: cells.collect() }
    }

    /// The values.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> {
        self.cells.iter().map(|cell| match &cell.kind {
            None => Value::Null,
            Some(Kind::Int(value)) => Value::Int(*value),
            Some(Kind::Real(value)) => Value::real(*value),
            Some(Kind::Text(bytes)) => Value::Text(bytes.clone()),
            Some(Kind::Blob(bytes)) => Value::Blob(bytes.clone()),
        })
    }
}

/// The ticket of one result.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResultTicket {
    #[prost(message, optional, tag = "1")]
    pub(crate) question: Option<Question>,
    /// The types of the columns ([`Shape`](crate::shape::Shape)).
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) kinds: Vec<u8>,
    /// The unguessable name of rows kept since the question was asked; empty where none are.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) name: Vec<u8>,
}

impl ResultTicket {
    /// Reads a ticket.
    ///
    /// # Errors
    /// Bytes of no ticket of this server.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Question, Vec<u8>, Vec<u8>), Status> {
        let read = ResultTicket::decode(bytes).ok();
        let whole = read.and_then(|ticket| Some((ticket.question?, ticket.kinds, ticket.name)));
        whole.ok_or_else(|| {
            Status::invalid_argument("the ticket is none of this server: ask for the query again")
        })
    }
}
