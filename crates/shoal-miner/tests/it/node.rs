//! Against the test node.

use std::time::{Duration, Instant};

use shoal_miner::config::{Secret, Settings};
use shoal_testpool::address::{Network, sample};
use shoal_testpool::{NodeEvent, NodeFaults, NodeSettings, TestNode};

use crate::{LONG, Running, small};

/// Blocks of difficulty 50 and no limit on submits, unless a test wants one.
fn rules() -> NodeSettings {
    NodeSettings {
        memory_kib: 64,
        difficulty: 50,
        burst: 1_000_000,
        refill: Duration::from_millis(1),
        ..NodeSettings::default()
    }
}

fn for_node(node: &TestNode) -> Settings {
    Settings { node: Some(node.url()), cookie: node.cookie(), ..small() }
}

fn found(node: &TestNode, count: usize) -> bool {
    node.wait(LONG, |log| {
        let accepted =
            |event: &NodeEvent| matches!(event, NodeEvent::Submit { height: Some(_), .. });
        log.iter().filter(|(_, event)| accepted(event)).count() >= count
    })
}

fn templates(node: &TestNode) -> usize {
    node.count(|event| matches!(event, NodeEvent::Template(_)))
}

#[test]
fn blocks_are_found_and_handed_in_with_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let settings = NodeSettings { data_dir: Some(dir.path().to_owned()), ..rules() };
    let node = TestNode::start(settings).unwrap();
    let miner = Running::start(for_node(&node));
    assert!(found(&node, 5));
    assert!(miner.wait(|state| state.shares.accepted >= 5));
    miner.stop().unwrap();
    let (mut heights, mut ids) = (Vec::new(), Vec::new());
    for (_, event) in node.log() {
        if let NodeEvent::Submit { height: Some(height), request_id, .. } = event {
            heights.push(height);
            ids.extend(request_id);
        }
    }
    assert!(heights.windows(2).all(|two| two[0] < two[1]), "{heights:?}");
    // The numbers of those that came too late are missing: two may be found side by side.
    assert_eq!(ids[0], "shoal-submit-1");
    assert!(ids.iter().all(|id| id.starts_with("shoal-submit-")), "{ids:?}");
    assert_eq!(node.count(|event| *event == NodeEvent::Unauthorized), 0);
}

#[test]
fn a_new_token_is_read_when_the_old_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = NodeSettings { data_dir: Some(dir.path().to_owned()), ..rules() };
    let node = TestNode::start(settings).unwrap();
    let miner = Running::start(for_node(&node));
    assert!(found(&node, 2));
    node.rotate_cookie().unwrap();
    let so_far = node.accepted();
    assert!(found(&node, so_far + 2));
    assert!(node.count(|event| *event == NodeEvent::Unauthorized) >= 1);
    miner.stop().unwrap();
}

