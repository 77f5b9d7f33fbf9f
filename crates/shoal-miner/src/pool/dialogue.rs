//! Who says what when, without sockets and with the time handed in.
//!
//! One dialogue lasts as long as the miner; connections come and go below it. On each it logs in,
//! takes jobs, and sells shares: at most so many at a time, the others wait. A share whose answer
//! was lost with a connection is sent once more on the next; that the pool has it already then
//! means that it counted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_stdx::hex;

use crate::pool::Refusal;
use crate::pool::message::{
    Incoming, Job, LoginParams, LoginResult, Request, SubmitParams, SubmitResult,
};
use crate::source::{Share, SourceError, Task, Verdict, clean};
use crate::work::Handover;

/// Who logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who is paid.
    pub address: String,
    /// The name of this machine at the pool.
    pub worker: String,
}

/// How long things take and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the answer to a login.
    pub login: Duration,
    /// For the first job after a login, and for the next after a window is used up.
    pub job: Duration,
    /// For the answer to a share.
    pub ack: Duration,
    /// After that, how long an answer that comes late is still recognised.
    pub late_ack: Duration,
    /// Shares under way at a time.
    pub in_flight: usize,
    /// Shares that wait.
    pub waiting: usize,
    /// How long a share may wait before it is not worth sending.
    pub patience: Duration,
    /// How long a share waits that is to be sent again; doubled each time.
    pub retry: Duration,
    /// How often a share is sent.
    pub attempts: u32,
    /// Silence after which an empty line is sent.
    pub keepalive: Duration,
    /// Stale shares within [`Self::stale_window`] that make us log in again.
    pub stale_max: usize,
    /// See above.
    pub stale_window: Duration,
    /// A share that comes this much too late makes us log in again.
    pub stale_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            login: Duration::from_secs(15),
            job: Duration::from_secs(60),
            ack: Duration::from_secs(30),
            late_ack: Duration::from_secs(120),
            in_flight: 16,
            waiting: 4096,
            patience: Duration::from_secs(60),
            retry: Duration::from_millis(200),
            attempts: 4,
            keepalive: Duration::from_secs(10),
            stale_max: 3,
            stale_window: Duration::from_secs(60),
            stale_for: Duration::from_secs(15),
        }
    }
}

/// What a dialogue asks the world to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send these bytes, line feed included.
    Send(Vec<u8>),
    /// The pool let us in.
    LoggedIn {
        /// The protocol agreed on, 1 or 2.
        protocol: u64,
        /// Whether shares carry their hash.
        claims: bool,
    },
    /// Work on this instead of what was before.
    Task(Arc<Task>),
    /// What became of a share.
    Verdict {
        /// The share.
        share: Share,
        /// What became of it.
        verdict: Verdict,
    },
    /// The pool has something to say to people.
    Notice {
        /// What it is about.
        kind: String,
        /// The words.
        message: String,
    },
    /// Something people should know.
    Warning(String),
    /// Close the connection and open another after a while.
    Reconnect(String),
    /// Close the connection for good.
    Fail(SourceError),
}

/// The miner's side of the protocol.
#[derive(Debug)]
pub struct Dialogue {
    identity: Identity,
    limits: Limits,
    phase: Phase,
    claims: bool,
    /// The pool takes a difficulty hint with a login.
    hints: bool,
    difficulty: Option<u64>,
    next_id: u64,
    job: Option<Arc<Task>>,
    /// When a job is due: since the login, or since the window was used up.
    job_wanted: Option<Instant>,
    in_flight: BTreeMap<u64, UnderWay>,
    /// Shares that nobody answered in time; an answer may still come.
    unanswered: HashMap<u64, UnderWay>,
    waiting: VecDeque<Waiting>,
    stale: VecDeque<Instant>,
    /// Lines in a row that could not be read.
    nonsense: u32,
    last_sent: Instant,
    silent_acks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Apart,
    LoggingIn { since: Instant },
    Agreed,
}

