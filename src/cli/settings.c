/* settings.c — options become the settings of jobs.
 *
 * Where the user says nothing, the model's maker decides, else settings that suit most models. Most options are copied
 * by one table; the library checks their values when the job is submitted. */
#include "settings.h"
#include "load.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include <stddef.h>

/* An option and the field of qp_sampling that it sets. */
typedef struct pairing {
    size_t option, field;
    bool is_whole;
} pairing;

#define REAL(option, field)                                                                                            \
    { offsetof(options, option), offsetof(qp_sampling, field), false }
#define WHOLE(option, field)                                                                                           \
    { offsetof(options, option), offsetof(qp_sampling, field), true }
static const pairing pairings[] = {
    REAL(temperature, temperature),
    WHOLE(top_k, top_k),
    REAL(top_p, top_p),
    REAL(min_p, min_p),
    REAL(typical, typical),
    REAL(tfs, tfs),
    REAL(top_a, top_a),
    REAL(smoothing_factor, smoothing_factor),
    REAL(skew, skew),
    REAL(mirostat_tau, mirostat_tau),
    REAL(mirostat_eta, mirostat_eta),
    REAL(xtc_probability, xtc_probability),
    REAL(xtc_threshold, xtc_threshold),
    REAL(dry_multiplier, dry_multiplier),
    REAL(dry_base, dry_base),
    WHOLE(dry_allowed_length, dry_allowed_length),
    WHOLE(dry_range, dry_range),
    REAL(repetition_penalty, repetition_penalty),
    WHOLE(repetition_range, penalty_range),
    WHOLE(repetition_decay, penalty_decay),
    REAL(frequency_penalty, frequency_penalty),
    REAL(presence_penalty, presence_penalty),
    REAL(cfg_scale, guidance),
};

static qp_status check_texts(const option_texts *list, const char *name, qp_error *err) {
    for (size_t i = 0; i < list->count; i++)
        if (!*list->at[i]) return err_set(err, QP_BAD_ARGUMENT, i, "--%s: the text is empty", name);
    return QP_OK;
}

qp_status settings_check(const options *o, qp_error *err) {
    ERR_TRY(check_texts(&o->stop, "stop", err));
    ERR_TRY(check_texts(&o->ban, "ban", err));
    if (o->dynatemp.count == 1 || o->dynatemp.count > 3)
        return err_set(err, QP_BAD_ARGUMENT, 0, "--dynatemp: found %zu numbers, allowed are LOW,HIGH and LOW,HIGH,EXP",
                       o->dynatemp.count);
    if (o->dynatemp.count && o->dynatemp.at[0] >= o->dynatemp.at[1])
        return err_set(err, QP_BAD_ARGUMENT, 0, "--dynatemp: LOW is %g, it must be under HIGH, %g", o->dynatemp.at[0],
                       o->dynatemp.at[1]);
    if (o->negative_prompt && (o->cfg_scale == 0 || o->cfg_scale == 1))
        return err_set(err, QP_BAD_ARGUMENT, 0, "--negative-prompt needs --cfg-scale, another one than 0 and 1");
    return QP_OK;
}

uint64_t settings_seed(const session *s) {
    if (session_given(s, &s->o->seed)) return (uint64_t)s->o->seed;
    return (uint64_t)(clock_unix() * 1e6) & 0xFFFFFFFF;
}

static qp_sampling standard(const options *o, const command_row *c, const qp_model_info *info) {
    if (info->has_sampling) return info->sampling;
    const bool has_truncation = option_given(o, c, &o->top_k) || option_given(o, c, &o->top_p);
    return (qp_sampling){.temperature = 0.8f, .min_p = has_truncation ? 0 : 0.05f};
}

static qp_sampling sampling_of(const options *o, const command_row *c, const qp_model_info *info, uint64_t seed) {
    qp_sampling out = standard(o, c, info);
    for (const pairing *p = pairings; p < pairings + sizeof pairings / sizeof *pairings; p++) {
        const char *from = (const char *)o + p->option;
        char *to = (char *)&out + p->field;
        if (!option_given(o, c, from)) continue;
        if (p->is_whole)
            *(int *)to = (int)*(const int64_t *)from;
        else
            *(float *)to = (float)*(const double *)from;
    }
    if (o->greedy && !option_given(o, c, &o->repetition_penalty)) out.repetition_penalty = 0;
    if (o->greedy) out.temperature = 0;
    if (o->dynatemp.count) {
        out.min_temperature = (float)o->dynatemp.at[0];
        out.max_temperature = (float)o->dynatemp.at[1];
        out.temperature_exponent = o->dynatemp.count > 2 ? (float)o->dynatemp.at[2] : 0;
    }
    out.temperature_last = o->temperature_last;
    out.seed = seed;
    return out;
}

static unsigned tokenize_flags(const options *o) {
    return (o->no_special ? QP_TOKENIZE_NO_SPECIAL : 0) | (o->no_parse_special ? QP_TOKENIZE_PLAIN_SPECIAL : 0);
}

void settings_fill(qp_job_options *out, const options *o, const command_row *c, const qp_model_info *info,
                   uint64_t seed) {
    *out = (qp_job_options){
        .size = sizeof *out,
        .tokenize_flags = tokenize_flags(o), /* of the negative prompt */
        .max_new_tokens = (size_t)o->new_tokens,
        .min_new_tokens = (size_t)o->min_new_tokens,
        .ignore_eos = o->ignore_eos,
        .show_special = o->show_special,
        .stop = o->stop.at,
        .n_stop = o->stop.count,
        .ban = o->ban.at,
        .n_ban = o->ban.count,
        .sampling = sampling_of(o, c, info, seed),
        .bias = o->logit_bias.at,
        .n_bias = o->logit_bias.count,
        .ban_ids = o->ban_token.at,
        .n_ban_ids = o->ban_token.count,
        .heal = o->token_healing,
        .negative_prompt = o->negative_prompt,
        .n_top = (int)o->logprobs,
        .want_logprobs = option_given(o, c, &o->logprobs),
        .loop_repeats = (int)o->loop_repeats,
    };
}

uint64_t settings_cache_tokens(const options *o, const qp_model *model, uint64_t need, uint64_t jobs) {
    enum { LEAST = 512, PAGE = 256 };
    if (o->context) return (uint64_t)o->context;
    qp_model_info info;
    qp_model_get_info(model, &info);
    const uint64_t trained = (uint64_t)info.trained_context, each = need && need < trained ? need : trained;
    const uint64_t sequences = jobs * (o->negative_prompt ? 2 : 1);
    uint64_t tokens = sequences > 1 ? sequences * (each + PAGE) : each;
    if (need && sequences == 1 && need < trained) return need;
    const uint64_t memory = cpu_memory_bytes();
    while (memory && tokens > LEAST && tokens > need &&
           qp_model_cache_bytes(model, load_cache_type(o), tokens) > memory / 2)
        tokens /= 2;
    return tokens > need ? tokens : each > need ? each : need;
}
