/* chat_file.c — finds the chat template of a model folder.
 *
 * The first of these that exists wins as a whole: chat_template.jinja together with the .jinja files of
 * additional_chat_templates; chat_template.json; the chat_template of tokenizer_config.json. The last two may hold one
 * text or several by name. All of them are gathered as a list of (name, source) first, so that an unknown name can be
 * answered with the known ones. */
#include "chat_file.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <limits.h>

enum { MAX_TEMPLATE = 8 << 20, MAX_CONFIG = 64 << 20 };

/* The templates found so far: {"name": "source"}. */
typedef struct finder {
    const char *folder;
    json_t *found;
    qp_error *err;
} finder;

static qp_status no_memory(qp_error *err) { return err_no_memory(err, 0, "chat template"); }

static qp_status add_file(finder *f, const char *path, const char *name) {
    char *text;
    size_t bytes;
    ERR_TRY(file_read(&text, &bytes, path, MAX_TEMPLATE, f->err));
    json_t *source = json_stringn(text, bytes);
    mem_free(text);
    if (!source) return err_set(f->err, QP_BAD_FORMAT, 0, "%s: not UTF-8 (or out of memory)", path);
    return json_object_set_new(f->found, name, source) == 0 ? QP_OK : no_memory(f->err);
}

static qp_status add_folder(finder *f) {
    char path[PATH_MAX], file[PATH_MAX], name[256];
    ERR_TRY(file_join(path, sizeof path, f->folder, "additional_chat_templates", f->err));
    DIR *dir = opendir(path);
    qp_status status = QP_OK;
    for (const struct dirent *entry; dir && status == QP_OK && (entry = readdir(dir));) {
        const size_t bytes = strlen(entry->d_name);
        if (bytes < 7 || strcmp(entry->d_name + bytes - 6, ".jinja") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(bytes - 6), entry->d_name);
        status = file_join(file, sizeof file, path, entry->d_name, f->err);
        if (status == QP_OK) status = add_file(f, file, name);
    }
    if (dir) closedir(dir);
    return status;
}

static qp_status add_named(finder *f, const char *where, size_t i, const json_t *entry) {
    json_t *name = json_object_get(entry, "name"), *source = json_object_get(entry, "template");
    if (!json_is_string(name) || !json_is_string(source))
        return err_set(f->err, QP_BAD_FORMAT, 0,
                       "%s: chat_template[%zu] is not an object with the texts \"name\" and \"template\"", where, i);
    return json_object_set(f->found, json_string_value(name), source) == 0 ? QP_OK : no_memory(f->err);
}

/* "chat_template": one text, a list of {"name", "template"}, or {"name": "source"}. */
static qp_status add_value(finder *f, const char *where, json_t *value) {
    size_t i;
    json_t *entry;
    const char *key;
    if (json_is_string(value)) return json_object_set(f->found, "default", value) == 0 ? QP_OK : no_memory(f->err);
    if (json_is_array(value)) {
        json_array_foreach(value, i, entry) ERR_TRY(add_named(f, where, i, entry));
        return QP_OK;
    }
    if (!json_is_object(value))
        return err_set(f->err, QP_BAD_FORMAT, 0, "%s: \"chat_template\" is %s, expected a text or a list of named ones",
                       where, json_kind(value));
    json_object_foreach(value, key, entry) {
        if (!json_is_string(entry))
            return err_set(f->err, QP_BAD_FORMAT, 0, "%s: chat template \"%.60s\" is %s, expected a text", where, key,
                           json_kind(entry));
        if (json_object_set(f->found, key, entry) != 0) return no_memory(f->err);
    }
    return QP_OK;
}

/* An object from a JSON file of the folder; NULL where the file is missing. */
static qp_status load(const finder *f, const char *name, json_t **out) {
    char path[PATH_MAX];
    *out = NULL;
    ERR_TRY(file_join(path, sizeof path, f->folder, name, f->err));
    if (!file_exists(path)) return QP_OK;
    ERR_TRY(json_load_path(out, path, MAX_CONFIG, f->err));
    if (json_is_object(*out)) return QP_OK;
    const qp_status status = err_set(f->err, QP_BAD_FORMAT, 0, "%s is %s, expected an object", path, json_kind(*out));
    json_decref(*out);
    *out = NULL;
    return status;
}

