//! A node: templates over HTTP, submits, events. Its chain is extended by nobody else.

mod desk;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha3::{Digest, Sha3_256};
use shoal_pow::{Challenge, Options, Target};
use shoal_stdx::hex;

use crate::address::{self, Network};
use crate::faults::NodeFaults;
use crate::http::{self, Request};
use crate::log::{Log, lock};
use crate::work::{Header, random_id};

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Memory of one hash in KiB: 2 GiB on the chain.
    pub memory_kib: u32,
    /// Difficulty of every block.
    pub difficulty: u64,
    /// Height of the first block to be found.
    pub height: u64,
    /// The folder of `api.cookie`. Without one, nobody is asked for a token.
    pub data_dir: Option<PathBuf>,
    /// The network of valid addresses.
    pub network: Network,
    /// `true` to load a wallet at the start. Without one, templates need an address.
    pub wallet: bool,
    /// How long a template lives.
    pub lease: Duration,
    /// Submits allowed at once.
    pub burst: u32,
    /// Time per further submit.
    pub refill: Duration,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            memory_kib: shoal_pow::MEMORY_KIB,
            difficulty: 4,
            height: 1,
            data_dir: None,
            network: Network::Main,
            wallet: true,
            lease: Duration::from_secs(600),
            burst: 4,
            refill: Duration::from_millis(500),
        }
    }
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A template was asked for; the status of the answer.
    Template(u16),
    /// A template was renewed, or not.
    Renew(u16),
    /// A block was submitted.
    Submit {
        /// The status of the answer.
        status: u16,
        /// The nonce.
        nonce: u64,
        /// Height of the block, when accepted.
        height: Option<u64>,
        /// The `x-request-id` of the request.
        request_id: Option<String>,
    },
    /// Somebody listens to events.
    Listener,
    /// A request without the right token.
    Unauthorized,
    /// Anything else.
    Other,
}

/// A node on this machine, in threads of this process. Dropping it ends every thread and takes the
/// cookie away.
pub struct TestNode {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    settings: NodeSettings,
    faults: Mutex<NodeFaults>,
    state: Mutex<State>,
    log: Log<(Instant, NodeEvent)>,
    streams: Mutex<HashMap<u64, Served>>,
    verifying: AtomicUsize,
    stop: AtomicBool,
    address: SocketAddr,
}

/// A connection, to be closed from elsewhere, and its thread.
type Served = (Arc<TcpStream>, Option<JoinHandle<()>>);

struct State {
    token: Option<String>,
    height: u64,
    /// Ids of the blocks so far, by height, and whether they were found here.
    blocks: BTreeMap<u64, (String, bool)>,
    wallet: bool,
    templates: HashMap<String, (Header, Instant)>,
    order: VecDeque<String>,
    allowance: f64,
    refilled: Instant,
    /// Events so far, for those who listen.
    events: Vec<(&'static str, Value)>,
}

impl State {
    /// The chain grows by a block, and everybody is told.
    fn extend(&mut self, hash: &str, ours: bool) {
        let height = self.height;
        self.height += 1;
        self.blocks.insert(height, (hash.to_owned(), ours));
        let seconds = unix_ms() / 1000;
        let block = json!({ "height": height, "hash": hash, "timestamp": seconds, "tx_count": 1 });
        self.events.push(("new_block", block));
        if ours {
            let mined = json!({ "height": height, "hash": hash, "reward": desk::REWARD });
            self.events.push(("mined_block", mined));
        }
    }
}

impl TestNode {
    /// Opens a node on a free port of this machine.
    ///
    /// # Errors
    /// When the system gives no socket, or the cookie cannot be written.
    pub fn start(settings: NodeSettings) -> io::Result<Self> {
        Self::start_at("127.0.0.1:0", settings)
    }

