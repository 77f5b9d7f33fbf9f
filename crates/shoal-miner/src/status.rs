//! State of the engine, as plain numbers and names to serialize.

use serde::Serialize;

use crate::backend::{Capabilities, Worker};

/// State of the engine at one moment. Rates are hashes a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Phase of the engine.
    pub phase: EnginePhase,
    /// Seconds since the start.
    pub uptime_secs: f64,
    /// Seconds since the first backend was ready.
    pub ready_secs: f64,
    /// Seconds with both work and a backend for it.
    pub working_secs: f64,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over `ready_secs`: time without work counts.
    pub rate_average: f64,
    /// Hashes finished, late ones not among them.
    pub hashes: u64,
    /// Hashes finished after the end of their work.
    pub late_hashes: u64,
    /// Solutions reported.
    pub solutions: u64,
    /// False solutions and witnesses of backends.
    pub false_solutions: u64,
    /// The work of the moment.
    pub work: Option<WorkStatus>,
    /// One entry for each backend, in the order they were given.
    pub backends: Vec<BackendStatus>,
}

/// Phase of the engine.
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
    /// Stopped on request.
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
    /// Seconds since the assignment.
    pub age_secs: f64,
}

/// A backend at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackendStatus {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: BackendPhase,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its kernel.
    pub kernel: String,
    /// Watts drawn by a device; `None` where nobody tells.
    pub watts: Option<f64>,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over the time since its start, with work or without.
    pub rate_average: f64,
    /// Hashes finished, late ones not among them.
    pub hashes: u64,
    /// Hashes finished after the end of their work.
    pub late_hashes: u64,
    /// Its share of the work, 0 to 1.
    pub share: f64,
    /// Times of slowness in taking work.
    pub strikes: u32,
    /// Tags reported by a device, solutions among them: one nonce in so many has one.
    pub witnesses: u64,
    /// Tags computed again and found true.
    pub spot_checks: u64,
    /// Reason of its quarantine.
    pub fault: Option<String>,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
}

/// Phase of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendPhase {
    /// Taking memory and starting threads.
    Starting,
    /// Waiting for work.
    Idle,
    /// Trying nonces.
    Working,
    /// Out of place for a fault.
    Quarantined,
    /// Stopped.
    Stopped,
}

/// A worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// The backend's own words.
    #[serde(flatten)]
    pub worker: Worker,
    /// Over the last seconds.
    pub rate_now: f64,
    /// Over the time since its backend was ready.
    pub rate_average: f64,
}
