//! Distances of two vectors, and of one vector to many.

use shoal_sql::Value;

use crate::isa::Isa;
use crate::kernel::{Term, bits, sums_f32, sums_int8, widen};
use crate::vector::{Element, Vector, VectorError, floats, halves};

/// How far two vectors are from each other; 0 is nearest, except for products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The square root of the sum of squared differences.
    L2,
    /// The sum of absolute differences.
    L1,
    /// One less the cosine of the angle.
    Cosine,
    /// The number of different bits.
    Hamming,
    /// One less the share of the bits set in both among the bits set in either.
    Jaccard,
    /// The inner product, the larger the nearer.
    Product,
}

impl Metric {
    /// Refuses metrics undefined for vectors of these elements, in sqlite-vec's words.
    ///
    /// # Errors
    /// [`VectorError::Refused`].
    pub fn check(self, element: Element) -> Result<(), VectorError> {
        let refused = match (self, element) {
            (Metric::Hamming, Element::F32) => {
                "Cannot calculate hamming distance between two float32 vectors."
            }
            (Metric::Hamming, Element::F16) => {
                "Cannot calculate hamming distance between two float16 vectors."
            }
            (Metric::Hamming, Element::Int8) => {
                "Cannot calculate hamming distance between two int8 vectors."
            }
            (Metric::Jaccard, Element::F32 | Element::F16 | Element::Int8) => {
                "Cannot calculate jaccard distance of vectors that are no bitvectors."
            }
            (Metric::L2, Element::Bit) => "Cannot calculate L2 distance between two bitvectors.",
            (Metric::L1, Element::Bit) => "Cannot calculate L1 distance between two bitvectors.",
            (Metric::Cosine, Element::Bit) => {
                "Cannot calculate cosine distance between two bitvectors."
            }
            (Metric::Product, Element::Bit) => {
                "Cannot calculate the inner product of two bitvectors."
            }
            _ => return Ok(()),
        };
        Err(VectorError::Refused(refused))
    }
}

/// Rows of vectors behind each other, in memory as kernels read them.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Floats(Vec<f32>),
    Halves(Vec<u16>),
    /// Of `int8` and bits.
    Bytes(Vec<u8>),
}

impl Rows {
    /// No rows yet.
    pub(crate) fn new(element: Element) -> Rows {
        match element {
            Element::F32 => Rows::Floats(Vec::new()),
            Element::F16 => Rows::Halves(Vec::new()),
            Element::Int8 | Element::Bit => Rows::Bytes(Vec::new()),
        }
    }

