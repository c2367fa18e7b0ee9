/* input.c — reads texts, ids and lines, with limits, and says where something is wrong. */
#include "input.h"
#include "base/mem.h"
#include <ctype.h>
#include <errno.h>
#include <unistd.h>

static const char *shown_path(const char *path) { return path && strcmp(path, "-") ? path : "standard input"; }

static qp_status open_input(FILE **out, const char *path, qp_error *err) {
    *out = path && strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (*out) return QP_OK;
    return err_set(err, errno == ENOENT ? QP_NO_FILE : QP_IO, 0, "%.300s: %s", path, strerror(errno));
}

static void close_input(FILE *file) {
    if (file != stdin) fclose(file);
}

static qp_status read_all(strbuf *out, FILE *file, const char *where, size_t limit, qp_error *err) {
    char block[16384];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;) {
        if (out->bytes + n > limit)
            return err_set(err, QP_TOO_LARGE, limit, "%.300s: more than %zu bytes, the limit", where, limit);
        strbuf_add(out, block, n);
    }
    if (ferror(file)) return err_set(err, QP_IO, out->bytes, "%.300s: %s", where, strerror(errno));
    return strbuf_status(out, err, where);
}

qp_status input_read(strbuf *out, const char *path, size_t limit, qp_error *err) {
    FILE *file;
    ERR_TRY(open_input(&file, path, err));
    const qp_status status = read_all(out, file, shown_path(path), limit, err);
    close_input(file);
    return status;
}

qp_status input_prompt(strbuf *out, session *s, qp_error *err) {
    const options *o = s->o;
    if (!o->prompt && !o->file && isatty(STDIN_FILENO))
        return session_usage(s, err, "'%s' needs a text: -p TEXT, -f FILE, or something on standard input",
                             s->command->name);
    if (!o->prompt) return input_read(out, o->file, INPUT_LIMIT, err);
    strbuf_text(out, o->prompt);
    return strbuf_status(out, err, "the prompt");
}

/* ---- ids ---- */

typedef struct id_reader {
    const char *text, *where;
    size_t bytes, at;
} id_reader;

static void skip_blanks(id_reader *r) {
    while (r->at < r->bytes && isspace((unsigned char)r->text[r->at])) r->at++;
}

static bool take(id_reader *r, char c) {
    if (r->at == r->bytes || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

static qp_status refuse(const id_reader *r, const char *wanted, qp_error *err) {
    if (r->at >= r->bytes)
        return err_set(err, QP_BAD_FORMAT, r->at, "%.200s: ends where %s should be", r->where, wanted);
    char word[48], shown[48];
    size_t n = 0;
    while (n < 40 && r->at + n < r->bytes && !isspace((unsigned char)r->text[r->at + n])) n++;
    snprintf(word, sizeof word, "%.*s", (int)(n ? n : 1), r->text + r->at);
    for (n = 0; word[n]; n++) shown[n] = (unsigned char)word[n] < 32 || word[n] == 127 ? '?' : word[n];
    shown[n] = 0;
    return err_set(err, QP_BAD_FORMAT, r->at, "%.200s: found '%s' at byte %zu, expected %s", r->where, shown, r->at,
                   wanted);
}

static qp_status add_id(input_ids *ids, int32_t id, const id_reader *r, qp_error *err) {
    if (ids->count == ids->capacity) {
        const size_t capacity = ids->capacity ? 2 * ids->capacity : 256;
        int32_t *more = mem_resize(ids->at, capacity, sizeof *more);
        if (!more) return err_no_memory(err, capacity * sizeof *more, r->where);
        ids->at = more;
        ids->capacity = capacity;
    }
    ids->at[ids->count++] = id;
    return QP_OK;
}

/* Digits up to something that may stand behind a number. */
static qp_status read_id(input_ids *ids, id_reader *r, qp_error *err) {
    const size_t start = r->at;
    int64_t value = 0;
    while (r->at < r->bytes && isdigit((unsigned char)r->text[r->at]) && value <= INT32_MAX)
        value = 10 * value + (r->text[r->at++] - '0');
    const bool ends =
        r->at == r->bytes || isspace((unsigned char)r->text[r->at]) || r->text[r->at] == ',' || r->text[r->at] == ']';
    if (r->at > start && value <= INT32_MAX && ends) return add_id(ids, (int32_t)value, r, err);
    r->at = start;
    return refuse(r, "a token id", err);
}

static qp_status read_array(input_ids *ids, id_reader *r, qp_error *err) {
    skip_blanks(r);
    if (take(r, ']')) return QP_OK;
    for (;;) {
        skip_blanks(r);
        ERR_TRY(read_id(ids, r, err));
        skip_blanks(r);
        if (take(r, ']')) return QP_OK;
        if (!take(r, ',')) return refuse(r, "',' or ']'", err);
    }
}

static qp_status read_plain(input_ids *ids, id_reader *r, qp_error *err) {
    for (skip_blanks(r); r->at < r->bytes; skip_blanks(r)) {
        ERR_TRY(read_id(ids, r, err));
        if (r->at < r->bytes && !isspace((unsigned char)r->text[r->at])) return refuse(r, "a blank", err);
    }
    return QP_OK;
}

qp_status input_parse_ids(input_ids *out, const char *text, size_t bytes, const char *where, qp_error *err) {
    id_reader r = {text, where, bytes, 0};
    out->count = 0;
    skip_blanks(&r);
    if (!take(&r, '[')) return read_plain(out, &r, err);
    ERR_TRY(read_array(out, &r, err));
    skip_blanks(&r);
    return r.at == r.bytes ? QP_OK : refuse(&r, "the end", err);
}

qp_status input_check_ids(const input_ids *ids, int size, const char *where, qp_error *err) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] >= size)
            return err_set(err, QP_BAD_ARGUMENT, i, "%.200s: id %d at place %zu, the vocabulary has ids 0 to %d", where,
                           ids->at[i], i, size - 1);
    return QP_OK;
}

