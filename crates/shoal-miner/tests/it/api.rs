//! The HTTP API, asked as a stranger's program would: over a socket, by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;

use serde_json::{Value, json};
use shoal_miner::api::Server;
use shoal_miner::config::Settings;
use shoal_testpool::address::{Network, sample};
use shoal_testpool::{Event, NodeEvent, NodeSettings, Rules, TestNode, TestPool};
use tokio::sync::watch;

use crate::{LONG, Running, runtime, small};

/// A miner with its API in threads of this process.
struct Served {
    miner: Running,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<()>,
}

impl Served {
    fn start(settings: Settings) -> Self {
        let miner = Running::start(Settings { service: Some(true), ..settings });
        let (board, control) = (Arc::clone(&miner.board), miner.control.clone());
        let (stop, mut stopped) = watch::channel(false);
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let local = ([127, 0, 0, 1], 0).into();
                let server = Server::start(local, board, control).await.unwrap();
                tell.send(server.address()).unwrap();
                stopped.wait_for(|&stop| stop).await.unwrap();
                server.stop().await;
            });
        });
        Self { miner, address: told.recv().unwrap(), stop, thread }
    }

    fn end(self) {
        self.stop.send_replace(true);
        self.thread.join().unwrap();
        self.miner.stop().unwrap();
    }

    /// A status and a body.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let host = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.ask(method, path, "Content-Type: application/json\r\n", body);
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }
}

