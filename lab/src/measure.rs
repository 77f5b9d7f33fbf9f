//! One row, all contenders: answers first, then samples in turns.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::engine::{About, Miss};
use crate::random::Random;
use crate::record::{Outcome, RowRecord, Sample};
use crate::worker::client::{Program, Worker};
use crate::worker::{Ask, Reply};
use crate::workload::{Context, Family, Row};

/// Someone who takes part in this run.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub(crate) family: Family,
    /// The contender, with the name used by reports.
    pub(crate) about: About,
    /// The contender's name in its own program.
    pub(crate) name: String,
    pub(crate) program: Program,
    /// The reason, if the contender cannot run at all.
    pub(crate) absence: Option<Miss>,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) cold: usize,
    pub(crate) budget: Duration,
    pub(crate) patience: Duration,
    /// Rest before the first sample of a row.
    pub(crate) rest: Duration,
    /// Takes every warm sample in a process of its own, as the second sample there: the placement
    /// of memory is then drawn anew each time, and is no part of the difference between two builds.
    pub(crate) fresh: bool,
}

/// Measures one row. `tell` hears who is at work.
pub(crate) fn measure(
    row: &Row,
    entrants: &[Entrant],
    plan: &Plan,
    cx: &Context,
    random: &mut Random,
    tell: &mut dyn FnMut(&str),
) -> RowRecord {
    let family: Vec<&Entrant> =
        entrants.iter().filter(|entrant| entrant.family == row.family).collect();
    let mut lanes: Vec<Lane<'_>> = family.iter().map(|entrant| Lane::new(entrant, cx)).collect();
    let start = Instant::now();
    std::thread::sleep(plan.rest);
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    random.shuffle(&mut order);
    for (place, &lane) in order.iter().enumerate() {
        tell(&lanes[lane].entrant.about.name);
        lanes[lane].verify(row, plan, place);
    }
    compare(&mut lanes);
    for extra in 1..plan.cold.max(1) {
        if start.elapsed() > plan.budget / 2 {
            break;
        }
        random.shuffle(&mut order);
        for (place, &lane) in order.iter().enumerate() {
            tell(&lanes[lane].entrant.about.name);
            lanes[lane].cold(row, plan, extra, place);
        }
    }
    let warm_rounds = if row.memory { 0 } else { plan.rounds };
    for round in 0..warm_rounds {
        // A B B A: every second round runs backwards, so a drift of the machine favours no one.
        if round % 2 == 0 {
            if round > 0 && start.elapsed() > plan.budget {
                break;
            }
            random.shuffle(&mut order);
        } else {
            order.reverse();
        }
        for (place, &lane) in order.iter().enumerate() {
            tell(&lanes[lane].entrant.about.name);
            lanes[lane].warm(row, plan, round, place);
        }
    }
    RowRecord { row: row.clone(), outcomes: lanes.into_iter().map(|lane| lane.outcome).collect() }
}

/// A contender on its way through a row.
struct Lane<'a> {
    entrant: &'a Entrant,
    cx: Context,
    worker: Option<Worker>,
    answer: Option<Answer>,
    outcome: Outcome,
}

impl<'a> Lane<'a> {
    fn new(entrant: &'a Entrant, cx: &Context) -> Self {
        let folder: String = entrant
            .about
            .name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let scratch = cx.scratch.join(format!("{}-{folder}", entrant.family.name()));
        let mut outcome = Outcome::missed(&entrant.about.name, Miss::not_built());
        outcome.miss.clone_from(&entrant.absence);
        Self { entrant, cx: Context { scratch, ..cx.clone() }, worker: None, answer: None, outcome }
    }

    fn start(&self, row: &Row, plan: &Plan) -> Result<Worker, Miss> {
        Worker::start(&self.entrant.program, &row.id, &self.entrant.name, &self.cx, plan.patience)
    }

    fn gives_up(&mut self, miss: Miss) {
        self.worker = None;
        // A missing operation may be a peer's choice for good; one of ours is still to come.
        self.outcome.miss = Some(match miss {
            Miss::NotRun(why) if self.entrant.about.ours && why.ends_with(Miss::ABSENT) => {
                Miss::not_built()
            }
            miss => miss,
        });
    }

    fn out(&self) -> bool {
        self.outcome.miss.is_some()
    }

