/* api_plan.c — what a model would take of a device's memory, and what cache would fit beside it.
 *
 * Opens the device and looks at the model's headers; nothing is loaded. A device that reads the host's memory has no
 * plan: qp_inspect_json compares with the machine. */
#include "handles.h"
#include "base/mem.h"
#include "dev/kv_quant.h"

/* Tokens of each type of cache that the device has. */
static json_t *list_caches(const model *m) {
    json_t *rows = json_array();
    for (kv_type type = 0; type < KV_TYPES; type++) {
        const store_shape shape = seq_store_shape(&m->shape, type);
        size_t page;
        if (!(m->dev->kv_types >> type & 1) || !store_page_bytes(&shape, &page) || !page) continue;
        const uint64_t pages = memory_plan_pages(m->memory, &m->split, page);
        json_array_append_new(rows, json_pack("{s:s,s:I,s:I}", "type", kv_type_name(type), "page_bytes",
                                              (json_int_t)page, "tokens", (json_int_t)(pages * DEV_PAGE_TOKENS)));
    }
    return rows;
}

/* Weights that will not lie as the file has them. */
static json_t *list_unpacked(const model *m) {
    json_t *rows = json_array();
    for (quant_id id = 0; id < QUANT_COUNT; id++) {
        const memory_unpacked *of = &m->unpacked[id];
        if (of->bytes)
            json_array_append_new(rows, json_pack("{s:s,s:s,s:I,s:I}", "format", quant_type_of(id)->name, "as",
                                                  quant_type_of(of->as)->name, "file_bytes", (json_int_t)of->file_bytes,
                                                  "unpacked_bytes", (json_int_t)of->bytes));
    }
    return rows;
}

/* Each of several devices. */
static json_t *list_shares(const model *m) {
    json_t *rows = json_array();
    for (int i = 0; i < m->split.n; i++) {
        const memory_plan *p = &m->memory[i];
        json_array_append_new(rows, json_pack("{s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "device",
                                              m->split.dev[i]->name, "first_layer", m->split.first[i], "layers",
                                              m->split.first[i + 1] - m->split.first[i], "memory_bytes",
                                              (json_int_t)p->all, "left_bytes", (json_int_t)p->left, "weight_bytes",
                                              (json_int_t)p->weights, "scratch_bytes", (json_int_t)p->scratch,
                                              "reserve_bytes", (json_int_t)p->reserve, "cache_bytes",
                                              (json_int_t)memory_plan_cache(p), "fits", memory_plan_cache(p) > 0));
    }
    return rows;
}

static json_t *describe(const model *m) {
    memory_plan all = {0};
    bool fits = true;
    uint64_t cache = 0;
    char name[64];
    split_name(name, sizeof name, &m->split);
    if (!m->memory[0].all) return json_pack("{s:s,s:b}", "device", name, "has_own_memory", false);
    for (int i = 0; i < m->split.n; i++) {
        const memory_plan *p = &m->memory[i];
        all.all += p->all;
        all.left += p->left;
        all.weights += p->weights;
        all.scratch += p->scratch;
        all.reserve += p->reserve;
        cache += memory_plan_cache(p);
        fits = fits && memory_plan_cache(p) > 0;
    }
    json_t *document = json_pack("{s:s,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:o,s:o}", "device", name, "has_own_memory",
                                 true, "memory_bytes", (json_int_t)all.all, "left_bytes", (json_int_t)all.left,
                                 "weight_bytes", (json_int_t)all.weights, "scratch_bytes", (json_int_t)all.scratch,
                                 "reserve_bytes", (json_int_t)all.reserve, "cache_bytes", (json_int_t)cache, "fits",
                                 fits, "cache", list_caches(m), "unpacked", list_unpacked(m));
    if (document && m->split.n > 1) json_object_set_new(document, "devices", list_shares(m));
    return document;
}

qp_status qp_plan_json(char **json, const char *path, const qp_model_options *options, qp_error *err) {
    API_OPTIONS(qp_model_options, o, options);
    model_options inner;
    model *m;
    *json = NULL;
    if (!path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_plan_json: no path");
    ERR_TRY(api_model_options(&inner, &o, err));
    inner.plan_only = true;
    ERR_TRY(model_open(&m, path, &inner, err));
    json_t *document = describe(m);
    model_close(m);
    char *text = document ? json_dumps(document, JSON_INDENT(2)) : NULL;
    json_decref(document);
    if (text) *json = mem_copy_text(text, strlen(text));
    free(text);
    return *json ? QP_OK : err_no_memory(err, 0, "the plan");
}
