/* emulate_run.cpp — a launch without a GPU: threads are coroutines on stacks of their own, run in turns by one thread.
 *
 * Called by emulate.cpp. Blocks run one after the other, or all at once where the launch says so. Which warp goes on,
 * in what order its lanes do, and when copies arrive is drawn by lot: a wait that is missing somewhere shows with some
 * seed. Where nobody can go on and nothing is on its way, the launch has failed.
 *
 * The tricky thing is what a meeting of lanes may overwrite: there are two sets of slots, used alternately, and no lane
 * can be two meetings ahead of another. */
#include <algorithm>
#include <stdlib.h>
#include <sys/mman.h>
#include "emulate_run.h"
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (void)0
#endif

/* ---- changing stacks ---- */

#ifdef __x86_64__
typedef void *context;

/* Apart from what a call saves anyway, without asking the kernel. */
extern "C" __attribute__((visibility("hidden"))) void emulate_switch(context *from, context to);
asm(".pushsection .text\n"
    ".type emulate_switch, @function\n"
    "emulate_switch:\n"
    "    pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "    ret\n"
    ".popsection\n");

static void change(context *from, const context *to) { emulate_switch(from, *to); }
static void make_context(context *c, uint8_t *, uint8_t *top, void (*main)()) {
    void **at = (void **)((uintptr_t)top & ~(uintptr_t)15);
    *--at = NULL; /* nobody to return to */
    *--at = (void *)main;
    for (int i = 0; i < 6; i++) *--at = NULL;
    *c = at;
}
#else
#include <ucontext.h>
typedef ucontext_t context;

static void change(context *from, const context *to) { swapcontext(from, to); }
static void make_context(context *c, uint8_t *stack, uint8_t *top, void (*main)()) {
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = (size_t)(top - stack);
    c->uc_link = NULL;
    makecontext(c, main, 0);
}
#endif

/* ---- who runs ---- */

/* Lanes as bits. */
struct warp {
    struct block *block;
    unsigned first; /* thread of the block */
    uint32_t lives, runs, meets, sleeps, at_barrier[BARRIERS];
    bool is_ready;
    emulated_work *work; /* of the meeting to which lanes come */
    size_t shown;
    unsigned n_meetings;
    uint8_t slots[2][LANES][EMULATED_SLOT];
    uint32_t address[LANES]; /* what a sleeping lane waits for */
    context contexts[LANES];
    lane lanes[LANES];
};

struct block {
    emulated_index index;
    std::vector<warp> warps;
    uint8_t *shared;
    unsigned n_live, n_at[BARRIERS], wanted[BARRIERS];
    unsigned n_in_cluster, n_met; /* threads that wait for their cluster, and how often they have met there */
};

enum { STACK_BYTES = 128 << 10, COLOURS = 16, COLOUR = 1088, MOST_LOOKS = 1 << 20 };
static const uint32_t ALL = 0xffffffffu;

static struct {
    block blocks[MOST_TOGETHER];
    std::vector<warp *> ready;
    std::vector<bulk_copy> on_their_way;
    const launch *what;
    uint8_t *stacks;
    size_t stack_bytes;
    context scheduler;
    warp *now;
    unsigned lane;
    bool looked;     /* the thread that ran has only looked at what others count */
    unsigned n_live; /* threads of all blocks */
    const char *fault;
    uint64_t chance;
    unsigned hurry; /* of 256 copies so many arrive at once, and so many steps bring one */
} all;

emulated_index threadIdx, blockIdx, blockDim, gridDim;
uint8_t *emulated_shared;
unsigned emulated_shared_bytes;

static unsigned draw(unsigned n) {
    all.chance = all.chance * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((all.chance >> 33) * n >> 31);
}

void emulate_seed(unsigned seed) {
    static const unsigned hurries[] = {256, 0, 64, 4};
    all.chance = seed * 0x9E3779B97F4A7C15u;
    all.hurry = hurries[seed % 4];
}

lane &emulate_self() { return all.now->lanes[all.lane]; }
block *emulate_here() { return all.now->block; }
std::vector<bulk_copy> &emulate_on_their_way() { return all.on_their_way; }
bool emulate_hurries() { return draw(256) < all.hurry; }
uint8_t *emulate_memory_of(block *b) { return b->shared; }

/* ---- clusters ---- */

uint32_t cluster_blocks() { return all.what->cluster; }
static unsigned number_of(const block *b) { return (unsigned)(b - all.blocks); }
uint32_t cluster_rank() { return number_of(all.now->block) % all.what->cluster; }
static block *first_of_cluster() { return all.now->block - cluster_rank(); }
block *emulate_neighbour(uint32_t rank) {
    if (all.what->cluster < 2) emulate_fault("a block without a cluster sends something");
    if (rank >= all.what->cluster) emulate_fault("the cluster has no such block");
    block *b = first_of_cluster() + rank;
    if (!b->n_live) emulate_fault("a block of the cluster has ended");
    return b;
}

