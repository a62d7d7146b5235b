/* One front door for each verb, so that every store is asserted alike. */
#include "port/store.h"

#include <assert.h>
#include <string.h>

#include "core/stats/stats_history.h"
#include "port/store/operation_table.h"

enum err catalog_docs_fit(const struct op_catalog *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        if (op->v[i].remove || op->v[i].entry.doc.n <= CATALOG_DOC_MAX)
            continue;
        error_set(e, ERR_LIMIT, "has more than %d bytes", CATALOG_DOC_MAX);
        return error_in(e, "doc");
    }
    return ERR_OK;
}

bool task_needs_calendar(const struct task *t)
{
    return t->kind == TASK_RECURRING && t->schedule.calendar.n && !t->deleted && !task_is_final(t->state);
}

bool put_cut_applies(const struct op_put *op, const struct spawn_cut *c)
{
    int64_t last_ms = c->last_was_ms + schedule_spread(&op->task->schedule, op->task->id);
    return task_is_final(op->task->state) || op->task->deleted || op->ret_cursor_ms <= last_ms;
}

bool put_cut_deletes(struct op_put *op, const struct spawn_cut *c)
{
    int64_t at_ms = c->first_ms + schedule_spread(&op->task->schedule, op->task->id);
    bool deletes = c->count == 0 || op->ret_cursor_ms <= at_ms;
    op->ret_cut += deletes ? c->count_was : c->count_was - c->count;
    return deletes;
}

bool put_keeps_requested(const struct op_put *op)
{
    return !task_is_final(op->task->state);
}

static bool schedule_is_cancelled(const struct task *recurring)
{
    return recurring->state == TASK_CANCELLED || recurring->deleted;
}

bool put_ends_fired(const struct op_put *op)
{
    return schedule_is_cancelled(op->task);
}

bool put_cancels(const struct op_put *op, const struct task *occurrence)
{
    if (task_has_fired(occurrence))
        return true;
    bool has_ended = task_is_final(op->task->state) && occurrence->due_ms <= op->task->updated_ms;
    return has_ended || occurrence->due_ms < op->withdraw_from_ms || !occurrence->runs_count;
}

struct str put_cancel_reason(const struct task *recurring)
{
    if (!task_is_final(recurring->state) && !recurring->deleted)
        return S("its schedule was edited");
    return recurring->state == TASK_CANCELLED ? S("its schedule was cancelled") : S("its schedule has ended");
}

bool settle_asks_parent(const struct settlement *v)
{
    return !v->replace && v->verdict.next == TASK_SCHEDULED && !uuid_is_nil(v->parent);
}

bool settle_in_schedule(const struct settle_schedule *of, struct settlement *v)
{
    struct verdict *d = &v->verdict;
    const struct task *p = &of->parent;
    bool is_retried = of->runs_count == 0 && of->started_ms && of->version > 1;
    if (of->links & TASK_OPENED || is_retried)
        return false;
    if (!schedule_is_cancelled(p))
        return p->state == TASK_PAUSED && of->runs_count && !d->has_execution && !d->attempts && !d->losses;
    if (d->has_execution && d->execution.status == EXECUTION_FAILED) {
        d->next = TASK_FAILED;
        d->cause = d->retry_cause;
        return false;
    }
    d->next = TASK_CANCELLED;
    d->last_error = put_cancel_reason(p);
    return false;
}

enum err limit_reached(const char *field, int64_t limit, struct error *e)
{
    error_set(e, ERR_LIMIT, "the tenant may have at most %lld %s tasks; this request would exceed that",
              (long long)limit, strcmp(field, "max_recurring") == 0 ? "recurring" : "unfinished");
    return error_in(e, field);
}

enum err calendar_missing(struct str name, struct error *e)
{
    return error_field(e, "calendar", "'" STR_FMT "' is not a calendar", STR_ARG(name));
}

enum err calendar_used(struct str name, struct error *e)
{
    error_set(e, ERR_CONFLICT, "'" STR_FMT "' is used by recurring tasks", STR_ARG(name));
    return error_in(e, "calendar");
}

/* ---- partitions ---- */

static bool is_own(const struct partitions *own, struct uuid id)
{
    return !own || partitions_have(own, partition_of(id));
}

static int64_t later_by(int64_t at_ms, int64_t delay_ms)
{
    return at_ms > INT64_MAX - delay_ms ? INT64_MAX : at_ms + delay_ms;
}

bool claim_is_own(const struct op_claim *op, struct uuid id)
{
    return is_own(op->own, id);
}

int64_t claim_counts_as(const struct op_claim *op, struct uuid id, int64_t due_ms)
{
    return claim_is_own(op, id) ? due_ms : later_by(due_ms, op->help_after_ms);
}

bool claim_is_for(const struct op_claim *op, struct uuid id, int64_t due_ms)
{
    return claim_is_own(op, id) || later_by(due_ms, op->help_after_ms) <= op->now_ms;
}

struct claim_line claim_line_at(const struct op_claim *op, size_t i, size_t lane)
{
    return op->lines ? op->lines[i] : (struct claim_line){ .lanes = 1, .max = op->lanes[lane].max };
}

int64_t recurring_counts_as(const struct op_recurring *op, struct uuid id, int64_t cursor_ms)
{
    return is_own(op->own, id) ? cursor_ms : later_by(cursor_ms, op->until_ms - op->help_until_ms);
}

bool recurring_gives(const struct op_recurring *op, struct uuid id, int64_t cursor_ms)
{
    return cursor_ms < op->until_ms && (cursor_ms < op->help_until_ms || is_own(op->own, id));
}

