//! Hashes under way, and the chunks of memory they take: plans each launch, knows no device.

/// The shape of the hashes and of their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of a hash, at least 8.
    pub blocks: u32,
    /// Blocks of a chunk, a power of two.
    pub chunk_blocks: u32,
    /// Chunks there are.
    pub chunk_count: u32,
    /// Most hashes under way.
    pub lane_max: u32,
}

impl Shape {
    /// Blocks of a chunk: a hash has up to 512 chunks, one of 2 GiB has chunks of 4 MiB.
    pub fn chunk_blocks_of(blocks: u32) -> u32 {
        blocks.div_ceil(512).next_power_of_two()
    }

    /// Chunks of a whole hash.
    pub fn lane_chunks(&self) -> u32 {
        self.blocks.div_ceil(self.chunk_blocks)
    }

    /// The first column whose reference depends on contents.
    pub fn dependent_from(&self) -> u32 {
        self.blocks / 2
    }

    /// Time of a hash, in columns of the first half.
    fn whole_cost(&self) -> u64 {
        self.cost(self.blocks)
    }

    /// Time until `column` is reached.
    fn cost(&self, column: u32) -> u64 {
        let known = column.min(self.dependent_from());
        u64::from(known) + DEPENDENT_COST * u64::from(column - known)
    }

    /// The column reached after `cost`, at most the last.
    fn column(&self, cost: u64) -> u32 {
        let known = u64::from(self.dependent_from());
        let column = if cost <= known { cost } else { known + (cost - known) / DEPENDENT_COST };
        u32::try_from(column).map_or(self.blocks, |column| column.min(self.blocks))
    }

    /// Most lanes whose chunks fit when their phases are spread evenly, at the worst moment: when
    /// the oldest ends, the next one is a share of a hash behind, and each counts its launch of
    /// `launch_cost`. 0 where not even one fits.
    fn fitting_lanes(&self, launch_cost: u64) -> u32 {
        let whole = self.whole_cost();
        let fits = |lanes: u32| {
            let chunks = (1..=lanes).map(|lane| {
                let reached = whole * u64::from(lane) / u64::from(lanes) + launch_cost;
                u64::from(self.column(reached).div_ceil(self.chunk_blocks))
            });
            chunks.sum::<u64>() <= u64::from(self.chunk_count)
        };
        if self.chunk_count < self.lane_chunks() {
            return 0;
        }
        (1..=self.lane_max).take_while(|lanes| fits(*lanes)).last().unwrap_or(1)
    }
}

/// Time of a column whose reference depends on contents, beside one whose reference is known: its
/// memory is asked for only when the column before is there.
const DEPENDENT_COST: u64 = 2;

/// Columns of one hash to fill in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The lane: its number of chunks lies at this place of [`Lanes::chunks`].
    pub lane: u32,
    /// The first column, 0 at the beginning of a hash.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// The nonce hashed.
    pub nonce: u64,
}

impl Order {
    /// `true` where a hash of so many blocks ends.
    pub fn is_last(&self, blocks: u32) -> bool {
        self.first + self.count == blocks
    }
}

/// Hashes under way. A lane is a hash's place; its chunks are taken as they fill, and given
/// back at its end.
#[derive(Debug)]
pub struct Lanes {
    shape: Shape,
    /// Under way, the oldest first.
    under_way: Vec<Order>,
    /// Lane after lane, [`Shape::lane_chunks`] each; chunks of columns not reached mean nothing.
    chunks: Vec<u32>,
    free_chunks: Vec<u32>,
    free_lanes: Vec<u32>,
    /// Hashes due to begin: grows with time, so that hashes begin one by one.
    credit: f64,
    /// Most hashes at a time for launches of this cost: [`Shape::fitting_lanes`] of the last one.
    fitting: (u64, u32),
}

