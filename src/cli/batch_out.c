/* batch_out.c — the results of a batch: to stdout, or to a file that a later run goes on with.
 *
 * A line is known by its id, or by its index where it has none. A run that was killed may have left half a line at the
 * end: it is cut off and made anew. Anything else that is no result refuses the file, so that none is spoilt. */
#include "batch.h"
#include <errno.h>
#include <unistd.h>

void batch_key(char *key, size_t capacity, const char *id, uint64_t index) {
    if (id)
        snprintf(key, capacity, "%s", id);
    else
        snprintf(key, capacity, "#%llu", (unsigned long long)index);
}

/* Notes one result of an earlier run. */
static qp_status note(batch_out *out, const json_t *line, size_t at, qp_error *err) {
    const json_t *id = json_object_get(line, "id"), *index = json_object_get(line, "index");
    char key[512];
    if (!json_is_integer(index) || !id)
        return err_set(err, QP_BAD_FORMAT, at, "%.300s: byte %zu is the beginning of something else than a result",
                       out->path, at);
    char *text = json_is_null(id) ? NULL : json_dumps(id, JSON_ENCODE_ANY);
    batch_key(key, sizeof key, text, (uint64_t)json_integer_value(index));
    free(text);
    out->n_failed_before += json_object_get(line, "error") != NULL;
    return json_object_set_new(out->done, key, json_true()) ? err_no_memory(err, 0, out->path) : QP_OK;
}

/* Reads what is there; *good is where whole results end. */
static qp_status read_done(batch_out *out, off_t *good, qp_error *err) {
    char *line = NULL;
    size_t capacity = 0;
    qp_status status = QP_OK;
    *good = 0;
    for (ssize_t n; status == QP_OK && (n = getline(&line, &capacity, out->file)) > 0 && line[n - 1] == '\n';
         *good += n) {
        json_t *document;
        status = json_parse(&document, line, (size_t)n, out->path, err);
        if (status != QP_OK) break;
        status = note(out, document, (size_t)*good, err);
        json_decref(document);
    }
    if (status == QP_OK && ferror(out->file)) status = err_set(err, QP_IO, 0, "%.300s: %s", out->path, strerror(errno));
    free(line);
    return status;
}

qp_status batch_out_open(batch_out *out, const char *path, qp_error *err) {
    *out = (batch_out){.file = stdout, .path = path ? path : "standard output", .done = json_object()};
    if (!out->done) return err_no_memory(err, 0, out->path);
    if (!path) return QP_OK;
    out->file = fopen(path, "a+b");
    if (!out->file) return err_set(err, QP_IO, 0, "%.300s: %s", path, strerror(errno));
    off_t good = 0;
    if (fseeko(out->file, 0, SEEK_SET)) return QP_OK; /* a pipe: nothing to go on with */
    ERR_TRY(read_done(out, &good, err));
    clearerr(out->file);
    if (!fseeko(out->file, 0, SEEK_END) && ftello(out->file) > good && ftruncate(fileno(out->file), good))
        return err_set(err, QP_IO, (uint64_t)good, "%.300s: the torn last line: %s", path, strerror(errno));
    return QP_OK;
}

bool batch_out_has(const batch_out *out, const batch_item *item) {
    char key[512];
    batch_key(key, sizeof key, item->id, item->index);
    return json_object_get(out->done, key) != NULL;
}

qp_status batch_out_write(batch_out *out, const batch_item *item, qp_error *err) {
    ERR_TRY(strbuf_status(&item->result, err, "a result"));
    if (fwrite(item->result.at, 1, item->result.bytes, out->file) == item->result.bytes) return QP_OK;
    return err_set(err, QP_IO, 0, "%.300s: %s", out->path, strerror(errno));
}

qp_status batch_out_flush(batch_out *out, qp_error *err) {
    return fflush(out->file) ? err_set(err, QP_IO, 0, "%.300s: %s", out->path, strerror(errno)) : QP_OK;
}

void batch_out_close(batch_out *out) {
    if (out->file && out->file != stdout) fclose(out->file);
    json_decref(out->done);
}
