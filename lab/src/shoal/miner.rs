//! Proof of work: bare loops over nonces, and the miner's engine dealing the same nonces.

use std::sync::mpsc::Receiver;

use shoal_argon::{Isa, Options};
use shoal_miner::engine::WorkEnd;
use shoal_miner::{CpuBackend, CpuOptions, Engine, EngineOptions, Event, Handover, Work};
use shoal_pow::{Challenge, Search, Target};

use crate::engine::hash::{Costs, TryNonces};
use crate::engine::{About, HashEngine, Miss};

/// The easiest target: every tag is good enough, so every tag is reported.
const ANY: [u8; 32] = [0xff; 32];

/// A challenge met by every tag.
pub(super) fn easiest(memory_kib: u32, header: &[u8]) -> Result<Challenge, Miss> {
    Challenge::new(header, memory_kib, Target::from_bytes(ANY)).map_err(Miss::failed)
}

/// One loop for each thread, each in memory of its own.
pub(super) struct BareLoops {
    isa: Isa,
    memory_kib: u32,
    searches: Vec<Search>,
}

impl BareLoops {
    pub(super) fn new(isa: Isa, costs: Costs, thread_count: usize) -> Result<Self, Miss> {
        proof_of_work(costs)?;
        let searches = (0..thread_count)
            .map(|_| Search::new(costs.memory_kib, 1).map_err(Miss::failed))
            .collect::<Result<_, Miss>>()?;
        Ok(Self { isa, memory_kib: costs.memory_kib, searches })
    }
}

impl TryNonces for BareLoops {
    fn try_nonces(&mut self, header: &[u8], first: u64, tags: &mut [[u8; 32]]) -> Result<(), Miss> {
        let challenge = easiest(self.memory_kib, header)?;
        let share = tags.len().div_ceil(self.searches.len());
        std::thread::scope(|scope| {
            let loops: Vec<_> = self
                .searches
                .iter_mut()
                .zip(tags.chunks_mut(share))
                .zip((first..).step_by(share))
                .map(|((search, tags), first)| {
                    let (challenge, isa) = (&challenge, self.isa);
                    scope.spawn(move || {
                        let options = Options::default().isa(isa);
                        tags.chunks_mut(1).zip(first..).try_for_each(|(tag, nonce)| {
                            search.tags(challenge, nonce, tag, &options)
                        })
                    })
                })
                .collect();
            loops.into_iter().try_for_each(|one| {
                one.join()
                    .map_err(|_| Miss::Failed("a thread panicked".into()))?
                    .map_err(Miss::failed)
            })
        })
    }
}

/// The miner's engine with the processor as its only backend, one hash at a time on each thread.
pub(super) struct Backend;

impl HashEngine for Backend {
    type Arena = ();

    fn about(&self) -> About {
        About::ours("shoal backend", "the miner's engine: leases, workers on cores of their own")
    }

    fn nonces(&self, costs: Costs, thread_count: usize) -> Result<Box<dyn TryNonces>, Miss> {
        proof_of_work(costs)?;
        let options = CpuOptions {
            memory_kib: costs.memory_kib,
            threads: Some(thread_count),
            side_by_side: Some(1),
            ..CpuOptions::default()
        };
        let backend = CpuBackend::new(&options).map_err(Miss::failed)?;
        let (engine, events) =
            Engine::start(EngineOptions::new(vec![Box::new(backend)])).map_err(Miss::failed)?;
        let dealt = Dealt { engine, events, memory_kib: costs.memory_kib, works: 0 };
        dealt.wait(|event| matches!(event, Event::BackendReady { .. }))?;
        Ok(Box::new(dealt))
    }

    fn hash(&self, _: Costs, _: &[u8], _: &[u8], _: &mut [u8; 32]) -> Result<(), Miss> {
        Err(Miss::NotRun("it tries nonces; hashes are another contender's".into()))
    }
}

/// An engine with its memory and its threads.
struct Dealt {
    engine: Engine,
    events: Receiver<Event>,
    memory_kib: u32,
    works: u64,
}

impl Dealt {
    /// Waits for the first event to satisfy `is_it`; events before are dropped.
    fn wait(&self, mut is_it: impl FnMut(&Event) -> bool) -> Result<(), Miss> {
        loop {
            match self.events.recv() {
                Ok(Event::BackendQuarantined { fault, .. }) => {
                    return Err(Miss::Failed(format!("the backend failed: {fault}")));
                }
                Ok(event) if is_it(&event) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(Miss::Failed("the engine ended".into())),
            }
        }
    }
}

impl TryNonces for Dealt {
    fn try_nonces(&mut self, header: &[u8], first: u64, tags: &mut [[u8; 32]]) -> Result<(), Miss> {
        self.works += 1;
        let work = Work {
            id: self.works,
            header: header.to_vec(),
            memory_kib: self.memory_kib,
            target: Target::from_bytes(ANY),
            nonces: first..first + tags.len() as u64,
            deadline: None,
            pause_on_solution: false,
        };
        self.engine.assign(work, Handover::Abandon).map_err(Miss::failed)?;
        let mut found = 0;
        self.wait(|event| match event {
            Event::Solution(solution) => {
                tags[(solution.nonce - first) as usize] = solution.tag;
                found += 1;
                false
            }
            Event::WorkDone { end: WorkEnd::Exhausted, .. } => true,
            _ => false,
        })?;
        if found == tags.len() { Ok(()) } else { Err(Miss::Failed(format!("{found} tags came"))) }
    }
}

/// A proof of work has one pass and one lane.
pub(super) fn proof_of_work(costs: Costs) -> Result<(), Miss> {
    if (costs.passes, costs.lanes) == (1, 1) {
        Ok(())
    } else {
        Err(Miss::absent("a proof of work with more than one pass or lane"))
    }
}
