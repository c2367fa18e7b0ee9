/* quipu.h — the whole public interface of quipu, a local engine for large language models.
 *
 * The shortest useful program:
 *
 *     qp_model *model;  qp_generator *gen;  qp_job *job;  qp_event event;  qp_error err;
 *     if (qp_model_open(&model, "models/demo", NULL, &err)) return puts(err.text), 1;
 *     if (qp_generator_new(&gen, model, NULL, &err)) return puts(err.text), 1;
 *     const qp_job_options options = {.size = sizeof options, .prompt = "Once upon a time", .max_new_tokens = 50};
 *     if (qp_job_new(&job, gen, &options, &err)) return puts(err.text), 1;
 *     while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END) fputs(event.text, stdout);
 *     qp_job_free(job);  qp_generator_free(gen);  qp_model_close(model);
 *
 * Rules that hold everywhere:
 *  - Functions that can fail return qp_status (QP_OK is 0) and describe the failure in a qp_error that the caller
 *    owns and may leave NULL. After a failure nothing is owed: output handles are NULL.
 *  - Option structs begin with `size`: set it to sizeof the struct. All other zeros mean the default. A NULL
 *    pointer to options means all defaults. Fields are only ever appended.
 *  - Ownership is in the verb: new/free for memory, open/close for the outside world, peek borrows. Freeing NULL is
 *    fine.
 *  - Text is UTF-8. Lengths are bytes, token counts are tokens, times are seconds.
 *  - A handle may be used by one thread at a time unless its section says more. */
#ifndef QUIPU_H
#define QUIPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(QP_BUILDING) && defined(__GNUC__)
#define QP_API __attribute__((visibility("default")))
#else
#define QP_API
#endif

/* ---- status, errors, log ------------------------------------------------------------------------------------- */

#define QP_STATUSES(X)                                                                                                 \
    X(OK, "ok")                                                                                                        \
    X(NO_MEMORY, "out of memory")                                                                                      \
    X(NO_FILE, "no such file")                                                                                         \
    X(IO, "input or output failed")                                                                                    \
    X(BAD_FORMAT, "malformed data")                                                                                    \
    X(BAD_ARGUMENT, "bad argument")                                                                                    \
    X(UNSUPPORTED, "not supported")                                                                                    \
    X(TOO_LARGE, "over a limit")                                                                                       \
    X(CANCELLED, "cancelled")                                                                                          \
    X(BUSY, "busy")                                                                                                    \
    X(INTERNAL, "internal error")

typedef enum qp_status {
#define X(name, text) QP_##name,
    QP_STATUSES(X)
#undef X
        QP_STATUS_COUNT
} qp_status;

/* Says what failed, where, what was found and what is allowed. `offset` is a position in the offending bytes (file,
 * JSON, template), or 0 where there is none. */
typedef struct qp_error {
    qp_status code;
    uint64_t offset;
    char text[496];
} qp_error;

/* A constant text for a status; never NULL. */
QP_API const char *qp_status_text(qp_status status);

typedef enum qp_log_level { QP_LOG_ERROR, QP_LOG_WARN, QP_LOG_INFO, QP_LOG_DEBUG } qp_log_level;

/* Where diagnostics go; a zero struct is silence. `line` has no final newline; it may be called from any thread. */
typedef struct qp_log {
    void (*line)(void *user, qp_log_level level, const char *line);
    void *user;
} qp_log;

/* Version of the library, "MAJOR.MINOR.PATCH". */
QP_API const char *qp_version(void);
/* Compiler, build type and versions of the libraries inside, as one JSON object; constant. */
QP_API const char *qp_build_json(void);

/* Gives back text or arrays that a function of this header allocated for the caller. */
QP_API void qp_free(void *memory);

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* What the machine has and what quipu will use, why and why not, as one JSON object; the caller qp_free()s it. */
QP_API qp_status qp_devices_json(char **json, qp_error *err);

typedef struct qp_measure_options {
    size_t size;
    int threads;           /* 0: physical cores that the process may use */
    const char *cpu_level; /* NULL: best; see qp_model_options */
    double seconds;        /* how long each figure is measured; 0: 1 s */
} qp_measure_options;

/* One measured limit of the machine. */
typedef struct qp_measure {
    char name[48];                  /* "read", "fma_f32", "dot_bf16", "amx_bf16", ... */
    char unit[16];                  /* "GB/s" or "GFLOP/s" or "GOP/s" */
    double median, lowest, highest; /* over the repeats */
    bool is_best;                   /* compute: the fastest instruction for 16-bit weights */
    bool is_best_whole;             /* and for those that are multiplied as whole numbers */
} qp_measure;

/* Sequential reading of memory by all threads, clock stopped after the last byte is used. Fills one entry. */
QP_API qp_status qp_measure_bandwidth(qp_measure *out, const qp_measure_options *options, qp_error *err);
/* Peak arithmetic out of registers for every multiply-add instruction the CPU has. Fills up to `capacity`. */
QP_API qp_status qp_measure_compute(qp_measure *out, int capacity, int *count, const qp_measure_options *options,
                                    qp_error *err);

