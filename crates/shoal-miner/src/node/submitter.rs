//! Hands blocks in, one after another, while mining and the fetching of templates go on.
//!
//! An answer may be lost, or come after the request's time limit. The node may have taken the
//! block all the same, and then says `block rejected as stale` to the next try, because the
//! block itself made its template stale. So after a lost answer the chain is asked for the
//! block at its height.

use std::time::{Duration, Instant};

use hyper::Method;
use sha3::{Digest, Sha3_256};
use shoal_stdx::hex;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::node::client::{NodeOptions, RETRY_AFTER_MAX};
use crate::node::http::{Answer, Api, AskError, Question, UNAUTHORIZED};
use crate::node::template::Template;
use crate::source::{Backoff, Share, SourceEvent, Verdict};

/// A solution, and its template while remembered.
pub(super) struct Found {
    pub(super) share: Share,
    pub(super) template: Option<Template>,
}

pub(super) struct Submitter {
    api: Api,
    options: NodeOptions,
    tell: mpsc::Sender<SourceEvent>,
    /// Told after each block: accepted or refused, another template is wanted.
    handed_in: mpsc::Sender<()>,
    submitted: u64,
    /// The greatest height with an accepted block of ours.
    own_height: Option<u64>,
    /// Blocks whose fate is unknown.
    open: Vec<Open>,
}

struct Open {
    share: Share,
    /// Its id in the chain.
    id: String,
    /// When to stop looking for it.
    until: Instant,
}

/// The block of the chain at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Ours,
    Other,
    /// There is none yet, or the node does not say.
    Open,
}

impl Submitter {
    pub(super) fn new(
        options: NodeOptions,
        tell: mpsc::Sender<SourceEvent>,
        handed_in: mpsc::Sender<()>,
    ) -> Self {
        let api = Api::new(options.url.clone(), options.token.clone(), options.request_timeout);
        Self { api, options, tell, handed_in, submitted: 0, own_height: None, open: Vec::new() }
    }

    /// Hands in until nobody finds anything any more, or nobody listens.
    pub(super) async fn run(mut self, mut found: mpsc::Receiver<Found>) {
        loop {
            tokio::select! {
                next = found.recv() => {
                    let Some(next) = next else { break };
                    if self.take(next).await.is_err() {
                        return;
                    }
                    // A full channel holds the same news already.
                    let _ = self.handed_in.try_send(());
                }
                () = sleep(LOOK), if !self.open.is_empty() => {
                    if self.look().await.is_err() {
                        return;
                    }
                }
            }
        }
        // An error: nobody listens.
        let _ = self.look().await;
    }

    async fn take(&mut self, found: Found) -> Result<(), ()> {
        let Found { share, template } = found;
        let verdict = match template {
            None => Verdict::Lost { reason: "its template is forgotten" },
            Some(template) if self.own_height.is_some_and(|own| own >= template.height) => {
                let reason = "a block of ours stands at its height".to_owned();
                Verdict::Refused { reason, stale: true }
            }
            Some(template) => {
                let id = id_of(&template.header, share.nonce);
                let verdict = self.hand_in(&share, &template, &id).await;
                match verdict {
                    Verdict::Accepted { .. } => self.own_height = Some(template.height),
                    Verdict::Unknown { .. } => {
                        let until = Instant::now() + LOOK_LONGEST;
                        self.open.push(Open { share: share.clone(), id, until });
                        if self.open.len() > OPEN_MAX {
                            self.open.remove(0);
                        }
                    }
                    _ => {}
                }
                verdict
            }
        };
        self.say(SourceEvent::Verdict { share, verdict }).await
    }

    /// Hands a nonce in, several times where useful.
    async fn hand_in(&mut self, share: &Share, template: &Template, id: &str) -> Verdict {
        let submission = template.submission(share.nonce);
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        self.submitted += 1;
        let request_id = format!("shoal-submit-{}", self.submitted);
        // A try may have arrived without an answer.
        let mut unanswered = false;
        for attempt in 1.. {
            let question = Question {
                method: Method::POST,
                target: "/api/mining/submitblock",
                body: Some(submission.clone()),
                request_id: Some(&request_id),
            };
            let mut retry_after = None;
            match self.api.ask(&question).await {
                Ok(answer) => match judged(&answer) {
                    Judged::Final(Verdict::Refused { .. }) if unanswered => {
                        return match self.standing(template.height, id).await {
                            Standing::Ours => Verdict::Accepted { verified: true },
                            Standing::Other => other_stands(),
                            Standing::Open => {
                                let words = answer.words();
                                unknown(&format!("its first answer was lost, now: {words}"))
                            }
                        };
                    }
                    Judged::Final(verdict) => return verdict,
                    Judged::NotTaken => retry_after = answer.retry_after,
                    Judged::Unclear => (unanswered, retry_after) = (true, answer.retry_after),
                },
                Err(AskError::Token(_)) if !unanswered => {
                    return Verdict::Lost { reason: "there is no token" };
                }
                // Nothing was sent.
                Err(AskError::Connect(_) | AskError::Token(_)) => {}
                Err(_) => unanswered = true,
            }
            if unanswered {
                match self.standing(template.height, id).await {
                    Standing::Ours => return Verdict::Accepted { verified: true },
                    Standing::Other => return other_stands(),
                    Standing::Open => {}
                }
            }
            if attempt >= self.options.attempts {
                break;
            }
            let wait = backoff.fail();
            sleep(retry_after.map_or(wait, |asked| wait.max(asked.min(RETRY_AFTER_MAX)))).await;
        }
        if unanswered {
            unknown("the node did not answer")
        } else {
            Verdict::Lost { reason: "the node did not take it" }
        }
    }

