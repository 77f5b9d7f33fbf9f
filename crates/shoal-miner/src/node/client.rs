//! Works for a node: asks for templates, hands nonces in, listens to events.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt;
use hyper::Method;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};

use crate::node::events::{NodeEvent, Parser};
use crate::node::http::{Api, NodeUrl, Opened, Question, Token, UNAUTHORIZED};
use crate::node::submitter::{Found, Submitter};
use crate::node::template::Template;
use crate::pool::finished;
use crate::source::{
    Backoff, Order, Share, Source, SourceError, SourceEvent, Task, Verdict, random_u64,
};
use crate::work::Handover;

/// How to reach a node, and who is paid.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The node's URL.
    pub url: NodeUrl,
    /// The node's token.
    pub token: Token,
    /// Who is paid; without one, the node's own wallet.
    pub address: Option<String>,
    /// How often a template is asked for again.
    pub refresh: Duration,
    /// For a request.
    pub request_timeout: Duration,
    /// `true` to listen to events.
    pub events: bool,
    /// After so much silence the stream of events is opened again.
    pub events_idle: Duration,
    /// The first wait after a failed request; doubled each time.
    pub retry_first: Duration,
    /// The longest wait.
    pub retry_longest: Duration,
    /// How often a solution is handed in at most.
    pub attempts: u32,
    /// At the end, how long solutions may still take to be handed in.
    pub farewell: Duration,
}

impl NodeOptions {
    /// The times of a node on this machine.
    pub fn new(url: NodeUrl, token: Token) -> Self {
        Self {
            url,
            token,
            address: None,
            refresh: Duration::from_secs(20),
            request_timeout: Duration::from_secs(10),
            events: true,
            events_idle: Duration::from_secs(90),
            retry_first: Duration::from_millis(500),
            retry_longest: Duration::from_secs(30),
            attempts: 8,
            farewell: Duration::from_secs(2),
        }
    }
}

/// Starts a client. Ends on request, or when the node refuses it for good.
pub fn connect(options: NodeOptions) -> Source {
    let (tell, events) = mpsc::channel(EVENTS_MAX);
    let (orders, orders_out) = mpsc::channel(ORDERS_MAX);
    let (finish, finishing) = watch::channel(false);
    let api = Api::new(options.url.clone(), options.token.clone(), options.request_timeout);
    let client = Client {
        backoff: Backoff::new(options.retry_first, options.retry_longest),
        api,
        options,
        tell,
        orders: orders_out,
        current: None,
        templates: Vec::new(),
        connected: false,
    };
    let task = tokio::spawn(client.run(finishing));
    Source { events, orders, finish, task }
}

struct Client {
    options: NodeOptions,
    api: Api,
    backoff: Backoff,
    tell: mpsc::Sender<SourceEvent>,
    orders: mpsc::Receiver<Order>,
    current: Option<Current>,
    /// Templates of possible solutions, newest last, with the name of their task.
    templates: Vec<(String, Template)>,
    connected: bool,
}

struct Current {
    task: Arc<Task>,
    fetched: Instant,
    /// When half of the lease is over.
    renew: Option<Instant>,
}

/// There is nobody left to work for, or no way on.
struct Over;

impl Client {
    async fn run(mut self, mut finishing: watch::Receiver<bool>) {
        let (heard, mut events) = mpsc::channel(EVENTS_MAX);
        let listener = self.options.events.then(|| {
            let mut api = Api::new(self.api.url.clone(), self.api.token.clone(), self.api.timeout);
            let options = self.options.clone();
            tokio::spawn(async move { listen(&mut api, &options, &heard).await })
        });
        let (found, found_out) = mpsc::channel(ORDERS_MAX);
        let (handed_in, mut handed_in_out) = mpsc::channel(1);
        let submitter = Submitter::new(self.options.clone(), self.tell.clone(), handed_in);
        let mut submitter = tokio::spawn(submitter.run(found_out));
        tokio::select! {
            biased;
            () = finished(&mut finishing) => {
                // Solutions found before the end are still worth a block.
                while let Ok(order) = self.orders.try_recv() {
                    if let Order::Sell(share) = order {
                        let _ = self.pass_on(&found, share).await;
                    }
                }
            }
            Over = self.work(&mut events, &found, &mut handed_in_out) => {}
        }
        // Without anybody who finds, the submitter ends after the last block.
        drop(found);
        if timeout(self.options.farewell, &mut submitter).await.is_err() {
            submitter.abort();
        }
        if let Some(listener) = listener {
            listener.abort();
        }
    }

