//! The settings of `%_config`.

use crate::error::{Error, Result};
use crate::storage::{Setting, Storage};

/// The layout's number in `%_config`.
const VERSION: i64 = 4;
/// The layout's number after SQLite deleted securely.
const VERSION_SECURE: i64 = 5;
/// Bytes of a leaf at most: offsets are of 16 bits, and a leaf may end a little behind its size.
const PAGE_SIZE_MAX: i64 = 65_536;

/// Settings of an index.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) page_size: usize,
    pub(crate) automerge: usize,
    pub(crate) usermerge: usize,
    pub(crate) crisismerge: usize,
    pub(crate) deletemerge: u64,
    pub(crate) hash_bytes: usize,
    pub(crate) rank: Option<Rank>,
    pub(crate) deletes_securely: bool,
}

/// A rank function with its arguments, as `rank MATCH` and the setting `rank` name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// The function's name.
    pub function: String,
    /// The arguments as SQL literals.
    pub arguments: Vec<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            page_size: 4050,
            automerge: 4,
            usermerge: 4,
            crisismerge: 16,
            deletemerge: 10,
            // SQLite flushes at 1 MiB; fewer and longer segments cost memory alone.
            hash_bytes: 16 << 20,
            rank: None,
            deletes_securely: false,
        }
    }
}

impl Config {
    /// Reads the settings.
    pub(crate) fn read(store: &dyn Storage) -> Result<Config> {
        let mut config = Config::default();
        let mut version = None;
        for (name, value) in store.settings()? {
            if name.eq_ignore_ascii_case("version") {
                version = match value {
                    Setting::Integer(version) => Some(version),
                    Setting::Text(_) => None,
                };
            } else {
                config.set(&name, &value);
            }
        }
        match version {
            Some(VERSION | VERSION_SECURE) => Ok(config),
            found => Err(Error::Refused(format!(
                "invalid fts5 file format (found {}, expected {VERSION} or {VERSION_SECURE}) - \
                 run 'rebuild'",
                found.unwrap_or(0)
            ))),
        }
    }

    /// Writes the layout's number of a new index.
    pub(crate) fn begin(store: &dyn Storage) -> Result<()> {
        store.put_setting("version", &Setting::Integer(VERSION))
    }

    /// Takes a setting; false of an unknown name or a value out of range.
    pub(crate) fn set(&mut self, name: &str, value: &Setting) -> bool {
        let name = name.to_ascii_lowercase();
        if name == "rank" {
            let Setting::Text(text) = value else { return false };
            let Some(rank) = Rank::parse(text) else { return false };
            self.rank = Some(rank);
            return true;
        }
        let number = match value {
            Setting::Integer(number) => Some(*number),
            Setting::Text(text) => text.trim().parse().ok(),
        };
        let Some(number) = number else { return false };
        let small = usize::try_from(number).unwrap_or(usize::MAX);
        match name.as_str() {
            "pgsz" if (32..=PAGE_SIZE_MAX).contains(&number) => self.page_size = small,
            "hashsize" if number > 0 => self.hash_bytes = small,
            "automerge" if (0..=64).contains(&number) => {
                self.automerge = if small == 1 { Config::default().automerge } else { small };
            }
            "usermerge" if (2..=16).contains(&number) => self.usermerge = small,
            "crisismerge" if number >= 0 => {
                self.crisismerge = match small {
                    0 | 1 => Config::default().crisismerge,
                    _ => small.min(crate::structure::SEGMENT_MAX - 1),
                };
            }
            "deletemerge" => {
                self.deletemerge = match number {
                    ..0 => Config::default().deletemerge,
                    0..=100 => number as u64,
                    _ => 0,
                };
            }
            "secure-delete" if number >= 0 => self.deletes_securely = number > 0,
            // Settings of SQLite that change nothing here.
            "insttoken" if number >= 0 => {}
            _ => return false,
        }
        true
    }
}

impl Rank {
    /// Reads `function(literal, ...)`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Rank> {
        let text = text.trim_start_matches(' ');
        let end = text.bytes().position(|byte| !crate::definition::is_bareword(byte))?;
        let (function, rest) = text.split_at(end);
        let mut rest = rest.trim_start_matches(' ').strip_prefix('(')?.trim_start_matches(' ');
        let mut arguments = Vec::new();
        if function.is_empty() {
            return None;
        }
        if rest.starts_with(')') {
            return Some(Rank { function: function.to_owned(), arguments });
        }
        loop {
            let length = literal(rest)?;
            arguments.push(rest[..length].to_owned());
            rest = rest[length..].trim_start_matches(' ');
            match rest.bytes().next()? {
                b')' => return Some(Rank { function: function.to_owned(), arguments }),
                b',' => rest = rest[1..].trim_start_matches(' '),
                _ => return None,
            }
        }
    }
}

/// Length of the SQL literal in front: NULL, a blob, a text, a number.
fn literal(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let quoted = |from: usize| {
        let mut at = from + 1;
        loop {
            let next = at + text.get(at..)?.find('\'')?;
            if bytes.get(next + 1) != Some(&b'\'') {
                return Some(next + 1);
            }
            at = next + 2;
        }
    };
    match bytes.first()? {
        b'n' | b'N' => text.get(..4).filter(|word| word.eq_ignore_ascii_case("null")).map(|_| 4),
        b'x' | b'X' if bytes.get(1) == Some(&b'\'') => quoted(1),
        b'\'' => quoted(0),
        _ => {
            let sign = usize::from(matches!(bytes[0], b'-' | b'+'));
            let digits =
                |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
            let mut end = sign + digits(sign);
            if end == sign {
                return None;
            }
            if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
                end += 1 + digits(end + 1);
            }
            Some(end)
        }
    }
}
