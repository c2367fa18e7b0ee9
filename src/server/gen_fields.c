/* gen_fields.c — what a request says about sampling and stopping becomes the options of its jobs.
 *
 * Called by the handlers of all generation routes. The tricky thing: in requests a neutral value switches a stage off,
 * in qp_sampling zero does; values where the two differ (top_p 0, ranges of -1) are translated here and nowhere else.
 */
#include "gen_fields.h"
#include "base/clock.h"
#include "base/hash.h"
#include <float.h>
#include <math.h>

enum { MOST_STOPS = 64, MOST_BIAS = 1 << 16 };

/* ---- what the table cannot say ---- */

static bool add_stop(gen_fields *f, const json_t *item, size_t i, refusal *why) {
    char place[32];
    snprintf(place, sizeof place, "stop[%zu]", i);
    if (json_is_integer(item)) {
        if (json_integer_value(item) < 0 || json_integer_value(item) > INT32_MAX)
            return refuse(why, FAULT_BAD_REQUEST, place, "%s: %lld is no token id", place,
                          (long long)json_integer_value(item));
        f->stop_ids.at[f->stop_ids.count++] = (int32_t)json_integer_value(item);
        return true;
    }
    const char *text = json_string_value(item);
    if (!text) return field_wrong_kind(why, place, item, "a string or a token id");
    if (!json_string_length(item)) return refuse(why, FAULT_BAD_REQUEST, place, "%s: the text is empty", place);
    if (strlen(text) != json_string_length(item))
        return refuse(why, FAULT_BAD_REQUEST, place, "%s: the text has a zero byte", place);
    f->stop_texts.at[f->stop_texts.count++] = text;
    return true;
}

static bool read_stop(gen_fields *f, arena *memory, refusal *why) {
    const bool is_list = json_is_array(f->stop);
    const size_t n = !f->stop ? 0 : is_list ? json_array_size(f->stop) : 1;
    if (n > MOST_STOPS)
        return refuse(why, FAULT_BAD_REQUEST, "stop", "stop: found %zu entries, allowed are %d", n, MOST_STOPS);
    f->stop_texts = (field_texts){arena_get(memory, n + 1, sizeof(char *)), 0};
    f->stop_ids = (field_ids){arena_get(memory, n + 1, sizeof(int32_t)), 0};
    if (!f->stop_texts.at || !f->stop_ids.at) return refuse_memory(why, "stop");
    for (size_t i = 0; i < n; i++)
        if (!add_stop(f, is_list ? json_array_get(f->stop, i) : f->stop, i, why)) return false;
    return true;
}

static bool take_bias(qp_bias *out, int64_t id, const json_t *value, refusal *why) {
    const double bias = json_is_false(value) ? -100 : json_number_value(value);
    char place[40];
    snprintf(place, sizeof place, "logit_bias.%lld", (long long)id);
    if (!json_is_number(value) && !json_is_false(value))
        return field_wrong_kind(why, place, value, "a number or false");
    if (bias < -100 || bias > 100)
        return refuse(why, FAULT_BAD_REQUEST, place, "%s: found %g, allowed are -100 to 100", place, bias);
    if (id < 0 || id > INT32_MAX)
        return refuse(why, FAULT_BAD_REQUEST, place, "logit_bias: %lld is no token id", (long long)id);
    *out = (qp_bias){(int32_t)id, bias <= -100 ? -INFINITY : (float)bias};
    return true;
}

static bool take_bias_key(int64_t *id, const char *key, refusal *why) {
    const size_t bytes = strlen(key);
    *id = strtoll(key, NULL, 10);
    if (bytes && bytes < 12 && strspn(key, "0123456789") == bytes) return true;
    return refuse(why, FAULT_BAD_REQUEST, "logit_bias", "logit_bias: the key \"%.40s\" is no token id", key);
}

static bool read_bias_pairs(gen_fields *f, refusal *why) {
    size_t i;
    json_t *pair;
    json_array_foreach(f->logit_bias, i, pair) {
        const json_t *id = json_array_get(pair, 0);
        if (!json_is_integer(id) || json_array_size(pair) != 2)
            return refuse(why, FAULT_BAD_REQUEST, "logit_bias", "logit_bias[%zu]: expected [token id, bias]", i);
        if (!take_bias(&f->bias[f->n_bias++], json_integer_value(id), json_array_get(pair, 1), why)) return false;
    }
    return true;
}

