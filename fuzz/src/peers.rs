//! The same tables in Shoal and in SQLite, and a query asked of both.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{Value as Theirs, ValueRef as TheirRef};
use shoal_sql::{Connection, Error, Forced, ForcedChoice, Limits, Value, ValueRef};
use shoal_store::vfs::MemVfs;
use shoal_store::{Access, Store};

use crate::query::Query;

/// Rows compared per query; further rows are left out.
const ROWS_MAX: usize = 20_000;
/// How long Shoal may take for a query.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How many thousand steps SQLite may take for one.
const STEPS_MAX: u32 = 10_000;
/// Memory allowed when a query is asked again to force spills: next to nothing.
const MEMORY_BYTES: u64 = 6_000;

/// Numbers for SQLite: the bundled library is built without `generate_series`.
const NUMBERS: &str = "CREATE TEMP TABLE numbers(value); INSERT INTO numbers VALUES \
    (-3), (-2), (-1), (0), (1), (2), (3), (4), (5), (6), (7)";

/// Both.
pub struct Peers {
    ours: Connection,
    theirs: rusqlite::Connection,
}

/// The outcome of comparing a query's answers.
#[derive(Debug)]
pub enum Verdict {
    /// Both gave the same rows; and whether Shoal did so with little memory as well.
    Same {
        /// True when Shoal gave the same rows with little memory, too.
        in_little: bool,
    },
    /// Both refused the query.
    Refused,
    /// Shoal refused the query as unsupported: the reason.
    Unsupported(String),
    /// Undecided: too many rows, or an error depending on the plan.
    Open,
    /// They differ: how.
    Differ(String),
}

type Rows = Vec<Vec<String>>;

impl Peers {
    /// Both engines with the tables of a script, one statement a line; statements refused by SQLite
    /// are left out.
    ///
    /// # Panics
    /// When SQLite does not give its pages, or Shoal cannot open them: either is a finding.
    #[must_use]
    pub fn new(script: &str) -> Peers {
        let mut theirs = rusqlite::Connection::open_in_memory().expect("SQLite opens");
        for line in script.lines() {
            // A row may not suit its table.
            let _ = theirs.execute_batch(line);
        }
        let image = theirs.serialize("main").expect("SQLite gives its pages").to_vec();
        theirs.execute_batch(NUMBERS).expect("a table of numbers is made");
        let (vfs, path) = (MemVfs::new(), Path::new("test.db"));
        vfs.put(path, image);
        let store = Store::open(Arc::new(vfs), path, Access::ReadOnly).expect("the file opens");
        let mut ours = Connection::open(store).expect("the schema is read");
        ours.set_limits(Limits { time: Some(TIME_MAX), ..Limits::default() });
        Peers { ours, theirs }
    }

    /// Asks both, Shoal several times: twice with the same statement, with little memory, and with
    /// each of these choices made in its planner's place.
    ///
    /// # Panics
    /// When a literal of a parameter is none.
    pub fn ask(&mut self, query: &Query, forced: &[Forced]) -> Verdict {
        let verdict = self.ask_freely(query);
        let Verdict::Same { .. } = verdict else { return verdict };
        let parameters: Vec<Theirs> =
            query.parameters.iter().map(|literal| self.value(literal)).collect();
        let expect = match self.theirs(query, &parameters) {
            Ok((_, rows)) => rows,
            Err(error) => return Verdict::Differ(format!("theirs, once more: {error}")),
        };
        let ours = Ours { query, parameters: parameters.iter().map(value).collect() };
        for &forced in forced {
            if let Some(how) = self.ask_forced(&ours, forced, &expect) {
                return Verdict::Differ(format!("{forced:?}: {how}"));
            }
        }
        verdict
    }

