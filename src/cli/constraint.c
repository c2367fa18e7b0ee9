/* constraint.c — from --schema, --regex, --grammar and --choice to compiled constraints and the filters of a job. */
#include "constraint.h"
#include "input.h"
#include "base/json.h"
#include "base/mem.h"
#include <stdlib.h>

enum { SOURCE_LIMIT = 4 << 20 };

/* ---- the report ---- */

static void print_entries(FILE *to, const json_t *report, const char *name) {
    size_t i;
    const json_t *e;
    json_array_foreach(json_object_get(report, name), i, e) {
        const char *path = json_string_value(json_object_get(e, "path"));
        const char *keyword = json_string_value(json_object_get(e, "keyword"));
        const char *hint = json_string_value(json_object_get(e, "hint"));
        fprintf(to, "%s: \"%s\"%s%s: %s%s%s\n", name, path, *keyword ? ", " : "", keyword,
                json_string_value(json_object_get(e, "message")), *hint ? "; " : "", hint);
    }
}

static void print_report(FILE *to, const char *text) {
    static const char *const names[] = {"problems", "narrowed", "warnings", "remarks"};
    json_t *report = NULL;
    if (text && json_parse(&report, text, strlen(text), "report", NULL) == QP_OK)
        for (size_t i = 0; i < 4; i++) print_entries(to, report, names[i]);
    json_decref(report);
}

/* ---- compiling ---- */

/* {"sequence": [thoughts, the constraint]}: see docs/constraints.md. */
static json_t *behind_thoughts(const constraint_before *b, const options *o, const char *kind, const char *source,
                               size_t bytes) {
    static const char blanks[] = "[ \\t\\r\\n]{0,8}";
    json_t *thoughts = json_pack("{s:[{s:s,s:s},{s:s},{s:[s]},{s:s},{s:s,s:s}]}", "sequence", "kind", "regex", "source",
                                 b->is_open ? "" : blanks, "tag", b->is_open ? "" : b->thoughts->open, "free",
                                 b->thoughts->close, "tag", b->thoughts->close, "kind", "regex", "source", blanks);
    json_t *inner = json_pack("{s:s,s:s%,s:b}", "kind", kind, "source", source, bytes, "lenient", o->lenient);
    if (inner && o->json_space) json_object_set_new(inner, "whitespace", json_string(o->json_space));
    if (b->is_open) return json_pack("{s:[o,o]}", "sequence", thoughts, inner);
    return json_pack("{s:[{s:o,s:i},o]}", "sequence", "repeat", thoughts, "max", 1, inner);
}

static qp_status add_behind(constraint_list *l, const options *o, const qp_tokenizer *tokenizer, const char *kind,
                            const char *source, size_t bytes, qp_error *err) {
    json_t *node = behind_thoughts(&l->before, o, kind, source, bytes);
    char *text = node ? json_dumps(node, JSON_COMPACT) : NULL;
    json_decref(node);
    if (!text) return err_set(err, QP_BAD_FORMAT, 0, "a constraint: its source is not UTF-8, or memory is short");
    const qp_status status = qp_grammar_new(&l->at[l->n], tokenizer, "structure", text, strlen(text), NULL, NULL, err);
    free(text);
    if (status == QP_OK) l->n++;
    return status;
}

static qp_status add(constraint_list *l, const options *o, const qp_tokenizer *tokenizer, const char *kind,
                     const char *source, size_t bytes, FILE *report, qp_error *err) {
    if (l->before.thoughts) return add_behind(l, o, tokenizer, kind, source, bytes, err);
    const qp_grammar_options wanted = {.size = sizeof wanted, .whitespace = o->json_space, .lenient = o->lenient};
    char *told = NULL;
    const qp_status status = qp_grammar_new(&l->at[l->n], tokenizer, kind, source, bytes, &wanted, &told, err);
    if (report) print_report(report, told);
    qp_free(told);
    if (status == QP_OK) l->n++;
    return status;
}

