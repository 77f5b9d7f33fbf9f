//! The engine thread: the hub, between the sockets and the storage.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::Sender as WorkSender;
use std::time::{Duration, Instant};

use shoal_sync::{Access, ConnectionId, Effect, Event, Fault, Hub, Role};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::storage::Work;

/// Inputs waiting for the engine; beyond, sockets wait.
const INPUTS: usize = 1024;
/// Kibibytes of frames waiting for the engine; beyond, sockets wait. The number of inputs alone
/// would let 1,024 frames of 64 MiB wait.
const INPUT_KIB: usize = 128 << 10;
/// Inputs taken in before effects are carried out: one message then tells of all of them.
const ROUND: usize = 256;
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Work for a socket.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A frame.
    Frame(Vec<u8>),
    /// The end, behind earlier frames.
    Close(Fault),
}

/// Orders of the engine to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) is_paused: bool,
    pub(crate) is_closing: bool,
}

/// A socket's end at the engine.
pub(crate) struct Outlet {
    pub(crate) frames: mpsc::UnboundedSender<Outgoing>,
    pub(crate) control: watch::Sender<Control>,
}

/// A question about the hub.
type Question = Box<dyn FnOnce(&mut Hub) + Send>;

/// Work for the engine.
pub(crate) enum Input {
    Event(Event),
    /// A frame, with its room among the bytes that wait.
    Frame {
        event: Event,
        room: OwnedSemaphorePermit,
    },
    Connected {
        connection: ConnectionId,
        role: Role,
        access: Access,
        outlet: Outlet,
    },
    Question(Question),
    /// Work for the storage, behind everything that earlier inputs brought about.
    Work(Work),
    Stop,
}

/// News for a client: effects beside sockets and storage.
pub(crate) type News = Box<dyn FnMut(Effect) + Send>;

/// A way to the engine. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    inputs: mpsc::Sender<Input>,
    room: Arc<Semaphore>,
}

/// The engine could not be reached: it has stopped.
#[derive(Debug)]
pub(crate) struct Stopped;

impl Engine {
    /// The way, and its other end.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Input>) {
        let (inputs, receiver) = mpsc::channel(INPUTS);
        (Self { inputs, room: Arc::new(Semaphore::new(INPUT_KIB)) }, receiver)
    }

    pub(crate) async fn send(&self, input: Input) -> Result<(), Stopped> {
        self.inputs.send(input).await.map_err(|_| Stopped)
    }

    /// Sends a frame, once there is room for its bytes.
    pub(crate) async fn send_frame(
        &self,
        connection: ConnectionId,
        bytes: Vec<u8>,
    ) -> Result<(), Stopped> {
        let kib = (bytes.len() / 1024 + 1).min(INPUT_KIB);
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let room = room.map_err(|_| Stopped)?;
        self.send(Input::Frame { event: Event::Frame { connection, bytes }, room }).await
    }

    /// Sends from a thread free to wait.
    pub(crate) fn send_blocking(&self, event: Event) {
        let _ = self.inputs.blocking_send(Input::Event(event));
    }

    /// Asks the hub.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Hub) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, asked) = oneshot::channel();
        let question = Box::new(move |hub: &mut Hub| {
            let _ = answer.send(question(hub));
        });
        self.send(Input::Question(question)).await?;
        asked.await.map_err(|_| Stopped)
    }
}

/// Runs the hub until told to stop.
pub(crate) fn run(
    mut hub: Hub,
    mut inputs: mpsc::Receiver<Input>,
    work: &WorkSender<Work>,
    mut news: News,
) {
    let start = Instant::now();
    let mut outlets: BTreeMap<ConnectionId, Outlet> = BTreeMap::new();
    let mut is_stopping = false;
    while !is_stopping {
        let Some(first) = inputs.blocking_recv() else { break };
        let now_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        // A received input is handled in its round: nothing else holds the input.
        let waiting = iter::from_fn(|| inputs.try_recv().ok());
        for input in iter::once(first).chain(waiting.take(ROUND - 1)) {
            match input {
                Input::Event(event) => {
                    if let Event::Closed { connection } = event {
                        outlets.remove(&connection);
                    }
                    hub.handle(now_ms, event);
                }
                Input::Frame { event, room } => {
                    hub.handle(now_ms, event);
                    drop(room);
                }
                Input::Connected { connection, role, access, outlet } => {
                    outlets.insert(connection, outlet);
                    hub.handle(now_ms, Event::Connected { connection, role, access });
                }
                Input::Question(question) => {
                    // Whoever asks has heard of everything before.
                    for effect in hub.take_effects() {
                        carry_out(effect, &mut outlets, work, &mut news);
                    }
                    question(&mut hub);
                }
                Input::Work(job) => {
                    for effect in hub.take_effects() {
                        carry_out(effect, &mut outlets, work, &mut news);
                    }
                    let _ = work.send(job);
                }
                Input::Stop => {
                    is_stopping = true;
                    break;
                }
            }
        }
        if is_stopping {
            hub.stop();
        }
        for effect in hub.take_effects() {
            carry_out(effect, &mut outlets, work, &mut news);
        }
    }
    let _ = work.send(Work::Stop);
}

fn carry_out(
    effect: Effect,
    outlets: &mut BTreeMap<ConnectionId, Outlet>,
    work: &WorkSender<Work>,
    news: &mut News,
) {
    let control = |outlets: &BTreeMap<ConnectionId, Outlet>, connection, is_paused| {
        if let Some(outlet) = outlets.get(connection) {
            outlet.control.send_modify(|control| control.is_paused = is_paused);
        }
    };
    match effect {
        Effect::Send { connection, bytes } => {
            if let Some(outlet) = outlets.get(&connection) {
                let _ = outlet.frames.send(Outgoing::Frame(bytes));
            }
        }
        Effect::Close { connection, fault } => {
            if let Some(outlet) = outlets.remove(&connection) {
                let _ = outlet.frames.send(Outgoing::Close(fault));
                outlet.control.send_modify(|control| control.is_closing = true);
            }
        }
        Effect::Pause { connection } => control(outlets, &connection, true),
        Effect::Resume { connection } => control(outlets, &connection, false),
        Effect::Open { .. }
        | Effect::Store { .. }
        | Effect::Save { .. }
        | Effect::Release { .. } => {
            let _ = work.send(Work::Effect(effect));
        }
        Effect::Joined { .. }
        | Effect::Unavailable { .. }
        | Effect::InSync { .. }
        | Effect::Refused { .. }
        | Effect::Told { .. }
        | Effect::Ask { .. } => news(effect),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use shoal_sync::{Config, Limits, Metadata};

    use super::*;

    #[test]
    fn every_input_of_a_crowd_is_handled() {
        let (engine, inputs) = Engine::channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let crowd = 3 * ROUND + 7;
        for _ in 0..crowd {
            let asked = Arc::clone(&asked);
            let question = Box::new(move |_: &mut Hub| {
                asked.fetch_add(1, Ordering::Relaxed);
            });
            engine.inputs.try_send(Input::Question(question)).expect("the queue has room");
        }
        engine.inputs.try_send(Input::Stop).expect("the queue has room");
        let hub = Hub::new(Config {
            peer_id: "server".to_owned(),
            metadata: Metadata::default(),
            limits: Limits::default(),
        });
        let (work, _works) = mpsc::channel();
        run(hub, inputs, &work, Box::new(drop));
        assert_eq!(asked.load(Ordering::Relaxed), crowd);
    }
}
