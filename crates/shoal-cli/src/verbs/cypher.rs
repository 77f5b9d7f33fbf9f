//! `shoal cypher`: queries over the graph of a database, from arguments, from stdin, or typed in a
//! shell on a terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use shoal_graph::{
    Algorithms, Environment, Graph, MEMORY_MAX, Map, MemoryGraph, NoProcedures, SqliteGraph,
    TablesGraph, Value,
};
use shoal_sql::{Connection, ValueRef};
use shoal_store::Access;

use crate::args::RowFormat;
use crate::args::cypher::CypherArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::rows::RowPrinter;
use crate::rows::style::Style;
use crate::shell::interrupt::{self, Running};

pub(crate) fn run(args: &CypherArgs) -> Result<(), Failure> {
    let mut session = Session::open(args)?;
    interrupt::handle()?;
    if !args.query.is_empty() {
        return args.query.iter().try_for_each(|text| session.queries(text));
    }
    if io::stdin().is_terminal() {
        return session.shell();
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(|error| Failure::at("stdin", error))?;
    session.queries(&text)
}

/// A database and how its answers are printed.
struct Session<'a> {
    args: &'a CypherArgs,
    graph: AnyGraph,
    /// True while the file is not there: queries that read find an empty graph.
    is_missing: bool,
    parameters: Map,
    format: RowFormat,
}

/// The graph of a database, or one over its tables.
enum AnyGraph {
    Own(SqliteGraph),
    Tables(TablesGraph),
}

impl AnyGraph {
    fn new(args: &CypherArgs, connection: Connection) -> Result<AnyGraph, Failure> {
        match &args.graph {
            None => Ok(AnyGraph::Own(SqliteGraph::new(connection))),
            Some(name) => {
                TablesGraph::new(connection, name).map(AnyGraph::Tables).map_err(Failure::new)
            }
        }
    }

    fn graph(&self) -> &dyn Graph {
        match self {
            AnyGraph::Own(graph) => graph,
            AnyGraph::Tables(graph) => graph,
        }
    }

    fn with_connection<T>(&self, borrow: impl FnOnce(&mut Connection) -> T) -> T {
        match self {
            AnyGraph::Own(graph) => graph.with_connection(borrow),
            AnyGraph::Tables(graph) => graph.with_connection(borrow),
        }
    }
}

impl<'a> Session<'a> {
    fn open(args: &'a CypherArgs) -> Result<Session<'a>, Failure> {
        let in_memory = args.file == Path::new(":memory:");
        let is_missing = !in_memory && !open::exists(&args.file)?;
        if is_missing && args.read_only {
            return Err(Failure::at(args.file.display(), "no such file"));
        }
        let connection = if in_memory || is_missing {
            open::memory()?
        } else if args.read_only {
            open::connection(&args.file, Access::ReadOnly)?
        } else {
            open::connection(&args.file, Access::ReadWrite)?
        };
        let format = args.format.unwrap_or_else(|| {
            if io::stdout().is_terminal() { RowFormat::Table } else { RowFormat::List }
        });
        let parameters = parameters(&args.params)?;
        Ok(Session {
            args,
            graph: AnyGraph::new(args, connection)?,
            is_missing,
            parameters,
            format,
        })
    }

    /// Runs queries separated by semicolons, up to the first that fails.
    fn queries(&mut self, text: &str) -> Result<(), Failure> {
        let queries = shoal_graph::split(text).map_err(|error| failure(&error, text))?;
        queries.into_iter().try_for_each(|query| self.query(query))
    }

    fn query(&mut self, text: &str) -> Result<(), Failure> {
        let writes = shoal_graph::writes(text).map_err(|error| failure(&error, text))?;
        if writes && self.is_missing {
            let connection = open::connection(&self.args.file, Access::Create)?;
            (self.graph, self.is_missing) = (AnyGraph::new(self.args, connection)?, false);
        }
        let started = Instant::now();
        let timeout = self.args.timeout;
        let is_over = || timeout.is_some_and(|seconds| started.elapsed().as_secs() >= seconds);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let environment = Environment {
            parameters: &self.parameters,
            procedures: &Algorithms,
            now_nanos: i128::try_from(now.as_nanos()).unwrap_or_default(),
            seed: u64::from(now.subsec_nanos()) ^ now.as_secs(),
            is_over: &is_over,
            memory_max: MEMORY_MAX,
        };
        let _running = self.graph.with_connection(|connection| Running::begin(connection));
        let printer = std::cell::RefCell::new(Printer::new(self.format));
        // A closed stdout ends the query, and is told as what it is.
        let broken = std::cell::Cell::new(None);
        let print = |result: io::Result<()>| match result {
            Ok(()) => Ok(true),
            Err(error) => {
                broken.set(Some(error));
                Ok(false)
            }
        };
        let result = shoal_graph::run(
            self.graph.graph(),
            text,
            &environment,
            &mut |columns| print(printer.borrow_mut().begin(columns)).map(drop),
            &mut |row| print(printer.borrow_mut().row(&row)),
        );
        result.map_err(|error| failure(&error, text))?;
        if let Some(error) = broken.take() {
            return Err(error.into());
        }
        printer.into_inner().end().map_err(Failure::from)
    }

    /// Reads and runs queries until the end of the input.
    fn shell(&mut self) -> Result<(), Failure> {
        let terminal = |error: ReadlineError| Failure::at("terminal", error);
        let mut editor: Editor<(), MemHistory> =
            Editor::with_history(rustyline::Config::default(), MemHistory::new())
                .map_err(terminal)?;
        out::note("Queries end with a semicolon. Ctrl-C drops what is typed, Ctrl-D leaves.");
        let mut pending = String::new();
        loop {
            match editor.readline(if pending.is_empty() { "graph> " } else { "  ...> " }) {
                Ok(line) => {
                    pending.push_str(&line);
                    pending.push('\n');
                    if pending.trim().is_empty() {
                        pending.clear();
                    } else if line.trim_end().ends_with(';') {
                        editor.add_history_entry(pending.trim()).map_err(terminal)?;
                        if let Err(failure) = self.queries(&pending) {
                            out::error(&failure.sentence);
                        }
                        pending.clear();
                    }
                }
                Err(ReadlineError::Interrupted) => pending.clear(),
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(terminal(error)),
            }
        }
    }
}

/// Prints the rows of one query.
struct Printer {
    out: out::Stdout,
    format: RowFormat,
    rows: RowPrinter,
    columns: Vec<String>,
    count: u64,
}

impl Printer {
    fn new(format: RowFormat) -> Printer {
        let rows = RowPrinter::new(Style::of(format, false));
        Printer { out: out::stdout(), format, rows, columns: Vec::new(), count: 0 }
    }

    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        match self.format {
            RowFormat::Json => self.out.write_all(b"["),
            RowFormat::Ndjson => Ok(()),
            _ if columns.is_empty() => Ok(()),
            _ => self.rows.begin(&mut self.out, columns),
        }
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        self.count += 1;
        match self.format {
            RowFormat::Json => {
                self.out.write_all(if self.count == 1 { b"\n" } else { b",\n" })?;
                self.object(row)
            }
            RowFormat::Ndjson => {
                self.object(row)?;
                self.out.write_all(b"\n")
            }
            _ => {
                let texts: Vec<Option<String>> = row.iter().map(cell_text).collect();
                let cells: Vec<ValueRef<'_>> = row
                    .iter()
                    .zip(&texts)
                    .map(|(value, text)| match (value, text) {
                        (Value::Integer(number), _) => ValueRef::Int(*number),
                        (_, Some(text)) => ValueRef::Text(text.as_bytes()),
                        _ => ValueRef::Null,
                    })
                    .collect();
                self.rows.row(&mut self.out, &cells)
            }
        }
    }