    /// Opens a node at an address.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_at(address: impl ToSocketAddrs, settings: NodeSettings) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let state = State {
            token: None,
            height: settings.height,
            blocks: BTreeMap::new(),
            wallet: settings.wallet,
            templates: HashMap::new(),
            order: VecDeque::new(),
            allowance: f64::from(settings.burst),
            refilled: Instant::now(),
            events: Vec::new(),
        };
        let shared = Arc::new(Shared {
            settings,
            faults: Mutex::default(),
            state: Mutex::new(state),
            log: Log::default(),
            streams: Mutex::default(),
            verifying: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            address: listener.local_addr()?,
        });
        let mut node = Self { shared: Arc::clone(&shared), listener: None };
        node.rotate_cookie()?;
        let thread = std::thread::Builder::new()
            .name("testnode".to_owned())
            .spawn(move || listen(&shared, &listener))?;
        node.listener = Some(thread);
        Ok(node)
    }

    /// The address of this server.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// The cookie file, where there is a folder.
    pub fn cookie(&self) -> Option<PathBuf> {
        self.shared.settings.data_dir.as_deref().map(cookie_path)
    }

    /// A new token, as after a restart of the node.
    ///
    /// # Errors
    /// When the cookie cannot be written.
    pub fn rotate_cookie(&self) -> io::Result<()> {
        let Some(path) = self.cookie() else { return Ok(()) };
        let token: String = (0..4).map(|_| random_id()).collect();
        write_private(&path, &token)?;
        lock(&self.shared.state).token = Some(token);
        Ok(())
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: NodeFaults) {
        *lock(&self.shared.faults) = faults;
    }

    /// The height being worked on.
    pub fn height(&self) -> u64 {
        lock(&self.shared.state).height
    }

    /// Somebody else found the block.
    pub fn advance(&self) {
        lock(&self.shared.state).extend(&random_id(), false);
    }

    /// Forgets every template, as after their leases.
    pub fn expire_templates(&self) {
        let mut state = lock(&self.shared.state);
        state.templates.clear();
        state.order.clear();
    }

    /// All events so far.
    pub fn log(&self) -> Vec<(Instant, NodeEvent)> {
        self.shared.log.all()
    }

    /// How many of the events so far are so.
    pub fn count(&self, which: impl Fn(&NodeEvent) -> bool) -> usize {
        self.shared.log.count(|(_, event)| which(event))
    }

    /// Blocks accepted so far.
    pub fn accepted(&self) -> usize {
        self.count(|event| matches!(event, NodeEvent::Submit { height: Some(_), .. }))
    }

    /// Waits until the log is so; `false` after `timeout`.
    pub fn wait(&self, timeout: Duration, so: impl FnMut(&[(Instant, NodeEvent)]) -> bool) -> bool {
        self.shared.log.wait(timeout, so)
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        drop(TcpStream::connect(self.shared.address));
        if let Some(thread) = self.listener.take() {
            let _ = thread.join();
        }
        let threads: Vec<_> = lock(&self.shared.streams)
            .values_mut()
            .filter_map(|(stream, thread)| {
                let _ = stream.shutdown(Shutdown::Both);
                thread.take()
            })
            .collect();
        for thread in threads {
            let _ = thread.join();
        }
        if let Some(path) = self.cookie() {
            let _ = fs::remove_file(path);
        }
    }
}

fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut next = 0;
    for stream in listener.incoming() {
        if shared.stopping() {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        if lock(&shared.faults).close_at_once {
            continue;
        }
        next += 1;
        let id = next;
        let set = stream.set_read_timeout(Some(READ_TICK)).and_then(|()| stream.set_nodelay(true));
        let (Ok(()), Ok(closer)) = (set, stream.try_clone()) else { continue };
        let mut streams = lock(&shared.streams);
        let thread = {
            let shared = Arc::clone(shared);
            std::thread::Builder::new().name("testnode-request".to_owned()).spawn(move || {
                if let Some(request) = http::read(&mut stream, || shared.stopping()) {
                    // A client already gone needs no answer.
                    let _ = shared.answer(&mut stream, &request);
                }
                lock(&shared.streams).remove(&id);
            })
        };
        if let Ok(thread) = thread {
            streams.insert(id, (Arc::new(closer), Some(thread)));
        }
    }
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn note(&self, event: NodeEvent) {
        self.log.note((Instant::now(), event));
    }

    fn answer(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let faults = lock(&self.faults).clone();
        if faults.silent {
            while !self.stopping() && lock(&self.faults).silent {
                std::thread::sleep(READ_TICK);
            }
            return Ok(());
        }
        if !self.authorized(request) {
            self.note(NodeEvent::Unauthorized);
            return respond(stream, 401, &[], &json!({ "error": "unauthorized" }));
        }
        if faults.nonsense {
            self.note(NodeEvent::Other);
            return http::write(stream, 200, &[], b"<html>no JSON here</html>");
        }
        if let Some(bytes) = faults.huge_body {
            self.note(NodeEvent::Other);
            return http::write(stream, 200, &[], &vec![b' '; bytes]);
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/api/mining/blocktemplate") => self.template(stream, request),
            ("POST", "/api/mining/renewtemplate") => self.renew(stream, request),
            ("POST", "/api/mining/submitblock") => self.submit(stream, request),
            ("GET", "/api/events") if !faults.no_events => self.events(stream),
            _ => {
                self.note(NodeEvent::Other);
                let (status, body) = desk::answer(&mut lock(&self.state), &self.settings, request);
                respond(stream, status, &[], &body)
            }
        }
    }

    fn authorized(&self, request: &Request) -> bool {
        let state = lock(&self.state);
        let Some(token) = &state.token else { return true };
        request.header("authorization").and_then(|value| value.strip_prefix("Bearer "))
            == Some(token.as_str())
    }

    fn template(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let refusal = {
            let mut faults = lock(&self.faults);
            let retry_after = faults.retry_after;
            faults.refuse_templates.as_mut().filter(|(_, _, left)| *left > 0).map(
                |(status, words, left)| {
                    *left -= 1;
                    (*status, words.clone(), retry_after)
                },
            )
        };
        if let Some((status, words, retry_after)) = refusal {
            self.note(NodeEvent::Template(status));
            let headers: Vec<_> =
                retry_after.iter().map(|secs| ("Retry-After", secs.to_string())).collect();
            return respond(stream, status, &headers, &json!({ "error": words }));
        }
        let asked = request.parameter("address").unwrap_or_default();
        if !asked.is_empty() && address::check(asked, self.settings.network).is_err() {
            self.note(NodeEvent::Template(400));
            return respond(stream, 400, &[], &json!({ "error": "invalid address" }));
        }
        if asked.is_empty() && !lock(&self.state).wallet {
            self.note(NodeEvent::Template(503));
            return respond(stream, 503, &[], &json!({ "error": "no wallet loaded" }));
        }
        let (id, header, expires) = self.lease();
        let block = json!({
            "header": {
                "Version": header.version,
                "Height": header.height,
                "PrevHash": header.previous,
                "MerkleRoot": header.merkle_root,
                "Timestamp": header.timestamp,
                "Difficulty": header.difficulty,
                "Nonce": 0,
            },
            "transactions": [],
        });
        self.note(NodeEvent::Template(200));
        let target = Target::from_difficulty(header.difficulty);
        respond(
            stream,
            200,
            &[],
            &json!({
                "block": block,
                "target": hex::encode(&target.to_bytes()),
                "header_base": hex::encode(&header.to_bytes()),
                "reward_address_used": asked,
                "template_id": id,
                "template_expires_at_unix_ms": expires,
                "mempool_generation": 1,
            }),
        )
    }

    /// A fresh template, and when the lease expires.
    fn lease(&self) -> (String, Header, u64) {
        let mut state = lock(&self.state);
        let header = Header::sample(state.height, self.settings.difficulty);
        let id = random_id();
        let until = Instant::now() + self.settings.lease;
        state.templates.insert(id.clone(), (header.clone(), until));
        state.order.push_back(id.clone());
        while state.order.len() > TEMPLATES_MAX {
            if let Some(oldest) = state.order.pop_front() {
                state.templates.remove(&oldest);
            }
        }
        (id, header, unix_ms() + self.settings.lease.as_millis() as u64)
    }

    fn renew(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let id = request.json().and_then(|body| body["template_id"].as_str().map(str::to_owned));
        let renewed = {
            let mut state = lock(&self.state);
            let height = state.height;
            match id.as_ref().and_then(|id| state.templates.get_mut(id)) {
                None => Err((404, "unknown or expired template_id")),
                Some((header, _)) if header.height != height => Err((409, "template is stale")),
                Some((_, until)) => {
                    *until = Instant::now() + self.settings.lease;
                    Ok(unix_ms() + self.settings.lease.as_millis() as u64)
                }
            }
        };
        self.note(NodeEvent::Renew(renewed.map_or_else(|(status, _)| status, |_| 200)));
        match renewed {
            Ok(expires) => respond(
                stream,
                200,
                &[],
                &json!({ "template_id": id, "template_expires_at_unix_ms": expires }),
            ),
            Err((status, words)) => respond(stream, status, &[], &json!({ "error": words })),
        }
    }

    fn submit(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let body = request.json().unwrap_or_default();
        let nonce = body["nonce"].as_u64();
        let outcome = match nonce {
            None => Err((400, "invalid request".to_owned())),
            Some(nonce) => self.judge(body["template_id"].as_str().unwrap_or_default(), nonce),
        };
        let event = |status, height| NodeEvent::Submit {
            status,
            nonce: nonce.unwrap_or_default(),
            height,
            request_id: request.header("x-request-id").map(str::to_owned),
        };
        match &outcome {
            Ok((height, _)) => self.note(event(200, Some(*height))),
            Err((status, _)) => self.note(event(*status, None)),
        }
        let faults = lock(&self.faults).clone();
        if let Some(time) = faults.slow_submits {
            let until = Instant::now() + time;
            while Instant::now() < until && !self.stopping() {
                std::thread::sleep(READ_TICK.min(time));
            }
        }
        if faults.lose_submits {
            return Ok(());
        }
        match outcome {
            Ok((height, hash)) => {
                let answer = json!({ "accepted": true, "hash": hash, "height": height });
                respond(stream, 200, &[], &answer)
            }
            Err((status, words)) => respond(stream, status, &[], &json!({ "error": words })),
        }
    }

    /// The height and the id of the block made of a template and a nonce.
    fn judge(&self, id: &str, nonce: u64) -> Result<(u64, String), (u16, String)> {
        if let Some((status, words, left)) = lock(&self.faults).refuse_submits.as_mut()
            && *left > 0
        {
            *left -= 1;
            return Err((*status, words.clone()));
        }
        let busy = self.verifying.load(Ordering::Acquire) >= VERIFIERS_MAX;
        let limited = (!self.may_submit()).then_some("submitblock rate limit exceeded");
        if let Some(words) = limited.or(busy.then_some("submitblock busy, retry later")) {
            return Err((429, words.to_owned()));
        }
        let header = {
            let state = lock(&self.state);
            let (header, _) = state
                .templates
                .get(id)
                .filter(|(_, until)| *until > Instant::now())
                .ok_or_else(|| (400, "unknown or expired template_id".to_owned()))?;
            if header.height != state.height {
                return Err((400, "block rejected as stale".to_owned()));
            }
            header.clone()
        };
        self.verifying.fetch_add(1, Ordering::AcqRel);
        let mut bytes = header.to_bytes();
        let target = Target::from_difficulty(header.difficulty);
        let found = Challenge::new(&bytes, self.settings.memory_kib, target)
            .and_then(|challenge| challenge.verify(nonce, &Options::default()));
        self.verifying.fetch_sub(1, Ordering::AcqRel);
        if !matches!(found, Ok(Some(_))) {
            return Err((400, "block rejected".to_owned()));
        }
        bytes.extend(nonce.to_le_bytes());
        let hash = hex::encode(&Sha3_256::digest(&bytes));
        // Somebody else may have found a block while this one was hashed.
        let mut state = lock(&self.state);
        if header.height != state.height {
            return Err((400, "block rejected as stale".to_owned()));
        }
        state.extend(&hash, true);
        Ok((header.height, hash))
    }

    fn may_submit(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let refill = self.settings.refill.as_secs_f64().max(1e-9);
        let earned = (now - state.refilled).as_secs_f64() / refill;
        state.refilled = now;
        state.allowance = (state.allowance + earned).min(f64::from(self.settings.burst));
        if state.allowance < 1.0 {
            return false;
        }
        state.allowance -= 1.0;
        true
    }

    /// Tells a listener every event from now on.
    fn events(&self, stream: &mut TcpStream) -> io::Result<()> {
        http::begin_events(stream)?;
        let (mut next, height) = {
            let state = lock(&self.state);
            (state.events.len(), state.height - 1)
        };
        let connected = json!({ "chain_height": height, "syncing": false });
        write!(stream, "event: connected\ndata: {connected}\n\n")?;
        self.note(NodeEvent::Listener);
        if lock(&self.faults).close_events {
            return Ok(());
        }
        let mut quiet = Instant::now();
        while !self.stopping() && !lock(&self.faults).close_events {
            let fresh: Vec<_> = lock(&self.state).events[next..].to_vec();
            next += fresh.len();
            for (name, data) in fresh {
                write!(stream, "event: {name}\ndata: {data}\n\n")?;
                quiet = Instant::now();
            }
            if quiet.elapsed() > KEEPALIVE {
                stream.write_all(b": keepalive\n\n")?;
                quiet = Instant::now();
            }
            std::thread::sleep(EVENT_TICK);
        }
        Ok(())
    }
}

fn respond(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &Value,
) -> io::Result<()> {
    http::write(stream, status, headers, body.to_string().as_bytes())
}

fn cookie_path(data_dir: &Path) -> PathBuf {
    data_dir.join("api.cookie")
}

/// Writes a file readable by its owner only.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

fn unix_ms() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const TEMPLATES_MAX: usize = 512;
const VERIFIERS_MAX: usize = 2;
const READ_TICK: Duration = Duration::from_millis(50);
const EVENT_TICK: Duration = Duration::from_millis(10);
const KEEPALIVE: Duration = Duration::from_secs(30);
