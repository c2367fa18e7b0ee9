/* stop.h — stop texts: what may be shown, what is held back, when it ends. */
#ifndef GEN_STOP_H
#define GEN_STOP_H

#include "base/str.h"

/* Zero-initialised has no stop texts and passes everything through. */
typedef struct stop_scan {
    char **texts;  /* [n]; owned */
    size_t *bytes; /* [n] */
    size_t n;
    strbuf held;    /* the end of the text that may still become a stop text */
    size_t scanned; /* bytes of held known to end no match */
} stop_scan;

/* Copies the texts; refuses empty ones. */
qp_status stop_open(stop_scan *out, const char *const *texts, size_t n, qp_error *err);
void stop_close(stop_scan *s);
/* Takes new text, appends what may be shown to `out`. *matched: index of the stop text that is complete (the text
 * before it has been shown, the rest is dropped), or -1. */
qp_status stop_feed(stop_scan *s, span text, strbuf *out, int *matched, qp_error *err);
/* No more text will come: shows what was held back. */
void stop_flush(stop_scan *s, strbuf *out);

#endif
