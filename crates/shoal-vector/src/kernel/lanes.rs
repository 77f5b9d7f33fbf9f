//! The loops over vectors of floats, for each instruction set of x86-64 once.

/// Defines `sums_f32` from the functions `zero`, `load`, `step` and `fold` beside the call;
/// `$lanes` is the number of floats in a vector.
macro_rules! float_sums {
    (#[$feature:meta], $lanes:literal) => {
        /// The vectors with the 64 lanes.
        const VECTORS: usize = super::LANES / $lanes;

        /// The sums of a query with every row.
        ///
        /// # Safety
        /// The machine has the instruction set; `rows` has as many rows as `out` has places, each
        /// as long as the query.
        #[$feature]
        pub(super) unsafe fn sums_f32<const TERM: u8>(
            query: &[f32],
            rows: &[f32],
            out: &mut [f32],
        ) {
            let length = query.len();
            let whole = length - length % super::LANES;
            let mut tail = [0.0_f32; super::LANES];
            tail[..length - whole].copy_from_slice(&query[whole..]);
            for (place, out) in out.iter_mut().enumerate() {
                let row = &rows[place * length..(place + 1) * length];
                let mut sums = [zero(); VECTORS];
                let mut at = 0;
                while at < whole {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        let from = at + vector * $lanes;
                        // SAFETY: `from + $lanes` is at most `whole`, the end of no slice passed.
                        unsafe {
                            let a = load(query.as_ptr().add(from));
                            let b = load(row.as_ptr().add(from));
                            *sum = step::<TERM>(*sum, a, b);
                        }
                    }
                    at += super::LANES;
                }
                if whole < length {
                    let mut rest = [0.0_f32; super::LANES];
                    rest[..length - whole].copy_from_slice(&row[whole..]);
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: both arrays have 64 floats.
                        unsafe {
                            let a = load(tail.as_ptr().add(vector * $lanes));
                            let b = load(rest.as_ptr().add(vector * $lanes));
                            *sum = step::<TERM>(*sum, a, b);
                        }
                    }
                }
                *out = fold(sums);
            }
        }
    };
}
