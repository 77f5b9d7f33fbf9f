//! Settings of the miner: a file, flags and requests over the API, one above the other.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shoal_pow::Isa;

use crate::backend::cpu::CpuOptions;
use crate::node::{NodeOptions, NodeUrl, NodeUrlError, Token};
use crate::pool::{Identity, PoolOptions, PoolUrl, UrlError};
pub use crate::secret::Secret;
use crate::source::clean;
use crate::topology::Affinity;

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Some of the settings. A file, the command line and a request over the API are all
        /// this; missing ones are taken from the level below. Unknown names are refused.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        impl Settings {
            fn filled(self, base: Self) -> Self {
                Self { $($name: self.$name.or(base.$name),)* }
            }

            /// The names of settings given and different from `base`.
            pub fn changes(&self, base: &Self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$name.is_some() && self.$name != base.$name {
                    names.push(stringify!($name));
                })*
                names
            }
        }
    };
}

settings! {
    /// Version of the file's form: 1.
    schema_version: u32,
    /// The pool to work for: `stratum+tcp://HOST:PORT`.
    pool: String,
    /// The node to work for: `http://HOST:PORT`.
    node: String,
    /// Who is paid.
    address: String,
    /// The name of this machine at the pool.
    worker: String,
    /// The node's token.
    token: Secret,
    /// The file with the node's token.
    cookie: PathBuf,
    /// Memory of one hash, in KiB.
    memory_kib: u32,
    /// Threads for hashing.
    threads: usize,
    /// Hashes side by side on each thread.
    side_by_side: usize,
    /// Keeping threads on their cores: `off`, `auto` or `pcore-only`.
    affinity: String,
    /// The kernel to run.
    isa: String,
    /// Graphics processors by parts of their names; `cards` for all with memory of their own.
    gpu: Vec<String>,
    /// Memory to take on each, in KiB.
    gpu_memory_kib: u64,
    /// Most watts of each.
    gpu_watts: u32,
    /// Memory budget, in KiB.
    memory_budget_kib: u64,
    /// Take more memory than the budget.
    oversubscribe: bool,
    /// Try out the best number of threads before mining, without `threads`.
    autotune: bool,
    /// Seconds for each number of threads.
    autotune_secs: u64,
    /// Where the result is kept.
    autotune_cache: PathBuf,
    /// Seconds after which a node is asked for another template.
    refresh_secs: u64,
    /// Longest time of a request to a node, in seconds.
    request_timeout_secs: u64,
    /// Listen to the node's events.
    events: bool,
    /// The first wait after a failed connection, in milliseconds.
    retry_first_ms: u64,
    /// The longest wait, in milliseconds.
    retry_longest_ms: u64,
    /// Seconds between two lines about the hash rate.
    stats_secs: u64,
    /// Offer the HTTP API.
    api: bool,
    /// The address to listen on.
    api_bind: SocketAddr,
    /// Allow an address in reach of other machines.
    api_allow_unsafe_bind: bool,
    /// Wait for a start over the API.
    service: bool,
}

impl Settings {
    /// These settings where given, `base`'s elsewhere. Exclusive settings
    /// displace each other: a node takes the place of a pool, a token the place of a cookie.
    #[must_use]
    pub fn over(self, mut base: Self) -> Self {
        if self.pool.is_some() || self.node.is_some() {
            (base.pool, base.node) = (None, None);
        }
        if self.token.is_some() || self.cookie.is_some() {
            (base.token, base.cookie) = (None, None);
        }
        self.filled(base)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with the file and the place; never with the contents.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let file = || path.display().to_string();
        let length = fs::metadata(path).map(|meta| meta.len());
        if length.as_ref().is_ok_and(|&length| length > FILE_MAX) {
            return Err(ConfigError::File { file: file(), why: "longer than 1 MiB".to_owned() });
        }
        let text = fs::read_to_string(path)
            .map_err(|error| ConfigError::File { file: file(), why: error.to_string() })?;
        let settings: Self =
            read_object(text.as_bytes()).map_err(|why| ConfigError::File { file: file(), why })?;
        match settings.schema_version {
            None | Some(SCHEMA_VERSION) => Ok(settings),
            Some(version) => Err(ConfigError::SchemaVersion { file: file(), version }),
        }
    }

