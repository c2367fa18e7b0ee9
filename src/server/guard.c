/* guard.c — refuses the header sections that two servers could read differently.
 *
 * The library below accepts two lengths (the first wins), a length beside chunked coding, a blank before the colon (the
 * header is then unknown and its body becomes the next request) and waits for ever on an unknown coding. All of these
 * are refused here, from the headers as it hands them out. */
#include "guard.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_named(const char *key, size_t bytes, const char *name) {
    return bytes == strlen(name) && !strncasecmp(key, name, bytes);
}

/* The characters of a token in RFC 9110. */
static bool is_token_char(unsigned char c) { return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c)); }

static bool is_token(const char *key, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (!is_token_char((unsigned char)key[i])) return false;
    return bytes > 0;
}

static bool has_control(const char *value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7F) return true;
    return false;
}

bool guard_read_length(const char *value, size_t bytes, uint64_t *length) {
    enum { MOST_DIGITS = 18 };
    uint64_t read = 0;
    if (!bytes || bytes > MOST_DIGITS) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] < '0' || value[i] > '9') return false;
        read = read * 10 + (uint64_t)(value[i] - '0');
    }
    *length = read;
    return true;
}

static const char *read_framing(guard *g, const char *key, size_t key_bytes, const char *value, size_t bytes) {
    if (is_named(key, key_bytes, "content-length")) {
        g->n_lengths++;
        if (!guard_read_length(value, bytes, &g->length)) return "Content-Length is not a number of digits";
    } else if (is_named(key, key_bytes, "transfer-encoding")) {
        g->n_encodings++;
        g->is_chunked = is_named(value, bytes, "chunked");
        if (!g->is_chunked) return "Transfer-Encoding is not 'chunked'";
    } else if (is_named(key, key_bytes, "host")) {
        g->n_hosts++;
        if (memchr(value, ' ', bytes) || memchr(value, ',', bytes)) return "Host is not one name";
    } else if (is_named(key, key_bytes, "expect")) {
        g->expects_continue = is_named(value, bytes, "100-continue");
    }
    return NULL;
}

void guard_header(guard *g, const char *key, size_t key_bytes, const char *value, size_t value_bytes) {
    g->cost += key_bytes + value_bytes + GUARD_HEADER_COST;
    if (g->fault) return;
    if (!is_token(key, key_bytes))
        g->fault = "a header name has a blank or another character that names must not have";
    else if (has_control(value, value_bytes))
        g->fault = "a header value has a control character";
    else
        g->fault = read_framing(g, key, key_bytes, value, value_bytes);
}

const char *guard_verdict(const guard *g, bool is_http_1_1) {
    if (g->fault) return g->fault;
    if (g->n_lengths > 1) return "Content-Length comes more than once";
    if (g->n_encodings > 1) return "Transfer-Encoding comes more than once";
    if (g->n_lengths && g->n_encodings) return "Content-Length and Transfer-Encoding exclude each other";
    if (g->n_encodings && !is_http_1_1) return "Transfer-Encoding in a request of HTTP/1.0";
    if (g->n_hosts > 1) return "Host comes more than once";
    if (is_http_1_1 && !g->n_hosts) return "Host is missing";
    return NULL;
}
