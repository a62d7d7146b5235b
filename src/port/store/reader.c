/* One front door for each read, so that every store is asserted alike. */
#include "port/store/reader.h"

#include <assert.h>

#include "core/stats/stats_history.h"
#include "port/store.h"

enum err reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                    struct error *e)
{
    enum err rc = r->ops->get(r, tenant, id, a, ret, e);
    assert(rc != ERR_OK || (ret->tenant == tenant && uuid_eq(ret->id, id)));
    return rc;
}

enum err reader_list(struct reader *r, const struct task_filter *f, struct arena *a, struct task_page *ret,
                     struct error *e)
{
    assert(f->tenant > 0 && f->limit > 0 && f->limit <= LIST_MAX);
    enum err rc = r->ops->list(r, f, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->tasks.n; i++)
        assert(ret->tasks.v[i].tenant == f->tenant);
    return rc;
}

enum err reader_count(struct reader *r, const struct task_filter *f, size_t max, size_t *ret, struct error *e)
{
    struct task_count count;
    enum err rc = reader_count_tasks(r, f, max, &count, e);
    if (!rc)
        *ret = count.n;
    return rc;
}

enum err reader_count_tasks(struct reader *r, const struct task_filter *f, size_t max, struct task_count *ret,
                            struct error *e)
{
    assert(f->tenant > 0);
    return r->ops->count(r, f, max, ret, e);
}

enum err reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                           struct execution_page *ret, struct error *e)
{
    assert(f->tenant > 0 && f->limit > 0 && f->limit <= LIST_MAX);
    return r->ops->executions(r, f, a, ret, e);
}

enum err reader_history(struct reader *r, const struct history_filter *f, struct arena *a, struct history_page *ret,
                        struct error *e)
{
    assert(f->tenant > 0 && f->limit > 0 && f->limit <= LIST_MAX && f->to_us > 0);
    return r->ops->history(r, f, a, ret, e);
}

enum err reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                            struct idempotency *ret, struct error *e)
{
    return r->ops->idempotency(r, tenant, key, a, ret, e);
}

enum err reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    return r->ops->key(r, id, a, ret, e);
}

enum err reader_keys(struct reader *r, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e)
{
    enum err rc = r->ops->keys(r, tenant, a, ret, e);
    assert(rc != ERR_OK || ret->n <= LIST_MAX);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(ret->v[i].tenant == tenant);
    return rc;
}

/* A key or name of an impossible length comes from outside the process: it does not exist. */
static enum err not_there(const char *what, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such %s", what);
}

enum err reader_dedupe(struct reader *r, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *e)
{
    if (key.n == 0 || key.n > DEDUPE_KEY_MAX)
        return not_there("task", e);
    enum err rc = r->ops->dedupe(r, tenant, key, now_ms, ret, e);
    assert(rc != ERR_OK || !uuid_is_nil(*ret));
    return rc;
}

enum err reader_causes(struct reader *r, int32_t tenant, size_t max, struct arena *a, struct cause_groups *ret,
                       struct error *e)
{
    assert(tenant > 0 && max > 0 && max <= LIST_MAX);
    enum err rc = r->ops->causes(r, tenant, max, a, ret, e);
    assert(rc != ERR_OK || ret->n <= max);
    for (size_t i = 1; rc == ERR_OK && i < ret->n; i++)
        assert(ret->v[i].count <= ret->v[i - 1].count);
    return rc;
}

enum err reader_names(struct reader *r, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                      struct task_names *ret, struct error *e)
{
    assert(tenant > 0 && max > 0 && max <= LIST_MAX);
    enum err rc = r->ops->names(r, tenant, prefix, max, a, ret, e);
    assert(rc != ERR_OK || ret->n <= max);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++) {
        assert(str_starts(ret->v[i].name, prefix) && !uuid_is_nil(ret->v[i].newest));
        assert(i == 0 || str_cmp(ret->v[i - 1].name, ret->v[i].name) < 0);
    }
    return rc;
}

enum err reader_catalog_get(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                            struct catalog_entry *ret, struct error *e)
{
    assert((int)kind < CATALOG_KINDS);
    if (name.n == 0 || name.n > CATALOG_NAME_MAX)
        return not_there("entry", e);
    enum err rc = r->ops->catalog_get(r, tenant, kind, name, a, ret, e);
    assert(rc != ERR_OK || (ret->tenant == tenant && ret->kind == kind && str_eq(ret->name, name) && ret->version > 0));
    return rc;
}