    async fn work(
        &mut self,
        events: &mut mpsc::Receiver<NodeEvent>,
        found: &mpsc::Sender<Found>,
        handed_in: &mut mpsc::Receiver<()>,
    ) -> Over {
        let mut listening = true;
        let mut wanted = Instant::now();
        loop {
            let renew = self.current.as_ref().and_then(|current| current.renew);
            let due = renew.map_or(wanted, |at| at.min(wanted));
            let order = tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => order,
                    None => return Over,
                },
                event = events.recv(), if listening => {
                    match event {
                        Some(event) => if self.outdates(&event) { wanted = Instant::now(); },
                        None => listening = false,
                    }
                    continue;
                }
                Some(()) = handed_in.recv() => {
                    // Accepted or refused, the work under way is not worth going on with.
                    wanted = Instant::now();
                    continue;
                }
                () = sleep_until(due.into()) => {
                    let now = Instant::now();
                    if wanted <= now {
                        match self.fetch().await {
                            Ok(wait) => wanted = Instant::now() + wait,
                            Err(over) => return over,
                        }
                    } else if self.renew().await.is_err() {
                        wanted = now;
                    }
                    continue;
                }
            };
            match order {
                Order::Sell(share) => {
                    if self.pass_on(found, share).await.is_err() {
                        return Over;
                    }
                }
                Order::WindowDone(id) => {
                    if self.current.as_ref().is_some_and(|current| current.task.id == id) {
                        wanted = Instant::now();
                    }
                }
            }
        }
    }

    /// Gives a solution to the submitter.
    async fn pass_on(&mut self, found: &mpsc::Sender<Found>, share: Share) -> Result<(), ()> {
        let template = self.templates.iter().find(|(task, _)| *task == share.task.id);
        let template = template.map(|(_, template)| template.clone());
        let Err(error) = found.try_send(Found { share, template }) else { return Ok(()) };
        let share = error.into_inner().share;
        let verdict = Verdict::Lost { reason: "too many blocks wait" };
        self.say(SourceEvent::Verdict { share, verdict }).await
    }

    /// `true` for an event with the need of another template.
    fn outdates(&self, event: &NodeEvent) -> bool {
        let NodeEvent::NewBlock { height } = *event else { return false };
        // A block below the present height is old news; both events about our own block are
        // one.
        self.current.as_ref().is_none_or(|current| height >= current.task.height)
    }

    /// Asks for a template and tells the task. Returns the time until the next refresh, or
    /// until the next try.
    async fn fetch(&mut self) -> Result<Duration, Over> {
        let target = match &self.options.address {
            Some(address) => format!("/api/mining/blocktemplate?address={}", escaped(address)),
            None => "/api/mining/blocktemplate".to_owned(),
        };
        let question =
            Question { method: Method::GET, target: &target, body: None, request_id: None };
        let answer = match self.api.ask(&question).await {
            Ok(answer) => answer,
            Err(error) => return self.failed(error.to_string(), None).await,
        };
        match answer.status {
            200 => {}
            UNAUTHORIZED => {
                let words = format!("{}; {}", answer.words(), self.options.token.advice());
                if matches!(self.options.token, Token::Cookie(_)) {
                    self.api.forget_token();
                    return self.failed(words, None).await;
                }
                let error = SourceError::NodeRefused(words);
                let _ = self.say(SourceEvent::Failed(error)).await;
                return Err(Over);
            }
            503 if answer.words().contains("no wallet") && self.options.address.is_none() => {
                let words = format!("{}; {NO_WALLET}", answer.words());
                return self.failed(words, answer.retry_after).await;
            }
            400 | 403 | 404 => {
                let error = SourceError::NodeRefused(answer.words());
                let _ = self.say(SourceEvent::Failed(error)).await;
                return Err(Over);
            }
            _ => return self.failed(answer.words(), answer.retry_after).await,
        }
        let template = match Template::read(&answer.body) {
            Ok(template) => template,
            Err(error) => return self.failed(error.to_string(), None).await,
        };
        self.backoff.succeed();
        if !self.connected {
            self.connected = true;
            let detail = self.options.url.to_string();
            self.say(SourceEvent::Connected { detail }).await.map_err(|()| Over)?;
        }
        self.take(template).await?;
        Ok(self.options.refresh)
    }

    async fn take(&mut self, template: Template) -> Result<(), Over> {
        let before = self.current.as_ref().map(|current| current.task.height);
        // Nonces begin anywhere, so two miners of one node do not try the same.
        let first = random_u64().unwrap_or_default() >> 2;
        let task = Arc::new(Task {
            // The node may give the same template again; a task has a name of its own.
            id: format!("{}/{:x}", template.name(), first),
            header: template.header.clone(),
            target: template.target,
            network_target: Some(template.target),
            nonces: first..NONCES_END,
            height: template.height,
            difficulty: template.difficulty,
            // A hash for the same height may still be a block; for another, nothing.
            handover: if before == Some(template.height) {
                Handover::Finish
            } else {
                Handover::Abandon
            },
        });
        self.templates.push((task.id.clone(), template.clone()));
        if self.templates.len() > TEMPLATES_MAX {
            self.templates.remove(0);
        }
        self.current = Some(Current {
            task: Arc::clone(&task),
            fetched: Instant::now(),
            renew: renewal(&template, Instant::now()),
        });
        self.say(SourceEvent::Task(task)).await.map_err(|()| Over)
    }

    /// Keeps the template from being forgotten. An error when the node refused.
    async fn renew(&mut self) -> Result<(), ()> {
        let Some(current) = &self.current else { return Err(()) };
        let found = self.templates.iter().find(|(task, _)| *task == current.task.id);
        let Some(id) = found.and_then(|(_, template)| template.id()) else { return Err(()) };
        let body = Some(serde_json::json!({ "template_id": id }));
        let target = "/api/mining/renewtemplate";
        let question = Question { method: Method::POST, target, body, request_id: None };
        let answer = self.api.ask(&question).await.map_err(drop)?;
        if answer.status != 200 {
            return Err(());
        }
        let value: serde_json::Value = serde_json::from_slice(&answer.body).map_err(drop)?;
        let expires = value["template_expires_at_unix_ms"].as_u64();
        let now = Instant::now();
        if let Some(current) = &mut self.current {
            current.renew = half_of(expires, now);
        }
        Ok(())
    }

    /// The node is not there, or not ready. Tells how long to wait.
    async fn failed(
        &mut self,
        reason: String,
        retry_after: Option<Duration>,
    ) -> Result<Duration, Over> {
        let mut retry = self.backoff.fail();
        if let Some(asked) = retry_after {
            retry = retry.max(asked.min(RETRY_AFTER_MAX));
        }
        // Solutions found meanwhile may still be handed in; new work on an old template is not
        // worth beginning for long.
        let old = self.current.as_ref().is_some_and(|current| {
            current.fetched.elapsed() > self.options.refresh.saturating_mul(STALE_REFRESHES)
        });
        if old {
            self.current = None;
            let reason = "the node gives no new template".to_owned();
            self.say(SourceEvent::NoTask { reason }).await.map_err(|()| Over)?;
        }
        self.connected = false;
        self.say(SourceEvent::Disconnected { reason, retry }).await.map_err(|()| Over)?;
        Ok(retry)
    }

    async fn say(&self, event: SourceEvent) -> Result<(), ()> {
        self.tell.send(event).await.map_err(drop)
    }
}

