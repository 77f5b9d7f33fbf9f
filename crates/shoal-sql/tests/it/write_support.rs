//! Statements run by Shoal and by SQLite side by side.

/// `SHOAL_TEST_CODEC=1` in the environment stores every page by the codec of the store's tests.
#[path = "../../../shoal-store/tests/common/codec.rs"]
mod codec;

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::ValueRef as SqliteValue;
use shoal_sql::{Connection, Value};
use shoal_store::vfs::{Image, OsVfs, SimVfs};
use shoal_store::{Access, Mode, Options, Store};

pub(crate) use shoal_testkit::Random;

/// The name of the database on a simulated disk.
pub(crate) const DB: &str = "db";

/// Opens a Shoal connection to a database on a simulated disk, where syncing costs nothing.
pub(crate) fn shoal(vfs: &SimVfs) -> Connection {
    Connection::open(store_on(vfs)).unwrap()
}

fn store_on(vfs: &SimVfs) -> Store {
    let options = Options { codec: codec::wanted(), ..Options::new(Access::Create) };
    Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options).unwrap()
}

/// The contents of a disk's database, read by SQLite. Fails unless SQLite finds the file whole.
pub(crate) fn contents_of(image: &Image) -> String {
    let folder = tempfile::tempdir().unwrap();
    let plain = codec::wanted().map(|codec| {
        // SQLite reads what recovery and a checkpoint leave, in its plain form.
        let vfs = SimVfs::from_image(image);
        drop(store_on(&vfs).begin(Mode::Read).unwrap());
        let bytes = vfs.image().remove(Path::new(DB)).unwrap_or_default();
        Image::from([(DB.into(), codec::plain(&*codec, &bytes))])
    });
    for (name, bytes) in plain.as_ref().unwrap_or(image) {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let connection = sqlite(Some(&folder.path().join(DB)));
    let result = run_sqlite(&connection, "PRAGMA integrity_check").unwrap();
    assert_eq!(result, vec![vec![Value::from("ok")]]);
    contents(&connection)
}

/// Opens SQLite as its command does: without enforcing foreign keys.
pub(crate) fn sqlite(path: Option<&Path>) -> rusqlite::Connection {
    let connection = match path {
        Some(path) => rusqlite::Connection::open(path).unwrap(),
        None => rusqlite::Connection::open_in_memory().unwrap(),
    };
    connection.execute_batch("PRAGMA foreign_keys = off").unwrap();
    connection
}

/// Runs statements in both, on a file in Shoal. Fails unless every one of them gives the same rows
/// and counts, SQLite finds the file whole, and the contents are the same at the end.
pub(crate) fn script(statements: &[&str]) {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    let mut different: Vec<String> = Vec::new();
    for sql in statements {
        let (got, expect) = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
        if got != expect {
            different.push(format!("{sql}\n{}sqlite: {}", show(&got), show(&expect)));
        }
        // After a first difference the counts differ, too.
        if different.is_empty() {
            let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
            let (got, expect) = (run_shoal(&mut ours, counts), run_sqlite(&theirs, counts));
            assert_eq!(got, expect, "{sql}");
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    drop(ours);
    assert_eq!(contents_of(&vfs.image()), contents(&theirs));
}

/// Opens a Shoal connection to a file on the disk.
pub(crate) fn on_disk(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs), path, Access::Create).unwrap();
    Connection::open(store).unwrap()
}

/// Runs statements in both, each on files of its own; `DIR` stands for their folder. Fails unless
/// all outcomes and counts agree, and all files hold the same in the end, whole to SQLite.
pub(crate) fn script_of_files(statements: &[&str]) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut shoal = on_disk(&folders[0].path().join("main.db"));
    let peer = sqlite(Some(&folders[1].path().join("main.db")));
    let mut different = Vec::new();
    for sql in statements {
        let text = |place: usize| sql.replace("DIR", folders[place].path().to_str().unwrap());
        let (got, expect) = (run_shoal(&mut shoal, &text(0)), run_sqlite(&peer, &text(1)));
        if got != expect {
            different.push(format!("{sql}\n{}sqlite: {}", show(&got), show(&expect)));
        }
        if different.is_empty() {
            let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
            let (got, expect) = (run_shoal(&mut shoal, counts), run_sqlite(&peer, counts));
            assert_eq!(got, expect, "{sql}");
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    drop((shoal, peer));
    for name in ["main.db", "a.db", "b.db"] {
        let path = |place: usize| folders[place].path().join(name);
        assert_eq!(path(0).exists(), path(1).exists(), "{name}");
        if path(0).exists() {
            let [own, other] = [0, 1].map(|place| {
                let connection = sqlite(Some(&path(place)));
                let whole = run_sqlite(&connection, "PRAGMA integrity_check").unwrap();
                assert_eq!(show(&Ok(whole)), "\"ok\"\n");
                contents(&connection)
            });
            assert_eq!(own, other, "{name}");
        }
    }
}

/// The outcome of a statement: its rows, or its count of changes, or its error's message.
pub(crate) type Outcome = Result<Vec<Vec<Value>>, String>;

/// Runs one statement in Shoal.
pub(crate) fn run_shoal(connection: &mut Connection, sql: &str) -> Outcome {
    let mut statement = connection.prepare(sql).map_err(|error| error.to_string())?;
    if statement.column_count() == 0 {
        connection.execute(&mut statement).map_err(|error| error.to_string())?;
        return Ok(Vec::new());
    }
    let mut rows = connection.query(&mut statement).map_err(|error| error.to_string())?;
    let mut result = Vec::new();
    while let Some(row) = rows.next().map_err(|error| error.to_string())? {
        result.push((0..row.len()).map(|index| Value::from(row.get(index))).collect());
    }
    Ok(result)
}

/// Runs one statement in SQLite.
pub(crate) fn run_sqlite(connection: &rusqlite::Connection, sql: &str) -> Outcome {
    let message = |error: rusqlite::Error| match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    };
    let mut statement = connection.prepare(sql).map_err(message)?;
    let width = statement.column_count();
    let mut rows = statement.query([]).map_err(message)?;
    let mut result = Vec::new();
    while let Some(row) = rows.next().map_err(message)? {
        result.push((0..width).map(|index| value(row.get_ref(index).unwrap())).collect());
    }
    Ok(result)
}

fn value(value: SqliteValue<'_>) -> Value {
    match value {
        SqliteValue::Null => Value::Null,
        SqliteValue::Integer(int) => Value::Int(int),
        SqliteValue::Real(real) => Value::Real(real),
        SqliteValue::Text(text) => Value::Text(text.to_vec()),
        SqliteValue::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Everything visible to statements in a database: its schema and every table's rows.
pub(crate) fn contents(connection: &rusqlite::Connection) -> String {
    let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid";
    let mut contents = show(&run_sqlite(connection, schema));
    let tables = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    for row in run_sqlite(connection, tables).unwrap() {
        let (Value::Text(name), Value::Text(sql)) = (&row[0], &row[1]) else { panic!("{row:?}") };
        let name = String::from_utf8_lossy(name);
        let rowid =
            if String::from_utf8_lossy(sql).contains("WITHOUT ROWID") { "" } else { "rowid, " };
        let query = format!("SELECT {rowid}* FROM \"{name}\"");
        contents.push_str(&format!("{query}\n{}", show(&run_sqlite(connection, &query))));
    }
    contents
}

/// A result as text, one row a line.
pub(crate) fn show(outcome: &Outcome) -> String {
    let value = |value: &Value| match value {
        Value::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        // Newer versions of SQLite keep the sign of zero, older ones and Shoal do not.
        Value::Real(real) => format!("{:?}", real + 0.0),
        Value::Blob(bytes) if bytes.len() > 20 => format!("blob of {}", bytes.len()),
        other => format!("{other:?}"),
    };
    match outcome {
        Err(message) => format!("error: {message}\n"),
        Ok(rows) => rows
            .iter()
            .map(|row| row.iter().map(value).collect::<Vec<_>>().join(" | ") + "\n")
            .collect(),
    }
}

/// Both engines, without a file, with their prepared statements.
pub(crate) struct Both {
    shoal: Connection,
    sqlite: rusqlite::Connection,
    statements: std::collections::BTreeMap<String, shoal_sql::Statement>,
}

impl Both {
    pub(crate) fn new() -> Both {
        let shoal = Connection::open(Store::memory()).unwrap();
        Both { shoal, sqlite: sqlite(None), statements: Default::default() }
    }

    /// Runs one statement in both; fails unless they agree.
    pub(crate) fn run(&mut self, sql: &str) {
        assert_eq!(run_shoal(&mut self.shoal, sql), run_sqlite(&self.sqlite, sql), "{sql}");
    }

    /// One statement's outcomes in Shoal and in SQLite.
    pub(crate) fn outcomes(&mut self, sql: &str) -> (Outcome, Outcome) {
        (run_shoal(&mut self.shoal, sql), run_sqlite(&self.sqlite, sql))
    }

    /// The first column of a query's first row, from Shoal and from SQLite.
    pub(crate) fn ask(&mut self, sql: &str, parameters: &[Value]) -> (Answer, Answer) {
        (self.ask_shoal(sql, parameters), self.ask_sqlite(sql, parameters))
    }

    /// Fails unless both answer alike, to the bit.
    pub(crate) fn agree(&mut self, sql: &str, parameters: &[Value]) {
        let (got, expect) = self.ask(sql, parameters);
        assert!(same(&got, &expect), "{sql} {parameters:?}: {got:?}, sqlite {expect:?}");
    }

    fn ask_shoal(&mut self, sql: &str, parameters: &[Value]) -> Answer {
        if !self.statements.contains_key(sql) {
            let statement = self.shoal.prepare(sql).map_err(|error| error.to_string())?;
            self.statements.insert(sql.to_owned(), statement);
        }
        let statement = self.statements.get_mut(sql).unwrap();
        for (index, value) in parameters.iter().enumerate() {
            statement.bind(index + 1, value.clone()).unwrap();
        }
        let mut rows = self.shoal.query(statement).map_err(|error| error.to_string())?;
        let row = rows.next().map_err(|error| error.to_string())?;
        Ok(Value::from(row.unwrap().get(0)))
    }

    fn ask_sqlite(&self, sql: &str, parameters: &[Value]) -> Answer {
        let mut statement = self.sqlite.prepare_cached(sql).unwrap();
        let parameters = parameters.iter().map(|value| match value {
            Value::Null => rusqlite::types::Value::Null,
            Value::Int(int) => rusqlite::types::Value::Integer(*int),
            Value::Real(real) => rusqlite::types::Value::Real(*real),
            Value::Text(text) => {
                rusqlite::types::Value::Text(String::from_utf8(text.clone()).unwrap())
            }
            Value::Blob(bytes) => rusqlite::types::Value::Blob(bytes.clone()),
        });
        let parameters = rusqlite::params_from_iter(parameters);
        statement.query_row(parameters, |row| Ok(value(row.get_ref(0)?))).map_err(|error| {
            match error {
                rusqlite::Error::SqliteFailure(_, Some(message)) => message,
                other => other.to_string(),
            }
        })
    }
}

/// A value, or an error's message.
pub(crate) type Answer = Result<Value, String>;

fn same(a: &Answer, b: &Answer) -> bool {
    match (a, b) {
        (Ok(Value::Real(a)), Ok(Value::Real(b))) => a == b,
        (Ok(a), Ok(b)) => a == b,
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}

/// A value of any class, with a preference for the ends of ranges and for text close to a number.
pub(crate) fn any_value(random: &mut Random) -> Value {
    const INTS: &[i64] = &[
        0,
        1,
        -1,
        2,
        10,
        63,
        64,
        -64,
        100,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        1 << 53,
        (1 << 53) + 1,
        2251799813685248,
        4503599627370497,
        0x10ffff,
        0xd800,
        233,
    ];
    const PIECES: &[&str] = &[
        "0",
        "1",
        "2",
        "9",
        ".",
        "e",
        "E",
        "-",
        "+",
        " ",
        "5",
        "\t",
        "x",
        "é",
        "a",
        "b",
        "A",
        "  ",
        "%",
        "_",
        "*",
        "?",
        "[",
        "]",
        "^",
        "\\",
        "'",
        "\"",
        "€",
        "𝄞",
        "a",
        "b",
        "\0",
        "00",
        "9223372036854775807",
        "9223372036854775808",
        "1e10",
        "123456789012345678901",
    ];
    let int = INTS[usize::try_from(random.below(INTS.len() as u64)).unwrap()];
    match random.below(12) {
        0 => Value::Null,
        1 => Value::Int(int),
        2 => Value::Int(random.number() as i64 >> random.below(64)),
        3 => Value::real(f64::from_bits(random.number())),
        4 => Value::Real(int as f64 / [1.0, 2.0, 4.0, 10.0][random.below(4) as usize]),
        5 => Value::Int(random.below(12) as i64 - 6),
        6 => Value::Real(random.below(100_000) as f64 / 1000.0 - 50.0),
        kind => {
            let pieces = random.below(7);
            let text: String = (0..pieces).map(|_| random.pick(PIECES)).collect();
            if kind == 7 { Value::Blob(text.into_bytes()) } else { Value::text(text) }
        }
    }
}

impl Both {
    /// Inserts one value into a table's only column and reads the stored value back, in both.
    pub(crate) fn insert(&mut self, table: &str, value: &Value) -> (Answer, Answer) {
        let insert = format!("INSERT INTO {table} VALUES (?1)");
        let mut statement = self.shoal.prepare(&insert).unwrap();
        statement.bind(1, value.clone()).unwrap();
        self.shoal.execute(&mut statement).unwrap();
        let returning = format!("{insert} RETURNING x");
        let expect = self.ask_sqlite(&returning, std::slice::from_ref(value));
        let last = format!("SELECT x FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})");
        (self.ask_shoal(&last, &[]), expect)
    }
}
