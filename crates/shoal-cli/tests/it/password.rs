//! `shoal hash-password` and `shoal verify-password`.

use std::process::Command;

use crate::{run, shoal, shoal_with};

const CHEAP: [&str; 7] = ["hash-password", "--memory-kib", "64", "--passes", "1", "--lanes", "1"];

#[test]
fn what_was_hashed_is_verified_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let hash = shoal_with(dir.path(), &CHEAP, b"correct horse\n").ok();
    let hash = hash.trim_end();
    assert!(hash.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{hash}");
    let again = shoal_with(dir.path(), &CHEAP, b"correct horse\n").ok();
    assert_ne!(again.trim_end(), hash, "the salt is random");

    let verify = |password: &[u8]| shoal_with(dir.path(), &["verify-password", hash], password);
    // A line break at the end is not part of a password; anything else is.
    for password in [&b"correct horse"[..], b"correct horse\n", b"correct horse\r\n"] {
        assert_eq!(verify(password).ok(), "");
    }
    for password in [&b"correct horse "[..], b"", b"correct horse\n\n"] {
        let finished = verify(password);
        assert_eq!(finished.code, 3, "{finished:?}");
        assert_eq!(
            finished.stderr,
            "error: verify-password: the password is not the one that was hashed\n"
        );
    }
}

#[test]
fn the_secret_key_counts() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("key"), "pepper").unwrap();
    let args = [&CHEAP[..], &["--secret-file", "key"]].concat();
    let hash = shoal_with(dir.path(), &args, b"password").ok();
    let hash = hash.trim_end();
    let with =
        shoal_with(dir.path(), &["verify-password", hash, "--secret-file", "key"], b"password");
    assert_eq!(with.code, 0, "{with:?}");
    assert_eq!(shoal_with(dir.path(), &["verify-password", hash], b"password").code, 3);
    let missing = [&CHEAP[..], &["--secret-file", "nokey"]].concat();
    assert!(shoal(dir.path(), &missing).error().contains("nokey: "));
}

#[test]
fn hashes_that_are_none_or_cost_too_much_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let verify = |more: &[&str]| shoal(dir.path(), &[&["verify-password"], more].concat()).error();
    assert!(verify(&["secret"]).contains("not a password hash of Argon2"));
    assert!(!verify(&["secret"]).contains("secret"), "no part of the hash is in the message");
    let dear = "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$AAAAAAA";
    let error = verify(&[dear]);
    assert!(error.contains("too much memory in KiB: at most 2097152"), "{error}");
    assert!(error.contains("hint: --max-memory-kib"), "{error}");
}

/// By option and by environment; the tag is the same.
#[test]
fn kernels_are_forced_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let hash = shoal_with(dir.path(), &CHEAP, b"password").ok();
    let verify = ["verify-password", hash.trim_end()];
    let forced = [&verify[..], &["--isa", "scalar", "--threads", "1"]].concat();
    assert_eq!(shoal_with(dir.path(), &forced, b"password").code, 0);
    let environment = |isa: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
        run(command.args(verify).current_dir(dir.path()).env("SHOAL_ISA", isa), b"password")
    };
    assert_eq!(environment("scalar").code, 0);
    let missing = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
    assert!(environment(missing).error().contains(&format!("instruction set: {missing}")));
    assert!(environment("sse9").error().contains("there are: scalar, avx2, avx512, neon"));
}
