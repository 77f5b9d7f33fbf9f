//! `lab peers`: builds the lab with all peers able to build, and runs the lab.
//!
//! Peers are features of `lab-peers`. All are built at once; after a failure each is tried alone,
//! so the peers failing to build are named in the report and cost no others. SQLite and libargon2
//! take part a second time, built with other flags by a program of its own. SQLite with sealed
//! pages takes part where asked for: SQLCipher, and SQLite3 Multiple Ciphers from its amalgamation.

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

/// The first build's name.
const PLAIN: &str = "plain";

/// Builds of SQLite with sealed pages, and the features of `lab-peers` they have.
const SQLCIPHER: &str = "sqlcipher";
const SQLITE3MC: &str = "sqlite3mc";

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
    let native = args.native;
    let program = match build(&folder, &Form::plain(only.clone(), native)) {
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
        let form = Form {
            name: TUNED,
            features: TUNED_FEATURES.to_vec(),
            variables: vec![("LIBSQLITE3_FLAGS", TUNED_FLAGS.into())],
            native,
        };
        match build(&folder, &form) {
            Ok(path) => also(&mut command, TUNED, &path),
            Err(error) => {
                out::note(&format!("the second build fails: {error}"));
                let why = first_line(&error);
                unbuilt.push(format!("table/sqlite {TUNED}=does not build: {why}"));
                unbuilt.push(format!("argon/libargon2 {TUNED}=does not build: {why}"));
            }
        }
    }
    if args.sqlcipher {
        match build(&folder, &Form::sealing(SQLCIPHER, Vec::new(), native)) {
            Ok(path) => also(&mut command, SQLCIPHER, &path),
            Err(error) => unbuilt.push(format!("seal/sqlcipher={}", first_line(&error))),
        }
    }
    if let Some(source) = &args.sqlite3mc {
        match sqlite3mc(&folder, source, native) {
            Ok(path) => also(&mut command, SQLITE3MC, &path),
            Err(error) => unbuilt.push(format!("seal/sqlite3mc={}", first_line(&error))),
        }
    }
    match &args.seine {
        Some(checkout) => match seine(&root, checkout) {
            Ok(path) => also(&mut command, "seine", &path),
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

/// Has another build of the lab take part.
fn also(command: &mut Command, label: &str, program: &Path) {
    command.arg("--also").arg(format!("{label}={}", program.display()));
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
/// folder, or `target` beside the manifest. Other builds have folders of their own below, because
/// the same crates with other flags would build each other anew.
fn target_folder(folder: &Path, form: &str, chosen: Option<OsString>) -> Result<PathBuf, String> {
    let plain = chosen.map_or_else(|| folder.join("target"), PathBuf::from);
    let plain =
        std::path::absolute(&plain).map_err(|error| format!("{}: {error}", plain.display()))?;
    Ok(if form == PLAIN { plain } else { plain.join(form) })
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
        match build(folder, &Form::plain(vec![feature], args.native)) {
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
    build(folder, &Form::plain(features, args.native))
}

/// One build of `lab-peers`.
struct Form {
    name: &'static str,
    /// None stand for all.
    features: Vec<&'static str>,
    /// Variables of the build.
    variables: Vec<(&'static str, OsString)>,
    native: bool,
}

impl Form {
    fn plain(features: Vec<&'static str>, native: bool) -> Form {
        Form { name: PLAIN, features, variables: Vec::new(), native }
    }

    /// SQLite with sealed pages alone: its feature has the name of the build.
    fn sealing(name: &'static str, variables: Vec<(&'static str, OsString)>, native: bool) -> Form {
        Form { name, features: vec!["peers-only", name], variables, native }
    }
}

/// Builds `lab-peers`.
fn build(folder: &Path, form: &Form) -> Result<PathBuf, String> {
    let Form { name, features, variables, native } = form;
    let target = target_folder(folder, name, std::env::var_os("CARGO_TARGET_DIR"))?;
    out::note(&format!("building lab-peers ({name})"));
    let mut command = Command::new("cargo");
    command.args(["build", "--release"]).current_dir(folder).env("CARGO_TARGET_DIR", &target);
    if !features.is_empty() {
        command.args(["--no-default-features", "--features", &features.join(",")]);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    if *native {
        command.env("RUSTFLAGS", "-C target-cpu=native").env("CFLAGS", "-O3 -march=native");
    }
    finish(command)?;
    Ok(target.join("release").join("shoal-lab-peers"))
}

/// Builds with the amalgamation of SQLite3 Multiple Ciphers, a file of C in this folder. The file
/// chooses instructions for AES itself where the compiler lets it use them.
fn sqlite3mc(folder: &Path, source: &Path, native: bool) -> Result<PathBuf, String> {
    let names = ["sqlite3mc_amalgamation.c", "sqlite3.c"];
    let file = names.iter().map(|name| source.join(name)).find(|file| file.is_file());
    let file = file.ok_or_else(|| format!("{}: there is no {}", source.display(), names[0]))?;
    let file =
        std::path::absolute(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let target = target_folder(folder, SQLITE3MC, std::env::var_os("CARGO_TARGET_DIR"))?;
    std::fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    out::note("compiling SQLite3 Multiple Ciphers");
    let (object, archive) = (target.join("sqlite3mc.o"), target.join("libsqlite3.a"));
    let mut compile = Command::new("cc");
    compile.args(["-O3", "-DSQLITE_THREADSAFE=1", "-DHAVE_USLEEP=1", "-DHAVE_ISNAN"]);
    if cfg!(target_arch = "x86_64") {
        compile.args(["-maes", "-mssse3", "-mavx2"]);
    }
    compile.arg("-c").arg(&file).arg("-o").arg(&object);
    finish(compile)?;
    let mut pack = Command::new("ar");
    pack.arg("crs").arg(&archive).arg(&object);
    finish(pack)?;
    let variables =
        vec![("SQLITE3_LIB_DIR", target.into_os_string()), ("SQLITE3_STATIC", "1".into())];
    build(folder, &Form::sealing(SQLITE3MC, variables, native))
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
    let output = command.output().map_err(|error| {
        format!("{} cannot be started: {error}", command.get_program().display())
    })?;
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
        assert_eq!(at(PLAIN, None), root.join("lab-peers/target"));
        assert_eq!(at(TUNED, None), root.join("lab-peers/target").join(TUNED));
        assert_eq!(at(PLAIN, Some("built")), root.join("built"));
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
