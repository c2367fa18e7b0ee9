/* fill.c — writes the chosen rows down as the model wants them: ids, spans, pages, which logits.
 *
 * Called by engine.c after sched.c. Rows of prompts come last (step.h): which a row is hangs on its place in its
 * sequence alone, so a preempted job's answer stays one when it is computed again. A lane's rows are one span, unless
 * the rotation of keys depends on the length of the sequence (dynamic NTK, longrope beyond the trained length): the
 * rows of a prompt see its whole length, however it is cut into steps, and each row of an answer the length at which it
 * was written, also when a preempted job computes it again. */
#include "engine.h"
#include "base/hash.h"

uint64_t engine_rope_length(const lane *l, int64_t position) {
    return position < (int64_t)l->n_prompt ? l->n_prompt : (uint64_t)position + 1;
}

uint64_t engine_rope_class(const engine *e, uint64_t length) {
    uint64_t mixed = 0;
    for (int i = 0; i < e->model->shape.n_ropes; i++) mixed |= rope_class(&e->model->shape.ropes[i], length);
    return mixed;
}

uint64_t engine_lane_root(const engine *e, const job *j, const lane *l) {
    const uint64_t beside[] = {engine_rope_class(e, l->n_prompt), lora_set_identity(&j->adapters)};
    return beside[0] || beside[1] ? hash_bytes(beside, sizeof beside, e->root) : e->root;
}

/* Rows from `position` on, at most n, that rotate alike. */
static int alike(const engine *e, const lane *l, int64_t position, int n) {
    const uint64_t class = engine_rope_class(e, engine_rope_length(l, position));
    int count = 1;
    while (count < n && engine_rope_class(e, engine_rope_length(l, position + count)) == class) count++;
    return count;
}

/* Only where answers can leave the class of their prompt must each row be looked at. */
static bool may_differ(const engine *e, const lane *l) {
    return engine_rope_class(e, l->n) != engine_rope_class(e, l->n_prompt);
}

static void add_spans(engine *e, const job *j, lane *l, int n_rows) {
    step *s = &e->step;
    const bool differ = may_differ(e, l);
    if (differ && l->chain.length + n_rows > (int64_t)l->n_prompt) chain_make_private(&l->chain);
    for (int done = 0; done < n_rows;) {
        const int64_t position = l->chain.length + done;
        const int n = differ ? alike(e, l, position, n_rows - done) : n_rows;
        s->spans[s->in.n_spans] = (row_span){s->in.n_rows + done, n, position, l->chain.pages};
        s->adapters[s->in.n_spans] = j->adapters.n ? &j->adapters : NULL;
        s->rope_lengths[s->in.n_spans++] = engine_rope_length(l, position);
        done += n;
    }
}

/* Logits behind each token of the prompt that another one of it follows, where they are wanted. */
static void add_scores(step *s, job *j, int n_rows) {
    const lane *l = &j->lanes[0];
    score *scores = &j->score;
    scores->n_rows = 0;
    scores->row = s->in.n_logit_rows;
    const int64_t done = (int64_t)atomic_load_explicit(&scores->n_done, memory_order_relaxed);
    for (int i = 0; i < n_rows && score_is_open(scores); i++) {
        const int64_t position = l->chain.length + i;
        if (position < done || position >= (int64_t)scores->n) continue;
        s->logit_rows[s->in.n_logit_rows++] = s->in.n_rows + i;
        scores->n_rows++;
    }
}

/* Hidden states of the prompt, where its vector is wanted. */
static void add_states(step *s, job *j, int n_rows) {
    const lane *l = &j->lanes[0];
    embed *em = &j->embed;
    em->n_rows = 0;
    em->row = s->in.n_state_rows;
    for (int i = 0; i < n_rows; i++) {
        if (!embed_wants(em, (size_t)l->chain.length + (size_t)i)) continue;
        s->state_rows[s->in.n_state_rows++] = s->in.n_rows + i;
        em->n_rows++;
    }
}

static void add_part(engine *e, const step_part *part) {
    step *s = &e->step;
    lane *l = &part->job->lanes[part->lane];
    add_spans(e, part->job, l, part->n_rows);
    for (int i = 0; i < part->n_rows; i++) s->ids[s->in.n_rows + i] = l->ids[l->chain.length + i];
    if (!part->lane) add_scores(s, part->job, part->n_rows);
    if (!part->lane) add_states(s, part->job, part->n_rows);
    s->in.n_rows += part->n_rows;
    part->job->logit_row[part->lane] = -1;
    if (l->chain.length + part->n_rows < (int64_t)l->n || embed_is_on(&part->job->embed)) return;
    part->job->logit_row[part->lane] = s->in.n_logit_rows;
    s->logit_rows[s->in.n_logit_rows++] = s->in.n_rows - 1;
}

/* sched.c lets no part go from a prompt into its answer. */
static bool is_prompt(const step_part *part) {
    const lane *l = &part->job->lanes[part->lane];
    return l->chain.length < (int64_t)l->n_prompt;
}

static void add_parts(engine *e, bool of_prompts) {
    const step *s = &e->step;
    for (int i = 0; i < s->n_parts; i++)
        if (is_prompt(&s->parts[i]) == of_prompts) add_part(e, &s->parts[i]);
}

void engine_fill(engine *e) {
    step *s = &e->step;
    s->in = (step_input){.ids = s->ids,
                         .spans = s->spans,
                         .rope_lengths = s->rope_lengths,
                         .adapters = s->adapters,
                         .logit_rows = s->logit_rows,
                         .state_rows = s->state_rows,
                         .kv = e->store.views};
    add_parts(e, false);
    const int n_answers = s->in.n_rows;
    add_parts(e, true);
    s->in.n_prompt_rows = s->in.n_rows - n_answers;
}
