/* ir.c — the intermediate form: symbols found or made, rules with their alternatives, and the report.
 *
 * Everything but named rules is hash-consed by a key of 32-bit words (tag, numbers, list), kept beside the symbol. The
 * first failure (memory, a limit) is kept and everything after it answers IR_NOTHING. */
#include "ir.h"
#include "base/hash.h"
#include "base/mem.h"
#include <stdio.h>

enum { SYMBOL_LIMIT = 500000, RULE_LIMIT = 200000, ENTRY_LIMIT = 4096 };
enum { KEY_TERMINAL = 1, KEY_LAZY, KEY_SPECIAL, KEY_SEQUENCE, KEY_CHOICE, KEY_REPEAT, KEY_ANY_ORDER };

typedef struct alternative {
    uint32_t first, n; /* in words */
} alternative;

typedef struct symbol {
    ir_kind kind;
    bool lazy;
    const char *name;
    rx language;
    uint32_t key, n_key; /* in words; n_key == 0: not hash-consed */
    uint32_t list, n;    /* in words: ids, members, the repeated one */
    ir_sym separator;
    uint32_t min, max;
    uint64_t required;
    alternative *alternatives;
    uint32_t n_alternatives, room;
} symbol;

typedef struct need {
    ir_sym symbol;
    const char *name;
    struct need *before;
} need;

struct ir {
    rx_pool *pool;
    ir_limits limits;
    arena text;
    symbol *symbols;
    uint32_t *words, *table;
    uint32_t n_symbols, n_words, n_rules;
    uint32_t symbol_room, word_room, table_room;
    ir_entry *entries;
    uint32_t n_entries, entry_room, n_problems;
    ir_sym start;
    need *needs; /* the last one */
    rx skip;
    bool fuse;
    qp_status failed;
    char why[96];
};

static ir_sym fail(ir *g, qp_status status, const char *what, size_t limit) {
    if (g->failed == QP_OK) {
        g->failed = status;
        snprintf(g->why, sizeof g->why, "grammar: %s: over %zu", what, limit);
    }
    return IR_NOTHING;
}

static bool make_room(ir *g, void *array, uint32_t *room, uint32_t used, size_t more, size_t size) {
    if (g->failed != QP_OK) return false;
    if (more <= *room - used) return true;
    size_t wanted = *room ? (size_t)*room * 2 : 16;
    while (wanted - used < more) wanted *= 2;
    void *old, *fresh;
    memcpy(&old, array, sizeof old);
    fresh = wanted < UINT32_MAX / 2 ? mem_resize(old, wanted, size) : NULL;
    if (!fresh) return fail(g, QP_NO_MEMORY, "out of memory", wanted), false;
    memcpy(array, &fresh, sizeof fresh);
    *room = (uint32_t)wanted;
    return true;
}

static const char *keep_text(ir *g, const char *text) {
    if (!text) return NULL;
    const char *kept = arena_text(&g->text, text, strlen(text));
    if (!kept) fail(g, QP_NO_MEMORY, "out of memory", strlen(text));
    return kept;
}

static uint32_t keep_words(ir *g, const uint32_t *words, size_t n) {
    if (!make_room(g, &g->words, &g->word_room, g->n_words, n, sizeof *g->words)) return 0;
    if (n) memcpy(g->words + g->n_words, words, n * sizeof *words);
    g->n_words += (uint32_t)n;
    return g->n_words - (uint32_t)n;
}

/* Work counts with that of the pool, whose failure is then the whole grammar's. */
static bool step(ir *g) {
    if (rx_step(g->pool, 1)) return true;
    qp_error why;
    if (g->failed == QP_OK) g->failed = rx_status(g->pool, &why), snprintf(g->why, sizeof g->why, "%s", why.text);
    return false;
}

static ir_sym add_symbol(ir *g, const symbol *s) {
    if (!step(g)) return IR_NOTHING;
    if (g->n_symbols >= g->limits.symbols) return fail(g, QP_TOO_LARGE, "symbols", g->limits.symbols);
    if (!make_room(g, &g->symbols, &g->symbol_room, g->n_symbols, 1, sizeof *g->symbols)) return IR_NOTHING;
    g->symbols[g->n_symbols] = *s;
    return g->n_symbols++;
}

/* ---- the table of equal symbols ---- */

