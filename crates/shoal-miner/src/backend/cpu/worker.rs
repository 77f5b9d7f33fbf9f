//! A worker: a thread on a core, its memory, its nonces.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use shoal_argon::Arena;
use shoal_pow::{Error, Isa, Options, Search, TAG_BYTES};

use super::{Piece, Shared, TakeArena};
use crate::backend::{BackendError, Report, Sink, Worker};
use crate::topology::pin;

/// Equipment of a worker.
pub(super) struct Seat {
    pub(super) number: usize,
    pub(super) core: Option<usize>,
    pub(super) memory_kib: u32,
    pub(super) side_by_side: usize,
    pub(super) isa: Isa,
    pub(super) flush: Duration,
    pub(super) take_arena: TakeArena,
    pub(super) shared: Arc<Shared>,
    pub(super) sink: Sink,
    pub(super) stop: Arc<AtomicBool>,
}

impl Seat {
    /// Takes the memory, reports success or failure, and works until the end.
    pub(super) fn run(self, tell: &Sender<Result<(), BackendError>>) {
        let worked = catch_unwind(AssertUnwindSafe(|| match self.search() {
            Ok(search) => {
                // The backend may have given up waiting.
                let _ = tell.send(Ok(()));
                self.work(search);
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        }));
        if worked.is_err() {
            let number = self.number;
            let error = BackendError::Device(format!("worker {number} panicked"));
            // Whichever is listened to.
            let _ = tell.send(Err(error.clone()));
            self.sink.tell(Report::Failed(error));
        }
    }

    /// Sits down on the core and takes the memory. Goes on with less than planned, as long
    /// as the memory suffices for a hash.
    fn search(&self) -> Result<Search, BackendError> {
        let core = self.core.filter(|core| pin(*core));
        if core != self.core {
            self.warn("could not be kept on its core");
        }
        let mut arenas = Vec::new();
        for _ in 0..self.side_by_side {
            if self.stop.load(Relaxed) || self.shared.lock().stopped {
                return Err(BackendError::Stopped);
            }
            match self.arena() {
                Ok(arena) => arenas.push(arena),
                Err(refused) if arenas.is_empty() => return Err(refused.into()),
                Err(_) => {
                    let count = arenas.len();
                    self.warn(&format!("has memory for fewer hashes than planned: {count}"));
                    break;
                }
            }
        }
        let search = Search::in_arenas(arenas)?;
        let mut workers = self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        workers[self.number] = describe(&search, core, self.memory_kib);
        Ok(search)
    }

    /// Memory really there, not only promised.
    fn arena(&self) -> Result<Arena, Error> {
        let mut arena = (self.take_arena)(self.memory_kib)?;
        arena.populate()?;
        Ok(arena)
    }

    fn work(&self, mut search: Search) {
        let gang = search.side_by_side() as u64;
        let mut count = gang;
        while let Some(piece) = self.shared.take(self.number, gang, count) {
            let begun = Instant::now();
            let tried = self.try_piece(&mut search, &piece);
            self.shared.put_down();
            // As many as fit between two flushes, so leases are cut seldom.
            if tried > 0 {
                let each = begun.elapsed().as_secs_f64() / tried as f64;
                count = ((self.flush.as_secs_f64() / each.max(1e-9)) as u64).max(gang);
            }
        }
    }

    /// Tries the nonces of a piece while wanted, and reports them. Returns their number.
    fn try_piece(&self, search: &mut Search, piece: &Piece) -> u64 {
        let counter = &self.shared.counters[self.number];
        let options = Options::default().isa(self.isa).stop(&counter.give_up);
        let Piece { lease, challenge, nonces, .. } = piece;
        let mut tags = vec![[0; TAG_BYTES]; search.side_by_side()];
        let (mut told, mut next) = (nonces.start, nonces.start);
        let mut told_at = Instant::now();
        let tell_done = |told: &mut u64, next: u64| {
            if *told < next {
                self.sink.tell(Report::Done { lease: *lease, nonces: *told..next });
                *told = next;
            }
        };
        while next < nonces.end && self.shared.is_wanted(piece) {
            let count = (nonces.end - next).min(tags.len() as u64) as usize;
            match search.tags(challenge, next, &mut tags[..count], &options) {
                Ok(()) => {}
                // Given up between two slices: not tried.
                Err(Error::Hash(shoal_argon::Error::Stopped)) => break,
                Err(error) => {
                    self.sink.tell(Report::Failed(error.into()));
                    break;
                }
            }
            for (tag, nonce) in tags[..count].iter().zip(next..) {
                if challenge.target().is_met_by(tag) {
                    self.sink.tell(Report::Found { lease: *lease, nonce, tag: *tag });
                }
            }
            let hashes = count as u64;
            if self.shared.is_wanted(piece) {
                counter.counted.fetch_add(hashes, Relaxed);
            } else {
                counter.late.fetch_add(hashes, Relaxed);
            }
            next += hashes;
            if told_at.elapsed() >= self.flush {
                tell_done(&mut told, next);
                told_at = Instant::now();
            }
        }
        tell_done(&mut told, next);
        next - nonces.start
    }

    fn warn(&self, text: &str) {
        self.sink.tell(Report::Warning(format!("worker {}: {text}", self.number)));
    }
}

/// The memory of a search.
pub(crate) fn describe(search: &Search, core: Option<usize>, memory_kib: u32) -> Worker {
    let pages = search.pages();
    let mut kinds: Vec<_> = pages.iter().map(|(kind, _)| kind.name()).collect();
    kinds.dedup();
    Worker {
        core,
        side_by_side: u32::try_from(pages.len()).unwrap_or(u32::MAX),
        pages: kinds.join(", "),
        memory_kib: pages.len() as u64 * u64::from(memory_kib),
        huge_kib: pages.iter().map(|(_, huge_kib)| *huge_kib).sum(),
        hashes: 0,
    }
}
