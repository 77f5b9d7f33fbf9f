//! The dot commands: their names, their help, and the choice of a command by a line.

mod backup;
mod files;
mod help;
mod import;
mod parameter;
mod schema;
mod settings;

use super::session::Session;
use super::words;
use crate::failure::Failure;

/// A dot command.
pub(super) struct Command {
    /// Without its dot.
    pub(super) name: &'static str,
    /// The command with its arguments.
    usage: &'static str,
    help: &'static str,
    run: fn(&mut Session, &Command, &[&str]) -> Result<(), Failure>,
}

impl Command {
    /// The error of wrong arguments.
    fn misused(&self) -> Failure {
        Failure::new(format_args!("usage: {}", self.usage))
    }
}

/// Runs the command of a line.
pub(super) fn run(session: &mut Session, line: &str) -> Result<(), Failure> {
    let words = words::split(line);
    let (name, arguments) = words.split_first().expect("a line that begins with a dot has a word");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let name = name.strip_prefix('.').unwrap_or(name);
    let command = find(name)?;
    (command.run)(session, command, &arguments)
}

/// The command called `name`, or the only one beginning with `name`.
fn find(name: &str) -> Result<&'static Command, Failure> {
    if let Some(command) = COMMANDS.iter().find(|command| command.name == name) {
        return Ok(command);
    }
    if let Some((_, known)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == name) {
        return find(known);
    }
    let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
    if let Some((refused, hint)) = refused {
        return Err(Failure::new(format_args!("not supported: .{refused}")).hint(hint));
    }
    let mut known = COMMANDS.iter().filter(|command| command.name.starts_with(name));
    match (known.next(), known.next()) {
        (Some(command), None) if !name.is_empty() => Ok(command),
        (Some(a), Some(b)) if !name.is_empty() => {
            let also = known.map(|command| format!(" .{}", command.name)).collect::<String>();
            let names = format!(".{} .{}{also}", a.name, b.name);
            Err(Failure::new(format_args!("more than one command begins with .{name}: {names}")))
        }
        _ => {
            Err(Failure::new(format_args!("unknown command: .{name}"))
                .hint(".help lists the commands"))
        }
    }
}

/// The commands, by name.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "backup",
        usage: ".backup ?DB? FILE",
        help: "Copy a database into a file, also while others use both",
        run: backup::backup,
    },
    Command {
        name: "bail",
        usage: ".bail on|off",
        help: "Stop after an error; off at first",
        run: settings::bail,
    },
    Command {
        name: "cd",
        usage: ".cd DIRECTORY",
        help: "Change the working folder",
        run: files::cd,
    },
    Command {
        name: "changes",
        usage: ".changes on|off",
        help: "Tell how many rows statements changed",
        run: settings::changes,
    },
    Command {
        name: "databases",
        usage: ".databases",
        help: "List the databases that are open, with their files",
        run: schema::databases,
    },
    Command {
        name: "dump",
        usage: ".dump ?PATTERN? ...",
        help: "Print the database, or what is LIKE a pattern, as SQL",
        run: files::dump,
    },
    Command {
        name: "echo",
        usage: ".echo on|off",
        help: "Print what a script runs",
        run: settings::echo,
    },
    Command {
        name: "eqp",
        usage: ".eqp on|off",
        help: "Print the plan of each query before its rows",
        run: settings::plans,
    },
    Command {
        name: "exit",
        usage: ".exit ?CODE?",
        help: "Leave, with an exit code",
        run: files::exit,
    },
    Command {
        name: "explain",
        usage: ".explain ?on|off|auto?",
        help: "Taken and kept for .show: a plan is printed as a tree in every mode",
        run: settings::explain,
    },
    Command {
        name: "fullschema",
        usage: ".fullschema ?--indent?",
        help: "Print the schema and the statistics of ANALYZE",
        run: schema::full,
    },
    Command {
        name: "headers",
        usage: ".headers on|off",
        help: "Print the names of columns before rows",
        run: settings::headers,
    },
    Command {
        name: "help",
        usage: ".help ?PATTERN?",
        help: "List the commands, or those whose names begin so",
        run: help::help,
    },
    Command {
        name: "import",
        usage: ".import ?OPTIONS? FILE TABLE",
        help: "Read rows of CSV or JSON into a table; .help import tells more",
        run: import::import,
    },
    Command {
        name: "indexes",
        usage: ".indexes ?TABLE?",
        help: "List the indexes, or those of tables LIKE a pattern",
        run: schema::indexes,
    },
    Command {
        name: "mode",
        usage: ".mode MODE ?OPTIONS?",
        help: "Choose how rows are printed; .help mode tells more",
        run: settings::mode,
    },
    Command {
        name: "nullvalue",
        usage: ".nullvalue STRING",
        help: "Print STRING for NULL",
        run: settings::null,
    },
    Command {
        name: "once",
        usage: ".once ?FILE?",
        help: "Send the output of the next statement or command to a file or |COMMAND",
        run: files::once,
    },
    Command {
        name: "open",
        usage: ".open ?--new? ?--readonly? ?FILE?",
        help: "Close the database and open another one",
        run: files::open,
    },
    Command {
        name: "output",
        usage: ".output ?FILE?",
        help: "Send output to a file or |COMMAND, or to stdout again",
        run: files::output,
    },
    Command {
        name: "pager",
        usage: ".pager on|off",
        help: "Page results that are longer than the terminal; on at first",
        run: settings::pager,
    },
    Command {
        name: "parameter",
        usage: ".parameter clear|init|list|set NAME VALUE|unset NAME",
        help: "Set the parameters of statements",
        run: parameter::parameter,
    },
    Command {
        name: "print",
        usage: ".print STRING...",
        help: "Print the strings",
        run: files::print,
    },
    Command {
        name: "prompt",
        usage: ".prompt MAIN ?CONTINUE?",
        help: "Choose the prompts",
        run: settings::prompt,
    },
    Command { name: "quit", usage: ".quit", help: "Leave", run: files::exit },
    Command {
        name: "read",
        usage: ".read FILE",
        help: "Run a file, or the output of |COMMAND",
        run: files::read,
    },
    Command {
        name: "restore",
        usage: ".restore ?DB? FILE",
        help: "Replace what is in the database by what is in a file",
        run: backup::restore,
    },
    Command {
        name: "save",
        usage: ".save ?DB? FILE",
        help: "The same as .backup",
        run: backup::backup,
    },
    Command {
        name: "schema",
        usage: ".schema ?--indent? ?--nosys? ?PATTERN?",
        help: "Print the definitions of what is LIKE a pattern",
        run: schema::schema,
    },
    Command {
        name: "separator",
        usage: ".separator COLUMN ?ROW?",
        help: "Choose what stands between columns and rows",
        run: settings::separator,
    },
    Command {
        name: "shell",
        usage: ".shell COMMAND ARGS...",
        help: "Run a command of the system",
        run: files::shell,
    },
    Command { name: "show", usage: ".show", help: "Print the settings", run: settings::show },
    Command {
        name: "stats",
        usage: ".stats ?on|off?",
        help: "Print rows and memory after each statement, or now",
        run: settings::stats,
    },
    Command {
        name: "system",
        usage: ".system COMMAND ARGS...",
        help: "Run a command of the system",
        run: files::shell,
    },
    Command {
        name: "tables",
        usage: ".tables ?PATTERN?",
        help: "List the tables and views, or those LIKE a pattern",
        run: schema::tables,
    },
    Command {
        name: "timeout",
        usage: ".timeout MS",
        help: "Wait so many milliseconds for a lock of another program",
        run: settings::timeout,
    },
    Command {
        name: "timer",
        usage: ".timer on|off",
        help: "Print how long each statement took",
        run: settings::timer,
    },
    Command {
        name: "width",
        usage: ".width NUMBER...",
        help: "Choose the widths of columns: 0 for any, below 0 for text to the right",
        run: settings::width,
    },
];

