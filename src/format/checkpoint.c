/* checkpoint.c — the files of a model folder -> one table of tensors with a hash index.
 *
 * Which files: model.safetensors, else what model.safetensors.index.json names, else all model-*.safetensors (the order
 * in which transformers looks), else all *.safetensors; a GGUF file with its splits. Where there are
 * output*.safetensors (ExLlamaV2's) an index is what was left of the source. The tricky thing: an index is hostile too,
 * so a name in it must stay inside the folder, and what it promises must be in the file it names. */
#include "checkpoint.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "gguf_meta.h"
#include "safetensors.h"
#include <stdio.h>

enum { PATH_BYTES = 4096, MAX_FILES = 4096, MAX_ENTRIES = 100000, INDEX_LIMIT = 16 << 20, SHOWN = 128 };

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"

typedef struct ckpt_file {
    char *name; /* in the folder */
    bool is_gguf;
    safetensors data; /* of one kind of file, */
    gguf blocks;      /* of the other */
} ckpt_file;

struct checkpoint {
    ckpt_file *files;
    int n_files;
    ckpt_tensor *tensors;
    size_t n_tensors;
    uint32_t *buckets; /* index + 1 of a tensor; 0: empty. n_buckets is a power of two above n_tensors */
    size_t n_buckets;
    uint64_t bytes;
    arena names; /* those that differ from the files' */
    bool rests;
};

void checkpoint_close(checkpoint *c) {
    if (!c) return;
    for (int i = 0; i < c->n_files; i++) {
        safetensors_close(&c->files[i].data);
        gguf_close(&c->files[i].blocks);
        mem_free(c->files[i].name);
    }
    mem_free(c->files);
    mem_free(c->tensors);
    mem_free(c->buckets);
    arena_free(&c->names);
    mem_free(c);
}

static size_t n_tensors_of(const ckpt_file *f) { return f->is_gguf ? f->blocks.n_tensors : f->data.n_tensors; }
static const ckpt_tensor *tensor_of(const ckpt_file *f, size_t i) {
    return f->is_gguf ? &f->blocks.tensors[i] : &f->data.tensors[i];
}
static const file_map *map_of(const ckpt_file *f) { return f->is_gguf ? &f->blocks.map : &f->data.map; }

/* ---- finding the files ---- */

static qp_status add_file(checkpoint *c, const char *name, const char *folder, qp_error *err) {
    if (c->n_files == MAX_FILES)
        return err_set(err, QP_TOO_LARGE, 0, "%s: more than %d files of weights", folder, MAX_FILES);
    if (!(c->n_files & (c->n_files - 1))) { /* full at every power of two */
        ckpt_file *more = mem_resize(c->files, c->n_files ? (size_t)c->n_files * 2 : 1, sizeof *more);
        if (!more) return err_no_memory(err, (size_t)c->n_files * sizeof *more, folder);
        c->files = more;
    }
    char *copy = mem_copy_text(name, strlen(name));
    if (!copy) return err_no_memory(err, strlen(name), folder);
    c->files[c->n_files++] = (ckpt_file){.name = copy};
    return QP_OK;
}

static bool stays_inside(const char *name) {
    return *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/');
}

/* Whether the name begins so and is that of a safetensors file. */
static bool is_shard(const char *name, const char *begin) {
    const span s = span_of(name);
    return span_starts(s, span_of(begin)) && s.bytes > 12 && !strcmp(name + s.bytes - 12, ".safetensors");
}

