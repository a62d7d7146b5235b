#pragma once
/* api/task/json.h - converts tasks from JSON, checked field by field, and to JSON.
 *
 * One table lists the fields that a body may have. An unknown or impossible field is refused by its path. In a new task
 * null means absent. In an edit null sets a field back to its default.
 *
 * Any thread: the functions act on their arguments, and zones and catalog may be shared between threads. */
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "core/notify/check.h"
#include "core/target/broker_rules.h"
#include "core/task/execution_json.h"
#include "node/catalog_cache.h"
#include "port/secrets.h"
#include "port/zoneinfo.h"

struct task_context {
    int32_t tenant;
    int64_t now_ms, behind_ms; /* behind_ms: clock_behind_ms */
    struct uuid id;            /* for a new task */
    struct zoneinfo *zones;
    struct catalog_cache *catalog;      /* NULL: there are no calendars */
    int64_t payload_bytes;              /* limit for payload and target_config together; 0: no limit */
    const struct secrets *secrets;      /* that encrypt secret headers; NULL: none */
    const struct broker_rules *brokers; /* who may send messages where; NULL: not checked */
    struct tenant_set *needs;           /* NULL: not limited */
    bool only_times;                    /* a preview: the task needs no target */
    bool keeps_hidden;                  /* secret headers may be ***: the server has their values */
    bool keeps_sealed;                  /* secret headers that are encrypted already stay as they are */
    bool no_workers;                    /* there is no fleet of workers: this node runs all tasks itself */
    int64_t timeout_max_ms;             /* the longest time that the queue lets a task run; 0: no limit */
    struct str trace;                   /* of a new task */
    struct depends_on *ret_depends;     /* result: what a new task waits for; NULL: depends_on is refused */
};

/* The body of POST /v1/tasks → a new task in state SCHEDULED. Fills in the defaults, infers the type, accepts the
 * aliases (run_at, delay, scheduled_at, max_retries, the short form with webhook_url …) and computes due_ms,
 * scheduled_ms and cursor_ms. For a RECURRING task all three are its first occurrence. body->text is the text of the
 * body: payload and target_config are stored as they were written. Everything in *ret lives in the arena. */
enum err task_from_json(const struct json_doc *body, const struct task_context *c, struct arena *a, struct task *ret,
                        struct error *e) must_use;

/* The body of PATCH → the new row, with version + 1 and updated_ms = now. Only the fields in the body change: retry and
 * dst_policy are merged, and so is target_config, unless the target_type changes (target_merge.h); payload and metadata
 * are replaced.
 * *ret_reschedules: the task is RECURRING, and its spawned occurrences must be withdrawn. If a field of the schedule
 * changed, the cursor is computed again.
 * A RUNNING task that has not fired becomes SCHEDULED; the caller recalls it. ERR_CONFLICT: it has fired, or is in a
 * final state; but a FAILED task may be edited before a retry.
 * The caller handles {"status": …} itself. */
enum err task_patch_json(const struct task *current, const struct json_doc *body, const struct task_context *c,
                         struct arena *a, struct task *ret, bool *ret_reschedules, struct error *e) must_use;

/* The time zone of that name. If its file cannot be read, that is the request's error: another zone works. */
enum err task_zone(struct zoneinfo *zones, struct str name, struct tz **ret, struct error *e) must_use;

/* The time zone and the calendar that the rule of a RECURRING task uses. Release it with rule_base_release when the
 * rule is no longer used. */
struct rule_base {
    struct tz *zone;
    const struct calendar *calendar; /* NULL: none */
};
enum err task_rule(const struct task *t, struct zoneinfo *zones, struct catalog_cache *catalog, struct recurrence *ret,
                   struct rule_base *ret_base, struct error *e) must_use;
void rule_base_release(struct rule_base *b); /* one that is zero is fine */

/* What the check of a task is about, but for its last success: what is expected, and the rules that the facts point to.
 * Release the base as above, also after an error. */
struct task_check {
    struct check_facts facts;
    struct recurrence schedule, deadlines;
    struct rule_base base;
};
enum err task_check_read(const struct task *t, struct zoneinfo *zones, struct catalog_cache *catalog, struct arena *a,
                         struct task_check *ret, struct error *e) must_use;

/* When the task fires next, as far as is known now. False: it is in a final state or paused, or waits for other tasks.
 * If c->zones is NULL, the answer for a recurring task may pass over occurrences of the next seconds, which are spawned
 * already. */
bool task_next_execution(const struct task *t, const struct task_context *c, int64_t *ret_ms);

/* These write a task as JSON. Of *c they use now_ms, zones and catalog. The brief form is an element of a batch's
 * answer: id, status, next_execution. */
void task_to_json(struct jw *w, const struct task *t, const struct task_context *c);         /* one object */
void task_members(struct jw *w, const struct task *t, const struct task_context *c);         /* inside an open object */
void task_summary_to_json(struct jw *w, const struct task *t, const struct task_context *c); /* view=brief of a list */
void task_brief_members(struct jw *w, const struct task *t, const struct task_context *c);
void task_brief_to_json(struct jw *w, const struct task *t, const struct task_context *c);
