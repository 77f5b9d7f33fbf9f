//! The engine on real threads: processors and pretended devices, with every fault.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_miner::backend::sim::{SimBackend, SimFault, SimOptions};
use shoal_miner::backend::{Backend, Queue};
use shoal_miner::engine::{EngineError, Fault, Timeouts, Verify, WorkEnd};
use shoal_miner::status::{BackendPhase, EnginePhase};
use shoal_miner::{CpuBackend, CpuOptions, Engine, EngineOptions, Event, Handover, Work};
use shoal_pow::{Challenge, Target};

const MEMORY_KIB: u32 = 64;

fn cpu(threads: usize) -> Box<dyn Backend> {
    let options = CpuOptions {
        memory_kib: MEMORY_KIB,
        threads: Some(threads),
        side_by_side: Some(2),
        budget_kib: Some(1 << 16),
        flush: Duration::from_millis(5),
        ..CpuOptions::default()
    };
    Box::new(CpuBackend::new(&options).expect("the budget suffices"))
}

fn sim(name: &str, fault: SimFault) -> SimOptions {
    SimOptions { name: name.into(), rate: 500.0, fault, fault_after: 12, ..SimOptions::default() }
}

fn boxed(options: SimOptions) -> Box<dyn Backend> {
    Box::new(SimBackend::new(options))
}

fn work(id: u64, nonces: Range<u64>) -> Work {
    Work {
        id,
        header: b"92 bytes on the chain, fewer here".to_vec(),
        memory_kib: MEMORY_KIB,
        target: Target::from_difficulty(1),
        nonces,
        deadline: None,
        pause_on_solution: false,
    }
}

fn start(backends: Vec<Box<dyn Backend>>) -> (Engine, Receiver<Event>) {
    let timeouts = Timeouts {
        // A busy machine may keep an honest thread waiting for most of a second.
        assign: Duration::from_secs(1),
        stall: Duration::from_secs(4),
        control: Duration::from_secs(30),
        ..Timeouts::default()
    };
    let options = EngineOptions {
        timeouts,
        horizon: Duration::from_millis(100),
        ..EngineOptions::new(backends)
    };
    Engine::start(options).expect("the engine starts")
}

/// All events up to the end of a work.
fn until_done(events: &Receiver<Event>, id: u64) -> (Vec<Event>, WorkEnd, u64) {
    let mut all = Vec::new();
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).expect("the work ends");
        if let Event::WorkDone { work_id, end, tried } = event
            && work_id == id
        {
            return (all, end, tried);
        }
        all.push(event);
    }
}

/// How often each nonce of a work was reported as a solution; its tag is compared for some.
fn solutions(events: &[Event], work: &Work) -> BTreeMap<u64, u32> {
    let challenge = Challenge::new(&work.header, work.memory_kib, work.target);
    let challenge = challenge.expect("the work is in bounds");
    let mut found = BTreeMap::new();
    for event in events {
        if let Event::Solution(solution) = event
            && solution.work_id == work.id
        {
            if solution.nonce.is_multiple_of(16) {
                assert_eq!(challenge.tag(solution.nonce, &Default::default()), Ok(solution.tag));
            }
            *found.entry(solution.nonce).or_default() += 1;
        }
    }
    found
}

