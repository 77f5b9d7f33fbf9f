//! The processor backend on its own: every nonce once, cancels, refused memory, panics.

use super::*;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Receiver;

use shoal_argon::Pages;
use shoal_pow::Target;

use crate::backend::Report;
use crate::memory::Budget;
use crate::topology::Topology;
use crate::work::Work;

fn options(threads: usize, side_by_side: usize) -> CpuOptions {
    CpuOptions {
        memory_kib: 64,
        threads: Some(threads),
        side_by_side: Some(side_by_side),
        budget_kib: Some(64 * 64),
        flush: Duration::from_millis(2),
        ..CpuOptions::default()
    }
}

fn started(options: &CpuOptions) -> (CpuBackend, Receiver<Report>) {
    let mut backend = CpuBackend::new(options).unwrap();
    let reports = start(&mut backend);
    (backend, reports)
}

fn start(backend: &mut CpuBackend) -> Receiver<Report> {
    let (sink, reports) = sink();
    backend.start(sink, Arc::default()).unwrap();
    reports
}

fn sink() -> (Sink, Receiver<Report>) {
    let (tell, reports) = mpsc::channel();
    (Sink::new(move |report| drop(tell.send(report))), reports)
}

fn lease(id: u64, nonces: Range<u64>, difficulty: u64) -> Lease {
    let work = Work {
        id,
        header: b"a header of some length".to_vec(),
        memory_kib: 64,
        target: Target::from_difficulty(difficulty),
        nonces: nonces.clone(),
        deadline: None,
        pause_on_solution: false,
    };
    Lease { id, work: Arc::new(work), nonces }
}

fn idle(backend: &mut CpuBackend) {
    let deadline = Instant::now() + Duration::from_secs(60);
    assert_eq!(backend.fence(deadline), Ok(Fence::Idle));
}

/// The nonces reported as done, each once.
fn done(reports: &Receiver<Report>) -> BTreeSet<(u64, u64)> {
    let mut done = BTreeSet::new();
    for report in reports.try_iter() {
        if let Report::Done { lease, nonces } = report {
            for nonce in nonces {
                assert!(done.insert((lease, nonce)), "{nonce} was done twice");
            }
        }
    }
    done
}

#[test]
fn every_nonce_of_every_lease_is_tried_once() {
    for (threads, side_by_side) in [(1, 1), (2, 3), (3, 6)] {
        let (mut backend, reports) = started(&options(threads, side_by_side));
        backend.assign(lease(1, 10..211, 1)).unwrap();
        backend.assign(lease(2, 1000..1007, 0)).unwrap();
        idle(&mut backend);
        assert_eq!(backend.take_hashes(), Hashes { counted: 208, late: 0 });
        assert_eq!(backend.take_hashes(), Hashes::default());
        let reports: Vec<_> = reports.try_iter().collect();
        let found: BTreeSet<u64> = reports
            .iter()
            .filter_map(|report| match report {
                Report::Found { lease: 1, nonce, .. } => Some(*nonce),
                _ => None,
            })
            .collect();
        assert!(found.into_iter().eq(10..211));
        let (tell, told) = mpsc::channel();
        reports.into_iter().for_each(|report| tell.send(report).unwrap());
        let done = done(&told);
        assert!(done.into_iter().eq((10..211).map(|n| (1, n)).chain((1000..1007).map(|n| (2, n)))));
        let telemetry = backend.telemetry();
        assert_eq!(telemetry.workers.len(), threads);
        let all: u64 = telemetry.workers.iter().map(|worker| worker.hashes).sum();
        assert_eq!(all, 208);
        assert!(telemetry.workers.iter().all(|worker| !worker.pages.is_empty()));
    }
}

