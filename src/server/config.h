/* config.h — the settings of one server, and where each of them came from.
 *
 * Later sources win: default, file, environment, command line. All go through config_set, so a value is checked in the
 * same way wherever it is written; errors call it by the name that the user knows. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "base/str.h"
#include "config_table.h"

typedef struct config_list {
    char **at;
    size_t count;
} config_list;

#define CONFIG_FIELD_BOOL bool
#define CONFIG_FIELD_INT int64_t
#define CONFIG_FIELD_REAL double
#define CONFIG_FIELD_TEXT char *
#define CONFIG_FIELD_CHOICE char *
#define CONFIG_FIELD_LIST config_list

enum {
#define X(block, key, ...) CONFIG_##key,
    CONFIG_ROWS(X)
#undef X
        CONFIG_COUNT
};

typedef struct config config;
/* What is not set: false, 0, NULL, an empty list. Texts belong to the struct. */
struct config {
#define X(block, key, option, letter, kind, ...) CONFIG_FIELD_##kind key;
    CONFIG_ROWS(X)
#undef X
    char *origins[CONFIG_COUNT]; /* "default", "quipu.yml", "QUIPU_PORT", "--port" */
};

typedef enum config_kind { CONFIG_BOOL, CONFIG_INT, CONFIG_REAL, CONFIG_TEXT, CONFIG_CHOICE, CONFIG_LIST } config_kind;

typedef struct config_row {
    const char *block, *key, *option; /* "network", "max_queue", "max-queue" */
    char letter;
    config_kind kind;
    size_t field;
    double lowest, highest;
    const char *choices, *standard, *value, *help;
} config_row;

extern const config_row config_rows[CONFIG_COUNT];

/* Fills *out with the defaults. config_free() is owed in any case. */
qp_status config_new(config *out, qp_error *err);
void config_free(config *c);
/* `text` as on a command line; lists are separated by commas. `origin` is what errors and --print-config call the
 * source. */
qp_status config_set(config *c, const config_row *row, const char *text, const char *origin, qp_error *err);
/* Reads a YAML file: blocks, and keys in them. Unknown names are refused with the nearest. Keys of TabbyAPI that have
 * no meaning here are told to `warn`. */
qp_status config_read_file(config *c, const char *path, const qp_log *warn, qp_error *err);
/* The same from text; `where` names it in errors. */
qp_status config_read_text(config *c, const char *text, size_t bytes, const char *where, const qp_log *warn,
                           qp_error *err);
/* QUIPU_<BLOCK>_<KEY> of the environment. */
qp_status config_read_environment(config *c, qp_error *err);
/* What no single value shows: settings that contradict each other. */
qp_status config_check(const config *c, qp_error *err);
/* YAML with the origin of each value as comment. */
void config_print(strbuf *out, const config *c);
/* A file with every setting at its default and explained. */
void config_example(strbuf *out);

bool config_has(const config_list *list, const char *text);

#endif
