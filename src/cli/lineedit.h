/* lineedit.h — a line that a person types: edited, with history, on a terminal; plain lines of a pipe elsewhere. */
#ifndef CLI_LINEEDIT_H
#define CLI_LINEEDIT_H

#include "base/str.h"

typedef struct lineedit lineedit;
typedef enum lineedit_end {
    LINEEDIT_LINE,
    LINEEDIT_STOPPED,       /* Ctrl-C behind a text, which is given up */
    LINEEDIT_STOPPED_EMPTY, /* Ctrl-C and nothing else */
    LINEEDIT_END,           /* Ctrl-D, or the end of the pipe */
} lineedit_end;

/* Edits if both standard input and standard error, where the line is shown, are terminals. One at a time: it blocks two
 * signals (a new window size, going on after Ctrl-Z) in the calling thread, which must be the one that reads. */
qp_status lineedit_open(lineedit **out, qp_error *err);
void lineedit_close(lineedit *e);
bool lineedit_is_live(const lineedit *e);
/* The next line without its end; what is pasted is one line with newlines in it. The prompt is shown by an editor only.
 */
qp_status lineedit_read(lineedit *e, const char *prompt, strbuf *out, lineedit_end *end, qp_error *err);
/* From now on the tab key inserts what `complete` appends to *rest, given the line up to the cursor. */
void lineedit_set_complete(lineedit *e, void (*complete)(void *user, span line, strbuf *rest), void *user);
/* Puts a text into the history that the arrow keys reach. */
void lineedit_remember(lineedit *e, const char *text);

#endif