#[test]
fn a_token_that_is_wrong_for_good_ends_the_run_and_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let settings = NodeSettings { data_dir: Some(dir.path().to_owned()), ..rules() };
    let node = TestNode::start(settings).unwrap();
    let token = Some(Secret::new("hunter2hunter2".to_owned()));
    let settings = Settings { cookie: None, token, ..for_node(&node) };
    let miner = Running::start(settings);
    let board = std::sync::Arc::clone(&miner.board);
    let error = miner.end().unwrap_err();
    assert!(error.starts_with("the node refused: unauthorized; --token is not"), "{error}");
    assert!(error.contains("--cookie FILE"), "{error}");
    let shown = format!("{:?}{}", board.state(), serde_json::to_string(&board.state()).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_node_that_wants_a_token_says_how_to_show_one() {
    let dir = tempfile::tempdir().unwrap();
    let settings = NodeSettings { data_dir: Some(dir.path().to_owned()), ..rules() };
    let node = TestNode::start(settings).unwrap();
    let error = Running::start(Settings { cookie: None, ..for_node(&node) }).end().unwrap_err();
    assert!(error.contains("--cookie FILE") && error.contains("--token TOKEN"), "{error}");
    // The file of another node: its token may come yet, so this is no end.
    let other = dir.path().join("other.cookie");
    std::fs::write(&other, "ff".repeat(32)).unwrap();
    let miner = Running::start(Settings { cookie: Some(other), ..for_node(&node) });
    miner.hear("unauthorized; is --cookie");
    miner.stop().unwrap();
}

#[test]
fn a_node_without_a_wallet_is_explained() {
    let node = TestNode::start(NodeSettings { wallet: false, ..rules() }).unwrap();
    let miner = Running::start(for_node(&node));
    miner.hear("no wallet loaded; the node does not know who is paid: load its wallet, or say");
    miner.stop().unwrap();
}

#[test]
fn mining_goes_on_while_a_block_is_submitted() {
    let node = TestNode::start(rules()).unwrap();
    let slow_submits = Some(Duration::from_millis(1500));
    node.set_faults(NodeFaults { slow_submits, no_events: true, ..NodeFaults::default() });
    let miner = Running::start(Settings { events: Some(false), ..for_node(&node) });
    assert!(found(&node, 1));
    let hashes = || miner.board.state().engine.map_or(0, |engine| engine.hashes);
    let before = hashes();
    let begun = Instant::now();
    assert!(miner.wait(|_| hashes() > before));
    assert!(begun.elapsed() < Duration::from_millis(1400), "it waited for the answer");
    // The average is by the clock.
    assert!(miner.wait(|state| state.shares.accepted >= 2));
    let status = miner.board.state().engine.unwrap();
    let by_clock = status.hashes as f64 / status.ready_secs;
    assert!((status.rate_average / by_clock - 1.0).abs() < 0.01);
    assert!(status.ready_secs <= status.uptime_secs);
    miner.stop().unwrap();
}

#[test]
fn a_late_or_lost_yes_is_found_in_the_chain() {
    let slow_submits = Some(Duration::from_millis(2500));
    for (name, faults) in [
        ("late", NodeFaults { slow_submits, ..NodeFaults::default() }),
        ("lost", NodeFaults { lose_submits: true, ..NodeFaults::default() }),
    ] {
        let node = TestNode::start(rules()).unwrap();
        node.set_faults(faults);
        let settings = Settings { request_timeout_secs: Some(1), ..for_node(&node) };
        let miner = Running::start(settings);
        assert!(miner.wait(|state| state.shares.accepted >= 2), "{name}");
        let shares = miner.board.state().shares;
        assert_eq!((shares.refused, shares.unknown), (0, 0), "{name}");
        assert!(shares.accepted <= node.accepted() as u64, "{name}");
        miner.stop().unwrap();
    }
}

#[test]
fn a_cookie_that_comes_late_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let settings = NodeSettings { data_dir: Some(dir.path().to_owned()), ..rules() };
    let node = TestNode::start(settings).unwrap();
    let cookie = node.cookie().unwrap();
    let hidden = dir.path().join("hidden");
    std::fs::rename(&cookie, &hidden).unwrap();
    let miner = Running::start(for_node(&node));
    miner.hear("cannot read the node's token");
    std::fs::rename(&hidden, &cookie).unwrap();
    assert!(found(&node, 1));
    miner.stop().unwrap();
}

#[test]
fn an_invalid_address_ends_the_run() {
    let node = TestNode::start(rules()).unwrap();
    let settings = Settings { address: Some("abc".to_owned()), ..for_node(&node) };
    let error = Running::start(settings).end().unwrap_err();
    assert_eq!(error, "the node refused: invalid address");
    let settings = Settings { address: Some(sample(1, Network::Main)), ..for_node(&node) };
    let miner = Running::start(settings);
    assert!(found(&node, 1));
    miner.stop().unwrap();
}