    /// Fills in missing settings and checks the given ones.
    ///
    /// # Errors
    /// [`ConfigError`] with the name of the setting.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let positive = |name, value: Option<u64>, default: u64| match value {
            Some(0) => Err(ConfigError::Zero { name }),
            Some(value) if value > SECS_MAX => Err(ConfigError::TooLarge { name, max: SECS_MAX }),
            value => Ok(value.unwrap_or(default)),
        };
        let nonzero = |name, value: Option<usize>| match value {
            Some(0) => Err(ConfigError::Zero { name }),
            value => Ok(value),
        };
        if let Some(address) = &self.address
            && (address.trim().is_empty()
                || address.len() > ADDRESS_MAX
                || !address.chars().all(|c| c.is_ascii_alphanumeric()))
        {
            return Err(ConfigError::Address);
        }
        if self.token.is_some() && self.cookie.is_some() {
            return Err(ConfigError::Both { one: "token", other: "cookie" });
        }
        let source = match (&self.pool, &self.node) {
            (Some(_), Some(_)) => return Err(ConfigError::Both { one: "pool", other: "node" }),
            (None, None) => None,
            (Some(url), None) => {
                let url: PoolUrl = url.parse()?;
                let address = self.address.clone().ok_or(ConfigError::Missing("address"))?;
                let worker = self.worker.clone().unwrap_or_else(|| DEFAULT_WORKER.to_owned());
                if worker.chars().count() > WORKER_MAX || worker.chars().any(char::is_control) {
                    return Err(ConfigError::Worker);
                }
                Some(SourceConfig::Pool { url: url.to_string(), address, worker })
            }
            (None, Some(url)) => {
                let url: NodeUrl = url.parse()?;
                Some(SourceConfig::Node {
                    url: url.to_string(),
                    address: self.address.clone(),
                    token: self.token.clone(),
                    cookie: self.cookie.clone(),
                })
            }
        };
        let api_bind = self.api_bind.unwrap_or_else(|| DEFAULT_BIND.into());
        let unsafe_bind = self.api_allow_unsafe_bind.unwrap_or(false);
        if !api_bind.ip().is_loopback() && !unsafe_bind {
            return Err(ConfigError::UnsafeBind(api_bind));
        }
        let affinity = match &self.affinity {
            Some(name) => name.parse().map_err(|_| ConfigError::Affinity(clean(name)))?,
            None => Affinity::default(),
        };
        if let Some(isa) = &self.isa
            && Isa::named(isa).is_err()
        {
            return Err(ConfigError::Isa(clean(isa)));
        }
        let gpu = self.gpu.clone().unwrap_or_default();
        if !gpu.is_empty() && !cfg!(any(feature = "gpu", feature = "cuda")) {
            return Err(ConfigError::NoGpu);
        }
        let memory_kib = self.memory_kib.unwrap_or(shoal_pow::MEMORY_KIB);
        if memory_kib < MEMORY_MIN {
            return Err(ConfigError::Memory { min: MEMORY_MIN });
        }
        let service = self.service.unwrap_or(false);
        Ok(Config {
            schema_version: SCHEMA_VERSION,
            source,
            memory_kib,
            threads: nonzero("threads", self.threads)?,
            side_by_side: nonzero("side_by_side", self.side_by_side)?,
            affinity,
            isa: self.isa.clone(),
            gpu,
            gpu_memory_kib: self.gpu_memory_kib,
            gpu_watts: self.gpu_watts,
            memory_budget_kib: self.memory_budget_kib,
            oversubscribe: self.oversubscribe.unwrap_or(false),
            autotune: self.autotune.unwrap_or(false),
            autotune_secs: positive("autotune_secs", self.autotune_secs, 6)?,
            autotune_cache: self.autotune_cache.clone(),
            refresh_secs: positive("refresh_secs", self.refresh_secs, 20)?,
            request_timeout_secs: positive("request_timeout_secs", self.request_timeout_secs, 10)?,
            events: self.events.unwrap_or(true),
            retry_first_ms: positive("retry_first_ms", self.retry_first_ms, 250)?,
            retry_longest_ms: positive("retry_longest_ms", self.retry_longest_ms, 60_000)?,
            stats_secs: positive("stats_secs", self.stats_secs, 10)?,
            api: self.api.unwrap_or(service),
            api_bind,
            api_allow_unsafe_bind: unsafe_bind,
            service,
        })
    }
}

