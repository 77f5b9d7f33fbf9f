//! One row between its record and its values.

use shoal_store::{Record, Transaction, ValueRef, encode_record, encode_values};

use crate::Error;
use crate::exec::RowExpr;
use crate::schema::{Index, IndexSource, Table};
use crate::session::Session;
use crate::value::{Affinity, Value};

/// A row's values, one per column of the table, and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// 0 in a table without rowid.
    pub(crate) rowid: i64,
    /// The column that is the rowid's other name holds it, too.
    pub(crate) values: Vec<Value>,
}

/// What an expression over a row is evaluated with, beside the row.
#[derive(Clone, Copy)]
pub(crate) struct RowEnv<'a> {
    pub(crate) transaction: &'a Transaction,
    pub(crate) session: &'a dyn Session,
}

/// What names one row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowKey {
    Rowid(i64),
    /// The columns of the primary key, in its order.
    Key(Vec<Value>),
}

impl RowKey {
    /// Bytes that are equal for equal keys.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            RowKey::Rowid(rowid) => encode_record(&[ValueRef::Int(*rowid)], 4, &mut bytes),
            RowKey::Key(values) => {
                let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                encode_record(&values, 4, &mut bytes);
            }
        }
        bytes
    }
}

impl Row {
    /// The value of an expression over the row.
    ///
    /// # Errors
    /// What functions raise.
    pub(crate) fn eval(&self, expr: &RowExpr, env: &RowEnv<'_>) -> Result<Value, Error> {
        expr.eval(self.rowid, &self.values, env.session)
    }

    /// What names this row.
    pub(crate) fn key(&self, table: &Table) -> RowKey {
        if table.without_rowid {
            let parts = table.primary_key.iter();
            RowKey::Key(parts.map(|part| self.values[part.column].clone()).collect())
        } else {
            RowKey::Rowid(self.rowid)
        }
    }

    /// Gives every row of a table, in the order of the tree; virtual columns are NULL.
    ///
    /// # Errors
    /// [`Error::Store`] for a broken tree or record; whatever `see` says.
    pub(crate) fn each(
        table: &Table,
        transaction: &Transaction,
        mut see: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if table.without_rowid {
            let mut cursor = transaction.index(table.root)?;
            let mut more = cursor.first()?;
            while more {
                see(Row::decode(table, 0, cursor.payload()?)?)?;
                more = cursor.next()?;
            }
        } else {
            let mut cursor = transaction.table(table.root)?;
            let mut more = cursor.first()?;
            while more {
                let rowid = cursor.rowid()?;
                see(Row::decode(table, rowid, cursor.payload()?)?)?;
                more = cursor.next()?;
            }
        }
        Ok(())
    }

    /// The row in a table's record. Virtual columns are NULL until they are computed.
    ///
    /// # Errors
    /// [`Error::Store`] for a broken record.
    pub(crate) fn decode(table: &Table, rowid: i64, payload: &[u8]) -> Result<Row, Error> {
        let mut stored = Vec::with_capacity(table.stored_columns);
        for value in Record::new(payload).map_err(shoal_store::Error::from)?.values() {
            stored.push(value.map_err(shoal_store::Error::from)?);
        }
        let values = table.columns.iter().enumerate().map(|(index, column)| {
            if table.rowid_alias == Some(index) {
                return Value::Int(rowid);
            }
            let Some(place) = column.stored else { return Value::Null };
            match stored.get(place) {
                Some(value) => expanded(*value, column.affinity),
                None => column.missing_value.clone(),
            }
        });
        Ok(Row { rowid, values: values.collect() })
    }

    /// Appends the table's record to `out`.
    pub(crate) fn encode(&self, table: &Table, format: u32, out: &mut Vec<u8>) {
        if table.without_rowid {
            return encode_record(&self.keyed_record(table), format, out);
        }
        // Of a table with rowids the columns are stored in their order, virtual ones left out.
        let stored = table.columns.iter().zip(&self.values).enumerate();
        let values = stored.filter(|(_, (column, _))| column.stored.is_some());
        let values =
            values.map(|(index, (column, value))| match table.rowid_alias == Some(index) {
                true => ValueRef::Null,
                false => compact(value, column.affinity),
            });
        encode_values(values, format, out);
    }

