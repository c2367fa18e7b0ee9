/* added.c — added tokens: texts that become one id wherever they stand. */
#include "added.h"
#include "uni.h"
#include "vocab.h"

/* ---- the set ---- */

static uint32_t hash_id(int32_t id) { return (uint32_t)id * 0x9E3779B9u; }

static bool find_text(const added *a, span content, uint32_t *slot) {
    *slot = vocab_hash(content.at, content.bytes) & (a->n_slots - 1);
    for (; a->text_slots[*slot]; *slot = (*slot + 1) & (a->n_slots - 1))
        if (span_equal(a->tokens[a->text_slots[*slot] - 1].content, content)) return true;
    return false;
}

static bool find_id(const added *a, int32_t id, uint32_t *slot) {
    *slot = hash_id(id) & (a->n_slots - 1);
    for (; a->slots[*slot]; *slot = (*slot + 1) & (a->n_slots - 1))
        if (a->tokens[a->slots[*slot] - 1].id == id) return true;
    return false;
}

static bool grow(added *a) {
    const int capacity = a->capacity ? a->capacity * 2 : 16;
    added_token *tokens = mem_resize(a->tokens, (size_t)capacity, sizeof *tokens);
    if (!tokens) return false;
    a->tokens = tokens;
    uint32_t *slots = mem_zarray((size_t)capacity * 4, sizeof *slots),
             *texts = mem_zarray((size_t)capacity * 4, sizeof *texts);
    if (!slots || !texts) {
        mem_free(slots);
        mem_free(texts);
        return false;
    }
    mem_free(a->slots);
    mem_free(a->text_slots);
    a->slots = slots;
    a->text_slots = texts;
    a->n_slots = (uint32_t)capacity * 4;
    a->capacity = capacity;
    for (int i = 0; i < a->n; i++) {
        uint32_t slot;
        find_text(a, tokens[i].content, &slot);
        texts[slot] = (uint32_t)i + 1;
        find_id(a, tokens[i].id, &slot);
        slots[slot] = (uint32_t)i + 1;
    }
    return true;
}

qp_status added_put(added *a, const added_token *token, qp_error *err) {
    uint32_t slot;
    if (a->n == 0) a->highest = -1;
    if (a->n >= 1 << 22) return err_set(err, QP_TOO_LARGE, 0, "added tokens: more than %d", 1 << 22);
    if (a->n == a->capacity && !grow(a)) return err_no_memory(err, sizeof *token, "added tokens");
    if (find_text(a, token->content, &slot)) {
        added_token *old = &a->tokens[a->text_slots[slot] - 1];
        const span content = old->content;
        const bool was_special = old->special;
        *old = *token;
        old->content = content;
        old->special |= was_special;
        return QP_OK;
    }
    const char *text = arena_text(&a->texts, token->content.at, token->content.bytes);
    if (!text) return err_no_memory(err, token->content.bytes, "added tokens");
    a->tokens[a->n] = *token;
    a->tokens[a->n].content.at = text;
    a->text_slots[slot] = (uint32_t)++a->n;
    find_id(a, token->id, &slot);
    a->slots[slot] = (uint32_t)a->n;
    if (token->id > a->highest) a->highest = token->id;
    return QP_OK;
}

const added_token *added_by_id(const added *a, int32_t id) {
    uint32_t slot;
    return a->n && find_id(a, id, &slot) ? &a->tokens[a->slots[slot] - 1] : NULL;
}

const added_token *added_by_text(const added *a, span content) {
    uint32_t slot;
    return a->n && find_text(a, content, &slot) ? &a->tokens[a->text_slots[slot] - 1] : NULL;
}

void added_free(added *a) {
    mem_free(a->tokens);
    mem_free(a->slots);
    mem_free(a->text_slots);
    mem_free(a->raw.nodes);
    mem_free(a->normalized.nodes);
    arena_free(&a->texts);
    *a = (added){0};
}

/* ---- the tries ---- */

static uint32_t new_node(added_trie *t, uint8_t byte) {
    if (t->n == t->capacity) {
        const uint32_t capacity = t->capacity ? t->capacity * 2 : 64;
        added_node *nodes = mem_resize(t->nodes, capacity, sizeof *nodes);
        if (!nodes) return 0;
        t->nodes = nodes;
        t->capacity = capacity;
    }
    if (t->n == 0) t->nodes[t->n++] = (added_node){.token = -1}; /* 0 means none */
    if (t->n == t->capacity) return new_node(t, byte);
    t->nodes[t->n] = (added_node){.token = -1, .byte = byte};
    return t->n++;
}