/* ---- sampling settings ------------------------------------------------------------------------------------------- */

/* How the next token is chosen. A zero struct is greedy. Zero switches a stage off, unless its line says otherwise.
 * Stages work in the order: guidance, repetition penalties, bans and biases, DRY, filters, softmax (temperature or
 * smoothing), top_k, top_p, top_a, min_p, tfs, typical, mirostat, last or dynamic temperature, XTC, skew, pick. */
typedef struct qp_sampling {
    float temperature;     /* under 0.01: greedy */
    int top_k;             /* keep the k most probable */
    float top_p;           /* keep the shortest prefix of the sorted candidates whose sum reaches p; >= 1 is off */
    float min_p;           /* keep those at least this fraction of the most probable; >= 1 is off */
    bool temperature_last; /* apply temperature after the truncations */
    uint64_t seed;         /* the same seed gives the same text, whatever else runs */
    /* Logits of ids that prompt or answer already hold: divided by this where positive, else multiplied by it (Keskar
     * et al. 2019); also under greedy. 0 and 1 are off. */
    float repetition_penalty;
    float frequency_penalty; /* taken from the logit for every occurrence */
    float presence_penalty;  /* taken from it once if it occurs */
    int penalty_range;       /* newest tokens that count in full for the three; 0: all (and no decay) */
    int penalty_decay;       /* older tokens over which the three fade to nothing */
    float top_a;             /* keep those of at least a * (greatest probability)^2 */
    float tfs;               /* tail free: keep until the normalised second differences sum to z; >= 1 is off */
    float typical;           /* locally typical (Meister et al. 2022): keep this mass around the entropy; >= 1 is off */
    float smoothing_factor;  /* quadratic: p ~ exp(-(logit - greatest)^2 * factor / temperature) */
    float skew;              /* bends the random number: > 0 towards improbable tokens, < 0 towards probable ones */
    float min_temperature, max_temperature; /* dynamic temperature by entropy where max > min ... */
    float temperature_exponent;             /* ... and its exponent; 0: 1 */
    float mirostat_tau;     /* > 0: mirostat 2 (Basu et al. 2021) with this target surprise in bits ... */
    float mirostat_eta;     /* ... and learning rate; 0: 0.1 */
    float xtc_probability;  /* exclude top choices with this probability ... */
    float xtc_threshold;    /* ... those but the least that are at least this probable; 0: 0.1 */
    float dry_multiplier;   /* > 0: DRY, a penalty on what would continue a repetition: ... */
    float dry_base;         /* ... multiplier * base^(length - allowed); 0: 1.75 */
    int dry_allowed_length; /* 0: 2 */
    int dry_range;          /* newest tokens looked at; 0: all */
    int dry_max_length;     /* repetitions count as no longer than this; 0: 20 */
    bool dry_count;         /* multiply by the number of occurrences too, as ExLlamaV2 does */
    float guidance;         /* classifier-free guidance; needs a negative prompt. 0 and 1 are off */
} qp_sampling;

/* Adds to a token's logit; -INFINITY forbids it. */
typedef struct qp_bias {
    int32_t id;
    float bias;
} qp_bias;

/* ---- models ---------------------------------------------------------------------------------------------------- */

/* Weights, tokenizer and settings of one model, immutable after opening: any number of threads may share it. */
typedef struct qp_model qp_model;

typedef enum qp_precision {
    QP_PRECISION_FAST,  /* activations may be rounded to 16 bits on the way into a matrix product */
    QP_PRECISION_EXACT, /* float32 activations and accumulation */
} qp_precision;

typedef enum qp_cache_type {
    QP_CACHE_DEFAULT, /* fp32 when the model's precision is exact, fp16 otherwise */
    QP_CACHE_FP16,
    QP_CACHE_FP32,
    QP_CACHE_Q8, /* keys and values rotated, in blocks of 32 that share a scale: 8.5 bits a number, ... */
    QP_CACHE_Q6, /* ... 6.5 ... */
    QP_CACHE_Q4, /* ... 4.5 for values and 6.5 for keys */
} qp_cache_type;

typedef struct qp_model_options {
    size_t size;
    const char *device; /* NULL or "auto": the best found; "cpu"; "cuda", or "cuda:1" for the second GPU */
    /* NULL: the best the machine has; else "ref", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx" or
     * "amxint8", on 64-bit ARM "neon", "dotprod" or "i8mm" */
    const char *cpu_level;
    int threads;      /* 0: physical cores that the process may use */
    bool pin_threads; /* bind each worker to a core */
    qp_precision precision;
    double rope_scale; /* 0: from config.json; else linear scaling by this factor instead */
    double rope_alpha; /* 0: none; else NTK-aware change of the base: theta * alpha^(d / (d - 2)) */
    double rope_yarn;  /* 0: from config.json; else YaRN by this factor over the trained context */
    qp_log log;
    void (*progress)(void *user, double done, double total); /* parts of the model bound; NULL: none */
    void *progress_user;
    const char *architecture; /* NULL: what config.json names; else the name to read the folder as */
    /* Where weights that a CPU has re-laid for its products are kept for the next load, which maps them: "model" for
     * beside the model's files, else a folder; NULL: nowhere. What does not fit the model any more is written anew;
     * what cannot be written is told to the log. */
    const char *pack_cache;
    /* NULL: one device. Else the layers are cut among GPUs from `device` on: "auto" among all of them, so that the
     * largest cache fits; "20,24" the same within so many GiB of each; "16L,16L" so many layers on each. */
    const char *split;
} qp_model_options;

