//! The pool's door: connections, lines, faults.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shoal_pow::Target;
use shoal_stdx::hex;

use crate::faults::Faults;
use crate::log::{Log, lock};
use crate::rules::{Accepted, Book, Login, Rules, Submit};
use crate::work::{Assignment, Template};

/// A pool on this machine, in threads of this process. Dropping it closes every connection and ends
/// every thread.
pub struct TestPool {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// An event of a pool. Each belongs to a connection; connections count from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A miner connected.
    Connected,
    /// A miner asked to log in.
    Login {
        /// Its address.
        address: String,
        /// Its worker's name.
        worker: String,
        /// The protocol of its choice.
        protocol_version: u64,
        /// Its capabilities.
        capabilities: Vec<String>,
        /// The difficulty of its choice.
        difficulty_hint: Option<u64>,
        /// The words of a refusal.
        refused: Option<String>,
    },
    /// A miner was given a window of nonces.
    Job {
        /// The job's name.
        job_id: String,
        /// Difficulty of its shares.
        difficulty: u64,
        /// Height of its block.
        height: u64,
    },
    /// A miner submitted a share.
    Submit {
        /// The job.
        job_id: String,
        /// The nonce.
        nonce: u64,
        /// `true` with a claimed hash.
        claimed: bool,
        /// The answer.
        verdict: Result<Accepted, String>,
    },
    /// A miner sent an empty line.
    EmptyLine,
    /// A miner sent something else.
    Other,
    /// The connection is closed.
    Closed,
    /// The pool was restarted; belongs to connection 0.
    Restart,
}

struct Shared {
    book: Book,
    faults: Mutex<Faults>,
    log: Log<(u64, Instant, Event)>,
    connections: Mutex<BTreeMap<u64, Connection>>,
    per_ip: Mutex<HashMap<IpAddr, usize>>,
    next_connection: AtomicU64,
    stop: AtomicBool,
    /// While this is set and not past, nobody listens.
    down_until: Mutex<Option<Instant>>,
    address: SocketAddr,
}

struct Connection {
    writer: Writer,
    thread: Option<JoinHandle<()>>,
    logged_in: bool,
}

impl TestPool {
    /// Opens a pool on a free port of this machine.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn start(rules: Rules) -> io::Result<Self> {
        Self::start_at("127.0.0.1:0", rules)
    }

    /// Opens a pool at an address.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start_at(address: impl ToSocketAddrs, rules: Rules) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Arc::new(Shared {
            book: Book::new(rules),
            faults: Mutex::default(),
            log: Log::default(),
            connections: Mutex::default(),
            per_ip: Mutex::default(),
            next_connection: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            down_until: Mutex::default(),
            address: listener.local_addr()?,
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("testpool".to_owned())
                .spawn(move || listen(&shared, listener))?
        };
        Ok(Self { shared, listener: Some(thread) })
    }

    /// The address of this server.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The same as a URL for miners.
    pub fn url(&self) -> String {
        format!("stratum+tcp://{}", self.shared.address)
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.shared.faults) = faults;
    }

    /// The template of the moment.
    pub fn template(&self) -> Template {
        self.shared.book.template()
    }

    /// A block was found: every miner gets a job of the next height.
    pub fn advance(&self) {
        self.shared.advance();
    }

    /// Every miner gets a new window of the same template.
    pub fn reassign(&self) {
        self.shared.jobs_for_all();
    }

    /// Sends a line to everybody unchanged, but for a line feed at the end.
    pub fn say(&self, line: &[u8]) {
        let mut line = line.to_vec();
        line.push(b'\n');
        for writer in self.shared.writers() {
            self.shared.send_bytes(&writer, &line);
        }
    }

    /// Sends a notification to everybody.
    pub fn notify(&self, kind: &str, message: &str) {
        self.shared.notify_all(kind, message);
    }

    /// Closes every connection.
    pub fn close_connections(&self) {
        for writer in self.shared.writers() {
            writer.close();
        }
    }

    /// Restarts the pool: connections break in the middle of whatever they were at, the port is
    /// closed for a while, and every job is forgotten. Accepted shares, quarantines and
    /// difficulties are in the pool's database and stay. Returns at once.
    pub fn restart(&self, down: Duration) {
        *lock(&self.shared.down_until) = Some(Instant::now() + down);
        self.shared.note(0, Event::Restart);
        // Wakes the accepting thread, so the port gets closed.
        drop(TcpStream::connect(self.shared.address));
        self.shared.book.restart();
        self.close_connections();
    }

    /// All events so far: connection, moment, event.
    pub fn log(&self) -> Vec<(u64, Instant, Event)> {
        self.shared.log.all()
    }

    /// How many of the events so far are so.
    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.shared.log.count(|(_, _, event)| which(event))
    }

    /// Shares accepted so far.
    pub fn accepted(&self) -> usize {
        self.count(|event| matches!(event, Event::Submit { verdict: Ok(_), .. }))
    }

    /// Waits until the log is so; `false` after `timeout`.
    pub fn wait(
        &self,
        timeout: Duration,
        so: impl FnMut(&[(u64, Instant, Event)]) -> bool,
    ) -> bool {
        self.shared.log.wait(timeout, so)
    }

    /// Waits until this many shares were accepted.
    pub fn wait_accepted(&self, count: usize, timeout: Duration) -> bool {
        self.wait(timeout, |log| {
            let accepted = |event: &Event| matches!(event, Event::Submit { verdict: Ok(_), .. });
            log.iter().filter(|(_, _, event)| accepted(event)).count() >= count
        })
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.shared.address));
        if let Some(thread) = self.listener.take() {
            let _ = thread.join();
        }
        let threads: Vec<_> = lock(&self.shared.connections)
            .values_mut()
            .filter_map(|connection| {
                connection.writer.close();
                connection.thread.take()
            })
            .collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// The writing side of a connection, used by several threads.
