//! Long runs in a world without threads or clock, with every fault; a seed repeats its run.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use shoal_pow::Target;

use super::*;
use crate::backend::{Calls, Queue};

/// The fault of a pretended backend, and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Does nothing more.
    Stalls,
    /// Reports a failure.
    Dies,
    /// Lied about tried nonces, then reports a false solution.
    Lies,
    /// Lies about tried nonces.
    LeavesOut,
    /// Tries every second nonce, and reports all.
    Halves,
    /// Lies about tried nonces, and makes up tags, none of them a solution.
    MakesUp,
    /// Reports nonces of others.
    Foreign,
    /// Reports nonces twice.
    Twice,
    /// Takes for ever to take work, until interrupted.
    Slow,
    /// Its call panics.
    Panics,
    /// Does not start.
    NoStart,
    /// Never reports idleness.
    Restless,
}

struct Pretended {
    wrong: Wrong,
    /// Nonces done before.
    after: u64,
    speed: u64,
    interrupted: bool,
    /// A call and the moment of its return.
    call: Option<(Command, Instant)>,
    leases: VecDeque<(Lease, Vec<Range<u64>>)>,
    did: u64,
    gone: bool,
}

/// Everything outside the scheduler.
struct World {
    rng: u64,
    now: Instant,
    scheduler: Scheduler,
    backends: Vec<Pretended>,
    verifying: Option<(Claim, Instant)>,
    works: HashMap<u64, Range<u64>>,
    /// Who tried each believed nonce.
    tries: BTreeMap<(u64, u64), Vec<usize>>,
    solutions: BTreeMap<(u64, u64), u32>,
    ended: BTreeMap<u64, (WorkEnd, u64)>,
    quarantined: BTreeMap<usize, Fault>,
    fenced: Vec<(u64, bool)>,
    warnings: usize,
}

/// The tag of a nonce, of every work: as good as random.
fn tag(nonce: u64) -> [u8; TAG_BYTES] {
    let mut bits = nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut tag = [0; TAG_BYTES];
    tag[..8].copy_from_slice(&(bits ^ (bits >> 32)).to_be_bytes());
    tag
}

/// One nonce in eight is a solution, of every work.
fn is_solution(nonce: u64) -> bool {
    Target::from_difficulty(DIFFICULTY).is_met_by(&tag(nonce))
}

const DIFFICULTY: u64 = 8;

/// A tag too good to be true.
const TAG: [u8; TAG_BYTES] = [0; TAG_BYTES];

impl World {
    fn new(seed: u64, kinds: &[(Wrong, u64, bool)], rules: Rules) -> Self {
        let now = Instant::now();
        let mut backends = Vec::new();
        let mut names = Vec::new();
        for (number, (wrong, speed, trusted)) in kinds.iter().copied().enumerate() {
            let queue = if number % 2 == 0 { Queue::Append { depth: 2 } } else { Queue::Replace };
            let can = Capabilities {
                lanes: 1 + number as u32,
                device_memory_kib: None,
                calls: Calls::Blocking,
                queue,
                trusted,
                preemption: None,
            };
            names.push((Arc::from(format!("b{number}")), can));
            backends.push(Pretended {
                wrong,
                after: 20 + seed % 50,
                speed,
                interrupted: false,
                call: None,
                leases: VecDeque::new(),
                did: 0,
                gone: false,
            });
        }
        Self {
            rng: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now,
            scheduler: Scheduler::new(names, rules, now),
            backends,
            verifying: None,
            works: HashMap::new(),
            tries: BTreeMap::new(),
            solutions: BTreeMap::new(),
            ended: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            fenced: Vec::new(),
            warnings: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng >> 11) % below
    }

    fn input(&mut self, input: Input) {
        let is_tick = matches!(input, Input::Tick);
        self.scheduler.handle(input, self.now);
        if let Some(ledger) = self.scheduler.ledger().filter(|_| is_tick) {
            ledger.check();
        }
        for output in self.scheduler.outputs() {
            self.obey(output);
        }
    }

