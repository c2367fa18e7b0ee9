/* matcher.c — one text followed through a grammar: tokens taken, forgotten, foreseen.
 *
 * A matcher is the list of heads at every position since the start, some eight bytes a token; taking a token appends,
 * forgetting cuts, a clone shares the list until one of the two appends. All knowledge is in the grammar, behind its
 * lock. */
#include "grammar_impl.h"

static uint32_t n_now(const matcher *m) { return m->heads.n - m->firsts[m->n_tokens]; }

static void let_go(const matcher *m) {
    if (!m->shares || atomic_fetch_sub(m->shares, 1) != 1) return;
    mem_free(m->heads.at);
    mem_free(m->firsts);
    mem_free(m->shares);
}

/* Nobody else has a share of the arrays afterwards. */
static bool own(matcher *m) {
    if (m->shares && atomic_load(m->shares) == 1) return true;
    const size_t room = m->n_tokens + 16;
    const uint32_t n = m->heads.n, head_room = n + 16;
    atomic_int *shares = MEM_NEW(atomic_int);
    head *at = mem_array(head_room, sizeof *at);
    uint32_t *firsts = mem_array(room, sizeof *firsts);
    if (!shares || !at || !firsts) return mem_free(shares), mem_free(at), mem_free(firsts), false;
    if (n) memcpy(at, m->heads.at, n * sizeof *at);
    if (n) memcpy(firsts, m->firsts, (m->n_tokens + 1) * sizeof *firsts);
    atomic_init(shares, 1);
    let_go(m);
    m->shares = shares;
    m->heads = (heads){at, n, head_room};
    m->firsts = firsts;
    m->first_room = room;
    return true;
}

/* Room for one more position; the arrays are its own. */
static bool room_for_token(matcher *m) {
    if (m->n_tokens + 2 <= m->first_room) return true;
    const size_t room = m->first_room ? m->first_room * 2 : 16;
    uint32_t *firsts = mem_resize(m->firsts, room, sizeof *firsts);
    if (!firsts) return false;
    m->firsts = firsts;
    m->first_room = room;
    return true;
}

static qp_status start(matcher *m, qp_error *err) {
    if (!own(m)) return err_no_memory(err, 64, "matcher");
    grammar *g = m->g;
    pthread_mutex_lock(&g->lock);
    walk_begin(g);
    const uint32_t state = rows_start(&g->parser, ROWS_FIRST);
    const qp_status status = walk_status(g, err);
    pthread_mutex_unlock(&g->lock);
    m->firsts[0] = 0;
    m->heads.at[m->heads.n++] = (head){ROWS_FIRST, state | HEAD_FRESH};
    return status;
}

qp_status matcher_new(matcher **out, grammar *g, qp_error *err) {
    *out = NULL;
    matcher *m = MEM_NEW(matcher);
    if (!m) return err_no_memory(err, sizeof *m, "matcher");
    m->g = grammar_share(g);
    const qp_status status = start(m, err);
    if (status != QP_OK)
        matcher_free(m);
    else
        *out = m;
    return status;
}

void matcher_free(matcher *m) {
    if (!m) return;
    let_go(m);
    grammar_free(m->g);
    mem_free(m);
}

qp_status matcher_clone(matcher **out, const matcher *m, qp_error *err) {
    *out = NULL;
    matcher *c = MEM_NEW(matcher);
    if (!c) return err_no_memory(err, sizeof *c, "matcher");
    *c = *m;
    grammar_share(c->g);
    atomic_fetch_add(c->shares, 1);
    *out = c;
    return QP_OK;
}

/* ---- taking tokens ---- */

/* The heads after all bytes, put behind the present ones; 0 with *bad the first byte that may not come. */
static uint32_t step_bytes(matcher *m, span bytes, size_t *bad) {
    grammar *g = m->g;
    heads *s = &g->stack;
    uint32_t n = n_now(m), first = 0;
    s->n = 0;
    *bad = 0;
    if (!walk_room(s, n)) return walk_no_memory(g);
    memcpy(s->at, m->heads.at + m->firsts[m->n_tokens], n * sizeof(head));
    for (; *bad < bytes.bytes && n; ++*bad) {
        const uint32_t next = walk_step(g, s, first, n, (uint8_t)bytes.at[*bad]);
        if (next == 0) return 0;
        first += n;
        n = next;
    }
    if (!n) return 0;
    if (!own(m) || !walk_room(&m->heads, n)) return walk_no_memory(g);
    memcpy(m->heads.at + m->heads.n, s->at + first, n * sizeof(head));
    return n;
}