static bool read_bias(gen_fields *f, arena *memory, refusal *why) {
    const char *key;
    json_t *value;
    int64_t id;
    f->bias = NULL;
    f->n_bias = 0;
    if (!f->logit_bias) return true;
    const bool is_list = json_is_array(f->logit_bias);
    if (!is_list && !json_is_object(f->logit_bias))
        return field_wrong_kind(why, "logit_bias", f->logit_bias, "an object or an array of pairs");
    const size_t n = is_list ? json_array_size(f->logit_bias) : json_object_size(f->logit_bias);
    if (n > MOST_BIAS)
        return refuse(why, FAULT_BAD_REQUEST, "logit_bias", "logit_bias: found %zu, allowed are %d", n, MOST_BIAS);
    if (!(f->bias = arena_get(memory, n + 1, sizeof *f->bias))) return refuse_memory(why, "logit_bias");
    if (is_list) return read_bias_pairs(f, why);
    json_object_foreach((json_t *)f->logit_bias, key,
                        value) if (!take_bias_key(&id, key, why) ||
                                   !take_bias(&f->bias[f->n_bias++], id, value, why)) return false;
    return true;
}

bool gen_fields_read(gen_fields *out, const json_t *body, arena *memory, field_report *report, refusal *why) {
    if (!field_read(out, gen_rows, gen_row_count, body, memory, report, why)) return false;
    if (!read_stop(out, memory, why) || !read_bias(out, memory, why)) return false;
    if (out->mirostat_mode == 1) field_note(report, "mirostat_mode 1");
    if (out->min_temp > out->max_temp)
        return refuse(why, FAULT_BAD_REQUEST, "min_temp", "min_temp: found %g, over max_temp, %g", out->min_temp,
                      out->max_temp);
    if (out->max_tokens >= 0 && out->min_tokens > out->max_tokens)
        return refuse(why, FAULT_BAD_REQUEST, "min_tokens", "min_tokens: found %lld, over max_tokens, %lld",
                      (long long)out->min_tokens, (long long)out->max_tokens);
    return true;
}

/* ---- sampling ---- */

static int positive(int64_t value) { return value > 0 ? (int)value : 0; }

static void apply_temperature(qp_sampling *s, const gen_fields *f) {
    s->temperature = (float)f->temperature;
    s->temperature_last = f->temperature_last;
    s->temperature_exponent = (float)f->temp_exponent;
    if (f->dynatemp_range > 0) {
        s->min_temperature = (float)fmax(0, f->temperature - f->dynatemp_range);
        s->max_temperature = (float)(f->temperature + f->dynatemp_range);
    } else if (f->max_temp > f->min_temp) {
        s->min_temperature = (float)f->min_temp;
        s->max_temperature = (float)f->max_temp;
    }
}

static void apply_penalties(qp_sampling *s, const gen_fields *f) {
    s->dry_multiplier = (float)f->dry_multiplier;
    s->dry_base = (float)f->dry_base;
    s->dry_allowed_length = positive(f->dry_allowed_length);
    s->dry_range = positive(f->dry_range);
    if (!f->penalty_range) return; /* no token is looked at */
    s->repetition_penalty = (float)f->repetition_penalty;
    s->frequency_penalty = (float)f->frequency_penalty;
    s->presence_penalty = (float)f->presence_penalty;
    s->penalty_range = positive(f->penalty_range);
    s->penalty_decay = positive(f->repetition_decay);
}

static void apply_sampling(qp_sampling *s, const gen_fields *f) {
    *s = (qp_sampling){.top_k = positive(f->top_k),
                       .top_p = f->top_p > 0 ? (float)f->top_p : FLT_MIN,
                       .min_p = (float)f->min_p,
                       .top_a = (float)f->top_a,
                       .tfs = (float)f->tfs,
                       .typical = (float)f->typical,
                       .smoothing_factor = (float)f->smoothing_factor,
                       .skew = (float)f->skew,
                       .xtc_probability = (float)f->xtc_probability,
                       .xtc_threshold = f->xtc_threshold > 0 ? (float)f->xtc_threshold : FLT_MIN,
                       .guidance = (float)f->cfg_scale};
    apply_temperature(s, f);
    apply_penalties(s, f);
    if (f->mirostat_mode == 2) {
        s->mirostat_tau = (float)f->mirostat_tau;
        s->mirostat_eta = (float)f->mirostat_eta;
    }
    s->seed = gen_fields_seed(f);
}

uint64_t gen_fields_seed(const gen_fields *f) {
    if (f->seed >= 0) return (uint64_t)f->seed;
    const double now[2] = {clock_unix(), clock_now()};
    return hash_bytes(now, sizeof now, (uint64_t)(uintptr_t)f) >> 1;
}

/* ---- lists of ids ---- */

