/* presets_routes.c — lists sampling presets and changes the selected one. */
#include "base/json.h"
#include "handlers.h"
#include "presets.h"
#include "reply.h"
#include "server.h"

void presets_list(http_request *r) {
    json_t *all = presets_describe(r->server->presets);
    /* What is not in use is for the admin to see. */
    if (all && r->access != ACCESS_ADMIN) json_object_set_new(all, "presets", json_array());
    reply_json(r, 200, all);
}

void presets_switch(http_request *r) {
    json_t *body = reply_read_body(r), *overrides = NULL;
    const char *name = NULL;
    qp_error err = {0};
    if (!body) return;
    qp_status status = json_get_text(body, "preset", &name, "the body", &err);
    if (status == QP_OK) status = json_get_object(body, "overrides", &overrides, "the body", &err);
    if (status == QP_OK && (name != NULL) == (overrides != NULL))
        status = err_set(&err, QP_BAD_ARGUMENT, 0, "preset or overrides: exactly one of them is needed");
    if (status == QP_OK)
        status =
            name ? presets_select(r->server->presets, name, &err) : presets_set(r->server->presets, overrides, &err);
    if (status == QP_OK)
        reply_null(r);
    else
        reply_error(r, status == QP_NO_MEMORY ? FAULT_INTERNAL : FAULT_BAD_REQUEST, name ? "preset" : "overrides", "%s",
                    err.text);
    json_decref(body);
}

void presets_unload(http_request *r) {
    presets_clear(r->server->presets);
    reply_null(r);
}