static uint32_t step_special(matcher *m, int32_t id) {
    heads *s = &m->g->stack;
    const uint32_t n = n_now(m);
    s->n = 0;
    if (!walk_room(s, n) || !own(m) || !walk_room(&m->heads, 1)) return walk_no_memory(m->g);
    memcpy(s->at, m->heads.at + m->firsts[m->n_tokens], n * sizeof(head));
    const uint32_t next = walk_special(m->g, s, 0, n, id);
    if (next) m->heads.at[m->heads.n] = s->at[n];
    return next;
}

static void note_tail(matcher *m, span bytes) {
    const size_t n = bytes.bytes < TAIL_BYTES ? bytes.bytes : TAIL_BYTES;
    const size_t kept = m->n_tail < TAIL_BYTES - n ? m->n_tail : TAIL_BYTES - n;
    memmove(m->tail, m->tail + m->n_tail - kept, kept);
    memcpy(m->tail + kept, bytes.at + bytes.bytes - n, n);
    m->n_tail = kept + n;
}

/* `n` heads have been put behind the present ones: they are the present now. */
static qp_status take(matcher *m, uint32_t n, qp_error *err) {
    if (!own(m) || !room_for_token(m)) return err_no_memory(err, m->first_room * 8, "matcher");
    m->firsts[++m->n_tokens] = m->heads.n;
    m->heads.n += n;
    return QP_OK;
}

static qp_status take_bytes(matcher *m, span bytes, size_t *bad, qp_error *err) {
    pthread_mutex_lock(&m->g->lock);
    walk_begin(m->g);
    const uint32_t n = step_bytes(m, bytes, bad);
    qp_status status = walk_status(m->g, err);
    pthread_mutex_unlock(&m->g->lock);
    if (status != QP_OK) return status;
    if (n == 0) return err_set(err, QP_BAD_ARGUMENT, *bad, "constraint: this text may not come next (byte %zu)", *bad);
    status = take(m, n, err);
    if (status == QP_OK) note_tail(m, bytes);
    return status;
}

static qp_status take_special(matcher *m, int32_t id, qp_error *err) {
    pthread_mutex_lock(&m->g->lock);
    walk_begin(m->g);
    const uint32_t n = step_special(m, id);
    const qp_status status = walk_status(m->g, err);
    pthread_mutex_unlock(&m->g->lock);
    if (status != QP_OK) return status;
    if (n == 0) return err_set(err, QP_BAD_ARGUMENT, 0, "constraint: special token %d may not come next", id);
    return take(m, n, err);
}

qp_status matcher_accept_bytes(matcher *m, span bytes, qp_error *err) {
    size_t bad;
    return take_bytes(m, bytes, &bad, err);
}

qp_status matcher_accept(matcher *m, int32_t id, qp_error *err) {
    const trie *t = m->g->vocabulary;
    if (id < 0 || id >= trie_size(t))
        return err_set(err, QP_BAD_ARGUMENT, 0, "constraint: token %d, allowed 0 to %d", id, trie_size(t) - 1);
    const trie_flag flag = trie_flag_of(t, id);
    if (flag == TRIE_NORMAL && trie_bytes(t, id).bytes) return matcher_accept_bytes(m, trie_bytes(t, id), err);
    qp_error why;
    const qp_status status = take_special(m, id, &why);
    if (status == QP_BAD_ARGUMENT && flag == TRIE_END && matcher_may_end(m)) return take(m, 0, err);
    return status == QP_OK ? QP_OK : err_set(err, why.code, why.offset, "%s", why.text);
}

qp_status matcher_rewind(matcher *m, size_t n, qp_error *err) {
    if (n > m->n_tokens)
        return err_set(err, QP_BAD_ARGUMENT, 0, "constraint: rewind by %zu tokens, allowed at most %zu", n,
                       m->n_tokens);
    if (!n) return QP_OK;
    m->n_tokens -= n;
    m->heads.n = m->firsts[m->n_tokens + 1];
    m->n_tail = 0;
    return QP_OK;
}

qp_status matcher_test(matcher *m, const int32_t *ids, size_t n, size_t *n_good, qp_error *err) {
    qp_error why;
    qp_status status = QP_OK;
    *n_good = 0;
    while (*n_good < n && (status = matcher_accept(m, ids[*n_good], &why)) == QP_OK) ++*n_good;
    ERR_TRY(matcher_rewind(m, *n_good, err));
    if (status == QP_OK || status == QP_BAD_ARGUMENT) return QP_OK;
    return err_set(err, why.code, why.offset, "%s", why.text);
}