/* Opens a folder in Hugging Face layout. Checks everything before it returns. */
QP_API qp_status qp_model_open(qp_model **out, const char *path, const qp_model_options *options, qp_error *err);
/* Makes a model with seeded random weights in memory: `shape` is a name of qp_shape_name() and `format` "bf16",
 * "f16", "f32", "q4_0", "gptq", "fp8_e4m3", or "exl2-3.5" with 2.0 to 6.0 bits a weight. It has no tokenizer. For
 * benchmarks and tests. */
QP_API qp_status qp_model_synthesize(qp_model **out, const char *shape, const char *format, uint64_t seed,
                                     const qp_model_options *options, qp_error *err);
QP_API void qp_model_close(qp_model *model);
/* Names of the shapes known to qp_model_synthesize: 0, 1, ... until NULL. */
QP_API const char *qp_shape_name(int index);

typedef struct qp_model_info {
    char architecture[64]; /* as config.json names it */
    char device[32], cpu_level[16];
    int threads;
    qp_precision precision;
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocabulary;
    int trained_context; /* tokens */
    int sliding_window;  /* 0: none */
    uint64_t n_parameters;
    uint64_t weight_bytes; /* all weights */
    uint64_t step_bytes;   /* read once per decoded token (weights without the embedding table's other rows) */
    double bits_per_weight;
    bool multiplies_whole; /* most weights lie packed; a processor multiplies those as whole numbers */
    int32_t bos;           /* -1: none */
    int32_t eos[16];
    int n_eos;
    bool has_tokenizer, has_chat_template;
    bool has_sampling;    /* generation_config.json says do_sample, and with which settings: */
    qp_sampling sampling; /* stages that it does not name are off, the seed is 0 */
} qp_model_info;

QP_API void qp_model_get_info(const qp_model *model, qp_model_info *info);
/* "default", "fp16", "q4" ...; NULL for what is no type. */
QP_API const char *qp_cache_type_name(qp_cache_type type);
/* Bytes of cache that `tokens` tokens need. */
QP_API uint64_t qp_model_cache_bytes(const qp_model *model, qp_cache_type type, uint64_t tokens);

/* A low-rank adapter (LoRA) in a PEFT folder, applied beside the model's weights to the jobs and sequences that name
 * it. May be closed while such still run: they keep it. */
typedef struct qp_adapter qp_adapter;
QP_API qp_status qp_adapter_open(qp_adapter **out, const qp_model *model, const char *path, qp_error *err);
QP_API void qp_adapter_close(qp_adapter *adapter);

typedef struct qp_adapter_use {
    qp_adapter *adapter;
    float scale; /* multiplies what the adapter adds; 1 is as it was trained */
} qp_adapter_use;

/* What a model folder holds, read from its headers alone: architecture, shape, formats, memory needed, what is not
 * supported and why; one JSON object that the caller qp_free()s. With `tensors`, the list of all tensors too. */
QP_API qp_status qp_inspect_json(char **json, const char *path, bool tensors, qp_error *err);
/* What the model would take of the device that `options` name, before anything is loaded: weights as they will lie
 * there, scratch, a reserve for sampling, what is left for a cache and how many tokens of each type that is, and
 * formats that are unpacked on their way there, for the device reads others only; one JSON object that the caller
 * qp_free()s. QP_UNSUPPORTED where there is no such device. */
QP_API qp_status qp_plan_json(char **json, const char *path, const qp_model_options *options, qp_error *err);

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* Immutable after opening: any number of threads may share it. */
typedef struct qp_tokenizer qp_tokenizer;

/* Opens the tokenizer of a model folder, or a tokenizer.json itself, without touching the weights. */
QP_API qp_status qp_tokenizer_open(qp_tokenizer **out, const char *path, qp_error *err);
QP_API void qp_tokenizer_close(qp_tokenizer *tokenizer);
/* The model's own; NULL if it has none. Borrowed: lives as long as the model. */
QP_API const qp_tokenizer *qp_model_peek_tokenizer(const qp_model *model);
/* Highest id + 1. */
QP_API int qp_tokenizer_size(const qp_tokenizer *tokenizer);

enum {
    QP_TOKENIZE_NO_SPECIAL = 1,    /* leave out the tokens that the tokenizer adds around the text (bos, eos) */
    QP_TOKENIZE_PLAIN_SPECIAL = 2, /* read "<|eot|>" and its like in the text as plain characters */
};
/* Text to ids: *ids is an array of *count, qp_free()d by the caller. */
QP_API qp_status qp_tokenize(const qp_tokenizer *tokenizer, const char *text, size_t text_bytes, unsigned flags,
                             int32_t **ids, size_t *count, qp_error *err);

