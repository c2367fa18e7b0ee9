/* component.c — see component.h. */
#include "component.h"
#include <string.h>

enum { MAX_DEPTH = 8 };

static qp_status each(const component_walk *w, void *owner, const json_t *json, int depth, qp_error *err) {
    const char *type = NULL;
    json_t *list = NULL;
    bool known = true;
    if (depth > MAX_DEPTH) return err_set(err, QP_TOO_LARGE, 0, "%s: sequences nested too deep", w->where);
    if (!json_is_object(json))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %s, expected an object", w->where, json_kind(json));
    ERR_TRY(json_need(json, "type", w->where, err));
    ERR_TRY(json_get_text(json, "type", &type, w->where, err));
    if (strcmp(type, "Sequence") != 0) {
        const qp_status status = w->take(owner, type, json, &known, err);
        return known ? status : err_set(err, QP_UNSUPPORTED, 0, "%s: type \"%.60s\" is not known", w->where, type);
    }
    ERR_TRY(json_need(json, w->list, w->where, err));
    ERR_TRY(json_get_array(json, w->list, &list, w->where, err));
    for (size_t i = 0; i < json_array_size(list); i++) ERR_TRY(each(w, owner, json_array_get(list, i), depth + 1, err));
    return QP_OK;
}

qp_status component_each(const component_walk *w, void *owner, const json_t *json, qp_error *err) {
    return !json || json_is_null(json) ? QP_OK : each(w, owner, json, 0, err);
}
