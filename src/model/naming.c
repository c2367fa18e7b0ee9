/* naming.c — checkpoints of models that also see or hear keep their text model under a prefix, and some checkpoints
 * leave out the "model." that others have: both are found once and translated.
 *
 * Called by tensors.c for every tensor that is asked for and by arch_table.c for every tensor that is there. */
#include "naming.h"
#include <stdio.h>
#include <string.h>

static const naming ways[] = {
    {"", ""},
    {"language_model.", ""},             /* transformers 4.x: language_model.model.layers, language_model.lm_head */
    {"model.language_model.", "model."}, /* 5.x: model.language_model.layers, lm_head */
    {"model.text_model.", "model."},     /* SmolVLM: model.text_model.layers, lm_head */
    {"", "model."},                      /* a base model: layers, embed_tokens */
    {"", "transformer."},                /* GPT-2: h, wte */
};

enum { N_WAYS = sizeof ways / sizeof *ways };

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

qp_status names_stored(char *out, size_t capacity, naming how, const char *name, qp_error *err) {
    const bool applies = begins(name, how.instead);
    const int n = applies ? snprintf(out, capacity, "%s%s", how.prefix, name + strlen(how.instead))
                          : snprintf(out, capacity, "%s", name);
    if (n >= 0 && (size_t)n < capacity) return QP_OK;
    return err_set(err, QP_TOO_LARGE, 0, "%s: the tensor's name is longer than %zu bytes", name, capacity - 1);
}

bool names_plain(char *out, size_t capacity, naming how, const char *stored) {
    const bool applies = begins(stored, how.prefix);
    const char *rest = applies ? stored + strlen(how.prefix) : stored;
    const int n =
        snprintf(out, capacity, "%s%s", applies && (*how.prefix || !begins(rest, "lm_head")) ? how.instead : "", rest);
    return n >= 0 && (size_t)n < capacity;
}

static const char *embedding_of(const arch_row *row) {
    for (const slot_row *r = row->slots; r->pattern; r++)
        if (r->slot == SLOT_EMBED) return r->pattern;
    return "";
}

naming naming_find(const checkpoint *c, const arch_row *row) {
    for (int i = 0; i < N_WAYS; i++) {
        char name[CKPT_MAX_NAME];
        if (names_stored(name, sizeof name, ways[i], embedding_of(row), NULL) == QP_OK && checkpoint_find(c, name))
            return ways[i];
    }
    return ways[0];
}
