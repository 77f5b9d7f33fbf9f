//! The place of relays in a build without them.

use std::path::PathBuf;

use shoal::Environment;

use super::RelayOptions;
use crate::Error;
use crate::server::Running;

/// Would exchange changes.
pub(crate) enum Relay {}

impl Relay {
    pub(crate) fn start(
        _: RelayOptions,
        _: &Running,
        _: (Environment, PathBuf),
        _: shoal_sync::Limits,
    ) -> Result<Self, Error> {
        Err(Error::Relay("NATS is not built in: cargo build --features nats".to_owned()))
    }

    pub(crate) fn render(&self) -> String {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same shape as with NATS")]
    pub(crate) async fn stop(&self) {
        match *self {}
    }
}
