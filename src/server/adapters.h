/* adapters.h — the LoRA adapters that are loaded beside the model, and which of them a request is computed with.
 *
 * Loaded ones work for every request, unless it names one of them as its model, or lists in `lora` what it wants. */
#ifndef SERVER_ADAPTERS_H
#define SERVER_ADAPTERS_H

#include "field.h"
#include "models.h"

enum { ADAPTERS_MOST = 8, ADAPTERS_NAME = 128 };

/* What is to be loaded. */
typedef struct adapter_wish {
    char name[ADAPTERS_NAME];
    float scale;
} adapter_wish;

typedef struct adapter_item {
    char name[ADAPTERS_NAME];
    float scale;
    int64_t created; /* seconds since 1970 */
    qp_adapter *adapter;
} adapter_item;

/* Immutable; jobs that run keep what they need of it by themselves. */
typedef struct adapter_set {
    atomic_int users;
    int n;
    adapter_item items[ADAPTERS_MOST];
} adapter_set;

/* With one use, empty. NULL when memory is short. */
adapter_set *adapters_new(void);
/* Opens one more, out of the configured folder. */
qp_status adapters_add(adapter_set *set, const model_slot *m, const adapter_wish *wish, qp_error *err);
/* Those in use, held; NULL: none. */
adapter_set *adapters_take(model_slot *m);
void adapters_drop(adapter_set *set);
/* Puts it in the place of those in use; taken, NULL: none. Running jobs go on with theirs. */
void adapters_put(model_slot *m, adapter_set *fresh);
bool adapters_has(model_slot *m, const char *name);
/* "NAME" or "NAME:SCALE" of the configuration. */
qp_status adapters_read_wish(adapter_wish *out, const char *text, qp_error *err);

/* What one request is computed with. */
typedef struct adapter_choice {
    adapter_set *set; /* held */
    qp_adapter_use uses[ADAPTERS_MOST];
    size_t n;
    const char *named; /* the adapter that the request named as its model; NULL: none */
} adapter_choice;

/* lora: the request's list, or NULL. adapters_let_go is owed in any case. */
bool adapters_choose(adapter_choice *out, model_slot *m, const char *model_name, const json_t *lora, refusal *why);
void adapters_let_go(adapter_choice *choice);

#endif
