/* tok_goldens.h — for tests only: reads the reference's goldens and compares a tokenizer with them. */
#ifndef TEXT_TOK_GOLDENS_H
#define TEXT_TOK_GOLDENS_H

#include "base/json.h"
#include "base/mem.h"
#include "detok.h"
#include "tok.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define GOLDENS QUIPU_SOURCE "/tests/golden/tokenizers"

/* The text of FILE.xz, free()d by the caller; NULL if it cannot be read. */
static inline char *read_xz(const char *path, size_t *bytes) {
    char command[4200];
    if (access(path, R_OK)) return NULL;
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t capacity = 1 << 20, n = 0, got;
    char *text = malloc(capacity + 1);
    while ((got = fread(text + n, 1, capacity - n, f)) > 0) {
        n += got;
        if (n == capacity) text = realloc(text, (capacity *= 2) + 1);
    }
    assert_int_equal(pclose(f), 0);
    text[n] = 0;
    *bytes = n;
    return text;
}

static inline json_t *read_json_xz(const char *path) {
    size_t bytes;
    qp_error err;
    json_t *json = NULL;
    char *text = read_xz(path, &bytes);
    if (!text) return NULL;
    if (json_parse(&json, text, bytes, path, &err)) fail_msg("%s", err.text);
    free(text);
    return json;
}

static inline span text_of_json(const json_t *s) { return (span){json_string_value(s), json_string_length(s)}; }

static inline size_t ids_of_json(const json_t *list, int32_t **ids) {
    const size_t n = json_array_size(list);
    *ids = malloc((n + 1) * sizeof **ids);
    for (size_t i = 0; i < n; i++) (*ids)[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n;
}

static inline void print_ids(const char *what, const int32_t *ids, size_t n) {
    fprintf(stderr, "%s:", what);
    for (size_t i = 0; i < n && i < 60; i++) fprintf(stderr, " %d", ids[i]);
    fprintf(stderr, "\n");
}

/* wanted: a list of ids, or null where the reference refuses the text too. */
static inline void check_encode(const char *name, const tok *t, span text, unsigned flags, const json_t *wanted) {
    int32_t *ids, *want;
    size_t n;
    qp_error err;
    const qp_status status = tok_encode(t, text, flags, &ids, &n, &err);
    if (json_is_null(wanted)) {
        if (status == QP_OK) fail_msg("%s: \"%.*s\" must be refused", name, (int)text.bytes, text.at);
        return;
    }
    if (status != QP_OK) fail_msg("%s: \"%.*s\": %s", name, (int)text.bytes, text.at, err.text);
    const size_t n_want = ids_of_json(wanted, &want);
    if (n != n_want || memcmp(ids, want, n * sizeof *ids) != 0) {
        print_ids("got ", ids, n);
        print_ids("want", want, n_want);
        fail_msg("%s: encoding \"%.*s\" (flags %u)", name, (int)text.bytes, text.at, flags);
    }
    free(want);
    mem_free(ids);
}

static inline void check_decode(const char *name, const tok *t, const json_t *list, bool skip, const json_t *wanted) {
    int32_t *ids;
    const size_t n = ids_of_json(list, &ids);
    strbuf out = {0};
    assert_int_equal(tok_decode(t, ids, n, skip, &out, NULL), QP_OK);
    if (!span_equal((span){out.at, out.bytes}, text_of_json(wanted))) {
        print_ids("ids", ids, n);
        fail_msg("%s: decoded \"%.*s\", expected \"%s\"", name, (int)out.bytes, out.at ? out.at : "",
                 json_string_value(wanted));
    }
    strbuf_free(&out);
    free(ids);
}

/* The chunks are the reference's, and joined they are the whole text. */
static inline void check_stream(const char *name, const tok *t, const json_t *list, bool skip, const json_t *chunks) {
    int32_t *ids;
    const size_t n = ids_of_json(list, &ids);
    strbuf joined = {0}, whole = {0};
    detok *d;
    span text;
    assert_int_equal(detok_new(&d, t, skip, NULL), QP_OK);
    for (size_t i = 0; i < n; i++) {
        bool has_text;
        const json_t *want = json_array_get(chunks, i);
        assert_int_equal(detok_next(d, ids[i], &text, &has_text, NULL), QP_OK);
        if (has_text != json_is_string(want) || (has_text && !span_equal(text, text_of_json(want))))
            fail_msg("%s: chunk %zu of id %d is \"%.*s\", expected \"%s\"", name, i, ids[i], (int)text.bytes, text.at,
                     json_is_string(want) ? json_string_value(want) : "(none)");
        strbuf_add(&joined, text.at, text.bytes);
    }
    assert_int_equal(detok_flush(d, &text, NULL), QP_OK);
    strbuf_add(&joined, text.at, text.bytes);
    assert_int_equal(tok_decode(t, ids, n, skip, &whole, NULL), QP_OK);
    assert_int_equal(joined.bytes, whole.bytes);
    assert_memory_equal(joined.at ? joined.at : "", whole.at ? whole.at : "", whole.bytes);
    strbuf_free(&joined);
    strbuf_free(&whole);
    detok_free(d);
    free(ids);
}

#endif
