/* embedding_fields.c — the body of a request for vectors: its texts as token ids, and how it wants the numbers.
 *
 * Called by embeddings.c. Texts get the tokens around them that the tokenizer adds, as the model saw them in training;
 * ids are taken as they are. */
#include "embedding_fields.h"
#include "base/mem.h"
#include <stddef.h>
#include <stdio.h>

enum { MOST_TEXTS = 2048, LLAMACPP_NORM = 2 }; /* its number of the Euclidean norm */

typedef struct wishes {
    const json_t *input, *lora;
    span format;
    int64_t dimensions, norm;
    double timeout;
} wishes;

#define AT(member) offsetof(wishes, member)

const field_row embedding_rows[] = {
    {"input|content|prompt", FIELD_JSON, 0, 0, 0, AT(input), 0,
     "A text, an array of texts, an array of token ids, or an array of such arrays."},
    {"encoding_format", FIELD_TEXT, 0, 0, 0, AT(format), 0, "float or base64 (of little-endian 32-bit floats)."},
    {"dimensions", FIELD_INT, 1, 1 << 20, 0, AT(dimensions), 0, "Keep the first so many numbers, of length 1 again."},
    {"embd_normalize", FIELD_INT, -1, 1 << 20, LLAMACPP_NORM, AT(norm), 0, "llama.cpp's: 2 (Euclidean) alone."},
    {"timeout", FIELD_REAL, 0, 1e6, 0, AT(timeout), 0, "Seconds that each group of texts may take; 0: no limit."},
    {"lora", FIELD_JSON, 0, 0, 0, AT(lora), 0, "Adapters of this request alone: [{name or id, scale}]."},
    {"user", FIELD_NONE, 0, 0, 0, 0, 0, "Accepted and ignored."},
    {"model", FIELD_NONE, 0, 0, 0, 0, 0, "Name of the loaded model, or anything."},
};
const size_t embedding_row_count = sizeof embedding_rows / sizeof *embedding_rows;

void embedding_ask_free(embedding_ask *a) {
    for (size_t i = 0; a->texts && i < a->n; i++) qp_free(a->texts[i].ids);
    arena_free(&a->memory);
}

static bool add_text(embedding_ask *a, const json_t *value, const char *place, const model_slot *m, refusal *why) {
    embedding_text *t = &a->texts[a->n];
    qp_error err = {0};
    const qp_status status =
        qp_tokenize(m->tokenizer, json_string_value(value), json_string_length(value), 0, &t->ids, &t->n_ids, &err);
    if (status != QP_OK) return refuse_status(why, status, place, &err);
    a->n++;
    return t->n_ids || refuse(why, FAULT_BAD_REQUEST, place, "%s: the text makes no token", place);
}

static bool add_ids(embedding_ask *a, const json_t *list, const char *place, const model_slot *m, refusal *why) {
    embedding_text *t = &a->texts[a->n];
    field_ids ids;
    if (!field_take_ids(&ids, list, place, 0, m->info.vocabulary - 1, &a->memory, why)) return false;
    if (!ids.count) return refuse(why, FAULT_BAD_REQUEST, place, "%s: the array is empty", place);
    t->ids = mem_copy(ids.at, ids.count, sizeof *ids.at);
    t->n_ids = ids.count;
    a->n++;
    return t->ids || refuse_memory(why, place);
}

/* What kind of thing the array holds is what its first item is. */
static bool add_each(embedding_ask *a, const json_t *list, const model_slot *m, refusal *why) {
    const bool has_texts = json_is_string(json_array_get(list, 0));
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        char place[40];
        snprintf(place, sizeof place, "input[%zu]", i);
        if (has_texts ? !json_is_string(item) : !json_is_array(item))
            return field_wrong_kind(why, place, item, has_texts ? "a string, like the first one" : "an array of ids");
        if (has_texts ? !add_text(a, item, place, m, why) : !add_ids(a, item, place, m, why)) return false;
    }
    return true;
}

static bool read_input(embedding_ask *a, const json_t *input, const model_slot *m, refusal *why) {
    const size_t n = json_array_size(input);
    const bool is_many = n && !json_is_number(json_array_get(input, 0));
    if (!input) return refuse(why, FAULT_BAD_REQUEST, "input", "input: missing");
    if (!json_is_string(input) && !json_is_array(input))
        return field_wrong_kind(why, "input", input, "a string, an array of strings or an array of token ids");
    if (is_many && n > MOST_TEXTS)
        return refuse(why, FAULT_BAD_REQUEST, "input", "input: found %zu texts, allowed are %d", n, MOST_TEXTS);
    a->texts = arena_zget(&a->memory, is_many ? n : 1, sizeof *a->texts);
    if (!a->texts) return refuse_memory(why, "input");
    if (json_is_string(input)) return add_text(a, input, "input", m, why);
    return is_many ? add_each(a, input, m, why) : add_ids(a, input, "input", m, why);
}

bool embedding_ask_read(embedding_ask *a, const json_t *body, bool is_llamacpp, const model_slot *m, refusal *why) {
    wishes w = {0};
    *a = (embedding_ask){.is_llamacpp = is_llamacpp};
    if (!field_read(&w, embedding_rows, embedding_row_count, body, &a->memory, NULL, why)) return false;
    a->is_base64 = w.format.at && span_is(w.format, "base64");
    if (w.format.at && !a->is_base64 && !span_is(w.format, "float"))
        return refuse(why, FAULT_BAD_REQUEST, "encoding_format",
                      "encoding_format: found \"%.40s\", allowed are float and base64", w.format.at);
    if (w.norm != LLAMACPP_NORM)
        return refuse(why, FAULT_PARAMETER, "embd_normalize",
                      "embd_normalize: found %lld, this server's vectors have the Euclidean length 1, which is 2",
                      (long long)w.norm);
    a->dimensions = (size_t)w.dimensions;
    a->timeout = w.timeout;
    a->lora = w.lora;
    return read_input(a, w.input, m, why);
}
