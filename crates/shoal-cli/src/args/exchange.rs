//! The command lines of differences, changesets and merges.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::rules::AsPrincipal;

/// `shoal diff`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Rows are matched by their primary key, or by the rowid in tables without one; values are the same \
when type and bytes are. sql is a script, for shoal and sqlite3, that makes A's content B's. \
changeset and patchset are the bytes of SQLite's session extension: shoal apply takes them, and so \
does sqlite3changeset_apply. Tables of documents, and projections of them, are left out: shoal doc \
diff compares documents. Pages with equal bytes are passed over.

With --as both files are what a principal sees of them by the rules: hidden rows and columns make no \
difference, the script is for what shoal dump --as gives of A, and a changeset or patchset takes \
tables with all columns visible, none masked or generated.

Examples:
  shoal diff old.db new.db
  shoal diff old.db new.db --as ada --rules rules.json
  shoal diff old.db new.db --format summary
  shoal diff old.db new.db --format changeset -o changes.bin && shoal apply old.db changes.bin")]
pub(crate) struct DiffDatabasesArgs {
    /// The database to start from
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The database to arrive at
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// The form of the differences
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DiffFormat,
    /// Only this table, with its indexes and triggers; may be given again
    #[arg(long = "table", value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    /// Only definitions: no rows
    #[arg(long, conflicts_with = "rows")]
    pub(crate) schema: bool,
    /// Only rows: no definitions
    #[arg(long)]
    pub(crate) rows: bool,
    /// With changeset and patchset: tables without a primary key too, by rowid
    #[arg(long)]
    pub(crate) rowids: bool,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) by: AsPrincipal,
}

/// The form of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// A script
    #[default]
    Sql,
    /// A JSON object a row or definition
    Ndjson,
    /// SQLite's changeset: old and new values
    Changeset,
    /// SQLite's patchset: keys and new values
    Patchset,
    /// Counts by table
    Summary,
}

/// `shoal apply`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Everything is applied in one transaction, or nothing. A change does not fit when its row has other \
values, is missing, or is there already: abort takes everything back, omit leaves the change out, \
replace applies it over the row (and leaves out changes of rows that are missing). Changes that a \
constraint refuses are tried again behind the others.

Examples:
  shoal apply notes.db changes.bin
  shoal apply notes.db changes.bin --invert
  shoal apply notes.db changes.bin --on-conflict replace --notes notes.bin")]
pub(crate) struct ApplyArgs {
    /// The database to change
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// A changeset or patchset, - for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What becomes of changes that do not fit
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on_conflict: OnConflict,
    /// Take the changes back instead
    #[arg(long)]
    pub(crate) invert: bool,
    /// Check foreign keys behind the last change
    #[arg(long)]
    pub(crate) foreign_keys: bool,
    /// Write the notes that shoal changeset rebase needs to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) notes: Option<PathBuf>,
}

/// What becomes of a change that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
    /// Everything is taken back
    #[default]
    Abort,
    /// The change is left out
    Omit,
    /// The change takes the row's place
    Replace,
}

/// `shoal changeset`.
#[derive(Debug, Subcommand)]
pub(crate) enum ChangesetVerb {
    /// Print the changes as JSON, one a line
    Show(ShowChangesArgs),
    /// Turn every change around
    Invert(InvertArgs),
    /// Make one changeset of two that follow each other
    Concat(ConcatArgs),
    /// Put a changeset of one's own behind another that was applied here with conflicts
    Rebase(RebaseArgs),
}

/// `shoal changeset show`.
#[derive(Debug, Args)]
pub(crate) struct ShowChangesArgs {
    /// A changeset or patchset, - for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `shoal changeset invert`.
#[derive(Debug, Args)]
pub(crate) struct InvertArgs {
    /// A changeset, - for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `shoal changeset concat`.
#[derive(Debug, Args)]
pub(crate) struct ConcatArgs {
    /// The earlier changes
    #[arg(value_name = "FIRST")]
    pub(crate) first: PathBuf,
    /// The later changes
    #[arg(value_name = "SECOND")]
    pub(crate) second: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `shoal changeset rebase`.
#[derive(Debug, Args)]
pub(crate) struct RebaseArgs {
    /// The changeset of changes made here
    #[arg(value_name = "LOCAL")]
    pub(crate) local: PathBuf,
    /// The notes that shoal apply --notes wrote
    #[arg(value_name = "NOTES")]
    pub(crate) notes: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `shoal merge`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A cell changed on one side takes that side's value; a cell changed on both sides, a row deleted on \
one and changed on the other, and a key inserted on both are conflicts: OURS keeps its value, and \
the table merge_conflict tells of each. Documents are merged by Automerge, without conflicts. The \
exit code is 1 when there were conflicts.

Examples:
  shoal merge base.db ours.db theirs.db
  shoal merge base.db ours.db theirs.db -o merged.db --prefer theirs
  shoal sql ours.db 'SELECT * FROM merge_conflict'")]
pub(crate) struct MergeDatabasesArgs {
    /// The common ancestor
    #[arg(value_name = "BASE")]
    pub(crate) base: PathBuf,
    /// The database to merge into
    #[arg(value_name = "OURS")]
    pub(crate) ours: PathBuf,
    /// The database to take changes from
    #[arg(value_name = "THEIRS")]
    pub(crate) theirs: PathBuf,
    /// Leave OURS alone, and write the merged database to this new file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The side whose value a cell in conflict takes
    #[arg(long, value_enum, default_value_t)]
    pub(crate) prefer: Prefer,
}

/// The side that wins a conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prefer {
    /// Our value stays
    #[default]
    Ours,
    /// Their value is taken
    Theirs,
}

/// `shoal git-install`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
git then shows databases and documents as text in diffs, and merges them row by row and change by \
change. The settings go to the repository's configuration, or with --global to the user's; the \
patterns go to .gitattributes of the current folder, which is committed like any other file.

Example:
  shoal git-install '*.db' '*.automerge'")]
pub(crate) struct GitInstallArgs {
    /// Patterns of files
    #[arg(value_name = "PATTERN", default_values = ["*.db", "*.sqlite", "*.automerge"])]
    pub(crate) patterns: Vec<String>,
    /// Configure git for all repositories of the user
    #[arg(long)]
    pub(crate) global: bool,
}

/// `shoal git-driver`: what git runs.
#[derive(Debug, Subcommand)]
pub(crate) enum GitDriverVerb {
    /// Print a file as text
    Show {
        /// The file
        file: PathBuf,
    },
    /// Merge THEIRS into OURS
    Merge {
        /// The common ancestor; empty when there is none
        base: PathBuf,
        /// Our file, and the result
        ours: PathBuf,
        /// Their file
        theirs: PathBuf,
        /// The file's name in the repository
        name: Option<String>,
    },
}
