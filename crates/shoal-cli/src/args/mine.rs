//! The command line of `shoal mine`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `shoal mine`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Mines until it is interrupted; then it ends its threads, gives the memory back and exits with 0. It \
exits with 1 when it cannot go on, as when the pool refuses the address, and with 2 when the \
settings are wrong. docs/mining.md leads from nothing to a first share.

Settings can stand in a file, too: a JSON object with the names of the flags, _ instead of -, as in \
{\"pool\": \"stratum+tcp://pool.example:3333\", \"address\": \"...\", \"threads\": 4}. Flags win.

Examples:
  shoal mine --pool stratum+tcp://pool.example:3333 --address ADDRESS --worker laptop
  shoal mine --node http://127.0.0.1:8332 --cookie ~/.config/bnt/data/mainnet/api.cookie
  shoal mine --bench --kind backend --threads 2 --secs 20 --rounds 3 --json bench.json
  shoal mine --bench --gpu cards
  shoal mine --doctor")]
pub(crate) struct MineArgs {
    /// The pool to work for: stratum+tcp://HOST:PORT or HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "node")]
    pub(crate) pool: Option<String>,
    /// The node to work for: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) node: Option<String>,
    /// Who is paid; a pool needs it, a node has its own wallet
    #[arg(long)]
    pub(crate) address: Option<String>,
    /// The name of this machine at the pool [default: shoal]
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
    /// The file with the node's token
    #[arg(long, value_name = "FILE")]
    pub(crate) cookie: Option<PathBuf>,
    /// The node's token. Other users can see command lines: set the variable, or name the cookie
    #[arg(long, env = "SHOAL_NODE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Settings from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What is shown [default: tui on a terminal, plain elsewhere]
    #[arg(long, value_enum)]
    pub(crate) ui: Option<Ui>,
    /// Seconds between two lines about the hash rate
    #[arg(long, value_name = "S")]
    pub(crate) stats_secs: Option<u64>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    #[command(flatten)]
    pub(crate) doctor: DoctorArgs,
}

/// Limits of the machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct MachineArgs {
    /// Threads that hash [default: as many as cores and memory allow]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Hashes that a thread computes side by side, each in memory of its own [default: what fits]
    #[arg(long, value_name = "N")]
    pub(crate) side_by_side: Option<NonZeroUsize>,
    /// Keep threads to their cores: off, auto or pcore-only
    #[arg(long, value_name = "HOW")]
    pub(crate) affinity: Option<String>,
    /// The kernel to run: scalar, avx2, avx512, neon or neon-sha3 [default: the fastest here]
    #[arg(long, value_name = "NAME", env = "SHOAL_ISA")]
    pub(crate) isa: Option<String>,
    /// A graphics processor to hash on, too, by a part of its name; `cards` for all with memory of
    /// their own. May be given more than once; needs a build with --features gpu, or cuda for
    /// NVIDIA's
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Vec<String>,
    /// KiB to take of each one's memory [default: all a card gives; two hashes of shared memory]
    #[arg(long, value_name = "KIB", requires = "gpu")]
    pub(crate) gpu_memory_kib: Option<u64>,
    /// Watts that each may draw, where its driver can limit them: NVIDIA's by CUDA, and for root
    #[arg(long, value_name = "WATTS", requires = "gpu")]
    pub(crate) gpu_watts: Option<u32>,
    /// KiB of memory that may be taken [default: what the machine has to spare]
    #[arg(long, value_name = "KIB")]
    pub(crate) memory_budget_kib: Option<u64>,
    /// Try out first how many threads are best here, and at work which program of a card by CUDA;
    /// remembered, the threads for two weeks
    #[arg(long)]
    pub(crate) autotune: bool,
    /// Take memory that the machine may not have
    #[arg(long)]
    pub(crate) oversubscribe: bool,
    /// KiB of memory that a hash takes. The chain has 2097152; a test pool may have less
    #[arg(long, value_name = "KIB")]
    pub(crate) memory_kib: Option<u32>,
}

/// The HTTP API.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP API")]
pub(crate) struct ApiArgs {
    /// Offer it: state, events, metrics, start and stop
    #[arg(long)]
    pub(crate) api: bool,
    /// Where it listens [default: 127.0.0.1:9977]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) api_bind: Option<SocketAddr>,
    /// Let it listen where other machines can reach it. Nobody is asked for a password
    #[arg(long)]
    pub(crate) api_allow_unsafe_bind: bool,
    /// Begin only when the API is asked to
    #[arg(long)]
    pub(crate) service: bool,
}

/// `shoal mine --bench`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Benchmark")]
pub(crate) struct BenchArgs {
    /// Measure instead of mining: fixed work over wall clock
    #[arg(long, conflicts_with_all = ["pool", "node", "service", "doctor"])]
    pub(crate) bench: bool,
    /// What is measured: kernel, backend or end-to-end
    #[arg(long, value_name = "KIND", default_value = "backend", requires = "bench")]
    pub(crate) kind: String,
    /// Seconds of a round
    #[arg(long, value_name = "S", default_value_t = 20.0, requires = "bench")]
    pub(crate) secs: f64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, requires = "bench")]
    pub(crate) rounds: u32,
    /// Rounds before those that count
    #[arg(long, value_name = "N", default_value_t = 0, requires = "bench")]
    pub(crate) warmup_rounds: u32,
    /// Write the record, or what the doctor found, to a file; - for stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `shoal mine --doctor`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Doctor")]
pub(crate) struct DoctorArgs {
    /// Say what limits this machine, and what would help
    #[arg(long, conflicts_with_all = ["pool", "node", "service"])]
    pub(crate) doctor: bool,
    /// Do what would help, as far as the rights go
    #[arg(long, requires = "doctor")]
    pub(crate) fix: bool,
}

/// The display while mining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ui {
    /// Lines on stderr
    Plain,
    /// A screen
    Tui,
}
