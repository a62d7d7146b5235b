#include "node/explain_facts.h"

enum { HOUR_MS = 3600000 };

/* SCHEDULED tasks of its queue that are due between these times. */
static struct task_filter explain_of_queue(const struct task *t, int64_t after_ms, int64_t before_ms)
{
    return (struct task_filter){ .tenant = t->tenant,
                                 .queue = t->queue,
                                 .states = 1U << TASK_SCHEDULED,
                                 .occurrences = true,
                                 .due_after_ms = after_ms,
                                 .due_before_ms = before_ms };
}

/* Of tasks that are due at the same time, the lower id goes first. */
static struct task_filter explain_of_twins(const struct task *t)
{
    struct task_filter f = explain_of_queue(t, t->due_ms, t->due_ms + 1);
    f.before = t->id;
    return f;
}

static enum err explain_count_twins(struct reader *r, const struct task *t, int64_t twins, int64_t *ret,
                                    struct error *e)
{
    struct task_filter f = explain_of_twins(t);
    size_t n = 0;
    if (twins > 0 && reader_count(r, &f, EXPLAIN_COUNT_MAX, &n, e))
        return e->code;
    *ret = min_of((int64_t)n, twins);
    return ERR_OK;
}

static enum err explain_read_lines(struct reader *r, const struct task *t, int64_t now_ms, struct explain_facts *ret,
                                   struct error *e)
{
    struct store_counts overdue, before, near;
    int64_t itself = t->state == TASK_SCHEDULED, twins = 0, soon = 0, first = 0;
    if (reader_queue_due(r, t->tenant, t->queue, t->due_ms - 1, &ret->queue_ahead, e) ||
        reader_queue_due(r, t->tenant, t->queue, t->due_ms, &twins, e) ||
        reader_queue_due(r, t->tenant, t->queue, t->due_ms + EXPLAIN_CLAIM_MS, &soon, e) ||
        reader_queue_due(r, t->tenant, t->queue, min_of(now_ms, t->due_ms - 1), &ret->queue_overdue, e) ||
        reader_counts(r, now_ms, &overdue, e) || reader_counts(r, t->due_ms + EXPLAIN_CLAIM_MS, &before, e) ||
        reader_counts(r, now_ms + EXPLAIN_NEAR_MS, &near, e))
        return e->code;
    twins = max_of(twins - ret->queue_ahead - itself, (int64_t)0);
    if (explain_count_twins(r, t, twins, &first, e))
        return e->code;
    ret->queue_soon = max_of(soon - ret->queue_ahead - itself, first) - first;
    ret->queue_twins = twins - first;
    ret->queue_ahead += first;
    ret->queue_overdue += t->due_ms <= now_ms ? first : 0;
    ret->all_running = max_of(overdue.by_state[TASK_RUNNING] - (t->state == TASK_RUNNING), (int64_t)0);
    ret->all_overdue = max_of(overdue.due - (t->due_ms <= now_ms ? itself : 0), (int64_t)0);
    ret->all_before = max_of(before.due - itself, (int64_t)0);
    ret->all_near = max_of(near.due - itself, (int64_t)0);
    return ERR_OK;
}

/* It may expire or be skipped before its turn comes. */
static bool explain_is_mortal(const struct task *t)
{
    return t->expires_after_ms || (t->kind == TASK_OCCURRENCE && t->overlap != OVERLAP_ALLOW);
}

static enum err explain_count_lasting(struct reader *r, struct task_filter f, struct arena *a, int64_t *ret,
                                      struct error *e)
{
    struct task_page page = { 0 };
    f.limit = EXPLAIN_LIST_MAX;
    enum err rc = reader_list(r, &f, a, &page, e);
    if (rc && rc != ERR_LIMIT) /* tasks too large to look at may be mortal */
        return rc;
    for (size_t i = 0; i < page.tasks.n; i++)
        *ret += page.tasks.v[i].kind != TASK_RECURRING && !explain_is_mortal(&page.tasks.v[i]);
    return ERR_OK;
}

/* The tasks that are ahead in the line of a rate. If not all can be looked at, the others may be mortal. */
static enum err explain_read_mortal(struct reader *r, const struct catalog_cache *catalog, const struct task *t,
                                    struct arena *a, struct explain_facts *ret, struct error *e)
{
    int64_t lasting = 0;
    bool limited = catalog && catalog_cache_queue(catalog, t->tenant, t->queue, NULL).rate > 0;
    if (!limited || !ret->queue_ahead)
        return ERR_OK;
    if (ret->queue_ahead <= EXPLAIN_LIST_MAX &&
        (explain_count_lasting(r, explain_of_queue(t, 0, t->due_ms), a, &lasting, e) ||
         explain_count_lasting(r, explain_of_twins(t), a, &lasting, e)))
        return e->code;
    ret->queue_mortal = max_of(ret->queue_ahead - lasting, (int64_t)0);
    return ERR_OK;
}

