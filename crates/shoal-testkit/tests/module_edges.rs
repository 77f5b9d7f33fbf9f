//! The top-level modules of a crate import each other in one direction only: the blocks
//! `modules CRATE` of ARCHITECTURE.md list every edge, ground first, and the sources agree.
//!
//! An edge is a path in the code of one module to another: `crate::other::...`, `crate::Item` where
//! `lib.rs` re-exports the item from the other module, or `super::` up to the root of the crate.
//! Tests are left out (`#[cfg(test)]`, `tests.rs`, `tests/`), and so is `lib.rs`, whose part is to
//! know all modules. Calls of methods leave no path: an `impl` of a lower module's type may lie in
//! a higher module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates with a `modules` block.
const CRATES: [&str; 3] = ["shoal-crdt", "shoal-history", "shoal-sql"];

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_import_what_the_architecture_says() {
    for name in CRATES {
        let declared = declared(name);
        let (real, places) = Modules::of(name).edges();
        let text = |edges: &Edges| -> BTreeSet<String> {
            let pairs = edges.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
            pairs.map(|(from, to)| format!("{from} -> {to}")).collect()
        };
        let (known, found) = (text(&declared.iter().cloned().collect()), text(&real));
        let undeclared: Vec<String> =
            found.difference(&known).map(|edge| format!("{edge} ({})", places[edge])).collect();
        let gone: Vec<_> = known.difference(&found).collect();
        assert!(undeclared.is_empty(), "{name}: edges not in ARCHITECTURE.md: {undeclared:#?}");
        assert!(gone.is_empty(), "{name}: edges of ARCHITECTURE.md without an import: {gone:#?}");
        let modules: BTreeSet<&String> = real.keys().collect();
        let listed: BTreeSet<&String> = declared.iter().map(|(from, _)| from).collect();
        assert_eq!(listed, modules, "{name}: the modules of ARCHITECTURE.md are those of lib.rs");
    }
}

#[test]
fn the_declared_edges_have_no_circle() {
    for name in CRATES {
        let mut below = BTreeSet::new();
        for (from, to) in declared(name) {
            let up: Vec<&String> = to.difference(&below).collect();
            assert!(
                up.is_empty(),
                "{name}: {from} imports {up:?}, listed after {from} or not at all"
            );
            assert!(below.insert(from.clone()), "{name}: {from} is listed twice");
        }
    }
}

/// The block of a crate, in order.
fn declared(name: &str) -> Vec<(String, BTreeSet<String>)> {
    let text =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let fence = format!("```modules {name}\n");
    let (_, rest) = text.split_once(&fence).unwrap_or_else(|| panic!("no block `modules {name}`"));
    let (block, _) = rest.split_once("```").expect("a block ends");
    let edge = |line: &str| {
        let (from, to) = line.split_once("->").expect("a line is `module -> modules`");
        (from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect())
    };
    block.lines().map(edge).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of a crate, ready to be searched for paths.
struct Modules {
    /// By top-level module its files: path of modules, and code without comments and tests.
    files: BTreeMap<String, Vec<(Vec<String>, String)>>,
    /// The module of each item that `lib.rs` re-exports; `None` for items of other crates.
    exported: BTreeMap<String, Option<String>>,
}

impl Modules {
    fn of(name: &str) -> Self {
        let source = root().join("crates").join(name).join("src");
        let lib = fs::read_to_string(source.join("lib.rs")).expect("a crate has a lib.rs");
        let lib = without_tests(&without_comments(&lib));
        let mut modules = Self { files: BTreeMap::new(), exported: BTreeMap::new() };
        for statement in lib.split(';') {
            let words: Vec<&str> = statement.split_whitespace().collect();
            if let [.., "mod", module] = words[..] {
                modules.files.insert(module.to_owned(), Vec::new());
            }
        }
        for statement in lib.split(';') {
            let Some((_, path)) = statement.split_once("use ") else { continue };
            let (from, items) = path.split_once("::").expect("a re-export names a module");
            let from = Some(from.trim().to_owned()).filter(|from| modules.files.contains_key(from));
            for item in words(items) {
                modules.exported.insert(item.to_owned(), from.clone());
            }
        }
        let mut folders = vec![(source, Vec::new())];
        while let Some((folder, path)) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a source folder can be listed") {
                let file = entry.expect("a source folder can be listed").path();
                let stem = file.file_stem().expect("a file has a name").to_string_lossy();
                let mut path = path.clone();
                if stem != "mod" {
                    path.push(stem.clone().into_owned());
                }
                if stem == "tests" || path == ["lib"] {
                    continue;
                } else if file.is_dir() {
                    folders.push((file, path));
                } else if let Some(files) = modules.files.get_mut(&path[0]) {
                    let text = fs::read_to_string(&file).expect("a source file is UTF-8");
                    files.push((path, without_tests(&without_comments(&text))));
                }
            }
        }
        modules
    }

    /// The edges, and for each a file with such an import.
    fn edges(&self) -> (Edges, BTreeMap<String, String>) {
        let (mut edges, mut places) = (Edges::new(), BTreeMap::new());
        for (module, files) in &self.files {
            let own = edges.entry(module.clone()).or_default();
            for (path, code) in files {
                for name in names_from_root(code, path.len()) {
                    let to = match self.files.contains_key(&name) {
                        true => Some(name),
                        false => match self.exported.get(&name) {
                            Some(to) => to.clone(),
                            None => panic!("{}: crate::{name} is unknown", path.join("/")),
                        },
                    };
                    if let Some(to) = to.filter(|to| to != module) {
                        places.insert(format!("{module} -> {to}"), path.join("/"));
                        own.insert(to);
                    }
                }
            }
        }
        (edges, places)
    }
}

