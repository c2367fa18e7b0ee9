/* lineedit.c — libedit on a terminal, a plain reader elsewhere.
 *
 * While a line is edited Ctrl-C is a key, not a signal, because the program's SIGINT is waited for by a thread of its
 * own, which cannot reach into the editor; Ctrl-Z then has to be one too. Characters are read here instead of in
 * libedit: so a pasted text is taken as a whole (bracketed paste, which libedit does not know), and a new window size
 * or the return from Ctrl-Z is seen without a signal handler, through a descriptor. libedit decodes what it is given by
 * the locale, so one with UTF-8 is set for characters alone; numbers stay as they are. */
#include "lineedit.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY = 1000, LINE_LIMIT = 16 << 20, PASTE_LIMIT = 1 << 20, CTRL_D = 4 };
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l", paste_end[] = "\033[201~";

struct lineedit {
    EditLine *editor; /* NULL: no terminal */
    History *history;
    const char *prompt;
    void (*complete)(void *user, span line, strbuf *rest);
    void *complete_user;
    lineedit_end stopped; /* LINEEDIT_LINE: not by Ctrl-C */
    int signal_fd;
    sigset_t signals_before;
    bool can_paste;
};

static lineedit *of(EditLine *editor) {
    lineedit *e = NULL;
    el_get(editor, EL_CLIENTDATA, &e);
    return e;
}

static char *show_prompt(EditLine *editor) { return (char *)(uintptr_t)of(editor)->prompt; }

/* ---- what is typed ---- */

static void take_signal(lineedit *e) {
    struct signalfd_siginfo info;
    if (read(e->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) return;
    if (info.ssi_signo == SIGWINCH)
        el_resize(e->editor);
    else
        el_set(e->editor, EL_PREP_TERM, 1);
    el_set(e->editor, EL_REFRESH);
}

/* One byte; 0 at the end, -1 when reading failed. */
static int next_byte(lineedit *e, char *out) {
    for (;;) {
        struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {e->signal_fd, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return -1;
        if (fds[1].revents & POLLIN) take_signal(e);
        if (!fds[0].revents) continue;
        const ssize_t n = read(STDIN_FILENO, out, 1);
        if (n >= 0) return (int)n;
        if (errno != EINTR && errno != EAGAIN) return -1;
    }
}

/* One character; what is not UTF-8 becomes U+FFFD. A Ctrl-D that was typed ahead, while the terminal still had lines of
 * its own, arrives as a zero. libedit's own signature. */
static int next_char(EditLine *editor, wchar_t *out) {
    char bytes[4];
    for (size_t n = 1; n <= sizeof bytes; n++) {
        uint32_t point;
        const int got = next_byte(of(editor), &bytes[n - 1]);
        if (got <= 0) return got;
        if (utf8_decode(bytes, n, &point) == (int)n) return *out = point ? (wchar_t)point : CTRL_D, 1;
        if (utf8_incomplete_tail(bytes, n) != n) break;
    }
    *out = 0xFFFD;
    return 1;
}

/* ---- keys ---- */

static unsigned char stop_line(EditLine *editor, int key) {
    const LineInfo *line = el_line(editor);
    of(editor)->stopped = line->lastchar == line->buffer ? LINEEDIT_STOPPED_EMPTY : LINEEDIT_STOPPED;
    return CC_EOF;
}

static unsigned char complete_word(EditLine *editor, int key) {
    const lineedit *e = of(editor);
    const LineInfo *line = el_line(editor);
    strbuf rest = {0};
    if (e->complete) e->complete(e->complete_user, (span){line->buffer, (size_t)(line->cursor - line->buffer)}, &rest);
    const bool is_in = !rest.failed && rest.bytes && !el_insertstr(editor, rest.at);
    strbuf_free(&rest);
    return is_in ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* Ctrl-Z, a key as well while a line is edited. Here the program goes on after `fg`. */
static unsigned char suspend(EditLine *editor, int key) {
    el_set(editor, EL_PREP_TERM, 0);
    kill(0, SIGTSTP);
    el_set(editor, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
}

/* Terminals send CR for the end of a line. Other control characters have no place in a message. */
static void clean_paste(strbuf *text) {
    size_t n = 0;
    for (size_t i = 0; i < text->bytes; i++) {
        const char c = text->at[i];
        if (c == '\r') text->at[n++] = '\n';
        if ((unsigned char)c >= 32 ? c != 127 : c == '\n' || c == '\t') text->at[n++] = c;
    }
    text->bytes = n;
    text->at[n] = 0;
}

/* What comes before the closing mark goes into the line as it is, newlines too; too much of it not at all. */
static unsigned char paste(EditLine *editor, int key) {
    strbuf text = {.limit = PASTE_LIMIT};
    size_t matched = 0;
    wchar_t c;
    while (paste_end[matched] && next_char(editor, &c) == 1) {
        matched = c == (wchar_t)paste_end[matched] ? matched + 1 : c == L'\033';
        strbuf_utf8(&text, (uint32_t)c);
    }
    text.bytes -= text.failed ? 0 : matched;
    if (text.at) clean_paste(&text);
    const bool is_in = !text.failed && text.bytes && !el_insertstr(editor, text.at);
    strbuf_free(&text);
    return is_in ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* ---- opening ---- */

static void set_locale(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

/* Functions are added with wide names: libedit keeps copies of others, and never frees them. */
static void set_keys(EditLine *editor) {
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor, NULL); /* the user's own habits, ~/.editrc */
    el_set(editor, EL_SETTY, "-d", "-isig", NULL);
    el_wset(editor, EL_ADDFN, L"stop-line", L"give up this line", stop_line);
    el_set(editor, EL_BIND, "^C", "stop-line", NULL);
    el_wset(editor, EL_ADDFN, L"suspend", L"leave until the shell's fg", suspend);
    el_set(editor, EL_BIND, "^Z", "suspend", NULL);
    el_wset(editor, EL_ADDFN, L"complete", L"add what is certain", complete_word);
    el_set(editor, EL_BIND, "^I", "complete", NULL);
    el_wset(editor, EL_ADDFN, L"paste", L"insert what the terminal pastes", paste);
    el_set(editor, EL_BIND, "\033[200~", "paste", NULL);
}

static qp_status open_signals(lineedit *e, qp_error *err) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &set, &e->signals_before);
    e->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return e->signal_fd >= 0 ? QP_OK : err_set(err, QP_IO, 0, "the line editor: %s", strerror(errno));
}

static qp_status open_editor(lineedit *e, qp_error *err) {
    HistEvent event;
    const char *kind = getenv("TERM");
    set_locale();
    ERR_TRY(open_signals(e, err));
    e->can_paste = kind && *kind && strcmp(kind, "dumb") != 0;
    e->editor = el_init("quipu", stdin, stderr, stderr);
    e->history = history_init();
    if (!e->editor || !e->history) return err_no_memory(err, 0, "the line editor");
    history(e->history, &event, H_SETSIZE, HISTORY);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->editor, EL_CLIENTDATA, e);
    el_set(e->editor, EL_PROMPT, show_prompt);
    el_set(e->editor, EL_HIST, history, e->history);
    el_set(e->editor, EL_GETCFN, next_char);
    set_keys(e->editor);
    return QP_OK;
}

qp_status lineedit_open(lineedit **out, qp_error *err) {
    lineedit *e = *out = MEM_NEW(lineedit);
    if (!e) return err_no_memory(err, sizeof *e, "the line editor");
    e->signal_fd = -1;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return QP_OK;
    const qp_status status = open_editor(e, err);
    if (status != QP_OK) lineedit_close(e), *out = NULL;
    return status;
}

void lineedit_close(lineedit *e) {
    if (!e) return;
    if (e->editor) el_end(e->editor);
    if (e->history) history_end(e->history);
    if (e->signal_fd >= 0) {
        close(e->signal_fd);
        pthread_sigmask(SIG_SETMASK, &e->signals_before, NULL);
    }
    mem_free(e);
}

bool lineedit_is_live(const lineedit *e) { return e->editor; }

void lineedit_set_complete(lineedit *e, void (*complete)(void *user, span line, strbuf *rest), void *user) {
    e->complete = complete;
    e->complete_user = user;
}

void lineedit_remember(lineedit *e, const char *text) {
    HistEvent event;
    if (e->history && *text) history(e->history, &event, H_ENTER, text);
}

/* ---- reading ---- */

static void edit_line(lineedit *e, strbuf *out, lineedit_end *end) {
    int bytes = 0;
    el_set(e->editor, EL_PREP_TERM, 1); /* from the moment on when the prompt is seen */
    if (e->can_paste) fputs(paste_on, stderr);
    const char *line = el_gets(e->editor, &bytes);
    if (e->can_paste) fputs(paste_off, stderr);
    if (line && bytes > 0)
        strbuf_add(out, line, (size_t)bytes - (line[bytes - 1] == '\n'));
    else {
        fputs(e->stopped ? "^C\n" : "\n", stderr);
        *end = e->stopped ? e->stopped : LINEEDIT_END;
    }
}

static qp_status read_line(strbuf *out, lineedit_end *end, qp_error *err) {
    int c = getc_unlocked(stdin);
    if (c == EOF) *end = LINEEDIT_END;
    for (; c != EOF && c != '\n'; c = getc_unlocked(stdin)) {
        if (out->bytes == LINE_LIMIT)
            return err_set(err, QP_TOO_LARGE, LINE_LIMIT, "standard input: a line of more than %d bytes, the limit",
                           LINE_LIMIT);
        strbuf_char(out, (char)c);
    }
    return ferror(stdin) ? err_set(err, QP_IO, 0, "standard input: %s", strerror(errno)) : QP_OK;
}

qp_status lineedit_read(lineedit *e, const char *prompt, strbuf *out, lineedit_end *end, qp_error *err) {
    strbuf_clear(out);
    *end = e->stopped = LINEEDIT_LINE;
    e->prompt = prompt;
    if (e->editor)
        edit_line(e, out, end);
    else
        ERR_TRY(read_line(out, end, err));
    return strbuf_status(out, err, "the line");
}