enum { QP_DETOKENIZE_SKIP_SPECIAL = 1 };
/* Ids to text: *text ends with a zero byte and has *text_bytes before it, qp_free()d by the caller. */
QP_API qp_status qp_detokenize(const qp_tokenizer *tokenizer, const int32_t *ids, size_t count, unsigned flags,
                               char **text, size_t *text_bytes, qp_error *err);

/* Ids to text one at a time, never showing half a character. */
typedef struct qp_detok_stream qp_detok_stream;
QP_API qp_status qp_detok_stream_new(qp_detok_stream **out, const qp_tokenizer *tokenizer, unsigned flags,
                                     qp_error *err);
QP_API void qp_detok_stream_free(qp_detok_stream *stream);
/* *text is what this id makes visible (possibly empty), borrowed until the next call. *has_text is false where the
 * library that is the reference yields nothing yet. */
QP_API qp_status qp_detok_stream_next(qp_detok_stream *stream, int32_t id, const char **text, size_t *text_bytes,
                                      bool *has_text, qp_error *err);
/* No more ids will come: what was still held back, broken characters as U+FFFD. */
QP_API qp_status qp_detok_stream_end(qp_detok_stream *stream, const char **text, size_t *text_bytes, qp_error *err);

/* Writes the raw vocabulary entry of an id; returns its length in bytes (which may exceed `capacity`), -1 if the id
 * is not one. *is_special tells added special tokens; may be NULL. */
QP_API int qp_token_piece(const qp_tokenizer *tokenizer, int32_t id, char *out, size_t capacity, bool *is_special);
/* Writes the bytes that the id adds to a text in its middle (" the", or a part of a character); returns how many, which
 * may exceed `capacity`, -1 if the id is not one. */
QP_API int qp_token_bytes(const qp_tokenizer *tokenizer, int32_t id, char *out, size_t capacity);
/* The id of an exact vocabulary entry or added token; -1 if there is none. */
QP_API int32_t qp_token_id(const qp_tokenizer *tokenizer, const char *piece);

/* ---- chat templates ---------------------------------------------------------------------------------------------- */

/* A parsed Jinja template; immutable: any number of threads may share it. */
typedef struct qp_template qp_template;

/* From a model folder (chat_template.jinja, chat_template.json, tokenizer_config.json), choosing the named one
 * (NULL: "default") where there are several. */
QP_API qp_status qp_template_open(qp_template **out, const char *path, const char *name, qp_error *err);
/* From source text. */
QP_API qp_status qp_template_new(qp_template **out, const char *source, size_t source_bytes, qp_error *err);
/* A prompt format of quipu's own ("chatml", "llama2" ...), for models that come without a template. Its "tokens" are
 * the caller's to give where the format writes bos_token or eos_token. */
QP_API qp_status qp_template_builtin(qp_template **out, const char *name, qp_error *err);
/* Names of these formats: 0, 1, ... until NULL. */
QP_API const char *qp_template_builtin_name(int index);
/* Texts at which an answer in the format of this name ends, beside the end tokens: 0, 1, ... until NULL. */
QP_API const char *qp_template_builtin_stop(const char *name, int index);
/* The template's source, ends with a zero byte; lives as long as the template. */
QP_API const char *qp_template_peek_source(const qp_template *chat_template, size_t *source_bytes);
QP_API void qp_template_free(qp_template *chat_template);
/* Renders: `input_json` is an object {"messages", "tools"?, "add_generation_prompt"?, "continue_final_message"?,
 * "now"?, "tokens"?, any other key = variable}. *text is qp_free()d by the caller. *raised is set when the template
 * itself called raise_exception (err->text is then its message); may be NULL. */
QP_API qp_status qp_template_render(const qp_template *chat_template, const char *input_json, size_t input_bytes,
                                    char **text, size_t *text_bytes, bool *raised, qp_error *err);

/* ---- evaluation: logits of chosen ids ---------------------------------------------------------------------------- */

/* One sequence of tokens with cache of its own, driven by the caller: for perplexity, comparison, benchmarks. */
typedef struct qp_sequence qp_sequence;

QP_API qp_status qp_sequence_new(qp_sequence **out, const qp_model *model, uint64_t capacity_tokens, qp_cache_type type,
                                 qp_error *err);
/* `count` sequences that may run in one step together; their pages come from one room of count * capacity_tokens
 * (each rounded up to whole pages), which lives until the last of them is freed. */
QP_API qp_status qp_sequences_new(qp_sequence **out, int count, const qp_model *model, uint64_t capacity_tokens,
                                  qp_cache_type type, qp_error *err);
QP_API void qp_sequence_free(qp_sequence *sequence);
/* Tokens fed so far. */
QP_API uint64_t qp_sequence_length(const qp_sequence *sequence);
/* Computes what follows with these adapters (at most 8); for a sequence without tokens. */
QP_API qp_status qp_sequence_set_adapters(qp_sequence *sequence, const qp_adapter_use *uses, size_t count,
                                          qp_error *err);