/// Reads a JSON object. Refuses an array of values in order, which derived code would take.
pub(crate) fn read_object<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err("not a JSON object".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Every setting of the miner, checked. Shown over the API; secrets are stars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Version of this form.
    pub schema_version: u32,
    /// Who is worked for; nobody yet, when a service waits to be told.
    pub source: Option<SourceConfig>,
    /// Memory of one hash, in KiB.
    pub memory_kib: u32,
    /// Threads for hashing; `None` for as many as pay.
    pub threads: Option<usize>,
    /// Hashes side by side on each thread; `None` for as many as pay.
    pub side_by_side: Option<usize>,
    /// Keeping threads on their cores.
    pub affinity: Affinity,
    /// The kernel to run; `None` for the fastest.
    pub isa: Option<String>,
    /// Graphics processors by parts of their names; `cards` for all with memory of their own.
    pub gpu: Vec<String>,
    /// Memory to take on each, in KiB; `None` for all of a card's, and for two hashes of memory
    /// shared with the machine.
    pub gpu_memory_kib: Option<u64>,
    /// Most watts of each; `None` leaves the driver's limit.
    pub gpu_watts: Option<u32>,
    /// Memory budget, in KiB; `None` asks the machine.
    pub memory_budget_kib: Option<u64>,
    /// Take more memory than the budget.
    pub oversubscribe: bool,
    /// Try out the best number of threads before mining, without `threads`.
    pub autotune: bool,
    /// Seconds for each number of threads.
    pub autotune_secs: u64,
    /// Where the result is kept.
    pub autotune_cache: Option<PathBuf>,
    /// Seconds after which a node is asked for another template.
    pub refresh_secs: u64,
    /// Longest time of a request to a node, in seconds.
    pub request_timeout_secs: u64,
    /// Listen to the node's events.
    pub events: bool,
    /// The first wait after a failed connection, in milliseconds.
    pub retry_first_ms: u64,
    /// The longest wait, in milliseconds.
    pub retry_longest_ms: u64,
    /// Seconds between two lines about the hash rate.
    pub stats_secs: u64,
    /// Offer the HTTP API.
    pub api: bool,
    /// The address to listen on.
    pub api_bind: SocketAddr,
    /// Allow an address in reach of other machines.
    pub api_allow_unsafe_bind: bool,
    /// Wait for a start over the API.
    pub service: bool,
}

/// Who is worked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum SourceConfig {
    /// A pool.
    Pool {
        /// Where it is.
        url: String,
        /// Who is paid.
        address: String,
        /// The name of this machine.
        worker: String,
    },
    /// A node.
    Node {
        /// Where it is.
        url: String,
        /// Who is paid; `None` for the node's wallet.
        address: Option<String>,
        /// Its token.
        token: Option<Secret>,
        /// The file with its token.
        cookie: Option<PathBuf>,
    },
}

impl Config {
    /// Where the work comes from, for people.
    pub fn source_url(&self) -> String {
        match &self.source {
            Some(SourceConfig::Pool { url, .. } | SourceConfig::Node { url, .. }) => url.clone(),
            None => String::new(),
        }
    }

    /// `true` when both work for the same, in the same way.
    pub fn same_source(&self, other: &Self) -> bool {
        let of = |config: &Self| {
            let Self { refresh_secs, request_timeout_secs, events, .. } = *config;
            let Self { retry_first_ms, retry_longest_ms, .. } = *config;
            (refresh_secs, request_timeout_secs, events, retry_first_ms, retry_longest_ms)
        };
        self.source == other.source && of(self) == of(other)
    }

    /// Options of the processor's backend.
    pub fn cpu_options(&self) -> CpuOptions {
        CpuOptions {
            memory_kib: self.memory_kib,
            threads: self.threads,
            side_by_side: self.side_by_side,
            affinity: self.affinity,
            isa: self.isa.as_deref().and_then(|name| Isa::named(name).ok()),
            budget_kib: self.memory_budget_kib,
            oversubscribe: self.oversubscribe,
            ..CpuOptions::default()
        }
    }

    /// The pool's client, when the source is one.
    pub fn pool_options(&self) -> Option<PoolOptions> {
        let Some(SourceConfig::Pool { url, address, worker }) = &self.source else { return None };
        let url = url.parse().expect("a resolved URL is one");
        let identity = Identity { address: address.clone(), worker: worker.clone() };
        let mut options = PoolOptions::new(url, identity);
        options.retry_first = Duration::from_millis(self.retry_first_ms);
        options.retry_longest = Duration::from_millis(self.retry_longest_ms);
        Some(options)
    }

