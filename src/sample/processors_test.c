/* processors_test.c — 236 cases of another library's logits processors (tests/golden/sampling.json): the scores that
 * they leave and the probabilities of those.
 *
 * Without a counterpart here, and so left out by name: epsilon_cutoff, eta_cutoff (min-p, top-a and mirostat cut by
 * probability instead) and no_repeat_ngram (DRY; hard bans are the caller's). bad_words, sequence_bias and
 * min_new_tokens name whole sequences or counts: the caller of a sampler finds out which tokens they concern in a step,
 * as this test does, and hands them over as bans and biases. Two values mean something else here: top_k 1 is the
 * arg-max alone, also among equals, and min_p 1 is off. */
#include "chain.h"
#include "base/json.h"
#include "harness.h"
#include <math.h>

enum { MOST = 64, MOST_LIST = 16 };

typedef struct golden_case {
    const char *name, *logits_name;
    float logits[MOST];
    int n;
    int32_t history[MOST];
    size_t n_history;
    const json_t *params, *probs;
    double rounding; /* of the greatest score in single precision */
    sampler_setup setup;
    int32_t ban[MOST_LIST];
    size_t n_ban;
    qp_bias bias[MOST_LIST];
} golden_case;

static float number(const json_t *value) { return json_is_null(value) ? -INFINITY : (float)json_number_value(value); }

/* The sequence's beginning stands at the end of the history: its last token is meant. -1: it is not. */
static int32_t continues(const golden_case *g, const json_t *sequence) {
    const size_t n = json_array_size(sequence);
    if (n - 1 > g->n_history) return -1;
    for (size_t i = 0; i + 1 < n; i++)
        if (json_integer_value(json_array_get(sequence, i)) != g->history[g->n_history - (n - 1) + i]) return -1;
    return (int32_t)json_integer_value(json_array_get(sequence, n - 1));
}

/* ---- parameters to settings ---- */

static void set_temperature(golden_case *g, const json_t *v) { g->setup.settings.temperature = number(v); }
static void set_top_k(golden_case *g, const json_t *v) { g->setup.settings.top_k = (int)json_integer_value(v); }
static void set_top_p(golden_case *g, const json_t *v) { g->setup.settings.top_p = number(v); }
static void set_min_p(golden_case *g, const json_t *v) { g->setup.settings.min_p = number(v); }
static void set_typical(golden_case *g, const json_t *v) { g->setup.settings.typical = number(v); }
static void set_repetition(golden_case *g, const json_t *v) { g->setup.settings.repetition_penalty = number(v); }

static void ban_all(golden_case *g, const json_t *ids) {
    for (size_t i = 0; i < json_array_size(ids); i++)
        g->ban[g->n_ban++] = (int32_t)json_integer_value(json_array_get(ids, i));
}

static void ban_words(golden_case *g, const json_t *words) {
    const json_t *eos = json_object_get(g->params, "eos_token_id");
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i);
        const int32_t id = continues(g, word);
        const bool is_eos = json_array_size(word) == 1 && json_is_integer(eos) && json_integer_value(eos) == id;
        if (id >= 0 && !is_eos) g->ban[g->n_ban++] = id;
    }
}

static void add_bias(golden_case *g, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const int32_t id = continues(g, json_array_get(json_array_get(list, i), 0));
        const float bias = number(json_array_get(json_array_get(list, i), 1));
        if (id >= 0) g->bias[g->setup.n_bias++] = (qp_bias){id, bias};
    }
    g->setup.bias = g->bias;
}

static void hold_off(golden_case *g, const json_t *least) {
    const size_t n_prompt = (size_t)json_integer_value(json_object_get(g->params, "prompt_length"));
    if (g->n_history - n_prompt < (size_t)json_integer_value(least))
        ban_all(g, json_object_get(g->params, "eos_token_id"));
}

static void nothing(golden_case *g, const json_t *value) {}

static const struct {
    const char *name;
    void (*set)(golden_case *g, const json_t *value); /* NULL: no counterpart */
} params[] = {
    {"temperature", set_temperature},
    {"top_k", set_top_k},
    {"top_p", set_top_p},
    {"min_p", set_min_p},
    {"typical_p", set_typical},
    {"repetition_penalty", set_repetition},
    {"suppress_tokens", ban_all},
    {"bad_words_ids", ban_words},
    {"sequence_bias", add_bias},
    {"min_new_tokens", hold_off},
    {"prompt_length", nothing},
    {"eos_token_id", nothing},
    {"epsilon_cutoff", NULL},
    {"eta_cutoff", NULL},
    {"no_repeat_ngram_size", NULL},
};