    fn assign(&mut self, id: u64, nonces: Range<u64>, handover: Handover) {
        self.works.insert(id, nonces.clone());
        self.input(Input::Assign(work(id, nonces), handover));
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Command { backend, command } => {
                let slow = self.backends[backend].wrong == Wrong::Slow
                    && matches!(command, Command::Assign(_));
                let ms = if slow { 1_000_000 } else { self.random(30) };
                let pretended = &mut self.backends[backend];
                assert!(pretended.call.is_none() && !pretended.gone, "one call at a time");
                pretended.call = Some((command, self.now + Duration::from_millis(ms)));
            }
            Output::Interrupt { backend } => {
                let pretended = &mut self.backends[backend];
                pretended.interrupted = true;
                if let Some((_, at)) = &mut pretended.call {
                    *at = self.now;
                }
            }
            Output::Verify(claim) => {
                assert!(self.verifying.is_none(), "one claim at a time");
                let at = self.now + Duration::from_millis(self.random(100));
                self.verifying = Some((claim, at));
            }
            Output::Event(event) => self.hear(event),
            Output::Fenced { token, idle } => self.fenced.push((token, idle)),
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Solution(solution) => {
                assert!(is_solution(solution.nonce), "a lie was reported: {solution:?}");
                *self.solutions.entry((solution.work_id, solution.nonce)).or_default() += 1;
            }
            Event::WorkDone { work_id, end, tried } => {
                let before = self.ended.insert(work_id, (end, tried));
                assert_eq!(before, None, "a work ends once");
            }
            Event::BackendQuarantined { backend, fault } => {
                let number = backend[1..].parse().unwrap();
                if matches!(
                    fault,
                    Fault::FalseSolution { .. }
                        | Fault::ForeignNonces { .. }
                        | Fault::LeftOut { .. }
                        | Fault::Scattered
                ) {
                    for tried_by in self.tries.values_mut() {
                        tried_by.retain(|by| *by != number);
                    }
                }
                self.quarantined.insert(number, fault);
            }
            Event::Warning { .. } => self.warnings += 1,
            Event::BackendReady { .. } | Event::NoBackendLeft => {}
        }
    }

    /// A while later.
    fn step(&mut self) {
        let later = Duration::from_millis(1 + self.random(20));
        self.now += later;
        if let Some((claim, at)) = self.verifying.take() {
            if at <= self.now {
                self.input(Input::Verified(Ok(tag(claim.nonce) == claim.tag)));
            } else {
                self.verifying = Some((claim, at));
            }
        }
        for number in 0..self.backends.len() {
            if self.backends[number].call.as_ref().is_some_and(|(_, at)| *at <= self.now) {
                self.come_back(number);
            }
            let speed = self.backends[number].speed;
            let count = self.random(speed + 1);
            self.work(number, count);
        }
        self.input(Input::Tick);
    }

    fn come_back(&mut self, number: usize) {
        let pretended = &mut self.backends[number];
        let Some((command, _)) = pretended.call.take() else { return };
        let done = Ok(Outcome::Done);
        let outcome = match command {
            Command::Stop => {
                pretended.gone = true;
                pretended.leases.clear();
                self.input(Input::Gone { backend: number });
                return;
            }
            _ if pretended.interrupted => Err(Failure::Error(BackendError::Stopped)),
            Command::Start if pretended.wrong == Wrong::NoStart => {
                Err(Failure::Error(BackendError::Device("none".into())))
            }
            Command::Start => done,
            Command::Assign(_) if pretended.wrong == Wrong::Panics => {
                Err(Failure::Panic("bug".into()))
            }
            Command::Assign(lease) => {
                let left = vec![lease.nonces.clone()];
                pretended.leases.push_back((lease, left));
                done
            }
            Command::Cancel(_) => {
                pretended.leases.clear();
                done
            }
            Command::Fence(_) => {
                let idle = pretended.leases.is_empty() && pretended.wrong != Wrong::Restless;
                Ok(Outcome::Fence(if idle { Fence::Idle } else { Fence::Busy }))
            }
        };
        let capabilities = self.scheduler.records[number].capabilities.clone();
        self.input(Input::Acked { backend: number, outcome, capabilities });
    }

    /// Tries some nonces, in no order.
    fn work(&mut self, number: usize, mut count: u64) {
        while count > 0 && !self.backends[number].gone {
            let pretended = &mut self.backends[number];
            let (wrong, faulty) = (pretended.wrong, pretended.did >= pretended.after);
            let Some((lease, left)) = pretended.leases.front() else { return };
            let (lease, pieces) = (lease.clone(), left.len() as u64);
            if faulty && wrong == Wrong::Stalls {
                return;
            }
            if faulty && wrong == Wrong::Dies {
                self.backends[number].leases.clear();
                let report = Report::Failed(BackendError::Device("gone".into()));
                self.input(Input::Reported { backend: number, report });
                return;
            }
            // A piece from the front, the back or the middle of the rest.
            let at = self.random(pieces) as usize;
            let piece = self.backends[number].leases[0].1[at].clone();
            let start = piece.start + self.random(piece.end - piece.start);
            let nonces = start..piece.end.min(start.saturating_add(count));
            count -= nonces.end - nonces.start;
            let pretended = &mut self.backends[number];
            pretended.did += nonces.end - nonces.start;
            let left = &mut pretended.leases[0].1;
            left.remove(at);
            left.extend([piece.start..nonces.start, nonces.end..piece.end]);
            left.retain(|range| !range.is_empty());
            if left.is_empty() {
                pretended.leases.pop_front();
            }
            let alive = self.scheduler.records[number].is_alive();
            if faulty && matches!(wrong, Wrong::Foreign | Wrong::Twice) {
                let done = |nonces| Report::Done { lease: lease.id, nonces };
                if wrong == Wrong::Foreign {
                    let report = done(lease.nonces.start..lease.nonces.end + 1);
                    self.input(Input::Reported { backend: number, report });
                } else {
                    for report in [done(nonces.clone()), done(nonces.clone())] {
                        self.input(Input::Reported { backend: number, report });
                    }
                }
                continue;
            }
            let target = lease.work.target;
            let real = |nonce: u64| Some((nonce, tag(nonce))).filter(|(_, t)| target.is_met_by(t));
            let found: Vec<_> = match wrong {
                Wrong::Lies if faulty => {
                    nonces.clone().filter(|n| !is_solution(*n)).map(|n| (n, TAG)).collect()
                }
                Wrong::LeavesOut | Wrong::MakesUp if !faulty => {
                    nonces.clone().filter_map(real).collect()
                }
                Wrong::MakesUp => nonces
                    .clone()
                    .filter(|n| n.is_multiple_of(4))
                    .map(|n| (n, target.to_bytes()))
                    .collect(),
                Wrong::LeavesOut => Vec::new(),
                Wrong::Halves => {
                    nonces.clone().filter(|n| n.is_multiple_of(2)).filter_map(real).collect()
                }
                _ => nonces.clone().filter_map(real).collect(),
            };
            for (nonce, tag) in found {
                let report = Report::Found { lease: lease.id, nonce, tag };
                self.input(Input::Reported { backend: number, report });
            }
            // Its report may have ended the backend, or its work, before the nonces are reported.
            let alive = alive && self.scheduler.records[number].is_alive();
            if alive {
                for nonce in nonces.clone() {
                    self.tries.entry((lease.work.id, nonce)).or_default().push(number);
                }
            }
            let report = Report::Done { lease: lease.id, nonces };
            self.input(Input::Reported { backend: number, report });
        }
    }

    fn run_until(&mut self, what: &str, is_it: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            if is_it(self) {
                return;
            }
            self.step();
        }
        panic!("it never came to this: {what}");
    }

    /// Checks: every nonce of an exhausted work was tried once by somebody believed, and every
    /// solution reported once.
    fn check_exhausted(&self, id: u64) {
        let nonces = self.works[&id].clone();
        let count = nonces.end - nonces.start;
        assert_eq!(self.ended.get(&id), Some(&(WorkEnd::Exhausted, count)));
        for nonce in nonces {
            let tried_by = self.tries.get(&(id, nonce)).map_or(&[][..], Vec::as_slice);
            assert_eq!(tried_by.len(), 1, "nonce {nonce} of {id} was tried by {tried_by:?}");
            let reported = self.solutions.get(&(id, nonce)).copied().unwrap_or(0);
            assert_eq!(reported, u32::from(is_solution(nonce)), "nonce {nonce} of {id}");
        }
    }
}

