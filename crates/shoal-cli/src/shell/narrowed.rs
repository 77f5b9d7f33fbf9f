//! `shoal sql --as`: statements as a principal runs them.
//!
//! Rules hold where the process holds them. Whoever runs this command has the file, and with the
//! file everything in it: the option is for trying rules.

use std::io::{self, BufRead, Write};
use std::path::Path;

use shoal::Access;
use shoal_sql::{Error, Narrowed, Statements, ValueRef};

use super::interrupt::Running;
use super::output::Output;
use super::params::Params;
use super::script::is_blank;
use super::session::pointer;
use crate::args::{RowFormat, SqlArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::rows::RowPrinter;
use crate::rows::style::Style;
use crate::rules;

struct Session {
    narrowed: Narrowed,
    params: Params,
    printer: RowPrinter,
    out: Output,
    /// Statements are numbered from 1.
    statements: u64,
    bail: bool,
    failed: bool,
}

/// Runs the statements of the arguments, or of stdin.
///
/// # Errors
/// Rules that cannot be read, or do not fit the tables; statements that failed, already reported.
pub(crate) fn run(args: &SqlArgs, by: (&str, &Path), format: RowFormat) -> Result<(), Failure> {
    let entitlement = rules::entitlement(by)?;
    let writes = entitlement.writes() && !args.read_only;
    let (entitlement, access) = match writes {
        true => (entitlement, Access::ReadWrite),
        false => (entitlement.read_only(), Access::ReadOnly),
    };
    let connection = open::connection(&args.file, access)?;
    let narrowed = rules::narrowed(connection, &args.file, (entitlement, by.1))?;
    let mut session = Session {
        narrowed,
        params: Params::parse(&args.params)?,
        printer: RowPrinter::new(Style::of(format, args.arrays)),
        out: Output::stdout(),
        statements: 0,
        bail: args.bail || !args.sql.is_empty(),
        failed: false,
    };
    super::interrupt::handle()?;
    args.commands.iter().try_for_each(|text| session.run(text))?;
    if args.sql.is_empty() {
        session.lines(&mut io::stdin().lock())?;
    } else {
        args.sql.iter().try_for_each(|text| session.run(text))?;
    }
    session.out.close()?;
    if session.failed { Err(Failure::reported()) } else { Ok(()) }
}

impl Session {
    /// Runs each statement once complete.
    fn lines(&mut self, input: &mut impl BufRead) -> Result<(), Failure> {
        let mut pending = String::new();
        let mut line = String::new();
        loop {
            line.clear();
            let at_end =
                input.read_line(&mut line).map_err(|error| Failure::at("stdin", error))? == 0;
            if is_blank(&pending) && line.starts_with('.') {
                self.run(&line)?;
                continue;
            }
            pending.push_str(&line);
            if at_end || line.contains(';') && Statements::is_complete(&pending) {
                self.run(&pending)?;
                pending.clear();
            }
            if at_end {
                return Ok(());
            }
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Failure> {
        if text.trim_start().starts_with('.') {
            let command = text.trim();
            return Err(Failure::at(command, "commands of the shell read the whole file")
                .hint("without --as they run; SELECT name FROM sqlite_schema lists the tables"));
        }
        for range in Statements::new(text) {
            self.statements += 1;
            let sql = &text[range];
            let ran = self.run_one(sql)?;
            self.out.flush()?;
            let Err(error) = ran else { continue };
            self.failed = true;
            out::error(format_args!("statement {}: {error}", self.statements));
            if let Some(offset) = error.offset() {
                out::note(pointer(sql, offset));
            }
            if self.bail || matches!(error, Error::Interrupted) {
                return Err(Failure::reported());
            }
        }
        Ok(())
    }

    /// Prints the rows of a statement. The outer error is stdout's.
    fn run_one(&mut self, sql: &str) -> io::Result<Result<(), Error>> {
        let prepared = self.narrowed.prepare(sql);
        let mut statement = match prepared {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = self.params.bind(&mut statement) {
            return Ok(Err(error));
        }
        let _running = Running::begin_by(self.narrowed.interrupter());
        if statement.column_count() == 0 {
            return Ok(self.narrowed.execute(&mut statement));
        }
        let headings = statement.column_names().to_vec();
        let mut rows = match self.narrowed.query(&mut statement) {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(error)),
        };
        self.printer.begin(&mut self.out, &headings)?;
        let ended = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let values: Vec<ValueRef<'_>> = row.values().collect();
                    self.printer.row(&mut self.out, &values)?;
                }
                Ok(None) => break Ok(()),
                // Rows read before the error are printed, too.
                Err(error) => break Err(error),
            }
        };
        self.printer.end(&mut self.out)?;
        Ok(ended)
    }
}
