/* tmpl_value.h — the values that a template works with: Python's, as far as templates can see them.
 *
 * A value is 16 bytes and copied freely; what it points to lies in the arena of the rendering (or of the template, or
 * in the JSON context) and is not changed once made, but for namespaces, loops, cyclers, joiners and generators. So
 * strings and lists may share their storage: see the notes at vroom. */
#ifndef TEXT_TMPL_VALUE_H
#define TEXT_TMPL_VALUE_H

#include "base/mem.h"
#include "base/str.h"
#include <jansson.h>

typedef enum value_kind {
    V_MISSING, /* a variable that was never set; becomes V_UNDEFINED when read */
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_VIEW, /* dict.keys() and its like */
    V_RANGE,
    V_GENERATOR, /* what lazy filters give: used up by the first loop over it */
    V_NAMESPACE,
    V_LOOP,
    V_MACRO,
    V_FUNCTION, /* a row of the table of globals */
    V_METHOD,   /* a row of the table of methods and its object */
    V_CYCLER,
    V_JOINER,
    V_SELF,
    V_BLOCK,
    V_KIND_COUNT
} value_kind;

/* Appending to the newest view of a room extends it in place: building a text or list piece by piece costs and holds
 * only its final size, while older views still see what they saw. */
typedef struct vroom {
    size_t used, capacity; /* elements */
} vroom;

typedef struct vstr {
    const char *at; /* UTF-8, not zero-terminated */
    size_t bytes;
    size_t points; /* code points; UNKNOWN until asked for */
    vroom *room;   /* NULL: cannot grow in place */
    /* Where the last index was found, so that walking a long text by index stays linear. */
    size_t cursor_point, cursor_byte;
    uint64_t hash;  /* 0: unknown */
    bool is_shared; /* belongs to the template: never written, all known */
} vstr;

typedef struct vseq vseq;
typedef struct vdict vdict;
typedef struct vview vview;
typedef struct vrange vrange;
typedef struct vgen vgen;
typedef struct vloop vloop;
typedef struct vmacro vmacro;
typedef struct vmethod vmethod;
typedef struct vcycler vcycler;
typedef struct vjoiner vjoiner;
typedef struct vundef vundef;
typedef struct vblock vblock;

typedef struct value {
    uint8_t kind;
    bool is_markup; /* V_STR: text that is safe HTML (Markup) */
    union {
        bool truth;
        int64_t integer;
        double real;
        vstr *str;
        vseq *seq;
        vdict *dict; /* V_DICT, V_NAMESPACE */
        vview *view;
        vrange *range;
        vgen *gen;
        vloop *loop;
        vmacro *macro;
        const struct global_row *function;
        vmethod *method;
        vcycler *cycler;
        vjoiner *joiner;
        const vundef *undef; /* may be NULL: no more is known */
        vblock *block;
    };
} value;

/* Why a value is undefined, for the error when it is used. */
struct vundef {
    const char *hint; /* NULL: by name and object */
    const vstr *name;
    value object; /* V_MISSING: a variable */
    value key;    /* not a string: "has no element" */
    bool has_object, is_unsafe;
};

struct vseq { /* list or tuple */
    value *at;
    size_t count;
    vroom *room;
    bool is_group; /* a tuple of groupby: has .grouper and .list */
};

typedef struct vpair {
    value key, val;
    uint64_t hash;
} vpair;

struct vdict { /* in order of insertion */
    vpair *at;
    size_t count, capacity;
    uint32_t *index; /* open addressing, entry + 1; NULL while small */
    size_t n_index;  /* a power of two */
};

typedef enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view_kind;
struct vview {
    const vdict *dict;
    view_kind kind;
};

struct vrange {
    int64_t start, stop, step;
    size_t count;
};

struct vcycler {
    const vseq *items;
    size_t next;
};

struct vjoiner {
    value separator;
    bool was_used;
};

#define UNKNOWN SIZE_MAX

static inline value value_none(void) { return (value){.kind = V_NONE}; }
static inline value value_bool(bool truth) { return (value){.kind = V_BOOL, .truth = truth}; }
static inline value value_int(int64_t integer) { return (value){.kind = V_INT, .integer = integer}; }
static inline value value_real(double real) { return (value){.kind = V_FLOAT, .real = real}; }
static inline span value_span(value v) { return (span){v.str->at, v.str->bytes}; }
static inline bool value_is_number(value v) { return v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BOOL; }
/* True and False count as 1 and 0. */
static inline bool value_is_integer(value v) { return v.kind == V_INT || v.kind == V_BOOL; }
static inline int64_t value_integer(value v) { return v.kind == V_BOOL ? v.truth : v.integer; }
static inline double value_number(value v) { return v.kind == V_FLOAT ? v.real : (double)value_integer(v); }
static inline bool value_is_seq(value v) { return v.kind == V_LIST || v.kind == V_TUPLE; }
/* None counts as absent where Python's parameter default is None. */
static inline bool value_given(value v) { return v.kind != V_NONE && v.kind != V_MISSING; }

#endif
