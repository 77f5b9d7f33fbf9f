//! Snapshots kept from one call to the next, as long as nobody commits.

use std::sync::{Arc, Mutex, PoisonError};

use super::Snapshot;
use super::snapshot::{Direction, Selection};
use crate::error::Result;
use crate::graph::Graph;
use crate::procedure::Bounds;

/// Bytes of all snapshots kept at most.
const BYTES_MAX: usize = 1 << 28;

/// The states of a connection's databases at the reading of a snapshot.
pub(crate) type States = Vec<Option<u64>>;

/// Snapshots of graphs by name.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<Vec<Kept>>);

/// A snapshot with its graph, its selection and the states of the databases.
#[derive(Debug)]
struct Kept {
    states: States,
    graph: String,
    label: Option<String>,
    kinds: Vec<String>,
    direction: Direction,
    weight: Option<String>,
    snapshot: Arc<Snapshot>,
}

impl Kept {
    fn is_of(&self, graph: &str, selection: &Selection<'_>) -> bool {
        self.graph.eq_ignore_ascii_case(graph)
            && self.label.as_deref() == selection.label
            && self.kinds == selection.kinds
            && self.direction == selection.direction
            && self.weight.as_deref() == selection.weight
    }
}

/// Where snapshots of a graph are kept from query to query, as of a state of the databases: the
/// first of those in which the graph's tables are as they are now.
#[derive(Clone, Copy)]
pub(crate) struct KeptSnapshots<'k> {
    pub(crate) snapshots: &'k Snapshots,
    pub(crate) states: &'k States,
    pub(crate) graph: &'k str,
    /// Called behind the reading of a snapshot to be kept.
    pub(crate) has_read: &'k dyn Fn(),
}

impl KeptSnapshots<'_> {
    /// True where the snapshot of a part of the graph is kept.
    pub(crate) fn has(&self, selection: &Selection<'_>) -> bool {
        let kept = self.snapshots.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().any(|kept| kept.states == *self.states && kept.is_of(self.graph, selection))
    }

    /// The snapshot of a part of `graph`: from where snapshots are kept, if anywhere, or read now.
    ///
    /// # Errors
    /// The errors of reading the graph.
    pub(crate) fn find(
        kept: Option<KeptSnapshots<'_>>,
        graph: &dyn Graph,
        selection: &Selection<'_>,
        bounds: &dyn Bounds,
    ) -> Result<Arc<Snapshot>> {
        let read = || Snapshot::read(graph, selection, bounds);
        match kept {
            Some(kept) => {
                let read = || {
                    let snapshot = read()?;
                    (kept.has_read)();
                    Ok(snapshot)
                };
                kept.snapshots.of(kept.states, kept.graph, selection, read)
            }
            None => read().map(Arc::new),
        }
    }
}

impl Snapshots {
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<Arc<Snapshot>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|kept| Arc::clone(&kept.snapshot)).collect()
    }

    /// The snapshot of a part of a graph in a state, read by `read` where none is kept. The graph's
    /// snapshots of other states are forgotten, and the oldest ones where all become too large.
    ///
    /// # Errors
    /// The errors of `read`.
    fn of(
        &self,
        states: &States,
        graph: &str,
        selection: &Selection<'_>,
        read: impl FnOnce() -> Result<Snapshot>,
    ) -> Result<Arc<Snapshot>> {
        // Nobody is kept waiting by a reading call: two at once read twice.
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            let is_of_graph = |kept: &Kept| kept.graph.eq_ignore_ascii_case(graph);
            kept.retain(|kept| kept.states == *states || !is_of_graph(kept));
            if let Some(kept) = kept.iter().find(|kept| kept.is_of(graph, selection)) {
                return Ok(Arc::clone(&kept.snapshot));
            }
        }
        let snapshot = Arc::new(read()?);
        let mut kept = kept();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        kept.push(Kept {
            states: states.clone(),
            graph: graph.to_owned(),
            label: owned(selection.label),
            kinds: selection.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            direction: selection.direction,
            weight: owned(selection.weight),
            snapshot: Arc::clone(&snapshot),
        });
        let mut bytes: usize = kept.iter().map(|kept| kept.snapshot.bytes()).sum();
        while bytes > BYTES_MAX {
            bytes -= kept.remove(0).snapshot.bytes();
        }
        Ok(snapshot)
    }
}
