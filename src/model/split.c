/* split.c — cuts a model's layers among several devices.
 *
 * Called by model.c while a model is opened. Shares follow the layers' order, so a step goes through each device once
 * and only its stream of activations crosses from one to the next.
 *
 * The tricky thing is what "fits" means: the cache of a layer lies where the layer does, and how many tokens there is
 * room for is what the fullest device says. So layers are given out as if each came with so many bytes of cache, and
 * the most bytes with which all of them find a place are searched by halving. */
#include "split.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked for ---- */

static const double GIB = 1 << 30;

/* One entry; `text` moves behind it. */
static bool read_entry(const char **text, double *number, bool *is_layers) {
    char *end;
    if (!strchr("0123456789.", **text) || !**text) return false;
    *number = strtod(*text, &end);
    *is_layers = *end == 'L';
    *text = end + *is_layers;
    return (!**text || **text == ',') && isfinite(*number) && *number > 0 && *number < 1e6;
}

static qp_status not_a_split(const char *text, qp_error *err) {
    return err_set(err, QP_BAD_ARGUMENT, 0,
                   "split: '%.80s', allowed are auto, gibibytes of each GPU as in 20,24, or layers as in 16L,16L, for "
                   "at most %d GPUs",
                   text, DEV_MOST_SHARES);
}

qp_status split_read(split_wish *out, const char *text, qp_error *err) {
    *out = (split_wish){.n = 1};
    if (!text) return QP_OK;
    out->n = 0;
    if (!strcmp(text, "auto")) return QP_OK;
    for (const char *at = text;; at++) {
        double number;
        bool is_layers;
        if (out->n == DEV_MOST_SHARES || !read_entry(&at, &number, &is_layers)) return not_a_split(text, err);
        if (is_layers != out->counts_layers && out->n) return not_a_split(text, err);
        if (is_layers && number != floor(number)) return not_a_split(text, err);
        out->counts_layers = is_layers;
        out->layers[out->n] = (int)number;
        out->bytes[out->n++] = (uint64_t)(number * GIB);
        if (!*at) return QP_OK;
    }
}

/* ---- which layers go where ---- */

/* Fills one device after the other, each layer with so many bytes of cache. */
static bool fill(int *first, int n, const split_sizes *s, uint64_t cache) {
    int layer = 0;
    bool has_room = true;
    for (int i = 0; i < n; i++) {
        uint64_t need = (i == 0 ? s->before : 0) + (i == n - 1 ? s->behind : 0);
        first[i] = layer;
        for (; layer < s->n_layers && need + s->layers[layer] + cache <= s->room[i]; layer++)
            need += s->layers[layer] + cache;
        has_room = has_room && need <= s->room[i];
    }
    first[n] = s->n_layers;
    return has_room && layer == s->n_layers;
}

bool split_balance(int *first, int n, const split_sizes *s) {
    uint64_t fits = 0, fails = 0;
    for (int i = 0; i < n; i++) fails = s->room[i] > fails ? s->room[i] : fails;
    fails++;
    const bool is_possible = fill(first, n, s, 0);
    while (is_possible && fails - fits > 1) {
        const uint64_t middle = fits + (fails - fits) / 2;
        *(fill(first, n, s, middle) ? &fits : &fails) = middle;
    }
    fill(first, n, s, fits);
    return is_possible;
}

qp_status split_count(int *first, const split_wish *wish, int n_layers, qp_error *err) {
    int64_t sum = 0;
    for (int i = 0; i < wish->n; i++) {
        first[i] = (int)(sum < n_layers ? sum : n_layers);
        sum += wish->layers[i];
    }
    first[wish->n] = n_layers;
    if (sum == n_layers) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "split: %lld layers in all, the model has %d", (long long)sum, n_layers);
}

/* ---- the devices ---- */

/* All GPUs from the named one on. */
static int count_gpus(int from) {
    dev_gpu gpu;
    int n = 0;
    while (n < DEV_MOST_SHARES && dev_gpu_at(&gpu, from + n, NULL) == QP_OK) n++;
    return n;
}

static qp_status only_gpus(const char *kind, qp_error *err) {
    return err_set(err, QP_BAD_ARGUMENT, 0, "split: a model can be cut among GPUs, the device is '%.40s'", kind);
}

qp_status split_open(dev_split *out, const split_wish *wish, const dev_options *options, qp_error *err) {
    *out = (dev_split){0};
    const char *kind = options->kind && strcmp(options->kind, "auto") != 0 ? options->kind : "cuda";
    int from = 0, n = wish->n;
    if (n == 1 && !wish->bytes[0]) {
        ERR_TRY(dev_open(&out->dev[0], options, err));
        out->n = 1;
        return QP_OK;
    }
    if (strncmp(kind, "cuda", 4) != 0 || options->cpu_level) return only_gpus(kind, err);
    if (kind[4] == ':') from = atoi(kind + 5); /* the first one's opening finds fault with what is no number */
    if (!n) n = count_gpus(from) ? count_gpus(from) : 1;
    for (; out->n < n; out->n++) {
        char name[32];
        dev_options one = *options;
        snprintf(name, sizeof name, "cuda:%d", from + out->n);
        one.kind = out->n ? name : kind;
        const qp_status status = dev_open(&out->dev[out->n], &one, err);
        if (status != QP_OK) return split_close(out), status;
    }
    for (int i = 1; i < n; i++)
        if (out->dev[i]->most_rows < out->dev[0]->most_rows) out->dev[0]->most_rows = out->dev[i]->most_rows;
    return QP_OK;
}

void split_close(dev_split *s) {
    for (int i = 0; i < s->n; i++) dev_close(s->dev[i]);
    *s = (dev_split){0};
}

void split_name(char *out, size_t capacity, const dev_split *s) {
    size_t used = (size_t)snprintf(out, capacity, "%s", s->dev[0]->name);
    for (int i = 1; i < s->n && used < capacity; i++) {
        const char *number = strchr(s->dev[i]->name, ':');
        used += (size_t)snprintf(out + used, capacity - used, "+%s", number ? number + 1 : s->dev[i]->name);
    }
}
