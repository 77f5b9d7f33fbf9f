//! Against the test pool.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use shoal_miner::config::Settings;
use shoal_testpool::address::{Network, sample};
use shoal_testpool::{Event, Faults, Rules, TestPool, VardiffRules};

use crate::{LONG, Running, small};

pub(crate) fn for_pool(pool: &TestPool) -> Settings {
    Settings {
        pool: Some(pool.url()),
        address: Some(sample(1, Network::Main)),
        worker: Some("rig".to_owned()),
        ..small()
    }
}

/// Shares of difficulty 200, so that one is found every few milliseconds and not all the time. A
/// machine that is busy with other things makes no share stale.
pub(crate) fn rules() -> Rules {
    Rules { difficulty: 200, template_grace: LONG, supersede_grace: LONG, ..Rules::small() }
}

fn connections(pool: &TestPool) -> usize {
    pool.count(|event| *event == Event::Connected)
}

#[test]
fn shares_are_found_once_and_accepted() {
    let pool = TestPool::start(rules()).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(30, LONG));
    // The verdict reaches the board a moment after the pool has told it.
    assert!(miner.wait(|state| state.shares.verified >= 30));
    let board = std::sync::Arc::clone(&miner.board);
    miner.stop().unwrap();
    let state = board.state();
    assert!(state.engine.unwrap().hashes >= 30);
    assert_eq!((state.shares.refused, state.shares.stale, state.shares.lost), (0, 0, 0));
    let mut nonces = HashSet::new();
    for (_, _, event) in pool.log() {
        match event {
            Event::Submit { nonce, claimed, verdict, .. } => {
                assert!(claimed && nonces.insert(nonce), "{nonce} twice, or without its hash");
                assert!(verdict.unwrap().verified);
            }
            Event::Login { worker, protocol_version, refused, .. } => {
                assert_eq!((worker.as_str(), protocol_version, refused), ("rig", 2, None));
            }
            _ => {}
        }
    }
}

/// While the fault lasts the miner neither ends nor hammers, and opens `least` connections;
/// afterwards it finds shares again.
fn survives(name: &str, faults: Faults, time: Duration, least: usize) -> usize {
    let pool = TestPool::start(rules()).unwrap();
    pool.set_faults(faults);
    let begun = Instant::now();
    let miner = Running::start(for_pool(&pool));
    let opened = |event: &Event| *event == Event::Connected;
    assert!(pool.wait(LONG, |log| log.iter().any(|(_, _, event)| opened(event))), "{name}");
    pool.wait(time, |_| false);
    let during = connections(&pool);
    // Waits of 50, 100, 200, 400, 400 ms, three quarters of that at the least.
    let bound = 5 + (begun.elapsed().as_millis() / 300) as usize;
    assert!(during <= bound, "{name}: {during} connections, {bound} at most");
    let enough =
        pool.wait(LONG, |log| log.iter().filter(|(_, _, event)| opened(event)).count() >= least);
    assert!(enough, "{name}: not {least} connections");
    pool.set_faults(Faults::default());
    let before = pool.accepted();
    assert!(pool.wait_accepted(before + 3, LONG), "{name}: it never recovered");
    miner.stop().unwrap();
    during
}

const A_WHILE: Duration = Duration::from_millis(900);

#[test]
fn a_pool_that_closes_at_once_is_not_hammered() {
    let faults = Faults { close_at_once: true, ..Faults::default() };
    survives("close at once", faults, A_WHILE, 2);
    let faults = Faults { close_after_login: true, ..Faults::default() };
    survives("close after login", faults, A_WHILE, 2);
}

