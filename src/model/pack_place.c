/* pack_place.c — the name of the file of packed weights, and a number for what they are made of.
 *
 * Called by model.c. A model has one such file in a folder, whatever becomes of the model's own files: an old one is
 * written over. The tricky thing is to notice a change without reading gigabytes: names, sizes and times of writing
 * of all files tell, as they tell `make`. */
#include "pack_place.h"
#include "base/file.h"
#include "base/hash.h"
#include "format/gguf.h"
#include <stdio.h>
#include <string.h>

#define BESIDE "model"
#define ENDING ".packed"

static qp_status add_stamp(uint64_t *sum, const char *folder, const char *name, qp_error *err) {
    char path[4096];
    uint64_t stamp[2] = {0};
    ERR_TRY(file_join(path, sizeof path, folder, name, err));
    file_stamp(&stamp[0], &stamp[1], path);
    *sum = hash_bytes(stamp, sizeof stamp, hash_bytes(name, strlen(name), *sum));
    return QP_OK;
}

static qp_status source_of(uint64_t *out, const char *folder, const char *as, const checkpoint *c, qp_error *err) {
    uint64_t sum = hash_bytes(QUIPU_VERSION, strlen(QUIPU_VERSION), 0);
    if (as) sum = hash_bytes(as, strlen(as), sum);
    ERR_TRY(add_stamp(&sum, folder, "config.json", err));
    for (int i = 0; i < checkpoint_n_files(c); i++) ERR_TRY(add_stamp(&sum, folder, checkpoint_file_name(c, i), err));
    *out = sum;
    return QP_OK;
}

/* "FOLDER/NAME-0123456789abcdef.packed", of the model's name and its whole path. */
static qp_status name_in(char *out, size_t capacity, const char *folder, const char *model, qp_error *err) {
    char real[4096];
    ERR_TRY(file_real(real, sizeof real, model, err));
    const char *slash = strrchr(real, '/');
    const int bytes = snprintf(out, capacity, "%s/%.100s-%016llx" ENDING, folder, slash ? slash + 1 : real,
                               (unsigned long long)hash_bytes(real, strlen(real), 0));
    return bytes < (int)capacity ? QP_OK : err_set(err, QP_TOO_LARGE, 0, "%s: the path is too long", folder);
}

qp_status pack_place_find(pack_place *out, const char *where, const char *model, const char *as, const checkpoint *c,
                          qp_error *err) {
    char file[4096], folder[4096];
    const bool is_gguf = gguf_at(file, sizeof file, model), is_beside = !strcmp(where, BESIDE);
    const char *slash = is_gguf ? strrchr(file, '/') : NULL;
    if (!is_gguf)
        snprintf(folder, sizeof folder, "%s", model);
    else
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) + 1 : 1, slash ? file : ".");
    ERR_TRY(source_of(&out->source, folder, as, c, err));
    if (!is_beside && !file_is_folder(where))
        return err_set(err, QP_BAD_ARGUMENT, 0, "pack cache: %.200s is not a folder; " BESIDE " means the model's own",
                       where);
    if (!is_beside) return name_in(out->path, sizeof out->path, where, is_gguf ? file : model, err);
    const int bytes =
        snprintf(out->path, sizeof out->path, "%s%s", is_gguf ? file : folder, is_gguf ? ENDING : "/quipu" ENDING);
    return bytes < (int)sizeof out->path ? QP_OK : err_set(err, QP_TOO_LARGE, 0, "%s: the path is too long", model);
}