/// When half of a template's lease is over.
fn renewal(template: &Template, now: Instant) -> Option<Instant> {
    template.id()?;
    half_of(template.expires_unix_ms, now)
}

fn half_of(expires_unix_ms: Option<u64>, now: Instant) -> Option<Instant> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let left = Duration::from_millis(expires_unix_ms?).checked_sub(since)?;
    // A clock off by years must not cause a wait of years.
    now.checked_add((left / 2).clamp(RENEW_SOONEST, RENEW_LATEST))
}

/// Listens to events for as long as somebody wants to hear them.
async fn listen(api: &mut Api, options: &NodeOptions, tell: &mpsc::Sender<NodeEvent>) {
    let mut backoff = Backoff::new(EVENTS_RETRY_FIRST, EVENTS_RETRY_LONGEST);
    loop {
        let begun = Instant::now();
        // A node without events answers 404, and is asked for templates often enough.
        let goes_on = hear(api, options, tell).await;
        if !goes_on || tell.is_closed() {
            return;
        }
        if begun.elapsed() >= EVENTS_GOOD_AFTER {
            backoff.succeed();
        }
        sleep(backoff.fail()).await;
    }
}

/// One stream of events. `false` when there will not be another.
async fn hear(api: &mut Api, options: &NodeOptions, tell: &mpsc::Sender<NodeEvent>) -> bool {
    let question =
        Question { method: Method::GET, target: "/api/events", body: None, request_id: None };
    let Ok(Ok(opened)) = timeout(options.request_timeout, api.open(&question)).await else {
        api.forget_token();
        return true;
    };
    let Opened { response, connection: _connection } = opened;
    match response.status().as_u16() {
        200 => {}
        404 => return false,
        _ => {
            api.forget_token();
            return true;
        }
    }
    let mut body = response.into_body();
    let mut parser = Parser::default();
    while let Ok(Some(Ok(frame))) = timeout(options.events_idle, body.frame()).await {
        let Some(bytes) = frame.data_ref() else { continue };
        for event in parser.feed(bytes) {
            if tell.send(event).await.is_err() {
                return false;
            }
        }
    }
    true
}

