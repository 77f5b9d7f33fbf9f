//! Relays: three `shoal serve` over a cluster of three `nats-server` processes, through kills of
//! either, a partition, damaged messages, and a stream that forgot.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use tempfile::tempdir;

use super::serve::{ID, Server};
use super::shoal;

const OTHER: &str = "4NMNnkMhL8jXrdJ9jamS58PAVdXu";
/// Loaded machines are slow: the condition is waited for, not the time.
const PATIENCE: Duration = Duration::from_secs(90);

/// The program, or words past the capture of what passing tests print.
fn nats_server() -> Option<PathBuf> {
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let places = [named, Some("nats-server".into()), Some("/usr/sbin/nats-server".into())];
    let found = places.into_iter().flatten().find(|program| {
        Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
    });
    if found.is_none() {
        writeln!(io::stderr(), "relays: skipped: there is no nats-server here")
            .expect("stderr is open");
    }
    found
}

/// A cluster of `nats-server` processes, killed when dropped.
struct Cluster {
    program: PathBuf,
    dir: PathBuf,
    /// Ports for clients and for the others.
    ports: Vec<(u16, u16)>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    fn start(program: PathBuf, dir: &Path) -> Self {
        // Held together: each is another one.
        let held: Vec<TcpListener> =
            (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|it| it.local_addr().unwrap().port()).collect();
        drop(held);
        let ports: Vec<(u16, u16)> = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let nodes = ports.iter().map(|_| None).collect();
        let mut cluster = Self { program, dir: dir.to_owned(), ports, nodes };
        cluster.all_up();
        cluster
    }

    fn all_up(&mut self) {
        let routes: Vec<String> =
            self.ports.iter().map(|(_, port)| format!("nats://127.0.0.1:{port}")).collect();
        for (number, (port, cluster_port)) in self.ports.clone().into_iter().enumerate() {
            if self.nodes[number].is_some() {
                continue;
            }
            let node = Command::new(&self.program)
                .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-n", &format!("n{number}")])
                .args(["--cluster_name", "c", "--cluster"])
                .arg(format!("nats://127.0.0.1:{cluster_port}"))
                .args(["--routes", &routes.join(","), "-js", "-sd"])
                .arg(self.dir.join(format!("n{number}")))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            self.nodes[number] = Some(node);
        }
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut node) = self.nodes[number].take() {
            let _ = node.kill();
            let _ = node.wait();
        }
    }

    fn url(&self) -> String {
        let urls = self.ports.iter().map(|(port, _)| format!("nats://127.0.0.1:{port}"));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Sends a request in NATS's own protocol, as any client may; gives the answer's payload.
    fn request(&self, subject: &str, payload: &[u8]) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports[0].0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut words = b"CONNECT {\"verbose\":false}\r\nSUB answer.1 1\r\n".to_vec();
        words.extend(format!("PUB {subject} answer.1 {}\r\n", payload.len()).bytes());
        words.extend([payload, b"\r\n"].concat());
        socket.write_all(&words).unwrap();
        let mut lines = BufReader::new(socket);
        loop {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "NATS hung up");
            if let Some(header) = line.strip_prefix("MSG ") {
                let length = header.trim().rsplit(' ').next().unwrap().parse().unwrap();
                let mut answer = vec![0; length];
                lines.read_exact(&mut answer).unwrap();
                return String::from_utf8(answer).unwrap();
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|number| self.kill(number));
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A relay in a folder of its own.
fn relay(dir: &Path, name: &str, url: &str) -> Server {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).unwrap();
    Server::with(&folder, &["--nats", url, "--nats-replicas", "3"])
}

