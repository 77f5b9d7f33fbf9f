//! `lab ab`: two commits, built first, measured in turns, every sample in a fresh process.

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::args::AbArguments;
use crate::contenders::{self, Contenders};
use crate::engine::About;
use crate::environment::Environment;
use crate::measure::{Entrant, Plan, measure};
use crate::out;
use crate::random::Random;
use crate::record::{Outcome, RowRecord};
use crate::report::three_digits;
use crate::run::{Scratch, bar, choose, default_cache, default_data, generate};
use crate::statistics::{Interval, detectable, ratio};
use crate::worker::client::Program;
use crate::workload::{Context, Scale};

/// What a comparison came to on one row and contender.
#[derive(Debug, Serialize, Deserialize)]
struct Compared {
    unix: u64,
    row: String,
    contender: String,
    base: String,
    candidate: String,
    seed: u64,
    /// Base over candidate, pair by pair: above 1, the candidate is faster.
    pairs: Vec<f64>,
    interval: Interval,
    /// The smallest change that this run could have seen, as a share.
    detectable: Option<f64>,
    verdict: Verdict,
    environment: Environment,
}

/// What may be said of two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The whole interval is above 1.
    Faster,
    /// The whole interval is below 1.
    Slower,
    /// The interval holds 1.
    NoDifferenceSeen,
}

impl Verdict {
    fn of(interval: &Interval) -> Self {
        if interval.low > 1.0 {
            Self::Faster
        } else if interval.high < 1.0 {
            Self::Slower
        } else {
            Self::NoDifferenceSeen
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceSeen => "no difference that this run can see",
        }
    }
}

/// Builds both, measures, prints, records. False when a row failed.
pub(crate) fn compare(args: &AbArguments, contenders: &Contenders) -> Result<bool, String> {
    let root = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?);
    let base = built(&root, "base", &args.base);
    let candidate = built(&root, "candidate", &args.candidate);
    // Both are built, so that a run names everything that does not build.
    let (base, candidate) = match (base, candidate) {
        (Ok(base), Ok(candidate)) => (base, candidate),
        (base, candidate) => {
            let errors: Vec<String> = [base.err(), candidate.err()].into_iter().flatten().collect();
            return Err(errors.join("\nerror: "));
        }
    };
    let mut right = true;
    let (rows, unknown) = choose(contenders::rows(), &args.filter);
    for filter in unknown {
        right = false;
        out::note(&format!("error: no row matches {filter}"));
    }
    let scratch = Scratch::new()?;
    let cx = context(args, &scratch.0)?;
    generate(&cx, &rows, contenders, args.quick)?;
    let mut entrants = entrants(&base, "base", args)?;
    entrants.extend(self::entrants(&candidate, "candidate", args)?);
    let plan = Plan {
        rounds: args.pairs.max(1),
        cold: 1,
        budget: Duration::from_secs(3600),
        patience: Duration::from_secs(300),
        rest: Duration::from_secs(args.rest),
        fresh: true,
    };
    out::note(&format!("seed {}", cx.seed));
    let mut random = Random::new(cx.seed);
    let mut results = Vec::new();
    let bar = bar(rows.len() as u64, "{wide_bar} {pos}/{len} {msg} {elapsed}");
    for row in rows.iter().filter(|row| entrants.iter().any(|one| one.family == row.family)) {
        let record = measure(row, &entrants, &plan, &cx, &mut random, &mut |who| {
            bar.set_message(format!("{} {who}", row.id));
        });
        right &= !record.has_failed();
        bar.suspend(|| report(&record, &base, &candidate, &cx, &mut results));
        bar.inc(1);
    }
    bar.finish_and_clear();
    append(args, &root, &results)?;
    Ok(right)
}

/// A commit's lab, built in a worktree of its own.
struct Built {
    commit: String,
    program: Program,
}

