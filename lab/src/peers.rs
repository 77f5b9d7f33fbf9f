//! `lab peers`: builds the lab with all peers able to build, and runs the lab.
//!
//! Peers are features of `lab-peers`. All are built at once; after a failure each is tried alone,
//! so the peers failing to build are named in the report and cost no others. SQLite and libargon2
//! take part a second time, built with other flags by a program of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::PeersArguments;
use crate::out;

/// Features of `lab-peers`, and each feature's contender: family and name.
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

/// Flags for SQLite's speed alone: SQLite's own recommendations, without those changing results.
const TUNED_FLAGS: &str = "-DSQLITE_THREADSAFE=2 -USQLITE_ENABLE_API_ARMOR \
    -USQLITE_ENABLE_MEMORY_MANAGEMENT -DSQLITE_DEFAULT_MEMSTATUS=0 -DSQLITE_MAX_EXPR_DEPTH=0 \
    -DSQLITE_USE_ALLOCA";

/// Builds and runs; true when everything was built and every row went right.
pub(crate) fn peers(args: &PeersArguments) -> Result<bool, String> {
    let root = root()?;
    let folder = root.join("lab-peers");
    let mut unbuilt = Vec::new();
    let only = chosen(&args.only)?;
    let program = match build(&folder, "plain", &only, None, args.native) {
        Ok(program) => program,
        Err(first) => {
            out::note(&format!("not all peers build at once; each is tried alone\n{first}"));
            some(&folder, args, &mut unbuilt)?
        }
    };
    let mut command = Command::new(program);
    command.args(&args.arguments);
    // The tuned build has SQLite and libargon2 only: no use to a choice of other peers.
    let tuned = !args.no_tuned && (only.is_empty() || only.contains(&"rusqlite"));
    if tuned && !unbuilt.iter().any(|one: &String| one.starts_with("table/sqlite=")) {
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

/// The checkout: the working folder, or the checkout this program was built from.
fn root() -> Result<PathBuf, String> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = [PathBuf::from("."), built_from]
        .into_iter()
        .find(|folder| folder.join("lab-peers/Cargo.toml").is_file())
        .ok_or("lab-peers is not here: run this in a checkout of the repository")?;
    // Cargo is started in folders of the checkout, where a relative path means another place.
    std::path::absolute(&root).map_err(|error| format!("{}: {error}", root.display()))
}

/// The folder for builds of `lab-peers`: the caller's own choice, counted from the caller's working
/// folder, or `target` beside the manifest. The tuned build has a folder of its own below, because
/// the same crates with other flags would build each other anew.
fn target_folder(folder: &Path, form: &str, chosen: Option<OsString>) -> Result<PathBuf, String> {
    let plain = chosen.map_or_else(|| folder.join("target"), PathBuf::from);
    let plain =
        std::path::absolute(&plain).map_err(|error| format!("{}: {error}", plain.display()))?;
    Ok(if form == TUNED { plain.join(TUNED) } else { plain })
}

/// The features named by `--only`, none for all of them.
fn chosen(only: &[String]) -> Result<Vec<&'static str>, String> {
    only.iter()
        .map(|name| {
            PEERS.iter().map(|(feature, _)| *feature).find(|feature| feature == name).ok_or_else(
                || {
                    let known: Vec<&str> = PEERS.iter().map(|(feature, _)| *feature).collect();
                    format!("no peer is called {name}\nhint: {}", known.join(", "))
                },
            )
        })
        .collect()
}

/// Builds with the features that build alone.
fn some(
    folder: &Path,
    args: &PeersArguments,
    unbuilt: &mut Vec<String>,
) -> Result<PathBuf, String> {
    let mut features = Vec::new();
    let only = chosen(&args.only)?;
    for (feature, contender) in PEERS {
        if !only.is_empty() && !only.contains(&feature) {
            continue;
        }
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
    let target = target_folder(folder, form, std::env::var_os("CARGO_TARGET_DIR"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// From the root of a checkout the build once went to `lab-peers/lab-peers/target`: the folder
    /// was named relative to the caller, and cargo runs in `lab-peers`.
    #[test]
    fn a_build_lies_in_the_same_place_for_the_caller_and_for_cargo() {
        let root = std::env::current_dir().unwrap();
        let at = |form, chosen: Option<&str>| {
            target_folder(Path::new("lab-peers"), form, chosen.map(OsString::from)).unwrap()
        };
        assert_eq!(at("plain", None), root.join("lab-peers/target"));
        assert_eq!(at(TUNED, None), root.join("lab-peers/target").join(TUNED));
        assert_eq!(at("plain", Some("built")), root.join("built"));
        assert_eq!(at(TUNED, Some("/built")), Path::new("/built").join(TUNED));
    }

    #[test]
    fn peers_are_chosen_by_name_and_unknown_names_are_refused() {
        assert_eq!(chosen(&[]), Ok(Vec::new()));
        assert_eq!(chosen(&["redb".into()]), Ok(vec!["redb"]));
        let refused = chosen(&["rocksdb".into()]).unwrap_err();
        assert!(refused.starts_with("no peer is called rocksdb\nhint: automerge"), "{refused}");
    }

    #[test]
    fn the_checkout_is_found_as_an_absolute_path() {
        let root = root().unwrap();
        assert!(root.is_absolute() && root.join("lab-peers/Cargo.toml").is_file(), "{root:?}");
    }
}
