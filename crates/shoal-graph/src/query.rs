//! A query from its text to its rows.

use std::cell::{Cell, RefCell};

use crate::algorithms::KeptSnapshots;
use crate::ast::{Clause, Mode};
use crate::bind;
use crate::error::Result;
use crate::exec::compact::Shape;
use crate::graph::Graph;
use crate::lexer::{TokenKind, tokens};
use crate::matcher::plan;
use crate::parser;
use crate::procedure::Procedures;
use crate::run::Run;
use crate::temporal::build::from_epoch;
use crate::temporal::zone::Zone;
use crate::value::{Map, Value};

/// The surroundings of a query.
pub struct Environment<'e> {
    /// Parameters by name.
    pub parameters: &'e Map,
    /// Procedures.
    pub procedures: &'e dyn Procedures,
    /// The time of `datetime()` and its kin: nanoseconds since 1970 in UTC.
    pub now_nanos: i128,
    /// The seed of `rand()`.
    pub seed: u64,
    /// Asked now and then; true stops the query.
    pub is_over: &'e dyn Fn() -> bool,
    /// The most bytes of rows, groups and sorts kept by the query.
    pub memory_max: usize,
}

/// A bound on memory where none is given: 1 GiB.
pub const MEMORY_MAX: usize = 1 << 30;

/// The queries of a text, separated by semicolons.
///
/// # Errors
/// A text that is no sequence of tokens.
pub fn split(text: &str) -> Result<Vec<&str>> {
    let mut queries = Vec::new();
    let mut start = None;
    for token in tokens(text)? {
        let ends = matches!(token.kind, TokenKind::Sign(";") | TokenKind::End);
        match (start, ends) {
            (None, false) => start = Some(token.start as usize),
            (Some(from), true) => {
                queries.push(text[from..token.start as usize].trim_end());
                start = None;
            }
            _ => {}
        }
    }
    Ok(queries)
}

/// True of a query that writes when it is run.
///
/// # Errors
/// A text that is no query.
pub fn writes(text: &str) -> Result<bool> {
    let query = parser::parse(text)?;
    let writes = query.parts.iter().flat_map(|part| &part.clauses).any(clause_writes);
    Ok(writes && query.mode != Mode::Explain)
}

/// The names of a query's columns; none of a query without `RETURN`. Parameters may be missing.
///
/// # Errors
/// What the text is refused for.
pub(crate) fn columns(text: &str, procedures: &dyn Procedures) -> Result<Vec<String>> {
    let mut query = parser::parse(text)?;
    bind::names(&mut query, procedures)
}

/// Runs a query: `columns` takes the names of its columns, then `sink` each row; false ends the
/// query.
///
/// The query is one transaction: an error undoes all that it wrote.
///
/// # Errors
/// What the text or the graph is refused for; what `sink` raises.
pub fn run(
    graph: &dyn Graph,
    text: &str,
    environment: &Environment<'_>,
    columns: &mut dyn FnMut(&[String]) -> Result<()>,
    sink: &mut dyn FnMut(Vec<Value>) -> Result<bool>,
) -> Result<()> {
    run_with(graph, text, (environment, None), columns, sink)
}

/// As [`run`], with snapshots that are kept of the graph's state.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_with(
    graph: &dyn Graph,
    text: &str,
    (environment, kept): (&Environment<'_>, Option<KeptSnapshots<'_>>),
    columns: &mut dyn FnMut(&[String]) -> Result<()>,
    sink: &mut dyn FnMut(Vec<Value>) -> Result<bool>,
) -> Result<()> {
    let mut query = parser::parse(text)?;
    let names = bind::bind(&mut query, environment.parameters, environment.procedures)?;
    let nanos = environment.now_nanos;
    let started = from_epoch(
        i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(0),
        nanos.rem_euclid(1_000_000_000) as i64,
        Zone::UTC,
    )?;
    let run = Run {
        graph,
        parameters: environment.parameters,
        procedures: environment.procedures,
        started,
        random: Cell::new(environment.seed),
        is_over: environment.is_over,
        memory_max: environment.memory_max,
        memory: Cell::new(0),
        ticks: Cell::new(0),
        dead_nodes: RefCell::default(),
        dead_relationships: RefCell::default(),
        plans: RefCell::default(),
        writes: query.parts.iter().flat_map(|part| &part.clauses).any(clause_writes),
        kept,
        profile: RefCell::default(),
    };
    if query.mode == Mode::Explain {
        columns(&["plan".to_owned()])?;
        graph.begin(false)?;
        let lines = describe(&run, &query.parts);
        graph.rollback();
        for (line, _) in lines? {
            if !sink(vec![Value::text(&line)])? {
                break;
            }
        }
        return Ok(());
    }
    let writes = run.writes;
    graph.begin(writes)?;
    let mut kept: Vec<Vec<Value>> = Vec::new();
    let result = execute(&run, &query, &names, writes, &mut kept, columns, sink);
    if let Err(error) = result {
        graph.rollback();
        return Err(error);
    }
    let plan = match query.mode {
        Mode::Profile => describe(&run, &query.parts),
        _ => Ok(Vec::new()),
    };
    match plan {
        Err(error) => {
            graph.rollback();
            return Err(error);
        }
        Ok(lines) => {
            graph.commit()?;
            if query.mode == Mode::Profile {
                columns(&["plan".to_owned(), "rows".to_owned()])?;
                for (line, count) in lines {
                    let count = count.map_or(Value::Null, |count| Value::Integer(count as i64));
                    kept.push(vec![Value::text(&line), count]);
                }
            }
        }
    }
    if writes && query.mode == Mode::Run {
        columns(&names)?;
    }
    for row in kept {
        if !sink(row)? {
            break;
        }
    }
    Ok(())
}

