//! The rows of a question: looked at for the types of its columns, and sent in batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shoal_arrow::{BatchBuilder, Seen};
use shoal_sql::{Row, Statement, Value};
use tonic::Status;

use crate::Types;
use crate::question::Question;
use crate::readers::Reader;
use crate::shape::{Shape, Told};
use crate::stop::Stop;

/// Bytes of rows kept from the look at a result, for whoever fetches it next.
const KEPT_BYTES: usize = 4 << 20;
/// Rows between two looks at the end of the statement.
const ROWS: usize = 1024;

/// The findings of a look at a question.
pub(crate) struct Look {
    pub(crate) shape: Shape,
    /// All rows, where there was a need to read them and they are few.
    pub(crate) rows: Option<Vec<RecordBatch>>,
}

/// A part of an answer on its way to the client.
pub(crate) enum Part {
    /// Always the first one, but for failures.
    Schema(SchemaRef),
    Rows(RecordBatch),
    /// The last one. A stream without an end is no answer.
    End,
    Failed(Status),
}

/// Prepares a query.
///
/// # Errors
/// The SQL's own words; the refusal of a statement that gives no rows.
pub(crate) fn prepare(reader: &mut Reader, sql: &str) -> Result<Statement, Status> {
    let statement = reader.prepare(sql).map_err(|error| reader.fault(&error, sql))?;
    match statement.column_count() > 0 && statement.is_read_only() {
        true => Ok(statement),
        false => Err(Status::invalid_argument(
            "the statement gives no rows: this server answers SELECT, WITH, VALUES, EXPLAIN and \
             PRAGMAs that tell",
        )),
    }
}

/// Finds the types of a question's columns, by its rows where declarations do not tell all of them.
///
/// # Errors
/// Errors of the statement; the reason of its end.
pub(crate) fn look(
    reader: &mut Reader,
    question: &Question,
    types: Types,
    stop: &Stop,
) -> Result<Look, Status> {
    let mut statement = prepare(reader, &question.sql)?;
    check_sets(&statement, question)?;
    let told = Told::of(&statement, types);
    let untold = told.untold();
    let mut seen = vec![Seen::default(); told.len()];
    if untold.is_empty() {
        return Ok(Look { shape: told.shape(&seen), rows: None });
    }
    let (mut kept, mut bytes, mut count) = (Vec::new(), 0, 0_usize);
    each_row(reader, &mut statement, question, stop, &mut |row| {
        for &place in &untold {
            seen[place].value(row.get(place));
        }
        count += 1;
        if bytes <= KEPT_BYTES {
            for value in row.values() {
                let value = Value::from(value);
                bytes += size(&value);
                kept.push(value);
            }
            if bytes > KEPT_BYTES {
                kept = Vec::new();
            }
        }
        Ok(true)
    })?;
    let shape = told.shape(&seen);
    if bytes > KEPT_BYTES {
        return Ok(Look { shape, rows: None });
    }
    let mut rows = Vec::new();
    let mut builder = BatchBuilder::new(shape.schema.clone(), &shape.fits);
    let columns = told.len();
    for row in 0..count {
        let pushed = builder.push_by(|column| kept[row * columns + column].as_ref());
        if pushed.map_err(|unfit| unfitting(&unfit, types))? {
            rows.push(builder.finish());
        }
    }
    if !builder.is_empty() {
        rows.push(builder.finish());
    }
    Ok(Look { shape, rows: Some(rows) })
}

/// Sends the schema of a question, and then its rows in columns of the types of its ticket, until
/// nobody wants more.
///
/// # Errors
/// Errors of the statement; a value unfit for its column; the reason of the end.
pub(crate) fn send(
    reader: &mut Reader,
    question: &Question,
    kinds: &[u8],
    types: Types,
    stop: &Stop,
    send: &mut dyn FnMut(Part) -> bool,
) -> Result<(), Status> {
    let mut statement = prepare(reader, &question.sql)?;
    check_sets(&statement, question)?;
    let shape = Told::of(&statement, types).shape_of(kinds);
    let Some(shape) = shape else {
        return Err(Status::aborted(
            "the tables have changed since the query was asked: ask again",
        ));
    };
    let mut wants_more = send(Part::Schema(shape.schema.clone()));
    let mut builder = BatchBuilder::new(shape.schema, &shape.fits);
    each_row(reader, &mut statement, question, stop, &mut |row| {
        if builder.push(row).map_err(|unfit| unfitting(&unfit, types))? {
            wants_more = send(Part::Rows(builder.finish()));
        }
        Ok(wants_more)
    })?;
    if wants_more && !builder.is_empty() {
        send(Part::Rows(builder.finish()));
    }
    Ok(())
}

/// Gives each row of a question to `take`, until `take` is false.
fn each_row(
    reader: &mut Reader,
    statement: &mut Statement,
    question: &Question,
    stop: &Stop,
    take: &mut dyn FnMut(&Row<'_>) -> Result<bool, Status>,
) -> Result<(), Status> {
    let sql = question.sql.as_str();
    if question.sets.len() > 1 {
        // All sets read one state.
        reader.hold().map_err(|error| reader.fault(&error, sql))?;
    }
    let once = [crate::question::Set::default()];
    let sets = if question.sets.is_empty() { &once[..] } else { &question.sets };
    for set in sets {
        statement.clear_bindings();
        for (place, value) in set.values().enumerate() {
            statement.bind(place + 1, value).map_err(|error| reader.fault(&error, sql))?;
        }
        match run(reader, statement, stop, take) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(Fault::Sql(error)) => {
                let fault = reader.fault(&error, sql);
                return Err(stop.reason().unwrap_or(fault));
            }
            Err(Fault::Told(status)) => return Err(stop.reason().unwrap_or(*status)),
        }
    }
    Ok(())
}

enum Fault {
    Sql(shoal_sql::Error),
    Told(Box<Status>),
}

impl From<shoal_sql::Error> for Fault {
    fn from(error: shoal_sql::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Fault {
        Fault::Told(Box::new(status))
    }
}

/// Gives the rows of a bound statement to `take`; false once `take` is.
fn run(
    reader: &mut Reader,
    statement: &mut Statement,
    stop: &Stop,
    take: &mut dyn FnMut(&Row<'_>) -> Result<bool, Status>,
) -> Result<bool, Fault> {
    stop.check()?;
    let mut rows = reader.query(statement)?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if !take(&row)? {
            return Ok(false);
        }
        count += 1;
        if count % ROWS == 0 {
            stop.check()?;
        }
    }
    Ok(true)
}

/// Refuses values for other parameters than the statement has.
fn check_sets(statement: &Statement, question: &Question) -> Result<(), Status> {
    let asked = statement.parameter_count();
    let mut given = question.sets.iter().map(|set| set.values().count());
    match given.find(|&given| given != asked) {
        Some(given) => Err(Status::invalid_argument(format!(
            "the statement has {asked} parameters, and {given} values are given for them"
        ))),
        None => Ok(()),
    }
}

fn unfitting(unfit: &shoal_arrow::Unfit, types: Types) -> Status {
    Status::failed_precondition(match types {
        Types::Declared => format!(
            "{unfit}: typeof() finds the row, CAST gives it another type, and shoal flight \
             --types values takes types from values alone"
        ),
        Types::Values => format!("{unfit}: rows have changed since the query was asked; ask again"),
    })
}

/// The bytes of a value in memory, about.
fn size(value: &Value) -> usize {
    let behind = match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + behind
}
