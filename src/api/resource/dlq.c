/* The dead-letter queue: tasks that failed after all retries, and occurrences of recurring tasks, until a user retries,
 * edits or archives them. Those actions are in edit.c, like all changes of tasks; a re-drive of many tasks is a job. */
#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "core/target/target_url.h"

enum { GROUPS_MAX = 1000 };

/* The host and the name of a group's latest task; nothing if that was purged meanwhile. */
static void dlq_write_latest(struct request *q, struct reader *r, struct uuid latest, struct jw *w)
{
    struct task t;
    struct error ignored;
    char host[TARGET_HOST_MAX];
    if (reader_get(r, q->who.tenant, latest, &q->arena, &t, &ignored))
        return;
    jw_kv_str_or_null(w, "latest_task_name", t.name);
    jw_kv_str_or_null(w, "host", target_host(&t, host));
}

static enum handled dlq_list_causes(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct cause_groups groups = { 0 };
    if (reader_causes(r, q->who.tenant, GROUPS_MAX, &q->arena, &groups, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "groups");
    jw_array(&w);
    for (size_t i = 0; i < groups.n; i++) {
        const struct cause_group *g = &groups.v[i];
        jw_object(&w);
        jw_kv_str(&w, "cause", g->cause);
        jw_kv_i64(&w, "count", g->count);
        jw_kv_time(&w, "first_failed_at", g->first_failed_ms);
        jw_kv_time(&w, "last_failed_at", g->last_failed_ms);
        jw_kv_uuid(&w, "latest_task_id", g->latest);
        jw_kv_str(&w, "last_error", g->last_error);
        dlq_write_latest(q, r, g->latest, &w);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled dlq_list(struct request *q, struct reader *r)
{
    struct listing l;
    if (!listing_read(q, LISTING_DLQ, &l))
        return HANDLED_DONE;
    if (l.group_by)
        return dlq_list_causes(q, r);
    return listing_answer(
        q, r, &l,
        (struct task_filter){
            .states = 1U << TASK_FAILED, .occurrences = true, .by_resolved = true, .resolved = l.resolved == 2 });
}

/* With every attempt and its output. */
enum handled dlq_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    if (request_get_task(q, r, &t, &e))
        return request_fail(q, &e);
    if (t.state != TASK_FAILED)
        return request_refuse(q, PROBLEM_NOT_FOUND, "the task is not a dead letter: it has not failed, or was retried");
    return tasks_get(q, r);
}
