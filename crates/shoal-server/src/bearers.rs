//! Doors whose every request brings a token: who may send one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use shoal_sync::Fault;
use subtle::ConstantTimeEq;

use crate::policy::{Credential, SharePolicy, Verdict, Visit};

/// The tokens asked for at a door: one for all requests, those of a policy, or none.
#[derive(Clone, Default)]
pub struct Bearers {
    /// The token asked of every request.
    pub token: Option<String>,
    /// The judge of each request's own token: a request is answered as the principal of the
    /// verdict.
    pub policy: Option<Arc<dyn SharePolicy>>,
}

/// A door that would let in more than it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unguarded {
    /// An address within reach of other machines, without a token.
    #[error("{0} can be reached by other machines: a token has to be asked of them")]
    Open(SocketAddr),
    /// A policy without rules, the other way about, or two principals for one request.
    #[error("{0}")]
    Principals(&'static str),
}

/// A request that is not let in, in words for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// A token is missing, wrong, expired or taken back.
    #[error("{0}")]
    NoToken(String),
    /// The token is good for other doors.
    #[error("{0}")]
    NoPrincipal(&'static str),
}

impl Bearers {
    /// Refuses an address of other machines without a token, and principals without rules. `rules`
    /// is `None` without rules, and with them true where they are for one principal that is named.
    ///
    /// # Errors
    /// [`Unguarded`].
    pub fn check(&self, listen: SocketAddr, rules: Option<bool>) -> Result<(), Unguarded> {
        let is_open = self.token.is_none() && self.policy.is_none();
        if is_open && !listen.ip().is_loopback() {
            return Err(Unguarded::Open(listen));
        }
        match (&self.policy, &self.token, rules) {
            (Some(_), Some(_), _) => Err("requests have one token, for all or of each principal"),
            (Some(_), None, None) => Err("principals of tokens need rules"),
            (Some(_), None, Some(true)) => Err("principals come from tokens, or one is named"),
            (None, _, Some(false)) => Err("rules need a principal, or tokens that name theirs"),
            _ => Ok(()),
        }
        .map_err(Unguarded::Principals)
    }

    /// The principal of a request by its token, `None` where everybody is the same.
    ///
    /// # Errors
    /// [`NotAdmitted`].
    pub fn judge(&self, token: Option<&[u8]>, from: IpAddr) -> Result<Option<String>, NotAdmitted> {
        if let Some(policy) = &self.policy {
            let token = token.and_then(|token| std::str::from_utf8(token).ok());
            let visit = Visit {
                credential: token.map(|token| Credential::Token(token.to_owned())),
                origin: None,
                address: from,
            };
            // A look at the file of tokens: one revoked before the request is not let in.
            policy.version();
            return match policy.admit(&visit) {
                Ok(Verdict { principal: Some(principal), .. }) => Ok(Some(principal)),
                Ok(_) => Err(NotAdmitted::NoPrincipal(
                    "the token names no principal: shoal token new --as NAME makes one that does",
                )),
                Err(fault) => {
                    let why = match fault {
                        Fault::NoToken => "a token is missing".to_owned(),
                        fault => fault.to_string(),
                    };
                    Err(NotAdmitted::NoToken(format!("{why}: Authorization: Bearer TOKEN")))
                }
            };
        }
        let Some(asked) = &self.token else { return Ok(None) };
        match token.is_some_and(|given| bool::from(given.ct_eq(asked.as_bytes()))) {
            true => Ok(None),
            false => {
                let why = "a token is missing or another: Authorization: Bearer TOKEN";
                Err(NotAdmitted::NoToken(why.to_owned()))
            }
        }
    }
}
