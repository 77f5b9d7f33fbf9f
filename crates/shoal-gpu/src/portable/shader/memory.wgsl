// Inputs of the host, and the blocks of all hashes under way.
//
// A block is 64 quads of four 32-bit numbers, in the order of their threads: thread t
// holds the words a, b, c, d of one G of the column step, and quad t of a block holds a and b,
// quad 32 + t holds c and d. A thread therefore reads only quads of its own, and no
// barrier guards the memory. The blocks of a lane lie in chunks, wherever chunks were free.

struct Setup {
    // Tags at most this are solutions: eight numbers, the most significant first.
    target_high: vec4<u32>,
    target_low: vec4<u32>,
    // Blocks of a hash.
    blocks: u32,
    // The first column whose reference depends on contents.
    dependent_from: u32,
    // Blocks of a chunk, as a power of two.
    chunk_shift: u32,
    // Chunks of a lane at most.
    lane_chunks: u32,
    // Chunks of one pool.
    pool_chunks: u32,
    // Bytes hashed to H0.
    request_bytes: u32,
    // Orders of this launch.
    orders: u32,
    unused: u32,
}

// Columns to fill of one hash.
struct Order {
    lane: u32,
    first: u32,
    count: u32,
    nonce_low: u32,
    nonce_high: u32,
}

struct Result {
    is_solution: u32,
    tag: array<u32, 8>,
}

@group(0) @binding(0) var<uniform> setup: Setup;
// The bytes hashed to H0, with a nonce of zero.
@group(0) @binding(1) var<storage, read> request: array<u32>;
// References of the columns below `dependent_from`.
@group(0) @binding(2) var<storage, read> references: array<u32>;
@group(0) @binding(3) var<storage, read> orders: array<Order>;
// The chunks of each lane.
@group(0) @binding(4) var<storage, read> chunks: array<u32>;
@group(0) @binding(5) var<storage, read_write> results: array<Result>;

const QUADS: u32 = 64u;
const NONCE_WORD: u32 = 7u;

// The pool and the first quad of a block.
struct Place {
    pool: u32,
    quad: u32,
}

fn place_of(lane: u32, column: u32) -> Place {
    let chunk = chunks[lane * setup.lane_chunks + (column >> setup.chunk_shift)];
    let pool = chunk / setup.pool_chunks;
    let block = ((chunk % setup.pool_chunks) << setup.chunk_shift)
        | (column & ((1u << setup.chunk_shift) - 1u));
    return Place(pool, block * QUADS);
}

// Where word `index` of a block in its natural order lies: its quad, and its half of the quad.
fn quad_of(index: u32) -> vec2<u32> {
    let row = index >> 4u;
    let number = 2u * row + (index & 1u);
    let thread = 4u * ((index & 15u) >> 1u) + (number & 3u);
    let letter = number >> 2u;
    return vec2<u32>((letter >> 1u) * 32u + thread, letter & 1u);
}
