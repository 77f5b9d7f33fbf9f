//! The coordinator's side.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::{Ask, Line, MARK, Reply};
use crate::engine::{About, Miss};
use crate::workload::{Context, Family, Scale};

/// A program with contenders: this one, or another build of the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The arguments before the lab's own: `bench` when the lab is a verb.
    pub(crate) prefix: Vec<OsString>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.prefix).arg("serve");
        command
    }

    /// Asks the program for its contenders.
    pub(crate) fn contenders(&self) -> Result<Vec<(Family, About, Option<Miss>)>, Miss> {
        let output = self
            .command()
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Miss::Failed(format!("{}: {error}", self.path.display())))?;
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .find_map(|line| match parse(line)? {
                Line::Contenders(all) => Some(all),
                _ => None,
            })
            .ok_or_else(|| Miss::Failed(format!("{}: lists no contenders", self.path.display())))
    }
}

/// A worker prepared for its row.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<Line>,
    complaints: PathBuf,
    patience: Duration,
}

impl Worker {
    /// Starts a worker and waits for the end of its preparation.
    pub(crate) fn start(
        program: &Program,
        row: &str,
        contender: &str,
        cx: &Context,
        patience: Duration,
    ) -> Result<Self, Miss> {
        std::fs::create_dir_all(&cx.scratch).map_err(Miss::failed)?;
        let complaints = cx.scratch.join("stderr");
        let stderr = File::create(&complaints).map_err(Miss::failed)?;
        let scale = if cx.scale == Scale::Quick { "quick" } else { "full" };
        let mut child = program
            .command()
            .args(["--row", row, "--contender", contender, "--scale", scale])
            .args(["--seed", &cx.seed.to_string()])
            .args([OsString::from("--data"), cx.data.clone().into()])
            .args([OsString::from("--scratch"), cx.scratch.clone().into()])
            .args([OsString::from("--cache"), cx.cache.clone().into()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| Miss::Failed(format!("{}: {error}", program.path.display())))?;
        let orders = child.stdin.take().expect("stdin is piped");
        let out = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if parse(&line).is_some_and(|line| sender.send(line).is_err()) {
                    return;
                }
            }
        });
        let mut worker = Self { child, orders, lines, complaints, patience };
        match worker.hear()? {
            Line::Ready => Ok(worker),
            Line::Miss(miss) => Err(miss),
            other => Err(Miss::Failed(format!("a worker said {other:?} before it was ready"))),
        }
    }

    /// Takes one sample.
    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Reply, Miss> {
        let asked = writeln!(self.orders, "{}", ask.word()).and_then(|()| self.orders.flush());
        if asked.is_err() {
            return Err(self.obituary());
        }
        match self.hear()? {
            Line::Sample(reply) => Ok(reply),
            Line::Miss(miss) => Err(miss),
            other => Err(Miss::Failed(format!("a worker said {other:?} instead of a sample"))),
        }
    }

    fn hear(&mut self) -> Result<Line, Miss> {
        match self.lines.recv_timeout(self.patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = self.patience.as_secs();
                Err(Miss::NotRun(format!("gave up after {seconds} s")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.obituary()),
        }
    }

    /// The failure of an ended worker: its exit status, and its last words on stderr.
    fn obituary(&mut self) -> Miss {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |it| it.to_string());
        let last = last_line(&self.complaints).unwrap_or_default();
        Miss::Failed(format!("crashed ({status}) {last}").trim_end().to_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker past its time does not listen, so it is killed; an ended one cannot be killed
        // again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Option<Line> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(2_000))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