    /// Appends the bytes of whole rows.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        match self {
            Rows::Floats(rows) => {
                rows.extend(bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)));
            }
            Rows::Halves(rows) => rows.extend(halves(bytes)),
            Rows::Bytes(rows) => rows.extend_from_slice(bytes),
        }
    }

    /// Puts the bytes of a row into `out`, as the file has them.
    pub(crate) fn row_bytes(&self, row: usize, width: usize, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Rows::Floats(rows) => {
                let row = &rows[row * (width / 4)..(row + 1) * (width / 4)];
                out.extend(row.iter().flat_map(|float| float.to_le_bytes()));
            }
            Rows::Halves(rows) => {
                let row = &rows[row * (width / 2)..(row + 1) * (width / 2)];
                out.extend(row.iter().flat_map(|half| half.to_le_bytes()));
            }
            Rows::Bytes(rows) => out.extend_from_slice(&rows[row * width..(row + 1) * width]),
        }
    }

    /// Some of the rows.
    fn part(&self, dimensions: usize, element: Element, from: usize, count: usize) -> Part<'_> {
        match self {
            Rows::Floats(rows) => {
                Part::Floats(&rows[from * dimensions..(from + count) * dimensions])
            }
            Rows::Halves(rows) => {
                Part::Halves(&rows[from * dimensions..(from + count) * dimensions])
            }
            Rows::Bytes(rows) => {
                let width = element.bytes(dimensions);
                Part::Bytes(&rows[from * width..(from + count) * width])
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Part<'r> {
    Floats(&'r [f32]),
    Halves(&'r [u16]),
    Bytes(&'r [u8]),
}

/// A vector to measure distances from.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) element: Element,
    pub(crate) dimensions: usize,
    pub(crate) metric: Metric,
    isa: Isa,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    /// The sum of the squares of the elements, for cosines.
    squares: f32,
}

impl Query {
    pub(crate) fn new(isa: Isa, metric: Metric, vector: &Vector<'_>) -> Query {
        let mut query = Query {
            element: vector.element,
            dimensions: vector.dimensions,
            metric,
            isa,
            floats: Vec::new(),
            bytes: vector.bytes.to_vec(),
            squares: 0.0,
        };
        if matches!(vector.element, Element::F32 | Element::F16) {
            query.floats = vector.floats();
        }
        if metric == Metric::Cosine {
            let mut own = Rows::new(vector.element);
            own.extend(&vector.bytes);
            let mut out = [0.0];
            query.squares_of(&own, 0, &mut out);
            query.squares = out[0];
        }
        query
    }

    /// The sums of squares of rows, one for each place of `out`.
    pub(crate) fn squares_of(&self, rows: &Rows, from: usize, out: &mut [f32]) {
        for (place, out) in out.iter_mut().enumerate() {
            let mut one = [0.0];
            match rows.part(self.dimensions, self.element, from + place, 1) {
                Part::Floats(row) => sums_f32(self.isa, Term::Product, row, row, &mut one),
                Part::Halves(row) => {
                    let mut wide = vec![0.0; row.len()];
                    widen(self.isa, row, &mut wide);
                    sums_f32(self.isa, Term::Product, &wide, &wide, &mut one);
                }
                Part::Bytes(row) => {
                    let mut sum = [0];
                    sums_int8(self.isa, Term::Product, row, row, &mut sum);
                    one[0] = sum[0] as f32;
                }
            }
            *out = one[0];
        }
    }

    /// The distances of rows from `from` on, one for each place of `out`. `squares` has the sums of
    /// squares of all rows, or nothing where they are not known.
    pub(crate) fn distances(&self, rows: &Rows, squares: &[f32], from: usize, out: &mut [f32]) {
        let part = rows.part(self.dimensions, self.element, from, out.len());
        let term = match self.metric {
            Metric::L2 => Term::Square,
            Metric::L1 => Term::Absolute,
            _ => Term::Product,
        };
        match (part, self.metric) {
            (Part::Bytes(rows), Metric::Hamming | Metric::Jaccard) => {
                let mut counts = vec![(0, 0); out.len()];
                bits(self.isa, &self.bytes, rows, &mut counts);
                let own = self.bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
                for (place, (out, (differ, both))) in out.iter_mut().zip(counts).enumerate() {
                    *out = match self.metric {
                        Metric::Hamming => differ as f32,
                        _ => {
                            let width = self.bytes.len();
                            let row = &rows[place * width..(place + 1) * width];
                            let set = row.iter().map(|byte| byte.count_ones()).sum::<u32>();
                            // As in pgvector: nothing in common with nothing is far.
                            match own + set - both {
                                0 => 1.0,
                                either => 1.0 - both as f32 / either as f32,
                            }
                        }
                    };
                }
                return;
            }
            (Part::Floats(rows), _) => sums_f32(self.isa, term, &self.floats, rows, out),
            (Part::Halves(rows), _) => {
                let mut wide = vec![0.0; self.dimensions];
                for (row, out) in rows.chunks_exact(self.dimensions).zip(out.iter_mut()) {
                    widen(self.isa, row, &mut wide);
                    sums_f32(self.isa, term, &self.floats, &wide, std::slice::from_mut(out));
                }
            }
            (Part::Bytes(rows), _) => {
                let mut sums = vec![0; out.len()];
                sums_int8(self.isa, term, &self.bytes, rows, &mut sums);
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
            }
        }
        match self.metric {
            Metric::L2 => out.iter_mut().for_each(|out| *out = out.sqrt()),
            Metric::Cosine => {
                let mut own;
                let known = match squares.get(from..from + out.len()) {
                    Some(known) => known,
                    None => {
                        own = vec![0.0; out.len()];
                        self.squares_of(rows, from, &mut own);
                        &own
                    }
                };
                let root = f64::from(self.squares).sqrt();
                for (out, square) in out.iter_mut().zip(known) {
                    *out = (1.0 - f64::from(*out) / (root * f64::from(*square).sqrt())) as f32;
                }
            }
            _ => {}
        }
    }
}

/// The distance of two vectors; NaN where there is none.
pub(crate) fn distance(metric: Metric, a: &Vector<'_>, b: &Vector<'_>) -> Result<f32, VectorError> {
    if a.element != b.element {
        return Err(VectorError::Types(a.element.name(), b.element.name()));
    }
    if a.dimensions != b.dimensions {
        return Err(VectorError::Dimensions(a.dimensions, b.dimensions));
    }
    metric.check(a.element)?;
    let mut rows = Rows::new(b.element);
    rows.extend(&b.bytes);
    let mut out = [0.0];
    Query::new(Isa::detect(), metric, a).distances(&rows, &[], 0, &mut out);
    Ok(out[0])
}

/// A distance as a value: NULL for NaN.
pub(crate) fn value(distance: f32) -> Value {
    Value::real(f64::from(distance))
}

/// The length of a vector, as of an arrow.
pub(crate) fn norm(vector: &Vector<'_>) -> f64 {
    let squares = floats_of(vector).iter().map(|it| f64::from(*it) * f64::from(*it)).sum::<f64>();
    squares.sqrt()
}

/// The elements as floats.
pub(crate) fn floats_of(vector: &Vector<'_>) -> Vec<f32> {
    match vector.element {
        Element::F32 | Element::F16 => floats(vector.element, &vector.bytes),
        Element::Int8 | Element::Bit => {
            (0..vector.dimensions).map(|place| vector.float(place)).collect()
        }
    }
}