/* False: there is no counterpart. */
static bool read_params(golden_case *g) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)g->params, key, value) {
        size_t i = 0;
        while (i < HARNESS_COUNT(params) && strcmp(params[i].name, key) != 0) i++;
        if (i == HARNESS_COUNT(params)) fail_msg("unknown parameter %s", key);
        if (!params[i].set) return false;
        params[i].set(g, value);
    }
    return true;
}

static bool read_case(golden_case *g, const json_t *all, const json_t *item) {
    *g = (golden_case){.name = json_string_value(json_object_get(item, "name")),
                       .logits_name = json_string_value(json_object_get(item, "logits")),
                       .params = json_object_get(item, "params"),
                       .probs = json_object_get(item, "probs")};
    const json_t *logits = json_object_get(json_object_get(all, "logits"), g->logits_name);
    const json_t *history = json_object_get(item, "history");
    g->n = (int)json_array_size(logits);
    g->n_history = json_array_size(history);
    assert_in_range(g->n, 1, MOST);
    assert_in_range(g->n_history, 0, MOST);
    for (int i = 0; i < g->n; i++) g->logits[i] = number(json_array_get(logits, (size_t)i));
    for (size_t i = 0; i < g->n_history; i++) g->history[i] = (int32_t)json_integer_value(json_array_get(history, i));
    g->setup.settings.temperature = 1;
    const json_t *scores = json_object_get(item, "scores");
    for (size_t i = 0; i < json_array_size(scores); i++)
        g->rounding = fmax(g->rounding, fabs(json_number_value(json_array_get(scores, i))) * 0x1p-23);
    return read_params(g);
}

/* ---- one case ---- */

static void choose(const golden_case *g, double *p) {
    sampler *s;
    sampler_room *room;
    qp_candidate top[MOST];
    qp_error err;
    sampler_setup setup = g->setup;
    setup.n_vocabulary = setup.n_top = g->n;
    setup.wants_p = true;
    if (sampler_new(&s, &setup, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(sampler_room_new(&room, g->n, NULL), QP_OK);
    const sampler_step step = {
        .logits = g->logits, .history = g->history, .n_history = g->n_history, .ban = g->ban, .n_ban = g->n_ban};
    sampler_choice choice = {.top = top};
    sampler_choose(s, room, &step, &choice);
    assert_int_equal(choice.reason, SAMPLER_OK);
    memset(p, 0, MOST * sizeof *p);
    for (int i = 0; i < choice.n_top; i++) p[top[i].id] = top[i].p;
    sampler_free(s);
    sampler_room_free(room);
}

/* Where the meaning differs on purpose. */
static bool is_other_meaning(const golden_case *g) {
    const bool is_equal = strcmp(g->logits_name, "ties") == 0 && g->setup.settings.top_k == 1;
    return is_equal || g->setup.settings.min_p == 1;
}

static void check(const golden_case *g, size_t number_of) {
    double p[MOST];
    choose(g, p);
    for (int i = 0; i < g->n; i++) {
        const double wanted = json_number_value(json_array_get(g->probs, (size_t)i));
        if (!(fabs(p[i] - wanted) <= 1e-6 + 2 * g->rounding * wanted * (1 - wanted)))
            fail_msg("case %zu, %s of %s: token %d has %.9g, expected %.9g", number_of, g->name, g->logits_name, i,
                     p[i], wanted);
        if ((p[i] > 0) != (wanted > 0) && wanted > 1e-30)
            fail_msg("case %zu, %s of %s: token %d is%s kept", number_of, g->name, g->logits_name, i,
                     p[i] > 0 ? "" : " not");
    }
}

static void all_processors_with_a_counterpart_agree(void **state) {
    json_t *all;
    qp_error err;
    if (json_load_path(&all, QUIPU_SOURCE "/tests/golden/sampling.json", 1 << 20, &err) != QP_OK)
        fail_msg("%s", err.text);
    const json_t *cases = json_object_get(all, "cases");
    int n_agreed = 0, n_other = 0, n_without = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        golden_case g;
        if (!read_case(&g, all, json_array_get(cases, i))) {
            n_without++;
        } else if (is_other_meaning(&g)) {
            n_other++;
        } else {
            check(&g, i);
            n_agreed++;
        }
    }
    json_decref(all);
    print_message("%d cases agree, %d mean something else here, %d have no counterpart\n", n_agreed, n_other,
                  n_without);
    assert_int_equal(n_agreed + n_other, 185);
    assert_int_equal(n_without, 51);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_processors_with_a_counterpart_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