#[test]
fn lines_in_pieces_are_put_together() {
    let pool = TestPool::start(rules()).unwrap();
    let pause = Duration::from_millis(20);
    pool.set_faults(Faults { split_lines: Some(pause), ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(5, LONG));
    assert_eq!(connections(&pool), 1);
    miner.stop().unwrap();
}

#[test]
fn half_a_job_and_huge_lines_end_the_connection_only() {
    let faults = Faults { cut_job: true, ..Faults::default() };
    survives("half a job", faults, A_WHILE, 2);
    let faults = Faults { say_first: vec![vec![b'x'; 1 << 20]], ..Faults::default() };
    survives("a huge line", faults, A_WHILE, 2);
}

#[test]
fn nonsense_is_passed_over() {
    let pool = TestPool::start(rules()).unwrap();
    pool.set_faults(Faults { say_first: Faults::nonsense(), ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(3, LONG));
    miner.hear("makes no sense");
    miner.hear("what nobody knows: dance");
    miner.hear("pool_notice: a bare sentence");
    assert_eq!(connections(&pool), 1);
    // Words of the pool do not move the cursor.
    pool.say(br#"{"method":"dance\u001b[2J"}"#);
    miner.hear("dance [2J");
    // A line may be as long as those that the pool itself takes.
    let words = "w".repeat(8100);
    pool.notify("news", &words);
    miner.hear(&format!("news: {}...", &words[..300]));
    let before = pool.accepted();
    assert!(pool.wait_accepted(before + 1, LONG));
    assert_eq!(connections(&pool), 1);
    miner.stop().unwrap();
}

#[test]
fn silence_of_every_kind_keeps_nobody_from_ending() {
    for (name, faults) in [
        ("silent", Faults { silent: true, ..Faults::default() }),
        ("no jobs", Faults { no_jobs: true, ..Faults::default() }),
    ] {
        let pool = TestPool::start(rules()).unwrap();
        pool.set_faults(faults);
        let miner = Running::start(for_pool(&pool));
        let login = |event: &Event| matches!(event, Event::Login { .. });
        assert!(pool.wait(LONG, |log| log.iter().any(|(_, _, event)| login(event))), "{name}");
        assert_eq!(connections(&pool), 1, "{name}");
        miner.stop().unwrap();
    }
    // Shares without an answer fill what may be under way; the next connection carries on.
    let pool = TestPool::start(rules()).unwrap();
    pool.set_faults(Faults { swallow_submits: true, ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    let submits = |log: &[(u64, Instant, Event)]| {
        log.iter().filter(|(_, _, event)| matches!(event, Event::Submit { .. })).count()
    };
    assert!(pool.wait(LONG, |log| submits(log) >= 16));
    assert_eq!(connections(&pool), 1);
    pool.set_faults(Faults::default());
    let before = pool.accepted();
    pool.close_connections();
    assert!(pool.wait_accepted(before + 3, LONG));
    miner.stop().unwrap();
}

#[test]
fn a_refusal_for_good_ends_the_run_with_the_pools_words() {
    let pool = TestPool::start(rules()).unwrap();
    let settings = Settings { address: Some("abc".to_owned()), ..for_pool(&pool) };
    let error = Running::start(settings).end().unwrap_err();
    assert_eq!(error, "the pool refused the login: invalid address: invalid address length: 3");

    pool.set_faults(Faults { require: Some("time_travel".to_owned()), ..Faults::default() });
    let error = Running::start(for_pool(&pool)).end().unwrap_err();
    assert_eq!(error, "the pool requires what this miner does not know: time_travel");
    assert_eq!(connections(&pool), 2, "it is not tried again");
}

#[test]
fn a_refusal_for_now_is_tried_again() {
    let words = "server busy, retry".to_owned();
    let faults = Faults { refuse_login: Some(words), ..Faults::default() };
    survives("busy", faults, A_WHILE, 2);
}

#[test]
fn stale_shares_bring_a_new_login_without_hammering() {
    let words = "stale job: template 00 exceeded stale grace (current=-, stale_for=20.000s, \
                 stale_grace=5.000s)";
    let faults = Faults { refuse_submits: Some(words.to_owned()), ..Faults::default() };
    survives("stale", faults, A_WHILE, 2);
    let words = "stale job: assignment not found".to_owned();
    let faults = Faults { refuse_submits: Some(words), ..Faults::default() };
    survives("unknown job", faults, A_WHILE, 2);
}

#[test]
fn every_other_refusal_is_counted_and_borne() {
    for words in [
        "low difficulty share",
        "invalid share proof",
        "hash computation failed",
        "duplicate share",
        "nonce out of assigned range",
        "job not assigned to this miner",
        "claimed hash required",
        "invalid hex",
        "hex length must be even",
        "expected 32-byte hash, got 1 bytes",
    ] {
        let pool = TestPool::start(rules()).unwrap();
        pool.set_faults(Faults { refuse_submits: Some(words.to_owned()), ..Faults::default() });
        let miner = Running::start(for_pool(&pool));
        assert!(miner.wait(|state| state.shares.refused > 0), "{words}");
        miner.hear(words);
        assert_eq!(connections(&pool), 1, "{words}");
        miner.stop().unwrap();
    }
}

#[test]
fn a_busy_pool_gets_the_share_again() {
    for words in ["server busy, retry", "rate limited, retry", "validation timeout"] {
        let faults = Faults { refuse_submits: Some(words.to_owned()), ..Faults::default() };
        assert_eq!(survives(words, faults, Duration::from_millis(400), 1), 1);
    }
}

#[test]
fn a_pool_that_forgot_us_is_logged_in_to_again() {
    let faults = Faults { refuse_submits: Some("not logged in".into()), ..Faults::default() };
    survives("not logged in", faults, A_WHILE, 2);
}

#[test]
fn answers_in_every_order_are_understood() {
    for (name, faults) in [
        ("job first", Faults { job_before_ack: true, ..Faults::default() }),
        ("late", Faults { late_ack: Some(Duration::from_millis(100)), ..Faults::default() }),
        ("twice", Faults { double_ack: true, ..Faults::default() }),
    ] {
        let pool = TestPool::start(rules()).unwrap();
        pool.set_faults(faults);
        let miner = Running::start(for_pool(&pool));
        assert!(miner.wait(|state| state.shares.accepted >= 5), "{name}");
        assert_eq!(connections(&pool), 1, "{name}");
        let shares = miner.board.state().shares;
        assert_eq!((shares.refused, shares.lost), (0, 0), "{name}");
        miner.stop().unwrap();
    }
}

#[test]
fn an_answer_may_come_after_the_next_job() {
    let pool = TestPool::start(rules()).unwrap();
    let late_ack = Some(Duration::from_millis(200));
    pool.set_faults(Faults { late_ack, ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(1, LONG));
    // Its answer is still to come.
    pool.reassign();
    pool.advance();
    let height = pool.template().height;
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.height == height)));
    assert!(miner.wait(|state| state.shares.accepted >= 5));
    let shares = miner.board.state().shares;
    assert_eq!((shares.refused, shares.stale, shares.lost), (0, 0, 0));
    miner.stop().unwrap();
}

/// Verdicts so far: of the pool, every accepted nonce; of the miner, the last
/// word about each.
fn fates(pool: &TestPool, miner: &Running) -> (Vec<u64>, HashMap<u64, String>) {
    let accepted = pool.log().into_iter().filter_map(|(_, _, event)| match event {
        Event::Submit { nonce, verdict: Ok(_), .. } => Some(nonce),
        _ => None,
    });
    (accepted.collect(), miner.verdicts.lock().unwrap().clone())
}

/// Checks the miner's counts: no share at the pool counts as refused or lost, none
/// counts twice, and none told as accepted is missing at the pool.
fn counts_are_true(pool: &TestPool, miner: &Running) {
    let (accepted, told) = fates(pool, miner);
    let mut nonces = HashSet::new();
    for nonce in &accepted {
        assert!(nonces.insert(*nonce), "{nonce} counts twice");
        let told = told.get(nonce).map(String::as_str);
        assert!(matches!(told, None | Some("accepted" | "unknown")), "{nonce} is {told:?}");
    }
    for (nonce, verdict) in &told {
        assert!(verdict != "accepted" || nonces.contains(nonce), "{nonce} is not at the pool");
    }
}

#[test]
fn a_pool_that_restarts_is_worked_for_at_once_and_stays_connected() {
    let pool = TestPool::start(rules()).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(5, LONG));
    pool.restart(Duration::from_millis(1500));
    assert!(miner.wait(|state| !state.source.connected));
    assert!(miner.wait(|state| state.source.connected));
    let so_far = pool.accepted();
    assert!(pool.wait_accepted(so_far + 20, LONG));
    // Shares found meanwhile are for a forgotten job, and no reason to
    // hang up.
    assert!(miner.wait(|state| state.shares.stale + state.shares.unknown > 0));
    miner.hear("stale job: assignment not found");
    assert_eq!(miner.board.state().source.connects, 2);
    counts_are_true(&pool, &miner);
    miner.stop().unwrap();
}

#[test]
fn shares_whose_answers_are_lost_count_once_and_never_as_refused() {
    let pool = TestPool::start(rules()).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(5, LONG));
    pool.set_faults(Faults { lose_acks: true, ..Faults::default() });
    assert!(pool.wait(LONG, |log| {
        log.iter().filter(|(_, _, event)| *event == Event::Closed).count() >= 3
    }));
    pool.set_faults(Faults::default());
    let so_far = pool.accepted();
    assert!(pool.wait_accepted(so_far + 10, LONG));
    // The same, and then a restart: nobody knows the fate of the last ones any more.
    pool.set_faults(Faults { lose_acks: true, ..Faults::default() });
    let closed = |log: &[(u64, Instant, Event)]| {
        log.iter().filter(|(_, _, event)| *event == Event::Closed).count()
    };
    let so_far = closed(&pool.log());
    assert!(pool.wait(LONG, |log| closed(log) > so_far));
    pool.restart(Duration::from_millis(100));
    pool.set_faults(Faults::default());
    miner.hear("unknown: its first answer was lost, now: stale job: assignment not found");
    counts_are_true(&pool, &miner);
    miner.stop().unwrap();
}

#[test]
fn a_quarantine_stops_the_miner_once_and_for_its_time() {
    let pool = TestPool::start(rules()).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(5, LONG));
    let quarantine = Some(Duration::from_secs(2));
    pool.set_faults(Faults { quarantine, ..Faults::default() });
    let begun = Instant::now();
    miner.hear("no work: the pool has shut the address out");
    assert!(miner.wait(|state| state.task.is_none()));
    let (so_far, hashes) =
        (pool.accepted(), miner.board.state().engine.map_or(0, |engine| engine.hashes));
    assert!(pool.wait_accepted(so_far + 5, LONG), "it never went on");
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    // The miner waited for the end instead of asking again and again.
    assert_eq!(connections(&pool), 2);
    assert!(miner.wait(|state| state.engine.as_ref().is_some_and(|one| one.hashes > hashes)));
    let lines = miner.lines.lock().unwrap();
    let said = lines.iter().filter(|line| line.contains("shut the address out")).count();
    drop(lines);
    assert!(said >= 1);
    counts_are_true(&pool, &miner);
    miner.stop().unwrap();
}

