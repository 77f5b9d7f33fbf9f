//! Who may use `shoal serve`: tokens, readers on every route, admission by work, bounds of the
//! port.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value as Json;
use tempfile::tempdir;

use super::serve::{ID, Server, installed};
use super::shoal;

/// An id of a document that the reader may not read.
const FOREIGN: &str = "4NMNnkMhL8jXrdJ9jamS58PAVdXu";
/// A text within it.
const SECRET: &str = "the hidden treasure";

/// A file of tokens, and a database with one document for the reader and one that is not.
fn prepare(dir: &Path) -> (String, String) {
    let run = |args: &[&str]| shoal(dir, args);
    fs::write(dir.join("open.json"), r#"{"title": "for all"}"#).unwrap();
    fs::write(dir.join("secret.json"), format!(r#"{{"title": "{SECRET}"}}"#)).unwrap();
    run(&["doc", "import", "open.json", &format!("served.db::{ID}")]).ok();
    run(&["doc", "import", "secret.json", &format!("served.db::{FOREIGN}")]).ok();
    run(&["doc", "import", "secret.json", "served.db::a-name-of-no-id"]).ok();
    let token = |args: &[&str]| {
        let made = run(&[&["token", "new", "tokens.json"], args].concat()).ok();
        made.trim().to_owned()
    };
    let reader = token(&["--read", &format!("automerge:{ID}"), "--note", "a reader"]);
    let admin = token(&["--admin", "--expires", "1h"]);
    (reader, admin)
}

#[test]
fn a_reader_finds_no_trace_of_foreign_documents() {
    let dir = tempdir().unwrap();
    let (reader, admin) = prepare(dir.path());
    let server = Server::with(dir.path(), &["--tokens", "tokens.json"]);
    let host = format!("Host: {}", server.address);
    let ask = |method: &str, path: &str, token: &str, body: &str| {
        let first = format!("{method} {path} HTTP/1.1");
        server.ask(&[&first, &host, &format!("Authorization: Bearer {token}")], body)
    };
    let document = ask("GET", "/api/openapi.json", "", "");
    let (_, document) = document.split_once("\r\n\r\n").unwrap();
    let document: Json = serde_json::from_str(document).expect("the document is JSON");
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            for name in
                [FOREIGN, "a-name-of-no-id", &format!("automerge:{FOREIGN}"), "%00", "absent"]
            {
                let path = path.replace("{name}", name);
                let sql = "SELECT * FROM _shoal_doc";
                let answer = ask(&method, &path, &reader, sql);
                let text = answer.split_once("\r\n\r\n").unwrap().1;
                for trace in [SECRET, FOREIGN, "a-name-of-no-id"] {
                    assert!(!text.contains(trace), "{method} {path}: {answer}");
                }
                // The same is said of a document that is absent.
                let absent = path.replace(name, "4NMNnkMhL8jXrdJ9jamS58PAVdXv");
                let other = ask(&method, &absent, &reader, sql);
                let line = |answer: &str| answer.lines().next().unwrap().to_owned();
                assert_eq!(line(&answer), line(&other), "{method} {path}");
                let admitted =
                    line(&ask(&method, &path.replace(name, "absent"), &admin, "SELECT 1"));
                let is_refused = [" 401 ", " 403 ", " 405 "].iter().any(|it| admitted.contains(it));
                assert!(!is_refused, "{method} {path}: {admitted}");
                asked += 1;
                if !path.contains(name) {
                    break;
                }
            }
        }
    }
    assert!(asked > 30, "{asked} requests");
    let own = ask("GET", &format!("/api/documents/{ID}"), &reader, "");
    assert!(own.contains("for all"), "{own}");
    let earlier = ask("GET", &format!("/api/documents/{ID}?at=0"), &reader, "");
    assert!(earlier.contains("for all"), "{earlier}");
    for at in ["-1", "x", "", "99999999999999999999"] {
        let answer = ask("GET", &format!("/api/documents/{ID}?at={at}"), &reader, "");
        assert!(answer.starts_with("HTTP/1.1 400"), "{at}: {answer}");
    }
    let list = ask("GET", "/api/documents", &reader, "");
    assert!(list.contains(ID), "{list}");
    let file = ask("GET", &format!("/api/documents/{ID}/history"), &reader, "");
    assert!(file.contains("\"count\":1"), "{file}");
    for token in ["", "shoal.x.y", &reader[..reader.len() - 2]] {
        let answer = ask("GET", "/api/documents", token, "");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

/// A server that refuses is dialled again after longer and longer pauses.
#[test]
fn a_refused_client_does_not_dial_in_a_loop() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let server = Server::with(dir.path(), &["--tokens", "tokens.json"]);
    let mut client = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["sync", "client.db", &format!("ws://{}/?token=none", server.address), ID])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    client.kill().unwrap();
    let said = client.wait_with_output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    // A quarter of a second, a half, one, two.
    let count = said.matches("connected to").count();
    assert!((2..=5).contains(&count), "{count} connections: {said}");
}

/// A token that was taken back stays so, whoever makes others at the same time.
#[test]
fn commands_at_once_lose_no_token_and_no_revocation() {
    const COUNT: usize = 8;
    let dir = tempdir().unwrap();
    let run = |args: &[&str]| shoal(dir.path(), args);
    let new = ["token", "new", "tokens.json", "--read", "*"];
    let at_once = |commands: &[Vec<&str>]| {
        std::thread::scope(|scope| {
            for command in commands {
                scope.spawn(|| run(command).ok());
            }
        });
    };
    at_once(&vec![new.to_vec(); COUNT]);
    let listed = run(&["token", "ls", "tokens.json"]).ok();
    let ids: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ids.len(), COUNT, "{listed}");
    let revoke = ids.iter().map(|id| vec!["token", "revoke", "tokens.json", *id]);
    let mixed: Vec<Vec<&str>> = revoke.flat_map(|it| [it, new.to_vec()]).collect();
    at_once(&mixed);
    let listed = run(&["token", "ls", "tokens.json"]).ok();
    let revoked = listed.lines().filter(|line| line.contains("  revoked  ")).count();
    assert_eq!((listed.lines().count(), revoked), (2 * COUNT, COUNT), "{listed}");
}