/* ---- asking ---- */

bool matcher_may_end(const matcher *m) {
    bool may_end = m->n_tokens && n_now(m) == 0; /* an end token was taken */
    pthread_mutex_lock(&m->g->lock);
    for (uint32_t i = m->firsts[m->n_tokens]; i < m->heads.n; i++)
        may_end |= m->heads.at[i].state & HEAD_FRESH && m->g->parser.at[m->heads.at[i].row].accepts;
    pthread_mutex_unlock(&m->g->lock);
    return may_end;
}

/* The bytes that may come next, none and more than one told apart: -1 and -2. With the lock held. */
static int only_byte(grammar *g, const head *now, uint32_t n) {
    int found = -1;
    for (int b = 0; b < 256; b++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t next = lexer_step(&g->automaton, now[i].state & HEAD_STATE, (uint8_t)b);
            if (next == 0 || next == LEXER_DEAD || found == b) continue;
            if (found >= 0) return -2;
            found = b;
        }
    return found;
}

static bool waits_for_special(const grammar *g, const head *now, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (now[i].state & HEAD_FRESH && g->parser.at[now[i].row].has_special) return true;
    return false;
}

bool matcher_finished(matcher *m) {
    if (!matcher_may_end(m)) return false;
    const head *now = m->heads.at + m->firsts[m->n_tokens];
    pthread_mutex_lock(&m->g->lock);
    walk_begin(m->g);
    const bool goes_on = only_byte(m->g, now, n_now(m)) != -1 || waits_for_special(m->g, now, n_now(m));
    pthread_mutex_unlock(&m->g->lock);
    return !goes_on;
}

static bool any_accepts(const grammar *g, const head *now, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (now[i].state & HEAD_FRESH && g->parser.at[now[i].row].accepts) return true;
    return false;
}

qp_status matcher_forced(matcher *m, strbuf *out, size_t most, qp_error *err) {
    grammar *g = m->g;
    heads *s = &g->stack;
    uint32_t n = n_now(m), first = 0;
    pthread_mutex_lock(&g->lock);
    walk_begin(g);
    s->n = 0;
    const bool has_room = walk_room(s, n);
    if (has_room && n) memcpy(s->at, m->heads.at + m->firsts[m->n_tokens], n * sizeof(head));
    for (size_t i = 0; has_room && i < most && n; i++) {
        if (any_accepts(g, s->at + first, n) || waits_for_special(g, s->at + first, n)) break;
        const int byte = only_byte(g, s->at + first, n);
        if (byte < 0) break;
        const uint32_t next = walk_step(g, s, first, n, (uint8_t)byte);
        if (next) strbuf_char(out, (char)byte);
        first += n;
        n = next;
    }
    const qp_status status = walk_status(g, err);
    pthread_mutex_unlock(&g->lock);
    return !has_room         ? err_no_memory(err, n * sizeof(head), "matcher")
           : status != QP_OK ? status
                             : strbuf_status(out, err, "forced text");
}

span matcher_tail(const matcher *m) { return (span){m->tail, m->n_tail}; }

/* A shortest text of what is left of a terminal, in backquotes. */
static void explain_part(matcher *m, lexer_part part, strbuf *out) {
    strbuf word = {.limit = 4096};
    const char *name = m->g->rules.terminals[part.terminal].name;
    strbuf_text(out, out->bytes ? " `" : "one of: `");
    if (rx_shortest(m->g->automaton.pool, part.left, &word))
        strbuf_add(out, word.at, word.bytes < 40 ? word.bytes : 40);
    strbuf_text(out, word.bytes > 40 ? "...`" : "`");
    if (name) strbuf_format(out, " (%s)", name);
    strbuf_free(&word);
}

qp_status matcher_explain(matcher *m, strbuf *out, qp_error *err) {
    enum { MOST = 16 };
    grammar *g = m->g;
    int n = 0;
    if (matcher_may_end(m)) strbuf_text(out, "one of: the end");
    pthread_mutex_lock(&g->lock);
    walk_begin(g);
    for (uint32_t i = m->firsts[m->n_tokens]; i < m->heads.n; i++) {
        const uint32_t state = m->heads.at[i].state & HEAD_STATE;
        for (uint32_t k = 0; k < g->automaton.states[state].n_parts && n < MOST; k++, n++)
            explain_part(m, g->automaton.parts[g->automaton.states[state].parts + k], out);
    }
    pthread_mutex_unlock(&g->lock);
    if (n == MOST) strbuf_text(out, " ...");
    return strbuf_status(out, err, "what may come next");
}
