/* batch.h — many prompts through one generator: the parts of `quipu generate --batch`. */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include "answer.h"
#include "load.h"
#include "base/json.h"

/* One line of the input, from its reading to its result. */
typedef struct batch_item {
    struct batch_item *next; /* in the order of the input */
    uint64_t index;          /* of the line, from 0 */
    char *id;                /* its "id" as JSON; NULL: none */
    qp_job *job;             /* NULL: not started, or over */
    answer answer;
    strbuf result; /* the line to write, once it is known */
    bool wants_logprobs;
    bool is_dropped; /* nothing is to be written: cancelled, or written by an earlier run */
} batch_item;

/* Everything that lines are made into jobs with. */
typedef struct batch_maker {
    session *s;
    const qp_model *model;
    qp_generator *generator;
    qp_watch *watch;
    qp_template *chat; /* NULL: the model has none */
    qp_model_info info;
    adapter_list adapters;
    uint64_t seed;
    const char *path; /* of the input, for errors */
} batch_maker;

/* Reads the line: fills item->id, and hands out the document that batch_submit takes. */
qp_status batch_parse(json_t **out, batch_item *item, const batch_maker *m, const char *line, size_t bytes,
                      qp_error *err);
/* Starts item->job with the prompt and the options of the document over those of the command line. */
qp_status batch_submit(batch_item *item, const batch_maker *m, const json_t *document, qp_error *err);
/* Fills item->result out of the answer, or of a failure. */
void batch_finish(batch_item *item);
void batch_fail(batch_item *item, const qp_error *why);
void batch_free_item(batch_item *item);

/* Where results go. */
typedef struct batch_out {
    FILE *file; /* stdout, or the file of -o */
    const char *path;
    json_t *done; /* keys of what the file had before */
    uint64_t n_failed_before;
} batch_out;

/* Opens `path` (NULL: stdout). What an earlier run wrote stays, but for a torn last line. */
qp_status batch_out_open(batch_out *out, const char *path, qp_error *err);
/* Has an earlier run written this item? */
bool batch_out_has(const batch_out *out, const batch_item *item);
/* What an item is known by: its id, else its index. */
void batch_key(char *key, size_t capacity, const char *id, uint64_t index);
qp_status batch_out_write(batch_out *out, const batch_item *item, qp_error *err);
qp_status batch_out_flush(batch_out *out, qp_error *err);
/* Brings a file that an earlier run had begun into the order of the input; `numbers`: the line's for each key. */
qp_status batch_out_sort(batch_out *out, const json_t *numbers, qp_error *err);
void batch_out_close(batch_out *out);

/* The command. */
qp_status batch_run(session *s, qp_error *err);

#endif
