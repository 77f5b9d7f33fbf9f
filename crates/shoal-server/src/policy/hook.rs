//! A policy that asks a server of the app over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use shoal_sync::{Access, DocumentId, Fault, Rights};

use super::tokens::mark;
use super::{Asking, SharePolicy, Verdict, Visit};
use crate::Error;
use crate::dial::{Dialler, Remote};

/// The longest wait for an answer; whoever waits longer has no rights.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer counts for so long, unless it says otherwise.
const LASTS: Duration = Duration::from_secs(60);
/// The shortest and the longest time that an answer may name.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(86_400);

/// Asks an endpoint about each document that a visitor opens.
///
/// It is sent `POST` with `{"token", "document", "origin", "address"}`, and answers 200 with
/// `{"rights": "none" | "read" | "write", "seconds": 60}`. Any other answer, and none in five
/// seconds, means no rights; the question is asked again after the seconds.
pub struct Hook {
    remote: Remote,
    dialler: Dialler,
    failures: Arc<AtomicU64>,
}

impl Hook {
    /// The hook at `http://HOST[:PORT][/PATH]`, or `https://` where TLS is built in.
    ///
    /// # Errors
    /// [`Error::Url`] for any other URL.
    pub fn new(url: &str) -> Result<Self, Error> {
        let remote = Remote::parse(url, ["http", "https"])?;
        Ok(Self { remote, dialler: Dialler::new(None)?, failures: Arc::default() })
    }
}

fn answer_of(body: &Json) -> Option<(Rights, Duration)> {
    let rights = match body["rights"].as_str()? {
        "none" => Rights::None,
        "read" => Rights::Read,
        "write" => Rights::Write,
        _ => return None,
    };
    let seconds = body["seconds"].as_u64().map_or(LASTS, Duration::from_secs);
    Some((rights, seconds.clamp(SHORTEST, LONGEST)))
}

impl SharePolicy for Hook {
    fn admit(&self, visit: &Visit) -> Result<Verdict, Fault> {
        let owner = visit.token().map(mark);
        let access = Access { asks: true, owner, ..Access::default() };
        Ok(Verdict { access, ..Verdict::default() })
    }

    fn ask(&self, visit: &Visit, document: &DocumentId) -> Asking {
        let question = json!({
            "token": visit.token(),
            "document": document.as_str(),
            "origin": visit.origin,
            "address": visit.address.to_string(),
        });
        let (remote, dialler) = (self.remote.clone(), self.dialler.clone());
        let failures = Arc::clone(&self.failures);
        Box::pin(async move {
            let answered = dialler.post(&remote, remote.path(), &question);
            let answer = match tokio::time::timeout(PATIENCE, answered).await {
                Ok(Ok((200, body))) => answer_of(&body),
                _ => None,
            };
            answer.unwrap_or_else(|| {
                failures.fetch_add(1, Ordering::Relaxed);
                (Rights::None, PATIENCE)
            })
        })
    }

    fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let answer = |body| answer_of(&body);
        assert_eq!(answer(json!({ "rights": "read" })), Some((Rights::Read, LASTS)));
        let brief = answer(json!({ "rights": "write", "seconds": 0 }));
        assert_eq!(brief, Some((Rights::Write, SHORTEST)));
        for body in [json!(null), json!({ "rights": "all" }), json!([]), json!({ "rights": 1 })] {
            assert_eq!(answer(body), None);
        }
    }
}
