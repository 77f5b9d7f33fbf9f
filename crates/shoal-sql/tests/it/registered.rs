//! Views and layers registered by a program, and readers of indexes without SQL.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Scratch, ours};
use shoal_sql::{
    Connection, Error, Forced, ForcedCarrier, ForcedChoice, Layer, Module, ModuleContext,
    ModuleRows, Operator, OperatorRows, TableFunction, Value, ValueRef, ViewBuilder,
};
use shoal_store::{Access, Mode, Store, vfs::OsVfs};

const SCHEMA: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n REAL);
    CREATE INDEX t_n ON t(n, name DESC);
    CREATE VIEW small AS SELECT name FROM t WHERE n < 3;
    INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 3), (5, NULL, NULL);";

fn rows(connection: &mut Connection, sql: &str) -> Vec<Vec<Value>> {
    ours(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

fn ints(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let int = |row: Vec<Value>| match row[..] {
        [Value::Int(int)] => int,
        ref other => panic!("{other:?}"),
    };
    rows(connection, sql).into_iter().map(int).collect()
}

#[test]
fn views_without_a_file() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let big = ViewBuilder::new("big", "t").columns(&["id", "n"]);
    connection.register_view(big).unwrap();
    connection.register_query("bigger", "SELECT id FROM big WHERE n > 2").unwrap();
    assert_eq!(ints(&mut connection, "SELECT id FROM bigger ORDER BY id"), [3, 4]);
    assert_eq!(ints(&mut connection, "SELECT id FROM temp.bigger WHERE id > 3"), [4]);
    assert_eq!(connection.registered().collect::<Vec<_>>(), ["big", "bigger"]);
    // Conditions reach the table: the plan equals the plan of the query written out.
    let plan = |connection: &mut Connection, sql: &str| {
        rows(connection, &format!("EXPLAIN QUERY PLAN {sql}"))
            .into_iter()
            .map(|mut row| row.pop())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        plan(&mut connection, "SELECT id FROM bigger WHERE id = 4"),
        plan(&mut connection, "SELECT id FROM t WHERE n > 2 AND id = 4")
    );
    // A registered name goes before one of the file; the last registration counts.
    connection.register_query("small", "SELECT 1 AS one").unwrap();
    assert_eq!(ints(&mut connection, "SELECT * FROM small"), [1]);
    assert_eq!(rows(&mut connection, "SELECT * FROM main.small").len(), 2);
    connection.register_query("SMALL", "SELECT 2 AS two").unwrap();
    assert_eq!(ints(&mut connection, "SELECT * FROM small"), [2]);
    assert!(connection.unregister("small") && !connection.unregister("small"));
    assert_eq!(rows(&mut connection, "SELECT * FROM small").len(), 2);
    for (name, sql) in [("p", "SELECT ?"), ("i", "DELETE FROM t"), ("s", "SELECT FROM")] {
        assert!(connection.register_query(name, sql).is_err(), "{sql}");
    }
    let error = connection.register_view(ViewBuilder::new("x", "nosuch")).unwrap_err();
    assert_eq!(error.to_string(), "no such table: nosuch");
    connection.register_query("loop", "SELECT * FROM loop").unwrap();
    assert!(ours(&mut connection, "SELECT * FROM loop").is_err());
}

#[test]
fn views_with_a_predicate_of_the_program() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let vowels = ViewBuilder::new("vowels", "t").columns(&["name", "id"]).filter(|row| {
        matches!(row[0], ValueRef::Text(b"a" | b"e" | b"i")) || row[1] == ValueRef::Int(4)
    });
    connection.register_view(vowels).unwrap();
    assert_eq!(ints(&mut connection, "SELECT id FROM vowels ORDER BY id"), [1, 4]);
    assert_eq!(
        ints(&mut connection, "SELECT v.id FROM t JOIN vowels v ON v.id = t.id WHERE t.n > 1"),
        [4]
    );
    // A view over a view, and a view hiding its own table.
    let fours = ViewBuilder::new("t", "vowels").filter(|row| row[1] == ValueRef::Int(4));
    connection.register_view(fours).unwrap();
    assert_eq!(ints(&mut connection, "SELECT id FROM t"), [4]);
    // The view sees views registered before; with `vowels` gone, the name is looked up among
    // tables.
    connection.unregister("vowels");
    let error = ours(&mut connection, "SELECT id FROM t").unwrap_err();
    assert_eq!(error.to_string(), "no such table: vowels");
    connection.unregister("t");
    let odd = ViewBuilder::new("vowels", "t")
        .columns(&["id"])
        .filter(|row| matches!(row[0], ValueRef::Int(id) if id % 2 == 1));
    connection.register_view(odd).unwrap();
    assert_eq!(ints(&mut connection, "SELECT id FROM vowels"), [1, 3, 5]);
    let mut insert = connection.prepare("SELECT count(*) FROM vowels").unwrap();
    assert!(connection.query(&mut insert).is_ok());
}

