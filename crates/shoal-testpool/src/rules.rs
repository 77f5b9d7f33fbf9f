//! The pool's rules for logins and shares. No sockets; moments are handed in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use shoal_pow::{Challenge, Options, TAG_BYTES, Target};
use shoal_stdx::hex;

use crate::address::{self, Network};
use crate::ledger::{Ledger, Policy};
use crate::log::lock;
use crate::vardiff::{Vardiff, VardiffRules};
use crate::work::{Assignment, Assignments, Lifetimes, Template};

/// Settings of a pool. The defaults are the real pool's.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Memory of one hash in KiB: 2 GiB on the chain.
    pub memory_kib: u32,
    /// Nonces in a window.
    pub window: u64,
    /// Difficulty of the first share.
    pub difficulty: u64,
    /// Changes of the difficulty; `None` for never.
    pub vardiff: Option<VardiffRules>,
    /// Difficulty of a block.
    pub network_difficulty: u64,
    /// Height of the first template.
    pub height: u64,
    /// The network of valid addresses.
    pub network: Network,
    /// `true` to require protocol 2 of logins and a claimed hash of shares.
    pub claims_required: bool,
    /// Answer logins as a pool of protocol 1 does, without a result.
    pub legacy: bool,
    /// How long shares of an old template are taken.
    pub template_grace: Duration,
    /// How long shares of an assignment are taken after another of the same template.
    pub supersede_grace: Duration,
    /// How long an assignment lives.
    pub assignment_ttl: Duration,
    /// Hash every share before its answer.
    pub full_verify: bool,
    /// An address's first shares, all hashed.
    pub warmup_shares: u64,
    /// Hash every so many shares; 0 for never.
    pub sample_every: u64,
    /// Hash so many of a thousand shares, by chance.
    pub sample_per_mille: u64,
    /// So many false hashes bring quarantine.
    pub strikes_max: usize,
    /// How long a false hash is remembered.
    pub strike_window: Duration,
    /// How long quarantine lasts.
    pub quarantine: Duration,
    /// Submits of an address within [`Self::submits_window`].
    pub submits_max: usize,
    /// See above.
    pub submits_window: Duration,
    /// Time to log in.
    pub login_timeout: Duration,
    /// Time without a word before a connection is closed.
    pub idle_timeout: Duration,
    /// Connections from one address of the network.
    pub connections_per_ip: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            memory_kib: shoal_pow::MEMORY_KIB,
            window: 1_000_000,
            difficulty: 60,
            vardiff: Some(VardiffRules::default()),
            network_difficulty: 100_000,
            height: 1,
            network: Network::Main,
            claims_required: true,
            legacy: false,
            template_grace: Duration::from_secs(5),
            supersede_grace: Duration::from_secs(5),
            assignment_ttl: Duration::from_secs(300),
            full_verify: false,
            warmup_shares: 20,
            sample_every: 10,
            sample_per_mille: 100,
            strikes_max: 3,
            strike_window: Duration::from_secs(24 * 3600),
            quarantine: Duration::from_secs(3600),
            submits_max: 120,
            submits_window: Duration::from_secs(10),
            login_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(15 * 60),
            connections_per_ip: 16,
        }
    }
}

impl Rules {
    /// Rules for tests: hashes of 64 KiB, shares of difficulty 2, all hashed, no vardiff,
    /// blocks out of reach.
    pub fn small() -> Self {
        Self {
            memory_kib: 64,
            difficulty: 2,
            vardiff: None,
            network_difficulty: u64::MAX,
            full_verify: true,
            submits_max: usize::MAX,
            ..Self::default()
        }
    }
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) address: String,
    pub(crate) worker: String,
    pub(crate) protocol_version: u64,
    pub(crate) capabilities: Vec<String>,
    pub(crate) difficulty_hint: Option<u64>,
}

/// A share as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submit {
    pub(crate) job_id: String,
    pub(crate) nonce: u64,
    pub(crate) claimed_hash: Option<String>,
}

/// An accepted share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// `true` when hashed; otherwise the claim is believed for now.
    pub verified: bool,
    /// Difficulty of the share's job.
    pub difficulty: u64,
    /// Difficulty of the next job, when changed by this share.
    pub next_difficulty: Option<u64>,
    /// `true` for a block.
    pub block: bool,
}

/// State shared by all connections.
pub(crate) struct Book {
    rules: Rules,
    state: Mutex<State>,
}

struct State {
    assignments: Assignments,
    ledger: Ledger,
    sessions: HashMap<u64, Session>,
    /// Last difficulty of an address and worker.
    hints: HashMap<(String, String), u64>,
}

