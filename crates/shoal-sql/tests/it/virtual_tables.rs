//! The seam for virtual tables in the file, with a module of the test's own: words by their rowids,
//! found by word through a second shadow table, some of them kept in memory until they are flushed.

use std::sync::Arc;

use shoal_sql::{
    Connection, ConstraintKind, ConstraintOp, Definition, Error, IndexChoice, IndexRequest, Schema,
    ShadowTable, TableModule, TableReads, TableWrites, Taken, Value, ValueRef, VirtualColumn,
    VirtualCursor, VirtualRow, VirtualTable, VirtualWriter,
};
use shoal_store::Store;

#[derive(Debug)]
struct Words;

#[derive(Debug)]
struct WordTable {
    name: String,
    columns: Vec<VirtualColumn>,
    rows: ShadowTable,
    index: ShadowTable,
}

impl TableModule for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn create(
        &self,
        definition: &Definition<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let name = definition.name;
        if definition.arguments != ["word", "note TEXT"] {
            return Err(Error::of_function(format!(
                "words takes word, note: {:?}",
                definition.arguments
            )));
        }
        writes.execute(
            &format!("CREATE TABLE \"{name}_rows\"(id INTEGER PRIMARY KEY, word, note)"),
            &[],
        )?;
        let sql =
            format!("CREATE TABLE \"{name}_index\"(word, id, PRIMARY KEY(word, id)) WITHOUT ROWID");
        writes.execute(&sql, &[])?;
        let sql = format!("INSERT INTO \"{name}_rows\" VALUES (?1, ?2, NULL)");
        writes.execute(&sql, &[Value::Int(0), "first".into()])?;
        writes.execute(&format!("INSERT INTO \"{name}_index\" VALUES ('first', 0)"), &[])?;
        Ok(())
    }

    fn connect(
        &self,
        definition: &Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let name = definition.name;
        let hidden = [VirtualColumn::hidden(name), VirtualColumn::hidden("rank")];
        let shown = [VirtualColumn::new("word", ""), VirtualColumn::new("note", "TEXT")];
        Ok(Arc::new(WordTable {
            name: name.to_owned(),
            columns: shown.into_iter().chain(hidden).collect(),
            rows: ShadowTable::of(schema, &format!("{name}_rows"))?,
            index: ShadowTable::of(schema, &format!("{name}_index"))?,
        }))
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        ["rows", "index"].contains(&suffix)
    }
}

