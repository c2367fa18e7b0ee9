/* tmpl_ast.h — the tree of a parsed template, shared by the parser, the scope pass and the evaluator.
 *
 * One struct serves all kinds of node; the table of kinds says which fields each kind uses. Everything lies in the
 * template's arena and is never written again after tmpl_new, so threads may share it. Offsets count bytes of the
 * source with its line ends made "\n". */
#ifndef TEXT_TMPL_AST_H
#define TEXT_TMPL_AST_H

#include "tmpl.h"
#include "tmpl_value.h"

typedef struct node node;
typedef struct node_list {
    node **at;
    int count;
} node_list;

typedef enum node_kind {
    /* expressions */
    N_CONST,   /* value */
    N_DATA,    /* value: text outside of tags */
    N_NAME,    /* text; use, ref */
    N_NSREF,   /* text . attr as a target; ref */
    N_TUPLE,   /* list */
    N_LIST,    /* list */
    N_DICT,    /* list: key, value, key, value ... */
    N_UNARY,   /* op, a */
    N_BINARY,  /* op, a, b */
    N_AND,     /* a, b */
    N_OR,      /* a, b */
    N_COMPARE, /* a, list of N_OPERAND */
    N_OPERAND, /* op, a */
    N_CONCAT,  /* list */
    N_COND,    /* a if b else c (may be NULL) */
    N_GETATTR, /* a, text; is_flag: dictionaries have no such attribute, only perhaps an item; row: method_rows, NULL */
    N_GETITEM, /* a, b */
    N_SLICE,   /* a:b:c, each may be NULL */
    N_CALL,    /* a; list of arguments, list2 of N_KEYWORD, b = *args, c = **kwargs */
    N_FILTER,  /* as N_CALL with text, row; a is NULL in a filter block */
    N_TEST,    /* as N_FILTER */
    N_KEYWORD, /* text, a */
    /* statements */
    N_OUTPUT,      /* list */
    N_FOR,         /* c in a if b; list = body, list2 = else, is_flag: recursive; frame, frame2 (else), frame3 (if) */
    N_IF,          /* a; list = body, list2 = else, list3 = elif (N_IF) */
    N_SET,         /* a = b */
    N_SETBLOCK,    /* a; b = filter or NULL; list; frame */
    N_MACRO,       /* text; list = body, list2 = parameters, list3 = defaults of the last ones; frame, func */
    N_CALLBLOCK,   /* as N_MACRO, a = the call */
    N_GENERATION,  /* as N_MACRO without parameters */
    N_FILTERBLOCK, /* a = filter; list; frame */
    N_WITH,        /* list2 = list3; list; frame */
    N_SCOPE,       /* autoescape: a; list; frame */
    N_BLOCK,       /* text; list; frame, func; is_flag: scoped */
    N_BREAK,
    N_CONTINUE,
    N_REFUSED /* text: a tag that needs a loader of other templates */
} node_kind;

typedef enum name_use { USE_LOAD, USE_STORE, USE_PARAM } name_use;

typedef enum oper {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW, /* binary */
    OP_NEG,
    OP_POS,
    OP_NOT, /* unary */
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN /* comparison */
} oper;

/* Where a variable lives: `hops` functions outwards, then that slot. */
typedef struct var_ref {
    uint16_t hops, slot;
} var_ref;

typedef enum load_kind { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_MISSING } load_kind;
/* What happens to a variable when its frame is entered. */
typedef struct frame_load {
    uint8_t kind;
    uint16_t read; /* LOAD_RESOLVE: number of the name among tmpl.reads */
    var_ref to, from;
    const vstr *name;
} frame_load;
/* A scope: a loop's body, a macro's body ... */
typedef struct frame_info {
    frame_load *loads;
    int n_loads;
    bool is_toplevel;   /* sets here are seen by blocks */
    uint16_t loop_slot; /* of `loop` in a for body; NO_SLOT if the body never mentions it */
    frame_load *stores; /* for scoped blocks: all names that are set here or around, by name */
    int n_stores;
} frame_info;
enum { NO_SLOT = 0xffff };

/* What Jinja compiles to one function: the template, a block, a macro, a call block, a recursive loop. */
typedef struct func_info {
    const vstr *name; /* NULL: a call block */
    int n_slots, n_params;
    const vstr **params;
    node **defaults; /* of the last n_defaults parameters */
    var_ref *param_refs;
    int n_defaults;
    bool takes_caller, takes_kwargs, takes_varargs, has_caller_param;
    var_ref caller, kwargs, varargs;
    uint16_t self_slot; /* of `self`, NO_SLOT if not mentioned */
    uint16_t super_slot;
} func_info;

struct node {
    uint8_t kind, op, use;
    bool is_flag;
    uint32_t at; /* offset in the source */
    int depth;   /* of the tree below */
    var_ref ref;
    node *a, *b, *c;
    node_list list, list2, list3;
    const vstr *text, *attr;
    value val;
    const void *row; /* of the filter or test table (NULL: unknown, found out when it is called), or see N_GETATTR */
    frame_info *frame, *frame2, *frame3;
    func_info *func;
};

/* Source text with "\n" line ends and the places where "\r\n" stood, to report offsets of the original. */
typedef struct tmpl_source {
    const char *at;
    size_t bytes;
    const uint32_t *crlf;
    size_t n_crlf;
} tmpl_source;

struct tmpl {
    arena memory;
    tmpl_source source;
    span original;
    node_list body;
    frame_info *frame;
    func_info *func;
    node_list blocks;   /* N_BLOCK */
    const vstr **reads; /* names looked up in the context */
    int n_reads;
};

/* Sets "template line L, column C: ..." with the offset in the original source. */
qp_status tmpl_source_fail(const tmpl_source *s, size_t at, qp_error *err, qp_status code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* tmpl_parse.c: fills t->body. tmpl_scope.c: gives every name its place, fills frames, functions and blocks. */
qp_status tmpl_parse(tmpl *t, qp_error *err);
qp_status tmpl_scope(tmpl *t, qp_error *err);

#endif
