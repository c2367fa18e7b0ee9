/* regex.c — regular expressions of tokenizer files, run by PCRE2. The only file that calls PCRE2. */
#include "regex.h"
#include "base/mem.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MATCH_LIMIT = 20000000, DEPTH_LIMIT = 2000000, HEAP_LIMIT_KIB = 256 << 10, STACK_BYTES = 1 << 20 };

struct regex {
    pcre2_code *code;
    bool has_jit;
};

static void *give_memory(size_t bytes, void *unused) { return mem_array(bytes, 1); }
static void take_memory(void *memory, void *unused) { mem_free(memory); }

static qp_status compile_error(qp_error *err, int code, size_t at, span pattern) {
    PCRE2_UCHAR text[160];
    if (pcre2_get_error_message(code, text, sizeof text) < 0) text[0] = 0;
    return err_set(err, code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED ? QP_NO_MEMORY : QP_BAD_FORMAT,
                   at, "regular expression \"%.*s\": %s at byte %zu of its translation",
                   (int)(pattern.bytes < 200 ? pattern.bytes : 200), pattern.at, (const char *)text, at);
}

static qp_status compile_translated(regex *r, const strbuf *text, span pattern, qp_error *err) {
    int code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at = 0;
    pcre2_general_context *general = pcre2_general_context_create(give_memory, take_memory, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        r->code = pcre2_compile((PCRE2_SPTR)(text->at ? text->at : ""), text->bytes,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &at, context);
    }
    if (r->code) r->has_jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return r->code ? QP_OK : compile_error(err, code, at, pattern);
}

qp_status regex_compile(regex **out, span pattern, qp_error *err) {
    strbuf text = {.limit = 1 << 20};
    *out = NULL;
    regex *r = MEM_NEW(regex);
    if (!r) return err_no_memory(err, sizeof *r, "regular expression");
    qp_status status = regex_from_ruby(&text, pattern, err);
    if (text.failed) status = strbuf_status(&text, err, "regular expression");
    if (status == QP_OK) status = compile_translated(r, &text, pattern, err);
    strbuf_free(&text);
    if (status != QP_OK) return regex_free(r), status;
    *out = r;
    return QP_OK;
}

void regex_free(regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    mem_free(r);
}

void regex_scratch_free(regex_scratch *s) {
    pcre2_match_data_free(s->match_data);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (regex_scratch){0};
}

static bool prepare(regex_scratch *s) {
    if (s->match_data) return true;
    pcre2_general_context *general = pcre2_general_context_create(give_memory, take_memory, NULL);
    if (!general) return false;
    s->context = pcre2_match_context_create(general);
    s->stack = pcre2_jit_stack_create(32 << 10, STACK_BYTES, general);
    s->match_data = pcre2_match_data_create(1, general);
    pcre2_general_context_free(general);
    if (!s->context || !s->match_data) {
        regex_scratch_free(s);
        return false;
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    pcre2_set_depth_limit(s->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return true;
}

qp_status regex_next(const regex *r, regex_scratch *s, span text, size_t from, bool *found, size_t *start, size_t *end,
                     qp_error *err) {
    if (!prepare(s)) return err_no_memory(err, STACK_BYTES, "regular expression");
    int n = pcre2_match(r->code, (PCRE2_SPTR)text.at, text.bytes, from, PCRE2_NO_UTF_CHECK, s->match_data, s->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(r->code, (PCRE2_SPTR)text.at, text.bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        s->match_data, s->context);
    *found = n >= 0;
    if (n >= 0) {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->match_data);
        *start = at[0];
        *end = at[1] < at[0] ? at[0] : at[1]; /* \K inside a lookahead */
        return QP_OK;
    }
    if (n == PCRE2_ERROR_NOMATCH) return QP_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return err_no_memory(err, 0, "regular expression");
    return err_set(err, QP_TOO_LARGE, from, "regular expression: needs too many steps at byte %zu of the text", from);
}
