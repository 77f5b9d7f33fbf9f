//! How a hash is run, without effect on its tag: kernel, threads, and a way to watch and
//! to stop it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use crate::isa::Isa;
use crate::kernel::Control;
use crate::params::Params;

/// How a hash is run. The default is the fastest kernel and as many threads as the lanes and the
/// machine allow.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    isa: Isa,
    threads: Option<NonZeroUsize>,
    stop: Option<&'a AtomicBool>,
    progress: Option<&'a dyn Fn(Progress)>,
}

/// How far a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Slices filled so far: four a pass, all about the same work.
    pub slices_done: u32,
    /// Slices in all.
    pub slices: u32,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { isa: Isa::detect(), threads: None, stop: None, progress: None }
    }
}

impl<'a> Options<'a> {
    /// Runs this kernel.
    #[must_use]
    pub const fn isa(mut self, isa: Isa) -> Self {
        self.isa = isa;
        self
    }

    /// Fills lanes on this many threads at most, the caller's among them.
    #[must_use]
    pub const fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Gives up, between two slices, once this is true.
    #[must_use]
    pub const fn stop(mut self, stop: &'a AtomicBool) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Calls this after every slice, on the caller's thread.
    #[must_use]
    pub const fn progress(mut self, progress: &'a dyn Fn(Progress)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// The kernel to run.
    pub const fn kernel(&self) -> Isa {
        self.isa
    }

    /// Runs `run` under these options, for this many hashes of these costs.
    pub(crate) fn control<T>(
        &self,
        params: &Params,
        hashes: usize,
        run: impl FnOnce(&Control<'_>) -> T,
    ) -> T {
        let threads = self.threads.unwrap_or_else(|| threads(params, hashes));
        let tell = |slices_done, slices| {
            if let Some(progress) = self.progress {
                progress(Progress { slices_done, slices });
            }
        };
        run(&Control { threads, stop: self.stop, progress: Some(&tell) })
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("isa", &self.isa)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// As many as the machine runs at once, as long as each has work enough to be worth starting.
fn threads(params: &Params, hashes: usize) -> NonZeroUsize {
    static MACHINE: OnceLock<NonZeroUsize> = OnceLock::new();
    let lanes = params.lanes() as usize;
    let blocks = u64::from(params.block_count()) * u64::from(params.passes()) * hashes as u64;
    let worth = usize::try_from(blocks / BLOCKS_A_THREAD).unwrap_or(usize::MAX).min(lanes);
    if worth <= 1 {
        return NonZeroUsize::MIN;
    }
    // Asked once: the system's answer takes longer than a small hash.
    let machine =
        *MACHINE.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    machine.min(NonZeroUsize::new(worth).unwrap_or(NonZeroUsize::MIN))
}

/// Blocks below which a thread costs more than it saves: about half a millisecond of work.
const BLOCKS_A_THREAD: u64 = 4096;