/* Every file that the index names, once, in the order of first mention. */
static qp_status files_of_index(checkpoint *c, const json_t *map, const char *folder, const char *where,
                                qp_error *err) {
    const char *tensor;
    json_t *file, *seen = json_object();
    qp_status status = seen ? QP_OK : err_no_memory(err, 0, where);
    json_object_foreach((json_t *)map, tensor, file) {
        if (status != QP_OK) break;
        const char *name = json_string_value(file);
        char a[SHOWN], b[SHOWN];
        if (!name)
            status = err_set(err, QP_BAD_FORMAT, 0, "%s: the file of tensor \"%s\" is %s, expected a string", where,
                             utf8_shown(a, SHOWN, tensor), json_kind(file));
        else if (!stays_inside(name))
            status =
                err_set(err, QP_BAD_FORMAT, 0, "%s: tensor \"%s\" is in \"%s\", expected a file of the same folder",
                        where, utf8_shown(a, SHOWN, tensor), utf8_shown(b, SHOWN, name));
        else if (!json_object_get(seen, name)) {
            if (json_object_set_new(seen, name, json_true()))
                status = err_no_memory(err, 0, where);
            else
                status = add_file(c, name, folder, err);
        }
    }
    json_decref(seen);
    return status;
}

/* *map is the index' "weight_map"; *root owns it. */
static qp_status load_index(json_t **root, json_t **map, const char *path, qp_error *err) {
    ERR_TRY(json_load_path(root, path, INDEX_LIMIT, err));
    if (!json_is_object(*root))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object", path, json_kind(*root));
    ERR_TRY(json_need(*root, "weight_map", path, err));
    return json_get_object(*root, "weight_map", map, path, err);
}

/* Names a shard "model-00002-of-00005.safetensors" that is missing among those found. */
static qp_status check_numbering(const checkpoint *c, const char *folder, qp_error *err) {
    int total = 0, number, end = 0;
    if (sscanf(c->files[0].name, "model-%5d-of-%5d%n", &number, &total, &end) != 2) return QP_OK;
    for (int i = 1; i <= total && i <= MAX_FILES; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "model-%05d-of-%05d.safetensors", i, total);
        bool is_there = false;
        for (int j = 0; j < c->n_files && !is_there; j++) is_there = !strcmp(c->files[j].name, expected);
        if (!is_there)
            return err_set(err, QP_NO_FILE, 0, "%s/%s: no such file; %d of %d shards are there", folder, expected,
                           c->n_files, total);
    }
    return QP_OK;
}

/* Files whose names begin so. */
static qp_status add_shards(checkpoint *c, const char *begin, const char *folder, qp_error *err) {
    char **names;
    size_t count;
    ERR_TRY(file_list(&names, &count, folder, MAX_ENTRIES, err));
    qp_status status = QP_OK;
    for (size_t i = 0; i < count && status == QP_OK; i++)
        if (is_shard(names[i], begin)) status = add_file(c, names[i], folder, err);
    mem_free(names);
    return status;
}

static qp_status find_shards(checkpoint *c, const char *folder, qp_error *err) {
    ERR_TRY(add_shards(c, "model-", folder, err));
    if (c->n_files) return check_numbering(c, folder, err);
    ERR_TRY(add_shards(c, "", folder, err));
    if (c->n_files) return QP_OK;
    return err_set(err, QP_NO_FILE, 0, "%s: no weights: neither " SINGLE_NAME " nor " INDEX_NAME " nor *.safetensors",
                   folder);
}

/* ---- one table ---- */

static size_t bucket_of(const checkpoint *c, const char *name) {
    size_t at = hash_bytes(name, strlen(name), 0) & (c->n_buckets - 1);
    while (c->buckets[at] && strcmp(c->tensors[c->buckets[at] - 1].name, name)) at = (at + 1) & (c->n_buckets - 1);
    return at;
}

/* The name that the rest of the engine knows, where there is one. */
static qp_status rename_tensor(checkpoint *c, ckpt_tensor *t, qp_error *err) {
    char name[CKPT_MAX_NAME];
    if (!gguf_tensor_name(name, sizeof name, t->name)) return QP_OK;
    t->name = arena_text(&c->names, name, strlen(name));
    return t->name ? QP_OK : err_no_memory(err, strlen(name), "the name of a tensor");
}

