//! The command as users run it: one process a call, judged by stdout, stderr and exit code.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod argon2;
mod bad_input;
mod bench;
mod browser;
mod cypher;
mod doc;
mod entitlements;
mod exchange;
mod flight;
mod keep;
mod ledger;
mod mcp;
mod mine;
mod narrowed_files;
mod password;
#[cfg(feature = "nats")]
mod relays;
mod serve;
mod shell;
mod sql;
mod sync;
mod tour;
mod transfer;
mod vault;
mod virtual_tables;
mod who;
mod workbook;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The output of a call, and its exit code.
#[derive(Debug)]
struct Finished {
    stdout: String,
    stderr: String,
    code: i32,
}

impl Finished {
    /// The stdout of a call that must have succeeded.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// The stderr of a call required to fail with one line of error and exit code 1.
    #[track_caller]
    fn error(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        let errors = self.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{}", self.stderr);
        self.stderr
    }
}

/// Runs `shoal` with `args` in `dir`.
fn shoal(dir: &Path, args: &[&str]) -> Finished {
    shoal_with(dir, args, b"")
}

/// Runs `shoal` with `args` in `dir`, `input` on its stdin.
fn shoal_with(dir: &Path, args: &[&str], input: &[u8]) -> Finished {
    run(Command::new(env!("CARGO_BIN_EXE_shoal")).args(args).current_dir(dir), input)
}

/// Runs the `sqlite3` command, or returns `None` and says so when there is none.
fn sqlite3(dir: &Path, args: &[&str], input: &[u8]) -> Option<Finished> {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("skipped: there is no sqlite3 command here");
        return None;
    }
    Some(run(Command::new("sqlite3").args(args).current_dir(dir), input))
}

fn run(command: &mut Command, input: &[u8]) -> Finished {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A call refusing its arguments never reads its stdin.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Finished {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// A copy of a `testdata/` file in `dir`.
fn copy(dir: &Path, name: &str, to: &str) {
    std::fs::copy(shoal_testkit::testdata(name), dir.join(to)).unwrap();
}
