/* hfconfig.h — config.json and generation_config.json of a model folder, as written by transformers 4.x and 5.x.
 *
 * model/shape.c reads numbers through the typed getters by table; the parts whose spelling changed over the years are
 * answered as structs: rotary settings, token ids, sampling defaults. Where a multimodal config nests "text_config",
 * its keys win and the outer ones fill the gaps. A getter whose key is absent or null leaves *out alone. Every refusal
 * names the file, the key, what was found and what is allowed. */
#ifndef FORMAT_HFCONFIG_H
#define FORMAT_HFCONFIG_H

#include "base/err.h"
#include <jansson.h>

typedef struct hfconfig hfconfig;

/* Reads folder/config.json, or the metadata of a GGUF file. */
qp_status hfconfig_open(hfconfig **out, const char *folder, qp_error *err);
/* The same from text; `where` names it in errors. */
qp_status hfconfig_new(hfconfig **out, const char *text, size_t bytes, const char *where, qp_error *err);
void hfconfig_close(hfconfig *c);

/* ---- single keys ---- */

/* The raw value, borrowed: NULL where absent, the JSON null where null. */
const json_t *hfconfig_value(const hfconfig *c, const char *key);
qp_status hfconfig_need(const hfconfig *c, const char *key, qp_error *err);
qp_status hfconfig_int(const hfconfig *c, const char *key, int64_t lowest, int64_t highest, int64_t *out,
                       qp_error *err);
/* Finite and in [lowest, highest]. */
qp_status hfconfig_real(const hfconfig *c, const char *key, double lowest, double highest, double *out, qp_error *err);
qp_status hfconfig_bool(const hfconfig *c, const char *key, bool *out, qp_error *err);
qp_status hfconfig_text(const hfconfig *c, const char *key, const char **out, qp_error *err);
/* *out borrowed, NULL where absent or null. */
qp_status hfconfig_array(const hfconfig *c, const char *key, json_t **out, qp_error *err);
/* What errors call the document: the path of the file. */
const char *hfconfig_where(const hfconfig *c);

/* The first name of "architectures"; refuses a config without one. */
qp_status hfconfig_architecture(const hfconfig *c, const char **out, qp_error *err);
/* Of a model that also sees or hears: the family of its text part, NULL where it is not known. */
const char *hfconfig_text_family(const hfconfig *c);
/* "dtype" or "torch_dtype" ("bfloat16"); NULL where there is neither. */
qp_status hfconfig_dtype(const hfconfig *c, const char **out, qp_error *err);

/* For any object: finite and in [lowest, highest]; absent or null leaves *out alone. */
qp_status hf_get_real(const json_t *object, const char *key, double lowest, double highest, double *out,
                      const char *where, qp_error *err);

/* ---- rotary settings ---- */

#define HF_ROPE_KINDS(X)                                                                                               \
    X(DEFAULT, "default")                                                                                              \
    X(LINEAR, "linear")                                                                                                \
    X(DYNAMIC, "dynamic")                                                                                              \
    X(YARN, "yarn")                                                                                                    \
    X(LLAMA3, "llama3")                                                                                                \
    X(LONGROPE, "longrope")

typedef enum hf_rope_kind {
#define X(name, text) HF_ROPE_##name,
    HF_ROPE_KINDS(X)
#undef X
        HF_ROPE_KIND_COUNT
} hf_rope_kind;

enum { HF_ROPE_MAX_FACTORS = 512 };

/* A value of its own: needs nothing of the config it was read from. Zero means "not given" where noted. */
typedef struct hf_rope {
    hf_rope_kind kind;
    double theta;
    double factor;           /* 0: not given (yarn, longrope: the ratio of the two lengths) */
    double partial;          /* partial_rotary_factor; 0: not given */
    double alpha;            /* dynamic: the base grows by alpha^(d / (d - 2)) and stays; 0: not given */
    int64_t max_positions;   /* max_position_embeddings: where dynamic begins to stretch */
    int64_t original_max;    /* yarn, llama3, longrope: positions before the stretch */
    double attention_factor; /* 0: by the kind's own rule */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn; mscale 0: not given */
    bool truncate;                                       /* yarn: whole dimensions as borders of the ramp */
    double low_freq_factor, high_freq_factor;            /* llama3 */
    int n_factors;                                       /* longrope: entries of both lists */
    float short_factor[HF_ROPE_MAX_FACTORS], long_factor[HF_ROPE_MAX_FACTORS];
} hf_rope;

const char *hf_rope_kind_name(hf_rope_kind kind);
/* Reads rope_scaling / rope_parameters, rope_theta, partial_rotary_factor and their older names. `layer_type` picks
 * from a map by layer type
 * ("full_attention"); NULL, or a config without such a map: the one there is. `default_theta` and `default_positions`
 * stand in for absent keys. */
qp_status hfconfig_rope(const hfconfig *c, const char *layer_type, double default_theta, int64_t default_positions,
                        hf_rope *out, qp_error *err);
/* Whether the settings come as a map by layer type. */
bool hfconfig_rope_is_map(const hfconfig *c);
/* Whether there are settings at all, beside the base. */
bool hfconfig_rope_is_given(const hfconfig *c);

/* ---- token ids and sampling defaults ---- */

enum { HF_MAX_EOS = 16 };

typedef struct hf_ids {
    int32_t bos, pad; /* -1: none */
    int32_t eos[HF_MAX_EOS];
    int n_eos;
} hf_ids;

/* Negative: not given. */
typedef struct hf_sampling {
    bool do_sample;
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k;
} hf_sampling;

/* generation_config.json of the folder where it exists, for each id that it lacks config.json. */
qp_status hfconfig_generation(const hfconfig *c, const char *folder, hf_ids *ids, hf_sampling *sampling, qp_error *err);

/* The part of it that reads generation_config.json, over what *ids and *sampling hold. */
qp_status hf_generation_parse(const char *text, size_t bytes, const char *where, hf_ids *ids, hf_sampling *sampling,
                              qp_error *err);

#endif