struct Session {
    address: String,
    worker: String,
    vardiff: Vardiff,
}

impl Book {
    pub(crate) fn new(rules: Rules) -> Self {
        let policy = Policy {
            full_verify: rules.full_verify,
            warmup_shares: rules.warmup_shares,
            sample_every: rules.sample_every,
            sample_per_mille: rules.sample_per_mille,
            strikes_max: rules.strikes_max.max(1),
            strike_window: rules.strike_window,
            quarantine: rules.quarantine,
            submits_max: rules.submits_max,
            submits_window: rules.submits_window,
            provisional_max: PROVISIONAL_MAX,
            provisional_window: PROVISIONAL_WINDOW,
        };
        let template = Template::sample(rules.height, rules.network_difficulty);
        let state = State {
            assignments: Assignments::new(lifetimes(&rules), template),
            ledger: Ledger::new(policy),
            sessions: HashMap::new(),
            hints: HashMap::new(),
        };
        Self { rules, state: Mutex::new(state) }
    }

    pub(crate) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Lets a miner in, or says why not.
    pub(crate) fn login(&self, connection: u64, login: &Login, now: Instant) -> Result<(), String> {
        let address = login.address.trim();
        if address.is_empty() || address.len() > ADDRESS_CHARS_MAX {
            return Err("invalid address".to_owned());
        }
        address::check(address, self.rules.network)
            .map_err(|error| format!("invalid address: {error}"))?;
        if self.rules.claims_required {
            if login.protocol_version < 2 {
                return Err("pool requires protocol_version >= 2".to_owned());
            }
            let claims = |name: &String| name.trim().eq_ignore_ascii_case("submit_claimed_hash");
            if !login.capabilities.iter().any(claims) {
                return Err("pool requires submit_claimed_hash capability".to_owned());
            }
        }
        let mut state = self.state();
        if let Some(words) = state.ledger.quarantine(address, now) {
            return Err(words);
        }
        let worker = match login.worker.trim() {
            "" => "default".to_owned(),
            name => name.chars().take(WORKER_CHARS_MAX).collect(),
        };
        let known = state.hints.get(&(address.to_owned(), worker.clone())).copied();
        let base = known.unwrap_or(self.rules.difficulty);
        let difficulty = match login.difficulty_hint {
            Some(hint) if self.rules.vardiff.is_some() => {
                hint.clamp((base / 4).max(1), base.saturating_mul(4))
            }
            _ => base,
        };
        let vardiff = Vardiff::new(self.rules.vardiff.unwrap_or_default(), difficulty);
        state.sessions.insert(connection, Session { address: address.to_owned(), worker, vardiff });
        Ok(())
    }

    /// Another window for a connection after its login.
    pub(crate) fn give(&self, connection: u64, now: Instant) -> Option<Assignment> {
        let state = &mut *self.state();
        let session = state.sessions.get(&connection)?;
        let difficulty = session.vardiff.difficulty();
        Some(state.assignments.give(connection, &session.address, difficulty, now))
    }

