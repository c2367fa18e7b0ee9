/* api_eval.c — sequences driven by the caller, and writing what comes out of them. */
#include "handles.h"
#include "base/mem.h"
#include "format/safetensors.h"

/* Shared by the sequences of one qp_sequences_new call; freed with the last. */
typedef struct shared_room {
    seq_room room;
    int n_users;
} shared_room;

struct qp_sequence {
    seq seq;
    shared_room *shared;
};

static void drop_adapters(qp_sequence *s) {
    for (int i = 0; i < s->seq.adapters.n; i++) lora_close(s->seq.adapters.adapters[i]);
    s->seq.adapters.n = 0;
}

void qp_sequence_free(qp_sequence *s) {
    if (!s) return;
    drop_adapters(s);
    seq_close(&s->seq);
    if (!--s->shared->n_users) {
        seq_room_close(&s->shared->room);
        mem_free(s->shared);
    }
    mem_free(s);
}

static qp_status open_room(shared_room **out, const qp_model *m, int count, uint64_t capacity, qp_cache_type type,
                           qp_error *err) {
    const uint64_t pages = capacity / DEV_PAGE_TOKENS + (capacity % DEV_PAGE_TOKENS != 0);
    size_t tokens;
    if (!mem_mul((size_t)count * DEV_PAGE_TOKENS, pages, &tokens)) tokens = SIZE_MAX;
    *out = MEM_NEW(shared_room);
    if (!*out) return err_no_memory(err, sizeof **out, "a cache");
    const qp_status status = seq_room_open(&(*out)->room, m->model, tokens, type, err);
    if (status != QP_OK) mem_free(*out);
    return status;
}

qp_status qp_sequences_new(qp_sequence **out, int count, const qp_model *m, uint64_t capacity_tokens,
                           qp_cache_type type, qp_error *err) {
    shared_room *shared;
    if (count < 1 || count > MODEL_MAX_ROWS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%d sequences, allowed are 1 to %d", count, MODEL_MAX_ROWS);
    for (int i = 0; i < count; i++) out[i] = NULL;
    if (!qp_cache_type_name(type)) return err_set(err, QP_BAD_ARGUMENT, 0, "cache type %d: there is none", (int)type);
    ERR_TRY(open_room(&shared, m, count, capacity_tokens, type, err));
    shared->n_users = 1; /* this function, until all are made */
    qp_status status = QP_OK;
    for (int i = 0; i < count && status == QP_OK; i++) {
        out[i] = MEM_NEW(qp_sequence);
        if (!out[i])
            status = err_no_memory(err, sizeof **out, "a sequence");
        else {
            out[i]->shared = shared;
            shared->n_users++;
            seq_open(&out[i]->seq, &shared->room);
        }
    }
    for (int i = 0; i < count && status != QP_OK; i++) {
        qp_sequence_free(out[i]);
        out[i] = NULL;
    }
    if (!--shared->n_users) {
        seq_room_close(&shared->room);
        mem_free(shared);
    }
    return status;
}

qp_status qp_sequence_new(qp_sequence **out, const qp_model *m, uint64_t capacity_tokens, qp_cache_type type,
                          qp_error *err) {
    return qp_sequences_new(out, 1, m, capacity_tokens, type, err);
}

qp_status qp_sequence_set_adapters(qp_sequence *s, const qp_adapter_use *uses, size_t count, qp_error *err) {
    lora_set set;
    if (s->seq.chain.length)
        return err_set(err, QP_BAD_ARGUMENT, 0, "the sequence has %lld tokens already, adapters are for empty ones",
                       (long long)s->seq.chain.length);
    ERR_TRY(api_adapters(&set, s->shared->room.model, uses, count, err));
    for (int i = 0; i < set.n; i++) lora_hold(set.adapters[i]);
    drop_adapters(s);
    s->seq.adapters = set;
    return QP_OK;
}

uint64_t qp_sequence_length(const qp_sequence *s) { return (uint64_t)s->seq.chain.length; }

qp_status qp_sequence_rewind(qp_sequence *s, uint64_t length, qp_error *err) {
    if (length > (uint64_t)s->seq.chain.length)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rewind to %llu: the sequence has %lld tokens",
                       (unsigned long long)length, (long long)s->seq.chain.length);
    seq_rewind(&s->seq, (int64_t)length);
    return QP_OK;
}

static qp_status check_sequences(qp_sequence *const *sequences, int n, qp_error *err) {
    for (int i = 0; i < n; i++) {
        if (sequences[i]->shared != sequences[0]->shared)
            return err_set(err, QP_BAD_ARGUMENT, 0, "sequence %d was not made together with the first", i + 1);
        for (int k = 0; k < i; k++)
            if (sequences[k] == sequences[i])
                return err_set(err, QP_BAD_ARGUMENT, 0, "sequence %d is given twice", i + 1);
    }
    return QP_OK;
}

qp_status qp_forward(qp_sequence *const *sequences, const int32_t *const *ids, const size_t *counts,
                     const size_t *lasts, int n_sequences, float *logits, qp_error *err) {
    if (n_sequences < 1 || n_sequences > MODEL_MAX_ROWS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%d sequences, allowed are 1 to %d", n_sequences, MODEL_MAX_ROWS);
    ERR_TRY(check_sequences(sequences, n_sequences, err));
    seq_feed *feeds = mem_zarray((size_t)n_sequences, sizeof *feeds);
    if (!feeds) return err_no_memory(err, 0, "a step");
    for (int i = 0; i < n_sequences; i++)
        feeds[i] = (seq_feed){&sequences[i]->seq, ids[i], counts[i], lasts ? lasts[i] : 0, 0};
    const qp_status status = seq_run(feeds, n_sequences, logits, err);
    mem_free(feeds);
    return status;
}

qp_status qp_forward_best(qp_sequence *const *sequences, int32_t *ids, int n_sequences, qp_error *err) {
    if (n_sequences < 1) return err_set(err, QP_BAD_ARGUMENT, 0, "%d sequences, allowed are 1 and more", n_sequences);
    ERR_TRY(check_sequences(sequences, n_sequences, err));
    const int most = sequences[0]->shared->room.model->forward.max_rows;
    if (n_sequences > most)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%d sequences, a step of this model takes %d", n_sequences, most);
    seq **list = mem_array((size_t)n_sequences, sizeof *list);
    if (!list) return err_no_memory(err, 0, "a step");
    for (int i = 0; i < n_sequences; i++) list[i] = &sequences[i]->seq;
    const qp_status status = seq_run_best(list, ids, n_sequences, err);
    mem_free(list);
    return status;
}

qp_status qp_tensors_write(const char *path, const qp_tensor *tensors, size_t count, qp_error *err) {
    safetensors_item *items = mem_zarray(count, sizeof *items);
    if (!items) return err_no_memory(err, count * sizeof *items, "a list of tensors");
    qp_status status = QP_OK;
    for (size_t i = 0; i < count && status == QP_OK; i++) {
        const qp_tensor *t = &tensors[i];
        items[i] = (safetensors_item){.name = t->name, .rank = t->rank, .shape = t->shape, .data = t->data};
        if (!dtype_find(&items[i].type, t->dtype, strlen(t->dtype)))
            status = err_set(err, QP_BAD_ARGUMENT, i, "%s: \"%s\" is no type of safetensors", t->name, t->dtype);
    }
    if (status == QP_OK) status = safetensors_write(path, items, count, NULL, err);
    mem_free(items);
    return status;
}
