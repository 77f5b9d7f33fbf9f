//! Failures as a person reads them: one sentence, and a hint where there is one.

use std::fmt::Display;
use std::io;

/// A failed verb. The sentence names the file and the reason.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One sentence without a full stop.
    pub(crate) sentence: String,
    /// The user's next step, if one is known.
    pub(crate) hint: Option<String>,
    /// Nothing is left to say: the failure was already reported, or nobody listens any more.
    pub(crate) silent: bool,
    /// The exit code: 1 unless a verb tells failures apart by their code.
    pub(crate) code: u8,
}

impl Failure {
    /// A failure with this sentence.
    pub(crate) fn new(sentence: impl Display) -> Self {
        Self { sentence: sentence.to_string(), hint: None, silent: false, code: 1 }
    }

    /// `place: reason`.
    pub(crate) fn at(place: impl Display, reason: impl Display) -> Self {
        Self::new(format_args!("{place}: {reason}"))
    }

    /// A failure already reported where it happened.
    pub(crate) fn reported() -> Self {
        Self { sentence: String::new(), hint: None, silent: true, code: 1 }
    }

    /// The failure with an exit code of its own.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The failure with a way on.
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

/// Writing to stdout failed. A reader leaving early, such as `head`, is no error worth words.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::reported();
        }
        Self::at("stdout", error)
    }
}

/// Failed writes of output are told of as such; other faults in their own words.
impl From<shoal_diff::Error> for Failure {
    fn from(error: shoal_diff::Error) -> Self {
        match error {
            shoal_diff::Error::Io(error) => error.into(),
            error => Self::new(error),
        }
    }
}

impl From<shoal_trust::Error> for Failure {
    fn from(error: shoal_trust::Error) -> Self {
        Self::new(error)
    }
}
