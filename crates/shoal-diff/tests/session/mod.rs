//! SQLite's session extension, built from the SQLite that rusqlite bundles: the oracle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Runs one operation of the oracle.
pub(crate) fn oracle(words: &[&str]) -> Output {
    Command::new(program()).args(words).output().expect("the oracle runs")
}

/// The oracle, built on first use: the C compiler is the one rusqlite was built with.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let metadata = metadata();
        let is_it = |package: &&cargo_metadata::Package| *package.name == "libsqlite3-sys";
        let package = metadata.packages.iter().find(is_it).expect("rusqlite is a test dependency");
        let sources = package.manifest_path.parent().expect("a manifest has a folder");
        let sources = sources.join("sqlite3");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join(format!("session-oracle-{}", package.version));
        if program.exists() {
            return program;
        }
        let made = folder.join(format!("session-oracle-{}", std::process::id()));
        let done = Command::new("cc")
            .args(["-O1", "-w", "-DSQLITE_ENABLE_SESSION", "-DSQLITE_ENABLE_PREUPDATE_HOOK"])
            .args(["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"])
            .arg(format!("-I{sources}"))
            .arg(sources.join("sqlite3.c"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/oracle.c"))
            .args(["-lm", "-o"])
            .arg(&made)
            .status()
            .expect("a C compiler");
        assert!(done.success(), "the oracle builds");
        std::fs::rename(&made, &program).expect("the oracle is moved");
        program
    })
}

/// The packages of this workspace for this platform. Those of other platforms may never have been
/// fetched; a registry is asked only where a package of this one is missing, too.
fn metadata() -> cargo_metadata::Metadata {
    let about = Command::new("rustc").arg("-vV").output().expect("rustc tells its version").stdout;
    let about = String::from_utf8(about).expect("rustc writes UTF-8");
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let ask = |options: &[&str]| {
        let options = options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>();
        cargo_metadata::MetadataCommand::new().other_options(options).exec()
    };
    ask(&["--offline", "--filter-platform", host])
        .or_else(|_| ask(&["--filter-platform", host]))
        .expect("cargo metadata answers")
}