static uint32_t child_of(const added_trie *t, uint32_t node, uint8_t byte) {
    uint32_t child = t->nodes[node].child;
    while (child && t->nodes[child].byte != byte) child = t->nodes[child].sibling;
    return child;
}

bool added_insert(added_trie *t, span text, int token) {
    if (!text.bytes) return true;
    uint32_t node = t->roots[(uint8_t)text.at[0]];
    if (!node) {
        node = new_node(t, (uint8_t)text.at[0]);
        if (!node) return false;
        t->roots[(uint8_t)text.at[0]] = node;
    }
    for (size_t i = 1; i < text.bytes; i++) {
        uint32_t child = child_of(t, node, (uint8_t)text.at[i]);
        if (!child) {
            child = new_node(t, (uint8_t)text.at[i]);
            if (!child) return false;
            t->nodes[child].sibling = t->nodes[node].child;
            t->nodes[node].child = child;
        }
        node = child;
    }
    if (t->nodes[node].token < 0) t->nodes[node].token = token;
    return true;
}

static qp_status set_shown(added *a, added_token *token, span text, qp_error *err) {
    token->shown = token->content;
    if (!span_equal(text, token->content)) {
        const char *copy = arena_text(&a->texts, text.at, text.bytes);
        if (!copy) return err_no_memory(err, text.bytes, "added tokens");
        token->shown = (span){copy, text.bytes};
    }
    const added_token *same = added_by_text(a, token->shown);
    token->is_hidden = same && same->special;
    return QP_OK;
}

/* Special tokens go first: of two that normalise to the same text, the reference's order decides. */
qp_status added_finish(added *a, added_normalize *normalize, void *context, qp_error *err) {
    for (int i = 0; i < a->n * 2; i++) {
        added_token *token = &a->tokens[i % a->n];
        if (token->special != (i < a->n)) continue;
        span text = token->content;
        if (token->normalized) ERR_TRY(normalize(context, token->content, &text, err));
        if (!added_insert(token->normalized ? &a->normalized : &a->raw, text, i % a->n))
            return err_no_memory(err, text.bytes * sizeof(added_node), "added tokens");
        ERR_TRY(set_shown(a, token, text, err));
    }
    return QP_OK;
}

/* ---- finding ---- */

/* The longest token that begins at `at`, -1 if none does. */
static int longest_at(const added_trie *t, span text, size_t at, size_t *end) {
    int found = -1;
    uint32_t node = t->roots[(uint8_t)text.at[at]];
    while (node) {
        at++;
        if (t->nodes[node].token >= 0) {
            found = t->nodes[node].token;
            *end = at;
        }
        node = at < text.bytes ? child_of(t, node, (uint8_t)text.at[at]) : 0;
    }
    return found;
}

size_t added_longest(const added_trie *t, span text) {
    size_t end = 0;
    return t->n && text.bytes && longest_at(t, text, 0, &end) >= 0 ? end : 0;
}

static bool stands_alone(span text, size_t start, size_t end) {
    uint32_t c;
    if (start && (uni_last(text.at, start, &c), uni_is(c, UNI_WORD))) return false;
    return end == text.bytes || (uni_next(text.at + end, &c), !uni_is(c, UNI_WORD));
}

static void take_spaces(span text, const added_token *token, size_t done, added_match *m) {
    uint32_t c;
    for (int n; token->lstrip && m->start > done; m->start -= (size_t)n) {
        n = uni_last(text.at, m->start, &c);
        if (!uni_is(c, UNI_SPACE)) break;
    }
    for (int n; token->rstrip && m->end < text.bytes; m->end += (size_t)n) {
        n = uni_next(text.at + m->end, &c);
        if (!uni_is(c, UNI_SPACE)) break;
    }
}

bool added_next(const added *a, bool in_normalized, bool skip_special, span text, size_t *from, size_t done,
                added_match *match) {
    const added_trie *t = in_normalized ? &a->normalized : &a->raw;
    if (!t->n) return false;
    for (size_t at = *from; at < text.bytes; at++) {
        size_t end = 0;
        const int found = longest_at(t, text, at, &end);
        if (found < 0) continue;
        const added_token *token = &a->tokens[found];
        *from = end;
        if ((skip_special && token->special) || (token->single_word && !stands_alone(text, at, end))) {
            at = end - 1; /* what it covers is not looked at again, as in the reference */
            continue;
        }
        *match = (added_match){at, end, token};
        take_spaces(text, token, done, match);
        return true;
    }
    *from = text.bytes;
    return false;
}
