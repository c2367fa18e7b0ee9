/* gen_rows.c — the table of the members that every generation route takes.
 *
 * Read by gen_fields.c and by openapi.c. Names and standard values are TabbyAPI's; a standard value switches the stage
 * off, unless `about` says more. */
#include "gen_fields.h"
#include <stddef.h>

#define AT(member) offsetof(gen_fields, member)
#define REAL(names, member, lowest, highest, standard, about)                                                          \
    { names, FIELD_REAL, lowest, highest, standard, AT(member), FIELD_LOOSE, about }
#define INT(names, member, lowest, highest, standard, about)                                                           \
    { names, FIELD_INT, lowest, highest, standard, AT(member), FIELD_LOOSE, about }
#define BOOL(names, member, standard, about)                                                                           \
    { names, FIELD_BOOL, 0, 1, standard, AT(member), FIELD_LOOSE, about }
#define FLAGGED(kind, names, member, lowest, highest, standard, flags, about)                                          \
    { names, FIELD_##kind, lowest, highest, standard, AT(member), FIELD_LOOSE | (flags), about }
#define JSON(names, member, about)                                                                                     \
    { names, FIELD_JSON, 0, 0, 0, AT(member), 0, about }

enum { LONGEST = 1 << 30, TEXTS = 64, IDS = INT32_MAX };

const field_row gen_rows[] = {
    REAL("temperature", temperature, 0, 10, 1, "Flatness of the distribution; 0 takes the most probable token."),
    BOOL("temperature_last", temperature_last, 0, "Apply the temperature after the truncations."),
    REAL("min_temp|dynatemp_low", min_temp, 0, 10, 1, "Dynamic temperature: lowest."),
    REAL("max_temp|dynatemp_high", max_temp, 0, 10, 1, "Dynamic temperature: highest."),
    REAL("temp_exponent|dynatemp_exponent", temp_exponent, 0, 10, 1, "Dynamic temperature: exponent of the entropy."),
    REAL("dynatemp_range", dynatemp_range, 0, 10, 0, "Dynamic temperature: temperature plus and minus this."),
    REAL("smoothing_factor", smoothing_factor, 0, 100, 0, "Quadratic smoothing."),
    FLAGGED(REAL, "smoothing_curve", smoothing_curve, 0, 100, 1, FIELD_UNBUILT, "Curve of the smoothing."),
    INT("top_k", top_k, -1, LONGEST, 0, "Keep the k most probable tokens; -1 and 0: all."),
    REAL("top_p", top_p, 0, 1, 1, "Keep the most probable tokens whose sum reaches this."),
    REAL("min_p", min_p, 0, 1, 0, "Keep tokens of at least this share of the most probable one."),
    REAL("top_a", top_a, 0, 1, 0, "Keep tokens of at least this times the square of the greatest probability."),
    REAL("tfs|tfs_z", tfs, 0, 1, 1, "Tail free sampling."),
    FLAGGED(REAL, "typical|typical_p", typical, 0, 1, 1, FIELD_OPEN, "Locally typical sampling."),
    FLAGGED(REAL, "top_n_sigma|nsigma", top_n_sigma, -1, 100, -1, FIELD_UNBUILT, "Top n sigma."),
    REAL("skew", skew, -50, 50, 0, "Bends the choice towards improbable (> 0) or probable (< 0) tokens."),
    REAL("xtc_probability", xtc_probability, 0, 1, 0, "Exclude top choices: how often."),
    REAL("xtc_threshold", xtc_threshold, 0, 1, 0.1, "Exclude top choices: at least how probable."),
    FLAGGED(REAL, "adaptive_target", adaptive_target, -1, 1, 1, FIELD_UNBUILT, "Adaptive probability: target."),
    FLAGGED(REAL, "adaptive_decay", adaptive_decay, 0, 1, 0.9, FIELD_UNBUILT, "Adaptive probability: decay."),
    INT("mirostat_mode|mirostat", mirostat_mode, 0, 2, 0, "2: mirostat 2; 0: off."),
    REAL("mirostat_tau", mirostat_tau, 0, 100, 1.5, "Mirostat: target surprise in bits."),
    REAL("mirostat_eta", mirostat_eta, 0, 10, 0.3, "Mirostat: learning rate."),
    FLAGGED(REAL, "repetition_penalty|rep_pen|repeat_penalty", repetition_penalty, 0, 100, 1, FIELD_OPEN,
            "Divides logits of tokens that occur."),
    INT("penalty_range|repetition_range|repetition_penalty_range|rep_pen_range|repeat_last_n", penalty_range, -1,
        LONGEST, -1, "Newest tokens that the penalties look at; -1: all, 0: none."),
    INT("repetition_decay", repetition_decay, 0, LONGEST, 0, "Older tokens over which the penalties fade."),
    REAL("frequency_penalty", frequency_penalty, -2, 2, 0, "Taken from the logit for each occurrence."),
    REAL("presence_penalty", presence_penalty, -2, 2, 0, "Taken from the logit of tokens that occur."),
    REAL("dry_multiplier", dry_multiplier, 0, 100, 0, "DRY: penalty on what continues a repetition."),
    REAL("dry_base", dry_base, 0, 100, 1.75, "DRY: growth with the length."),
    INT("dry_allowed_length", dry_allowed_length, 0, LONGEST, 2, "DRY: repetitions up to here cost nothing."),
    INT("dry_range|dry_penalty_last_n", dry_range, -1, LONGEST, 0, "DRY: newest tokens looked at; 0 and -1: all."),
    {"dry_sequence_breakers", FIELD_TEXTS, 0, 1024, 0, AT(dry_sequence_breakers), FIELD_LOOSE,
     "DRY: texts that end a repetition."},
    INT("max_completion_tokens|max_tokens|max_length|max_new_tokens|n_predict", max_tokens, -1, LONGEST, -1,
        "Most tokens of the answer; null: up to the context."),
    INT("min_tokens|min_length", min_tokens, 0, LONGEST, 0, "The answer does not end before."),
    JSON("stop|stop_sequence|stopping_strings|stop_sequences", stop, "Texts (or token ids) that end the answer."),
    FLAGGED(IDS, "stop_token_ids", stop_token_ids, 0, IDS, 0, 0, "Token ids that end the answer."),
    BOOL("include_stop_str_in_output", include_stop, 0, "The stop text stays at the end of the answer."),
    FLAGGED(TEXTS, "banned_strings", banned_strings, 0, TEXTS * 16, 0, 0, "Texts that must not appear."),
    FLAGGED(IDS, "banned_tokens|custom_token_bans", banned_tokens, 0, IDS, 0, 0, "Token ids that must not come."),
    FLAGGED(IDS, "allowed_tokens|allowed_token_ids", allowed_tokens, 0, IDS, 0, 0, "Only these token ids may come."),
    BOOL("ban_eos_token|ignore_eos", ban_eos_token, 0, "End tokens must not come."),
    BOOL("token_healing", token_healing, 0, "The prompt's last token may be completed."),
    FLAGGED(MAYBE, "add_bos_token", add_bos_token, 0, 1, 0, 0, "Whether text prompts begin with the bos token."),
    BOOL("skip_special_tokens", skip_special_tokens, 1, "Leave special tokens out of the text."),
    JSON("logit_bias", logit_bias, "Token id -> -100 .. 100, added to its logit; -100 and false ban it."),
    REAL("cfg_scale|guidance_scale", cfg_scale, 0, 100, 1, "Classifier-free guidance with negative_prompt."),
    {"negative_prompt", FIELD_TEXT, 0, 0, 0, AT(negative_prompt), 0, "What guidance leads away from."},
    FLAGGED(BOOL, "speculative_ngram", speculative_ngram, 0, 1, 0, FIELD_UNBUILT, "Draft from the text itself."),
    INT("loop_detect_window", loop_detect_window, 0, LONGEST, 800,
        "End when the newest tokens, so many, only repeat a piece; 0: never."),
    INT("seed|sampler_seed", seed, -9.2e18, 9.2e18, GEN_NO_SEED, "The same seed gives the same answer; < 0: random."),
    JSON("lora", lora, "Adapters of this request alone: [{name or id, scale}]; [] is none of those that are loaded."),
    BOOL("cache_prompt", cache_prompt, 1, "Find the prompt in the cache, and leave it there for others."),
    BOOL("timings_per_token|return_timings", timings, 0, "Add llama.cpp's `timings`."),
    BOOL("return_progress", return_progress, 0, "Streams tell how far the prompt is read."),
    BOOL("return_token_ids|return_tokens", return_token_ids, 0, "Choices have `token_ids`."),
    BOOL("post_sampling_probs", post_sampling_probs, 0, "logprobs are those after all stages."),
    REAL("timeout", timeout, 0, 1e6, 0, "Seconds that the answer may take; 0: no limit."),
    INT("priority", priority, -1000000, 1000000, 0, "Lower goes first, where the server allows it."),
    JSON("json_schema", json_schema, "The answer must be JSON of this schema."),
    JSON("regex_pattern", regex_pattern, "The answer must match."),
    JSON("grammar_string|grammar", grammar_string, "The answer must follow this grammar."),
    JSON("structured_outputs", structured_outputs, "vLLM's object of json, regex, choice, grammar."),
    JSON("guided_json", guided_json, "As json_schema."),
    JSON("guided_regex", guided_regex, "As regex_pattern."),
    JSON("guided_choice", guided_choice, "The answer must be one of these texts."),
    JSON("guided_grammar", guided_grammar, "As grammar_string."),
};
const size_t gen_row_count = sizeof gen_rows / sizeof *gen_rows;
