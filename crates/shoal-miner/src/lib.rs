//! Mining on Argon2id: a door on `shoal-pow`, never seen by the database.
//!
//! [`engine`] deals the nonces of a [`Work`] to backends, in leases without overlaps or
//! gaps, and reports solutions. [`backend`] is the trait of processors and devices.
//! [`topology`] and [`memory`] describe the machine, [`tune`] finds its best plan, [`bench`]
//! measures, and [`doctor`] names shortages.
//!
//! A [`session`] joins an engine with a [`source`] of work, a [`pool`] or a [`node`]. The [`miner`]
//! begins and ends sessions as its [`config`] and the [`api`] want; events stand on the
//! [`board`], shown by the [`ui`].

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

mod backend_threads;
mod host_port;
mod lease;
mod rate;
mod schedule;
mod secret;

pub use backend::cpu::{CpuBackend, CpuOptions};
pub use engine::{Engine, EngineError, EngineOptions, Event};
pub use status::Status;
pub use work::{Handover, Solution, Work};