#[test]
fn rows_of_the_program() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let opened = Arc::new(AtomicUsize::new(0));
    let given = Arc::new(AtomicUsize::new(0));
    let (opened_by, given_by) = (Arc::clone(&opened), Arc::clone(&given));
    connection.register_layer(Layer::new("walk", &["step", "label"], move || {
        opened_by.fetch_add(1, Ordering::Relaxed);
        let given = Arc::clone(&given_by);
        (1_i64..).map(move |step| {
            given.fetch_add(1, Ordering::Relaxed);
            // A short row: the rest is NULL.
            if step % 3 == 0 { vec![step.into()] } else { vec![step.into(), "x".into()] }
        })
    }));
    assert_eq!(ints(&mut connection, "SELECT step FROM walk LIMIT 4"), [1, 2, 3, 4]);
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    assert!(given.load(Ordering::Relaxed) < 200);
    let null = rows(&mut connection, "SELECT label FROM walk WHERE step < 4 LIMIT 3");
    assert_eq!(null[2], [Value::Null]);
    connection.register_layer(Layer::new("Edges", &["source", "target"], || {
        [(1, 2), (2, 3), (3, 5)].into_iter().map(|(a, b)| vec![Value::Int(a), Value::Int(b)])
    }));
    let path =
        "WITH RECURSIVE r(at) AS (SELECT 1 UNION SELECT target FROM edges, r WHERE source = at)
        SELECT at FROM r ORDER BY at";
    assert_eq!(ints(&mut connection, path), [1, 2, 3, 5]);
    let joined =
        "SELECT t.id FROM t JOIN edges e ON e.source = t.id JOIN edges f ON f.source = e.target
        ORDER BY 1";
    assert_eq!(ints(&mut connection, joined), [1, 2]);
    assert_eq!(
        ints(&mut connection, "SELECT count(*) FROM t WHERE id IN (SELECT target FROM edges)"),
        [3]
    );
    assert_eq!(ours(&mut connection, "SELECT * FROM edges").unwrap().columns, ["source", "target"]);
    assert!(connection.unregister("edges"));
    let error = ours(&mut connection, "SELECT * FROM edges").unwrap_err();
    assert_eq!(error.to_string(), "no such table: edges");
}

#[test]
fn entries_of_an_index() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    assert!(matches!(connection.index_reader("t_n"), Err(Error::Misuse { .. })));
    connection.begin(Mode::Read).unwrap();
    assert!(matches!(connection.index_reader("nosuch"), Err(Error::Name { .. })));
    let mut reader = connection.index_reader("T_N").unwrap();
    let mut seen = Vec::new();
    while reader.next().unwrap() {
        seen.push(reader.rowid().unwrap());
    }
    assert_eq!(seen, [5, 1, 2, 4, 3]);
    let three = [ValueRef::Real(3.0)];
    assert!(reader.seek(&three).unwrap());
    let mut names = Vec::new();
    while reader.is_valid() && reader.starts_with(&three).unwrap() {
        assert_eq!(reader.key(0).unwrap(), ValueRef::Real(3.0));
        let name = Value::from(reader.value(1).unwrap());
        assert_eq!(Value::from(reader.key(1).unwrap()), name);
        names.push(name);
        reader.next().unwrap();
    }
    assert_eq!(names, ["d", "c"].map(Value::from));
    // Backwards from the end of a range, and within two columns.
    assert!(reader.seek_after(&[ValueRef::Int(2)]).unwrap());
    assert!(reader.prev().unwrap());
    assert_eq!(reader.rowid().unwrap(), 2);
    assert!(!reader.seek(&[ValueRef::Int(3), ValueRef::Text(b"cc")]).unwrap());
    assert_eq!(reader.value(1).unwrap(), ValueRef::Text(b"c"));
    assert!(matches!(reader.key(2), Err(Error::Misuse { .. })));
    assert!(!reader.seek_after(&[ValueRef::Int(9)]).unwrap() && !reader.is_valid());
    assert!(reader.value(0).is_err());
}