    /// Asks with forced choices of the planner; returns the difference from SQLite, if any.
    fn ask_forced(&mut self, ours: &Ours<'_>, forced: Forced, expect: &Rows) -> Option<String> {
        self.ours.force(forced);
        let statement = self.ours.prepare(&ours.query.sql);
        let got = statement.and_then(|mut statement| ours.rows(&mut self.ours, &mut statement));
        self.ours.force(Forced::default());
        match got {
            Ok(got) if got == *expect => None,
            Ok(got) => Some(format!("{}\ntheirs: {}", show(&got), show(expect))),
            // Out of time, or out of the memory allowed by the choice.
            Err(Error::Limit { .. }) => None,
            Err(error) if depends_on_plan(&error.to_string()) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    fn ask_freely(&mut self, query: &Query) -> Verdict {
        let parameters: Vec<Theirs> =
            query.parameters.iter().map(|literal| self.value(literal)).collect();
        let expect = self.theirs(query, &parameters);
        let ours = Ours { query, parameters: parameters.iter().map(value).collect() };
        let mut statement = match self.ours.prepare(&query.sql) {
            Ok(statement) => statement,
            Err(Error::Unsupported { what, .. }) => return Verdict::Unsupported(what.to_string()),
            Err(error) => {
                return match expect {
                    Ok(_) => Verdict::Differ(format!("ours: {error}")),
                    Err(_) => Verdict::Refused,
                };
            }
        };
        let got = ours.rows(&mut self.ours, &mut statement);
        let (names, expect, got) = match (expect, got) {
            (Ok((names, expect)), Ok(got)) => (names, expect, got),
            (_, Err(Error::Limit { .. })) => return Verdict::Open,
            (Err(_), Err(_)) => return Verdict::Refused,
            (Ok(_), Err(error)) if depends_on_plan(&error.to_string()) => return Verdict::Open,
            (Ok(_), Err(error)) => return Verdict::Differ(format!("ours: {error}")),
            (Err(error), Ok(_)) if depends_on_plan(&error.to_string()) => return Verdict::Open,
            (Err(error), Ok(got)) => {
                return Verdict::Differ(format!("ours: {}\ntheirs: {error}", show(&got)));
            }
        };
        if got.len() == ROWS_MAX || expect.len() == ROWS_MAX {
            return Verdict::Open;
        }
        let own = statement.column_names().iter().map(|name| name.split(':').next());
        if !own.eq(names.iter().map(|name| Some(name.as_str()))) {
            return Verdict::Differ(format!(
                "ours: {:?}\ntheirs: {names:?}",
                statement.column_names()
            ));
        }
        if got != expect {
            return Verdict::Differ(format!("ours: {}\ntheirs: {}", show(&got), show(&expect)));
        }
        match ours.rows(&mut self.ours, &mut statement) {
            Ok(again) if again == got => {}
            Ok(again) => {
                return Verdict::Differ(format!("ours: {}\nagain: {}", show(&got), show(&again)));
            }
            Err(Error::Limit { .. }) => return Verdict::Open,
            Err(error) => return Verdict::Differ(format!("again: {error}")),
        }
        let limits = self.ours.limits();
        self.ours.set_limits(Limits { memory_bytes: Some(MEMORY_BYTES), ..limits });
        let little = ours.rows(&mut self.ours, &mut statement);
        self.ours.set_limits(limits);
        match little {
            Ok(little) if little == got => Verdict::Same { in_little: true },
            Err(Error::Limit { .. }) => Verdict::Same { in_little: false },
            Ok(little) => Verdict::Differ(format!(
                "ours: {}\nin little memory: {}",
                show(&got),
                show(&little)
            )),
            Err(error) => Verdict::Differ(format!("in little memory: {error}")),
        }
    }

    fn value(&self, literal: &str) -> Theirs {
        let query = format!("SELECT {literal}");
        self.theirs.query_row(&query, [], |row| row.get(0)).expect("a literal is a value")
    }

    fn theirs(
        &mut self,
        query: &Query,
        parameters: &[Theirs],
    ) -> rusqlite::Result<(Vec<String>, Rows)> {
        let mut steps = 0;
        let too_many = move || {
            steps += 1;
            steps > STEPS_MAX
        };
        self.theirs.progress_handler(1000, Some(too_many))?;
        let mut statement = self.theirs.prepare(&query.without_series)?;
        // In some compounds SQLite numbers duplicate names, as `a:1`.
        let name = |name: &str| name.split(':').next().unwrap_or(name).to_owned();
        let names: Vec<String> = statement.column_names().map(name).collect();
        let mut out = Vec::new();
        let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(names.len());
            for column in 0..names.len() {
                values.push(match row.get_ref(column)? {
                    TheirRef::Null => text_of(ValueRef::Null),
                    TheirRef::Integer(int) => text_of(ValueRef::Int(int)),
                    TheirRef::Real(real) => text_of(ValueRef::Real(real)),
                    TheirRef::Text(text) => text_of(ValueRef::Text(text)),
                    TheirRef::Blob(blob) => text_of(ValueRef::Blob(blob)),
                });
            }
            out.push(values);
            if out.len() == ROWS_MAX {
                break;
            }
        }
        if !query.ordered {
            out.sort();
        }
        Ok((names, out))
    }
}

/// A query with its parameters' values.
struct Ours<'q> {
    query: &'q Query,
    parameters: Vec<Value>,
}

