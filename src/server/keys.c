/* keys.c — the key file: read, made, watched; and keys compared without telling by time what was nearly right.
 *
 * gate.c asks for each request, conns.c's thread calls keys_tick. The file is YAML: api_key (a string or a list) and
 * admin_key (a string). A new file gets mode 0600 before a byte is in it. */
#include "keys.h"
#include "slog.h"
#include "base/hash.h"
#include "base/mem.h"
#include "yaml.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_KEYS = 256, LONGEST_KEY = 512, LONGEST_FILE = 1 << 20 };
static const double POLL = 2; /* seconds */

typedef struct key_set {
    char *api[MOST_KEYS];
    size_t n_api;
    char *admin;
} key_set;

struct keys {
    pthread_mutex_t lock;
    bool is_off;
    char *path;
    slog *log;
    key_set set;
    struct timespec changed;
    double next_look;
};

static void set_free(key_set *set) {
    for (size_t i = 0; i < set->n_api; i++) mem_free(set->api[i]);
    mem_free(set->admin);
    *set = (key_set){0};
}

/* ---- reading ---- */

static qp_status copy_key(char **out, const json_t *value, const char *path, const char *name, qp_error *err) {
    const char *text = json_string_value(value);
    const size_t bytes = json_string_length(value);
    if (!text || !bytes || bytes > LONGEST_KEY || strlen(text) != bytes)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %s: found no text of 1 to %d bytes", path, name, LONGEST_KEY);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7F)
            return err_set(err, QP_BAD_FORMAT, i, "%s: %s: a key has no blanks or control characters", path, name);
    *out = mem_copy_text(text, bytes);
    return *out ? QP_OK : err_no_memory(err, bytes, "a key");
}

static qp_status read_api_keys(key_set *set, const json_t *value, const char *path, qp_error *err) {
    if (!json_is_array(value)) {
        ERR_TRY(copy_key(&set->api[0], value, path, "api_key", err));
        set->n_api = 1;
        return QP_OK;
    }
    if (json_array_size(value) > MOST_KEYS)
        return err_set(err, QP_TOO_LARGE, 0, "%s: api_key: found %zu keys, allowed are %d", path,
                       json_array_size(value), MOST_KEYS);
    for (size_t i = 0; i < json_array_size(value); i++) {
        ERR_TRY(copy_key(&set->api[set->n_api], json_array_get(value, i), path, "api_key", err));
        set->n_api++;
    }
    return QP_OK;
}

static qp_status read_document(key_set *set, const json_t *document, const char *path, qp_error *err) {
    const char *name;
    json_t *value;
    if (!json_is_object(document))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: found no keys; expected are api_key and admin_key", path);
    json_object_foreach((json_t *)document, name, value) {
        if (strcmp(name, "api_key") && strcmp(name, "admin_key"))
            return err_set(err, QP_BAD_FORMAT, 0, "%s: found '%.80s', allowed are api_key and admin_key", path, name);
    }
    value = json_object_get(document, "api_key");
    if (value && !json_is_null(value)) ERR_TRY(read_api_keys(set, value, path, err));
    return copy_key(&set->admin, json_object_get(document, "admin_key"), path, "admin_key", err);
}

static qp_status read_keys(key_set *set, const char *path, qp_error *err) {
    json_t *document;
    *set = (key_set){0};
    ERR_TRY(yaml_read_path(&document, path, LONGEST_FILE, YAML_RAW, err));
    const qp_status status = read_document(set, document, path, err);
    json_decref(document);
    if (status != QP_OK) set_free(set);
    return status;
}

/* ---- making ---- */

