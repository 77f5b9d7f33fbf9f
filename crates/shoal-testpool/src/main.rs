//! `shoal-testpool`: the test pool and the test node as programs, to try a miner on.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use shoal_testpool::address::{self, Network};
use shoal_testpool::{
    Event, Faults, NodeEvent, NodeFaults, NodeSettings, Rules, TestNode, TestPool, VardiffRules,
};

/// A pool and a node to try a miner on. They run until they are interrupted.
#[derive(Debug, Parser)]
#[command(name = "shoal-testpool", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a pool
    Pool(PoolArgs),
    /// Run a node
    Node(NodeArgs),
    /// Print an address that belongs to nobody; both accept it
    Address {
        /// Another number, another address
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// An address of the test network instead of the main one
        #[arg(long)]
        test_network: bool,
    },
}

#[derive(Debug, Args)]
struct PoolArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:3333")]
    listen: SocketAddr,
    /// Memory of one hash; the chain has 2097152, which is 2 GiB
    #[arg(long, default_value_t = 2 * 1024 * 1024)]
    memory_kib: u32,
    /// Difficulty of the first share: hashes that one takes on average
    #[arg(long, default_value_t = 4)]
    difficulty: u64,
    /// Keep the difficulty as it is
    #[arg(long)]
    no_vardiff: bool,
    /// Difficulty of a block [default: twenty times that of the first share]
    #[arg(long)]
    network_difficulty: Option<u64>,
    /// Seconds after which somebody else finds the block [default: never]
    #[arg(long)]
    block_secs: Option<u64>,
    /// Take addresses of the test network instead of the main one
    #[arg(long)]
    test_network: bool,
    /// Restart the pool so often: jobs are forgotten, accepted shares are not [default: never]
    #[arg(long, value_name = "SECS")]
    restart_secs: Option<u64>,
    /// Seconds that a restart takes
    #[arg(long, value_name = "SECS", default_value_t = 2.0)]
    down_secs: f64,
    /// Make something go wrong; may be given several times. A wrong name lists what there is
    #[arg(long = "fault", value_name = "NAME[=VALUE]")]
    faults: Vec<String>,
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8332")]
    listen: SocketAddr,
    /// Memory of one hash; the chain has 2097152, which is 2 GiB
    #[arg(long, default_value_t = 2 * 1024 * 1024)]
    memory_kib: u32,
    /// Difficulty of a block
    #[arg(long, default_value_t = 4)]
    difficulty: u64,
    /// A folder for api.cookie; without it nobody is asked for a token
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Take addresses of the test network instead of the main one
    #[arg(long)]
    test_network: bool,
    /// Start without a wallet: templates need an address then
    #[arg(long)]
    no_wallet: bool,
    /// Make something go wrong; may be given several times. A wrong name lists what there is
    #[arg(long = "fault", value_name = "NAME[=VALUE]")]
    faults: Vec<String>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Pool(args) => pool(&args),
        Verb::Node(args) => node(args),
        Verb::Address { seed, test_network } => {
            println!("{}", address::sample(seed, network(test_network)));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            println!("error: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn network(test: bool) -> Network {
    if test { Network::Test } else { Network::Main }
}

fn pool(args: &PoolArgs) -> Result<(), String> {
    let mut faults = Faults::default();
    for fault in &args.faults {
        faults.switch_on(fault)?;
    }
    let difficulty = args.difficulty.max(1);
    // Most shares are none, and still a block comes while one looks on.
    let blocks = args.network_difficulty.unwrap_or_else(|| difficulty.saturating_mul(20));
    let rules = Rules {
        memory_kib: args.memory_kib,
        difficulty,
        network_difficulty: blocks,
        vardiff: (!args.no_vardiff).then(VardiffRules::default),
        network: network(args.test_network),
        ..Rules::default()
    };
    let pool = TestPool::start_at(args.listen, rules)
        .map_err(|error| format!("{}: {error}", args.listen))?;
    pool.set_faults(faults);
    println!(
        "pool at {}, {} KiB a hash, difficulty {difficulty}, of blocks {blocks}",
        pool.url(),
        args.memory_kib
    );
    let mut said = 0;
    let mut since_block = Duration::ZERO;
    let mut since_restart = Duration::ZERO;
    let down = Duration::try_from_secs_f64(args.down_secs)
        .map_err(|_| format!("--down-secs: no time: {}", args.down_secs))?;
    loop {
        std::thread::sleep(TICK);
        since_block += TICK;
        since_restart += TICK;
        if args.restart_secs.is_some_and(|secs| since_restart >= Duration::from_secs(secs)) {
            since_restart = Duration::ZERO;
            pool.restart(down);
        }
        if args.block_secs.is_some_and(|secs| since_block >= Duration::from_secs(secs)) {
            since_block = Duration::ZERO;
            pool.advance();
        }
        let log = pool.log();
        for (connection, _, event) in &log[said..] {
            println!("miner {connection}: {}", told(event));
        }
        said = log.len();
    }
}

fn told(event: &Event) -> String {
    match event {
        Event::Connected => "connected".to_owned(),
        Event::Login { worker, refused: None, .. } => format!("logged in as {worker}"),
        Event::Login { refused: Some(words), .. } => format!("was refused: {words}"),
        Event::Job { job_id, difficulty, height } => {
            format!("got job {job_id} at height {height}, difficulty {difficulty}")
        }
        Event::Submit { nonce, verdict: Ok(accepted), .. } => {
            let kind = if accepted.verified { "verified" } else { "provisional" };
            let block = if accepted.block { ", a block" } else { "" };
            format!("share {nonce} accepted, {kind}{block}")
        }
        Event::Submit { nonce, verdict: Err(words), .. } => {
            format!("share {nonce} refused: {words}")
        }
        Event::EmptyLine => "is still there".to_owned(),
        Event::Other => "said something else".to_owned(),
        Event::Closed => "gone".to_owned(),
        Event::Restart => "the pool restarts, all of them go".to_owned(),
    }
}

fn node(args: NodeArgs) -> Result<(), String> {
    let listen = args.listen;
    let mut faults = NodeFaults::default();
    for fault in &args.faults {
        faults.switch_on(fault)?;
    }
    let settings = NodeSettings {
        memory_kib: args.memory_kib,
        difficulty: args.difficulty.max(1),
        data_dir: args.data_dir,
        wallet: !args.no_wallet,
        network: network(args.test_network),
        ..NodeSettings::default()
    };
    let node =
        TestNode::start_at(listen, settings).map_err(|error| format!("{listen}: {error}"))?;
    node.set_faults(faults);
    println!("node at {}, {} KiB a hash", node.url(), args.memory_kib);
    if let Some(cookie) = node.cookie() {
        println!("its token is in {}", cookie.display());
    }
    let mut said = 0;
    loop {
        std::thread::sleep(TICK);
        let log = node.log();
        for (_, event) in &log[said..] {
            match event {
                NodeEvent::Template(status) => println!("a template: {status}"),
                NodeEvent::Renew(status) => println!("a template renewed: {status}"),
                NodeEvent::Submit { nonce, height: Some(height), .. } => {
                    println!("block {height} found with nonce {nonce}");
                }
                NodeEvent::Submit { nonce, status, .. } => {
                    println!("nonce {nonce} refused: {status}");
                }
                NodeEvent::Listener => println!("somebody listens to events"),
                NodeEvent::Unauthorized => println!("a request without the token"),
                NodeEvent::Other => println!("another request"),
            }
        }
        said = log.len();
    }
}

const TICK: Duration = Duration::from_millis(100);
