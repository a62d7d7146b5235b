/* The reading half of the memory store: each call reads the tables under the store's lock and copies its results. */
#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

struct reader_memory {
    struct reader base;
    struct store_memory *store;
};

struct store_memory *memory_lock(struct reader *r)
{
    struct store_memory *s = container_of(r, struct reader_memory, base)->store;
    pthread_mutex_lock(&s->lock);
    return s;
}

void memory_unlock(struct store_memory **s)
{
    pthread_mutex_unlock(&(*s)->lock);
}

enum err memory_not_found(const char *what, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such %s", what);
}

enum err memory_no_room(struct error *e)
{
    return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
}

/* ---- tasks ---- */

static enum err memory_reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                                  struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct task *t = table_get(&s->table, id);
    if (!t || t->tenant != tenant || t->deleted)
        return memory_not_found("task", e);
    return task_copy(a, t, ret) ? ERR_OK : memory_no_room(e);
}

static bool memory_name_matches(struct str wanted, struct str name)
{
    bool prefix = wanted.n && wanted.p[wanted.n - 1] == '*';
    return wanted.n == 0 || (prefix ? str_starts(name, str_sub(wanted, 0, wanted.n - 1)) : str_eq(name, wanted));
}

static bool memory_kind_matches(const struct task_filter *f, const struct task *t)
{
    if (uuid_is_nil(f->parent) ? t->kind == TASK_OCCURRENCE && !f->occurrences
                               : t->kind != TASK_OCCURRENCE || !uuid_eq(t->parent, f->parent))
        return false;
    return !f->by_kind || t->kind == (f->recurring ? TASK_RECURRING : TASK_ONE_TIME);
}

bool memory_state_matches(unsigned states, int64_t shown_at_ms, const struct task *t)
{
    enum task_state state = shown_at_ms ? task_shown_state(t, shown_at_ms) : t->state;
    return !states || states >> state & 1;
}

static bool memory_task_matches(const struct task_filter *f, const struct task *t)
{
    bool is_run = t->target == TARGET_WORKFLOW && t->kind != TASK_RECURRING;
    return t->tenant == f->tenant && uuid_is_nil(t->run) && (!f->runs || is_run) && !t->deleted &&
           uuid_cmp(t->id, f->from) >= 0 && memory_kind_matches(f, t) &&
           memory_state_matches(f->states, f->shown_at_ms, t) && memory_name_matches(f->name, t->name) &&
           (!f->queue.n || str_eq(f->queue, t->queue)) && (!f->task_type.n || str_eq(f->task_type, t->task_type)) &&
           (!f->calendar.n || (t->kind == TASK_RECURRING && str_eq(f->calendar, t->schedule.calendar))) &&
           (!f->cause.n || (t->state == TASK_FAILED && str_eq(f->cause, t->cause))) &&
           (!f->by_resolved || (t->state == TASK_FAILED && (t->resolved_ms != 0) == f->resolved)) &&
           (!f->waits_for.n || str_eq(f->waits_for, t->waits_for)) &&
           (!f->due_before_ms || t->due_ms < f->due_before_ms) && (!f->due_after_ms || t->due_ms >= f->due_after_ms) &&
           (!f->created_before_ms || t->created_ms < f->created_before_ms) &&
           (!f->created_after_ms || t->created_ms >= f->created_after_ms);
}

/* How many entries have an id below `before`; nil: all. */
static size_t memory_count_below(const struct order *o, struct uuid before)
{
    return uuid_is_nil(before) ? order_count(o) : order_find(o, 0, before);
}

static enum err memory_reader_list(struct reader *r, const struct task_filter *f, struct arena *a,
                                   struct task_page *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    cleanup_with(picks_release) struct picks p = { 0 };
    const struct order *rows = &s->table.by_id;
    struct task_page page = { 0 };
    size_t skipped = 0;
    for (size_t i = memory_count_below(rows, f->before); i-- > 0;) {
        const struct task *t = task_at(rows, i);
        if (!memory_task_matches(f, t) || skipped++ < f->offset)
            continue;
        if (p.n == f->limit) {
            assert(p.n > 0);
            page.more = true;
            page.next_before = p.v[p.n - 1]->id;
            break;
        }
        picks_add(&p, t);
    }
    if (picks_copy(&p, a, &page.tasks, e))
        return ERR_LIMIT;
    for (size_t i = 0; f->brief && i < page.tasks.n; i++)
        page.tasks.v[i].payload = (struct str){ NULL, 0 };
    *ret = page;
    return ERR_OK;
}

