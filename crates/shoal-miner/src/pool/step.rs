//! Evidence of jobs out of step: stale shares of this connection's jobs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::pool::Limits;

/// This connection's jobs, and the stale answers to their shares.
#[derive(Debug, Default)]
pub(super) struct InStep {
    /// Names of this connection's jobs, newest last.
    heard: VecDeque<String>,
    /// Moments of stale answers to shares of these jobs.
    stale: VecDeque<Instant>,
    /// Stale shares of the newest job since one of its shares was accepted.
    run: usize,
}

impl InStep {
    /// A job came.
    pub(super) fn hear(&mut self, job_id: &str) {
        self.heard.push_back(job_id.to_owned());
        if self.heard.len() > HEARD_MAX {
            self.heard.pop_front();
        }
        self.run = 0;
    }

    /// A share of the newest job was accepted.
    pub(super) fn accept(&mut self) {
        self.run = 0;
    }

    /// A share of a job was refused as stale. `true` when that shows this connection's jobs to
    /// differ from the pool's. A share of another connection's job shows nothing about this one;
    /// nor does a single share, unless very late.
    pub(super) fn is_lost(
        &mut self,
        job_id: &str,
        stale_for: Option<Duration>,
        limits: &Limits,
        now: Instant,
    ) -> bool {
        if !self.heard.iter().any(|heard| heard == job_id) {
            return false;
        }
        self.stale.push_back(now);
        while self.stale.front().is_some_and(|&at| now - at > limits.stale_window) {
            self.stale.pop_front();
        }
        self.run += usize::from(self.heard.back().is_some_and(|newest| newest == job_id));
        stale_for.is_some_and(|time| time >= limits.stale_for)
            || self.stale.len() >= limits.stale_max
            || self.run >= limits.stale_max
    }
}

const HEARD_MAX: usize = 64;
