/* adapters.c — the set of loaded LoRA adapters: made by loader.c, swapped as a whole, taken and let go by requests.
 *
 * A set never changes: a request holds the one that it began with until its jobs are made, so that loading needs no
 * pause. The pointer to the set is guarded by the same lock as the pointer to the model. */
#include "adapters.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "models_impl.h"
#include "server.h"
#include "templates.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- sets ---- */

adapter_set *adapters_new(void) {
    adapter_set *set = MEM_NEW(adapter_set);
    if (set) atomic_store(&set->users, 1);
    return set;
}

void adapters_drop(adapter_set *set) {
    if (!set || atomic_fetch_sub(&set->users, 1) != 1) return;
    for (int i = 0; i < set->n; i++) qp_adapter_close(set->items[i].adapter);
    mem_free(set);
}

static const adapter_item *find(const adapter_set *set, const char *name) {
    for (int i = 0; set && name && i < set->n; i++)
        if (!strcmp(set->items[i].name, name)) return &set->items[i];
    return NULL;
}

qp_status adapters_add(adapter_set *set, const model_slot *m, const adapter_wish *wish, qp_error *err) {
    char path[PATH_MAX];
    if (set->n == ADAPTERS_MOST)
        return err_set(err, QP_TOO_LARGE, 0, "more than %d adapters at the same time", ADAPTERS_MOST);
    if (find(set, wish->name)) return err_set(err, QP_BAD_ARGUMENT, 0, "'%s' is named twice", wish->name);
    if (!templates_is_name(wish->name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "'%s' is not the name of a folder in %.200s", wish->name,
                       m->server->config->lora_dir);
    if (!strcmp(wish->name, m->id))
        return err_set(err, QP_BAD_ARGUMENT, 0, "'%s' is the model's own name, by which requests ask for it",
                       wish->name);
    ERR_TRY(file_join(path, sizeof path, m->server->config->lora_dir, wish->name, err));
    adapter_item *item = &set->items[set->n];
    ERR_TRY(qp_adapter_open(&item->adapter, m->model, path, err));
    snprintf(item->name, sizeof item->name, "%s", wish->name);
    item->scale = wish->scale;
    item->created = (int64_t)clock_unix();
    set->n++;
    return QP_OK;
}

adapter_set *adapters_take(model_slot *m) {
    models *all = m->server->models;
    bell_lock(&all->bell);
    adapter_set *set = m->adapters;
    if (set) atomic_fetch_add(&set->users, 1);
    bell_unlock(&all->bell);
    return set;
}

void adapters_put(model_slot *m, adapter_set *fresh) {
    models *all = m->server->models;
    bell_lock(&all->bell);
    adapter_set *old = m->adapters;
    m->adapters = fresh;
    bell_unlock(&all->bell);
    adapters_drop(old);
}

bool adapters_has(model_slot *m, const char *name) {
    adapter_set *set = adapters_take(m);
    const bool has = find(set, name) != NULL;
    adapters_drop(set);
    return has;
}

qp_status adapters_read_wish(adapter_wish *out, const char *text, qp_error *err) {
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    const double scale = colon ? strtod(colon + 1, &end) : 1;
    const size_t bytes = colon ? (size_t)(colon - text) : strlen(text);
    if (!bytes || bytes >= sizeof out->name || (colon && (end == colon + 1 || *end)) || !isfinite(scale))
        return err_set(err, QP_BAD_ARGUMENT, 0, "loras: found '%.100s', allowed are NAME and NAME:SCALE", text);
    snprintf(out->name, sizeof out->name, "%.*s", (int)bytes, text);
    out->scale = (float)scale;
    return QP_OK;
}

/* ---- for a request ---- */

static const adapter_item *find_listed(const adapter_set *set, const json_t *entry) {
    const json_t *id = json_object_get(entry, "id"), *name = json_object_get(entry, "name");
    if (!name && json_is_string(id)) name = id;
    if (json_is_string(name)) return find(set, json_string_value(name));
    const json_int_t place = json_integer_value(id);
    return set && json_is_integer(id) && place >= 0 && place < set->n ? &set->items[place] : NULL;
}

static bool add_listed(adapter_choice *out, const json_t *entry, size_t i, refusal *why) {
    char place[32];
    snprintf(place, sizeof place, "lora[%zu]", i);
    const adapter_item *item = json_is_object(entry) ? find_listed(out->set, entry) : NULL;
    const json_t *scale = json_object_get(entry, "scale");
    if (!json_is_object(entry)) return field_wrong_kind(why, place, entry, "an object of name (or id) and scale");
    if (!item)
        return refuse(why, FAULT_BAD_REQUEST, place, "%s: no such adapter is loaded; there are %d", place,
                      out->set ? out->set->n : 0);
    if (scale && !json_is_null(scale) && (!json_is_number(scale) || !(fabs(json_number_value(scale)) <= 1e6)))
        return field_wrong_kind(why, place, scale, "a scale from -1000000 to 1000000");
    for (size_t k = 0; k < out->n; k++)
        if (out->uses[k].adapter == item->adapter)
            return refuse(why, FAULT_BAD_REQUEST, place, "%s: '%s' is listed twice", place, item->name);
    const float wanted = json_is_number(scale) ? (float)json_number_value(scale) : item->scale;
    out->uses[out->n++] = (qp_adapter_use){item->adapter, wanted};
    return true;
}

bool adapters_choose(adapter_choice *out, model_slot *m, const char *model_name, const json_t *lora, refusal *why) {
    *out = (adapter_choice){.set = adapters_take(m)};
    if (lora && !json_is_array(lora)) return field_wrong_kind(why, "lora", lora, "an array of objects");
    for (size_t i = 0; i < json_array_size(lora); i++)
        if (!add_listed(out, json_array_get(lora, i), i, why)) return false;
    const adapter_item *named = find(out->set, model_name);
    out->named = named ? named->name : NULL;
    if (lora) return true;
    for (int i = 0; out->set && i < out->set->n; i++) {
        const adapter_item *item = &out->set->items[i];
        if ((!named && item->scale != 0) || named == item)
            out->uses[out->n++] = (qp_adapter_use){item->adapter, item->scale};
    }
    return true;
}

void adapters_let_go(adapter_choice *choice) {
    adapters_drop(choice->set);
    *choice = (adapter_choice){0};
}