static bool check_ids(const field_ids *ids, const char *name, const gen_model *m, refusal *why) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] >= m->info->vocabulary)
            return refuse(why, FAULT_BAD_REQUEST, name, "%s[%zu]: found %d, the vocabulary has %d ids", name, i,
                          ids->at[i], m->info->vocabulary);
    return true;
}

static bool check_bias(const gen_fields *f, const gen_model *m, refusal *why) {
    for (size_t i = 0; i < f->n_bias; i++)
        if (f->bias[i].id >= m->info->vocabulary)
            return refuse(why, FAULT_BAD_REQUEST, "logit_bias", "logit_bias: found id %d, the vocabulary has %d ids",
                          f->bias[i].id, m->info->vocabulary);
    return true;
}

/* a, then b. */
static bool join_ids(field_ids *out, const field_ids *a, const int32_t *b, size_t n_b, arena *memory, refusal *why) {
    int32_t *at = arena_get(memory, a->count + n_b + 1, sizeof *at);
    if (!at) return refuse_memory(why, "token ids");
    if (a->count) memcpy(at, a->at, a->count * sizeof *at);
    if (n_b) memcpy(at + a->count, b, n_b * sizeof *at);
    *out = (field_ids){at, a->count + n_b};
    return true;
}

/* As TabbyAPI: the last token of each text. */
static bool find_breakers(field_ids *out, const gen_fields *f, const gen_model *m, arena *memory, refusal *why) {
    static const char *standard[] = {"\n", ":", "\"", "*"};
    static const field_texts usual = {standard, 4};
    const field_texts *texts = f->dry_sequence_breakers.at ? &f->dry_sequence_breakers : &usual;
    *out = (field_ids){arena_get(memory, texts->count + 1, sizeof(int32_t)), 0};
    if (!out->at) return refuse_memory(why, "dry_sequence_breakers");
    for (size_t i = 0; i < texts->count; i++) {
        int32_t *ids;
        size_t n;
        qp_error err;
        const qp_status status =
            qp_tokenize(m->tokenizer, texts->at[i], strlen(texts->at[i]), QP_TOKENIZE_NO_SPECIAL, &ids, &n, &err);
        if (status != QP_OK) return refuse_status(why, status, "dry_sequence_breakers", &err);
        if (n) out->at[out->count++] = ids[n - 1];
        qp_free(ids);
    }
    return true;
}

static bool apply_lists(qp_job_options *out, const gen_fields *f, const gen_model *m, arena *memory, refusal *why) {
    field_ids stops, bans, breakers = {0};
    const size_t n_eos = f->ban_eos_token ? (size_t)m->info->n_eos : 0;
    if (!check_ids(&f->banned_tokens, "banned_tokens", m, why) ||
        !check_ids(&f->allowed_tokens, "allowed_tokens", m, why) ||
        !check_ids(&f->stop_token_ids, "stop_token_ids", m, why) || !check_ids(&f->stop_ids, "stop", m, why) ||
        !check_bias(f, m, why) ||
        !join_ids(&stops, &f->stop_ids, f->stop_token_ids.at, f->stop_token_ids.count, memory, why) ||
        !join_ids(&bans, &f->banned_tokens, m->info->eos, n_eos, memory, why))
        return false;
    if (f->dry_multiplier > 0 && !find_breakers(&breakers, f, m, memory, why)) return false;
    out->stop = f->stop_texts.at;
    out->n_stop = f->stop_texts.count;
    out->stop_ids = stops.at;
    out->n_stop_ids = stops.count;
    out->ban = f->banned_strings.at;
    out->n_ban = f->banned_strings.count;
    out->ban_ids = bans.at;
    out->n_ban_ids = bans.count;
    out->allow_ids = f->allowed_tokens.at;
    out->n_allow_ids = f->allowed_tokens.count;
    out->bias = f->bias;
    out->n_bias = f->n_bias;
    out->dry_breaker_ids = breakers.at;
    out->n_dry_breaker_ids = breakers.count;
    return true;
}

bool gen_fields_apply(qp_job_options *out, const gen_fields *f, const gen_model *model, arena *memory, refusal *why) {
    *out = (qp_job_options){.size = sizeof *out,
                            .max_new_tokens = f->max_tokens > 0 ? (size_t)f->max_tokens : 0,
                            .min_new_tokens = (size_t)f->min_tokens,
                            .show_special = !f->skip_special_tokens,
                            .heal = f->token_healing,
                            .no_reuse = !f->cache_prompt,
                            .max_total_s = f->timeout,
                            .show_prompt = f->return_progress};
    apply_sampling(&out->sampling, f);
    if (f->cfg_scale != 1 && f->cfg_scale != 0)
        out->negative_prompt = f->negative_prompt.at ? f->negative_prompt.at : "";
    return apply_lists(out, f, model, memory, why);
}
