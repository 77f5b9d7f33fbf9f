//! `lab peers`: builds the lab with its peers, each where it builds, and runs it.
//!
//! Peers are features of `lab-peers`. All are built at once; when that fails each is tried alone,
//! so that one that does not build is named in the report and costs no other. SQLite and libargon2
//! take part a second time, built with other flags, which needs a program of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::PeersArguments;
use crate::out;

/// Features of `lab-peers`, and the contender that each adds: family and name.
const PEERS: [(&str, &str); 12] = [
    ("automerge", "doc/automerge"),
    ("loro", "doc/loro"),
    ("yrs", "doc/yrs"),
    ("diamond-types", "doc/diamond-types"),
    ("rusqlite", "table/sqlite"),
    ("turso", "table/turso"),
    ("redb", "table/redb"),
    ("heed", "table/heed"),
    ("rustcrypto", "argon/rustcrypto"),
    ("rust-argon2", "argon/rust-argon2"),
    ("argon2-rust", "argon/argon2-rust"),
    ("libargon2", "argon/libargon2"),
];

/// The second build's name and contents: SQLite with flags for speed, libargon2's optimised source.
const TUNED: &str = "tuned";
const TUNED_FEATURES: [&str; 3] = ["peers-only", "rusqlite", "libargon2-native"];

/// What a build of SQLite has that is meant for speed alone; SQLite's own recommendations, without
/// those that change results.
const TUNED_FLAGS: &str = "-DSQLITE_THREADSAFE=2 -USQLITE_ENABLE_API_ARMOR \
    -USQLITE_ENABLE_MEMORY_MANAGEMENT -DSQLITE_DEFAULT_MEMSTATUS=0 -DSQLITE_MAX_EXPR_DEPTH=0 \
    -DSQLITE_USE_ALLOCA";

/// Builds and runs; true when everything was built and every row went right.
pub(crate) fn peers(args: &PeersArguments) -> Result<bool, String> {
    let root = root()?;
    let folder = root.join("lab-peers");
    let mut unbuilt = Vec::new();
    let program = match build(&folder, "plain", &[], None, args.native) {
        Ok(program) => program,
        Err(first) => {
            out::note(&format!("not all peers build at once; each is tried alone\n{first}"));
            some(&folder, args, &mut unbuilt)?
        }
    };
    let mut command = Command::new(program);
    command.args(&args.arguments);
    if !args.no_tuned && !unbuilt.iter().any(|one: &String| one.starts_with("table/sqlite=")) {
        match build(&folder, TUNED, &TUNED_FEATURES, Some(TUNED_FLAGS), args.native) {
            Ok(path) => {
                command.arg("--also").arg(format!("{TUNED}={}", path.display()));
            }
            Err(error) => {
                out::note(&format!("the second build fails: {error}"));
                let why = first_line(&error);
                unbuilt.push(format!("table/sqlite {TUNED}=does not build: {why}"));
                unbuilt.push(format!("argon/libargon2 {TUNED}=does not build: {why}"));
            }
        }
    }
    match &args.seine {
        Some(checkout) => match seine(&root, checkout) {
            Ok(path) => {
                command.arg("--also").arg(format!("seine={}", path.display()));
            }
            Err(error) => unbuilt.push(format!("argon/seine={}", first_line(&error))),
        },
        None => out::note("seine: not run: no checkout given (--seine FOLDER)"),
    }
    for one in &unbuilt {
        command.arg("--unbuilt").arg(one);
    }
    let status = command
        .current_dir(&root)
        .status()
        .map_err(|error| format!("the lab with peers cannot be started: {error}"))?;
    Ok(status.success() && unbuilt.is_empty())
}

/// The checkout: the folder above, or the one that this program was built from.
fn root() -> Result<PathBuf, String> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    [PathBuf::from("."), built_from]
        .into_iter()
        .find(|folder| folder.join("lab-peers/Cargo.toml").is_file())
        .ok_or_else(|| "lab-peers is not here: run this in a checkout of the repository".into())
}

/// Builds with those features that build alone.
fn some(
    folder: &Path,
    args: &PeersArguments,
    unbuilt: &mut Vec<String>,
) -> Result<PathBuf, String> {
    let mut features = Vec::new();
    for (feature, contender) in PEERS {
        match build(folder, "plain", &[feature], None, args.native) {
            Ok(_) => features.push(feature),
            Err(error) => {
                out::note(&format!("{feature} does not build: {}", first_line(&error)));
                unbuilt.push(format!("{contender}=does not build: {}", first_line(&error)));
            }
        }
    }
    if features.is_empty() {
        return Err("no peer builds".into());
    }
    build(folder, "plain", &features, None, args.native)
}

/// Builds `lab-peers`; no features stand for all.
fn build(
    folder: &Path,
    form: &str,
    features: &[&str],
    sqlite_flags: Option<&str>,
    native: bool,
) -> Result<PathBuf, String> {
    let mut target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    if form == TUNED {
        // Its own folder: the same crates with other flags would build each other anew.
        target.push(TUNED);
    }
    out::note(&format!("building lab-peers ({form})"));
    let mut command = Command::new("cargo");
    command.args(["build", "--release"]).current_dir(folder).env("CARGO_TARGET_DIR", &target);
    if !features.is_empty() {
        command.args(["--no-default-features", "--features", &features.join(",")]);
    }
    if let Some(flags) = sqlite_flags {
        command.env("LIBSQLITE3_FLAGS", flags);
    }
    if native {
        command.env("RUSTFLAGS", "-C target-cpu=native").env("CFLAGS", "-O3 -march=native");
    }
    finish(command)?;
    Ok(target.join("release").join("shoal-lab-peers"))
}

/// Builds the adapter for a checkout of seine, whose kernel is no crate of a registry.
fn seine(root: &Path, checkout: &Path) -> Result<PathBuf, String> {
    let checkout =
        checkout.canonicalize().map_err(|error| format!("{}: {error}", checkout.display()))?;
    let kernel = ["pow-kernel", "crates/pow-kernel"]
        .iter()
        .map(|folder| checkout.join(folder))
        .find(|folder| folder.join("Cargo.toml").is_file())
        .ok_or_else(|| format!("{} has no pow-kernel", checkout.display()))?;
    let folder = std::env::temp_dir().join("shoal-lab-seine");
    let lab =
        root.join("lab").canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    let manifest = format!(
        "[package]\nname = \"shoal-lab-seine\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nshoal-lab = {{ path = {lab:?} }}\nblocknet-pow-kernel = {{ path = {kernel:?} }}\n"
    );
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    write("Cargo.toml", &manifest)?;
    write("src/main.rs", include_str!("../seine/main.rs"))?;
    let mut command = Command::new("cargo");
    command.args(["build", "--release"]).current_dir(&folder);
    command.env("CARGO_TARGET_DIR", folder.join("target"));
    out::note("building seine's kernel");
    finish(command)?;
    Ok(folder.join("target/release/shoal-lab-seine"))
}

fn finish(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> =
        complaint.lines().skip_while(|line| !line.starts_with("error")).take(20).collect();
    Err(if errors.is_empty() { complaint.trim().to_owned() } else { errors.join("\n") })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