/// Other spellings.
const SYNONYMS: &[(&str, &str)] = &[
    ("header", "headers"),
    ("index", "indexes"),
    ("indices", "indexes"),
    ("param", "parameter"),
    ("s", "shell"),
    ("h", "help"),
    ("q", "quit"),
    ("e", "exit"),
];

/// Commands of `sqlite3` without a counterpart here, and the way to reach their purpose.
const REFUSED: &[(&str, &str)] = &[
    ("archive", "tar keeps files"),
    ("auth", "shoal sql --read-only keeps a file from being changed"),
    ("binary", "output is always binary"),
    ("check", "diff compares output"),
    ("clone", ".save FILE writes a copy of a database"),
    ("connection", "a second shell is a second connection"),
    ("dbconfig", "PRAGMA tells what can be set"),
    ("dbinfo", "PRAGMA page_size, page_count, encoding and user_version tell what is in a header"),
    ("excel", ".mode csv and .once FILE write what a spreadsheet opens"),
    ("expert", ".eqp on prints plans"),
    ("filectrl", "there is no such layer below a file here"),
    ("imposter", "indexes are read through their tables"),
    ("limit", "SQL has fixed bounds, which their errors name"),
    ("lint", "PRAGMA foreign_key_list and index_list tell which foreign keys have indexes"),
    ("load", "functions and modules are part of the program that opens a database"),
    ("log", "errors go to stderr"),
    ("nonce", "there is no safe mode to suspend"),
    ("progress", "Ctrl-C stops a statement"),
    ("recover", "shoal recover FILE saves what is left of a damaged file"),
    ("scanstats", ".eqp on prints plans"),
    ("selftest", "PRAGMA integrity_check tests a file"),
    ("session", "shoal diff OLD NEW --format changeset makes the changeset of two files"),
    ("sha3sum", ".dump and a checksum of its output compare databases"),
    ("testcase", ".output sends output to a file"),
    ("testctrl", "that is for SQLite's own tests"),
    ("trace", ".echo on prints what a script runs"),
    ("vfsinfo", "files are read by the operating system"),
    ("vfslist", "files are read by the operating system"),
    ("vfsname", "files are read by the operating system"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_beginnings() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        assert!(REFUSED.is_sorted());
        for command in COMMANDS {
            assert_eq!(find(command.name).unwrap().name, command.name);
            assert!(command.usage.starts_with(&format!(".{}", command.name)));
            assert!(REFUSED.iter().all(|(refused, _)| *refused != command.name));
        }
        assert_eq!(find("tab").map(|command| command.name).ok(), Some("tables"));
        assert_eq!(find("indices").map(|command| command.name).ok(), Some("indexes"));
        assert!(find("sh").err().unwrap().sentence.contains(".shell .show"));
        assert!(find("nosuch").err().unwrap().hint.unwrap().contains(".help"));
        assert!(find("").is_err());
    }
}
