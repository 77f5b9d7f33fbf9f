//! `shoal graph` as types.

use std::path::PathBuf;

use clap::Args;

/// `shoal graph`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Draws the nodes around one, followed in either direction, or the first nodes of the graph. The drawing \
is always the same for the same graph. A note says what was left out.

Examples:
  shoal graph trips.db --svg > trips.svg
  shoal graph shop.db --graph sales --around customer/7 --depth 2 --html > sales.html
  shoal graph trips.db --dot | dot -Tpdf > trips.pdf")]
#[command(group = clap::ArgGroup::new("form").args(["dot", "svg", "html"]))]
pub(crate) struct GraphArgs {
    /// A SQLite database
    pub(crate) file: PathBuf,
    /// Draw the graph that CREATE PROPERTY GRAPH made of tables under this name
    #[arg(long, value_name = "NAME")]
    pub(crate) graph: Option<String>,
    /// The node in the middle: LABEL/KEY, a key of the first vertex table, or an id
    #[arg(long, value_name = "NODE")]
    pub(crate) around: Option<String>,
    /// Steps from that node
    #[arg(long, default_value_t = 2)]
    pub(crate) depth: u32,
    /// Nodes at most
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) nodes: u32,
    /// Print the language of Graphviz [default]
    #[arg(long)]
    pub(crate) dot: bool,
    /// Print SVG
    #[arg(long)]
    pub(crate) svg: bool,
    /// Print a page for a browser
    #[arg(long)]
    pub(crate) html: bool,
}
