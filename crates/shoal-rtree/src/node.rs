//! Nodes and cells as bytes.
//!
//! A node begins with the tree's depth (of the root alone) and the number of its cells, two bytes
//! each. A cell is an id of eight bytes and the coordinates of four, smallest and largest of each
//! dimension in turn. All numbers are big-endian.

use crate::shape::{DIMENSIONS_MAX, Shape};

/// Bytes before the first cell.
pub(crate) const HEADER_BYTES: usize = 4;
/// Most levels of a tree.
pub(crate) const DEPTH_MAX: usize = 40;

/// How the four bytes of a coordinate are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordinates {
    /// A 32-bit float.
    Real,
    /// A 32-bit integer.
    Integer,
}

impl Coordinates {
    /// The value of a coordinate's bits; exact.
    #[inline]
    pub(crate) fn value(self, bits: u32) -> f64 {
        match self {
            Coordinates::Real => f64::from(f32::from_bits(bits)),
            Coordinates::Integer => f64::from(bits.cast_signed()),
        }
    }

    /// The bits of a smallest coordinate: reals are rounded down.
    pub(crate) fn down(self, value: &shoal_sql::Value) -> u32 {
        match self {
            Coordinates::Integer => (value.to_int() as i32).cast_unsigned(),
            Coordinates::Real => {
                let real = value.to_real();
                let mut near = real as f32;
                if f64::from(near) > real {
                    near = near.next_down();
                }
                near.to_bits()
            }
        }
    }

    /// The bits of a largest coordinate: reals are rounded up.
    pub(crate) fn up(self, value: &shoal_sql::Value) -> u32 {
        match self {
            Coordinates::Integer => (value.to_int() as i32).cast_unsigned(),
            Coordinates::Real => {
                let real = value.to_real();
                let mut near = real as f32;
                if f64::from(near) < real {
                    near = near.next_up();
                }
                near.to_bits()
            }
        }
    }
}

/// A cell: a box with the id of a row, or with the number of a child node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) id: i64,
    pub(crate) bits: [u32; 2 * DIMENSIONS_MAX],
}

/// How well a box fits into a cell: whether the cell holds the box, by how much the cell's area
/// would grow otherwise, and the area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    contains: bool,
    growth: f64,
    area: f64,
}

impl Fit {
    #[inline]
    pub(crate) fn is_better(&self, than: Fit) -> bool {
        if self.contains != than.contains {
            return self.contains;
        }
        self.growth < than.growth || self.growth == than.growth && self.area < than.area
    }
}

