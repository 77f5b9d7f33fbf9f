//! CUDA's backend in the engine, on an emulated card: lost and found again, wrong, full, chosen.
//! Without a C compiler, the tests say so and end.

use std::io::{self, Write as _};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use shoal_gpu::{Adapter, AdapterKind, EmulatedCard};
use shoal_miner::backend::Backend;
use shoal_miner::backend::gpu::{GpuBackend, GpuOptions, INTERFACES, choose_among};
use shoal_miner::bench::{BenchOptions, run_backends};
use shoal_miner::engine::WorkEnd;
use shoal_miner::{CpuBackend, CpuOptions, Engine, EngineOptions, Event, Handover, Work};
use shoal_pow::{Challenge, Options, Target};

use super::LONG;

fn adapter(card: &EmulatedCard) -> Option<Adapter> {
    match card.adapter() {
        Ok(adapter) => Some(adapter),
        Err(why) => {
            // Past the capture of passing tests.
            writeln!(io::stderr(), "NO EMULATED CARD: {why}: skipped").expect("stderr is open");
            None
        }
    }
}

fn device(adapter: Adapter) -> Box<dyn Backend> {
    let options = GpuOptions::new("gpu0", adapter, 64);
    Box::new(GpuBackend::new(GpuOptions { device_memory_kib: Some(1024), ..options }))
}

fn processor() -> Box<dyn Backend> {
    let one = Some(1);
    let options = CpuOptions { memory_kib: 64, threads: one, ..CpuOptions::default() };
    Box::new(CpuBackend::new(&CpuOptions { side_by_side: one, ..options }).unwrap())
}

fn work(id: u64, nonces: std::ops::Range<u64>) -> Work {
    Work {
        id,
        header: b"a header of the emulated card".to_vec(),
        memory_kib: 64,
        target: Target::from_difficulty(4),
        nonces,
        deadline: None,
        pause_on_solution: false,
    }
}

/// Waits for an event; the events before are dropped.
fn until(events: &Receiver<Event>, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    let end = Instant::now() + LONG;
    loop {
        let event = events.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
        if is_it(&event) {
            return event;
        }
    }
}

