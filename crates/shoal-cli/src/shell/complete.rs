//! The helper of the line editor: names to complete, colours, and where a statement ends.

use std::borrow::Cow;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::COMMANDS;
use super::highlight::coloured;
use crate::rows::literal::{KEYWORDS, identifier};
use crate::rows::style::MODES;

/// Completes words and colours lines.
#[derive(Default)]
pub(super) struct Assistant {
    /// Names of tables, views, indexes and columns.
    pub(super) names: Vec<String>,
    /// True where the terminal shows colours.
    pub(super) colour: bool,
}

/// The possible words at the end of `line`, and the place where the last word begins.
fn candidates(names: &[String], line: &str) -> (usize, Vec<String>) {
    let start = line
        .rfind(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.' | '/' | '-' | '~'))
        .map_or(0, |place| place + line[place..].chars().next().map_or(1, char::len_utf8));
    let word = &line[start..];
    let begins =
        |name: &str| name.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if let Some(prefix) = line.strip_prefix('.').filter(|_| start == 0) {
        let commands = COMMANDS.iter().filter(|command| command.name.starts_with(prefix));
        return (0, commands.map(|command| format!(".{} ", command.name)).collect());
    }
    let command = line.strip_prefix('.').and_then(|rest| rest.split_whitespace().next());
    match command {
        Some("mode") => {
            let modes = MODES.iter().map(|(name, _)| *name).filter(|name| begins(name));
            (start, modes.map(str::to_owned).collect())
        }
        Some(
            "read" | "import" | "output" | "once" | "open" | "save" | "backup" | "restore" | "cd",
        ) => (start, files(word)),
        Some(_) => (start, names.iter().filter(|name| begins(name)).cloned().collect()),
        None => {
            if word.is_empty() {
                return (start, Vec::new());
            }
            // Behind `table.` come columns.
            let (start, word) = match word.rfind('.') {
                Some(dot) => (start + dot + 1, &word[dot + 1..]),
                None => (start, word),
            };
            let begins = |name: &&str| {
                name.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
            };
            let own = names.iter().map(String::as_str).filter(begins).map(identifier);
            let lower = word.chars().next().is_some_and(char::is_lowercase);
            let keywords = KEYWORDS.split_ascii_whitespace().filter(begins).map(|keyword| {
                if lower { keyword.to_ascii_lowercase() } else { keyword.to_owned() }
            });
            (start, own.chain(keywords).collect())
        }
    }
}

/// The files whose names begin so.
fn files(word: &str) -> Vec<String> {
    let (folder, prefix) = match word.rfind('/') {
        Some(slash) => (&word[..=slash], &word[slash + 1..]),
        None => ("", word),
    };
    let listed = std::fs::read_dir(if folder.is_empty() { "." } else { folder });
    let mut files: Vec<String> = listed
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let end = if entry.path().is_dir() { "/" } else { "" };
            name.starts_with(prefix).then(|| format!("{folder}{name}{end}"))
        })
        .collect();
    files.sort_unstable();
    files
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, mut words) = candidates(&self.names, &line[..pos]);
        words.dedup();
        let pairs = words.into_iter().map(|word| Pair { display: word.clone(), replacement: word });
        Ok((start, pairs.collect()))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.colour { coloured(line).into() } else { line.into() }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        if self.colour { format!("\x1b[1m{prompt}\x1b[0m").into() } else { prompt.into() }
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.colour
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_where_they_stand() {
        let names = ["Album", "Artist", "ArtistId", "odd name"].map(str::to_owned);
        let check = |line: &str, start: usize, expect: &[&str]| {
            let (at, words) = candidates(&names, line);
            assert_eq!((at, words.as_slice()), (start, &expect.map_to()[..]), "{line}");
        };
        check("SELECT * FROM Al", 14, &["Album", "ALL", "ALTER", "ALWAYS"]);
        check("select Artist.arti", 14, &["Artist", "ArtistId"]);
        check("sel", 0, &["select"]);
        check("SELECT odd", 7, &["\"odd name\""]);
        check(".tab", 0, &[".tables "]);
        check(".mode mark", 6, &["markdown"]);
        check(".schema Alb", 8, &["Album"]);
        check("SELECT 1, ", 10, &[]);
    }

    trait MapTo {
        fn map_to(&self) -> Vec<String>;
    }

    impl MapTo for &[&str] {
        fn map_to(&self) -> Vec<String> {
            self.iter().map(|word| (*word).to_owned()).collect()
        }
    }
}
