/* budget.c — ends thoughts that have become too long, as a filter of the job.
 *
 * Made by form.c. The filter reads the text of the tokens as it comes: it must see where a thought begins and ends, and
 * it counts every token of the answer until then, as usage does. When the budget is spent it allows one token after the
 * other of what is forced. It only allows what the other filters allow too: they let any text into a thought, but not
 * in the middle of a character, so that is waited for. */
#include "budget.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <stdatomic.h>
#include <stdio.h>

enum { LONGEST_TOKEN = 1024, LONGEST_WAIT = 4 /* tokens, for the end of a character */ };

struct budget {
    atomic_int users;
    const qp_tokenizer *tokenizer;
    size_t limit;
    char open[TOOL_TEXT], close[TOOL_TEXT];
    bool starts_open;
    int32_t *forced; /* [n_forced] */
    size_t n_forced;
};

typedef enum phase { PHASE_BEFORE, PHASE_INSIDE, PHASE_FORCED, PHASE_OVER } phase;

/* Where the answer is behind one of its tokens; rewinding is cutting the row of these. */
typedef struct place {
    phase phase;
    size_t n_forced; /* of the forced tokens, those that have come */
    size_t bytes;    /* of the text */
} place;

typedef struct thinker {
    budget *budget;
    strbuf text; /* up to the end of the thought */
    place *at;   /* [n + 1]: before the first token, behind each */
    size_t n, room;
} thinker;

/* ---- the budget ---- */

static budget *hold(budget *b) {
    atomic_fetch_add(&b->users, 1);
    return b;
}

void budget_free(budget *b) {
    if (!b || atomic_fetch_sub(&b->users, 1) != 1) return;
    qp_free(b->forced);
    mem_free(b);
}

static bool tokenize(budget *b, span message, refusal *why) {
    strbuf text = {0};
    qp_error err = {0};
    strbuf_add(&text, message.at, message.bytes);
    strbuf_text(&text, b->close);
    const qp_status status = text.failed ? QP_NO_MEMORY
                                         : qp_tokenize(b->tokenizer, text.at, text.bytes, QP_TOKENIZE_NO_SPECIAL,
                                                       &b->forced, &b->n_forced, &err);
    strbuf_free(&text);
    if (status == QP_NO_MEMORY) return refuse_memory(why, "the end of the reasoning");
    return status == QP_OK || refuse_status(why, status, "reasoning_budget_message", &err);
}

int64_t budget_limit(const ask *a) {
    const json_t *most = json_object_get(a->f.reasoning, "max_tokens");
    if (a->f.reasoning_budget >= 0 || !json_is_integer(most) || json_integer_value(most) < 0)
        return a->f.reasoning_budget;
    return json_integer_value(most);
}

bool budget_make(budget **out, const speech_setup *reader, const qp_tokenizer *tokenizer, const ask *a, refusal *why) {
    const thought_format *f = reader->thoughts;
    const span message = a->f.reasoning_message;
    if (reader->tools && reader->tools->body == BODY_HARMONY)
        return refuse(
            why, FAULT_PARAMETER, "reasoning_budget",
            "reasoning_budget: this model's channels cannot be cut short; reasoning_effort makes them shorter");
    if (!f) return true;
    if (message.bytes && memmem(message.at, message.bytes, f->close, strlen(f->close)))
        return refuse(why, FAULT_BAD_REQUEST, "reasoning_budget_message",
                      "reasoning_budget_message: it contains %s, which ends the reasoning", f->close);
    budget *b = MEM_NEW(budget);
    if (!b) return refuse_memory(why, "the reasoning budget");
    *out = b;
    atomic_init(&b->users, 1);
    b->tokenizer = tokenizer;
    b->limit = (size_t)budget_limit(a);
    b->starts_open = reader->starts_in_thought;
    snprintf(b->open, sizeof b->open, "%s", f->open);
    snprintf(b->close, sizeof b->close, "%s", f->close);
    return tokenize(b, message, why);
}

/* ---- one answer ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Before a thought: does it begin, may it, or is the answer something else? */
static phase look_for_begin(const thinker *t) {
    const budget *b = t->budget;
    size_t from = 0;
    while (from < t->text.bytes && is_blank(t->text.at[from])) from++;
    const size_t left = t->text.bytes - from, bytes = strlen(b->open), n = left < bytes ? left : bytes;
    if (n && memcmp(t->text.at + from, b->open, n)) return PHASE_OVER;
    return n < bytes ? PHASE_BEFORE : PHASE_INSIDE;
}

/* Inside a thought: is its end among the newest bytes? */
static phase look_for_end(const thinker *t, size_t before) {
    const char *close = t->budget->close;
    const size_t bytes = strlen(close), from = before >= bytes ? before - bytes + 1 : 0;
    const bool is_there = t->text.bytes > from && memmem(t->text.at + from, t->text.bytes - from, close, bytes);
    return is_there ? PHASE_OVER : PHASE_INSIDE;
}

static const place *now(const thinker *t) { return &t->at[t->n]; }

