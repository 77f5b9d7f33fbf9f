//! Differences of two files as a principal sees them equal the differences of two files without the
//! hidden parts, at random.

#![allow(clippy::unwrap_used)]

use shoal_diff::{Changes, DiffOptions, Form, JsonLines, diff, diff_narrowed};
use shoal_sql::{Connection, Entitlement, Narrowed, TableRule, Value};
use shoal_store::Store;
use shoal_testkit::Random;

/// Tables with their visible columns and, behind them, the rest of the definition.
const TABLES: [(&str, &str, &str); 6] = [
    ("one", "id INTEGER PRIMARY KEY, a, b TEXT", ""),
    ("two", "b, a, c INT, PRIMARY KEY (c, a)", "WITHOUT ROWID"),
    ("three", "a TEXT, b INT, c, PRIMARY KEY (b, a)", ""),
    ("four", "x, y, z", ""),
    ("five", "k TEXT COLLATE NOCASE PRIMARY KEY, v, w", ""),
    ("six", "k TEXT COLLATE NOCASE, v, w, PRIMARY KEY (v, k)", "WITHOUT ROWID"),
];

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => "NULL".to_owned(),
        1 | 2 => random.below(4).to_string(),
        3 => format!("{}.0", random.below(4)),
        4 => format!("x'{:02x}'", random.below(4)),
        5 => format!("'{}'", "long ".repeat(random.place(900))),
        _ => format!("'{}'", random.pick(&["a", "A", "b", "é", "🙂", "￿"])),
    }
}

fn run(connection: &mut Connection, sql: &str) -> Result<(), shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement).map(drop)
}

fn rows(connection: &mut Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        all.push(row.values().map(Value::from).collect());
    }
    all
}

/// A file whose tables have a column `zz` more: rows of others than ada are hidden.
fn whole() -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    for (name, columns, options) in TABLES {
        // The hidden column comes first.
        run(&mut connection, &format!("CREATE TABLE {name} (zz, {columns}) {options}")).unwrap();
    }
    connection
}

fn grow(connection: &mut Connection, random: &mut Random) {
    for _ in 0..40 {
        let (table, ..) = random.pick(&TABLES);
        let zz = random.pick(&["'ada'", "'ada'", "'SECRET'"]);
        let [a, b, c] = [value(random), value(random), value(random)];
        let first = if table == "one" { random.below(20).to_string() } else { a };
        let sql = match random.below(5) {
            0 => format!("DELETE FROM {table} WHERE {} = {c}", random.pick(&["zz", "rowid", "1"])),
            1 => format!("UPDATE OR IGNORE {table} SET zz = {zz} WHERE zz = 'SECRET'"),
            _ => format!("INSERT OR IGNORE INTO {table} VALUES ({zz}, {first}, {b}, {c})"),
        };
        // Some tables have no rowid, some columns take no NULL.
        let _ = run(connection, &sql);
    }
}

/// The file without what is hidden.
fn copy(whole: &mut Connection) -> Connection {
    let mut copy = Connection::open(Store::memory()).unwrap();
    for (name, columns, options) in TABLES {
        run(&mut copy, &format!("CREATE TABLE {name} ({columns}) {options}")).unwrap();
        let names = rows(&mut copy, &format!("SELECT name FROM pragma_table_info('{name}')"));
        let names = names.iter().map(|row| match &row[0] {
            Value::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            _ => panic!("a column has a name"),
        });
        let rowid = options.is_empty().then(|| "rowid".to_owned());
        let names: Vec<String> = rowid.into_iter().chain(names).collect();
        let places: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
        let (list, places) = (names.join(", "), places.join(", "));
        let found = rows(whole, &format!("SELECT {list} FROM {name} WHERE zz = 'ada'"));
        let mut insert =
            copy.prepare(&format!("INSERT INTO {name} ({list}) VALUES ({places})")).unwrap();
        for row in found {
            for (place, value) in row.into_iter().enumerate() {
                insert.bind(place + 1, value).unwrap();
            }
            copy.execute(&mut insert).unwrap();
        }
    }
    copy
}

fn narrowed(connection: Connection) -> Narrowed {
    let mut entitlement = Entitlement::new("ada");
    for (name, columns, options) in TABLES {
        let columns = columns.split(',').map(|it| it.trim().split(' ').next().unwrap());
        let columns = columns.filter(|it| !matches!(*it, "PRIMARY" | "k)" | "a)"));
        let columns = columns.chain(options.is_empty().then_some("rowid"));
        entitlement.allow(TableRule::of(name).columns(columns).rows("zz = :principal")).unwrap();
    }
    connection.narrowed(entitlement).unwrap()
}

fn sorted(lines: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(lines).unwrap();
    assert!(!text.contains("SECRET") && !text.contains("zz"), "{text}");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn differences_are_those_of_files_without_what_is_hidden() {
    let mut told = 0;
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let mut a = whole();
        grow(&mut a, &mut random);
        // The second file goes on from the first one's visible and hidden rows.
        let mut random_again = Random::seeded(seed);
        let mut b = whole();
        grow(&mut b, &mut random_again);
        (0..random.below(4)).for_each(|_| grow(&mut b, &mut random));
        let (mut copy_a, mut copy_b) = (copy(&mut a), copy(&mut b));
        let options = DiffOptions { skips_definitions: true, ..DiffOptions::default() };
        let mut wanted = JsonLines::new(Vec::new());
        assert_eq!(diff(&mut copy_a, &mut copy_b, &options, &mut wanted).unwrap(), []);
        let (mut a, mut b) = (narrowed(a), narrowed(b));
        let mut found = JsonLines::new(Vec::new());
        assert_eq!(diff_narrowed(&mut a, &mut b, &options, &mut found).unwrap(), []);
        let (found, wanted) = (sorted(found.finish()), sorted(wanted.finish()));
        assert_eq!(found, wanted, "seed {seed}");
        told += found.len();
        let mut changes = Changes::new(Form::Changeset, true);
        let refused = diff_narrowed(&mut a, &mut b, &options, &mut changes).unwrap_err();
        assert!(refused.to_string().contains("columns by their places"), "{refused}");
    }
    assert!(told > 300, "{told} differences");
}
