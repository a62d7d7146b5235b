#pragma once
/* api/task/body.h - the fields of a task's JSON body after they were read, before they are checked together. Times
 * and durations are milliseconds. Any thread calls these functions: they act on their arguments only. */
#include "api/task/json.h"
#include "port/store/dependencies.h"

enum { NAME_CHARACTERS = 255 }; /* of a task */

struct retry_body {
    int64_t max_attempts, base_delay_ms, max_delay_ms;
    int backoff, jitter;
    json_t *rules;
    struct {
        bool max_attempts, max_delay_ms;
    } has;
};

struct dst_body {
    int gap, repeat; /* enum dst_gap, enum dst_repeat */
};

struct task_body {
    struct str type_text; /* as given; task_body_read makes `type` or `task_type` of it */
    int type;             /* enum task_kind; the int fields below hold their enums likewise */
    struct str name, task_type, queue;
    int64_t priority;
    int64_t run_at_ms, scheduled_at_ms, delay_ms;
    struct str cron, time_zone, calendar;
    int calendar_policy;
    int64_t interval_ms;
    struct dst_body dst;
    int64_t start_ms, end_ms, max_runs, spread_ms;
    int catch_up, overlap;
    int64_t catch_up_window_ms;
    struct str concurrency_key, dedupe_key;
    int64_t concurrency_limit; /* 0: not given */
    int64_t dedupe_window_ms, dedupe_max_wait_ms;
    int dedupe;
    int64_t expires_ms; /* 0: never */
    int delivery;
    struct retry_body retry;
    int64_t max_retries;
    int64_t timeout_ms;         /* 0: the default of the target */
    struct json_array requires; /* struct str */
    struct str required;        /* if `requires` is absent: the labels of the task that is edited */
    struct resources_body {
        double cpu; /* cores; 0: not given */
        int64_t memory_mb;
    } resources;
    int target;
    int join;
    json_t *target_config, *payload, *metadata, *depends_on; /* borrowed from the document */
    struct str idempotency_key; /* checked by the server (api/server/request.h), not here */

    struct { /* the field is in the body, and not null; type: it names a kind; type_as_task_type: it does not */
        bool type, type_as_task_type, task_type, run_at, scheduled_at, delay, cron, interval, time_zone, calendar,
            calendar_policy, dst, start, end, max_runs, spread, catch_up, catch_up_window, overlap, concurrency_limit,
            dedupe_window, dedupe, max_retries, timeout, target, target_config, payload, metadata, requires, resources,
            depends_on, join;
    } has;
    struct { /* the JSON texts as they were written; empty: none */
        struct str target_config, payload, metadata, rules;
    } text;
};

extern const struct task_body task_body_default;

/* Reads a body into *into, which holds the defaults or the task to be edited. A field that is null gets its default. */
enum err task_body_read(const struct json_doc *doc, struct task_body *into, struct arena *a, struct error *e) must_use;

/* These check the fields of a body together and copy them into the row. current is the task that is edited; NULL: a new
 * task. e must not be NULL. */
enum err task_set_schedule(const struct task_body *b, const struct task *current, const struct task_context *c,
                           struct task *t, struct error *e) must_use; /* schedule.c */
enum err task_set_conflicts(const struct task_body *b, const struct task *current, struct task *t,
                            struct error *e) must_use; /* conflicts.c */
enum err task_set_needs(const struct task_body *b, struct arena *a, struct task *t,
                        struct error *e) must_use; /* needs.c */
enum err task_check_fleet(const struct task *current, const struct task *t, const struct task_context *c,
                          struct error *e) must_use; /* fleet.c */

/* depends.c. current NULL: a new task; its dependencies go into c->ret_depends. */
enum err task_set_depends(const struct task_body *b, const struct task *current, const struct task *t,
                          const struct task_context *c, struct arena *a, struct error *e) must_use;
/* Reads an array of ids, or of {"task", "type"}. Errors name the element: "depends_on[3]". */
enum err task_read_depends(json_t *v, int join, struct arena *a, struct depends_on *ret, struct error *e) must_use;

/* view.c: task_members with another name of its target; NULL: its own. */
void task_members_as(struct jw *w, const struct task *t, const struct task_context *c, const char *target);

/* The fields that are kept in `extra`. */
struct str task_metadata(const struct task *t); /* empty: none */
int64_t task_spread_ms(const struct task *t);   /* of an OCCURRENCE: 0 */

/* The names of the enum values in the API. */
typedef const char *const words[];
extern words kind_names, gap_names, repeat_names, calendar_policy_names, catch_up_names, overlap_names, dedupe_names,
    delivery_names, backoff_names, jitter_names;

/* Names and keys must not hold any. */
