//! A full node's cells parted in two, as the R*-tree does: along the dimension with the smallest
//! sum of margins, where the two boxes share least.

use crate::node::Cell;
use crate::shape::Shape;

/// Parts cells, more than twice `min` of them, into two groups of at least `min` each.
pub(crate) fn split(cells: &[Cell], min: usize, shape: &Shape) -> (Vec<Cell>, Vec<Cell>) {
    let mut best: Option<(f64, Vec<Cell>, usize)> = None;
    for dimension in 0..shape.coordinates / 2 {
        let mut sorted = cells.to_vec();
        sorted.sort_by(|a, b| {
            let (a, b) = (a.side(shape.kind, dimension), b.side(shape.kind, dimension));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let before = boxes(sorted.iter(), shape);
        let mut behind = boxes(sorted.iter().rev(), shape);
        behind.reverse();
        let mut margins = 0.0;
        let mut place: Option<(f64, f64, usize)> = None;
        for left in min..=sorted.len() - min {
            let (a, b) = (&before[left - 1], &behind[left]);
            margins += a.margin(shape) + b.margin(shape);
            let (overlap, area) = (a.overlap(b, shape), a.area(shape) + b.area(shape));
            let better = place.is_none_or(|(known_overlap, known_area, _)| {
                overlap < known_overlap || overlap == known_overlap && area < known_area
            });
            if better {
                place = Some((overlap, area, left));
            }
        }
        let left = place.map_or(min, |(.., left)| left);
        if best.as_ref().is_none_or(|(known, ..)| margins < *known) {
            best = Some((margins, sorted, left));
        }
    }
    let (_, mut left, place) = best.expect("a box has a dimension");
    let right = left.split_off(place);
    (left, right)
}

/// The box around all cells up to each.
fn boxes<'c>(cells: impl Iterator<Item = &'c Cell>, shape: &Shape) -> Vec<Cell> {
    let mut out: Vec<Cell> = Vec::new();
    for cell in cells {
        let mut next = out.last().copied().unwrap_or(*cell);
        next.add(cell, shape);
        out.push(next);
    }
    out
}

/// The box around cells, for a node of that number.
pub(crate) fn box_of(id: i64, cells: impl Iterator<Item = Cell>, shape: &Shape) -> Option<Cell> {
    let around = cells.reduce(|mut around, cell| {
        around.add(&cell, shape);
        around
    });
    around.map(|around| Cell { id, ..around })
}
