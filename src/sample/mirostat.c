/* mirostat.c — mirostat 2 (Basu et al. 2021): candidates more surprising than mu are cut, and mu follows the surprise
 * of what was picked.
 *
 * mu is kept for every token of the answer, so that taking tokens back restores it. Where memory for that runs out,
 * the older half is forgotten: only a rewind that far is then inexact. */
#include "mirostat.h"
#include "num.h"
#include "sampler_table.h"
#include "base/mem.h"

enum { FIRST_CAPACITY = 64 };

qp_status mirostat_open(mirostat_state *m, const qp_sampling *s, qp_error *err) {
    *m = (mirostat_state){0};
    if (!(s->mirostat_tau > 0)) return QP_OK;
    m->mu = mem_array(FIRST_CAPACITY, sizeof *m->mu);
    if (!m->mu) return err_no_memory(err, FIRST_CAPACITY * sizeof *m->mu, "mirostat");
    m->capacity = FIRST_CAPACITY;
    return QP_OK;
}

void mirostat_close(mirostat_state *m) {
    mem_free(m->mu);
    *m = (mirostat_state){0};
}

float mirostat_mu(const mirostat_state *m, const qp_sampling *s, uint64_t position) {
    if (!m->n || position < m->first) return 2 * s->mirostat_tau;
    return m->mu[position - m->first < m->n ? position - m->first : m->n - 1];
}

static void make_place(mirostat_state *m) {
    if (m->n < m->capacity) return;
    float *more = mem_resize(m->mu, 2 * m->capacity, sizeof *more);
    if (more) {
        m->mu = more;
        m->capacity *= 2;
        return;
    }
    const size_t half = m->n / 2;
    memmove(m->mu, m->mu + half, (m->n - half) * sizeof *m->mu);
    m->first += half;
    m->n -= half;
}

void mirostat_note(mirostat_state *m, const qp_sampling *s, uint64_t position, double p) {
    const float mu = mirostat_mu(m, s, position);
    const double surprise = -num_log2(p);
    if (!m->n || position < m->first || position - m->first >= m->n) { /* the first, or one out of order */
        m->first = position;
        m->mu[0] = mu;
    }
    m->n = position - m->first + 1;
    make_place(m);
    m->mu[m->n++] = mu + s->mirostat_eta * (s->mirostat_tau - (float)surprise);
}

void mirostat_rewind(mirostat_state *m, uint64_t position) {
    if (m->n && position < m->first)
        m->n = 0;
    else if (m->n && position - m->first < m->n)
        m->n = position - m->first + 1;
}

/* ---- the stage ---- */

static bool is_on(const qp_sampling *s) { return s->mirostat_tau > 0; }

static float floor_of(const stage_view *v, double log_mass) { return (float)(-v->mu + log_mass); }

static void apply(candidate_list *c, const stage_view *v) { candidates_keep_least(c, num_exp2(-v->mu) * c->sum); }

const sampler_row sampler_mirostat = {"mirostat", is_on, apply, floor_of, true};
