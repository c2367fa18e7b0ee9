/* json_out.c — numbers and documents as the answers write them. */
#include "json_out.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void add_decimals(strbuf *b, const char *digits) {
    strbuf_text(b, digits);
    if (!strpbrk(digits, ".en")) strbuf_text(b, ".0");
}

void json_out_count(strbuf *b, uint64_t value) {
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + value % 10);
    } while (value /= 10);
    strbuf_add(b, digits + n, sizeof digits - n);
}

void json_out_real(strbuf *b, double value) {
    char digits[40];
    if (!isfinite(value)) return strbuf_text(b, "null");
    for (int n = 6; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, value);
        if (strtod(digits, NULL) == value) break;
    }
    add_decimals(b, digits);
}

void json_out_logprob(strbuf *b, float value) {
    char digits[40];
    if (!isfinite(value)) return strbuf_text(b, "-9999.0");
    for (int n = 6; n <= 9; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, (double)value);
        if (strtof(digits, NULL) == value) break;
    }
    add_decimals(b, digits);
}

void json_out_text(strbuf *b, const char *text) {
    if (text)
        strbuf_json(b, text, strlen(text));
    else
        strbuf_text(b, "null");
}

static int add_piece(const char *piece, size_t bytes, void *to) { return strbuf_add(to, piece, bytes), 0; }

void json_out_value(strbuf *b, const json_t *value) {
    if (!value) return strbuf_text(b, "null");
    if (json_dump_callback(value, add_piece, b, JSON_COMPACT | JSON_ENCODE_ANY)) b->failed = true;
}