    /// Judges a share received at a moment. Hashes the share where the rules say so, without
    /// holding anybody else up. `block_refusal` is the node's answer to a block, where it refuses.
    ///
    /// The order is the real pool's: the rate, the form of the claim, the login, the job and its
    /// age, the owner, the window, the duplicate, the quarantine, the hash. Above all, an unknown
    /// job is stale before the share can be a duplicate.
    pub(crate) fn submit(
        &self,
        connection: u64,
        submit: &Submit,
        received: Instant,
        block_refusal: Option<&str>,
    ) -> Result<Accepted, String> {
        let Submit { job_id, nonce, claimed_hash } = submit;
        let (assignment, claim, verify) = {
            let state = &mut *self.state();
            let address = state.sessions.get(&connection).map(|session| session.address.clone());
            if let Some(address) = &address
                && !state.ledger.may_submit(address, received)
            {
                return Err("rate limited, retry".to_owned());
            }
            let claim = match claimed_hash.as_deref().map(str::trim) {
                None | Some("") if self.rules.claims_required => {
                    return Err("claimed hash required".to_owned());
                }
                None | Some("") => None,
                Some(text) => Some(tag(text)?),
            };
            let address = address.ok_or("not logged in")?;
            let assignment = state
                .assignments
                .resolve(job_id, received)
                .map_err(|stale| stale.to_string())?
                .clone();
            if assignment.address != address {
                return Err("job not assigned to this miner".to_owned());
            }
            if !(assignment.first..=assignment.last).contains(nonce) {
                return Err("nonce out of assigned range".to_owned());
            }
            if !state.ledger.claim(job_id, *nonce) {
                return Err("duplicate share".to_owned());
            }
            if let Some(words) = state.ledger.quarantine(&address, received) {
                return Err(words);
            }
            let block = claim.is_some_and(|tag| assignment.template.network_target.is_met_by(&tag));
            let verify = state.ledger.must_verify(&address, received) || block || claim.is_none();
            (assignment, claim, verify)
        };
        let share_target = Target::from_difficulty(assignment.difficulty);
        let real = if verify { Some(self.hash(&assignment, *nonce)?) } else { None };
        let state = &mut *self.state();
        if let (Some(claim), Some(real)) = (claim, real)
            && claim != real
        {
            state.ledger.strike(&assignment.address, received);
            return Err("invalid share proof".to_owned());
        }
        if real.or(claim).is_none_or(|tag| !share_target.is_met_by(&tag)) {
            return Err("low difficulty share".to_owned());
        }
        let network_target = assignment.template.network_target;
        let block = real.is_some_and(|tag| network_target.is_met_by(&tag));
        if block && let Some(words) = block_refusal {
            // The claim is given back: the pool counts no share whose block its node refused.
            state.ledger.unclaim(job_id, *nonce);
            return Err(words.to_owned());
        }
        state.ledger.accept(&assignment.address, verify, received);
        let mut next_difficulty = None;
        if let Some(session) = state.sessions.get_mut(&connection)
            && self.rules.vardiff.is_some()
        {
            next_difficulty = session.vardiff.accept(received);
        }
        Ok(Accepted { verified: verify, difficulty: assignment.difficulty, next_difficulty, block })
    }

    /// Puts the address of a connection into quarantine.
    pub(crate) fn quarantine(&self, connection: u64, now: Instant, time: Duration) {
        let state = &mut *self.state();
        if let Some(session) = state.sessions.get(&connection) {
            state.ledger.quarantine_for(&session.address, now, time);
        }
    }

    /// The pool's process ends and another begins: sessions and jobs are forgotten, the database
    /// is not.
    pub(crate) fn restart(&self) {
        let state = &mut *self.state();
        state.sessions.clear();
        let template = Template::clone(&state.assignments.template());
        state.assignments = Assignments::new(lifetimes(&self.rules), template);
    }

    /// The next block is to be found.
    pub(crate) fn advance(&self, now: Instant) {
        let mut state = self.state();
        let height = state.assignments.template().height + 1;
        let template = Template::sample(height, self.rules.network_difficulty);
        state.assignments.replace_template(template, now);
    }

    pub(crate) fn template(&self) -> Template {
        Template::clone(&self.state().assignments.template())
    }

    /// The connection is gone; its difficulty is remembered.
    pub(crate) fn disconnect(&self, connection: u64) {
        let mut state = self.state();
        state.assignments.forget(connection);
        if let Some(Session { address, worker, vardiff }) = state.sessions.remove(&connection) {
            state.hints.insert((address, worker), vardiff.difficulty());
        }
    }

    fn hash(&self, assignment: &Assignment, nonce: u64) -> Result<[u8; TAG_BYTES], String> {
        let target = Target::from_difficulty(assignment.difficulty);
        Challenge::new(&assignment.template.header, self.rules.memory_kib, target)
            .and_then(|challenge| challenge.tag(nonce, &Options::default()))
            .map_err(|_| "hash computation failed".to_owned())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lifetimes(rules: &Rules) -> Lifetimes {
    Lifetimes {
        window: rules.window.max(1),
        template_grace: rules.template_grace,
        supersede_grace: rules.supersede_grace,
        ttl: rules.assignment_ttl,
    }
}

/// A claimed hash, or the words of its refusal.
fn tag(text: &str) -> Result<[u8; TAG_BYTES], String> {
    if !text.len().is_multiple_of(2) {
        return Err("hex length must be even".to_owned());
    }
    let bytes = hex::decode(text).map_err(|_| "invalid hex".to_owned())?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| format!("expected 32-byte hash, got {length} bytes"))
}

const ADDRESS_CHARS_MAX: usize = 128;
const WORKER_CHARS_MAX: usize = 64;
const PROVISIONAL_MAX: usize = 200;
const PROVISIONAL_WINDOW: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn login(address: &str) -> Login {
        Login {
            address: address.to_owned(),
            worker: " rig ".to_owned(),
            protocol_version: 2,
            capabilities: vec!["submit_claimed_hash".to_owned()],
            difficulty_hint: None,
        }
    }

