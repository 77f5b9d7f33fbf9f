//! The world of a database: files, the time, randomness. All three are values, for tests to bring
//! their own.

use std::sync::Arc;

use shoal_history::ActorId;
use shoal_store::CodecSource;
use shoal_vfs::{Clock, Entropy, OsClock, OsEntropy, Vfs};

/// Files, clock and entropy. Cheap to clone.
#[derive(Clone)]
pub struct Environment {
    vfs: Arc<dyn Vfs>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    codecs: Option<Arc<dyn CodecSource>>,
}

impl Environment {
    /// The operating system's.
    #[cfg(unix)]
    pub fn os() -> Self {
        Self::new(Arc::new(shoal_vfs::OsVfs::new()), Arc::new(OsClock), Arc::new(OsEntropy))
    }

    /// One of the caller's making.
    pub fn new(vfs: Arc<dyn Vfs>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { vfs, clock, entropy, codecs: None }
    }

    /// With keys for sealed files.
    #[must_use]
    pub fn with_codecs(self, codecs: Arc<dyn CodecSource>) -> Self {
        Self { codecs: Some(codecs), ..self }
    }

    /// The keys for sealed files.
    pub(crate) fn codecs(&self) -> Option<Arc<dyn CodecSource>> {
        self.codecs.clone()
    }

    /// Where files are.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::clone(&self.vfs)
    }

    /// Seconds since 1970-01-01 UTC, as changes state their time.
    pub fn now_seconds(&self) -> i64 {
        self.clock.unix_ms().div_euclid(1000)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    /// Fills `bytes` with randomness.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.entropy.fill(bytes);
    }

    /// A new actor: 16 random bytes.
    pub fn new_actor(&self) -> ActorId {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        ActorId::new(&bytes)
    }
}