/// A text as a value in a query: everything but letters, digits and `-._~` as `%XX`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            shoal_stdx::hex::encode_into(&[byte], &mut out);
        }
    }
    out
}

const EVENTS_MAX: usize = 256;
const ORDERS_MAX: usize = 4096;
const TEMPLATES_MAX: usize = 64;
const NONCES_END: u64 = 1 << 63;
const STALE_REFRESHES: u32 = 15;
const NO_WALLET: &str = "the node does not know who is paid: load its wallet, or say --address";
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
const EVENTS_RETRY_FIRST: Duration = Duration::from_millis(100);
const EVENTS_RETRY_LONGEST: Duration = Duration::from_secs(10);
const EVENTS_GOOD_AFTER: Duration = Duration::from_secs(10);
const RENEW_SOONEST: Duration = Duration::from_secs(1);
const RENEW_LATEST: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("aZ9-._~"), "aZ9-._~");
        assert_eq!(escaped("a b&c=é"), "a%20b%26c%3d%c3%a9");
    }

    #[test]
    fn leases_are_renewed_at_half_time() {
        let now = Instant::now();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let due = |left_ms: u64| half_of(Some(unix + left_ms), now).map(|at| at - now);
        let half = due(600_000).unwrap().as_secs_f64();
        assert!((299.0..=300.0).contains(&half), "{half}");
        assert_eq!(due(u64::MAX - unix), Some(RENEW_LATEST));
        assert_eq!(half_of(Some(5), now), None);
        assert_eq!(half_of(None, now), None);
    }
}
