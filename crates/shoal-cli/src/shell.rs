//! The SQL shell: statements run one after another, from arguments, stdin or a terminal.

pub(crate) mod interrupt;
mod params;
pub(crate) mod session;
pub(crate) mod terminal;
