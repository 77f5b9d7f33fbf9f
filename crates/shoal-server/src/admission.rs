//! Admission by work: a challenge for nothing, a stamp for some seconds of Argon2id, a ticket for
//! a stamp.
//!
//! Challenges and tickets are sealed by a key of the server, and nothing is kept of them until a
//! stamp is paid in. Checks that cost nothing come before the hash, and a challenge is marked as
//! spent before it is hashed: whoever sends stamps of no worth has to fetch a challenge for each.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use shoal::Environment;
use shoal_pow::Target;
use shoal_sync::{Access, DocumentId, Fault, Purse, Rights};

use crate::policy::Verdict;

mod queue;
mod seal;

use queue::Queue;
use seal::Challenge;
pub use seal::Keys;
use seal::Ticket;

/// The greatest effort that a visitor may ask for.
const EFFORT_MAX: u32 = 1 << 16;
/// A challenge may be solved for so many seconds.
const CHALLENGE_S: u64 = 300;
/// Spent challenges remembered until they expire; further stamps are refused.
const SPENT_MAX: usize = 200_000;
/// Addresses whose challenges are counted.
const ADDRESSES_MAX: usize = 50_000;

/// The price of admission, and what it buys.
#[derive(Clone)]
pub struct AdmissionOptions {
    /// The keys of challenges and tickets.
    pub keys: Keys,
    /// Memory of one hash, in KiB.
    pub memory_kib: u32,
    /// Hashes to find a stamp, on average, while the server is idle.
    pub difficulty: u64,
    /// Seconds that a ticket lasts.
    pub ticket_s: u64,
    /// Bytes of changes that a ticket's bearer may store.
    pub bytes: u64,
    /// Documents that a ticket's bearer may make.
    pub documents: u64,
    /// Threads that verify stamps, beside everything else; each takes a hash's memory.
    pub threads: usize,
    /// Stamps that wait to be verified.
    pub queue: usize,
    /// Challenges in a minute for one address (for one /64 of IPv6).
    pub challenges_per_minute: u64,
}

impl AdmissionOptions {
    /// The usual price: 64 MiB, 16 hashes; 12 hours, 64 MiB of changes, 100 documents.
    pub fn new(keys: Keys) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            keys,
            memory_kib: 64 << 10,
            difficulty: 16,
            ticket_s: 12 * 3600,
            bytes: 64 << 20,
            documents: 100,
            threads: cores,
            queue: 256,
            challenges_per_minute: 60,
        }
    }
}

/// Why there is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unpaid {
    /// Not a challenge of this server.
    #[error("the challenge was not made by this server")]
    Forged,
    /// The challenge was not solved in time.
    #[error("the challenge has expired: ask for another")]
    Late,
    /// Whoever sends the stamp did not ask for the challenge.
    #[error("the secret is not the one of the challenge")]
    NotYours,
    /// A stamp was sent for this challenge.
    #[error("the challenge was used: ask for another")]
    Spent,
    /// The nonce misses the target.
    #[error("the nonce does not meet the target")]
    Worthless,
    /// More challenges than an address may have.
    #[error("too many challenges for this address: try again in a minute")]
    TooMany,
    /// Too many stamps wait.
    #[error("too many stamps wait: ask for a challenge of effort {0}")]
    Busy(u32),
    /// A scope that is no document.
    #[error("the scope is neither missing nor a document id")]
    Scope,
}

impl Unpaid {
    /// A word for metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Late => "late",
            Self::NotYours => "not_yours",
            Self::Spent => "spent",
            Self::Worthless => "worthless",
            Self::TooMany => "too_many",
            Self::Busy(_) => "busy",
            Self::Scope => "scope",
        }
    }
}

/// A ticket, with what it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bought {
    /// The ticket, for `?ticket=`.
    pub(crate) ticket: String,
    /// Seconds since 1970-01-01 UTC after which the ticket counts for nothing.
    pub(crate) expires: u64,
    /// Bytes of changes that may be stored.
    pub(crate) bytes: u64,
    /// Documents that may be made.
    pub(crate) documents: u64,
}

/// Figures for the metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionFigures {
    pub(crate) challenges: u64,
    pub(crate) tickets: u64,
    pub(crate) hashes: u64,
    pub(crate) hash_us: u64,
    pub(crate) waiting: usize,
    pub(crate) effort: u32,
    pub(crate) refused: BTreeMap<&'static str, u64>,
}

/// Challenges that were spent, until they expire.
#[derive(Default)]
struct Spent {
    until: BTreeMap<[u8; 16], u64>,
    /// The next time to forget expired ones.
    sweep_s: u64,
}

