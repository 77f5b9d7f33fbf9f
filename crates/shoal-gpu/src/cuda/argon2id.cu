// Argon2id of one pass and one lane (RFC 9106) for proof of work, in CUDA C: a warp a hash.
//
// The language is the common part of CUDA C++ and C99: NVRTC builds the programs of a card, and
// a C compiler builds the same text with `emulator.c`, where the threads of a warp take turns.
//
// Thread t of a warp holds four words of a block, in one of two layouts. With g = t / 8,
// e = t / 4 % 2 and m = t % 4, and word (R, c) for word c of row R:
//
// - rows: slot k of the thread holds word (2 g + e, 4 k + m), a row for four neighbours.
// - columns: slot q holds word (2 q + e, 4 g + m), numbers 4 q + p of the sixteen words of column
//   pair 2 g + m / 2, where p = 2 e + m % 2.
//
// A turn moves slots 1, 2 and 3 by one, two and three members of the four, so that diagonals become
// columns. Nothing is turned back: the exchange between layouts reads turned words, and a block
// lies in memory as turned columns. Slots 0 and 1 of thread t are quad t of 16 bytes, slots 2
// and 3 quad 32 + t: a thread reads again only what the thread itself wrote, and no barrier
// guards the memory.

typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __cplusplus
#define PROGRAM extern "C" __global__
#else
#define PROGRAM __global__
#endif
#define ALL 0xffffffffu

// Columns between a block's prefetch into the L2 cache and its load; 0 for none.
#ifndef PREFETCH
#define PREFETCH 4
#endif

// Chunks of a hash at most.
#define CHUNKS_MAX 512
// The place of the nonce among the 32-bit numbers hashed to H0.
#define NONCE_NUMBER 7

// A challenge and the pool's shape.
typedef struct {
    // Tags at most this are solutions: eight numbers, the most significant first.
    u32 target[8];
    // Blocks of a hash.
    u32 blocks;
    // The first column whose reference depends on contents.
    u32 dependent_from;
    // Blocks of a chunk, as a power of two.
    u32 chunk_shift;
    // Chunks of a lane at most.
    u32 lane_chunks;
    // Chunks of one part of the pool, as a power of two.
    u32 part_shift;
    // Bytes hashed to H0.
    u32 request_bytes;
    u32 unused[2];
} Setup;

// Columns to fill of one hash.
typedef struct {
    u32 lane;
    u32 first;
    u32 count;
    u32 nonce_low;
    u32 nonce_high;
} Order;

typedef struct {
    u32 is_solution;
    u32 tag[8];
} Result;

typedef struct {
    u64 a, b, c, d;
} Four;

static __device__ __forceinline__ u32 low(u64 x) { return (u32)x; }
static __device__ __forceinline__ u32 high(u64 x) { return (u32)(x >> 32); }
static __device__ __forceinline__ u64 word(u32 lo, u32 hi) { return ((u64)hi << 32) | lo; }

static __device__ __forceinline__ u64 rotate_32(u64 x) { return word(high(x), low(x)); }
static __device__ __forceinline__ u64 rotate_24(u64 x) {
    return word(__byte_perm(low(x), high(x), 0x6543), __byte_perm(low(x), high(x), 0x2107));
}
static __device__ __forceinline__ u64 rotate_16(u64 x) {
    return word(__byte_perm(low(x), high(x), 0x5432), __byte_perm(low(x), high(x), 0x1076));
}
static __device__ __forceinline__ u64 rotate_63(u64 x) {
    return word(__funnelshift_l(high(x), low(x), 1), __funnelshift_l(low(x), high(x), 1));
}

// The first quad of a block: part and place of its chunk are resolved by the caller.
static __device__ __forceinline__ uint4 *block_of(const u64 *parts, const Setup *setup, u32 chunk,
                                                  u32 column) {
    u32 inside = chunk & ((1u << setup->part_shift) - 1);
    u64 block = ((u64)inside << setup->chunk_shift) + (column & ((1u << setup->chunk_shift) - 1));
    return (uint4 *)(parts[chunk >> setup->part_shift] + (block << 10));
}

