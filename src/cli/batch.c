/* batch.c — quipu generate --batch: reads lines, keeps the generator busy with them, writes results.
 *
 * One thread waits for three things at once: more input, a job that has something to say, Ctrl-C. At most twice as many
 * jobs are submitted as run, so that a batch of any length needs little memory; results that wait for an earlier line
 * are kept (--order input). Lines come from a pipe as well: what is finished is written while the next is waited for.
 */
#include "batch.h"
#include "load.h"
#include "prompt.h"
#include "settings.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 65536, REDRAW_MS = 100, KEY_MAX = 480 };

typedef struct batch {
    batch_maker maker;
    batch_out out;
    batch_item *first, *last; /* that are not written yet, in the order of the input */
    json_t *seen;             /* keys of the lines so far */
    strbuf input;
    size_t input_at; /* what is before it has been read */
    int input_fd, wake_fd;
    bool is_end, is_cancelled;
    uint64_t n_lines, n_total; /* read so far; in the file, 0: not known */
    uint64_t n_running, n_most, n_done, n_failed, n_skipped, n_dropped;
    uint64_t prompt_tokens, cached_tokens, new_tokens;
    double start;
} batch;

/* ---- results ---- */

static bool is_in_order(const batch *b) { return !strcmp(b->maker.s->o->order, "input"); }

static qp_status write_ready(batch *b, qp_error *err) {
    const bool in_order = is_in_order(b);
    batch_item **link = &b->first, *before = NULL;
    bool has_written = false;
    while (*link) {
        batch_item *item = *link;
        const bool is_ready = item->result.bytes || item->is_dropped;
        if (!is_ready && in_order && !b->is_cancelled) break;
        if (!is_ready) {
            before = item;
            link = &item->next;
            continue;
        }
        if (!item->is_dropped) ERR_TRY(batch_out_write(&b->out, item, err));
        has_written |= !item->is_dropped;
        *link = item->next;
        if (b->last == item) b->last = before;
        batch_free_item(item);
    }
    return has_written ? batch_out_flush(&b->out, err) : QP_OK;
}

static void end_item(batch *b, batch_item *item, qp_status status, const qp_error *why) {
    const qp_job_stats *st = &item->answer.end.stats;
    if (status != QP_OK) {
        batch_fail(item, why);
        b->n_failed++;
    } else if (item->answer.end.finish == QP_FINISH_CANCELLED) {
        item->is_dropped = true;
        b->n_dropped++;
    } else {
        batch_finish(item);
        b->n_done++;
        b->prompt_tokens += st->prompt_tokens;
        b->cached_tokens += st->cached_tokens;
        b->new_tokens += st->new_tokens;
    }
    qp_job_free(item->job);
    item->job = NULL;
    answer_free(&item->answer);
    item->answer = (answer){.text = {0}};
    b->n_running--;
}

/* Reads all that the item's job has to say by now. */
static void read_item(batch *b, batch_item *item) {
    const qp_tokenizer *tokenizer = qp_model_peek_tokenizer(b->maker.model);
    for (;;) {
        qp_event event;
        qp_error why = {.code = QP_OK};
        qp_status status = qp_job_poll(item->job, 0, &event, &why);
        if (status == QP_BUSY) return;
        if (status == QP_OK) status = answer_take(&item->answer, &event, tokenizer, &why);
        if (status == QP_OK && event.kind != QP_EVENT_END) continue;
        end_item(b, item, status, &why);
        return;
    }
}

static void read_jobs(batch *b) {
    void *user;
    while (b->n_running && qp_watch_next(b->maker.watch, 0, &user)) read_item(b, user);
}

/* ---- lines ---- */

/* A second line with the same id could not be told from the first one in the results. */
static qp_status check_key(batch *b, const batch_item *item, qp_error *err) {
    char key[KEY_MAX + 32];
    if (item->id && strlen(item->id) > KEY_MAX)
        return err_set(err, QP_TOO_LARGE, 0, "\"id\" has %zu bytes, the limit is %d", strlen(item->id), KEY_MAX);
    batch_key(key, sizeof key, item->id, item->index);
    const json_t *earlier = json_object_get(b->seen, key);
    if (earlier)
        return err_set(err, QP_BAD_ARGUMENT, 0, "\"id\" %.100s stands in line %" JSON_INTEGER_FORMAT " already", key,
                       json_integer_value(earlier));
    if (json_object_set_new(b->seen, key, json_integer((json_int_t)item->index + 1)))
        return err_no_memory(err, 0, "the ids");
    return QP_OK;
}

static qp_status start_item(batch *b, batch_item *item, const char *line, size_t bytes, qp_error *err) {
    json_t *document;
    ERR_TRY(batch_parse(&document, item, &b->maker, line, bytes, err));
    qp_status status = check_key(b, item, err);
    if (status == QP_OK && batch_out_has(&b->out, item))
        item->is_dropped = true;
    else if (status == QP_OK)
        status = batch_submit(item, &b->maker, document, err);
    json_decref(document);
    return status;
}