#[derive(Clone, Debug)]
struct UnderWay {
    share: Share,
    sent: Instant,
    attempt: u32,
    /// It was under way before, on a connection that broke.
    again: bool,
}

#[derive(Clone, Debug)]
struct Waiting {
    share: Share,
    not_before: Instant,
    attempt: u32,
    again: bool,
}

impl Dialogue {
    /// A dialogue that has not begun.
    pub fn new(identity: Identity, limits: Limits, now: Instant) -> Self {
        Self {
            identity,
            limits,
            phase: Phase::Apart,
            claims: true,
            hints: false,
            difficulty: None,
            next_id: FIRST_SUBMIT,
            job: None,
            job_wanted: None,
            in_flight: BTreeMap::new(),
            unanswered: HashMap::new(),
            waiting: VecDeque::new(),
            stale: VecDeque::new(),
            nonsense: 0,
            last_sent: now,
            silent_acks: 0,
        }
    }

    /// A connection is there: the login.
    pub fn connected(&mut self, now: Instant) -> Vec<Effect> {
        self.phase = Phase::LoggingIn { since: now };
        self.job = None;
        self.job_wanted = None;
        self.stale.clear();
        self.nonsense = 0;
        self.silent_acks = 0;
        // Numbers go on counting: an answer to the last connection's share is nobody's here.
        let hint = self.difficulty.filter(|_| self.hints);
        let request = Request {
            id: LOGIN,
            method: "login",
            params: LoginParams {
                address: &self.identity.address,
                worker: &self.identity.worker,
                protocol_version: 2,
                capabilities: &CAPABILITIES,
                difficulty_hint: hint,
            },
        };
        let line = request.line();
        vec![self.send(line, now)]
    }

    /// The connection is gone: what was under way waits for the next.
    pub fn disconnected(&mut self, now: Instant) -> Vec<Effect> {
        self.phase = Phase::Apart;
        self.unanswered.clear();
        let lost = std::mem::take(&mut self.in_flight);
        let mut effects = Vec::new();
        for under_way in lost.into_values().rev() {
            if under_way.again || under_way.attempt >= self.limits.attempts {
                let reason = "the connection broke before the answer came";
                effects.push(lost_share(under_way.share, reason));
                continue;
            }
            self.waiting.push_front(Waiting {
                share: under_way.share,
                not_before: now,
                attempt: under_way.attempt,
                again: true,
            });
        }
        effects
    }

