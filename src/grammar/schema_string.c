/* schema_string.c — sets of strings: lists of words and regular languages of spelled text. */
#include "schema_string.h"
#include <stdlib.h>

string_set string_all(const spelling *s) { return (string_set){.text = s->any_text}; }
string_set string_none(void) { return (string_set){.is_words = true}; }
string_set string_text(rx text) { return (string_set){.text = text}; }

static int compare(span a, span b) {
    const size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = common ? memcmp(a.at, b.at, common) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int by_bytes(const void *a, const void *b) {
    const string_word *x = a, *y = b;
    const int order = compare(x->text, y->text);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_text(const void *a, const void *b) {
    return compare(((const string_word *)a)->text, ((const string_word *)b)->text);
}

/* Sorts, and keeps the first of equal ones. */
static string_set sorted(string_word *list, size_t n) {
    if (n > 1) qsort(list, n, sizeof *list, by_bytes);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || compare(list[kept - 1].text, list[i].text)) list[kept++] = list[i];
    return (string_set){.words = list, .n = kept, .is_words = true};
}

string_set string_words(const spelling *s, const span *words, size_t n) {
    string_word *list = room_get(s->room, n, sizeof *list);
    if (!list) return string_none();
    for (size_t i = 0; i < n; i++) list[i] = (string_word){words[i], (uint32_t)i};
    return sorted(list, n);
}

bool string_is_all(const spelling *s, string_set a) { return !a.is_words && a.text == s->any_text; }

bool string_has(const spelling *s, string_set a, span word) {
    const string_word wanted = {.text = word};
    if (a.is_words) return a.n && bsearch(&wanted, a.words, a.n, sizeof wanted, by_text);
    if (string_is_all(s, a)) return true;
    strbuf spelled = {0};
    spelling_write(&spelled, word);
    s->room->failed |= spelled.failed;
    const bool has =
        !spelled.failed && rx_matches(s->pool, a.text, (span){spelled.at ? spelled.at : "", spelled.bytes});
    strbuf_free(&spelled);
    return has;
}

/* The words of `a` that are (or, with `keep` false, are not) in `b`. */
static string_set filter(const spelling *s, string_set a, string_set b, bool keep) {
    string_word *list = room_get(s->room, a.n, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; list && i < a.n; i++)
        if (string_has(s, b, a.words[i].text) == keep) list[n++] = a.words[i];
    return (string_set){.words = list, .n = n, .is_words = true};
}

rx string_language(const spelling *s, string_set a) {
    if (!a.is_words) return a.text;
    rx out = RX_NONE;
    rx *parts = room_get(s->room, a.n, sizeof *parts);
    for (size_t i = 0; parts && i < a.n; i++) parts[i] = spelling_word(s, a.words[i].text);
    if (parts && a.n) out = rx_or_n(s->pool, parts, a.n);
    return out;
}

string_set string_and(const spelling *s, string_set a, string_set b) {
    if (string_is_all(s, b)) return a;
    if (string_is_all(s, a)) return b;
    if (a.is_words) return filter(s, a, b, true);
    if (b.is_words) return filter(s, b, a, true);
    return string_text(rx_and(s->pool, a.text, b.text));
}

string_set string_or(const spelling *s, string_set a, string_set b) {
    if (string_is_all(s, a) || (b.is_words && !b.n)) return a;
    if (string_is_all(s, b) || (a.is_words && !a.n)) return b;
    if (!a.is_words || !b.is_words) return string_text(rx_or(s->pool, string_language(s, a), string_language(s, b)));
    string_word *both = room_get(s->room, a.n + b.n, sizeof *both);
    if (!both) return a;
    memcpy(both, a.words, a.n * sizeof *both);
    memcpy(both + a.n, b.words, b.n * sizeof *both);
    return sorted(both, a.n + b.n);
}

string_set string_minus(const spelling *s, string_set a, string_set b) {
    if (string_is_all(s, b)) return string_none();
    if (a.is_words) return filter(s, a, b, false);
    return string_text(rx_minus(s->pool, a.text, string_language(s, b)));
}

bool string_has_any(const spelling *s, string_set a) { return a.is_words ? a.n > 0 : rx_has_word(s->pool, a.text); }

rx string_write(const spelling *s, string_set a) {
    if (!a.is_words) return a.text;
    span *spelled = room_get(s->room, a.n, sizeof *spelled);
    strbuf text = {0};
    bool ok = spelled != NULL;
    for (size_t i = 0; ok && i < a.n; i++) {
        strbuf_clear(&text);
        spelling_write(&text, a.words[i].text);
        char *copy = text.failed ? NULL : arena_text(&s->room->memory, text.at ? text.at : "", text.bytes);
        ok = copy != NULL;
        spelled[i] = (span){copy, text.bytes};
    }
    strbuf_free(&text);
    s->room->failed |= !ok;
    return ok ? rx_words(s->pool, spelled, a.n) : RX_NONE;
}