#[test]
fn tags_are_those_of_the_nonces() {
    let (mut backend, reports) = started(&options(2, 4));
    let lease = lease(1, 0..200, 4);
    let challenge = Challenge::new(&lease.work.header, 64, lease.work.target).unwrap();
    backend.assign(lease).unwrap();
    idle(&mut backend);
    let mut found = BTreeSet::new();
    for report in reports.try_iter() {
        if let Report::Found { nonce, tag, .. } = report {
            assert_eq!(challenge.tag(nonce, &Default::default()), Ok(tag));
            found.insert(nonce);
        }
    }
    for nonce in 0..200 {
        let is_solution = challenge.verify(nonce, &Default::default()).unwrap().is_some();
        assert_eq!(found.contains(&nonce), is_solution);
    }
}

#[test]
fn cancelled_leases_end_and_what_was_done_is_known() {
    for handover in [Handover::Abandon, Handover::Finish] {
        let (mut backend, reports) = started(&options(2, 2));
        let mut counted = Hashes::default();
        let (mut all, mut round) = (0, 0);
        let until = Instant::now() + Duration::from_secs(60);
        // Where others use the processor, a few milliseconds may not suffice for a hash.
        while round < 20 || (all == 0 && Instant::now() < until) {
            backend.assign(lease(round, 0..1 << 40, 0)).unwrap();
            std::thread::sleep(Duration::from_millis(round % 5));
            backend.cancel(handover).unwrap();
            idle(&mut backend);
            let hashes = backend.take_hashes();
            counted.counted += hashes.counted;
            counted.late += hashes.late;
            let done = done(&reports);
            assert!(done.iter().all(|(lease, _)| *lease == round));
            all += done.len() as u64;
            round += 1;
        }
        assert_eq!(counted.counted + counted.late, all, "{handover:?}: {counted:?}");
        assert!(all > 0);
    }
}

#[test]
fn nothing_is_begun_after_the_deadline() {
    let (mut backend, reports) = started(&options(2, 2));
    let mut millis = 30;
    let (work, hashes) = loop {
        let Lease { id, work, nonces } = lease(millis, 0..1 << 40, 0);
        let deadline = Instant::now() + Duration::from_millis(millis);
        let work = Arc::new(Work { deadline: Some(deadline), ..(*work).clone() });
        backend.assign(Lease { id, work: Arc::clone(&work), nonces }).unwrap();
        idle(&mut backend);
        assert!(Instant::now() >= deadline);
        let hashes = backend.take_hashes();
        assert!(hashes.late <= 4, "{hashes:?}");
        assert_eq!(done(&reports).len() as u64, hashes.counted + hashes.late);
        // Where others use the processor, nothing may have been begun before the deadline either.
        if hashes.counted > 0 || millis > 20_000 {
            break (work, hashes);
        }
        millis *= 2;
    };
    assert!(hashes.counted > 0, "{hashes:?}");
    backend.assign(Lease { id: 2, work, nonces: 0..100 }).unwrap();
    idle(&mut backend);
    assert_eq!(backend.take_hashes(), Hashes::default());
}

#[test]
fn a_work_that_needs_more_memory_is_refused() {
    let (mut backend, _reports) = started(&options(1, 1));
    let Lease { id, work, nonces } = lease(1, 0..10, 0);
    let work = Arc::new(Work { memory_kib: 128, ..(*work).clone() });
    let refused = backend.assign(Lease { id, work, nonces });
    assert_eq!(refused, Err(BackendError::WorkTooLarge { needed: 128, has: 64 }));
    // One that needs less is not.
    let Lease { id, work, nonces } = lease(2, 0..10, 0);
    let work = Arc::new(Work { memory_kib: 32, ..(*work).clone() });
    backend.assign(Lease { id, work, nonces }).unwrap();
    idle(&mut backend);
    assert_eq!(backend.take_hashes().counted, 10);
}

/// A backend whose arenas beyond the first so many are refused.
fn refusing(options: &CpuOptions, given: usize) -> CpuBackend {
    let plan = plan(options, &Topology::of_machine(), &Budget::of_kib(1 << 20)).unwrap();
    let mut backend = CpuBackend::planned(options, plan);
    let count = AtomicUsize::new(0);
    backend.take_arena = Arc::new(move |memory_kib: u32| {
        if count.fetch_add(1, Relaxed) < given {
            Arena::with_pages(memory_kib, Pages::Plain)
        } else {
            // No machine has 4 TiB in pages of 1 GiB to spare.
            Arena::with_pages(u32::MAX, Pages::Giant)
        }
    });
    backend
}