fn work(id: u64, nonces: Range<u64>) -> Work {
    Work {
        id,
        header: vec![0; 8],
        memory_kib: 8,
        target: Target::from_difficulty(DIFFICULTY),
        nonces,
        deadline: None,
        pause_on_solution: false,
    }
}

fn rules() -> Rules {
    let timeouts = Timeouts {
        start: Duration::from_secs(10),
        assign: Duration::from_millis(200),
        assign_strikes: 3,
        control: Duration::from_secs(2),
        stall: Duration::from_secs(3),
        stop: Duration::from_secs(1),
    };
    Rules {
        verify: Verify::Untrusted,
        spot_checks: Some(SpotChecks::default()),
        allocation: Allocation::Adaptive,
        horizon: Duration::from_secs(1),
        timeouts,
        seed: 17,
    }
}

const EVERY_FAULT: [(Wrong, u64, bool); 11] = [
    (Wrong::Nothing, 6, true),
    (Wrong::Stalls, 6, true),
    (Wrong::Dies, 9, false),
    (Wrong::Lies, 12, false),
    (Wrong::Foreign, 6, true),
    (Wrong::Twice, 3, false),
    (Wrong::Slow, 6, true),
    (Wrong::Panics, 6, true),
    (Wrong::NoStart, 6, true),
    (Wrong::Restless, 6, true),
    (Wrong::Nothing, 2, false),
];

