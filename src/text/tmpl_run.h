/* tmpl_run.h — one rendering: its state, and the operations on values that the evaluator, filters, tests and methods
 * share. Each group names the file that has it.
 *
 * Functions that can fail answer false after tmpl_fail(); callers pass that on. Whatever loops over data calls
 * tmpl_spend(), whatever walks over a text for tmpl_spend(bytes / STEP_...), whatever recurses brackets itself with
 * tmpl_enter() and tmpl_leave(). */
#ifndef TEXT_TMPL_RUN_H
#define TEXT_TMPL_RUN_H

#include "tmpl_ast.h"
#include "tmpl_text.h"

/* The variables of one call of a function. */
typedef struct activation {
    struct activation *outer;
    value *slots;
} activation;

typedef struct tmpl_run {
    const tmpl *t;
    arena memory;
    strbuf *out; /* what the current body writes to */
    activation *vars;
    vdict *context;    /* what the caller gave */
    vdict *exported;   /* top-level sets; NULL where the template has no blocks */
    value *known;      /* the context's answers by number of the name; NULL where they may change */
    vdict *block_vars; /* what a scoped block sees on top; NULL: nothing */
    double now;
    uint64_t steps; /* left */
    int depth;      /* left */
    size_t output_bytes;
    uint32_t at; /* offset of the node being evaluated */
    bool is_raised;
    span raised; /* the message of raise_exception */
    qp_error *err;
    qp_status status;
} tmpl_run;