#[derive(Clone)]
struct Writer(Arc<Mutex<TcpStream>>, Arc<TcpStream>);

impl Writer {
    fn close(&self) {
        let _ = self.1.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn note(&self, connection: u64, event: Event) {
        self.log.note((connection, Instant::now(), event));
    }

    fn faults(&self) -> Faults {
        lock(&self.faults).clone()
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn writers(&self) -> Vec<Writer> {
        lock(&self.connections).values().map(|connection| connection.writer.clone()).collect()
    }

    fn advance(&self) {
        self.book.advance(Instant::now());
        self.jobs_for_all();
    }

    fn jobs_for_all(&self) {
        let miners: Vec<(u64, Writer)> = lock(&self.connections)
            .iter()
            .filter(|(_, connection)| connection.logged_in)
            .map(|(&id, connection)| (id, connection.writer.clone()))
            .collect();
        for (id, writer) in miners {
            self.job(id, &writer);
        }
    }

    fn notify_all(&self, kind: &str, message: &str) {
        let line = json!({
            "method": "notification", "params": { "kind": kind, "message": message }
        });
        for writer in self.writers() {
            self.send(&writer, &line);
        }
    }

    /// Gives a connection its next window. `false` when the connection is to be closed.
    fn job(&self, id: u64, writer: &Writer) -> bool {
        let faults = self.faults();
        if faults.no_jobs {
            return true;
        }
        let Some(assignment) = self.book.give(id, Instant::now()) else { return true };
        let line = job_line(&assignment);
        if faults.cut_job {
            let text = line.to_string();
            self.send_bytes(writer, &text.as_bytes()[..text.len() / 2]);
            return false;
        }
        self.note(
            id,
            Event::Job {
                job_id: assignment.job_id.clone(),
                difficulty: assignment.difficulty,
                height: assignment.template.height,
            },
        );
        self.send(writer, &line);
        true
    }

    fn send(&self, writer: &Writer, line: &Value) {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        self.send_bytes(writer, &bytes);
    }

    /// One write for a line, because the original client loses what comes in two; or several, where
    /// the faults want that. A miner that has gone is noticed by the thread that reads.
    fn send_bytes(&self, writer: &Writer, bytes: &[u8]) {
        let split = self.faults().split_lines;
        let mut stream = lock(&writer.0);
        let Some(pause) = split else {
            let _ = stream.write_all(bytes);
            return;
        };
        let piece = bytes.len().div_ceil(SPLIT_PIECES).max(1);
        for part in bytes.chunks(piece) {
            if stream.write_all(part).is_err() {
                return;
            }
            std::thread::sleep(pause);
        }
    }
}

/// Takes connections, and closes the port for as long as a restart takes.
fn listen(shared: &Arc<Shared>, mut listener: TcpListener) {
    loop {
        accept(shared, &listener);
        drop(listener);
        listener = loop {
            if shared.stopping() {
                return;
            }
            let down = *lock(&shared.down_until);
            if down.is_none_or(|until| until <= Instant::now())
                && let Ok(again) = TcpListener::bind(shared.address)
            {
                break again;
            }
            std::thread::sleep(REBIND_TICK);
        };
        *lock(&shared.down_until) = None;
    }
}

/// Takes connections until the pool ends or is restarted.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.stopping() || lock(&shared.down_until).is_some() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(ip) = stream.peer_addr().map(|peer| peer.ip()) else { continue };
        let id = shared.next_connection.fetch_add(1, Ordering::Relaxed);
        shared.note(id, Event::Connected);
        let full = {
            let mut per_ip = lock(&shared.per_ip);
            let count = per_ip.entry(ip).or_default();
            let full = *count >= shared.book.rules().connections_per_ip;
            *count += usize::from(!full);
            full
        };
        if full || shared.faults().close_at_once {
            if !full {
                leave(shared, ip);
            }
            drop(stream);
            shared.note(id, Event::Closed);
            continue;
        }
        if let Err(error) = admit(shared, stream, id, ip) {
            leave(shared, ip);
            drop(error);
        }
    }
}

