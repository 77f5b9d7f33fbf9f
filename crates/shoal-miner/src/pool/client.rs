//! A dialogue over sockets: connects, speaks, comes back when the connection breaks.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};

use crate::pool::{Dialogue, Effect, Identity, Limits, LineError, Lines, PoolUrl, Retry};
use crate::source::{Backoff, Order, Source, SourceEvent, chance};

/// How to reach a pool, and who we are there.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The pool's URL.
    pub url: PoolUrl,
    /// Who we are.
    pub identity: Identity,
    /// Times and counts of the dialogue.
    pub limits: Limits,
    /// For each address of the host to take a connection.
    pub connect_timeout: Duration,
    /// For the pool to take a line off us.
    pub write_timeout: Duration,
    /// The first wait after a failed connection; doubled each time.
    pub retry_first: Duration,
    /// The longest wait.
    pub retry_longest: Duration,
    /// The longest wait while the pool is gone for less than [`Self::outage`]: a restart takes
    /// seconds, and shares found meanwhile are worth less every second.
    pub retry_restart: Duration,
    /// See above.
    pub outage: Duration,
    /// A connection of this length, or with an accepted share, was a good one: the
    /// next wait is a first one again.
    pub good_after: Duration,
    /// At the end, how long answers to shares are waited for.
    pub farewell: Duration,
}

impl PoolOptions {
    /// The times of a pool far away.
    pub fn new(url: PoolUrl, identity: Identity) -> Self {
        Self {
            url,
            identity,
            limits: Limits::default(),
            connect_timeout: Duration::from_secs(3),
            write_timeout: Duration::from_secs(10),
            retry_first: Duration::from_millis(250),
            retry_longest: Duration::from_secs(60),
            retry_restart: Duration::from_secs(4),
            outage: Duration::from_secs(120),
            good_after: Duration::from_secs(30),
            farewell: Duration::from_secs(2),
        }
    }
}

/// Starts a client. Ends on request, or when the pool refuses it for good.
pub fn connect(options: PoolOptions) -> Source {
    let (tell, events) = mpsc::channel(EVENTS_MAX);
    let (orders, orders_out) = mpsc::channel(options.limits.waiting.max(1));
    let (finish, finishing) = watch::channel(false);
    let client = Client {
        dialogue: Dialogue::new(options.identity.clone(), options.limits, Instant::now()),
        backoff: Backoff::new(options.retry_first, options.retry_longest),
        gone_since: Instant::now(),
        options,
        tell,
        orders: orders_out,
        finishing,
    };
    let task = tokio::spawn(client.run());
    Source { events, orders, finish, task }
}

struct Client {
    options: PoolOptions,
    dialogue: Dialogue,
    backoff: Backoff,
    /// When the last good connection broke.
    gone_since: Instant,
    tell: mpsc::Sender<SourceEvent>,
    orders: mpsc::Receiver<Order>,
    finishing: watch::Receiver<bool>,
}

/// How a connection, or the wait between two, ended.
enum End {
    /// To be tried again: why, and when.
    Broken(String, Retry),
    /// There is nobody left to work for.
    Over,
}

impl Client {
    async fn run(mut self) {
        loop {
            let begun = Instant::now();
            let (end, spoke) = match self.open().await {
                Ok(stream) => (self.converse(stream).await, true),
                Err(Some(error)) => (broken(format!("cannot connect: {error}")), false),
                Err(None) => (End::Over, false),
            };
            let End::Broken(reason, retry) = end else { return };
            let lost = self.dialogue.disconnected(Instant::now());
            if self.carry_out(lost, None).await.is_some() {
                return;
            }
            if spoke && (begun.elapsed() >= self.options.good_after || self.dialogue.accepted() > 0)
            {
                self.backoff.succeed();
                self.gone_since = Instant::now();
            }
            let retry = match retry {
                Retry::Soon => self.options.retry_first.mul_f64(chance()),
                Retry::After(time) => time,
                Retry::Backoff => {
                    let wait = self.backoff.fail();
                    if self.gone_since.elapsed() < self.options.outage {
                        wait.min(self.options.retry_restart.mul_f64(0.75 + chance() / 2.0))
                    } else {
                        wait
                    }
                }
            };
            if !self.say(SourceEvent::Disconnected { reason, retry }).await {
                return;
            }
            if !self.wait(retry).await {
                return;
            }
        }
    }

