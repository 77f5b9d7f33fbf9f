//! Sound ledgers, and ledgers changed by SQL.

#![allow(clippy::unwrap_used)]

use ed25519_dalek::{Signer as _, SigningKey};
use shoal_sql::Connection;
use shoal_stdx::hex;
use shoal_store::Store;
use shoal_trust::{FaultKind, Ledger, NewEntry, Report, Signer, Unknown, VerifyOptions};

fn signer(number: u8) -> Signer {
    Signer::from_bytes(&[number; 32])
}

fn run(connection: &mut Connection, sql: &str) {
    for place in shoal_sql::Statements::new(sql) {
        let mut statement = connection.prepare(&sql[place]).unwrap();
        connection.execute(&mut statement).unwrap();
    }
}

fn count(connection: &mut Connection, sql: &str) -> i64 {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let row = rows.next().unwrap().unwrap();
    shoal_sql::Value::from(row.get(0)).to_int()
}

fn note(ledger: &mut Ledger<'_>, by: u8, text: &str) {
    let entry = NewEntry { time_ms: 5, kind: "note", payload: text.as_bytes() };
    ledger.append(&signer(by), &entry).unwrap();
}

fn append(ledger: &mut Ledger<'_>, by: u8, kind: &str, json: &str) {
    let entry = NewEntry { time_ms: 6, kind, payload: json.as_bytes() };
    ledger.append(&signer(by), &entry).unwrap();
}

fn memory() -> Connection {
    Connection::open(Store::memory()).unwrap()
}

/// A ledger of a root (key 1) and an admitted writer (key 2).
fn two_writers(connection: &mut Connection) {
    let mut ledger = Ledger::create(connection, [9; 32]).unwrap();
    ledger.join(&signer(1), "root", 1).unwrap();
    let writer = ledger.join(&signer(2), "second", 2).unwrap();
    let admission =
        format!(r#"{{"writer":"{}","scopes":["t","document:note*"]}}"#, hex::encode(&writer));
    append(&mut ledger, 1, "admit", &admission);
    for number in 0..3 {
        note(&mut ledger, 1 + number % 2, &format!("note {number}"));
    }
}

fn verify(connection: &mut Connection) -> Report {
    Ledger::open(connection).unwrap().verify(&VerifyOptions::default()).unwrap()
}

fn kinds(report: &Report) -> Vec<FaultKind> {
    let mut kinds: Vec<FaultKind> = report.faults.iter().map(|fault| fault.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn an_honest_ledger_holds_and_says_what_is_not_known() {
    let mut connection = memory();
    two_writers(&mut connection);
    let report = verify(&mut connection);
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.entries, report.writers), (6, 2));
    assert_eq!(report.unknown, [Unknown::Tail, Unknown::Roots, Unknown::Times]);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let head = ledger.head().unwrap();
    let roots = [shoal_trust::writer_of(&signer(1).public())];
    let options = VerifyOptions { roots: &roots, head: Some(&head) };
    note(&mut ledger, 2, "behind the head");
    let report = ledger.verify(&options).unwrap();
    assert!(report.holds() && report.unknown == [Unknown::Times], "{report:?}");
    assert_eq!(count(&mut connection, "SELECT count(*) FROM _ledger_agent WHERE key NOT NULL"), 2);
    assert_eq!(count(&mut connection, "SELECT count(*) FROM _ledger_scope"), 2);
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM _ledger_audit WHERE name = 'second'"),
        3
    );
}

#[test]
fn changes_of_rows_are_found() {
    let cases: [(&str, &[FaultKind]); 9] = [
        ("UPDATE _ledger_entry SET payload = x'00' WHERE id = 5", &[FaultKind::Signature]),
        ("UPDATE _ledger_entry SET time = 0 WHERE id = 5", &[FaultKind::Signature]),
        ("UPDATE _ledger_entry SET kind = 'other' WHERE id = 5", &[FaultKind::Signature]),
        ("UPDATE _ledger_entry SET hash = zeroblob(32) WHERE id = 5", &[FaultKind::Hash]),
        ("DELETE FROM _ledger_entry WHERE id = 3", &[FaultKind::Gap, FaultKind::NotAdmitted]),
        ("DELETE FROM _ledger_entry WHERE id = 2", &[FaultKind::Gap]),
        (
            "INSERT INTO _ledger_entry SELECT 99, hash, writer, key, sequence, previous, seen, time,
             kind, payload, signature FROM _ledger_entry WHERE id = 4",
            &[FaultKind::Replayed],
        ),
        ("UPDATE _ledger_entry SET id = 90 WHERE id = 4", &[FaultKind::Reordered]),
        (
            "UPDATE _ledger_entry SET writer = (SELECT writer FROM _ledger_entry WHERE id = 2),
             sequence = 9 WHERE id = 6",
            &[FaultKind::Signature],
        ),
    ];
    for (sql, expect) in cases {
        let mut connection = memory();
        two_writers(&mut connection);
        run(&mut connection, sql);
        let found = kinds(&verify(&mut connection));
        assert!(expect.iter().all(|kind| found.contains(kind)), "{sql}: {found:?}");
    }
}