#[test]
fn tokens_say_who_reads_and_who_writes_until_they_are_revoked() {
    let dir = tempdir().unwrap();
    let (reader, _) = prepare(dir.path());
    let run = |args: &[&str]| shoal(dir.path(), args);
    let server = Server::with(dir.path(), &["--tokens", "tokens.json"]);
    let with = |token: &str| format!("{}/?token={token}", server.url());
    run(&["sync", "mine.db", &with(&reader), ID, "--once"]).ok();
    let error = run(&["sync", "mine.db", &with(&reader), FOREIGN, "--once"]).error();
    assert!(error.contains("at neither end"), "{error}");
    assert!(!error.contains(&reader), "{error}");
    // A reader's change stays with the reader.
    run(&["doc", "put", &format!("mine.db::{ID}"), "/title", "\"mine\""]).ok();
    let error = run(&["sync", "mine.db", &with(&reader), ID, "--once"]).error();
    assert!(error.contains("may be read, and not changed"), "{error}");
    let shown = run(&["doc", "show", &format!("served.db::{ID}"), "--format", "json"]).ok();
    assert!(shown.contains("for all"), "{shown}");
    let error = run(&["sync", "mine.db", &server.url(), ID, "--once"]).error();
    assert!(error.contains("a token is needed"), "{error}");
    let error = run(&["sync", "mine.db", &with("shoal.aaaa.bbbb"), ID, "--once"]).error();
    assert!(error.contains("not made for this server"), "{error}");

    let writer = run(&["token", "new", "tokens.json", "--write", "*", "--expires", "1d"]).ok();
    run(&["sync", "mine.db", &with(writer.trim()), ID, "--once"]).ok();
    let shown = run(&["doc", "show", &format!("served.db::{ID}"), "--format", "json"]).ok();
    assert!(shown.contains("mine"), "{shown}");
    // Taken back while a socket is open with it.
    let ls = run(&["token", "ls", "tokens.json"]).ok();
    let id = ls.lines().find(|line| line.contains("write *")).expect("the token is listed");
    let id = id.split_whitespace().next().unwrap();
    let mut open = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["sync", "mine.db", &with(writer.trim()), ID])
        .current_dir(dir.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = open.stderr.take().unwrap();
    let mut byte = [0];
    while !said.contains("connected") && stderr.read(&mut byte).unwrap() > 0 {
        said.push(char::from(byte[0]));
    }
    run(&["token", "revoke", "tokens.json", id]).ok();
    while !said.contains("revoked") && stderr.read(&mut byte).unwrap() > 0 {
        said.push(char::from(byte[0]));
    }
    open.kill().unwrap();
    open.wait().unwrap();
    assert!(said.contains("the token was revoked") && !said.contains(writer.trim()), "{said}");
    let ls = run(&["token", "ls", "tokens.json"]).ok();
    assert!(ls.contains("revoked") && ls.contains("a reader"), "{ls}");
    let error = run(&["token", "revoke", "tokens.json", "nobody"]).error();
    assert!(error.contains("no token of this file"), "{error}");
    for (args, why) in [
        (&["--read", "my note"][..], "neither a document id nor a pattern"),
        (&[], "a token for nothing"),
        (&["--admin", "--expires", "soon"], "a number with s, m, h or d"),
    ] {
        let error = run(&[&["token", "new", "tokens.json"], args].concat()).error();
        assert!(error.contains(why), "{error}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(dir.path().join("tokens.json.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn admission_is_paid_by_work() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let run = |args: &[&str]| shoal(dir.path(), args);
    let price =
        ["--admission", "admission.key", "--admission-memory", "64", "--admission-hashes", "4"];
    let server = Server::with(dir.path(), &price);
    let error = run(&["sync", "mine.db", &server.url(), ID, "--once"]).error();
    assert!(error.contains("admission is paid by work"), "{error}");
    assert!(error.contains("--pay"), "{error}");
    run(&["sync", "mine.db", &server.url(), ID, "--once", "--pay"]).ok();
    let host = format!("Host: {}", server.address);
    let metrics = server.ask(&["GET /metrics HTTP/1.1", &host], "");
    for line in ["shoal_tickets_total 1", "shoal_stamps_total 1", "fault=\"unpaid\"} 2"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    for (body, status) in [
        ("", "400"),
        ("{}", "400"),
        (r#"{"claim": "00"}"#, "400"),
        (r#"{"challenge": "AAAA", "secret": "00", "nonce": 1}"#, "403"),
        (r#"{"challenge": "AAAA", "secret": "00", "nonce": -1}"#, "400"),
    ] {
        let answer = server.ask(&["POST /admission HTTP/1.1", &host], body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {answer}");
    }
    let from = "Origin: https://evil.example";
    let answer = server.ask(&["POST /admission HTTP/1.1", &host, from], "{}");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn names_metrics_and_slow_requests_have_their_bounds() {
    let dir = tempdir().unwrap();
    let args = ["--host", "sync.example.com", "--metrics-listen", "127.0.0.1:0"];
    let server = Server::with(dir.path(), &args);
    for (host, status) in [
        ("sync.example.com", "200"),
        ("SYNC.example.com:443", "200"),
        ("127.0.0.1", "200"),
        ("evil.example.com", "403"),
    ] {
        let answer = server.ask(&["GET / HTTP/1.1", &format!("Host: {host}")], "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    let answer = server.ask(&["GET /metrics HTTP/1.1", "Host: localhost"], "");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // Nothing sent, half a request, headers without end: closed within seconds.
    let start = Instant::now();
    let mut sockets: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    sockets[1].write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    for at in 0..2_000 {
        if sockets[2].write_all(format!("X-{at}: {at}\r\n").as_bytes()).is_err() {
            break;
        }
    }
    for socket in &mut sockets {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    }
}

/// A frame beyond a join's length, before the join, is refused by its header.
#[test]
fn long_frames_before_the_join_are_refused_at_once() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut socket = TcpStream::connect(&server.address).unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        server.address
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") && socket.read(&mut byte).unwrap() > 0 {
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    socket.write_all(&[0x82, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut told = Vec::new();
    let _ = socket.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("bytes of a frame before join: more than 4096"), "{told}");
    let host = format!("Host: {}", server.address);
    let metrics = server.ask(&["GET /metrics HTTP/1.1", &host], "");
    assert!(metrics.contains("fault=\"too_large\"} 1"), "{metrics}");
}

#[test]
fn documents_are_removed_and_denied_over_the_api() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let run = |args: &[&str]| shoal(dir.path(), args);
    let server = Server::start(dir.path());
    run(&["sync", "mine.db", &server.url(), ID, "--once"]).ok();
    let host = format!("Host: {}", server.address);
    let bearer = format!("Authorization: Bearer {}", server.token);
    let ask = |line: &str| server.ask(&[&format!("{line} HTTP/1.1"), &host, &bearer], "");
    let answer = ask(&format!("DELETE /api/documents/{ID}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(ask(&format!("GET /api/documents/{ID}")).starts_with("HTTP/1.1 404"));
    // Whoever has it brings it back, as long as it is not denied.
    run(&["sync", "mine.db", &server.url(), ID, "--once"]).ok();
    assert!(ask(&format!("GET /api/documents/{ID}")).starts_with("HTTP/1.1 200"));
    let answer = ask(&format!("DELETE /api/documents/{ID}?deny=true"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let error = run(&["sync", "mine.db", &server.url(), ID, "--once"]).error();
    assert!(error.contains("at neither end"), "{error}");
    assert!(ask("GET /api/denied").contains(ID));
    assert!(ask(&format!("GET /api/documents/{ID}")).starts_with("HTTP/1.1 404"));
    assert!(ask(&format!("DELETE /api/denied/{ID}")).starts_with("HTTP/1.1 200"));
    run(&["sync", "mine.db", &server.url(), ID, "--once"]).ok();
    // The list outlives the process.
    ask(&format!("PUT /api/denied/{FOREIGN}"));
    drop(server);
    let server = Server::start(dir.path());
    let error = run(&["sync", "mine.db", &server.url(), FOREIGN, "--once"]).error();
    assert!(error.contains("at neither end"), "{error}");
}

/// Unmodified clients with tokens, and with tickets that end in the midst of a session.
#[test]
fn javascript_clients_have_tokens_and_tickets() {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let Some(folder) = installed(&clients) else { return };
    let dir = tempdir().unwrap();
    let output = Command::new("node")
        .arg("rights.mjs")
        .arg(env!("CARGO_BIN_EXE_shoal"))
        .arg(dir.path())
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let done: BTreeSet<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    for case in ["reader", "writer", "revoked", "cookie", "ticket", "expired", "hook"] {
        assert!(done.contains(case), "{case}: {done:?}");
    }
}
