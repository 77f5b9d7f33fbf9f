//! Pages through a codec: in the file, its journal and its log nothing is plain but the file's
//! shape; recovery and checkpoints work without the codec; a refused page is an error with its
//! number. `SHOAL_TEST_CODEC=1` in the environment runs other tests of the store with the codec.

use std::path::Path;
use std::sync::Arc;

use crate::common::codec::{Pad, RESERVED, plain};
use crate::common::{self, ask_sqlite_at, options, record, root};
use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{
    Access, Backup, BtreeKind, CheckpointMode, Error, JournalMode, Mode, Options, Pgno, Rollback,
    Settings, Store, ValueRef,
};

const DB: &str = "db";
const SECRET: &[u8] = b"nobody may read this anywhere";

fn open_as(vfs: &SimVfs, key: u64, access: Access) -> Result<Store, Error> {
    let options = Options { codec: Some(Arc::new(Pad { key })), ..options(access) };
    Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options)
}

fn coded(vfs: &SimVfs) -> Store {
    open_as(vfs, 1, Access::Create).unwrap()
}

/// A table with rows, made through the codec.
fn filled(vfs: &SimVfs) -> Store {
    let store = coded(vfs);
    let mut txn = store.begin(Mode::Write).unwrap();
    let tree = txn.create_btree(BtreeKind::Table).unwrap();
    let schema = [
        ValueRef::Text(b"table"),
        ValueRef::Text(b"t"),
        ValueRef::Text(b"t"),
        ValueRef::Int(i64::from(tree.get())),
        ValueRef::Text(b"CREATE TABLE t(a)"),
    ];
    txn.table_insert(Pgno::FIRST, 1, &record(&schema)).unwrap();
    txn.bump_schema_cookie().unwrap();
    txn.commit().unwrap();
    put(&store, 0..200, 100).unwrap();
    store
}

fn put(store: &Store, rows: std::ops::Range<i64>, len: usize) -> Result<(), Error> {
    let mut txn = store.begin(Mode::Write)?;
    let tree = root(&txn, "t");
    for rowid in rows {
        let text = SECRET.repeat(len / SECRET.len() + 1);
        txn.table_insert(tree, rowid, &record(&[ValueRef::Text(&text)]))?;
    }
    txn.commit().map(drop)
}

fn rows(store: &Store) -> Result<usize, Error> {
    let txn = store.begin(Mode::Read)?;
    let mut cursor = txn.table(root(&txn, "t"))?;
    let mut count = 0;
    while cursor.next()? {
        assert!(cursor.payload()?.windows(SECRET.len()).any(|bytes| bytes == SECRET));
        count += 1;
    }
    Ok(count)
}

fn assert_hidden(image: &Image) {
    for (path, bytes) in image {
        let found = bytes.windows(SECRET.len()).any(|bytes| bytes == SECRET);
        assert!(!found, "{} holds plain content", path.display());
        assert!(!bytes.starts_with(b"SQLite"), "{} begins plain", path.display());
    }
}

#[test]
fn nothing_is_plain_in_file_journal_and_log() {
    for mode in [Rollback::Delete, Rollback::Persist, Rollback::Truncate] {
        let vfs = SimVfs::new();
        let store = filled(&vfs);
        store.set_settings(Settings { rollback: mode, ..store.settings() });
        let start = vfs.calls();
        put(&store, 100..400, 5000).unwrap();
        assert_eq!(rows(&store).unwrap(), 400);
        for calls in start..=vfs.calls() {
            assert_hidden(&vfs.image_after_crash(calls, 1));
        }
        store.set_journal_mode(JournalMode::Wal).unwrap();
        put(&store, 50..450, 300).unwrap();
        put(&store, 60..70, 9).unwrap();
        assert_eq!(rows(&store).unwrap(), 450);
        assert_hidden(&vfs.image());
        assert!(!store.checkpoint(CheckpointMode::Truncate).unwrap().busy);
        assert_eq!(rows(&coded(&vfs)).unwrap(), 450);
        drop(store);
        let bytes = &vfs.image()[Path::new(DB)];
        assert_eq!((bytes[16..18].to_vec(), bytes[18], bytes[20]), (vec![16, 0], 2, RESERVED));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DB);
        std::fs::write(&path, plain(&Pad { key: 1 }, bytes)).unwrap();
        assert_eq!(ask_sqlite_at(&path, "SELECT '' || count(*) FROM t"), ["450"]);
    }
}

