//! A miner that was told to end at any moment leaves no thread behind. A process of its own: other
//! tests have threads, too.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_miner::board::Board;
use shoal_miner::config::Settings;
use shoal_miner::miner::Miner;
use shoal_testpool::address::{Network, sample};
use shoal_testpool::{Event, Faults, Rules, TestPool};
use tokio::sync::watch;

fn threads() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        // The pool's own threads come and go with connections.
        .filter(|name| !name.starts_with("testpool"))
        .collect();
    names.sort_unstable();
    names
}

fn random_below(limit: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % limit
}

#[test]
fn every_thread_is_gone_afterwards() {
    let pool = TestPool::start(Rules { difficulty: 500, ..Rules::small() }).unwrap();
    // A thread has its creator's name until it runs; the pool's has run when it took a connection.
    drop(std::net::TcpStream::connect(pool.address()).unwrap());
    let gone = |log: &[(u64, Instant, Event)]| log.iter().any(|(_, _, e)| *e == Event::Closed);
    assert!(pool.wait(Duration::from_secs(60), gone));
    let before = threads();
    let waits = [0, 50, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 100_000];
    for (round, longest_us) in waits.into_iter().enumerate() {
        // At another moment each time the test is run; a failure names it.
        let wait_us = longest_us / 2 + random_below(longest_us / 2 + 1);
        pool.set_faults(Faults { silent: round % 3 == 2, ..Faults::default() });
        let settings = Settings {
            pool: Some(pool.url()),
            address: Some(sample(1, Network::Main)),
            memory_kib: Some(64),
            threads: Some(2),
            side_by_side: Some(2),
            ..Settings::default()
        };
        let (stop, stopped) = watch::channel(false);
        let (miner, _control) = Miner::new(settings, Arc::new(Board::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begun = Instant::now();
        runtime.block_on(async {
            let living = tokio::spawn(miner.live(stopped));
            tokio::time::sleep(Duration::from_micros(wait_us)).await;
            stop.send_replace(true);
            living.await.unwrap().unwrap();
        });
        drop(runtime);
        // Answers are waited for for two seconds, and a source that does not end for four.
        assert!(begun.elapsed() < Duration::from_secs(30), "{wait_us}: {:?}", begun.elapsed());
        // The system forgets a joined thread a moment later.
        let deadline = Instant::now() + Duration::from_secs(30);
        while threads() != before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(threads(), before, "after {wait_us} microseconds");
    }
}