#[test]
fn a_processor_tries_every_nonce_of_a_window_once() {
    let (engine, events) = start(vec![cpu(2)]);
    let first = work(1, (1 << 63) - 501..1 << 63);
    engine.assign(first.clone(), Handover::Abandon).unwrap();
    let (happened, end, tried) = until_done(&events, 1);
    assert_eq!((end, tried), (WorkEnd::Exhausted, 501));
    assert!(matches!(happened[0], Event::BackendReady { .. }), "{:?}", happened[0]);
    let found = solutions(&happened, &first);
    assert!(found.keys().copied().eq(first.nonces) && found.values().all(|count| *count == 1));
    assert!(engine.fence(Duration::from_secs(30)));
    let status = engine.status();
    assert_eq!((status.hashes, status.late_hashes, status.solutions), (501, 0, 501));
    assert_eq!(status.phase, EnginePhase::Idle);
    assert!(status.rate_average > 0.0 && status.working_secs > 0.0);
    let backend = &status.backends[0];
    assert_eq!((backend.name.as_str(), backend.phase), ("cpu0", BackendPhase::Idle));
    assert_eq!(backend.workers.len(), 2);
    assert_eq!(backend.workers.iter().map(|worker| worker.worker.hashes).sum::<u64>(), 501);
    assert!(serde_json::to_string(&status).unwrap().contains("\"side_by_side\":2"));
    assert!(engine.stop());
    assert_eq!(engine.status().phase, EnginePhase::Stopped);
    assert!(events.iter().count() < 10, "the events end");
    assert_eq!(engine.assign(work(2, 0..1), Handover::Abandon), Err(EngineError::Stopped));
}

#[test]
fn mixed_backends_that_stall_die_and_lie() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let honest = SimOptions { log: Some(Arc::clone(&log)), ..sim("honest", SimFault::None) };
    let appends = Queue::Append { depth: 3 };
    let (engine, events) = start(vec![
        cpu(1),
        boxed(honest),
        boxed(sim("stalls", SimFault::Stall)),
        boxed(SimOptions { queue: appends, ..sim("dies", SimFault::Die) }),
        boxed(sim("panics", SimFault::Panic)),
        boxed(SimOptions { queue: appends, ..sim("lies", SimFault::Lie) }),
        boxed(sim("foreign", SimFault::Foreign)),
        boxed(sim("stuck", SimFault::Stuck(Duration::from_secs(60)))),
        boxed(sim("none", SimFault::Start)),
        boxed(sim("leaves out", SimFault::LeaveOut)),
    ]);
    // Long enough for everybody to get work: the processor alone would be done in a moment.
    let first = work(1, 0..60_000);
    engine.assign(first.clone(), Handover::Abandon).unwrap();
    let (mut happened, end, tried) = until_done(&events, 1);
    assert_eq!((end, tried), (WorkEnd::Exhausted, 60_000));
    let found = solutions(&happened, &first);
    assert!(found.values().all(|count| *count == 1));
    assert!(found.keys().copied().eq(first.nonces), "{} of 60000", found.len());
    let mut tries = log.lock().unwrap().clone();
    let count = tries.len();
    tries.sort_unstable();
    tries.dedup();
    assert_eq!(tries.len(), count, "an honest device tried a nonce twice");
    assert!(count > 0, "the honest device got work");
    // Some may need another work to show themselves.
    let until = Instant::now() + Duration::from_secs(60);
    let mut id = 1;
    let faults = loop {
        let faults: BTreeMap<String, Fault> = happened
            .iter()
            .filter_map(|event| match event {
                Event::BackendQuarantined { backend, fault } => {
                    Some((backend.to_string(), fault.clone()))
                }
                _ => None,
            })
            .collect();
        if faults.len() == 8 || Instant::now() > until {
            break faults;
        }
        id += 1;
        engine.assign(work(id, 0..20_000), Handover::Finish).unwrap();
        happened.extend(until_done(&events, id).0);
    };
    assert!(matches!(faults["stalls"], Fault::Stalled(_)));
    assert!(matches!(faults["dies"], Fault::Failed(_)));
    assert!(matches!(faults["panics"], Fault::Failed(_)), "{:?}", faults["panics"]);
    assert!(matches!(faults["lies"], Fault::FalseSolution { .. }));
    assert!(matches!(faults["foreign"], Fault::ForeignNonces { .. }));
    assert!(matches!(faults["stuck"], Fault::SlowAssign { strikes: 3 }));
    assert!(matches!(faults["none"], Fault::Start(_)));
    assert!(matches!(faults["leaves out"], Fault::LeftOut { .. }));
    let status = engine.status();
    assert_eq!(status.false_solutions, 1);
    let phases: Vec<_> = status.backends.iter().map(|backend| backend.phase).collect();
    assert!(phases[2..].iter().all(|phase| *phase == BackendPhase::Quarantined), "{phases:?}");
    assert!(status.backends[5].fault.as_ref().unwrap().contains("false tag"));
    assert!(engine.stop());
}

