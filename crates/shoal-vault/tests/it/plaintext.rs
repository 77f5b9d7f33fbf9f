//! Nothing of the content is readable in any file, at any moment, in any mode of the journal.

use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{CheckpointMode, JournalMode, Rollback, Settings};

use crate::{SECRET, batch, known, one, sql, store};

const PLAIN: &[u8] = b"nobody may read this";

fn assert_sealed(image: &Image) {
    for (path, bytes) in image {
        for plain in [PLAIN, SECRET.as_bytes(), b"SQLite format", b"CREATE TABLE"] {
            let found = bytes.windows(plain.len()).any(|window| window == plain);
            assert!(!found, "{} holds {}", path.display(), String::from_utf8_lossy(plain));
        }
    }
}

/// Many rows, wide enough that sorts and groups of a small budget spill.
fn fill(connection: &mut shoal_sql::Connection, from: i64) {
    batch(
        connection,
        &format!(
            "INSERT INTO t SELECT value, 'nobody may read this ' || value || hex(zeroblob(300))
             FROM generate_series({from}, {from} + 300)"
        ),
    );
}

#[test]
fn no_file_holds_content() {
    for mode in [Rollback::Delete, Rollback::Persist, Rollback::Truncate] {
        let vfs = SimVfs::new();
        let store = store(&vfs, known()).unwrap();
        store.set_settings(Settings { rollback: mode, ..store.settings() });
        let mut connection = sql(&store);
        batch(&mut connection, "CREATE TABLE t(a, b)");
        let start = vfs.calls();
        fill(&mut connection, 0);
        fill(&mut connection, 1000);
        batch(&mut connection, "DELETE FROM t WHERE a % 3 = 0; UPDATE t SET b = b || 'x'");
        for calls in (start..=vfs.calls()).step_by(3) {
            assert_sealed(&vfs.image_after_crash(calls, 1));
        }
        store.set_journal_mode(JournalMode::Wal).unwrap();
        fill(&mut connection, 2000);
        assert_sealed(&vfs.image());
        batch(&mut connection, "CREATE INDEX i ON t(b); VACUUM");
        assert_sealed(&vfs.image());
        store.checkpoint(CheckpointMode::Truncate).unwrap();
        batch(&mut connection, "VACUUM INTO 'copy'; ATTACH 'beside' AS beside KEY 'another key'");
        batch(&mut connection, "CREATE TABLE beside.t AS SELECT * FROM main.t");
        assert_sealed(&vfs.image());
        assert_eq!(one(&mut connection, "PRAGMA integrity_check"), shoal_sql::Value::text("ok"));
    }
}

#[test]
fn temporary_files_hold_no_content() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = shoal_store::vfs::OsVfs::new();
    let path = folder.path().join("db");
    let options = shoal_store::Options {
        codecs: Some(known()),
        ..shoal_store::Options::new(shoal_store::Access::Create)
    };
    let store = shoal_store::Store::open_with(std::sync::Arc::new(vfs), &path, options).unwrap();
    batch(&mut sql(&store), "CREATE TABLE t(a)");
    let file = store.temporary_file().unwrap();
    file.write_at(&PLAIN.repeat(2000), 0).unwrap();
    let mut read = vec![0; PLAIN.len()];
    file.read_at(&mut read, PLAIN.len() as u64 * 500).unwrap();
    assert_eq!(read, PLAIN);
    // The file has no name: every open descriptor of this process is looked at.
    #[cfg(target_os = "linux")]
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let text = target.to_string_lossy().into_owned();
        if text.contains("(deleted)") && text.starts_with('/') {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let found = bytes.windows(PLAIN.len()).any(|window| window == PLAIN);
            assert!(!found, "{text} holds content");
        }
    }
}
