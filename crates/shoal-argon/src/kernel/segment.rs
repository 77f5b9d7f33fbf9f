//! Segments of a slice and the loops over them, written once for every kernel.
//!
//! A kernel file calls [`segment_loops!`] under its own instruction set, so that its operations
//! inline into the loops. It brings along:
//!
//! - `compress::<XOR, NEAR>(prev, reference, next, work, known)`: G of `prev` and `reference`
//!   into `next`, xored with what was there when `XOR`; `work` is scratch. `known` is called with
//!   the first word of the new block, which may name the next reference, as soon as it is
//!   computed. With `NEAR`, `prev` is a copy of the block before that becomes a copy of the new
//!   one, and `next` is written past the caches where the instruction set can do so.
//!   Safety: the machine has the instruction set; all pointers are valid blocks, `prev` and
//!   `work` for writing too; `next` and `work` are apart from each other and from the rest;
//!   nobody else writes any of them, or reads `next`.
//! - `place(word)`: where a word lies in this kernel's blocks.
//! - `prefetch::<ONCE>(block)` and `prefetch_first(block)`, its first line alone, which never
//!   fault; `ONCE` says that the lines are read once and need not stay in the outer caches.
//! - `settle()`, after which stores past the caches are visible to whoever this thread tells.

use crate::block::{BLOCK_WORDS, Block};
use crate::params::{Params, Variant, Version};
use crate::position::{Geometry, SLICES, Segment};

/// Constants of a hash, the same for every segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    variant: Variant,
    version: Version,
    params: Params,
}

impl Plan {
    pub(crate) fn new(variant: Variant, version: Version, params: Params) -> Self {
        Self { geometry: Geometry::new(&params), variant, version, params }
    }
}

/// One slice of one pass: lanes fill it at the same time, without waiting for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) pass: u32,
    pub(crate) slice: u32,
    /// `true` where blocks are written past the caches: the memory outgrows all of them.
    pub(crate) past_caches: bool,
}

impl Step<'_> {
    /// The old block counts from the second pass on, and only since version 0x13.
    pub(super) fn is_xored(&self) -> bool {
        self.pass > 0 && self.plan.version == Version::V0x13
    }

    /// `true` where references depend on positions only (RFC 9106 §3.4.1).
    pub(super) fn is_independent(&self) -> bool {
        match self.plan.variant {
            Variant::D => false,
            Variant::I => true,
            Variant::Id => self.pass == 0 && self.slice < SLICES / 2,
        }
    }

    pub(super) fn segment(&self, lane: u32) -> Segment {
        Segment { pass: self.pass, slice: self.slice, lane }
    }

    /// The words behind the references, pass to counter (RFC 9106 §3.4.1.2).
    pub(super) fn seed(&self, lane: u32) -> [u32; 6] {
        let Plan { variant, params, .. } = self.plan;
        [self.pass, lane, self.slice, params.block_count(), params.passes(), variant.code()]
    }
}

/// One lane of one memory.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// The first block of the memory.
    pub(super) memory: *mut Block,
    pub(super) lane: u32,
}

/// Positions whose references one address block gives.
pub(super) const BATCH: u32 = BLOCK_WORDS as u32;

/// Prefetch distance, in positions, of references known ahead.
pub(super) const AHEAD: u32 = 8;

/// Most lanes filled side by side.
pub(super) const SIDE_BY_SIDE: usize = 6;

/// How many of `count` lanes side by side ask for their next references in one go.
///
/// A prefetch that has to walk the page tables holds up everything behind it, on some processors,
/// and no more than one block fits behind it: asked for one by one, walks are waited for one by
/// one. Half of the lanes ask together, so that their walks overlap, while the lines of the other
/// half arrive.
pub(super) const fn asking_together(count: usize) -> usize {
    if count < 4 { 1 } else { count.div_ceil(2) }
}

