//! The exchange with JetStream.
//!
//! | in NATS | holds |
//! | --- | --- |
//! | stream NAME, subjects `NAME.change.ID` | changes, one a message; message id: the hash |
//! | stream NAME-snapshots, `NAME.snapshot.ID` | the latest pointer of each document |
//! | bucket NAME | snapshots, each under a name of its own |
//! | `NAME.want.ID`, not kept | a relay lacks changes of the document |
//!
//! The relay's place in the stream is kept in its database and moves after the fsync of the
//! messages before: a message is read again until stored.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, ServerAddr};
use futures_util::{FutureExt, StreamExt, stream as streams};
use shoal::{Access, Database, Environment};
use shoal_history::{Change, ChangeHash};
use shoal_sync::{DocumentId, Fault, Limits};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::desk::{Arrival, Arrivals, Arrived, Feed, Owed};
use super::figures::{Figures, add};
use super::ledger::{Ledger, StreamState};
use super::message::{self, Pointer};
use super::{RelayNews, RelayOptions};
use crate::Error;
use crate::database_thread::AnswerThread;
use crate::engine::{Engine, Input};
use crate::server::Running;
use crate::storage::{Storage, Work};

/// The pauses between attempts double between these.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A session of this age was no failed attempt.
const LASTING: Duration = Duration::from_secs(5);
/// NATS answers a request, and acknowledges a publication, within this time.
const ANSWER: Duration = Duration::from_secs(5);
/// Retention of changes and of their ids, in a stream made by a relay.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const DEDUPE: Duration = Duration::from_secs(120);
/// Messages and bytes taken from a stream at once.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 8 << 20;
/// Documents asked about and published at once.
const ROUND: usize = 64;
/// Bytes beside the payload of a message: subject and headers.
const ENVELOPE: usize = 1 << 10;
/// How often documents open nowhere are looked at.
const SWEEP: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(250);
/// Waiting documents tried at once.
const RETRIES: usize = 8;
/// Snapshots read at once.
pub(super) const READERS: usize = 4;
/// The longest wait for publications at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a session ended.
pub(super) type Why = String;

/// A fault in words, with its place.
pub(super) fn at<E: std::fmt::Display>(place: &'static str) -> impl Fn(E) -> Why {
    move |error| format!("{place}: {error}")
}

/// A relay, running.
pub(crate) struct Relay {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Relay {
    /// Begins to exchange changes, now or as soon as NATS is there. Within a tokio runtime.
    pub(crate) fn start(
        options: RelayOptions,
        running: &Running,
        (environment, path): (Environment, PathBuf),
        limits: Limits,
    ) -> Result<Self, Error> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if options.name.is_empty() || options.name.len() > 64 || !options.name.bytes().all(is_name)
        {
            let why = "a name for NATS has 1 to 64 letters, digits, - and _";
            return Err(Error::Relay(format!("{}: {why}", options.name)));
        }
        let servers = options.url.split(',').map(|url| url.trim().parse::<ServerAddr>());
        let servers = servers.collect::<Result<Vec<_>, _>>().map_err(|_| {
            // The URL may hold a password.
            Error::Relay("not the URL of NATS: nats://[USER:PASSWORD@]HOST[:PORT]".to_owned())
        })?;
        let opening = (environment.clone(), path);
        let reader = AnswerThread::start("relay", move || {
            Database::open(opening.0.clone(), &opening.1, Access::ReadOnly)
        })?;
        running.feed.turn_on();
        let shared = Arc::new(Shared {
            marks: format!("relay:{}:", options.name),
            options,
            servers,
            environment,
            limits,
            engine: running.engine.clone(),
            feed: Arc::clone(&running.feed),
            reader,
            figures: Figures::default(),
            ledger: Mutex::new(Ledger::default()),
            start: Instant::now(),
            snapshot_due: Notify::new(),
            is_publishing: AtomicBool::new(false),
        });
        let (stop, stopped) = watch::channel(false);
        let run = tokio::spawn(Arc::clone(&shared).run(stopped));
        Ok(Self { shared, stop, running: Mutex::new(Some(run)) })
    }

    /// The metrics.
    pub(crate) fn render(&self) -> String {
        let ledger = self.shared.ledger();
        let in_hand = usize::from(self.shared.is_busy());
        self.shared.figures.render(ledger.unpublished().max(in_hand), ledger.waiting())
    }

