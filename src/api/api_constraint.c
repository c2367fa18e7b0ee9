/* api_constraint.c — constraints behind their public handles: compiled once, kept on the tokenizer's shelf, followed by
 * filters.
 *
 * A shelf belongs to a tokenizer: the vocabulary's trie and the threads that make masks ahead, both made at the first
 * constraint, and the grammars compiled lately. Compiling runs without the lock; of two that compile the same at once
 * one wins. */
#include "handles.h"
#include "base/hash.h"
#include "base/mem.h"
#include "grammar/ahead.h"
#include "grammar/schema_keyword.h"
#include <pthread.h>

enum { SHELF_ROOM = 64 };

typedef struct shelved {
    hash_pair key;
    grammar *grammar;
    uint64_t used; /* when, by the shelf's own count */
} shelved;

struct shelf {
    pthread_mutex_t lock;
    const tok *tok;
    trie *vocabulary;
    int32_t *specials; /* [n_specials] besides the end token */
    size_t n_specials;
    ahead *ahead;
    shelved at[SHELF_ROOM];
    int n;
    uint64_t clock;
};

struct qp_grammar {
    grammar *grammar;
    shelf *shelf;
};

qp_status shelf_open(shelf **out, const tok *t, qp_error *err) {
    *out = MEM_NEW(shelf);
    if (!*out) return err_no_memory(err, sizeof **out, "constraints");
    (*out)->tok = t;
    pthread_mutex_init(&(*out)->lock, NULL);
    return QP_OK;
}

void shelf_close(shelf *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) grammar_free(s->at[i].grammar);
    ahead_free(s->ahead);
    trie_free(s->vocabulary);
    mem_free(s->specials);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static span token_bytes(const void *user, int32_t id, trie_flag *flag) {
    const tok *t = user;
    if (tok_is_special(t, id)) *flag = id == tok_eos(t) ? TRIE_END : TRIE_SPECIAL;
    return tok_bytes(t, id);
}

static int32_t token_id(const void *user, span text) {
    const tok *t = user;
    const int32_t id = tok_id(t, text);
    return id >= 0 && tok_is_special(t, id) ? id : -1;
}

static qp_status list_specials(shelf *s, qp_error *err) {
    const int n = trie_size(s->vocabulary);
    s->specials = mem_array((size_t)n + 1, sizeof *s->specials);
    if (!s->specials) return err_no_memory(err, (size_t)n * sizeof *s->specials, "special tokens");
    for (int32_t id = 0; id < n; id++)
        if (trie_flag_of(s->vocabulary, id) == TRIE_SPECIAL) s->specials[s->n_specials++] = id;
    return QP_OK;
}

/* The first constraint makes what all share; others wait for it. */
static qp_status prepare(shelf *s, qp_error *err) {
    pthread_mutex_lock(&s->lock);
    const trie_source source = {tok_size(s->tok), token_bytes, s->tok};
    qp_status status = s->vocabulary ? QP_OK : trie_new(&s->vocabulary, &source, err);
    if (status == QP_OK && !s->specials) status = list_specials(s, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- the shelf of grammars ---- */

static grammar *find(shelf *s, hash_pair key) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].key.low == key.low && s->at[i].key.high == key.high) {
            s->at[i].used = ++s->clock;
            return grammar_share(s->at[i].grammar);
        }
    return NULL;
}