impl VirtualTable for WordTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let find = |wanted: &dyn Fn(Option<usize>, ConstraintOp) -> bool| {
            request.constraints.iter().position(|it| wanted(it.column, it.op))
        };
        let is_match = |column, op| match column {
            Some(0) => matches!(op, ConstraintOp::Match | ConstraintOp::Equal),
            Some(2) => matches!(op, ConstraintOp::Match | ConstraintOp::Equal),
            _ => false,
        };
        let is_rowid = |column: Option<usize>, op| column.is_none() && op == ConstraintOp::Equal;
        let by_rowid_descending =
            matches!(request.order, [order] if order.column.is_none() && order.descending);
        let taken = |constraint| vec![Taken { constraint, is_exact: true }];
        Ok(Some(if let Some(constraint) = find(&is_rowid) {
            let choice = IndexChoice { number: 1, cost: 1.0, rows: 1.0, ..IndexChoice::default() };
            IndexChoice { taken: taken(constraint), ..choice }
        } else if let Some(constraint) = find(&is_match) {
            let choice = IndexChoice { number: 2, cost: 5.0, rows: 5.0, ..IndexChoice::default() };
            IndexChoice { taken: taken(constraint), text: "w".to_owned(), ..choice }
        } else {
            let number = if by_rowid_descending { 4 } else { 3 };
            let is_ordered = by_rowid_descending;
            IndexChoice { number, cost: 1e6, rows: 1e6, is_ordered, ..IndexChoice::default() }
        }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        let (rows, index) = (self.rows.clone(), self.index.clone());
        Ok(Box::new(WordCursor { rows, index, found: Vec::new().into_iter(), rowid: 0 }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        let (rows, index) = (self.rows.clone(), self.index.clone());
        Ok(Box::new(WordWriter { rows, index, pending: Vec::new() }))
    }

    fn auxiliary(&self, name: &str) -> Option<usize> {
        name.eq_ignore_ascii_case("shout").then_some(7)
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for part in ["rows", "index"] {
            let sql =
                format!("ALTER TABLE \"{}_{part}\" RENAME TO \"{new_name}_{part}\"", self.name);
            writes.execute(&sql, &[])?;
        }
        Ok(())
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for part in ["rows", "index"] {
            writes.execute(&format!("DROP TABLE \"{}_{part}\"", self.name), &[])?;
        }
        Ok(())
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        let mut rows = reads.rows(&self.rows)?;
        let mut faults = Vec::new();
        let mut more = rows.first()?;
        while more {
            let id = rows.rowid()?;
            let key = [rows.column(1)?, ValueRef::Int(id)];
            if !reads.rows(&self.index)?.seek_key(&key)? {
                faults.push(format!("row {id} of {} is not in its index", self.name));
            }
            more = rows.next()?;
        }
        Ok(faults)
    }
}

#[derive(Debug)]
struct WordCursor {
    rows: ShadowTable,
    index: ShadowTable,
    found: std::vec::IntoIter<i64>,
    rowid: i64,
}

impl VirtualCursor for WordCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        match (choice.number, arguments) {
            (1, [rowid]) => {
                if let Value::Int(rowid) = rowid
                    && reads.rows(&self.rows)?.seek(*rowid)?
                {
                    found.push(*rowid);
                }
            }
            (2, [word]) => {
                let mut index = reads.rows(&self.index)?;
                let mut more = index.seek_key(&[word.as_ref()])?;
                while more && index.column(0)? == word.as_ref() {
                    if let ValueRef::Int(id) = index.column(1)? {
                        found.push(id);
                    }
                    more = index.next()?;
                }
            }
            _ => {
                let mut rows = reads.rows(&self.rows)?;
                let mut more = rows.first()?;
                while more {
                    found.push(rows.rowid()?);
                    more = rows.next()?;
                }
                if choice.number == 4 {
                    found.reverse();
                }
            }
        }
        self.found = found.into_iter();
        Ok(())
    }

    fn next(&mut self, _reads: &TableReads<'_>) -> Result<bool, Error> {
        let next = self.found.next();
        self.rowid = next.unwrap_or_default();
        Ok(next.is_some())
    }

    fn rowid(&self) -> i64 {
        self.rowid
    }

    fn column(
        &mut self,
        column: usize,
        reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        let mut rows = reads.rows(&self.rows)?;
        *out = match column {
            0 | 1 if rows.seek(self.rowid)? => Value::from(rows.column(column + 1)?),
            3 => Value::Int(self.rowid * 10),
            _ => Value::Null,
        };
        Ok(())
    }

    fn auxiliary(
        &mut self,
        function: usize,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        assert_eq!(function, 7);
        let mut word = Value::Null;
        self.column(0, reads, &mut word)?;
        let (Value::Text(word), [Value::Text(with)]) = (word, arguments) else {
            return Err(Error::of_function("shout takes a text"));
        };
        let shouted = String::from_utf8_lossy(&word).to_uppercase();
        Ok(Value::text(shouted + &String::from_utf8_lossy(with)))
    }
}

#[derive(Debug)]
struct WordWriter {
    rows: ShadowTable,
    index: ShadowTable,
    /// Rows that are in the table, and not yet in its index.
    pending: Vec<(i64, Value)>,
}