static qp_status make_key(char out[33], qp_error *err) {
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_set(err, QP_IO, 0, "no random numbers for a key: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
    return QP_OK;
}

static qp_status make_file(const keys *k, qp_error *err) {
    char api[33], admin[33], text[160];
    ERR_TRY(make_key(api, err));
    ERR_TRY(make_key(admin, err));
    const int file = open(k->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return err_set(err, QP_IO, 0, "%s: the keys cannot be written: %s", k->path, strerror(errno));
    const int bytes = snprintf(text, sizeof text, "api_key: %s\nadmin_key: %s\n", api, admin);
    const bool is_whole = write(file, text, (size_t)bytes) == bytes;
    if (close(file) || !is_whole)
        return err_set(err, QP_IO, 0, "%s: the keys cannot be written: %s", k->path, strerror(errno));
    fprintf(stderr, "new keys, also in %s (shown only now):\n  api key:   %s\n  admin key: %s\n", k->path, api, admin);
    return QP_OK;
}

/* ---- life ---- */

static struct timespec change_time(const char *path) {
    struct stat about;
    return stat(path, &about) ? (struct timespec){0} : about.st_mtim;
}

static qp_status open_file(keys *k, qp_error *err) {
    struct stat about;
    if (stat(k->path, &about) && errno == ENOENT) ERR_TRY(make_file(k, err));
    k->changed = change_time(k->path);
    if (!stat(k->path, &about) && about.st_mode & 077)
        slog_say(k->log, QP_LOG_WARN, "%s can be read by others (mode %03o); keys should have mode 600", k->path,
                 (unsigned)about.st_mode & 0777);
    return read_keys(&k->set, k->path, err);
}

qp_status keys_new(keys **out, const config *c, struct slog *log, qp_error *err) {
    *out = NULL;
    keys *k = MEM_NEW(keys);
    if (!k) return err_no_memory(err, sizeof *k, "the keys");
    pthread_mutex_init(&k->lock, NULL);
    k->is_off = c->disable_auth;
    k->log = log;
    k->path = mem_copy_text(c->keys_file, strlen(c->keys_file));
    qp_status status = k->path ? QP_OK : err_no_memory(err, strlen(c->keys_file), "the keys");
    if (status == QP_OK && !k->is_off) status = open_file(k, err);
    if (status != QP_OK) return keys_free(k), status;
    *out = k;
    return QP_OK;
}

void keys_free(keys *k) {
    if (!k) return;
    set_free(&k->set);
    pthread_mutex_destroy(&k->lock);
    mem_free(k->path);
    mem_free(k);
}

void keys_tick(keys *k, double now) {
    if (k->is_off || now < k->next_look) return;
    k->next_look = now + POLL;
    const struct timespec changed = change_time(k->path);
    if (changed.tv_sec == k->changed.tv_sec && changed.tv_nsec == k->changed.tv_nsec) return;
    k->changed = changed;
    key_set fresh;
    qp_error err;
    if (read_keys(&fresh, k->path, &err) != QP_OK) {
        slog_say(k->log, QP_LOG_WARN, "the old keys stay: %s", err.text);
        return;
    }
    pthread_mutex_lock(&k->lock);
    set_free(&k->set);
    k->set = fresh;
    pthread_mutex_unlock(&k->lock);
    slog_say(k->log, QP_LOG_INFO, "the keys were read again from %s", k->path);
}

/* ---- asking ---- */

/* Its time depends on the length of `given` alone. */
static bool is_same(const char *given, const char *wanted) {
    const size_t n = strlen(given), m = strlen(wanted);
    volatile unsigned char difference = n != m;
    for (size_t i = 0; i < n; i++) difference |= (unsigned char)(given[i] ^ wanted[m ? i % m : 0]);
    return !difference;
}

access_level keys_check(keys *k, const char *key) {
    if (k->is_off) return ACCESS_ADMIN;
    if (!key || strlen(key) > LONGEST_KEY) return ACCESS_NONE;
    bool is_api = false;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < k->set.n_api; i++) is_api |= is_same(key, k->set.api[i]);
    const bool is_admin = is_same(key, k->set.admin);
    pthread_mutex_unlock(&k->lock);
    return is_admin ? ACCESS_ADMIN : is_api ? ACCESS_API : ACCESS_NONE;
}

bool keys_are_off(const keys *k) { return k->is_off; }

void keys_mark(char out[5], const char *key) {
    snprintf(out, 5, "%04x", (unsigned)(hash_bytes(key, strlen(key), 0) >> 48));
}