static uint32_t bit() { return (uint32_t)1 << all.lane; }
static void pause() { change(&all.now->contexts[all.lane], &all.scheduler); }

void emulate_fault(const char *what) {
    if (!all.fault) all.fault = what;
    for (;;) pause();
}

static void wake(warp *w, uint32_t lanes) {
    w->runs |= lanes;
    if (w->is_ready || !lanes) return;
    w->is_ready = true;
    all.ready.push_back(w);
}

void emulate_sleep(uint32_t address) {
    all.now->address[all.lane] = address;
    all.now->sleeps |= bit();
    all.now->runs &= ~bit();
    pause();
}

void emulate_wake(block *b, uint32_t address) {
    for (warp &w : b->warps) {
        uint32_t lanes = 0;
        for (uint32_t left = w.sleeps; left; left &= left - 1)
            if (w.address[__builtin_ctz(left)] == address) lanes |= left & -left;
        w.sleeps &= ~lanes;
        wake(&w, lanes);
    }
}

static void look() {
    all.looked = true;
    pause();
}
uint32_t load_acquire(const uint32_t *from) {
    look();
    return *from;
}
uint32_t load_relaxed4(const void *from) {
    look();
    return *(const uint32_t *)from;
}
uint4 load_relaxed16(const void *from) {
    look();
    return *emulate_aligned((const uint4 *)from);
}

/* ---- meeting ---- */

static void end_meeting(warp *w) {
    if (w->work && w->lives != ALL) emulate_fault("lanes are missing that a product needs");
    if (w->work) w->work(w->slots[w->n_meetings % 2]);
    w->n_meetings++;
    wake(w, w->meets);
    w->meets = 0;
}

const uint8_t *emulate_meet(emulated_work *work, const void *shown, size_t bytes) {
    warp *w = all.now;
    uint8_t(*slots)[EMULATED_SLOT] = w->slots[w->n_meetings % 2];
    if (w->meets && (w->work != work || w->shown != bytes)) emulate_fault("lanes of a warp meet for different reasons");
    w->work = work;
    w->shown = bytes;
    if (bytes) memcpy(slots[all.lane], shown, bytes);
    w->meets |= bit();
    if (w->meets == w->lives) {
        end_meeting(w);
    } else {
        w->runs &= ~bit();
        pause();
    }
    return slots[0];
}

unsigned __ballot_sync(unsigned, bool vote) {
    const uint8_t *shown = emulate_meet(NULL, &vote, 1);
    unsigned votes = 0;
    for (unsigned i = 0; i < LANES; i++) votes |= (unsigned)(shown[EMULATED_SLOT * i] != 0) << i;
    return votes;
}

static void open_barrier(block *b, int barrier) {
    b->n_at[barrier] = 0;
    for (warp &w : b->warps) {
        wake(&w, w.at_barrier[barrier]);
        w.at_barrier[barrier] = 0;
    }
}

void emulate_pass(int barrier, unsigned n) {
    block *b = all.now->block;
    if (b->n_at[barrier] && b->wanted[barrier] != n) emulate_fault("threads meet in different numbers");
    b->wanted[barrier] = n;
    b->n_at[barrier]++;
    if (b->n_at[barrier] == (n ? n : b->n_live)) open_barrier(b, barrier);
}

void emulate_barrier(int barrier, unsigned n) {
    all.now->at_barrier[barrier] |= bit();
    all.now->runs &= ~bit();
    emulate_pass(barrier, n);
    if (!(all.now->runs & bit())) pause();
}

/* Waiting is looking: blocks of a cluster are few. */
void cluster_sync() {
    block *first = first_of_cluster();
    const unsigned met = first->n_met;
    if (++first->n_in_cluster == all.what->cluster * all.what->threads) {
        first->n_in_cluster = 0;
        first->n_met++;
    }
    while (first->n_met == met) look();
}

static void end_thread() {
    warp *w = all.now;
    block *b = w->block;
    w->lives &= ~bit();
    w->runs &= ~bit();
    all.n_live--;
    if (w->meets && w->meets == w->lives) end_meeting(w);
    if (--b->n_live == b->n_at[0] && b->n_live) open_barrier(b, 0);
    for (const bulk_copy &c : all.on_their_way)
        if (!b->n_live && c.block == b) emulate_fault("a block ends while copies are on their way to it");
}

static void thread_main() {
    ((kernel *)all.what->function)(all.what->given);
    end_thread();
    for (;;) pause();
}

/* ---- turns ---- */

static void resume(warp *w, unsigned lane) {
    all.now = w;
    all.lane = lane;
    threadIdx.x = w->first + lane;
    blockIdx = w->block->index;
    emulated_shared = w->block->shared;
    change(&all.scheduler, &w->contexts[lane]);
}