/// Starts the thread of a connection.
fn admit(shared: &Arc<Shared>, stream: TcpStream, id: u64, ip: IpAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.set_read_timeout(Some(READ_TICK))?;
    let closer = Arc::new(stream.try_clone()?);
    let writer = Writer(Arc::new(Mutex::new(stream.try_clone()?)), closer);
    let connection = Connection { writer: writer.clone(), thread: None, logged_in: false };
    // The table is held until the thread stands in it: the thread takes itself out at its end.
    let mut connections = lock(&shared.connections);
    let thread = {
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name(format!("testpool-{id}")).spawn(move || {
            serve(&shared, stream, id, &writer);
            writer.close();
            shared.book.disconnect(id);
            lock(&shared.connections).remove(&id);
            leave(&shared, ip);
            shared.note(id, Event::Closed);
        })?
    };
    connections.insert(id, Connection { thread: Some(thread), ..connection });
    Ok(())
}

fn leave(shared: &Shared, ip: IpAddr) {
    if let Some(count) = lock(&shared.per_ip).get_mut(&ip) {
        *count = count.saturating_sub(1);
    }
}

/// Reads lines until the miner goes, breaks a limit, or the pool ends.
fn serve(shared: &Arc<Shared>, mut stream: TcpStream, id: u64, writer: &Writer) {
    let rules = shared.book.rules();
    let mut partial = Vec::new();
    let mut buffer = [0; 4096];
    let mut logged_in = false;
    let mut last_word = Instant::now();
    loop {
        let limit = if logged_in { rules.idle_timeout } else { rules.login_timeout };
        if shared.stopping() || last_word.elapsed() > limit {
            return;
        }
        let count = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), TimedOut | WouldBlock | Interrupted) => continue,
            Err(_) => return,
        };
        if logged_in {
            last_word = Instant::now();
        }
        for &byte in &buffer[..count] {
            if byte != b'\n' {
                partial.push(byte);
                if partial.len() > LINE_MAX {
                    return;
                }
                continue;
            }
            let line = std::mem::take(&mut partial);
            if !answer(shared, id, writer, &line, &mut logged_in) {
                return;
            }
        }
    }
}

/// Answers a line; `false` when the connection is to be closed.
fn answer(
    shared: &Arc<Shared>,
    id: u64,
    writer: &Writer,
    line: &[u8],
    logged_in: &mut bool,
) -> bool {
    let received = Instant::now();
    let faults = shared.faults();
    let line = line.trim_ascii();
    if line.is_empty() {
        shared.note(id, Event::EmptyLine);
        return true;
    }
    let request: Option<Value> = serde_json::from_slice(line).ok();
    let number = request.as_ref().and_then(|value| value["id"].as_u64());
    let method = request.as_ref().and_then(|value| value["method"].as_str());
    let (Some(request), Some(number), Some(method)) = (request.as_ref(), number, method) else {
        shared.note(id, Event::Other);
        if !faults.silent {
            shared.send(writer, &json!({ "id": 0, "error": "invalid JSON" }));
        }
        return true;
    };
    let error = |words: &str| shared.send(writer, &json!({ "id": number, "error": words }));
    match method {
        "login" => {
            let Some(login) = read_login(&request["params"]) else {
                error("invalid login params");
                return true;
            };
            let result = match faults.refuse_login.clone() {
                Some(words) => Err(words),
                None => shared.book.login(id, &login, received),
            };
            shared.note(id, login_event(&login, result.as_ref().err()));
            if faults.silent {
                return true;
            }
            if let Err(words) = result {
                error(&words);
                return false;
            }
            *logged_in = true;
            shared.send(writer, &login_line(number, shared.book.rules(), &faults));
            if faults.close_after_login {
                return false;
            }
            for line in &faults.say_first {
                shared.send_bytes(writer, &[line.as_slice(), b"\n"].concat());
            }
            let stays = shared.job(id, writer);
            // Only now may other threads send jobs: the first comes after the answer.
            if let Some(connection) = lock(&shared.connections).get_mut(&id) {
                connection.logged_in = true;
            }
            stays
        }
        "submit" => {
            let Some(submit) = read_submit(&request["params"]) else {
                error("invalid submit params");
                return true;
            };
            if faults.close_on_submit {
                return false;
            }
            take_share(shared, id, writer, number, &submit, received, &faults);
            !faults.lose_acks
        }
        _ => {
            shared.note(id, Event::Other);
            error("unknown method");
            true
        }
    }
}