    /// A line came.
    pub fn receive(&mut self, line: &[u8], now: Instant) -> Vec<Effect> {
        self.silent_acks = 0;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Vec::new();
        }
        match Incoming::read(line) {
            Ok(incoming) => {
                self.nonsense = 0;
                match incoming {
                    Incoming::Reply { id: LOGIN, outcome } if self.phase != Phase::Agreed => {
                        self.login_answer(outcome, now)
                    }
                    Incoming::Reply { id, outcome } => self.submit_answer(id, outcome, now),
                    Incoming::Job(job) => self.take_job(job),
                    Incoming::Notice { kind, message } => vec![Effect::Notice { kind, message }],
                    Incoming::Unknown { method } => {
                        vec![Effect::Warning(format!("the pool says what nobody knows: {method}"))]
                    }
                }
            }
            Err(error) => {
                self.nonsense += 1;
                if self.nonsense > NONSENSE_MAX {
                    let reason = format!("the pool talks nonsense: {error}");
                    return vec![Effect::Reconnect(reason)];
                }
                vec![Effect::Warning(format!("a line of the pool makes no sense: {error}"))]
            }
        }
    }

    /// A share to be sold.
    pub fn sell(&mut self, share: Share, now: Instant) -> Vec<Effect> {
        if self.waiting.len() >= self.limits.waiting {
            return vec![lost_share(share, "too many shares wait")];
        }
        self.waiting.push_back(Waiting { share, not_before: now, attempt: 0, again: false });
        self.send_waiting(now)
    }

    /// The window of the job is used up.
    pub fn window_done(&mut self, job_id: &str, now: Instant) {
        if self.job.as_ref().is_some_and(|job| job.id == job_id) {
            self.job_wanted.get_or_insert(now);
        }
    }

    /// Time passes. Called at [`Self::next_deadline`] or later.
    pub fn tick(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Phase::LoggingIn { since } = self.phase
            && now - since >= self.limits.login
        {
            effects.push(Effect::Reconnect("the pool does not answer the login".to_owned()));
            return effects;
        }
        if let Some(since) = self.job_wanted
            && now - since >= self.limits.job
        {
            effects.push(Effect::Reconnect("the pool sends no job".to_owned()));
            return effects;
        }
        let overdue: Vec<u64> = self
            .in_flight
            .iter()
            .filter(|(_, under_way)| now - under_way.sent >= self.limits.ack)
            .map(|(&id, _)| id)
            .collect();
        for id in overdue {
            if let Some(under_way) = self.in_flight.remove(&id) {
                self.silent_acks += 1;
                self.unanswered.insert(id, under_way);
            }
        }
        if self.silent_acks >= SILENT_ACKS_MAX {
            effects.push(Effect::Reconnect("the pool does not answer shares".to_owned()));
            return effects;
        }
        let gone: Vec<u64> = self
            .unanswered
            .iter()
            .filter(|(_, under_way)| now - under_way.sent >= self.limits.ack + self.limits.late_ack)
            .map(|(&id, _)| id)
            .collect();
        for id in gone {
            if let Some(under_way) = self.unanswered.remove(&id) {
                effects.push(lost_share(under_way.share, "the pool never answered"));
            }
        }
        let patience = self.limits.patience;
        let (keep, stale): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| now.saturating_duration_since(waiting.share.found) < patience);
        self.waiting = keep;
        effects.extend(
            stale.into_iter().map(|waiting| lost_share(waiting.share, "it waited for too long")),
        );
        effects.extend(self.send_waiting(now));
        if self.phase == Phase::Agreed
            && self.in_flight.is_empty()
            && now - self.last_sent >= self.limits.keepalive
        {
            effects.push(self.send(b"\n".to_vec(), now));
        }
        effects
    }

    /// When [`Self::tick`] has something to do at the latest.
    pub fn next_deadline(&self, now: Instant) -> Instant {
        let mut deadline = now + TICK_MAX;
        let mut at = |moment: Instant| deadline = deadline.min(moment);
        match self.phase {
            Phase::Apart => {}
            Phase::LoggingIn { since } => at(since + self.limits.login),
            Phase::Agreed => {
                at(self.last_sent + self.limits.keepalive);
                if self.in_flight.len() < self.limits.in_flight
                    && let Some(next) = self.waiting.iter().map(|waiting| waiting.not_before).min()
                {
                    at(next);
                }
            }
        }
        if let Some(since) = self.job_wanted {
            at(since + self.limits.job);
        }
        if let Some(first) = self.in_flight.values().map(|under_way| under_way.sent).min() {
            at(first + self.limits.ack);
        }
        deadline.max(now)
    }

    /// Shares that are not answered yet.
    pub fn unsettled(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    fn login_answer(
        &mut self,
        outcome: Result<Option<serde_json::Value>, String>,
        now: Instant,
    ) -> Vec<Effect> {
        let result = match outcome {
            Ok(result) => result,
            Err(words) => return vec![login_refused(words)],
        };
        let protocol = match result {
            // A pool of protocol 1 answers without a result, and takes hashes it did not ask for.
            None => {
                (self.claims, self.hints) = (true, false);
                1
            }
            Some(result) => {
                let agreed: LoginResult = match serde_json::from_value(result) {
                    Ok(agreed) => agreed,
                    Err(error) => {
                        let reason = format!("login: result: {}", clean(&error.to_string()));
                        return vec![Effect::Reconnect(reason)];
                    }
                };
                let known = |name: &String| CAPABILITIES.contains(&normal(name).as_str());
                if let Some(name) = agreed.required_capabilities.iter().find(|name| !known(name)) {
                    return vec![Effect::Fail(SourceError::UnknownCapability(clean(name)))];
                }
                let has = |list: &[String], name| list.iter().any(|item| normal(item) == name);
                let version = agreed.protocol_version.unwrap_or(1);
                self.claims = has(&agreed.capabilities, CLAIMS)
                    || has(&agreed.required_capabilities, CLAIMS)
                    || (version < 2 && agreed.capabilities.is_empty());
                self.hints = has(&agreed.capabilities, HINTS);
                version.clamp(1, 2)
            }
        };
        self.phase = Phase::Agreed;
        self.job_wanted = Some(now);
        let mut effects = vec![Effect::LoggedIn { protocol, claims: self.claims }];
        effects.extend(self.send_waiting(now));
        effects
    }

    fn take_job(&mut self, job: Job) -> Vec<Effect> {
        if self.phase != Phase::Agreed {
            return vec![Effect::Warning("a job came before the login was answered".to_owned())];
        }
        if job.difficulty.is_some() {
            self.difficulty = job.difficulty;
        }
        let task = Arc::new(Task {
            difficulty: job.difficulty.unwrap_or_else(|| difficulty_of(&job)),
            id: job.id,
            header: job.header,
            target: job.target,
            network_target: job.network_target,
            nonces: job.first..job.last + 1,
            height: job.height,
            // The pool takes shares of the job before for some seconds, those of an old block, too:
            // to give up what is under way would be a loss.
            handover: Handover::Finish,
            pause_on_solution: false,
        });
        self.job = Some(Arc::clone(&task));
        self.job_wanted = None;
        vec![Effect::Task(task)]
    }

    fn submit_answer(
        &mut self,
        id: u64,
        outcome: Result<Option<serde_json::Value>, String>,
        now: Instant,
    ) -> Vec<Effect> {
        let Some(under_way) = self.in_flight.remove(&id).or_else(|| self.unanswered.remove(&id))
        else {
            // The second answer to the same share, or one to a connection that is gone.
            let what = outcome.err().map_or_else(String::new, |words| format!(": {words}"));
            return vec![Effect::Warning(format!("the pool answers request {id}{what}"))];
        };
        let mut effects = match outcome {
            Ok(result) => {
                let result = result.unwrap_or_else(|| serde_json::json!({}));
                match serde_json::from_value::<SubmitResult>(result) {
                    Ok(SubmitResult { accepted: true, verified, difficulty }) => {
                        // A hint for the next login only: the job tells what counts. The answer
                        // to a share of an earlier job repeats that job's difficulty.
                        if self.is_current(&under_way.share) {
                            self.difficulty = difficulty.or(self.difficulty);
                        }
                        vec![verdict(under_way.share, Verdict::Accepted { verified })]
                    }
                    Ok(_) => vec![refused(under_way.share, "not accepted".to_owned(), false)],
                    Err(error) => {
                        let words = format!("submit: result: {}", clean(&error.to_string()));
                        vec![refused(under_way.share, words, false)]
                    }
                }
            }
            Err(words) => self.refusal(under_way, words, now),
        };
        effects.extend(self.send_waiting(now));
        effects
    }

    fn is_current(&self, share: &Share) -> bool {
        self.job.as_ref().is_some_and(|job| job.id == share.task.id)
    }

    fn refusal(&mut self, under_way: UnderWay, words: String, now: Instant) -> Vec<Effect> {
        let UnderWay { share, attempt, again, .. } = under_way;
        match Refusal::read(&words) {
            Refusal::Duplicate if again => {
                vec![verdict(share, Verdict::Accepted { verified: false })]
            }
            Refusal::Later if attempt < self.limits.attempts => {
                let wait = self.limits.retry.saturating_mul(1 << attempt.min(8)).min(RETRY_MAX);
                self.waiting.push_back(Waiting { share, not_before: now + wait, attempt, again });
                Vec::new()
            }
            Refusal::Stale { unknown_job, stale_for } => {
                let current = self.is_current(&share);
                let long = stale_for.is_some_and(|time| time >= self.limits.stale_for);
                self.stale.push_back(now);
                while self.stale.front().is_some_and(|&at| now - at > self.limits.stale_window) {
                    self.stale.pop_front();
                }
                // Of a share from before this connection nothing can be told about this one.
                let sync = !again
                    && (current
                        || unknown_job
                        || long
                        || self.stale.len() >= self.limits.stale_max);
                let mut effects = vec![refused(share, words, true)];
                if sync {
                    effects.push(Effect::Reconnect("shares come too late".to_owned()));
                }
                effects
            }
            Refusal::NotLoggedIn => {
                vec![
                    refused(share, words, false),
                    Effect::Reconnect("the pool forgot us".to_owned()),
                ]
            }
            Refusal::Quarantined => {
                let warning = Effect::Warning(words.clone());
                vec![refused(share, words, false), warning]
            }
            Refusal::Duplicate | Refusal::Later | Refusal::Wrong => {
                vec![refused(share, words, false)]
            }
        }
    }

    fn send_waiting(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.phase != Phase::Agreed {
            return effects;
        }
        while self.in_flight.len() < self.limits.in_flight {
            let ready = self.waiting.iter().position(|waiting| waiting.not_before <= now);
            let Some(waiting) = ready.and_then(|at| self.waiting.remove(at)) else { break };
            let Waiting { share, attempt, again, .. } = waiting;
            let id = self.next_id;
            self.next_id += 1;
            let claimed_hash = self.claims.then(|| hex::encode(&share.tag));
            let params = SubmitParams { job_id: &share.task.id, nonce: share.nonce, claimed_hash };
            let line = Request { id, method: "submit", params }.line();
            effects.push(self.send(line, now));
            let under_way = UnderWay { share, sent: now, attempt: attempt + 1, again };
            self.in_flight.insert(id, under_way);
        }
        effects
    }

    fn send(&mut self, line: Vec<u8>, now: Instant) -> Effect {
        self.last_sent = now;
        Effect::Send(line)
    }
}

