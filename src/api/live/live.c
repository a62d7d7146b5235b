/* What happened, by tenant. A tenant that nobody watches costs a few counts. In one that is watched, LIVE_RATE events
 * of a second are written, as JSON or as words for other nodes. All others only count: nothing is copied for them, no
 * clock is read, and no thread is woken. */
#include <inttypes.h>
#include <stdlib.h>

#include "api/live/live_internal.h"
#include "core/task/settle.h"

/* ---- tenants ---- */

static struct str live_tenant_key(const int32_t *number)
{
    return (struct str){ (const char *)number, sizeof *number };
}

struct live_tenant *live_tenant_get(struct live *l, int32_t number)
{
    if (l->last && l->last->number == number)
        return l->last;
    struct live_tenant *t = map_get(&l->tenants, live_tenant_key(&number));
    if (t)
        return l->last = t;
    t = xnew(*t);
    t->number = number;
    list_init(&t->active);
    list_init(&t->streams);
    live_filters_init(&t->filters);
    live_part_init(&t->part);
    buf_init(&t->words, STORE_BROADCAST_MAX - LIVE_TEXT_MAX);
    map_put(&l->tenants, live_tenant_key(&t->number), t);
    return l->last = t;
}

static void live_tenant_free(struct live *l, struct live_tenant *t)
{
    live_log_drop(&l->log, &t->part);
    buf_release(&t->words);
    free(t->senders);
    free(t);
}

void live_tenant_activate(struct live *l, struct live_tenant *t)
{
    if (!list_linked(&t->active))
        list_push(&l->active, &t->active);
    live_start_ticking(l);
}

void live_tenant_deactivate(struct live_tenant *t)
{
    if (!t->is_watched && !t->is_told && list_linked(&t->active))
        list_remove(&t->active);
}

bool live_window_take(struct live_window *w, int64_t now_ms)
{
    int64_t second = now_ms / 1000;
    if (w->second != second)
        *w = (struct live_window){ .second = second };
    w->used += w->used < LIVE_RATE + 1;
    return w->used <= LIVE_RATE;
}

static bool live_window_is_used_up(const struct live_window *w, int64_t now_ms)
{
    return w->used >= LIVE_RATE && w->second == now_ms / 1000;
}

/* ---- events ---- */

/* Whether the task only counts, because what may be told and kept in this second is used up. */
static bool live_fold(struct live *l, struct live_tenant *t, struct uuid id, struct uuid parent, struct str queue)
{
    if (t->is_told && !live_window_is_used_up(&t->told, l->now_ms))
        return false;
    if (t->is_watched && !live_window_is_used_up(&t->any, l->now_ms))
        return false;
    if (t->is_watched && !live_window_is_used_up(&t->filtered, l->now_ms) &&
        live_filters_want(&t->filters, id, parent, queue))
        return false;
    t->more += t->is_told;
    if (t->is_watched)
        live_filters_fold(&t->filters, id, parent, queue);
    return true;
}

void live_keep_task(struct live *l, struct live_tenant *t, const struct live_task *task)
{
    bool kept =
        live_window_take(&t->any, l->now_ms) || (live_filters_want(&t->filters, task->id, task->parent, task->queue) &&
                                                 live_window_take(&t->filtered, l->now_ms));
    if (!kept) {
        live_filters_fold(&t->filters, task->id, task->parent, task->queue);
        return;
    }
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, LIVE_TEXT_MAX);
    live_write_task(&text, task);
    struct live_event e = {
        .kind = LIVE_TASK, .task = task->id, .parent = task->parent, .queue = task->queue, .text = buf_str(&text)
    };
    live_log_add(&l->log, &t->part, &e);
}

void live_keep_job(struct live *l, struct live_tenant *t, const struct live_job *j)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, LIVE_TEXT_MAX);
    live_write_job(&text, j);
    live_log_add(&l->log, &t->part, &(struct live_event){ .kind = LIVE_JOB, .text = buf_str(&text) });
}

