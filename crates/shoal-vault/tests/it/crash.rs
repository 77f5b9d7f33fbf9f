//! Crashes at every call of the disk while a sealed file is written, gets keys and gets another
//! key: afterwards it opens, is whole, and has one of the two states.

use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{JournalMode, Store};
use shoal_vault::{Cost, Keys, Secret};

use crate::{DB, batch, disk, filled, keys, known, rows, sql, store};

/// Looks at every `nth` call; `SHOAL_CRASHES=1` looks at every call with four seeds.
fn crashes(vfs: &SimVfs, from: usize, nth: usize, mut check: impl FnMut(Image)) {
    let all = std::env::var_os("SHOAL_CRASHES").is_some();
    let (step, seeds) = if all { (1, 4) } else { (nth, 1) };
    for calls in (from..=vfs.calls()).step_by(step) {
        for seed in 0..seeds {
            check(vfs.image_after_crash(calls, seed + calls as u64));
        }
    }
}

fn opened(image: &Image, keys: Arc<Keys>) -> Option<Store> {
    image.get(Path::new(DB)).filter(|bytes| !bytes.is_empty())?;
    Some(store(&disk(image), keys).unwrap())
}

#[test]
fn commits_survive() {
    for wal in [false, true] {
        let vfs = SimVfs::from_image(&filled(40).image());
        let writes = store(&vfs, known()).unwrap();
        if wal {
            writes.set_journal_mode(JournalMode::Wal).unwrap();
        }
        let from = vfs.calls();
        let mut connection = sql(&writes);
        batch(&mut connection, "INSERT INTO t SELECT a + 1000, b FROM t");
        batch(&mut connection, "DELETE FROM t WHERE a < 20");
        let mut seen = std::collections::BTreeSet::new();
        crashes(&vfs, from, 2, |image| {
            let store = opened(&image, known()).unwrap();
            shoal_vault::verify(&store).unwrap();
            seen.insert(rows(&mut sql(&store), "SELECT * FROM t").unwrap().len());
        });
        assert!(seen.iter().all(|count| [40, 80, 60].contains(count)), "{seen:?}");
        assert!(seen.len() > 1);
    }
}

#[test]
fn a_new_file_is_empty_or_a_vault() {
    let vfs = SimVfs::new();
    let writes = store(&vfs, known()).unwrap();
    batch(&mut sql(&writes), "CREATE TABLE t(a, b)");
    crashes(&vfs, 0, 1, |image| {
        let Some(store) = opened(&image, known()) else { return };
        shoal_vault::verify(&store).unwrap();
    });
}

#[test]
fn keys_survive() {
    let vfs = SimVfs::from_image(&filled(5).image());
    let writes = store(&vfs, known()).unwrap();
    shoal_vault::add_slot(&writes, &Secret::new(b"second"), Cost::least(), "").unwrap();
    crashes(&vfs, 0, 3, |image| {
        let store = opened(&image, known()).unwrap();
        shoal_vault::verify(&store).unwrap();
        let slots = shoal_vault::slots(&store).unwrap().slots().count();
        assert!((1..=2).contains(&slots));
    });
}

#[test]
fn another_key_survives() {
    let vfs = SimVfs::from_image(&filled(120).image());
    let writes = store(&vfs, known()).unwrap();
    let from = vfs.calls();
    shoal_vault::rekey(&writes, &Secret::new(b"new"), Cost::least(), "").unwrap();
    let new = Arc::new(keys("new"));
    let mut seen = [0; 3];
    crashes(&vfs, from, 4, |image| {
        let (store, is_new) = match store(&disk(&image), known()) {
            Ok(store) => (store, false),
            Err(_) => (store(&disk(&image), Arc::clone(&new)).unwrap(), true),
        };
        shoal_vault::verify(&store).unwrap();
        let unfinished = shoal_vault::slots(&store).unwrap().is_being_rekeyed();
        seen[usize::from(is_new) + usize::from(unfinished)] += 1;
        shoal_vault::finish_rekey(&store).unwrap();
        shoal_vault::verify(&store).unwrap();
        assert!(!shoal_vault::slots(&store).unwrap().is_being_rekeyed());
        assert_eq!(rows(&mut sql(&store), "SELECT * FROM t").unwrap().len(), 120);
    });
    // The last step, without a crash behind it, is looked at by another test.
    assert!(seen[0] > 0 && seen[2] > 0, "{seen:?}");
}
