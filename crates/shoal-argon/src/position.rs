//! Positions of blocks, and the block each refers to (RFC 9106 §3.4.2).
//!
//! Memory is a matrix: a row for each lane, cut into four slices; a lane's part of a slice is a
//! segment. Blocks lie lane after lane, so a place is one index into them. Knows no contents.

use crate::params::Params;

/// Slices of a pass: the points where lanes wait for each other (SL in the RFC).
pub(crate) const SLICES: u32 = 4;

/// The shape of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// p in the RFC.
    pub(crate) lanes: u32,
    /// Blocks of a lane: q in the RFC.
    pub(crate) lane_length: u32,
    /// Blocks of a segment, at least 2.
    pub(crate) segment_length: u32,
}

/// One segment at one time, filled in a go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// r in the RFC.
    pub(crate) pass: u32,
    /// sl in the RFC, below [`SLICES`].
    pub(crate) slice: u32,
    /// l in the RFC.
    pub(crate) lane: u32,
}

impl Segment {
    /// The first index to fill: the first two blocks of a lane are there before the passes.
    pub(crate) fn first_index(self) -> u32 {
        if self.is_first_of_lane() { 2 } else { 0 }
    }

    /// `true` while nothing but this lane's own blocks is there yet.
    fn is_first_of_lane(self) -> bool {
        self.pass == 0 && self.slice == 0
    }
}

impl Geometry {
    /// The shape for these costs.
    pub(crate) fn new(params: &Params) -> Self {
        let lane_length = params.block_count() / params.lanes();
        Self { lanes: params.lanes(), lane_length, segment_length: lane_length / SLICES }
    }

    /// Where column `column` of lane `lane` lies among the blocks.
    pub(crate) fn place(&self, lane: u32, column: u32) -> usize {
        lane as usize * self.lane_length as usize + column as usize
    }

    /// Where the block at `index` of the segment lies.
    pub(crate) fn current(&self, segment: Segment, index: u32) -> usize {
        self.place(segment.lane, segment.slice * self.segment_length + index)
    }

    /// Index of the block before; for a lane's first block, the lane's last.
    pub(crate) fn previous(&self, segment: Segment, index: u32) -> usize {
        let column = segment.slice * self.segment_length + index;
        let previous = if column == 0 { self.lane_length } else { column } - 1;
        self.place(segment.lane, previous)
    }

    /// The blocks a segment may refer to.
    pub(crate) fn reach(&self, segment: Segment) -> Reach {
        let Self { lanes, lane_length, segment_length } = *self;
        // Later passes count from the oldest block, which the next slice begins with.
        let first_pass = segment.pass == 0;
        let start = if first_pass || segment.slice == SLICES - 1 {
            0
        } else {
            (segment.slice + 1) * segment_length
        };
        let finished =
            if first_pass { segment.slice * segment_length } else { lane_length - segment_length };
        let lanes = if segment.is_first_of_lane() { 1 } else { lanes };
        Reach { lane: segment.lane, lanes, lane_length, start, finished }
    }
}

/// The blocks one segment may refer to, found once for the whole segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The segment's own lane.
    lane: u32,
    /// Lanes to choose from: 1 stands for the own one.
    lanes: u32,
    lane_length: u32,
    /// The oldest column.
    start: u32,
    /// Complete columns of other slices.
    finished: u32,
}

impl Reach {
    /// Where the block lies that the pseudo-random `j` (J2 above J1) picks for the block at
    /// `index` of the segment. Never that block itself, and never the one before it.
    ///
    /// Lower J1 means a more recent block: the choice is quadratic, half of all J1 pick from the
    /// newest quarter.
    #[inline(always)]
    pub(crate) fn reference(&self, index: u32, j: u64) -> usize {
        let j1 = j & 0xffff_ffff;
        // Most memories have one lane, and a division would be waited for.
        let lane = if self.lanes == 1 { self.lane } else { (j >> 32) as u32 % self.lanes };
        let area = u64::from(self.area(index, lane == self.lane));
        let x = (j1 * j1) >> 32;
        let y = (area * x) >> 32;
        let column = u64::from(self.start) + area - 1 - y;
        let lane_length = u64::from(self.lane_length);
        let column = if column < lane_length { column } else { column - lane_length };
        lane as usize * self.lane_length as usize + column as usize
    }

