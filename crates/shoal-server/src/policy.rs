//! Who may: share policies, in code and in files.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use shoal_sync::{Access, DocumentId, Fault, Rights};

mod hook;
mod tokens;

pub use hook::Hook;
pub use tokens::TokenFile;

/// A token or a ticket, as a visitor brought it. Not shown by `Debug`, and never logged.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// `?token=`, `Authorization: Bearer`, or the cookie `shoal_token`.
    Token(String),
    /// `?ticket=`, or the cookie `shoal_ticket`.
    Ticket(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(...)",
            Self::Ticket(_) => "Ticket(...)",
        })
    }
}

/// Somebody at the door.
#[derive(Clone, Debug)]
pub struct Visit {
    /// What they brought.
    pub credential: Option<Credential>,
    /// The origin of the web page that opened the socket, as its browser says.
    pub origin: Option<String>,
    /// The other end of the connection; a proxy's, behind one.
    pub address: IpAddr,
}

impl Visit {
    /// The token, if one was brought.
    pub fn token(&self) -> Option<&str> {
        match &self.credential {
            Some(Credential::Token(token)) => Some(token),
            _ => None,
        }
    }
}

/// What a visitor may do.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The rights to documents.
    pub access: Access,
    /// True for whoever may use the whole API.
    pub is_admin: bool,
    /// The principal whose entitlements to tables the visitor has.
    pub principal: Option<String>,
    /// Seconds since 1970-01-01 UTC after which the visitor has to go.
    pub expires_s: Option<u64>,
}

/// The rights to one document, and for how long the answer counts.
pub type Asking = Pin<Box<dyn Future<Output = (Rights, Duration)> + Send>>;

/// Who may open which documents.
///
/// A refused visitor's socket is answered and then closed with the fault's words; a document
/// without rights looks absent.
pub trait SharePolicy: Send + Sync {
    /// The verdict on a visitor, when a socket is opened and whenever [`Self::version`] changes.
    /// Called on a network thread: no waiting.
    ///
    /// # Errors
    /// The fault to tell the visitor.
    fn admit(&self, visit: &Visit) -> Result<Verdict, Fault>;

    /// The rights of a visitor to one document, for verdicts with [`Access::asks`]. Asked again
    /// after the time in the answer, as long as the document is open.
    fn ask(&self, _visit: &Visit, _document: &DocumentId) -> Asking {
        Box::pin(std::future::ready((Rights::None, Duration::MAX)))
    }

    /// A number to change whenever earlier verdicts may no longer hold. Looked at twice a second.
    fn version(&self) -> u64 {
        0
    }

    /// Failures of files or other servers so far, for the metrics.
    fn failures(&self) -> u64 {
        0
    }
}

/// The same rights to every document, for everybody: knowing an id is the right.
#[derive(Clone, Copy, Debug)]
pub struct Open(pub Rights);

impl SharePolicy for Open {
    fn admit(&self, visit: &Visit) -> Result<Verdict, Fault> {
        match (self.0, &visit.credential) {
            (Rights::None, None) => Err(Fault::NoToken),
            (Rights::None, Some(_)) => Err(Fault::BadToken),
            (rights, _) => Ok(Verdict { access: Access::every(rights), ..Verdict::default() }),
        }
    }
}
