//! The order of applying a batch, visible later in the order of saved rows and of sent changes:
//! breadth first, as in the reference. First the changes without dependencies in the batch, as they
//! came; then, change after change, the dependents held back by this one alone.

use shoal_history::{Change, ChangeGraph, ChangeHash};

use super::Batch;

/// A batch, told apart.
pub(super) struct Ordered {
    /// Changes to apply, in order.
    pub(super) ready: Vec<Change>,
    /// Changes with dependencies neither here nor in the batch, as they came.
    pub(super) waiting: Vec<Change>,
}

/// Orders a batch by itself: right while no waiting change could be released. Takes the changes
/// out. Costs the dependencies.
pub(super) fn order(batch: &mut Batch, graph: &ChangeGraph) -> Ordered {
    // From a change to a dependent.
    let mut edges: Vec<(u32, u32)> = Vec::with_capacity(batch.changes.len());
    let mut held_back = vec![0_u32; batch.changes.len()];
    let mut is_in_order = true;
    let mut last_key = 0;
    for (at, change) in (0_u32..).zip(&batch.changes) {
        let mut key = 0;
        for dep in change.deps() {
            match dep_of(batch, graph, dep, at) {
                Dep::Batch(dep) => {
                    edges.push((dep, at));
                    held_back[at as usize] += 1;
                    key = key.max(dep + 1);
                }
                Dep::Graph => {}
                Dep::Missing => {
                    // Held back by a change neither here nor in the batch.
                    held_back[at as usize] += 1;
                    is_in_order = false;
                }
            }
        }
        // A change comes after all changes released by earlier ones.
        is_in_order &= key <= at && key >= last_key;
        last_key = key;
    }
    let changes = std::mem::take(&mut batch.changes);
    if is_in_order {
        return Ordered { ready: changes, waiting: Vec::new() };
    }

    edges.sort_by_key(|(dep, _)| *dep);
    let mut queue: Vec<u32> =
        (0_u32..).zip(&held_back).filter(|(_, count)| **count == 0).map(|(at, _)| at).collect();
    let mut next = 0;
    while let Some(&at) = queue.get(next) {
        next += 1;
        let first = edges.partition_point(|(dep, _)| *dep < at);
        for &(_, dependent) in edges[first..].iter().take_while(|(dep, _)| *dep == at) {
            let count = &mut held_back[dependent as usize];
            *count -= 1;
            if *count == 0 {
                queue.push(dependent);
            }
        }
    }
    let mut slots: Vec<Option<Change>> = changes.into_iter().map(Some).collect();
    let ready = queue.into_iter().filter_map(|at| slots[at as usize].take()).collect();
    Ordered { ready, waiting: slots.into_iter().flatten().collect() }
}

/// Where a dependency is.
enum Dep {
    Batch(u32),
    Graph,
    Missing,
}

fn dep_of(batch: &Batch, graph: &ChangeGraph, dep: &ChangeHash, place: u32) -> Dep {
    if let Some(place) = batch.before(place).filter(|(hash, _)| hash == dep).map(|(_, at)| at) {
        Dep::Batch(place)
    } else if graph.contains(dep) {
        Dep::Graph
    } else {
        batch.position(dep).map_or(Dep::Missing, Dep::Batch)
    }
}
