#pragma once
/* api/task/json.h - tasks and executions as API.md shows them: JSON in, checked field by field, JSON out.
 *
 * One table of fields says what a body may hold; unknown and impossible fields are refused by their path. null is the
 * same as absent in a new task, and takes a field back to its default in an edit. */
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "core/task/execution_json.h"
#include "node/catalog_cache.h"
#include "port/zoneinfo.h"

struct task_context {
    int32_t tenant;
    int64_t now_ms, behind_ms; /* behind_ms: clock_behind_ms */
    struct uuid id;            /* for a new task */
    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: there are no calendars */
    int64_t payload_bytes;         /* the most that payload and target_config may have together; 0: no limit */
    bool no_workers;               /* to choose from: all run here */
    int64_t timeout_max_ms;        /* the longest that the queue lets one run; 0: no limit */
};

/* A body of POST /v1/tasks → a whole new task: defaults filled in, type inferred, aliases understood (run_at, delay,
 * scheduled_at, max_retries, the short form with webhook_url …), due_ms, scheduled_ms and cursor_ms computed (all three the
 * first occurrence if it is RECURRING), state SCHEDULED. body->text is the body's own text: payload and target_config are
 * kept as they came; everything in *ret lives in the arena. */
enum err task_from_json(const struct json_doc *body, const struct task_context *c, struct arena *a, struct task *ret,
                        struct error *e) must_use;

/* A body of PATCH → the new row: only the fields it names change (retry and dst_policy are merged; target_config, payload
 * and metadata are replaced); version + 1, updated_ms = now. *ret_reschedules: it is RECURRING, and what was spawned must be
 * withdrawn; if a field of its schedule changed, its cursor is computed anew. A RUNNING task that has not fired becomes
 * SCHEDULED (the caller recalls it); one that has, and one that is over, is ERR_CONFLICT; but FAILED may be mended before a
 * retry. {"status": …} is not for this function. */
enum err task_patch_json(const struct task *current, const struct json_doc *body, const struct task_context *c,
                         struct arena *a, struct task *ret, bool *ret_reschedules, struct error *e) must_use;

/* The rule of a RECURRING task, and what it stands on: given back (rule_base_release) when the rule is no longer used. */
struct rule_base {
    struct tz *zone;
    const struct calendar *calendar; /* NULL: none */
};
enum err task_rule(const struct task *t, struct zoneinfo *zones, struct catalog_cache *catalog, struct recurrence *ret,
                   struct rule_base *ret_base, struct error *e) must_use;
void rule_base_release(struct rule_base *b); /* one that is zero is fine */

/* When it fires next, as far as is known now; false: it is over, or paused. With c->zones NULL a recurring task's answer may
 * pass over occurrences of the next seconds, which are spawned already. */
bool task_next_execution(const struct task *t, const struct task_context *c, int64_t *ret_ms);

/* Views; of *c they use now_ms, zones and book. The brief one is an element of a batch's answer: id, status, next_execution. */
void task_to_json(struct jw *w, const struct task *t, const struct task_context *c); /* one object */
void task_members(struct jw *w, const struct task *t, const struct task_context *c); /* inside an object that is open */
void task_brief_members(struct jw *w, const struct task *t, const struct task_context *c);
void task_brief_to_json(struct jw *w, const struct task *t, const struct task_context *c);
