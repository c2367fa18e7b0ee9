/* yaml.h — YAML text as a JSON document; the only user of libyaml.
 *
 * For files that people write: settings, keys, presets. One document, no anchors and no tags, a key once in a mapping;
 * every error names the line. */
#ifndef SERVER_YAML_H
#define SERVER_YAML_H

#include "base/err.h"
#include <jansson.h>

typedef enum yaml_scalars {
    YAML_TYPED, /* plain null, true, false and numbers become what they are, all else strings */
    YAML_RAW,   /* strings as written; a plain null or nothing at all becomes null */
} yaml_scalars;

/* *out is the document; an empty one becomes null. `where` names it in errors. */
qp_status yaml_read(json_t **out, const char *text, size_t bytes, yaml_scalars scalars, const char *where,
                    qp_error *err);
qp_status yaml_read_path(json_t **out, const char *path, size_t limit, yaml_scalars scalars, qp_error *err);

#endif