static qp_status add_tensors(checkpoint *c, int file, const char *folder, qp_error *err) {
    const ckpt_file *f = &c->files[file];
    for (size_t i = 0; i < n_tensors_of(f); i++) {
        ckpt_tensor *t = &c->tensors[c->n_tensors];
        *t = *tensor_of(f, i);
        t->file = file;
        if (f->is_gguf) ERR_TRY(rename_tensor(c, t, err));
        uint32_t *bucket = &c->buckets[bucket_of(c, t->name)];
        char a[SHOWN];
        if (*bucket)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: tensor \"%s\" is in both %.60s and %.60s", folder,
                           utf8_shown(a, SHOWN, t->name), c->files[c->tensors[*bucket - 1].file].name,
                           c->files[file].name);
        *bucket = (uint32_t)++c->n_tensors;
        c->bytes += t->bytes;
    }
    return QP_OK;
}

static qp_status join_files(checkpoint *c, const char *folder, qp_error *err) {
    size_t total = 0;
    for (int i = 0; i < c->n_files; i++) total += n_tensors_of(&c->files[i]);
    if (total >= UINT32_MAX / 4) return err_set(err, QP_TOO_LARGE, 0, "%s: %zu tensors", folder, total);
    for (c->n_buckets = 16; c->n_buckets < 2 * total;) c->n_buckets *= 2;
    c->tensors = mem_zarray(total, sizeof *c->tensors);
    c->buckets = mem_zarray(c->n_buckets, sizeof *c->buckets);
    if (!c->tensors || !c->buckets) return err_no_memory(err, total * sizeof *c->tensors, folder);
    for (int i = 0; i < c->n_files; i++) ERR_TRY(add_tensors(c, i, folder, err));
    return QP_OK;
}

static qp_status open_files(checkpoint *c, const char *folder, qp_error *err) {
    for (int i = 0; i < c->n_files; i++) {
        char path[PATH_BYTES];
        ERR_TRY(file_join(path, sizeof path, folder, c->files[i].name, err));
        if (c->files[i].is_gguf)
            ERR_TRY(gguf_open(&c->files[i].blocks, path, err));
        else
            ERR_TRY(safetensors_open(&c->files[i].data, path, err));
    }
    return join_files(c, folder, err);
}

/* What the index promises must be there, in the file it says. */
static qp_status check_index(const checkpoint *c, const json_t *map, const char *where, qp_error *err) {
    const char *name;
    json_t *file;
    json_object_foreach((json_t *)map, name, file) {
        const ckpt_tensor *t = checkpoint_find(c, name);
        const char *is_in = t ? c->files[t->file].name : "none of the files", *said = json_string_value(file);
        char a[SHOWN];
        if (strcmp(is_in, said))
            return err_set(err, QP_BAD_FORMAT, 0, "%s: tensor \"%s\" is said to be in %.80s, but is in %.80s", where,
                           utf8_shown(a, SHOWN, name), said, is_in);
    }
    return QP_OK;
}

static qp_status open_by_index(checkpoint *c, const char *folder, const char *path, qp_error *err) {
    json_t *root = NULL, *map = NULL;
    qp_status status = load_index(&root, &map, path, err);
    if (status == QP_OK) status = files_of_index(c, map, folder, path, err);
    if (status == QP_OK && !c->n_files) status = err_set(err, QP_BAD_FORMAT, 0, "%s: \"weight_map\" is empty", path);
    if (status == QP_OK) status = open_files(c, folder, err);
    if (status == QP_OK) status = check_index(c, map, path, err);
    json_decref(root);
    return status;
}

static qp_status open_folder(checkpoint *c, const char *folder, qp_error *err) {
    char single[PATH_BYTES], index[PATH_BYTES];
    ERR_TRY(file_join(single, sizeof single, folder, SINGLE_NAME, err));
    ERR_TRY(file_join(index, sizeof index, folder, INDEX_NAME, err));
    if (file_exists(single)) {
        ERR_TRY(add_file(c, SINGLE_NAME, folder, err));
        return open_files(c, folder, err);
    }
    ERR_TRY(add_shards(c, "output", folder, err));
    if (!c->n_files && file_exists(index)) return open_by_index(c, folder, index, err);
    if (!c->n_files) ERR_TRY(find_shards(c, folder, err));
    return open_files(c, folder, err);
}