    fn object(&mut self, row: &[Value]) -> io::Result<()> {
        let map: Vec<String> = self
            .columns
            .iter()
            .zip(row)
            .map(|(name, value)| format!("{}:{}", Value::text(name).to_json(), value.to_json()))
            .collect();
        write!(self.out, "{{{}}}", map.join(","))
    }

    fn end(mut self) -> io::Result<()> {
        match self.format {
            RowFormat::Json => {
                self.out.write_all(if self.count == 0 { b"]\n" } else { b"\n]\n" })?
            }
            RowFormat::Ndjson => {}
            _ if self.columns.is_empty() => {}
            _ => self.rows.end(&mut self.out)?,
        }
        self.out.flush()
    }
}

/// A value in a cell: strings and temporal values bare, all else as in a query.
fn cell_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Integer(_) => None,
        Value::Text(text) => Some(text.to_string()),
        Value::List(_) | Value::Map(_) => Some(value.to_string()),
        other => Some(other.to_string().trim_matches('\'').to_owned()),
    }
}

fn failure(error: &shoal_graph::Error, text: &str) -> Failure {
    match error.caret(text) {
        Some(caret) => Failure::new(format_args!("{error}\n{caret}")),
        None => Failure::new(error),
    }
}

fn parameters(given: &[String]) -> Result<Map, Failure> {
    let mut parameters = Map::new();
    for one in given {
        let Some((name, value)) = one.split_once('=') else {
            return Err(Failure::at(
                format_args!("--param {one}"),
                "a parameter is written NAME=VALUE",
            ));
        };
        let name = name.trim_start_matches('$');
        parameters.insert(name.into(), literal(value).unwrap_or_else(|| Value::text(value)));
    }
    Ok(parameters)
}

/// The value of an expression that reads nothing; none where the text is no such expression.
fn literal(text: &str) -> Option<Value> {
    let environment = Environment {
        parameters: &Map::new(),
        procedures: &NoProcedures,
        now_nanos: 0,
        seed: 0,
        is_over: &|| false,
        memory_max: MEMORY_MAX,
    };
    let mut found = None;
    let query = format!("RETURN {text} AS value");
    let mut take = |row: Vec<Value>| {
        found = row.into_iter().next();
        Ok(true)
    };
    shoal_graph::run(&MemoryGraph::new(), &query, &environment, &mut |_| Ok(()), &mut take).ok()?;
    found
}
