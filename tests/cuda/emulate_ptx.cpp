/* emulate_ptx.cpp — a GPU's own instructions without a GPU: copies on their own way, barriers that count them, and the
 * products of a warp.
 *
 * See ptx.cuh, whose functions these are. A copy arrives when it is asked for, when it is waited for, or in between:
 * emulate_run.cpp draws lots. What a GPU only leaves undefined (a barrier that nobody made, one arrival too many) ends
 * the launch here. */
#include "emulate_run.h"
#include "../../src/dev/cuda/kernels/kernel.cuh"

/* ---- copies of a thread's own ---- */

void copy_async16(uint32_t to, const void *from, uint64_t) {
    lane &self = emulate_self();
    uint8_t *at = emulate_at(to, 16);
    if ((uintptr_t)from % 16) emulate_fault("a copy of 16 bytes is not aligned");
    if (emulate_hurries())
        memcpy(at, from, 16);
    else
        self.copies.push_back({to, from, self.group});
}

void commit_copies() { emulate_self().group++; }

void emulate_wait_copies(int but) {
    lane &self = emulate_self();
    size_t left = 0;
    for (const own_copy &c : self.copies) {
        if (c.group + (unsigned)but < self.group)
            memcpy(emulate_at(c.to, 16), c.from, 16);
        else
            self.copies[left++] = c;
    }
    self.copies.resize(left);
}

/* ---- barriers in shared memory ---- */

enum { MADE = 0x5A };
struct counter {
    int32_t bytes;                     /* that are still to come */
    uint8_t count, pending, phase, is; /* pending: arrivals of `count`; is: MADE */
};

static counter *counter_of(block *of, uint32_t b) {
    counter *c = (counter *)(emulate_memory_of(of) + (emulate_at(b, sizeof *c) - emulated_shared));
    if (c->is != MADE) emulate_fault("a barrier has not been made");
    return c;
}
static counter *counter_at(uint32_t b) { return counter_of(emulate_here(), b); }

static void end_phase(block *of, counter *c, uint32_t at) {
    if (c->pending || c->bytes) return;
    c->pending = c->count;
    c->phase ^= 1;
    emulate_wake(of, at);
}

void barrier_init(uint32_t b, int n) {
    const counter c = {0, (uint8_t)n, (uint8_t)n, 0, MADE};
    memcpy(emulate_at(b, sizeof c), &c, sizeof c);
}

static void arrive(block *of, uint32_t b, int bytes) {
    counter *c = counter_of(of, b);
    if (!c->pending) emulate_fault("more arrive at a barrier than it was made for");
    c->bytes += bytes;
    c->pending--;
    end_phase(of, c, b);
}
void barrier_expect(uint32_t b, int bytes) { arrive(emulate_here(), b, bytes); }
void barrier_arrive(uint32_t b, uint32_t rank) { arrive(emulate_neighbour(rank), b, 0); }

void barrier_wait(uint32_t b, uint32_t parity) {
    const counter *c = counter_at(b);
    while (c->phase == parity) emulate_sleep(b);
}

static void send(const bulk_copy &c) {
    if (emulate_hurries())
        emulate_deliver(c);
    else
        emulate_on_their_way().push_back(c);
}

void copy_bulk_once(uint32_t to, const void *from, int bytes, uint32_t barrier, uint64_t) {
    uint8_t *at = emulate_at(to, 16);
    if ((uintptr_t)from % 16 || bytes % 16 || bytes <= 0) emulate_fault("a copy in bulk is not aligned");
    if ((unsigned)bytes > emulated_shared_bytes - (unsigned)(at - emulated_shared))
        emulate_fault("a copy in bulk is longer than the shared memory");
    counter_at(barrier);
    send({emulate_here(), to, barrier, from, (unsigned)bytes, {}});
}

