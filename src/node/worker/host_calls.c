/* Calls by host. A runner has a limit of calls to one host; a call beyond it would hold a slot and do nothing. So a
 * task whose host is busy is parked: it waits in its host's line, outside the slots, and has not started. If a call to
 * the host ends, the next one starts. A task that finds its line full, or has been parked for PARKED_MS, is reported as
 * HELD: the store puts it aside, into a lane of its host.
 *
 * A host is in `hosts` while it is called or has a line. A parked job is in `parked`, in its host's line (highest
 * priority first; of one priority, tenants take turns) and in parked_line (oldest first). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/worker/internal.h"

enum {
    BUSY_TEXT = TARGET_HOST_MAX + 64,
    RATE_MS = 50,    /* in which calls are counted */
    FAST_PER_MS = 5, /* calls that end */
    SHORT_MS = 500,  /* a task that waits less than that for its host keeps its place */
};

/* The parked jobs of one tenant for one host, of one priority. It exists while there are some. */
struct host_turn {
    int32_t tenant;
    struct list link; /* in worker_host.line, in the order of their next turns */
    struct list jobs; /* the longest parked first */
    size_t count;
};

/* ---- hosts ---- */

/* The limit of calls to the task's host, and the host's name. 0: it has none. */
static size_t worker_host_limit(const struct worker *w, const struct task *t, char text[TARGET_HOST_MAX],
                                struct str *ret_name)
{
    const struct runner *r = w->setup.runners[t->target];
    if (!r || !r->host_calls_max)
        return 0;
    *ret_name = target_host_name(target_host(t, text));
    return ret_name->n ? r->host_calls_max : 0;
}

static struct worker_host *worker_host_new(struct worker *w, struct str name, size_t max)
{
    struct worker_host *h = xcalloc(1, sizeof *h + name.n);
    h->max = max;
    h->since_ms = w->now.steady_ms;
    h->name_n = name.n;
    memcpy(h->name, name.p, name.n);
    for (int i = 0; i < PRIORITIES; i++)
        list_init(&h->line[i]);
    list_init(&h->ready);
    list_init(&h->busy);
    map_put(&w->hosts, (struct str){ h->name, h->name_n }, h);
    return h;
}

static void worker_host_release(struct worker *w, struct worker_host *h)
{
    if (h->calls || h->parked || h->in_use)
        return;
    list_remove(&h->ready);
    map_remove(&w->hosts, (struct str){ h->name, h->name_n });
    free(h);
}

void worker_enter_host(struct worker *w, struct job *j)
{
    char text[TARGET_HOST_MAX];
    struct str name;
    size_t max = worker_host_limit(w, j->run.task, text, &name);
    if (!max)
        return;
    j->host = map_get(&w->hosts, name);
    if (!j->host)
        j->host = worker_host_new(w, name, max);
    j->host->calls++;
}

static void worker_mark_ready(struct worker *w, struct worker_host *h)
{
    if (h->parked && !list_linked(&h->ready))
        list_push(&w->ready_hosts, &h->ready);
}

static void worker_host_count_end(const struct worker *w, struct worker_host *h)
{
    int64_t elapsed_ms = w->now.steady_ms - h->since_ms;
    h->ended++;
    if (elapsed_ms < RATE_MS)
        return;
    h->per_ms = (double)h->ended / (double)elapsed_ms;
    h->ended = 0;
    h->since_ms = w->now.steady_ms;
}

void worker_leave_host(struct worker *w, struct job *j)
{
    struct worker_host *h = j->host;
    if (!h)
        return;
    j->host = NULL;
    h->calls--;
    worker_host_count_end(w, h);
    worker_mark_ready(w, h);
    worker_host_release(w, h);
}

/* ---- lines ---- */

static struct host_turn *host_turn_at(struct list *link)
{
    return container_of(link, struct host_turn, link);
}

static struct host_turn *worker_line_turn(struct list *line, int32_t tenant)
{
    list_each (line, link)
        if (host_turn_at(link)->tenant == tenant)
            return host_turn_at(link);
    return NULL;
}

