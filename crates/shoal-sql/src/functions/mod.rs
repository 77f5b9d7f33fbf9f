//! SQL's built-in functions: looked up by name when a statement is prepared, called on values.
//!
//! Functions know no tables and no expressions; the world (the clock, random bytes, counts of
//! changes) comes through [`Session`]. Functions of SQLite missing here are refused by name, so
//! that a query never gets another function's answer.

mod aggregate;
mod concat;
mod datetime;
mod encoding;
mod json;
mod math;
mod misc;
mod own;
mod printf;
mod text;
mod window;

use std::fmt;

use crate::Error;
use crate::error::Raise;
use crate::session::Session;
use crate::value::{Collation, GLOB, LIKE, Pattern, Value, ValueRef, text_of};

pub(crate) use aggregate::{AggregateFunction, AggregateState, ForEach};
pub(crate) use json::{Elements, Walk, elements};
pub use own::{Aggregate, ArgumentCount, FunctionFlags, SubtypedFunction};
pub(crate) use own::{Aggregation, Own, Scalar, Shared};
pub(crate) use window::{WindowFunction, window_function};

/// The world around one call.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    /// Collation for comparing text: the collation of the first argument with one.
    pub(crate) collation: Collation,
    /// The connection.
    pub(crate) session: &'a dyn Session,
    /// One bit for each of the first 64 arguments: set where a function returning JSON made the
    /// argument.
    pub(crate) json: u64,
}

impl Env<'_> {
    /// True where a function returning JSON made the argument at `place`.
    pub(crate) fn is_json(&self, place: usize) -> bool {
        has_bit(self.json, place)
    }
}

fn has_bit(mask: u64, place: usize) -> bool {
    place < 64 && mask >> place & 1 == 1
}

/// A function of values to a value.
pub(crate) struct ScalarFunction {
    name: &'static str,
    arguments: Arguments,
    /// True where equal arguments give equal results within one statement.
    pub(crate) deterministic: bool,
    /// True where the functions around the call take the returned text for JSON.
    pub(crate) returns_json: bool,
    body: Body,
    /// The body of a function of one value for a borrowed value, where the result takes no
    /// allocation and never fails.
    of_one: Option<OfOne>,
}