/// The journal holds the pages as they were stored: recovery gives back the file, to the byte.
#[test]
fn recovery_gives_back_the_stored_bytes() {
    let vfs = SimVfs::new();
    drop(filled(&vfs));
    let before = vfs.image();
    let vfs = SimVfs::from_image(&before);
    let store = coded(&vfs);
    put(&store, 0..300, 700).unwrap();
    let mut undone = 0;
    for calls in 0..vfs.calls() {
        for seed in 0..4 {
            let image = vfs.image_after_crash(calls, seed);
            let hot =
                image.get(Path::new("db-journal")).is_some_and(|it| it.first() == Some(&0xd9));
            if hot && image[Path::new(DB)] != before[Path::new(DB)] {
                let disk = SimVfs::from_image(&image);
                assert_eq!(rows(&coded(&disk)).unwrap(), 200);
                assert_eq!(disk.image(), before);
                undone += 1;
            }
        }
    }
    assert!(undone > 3, "{undone}");
}

#[test]
fn a_refused_page_is_an_error_with_its_number() {
    let vfs = SimVfs::new();
    drop(filled(&vfs));
    assert!(matches!(
        open_as(&vfs, 2, Access::ReadWrite),
        Err(Error::Refused { pgno: Pgno::FIRST, .. })
    ));
    let mut image = vfs.image();
    image.get_mut(Path::new(DB)).unwrap()[4096 * 3 + 77] ^= 1;
    let vfs = SimVfs::from_image(&image);
    let error = rows(&coded(&vfs)).unwrap_err();
    assert_eq!(error.to_string(), "page 4 has another tag than its content: db");
    // A plain file has no room for the codec, or no tags.
    let vfs = SimVfs::from_image(&Image::from([(
        DB.into(),
        common::plain_database(4096, 0, common::SCHEMA),
    )]));
    assert!(open_as(&vfs, 1, Access::ReadWrite).is_err());
    let without = Options { codec: None, ..options(Access::ReadWrite) };
    let vfs = SimVfs::from_image(&image);
    let opened = Store::open_with(Arc::new(vfs), Path::new(DB), without);
    assert!(matches!(opened, Err(Error::NotADatabase { .. })));
}

#[test]
fn copies_and_temporary_files_are_coded() {
    let vfs = SimVfs::new();
    let store = filled(&vfs);
    let mut backup = Backup::to_file(&store, Path::new("copy")).unwrap();
    while !backup.step(7).unwrap() {}
    drop(backup);
    assert_hidden(&vfs.image());
    let copy = store.open_another(Path::new("copy")).unwrap();
    assert_eq!(rows(&copy).unwrap(), 200);
    let other = store.open_copy(Path::new("other")).unwrap();
    let mut backup = Backup::into_store(&store, &other).unwrap();
    while !backup.step(50).unwrap() {}
    assert_eq!(rows(&other).unwrap(), 200);
    assert_hidden(&vfs.image());

    let file = store.temporary_file().unwrap();
    let mut model: Vec<u8> = Vec::new();
    let mut state = 1_u64;
    for round in 0..300_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let len = (state >> 40) as usize % 9000;
        let at = match round % 5 {
            0 => (state >> 20) as usize % (model.len() + 5000),
            _ => model.len(),
        };
        let bytes = vec![round as u8; len];
        file.write_at(&bytes, at as u64).unwrap();
        if len > 0 {
            model.resize(model.len().max(at + len), 0);
            model[at..at + len].copy_from_slice(&bytes);
        }
        if round % 50 == 49 {
            let len = model.len() / 2;
            file.truncate(len as u64).unwrap();
            model.truncate(len);
        }
        assert_eq!(file.size().unwrap(), model.len() as u64);
        let mut read = vec![1; 10_000];
        let from = (state >> 10) as usize % (model.len() + 10);
        let count = file.read_at(&mut read, from as u64).unwrap();
        let expect = model.get(from..(from + 10_000).min(model.len())).unwrap_or_default();
        assert_eq!(&read[..count], expect);
    }
}
