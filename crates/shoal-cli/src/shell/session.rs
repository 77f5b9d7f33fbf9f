//! One open database, with statements and dot commands run one after another.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use shoal::Database;
use shoal_sql::{Connection, Error, Statement, Statements, ValueRef};
use shoal_store::Access;

use super::commands;
use super::history::holds_key;
use super::interrupt::Running;
use super::output::{Output, Paged};
use super::params::Params;
use super::usage::Usage;
use crate::args::{RowFormat, SqlArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::progress::Spinner;
use crate::rows::RowPrinter;
use crate::rows::style::Style;

/// Statements are numbered through the session, from 1.
pub(crate) struct Session {
    pub(super) connection: Connection,
    /// The file as named by the user; `:memory:` for none.
    pub(super) file: PathBuf,
    pub(super) read_only: bool,
    /// The file to create before the first writing statement.
    missing: Option<PathBuf>,
    pub(super) params: Params,
    pub(super) printer: RowPrinter,
    spinner: Spinner,
    pub(super) out: Output,
    /// After so many more commands the output is stdout again; 0 for never.
    pub(super) once: u8,
    pub(super) settings: Settings,
    /// The exit code, once the session is to end.
    pub(crate) leaving: Option<u8>,
    /// How many scripts read each other.
    pub(super) depth: usize,
    statements: u64,
    changes: u64,
    failed: bool,
    /// True where someone types the statements.
    pub(super) is_shell: bool,
    /// Lines of the terminal, where rows are paged.
    pub(super) height: Option<usize>,
}

/// The switches of dot commands.
pub(super) struct Settings {
    pub(super) bail: bool,
    pub(super) changes: bool,
    pub(super) echo: bool,
    pub(super) explain: String,
    pub(super) pager: bool,
    pub(super) plans: bool,
    pub(super) prompts: [String; 2],
    pub(super) stats: bool,
    pub(super) timer: bool,
}

impl Session {
    /// Opens the file named by `args`.
    pub(crate) fn open(args: &SqlArgs, format: RowFormat) -> Result<Self, Failure> {
        let (connection, missing) = connect(&args.file, args.read_only)?;
        let mut style = Style::of(format, args.arrays);
        let out = Output::stdout();
        style.colour = out.is_terminal() && has_colours();
        Ok(Self {
            connection,
            file: args.file.clone(),
            read_only: args.read_only,
            missing,
            params: Params::parse(&args.params)?,
            printer: RowPrinter::new(style),
            spinner: Spinner::new(),
            out,
            once: 0,
            settings: Settings {
                bail: args.bail,
                changes: false,
                echo: false,
                explain: "auto".to_owned(),
                pager: true,
                plans: false,
                prompts: ["shoal> ".to_owned(), "   ...> ".to_owned()],
                stats: false,
                timer: false,
            },
            leaving: None,
            depth: 0,
            statements: 0,
            changes: 0,
            failed: false,
            is_shell: false,
            height: None,
        })
    }

    /// Closes the file and opens another one.
    pub(super) fn reopen(&mut self, file: &Path, read_only: bool) -> Result<(), Failure> {
        let (connection, missing) = connect(file, read_only)?;
        (self.connection, self.missing) = (connection, missing);
        (self.file, self.read_only) = (file.to_owned(), read_only);
        Ok(())
    }

    /// Creates a missing file: a command is about to write.
    pub(super) fn create_missing(&mut self) -> Result<(), Failure> {
        if let Some(file) = self.missing.take() {
            self.connection = open::shell_connection(&file, Access::Create)?;
        }
        Ok(())
    }

    /// Runs statements, or a dot command for a `text` beginning with a dot. Failures are reported,
    /// and the next statement runs unless `bail`. Rows may wait in a buffer: [`Session::flush`].
    ///
    /// # Errors
    /// When stdout is closed, or with `bail` when something failed.
    pub(crate) fn run(&mut self, text: &str, bail: bool) -> Result<(), Failure> {
        let bail = bail || self.settings.bail;
        if text.trim_start().starts_with('.') {
            return self.run_command(text.trim(), bail);
        }
        for range in Statements::new(text) {
            if self.leaving.is_some() {
                break;
            }
            self.statements += 1;
            let sql = &text[range];
            if let Err(stop) = self.run_one(sql) {
                // Rows come before the message about their end.
                self.out.flush()?;
                let interrupted = match stop {
                    Stop::Statement(error) => {
                        self.report(sql, &error);
                        matches!(error, Error::Interrupted)
                    }
                    Stop::Failure(failure) => return Err(failure),
                };
                // Ctrl-C in a script ends the script; in a shell only the statement.
                if bail || interrupted && !self.is_shell {
                    return Err(Failure::reported());
                }
            }
        }
        if self.once > 0 {
            self.once = 0;
            self.redirect(Output::stdout())?;
        }
        Ok(())
    }

    /// Gives the rows printed so far to their reader: before anything is waited for.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    fn run_command(&mut self, line: &str, bail: bool) -> Result<(), Failure> {
        // Commands may print past the buffer of rows.
        self.out.flush()?;
        let ran = commands::run(self, line);
        self.out.flush()?;
        if let Err(failure) = ran {
            if failure.silent {
                return Err(failure);
            }
            self.failed = true;
            out::error(&failure.sentence);
            if let Some(hint) = &failure.hint {
                out::hint(hint);
            }
            if bail {
                return Err(Failure::reported());
            }
        }
        if self.once > 0 {
            self.once -= 1;
            if self.once == 0 {
                self.redirect(Output::stdout())?;
            }
        }
        Ok(())
    }

    /// Sends rows elsewhere from now on.
    pub(super) fn redirect(&mut self, output: Output) -> Result<(), Failure> {
        self.printer.style.colour = output.is_terminal() && has_colours();
        std::mem::replace(&mut self.out, output).close()
    }

    /// Ends the session, with the exit code given to `.exit`.
    ///
    /// # Errors
    /// When any statement failed, already reported.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.out.close()?;
        match self.leaving {
            Some(code) if code > 0 => Err(Failure::reported().code(code)),
            Some(_) => Ok(()),
            None if self.failed => Err(Failure::reported()),
            None => Ok(()),
        }
    }

    /// Runs `CREATE PROJECTION` and `DROP PROJECTION`, the words of documents.
    fn define(&mut self, sql: &str) -> Result<(), Stop> {
        if let Some(file) = self.missing.take() {
            self.connection = open::shell_connection(&file, Access::Create)?;
        }
        let connection = std::mem::replace(&mut self.connection, open::memory()?);
        let mut database = Database::over_connection(crate::keys::environment(), connection);
        let defined = self.spinner.spin("projecting", || database.define(sql));
        self.connection = database.into_sql();
        match defined {
            Ok(_) => Ok(()),
            Err(shoal::Error::Sql(error)) => Err(error.into()),
            Err(error) => Err(Error::Meaning { message: error.to_string(), offset: None }.into()),
        }
    }

    fn run_one(&mut self, sql: &str) -> Result<(), Stop> {
        if Database::is_definition(sql) {
            return self.define(sql);
        }
        let prepared = self.connection.prepare(sql);
        let mut statement = match &self.missing {
            None => prepared?,
            Some(file) => {
                let mut rehearsal = match prepared {
                    // A key is for the file, not for a rehearsal.
                    Ok(statement) if holds_key(sql) => statement,
                    // BEGIN has no columns either, and the transaction may write later. Settings
                    // are for the statements behind them.
                    Ok(statement)
                        if !statement.is_read_only()
                            || statement.column_count() == 0
                            || sets_pragma(sql) =>
                    {
                        statement
                    }
                    Err(error @ Error::Syntax { .. }) => return Err(error.into()),
                    // At a prompt a missing file reads as an empty database until a statement
                    // writes; a query without tables has the same answer whatever the file holds.
                    Ok(mut statement) if self.is_shell || reads_no_table(&statement) => {
                        self.params.bind(&mut statement)?;
                        return self.run_prepared(sql, statement);
                    }
                    Err(error) if self.is_shell => return Err(error.into()),
                    Ok(_) | Err(_) => {
                        let failure = Failure::at(file.display(), "no such file")
                            .hint("a statement that writes creates it");
                        return Err(Stop::Failure(failure));
                    }
                };
                // A rehearsal in memory: a failing statement leaves no empty file behind.
                self.params.bind(&mut rehearsal)?;
                if !holds_key(sql) {
                    let running = Running::begin(&self.connection);
                    self.connection.execute(&mut rehearsal)?;
                    drop(running);
                }
                self.connection = open::shell_connection(file, Access::Create)?;
                self.missing = None;
                self.connection.prepare(sql)?
            }
        };
        self.params.bind(&mut statement)?;
        self.run_prepared(sql, statement)
    }

    fn run_prepared(&mut self, sql: &str, mut statement: Statement) -> Result<(), Stop> {
        if self.settings.plans && !statement.is_plan() {
            self.print_plan(sql)?;
        }
        let clock = self.settings.timer.then(|| (Instant::now(), Usage::now()));
        let before = self.connection.total_changes();
        let mut rows = 0;
        let running = Running::begin(&self.connection);
        if statement.column_count() == 0 {
            let Self { connection, spinner, .. } = self;
            spinner.spin("running", || connection.execute(&mut statement))?;
        } else {
            rows = self.print_rows(&mut statement)?;
        }
        drop(running);
        if counts_changes(sql) {
            self.changes = self.connection.total_changes() - before;
        }
        let taken = clock.map(|(start, usage)| (start.elapsed().as_secs_f64(), usage.since()));
        if self.settings.changes {
            let total = self.connection.total_changes();
            writeln!(self.out, "changes: {}   total_changes: {total}", self.changes)?;
        }
        if let Some((elapsed, (user, system))) = taken {
            writeln!(self.out, "Run Time: real {elapsed:.3} user {user:.6} sys {system:.6}")?;
        }
        if self.settings.stats {
            self.print_stats(rows)?;
        }
        Ok(())
    }

    /// Prints the last statement's counts, and the process's use of memory.
    pub(super) fn print_stats(&mut self, rows: u64) -> std::io::Result<()> {
        writeln!(self.out, "Rows of the result:                  {rows}")?;
        writeln!(self.out, "Rows changed:                        {}", self.changes)?;
        match Usage::peak_kib() {
            Some(kib) => writeln!(self.out, "Memory at its peak:                  {kib} KiB"),
            None => Ok(()),
        }
    }

    /// Prints the plan of a query before running the query; statements without a plan are left
    /// alone.
    fn print_plan(&mut self, sql: &str) -> Result<(), Stop> {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        if let Ok(mut plan) = self.connection.prepare(&explain)
            && plan.is_plan()
        {
            self.print_rows(&mut plan)?;
        }
        Ok(())
    }

    /// Prints the rows of a statement; gives how many.
    fn print_rows(&mut self, statement: &mut Statement) -> Result<u64, Stop> {
        let Self { connection, printer, spinner, out, height, settings, .. } = self;
        let height = height.filter(|_| settings.pager && out.is_terminal());
        let mut paged = Paged::new(out, height);
        let headings: Vec<String> = statement.column_names().to_vec();
        let is_plan = statement.is_plan();
        let mut rows = connection.query(statement)?;
        let mut values: Vec<ValueRef<'_>>;
        let mut row = spinner.spin("running", || rows.next())?;
        let mut count = 0;
        let printed = match is_plan {
            true => printer.begin_plan(&mut paged, &headings),
            false => printer.begin(&mut paged, &headings),
        };
        let mut printed = printed;
        let mut failed = None;
        while printed.is_ok()
            && let Some(current) = row
        {
            values = current.values().collect();
            printed = printer.row(&mut paged, &values);
            count += 1;
            row = match rows.next() {
                Ok(row) => row,
                // Rows read before the error are printed, too.
                Err(error) => {
                    failed = Some(error);
                    None
                }
            };
        }
        let printed = printed.and_then(|()| printer.end(&mut paged));
        match printed {
            Err(error) if !paged.was_left(&error) => return Err(error.into()),
            _ => paged.end()?,
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
    }

    fn report(&mut self, sql: &str, error: &Error) {
        self.failed = true;
        let number = self.statements;
        match error.offset() {
            None => out::error(format_args!("statement {number}: {error}")),
            // The words of the error, and the line, may be the key.
            Some(_) if holds_key(sql) => {
                let why = "a statement with a key does not parse, and is not shown";
                out::error(format_args!("statement {number}: {why}"));
            }
            Some(offset) => {
                out::error(format_args!("statement {number}: {error}"));
                out::note(pointer(sql, offset));
            }
        }
    }
}