enum Body {
    Value(fn(&[Value], &Env<'_>) -> Result<Value, Error>),
    Text(Append),
    /// The program's own, and its name.
    Own(String, own::Body),
    Subtyped(own::Subtyped),
}

/// Appends the text result for borrowed values to other bytes; false for a NULL result. Bytes
/// appended before a NULL or an error mean nothing.
pub(crate) type Append =
    fn(&[ValueRef<'_>], &Env<'_>, &mut Kept, &mut Vec<u8>) -> Result<bool, Error>;

/// Parsed arguments kept from call to call, where the arguments are the same in every call.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// One bit for each of the first 64 arguments: set where the argument is the same in every call
    /// with this value.
    fixed: u64,
    format: Option<printf::Format>,
    modifiers: Option<datetime::Modifiers>,
}

impl Kept {
    /// Kept arguments for calls with these constant arguments, counted from the first on.
    pub(crate) fn new(fixed: impl Iterator<Item = bool>) -> Kept {
        let fixed = fixed.take(64).enumerate();
        let fixed = fixed.fold(0, |bits, (place, fixed)| bits | u64::from(fixed) << place);
        Kept { fixed, ..Kept::default() }
    }

    /// True where the arguments at `places` are the same in every call.
    fn is_fixed(&self, mut places: std::ops::Range<usize>) -> bool {
        places.all(|place| has_bit(self.fixed, place))
    }
}

type OfOne = fn(ValueRef<'_>) -> ValueRef<'static>;

/// The numbers of arguments a function takes.
#[derive(Clone, Copy, Debug)]
struct Arguments {
    min: usize,
    max: usize,
}

impl Arguments {
    const fn exactly(count: usize) -> Arguments {
        Arguments { min: count, max: count }
    }

    const fn between(min: usize, max: usize) -> Arguments {
        Arguments { min, max }
    }

    const fn at_least(min: usize) -> Arguments {
        Arguments { min, max: usize::MAX }
    }

    fn allow(self, count: usize) -> bool {
        (self.min..=self.max).contains(&count)
    }
}

impl ScalarFunction {
    /// The pattern language of `like` and `glob`, whose first argument is the pattern.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        match self.name {
            "like" => Some(LIKE),
            "glob" => Some(GLOB),
            _ => None,
        }
    }

    const fn new(
        name: &'static str,
        arguments: Arguments,
        body: fn(&[Value], &Env<'_>) -> Result<Value, Error>,
    ) -> ScalarFunction {
        ScalarFunction::with(name, arguments, Body::Value(body))
    }

    /// A function whose results are texts and NULL alone.
    const fn text(name: &'static str, arguments: Arguments, append: Append) -> ScalarFunction {
        ScalarFunction::with(name, arguments, Body::Text(append))
    }

    const fn with(name: &'static str, arguments: Arguments, body: Body) -> ScalarFunction {
        ScalarFunction {
            name,
            arguments,
            deterministic: true,
            returns_json: false,
            body,
            of_one: None,
        }
    }

    /// The same function with a body for one borrowed value.
    const fn telling(mut self, of_one: OfOne) -> ScalarFunction {
        self.of_one = Some(of_one);
        self
    }

    /// The body for a borrowed value, of functions with one argument and a result without
    /// allocation.
    pub(crate) fn of_one(&self) -> Option<OfOne> {
        self.of_one
    }

    /// The appending body of a function whose results are texts and NULL alone.
    pub(crate) fn append(&self) -> Option<Append> {
        match self.body {
            Body::Text(append) => Some(append),
            Body::Value(_) | Body::Own(..) | Body::Subtyped(_) => None,
        }
    }

    const fn json(
        name: &'static str,
        arguments: Arguments,
        body: fn(&[Value], &Env<'_>) -> Result<Value, Error>,
    ) -> ScalarFunction {
        let mut function = ScalarFunction::new(name, arguments, body);
        function.returns_json = true;
        function
    }

    const fn volatile(
        name: &'static str,
        arguments: Arguments,
        body: fn(&[Value], &Env<'_>) -> Result<Value, Error>,
    ) -> ScalarFunction {
        ScalarFunction::new(name, arguments, body).varying()
    }

    /// The same function, now allowed to give other results for equal arguments.
    const fn varying(mut self) -> ScalarFunction {
        self.deterministic = false;
        self
    }

    /// A function of the program's own.
    fn own(
        name: &str,
        arguments: Arguments,
        flags: FunctionFlags,
        body: own::Body,
    ) -> ScalarFunction {
        let mut function = ScalarFunction::with("", arguments, Body::Own(name.to_owned(), body));
        function.deterministic = flags.deterministic;
        function
    }

    /// A function of the program's own for arguments with subtypes.
    fn subtyped(subtyped: own::Subtyped, arguments: Arguments, flags: FunctionFlags) -> Self {
        let returns_json = subtyped.result() == b'J';
        let mut function = ScalarFunction::with("", arguments, Body::Subtyped(subtyped));
        function.deterministic = flags.deterministic;
        function.returns_json = returns_json;
        function
    }

    /// The subtype of the results, 0 for none.
    pub(crate) fn subtype(&self) -> u8 {
        match &self.body {
            Body::Subtyped(function) => function.result(),
            _ => 0,
        }
    }

    /// The name of a built-in function, in small letters: callers tell its meaning by the name.
    /// Empty for the program's own.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Calls the function with as many arguments as the lookup was given.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the arguments' values are refused.
    pub(crate) fn call(&self, arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
        match &self.body {
            Body::Value(body) => body(arguments, env),
            Body::Text(append) => text_of_call(*append, arguments, env),
            Body::Own(_, body) => checked_result(body(arguments)?),
            Body::Subtyped(function) => checked_result(function.call(arguments)?),
        }
    }
}

/// The result of a program's own function: no NaN, no text or blob of too many bytes.
fn checked_result(value: Value) -> Result<Value, Error> {
    match value {
        Value::Real(real) => Ok(Value::real(real)),
        Value::Text(bytes) | Value::Blob(bytes) if bytes.len() > LENGTH_MAX => Err(too_big()),
        value => Ok(value),
    }
}

/// The function called by `RAISE` with its message.
pub(crate) fn raise(raise: Raise) -> Scalar {
    const fn raising(body: fn(&[Value], &Env<'_>) -> Result<Value, Error>) -> ScalarFunction {
        ScalarFunction::volatile("raise", Arguments::exactly(1), body)
    }
    fn raised(arguments: &[Value], raise: Raise) -> Result<Value, Error> {
        let message = arguments.first().and_then(|message| text_of(message.as_ref()));
        let message = String::from_utf8_lossy(&message.unwrap_or_default()).into_owned();
        Err(Error::Raised { message, raise })
    }
    static IGNORE: ScalarFunction = raising(|arguments, _| raised(arguments, Raise::Ignore));
    static ROLLBACK: ScalarFunction = raising(|arguments, _| raised(arguments, Raise::Rollback));
    static ABORT: ScalarFunction = raising(|arguments, _| raised(arguments, Raise::Abort));
    static FAIL: ScalarFunction = raising(|arguments, _| raised(arguments, Raise::Fail));
    Shared::BuiltIn(match raise {
        Raise::Ignore => &IGNORE,
        Raise::Rollback => &ROLLBACK,
        Raise::Abort => &ABORT,
        Raise::Fail => &FAIL,
    })
}

fn text_of_call(append: Append, arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let mut few = [ValueRef::Null; 8];
    let many: Vec<ValueRef<'_>>;
    let borrowed = match few.get_mut(..arguments.len()) {
        Some(room) => {
            room.iter_mut().zip(arguments).for_each(|(to, from)| *to = from.as_ref());
            &*room
        }
        None => {
            many = arguments.iter().map(Value::as_ref).collect();
            &many
        }
    };
    let mut text = Vec::with_capacity(32);
    Ok(if append(borrowed, env, &mut Kept::default(), &mut text)? {
        Value::Text(text)
    } else {
        Value::Null
    })
}

impl fmt::Debug for ScalarFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.body {
            Body::Own(name, _) => name,
            Body::Subtyped(function) => &function.name,
            Body::Value(_) | Body::Text(_) => self.name,
        })
    }
}

/// A function found by its name.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    Scalar(Scalar),
    Aggregate(Aggregation),
}

/// Why a call means no function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("no such function: {0}")]
    Unknown(String),
    #[error("wrong number of arguments to function {0}()")]
    ArgumentCount(String),
    /// SQLite has the function, this crate does not.
    #[error("function {0}()")]
    Unsupported(String),
}