impl Cell {
    /// Reads a cell; `bytes` are exactly one.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Cell {
        let mut cell = Cell { id: 0, bits: [0; 2 * DIMENSIONS_MAX] };
        if let Some((id, coordinates)) = bytes.split_first_chunk::<8>() {
            cell.id = i64::from_be_bytes(*id);
            for (bits, bytes) in cell.bits.iter_mut().zip(coordinates.as_chunks::<4>().0) {
                *bits = u32::from_be_bytes(*bytes);
            }
        }
        cell
    }

    /// Writes a cell over `bytes`, which are exactly one.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let (id, coordinates) = bytes.split_at_mut(8);
        id.copy_from_slice(&self.id.to_be_bytes());
        for (bytes, bits) in coordinates.as_chunks_mut::<4>().0.iter_mut().zip(self.bits) {
            *bytes = bits.to_be_bytes();
        }
    }

    /// The smallest and largest value in a dimension.
    #[inline]
    pub(crate) fn side(&self, kind: Coordinates, dimension: usize) -> (f64, f64) {
        (kind.value(self.bits[2 * dimension]), kind.value(self.bits[2 * dimension + 1]))
    }

    /// True where another box lies within this one.
    pub(crate) fn contains(&self, other: &Cell, shape: &Shape) -> bool {
        (0..shape.coordinates / 2).all(|dimension| {
            let (low, high) = self.side(shape.kind, dimension);
            let (other_low, other_high) = other.side(shape.kind, dimension);
            low <= other_low && high >= other_high
        })
    }

    /// Grows to hold another box.
    pub(crate) fn add(&mut self, other: &Cell, shape: &Shape) {
        for dimension in 0..shape.coordinates / 2 {
            let (low, high) = self.side(shape.kind, dimension);
            let (other_low, other_high) = other.side(shape.kind, dimension);
            if other_low < low {
                self.bits[2 * dimension] = other.bits[2 * dimension];
            }
            if other_high > high {
                self.bits[2 * dimension + 1] = other.bits[2 * dimension + 1];
            }
        }
    }

    /// Calls `each` with the fit of this box into each of `cells`, and the cell's id.
    pub(crate) fn fits(&self, cells: &[Cell], shape: &Shape, each: impl FnMut(Fit, i64)) {
        match shape.kind {
            Coordinates::Real => {
                self.fits_by(cells, shape, |bits| Coordinates::Real.value(bits), each);
            }
            Coordinates::Integer => {
                self.fits_by(cells, shape, |bits| Coordinates::Integer.value(bits), each);
            }
        }
    }

    #[inline]
    fn fits_by(
        &self,
        cells: &[Cell],
        shape: &Shape,
        value: impl Fn(u32) -> f64,
        mut each: impl FnMut(Fit, i64),
    ) {
        let mut sides = [(0.0, 0.0); DIMENSIONS_MAX];
        for (side, pair) in sides.iter_mut().zip(self.bits.as_chunks::<2>().0) {
            *side = (value(pair[0]), value(pair[1]));
        }
        let sides = &sides[..shape.coordinates / 2];
        for known in cells {
            let (mut area, mut grown, mut contains) = (1.0, 1.0, true);
            for (pair, &(low, high)) in known.bits.as_chunks::<2>().0.iter().zip(sides) {
                let (known_low, known_high) = (value(pair[0]), value(pair[1]));
                area *= known_high - known_low;
                contains &= known_low <= low && known_high >= high;
                let least = if low < known_low { low } else { known_low };
                let most = if high > known_high { high } else { known_high };
                grown *= most - least;
            }
            let growth = if contains { 0.0 } else { grown - area };
            each(Fit { contains, growth, area }, known.id);
        }
    }

    /// The product of all sides.
    pub(crate) fn area(&self, shape: &Shape) -> f64 {
        let side = |dimension| {
            let (low, high) = self.side(shape.kind, dimension);
            high - low
        };
        (0..shape.coordinates / 2).map(side).product()
    }

    /// The sum of all sides.
    pub(crate) fn margin(&self, shape: &Shape) -> f64 {
        let side = |dimension| {
            let (low, high) = self.side(shape.kind, dimension);
            high - low
        };
        (0..shape.coordinates / 2).map(side).sum()
    }

    /// The product of the sides of what two boxes share.
    pub(crate) fn overlap(&self, other: &Cell, shape: &Shape) -> f64 {
        let mut product = 1.0;
        for dimension in 0..shape.coordinates / 2 {
            let (low, high) = self.side(shape.kind, dimension);
            let (other_low, other_high) = other.side(shape.kind, dimension);
            let shared = high.min(other_high) - low.max(other_low);
            if shared <= 0.0 {
                return 0.0;
            }
            product *= shared;
        }
        product
    }
}

/// A node's bytes: whole, the number of cells within them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeBytes<'b> {
    bytes: &'b [u8],
    cell_bytes: usize,
    count: usize,
}

impl<'b> NodeBytes<'b> {
    /// Looks at a node; `None` for bytes that cannot hold as many cells as they say.
    pub(crate) fn new(bytes: &'b [u8], shape: &Shape) -> Option<NodeBytes<'b>> {
        let count = bytes.get(2..HEADER_BYTES)?;
        let count = usize::from(u16::from_be_bytes([count[0], count[1]]));
        let cell_bytes = shape.cell_bytes();
        let fits = HEADER_BYTES + count * cell_bytes <= bytes.len();
        fits.then_some(NodeBytes { bytes, cell_bytes, count })
    }

    /// The tree's depth, of a root.
    pub(crate) fn depth(&self) -> usize {
        usize::from(u16::from_be_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// The cells in order.
    pub(crate) fn cells(&self) -> impl ExactSizeIterator<Item = Cell> + use<'b> {
        let cells = &self.bytes[HEADER_BYTES..HEADER_BYTES + self.count * self.cell_bytes];
        cells.chunks_exact(self.cell_bytes).map(Cell::read)
    }
}
