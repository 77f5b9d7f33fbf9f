//! A graph built in bulk, on all cores: nodes in shuffled order, by batches. The nodes of a batch
//! are searched and compared in parallel over the graph of the batches before, then linked one
//! after the other: the graph is the same on any number of cores.

use rayon::prelude::*;
use shoal_sql::Error;

use super::definition::Index;
use super::edit::{Editor, kept_links, select};
use super::graph::{Graph, Near, Paged};
use super::walk::{Bounds, Scratch, walk};

/// The most nodes of a batch.
const BATCH_MAX: usize = 1024;

/// The numbers below `count`, in an order without a meaning, always the same.
fn shuffled(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = 0x853C_49E6_748F_EA9B_u64;
    for place in (1..count).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(place, ((state >> 33) % (place as u64 + 1)) as usize);
    }
    order
}

/// Links the nodes of a graph, all in memory and none with links yet.
///
/// # Errors
/// The errors of `check`, asked before each batch.
pub(crate) fn build(
    index: &Index,
    graph: &mut Graph,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let order = shuffled(graph.len());
    let Some(first) = order.first() else { return Ok(()) };
    graph.root = Some(*first);
    let m = index.definition.m;
    let bounds = Bounds { ef: index.definition.ef_construction.max(m), visits: usize::MAX };
    let mut scratch = Scratch::default();
    let mut done = 1;
    while done < order.len() {
        check()?;
        let size = (done / 8).clamp(1, BATCH_MAX).min(order.len() - done);
        let batch = &order[done..done + size];
        let known = &*graph;
        let search = |scratch: &mut Scratch, node: &u32| {
            let (query, mut nodes) = (known.coded(index, *node), known);
            let found = walk(index, &mut nodes, &query, bounds, scratch, |_, _| Ok(true))?;
            let found = found.unwrap_or_default();
            let chosen = select(index, known, &found, Vec::new(), m);
            Ok((found, chosen))
        };
        let searched = batch.par_iter().map_init(Scratch::default, search);
        let searched: Vec<(Vec<Near>, Vec<u32>)> = searched.collect::<Result<_, Error>>()?;
        let mut linked = Vec::new();
        for (node, (found, chosen)) in batch.iter().zip(searched) {
            let nodes = Paged { graph, rows: None };
            Editor { index, nodes, scratch: &mut scratch }.settle(*node, &found)?;
            linked.push(graph.parents[*node as usize]);
            for other in chosen {
                graph.join(*node, other);
                linked.push(other);
            }
        }
        linked.sort_unstable();
        linked.dedup();
        let most = index.definition.degree_max();
        linked.retain(|node| graph.links[*node as usize].len() > most);
        let known = &*graph;
        let kept: Vec<Vec<u32>> =
            linked.par_iter().map(|node| kept_links(index, known, *node)).collect();
        for (node, kept) in linked.iter().zip(kept) {
            for link in graph.links[*node as usize].clone() {
                if !kept.contains(&link) {
                    graph.part(*node, link);
                }
            }
        }
        done += size;
    }
    Ok(())
}