static qp_status start_line(batch *b, const char *line, size_t bytes, qp_error *err) {
    const uint64_t index = b->n_lines++;
    size_t blank = 0;
    while (blank < bytes && strchr(" \t\r", line[blank])) blank++;
    if (blank == bytes) return QP_OK;
    batch_item *item = MEM_NEW(batch_item);
    if (!item) return err_no_memory(err, sizeof *item, "a line");
    item->index = index;
    *(b->last ? &b->last->next : &b->first) = item;
    b->last = item;
    qp_error why = {.code = QP_OK};
    const qp_status status = start_item(b, item, line, bytes, &why);
    if (status != QP_OK && batch_out_has(&b->out, item)) /* it was as bad before */
        item->is_dropped = true;
    if (item->is_dropped)
        b->n_skipped++;
    else if (status != QP_OK) {
        batch_fail(item, &why);
        b->n_failed++;
    } else
        b->n_running++;
    return QP_OK;
}

/* Starts lines that are read already, as many as may run. */
static qp_status start_lines(batch *b, qp_error *err) {
    while (!b->is_cancelled && b->n_running < b->n_most && b->input_at < b->input.bytes) {
        const char *line = b->input.at + b->input_at;
        const size_t left = b->input.bytes - b->input_at;
        const char *end = memchr(line, '\n', left);
        if (!end && !b->is_end) break;
        const size_t bytes = end ? (size_t)(end - line) : left;
        ERR_TRY(start_line(b, line, bytes, err));
        b->input_at += bytes + (end != NULL);
        ERR_TRY(write_ready(b, err));
    }
    return QP_OK;
}

static qp_status read_input(batch *b, qp_error *err) {
    char block[BLOCK];
    if (b->input_at) {
        memmove(b->input.at, b->input.at + b->input_at, b->input.bytes - b->input_at);
        b->input.bytes -= b->input_at;
        b->input_at = 0;
    }
    if (b->input.bytes > INPUT_LIMIT)
        return err_set(err, QP_TOO_LARGE, 0, "%.300s, line %llu: more than %d bytes, the limit", b->maker.path,
                       (unsigned long long)b->n_lines + 1, INPUT_LIMIT);
    const ssize_t n = read(b->input_fd, block, sizeof block);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return err_set(err, QP_IO, 0, "%.300s: %s", b->maker.path, strerror(errno));
    if (n > 0) strbuf_add(&b->input, block, (size_t)n);
    b->is_end = n == 0;
    return strbuf_status(&b->input, err, b->maker.path);
}

/* ---- the loop ---- */

static void show_progress(batch *b) {
    char what[64], note[80] = "", eta[32] = "";
    qp_generator_stats st;
    term *t = &b->maker.s->term;
    if (!t->live_err) return;
    const uint64_t over = b->n_done + b->n_failed, total = b->n_total ? b->n_total : b->n_lines;
    const double elapsed = clock_now() - b->start, all = (double)(over + b->n_skipped);
    qp_generator_get_stats(b->maker.generator, &st);
    const double left = over ? elapsed / (double)over * ((double)total - all) : 0;
    if (over && b->n_total) snprintf(eta, sizeof eta, ", %.0f:%02d left", left / 60, (int)left % 60);
    snprintf(what, sizeof what, "%.0f/%llu", all, (unsigned long long)total);
    snprintf(note, sizeof note, ", %.1f tok/s%s", st.rate_new, eta);
    term_bar_note(t, what, note, all, (double)total);
}

static void cancel_all(batch *b) {
    b->is_cancelled = true;
    for (batch_item *item = b->first; item; item = item->next)
        if (item->job) qp_job_cancel(item->job);
}

/* Sleeps until there is something to do, and looks what. */
static qp_status wait_for_news(batch *b, qp_error *err) {
    const bool wants_input = !b->is_end && !b->is_cancelled && b->n_running < b->n_most;
    struct pollfd fds[] = {{b->wake_fd, POLLIN, 0},
                           {qp_watch_descriptor(b->maker.watch), POLLIN, 0},
                           {wants_input ? b->input_fd : -1, POLLIN, 0}};
    if (poll(fds, 3, REDRAW_MS) < 0 && errno != EINTR) return err_set(err, QP_IO, 0, "poll: %s", strerror(errno));
    if (fds[0].revents) {
        wake_clear(b->wake_fd);
        cancel_all(b);
    }
    if (fds[2].revents && !b->is_cancelled) ERR_TRY(read_input(b, err));
    return QP_OK;
}

static qp_status loop(batch *b, qp_error *err) {
    for (;;) {
        ERR_TRY(start_lines(b, err));
        read_jobs(b);
        ERR_TRY(write_ready(b, err));
        const bool has_lines = !b->is_end || b->input_at < b->input.bytes;
        if (!b->n_running && (b->is_cancelled || !has_lines)) return QP_OK;
        if (b->n_running || !b->is_end) ERR_TRY(wait_for_news(b, err));
        show_progress(b);
    }
}

/* ---- around it ---- */

static qp_status open_input(batch *b, qp_error *err) {
    const char *path = b->maker.s->o->batch;
    const bool is_stdin = !strcmp(path, "-");
    b->maker.path = is_stdin ? "standard input" : path;
    b->input_fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (b->input_fd >= 0) return QP_OK;
    return err_set(err, errno == ENOENT ? QP_NO_FILE : QP_IO, 0, "%.300s: %s", path, strerror(errno));
}

