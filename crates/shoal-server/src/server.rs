//! The server: threads started, the port opened, all of it stopped again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::serve::ListenerExt;
use shoal::{Access, Database, Environment};
use shoal_sync::{Config, Event, Hub, Limits, Metadata};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Error;
use crate::engine::{self, Engine, Input, News, TICK};
use crate::http::{self, Site};
use crate::queries::Queries;
use crate::storage::{Figures, Storage};

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
    /// The bounds of peers.
    pub limits: Limits,
}

/// The engine and the storage of a process, running.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) figures: Arc<Figures>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Opens a database, and starts the threads over it.
    pub(crate) fn start(
        environment: &Environment,
        path: &std::path::Path,
        limits: Limits,
        news: News,
    ) -> Result<Self, Error> {
        let mut database = Database::open(environment.clone(), path, Access::Create)?;
        let id = uuid(database.storage_id()?);
        use_log(&mut database);
        let figures = Arc::new(Figures::default());
        let (engine, inputs) = Engine::channel();
        let (work, jobs) = mpsc::channel();
        let storage = Storage::new(
            (environment.clone(), path.to_owned()),
            database,
            limits,
            Arc::clone(&figures),
        );
        let tell = engine.clone();
        let storing = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || storage.run(&jobs, &|event| tell.send_blocking(event)))?;
        let metadata = Metadata { storage_id: Some(id.clone()), is_ephemeral: false };
        let hub = Hub::new(Config { peer_id: format!("shoal-{id}"), metadata, limits });
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
        Ok(Self { engine, figures, threads: vec![thinking, storing] })
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
    running: Running,
    stop: watch::Sender<bool>,
    places: Arc<Semaphore>,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Opens the database and the port. Within a tokio runtime.
    ///
    /// # Errors
    /// When either cannot be opened.
    pub async fn start(options: ServeOptions) -> Result<Self, Error> {
        let ServeOptions { environment, path, listen, admin_token, origins, limits } = options;
        let running = Running::start(&environment, &path, limits, Box::new(|_| {}))?;
        let queries = Queries::start(environment, path)?;
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let places = Arc::new(Semaphore::new(http::CONNECTIONS));
        let site = Arc::new(Site {
            engine: running.engine.clone(),
            queries,
            figures: Arc::clone(&running.figures),
            limits,
            admin_token,
            origins,
            is_local: http::is_local(address),
            next_connection: AtomicU64::new(1),
            places: Arc::clone(&places),
        });
        let router = http::router(site);
        let (stop, mut stopped) = watch::channel(false);
        // Small messages, each of them waited for.
        let listener = listener.tap_io(|socket| {
            let _ = socket.set_nodelay(true);
        });
        let serving = tokio::spawn(async move {
            let ended = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let _ = axum::serve(listener, router).with_graceful_shutdown(ended).await;
        });
        Ok(Self { address, running, stop, places, serving })
    }

    /// The address of the port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port, stores pending changes, tells every socket, and closes the database.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        self.running.stop().await;
        if timeout(FAREWELL, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        // Sockets are tasks of their own since their upgrade: the end of the runtime would cut
        // their last words off.
        let all = u32::try_from(http::CONNECTIONS).unwrap_or(u32::MAX);
        let _ = timeout(FAREWELL, self.places.acquire_many(all)).await;
    }
}