    /// The values of the record of a table without rowid, in its order.
    fn keyed_record<'r>(&'r self, table: &Table) -> Vec<ValueRef<'r>> {
        let mut record = vec![ValueRef::Null; table.stored_columns];
        for (index, column) in table.columns.iter().enumerate() {
            if let Some(place) = column.stored {
                record[place] = compact(&self.values[index], column.affinity);
            }
        }
        // A column that is in the key twice, with two collations, is also stored twice.
        for (place, part) in table.primary_key.iter().enumerate() {
            let affinity = table.columns[part.column].affinity;
            record[place] = compact(&self.values[part.column], affinity);
        }
        record
    }

    /// The values of an index's entry; `computed` holds those of its expressions, in order.
    pub(crate) fn entry<'r>(
        &'r self,
        table: &'r Table,
        index: &'r Index,
        computed: &'r [Value],
    ) -> impl Iterator<Item = ValueRef<'r>> + Clone {
        let mut computed = computed.iter();
        index.columns.iter().map(move |column| match column.source {
            IndexSource::Rowid => ValueRef::Int(self.rowid),
            IndexSource::Column(column) if table.rowid_alias == Some(column) => {
                ValueRef::Int(self.rowid)
            }
            IndexSource::Column(column) => {
                compact(&self.values[column], table.columns[column].affinity)
            }
            IndexSource::Expr(_) => computed.next().map_or(ValueRef::Null, Value::as_ref),
        })
    }
}

/// A real column's integral values are stored as integers of up to 48 bits, as SQLite does.
fn compact(value: &Value, affinity: Affinity) -> ValueRef<'_> {
    const MAX: f64 = ((1i64 << 47) - 1) as f64;
    match value {
        Value::Real(real)
            if affinity == Affinity::Real && real.trunc() == *real && real.abs() <= MAX =>
        {
            ValueRef::Int(*real as i64)
        }
        value => value.as_ref(),
    }
}

/// A stored value in the form [`compact`] gives, whoever stored it.
pub(crate) fn compacted(value: ValueRef<'_>, affinity: Affinity) -> ValueRef<'_> {
    let real = match value {
        ValueRef::Int(int) if affinity == Affinity::Real => int as f64,
        ValueRef::Real(real) if affinity == Affinity::Real => real,
        value => return value,
    };
    match compact(&Value::Real(real), affinity) {
        ValueRef::Int(int) => ValueRef::Int(int),
        _ => ValueRef::Real(real),
    }
}

/// The value that [`compact`] made.
fn expanded(value: ValueRef<'_>, affinity: Affinity) -> Value {
    match value {
        ValueRef::Int(int) if affinity == Affinity::Real => Value::Real(int as f64),
        value => Value::from(value),
    }
}

/// The row that an index's entry belongs to.
///
/// # Errors
/// [`Error::Store`] for a broken record.
pub(crate) fn key_of_entry(table: &Table, index: &Index, payload: &[u8]) -> Result<RowKey, Error> {
    let mut values = Vec::with_capacity(index.columns.len());
    for value in Record::new(payload).map_err(shoal_store::Error::from)?.values() {
        values.push(value.map_err(shoal_store::Error::from)?);
    }
    let broken = || {
        let why = "does not name its row, columns";
        let corrupt = shoal_store::Corrupt::new("index entry", why, values.len() as u64);
        Error::Store(shoal_store::Error::from(corrupt))
    };
    if !table.without_rowid {
        return match values.last() {
            Some(ValueRef::Int(rowid)) if values.len() == index.columns.len() => {
                Ok(RowKey::Rowid(*rowid))
            }
            _ => Err(broken()),
        };
    }
    let place = |part: &crate::schema::KeyPart| {
        let same = |column: &crate::schema::IndexColumn| {
            matches!(column.source, IndexSource::Column(column) if column == part.column)
                && column.collation == part.collation
        };
        let value = index.columns.iter().position(same).and_then(|place| values.get(place));
        let affinity = table.columns[part.column].affinity;
        value.map(|value| expanded(*value, affinity)).ok_or_else(broken)
    };
    table.primary_key.iter().map(place).collect::<Result<_, _>>().map(RowKey::Key)
}
