/* cmd_constrain.c — quipu constrain: which texts a constraint takes, where it refuses one, what its masks cost.
 *
 * A line of input is a text as a JSON string, a line of output what became of it. --explain tells on stderr what the
 * compiler had to say, and marks the byte at which a text is refused. */
#include "constraint.h"
#include "input.h"
#include "load.h"
#include "base/json.h"
#include "base/mem.h"

enum { MOST_MASKS = 65536 };

typedef struct checking {
    const session *s;
    constraint_list list;
    int *allowed;
    double *seconds;
} checking;

/* What all constraints together say of a text. */
typedef struct verdict {
    size_t n_good;
    bool complete;
    char *expected; /* of the first that refuses */
} verdict;

static qp_status judge(const checking *c, const char *text, size_t bytes, verdict *out, qp_error *err) {
    *out = (verdict){.n_good = bytes, .complete = true};
    for (int i = 0; i < c->list.n; i++) {
        size_t n_good;
        bool complete;
        char *expected;
        ERR_TRY(qp_grammar_check(c->list.at[i], text, bytes, &n_good, &complete, &expected, err));
        const bool is_first = n_good < out->n_good || (n_good == bytes && !complete && out->complete);
        if (is_first) {
            qp_free(out->expected);
            out->expected = expected;
            out->n_good = n_good;
        } else {
            qp_free(expected);
        }
        out->complete = out->complete && complete;
    }
    return QP_OK;
}

/* The text on one line, and a caret under the byte that was refused. */
static void mark(const char *text, size_t bytes, const verdict *v) {
    enum { BEFORE = 60, AFTER = 16 };
    size_t start = v->n_good > BEFORE ? v->n_good - BEFORE : 0;
    while (start < v->n_good && ((uint8_t)text[start] & 0xC0) == 0x80) start++;
    const size_t end = v->n_good + AFTER < bytes ? v->n_good + AFTER : bytes;
    int column = 0;
    for (size_t i = start; i < end; i++) {
        const unsigned char ch = (unsigned char)text[i];
        fputc(ch < 32 || ch == 127 ? ' ' : ch, stderr);
        if (i < v->n_good && (ch & 0xC0) != 0x80) column++;
    }
    fprintf(stderr, "\n%*s^ byte %zu: %s\n", column, "", v->n_good, v->expected ? v->expected : "");
}

static qp_status add_masks(const checking *c, strbuf *b, const char *text, size_t bytes, qp_error *err) {
    strbuf_text(b, ", \"masks\": [");
    for (int i = 0; i < c->list.n; i++) {
        size_t n = 0;
        ERR_TRY(qp_grammar_time(c->list.at[i], text, bytes, c->allowed, c->seconds, MOST_MASKS, &n, err));
        for (size_t k = 0; k < n && k < MOST_MASKS; k++)
            strbuf_format(b, "%s{\"constraint\": %d, \"token\": %zu, \"allowed\": %d, \"us\": %.2f}",
                          k || i ? ", " : "", i, k, c->allowed[k], c->seconds[k] * 1e6);
    }
    strbuf_char(b, ']');
    return QP_OK;
}

static qp_status answer(const checking *c, const char *text, size_t bytes, qp_error *err) {
    verdict v;
    strbuf b = {0};
    ERR_TRY(judge(c, text, bytes, &v, err));
    strbuf_format(&b, "{\"valid\": %s, \"at\": ", v.complete ? "true" : "false");
    if (v.complete)
        strbuf_text(&b, "null");
    else
        strbuf_format(&b, "%zu", v.n_good);
    strbuf_text(&b, ", \"expected\": ");
    if (v.complete || !v.expected)
        strbuf_text(&b, "null");
    else
        strbuf_json(&b, v.expected, strlen(v.expected));
    qp_status status = c->s->o->masks ? add_masks(c, &b, text, bytes, err) : QP_OK;
    strbuf_text(&b, "}\n");
    if (status == QP_OK) status = strbuf_status(&b, err, "the answer");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    if (status == QP_OK && c->s->o->explain && !v.complete) mark(text, bytes, &v);
    strbuf_free(&b);
    qp_free(v.expected);
    return status;
}

static qp_status check_line(void *user, const char *line, size_t bytes, const char *where, qp_error *err) {
    json_t *text = NULL;
    ERR_TRY(json_parse(&text, line, bytes, where, err));
    const qp_status status =
        json_is_string(text)
            ? answer(user, json_string_value(text), json_string_length(text), err)
            : err_set(err, QP_BAD_FORMAT, 0, "%s: found %s, allowed is a JSON string", where, json_kind(text));
    json_decref(text);
    return status;
}

static qp_status check_all(checking *c, qp_error *err) {
    const options *o = c->s->o;
    if (o->masks) {
        c->allowed = mem_array(MOST_MASKS, sizeof *c->allowed);
        c->seconds = mem_array(MOST_MASKS, sizeof *c->seconds);
        if (!c->allowed || !c->seconds) return err_no_memory(err, MOST_MASKS * sizeof *c->seconds, "masks");
    }
    if (o->prompt) return answer(c, o->prompt, strlen(o->prompt), err);
    return input_each_line(o->file, c, check_line, err);
}

static qp_status print_keywords(qp_error *err) {
    char *table;
    ERR_TRY(qp_grammar_keywords(&table, err));
    fputs(table, stdout);
    qp_free(table);
    return QP_OK;
}

qp_status cmd_constrain(session *s, qp_error *err) {
    const options *o = s->o;
    if (o->keywords) return print_keywords(err);
    if (!o->schema && !o->regex && !o->grammar && !o->choice)
        return session_usage(s, err, "one of --schema, --regex, --grammar and --choice is needed");
    qp_tokenizer *tokenizer = NULL;
    checking c = {.s = s};
    ERR_TRY(load_tokenizer(&tokenizer, s, err));
    qp_status status = constraint_open(&c.list, o, tokenizer, o->explain ? stderr : NULL, err);
    if (status == QP_OK) status = check_all(&c, err);
    constraint_close(&c.list);
    mem_free(c.allowed);
    mem_free(c.seconds);
    qp_tokenizer_close(tokenizer);
    return status;
}
