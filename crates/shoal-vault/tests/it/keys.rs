//! Key slots, other keys, and the statements that give them.

use std::sync::Arc;

use shoal_store::vfs::SimVfs;
use shoal_store::{Error, Fault, JournalMode};
use shoal_vault::{Cost, Keys, VaultError};

use crate::{
    DB, SECRET, batch, disk, entropy, filled, keys, known, new_key, one, rows, sql, store,
};

#[test]
fn slots_come_and_go() {
    let vfs = filled(30);
    let opened = store(&vfs, known()).unwrap();
    let place = shoal_vault::add_slot(&opened, &new_key("second").labelled("laptop"));
    assert_eq!(place.unwrap(), 1);
    let second = store(&vfs, keys("second").into()).unwrap();
    assert_eq!(rows(&mut sql(&second), "SELECT * FROM t").unwrap().len(), 30);
    let page = shoal_vault::slots(&second).unwrap();
    let labels: Vec<_> = page.slots().map(|(place, slot)| (place, slot.label())).collect();
    assert_eq!(labels, [(0, String::new()), (1, "laptop".to_owned())]);
    shoal_vault::remove_slot(&second, 0).unwrap();
    assert!(matches!(store(&vfs, known()), Err(Error::Locked { fault: Fault::WrongKey, .. })));
    let last = shoal_vault::remove_slot(&second, 1).unwrap_err();
    assert!(matches!(last, VaultError::Slot { slot: 1, .. }));
    shoal_vault::verify(&second).unwrap();
}

#[test]
fn slots_fill_a_page_and_no_more() {
    let vfs = filled(1);
    let opened = store(&vfs, known()).unwrap();
    let added = (0..10)
        .map(|_| shoal_vault::add_slot(&opened, &new_key("more")))
        .take_while(Result::is_ok)
        .count();
    // Pages of 1,024 bytes have six places.
    assert_eq!(added, 5);
    shoal_vault::verify(&opened).unwrap();
}

#[test]
fn another_key_writes_every_page_again() {
    for wal in [false, true] {
        let vfs = filled(200);
        let opened = store(&vfs, known()).unwrap();
        if wal {
            opened.set_journal_mode(JournalMode::Wal).unwrap();
        }
        let expected = rows(&mut sql(&opened), "SELECT * FROM t").unwrap();
        let written = shoal_vault::rekey(&opened, &[new_key("new")]).unwrap();
        assert!(written > 5);
        assert_eq!(rows(&mut sql(&opened), "SELECT * FROM t").unwrap(), expected);
        shoal_vault::verify(&opened).unwrap();
        batch(&mut sql(&opened), "INSERT INTO t VALUES (1000, 'after')");
        drop(opened);
        let again = store(&disk(&vfs.image()), keys("new").into()).unwrap();
        assert_eq!(rows(&mut sql(&again), "SELECT * FROM t").unwrap().len(), 201);
        assert!(!shoal_vault::slots(&again).unwrap().is_being_rekeyed());
        assert!(store(&disk(&vfs.image()), known()).is_err());
    }
}

fn late() -> Arc<Keys> {
    let keys = Keys::new(entropy()).late();
    keys.set_cost(Cost::least());
    Arc::new(keys)
}

#[test]
fn statements_give_keys() {
    let vfs = filled(3);
    let opened = store(&vfs, late()).unwrap();
    let mut connection = sql(&opened);
    let refused = connection.prepare("SELECT * FROM t").map(drop).unwrap_err();
    assert!(refused.to_string().contains("needs a key"), "{refused}");
    batch(&mut connection, &format!("PRAGMA key = '{SECRET}'"));
    assert_eq!(rows(&mut connection, "SELECT * FROM t").unwrap().len(), 3);
    batch(&mut connection, "PRAGMA rekey = 'other'; INSERT INTO t VALUES (3, 4)");
    drop((connection, opened));
    let opened = store(&vfs, late()).unwrap();
    let mut connection = sql(&opened);
    batch(&mut connection, "PRAGMA key = 'other'");
    assert_eq!(rows(&mut connection, "SELECT * FROM t").unwrap().len(), 4);
    // A new file is sealed by its first statement.
    let vfs = SimVfs::new();
    let opened = store(&vfs, late()).unwrap();
    batch(&mut sql(&opened), "PRAGMA key = 'third'; CREATE TABLE t(a)");
    assert!(vfs.image()[std::path::Path::new(DB)].starts_with(b"Shoal sealed 1"));
}

#[test]
fn attached_files_have_keys_of_their_own() {
    let vfs = filled(3);
    let opened = store(&vfs, known()).unwrap();
    let mut connection = sql(&opened);
    batch(&mut connection, "ATTACH 'b' AS b KEY 'key of b'; CREATE TABLE b.t AS SELECT 7 AS x");
    batch(&mut connection, "ATTACH 'plain' AS p KEY ''; CREATE TABLE p.t AS SELECT 8 AS x");
    let image = vfs.image();
    assert!(image[std::path::Path::new("b")].starts_with(b"Shoal sealed 1"));
    assert!(image[std::path::Path::new("plain")].starts_with(b"SQLite format 3"));
    batch(&mut connection, "DETACH b");
    let wrong = connection.prepare("ATTACH 'b' AS b KEY 'another'").unwrap();
    let mut wrong = wrong;
    assert!(connection.execute(&mut wrong).is_err());
    batch(&mut connection, "ATTACH 'b' AS b KEY 'key of b'");
    assert_eq!(one(&mut connection, "SELECT x FROM b.t"), shoal_sql::Value::Int(7));
}

#[test]
fn plain_files_and_auto_vacuum_are_refused() {
    let vfs = SimVfs::new();
    let plain = store(&vfs, Keys::new(entropy()).into()).unwrap();
    batch(&mut sql(&plain), "CREATE TABLE t(a)");
    drop(plain);
    let refused = store(&vfs, known()).unwrap_err();
    assert_eq!(refused.to_string(), "is not sealed, and a key was given: db");
    let vfs = SimVfs::new();
    let opened = store(&vfs, known()).unwrap();
    let mut connection = sql(&opened);
    let mut full = connection.prepare("PRAGMA auto_vacuum = FULL").unwrap();
    let _ = connection.execute(&mut full);
    let mut create = connection.prepare("CREATE TABLE t(a)").unwrap();
    let refused = connection.execute(&mut create).unwrap_err();
    assert!(refused.to_string().contains("auto-vacuum in a sealed file"), "{refused}");
}

/// Costs in a slot are bounded before memory is asked for.
#[test]
fn costs_have_a_floor_and_a_ceiling() {
    for (memory, passes, lanes) in
        [(1 << 10, 60, 1), (7 << 10, 4, 1), (5 << 20, 1, 1), (64 << 10, 65, 1), (64 << 10, 3, 65)]
    {
        assert!(Cost::new(memory, passes, lanes).is_err(), "{memory} {passes} {lanes}");
    }
    assert!(Cost::new(4 << 20, 64, 64).is_ok());
    assert!(Cost::new(7 << 10, 5, 1).is_ok());
}
