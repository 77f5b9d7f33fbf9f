//! Stopping at any moment leaves no thread behind. Alone in its file: it counts the threads of
//! its process.

use std::time::{Duration, Instant};

use shoal_miner::backend::Backend;
use shoal_miner::backend::sim::{SimBackend, SimFault, SimOptions};
use shoal_miner::{CpuBackend, CpuOptions, Engine, EngineOptions, Handover, Work};
use shoal_pow::Target;

/// Threads of this process; `None` where the system does not tell.
fn thread_count() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[test]
fn stopping_at_any_moment_leaves_no_thread_behind() {
    // The harness has a thread or two of its own.
    let before = thread_count();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % limit
    };
    for round in 0..60 {
        let cpu = CpuOptions {
            // Large enough now and then that taking it is a moment, too.
            memory_kib: if round % 4 == 0 { 16 << 10 } else { 64 },
            threads: Some(1 + below(3) as usize),
            side_by_side: Some(1 + below(4) as usize),
            budget_kib: Some(1 << 20),
            ..CpuOptions::default()
        };
        let memory_kib = cpu.memory_kib;
        let sim = SimOptions {
            start_takes: Duration::from_millis(below(30)),
            fault: if below(2) == 0 { SimFault::None } else { SimFault::Stall },
            device_memory_kib: 1 << 20,
            ..SimOptions::default()
        };
        let stuck = SimOptions {
            name: "stuck".into(),
            fault: SimFault::Stuck(Duration::from_secs(600)),
            ..SimOptions::default()
        };
        let mut backends: Vec<Box<dyn Backend>> =
            vec![Box::new(CpuBackend::new(&cpu).unwrap()), Box::new(SimBackend::new(sim))];
        let is_stuck = round % 20 == 19;
        if is_stuck {
            backends.push(Box::new(SimBackend::new(stuck)));
        }
        let mut options = EngineOptions::new(backends);
        if is_stuck {
            // After half of it, the call that is stuck is broken off.
            options.timeouts.stop = Duration::from_secs(2);
        }
        let (engine, events) = Engine::start(options).unwrap();
        let until = Instant::now() + Duration::from_micros(below(25_000));
        let mut id = 0;
        while Instant::now() < until {
            id += 1;
            let work = Work {
                id,
                header: vec![3; 92],
                memory_kib,
                target: Target::from_difficulty(50),
                nonces: 0..1 + below(1000),
                deadline: None,
                pause_on_solution: below(2) == 0,
            };
            engine.assign(work, Handover::Finish).unwrap();
            std::thread::sleep(Duration::from_micros(below(5000)));
        }
        if below(2) == 0 {
            assert!(engine.stop(), "round {round}");
        }
        drop(engine);
        assert!(events.iter().count() < 1_000_000, "the events end");
        // A thread that was joined may be listed for another moment.
        let until = Instant::now() + Duration::from_secs(30);
        while thread_count() != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(thread_count(), before, "round {round}");
    }
}