#[test]
fn a_cut_tail_is_seen_by_whoever_remembers_a_head() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let head = ledger.head().unwrap();
    run(&mut connection, "DELETE FROM _ledger_entry WHERE id = 6");
    // The file alone cannot tell, and says so.
    let report = verify(&mut connection);
    assert!(report.holds() && report.unknown.contains(&Unknown::Tail));
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let options = VerifyOptions { head: Some(&head), ..VerifyOptions::default() };
    assert_eq!(kinds(&ledger.verify(&options).unwrap()), [FaultKind::Truncated]);
    // Another entry in the place of the cut one does not help.
    note(&mut ledger, 1, "instead");
    assert_eq!(kinds(&ledger.verify(&options).unwrap()), [FaultKind::Head]);
}

#[test]
fn a_signed_head_fixes_the_order_before_it() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let head = serde_json::to_string(&ledger.head().unwrap()).unwrap();
    append(&mut ledger, 1, "head", &head);
    assert!(verify(&mut connection).holds());
    run(&mut connection, "UPDATE _ledger_entry SET id = 100 WHERE id = 6");
    assert_eq!(kinds(&verify(&mut connection)), [FaultKind::Reordered, FaultKind::Head]);
}

#[test]
fn an_entry_of_another_ledger_is_a_forgery_here() {
    let (mut here, mut there) = (memory(), memory());
    two_writers(&mut here);
    let mut other = Ledger::create(&mut there, [8; 32]).unwrap();
    other.join(&signer(1), "root", 1).unwrap();
    let mut ledger = Ledger::open(&mut here).unwrap();
    assert!(matches!(ledger.import(&mut other), Err(shoal_trust::Error::OtherLedger)));
    let (_, hash, entry) = other.entries().unwrap().remove(0);
    assert!(entry.is_signed(&[8; 16]) && !entry.is_signed(&[9; 16]));
    assert_eq!(entry.hash(&[8; 16]), hash);
}

#[test]
fn keys_rotate_and_writers_are_revoked() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let rotation = format!(r#"{{"key":"{}"}}"#, hex::encode(&signer(3).public()));
    append(&mut ledger, 2, "rotate", &rotation);
    note(&mut ledger, 3, "by the new key");
    // The old key signs for nobody any more.
    let old = NewEntry { time_ms: 7, kind: "note", payload: b"" };
    assert!(matches!(ledger.append(&signer(2), &old), Err(shoal_trust::Error::Signer { .. })));
    assert!(ledger.verify(&VerifyOptions::default()).unwrap().holds());
    let writer = hex::encode(&shoal_trust::writer_of(&signer(2).public()));
    append(&mut ledger, 1, "revoke", &format!(r#"{{"writer":"{writer}","last":3}}"#));
    let report = ledger.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Revoked]);
    assert_eq!(report.faults.len(), 1, "{report:?}");
    // An old key signing behind the rotation is found: the row is forged by SQL.
    let last = ledger.entries().unwrap().into_iter().find(|(_, _, entry)| entry.sequence == 4);
    let (id, _, mut entry) = last.expect("the second writer has four entries");
    entry.key = signer(2).public();
    let hash = entry.hash(&[9; 16]);
    let signed = [b"shoal ledger signature 1\0".as_slice(), &hash].concat();
    let signature = SigningKey::from_bytes(&[2; 32]).sign(&signed).to_bytes();
    let (key, hash, signature) =
        (hex::encode(&entry.key), hex::encode(&hash), hex::encode(&signature));
    run(
        &mut connection,
        &format!(
            "UPDATE _ledger_entry SET key = x'{key}', hash = x'{hash}', signature = x'{signature}'
             WHERE id = {id}"
        ),
    );
    assert!(kinds(&verify(&mut connection)).contains(&FaultKind::Key));
}

#[test]
fn a_writer_signs_within_its_scopes_alone() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    append(&mut ledger, 2, "document", r#"{"document":"notes","changes":[]}"#);
    assert!(ledger.verify(&VerifyOptions::default()).unwrap().holds());
    append(&mut ledger, 2, "document", r#"{"document":"secret","changes":[]}"#);
    for table in ["5401017500120005", "5401017400120005"] {
        let bytes = hex::decode(table).unwrap();
        let entry = NewEntry { time_ms: 8, kind: "changeset", payload: &bytes };
        ledger.append(&signer(2), &entry).unwrap();
    }
    let report = ledger.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Scope]);
    // A stranger may stand in the file, and is believed nothing.
    ledger.join(&signer(4), "stranger", 9).unwrap();
    note(&mut ledger, 4, "hello");
    let found = kinds(&ledger.verify(&VerifyOptions::default()).unwrap());
    assert_eq!(found, [FaultKind::NotAdmitted, FaultKind::Scope]);
}

