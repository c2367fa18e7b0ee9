/* bench_run.c — times prompts and new tokens of an open model.
 *
 * Each figure: one untimed warm-up, then the repeats, every one with other random ids; new tokens are the likeliest
 * ones behind a random first, so what is timed is what a greedy job has. The clock stops after qp_forward has returned,
 * which is when the device has finished. Prompts are fed in chunks as the generator does. */
#include "bench.h"
#include "load.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include <stdlib.h>

enum { CHUNK = 2048 }; /* qp_forward cuts it into what the device takes at once */

typedef struct bencher {
    bench_report *out;
    session *s;
    const qp_model *model;
    int limit;
    qp_sequence **sequences;
    const int32_t **ids; /* of each sequence, into drawn */
    size_t *counts, *lasts;
    int32_t *drawn;
    float *logits;
    int64_t n_sequences;
    uint64_t n_draws; /* counter of the random numbers: no prompt comes twice */
} bencher;

static double *bench_times(int64_t n) { return mem_array((size_t)n, sizeof(double)); }

static void draw(bencher *b, size_t count) {
    const double vocabulary = b->out->info.vocabulary;
    for (size_t i = 0; i < count; i++)
        b->drawn[i] = (int32_t)(rng_uniform((uint64_t)b->s->o->seed, 1, b->n_draws++) * vocabulary);
}

/* `tokens` new ids to every sequence in one step. */
static qp_status step(bencher *b, size_t tokens, bool want_logits, qp_error *err) {
    for (int64_t i = 0; i < b->n_sequences; i++) {
        b->ids[i] = b->drawn + (size_t)i * tokens;
        b->counts[i] = tokens;
        b->lasts[i] = want_logits;
    }
    return qp_forward(b->sequences, b->ids, b->counts, b->lasts, (int)b->n_sequences, b->logits, err);
}

static qp_status feed(bencher *b, int64_t tokens, qp_error *err) {
    for (int64_t done = 0; done < tokens;) {
        const int64_t count = tokens - done < CHUNK ? tokens - done : CHUNK;
        draw(b, (size_t)(count * b->n_sequences));
        done += count;
        ERR_TRY(step(b, (size_t)count, done == tokens, err));
    }
    return QP_OK;
}

/* So many new tokens of every sequence. The last ones, in b->drawn, have not been fed. */
static qp_status generate(bencher *b, int64_t tokens, qp_error *err) {
    draw(b, (size_t)b->n_sequences);
    for (int64_t i = 0; i < tokens; i++) ERR_TRY(qp_forward_best(b->sequences, b->drawn, (int)b->n_sequences, err));
    return QP_OK;
}

static qp_status rewind_all(bencher *b, int64_t length, qp_error *err) {
    for (int64_t i = 0; i < b->n_sequences; i++) ERR_TRY(qp_sequence_rewind(b->sequences[i], (uint64_t)length, err));
    return QP_OK;
}

/* ---- one figure ---- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(bench_row *row, double *seconds, int64_t repeats) {
    const double work = (double)(row->tokens * row->sequences);
    qsort(seconds, (size_t)repeats, sizeof *seconds, compare);
    const double middle = 0.5 * (seconds[(repeats - 1) / 2] + seconds[repeats / 2]);
    row->median = work / middle;
    row->lowest = work / seconds[repeats - 1];
    row->highest = work / seconds[0];
}

/* Decode: bytes of weights and cache that one step reads. Prefill: two operations for each weight and token, the output
 * layer for the last token only; weights are counted by the bytes that a step reads, so a tied table counts once. */
static double rate_of(const bencher *b, const bench_row *row) {
    const qp_model_info *info = &b->out->info;
    const qp_cache_type type = load_cache_type(b->s->o);
    if (row->is_decode) {
        const uint64_t cache = qp_model_cache_bytes(b->model, type, 1024) / 1024; /* of a token */
        const double depth = (double)row->depth + 0.5 * (double)row->tokens;
        const double bytes = (double)info->step_bytes + (double)cache * depth * (double)row->sequences;
        return bytes * row->median / (double)row->sequences / 1e9;
    }
    const double output = (double)info->vocabulary * info->hidden;
    const double read = info->bits_per_weight > 0 ? (double)info->step_bytes * 8 / info->bits_per_weight : 0;
    const double body = read > output ? read - output : 0;
    return 2 * (body + output / (double)row->tokens) * row->median / 1e9;
}

