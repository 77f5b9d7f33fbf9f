//! A graphics processor in the engine and at the pool: the software adapter, or whatever there
//! is. Without one, the tests say so and end.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use shoal_gpu::{Adapter, AdapterKind, adapters};
use shoal_miner::backend::Backend;
use shoal_miner::backend::gpu::{GpuBackend, GpuOptions, choose};
use shoal_miner::config::Settings;
use shoal_miner::engine::WorkEnd;
use shoal_miner::{Engine, EngineOptions, Event, Handover, Work};
use shoal_pow::{Challenge, Options, Target};
use shoal_testpool::{Rules, TestPool};

use super::{LONG, Running};

fn adapter() -> Option<Adapter> {
    let mut found = adapters();
    found.sort_by_key(|adapter| adapter.kind != AdapterKind::Software);
    if found.is_empty() {
        say(
            "NO ADAPTER: no graphics device and no software one (Mesa's lavapipe) is here: skipped",
        );
    }
    found.into_iter().next()
}

/// Past the capture of passing tests.
fn say(words: &str) {
    writeln!(io::stderr(), "{words}").expect("stderr is open");
}

fn work(id: u64, header: &[u8], memory_kib: u32, nonces: std::ops::Range<u64>) -> Work {
    Work {
        id,
        header: header.to_vec(),
        memory_kib,
        target: Target::from_difficulty(2),
        nonces,
        deadline: None,
        pause_on_solution: false,
    }
}

/// Solutions until the work's end.
fn until_done(events: &Receiver<Event>, id: u64) -> (BTreeMap<u64, [u8; 32]>, WorkEnd) {
    let mut found = BTreeMap::new();
    loop {
        match events.recv_timeout(LONG).unwrap() {
            Event::Solution(solution) if solution.work_id == id => {
                assert_eq!(found.insert(solution.nonce, solution.tag), None);
            }
            Event::WorkDone { work_id, end, .. } if work_id == id => return (found, end),
            Event::BackendQuarantined { fault, .. } => panic!("{fault}"),
            _ => {}
        }
    }
}

#[test]
fn a_device_alone_finds_every_solution_of_every_work() {
    let Some(adapter) = adapter() else { return };
    let device = GpuBackend::new(GpuOptions {
        device_memory_kib: Some(2048),
        ..GpuOptions::new("gpu0", adapter, 64)
    });
    let backends: Vec<Box<dyn Backend>> = vec![Box::new(device)];
    let (engine, events) = Engine::start(EngineOptions::new(backends)).unwrap();
    for (id, memory_kib) in [(1, 64), (2, 64), (3, 256)] {
        let header = [id as u8; 92];
        let work = work(id, &header, memory_kib, 1000 * id..1000 * id + 150);
        engine.assign(work.clone(), Handover::Abandon).unwrap();
        let (found, end) = until_done(&events, id);
        assert_eq!(end, WorkEnd::Exhausted);
        let challenge = Challenge::new(&header, memory_kib, work.target).unwrap();
        for nonce in work.nonces {
            let expect = challenge.verify(nonce, &Options::default()).unwrap();
            assert_eq!(found.get(&nonce).copied(), expect.map(|s| s.tag), "nonce {nonce}");
        }
    }
    // A work is replaced in its midst: the next one is right, and nothing of a first one to be
    // finished is lost.
    for (id, handover) in [(10, Handover::Abandon), (12, Handover::Finish)] {
        engine.assign(work(id, b"replaced soon", 256, 0..1 << 40), Handover::Abandon).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        engine.assign(work(id + 1, b"the next one", 64, 0..40), handover).unwrap();
        let (_, end) = until_done(&events, id);
        assert_eq!(end, WorkEnd::Replaced);
        let (found, end) = until_done(&events, id + 1);
        assert_eq!(end, WorkEnd::Exhausted);
        let challenge = Challenge::new(b"the next one", 64, Target::from_difficulty(2)).unwrap();
        let expect = (0..40).filter_map(|n| challenge.verify(n, &Options::default()).unwrap());
        assert!(expect.map(|s| (s.nonce, s.tag)).eq(found));
    }
    assert!(engine.fence(LONG));
    let status = engine.status();
    assert_eq!(status.false_solutions, 0);
    assert!(status.hashes >= 450 + 80, "{}", status.hashes);
}

#[test]
fn a_pools_shares_come_from_the_device() {
    let Some(adapter) = adapter() else { return };
    // The processor has nonces to try for as long as the device takes to open.
    let rules = Rules { difficulty: 4, window: 1 << 40, ..super::pool::rules() };
    let pool = TestPool::start(rules).unwrap();
    let settings = Settings {
        gpu: Some(vec![adapter.name.clone()]),
        gpu_memory_kib: Some(4096),
        ..super::pool::for_pool(&pool)
    };
    let miner = Running::start(settings);
    let device = |state: &shoal_miner::board::State| {
        let status = state.engine.as_ref()?;
        status.backends.iter().find(|backend| backend.name == "gpu0").cloned()
    };
    let is_at_work = miner.wait(|state| device(state).is_some_and(|gpu| gpu.hashes > 100));
    assert!(is_at_work, "{:?} {:?}", miner.board.state().engine, miner.lines.lock().unwrap());
    let gpu = device(&miner.board.state()).unwrap();
    assert_eq!(gpu.fault, None);
    assert!(gpu.kernel.contains("bit"), "{}", gpu.kernel);
    assert!(pool.wait_accepted(20, LONG));
    assert!(miner.wait(|state| state.shares.verified >= 20));
    miner.stop().unwrap();
}

#[test]
fn devices_are_named_by_parts_and_software_only_by_name() {
    let Some(adapter) = adapter() else { return };
    let error = choose(&["no such device".to_owned()]).unwrap_err().to_string();
    assert!(error.contains(&adapter.name), "{error}");
    let part = adapter.name[..4].to_uppercase();
    assert!(choose(&[part]).unwrap().iter().any(|found| found.name == adapter.name));
    let cards = choose(&["cards".to_owned()]);
    assert!(cards.is_err() || cards.unwrap().iter().all(|card| !card.kind.shares_memory()));
}