/// The words of a text, one a row.
#[derive(Debug)]
struct Words;

#[derive(Debug)]
struct WordRows(std::vec::IntoIter<String>);

impl Module for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn columns(&self) -> Vec<&str> {
        vec!["word", "length"]
    }

    fn arguments(&self) -> &[&str] {
        &["text"]
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        _context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let words = match arguments {
            [Some(Value::Text(text))] => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Ok(Box::new(WordRows(words.into_iter())))
    }
}

impl ModuleRows for WordRows {
    fn next(&mut self, row: &mut Vec<Value>, _context: &ModuleContext<'_>) -> Result<bool, Error> {
        let Some(word) = self.0.next() else { return Ok(false) };
        row.extend([Value::text(word.clone()), Value::Int(word.len() as i64)]);
        Ok(true)
    }
}

#[test]
fn a_function_of_the_programs_own_joins_as_the_built_in_ones_do() {
    let mut connection = Scratch::new(SCHEMA).ours();
    connection.register_module(Arc::new(Words));
    let mut check = |sql: &str, expect: &[&[&str]]| {
        let text = |value: &Value| match value {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Int(int) => int.to_string(),
            other => format!("{other:?}"),
        };
        let rows = rows(&mut connection, sql);
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(text).collect()).collect();
        assert_eq!(rows, expect, "{sql}");
    };
    check(
        "SELECT word, length, text FROM words('a bc')",
        &[&["a", "1", "a bc"], &["bc", "2", "a bc"]],
    );
    check("SELECT word FROM words WHERE text = 'x yy' AND length > 1", &[&["yy"]]);
    check("SELECT count(*) FROM words", &[&["0"]]);
    check(
        "WITH u(line) AS (VALUES ('one two'), ('three'))
         SELECT line, group_concat(word, '/') FROM u, words(u.line) GROUP BY line ORDER BY 1",
        &[&["one two", "one/two"], &["three", "three"]],
    );
}

#[test]
fn a_table_function_of_closures_reads_the_file_in_the_statements_transaction() {
    let scratch = Scratch::new(SCHEMA);
    let store = Store::open(Arc::new(OsVfs), &scratch.path(), Access::ReadWrite).unwrap();
    let mut connection = Connection::open(store).unwrap();
    let above =
        TableFunction::new("above", &["id", "twice"], &["least", "most"], |given, context| {
            let least =
                given[0].clone().ok_or_else(|| Error::of_function("above() needs a least"))?;
            let most = given[1].clone().unwrap_or(Value::Int(100));
            let mut rows = Vec::new();
            context.query("SELECT id FROM t WHERE id BETWEEN ? AND ?", &[least, most], |row| {
                let Value::Int(id) = row[0] else { return Err(Error::of_function("no id")) };
                rows.push(match id {
                    5 => Err(Error::of_function("five is too many")),
                    _ => Ok(vec![id.into(), (2 * id).into()]),
                });
                Ok(())
            })?;
            Ok(rows)
        });
    connection.create_table_function(above.default_argument(1, 100).reads_databases()).unwrap();
    let mut check = |sql: &str, expect: &[i64]| {
        let values: Vec<Value> = rows(&mut connection, sql).concat();
        let expect: Vec<Value> = expect.iter().copied().map(Value::Int).collect();
        assert_eq!(values, expect, "{sql}");
    };
    check("SELECT * FROM above(3, 4)", &[3, 6, 4, 8]);
    check("SELECT id, least, most FROM above WHERE least = 4 LIMIT 1", &[4, 4, 100]);
    check(
        "SELECT t.id, a.id FROM t, above(t.id, t.id + 1) a WHERE t.id < 4 ORDER BY 1, 2",
        &[1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4],
    );
    // The error of a row comes once the row is asked for, and that of no argument at once.
    check("SELECT id FROM above(4) LIMIT 1", &[4]);
    let error =
        |connection: &mut Connection, sql: &str| ours(connection, sql).unwrap_err().to_string();
    assert_eq!(error(&mut connection, "SELECT * FROM above(4)"), "five is too many");
    assert_eq!(error(&mut connection, "SELECT * FROM above"), "above() needs a least");
    assert_eq!(
        error(&mut connection, "SELECT * FROM above(1, 2, 3)"),
        "too many arguments on above() - max 2"
    );
    // What the open transaction changed is seen, and written from.
    let mut run = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        connection.execute(&mut statement).unwrap();
    };
    run("CREATE TEMP TABLE kept(id, twice)");
    run("BEGIN");
    run("DELETE FROM t WHERE id > 3");
    run("INSERT INTO kept SELECT id, twice FROM above(2)");
    run("CREATE TEMP VIEW t AS SELECT * FROM above(1)");
    assert_eq!(ints(&mut connection, "SELECT twice FROM kept ORDER BY 1"), [4, 6]);
    // A view of the function's own table does not make it call itself.
    assert_eq!(error(&mut connection, "SELECT * FROM t"), "no such table: above");
    let unread = TableFunction::new("unread", &["x"], &[], |_, context| {
        context.query("SELECT 1", &[], |_| Ok(()))?;
        Ok([Ok(vec![Value::Int(1)])])
    });
    connection.create_table_function(unread).unwrap();
    assert!(matches!(ours(&mut connection, "SELECT * FROM unread()"), Err(Error::Misuse { .. })));
    for (columns, arguments) in [(&[][..], &[][..]), (&["a", "A"], &[]), (&["a"], &["A"])] {
        let wrong = TableFunction::new("wrong", columns, arguments, |_, _| Ok([]));
        assert!(matches!(connection.create_table_function(wrong), Err(Error::Misuse { .. })));
    }
}