/// Runs a bound query within its transaction. Rows of a query that writes are kept, to be told when
/// the writes are durable; those of `PROFILE` are counted only.
fn execute(
    run: &Run<'_>,
    query: &crate::ast::Query,
    names: &[String],
    writes: bool,
    kept: &mut Vec<Vec<Value>>,
    columns: &mut dyn FnMut(&[String]) -> Result<()>,
    sink: &mut dyn FnMut(Vec<Value>) -> Result<bool>,
) -> Result<()> {
    let whole =
        |row: &[Value]| row.iter().map(|value| run.whole(value)).collect::<Result<Vec<_>>>();
    if query.mode == Mode::Profile {
        return run.query(query, &mut |_, _| Ok(true));
    }
    if !writes {
        columns(names)?;
        return run.query(query, &mut |_, row| sink(whole(row)?));
    }
    run.query(query, &mut |run, row| {
        run.keep_row(row)?;
        kept.push(row.to_vec());
        Ok(true)
    })?;
    for row in kept {
        *row = whole(row)?;
    }
    Ok(())
}

fn clause_writes(clause: &Clause) -> bool {
    matches!(
        clause,
        Clause::Create { .. }
            | Clause::Merge(_)
            | Clause::Set { .. }
            | Clause::Remove { .. }
            | Clause::Delete { .. }
    )
}

/// Lines of a plan, those of clauses with the rows that they gave.
fn describe(run: &Run<'_>, parts: &[crate::ast::Part]) -> Result<Vec<(String, Option<u64>)>> {
    let mut lines = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            lines.push(("UNION".to_owned(), None));
        }
        for clause in &part.clauses {
            let key = std::ptr::from_ref(clause).addr() as u64;
            let count = run
                .profile
                .borrow()
                .chunks_exact(2)
                .find(|pair| pair[0] == key)
                .map(|pair| pair[1]);
            lines.push((title(clause).to_owned(), count));
            if std::ptr::eq(clause, &part.clauses[0]) && Shape::of(run, &part.clauses)?.is_some() {
                let line = "  multiway join over compressed rows, counted where nothing is read";
                lines.push((line.to_owned(), None));
                continue;
            }
            if let Clause::Match(found) = clause {
                let plan = run.plan_of(found)?;
                lines.extend(
                    plan::describe(found, &plan, run.graph)?
                        .into_iter()
                        .map(|line| (format!("  {line}"), None)),
                );
            }
        }
    }
    Ok(lines)
}

fn title(clause: &Clause) -> &'static str {
    match clause {
        Clause::Match(found) if found.optional => "OPTIONAL MATCH",
        Clause::Match(_) => "MATCH",
        Clause::Unwind { .. } => "UNWIND",
        Clause::Project(projection) => match (projection.is_return, projection.groups.is_some()) {
            (true, false) => "RETURN",
            (true, true) => "RETURN, grouped",
            (false, false) => "WITH",
            (false, true) => "WITH, grouped",
        },
        Clause::Create { .. } => "CREATE",
        Clause::Merge(_) => "MERGE",
        Clause::Set { .. } => "SET",
        Clause::Remove { .. } => "REMOVE",
        Clause::Delete { .. } => "DELETE",
        Clause::Call(_) => "CALL",
    }
}
