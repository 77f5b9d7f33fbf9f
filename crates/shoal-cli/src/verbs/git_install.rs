//! `shoal git-install`: git's settings for databases and documents.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use shoal_vfs::{VfsError, read_file, replace_file};

use crate::args::exchange::GitInstallArgs;
use crate::failure::Failure;
use crate::out;

pub(crate) fn run(args: &GitInstallArgs) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::at("shoal", error))?;
    // git runs drivers by a shell.
    let program = format!("'{}'", program.display().to_string().replace('\'', "'\\''"));
    let settings = [
        ("diff.shoal.textconv", format!("{program} git-driver show")),
        ("merge.shoal.name", "databases and Automerge documents".to_owned()),
        ("merge.shoal.driver", format!("{program} git-driver merge %O %A %B %P")),
    ];
    for (name, value) in &settings {
        let mut words: Vec<&OsStr> = vec!["config".as_ref()];
        words.extend(args.global.then_some(OsStr::new("--global")));
        words.extend([OsStr::new(name), value.as_ref()]);
        git(&words)?;
    }
    let added = attributes(Path::new(".gitattributes"), &args.patterns)?;
    let scope = if args.global { "for this user" } else { "in this repository" };
    out::note(format_args!(
        "git diffs and merges by shoal {scope}; {added} lines in .gitattributes"
    ));
    Ok(())
}

fn git(words: &[&OsStr]) -> Result<(), Failure> {
    let done = Command::new("git").args(words).output();
    let done = done.map_err(|error| Failure::at("git", error))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::at("git config", said).hint("run it inside a repository, or with --global"))
}

/// Adds the missing lines of the patterns; gives their number.
fn attributes(path: &Path, patterns: &[String]) -> Result<usize, Failure> {
    let mut text = match read_file(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_| Failure::at(path.display(), "is not UTF-8, and is left as it is"))?,
        Err(VfsError::NotFound { .. }) => String::new(),
        Err(error) => return Err(Failure::new(error)),
    };
    let mut added = 0;
    for pattern in patterns {
        // A pattern with blanks is written in quotes.
        let pattern = match pattern.contains(char::is_whitespace) {
            true => format!("\"{pattern}\""),
            false => pattern.clone(),
        };
        let line = format!("{pattern} diff=shoal merge=shoal");
        if text.lines().any(|known| known.trim() == line) {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        writeln!(text, "{line}").expect("a string takes any text");
        added += 1;
    }
    if added > 0 {
        replace_file(path, text.as_bytes()).map_err(Failure::new)?;
    }
    Ok(added)
}
