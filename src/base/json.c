/* json.c — typed getters over jansson, with errors that name the place, what was found and what is allowed. */
#include "json.h"
#include "file.h"
#include "mem.h"

const char *json_kind(const json_t *value) {
    static const char *const names[] = {"an object",     "an array", "a string", "an integer",
                                        "a real number", "true",     "false",    "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

qp_status json_parse(json_t **out, const char *text, size_t bytes, const char *where, qp_error *err) {
    json_error_t why;
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    *out = json_loadb(text, bytes, flags, &why);
    /* Published files say "model_max_length": 10^30 for "no limit"; such a document is read with all numbers real. */
    if (!*out && json_error_code(&why) == json_error_numeric_overflow)
        *out = json_loadb(text, bytes, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (*out) return QP_OK;
    if (json_error_code(&why) == json_error_out_of_memory) return err_no_memory(err, bytes, where);
    const uint64_t at = why.position < 0 ? 0 : (uint64_t)why.position;
    return err_set(err, QP_BAD_FORMAT, at, "%s: not valid JSON at line %d, column %d: %s", where, why.line, why.column,
                   why.text);
}

qp_status json_load_path(json_t **out, const char *path, size_t limit, qp_error *err) {
    char *text;
    size_t bytes;
    *out = NULL;
    ERR_TRY(file_read(&text, &bytes, path, limit, err));
    const qp_status status = json_parse(out, text, bytes, path, err);
    mem_free(text);
    return status;
}

/* NULL where absent or null. */
static json_t *present(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static qp_status wrong_kind(qp_error *err, const char *where, const char *key, const json_t *value,
                            const char *wanted) {
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is %s, expected %s", where, key, json_kind(value), wanted);
}

qp_status json_get_int(const json_t *object, const char *key, int64_t lowest, int64_t highest, int64_t *out,
                       const char *where, qp_error *err) {
    const json_t *value = present(object, key);
    if (!value) return QP_OK;
    if (!json_is_number(value)) return wrong_kind(err, where, key, value, "an integer");
    const double real = json_number_value(value);
    if (json_is_real(value) &&
        !(real >= -9007199254740992.0 && real <= 9007199254740992.0 && real == (double)(int64_t)real))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is %g, expected an integer", where, key, real);
    const int64_t integer = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)real;
    if (integer < lowest || integer > highest)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is %lld, allowed are %lld to %lld", where, key,
                       (long long)integer, (long long)lowest, (long long)highest);
    *out = integer;
    return QP_OK;
}

qp_status json_get_real(const json_t *object, const char *key, double *out, const char *where, qp_error *err) {
    const json_t *value = present(object, key);
    if (!value) return QP_OK;
    if (!json_is_number(value)) return wrong_kind(err, where, key, value, "a number");
    *out = json_number_value(value);
    return QP_OK;
}

qp_status json_get_bool(const json_t *object, const char *key, bool *out, const char *where, qp_error *err) {
    const json_t *value = present(object, key);
    if (!value) return QP_OK;
    if (!json_is_boolean(value)) return wrong_kind(err, where, key, value, "true or false");
    *out = json_is_true(value);
    return QP_OK;
}

qp_status json_get_text(const json_t *object, const char *key, const char **out, const char *where, qp_error *err) {
    const json_t *value = present(object, key);
    if (!value) return QP_OK;
    if (!json_is_string(value)) return wrong_kind(err, where, key, value, "a string");
    *out = json_string_value(value);
    return QP_OK;
}

qp_status json_get_object(const json_t *object, const char *key, json_t **out, const char *where, qp_error *err) {
    *out = present(object, key);
    if (!*out || json_is_object(*out)) return QP_OK;
    return wrong_kind(err, where, key, *out, "an object");
}

qp_status json_get_array(const json_t *object, const char *key, json_t **out, const char *where, qp_error *err) {
    *out = present(object, key);
    if (!*out || json_is_array(*out)) return QP_OK;
    return wrong_kind(err, where, key, *out, "an array");
}

qp_status json_need(const json_t *object, const char *key, const char *where, qp_error *err) {
    if (present(object, key)) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is missing", where, key);
}
