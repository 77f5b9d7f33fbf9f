//! Crashes at every call of the disk while a sealed file is written, gets keys and gets another
//! key: afterwards it opens, is whole, and has one of the two states.

use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{JournalMode, Store};
use shoal_vault::Keys;

use crate::{DB, batch, disk, filled, keys, known, new_key, rows, sql, store};

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
    shoal_vault::add_slot(&writes, &new_key("second")).unwrap();
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
    shoal_vault::rekey(&writes, &[new_key("new")]).unwrap();
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

/// A change of the data key in several transactions, with writers of this program and another one
/// in between: after a crash anywhere nothing is lost, and the change goes on.
#[test]
fn a_change_in_steps_survives_crashes_and_writers() {
    for wal in [false, true] {
        let vfs = SimVfs::from_image(&filled(1).image());
        let writes = store(&vfs, known()).unwrap();
        if wal {
            writes.set_journal_mode(JournalMode::Wal).unwrap();
        }
        let fill = "INSERT INTO t SELECT value, hex(zeroblob(350)) FROM generate_series(1, 2300)";
        batch(&mut sql(&writes), fill);
        let from = vfs.calls();
        shoal_vault::begin_rekey(&writes, &[new_key("new")]).unwrap();
        let new = Arc::new(keys("new"));
        let other = store(&vfs, Arc::clone(&new)).unwrap();
        let mut progress = shoal_vault::RekeyProgress::default();
        let mut steps = 0;
        while !progress.is_done() {
            shoal_vault::rekey_step(&writes, &mut progress).unwrap();
            assert!(progress.looked_at() <= progress.pages());
            steps += 1;
            let row = 10_000 + 2 * steps;
            batch(&mut sql(&writes), &format!("INSERT INTO t VALUES ({row}, 'here')"));
            batch(&mut sql(&other), &format!("INSERT INTO t VALUES ({row} + 1, 'there')"));
            batch(&mut sql(&writes), &format!("UPDATE t SET b = 'changed' WHERE a = {steps}"));
        }
        assert!(steps > 3 && progress.written() > 2000, "{steps} {progress:?}");
        shoal_vault::verify(&writes).unwrap();
        shoal_vault::verify(&other).unwrap();
        // The other program finds out that the old key is gone when the file is opened again.
        drop(other);
        let again = store(&vfs, Arc::clone(&new)).unwrap();
        assert!(!shoal_vault::slots(&again).unwrap().is_being_rekeyed());
        let count = rows(&mut sql(&again), "SELECT * FROM t").unwrap().len();
        assert_eq!(count, 2301 + 2 * steps as usize);

        let nth = (vfs.calls() - from) / 12;
        let mut unfinished = 0;
        crashes(&vfs, from, nth.max(1), |image| {
            let opened = match store(&disk(&image), known()) {
                Ok(store) => store,
                Err(_) => store(&disk(&image), Arc::clone(&new)).unwrap(),
            };
            shoal_vault::verify(&opened).unwrap();
            unfinished += u32::from(shoal_vault::slots(&opened).unwrap().is_being_rekeyed());
            shoal_vault::finish_rekey(&opened).unwrap();
            shoal_vault::verify(&opened).unwrap();
            assert!(!shoal_vault::slots(&opened).unwrap().is_being_rekeyed());
            let first = "SELECT count(*) FROM t WHERE a <= 2300";
            assert_eq!(crate::one(&mut sql(&opened), first), shoal_sql::Value::Int(2301));
        });
        assert!(unfinished > 2, "{unfinished}");
    }
}
