/* gen_fields.h — the members that every generation route takes: how to choose tokens, and when to stop.
 *
 * One table has names, aliases, ranges and standard values (those of TabbyAPI, whose clients must work unchanged).
 * Read in two moves: gen_fields_read needs only the body, gen_fields_apply the model. */
#ifndef SERVER_GEN_FIELDS_H
#define SERVER_GEN_FIELDS_H

#include "field.h"

typedef struct gen_fields {
    double temperature, min_temp, max_temp, temp_exponent, dynatemp_range, smoothing_factor, smoothing_curve;
    double top_p, min_p, top_a, tfs, typical, top_n_sigma, skew, xtc_probability, xtc_threshold;
    double adaptive_target, adaptive_decay, mirostat_tau, mirostat_eta;
    double repetition_penalty, frequency_penalty, presence_penalty, dry_multiplier, dry_base, cfg_scale, timeout;
    int64_t top_k, mirostat_mode, penalty_range, repetition_decay, dry_allowed_length, dry_range;
    int64_t max_tokens; /* -1: up to the context */
    int64_t min_tokens, seed, loop_detect_window, priority;
    bool temperature_last, ban_eos_token, token_healing, skip_special_tokens, speculative_ngram, cache_prompt;
    bool include_stop, timings, post_sampling_probs, return_progress, return_token_ids;
    int add_bos_token; /* -1: as the tokenizer says */
    field_texts banned_strings, dry_sequence_breakers;
    field_ids banned_tokens, allowed_tokens, stop_token_ids;
    span negative_prompt;
    const json_t *stop, *logit_bias, *lora;
    /* constraints: looked at by demand.c */
    const json_t *json_schema, *regex_pattern, *grammar_string, *structured_outputs;
    const json_t *guided_json, *guided_regex, *guided_choice, *guided_grammar;
    /* read out of `stop` and `logit_bias` */
    field_texts stop_texts;
    field_ids stop_ids;
    qp_bias *bias;
    size_t n_bias;
} gen_fields;

extern const field_row gen_rows[];
extern const size_t gen_row_count;

enum { GEN_NO_SEED = INT64_MIN / 2 };

/* What the model adds: which ids exist, which end an answer, how breakers are tokenised. */
typedef struct gen_model {
    const qp_tokenizer *tokenizer;
    const qp_model_info *info;
} gen_model;

bool gen_fields_read(gen_fields *out, const json_t *body, arena *memory, field_report *report, refusal *why);
/* Fills all of *out that the fields say: sampling, limits, stops, bans. Lists point into the arena. */
bool gen_fields_apply(qp_job_options *out, const gen_fields *f, const gen_model *model, arena *memory, refusal *why);
/* The seed asked for, or one at random. */
uint64_t gen_fields_seed(const gen_fields *f);

#endif