/// Divisors of a number, for many numbers together; the sizes of batches are noted.
#[derive(Clone, Debug, Default)]
struct Divisors(Arc<Mutex<Vec<usize>>>);

#[derive(Debug, Default)]
struct DivisorRows(std::vec::IntoIter<(usize, i64)>);

fn divisors(given: &[Option<Value>]) -> Result<Vec<i64>, Error> {
    match given {
        [Some(Value::Int(13))] => Err(Error::of_function("divisors() of 13 bring bad luck")),
        [Some(Value::Int(number))] => Ok((1..=*number).filter(|it| number % it == 0).collect()),
        _ => Ok(Vec::new()),
    }
}

impl Operator for Divisors {
    fn name(&self) -> &str {
        "division"
    }

    fn batch_rows(&self) -> usize {
        8
    }

    fn open(&self) -> Result<Box<dyn OperatorRows>, Error> {
        Ok(Box::new(DivisorBatch { sizes: Arc::clone(&self.0), rows: DivisorRows::default() }))
    }
}

#[derive(Debug)]
struct DivisorBatch {
    sizes: Arc<Mutex<Vec<usize>>>,
    rows: DivisorRows,
}

impl OperatorRows for DivisorBatch {
    fn take(
        &mut self,
        batch: &[Vec<Option<Value>>],
        _context: &ModuleContext<'_>,
    ) -> Result<(), Error> {
        self.sizes.lock().unwrap().push(batch.len());
        let mut rows = Vec::new();
        for (place, given) in batch.iter().enumerate() {
            rows.extend(divisors(given)?.into_iter().map(|divisor| (place, divisor)));
        }
        self.rows = DivisorRows(rows.into_iter());
        Ok(())
    }

    fn next(
        &mut self,
        row: &mut Vec<Value>,
        _context: &ModuleContext<'_>,
    ) -> Result<Option<usize>, Error> {
        Ok(self.rows.0.next().map(|(place, divisor)| {
            row.push(Value::Int(divisor));
            place
        }))
    }
}

/// The function, with or without its operator.
fn division(operator: Option<&Divisors>) -> TableFunction {
    let function = TableFunction::new("divisors", &["divisor"], &["number"], |given, _| {
        Ok(divisors(given)?.into_iter().map(|divisor| Ok(vec![Value::Int(divisor)])))
    });
    match operator {
        Some(operator) => function.operator(operator.clone()),
        None => function,
    }
}

