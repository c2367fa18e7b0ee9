/* mailbox.h — what a job has to say, between the engine's thread and its reader. */
#ifndef GEN_MAILBOX_H
#define GEN_MAILBOX_H

#include "watch.h"
#include "base/str.h"

/* Text and tokens on their way to the reader. */
typedef struct output {
    strbuf text;
    int32_t *ids;      /* [n] */
    qp_token *tokens;  /* [n] if wanted */
    qp_candidate *top; /* [n][n_top] */
    float *logits;     /* [n][n_logits] */
    size_t n, capacity;
    double sampled_at;
} output;

/* How the job ended. */
typedef struct job_end {
    qp_finish finish;
    qp_status status; /* with `error`, for QP_FINISH_ERROR */
    qp_error error;
    const char *stop_text; /* lives as long as the job */
    int32_t stop_id;
    qp_job_stats stats;
    strbuf held_text;
    int32_t *held_ids; /* owned */
    size_t n_held_ids;
} job_end;

typedef struct mailbox_setup {
    bool wants_tokens, wants_prompt;
    int n_top;
    size_t n_logits;   /* 0, or the vocabulary */
    size_t max_unread; /* 0: any number of tokens may wait for the reader */
    watch *watch;      /* or NULL */
    void *handle, *user;
} mailbox_setup;

typedef struct mailbox {
    bell bell;
    mailbox_setup setup;
    _Atomic(watch *) watch; /* held, once it is set; NULL: nobody watches yet */
    watch_seat seat;
    output boxes[2]; /* one is being filled, the other belongs to the reader */
    int filling;
    bool has_prompt_news, has_ended;
    bool is_untold; /* something was added since the reader was told; the engine's thread alone */
    size_t prompt_done, prompt_tokens;
    job_end end;
} mailbox;

/* One token with what goes along. */
typedef struct mailbox_item {
    int32_t id;
    float p, logprob;
    const qp_candidate *top; /* [n_top] */
    int n_top;
    const float *logits; /* [n_logits] or NULL */
} mailbox_item;

qp_status mailbox_open(mailbox *m, const mailbox_setup *setup, qp_error *err);
void mailbox_close(mailbox *m);

/* By the engine. Several may be appended before mailbox_tell wakes the reader. After QP_NO_MEMORY only mailbox_end may
 * follow. */
qp_status mailbox_add(mailbox *m, span text, const mailbox_item *items, size_t n, double sampled_at, qp_error *err);
/* Wakes the reader if something was added. */
void mailbox_tell(mailbox *m);
void mailbox_prompt(mailbox *m, size_t done, size_t of);
/* The last that the reader will get; takes over what `end` owns. Only the first call counts; false for the others. */
bool mailbox_end(mailbox *m, const job_end *end);
/* Whether the reader has as many tokens before it as it wants at most. */
bool mailbox_is_full(mailbox *m);

/* By the reader: see qp_job_poll. `deadline` as clock_now. */
qp_status mailbox_read(mailbox *m, double deadline, qp_event *event, qp_error *err);
/* By the reader, once: `w` is told from now on, and at once of what is there already. QP_BUSY if another one is. */
qp_status mailbox_watch(mailbox *m, watch *w, void *user, qp_error *err);
/* By the reader: nobody will read again. */
void mailbox_leave(mailbox *m);

#endif