#[test]
fn a_service_is_started_changed_watched_and_stopped() {
    let pool = TestPool::start(Rules { difficulty: 200, ..Rules::small() }).unwrap();
    let served = Served::start(small());
    let (status, health) = served.json("GET", "/v1/health", "");
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
    let (_, state) = served.json("GET", "/v1/runtime/state", "");
    assert_eq!((&state["lifecycle"], &state["running"]), (&json!("idle"), &json!(false)));
    let (status, error) = served.json("POST", "/v1/miner/start", "");
    assert_eq!((status, &error["code"]), (400, &json!("bad_settings")));

    let (tell, heard) = mpsc::channel();
    let stream = TcpStream::connect(served.address).unwrap();
    let listener = std::thread::spawn(move || {
        let mut stream = stream;
        let request = "GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        for (number, line) in BufReader::new(stream).lines().enumerate() {
            let Ok(line) = line else { return };
            if number == 0 {
                // With the head of the answer, it listens.
                let _ = tell.send(line.clone());
            }
            if let Some(name) = line.strip_prefix("event: ") {
                // The test has heard enough when this fails.
                let _ = tell.send(name.to_owned());
            }
        }
    });
    assert_eq!(heard.recv_timeout(LONG).unwrap(), "HTTP/1.1 200 OK");

    let settings = json!({ "pool": pool.url(), "address": sample(1, Network::Main) }).to_string();
    let (status, started) = served.json("POST", "/v1/miner/start", &settings);
    assert_eq!((status, &started["ok"]), (200, &json!(true)), "{started}");
    assert!(pool.wait_accepted(3, LONG));
    let (status, error) = served.json("POST", "/v1/miner/start", &settings);
    assert_eq!((status, &error["code"]), (409, &json!("conflict")));
    let mut names = Vec::new();
    while !names.iter().any(|name: &String| name == "submit.result") {
        names.push(heard.recv_timeout(LONG).unwrap());
    }
    for name in ["state.changed", "miner.log", "backend.phase", "solution.found"] {
        assert!(names.iter().any(|heard| heard == name), "{name} in {names:?}");
    }

    let (_, config) = served.json("GET", "/v1/runtime/config/effective", "");
    assert_eq!(config["config"]["source"]["mode"], "pool");
    let (_, defaults) = served.json("GET", "/v1/runtime/config/defaults", "");
    assert_eq!(defaults["config"]["memory_kib"], 2 * 1024 * 1024);
    let (_, changed) = served.json("PATCH", "/v1/miner/live-config", r#"{"stats_secs": 3}"#);
    assert_eq!(changed["message"], "changed: stats_secs");
    assert_eq!(changed["state"]["effective_config"]["stats_secs"], 3);
    let (_, backends) = served.json("GET", "/v1/backends", "");
    assert_eq!(backends["backends"][0]["name"], "cpu0");

    let hashes = |engine: &shoal_miner::Status| engine.rate_average > 0.0;
    assert!(served.miner.wait(|state| state.engine.as_ref().is_some_and(hashes)));
    let (_, metrics) = served.ask("GET", "/metrics", "", "");
    assert!(metrics.contains("shoal_miner_running 1\n"), "{metrics}");
    let rate = metrics
        .lines()
        .find_map(|line| line.strip_prefix("shoal_miner_hash_rate{window=\"average\"} "))
        .unwrap();
    assert!(rate.parse::<f64>().unwrap() > 0.0, "{rate}");

    let (status, _) = served.json("POST", "/v1/miner/restart", "");
    assert_eq!(status, 200);
    let so_far = pool.accepted();
    assert!(pool.wait_accepted(so_far + 1, LONG));
    let (status, stopped) = served.json("POST", "/v1/miner/stop", r#"{"wait_ms": 20000}"#);
    assert_eq!((status, &stopped["state"]["lifecycle"]), (200, &json!("idle")));
    assert_eq!(stopped["state"]["run_id"], 2);
    assert_eq!(stopped["state"]["metrics"]["restart_requests"], 1);
    let (status, _) = served.json("POST", "/v1/miner/stop", "");
    assert_eq!(status, 409);
    served.end();
    listener.join().unwrap();
}

fn logged_in_as(pool: &TestPool, name: &str) -> bool {
    pool.wait(LONG, |log| {
        let login = |event: &Event| matches!(event, Event::Login { worker, .. } if worker == name);
        log.iter().any(|(_, _, event)| login(event))
    })
}

#[test]
fn what_can_be_changed_under_way_is_and_the_rest_is_refused() {
    let rules = || Rules { difficulty: 200, ..Rules::small() };
    let (first, second) = (TestPool::start(rules()).unwrap(), TestPool::start(rules()).unwrap());
    let served = Served::start(Settings { threads: Some(2), ..small() });
    let change = |body: &Value| served.json("PATCH", "/v1/miner/live-config", &body.to_string());
    // Before there is a run, everything can be changed.
    let (status, _) = change(&json!({ "memory_kib": 32 }));
    assert_eq!(status, 200);
    let settings = json!({
        "pool": first.url(), "address": sample(1, Network::Main), "memory_kib": 64,
    });
    assert_eq!(served.json("POST", "/v1/miner/start", &settings.to_string()).0, 200);
    assert!(first.wait_accepted(2, LONG));

    // Another name at the pool: memory and workers stay.
    let hashes = || served.miner.board.state().engine.map_or(0, |engine| engine.hashes);
    let before = hashes();
    assert_eq!(change(&json!({ "worker": "renamed" })).0, 200);
    assert!(logged_in_as(&first, "renamed"));
    let (status, changed) = change(&json!({ "pool": second.url(), "stats_secs": 7 }));
    assert_eq!((status, &changed["message"]), (200, &json!("changed: pool, stats_secs")));
    assert!(second.wait_accepted(2, LONG));
    assert!(logged_in_as(&second, "renamed"));
    let gone = |log: &[(u64, std::time::Instant, Event)]| {
        let count = |which: fn(&Event) -> bool| log.iter().filter(|(_, _, e)| which(e)).count();
        count(|event| *event == Event::Connected) == count(|event| *event == Event::Closed)
    };
    assert!(first.wait(LONG, gone), "nobody stays behind at the first pool");
    assert!(hashes() >= before, "the engine is the same");
    let state = served.miner.board.state();
    assert_eq!((state.run_id, state.source.url), (1, second.url()));
    assert_eq!((state.shares.refused, state.shares.stale), (0, 0));

    // Fewer workers: the others rest, until they are wanted again.
    let each = || {
        let engine = served.miner.board.state().engine;
        let backend = engine.map(|mut engine| engine.backends.remove(0));
        let workers = backend.map(|backend| backend.workers).unwrap_or_default();
        workers.iter().map(|worker| worker.worker.hashes).collect::<Vec<_>>()
    };
    assert!(served.miner.wait(|_| each().len() == 2 && !each().contains(&0)));
    assert_eq!(change(&json!({ "threads": 1 })).0, 200);
    let rests = || {
        let before = each();
        let so_far = second.accepted();
        assert!(second.wait_accepted(so_far + 5, LONG));
        assert!(served.miner.wait(|_| each()[0] > before[0]));
        each()[1] == before[1]
    };
    assert!(served.miner.wait(|_| rests()), "the second worker rests");
    let before = each();
    assert_eq!(change(&json!({ "threads": 2 })).0, 200);
    assert!(served.miner.wait(|_| each()[1] > before[1]), "it works again");

    // What memory and threads were taken for needs a restart, and nothing else of it is done.
    for (body, names) in [
        (json!({ "threads": 3 }), "threads"),
        (json!({ "memory_kib": 128, "worker": "x" }), "memory_kib"),
        (json!({ "isa": "scalar", "affinity": "auto" }), "affinity, isa"),
    ] {
        let (status, error) = change(&body);
        assert_eq!((status, &error["code"]), (409, &json!("restart_needed")), "{error}");
        let words = format!("a restart is needed to change {names}; nothing was changed");
        assert_eq!(error["message"], words);
    }
    let (status, error) = change(&json!({ "address": "not one", "worker": "x" }));
    assert_eq!((status, &error["code"]), (400, &json!("bad_settings")));
    let config = served.json("GET", "/v1/runtime/config/effective", "").1["config"].clone();
    assert_eq!((&config["source"]["worker"], &config["threads"]), (&json!("renamed"), &json!(2)));
    let (_, changed) = change(&json!({ "worker": "renamed" }));
    assert_eq!(changed["message"], "nothing was changed");

    // A restart takes it along.
    let body = json!({ "threads": 3, "worker": "after" }).to_string();
    assert_eq!(served.json("POST", "/v1/miner/restart", &body).0, 200);
    assert!(logged_in_as(&second, "after"));
    assert!(served.miner.wait(|_| each().len() == 3));
    assert_eq!(served.miner.board.state().run_id, 2);

    // And from a pool to a node.
    let node =
        TestNode::start(NodeSettings { memory_kib: 64, difficulty: 50, ..Default::default() });
    let node = node.unwrap();
    let (status, changed) = change(&json!({ "node": node.url() }));
    assert_eq!(status, 200, "{changed}");
    assert!(node.wait(LONG, |log| {
        log.iter().any(|(_, event)| matches!(event, NodeEvent::Submit { height: Some(_), .. }))
    }));
    served.end();
}

#[test]
fn a_run_that_fails_is_shown_and_another_may_begin() {
    let pool = TestPool::start(Rules::small()).unwrap();
    let served = Served::start(small());
    let settings = json!({ "pool": pool.url(), "address": "abc" }).to_string();
    let (status, _) = served.json("POST", "/v1/miner/start", &settings);
    assert_eq!(status, 200);
    assert!(served.miner.wait(|state| state.last_error.is_some()));
    let (_, state) = served.json("GET", "/v1/runtime/state", "");
    assert_eq!(state["lifecycle"], "error");
    assert!(state["last_error"].as_str().unwrap().contains("invalid address"), "{state}");
    let settings = json!({ "address": sample(1, Network::Main) }).to_string();
    let (status, _) = served.json("POST", "/v1/miner/start", &settings);
    assert_eq!(status, 200);
    assert!(pool.wait_accepted(1, LONG));
    served.end();
}

#[test]
fn every_refusal_is_json() {
    let served = Served::start(small());
    for (method, path, body, status, code) in [
        ("GET", "/nowhere", "", 404, "not_found"),
        ("DELETE", "/v1/health", "", 405, "method_not_allowed"),
        ("POST", "/v1/miner/start", "{", 400, "bad_request"),
        ("POST", "/v1/miner/start", "[]", 400, "bad_request"),
        ("POST", "/v1/miner/start", r#"{"colour": "red"}"#, 400, "bad_request"),
        ("POST", "/v1/miner/start", r#"{"threads": 0}"#, 400, "bad_settings"),
        ("POST", "/v1/miner/stop", r#"{"wait": 1}"#, 400, "bad_request"),
        ("PATCH", "/v1/miner/live-config", r#"{"api_bind": "0.0.0.0:1"}"#, 409, "conflict"),
        ("PATCH", "/v1/miner/live-config", r#"{"stats_secs": 0}"#, 400, "bad_settings"),
        ("POST", "/v1/miner/start", r#"{"service": false}"#, 409, "conflict"),
        ("POST", "/v1/miner/restart", r#"{"colour": "red"}"#, 400, "bad_request"),
        ("POST", "/v1/miner/restart", "", 400, "bad_settings"),
    ] {
        let (got, answer) = served.json(method, path, body);
        assert_eq!((got, answer["code"].as_str()), (status, Some(code)), "{method} {path} {body}");
        assert!(answer["message"].as_str().is_some_and(|words| !words.is_empty()));
    }
    let (_, error) = served.json("POST", "/v1/miner/start", r#"{"token": 4711}"#);
    assert!(!error.to_string().contains("4711"), "{error}");
    let big = format!(r#"{{"worker": "{}"}}"#, "x".repeat(100_000));
    let (status, answer) = served.json("POST", "/v1/miner/start", &big);
    assert_eq!((status, &answer["code"]), (413, &json!("bad_request")));
    served.end();
}

#[test]
fn web_pages_are_kept_out() {
    let served = Served::start(small());
    let foreign = "Origin: http://evil.example\r\n";
    let (status, body) = served.ask("POST", "/v1/miner/stop", foreign, "");
    assert!(status == 403 && body.contains("foreign_origin"), "{body}");
    let rebound = "Host: evil.example\r\n";
    let (status, body) = served.ask("GET", "/v1/runtime/state", rebound, "");
    assert!(status == 403 && body.contains("foreign_host"), "{body}");
    served.end();
}
