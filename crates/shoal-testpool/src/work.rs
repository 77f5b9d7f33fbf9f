//! Headers, templates, and the windows of nonces that miners are given.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_pow::Target;
use shoal_stdx::hex;

use crate::random_u64;

/// A block header without its nonce: 92 bytes, integers little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Height of the block.
    pub height: u64,
    /// Id of the block before it.
    pub previous: [u8; 32],
    /// Root of its transactions.
    pub merkle_root: [u8; 32],
    /// Seconds since 1970.
    pub timestamp: i64,
    /// How hard the block is.
    pub difficulty: u64,
}

impl Header {
    /// Bytes of a header without its nonce.
    pub const BYTES: usize = 92;

    /// The bytes to hash with a nonce.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.height.to_le_bytes());
        bytes.extend(self.previous);
        bytes.extend(self.merkle_root);
        bytes.extend(self.timestamp.to_le_bytes());
        bytes.extend(self.difficulty.to_le_bytes());
        bytes
    }

    /// A header with a root and a previous block that nobody has seen before.
    pub fn sample(height: u64, difficulty: u64) -> Self {
        let noise = || {
            let mut bytes = [0; 32];
            bytes.chunks_exact_mut(8).for_each(|part| {
                part.copy_from_slice(&random_u64().to_le_bytes());
            });
            bytes
        };
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            version: 1,
            height,
            previous: noise(),
            merkle_root: noise(),
            timestamp: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            difficulty,
        }
    }
}

/// A block to be found, the subject of every miner's job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name, 16 hexadecimal digits.
    pub id: String,
    /// The header without its nonce.
    pub header: Vec<u8>,
    /// Height of the block.
    pub height: u64,
    /// Greatest tag of a block.
    pub network_target: Target,
}

impl Template {
    /// A fresh template.
    pub fn sample(height: u64, difficulty: u64) -> Self {
        Self {
            id: random_id(),
            header: Header::sample(height, difficulty).to_bytes(),
            height,
            network_target: Target::from_difficulty(difficulty),
        }
    }
}

/// Sixteen hexadecimal digits nobody can guess.
pub(crate) fn random_id() -> String {
    hex::encode(&random_u64().to_be_bytes())
}

/// A window of nonces, given to a miner for a template.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) job_id: String,
    pub(crate) template: Arc<Template>,
    pub(crate) address: String,
    pub(crate) difficulty: u64,
    pub(crate) first: u64,
    /// Inclusive.
    pub(crate) last: u64,
    given: Instant,
    superseded: Option<Instant>,
}

/// How long assignments last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) window: u64,
    pub(crate) template_grace: Duration,
    pub(crate) supersede_grace: Duration,
    pub(crate) ttl: Duration,
}

/// Every assignment a share may still name.
#[derive(Debug)]
pub(crate) struct Assignments {
    lifetimes: Lifetimes,
    slot: u64,
    by_job: HashMap<String, Assignment>,
    order: VecDeque<String>,
    /// Newest last, with the moment each stopped being the current one.
    templates: VecDeque<(Arc<Template>, Option<Instant>)>,
    /// The current job of each connection.
    current: HashMap<u64, String>,
}

impl Assignments {
    pub(crate) fn new(lifetimes: Lifetimes, template: Template) -> Self {
        Self {
            lifetimes,
            slot: random_u64(),
            by_job: HashMap::new(),
            order: VecDeque::new(),
            templates: VecDeque::from([(Arc::new(template), None)]),
            current: HashMap::new(),
        }
    }

    /// The template of the moment.
    pub(crate) fn template(&self) -> Arc<Template> {
        Arc::clone(&self.templates.back().expect("there is always a template").0)
    }

    /// Another template takes over.
    pub(crate) fn replace_template(&mut self, template: Template, now: Instant) {
        if let Some((_, until)) = self.templates.back_mut() {
            *until = Some(now);
        }
        self.templates.push_back((Arc::new(template), None));
        while self.templates.len() > TEMPLATES_MAX {
            self.templates.pop_front();
        }
    }

    /// A fresh window of the current template.
    pub(crate) fn give(
        &mut self,
        connection: u64,
        address: &str,
        difficulty: u64,
        now: Instant,
    ) -> Assignment {
        let template = self.template();
        if let Some(before) = self.current.get(&connection).and_then(|id| self.by_job.get_mut(id))
            && Arc::ptr_eq(&before.template, &template)
        {
            before.superseded.get_or_insert(now);
        }
        let slots = i64::MAX as u64 / self.lifetimes.window;
        self.slot = self.slot.wrapping_add(1);
        let first = self.slot % slots * self.lifetimes.window;
        let assignment = Assignment {
            job_id: random_id(),
            template,
            address: address.to_owned(),
            difficulty,
            first,
            last: first + self.lifetimes.window - 1,
            given: now,
            superseded: None,
        };
        self.current.insert(connection, assignment.job_id.clone());
        self.order.push_back(assignment.job_id.clone());
        self.by_job.insert(assignment.job_id.clone(), assignment.clone());
        while self.order.len() > ASSIGNMENTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by_job.remove(&oldest);
            }
        }
        assignment
    }

    /// The connection is gone; its assignments stay good for their time.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.current.remove(&connection);
    }

    /// The assignment of a share, if still good when the share was received.
    pub(crate) fn resolve(&self, job_id: &str, received: Instant) -> Result<&Assignment, Stale> {
        let assignment = self.by_job.get(job_id).ok_or(Stale::NotFound)?;
        let lifetimes = &self.lifetimes;
        let age = received.saturating_duration_since(assignment.given);
        if age > lifetimes.ttl {
            return Err(Stale::Expired { age, ttl: lifetimes.ttl });
        }
        if let Some(since) = assignment.superseded {
            let stale_for = received.saturating_duration_since(since);
            if stale_for > lifetimes.supersede_grace {
                return Err(Stale::Superseded { stale_for, grace: lifetimes.supersede_grace });
            }
        }
        let id = &assignment.template.id;
        let found = self.templates.iter().find(|(template, _)| template.id == *id);
        let Some((_, until)) = found else {
            return Err(Stale::TemplateGone { template: id.clone() });
        };
        if let Some(since) = until {
            let stale_for = received.saturating_duration_since(*since);
            if stale_for > lifetimes.template_grace {
                return Err(Stale::Template {
                    template: id.clone(),
                    current: self.template().id.clone(),
                    stale_for,
                    grace: lifetimes.template_grace,
                });
            }
        }
        Ok(assignment)
    }
}