#[test]
fn with_fewer_arenas_than_planned_a_worker_goes_on() {
    let mut backend = refusing(&options(1, 4), 2);
    let reports = start(&mut backend);
    backend.assign(lease(1, 0..50, 0)).unwrap();
    idle(&mut backend);
    let warned = |report: Report| matches!(report, Report::Warning(text) if text.contains(": 2"));
    assert!(reports.try_iter().any(warned));
    assert_eq!(backend.take_hashes().counted, 50);
    assert_eq!(backend.telemetry().workers[0].side_by_side, 2);
}

#[test]
fn without_an_arena_it_does_not_start() {
    for given in [0, 1] {
        let mut backend = refusing(&options(2, 1), given);
        let (sink, _reports) = sink();
        let refused = backend.start(sink, Arc::default());
        assert!(matches!(refused, Err(BackendError::Memory(_))), "{refused:?}");
        backend.stop();
        assert!(backend.threads.is_empty());
    }
}

#[test]
fn a_worker_that_panics_is_a_failure() {
    let plan = plan(&options(2, 1), &Topology::of_machine(), &Budget::of_kib(1 << 20)).unwrap();
    let mut backend = CpuBackend::planned(&options(2, 1), plan);
    backend.take_arena =
        Arc::new(|_: u32| -> Result<Arena, Refused> { panic!("this is part of a test") });
    let (sink, reports) = sink();
    let failed = backend.start(sink, Arc::default());
    assert!(matches!(failed, Err(BackendError::Device(_))), "{failed:?}");
    backend.stop();
    // The second worker may have been told to stop before it asked for memory.
    let failures = reports.try_iter().filter(|r| matches!(r, Report::Failed(_))).count();
    assert!(matches!(failures, 1 | 2), "{failures}");
}

#[test]
fn resting_workers_leave_the_nonces_to_the_others() {
    let (mut backend, reports) = started(&options(3, 2));
    let dial = backend.dial();
    assert_eq!((dial.workers(), backend.capabilities().lanes), (3, 6));
    let of_each = |backend: &CpuBackend| -> Vec<u64> {
        backend.telemetry().workers.iter().map(|worker| worker.hashes).collect()
    };
    dial.set(1);
    assert_eq!(backend.capabilities().lanes, 2);
    backend.assign(lease(1, 0..2000, 0)).unwrap();
    idle(&mut backend);
    let alone = of_each(&backend);
    assert_eq!(alone, [2000, 0, 0]);
    // More than there are is all of them, none is one.
    dial.set(100);
    assert_eq!(backend.capabilities().lanes, 6);
    dial.set(0);
    assert_eq!(backend.capabilities().lanes, 2);
    // Also in the middle of a lease, and the others go on where they were.
    backend.assign(lease(2, 0..1 << 40, 0)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    dial.set(3);
    while of_each(&backend)[1..].contains(&0) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    dial.set(1);
    backend.cancel(Handover::Finish).unwrap();
    idle(&mut backend);
    assert!(of_each(&backend).iter().all(|hashes| *hashes > 0), "{:?}", of_each(&backend));
    let hashes = backend.take_hashes();
    assert_eq!(done(&reports).len() as u64, hashes.counted + hashes.late);
}

#[test]
fn stopping_ends_a_hash_between_two_slices() {
    let large = CpuOptions { memory_kib: 64 << 10, budget_kib: Some(64 << 10), ..options(1, 1) };
    let (mut backend, _reports) = started(&large);
    let Lease { id, work, nonces } = lease(1, 0..1 << 40, 0);
    let work = Arc::new(Work { memory_kib: 64 << 10, ..(*work).clone() });
    backend.assign(Lease { id, work, nonces }).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    backend.interrupt().interrupt();
    backend.stop();
    assert!(backend.threads.is_empty());
}
