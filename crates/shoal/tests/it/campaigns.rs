//! Campaigns: two processes on one document, and every document of the corpus through a file. Both
//! run for a moment; `SHOAL_TWO_SECONDS=300` and `SHOAL_ALL_DOCUMENTS=1` ask for the whole.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use shoal::{Access, Database, Document, Environment, OpenDocument};
use shoal_crdt::{CommitOptions, LoadOptions, ObjType, ROOT, ScalarRef, Value};

const NAME: &str = "shared";

/// The mark of the letters typed by each process.
const LETTERS: [&str; 2] = ["a", "b"];

/// Tries again while the other process is writing.
fn patiently<T>(mut work: impl FnMut() -> Result<T, shoal::Error>) -> T {
    let start = Instant::now();
    loop {
        match work() {
            Err(error) if error.is_busy() && start.elapsed() < Duration::from_secs(60) => {}
            done => return done.unwrap(),
        }
    }
}

fn open(path: &Path) -> (Database, OpenDocument) {
    let mut database = patiently(|| Database::open(Environment::os(), path, Access::ReadWrite));
    let document = patiently(|| database.open_document(NAME));
    (database, document)
}

fn count(document: &Document, key: &str) -> i64 {
    match document.get(&ROOT, key).unwrap() {
        Some((Value::Scalar(ScalarRef::Int(count)), _)) => count,
        None => 0,
        other => panic!("{key}: {other:?}"),
    }
}

/// Types a letter and counts it, a commit each, until the time is over; now and then the document
/// is closed and opened, compacted or refreshed. What was acknowledged is there each time.
fn edit(path: &Path, who: usize, until: Instant) -> i64 {
    let (mut database, mut document) = open(path);
    let key = format!("count {who}");
    let mut acknowledged = 0;
    while Instant::now() < until {
        assert_eq!(count(&document, &key), acknowledged);
        let text = document.get(&ROOT, "text").unwrap().unwrap().1;
        let length = document.length(&text).unwrap();
        let mut transaction = document.transaction();
        let place = (acknowledged as usize * 7919) % (length + 1);
        transaction.splice_text(&text, place, 0, LETTERS[who]).unwrap();
        transaction.put(&ROOT, key.as_str(), acknowledged + 1).unwrap();
        transaction.commit(CommitOptions::default());
        patiently(|| database.commit(&mut document));
        acknowledged += 1;
        match acknowledged % 97 {
            11 | 53 => {
                let heads = document.heads();
                drop((database, document));
                (database, document) = open(path);
                assert!(document.has_heads(&heads));
            }
            29 => drop(patiently(|| database.compact(NAME))),
            41 => drop(patiently(|| database.refresh(&mut document))),
            _ => {}
        }
    }
    acknowledged
}

/// One of the two processes, where the environment says so.
#[test]
fn one_of_two() {
    let (Ok(path), Ok(who), Ok(seconds)) = (
        std::env::var("SHOAL_TWO_FILE"),
        std::env::var("SHOAL_TWO_WHO"),
        std::env::var("SHOAL_TWO_SECONDS"),
    ) else {
        return;
    };
    let until = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let acknowledged = edit(Path::new(&path), who.parse().unwrap(), until);
    std::fs::write(format!("{path}.{who}"), acknowledged.to_string()).unwrap();
}

#[test]
fn two_processes_edit_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    let mut transaction = document.transaction();
    transaction.put_object(&ROOT, "text", ObjType::Text).unwrap();
    transaction.commit(CommitOptions::default());
    database.store(NAME, &mut document).unwrap();
    drop(database);
    let seconds = std::env::var("SHOAL_TWO_SECONDS").unwrap_or_else(|_| "2".to_owned());
    let children: Vec<_> = (0..2)
        .map(|who| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "campaigns::one_of_two"])
                .env("SHOAL_TWO_FILE", &path)
                .env("SHOAL_TWO_WHO", who.to_string())
                .env("SHOAL_TWO_SECONDS", &seconds)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut database = Database::open(Environment::os(), &path, Access::ReadWrite).unwrap();
    let read = database.load(NAME).unwrap();
    let text = read.get(&ROOT, "text").unwrap().unwrap().1;
    let text = read.text(&text).unwrap();
    let mut changes = 1;
    for (who, letter) in LETTERS.into_iter().enumerate() {
        let told: i64 =
            std::fs::read_to_string(format!("{}.{who}", path.display())).unwrap().parse().unwrap();
        assert!(told > 0, "process {who} committed nothing");
        assert_eq!(count(&read, &format!("count {who}")), told);
        assert_eq!(text.matches(letter).count() as i64, told);
        changes += told;
    }
    assert_eq!(read.changes().len() as i64, changes);
    database.settle().unwrap();
    drop(database);
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let ask = |sql: &str| sqlite.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(ask("PRAGMA integrity_check"), "ok");
    assert_eq!(ask("SELECT json ->> '$.text' FROM _shoal_doc"), text);
    println!("{changes} changes by two processes in {seconds} s");
}

/// Each document is stored, compacted, opened again for an edit of one key, and exported: the heads
/// and every change stay, and the reference loads the export.
#[test]
fn every_document_goes_through_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::env::var("SHOAL_ALL_DOCUMENTS").is_ok();
    let mut count = 0;
    for part in ["documents", "fixtures", "crashers"] {
        let Ok(files) = std::fs::read_dir(shoal_testkit::testdata(&format!("automerge/{part}")))
        else {
            continue;
        };
        for file in files {
            let file = file.unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            let name = file.file_name().into_string().unwrap();
            if !whole && bytes.len() > 100_000 {
                continue;
            }
            let actor = Environment::os().new_actor();
            let Ok(mut document) = Document::load(&bytes, actor, &LoadOptions::default()) else {
                continue;
            };
            if document.is_empty() {
                continue;
            }
            count += 1;
            let path = folder.path().join(format!("{count}.db"));
            let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
            database.store(&name, &mut document).unwrap();
            database.compact(&name).unwrap();
            drop(database);
            let mut database = Database::open(Environment::os(), &path, Access::ReadWrite).unwrap();
            let mut opened = database.open_document(&name).unwrap();
            assert_eq!(opened.heads(), document.heads(), "{name}");
            let hashes = |document: &Document| {
                let mut all: Vec<_> = document.changes().map(|change| change.hash()).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(hashes(&opened), hashes(&document), "{name}");
            let json = |document: &Document| serde_json::to_string(&document.to_json()).unwrap();
            assert_eq!(json(&opened), json(&document), "{name}");
            let exported = database.load(&name).unwrap().save();
            let theirs = automerge::Automerge::load(&exported).unwrap();
            let mut heads: Vec<[u8; 32]> = theirs.get_heads().iter().map(|head| head.0).collect();
            heads.sort_unstable();
            let ours: Vec<[u8; 32]> = document.heads().iter().map(|head| head.0).collect();
            assert_eq!(heads, ours, "{name}");
            let mut transaction = opened.transaction();
            transaction.put(&ROOT, "stored", true).unwrap();
            transaction.commit(CommitOptions::default());
            let heads = database.close(opened).unwrap();
            assert_eq!(database.load(&name).unwrap().heads(), heads, "{name}");
        }
    }
    assert!(count >= 3, "{count} documents");
    println!("{count} documents");
}
