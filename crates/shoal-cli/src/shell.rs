//! The SQL shell: statements and dot commands run one after another, from arguments, a script or a
//! terminal.

mod commands;
mod complete;
mod highlight;
mod history;
pub(crate) mod interrupt;
pub(crate) mod narrowed;
mod output;
mod params;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod terminal;
mod usage;
mod words;