/* One choice a line, unless it is a JSON array. */
static qp_status choices_of(strbuf *out, const strbuf *file, qp_error *err) {
    size_t start = 0;
    while (start < file->bytes && strchr(" \t\r\n", file->at[start])) start++;
    if (start < file->bytes && file->at[start] == '[') {
        strbuf_add(out, file->at, file->bytes);
        return strbuf_status(out, err, "--choice");
    }
    strbuf_char(out, '[');
    for (size_t at = 0, n = 0; at < file->bytes; n++) {
        const char *end = memchr(file->at + at, '\n', file->bytes - at);
        const size_t bytes = end ? (size_t)(end - file->at) - at : file->bytes - at;
        if (n) strbuf_text(out, ", ");
        strbuf_json(out, file->at + at, bytes);
        at += bytes + 1;
    }
    strbuf_char(out, ']');
    return strbuf_status(out, err, "--choice");
}

static bool is_gbnf(const strbuf *file) { return file->bytes > 2 && memmem(file->at, file->bytes, "::=", 3) != NULL; }

static qp_status add_file(constraint_list *l, const options *o, const qp_tokenizer *tokenizer, const char *kind,
                          const char *path, FILE *report, qp_error *err) {
    strbuf file = {0}, choices = {0};
    qp_status status = input_read(&file, path, SOURCE_LIMIT, err);
    const strbuf *source = &file;
    if (status == QP_OK && !kind) kind = is_gbnf(&file) ? "gbnf" : "lark";
    if (status == QP_OK && !strcmp(kind, "choices")) {
        status = choices_of(&choices, &file, err);
        source = &choices;
    }
    if (status == QP_OK) status = add(l, o, tokenizer, kind, source->at ? source->at : "", source->bytes, report, err);
    if (status != QP_OK) err_prefix(err, status, "%s", path);
    strbuf_free(&choices);
    strbuf_free(&file);
    return status;
}

static qp_status open_all(constraint_list *l, const options *o, const qp_tokenizer *t, FILE *report, qp_error *err) {
    if (o->schema) ERR_TRY(add_file(l, o, t, "json_schema", o->schema, report, err));
    if (o->regex) ERR_TRY(add(l, o, t, "regex", o->regex, strlen(o->regex), report, err));
    if (o->grammar) ERR_TRY(add_file(l, o, t, NULL, o->grammar, report, err));
    if (o->choice) ERR_TRY(add_file(l, o, t, "choices", o->choice, report, err));
    return QP_OK;
}

static qp_status open_list(constraint_list *out, const options *o, const qp_tokenizer *tokenizer, FILE *report,
                           qp_error *err) {
    if (!o->schema && !o->regex && !o->grammar && !o->choice) return QP_OK;
    if (!tokenizer) return err_set(err, QP_BAD_ARGUMENT, 0, "a constraint needs a tokenizer, and this model has none");
    const qp_status status = open_all(out, o, tokenizer, report, err);
    if (status != QP_OK) constraint_close(out);
    return status;
}

qp_status constraint_open(constraint_list *out, const options *o, const qp_tokenizer *tokenizer, FILE *report,
                          qp_error *err) {
    *out = (constraint_list){.n = 0};
    return open_list(out, o, tokenizer, report, err);
}

qp_status constraint_open_behind(constraint_list *out, constraint_before before, const options *o,
                                 const qp_tokenizer *tokenizer, qp_error *err) {
    *out = (constraint_list){.before = before};
    return open_list(out, o, tokenizer, NULL, err);
}

qp_status constraint_filters(constraint_list *l, qp_job_options *wanted, qp_error *err) {
    for (int i = 0; i < l->n; i++) {
        const qp_status status = qp_filter_new(&l->filters[i], l->at[i], err);
        if (status == QP_OK) continue;
        while (i-- > 0) l->filters[i].free(l->filters[i].user);
        return status;
    }
    wanted->filters = l->filters;
    wanted->n_filters = (size_t)l->n;
    return QP_OK;
}

void constraint_close(constraint_list *l) {
    for (int i = 0; i < l->n; i++) qp_grammar_free(l->at[i]);
    l->n = 0;
}