/// Members in groups of about equal size, at most [`SIDE_BY_SIDE`] each.
pub(super) fn groups(members: &[Member]) -> std::slice::Chunks<'_, Member> {
    let groups = members.len().div_ceil(SIDE_BY_SIDE).max(1);
    members.chunks(members.len().div_ceil(groups).max(1))
}

/// The loops over segments, for the calling kernel.
macro_rules! segment_loops {
    ($(#[$features:meta])*) => {
        /// Fills the segments of these lanes in this slice.
        ///
        /// # Safety
        /// This machine has the kernel's instruction set. Each memory has all blocks of the
        /// plan, valid and aligned. Nobody else writes what these segments refer to, which is
        /// every slice but this one and their own lanes, nor reads or writes these segments.
        $(#[$features])*
        pub(in crate::kernel) unsafe fn fill(
            step: &crate::kernel::segment::Step<'_>,
            members: &[crate::kernel::segment::Member],
        ) {
            // SAFETY: passed on from the caller.
            unsafe {
                if step.is_independent() {
                    for member in members {
                        match (step.is_xored(), step.past_caches) {
                            (false, false) => independent::<false, false>(step, *member),
                            (false, true) => independent::<false, true>(step, *member),
                            (true, false) => independent::<true, false>(step, *member),
                            (true, true) => independent::<true, true>(step, *member),
                        }
                    }
                } else {
                    for group in crate::kernel::segment::groups(members) {
                        match (step.is_xored(), step.past_caches && group.len() > 1) {
                            (false, false) => dependent::<false, false>(step, group),
                            (false, true) => dependent::<false, true>(step, group),
                            (true, false) => dependent::<true, false>(step, group),
                            (true, true) => dependent::<true, true>(step, group),
                        }
                    }
                }
                settle();
            }
        }

        /// A segment whose references depend on positions only: they are drawn a batch ahead,
        /// and their lines are asked for in time. It gains nothing from a second one beside it.
        ///
        /// # Safety
        /// As [`fill`].
        $(#[$features])*
        unsafe fn independent<const XOR: bool, const NEAR: bool>(
            step: &crate::kernel::segment::Step<'_>,
            member: crate::kernel::segment::Member,
        ) {
            use crate::block::Block;
            use crate::kernel::segment::{AHEAD, BATCH, Member};
            use zeroize::Zeroizing;

            let Member { memory, lane } = member;
            let segment = step.segment(lane);
            let geometry = &step.plan.geometry;
            let reach = geometry.reach(segment);
            let length = geometry.segment_length;
            let mut work = Zeroizing::new(Block::ZERO);
            let mut zero = Block::ZERO;
            let (mut input, mut once, mut words) = (Block::ZERO, Block::ZERO, Block::ZERO);
            for (word, value) in step.seed(lane).into_iter().enumerate() {
                input.words_mut()[place(word)] = u64::from(value);
            }
            let counter = place(step.seed(lane).len());

            let mut near = Zeroizing::new(Block::ZERO);
            if NEAR {
                let previous = geometry.previous(segment, segment.first_index());
                // SAFETY: the place is below the plan's block count, and nobody writes there.
                *near = unsafe { *memory.add(previous) };
            }
            // References of two batches: the one being filled and the next.
            let mut references = [0; 2 * BATCH as usize];
            let slot = |index: u32| (index % (2 * BATCH)) as usize;
            let mut drawn = 0;
            let mut first = 0;
            while first < length {
                while drawn < length && drawn <= first + BATCH {
                    input.words_mut()[counter] += 1;
                    // SAFETY: all are blocks of this function, apart from each other.
                    unsafe {
                        compress::<false, false>(&mut zero, &input, &mut once, &mut *work, |_| ());
                        compress::<false, false>(&mut zero, &once, &mut words, &mut *work, |_| ());
                    }
                    let end = length.min(drawn + BATCH);
                    for index in drawn.max(segment.first_index())..end {
                        let j = words.words()[place((index % BATCH) as usize)];
                        references[slot(index)] = reach.reference(index, j);
                    }
                    drawn += BATCH;
                }
                for index in first.max(segment.first_index())..length.min(first + BATCH) {
                    let previous = geometry.previous(segment, index);
                    let current = geometry.current(segment, index);
                    // SAFETY: all three places are below the plan's block count and differ
                    // (`position`); the caller owns `current` and nobody writes the others. What
                    // lies ahead is a place of the same memory.
                    unsafe {
                        if index + AHEAD < length {
                            prefetch::<NEAR>(memory.add(references[slot(index + AHEAD)]));
                        }
                        let prev = if NEAR { &raw mut *near } else { memory.add(previous) };
                        compress::<XOR, NEAR>(
                            prev,
                            memory.add(references[slot(index)]),
                            memory.add(current),
                            &mut *work,
                            |_| (),
                        );
                    }
                }
                first += BATCH;
            }
        }

        /// Segments whose references depend on the blocks before: side by side, block by block,
        /// so that one computes while the lines of the others are on their way.
        ///
        /// # Safety
        /// As [`fill`]; at most `SIDE_BY_SIDE` members.
        $(#[$features])*
        unsafe fn dependent<const XOR: bool, const NEAR: bool>(
            step: &crate::kernel::segment::Step<'_>,
            members: &[crate::kernel::segment::Member],
        ) {
            use crate::block::Block;
            use crate::kernel::segment::{SIDE_BY_SIDE, asking_together};
            use zeroize::Zeroizing;

            let geometry = &step.plan.geometry;
            let together = asking_together(members.len());
            let mut work = Zeroizing::new(Block::ZERO);
            let mut near = Zeroizing::new([Block::ZERO; SIDE_BY_SIDE]);
            let mut references = [0; SIDE_BY_SIDE];
            let mut reaches = [geometry.reach(step.segment(0)); SIDE_BY_SIDE];
            for (i, member) in members.iter().enumerate() {
                let segment = step.segment(member.lane);
                let index = segment.first_index();
                reaches[i] = geometry.reach(segment);
                // SAFETY: the place is below the plan's block count, and nobody writes there.
                unsafe {
                    let previous = member.memory.add(geometry.previous(segment, index));
                    if NEAR {
                        near[i] = *previous;
                    }
                    let j = (&*previous).words()[0];
                    references[i] = reaches[i].reference(index, j);
                    prefetch::<NEAR>(member.memory.add(references[i]));
                }
            }
            for index in step.segment(0).first_index()..geometry.segment_length {
                for asking in (0..members.len()).step_by(together) {
                    let asking = asking..members.len().min(asking + together);
                    for i in asking.clone() {
                        let member = members[i];
                        let segment = step.segment(member.lane);
                        let previous = geometry.previous(segment, index);
                        let current = geometry.current(segment, index);
                        // SAFETY: as in `independent`. The reference after the segment's last
                        // block is asked for and never used; it is a place of the memory, too.
                        unsafe {
                            let prev =
                                if NEAR { &raw mut near[i] } else { member.memory.add(previous) };
                            compress::<XOR, NEAR>(
                                prev,
                                member.memory.add(references[i]),
                                member.memory.add(current),
                                &mut *work,
                                |j| {
                                    references[i] = reaches[i].reference(index + 1, j);
                                    if together == 1 {
                                        prefetch::<NEAR>(member.memory.add(references[i]));
                                    }
                                },
                            );
                        }
                    }
                    if together > 1 {
                        // The first lines first: theirs are the walks.
                        for i in asking.clone() {
                            // SAFETY: a place of the memory.
                            unsafe { prefetch_first(members[i].memory.add(references[i])) };
                        }
                        for i in asking {
                            // SAFETY: a place of the memory.
                            unsafe { prefetch::<NEAR>(members[i].memory.add(references[i])) };
                        }
                    }
                }
            }
        }
    };
}
