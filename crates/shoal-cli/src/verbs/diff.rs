//! `shoal diff`: the differences of two databases.

use std::io::Write;

use shoal_diff::{
    Changes, DiffOptions, Form, JsonLines, LeftOut, Sink, SqlText, Summary, diff, diff_narrowed,
};
use shoal_sql::Narrowed;
use shoal_store::Access;

use crate::args::exchange::{DiffDatabasesArgs, DiffFormat};
use crate::exchange::DocumentTables;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::query::{rows, text};
use crate::rules;

pub(crate) fn run(args: &DiffDatabasesArgs) -> Result<(), Failure> {
    match &args.output {
        None => {
            let mut out = out::stdout();
            write(args, &mut out)?;
            Ok(out.flush()?)
        }
        Some(path) => crate::replace::replace(path, |out| write(args, out)),
    }
}

fn write(args: &DiffDatabasesArgs, out: &mut impl Write) -> Result<(), Failure> {
    let mut a = open::connection(&args.a, Access::ReadOnly)?;
    let mut b = open::connection(&args.b, Access::ReadOnly)?;
    let documents = DocumentTables::of(&mut [&mut a, &mut b])?;
    let is_left_out = |table: &str| documents.has(table);
    let options = DiffOptions {
        tables: args.tables.clone(),
        skips_rows: args.schema,
        skips_definitions: args.rows,
        is_left_out: Some(&is_left_out),
    };
    let Some(by) = args.by.given() else {
        differences(args, out, &mut |sink| diff(&mut a, &mut b, &options, sink))?;
        let heads = |path| {
            let mut database = open::database(path, Access::ReadOnly)?;
            let found = database.documents().map_err(|error| open::about(path, &error))?;
            let named = found.into_iter().map(|it| (it.name, format!("{:?}", it.heads)));
            Ok::<Vec<(String, String)>, Failure>(named.collect())
        };
        note_documents(&heads(&args.a)?, &heads(&args.b)?);
        return Ok(());
    };
    let entitlement = rules::entitlement(by)?.read_only();
    let mut a = rules::narrowed(a, &args.a, (entitlement.clone(), by.1))?;
    let mut b = rules::narrowed(b, &args.b, (entitlement, by.1))?;
    differences(args, out, &mut |sink| diff_narrowed(&mut a, &mut b, &options, sink))?;
    // Where documents are not granted there are none.
    let heads = |file: &mut Narrowed| {
        let found = rows(file, "SELECT name, heads FROM documents ORDER BY name", &[]);
        let found = found.unwrap_or_default();
        found.iter().map(|row| (text(&row[0]), text(&row[1]))).collect::<Vec<_>>()
    };
    note_documents(&heads(&mut a), &heads(&mut b));
    Ok(())
}

/// Writes the differences that `compare` tells of.
fn differences(
    args: &DiffDatabasesArgs,
    out: &mut impl Write,
    compare: &mut Compare<'_>,
) -> Result<(), Failure> {
    let left_out = match args.format {
        DiffFormat::Sql => {
            let mut text = SqlText::new(&mut *out);
            let left_out = compare(&mut text)?;
            text.finish()?;
            left_out
        }
        DiffFormat::Ndjson => compare(&mut JsonLines::new(&mut *out))?,
        DiffFormat::Changeset => changes(args, Form::Changeset, out, compare)?,
        DiffFormat::Patchset => changes(args, Form::Patchset, out, compare)?,
        DiffFormat::Summary => {
            let mut summary = Summary::default();
            let left_out = compare(&mut summary)?;
            print(&summary, out)?;
            left_out
        }
    };
    for LeftOut { table, why } in left_out {
        out::note(format_args!("left out: table {table} {why}"));
    }
    Ok(())
}

/// Tells a sink of all differences.
type Compare<'c> = dyn FnMut(&mut dyn Sink) -> Result<Vec<LeftOut>, shoal_diff::Error> + 'c;

fn changes(
    args: &DiffDatabasesArgs,
    form: Form,
    out: &mut impl Write,
    compare: &mut Compare<'_>,
) -> Result<Vec<LeftOut>, Failure> {
    let mut changes = Changes::new(form, args.rowids);
    let left_out = compare(&mut changes)?;
    if changes.skipped() > 0 {
        let skipped = changes.skipped();
        out::note(format_args!("left out: {skipped} rows without a primary key"));
    }
    out.write_all(&changes.finish())?;
    Ok(left_out)
}

fn print(summary: &Summary, out: &mut impl Write) -> Result<(), Failure> {
    use shoal_diff::SchemaChange;
    for change in &summary.schema {
        match change {
            SchemaChange::Drop { kind, name } => writeln!(out, "{name}: {kind} only in A")?,
            SchemaChange::Create { kind, name, .. } => writeln!(out, "{name}: {kind} of B")?,
            SchemaChange::Number { name, value } => writeln!(out, "{name}: {value} in B")?,
            SchemaChange::Sequence { .. } => {}
        }
    }
    for (table, rows) in &summary.tables {
        let (inserted, updated, deleted) = (rows.inserted, rows.updated, rows.deleted);
        writeln!(out, "{table}: {inserted} inserted, {updated} updated, {deleted} deleted")?;
    }
    Ok(())
}

/// Notes differing documents: documents are no rows.
fn note_documents(a: &[(String, String)], b: &[(String, String)]) {
    let differing = a.iter().filter(|it| !b.contains(it)).map(|(name, _)| name);
    let new = b.iter().filter(|(name, _)| !a.iter().any(|(known, _)| known == name));
    let names: Vec<&str> = differing.chain(new.map(|(name, _)| name)).map(String::as_str).collect();
    if !names.is_empty() {
        let shown = names[..names.len().min(5)].join(", ");
        out::note(format_args!("{} documents differ: {shown}; see shoal doc diff", names.len()));
    }
}