static void worker_line_push(struct worker_host *h, struct job *j)
{
    struct list *line = &h->line[j->run.task->priority];
    struct host_turn *t = worker_line_turn(line, j->run.task->tenant);
    if (!t) {
        t = xnew(*t);
        t->tenant = j->run.task->tenant;
        list_init(&t->jobs);
        list_push(line, &t->link);
    }
    list_push(&t->jobs, &j->in_line);
    t->count++;
}

static void worker_line_remove(struct worker_host *h, struct job *j)
{
    struct host_turn *t = worker_line_turn(&h->line[j->run.task->priority], j->run.task->tenant);
    list_remove(&j->in_line);
    if (--t->count > 0)
        return;
    list_remove(&t->link);
    free(t);
}

/* The next one of the line to start. */
static struct job *worker_line_first(struct worker_host *h)
{
    for (int i = PRIORITY_MAX; i >= PRIORITY_MIN; i--)
        if (!list_empty(&h->line[i]))
            return container_of(host_turn_at(h->line[i].next)->jobs.next, struct job, in_line);
    return NULL;
}

/* Its tenant has had its turn. */
static void worker_line_end_turn(struct worker_host *h, const struct job *j)
{
    struct list *line = &h->line[j->run.task->priority];
    struct host_turn *t = worker_line_turn(line, j->run.task->tenant);
    list_remove(&t->link);
    list_push(line, &t->link);
}

static struct job *worker_line_last(struct worker_host *h)
{
    for (int i = PRIORITY_MIN; i <= PRIORITY_MAX; i++)
        if (!list_empty(&h->line[i]))
            return container_of(host_turn_at(h->line[i].prev)->jobs.prev, struct job, in_line);
    return NULL;
}

static void worker_park(struct worker *w, struct worker_host *h, struct job *j)
{
    worker_line_push(h, j);
    list_push(&w->parked_line, &j->in_parked_line);
    map_put(&w->parked, fenced_id_key(&j->id), j);
    if (h->parked++ == 0)
        list_push(&w->busy_hosts, &h->busy);
    j->host = h;
    j->parked_ms = w->now.steady_ms;
    j->was_parked = true;
}

static void worker_unpark(struct worker *w, struct job *j)
{
    struct worker_host *h = j->host;
    worker_line_remove(h, j);
    list_remove(&j->in_parked_line);
    map_remove(&w->parked, fenced_id_key(&j->id));
    if (--h->parked == 0)
        list_remove(&h->busy);
    j->host = NULL;
    worker_host_release(w, h);
}

/* Reports that the task waits in a lane of its host. It keeps its due time. All ports of the host have one lane, as
 * they have one limit of calls. */
static void worker_put_aside(struct worker *w, struct job *j, size_t calls)
{
    char host[TARGET_HOST_MAX], text[BUSY_TEXT];
    struct str at = target_host_name(target_host(j->run.task, host));
    int n = snprintf(text, sizeof text, "waits: %zu calls to " STR_FMT " are under way", calls, STR_ARG(at));
    struct outcome o = { .kind = OUTCOME_HELD, .error = { text, (size_t)n }, .late_by = LATE_HOST, .aside = at };
    metric_add(w->setup.metrics, METRIC_TASKS_ASIDE, 1);
    worker_add_outcome(w, j, &o);
}

static void worker_put_parked_aside(struct worker *w, struct job *j)
{
    size_t calls = j->host->calls;
    worker_unpark(w, j);
    worker_put_aside(w, j, calls);
}

/* An AT_MOST_ONCE task would be lost with the process. A task that needs CPU or memory would hold them, or lack them
 * when its turn comes. */
static bool worker_may_park(const struct worker *w, const struct task *t)
{
    return t->delivery != DELIVER_AT_MOST_ONCE && (w->setup.cpu_milli <= 0 || !t->cpu_milli) &&
           (w->setup.memory_mb <= 0 || !t->memory_mb);
}

/* If one host fills the line of all, others still have a short one. The workers of a fleet have connections of their
 * own: what one of them could not start soon may be for another. */
