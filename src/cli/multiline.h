/* multiline.h — lines as they are typed become messages.
 *
 * A message is one line; lines that end in a backslash and the one after them; or everything between two """. */
#ifndef CLI_MULTILINE_H
#define CLI_MULTILINE_H

#include "base/str.h"

/* Zero-initialised is empty and ready. */
typedef struct multiline {
    strbuf text;
    bool is_open;   /* lines are missing yet */
    bool is_fenced; /* between two """, or was: it is no command whatever it begins with */
} multiline;

/* Adds a line without its end. True: the message is whole. */
bool multiline_add(multiline *m, const char *line, size_t bytes);
/* Forgets the message. */
void multiline_clear(multiline *m);
void multiline_free(multiline *m);

#endif
