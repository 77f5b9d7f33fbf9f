//! Prepared statements between their preparation and their end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, UnionFields, UnionMode};
use prost::Message;
use shoal_arrow::Cells;
use shoal_sql::{Statement, Value};
use tonic::Status;

use crate::question::{Question, Set};
use crate::readers::Caller;

/// Statements kept for one caller; the oldest make room.
const STATEMENTS_MAX: usize = 256;
/// Callers with statements.
const CALLERS_MAX: usize = 64;
/// Bytes of the values bound to one statement: tickets carry them.
const BOUND_MAX: usize = 2 << 20;
/// Bytes of all statements of a caller, with their values.
const CALLER_BYTES: usize = 16 << 20;

/// Prepared statements by caller and handle: a handle told to one caller is unknown to every other,
/// and no caller pushes out statements of another.
#[derive(Default)]
pub(crate) struct PreparedStatements(Mutex<VecDeque<OfCaller>>);

/// A caller's statements, the oldest first.
type OfCaller = (Caller, VecDeque<(Vec<u8>, Question)>);

impl PreparedStatements {
    /// Keeps a statement under an unguessable handle.
    ///
    /// # Errors
    /// Statements of more bytes than a caller may keep.
    pub(crate) fn put(
        &self,
        caller: &Caller,
        handle: Vec<u8>,
        question: Question,
    ) -> Result<(), Status> {
        let mut all = self.lock();
        check_bytes(&all, caller, question.encoded_len())?;
        let place = all.iter().position(|(known, _)| known == caller);
        let (_, mut kept) = place.and_then(|place| all.remove(place)).unwrap_or_default();
        if kept.len() >= STATEMENTS_MAX {
            kept.pop_front();
        }
        kept.push_back((handle, question));
        if all.len() >= CALLERS_MAX {
            all.pop_front();
        }
        all.push_back((caller.clone(), kept));
        Ok(())
    }

    /// The statement of a handle with the values bound to it.
    ///
    /// # Errors
    /// A handle closed, never told to this caller, or dropped to make room.
    pub(crate) fn get(&self, caller: &Caller, handle: &[u8]) -> Result<Question, Status> {
        let mut all = self.lock();
        let question = find(&mut all, caller, handle).cloned();
        question.ok_or_else(unknown)
    }

    /// Binds other values.
    ///
    /// # Errors
    /// As [`PreparedStatements::get`]; values of more bytes than a statement or a caller may keep.
    pub(crate) fn bind(
        &self,
        caller: &Caller,
        handle: &[u8],
        sets: Vec<Set>,
    ) -> Result<(), Status> {
        let bytes: usize = sets.iter().map(Message::encoded_len).sum();
        let mut all = self.lock();
        if bytes > BOUND_MAX {
            let why = format!("values of {bytes} bytes: a statement takes {BOUND_MAX}");
            return Err(Status::resource_exhausted(why));
        }
        check_bytes(&all, caller, bytes)?;
        let question = find(&mut all, caller, handle).ok_or_else(unknown)?;
        question.sets = sets;
        Ok(())
    }

    /// Forgets a statement.
    pub(crate) fn close(&self, caller: &Caller, handle: &[u8]) {
        let mut all = self.lock();
        let kept = all.iter_mut().find(|(known, _)| known == caller);
        if let Some((_, kept)) = kept {
            kept.retain(|(known, _)| known != handle);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<OfCaller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses statements and values beyond the bounds of a caller.
fn check_bytes(all: &VecDeque<OfCaller>, caller: &Caller, more: usize) -> Result<(), Status> {
    let kept = all.iter().find(|(known, _)| known == caller);
    let before = kept.map_or(0, |(_, kept)| kept.iter().map(|(_, it)| it.encoded_len()).sum());
    match before + more <= CALLER_BYTES {
        true => Ok(()),
        false => Err(Status::resource_exhausted(format!(
            "prepared statements of one client take {CALLER_BYTES} bytes together: close some"
        ))),
    }
}

fn find<'k>(
    all: &'k mut VecDeque<OfCaller>,
    caller: &Caller,
    handle: &[u8],
) -> Option<&'k mut Question> {
    let (_, kept) = all.iter_mut().find(|(known, _)| known == caller)?;
    kept.iter_mut().find(|(known, _)| known == handle).map(|(_, question)| question)
}

fn unknown() -> Status {
    Status::not_found("the prepared statement is closed, or was never prepared: prepare it again")
}

/// The parameters of a statement, as Arrow's schema: SQL's may hold a value of any type, which is a
/// union of Arrow's.
pub(crate) fn parameters(statement: &Statement) -> Schema {
    let members = [
        ("text", DataType::Utf8),
        ("blob", DataType::Binary),
        ("integer", DataType::Int64),
        ("real", DataType::Float64),
    ];
    let members = members.map(|(name, kind)| Field::new(name, kind, true));
    let union = UnionFields::from_fields(members);
    let any = DataType::Union(union, UnionMode::Dense);
    let fields = (1..=statement.parameter_count()).map(|place| {
        let name = statement.parameter_name(place).map(str::to_owned);
        Field::new(name.unwrap_or_else(|| format!("?{place}")), any.clone(), true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// A set of values for each row of a batch, a value for each column.
///
/// # Errors
/// A value beyond SQL's types.
pub(crate) fn sets(batch: &RecordBatch) -> Result<Vec<Set>, ArrowError> {
    let columns: Vec<Vec<Value>> =
        batch.columns().iter().map(|column| values(column.as_ref())).collect::<Result<_, _>>()?;
    let rows = 0..batch.num_rows();
    Ok(rows.map(|row| Set::new(columns.iter().map(|column| column[row].clone()))).collect())
}

fn values(column: &dyn Array) -> Result<Vec<Value>, ArrowError> {
    let rows = 0..column.len();
    if let DataType::Union(..) = column.data_type() {
        let union = column.as_union();
        return rows.map(|row| Ok(Value::from(Cells::new(&union.value(row))?.value(0)))).collect();
    }
    let cells = Cells::new(&column.slice(0, column.len()))?;
    Ok(rows.map(|row| Value::from(cells.value(row))).collect())
}