/* Forgets all tokens from `length` on. */
QP_API qp_status qp_sequence_rewind(qp_sequence *sequence, uint64_t length, qp_error *err);

/* Feeds counts[i] ids to sequences[i] in one step of the model, any mixture of prompts and single tokens; all must
 * be sequences of one qp_sequences_new call, each at most once. Writes logits [sum of lasts, vocabulary] of the last
 * lasts[i] positions of each, in order. Returns when the device has finished. Blocking; one call per model at a time.
 */
QP_API qp_status qp_forward(qp_sequence *const *sequences, const int32_t *const *ids, const size_t *counts,
                            const size_t *lasts, int n_sequences, float *logits, qp_error *err);
/* One greedy step: feeds ids[i] to sequences[i] and makes ids[i] the id that follows, which has the highest logit (of
 * several the lowest id). Otherwise as qp_forward; on failure ids and sequences are as before. On a GPU logits stay
 * there, and it has begun the next step when this one returns: fastest are the same sequences with their ids untouched.
 */
QP_API qp_status qp_forward_best(qp_sequence *const *sequences, int32_t *ids, int n_sequences, qp_error *err);

/* A tensor to write: dtype as the format spells it ("F32", "BF16", "I64" ...). */
typedef struct qp_tensor {
    const char *name, *dtype;
    int rank;
    const int64_t *shape;
    const void *data;
} qp_tensor;

/* Writes a safetensors file that appears under `path` complete or not at all. */
QP_API qp_status qp_tensors_write(const char *path, const qp_tensor *tensors, size_t count, qp_error *err);

/* ---- generation -------------------------------------------------------------------------------------------------- */

/* Runs jobs on one model with a shared, paged cache, on a thread of its own. All calls of this section may come from
 * any thread; only a single job's events are read by one thread at a time. */
typedef struct qp_generator qp_generator;
/* One prompt and its continuation. */
typedef struct qp_job qp_job;
/* Tells which of many jobs have something to read. */
typedef struct qp_watch qp_watch;

typedef struct qp_generator_options {
    size_t size;
    uint64_t cache_tokens; /* 0: the model's trained context; a multiple of 256 is used */
    qp_cache_type cache_type;
    int chunk_tokens;     /* most prompt tokens in one step, up to 2048; 0: what suits the device (CPU: 512) */
    int max_jobs;         /* most that run at the same time, the others wait; 0: 256 */
    int max_queue;        /* most that wait; one more is refused with QP_BUSY; 0: 1024 */
    uint64_t max_length;  /* most tokens of one prompt with its answer; 0: all of the cache */
    double max_stall;     /* a step with running answers takes at most this share longer for prompts; 0: 0.5 */
    int max_bypass;       /* how often a waiting job may be overtaken by smaller ones; 0: 4, < 0: never */
    uint64_t spill_bytes; /* host memory for pages that the cache has no room for; 0: none */
    bool no_reuse;        /* every prompt is computed anew */
} qp_generator_options;

QP_API qp_status qp_generator_new(qp_generator **out, const qp_model *model, const qp_generator_options *options,
                                  qp_error *err);
/* Cancels all its jobs and waits for the engine; their handles stay valid and give their end. Watches end too. */
QP_API void qp_generator_free(qp_generator *generator);

/* What a generator has done and is doing; counters never go back. */
typedef struct qp_generator_stats {
    size_t jobs_waiting, jobs_running;
    uint64_t jobs_submitted, jobs_finished, jobs_cancelled, jobs_failed, jobs_preempted, jobs_refused;
    uint64_t steps, prompt_tokens, cached_tokens, new_tokens; /* prompt_tokens: without those found in the cache */
    uint64_t pages, pages_used, pages_cached; /* of 256 tokens; cached: reusable, given up when needed */
    uint64_t pages_shared;                    /* used by more than one job */
    uint64_t pages_evicted, pages_spilled, pages_restored;
    double step_s;       /* the last step: all of it ... */
    double step_model_s; /* ... and the part in the model */
    double total_step_s, total_model_s;
    double rate_prompt, rate_new; /* tokens per second, over about the last 10 s */
    double idle_s;                /* since the last step ended; 0 while one runs */
    bool has_device_failed;       /* a step failed, and not for want of memory: no later one is to be trusted */
} qp_generator_stats;

QP_API void qp_generator_get_stats(const qp_generator *generator, qp_generator_stats *stats);

/* Writes what the cache holds of `ids` from their beginning, as far as it goes in whole pages, to a file that another
 * generator of the same model and cache type can load. *n_saved: tokens; may be NULL. Waits for the engine. */
QP_API qp_status qp_prefix_save(qp_generator *generator, const char *path, const int32_t *ids, size_t n_ids,
                                size_t *n_saved, qp_error *err);
/* Puts the file's pages into the cache, where prompts find them. Refuses files of another model. */
QP_API qp_status qp_prefix_load(qp_generator *generator, const char *path, size_t *n_loaded, qp_error *err);

/* Limits what may come next: one grammar, schema, list of words. The engine calls these from its own threads, for one
 * job never two at a time; perhaps while the model works, so they must not evaluate anything on it. A failure ends the
 * job, and only it. */
