//! A backend as the scheduler sees it: its leases, its pace, its faults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Command;
use super::evidence::Evidence;
use crate::backend::{Capabilities, Hashes, Queue, Telemetry};
use crate::engine::{Timeouts, WorkEnd};
use crate::rate::{Meter, Stopwatch, per_second};
use crate::status::{BackendPhase, BackendStatus, WorkerStatus};
use crate::work::Handover;

/// A backend.
pub(super) struct BackendRecord {
    pub(super) name: Arc<str>,
    pub(super) capabilities: Capabilities,
    pub(super) state: State,
    /// The command its thread is on.
    pub(super) pending: Option<Pending>,
    /// A cancel waiting for the thread.
    pub(super) cancel: Option<Handover>,
    /// Too little memory for this work.
    pub(super) unfit: bool,
    /// Leases of the work of the moment, dealt and not done.
    pub(super) held: Vec<u64>,
    pub(super) strikes: u32,
    pub(super) fault: Option<String>,
    /// Moment of its last progress, or of its last idleness.
    pub(super) progress_at: Instant,
    /// Evidence of nonces left out, for a device.
    pub(super) evidence: Evidence,
    /// Tags reported because more than solutions are asked for.
    pub(super) witnesses: u64,
    /// Tags computed again and found true.
    pub(super) spot_checks: u64,
    /// Start of its present idleness.
    idle_since: Option<Instant>,
    pace: Pace,
    counted: Meter,
    late: u64,
    /// Runs from its start until quarantine.
    ready: Stopwatch,
    telemetry: Telemetry,
    workers: Vec<Meter>,
}

/// Where a backend is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its `start` was not called, or did not return.
    Starting,
    /// Started; a cancel and a fence have to come back before the first lease.
    Probed {
        since: Instant,
    },
    Ready,
    /// Quarantined, or the engine stops: to be stopped.
    Leaving,
    /// Its thread ended.
    Gone,
}

/// The present command of its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) since: Instant,
    /// The assigned lease.
    pub(super) lease: Option<u64>,
    /// Timeouts passed.
    pub(super) overdue: u32,
}

/// The kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    Assign,
    Cancel,
    Fence,
    Stop,
}

/// Consequence of a timeout.
pub(super) enum Overdue {
    /// One more strike.
    Strike(Duration),
    /// The end.
    Fatal(Duration, &'static str),
}

impl BackendRecord {
    pub(super) fn new(name: Arc<str>, capabilities: Capabilities, now: Instant) -> Self {
        Self {
            name,
            capabilities,
            state: State::Starting,
            pending: None,
            cancel: None,
            unfit: false,
            held: Vec::new(),
            strikes: 0,
            fault: None,
            progress_at: now,
            evidence: Evidence::default(),
            witnesses: 0,
            spot_checks: 0,
            idle_since: None,
            pace: Pace::default(),
            counted: Meter::new(now),
            late: 0,
            ready: Stopwatch::default(),
            telemetry: Telemetry::default(),
            workers: Vec::new(),
        }
    }

    /// The probes succeeded: leases may come, and the rate counts from now on.
    pub(super) fn be_ready(&mut self, now: Instant) {
        self.state = State::Ready;
        self.ready.run(true, now);
    }

    /// Quarantined, or the engine stops.
    pub(super) fn leave(&mut self, now: Instant) {
        self.state = State::Leaving;
        self.ready.run(false, now);
    }

    /// `true` when able to take nonces of the work of the moment.
    pub(super) fn is_fit(&self) -> bool {
        self.state == State::Ready && !self.unfit
    }

    /// `true` while [`State::Ready`] is possible or reached.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Leaving | State::Gone)
    }

    /// `true` with room for another lease.
    pub(super) fn has_room(&self) -> bool {
        match self.capabilities.queue {
            Queue::Replace => self.held.is_empty(),
            Queue::Append { depth } => self.held.len() < depth.max(1) as usize,
        }
    }

    pub(super) fn lanes(&self) -> u64 {
        u64::from(self.capabilities.lanes.max(1))
    }

    /// Nonces a second, once measured.
    pub(super) fn pace(&self) -> Option<f64> {
        self.pace.rate
    }

    /// Most nonces of a lease, by what was measured.
    pub(super) fn lease_max(&self) -> u64 {
        self.pace.longest.saturating_mul(GROWTH).max(self.lanes())
    }

    /// A command is given to its thread.
    pub(super) fn begin(&mut self, command: &Command, now: Instant) {
        let (kind, lease) = match command {
            Command::Start => (Kind::Start, None),
            Command::Assign(lease) => (Kind::Assign, Some(lease.id)),
            Command::Cancel(_) => (Kind::Cancel, None),
            Command::Fence(_) => (Kind::Fence, None),
            Command::Stop => (Kind::Stop, None),
        };
        self.pending = Some(Pending { kind, since: now, lease, overdue: 0 });
    }

