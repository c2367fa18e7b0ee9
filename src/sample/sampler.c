/* sampler.c — making a job's sampler: everything checked, lists of ids turned into bits, defaults put in.
 *
 * Called by gen/ on the client's thread, so that all that can be refused is refused there. */
#include "sampler.h"
#include "row.h"
#include "base/mem.h"
#include <string.h>

static qp_status check_id(const char *name, int32_t id, size_t i, int n_vocabulary, qp_error *err) {
    if (id >= 0 && id < n_vocabulary) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, i, "sampling: %s %zu is of id %d, the vocabulary has the ids 0 to %d", name,
                   i + 1, id, n_vocabulary - 1);
}

static qp_status check_setup(const sampler_setup *s, qp_error *err) {
    ERR_TRY(sampling_check(&s->settings, err));
    if (s->n_vocabulary < 1 || s->n_vocabulary > SAMPLER_MOST_TOKENS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: the vocabulary is %d, allowed are 1 to %d", s->n_vocabulary,
                       SAMPLER_MOST_TOKENS);
    if (s->n_tokens < 0 || s->n_tokens > s->n_vocabulary)
        return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: %d of the ids have tokens, the vocabulary is %d",
                       s->n_tokens, s->n_vocabulary);
    if (s->n_top < 0)
        return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: %d alternatives are wanted, allowed are 0 and more",
                       s->n_top);
    for (size_t i = 0; i < s->n_allow; i++) ERR_TRY(check_id("allowed token", s->allow[i], i, s->n_vocabulary, err));
    for (size_t i = 0; i < s->n_ban; i++) ERR_TRY(check_id("banned token", s->ban[i], i, s->n_vocabulary, err));
    for (size_t i = 0; i < s->n_bias; i++) {
        ERR_TRY(check_id("bias", s->bias[i].id, i, s->n_vocabulary, err));
        if (!(s->bias[i].bias <= 1e6f))
            return err_set(err, QP_BAD_ARGUMENT, i,
                           "sampling: the bias of id %d is %g, allowed are numbers up to 1e6 "
                           "and minus infinity",
                           s->bias[i].id, (double)s->bias[i].bias);
    }
    return QP_OK;
}

/* What zero stands for in settings whose stage is on. */
static void put_defaults(qp_sampling *s) {
    if (s->repetition_penalty == 0) s->repetition_penalty = 1;
    if (s->temperature_exponent == 0) s->temperature_exponent = 1;
    if (s->mirostat_eta == 0) s->mirostat_eta = 0.1f;
    if (s->xtc_threshold == 0) s->xtc_threshold = 0.1f;
    if (s->dry_base == 0) s->dry_base = 1.75f;
    if (s->dry_allowed_length == 0) s->dry_allowed_length = 2;
    if (s->dry_max_length == 0) s->dry_max_length = 20;
}

static void set_bit(uint32_t *bits, int32_t id, int n, bool value) {
    if (id >= n) return;
    const uint32_t bit = 1u << (id % 32);
    bits[id / 32] = value ? bits[id / 32] | bit : bits[id / 32] & ~bit;
}

static void fill_open(uint32_t *open, int n, const sampler_setup *s) {
    const bool all = s->n_allow == 0;
    for (int b = 0; b < row_blocks(n); b++) open[b] = all ? UINT32_MAX : 0;
    if (all && n % ROW_BLOCK) open[n / ROW_BLOCK] = (1u << (n % ROW_BLOCK)) - 1;
    for (size_t i = 0; i < s->n_allow; i++) set_bit(open, s->allow[i], n, true);
    for (size_t i = 0; i < s->n_ban; i++) set_bit(open, s->ban[i], n, false);
    for (size_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].bias < -FLT_MAX) set_bit(open, s->bias[i].id, n, false);
}

static qp_status fill_ids(sampler *s, const sampler_setup *setup, qp_error *err) {
    const size_t blocks = (size_t)row_blocks(s->n_tokens);
    s->open = mem_array(blocks, sizeof *s->open);
    if (!s->open) return err_no_memory(err, blocks * sizeof *s->open, "the tokens that may be sampled");
    fill_open(s->open, s->n_tokens, setup);
    s->is_all_open = true;
    for (int id = 0; id < s->n_tokens && s->is_all_open; id++) s->is_all_open = row_bit(s->open, id);
    if (!setup->n_bias) return QP_OK;
    s->bias = mem_array(setup->n_bias, sizeof *s->bias);
    if (!s->bias) return err_no_memory(err, setup->n_bias * sizeof *s->bias, "biases");
    for (size_t i = 0; i < setup->n_bias; i++)
        if (setup->bias[i].id < s->n_tokens && setup->bias[i].bias >= -FLT_MAX) s->bias[s->n_bias++] = setup->bias[i];
    return QP_OK;
}

qp_status sampler_new(sampler **out, const sampler_setup *setup, qp_error *err) {
    *out = NULL;
    ERR_TRY(check_setup(setup, err));
    sampler *s = MEM_NEW(sampler);
    if (!s) return err_no_memory(err, sizeof *s, "sampling");
    s->setup = *setup;
    s->setup.bias = NULL;
    s->setup.allow = s->setup.ban = NULL;
    put_defaults(&s->setup.settings);
    s->n_tokens = setup->n_tokens ? setup->n_tokens : setup->n_vocabulary;
    qp_status status = fill_ids(s, setup, err);
    if (status == QP_OK) status = penalties_open(&s->counts, &s->setup.settings, s->n_tokens, err);
    if (status == QP_OK) status = mirostat_open(&s->mirostat, &s->setup.settings, err);
    if (status != QP_OK) return sampler_free(s), status;
    *out = s;
    return QP_OK;
}

void sampler_free(sampler *s) {
    if (!s) return;
    penalties_close(&s->counts);
    mirostat_close(&s->mirostat);
    mem_free(s->open);
    mem_free(s->bias);
    mem_free(s);
}

void sampler_rewind(sampler *s, size_t n_new) {
    penalties_forget(&s->counts);
    mirostat_rewind(&s->mirostat, n_new);
}
