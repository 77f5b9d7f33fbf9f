//! Codes: vectors in a byte for each element, or a bit, for the first pass of a search.
//!
//! Floats become bytes by a scale of the vector's own: the largest element becomes 127. Bytes and
//! bits are their own codes. Distances of codes only order nodes; the rows found are compared by
//! their whole vectors afterwards.

use crate::definition::VectorColumn;
use crate::distance::Metric;
use crate::isa::Isa;
use crate::kernel::{Term, bits, sums_int8};
use crate::vector::{Element, floats};

/// How codes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// By a product of bytes, for angles.
    Angle,
    /// By a product of bytes with scales, for squared lengths of differences.
    Scaled,
    /// By squared differences of bytes.
    Square,
    /// By absolute differences of bytes.
    Absolute,
    /// By the number of different bits.
    Bits,
}

/// Makes codes of a column's vectors, and compares codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coder {
    measure: Measure,
    element: Element,
    /// The bytes of a code.
    pub(crate) width: usize,
    isa: Isa,
}

/// The numbers beside a code: a distance is `base + base - 2 * scale * scale * product`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mark {
    scale: f32,
    base: f32,
}

/// A vector to compare codes with.
#[derive(Clone, Debug)]
pub(crate) struct Coded {
    pub(crate) code: Vec<u8>,
    /// The scale as a node keeps it; not finite for a vector without a place.
    pub(crate) scale: f32,
    pub(crate) mark: Mark,
}

impl Coded {
    /// False for vectors as far from one as from another: zero has no angle.
    pub(crate) fn has_place(&self) -> bool {
        self.mark.base.is_finite()
    }
}

impl Coder {
    /// The coder of a column; `None` for absolute differences of floats.
    pub(crate) fn new(column: VectorColumn) -> Option<Coder> {
        let measure = match (column.element, column.metric) {
            (Element::Bit, _) => Measure::Bits,
            (_, Metric::Cosine) => Measure::Angle,
            (Element::Int8, Metric::L2) => Measure::Square,
            (Element::Int8, Metric::L1) => Measure::Absolute,
            (Element::F32 | Element::F16, Metric::L2) => Measure::Scaled,
            _ => return None,
        };
        let width = match column.element {
            Element::Bit => column.dimensions / 8,
            _ => column.dimensions,
        };
        Some(Coder { measure, element: column.element, width, isa: Isa::detect() })
    }

    /// The code of a vector's bytes.
    pub(crate) fn encode(&self, bytes: &[u8]) -> Coded {
        let (code, scale) = match self.element {
            Element::Int8 | Element::Bit => (bytes.to_vec(), 1.0),
            element => {
                let floats = floats(element, bytes);
                let largest = floats.iter().fold(0.0_f32, |most, float| most.max(float.abs()));
                let is_finite = floats.iter().all(|float| float.is_finite());
                let step = f64::from(largest) / 127.0;
                let code = |float: &f32| match is_finite && largest > 0.0 {
                    true => ((f64::from(*float) / step).round() as i8).cast_unsigned(),
                    false => 0,
                };
                let scale = if is_finite { step as f32 } else { f32::INFINITY };
                (floats.iter().map(code).collect(), scale)
            }
        };
        let mark = self.mark(&code, scale);
        Coded { code, scale, mark }
    }

    /// The numbers beside a code of a scale.
    pub(crate) fn mark(&self, code: &[u8], scale: f32) -> Mark {
        let squares = || {
            let mut sum = [0];
            sums_int8(self.isa, Term::Product, code, code, &mut sum);
            sum[0] as f64
        };
        let mark = match self.measure {
            Measure::Angle => Mark { scale: (0.5 / squares()).sqrt() as f32, base: 0.5 },
            Measure::Scaled => {
                let base = f64::from(scale) * f64::from(scale) * squares();
                Mark { scale, base: base as f32 }
            }
            _ => Mark { scale: 1.0, base: 0.0 },
        };
        match mark.scale.is_finite() && mark.base.is_finite() && scale.is_finite() {
            true => mark,
            // Zero has no angle, infinity no place: far from everything.
            false => Mark { scale: 0.0, base: f32::INFINITY },
        }
    }

