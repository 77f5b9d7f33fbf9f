//! What the engine is doing, as plain numbers and names that serialize.

use serde::Serialize;

use crate::backend::{Capabilities, Worker};

/// What the engine is doing, at one moment. Rates are hashes a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// What the engine is doing.
    pub phase: EnginePhase,
    /// Seconds since it was started.
    pub uptime_secs: f64,
    /// Seconds since the first backend was ready.
    pub ready_secs: f64,
    /// Seconds during which there was work and a backend to do it.
    pub working_secs: f64,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over `ready_secs`: time without work counts.
    pub rate_average: f64,
    /// Hashes finished, late ones not among them.
    pub hashes: u64,
    /// Hashes finished for a work that had ended by then.
    pub late_hashes: u64,
    /// Solutions reported.
    pub solutions: u64,
    /// Solutions and witnesses of backends that were none.
    pub false_solutions: u64,
    /// The work of the moment.
    pub work: Option<WorkStatus>,
    /// One entry for each backend, in the order they were given.
    pub backends: Vec<BackendStatus>,
}

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnginePhase {
    /// No backend is ready yet.
    Starting,
    /// Backends are ready, and there is no work.
    Idle,
    /// Nonces are tried.
    Working,
    /// Every backend is quarantined.
    Dead,
    /// It was told to stop.
    Stopped,
}

/// The work of the moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkStatus {
    /// Its id.
    pub id: u64,
    /// Nonces tried.
    pub tried: u64,
    /// Nonces in all.
    pub nonces: u64,
    /// Seconds since it was assigned.
    pub age_secs: f64,
}

/// A backend at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackendStatus {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub phase: BackendPhase,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The kernel that runs.
    pub kernel: String,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over the time since it was ready, with work or without.
    pub rate_average: f64,
    /// Hashes finished, late ones not among them.
    pub hashes: u64,
    /// Hashes finished for a work that had ended by then.
    pub late_hashes: u64,
    /// Its share of the work, 0 to 1.
    pub share: f64,
    /// Times it was slow to take work.
    pub strikes: u32,
    /// Tags that a device reported, solutions among them: one nonce in so many has one.
    pub witnesses: u64,
    /// Its tags that were computed again and were true.
    pub spot_checks: u64,
    /// Why it is quarantined.
    pub fault: Option<String>,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
}

/// What a backend is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendPhase {
    /// It takes memory and starts threads.
    Starting,
    /// It waits for work.
    Idle,
    /// It tries nonces.
    Working,
    /// It lost its place.
    Quarantined,
    /// It was stopped.
    Stopped,
}

/// A worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// What the backend says of it.
    #[serde(flatten)]
    pub worker: Worker,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over the time since its backend was ready.
    pub rate_average: f64,
}