void emulate_send(uint32_t to, const float *words, unsigned bytes, uint32_t barrier, uint32_t rank) {
    bulk_copy c = {emulate_neighbour(rank), to, barrier, NULL, bytes, {}};
    emulate_at(to, bytes);
    counter_of(c.block, barrier);
    memcpy(c.words, words, bytes);
    send(c);
}

static void check_same(uint8_t (*slots)[EMULATED_SLOT]) {
    for (int i = 1; i < LANES; i++)
        if (memcmp(slots[0], slots[i], EMULATED_SLOT)) emulate_fault("lanes ask for different copies");
}

void prefetch_bulk(const void *from, int bytes) {
    if ((uintptr_t)from % 16 || bytes % 16 || bytes <= 0) emulate_fault("a prefetch in bulk is not aligned");
    const volatile uint8_t *all = (const volatile uint8_t *)from; /* it is somebody's memory: sanitizers see to that */
    (void)all[0], (void)all[bytes - 1];
}

void copy_bulk_by_one(uint32_t to, const void *from, int bytes, uint32_t barrier, uint64_t policy, bool wanted) {
    uint64_t said[EMULATED_SLOT / sizeof(uint64_t)] = {to, (uintptr_t)from, (uint64_t)bytes, barrier, wanted};
    emulate_meet(check_same, said, sizeof said);
    if (threadIdx.x % LANES || !wanted) return;
    barrier_expect(barrier, bytes);
    copy_bulk_once(to, from, bytes, barrier, policy);
}

void emulate_deliver(const bulk_copy &c) {
    uint8_t *memory = emulate_memory_of(c.block);
    counter *at = (counter *)(memory + (c.barrier - SHARED_BASE));
    memcpy(memory + (c.to - SHARED_BASE), c.from ? c.from : c.words, c.bytes);
    at->bytes -= (int32_t)c.bytes;
    end_phase(c.block, at, c.barrier);
}

/* ---- 16-bit floats ---- */

float to_float(f16 x) { return quant_f16_to_f32(x.bits); }
void put_float(f16 *to, float x) { to->bits = quant_f32_to_f16(x); }
void put_float(bf16 *to, float x) { to->bits = quant_f32_to_bf16(x); }

/* ---- products: PTX says which lane has what ---- */

/* What a lane has of [16][K] by rows times [K][8] by columns, in words; it gets the sums back. */
template <class SUM> struct operands {
    SUM c[4];
    uint32_t a[4], b[2];
};

/* A word has `PER` inputs. Row r, word k of a: register (r >= 8) + 2 (k >= 4) of lane r % 8 * 4 + k % 4; column n of b
 * likewise. Sums of rows and columns: rows g and g + 8, columns 2 t and the next. */
template <class SUM, class INPUT, class WIDE, int PER, int WORDS, class READ_A, class READ_B>
static void multiply(uint8_t (*slots)[EMULATED_SLOT], READ_A read_a, READ_B read_b) {
    operands<SUM> all[LANES];
    INPUT a[16][WORDS * PER], b[WORDS * PER][8];
    for (int i = 0; i < LANES; i++) memcpy(&all[i], slots[i], sizeof all[i]);
    for (int k = 0; k < WORDS; k++)
        for (int i = 0; i < PER; i++) {
            for (int r = 0; r < 16; r++) a[r][k * PER + i] = read_a(all[r % 8 * 4 + k % 4].a[r / 8 + k / 4 * 2], i);
            for (int n = 0; n < 8; n++) b[k * PER + i][n] = read_b(all[n * 4 + k % 4].b[k / 4], i);
        }
    for (int r = 0; r < 16; r++) {
        WIDE sums[8];
        for (int n = 0; n < 8; n++) sums[n] = all[r % 8 * 4 + n / 2].c[r / 8 * 2 + n % 2];
        for (int k = 0; k < WORDS * PER; k++)
            for (int n = 0; n < 8; n++) sums[n] += (WIDE)a[r][k] * (WIDE)b[k][n];
        for (int n = 0; n < 8; n++) all[r % 8 * 4 + n / 2].c[r / 8 * 2 + n % 2] = (SUM)sums[n];
    }
    for (int i = 0; i < LANES; i++) memcpy(slots[i], all[i].c, sizeof all[i].c);
}

