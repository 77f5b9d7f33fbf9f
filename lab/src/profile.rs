//! `lab profile`: one row, the measured region only, under a profiler.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use crate::args::{ProfileArguments, Profiler};
use crate::contenders::{self, Contenders};
use crate::out;
use crate::run::{Scratch, default_cache, default_data, this_program};
use crate::worker::serve::once;
use crate::workload::{Context, Scale};

/// Runs the row under the profiler and prints the top functions.
pub(crate) fn profile(
    args: &ProfileArguments,
    prefix: &[OsString],
    contenders: &Contenders,
) -> Result<bool, String> {
    let row = contenders::rows()
        .into_iter()
        .find(|row| row.id == args.row)
        .ok_or_else(|| format!("no row is called {}", args.row))?;
    let contender = contenders
        .all
        .iter()
        .find(|one| one.family == row.family && one.about.name == args.contender)
        .ok_or_else(|| {
            format!("no contender of {} is called {}", row.family.title(), args.contender)
        })?;
    let scratch = Scratch::new()?;
    if args.once {
        let scale = if args.quick { Scale::Quick } else { Scale::Full };
        let cx = Context {
            scale,
            data: default_data(),
            scratch: scratch.0.clone(),
            cache: default_cache(),
            seed: 1,
        };
        return once(contender, &row.id, &cx).map(|()| true).map_err(|miss| miss.to_string());
    }
    let report = match args.with {
        Profiler::Callgrind => callgrind(args, prefix, &scratch)?,
        Profiler::Perf => perf(args, prefix, &scratch)?,
    };
    for line in report {
        out::line(&line);
    }
    Ok(true)
}

/// This program's own command line for one run of the row.
fn command_line(args: &ProfileArguments, prefix: &[OsString]) -> Result<Vec<OsString>, String> {
    let program = this_program(prefix)?;
    let mut line = vec![program.path.into_os_string()];
    line.extend(program.prefix);
    line.extend(["profile", &args.row, "--contender", &args.contender, "--once"].map(Into::into));
    if args.quick {
        line.push("--quick".into());
    }
    Ok(line)
}

fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = complaint.lines().rev().take(4).collect();
    Err(format!("{name}: {}", tail.into_iter().rev().collect::<Vec<_>>().join("\n")))
}

/// Instruction counts of what the watch times, callees included. Repeatable to a few
/// instructions, unlike any time.
fn callgrind(
    args: &ProfileArguments,
    prefix: &[OsString],
    scratch: &Scratch,
) -> Result<Vec<String>, String> {
    let file = scratch.0.join("callgrind.out");
    let mut collect = OsString::from("--callgrind-out-file=");
    collect.push(&file);
    run(Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*lab_measured_region*")
        .arg(collect)
        .args(command_line(args, prefix)?))?;
    let report =
        run(Command::new("callgrind_annotate").args(["--auto=no", "--threshold=99.9"]).arg(&file))?;
    let functions = by_function(&report);
    let total: u64 = functions.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Err("callgrind saw nothing of the measured region: a build without symbols? \
                    `cargo run --profile lab -p shoal-lab -- profile ...` has them"
            .into());
    }
    let mut lines = vec![format!("{total:>15}  instructions in the measured region")];
    lines.extend(functions.into_iter().take(args.top).map(|(name, count)| {
        format!("{count:>15}  {:5.2} %  {name}", count as f64 * 100.0 / total as f64)
    }));
    Ok(lines)
}

/// The report's counts, summed over the source files that a function's instructions come from
/// (what was inlined into it is a file of its own there), most first.
fn by_function(report: &str) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in report.lines() {
        // `1,234 (5.6%)  path:function [object]`
        let Some((count, rest)) = line.trim_start().split_once(' ') else { continue };
        let Ok(count) = count.replace(',', "").parse::<u64>() else { continue };
        let Some((_, place)) = rest.split_once(")  ") else { continue };
        if place.starts_with("PROGRAM TOTALS") {
            continue;
        }
        let place = place.split(" [").next().unwrap_or(place);
        // The path ends at the first single colon; a function's own are double.
        let name = place
            .char_indices()
            .find(|&(at, letter)| letter == ':' && !place[at + 1..].starts_with(':'))
            .map_or(place, |(at, _)| &place[at + 1..]);
        *sums.entry(name.chars().take(140).collect()).or_default() += count;
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums
}

/// Samples of the whole process, set-up included.
fn perf(
    args: &ProfileArguments,
    prefix: &[OsString],
    scratch: &Scratch,
) -> Result<Vec<String>, String> {
    let file = scratch.0.join("perf.data");
    run(Command::new("perf")
        .args(["record", "--quiet", "-F", "997", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .arg("--")
        .args(command_line(args, prefix)?))?;
    let report = run(Command::new("perf")
        .args(["report", "--stdio", "--no-children", "--percent-limit", "0.3", "-i"])
        .arg(&file))?;
    Ok(report
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains('%'))
        .take(args.top)
        .map(short)
        .collect())
}

/// A line without the path of the object file, which is the same for all.
fn short(line: &str) -> String {
    let line = line.split(" [/").next().unwrap_or(line);
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_by_function_whatever_file_was_inlined() {
        let report = "Ir\n1,000 (100.0%)  PROGRAM TOTALS\n\
                      600 (60.0%)  a/b.rs:crate::one [/bin/x]\n\
                      100 (10.0%)  ???:crate::two\n\
                      300 (30.0%)  /rustc/core.rs:crate::one [/bin/x]\n";
        let expect = [("crate::one".to_owned(), 900), ("crate::two".to_owned(), 100)];
        assert_eq!(by_function(report), expect);
    }
}