/// The price of admission, and the queue of stamps.
pub(crate) struct Admission {
    options: AdmissionOptions,
    environment: Environment,
    queue: Queue,
    spent: Mutex<Spent>,
    /// Challenges of addresses in the minute under way.
    addresses: Mutex<(u64, BTreeMap<[u8; 16], u64>)>,
    challenges: AtomicU64,
    tickets: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address, or the network of one of IPv6: a customer has 2^64 of these.
fn network(address: IpAddr) -> [u8; 16] {
    let mut bytes = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => address.to_ipv6_mapped().octets(),
            None => address.octets(),
        },
    };
    let is_mapped = bytes[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    if !is_mapped {
        bytes[8..].fill(0);
    }
    bytes
}

impl Admission {
    /// Starts the threads that verify.
    pub(crate) fn start(
        options: AdmissionOptions,
        environment: Environment,
    ) -> Result<Arc<Self>, crate::Error> {
        let queue = Queue::start(options.memory_kib, options.threads, options.queue)?;
        Ok(Arc::new(Self {
            options,
            environment,
            queue,
            spent: Mutex::default(),
            addresses: Mutex::default(),
            challenges: AtomicU64::new(0),
            tickets: AtomicU64::new(0),
            refused: Mutex::default(),
        }))
    }

    fn now_s(&self) -> u64 {
        u64::try_from(self.environment.now_seconds()).unwrap_or(0)
    }

    /// The price, adapted to the load. To be called twice a second.
    pub(crate) fn look(&self) {
        self.queue.adapt();
    }

    pub(crate) fn figures(&self) -> AdmissionFigures {
        let (hashes, hash_us, waiting, effort) = self.queue.figures();
        AdmissionFigures {
            challenges: self.challenges.load(Ordering::Relaxed),
            tickets: self.tickets.load(Ordering::Relaxed),
            hashes,
            hash_us,
            waiting,
            effort,
            refused: lock(&self.refused).clone(),
        }
    }

    fn count<T>(&self, outcome: Result<T, Unpaid>) -> Result<T, Unpaid> {
        if let Err(unpaid) = &outcome {
            *lock(&self.refused).entry(unpaid.word()).or_default() += 1;
        }
        outcome
    }

    /// A challenge for whoever has the secret with this SHA-256, and wants the scope: a document,
    /// or all of them. Nothing is kept of it.
    pub(crate) fn challenge(
        &self,
        address: IpAddr,
        claim: [u8; 32],
        scope: Option<&str>,
        effort: Option<u32>,
    ) -> Result<Challenge, Unpaid> {
        let made = self.make(address, claim, scope, effort);
        if made.is_ok() {
            self.challenges.fetch_add(1, Ordering::Relaxed);
        }
        self.count(made)
    }

    fn make(
        &self,
        address: IpAddr,
        claim: [u8; 32],
        scope: Option<&str>,
        effort: Option<u32>,
    ) -> Result<Challenge, Unpaid> {
        let scope = match scope {
            None | Some("") => None,
            Some(text) => Some(DocumentId::parse(text).map_err(|_| Unpaid::Scope)?),
        };
        let now_s = self.now_s();
        {
            let mut addresses = lock(&self.addresses);
            if addresses.0 != now_s / 60 || addresses.1.len() > ADDRESSES_MAX {
                *addresses = (now_s / 60, BTreeMap::new());
            }
            let count = addresses.1.entry(network(address)).or_default();
            *count += 1;
            if *count > self.options.challenges_per_minute {
                return Err(Unpaid::TooMany);
            }
        }
        let suggested = self.queue.effort();
        let effort = effort.unwrap_or(suggested).clamp(1, EFFORT_MAX);
        let mut random = [0; 16];
        self.environment.fill(&mut random);
        Ok(Challenge {
            memory_kib: self.options.memory_kib,
            effort,
            difficulty: self.options.difficulty.saturating_mul(u64::from(effort)),
            issued: now_s,
            expires: now_s + CHALLENGE_S,
            random,
            claim,
            scope,
        })
    }

    /// The text of a challenge, which is also what is hashed.
    pub(crate) fn seal(&self, challenge: &Challenge) -> Vec<u8> {
        challenge.seal(&self.options.keys)
    }

    /// Takes a stamp: the challenge, its secret and a nonce. Gives the ticket once it is verified.
    pub(crate) async fn pay(
        &self,
        challenge: &[u8],
        secret: &[u8],
        nonce: u64,
    ) -> Result<Bought, Unpaid> {
        let outcome = self.verify(challenge, secret, nonce).await;
        self.count(outcome)
    }