    /// A lease was taken.
    pub(super) fn hold(&mut self, lease: u64, now: Instant) {
        if self.held.is_empty() {
            self.progress_at = now;
            self.pace.begin(now);
            // A moment between two works is no pause, and its rate no news.
            if self.is_resting(now) {
                self.counted.resume(now);
                for worker in &mut self.workers {
                    worker.resume(now);
                }
            }
            self.idle_since = None;
        }
        self.held.push(lease);
    }

    /// `count` nonces of a lease are done; `complete` for the last of them.
    pub(super) fn did(
        &mut self,
        lease: u64,
        count: u64,
        complete: bool,
        horizon: Duration,
        now: Instant,
    ) {
        self.progress_at = now;
        self.pace.done += count;
        if complete {
            self.held.retain(|held| *held != lease);
            self.pace.measure(ALPHA_COMPLETE, horizon, now);
            self.rest_if_idle(now);
        }
    }

    /// The end of its work, or its own.
    pub(super) fn drop_leases(&mut self, end: Option<WorkEnd>, horizon: Duration, now: Instant) {
        if !self.held.is_empty() {
            let alpha = if end == Some(WorkEnd::Solved) { ALPHA_SOLVED } else { ALPHA_CUT };
            self.pace.measure(alpha, horizon, now);
        }
        self.held.clear();
        self.rest_if_idle(now);
    }

    fn rest_if_idle(&mut self, now: Instant) {
        if self.held.is_empty() {
            self.idle_since.get_or_insert(now);
        }
    }

    /// `true` after a while without work.
    fn is_resting(&self, now: Instant) -> bool {
        let rests = |since| now.saturating_duration_since(since) > RESTING;
        self.held.is_empty() && self.idle_since.is_none_or(rests)
    }

    /// Takes a sample of its thread.
    pub(super) fn sample(&mut self, hashes: Hashes, telemetry: Telemetry, now: Instant) {
        if hashes.counted > 0 {
            self.progress_at = now;
        }
        self.counted.add(hashes.counted, now);
        self.late += hashes.late;
        self.workers.resize_with(telemetry.workers.len(), || Meter::new(now));
        for (meter, worker) in self.workers.iter_mut().zip(&telemetry.workers) {
            meter.add(worker.hashes.saturating_sub(meter.total()), now);
        }
        self.telemetry = telemetry;
    }

    /// The consequence of a slow command, if any; each timeout is told once.
    pub(super) fn overdue(&mut self, timeouts: &Timeouts, now: Instant) -> Option<Overdue> {
        let pending = self.pending.as_mut()?;
        let (limit, name) = match pending.kind {
            Kind::Start => (timeouts.start, "start"),
            Kind::Assign => (timeouts.assign, "assign"),
            Kind::Cancel => (timeouts.control, "cancel"),
            Kind::Fence => (timeouts.control, "fence"),
            Kind::Stop => return None,
        };
        if now.saturating_duration_since(pending.since) <= limit * (pending.overdue + 1) {
            return None;
        }
        pending.overdue += 1;
        Some(match pending.kind {
            Kind::Assign => Overdue::Strike(limit),
            _ => Overdue::Fatal(limit, name),
        })
    }

    /// Hashes counted, and late ones.
    pub(super) fn hashes(&self) -> Hashes {
        Hashes { counted: self.counted.total(), late: self.late }
    }

    /// Hashes a second, of late.
    pub(super) fn rate_now(&self, now: Instant) -> f64 {
        if self.is_resting(now) { 0.0 } else { self.counted.rate(now) }
    }

    pub(super) fn status(&self, share: f64, now: Instant) -> BackendStatus {
        let ready = self.ready.passed(now);
        let phase = match self.state {
            State::Starting | State::Probed { .. } => BackendPhase::Starting,
            State::Ready if self.held.is_empty() => BackendPhase::Idle,
            State::Ready => BackendPhase::Working,
            State::Leaving | State::Gone if self.fault.is_some() => BackendPhase::Quarantined,
            State::Leaving | State::Gone => BackendPhase::Stopped,
        };
        let workers = self.telemetry.workers.iter().zip(&self.workers);
        let workers = workers
            .map(|(worker, meter)| WorkerStatus {
                worker: worker.clone(),
                rate_now: if self.is_resting(now) { 0.0 } else { meter.rate(now) },
                rate_average: per_second(meter.total(), ready),
            })
            .collect();
        BackendStatus {
            name: self.name.to_string(),
            phase,
            capabilities: self.capabilities.clone(),
            kernel: self.telemetry.kernel.clone(),
            watts: self.telemetry.watts,
            rate_now: self.rate_now(now),
            rate_average: per_second(self.counted.total(), ready),
            hashes: self.counted.total(),
            late_hashes: self.late,
            share,
            strikes: self.strikes,
            witnesses: self.witnesses,
            spot_checks: self.spot_checks,
            fault: self.fault.clone(),
            workers,
        }
    }
}