    /// The node's client, when the source is one.
    pub fn node_options(&self) -> Option<NodeOptions> {
        let Some(SourceConfig::Node { url, address, token, cookie }) = &self.source else {
            return None;
        };
        let url = url.parse().expect("a resolved URL is one");
        let token = match (token, cookie) {
            (Some(secret), _) => Token::Fixed(secret.clone()),
            (None, Some(path)) => Token::Cookie(path.clone()),
            (None, None) => Token::None,
        };
        let mut options = NodeOptions::new(url, token);
        options.address.clone_from(address);
        options.refresh = Duration::from_secs(self.refresh_secs);
        options.request_timeout = Duration::from_secs(self.request_timeout_secs);
        options.events = self.events;
        options.retry_first = Duration::from_millis(self.retry_first_ms).min(options.retry_first);
        options.retry_longest =
            Duration::from_millis(self.retry_longest_ms).min(options.retry_longest);
        Some(options)
    }
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read, or has another form.
    #[error("{file}: {why}")]
    File {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// The file is of another time.
    #[error("{file}: schema_version is not 1: {version}")]
    SchemaVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// The pool's URL is none.
    #[error(transparent)]
    Pool(#[from] UrlError),
    /// The node's URL is none.
    #[error(transparent)]
    Node(#[from] NodeUrlError),
    /// Something is needed.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Two things exclude each other.
    #[error("{one} and {other} exclude each other")]
    Both {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// No address looks like this.
    #[error("address: an address is letters and digits, 128 of them at most")]
    Address,
    /// This program was built without graphics processors.
    #[error(
        "gpu: this program was built without graphics processors; build it with --features gpu, \
         or cuda for NVIDIA's"
    )]
    NoGpu,
    /// No name of a worker.
    #[error("worker: a name has 64 characters at most, and none that control")]
    Worker,
    /// At least 1.
    #[error("{name} must not be 0")]
    Zero {
        /// The setting.
        name: &'static str,
    },
    /// Too much.
    #[error("{name} is more than {max}")]
    TooLarge {
        /// The setting.
        name: &'static str,
        /// The most.
        max: u64,
    },
    /// Argon2 takes more.
    #[error("memory_kib must be {min} at least")]
    Memory {
        /// The least.
        min: u32,
    },
    /// There is no such way.
    #[error("affinity is off, auto or pcore-only: {0}")]
    Affinity(String),
    /// There is no such kernel, here at least.
    #[error("isa: this machine has no such kernel: {0}")]
    Isa(String),
    /// In reach of other machines, and nobody would be asked for a password.
    #[error("the API would be open to other machines at {0}; api_allow_unsafe_bind allows that")]
    UnsafeBind(SocketAddr),
}

/// The form of the file.
pub const SCHEMA_VERSION: u32 = 1;
const FILE_MAX: u64 = 1 << 20;
const SECS_MAX: u64 = 86_400_000;
const ADDRESS_MAX: usize = 128;
const WORKER_MAX: usize = 64;
const DEFAULT_WORKER: &str = "shoal";
const DEFAULT_BIND: ([u8; 4], u16) = ([127, 0, 0, 1], 9977);
const MEMORY_MIN: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Settings {
        Settings {
            pool: Some("pool:3333".to_owned()),
            address: Some("abc".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn what_is_above_wins_and_the_rest_is_filled_in() {
        let file: Settings = serde_json::from_str(
            r#"{"schema_version": 1, "pool": "a:1", "address": "abc", "threads": 2}"#,
        )
        .unwrap();
        let flags = Settings { threads: Some(4), ..Settings::default() };
        assert_eq!(flags.changes(&file), ["threads"]);
        assert_eq!(flags.changes(&flags), [""; 0]);
        let config = flags.over(file).resolve().unwrap();
        assert_eq!(config.threads, Some(4));
        assert_eq!(config.source_url(), "stratum+tcp://a:1");
        assert_eq!((config.stats_secs, config.api), (10, false));
        let Some(SourceConfig::Pool { worker, .. }) = config.source else { panic!("a pool") };
        assert_eq!(worker, "shoal");
    }

    #[test]
    fn what_excludes_each_other_displaces() {
        let cookie = Settings { cookie: Some("a.cookie".into()), ..Settings::default() };
        let node = Settings { node: Some("http://n".into()), ..Settings::default() };
        let token = Settings { token: Some(Secret::new("t".into())), ..Settings::default() };
        let over = node.over(pool());
        assert_eq!((over.pool.as_deref(), over.node.as_deref()), (None, Some("http://n")));
        assert_eq!(over.address.as_deref(), Some("abc"), "the rest stays");
        let back = pool().over(over);
        assert_eq!((back.pool.as_deref(), back.node.as_deref()), (Some("pool:3333"), None));
        let over = token.over(cookie);
        assert!(over.token.is_some() && over.cookie.is_none());
        let both = Settings { node: Some("http://n".into()), ..pool() }.over(Settings::default());
        assert!(both.pool.is_some() && both.node.is_some(), "to be refused");
    }

    #[test]
    fn every_refusal_names_its_setting() {
        let check = |change: fn(&mut Settings), expect: &str| {
            let mut settings = pool();
            change(&mut settings);
            let error = settings.resolve().map(drop).unwrap_err().to_string();
            assert_eq!(error, expect);
        };
        check(|s| s.node = Some("http://n".into()), "pool and node exclude each other");
        check(|s| s.address = None, "address is missing");
        check(
            |s| s.address = Some("a b".into()),
            "address: an address is letters and digits, 128 of them at most",
        );
        check(|s| s.threads = Some(0), "threads must not be 0");
        check(|s| s.stats_secs = Some(0), "stats_secs must not be 0");
        check(|s| s.stats_secs = Some(u64::MAX), "stats_secs is more than 86400000");
        check(|s| s.memory_kib = Some(7), "memory_kib must be 8 at least");
        check(
            |s| s.pool = Some("pool".into()),
            "a pool's URL needs a port, as in stratum+tcp://HOST:3333",
        );
        check(|s| s.affinity = Some("x".into()), "affinity is off, auto or pcore-only: x");
        check(|s| s.isa = Some("z80".into()), "isa: this machine has no such kernel: z80");
        check(
            |s| s.worker = Some("x".repeat(65)),
            "worker: a name has 64 characters at most, and none that control",
        );
        check(
            |s| s.api_bind = Some(([0, 0, 0, 0], 1).into()),
            "the API would be open to other machines at 0.0.0.0:1; api_allow_unsafe_bind allows that",
        );
        let allowed = Settings {
            api_bind: Some(([0, 0, 0, 0], 1).into()),
            api_allow_unsafe_bind: Some(true),
            ..pool()
        };
        assert!(allowed.resolve().is_ok());
    }

    #[test]
    fn a_bad_file_is_named_and_its_secrets_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("miner.json");
        let check = |text: &str, expect: &str| {
            fs::write(&path, text).unwrap();
            let error = Settings::from_file(&path).unwrap_err().to_string();
            assert!(error.contains("miner.json") && error.contains(expect), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("4711"), "{error}");
        };
        check(r#"{"token": 4711}"#, "a secret must be a text");
        check(r#"{"token": "hunter2", "colour": "red"}"#, "unknown field `colour`");
        check(r#"{"token": "hunter2""#, "EOF while parsing");
        check(r#"{"schema_version": 2}"#, "schema_version is not 1: 2");
        check("[1]", "not a JSON object");
        fs::write(&path, vec![b' '; 2 << 20]).unwrap();
        assert!(Settings::from_file(&path).unwrap_err().to_string().contains("longer than 1 MiB"));
        let missing = Settings::from_file(&dir.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json"), "{missing}");
    }

    #[test]
    fn secrets_are_stars_wherever_they_are_shown() {
        let settings = Settings {
            node: Some("http://127.0.0.1:8332".to_owned()),
            token: Some(Secret::new("hunter2".to_owned())),
            ..Settings::default()
        };
        let config = settings.resolve().unwrap();
        for shown in [
            format!("{settings:?}{config:?}"),
            serde_json::to_string(&settings).unwrap(),
            serde_json::to_string(&config).unwrap(),
            format!("{:?}", config.node_options()),
        ] {
            assert!(shown.contains("***") && !shown.contains("hunter2"), "{shown}");
        }
    }
}
