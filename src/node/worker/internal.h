#pragma once
/* node/worker/internal.h - what the files of the worker share.
 *
 *  - worker.c: public functions, starting tasks, what becomes of their outcomes
 *  - take.c: asking the queue for tasks
 *  - host_calls.c: calls by host, and tasks that wait because their host is busy
 *  - outbox.c: publishing outcomes, acknowledging and renewing deliveries
 *  - recent_fences.c: which fences were called lately
 *  - report.c: reports of the worker itself */
#include "base/list.h"
#include "base/map.h"
#include "base/thread_owner.h"
#include "node/worker/worker.h"

enum { WORKER_RETRY_MS = 200, WORKER_PUBLISH_MAX = 1024, PARKED_MS = 1000, LACK_TELL_MS = 60000 };

/* The tasks of one take. It lives until the outcome of its last task was published. */
struct delivery_batch {
    struct io_take take;
    struct worker *worker;
    size_t references;
    struct job *jobs; /* NULL: they have not been made yet */
    size_t begun;     /* how many of its tasks have started, or were reported */
};

/* A host with a limit of calls. */
struct worker_host {
    size_t calls, max;
    struct list line[PRIORITIES]; /* struct host_turn: parked jobs, by priority; tenants take turns */
    size_t parked;
    struct list busy;  /* in worker.busy_hosts, while tasks are parked */
    size_t ended;      /* calls, since since_ms */
    int64_t since_ms;  /* steady */
    double per_ms;     /* calls that ended in the time before that */
    struct list ready; /* in worker.ready_hosts: a call ended, so the first of the line may start */
    bool in_use;       /* a function works on it: it is not freed */
    size_t name_n;
    char name[];
};

struct job {
    struct run run;
    struct fenced_id id;
    struct worker *worker;
    struct delivery_batch *delivery_batch;
    struct breakers_answer asked;                         /* of a task that calls a host */
    struct breakers_news news;                            /* what the answer, or the call, says of breakers */
    bool disowned;                                        /* its outcome is not reported */
    enum { JOB_STARTS, JOB_ABORTED, JOB_WANTED } request; /* of users, before it has started */
    struct worker_host *host; /* that it calls, or is parked for; NULL: none that has a limit */
    int64_t started_ms;       /* wall: when its runner was started; 0: not yet */
    /* while it is parked */
    struct list in_line, in_parked_line;
    int64_t parked_ms; /* steady: since when */
    bool was_parked;
    bool lacked_room; /* all slots of its class were taken after it was due */
};

struct outbox {
    struct arena arena;
    struct event *v;
    struct job **jobs; /* of the events */
    size_t n, cap;
};

struct acking;
struct renewing;

struct worker {
    struct thread_owner owner; /* the loop's thread, from the first step on */
    struct worker_setup setup;
    struct map running;       /* struct fenced_id → struct job */
    struct map cancel_reason; /* struct fenced_id → struct cancel_reason */
    struct breakers breakers;
    struct outbox outbox;
    struct outbox spare; /* what is being published: the outbox may grow meanwhile */
    size_t sent;         /* of the spare one: published, from the front */
    struct io_publish publish;
    bool publishing;
    bool events_down;              /* the last publish failed */
    int64_t events_down_ms;        /* steady: since when */
    bool acks_down, renewals_down; /* the last one failed, and that was logged */
    struct acking *free_ack;       /* kept for the next one */
    size_t acking;                 /* in flight, or waiting to be sent again */
    struct list unacked;           /* waiting to be sent again */
    struct renewing *renewing;

    size_t running_of[CLASSES]; /* including disowned runs that have not ended */
    bool serves[CLASSES];       /* whether its filter lets a class through */
    int64_t full_ms[CLASSES];   /* wall: when a class last had no slot; 0: never */
    struct map hosts;           /* name → struct worker_host */
    struct map parked;          /* struct fenced_id → struct job */
    struct list parked_line;    /* oldest first */
    struct list ready_hosts, busy_hosts;

    bool taking;
    struct class_slots asked;        /* the places that the take in flight may fill, until its tasks have started */
    int asked_class;                 /* the lowest class that it may bring; CLASSES: it does not wait */
    int64_t asked_cpu, asked_memory; /* of which it told the queue; -1: no limit */
    struct io_unblock unblock;       /* ends the wait of the take in flight */
    bool unblocking;                 /* it is in flight */
    struct delivery_batch *arrived;  /* taken, and not started yet */
    bool queue_down;                 /* the last take failed */
    int64_t heard_ms;                /* of the last take (struct taken) */
    bool must_hear;                  /* a parked task may start, but for heard_ms */
    size_t late_answers;             /* in turn: takes that were answered too late to start anything */
    int64_t cpu_used, memory_used;
    size_t suspects; /* running */
    /* Steady: when the log last said that a key or a descriptor is missing; 0: never. */
    int64_t missing_key_told_ms, missing_file_told_ms;