impl VirtualWriter for WordWriter {
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        if row.named[2] {
            return match &row.values[2] {
                Value::Text(command) if command == b"optimize" => Ok(0),
                _ => Err(Error::of_function("no such command")),
            };
        }
        let rowid = match row.rowid {
            Some(Value::Int(rowid)) => *rowid,
            _ => writes.new_rowid(&self.rows)?,
        };
        if row.values[0] == Value::text("forbidden") {
            let place = "w.word".to_owned();
            return Err(Error::Constraint { constraint: ConstraintKind::Virtual("words"), place });
        }
        let values = [ValueRef::Null, row.values[0].as_ref(), row.values[1].as_ref()];
        writes.insert(&self.rows, rowid, &values)?;
        self.pending.push((rowid, row.values[0].clone()));
        Ok(rowid)
    }

    fn update(
        &mut self,
        rowid: i64,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.delete(rowid, writes)?;
        self.insert(row, writes).map(drop)
    }

    fn delete(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        self.flush(writes)?;
        let word = {
            let mut rows = writes.reads().rows(&self.rows)?;
            assert!(rows.seek(rowid)?);
            Value::from(rows.column(1)?)
        };
        assert!(writes.delete_key(&self.index, &[word.as_ref(), ValueRef::Int(rowid)])?);
        assert!(writes.delete(&self.rows, rowid)?);
        Ok(())
    }

    fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for (rowid, word) in self.pending.drain(..) {
            writes.insert_key(&self.index, &[word.as_ref(), ValueRef::Int(rowid)])?;
        }
        Ok(())
    }

    fn rollback_to(&mut self, _moment: usize) {
        self.pending.clear();
    }
}

fn connection() -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    connection.register_table_module(Arc::new(Words));
    connection
}

fn run(connection: &mut Connection, sql: &str) -> Result<String, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..row.len()).map(|column| match row.get(column) {
            ValueRef::Null => "NULL".to_owned(),
            ValueRef::Int(int) => int.to_string(),
            ValueRef::Real(real) => real.to_string(),
            ValueRef::Text(text) | ValueRef::Blob(text) => {
                String::from_utf8_lossy(text).into_owned()
            }
        });
        out.push(values.collect::<Vec<_>>().join("|"));
    }
    Ok(out.join(" "))
}