impl Ours<'_> {
    fn rows(
        &self,
        connection: &mut Connection,
        statement: &mut shoal_sql::Statement,
    ) -> Result<Rows, Error> {
        for (index, value) in self.parameters.iter().enumerate() {
            statement.bind(index + 1, value.clone())?;
        }
        let mut out = Vec::new();
        let mut rows = connection.query(statement)?;
        while let Some(row) = rows.next()? {
            out.push(row.values().map(text_of).collect());
            if out.len() == ROWS_MAX {
                break;
            }
        }
        if !self.query.ordered {
            out.sort();
        }
        Ok(out)
    }
}

fn value(theirs: &Theirs) -> Value {
    match theirs {
        Theirs::Null => Value::Null,
        Theirs::Integer(int) => Value::Int(*int),
        Theirs::Real(real) => Value::Real(*real),
        Theirs::Text(text) => Value::text(text),
        Theirs::Blob(blob) => Value::Blob(blob.clone()),
    }
}

/// A value as a text. SQL leaves open whether 1 or 1.0 stands for both, and the last bits of a sum:
/// numbers are rounded so that equal ones read the same.
fn text_of(value: ValueRef<'_>) -> String {
    const EXACT: u64 = 1 << 53;
    let number = |real: f64| format!("{:.12e}", real + 0.0);
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Int(int) if int.unsigned_abs() > EXACT => int.to_string(),
        ValueRef::Int(int) => number(int as f64),
        ValueRef::Real(real) => number(real),
        ValueRef::Text(text) => format!("'{}'", text.escape_ascii()),
        ValueRef::Blob(blob) => format!("x'{}'", blob.escape_ascii()),
    }
}

/// Every combination of choices.
#[must_use]
pub fn all_choices() -> Vec<Forced> {
    let mut out = vec![Forced::default()];
    let mut seen = std::collections::HashSet::from([format!("{:?}", Forced::default())]);
    for choice in ForcedChoice::ALL {
        // Of two choices of one kind the last one counts: every combination appears once.
        let with = |forced: &Forced| forced.with(choice);
        let is_new = |forced: &Forced| seen.insert(format!("{forced:?}"));
        let more: Vec<Forced> = out.iter().map(with).filter(is_new).collect();
        out.extend(more);
    }
    out
}

/// True for an error raised by a function: another plan may not call the function for the same
/// rows.
fn depends_on_plan(error: &str) -> bool {
    [
        "interrupted",
        "JSON",
        "overflow",
        "malformed",
        "second argument to nth_value",
        "argument of ntile",
    ]
    .iter()
    .any(|known| error.contains(known))
}

fn show(rows: &Rows) -> String {
    let text: Vec<String> = rows.iter().take(30).map(|row| row.join(" | ")).collect();
    format!("{} rows\n  {}", rows.len(), text.join("\n  "))
}