static enum err memory_unstarted(struct reader *r, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    (void)e;
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct order *rows = &s->table.by_id;
    for (size_t i = 0; i < n; i++) {
        struct uuid from = unstarted_from(&v[i], now_ms);
        v[i].unstarted_count = 0;
        for (size_t j = 0; v[i].kind == TASK_RECURRING && j < order_count(rows); j++) {
            const struct task *t = task_at(rows, j);
            bool old = t->state == TASK_RUNNING && uuid_cmp(t->id, from) < 0;
            v[i].unstarted_count += uuid_eq(t->parent, v[i].id) && !old && task_is_unstarted(t, now_ms);
        }
    }
    return ERR_OK;
}

static enum err memory_reader_count(struct reader *r, const struct task_filter *f, size_t max, struct task_count *ret,
                                    struct error *e)
{
    (void)e;
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct order *rows = &s->table.by_id;
    size_t n = 0;
    for (size_t i = memory_count_below(rows, f->before); i-- > 0 && n < max;)
        n += memory_task_matches(f, task_at(rows, i));
    *ret = (struct task_count){ .n = n };
    return ERR_OK;
}

/* ---- executions ---- */

bool memory_execution_copy(struct arena *a, const struct execution *x, struct execution *ret)
{
    *ret = *x;
    return arena_str(a, x->worker, &ret->worker) && arena_str(a, x->error, &ret->error) &&
           arena_str(a, x->output, &ret->output) && arena_str(a, x->trace_id, &ret->trace_id);
}

static bool memory_execution_matches(const struct execution_filter *f, const struct execution *x)
{
    return x->tenant == f->tenant && uuid_eq(x->task, f->task) && (!f->statuses || f->statuses >> x->status & 1);
}

static enum err memory_reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                                         struct execution_page *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct order *rows = &s->executions;
    struct execution_page page = { .executions.v = arena_array(a, struct execution, f->limit) };
    if (!page.executions.v)
        return memory_no_room(e);
    for (size_t i = memory_count_below(rows, f->before); i-- > 0;) {
        const struct execution *x = order_at(rows, i)->value;
        if (!memory_execution_matches(f, x))
            continue;
        if (page.executions.n == f->limit) {
            page.more = true;
            page.next_before = page.executions.v[page.executions.n - 1].id;
            break;
        }
        if (!memory_execution_copy(a, x, &page.executions.v[page.executions.n++]))
            return memory_no_room(e);
    }
    *ret = page;
    return ERR_OK;
}

/* ---- idempotency records, API keys, slots, lanes, counts ---- */

static enum err memory_reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                                          struct idempotency *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct idempotency_key k = idempotency_key_of(tenant, key);
    const struct idempotency_row *row = map_get(&s->idempotency, idempotency_bytes(&k));
    if (!row)
        return memory_not_found("key", e);
    struct idempotency copy = row->record;
    if (!arena_str(a, copy.answer, &copy.answer))
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

static enum err memory_reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret,
                                  struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct api_key *row = map_get(&s->keys, id);
    if (!row)
        return memory_not_found("key", e);
    struct api_key copy;
    if (!memory_copy_key(a, row, &copy))
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

static enum err memory_reader_slots(struct reader *r, struct str key, struct arena *a, struct slot_holders *ret,
                                    struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct line *l = table_line(&s->table, key);
    size_t n = l ? min_of(order_count(&l->holders), (size_t)LIST_MAX) : 0;
    struct slot_holders found = { arena_array(a, struct slot_holder, n), n };
    if (!found.v)
        return memory_no_room(e);
    for (size_t i = 0; i < n; i++) {
        const struct task *t = task_at(&l->holders, i);
        found.v[i] = (struct slot_holder){ t->id, t->state, t->scheduled_ms };
    }
    *ret = found;
    return ERR_OK;
}