enum err reader_catalog_list(struct reader *r, const struct catalog_filter *f, struct arena *a,
                             struct catalog_page *ret, struct error *e)
{
    assert((int)f->kind < CATALOG_KINDS && f->limit > 0 && f->limit <= CATALOG_LIST_MAX);
    assert(!f->unfinished || (f->kind == CATALOG_JOB && f->all_tenants));
    enum err rc = r->ops->catalog_list(r, f, a, ret, e);
    assert(rc != ERR_OK || ret->entries.n <= f->limit);
    for (size_t i = 0; rc == ERR_OK && i < ret->entries.n; i++)
        assert(ret->entries.v[i].kind == f->kind && (f->all_tenants || ret->entries.v[i].tenant == f->tenant));
    return rc;
}

enum err reader_links(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct task_links *ret,
                      struct error *e)
{
    return r->ops->links(r, tenant, task, a, ret, e);
}

enum err reader_slots(struct reader *r, struct str key, struct arena *a, struct slot_holders *ret, struct error *e)
{
    enum err rc = r->ops->slots(r, key, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(!task_is_final(ret->v[i].state));
    return rc;
}

enum err reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count, struct error *e)
{
    return r->ops->lanes(r, a, ret, ret_count, e);
}

enum err reader_queues(struct reader *r, int32_t tenant, struct arena *a, struct used_queues *ret, struct error *e)
{
    assert(tenant > 0);
    enum err rc = r->ops->queues(r, tenant, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(ret->v[i].n > 0);
    return rc;
}

enum err reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    return r->ops->counts(r, now_ms, ret, e);
}

enum err reader_queue_due(struct reader *r, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *e)
{
    return r->ops->queue_due(r, tenant, queue, now_ms, ret, e);
}

enum err reader_backlog(struct reader *r, int64_t now_ms, struct arena *a, struct backlog_rows *ret, struct error *e)
{
    return r->ops->backlog(r, now_ms, a, ret, e);
}

enum err reader_usage(struct reader *r, int32_t tenant, struct tenant_usage *ret, struct error *e)
{
    enum err rc = r->ops->usage(r, tenant, ret, e);
    assert(rc != ERR_OK || (ret->recurring >= 0 && ret->recurring <= ret->pending));
    return rc;
}

enum err reader_lease(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct lease_row *ret,
                      struct error *e)
{
    return r->ops->lease(r, tenant, task, a, ret, e);
}

struct uuid unstarted_from(const struct task *recurring, int64_t now_ms)
{
    struct uuid from = { { 0 } };
    int64_t ms = max_of(now_ms - recurring->schedule.spread_ms - UNSTARTED_MS, (int64_t)0);
    for (int i = 5; i >= 0; i--, ms >>= 8)
        from.b[i] = (uint8_t)ms;
    return from;
}

enum err reader_definition(struct reader *r, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *a,
                           struct str *ret, struct error *e)
{
    return r->ops->definition(r, tenant, hash, a, ret, e);
}

enum err reader_definitions(struct reader *r, const struct definition *after, size_t max, struct arena *a,
                            struct definition_page *ret, struct error *e)
{
    assert(max > 0 && max <= LIST_MAX);
    return r->ops->definitions(r, after, max, a, ret, e);
}

enum err reader_workflow(struct reader *r, int32_t tenant, struct str name, int64_t version, struct arena *a,
                         struct workflow_row *ret, struct error *e)
{
    return r->ops->workflow(r, tenant, name, version, a, ret, e);
}

enum err reader_workflows(struct reader *r, int32_t tenant, struct str after, size_t max, struct arena *a,
                          struct workflow_rows *ret, struct error *e)
{
    assert(max > 0 && max <= LIST_MAX);
    return r->ops->workflows(r, tenant, after, max, a, ret, e);
}

enum err reader_run(struct reader *r, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                    struct error *e)
{
    return r->ops->run(r, tenant, run, a, ret, e);
}

