//! File names that are URIs: `file:PATH?mode=ro&immutable=1`, read as SQLite reads them.

use std::path::{Path, PathBuf};

use crate::{Access, Error};

/// A URI taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUri {
    /// The path, its escapes decoded.
    pub path: PathBuf,
    /// The access asked for by `mode`.
    pub access: Option<Access>,
    /// True for `mode=memory`: an empty database in memory, whatever the path.
    pub is_memory: bool,
    /// True for `immutable=1`: nobody changes the file.
    pub is_immutable: bool,
}

impl FileUri {
    /// Takes a name apart; `None` for a name that does not begin with `file:`.
    ///
    /// `cache=shared` and `cache=private` are taken and change nothing: connections of one process
    /// share their store anyway. Parameters without a meaning are passed over, as SQLite does.
    ///
    /// # Errors
    /// [`Error::Uri`] in SQLite's words, for a host, an unknown mode, or what is not there.
    pub fn parse(name: &Path) -> Result<Option<FileUri>, Error> {
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("file:")) else {
            return Ok(None);
        };
        let refuse = |why: String| Err(Error::Uri { why });
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = match place.strip_prefix("//") {
            None => place,
            Some(place) => {
                let (host, _) = place.split_once('/').unwrap_or((place, ""));
                if !host.is_empty() && host != "localhost" {
                    return refuse(format!("invalid uri authority: {host}"));
                }
                &place[host.len()..]
            }
        };
        let path = PathBuf::from(decoded(path));
        let mut uri = FileUri { path, access: None, is_memory: false, is_immutable: false };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decoded(key), decoded(value));
            match (key.as_str(), value.as_str()) {
                ("mode", "ro") => uri.access = Some(Access::ReadOnly),
                ("mode", "rw") => uri.access = Some(Access::ReadWrite),
                ("mode", "rwc") => uri.access = Some(Access::Create),
                ("mode", "memory") => uri.is_memory = true,
                ("mode", other) => return refuse(format!("no such access mode: {other}")),
                ("cache", "shared" | "private") => {}
                ("cache", other) => return refuse(format!("no such cache mode: {other}")),
                ("vfs", other) => return refuse(format!("no such vfs: {other}")),
                ("immutable", value) => uri.is_immutable = is_on(value),
                ("nolock", value) if is_on(value) => {
                    return refuse("nolock=1 is not supported: files are always locked".to_owned());
                }
                _ => {}
            }
        }
        Ok(Some(uri))
    }

    /// The access that a caller with `given` gets.
    ///
    /// # Errors
    /// [`Error::Uri`] for a mode that allows more than the caller does.
    pub fn access_within(&self, given: Access) -> Result<Access, Error> {
        let rank = |access| match access {
            Access::ReadOnly => 0,
            Access::ReadWrite => 1,
            Access::Create => 2,
        };
        let wanted = match self.is_immutable {
            true => Access::ReadOnly,
            false => self.access.unwrap_or(given),
        };
        if rank(wanted) > rank(given) {
            let mode = if rank(wanted) == 1 { "rw" } else { "rwc" };
            return Err(Error::Uri { why: format!("access mode not allowed: {mode}") });
        }
        Ok(wanted)
    }
}

/// A switch, as SQLite reads words and numbers.
fn is_on(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.parse::<i64>().is_ok_and(|number| number != 0) || ["on", "yes", "true"].contains(&&*word)
}

/// The text with its `%HH` decoded, up to a `%00`; bytes outside UTF-8 are replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let pair = tail.first_chunk::<2>().and_then(|pair| std::str::from_utf8(pair).ok());
        let code = pair.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.filter(|_| *byte == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(0) => break,
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_taken_apart() {
        let check = |name: &str, path: &str, access: Option<Access>| {
            let uri = FileUri::parse(Path::new(name)).unwrap().unwrap();
            assert_eq!((uri.path.to_str().unwrap(), uri.access), (path, access), "{name}");
        };
        assert_eq!(FileUri::parse(Path::new("a.db")).unwrap(), None);
        check("file:a.db", "a.db", None);
        check("file:///a/b%20c.db?mode=ro#x?y", "/a/b c.db", Some(Access::ReadOnly));
        check("file://localhost/a?x=y&mode=rw", "/a", Some(Access::ReadWrite));
        check("file:a%3fb%00c?cache=shared", "a?b", None);
        check("file:50%?mode=rwc", "50%", Some(Access::Create));
        let error = |name: &str| FileUri::parse(Path::new(name)).unwrap_err().to_string();
        assert_eq!(error("file://host/a"), "invalid uri authority: host");
        assert_eq!(error("file:a?mode=x"), "no such access mode: x");
        assert_eq!(error("file:a?cache=x"), "no such cache mode: x");
        assert_eq!(error("file:a?vfs=unix-dotfile"), "no such vfs: unix-dotfile");
        let uri = FileUri::parse(Path::new("file:a?mode=rwc")).unwrap().unwrap();
        let error = uri.access_within(Access::ReadOnly).unwrap_err();
        assert_eq!(error.to_string(), "access mode not allowed: rwc");
    }
}
