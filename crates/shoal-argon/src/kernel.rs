//! The compression function G over a memory: how one block follows from two (RFC 9106 §3.5,
//! §3.6), slice by slice, for every lane.
//!
//! A kernel is one way of computing G, and all give the same words. `scalar` is the definition.
//! The choice is made once for each slice; below, everything is inlined into the kernel's own
//! loops. Each kernel may order the words of a block as it likes: [`enter`] and [`leave`] know.

#[macro_use]
mod segment;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod team;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::marker::PhantomData;
use std::ops::Range;

pub(crate) use segment::Plan;
pub(crate) use team::{Control, Stopped};

use crate::block::{BLOCK_WORDS, Block};
use crate::isa::{Isa, Set};
use segment::{BATCH, Member, Step};

use crate::position::SLICES;

/// Fills every memory for these passes, one after the other, on `control.threads` threads.
///
/// Memories are filled side by side: each must be as long as the plan says, with the first two
/// blocks of each lane there before the first pass.
///
/// # Errors
/// [`Stopped`] when `control` asked for it; the memories then hold nothing of use.
///
/// # Panics
/// When a memory is too short, and when the progress callback does.
pub(crate) fn fill(
    isa: Isa,
    plan: &Plan,
    passes: Range<u32>,
    memories: &mut [&mut [Block]],
    control: &Control<'_>,
) -> Result<(), Stopped> {
    let past_caches = plan.geometry.place(plan.geometry.lanes, 0) >= PAST_CACHES_FROM;
    fill_with(isa, plan, passes, memories, control, past_caches)
}

/// As [`fill`]; `past_caches` says whether blocks are written past the caches.
fn fill_with(
    isa: Isa,
    plan: &Plan,
    passes: Range<u32>,
    memories: &mut [&mut [Block]],
    control: &Control<'_>,
    past_caches: bool,
) -> Result<(), Stopped> {
    let geometry = &plan.geometry;
    let block_count = geometry.place(geometry.lanes, 0);
    for memory in &*memories {
        assert!(memory.len() >= block_count, "a memory has all blocks of its plan");
    }
    let shared = Shared::new(memories, geometry.lanes);
    team::run(control, shared.members.len(), passes, &|share: Range<usize>, pass, slice| {
        let step = Step { plan, pass, slice, past_caches };
        // SAFETY: each memory is exclusively borrowed by `shared` and was checked to have all
        // blocks. `team::run` gives every member to one thread a slice, and starts no slice
        // before all threads are done with the one before: so within a slice each segment is
        // written by one thread, and all others are only read (§3.4.2: no reference reaches
        // into a segment that another lane is filling).
        unsafe { shared.fill(isa, &step, share) }
    })
}

/// Memories from this size on outgrow every cache many times: writing past the caches pays.
const PAST_CACHES_FROM: usize = 256 * 1024;

/// Every lane of every memory filled side by side, lane after lane, for several threads.
struct Shared<'a> {
    members: Vec<Member>,
    memories: PhantomData<&'a mut [Block]>,
}

// SAFETY: the pointers stand for exclusive borrows of plain words; who may use which of them, and
// when, is what `Shared::fill` asks of its callers.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    fn new(memories: &'a mut [&mut [Block]], lanes: u32) -> Self {
        let starts: Vec<*mut Block> =
            memories.iter_mut().map(|memory| memory.as_mut_ptr()).collect();
        let members = (0..lanes)
            .flat_map(|lane| starts.iter().map(move |&memory| Member { memory, lane }))
            .collect();
        Self { members, memories: PhantomData }
    }

    /// Fills the segments of these members.
    ///
    /// # Safety
    /// Every memory has all blocks of the plan. While this runs, nobody else fills any of these
    /// members, or any member in another slice.
    unsafe fn fill(&self, isa: Isa, step: &Step<'_>, share: Range<usize>) {
        let members = &self.members[share];
        // SAFETY: `isa` is proof of the instruction set; the rest is passed on from the caller.
        unsafe {
            match isa.set() {
                Set::Scalar => scalar::fill(step, members),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => avx2::fill(step, members),
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => avx512::fill(step, members),
                #[cfg(target_arch = "aarch64")]
                Set::Neon => neon::plain::fill(step, members),
                #[cfg(target_arch = "aarch64")]
                Set::NeonSha3 => neon::sha3::fill(step, members),
            }
        }
    }
}

/// The references of lane 0 in the slices of the first pass with references by position, in the
/// order of columns.
pub(crate) fn known_references(plan: &Plan) -> Vec<u32> {
    let geometry = &plan.geometry;
    let mut references = Vec::new();
    let slices = (0..SLICES).map(|slice| Step { plan, pass: 0, slice, past_caches: false });
    for step in slices.take_while(Step::is_independent) {
        let segment = step.segment(0);
        let reach = geometry.reach(segment);
        let (mut seed, mut words) = (Block::ZERO, Block::ZERO);
        for (word, value) in seed.words_mut().iter_mut().zip(step.seed(0)) {
            *word = value.into();
        }
        for index in 0..geometry.segment_length {
            if index.is_multiple_of(BATCH) {
                seed.words_mut()[6] += 1;
                words = scalar::address(&seed);
            }
            let word = words.words()[(index % BATCH) as usize];
            references.push(if index < segment.first_index() {
                0
            } else {
                u32::try_from(reach.reference(index, word)).expect("columns fit 32 bits")
            });
        }
    }
    references
}

/// Brings a block's words into the order of the kernel's memory.
pub(crate) fn enter(isa: Isa, natural: &Block, block: &mut Block) {
    for word in 0..BLOCK_WORDS {
        block.words_mut()[place(isa, word)] = natural.words()[word];
    }
}

/// Xors a block of the kernel's memory into one whose words are in their natural order.
pub(crate) fn leave(isa: Isa, block: &Block, natural: &mut Block) {
    for word in 0..BLOCK_WORDS {
        natural.words_mut()[word] ^= block.words()[place(isa, word)];
    }
}

fn place(isa: Isa, word: usize) -> usize {
    match isa.set() {
        Set::Scalar => scalar::place(word),
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => avx2::place(word),
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => avx512::place(word),
        #[cfg(target_arch = "aarch64")]
        Set::Neon | Set::NeonSha3 => neon::place(word),
    }
}

#[cfg(test)]
mod tests;