#[test]
fn a_block_that_the_pools_node_refuses_is_stale_and_no_reason_to_hang_up() {
    let pool = TestPool::start(Rules { network_difficulty: 1, ..rules() }).unwrap();
    let words = r#"submitblock 400: {"error":"block rejected as stale"}"#;
    pool.set_faults(Faults { block_refusal: Some(words.to_owned()), ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    assert!(miner.wait(|state| state.shares.stale >= 5));
    miner.hear(words);
    let words = "submitblock 500: ".to_owned();
    pool.set_faults(Faults { block_refusal: Some(words), ..Faults::default() });
    assert!(miner.wait(|state| state.shares.unknown >= 1));
    assert_eq!((connections(&pool), miner.board.state().shares.refused), (1, 0));
    counts_are_true(&pool, &miner);
    miner.stop().unwrap();
}

#[test]
fn a_share_whose_answer_was_cut_off_is_sold_on_the_next_connection() {
    let pool = TestPool::start(rules()).unwrap();
    pool.set_faults(Faults { close_on_submit: true, ..Faults::default() });
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait(LONG, |log| {
        log.iter().filter(|(_, _, event)| *event == Event::Closed).count() >= 2
    }));
    pool.set_faults(Faults::default());
    assert!(pool.wait_accepted(3, LONG));
    miner.stop().unwrap();
}

#[test]
fn new_blocks_and_new_windows_are_taken_at_once() {
    let pool = TestPool::start(rules()).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(2, LONG));
    pool.advance();
    let height = pool.template().height;
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.height == height)));
    let before = pool.accepted();
    assert!(pool.wait_accepted(before + 2, LONG));
    let task = miner.board.state().task.unwrap().id;
    pool.reassign();
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|now| now.id != task)));
    let before = pool.accepted();
    assert!(pool.wait_accepted(before + 2, LONG));
    pool.notify("pool_block_solved", "somebody was lucky");
    miner.hear("pool_block_solved: somebody was lucky");
    miner.stop().unwrap();
}

