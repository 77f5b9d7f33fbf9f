//! Relays: several servers share documents over NATS JetStream, each with its own database.
//!
//! In builds with the feature `nats`; without the feature, an error in its place. `ledger`
//! decides about publishing, knowing and waiting; `desk` is the relay's place at the storage;
//! `nats` speaks with JetStream.

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "nats")]
pub(crate) mod desk;
#[cfg(feature = "nats")]
mod figures;
#[cfg(feature = "nats")]
mod ledger;
#[cfg(feature = "nats")]
mod message;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod snapshot;
#[cfg(not(feature = "nats"))]
mod without;

#[cfg(feature = "nats")]
pub(crate) use nats::Relay;
#[cfg(not(feature = "nats"))]
pub(crate) use without::Relay;

/// The settings of a relay.
#[derive(Clone)]
pub struct RelayOptions {
    /// `nats://[USER:PASSWORD@]HOST[:PORT]`, or `tls://`; several with commas between them.
    pub url: String,
    /// The name of the streams, the bucket and the subjects: relays of one name share documents.
    pub name: String,
    /// Copies kept by a cluster of what this relay has to create, 1 to 5.
    pub replicas: usize,
    /// Certificates to trust, in PEM, besides those of this machine.
    pub authorities: Option<PathBuf>,
    /// Called with news; quick.
    pub news: Arc<dyn Fn(RelayNews) + Send + Sync>,
}

/// News of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayNews {
    /// Changes are exchanged.
    Connected {
        /// The server's name.
        server: String,
    },
    /// NATS cannot be reached or does not work: edits go on, and are published later.
    Away {
        /// Why.
        why: String,
    },
}
