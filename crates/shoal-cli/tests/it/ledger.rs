//! `shoal ledger`: kept, cut and verified by the command.

use crate::shoal;

#[test]
fn a_ledger_is_kept_and_verified_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let root = shoal(folder, &["ledger", "key", "root.key"]).ok();
    let writer = shoal(folder, &["ledger", "key", "me.key"]).ok();
    shoal(folder, &["ledger", "new", "a.db"]).ok();
    let joined =
        shoal(folder, &["ledger", "join", "a.db", "--signer", "root.key", "--name", "root"]);
    assert_eq!(joined.ok(), root);
    shoal(folder, &["ledger", "join", "a.db", "--signer", "me.key", "--name", "me"]).ok();
    let admit = ["ledger", "admit", "a.db", "--signer", "root.key", writer.trim(), "document:*"];
    shoal(folder, &admit).ok();
    std::fs::write(folder.join("d.json"), r#"{"n": 0}"#).unwrap();
    shoal(folder, &["doc", "import", "d.json", "a.db::note"]).ok();
    shoal(folder, &["ledger", "documents", "a.db", "--signer", "me.key"]).ok();
    let head = shoal(folder, &["ledger", "head", "a.db"]).ok();
    std::fs::write(folder.join("head.json"), &head).unwrap();
    shoal(folder, &["ledger", "add", "a.db", "--signer", "root.key", "seen"]).ok();
    let verify = ["ledger", "verify", "a.db", "--head", "head.json", "--root", root.trim()];
    let report = shoal(folder, &verify).ok();
    assert!(report.starts_with("5 entries of 2 writers\n"), "{report}");
    assert!(report.ends_with("everything else holds\n"), "{report}");
    let log = shoal(folder, &["ledger", "log", "a.db"]).ok();
    assert!(log.lines().nth(3).is_some_and(|line| line.contains("me 2\tdocument")), "{log}");
    let proof = shoal(folder, &["ledger", "prove", "a.db", "2"]).ok();
    assert!(proof.contains("\"index\":1") && proof.contains("\"size\":5"), "{proof}");
    // A change that nobody signed is told of, and is nothing wrong.
    shoal(folder, &["doc", "put", "a.db::note", "/n", "1"]).ok();
    let report = shoal(folder, &verify).ok();
    assert!(report.contains("unsigned: document note: 1 changes"), "{report}");
    // A cut ledger, as any program could cut it.
    shoal(folder, &["sql", "a.db", "DELETE FROM _ledger_entry WHERE id >= 4"]).ok();
    let report = shoal(folder, &verify);
    assert_eq!(report.code, 1);
    assert!(report.stdout.contains("wrong: entries under the remembered head"), "{report:?}");
}