fn metric(server: &Server, name: &str) -> u64 {
    let host = format!("Host: {}", server.address);
    let text = server.ask(&["GET /metrics HTTP/1.1", &host], "");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

fn value(dir: &Path, relay: &str, document: &str, path: &str) -> String {
    let place = format!("{relay}/served.db::{document}");
    let shown = shoal(dir, &["doc", "show", &place, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    json.pointer(path).map_or_else(String::new, ToString::to_string)
}

/// A client edits and is told by the relay that the edit is durable.
fn edit(dir: &Path, server: &Server, path: &str, to: &str) {
    let client = format!("client{}.db", server.address.replace([':', '.'], "-"));
    shoal(dir, &["sync", &client, &server.url(), ID, "--once"]).ok();
    shoal(dir, &["doc", "put", &format!("{client}::{ID}"), path, to]).ok();
    shoal(dir, &["sync", &client, &server.url(), ID, "--once"]).ok();
}

fn reaches(dir: &Path, relays: &[&str], path: &str, to: &str) {
    for relay in relays {
        wait_until(&format!("{path} = {to} at {relay}"), || value(dir, relay, ID, path) == to);
    }
}

fn changes(dir: &Path, relay: &str) -> String {
    let sql = format!(
        "SELECT sum(changes) FROM _shoal_chunk WHERE id >> 32 = \
         (SELECT id FROM _shoal_doc WHERE name = '{ID}')"
    );
    let db = format!("{relay}/served.db");
    shoal(dir, &["sql", "--format", "list", &db, &sql]).ok()
}

/// The bytes of Base64.
fn from_base64(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let digit = letters.iter().position(|it| *it == letter).unwrap();
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn three_relays_and_three_nodes() {
    let Some(program) = nats_server() else { return };
    let dir = tempdir().unwrap();
    let dir = dir.path();
    let mut cluster = Cluster::start(program, dir);
    let url = cluster.url();
    fs::create_dir(dir.join("a")).unwrap();
    fs::write(dir.join("note.json"), r#"{"title": "Holidays"}"#).unwrap();
    shoal(dir, &["doc", "import", "note.json", &format!("a/served.db::{ID}")]).ok();
    let mut a = relay(dir, "a", &url);
    let mut b = relay(dir, "b", &url);
    let mut c = relay(dir, "c", &url);
    let all = ["a", "b", "c"];

    // Documents that were there, and edits at each.
    reaches(dir, &all, "/title", "\"Holidays\"");
    let sum = |name: &str| [&a, &b, &c].map(|server| metric(server, name)).iter().sum::<u64>();
    wait_until("the first publication", || sum("shoal_relay_unpublished_documents") == 0);
    let failures = sum("shoal_relay_failures_total");
    let published = sum("shoal_relay_published_total");
    for (server, path) in [(&a, "/a"), (&b, "/b"), (&c, "/c")] {
        edit(dir, server, path, "1");
        reaches(dir, &all, path, "1");
    }

    // A duplicate is stored once; damaged messages are counted and skipped.
    let first = cluster.request("$JS.API.STREAM.MSG.GET.shoal", br#"{"seq":1}"#);
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let chunk = from_base64(first["message"]["data"].as_str().expect("a stored message"));
    let (before, known) = (changes(dir, "b"), metric(&b, "shoal_relay_known_total"));
    let subject = format!("shoal.change.{ID}");
    for payload in [&chunk[..], &chunk[..chunk.len() - 1], b"", b"no change"] {
        let answer = cluster.request(&subject, payload);
        assert!(answer.contains("\"seq\""), "{answer}");
    }
    cluster.request("shoal.change.nobody", &chunk);
    cluster.request(&format!("shoal.snapshot.{ID}"), b"{\"object\":");
    for server in [&a, &b, &c] {
        wait_until("damaged messages counted", || {
            metric(server, "shoal_relay_skipped_total{reason=\"damaged\"}") == 4
                && metric(server, "shoal_relay_skipped_total{reason=\"pointer\"}") == 1
        });
    }
    assert!(metric(&b, "shoal_relay_known_total") > known);
    assert_eq!(changes(dir, "b"), before);

    // Each edit was published by one relay alone, unless a session ended within.
    wait_until("all published", || sum("shoal_relay_published_total") >= published + 3);
    if sum("shoal_relay_failures_total") == failures {
        assert_eq!(sum("shoal_relay_published_total"), published + 3);
    }

    // A relay that was away catches up.
    drop(c);
    edit(dir, &a, "/away", "1");
    edit(dir, &b, "/away", "2");
    c = relay(dir, "c", &url);
    reaches(dir, &all, "/away", "2");

    // Killed as soon as its client was told: nothing is lost, here or elsewhere.
    edit(dir, &a, "/killed", "1");
    drop(a);
    a = relay(dir, "a", &url);
    reaches(dir, &all, "/killed", "1");

    // One node of three is killed.
    cluster.kill(2);
    edit(dir, &c, "/node", "1");
    reaches(dir, &all, "/node", "1");

    // No node is left: edits go on at each, also through a kill of a relay.
    cluster.kill(0);
    cluster.kill(1);
    for (server, path) in [(&a, "/apart_a"), (&b, "/apart_b"), (&c, "/apart_c")] {
        edit(dir, server, path, "1");
    }
    drop(b);
    b = relay(dir, "b", &url);
    assert_eq!(value(dir, "b", ID, "/apart_b"), "1");
    assert_eq!(value(dir, "a", ID, "/apart_b"), "");
    cluster.all_up();
    for path in ["/apart_a", "/apart_b", "/apart_c"] {
        reaches(dir, &all, path, "1");
    }

    // A document too large for single messages goes by the object store, also to a new relay, after
    // the stream has forgotten all; and a change whose past it lacks is asked for.
    let text: String =
        (0..35_000_u64).map(|n| format!("{:x} ", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let json = serde_json::json!({ "text": text, "n": 1 }).to_string();
    fs::write(dir.join("long.json"), json).unwrap();
    shoal(dir, &["doc", "import", "long.json", &format!("a/served.db::{OTHER}")]).ok();
    for relay in &all {
        wait_until("the long document", || value(dir, relay, OTHER, "/n") == "1");
    }
    assert!(metric(&a, "shoal_relay_snapshots_written_total") > 0);
    let purged = cluster.request("$JS.API.STREAM.PURGE.shoal", b"");
    assert!(purged.contains("\"success\":true"), "{purged}");
    let d = relay(dir, "d", &url);
    wait_until("the long document at a new relay", || value(dir, "d", OTHER, "/n") == "1");
    edit(dir, &b, "/late", "1");
    reaches(dir, &["a", "b", "c", "d"], "/late", "1");
    assert_eq!(value(dir, "d", ID, "/title"), "\"Holidays\"");

    // Removed at one relay: left alone there, kept by the others.
    let host = format!("Host: {}", d.address);
    let bearer = format!("Authorization: Bearer {}", d.token);
    let removal = format!("DELETE /api/documents/{ID} HTTP/1.1");
    let answer = d.ask(&[&removal, &host, &bearer], "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    edit(dir, &a, "/removed", "1");
    reaches(dir, &["a", "b", "c"], "/removed", "1");
    wait_until("the change left alone", || {
        metric(&d, "shoal_relay_skipped_total{reason=\"denied\"}") > 0
    });
    assert_eq!(value(dir, "d", ID, "/title"), "");
    drop((a, b, c, d));
}
