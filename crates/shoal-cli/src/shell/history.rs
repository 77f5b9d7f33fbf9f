//! Lines typed in earlier sessions: a file in the user's state folder, one entry a line.
//!
//! `SHOAL_HISTORY` names another file; empty, and with `--no-history`, there is none.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file of entries.
pub(super) struct History {
    file: Option<File>,
}

/// Most entries kept at the start of a session.
const ENTRIES: usize = 10_000;

impl History {
    /// Opens the history and gives its entries, oldest first. An unreadable or unwritable file
    /// means no history: statements must run all the same.
    pub(super) fn open(wanted: bool) -> (History, Vec<String>) {
        let Some(path) = path().filter(|_| wanted) else {
            return (History { file: None }, Vec::new());
        };
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut entries: Vec<String> = text.lines().map(decode).collect();
        let too_many = entries.len().saturating_sub(ENTRIES);
        if too_many > 0 {
            entries.drain(..too_many);
            let kept: Vec<String> = entries.iter().map(|entry| encode(entry) + "\n").collect();
            let _ = shoal_vfs::replace_file(&path, kept.concat().as_bytes());
        }
        (History { file: append(&path) }, entries)
    }

    /// Keeps an entry, unless a key is in it.
    pub(super) fn push(&mut self, entry: &str) {
        if holds_key(entry) {
            return;
        }
        if let Some(file) = &mut self.file {
            // A single write keeps the entries of two sessions from mixing.
            let _ = file.write_all((encode(entry) + "\n").as_bytes());
        }
    }
}

/// True for statements that give a key: `PRAGMA key`, `rekey`, and `ATTACH ... KEY`.
pub(super) fn holds_key(entry: &str) -> bool {
    let mut words = entry.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| {
        ["key", "rekey", "hexkey", "hexrekey"].iter().any(|known| word.eq_ignore_ascii_case(known))
    }) && ["pragma", "attach"].iter().any(|verb| {
        let mut words = entry.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(verb))
    })
}

fn append(path: &Path) -> Option<File> {
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Statements hold data.
        options.mode(0o600);
    }
    options.open(path).ok()
}

fn path() -> Option<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match std::env::var_os("SHOAL_HISTORY") {
        Some(name) if name.is_empty() => None,
        Some(name) => Some(name.into()),
        None => {
            let state = folder("XDG_STATE_HOME");
            let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
            state.map(|state| state.join("shoal/history"))
        }
    }
}

/// An entry as one line.
fn encode(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn decode(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        entry.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line() {
        for entry in ["SELECT 1;", "a\nb\\n\r\\", "é"] {
            assert!(!encode(entry).contains('\n'));
            assert_eq!(decode(&encode(entry)), entry);
        }
    }
}
