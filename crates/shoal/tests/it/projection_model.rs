//! Random sessions: edits by several actors, merges, SQL that writes, savepoints and transactions
//! taken back, compactions, crashes, reopening. After each step the tables, read by `rusqlite`, are
//! those that a naive walk over the document makes, as the `automerge` crate loads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use automerge::{AutoCommit, ObjId as ExId, ObjType as Type, ReadDoc, ScalarValue};
use shoal::{Access, ChangeHash, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ObjType, ROOT, Scalar};
use shoal_vfs::SimVfs;
use shoal_vfs::{FixedClock, SeededEntropy};

const DEFINITIONS: [&str; 4] = [
    "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' ROWS '$.items[*]' COLUMNS \
     (pos FOR ORDINALITY, title TEXT, done BOOLEAN, votes COUNTER, n INTEGER PATH '$.more.n', \
     ASSERT (n < 50))",
    "CREATE PROJECTION part FROM todo ROWS '$.parts[*]' COLUMNS (name STRING PATH '$')",
    "CREATE PROJECTION setting FROM DOCUMENTS ROWS '$.settings.*' COLUMNS (v INTEGER PATH '$')",
    "CREATE PROJECTION head FROM DOCUMENTS ROWS '$' COLUMNS (title STRING, items JSON)",
];

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// The expected rows of each table, as text.
type Tables = BTreeMap<&'static str, Vec<String>>;

fn key(id: &ExId) -> String {
    let ExId::Id(counter, actor, _) = id else { return String::new() };
    format!("{counter:016X}{}", actor.to_hex_string().to_uppercase())
}

fn get(doc: &AutoCommit, obj: &ExId, prop: &str) -> Option<(automerge::Value<'static>, ExId)> {
    doc.get(obj, prop).unwrap().map(|(value, id)| (value.into_owned(), id))
}

fn object(doc: &AutoCommit, obj: &ExId, prop: &str, kind: Type) -> Option<ExId> {
    match get(doc, obj, prop) {
        Some((automerge::Value::Object(found), id)) if found == kind => Some(id),
        _ => None,
    }
}

