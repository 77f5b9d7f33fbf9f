// An emulated card: a process running the programs of argon2id.cu on the processor, for tests.
//
// Reads requests from its input, carries them out one after the other, and answers on its output,
// each answer behind its length. An address of the card is an address of this process.
//
//     A bytes            allocates; the answer is the address, 0 without memory
//     F address          frees
//     W address n BYTES  writes
//     R address n        reads; the answer is n bytes
//     K program groups count ARGUMENTS   runs a program over groups of 32 threads
//     P columns          prefetches so many columns ahead
//     M                  the answer is the free memory and all memory
//
// Each number has eight bytes, the least significant first. The 32 threads of a group are contexts
// that take turns at every shuffle; a thread that shuffles at another line than the others ends the
// process: a real card's threads would wait forever. Behind every allocation lies a page without
// access.
//
// Arguments of the process: bytes of memory, and the number of the first wrong answer to a read
// (0 for none). A card computing wrongly changes one bit of each answer from there on.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

// ------------------------------------------------------------------------------- CUDA's language

#define THREADS 32

typedef struct {
    unsigned x, y, z, w;
} uint4;

struct index {
    unsigned x;
};
static struct index threadIdx, blockIdx, blockDim;

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __ldcg(address) (*(address))
#define __stcg(address, value) (*(address) = (value))
#define __umulhi(a, b) ((unsigned)(((uint64_t)(unsigned)(a) * (unsigned)(b)) >> 32))
#define __shfl_sync(mask, value, from) shuffle(mask, value, from, __LINE__)
#define __syncwarp(mask) ((void)shuffle(mask, 0, 0, __LINE__))

static void fail(const char *words) {
    fprintf(stderr, "emulated card: %s\n", words);
    exit(3);
}

// Bytes of a (numbers 0 to 3) and b (4 to 7), chosen by the selector's lowest four digits.
static unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t both = ((uint64_t)b << 32) | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned byte = (both >> (8 * ((selector >> (4 * i)) & 7))) & 255;
        result |= byte << (8 * i);
    }
    return result;
}

// The upper half of (high, low) shifted to the left.
static unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((((uint64_t)hi << 32) | lo) << (shift & 31)) >> 32);
}

struct thread {
    // Where the thread begins, and where it goes on: a jump, unlike a change of contexts, asks
    // nothing of the system.
    ucontext_t context;
    jmp_buf place;
    int is_begun, is_done;
    // Shuffles change sides: a thread may be one shuffle ahead of another.
    int side;
    int line[2];
    uint64_t given[2];
};
static struct thread threads[THREADS];
static jmp_buf scheduler;
static unsigned current;

// Lets a thread run to its next shuffle, or to its end.
static void resume(struct thread *thread) {
    if (_setjmp(scheduler) != 0) return;
    if (thread->is_begun) _longjmp(thread->place, 1);
    thread->is_begun = 1;
    setcontext(&thread->context);
}

static uint64_t shuffle(unsigned mask, uint64_t value, unsigned from, int line) {
    struct thread *me = &threads[current];
    int side = me->side ^= 1;
    me->given[side] = value;
    me->line[side] = line;
    if (_setjmp(me->place) == 0) _longjmp(scheduler, 1);
    if (mask != 0xffffffffu || from >= THREADS) fail("a shuffle of other threads than the warp's");
    if (threads[from].line[side] != line) fail("threads of a warp shuffle at different places");
    return threads[from].given[side];
}

static unsigned prefetch_columns = 4;
#define PREFETCH prefetch_columns

#include "argon2id.cu"

// ------------------------------------------------------------------------------------- Launches

static uint64_t arguments[8];
static unsigned program;

static void run_thread(void) {
    const uint64_t *a = arguments;
    switch (program) {
    case 0:
        begin((const Setup *)a[0], (const u32 *)a[1], (const u64 *)a[2], (const u32 *)a[3],
              (const Order *)a[4], (u32)a[5]);
        break;
    case 1:
        fill((const Setup *)a[0], (const u32 *)a[1], (const u64 *)a[2], (const u32 *)a[3],
             (const Order *)a[4]);
        break;
    default:
        finish((const Setup *)a[0], (const u64 *)a[1], (const u32 *)a[2], (const Order *)a[3],
               (u32)a[4], (Result *)a[5]);
    }
    threads[current].is_done = 1;
    _longjmp(scheduler, 1);
}

