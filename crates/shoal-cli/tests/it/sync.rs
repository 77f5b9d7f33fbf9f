//! `shoal sync` without a server: two files, a pipe through another program, a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

use super::{Finished, run, shoal, shoal_with};

const SHOAL: &str = env!("CARGO_BIN_EXE_shoal");

fn make(dir: &Path, json: &str, doc: &str) {
    shoal_with(dir, &["doc", "import", "-", doc], json.as_bytes()).ok();
}

fn shown(dir: &Path, doc: &str) -> String {
    shoal(dir, &["doc", "show", doc, "--format", "json"]).ok()
}

/// Two databases of which one is a copy, both edited since, and a document of each alone.
fn diverged(dir: &Path) {
    make(dir, r#"{"title": "Holidays", "days": 3}"#, "a.db::note");
    make(dir, r#"{"x": 1}"#, "a.db::same");
    shoal(dir, &["backup", "a.db", "b.db"]).ok();
    shoal(dir, &["doc", "put", "a.db::note", "/days", "5"]).ok();
    shoal(dir, &["doc", "put", "b.db::note", "/place", "\"Sea\""]).ok();
    make(dir, r#"{"y": 1}"#, "a.db::mine");
    make(dir, r#"{"y": 2}"#, "b.db::a/b");
}

fn assert_same(dir: &Path) {
    for name in ["note", "same", "mine", "a/b"] {
        assert_eq!(shown(dir, &format!("a.db::{name}")), shown(dir, &format!("b.db::{name}")));
    }
    let note = shown(dir, "a.db::note");
    assert!(note.contains("Sea") && note.contains('5'), "{note}");
}

#[test]
fn two_files() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    let synced = shoal(dir, &["sync", "a.db", "b.db"]);
    assert_eq!((synced.code, synced.stdout.as_str()), (0, ""), "{}", synced.stderr);
    assert!(synced.stderr.contains("note: 1 changes in, 1 out"), "{}", synced.stderr);
    assert!(synced.stderr.contains("b.db: 3 documents exchanged, 1 the same"), "{}", synced.stderr);
    assert_same(dir);
    let again = shoal(dir, &["sync", "a.db", "b.db", "--format", "json"]).ok();
    assert!(again.contains(r#""documents":[]"#) && again.contains(r#""same":4"#), "{again}");
    // The other machine's copy is made, with one document.
    shoal(dir, &["sync", "a.db", "new.db", "mine"]).ok();
    assert_eq!(shoal(dir, &["doc", "ls", "new.db"]).ok().lines().count(), 1);

    let error = shoal(dir, &["sync", "none.db", "neither.db"]).error();
    assert!(error.contains("neither"), "{error}");
    assert!(!dir.join("none.db").exists() && !dir.join("neither.db").exists());
    let error = shoal(dir, &["sync", "a.db", "./a.db"]).error();
    assert!(error.contains("same file"), "{error}");
    let error = shoal(dir, &["sync", "a.db", "b.db", "nothing"]).error();
    assert!(error.contains("no document is named nothing"), "{error}");
    fs::write(dir.join("text.db"), "not a database, by far").unwrap();
    let error = shoal(dir, &["sync", "a.db", "text.db"]).error();
    assert!(error.contains("text.db") || error.contains("database"), "{error}");
    for args in [
        &["sync", "a.db"][..],
        &["sync", "a.db", "b.db", "--pay"],
        &["sync", "a.db", "ws://x", "--format", "json"],
    ] {
        assert_eq!(shoal(dir, args).code, 2, "{args:?}");
    }
}

#[test]
fn documents_begun_apart_and_removed_ones() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    make(dir, r#"{"by": "a"}"#, "a.db::twice");
    make(dir, r#"{"too": "b"}"#, "b.db::twice");
    shoal(dir, &["doc", "rm", "b.db::same"]).ok();
    let synced = shoal(dir, &["sync", "a.db", "b.db"]);
    assert_eq!(synced.code, 1);
    for words in [
        "same: removed there, left alone",
        "twice: the two histories have no change in common",
        "--unrelated merges",
        "1 document was not exchanged",
        "3 documents exchanged",
    ] {
        assert!(synced.stderr.contains(words), "{words}: {}", synced.stderr);
    }
    shoal(dir, &["sync", "b.db", "a.db", "--unrelated", "twice"]).ok();
    assert_eq!(shown(dir, "a.db::twice"), shown(dir, "b.db::twice"));
    assert!(shown(dir, "a.db::twice").contains("too"));
    assert_eq!(shoal(dir, &["doc", "show", "b.db::same"]).code, 1);
}

#[test]
fn a_pipe_through_another_program() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    let line = format!("'{SHOAL}' sync --stdio b.db");
    let synced = shoal(dir, &["sync", "a.db", "--command", &line]);
    assert_eq!((synced.code, synced.stdout.as_str()), (0, ""), "{}", synced.stderr);
    assert!(synced.stderr.contains("3 documents exchanged, 1 the same"), "{}", synced.stderr);
    assert_same(dir);
    // A document by its name alone, the program given.
    let json = shoal(dir, &["sync", "a.db", "note", "--command", &line, "--format", "json"]).ok();
    assert!(json.contains(r#""same":1"#), "{json}");

    for (line, words) in [
        ("sh -c 'echo shoal: not found; exit 127'", "it says \"shoal: not found\""),
        ("sh -c 'exit 3'", "exit status: 3"),
        ("no-such-program-of-anybody", "no-such-program-of-anybody"),
        ("dd bs=1 count=40 status=none", "the other end"),
        ("sh -c 'echo shoal-sync 1; head -c 100000 /dev/zero'", "the other end"),
        ("sh -c 'echo shoal-sync 1; sleep 0.2'", "went away"),
    ] {
        let error = shoal(dir, &["sync", "a.db", "--command", line]).error();
        assert!(error.contains(words), "{line}: {error}");
    }
    assert_eq!(shoal(dir, &["sync", "a.db", "--command", "'"]).code, 2);
    // Somebody else on this end's stdin.
    let error = shoal_with(dir, &["sync", "--stdio", "b.db"], b"GET / HTTP/1.1\r\n\r\n").error();
    assert!(error.contains("not shoal sync"), "{error}");
    let error = shoal_with(dir, &["sync", "--stdio", "b.db"], b"").error();
    assert!(error.contains("went away"), "{error}");
    assert_same(dir);
}

/// The program dies in the middle, again and again: both files are whole, and the last run is
/// through.
#[test]
fn a_program_that_dies_in_the_middle() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    let mut codes = Vec::new();
    for bytes in [20, 300, 600, 900, 1_200, 2_000] {
        // The other end hears so many bytes, and then nothing.
        let line =
            format!("sh -c 'dd bs=1 count={bytes} status=none | \"{SHOAL}\" sync --stdio b.db'");
        let cut = shoal(dir, &["sync", "a.db", "--command", &line]);
        assert!(matches!(cut.code, 0 | 1), "{cut:?}");
        codes.push(cut.code);
        for db in ["a.db", "b.db"] {
            let check = shoal(dir, &["sql", db, "--format", "list", "PRAGMA integrity_check"]).ok();
            assert_eq!(check, "ok\n");
        }
    }
    assert_eq!(codes[..2], [1, 1], "nothing is exchanged within an offer");
    shoal(dir, &["sync", "a.db", "b.db"]).ok();
    assert_same(dir);
}

#[test]
fn ssh_is_given_words_and_the_path_is_quoted_for_the_other_shell() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    fs::rename(dir.join("b.db"), dir.join("b b's.db")).unwrap();
    // A stand-in for ssh that does what sshd does: a shell reads the last word.
    fs::create_dir(dir.join("bin")).unwrap();
    let ssh = dir.join("bin/ssh");
    let script = "#!/bin/sh\necho \"$#:$1:$2:$3:$4\" > \"$OUT\"\nfor last; do :; done\nexec sh -c \"$last\"\n";
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(SHOAL, dir.join("bin/shoal")).unwrap();
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    let url = format!("ssh://ada@desk:2222{}/b b's.db", dir.display());
    let mut command = Command::new(SHOAL);
    command.args(["sync", "a.db", &url]).current_dir(dir);
    command.env("PATH", path).env("OUT", dir.join("words"));
    let Finished { stderr, code, .. } = run(&mut command, b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("ssh: 3 documents exchanged"), "{stderr}");
    assert_eq!(fs::read_to_string(dir.join("words")).unwrap(), "5:-p:2222:--:ada@desk\n");
    fs::rename(dir.join("b b's.db"), dir.join("b.db")).unwrap();
    assert_same(dir);
    let error = shoal(dir, &["sync", "a.db", "ssh://-oProxyCommand=x/b.db"]).error();
    assert!(error.contains("an ssh URL is"), "{error}");
}

#[test]
fn a_folder_of_files_between_two_machines() {
    let dir = tempdir().unwrap();
    let dir = dir.path();
    diverged(dir);
    let synced = shoal(dir, &["sync", "a.db", "shared/"]);
    assert!(synced.stderr.contains("note: 0 changes in, 2 out"), "{}", synced.stderr);
    let error = shoal(dir, &["sync", "b.db", "shared"]);
    assert!(error.stderr.contains("note: 1 changes in, 1 out"), "{}", error.stderr);
    shoal(dir, &["sync", "a.db", "shared"]).ok();
    assert_same(dir);
    let mut files: Vec<String> = fs::read_dir(dir.join("shared"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["a%2fb.automerge", "mine.automerge", "note.automerge", "same.automerge"]);
    let json = shoal(dir, &["sync", "a.db", "shared", "--format", "json"]).ok();
    assert!(json.contains(r#""bytes_out":0"#) && json.contains(r#""same":4"#), "{json}");
    assert_eq!(shown(dir, "shared/note.automerge"), shown(dir, "a.db::note"));

    // A copy that a carrier has set aside, and a file that is none.
    let copy = "shared/note (Ada's conflicted copy 2026-11-24).automerge";
    fs::copy(dir.join("shared/note.automerge"), dir.join(copy)).unwrap();
    shoal(dir, &["doc", "put", copy, "/who", "\"Ada\""]).ok();
    fs::write(dir.join("shared/broken.automerge"), "no document").unwrap();
    let synced = shoal(dir, &["sync", "a.db", "shared"]);
    assert_eq!(synced.code, 1, "{}", synced.stderr);
    assert!(synced.stderr.contains("1 changes of it are in note now"), "{}", synced.stderr);
    assert!(synced.stderr.contains("broken: "), "{}", synced.stderr);
    assert!(shown(dir, "shared/note.automerge").contains("Ada"));
    assert!(shown(dir, "a.db::note").contains("Ada"));
    fs::remove_file(dir.join("shared/broken.automerge")).unwrap();
    let synced = shoal(dir, &["sync", "a.db", "shared"]);
    assert!(synced.stderr.contains("note has all of it"), "{}", synced.stderr);
}