/* After LIVE_RATE of a second, readers learn that some are missing. */
void live_keep_incident(struct live *l, struct live_tenant *t, const struct live_incident *i, int64_t now_ms)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, LIVE_TEXT_MAX);
    if (live_window_take(&t->incidents, now_ms)) {
        live_write_incident(&text, i);
        live_log_add(&l->log, &t->part, &(struct live_event){ .kind = LIVE_INCIDENT, .text = buf_str(&text) });
        return;
    }
    list_each (&t->streams, link) {
        struct live_stream *s = container_of(link, struct live_stream, of_tenant);
        s->has_gap = s->has_gap || (s->sees_incidents && !s->filter);
    }
}

static void live_note(struct live *l, struct live_tenant *t, const struct live_task *task)
{
    if (t->is_told)
        live_tell_task(l, t, task);
    if (t->is_watched)
        live_keep_task(l, t, task);
}

/* The error of a task that runs again, or has ended otherwise, is none of what happened. */
static struct str live_error(enum task_state state, struct str error)
{
    bool is_shown = state == TASK_SCHEDULED || state == TASK_FAILED || state == TASK_EXPIRED || state == TASK_SKIPPED;
    return is_shown ? error : S("");
}

static void live_note_row(struct live *l, struct live_tenant *tenant, const struct task *t, enum task_state state,
                          int attempt, struct str error)
{
    if (list_linked(&tenant->active) && !live_fold(l, tenant, t->id, t->parent, t->queue))
        live_note(l, tenant,
                  &(struct live_task){ .id = t->id,
                                       .parent = t->parent,
                                       .queue = t->queue,
                                       .name = t->name,
                                       .error = live_error(state, error),
                                       .state = state,
                                       .attempt = attempt,
                                       .version = t->version,
                                       .at_ms = clock_wall_ms(l->server->setup.clock) });
}

/* ---- what the node and the API tell ---- */

void live_on_created(struct live *l, const struct task *v, size_t n)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++)
        if (v[i].tenant) /* else it is Belfry's own work */
            live_tenant_get(l, v[i].tenant)->own[LIVE_CREATED]++;
    pthread_mutex_unlock(&l->lock);
}

void live_on_written(struct live *l, const struct task *v, size_t n)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++)
        if (v[i].tenant)
            live_note_row(l, live_tenant_get(l, v[i].tenant), &v[i], v[i].state, v[i].attempts, v[i].last_error);
    pthread_mutex_unlock(&l->lock);
}

void live_on_spawned(struct live *l, const struct task *occurrence)
{
    live_on_created(l, occurrence, 1);
    live_on_written(l, occurrence, 1);
}

void live_on_started(struct live *l, const struct task *t)
{
    if (!t->tenant) /* Belfry's own work */
        return;
    pthread_mutex_lock(&l->lock);
    struct live_tenant *tenant = live_tenant_get(l, t->tenant);
    tenant->own[LIVE_STARTED]++;
    live_note_row(l, tenant, t, TASK_RUNNING, t->attempts + 1, S(""));
    pthread_mutex_unlock(&l->lock);
}

void live_on_opened(struct live *l, const struct task *t)
{
    if (!t->tenant)
        return;
    pthread_mutex_lock(&l->lock);
    live_tenant_get(l, t->tenant)->own[LIVE_STARTED]++;
    pthread_mutex_unlock(&l->lock);
}

/* Whether an attempt that has ended was not counted at its start: a worker of a fleet ran it, or it was a run, a map or
 * a wait for a signal that ended before it was opened. */
static bool live_starts_late(const struct event *e, const struct verdict *v, struct str worker)
{
    if (!v->has_execution)
        return false;
    if (e->outcome.worker.n)
        return !str_eq(e->outcome.worker, worker);
    bool was_told = v->execution.status == EXECUTION_LOST || e->task.target == TARGET_WORKER; /* by its node or lease */
    return !was_told && !(e->task.links & (TASK_OPENED | TASK_AWAITS));
}

static void live_count_settled(struct live_tenant *t, const struct settlement *s)
{
    const struct verdict *v = &s->verdict;
    bool was_lost = v->has_execution && v->execution.status == EXECUTION_LOST;
    t->own[LIVE_COMPLETED] += s->ret_state == TASK_COMPLETED;
    t->own[LIVE_FAILED] += s->ret_state == TASK_FAILED;
    t->own[LIVE_RETRIED] += s->ret_state == TASK_SCHEDULED && v->has_execution && !was_lost;
}

