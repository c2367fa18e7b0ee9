/* post.h — post-processors: the special tokens that stand around an encoded text. */
#ifndef TEXT_POST_H
#define TEXT_POST_H

#include "base/json.h"
#include "idvec.h"

enum { POST_MAX_STEPS = 8, POST_TEXT = -1 };

/* Each step is a row of ids in which POST_TEXT stands for all that the steps before made. */
typedef struct post {
    idvec steps[POST_MAX_STEPS];
    int n;
} post;

/* `json` may be NULL: nothing is added. */
qp_status post_parse(post *p, const json_t *json, qp_error *err);
/* A step of its own: first, the text, last; -1 for none. */
qp_status post_surround(post *p, int32_t first, int32_t last, qp_error *err);
void post_free(post *p);
qp_status post_run(const post *p, idvec *ids, qp_error *err);
/* Whether the ids of an empty text begin / end with this id. */
bool post_begins_with(const post *p, int32_t id);
bool post_ends_with(const post *p, int32_t id);

#endif
