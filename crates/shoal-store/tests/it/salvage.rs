//! Salvage of files with random bytes in them: no panic, no end without an end, no page twice.

use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::{MemVfs, OpenMode, Vfs};
use shoal_store::{Error, PageKind, Salvage};

/// A file of SQLite's with tables, indexes, overflow chains and free pages.
fn whole(page_size: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = {page_size};
             CREATE TABLE t (a INTEGER PRIMARY KEY, b, c);
             CREATE INDEX tb ON t (b);
             CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID;
             WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
             INSERT INTO t SELECT x, 'text ' || x, zeroblob(x * 11) FROM n;
             INSERT INTO w SELECT b, a FROM t;
             DELETE FROM t WHERE a > 150;"
        ))
        .unwrap();
    drop(connection);
    std::fs::read(path).unwrap()
}

/// Reads everything readable; gives the number of rows.
fn read(bytes: &[u8]) -> Result<u64, Error> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let path = Path::new("db");
    vfs.open(path, OpenMode::Create).unwrap().write_at(bytes, 0).unwrap();
    let salvage = Salvage::open(&vfs, path)?;
    let (mut seen, mut chained) = (salvage.page_set(), salvage.page_set());
    let (mut rows, mut taken) = (0, 0);
    for page in salvage.pages() {
        let mut give = |row: shoal_store::SalvagedRow<'_>| -> Result<(), Error> {
            rows += 1;
            taken += row.values.len();
            Ok(())
        };
        salvage.tree(page, (&mut seen, &mut chained), &mut give)?;
        salvage.children(page)?;
    }
    salvage.freelist()?;
    // Each cell is within its page, and two bytes at least.
    assert!(taken <= bytes.len() * 2, "{taken} values of {} bytes", bytes.len());
    Ok(rows)
}

#[test]
fn random_bytes_are_survived() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for page_size in [512, 1024, 8192] {
        let whole = whole(page_size);
        assert!(read(&whole).unwrap() >= 150 + 200 + 150);
        for round in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(if round % 2 == 0 { 8 } else { 400 }) {
                let at = random(bytes.len());
                bytes[at] = match random(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[random(whole.len())],
                    _ => u8::try_from(random(256)).unwrap(),
                };
            }
            if round % 5 == 0 {
                bytes.truncate(random(bytes.len()));
            }
            match read(&bytes) {
                Ok(_) | Err(Error::NotADatabase { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_header_of_zeroes_tells_no_page_size_and_pages_do() {
    for page_size in [512, 4096, 65536] {
        let mut bytes = whole(page_size);
        let rows = read(&bytes).unwrap();
        bytes[..100].fill(0);
        assert_eq!(read(&bytes).unwrap(), rows, "{page_size}");
    }
    assert!(matches!(read(&[0; 4096]), Err(Error::NotADatabase { .. })));
    assert!(matches!(read(&[]), Err(Error::NotADatabase { .. })));
    assert!(matches!(PageKind::from_byte(13), Some(PageKind::TableLeaf)));
}