/// The first names of all paths from the root of the crate, in code of a module `depth` below it.
fn names_from_root(code: &str, depth: usize) -> Vec<String> {
    let mut names = Vec::new();
    let up = "super::".repeat(depth);
    for root in ["crate::", &up] {
        for (at, _) in code.match_indices(root) {
            // Neither the end of a longer name or path, nor `pub(in crate::x)`.
            let before = &code[..at];
            let is_longer = before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            if is_longer || before.trim_end().ends_with("(in") {
                continue;
            }
            names.extend(first_names(&code[at + root.len()..]));
        }
    }
    names
}

/// The first name of a path, or of each path of a group in braces.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return words(rest).next().map(str::to_owned).into_iter().collect();
    };
    let (mut names, mut depth, mut is_first) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            c if is_first && !c.is_whitespace() => {
                names.extend(words(&group[at..]).next().map(str::to_owned));
                is_first = false;
            }
            _ => {}
        }
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The code without comments and without the insides of strings, line by line: from the second line
/// on, a string counts as code.
fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    for line in source.lines() {
        let (mut rest, mut in_string) = (line, false);
        while let Some(c) = rest.chars().next() {
            let len = match c {
                '/' if !in_string && rest.starts_with("//") => break,
                '\\' if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                '\'' if !in_string && rest.starts_with("'\"'") => 3,
                '"' => {
                    in_string = !in_string;
                    1
                }
                c => c.len_utf8(),
            };
            if !in_string {
                code.push_str(&rest[..len]);
            }
            rest = &rest[len..];
        }
        code.push('\n');
    }
    code
}

/// The code without items under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut parts = code.split("#[cfg(test)]");
    kept.extend(parts.next());
    for part in parts {
        let end = part.find([';', '{']).unwrap_or(part.len());
        if part[end..].starts_with(';') {
            kept.push_str(&part[end + 1..]);
            continue;
        }
        let mut depth = 0;
        let close = part.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            *c == '}' && depth == 0
        });
        kept.push_str(close.map_or("", |(at, _)| &part[at + 1..]));
    }
    kept
}

#[test]
fn paths_are_found_in_code_and_nowhere_else() {
    let code = "use crate::{a::{b, c}, d as e, F};\n// use crate::comment;\nfn f() { crate::g::h() }\n\
                pub(in crate::i) fn j() { let _ = \"crate::text\"; }\n\
                #[cfg(test)]\nmod tests {\n    use crate::k;\n    fn l() { {} }\n}\nuse super::super::m;\n\
                #[cfg(test)]\nmod n;\nuse super::super::{o::p, q};\nuse super::r;\n";
    let names = names_from_root(&without_tests(&without_comments(code)), 2);
    assert_eq!(names, ["a", "d", "F", "g", "m", "o", "q"]);
}
