#pragma once
/* api/live/live_message.h - the content of live events, as readers get it (server-sent events, the HTML standard), and
 * as nodes tell each other. Pure.
 *
 * Nodes send each other lines (store_broadcast): "1 SENDER TENANT", then words, each a letter and its fields, separated
 * by ':':
 *   c:CREATED:STARTED:COMPLETED:FAILED:RETRIED:RUNNING:DUE   the counts; -1: not known
 *   t:ID:PARENT:STATE:ATTEMPT:VERSION:AT:QUEUE               what happened to a task
 *   d:NAME:ERROR                                             details of the task of the word before
 *   m:N                                                      N more tasks, which are not told one by one
 *   w:                                                       the sender watches the tenant from now on
 *   j:ID:STATE:ACTION:REDRIVE:TOTAL:EXACT:DONE:FAILED        a job
 *   i:ID:SETTING:KIND:CHANGE:OPEN:COUNT:AT:CAUSE             an incident
 * Ids, NAME and ERROR are base64url. PARENT, QUEUE, NAME and ERROR may be empty. A word that cannot be read is
 * skipped. */
#include "base/buf.h"
#include "core/notify/incident.h"
#include "core/task/job.h"
#include "core/task/task.h"

/* X(id, name). Totals: of one node, they only rise. */
#define LIVE_COUNT_MAP(X)                                                                                              \
    X(CREATED, "created")     /* tasks that were accepted, and occurrences */                                          \
    X(STARTED, "started")     /* attempts */                                                                           \
    X(COMPLETED, "completed") /* tasks that ended in success */                                                        \
    X(FAILED, "failed")       /* tasks that ended in failure */                                                        \
    X(RETRIED, "retried")     /* attempts after which another one follows */

enum live_count {
#define X(id, name) LIVE_##id,
    LIVE_COUNT_MAP(X)
#undef X
        LIVE_COUNTS
};

struct live_counts {
    int64_t v[LIVE_COUNTS];
    int64_t running, due; /* -1: not known */
};

/* Longer texts are cut. Readers and nodes get them on one line. */
enum { LIVE_NAME_MAX = 100, LIVE_ERROR_MAX = 160, LIVE_CUT_MAX = LIVE_ERROR_MAX + 3 };

struct live_task {
    struct uuid id, parent;
    struct str queue; /* empty: not known */
    struct str name;  /* empty: it has none, or that is not known */
    struct str error; /* why its last attempt failed, if it waits for the next one, or has ended by it; else empty */
    enum task_state state;
    int attempt;     /* that runs, or ran last; 0: none */
    int64_t version; /* 0: not known */
    int64_t at_ms;
};

struct live_job {
    struct uuid id;
    enum job_state state;
    enum action action;
    bool redrive, total_exact;
    int64_t total, done, failed;
};

struct live_incident {
    struct uuid id, setting;
    enum incident_kind kind;
    enum incident_change change;
    bool open;
    int64_t count, at_ms;
    struct str cause; /* without blanks */
};

struct live_node {
    struct uuid id;
    struct str name, state;
    int64_t at_ms;
};

/* ---- for readers: "event: …" and "data: …", without the empty line at the end ---- */

void live_write_task(struct buf *out, const struct live_task *t);
void live_write_job(struct buf *out, const struct live_job *j);
void live_write_incident(struct buf *out, const struct live_incident *i);
void live_write_node(struct buf *out, const struct live_node *n);
void live_write_counts(struct buf *out, const struct live_counts *c, int64_t at_ms);
void live_write_folded(struct buf *out, uint64_t n); /* n tasks that were not shown one by one */
void live_write_gap(struct buf *out);
void live_write_end(struct buf *out, const char *reason, const char *detail);

struct live_job live_job_of(const struct job *j);
struct live_incident live_incident_of(const struct incident *i, enum incident_change change, int64_t at_ms);

/* ---- for other nodes ---- */

enum { LIVE_NODE_NAME = 16 }; /* hexadecimal digits */

void live_line_begin(struct buf *line, const char sender[LIVE_NODE_NAME + 1], int32_t tenant);
void live_line_counts(struct buf *line, const struct live_counts *c);
void live_line_task(struct buf *line, const struct live_task *t);
void live_line_details(struct buf *line, const struct live_task *t); /* after live_line_task; perhaps nothing */
void live_line_more(struct buf *line, uint64_t n);
void live_line_watch(struct buf *line);
void live_line_job(struct buf *line, const struct live_job *j);
void live_line_incident(struct buf *line, const struct live_incident *i);

/* The next word of a line, of a task with its details. Texts are borrowed from both. */
struct live_word {
    enum { LIVE_WORD_COUNTS, LIVE_WORD_TASK, LIVE_WORD_MORE, LIVE_WORD_WATCH, LIVE_WORD_JOB, LIVE_WORD_INCIDENT } kind;
    union {
        struct live_counts counts;
        struct live_task task;
        uint64_t more;
        struct live_job job;
        struct live_incident incident;
    };
    char name[LIVE_CUT_MAX], error[LIVE_CUT_MAX];
};

/* False: it is no line of this version. *rest is what live_line_next reads. */
bool live_line_read(struct str line, struct str *ret_sender, int32_t *ret_tenant, struct str *rest);
bool live_line_next(struct str *rest, struct live_word *ret); /* false: there is none */