#[test]
fn an_operator_gives_the_rows_of_calls_one_by_one() {
    let scratch = Scratch::new(
        "CREATE TABLE n(a INTEGER PRIMARY KEY, b, c TEXT);
         WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 60)
         INSERT INTO n SELECT i, CASE WHEN i % 7 THEN i % 12 END, 'row ' || i FROM r;",
    );
    let (mut plain, mut batched) = (scratch.ours(), scratch.ours());
    let operator = Divisors::default();
    plain.create_table_function(division(None)).unwrap();
    batched.create_table_function(division(Some(&operator))).unwrap();
    for sql in [
        "SELECT n.a, c, divisor, number FROM n, divisors(n.b)",
        "SELECT n.a, d.divisor FROM n JOIN divisors(b) d ON divisor > 2 WHERE n.a % 3 = 1",
        "SELECT n.a, d.divisor, m.c FROM n JOIN divisors(n.b) d JOIN n m ON m.a = d.divisor",
        "SELECT n.a, d.divisor, e.divisor FROM n JOIN divisors(n.b) d JOIN divisors(d.divisor) e",
        "SELECT n.a, d.divisor FROM n LEFT JOIN divisors(n.b) d ON d.divisor > 5",
        "SELECT q.s, divisor FROM (SELECT b, sum(a) AS s FROM n GROUP BY b) q, divisors(q.b)",
        "SELECT n.a, m.a, divisor FROM n JOIN n m ON m.b = n.a, divisors(m.b) WHERE n.a < 5",
        "SELECT n.a, (SELECT max(divisor) FROM n m, divisors(m.b) WHERE m.a <= n.a) FROM n",
        "SELECT b, count(*), sum(divisor) FROM n, divisors(b) GROUP BY b ORDER BY 1",
        "SELECT n.a, divisor FROM n, divisors(n.b) ORDER BY n.a DESC, divisor LIMIT 7 OFFSET 3",
        "SELECT x.a FROM n x JOIN n y ON y.a = x.b, divisors(y.a) WHERE divisor = x.b",
        "SELECT divisor FROM divisors(12)",
        "SELECT count(*) FROM n, divisors(n.b) WHERE n.a > 100",
    ] {
        let expected = rows(&mut plain, sql);
        assert_eq!(rows(&mut batched, sql), expected, "{sql}");
        batched.force(Forced::default().with(ForcedChoice::Carrier(ForcedCarrier::Registers)));
        assert_eq!(rows(&mut batched, sql), expected, "{sql} by single calls");
        batched.force(Forced::default());
    }
    // Below a LIMIT the first batches are small; batches grow up to the operator's size.
    operator.0.lock().unwrap().clear();
    rows(&mut batched, "SELECT divisor FROM n, divisors(n.a) LIMIT 4");
    assert_eq!(*operator.0.lock().unwrap(), [1, 4]);
    operator.0.lock().unwrap().clear();
    rows(&mut batched, "SELECT count(*) FROM n, divisors(n.b)");
    assert_eq!(*operator.0.lock().unwrap(), [1, 4, 8, 8, 8, 8, 8, 8, 7]);
    // Rows before the failing one are given.
    let failing = "SELECT n.a, divisor FROM n, divisors(n.a)";
    let error = ours(&mut batched, failing).unwrap_err();
    assert_eq!(error.to_string(), "divisors() of 13 bring bad luck");
    let tree: Vec<(String, String)> = rows(
        &mut batched,
        "EXPLAIN SELECT m.c FROM n, divisors(n.b) d, n m WHERE m.a = divisor AND n.a > 3",
    )
    .into_iter()
    .map(|row| match &row[2..4] {
        [Value::Text(node), Value::Text(detail)] => (
            String::from_utf8_lossy(node).into_owned(),
            String::from_utf8_lossy(detail).into_owned(),
        ),
        other => panic!("{other:?}"),
    })
    .collect();
    let place = tree.iter().position(|(node, _)| node.trim() == "operator").unwrap();
    assert_eq!(tree[place].1, "division: d VIRTUAL TABLE INDEX 1:, in batches");
    let depth = |node: &str| node.len() - node.trim_start().len();
    let (below, of) = &tree[place + 1];
    assert!(depth(below) > depth(&tree[place].0) && of.starts_with("n "), "{tree:?}");
    let plan = rows(&mut batched, "EXPLAIN QUERY PLAN SELECT 1 FROM n, divisors(n.b) d");
    assert_eq!(plan.len(), 2, "{plan:?}");
}

