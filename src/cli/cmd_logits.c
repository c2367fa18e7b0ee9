/* cmd_logits.c — quipu logits: ids through the model in one forward pass, logits into a safetensors file. */
#include "input.h"
#include "load.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

typedef struct evaluation {
    qp_model_info info;
    input_ids ids;
    size_t positions; /* of which logits are wanted */
    float *logits;
    size_t n_logits;
    double seconds;
} evaluation;

static qp_status check_length(evaluation *e, session *s, qp_error *err) {
    const options *o = s->o;
    if (!e->ids.count) return err_set(err, QP_BAD_ARGUMENT, 0, "no ids: at least one is needed");
    if (o->context && e->ids.count > (size_t)o->context)
        return err_set(err, QP_TOO_LARGE, (uint64_t)o->context, "%zu ids, --context is %lld", e->ids.count,
                       (long long)o->context);
    if (e->ids.count > (size_t)e->info.trained_context && !s->term.quiet)
        fprintf(stderr, "%zu ids; the model was trained for %d\n", e->ids.count, e->info.trained_context);
    if (o->last > (int64_t)e->ids.count)
        return err_set(err, QP_BAD_ARGUMENT, 0, "--last: found %lld, there are %zu positions", (long long)o->last,
                       e->ids.count);
    e->positions = o->last ? (size_t)o->last : e->ids.count;
    if (!mem_mul(e->positions, (size_t)e->info.vocabulary, &e->n_logits))
        return err_set(err, QP_TOO_LARGE, 0, "logits of %zu positions do not fit into memory", e->positions);
    e->logits = mem_array(e->n_logits, sizeof *e->logits);
    return e->logits ? QP_OK : err_no_memory(err, e->n_logits * sizeof *e->logits, "the logits");
}

static qp_status forward(evaluation *e, session *s, const qp_model *model, qp_error *err) {
    qp_sequence *sequence;
    const int32_t *ids = e->ids.at;
    ERR_TRY(qp_sequence_new(&sequence, model, e->ids.count, load_cache_type(s->o), err));
    adapter_list adapters;
    qp_status status = load_adapters(&adapters, model, s->o, err);
    if (status == QP_OK) status = qp_sequence_set_adapters(sequence, adapters.uses, adapters.count, err);
    const double start = clock_now();
    if (status == QP_OK) status = qp_forward(&sequence, &ids, &e->ids.count, &e->positions, 1, e->logits, err);
    e->seconds = clock_now() - start;
    load_close_adapters(&adapters);
    qp_sequence_free(sequence);
    return status;
}

static qp_status write_logits(const evaluation *e, const char *path, qp_error *err) {
    const int64_t shape[] = {(int64_t)e->positions, e->info.vocabulary};
    const qp_tensor tensor = {"logits", "F32", 2, shape, e->logits};
    return qp_tensors_write(path, &tensor, 1, err);
}

static void print_answer(const evaluation *e, const session *s) {
    const unsigned long long hash = hash_bytes(e->logits, e->n_logits * sizeof *e->logits, 0);
    const double speed = e->seconds > 0 ? (double)e->ids.count / e->seconds : 0;
    if (s->o->json) {
        strbuf path = {0};
        strbuf_json(&path, s->o->output, strlen(s->o->output));
        printf("{\"output\": %s, \"shape\": [%zu, %d], \"tokens\": %zu, \"hash\": \"%016llx\", ",
               path.at ? path.at : "\"\"", e->positions, e->info.vocabulary, e->ids.count, hash);
        printf("\"seconds\": %.9g, \"tok_s\": %.9g}\n", e->seconds, speed);
        strbuf_free(&path);
    } else if (!s->term.quiet)
        fprintf(stderr, "%s: logits [%zu, %d], hash %016llx; %zu tokens, %.1f tok/s\n", s->o->output, e->positions,
                e->info.vocabulary, hash, e->ids.count, speed);
}

static qp_status evaluate(evaluation *e, session *s, const qp_model *model, qp_error *err) {
    qp_model_get_info(model, &e->info);
    ERR_TRY(input_load_ids(&e->ids, s, s->o->ids, e->info.vocabulary, err));
    ERR_TRY(check_length(e, s, err));
    ERR_TRY(forward(e, s, model, err));
    ERR_TRY(write_logits(e, s->o->output, err));
    print_answer(e, s);
    return QP_OK;
}

qp_status cmd_logits(session *s, qp_error *err) {
    if (!s->o->output) return session_usage(s, err, "'logits' needs -o FILE, the safetensors file to write");
    qp_model *model;
    evaluation e = {.logits = NULL};
    ERR_TRY(load_model(&model, s, (int)s->o->threads, err));
    const qp_status status = evaluate(&e, s, model, err);
    mem_free(e.logits);
    input_free_ids(&e.ids);
    qp_model_close(model);
    return status;
}