typedef struct qp_filter qp_filter;
struct qp_filter {
    void *user;
    /* Clears in mask [(vocabulary + 31) / 32] the bits of ids that may not come next. *may_end: the answer would be
     * complete now (until then end tokens are forbidden). A mask without ids and may_end ends the job. */
    qp_status (*mask)(void *user, uint32_t *mask, int vocabulary, bool *may_end, qp_error *err);
    qp_status (*accept)(void *user, int32_t id, qp_error *err); /* the token that was chosen */
    qp_status (*rewind)(void *user, size_t n, qp_error *err);   /* forgets the newest n; NULL: cannot */
    void (*free)(void *user);                                   /* when the job has ended; may be NULL */
    /* Makes a filter that has taken the same tokens, for another job; NULL: qp_jobs_new refuses it. */
    qp_status (*clone)(void *user, qp_filter *out, qp_error *err);
    /* After mask: ids that come next whatever the model says, at most `most`; they are taken without sampling where
     * nothing else has a say (other filters, bans, biases, wanted logprobs). 0: the model chooses. May be NULL. */
    size_t (*forced)(void *user, int32_t *ids, size_t most);
    /* Before the first mask, where the prompt's last token may be completed (qp_job_options.heal): the text with which
     * the first token begins, not part of the answer. NULL: such jobs are refused. */
    qp_status (*heal)(void *user, const char *text, size_t bytes, qp_error *err);
};

/* How the hidden states behind the final norm of a prompt's tokens become one vector. */
typedef enum qp_pooling { QP_POOL_NONE, QP_POOL_MEAN, QP_POOL_LAST } qp_pooling;

typedef struct qp_job_options {
    size_t size;
    const char *prompt;      /* text, tokenised with its special tokens ... */
    size_t prompt_bytes;     /* 0: prompt ends with a zero byte */
    unsigned tokenize_flags; /* QP_TOKENIZE_... */
    const int32_t *ids;      /* ... or ids (prompt is then NULL: exactly one of the two must be given) */
    size_t n_ids;
    size_t max_new_tokens;   /* 0: until an end token or the end of the cache */
    bool ignore_eos;         /* end tokens do not end the job */
    bool show_special;       /* special tokens appear in the text */
    const char *const *stop; /* n_stop texts that end the job; the earliest match wins and is not shown */
    size_t n_stop;
    qp_sampling sampling;
    const int32_t *stop_ids; /* n_stop_ids tokens that end the job, besides the model's end tokens */
    size_t n_stop_ids;
    size_t min_new_tokens;  /* end tokens are forbidden before */
    const char *const *ban; /* n_ban texts that must not appear, whatever their case: taken back, tried otherwise */
    size_t n_ban;
    const qp_bias *bias; /* n_bias */
    size_t n_bias;
    const int32_t *allow_ids; /* n_allow ids: only these (and end tokens); none: all */
    size_t n_allow_ids;
    const int32_t *ban_ids; /* n_ban_ids ids that must not come */
    size_t n_ban_ids;
    const int32_t *dry_breaker_ids; /* NULL: tokens with . , ! ? < > [ ] ( ) { } " newline or tab, and added ones */
    size_t n_dry_breaker_ids;
    const int32_t *xtc_keep_ids; /* NULL: tokens with a newline, and added ones */
    size_t n_xtc_keep_ids;
    bool heal;                   /* the prompt's last token may be completed: its text is the beginning of the answer's
                                    first token, of which only the rest is shown */
    const char *negative_prompt; /* with sampling.guidance: text, or ids */
    const int32_t *negative_ids;
    size_t n_negative_ids;
    const qp_filter *filters; /* n_filters, all must allow; freed with the job, also when it is refused */
    size_t n_filters;
    int n_top;          /* alternatives that come with each token */
    bool want_logprobs; /* qp_token.logprob and .p are filled (n_top > 0 does it too) */
    bool want_logits;   /* qp_token.logits */
    bool show_prompt;   /* QP_EVENT_PROMPT events while the prompt is read */
    int priority;       /* higher goes first; 0 is usual */
    double max_queue_s; /* longest time waiting; 0: no limit */
    double max_total_s; /* longest time from submission to end; 0: no limit */
    int loop_repeats;   /* end when the newest tokens are a piece repeated so often, at least 64 tokens; 0: never */
    qp_watch *watch;    /* is told when there is something to read; NULL: none */
    void *user;         /* comes back from qp_watch_next */
    bool score_prompt;  /* qp_job_peek_scores; the prompt is then computed anew, with n_top alternatives */
    const qp_adapter_use *adapters; /* n_adapters, at most 8 */
    size_t n_adapters;
    qp_pooling pooling; /* not QP_POOL_NONE: no answer, but qp_job_peek_embedding */
    bool no_reuse;      /* the prompt is not looked for in the cache, and what is computed is not left there */
    size_t max_unread;  /* the job pauses, with its pages, while this many tokens wait for its reader; 0: never */
} qp_job_options;

