//! A database meets another one, over a pipe or on this machine, or a folder of files.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use shoal_server::pair::{self, PairOptions, PairReport, Refusal};
use shoal_server::{Error, folder};
use tokio::time::timeout;

use super::remote::Command;
use crate::args::Format;
use crate::args::serve::SyncArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::progress::spin;
use crate::verbs::serve::{Stop, runtime};

/// A program whose pipe has ended has this time to end as well.
const FAREWELL: Duration = Duration::from_secs(5);

fn options(args: &SyncArgs, documents: Vec<String>) -> PairOptions {
    PairOptions {
        environment: crate::keys::environment(),
        path: args.database.clone(),
        documents,
        takes_unrelated: args.unrelated,
        limits: shoal_server::Limits::default(),
    }
}

pub(super) fn with_file(
    args: &SyncArgs,
    file: PathBuf,
    documents: Vec<String>,
) -> Result<(), Failure> {
    let shown = file.display().to_string();
    if !open::exists(&args.database)? && !open::exists(&file)? {
        let why = format_args!("there is neither this file nor {shown}");
        return Err(Failure::at(args.database.display(), why));
    }
    let options = options(args, documents);
    let met = waited(async move { pair::files(options, file).await });
    finish(args, &shown, met?.map_err(|error| about(args, &shown, error)))
}

pub(super) fn with_folder(
    args: &SyncArgs,
    path: &Path,
    documents: Vec<String>,
) -> Result<(), Failure> {
    let shown = path.display().to_string();
    let options = options(args, documents);
    let met = spin("syncing", || folder::sync(&options, path));
    finish(args, &shown, met.map_err(|error| about(args, &shown, error)))
}

pub(super) fn with_command(
    args: &SyncArgs,
    command: &Command,
    documents: Vec<String>,
) -> Result<(), Failure> {
    let shown = command.program.clone();
    let options = options(args, documents);
    let met = waited(async {
        let child = tokio::process::Command::new(&command.program)
            .args(&command.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(|error| Failure::at(&shown, error))?;
        let stdin = child.stdin.take().expect("the stdin of a child with pipes is one");
        let stdout = child.stdout.take().expect("the stdout of a child with pipes is one");
        let met = pair::dial(options, tokio::io::join(stdout, stdin)).await;
        // The pipe is closed: whoever reads it ends.
        let ended = timeout(FAREWELL, child.wait()).await;
        met.map_err(|error| match (about(args, &shown, error), ended) {
            (failure, Ok(Ok(status))) if !status.success() => {
                let sentence = format!("{}; {shown} ended with {status}", failure.sentence);
                Failure { sentence, ..failure }
            }
            (failure, _) => failure,
        })
    });
    finish(args, &shown, met?)
}

/// The end that somebody else's `shoal sync` speaks to.
pub(super) fn at_stdio(args: &SyncArgs) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::new("sync --stdio is started by the shoal sync at the other end")
            .hint("shoal sync A.db --command 'ssh HOST shoal sync --stdio B.db'"));
    }
    let runtime = runtime()?;
    let stream = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
    let met = runtime.block_on(async {
        let stop = Stop::new()?;
        tokio::select! {
            met = pair::accept(options(args, Vec::new()), stream) => {
                met.map_err(|error| about(args, "stdin", error))
            }
            () = stop.asked() => Err(Failure::new("interrupted")),
        }
    });
    // A thread may still wait for stdin, which the other end need not close.
    runtime.shutdown_background();
    met
}

/// Runs a meeting; Ctrl-C ends it.
fn waited<T>(meeting: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let done = spin("syncing", || {
        runtime.block_on(async {
            let stop = Stop::new()?;
            tokio::select! {
                done = meeting => Ok(done),
                () = stop.asked() => Err(Failure::new("interrupted: what was exchanged is kept")),
            }
        })
    });
    runtime.shutdown_background();
    done
}

fn about(args: &SyncArgs, shown: &str, error: Error) -> Failure {
    match error {
        Error::Database(error) if error.to_string().contains(shown) => Failure::new(error),
        Error::Database(error) => open::about(&args.database, &error),
        error => Failure::at(shown, error),
    }
}

/// Tells of a meeting: what moved, what did not.
fn finish(args: &SyncArgs, shown: &str, met: Result<PairReport, Failure>) -> Result<(), Failure> {
    let report = met?;
    match args.format {
        Format::Text => tell(shown, &report),
        Format::Json => out::line(json(&report))?,
    }
    match report.failed.len() {
        0 => Ok(()),
        count => {
            let s = if count == 1 { " was" } else { "s were" };
            Err(Failure::at(shown, format_args!("{count} document{s} not exchanged")))
        }
    }
}

fn tell(shown: &str, report: &PairReport) {
    for document in &report.documents {
        let (name, received, sent) = (&document.name, document.received, document.sent);
        out::note(format_args!("{name}: {received} changes in, {sent} out"));
    }
    for left in &report.left_alone {
        let place = if left.is_ours { "here" } else { "there" };
        out::note(format_args!("{}: {} {place}, left alone", left.name, word(left.why)));
    }
    for copy in &report.copies {
        let (file, name) = (copy.file.display(), &copy.name);
        match copy.brought {
            0 => out::note(format_args!("{file}: {name} has all of it")),
            brought => out::note(format_args!("{file}: {brought} changes of it are in {name} now")),
        }
    }
    for (name, why) in &report.failed {
        out::note(format_args!("{name}: {why}"));
    }
    if report.failed.iter().any(|(_, why)| why.contains("no change in common")) {
        out::note("--unrelated merges documents that were begun apart");
    }
    out::note(format_args!(
        "{shown}: {} documents exchanged, {} the same; {} bytes in, {} out",
        report.documents.len(),
        report.same,
        report.bytes_in,
        report.bytes_out,
    ));
}

fn word(why: Refusal) -> &'static str {
    match why {
        Refusal::Removed => "removed",
        _ => "denied",
    }
}

fn json(report: &PairReport) -> serde_json::Value {
    use serde_json::{Value, json};

    let documents = report
        .documents
        .iter()
        .map(|it| json!({ "name": it.name, "received": it.received, "sent": it.sent }));
    let left_alone = report.left_alone.iter().map(|it| {
        json!({ "name": it.name, "at": if it.is_ours { "here" } else { "there" }, "why": word(it.why) })
    });
    let copies = report.copies.iter().map(
        |it| json!({ "file": it.file.to_string_lossy(), "name": it.name, "brought": it.brought }),
    );
    let failed = report.failed.iter().map(|(name, why)| json!({ "name": name, "why": why }));
    json!({
        "documents": documents.collect::<Vec<Value>>(),
        "same": report.same,
        "left_alone": left_alone.collect::<Vec<Value>>(),
        "copies": copies.collect::<Vec<Value>>(),
        "failed": failed.collect::<Vec<Value>>(),
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
    })
}
