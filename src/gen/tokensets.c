/* tokensets.c — sets of tokens as bits, made once per generator from the vocabulary's texts.
 *
 * Called by api/ when jobs are made. The sets are those of specs for DRY and XTC in ExLlamaV2. */
#include "tokensets.h"
#include "base/mem.h"

static bool has_any(span text, const char *characters) {
    for (size_t i = 0; i < text.bytes; i++)
        if (text.at[i] && strchr(characters, text.at[i])) return true;
    return false;
}

static void put(uint32_t *set, int32_t id) { set[id / 32] |= 1u << (id % 32); }

qp_status token_sets_open(token_sets *out, const tok *t, int vocabulary, qp_error *err) {
    const size_t words = ((size_t)vocabulary + 31) / 32;
    *out = (token_sets){mem_zarray(words, sizeof(uint32_t)), mem_zarray(words, sizeof(uint32_t))};
    if (!out->dry_breakers || !out->xtc_keep) {
        token_sets_close(out);
        return err_no_memory(err, 2 * words * sizeof(uint32_t), "sets of tokens");
    }
    for (int32_t id = 0; t && id < vocabulary && id < tok_size(t); id++) {
        const span text = tok_bytes(t, id);
        const bool is_special = tok_is_special(t, id);
        if (is_special || has_any(text, ".,!?<>[](){}\n\t\"`")) put(out->dry_breakers, id);
        if (is_special || has_any(text, "\n")) put(out->xtc_keep, id);
    }
    return QP_OK;
}

void token_sets_close(token_sets *s) {
    mem_free(s->dry_breakers);
    mem_free(s->xtc_keep);
    *s = (token_sets){0};
}

qp_status token_set_of(uint32_t **out, const int32_t *ids, size_t n, int vocabulary, const char *what, qp_error *err) {
    const size_t words = ((size_t)vocabulary + 31) / 32;
    *out = mem_zarray(words, sizeof **out);
    if (!*out) return err_no_memory(err, words * sizeof **out, what);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < vocabulary) {
            put(*out, ids[i]);
            continue;
        }
        mem_free(*out);
        *out = NULL;
        return err_set(err, QP_BAD_ARGUMENT, i, "%s %zu is token %d, the vocabulary has the ids 0 to %d", what, i + 1,
                       ids[i], vocabulary - 1);
    }
    return QP_OK;
}