/* Submits. Refuses at once what can never fit. All of `options` is copied. */
QP_API qp_status qp_job_new(qp_job **out, qp_generator *generator, const qp_job_options *options, qp_error *err);
/* Submits n jobs that share the prompt (read once) and differ in their seed: seed, seed + 1, ... Filters are cloned,
 * one for each job. */
QP_API qp_status qp_jobs_new(qp_job **out, int n, qp_generator *generator, const qp_job_options *options,
                             qp_error *err);
/* Cancels if still running; the handle is gone, the engine frees the rest within one step. */
QP_API void qp_job_free(qp_job *job);
/* Any thread, any time, any number of times. The job's next event is its end. */
QP_API void qp_job_cancel(qp_job *job);

typedef enum qp_event_kind { QP_EVENT_TEXT, QP_EVENT_END, QP_EVENT_PROMPT } qp_event_kind;
typedef enum qp_finish {
    QP_FINISH_NONE,
    QP_FINISH_EOS,    /* an end token */
    QP_FINISH_STOP,   /* a stop text */
    QP_FINISH_LENGTH, /* max_new_tokens or the end of the cache */
    QP_FINISH_CANCELLED,
    QP_FINISH_ERROR,
    QP_FINISH_FILTER,  /* a filter allows nothing more: the text is complete */
    QP_FINISH_TIMEOUT, /* max_queue_s or max_total_s */
    QP_FINISH_LOOP,    /* loop_repeats */
} qp_finish;
/* A constant word for a finish: "eos", "stop", "length" ... */
QP_API const char *qp_finish_text(qp_finish finish);

/* Taken after the device has finished; nothing is rounded. */
typedef struct qp_job_stats {
    size_t prompt_tokens, cached_tokens, new_tokens; /* new_tokens: without the end token */
    double queue_s, prefill_s, first_token_s, decode_s, total_s;
    uint64_t logits_hash; /* of the logits behind the last token */
    size_t preempted;     /* times that its pages were given to others */
    size_t suppressed;    /* tokens taken back because of banned texts */
    int loop_period;      /* QP_FINISH_LOOP: tokens of the repeated piece */
    size_t forced;        /* tokens taken without sampling, because a filter left no choice */
} qp_job_stats;

/* A candidate beside the chosen one. */
typedef struct qp_candidate {
    int32_t id;
    float p;       /* probability after all stages; 0: cut off */
    float logprob; /* natural logarithm of the model's own probability, before any stage */
} qp_candidate;

typedef struct qp_token {
    int32_t id;
    float p, logprob;        /* as in qp_candidate; 0 unless asked for */
    const qp_candidate *top; /* [n_top], by falling logprob */
    int n_top;
    const float *logits; /* [vocabulary], untouched; NULL unless asked for */
} qp_token;

typedef struct qp_event {
    qp_event_kind kind;
    const char *text; /* whole characters, ends with a zero byte; "" at the end and while a character is incomplete */
    size_t text_bytes;
    const int32_t *ids; /* the tokens behind this event (the end token is not among them) */
    size_t n_ids;
    qp_finish finish;      /* QP_EVENT_END only, as the next three */
    const char *stop_text; /* the stop text that matched, or NULL */
    int32_t stop_id;       /* the end token, or -1 */
    qp_job_stats stats;
    const qp_token *tokens;  /* [n_ids] when logprobs, alternatives or logits were asked for; else NULL */
    const char *held_text;   /* QP_EVENT_END with QP_FINISH_STOP: from the stop text on, what was not shown; else "" */
    const int32_t *held_ids; /* the tokens of which not all text was shown */
    size_t n_held_ids;
    size_t prompt_done;         /* prompt tokens in the cache by now, of stats.prompt_tokens */
    double sampled_at, read_at; /* clock of the newest token behind this event, and of now: seconds since an arbitrary
                                   moment */
} qp_event;

/* Waits for the job's next event; its pointers live until the next call for this job. What came since the last call
 * comes as one event, so that a slow reader loses nothing and slows nobody. After QP_EVENT_END every further call gives
 * QP_EVENT_END again. A failed job returns its status with QP_FINISH_ERROR in the event. */
QP_API qp_status qp_job_next(qp_job *job, qp_event *event, qp_error *err);
/* As qp_job_next, but waits at most `timeout_s` (0: not at all); QP_BUSY when nothing came. */
QP_API qp_status qp_job_poll(qp_job *job, double timeout_s, qp_event *event, qp_error *err);
/* The prompt as the job saw it: ids, borrowed until the job is freed. */
QP_API const int32_t *qp_job_peek_prompt(const qp_job *job, size_t *count);
/* With options.score_prompt: probabilities of the prompt's tokens from the second on (entry i is about token i + 1), as
 * the model has them before any stage. *count: how many are done; all of them when the job's first text or a regular
 * end was read. Borrowed until the job is freed; logits are NULL. */
QP_API const qp_token *qp_job_peek_scores(const qp_job *job, size_t *count);

/* With options.pooling, when its end (QP_FINISH_LENGTH) was read: the prompt as a vector of length 1 with *count
 * numbers, the model's hidden width. NULL before. Borrowed until the job is freed. */
