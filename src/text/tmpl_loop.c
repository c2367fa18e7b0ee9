/* tmpl_loop.c — for loops and their `loop` variable.
 *
 * Items are taken one by one, so that a generator is walked no further than the body asks; `loop.last` and
 * `loop.nextitem` look one item ahead, `loop.length` of something without a length takes all the rest. The tricky
 * thing is the loop's own `if`: while it looks at an item ahead, the body's variables must keep the current one, so
 * they are put aside. As in Jinja, `else` also runs when every round ended with continue or break. */
#include "tmpl_run.h"

/* The item as Jinja's filtering function passes it on: a target of several names has unpacked it to a tuple. */
static bool rebuild(tmpl_run *r, const node *target, value *item) {
    if (target->kind != N_TUPLE) return *item = *tmpl_slot(r, target->ref), true;
    if (!value_seq(r, V_TUPLE, (size_t)target->list.count, item)) return false;
    for (int i = 0; i < target->list.count; i++)
        if (!rebuild(r, target->list.at[i], &item->seq->at[i])) return false;
    return true;
}

static bool test_item(tmpl_run *r, vloop *loop, value *item, bool *out) {
    const frame_info *test = loop->n->frame3;
    for (int i = 0; i < test->n_stores; i++) loop->saved[i] = *tmpl_slot(r, test->stores[i].from);
    if (!tmpl_assign(r, loop->n->c, *item) || !rebuild(r, loop->n->c, item)) return false;
    for (int i = 0; i < test->n_stores; i++) {
        value *body = tmpl_slot(r, test->stores[i].from);
        *tmpl_slot(r, test->stores[i].to) = *body;
        *body = loop->saved[i];
    }
    return tmpl_holds(r, loop->n->b, out);
}

/* Whether the loop's `if` wants this item. A macro that was called from the body may be the one who asks, so the
 * variables are those of the loop. */
static bool passes(tmpl_run *r, vloop *loop, value *item, bool *out) {
    const uint32_t at = r->at;
    activation *before = r->vars;
    r->vars = loop->vars;
    const bool is_right = test_item(r, loop, item, out);
    r->vars = before;
    r->at = at;
    return is_right;
}

/* The next item that the loop's `if` lets through. */
static bool next_raw(tmpl_run *r, vloop *loop, value *out, bool *is_done) {
    bool is_wanted = false;
    *is_done = loop->is_exhausted;
    while (!is_wanted && !*is_done) {
        if (!iter_next(r, &loop->items, out, is_done)) return false;
        is_wanted = true;
        if (loop->saved && !*is_done && !passes(r, loop, out, &is_wanted)) return false;
    }
    loop->is_exhausted = *is_done;
    return true;
}

bool tmpl_loop_next(tmpl_run *r, vloop *loop, value *out, bool *is_done) {
    *is_done = false;
    if (loop->after.kind != V_MISSING) {
        *out = loop->after;
        loop->after = (value){.kind = V_MISSING};
    } else if (!next_raw(r, loop, out, is_done))
        return false;
    if (*is_done) return true;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return true;
}

static bool peek(tmpl_run *r, vloop *loop) {
    bool is_done;
    value next;
    if (loop->after.kind != V_MISSING) return true;
    if (!next_raw(r, loop, &next, &is_done)) return false;
    if (!is_done) loop->after = next;
    return true;
}

static bool find_length(tmpl_run *r, vloop *loop) {
    bool has_length = false;
    value rest;
    if (loop->length != UNKNOWN) return true;
    if (!loop->saved && !value_length(r, loop->on, &loop->length, &has_length)) return false;
    if (has_length) return true;
    if (!value_seq(r, V_LIST, 0, &rest)) return false;
    for (;;) {
        value item;
        bool is_done;
        if (!next_raw(r, loop, &item, &is_done)) return false;
        if (is_done) break;
        if (!value_append(r, &rest, item)) return false;
    }
    loop->length = rest.seq->count + (size_t)(loop->index0 + 1) + (loop->after.kind != V_MISSING);
    loop->saved = NULL;
    loop->is_exhausted = false;
    return iter_begin(r, rest, &loop->items);
}

static bool attr_of_length(tmpl_run *r, vloop *loop, int64_t minus, value *out) {
    if (!find_length(r, loop)) return false;
    *out = value_int((int64_t)loop->length - minus);
    return true;
}

static bool attr_ahead(tmpl_run *r, vloop *loop, bool is_last, value *out) {
    if (!peek(r, loop)) return false;
    const bool is_end = loop->after.kind == V_MISSING;
    *out = is_last ? value_bool(is_end) : is_end ? value_undefined(r, "there is no next item") : loop->after;
    return true;
}