#[test]
fn with_every_fault_no_nonce_is_tried_twice_or_skipped() {
    for seed in 1..9 {
        let mut world = World::new(seed, &EVERY_FAULT, rules());
        world.assign(1, 1000..4000, Handover::Abandon);
        world.run_until("the first work is done", |world| world.ended.contains_key(&1));
        world.check_exhausted(1);
        world.run_until("the slow faults are found", |world| world.quarantined.len() == 9);
        // The honest ones do the rest alone.
        world.assign(2, u64::MAX - 1000..u64::MAX, Handover::Finish);
        world.run_until("the second work is done", |world| world.ended.contains_key(&2));
        world.check_exhausted(2);
        let faults = &world.quarantined;
        assert!(matches!(faults[&1], Fault::Stalled(_)));
        assert!(matches!(faults[&2], Fault::Failed(_)));
        assert!(matches!(faults[&3], Fault::FalseSolution { .. }));
        assert!(matches!(faults[&4], Fault::ForeignNonces { .. }));
        assert!(matches!(faults[&5], Fault::ForeignNonces { .. }));
        assert!(matches!(faults[&6], Fault::SlowAssign { strikes: 3 }));
        assert!(matches!(faults[&7], Fault::Panicked(_)));
        assert!(matches!(faults[&8], Fault::Start(_)));
        assert!(matches!(faults[&9], Fault::Timeout(..)));
        let status = world.scheduler.status(world.now);
        assert_eq!((status.false_solutions, status.phase), (1, EnginePhase::Idle));
        world.input(Input::Stop);
        world.run_until("all are gone", |world| world.scheduler.is_over());
        assert!(world.backends.iter().all(|backend| backend.gone));
    }
}

