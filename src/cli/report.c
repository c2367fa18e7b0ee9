/* report.c — prints any JSON document calmly: sections, aligned values, tables. */
#include "report.h"
#include "term.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 22, DEPTH_MAX = 12, COLUMNS_MAX = 24, CELL_MAX = 60 };

typedef struct printer {
    bool coloured;
    int depth;
} printer;

const char *report_bytes(char out[32], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(out, 32, bytes < 10 && unit ? "%.2f %s" : bytes < 100 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

static bool is_bytes(const char *key) {
    const size_t n = strlen(key);
    return n >= 5 && !strcmp(key + n - 5, "bytes");
}

static bool is_scalar(const json_t *value) { return !json_is_object(value) && !json_is_array(value); }

static bool is_line(const json_t *value) {
    const json_t *item;
    size_t i;
    json_array_foreach(value, i, item) if (!is_scalar(item)) return false;
    return json_is_array(value) || is_scalar(value);
}

/* A scalar, or a short list of them in one line, as text. */
static void value_text(strbuf *out, const char *key, const json_t *value) {
    char size[32];
    const json_t *item;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            if (i) strbuf_text(out, ", ");
            value_text(out, "", item);
        }
        if (!i) strbuf_text(out, "none");
    } else if (json_is_string(value))
        strbuf_add(out, json_string_value(value), json_string_length(value));
    else if (json_is_number(value) && is_bytes(key))
        strbuf_text(out, report_bytes(size, json_number_value(value)));
    else if (json_is_integer(value))
        strbuf_format(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        strbuf_format(out, "%.6g", json_real_value(value));
    else
        strbuf_text(out, json_is_boolean(value) ? json_is_true(value) ? "yes" : "no" : "-");
}

/* "n_kv_heads" reads better as "n kv heads"; what is shown in units loses its "_bytes". */
static void name_text(strbuf *out, const char *key) {
    const size_t n = strlen(key), cut = is_bytes(key) && n > 6 ? 6 : 0;
    for (size_t i = 0; i < n - cut; i++) strbuf_char(out, key[i] == '_' ? ' ' : key[i]);
}

/* Text from a file must not write to the terminal by itself. */
static void print_text(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) putchar((unsigned char)text[i] < 32 || text[i] == 127 ? '?' : text[i]);
}

static int columns_of(const char *text, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += (text[i] & 0xC0) != 0x80;
    return n;
}

static void print_cell(const strbuf *b, int width, bool is_last) {
    print_text(b->at ? b->at : "", b->bytes);
    if (!is_last) printf("%*s", width - columns_of(b->at ? b->at : "", b->bytes), "");
}

static void print_pair(const printer *p, const char *key, const json_t *value) {
    strbuf name = {0}, text = {0};
    name_text(&name, key);
    value_text(&text, key, value);
    const int width = NAME_WIDTH > columns_of(name.at, name.bytes) ? NAME_WIDTH : columns_of(name.at, name.bytes);
    printf("%*s%s", 2 * p->depth, "", term_set(p->coloured, STYLE_DIM));
    print_cell(&name, width, false);
    printf("%s  ", term_set(p->coloured, STYLE_PLAIN));
    print_cell(&text, 0, true);
    putchar('\n');
    strbuf_free(&name);
    strbuf_free(&text);
}

/* ---- arrays of objects ---- */

typedef struct column {
    const char *key;
    int width;
} column;

static bool is_table(const json_t *array) {
    const json_t *row, *cell;
    const char *key;
    size_t i;
    json_array_foreach(array, i, row) {
        if (!json_is_object(row)) return false;
        json_object_foreach((json_t *)row, key, cell) if (!is_line(cell)) return false;
    }
    return json_array_size(array) > 0;
}

static int column_of(column *columns, int *count, const char *key) {
    for (int i = 0; i < *count; i++)
        if (!strcmp(columns[i].key, key)) return i;
    if (*count == COLUMNS_MAX) return -1;
    strbuf name = {0};
    name_text(&name, key);
    columns[*count] = (column){key, columns_of(name.at, name.bytes)};
    strbuf_free(&name);
    return (*count)++;
}

static int find_columns(column *columns, const json_t *array) {
    int count = 0;
    const json_t *row, *cell;
    const char *key;
    size_t i;
    json_array_foreach(array, i, row) json_object_foreach((json_t *)row, key, cell) {
        const int at = column_of(columns, &count, key);
        strbuf text = {0};
        value_text(&text, key, cell);
        const int width = columns_of(text.at ? text.at : "", text.bytes);
        if (at >= 0 && width > columns[at].width) columns[at].width = width < CELL_MAX ? width : CELL_MAX;
        strbuf_free(&text);
    }
    return count;
}

static void print_row(const printer *p, const column *columns, int count, const json_t *row) {
    printf("%*s", 2 * p->depth, "");
    for (int i = 0; i < count; i++) {
        strbuf text = {0};
        const json_t *cell = row ? json_object_get(row, columns[i].key) : NULL;
        if (!row)
            name_text(&text, columns[i].key);
        else if (cell)
            value_text(&text, columns[i].key, cell);
        print_cell(&text, columns[i].width + 2, i + 1 == count);
        strbuf_free(&text);
    }
    putchar('\n');
}

static void print_table(const printer *p, const json_t *array) {
    column columns[COLUMNS_MAX];
    const int count = find_columns(columns, array);
    const json_t *row;
    size_t i;
    fputs(term_set(p->coloured, STYLE_DIM), stdout);
    print_row(p, columns, count, NULL);
    fputs(term_set(p->coloured, STYLE_PLAIN), stdout);
    json_array_foreach(array, i, row) print_row(p, columns, count, row);
}

/* ---- everything ---- */

static void print_title(const printer *p, const char *key) {
    strbuf name = {0};
    name_text(&name, key);
    printf("%*s%s", 2 * p->depth, "", term_set(p->coloured, STYLE_BOLD));
    print_cell(&name, 0, true);
    printf("%s\n", term_set(p->coloured, STYLE_PLAIN));
    strbuf_free(&name);
}

static void print_object(const printer *p, const json_t *object);

static void print_section(const printer *p, const char *key, const json_t *value) {
    const printer below = {p->coloured, p->depth + 1};
    const json_t *item;
    size_t i;
    if (!p->depth) putchar('\n');
    print_title(p, key);
    if (below.depth >= DEPTH_MAX) return;
    if (json_is_object(value))
        print_object(&below, value);
    else if (is_table(value))
        print_table(&below, value);
    else
        json_array_foreach(value, i, item) {
            if (json_is_object(item))
                print_object(&below, item);
            else
                print_pair(&below, "", item);
        }
}

/* Values first, sections after them. */
static void print_object(const printer *p, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) if (is_line(value)) print_pair(p, key, value);
    json_object_foreach((json_t *)object, key, value) if (!is_line(value)) print_section(p, key, value);
}

void report_print(const json_t *document, bool coloured) {
    const printer p = {coloured, 0};
    if (json_is_object(document)) print_object(&p, document);
}

qp_status report_print_text(const char *json, const char *where, bool coloured, qp_error *err) {
    json_t *document;
    ERR_TRY(json_parse(&document, json, strlen(json), where, err));
    report_print(document, coloured);
    json_decref(document);
    return QP_OK;
}
