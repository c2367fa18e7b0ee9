/* batch_out.c — the results of a batch: to stdout, or to a file that a later run goes on with.
 *
 * A line is known by its id, or by its index where it has none. A run that was killed may have left half a line at the
 * end: it is cut off and made anew. Anything else that is no result refuses the file, so that none is spoilt. What a
 * later run adds stands behind what was there, whatever its place in the input; the file is brought into the order of
 * the input as a whole at the end, by a copy that takes its place. */
#include "batch.h"
#include "base/mem.h"
#include "base/outfile.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

void batch_key(char *key, size_t capacity, const char *id, uint64_t index) {
    if (id)
        snprintf(key, capacity, "%s", id);
    else
        snprintf(key, capacity, "#%llu", (unsigned long long)index);
}

enum { KEY_BYTES = 512 };

/* What a line of the file is the result of. */
static qp_status key_of(const batch_out *out, const json_t *line, size_t at, char key[KEY_BYTES], qp_error *err) {
    const json_t *id = json_object_get(line, "id"), *index = json_object_get(line, "index");
    if (!json_is_integer(index) || !id)
        return err_set(err, QP_BAD_FORMAT, at, "%.300s: byte %zu is the beginning of something else than a result",
                       out->path, at);
    char *text = json_is_null(id) ? NULL : json_dumps(id, JSON_ENCODE_ANY);
    batch_key(key, KEY_BYTES, text, (uint64_t)json_integer_value(index));
    free(text);
    return QP_OK;
}

/* Notes one result of an earlier run. */
static qp_status note(batch_out *out, const json_t *line, size_t at, qp_error *err) {
    char key[KEY_BYTES];
    ERR_TRY(key_of(out, line, at, key, err));
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
    char key[KEY_BYTES];
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

/* ---- order ---- */

/* A line of the file, and its place in the input. */
typedef struct placed {
    uint64_t place;
    off_t at;
    size_t bytes;
} placed;

typedef struct placing {
    placed *lines;
    size_t count, capacity;
    bool is_sorted;
} placing;

static qp_status add_line(placing *p, placed line, qp_error *err) {
    if (p->count == p->capacity) {
        const size_t capacity = p->capacity ? 2 * p->capacity : 256;
        placed *more = mem_resize(p->lines, capacity, sizeof *more);
        if (!more) return err_no_memory(err, capacity * sizeof *more, "the order of the results");
        p->lines = more;
        p->capacity = capacity;
    }
    p->is_sorted &= !p->count || p->lines[p->count - 1].place <= line.place;
    p->lines[p->count++] = line;
    return QP_OK;
}

/* What is not in the input stays behind everything that is. */
static qp_status find_place(const batch_out *out, const json_t *numbers, const char *text, placed *line,
                            qp_error *err) {
    json_t *document;
    char key[KEY_BYTES];
    ERR_TRY(json_parse(&document, text, line->bytes, out->path, err));
    const qp_status status = key_of(out, document, (size_t)line->at, key, err);
    json_decref(document);
    if (status != QP_OK) return status;
    const json_t *number = json_object_get(numbers, key);
    line->place = number ? (uint64_t)json_integer_value(number) : UINT64_MAX;
    return QP_OK;
}

static qp_status place_lines(placing *p, const batch_out *out, const json_t *numbers, qp_error *err) {
    char *text = NULL;
    size_t capacity = 0;
    qp_status status =
        fseeko(out->file, 0, SEEK_SET) ? err_set(err, QP_IO, 0, "%.300s: %s", out->path, strerror(errno)) : QP_OK;
    placed line = {0, 0, 0};
    for (ssize_t n; status == QP_OK && (n = getline(&text, &capacity, out->file)) > 0; line.at += n) {
        line.bytes = (size_t)n;
        status = find_place(out, numbers, text, &line, err);
        if (status == QP_OK) status = add_line(p, line, err);
    }
    free(text);
    return status;
}

static int compare(const void *a, const void *b) {
    const placed *one = a, *other = b;
    if (one->place != other->place) return one->place < other->place ? -1 : 1;
    return one->at < other->at ? -1 : one->at > other->at;
}

static qp_status copy_line(outfile *to, const batch_out *out, const placed *line, qp_error *err) {
    char *text = mem_array(line->bytes, 1);
    if (!text) return err_no_memory(err, line->bytes, out->path);
    const bool is_read =
        !fseeko(out->file, line->at, SEEK_SET) && fread(text, 1, line->bytes, out->file) == line->bytes;
    if (is_read) outfile_add(to, text, line->bytes);
    mem_free(text);
    return is_read ? QP_OK : err_set(err, QP_IO, (uint64_t)line->at, "%.300s: cannot be read again", out->path);
}

/* `path` is the file itself, not a link to it. */
static qp_status write_sorted(const placing *p, const batch_out *out, const char *path, mode_t mode, qp_error *err) {
    outfile *to;
    qp_status status = QP_OK;
    ERR_TRY(outfile_open(&to, path, err));
    for (size_t i = 0; i < p->count && status == QP_OK; i++) status = copy_line(to, out, &p->lines[i], err);
    if (status != QP_OK) return outfile_cancel(to), status;
    ERR_TRY(outfile_commit(to, err));
    return chmod(path, mode) ? err_set(err, QP_IO, 0, "%.300s: %s", path, strerror(errno)) : QP_OK;
}

qp_status batch_out_sort(batch_out *out, const json_t *numbers, qp_error *err) {
    struct stat st;
    placing p = {.is_sorted = true};
    if (out->file == stdout || !json_object_size(out->done)) return QP_OK;
    if (fstat(fileno(out->file), &st) || !S_ISREG(st.st_mode)) return QP_OK;
    qp_status status = place_lines(&p, out, numbers, err);
    if (status == QP_OK && !p.is_sorted) {
        char *path = realpath(out->path, NULL);
        qsort(p.lines, p.count, sizeof *p.lines, compare);
        status = path ? write_sorted(&p, out, path, st.st_mode & 07777, err)
                      : err_set(err, QP_IO, 0, "%.300s: %s", out->path, strerror(errno));
        free(path);
    }
    mem_free(p.lines);
    return status;
}
