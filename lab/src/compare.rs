//! `lab ab`: two builds, of two commits or of one commit with other flags, measured in turns, every
//! sample in a fresh process.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::answer::Digest;
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

/// A run of `ab`, as written to a record.
#[derive(Debug, Serialize, Deserialize)]
struct Comparison {
    /// Seconds since 1970.
    unix: u64,
    command: String,
    base: Way,
    candidate: Way,
    seed: u64,
    environment: Environment,
    results: Vec<Compared>,
}

/// How one of the two was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Way {
    commit: String,
    /// Flags of rustc.
    flags: String,
    /// Settings of cargo.
    config: Vec<String>,
}

impl Way {
    /// A name for folders and lines: the commit, and a number for flags and settings.
    fn name(&self) -> String {
        if self.flags.is_empty() && self.config.is_empty() {
            return self.commit.clone();
        }
        format!("{}-{}", self.commit, self.settings())
    }

    /// A number telling choices of flags and settings apart.
    fn settings(&self) -> String {
        let settings = self
            .config
            .iter()
            .fold(Digest::new().text(&self.flags), |digest, one| digest.text(one));
        format!("{:08x}", settings.value() as u32)
    }
}

/// A comparison's result on one row and contender.
#[derive(Debug, Serialize, Deserialize)]
struct Compared {
    row: String,
    contender: String,
    /// Base over candidate, pair by pair: above 1, the candidate is faster.
    pairs: Vec<f64>,
    interval: Interval,
    /// The smallest change detectable by this run, as a share.
    detectable: Option<f64>,
    verdict: Verdict,
}

/// The conclusion the interval allows about two builds.
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
    let way = |revision: &str, flags: &str, config: &[String]| Way {
        commit: revision.to_owned(),
        flags: flags.to_owned(),
        config: config.to_vec(),
    };
    let base = built(&root, "base", way(&args.base, &args.base_flags, &args.base_config));
    let candidate = built(
        &root,
        "candidate",
        way(&args.candidate, &args.candidate_flags, &args.candidate_config),
    );
    // Both are built before any error is returned, so one run names everything that does not build.
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
    let comparison = Comparison {
        unix: now(),
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        base: base.way,
        candidate: candidate.way,
        seed: cx.seed,
        environment: Environment::probe(),
        results,
    };
    keep(args, &root, &comparison)?;
    Ok(right)
}

/// A commit's lab, built in a worktree of its own.
struct Built {
    way: Way,
    program: Program,
}

/// Builds the commit given by `way` as any revision.
fn built(root: &Path, role: &str, way: Way) -> Result<Built, String> {
    let revision = way.commit;
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
    let way = Way { commit: short, ..way };
    out::note(&format!("building {role} {}", way.name()));
    // One folder of builds for all commits, and one for each choice of flags: dependencies common
    // to two commits are built once.
    let target = if way.flags.is_empty() && way.config.is_empty() {
        worktrees.join("target")
    } else {
        worktrees.join(format!("target-{}", way.settings()))
    };
    let mut command = Command::new("cargo");
    if !way.flags.is_empty() {
        command.env("RUSTFLAGS", &way.flags);
    }
    let output = command
        .args(["build", "--profile", "lab", "--locked", "-p", "shoal-lab"])
        // For revisions from before the manifest had this profile.
        .args(["--config", "profile.lab.inherits=\"release\""])
        .args(["--config", "profile.lab.debug=\"line-tables-only\""])
        .args(way.config.iter().flat_map(|one| ["--config", one.as_str()]))
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
    let path = worktrees.join(format!("shoal-lab-{}", way.name()));
    std::fs::copy(target.join("lab").join("shoal-lab"), &path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Built { way, program: Program { path, prefix: Vec::new() } })
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
    let listed =
        built.program.contenders().map_err(|miss| format!("{} {miss}", built.way.name()))?;
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
            Some(format!("{} {contender} at {}: {miss}", record.row.id, of.way.name()))
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
            row: record.row.id.clone(),
            contender: contender.to_owned(),
            detectable: detectable(&pairs),
            verdict: Verdict::of(&interval),
            pairs,
            interval,
        };
        for line in lines(&compared, &base.way, &candidate.way).lines() {
            out::line(line);
        }
        results.push(compared);
    }
}