/// Finds the function for a call with `count` arguments; `f(*)` counts none.
///
/// One argument makes `min` and `max` aggregates, more make them scalars.
pub(crate) fn lookup(name: &str, count: usize) -> Result<Function, LookupError> {
    let mut known = false;
    for function in aggregate::FUNCTIONS {
        if function.name().eq_ignore_ascii_case(name) {
            known = true;
            if function.allows(count) {
                return Ok(Function::Aggregate(Shared::BuiltIn(function)));
            }
        }
    }
    for table in SCALARS {
        for function in *table {
            if function.name.eq_ignore_ascii_case(name) {
                known = true;
                if function.arguments.allow(count) {
                    return Ok(Function::Scalar(Shared::BuiltIn(function)));
                }
            }
        }
    }
    if known {
        return Err(LookupError::ArgumentCount(name.to_owned()));
    }
    if UNSUPPORTED.iter().any(|unsupported| unsupported.eq_ignore_ascii_case(name)) {
        return Err(LookupError::Unsupported(name.to_owned()));
    }
    Err(LookupError::Unknown(name.to_owned()))
}

/// True where an aggregate has the name, for any number of arguments.
pub(crate) fn is_aggregate(name: &str) -> bool {
    aggregate::FUNCTIONS.iter().any(|function| function.name().eq_ignore_ascii_case(name))
}

