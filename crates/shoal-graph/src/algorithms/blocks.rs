//! Work from every node of a snapshot, in blocks of nodes on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::Snapshot;
use crate::error::{Error, Result};
use crate::procedure::Bounds;

/// The product of nodes and relationships from where several cores are faster than one.
const PARALLEL_FROM: usize = 1 << 22;

/// Time between two looks at the bounds while other cores end their blocks.
const WAIT: Duration = Duration::from_millis(10);

/// Counts a step of a block's work.
///
/// # Errors
/// The work is to stop.
pub(super) type Tick<'t> = dyn FnMut() -> Result<()> + 't;

/// Calls `run` with blocks of up to `block` nodes; gives the results in the order of the blocks.
/// The blocks are the same on every machine, and so are sums over them.
///
/// # Errors
/// The errors of `bounds`.
///
/// # Panics
/// Where `run` panics, or gives an error of its own.
pub(super) fn each_block<T: Send>(
    snapshot: &Snapshot,
    block: usize,
    bounds: &dyn Bounds,
    run: impl Fn(Range<usize>, &mut Tick<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (count, block) = (snapshot.len(), block.max(1));
    let blocks = count.div_ceil(block);
    let range = |at: usize| at * block..((at + 1) * block).min(count);
    let is_large = count.saturating_mul(snapshot.edge_count()) >= PARALLEL_FROM;
    let threads = if is_large { rayon::current_num_threads().min(blocks) } else { 1 };
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < blocks);
    let mut done: Vec<Option<T>> = (0..blocks).map(|_| None).collect();
    rayon::in_place_scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 1..threads {
            let sender = sender.clone();
            let (take, run, range, is_over) = (&take, &run, &range, &is_over);
            scope.spawn(move |_| {
                let mut tick = || match is_over.load(Ordering::Relaxed) {
                    true => Err(Error::limit("the call ended")),
                    false => Ok(()),
                };
                while let Some(at) = take() {
                    let Ok(value) = run(range(at), &mut tick) else { break };
                    if sender.send((at, value)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut work = || {
            let mut open = blocks;
            while let Some(at) = take() {
                done[at] = Some(run(range(at), &mut || bounds.tick())?);
                open -= 1;
            }
            while open > 0 {
                match receiver.recv_timeout(WAIT) {
                    Ok((at, value)) => {
                        done[at] = Some(value);
                        open -= 1;
                    }
                    Err(RecvTimeoutError::Timeout) => bounds.check()?,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            Ok(())
        };
        let outcome = work();
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    Ok(done.into_iter().map(|value| value.expect("every block was run")).collect())
}
