/* loader.h — loading and unloading models while the server runs, one at a time, on a thread of its own. */
#ifndef SERVER_LOADER_H
#define SERVER_LOADER_H

#include "adapters.h"
#include "models_impl.h"

typedef struct loader loader;

/* What to load and how; of zeros load_settings_complete makes what model folder and configuration say. */
typedef struct load_order {
    char id[256], path[4096];
    int64_t max_seq_len, cache_size, chunk_size, max_batch_size;
    qp_cache_type cache_type; /* QP_CACHE_DEFAULT: not given */
    double rope_scale, rope_alpha;
    char prompt_template[128];
    bool is_first;   /* at the start: all of the configuration counts */
    bool skip_queue; /* running jobs are cancelled instead of waited for */
    adapter_wish adapters[ADAPTERS_MOST];
    int n_adapters;
} load_order;

qp_status loader_new(loader **out, struct server *s, qp_error *err);
/* Waits for a load that runs. */
void loader_free(loader *l);

/* Begins to load in place of what is loaded. QP_BUSY: another model is being loaded; asked for the same one again, the
 * request is attached to that. `r` (may be NULL) is held, becomes a stream of progress, and is ended. */
qp_status loader_start(loader *l, const load_order *order, http_request *r, qp_error *err);
/* Begins to load for a request that named the model; its handler runs again when that is over, or it is answered with
 * the failure. While another load runs the request waits for that. */
qp_status loader_start_inline(loader *l, const load_order *order, http_request *r, qp_error *err);
/* The request's handler runs again when the load that runs is over. False: none runs. */
bool loader_park(loader *l, http_request *r);
/* Puts the order's adapters in the place of those in use; the request is answered with what became of each. QP_BUSY
 * while something is being loaded, QP_NO_FILE where there is no model. */
qp_status loader_start_adapters(loader *l, const load_order *order, http_request *r, qp_error *err);
/* Waits for the load that runs; its failure. */
qp_status loader_wait(loader *l, qp_error *err);
/* Whether the load at the start (is_first) is over; *status, *err: how it ended, whatever has been asked for since. */
bool loader_has_begun(loader *l, qp_status *status, qp_error *err);
/* Takes the loaded model away and frees it when its jobs have ended, or have been cancelled; the request is answered
 * with null then. QP_BUSY while one is being loaded, QP_NO_FILE where there is none. */
qp_status loader_start_unload(loader *l, bool skip_queue, http_request *r, qp_error *err);
/* Is a model being loaded? *share: how much is done, 0 to 1. */
bool loader_is_running(struct server *s, double *share);

#endif