    async fn verify(&self, sealed: &[u8], secret: &[u8], nonce: u64) -> Result<Bought, Unpaid> {
        let challenge = Challenge::open(sealed, &self.options.keys).ok_or(Unpaid::Forged)?;
        let now_s = self.now_s();
        // The price may have been another before a restart; the memory is made for this one.
        if challenge.expires <= now_s || challenge.memory_kib != self.options.memory_kib {
            return Err(Unpaid::Late);
        }
        if <[u8; 32]>::from(Sha256::digest(secret)) != challenge.claim {
            return Err(Unpaid::NotYours);
        }
        self.spend(&challenge, now_s)?;
        let target = Target::from_difficulty(challenge.difficulty);
        let puzzle = shoal_pow::Challenge::new(sealed, challenge.memory_kib, target);
        let puzzle = puzzle.map_err(|_| Unpaid::Forged)?;
        if !self.queue.verify(puzzle, nonce, challenge.effort).await? {
            return Err(Unpaid::Worthless);
        }
        let ticket = Ticket {
            id: challenge.random,
            expires: now_s + self.options.ticket_s,
            bytes: self.options.bytes,
            documents: self.options.documents,
            scope: challenge.scope,
        };
        self.tickets.fetch_add(1, Ordering::Relaxed);
        Ok(Bought {
            ticket: ticket.to_text(&self.options.keys),
            expires: ticket.expires,
            bytes: ticket.bytes,
            documents: ticket.documents,
        })
    }

    /// Marks a challenge as spent; false stamps for one challenge cost one hash at most.
    fn spend(&self, challenge: &Challenge, now_s: u64) -> Result<(), Unpaid> {
        let mut spent = lock(&self.spent);
        if spent.sweep_s <= now_s {
            spent.until.retain(|_, until| *until > now_s);
            spent.sweep_s = now_s + 10;
        }
        if spent.until.contains_key(&challenge.random) {
            return Err(Unpaid::Spent);
        }
        if spent.until.len() >= SPENT_MAX {
            return Err(Unpaid::Busy(self.queue.effort()));
        }
        self.queue.may_wait(challenge.effort)?;
        spent.until.insert(challenge.random, challenge.expires);
        Ok(())
    }

    /// What a ticket's bearer may do.
    ///
    /// # Errors
    /// [`Fault::BadToken`], [`Fault::Expired`].
    pub(crate) fn verdict(&self, ticket: &str, now_s: u64) -> Result<Verdict, Fault> {
        let ticket = Ticket::parse(ticket, &self.options.keys).ok_or(Fault::BadToken)?;
        if ticket.expires <= now_s {
            return Err(Fault::Expired);
        }
        let purse = Purse {
            id: ticket.id,
            bytes: ticket.bytes,
            documents: ticket.documents,
            ms: (ticket.expires - now_s).saturating_mul(1000),
        };
        let mut access = match ticket.scope {
            None => Access::all(),
            Some(document) => {
                Access { documents: [(document, Rights::Write)].into(), ..Access::default() }
            }
        };
        (access.owner, access.purse) = (Some(ticket.id), Some(purse));
        Ok(Verdict { access, expires_s: Some(ticket.expires), ..Verdict::default() })
    }
}

#[cfg(test)]
mod tests {
    use shoal_pow::Search;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn admission(threads: usize) -> Arc<Admission> {
        let options = AdmissionOptions {
            memory_kib: 64,
            difficulty: 8,
            threads,
            queue: 4,
            ..AdmissionOptions::new(Keys::new([1; 32], None))
        };
        Admission::start(options, Environment::os()).unwrap()
    }

    fn claim(secret: &[u8]) -> [u8; 32] {
        Sha256::digest(secret).into()
    }

    fn solve(challenge: &Challenge, sealed: &[u8]) -> u64 {
        let target = Target::from_difficulty(challenge.difficulty);
        let puzzle = shoal_pow::Challenge::new(sealed, challenge.memory_kib, target).unwrap();
        let mut search = Search::new(64, 2).unwrap();
        let found = search.run(&puzzle, 0..10_000, &shoal_pow::Options::default()).unwrap();
        found.solution.expect("one in eight").nonce
    }