    /// How far two codes are from each other; never NaN, never below zero.
    #[inline]
    pub(crate) fn distance(&self, a: (&[u8], Mark), b: (&[u8], Mark)) -> f32 {
        let ((a, mark), (b, other)) = (a, b);
        let sum = |term| {
            let mut sum = [0];
            sums_int8(self.isa, term, a, b, &mut sum);
            sum[0] as f64
        };
        let between = match self.measure {
            Measure::Angle | Measure::Scaled => {
                -2.0 * f64::from(mark.scale) * f64::from(other.scale) * sum(Term::Product)
            }
            Measure::Square => sum(Term::Square),
            Measure::Absolute => sum(Term::Absolute),
            Measure::Bits => {
                let mut counts = [(0, 0)];
                bits(self.isa, a, b, &mut counts);
                f64::from(counts[0].0)
            }
        };
        let distance = f64::from(mark.base) + f64::from(other.base) + between;
        match distance.is_nan() {
            true => f32::INFINITY,
            false => distance.max(0.0) as f32,
        }
    }
}

/// The digest of a row of the `vec0` table: the sum over all rows tells whether an index is of
/// these rows, in any order.
pub(crate) fn digest(rowid: i64, bytes: &[u8]) -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |lane: u64, word: u64| {
        let product = (lane ^ word).wrapping_mul(STEP);
        product ^ product >> 29
    };
    let mut lanes = [0x243F_6A88, 0x1319_8A2E, 0x0370_7344, 0xA409_3822];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    for (place, byte) in rest.iter().enumerate() {
        lanes[place % 4] = mix(lanes[place % 4], u64::from(*byte) + 1);
    }
    let all = lanes.into_iter().fold(rowid.cast_unsigned(), mix);
    mix(mix(all, bytes.len() as u64), 0x5851_F42D)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Vector;

    fn coder(element: Element, metric: Metric) -> Coder {
        Coder::new(VectorColumn { element, dimensions: 4, metric }).unwrap()
    }

    fn between(coder: Coder, a: &[f32], b: &[f32]) -> f32 {
        let code = |floats: &[f32]| coder.encode(&Vector::of_floats(floats).bytes);
        let (a, b) = (code(a), code(b));
        coder.distance((&a.code, a.mark), (&b.code, b.mark))
    }

    #[test]
    fn distances_of_codes_are_near_those_of_vectors() {
        let (a, b) = ([1.0, -2.0, 0.5, 4.0], [100.0, -3.0, 2.0, 0.0]);
        let far = between(coder(Element::F32, Metric::L2), &a, &b);
        let wanted: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
        assert!((far - wanted).abs() < wanted * 0.02, "{far} and {wanted}");
        let angle = between(coder(Element::F32, Metric::Cosine), &a, &[2.0, -4.0, 1.0, 8.0]);
        assert!(angle < 1e-4, "{angle}");
    }

    #[test]
    fn vectors_without_a_place_are_far_from_everything() {
        for (metric, strange) in [
            (Metric::Cosine, [0.0; 4]),
            (Metric::Cosine, [f32::NAN, 1.0, 1.0, 1.0]),
            (Metric::L2, [f32::INFINITY, 0.0, 0.0, 0.0]),
            (Metric::L2, [f32::NAN; 4]),
        ] {
            let coder = coder(Element::F32, metric);
            for other in [[1.0; 4], strange] {
                assert_eq!(between(coder, &strange, &other), f32::INFINITY, "{strange:?}");
            }
        }
        assert_eq!(between(coder(Element::F32, Metric::L2), &[0.0; 4], &[0.0; 4]), 0.0);
    }

    #[test]
    fn a_digest_is_of_the_row_and_of_every_byte() {
        let bytes: Vec<u8> = (0..70).collect();
        let whole = digest(7, &bytes);
        assert_ne!(whole, digest(8, &bytes));
        assert_ne!(whole, digest(7, &bytes[..69]));
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert_ne!(whole, digest(7, &other), "byte {place}");
        }
    }
}
