/* input.h — what commands read: prompts, token ids, lines of JSON.
 *
 * A path of "-" or NULL is standard input; pipes and devices are as good as files. Everything has a limit, nothing ends
 * at a zero byte. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "command.h"
#include "base/str.h"
#include <stdio.h>

enum { INPUT_LIMIT = 256 << 20 }; /* bytes of a prompt, of a file of ids, of a line */

typedef struct input_ids {
    int32_t *at;
    size_t count, capacity;
} input_ids;

qp_status input_read(strbuf *out, const char *path, size_t limit, qp_error *err);
/* The text of --prompt, --file or standard input; a terminal nobody has redirected is wrong usage. */
qp_status input_prompt(strbuf *out, session *s, qp_error *err);
/* Ids of text: a JSON array, or numbers separated by blanks. `where` names the text in errors. */
qp_status input_parse_ids(input_ids *out, const char *text, size_t bytes, const char *where, qp_error *err);
/* The same out of a file, all of them under `size`. */
qp_status input_load_ids(input_ids *out, session *s, const char *path, int size, qp_error *err);
qp_status input_check_ids(const input_ids *ids, int size, const char *where, qp_error *err);
void input_free_ids(input_ids *ids);
/* Calls visit for each line (without its end) of the file, with a text like "standard input, line 3" for errors; stops
 * at the first failure. What was answered is flushed line by line. */
qp_status input_each_line(const char *path, void *user,
                          qp_status (*visit)(void *user, const char *line, size_t bytes, const char *where,
                                             qp_error *err),
                          qp_error *err);

#endif
