//! `shoal mine`: a process against the test pool and the test node.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use shoal_testpool::address::{Network, sample};
use shoal_testpool::{NodeSettings, Rules, TestNode, TestPool};

use crate::shoal;

const LONG: Duration = Duration::from_secs(60);
const SMALL: [&str; 6] = ["--memory-kib", "256", "--threads", "1", "--side-by-side", "1"];

fn pool() -> TestPool {
    TestPool::start(Rules { memory_kib: 256, difficulty: 2000, ..Rules::small() }).unwrap()
}

fn mine(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.arg("mine").args(args).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(dir: &Path, args: &[&str]) -> Child {
    mine(dir, &[args, &SMALL].concat()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// True where this process began with interrupts ignored, as background jobs of scripts do: its
/// children ignore them, too, until they ask for them.
fn interrupts_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).is_some_and(|it| it & 2 != 0)
}

/// Waits for the end; gives the exit code, or `None` after a signal.
fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > LONG {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_pool_gets_shares_until_the_interrupt() {
    let (dir, pool) = (tempfile::tempdir().unwrap(), pool());
    let (url, address) = (pool.url(), sample(1, Network::Main));
    let args = ["--pool", &url, "--address", &address, "--worker", "rig", "--ui", "plain"];
    let mut child = start(dir.path(), &args);
    assert!(pool.wait_accepted(2, LONG));
    interrupt(&child);
    assert_eq!(ended(&mut child), Some(0));
    // The miner waits for answers under way, so both lines are there.
    let said = errors(&mut child);
    assert!(said.contains("connected to stratum+tcp://127.0.0.1:"), "{said}");
    assert!(said.contains("ok    share: nonce "), "{said}");
    assert!(said.lines().last().unwrap().contains("H/s now"), "{said}");
}

#[test]
fn a_node_gets_blocks() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = NodeSettings {
        memory_kib: 256,
        difficulty: 500,
        data_dir: Some(data.path().to_owned()),
        ..NodeSettings::default()
    };
    let node = TestNode::start(settings).unwrap();
    let (url, cookie) = (node.url(), node.cookie().unwrap());
    let args = ["--node", &url, "--cookie", cookie.to_str().unwrap(), "--ui", "plain"];
    let mut child = start(dir.path(), &args);
    assert!(node.wait(LONG, |_| node_has_block(&node)));
    interrupt(&child);
    assert_eq!(ended(&mut child), Some(0));
    let said = errors(&mut child);
    let token = std::fs::read_to_string(cookie).unwrap();
    assert!(!said.contains(token.trim()), "the token is in the log");
}

/// True once a block moved the height on; asking the log would lock the node twice.
fn node_has_block(node: &TestNode) -> bool {
    node.height() > 1
}

/// Interrupts arrive at any moment: also while memory is taken, sockets are opened and thread
/// counts tried out.
#[test]
fn an_interrupt_at_any_moment_leaves_nothing_behind() {
    if interrupts_are_ignored() {
        // Past the capture of what passing tests print.
        let told = "mine: not every moment: interrupts are ignored here before the miner asks\n";
        std::io::stderr().write_all(told.as_bytes()).unwrap();
        return;
    }
    let pool = pool();
    let (url, address) = (pool.url(), sample(1, Network::Main));
    let args =
        ["--pool", &url, "--address", &address, "--ui", "plain", "--api-bind", "127.0.0.1:0"];
    let autotune = [&args[..], &["--autotune"]].concat();
    for (round, longest_ms) in [0, 4, 10, 20, 40, 70, 100, 160, 260, 420].into_iter().enumerate() {
        // Each run of the test picks other moments; a failure names its moment.
        let wait = Duration::from_micros(longest_ms * 500 + random_below(longest_ms * 500 + 1));
        let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut command = if round % 2 == 0 {
            mine(dir.path(), &[&args[..], &SMALL].concat())
        } else {
            mine(dir.path(), &[&autotune[..], &["--memory-kib", "256"]].concat())
        };
        let mut child = command.env("XDG_CACHE_HOME", cache.path()).spawn().unwrap();
        std::thread::sleep(wait);
        // Shown where the end does not come.
        println!("round {round}, interrupted after {wait:?}");
        interrupt(&child);
        let code = ended(&mut child);
        let said = errors(&mut child);
        // Before the first word nobody has promised to end in order.
        assert!(
            code == Some(0) || (code.is_none() && said.is_empty()),
            "{wait:?}: {code:?} {said}"
        );
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert!(left.is_empty(), "{wait:?}: {left:?}");
        // Results of finished trials may be kept; half-written ones may not.
        for file in std::fs::read_dir(cache.path().join("shoal")).into_iter().flatten() {
            assert_eq!(file.unwrap().file_name(), "autotune.json", "{wait:?}");
        }
    }
}

fn random_below(limit: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % limit
}

#[test]
fn an_interrupt_ends_it_while_nobody_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let address = sample(1, Network::Main);
    // A port free a moment ago: nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("127.0.0.1:{port}");
    let mut child = start(dir.path(), &["--pool", &url, "--address", &address, "--ui", "plain"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("cannot connect")));
    interrupt(&child);
    assert_eq!(ended(&mut child), Some(0));
}