impl Lanes {
    /// No hash under way. `None` where the chunks do not suffice for a single one.
    pub fn new(shape: Shape) -> Option<Self> {
        if shape.chunk_count < shape.lane_chunks() || shape.lane_max == 0 {
            return None;
        }
        Some(Self {
            shape,
            under_way: Vec::new(),
            chunks: vec![0; shape.lane_max as usize * shape.lane_chunks() as usize],
            free_chunks: (0..shape.chunk_count).rev().collect(),
            free_lanes: (0..shape.lane_max).rev().collect(),
            credit: 1.0,
            fitting: (0, 0),
        })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Chunks of the lanes, [`Shape::lane_chunks`] each.
    pub fn chunks(&self) -> &[u32] {
        &self.chunks
    }

    /// Hashes under way.
    pub fn count(&self) -> usize {
        self.under_way.len()
    }

    /// Most hashes at a time for launches of this many columns.
    pub fn lane_count(&self, columns: u32) -> u32 {
        self.shape.fitting_lanes(DEPENDENT_COST * u64::from(columns))
    }

    /// `true` where about as many hashes are under way as the memory holds.
    pub fn is_full(&self) -> bool {
        10 * self.under_way.len() >= 9 * self.fitting.1 as usize
    }

    /// Gives up every hash under way.
    pub fn clear(&mut self) {
        let Self { shape, .. } = *self;
        *self = Self::new(shape).expect("the shape was good before");
    }

    /// Plans a launch: `columns` of each hash in the dependent half, and as many as take the same
    /// time in the first. Begins hashes with nonces from `next`. Empty when there is
    /// nothing to do.
    ///
    /// A hash without free chunks waits. Chunks for the rest of the oldest are kept for the oldest:
    /// the oldest always ends, and its chunks are enough for the next.
    pub fn launch(&mut self, columns: u32, mut next: impl FnMut() -> Option<u64>) -> Vec<Order> {
        let Self { shape, .. } = *self;
        let budget = DEPENDENT_COST * u64::from(columns.max(1));
        self.begin(budget, &mut next);
        let mut orders = Vec::with_capacity(self.under_way.len());
        let oldest = self.under_way.first().map_or(0, |hash| hash.first);
        let mut kept = (shape.lane_chunks() - oldest.div_ceil(shape.chunk_blocks)) as usize;
        for hash in &mut self.under_way {
            // The first two blocks come with the beginning, and cost nothing here.
            let reached = shape.cost(hash.first.max(2)) + budget;
            let end = shape.column(reached).max(hash.first.max(2) + 1).min(shape.blocks);
            let held = hash.first.div_ceil(shape.chunk_blocks);
            let wanted = end.div_ceil(shape.chunk_blocks);
            let taken = (wanted - held) as usize;
            if orders.is_empty() {
                kept -= taken;
            } else if taken + kept > self.free_chunks.len() {
                continue;
            }
            let start = (hash.lane * shape.lane_chunks()) as usize;
            for place in held..wanted {
                self.chunks[start + place as usize] =
                    self.free_chunks.pop().expect("their number was looked at");
            }
            orders.push(Order { count: end - hash.first, ..*hash });
            hash.first = end;
        }
        for hash in self.under_way.extract_if(.., |hash| hash.first == shape.blocks) {
            let start = (hash.lane * shape.lane_chunks()) as usize;
            let held = start..start + shape.lane_chunks() as usize;
            // Nothing of this launch takes them: they are free for the next.
            self.free_chunks.extend_from_slice(&self.chunks[held]);
            self.free_lanes.push(hash.lane);
        }
        orders
    }

    /// Begins hashes, as many as are due.
    fn begin(&mut self, budget: u64, next: &mut impl FnMut() -> Option<u64>) {
        // Launches mostly cost the same, and the count takes a sum for every number of lanes.
        if self.fitting.0 != budget {
            self.fitting = (budget, self.shape.fitting_lanes(budget).max(1));
        }
        let lanes = self.fitting.1;
        // Credit of one launch: over the time of a hash, every lane begins once.
        let share = f64::from(lanes) * budget as f64 / self.shape.whole_cost() as f64;
        let is_due = |this: &Self| this.credit >= 1.0 || this.under_way.is_empty();
        while is_due(self) && self.under_way.len() < lanes as usize {
            let Some(nonce) = next() else { break };
            let lane = self.free_lanes.pop().expect("there are as many lanes as may be used");
            self.under_way.push(Order { lane, first: 0, count: 0, nonce });
            self.credit = (self.credit - 1.0).max(0.0);
        }
        self.credit = (self.credit + share).min(share + 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    const CHAIN: Shape =
        Shape { blocks: 1 << 21, chunk_blocks: 1 << 12, chunk_count: 69 * 512, lane_max: 1024 };

    #[test]
    fn shifted_phases_hold_more_hashes_than_lie_side_by_side() {
        let lanes = Lanes::new(CHAIN).unwrap();
        assert_eq!(CHAIN.chunk_count / CHAIN.lane_chunks(), 69);
        assert_eq!(lanes.lane_count(4096), 116);
    }

    #[test]
    fn in_the_long_run_every_lane_is_under_way_and_none_waits() {
        let mut lanes = Lanes::new(CHAIN).unwrap();
        let (mut nonce, mut ended, mut waits) = (0, 0, 0);
        let launches = 8 * CHAIN.whole_cost() / (2 * 16384);
        for launch in 0..launches {
            let orders = lanes.launch(16384, || {
                nonce += 1;
                Some(nonce)
            });
            ended += orders.iter().filter(|order| order.is_last(CHAIN.blocks)).count();
            assert_eq!(ended + lanes.count(), nonce as usize);
            if launch > launches / 2 {
                waits += lanes.count().saturating_sub(orders.len());
            }
        }
        let per_hash = launches as f64 / 8.0;
        let rate = ended as f64 / (launches as f64 - per_hash) * per_hash;
        assert!(
            rate > 0.9 * f64::from(lanes.lane_count(16384)),
            "{rate} hashes in the time of one"
        );
        assert_eq!(waits, 0);
    }

    proptest! {
        /// Every nonce is filled column by column to its end, and no chunk serves two.
        #[test]
        fn chunks_are_never_shared_and_columns_never_left_out(
            quarters in 2u32..200,
            chunk in 0u32..6,
            spare in 0u32..300,
            lane_max in 1u32..20,
            columns in prop::collection::vec(1u32..90, 1..8),
            nonces in 1u64..60,
        ) {
            let (blocks, chunk_blocks) = (4 * quarters, 1 << chunk);
            let lane_chunks = blocks.div_ceil(chunk_blocks);
            let shape = Shape { blocks, chunk_blocks, chunk_count: lane_chunks + spare, lane_max };
            let mut lanes = Lanes::new(shape).unwrap();
            let mut reached = BTreeMap::new();
            let mut next = 0..nonces;
            for step in columns.iter().cycle() {
                let before: Vec<Order> = lanes.under_way.clone();
                let orders = lanes.launch(*step, || next.next());
                if orders.is_empty() {
                    break;
                }
                let mut used = std::collections::BTreeSet::new();
                let waiting = before.iter().filter(|hash| !orders.iter().any(|o| o.lane == hash.lane));
                for order in orders.iter().chain(waiting) {
                    let end = (order.first + order.count).div_ceil(chunk_blocks);
                    for place in 0..end {
                        let chunk = lanes.chunks[(order.lane * lane_chunks + place) as usize];
                        prop_assert!(chunk < shape.chunk_count);
                        prop_assert!(used.insert(chunk), "chunk {chunk} serves two");
                    }
                }
                for order in &orders {
                    let column = reached.entry(order.nonce).or_insert(0);
                    prop_assert_eq!(order.first, *column);
                    prop_assert!(order.count > 0);
                    *column += order.count;
                }
            }
            prop_assert_eq!(lanes.count(), 0);
            prop_assert_eq!(reached.len() as u64, nonces);
            prop_assert!(reached.values().all(|column| *column == blocks));
            prop_assert_eq!(lanes.free_chunks.len() as u32, shape.chunk_count);
        }
    }
}
