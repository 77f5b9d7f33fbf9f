//! Rows as columns: Parquet and Arrow IPC.
//!
//! Columns of SQL hold values of any type, those of the two forms values of one. The rows are read
//! twice within one read transaction: first for the types, then to be written, a batch at a time.
//! Into a file they are written at once as the first rows suggest, and anew only where that fails.

#[cfg(feature = "columnar")]
mod write;

#[cfg(feature = "columnar")]
pub(crate) use write::export;

/// The forms with columns beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columnar {
    /// Compressed by Snappy, which every reader knows.
    Parquet,
    /// An Arrow file, with a directory of its batches.
    Arrow,
    ArrowStream,
}

/// Refuses: the form is left out of the build.
#[cfg(not(feature = "columnar"))]
pub(crate) fn export(
    _: &mut dyn crate::query::Reads,
    _: &str,
    _: &str,
    kind: Columnar,
    _: &mut (impl std::io::Write + Send),
) -> Result<(), crate::failure::Failure> {
    Err(crate::import::without_columnar(match kind {
        Columnar::Parquet => crate::import::Columnar::Parquet,
        Columnar::Arrow | Columnar::ArrowStream => crate::import::Columnar::Arrow,
    }))
}