template <class T> static void multiply_floats(uint8_t (*slots)[EMULATED_SLOT]) {
    const auto read = [](uint32_t word, int i) {
        T x;
        x.bits = (uint16_t)(word >> 16 * i);
        return to_float(x);
    };
    multiply<float, float, double, 2, 8>(slots, read, read);
}

/* BYTE: of the first operand, with a sign or without one. */
template <int WORDS, class BYTE> static void multiply_bytes(uint8_t (*slots)[EMULATED_SLOT]) {
    multiply<int, int16_t, int, 4, WORDS>(
        slots, [](uint32_t word, int i) { return (int16_t)(BYTE)(word >> 8 * i); },
        [](uint32_t word, int i) { return (int16_t)(int8_t)(word >> 8 * i); });
}

template <class SUM> static void do_product(emulated_work *work, SUM c[4], const operands<SUM> &mine) {
    static_assert(sizeof mine <= EMULATED_SLOT, "fits a slot");
    memcpy(c, emulate_meet(work, &mine, sizeof mine) + EMULATED_SLOT * (threadIdx.x % LANES), 4 * sizeof *c);
}

template <class T> static void multiply_tile_of(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    do_product<float>(multiply_floats<T>, c, {{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}});
}
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, f16) {
    multiply_tile_of<f16>(c, a, b0, b1);
}
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bf16) {
    multiply_tile_of<bf16>(c, a, b0, b1);
}
void mma_half(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) { multiply_tile_of<f16>(c, a, b0, b1); }

void mma_digits(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    do_product<int>(multiply_bytes<8, uint8_t>, c, {{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}});
}
void mma_codes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, int start) {
    do_product<int>(multiply_bytes<8, int8_t>, c, {{start, start, start, start}, {a[0], a[1], a[2], a[3]}, {b0, b1}});
}
void mma_digits16(int c[4], uint32_t a0, uint32_t a1, uint32_t b) {
    do_product<int>(multiply_bytes<4, uint8_t>, c, {{c[0], c[1], c[2], c[3]}, {a0, a1, 0, 0}, {b, 0}});
}

/* Four matrices of 8 x 8 halves; lane 8 i + r has the address of row r of matrix i. */
static void transpose(uint8_t (*slots)[EMULATED_SLOT]) {
    uint16_t rows[LANES][8];
    for (int i = 0; i < LANES; i++) {
        uint32_t at;
        memcpy(&at, slots[i], sizeof at);
        memcpy(rows[i], emulate_at(at, 16), sizeof rows[i]);
    }
    for (int i = 0; i < LANES; i++)
        for (int m = 0; m < 4; m++) {
            const uint16_t both[2] = {rows[8 * m + i % 4 * 2][i / 4], rows[8 * m + i % 4 * 2 + 1][i / 4]};
            memcpy(slots[i] + 4 * m, both, 4);
        }
}

static void transpose_one(uint8_t (*slots)[EMULATED_SLOT]) {
    uint16_t rows[8][8];
    for (int i = 0; i < LANES; i++) memcpy(&rows[i / 4][i % 4 * 2], slots[i], 4);
    for (int i = 0; i < LANES; i++) {
        const uint16_t both[2] = {rows[i % 4 * 2][i / 4], rows[i % 4 * 2 + 1][i / 4]};
        memcpy(slots[i], both, 4);
    }
}

uint32_t transpose_halves(uint32_t pair) {
    uint32_t r;
    memcpy(&r, emulate_meet(transpose_one, &pair, sizeof pair) + EMULATED_SLOT * (threadIdx.x % LANES), sizeof r);
    return r;
}

void load_transposed(uint32_t r[4], uint32_t at) {
    memcpy(r, emulate_meet(transpose, &at, sizeof at) + EMULATED_SLOT * (threadIdx.x % LANES), 16);
}
