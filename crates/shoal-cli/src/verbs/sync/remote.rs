//! The other end of `shoal sync`, as it is named on the command line.

use std::path::{Path, PathBuf};

/// The other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    /// A sync server.
    Url,
    /// A database of another machine.
    Ssh(Command),
    /// A folder of files.
    Folder(PathBuf),
    /// A database file, there or to be made.
    File(PathBuf),
}

/// A program whose stdin and stdout lead to the other end. No shell of this machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) program: String,
    pub(super) args: Vec<String>,
}

impl Remote {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("ssh://") {
            return Command::ssh(rest).map(Self::Ssh);
        }
        if text.contains("://") {
            return Ok(Self::Url);
        }
        let path = Path::new(text);
        Ok(match text.ends_with('/') || path.is_dir() {
            true => Self::Folder(path.to_owned()),
            false => Self::File(path.to_owned()),
        })
    }
}

impl Command {
    /// Splits a line into words: quotes and backslashes work as in a shell, and nothing else does.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match character {
                quote @ ('\'' | '"') => {
                    let word = word.get_or_insert_default();
                    loop {
                        match characters.next() {
                            None => return Err(format!("a quote {quote} has no end")),
                            Some(end) if end == quote => break,
                            Some('\\') if quote == '"' => word.extend(characters.next()),
                            Some(inner) => word.push(inner),
                        }
                    }
                }
                '\\' => word.get_or_insert_default().extend(characters.next()),
                blank if blank.is_whitespace() => words.extend(word.take()),
                other => word.get_or_insert_default().push(other),
            }
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().ok_or("no program is named")?;
        Ok(Self { program, args: words.collect() })
    }

    /// The command for `[USER@]HOST[:PORT]/PATH`; `/~/PATH` is below the home of the user there.
    fn ssh(rest: &str) -> Result<Self, String> {
        let form = "an ssh URL is ssh://[USER@]HOST[:PORT]/PATH, or /~/PATH from the home there";
        let (authority, path) = rest.split_once('/').ok_or(form)?;
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match place.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        // A word with a dash before it would be an option of ssh.
        let is_bad = |word: &str| {
            word.is_empty()
                || word.starts_with('-')
                || word.contains(|it: char| it.is_whitespace() || it.is_control())
        };
        if is_bad(host) || user.is_some_and(is_bad) {
            return Err(form.to_owned());
        }
        let path = match path.strip_prefix("~/") {
            Some(path) if path.starts_with('-') => format!("./{path}"),
            Some(path) => path.to_owned(),
            None => format!("/{path}"),
        };
        if path.is_empty() || path == "/" {
            return Err(form.to_owned());
        }
        let mut args = Vec::new();
        if let Some(port) = port {
            let port: u16 = port.parse().map_err(|_| "the port is no number up to 65535")?;
            args.extend(["-p".to_owned(), port.to_string()]);
        }
        let host = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        // The shell of the other machine reads this line: the path is quoted for it.
        let line = format!("shoal sync --stdio '{}'", path.replace('\'', r"'\''"));
        args.extend(["--".to_owned(), host, line]);
        Ok(Self { program: "ssh".to_owned(), args })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(url: &str) -> Result<Vec<String>, String> {
        match Remote::parse(url)? {
            Remote::Ssh(command) => Ok(command.args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urls_of_ssh() {
        let line = |path: &str| format!("shoal sync --stdio {path}");
        for (url, expected) in [
            ("ssh://h/srv/a.db", vec!["--", "h", &line("'/srv/a.db'")]),
            ("ssh://u@h:2222/~/a.db", vec!["-p", "2222", "--", "u@h", &line("'a.db'")]),
            ("ssh://[::1]:22/a b.db", vec!["-p", "22", "--", "::1", &line("'/a b.db'")]),
            ("ssh://h/~/-x", vec!["--", "h", &line("'./-x'")]),
            ("ssh://h/a'; rm x'", vec!["--", "h", &line(r"'/a'\''; rm x'\'''")]),
        ] {
            assert_eq!(ssh(url).unwrap(), expected, "{url}");
        }
        for url in [
            "ssh://",
            "ssh://h",
            "ssh://h/",
            "ssh://h/~/",
            "ssh:///a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-l@h/a",
            "ssh://u@/a",
            "ssh://h:x/a",
            "ssh://h h/a",
        ] {
            assert!(ssh(url).is_err(), "{url}");
        }
    }

    #[test]
    fn words_of_a_command() {
        let words = |line: &str| {
            let command = Command::parse(line).unwrap();
            [vec![command.program], command.args].concat()
        };
        assert_eq!(words("ssh h shoal sync --stdio /b.db").len(), 6);
        assert_eq!(
            words(r#"a 'b c' "d \" e" f\ g '' $HOME;x"#),
            ["a", "b c", "d \" e", "f g", "", "$HOME;x"]
        );
        for line in ["", "  ", "a 'b", "a \"b"] {
            assert!(Command::parse(line).is_err(), "{line}");
        }
    }
}