static bool worker_line_has_room(const struct worker *w, const struct worker_host *h)
{
    size_t slots = w->setup.slots;
    if (w->setup.fleet)
        return h->parked < h->max && w->parked.n < slots;
    return w->parked.n < slots || (h->parked < h->max && w->parked.n < 2 * slots);
}

/* The one that makes way in a full line: the last one of a lower priority, or of a tenant that has more of the same
 * priority than the task's tenant would have. */
static struct job *worker_line_yields(struct worker_host *h, const struct task *t)
{
    struct job *last = worker_line_last(h);
    if (!last || last->run.task->priority < t->priority)
        return last;
    struct list *line = &h->line[t->priority];
    const struct host_turn *own = worker_line_turn(line, t->tenant);
    struct host_turn *most = NULL;
    list_each (line, link)
        if (!most || host_turn_at(link)->count > most->count)
            most = host_turn_at(link);
    bool has_more = most && most->count > (own ? own->count : 0) + 1;
    return has_more ? container_of(most->jobs.prev, struct job, in_line) : NULL;
}

static bool worker_has_place_in_line(struct worker *w, struct worker_host *h, const struct task *t)
{
    if (worker_line_has_room(w, h))
        return true;
    struct job *last = worker_line_yields(h, t);
    if (!last)
        return false;
    worker_put_parked_aside(w, last);
    return true;
}

bool worker_waits_for_host(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    char text[TARGET_HOST_MAX];
    struct str name;
    struct worker_host *h = worker_host_limit(w, t, text, &name) ? map_get(&w->hosts, name) : NULL;
    if (!h || (h->calls < h->max && !h->parked))
        return false;
    h->in_use = true;
    if (worker_may_park(w, t) && worker_has_place_in_line(w, h, t))
        worker_park(w, h, j);
    else
        worker_put_aside(w, j, h->calls);
    h->in_use = false;
    worker_host_release(w, h);
    return true;
}

/* ---- starting ---- */

static void worker_start_line(struct worker *w, struct worker_host *h)
{
    h->in_use = true;
    while (h->parked && h->calls < h->max) {
        struct job *j = worker_line_first(h);
        bool has_heard = worker_has_heard(w);
        w->must_hear = w->must_hear || !has_heard;
        if (!has_heard || !worker_has_place(w, j->run.task)) {
            worker_mark_ready(w, h); /* for the next step */
            break;
        }
        worker_line_end_turn(h, j);
        worker_unpark(w, j);
        worker_start_parked_job(w, j);
    }
    h->in_use = false;
    worker_host_release(w, h);
}

int64_t worker_start_parked(struct worker *w)
{
    struct list ready;
    list_init(&ready);
    if (w->stopped)
        worker_return_parked(w);
    list_append(&ready, &w->ready_hosts);
    for (struct list *l; (l = list_pop(&ready));)
        worker_start_line(w, container_of(l, struct worker_host, ready));
    while (!list_empty(&w->parked_line)) {
        struct job *oldest = container_of(w->parked_line.next, struct job, in_parked_line);
        if (w->now.steady_ms - oldest->parked_ms < PARKED_MS)
            return oldest->parked_ms + PARKED_MS;
        worker_put_parked_aside(w, oldest);
    }
    return INT64_MAX;
}

/* ---- ending ---- */

bool worker_cancel_parked(struct worker *w, const struct fenced_id *id, struct str why)
{
    struct job *j = map_get(&w->parked, fenced_id_key(id));
    if (!j)
        return false;
    worker_unpark(w, j);
    worker_add_outcome(w, j, &(struct outcome){ .kind = OUTCOME_CANCELLED, .retry_after_ms = -1, .error = why });
    return true;
}

struct job *worker_pop_parked(struct worker *w)
{
    if (list_empty(&w->parked_line))
        return NULL;
    struct job *j = container_of(w->parked_line.next, struct job, in_parked_line);
    worker_unpark(w, j);
    return j;
}

