//! The engine without threads: deals nonces, judges reports, quarantines backends.
//!
//! Inputs go in with the time, outputs come out. The same inputs give the same outputs, so long
//! runs with every fault are tested without a clock.
//!
//! Work is dealt in leases of about a horizon's length at a backend's own pace, and in smaller
//! ones when several backends come to the end of a window, to end together. A backend
//! with a queue has its next lease early.

mod evidence;
mod record;
mod round;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_pow::TAG_BYTES;

use crate::backend::{BackendError, Capabilities, Fence, Hashes, Lease, Report, Telemetry};
use crate::engine::{Allocation, Event, Fault, SpotChecks, Timeouts, Verify, WorkEnd};
use crate::lease::Foreign;
use crate::rate::{Stopwatch, per_second};
use crate::status::{EnginePhase, Status, WorkStatus};
use crate::work::{Handover, Solution, Work};
use evidence::Omission;
use record::{BackendRecord, Kind, Overdue, State};
use round::{Round, Rounds};

/// An input of the scheduler.
pub(crate) enum Input {
    /// A work.
    Assign(Work, Handover),
    /// No more work.
    Cancel(Handover),
    /// Somebody wants to know when nothing is under way.
    Fence { token: u64, deadline: Instant },
    /// The end.
    Stop,
    /// A command came back.
    Acked { backend: usize, outcome: Result<Outcome, Failure>, capabilities: Capabilities },
    /// A backend's thread ended, and so did its reports.
    Gone { backend: usize },
    /// A backend told something.
    Reported { backend: usize, report: Report },
    /// A backend's thread looked at its counters.
    Sampled { backend: usize, hashes: Hashes, telemetry: Telemetry },
    /// The claim given out last was computed again; `Err` when that failed.
    Verified(Result<bool, String>),
    /// Time passed.
    Tick,
}

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Fence(Fence),
}

/// Why a command came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error(BackendError),
    Panic(String),
}

/// A call for a backend's thread. The next one waits for the return of this one.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Start,
    Assign(Lease),
    Cancel(Handover),
    Fence(Instant),
    /// The last one.
    Stop,
}

/// An output of the scheduler.
#[derive(Debug)]
pub(crate) enum Output {
    Command {
        backend: usize,
        command: Command,
    },
    /// Break off the present call of the backend's thread.
    Interrupt {
        backend: usize,
    },
    Verify(Claim),
    Event(Event),
    Fenced {
        token: u64,
        idle: bool,
    },
}

/// A tag to compute again.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) backend: usize,
    pub(crate) work: Arc<Work>,
    pub(crate) nonce: u64,
    pub(crate) tag: [u8; TAG_BYTES],
    /// `true` for a solution; a witness is checked and forgotten.
    pub(crate) solves: bool,
}

/// Constants of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) verify: Verify,
    pub(crate) spot_checks: Option<SpotChecks>,
    pub(crate) allocation: Allocation,
    pub(crate) horizon: Duration,
    pub(crate) timeouts: Timeouts,
    /// Seed of the choice of witnesses to compute again. A secret before backends.
    pub(crate) seed: u64,
}

/// The engine's mind.
pub(crate) struct Scheduler {
    rules: Rules,
    records: Vec<BackendRecord>,
    rounds: Rounds,
    next_lease: u64,
    /// The first is being verified.
    claims: VecDeque<Claim>,
    fences: Vec<Fencing>,
    stopping: bool,
    told_dead: bool,
    started: Instant,
    working: Stopwatch,
    /// Runs from the first backend's readiness to the end.
    ready: Stopwatch,
    solutions: u64,
    false_solutions: u64,
    /// State of the choice of witnesses.
    dice: u64,
    out: Vec<Output>,
}

/// Somebody waits for these backends.
struct Fencing {
    token: u64,
    deadline: Instant,
    waiting: Vec<usize>,
}