    struct io_publish report;
    struct event last_report;
    struct buf doc;
    struct arena kind_arena;
    struct worker_kind kind;
    bool reporting, has_left;
    int64_t report_at_ms; /* steady */

    struct moment now;
    int64_t behind_ms;
    int64_t
        renewed_ms; /* when the last renewal that succeeded was sent; INT64_MIN: never. Steady, like the next four */
    int64_t renew_at_ms;
    int64_t retry_at_ms; /* publishing again after a failure */
    int64_t take_at_ms;  /* taking again after a failure */
    int64_t end_at_ms;   /* asking which tasks are to be aborted, although there is no room */
    size_t disowned;     /* disowned runs that have not ended */
    bool stopped, giving_up;
};

void delivery_batch_unref(struct delivery_batch *h);

/* The slots that no task runs in. */
struct class_slots worker_free_slots(const struct worker *w);
/* worker_setup.may_start; t NULL: whether any task may start */
bool worker_may_start(const struct worker *w, const struct task *t);

/* Asks the queue for as many tasks as may start now. Does nothing while a take is in flight. */
void worker_ask_for_more(struct worker *w);
/* If there is more room now than the take in flight asked for, ends its wait: tasks that fit into that room may wait in
 * the queue, and do not wake it. */
void worker_unblock_take(struct worker *w);
/* When to ask although nothing happened: after a failure, if there is room again, and for tasks that are to be
 * aborted. Steady time. */
int64_t worker_next_take_ms(const struct worker *w);
/* Whether a slot is free that the task's class may take, beside those that a take in flight may fill. */
bool worker_has_place(const struct worker *w, const struct task *t);
/* A task that the queue gives later is refused then: see worker_setup.may_start. */
void worker_drop_queued(struct worker *w);
/* Acknowledges a delivery without an outcome. */
void worker_drop_delivery(struct worker *w, struct fenced_id id);

/* Starts a job that was parked. Or reports why not. */
void worker_start_parked_job(struct worker *w, struct job *j);

/* Around a run. */
void worker_enter_host(struct worker *w, struct job *j);
void worker_leave_host(struct worker *w, struct job *j);
/* Whether the job must not start because its host is busy. Then it is parked, or reported as HELD. */
bool worker_waits_for_host(struct worker *w, struct job *j);
/* Starts parked jobs whose hosts have room. Reports as HELD those that were parked for too long. Returns when to call
 * again although nothing happened, in steady time. */
int64_t worker_start_parked(struct worker *w);
bool worker_cancel_parked(struct worker *w, const struct fenced_id *id, struct str why); /* false: it is not parked */
void worker_return_job(struct worker *w, struct job *j); /* one that has not started, and is in no line */
void worker_return_parked(struct worker *w);             /* all */
/* Takes a job off its line without a report. NULL: there is none. */
struct job *worker_take_off_line(struct worker *w, const struct fenced_id *id);
struct job *worker_pop_parked(struct worker *w); /* any */
void worker_host_calls_init(struct worker *w);
void worker_host_calls_release(struct worker *w);

/* Copies the outcome into the outbox. The job's delivery batch lives until it is published. */
void worker_add_outcome(struct worker *w, struct job *j, const struct outcome *o);
void worker_publish(struct worker *w);
void worker_renew(struct worker *w); /* a delivery that is not renewed times out */
void worker_outbox_init(struct worker *w);
void worker_outbox_release(struct worker *w);

int64_t worker_report(struct worker *w); /* when to call again */

/* ---- requests of users (requests.c) ---- */

/* False: the queue is to be asked first what is wanted back. */
bool worker_has_heard(const struct worker *w);
/* Until the queue has said what is wanted back. A task that will not start here in any case does not wait. */
bool worker_must_hear_first(const struct worker *w, const struct job *j);
/* Its delivery may time out before it is renewed: the process was stopped, or its queue is slow or down. */
bool worker_is_late(const struct worker *w, const struct job *j);
/* What users want of it may have been in an answer that was lost: no later answer says it again. */
bool worker_may_be_wanted(const struct worker *w, const struct job *j);
/* Those that have arrived and not started: they wait to hear what is wanted back. */
struct job *worker_arrived_jobs(const struct worker *w, size_t *ret_count);
/* When the first of these is late. Steady time. INT64_MAX: none waits. */
int64_t worker_arrived_late_ms(const struct worker *w);
/* What users want of deliveries that this worker has. */
void worker_apply_requests(struct worker *w, const struct taken *heard);
/* What users want may have been lost: what came before and has not started is returned. */
void worker_return_unheard(struct worker *w);
