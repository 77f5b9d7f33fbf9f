//! `shoal serve` and `shoal sync`: with unmodified JavaScript clients through kills, between
//! databases, and what the port answers to strangers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

use tempfile::tempdir;

use super::shoal;

/// An id in automerge-repo's spelling.
pub(crate) const ID: &str = "2akvofn6L1o4RMUEMQi7qzwRjKWZ";

/// A server on a free port; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
    /// Kept open: the server writes there.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::with(dir, &[])
    }

    pub(crate) fn with(dir: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
            .args(["serve", "served.db", "--listen", "127.0.0.1:0"])
            .args(args)
            .current_dir(dir)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        // A relay's words may come between the two.
        let mut behind = |mark: &str| loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "no {mark}");
            if let Some((_, rest)) = line.trim().split_once(mark) {
                return rest.to_owned();
            }
        };
        let address = behind(": serving at ws");
        let address = address.split_once("://").expect("the address").1.to_owned();
        let token = behind("#token=");
        Self { child, address, token, _stderr: stderr }
    }

    /// Sends a request of these lines; gives the answer.
    pub(crate) fn ask(&self, lines: &[&str], body: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        let mut request = lines.join("\r\n");
        request +=
            &format!("\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_databases_meet_at_a_server() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path());
    let doc = |db: &str| format!("{db}::{ID}");
    let run = |args: &[&str]| shoal(dir.path(), args);
    fs::write(dir.path().join("note.json"), r#"{"title": "Holidays", "days": 3}"#).unwrap();
    run(&["doc", "import", "note.json", &doc("a.db")]).ok();
    // Every document with an id; then one by its URL, into a database that has nothing.
    run(&["sync", "a.db", &server.url(), "--once"]).ok();
    run(&["sync", "b.db", &server.url(), &format!("automerge:{ID}"), "--once"]).ok();
    let shown = |db: &str| run(&["doc", "show", &doc(db), "--format", "json"]).ok();
    assert_eq!(shown("a.db"), shown("b.db"));
    // Both edit while they are apart.
    run(&["doc", "put", &doc("a.db"), "/days", "5"]).ok();
    run(&["doc", "put", &doc("b.db"), "/place", "\"Sea\""]).ok();
    for db in ["a.db", "b.db", "a.db"] {
        run(&["sync", db, &server.url(), "--once"]).ok();
    }
    assert_eq!(shown("a.db"), shown("b.db"));
    assert!(shown("a.db").contains("Sea") && shown("a.db").contains('5'), "{}", shown("a.db"));
    // The server's file is a database like any other, while it is served.
    assert_eq!(shown("served.db"), shown("a.db"));
    run(&["doc", "put", &doc("served.db"), "/days", "6"]).ok();
    let sql = format!("SELECT json ->> '$.days' FROM _shoal_doc WHERE name = '{ID}'");
    assert_eq!(run(&["sql", "served.db", "--format", "csv", &sql]).ok().lines().last(), Some("6"));

    let absent = "4NMNnkMhL8jXrdJ9jamS58PAVdXu";
    let error = run(&["sync", "c.db", &server.url(), absent, "--once"]).error();
    assert!(error.contains("at neither end") || error.contains("document id"), "{error}");
    let error = run(&["sync", "c.db", &server.url(), "note", "--once"]).error();
    assert!(error.contains("note: not a document id"), "{error}");
    let error = run(&["sync", "c.db", "http://127.0.0.1", ID, "--once"]).error();
    assert!(error.contains("not the URL of a WebSocket"), "{error}");
}

#[test]
fn the_port_knows_whom_it_speaks_to() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path());
    let host = format!("Host: {}", server.address);
    let bearer = format!("Authorization: Bearer {}", server.token);
    let page = server.ask(&["GET / HTTP/1.1", &host], "");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Shoal</title>"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    for path in ["/healthz", "/metrics", "/app.js", "/app.css"] {
        let answer = server.ask(&[&format!("GET {path} HTTP/1.1"), &host], "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let refused = |lines: &[&str], status: &str| {
        let answer = server.ask(lines, "SELECT 1");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{lines:?}: {answer}");
    };
    refused(&["GET / HTTP/1.1", "Host: evil.example"], "403");
    refused(&["GET /nothing HTTP/1.1", &host], "404");
    for path in ["status", "documents", "documents/x", "documents/x/history", "tables"] {
        refused(&[&format!("GET /api/{path} HTTP/1.1"), &host], "401");
    }
    refused(&["POST /api/sql HTTP/1.1", &host], "401");
    refused(&["POST /api/sql HTTP/1.1", &host, &bearer, "Origin: http://evil.example"], "403");
    let upgrade = [
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ];
    let mut lines = vec!["GET / HTTP/1.1", &host, "Origin: https://evil.example"];
    lines.extend(upgrade);
    refused(&lines, "403");

    // 32 KiB of headers at the most, also where they come in one piece.
    for (length, status) in [(30_000, "200"), (40_000, "431")] {
        let long = format!("X-Long: {}", "x".repeat(length));
        let answer = server.ask(&["GET /healthz HTTP/1.1", &host, &long], "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {answer}");
    }
    let sql = |statement| server.ask(&["POST /api/sql HTTP/1.1", &host, &bearer], statement);
    assert!(sql("SELECT 6 * 7 AS n").contains(r#"{"columns":["n"],"is_cut":false,"rows":[[42]]}"#));
    for statement in ["DELETE FROM _shoal_doc", "ATTACH 'x.db' AS x", "PRAGMA user_version = 1"] {
        assert!(sql(statement).starts_with("HTTP/1.1 400"), "{statement}");
    }
    let with = sql("WITH x AS (SELECT 1) INSERT INTO _shoal_lag SELECT 1");
    assert!(with.starts_with("HTTP/1.1 400"), "{with}");
    assert!(!dir.path().join("x.db").exists());
}

/// `shoal serve` alone, near Shoal's source tree: documents to look at, there again at the next
/// start, also in a folder that has test data of something else.
#[test]
fn without_a_database_there_are_samples() {
    let dir = tempdir().unwrap();
    fs::create_dir(dir.path().join("testdata")).unwrap();
    for _ in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(dir.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let is_up = stderr.lines().map_while(Result::ok).any(|line| line.contains("page: "));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_up);
    }
    let names = shoal(dir.path(), &["doc", "ls", "shoal.db"]).ok();
    assert_eq!(names.lines().count(), 3, "{names}");
    let sql = "SELECT sum(length(json) > 10) FROM _shoal_doc";
    assert_eq!(shoal(dir.path(), &["sql", "--format", "list", "shoal.db", sql]).ok(), "3\n");
}

/// Unmodified clients of npm; `SHOAL_CLIENTS_SECONDS` for more than the 20 of a usual run,
/// `SHOAL_CLIENTS_SEED` for others.
#[test]
fn javascript_clients_lose_nothing_that_was_acknowledged() {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let Some(folder) = installed(&clients) else { return };
    let dir = tempdir().unwrap();
    let given = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let output = Command::new("node")
        .arg("campaign.mjs")
        .arg(env!("CARGO_BIN_EXE_shoal"))
        .arg(dir.path())
        .args([given("SHOAL_CLIENTS_SECONDS", "20"), given("SHOAL_CLIENTS_SEED", "1")])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    println!("{}", text(&output.stdout));
}

/// A copy of a folder of clients, with their packages; says so aloud where they cannot be had.
pub(crate) fn installed(clients: &Path) -> Option<PathBuf> {
    let skip = |why: &str| {
        // Past the capture of what passing tests print.
        writeln!(io::stderr(), "javascript_clients: skipped: {why}").expect("stderr is open");
        None
    };
    for tool in ["node", "npm"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skip(&format!("there is no {tool} here"));
        }
    }
    // One test installs, the others find it done.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = clients.file_name().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::read(clients.join("package-lock.json")).unwrap();
    let is_there = fs::read(folder.join("installed")).is_ok_and(|installed| installed == lock);
    for entry in fs::read_dir(clients).unwrap() {
        let file = entry.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    if !is_there {
        let npm = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .output()
            .unwrap();
        if !npm.status.success() {
            return skip(&format!("npm install: {}", String::from_utf8_lossy(&npm.stderr)));
        }
        fs::write(folder.join("installed"), lock).unwrap();
    }
    Some(folder)
}