enum err reader_steps(struct reader *r, const struct step_filter *f, struct arena *a, struct tasks *ret,
                      struct error *e)
{
    assert(f->limit > 0 && f->limit <= STEPS_READ_MAX);
    enum err rc = r->ops->steps(r, f, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(uuid_eq(ret->v[i].run, f->run) && (!i || ret->v[i - 1].place < ret->v[i].place));
    return rc;
}

enum err reader_outputs(struct reader *r, struct uuid run, int64_t from, int64_t to, size_t max, struct arena *a,
                        struct run_outputs *ret, struct error *e)
{
    assert(max > 0);
    return r->ops->outputs(r, run, from, to, max, a, ret, e);
}

enum err reader_signals(struct reader *r, struct uuid run, struct str name, struct arena *a, struct signal_rows *ret,
                        struct error *e)
{
    return r->ops->signals(r, run, name, a, ret, e);
}

enum err reader_unstarted(struct reader *r, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    size_t recurring = 0;
    for (size_t i = 0; i < n; i++)
        recurring += v[i].kind == TASK_RECURRING;
    return recurring ? r->ops->unstarted(r, v, n, now_ms, e) : ERR_OK;
}

enum err reader_workers(struct reader *r, struct uuid before, size_t max, struct arena *a, struct worker_rows *ret,
                        struct error *e)
{
    assert(max > 0 && max <= LIST_MAX);
    return r->ops->workers(r, before, max, a, ret, e);
}

enum err reader_hits(struct reader *r, size_t max, struct arena *a, struct hit_list *ret, struct error *e)
{
    assert(max > 0 && max <= FOLD_HITS_MAX);
    return r->ops->hits(r, max, a, ret, e);
}

enum err reader_records(struct reader *r, const struct record_filter *f, struct arena *a, struct record_page *ret,
                        struct error *e)
{
    assert(f->limit > 0 && f->limit <= LIST_MAX);
    enum err rc = r->ops->records(r, f, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(ret->v[i].kind == f->kind && (!f->tenant || ret->v[i].tenant == f->tenant));
    return rc;
}

enum err reader_breakers(struct reader *r, const struct breaker_filter *f, struct arena *a, struct breaker_rows *ret,
                         struct error *e)
{
    assert(f->limit > 0 && f->limit <= LIST_MAX);
    return r->ops->breakers(r, f, a, ret, e);
}

enum err reader_stats(struct reader *r, const struct stats_filter *f, struct arena *a, struct stats_points *ret,
                      struct error *e)
{
    assert(f->step_ms > 0 && f->step_ms % STATS_MINUTE_MS == 0 && f->from_ms % STATS_MINUTE_MS == 0);
    assert(f->to_ms >= f->from_ms && stats_points_max(f) <= STATS_READ_MAX);
    enum err rc = r->ops->stats(r, f, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert((ret->v[i].at_ms - f->from_ms) % f->step_ms == 0 && (!i || ret->v[i - 1].at_ms < ret->v[i].at_ms));
    return rc;
}

enum err reader_stats_history(struct reader *r, int32_t tenant, int64_t end_ms, size_t minutes, struct arena *a,
                              struct stats_history *ret, struct error *e)
{
    struct stats_points points = { 0 };
    struct stats_filter f = { .tenant = tenant, .step_ms = STATS_MINUTE_MS };
    f.to_ms = end_ms / STATS_MINUTE_MS * STATS_MINUTE_MS;
    f.from_ms = f.to_ms - (int64_t)minutes * STATS_MINUTE_MS;
    if (reader_stats(r, &f, a, &points, e))
        return e->code;
    stats_history_init(ret, f.from_ms, minutes);
    for (size_t i = 0; i < points.n; i++)
        stats_history_add(ret, points.v[i].at_ms, &points.v[i].stats);
    stats_history_close(ret);
    return ERR_OK;
}

enum err reader_sealed(struct reader *r, struct str key_id, bool *ret, struct error *e)
{
    return r->ops->sealed(r, key_id, ret, e);
}

enum err reader_sealed_page(struct reader *r, struct str key_id, struct uuid after, size_t max, struct arena *a,
                            struct sealed_page *ret, struct error *e)
{
    assert(max > 0 && max <= LIST_MAX && secrets_is_id(key_id));
    return r->ops->sealed_page(r, key_id, after, max, a, ret, e);
}

enum err reader_key_prints(struct reader *r, struct key_prints *ret, struct error *e)
{
    return r->ops->key_prints(r, ret, e);
}

enum err reader_audit(struct reader *r, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                      struct error *e)
{
    assert(f->limit > 0 && f->limit <= LIST_MAX);
    return r->ops->audit(r, f, a, ret, e);
}

enum err reader_clock(struct reader *r, int64_t *ret_us, struct error *e)
{
    if (r->ops->clock)
        return r->ops->clock(r, ret_us, e);
    *ret_us = 0;
    return ERR_OK;
}

void reader_free(struct reader *r)
{
    if (r)
        r->ops->free(r);
}
