/* ahead.c — a few threads, a list of followers that want a mask, one lock.
 *
 * Workers help only on cores that nobody else uses: on a core of the model's own a worker stops a thread that all
 * others of the step wait for, which costs the step more than the mask does. So a follower is told (follower_start),
 * and else its masks are made when they are asked for, by the engine's threads for sampling, all jobs of a step at
 * once. */
#include "ahead.h"
#include "forced.h"
#include "base/bell.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/signals.h"
#include <math.h>

enum { MOST_THREADS = 8, MOST_FORCED = 16, FEW = 64 /* ids that a mask has at most where text is forced */ };

typedef enum task_state { TASK_NONE, TASK_WAITING, TASK_RUNNING, TASK_DONE } task_state;

struct follower {
    ahead *a;
    matcher *m;
    const trie *vocabulary;
    int n_ids;
    uint32_t *bits;
    mask_info info;
    qp_status status;
    qp_error error;
    task_state state;            /* under the bell */
    follower *next;              /* in the list of those that wait */
    bool is_ahead;               /* workers make the masks, else whoever asks */
    bool has_forced;             /* they were looked for */
    int32_t forced[MOST_FORCED]; /* [n_forced], of which n_taken have come */
    size_t n_forced, n_taken;
    strbuf head;     /* of the first token, not part of the text */
    size_t n_tokens; /* taken */
};

struct ahead {
    bell bell;
    const tok *tok; /* NULL: forced tokens are not looked for */
    follower *first, *last;
    pthread_t threads[MOST_THREADS];
    int n_threads;
    bool is_closing;
};

/* ---- masks ---- */

/* The ids that begin with the head and go on as the text may begin; each is tried. */
static qp_status healed_mask(follower *f) {
    const trie *t = f->vocabulary;
    memset(f->bits, 0, (((size_t)f->n_ids + 31) / 32) * sizeof *f->bits);
    f->info = (mask_info){.only = -1, .may_end = matcher_may_end(f->m)};
    for (int32_t id = 0; id < f->n_ids; id++) {
        const span text = trie_bytes(t, id), head = {f->head.at, f->head.bytes};
        if (trie_flag_of(t, id) != TRIE_NORMAL || !text.bytes || !span_starts(text, head)) continue;
        const span rest = {text.at + head.bytes, text.bytes - head.bytes};
        const qp_status status = matcher_accept_bytes(f->m, rest, &f->error);
        if (status == QP_BAD_ARGUMENT) continue;
        if (status != QP_OK) return status;
        ERR_TRY(matcher_rewind(f->m, 1, &f->error));
        f->bits[id / 32] |= 1u << (id % 32);
        f->info.allowed++;
    }
    return QP_OK;
}

static bool heals(const follower *f) { return f->head.bytes && !f->n_tokens; }

static void find_forced(follower *f) {
    f->has_forced = true;
    f->n_forced = f->n_taken = 0;
    if (f->status != QP_OK || !f->a->tok || f->info.may_end || !f->info.allowed || f->info.allowed > FEW) return;
    if (f->info.only >= 0)
        f->forced[f->n_forced++] = f->info.only;
    else
        f->n_forced = forced_tokens(f->m, f->a->tok, f->vocabulary, f->forced, MOST_FORCED);
}

static void make_mask(follower *f) {
    f->has_forced = heals(f); /* then there are none */
    f->n_forced = f->n_taken = 0;
    f->status = heals(f) ? healed_mask(f) : matcher_mask(f->m, f->bits, &f->info, &f->error);
}

/* ---- threads ---- */

static follower *take_first(ahead *a) {
    follower *f = a->first;
    if (!f) return NULL;
    a->first = f->next;
    if (!a->first) a->last = NULL;
    f->state = TASK_RUNNING;
    return f;
}

static void *work(void *user) {
    ahead *a = user;
    bell_lock(&a->bell);
    while (!a->is_closing) {
        follower *f = take_first(a);
        if (!f) {
            bell_wait(&a->bell, INFINITY);
            continue;
        }
        bell_unlock(&a->bell);
        make_mask(f);
        if (!f->has_forced) find_forced(f);
        bell_lock(&a->bell);
        f->state = TASK_DONE;
        bell_ring(&a->bell);
    }
    bell_unlock(&a->bell);
    return NULL;
}

static qp_status start_threads(ahead *a, int n, qp_error *err) {
    sigset_t before;
    signals_block(&before);
    for (; a->n_threads < n; a->n_threads++)
        if (pthread_create(&a->threads[a->n_threads], NULL, work, a)) break;
    signals_restore(&before);
    return a->n_threads ? QP_OK : err_set(err, QP_IO, 0, "masks: the system has no thread left");
}

qp_status ahead_new(ahead **out, int n_threads, qp_error *err) {
    *out = NULL;
    ahead *a = MEM_NEW(ahead);
    if (!a) return err_no_memory(err, sizeof *a, "masks");
    int n = n_threads > 0 ? n_threads : cpu_usable_cores() - 1;
    n = n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
    qp_status status = bell_open(&a->bell, err);
    if (status != QP_OK) return mem_free(a), status;
    status = start_threads(a, n, err);
    if (status != QP_OK)
        ahead_free(a);
    else
        *out = a;
    return status;
}

void ahead_free(ahead *a) {
    if (!a) return;
    bell_lock(&a->bell);
    a->is_closing = true;
    bell_ring(&a->bell);
    bell_unlock(&a->bell);
    for (int i = 0; i < a->n_threads; i++) pthread_join(a->threads[i], NULL);
    bell_close(&a->bell);
    mem_free(a);
}

