//! Comments name their subjects: shares per crate, held in `comments.txt` beside this file.
//!
//! The measure, of every `.rs` file of a crate, tests included:
//!
//! - A comment line is a line whose first characters are `//` (so `///` and `//!` too).
//! - A comment line leans if one of the whole words *that, what, which, it, those* is in the line,
//!   in any case.
//! - A doc block is a run of neighbouring `///` lines, or of `//!` lines. A block is open-ended if
//!   the first word is `Whether`, `What` or `Of`.
//! - A comment line is wide above 100 columns, counted in characters from the margin.
//!
//! Shares are whole percents, rounded up. The numbers of the table may only fall: a number above
//! the table fails, a number a point or more below is told on stderr, for lowering the table. A
//! crate without a row is held to [`GOAL`].

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const LEANING: [&str; 5] = ["that", "what", "which", "it", "those"];

const OPENINGS: [&str; 3] = ["Whether", "What", "Of"];

const WIDTH: usize = 100;

/// The numbers of a crate that needs no row.
const GOAL: Numbers = Numbers { leaning: 25, openings: 5, wide: 0 };

/// The counts of one crate.
#[derive(Default)]
struct Counts {
    lines: usize,
    leaning: usize,
    blocks: usize,
    openings: usize,
    wide: Vec<String>,
}

/// The three numbers of a crate in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Numbers {
    leaning: usize,
    openings: usize,
    wide: usize,
}

impl Counts {
    fn numbers(&self) -> Numbers {
        let percent = |part: usize, all: usize| (part * 100).div_ceil(all.max(1));
        Numbers {
            leaning: percent(self.leaning, self.lines),
            openings: percent(self.openings, self.blocks),
            wide: self.wide.len(),
        }
    }

    /// Adds a source file called `name`.
    fn add(&mut self, name: &str, source: &str) {
        let mut block = "";
        for (number, line) in (1..).zip(source.lines()) {
            let text = line.trim_start();
            let Some(marked) = text.strip_prefix("//") else {
                block = "";
                continue;
            };
            let (mark, text) = match marked.as_bytes().first() {
                Some(b'/') => ("///", &marked[1..]),
                Some(b'!') => ("//!", &marked[1..]),
                _ => ("", marked),
            };
            self.lines += 1;
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let leans =
                words.any(|word| LEANING.iter().any(|lean| word.eq_ignore_ascii_case(lean)));
            self.leaning += usize::from(leans);
            if !mark.is_empty() && mark != block {
                self.blocks += 1;
                let first = text.trim_start().split(|c: char| !c.is_alphanumeric()).next();
                self.openings += usize::from(first.is_some_and(|word| OPENINGS.contains(&word)));
            }
            block = mark;
            if line.chars().count() > WIDTH {
                self.wide.push(format!("{name}:{number}"));
            }
        }
    }
}

#[test]
fn comments_lean_no_more_than_they_did() {
    let table = table();
    let folders = crates();
    let stale: Vec<&String> = table.keys().filter(|name| !folders.contains_key(*name)).collect();
    assert!(stale.is_empty(), "rows of comments.txt without a crate: {stale:?}");
    let (mut risen, mut fallen) = (Vec::new(), Vec::new());
    for (name, folder) in &folders {
        let mut counts = Counts::default();
        for file in sources(folder) {
            let text = fs::read_to_string(&file).expect("a source file is UTF-8");
            let shown = file.strip_prefix(crate::root()).unwrap_or(&file);
            counts.add(&shown.display().to_string(), &text);
        }
        let now = counts.numbers();
        let held = table.get(name).copied().unwrap_or(GOAL);
        let told = format!("{name} {} {} {}", now.leaning, now.openings, now.wide);
        if now.leaning > held.leaning || now.openings > held.openings {
            risen.push(format!("{told}: more comments lean, or open with Whether, What or Of"));
        }
        if now.wide > held.wide {
            risen.push(format!("{told}: wider than {WIDTH} columns: {}", counts.wide.join(" ")));
        }
        let has_fallen =
            now.leaning < held.leaning || now.openings < held.openings || now.wide < held.wide;
        if has_fallen && table.contains_key(name) {
            fallen.push(told);
        }
    }
    assert!(risen.is_empty(), "see STYLE.md; above comments.txt:\n{}", risen.join("\n"));
    if !fallen.is_empty() {
        // Written past the capture of passing tests: the lines are for whoever ran them.
        let lines = fallen.join("\n");
        writeln!(std::io::stderr(), "comments.txt can be lowered to:\n{lines}").expect("stderr");
    }
}

#[test]
fn the_measure_counts_lines_blocks_and_widths() {
    let mut counts = Counts::default();
    let wide = format!("    // {}", "x".repeat(94));
    let source = format!(
        "//! Whether so.\n//! What then.\n\n/// Of it.\nfn f() {{}} // that\n// That's all.\n\
         /// Outfits, whatsoever, bit.\n{wide}\n"
    );
    counts.add("f.rs", &source);
    assert_eq!((counts.lines, counts.leaning), (6, 3));
    assert_eq!((counts.blocks, counts.openings), (3, 2));
    assert_eq!(counts.wide, ["f.rs:8"]);
    let Numbers { leaning, openings, wide } = counts.numbers();
    assert_eq!((leaning, openings, wide), (50, 67, 1));
}

fn table() -> BTreeMap<String, Numbers> {
    let rows = include_str!("comments.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let mut cells = row.split_whitespace();
        let name = cells.next().expect("a row begins with a crate").to_owned();
        let mut number = || {
            let cell = cells.next().expect("a row has three numbers");
            cell.parse().expect("a cell after the crate is a number")
        };
        (name, Numbers { leaning: number(), openings: number(), wide: number() })
    })
    .collect()
}

/// The folder of each crate, by the name of the folder.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = crate::root();
    let inside = fs::read_dir(root.join("crates")).expect("crates/ can be listed");
    let inside = inside.map(|entry| entry.expect("crates/ can be listed").path());
    let outside = ["fuzz", "lab", "lab-peers"].map(|name| root.join(name));
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    inside.chain(outside).filter_map(|path| Some((name(&path)?, path))).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a source folder can be listed") {
            let path = entry.expect("a source folder can be listed").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}