/* Lanes that can, one after the other, upwards or downwards, until they cannot or others shall. */
static void run_warp(warp *w) {
    all.looked = false;
    do {
        const bool upwards = draw(2);
        for (uint32_t left = w->runs; left && !all.fault;) {
            const unsigned lane = (unsigned)(upwards ? __builtin_ctz(left) : 31 - __builtin_clz(left));
            left &= ~((uint32_t)1 << lane);
            resume(w, lane);
        }
    } while (w->runs && !all.looked && !all.fault && draw(8));
}

static void bring_one() {
    std::vector<bulk_copy> &copies = all.on_their_way;
    const size_t i = draw((unsigned)copies.size());
    const bulk_copy c = copies[i];
    copies[i] = copies.back();
    copies.pop_back();
    emulate_deliver(c);
}

/* Until all threads have ended. */
static void take_turns() {
    unsigned looks = 0; /* since somebody did more than that */
    while (all.n_live && !all.fault) {
        const bool only_look = looks > 4 * all.ready.size();
        if (!all.on_their_way.empty() && (all.ready.empty() || only_look || emulate_hurries())) bring_one();
        if (all.on_their_way.empty() && (all.ready.empty() || looks > MOST_LOOKS))
            all.fault = "threads wait for what never comes";
        if (all.ready.empty() || all.fault) continue;
        const size_t i = draw((unsigned)all.ready.size());
        warp *w = all.ready[i];
        run_warp(w);
        looks = all.looked ? looks + 1 : 0;
        if (w->runs) continue;
        w->is_ready = false;
        all.ready[i] = all.ready.back();
        all.ready.pop_back();
    }
}

/* ---- launches ---- */

static void open_warp(warp *w, block *b, unsigned first, uint8_t *stacks) {
    w->block = b;
    w->first = first;
    w->lives = ALL;
    w->runs = w->meets = w->sleeps = 0;
    std::fill_n(w->at_barrier, (int)BARRIERS, 0);
    w->is_ready = false;
    w->n_meetings = 0;
    for (unsigned i = 0; i < LANES; i++, stacks += STACK_BYTES) {
        w->lanes[i].copies.clear();
        w->lanes[i].group = 0;
        /* tops at the same place of every stack would meet in the same lines of the cache */
        make_context(&w->contexts[i], stacks, stacks + STACK_BYTES - i % COLOURS * COLOUR, thread_main);
    }
    wake(w, ALL);
}

static void open_block(unsigned i, unsigned index) {
    const launch *l = all.what;
    block *b = &all.blocks[i];
    b->index = {index % l->grid[0], index / l->grid[0] % l->grid[1], index / l->grid[0] / l->grid[1]};
    b->warps.resize(l->threads / LANES);
    b->n_live = l->threads;
    std::fill_n(b->n_at, (int)BARRIERS, 0);
    b->n_in_cluster = b->n_met = 0;
    memset(b->shared, 0xFF, l->shared_bytes);
    all.n_live += l->threads;
    for (unsigned w = 0; w < b->warps.size(); w++)
        open_warp(&b->warps[w], b, w * LANES, all.stacks + ((size_t)i * l->threads + w * LANES) * STACK_BYTES);
}

static bool make_stacks(unsigned n_threads) {
    const size_t bytes = (size_t)n_threads * STACK_BYTES;
    if (bytes <= all.stack_bytes) return true;
    emulate_rest();
    void *stacks =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return false;
    all.stacks = (uint8_t *)stacks;
    all.stack_bytes = bytes;
    return true;
}

void emulate_rest() {
    ASAN_UNPOISON_MEMORY_REGION(all.stacks, all.stack_bytes); /* who comes to lie here knows nothing of them */
    if (all.stacks) munmap(all.stacks, all.stack_bytes);
    all.stacks = NULL;
    all.stack_bytes = 0;
}

/* What threads that never ended have left. */
static void forget_all() {
    all.ready.clear();
    all.on_their_way.clear();
    all.n_live = 0;
    ASAN_UNPOISON_MEMORY_REGION(all.stacks, all.stack_bytes);
}

const char *emulate_launch(const launch *l) {
    const unsigned n_blocks = l->grid[0] * l->grid[1] * l->grid[2], at_once = l->together ? n_blocks : 1;
    all.what = l;
    all.fault = make_stacks(at_once * l->threads) ? NULL : "no memory for stacks";
    blockDim = {l->threads, 1, 1};
    gridDim = {l->grid[0], l->grid[1], l->grid[2]};
    emulated_shared_bytes = l->shared_bytes;
    for (unsigned i = 0; i < at_once; i++)
        if (posix_memalign((void **)&all.blocks[i].shared, 1024, l->shared_bytes + 1)) abort();
    for (unsigned index = 0; index < n_blocks && !all.fault; index += at_once) {
        for (unsigned i = 0; i < at_once; i++) open_block(i, index + i);
        take_turns();
    }
    if (all.fault) forget_all();
    for (unsigned i = 0; i < at_once; i++) free(all.blocks[i].shared);
    return all.fault;
}
