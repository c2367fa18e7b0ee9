/* hold.c — text and tokens between the sampler and the reader.
 *
 * Called by emit.c after each token. Held back is only the longest end of the text that may still become a stop text
 * or a banned text; all before it is shown at once. A token is shown when all its text is. The tricky thing: tokens
 * that say half a character have no text of their own; they share the end of the token that completes it. */
#include "hold.h"
#include "base/mem.h"

qp_status hold_open(hold *h, const hold_setup *setup, qp_error *err) {
    *h = (hold){.n_top = setup->n_top, .n_logits = setup->n_logits};
    ERR_TRY(match_open(&h->stops, setup->stops, setup->n_stops, false, "stop text", err));
    return match_open(&h->bans, setup->bans, setup->n_bans, true, "banned text", err);
}

void hold_close(hold *h) {
    match_close(&h->stops);
    match_close(&h->bans);
    strbuf_free(&h->text);
    strbuf_free(&h->folded);
    mem_free(h->tokens);
    mem_free(h->top);
    mem_free(h->logits);
    *h = (hold){0};
}

/* ---- adding ---- */

static void set_pointers(hold *h) {
    for (size_t i = 0; i < h->n_tokens; i++) {
        h->tokens[i].item.top = h->top ? h->top + i * (size_t)h->n_top : NULL;
        h->tokens[i].item.logits = h->logits ? h->logits + i * h->n_logits : NULL;
    }
}

static bool grow(hold *h) {
    const size_t n = h->capacity ? 2 * h->capacity : 8, n_top = (size_t)h->n_top;
    held_token *tokens = mem_resize(h->tokens, n, sizeof *tokens);
    if (tokens) h->tokens = tokens;
    qp_candidate *top = n_top ? mem_resize(h->top, n, n_top * sizeof *top) : NULL;
    if (top) h->top = top;
    float *logits = h->n_logits ? mem_resize(h->logits, n, h->n_logits * sizeof *logits) : NULL;
    if (logits) h->logits = logits;
    set_pointers(h);
    if (!tokens || (n_top && !top) || (h->n_logits && !logits)) return false;
    h->capacity = n;
    return true;
}

static qp_status add_text(hold *h, span text, qp_error *err) {
    strbuf_add(&h->text, text.at, text.bytes);
    if (h->bans.n && text.bytes) {
        const size_t at = h->folded.bytes;
        strbuf_add(&h->folded, text.at, text.bytes);
        if (!h->folded.failed) match_fold(h->folded.at + at, text.bytes);
    }
    ERR_TRY(strbuf_status(&h->folded, err, "generated text"));
    return strbuf_status(&h->text, err, "generated text");
}

static void settle(hold *h) {
    for (size_t i = h->n_tokens; i-- && h->tokens[i].is_open;) {
        h->tokens[i].is_open = false;
        h->tokens[i].end = h->shown + h->text.bytes;
    }
}

qp_status hold_add(hold *h, const mailbox_item *item, span text, bool settled, qp_error *err) {
    if (h->n_tokens == h->capacity && !grow(h)) return err_no_memory(err, h->n_tokens, "generated tokens");
    ERR_TRY(add_text(h, text, err));
    const size_t i = h->n_tokens++;
    h->tokens[i] = (held_token){.item = *item, .end = UINT64_MAX, .is_open = true};
    if (h->top) memcpy(h->top + i * (size_t)h->n_top, item->top, (size_t)item->n_top * sizeof *item->top);
    if (h->logits && item->logits) memcpy(h->logits + i * h->n_logits, item->logits, h->n_logits * sizeof(float));
    set_pointers(h);
    if (settled) settle(h);
    return QP_OK;
}

qp_status hold_add_rest(hold *h, span text, qp_error *err) {
    ERR_TRY(add_text(h, text, err));
    settle(h);
    return QP_OK;
}

/* ---- looking ---- */

static span text_of(const hold *h, const match_set *m) {
    const strbuf *b = m->any_case ? &h->folded : &h->text;
    return (span){b->at, b->bytes};
}

int64_t hold_find_banned(hold *h) {
    match found;
    if (!match_find(&h->bans, text_of(h, &h->bans), h->bans_done, &found)) {
        h->bans_done = h->text.bytes;
        return -1;
    }
    size_t token = 0;
    while (token + 1 < h->n_tokens && h->tokens[token].end <= h->shown + found.at) token++;
    return (int64_t)token;
}

int hold_find_stop(hold *h, size_t *at) {
    match found;
    if (!match_find(&h->stops, text_of(h, &h->stops), h->stops_done, &found)) {
        h->stops_done = h->text.bytes;
        return -1;
    }
    *at = found.at;
    return found.index;
}

/* ---- forgetting ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void cut_text(strbuf *b, size_t bytes) {
    if (b->at && bytes < b->bytes) b->at[b->bytes = bytes] = 0;
}

void hold_cut(hold *h, size_t token) {
    const uint64_t end = token ? h->tokens[token - 1].end : h->shown;
    const size_t bytes = (size_t)(end - h->shown);
    h->n_tokens = token;
    cut_text(&h->text, bytes);
    cut_text(&h->folded, bytes);
    h->stops_done = least(h->stops_done, bytes);
    h->bans_done = least(h->bans_done, bytes);
}

size_t hold_tokens_within(const hold *h, size_t bytes) {
    size_t n = 0;
    while (n < h->n_tokens && !h->tokens[n].is_open && h->tokens[n].end <= h->shown + bytes) n++;
    return n;
}

void hold_ready(const hold *h, bool all, size_t *bytes, size_t *n_tokens) {
    const size_t stop = match_tail(&h->stops, text_of(h, &h->stops));
    const size_t ban = match_tail(&h->bans, text_of(h, &h->bans));
    *bytes = all ? h->text.bytes : h->text.bytes - (stop > ban ? stop : ban);
    *n_tokens = all ? h->n_tokens : hold_tokens_within(h, *bytes);
}

static void drop_text(strbuf *b, size_t bytes) {
    if (!b->at || !bytes) return;
    b->bytes -= bytes;
    memmove(b->at, b->at + bytes, b->bytes + 1);
}

void hold_drop(hold *h, size_t bytes, size_t n_tokens) {
    const size_t left = h->n_tokens - n_tokens, n_top = (size_t)h->n_top;
    h->shown += bytes;
    drop_text(&h->text, bytes);
    if (h->folded.at) drop_text(&h->folded, bytes);
    h->stops_done -= least(h->stops_done, bytes);
    h->bans_done -= least(h->bans_done, bytes);
    if (n_tokens && left) {
        memmove(h->tokens, h->tokens + n_tokens, left * sizeof *h->tokens);
        if (h->top) memmove(h->top, h->top + n_tokens * n_top, left * n_top * sizeof *h->top);
        if (h->logits) memmove(h->logits, h->logits + n_tokens * h->n_logits, left * h->n_logits * sizeof(float));
    }
    h->n_tokens = left;
    set_pointers(h);
}
