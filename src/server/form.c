/* form.c — puts a request's constraints together and compiles them.
 *
 * Called by generate.c on a worker's thread, when the prompt is known. A demand alone is compiled as it came; with
 * reasoning before it or calls of tools beside it all become one constraint of the kind "structure", so that where one
 * part ends and the next begins is the parser's business. The tricky thing is the order of thoughts and the rest: what
 * is demanded holds from the end of the thoughts on, and a tag of a call inside them is text. */
#include "form.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "budget.h"
#include "call_grammar.h"
#include <stdlib.h>

enum { LONGEST_WARNINGS = 1000 };
static const char blanks[] = "[ \\t\\r\\n]{0,8}";

/* What of the request is enforced. */
typedef struct plan {
    const form_setup *setup;
    const demand *demand;
    bool has_calls;  /* calls must come ... */
    bool lazy_calls; /* ... or may, and are then held to their form */
} plan;

static bool has_demand(const plan *p) { return p->demand->param != NULL; }

static json_t *demand_node(const demand *d) {
    json_t *node = json_pack("{s:s,s:s%}", "kind", d->kind, "source", d->source.at, d->source.bytes);
    if (!node) return NULL;
    json_object_set_new(node, "lenient", json_boolean(d->is_lenient));
    json_object_set_new(node, "ignore_formats", json_boolean(!d->is_strict));
    if (d->whitespace) json_object_set_new(node, "whitespace", json_string(d->whitespace));
    return node;
}

/* ---- calls ---- */

static json_t *calls_of(const plan *p, bool is_untagged, refusal *why) {
    const speech_setup *s = p->setup->speech;
    const call_setup c = {s->tools, p->setup->ask, s->is_single, is_untagged};
    return call_grammar(&c, why);
}

/* Text in which calls may come, and between them text again. */
static json_t *text_and_calls(const plan *p, refusal *why) {
    const tool_format *f = p->setup->speech->tools;
    const char *const tags[] = {f->section[0], f->call[0]};
    const bool may_be_bare = f->flags & TOOLS_BARE;
    json_t *calls = calls_of(p, false, why);
    if (!calls) return NULL;
    node_list l = {.list = NULL}, more = {.list = NULL};
    node_add(&l, node_free(tags, 2, may_be_bare ? "{[" : ""));
    node_add(&more, calls);
    node_add(&more, node_free(tags, 2, ""));
    node_add(&l, node_repeat(node_join(&more, "sequence"), 0, p->setup->speech->is_single ? 1 : 0, NULL));
    json_t *text = node_join(&l, "sequence");
    if (!may_be_bare) return text;
    node_list either = {.list = NULL};
    json_t *bare = calls_of(p, true, why);
    if (!bare) return json_decref(text), NULL;
    node_add(&either, text);
    node_add(&either, bare);
    return node_join(&either, "any");
}

/* What comes after the thoughts. */
static json_t *body_of(const plan *p, refusal *why) {
    const bool is_untagged = p->has_calls && p->setup->speech->tools->flags & TOOLS_UNTAGGED;
    if (p->has_calls && !p->lazy_calls) return calls_of(p, is_untagged, why);
    if (!p->has_calls) return demand_node(p->demand);
    if (!has_demand(p)) return text_and_calls(p, why);
    node_list either = {.list = NULL};
    json_t *calls = calls_of(p, is_untagged, why);
    if (!calls) return NULL;
    node_add(&either, demand_node(p->demand));
    node_add(&either, calls);
    return node_join(&either, "any");
}

/* ---- thoughts ---- */

static json_t *thought_of(const thought_format *f, bool is_open) {
    const char *const tags[] = {f->close};
    node_list l = {.list = NULL};
    if (!is_open) {
        node_add(&l, node_kind("regex", blanks));
        node_add(&l, node_of("tag", f->open));
    }
    node_add(&l, node_free(tags, 1, ""));
    node_add(&l, node_of("tag", f->close));
    node_add(&l, node_kind("regex", blanks));
    return node_join(&l, "sequence");
}