    fn miner(rules: Rules) -> (Book, Assignment, Instant) {
        let (book, now) = (Book::new(rules), Instant::now());
        book.login(1, &login(&address::sample(1, Network::Main)), now).expect("it may log in");
        let job = book.give(1, now).expect("it is logged in");
        (book, job, now)
    }

    /// A nonce of the job's window that meets its target, or does not, and its tag.
    fn nonce(book: &Book, job: &Assignment, meets: bool) -> Submit {
        let target = Target::from_difficulty(job.difficulty);
        (job.first..=job.last)
            .map(|nonce| (nonce, book.hash(job, nonce).expect("it can be hashed")))
            .find(|(_, tag)| target.is_met_by(tag) == meets)
            .map(|(nonce, tag)| Submit {
                job_id: job.job_id.clone(),
                nonce,
                claimed_hash: Some(hex::encode(&tag)),
            })
            .expect("every other nonce does")
    }

    #[test]
    fn logins_are_refused_in_the_pools_words() {
        let book = Book::new(Rules::small());
        let now = Instant::now();
        let good = login(&address::sample(1, Network::Main));
        let refused = |login: Login, expect: &str| {
            assert_eq!(book.login(1, &login, now), Err(expect.to_owned()));
        };
        refused(login("  "), "invalid address");
        refused(login(&"1".repeat(129)), "invalid address");
        refused(login("0"), "invalid address: invalid base58 address");
        refused(
            login(&address::sample(1, Network::Test)),
            "invalid address: invalid address checksum",
        );
        refused(
            Login { protocol_version: 1, ..good.clone() },
            "pool requires protocol_version >= 2",
        );
        refused(
            Login { capabilities: vec!["login_negotiation".into()], ..good.clone() },
            "pool requires submit_claimed_hash capability",
        );
        assert_eq!(book.login(1, &good, now), Ok(()));
        let old = Book::new(Rules { claims_required: false, ..Rules::small() });
        let plain = Login { protocol_version: 1, capabilities: Vec::new(), ..good };
        assert_eq!(old.login(1, &plain, now), Ok(()));
    }

    #[test]
    fn shares_are_judged_in_the_pools_words() {
        let (book, job, now) = miner(Rules::small());
        let good = nonce(&book, &job, true);
        let check = |submit: &Submit, expect: &str| {
            assert_eq!(book.submit(1, submit, now, None).map(|_| ()), Err(expect.to_owned()));
        };
        assert_eq!(book.submit(2, &good, now, None), Err("not logged in".to_owned()));
        check(&Submit { job_id: "x".into(), ..good.clone() }, "stale job: assignment not found");
        check(&Submit { nonce: job.last + 1, ..good.clone() }, "nonce out of assigned range");
        check(&Submit { claimed_hash: None, ..good.clone() }, "claimed hash required");
        check(
            &Submit { claimed_hash: Some("abc".into()), ..good.clone() },
            "hex length must be even",
        );
        check(&Submit { claimed_hash: Some("zz".into()), ..good.clone() }, "invalid hex");
        check(
            &Submit { claimed_hash: Some("00".into()), ..good.clone() },
            "expected 32-byte hash, got 1 bytes",
        );
        let accepted = book.submit(1, &good, now, None).expect("it is good");
        assert!(accepted.verified && !accepted.block && accepted.next_difficulty.is_none());
        check(&good, "duplicate share");
        check(&nonce(&book, &job, false), "low difficulty share");

        let other = login(&address::sample(2, Network::Main));
        book.login(2, &other, now).expect("it may log in");
        let foreign = Submit { nonce: good.nonce + 1, ..good };
        assert_eq!(
            book.submit(2, &foreign, now, None),
            Err("job not assigned to this miner".to_owned())
        );
    }

    #[test]
    fn a_hash_that_cannot_be_computed_is_said_to_be_so() {
        // Less memory than Argon2 takes.
        let (book, job, now) = miner(Rules { memory_kib: 7, ..Rules::small() });
        let claimed_hash = Some("00".repeat(32));
        let submit = Submit { job_id: job.job_id, nonce: job.first, claimed_hash };
        assert_eq!(book.submit(1, &submit, now, None), Err("hash computation failed".to_owned()));
    }

