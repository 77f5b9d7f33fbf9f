//! Large databases, generated from a seed: users as Sharc draws them, and as many orders.

pub(crate) mod history;
pub(crate) mod tpch;

use std::path::{Path, PathBuf};

use crate::engine::table::{Access, Cell, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::random::Random;
use crate::workload::Scale;
use crate::workload::table::USERS_TABLE;

/// Rows of every generated database in a quick run.
pub(crate) const QUICK_ROWS: u64 = 2_000;

/// The data is the same in every run, whatever the run's own seed.
const SEED: u64 = 42;

/// The sizes used by rows, in users.
pub(crate) const SIZES: [u64; 2] = [1_000_000, 5_000_000];

const ORDERS_TABLE: TableSpec = TableSpec {
    name: "orders",
    create: "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, amount REAL \
             NOT NULL, status TEXT NOT NULL)",
    columns: &["id", "user_id", "amount", "status"],
};

const FIRST: [&str; 10] =
    ["Alice", "Bob", "Carol", "David", "Eve", "Frank", "Grace", "Henry", "Iris", "Jack"];
const LAST: [&str; 10] = [
    "Smith", "Johnson", "Williams", "Brown", "Jones", "Garcia", "Miller", "Davis", "Wilson",
    "Moore",
];
const DEPTS: [&str; 5] = ["eng", "sales", "ops", "hr", "marketing"];
const STATUS: [&str; 4] = ["Pending", "Shipped", "Delivered", "Cancelled"];

/// The path of the database with `rows` users.
pub(crate) fn path(cache: &Path, scale: Scale, rows: u64) -> PathBuf {
    let rows = if scale == Scale::Quick { QUICK_ROWS } else { rows };
    cache.join(format!("users-{rows}-{SEED}.db"))
}

/// The name of a database being made, free: the file of an aborted run is removed.
fn making(path: &Path) -> Result<PathBuf, Miss> {
    let making = path.with_extension("making");
    if making.exists() {
        std::fs::remove_file(&making).map_err(Miss::failed)?;
    }
    Ok(making)
}

/// Makes a missing database. The file appears under its name only once whole.
pub(crate) fn generate<E: TableEngine>(
    engine: &E,
    path: &Path,
    rows: u64,
    mut progress: impl FnMut(u64),
) -> Result<(), Miss> {
    if path.exists() {
        return Ok(());
    }
    let making = making(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut db = engine.open(&making, Access::Write, folder)?;
    let mut random = Random::new(SEED);
    engine.create_table(&mut db, &USERS_TABLE)?;
    chunks(rows, |ids| {
        let texts: Vec<UserTexts> =
            ids.clone().map(|id| UserTexts::draw(id, &mut random)).collect();
        let cells: Vec<_> = texts.iter().map(UserTexts::cells).collect();
        progress(ids.end);
        engine.insert(&mut db, &USERS_TABLE, &cells)
    })?;
    engine.create_table(&mut db, &ORDERS_TABLE)?;
    chunks(rows, |ids| {
        let cells: Vec<_> = ids.map(|id| order(id, rows, &mut random)).collect();
        engine.insert(&mut db, &ORDERS_TABLE, &cells)
    })?;
    engine.execute(&mut db, "CREATE INDEX idx_orders_user_id ON orders(user_id)")?;
    drop(db);
    std::fs::rename(&making, path).map_err(Miss::failed)
}

/// Calls `work` with the ids 1 to `rows`, 50,000 at a time.
fn chunks(
    rows: u64,
    mut work: impl FnMut(std::ops::Range<u64>) -> Result<(), Miss>,
) -> Result<(), Miss> {
    let mut from = 1;
    while from <= rows {
        let end = (from + 50_000).min(rows + 1);
        work(from..end)?;
        from = end;
    }
    Ok(())
}

struct UserTexts {
    id: i64,
    name: String,
    email: String,
    age: i64,
    score: f64,
    bio: Option<String>,
    active: i64,
    dept: &'static str,
    created: String,
}

fn choose<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

fn below(random: &mut Random, bound: u64) -> i64 {
    random.below(bound).cast_signed()
}

impl UserTexts {
    /// The distributions of Sharc's core data set, in its order of draws.
    fn draw(id: u64, random: &mut Random) -> Self {
        let (first, last) = (choose(random, &FIRST), choose(random, &LAST));
        let age = 18 + below(random, 62);
        let score = (random.unit() * 10_000.0).round() / 100.0;
        let bio = (random.unit() >= 0.3)
            .then(|| format!("Bio for user {id}: {first} works in {}", choose(random, &DEPTS)));
        let active = below(random, 2);
        let dept = choose(random, &DEPTS);
        let (month, day) = (random.below(12) + 1, random.below(28) + 1);
        Self {
            id: id.cast_signed(),
            name: format!("{first} {last}"),
            email: format!("{first}.{last}{id}@example.com").to_lowercase(),
            age,
            score,
            bio,
            active,
            dept,
            created: format!("2024-{month:02}-{day:02}"),
        }
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        vec![
            Cell::Int(self.id),
            Cell::Text(self.name.as_bytes()),
            Cell::Text(self.email.as_bytes()),
            Cell::Int(self.age),
            Cell::Real(self.score),
            self.bio.as_ref().map_or(Cell::Null, |bio| Cell::Text(bio.as_bytes())),
            Cell::Int(self.active),
            Cell::Text(self.dept.as_bytes()),
            Cell::Text(self.created.as_bytes()),
        ]
    }
}

fn order(id: u64, users: u64, random: &mut Random) -> Vec<Cell<'static>> {
    vec![
        Cell::Int(id.cast_signed()),
        Cell::Int(below(random, users) + 1),
        Cell::Real((random.unit() * 100_000.0).round() / 100.0),
        Cell::Text(choose(random, &STATUS).as_bytes()),
    ]
}
