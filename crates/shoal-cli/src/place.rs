//! Where a document is: a file, stdin, or a name in a database.

use std::fmt;
use std::path::PathBuf;

use crate::failure::Failure;

/// The meaning of `DOC` on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `-`: stdin for reading, stdout for writing.
    Stream,
    /// An Automerge file.
    File(PathBuf),
    /// `DB::NAME`: a document stored in a database file.
    Stored {
        /// The database.
        file: PathBuf,
        /// The document's name.
        name: String,
    },
}

impl Place {
    /// The database and the name of a stored document; `Err` is the refusal of any other place.
    pub(crate) fn stored(text: &str) -> Result<(PathBuf, String), Failure> {
        match Self::parse(text) {
            Self::Stored { file, name } => Ok((file, name)),
            place => Err(Failure::at(place, "no document of a database")
                .hint("DB::NAME names one, shoal doc ls DB lists them")),
        }
    }

    /// The place named by `text`. The first `::` ends the file's name.
    pub(crate) fn parse(text: &str) -> Self {
        if text == "-" {
            return Self::Stream;
        }
        match text.split_once("::") {
            Some((file, name)) if !file.is_empty() && !name.is_empty() => {
                Self::Stored { file: file.into(), name: name.to_owned() }
            }
            _ => Self::File(text.into()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream => f.write_str("-"),
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Stored { file, name } => write!(f, "{}::{name}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_places() {
        assert_eq!(Place::parse("-"), Place::Stream);
        assert_eq!(Place::parse("a/b.automerge"), Place::File("a/b.automerge".into()));
        let stored = Place::Stored { file: "a/b.db".into(), name: "x::y".to_owned() };
        assert_eq!(Place::parse("a/b.db::x::y"), stored);
        assert_eq!(stored.to_string(), "a/b.db::x::y");
        assert_eq!(Place::parse("a.db::"), Place::File("a.db::".into()));
    }
}
