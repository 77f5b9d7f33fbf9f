//! One WebSocket, of whichever end: frames to the engine, and from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use shoal_sync::{Access, ConnectionId, Event, Fault, Role};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::engine::{Control, Engine, Input, Outgoing, Outlet};
use crate::wire::{Meter, Wire};

/// A silent peer is pinged after this time.
const PING: Duration = Duration::from_secs(10);
/// A peer silent for this time is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// A closing socket has this time for its queue.
const FAREWELL: Duration = Duration::from_secs(2);
/// The engine hears of sent bytes at least this often.
const SENT_STEP: usize = 256 << 10;
/// The engine hears of a slow reader's progress after this time.
const PROGRESS: Duration = Duration::from_secs(2);
/// Bytes of a message under way that come within [`PING`], at the least.
const SLOWEST: u64 = 16 << 10;

/// A peer: its connection, the end that dialled, its rights.
pub(crate) struct Peer {
    pub(crate) connection: ConnectionId,
    pub(crate) role: Role,
    pub(crate) access: Access,
    /// Why it has to go as soon as it has been answered.
    pub(crate) refusal: Option<Fault>,
}

/// The last word to a socket, and its end.
pub(crate) async fn close<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<T>,
    code: u16,
    reason: String,
) {
    let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
    let _ = timeout(FAREWELL, socket.send(Message::Close(Some(frame)))).await;
}

/// Runs a socket until either end closes it; calls `entered` once the engine knows it. True where
/// the other end said that it closes.
pub(crate) async fn run<T>(
    engine: Engine,
    peer: Peer,
    mut socket: WebSocketStream<Wire<T>>,
    meter: Arc<Meter>,
    entered: impl FnOnce(),
) -> bool
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Peer { connection, role, access, refusal } = peer;
    let (frames, mut outgoing) = mpsc::unbounded_channel();
    let (control, mut controlled) = watch::channel(Control::default());
    let outlet = Outlet { frames, control };
    let connected = Input::Connected { connection, role, access, outlet };
    if engine.send(connected).await.is_err() {
        return false;
    }
    entered();
    if let Some(fault) = refusal
        && engine.send(Input::Event(Event::Refuse { connection, fault })).await.is_err()
    {
        return false;
    }
    let mut heard = Instant::now();
    let mut read = 0;
    let mut pings = interval_at(heard + PING, PING);
    let mut is_paused = false;
    let mut is_controlled = true;
    let mut is_closed = false;
    // A reader that failed gives the end next, which would pass for the peer's own: the engine's
    // last word comes first.
    let mut has_failed = false;
    loop {
        tokio::select! {
            message = socket.next(), if !is_paused && !has_failed => {
                heard = Instant::now();
                let sent = match message {
                    Some(Ok(Message::Binary(bytes))) => {
                        engine.send_frame(connection, bytes.into()).await
                    }
                    Some(Ok(Message::Text(_))) => {
                        let bad = Event::Bad { connection, fault: Fault::NotBinary };
                        engine.send(Input::Event(bad)).await
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                    Some(Err(_)) if let Some(fault) = meter.take_fault() => {
                        has_failed = true;
                        engine.send(Input::Event(Event::Bad { connection, fault })).await
                    }
                    Some(Ok(Message::Close(_))) => {
                        is_closed = true;
                        break;
                    }
                    Some(Err(_)) | None => break,
                };
                if sent.is_err() {
                    break;
                }
            }
            next = outgoing.recv() => {
                let Some(next) = next else { break };
                // The first frame is the answer to a join, or the end.
                meter.has_joined.store(true, Ordering::Relaxed);
                let sent = send(&engine, connection, &mut socket, next, &mut outgoing);
                let written = (&engine, connection, &meter.written);
                if !until_closing(sent, written, controlled.clone()).await {
                    break;
                }
                // Nobody listened meanwhile: a peer that took the bytes was not silent.
                heard = Instant::now();
            }
            changed = controlled.changed(), if is_controlled => {
                if changed.is_err() {
                    // The engine has let go. Its last words may still be queued, and the queue
                    // has an end of its own.
                    is_controlled = false;
                    continue;
                }
                let control = *controlled.borrow_and_update();
                // A paused peer is not heard, and not silent.
                heard = Instant::now();
                is_paused = control.is_paused;
            }
            _ = pings.tick() => {
                let before = std::mem::replace(&mut read, meter.read.load(Ordering::Relaxed));
                if read > before || meter.is_waiting.load(Ordering::Relaxed) {
                    heard = Instant::now();
                }
                let is_slow = read - before < SLOWEST
                    && meter.is_within.load(Ordering::Relaxed)
                    && !meter.is_waiting.load(Ordering::Relaxed);
                if is_slow && !is_paused && before > 0 {
                    let bad = Event::Bad { connection, fault: Fault::Slow };
                    let _ = engine.send(Input::Event(bad)).await;
                    continue;
                }
                if heard.elapsed() > SILENCE && !is_paused {
                    break;
                }
                let ping = Message::Ping(Vec::new().into());
                if heard.elapsed() >= PING
                    && !matches!(timeout(FAREWELL, socket.send(ping)).await, Ok(Ok(())))
                {
                    break;
                }
            }
        }
    }
    let _ = engine.send(Input::Event(Event::Closed { connection })).await;
    is_closed
}