    /// Publishes stored changes, for a short while, and ends.
    pub(crate) async fn stop(&self) {
        let _ = self.stop.send(true);
        let run = self.running.lock().expect("nobody panics with the handle").take();
        if let Some(run) = run {
            let _ = timeout(2 * FAREWELL, run).await;
        }
    }
}

/// The shared state of a relay's tasks.
pub(super) struct Shared {
    pub(super) options: RelayOptions,
    servers: Vec<ServerAddr>,
    /// How the keys of the marks begin.
    marks: String,
    pub(super) environment: Environment,
    pub(super) limits: Limits,
    engine: Engine,
    feed: Arc<Feed>,
    /// Reads beside the storage's thread: lists, closed documents, snapshots.
    pub(super) reader: AnswerThread<Database>,
    pub(super) figures: Figures,
    ledger: Mutex<Ledger>,
    start: Instant,
    pub(super) snapshot_due: Notify,
    is_publishing: AtomicBool,
}

/// A session with NATS.
pub(super) struct Session {
    client: Client,
    pub(super) context: Context,
    changes: Stream,
    pub(super) pointers: Stream,
    pub(super) objects: ObjectStore,
}

impl Shared {
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody panics with the ledger")
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn subject(&self, kind: &str, document: &str) -> String {
        format!("{}.{kind}.{document}", self.options.name)
    }

    fn prefix(&self, kind: &str) -> String {
        format!("{}.{kind}", self.options.name)
    }

