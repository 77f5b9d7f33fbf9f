//! Any definitions and statements on a small file of documents, and tables written by a stranger:
//! the fuzz targets, for a moment. `SHOAL_ANY_SECONDS` and `SHOAL_ANY_SEED` choose longer runs.

#[path = "../../../fuzz/src/documents.rs"]
#[allow(unreachable_pub)] // Public in the crate of the fuzz targets.
mod documents;

use std::time::{Duration, Instant};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Seeds, and texts made of their parts.
fn for_a_while(seeds: &str, run: impl Fn(&str)) {
    let lines: Vec<&str> = seeds.lines().collect();
    lines.iter().for_each(|line| run(line));
    let statements: Vec<&str> = lines.iter().flat_map(|line| line.split(';')).collect();
    let words: Vec<&str> = seeds.split_inclusive([' ', '\n', ',', '(', ')']).collect();
    let mut state = number("SHOAL_ANY_SEED", 1);
    let mut below = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    let until = Instant::now() + Duration::from_secs(number("SHOAL_ANY_SECONDS", 3));
    while Instant::now() < until {
        let mut script = String::new();
        for _ in 0..=below(4) {
            let mut statement: Vec<&str> =
                statements[below(statements.len())].split_inclusive([' ', ',', '(', ')']).collect();
            for _ in 0..below(3) {
                let at = below(statement.len());
                match below(3) {
                    0 => drop(statement.remove(at)),
                    1 => statement[at] = words[below(words.len())],
                    _ => statement.insert(at, words[below(words.len())]),
                }
                if statement.is_empty() {
                    break;
                }
            }
            script.push_str(&statement.concat());
            script.push(';');
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&script)));
        assert!(result.is_ok(), "after: {script}");
    }
}

#[test]
fn projections_are_what_they_are_made_anew() {
    let seeds = include_str!("../../../fuzz/seeds/shoal_projection.txt");
    for_a_while(seeds, documents::any_statements);
}

#[test]
fn tables_of_a_stranger_are_values_or_errors() {
    let seeds = include_str!("../../../fuzz/seeds/shoal_strangers.txt");
    for_a_while(seeds, documents::strangers);
}
