//! The node's client: templates, submits and events of a node on this machine, over HTTP.
//!
//! A solution is a block. Templates are asked for again from time to time, because the
//! node's own transactions change them, and at once when a block was found.

mod client;
mod events;
mod http;
mod submitter;
mod template;

pub use client::{NodeOptions, connect};
pub use events::{NodeEvent, Parser};
pub use http::{NodeUrl, NodeUrlError, Token};
pub use template::{Template, TemplateError};
