/* next_step.c — guesses the next step from the one before it: the same sequences, each a token longer.
 *
 * Called by forward.c. A guess is used only where the step that comes is it, so a wrong one costs a device nothing but
 * what it did while it would have waited. What cannot be said is not guessed: the page of a token that begins one. */
#include "next_step.h"
#include "rope.h"
#include <string.h>

static bool is_decode(const step_input *in) {
    return in->n_rows > 0 && in->n_rows <= NEXT_STEP_ROWS && in->n_spans == in->n_rows &&
           in->n_logit_rows == in->n_rows && !in->n_state_rows && !step_has_adapters(in);
}

/* The span of one sequence, its pages behind the first `n_pages` of `a`. */
static bool go_on(next_step *a, int i, const step_input *in, size_t *n_pages) {
    const row_span *old = &in->spans[i];
    row_span *s = &a->spans[i];
    *s = (row_span){.row = old->row, .n_rows = 1, .past = old->past + 1, .pages = a->pages + *n_pages};
    const size_t n = dev_page_count(s);
    if (old->n_rows != 1 || n != dev_page_count(old) || n > NEXT_STEP_PAGES - *n_pages) return false;
    memcpy(a->pages + *n_pages, old->pages, n * sizeof *a->pages);
    *n_pages += n;
    a->rope_lengths[i] = in->rope_lengths[i] + 1;
    a->ids[i] = -1;
    a->logit_rows[i] = i;
    return true;
}

bool next_step_predict(next_step *a, const step_input *in) {
    size_t n_pages = 0;
    a->in.n_rows = 0;
    if (!is_decode(in)) return false;
    for (int i = 0; i < in->n_rows; i++)
        if (!go_on(a, i, in, &n_pages)) return false;
    if (in->digest) a->digest = (step_digest){.rows = in->digest->next_rows};
    a->in = (step_input){.n_rows = in->n_rows,
                         .ids = a->ids,
                         .n_spans = in->n_rows,
                         .spans = a->spans,
                         .rope_lengths = a->rope_lengths,
                         .n_logit_rows = in->n_rows,
                         .logit_rows = a->logit_rows,
                         .digest = in->digest ? &a->digest : NULL,
                         .kv = in->kv};
    return true;
}

static bool span_fits(const next_step *a, int i, const step_input *in, const hf_rope *ropes, int n_ropes) {
    const row_span *s = &in->spans[i], *expected = &a->spans[i];
    if (s->row != expected->row || s->n_rows != 1 || s->past != expected->past) return false;
    for (int r = 0; r < n_ropes; r++)
        if (!rope_same(&ropes[r], in->rope_lengths[i], a->rope_lengths[i])) return false;
    return !memcmp(s->pages, expected->pages, dev_page_count(s) * sizeof *s->pages);
}

bool next_step_fits(const next_step *a, const step_input *in, const hf_rope *ropes, int n_ropes) {
    const step_input *b = &a->in;
    if (!b->n_rows || in->n_rows != b->n_rows || !is_decode(in) || in->kv != b->kv) return false;
    if (in->digest ? !b->digest || in->digest->rows != b->digest->rows : b->digest != NULL) return false;
    for (int i = 0; i < in->n_rows; i++)
        if (!span_fits(a, i, in, ropes, n_ropes)) return false;
    return true;
}