#[test]
fn a_refused_address_ends_it_with_the_pools_words() {
    let (dir, pool) = (tempfile::tempdir().unwrap(), pool());
    let mut child =
        start(dir.path(), &["--pool", &pool.url(), "--address", "abc", "--ui", "plain"]);
    assert_eq!(ended(&mut child), Some(1));
    let said = errors(&mut child);
    assert!(said.contains("error: mine: the pool refused the login: invalid address"), "{said}");
}

#[test]
fn wrong_settings_have_an_exit_code_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.json"), r#"{"token": "hunter2", "colour": 1}"#).unwrap();
    for (args, expect) in [
        (&["mine"][..], "a pool or a node is missing"),
        (&["mine", "--pool", "pool"], "needs a port"),
        (&["mine", "--pool", "pool:1"], "address is missing"),
        (&["mine", "--pool", "pool:1", "--node", "http://n"], "cannot be used with"),
        (&["mine", "--pool", "pool:1", "--address", "a", "--isa", "z80"], "no such kernel: z80"),
        (&["mine", "--node", "https://n"], "TLS is not offered"),
        (&["mine", "--node", "http://n", "--api-bind", "0.0.0.0:1"], "open to other machines"),
        (&["mine", "--config", "bad.json"], "unknown field `colour`"),
        (&["mine", "--config", "none.json"], "none.json"),
        (&["mine", "--fix"], "--doctor"),
        (&["mine", "--bench", "--kind", "speed"], "--kind"),
        (&["mine", "--bench", "--secs", "0"], "--secs"),
        (&["mine", "--bench", "--rounds", "0"], "--rounds"),
    ] {
        let run = shoal(dir.path(), args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(expect), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2"));
    }
}

#[test]
fn a_file_has_what_the_flags_leave_out() {
    let (dir, pool) = (tempfile::tempdir().unwrap(), pool());
    let settings = serde_json::json!({
        "schema_version": 1, "pool": pool.url(), "address": sample(1, Network::Main),
        "worker": "from the file",
    });
    std::fs::write(dir.path().join("miner.json"), settings.to_string()).unwrap();
    let args = ["--config", "miner.json", "--worker", "from the flag", "--ui", "plain"];
    let mut child = start(dir.path(), &args);
    assert!(pool.wait_accepted(1, LONG));
    interrupt(&child);
    assert_eq!(ended(&mut child), Some(0));
    let login = |event: &shoal_testpool::Event| matches!(event, shoal_testpool::Event::Login { worker, .. } if worker == "from the flag");
    assert_eq!(pool.count(login), 1);
}

#[test]
fn the_bench_and_the_doctor_answer() {
    let dir = tempfile::tempdir().unwrap();
    let bench = ["mine", "--bench", "--secs", "0.2", "--rounds", "1", "--memory-kib", "256"];
    for kind in ["kernel", "backend", "end-to-end"] {
        let args = [&bench[..], &["--threads", "1", "--kind", kind, "--json", "bench.json"]];
        shoal(dir.path(), &args.concat()).ok();
        let text = std::fs::read_to_string(dir.path().join("bench.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(record.is_object(), "{text}");
    }
    let text = shoal(dir.path(), &["mine", "--doctor"]).ok();
    assert!(!text.trim().is_empty());
    let json = shoal(dir.path(), &["mine", "--doctor", "--json", "-"]).ok();
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(record["findings"].is_array(), "{json}");
}
