/* pace.c — a small model of what a step costs, learnt while running.
 *
 * Called by sched.c (how many prompt rows?) and run.c (how long did it take?). A step of answers alone is mostly the
 * reading of the weights; prompt rows add arithmetic, in proportion to the rows and, through attention, to their
 * depth. The ratio of the two follows from the model's shape, the time of one unit is measured. Only the split of work
 * over steps depends on these times, never an answer. */
#include "pace.h"

enum { REFRESH = 48, FIRST_UNITS = 16 };
static const double KEEP = 0.8, LEAST_UNITS = 4;

void pace_open(pace *p, const model_shape *s) {
    const double q = (double)s->n_heads * s->head_dim, kv = (double)s->n_kv_heads * s->head_dim;
    const double layer = (double)s->hidden * (2 * q + 2 * kv + 3.0 * s->ffn);
    *p = (pace){.depth_cost = 2 * q / layer};
}

double pace_units(const pace *p, int64_t depth, int n) {
    return n * (1 + p->depth_cost * ((double)depth + 0.5 * (n + 1)));
}

static void mix(double *mean, double value) { *mean = *mean > 0 ? KEEP * *mean + (1 - KEEP) * value : value; }

void pace_observe(pace *p, int decode_rows, double units, double seconds) {
    if (units <= 0) {
        const bool is_other = decode_rows > p->decode_rows + p->decode_rows / 4 || decode_rows < p->decode_rows * 3 / 4;
        if (is_other) p->decode_s = 0;
        mix(&p->decode_s, seconds);
        p->decode_rows = decode_rows;
        p->age = 0;
        return;
    }
    p->age++;
    const double extra = decode_rows ? seconds - p->decode_s : seconds;
    if (decode_rows && p->decode_s <= 0) return;
    mix(&p->unit_s, (extra > 0.02 * seconds ? extra : 0.02 * seconds) / units);
}

double pace_budget(const pace *p, int decode_rows, double max_stall) {
    const int spread = p->decode_rows / 4 + 1;
    const bool is_stale = decode_rows > p->decode_rows + spread || decode_rows < p->decode_rows - spread;
    if (p->decode_s <= 0 || is_stale || p->age >= REFRESH) return 0;
    if (p->unit_s <= 0) return FIRST_UNITS;
    const double units = max_stall * p->decode_s / p->unit_s;
    return units > LEAST_UNITS ? units : LEAST_UNITS;
}

int pace_rows(const pace *p, int64_t depth, double units, int most) {
    int low = 1, high = most;
    while (low < high) {
        const int middle = high - (high - low) / 2;
        if (pace_units(p, depth, middle) <= units)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