static int live_attempt(const struct verdict *v)
{
    return v->has_execution ? v->execution.attempt : v->attempts;
}

void live_on_settled(struct live *l, const struct event *e, const struct settlement *s, struct str worker)
{
    const struct verdict *v = &s->verdict;
    if (s->stale || !e->task.tenant)
        return;
    pthread_mutex_lock(&l->lock);
    struct live_tenant *t = live_tenant_get(l, e->task.tenant);
    bool is_news = s->ret_state != TASK_SCHEDULED || v->has_execution; /* else it was given back */
    t->own[LIVE_STARTED] += live_starts_late(e, v, worker);
    live_count_settled(t, s);
    if (is_news && list_linked(&t->active) && !live_fold(l, t, e->task.id, e->task.parent, e->task.queue))
        live_note(l, t,
                  &(struct live_task){ .id = e->task.id,
                                       .parent = e->task.parent,
                                       .queue = e->task.queue,
                                       .name = e->task.name,
                                       .error = live_error(s->ret_state, v->last_error),
                                       .state = s->ret_state,
                                       .attempt = live_attempt(v),
                                       .version = e->task.version,
                                       .at_ms = clock_wall_ms(l->server->setup.clock) });
    pthread_mutex_unlock(&l->lock);
}

void live_on_lease_settled(struct live *l, const struct task *t, const struct settlement *s)
{
    if (!t->tenant)
        return;
    pthread_mutex_lock(&l->lock);
    struct live_tenant *tenant = live_tenant_get(l, t->tenant);
    live_count_settled(tenant, s);
    if (s->ret_state != TASK_SCHEDULED) /* else live_on_written tells it */
        live_note_row(l, tenant, t, s->ret_state, live_attempt(&s->verdict), s->verdict.last_error);
    pthread_mutex_unlock(&l->lock);
}

void live_on_job(struct live *l, int32_t tenant, const struct job *j)
{
    pthread_mutex_lock(&l->lock);
    struct live_tenant *t = live_tenant_get(l, tenant);
    struct live_job job = live_job_of(j);
    if (t->is_told)
        live_tell_job(t, &job);
    if (t->is_watched)
        live_keep_job(l, t, &job);
    pthread_mutex_unlock(&l->lock);
}

void live_on_incident(struct live *l, int32_t tenant, const struct incident *i, enum incident_change change)
{
    struct live_incident incident = live_incident_of(i, change, clock_wall_ms(l->server->setup.clock));
    pthread_mutex_lock(&l->lock);
    struct live_tenant *t = live_tenant_get(l, tenant);
    if (t->is_told)
        live_tell_incident(t, &incident);
    if (t->is_watched)
        live_keep_incident(l, t, &incident, clock_steady_ms(l->server->setup.clock));
    pthread_mutex_unlock(&l->lock);
}

void live_on_keys_changed(struct live *l)
{
    pthread_mutex_lock(&l->lock);
    l->keys_changed = true;
    pthread_mutex_unlock(&l->lock);
}

/* ---- construction and destruction ---- */

struct live *live_new(struct api_server *s)
{
    struct live *l = xnew(*l);
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    l->server = s;
    snprintf(l->name, sizeof l->name, "%016" PRIx64, seed);
    prng_init(&l->random, ~seed);
    pthread_mutex_init(&l->lock, NULL);
    map_init(&l->tenants, HASH_STABLE); /* tenants are numbers that the server gave */
    list_init(&l->active);
    list_init(&l->streams);
    live_log_init(&l->log);
    l->tick.fire = live_on_tick;
    l->internal = request_new_internal(s, HTTP_OTHER, "/events", 0, NULL);
    l->internal->context = l;
    return l;
}

void live_free(struct live *l)
{
    if (!l)
        return;
    list_each (&l->streams, link)
        live_stream_free(container_of(link, struct live_stream, link));
    map_each (&l->tenants, slot)
        live_tenant_free(l, slot->value);
    map_release(&l->tenants);
    request_free(l->internal);
    pthread_mutex_destroy(&l->lock);
    free(l->peers);
    free(l);
}