/// Sends a frame and those behind it; false when it was the last.
async fn send<T: AsyncRead + AsyncWrite + Unpin>(
    engine: &Engine,
    connection: ConnectionId,
    socket: &mut WebSocketStream<Wire<T>>,
    first: Outgoing,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> bool {
    let mut next = Some(first);
    let mut sent = 0;
    while let Some(item) = next {
        match item {
            Outgoing::Frame(bytes) => {
                sent += bytes.len();
                if socket.feed(Message::Binary(bytes.into())).await.is_err() {
                    return false;
                }
            }
            Outgoing::Close(fault) => {
                close(socket, close_code(fault), fault.to_string()).await;
                return false;
            }
        }
        if sent >= SENT_STEP {
            break;
        }
        next = outgoing.try_recv().ok();
    }
    if socket.flush().await.is_err() {
        return false;
    }
    engine.send(Input::Event(Event::Sent { connection, bytes: sent })).await.is_ok()
}

/// The result of sending, or false when the connection is closing and takes too long about it.
/// Tells the engine of bytes written meanwhile: a frame may take minutes on a slow link.
async fn until_closing(
    sending: impl Future<Output = bool>,
    (engine, connection, written): (&Engine, ConnectionId, &AtomicU64),
    mut controlled: watch::Receiver<Control>,
) -> bool {
    // The borrow of the watched value ends within: it may not be held across another wait.
    let closing = async { controlled.wait_for(|control| control.is_closing).await.map(drop) };
    tokio::pin!(sending, closing);
    let mut steps = interval_at(Instant::now() + PROGRESS, PROGRESS);
    let mut told = written.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            is_open = &mut sending => return is_open,
            _ = &mut closing => break,
            _ = steps.tick() => {
                let now = written.load(Ordering::Relaxed);
                let bytes = usize::try_from(now - std::mem::replace(&mut told, now));
                let bytes = bytes.unwrap_or(usize::MAX);
                let progress = Input::Event(Event::Progress { connection, bytes });
                if bytes > 0 && engine.send(progress).await.is_err() {
                    return false;
                }
            }
        }
    }
    timeout(FAREWELL, sending).await.unwrap_or(false)
}

/// The WebSocket code of an end: clients give none a meaning, people who look do.
const fn close_code(fault: Fault) -> u16 {
    match fault {
        Fault::Stopping => 1001,
        Fault::TooLarge { .. } => 1009,
        Fault::Storage | Fault::Crowded => 1013,
        _ => 1008,
    }
}