/// Pairs of numbers: 7 and 8 three times, 7 and 9 twice, 5 and 9 once.
#[derive(Debug)]
struct Pairs;

const PAIRS: [([i64; 2], u64); 3] = [([7, 8], 3), ([7, 9], 2), ([5, 9], 1)];

#[derive(Debug, Default)]
struct PairRows {
    columns: Vec<usize>,
    folds: bool,
    next: usize,
    left: u64,
    repeats: u64,
}

impl Module for Pairs {
    fn name(&self) -> &str {
        "pairs"
    }

    fn columns(&self) -> Vec<&str> {
        vec!["a", "b", "folded"]
    }

    fn declared_type(&self, column: usize) -> &str {
        if column == 0 { "INTEGER" } else { "" }
    }

    fn open(
        &self,
        _: &[Option<Value>],
        _: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        Ok(Box::new(PairRows::default()))
    }
}

impl ModuleRows for PairRows {
    fn reads(&mut self, columns: &[usize], folds: bool) {
        (self.columns, self.folds) = (columns.to_vec(), folds);
    }

    fn repeats(&self) -> u64 {
        self.repeats
    }

    fn next(&mut self, row: &mut Vec<Value>, _: &ModuleContext<'_>) -> Result<bool, Error> {
        if self.left == 0 {
            let Some((_, count)) = PAIRS.get(self.next) else { return Ok(false) };
            self.next += 1;
            (self.left, self.repeats) = if self.folds { (1, *count) } else { (*count, 1) };
        }
        self.left -= 1;
        let ([a, b], _) = PAIRS[self.next - 1];
        // The last column tells how many rows this one is.
        for (column, value) in [a, b, self.repeats as i64].into_iter().enumerate() {
            let is_read = self.columns.contains(&column);
            row.push(if is_read { Value::Int(value) } else { Value::Null });
        }
        Ok(true)
    }
}

#[test]
fn equal_rows_of_a_module_come_as_one() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    connection.register_module(Arc::new(Pairs));
    let mut ask = |sql: &str| {
        let shown = |row: Vec<Value>| {
            let shown: Vec<String> = row
                .iter()
                .map(|value| match value {
                    Value::Int(int) => int.to_string(),
                    Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    other => format!("{other:?}"),
                })
                .collect();
            shown.join("|")
        };
        rows(&mut connection, sql).into_iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    for (sql, wanted) in [
        ("SELECT count(*) FROM pairs", "6"),
        ("SELECT count(*), max(folded) FROM pairs", "6|3"),
        ("SELECT a, count(*), sum(b) FROM pairs GROUP BY a ORDER BY a", "5|1|9 7|5|42"),
        ("SELECT count(a), count(DISTINCT b), group_concat(b) FROM pairs", "6|2|8,8,8,9,9,9"),
        ("SELECT DISTINCT b, folded FROM pairs WHERE a = 7", "8|3 9|2"),
        ("SELECT count(*), min(folded) FROM (SELECT a, folded FROM pairs WHERE b = 9)", "3|1"),
        // The bare column is of the row with the largest value.
        ("SELECT max(b), a FROM pairs", "9|7"),
        // Rows stay apart where each is asked for, joined, or given to a function.
        ("SELECT a, folded FROM pairs", "7|1 7|1 7|1 7|1 7|1 5|1"),
        ("SELECT count(*), max(folded) FROM pairs, t WHERE t.id = a - 4", "6|1"),
        ("SELECT max(folded), sum(abs(b)) FROM pairs", "1|51"),
        ("SELECT count(*) FILTER (WHERE b = 8), max(folded) FROM pairs", "3|1"),
        ("SELECT sum(b) OVER (ROWS UNBOUNDED PRECEDING) FROM pairs", "8 16 24 33 42 51"),
        // A declared type gives its affinity, and no other column has one.
        ("SELECT count(*) FROM pairs WHERE a = '7'", "5"),
        ("SELECT count(*) FROM pairs WHERE b = '9'", "0"),
    ] {
        assert_eq!(ask(sql), wanted, "{sql}");
    }
}