/// Every function: name, kind (`s`calar, `a`ggregate or `w`indow function), number of arguments (-1
/// for any number, else one entry for each number), and true where deterministic.
pub(crate) fn list() -> Vec<(&'static str, &'static str, i64, bool)> {
    let mut out = Vec::new();
    let mut add = |name: &'static str, kind, (min, max): (usize, usize), deterministic| {
        if max > 8 {
            out.push((name, kind, -1, deterministic));
        } else {
            let counts = (min..=max).filter_map(|count| i64::try_from(count).ok());
            out.extend(counts.map(|count| (name, kind, count, deterministic)));
        }
    };
    for table in SCALARS {
        for function in *table {
            if !function.name.contains(' ') {
                let counts = (function.arguments.min, function.arguments.max);
                add(function.name, "s", counts, function.deterministic);
            }
        }
    }
    for function in aggregate::FUNCTIONS {
        add(function.name(), "w", function.argument_counts(), true);
    }
    for (name, min, max) in window::names() {
        add(name, "w", (min, max), true);
    }
    out
}

const SCALARS: &[&[ScalarFunction]] = &[
    misc::FUNCTIONS,
    text::FUNCTIONS,
    math::FUNCTIONS,
    datetime::FUNCTIONS,
    json::FUNCTIONS,
    encoding::FUNCTIONS,
];

/// Functions of SQLite refused as unsupported, not as unknown.
const UNSUPPORTED: &[&str] = &[
    "bm25",
    "fts3_tokenizer",
    "geopoly_area",
    "highlight",
    "load_extension",
    "matchinfo",
    "median",
    "offsets",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "regexp",
    "rtreecheck",
    "rtreedepth",
    "rtreenode",
    "snippet",
    "soundex",
    "sqlite_compileoption_get",
    "sqlite_compileoption_used",
    "sqlite_log",
    "sqlite_offset",
    "sqlite_source_id",
    "sqlite_version",
];

/// The longest text or blob a function makes, in bytes, as SQLite is built by default.
pub(crate) const LENGTH_MAX: usize = 1_000_000_000;

fn too_big() -> Error {
    Error::runtime("string or blob too big")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A session where every answer is known.
    pub(crate) struct Fixed;

    impl Session for Fixed {
        fn changes(&self) -> i64 {
            1
        }
        fn total_changes(&self) -> i64 {
            2
        }
        fn last_insert_rowid(&self) -> i64 {
            3
        }
        fn random(&self, bytes: &mut [u8]) {
            bytes.fill(0xff);
        }
        fn now_unix_ms(&self) -> i64 {
            1_700_000_000_123
        }
    }

    /// Calls a scalar function by name.
    pub(crate) fn call(name: &str, arguments: &[Value]) -> Result<Value, Error> {
        let Ok(Function::Scalar(function)) = lookup(name, arguments.len()) else {
            panic!("no scalar function {name} with {} arguments", arguments.len());
        };
        function.call(arguments, &Env { collation: Collation::Binary, session: &Fixed, json: 0 })
    }

    #[test]
    fn lookups_tell_why() {
        let message = |name, count| lookup(name, count).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message("nosuch", 1), "no such function: nosuch");
        assert_eq!(message("SUBSTR", 1), "wrong number of arguments to function SUBSTR()");
        assert_eq!(message("count", 2), "wrong number of arguments to function count()");
        assert_eq!(lookup("Rank", 0).unwrap_err(), LookupError::Unknown("Rank".into()));
        assert!(matches!(lookup("MAX", 1), Ok(Function::Aggregate(_))));
        assert!(matches!(lookup("max", 2), Ok(Function::Scalar(_))));
    }
}