// ---------------------------------------------------------------- BLAKE2b, one thread a digest

static __device__ const u64 IV[8] = {
    0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull, 0xa54ff53a5f1d36f1ull,
    0x510e527fade682d1ull, 0x9b05688c2b3e6c1full, 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull,
};

// The order of message words in the ten different rounds: four bits a word, the first lowest.
static __device__ const u64 SIGMA[10] = {
    0xfedcba9876543210ull, 0x357b20c16df984aeull, 0x491763eadf250c8bull, 0x8f04a562ebcd1397ull,
    0xd386cb1efa427509ull, 0x91ef57d438b0a6c2ull, 0xb8293670a4def15cull, 0xa2684f05931ce7bdull,
    0x5a417d2c803b9ef6ull, 0x0dc3e9bf5167482aull,
};

typedef struct {
    u64 state[8];
    u32 message[32];
} Digest;

static __device__ __forceinline__ void mix(u64 *v, u32 a, u32 b, u32 c, u32 d, u64 x, u64 y) {
    v[a] += v[b] + x;
    v[d] = rotate_32(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_24(v[b] ^ v[c]);
    v[a] += v[b] + y;
    v[d] = rotate_16(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_63(v[b] ^ v[c]);
}

static __device__ void digest_begin(Digest *digest, u32 digest_bytes) {
    for (u32 i = 0; i < 8; i++) digest->state[i] = IV[i];
    digest->state[0] ^= 0x01010000u | digest_bytes;
}

static __device__ void clear_message(Digest *digest) {
    for (u32 i = 0; i < 32; i++) digest->message[i] = 0;
}

// Takes the 128 bytes of the message; `bytes` counts all bytes taken so far.
static __device__ void digest_block(Digest *digest, u32 bytes, int is_last) {
    u64 v[16], m[16];
    for (u32 i = 0; i < 8; i++) {
        v[i] = digest->state[i];
        v[i + 8] = IV[i];
    }
    for (u32 i = 0; i < 16; i++) m[i] = word(digest->message[2 * i], digest->message[2 * i + 1]);
    v[12] ^= bytes;
    if (is_last) v[14] = ~v[14];
    for (u32 round = 0; round < 12; round++) {
        u64 order = SIGMA[round % 10];
#define M(place) m[(order >> (4 * (place))) & 15]
        mix(v, 0, 4, 8, 12, M(0), M(1));
        mix(v, 1, 5, 9, 13, M(2), M(3));
        mix(v, 2, 6, 10, 14, M(4), M(5));
        mix(v, 3, 7, 11, 15, M(6), M(7));
        mix(v, 0, 5, 10, 15, M(8), M(9));
        mix(v, 1, 6, 11, 12, M(10), M(11));
        mix(v, 2, 7, 8, 13, M(12), M(13));
        mix(v, 3, 4, 9, 14, M(14), M(15));
#undef M
    }
    for (u32 i = 0; i < 8; i++) digest->state[i] ^= v[i] ^ v[i + 8];
}

// H0 of a nonce, into the digest's state.
static __device__ void prehash(Digest *digest, const u32 *request, u32 bytes, u32 nonce_low,
                               u32 nonce_high) {
    digest_begin(digest, 64);
    u32 taken = 0;
    for (;;) {
        for (u32 i = 0; i < 32; i++) {
            u32 index = taken / 4 + i;
            u32 number = 4 * index < bytes ? request[index] : 0;
            if (index == NONCE_NUMBER) number = nonce_low;
            if (index == NONCE_NUMBER + 1) number = nonce_high;
            digest->message[i] = number;
        }
        if (bytes - taken <= 128) {
            digest_block(digest, bytes, 1);
            return;
        }
        taken += 128;
        digest_block(digest, taken, 0);
    }
}

// The place of word `index` of a block among its 128 words in memory.
static __device__ __forceinline__ u32 place_of(u32 index) {
    u32 row = index >> 4, c = index & 15;
    u32 number = 2 * row + (c & 1), slot = number >> 2;
    u32 member = (number - slot) & 3;
    u32 thread = 8 * (c >> 2) + 4 * (member >> 1) + 2 * ((c >> 1) & 1) + (member & 1);
    return 64 * (slot >> 1) + 2 * thread + (slot & 1);
}

// The first two blocks of every hash beginning in this launch, a thread each.
PROGRAM void begin(const Setup *setup, const u32 *request, const u64 *parts, const u32 *chunks,
                   const Order *orders, u32 order_count) {
    u32 id = blockIdx.x * blockDim.x + threadIdx.x;
    u32 column = id & 1;
    if ((id >> 1) >= order_count) return;
    Order order = orders[id >> 1];
    if (order.first != 0) return;
    Digest digest;
    prehash(&digest, request, setup->request_bytes, order.nonce_low, order.nonce_high);
    clear_message(&digest);
    digest.message[0] = 1024;
    for (u32 i = 0; i < 8; i++) {
        digest.message[2 * i + 1] = low(digest.state[i]);
        digest.message[2 * i + 2] = high(digest.state[i]);
    }
    digest.message[17] = column;
    digest_begin(&digest, 64);
    digest_block(&digest, 76, 1);
    u32 chunk = chunks[order.lane * setup->lane_chunks + (column >> setup->chunk_shift)];
    u64 *block = (u64 *)block_of(parts, setup, chunk, column);
    u32 index = 0;
    for (;;) {
        for (u32 i = 0; i < 4; i++) block[place_of(index + i)] = digest.state[i];
        index += 4;
        if (index == 124) break;
        clear_message(&digest);
        for (u32 i = 0; i < 8; i++) {
            digest.message[2 * i] = low(digest.state[i]);
            digest.message[2 * i + 1] = high(digest.state[i]);
        }
        digest_begin(&digest, 64);
        digest_block(&digest, 64, 1);
    }
    // The last digest gives both halves.
    for (u32 i = 0; i < 4; i++) block[place_of(124 + i)] = digest.state[4 + i];
}

// The tag of every hash ending in this launch, compared with the target.
PROGRAM void finish(const Setup *setup, const u64 *parts, const u32 *chunks, const Order *orders,
                    u32 order_count, Result *results) {
    u32 id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= order_count) return;
    Order order = orders[id];
    if (order.first + order.count != setup->blocks) return;
    u32 column = setup->blocks - 1;
    u32 chunk = chunks[order.lane * setup->lane_chunks + (column >> setup->chunk_shift)];
    const u64 *block = (const u64 *)block_of(parts, setup, chunk, column);
    Digest digest;
    digest_begin(&digest, 32);
    // The length of the tag, then 256 numbers of the block: each message holds 32 of them at most.
    for (u32 part = 0; part < 9; part++) {
        clear_message(&digest);
        for (u32 i = 0; i < 32; i++) {
            u32 at = 32 * part + i;
            if (at == 0) {
                digest.message[i] = 32;
            } else if (at <= 256) {
                u64 both = block[place_of((at - 1) >> 1)];
                digest.message[i] = (at - 1) & 1 ? high(both) : low(both);
            }
        }
        u32 bytes = 128 * (part + 1);
        digest_block(&digest, bytes < 1028 ? bytes : 1028, part == 8);
    }
    u32 is_solution = 1, is_decided = 0;
    Result *result = &results[id];
    for (u32 i = 0; i < 8; i++) {
        u64 both = digest.state[i >> 1];
        u32 number = i & 1 ? high(both) : low(both);
        result->tag[i] = number;
        u32 comes = __byte_perm(number, 0, 0x0123);
        if (!is_decided && comes != setup->target[i]) {
            is_decided = 1;
            is_solution = comes < setup->target[i];
        }
    }
    result->is_solution = is_solution;
}

// ------------------------------------------------------------------------- G, a warp a block

// a + b + 2 * low(a) * low(b), the multiplying addition of RFC 9106 section 3.6.
static __device__ __forceinline__ u64 add_product(u64 a, u64 b) {
    return a + b + 2 * ((u64)low(a) * low(b));
}

// All of one G but its last quarter: a is final.
static __device__ __forceinline__ void mix_most(Four *f) {
    f->a = add_product(f->a, f->b);
    f->d = rotate_32(f->d ^ f->a);
    f->c = add_product(f->c, f->d);
    f->b = rotate_24(f->b ^ f->c);
    f->a = add_product(f->a, f->b);
}

static __device__ __forceinline__ void mix_rest(Four *f) {
    f->d = rotate_16(f->d ^ f->a);
    f->c = add_product(f->c, f->d);
    f->b = rotate_63(f->b ^ f->c);
}

static __device__ __forceinline__ void turn(Four *f, u32 one, u32 two, u32 three) {
    f->b = __shfl_sync(ALL, f->b, one);
    f->c = __shfl_sync(ALL, f->c, two);
    f->d = __shfl_sync(ALL, f->d, three);
}

// Slot i to slot i ^ by.
static __device__ __forceinline__ void swap_slots(Four *f, u32 by) {
    u64 a = by & 1 ? f->b : f->a, b = by & 1 ? f->a : f->b;
    u64 c = by & 1 ? f->d : f->c, d = by & 1 ? f->c : f->d;
    f->a = by & 2 ? c : a;
    f->b = by & 2 ? d : b;
    f->c = by & 2 ? a : c;
    f->d = by & 2 ? b : d;
}

// From one layout to the other: slot h of a thread in eight `group` comes from eight h, from its
// slot `group`, from the thread `from` modulo eight.
static __device__ __forceinline__ void exchange(Four *f, u32 group, u32 from) {
    swap_slots(f, group);
    f->a = __shfl_sync(ALL, f->a, from);
    f->b = __shfl_sync(ALL, f->b, from ^ 8);
    f->c = __shfl_sync(ALL, f->c, from ^ 16);
    f->d = __shfl_sync(ALL, f->d, from ^ 24);
    swap_slots(f, group);
}

static __device__ __forceinline__ Four read_block(const uint4 *block, u32 thread) {
    uint4 one = __ldcg(block + thread), other = __ldcg(block + 32 + thread);
    Four f;
    f.a = word(one.x, one.y);
    f.b = word(one.z, one.w);
    f.c = word(other.x, other.y);
    f.d = word(other.z, other.w);
    return f;
}

static __device__ __forceinline__ void write_block(uint4 *block, u32 thread, Four f) {
    uint4 one, other;
    one.x = low(f.a);
    one.y = high(f.a);
    one.z = low(f.b);
    one.w = high(f.b);
    other.x = low(f.c);
    other.y = high(f.c);
    other.z = low(f.d);
    other.w = high(f.d);
    __stcg(block + thread, one);
    __stcg(block + 32 + thread, other);
}

static __device__ __forceinline__ Four xor_of(Four f, Four g) {
    f.a ^= g.a;
    f.b ^= g.b;
    f.c ^= g.c;
    f.d ^= g.d;
    return f;
}

// Asks the L2 cache for a block, a sector of 32 bytes a thread.
static __device__ __forceinline__ void prefetch(const uint4 *block, u32 thread) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(block + 2 * thread));
#else
    __builtin_prefetch(block + 2 * thread);