/* The forced token that must come; -1: none must. */
static int32_t must_come(const thinker *t) {
    const budget *b = t->budget;
    const place *p = now(t);
    if (p->phase == PHASE_FORCED) return b->forced[p->n_forced];
    if (p->phase != PHASE_INSIDE || t->n < b->limit) return -1;
    const bool is_whole = utf8_valid_prefix(t->text.bytes ? t->text.at : "", t->text.bytes) == t->text.bytes;
    return is_whole || t->n >= b->limit + LONGEST_WAIT ? b->forced[0] : -1;
}

static bool make_room(thinker *t) {
    if (t->n + 2 <= t->room) return true;
    const size_t room = t->room ? 2 * t->room : 64;
    place *at = mem_resize(t->at, room, sizeof *at);
    if (!at) return false;
    t->at = at;
    t->room = room;
    return true;
}

static void add_bytes(thinker *t, int32_t id) {
    char bytes[LONGEST_TOKEN];
    const int n = qp_token_bytes(t->budget->tokenizer, id, bytes, sizeof bytes);
    if (n > 0) strbuf_add(&t->text, bytes, (size_t)n < sizeof bytes ? (size_t)n : sizeof bytes);
}

static place step(thinker *t, int32_t id) {
    const place before = *now(t);
    place next = before;
    const bool is_forced = must_come(t) >= 0;
    if (before.phase == PHASE_OVER) return next;
    add_bytes(t, id);
    next.bytes = t->text.bytes;
    if (is_forced) {
        next.n_forced = before.n_forced + 1;
        next.phase = next.n_forced == t->budget->n_forced ? PHASE_OVER : PHASE_FORCED;
        return next;
    }
    if (before.phase == PHASE_BEFORE) next.phase = look_for_begin(t);
    if (next.phase == PHASE_INSIDE) next.phase = look_for_end(t, before.phase == PHASE_INSIDE ? before.bytes : 0);
    return next;
}

static qp_status thinker_accept(void *user, int32_t id, qp_error *err) {
    thinker *t = user;
    if (!make_room(t)) return err_no_memory(err, t->room * sizeof *t->at, "the reasoning budget");
    const place next = step(t, id);
    if (t->text.failed) return strbuf_status(&t->text, err, "the reasoning budget");
    t->at[++t->n] = next;
    return QP_OK;
}

static qp_status thinker_mask(void *user, uint32_t *mask, int vocabulary, bool *may_end, qp_error *err) {
    const int32_t id = must_come(user);
    *may_end = id < 0;
    if (id < 0) return QP_OK;
    const uint32_t bit = 1u << (id % 32), kept = id < vocabulary ? mask[id / 32] & bit : 0;
    memset(mask, 0, (((size_t)vocabulary + 31) / 32) * sizeof *mask);
    if (kept) mask[id / 32] = kept;
    return QP_OK;
}

static qp_status thinker_rewind(void *user, size_t n, qp_error *err) {
    thinker *t = user;
    if (n > t->n) return err_set(err, QP_BAD_ARGUMENT, 0, "reasoning budget: %zu tokens to forget of %zu", n, t->n);
    t->n -= n;
    t->text.bytes = now(t)->bytes;
    return QP_OK;
}

static void thinker_free(void *user) {
    thinker *t = user;
    budget_free(t->budget);
    strbuf_free(&t->text);
    mem_free(t->at);
    mem_free(t);
}

/* What completes the prompt's last token begins no thought. */
static qp_status thinker_heal(void *user, const char *text, size_t bytes, qp_error *err) { return QP_OK; }

static qp_status thinker_clone(void *user, qp_filter *out, qp_error *err);

static qp_filter filter_of(thinker *t) {
    return (qp_filter){.user = t,
                       .mask = thinker_mask,
                       .accept = thinker_accept,
                       .rewind = thinker_rewind,
                       .free = thinker_free,
                       .clone = thinker_clone,
                       .heal = thinker_heal};
}

static thinker *thinker_new(budget *b, qp_error *err) {
    thinker *t = MEM_NEW(thinker);
    if (t && make_room(t)) {
        t->budget = hold(b);
        return t;
    }
    if (t) mem_free(t->at);
    mem_free(t);
    err_no_memory(err, sizeof *t, "the reasoning budget");
    return NULL;
}

static qp_status thinker_clone(void *user, qp_filter *out, qp_error *err) {
    const thinker *from = user;
    thinker *t = thinker_new(from->budget, err);
    if (!t) return QP_NO_MEMORY;
    place *row = mem_resize(t->at, from->room, sizeof *row);
    if (row) {
        memcpy(row, from->at, (from->n + 1) * sizeof *row);
        t->at = row;
        t->n = from->n;
        t->room = from->room;
    }
    strbuf_add(&t->text, from->text.bytes ? from->text.at : "", from->text.bytes);
    const qp_status status = row ? strbuf_status(&t->text, err, "the reasoning budget")
                                 : err_no_memory(err, from->room * sizeof *row, "the reasoning budget");
    if (status != QP_OK) return thinker_free(t), status;
    *out = filter_of(t);
    return QP_OK;
}

qp_status budget_filter(qp_filter *out, budget *b, qp_error *err) {
    thinker *t = thinker_new(b, err);
    if (!t) return QP_NO_MEMORY;
    t->at[0] = (place){b->starts_open ? PHASE_INSIDE : PHASE_BEFORE, 0, 0};
    *out = filter_of(t);
    return QP_OK;
}
