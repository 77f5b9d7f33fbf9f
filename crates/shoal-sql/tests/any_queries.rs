//! Queries of every kind over tables of every kind, made from a seed like the input of the fuzz
//! target `sql_plans_differential`: Shoal's rows are SQLite's, whatever the plan, with a statement
//! run again, with next to no memory, and with choices of the planner made in its place.
//!
//! `SHOAL_SQL_SEED` is the first seed, `SHOAL_SQL_SECONDS` the time to go on (by default a moment),
//! `SHOAL_SQL_FINDINGS` the number of findings to gather (one). Each finding is made small and
//! printed as a script and a query. Each query is asked with one combination of choices, with every
//! one where `SHOAL_SQL_CHOICES` is `all`.
#![allow(clippy::unwrap_used, clippy::print_stderr, unreachable_pub)]

// The fuzz targets' own parts: the targets keep building with the crates under test.
#[path = "../../../fuzz/src/peers.rs"]
mod peers;
#[path = "../../../fuzz/src/query/mod.rs"]
mod query;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use peers::{Peers, Verdict, all_choices};
use shoal_sql::Forced;

/// The first seed, unless one is given.
const SEED: u64 = 1;
/// Seeds of a run without a time.
const SEEDS: u64 = 25;
/// Queries asked of the tables of one seed.
const QUERIES: u64 = 40;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Asks both; a panic is a difference, too.
fn ask(peers: &mut Peers, query: &query::Query, forced: &[Forced]) -> Verdict {
    let asked = catch_unwind(AssertUnwindSafe(|| peers.ask(query, forced)));
    asked.unwrap_or_else(|_| Verdict::Differ("a panic".to_owned()))
}

/// The difference of the answers, if there is one.
fn difference(script: &str, choices: &[u8], forced: &[Forced]) -> Option<String> {
    match ask(&mut Peers::new(script), &query::query(choices), forced) {
        Verdict::Differ(how) => Some(how),
        _ => None,
    }
}

/// The shortest choices and script found with a difference left.
fn shrink(script: &str, choices: &[u8], forced: &[Forced]) -> (String, Vec<u8>) {
    let (mut script, mut choices) = (script.to_owned(), choices.to_vec());
    let end = Instant::now() + Duration::from_secs(10);
    let mut chunk = 256;
    while chunk > 0 && Instant::now() < end {
        let mut at = 0;
        let mut gained = false;
        while at < choices.len() && Instant::now() < end {
            let until = (at + chunk).min(choices.len());
            let mut shorter = choices.clone();
            shorter.drain(at..until);
            let mut zeroed = choices.clone();
            zeroed[at..until].fill(0);
            if difference(&script, &shorter, forced).is_some() {
                (choices, gained) = (shorter, true);
            } else if zeroed != choices && difference(&script, &zeroed, forced).is_some() {
                (choices, gained) = (zeroed, true);
                at = until;
            } else {
                at = until;
            }
        }
        if !gained || chunk > 1 {
            chunk /= 2;
        }
    }
    let mut at = 0;
    while at < script.lines().count() && Instant::now() < end {
        let lines: Vec<&str> = script
            .lines()
            .enumerate()
            .filter(|(place, _)| *place != at)
            .map(|(_, line)| line)
            .collect();
        let shorter = lines.join("\n");
        match difference(&shorter, &choices, forced).is_some() {
            true => script = shorter,
            false => at += 1,
        }
    }
    (script, choices)
}

#[test]
fn any_queries() {
    let first = setting("SHOAL_SQL_SEED").unwrap_or(SEED);
    let time = setting("SHOAL_SQL_SECONDS").map(Duration::from_secs);
    let findings_max = setting("SHOAL_SQL_FINDINGS").unwrap_or(1);
    let combinations = all_choices();
    let every_choice = std::env::var("SHOAL_SQL_CHOICES").is_ok_and(|which| which == "all");
    eprintln!("{} combinations of choices", combinations.len());
    let start = Instant::now();
    let mut findings = Vec::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first.. {
        let goes_on = match time {
            Some(time) => start.elapsed() < time,
            None => seed < first + SEEDS,
        };
        if !goes_on || findings.len() as u64 >= findings_max {
            break;
        }
        let script = query::schema(&query::bytes_of(seed, 600));
        let mut peers = Peers::new(&script);
        for number in 0..QUERIES {
            let choices = query::bytes_of(seed << 16 | number, 300);
            let query = query::query(&choices);
            // One combination for each query, far from its neighbour's.
            let one = (seed * QUERIES + number) as usize * 331 % combinations.len();
            let forced = match every_choice {
                true => &combinations[..],
                false => &combinations[one..=one],
            };
            let verdict = match ask(&mut peers, &query, forced) {
                Verdict::Same { in_little: true } => "same".to_owned(),
                Verdict::Same { in_little: false } => "same, but for little memory".to_owned(),
                Verdict::Refused => "refused by both".to_owned(),
                Verdict::Open => "not told".to_owned(),
                Verdict::Unsupported(what) => format!("not supported: {what}"),
                Verdict::Differ(how) => {
                    peers = Peers::new(&script);
                    let (script, choices) = shrink(&script, &choices, forced);
                    let small = query::query(&choices);
                    let how = difference(&script, &choices, forced).unwrap_or(how);
                    let finding = format!(
                        "-- SHOAL_SQL_SEED={seed}, query {number}\n{script}\n{};\n-- {:?}\n{how}\n",
                        small.sql, small.parameters
                    );
                    eprintln!("{finding}");
                    findings.push(finding);
                    "different".to_owned()
                }
            };
            *counts.entry(verdict).or_default() += 1;
        }
    }
    eprintln!("{counts:#?}");
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    let same = counts.get("same").copied().unwrap_or(0);
    let all: u64 = counts.values().sum();
    assert!(same > all / 2, "most queries are answered by both: {counts:#?}");
}