/* The time of the newest of these occurrences; 0: there are none. */
static enum err explain_read_newest(struct reader *r, struct task_filter f, struct arena *a, int64_t *ret_ms,
                                    struct error *e)
{
    struct task_page page = { 0 };
    f.limit = 1;
    f.brief = true;
    if (reader_list(r, &f, a, &page, e))
        return e->code;
    *ret_ms = page.tasks.n ? page.tasks.v[0].scheduled_ms : 0;
    return ERR_OK;
}

/* Ids of occurrences begin with their time: older rows need not be visited. */
static enum err explain_read_earlier(struct reader *r, const struct task *t, struct arena *a, int64_t *ret_ms,
                                     struct error *e)
{
    struct task_filter f = { .tenant = t->tenant,
                             .parent = t->parent,
                             .states = 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED,
                             .due_before_ms = t->due_ms,
                             .from = occurrence_id(t->parent, max_of(t->scheduled_ms - HOUR_MS, (int64_t)0)) };
    return explain_read_newest(r, f, a, ret_ms, e);
}

/* The occurrences before it that are to come, and those of them that wait for the end of the run before them. */
static enum err explain_read_overlap(struct reader *r, const struct task *t, const struct task_filter *waiting,
                                     struct arena *a, struct explain_slot *s, struct error *e)
{
    if (s->need.kind != SLOT_OVERLAP)
        return ERR_OK;
    if (s->waiting && explain_read_newest(r, *waiting, a, &s->waiting_ms, e))
        return e->code;
    return explain_read_earlier(r, t, a, &s->earlier_ms, e);
}

static enum err explain_read_holder(struct reader *r, const struct task *t, int64_t now_ms, struct arena *a,
                                    struct explain_slot *s, struct error *e)
{
    if (!s->holders.n || s->has || s->need.kind != SLOT_OVERLAP)
        return ERR_OK;
    enum err rc = reader_get(r, t->tenant, s->holders.v[0].task, a, &s->holder, e);
    if (rc == ERR_NOT_FOUND) /* it was deleted a moment ago */
        return ERR_OK;
    if (rc)
        return rc;
    s->has_holder = true;
    s->holder_facts = arena_new(a, struct explain_facts);
    if (!s->holder_facts)
        return error_set(e, ERR_LIMIT, "too little memory for the answer");
    rc = explain_read_lines(r, &s->holder, now_ms, s->holder_facts, e);
    s->holder_facts->queue_mortal = s->holder_facts->queue_ahead; /* they are not looked at */
    return rc;
}

static enum err explain_read_slot(struct reader *r, const struct task *t, int64_t now_ms, struct arena *a,
                                  struct explain_slot *s, struct error *e)
{
    struct task_filter f = {
        .tenant = t->tenant, .waits_for = s->need.key, .occurrences = true, .due_before_ms = t->due_ms
    };
    if (reader_slots(r, s->need.key, a, &s->holders, e) || reader_count(r, &f, EXPLAIN_COUNT_MAX, &s->waiting, e) ||
        explain_read_overlap(r, t, &f, a, s, e))
        return e->code;
    for (size_t i = 0; i < s->holders.n; i++)
        s->has = s->has || uuid_eq(s->holders.v[i].task, t->id);
    return explain_read_holder(r, t, now_ms, a, s, e);
}

enum err explain_read(struct reader *r, const struct catalog_cache *catalog, const struct task *t, int64_t now_ms,
                      struct arena *a, struct explain_facts *ret, struct error *e)
{
    struct slot_need needs[SLOTS_MAX];
    *ret = (struct explain_facts){ 0 };
    ret->slot_count = slot_needs(t, needs);
    enum err rc = explain_read_lines(r, t, now_ms, ret, e);
    if (rc == ERR_OK)
        rc = explain_read_mortal(r, catalog, t, a, ret, e);
    for (size_t i = 0; i < ret->slot_count && rc == ERR_OK; i++) {
        struct explain_slot *s = &ret->slots[i];
        s->need = needs[i];
        s->need.key.p = s->need.text;
        rc = explain_read_slot(r, t, now_ms, a, s, e);
    }
    return rc;
}