/// Why a share comes too late, in the pool's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    NotFound,
    Expired { age: Duration, ttl: Duration },
    Superseded { stale_for: Duration, grace: Duration },
    Template { template: String, current: String, stale_for: Duration, grace: Duration },
    TemplateGone { template: String },
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stale job: ")?;
        match self {
            Self::NotFound => f.write_str("assignment not found"),
            Self::Expired { age, ttl } => {
                write!(f, "assignment expired (age={}, ttl={})", time(*age), time(*ttl))
            }
            Self::Superseded { stale_for, grace } => write!(
                f,
                "assignment superseded by newer difficulty (stale_for={}, stale_grace={})",
                time(*stale_for),
                time(*grace)
            ),
            Self::Template { template, current, stale_for, grace } => write!(
                f,
                "template {template} exceeded stale grace (current={current}, stale_for={}, \
                 stale_grace={})",
                time(*stale_for),
                time(*grace)
            ),
            Self::TemplateGone { template } => {
                write!(f, "template {template} for assignment is no longer available")
            }
        }
    }
}

/// Milliseconds below a second, seconds with three digits from there on.
fn time(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ ..1000 => format!("{millis}ms"),
        _ => format!("{:.3}s", duration.as_secs_f64()),
    }
}

const TEMPLATES_MAX: usize = 16;
const ASSIGNMENTS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn assignments() -> Assignments {
        let lifetimes = Lifetimes {
            window: 1_000_000,
            template_grace: Duration::from_secs(5),
            supersede_grace: Duration::from_secs(5),
            ttl: Duration::from_secs(300),
        };
        Assignments::new(lifetimes, Template::sample(7, 100))
    }

    #[test]
    fn a_header_has_its_fields_where_they_belong() {
        let header = Header { version: 2, timestamp: -1, ..Header::sample(0x0102, 0x0304) };
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), Header::BYTES);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[12..44], header.previous);
        assert_eq!(bytes[44..76], header.merkle_root);
        assert_eq!(bytes[76..84], [0xff; 8]);
        assert_eq!(bytes[84..], [4, 3, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn windows_never_overlap_and_fit_63_bits() {
        let mut assignments = assignments();
        let now = Instant::now();
        let mut windows: Vec<(u64, u64)> = (0..100)
            .map(|i| assignments.give(i % 3, "a", 1, now))
            .map(|assignment| (assignment.first, assignment.last))
            .collect();
        windows.sort_unstable();
        assert!(windows.windows(2).all(|two| two[0].1 < two[1].0), "{windows:?}");
        assert!(windows.iter().all(|&(first, last)| last - first == 999_999));
        assert!(windows.iter().all(|&(_, last)| i64::try_from(last).is_ok()));
    }

    #[test]
    fn what_is_stale_is_said_in_the_pools_words() {
        let mut assignments = assignments();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let check = |assignments: &Assignments, job: &str, at, expect: &str| {
            let said = assignments
                .resolve(job, at)
                .map_or_else(|stale| stale.to_string(), |_| String::new());
            assert_eq!(said, expect);
        };
        let first = assignments.give(1, "a", 60, start).job_id;
        check(&assignments, "no such job", start, "stale job: assignment not found");
        check(&assignments, &first, after(300_000), "");
        check(
            &assignments,
            &first,
            after(300_500),
            "stale job: assignment expired (age=300.500s, ttl=300.000s)",
        );
        let second = assignments.give(1, "a", 90, after(1000)).job_id;
        check(&assignments, &first, after(6000), "");
        check(
            &assignments,
            &first,
            after(6100),
            "stale job: assignment superseded by newer difficulty (stale_for=5.100s, \
             stale_grace=5.000s)",
        );
        let old = assignments.template().id.clone();
        assignments.replace_template(Template::sample(8, 100), after(10_000));
        let new = assignments.template().id.clone();
        check(&assignments, &second, after(15_000), "");
        check(
            &assignments,
            &second,
            after(30_000),
            &format!(
                "stale job: template {old} exceeded stale grace (current={new}, \
                 stale_for=20.000s, stale_grace=5.000s)"
            ),
        );
        for height in 9..30 {
            assignments.replace_template(Template::sample(height, 100), after(16_000));
        }
        check(
            &assignments,
            &second,
            after(16_000),
            &format!("stale job: template {old} for assignment is no longer available"),
        );
        assert_eq!(time(Duration::from_millis(12)), "12ms");
    }
}
