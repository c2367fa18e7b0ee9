/* emulate_run.h — the emulated GPU from the inside: a launch, who runs in it, and copies that are on their way.
 *
 * emulate_run.cpp has the coroutines and where they meet, emulate_ptx.cpp copies and products, emulate.cpp the driver's
 * interface, which makes launches. */
#ifndef TESTS_CUDA_EMULATE_RUN_H
#define TESTS_CUDA_EMULATE_RUN_H

#include "emulate.h"
#include <vector>

enum { MOST_THREADS = 1024, MOST_TOGETHER = 8, ARG_BYTES = 1024, LANES = 32, BARRIERS = 8 };

struct args {
    uint8_t bytes[ARG_BYTES];
};
typedef void kernel(args);

struct launch {
    void *function;
    unsigned grid[3], threads, shared_bytes;
    bool together;    /* all blocks are there at once */
    unsigned cluster; /* blocks of one */
    args given;
};

/* Chance decides who goes on and when copies arrive, but the same seed decides alike. */
void emulate_seed(unsigned seed);
/* NULL, or what went wrong. */
const char *emulate_launch(const launch *l);
/* Gives the coroutines' stacks back. */
void emulate_rest();

/* ---- for emulate_ptx.cpp ---- */

/* 16 bytes that a thread has asked for. */
struct own_copy {
    uint32_t to;
    const void *from;
    unsigned group;
};

/* On its way to a block, whose barrier hears of it. */
struct bulk_copy {
    struct block *block;
    uint32_t to, barrier;
    const void *from; /* NULL: words are sent */
    unsigned bytes;
    float words[2];
};

struct lane {
    std::vector<own_copy> copies;
    unsigned group; /* of the next copy */
};

lane &emulate_self();
block *emulate_here();
std::vector<bulk_copy> &emulate_on_their_way();
/* Whether a copy arrives as soon as it is asked for. */
bool emulate_hurries();
/* This thread waits until emulate_wake of the same address in its block. */
void emulate_sleep(uint32_t address);
void emulate_wake(block *b, uint32_t address);
/* To the block's memory, and its barrier is told. */
void emulate_deliver(const bulk_copy &c);
uint8_t *emulate_memory_of(block *b);
/* Block `rank` of this one's cluster, which has not ended. */
block *emulate_neighbour(uint32_t rank);

#endif