#[test]
fn a_used_up_window_is_followed_by_the_next() {
    // Twenty nonces, of which every second is a share.
    let pool = TestPool::start(Rules { window: 20, difficulty: 2, ..rules() }).unwrap();
    let miner = Running::start(for_pool(&pool));
    miner.hear("every nonce of the window was tried");
    // The last of them may still be under way.
    assert!(pool.wait_accepted(1, LONG));
    let so_far = pool.accepted();
    pool.reassign();
    assert!(pool.wait_accepted(so_far + 1, LONG));
    miner.stop().unwrap();
    let mut nonces = HashSet::new();
    for (_, _, event) in pool.log() {
        if let Event::Submit { nonce, verdict, .. } = event {
            assert!(verdict.is_ok() && nonces.insert(nonce), "{nonce}: {verdict:?}");
        }
    }
}

#[test]
fn difficulty_rises_and_is_asked_for_again_after_a_break() {
    let vardiff = VardiffRules {
        elapsed_min: Duration::from_millis(20),
        pause: Duration::from_millis(50),
        ..VardiffRules::default()
    };
    let pool = TestPool::start(Rules { vardiff: Some(vardiff), ..rules() }).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.difficulty > 400)));
    pool.close_connections();
    let hinted = |event: &Event| matches!(event, Event::Login { difficulty_hint: Some(hint), .. } if *hint > 400);
    assert!(pool.wait(LONG, |log| log.iter().any(|(_, _, event)| hinted(event))));
    let shares = miner.board.state().shares;
    assert_eq!((shares.refused, shares.stale), (0, 0));
    miner.stop().unwrap();
}

#[test]
fn an_old_pool_is_spoken_to_in_its_own_way() {
    let old = Rules { legacy: true, claims_required: false, ..rules() };
    let pool = TestPool::start(old).unwrap();
    let miner = Running::start(for_pool(&pool));
    assert!(pool.wait_accepted(3, LONG));
    miner.hear("protocol 1");
    miner.stop().unwrap();
}

#[test]
fn a_block_is_told_and_the_next_height_follows() {
    let pool = TestPool::start(Rules { network_difficulty: 400, ..rules() }).unwrap();
    let miner = Running::start(for_pool(&pool));
    let block = |event: &Event| matches!(event, Event::Submit { verdict: Ok(accepted), .. } if accepted.block);
    assert!(pool.wait(LONG, |log| log.iter().any(|(_, _, event)| block(event))));
    assert!(miner.wait(|state| state.shares.blocks > 0));
    miner.hear("miner_block_found: you found block");
    // It goes on to the next a moment after it told so.
    assert!(miner.wait(|_| pool.template().height > 1));
    miner.stop().unwrap();
}