void worker_return_job(struct worker *w, struct job *j)
{
    worker_add_outcome(w, j, &(struct outcome){ .kind = OUTCOME_RETURNED, .retry_after_ms = -1 });
}

void worker_return_parked(struct worker *w)
{
    for (struct job *j; (j = worker_pop_parked(w));)
        worker_return_job(w, j);
}

struct job *worker_take_off_line(struct worker *w, const struct fenced_id *id)
{
    struct job *j = map_get(&w->parked, fenced_id_key(id));
    if (j)
        worker_unpark(w, j);
    return j;
}

/* How many parked tasks will have started after SHORT_MS, as calls to the host end now. Only if the host is about as
 * fast as putting its tasks aside would be: behind the tasks of a slower one, those of others would wait. */
static size_t worker_host_starts_soon(const struct worker *w, const struct worker_host *h)
{
    int64_t elapsed_ms = w->now.steady_ms - h->since_ms;
    bool silent = elapsed_ms >= 2 * RATE_MS; /* the host has become slow */
    double per_ms = silent ? (double)h->ended / (double)elapsed_ms : h->per_ms;
    return per_ms < FAST_PER_MS ? 0 : min_of(h->parked, (size_t)(per_ms * SHORT_MS));
}

size_t worker_parked_long(const struct worker *w)
{
    assert_owned(&w->owner);
    size_t soon = 0;
    list_each (&w->busy_hosts, link)
        soon += worker_host_starts_soon(w, container_of(link, struct worker_host, busy));
    return w->parked.n - soon;
}

/* Those of higher priorities, those of its tenant that came before it, and of each other tenant as many, or one more if
 * that tenant's turn comes first. */
static size_t worker_line_ahead(const struct job *j)
{
    int priority = j->run.task->priority;
    size_t n = 0, before = 0;
    for (int i = PRIORITY_MAX; i > priority; i--)
        list_each (&j->host->line[i], link)
            n += host_turn_at(link)->count;
    struct host_turn *own = worker_line_turn(&j->host->line[priority], j->run.task->tenant);
    for (const struct list *l = own->jobs.next; l != &j->in_line; l = l->next)
        before++;
    bool comes_first = true;
    list_each (&j->host->line[priority], link) {
        if (host_turn_at(link) == own)
            comes_first = false;
        else
            n += min_of(host_turn_at(link)->count, before + comes_first);
    }
    return n + before;
}

struct worker_standing worker_standing(const struct worker *w, struct uuid id, int64_t fence)
{
    assert_owned(&w->owner);
    struct fenced_id key = { id, fence };
    const struct job *j = map_get(&w->parked, fenced_id_key(&key));
    if (j)
        return (struct worker_standing){ .at = WORKER_PARKED, .ahead = worker_line_ahead(j) };
    j = map_get(&w->running, fenced_id_key(&key));
    return j ? (struct worker_standing){ .at = WORKER_STARTED, .started_ms = j->started_ms }
             : (struct worker_standing){ .at = WORKER_HAS_NOT };
}

struct worker_host_use worker_host_use(const struct worker *w, const struct task *t)
{
    assert_owned(&w->owner);
    char text[TARGET_HOST_MAX];
    struct str name;
    size_t max = worker_host_limit(w, t, text, &name);
    const struct worker_host *h = max ? map_get(&w->hosts, name) : NULL;
    return h ? (struct worker_host_use){ h->calls, h->max, h->parked } : (struct worker_host_use){ .max = max };
}

size_t worker_parked(const struct worker *w)
{
    assert_owned(&w->owner);
    return w->parked.n;
}

void worker_host_calls_init(struct worker *w)
{
    map_init(&w->hosts, w->setup.hash);
    map_init(&w->parked, HASH_STABLE);
    list_init(&w->parked_line);
    list_init(&w->ready_hosts);
    list_init(&w->busy_hosts);
}

void worker_host_calls_release(struct worker *w)
{
    assert(w->hosts.n == 0 && w->parked.n == 0);
    map_release(&w->hosts);
    map_release(&w->parked);
}