bool taken_rows_begin(struct taken_rows *r, const struct op_recurring *op, const struct task *t, struct arena *a)
{
    *r = (struct taken_rows){ .arena = a };
    if (t->version <= 1 || !op->taken_ms || t->cursor_ms >= later_by(t->updated_ms, op->taken_ms))
        return false;
    r->from = uuid_floor(t->cursor_ms - schedule_spread(&t->schedule, t->id));
    return true;
}

enum err taken_rows_add(struct taken_rows *r, const struct task *occurrence, struct error *e)
{
    assert(r->rows < TAKEN_MAX);
    if (!r->v && !(r->v = arena_array(r->arena, struct spawn_span, TAKEN_MAX)))
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    r->n += spawned_span(occurrence, &r->v[r->n]);
    r->rows++;
    r->last = occurrence->id;
    return ERR_OK;
}

struct spawn_taken taken_rows_end(const struct taken_rows *r)
{
    return (struct spawn_taken){ r->v, r->n, r->rows == TAKEN_MAX ? uuid_time_ms(r->last) : INT64_MAX };
}

struct share_subject share_subject(struct str key)
{
    int64_t tenant;
    size_t end = str_find(key, ':', min_of(key.n, (size_t)2));
    if (key.n < 3 || key.p[1] != ':' || !str_to_i64(str_sub(key, 2, end), 1, INT32_MAX, &tenant))
        return (struct share_subject){ 0 };
    if (key.p[0] == 't' && end == key.n)
        return (struct share_subject){ .tenant = (int32_t)tenant };
    if (key.p[0] == 'q' && end + 1 < key.n)
        return (struct share_subject){ (int32_t)tenant, str_sub(key, end + 1, key.n) };
    return (struct share_subject){ 0 };
}

bool share_is_about(const struct share_subject *subject, struct lane lane)
{
    return subject->tenant && subject->tenant == lane.tenant &&
           (subject->queue.n == 0 || str_eq(subject->queue, lane.queue));
}

enum err node_is_dead(struct error *e)
{
    error_set(e, ERR_CONFLICT, "is marked dead: what it held is others' now");
    return error_in(e, "node");
}

enum err recall_too_late(struct error *e)
{
    error_set(e, ERR_CONFLICT, "is not the one that the task is running under");
    return error_in(e, "fence");
}

/* A lease takes tasks that are due, of any partition (struct lease_terms, rule 1). */
static void apply_lease_terms(struct op_claim *c)
{
    if (!c->lease)
        return;
    c->until_ms = c->now_ms;
    c->own = NULL;
}

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e)
{
    assert(n > 0 && n <= STORE_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        assert((size_t)ops[i]->kind < OP_KINDS);
        assert(!ops[i]->audit || ops[i]->audit->at_ms == uuid_time_ms(ops[i]->audit->id));
        if (op_table[ops[i]->kind].check)
            op_table[ops[i]->kind].check(ops[i]);
        if (ops[i]->kind == OP_CLAIM)
            apply_lease_terms((struct op_claim *)ops[i]);
    }
    changes_begin(s);
    enum err rc = s->ops->apply(s, ops, n, e);
    if (rc == ERR_OK)
        store_tell(s);
    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        if (ops[i]->rc == ERR_OK && op_table[ops[i]->kind].check_result)
            op_table[ops[i]->kind].check_result(ops[i]);
    return rc;
}

enum err store_reader(struct store *s, struct reader **ret, struct error *e)
{
    *ret = atomic_exchange(&s->kept, NULL);
    return *ret ? ERR_OK : s->ops->reader(s, ret, e);
}

void store_keep_reader(struct store *s, struct reader *r, enum err rc)
{
    struct reader *none = NULL;
    if (!r || rc || !atomic_compare_exchange_strong(&s->kept, &none, r))
        reader_free(r);
}

void store_watch(struct store *s, struct store_watch *w)
{
    if (s->ops->watch)
        s->ops->watch(s, w);
}

void store_barrier_wait(struct store *s, struct store_barrier *barrier)
{
    if (s->ops->barrier_wait)
        s->ops->barrier_wait(s, barrier);
    else
        barrier->done(barrier);
}

bool store_barrier_cancel(struct store *s, struct store_barrier *barrier)
{
    return s->ops->barrier_cancel && s->ops->barrier_cancel(s, barrier);
}

void store_catalog_applied(struct store *s, uint64_t catalog_change)
{
    if (s->ops->catalog_applied)
        s->ops->catalog_applied(s, catalog_change);
}

void store_notify_settled(struct store *s, const struct fenced_id *settled, size_t n)
{
    if (n && s->ops->notify_settled)
        s->ops->notify_settled(s, settled, n);
}

void store_broadcast(struct store *s, struct str line)
{
    assert(line.n > 0 && line.n <= STORE_BROADCAST_MAX);
    if (s->ops->broadcast)
        s->ops->broadcast(s, line);
}

bool store_is_shared(const struct store *s)
{
    return s->ops->watch != NULL;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    reader_free(atomic_exchange(&s->kept, NULL));
    store_free_changes(s);
    s->ops->free(s);
}

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

size_t worker_reports_merge(const struct op_worker_report *op, struct worker_row *v)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++) {
        size_t at = 0;
        while (at < n && !uuid_eq(v[at].id, op->v[i].id))
            at++;
        bool leaves = op->v[i].left_ms || (at < n && v[at].left_ms);
        n += at == n;
        v[at] = op->v[i];
        v[at].joined_ms = v[at].seen_ms = op->now_ms;
        v[at].left_ms = leaves ? op->now_ms : 0;
    }
    return n;
}

bool worker_report_changes(const struct worker_row *before, const struct worker_row *now)
{
    return !before || (now->left_ms && !before->left_ms) || now->slots != before->slots ||
           worker_kind_compare(&now->kind, &before->kind) != 0 || now->seen_ms - before->seen_ms >= WORKER_SILENT_MS;
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
