//! The server: threads started, the port opened, all of it stopped again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shoal::{Access, Database, Environment};
use shoal_sync::{Config, DocumentId, Effect, Event, Hub, Limits, Metadata};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::accept::{self, Serving};
use crate::admission::{Admission, AdmissionOptions};
use crate::doorman::Doorman;
use crate::engine::{self, Engine, Input, News, TICK};
use crate::http::{self, Site};
use crate::policy::SharePolicy;
use crate::queries::Queries;
use crate::relay::{Relay, RelayOptions};
use crate::rules::RuleFile;
use crate::storage::{Figures, Naming, Storage};
use crate::wire::INCOMING_KIB;
use crate::{Error, tls};

/// Sockets and requests have this time at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// The settings of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// The world of the database.
    pub environment: Environment,
    /// The database file; a missing one is created.
    pub path: PathBuf,
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The password of the page and the API.
    pub admin_token: String,
    /// Origins of web pages allowed to open sockets, such as `https://app.example.com`; `*` is any.
    /// The server's own page may; on a loopback address, pages of this machine.
    pub origins: Vec<String>,
    /// Names by which requests may ask for this server, besides those of this machine: the names
    /// that a proxy before it is known by. With none, a port beyond this machine takes any name.
    pub hosts: Vec<String>,
    /// Certificates and private key in PEM, for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// An address of its own for `/metrics` and `/healthz`, which the port then leaves out.
    pub metrics: Option<SocketAddr>,
    /// Who may.
    pub policy: Arc<dyn SharePolicy>,
    /// The file of rules for what principals read of tables ([`crate::rules`]).
    pub rules: Option<PathBuf>,
    /// The price of admission for whoever the policy does not know.
    pub admission: Option<AdmissionOptions>,
    /// NATS, over which this server shares documents with others.
    pub relay: Option<RelayOptions>,
    /// The bounds of peers.
    pub limits: Limits,
}

/// The engine and the storage of a process, running.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) figures: Arc<Figures>,
    #[cfg(feature = "nats")]
    pub(crate) feed: Arc<crate::relay::desk::Feed>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Opens a database with a write-ahead log, and starts the threads over it.
    pub(crate) fn start(
        environment: &Environment,
        path: &Path,
        limits: Limits,
        news: News,
    ) -> Result<Self, Error> {
        let mut database = Database::open(environment.clone(), path, Access::Create)?;
        use_log(&mut database);
        let naming = Naming::default();
        Self::over(database, (environment, path), (limits, naming), news)
    }

    /// Starts the threads over a database.
    pub(crate) fn over(
        mut database: Database,
        (environment, path): (&Environment, &Path),
        (limits, naming): (Limits, Naming),
        news: News,
    ) -> Result<Self, Error> {
        let id = uuid(database.storage_id()?);
        let denied = database.denied()?;
        let figures = Arc::new(Figures::default());
        let (engine, inputs) = Engine::channel();
        let (work, jobs) = std::sync::mpsc::channel();
        let storage = Storage::new(
            (environment.clone(), path.to_owned()),
            database,
            limits,
            Arc::clone(&figures),
        )
        .with_naming(naming);
        #[cfg(feature = "nats")]
        let feed = Arc::clone(&storage.desk.feed);
        let tell = engine.clone();
        let storing = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || storage.run(&jobs, &|event| tell.send_blocking(event)))?;
        let metadata = Metadata { storage_id: Some(id.clone()), is_ephemeral: false };
        let mut hub = Hub::new(Config { peer_id: format!("shoal-{id}"), metadata, limits });
        for document in denied.iter().filter_map(|name| DocumentId::parse(name).ok()) {
            hub.handle(0, Event::Deny { document, is_denied: true });
        }
        let thinking = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || engine::run(hub, inputs, &work, news))?;
        let ticking = engine.clone();
        tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                if ticking.send(Input::Event(Event::Tick)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            engine,
            figures,
            #[cfg(feature = "nats")]
            feed,
            threads: vec![thinking, storing],
        })
    }

    /// Stops the engine, then the storage: pending changes are stored, sockets are told.
    pub(crate) async fn stop(self) {
        self.figures.is_stopping.store(true, Ordering::Relaxed);
        let _ = self.engine.send(Input::Stop).await;
        let threads = self.threads;
        let _ = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        })
        .await;
    }
}