/* ---- tmpl_run.c ---- */
bool tmpl_fail(tmpl_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For limits, memory and what this engine does not do. */
bool tmpl_fail_as(tmpl_run *r, qp_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool tmpl_no_memory(tmpl_run *r);
bool tmpl_out_of_steps(tmpl_run *r);
bool tmpl_too_deep(tmpl_run *r);
static inline bool tmpl_spend(tmpl_run *r, uint64_t steps) {
    if (r->status != QP_OK) return false;
    if (steps > r->steps) return tmpl_out_of_steps(r);
    r->steps -= steps;
    return true;
}
/* Work on texts is paid by the byte, before or right after it is done: a step moves, compares or searches so many
 * bytes, walks over fewer characters, and asks Unicode's tables or writes digits and escapes for fewer still. */
enum { STEP_MOVES = 64, STEP_WALKS = 16, STEP_READS = 4 };
/* Takes a level even when it fails: callers leave in any case. */
static inline bool tmpl_enter(tmpl_run *r) { return --r->depth >= 0 || tmpl_too_deep(r); }
static inline void tmpl_leave(tmpl_run *r) { r->depth++; }
/* NULL (and failed) over the memory limit. */
void *tmpl_get(tmpl_run *r, size_t count, size_t size);
bool tmpl_write(tmpl_run *r, span text);
/* Ends a chain of appends to a buffer: its text as a string value; the buffer is freed. */
bool tmpl_take_text(tmpl_run *r, strbuf *b, value *out);
bool tmpl_from_json(tmpl_run *r, const json_t *from, value *out);

/* ---- tmpl_value.c ---- */
/* Every text pays for its bytes when it is made, as somebody may hash or count them once. */
bool value_text(tmpl_run *r, span text, value *out); /* copied */
bool value_borrow(tmpl_run *r, span text,
                  value *out); /* the text outlives the rendering, or is a part of one that does */
bool value_seq(tmpl_run *r, value_kind kind, size_t count, value *out); /* count elements, to be filled */
bool value_pair(tmpl_run *r, value first, value second, value *out);
bool value_append(tmpl_run *r, value *list, value item); /* to a list that is being built */
bool value_dict(tmpl_run *r, value *out);
value value_undefined(tmpl_run *r, const char *hint);
value value_undefined_name(tmpl_run *r, const vstr *name);
value value_undefined_item(tmpl_run *r, value object, value key, bool is_unsafe);
/* Fails with the reason why `v` is undefined. */
bool tmpl_fail_undefined(tmpl_run *r, value v);
const char *value_type(value v); /* Python's name of the type */
bool value_truth(tmpl_run *r, value v, bool *out);
/* len(v); *has_length tells whether there is one. */
bool value_length(tmpl_run *r, value v, size_t *out, bool *has_length);

/* ---- tmpl_dict.c ---- */
bool value_hash(tmpl_run *r, value v, uint64_t *out);
vpair *tmpl_dict_find(tmpl_run *r, const vdict *d, value key); /* NULL: not there, or failed */
vpair *tmpl_dict_find_text(tmpl_run *r, const vdict *d, const vstr *key);
bool tmpl_dict_set(tmpl_run *r, vdict *d, value key, value val);

/* ---- tmpl_compare.c ---- */
bool value_equal(tmpl_run *r, value a, value b, bool *out);
bool value_order(tmpl_run *r, oper op, value a, value b, bool *out); /* OP_LT ... OP_GE */
bool value_contains(tmpl_run *r, value item, value in, bool *out);
bool value_is_same(value a, value b);

/* ---- tmpl_repr.c ---- */
bool value_str(tmpl_run *r, strbuf *out, value v);
bool value_repr(tmpl_run *r, strbuf *out, value v);
bool value_to_text(tmpl_run *r, value v, value *out); /* str(v) */
void tmpl_real_repr(strbuf *out, double x);
/* As Python's ascii() escapes what repr() made; frees `text`. */
bool tmpl_ascii(tmpl_run *r, strbuf *out, strbuf *text);
/* Appends `more` steps' worth of work for the bytes in a buffer; fails if the buffer did. */
bool tmpl_buffer_ok(tmpl_run *r, const strbuf *b);
/* ---- tmpl_json.c ---- */
typedef struct json_style {
    bool ascii, sort;
    span indent; /* at = NULL: one line */
    span item_separator, key_separator;
} json_style;
bool tmpl_json_write(tmpl_run *r, strbuf *out, value v, const json_style *style);

/* ---- tmpl_iter.c ---- */
typedef struct iter {
    value on;
    size_t at;
    bool is_reversed;
} iter;
/* Byte offset of a code point of s, 0 <= point <= length; the way there is paid. */
size_t tmpl_offset(tmpl_run *r, vstr *s, size_t point);
/* Fails for what cannot be iterated. */
bool iter_begin(tmpl_run *r, value on, iter *out);
bool iter_next(tmpl_run *r, iter *it, value *out, bool *is_done);
bool value_is_iterable(value v);
bool value_to_list(tmpl_run *r, value v, value *out);
typedef bool gen_next(tmpl_run *r, vgen *gen, value *out, bool *is_done);
struct vgen {
    gen_next *next;
    const char *type; /* "generator", "list_reverseiterator" ... */
    iter source;
    bool is_started, is_done;
    value args[4]; /* as the maker likes */
    const void *row;
    const struct call_args *call;
    int64_t count, limit;
    bool is_flag, is_flag2;
};
bool value_generator(tmpl_run *r, gen_next *next, value source, vgen **gen, value *out);

/* ---- tmpl_attr.c ---- */
bool value_getattr(tmpl_run *r, value on, const vstr *name, value *out); /* a.b */
bool value_getitem(tmpl_run *r, value on, value key, value *out);        /* a[b], undefined where there is none */
bool value_slice(tmpl_run *r, value on, value start, value stop, value step, value *out);
/* "a.b.0,c": parts of an attribute path, applied to each item of a filter. */
bool tmpl_attr_path(tmpl_run *r, value path, value *parts);
bool tmpl_attr_walk(tmpl_run *r, value on, value parts, value fallback, value *out);

/* ---- tmpl_arith.c ---- */
bool value_binary(tmpl_run *r, oper op, value a, value b, value *out);
bool value_unary(tmpl_run *r, oper op, value a, value *out);
bool value_round(tmpl_run *r, value number, int64_t digits, value *out);
bool value_parse_int(span text, int base, int64_t *out, bool *is_too_large); /* int("..."); false: no number */
bool value_parse_real(tmpl_run *r, span text, double *out);                  /* float("...") */
bool value_from_real(tmpl_run *r, double x, value *out);                     /* int(x), refusing what does not fit */
/* ---- tmpl_percent.c, tmpl_format.c, tmpl_spec.c ---- */
bool tmpl_percent(tmpl_run *r, value format, value args, value *out);
bool tmpl_format(tmpl_run *r, value format, const struct call_args *args, value *out);
bool tmpl_format_spec(tmpl_run *r, strbuf *out, value v, span spec);

/* ---- tmpl_escape.c ---- */
void tmpl_escape(strbuf *out, span text);
bool value_escape(tmpl_run *r, value v, value *out); /* Markup of it */

/* ---- calls: tmpl_call.c, tmpl_args.c ---- */
typedef struct call_args {
    value *at;
    size_t count;
    vdict *named; /* NULL: none */
} call_args;
bool tmpl_call(tmpl_run *r, value callee, const call_args *args, value *out);
bool tmpl_eval_args(tmpl_run *r, const node *n, call_args *out);
/* Puts arguments in the order of `names` ("a b=; c": '=' marks optional ones) into slots; absent ones are V_MISSING.
 * Fails with `what` in the text on too many, too few, unknown or doubled ones. */
bool tmpl_bind(tmpl_run *r, const char *what, const char *names, const call_args *args, value *slots);
bool tmpl_want_int(tmpl_run *r, value v, int64_t *out);
bool tmpl_want_text(tmpl_run *r, const char *what, value v, span *out);
bool tmpl_filter_call(tmpl_run *r, const void *row, value on, const call_args *args, value *out);
bool tmpl_test_call(tmpl_run *r, const void *row, value on, const call_args *args, bool *out);
bool tmpl_method_call(tmpl_run *r, const vmethod *m, const call_args *args, value *out);

/* ---- tmpl_eval.c, tmpl_stmt.c, tmpl_loop.c ---- */
typedef enum flow { FLOW_FAIL, FLOW_GO, FLOW_BREAK, FLOW_CONTINUE } flow;
bool tmpl_eval(tmpl_run *r, const node *n, value *out);
bool tmpl_holds(tmpl_run *r, const node *n, bool *out); /* whether it evaluates to something true */
flow tmpl_exec(tmpl_run *r, const node_list *body);
flow tmpl_exec_for(tmpl_run *r, const node *n);
bool tmpl_loop_call(tmpl_run *r, vloop *loop, const call_args *args, value *out);
bool tmpl_enter_frame(tmpl_run *r, const frame_info *frame);
bool tmpl_assign(tmpl_run *r, const node *target, value v);
static inline value *tmpl_slot(tmpl_run *r, var_ref ref) {
    activation *vars = r->vars;
    for (unsigned i = 0; i < ref.hops; i++) vars = vars->outer;
    return &vars->slots[ref.slot];
}
/* The same as tmpl_eval; constants and names, which are half of all nodes, need no call. */
static inline bool tmpl_value(tmpl_run *r, const node *n, value *out) {
    if (n->kind != N_CONST && n->kind != N_NAME) return tmpl_eval(r, n, out);
    r->at = n->at;
    if (!tmpl_spend(r, 1)) return false;
    *out = n->kind == N_CONST ? n->val : *tmpl_slot(r, n->ref);
    if (out->kind == V_MISSING) *out = value_undefined_name(r, n->text);
    return true;
}
/* The same as tmpl_assign for most targets. */
static inline bool tmpl_put(tmpl_run *r, const node *target, value v) {
    if (target->kind != N_NAME || target->is_flag) return tmpl_assign(r, target, v);
    *tmpl_slot(r, target->ref) = v;
    return true;
}
bool tmpl_macro_call(tmpl_run *r, const vmacro *m, const call_args *args, value *out);
bool tmpl_macro_new(tmpl_run *r, const node *n, value *out);
bool tmpl_block_call(tmpl_run *r, const node *block, vdict *scoped, value *out);
/* Runs a body with its output caught. */
flow tmpl_capture(tmpl_run *r, const node_list *body, value *out);
activation *tmpl_activation(tmpl_run *r, const func_info *f, activation *outer); /* NULL: failed */

struct vloop {
    const node *n;
    activation *vars;  /* where its body runs */
    activation *outer; /* for recursion */
    value on;
    iter items;
    int64_t index0, depth0;
    size_t length;                         /* UNKNOWN until asked for */
    value before, current, after, changed; /* V_MISSING: none */
    value *saved;                          /* the body's targets while the loop's `if` looks at the next item */
    bool is_exhausted;
};
bool tmpl_loop_next(tmpl_run *r, vloop *loop, value *out, bool *is_done);
bool tmpl_loop_attr(tmpl_run *r, vloop *loop, span name, value *out, bool *is_known);

struct vmacro {
    const node *n;
    activation *outer;
};
struct vblock {
    const node *n;
};
struct vmethod {
    const void *row;
    value on;
};

/* ---- tmpl_globals.c ---- */
const struct global_row *tmpl_global_find(const vstr *name);
bool tmpl_global_call(tmpl_run *r, const struct global_row *row, const call_args *args, value *out);
const char *tmpl_global_name(const struct global_row *row);
/* ---- tmpl_methods.c ---- */
/* The rows of one method's name by kind of object, found by the parser; NULL: the kind has none. */
typedef struct method_rows {
    const void *of_dict, *of_text, *of_list;
} method_rows;
const void *tmpl_method_find(value on, span name);
const char *tmpl_method_name(const void *row);
bool tmpl_method_is_unsafe(value on, span name);
/* ---- tmpl_time.c ---- */
bool tmpl_strftime(tmpl_run *r, span format, value *out);

#endif
