/* templates_routes.c — lists chat templates and changes the one in use. */
#include "base/json.h"
#include "handlers.h"
#include "models_impl.h"
#include "reply.h"
#include "server.h"
#include "templates.h"

void templates_list(http_request *r) {
    json_t *names = r->access == ACCESS_ADMIN ? templates_names(r->server) : json_array();
    model_slot *m = r->access == ACCESS_ADMIN ? NULL : models_take(r->server);
    chat_template *t = NULL;
    if (m) models_take_template(&t, m, NULL, NULL);
    if (t) json_array_append_new(names, json_string(t->name));
    models_drop_template(t);
    models_drop(m);
    reply_json(r, 200, names ? json_pack("{s:s,s:o}", "object", "list", "data", names) : NULL);
}

void templates_switch(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    json_t *body = m ? reply_read_body(r) : NULL;
    const char *name = NULL;
    chat_template *fresh = NULL;
    qp_error err = {0};
    if (body) {
        /* TabbyAPI's interface has had both names. */
        qp_status status = json_get_text(body, "prompt_template_name", &name, "the body", &err);
        if (status == QP_OK && !name) status = json_get_text(body, "name", &name, "the body", &err);
        if (status == QP_OK && !name) status = err_set(&err, QP_BAD_ARGUMENT, 0, "prompt_template_name: is missing");
        if (status == QP_OK) status = templates_open(&fresh, r->server, name, &err);
        if (status == QP_OK) {
            models_set_template(m, fresh);
            reply_null(r);
        } else {
            reply_error(r, FAULT_BAD_REQUEST, "prompt_template_name", "%s", err.text);
        }
    }
    json_decref(body);
    models_drop(m);
}

void templates_unload(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (!m) return;
    models_set_template(m, NULL);
    models_drop(m);
    reply_null(r);
}