    async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        let mut is_loaded = false;
        let mut is_away = false;
        while !*stopped.borrow() {
            let began = Instant::now();
            let session = async {
                if !is_loaded {
                    self.load().await?;
                    is_loaded = true;
                }
                self.session().await
            };
            let why = tokio::select! {
                ended = session => ended.err().unwrap_or_default(),
                () = self.farewell(stopped.clone()) => break,
            };
            let was_connected = self.figures.is_connected.swap(false, Ordering::Relaxed);
            add(&self.figures.failures, 1);
            if was_connected || !std::mem::replace(&mut is_away, true) {
                (self.options.news)(RelayNews::Away { why });
            }
            if began.elapsed() >= LASTING {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = stopped.changed() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let _ = self.save_marks().await;
    }

    /// True while news are on their way to the ledger or to NATS.
    fn is_busy(&self) -> bool {
        self.is_publishing.load(Ordering::Relaxed) || !self.feed.is_empty()
    }

    /// Waits for the order to stop, then until all is published, for a short while.
    async fn farewell(&self, mut stopped: watch::Receiver<bool>) {
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        let began = Instant::now();
        while self.figures.is_connected.load(Ordering::Relaxed)
            && began.elapsed() < FAREWELL
            && (self.ledger().unpublished() > 0 || self.is_busy())
        {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Reads the marks of earlier runs.
    async fn load(&self) -> Result<(), Why> {
        let beginning = self.marks.clone();
        let marks = self.reader.ask(move |database| database.notes(&beginning)).await;
        let marks = marks.map_err(at("marks"))?.map_err(at("marks"))?;
        *self.ledger() = Ledger::load(&marks, &self.marks);
        Ok(())
    }

    /// Writes the changed marks.
    async fn save_marks(&self) -> Result<(), Why> {
        loop {
            let marks = self.ledger().take_marks(&self.marks);
            if marks.is_empty() {
                return Ok(());
            }
            let (answer, asked) = oneshot::channel();
            let task = Box::new(move |database: &mut Database| {
                let _ = answer.send(database.set_notes(&marks));
            });
            self.engine.send(Input::Work(Work::Task(task))).await.map_err(|_| stopping())?;
            // Unwritten marks cost a second publication.
            asked.await.map_err(|_| stopping())?.map_err(at("marks"))?;
        }
    }

    /// Connects, and exchanges changes until something fails.
    async fn session(&self) -> Result<(), Why> {
        let lost = Arc::new(Notify::new());
        let losing = Arc::clone(&lost);
        let mut options = ConnectOptions::new()
            .name("shoal")
            .no_echo()
            // A dropped client without a connection gives up.
            .max_reconnects(100)
            .connection_timeout(ANSWER)
            .request_timeout(Some(ANSWER))
            .event_callback(move |event| {
                if matches!(event, async_nats::Event::Disconnected | async_nats::Event::Closed) {
                    losing.notify_one();
                }
                std::future::ready(())
            });
        if let Some(authorities) = &self.options.authorities {
            options = options.add_root_certificates(authorities.clone());
        }
        let client = options.connect(&self.servers[..]).await.map_err(at("connecting"))?;
        let session = self.open(client).await?;
        let info = session.changes.cached_info();
        let stream = StreamState {
            made: info.created.unix_timestamp_nanos().to_string(),
            last: info.state.last_sequence,
        };
        let retention = info.config.max_age;
        let first = self.ledger().begin(&stream);
        let documents = self.list().await?;
        self.ledger().sweep(&documents);
        let server = session.client.server_info().server_name;
        self.figures.is_connected.store(true, Ordering::Relaxed);
        (self.options.news)(RelayNews::Connected { server });
        self.feed.news.notify_one();
        let (caught_up, is_caught_up) = watch::channel(false);
        let work = async {
            tokio::try_join!(
                self.read_pointers(&session, caught_up),
                self.read_changes(&session, first, is_caught_up),
                self.publish(&session),
                self.write_snapshots(&session),
                self.look_after(&session, retention),
            )
        };
        tokio::select! {
            ended = work => ended.map(drop),
            () = lost.notified() => Err("the connection ended".to_owned()),
        }
    }

    /// Finds or makes the streams and the bucket.
    async fn open(&self, client: Client) -> Result<Session, Why> {
        let name = &self.options.name;
        let context = jetstream::context::ContextBuilder::new()
            .timeout(ANSWER)
            .ack_timeout(ANSWER)
            .build(client.clone());
        let num_replicas = self.options.replicas;
        let changes = stream::Config {
            name: name.clone(),
            subjects: vec![self.subject("change", "*")],
            max_age: RETENTION,
            duplicate_window: DEDUPE,
            num_replicas,
            ..stream::Config::default()
        };
        let pointers = stream::Config {
            name: format!("{name}-snapshots"),
            subjects: vec![self.subject("snapshot", "*")],
            max_messages_per_subject: 1,
            num_replicas,
            ..stream::Config::default()
        };
        // Existing ones are taken unchanged: their makers have chosen the bounds.
        let changes = context.get_or_create_stream(changes).await.map_err(at("stream"))?;
        let pointers = context.get_or_create_stream(pointers).await.map_err(at("stream"))?;
        let objects = match context.get_object_store(name).await {
            Ok(objects) => objects,
            Err(_) => {
                let bucket = object_store::Config {
                    bucket: name.clone(),
                    num_replicas,
                    ..object_store::Config::default()
                };
                context.create_object_store(bucket).await.map_err(at("object store"))?
            }
        };
        Ok(Session { client, context, changes, pointers, objects })
    }

    /// The stored documents with an id, and their heads.
    async fn list(&self) -> Result<Vec<(DocumentId, Vec<ChangeHash>)>, Why> {
        let listed = self.reader.ask(Database::documents).await;
        let listed = listed.map_err(at("documents"))?.map_err(at("documents"))?;
        let named = listed.into_iter().filter_map(|document| {
            let id = DocumentId::parse(&document.name).ok()?;
            (id.as_str() == document.name).then_some((id, document.heads))
        });
        Ok(named.collect())
    }

    /// Stores arrivals from NATS; outcomes in the order of the arrivals, after the fsync.
    pub(super) async fn store(
        &self,
        all: Vec<Arrival>,
    ) -> Result<Vec<Result<Arrived, Fault>>, Why> {
        let (reply, stored) = oneshot::channel();
        let work = Work::Arrivals(Arrivals { all, reply });
        self.engine.send(Input::Work(work)).await.map_err(|_| stopping())?;
        let stored = stored.await.map_err(|_| stopping())?;
        match stored.iter().any(|outcome| matches!(outcome, Err(Fault::Storage))) {
            true => Err(Fault::Storage.to_string()),
            false => Ok(stored),
        }
    }

    /// Asks the storage about durable state.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Storage) -> T + Send + 'static,
    ) -> Result<T, Why> {
        let (answer, asked) = oneshot::channel();
        let work = Work::Question(Box::new(move |storage| {
            let _ = answer.send(question(storage));
        }));
        self.engine.send(Input::Work(work)).await.map_err(|_| stopping())?;
        asked.await.map_err(|_| stopping())
    }

    /// Reads pointers: present ones first, then new ones.
    async fn read_pointers(
        &self,
        session: &Session,
        caught_up: watch::Sender<bool>,
    ) -> Result<(), Why> {
        let mut reading =
            self.consumer(&session.pointers, DeliverPolicy::LastPerSubject, session).await?;
        let prefix = self.prefix("snapshot");
        loop {
            let mut pointed = Vec::new();
            if reading.pending > 0 || *caught_up.borrow() {
                let batch = reading.batch().await?;
                for (_, message) in &batch {
                    let document = message::document(&message.subject, &prefix);
                    let pointer = Pointer::decode(&message.payload);
                    let (Some(document), Some(pointer)) = (document, pointer) else {
                        self.figures.skip("pointer", 1);
                        continue;
                    };
                    if !self.ledger().points(&document, pointer.clone()) {
                        self.figures.skip("too_many", 1);
                        continue;
                    }
                    pointed.push((document, pointer));
                }
            }
            let mut fetches = streams::iter(pointed)
                .map(|(document, pointer)| self.follow(session, document, pointer))
                .buffer_unordered(READERS);
            while let Some(fetched) = fetches.next().await {
                fetched?;
            }
            if reading.pending == 0 {
                let _ = caught_up.send(true);
            }
        }
    }

    /// Reads changes from a sequence on, once the snapshots of now are read.
    async fn read_changes(
        &self,
        session: &Session,
        first: u64,
        mut is_caught_up: watch::Receiver<bool>,
    ) -> Result<(), Why> {
        is_caught_up.wait_for(|is| *is).await.map_err(|_| stopping())?;
        let policy = DeliverPolicy::ByStartSequence { start_sequence: first };
        let mut reading = self.consumer(&session.changes, policy, session).await?;
        let prefix = self.prefix("change");
        loop {
            let batch = reading.batch().await?;
            let mut by_document: BTreeMap<DocumentId, Vec<Change>> = BTreeMap::new();
            let mut last = 0;
            for (sequence, message) in batch {
                last = sequence;
                let document = message::document(&message.subject, &prefix);
                let change = message::change(&message.payload);
                let (Some(document), Some(change)) = (document, change) else {
                    self.figures.skip("damaged", 1);
                    continue;
                };
                if self.ledger().is_echo(&change.hash()) {
                    add(&self.figures.known, 1);
                    continue;
                }
                by_document.entry(document).or_default().push(change);
            }
            self.take_in(by_document).await?;
            self.ledger().moved(last);
        }
    }

    /// Stores changes. After a refused change, the changes of its document are tried one by one.
    async fn take_in(&self, by_document: BTreeMap<DocumentId, Vec<Change>>) -> Result<(), Why> {
        let mut groups: Vec<(DocumentId, Vec<Change>)> = by_document.into_iter().collect();
        while !groups.is_empty() {
            let arrivals = groups.iter().map(|(document, changes)| Arrival {
                document: document.clone(),
                chunks: changes.iter().flat_map(|change| change.raw_bytes().to_vec()).collect(),
                hashes: changes.iter().map(Change::hash).collect(),
            });
            let outcomes = self.store(arrivals.collect()).await?;
            let mut alone = Vec::new();
            for ((document, changes), outcome) in groups.into_iter().zip(outcomes) {
                match outcome {
                    Ok(arrived) => self.note_arrived(&document, &changes, &arrived),
                    Err(Fault::Changes) if changes.len() > 1 => {
                        alone.extend(changes.into_iter().map(|it| (document.clone(), vec![it])));
                    }
                    Err(fault) => {
                        self.figures.skip(fault.word(), changes.len());
                        if fault != Fault::Denied {
                            self.ledger().wait(&document, self.now_ms());
                        }
                    }
                }
            }
            groups = alone;
        }
        Ok(())
    }

    fn note_arrived(&self, document: &DocumentId, changes: &[Change], arrived: &Arrived) {
        add(&self.figures.received, arrived.stored);
        let present = changes.len() - arrived.missing.len();
        add(&self.figures.known, present.saturating_sub(arrived.stored));
        let now_ms = self.now_ms();
        let mut ledger = self.ledger();
        for change in changes {
            if arrived.missing.contains(&change.hash()) {
                ledger.wait(document, now_ms);
            } else {
                ledger.received(document, change.hash(), change.deps());
            }
        }
        drop(ledger);
        // The next round finds out whether the received heads are all of the document.
        self.feed.news.notify_one();
    }

    /// Publishes the changes of documents with news.
    async fn publish(&self, session: &Session) -> Result<(), Why> {
        loop {
            let fresh = self.feed.take();
            self.ledger().mark(fresh);
            let dirty = self.ledger().take_dirty(ROUND);
            if dirty.is_empty() {
                self.feed.news.notified().await;
                continue;
            }
            self.is_publishing.store(true, Ordering::Relaxed);
            let sent = self.publish_round(session, &dirty).await;
            self.is_publishing.store(false, Ordering::Relaxed);
            if sent.is_err() {
                self.ledger().mark(dirty.into_iter().map(|(document, _)| document));
            }
            sent?;
        }
    }

    async fn publish_round(
        &self,
        session: &Session,
        dirty: &[(DocumentId, Vec<ChangeHash>)],
    ) -> Result<(), Why> {
        let message_max = session.client.max_payload().saturating_sub(ENVELOPE);
        let denied = self.reader.ask(Database::denied).await;
        let denied = denied.map_err(at("documents"))?.map_err(at("documents"))?;
        let asked: Vec<_> = dirty.to_vec();
        let open = self.ask(move |storage| {
            let owed = asked.iter().map(|(id, published)| storage.owed(id, published, message_max));
            owed.collect::<Vec<_>>()
        });
        let open = open.await?;
        let mut done = Vec::new();
        let mut acks = Vec::new();
        for ((document, published), owed) in dirty.iter().zip(open) {
            if denied.iter().any(|name| name == document.as_str()) {
                continue;
            }
            let owed = match owed {
                Some(owed) => Some(owed),
                None => self.owed_of_closed(document, published, message_max).await?,
            };
            let (heads, changes) = match owed {
                None => continue,
                Some(Owed::Whole) => {
                    self.ledger().want_snapshot(document.clone());
                    self.snapshot_due.notify_one();
                    continue;
                }
                Some(Owed::Changes(heads, changes)) => (heads, changes),
            };
            let mut bytes = 0;
            for change in &changes {
                self.ledger().sent(change.hash());
                let payload = change.bytes().into_owned();
                bytes += payload.len();
                let message = PublishMessage::build()
                    .payload(payload.into())
                    .message_id(shoal_stdx::hex::encode(&change.hash().0));
                let subject = self.subject("change", document.as_str());
                let sending = session.context.send_publish(subject, message);
                acks.push(sending.await.map_err(at("publishing"))?);
                if acks.len() >= BATCH {
                    self.acknowledged(&mut acks).await?;
                }
            }
            done.push((document, heads, (changes.len(), bytes)));
        }
        self.acknowledged(&mut acks).await?;
        let mut ledger = self.ledger();
        for (document, heads, sent) in done {
            ledger.published(document, &heads, sent);
            // A document left alone, and brought back by a peer, lacks changes of others.
            if ledger.is_uncovered(document) {
                ledger.wait(document, self.now_ms());
            }
        }
        drop(ledger);
        self.snapshot_due.notify_one();
        Ok(())
    }

    async fn acknowledged(
        &self,
        acks: &mut Vec<async_nats::jetstream::context::PublishAckFuture>,
    ) -> Result<(), Why> {
        for ack in acks.drain(..) {
            let ack = ack.await.map_err(at("publishing"))?;
            add(&self.figures.published, 1);
            add(&self.figures.duplicates, usize::from(ack.duplicate));
        }
        Ok(())
    }

    /// As [`Storage::owed`], of a closed document read from the file; `None` for an absent one.
    async fn owed_of_closed(
        &self,
        document: &DocumentId,
        published: &[ChangeHash],
        message_max: usize,
    ) -> Result<Option<Owed>, Why> {
        let (name, published) = (document.to_string(), published.to_vec());
        let read = self.reader.ask(move |database| match database.open_document(&name) {
            Ok(open) => Ok(Some(Owed::of(&open, &published, message_max))),
            Err(shoal::Error::NoDocument { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        match read.await.map_err(at("documents"))? {
            Ok(owed) => Ok(owed),
            // An unreadable document hinders no other.
            Err(_) => {
                self.figures.skip(Fault::Unreadable.word(), 1);
                Ok(None)
            }
        }
    }

    /// Marks, sweeps, waiting documents, and wants of other relays.
    async fn look_after(&self, session: &Session, retention: Duration) -> Result<(), Why> {
        let wants = session.client.subscribe(self.subject("want", "*")).await;
        let mut wants = wants.map_err(at("subscribing"))?;
        let prefix = self.prefix("want");
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        let mut swept = Instant::now();
        let mut pause = SWEEP;
        let retention = if retention.is_zero() { RETENTION } else { retention };
        // Relays in step would all write the same snapshots.
        let mut random = [0; 1];
        self.environment.fill(&mut random);
        let aging = retention / 4 + retention.mul_f64(f64::from(random[0]) / 2048.0);
        let mut aged = Instant::now();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                want = wants.next() => {
                    let want = want.ok_or_else(|| "the subscription ended".to_owned())?;
                    match message::document(&want.subject, &prefix) {
                        Some(document) => {
                            let mut ledger = self.ledger();
                            if ledger.knows(&document) {
                                ledger.want_snapshot(document);
                                self.snapshot_due.notify_one();
                            }
                        }
                        None => self.figures.skip("damaged", 1),
                    }
                    continue;
                }
            }
            self.save_marks().await?;
            let due = self.ledger().due(self.now_ms(), RETRIES);
            for document in due {
                self.retry(session, document).await?;
            }
            if swept.elapsed() >= pause {
                let began = Instant::now();
                let mut version = std::mem::take(&mut seen);
                let looked = self.reader.ask(move |database| {
                    let has_news = database.has_changed(&mut version);
                    (version, has_news)
                });
                let (version, has_news) = looked.await.map_err(at("documents"))?;
                seen = version;
                let is_aging = aged.elapsed() >= aging;
                if has_news.map_err(at("documents"))? || is_aging {
                    let documents = self.list().await?;
                    self.ledger().sweep(&documents);
                    self.feed.news.notify_one();
                    if is_aging {
                        aged = Instant::now();
                        self.ledger().age(&documents);
                        self.snapshot_due.notify_one();
                    }
                }
                // A long list is made seldom.
                pause = SWEEP.max(began.elapsed() * 20);
                swept = Instant::now();
            }
        }
    }

    /// Tries again to find the missing changes of a document.
    async fn retry(&self, session: &Session, document: DocumentId) -> Result<(), Why> {
        let pointer = self.ledger().pointer(&document);
        let is_covered = match pointer {
            Some(pointer) => self.follow(session, document.clone(), pointer).await?,
            None => true,
        };
        let id = document.clone();
        let lacks = match self.ask(move |storage| storage.lacks(&id)).await? {
            Some(lacks) => lacks,
            None => {
                let name = document.to_string();
                let read = self.reader.ask(move |database| {
                    let open = database.open_document(&name);
                    open.is_ok_and(|open| !open.queued_changes().is_empty())
                });
                read.await.map_err(at("documents"))?
            }
        };
        if is_covered && !lacks {
            self.ledger().whole(&document);
            return Ok(());
        }
        let subject = self.subject("want", document.as_str());
        session.client.publish(subject, Vec::new().into()).await.map_err(at("asking"))
    }

    async fn consumer(
        &self,
        stream: &Stream,
        deliver_policy: DeliverPolicy,
        session: &Session,
    ) -> Result<Reading, Why> {
        let consumer = stream.create_consumer(pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            inactive_threshold: Duration::from_secs(60),
            num_replicas: 1,
            memory_storage: true,
            // The newest of each subject is asked for by a filter only.
            filter_subject: stream
                .cached_info()
                .config
                .subjects
                .first()
                .cloned()
                .unwrap_or_default(),
            ..pull::Config::default()
        });
        let consumer = consumer.await.map_err(at("consumer"))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(BATCH)
            .max_bytes_per_batch(BATCH_BYTES.max(2 * session.client.max_payload()))
            .expires(Duration::from_secs(10))
            .heartbeat(Duration::from_secs(2))
            .messages();
        let pending = consumer.cached_info().num_pending;
        Ok(Reading { messages: messages.await.map_err(at("consumer"))?, next: 1, pending })
    }
}

/// Messages of a stream, in their order, without gaps.
struct Reading {
    messages: pull::Stream,
    /// The number of the next delivery.
    next: u64,
    /// Messages behind the last delivery, by the words of NATS.
    pending: u64,
}

impl Reading {
    /// Waits for messages; gives the present ones, with their sequences.
    async fn batch(&mut self) -> Result<Vec<(u64, jetstream::Message)>, Why> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let next = match batch.is_empty() {
                true => self.messages.next().await,
                false => match self.messages.next().now_or_never() {
                    Some(next) => next,
                    None => break,
                },
            };
            let message = next.ok_or_else(|| "the stream ended".to_owned())?;
            let message = message.map_err(at("reading"))?;
            let info = message.info().map_err(at("reading"))?;
            if info.consumer_sequence != self.next {
                return Err("a message of the stream did not arrive".to_owned());
            }
            self.next += 1;
            self.pending = info.pending;
            bytes += message.payload.len();
            let sequence = info.stream_sequence;
            batch.push((sequence, message));
        }
        Ok(batch)
    }
}

fn stopping() -> Why {
    "the server is stopping".to_owned()
}
