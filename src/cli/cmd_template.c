/* cmd_template.c — quipu template: conversations in, rendered prompts out, one JSON document a line.
 *
 * A template that does not parse is an answer, not a failure: each line gets the error, as it does for a template that
 * fails while it runs. */
#include "input.h"
#include "load.h"
#include <limits.h>

enum { TEMPLATE_LIMIT = 16 << 20 };

typedef struct rendering {
    qp_template *chat; /* NULL: broken has the reason */
    qp_error broken;
} rendering;

static void print_error(strbuf *b, bool raised, const char *message) {
    strbuf_format(b, "{\"error\": {\"kind\": \"%s\", \"message\": ", raised ? "raise_exception" : "engine");
    strbuf_json(b, message, strlen(message));
    strbuf_text(b, "}}\n");
}

static qp_status render_line(void *user, const char *line, size_t bytes, const char *where, qp_error *err) {
    const rendering *r = user;
    qp_error why = r->broken;
    strbuf b = {0};
    char *text = NULL;
    size_t text_bytes = 0;
    bool raised = false;
    if (r->chat && qp_template_render(r->chat, line, bytes, &text, &text_bytes, &raised, &why) == QP_OK) {
        strbuf_text(&b, "{\"text\": ");
        strbuf_json(&b, text, text_bytes);
        strbuf_text(&b, "}\n");
    } else
        print_error(&b, raised, why.text);
    qp_free(text);
    const qp_status status = strbuf_status(&b, err, where);
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    return status;
}

static qp_status open_template(rendering *r, session *s, qp_error *err) {
    const options *o = s->o;
    if (!o->file) {
        char path[PATH_MAX];
        ERR_TRY(load_path(path, sizeof path, s, err));
        return qp_template_open(&r->chat, path, o->name, err);
    }
    strbuf source = {0};
    qp_status status = input_read(&source, o->file, TEMPLATE_LIMIT, err);
    if (status == QP_OK) {
        status = qp_template_new(&r->chat, source.at ? source.at : "", source.bytes, &r->broken);
        if (status != QP_OK && status != QP_NO_MEMORY)
            status = QP_OK;
        else if (status != QP_OK && err)
            *err = r->broken;
    }
    strbuf_free(&source);
    return status;
}

qp_status cmd_template(session *s, qp_error *err) {
    rendering r = {.chat = NULL};
    ERR_TRY(open_template(&r, s, err));
    if (!r.chat && !s->term.quiet) fprintf(stderr, "%s: %s\n", s->o->file, r.broken.text);
    const qp_status status = input_each_line(NULL, &r, render_line, err);
    qp_template_free(r.chat);
    return status;
}