/// A write-ahead log makes a commit one fsync, and lets the page read meanwhile. Where others
/// have the file open, its mode stays: slower, as safe.
fn use_log(database: &mut Database) {
    let connection = database.sql();
    if let Ok(mut statement) = connection.prepare("PRAGMA journal_mode = wal")
        && let Ok(mut rows) = connection.query(&mut statement)
    {
        let _ = rows.next();
    }
}

/// Random bytes as a UUID of version 4.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = shoal_stdx::hex::encode(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A sync server, running.
pub struct Server {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    running: Running,
    relay: Option<Arc<Relay>>,
    stop: watch::Sender<bool>,
    places: Arc<Semaphore>,
    serving: JoinSet<()>,
}

impl Server {
    /// Opens the database and the port. Within a tokio runtime.
    ///
    /// # Errors
    /// When either cannot be opened, or a certificate or key cannot be read.
    pub async fn start(options: ServeOptions) -> Result<Self, Error> {
        let ServeOptions { environment, path, listen, admin_token, origins, limits, .. } = options;
        let tls = options.tls.as_ref().map(|(chain, key)| tls::Server::new(chain, key));
        let tls = tls.transpose()?;
        let rules = options.rules.map(|path| {
            RuleFile::open(&path)
                .map_err(|why| Error::Rules { path: path.display().to_string(), why })
        });
        let rules = rules.transpose()?;
        let has_rules = rules.is_some();
        let admission = options.admission.map(|it| Admission::start(it, environment.clone()));
        let admission = admission.transpose()?;
        let listener = TcpListener::bind(listen).await?;
        let metrics_listener = match options.metrics {
            Some(address) => Some(TcpListener::bind(address).await?),
            None => None,
        };
        let (ask, questions) = mpsc::unbounded_channel();
        let news: News = Box::new(move |effect| {
            if let Effect::Ask { connection, document } = effect {
                let _ = ask.send((connection, document));
            }
        });
        let running = Running::start(&environment, &path, limits, news)?;
        let figures = Arc::clone(&running.figures);
        let doorman = Arc::new(Doorman::new(
            options.policy,
            admission.clone(),
            environment.clone(),
            Arc::clone(&figures),
        ));
        tokio::spawn(Arc::clone(&doorman).watch(running.engine.clone(), questions));
        let relay = options.relay.map(|relay| {
            Relay::start(relay, &running, (environment.clone(), path.clone()), limits).map(Arc::new)
        });
        let relay = relay.transpose()?;
        let queries = Queries::start(environment, path, rules)?;
        let address = listener.local_addr()?;
        let places = Arc::new(Semaphore::new(http::CONNECTIONS));
        let site = Arc::new(Site {
            engine: running.engine.clone(),
            queries,
            figures: Arc::clone(&figures),
            limits,
            admin_token,
            origins,
            hosts: options.hosts,
            is_local: http::is_local(address),
            has_own_metrics: metrics_listener.is_some(),
            next_connection: AtomicU64::new(1),
            places: Arc::clone(&places),
            incoming: Arc::new(Semaphore::new(INCOMING_KIB)),
            doorman,
            admission,
            has_rules,
            relay: relay.clone(),
        });
        let (stop, stopped) = watch::channel(false);
        let mut serving = JoinSet::new();
        let mut metrics = None;
        if let Some(listener) = metrics_listener {
            metrics = Some(listener.local_addr()?);
            let router = http::metrics_router(Arc::clone(&site));
            let plain = Serving { router, tls: None, figures: Arc::clone(&figures) };
            serving.spawn(accept::serve(listener, plain, stopped.clone()));
        }
        let whole = Serving { router: http::router(site), tls, figures };
        serving.spawn(accept::serve(listener, whole, stopped));
        Ok(Self { address, metrics, running, relay, stop, places, serving })
    }

    /// The address of the port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the metrics, where they have their own.
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Closes the port, stores pending changes, tells every socket, and closes the database.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        if let Some(relay) = &self.relay {
            relay.stop().await;
        }
        self.running.stop().await;
        let ended = async { while self.serving.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, ended).await;
        self.serving.abort_all();
        // Sockets are tasks of their own since their upgrade: the end of the runtime would cut
        // their last words off.
        let all = u32::try_from(http::CONNECTIONS).unwrap_or(u32::MAX);
        let _ = timeout(FAREWELL, self.places.acquire_many(all)).await;
    }
}