fn take_share(
    shared: &Arc<Shared>,
    id: u64,
    writer: &Writer,
    number: u64,
    submit: &Submit,
    received: Instant,
    faults: &Faults,
) {
    if let Some(time) = lock(&shared.faults).quarantine.take() {
        shared.book.quarantine(id, received, time);
    }
    let verdict = match faults.refuse_submits.clone() {
        Some(words) => Err(words),
        None => shared.book.submit(id, submit, received, faults.block_refusal.as_deref()),
    };
    shared.note(
        id,
        Event::Submit {
            job_id: submit.job_id.clone(),
            nonce: submit.nonce,
            claimed: submit.claimed_hash.is_some(),
            verdict: verdict.clone(),
        },
    );
    if faults.silent || faults.swallow_submits || faults.lose_acks {
        return;
    }
    // A job brought about by the share comes before its answer, as in the real pool.
    let next = verdict.as_ref().is_ok_and(|accepted| accepted.next_difficulty.is_some());
    if next || faults.job_before_ack {
        shared.job(id, writer);
    }
    let line = match &verdict {
        Ok(accepted) => json!({ "id": number, "status": "ok", "result": {
            "accepted": true,
            "verified": accepted.verified,
            "status": if accepted.verified { "verified" } else { "provisional" },
            "difficulty": accepted.next_difficulty.unwrap_or(accepted.difficulty),
        }}),
        Err(words) => json!({ "id": number, "error": words }),
    };
    if let Some(delay) = faults.late_ack {
        let (late, writer) = (Arc::clone(shared), writer.clone());
        // The thread ends by itself; the pool's end does not wait for it.
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            late.send(&writer, &line);
        });
    } else {
        shared.send(writer, &line);
        if faults.double_ack {
            shared.send(writer, &line);
        }
    }
    if let Ok(Accepted { block: true, .. }) = verdict {
        let height = shared.book.template().height;
        shared.send(
            writer,
            &json!({ "method": "notification", "params": {
                "kind": "miner_block_found", "message": format!("you found block {height}"),
            }}),
        );
        shared.notify_all("pool_block_solved", &format!("pool solved block {height}"));
        shared.advance();
    }
}

fn read_login(params: &Value) -> Option<Login> {
    let list = |value: &Value| -> Option<Vec<String>> {
        match value {
            Value::Null => Some(Vec::new()),
            value => {
                value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
        }
    };
    Some(Login {
        address: params["address"].as_str()?.to_owned(),
        worker: params["worker"].as_str()?.to_owned(),
        protocol_version: params["protocol_version"].as_u64().unwrap_or(1),
        capabilities: list(&params["capabilities"])?,
        difficulty_hint: params["difficulty_hint"].as_u64(),
    })
}

fn read_submit(params: &Value) -> Option<Submit> {
    Some(Submit {
        job_id: params["job_id"].as_str()?.to_owned(),
        nonce: params["nonce"].as_u64()?,
        claimed_hash: params["claimed_hash"].as_str().map(str::to_owned),
    })
}

fn login_event(login: &Login, refused: Option<&String>) -> Event {
    Event::Login {
        address: login.address.clone(),
        worker: login.worker.clone(),
        protocol_version: login.protocol_version,
        capabilities: login.capabilities.clone(),
        difficulty_hint: login.difficulty_hint,
        refused: refused.cloned(),
    }
}

fn login_line(number: u64, rules: &Rules, faults: &Faults) -> Value {
    if rules.legacy {
        return json!({ "id": number, "status": "ok" });
    }
    let mut required: Vec<&str> = Vec::new();
    if rules.claims_required {
        required.push("submit_claimed_hash");
    }
    required.extend(faults.require.as_deref());
    json!({ "id": number, "status": "ok", "result": {
        "protocol_version": 2,
        "capabilities": [
            "login_negotiation", "share_validation_status", "submit_claimed_hash",
            "difficulty_hint",
        ],
        "required_capabilities": required,
    }})
}

fn job_line(assignment: &Assignment) -> Value {
    let target = Target::from_difficulty(assignment.difficulty);
    let template = &assignment.template;
    json!({ "method": "job", "params": {
        "job_id": assignment.job_id,
        "template_id": template.id,
        "header_base": hex::encode(&template.header),
        "target": hex::encode(&target.to_bytes()),
        "difficulty": assignment.difficulty,
        "network_target": hex::encode(&template.network_target.to_bytes()),
        "height": template.height,
        "nonce_start": assignment.first,
        "nonce_end": assignment.last,
    }})
}

use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};

const LINE_MAX: usize = 8 * 1024;
const SPLIT_PIECES: usize = 5;
const READ_TICK: Duration = Duration::from_millis(50);
const REBIND_TICK: Duration = Duration::from_millis(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
