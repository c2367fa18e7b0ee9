/* keys.h — who may call: the api keys, the admin key, and the file they come from.
 *
 * Any thread may ask. The file is read again when it changes; a bad one keeps the old keys. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "config.h"
#include "http.h"

struct slog;
typedef struct keys keys;

/* Reads the file of the configuration, or makes it with two new keys, which are shown on stderr once. With disable_auth
 * everybody is admin and no file is touched. */
qp_status keys_new(keys **out, const config *c, struct slog *log, qp_error *err);
void keys_free(keys *k);
/* Looks whether the file has changed; at most every two seconds. */
void keys_tick(keys *k, double now);
/* What this key allows. Takes the same time whatever is wrong with it. */
access_level keys_check(keys *k, const char *key);
bool keys_are_off(const keys *k);
/* First 4 hex digits of the key's hash: for logs. */
void keys_mark(char out[5], const char *key);

#endif
