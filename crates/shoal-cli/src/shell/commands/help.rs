//! `.help`.

use std::io::Write;

use super::{COMMANDS, Command, SYNONYMS};
use crate::failure::Failure;
use crate::shell::session::Session;

/// The help of commands beyond their line.
const MORE: &[(&str, &str)] = &[
    (
        "mode",
        "   aligned      Columns under a heading, numbers to the right (default on a terminal)
   ascii        Separated by the control characters 31 and 30
   box          A table drawn in box characters
   column       Columns, see .width
   csv          Separated by commas, in quotes where needed
   html         Rows of an HTML table
   insert       INSERT statements for TABLE: .mode insert TABLE
   json         A JSON array
   jsonl        One JSON object a line; ndjson is the same
   line         One line a column
   list         Separated by .separator (default elsewhere)
   markdown     A Markdown table
   qbox         box --quote
   quote        SQL literals
   table        A table drawn in + - |
   tabs         Separated by tabs
   tcl          Tcl strings
   Options of box, column, markdown and table:
     --wrap N           Wrap columns that are wider than N; 0 for never
     --wordwrap on|off  Break lines between words; --ww switches it on
     --quote            Print SQL literals; --noquote does not",
    ),
    (
        "import",
        "   --csv            Separated by commas, as .mode csv; else by .separator
   --json           JSON objects, as shoal import reads them
   --skip N         Pass over N rows
   -v               Tell how many rows there were
   FILE may be |COMMAND. A missing TABLE is made, with columns of text that the first
   row names; shoal import finds types as well.",
    ),
    (
        "parameter",
        "   clear            Forget all
   init             Taken for sqlite3's sake, needed for nothing
   list             List names and values
   set NAME VALUE   Give a parameter the value of an expression, or a text
   unset NAME       Forget one",
    ),
    ("open", "   --new            Begin with an empty file\n   --readonly       Never write"),
];

/// `.help ?-all? ?PATTERN?`
pub(super) fn help(session: &mut Session, _: &Command, words: &[&str]) -> Result<(), Failure> {
    let all = words.iter().any(|word| word.trim_start_matches('-') == "all");
    let pattern = words.iter().find(|word| !word.starts_with('-'));
    let pattern = pattern.map_or("", |word| word.trim_start_matches('.'));
    let pattern = SYNONYMS
        .iter()
        .find(|(synonym, _)| *synonym == pattern)
        .map_or(pattern, |(_, known)| *known);
    let mut found = 0;
    for command in COMMANDS.iter().filter(|command| command.name.starts_with(pattern)) {
        found += 1;
        writeln!(session.out, "{:<24} {}", command.usage, command.help)?;
        let more = MORE.iter().find(|(name, _)| *name == command.name);
        if let Some((_, more)) = more.filter(|_| all || command.name == pattern) {
            writeln!(session.out, "{more}")?;
        }
    }
    match found {
        0 => Err(Failure::new(format_args!("no command begins so: .{pattern}"))
            .hint(".help lists the commands")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::style::MODES;

    #[test]
    fn every_mode_is_told() {
        let (_, text) = MORE[0];
        for (name, _) in MODES {
            assert!(text.contains(name), "{name}");
        }
    }
}