bool tmpl_loop_attr(tmpl_run *r, vloop *loop, span name, value *out, bool *is_known) {
    *is_known = true;
    if (span_is(name, "index0")) return *out = value_int(loop->index0), true;
    if (span_is(name, "index")) return *out = value_int(loop->index0 + 1), true;
    if (span_is(name, "first")) return *out = value_bool(loop->index0 == 0), true;
    if (span_is(name, "last")) return attr_ahead(r, loop, true, out);
    if (span_is(name, "length")) return attr_of_length(r, loop, 0, out);
    if (span_is(name, "revindex")) return attr_of_length(r, loop, loop->index0, out);
    if (span_is(name, "revindex0")) return attr_of_length(r, loop, loop->index0 + 1, out);
    if (span_is(name, "nextitem")) return attr_ahead(r, loop, false, out);
    if (span_is(name, "previtem")) {
        *out = loop->index0 <= 0 ? value_undefined(r, "there is no previous item") : loop->before;
        return true;
    }
    if (span_is(name, "depth")) return *out = value_int(loop->depth0 + 1), true;
    if (span_is(name, "depth0")) return *out = value_int(loop->depth0), true;
    *is_known = false;
    return true;
}

/* ---- running ---- */

static bool begin(tmpl_run *r, const node *n, value on, int64_t depth0, activation *outer, vloop **out) {
    vloop *loop = tmpl_get(r, 1, sizeof *loop);
    if (!loop) return false;
    *loop =
        (vloop){.n = n, .outer = outer, .on = on, .index0 = -1, .depth0 = depth0, .length = UNKNOWN, .vars = r->vars};
    *out = loop;
    if (!iter_begin(r, on, &loop->items)) return false;
    if (!n->b) return true;
    loop->saved = tmpl_get(r, (size_t)n->frame3->n_stores, sizeof *loop->saved);
    return loop->saved && tmpl_enter_frame(r, n->frame3);
}

/* All rounds; the variables of the body are r->vars'. */
static flow run(tmpl_run *r, const node *n, vloop *loop) {
    bool was_whole = false, is_done;
    for (;;) {
        value item;
        if (!tmpl_loop_next(r, loop, &item, &is_done)) return FLOW_FAIL;
        if (is_done) break;
        if (!tmpl_put(r, n->c, item) || (n->frame->n_loads && !tmpl_enter_frame(r, n->frame))) return FLOW_FAIL;
        if (n->frame->loop_slot != NO_SLOT) r->vars->slots[n->frame->loop_slot] = (value){.kind = V_LOOP, .loop = loop};
        const flow how = tmpl_exec(r, &n->list);
        if (how == FLOW_FAIL) return how;
        if (how == FLOW_BREAK) break;
        was_whole |= how == FLOW_GO;
    }
    if (was_whole || !n->list2.count) return FLOW_GO;
    return tmpl_enter_frame(r, n->frame2) ? tmpl_exec(r, &n->list2) : FLOW_FAIL;
}

/* A recursive loop is a function with variables of its own. */
static flow run_recursive(tmpl_run *r, const node *n, value on, int64_t depth0, activation *outer) {
    activation *before = r->vars;
    vloop *loop;
    r->vars = tmpl_activation(r, n->func, outer);
    const flow how = r->vars && begin(r, n, on, depth0, outer, &loop) ? run(r, n, loop) : FLOW_FAIL;
    r->vars = before;
    return how;
}

flow tmpl_exec_for(tmpl_run *r, const node *n) {
    value on;
    vloop *loop;
    if (!tmpl_eval(r, n->a, &on)) return FLOW_FAIL;
    r->at = n->at;
    if (n->is_flag) return run_recursive(r, n, on, 0, r->vars);
    return begin(r, n, on, 0, NULL, &loop) ? run(r, n, loop) : FLOW_FAIL;
}

bool tmpl_loop_call(tmpl_run *r, vloop *loop, const call_args *args, value *out) {
    value on;
    strbuf *before = r->out, text = {0};
    if (!tmpl_bind(r, "loop", "iterable", args, &on)) return false;
    if (!loop->n->is_flag) return tmpl_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    const uint32_t at = r->at;
    r->out = &text;
    const bool is_right = tmpl_enter(r) && run_recursive(r, loop->n, on, loop->depth0 + 1, loop->outer) != FLOW_FAIL;
    tmpl_leave(r);
    r->out = before;
    r->at = at;
    if (is_right) return tmpl_take_text(r, &text, out);
    strbuf_free(&text);
    return false;
}
