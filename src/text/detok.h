/* detok.h — ids to text one at a time, never showing half a character.
 *
 * Holds the few ids whose text is not settled yet and says after each id what became visible. Exactly the chunks of
 * the reference's incremental decoder: an id whose text ends in U+FFFD waits. What detok_next and detok_flush give,
 * joined, equals tok_decode of all ids. Used by gen/ for every running job and by the command `detokenize --stream`.
 *
 * One thread at a time per detok; the tok must outlive it. */
#ifndef TEXT_DETOK_H
#define TEXT_DETOK_H

#include "tok.h"

typedef struct detok detok;

qp_status detok_new(detok **out, const tok *t, bool skip_special, qp_error *err);
void detok_free(detok *d);
/* Feeds one id. *text is borrowed until the next call; *has_text is false where nothing can be shown yet. */
qp_status detok_next(detok *d, int32_t id, span *text, bool *has_text, qp_error *err);
/* The end of the text: what is still held back (broken characters as U+FFFD); empty if nothing is. */
qp_status detok_flush(detok *d, span *text, qp_error *err);
/* Forgets everything, as new. */
void detok_reset(detok *d);
/* Makes `to` (of the same tok) stand where `from` stands: costs a copy of the held ids, a handful. For jobs that try a
 * continuation and take it back: keep one detok as the committed state, copy, feed the copy. */
qp_status detok_copy(detok *to, const detok *from, qp_error *err);
/* Bytes of text given out so far, by detok_next and detok_flush. */
uint64_t detok_shown(const detok *d);

#endif