    #[tokio::test]
    async fn a_stamp_buys_one_ticket() {
        let admission = admission(1);
        let secret = b"a secret of the visitor";
        let challenge = admission.challenge(HERE, claim(secret), None, None).unwrap();
        let sealed = admission.seal(&challenge);
        let nonce = solve(&challenge, &sealed);
        let unpaid = |outcome: Result<Bought, Unpaid>| outcome.unwrap_err();
        assert_eq!(unpaid(admission.pay(&sealed, b"another", nonce).await), Unpaid::NotYours);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(unpaid(admission.pay(&forged, secret, nonce).await), Unpaid::Forged);
        }
        let bought = admission.pay(&sealed, secret, nonce).await.unwrap();
        assert_eq!(unpaid(admission.pay(&sealed, secret, nonce).await), Unpaid::Spent);
        let now_s = admission.now_s();
        let verdict = admission.verdict(&bought.ticket, now_s).unwrap();
        assert_eq!(verdict.access.to(&DocumentId::from_bytes([1; 16])), Rights::Write);
        assert_eq!(verdict.access.purse.unwrap().documents, 100);
        assert_eq!(admission.verdict(&bought.ticket, bought.expires).unwrap_err(), Fault::Expired);
        let (ticket, last) = bought.ticket.split_at(bought.ticket.len() - 2);
        let forged = format!("{ticket}{}", if last == "AA" { "BB" } else { "AA" });
        for ticket in ["", ticket, &forged, &"A".repeat(10_000)] {
            assert_eq!(admission.verdict(ticket, now_s).unwrap_err(), Fault::BadToken);
        }
        let figures = admission.figures();
        assert_eq!((figures.challenges, figures.tickets, figures.hashes), (1, 1, 1));
        assert_eq!(figures.refused["spent"], 1);
    }

    #[tokio::test]
    async fn a_stamp_for_a_document_opens_no_other() {
        let admission = admission(1);
        let id = DocumentId::from_bytes([3; 16]);
        let scope = id.url();
        let challenge = admission.challenge(HERE, claim(b"s"), Some(&scope), Some(2)).unwrap();
        assert_eq!((challenge.effort, challenge.difficulty), (2, 16));
        let sealed = admission.seal(&challenge);
        let nonce = solve(&challenge, &sealed);
        let bought = admission.pay(&sealed, b"s", nonce).await.unwrap();
        let access = admission.verdict(&bought.ticket, admission.now_s()).unwrap().access;
        assert_eq!(access.to(&id), Rights::Write);
        assert_eq!(access.to(&DocumentId::from_bytes([4; 16])), Rights::None);
        let unknown = admission.challenge(HERE, [0; 32], Some("a note"), None);
        assert_eq!(unknown.unwrap_err(), Unpaid::Scope);
    }

    #[tokio::test]
    async fn a_false_stamp_costs_its_challenge() {
        let admission = admission(1);
        let challenge = admission.challenge(HERE, claim(b"s"), None, Some(60_000)).unwrap();
        let sealed = admission.seal(&challenge);
        assert_eq!(admission.pay(&sealed, b"s", 1).await.unwrap_err(), Unpaid::Worthless);
        assert_eq!(admission.pay(&sealed, b"s", 2).await.unwrap_err(), Unpaid::Spent);
        // Of one stamp sent many times at once, one is hashed.
        let challenge = admission.challenge(HERE, claim(b"s"), None, Some(60_000)).unwrap();
        let sealed = admission.seal(&challenge);
        let all: Vec<_> = (0..50).map(|_| admission.pay(&sealed, b"s", 3)).collect();
        let outcomes = futures_util::future::join_all(all).await;
        assert_eq!(outcomes.iter().filter(|it| **it == Err(Unpaid::Worthless)).count(), 1);
        assert_eq!(admission.figures().hashes, 2);
        let many = (0..100).map(|_| admission.challenge(HERE, [0; 32], None, None));
        assert!(many.filter(|made| *made == Err(Unpaid::TooMany)).count() > 30);
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1:2:3"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
        assert_eq!(network("10.0.0.1"), network("::ffff:10.0.0.1"));
    }

    /// Threads that never come to the work: the queue fills, and the price rises.
    #[tokio::test]
    async fn the_price_rises_while_stamps_are_turned_away() {
        let admission = admission(0);
        let send = |effort| {
            let challenge = admission.challenge(HERE, claim(b"s"), None, effort).unwrap();
            let (sealed, admission) = (admission.seal(&challenge), Arc::clone(&admission));
            tokio::spawn(async move { admission.pay(&sealed, b"s", 1).await })
        };
        let waiting: Vec<_> = (0..4).map(|_| send(None)).collect();
        while admission.figures().waiting < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(send(None).await.unwrap(), Err(Unpaid::Busy(2)));
        admission.look();
        assert!(admission.figures().effort >= 2);
        // Whoever has worked more comes before them, and one of them has to go.
        let keen = send(Some(50));
        while !waiting.iter().any(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.figures().waiting, 4);
        assert!(!keen.is_finished());
        // Nobody waits any more: the price comes down again.
        admission.queue.clear();
        for _ in 0..20 {
            admission.look();
        }
        assert_eq!(admission.figures().effort, 1);
    }
}