static json_t *with_thoughts(const plan *p, json_t *body) {
    const speech_setup *s = p->setup->speech;
    node_list l = {.list = NULL};
    if (!s->thoughts || !(s->starts_in_thought || p->setup->may_think)) return body;
    json_t *thought = thought_of(s->thoughts, s->starts_in_thought);
    node_add(&l, s->starts_in_thought ? thought : node_repeat(thought, 0, 1, NULL));
    node_add(&l, body);
    return node_join(&l, "sequence");
}

/* ---- harmony: a row of messages ---- */

static json_t *harmony_message(const char *header, json_t *content, const char *end) {
    node_list l = {.list = NULL};
    node_add(&l, node_of("tag", header));
    node_add(&l, content);
    node_add(&l, node_of("tag", end));
    return node_join(&l, "sequence");
}

static json_t *harmony_text(void) {
    static const char *const tags[] = {"<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"};
    return node_free(tags, sizeof tags / sizeof *tags, "");
}

/* Messages before the last: thoughts and, where text is free, words to the user before a call. */
static json_t *harmony_before(const plan *p) {
    static const char next[] = "<|end|><|start|>assistant";
    node_list either = {.list = NULL};
    node_add(&either, harmony_message("<|channel|>analysis<|message|>", harmony_text(), next));
    if (p->lazy_calls && !has_demand(p))
        node_add(&either, harmony_message("<|channel|>commentary<|message|>", harmony_text(), next));
    return node_repeat(node_join(&either, "any"), 0, 0, NULL);
}

static json_t *harmony_of(const plan *p, refusal *why) {
    node_list either = {.list = NULL}, l = {.list = NULL};
    json_t *calls = p->has_calls ? calls_of(p, false, why) : NULL;
    if (p->has_calls && !calls) return NULL;
    if (calls) node_add(&either, calls);
    if (!p->has_calls || p->lazy_calls)
        node_add(&either, harmony_message("<|channel|>final<|message|>",
                                          has_demand(p) ? demand_node(p->demand) : harmony_text(), ""));
    node_add(&l, harmony_before(p));
    node_add(&l, node_join(&either, "any"));
    return node_join(&l, "sequence");
}

/* ---- compiling ---- */

static qp_status compile(answer_form *out, const form_setup *s, const char *kind, const char *source, size_t bytes,
                         qp_error *err) {
    const demand *d = s->demand;
    const qp_grammar_options o = {.size = sizeof o,
                                  .whitespace = d->whitespace,
                                  .lenient = d->is_lenient,
                                  .ignore_formats = d->param && !d->is_strict,
                                  .cancelled = s->cancelled,
                                  .cancel_user = s->cancel_user};
    const double before = clock_now();
    out->kind = kind;
    const qp_status status = qp_grammar_new(&out->grammar, s->tokenizer, kind, source, bytes, &o, &out->report, err);
    out->compile_s = clock_now() - before;
    return status;
}

static bool refuse_source(const form_setup *s, qp_status status, const qp_error *err, refusal *why) {
    const char *param = s->demand->param ? s->demand->param : "tools";
    const bool is_schema = !s->demand->param || !strncmp(s->demand->kind, "json", 4);
    if (!strncmp(err->text, "tools:", 6)) param = "tools";
    if (status == QP_CANCELLED)
        return refuse(why, FAULT_SCHEMA_TIMEOUT, param, "%s: compiling it takes too long", param);
    if (status == QP_NO_MEMORY || status == QP_INTERNAL) return refuse_status(why, status, param, err);
    if (!strcmp(param, "tools")) return refuse(why, FAULT_SCHEMA, param, "%s", err->text);
    return refuse(why, is_schema ? FAULT_SCHEMA : FAULT_BAD_REQUEST, param, "%s: %s", param, err->text);
}

static bool compile_node(answer_form *out, const form_setup *s, json_t *node, refusal *why) {
    char *source = node ? json_dumps(node, JSON_COMPACT) : NULL;
    qp_error err = {0};
    json_decref(node);
    if (!source) return refuse_memory(why, "a constraint");
    const qp_status status = compile(out, s, "structure", source, strlen(source), &err);
    free(source);
    return status == QP_OK || refuse_source(s, status, &err, why);
}