/// Waits until a backend has finished more than `count` hashes.
fn until_hashes(engine: &Engine, name: &str, count: u64) -> u64 {
    let end = Instant::now() + LONG;
    loop {
        let status = engine.status();
        let backend = status.backends.iter().find(|backend| backend.name == name).unwrap();
        if backend.hashes > count {
            return backend.hashes;
        }
        assert!(Instant::now() < end, "{name} stays at {}: {:?}", backend.hashes, backend.fault);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a card is put aside.
fn until_put_aside(events: &Receiver<Event>, mut note: impl FnMut(&Event)) {
    until(events, |event| {
        note(event);
        match event {
            Event::Warning { text, .. } => text.contains("lost") && text.contains("tried again"),
            _ => false,
        }
    });
}

#[test]
fn a_lost_card_comes_back_and_every_nonce_is_tried_once() {
    let card = EmulatedCard::new(1 << 16);
    let Some(adapter) = adapter(&card) else { return };
    let (engine, events) = Engine::start(EngineOptions::new(vec![device(adapter)])).unwrap();
    let work = work(1, 0..400);
    engine.assign(work.clone(), Handover::Abandon).unwrap();
    until_hashes(&engine, "gpu0", 10);
    card.unplug();
    let mut found = std::collections::BTreeMap::new();
    let mut note = |event: &Event| {
        if let Event::Solution(solution) = event {
            assert_eq!(found.insert(solution.nonce, solution.tag), None, "found once");
        }
    };
    until_put_aside(&events, &mut note);
    card.plug_in();
    let done = until(&events, |event| {
        note(event);
        matches!(event, Event::WorkDone { .. } | Event::BackendQuarantined { .. })
    });
    let Event::WorkDone { end, .. } = done else { panic!("{done:?}") };
    assert_eq!(end, WorkEnd::Exhausted);
    let challenge = Challenge::new(&work.header, 64, work.target).unwrap();
    let expect = work
        .nonces
        .filter_map(|nonce| challenge.verify(nonce, &Options::default()).unwrap())
        .map(|solution| (solution.nonce, solution.tag));
    assert!(expect.eq(found), "every solution, and no other");
    assert_eq!(engine.status().false_solutions, 0);
}

#[test]
fn the_processor_goes_on_while_a_card_is_put_aside() {
    let card = EmulatedCard::new(1 << 16);
    let Some(adapter) = adapter(&card) else { return };
    let backends = vec![device(adapter), processor()];
    let (engine, events) = Engine::start(EngineOptions::new(backends)).unwrap();
    engine.assign(work(1, 0..1 << 40), Handover::Abandon).unwrap();
    until_hashes(&engine, "gpu0", 10);
    card.unplug();
    until_put_aside(&events, |_| ());
    let before = until_hashes(&engine, "cpu0", 0);
    until_hashes(&engine, "cpu0", before + 10);
    card.plug_in();
    let before = until_hashes(&engine, "gpu0", 0);
    until_hashes(&engine, "gpu0", before);
}

#[test]
fn a_card_that_begins_to_compute_wrongly_goes_into_quarantine() {
    // The trial at the opening is right: the answers after it are not.
    let card = EmulatedCard::new(1 << 16).wrong_from(40);
    let Some(adapter) = adapter(&card) else { return };
    let backends = vec![device(adapter), processor()];
    let (engine, events) = Engine::start(EngineOptions::new(backends)).unwrap();
    engine.assign(work(1, 0..1 << 40), Handover::Abandon).unwrap();
    let event = until(&events, |event| matches!(event, Event::BackendQuarantined { .. }));
    let Event::BackendQuarantined { backend, fault, .. } = event else { unreachable!() };
    assert_eq!(&*backend, "gpu0");
    assert!(fault.to_string().contains("tag") || fault.to_string().contains("false"), "{fault}");
}

#[test]
fn a_card_without_the_memory_is_said_and_the_others_work() {
    let Some(adapter) = adapter(&EmulatedCard::new(64)) else { return };
    let backends = vec![device(adapter), processor()];
    let (engine, events) = Engine::start(EngineOptions::new(backends)).unwrap();
    engine.assign(work(1, 0..40), Handover::Abandon).unwrap();
    // The card may fail before the processor has finished, or after.
    let (mut fault, mut exhausted) = (None, false);
    until(&events, |event| {
        match event {
            Event::BackendQuarantined { fault: why, .. } => fault = Some(why.to_string()),
            Event::WorkDone { end: WorkEnd::Exhausted, .. } => exhausted = true,
            _ => {}
        }
        exhausted && fault.is_some()
    });
    assert!(fault.as_ref().unwrap().contains("no memory left"), "{fault:?}");
}

#[test]
fn a_benchmark_tells_the_watts_of_a_device_that_tells_them() {
    let Some(adapter) = adapter(&EmulatedCard::new(1 << 16)) else { return };
    let options =
        BenchOptions { secs: 0.1, rounds: 2, warmup_rounds: 0, ..BenchOptions::default() };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = run_backends(vec![device(adapter)], 64, &options, &stop, &mut |_| ()).unwrap();
    assert_eq!(report.device_watts, Some(75.0));
    assert!(report.to_string().contains("devices draw 75 W"), "{report}");
    let report = run_backends(vec![processor()], 64, &options, &stop, &mut |_| ()).unwrap();
    assert_eq!(report.device_watts, None);
}

#[test]
fn a_card_of_two_interfaces_is_chosen_once() {
    let Some(adapter) = adapter(&EmulatedCard::new(64)) else { return };
    let named = |name: &str, api: &str, kind| {
        let mut one = adapter.clone();
        (one.name, one.api, one.kind) = (name.to_owned(), api.to_owned(), kind);
        one
    };
    let all = [
        named("NVIDIA RTX 1", "cuda", AdapterKind::Discrete),
        named("NVIDIA RTX 1", "vulkan", AdapterKind::Discrete),
        named("AMD 2", "vulkan", AdapterKind::Discrete),
        named("Inside 3", "vulkan", AdapterKind::Integrated),
        named("llvmpipe", "vulkan", AdapterKind::Software),
    ];
    let chosen = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let chosen = choose_among(&all, &names).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|one| format!("{} {}", one.name, one.api)).collect::<Vec<_>>())
    };
    let two = vec!["NVIDIA RTX 1 cuda".to_owned(), "AMD 2 vulkan".to_owned()];
    assert_eq!(chosen(&["cards"]), Ok::<_, String>(two.clone()));
    assert_eq!(chosen(&["rtx", "amd", "cards"]), Ok(two));
    assert_eq!(chosen(&["vulkan:rtx"]).unwrap(), ["NVIDIA RTX 1 vulkan"]);
    assert_eq!(chosen(&["cuda:cards"]).unwrap(), ["NVIDIA RTX 1 cuda"]);
    // Shared memory and software only by name.
    assert_eq!(chosen(&["inside", "LLVM"]).unwrap(), ["Inside 3 vulkan", "llvmpipe vulkan"]);
    let error = chosen(&["voodoo"]).unwrap_err();
    assert!(error.contains("NVIDIA RTX 1 (vulkan)") && error.contains("llvmpipe"), "{error}");
    let none = choose_among(&[], &["cards".to_owned()]).unwrap_err().to_string();
    assert!(none.contains(INTERFACES), "{none}");
}
