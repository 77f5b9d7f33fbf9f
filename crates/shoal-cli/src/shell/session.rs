//! One open database, and statements run against it one after another.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use shoal_sql::{Connection, Error, Statement, Statements, ValueRef};
use shoal_store::Access;

use super::interrupt::Running;
use super::params::Params;
use crate::args::{RowFormat, SqlArgs};
use crate::failure::Failure;
use crate::open;
use crate::out::{self, Stdout};
use crate::progress::Spinner;
use crate::rows::RowPrinter;

/// Statements are numbered through the session, from 1.
pub(crate) struct Session {
    connection: Connection,
    /// The file to create before the first statement that writes.
    missing: Option<PathBuf>,
    params: Params,
    printer: RowPrinter,
    spinner: Spinner,
    out: Stdout,
    statements: u64,
    failed: bool,
    /// Whether someone types the statements.
    pub(crate) is_shell: bool,
}

impl Session {
    /// Opens the file that `args` names.
    pub(crate) fn open(args: &SqlArgs, format: RowFormat) -> Result<Self, Failure> {
        let in_memory = args.file == Path::new(":memory:");
        let missing = !in_memory && !open::exists(&args.file)?;
        if missing && args.read_only {
            return Err(Failure::at(args.file.display(), "no such file"));
        }
        let connection = if in_memory || missing {
            open::memory()?
        } else if args.read_only {
            open::connection(&args.file, Access::ReadOnly)?
        } else {
            open::connection(&args.file, Access::ReadWrite)?
        };
        Ok(Self {
            connection,
            missing: missing.then(|| args.file.clone()),
            params: Params::parse(&args.params)?,
            printer: RowPrinter::new(format, args.arrays),
            spinner: Spinner::new(),
            out: out::stdout(),
            statements: 0,
            failed: false,
            is_shell: false,
        })
    }

    /// Runs every statement of `text`. A statement that fails is reported; those after it run
    /// unless `bail`.
    ///
    /// # Errors
    /// When stdout is closed, or with `bail` when a statement failed.
    pub(crate) fn run(&mut self, text: &str, bail: bool) -> Result<(), Failure> {
        for range in Statements::new(text) {
            self.statements += 1;
            let sql = &text[range];
            if let Err(stop) = self.run_one(sql) {
                // Rows come before the words about what ended them.
                self.out.flush()?;
                let interrupted = match stop {
                    Stop::Statement(error) => {
                        self.report(sql, &error);
                        matches!(error, Error::Interrupted)
                    }
                    Stop::Failure(failure) => return Err(failure),
                };
                // Ctrl-C in a script means the script; a shell asks for what comes next.
                if bail || interrupted && !self.is_shell {
                    return Err(Failure::reported());
                }
            }
        }
        Ok(self.out.flush()?)
    }

    /// # Errors
    /// When any statement failed; it was reported.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.out.flush()?;
        if self.failed { Err(Failure::reported()) } else { Ok(()) }
    }

    fn run_one(&mut self, sql: &str) -> Result<(), Stop> {
        let prepared = self.connection.prepare(sql);
        let mut statement = match &self.missing {
            None => prepared?,
            Some(file) => {
                let mut rehearsal = match prepared {
                    // BEGIN gives no rows either; what it begins may write.
                    Ok(statement) if !statement.is_read_only() || statement.column_count() == 0 => {
                        statement
                    }
                    Err(error @ Error::Syntax { .. }) => return Err(error.into()),
                    Ok(_) | Err(_) => {
                        let failure = Failure::at(file.display(), "no such file")
                            .hint("a statement that writes creates it");
                        return Err(Stop::Failure(failure));
                    }
                };
                // In memory first: a statement that fails leaves no empty file behind.
                self.params.bind(&mut rehearsal)?;
                let running = Running::begin(&self.connection);
                self.connection.execute(&mut rehearsal)?;
                drop(running);
                self.connection = open::connection(file, Access::Create)?;
                self.missing = None;
                self.connection.prepare(sql)?
            }
        };
        self.params.bind(&mut statement)?;
        let _running = Running::begin(&self.connection);
        if statement.column_count() == 0 {
            let Self { connection, spinner, .. } = self;
            spinner.spin("running", || connection.execute(&mut statement))?;
            return Ok(());
        }
        self.print_rows(&mut statement)
    }

    fn print_rows(&mut self, statement: &mut Statement) -> Result<(), Stop> {
        let Self { connection, printer, spinner, out, .. } = self;
        let headings: Vec<String> = statement.column_names().to_vec();
        let is_plan = statement.is_plan();
        let mut rows = connection.query(statement)?;
        let mut values: Vec<ValueRef<'_>>;
        let mut row = spinner.spin("running", || rows.next())?;
        match is_plan {
            true => printer.begin_plan(out, &headings)?,
            false => printer.begin(out, &headings)?,
        }
        while let Some(current) = row {
            values = current.values().collect();
            printer.row(out, &values)?;
            row = rows.next()?;
        }
        Ok(printer.end(out)?)
    }

    fn report(&mut self, sql: &str, error: &Error) {
        self.failed = true;
        out::error(format_args!("statement {}: {error}", self.statements));
        if let Some(offset) = error.offset() {
            out::note(pointer(sql, offset));
        }
    }
}

/// Why a statement did not run to its end.
enum Stop {
    /// The statement's own fault, or the file's.
    Statement(Error),
    /// Nothing more can run.
    Failure(Failure),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failure(error.into())
    }
}

/// The line of `sql` that byte `offset` is in, and a caret below the place.
fn pointer(sql: &str, offset: usize) -> String {
    let offset =
        (0..=offset.min(sql.len())).rev().find(|at| sql.is_char_boundary(*at)).unwrap_or(0);
    let start = sql[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let end = sql[offset..].find('\n').map_or(sql.len(), |newline| offset + newline);
    let number = sql[..start].matches('\n').count() + 1;
    let before: Vec<char> = sql[start..offset].chars().collect();
    let cut = before.len().saturating_sub(POINTER_BEFORE);
    let shown: String =
        before[cut..].iter().copied().chain(sql[offset..end].chars().take(POINTER_AFTER)).collect();
    let mut text = format!("  {number} | {}", shown.replace('\t', " "));
    let indent = format!("  {number} | ").len() + before.len() - cut;
    let _ = write!(text, "\n{:indent$}^", "");
    text
}

const POINTER_BEFORE: usize = 70;
const POINTER_AFTER: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_points() {
        let check = |sql: &str, place: &str, expect: &str| {
            assert_eq!(pointer(sql, sql.find(place).unwrap()), expect);
        };
        check("SELECT x FROM t", "x", "  1 | SELECT x FROM t\n             ^");
        check("SELECT\n\té, x", "x", "  2 |  é, x\n          ^");
        assert_eq!(pointer("a", 9), "  1 | a\n       ^");
        let long = format!("{}x{}", "a".repeat(100), "b".repeat(100));
        let shown = pointer(&long, 100);
        assert_eq!(shown.lines().next().unwrap().len(), 6 + POINTER_BEFORE + POINTER_AFTER);
        assert_eq!(shown.lines().nth(1).unwrap().len(), 6 + POINTER_BEFORE + 1);
    }
}
