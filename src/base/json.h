/* json.h — typed getters over jansson, with errors that name the key, what was found and what is allowed.
 *
 * A getter whose key is absent or null leaves *out alone and succeeds: defaults are set before. The _need forms refuse
 * absence. `where` names the document in errors ("config.json"). */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "err.h"
#include <jansson.h>

/* Parses at most `bytes` bytes; the error has the offset. Duplicate keys: the last wins, as in
 * Python. If an integer exceeds 64 bits, all numbers of the document are reals (json_get_int takes whole ones). */
qp_status json_parse(json_t **out, const char *text, size_t bytes, const char *where, qp_error *err);
/* Reads and parses a file of at most `limit` bytes. */
qp_status json_load_path(json_t **out, const char *path, size_t limit, qp_error *err);

qp_status json_get_int(const json_t *object, const char *key, int64_t lowest, int64_t highest, int64_t *out,
                       const char *where, qp_error *err); /* also accepts 3.0 */
qp_status json_get_real(const json_t *object, const char *key, double *out, const char *where, qp_error *err);
qp_status json_get_bool(const json_t *object, const char *key, bool *out, const char *where, qp_error *err);
/* *out is borrowed from the document. */
qp_status json_get_text(const json_t *object, const char *key, const char **out, const char *where, qp_error *err);
/* NULL where absent or null; refuses another type. Borrowed. */
qp_status json_get_object(const json_t *object, const char *key, json_t **out, const char *where, qp_error *err);
qp_status json_get_array(const json_t *object, const char *key, json_t **out, const char *where, qp_error *err);
qp_status json_need(const json_t *object, const char *key, const char *where, qp_error *err);
/* "an object", "a string" ... for errors. */
const char *json_kind(const json_t *value);

#endif