    /// Asks the chain for the block at a height.
    async fn standing(&mut self, height: u64, id: &str) -> Standing {
        let target = format!("/api/block/{height}");
        let question =
            Question { method: Method::GET, target: &target, body: None, request_id: None };
        let Ok(Answer { status: 200, body, .. }) = self.api.ask(&question).await else {
            return Standing::Open;
        };
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        match value["hash"].as_str() {
            Some(hash) if hash.eq_ignore_ascii_case(id) => Standing::Ours,
            Some(_) => Standing::Other,
            None => Standing::Open,
        }
    }

    /// Looks whether the chain has a word by now about blocks whose fate is unknown.
    async fn look(&mut self) -> Result<(), ()> {
        for Open { share, id, until } in std::mem::take(&mut self.open) {
            let verdict = match self.standing(share.task.height, &id).await {
                Standing::Ours => Verdict::Accepted { verified: true },
                Standing::Other => other_stands(),
                Standing::Open => {
                    if Instant::now() < until {
                        self.open.push(Open { share, id, until });
                    }
                    continue;
                }
            };
            self.say(SourceEvent::Settled { share, verdict }).await?;
        }
        Ok(())
    }

    async fn say(&self, event: SourceEvent) -> Result<(), ()> {
        self.tell.send(event).await.map_err(drop)
    }
}

/// The id of the block made of a header and a nonce.
fn id_of(header: &[u8], nonce: u64) -> String {
    let digest = Sha3_256::new().chain_update(header).chain_update(nonce.to_le_bytes()).finalize();
    hex::encode(&digest)
}

fn other_stands() -> Verdict {
    Verdict::Refused { reason: "another block stands at its height".to_owned(), stale: true }
}

fn unknown(reason: &str) -> Verdict {
    Verdict::Unknown { reason: reason.to_owned() }
}

/// Meaning of an answer to a submit.
#[derive(Debug, PartialEq)]
enum Judged {
    /// Nothing more will be said.
    Final(Verdict),
    /// The node did not look at the block: worth another try.
    NotTaken,
    /// The node failed, before or after it took the block.
    Unclear,
}

fn judged(answer: &Answer) -> Judged {
    let refused = |stale| Judged::Final(Verdict::Refused { reason: answer.words(), stale });
    match answer.status {
        200 => {
            let value: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
            match value.and_then(|value| value["accepted"].as_bool()) {
                Some(true) => Judged::Final(Verdict::Accepted { verified: true }),
                Some(false) => refused(false),
                None => Judged::Unclear,
            }
        }
        400 => {
            let words = answer.words();
            refused(words.contains("stale") || words.contains("template_id"))
        }
        UNAUTHORIZED | 429 => Judged::NotTaken,
        500.. => Judged::Unclear,
        _ => refused(false),
    }
}

const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(2);
/// How often the chain is asked about blocks whose fate is unknown.
const LOOK: Duration = Duration::from_secs(3);
const LOOK_LONGEST: Duration = Duration::from_secs(600);
const OPEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_a_submit() {
        let answer = |status, body: &str| Answer {
            status,
            retry_after: None,
            body: body.as_bytes().to_vec(),
        };
        let refused = |reason: &str, stale| {
            Judged::Final(Verdict::Refused { reason: reason.to_owned(), stale })
        };
        let words = |words: &str| format!("{{\"error\":\"{words}\"}}");
        for (status, body, expect) in [
            (
                200,
                r#"{"accepted":true,"hash":"00","height":1}"#.to_owned(),
                Judged::Final(Verdict::Accepted { verified: true }),
            ),
            (200, r#"{"accepted":false}"#.to_owned(), refused("status 200", false)),
            (200, "{}".to_owned(), Judged::Unclear),
            (400, words("block rejected as stale"), refused("block rejected as stale", true)),
            (
                400,
                words("unknown or expired template_id"),
                refused("unknown or expired template_id", true),
            ),
            (400, words("block rejected"), refused("block rejected", false)),
            (401, String::new(), Judged::NotTaken),
            (429, words("submitblock busy, retry later"), Judged::NotTaken),
            (500, String::new(), Judged::Unclear),
            (503, String::new(), Judged::Unclear),
        ] {
            assert_eq!(judged(&answer(status, &body)), expect, "{status} {body}");
        }
    }

    #[test]
    fn a_block_is_named_by_its_header_and_nonce() {
        let id = id_of(&[0; 92], 7);
        assert_eq!(id.len(), 64);
        assert_ne!(id, id_of(&[0; 92], 8));
    }
}
