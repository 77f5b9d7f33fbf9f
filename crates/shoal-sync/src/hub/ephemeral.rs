//! Ephemeral messages: handed on to everyone who has the document open, and forgotten.

use super::Hub;
use crate::message::Frame;
use crate::{ConnectionId, Ephemeral, Fault, Message, Role};

impl Hub {
    pub(super) fn ephemeral(
        &mut self,
        connection: ConnectionId,
        message: Ephemeral,
    ) -> Result<(), Fault> {
        let limits = self.config.limits;
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        let (rate, burst) = (limits.ephemeral_per_second, limits.ephemeral_burst);
        if !peer.ephemerals.take(rate, burst, self.now_ms) {
            return Err(Fault::TooMany("ephemeral messages"));
        }
        if peer.role == Role::Dialing || !peer.documents.contains(&message.document) {
            return Ok(());
        }
        match peer.sessions.get(&message.session) {
            Some(count) if *count >= message.count => return Ok(()),
            None if peer.sessions.len() >= limits.ephemeral_sessions => {
                return Err(Fault::TooMany("sessions of ephemeral messages"));
            }
            _ => peer.sessions.insert(message.session.clone(), message.count),
        };
        let sender = peer.name.clone().unwrap_or_default();
        let Some(document) = self.documents.get(&message.document) else { return Ok(()) };
        let others = document.shares.keys().copied().filter(|other| *other != connection);
        for other in others.collect::<Vec<_>>() {
            let Some(peer) = self.peers.get(&other) else { continue };
            if peer.queued > limits.ephemeral_queue_bytes {
                self.counters.dropped += 1;
                continue;
            }
            self.counters.ephemeral += 1;
            let target = peer.name.clone().unwrap_or_default();
            let message = Message::Ephemeral(message.clone());
            self.send_frame(other, &Frame { sender: sender.clone(), target, message });
        }
        Ok(())
    }
}
