//! Who says what when, without sockets and with the time handed in.
//!
//! One dialogue lasts as long as the miner; connections come and go below it. On each it logs in,
//! takes jobs, and sells shares: at most so many at a time, the others wait.
//!
//! A share whose answer was lost with a connection is sent again on the next. `duplicate share`
//! then means: the pool had counted it. `stale job` means nothing: pools look for the job
//! before they look for the share, and a restarted pool has forgotten its jobs and not
//! its shares. The fate of such a share is told as unknown.
//!
//! Only shares of this connection's jobs show jobs out of step. Before hanging
//! up, a dialogue waits a moment for due answers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_stdx::hex;

use crate::pool::blocks::Blocks;
use crate::pool::message::{
    Incoming, Job, LoginParams, LoginResult, Request, SubmitParams, SubmitResult,
};
use crate::pool::refusal::{self, Refusal};
use crate::pool::step::InStep;
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
    /// Longest delay of a recognised answer, counted from then.
    pub late_ack: Duration,
    /// Shares under way at a time.
    pub in_flight: usize,
    /// With as many shares under way as there may be, the longest time without any answer.
    pub stall: Duration,
    /// Most shares waiting.
    pub waiting: usize,
    /// Greatest age of a share worth sending.
    pub patience: Duration,
    /// Wait before a share is sent again; doubled each time.
    pub retry: Duration,
    /// How often a share is sent.
    pub attempts: u32,
    /// Longest wait for due answers before hanging up.
    pub farewell: Duration,
    /// How long an address is taken to be shut out when the pool does not say.
    pub quarantine: Duration,
    /// Silence before an empty line is sent.
    pub keepalive: Duration,
    /// So many stale shares of this connection's jobs, in a row of the job of the moment or within
    /// [`Self::stale_window`], make us log in again.
    pub stale_max: usize,
    /// See above.
    pub stale_window: Duration,
    /// A share of this connection's jobs so much too late makes us log in again.
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
            stall: Duration::from_secs(10),
            waiting: 4096,
            patience: Duration::from_secs(60),
            retry: Duration::from_millis(200),
            attempts: 8,
            farewell: Duration::from_secs(2),
            quarantine: Duration::from_secs(15 * 60),
            keepalive: Duration::from_secs(10),
            stale_max: 3,
            stale_window: Duration::from_secs(60),
            stale_for: Duration::from_secs(15),
        }
    }
}

/// An effect of a dialogue on the world, to be carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send these bytes, line feed included.
    Send(Vec<u8>),
    /// The pool let us in.
    LoggedIn {
        /// The protocol agreed on, 1 or 2.
        protocol: u64,
        /// `true` for shares with their hash.
        claims: bool,
    },
    /// Work on this from now on.
    Task(Arc<Task>),
    /// The verdict on a share.
    Verdict {
        /// The share.
        share: Share,
        /// Its fate.
        verdict: Verdict,
    },
    /// The pool has something to say to people.
    Notice {
        /// The subject.
        kind: String,
        /// The words.
        message: String,
    },
    /// The fate of a share told as unknown before.
    Settled {
        /// The share.
        share: Share,
        /// Its fate.
        verdict: Verdict,
    },
    /// Stop working until the next task: nobody would buy a share.
    Pause {
        /// Why.
        reason: String,
    },
    /// Something people should know.
    Warning(String),
    /// Close the connection and open another.
    Reconnect {
        /// Why.
        reason: String,
        /// When.
        retry: Retry,
    },
    /// Close the connection for good.
    Fail(SourceError),
}

/// When the next connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After a wait, longer from failure to failure.
    Backoff,
    /// Soon: this one worked, and a new login puts jobs in step again.
    Soon,
    /// After this time.
    After(Duration),
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
    /// Shares without an answer in time; an answer may still come.
    unanswered: HashMap<u64, UnderWay>,
    waiting: VecDeque<Waiting>,
    in_step: InStep,
    blocks: Blocks,
    /// Shares accepted on this connection.
    accepted: u64,
    /// Set when this connection is to be closed after the due answers.
    leaving: Option<Leaving>,
    /// The pool shut the address out: until the next login, no share is kept.
    shut_out: bool,
    /// Unreadable lines in a row.
    nonsense: u32,
    last_sent: Instant,
    last_answer: Instant,
    silent_acks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Apart,
    LoggingIn { since: Instant },
    Agreed,
}

#[derive(Clone, Debug)]
struct Leaving {
    since: Instant,
    reason: String,
    /// `None` for a login to put jobs in step again.
    retry: Option<Retry>,
}