fn all(connection: &mut Connection, sql: &[&str]) {
    for sql in sql {
        run(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

fn words() -> Connection {
    let mut connection = connection();
    all(
        &mut connection,
        &[
            "CREATE VIRTUAL TABLE w USING words(word, note TEXT)",
            "INSERT INTO w VALUES ('one', 'a'), ('two', 'b'), ('one', 'c')",
        ],
    );
    connection
}

#[test]
fn a_table_is_made_found_and_dropped() {
    let mut db = words();
    let schema =
        run(&mut db, "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema LIMIT 1");
    assert_eq!(schema.unwrap(), "table|w|w|0|CREATE VIRTUAL TABLE w USING words(word, note TEXT)");
    assert_eq!(
        run(&mut db, "SELECT rowid, * FROM w").unwrap(),
        "0|first|NULL 1|one|a 2|two|b 3|one|c"
    );
    assert_eq!(run(&mut db, "SELECT rank FROM w WHERE w MATCH 'one'").unwrap(), "10 30");
    assert_eq!(run(&mut db, "SELECT note FROM w WHERE w = 'one' AND rowid > 1").unwrap(), "c");
    assert_eq!(run(&mut db, "SELECT note FROM w('two')").unwrap(), "b");
    assert_eq!(run(&mut db, "SELECT note FROM w WHERE word MATCH 'two'").unwrap(), "b");
    assert_eq!(run(&mut db, "SELECT rowid FROM w ORDER BY rowid DESC").unwrap(), "3 2 1 0");
    assert_eq!(run(&mut db, "SELECT count(*), sum(rank) FROM w").unwrap(), "4|60");
    let plan = run(&mut db, "EXPLAIN QUERY PLAN SELECT * FROM w WHERE w MATCH 'one'").unwrap();
    assert!(plan.ends_with("|SCAN w VIRTUAL TABLE INDEX 2:w"), "{plan}");
    assert_eq!(
        run(&mut db, "PRAGMA table_xinfo(w)").unwrap(),
        "0|word||0|NULL|0|0 1|note|TEXT|0|NULL|0|0 2|w||0|NULL|0|1 3|rank||0|NULL|0|1"
    );
    run(&mut db, "ALTER TABLE w RENAME TO v").unwrap();
    assert_eq!(run(&mut db, "SELECT note FROM v('two')").unwrap(), "b");
    run(&mut db, "DROP TABLE v").unwrap();
    assert_eq!(run(&mut db, "SELECT count(*) FROM sqlite_schema").unwrap(), "0");
    let gone = run(&mut db, "SELECT * FROM v").unwrap_err();
    assert_eq!(gone.to_string(), "no such table: v");
}

#[test]
fn joins_views_subqueries_and_triggers_name_it() {
    let mut db = words();
    all(
        &mut db,
        &[
            "CREATE TABLE t(k, x)",
            "INSERT INTO t VALUES ('one', 1), ('two', 2), ('three', 3)",
            "CREATE VIEW v AS SELECT rowid AS id, word, shout(w, '!') AS loud FROM w",
            "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO w(rowid, word) VALUES (new.x, new.k); END",
        ],
    );
    assert_eq!(run(&mut db, "SELECT x, note FROM t, w(k) ORDER BY 1, 2").unwrap(), "1|a 1|c 2|b");
    assert_eq!(
        run(&mut db, "SELECT x, note FROM t LEFT JOIN w ON w.word = t.k ORDER BY 1, 2").unwrap(),
        "1|a 1|c 2|b 3|NULL"
    );
    assert_eq!(
        run(&mut db, "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM w WHERE w MATCH k)").unwrap(),
        "1 2"
    );
    assert_eq!(run(&mut db, "SELECT loud FROM v WHERE id > 1 ORDER BY loud").unwrap(), "ONE! TWO!");
    assert_eq!(
        run(&mut db, "SELECT shout(w, '?'), count(*) FROM w GROUP BY 1 ORDER BY 2 DESC, 1")
            .unwrap(),
        "ONE?|2 FIRST?|1 TWO?|1"
    );
    all(&mut db, &["INSERT INTO t VALUES ('four', 44)"]);
    assert_eq!(run(&mut db, "SELECT rowid FROM w('four')").unwrap(), "44");
    let plan = "EXPLAIN QUERY PLAN SELECT x, note FROM t CROSS JOIN w ON w.word = t.k";
    assert!(run(&mut db, plan).unwrap().contains("SCAN w VIRTUAL TABLE INDEX 2:w"));
}

#[test]
fn rows_are_written_and_taken_back() {
    let mut db = words();
    all(
        &mut db,
        &[
            "UPDATE w SET word = 'uno' WHERE word = 'one'",
            "DELETE FROM w WHERE w MATCH 'two'",
            "INSERT INTO w(w) VALUES ('optimize')",
        ],
    );
    assert_eq!(
        run(&mut db, "SELECT rowid, word, note FROM w").unwrap(),
        "0|first|NULL 1|uno|a 3|uno|c"
    );
    assert_eq!(
        run(&mut db, "INSERT INTO w(w) VALUES ('?')").unwrap_err().to_string(),
        "no such command"
    );
    // A statement is taken back as a whole, what is kept in memory included.
    all(&mut db, &["BEGIN", "INSERT INTO w VALUES ('kept', 1)"]);
    let refused = run(&mut db, "INSERT INTO w VALUES ('lost', 1), ('forbidden', 2)").unwrap_err();
    assert_eq!(refused.to_string(), "words constraint failed: w.word");
    assert_eq!(refused.result_code().name(), "SQLITE_CONSTRAINT");
    all(&mut db, &["INSERT OR IGNORE INTO w VALUES ('forbidden', 2), ('next', 3)"]);
    assert_eq!(run(&mut db, "SELECT count(*) FROM w('lost')").unwrap(), "0");
    assert_eq!(run(&mut db, "SELECT note FROM w('kept')").unwrap(), "1");
    all(&mut db, &["SAVEPOINT s", "INSERT INTO w VALUES ('later', 4)", "ROLLBACK TO s"]);
    assert_eq!(run(&mut db, "SELECT note FROM w('later')").unwrap(), "");
    all(&mut db, &["INSERT INTO w VALUES ('last', 5)", "RELEASE s", "COMMIT"]);
    assert_eq!(run(&mut db, "SELECT word FROM w('last')").unwrap(), "last");
    assert_eq!(run(&mut db, "SELECT word FROM w('next')").unwrap(), "next");
    assert_eq!(run(&mut db, "PRAGMA integrity_check").unwrap(), "ok");
    all(&mut db, &["BEGIN", "INSERT INTO w VALUES ('gone', 6)", "ROLLBACK"]);
    assert_eq!(run(&mut db, "SELECT count(*) FROM w('gone')").unwrap(), "0");
    // The schema changes while a writer keeps rows.
    all(
        &mut db,
        &["BEGIN", "INSERT INTO w VALUES ('before', 7)", "CREATE TABLE other(x)", "COMMIT"],
    );
    assert_eq!(run(&mut db, "SELECT note FROM w('before')").unwrap(), "7");
    assert_eq!(run(&mut db, "INSERT INTO w VALUES ('x', 8) RETURNING word").unwrap(), "x");
    all(&mut db, &["DELETE FROM w"]);
    assert_eq!(
        run(&mut db, "SELECT (SELECT count(*) FROM w), (SELECT count(*) FROM w_index)").unwrap(),
        "0|0"
    );
}

#[test]
fn other_databases_have_their_own() {
    let mut db = words();
    all(
        &mut db,
        &[
            "ATTACH ':memory:' AS aux",
            "CREATE VIRTUAL TABLE aux.w USING words(word, note TEXT)",
            "BEGIN",
            "INSERT INTO aux.w VALUES ('there', 1)",
            "INSERT INTO main.w VALUES ('here', 2)",
            "INSERT INTO main.w SELECT word || '!', note FROM aux.w('there')",
            "COMMIT",
        ],
    );
    assert_eq!(run(&mut db, "SELECT note FROM aux.w WHERE w MATCH 'there'").unwrap(), "1");
    assert_eq!(run(&mut db, "SELECT count(*) FROM main.w('there!')").unwrap(), "1");
}

#[test]
fn what_is_refused() {
    let mut db = words();
    for (sql, message) in [
        ("CREATE VIRTUAL TABLE x USING nowhere(a)", "no such module: nowhere"),
        ("CREATE VIRTUAL TABLE w USING words(word, note TEXT)", "table w already exists"),
        ("CREATE VIRTUAL TABLE x USING words(a)", "words takes word, note: [\"a\"]"),
        ("CREATE VIRTUAL TABLE x USING generate_series", "no such module: generate_series"),
        ("SELECT * FROM w('a', 'b', 'c')", "too many arguments on w() - max 2"),
        (
            "SELECT * FROM w WHERE note MATCH 'x'",
            "unable to use function MATCH in the requested context",
        ),
        ("DELETE FROM w RETURNING word", "DELETE RETURNING is not available on virtual tables"),
        (
            "UPDATE w SET note = 1 RETURNING word",
            "UPDATE RETURNING is not available on virtual tables",
        ),
        (
            "INSERT INTO w VALUES ('a', 'b') ON CONFLICT DO NOTHING",
            "UPSERT not implemented for virtual table \"w\"",
        ),
        ("INSERT INTO w VALUES (1, 2, 3)", "table w has 2 columns but 3 values were supplied"),
        ("ALTER TABLE w ADD COLUMN x", "virtual tables may not be altered"),
        (
            "INSERT INTO w_rows VALUES (9, 9, 9)",
            "not supported: writing to w_rows, part of virtual table w",
        ),
    ] {
        assert_eq!(run(&mut db, sql).unwrap_err().to_string(), message, "{sql}");
    }
    assert_eq!(run(&mut db, "SELECT count(*) FROM sqlite_schema").unwrap(), "3");
    run(&mut db, "CREATE VIRTUAL TABLE IF NOT EXISTS w USING words(word, note TEXT)").unwrap();
}
