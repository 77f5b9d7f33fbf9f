//! Changesets from strangers: read, converted, applied.

use shoal_diff::{
    Answer, ApplyOptions, Conflict, ConflictKind, Form, Reader, Recorder, Writer, apply, concat,
    invert, rebase,
};
use shoal_sql::Connection;
use shoal_store::Store;

const TABLES: [&str; 5] = [
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c REAL)",
    "CREATE TABLE w (a, b UNIQUE, c CHECK (c <> 3), PRIMARY KEY (a, b)) WITHOUT ROWID",
    "CREATE TABLE n (x, y)",
    "INSERT INTO t VALUES (1, 'x', 1.5), (2, 'y', 2.0), (3, NULL, NULL)",
    "INSERT INTO w VALUES (1, 1, 1), ('a', 'b', x'00')",
];

/// Statements that change the tables, in scripts.
pub const SCRIPTS: [&[&str]; 5] = [
    &["INSERT INTO t VALUES (4, 'z', 0.5), (-1, NULL, NULL)"],
    &["UPDATE t SET b = 'w', c = a WHERE a < 3", "UPDATE w SET c = 2"],
    &["DELETE FROM t WHERE a = 2", "DELETE FROM w"],
    &["UPDATE t SET a = a + 1 WHERE a = 3", "INSERT INTO w VALUES (x'01', 'c', 1.5)"],
    &["DELETE FROM t", "INSERT INTO t VALUES (1, 'a longer text', 1e300), (2, x'ff00', 1)"],
];

fn run(connection: &mut Connection, sql: &str) {
    let mut statement = connection.prepare(sql).expect("a known statement");
    connection.execute(&mut statement).expect("a known statement runs");
}

/// What the statements change in the tables, as a changeset and as a patchset.
///
/// # Panics
/// When a statement is wrong.
#[must_use]
pub fn recorded(statements: &[&str]) -> [Vec<u8>; 2] {
    let mut connection = Connection::open(Store::memory()).expect("memory opens");
    TABLES.iter().for_each(|sql| run(&mut connection, sql));
    let recorder = Recorder::start(&mut connection).expect("a recorder starts");
    statements.iter().for_each(|sql| run(&mut connection, sql));
    [Form::Changeset, Form::Patchset].map(|form| {
        recorder.changes(&mut connection, form).expect("the changes of known statements")
    })
}

/// Whatever the bytes are, every use ends in a value or an error, and the database stays sound.
///
/// # Panics
/// When one does not.
pub fn check(data: &[u8]) {
    let mut reader = Reader::new(data);
    let mut writer = Writer::new(Form::Patchset);
    let mut form = None;
    let whole = loop {
        match reader.next() {
            Ok(Some(change)) => {
                form = Some(change.form);
                writer.push(&change);
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    if whole && form.is_some() {
        let patchset = writer.finish();
        let mut again = Reader::new(&patchset);
        while again.next().expect("a written patchset reads").is_some() {}
    }
    if let Ok(inverted) = invert(data) {
        invert(&inverted).expect("an inverted changeset inverts");
    }
    if let Ok(both) = concat(data, data) {
        concat(&both, data).expect("a joined changeset joins");
    }
    let mut notes = Vec::new();
    for policy in [Answer::Omit, Answer::Replace, Answer::Abort] {
        let mut connection = Connection::open(Store::memory()).expect("memory opens");
        TABLES.iter().for_each(|sql| run(&mut connection, sql));
        let mut answer = |conflict: &Conflict<'_>| match conflict.kind {
            ConflictKind::Data | ConflictKind::Conflict => policy,
            _ if policy == Answer::Abort => policy,
            _ => Answer::Omit,
        };
        let done = apply(&mut connection, data, &ApplyOptions::default(), &mut answer);
        assert!(!connection.in_transaction(), "an application ends its transaction");
        if let Ok(applied) = done {
            notes = applied.rebase;
        }
        let mut statement = connection.prepare("PRAGMA integrity_check").expect("a pragma");
        let mut rows = connection.query(&mut statement).expect("a pragma runs");
        let row = rows.next().expect("a row").expect("an answer");
        assert_eq!(row.get(0), shoal_sql::ValueRef::Text(b"ok"));
    }
    let _ = rebase(data, &notes);
    let _ = rebase(data, data);
}
