//! Lines of any bytes to an MCP server over a small database, with and without rules.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use shoal::{Access, ActorId, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ROOT};
use shoal_mcp::{AnswerLimits, Options, RulesFor};
use shoal_sql::Statements;
use shoal_store::vfs::{FixedClock, MemVfs, SeededEntropy};
use tokio::runtime::{Builder, Runtime};

use crate::conversation::{Heard, converse};
use crate::sql;
use crate::walk::DATABASE;

/// In every hidden value. No function of SQL makes it of what is visible.
const HIDDEN: &str = "q9hidden";

const SETUP: &str = "
    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, owner TEXT);
    INSERT INTO person VALUES (1, 'Ada', 'ada'), (2, 'q9hidden', 'q9hidden'), (3, 'Cy', 'ada');
    CREATE TABLE knows (a INTEGER, b INTEGER, why TEXT);
    INSERT INTO knows VALUES (1, 3, 'q9hidden'), (1, 2, 'q9hidden');
    CREATE TABLE secret (q9hidden TEXT);
    CREATE VIRTUAL TABLE note USING fts5 (body, owner UNINDEXED);
    INSERT INTO note VALUES ('an engine of words', 'ada'), ('an engine q9hidden', 'q9hidden');
    CREATE VIRTUAL TABLE near USING vec0 (place float[2], owner TEXT);
    INSERT INTO near (rowid, place, owner) VALUES (1, '[0, 0]', 'ada'), (2, '[0, 1]', 'q9hidden');
";

const GRAPH: &str = "CREATE PROPERTY GRAPH people VERTEX TABLES (person PROPERTIES (id, name)) \
    EDGE TABLES (knows SOURCE KEY (a) REFERENCES person (id) \
                       DESTINATION KEY (b) REFERENCES person (id) NO PROPERTIES)";

const RULES: &str = r#"{ "principals": { "ada": {
    "person": { "columns": ["id", "name"], "rows": "owner = :principal" },
    "knows": { "columns": ["rowid", "a", "b"] },
    "note": { "columns": ["rowid", "body"], "rows": "owner = :principal" },
    "near": { "columns": ["rowid", "place"], "rows": "owner = :principal" },
    "_graph_definition": {},
    "_shoal_doc": { "rows": "name = 'plan'", "history": true } } } }"#;

fn environment(vfs: &MemVfs) -> Environment {
    Environment::new(
        Arc::new(vfs.clone()),
        Arc::new(FixedClock { unix_ms: 1_000_000 }),
        Arc::new(SeededEntropy::new(7)),
    )
}

fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let vfs = MemVfs::new();
        let database = Database::open(environment(&vfs), Path::new(DATABASE), Access::Create);
        let mut database = database.expect("a new database opens");
        sql::run(database.sql(), "PRAGMA journal_mode = delete").expect("a known pragma");
        for range in Statements::new(SETUP) {
            sql::run(database.sql(), &SETUP[range]).expect("the set-up is valid");
        }
        assert!(database.define(GRAPH).expect("a graph of its tables"), "it is a definition");
        for (number, (name, title)) in [("plan", "First"), (HIDDEN, HIDDEN)].into_iter().enumerate()
        {
            let mut document = Document::new(ActorId::new(&[number as u8; 16]));
            let mut transaction = document.transaction();
            transaction.put(&ROOT, "title", title).expect("a new document takes a title");
            transaction.commit(CommitOptions::default());
            database.store(name, &mut document).expect("the file can be written");
        }
        drop(database);
        vfs.get(Path::new(DATABASE)).expect("it was written")
    })
}

fn rules() -> &'static PathBuf {
    static RULES_FILE: OnceLock<PathBuf> = OnceLock::new();
    RULES_FILE.get_or_init(|| {
        let name = format!("shoal-fuzz-rules-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, RULES).expect("the folder of temporary files can be written");
        path
    })
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread().worker_threads(1).enable_time().build();
        built.expect("a runtime starts")
    })
}

fn said(lines: &[u8], principal: Option<&str>, is_writable: bool) -> Heard {
    let vfs = MemVfs::new();
    vfs.put(Path::new(DATABASE), template().to_vec());
    let rules = principal
        .map(|principal| RulesFor { file: rules().clone(), principal: Some(principal.to_owned()) });
    let options = Options {
        environment: environment(&vfs),
        path: PathBuf::from(DATABASE),
        is_writable,
        limits: AnswerLimits { time: Duration::from_millis(500), ..AnswerLimits::default() },
        rules,
    };
    runtime().block_on(converse(options, lines))
}

/// Sends the lines of an input to a server. Its first byte tells a server of everything, a server
/// under rules, and either with writing on.
///
/// # Panics
/// For a request without an answer, a server that ends, and a hidden value under rules.
pub fn send(data: &[u8]) {
    let Some((mode, lines)) = data.split_first() else { return };
    let is_asked = String::from_utf8_lossy(lines).contains(HIDDEN);
    let principal = (mode % 2 == 1).then_some("ada");
    let heard = said(lines, principal, mode & 2 != 0);
    let told = String::from_utf8_lossy(&heard.lines);
    assert!(principal.is_none() || is_asked || !told.contains(HIDDEN), "hidden: {told}");
}