    #[test]
    fn false_hashes_bring_quarantine() {
        let (book, job, now) = miner(Rules::small());
        for nonce in 0..3 {
            let lie = Submit {
                job_id: job.job_id.clone(),
                nonce: job.first + nonce,
                claimed_hash: Some("00".repeat(31) + "01"),
            };
            assert_eq!(book.submit(1, &lie, now, None), Err("invalid share proof".to_owned()));
        }
        let next = Submit { nonce: job.first + 3, ..nonce(&book, &job, true) };
        let words = book.submit(1, &next, now, None).expect_err("it is quarantined");
        let start = "address quarantined: invalid share proof (fraud strikes=3, until ";
        assert!(words.starts_with(start), "{words}");
        assert!(words.ends_with("Z, remaining 1h)"), "{words}");
        let again = login(&address::sample(1, Network::Main));
        // A restart changes nothing about it.
        book.restart();
        let words = book.login(1, &again, now + Duration::from_secs(1)).expect_err("it is still");
        assert!(words.ends_with("Z, remaining 59m 59s)"), "{words}");
        let later = now + Duration::from_secs(3601);
        assert_eq!(book.login(1, &again, later), Ok(()));
    }

    /// A share that was sent again after a restart: its job is not known any more, so the pool
    /// says stale, whether it had counted the share or not.
    #[test]
    fn a_job_from_before_a_restart_is_stale_before_it_is_a_duplicate() {
        let (book, job, now) = miner(Rules::small());
        let good = nonce(&book, &job, true);
        assert!(book.submit(1, &good, now, None).is_ok());
        assert_eq!(book.submit(1, &good, now, None), Err("duplicate share".to_owned()));
        book.restart();
        assert_eq!(book.submit(1, &good, now, None), Err("not logged in".to_owned()));
        book.login(2, &login(&address::sample(1, Network::Main)), now).expect("it may log in");
        let words = Err("stale job: assignment not found".to_owned());
        assert_eq!(book.submit(2, &good, now, None), words);
    }

    #[test]
    fn a_block_that_the_node_refuses_counts_as_no_share() {
        let (book, job, now) = miner(Rules { network_difficulty: 1, ..Rules::small() });
        let good = nonce(&book, &job, true);
        let words = r#"submitblock 400: {"error":"block rejected as stale"}"#;
        assert_eq!(book.submit(1, &good, now, Some(words)), Err(words.to_owned()));
        assert!(book.submit(1, &good, now, None).is_ok_and(|accepted| accepted.block));
    }

    #[test]
    fn claims_are_believed_after_the_first_shares() {
        let rules = Rules {
            full_verify: false,
            warmup_shares: 1,
            sample_every: 0,
            sample_per_mille: 0,
            difficulty: 1,
            ..Rules::small()
        };
        let (book, job, now) = miner(rules);
        let claim = |nonce, claimed: &str| Submit {
            job_id: job.job_id.clone(),
            nonce: job.first + nonce,
            claimed_hash: Some(claimed.to_owned()),
        };
        // At difficulty 1 every nonce is good, so this is the first.
        let first = nonce(&book, &job, true);
        assert!(book.submit(1, &first, now, None).expect("it is good").verified);
        let believed =
            book.submit(1, &claim(1, &"7f".repeat(32)), now, None).expect("it is believed");
        assert!(!believed.verified);
    }

    #[test]
    fn submits_have_a_limit() {
        let (book, job, now) = miner(Rules { submits_max: 1, ..Rules::small() });
        let submit = Submit { job_id: job.job_id, nonce: 0, claimed_hash: None };
        assert_ne!(book.submit(1, &submit, now, None), Err("rate limited, retry".to_owned()));
        assert_eq!(book.submit(1, &submit, now, None), Err("rate limited, retry".to_owned()));
    }

    #[test]
    fn difficulty_follows_shares_and_is_remembered() {
        let rules = Rules {
            vardiff: Some(VardiffRules {
                elapsed_min: Duration::ZERO,
                pause: Duration::ZERO,
                ..VardiffRules::default()
            }),
            difficulty: 1,
            ..Rules::small()
        };
        let (book, job, now) = miner(rules);
        let mut next = None;
        for step in 0..2 {
            let tag = book.hash(&job, job.first + step).expect("it can be hashed");
            let share = Submit {
                job_id: job.job_id.clone(),
                nonce: job.first + step,
                claimed_hash: Some(hex::encode(&tag)),
            };
            let at = now + Duration::from_millis(step * 10);
            next = book.submit(1, &share, at, None).expect("it is good").next_difficulty;
        }
        assert_eq!(next, Some(2));
        assert_eq!(book.give(1, now).map(|job| job.difficulty), Some(2));
        book.disconnect(1);
        let again = login(&address::sample(1, Network::Main));
        book.login(5, &again, now).expect("it may log in");
        assert_eq!(book.give(5, now).map(|job| job.difficulty), Some(2));
        book.login(6, &Login { difficulty_hint: Some(100), ..again }, now).expect("it may log in");
        assert_eq!(book.give(6, now).map(|job| job.difficulty), Some(8));
    }
}
