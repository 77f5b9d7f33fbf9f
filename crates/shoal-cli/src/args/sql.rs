//! `shoal sql`: its words, and the spellings of `sqlite3` that it takes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, ValueEnum};

use super::Cli;

/// `shoal sql`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Without SQL, statements are read from stdin; on a terminal a shell starts. Statements that fail \
are reported on stderr with their number, and those after them still run, unless --bail is given \
or the SQL came as arguments. Ctrl-C stops the statement that is running, and a script with it. \
ATTACH 'FILE' AS NAME reads another database beside this one.

A line, or an argument, that begins with a dot is a command to the shell, most of them as in \
sqlite3: .help lists them. What is typed is kept in $XDG_STATE_HOME/shoal/history, or in the file \
that SHOAL_HISTORY names; empty, it names none. Long results go through SHOAL_PAGER, PAGER or \
less. NO_COLOR switches colours off.

sqlite3's options mean what they mean there, with one dash or two: -csv -json -box -column -line \
-list -markdown -table -html -quote -tabs -ascii -header -noheader -separator TEXT \
-nullvalue TEXT -cmd COMMAND -init FILE -echo -stats -bail -batch -readonly.

Examples:
  shoal sql music.db 'SELECT Name FROM Artist LIMIT 3'
  shoal sql music.db --format json --param id=22 'SELECT * FROM Album WHERE ArtistId = :id'
  shoal sql new.db < schema.sql
  shoal music.db .tables '.schema Album'
  shoal music.db '.mode box' 'SELECT * FROM Genre'
  shoal -header -csv music.db 'SELECT * FROM Genre'
  shoal sql music.db --as ada --rules rules.json 'SELECT * FROM Album'
  shoal sql a.db \"ATTACH 'b.db' AS b; SELECT * FROM t EXCEPT SELECT * FROM b.t\"
  shoal sql :memory:")]
pub(crate) struct SqlArgs {
    /// A SQLite database, or :memory: [default: :memory:]. A missing file is created by the first
    /// statement that writes
    #[arg(default_value = ":memory:", hide_default_value = true)]
    pub(crate) file: PathBuf,
    /// Statements, separated by semicolons, and commands that begin with a dot
    pub(crate) sql: Vec<String>,
    /// How rows are printed [default: table on a terminal, list elsewhere]
    #[arg(long, value_enum)]
    pub(crate) format: Option<RowFormat>,
    /// With json and ndjson: rows as arrays instead of objects
    #[arg(long)]
    pub(crate) arrays: bool,
    /// Give a parameter its value: an integer, a real, NULL, x'HEX', 'TEXT', or plain text.
    /// NAME may be a number for ?1, or a name with or without its sigil
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// Run a statement, or a command that begins with a dot, before all others
    #[arg(long = "cmd", value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,
    /// Read statements from stdin without a prompt, on a terminal too
    #[arg(long)]
    pub(crate) batch: bool,
    /// Stop at the first statement that fails
    #[arg(long)]
    pub(crate) bail: bool,
    /// Never write to the file
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Do not keep what is typed
    #[arg(long)]
    pub(crate) no_history: bool,
    /// Read and write as this principal does, by the rules of --rules: to try rules, not to keep
    /// anything from whoever has the file
    #[arg(long = "as", value_name = "NAME", requires = "rules")]
    pub(crate) principal: Option<String>,
    /// The rules of --as, in JSON: docs/entitlements.md has an example
    #[arg(long, value_name = "FILE", requires = "principal")]
    pub(crate) rules: Option<PathBuf>,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// Aligned columns under a heading
    Table,
    /// One JSON array a statement
    Json,
    /// One JSON value a row
    Ndjson,
    /// A heading, then one line a row, as RFC 4180 quotes them
    Csv,
    /// Values separated by |, one line a row, as sqlite3 prints them
    List,
}

/// The command line with the omitted verb added, and with the options of `sqlite3` as `shoal sql`
/// spells them.
///
/// `shoal FILE` and `shoal -csv FILE` mean `shoal sql ...`. A first word other than a verb is a
/// file when such a file exists, or when the word is written like a path.
pub(crate) fn with_verb(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = given.collect();
    let is_file = |word: &OsString| {
        let text = word.to_string_lossy();
        let known = text.starts_with('-')
            || text == "help"
            || Cli::command().get_subcommands().any(|verb| verb.get_name() == text);
        !known && (text == ":memory:" || text.contains(['.', '/']) || Path::new(word).is_file())
    };
    let is_option = |word: &OsString| word.to_str().and_then(option).is_some();
    for (theirs, ours) in [("-version", "--version"), ("-help", "--help")] {
        if words.get(1).is_some_and(|word| word == theirs) {
            words[1] = ours.into();
        }
    }
    if words.get(1).is_some_and(|word| is_file(word) || is_option(word)) {
        words.insert(1, "sql".into());
    }
    if words.get(1).is_some_and(|verb| verb == "sql") {
        let rest = words.split_off(2);
        words.extend(respelled(rest));
    }
    words
}

