/* pump.h — one thread that reads the events of all jobs and hands them to whoever writes the answers.
 *
 * A request owns any number of jobs: prompts times choices. The pump submits them together, watches them through one
 * qp_watch, cancels them when the client goes, and stops reading for a client that does not read: the engine merges the
 * text meanwhile, so memory stays bounded and nothing is lost.
 *
 * All callbacks of all requests come on the pump's thread and must be quick: write JSON, send, return. */
#ifndef SERVER_PUMP_H
#define SERVER_PUMP_H

#include "form.h"
#include "http.h"
#include "models.h"

typedef struct pump pump;

typedef struct pump_calls {
    /* Text or progress of the prompt (where options.show_prompt asks for it). */
    void (*on_event)(void *user, int choice, const qp_event *event);
    /* Once for each choice, its last: event->kind is QP_EVENT_END. `failure` is NULL unless the job failed. A cancelled
     * job has QP_FINISH_CANCELLED, and http_cancel_cause says why; one whose time ran out QP_FINISH_TIMEOUT. Gives the
     * finish_reason that the client is told; NULL: the engine's. */
    const char *(*on_end)(void *user, int choice, const qp_event *event, const qp_error *failure);
    /* Nothing was answered for one ping interval: a stream should begin now. May be NULL. */
    void (*on_late)(void *user);
    /* After the last on_end: completes the answer and frees `user`, or submits more jobs of the same request. */
    void (*on_done)(void *user);
} pump_calls;

typedef struct pump_order {
    http_request *request;         /* held by the pump until on_done has returned */
    model_slot *model;             /* likewise */
    const qp_job_options *prompts; /* one for each prompt: ids, or text up to a zero byte; watch and user are ours */
    int n_prompts;
    int n;                   /* choices of each prompt; choice = prompt * n + i */
    const answer_form *form; /* what the answers are bound to; NULL: nothing */
    const pump_calls *calls;
    void *user;
} pump_order;

/* Either all jobs are submitted, and on_done will come (perhaps before this returns), or none is and nothing will be
 * called: the caller then answers. QP_BUSY: the queue is full. */
qp_status pump_submit(const pump_order *order, qp_error *err);

/* The job's handle for qp_job_peek_prompt and qp_job_get_progress: on the pump's thread, until its on_end returns. */
qp_job *pump_peek_job(http_request *r, int choice);

qp_status pump_new(pump **out, struct server *s, qp_error *err);
/* After the last request is done. */
void pump_free(pump *p);
/* Cancels all requests that generate, or only those of one id (NULL: all). How many. */
size_t pump_cancel(pump *p, const char *request_id, http_cause cause);
/* Only those none of whose jobs has begun. */
size_t pump_cancel_waiting(pump *p, http_cause cause);
size_t pump_count(pump *p);

/* Calls `visit` on the pump's thread, where nothing of an answer changes meanwhile, for each request that generates,
 * until it answers true; waits for that. `calls` and `owner` are those of the request's order. */
typedef bool pump_visitor(void *user, const http_request *r, const pump_calls *calls, const void *owner);
void pump_look(pump *p, pump_visitor *visit, void *user);

/* One job as GET /v1/jobs shows it. */
typedef struct pump_job_view {
    const char *request_id, *key_mark;
    int choice;
    qp_job_progress progress;
    double age_s, first_text_s; /* first_text_s: its age; < 0: none yet */
} pump_job_view;
/* Calls visit for each job that has not ended, from the caller's thread; quick. */
void pump_each(pump *p, void (*visit)(void *user, const pump_job_view *view), void *user);

#endif