static bool grow_table(ir *g) {
    if ((g->n_symbols + 1) * 2 < g->table_room) return true;
    const uint32_t room = g->table_room ? g->table_room * 2 : 64;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return fail(g, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = 0; i < g->n_symbols; i++) {
        const symbol *s = &g->symbols[i];
        if (!s->n_key) continue;
        uint32_t at = (uint32_t)hash_bytes(g->words + s->key, s->n_key * sizeof *g->words, 0) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(g->table);
    g->table = table;
    g->table_room = room;
    return true;
}

/* Where the key's symbol is, or a free place for it; NULL: no memory. */
static uint32_t *find_place(ir *g, const uint32_t *key, size_t n) {
    if (g->failed != QP_OK || !grow_table(g)) return NULL;
    uint32_t at = (uint32_t)hash_bytes(key, n * sizeof *key, 0) & (g->table_room - 1);
    for (; g->table[at]; at = (at + 1) & (g->table_room - 1)) {
        const symbol *s = &g->symbols[g->table[at] - 1];
        if (s->n_key == n && !memcmp(g->words + s->key, key, n * sizeof *key)) break;
    }
    return &g->table[at];
}

/* The symbol with this key, or `fresh` added under it; *is_new tells. fresh->list is set to where the key's list of
 * fresh->n words begins. */
static ir_sym intern(ir *g, symbol *fresh, const uint32_t *head, size_t n_head, const uint32_t *list, size_t n,
                     bool *is_new) {
    uint32_t few[64], *key = few;
    *is_new = false;
    if (n > UINT32_MAX / 8) return fail(g, QP_TOO_LARGE, "symbols", g->limits.symbols);
    if (n_head + n > 64) key = mem_array(n_head + n, sizeof *key);
    if (!key) return fail(g, QP_NO_MEMORY, "out of memory", n);
    memcpy(key, head, n_head * sizeof *key);
    if (n) memcpy(key + n_head, list, n * sizeof *key);
    uint32_t *const place = find_place(g, key, n_head + n);
    ir_sym found = place && *place ? *place - 1 : IR_NOTHING;
    if (place && !*place) {
        fresh->key = keep_words(g, key, n_head + n);
        fresh->n_key = (uint32_t)(n_head + n);
        fresh->list = fresh->key + (uint32_t)n_head;
        fresh->n = (uint32_t)n;
        found = add_symbol(g, fresh);
        *is_new = g->failed == QP_OK;
        if (*is_new) *place = found + 1;
    }
    if (key != few) mem_free(key);
    return g->failed == QP_OK ? found : IR_NOTHING;
}

/* ---- life ---- */

static void close_ir(ir *g) {
    for (uint32_t i = 0; i < g->n_symbols; i++) mem_free(g->symbols[i].alternatives);
    mem_free(g->symbols);
    mem_free(g->words);
    mem_free(g->table);
    mem_free(g->entries);
    arena_free(&g->text);
    rx_pool_free(g->pool);
    mem_free(g);
}

qp_status ir_new(ir **out, const ir_limits *limits, qp_error *err) {
    *out = NULL;
    ir *g = MEM_NEW(ir);
    if (!g) return err_no_memory(err, sizeof *g, "grammar");
    if (limits) g->limits = *limits;
    if (!g->limits.symbols) g->limits.symbols = SYMBOL_LIMIT;
    if (!g->limits.rules) g->limits.rules = RULE_LIMIT;
    qp_status status = rx_pool_new(&g->pool, &g->limits.regex, err);
    if (status == QP_OK) {
        add_symbol(g, &(symbol){.kind = IR_IS_RULE, .name = "nothing"});
        add_symbol(g, &(symbol){.kind = IR_IS_RULE, .name = "empty"});
        ir_alternative(g, IR_EPSILON, NULL, 0);
        status = ir_status(g, err);
    }
    if (status != QP_OK)
        close_ir(g);
    else
        *out = g;
    return status;
}

void ir_free(ir *g) {
    if (g) close_ir(g);
}

qp_status ir_status(const ir *g, qp_error *err) {
    if (g->failed != QP_OK) return err_set(err, g->failed, 0, "%s", g->why);
    return rx_status(g->pool, err);
}

rx_pool *ir_pool(ir *g) { return g->pool; }

/* ---- symbols ---- */

static ir_sym add_terminal(ir *g, rx language, bool lazy) {
    bool is_new;
    const uint32_t key[2] = {lazy ? KEY_LAZY : KEY_TERMINAL, language};
    return intern(g, &(symbol){.kind = IR_IS_TERMINAL, .language = language, .lazy = lazy}, key, 2, NULL, 0, &is_new);
}

ir_sym ir_terminal(ir *g, rx language) {
    if (language == RX_NONE) return IR_NOTHING;
    if (language == RX_EMPTY) return IR_EPSILON;
    return add_terminal(g, language, false);
}

ir_sym ir_lazy_terminal(ir *g, rx language) {
    const rx shortest = rx_lazy(g->pool, language);
    if (shortest == RX_NONE) return IR_NOTHING;
    return shortest == RX_EMPTY ? IR_EPSILON : add_terminal(g, shortest, true);
}

ir_sym ir_special(ir *g, const int32_t *ids, size_t n) {
    bool is_new;
    if (!n) return IR_NOTHING;
    const uint32_t tag = KEY_SPECIAL;
    return intern(g, &(symbol){.kind = IR_IS_SPECIAL}, &tag, 1, (const uint32_t *)ids, n, &is_new);
}

ir_sym ir_rule(ir *g, const char *name) {
    if (g->failed != QP_OK) return IR_NOTHING;
    if (g->n_rules >= g->limits.rules) return fail(g, QP_TOO_LARGE, "rules", g->limits.rules);
    g->n_rules++;
    return add_symbol(g, &(symbol){.kind = IR_IS_RULE, .name = keep_text(g, name)});
}

void ir_alternative(ir *g, ir_sym rule, const ir_sym *symbols, size_t n) {
    if (g->failed != QP_OK || !step(g)) return;
    symbol *s = &g->symbols[rule];
    if (!make_room(g, &s->alternatives, &s->room, s->n_alternatives, 1, sizeof *s->alternatives)) return;
    const uint32_t first = keep_words(g, symbols, n);
    if (g->failed == QP_OK) s->alternatives[s->n_alternatives++] = (alternative){first, (uint32_t)n};
}

ir_sym ir_sequence(ir *g, const ir_sym *symbols, size_t n) {
    if (n == 0) return IR_EPSILON;
    if (n == 1) return symbols[0];
    bool is_new;
    const uint32_t tag = KEY_SEQUENCE;
    const ir_sym made = intern(g, &(symbol){.kind = IR_IS_RULE}, &tag, 1, symbols, n, &is_new);
    if (is_new) ir_alternative(g, made, symbols, n);
    return made;
}

ir_sym ir_choice(ir *g, const ir_sym *symbols, size_t n) {
    if (n == 0) return IR_NOTHING;
    if (n == 1) return symbols[0];
    bool is_new;
    const uint32_t tag = KEY_CHOICE;
    const ir_sym made = intern(g, &(symbol){.kind = IR_IS_RULE}, &tag, 1, symbols, n, &is_new);
    for (size_t i = 0; is_new && i < n; i++) ir_alternative(g, made, &symbols[i], 1);
    return made;
}

ir_sym ir_repeat(ir *g, ir_sym repeated, uint32_t min, uint32_t max) {
    return ir_repeat_between(g, repeated, IR_EPSILON, min, max);
}

ir_sym ir_repeat_between(ir *g, ir_sym repeated, ir_sym separator, uint32_t min, uint32_t max) {
    if (g->failed != QP_OK || min > max) return IR_NOTHING;
    if (max == 0) return IR_EPSILON;
    if (min == 1 && max == 1) return repeated;
    bool is_new;
    const uint32_t head[4] = {KEY_REPEAT, separator, min, max};
    return intern(g, &(symbol){.kind = IR_IS_REPEAT, .separator = separator, .min = min, .max = max}, head, 4,
                  &repeated, 1, &is_new);
}

ir_sym ir_any_order(ir *g, const ir_sym *members, size_t n, ir_sym separator, uint64_t required) {
    if (n == 0) return IR_EPSILON;
    if (n > 64) return fail(g, QP_TOO_LARGE, "members in any order", 64);
    bool is_new;
    const uint32_t head[4] = {KEY_ANY_ORDER, separator, (uint32_t)required, (uint32_t)(required >> 32)};
    return intern(g, &(symbol){.kind = IR_IS_ANY_ORDER, .separator = separator, .required = required}, head, 4, members,
                  n, &is_new);
}

void ir_skip(ir *g, rx language) { g->skip = language; }
void ir_start(ir *g, ir_sym start) { g->start = start; }
void ir_need(ir *g, ir_sym part, const char *name) {
    need *n = arena_zget(&g->text, 1, sizeof *n);
    const char *kept = n ? keep_text(g, name) : NULL;
    if (!n) fail(g, QP_NO_MEMORY, "out of memory", sizeof *n);
    if (!kept) return;
    *n = (need){part, kept, g->needs};
    g->needs = n;
}

bool ir_look_need(const ir *g, size_t index, ir_sym *part, const char **name) {
    const need *n = g->needs;
    while (n && index--) n = n->before;
    if (n) *part = n->symbol, *name = n->name;
    return n;
}

ir_sym ir_get_start(const ir *g) { return g->start; }
void ir_fuse(ir *g, bool fuse) { g->fuse = fuse; }
rx ir_get_skip(const ir *g) { return g->skip; }
bool ir_get_fuse(const ir *g) { return g->fuse; }
size_t ir_size(const ir *g) { return g->n_symbols; }

ir_view ir_look(const ir *g, ir_sym at) {
    const symbol *s = &g->symbols[at];
    ir_view view = {.kind = s->kind,
                    .name = s->name,
                    .language = s->language,
                    .lazy = s->lazy,
                    .n = s->n,
                    .separator = s->separator,
                    .min = s->min,
                    .max = s->max,
                    .required = s->required};
    if (s->kind == IR_IS_SPECIAL) view.ids = (const int32_t *)(g->words + s->list);
    if (s->kind == IR_IS_REPEAT || s->kind == IR_IS_ANY_ORDER) view.symbols = g->words + s->list;
    if (s->kind == IR_IS_RULE) view.n = s->n_alternatives;
    return view;
}

const ir_sym *ir_look_alternative(const ir *g, ir_sym rule, size_t index, size_t *n) {
    const alternative *a = &g->symbols[rule].alternatives[index];
    *n = a->n;
    return a->n ? g->words + a->first : NULL;
}

/* ---- the report ---- */

static const char *text_or_empty(ir *g, const char *text) {
    const char *kept = keep_text(g, text ? text : "");
    return kept ? kept : "";
}

void ir_report(ir *g, const ir_entry *entry) {
    if (entry->note == IR_PROBLEM) g->n_problems++;
    if (g->n_entries >= ENTRY_LIMIT || !make_room(g, &g->entries, &g->entry_room, g->n_entries, 1, sizeof *g->entries))
        return;
    g->entries[g->n_entries++] = (ir_entry){entry->note,
                                            text_or_empty(g, entry->category),
                                            text_or_empty(g, entry->path),
                                            text_or_empty(g, entry->keyword),
                                            text_or_empty(g, entry->message),
                                            text_or_empty(g, entry->hint)};
}

size_t ir_n_entries(const ir *g) { return g->n_entries; }
ir_entry ir_get_entry(const ir *g, size_t index) { return g->entries[index]; }

static qp_status status_of(const ir_entry *e) {
    if (!strcmp(e->category, "unsupported")) return QP_UNSUPPORTED;
    return strcmp(e->category, "limit") ? QP_BAD_FORMAT : QP_TOO_LARGE;
}

qp_status ir_verdict(const ir *g, qp_error *err) {
    ERR_TRY(ir_status(g, err));
    if (!g->n_problems) return QP_OK;
    const ir_entry *first = g->entries;
    while (first < g->entries + g->n_entries && first->note != IR_PROBLEM) first++;
    if (first == g->entries + g->n_entries) return err_set(err, QP_TOO_LARGE, 0, "over %d report entries", ENTRY_LIMIT);
    char more[48] = "";
    if (g->n_problems > 1) snprintf(more, sizeof more, " (and %u more)", g->n_problems - 1);
    return err_set(err, status_of(first), 0, "at \"%.100s\"%s%.60s: %s: %.160s%s%.80s%s", first->path,
                   *first->keyword ? ", " : "", first->keyword, first->category, first->message,
                   *first->hint ? "; " : "", first->hint, more);
}
