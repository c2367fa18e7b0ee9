/* detok.c — ids to text one at a time, never showing half a character.
 *
 * The reference keeps the ids since the last text it gave and decodes them twice: once as far as they were shown, once
 * with the new id; what is longer is new, unless it ends in U+FFFD, which may be a character still under way. This is
 * the same with the first text remembered. */
#include "detok.h"
#include "idvec.h"

struct detok {
    const tok *t;
    bool skips_special;
    idvec ids;      /* since the last but one text that was given */
    size_t n_shown; /* of them: how many belong to texts already given */
    strbuf prefix;  /* the text of ids[0 .. n_shown), as they decode by themselves */
    strbuf text;    /* of all ids; what is returned lies in here */
    uint64_t shown;
};

qp_status detok_new(detok **out, const tok *t, bool skip_special, qp_error *err) {
    *out = MEM_NEW(detok);
    if (!*out) return err_no_memory(err, sizeof **out, "detokeniser");
    (*out)->t = t;
    (*out)->skips_special = skip_special;
    return QP_OK;
}

void detok_free(detok *d) {
    if (!d) return;
    idvec_free(&d->ids);
    strbuf_free(&d->prefix);
    strbuf_free(&d->text);
    mem_free(d);
}

void detok_reset(detok *d) {
    d->ids.n = d->n_shown = 0;
    d->shown = 0;
    strbuf_clear(&d->prefix);
    strbuf_clear(&d->text);
}

uint64_t detok_shown(const detok *d) { return d->shown; }

static qp_status decode(detok *d, size_t n, strbuf *out, qp_error *err) {
    strbuf_clear(out);
    ERR_TRY(tok_decode(d->t, d->ids.at, n, d->skips_special, out, err));
    return strbuf_status(out, err, "detokeniser");
}

static bool ends_broken(const strbuf *text) {
    return text->bytes >= 3 && !memcmp(text->at + text->bytes - 3, "\xef\xbf\xbd", 3);
}

/* What the whole text has beyond the prefix. Where a decoder rewrote what was shown, only what is longer is new. */
static span beyond_prefix(const detok *d) {
    size_t at = d->prefix.bytes;
    while (at < d->text.bytes && ((unsigned char)d->text.at[at] & 0xC0) == 0x80) at++;
    return (span){d->text.at + at, d->text.bytes - at};
}

/* Forgets the ids before the last text given; those of the last one stay, as their ends may matter to the next. */
static qp_status move_on(detok *d, qp_error *err) {
    const size_t keep = d->ids.n - d->n_shown;
    memmove(d->ids.at, d->ids.at + d->n_shown, keep * sizeof *d->ids.at);
    d->ids.n = d->n_shown = keep;
    return decode(d, keep, &d->prefix, err);
}

/* As the reference: while nothing was shown, what the ids so far say (special tokens hidden, a space dropped) is it. */
static qp_status settle_start(detok *d, qp_error *err) {
    if (d->prefix.bytes || !d->ids.n) return QP_OK;
    ERR_TRY(decode(d, d->ids.n, &d->prefix, err));
    if (ends_broken(&d->prefix))
        strbuf_clear(&d->prefix);
    else
        d->n_shown = d->ids.n;
    return QP_OK;
}

qp_status detok_next(detok *d, int32_t id, span *text, bool *has_text, qp_error *err) {
    *has_text = false;
    *text = SPAN("");
    ERR_TRY(settle_start(d, err));
    idvec_add(&d->ids, id);
    if (d->ids.failed) return err_no_memory(err, d->ids.n * sizeof id, "detokeniser");
    ERR_TRY(decode(d, d->ids.n, &d->text, err));
    if (d->text.bytes <= d->prefix.bytes || ends_broken(&d->text)) return QP_OK;
    *text = beyond_prefix(d);
    *has_text = true;
    d->shown += text->bytes;
    return move_on(d, err);
}

qp_status detok_flush(detok *d, span *text, qp_error *err) {
    *text = SPAN("");
    if (!d->ids.n) return QP_OK;
    ERR_TRY(decode(d, d->ids.n, &d->text, err));
    if (d->text.bytes > d->prefix.bytes) *text = beyond_prefix(d);
    d->shown += text->bytes;
    d->ids.n = d->n_shown = 0;
    strbuf_clear(&d->prefix);
    return QP_OK;
}

qp_status detok_copy(detok *to, const detok *from, qp_error *err) {
    detok_reset(to);
    idvec_add_all(&to->ids, from->ids.at, from->ids.n);
    strbuf_add(&to->prefix, from->prefix.at ? from->prefix.at : "", from->prefix.bytes);
    to->n_shown = from->n_shown;
    to->skips_special = from->skips_special;
    to->shown = from->shown;
    return to->ids.failed || to->prefix.failed ? err_no_memory(err, from->ids.n * sizeof *from->ids.at, "detokeniser")
                                               : QP_OK;
}