/// Opens a database, or one in memory until a missing file is written to.
fn connect(file: &Path, read_only: bool) -> Result<(Connection, Option<PathBuf>), Failure> {
    let in_memory = file == Path::new(":memory:");
    let missing = !in_memory && !open::exists(file)?;
    if missing && read_only {
        return Err(Failure::at(file.display(), "no such file"));
    }
    let connection = if in_memory || missing {
        open::shell_memory()?
    } else if read_only {
        open::shell_connection(file, Access::ReadOnly)?
    } else {
        // The file is there; one that is attached may be missing, and is made, as by `sqlite3`.
        open::shell_connection(file, Access::Create)?
    };
    Ok((connection, missing.then(|| file.to_owned())))
}

/// True where a terminal is to show colours: <https://no-color.org>.
pub(super) fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// True for statements setting the result of `changes()`.
fn counts_changes(sql: &str) -> bool {
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
    ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"]
        .iter()
        .any(|known| word.is_some_and(|word| word.eq_ignore_ascii_case(known)))
}

/// True for `PRAGMA name = value`: some of them give a row and are settings all the same.
fn sets_pragma(sql: &str) -> bool {
    let (word, rest) = sql.trim_start().split_at_checked("PRAGMA".len()).unwrap_or_default();
    word.eq_ignore_ascii_case("PRAGMA") && rest.contains('=')
}

/// True for queries that compute from constants and parameters alone.
fn reads_no_table(statement: &Statement) -> bool {
    statement.tables_read().is_some_and(|tables| tables.is_empty())
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

/// The line of `sql` with byte `offset`, and a caret below the place.
pub(super) fn pointer(sql: &str, offset: usize) -> String {
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