static qp_status find_templates(finder *f, json_t *config) {
    char path[PATH_MAX];
    json_t *separate;
    ERR_TRY(file_join(path, sizeof path, f->folder, "chat_template.jinja", f->err));
    if (file_exists(path)) ERR_TRY(add_file(f, path, "default"));
    ERR_TRY(add_folder(f));
    if (json_object_size(f->found)) return QP_OK;
    ERR_TRY(load(f, "chat_template.json", &separate));
    json_t *value = json_object_get(separate, "chat_template");
    const char *where = "chat_template.json";
    if (!value || json_is_null(value))
        value = json_object_get(config, "chat_template"), where = "tokenizer_config.json";
    const qp_status status = value && !json_is_null(value) ? add_value(f, where, value) : QP_OK;
    json_decref(separate);
    return status;
}

/* ---- special tokens ---- */

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

/* Adds the tokens of one file that are not there yet: a text, or an object with "content". */
static qp_status add_tokens(json_t *tokens, const json_t *from, qp_error *err) {
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; i++) {
        json_t *token = json_object_get(from, token_names[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (json_is_string(token) && !json_object_get(tokens, token_names[i]) &&
            json_object_set(tokens, token_names[i], token) != 0)
            return no_memory(err);
    }
    return QP_OK;
}

/* ---- choosing ---- */

static qp_status unknown_name(const finder *f, const char *name) {
    strbuf names = {0};
    const char *key;
    json_t *value;
    json_object_foreach(f->found, key, value) strbuf_format(&names, "%s%s", names.bytes ? ", " : "", key);
    const qp_status status =
        err_set(f->err, QP_BAD_ARGUMENT, 0, "%s: no chat template named \"%.60s\"; there are: %.300s", f->folder, name,
                names.at ? names.at : "");
    strbuf_free(&names);
    return status;
}

static qp_status take_source(const json_t *source, char **out, size_t *bytes, qp_error *err) {
    *bytes = json_string_length(source);
    *out = mem_copy_text(json_string_value(source), *bytes);
    return *out ? QP_OK : no_memory(err);
}

static qp_status choose(const finder *f, const char *name, chat_file *out) {
    if (!json_object_size(f->found))
        return err_set(f->err, QP_NO_FILE, 0, "%s: the model has no chat template", f->folder);
    const json_t *source = json_object_get(f->found, name ? name : "default"),
                 *tools = json_object_get(f->found, "tool_use");
    if (!source) return unknown_name(f, name ? name : "default");
    ERR_TRY(take_source(source, &out->source, &out->source_bytes, f->err));
    return name || !tools ? QP_OK : take_source(tools, &out->tool_source, &out->tool_source_bytes, f->err);
}

static qp_status read_all(finder *f, const char *name, json_t *config, json_t *map, chat_file *out) {
    out->tokens = json_object();
    if (!out->tokens) return no_memory(f->err);
    ERR_TRY(add_tokens(out->tokens, config, f->err));
    ERR_TRY(add_tokens(out->tokens, map, f->err));
    ERR_TRY(find_templates(f, config));
    return choose(f, name, out);
}

qp_status chat_file_read(chat_file *out, const char *folder, const char *name, qp_error *err) {
    finder f = {.folder = folder, .found = json_object(), .err = err};
    json_t *config = NULL, *map = NULL;
    *out = (chat_file){0};
    qp_status status = f.found ? load(&f, "tokenizer_config.json", &config) : no_memory(err);
    if (status == QP_OK) status = load(&f, "special_tokens_map.json", &map);
    if (status == QP_OK) status = read_all(&f, name, config, map, out);
    if (status != QP_OK) chat_file_free(out);
    json_decref(config);
    json_decref(map);
    json_decref(f.found);
    return status;
}

static qp_status read_config(finder *f, const char *name, const json_t *config, chat_file *out) {
    json_t *value = json_object_get(config, "chat_template");
    out->tokens = json_object();
    if (!out->tokens) return no_memory(f->err);
    ERR_TRY(add_tokens(out->tokens, config, f->err));
    if (value && !json_is_null(value)) ERR_TRY(add_value(f, f->folder, value));
    return choose(f, name, out);
}

qp_status chat_file_parse(chat_file *out, const char *config, size_t bytes, const char *where, const char *name,
                          qp_error *err) {
    finder f = {.folder = where, .found = json_object(), .err = err};
    json_t *root = NULL;
    *out = (chat_file){0};
    qp_status status = f.found ? json_parse(&root, config, bytes, where, err) : no_memory(err);
    if (status == QP_OK) status = read_config(&f, name, root, out);
    if (status != QP_OK) chat_file_free(out);
    json_decref(root);
    json_decref(f.found);
    return status;
}

void chat_file_free(chat_file *file) {
    mem_free(file->source);
    mem_free(file->tool_source);
    json_decref(file->tokens);
    *file = (chat_file){0};
}