/// Nonces a second, smoothed: the measure of the next lease.
#[derive(Debug, Default)]
struct Pace {
    rate: Option<f64>,
    samples: u32,
    since: Option<Instant>,
    /// Nonces and time of work not measured yet.
    done: u64,
    took: Duration,
    /// Most nonces of one measurement.
    longest: u64,
}

impl Pace {
    fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// A stretch of work ended. Short ones weigh less; the first few are all
    /// there is. Reports of the shortest come together, a moment apart or none: they are measured
    /// with the next ones.
    fn measure(&mut self, alpha: f64, horizon: Duration, now: Instant) {
        let Some(since) = self.since.replace(now) else { return };
        self.took += now.saturating_duration_since(since);
        if self.took < STRETCH_MIN {
            return;
        }
        let (done, took) = (std::mem::take(&mut self.done), std::mem::take(&mut self.took));
        if done == 0 {
            return;
        }
        self.longest = self.longest.max(done);
        self.samples = self.samples.saturating_add(1);
        let rate = per_second(done, took);
        let coverage = (took.as_secs_f64() / horizon.as_secs_f64().max(1e-9)).min(1.0);
        let alpha = (alpha * coverage.sqrt()).clamp(ALPHA_MIN, ALPHA_MAX);
        let alpha =
            if self.samples <= FIRST { alpha.max(1.0 / f64::from(self.samples)) } else { alpha };
        let before = self.rate.unwrap_or(rate);
        self.rate = Some(before + alpha * (rate - before));
    }
}

/// Least time of a measurement of the pace.
const STRETCH_MIN: Duration = Duration::from_millis(10);

/// How many times as long as the longest work measured a lease may be: a pace measured falsely
/// would give a backend the nonces of all.
const GROWTH: u64 = 16;

/// Idleness longer than this counts as a pause.
const RESTING: Duration = Duration::from_secs(2);

/// Weight of a new measurement after a lease done to its end.
const ALPHA_COMPLETE: f64 = 0.35;
/// The same after a lease cut short by a solution.
const ALPHA_SOLVED: f64 = 0.18;
/// When another work did.
const ALPHA_CUT: f64 = 0.12;
/// So many first measurements weigh as much as all before.
const FIRST: u32 = 5;
/// Bounds of the weight.
const ALPHA_MIN: f64 = 0.01;
const ALPHA_MAX: f64 = 0.35;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_settles_on_what_is_measured() {
        let start = Instant::now();
        let horizon = Duration::from_secs(10);
        let mut pace = Pace::default();
        pace.begin(start);
        let mut now = start;
        for _ in 0..40 {
            now += Duration::from_secs(10);
            pace.done += 50;
            pace.measure(ALPHA_COMPLETE, horizon, now);
        }
        assert!((4.9..5.1).contains(&pace.rate.unwrap()));
        // A short, odd stretch changes little.
        now += Duration::from_millis(10);
        pace.done += 5;
        pace.measure(ALPHA_CUT, horizon, now);
        assert!(pace.rate.unwrap() < 11.0, "{pace:?}");
        for _ in 0..40 {
            now += Duration::from_secs(10);
            pace.done += 500;
            pace.measure(ALPHA_COMPLETE, horizon, now);
        }
        assert!((49.0..51.0).contains(&pace.rate.unwrap()));
    }
    #[test]
    fn leases_reported_together_are_measured_with_the_next_one() {
        let start = Instant::now();
        let horizon = Duration::from_secs(10);
        let mut pace = Pace::default();
        pace.begin(start);
        for micros in 1..=20 {
            pace.done += 1;
            pace.measure(ALPHA_COMPLETE, horizon, start + Duration::from_micros(micros));
        }
        assert_eq!((pace.rate, pace.longest), (None, 0));
        // An idle moment is no part of them.
        pace.begin(start + Duration::from_secs(5));
        pace.done += 80;
        pace.measure(ALPHA_COMPLETE, horizon, start + Duration::from_millis(5010));
        assert!((9_000.0..10_001.0).contains(&pace.rate.unwrap()), "{pace:?}");
        assert_eq!(pace.longest, 100);
    }
}
