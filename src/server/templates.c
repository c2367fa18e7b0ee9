/* templates.c — finds, parses and lists chat templates for models.c, loader.c and the template routes. */
#include "templates.h"
#include "base/file.h"
#include "base/mem.h"
#include "server.h"
#include <limits.h>
#include <stdio.h>

enum { LONGEST_TEMPLATE = 4 << 20, MOST_FILES = 4096 };
static const char END[] = ".jinja";

bool templates_is_name(const char *name) {
    const size_t bytes = strlen(name);
    if (!bytes || bytes > 100 || *name == '.') return false;
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F || *at == '/' || *at == '\\') return false;
    return true;
}

static qp_status wrap(chat_template **out, qp_template *parsed, const char *name, qp_error *err) {
    chat_template *t = MEM_NEW(chat_template);
    if (!t) {
        qp_template_free(parsed);
        return err_no_memory(err, sizeof *t, "a template");
    }
    atomic_store(&t->users, 1);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->parsed = parsed;
    t->source = qp_template_peek_source(parsed, NULL);
    *out = t;
    return QP_OK;
}

static qp_status read_file(qp_template **out, const char *path, qp_error *err) {
    char *text;
    size_t bytes;
    ERR_TRY(file_read(&text, &bytes, path, LONGEST_TEMPLATE, err));
    const qp_status status = qp_template_new(out, text, bytes, err);
    mem_free(text);
    return status;
}

qp_status templates_open(chat_template **out, struct server *s, const char *name, qp_error *err) {
    char path[PATH_MAX];
    qp_template *parsed = NULL;
    *out = NULL;
    if (!templates_is_name(name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "template '%.100s': a name has no path in it", name);
    if (snprintf(path, sizeof path, "%s/%s%s", s->config->template_dir, name, END) >= (int)sizeof path)
        return err_set(err, QP_TOO_LARGE, 0, "template '%.100s': the path is too long", name);
    const bool is_file = file_exists(path);
    const qp_status status = is_file ? read_file(&parsed, path, err) : qp_template_builtin(&parsed, name, err);
    if (status == QP_OK) return wrap(out, parsed, name, err);
    return is_file ? err_prefix(err, status, "template '%.100s'", name)
                   : err_set(err, QP_NO_FILE, 0, "template '%.100s': not in %.200s, nor one of quipu's own", name,
                             s->config->template_dir);
}

qp_status templates_open_own(chat_template **out, const char *model_path, qp_error *err) {
    qp_template *parsed = NULL;
    *out = NULL;
    const qp_status status = qp_template_open(&parsed, model_path, NULL, err);
    return status == QP_OK ? wrap(out, parsed, "from_model", err) : status;
}

static bool add_name(json_t *list, const char *name, size_t bytes) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *known = json_string_value(json_array_get(list, i));
        if (strlen(known) == bytes && !memcmp(known, name, bytes)) return true;
    }
    return !json_array_append_new(list, json_stringn(name, bytes));
}

json_t *templates_names(struct server *s) {
    char **files = NULL;
    size_t n_files = 0;
    json_t *list = json_array();
    bool is_whole = list != NULL;
    if (file_list(&files, &n_files, s->config->template_dir, MOST_FILES, NULL) != QP_OK) files = NULL, n_files = 0;
    for (size_t i = 0; is_whole && i < n_files; i++) {
        const size_t bytes = strlen(files[i]), end = sizeof END - 1;
        if (bytes > end && !strcmp(files[i] + bytes - end, END)) is_whole = add_name(list, files[i], bytes - end);
    }
    for (int i = 0; is_whole && qp_template_builtin_name(i); i++)
        is_whole = add_name(list, qp_template_builtin_name(i), strlen(qp_template_builtin_name(i)));
    mem_free(files);
    if (!is_whole) json_decref(list), list = NULL;
    return list;
}
