/* load.h — from the common options to an open model or tokenizer. */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "command.h"

/* The folder of --model, else of the demo model beside the program (and says so). `out` has room for `capacity`. */
qp_status load_path(char *out, size_t capacity, session *s, qp_error *err);
/* Opens the model with the options of the command, `threads` (0: default), a progress bar, warnings on stderr. */
qp_status load_model(qp_model **out, session *s, int threads, qp_error *err);
/* The same for random weights of --shape and --format. */
/* See qp_plan_json; the caller frees the text. */
qp_status load_plan(char **json, session *s, const char *path, qp_error *err);
qp_status load_random(qp_model **out, session *s, int threads, qp_error *err);
/* Only the tokenizer: of the folder, or of a tokenizer.json itself. */
qp_status load_tokenizer(qp_tokenizer **out, session *s, qp_error *err);
qp_cache_type load_cache_type(const options *o);

enum { LOAD_ADAPTERS = 8 };

/* What --lora names. */
typedef struct adapter_list {
    qp_adapter_use uses[LOAD_ADAPTERS];
    size_t count;
} adapter_list;

qp_status load_adapters(adapter_list *out, const qp_model *model, const options *o, qp_error *err);
void load_close_adapters(adapter_list *list);

#endif
