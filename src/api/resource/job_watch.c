/* Finds the jobs that this node runs. If the store is not shared: those that were running when the server stopped, and
 * those that users create here. If it is shared: every POLL_MS it asks for the lease of every running job. This renews
 * the leases of the jobs that run here, also while a page takes long. Any other lease that it gets is of a job whose
 * node is gone. */
#include <stdio.h>
#include <stdlib.h>

#include "api/resource/jobs.h"
#include "api/server/internal.h"
#include "base/log.h"

enum { POLL_MS = 1000, LEASE_MS = 5000, RUNNING_MAX = 1024, LEASE_TEXT = 48 };

struct running_job {
    int32_t tenant;
    struct uuid id;
};

struct job_watch {
    struct api_server *server;
    struct request *internal; /* an internal request that is never answered: the search runs on it */
    struct timer timer;
    struct uuid holder; /* of leases: this server, until it stops */
    bool damage_logged; /* damaged records were logged: once is enough, and later searches list running jobs only */
    struct running_job found[RUNNING_MAX];
    size_t count, next;
};

/* ---- running jobs ---- */

static size_t job_watch_pick_running(const struct catalog_entries *entries, bool log_damage, struct arena *a,
                                     struct running_job *ret, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < entries->n && n < max; i++) {
        const struct catalog_entry *entry = &entries->v[i];
        struct job job;
        struct error e = { 0 };
        enum err rc = job_read(entry->doc, a, &job, &e);
        if (rc && log_damage)
            log_error("job_damaged", kv_str("job", entry->name), kv_err(&e));
        if (rc == ERR_OK && job.state == JOB_RUNNING)
            ret[n++] = (struct running_job){ entry->tenant, job.id };
    }
    return n;
}

static enum err job_watch_find_running(struct job_watch *w, struct reader *r, struct arena *a, struct error *e)
{
    struct catalog_filter f = {
        .kind = CATALOG_JOB, .all_tenants = true, .limit = CATALOG_LIST_MAX, .unfinished = w->damage_logged
    };
    struct catalog_page page = { .more = true };
    char after[CATALOG_NAME_MAX + 1];
    w->count = w->next = 0;
    while (page.more) {
        arena_reset(a);
        enum err rc = reader_catalog_list(r, &f, a, &page, e);
        if (rc)
            return rc;
        w->count +=
            job_watch_pick_running(&page.entries, !w->damage_logged, a, w->found + w->count, RUNNING_MAX - w->count);
        if (page.entries.n == 0)
            break;
        const struct catalog_entry *last = &page.entries.v[page.entries.n - 1];
        snprintf(after, sizeof after, STR_FMT, STR_ARG(last->name));
        f.after = str_from(after);
        f.after_tenant = last->tenant;
    }
    w->damage_logged = true;
    return ERR_OK;
}

/* ---- one search ---- */

enum handled job_take_lease(struct request *q, struct uuid id, void (*done)(struct op *op))
{
    struct api_server *s = q->server;
    char text[UUID_TEXT + 1], *name = arena_array(&q->arena, char, LEASE_TEXT);
    uuid_format(id, text);
    snprintf(name, LEASE_TEXT, "job:%s", text);
    q->write.lease = (struct op_lease){ .op = { .kind = OP_LEASE },
                                        .name = str_from(name),
                                        .holder = s->job_watch->holder,
                                        .now_ms = clock_wall_ms(s->setup.clock),
                                        .ttl_ms = LEASE_MS };
    return request_submit(q, done);
}

static void job_watch_end_look(struct job_watch *w)
{
    struct api_server *s = w->server;
    timers_add(s->timers, &w->timer, POLL_MS);
    api_server_end_run(s);
}

static void job_watch_lease_next(struct job_watch *w);

static void job_watch_on_leased(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct job_watch *w = q->context;
    const struct running_job *f = &w->found[w->next++];
    if (op->rc) { /* the other leases would fail as well */
        log_warn("job_failed", kv_uuid("job", f->id), kv_err(&op->error));
        job_watch_end_look(w);
        return;
    }
    if (q->write.lease.ret_held && !job_runs_here(w->server, f->tenant, f->id)) {
        log_info("job_taken_over", kv_uuid("job", f->id));
        job_start(w->server, f->tenant, f->id);
    }
    job_watch_lease_next(w);
}

static void job_watch_lease_next(struct job_watch *w)
{
    struct api_server *s = w->server;
    for (; w->next < w->count; w->next++) {
        const struct running_job *f = &w->found[w->next];
        if (job_runs_here(s, f->tenant, f->id) || !jobs_are_full(s)) {
            job_take_lease(w->internal, f->id, job_watch_on_leased);
            return;
        }
    }
    job_watch_end_look(w);
}

static enum handled job_watch_run(struct request *q, struct reader *r)
{
    struct job_watch *w = q->context;
    struct error e = { 0 };
    if (job_watch_find_running(w, r, &q->arena, &e)) {
        log_warn("job_failed", kv_err(&e));
        job_watch_end_look(w);
    } else {
        job_watch_lease_next(w);
    }
    return HANDLED_LATER;
}

static void job_watch_on_timer(struct timer *timer)
{
    struct job_watch *w = container_of(timer, struct job_watch, timer);
    if (api_server_begin_run(w->server))
        request_later(w->internal, job_watch_run);
}

/* ---- start and stop ---- */

static struct job_watch *job_watch_new(struct api_server *s)
{
    struct job_watch *w = xnew(*w);
    w->server = s;
    w->timer.fire = job_watch_on_timer;
    w->internal = request_new_internal(s, HTTP_OTHER, "/job", 0, NULL);
    w->internal->context = w;
    w->holder = uuid_next(&s->ids, clock_wall_ms(s->setup.clock));
    return w;
}

static void job_watch_free(struct job_watch *w)
{
    if (!w)
        return;
    request_free(w->internal);
    free(w);
}

static enum err job_watch_resume_all(struct api_server *s, struct error *e)
{
    struct reader *r = NULL;
    struct job_watch *w = job_watch_new(s);
    enum err rc = store_reader(s->setup.store, &r, e);
    if (rc == ERR_OK)
        rc = job_watch_find_running(w, r, &w->internal->arena, e);
    for (size_t i = 0; rc == ERR_OK && i < w->count; i++)
        job_start(s, w->found[i].tenant, w->found[i].id);
    store_keep_reader(s->setup.store, r, rc);
    job_watch_free(w);
    return rc;
}

enum err jobs_begin(struct api_server *s, struct error *e)
{
    if (!store_is_shared(s->setup.store))
        return job_watch_resume_all(s, e);
    s->job_watch = job_watch_new(s);
    timers_add(s->timers, &s->job_watch->timer, POLL_MS);
    return ERR_OK;
}

void jobs_release(struct api_server *s)
{
    jobs_drop(s);
    job_watch_free(take(s->job_watch));
}