fn lines(compared: &Compared, base: &Way, candidate: &Way) -> String {
    let mut text = String::new();
    let pairs: Vec<String> = compared.pairs.iter().map(|pair| format!("{pair:.3}")).collect();
    let _ = writeln!(
        text,
        "{} {} {} -> {}\n  pairs {}",
        compared.row,
        compared.contender,
        base.name(),
        candidate.name(),
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

/// Writes the comparison as a file of its own, under the machine's name, to be cited by the
/// journal.
fn keep(args: &AbArguments, root: &Path, comparison: &Comparison) -> Result<(), String> {
    let nowhere = args.records.as_deref() == Some(Path::new("none"));
    if comparison.results.is_empty() || args.quick || nowhere {
        return Ok(());
    }
    let folder = args.records.clone().unwrap_or_else(|| root.join("lab/records"));
    let folder = folder.join(comparison.environment.machine()).join("ab");
    let name = format!(
        "{}-{}-{}.json",
        date(comparison.unix),
        comparison.base.name(),
        comparison.candidate.name()
    );
    let path = folder.join(name);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let json = serde_json::to_string_pretty(comparison).expect("a comparison holds plain data");
    std::fs::write(&path, json + "\n").map_err(failed)?;
    out::note(&format!("kept as {}", path.display()));
    Ok(())
}

/// The day of a time in seconds since 1970, in UTC: `2026-11-23`.
fn date(unix: u64) -> String {
    // Days since 1 March of the year 0; a year then ends with its leap day.
    let days = unix / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn seconds_are_days() {
        for (unix, expect) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_795_392_000, "2026-11-23"),
        ] {
            assert_eq!(date(unix), expect);
        }
    }

    #[test]
    fn builds_of_one_commit_have_names_of_their_own() {
        let plain = Way { commit: "abc".into(), ..Way::default() };
        let native = Way { flags: "-C target-cpu=native".into(), ..plain.clone() };
        let fat = Way { config: vec!["profile.lab.lto=\"fat\"".into()], ..plain.clone() };
        assert_eq!(plain.name(), "abc");
        assert!(native.name() != fat.name() && native.name().starts_with("abc-"));
    }

    #[test]
    fn a_comparison_is_kept_under_its_machine_and_read_again() {
        let folder = std::env::temp_dir().join(format!("shoal-lab-ab-{}", std::process::id()));
        let environment = Environment {
            cpu: "AMD EPYC (family 26, model 2)".into(),
            cores: 2,
            ..Environment::default()
        };
        let comparison = Comparison {
            unix: 1_795_392_000,
            command: "ab".into(),
            base: Way { commit: "a".into(), ..Way::default() },
            candidate: Way { commit: "b".into(), ..Way::default() },
            seed: 1,
            environment,
            results: vec![Compared {
                row: "table/scan_id".into(),
                contender: "shoal".into(),
                pairs: vec![1.0],
                interval: Interval { middle: 1.0, low: 1.0, high: 1.0 },
                detectable: None,
                verdict: Verdict::NoDifferenceSeen,
            }],
        };
        let arguments = ["lab", "--base", "a", "--candidate", "b", "--records"];
        let line = crate::args::Arguments::try_parse_from(
            ["lab", "ab"]
                .into_iter()
                .chain(arguments.into_iter().skip(1))
                .chain([folder.to_str().unwrap()]),
        )
        .unwrap();
        let Some(crate::args::Verb::Ab(args)) = line.command else { panic!("ab is a verb") };
        keep(&args, Path::new("/"), &comparison).unwrap();
        let path = folder.join("zen5-2-cores/ab/2026-11-23-a-b.json");
        let text = std::fs::read_to_string(path).unwrap();
        let again: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!(again.results[0].row, "table/scan_id");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let of = |low, high| Verdict::of(&Interval { middle: 1.0, low, high });
        assert_eq!(of(1.01, 1.2), Verdict::Faster);
        assert_eq!(of(0.8, 0.99), Verdict::Slower);
        assert_eq!(of(0.99, 1.2), Verdict::NoDifferenceSeen);
    }
}
