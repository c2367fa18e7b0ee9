/* tmpl.c — templates from the outside: made from source, rendered with a context, freed.
 *
 * Rendering builds everything it needs in one arena with a limit and throws it away at the end; what is written goes
 * straight into the caller's buffer. */
#include "tmpl_run.h"
#include "base/utf8.h"

/* Defaults of the limits: a thousand times what the largest published template needs for a long conversation. */
enum { MAX_SOURCE = 8 << 20, DEFAULT_MEMORY = 256 << 20, DEFAULT_OUTPUT = 64 << 20, DEFAULT_DEPTH = 900 };
static const uint64_t DEFAULT_STEPS = 50000000;

qp_status tmpl_source_fail(const tmpl_source *s, size_t at, qp_error *err, qp_status code, const char *format, ...) {
    char text[420];
    size_t line = 1, column = 1, crlf = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < at && i < s->bytes; i++) {
        if (s->at[i] == '\n')
            line++, column = 1;
        else
            column += ((unsigned char)s->at[i] & 0xc0) != 0x80;
    }
    while (crlf < s->n_crlf && s->crlf[crlf] < at) crlf++;
    return err_set(err, code, at + crlf, "template line %zu, column %zu: %s", line, column, text);
}

/* Line ends become "\n" and the last one is dropped, as Jinja's lexer does. */
static qp_status normalize(tmpl *t, span source, qp_error *err) {
    char *text = arena_get(&t->memory, source.bytes + 1, 1);
    size_t n = 0, n_crlf = 0;
    for (size_t i = 0; i + 1 < source.bytes; i++) n_crlf += source.at[i] == '\r' && source.at[i + 1] == '\n';
    uint32_t *crlf = arena_get(&t->memory, n_crlf, sizeof *crlf);
    if (!text || !crlf) return err_no_memory(err, source.bytes, "template source");
    n_crlf = 0;
    for (size_t i = 0; i < source.bytes; i++) {
        const bool is_pair = source.at[i] == '\r' && i + 1 < source.bytes && source.at[i + 1] == '\n';
        if (is_pair) crlf[n_crlf++] = (uint32_t)n, i++;
        text[n++] = source.at[i] == '\r' ? '\n' : source.at[i];
    }
    if (n && text[n - 1] == '\n') n--;
    text[n] = 0;
    t->source = (tmpl_source){text, n, crlf, n_crlf};
    return QP_OK;
}

static qp_status build(tmpl *t, span source, qp_error *err) {
    if (source.bytes > MAX_SOURCE)
        return err_set(err, QP_TOO_LARGE, MAX_SOURCE, "template: %zu bytes, at most %d are allowed", source.bytes,
                       MAX_SOURCE);
    const size_t valid = utf8_valid_prefix(source.at, source.bytes);
    if (valid < source.bytes) return err_set(err, QP_BAD_FORMAT, valid, "template: not UTF-8 at byte %zu", valid);
    ERR_TRY(normalize(t, source, err));
    ERR_TRY(tmpl_parse(t, err));
    return tmpl_scope(t, err);
}

qp_status tmpl_new(tmpl **out, span source, qp_error *err) {
    tmpl *t = MEM_NEW(tmpl);
    *out = NULL;
    if (!t) return err_no_memory(err, sizeof *t, "template");
    const qp_status status = build(t, source, err);
    if (status != QP_OK)
        tmpl_free(t);
    else
        *out = t;
    return status;
}

void tmpl_free(tmpl *t) {
    if (t) arena_free(&t->memory);
    mem_free(t);
}

bool tmpl_mentions(const tmpl *t, const char *name) {
    for (int i = 0; i < t->n_reads; i++)
        if (span_is((span){t->reads[i]->at, t->reads[i]->bytes}, name)) return true;
    return false;
}

/* ---- rendering ---- */

static bool run_body(tmpl_run *r) {
    r->vars = tmpl_activation(r, r->t->func, NULL);
    if (!r->vars) return false;
    if (r->t->func->self_slot != NO_SLOT) r->vars->slots[r->t->func->self_slot] = (value){.kind = V_SELF};
    return tmpl_enter_frame(r, r->t->frame) && tmpl_exec(r, &r->t->body) != FLOW_FAIL;
}

static bool take_context(tmpl_run *r, const json_t *context) {
    value all, exported = {.dict = NULL};
    if (!json_is_object(context)) return tmpl_fail(r, "the context is not a JSON object");
    if (!tmpl_from_json(r, context, &all) || (r->t->blocks.count && !value_dict(r, &exported))) return false;
    r->context = all.dict;
    r->exported = exported.dict;
    if (r->t->blocks.count) return true;
    r->known = arena_zget(&r->memory, (size_t)r->t->n_reads, sizeof *r->known); /* all V_MISSING */
    return r->known || tmpl_no_memory(r);
}

qp_status tmpl_render(const tmpl *t, const json_t *context, double now_unix_seconds, const tmpl_limits *limits,
                      strbuf *out, bool *raised, qp_error *err) {
    const tmpl_limits l = limits ? *limits : (tmpl_limits){0};
    tmpl_run r = {.t = t, .out = out, .now = now_unix_seconds, .err = err, .steps = l.steps ? l.steps : DEFAULT_STEPS};
    r.memory.block_bytes = 65536;
    r.memory.limit_bytes = l.memory_bytes ? l.memory_bytes : DEFAULT_MEMORY;
    r.output_bytes = l.output_bytes ? l.output_bytes : DEFAULT_OUTPUT;
    r.depth = l.depth ? l.depth : DEFAULT_DEPTH;
    if (raised) *raised = false;
    const size_t before = out->bytes;
    if (take_context(&r, context)) run_body(&r);
    if (r.is_raised) {
        if (out->at) out->bytes = before;
        strbuf_add(out, r.raised.at, r.raised.bytes);
        if (raised) *raised = true;
    }
    arena_free(&r.memory);
    return r.status;
}