static qp_status time_row(bencher *b, bench_row *row, double *seconds, qp_error *err) {
    const int64_t repeats = b->s->o->repeat;
    const size_t bytes = (size_t)row->sequences * (size_t)b->out->info.vocabulary * sizeof *b->logits;
    for (int64_t i = -1; i < repeats; i++) {
        ERR_TRY(rewind_all(b, row->depth, err));
        const double start = clock_now();
        ERR_TRY(row->is_decode ? generate(b, row->tokens, err) : feed(b, row->tokens, err));
        const double end = clock_now();
        if (row->is_decode) ERR_TRY(step(b, 1, true, err)); /* logits to be hashed */
        if (i < 0) continue;
        seconds[i] = end - start;
        row->hash = hash_bytes(b->logits, bytes, row->hash);
    }
    summarise(row, seconds, repeats);
    row->rate = rate_of(b, row);
    return QP_OK;
}

static qp_status run_row(bencher *b, bench_row row, qp_error *err) {
    bench_report *out = b->out;
    if (!row.tokens) return QP_OK;
    double *seconds = bench_times(b->s->o->repeat);
    if (!seconds) return err_no_memory(err, (size_t)b->s->o->repeat * sizeof(double), "the times");
    const qp_status status = time_row(b, &row, seconds, err);
    mem_free(seconds);
    if (status == QP_OK) out->rows[out->n_rows++] = row;
    term_bar(&b->s->term, "measuring", ++out->n_done, out->n_planned);
    return status;
}

/* ---- one number of sequences ---- */

static int64_t longest(const options *o) {
    int64_t tokens = o->new_tokens + 1; /* and the one whose logits are hashed */
    for (size_t i = 0; i < o->prompt_list.count; i++)
        if (o->prompt_list.at[i] > tokens) tokens = o->prompt_list.at[i];
    return tokens;
}

static qp_status at_depth(bencher *b, int64_t depth, qp_error *err) {
    const options *o = b->s->o;
    ERR_TRY(rewind_all(b, 0, err));
    ERR_TRY(feed(b, depth, err));
    bench_row row = {.threads = b->out->info.threads, .sequences = b->n_sequences, .depth = depth, .limit = b->limit};
    for (size_t i = 0; i < o->prompt_list.count; i++) {
        row.tokens = o->prompt_list.at[i];
        ERR_TRY(run_row(b, row, err));
    }
    row.is_decode = true;
    row.tokens = o->new_tokens;
    return run_row(b, row, err);
}

static qp_status open_sequences(bencher *b, qp_error *err) {
    const options *o = b->s->o;
    const size_t n = (size_t)b->n_sequences;
    int64_t deepest = 0;
    for (size_t i = 0; i < o->depths.count; i++)
        if (o->depths.at[i] > deepest) deepest = o->depths.at[i];
    b->sequences = mem_zarray(n, sizeof *b->sequences);
    b->ids = mem_array(n, sizeof *b->ids);
    b->counts = mem_array(n, sizeof *b->counts);
    b->lasts = mem_array(n, sizeof *b->lasts);
    b->drawn = mem_array(n * CHUNK, sizeof *b->drawn);
    b->logits = mem_array(n * (size_t)b->out->info.vocabulary, sizeof *b->logits);
    if (!b->sequences || !b->ids || !b->counts || !b->lasts || !b->drawn || !b->logits)
        return err_no_memory(err, n * (size_t)b->out->info.vocabulary * sizeof *b->logits, "the sequences");
    return qp_sequences_new(b->sequences, (int)n, b->model, (uint64_t)(deepest + longest(o)), load_cache_type(o), err);
}

static void close_sequences(bencher *b) {
    for (int64_t i = 0; b->sequences && i < b->n_sequences; i++) qp_sequence_free(b->sequences[i]);
    mem_free(b->sequences);
    mem_free(b->ids);
    mem_free(b->counts);
    mem_free(b->lasts);
    mem_free(b->drawn);
    mem_free(b->logits);
}

static qp_status with_sequences(bencher b, int64_t count, qp_error *err) {
    const options *o = b.s->o;
    b.n_sequences = count;
    qp_status status = open_sequences(&b, err);
    for (size_t i = 0; i < o->depths.count && status == QP_OK; i++) status = at_depth(&b, o->depths.at[i], err);
    close_sequences(&b);
    return status;
}

int bench_plan(const options *o) {
    size_t figures = o->new_tokens > 0;
    for (size_t i = 0; i < o->prompt_list.count; i++) figures += o->prompt_list.at[i] > 0;
    return (int)(figures * o->sequences.count * o->depths.count);
}

qp_status bench_run(bench_report *out, session *s, const qp_model *model, int limit, qp_error *err) {
    const bencher b = {.out = out, .s = s, .model = model, .limit = limit};
    for (size_t i = 0; i < s->o->sequences.count; i++) ERR_TRY(with_sequences(b, s->o->sequences.at[i], err));
    return QP_OK;
}
