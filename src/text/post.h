/* post.h — post-processors: the special tokens that stand around an encoded text. */
#ifndef TEXT_POST_H
#define TEXT_POST_H

#include "base/json.h"
#include "idvec.h"

enum { POST_TEXT = -1 };

/* A row of ids in which POST_TEXT stands for the encoded text. */
typedef struct post {
    idvec row;
} post;

/* `json` may be NULL: nothing is added. */
qp_status post_parse(post *p, const json_t *json, qp_error *err);
/* First, the text, last; -1 for none. */
qp_status post_surround(post *p, int32_t first, int32_t last, qp_error *err);
void post_free(post *p);
qp_status post_run(const post *p, idvec *ids, qp_error *err);
/* Whether the row begins / ends with this id. */
bool post_begins_with(const post *p, int32_t id);
bool post_ends_with(const post *p, int32_t id);

#endif
