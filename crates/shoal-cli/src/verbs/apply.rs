//! `shoal apply`: a changeset or patchset applied to a database.

use shoal_diff::{Answer, ApplyOptions, Conflict, ConflictKind, apply, invert};
use shoal_store::Access;

use crate::args::exchange::{ApplyArgs, OnConflict};
use crate::exchange::DocumentTables;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::query;
use crate::verbs::changeset;

pub(crate) fn run(args: &ApplyArgs) -> Result<(), Failure> {
    let mut bytes = changeset::read(&args.file)?;
    if args.invert {
        bytes = invert(&bytes).map_err(|error| Failure::at(args.file.display(), error))?;
    }
    if !open::exists(&args.database)? {
        return Err(Failure::at(args.database.display(), "no such file"));
    }
    let mut connection = open::connection(&args.database, Access::Create)?;
    if args.foreign_keys {
        query::run(&mut connection, "PRAGMA foreign_keys=ON").map_err(Failure::new)?;
    }
    let documents = DocumentTables::of(&mut [&mut connection])?;
    let is_left_out = |table: &str| documents.has(table);
    let mut answer = |conflict: &Conflict<'_>| match (args.on_conflict, conflict.kind) {
        (OnConflict::Abort, _) => Answer::Abort,
        (OnConflict::Replace, ConflictKind::Data | ConflictKind::Conflict) => Answer::Replace,
        (OnConflict::Replace, ConflictKind::Constraint) => Answer::Abort,
        _ => Answer::Omit,
    };
    let options = ApplyOptions { is_left_out: Some(&is_left_out) };
    let applied = apply(&mut connection, &bytes, &options, &mut answer);
    let applied = applied.map_err(|error| open::about(&args.database, &error))?;
    for (table, why) in &applied.skipped {
        out::note(format_args!("left out: the changes of table {table}: {why}"));
    }
    if let Some(path) = &args.notes {
        shoal_vfs::replace_file(path, &applied.rebase).map_err(Failure::new)?;
    }
    let counts = applied.counts;
    out::note(format_args!(
        "{}: {} inserted, {} updated, {} deleted; {} conflicts left out, {} replaced",
        args.database.display(),
        counts.inserted,
        counts.updated,
        counts.deleted,
        applied.omitted,
        applied.replaced
    ));
    Ok(())
}