#[test]
fn a_node_that_is_not_ready_is_asked_again_with_patience() {
    for words in [
        "no wallet loaded",
        "node is syncing",
        "mining_template_cache_full",
        "mining_template_tip_changed",
    ] {
        let node = TestNode::start(rules()).unwrap();
        let refuse_templates = Some((503, words.to_owned(), 4));
        node.set_faults(NodeFaults { refuse_templates, ..NodeFaults::default() });
        let miner = Running::start(for_node(&node));
        assert!(found(&node, 1), "{words}");
        miner.hear(words);
        miner.stop().unwrap();
    }
}

#[test]
fn what_the_node_asks_for_in_patience_it_gets() {
    let node = TestNode::start(rules()).unwrap();
    let refuse_templates = Some((503, "mining_template_cache_full".to_owned(), 1));
    let faults = NodeFaults { refuse_templates, retry_after: Some(1), ..NodeFaults::default() };
    node.set_faults(faults);
    let miner = Running::start(for_node(&node));
    assert!(found(&node, 1));
    miner.stop().unwrap();
    let asked: Vec<_> = node
        .log()
        .into_iter()
        .filter(|(_, event)| matches!(event, NodeEvent::Template(_)))
        .map(|(at, _)| at)
        .collect();
    assert!(asked[1] - asked[0] >= Duration::from_secs(1));
}

#[test]
fn a_node_that_fails_in_any_way_is_not_hammered() {
    for (name, faults) in [
        ("closes", NodeFaults { close_at_once: true, ..NodeFaults::default() }),
        ("nonsense", NodeFaults { nonsense: true, ..NodeFaults::default() }),
        ("huge", NodeFaults { huge_body: Some(33 << 20), ..NodeFaults::default() }),
    ] {
        let node = TestNode::start(rules()).unwrap();
        node.set_faults(faults);
        let begun = Instant::now();
        let miner = Running::start(Settings { events: Some(false), ..for_node(&node) });
        std::thread::sleep(Duration::from_millis(900));
        let asked = node.count(|_| true);
        // Waits of 50, 100, 200, 400, 400 ms, three quarters of that at the least.
        let bound = 5 + (begun.elapsed().as_millis() / 300) as usize;
        assert!(asked <= bound, "{name}: asked {asked} times, {bound} at most");
        node.set_faults(NodeFaults::default());
        assert!(found(&node, 1), "{name}: it never recovered");
        miner.stop().unwrap();
    }
}

#[test]
fn a_silent_node_keeps_nobody_from_ending() {
    let node = TestNode::start(rules()).unwrap();
    node.set_faults(NodeFaults { silent: true, ..NodeFaults::default() });
    let settings = Settings { request_timeout_secs: Some(1), ..for_node(&node) };
    let miner = Running::start(settings);
    miner.hear("no answer in time");
    miner.stop().unwrap();
}

#[test]
fn news_of_a_block_brings_a_new_template_at_once() {
    // Too hard to find one ourselves.
    let node = TestNode::start(NodeSettings { difficulty: u64::MAX, ..rules() }).unwrap();
    let miner = Running::start(for_node(&node));
    let listens = |log: &[(std::time::Instant, NodeEvent)]| {
        log.iter().any(|(_, event)| *event == NodeEvent::Listener)
    };
    assert!(node.wait(LONG, listens));
    assert!(miner.wait(|state| state.task.is_some()));
    let begun = Instant::now();
    for _ in 0..3 {
        node.advance();
        let height = node.height();
        assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.height == height)));
    }
    // One at the start, one for each block and one each time that is over: not one for each event.
    let bound = 6 + (begun.elapsed().as_secs() / 20) as usize;
    assert!(templates(&node) <= bound, "{}", templates(&node));
    miner.stop().unwrap();
}