#[test]
fn devices_that_do_not_try_what_they_say_are_found_out() {
    for (fault, most) in [
        (SimFault::LeaveOut, Some(300)),
        (SimFault::Halve, Some(8000)),
        // Found out by one hash of the processor, whenever the dice say so.
        (SimFault::MakeUp, None),
    ] {
        let honest = SimOptions { rate: 20_000.0, ..sim("honest", SimFault::None) };
        let liar = SimOptions { rate: 20_000.0, fault_after: 0, ..sim("liar", fault) };
        let (engine, events) = start(vec![boxed(honest), boxed(liar)]);
        // Nobody finds a solution of this: there is nothing else to tell the two apart.
        let hard = Work { target: Target::from_difficulty(1 << 60), ..work(1, 0..1 << 40) };
        engine.assign(hard, Handover::Abandon).unwrap();
        let fault = loop {
            let event = events.recv_timeout(Duration::from_secs(60)).expect("it is found out");
            if let Event::BackendQuarantined { backend, fault } = event {
                assert_eq!(&*backend, "liar");
                break fault;
            }
        };
        match (&fault, most) {
            (Fault::LeftOut { nonces, .. }, Some(most)) => assert!(*nonces <= most, "{fault}"),
            (Fault::FalseSolution { .. }, None) => {
                assert_eq!(engine.status().false_solutions, 1);
            }
            other => panic!("{other:?}"),
        }
        // The honest one works on, and is looked at now and then.
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = engine.status();
            let honest = &status.backends[0];
            assert_eq!(honest.phase, BackendPhase::Working, "{:?}", honest.fault);
            if honest.hashes > 5000 && honest.spot_checks > 0 {
                assert!(honest.spot_checks * 64 < honest.hashes, "{honest:?}");
                break;
            }
            assert!(Instant::now() < until, "{honest:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(engine.stop());
    }
}

#[test]
fn a_deadline_ends_a_work_and_late_hashes_are_counted_apart() {
    let (engine, events) = start(vec![cpu(2)]);
    let until = Instant::now() + Duration::from_secs(60);
    let mut id = 0;
    // A busy machine may begin nothing before a deadline.
    while id < 9 || (engine.status().hashes == 0 && Instant::now() < until) {
        id += 1;
        let deadline = Some(Instant::now() + Duration::from_millis(20));
        let target = Target::from_difficulty(0);
        let timed = Work { deadline, target, ..work(id, 0..1 << 62) };
        engine.assign(timed, Handover::Abandon).unwrap();
        let (_, end, _) = until_done(&events, id);
        assert_eq!(end, WorkEnd::Deadline);
    }
    assert!(engine.fence(Duration::from_secs(30)));
    let status = engine.status();
    // At most the gangs under way.
    assert!(status.hashes > 0 && status.late_hashes <= id * 4, "{}", status.late_hashes);
    std::thread::sleep(Duration::from_millis(300));
    let later = engine.status();
    assert_eq!((later.hashes, later.late_hashes), (status.hashes, status.late_hashes));
}

#[test]
fn works_replace_each_other_at_any_pace() {
    let (engine, events) = start(vec![cpu(2), boxed(sim("sim0", SimFault::None))]);
    for id in 1..=60 {
        let handover = if id % 2 == 0 { Handover::Finish } else { Handover::Abandon };
        engine.assign(work(id, 0..1 << 62), handover).unwrap();
        std::thread::sleep(Duration::from_millis(id % 7));
    }
    engine.cancel(Handover::Finish);
    for id in 1..=60 {
        let (happened, end, _) = until_done(&events, id);
        assert!(solutions(&happened, &work(id, 0..1)).values().all(|count| *count == 1));
        let expected = if id == 60 { WorkEnd::Cancelled } else { WorkEnd::Replaced };
        assert_eq!(end, expected, "work {id}");
    }
    assert!(engine.fence(Duration::from_secs(30)));
    assert_eq!(engine.status().work, None);
}

#[test]
fn a_block_pauses_and_solutions_of_all_may_be_verified() {
    let options = EngineOptions { verify: Verify::All, ..EngineOptions::new(vec![cpu(2)]) };
    let (engine, events) = Engine::start(options).unwrap();
    let block = Work {
        target: Target::from_difficulty(20),
        pause_on_solution: true,
        ..work(7, 0..1 << 62)
    };
    engine.assign(block.clone(), Handover::Abandon).unwrap();
    let (happened, end, _) = until_done(&events, 7);
    assert_eq!(end, WorkEnd::Solved);
    assert_eq!(solutions(&happened, &block).len(), 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let none = Engine::start(EngineOptions::new(Vec::new()));
    assert_eq!(none.err(), Some(EngineError::NoBackend));
    let twice = vec![boxed(sim("a", SimFault::None)), boxed(sim("a", SimFault::None))];
    assert_eq!(Engine::start(EngineOptions::new(twice)).err(), Some(EngineError::SameName));
    let (engine, events) = start(vec![cpu(1)]);
    let assign = |work| engine.assign(work, Handover::Abandon);
    assert_eq!(assign(work(5, 3..3)), Err(EngineError::BadWork { id: 5 }));
    let short = Work { header: vec![0; 7], ..work(5, 0..1) };
    assert!(matches!(assign(short), Err(EngineError::Work(_))));
    let small = Work { memory_kib: 7, ..work(5, 0..1) };
    assert!(matches!(assign(small), Err(EngineError::Work(_))));
    assign(work(5, 0..1)).unwrap();
    assert_eq!(assign(work(5, 0..1)), Err(EngineError::BadWork { id: 5 }));
    assert_eq!(until_done(&events, 5).1, WorkEnd::Exhausted);
    let large = Work { memory_kib: 128, ..work(6, 0..1) };
    assign(large).unwrap();
    let (happened, end, tried) = until_done(&events, 6);
    assert_eq!((end, tried), (WorkEnd::NoBackend, 0));
    assert!(happened.iter().any(|event| matches!(event, Event::Warning { .. })));
    // No fault of the backend.
    assign(work(7, 0..9)).unwrap();
    assert_eq!(until_done(&events, 7).1, WorkEnd::Exhausted);
}

#[test]
fn an_engine_without_backends_left_says_so() {
    let (engine, events) = start(vec![boxed(sim("dies", SimFault::Die))]);
    engine.assign(work(1, 0..100_000), Handover::Abandon).unwrap();
    assert_eq!(until_done(&events, 1).1, WorkEnd::NoBackend);
    let next = events.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(next, Event::NoBackendLeft);
    assert_eq!(engine.status().phase, EnginePhase::Dead);
    engine.assign(work(2, 0..10), Handover::Abandon).unwrap();
    assert_eq!(until_done(&events, 2).1, WorkEnd::NoBackend);
    assert!(engine.stop());
}

#[test]
fn a_device_that_hears_nothing_does_not_hold_up_the_end() {
    let deaf = SimFault::Deaf(Duration::from_secs(60));
    let deaf = SimOptions { fault_after: 0, ..sim("deaf", deaf) };
    let stop = Duration::from_millis(200);
    let timeouts = Timeouts { stop, assign: Duration::from_secs(60), ..Timeouts::default() };
    let options = EngineOptions { timeouts, ..EngineOptions::new(vec![boxed(deaf)]) };
    let (engine, _events) = Engine::start(options).unwrap();
    engine.assign(work(1, 0..100), Handover::Abandon).unwrap();
    // The call is under way, or about to be.
    let until = Instant::now() + Duration::from_secs(30);
    while engine.status().backends[0].phase != BackendPhase::Working && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    assert!(!engine.stop(), "a thread was left to itself");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!engine.stop());
}