    fn verify(&mut self, row: &Row, plan: &Plan, place: usize) {
        if self.out() {
            return;
        }
        let asked = self.start(row, plan).and_then(|mut worker| {
            let reply = worker.ask(Ask::Verify)?;
            Ok((worker, reply))
        });
        match asked {
            Ok((worker, mut reply)) => {
                self.outcome.cold.push(sample(&reply, 0, place));
                self.outcome.figures = std::mem::take(&mut reply.figures);
                self.answer = reply.answer;
                self.worker = keeps(row, plan).then_some(worker);
            }
            Err(miss) => self.gives_up(miss),
        }
    }

    /// Takes the first sample of a fresh process; the fresh process then replaces the present one.
    fn cold(&mut self, row: &Row, plan: &Plan, round: usize, place: usize) {
        if self.out() {
            return;
        }
        self.worker = None;
        let asked = self.start(row, plan).and_then(|mut worker| {
            let reply = worker.ask(Ask::Sample)?;
            Ok((worker, reply))
        });
        match asked {
            Ok((worker, reply)) => {
                self.outcome.cold.push(sample(&reply, round, place));
                self.worker = keeps(row, plan).then_some(worker);
            }
            Err(miss) => self.gives_up(miss),
        }
    }

    fn warm(&mut self, row: &Row, plan: &Plan, round: usize, place: usize) {
        if self.out() {
            return;
        }
        let asked = if !keeps(row, plan) {
            self.start(row, plan).and_then(|mut worker| {
                worker.ask(Ask::Sample)?;
                worker.ask(Ask::Sample)
            })
        } else {
            match &mut self.worker {
                Some(worker) => worker.ask(Ask::Sample),
                None => Err(Miss::Failed("the worker is gone".into())),
            }
        };
        match asked {
            Ok(reply) if self.differs(&reply) => {
                self.gives_up(Miss::Failed("a later answer differs from the first".into()));
            }
            Ok(reply) => self.outcome.warm.push(sample(&reply, round, place)),
            Err(miss) => self.gives_up(miss),
        }
    }

    fn differs(&self, reply: &Reply) -> bool {
        reply.answer.is_some() && reply.answer != self.answer
    }
}

/// True when a contender's process lives on from sample to sample.
const fn keeps(row: &Row, plan: &Plan) -> bool {
    !row.solo && !row.memory && !plan.fresh
}

fn sample(reply: &Reply, round: usize, place: usize) -> Sample {
    Sample {
        round,
        place,
        nanos: reply.nanos,
        ops: reply.ops,
        allocations: reply.allocations,
        allocated_bytes: reply.allocated_bytes,
        peak_kib: reply.peak_kib,
        steady_kib: reply.steady_kib,
    }
}

/// Fails every contender whose answer is not the most frequent one. Without a single most frequent
/// answer nobody can be told right, and all fail.
fn compare(lanes: &mut [Lane<'_>]) {
    let digests: Vec<_> = lanes.iter().map(|lane| Some(lane.answer.as_ref()?.digest)).collect();
    judge(lanes, &digests, "its answer differs");
    let formats: Vec<String> = lanes
        .iter()
        .filter_map(|lane| Some(lane.answer.as_ref()?.native.as_ref()?.0.clone()))
        .collect();
    for format in formats {
        let digests: Vec<_> = lanes
            .iter()
            .map(|lane| {
                let native = lane.answer.as_ref()?.native.as_ref()?;
                (native.0 == format && !lane.out()).then_some(native.1)
            })
            .collect();
        judge(lanes, &digests, "its heads differ");
    }
}

fn judge(lanes: &mut [Lane<'_>], digests: &[Option<crate::answer::Digest>], charge: &str) {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    for digest in digests.iter().flatten() {
        *votes.entry(digest.value()).or_default() += 1;
    }
    if votes.len() < 2 {
        return;
    }
    let most = votes.values().copied().max().unwrap_or(0);
    let leaders: Vec<u64> =
        votes.iter().filter(|&(_, &count)| count == most).map(|(&digest, _)| digest).collect();
    let all: usize = votes.values().sum();
    for (lane, digest) in lanes.iter_mut().zip(digests) {
        let Some(digest) = digest else { continue };
        if leaders.len() > 1 || digest.value() != leaders[0] {
            let why = format!(
                "{charge}: {:016x}, given by {} of {all}",
                digest.value(),
                votes[&digest.value()]
            );
            lane.gives_up(Miss::Failed(why));
        }
    }
}

#[cfg(test)]
mod tests;