    /// How many blocks may be referred to: |W| in the RFC. At least 1.
    ///
    /// All that are complete: of the own lane every one but the previous block, of another lane
    /// none of the segment being filled, and not its last block when this is a segment's first.
    #[inline(always)]
    fn area(&self, index: u32, same_lane: bool) -> u32 {
        if same_lane { self.finished + index - 1 } else { self.finished - u32::from(index == 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(memory_kib: u32, lanes: u32) -> Geometry {
        Geometry::new(&Params::new(memory_kib, 1, lanes).unwrap())
    }

    /// Every column that some J reaches in the lane, for one position, sorted.
    fn reachable(geometry: &Geometry, segment: Segment, index: u32, lane: u32) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..1u64 << 12)
            .map(|step| step << 20 | 0xf_ffff)
            .chain([0])
            .map(|j1| geometry.reach(segment).reference(index, u64::from(lane) << 32 | j1))
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    #[test]
    fn the_first_slice_refers_to_its_own_lane_below_the_previous_block() {
        let geometry = geometry(64, 2);
        let segment = Segment { pass: 0, slice: 0, lane: 1 };
        for index in 2..geometry.segment_length {
            // J2 asks for lane 0 and is not heard.
            let expect: Vec<usize> = (32..32 + index as usize - 1).collect();
            assert_eq!(reachable(&geometry, segment, index, 0), expect, "index {index}");
        }
    }

    #[test]
    fn the_first_pass_refers_to_what_is_finished() {
        let geometry = geometry(64, 2);
        let segment = Segment { pass: 0, slice: 2, lane: 1 };
        // Own lane: columns 0 to 15 of the slices before, then those of this one.
        assert_eq!(reachable(&geometry, segment, 0, 1), (32..47).collect::<Vec<_>>());
        assert_eq!(reachable(&geometry, segment, 5, 1), (32..52).collect::<Vec<_>>());
        // The other lane: the slices before, but at index 0 not the newest block.
        assert_eq!(reachable(&geometry, segment, 0, 0), (0..15).collect::<Vec<_>>());
        assert_eq!(reachable(&geometry, segment, 5, 0), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn later_passes_refer_to_the_last_three_slices() {
        let geometry = geometry(64, 2);
        let segment = Segment { pass: 1, slice: 1, lane: 0 };
        // Slices 2, 3 and 0, then this one's blocks up to the one before the previous.
        let older: Vec<usize> = (0..8).chain(16..32).collect();
        let mut own: Vec<usize> = (0..8 + 3 - 1).chain(16..32).collect();
        own.sort_unstable();
        assert_eq!(reachable(&geometry, segment, 3, 0), own);
        let other: Vec<usize> = older.iter().map(|place| place + 32).collect();
        assert_eq!(reachable(&geometry, segment, 3, 1), other);
        let newest = 32 + 7;
        let but_newest: Vec<usize> =
            other.iter().copied().filter(|place| *place != newest).collect();
        assert_eq!(reachable(&geometry, segment, 0, 1), but_newest);
    }

    #[test]
    fn the_lowest_j1_picks_the_newest_block_and_the_highest_the_oldest() {
        let geometry = geometry(1 << 20, 1);
        let segment = Segment { pass: 0, slice: 3, lane: 0 };
        let newest = geometry.current(segment, 9) - 2;
        assert_eq!(geometry.reach(segment).reference(9, 0), newest);
        assert_eq!(geometry.reach(segment).reference(9, 0xffff_ffff), 0);
        // x = J1² / 2^32: half of J1 is a quarter of the way back.
        let area = newest + 1;
        assert_eq!(geometry.reach(segment).reference(9, 0x8000_0000), area - 1 - area / 4);
    }

    /// Disjointness of the three blocks, as the fill needs.
    #[test]
    fn no_position_refers_to_itself_or_to_the_block_before() {
        for (memory_kib, lanes) in [(8, 1), (16, 2), (24, 3), (40, 1), (60, 3)] {
            let geometry = geometry(memory_kib, lanes);
            for pass in 0..2 {
                for slice in 0..SLICES {
                    for lane in 0..lanes {
                        let segment = Segment { pass, slice, lane };
                        for index in segment.first_index()..geometry.segment_length {
                            let current = geometry.current(segment, index);
                            let previous = geometry.previous(segment, index);
                            assert_ne!(current, previous);
                            for reference in 0..lanes {
                                let places = reachable(&geometry, segment, index, reference);
                                assert!(
                                    places.iter().all(|place| ![current, previous].contains(place)
                                        && *place < (lanes * geometry.lane_length) as usize)
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
