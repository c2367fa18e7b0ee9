/* tmpl_spec.h — numbers as texts, shared by format specifications and % formatting. */
#ifndef TEXT_TMPL_SPEC_H
#define TEXT_TMPL_SPEC_H

#include "tmpl_run.h"

typedef struct spec {
    span fill;  /* one character */
    char align; /* < > = ^, 0: not given */
    char sign;  /* + - or space, 0: not given */
    bool is_alternate, no_negative_zero;
    char group; /* , or _, 0: none */
    int64_t width;
    int64_t precision; /* -1: not given */
    char type;         /* 0: not given */
} spec;

enum { MAX_WIDTH = 1 << 20 };

/* Appends a number; s->type is one that fits ints (bcdoxX) or floats (eEfFgG%, 0 as repr). */
bool tmpl_spec_int(tmpl_run *r, strbuf *out, int64_t x, const spec *s);
bool tmpl_spec_real(tmpl_run *r, strbuf *out, double x, const spec *s);
/* Appends `body` (`points` characters long) filled up to the width; `align` is used where the spec has none. */
void tmpl_spec_pad(strbuf *out, span prefix, span body, const spec *s, char align);

#endif
