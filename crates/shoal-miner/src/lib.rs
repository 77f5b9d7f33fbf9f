//! Mining on Argon2id: a door on `shoal-pow` that the database never sees.
//!
//! [`engine`] deals the nonces of a [`Work`] to backends, in leases that neither overlap nor leave
//! gaps, and reports solutions. [`backend`] is the trait behind which processors and devices stand.
//! [`topology`] and [`memory`] say what the machine has, [`tune`] what is best on it, [`bench`]
//! what that comes to, and [`doctor`] what is missing.
//!
//! A [`session`] joins an engine with a [`source`] of work, a [`pool`] or a [`node`]. The [`miner`]
//! begins and ends sessions as its [`config`] and the [`api`] want; what happens stands on the
//! [`board`], which the [`ui`] shows.

#![forbid(unsafe_code)]

pub mod api;
pub mod backend;
pub mod bench;
pub mod board;
pub mod config;
pub mod doctor;
pub mod engine;
pub mod memory;
pub mod miner;
pub mod node;
pub mod pool;
pub mod session;
pub mod source;
pub mod status;
pub mod topology;
pub mod tune;
pub mod ui;
pub mod work;

mod crew;
mod host_port;
mod lease;
mod rate;
mod schedule;
mod secret;

pub use backend::cpu::{CpuBackend, CpuOptions};
pub use engine::{Engine, EngineError, EngineOptions, Event};
pub use status::Status;
pub use work::{Handover, Solution, Work};