/* Lines of a file that can be read twice; 0 else. */
static uint64_t count_lines(int fd) {
    struct stat st;
    char block[BLOCK];
    uint64_t lines = 0;
    char end = '\n';
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return 0;
    off_t at = lseek(fd, 0, SEEK_CUR);
    for (ssize_t n; at >= 0 && (n = pread(fd, block, sizeof block, at)) > 0; at += n) {
        for (ssize_t i = 0; i < n; i++) lines += block[i] == '\n';
        end = block[n - 1];
    }
    return lines + (end != '\n');
}

static qp_status open_generator(batch *b, qp_error *err) {
    const options *o = b->maker.s->o;
    const uint64_t jobs = (uint64_t)o->max_jobs, trained = (uint64_t)b->maker.info.trained_context;
    qp_generator_options wanted = {.size = sizeof wanted,
                                   .cache_tokens = settings_cache_tokens(o, b->maker.model, 0, jobs),
                                   .cache_type = load_cache_type(o),
                                   .max_jobs = (int)jobs,
                                   .max_queue = (int)(2 * jobs)};
    if (!o->context && trained < wanted.cache_tokens) wanted.max_length = trained;
    return qp_generator_new(&b->maker.generator, b->maker.model, &wanted, err);
}

static void ask_to_end(void *user) { wake_set(((batch *)user)->wake_fd); }

static void print_batch_closing(const batch *b) {
    const bool coloured = b->maker.s->term.colour_err;
    const double seconds = clock_now() - b->start;
    fprintf(stderr,
            "%s%llu done, %llu failed, %llu there already; prompt %llu tokens, %llu cached; new %llu tokens, "
            "%.1f tok/s; %.1f s%s\n",
            term_set(coloured, STYLE_DIM), (unsigned long long)b->n_done, (unsigned long long)b->n_failed,
            (unsigned long long)b->n_skipped, (unsigned long long)b->prompt_tokens,
            (unsigned long long)b->cached_tokens, (unsigned long long)b->new_tokens,
            seconds > 0 ? (double)b->new_tokens / seconds : 0, seconds, term_set(coloured, STYLE_PLAIN));
}

static qp_status run_loop(batch *b, qp_error *err) {
    session *s = b->maker.s;
    b->n_total = count_lines(b->input_fd);
    b->n_most = 2 * (uint64_t)s->o->max_jobs;
    b->start = clock_now();
    interrupt_catch(s->interrupt, ask_to_end, b);
    qp_status status = loop(b, err);
    if (status == QP_OK && !b->is_cancelled && is_in_order(b)) status = batch_out_sort(&b->out, b->seen, err);
    interrupt_catch(s->interrupt, NULL, NULL);
    term_bar_end(&s->term);
    if (status != QP_OK) return status;
    if (!s->term.quiet) print_batch_closing(b);
    if (b->is_cancelled) return QP_CANCELLED;
    const uint64_t failed = b->n_failed + b->out.n_failed_before;
    return failed ? err_set(err, QP_BAD_ARGUMENT, 0, "%llu of the lines failed: their results have \"error\"",
                            (unsigned long long)failed)
                  : QP_OK;
}

static qp_status run_batch(batch *b, qp_error *err) {
    session *s = b->maker.s;
    ERR_TRY(open_input(b, err));
    ERR_TRY(batch_out_open(&b->out, s->o->output, err));
    ERR_TRY(wake_open(&b->wake_fd, err));
    qp_model *model;
    ERR_TRY(load_model(&model, s, (int)s->o->threads, err));
    b->maker.model = model;
    qp_model_get_info(model, &b->maker.info);
    b->maker.seed = settings_seed(s);
    qp_status status = b->maker.info.has_chat_template ? prompt_template(&b->maker.chat, s, err) : QP_OK;
    if (status == QP_OK) status = load_adapters(&b->maker.adapters, model, s->o, err);
    if (status == QP_OK) status = qp_watch_new(&b->maker.watch, err);
    if (status == QP_OK) status = open_generator(b, err);
    if (status == QP_OK) status = run_loop(b, err);
    while (b->first) {
        batch_item *item = b->first;
        b->first = item->next;
        batch_free_item(item);
    }
    qp_generator_free(b->maker.generator);
    qp_watch_free(b->maker.watch);
    qp_template_free(b->maker.chat);
    load_close_adapters(&b->maker.adapters);
    qp_model_close(model);
    return status;
}

qp_status batch_run(session *s, qp_error *err) {
    batch b = {.maker = {.s = s}, .input_fd = -1, .wake_fd = -1, .seen = json_object()};
    qp_status status = b.seen ? run_batch(&b, err) : err_no_memory(err, 0, "the ids");
    batch_out_close(&b.out);
    if (b.wake_fd >= 0) wake_close(b.wake_fd);
    if (b.input_fd > STDIN_FILENO) close(b.input_fd);
    strbuf_free(&b.input);
    json_decref(b.seen);
    return status;
}
