//! The command line: types only.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::workload::{Context, Scale};

/// Measures every engine beside its peers: answers first, then time.
#[derive(Clone, Debug, Parser)]
#[command(name = "shoal-lab", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// The verb, for work other than measuring.
    #[command(subcommand)]
    pub command: Option<Verb>,
    /// The run, in the absence of a verb.
    #[command(flatten)]
    pub run: RunArguments,
}

/// The lab as a verb of Shoal's own command: its rows, without the parts needing a checkout.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    /// The verb below `bench`, for work other than measuring.
    #[command(subcommand)]
    pub command: Option<BenchVerb>,
    /// The run, in the absence of a verb.
    #[command(flatten)]
    pub run: RunArguments,
}

/// The verbs below `bench`, beside measuring.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchVerb {
    /// Makes the page, the table or the chapter of the docs from a record
    Report(ReportArguments),
    /// A worker: runs one contender on one row, told what to do on stdin
    #[command(hide = true)]
    Serve(Serve),
}

impl From<BenchArguments> for Arguments {
    fn from(bench: BenchArguments) -> Self {
        let command = bench.command.map(|verb| match verb {
            BenchVerb::Report(report) => Verb::Report(report),
            BenchVerb::Serve(serve) => Verb::Serve(serve),
        });
        Self { command, run: bench.run }
    }
}

/// Arguments of a run: the rows to measure, and the places for the figures.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Lists rows and contenders, and measures nothing
    #[arg(long)]
    pub list: bool,
    /// Only rows whose id contains one of these; `*` stands for anything
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub filter: Vec<String>,
    /// But not rows whose id contains one of these
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub except: Vec<String>,
    /// Only contenders whose name begins with one of these
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub contender: Vec<String>,
    /// Warm samples of every contender on every row
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub rounds: usize,
    /// Fresh processes whose first sample is taken, too
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub cold: usize,
    /// Tiny sizes, one round: shows that every row works and that answers agree
    #[arg(long)]
    pub quick: bool,
    /// Seconds after which a row takes no further round
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub budget: u64,
    /// Seconds after which a contender is given up on a row
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub patience: u64,
    /// Where every random choice starts; printed with every run
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Writes the record, every sample included
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the report as one page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The folder of the corpora
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Where large databases are generated and kept
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Another build of the lab whose contenders take part, called after LABEL
    #[arg(long, value_name = "LABEL=PROGRAM")]
    pub also: Vec<String>,
    /// Names contenders that could not be built: FAMILY/NAME=REASON
    #[arg(long, value_name = "WHO=REASON", hide = true)]
    pub unbuilt: Vec<String>,
}

/// The verbs of the lab, beside measuring.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Compares two builds of the product, interleaved: two commits, or one commit built twice
    Ab(AbArguments),
    /// Runs one row under a profiler and prints the top functions
    Profile(ProfileArguments),
    /// Reads the machine code of the Argon2 kernels and says what they keep on the stack
    Spills,
    /// Makes the page, the table or docs/benchmarks.md from a record
    Report(ReportArguments),
    /// Builds the lab with its peers, each where it builds, and runs it
    Peers(PeersArguments),
    /// A worker: runs one contender on one row, told what to do on stdin
    #[command(hide = true)]
    Serve(Serve),
}

/// `lab ab`.
#[derive(Clone, Debug, Args)]
pub struct AbArguments {
    /// The commit to compare with
    #[arg(long, value_name = "REV")]
    pub base: String,
    /// The commit that should be faster
    #[arg(long, value_name = "REV")]
    pub candidate: String,
    /// Flags of rustc for the base: "-C target-cpu=native"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "")]
    pub base_flags: String,
    /// Flags of rustc for the candidate
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "")]
    pub candidate_flags: String,
    /// Settings of cargo for the base: profile.lab.lto="fat"
    #[arg(long, value_name = "KEY=VALUE")]
    pub base_config: Vec<String>,
    /// Settings of cargo for the candidate
    #[arg(long, value_name = "KEY=VALUE")]
    pub candidate_config: Vec<String>,
    /// Pairs of samples
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pairs: usize,
    /// Seconds of rest before every row
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub rest: u64,
    /// Only rows whose id contains one of these; `*` stands for anything
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub filter: Vec<String>,
    /// Only contenders whose name begins with one of these
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "shoal")]
    pub contender: Vec<String>,
    /// Tiny sizes: shows that the comparison works
    #[arg(long)]
    pub quick: bool,
    /// Where every random choice starts
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Where the results are written, lab/records of the checkout unless told; `none` for nowhere
    #[arg(long, value_name = "FOLDER")]
    pub records: Option<PathBuf>,
}

