//! `shoal merge`: two descendants of one database made one.

use std::path::Path;

use shoal_diff::{MergeOptions, Merged, merge};
use shoal_store::Access;

use crate::args::exchange::{MergeDatabasesArgs, Prefer};
use crate::backup;
use crate::exchange::{DocumentTables, merge_documents};
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(args: &MergeDatabasesArgs) -> Result<(), Failure> {
    let ours = match &args.output {
        None => &args.ours,
        Some(output) => {
            if open::exists(output)? {
                return Err(Failure::at(output.display(), "exists already"));
            }
            let connection = open::connection(&args.ours, Access::ReadOnly)?;
            backup::to_file(connection.store(), output)?;
            output
        }
    };
    let prefers_theirs = args.prefer == Prefer::Theirs;
    let conflicts = databases(&args.base, ours, &args.theirs, prefers_theirs)?;
    match conflicts {
        0 => Ok(()),
        _ => Err(Failure::reported()),
    }
}

/// Merges a database into `ours`, and reports the counts; gives the number of conflicts.
pub(crate) fn databases(
    base: &Path,
    ours: &Path,
    theirs: &Path,
    prefers_theirs: bool,
) -> Result<usize, Failure> {
    for path in [base, ours, theirs] {
        if !open::exists(path)? {
            return Err(Failure::at(path.display(), "no such file"));
        }
    }
    let merged = rows(base, ours, theirs, prefers_theirs)?;
    let documents = merge_documents(theirs, ours)?;
    for (table, why) in &merged.left_out {
        out::note(format_args!("left out: table {table} {why}"));
    }
    let counts = merged.counts;
    out::note(format_args!(
        "{}: {} rows inserted, {} updated, {} deleted; {} definitions, {documents} documents",
        ours.display(),
        counts.inserted,
        counts.updated,
        counts.deleted,
        merged.objects
    ));
    let conflicts = merged.conflicts.len();
    if conflicts > 0 {
        let why = format_args!("{conflicts} conflicts, told of in the table merge_conflict");
        out::error(format_args!("{}: {why}", ours.display()));
    }
    Ok(conflicts)
}

fn rows(base: &Path, ours: &Path, theirs: &Path, prefers_theirs: bool) -> Result<Merged, Failure> {
    let mut base = open::connection(base, Access::ReadOnly)?;
    let mut into = open::connection(ours, Access::Create)?;
    let mut from = open::connection(theirs, Access::ReadOnly)?;
    let documents = DocumentTables::of(&mut [&mut base, &mut into, &mut from])?;
    let is_left_out = |table: &str| documents.has(table);
    let options = MergeOptions { prefers_theirs, is_left_out: Some(&is_left_out) };
    merge(&mut base, &mut into, &mut from, &options).map_err(|error| open::about(ours, &error))
}