impl Scheduler {
    /// Backends to start, by name.
    pub(crate) fn new(
        backends: impl IntoIterator<Item = (Arc<str>, Capabilities)>,
        rules: Rules,
        now: Instant,
    ) -> Self {
        let records =
            backends.into_iter().map(|(name, can)| BackendRecord::new(name, can, now)).collect();
        let mut scheduler = Self {
            rules,
            records,
            rounds: Rounds::default(),
            next_lease: 0,
            claims: VecDeque::new(),
            fences: Vec::new(),
            stopping: false,
            told_dead: false,
            started: now,
            working: Stopwatch::default(),
            ready: Stopwatch::default(),
            solutions: 0,
            false_solutions: 0,
            dice: rules.seed,
            out: Vec::new(),
        };
        for backend in 0..scheduler.records.len() {
            scheduler.command(backend, Command::Start, now);
        }
        scheduler
    }

    /// The outputs so far, in order.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// `true` after a stop, once every backend's thread has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.stopping && self.records.iter().all(|record| record.state == State::Gone)
    }

    /// When to come again with [`Input::Tick`], whatever happens.
    pub(crate) fn wake_at(&self, now: Instant) -> Instant {
        let asks_again = !self.fences.is_empty()
            || self.records.iter().any(|record| matches!(record.state, State::Probed { .. }));
        let at = now + if asks_again { FENCE_EVERY } else { TICK_EVERY };
        let deadline = self.rounds.current.as_ref().and_then(|round| round.work.deadline);
        deadline.map_or(at, |deadline| at.min(deadline.max(now)))
    }

    /// Something happened.
    pub(crate) fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Assign(work, handover) => {
                self.end_round(WorkEnd::Replaced, handover, now);
                let witness = self.rules.spot_checks.map(|checks| checks.difficulty);
                self.rounds.current = Some(Round::new(work, witness, self.next_lease, now));
                if self.stopping {
                    self.end_round(WorkEnd::Stopped, Handover::Abandon, now);
                } else if !self.records.iter().any(BackendRecord::is_alive) {
                    self.end_round(WorkEnd::NoBackend, Handover::Abandon, now);
                }
            }
            Input::Cancel(handover) => self.end_round(WorkEnd::Cancelled, handover, now),
            Input::Fence { token, deadline } => {
                let ready = |(_, record): &(usize, &BackendRecord)| record.state == State::Ready;
                let waiting = self.records.iter().enumerate().filter(ready);
                let waiting = waiting.map(|(backend, _)| backend).collect();
                self.fences.push(Fencing { token, deadline, waiting });
            }
            Input::Stop => self.stop(now),
            Input::Acked { backend, outcome, capabilities } => {
                self.records[backend].capabilities = capabilities;
                self.acked(backend, outcome, now);
            }
            Input::Gone { backend } => self.gone(backend, now),
            Input::Reported { backend, report } => self.reported(backend, report, now),
            Input::Sampled { backend, hashes, telemetry } => {
                self.records[backend].sample(hashes, telemetry, now);
            }
            Input::Verified(result) => self.verified(result, now),
            Input::Tick => self.look_at_clocks(now),
        }
        self.settle(now);
    }

    /// The present state.
    pub(crate) fn status(&self, now: Instant) -> Status {
        let alive = self.records.iter().filter(|record| record.is_alive());
        let total: f64 = alive.filter_map(BackendRecord::pace).sum();
        let share = |record: &BackendRecord| match record.pace() {
            Some(pace) if record.is_alive() && total > 0.0 => pace / total,
            _ => 0.0,
        };
        let backends: Vec<_> =
            self.records.iter().map(|record| record.status(share(record), now)).collect();
        let hashes: u64 = self.records.iter().map(|record| record.hashes().counted).sum();
        let working = self.working.passed(now);
        let ready = self.ready.passed(now);
        Status {
            phase: self.phase(),
            uptime_secs: now.saturating_duration_since(self.started).as_secs_f64(),
            ready_secs: ready.as_secs_f64(),
            working_secs: working.as_secs_f64(),
            rate_now: self.records.iter().map(|record| record.rate_now(now)).sum(),
            rate_average: per_second(hashes, ready),
            hashes,
            late_hashes: self.records.iter().map(|record| record.hashes().late).sum(),
            solutions: self.solutions,
            false_solutions: self.false_solutions,
            work: self.rounds.current.as_ref().map(|round| WorkStatus {
                id: round.work.id,
                tried: round.ledger.tried(),
                nonces: round.ledger.total(),
                age_secs: now.saturating_duration_since(round.begun).as_secs_f64(),
            }),
            backends,
        }
    }

    fn phase(&self) -> EnginePhase {
        if self.stopping {
            EnginePhase::Stopped
        } else if !self.records.iter().any(BackendRecord::is_alive) {
            EnginePhase::Dead
        } else if !self.records.iter().any(|record| record.state == State::Ready) {
            EnginePhase::Starting
        } else if self.rounds.current.is_some() {
            EnginePhase::Working
        } else {
            EnginePhase::Idle
        }
    }

    fn event(&mut self, event: Event) {
        self.out.push(Output::Event(event));
    }

    fn warn(&mut self, backend: usize, text: String) {
        let backend = Some(self.records[backend].name.clone());
        self.event(Event::Warning { backend, text });
    }

    fn command(&mut self, backend: usize, command: Command, now: Instant) {
        self.records[backend].begin(&command, now);
        self.out.push(Output::Command { backend, command });
    }

    // Returns of commands.

    fn acked(&mut self, backend: usize, outcome: Result<Outcome, Failure>, now: Instant) {
        let record = &mut self.records[backend];
        let Some(pending) = record.pending.take() else { return };
        if !record.is_alive() {
            return;
        }
        match (outcome, pending.kind) {
            (Err(Failure::Panic(text)), _) => {
                self.quarantine(backend, Fault::Panicked(text), false, now);
            }
            (Err(Failure::Error(error)), Kind::Start) => {
                self.quarantine(backend, Fault::Start(error), false, now);
            }
            (Err(Failure::Error(error @ BackendError::WorkTooLarge { .. })), Kind::Assign) => {
                self.unfit(backend, pending.lease, &error, now);
            }
            (Err(Failure::Error(error)), _) => {
                self.quarantine(backend, Fault::Failed(error), false, now);
            }
            (Ok(_), Kind::Start) => {
                // A device deaf to a cancel is found out now.
                record.state = State::Probed { since: now };
                self.command(backend, Command::Cancel(Handover::Abandon), now);
            }
            (Ok(_), Kind::Assign) => {
                if pending.overdue == 0 {
                    record.strikes = record.strikes.saturating_sub(1);
                }
            }
            (Ok(Outcome::Fence(Fence::Idle)), Kind::Fence) => {
                if matches!(record.state, State::Probed { .. }) {
                    record.be_ready(now);
                    record.progress_at = now;
                    let backend = record.name.clone();
                    self.event(Event::BackendReady { backend });
                } else if record.held.is_empty() {
                    for fence in &mut self.fences {
                        fence.waiting.retain(|waiting| *waiting != backend);
                    }
                }
            }
            (Ok(_), Kind::Cancel | Kind::Fence | Kind::Stop) => {}
        }
    }

    /// A backend has not the memory for a hash of this work.
    fn unfit(&mut self, backend: usize, lease: Option<u64>, error: &BackendError, now: Instant) {
        self.warn(backend, error.to_string());
        let Some(lease) = lease else { return };
        let Some((round, true)) = self.rounds.of_lease(lease) else { return };
        round.ledger.give_back(lease);
        let record = &mut self.records[backend];
        record.unfit = true;
        record.drop_leases(None, self.rules.horizon, now);
        self.end_if_nobody_is_left(now);
    }

    fn reported(&mut self, backend: usize, report: Report, now: Instant) {
        // Reports of a quarantined backend are void, and its nonces are others' now.
        if !self.records[backend].is_alive() {
            return;
        }
        match report {
            Report::Done { lease, nonces } => {
                let Some((round, current)) = self.rounds.of_lease(lease) else { return };
                let chance = round.chance;
                let done = match round.ledger.done(lease, backend, &nonces) {
                    Ok(done) => done,
                    Err(foreign) => {
                        self.quarantine(backend, fault_of(foreign, &nonces), true, now);
                        return;
                    }
                };
                let count = nonces.end - nonces.start;
                let record = &mut self.records[backend];
                if current {
                    record.did(lease, count, done.complete, self.rules.horizon, now);
                } else {
                    record.progress_at = now;
                }
                if !record.capabilities.trusted
                    && self.rules.spot_checks.is_some()
                    && let Some(omission) = record.evidence.add(count, done.reported, chance)
                {
                    let Omission { nonces, witnesses, expected } = omission;
                    let fault = Fault::LeftOut { nonces, witnesses, expected };
                    self.quarantine(backend, fault, true, now);
                }
            }
            Report::Found { lease, nonce, tag } => self.found(backend, lease, nonce, tag, now),
            Report::Warning(text) => self.warn(backend, text),
            Report::Failed(error) => {
                self.quarantine(backend, Fault::Failed(error), false, now);
            }
        }
    }

    fn found(
        &mut self,
        backend: usize,
        lease: u64,
        nonce: u64,
        tag: [u8; TAG_BYTES],
        now: Instant,
    ) {
        let trusted = self.records[backend].capabilities.trusted;
        let Some((round, _)) = self.rounds.of_lease(lease) else { return };
        let new = match round.ledger.tag(lease, backend, nonce) {
            Ok(new) => new,
            Err(foreign) => {
                let nonces = nonce..nonce.saturating_add(1);
                self.quarantine(backend, fault_of(foreign, &nonces), true, now);
                return;
            }
        };
        let asked = if trusted { &round.work } else { &round.asked };
        if !asked.target.is_met_by(&tag) {
            self.false_solutions += 1;
            self.quarantine(backend, Fault::FalseSolution { nonce }, true, now);
            return;
        }
        let solves = round.work.target.is_met_by(&tag);
        if solves && !round.is_news(nonce) {
            return;
        }
        let claim = Claim { backend, work: round.work.clone(), nonce, tag, solves };
        if !trusted && new {
            self.records[backend].witnesses += 1;
        }
        if !solves {
            if new && self.looks_at_it() {
                self.check(claim);
            }
            return;
        }
        if trusted && self.rules.verify == Verify::Untrusted {
            self.report(claim, now);
            return;
        }
        if self.claims.len() == CLAIMS_MAX {
            self.forget(&claim);
            self.warn(backend, format!("too many solutions to verify; one is dropped: {nonce}"));
            return;
        }
        self.check(claim);
    }

    /// Has a tag computed again after all earlier ones.
    fn check(&mut self, claim: Claim) {
        self.claims.push_back(claim.clone());
        if self.claims.len() == 1 {
            self.out.push(Output::Verify(claim));
        }
    }

    /// Decides to compute a witness again: by chance, and not when many wait already.
    fn looks_at_it(&mut self) -> bool {
        let Some(SpotChecks { one_in, .. }) = self.rules.spot_checks else { return false };
        // SplitMix64: a step of a counter, mixed.
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.dice;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let waiting = || self.claims.iter().filter(|claim| !claim.solves).count();
        bits.is_multiple_of(u64::from(one_in.max(1))) && waiting() < CHECKS_MAX
    }

    fn verified(&mut self, result: Result<bool, String>, now: Instant) {
        let Some(claim) = self.claims.pop_front() else { return };
        match result {
            Ok(true) => {
                self.records[claim.backend].spot_checks += 1;
                if claim.solves {
                    self.report(claim, now);
                }
            }
            Ok(false) => {
                self.false_solutions += 1;
                self.forget(&claim);
                let Claim { backend, nonce, .. } = claim;
                // Its others are lies as well, or found again by somebody else.
                let claims = std::mem::take(&mut self.claims);
                let (lies, others): (VecDeque<_>, _) =
                    claims.into_iter().partition(|c| c.backend == backend);
                self.claims = others;
                for lie in &lies {
                    self.forget(lie);
                }
                self.quarantine(backend, Fault::FalseSolution { nonce }, true, now);
            }
            Err(why) => {
                let Claim { backend, nonce, solves, .. } = claim;
                let text = if solves {
                    format!("a solution could not be verified and is dropped: {nonce}: {why}")
                } else {
                    format!("a spot check could not be made: {why}")
                };
                self.warn(backend, text);
            }
        }
        if let Some(next) = self.claims.front() {
            self.out.push(Output::Verify(next.clone()));
        }
    }

    /// A claim came to nothing: somebody else may find the same.
    fn forget(&mut self, claim: &Claim) {
        if let Some(round) = self.rounds.of_work(&claim.work) {
            round.forget(claim.nonce);
        }
    }

    fn report(&mut self, claim: Claim, now: Instant) {
        self.solutions += 1;
        let backend = self.records[claim.backend].name.clone();
        let Claim { work, nonce, tag, .. } = claim;
        let work_id = work.id;
        self.event(Event::Solution(Solution { work_id, nonce, tag, backend }));
        let current = self.rounds.current.as_ref().is_some_and(|round| round.work.id == work_id);
        if current && work.pause_on_solution {
            self.end_round(WorkEnd::Solved, Handover::Abandon, now);
        }
    }

    // Ends.

    fn end_round(&mut self, end: WorkEnd, handover: Handover, now: Instant) {
        let horizon = self.rules.horizon;
        let Some(round) = self.rounds.end() else { return };
        let (work_id, tried) = (round.work.id, round.ledger.tried());
        self.event(Event::WorkDone { work_id, end, tried });
        for record in &mut self.records {
            record.unfit = false;
            // Also where an earlier cancel still waits: the new one may be harder.
            if !record.held.is_empty() || record.cancel.is_some() {
                record.drop_leases(Some(end), horizon, now);
                record.cancel = Some(match record.cancel {
                    Some(Handover::Abandon) => Handover::Abandon,
                    _ => handover,
                });
            }
        }
    }

    fn quarantine(&mut self, backend: usize, fault: Fault, disbelieve: bool, now: Instant) {
        let record = &mut self.records[backend];
        if !record.is_alive() {
            return;
        }
        record.leave(now);
        record.fault = Some(fault.to_string());
        record.drop_leases(None, self.rules.horizon, now);
        let name = record.name.clone();
        // A claim under verification stays: true solutions are reported, whoever found them.
        if record.pending.is_some() {
            self.out.push(Output::Interrupt { backend });
        }
        if let Some(round) = &mut self.rounds.current {
            round.ledger.evict(backend, disbelieve);
        }
        self.event(Event::BackendQuarantined { backend: name, fault });
        self.end_if_nobody_is_left(now);
        if !self.told_dead && !self.records.iter().any(BackendRecord::is_alive) {
            self.told_dead = true;
            self.event(Event::NoBackendLeft);
        }
    }

    /// Ends a work without able backends.
    fn end_if_nobody_is_left(&mut self, now: Instant) {
        let able = |record: &BackendRecord| record.is_alive() && !record.unfit;
        if !self.records.iter().any(able) {
            self.end_round(WorkEnd::NoBackend, Handover::Abandon, now);
        }
    }

    fn gone(&mut self, backend: usize, now: Instant) {
        let stopped = Fault::Failed(BackendError::Stopped);
        // A thread ending without a stop is a fault like any other.
        self.quarantine(backend, stopped, false, now);
        let record = &mut self.records[backend];
        record.pending = None;
        record.state = State::Gone;
    }

    fn stop(&mut self, now: Instant) {
        self.end_round(WorkEnd::Stopped, Handover::Abandon, now);
        self.stopping = true;
        self.claims.clear();
        for record in &mut self.records {
            if record.is_alive() {
                record.leave(now);
            }
        }
    }

    /// Breaks off whatever backends are still on: they had their time to stop.
    pub(crate) fn interrupt_all(&mut self) {
        for (backend, record) in self.records.iter().enumerate() {
            if record.state != State::Gone {
                self.out.push(Output::Interrupt { backend });
            }
        }
    }

    fn look_at_clocks(&mut self, now: Instant) {
        let deadline = self.rounds.current.as_ref().and_then(|round| round.work.deadline);
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.end_round(WorkEnd::Deadline, Handover::Finish, now);
        }
        let timeouts = self.rules.timeouts;
        for backend in 0..self.records.len() {
            let record = &mut self.records[backend];
            if !record.is_alive() {
                continue;
            }
            match record.overdue(&timeouts, now) {
                Some(Overdue::Strike(limit)) => {
                    record.strikes += 1;
                    let strikes = record.strikes;
                    if strikes >= timeouts.assign_strikes {
                        self.quarantine(backend, Fault::SlowAssign { strikes }, false, now);
                        continue;
                    }
                    self.warn(backend, format!("takes longer than {limit:?} to take work"));
                }
                Some(Overdue::Fatal(limit, call)) => {
                    self.quarantine(backend, Fault::Timeout(limit, call), false, now);
                    continue;
                }
                None => {}
            }
            let record = &self.records[backend];
            let silent = now.saturating_duration_since(record.progress_at);
            let assigning = record.pending.is_some_and(|pending| pending.kind == Kind::Assign);
            if !record.held.is_empty() && !assigning && silent > timeouts.stall {
                self.quarantine(backend, Fault::Stalled(timeouts.stall), false, now);
                continue;
            }
            if let State::Probed { since } = self.records[backend].state
                && now.saturating_duration_since(since) > timeouts.control
            {
                let fault = Fault::Timeout(timeouts.control, "first fence");
                self.quarantine(backend, fault, false, now);
            }
        }
        for fence in &self.fences {
            if fence.deadline <= now && !fence.waiting.is_empty() {
                self.out.push(Output::Fenced { token: fence.token, idle: false });
            }
        }
        self.fences.retain(|fence| fence.waiting.is_empty() || fence.deadline > now);
        for backend in 0..self.records.len() {
            self.ask_fence(backend, now);
        }
    }

    // Next steps.

    /// Ends complete works, and gives every idle thread its next command.
    fn settle(&mut self, now: Instant) {
        // A lie found out brings nonces back, so claims are waited for.
        let complete = self.rounds.current.as_ref().is_some_and(|round| {
            round.ledger.is_exhausted()
                && !self.claims.iter().any(|claim| Arc::ptr_eq(&claim.work, &round.work))
        });
        if complete {
            self.end_round(WorkEnd::Exhausted, Handover::Finish, now);
        }
        for backend in 0..self.records.len() {
            self.next_command(backend, now);
        }
        let records = &self.records;
        for fence in &mut self.fences {
            fence.waiting.retain(|backend| records[*backend].state == State::Ready);
            if fence.waiting.is_empty() {
                self.out.push(Output::Fenced { token: fence.token, idle: true });
            }
        }
        self.fences.retain(|fence| !fence.waiting.is_empty());
        let working =
            self.rounds.current.is_some() && self.records.iter().any(BackendRecord::is_fit);
        self.working.run(working, now);
        if self.records.iter().any(|record| record.state == State::Ready) {
            self.ready.run(true, now);
        } else if self.stopping {
            self.ready.run(false, now);
        }
    }

    fn next_command(&mut self, backend: usize, now: Instant) {
        let record = &mut self.records[backend];
        if record.pending.is_some() {
            return;
        }
        match record.state {
            State::Starting | State::Gone | State::Probed { .. } => {}
            State::Leaving => self.command(backend, Command::Stop, now),
            State::Ready => {
                if let Some(handover) = record.cancel.take() {
                    self.command(backend, Command::Cancel(handover), now);
                } else if let Some(lease) = self.deal(backend, now) {
                    self.command(backend, Command::Assign(lease), now);
                }
            }
        }
    }

    /// Asks a backend for idleness, if anybody wants to know. Once a tick: a nonblocking one
    /// answers at once.
    fn ask_fence(&mut self, backend: usize, now: Instant) {
        let record = &self.records[backend];
        if record.pending.is_some() || record.cancel.is_some() {
            return;
        }
        let probed = matches!(record.state, State::Probed { .. });
        let wanted = record.state == State::Ready
            && self.fences.iter().any(|fence| fence.waiting.contains(&backend));
        if probed || wanted {
            self.command(backend, Command::Fence(now + FENCE_WAITS), now);
        }
    }

    /// The next lease for a backend, given work and room.
    fn deal(&mut self, backend: usize, now: Instant) -> Option<Lease> {
        let record = &self.records[backend];
        if !record.is_fit() || !record.has_room() {
            return None;
        }
        let round = self.rounds.current.as_ref()?;
        if round.work.deadline.is_some_and(|deadline| deadline <= now) {
            return None;
        }
        let count = self.lease_size(backend, round.ledger.waiting());
        let id = self.next_lease;
        let round = self.rounds.current.as_mut()?;
        let nonces = round.ledger.deal(id, backend, count)?;
        self.next_lease += 1;
        let record = &mut self.records[backend];
        record.hold(id, now);
        let work = if record.capabilities.trusted { &round.work } else { &round.asked };
        Some(Lease { id, work: Arc::clone(work), nonces })
    }

    /// How many nonces a backend gets of `waiting`.
    fn lease_size(&self, backend: usize, waiting: u64) -> u64 {
        let record = &self.records[backend];
        let lanes = record.lanes();
        let fit = || self.records.iter().filter(|record| record.is_fit());
        let pace_sum: f64 = fit().filter_map(BackendRecord::pace).sum();
        let lane_sum: u64 = fit().map(BackendRecord::lanes).sum();
        let by_lanes = lanes as f64 / lane_sum.max(1) as f64;
        let (pace, share) = match (self.rules.allocation, record.pace()) {
            (Allocation::Adaptive, Some(pace)) if pace_sum > 0.0 => (pace, pace / pace_sum),
            (Allocation::Even, _) if pace_sum > 0.0 => (pace_sum * by_lanes, by_lanes),
            // Nothing is known: one go, and then there is.
            _ => (0.0, by_lanes),
        };
        let mut count = pace * self.rules.horizon.as_secs_f64();
        count = count.min(record.lease_max() as f64);
        if fit().nth(1).is_some() {
            count = count.min(waiting as f64 * share / 2.0);
        }
        // Other sizes than multiples of the lanes leave some lanes idle at the end. The
        // conversion saturates.
        (count as u64).div_ceil(lanes).max(1).saturating_mul(lanes)
    }

    /// The account of the work of the moment.
    #[cfg(test)]
    fn ledger(&self) -> Option<&crate::lease::Ledger> {
        self.rounds.current.as_ref().map(|round| &round.ledger)
    }
}

/// The fault behind a report refused by the account.
fn fault_of(foreign: Foreign, nonces: &Range<u64>) -> Fault {
    match foreign {
        Foreign::NotItsOwn => Fault::ForeignNonces { start: nonces.start, end: nonces.end },
        Foreign::Scattered => Fault::Scattered,
    }
}

/// Most solutions waiting for verification.
const CLAIMS_MAX: usize = 4096;

/// Most witnesses waiting for verification: where devices outpace the processor,
/// fewer are checked.
const CHECKS_MAX: usize = 16;

/// How often clocks are looked at.
const TICK_EVERY: Duration = Duration::from_millis(100);

/// Time between questions to a busy backend.
const FENCE_EVERY: Duration = Duration::from_millis(5);

/// How long a blocking backend waits for its device before other commands have a turn.
const FENCE_WAITS: Duration = Duration::from_millis(50);