/* ---- GGUF ---- */

/* "NAME-00002-of-00005.gguf": the parts of a split file, found by the name of any of them. */
static qp_status add_splits(checkpoint *c, const char *name, const char *folder, qp_error *err) {
    int number = 0, total = 0, end = 0;
    const size_t bytes = strlen(name), tail = strlen("-00001-of-00001.gguf");
    const char *numbers = bytes > tail ? name + bytes - tail : "";
    if (sscanf(numbers, "-%5d-of-%5d.gguf%n", &number, &total, &end) != 2 || (size_t)end != tail || total < 2 ||
        total > MAX_FILES) {
        ERR_TRY(add_file(c, name, folder, err));
        total = 0;
    }
    for (int i = 1; i <= total; i++) {
        char part[PATH_BYTES];
        snprintf(part, sizeof part, "%.*s-%05d-of-%05d.gguf", (int)(bytes - tail), name, i, total);
        ERR_TRY(add_file(c, part, folder, err));
    }
    for (int i = 0; i < c->n_files; i++) c->files[i].is_gguf = true;
    return QP_OK;
}

static qp_status open_gguf(checkpoint *c, const char *path, qp_error *err) {
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int bytes = slash ? (int)(slash - path) : 1;
    if (snprintf(folder, sizeof folder, "%.*s", bytes ? bytes : 1, slash ? path : ".") >= (int)sizeof folder)
        return err_set(err, QP_TOO_LARGE, 0, "%s: the path is longer than %d bytes", path, PATH_BYTES - 1);
    ERR_TRY(add_splits(c, slash ? slash + 1 : path, folder, err));
    return open_files(c, folder, err);
}

qp_status checkpoint_open(checkpoint **out, const char *folder, qp_error *err) {
    *out = NULL;
    checkpoint *c = MEM_NEW(checkpoint);
    if (!c) return err_no_memory(err, sizeof *c, folder);
    char path[PATH_BYTES];
    const qp_status status = gguf_at(path, sizeof path, folder) ? open_gguf(c, path, err) : open_folder(c, folder, err);
    if (status == QP_OK)
        *out = c;
    else
        checkpoint_close(c);
    return status;
}

/* ---- questions ---- */

const ckpt_tensor *checkpoint_find(const checkpoint *c, const char *name) {
    const uint32_t found = c->buckets[bucket_of(c, name)];
    return found ? &c->tensors[found - 1] : NULL;
}

size_t checkpoint_count(const checkpoint *c) { return c->n_tensors; }
const ckpt_tensor *checkpoint_at(const checkpoint *c, size_t i) { return i < c->n_tensors ? &c->tensors[i] : NULL; }
uint64_t checkpoint_bytes(const checkpoint *c) { return c->bytes; }
int checkpoint_n_files(const checkpoint *c) { return c->n_files; }
const char *checkpoint_file_name(const checkpoint *c, int file) {
    return file >= 0 && file < c->n_files ? c->files[file].name : NULL;
}

const char *checkpoint_metadata(const checkpoint *c, const char *key) {
    for (int i = 0; i < c->n_files; i++) {
        const char *value = c->files[i].is_gguf ? NULL : safetensors_metadata(&c->files[i].data, key);
        if (value) return value;
    }
    return NULL;
}

void checkpoint_rest(checkpoint *c) { c->rests = true; }

void checkpoint_will_need(const checkpoint *c, const ckpt_tensor *tensor) {
    if (c->rests) return;
    const file_map *map = map_of(&c->files[tensor->file]);
    file_map_will_need(map, (size_t)(tensor->data - map->at), tensor->bytes);
}

void checkpoint_release(const checkpoint *c, const void *at, size_t bytes) {
    for (int i = 0; i < c->n_files; i++) {
        const file_map *map = map_of(&c->files[i]);
        const uintptr_t offset = (uintptr_t)at - (uintptr_t)map->at;
        if (offset < map->bytes && bytes <= map->bytes - offset) file_map_wont_need(map, offset, bytes);
    }
}