/// What an option of `sqlite3` becomes.
#[derive(Clone, Copy)]
enum Spelling {
    /// An option of `shoal sql`.
    Option(&'static str),
    /// Commands that run before all others.
    Commands(&'static [&'static str]),
    /// A command that ends with the next word.
    Value(&'static str),
}

/// The options of `sqlite3`, as `shoal sql` spells them. `-csv` ends rows with a line feed,
/// `.mode csv` as RFC 4180 does.
const SPELLINGS: &[(&str, Spelling)] = &[
    ("ascii", Spelling::Commands(&[".mode ascii"])),
    ("bail", Spelling::Option("--bail")),
    ("batch", Spelling::Option("--batch")),
    ("box", Spelling::Commands(&[".mode box"])),
    ("cmd", Spelling::Option("--cmd")),
    ("column", Spelling::Commands(&[".mode column"])),
    ("csv", Spelling::Commands(&[".mode csv", r#".separator "," "\n""#])),
    ("echo", Spelling::Commands(&[".echo on"])),
    ("header", Spelling::Commands(&[".headers on"])),
    ("html", Spelling::Commands(&[".mode html"])),
    ("init", Spelling::Value(".read")),
    ("json", Spelling::Commands(&[".mode json"])),
    ("line", Spelling::Commands(&[".mode line"])),
    ("list", Spelling::Commands(&[".mode list"])),
    ("markdown", Spelling::Commands(&[".mode markdown"])),
    ("noheader", Spelling::Commands(&[".headers off"])),
    ("nullvalue", Spelling::Value(".nullvalue")),
    ("quote", Spelling::Commands(&[".mode quote"])),
    ("readonly", Spelling::Option("--read-only")),
    ("separator", Spelling::Value(".separator")),
    ("stats", Spelling::Commands(&[".stats on"])),
    ("table", Spelling::Commands(&[".mode table"])),
    ("tabs", Spelling::Commands(&[".mode tabs"])),
];

/// The option of `sqlite3` that a word names, with one dash or two.
fn option(word: &str) -> Option<Spelling> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    SPELLINGS.iter().find(|(known, _)| *known == name).map(|(_, spelling)| *spelling)
}

/// Words behind `shoal sql`, as `clap` takes them; words behind `--` stay as they are. A name
/// behind one dash gets a second dash: the only option of one letter is `-h`.
fn respelled(words: Vec<OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::with_capacity(words.len());
    // The option of the mode leaves headings out, where the command turns them on.
    if words.iter().any(|word| word == "-column" || word == "--column") {
        out.extend(["--cmd".into(), ".headers off".into()]);
    }
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        if text == "--" {
            out.push(word);
            break;
        }
        let name = text.split('=').next().unwrap_or(text).strip_prefix('-');
        let is_name = name.is_some_and(|name| {
            name.len() > 1 && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())
        });
        match option(text) {
            Some(Spelling::Option(known)) => out.push(known.into()),
            Some(Spelling::Commands(commands)) => {
                out.extend(commands.iter().flat_map(|command| ["--cmd".into(), command.into()]));
            }
            Some(Spelling::Value(command)) => match words.next() {
                Some(value) => {
                    let value = quoted(&value.to_string_lossy());
                    out.extend(["--cmd".into(), format!("{command} {value}").into()]);
                }
                // `clap` says that a value is missing.
                None => out.push("--cmd".into()),
            },
            None if is_name && !text.starts_with("--") => out.push(format!("-{text}").into()),
            None => out.push(word),
        }
    }
    out.extend(words);
    out
}

/// A text as one word of a dot command.
fn quoted(text: &str) -> String {
    if !text.contains('\'') {
        return format!("'{text}'");
    }
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let words = with_verb(words).into_iter().map(|word| word.into_string().unwrap());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_options_of_sqlite3_become_ours() {
        let cases = [
            ("shoal -json a.db", "shoal sql --cmd .mode json a.db"),
            ("shoal sql --json a.db", "shoal sql --cmd .mode json a.db"),
            ("shoal a.db -readonly -bail", "shoal sql a.db --read-only --bail"),
            ("shoal -separator ; a.db", "shoal sql --cmd .separator ';' a.db"),
            ("shoal -separator ' a.db", "shoal sql --cmd .separator \"'\" a.db"),
            ("shoal sql -cmd x -format=json", "shoal sql --cmd x --format=json"),
            ("shoal sql a.db -init", "shoal sql a.db --cmd"),
            ("shoal sql a.db -- -json", "shoal sql a.db -- -json"),
            ("shoal sql a.db -h", "shoal sql a.db -h"),
            ("shoal sql -frob", "shoal sql --frob"),
            ("shoal doc show -json", "shoal doc show -json"),
            ("shoal -V", "shoal -V"),
            ("shoal -version", "shoal --version"),
            ("shoal -column a.db", "shoal sql --cmd .headers off --cmd .mode column a.db"),
        ];
        for (given, expected) in cases {
            assert_eq!(after(given), expected, "{given}");
        }
    }
}