qp_status input_load_ids(input_ids *out, session *s, const char *path, int size, qp_error *err) {
    if (!path && isatty(STDIN_FILENO))
        return session_usage(s, err, "'%s' needs token ids: --ids FILE, or something on standard input",
                             s->command->name);
    strbuf text = {0};
    qp_status status = input_read(&text, path, INPUT_LIMIT, err);
    if (status == QP_OK) status = input_parse_ids(out, text.at ? text.at : "", text.bytes, shown_path(path), err);
    if (status == QP_OK) status = input_check_ids(out, size, shown_path(path), err);
    strbuf_free(&text);
    return status;
}

void input_free_ids(input_ids *ids) {
    mem_free(ids->at);
    *ids = (input_ids){NULL, 0, 0};
}

/* ---- lines ---- */

/* One line without its end; *is_end if there was nothing more. */
static qp_status read_line(strbuf *line, FILE *file, const char *where, bool *is_end, qp_error *err) {
    strbuf_clear(line);
    int c = getc_unlocked(file);
    *is_end = c == EOF;
    for (; c != EOF && c != '\n'; c = getc_unlocked(file)) {
        if (line->bytes == INPUT_LIMIT)
            return err_set(err, QP_TOO_LARGE, 0, "%.300s: more than %d bytes, the limit", where, INPUT_LIMIT);
        strbuf_char(line, (char)c);
    }
    if (ferror(file)) return err_set(err, QP_IO, 0, "%.300s: %s", where, strerror(errno));
    return strbuf_status(line, err, where);
}

qp_status input_each_line(const char *path, void *user,
                          qp_status (*visit)(void *user, const char *line, size_t bytes, const char *where,
                                             qp_error *err),
                          qp_error *err) {
    FILE *file;
    strbuf line = {0};
    qp_status status = open_input(&file, path, err);
    if (status != QP_OK) return status;
    bool is_end = false;
    for (uint64_t number = 1; status == QP_OK; number++) {
        char where[320];
        snprintf(where, sizeof where, "%.280s, line %llu", shown_path(path), (unsigned long long)number);
        status = read_line(&line, file, where, &is_end, err);
        if (is_end || status != QP_OK) break;
        status = visit(user, line.at ? line.at : "", line.bytes, where, err);
        fflush(stdout);
    }
    strbuf_free(&line);
    close_input(file);
    return status;
}