/// Whether the pool refuses for good, or for now.
fn login_refused(words: String) -> Effect {
    let for_good = ["invalid address", "pool requires", "invalid login params"];
    if for_good.iter().any(|start| words.starts_with(start)) {
        return Effect::Fail(SourceError::LoginRefused(words));
    }
    Effect::Reconnect(format!("the pool refused the login: {words}"))
}

/// The difficulty that a target stands for, as far as its first 16 bytes tell.
fn difficulty_of(job: &Job) -> u64 {
    let bytes = job.target.to_bytes();
    let mut head = [0; 16];
    head.copy_from_slice(&bytes[..16]);
    let head = u128::from_be_bytes(head);
    u64::try_from(u128::MAX / head.max(1)).unwrap_or(u64::MAX)
}

fn normal(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

fn verdict(share: Share, verdict: Verdict) -> Effect {
    Effect::Verdict { share, verdict }
}

fn refused(share: Share, reason: String, stale: bool) -> Effect {
    verdict(share, Verdict::Refused { reason, stale })
}

fn lost_share(share: Share, reason: &'static str) -> Effect {
    verdict(share, Verdict::Lost { reason })
}

const LOGIN: u64 = 1;
const FIRST_SUBMIT: u64 = 2;
const CLAIMS: &str = "submit_claimed_hash";
const HINTS: &str = "difficulty_hint";
const CAPABILITIES: [&str; 4] = ["login_negotiation", "share_validation_status", CLAIMS, HINTS];
const NONSENSE_MAX: u32 = 64;
const SILENT_ACKS_MAX: u32 = 3;
const RETRY_MAX: Duration = Duration::from_secs(2);
const TICK_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
