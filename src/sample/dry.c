/* dry.c — the DRY penalty as first proposed: for each token that once followed what now stands at the end of the
 * text, the longest such match counts.
 *
 * Seen backwards from its end, the history is a sequence whose beginning is compared with each of its later parts: the
 * Z algorithm does so in one pass, however repetitive the text. No match is counted as longer than dry_max_length nor
 * crosses a breaker, so of its table only that many entries are ever needed. Nothing is kept between steps: rewinding
 * costs nothing. */
#include "dry.h"

enum { MOST_LENGTH = 1024 };

typedef struct backwards {
    const int32_t *newest;
    size_t n; /* tokens looked at */
    int cap;  /* no match is longer */
} backwards;

static inline int32_t token(const backwards *b, size_t i) { return *(b->newest - i); }

static bool is_breaker(const logit_row *row, const uint32_t *breakers, int32_t id) {
    return id < 0 || id >= row->n || (breakers && row_bit(breakers, id));
}

static int find_cap(const backwards *b, const logit_row *row, const uint32_t *breakers, int most) {
    int cap = 0;
    while (cap < most && (size_t)cap < b->n && !is_breaker(row, breakers, token(b, (size_t)cap))) cap++;
    return cap;
}

static void note(sampler_room *room, int *n_ids, int32_t id, int length) {
    if (!room->dry_length[id]) room->dry_ids[(*n_ids)++] = id;
    if (length > room->dry_length[id]) {
        room->dry_length[id] = length;
        room->dry_count[id] = 0;
    }
    room->dry_count[id] += length == room->dry_length[id];
}

/* How far the sequence from i on is like its beginning, of which `length` is known. */
static int match_from(const backwards *b, size_t i, int length) {
    while (length < b->cap && i + (size_t)length < b->n && token(b, i + (size_t)length) == token(b, (size_t)length))
        length++;
    return length;
}

static int find_matches(sampler_room *room, const backwards *b, const uint32_t *breakers, int least) {
    int z[MOST_LENGTH] = {0}, n_ids = 0; /* z[i]: the match from i on */
    const int32_t newest = token(b, 0);
    size_t left = 0, right = 0; /* the match that reaches furthest */
    for (size_t i = 1; i < b->n; i++) {
        if (i >= right && token(b, i) != newest) continue;
        int length = i < right ? z[i - left] : 0;
        if (i + (size_t)length >= right) {
            length = match_from(b, i, i < right ? (int)(right - i) : 0);
            left = i;
            right = i + (size_t)length;
        }
        if (i < (size_t)b->cap) z[i] = length;
        if (length >= least && !is_breaker(&room->row, breakers, token(b, i - 1)))
            note(room, &n_ids, token(b, i - 1), length);
    }
    return n_ids;
}

static double power(double base, int n) {
    double result = 1;
    for (; n; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}

static void penalise(sampler_room *room, const qp_sampling *s, int n_ids) {
    for (int i = 0; i < n_ids; i++) {
        const int32_t id = room->dry_ids[i];
        const int count = s->dry_count ? room->dry_count[id] : 1;
        const double penalty =
            s->dry_multiplier * power(s->dry_base, room->dry_length[id] - s->dry_allowed_length) * count;
        float *logit = row_touch(&room->row, id);
        if (logit) *logit = row_within(*logit, *logit - (float)penalty);
        room->dry_length[id] = room->dry_count[id] = 0;
    }
}

void dry_apply(sampler_room *room, const qp_sampling *s, const uint32_t *breakers, const int32_t *history, size_t n) {
    const size_t range = s->dry_range ? (size_t)s->dry_range : n;
    if (!n) return;
    backwards b = {history + n - 1, n < range ? n : range, 0};
    b.cap = find_cap(&b, &room->row, breakers, s->dry_max_length);
    if (b.cap >= s->dry_allowed_length) penalise(room, s, find_matches(room, &b, breakers, s->dry_allowed_length));
}