static enum err memory_reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count,
                                    struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct lane *v = arena_array(a, struct lane, s->table.lanes.n);
    size_t n = 0;
    if (!v)
        return memory_no_room(e);
    map_each (&s->table.lanes, slot) {
        const struct lane_rows *l = slot->value;
        if (order_count(&l->due[0]) == 0 && order_count(&l->suspects[0]) == 0 && l->later == 0)
            continue;
        struct lane *lane = &v[n++];
        *lane = l->lane;
        if (!arena_str(a, lane->queue, &lane->queue) || !arena_str(a, lane->requires, &lane->requires) ||
            !arena_str(a, lane->host, &lane->host))
            return memory_no_room(e);
    }
    *ret = v;
    *ret_count = n;
    return ERR_OK;
}

static enum err memory_reader_queues(struct reader *r, int32_t tenant, struct arena *a, struct used_queues *ret,
                                     struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct order *rows = &s->table.by_id;
    struct used_queues names = { .v = arena_array(a, struct str, order_count(rows) + 1) };
    if (!names.v)
        return memory_no_room(e);
    for (size_t i = 0; i < order_count(rows); i++) {
        const struct task *t = task_at(rows, i);
        bool known = t->tenant != tenant || t->deleted || task_is_final(t->state) || !uuid_is_nil(t->run);
        for (size_t k = 0; !known && k < names.n; k++)
            known = str_eq(names.v[k], t->queue);
        if (!known && !arena_str(a, t->queue, &names.v[names.n++]))
            return memory_no_room(e);
    }
    *ret = names;
    return ERR_OK;
}

static enum err memory_reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    (void)e;
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct store_counts c = { 0 };
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        if (t->deleted)
            continue;
        c.by_state[t->state]++;
        c.due += t->state == TASK_SCHEDULED && t->kind != TASK_RECURRING && t->due_ms <= now_ms;
    }
    *ret = c;
    return ERR_OK;
}

static void memory_reader_free(struct reader *r)
{
    free(container_of(r, struct reader_memory, base));
}

enum err memory_reader(struct store *base, struct reader **ret, struct error *e)
{
    (void)e;
    static const struct reader_ops ops = { .get = memory_reader_get,
                                           .list = memory_reader_list,
                                           .count = memory_reader_count,
                                           .executions = memory_reader_executions,
                                           .idempotency = memory_reader_idempotency,
                                           .key = memory_reader_key,
                                           .keys = memory_keys,
                                           .dedupe = memory_dedupe,
                                           .causes = memory_causes,
                                           .names = memory_names,
                                           .catalog_get = memory_catalog_get,
                                           .catalog_list = memory_catalog_list,
                                           .slots = memory_reader_slots,
                                           .links = memory_links,
                                           .lanes = memory_reader_lanes,
                                           .queues = memory_reader_queues,
                                           .counts = memory_reader_counts,
                                           .queue_due = memory_queue_due,
                                           .backlog = memory_backlog,
                                           .usage = memory_usage,
                                           .lease = memory_reader_lease,
                                           .definitions = memory_definitions,
                                           .definition = memory_definition,
                                           .workflow = memory_workflow,
                                           .workflows = memory_workflows,
                                           .run = memory_run,
                                           .steps = memory_steps,
                                           .outputs = memory_outputs,
                                           .signals = memory_signals,
                                           .unstarted = memory_unstarted,
                                           .workers = memory_workers,
                                           .breakers = memory_reader_breakers,
                                           .stats = memory_reader_stats,
                                           .hits = memory_hits,
                                           .records = memory_records,
                                           .history = memory_history,
                                           .audit = memory_audit,
                                           .sealed = memory_sealed,
                                           .sealed_page = memory_sealed_page,
                                           .key_prints = memory_key_prints,
                                           .free = memory_reader_free };
    struct reader_memory *r = xnew(*r);
    *r = (struct reader_memory){ { &ops }, container_of(base, struct store_memory, base) };
    *ret = &r->base;
    return ERR_OK;
}
