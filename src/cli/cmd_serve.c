/* cmd_serve.c — `quipu serve`: gathers the settings, starts the server, waits for the signal to end, ends in good
 * order.
 *
 * Ctrl-C and SIGTERM mean the same: the first drains, the second ends what runs at once; both end with status 0. All
 * threads have SIGTERM blocked, this one waits for it, and Ctrl-C is passed on as one. */
#include "load.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/config.h"
#include "server/loader.h"
#include "server/server.h"
#include "server/slog.h"
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const char STANDARD_FILE[] = "quipu.yml";
static const double LAST_EVENTS = 3; /* seconds that the last events of ended streams get */

/* ---- settings ---- */

static const size_t serve_fields[CONFIG_COUNT] = {
#define X(block, key, ...) [CONFIG_##key] = offsetof(options, serve.key),
    CONFIG_ROWS(X)
#undef X
};

static const option_row *find_option(const config_row *row) {
    for (const option_row *o = option_rows; o < option_rows + option_count; o++)
        if (o->commands & FOR_SERVE && !strcmp(o->name, row->option)) return o;
    return NULL;
}

static void name_origin(char *out, size_t capacity, const session *s, const config_row *row) {
    const option_row *o = find_option(row);
    if (s->o->typed[o - option_rows])
        snprintf(out, capacity, "--%s", row->option);
    else
        option_environment(out, capacity, row->option);
}

static qp_status read_options(config *c, const session *s, qp_error *err) {
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const void *field = (const char *)s->o + serve_fields[i];
        const config_row *row = &config_rows[i];
        char origin[80];
        if (!session_given(s, field)) continue;
        name_origin(origin, sizeof origin, s, row);
        const char *text = row->kind != CONFIG_BOOL ? *(const char *const *)field
                           : *(const bool *)field   ? "true"
                                                    : "false";
        ERR_TRY(config_set(c, row, text, origin, err));
    }
    return QP_OK;
}

static void print_warning(void *user, qp_log_level level, const char *line) {
    if (!((const session *)user)->term.quiet) fprintf(stderr, "quipu: %s\n", line);
}

static qp_status read_settings(config *c, session *s, qp_error *err) {
    const qp_log warn = {print_warning, s};
    ERR_TRY(config_new(c, err));
    if (s->o->config)
        ERR_TRY(config_read_file(c, s->o->config, &warn, err));
    else if (file_exists(STANDARD_FILE))
        ERR_TRY(config_read_file(c, STANDARD_FILE, &warn, err));
    ERR_TRY(config_read_environment(c, err));
    ERR_TRY(read_options(c, s, err));
    return config_check(c, err);
}

static qp_status print_text(void (*write)(strbuf *out, const config *c), const config *c, qp_error *err) {
    strbuf text = {0};
    write(&text, c);
    const qp_status status = strbuf_status(&text, err, "the settings");
    if (status == QP_OK) fputs(text.at, stdout);
    strbuf_free(&text);
    return status;
}

static void write_example(strbuf *out, const config *c) { config_example(out); }

/* ---- the model to begin with ---- */

static qp_status choose_model(load_order *order, const config *c, session *s, qp_error *err) {
    char path[PATH_MAX];
    if (c->model_name)
        ERR_TRY(file_join(path, sizeof path, c->model_dir, c->model_name, err));
    else if (c->model)
        snprintf(path, sizeof path, "%s", c->model);
    else
        ERR_TRY(load_path(path, sizeof path, s, err));
    char *real = realpath(path, NULL);
    snprintf(order->path, sizeof order->path, "%s", real ? real : path);
    free(real);
    const char *slash = strrchr(order->path, '/');
    snprintf(order->id, sizeof order->id, "%.250s", slash ? slash + 1 : order->path);
    return QP_OK;
}

/* ---- signals ---- */

static void pass_on(void *user) { kill(getpid(), SIGTERM); }

/* True when it has come within that time. */
static bool wait_signal(double seconds) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const struct timespec wait = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    return sigtimedwait(&set, NULL, &wait) == SIGTERM;
}

static void block_signals(session *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    interrupt_catch_all(s->interrupt, pass_on, NULL);
}

/* Every connection is a descriptor. */
static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- running ---- */

static void end_in_order(server *sv) {
    const double deadline = clock_now() + sv->config->drain_timeout;
    server_drain(sv);
    while (!server_is_idle(sv) && clock_now() < deadline && !wait_signal(0.02)) continue;
    server_end_jobs(sv);
    const double last = clock_now() + LAST_EVENTS;
    while (!server_is_idle(sv) && clock_now() < last) wait_signal(0.02);
}

static qp_status run(server *sv, const load_order *order, qp_error *err) {
    const bool has_model = !sv->config->no_model;
    int port;
    ERR_TRY(server_listen(sv, &port, err));
    slog_say(sv->log, QP_LOG_INFO, "listening on http://%s:%d", sv->config->host, port);
    if (has_model) ERR_TRY(loader_start(sv->loader, order, NULL, err));
    qp_status first = QP_OK;
    bool is_over = false;
    while (!is_over && has_model && !loader_has_begun(sv->loader, &first, err)) is_over = wait_signal(0.05);
    if (!is_over) ERR_TRY(first);
    if (!is_over) slog_say(sv->log, QP_LOG_INFO, "ready");
    while (!is_over && !server_is_lost(sv)) is_over = wait_signal(0.5);
    if (!is_over) return err_set(err, QP_INTERNAL, 0, "the device has failed");
    end_in_order(sv);
    slog_say(sv->log, QP_LOG_INFO, "ended");
    return QP_OK;
}

static qp_status serve(const config *c, session *s, qp_error *err) {
    slog *log;
    server *sv;
    qp_log_level level;
    slog_read_level(c->log_level, &level);
    if (s->term.quiet) level = QP_LOG_ERROR;
    if (s->term.verbose) level = QP_LOG_DEBUG;
    load_order order = {.is_first = true};
    if (!c->no_model) ERR_TRY(choose_model(&order, c, s, err)); /* before keys are made and shown */
    block_signals(s);
    allow_descriptors();
    ERR_TRY(slog_new(&log, STDERR_FILENO, strcmp(c->log_format, "json") ? SLOG_TEXT : SLOG_JSON, level, err));
    qp_status status = server_new(&sv, c, log, err);
    if (status == QP_OK) status = run(sv, &order, err);
    server_free(sv);
    slog_free(log);
    return status;
}

qp_status cmd_serve(session *s, qp_error *err) {
    config c;
    if (s->o->example_config) return print_text(write_example, NULL, err);
    qp_status status = read_settings(&c, s, err);
    s->is_wrong_usage = status != QP_OK;
    if (status == QP_OK && s->o->print_config)
        status = print_text(config_print, &c, err);
    else if (status == QP_OK && s->o->check_config)
        puts("the settings are good");
    else if (status == QP_OK)
        status = serve(&c, s, err);
    config_free(&c);
    return status;
}