/// `lab profile`.
#[derive(Clone, Debug, Args)]
pub struct ProfileArguments {
    /// The row
    pub row: String,
    /// Whose run is profiled
    #[arg(long, default_value = "shoal")]
    pub contender: String,
    /// The profiler
    #[arg(long, value_enum, default_value_t = Profiler::Callgrind)]
    pub with: Profiler,
    /// Functions that are printed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Prints of each function who calls it and whom it calls (callgrind)
    #[arg(long)]
    pub graph: bool,
    /// Writes a flame graph, of samples with their stacks (perf)
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,
    /// Tiny sizes
    #[arg(long)]
    pub quick: bool,
    /// Runs the row once in this process: what the profiler starts
    #[arg(long, hide = true)]
    pub once: bool,
}

/// Ways to count where time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Profiler {
    /// Instruction counts, repeatable, of the measured region alone; slow
    Callgrind,
    /// Samples of the whole process, where the kernel allows them
    Perf,
    /// Counters of the processor over the whole process, those that the machine shows
    Stat,
}

/// `lab report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArguments {
    /// Records: what `--json` wrote. Several are put together when they are of one commit and
    /// one machine
    #[arg(required = true)]
    pub records: Vec<PathBuf>,
    /// Writes the records as one
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the report as one page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Writes the report for the documentation
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Writes a picture of some rows beside one peer
    #[arg(long, value_name = "FILE", requires = "against")]
    pub picture: Option<PathBuf>,
    /// The peer of the picture
    #[arg(long, value_name = "NAME")]
    pub against: Option<String>,
    /// The rows of the picture by their ids, from the top
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub rows: Vec<String>,
}

/// `lab peers`.
#[derive(Clone, Debug, Args)]
pub struct PeersArguments {
    /// A checkout of seine, whose kernel then takes part
    #[arg(long, value_name = "FOLDER")]
    pub seine: Option<PathBuf>,
    /// Builds SQLCipher, too, for the rows of sealed files; wants OpenSSL's headers
    #[arg(long)]
    pub sqlcipher: bool,
    /// The folder with the amalgamation of SQLite3 Multiple Ciphers, for the rows of sealed files
    #[arg(long, value_name = "FOLDER")]
    pub sqlite3mc: Option<PathBuf>,
    /// Builds these peers alone: features of lab-peers
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leaves out the second build of SQLite and libargon2, with flags for speed
    #[arg(long)]
    pub no_tuned: bool,
    /// Builds for this processor, where the default builds for all of its kind
    #[arg(long)]
    pub native: bool,
    /// What the lab is then run with
    #[arg(last = true)]
    pub arguments: Vec<String>,
}

/// `lab serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// The row; without it contenders are listed
    #[arg(long)]
    pub row: Option<String>,
    /// The contender
    #[arg(long)]
    pub contender: Option<String>,
    /// How large the rows are
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Where every random choice starts
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The corpora
    #[arg(long, default_value = "testdata")]
    pub data: PathBuf,
    /// Files of this contender in this run
    #[arg(long, default_value = ".")]
    pub scratch: PathBuf,
    /// Generated databases
    #[arg(long, default_value = ".")]
    pub cache: PathBuf,
}

impl Serve {
    pub(crate) fn context(&self) -> Context {
        Context {
            scale: self.scale,
            data: self.data.clone(),
            scratch: self.scratch.clone(),
            cache: self.cache.clone(),
            seed: self.seed,
        }
    }
}