static grammar *find_locked(shelf *s, hash_pair key) {
    pthread_mutex_lock(&s->lock);
    grammar *found = find(s, key);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Puts a fresh grammar there in place of the one that was not used for longest; gives what is there to use. */
static grammar *put(shelf *s, hash_pair key, grammar *fresh) {
    pthread_mutex_lock(&s->lock);
    grammar *other = find(s, key), *dropped = other ? fresh : NULL;
    if (!other) {
        int at = 0;
        for (int i = 1; i < s->n; i++)
            if (s->at[i].used < s->at[at].used) at = i;
        if (s->n < SHELF_ROOM)
            at = s->n++;
        else
            dropped = s->at[at].grammar;
        s->at[at] = (shelved){key, grammar_share(fresh), ++s->clock};
    }
    pthread_mutex_unlock(&s->lock);
    grammar_free(dropped);
    return other ? other : fresh;
}

static void add_text(strbuf *b, const char *text, size_t bytes) {
    strbuf_add(b, &bytes, sizeof bytes);
    if (bytes) strbuf_add(b, text, bytes);
}

/* All that decides what is compiled. */
static qp_status make_key(hash_pair *out, const char *kind, span source, const ir_options *o, qp_error *err) {
    strbuf b = {0};
    const int numbers[] = {o->lenient,        o->any_order,       o->repeat_extra_keys, o->unicode_escapes,
                           o->ignore_formats, o->fraction_digits, o->exponent_digits};
    strbuf_add(&b, numbers, sizeof numbers);
    const char *const texts[] = {kind, o->whitespace, o->root};
    for (size_t i = 0; i < 3; i++) add_text(&b, texts[i], texts[i] ? strlen(texts[i]) + 1 : 0);
    add_text(&b, source.at, source.bytes);
    *out = hash_bytes_pair(b.at, b.bytes, 0);
    const qp_status status = strbuf_status(&b, err, "a constraint");
    strbuf_free(&b);
    return status;
}

/* ---- the report ---- */

static void add_entries(strbuf *b, const ir *g, const char *name, ir_note note) {
    bool is_first = true;
    strbuf_format(b, "\"%s\": [", name);
    for (size_t i = 0; i < ir_n_entries(g); i++) {
        const ir_entry e = ir_get_entry(g, i);
        if (e.note != note) continue;
        const char *const keys[] = {"category", "path", "keyword", "message", "hint"};
        const char *const values[] = {e.category, e.path, e.keyword, e.message, e.hint};
        strbuf_text(b, is_first ? "{" : ", {");
        for (size_t k = 0; k < 5; k++) {
            strbuf_format(b, "%s\"%s\": ", k ? ", " : "", keys[k]);
            strbuf_json(b, values[k], strlen(values[k]));
        }
        strbuf_text(b, "}");
        is_first = false;
    }
    strbuf_text(b, "]");
}

static char *make_report(const ir *g) {
    strbuf b = {0};
    const struct {
        const char *name;
        ir_note note;
    } parts[] = {{"problems", IR_PROBLEM}, {"narrowed", IR_NARROWED}, {"warnings", IR_WARNING}, {"remarks", IR_REMARK}};
    for (size_t i = 0; i < 4; i++) {
        strbuf_text(&b, i ? ", " : "{");
        add_entries(&b, g, parts[i].name, parts[i].note);
    }
    strbuf_text(&b, "}");
    char *report = b.failed ? NULL : strbuf_move(&b, NULL);
    strbuf_free(&b);
    return report;
}

/* ---- grammars ---- */

const char *qp_grammar_kind(int index, const char **help) {
    const grammar_kind *kind = index < 0 ? NULL : grammar_kind_at((size_t)index);
    if (help) *help = kind ? kind->help : NULL;
    return kind ? kind->name : NULL;
}

qp_status qp_grammar_keywords(char **table, qp_error *err) {
    strbuf text = {0};
    keyword_write_table(&text);
    const qp_status status = strbuf_status(&text, err, "the table of keywords");
    *table = status == QP_OK ? strbuf_move(&text, NULL) : NULL;
    strbuf_free(&text);
    return status == QP_OK && !*table ? err_no_memory(err, 1, "the table of keywords") : status;
}

static qp_status compile(grammar **out, shelf *s, const char *kind, span source, const ir_options *options,
                         const grammar_limits *limits, char **report, qp_error *err) {
    hash_pair key;
    ir *failed = NULL;
    ERR_TRY(make_key(&key, kind, source, options, err));
    *out = find_locked(s, key);
    qp_status status = QP_OK;
    if (!*out) {
        status = grammar_compile(out, s->vocabulary, kind, source, options, limits, &failed, err);
        if (status == QP_OK) *out = put(s, key, *out);
    }
    if (report && (failed || *out)) *report = make_report(failed ? failed : grammar_ir(*out));
    ir_free(failed);
    return status;
}

qp_status qp_grammar_new(qp_grammar **out, const qp_tokenizer *tokenizer, const char *kind, const char *source,
                         size_t source_bytes, const qp_grammar_options *given, char **report, qp_error *err) {
    API_OPTIONS(qp_grammar_options, o, given);
    *out = NULL;
    if (report) *report = NULL;
    if (!tokenizer || !kind || (!source && source_bytes))
        return err_set(err, QP_BAD_ARGUMENT, 0, "qp_grammar_new: no tokenizer, kind or source");
    const shelf *shared = tokenizer->shelf;
    ERR_TRY(prepare(tokenizer->shelf, err));
    const ir_options options = {.whitespace = o.whitespace,
                                .lenient = o.lenient,
                                .any_order = o.any_order,
                                .repeat_extra_keys = o.repeat_extra_keys,
                                .unicode_escapes = o.unicode_escapes,
                                .ignore_formats = o.ignore_formats,
                                .fraction_digits = o.fraction_digits,
                                .exponent_digits = o.exponent_digits,
                                .root = o.root,
                                .token_id = token_id,
                                .token_user = tokenizer->tok,
                                .specials = shared->specials,
                                .n_specials = shared->n_specials};
    qp_grammar *g = MEM_NEW(qp_grammar);
    if (!g) return err_no_memory(err, sizeof *g, "a constraint");
    g->shelf = tokenizer->shelf;
    const grammar_limits limits = {.ir.regex.stop = {o.cancelled, o.cancel_user}};
    const qp_status status =
        compile(&g->grammar, g->shelf, kind, (span){source, source_bytes}, &options, &limits, report, err);
    if (status != QP_OK)
        qp_grammar_free(g);
    else
        *out = g;
    return status;
}

void qp_grammar_free(qp_grammar *g) {
    if (!g) return;
    grammar_free(g->grammar);
    mem_free(g);
}

static qp_status explain(matcher *m, char **expected, qp_error *err) {
    strbuf b = {0};
    qp_status status = matcher_explain(m, &b, err);
    if (status == QP_OK && !(*expected = strbuf_move(&b, NULL))) status = err_no_memory(err, b.bytes, "a constraint");
    strbuf_free(&b);
    return status;
}

qp_status qp_grammar_check(const qp_grammar *g, const char *text, size_t text_bytes, size_t *n_good, bool *complete,
                           char **expected, qp_error *err) {
    matcher *m;
    *n_good = 0;
    *complete = false;
    if (expected) *expected = NULL;
    ERR_TRY(matcher_new(&m, g->grammar, err));
    qp_status status = QP_OK;
    qp_error why;
    while (*n_good < text_bytes && status == QP_OK) {
        status = matcher_accept_bytes(m, (span){text + *n_good, 1}, &why);
        if (status == QP_OK) ++*n_good;
    }
    if (status == QP_OK)
        *complete = matcher_may_end(m);
    else if (status == QP_BAD_ARGUMENT)
        status = QP_OK;
    else
        err_set(err, status, *n_good, "%s", why.text);
    if (status == QP_OK && expected) status = explain(m, expected, err);
    matcher_free(m);
    return status;
}

qp_status qp_grammar_time(const qp_grammar *g, const char *text, size_t text_bytes, int *allowed, double *seconds,
                          size_t capacity, size_t *n_tokens, qp_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    matcher *m = NULL;
    const size_t words = ((size_t)trie_size(g->shelf->vocabulary) + 31) / 32;
    uint32_t *bits = mem_zarray(words + 1, sizeof *bits);
    *n_tokens = 0;
    qp_status status = bits ? QP_OK : err_no_memory(err, words * 4, "a mask");
    if (status == QP_OK)
        status = tok_encode(g->shelf->tok, (span){text, text_bytes}, QP_TOKENIZE_NO_SPECIAL, &ids, &n, err);
    if (status == QP_OK) status = matcher_new(&m, g->grammar, err);
    for (size_t i = 0; i < n && status == QP_OK; i++) {
        mask_info info;
        status = matcher_mask(m, bits, &info, err);
        if (status != QP_OK) break;
        if (i < capacity) allowed[i] = info.allowed, seconds[i] = info.seconds;
        ++*n_tokens;
        if (matcher_accept(m, ids[i], NULL) != QP_OK) break;
    }
    matcher_free(m);
    mem_free(ids);
    mem_free(bits);
    return status;
}

/* ---- filters ---- */

static qp_status filter_mask(void *user, uint32_t *mask, int vocabulary, bool *may_end, qp_error *err) {
    const uint32_t *bits;
    mask_info info;
    follower *f = user;
    ERR_TRY(follower_mask(f, &bits, &info, err));
    const size_t words = ((size_t)vocabulary + 31) / 32, known = ((size_t)follower_vocabulary(f) + 31) / 32;
    const size_t both = words < known ? words : known;
    for (size_t i = 0; i < both; i++) mask[i] &= bits[i];
    for (size_t i = both; i < words; i++) mask[i] = 0;
    *may_end = info.may_end;
    if (info.may_end || info.allowed) return QP_OK;
    return err_set(err, QP_INTERNAL, 0, "constraint: no token of this vocabulary can continue the text");
}

static qp_status filter_accept(void *user, int32_t id, qp_error *err) { return follower_accept(user, id, err); }
static qp_status filter_rewind(void *user, size_t n, qp_error *err) { return follower_rewind(user, n, err); }
static void filter_free(void *user) { follower_free(user); }

static size_t filter_forced(void *user, int32_t *ids, size_t most) { return follower_forced(user, ids, most); }
static qp_status filter_heal(void *user, const char *text, size_t bytes, qp_error *err) {
    return follower_heal(user, (span){text, bytes}, err);
}
static qp_status filter_clone(void *user, qp_filter *out, qp_error *err);

static qp_filter filter_of(follower *f) {
    return (qp_filter){f,           filter_mask,  filter_accept, filter_rewind,
                       filter_free, filter_clone, filter_forced, filter_heal};
}

static qp_status filter_clone(void *user, qp_filter *out, qp_error *err) {
    follower *f;
    ERR_TRY(follower_clone(&f, user, err));
    *out = filter_of(f);
    return QP_OK;
}

void constraint_start(const qp_filter *f, bool is_ahead) {
    if (f->mask == filter_mask) follower_start(f->user, is_ahead);
}

static qp_status get_ahead(shelf *s, ahead **out, qp_error *err) {
    pthread_mutex_lock(&s->lock);
    const bool is_new = !s->ahead;
    const qp_status status = is_new ? ahead_new(&s->ahead, 0, err) : QP_OK;
    if (is_new && status == QP_OK) ahead_set_tokenizer(s->ahead, s->tok);
    *out = s->ahead;
    pthread_mutex_unlock(&s->lock);
    return status;
}

qp_status qp_filter_new(qp_filter *out, const qp_grammar *g, qp_error *err) {
    ahead *a;
    follower *f;
    *out = (qp_filter){.user = NULL};
    ERR_TRY(get_ahead(g->shelf, &a, err));
    ERR_TRY(follower_new(&f, a, g->grammar, err));
    *out = filter_of(f);
    return QP_OK;
}