#define STACK (256 * 1024)

static void run_group(unsigned group, char *stacks) {
    blockIdx.x = group;
    blockDim.x = THREADS;
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].is_begun = threads[i].is_done = 0;
        threads[i].side = 0;
        threads[i].line[0] = threads[i].line[1] = 0;
        getcontext(&threads[i].context);
        threads[i].context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        threads[i].context.uc_stack.ss_size = STACK;
        threads[i].context.uc_link = NULL;
        makecontext(&threads[i].context, run_thread, 0);
    }
    unsigned done = 0;
    while (done == 0) {
        for (current = 0; current < THREADS; current++) {
            threadIdx.x = current;
            resume(&threads[current]);
            done += threads[current].is_done;
        }
    }
    if (done != THREADS) fail("some threads of a warp end while others shuffle");
}

// -------------------------------------------------------------------------------------- Requests

struct allocation {
    char *mapping;
    uint64_t mapped, address, bytes;
    struct allocation *next;
};
static struct allocation *allocations;
static uint64_t memory, taken;

static void take(void *to, size_t bytes) {
    if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(0);
}

static uint64_t number(void) {
    uint64_t value;
    take(&value, sizeof value);
    return value;
}

static void answer(const void *from, uint64_t bytes) {
    fwrite(&bytes, sizeof bytes, 1, stdout);
    fwrite(from, 1, bytes, stdout);
    fflush(stdout);
}

static uint64_t allocate(uint64_t bytes) {
    const uint64_t page = sysconf(_SC_PAGESIZE);
    if (bytes > memory - taken) return 0;
    struct allocation *it = malloc(sizeof *it);
    if (it == NULL) return 0;
    uint64_t used = (bytes + 15) / 16 * 16;
    uint64_t pages = (used + page - 1) / page * page;
    it->mapped = pages + page;
    it->mapping = mmap(NULL, it->mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (it->mapping == MAP_FAILED || mprotect(it->mapping + pages, page, PROT_NONE) != 0) {
        free(it);
        return 0;
    }
    it->bytes = bytes;
    it->address = (uint64_t)(uintptr_t)it->mapping + pages - used;
    it->next = allocations;
    allocations = it;
    taken += bytes;
    return it->address;
}

static void release(uint64_t address) {
    for (struct allocation **at = &allocations; *at != NULL; at = &(*at)->next) {
        struct allocation *it = *at;
        if (it->address != address) continue;
        *at = it->next;
        taken -= it->bytes;
        munmap(it->mapping, it->mapped);
        free(it);
        return;
    }
    fail("memory is freed that was never allocated");
}

int main(int count, char **words) {
    if (count != 3) fail("arguments: bytes of memory, number of the first wrong answer");
    memory = strtoull(words[1], NULL, 10);
    uint64_t wrong_from = strtoull(words[2], NULL, 10), reads = 0;
    char *stacks = malloc((size_t)STACK * THREADS);
    if (stacks == NULL) fail("no memory for stacks");
    for (;;) {
        int request = getchar();
        if (request == EOF) return 0;
        switch (request) {
        case 'A': {
            uint64_t address = allocate(number());
            answer(&address, sizeof address);
            break;
        }
        case 'F':
            release(number());
            break;
        case 'W': {
            uint64_t address = number(), bytes = number();
            take((void *)(uintptr_t)address, bytes);
            break;
        }
        case 'R': {
            uint64_t address = number(), bytes = number();
            reads++;
            if (wrong_from > 0 && reads >= wrong_from && bytes > 4) {
                *(unsigned char *)(uintptr_t)(address + 4) ^= 1;
            }
            answer((const void *)(uintptr_t)address, bytes);
            break;
        }
        case 'K': {
            program = (unsigned)number();
            unsigned groups = (unsigned)number();
            uint64_t given = number();
            if (given > 8) fail("more arguments than a program has");
            take(arguments, given * sizeof arguments[0]);
            for (unsigned group = 0; group < groups; group++) run_group(group, stacks);
            break;
        }
        case 'P':
            prefetch_columns = (unsigned)number();
            break;
        case 'M': {
            uint64_t both[2] = {memory - taken, memory};
            answer(both, sizeof both);
            break;
        }
        default:
            fail("an unknown request");
        }
    }
}