#[test]
fn a_stream_that_breaks_is_opened_again_without_hammering() {
    let node = TestNode::start(NodeSettings { difficulty: u64::MAX, ..rules() }).unwrap();
    node.set_faults(NodeFaults { close_events: true, ..NodeFaults::default() });
    let begun = Instant::now();
    let miner = Running::start(for_node(&node));
    std::thread::sleep(Duration::from_millis(900));
    let opened = node.count(|event| *event == NodeEvent::Listener);
    // Waits of 100, 200, 400, 800 ms, three quarters of that at the least.
    let bound = 5 + (begun.elapsed().as_millis() / 600) as usize;
    assert!(opened <= bound, "{opened}, {bound} at most");
    assert!(node.wait(LONG, |log| {
        log.iter().filter(|(_, event)| *event == NodeEvent::Listener).count() >= 2
    }));
    node.set_faults(NodeFaults::default());
    assert!(node.wait(LONG, |log| {
        log.iter().filter(|(_, event)| *event == NodeEvent::Listener).count() > opened
    }));
    node.advance();
    let height = node.height();
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.height == height)));
    miner.stop().unwrap();
}

#[test]
fn without_events_templates_are_asked_for_from_time_to_time() {
    let node = TestNode::start(NodeSettings { difficulty: u64::MAX, ..rules() }).unwrap();
    node.set_faults(NodeFaults { no_events: true, ..NodeFaults::default() });
    let miner = Running::start(Settings { refresh_secs: Some(1), ..for_node(&node) });
    assert!(miner.wait(|state| state.task.is_some()));
    node.advance();
    let height = node.height();
    assert!(miner.wait(|state| state.task.as_ref().is_some_and(|task| task.height == height)));
    miner.stop().unwrap();
}

#[test]
fn leases_are_renewed_and_lost_ones_replaced() {
    // Renewed after two seconds, with two more for a machine that is busy.
    let lease = Duration::from_secs(4);
    let node = TestNode::start(NodeSettings { difficulty: u64::MAX, lease, ..rules() }).unwrap();
    let miner = Running::start(for_node(&node));
    let renewed = |status| {
        move |log: &[(std::time::Instant, NodeEvent)]| {
            log.iter().any(|(_, event)| *event == NodeEvent::Renew(status))
        }
    };
    assert!(node.wait(LONG, renewed(200)));
    assert_eq!(templates(&node), 1);
    node.expire_templates();
    assert!(node.wait(LONG, renewed(404)));
    assert!(node.wait(LONG, |log| {
        log.iter().filter(|(_, event)| *event == NodeEvent::Template(200)).count() >= 2
    }));
    miner.stop().unwrap();
}

#[test]
fn a_submit_is_tried_again_when_that_helps_and_counted_when_not() {
    let node = TestNode::start(rules()).unwrap();
    let refuse = |status, words: &str, count| NodeFaults {
        refuse_submits: Some((status, words.to_owned(), count)),
        ..NodeFaults::default()
    };
    node.set_faults(refuse(429, "submitblock busy, retry later", 2));
    let miner = Running::start(for_node(&node));
    assert!(found(&node, 1));
    assert_eq!(miner.board.state().shares.refused, 0);
    // As often as it takes: the node may itself refuse some, and a refusal of a second try says
    // nothing of the first.
    node.set_faults(refuse(400, "block rejected as stale", u32::MAX));
    assert!(miner.wait(|state| state.shares.stale >= 1));
    let stale = miner.board.state().shares.stale;
    node.set_faults(refuse(400, "unknown or expired template_id", u32::MAX));
    assert!(miner.wait(|state| state.shares.stale > stale));
    miner.hear("refused: unknown or expired template_id");
    node.set_faults(refuse(400, "block rejected", u32::MAX));
    assert!(miner.wait(|state| state.shares.refused >= 1));
    node.set_faults(NodeFaults::default());
    let so_far = node.accepted();
    assert!(found(&node, so_far + 1));
    miner.stop().unwrap();
}