void ahead_set_tokenizer(ahead *a, const tok *t) { a->tok = t; }

/* ---- followers ---- */

static void submit(follower *f) {
    ahead *a = f->a;
    bell_lock(&a->bell);
    f->state = TASK_WAITING;
    f->next = NULL;
    if (a->last)
        a->last->next = f;
    else
        a->first = f;
    a->last = f;
    bell_ring(&a->bell);
    bell_unlock(&a->bell);
}

/* Takes a follower that still waits off the list. */
static void withdraw(ahead *a, follower *f) {
    follower *before = NULL;
    for (follower *at = a->first; at && at != f; at = at->next) before = at;
    if (before)
        before->next = f->next;
    else
        a->first = f->next;
    if (a->last == f) a->last = before;
    f->state = TASK_NONE;
}

/* No worker has this follower afterwards. */
static void settle(follower *f) {
    bell_lock(&f->a->bell);
    if (f->state == TASK_WAITING) withdraw(f->a, f);
    while (f->state == TASK_RUNNING) bell_wait(&f->a->bell, INFINITY);
    bell_unlock(&f->a->bell);
}

/* The matcher is the follower's from now on, also on failure. */
static qp_status open_follower(follower **out, ahead *a, matcher *m, const trie *vocabulary, qp_error *err) {
    const int n_ids = trie_size(vocabulary);
    const size_t words = ((size_t)n_ids + 31) / 32;
    follower *f = MEM_NEW(follower);
    uint32_t *bits = f ? mem_zarray(words + 1, sizeof *bits) : NULL;
    if (!bits) {
        matcher_free(m);
        mem_free(f);
        return err_no_memory(err, words * 4, "filter");
    }
    *f = (follower){.a = a, .m = m, .vocabulary = vocabulary, .n_ids = n_ids, .bits = bits};
    *out = f;
    return QP_OK;
}

qp_status follower_new(follower **out, ahead *a, grammar *g, qp_error *err) {
    matcher *m;
    *out = NULL;
    ERR_TRY(matcher_new(&m, g, err));
    return open_follower(out, a, m, grammar_vocabulary(g), err);
}

qp_status follower_clone(follower **out, follower *f, qp_error *err) {
    matcher *m;
    *out = NULL;
    settle(f);
    ERR_TRY(matcher_clone(&m, f->m, err));
    ERR_TRY(open_follower(out, f->a, m, f->vocabulary, err));
    (*out)->n_tokens = f->n_tokens;
    if (!f->head.bytes) return QP_OK;
    const qp_status status = follower_heal(*out, (span){f->head.at, f->head.bytes}, err);
    if (status != QP_OK) follower_free(*out), *out = NULL;
    return status;
}

qp_status follower_heal(follower *f, span head, qp_error *err) {
    settle(f);
    f->state = TASK_NONE;
    strbuf_clear(&f->head);
    strbuf_add(&f->head, head.at, head.bytes);
    return strbuf_status(&f->head, err, "filter");
}

void follower_start(follower *f, bool is_ahead) {
    settle(f);
    f->is_ahead = is_ahead;
    if (is_ahead && !heals(f) && f->state == TASK_NONE) submit(f);
}

size_t follower_forced(follower *f, int32_t *ids, size_t most) {
    if (!f->has_forced) find_forced(f);
    const size_t left = f->n_forced - f->n_taken, n = left < most ? left : most;
    memcpy(ids, f->forced + f->n_taken, n * sizeof *ids);
    return n;
}

int follower_vocabulary(const follower *f) { return f->n_ids; }

void follower_free(follower *f) {
    if (!f) return;
    settle(f);
    matcher_free(f->m);
    strbuf_free(&f->head);
    mem_free(f->bits);
    mem_free(f);
}

qp_status follower_mask(follower *f, const uint32_t **bits, mask_info *info, qp_error *err) {
    settle(f);
    if (f->state != TASK_DONE) {
        make_mask(f);
        f->state = TASK_DONE;
    }
    *bits = f->bits;
    *info = f->info;
    if (f->status != QP_OK && err) *err = f->error;
    return f->status;
}

/* What is remembered is copied at once: waking a thread would take longer. */
static void prepare(follower *f) {
    f->state = TASK_NONE;
    f->status = QP_OK;
    f->has_forced = false;
    f->n_forced = f->n_taken = 0;
    if (!f->is_ahead || heals(f)) return;
    if (!matcher_mask_known(f->m, f->bits, &f->info)) return submit(f);
    f->state = TASK_DONE;
}

/* Within forced tokens nobody will ask for a mask. */
static bool is_next_forced(follower *f, int32_t id) {
    if (f->n_taken >= f->n_forced || f->forced[f->n_taken] != id) return false;
    return ++f->n_taken < f->n_forced;
}

qp_status follower_accept(follower *f, int32_t id, qp_error *err) {
    settle(f);
    f->state = TASK_NONE;
    if (heals(f)) {
        const span text = trie_bytes(f->vocabulary, id);
        const size_t cut = f->head.bytes < text.bytes ? f->head.bytes : text.bytes;
        ERR_TRY(matcher_accept_bytes(f->m, (span){text.at + cut, text.bytes - cut}, err));
    } else {
        ERR_TRY(matcher_accept(f->m, id, err));
    }
    f->n_tokens++;
    if (!is_next_forced(f, id)) prepare(f);
    return QP_OK;
}

qp_status follower_rewind(follower *f, size_t n, qp_error *err) {
    settle(f);
    f->state = TASK_NONE;
    ERR_TRY(matcher_rewind(f->m, n, err));
    f->n_tokens -= n;
    prepare(f);
    return QP_OK;
}