#endif
}

// Columns `first` to `first + count` of one hash: a block of 32 threads for each order.
PROGRAM void fill(const Setup *setup, const u32 *references, const u64 *parts, const u32 *chunks,
                  const Order *orders) {
    // The first quad of each chunk: one look into shared memory in place of two into global.
    __shared__ u64 bases[CHUNKS_MAX];
    u32 thread = threadIdx.x;
    Order order = orders[blockIdx.x];
    u32 end = order.first + order.count;
    u32 shift = setup->chunk_shift, inside = (1u << shift) - 1;
    u32 dependent_from = setup->dependent_from;
    for (u32 place = thread; place <= (end - 1) >> shift; place += 32) {
        u32 chunk = chunks[order.lane * setup->lane_chunks + place];
        bases[place] = (u64)block_of(parts, setup, chunk, 0);
    }
    __syncwarp(ALL);
#define BLOCK(column) ((uint4 *)(bases[(column) >> shift] + ((u64)((column) & inside) << 10)))

    u32 g = thread >> 3, e = (thread >> 2) & 1, m = thread & 3;
    u32 row = thread & ~3u;
    u32 row_1 = row | ((m + 1) & 3), row_2 = row | ((m + 2) & 3), row_3 = row | ((m + 3) & 3);
    // Members of a column's four differ in two bits of their threads.
    u32 p = 2 * e + (m & 1), four = (thread & 24) | (m & 2);
#define MEMBER(p) (four | ((((p) & 3) & 2) << 1) | ((p) & 1))
    u32 column_1 = MEMBER(p + 1), column_2 = MEMBER(p + 2), column_3 = MEMBER(p + 3);
    u32 to_rows = MEMBER(p - g);
    u32 to_columns = row | ((m - g) & 3);

    u32 column = order.first > 2 ? order.first : 2;
    Four previous = read_block(BLOCK(column - 1), thread);
    u32 known = end < dependent_from ? end : dependent_from;

    // One G over a block: `previous` becomes the next block. STEP runs once word 0 is known.
#define COMPRESS(r, STEP)                                                                          \
    do {                                                                                           \
        Four z = r;                                                                                \
        exchange(&z, g, to_rows);                                                                  \
        mix_most(&z);                                                                              \
        mix_rest(&z);                                                                              \
        turn(&z, row_1, row_2, row_3);                                                             \
        mix_most(&z);                                                                              \
        mix_rest(&z);                                                                              \
        exchange(&z, g, to_columns);                                                               \
        mix_most(&z);                                                                              \
        mix_rest(&z);                                                                              \
        turn(&z, column_1, column_2, column_3);                                                    \
        mix_most(&z);                                                                              \
        previous.a = z.a ^ r.a;                                                                    \
        STEP;                                                                                      \
        mix_rest(&z);                                                                              \
        previous.b = z.b ^ r.b;                                                                    \
        previous.c = z.c ^ r.c;                                                                    \
        previous.d = z.d ^ r.d;                                                                    \
        write_block(BLOCK(column), thread, previous);                                              \
    } while (0)

    // The first half: references are known, and each block is loaded one column ahead.
    if (column < known) {
        Four ahead = read_block(BLOCK(references[column]), thread);
        u32 next = column + 1 < known ? references[column + 1] : 0;
        while (column < known) {
            Four r = xor_of(previous, ahead);
            if (column + 1 < known) ahead = read_block(BLOCK(next), thread);
            if (column + 2 < known) next = references[column + 2];
            if (PREFETCH > 0 && column + 1 + PREFETCH < known) {
                // A block not written yet brings its old bytes into the cache, and no harm.
                prefetch(BLOCK(references[column + 1 + PREFETCH]), thread);
            }
            COMPRESS(r, (void)0);
            column++;
        }
    }
    // The second half: J1 is word 0 of the block before, and the load begins as soon as word 0 is
    // known. A block's reference is never the block before, so the loads need not wait for a store.
    if (column < end) {
        u32 area, x, reference;
        Four other;
#define CHOOSE(column)                                                                             \
    do {                                                                                           \
        area = (column) - 1;                                                                       \
        x = __shfl_sync(ALL, low(previous.a), 0);                                                  \
        reference = area - 1 - __umulhi(area, __umulhi(x, x));                                     \
        other = read_block(BLOCK(reference), thread);                                              \
    } while (0)
        CHOOSE(column);
        while (column < end) {
            Four r = xor_of(previous, other);
            COMPRESS(r, if (column + 1 < end) CHOOSE(column + 1));
            column++;
        }
    }
}
