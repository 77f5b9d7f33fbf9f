//! The common parts of document chunks and bundles: actors, and columns, deflated or not.

use super::compressed::{InflateError, Inflater};
use crate::column::leb128::Reader;
use crate::column::spec::{ColumnSpec, RawColumn};
use crate::{ActorId, ChunkType, Error, Fault, Limits};

/// # Errors
/// [`Error::Limit`] for more than `max` of `what`.
pub(super) fn within(
    chunk: ChunkType,
    count: u64,
    max: u32,
    what: &'static str,
) -> Result<(), Error> {
    if count <= u64::from(max) {
        Ok(())
    } else {
        Err(Error::Limit { chunk, what, max: u64::from(max) })
    }
}

/// Reads the actors, in ascending order.
pub(super) fn read_actors(reader: &mut Reader<'_>) -> Result<Box<[ActorId]>, Fault> {
    let count = reader.count(1)?;
    let mut actors = Vec::<ActorId>::with_capacity(count);
    for _ in 0..count {
        let actor = ActorId::new(reader.length_prefixed()?);
        if actors.last().is_some_and(|last| *last >= actor) {
            return Err(Fault::Unsorted);
        }
        actors.push(actor);
    }
    Ok(actors.into())
}

/// Copies or inflates each column to the place given by `place`.
pub(super) fn load<const N: usize>(
    chunk: ChunkType,
    (table_part, data_part): (&'static str, &'static str),
    table: &[RawColumn],
    data: &[u8],
    place: impl Fn(ColumnSpec) -> Option<usize>,
    budget: &mut u64,
    limits: &Limits,
) -> Result<[Box<[u8]>; N], Error> {
    let in_part = |part, fault| Error::Corrupt { chunk, part, row: None, fault };
    let mut columns: [Box<[u8]>; N] = std::array::from_fn(|_| Box::default());
    let mut inflater = None;
    for column in table {
        let bytes = &data[column.range.clone()];
        // An unknown column cannot be kept: rebuilt changes would lack it.
        let index = place(column.spec.inflated())
            .ok_or_else(|| in_part(table_part, Fault::UnknownColumn(column.spec.0)))?;
        columns[index] = if column.spec.is_deflated() {
            let max = (*budget).min(u64::from(u32::MAX));
            let inflater = inflater.get_or_insert_with(Inflater::new);
            let inflated = inflater.inflate(bytes, max).map_err(|error| match error {
                InflateError::Fault(fault) => in_part(data_part, fault),
                InflateError::TooLong => Error::Limit {
                    chunk,
                    what: "inflated bytes",
                    max: limits.max_decompressed_bytes,
                },
            })?;
            *budget -= inflated.len() as u64;
            inflated
        } else {
            bytes.into()
        };
    }
    Ok(columns)
}
