//! One WebSocket, of whichever end: frames to the engine, and from it.

use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use shoal_sync::{Access, ConnectionId, Event, Fault, Role};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};

use crate::engine::{Control, Engine, Input, Outgoing, Outlet};

/// A silent peer is pinged after this time.
const PING: Duration = Duration::from_secs(10);
/// A peer silent for this time is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// A closing socket has this time for its queue.
const FAREWELL: Duration = Duration::from_secs(2);
/// The engine hears of sent bytes at least this often.
const SENT_STEP: usize = 256 << 10;

/// A message of a WebSocket library.
pub(crate) enum Packet {
    Binary(Vec<u8>),
    Text,
    Ping,
    /// A pong, or another frame of no meaning here.
    Alive,
    Close(u16, String),
}

/// Runs a socket until either end closes it.
pub(crate) async fn run<S, E>(
    engine: Engine,
    (connection, role, access): (ConnectionId, Role, Access),
    mut socket: S,
) where
    S: Stream<Item = Result<Packet, E>> + Sink<Packet> + Unpin,
{
    let (frames, mut outgoing) = mpsc::unbounded_channel();
    let (control, mut controlled) = watch::channel(Control::default());
    let outlet = Outlet { frames, control };
    let connected = Input::Connected { connection, role, access, outlet };
    if engine.send(connected).await.is_err() {
        return;
    }
    let mut heard = Instant::now();
    let mut pings = interval_at(heard + PING, PING);
    let mut is_paused = false;
    let mut is_controlled = true;
    loop {
        tokio::select! {
            packet = socket.next(), if !is_paused => {
                heard = Instant::now();
                let sent = match packet {
                    Some(Ok(Packet::Binary(bytes))) => engine.send_frame(connection, bytes).await,
                    Some(Ok(Packet::Text)) => {
                        let bad = Event::Bad { connection, fault: Fault::NotBinary };
                        engine.send(Input::Event(bad)).await
                    }
                    Some(Ok(Packet::Ping | Packet::Alive)) => continue,
                    Some(Ok(Packet::Close(..)) | Err(_)) | None => break,
                };
                if sent.is_err() {
                    break;
                }
            }
            next = outgoing.recv() => {
                let Some(next) = next else { break };
                let sent = send(&engine, connection, &mut socket, next, &mut outgoing);
                if !until_closing(sent, controlled.clone()).await {
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
                if heard.elapsed() > SILENCE && !is_paused {
                    break;
                }
                if heard.elapsed() >= PING
                    && !matches!(timeout(FAREWELL, socket.send(Packet::Ping)).await, Ok(Ok(())))
                {
                    break;
                }
            }
        }
    }
    let _ = engine.send(Input::Event(Event::Closed { connection })).await;
}

/// Sends a frame and those behind it; false when it was the last.
async fn send<S: Sink<Packet> + Unpin>(
    engine: &Engine,
    connection: ConnectionId,
    socket: &mut S,
    first: Outgoing,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> bool {
    let mut next = Some(first);
    let mut sent = 0;
    while let Some(item) = next {
        match item {
            Outgoing::Frame(bytes) => {
                sent += bytes.len();
                if socket.feed(Packet::Binary(bytes)).await.is_err() {
                    return false;
                }
            }
            Outgoing::Close(fault) => {
                let _ = socket.send(Packet::Close(close_code(fault), fault.to_string())).await;
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
async fn until_closing(
    sending: impl Future<Output = bool>,
    mut controlled: watch::Receiver<Control>,
) -> bool {
    tokio::pin!(sending);
    tokio::select! {
        is_open = &mut sending => return is_open,
        _ = controlled.wait_for(|control| control.is_closing) => {}
    }
    timeout(FAREWELL, sending).await.unwrap_or(false)
}

/// The WebSocket code of an end: clients give none a meaning, people who look do.
const fn close_code(fault: Fault) -> u16 {
    match fault {
        Fault::Stopping => 1001,
        Fault::TooLarge { .. } => 1009,
        Fault::Storage => 1013,
        _ => 1008,
    }
}
