/* rate.c — a bucket for each key: as many requests at once as the minute allows, refilled evenly.
 *
 * Asked by gate.c on the network thread, for keys that are good: so there are no more buckets than keys, and the
 * longest unused one makes room where keys have changed. Keys are told apart by their hash, of which nobody else
 * learns. */
#include "rate.h"
#include "base/hash.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { MOST_KEYS = 1024, LONGEST_WAIT = 60 };

typedef struct bucket {
    uint64_t key;
    double left, at; /* requests that may come; when that was so */
} bucket;

struct rate_limit {
    double per_minute;
    bucket buckets[MOST_KEYS];
    int n;
};

qp_status rate_new(rate_limit **out, int64_t per_minute, qp_error *err) {
    *out = NULL;
    if (!per_minute) return QP_OK;
    *out = MEM_NEW(rate_limit);
    if (!*out) return err_no_memory(err, sizeof **out, "the counts of requests");
    (*out)->per_minute = (double)per_minute;
    return QP_OK;
}

void rate_free(rate_limit *r) { mem_free(r); }

static bucket *find(rate_limit *r, uint64_t key, double now) {
    bucket *oldest = r->buckets;
    for (bucket *b = r->buckets; b < r->buckets + r->n; b++) {
        if (b->key == key) return b;
        if (b->at < oldest->at) oldest = b;
    }
    bucket *fresh = r->n < MOST_KEYS ? &r->buckets[r->n++] : oldest;
    *fresh = (bucket){key, r->per_minute, now};
    return fresh;
}

int rate_take(rate_limit *r, const char *key, double now) {
    if (!r) return 0;
    bucket *b = find(r, hash_bytes(key, strlen(key), 0), now);
    b->left = fmin(r->per_minute, b->left + (now - b->at) * r->per_minute / 60);
    b->at = now;
    if (b->left >= 1) return b->left -= 1, 0;
    const double seconds = ceil((1 - b->left) * 60 / r->per_minute);
    return seconds < 1 ? 1 : seconds > LONGEST_WAIT ? LONGEST_WAIT : (int)seconds;
}