    /// A connection to the first address to take one, version 4 first. `None` as the
    /// error at the end.
    async fn open(&mut self) -> Result<TcpStream, Option<io::Error>> {
        let PoolUrl(at) = &self.options.url;
        let host = (at.host.as_str(), at.port);
        let each = self.options.connect_timeout;
        let attempt = async {
            let found = timeout(each, tokio::net::lookup_host(host)).await;
            let mut addresses: Vec<SocketAddr> =
                found.map_err(|_| io::ErrorKind::TimedOut)??.collect();
            addresses.sort_by_key(SocketAddr::is_ipv6);
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            for address in addresses.into_iter().take(ADDRESSES_MAX) {
                match timeout(each, TcpStream::connect(address)).await {
                    Ok(Ok(stream)) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream);
                    }
                    Ok(Err(error)) => last = error,
                    Err(_) => last = io::ErrorKind::TimedOut.into(),
                }
            }
            Err(last)
        };
        tokio::select! {
            stream = attempt => stream.map_err(Some),
            () = finished(&mut self.finishing) => Err(None),
        }
    }

    /// Speaks until the connection breaks or the end comes.
    async fn converse(&mut self, stream: TcpStream) -> End {
        let (reader, mut writer) = stream.into_split();
        let mut lines: Lines<OwnedReadHalf> = Lines::new(reader, LINE_MAX);
        let mut effects = self.dialogue.connected(Instant::now());
        let mut last_wish: Option<Instant> = None;
        let mut more_orders = true;
        loop {
            if let Some(end) = self.carry_out(effects, Some(&mut writer)).await {
                self.hear_the_rest(&mut lines).await;
                return end;
            }
            if last_wish
                .is_some_and(|until| self.dialogue.unsettled() == 0 || Instant::now() >= until)
            {
                let _ = writer.shutdown().await;
                return End::Over;
            }
            let deadline = self.dialogue.next_deadline(Instant::now());
            let deadline = last_wish.map_or(deadline, |until| until.min(deadline));
            effects = tokio::select! {
                line = lines.next() => match line {
                    Ok(Some(line)) => self.dialogue.receive(&line, Instant::now()),
                    Ok(None) => return broken("the pool closed the connection".to_owned()),
                    Err(LineError::Io(error)) => {
                        return broken(format!("the connection broke: {error}"));
                    }
                    Err(error) => return broken(error.to_string()),
                },
                order = self.orders.recv(), if more_orders => match order {
                    Some(order) => self.obey(order),
                    None => {
                        more_orders = false;
                        Vec::new()
                    }
                },
                () = finished(&mut self.finishing), if last_wish.is_none() => {
                    last_wish = Some(Instant::now() + self.options.farewell);
                    self.sell_the_rest()
                }
                () = sleep_until(deadline.into()) => self.dialogue.tick(Instant::now()),
            };
        }
    }

    /// Takes the answers already here before a connection is given up: a pool taking
    /// no more lines may have answered earlier ones.
    async fn hear_the_rest(&mut self, lines: &mut Lines<OwnedReadHalf>) {
        let until = Instant::now() + REST;
        while self.dialogue.due() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(Ok(Some(line))) = timeout(left, lines.next()).await else { return };
            let effects = self.dialogue.receive(&line, Instant::now());
            if self.carry_out(effects, None).await.is_some() {
                return;
            }
        }
    }

    /// Shares found before the end.
    fn sell_the_rest(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Ok(order) = self.orders.try_recv() {
            effects.extend(self.obey(order));
        }
        effects
    }

    fn obey(&mut self, order: Order) -> Vec<Effect> {
        let now = Instant::now();
        match order {
            Order::Sell(share) => self.dialogue.sell(share, now),
            Order::WindowDone(job_id) => {
                self.dialogue.window_done(&job_id, now);
                Vec::new()
            }
        }
    }

    /// Carries out the dialogue's effects. Returns an end, when asked for or when nobody listens.
    async fn carry_out(
        &mut self,
        effects: Vec<Effect>,
        mut writer: Option<&mut OwnedWriteHalf>,
    ) -> Option<End> {
        for effect in effects {
            let event = match effect {
                Effect::Send(line) => {
                    let Some(writer) = writer.as_deref_mut() else { continue };
                    match timeout(self.options.write_timeout, writer.write_all(&line)).await {
                        Ok(Ok(())) => continue,
                        Ok(Err(error)) => {
                            return Some(broken(format!("the connection broke: {error}")));
                        }
                        Err(_) => {
                            return Some(broken("the pool takes no lines off us".to_owned()));
                        }
                    }
                }
                Effect::LoggedIn { protocol, claims } => {
                    let hashes = if claims { "" } else { ", shares without their hash" };
                    let detail = format!("{}, protocol {protocol}{hashes}", self.options.url);
                    SourceEvent::Connected { detail }
                }
                Effect::Task(task) => SourceEvent::Task(task),
                Effect::Verdict { share, verdict } => SourceEvent::Verdict { share, verdict },
                Effect::Notice { kind, message } => SourceEvent::Notice { kind, message },
                Effect::Settled { share, verdict } => SourceEvent::Settled { share, verdict },
                Effect::Pause { reason } => SourceEvent::NoTask { reason },
                Effect::Warning(words) => SourceEvent::Warning(words),
                Effect::Reconnect { reason, retry } => return Some(End::Broken(reason, retry)),
                Effect::Fail(error) => {
                    self.say(SourceEvent::Failed(error)).await;
                    return Some(End::Over);
                }
            };
            if !self.say(event).await {
                return Some(End::Over);
            }
        }
        None
    }

    /// Waits before the next try, and takes orders meanwhile. `false` at the end.
    async fn wait(&mut self, time: Duration) -> bool {
        let wake = sleep(time);
        tokio::pin!(wake);
        let mut more_orders = true;
        loop {
            let effects = tokio::select! {
                () = &mut wake => return true,
                () = finished(&mut self.finishing) => return false,
                order = self.orders.recv(), if more_orders => match order {
                    Some(order) => self.obey(order),
                    None => {
                        more_orders = false;
                        Vec::new()
                    }
                },
                () = sleep(TICK) => self.dialogue.tick(Instant::now()),
            };
            if self.carry_out(effects, None).await.is_some() {
                return false;
            }
        }
    }

    /// `false` when nobody listens any more.
    async fn say(&self, event: SourceEvent) -> bool {
        self.tell.send(event).await.is_ok()
    }
}

/// The end of a failed connection.
fn broken(reason: String) -> End {
    End::Broken(reason, Retry::Backoff)
}

/// Returns when the source is to end, or when nobody is left who could say so.
pub(crate) async fn finished(finishing: &mut watch::Receiver<bool>) {
    // An error: the sender is gone.
    let _ = finishing.wait_for(|&finish| finish).await;
}

/// Far more than a job's line needs.
const LINE_MAX: usize = 64 * 1024;
const EVENTS_MAX: usize = 1024;
const ADDRESSES_MAX: usize = 8;
const TICK: Duration = Duration::from_secs(1);
/// For answers on their way when we hang up.
const REST: Duration = Duration::from_millis(200);
