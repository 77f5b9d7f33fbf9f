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
    if let Some(path) = &args.flame {
        flame(args, prefix, &scratch, path)?;
        out::note(&format!("the flame graph is in {}", path.display()));
        return Ok(true);
    }
    let report = match args.with {
        Profiler::Callgrind => callgrind(args, prefix, &scratch)?,
        Profiler::Perf => perf(args, prefix, &scratch)?,
        Profiler::Stat => stat(args, prefix)?,
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

/// Instruction counts of the region timed by the watch, callees included. Repeatable to a few
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
    if args.graph {
        return run(Command::new("callgrind_annotate")
            .args(["--auto=no", "--inclusive=yes", "--tree=both", "--threshold=99"])
            .arg(&file))
        .map(|report| graph(&report, args.top));
    }
    let mut lines = vec![format!("{total:>15}  instructions in the measured region")];
    lines.extend(functions.into_iter().take(args.top).map(|(name, count)| {
        format!("{count:>15}  {:5.2} %  {name}", count as f64 * 100.0 / total as f64)
    }));
    Ok(lines)
}

/// The report's counts, summed over the source files of a function's instructions (callgrind counts
/// inlined code under the file of its source), most first.
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

/// The blocks of a call tree from the measured region on: callers (`<`), the function (`*`),
/// callees (`>`), each with its instructions, callees included.
fn graph(report: &str, top: usize) -> Vec<String> {
    let sign = |line: &str| -> Option<char> {
        let (_, rest) = line.split_once(")  ")?;
        rest.trim_start().chars().next().filter(|sign| "<*>".contains(*sign))
    };
    let blocks: Vec<Vec<&str>> = report
        .split("\n\n")
        .map(|block| block.lines().filter(|line| sign(line).is_some()).collect())
        .filter(|block: &Vec<&str>| !block.is_empty())
        .collect();
    let measured = |line: &&str| sign(line) == Some('*') && line.contains("lab_measured_region");
    let first = blocks.iter().position(|block| block.iter().any(measured)).unwrap_or(0);
    blocks
        .iter()
        .skip(first)
        .take(top)
        .flatten()
        .map(|line| line.split(" [").next().unwrap_or(line).chars().take(160).collect())
        .collect()
}

/// Samples with their stacks, as a flame graph. Stacks are found by the unwind tables (the build
/// has no frame pointers), so a build with lines is needed: the profile `lab`.
#[cfg(feature = "workshop")]
fn flame(
    args: &ProfileArguments,
    prefix: &[OsString],
    scratch: &Scratch,
    path: &std::path::Path,
) -> Result<(), String> {
    use inferno::collapse::Collapse;
    use inferno::collapse::perf::Folder;
    let data = scratch.0.join("perf.data");
    run(Command::new("perf")
        .args(["record", "--quiet", "-F", "997", "-e", "cpu-clock", "--call-graph", "dwarf", "-o"])
        .arg(&data)
        .arg("--")
        .args(command_line(args, prefix)?))?;
    let script = run(Command::new("perf").args(["script", "-i"]).arg(&data))?;
    let mut folded = Vec::new();
    Folder::default()
        .collapse(script.as_bytes(), &mut folded)
        .map_err(|error| format!("the stacks cannot be read: {error}"))?;
    let mut options = inferno::flamegraph::Options::default();
    options.title = format!("{} {}", args.row, args.contender);
    let failed = |error: String| format!("{}: {error}", path.display());
    let file = std::fs::File::create(path).map_err(|error| failed(error.to_string()))?;
    inferno::flamegraph::from_reader(&mut options, folded.as_slice(), file)
        .map_err(|error| failed(error.to_string()))
}

#[cfg(not(feature = "workshop"))]
fn flame(
    _args: &ProfileArguments,
    _prefix: &[OsString],
    _scratch: &Scratch,
    _path: &std::path::Path,
) -> Result<(), String> {
    Err("this build draws no flame graphs: run the lab of a checkout".into())
}

/// The processor's own counters over the whole process, set-up included.
fn stat(args: &ProfileArguments, prefix: &[OsString]) -> Result<Vec<String>, String> {
    let output = Command::new("perf")
        .args(["stat", "-x", ";", "-e", &COUNTERS.join(","), "--"])
        .args(command_line(args, prefix)?)
        .output()
        .map_err(|error| format!("perf cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("perf: {}", text.lines().last().unwrap_or_default()));
    }
    Ok(counters(&text))
}

/// The counters for `perf stat`, in pairs of a part and its whole where there is one.
const COUNTERS: [&str; 10] = [
    "instructions",
    "cycles",
    "branch-misses",
    "branches",
    "cache-misses",
    "cache-references",
    "L1-dcache-load-misses",
    "L1-dcache-loads",
    "dTLB-load-misses",
    "dTLB-loads",
];

/// The counts of `perf stat -x ;`, shares of pairs, and the names of counters missing here.
fn counters(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for line in text.lines() {
        // `value;unit;event;...`; the event may end in `:u`.
        let mut fields = line.split(';');
        let (Some(value), Some(_), Some(event)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let event = event.split(':').next().unwrap_or(event);
        let known = COUNTERS.iter().find(|counter| **counter == event);
        if let (Some(counter), Ok(value)) = (known, value.parse()) {
            counts.insert(counter, value);
        }
    }
    let mut lines = Vec::new();
    for pair in COUNTERS.chunks(2) {
        let [Some(&over), Some(&under)] = [counts.get(pair[0]), counts.get(pair[1])] else {
            continue;
        };
        let of = over / under.max(1.0);
        lines.push(if pair[0] == "instructions" {
            format!("{over:>15.0}  instructions, {of:.2} per cycle")
        } else {
            format!("{over:>15.0}  {}, {:.2} % of {}", pair[0], of * 100.0, pair[1])
        });
    }
    let missing: Vec<&str> =
        COUNTERS.into_iter().filter(|counter| !counts.contains_key(counter)).collect();
    if !missing.is_empty() {
        lines.push(format!("this machine does not show: {}", missing.join(", ")));
    }
    lines
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

/// A line without the path of the object file, the same for all lines.
fn short(line: &str) -> String {
    let line = line.split(" [/").next().unwrap_or(line);
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_the_machine_does_not_show_are_named() {
        let text = "3000;;instructions:u;1;100.00;;\n1000;;cycles:u;1;100.00;;\n\
                    <not supported>;;dTLB-loads;0;100.00;;\n";
        let lines = counters(text);
        assert_eq!(lines[0].trim(), "3000  instructions, 3.00 per cycle");
        assert!(lines[1].contains("does not show: branch-misses, branches"), "{lines:?}");
        assert!(lines[1].ends_with("dTLB-load-misses, dTLB-loads"), "{lines:?}");
    }

    #[test]
    fn a_graph_begins_at_the_measured_region() {
        let report = "Ir\n\n10 (100.0%)  * a.rs:main [/x]\n\n\
                      9 (90.0%)  < a.rs:caller (1x) [/x]\n9 (90.0%)  * a.rs:lab_measured_region\n\
                      3 (30.0%)  >   a.rs:callee (2x) [/x]\n\n5 (5.0%)  * a.rs:two [/x]\n";
        let lines = graph(report, 1);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("caller") && lines[2].ends_with("callee (2x)"));
    }

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