QP_API const float *qp_job_peek_embedding(const qp_job *job, size_t *count);

typedef enum qp_job_state { QP_JOB_WAITING, QP_JOB_PROMPT, QP_JOB_RUNNING, QP_JOB_ENDED } qp_job_state;
typedef struct qp_job_progress {
    qp_job_state state;
    size_t queue_place; /* jobs ahead of it while waiting */
    size_t prompt_tokens, prompt_done, new_tokens, pages;
    size_t cached_tokens; /* of prompt_done, found in the cache */
} qp_job_progress;
QP_API void qp_job_get_progress(const qp_job *job, qp_job_progress *progress);

/* ---- constraints ---------------------------------------------------------------------------------------------------
 */

/* A compiled constraint: what a text must look like. Immutable; any number of threads and jobs may share it. Freed
 * before its tokenizer (or the model that the tokenizer belongs to) is closed. */
typedef struct qp_grammar qp_grammar;

typedef struct qp_grammar_options {
    size_t size;
    const char
        *whitespace; /* JSON: "compact", "single" (NULL), "pretty:N", "flexible:K", "flexible:inf", "regex:..." */
    bool lenient;    /* unsupported assertions of a schema are dropped, each with a warning in the report */
    bool any_order;  /* properties in any order instead of the schema's */
    bool repeat_extra_keys; /* additional keys may come twice */
    bool unicode_escapes;   /* printable characters may be written as \uXXXX */
    bool ignore_formats;    /* unknown formats are annotations */
    int fraction_digits;    /* most; 0: 20, < 0: no limit */
    int exponent_digits;    /* most; 0: 3, < 0: no limit */
    const char *root;       /* GBNF: the start rule; NULL: "root" */
    /* Asked now and then by the thread that compiles: true gives up with QP_CANCELLED. NULL: nobody cancels. */
    bool (*cancelled)(void *user);
    void *cancel_user;
} qp_grammar_options;

/* The kinds of constraint: 0, 1, ... until NULL; *help is one line, may be NULL. */
QP_API const char *qp_grammar_kind(int index, const char **help);
/* The keywords of JSON Schema and what becomes of each, as a table in Markdown; qp_free()d by the caller. */
QP_API qp_status qp_grammar_keywords(char **table, qp_error *err);
/* Compiles `source` (kind "json_schema", "json_object", "regex", "gbnf", "lark", "choices", "prefix", "structure").
 * What was compiled lately for this tokenizer is found again. Refuses what it cannot keep, naming the place.
 * *report_json (may be NULL; qp_free()d by the caller, also after a failure) is an object with "problems", "narrowed",
 * "warnings", "remarks". */
QP_API qp_status qp_grammar_new(qp_grammar **out, const qp_tokenizer *tokenizer, const char *kind, const char *source,
                                size_t source_bytes, const qp_grammar_options *options, char **report_json,
                                qp_error *err);
QP_API void qp_grammar_free(qp_grammar *grammar);
/* Follows a text: *n_good bytes of it can begin a text of the language, and if that is all, *complete tells whether it
 * is one. *expected (may be NULL; qp_free()d) says what could come at that place. */
QP_API qp_status qp_grammar_check(const qp_grammar *grammar, const char *text, size_t text_bytes, size_t *n_good,
                                  bool *complete, char **expected, qp_error *err);
/* Tokenises a text and makes the mask before each token: how many ids were allowed and how long it took. `allowed`
 * and `seconds` have room for `capacity`; *n_tokens is how many there are (masks end at the first refused token). */
QP_API qp_status qp_grammar_time(const qp_grammar *grammar, const char *text, size_t text_bytes, int *allowed,
                                 double *seconds, size_t capacity, size_t *n_tokens, qp_error *err);
/* A filter for one job (qp_job_options.filters), which owns it from then on. Where the model leaves a core
 * free, threads of the tokenizer make its masks while the model computes. The grammar may be freed before it. */
QP_API qp_status qp_filter_new(qp_filter *out, const qp_grammar *grammar, qp_error *err);

/* ---- waiting for many jobs --------------------------------------------------------------------------------------- */

/* One reader of many jobs, with a descriptor for event loops. */
QP_API qp_status qp_watch_new(qp_watch **out, qp_error *err);
/* After the last job that names it is freed. */
QP_API void qp_watch_free(qp_watch *watch);
/* Readable (poll, epoll, select) while qp_watch_next has something to give. */
QP_API int qp_watch_descriptor(const qp_watch *watch);
/* A job with something to read, and its `user`; each is told once until it is read to its last event with qp_job_poll.
 * Waits at most timeout_s (< 0: for ever, 0: not at all): NULL when nothing came. */
QP_API qp_job *qp_watch_next(qp_watch *watch, double timeout_s, void **user);
/* For a job that was made without: `watch` tells of it from now on, and at once of what there is to read already. By
 * the job's reader, once: QP_BUSY if it has a watch. */
QP_API qp_status qp_job_watch(qp_job *job, qp_watch *watch, void *user, qp_error *err);

#ifdef __cplusplus
}
#endif
#endif