static bool make_grammar(answer_form *out, const plan *p, refusal *why) {
    const form_setup *s = p->setup;
    const bool is_harmony = s->speech->tools && s->speech->tools->body == BODY_HARMONY;
    const bool has_thoughts = s->speech->thoughts && (s->speech->starts_in_thought || s->may_think);
    qp_error err = {0};
    if (!p->has_calls && !is_harmony && !has_thoughts) {
        const qp_status status = compile(out, s, s->demand->kind, s->demand->source.at, s->demand->source.bytes, &err);
        return status == QP_OK || refuse_source(s, status, &err, why);
    }
    *why = (refusal){.fault = FAULT_COUNT};
    json_t *node = is_harmony ? harmony_of(p, why) : body_of(p, why);
    if (!node) return why->fault != FAULT_COUNT ? false : refuse_memory(why, "a constraint");
    return compile_node(out, s, is_harmony ? node : with_thoughts(p, node), why);
}

bool form_make(answer_form *out, const form_setup *s, refusal *why) {
    const ask *a = s->ask;
    const bool must_call = a->tools && (a->choice == CHOOSE_REQUIRED || a->choice == CHOOSE_NAMED);
    const bool may_call = a->tools && !must_call && (a->has_strict || s->demand->param);
    const plan p = {s, s->demand, must_call || may_call, may_call};
    *out = (answer_form){.grammar = NULL};
    if (budget_limit(a) >= 0 && !budget_make(&out->budget, s->speech, s->tokenizer, a, why)) return false;
    if (must_call && s->demand->param)
        return refuse(why, FAULT_BAD_REQUEST, s->demand->param,
                      "%s: tool_choice demands a call, so there is no text that it could hold for", s->demand->param);
    s->speech->is_exact = p.has_calls;
    s->speech->is_either = may_call && s->demand->param;
    return (!p.has_calls && !s->demand->param) || make_grammar(out, &p, why);
}

void form_free(answer_form *f) {
    qp_grammar_free(f->grammar);
    qp_free(f->report);
    budget_free(f->budget);
    *f = (answer_form){.grammar = NULL};
}

qp_status form_filters(const answer_form *f, qp_filter room[FORM_FILTERS], qp_job_options *o, qp_error *err) {
    size_t n = 0;
    if (f->grammar) ERR_TRY(qp_filter_new(&room[n++], f->grammar, err));
    qp_status status = f->budget ? budget_filter(&room[n], f->budget, err) : QP_OK;
    if (status == QP_OK && f->budget) n++;
    for (size_t i = 0; status != QP_OK && i < n; i++) room[i].free(room[i].user);
    if (status != QP_OK) return status;
    o->filters = room;
    o->n_filters = n;
    return QP_OK;
}

void form_drop(qp_job_options *o) {
    for (size_t i = 0; i < o->n_filters; i++)
        if (o->filters[i].free) o->filters[i].free(o->filters[i].user);
    o->n_filters = 0;
}

/* ---- warnings ---- */

static void add_warning(strbuf *out, const json_t *entry) {
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *keyword = json_string_value(json_object_get(entry, "keyword"));
    const char *message = json_string_value(json_object_get(entry, "message"));
    if (!keyword || !*keyword || out->bytes > LONGEST_WARNINGS) return;
    strbuf_format(out, "%s%.100s %.60s: %.200s", out->bytes ? "; " : "", path ? path : "", keyword,
                  message ? message : "");
}

bool form_warnings(const answer_form *f, strbuf *out) {
    static const char *const lists[] = {"warnings", "remarks"};
    json_t *report = NULL, *entry;
    size_t k;
    if (!f->report || json_parse(&report, f->report, strlen(f->report), "report", NULL) != QP_OK) return false;
    for (size_t i = 0; i < 2; i++)
        json_array_foreach(json_object_get(report, lists[i]), k, entry) add_warning(out, entry);
    json_decref(report);
    for (size_t i = 0; i < out->bytes; i++) /* a header is plain characters on one line */
        if ((unsigned char)out->at[i] < ' ' || (unsigned char)out->at[i] > '~') out->at[i] = '?';
    return out->bytes && !out->failed;
}