#[test]
fn copies_join_and_forks_are_kept_as_evidence() {
    let (mut here, mut there) = (memory(), memory());
    two_writers(&mut here);
    let mut copy = Ledger::create(&mut there, [9; 32]).unwrap();
    let mut ledger = Ledger::open(&mut here).unwrap();
    assert_eq!(copy.import(&mut ledger).unwrap(), (6, 0));
    copy.rename_log([7; 16]).unwrap();
    note(&mut copy, 2, "there");
    note(&mut ledger, 1, "here");
    assert_eq!(ledger.import(&mut copy).unwrap(), (1, 0));
    assert_eq!(copy.import(&mut ledger).unwrap(), (1, 0));
    for side in [&mut ledger, &mut copy] {
        assert!(side.verify(&VerifyOptions::default()).unwrap().holds());
    }
    // One writer writes on both sides at once.
    note(&mut copy, 2, "this");
    note(&mut ledger, 2, "that");
    assert_eq!(ledger.import(&mut copy).unwrap(), (1, 0));
    assert_eq!(kinds(&ledger.verify(&VerifyOptions::default()).unwrap()), [FaultKind::Fork]);
    // A forged entry is not taken.
    run(&mut there, "UPDATE _ledger_entry SET payload = x'41' WHERE id = 9");
    run(&mut here, "DELETE FROM _ledger_entry WHERE id > 8");
    let mut copy = Ledger::open(&mut there).unwrap();
    let mut ledger = Ledger::open(&mut here).unwrap();
    assert_eq!(ledger.import(&mut copy).unwrap(), (0, 1));
}

#[test]
fn nobody_imports_entries_in_the_name_of_another() {
    let (mut here, mut there) = (memory(), memory());
    two_writers(&mut here);
    let mut copy = Ledger::create(&mut there, [9; 32]).unwrap();
    let mut ledger = Ledger::open(&mut here).unwrap();
    copy.import(&mut ledger).unwrap();
    // A stranger's key signs a rotation for the second writer, by tables changed through SQL.
    let stranger = hex::encode(&signer(4).public());
    run(&mut there, &format!("UPDATE _ledger_agent SET key = x'{stranger}' WHERE name = 'second'"));
    let mut copy = Ledger::open(&mut there).unwrap();
    append(&mut copy, 4, "rotate", &format!(r#"{{"key":"{stranger}"}}"#));
    note(&mut copy, 4, "in another's name");
    assert!(kinds(&copy.verify(&VerifyOptions::default()).unwrap()).contains(&FaultKind::Key));
    let mut ledger = Ledger::open(&mut here).unwrap();
    assert_eq!(ledger.import(&mut copy).unwrap(), (0, 2));
    note(&mut ledger, 2, "still the writer");
    // A key named by the writer's rotation is the writer's, rotation and entry in one import.
    let rotation = format!(r#"{{"key":"{}"}}"#, hex::encode(&signer(3).public()));
    append(&mut ledger, 2, "rotate", &rotation);
    note(&mut ledger, 3, "by the new key");
    let mut third = memory();
    let mut copy = Ledger::create(&mut third, [9; 32]).unwrap();
    assert_eq!(copy.import(&mut ledger).unwrap(), (9, 0));
    assert!(copy.verify(&VerifyOptions::default()).unwrap().holds());
}

#[test]
fn a_revoked_writer_admits_nobody() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let writer = |key: u8| hex::encode(&shoal_trust::writer_of(&signer(key).public()));
    let scopes = r#""scopes":["admit","t"]"#;
    append(&mut ledger, 1, "admit", &format!(r#"{{"writer":"{}",{scopes}}}"#, writer(2)));
    ledger.join(&signer(4), "stranger", 9).unwrap();
    append(&mut ledger, 2, "admit", &format!(r#"{{"writer":"{}",{scopes}}}"#, writer(4)));
    note(&mut ledger, 4, "hello");
    assert!(ledger.verify(&VerifyOptions::default()).unwrap().holds());
    append(&mut ledger, 1, "revoke", &format!(r#"{{"writer":"{}","last":2}}"#, writer(2)));
    let report = ledger.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(kinds(&report), [FaultKind::NotAdmitted, FaultKind::Revoked]);
    assert_eq!(report.faults.len(), 2, "{report:?}");
}

#[test]
fn each_entry_is_proved_under_the_head() {
    let mut connection = memory();
    two_writers(&mut connection);
    let mut ledger = Ledger::open(&mut connection).unwrap();
    let leaves = ledger.leaves().unwrap();
    let root = shoal_trust::merkle::root(&leaves);
    assert_eq!(hex::encode(&root), ledger.head().unwrap().root);
    for (index, leaf) in leaves.iter().enumerate() {
        let proof = shoal_trust::merkle::inclusion(&leaves, index).unwrap();
        let (index, size) = (index as u64, leaves.len() as u64);
        assert!(shoal_trust::merkle::is_included(leaf, index, size, &proof, &root));
    }
}
