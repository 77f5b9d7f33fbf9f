//! In which order a select's sources are read.

use super::access::{Sources, Term, best, reads_of};
use crate::resolve::tree::{Source, SourceKind};

/// More sources than this are ordered step by step instead of by trying every order.
const EXHAUSTIVE_MAX: usize = 8;

/// The places of the sources in the order in which they are to be read.
pub(super) fn choose(sources: &[Source], terms: &[Term<'_>]) -> Vec<usize> {
    match sources.len() {
        0 | 1 => (0..sources.len()).collect(),
        count if count <= EXHAUSTIVE_MAX => exhaustive(sources, terms),
        _ => greedy(sources, terms),
    }
}

/// The sources that must be read before the one at `place`: all before the right side of an outer
/// join or of `CROSS JOIN`, and all up to a join that keeps its right side's rows.
fn required(sources: &[Source], place: usize) -> Sources {
    let source = &sources[place];
    if source.join.is_some() || source.fixed {
        return (1 << place) - 1;
    }
    let mut required = match sources[..place].iter().rposition(Source::keeps_right) {
        Some(last) => (1 << (last + 1)) - 1,
        None => 0,
    };
    if let SourceKind::Function { arguments, .. } = &source.kind {
        for argument in arguments.iter().flatten() {
            required |= reads_of(argument, sources);
        }
    }
    required & !(1 << place)
}

#[derive(Clone)]
struct Partial {
    cost: f64,
    rows: f64,
    order: Vec<usize>,
}

/// The cheapest order, by dynamic programming over sets of sources.
fn exhaustive(sources: &[Source], terms: &[Term<'_>]) -> Vec<usize> {
    let full: usize = (1 << sources.len()) - 1;
    let mut cheapest: Vec<Option<Partial>> = vec![None; full + 1];
    cheapest[0] = Some(Partial { cost: 0.0, rows: 1.0, order: Vec::new() });
    for known in 0..full {
        let Some(partial) = cheapest[known].clone() else { continue };
        let set = known as Sources;
        for place in 0..sources.len() {
            if set & 1 << place != 0 || required(sources, place) & !set != 0 {
                continue;
            }
            let path = best(sources, terms, place, set, partial.rows);
            let cost = partial.cost + path.fixed + partial.rows * path.per_row;
            let slot = &mut cheapest[known | 1 << place];
            // Of equal costs the one found first stays, which keeps the order written.
            if slot.as_ref().is_none_or(|other| cost < other.cost) {
                let mut order = partial.order.clone();
                order.push(place);
                *slot = Some(Partial { cost, rows: partial.rows * path.rows, order });
            }
        }
    }
    match cheapest.swap_remove(full) {
        Some(partial) => partial.order,
        None => (0..sources.len()).collect(),
    }
}

/// The cheapest next source, again and again.
fn greedy(sources: &[Source], terms: &[Term<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(sources.len());
    let mut known: Sources = 0;
    let mut rows = 1.0;
    while order.len() < sources.len() {
        let next = (0..sources.len())
            .filter(|place| known & 1 << place == 0)
            .filter(|&place| required(sources, place) & !known == 0)
            .map(|place| {
                let path = best(sources, terms, place, known, rows);
                (place, path.fixed + rows * path.per_row, path.rows)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, _, found)) = next else { break };
        rows *= found;
        known |= 1 << place;
        order.push(place);
    }
    order
}
