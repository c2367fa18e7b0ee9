/* templates.h — chat templates by name: files of the template folder, and the formats that quipu brings. */
#ifndef SERVER_TEMPLATES_H
#define SERVER_TEMPLATES_H

#include "models.h"

/* With one use. A name is a file's without .jinja; it never leaves the folder. */
qp_status templates_open(chat_template **out, struct server *s, const char *name, qp_error *err);
/* The model's own; *out is NULL where it has none. */
qp_status templates_open_own(chat_template **out, const char *model_path, qp_error *err);
/* A new sorted array of names; NULL when memory is short. */
json_t *templates_names(struct server *s);

/* May this be a part of a path: no slash, no dot in front, no control characters? */
bool templates_is_name(const char *name);

#endif