#[test]
fn works_that_replace_each_other_end_once_and_the_last_is_done() {
    for seed in 1..13 {
        let mut world = World::new(seed, &EVERY_FAULT, rules());
        let mut handover = Handover::Abandon;
        for id in 0..30 {
            world.assign(id, id * 10_000..id * 10_000 + 700, handover);
            for _ in 0..world.random(60) {
                world.step();
            }
            if world.random(6) == 0 {
                world.input(Input::Cancel(handover));
            }
            handover = if world.random(2) == 0 { Handover::Finish } else { Handover::Abandon };
        }
        world.assign(99, 7..777, handover);
        world.run_until("the last work is done", |world| world.ended.contains_key(&99));
        world.check_exhausted(99);
        assert_eq!(world.ended.len(), 31);
        for (id, (end, tried)) in &world.ended {
            let all = world.works[id].end - world.works[id].start;
            assert!(*tried <= all);
            assert!(*end != WorkEnd::Exhausted || *tried == all, "work {id}");
        }
        for (nonce, count) in &world.solutions {
            assert_eq!(*count, 1, "{nonce:?}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed, &EVERY_FAULT, rules());
        world.assign(1, 0..2000, Handover::Abandon);
        world.run_until("done", |world| world.ended.contains_key(&1));
        world.tries
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Nonces that a device said it tried, and did not, until it lost its place, and why it did. Beside
/// it stand an honest processor and an honest device.
fn found_out(wrong: Wrong, seed: u64) -> (u64, Fault) {
    let kinds = [(Wrong::Nothing, 6, true), (wrong, 12, false), (Wrong::Nothing, 6, false)];
    let rules = Rules { seed, ..rules() };
    let mut world = World::new(seed, &kinds, rules);
    // Nobody has a solution of this that would have to be verified first.
    let hard = Work { target: Target::from_difficulty(1 << 40), ..work(1, 0..1 << 40) };
    world.works.insert(1, hard.nonces.clone());
    world.input(Input::Assign(hard, Handover::Abandon));
    world.run_until("it is found out", |world| world.quarantined.contains_key(&1));
    let lies = world.backends[1].did - world.backends[1].after;
    // All of it is done again: nothing of this window was tried by the liar alone.
    world.assign(2, 0..3000, Handover::Finish);
    world.run_until("the honest are done", |world| world.ended.contains_key(&2));
    world.check_exhausted(2);
    assert_eq!(world.quarantined.len(), 1, "{:?}", world.quarantined);
    (lies, world.quarantined.remove(&1).expect("it is"))
}

#[test]
fn a_device_that_leaves_nonces_out_is_found_out() {
    for seed in 1..9 {
        let (lies, fault) = found_out(Wrong::LeavesOut, seed);
        assert!(matches!(fault, Fault::LeftOut { .. }), "{fault:?}");
        // 288, and one report's worth.
        assert!(lies <= 288 + 12, "{lies}");
        let (lies, fault) = found_out(Wrong::Halves, seed);
        assert!(matches!(fault, Fault::LeftOut { .. }), "{fault:?}");
        assert!(lies <= 4000, "{lies}");
        // Once in 256 nonces, one that it made up is looked at.
        let (lies, fault) = found_out(Wrong::MakesUp, seed);
        assert!(matches!(fault, Fault::FalseSolution { .. }), "{fault:?}");
        assert!(lies <= 256 * 16, "{lies}");
    }
}

#[test]
fn what_a_device_left_out_of_a_window_is_done_by_others() {
    for seed in 1..9 {
        let kinds =
            [(Wrong::LeavesOut, 30, false), (Wrong::Nothing, 4, true), (Wrong::Halves, 30, false)];
        let mut world = World::new(seed, &kinds, rules());
        world.assign(1, 500..20_500, Handover::Abandon);
        world.run_until("the window is done", |world| world.ended.contains_key(&1));
        assert_eq!(world.quarantined.len(), 2, "{:?}", world.quarantined);
        world.check_exhausted(1);
    }
}

#[test]
fn an_honest_device_is_never_found_out_and_costs_a_hash_in_256() {
    let mut world =
        World::new(9, &[(Wrong::Nothing, 12, false), (Wrong::Nothing, 5, false)], rules());
    let hard = Work { target: Target::from_difficulty(1 << 40), ..work(1, 0..1 << 40) };
    world.works.insert(1, hard.nonces.clone());
    world.input(Input::Assign(hard, Handover::Abandon));
    for _ in 0..40_000 {
        world.step();
    }
    assert_eq!(world.quarantined.len(), 0, "{:?}", world.quarantined);
    let tried: u64 = world.backends.iter().map(|backend| backend.did).sum();
    let status = world.scheduler.status(world.now);
    let checks: u64 = status.backends.iter().map(|backend| backend.spot_checks).sum();
    let witnesses: u64 = status.backends.iter().map(|backend| backend.witnesses).sum();
    assert!(tried > 200_000, "{tried}");
    assert!((witnesses * 4).abs_diff(tried) < tried / 20, "{witnesses} of {tried}");
    assert!((checks * 256).abs_diff(tried) < tried / 5, "{checks} of {tried}");
}

#[test]
fn devices_do_not_know_what_is_searched_for() {
    let mut world =
        World::new(1, &[(Wrong::Nothing, 9, true), (Wrong::Nothing, 9, false)], rules());
    world.assign(1, 0..1 << 20, Handover::Abandon);
    let mut seen = [None, None];
    world.run_until("both have work", |world| {
        world.backends.iter().all(|backend| !backend.leases.is_empty())
    });
    for (number, backend) in world.backends.iter().enumerate() {
        seen[number] = backend.leases.front().map(|(lease, _)| lease.work.target);
    }
    let target = Target::from_difficulty;
    assert_eq!(seen, [Some(target(DIFFICULTY)), Some(target(4))]);
}

#[test]
fn when_nobody_is_left_the_work_ends() {
    let mut world = World::new(3, &[(Wrong::Dies, 5, true), (Wrong::Lies, 5, false)], rules());
    world.assign(1, 0..10_000, Handover::Abandon);
    world.run_until("nobody is left", |world| world.ended.contains_key(&1));
    assert_eq!(world.ended[&1].0, WorkEnd::NoBackend);
    assert_eq!(world.scheduler.status(world.now).phase, EnginePhase::Dead);
    world.assign(2, 0..10, Handover::Abandon);
    assert_eq!(world.ended[&2], (WorkEnd::NoBackend, 0));
    world.input(Input::Stop);
    world.run_until("over", |world| world.scheduler.is_over());
}

#[test]
fn the_first_solution_ends_a_work_that_pauses() {
    let mut world =
        World::new(4, &[(Wrong::Nothing, 3, true), (Wrong::Nothing, 3, false)], rules());
    let pausing = Work { pause_on_solution: true, ..work(1, 1..100_000) };
    world.works.insert(1, pausing.nonces.clone());
    world.input(Input::Assign(pausing, Handover::Abandon));
    world.run_until("solved", |world| world.ended.contains_key(&1));
    assert_eq!(world.ended[&1].0, WorkEnd::Solved);
    assert!(!world.solutions.is_empty());
}

#[test]
fn a_deadline_ends_a_work() {
    let mut world = World::new(5, &[(Wrong::Nothing, 3, true)], rules());
    let deadline = world.now + Duration::from_secs(5);
    let timed = Work { deadline: Some(deadline), ..work(1, 0..u64::MAX) };
    world.works.insert(1, timed.nonces.clone());
    world.input(Input::Assign(timed, Handover::Abandon));
    world.run_until("the deadline", |world| world.ended.contains_key(&1));
    assert_eq!(world.ended[&1].0, WorkEnd::Deadline);
    assert!(world.now >= deadline && world.now < deadline + Duration::from_millis(200));
    assert!(world.scheduler.wake_at(world.now) > world.now);
}

#[test]
fn leases_follow_the_pace_or_the_lanes() {
    for (allocation, expected) in [(Allocation::Adaptive, 0.8), (Allocation::Even, 1.0 / 3.0)] {
        let rules = Rules { allocation, ..rules() };
        let kinds = [(Wrong::Nothing, 40, true), (Wrong::Nothing, 10, true)];
        let mut world = World::new(6, &kinds, rules);
        world.assign(1, 0..1 << 40, Handover::Abandon);
        for _ in 0..3000 {
            world.step();
        }
        let mut sizes = [0.0, 0.0];
        for (backend, size) in sizes.iter_mut().enumerate() {
            *size = world.scheduler.lease_size(backend, 1 << 40) as f64;
        }
        let share = sizes[0] / (sizes[0] + sizes[1]);
        assert!((share - expected).abs() < 0.1, "{allocation:?}: {sizes:?}");
        // At the end of a window they get ever less, but whole gangs.
        assert!(world.scheduler.lease_size(0, 100) <= 50);
        assert_eq!(world.scheduler.lease_size(1, 1) % 2, 0);
    }
}

#[test]
fn fences_answer_when_all_are_idle_or_late() {
    let mut world = World::new(7, &[(Wrong::Nothing, 3, true), (Wrong::Dies, 3, true)], rules());
    world.assign(1, 0..1 << 30, Handover::Abandon);
    for _ in 0..200 {
        world.step();
    }
    let deadline = world.now + Duration::from_secs(1);
    world.input(Input::Fence { token: 1, deadline });
    world.run_until("it is too late", |world| !world.fenced.is_empty());
    assert_eq!(world.fenced, [(1, false)]);
    world.input(Input::Cancel(Handover::Finish));
    let deadline = world.now + Duration::from_secs(10);
    world.input(Input::Fence { token: 2, deadline });
    world.run_until("idle", |world| world.fenced.len() == 2);
    assert_eq!(world.fenced[1], (2, true));
}