fn text(doc: &AutoCommit, found: Option<(automerge::Value<'static>, ExId)>) -> String {
    match found {
        Some((automerge::Value::Object(Type::Text), id)) => doc.text(&id).unwrap(),
        Some((automerge::Value::Scalar(scalar), _)) => match &*scalar {
            ScalarValue::Str(text) => text.to_string(),
            ScalarValue::Int(number) => number.to_string(),
            _ => "NULL".to_owned(),
        },
        _ => "NULL".to_owned(),
    }
}

fn integer(found: Option<(automerge::Value<'static>, ExId)>) -> String {
    match found {
        Some((automerge::Value::Scalar(scalar), _)) => match &*scalar {
            ScalarValue::Int(number) => number.to_string(),
            ScalarValue::Uint(number) => number.to_string(),
            ScalarValue::Counter(counter) => i64::from(counter).to_string(),
            _ => "NULL".to_owned(),
        },
        _ => "NULL".to_owned(),
    }
}

/// The rows of one document, by the definition alone.
fn naive(doc: &AutoCommit, (id, name): (i64, &str), all: &mut Tables) {
    let items = object(doc, &automerge::ROOT, "items", Type::List);
    let mut put = |table, row| all.entry(table).or_default().push(row);
    if name.starts_with("list/")
        && let Some(items) = &items
    {
        for at in 0..doc.length(items) {
            let (value, item) = doc.get(items, at).unwrap().unwrap();
            let is_map = matches!(value, automerge::Value::Object(Type::Map));
            let field = |name| if is_map { get(doc, &item, name) } else { None };
            let done = match field("done") {
                Some((automerge::Value::Scalar(scalar), _)) => match &*scalar {
                    ScalarValue::Boolean(truth) => i64::from(*truth).to_string(),
                    _ => "NULL".to_owned(),
                },
                _ => "NULL".to_owned(),
            };
            let more = is_map.then(|| object(doc, &item, "more", Type::Map)).flatten();
            let n = integer(more.and_then(|more| get(doc, &more, "n")));
            let own = key(&item);
            let (title, votes) = (text(doc, field("title")), integer(field("votes")));
            put("todo", format!("{id}|{own}|{}|{title}|{done}|{votes}|{n}", at + 1));
            if n.parse::<i64>().is_ok_and(|n| n >= 50) {
                put("todo_violations", format!("{id}|{own}|n < 50"));
            }
            for column in ["title", "done", "votes"].into_iter().filter(|_| is_map) {
                let mut values = doc.get_all(&item, column).unwrap();
                values.pop();
                for (_, loser) in values {
                    let ExId::Id(counter, actor, _) = loser else { unreachable!() };
                    put(
                        "todo_conflicts",
                        format!("{id}|{own}|{column}|{counter}@{}", actor.to_hex_string()),
                    );
                }
            }
            let parts = is_map.then(|| object(doc, &item, "parts", Type::List)).flatten();
            for at in 0..parts.as_ref().map_or(0, |parts| doc.length(parts)) {
                let (value, part) = doc.get(parts.as_ref().unwrap(), at).unwrap().unwrap();
                let name = text(doc, Some((value.into_owned(), part.clone())));
                put("part", format!("{id}|{}|{own}|{name}", key(&part)));
            }
        }
    }
    if let Some(settings) = object(doc, &automerge::ROOT, "settings", Type::Map) {
        for name in doc.keys(&settings) {
            let v = integer(get(doc, &settings, &name));
            put("setting", format!("{id}|{}|{v}", hex(name.as_bytes())));
        }
    }
    let count = items.map_or_else(|| "NULL".to_owned(), |items| doc.length(&items).to_string());
    put("head", format!("{id}||{}|{count}", text(doc, get(doc, &automerge::ROOT, "title"))));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

const QUERIES: [(&str, &str); 6] = [
    ("todo", "SELECT _doc, hex(_id), pos, title, done, votes, n FROM todo"),
    ("part", "SELECT _doc, hex(_id), hex(_parent), name FROM part"),
    ("setting", "SELECT _doc, hex(_id), v FROM setting"),
    ("head", "SELECT _doc, hex(_id), title, json_array_length(items) FROM head"),
    ("todo_violations", "SELECT _doc, hex(_id), assertion FROM todo_violations"),
    (
        "todo_conflicts",
        "SELECT _doc, hex(_id), \"column\", op FROM todo_conflicts WHERE \"column\" <> 'n'",
    ),
];

fn query(sqlite: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = sqlite.prepare(sql).unwrap();
    let count = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..count).map(|place| match row.get_ref(place).unwrap() {
            rusqlite::types::ValueRef::Null => "NULL".to_owned(),
            rusqlite::types::ValueRef::Integer(value) => value.to_string(),
            rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        });
        all.push(cells.collect::<Vec<_>>().join("|"));
    }
    all.sort();
    all
}

struct World {
    vfs: SimVfs,
    seed: u64,
    database: Option<Database>,
    /// What was told to be stored.
    told: BTreeMap<String, Vec<ChangeHash>>,
    dir: tempfile::TempDir,
}

impl World {
    fn new(seed: u64) -> World {
        let (vfs, dir) = (SimVfs::new(), tempfile::tempdir().unwrap());
        let mut world = World { vfs, seed, database: None, told: BTreeMap::new(), dir };
        world.open();
        for definition in DEFINITIONS {
            assert!(world.database().define(definition).unwrap());
        }
        let mut document = Document::new(shoal::ActorId::new(&[7]));
        let json =
            serde_json::json!({"items": [{"title": "a", "parts": ["p"]}], "settings": {"s": 1}});
        let mut transaction = document.transaction();
        transaction.import_json(&json).unwrap();
        transaction.commit(CommitOptions::default());
        world.database().store("list/0", &mut document).unwrap();
        world.tell();
        world
    }

    fn open(&mut self) {
        self.database = None;
        self.seed += 1;
        let entropy = Arc::new(SeededEntropy::new(self.seed));
        let clock = Arc::new(FixedClock { unix_ms: 1_000 });
        let environment = Environment::new(Arc::new(self.vfs.clone()), clock, entropy);
        let database = Database::open(environment, Path::new("/m.db"), Access::Create).unwrap();
        self.database = Some(database);
    }

    fn database(&mut self) -> &mut Database {
        self.database.as_mut().unwrap()
    }

    fn names(&mut self) -> Vec<String> {
        self.database().documents().unwrap().into_iter().map(|it| it.name).collect()
    }

    /// Notes the heads of everything: it was told to be durable.
    fn tell(&mut self) {
        let all = self.database().documents().unwrap();
        self.told = all.into_iter().map(|it| (it.name, it.heads)).collect();
    }

    /// A statement, which may be refused.
    fn sql(&mut self, sql: &str) -> bool {
        let connection = self.database().sql();
        let done = connection.prepare(sql).and_then(|mut it| connection.execute(&mut it));
        done.is_ok()
    }

    /// Compares the tables with the naive ones.
    fn check(&mut self, what: &str) {
        let mut expected: Tables = BTreeMap::new();
        let path = self.dir.path().join("copy.db");
        for name in self.names() {
            let mut document = self.database().load(&name).unwrap();
            let sql = format!("SELECT id FROM _shoal_doc WHERE name = '{name}'");
            let connection = self.database().sql();
            let mut statement = connection.prepare(&sql).unwrap();
            let mut rows = connection.query(&mut statement).unwrap();
            let row = rows.next().unwrap().unwrap();
            let Some(shoal_sql::ValueRef::Int(id)) = row.values().next() else { panic!() };
            drop(rows);
            let bytes = document.save();
            naive(&AutoCommit::load(&bytes).unwrap(), (id, &name), &mut expected);
        }
        for (file, bytes) in &self.vfs.image() {
            let suffix = file.to_string_lossy().replace("/m.db", "");
            let mut copy = path.clone().into_os_string();
            copy.push(suffix);
            std::fs::write(PathBuf::from(copy), bytes).unwrap();
        }
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        for (table, sql) in QUERIES {
            let mut wanted = expected.remove(table).unwrap_or_default();
            wanted.sort();
            assert_eq!(query(&sqlite, sql), wanted, "{table} after {what}");
        }
        assert_eq!(query(&sqlite, "PRAGMA integrity_check"), ["ok"], "{what}");
    }

    /// An edit of one document in the way of programs without SQL.
    fn edit(&mut self, replicas: &mut [Document], random: &mut Random) {
        let side = random.below(replicas.len() as u64) as usize;
        let step = random.below(1000) as i64;
        let replica = &mut replicas[side];
        let child = |replica: &Document, obj: &shoal_crdt::ObjId, key: &str| {
            replica.get(obj, key).unwrap().filter(|(v, _)| v.as_object().is_some()).map(|it| it.1)
        };
        let (items, settings) = (child(replica, &ROOT, "items"), child(replica, &ROOT, "settings"));
        let count = items.as_ref().map_or(0, |items| replica.length(items).unwrap());
        let at = random.below(count as u64) as usize;
        let item = items.as_ref().and_then(|items| replica.get(items, at).unwrap());
        let item = item.filter(|it| it.0.as_object() == Some(ObjType::Map)).map(|it| it.1);
        let parts = item.as_ref().and_then(|item| child(replica, item, "parts"));
        let mut transaction = replica.transaction();
        match (random.below(9), items, item, settings) {
            (0, Some(items), ..) => {
                let new = transaction.insert_object(&items, at, ObjType::Map).unwrap();
                transaction.put(&new, "title", format!("t{step}")).unwrap();
                let parts = transaction.put_object(&new, "parts", ObjType::List).unwrap();
                transaction.insert(&parts, 0, "part").unwrap();
            }
            (1, Some(items), ..) if count > 2 => transaction.delete(&items, at).unwrap(),
            (2, Some(items), ..) if count > 0 => transaction.put(&items, at, step).unwrap(),
            (3, _, Some(item), _) => transaction.put(&item, "done", step % 2 == 0).unwrap(),
            (4, _, Some(item), _) => transaction.put(&item, "title", step).unwrap(),
            (5, _, Some(item), _) => {
                transaction.put(&item, "votes", Scalar::Counter(step)).unwrap();
                let more = transaction.put_object(&item, "more", ObjType::Map).unwrap();
                transaction.put(&more, "n", step % 99).unwrap();
            }
            (6, .., Some(settings)) => {
                transaction.put(&settings, format!("k{}", step % 3).as_str(), step).unwrap();
            }
            (7, _, Some(item), _) => match parts {
                Some(parts) => transaction.insert(&parts, 0, step).unwrap(),
                None => drop(transaction.put_object(&item, "parts", ObjType::List).unwrap()),
            },
            (8, ..) if step % 10 == 0 => {
                let list = transaction.put_object(&ROOT, "items", ObjType::List).unwrap();
                transaction.insert_object(&list, 0, ObjType::Map).unwrap();
            }
            _ => transaction.put(&ROOT, "title", step).unwrap(),
        }
        transaction.commit(CommitOptions::default());
        if self.names().iter().any(|name| name == "list/0") {
            self.database().store("list/0", &mut replicas[side]).unwrap();
        }
    }
}

fn statement(random: &mut Random) -> String {
    let n = random.below(100);
    match random.below(14) {
        0 => format!("INSERT INTO todo(_doc, title, votes) VALUES ('list/{}', 's{n}', {n})", n % 3),
        1 => format!("INSERT INTO todo(_doc, pos, n) VALUES ('list/0', {}, {n})", 1 + n % 4),
        2 => format!(
            "UPDATE todo SET title = coalesce(title, '') || '{n}' WHERE pos % 3 = {}",
            n % 3
        ),
        3 => "UPDATE todo SET votes = coalesce(votes, 0) + 1, done = NOT coalesce(done, 0)"
            .to_owned(),
        4 => format!("UPDATE todo SET n = CASE WHEN n > 80 THEN NULL ELSE {n} END WHERE pos = 1"),
        5 => "DELETE FROM todo WHERE pos > 6".to_owned(),
        6 => "DELETE FROM todo WHERE pos = 2 RETURNING title".to_owned(),
        7 => format!(
            "INSERT INTO setting(_doc, _id, v) SELECT id, 'k{}', {n} FROM _shoal_doc WHERE true \
                      ON CONFLICT(_doc, _id) DO UPDATE SET v = v + 1",
            n % 3
        ),
        8 => "DELETE FROM setting WHERE v % 2 = 0".to_owned(),
        9 => format!(
            "INSERT INTO part(_doc, _parent, name) SELECT _doc, _id, 'p{n}' FROM todo WHERE pos = 1"
        ),
        10 => "UPDATE part SET name = name || '+' WHERE length(name) < 6".to_owned(),
        11 => format!("UPDATE head SET title = 'h{n}'"),
        // Fails halfway, wherever there are two rows.
        12 => "UPDATE todo SET votes = CASE WHEN pos > 1 THEN 'no' ELSE 5 END".to_owned(),
        _ => format!(
            "UPDATE head SET items = json_set(items, '$[0].title', 'j{n}') \
                      WHERE json_type(items, '$[0]') = 'object'"
        ),
    }
}

fn session(seed: u64, steps: usize) {
    let (mut world, mut random) = (World::new(seed), Random(seed));
    let first = world.database().load("list/0").unwrap();
    let fork = |name: u8| first.fork(shoal::ActorId::new(&[name]));
    let mut replicas = [fork(1), fork(2), fork(3)];
    for step in 0..steps {
        let what = random.below(12);
        match what {
            0..=3 => world.edit(&mut replicas, &mut random),
            4..=6 => {
                let sql = statement(&mut random);
                world.sql(&sql);
            }
            7 | 8 => {
                assert!(world.sql("BEGIN"));
                for _ in 0..1 + random.below(3) {
                    world.sql(&statement(&mut random));
                }
                if what == 8 {
                    assert!(world.sql("SAVEPOINT s"));
                    world.sql(&statement(&mut random));
                    world.sql(&statement(&mut random));
                    assert!(world.sql("ROLLBACK TO s"));
                    world.sql(&statement(&mut random));
                    assert!(world.sql("RELEASE s"));
                }
                assert!(world.sql(if random.below(3) == 0 { "ROLLBACK" } else { "COMMIT" }));
            }
            9 => {
                for name in world.names() {
                    world.database().compact(&name).unwrap();
                }
            }
            10 => world.open(),
            _ => {
                // A crash: whatever was told is there, and the tables are those of the documents.
                let calls = world.vfs.calls();
                let image = world.vfs.image_after_crash(calls, random.below(5));
                world.database = None;
                world.vfs = SimVfs::from_image(&image);
                world.open();
                let told = world.told.clone();
                for (name, heads) in told {
                    let document = world.database().load(&name).unwrap();
                    assert!(heads.iter().all(|head| document.change_by_hash(head).is_some()));
                }
            }
        }
        if what != 11 {
            world.tell();
        }
        world.check(&format!("seed {seed} step {step} ({what})"));
    }
    // Drop and rebuild: the same rows.
    for name in ["todo", "part", "setting", "head"] {
        world.database().rebuild(name).unwrap();
    }
    world.check("the rebuild");
}

#[test]
fn random_sessions() {
    for seed in 1..=4 {
        session(seed, 60);
    }
}

/// A transaction of SQL is killed at every call of the file system: the document has the change
/// with all its rows, or nothing.
#[test]
fn killed_at_every_call() {
    let mut at = 0;
    loop {
        let mut world = World::new(99);
        let before = world.told["list/0"].clone();
        let first = world.vfs.calls();
        world.vfs.kill_at(first + at);
        for sql in [
            "BEGIN",
            "UPDATE todo SET title = 'x', n = 60",
            "INSERT INTO todo(_doc, title) VALUES ('list/0', 'new'), ('list/9', 'other')",
            "COMMIT",
        ] {
            assert!(world.sql(sql));
        }
        world.tell();
        let (after, images) = (world.told["list/0"].clone(), world.vfs.killed());
        if images.is_empty() {
            break;
        }
        for image in images {
            world.database = None;
            world.vfs = SimVfs::from_image(&image);
            world.open();
            let heads = world.database().load("list/0").unwrap().heads();
            assert!(heads == before || heads == after, "killed at {at}");
            let is_whole = world.database().load("list/9").is_ok();
            assert_eq!(is_whole, heads == after, "killed at {at}");
            world.check(&format!("killed at {at}"));
        }
        at += 1;
    }
    assert!(at > 5, "there were {at} calls to be killed at");
}