fn built(root: &Path, role: &str, revision: &str) -> Result<Built, String> {
    let commit = git(root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
        .map_err(|error| format!("{role} {revision}: {error}"))?;
    let short: String = commit.chars().take(12).collect();
    let worktrees = std::env::temp_dir().join("shoal-lab-worktrees");
    let folder = worktrees.join(&short);
    if !folder.is_dir() {
        git(root, &["worktree", "prune"])?;
        git(root, &["worktree", "add", "--detach", &folder.to_string_lossy(), &commit])
            .map_err(|error| format!("{role} {revision}: {error}"))?;
    }
    out::note(&format!("building {role} {short}"));
    // One folder of builds for all commits: what they have in common is built once.
    let target = worktrees.join("target");
    let output = Command::new("cargo")
        .args(["build", "--profile", "lab", "--locked", "-p", "shoal-lab"])
        // For revisions from before the manifest had this profile.
        .args(["--config", "profile.lab.inherits=\"release\""])
        .args(["--config", "profile.lab.debug=\"line-tables-only\""])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = complaint.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        return Err(format!("{role} {revision} does not build:\n{}", tail.join("\n")));
    }
    let path = worktrees.join(format!("shoal-lab-{short}"));
    std::fs::copy(target.join("lab").join("shoal-lab"), &path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Built { commit: short, program: Program { path, prefix: Vec::new() } })
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("git cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn context(args: &AbArguments, scratch: &Path) -> Result<Context, String> {
    let cache = default_cache();
    std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let seed = args.seed.unwrap_or_else(now);
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    Ok(Context { scale, data: default_data(), scratch: scratch.to_path_buf(), cache, seed })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn entrants(built: &Built, label: &str, args: &AbArguments) -> Result<Vec<Entrant>, String> {
    let listed = built.program.contenders().map_err(|miss| format!("{} {miss}", built.commit))?;
    Ok(listed
        .into_iter()
        .filter(|(_, about, _)| args.contender.iter().any(|name| about.name.starts_with(name)))
        .map(|(family, about, absence)| Entrant {
            family,
            name: about.name.clone(),
            about: About { name: format!("{}@{label}", about.name), ..about },
            program: built.program.clone(),
            absence,
        })
        .collect())
}

fn report(
    record: &RowRecord,
    base: &Built,
    candidate: &Built,
    cx: &Context,
    results: &mut Vec<Compared>,
) {
    for outcome in &record.outcomes {
        let Some(contender) = outcome.contender.strip_suffix("@base") else { continue };
        let after = record.outcome(&format!("{contender}@candidate"));
        let missed = |outcome: &Outcome, of: &Built| {
            let miss = outcome.miss.as_ref()?;
            Some(format!("{} {contender} at {}: {miss}", record.row.id, of.commit))
        };
        let Some(after) = after else {
            out::line(&format!("{} {contender}: only in the base", record.row.id));
            continue;
        };
        if let Some(line) = missed(outcome, base).or_else(|| missed(after, candidate)) {
            out::line(&line);
            continue;
        }
        let (before, after) = (outcome.values(record.row.memory), after.values(record.row.memory));
        let Some(interval) = ratio(&before, &after, cx.seed) else { continue };
        let pairs: Vec<f64> =
            before.iter().zip(&after).map(|(before, after)| before / after).collect();
        let compared = Compared {
            unix: now(),
            row: record.row.id.clone(),
            contender: contender.to_owned(),
            base: base.commit.clone(),
            candidate: candidate.commit.clone(),
            seed: cx.seed,
            detectable: detectable(&pairs),
            verdict: Verdict::of(&interval),
            pairs,
            interval,
            environment: Environment::probe(),
        };
        for line in lines(&compared).lines() {
            out::line(line);
        }
        results.push(compared);
    }
}

fn lines(compared: &Compared) -> String {
    let mut text = String::new();
    let pairs: Vec<String> = compared.pairs.iter().map(|pair| format!("{pair:.3}")).collect();
    let _ = writeln!(
        text,
        "{} {} {} -> {}\n  pairs {}",
        compared.row,
        compared.contender,
        compared.base,
        compared.candidate,
        pairs.join(" ")
    );
    let seen = compared.detectable.map_or_else(
        || "too few pairs to tell what this run could have seen".into(),
        |share| format!("smallest change it could have seen {} %", three_digits(share * 100.0)),
    );
    let _ = writeln!(
        text,
        "  x{:.3} [{:.3} {:.3}]: {}; {seen}",
        compared.interval.middle,
        compared.interval.low,
        compared.interval.high,
        compared.verdict.text()
    );
    text
}

/// One line of JSON a result, at the end of `ab.jsonl`.
fn append(args: &AbArguments, root: &Path, results: &[Compared]) -> Result<(), String> {
    if results.is_empty() || args.quick {
        return Ok(());
    }
    let folder = args.records.clone().unwrap_or_else(|| root.join("lab/records"));
    let path = folder.join("ab.jsonl");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    for result in results {
        let json = serde_json::to_string(result).expect("a result holds plain data");
        writeln!(file, "{json}").map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let of = |low, high| Verdict::of(&Interval { middle: 1.0, low, high });
        assert_eq!(of(1.01, 1.2), Verdict::Faster);
        assert_eq!(of(0.8, 0.99), Verdict::Slower);
        assert_eq!(of(0.99, 1.2), Verdict::NoDifferenceSeen);
    }
}