#[derive(Clone, Debug)]
struct UnderWay {
    share: Share,
    sent: Instant,
    attempt: u32,
    /// Under way before, on a broken connection.
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
    /// A dialogue before its first connection.
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
            in_step: InStep::default(),
            blocks: Blocks::default(),
            accepted: 0,
            leaving: None,
            shut_out: false,
            nonsense: 0,
            last_sent: now,
            last_answer: now,
            silent_acks: 0,
        }
    }

    /// A connection is there: the login.
    pub fn connected(&mut self, now: Instant) -> Vec<Effect> {
        self.phase = Phase::LoggingIn { since: now };
        self.job = None;
        self.job_wanted = None;
        self.in_step = InStep::default();
        self.accepted = 0;
        self.leaving = None;
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

    /// The connection is gone: shares under way wait for the next.
    pub fn disconnected(&mut self, now: Instant) -> Vec<Effect> {
        self.phase = Phase::Apart;
        self.leaving = None;
        let mut lost: Vec<UnderWay> = self.unanswered.drain().map(|(_, one)| one).collect();
        lost.extend(std::mem::take(&mut self.in_flight).into_values());
        lost.sort_by_key(|under_way| under_way.sent);
        let mut effects = Vec::new();
        for UnderWay { share, attempt, .. } in lost.into_iter().rev() {
            if attempt >= self.limits.attempts || self.shut_out {
                effects.extend(self.unknown(share, ANSWER_LOST));
                continue;
            }
            self.waiting.push_front(Waiting { share, not_before: now, attempt, again: true });
        }
        effects
    }

    /// Shares accepted on this connection, or on the last one while there is none.
    pub fn accepted(&self) -> u64 {
        self.accepted
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
                    Incoming::Notice { kind, message } => self.notice(kind, message),
                    Incoming::Unknown { method } => {
                        vec![Effect::Warning(format!("the pool says what nobody knows: {method}"))]
                    }
                }
            }
            Err(error) => {
                self.nonsense += 1;
                if self.nonsense > NONSENSE_MAX {
                    let reason = format!("the pool talks nonsense: {error}");
                    return vec![Effect::Reconnect { reason, retry: Retry::Backoff }];
                }
                vec![Effect::Warning(format!("a line of the pool makes no sense: {error}"))]
            }
        }
    }

    /// A share to be sold.
    pub fn sell(&mut self, share: Share, now: Instant) -> Vec<Effect> {
        if self.shut_out {
            return vec![lost_share(share, SHUT_OUT)];
        }
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
        if let Some(leaving) = &self.leaving {
            if now - leaving.since < self.limits.farewell {
                return Vec::new();
            }
            return self.hang_up();
        }
        if let Phase::LoggingIn { since } = self.phase
            && now - since >= self.limits.login
        {
            let reason = "the pool does not answer the login".to_owned();
            return vec![Effect::Reconnect { reason, retry: Retry::Backoff }];
        }
        if let Some(since) = self.job_wanted
            && now - since >= self.limits.job
        {
            let retry = Some(Retry::Backoff);
            return self.leave("the pool sends no job".to_owned(), retry, now);
        }
        let mut effects = Vec::new();
        if self.stalls_at().is_some_and(|at| now >= at) {
            // Others wait behind these, and are worth less every second.
            let reason = "the pool does not answer shares".to_owned();
            return vec![Effect::Reconnect { reason, retry: self.resync() }];
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
            let reason = "the pool does not answer shares".to_owned();
            effects.push(Effect::Reconnect { reason, retry: Retry::Backoff });
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
                effects.extend(self.unknown(under_way.share, "the pool never answered"));
            }
        }
        let patience = self.limits.patience;
        let (keep, old): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| now.saturating_duration_since(waiting.share.found) < patience);
        self.waiting = keep;
        for Waiting { share, again, .. } in old {
            effects.extend(self.give_up(share, again, "it waited for too long"));
        }
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
        if let Some(leaving) = &self.leaving {
            at(leaving.since + self.limits.farewell);
        }
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
        if let Some(stall) = self.stalls_at() {
            at(stall);
        }
        deadline.max(now)
    }

    /// When unanswered shares that keep others from being sent count as never to be answered.
    fn stalls_at(&self) -> Option<Instant> {
        let full = self.in_flight.len() >= self.limits.in_flight;
        let newest = self.in_flight.values().map(|under_way| under_way.sent).max()?;
        full.then(|| newest.max(self.last_answer) + self.limits.stall)
    }

    /// Shares under way: their answers are due.
    pub fn due(&self) -> usize {
        self.in_flight.len()
    }

    /// Shares without an answer yet.
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
            Err(words) => return self.login_refused(words),
        };
        let protocol = match result {
            // A pool of protocol 1 answers without a result, and takes hashes unasked.
            None => {
                (self.claims, self.hints) = (true, false);
                1
            }
            Some(result) => {
                let agreed: LoginResult = match serde_json::from_value(result) {
                    Ok(agreed) => agreed,
                    Err(error) => {
                        let reason = format!("login: result: {}", clean(&error.to_string()));
                        return vec![Effect::Reconnect { reason, retry: Retry::Backoff }];
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
        self.shut_out = false;
        self.job_wanted = Some(now);
        let mut effects = vec![Effect::LoggedIn { protocol, claims: self.claims }];
        effects.extend(self.send_waiting(now));
        effects
    }

    fn take_job(&mut self, job: Job) -> Vec<Effect> {
        if self.phase != Phase::Agreed {
            return vec![Effect::Warning("a job came before the login was answered".to_owned())];
        }
        if self.shut_out {
            // Shares of this job would be refused like the ones before.
            return Vec::new();
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
            // The pool takes shares of the job before for some seconds, of an old block, too:
            // giving up hashes under way would be a loss.
            handover: Handover::Finish,
        });
        self.in_step.hear(&task.id);
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
        self.last_answer = now;
        let Some(under_way) = self.in_flight.remove(&id).or_else(|| self.unanswered.remove(&id))
        else {
            // The second answer to the same share, or one to a former connection.
            let what = outcome.err().map_or_else(String::new, |words| format!(": {words}"));
            return vec![Effect::Warning(format!("the pool answers request {id}{what}"))];
        };
        let mut effects = match outcome {
            Ok(result) => {
                let result = result.unwrap_or_else(|| serde_json::json!({}));
                match serde_json::from_value::<SubmitResult>(result) {
                    Ok(SubmitResult { accepted: true, verified, difficulty }) => {
                        // A hint for the next login only: the present difficulty is the job's.
                        // Answers to shares of an earlier job repeat the earlier difficulty.
                        if self.is_current(&under_way.share) {
                            self.difficulty = difficulty.or(self.difficulty);
                            self.in_step.accept();
                        }
                        self.accepted += 1;
                        self.blocks.accept(&under_way.share);
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
        if self.leaving.is_some() && self.in_flight.is_empty() {
            effects.extend(self.hang_up());
        } else {
            effects.extend(self.send_waiting(now));
        }
        effects
    }

    fn is_current(&self, share: &Share) -> bool {
        self.job.as_ref().is_some_and(|job| job.id == share.task.id)
    }

    fn refusal(&mut self, under_way: UnderWay, words: String, now: Instant) -> Vec<Effect> {
        let UnderWay { share, attempt, again, .. } = under_way;
        match Refusal::read(&words) {
            // The pool took the first one; its answer was lost.
            Refusal::Duplicate if again => {
                vec![verdict(share, Verdict::Accepted { verified: false })]
            }
            // Refused for now before, so a duplicate can mean either.
            Refusal::Duplicate if attempt > 1 => self.unknown(share, &words),
            Refusal::Later if attempt < self.limits.attempts && !self.shut_out => {
                let wait = self.limits.retry.saturating_mul(1 << attempt.min(8)).min(RETRY_MAX);
                self.waiting.push_back(Waiting { share, not_before: now + wait, attempt, again });
                Vec::new()
            }
            Refusal::Stale { stale_for } => {
                let lost = self.in_step.is_lost(&share.task.id, stale_for, &self.limits, now);
                let mut effects = self.refuse(share, again, words, true);
                if lost {
                    effects.extend(self.leave("shares come too late".to_owned(), None, now));
                }
                effects
            }
            Refusal::StaleBlock => self.refuse(share, again, words, true),
            Refusal::BlockUnsettled => self.unknown(share, &words),
            // The pool did not look at the share: it is good after the next login.
            Refusal::NotLoggedIn if attempt < self.limits.attempts && !self.shut_out => {
                self.waiting.push_back(Waiting { share, not_before: now, attempt, again });
                self.leave("the pool forgot us".to_owned(), None, now)
            }
            Refusal::NotLoggedIn => {
                let mut effects = self.refuse(share, again, words, false);
                effects.extend(self.leave("the pool forgot us".to_owned(), None, now));
                effects
            }
            Refusal::Quarantined { remaining } => {
                let mut effects = self.refuse(share, again, words.clone(), false);
                effects.extend(self.shut_out(words, remaining, now));
                effects
            }
            // Whoever is busy looks at nothing: the fate of the first one stays open.
            Refusal::Later => self.refuse(share, again, words, false),
            Refusal::Duplicate | Refusal::Wrong => vec![refused(share, words, false)],
        }
    }

    /// When to log in again to put jobs in step. A pool without an accepted share since the login
    /// is not asked again and again without a wait.
    fn resync(&self) -> Retry {
        if self.accepted > 0 { Retry::Soon } else { Retry::Backoff }
    }

    /// Sends nothing more; hangs up after the due answers, or soon.
    fn leave(&mut self, reason: String, retry: Option<Retry>, now: Instant) -> Vec<Effect> {
        self.job_wanted = None;
        self.leaving.get_or_insert(Leaving { since: now, reason, retry });
        if self.in_flight.is_empty() { self.hang_up() } else { Vec::new() }
    }

    fn hang_up(&mut self) -> Vec<Effect> {
        let left = self.leaving.take();
        left.into_iter()
            .map(|Leaving { reason, retry, .. }| {
                let retry = retry.unwrap_or_else(|| self.resync());
                Effect::Reconnect { reason, retry }
            })
            .collect()
    }

    /// The pool takes nothing from this address for a while: nothing is worth computing.
    fn shut_out(
        &mut self,
        words: String,
        remaining: Option<Duration>,
        now: Instant,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.shut_out {
            self.shut_out = true;
            let reason = "the pool has shut the address out".to_owned();
            effects.push(Effect::Pause { reason });
            for Waiting { share, again, .. } in std::mem::take(&mut self.waiting) {
                effects.extend(self.give_up(share, again, SHUT_OUT));
            }
        }
        // A second more: the pool's clock must have passed the end, too.
        let time = remaining.unwrap_or(self.limits.quarantine).min(QUARANTINE_MAX) + SECOND;
        effects.extend(self.leave(words, Some(Retry::After(time)), now));
        effects
    }

    /// The login is refused for good, for a while, or for now.
    fn login_refused(&mut self, words: String) -> Vec<Effect> {
        let for_good = ["invalid address", "pool requires", "invalid login params"];
        if for_good.iter().any(|start| words.starts_with(start)) {
            return vec![Effect::Fail(SourceError::LoginRefused(words))];
        }
        let reason = format!("the pool refused the login: {words}");
        if let Some(remaining) = refusal::quarantine(&words) {
            // Nothing is under way before a login.
            return self.shut_out(reason, remaining, self.last_sent);
        }
        vec![Effect::Reconnect { reason, retry: Retry::Backoff }]
    }

    /// The pool's word about a block of ours settles its share, before or after its answer is lost.
    fn notice(&mut self, kind: String, message: String) -> Vec<Effect> {
        let settled = self.blocks.hear(&kind, &message);
        let verdict = Verdict::Accepted { verified: true };
        let mut effects: Vec<Effect> = settled
            .into_iter()
            .map(|share| Effect::Settled { share, verdict: verdict.clone() })
            .collect();
        effects.push(Effect::Notice { kind, message });
        effects
    }

    /// A refusal. Says nothing about a share whose first answer was lost.
    fn refuse(&mut self, share: Share, again: bool, words: String, stale: bool) -> Vec<Effect> {
        if again {
            return self.unknown(share, &format!("its first answer was lost, now: {words}"));
        }
        vec![refused(share, words, stale)]
    }

    /// A share not to be sent, or not again.
    fn give_up(&mut self, share: Share, again: bool, reason: &'static str) -> Vec<Effect> {
        if again { self.unknown(share, ANSWER_LOST) } else { vec![lost_share(share, reason)] }
    }

    /// A sent share of unknown fate. A block confirmed by the pool counts.
    fn unknown(&mut self, share: Share, reason: &str) -> Vec<Effect> {
        if self.blocks.settles(&share) {
            return vec![verdict(share, Verdict::Accepted { verified: true })];
        }
        vec![verdict(share, Verdict::Unknown { reason: reason.to_owned() })]
    }

    fn send_waiting(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.phase != Phase::Agreed || self.leaving.is_some() {
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

/// The difficulty of a target, by its first 16 bytes.
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
const ANSWER_LOST: &str = "its answer was lost";
const SHUT_OUT: &str = "the pool has shut the address out";
const SECOND: Duration = Duration::from_secs(1);
/// The longest quarantine of the real pool.
const QUARANTINE_MAX: Duration = Duration::from_secs(168 * 3600);
const NONSENSE_MAX: u32 = 64;
const SILENT_ACKS_MAX: u32 = 3;
const RETRY_MAX: Duration = Duration::from_secs(2);
const TICK_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
