#include "port/queue.h"

#include <assert.h>
#include <stdlib.h>

enum err queue_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                    struct error *e)
{
    assert(n <= PUSH_MAX);
    *ret = (struct pushed){ 0 };
    for (size_t i = 0; i < n; i++) {
        assert(tasks[i].state == TASK_RUNNING && tasks[i].fence > 0);
        assert(tasks[i].priority >= PRIORITY_MIN && tasks[i].priority <= PRIORITY_MAX);
    }
    if (n == 0)
        return ERR_OK;
    enum err rc = q->ops->push(q, tasks, n, epoch, ret, e);
    assert((rc && rc != ERR_CONFLICT) || ret->epoch);
    assert(rc || !epoch || ret->epoch == epoch);
    return rc;
}

enum err queue_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    assert(t->max <= TAKE_MAX);
    enum err rc = (q->ops->take)(q, t, a, ret, e) /* in brackets: take is a macro too */;
    for (size_t i = 0; rc == ERR_OK && i < ret->tasks.n; i++)
        assert(ret->tasks.v[i].fence > 0);
    return rc;
}

enum err queue_renew(struct queue *q, const struct task *const *running, size_t n, const struct take *by,
                     struct error *e)
{
    return n == 0 ? ERR_OK : q->ops->renew(q, running, n, by, e);
}

enum err queue_ack(struct queue *q, const struct fenced_id *v, size_t n, struct error *e)
{
    return n == 0 ? ERR_OK : q->ops->ack(q, v, n, e);
}

enum err queue_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                         struct error *e)
{
    return q->ops->timed_out_deliveries(q, now_ms, a, ret, e);
}

enum err queue_recall(struct queue *q, struct fenced_id d, bool *ret_recalled, struct error *e)
{
    return q->ops->recall(q, d, ret_recalled, e);
}

enum err queue_abort(struct queue *q, struct fenced_id d, struct error *e)
{
    return q->ops->abort(q, d, e);
}

enum err queue_want_back(struct queue *q, const struct task *t, uint64_t epoch, enum want_back_answer *ret,
                         struct error *e)
{
    return q->ops->want_back(q, t, epoch, ret, e);
}

enum err queue_unblock(struct queue *q, struct uuid worker, struct error *e)
{
    return q->ops->unblock(q, worker, e);
}

enum err queue_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                     struct error *e)
{
    return n == 0 ? ERR_OK : q->ops->known(q, v, epochs, n, ret, e);
}

enum err queue_stats(struct queue *q, struct queue_state *ret, struct error *e)
{
    return q->ops->stats(q, ret, e);
}

enum err queue_is_another(struct error *e)
{
    return error_set(e, ERR_CONFLICT, "the queue is another than it was: it may have lost what was pushed before");
}

struct str queue_tenant(const struct queue_names *names, int32_t number)
{
    return names ? names->tenant(names, number) : S("");
}

struct str queue_signing(const struct queue_names *names, const struct task *t)
{
    return names && names->signing ? names->signing(names, t) : S("");
}

static bool is_among(struct str wanted, const struct str *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(v[i], wanted))
            return true;
    return false;
}

bool queue_lets_through(const struct queue_filter *f, const struct task *t, struct str tenant)
{
    struct str rest = t->requires, label;
    if (!f)
        return rest.n == 0;
    if (f->queue_count && !is_among(t->queue, f->queues, f->queue_count))
        return false;
    if (f->tenant_count && !is_among(tenant, f->tenants, f->tenant_count))
        return false;
    if (t->priority < f->priority_min || t->priority > f->priority_max)
        return false;
    while (str_cut(&rest, ',', &label))
        if (!is_among(label, f->labels, f->label_count))
            return false;
    return true;
}

static int queue_compare_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* Sorted, each name once, separated by commas. */
static bool queue_join_names(const struct str *names, size_t n, struct arena *a, struct str *ret)
{
    struct str *v = arena_array(a, struct str, n);
    size_t size = 0;
    for (size_t i = 0; v && i < n; i++) {
        v[i] = names[i];
        size += names[i].n + 1;
    }
    char *text = v ? arena_alloc(a, size + 1) : NULL, *at = text;
    if (!text)
        return false;
    if (n)
        qsort(v, n, sizeof *v, queue_compare_names);
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(v[i], v[i - 1]))
            continue;
        if (at > text)
            *at++ = ',';
        memcpy(at, v[i].p, v[i].n);
        at += v[i].n;
    }
    *ret = (struct str){ text, (size_t)(at - text) };
    return true;
}

struct worker_kind queue_worker_kind(const struct queue_filter *f, int64_t cpu_milli, int64_t memory_mb,
                                     struct arena *a)
{
    static const struct queue_filter everything = { .priority_max = PRIORITY_MAX };
    f = f ? f : &everything;
    struct worker_kind k = { .priority_min = f->priority_min,
                             .priority_max = f->priority_max,
                             .cpu_milli = cpu_milli > 0 ? cpu_milli : -1,
                             .memory_mb = memory_mb > 0 ? memory_mb : -1 };
    if (!queue_join_names(f->queues, f->queue_count, a, &k.queues) ||
        !queue_join_names(f->tenants, f->tenant_count, a, &k.tenants) ||
        !queue_join_names(f->labels, f->label_count, a, &k.labels))
        return WORKER_KIND_UNKNOWN;
    return k;
}

bool queue_has_room(const struct take *by, const struct task *t)
{
    return (by->cpu_milli < 0 || t->cpu_milli <= by->cpu_milli) && (by->memory_mb < 0 || t->memory_mb <= by->memory_mb);
}

struct class_slots queue_places(const struct take *by)
{
    struct class_slots places = { .free = by->max };
    memcpy(places.kept, by->kept, sizeof places.kept);
    return places;
}

size_t queue_depth(struct queue *q)
{
    return q->ops->depth(q);
}

void queue_free(struct queue *q)
{
    if (q)
        q->ops->free(q);
}
