/* Which jobs this server works on. On a store of its own: those that were running when it stopped, and those that it is asked for. On a
 * shared one it asks, every now and then, for the lease of every job that runs: of those that it works on the lease is renewed, also
 * while a page takes long, and what it gets besides was left behind by a node that is gone. */
#include <stdio.h>
#include <stdlib.h>

#include "api/resource/jobs.h"
#include "api/server/internal.h"
#include "base/log.h"

enum { LOOK_MS = 1000, LEASE_MS = 5000, RUNNING_MAX = 1024, LEASE_TEXT = 48 };

struct found {
    int32_t tenant;
    struct uuid id;
};

struct job_watch {
    struct api_server *server;
    struct request *carrier; /* never answered: what looks run on */
    struct timer timer;
    struct uuid holder; /* of leases: this server, until it ends */
    bool told;          /* of records that are damaged: once is enough, and later looks are for what runs */
    struct found found[RUNNING_MAX];
    size_t count, next;
};

/* ---- which run ---- */

static size_t pick_running(const struct catalog_entries *entries, bool tell, struct arena *a, struct found *ret,
                           size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < entries->n && n < max; i++) {
        const struct catalog_entry *entry = &entries->v[i];
        struct job job;
        struct error e = { 0 };
        enum err rc = job_read(entry->doc, a, &job, &e);
        if (rc && tell)
            log_error("job_damaged", kv_str("job", entry->name), kv_err(&e));
        if (rc == ERR_OK && job.state == JOB_RUNNING)
            ret[n++] = (struct found){ entry->tenant, job.id };
    }
    return n;
}

static enum err find_running(struct job_watch *w, struct reader *r, struct arena *a, struct error *e)
{
    struct catalog_filter f = {
        .kind = CATALOG_JOB, .all_tenants = true, .limit = CATALOG_LIST_MAX, .unfinished = w->told
    };
    struct catalog_page page = { .more = true };
    char after[CATALOG_NAME_MAX + 1];
    w->count = w->next = 0;
    while (page.more) {
        arena_reset(a);
        enum err rc = reader_catalog_list(r, &f, a, &page, e);
        if (rc)
            return rc;
        w->count += pick_running(&page.entries, !w->told, a, w->found + w->count, RUNNING_MAX - w->count);
        if (page.entries.n == 0)
            break;
        const struct catalog_entry *last = &page.entries.v[page.entries.n - 1];
        snprintf(after, sizeof after, STR_FMT, STR_ARG(last->name));
        f.after = str_from(after);
        f.after_tenant = last->tenant;
    }
    w->told = true;
    return ERR_OK;
}

/* ---- one look ---- */

enum handled job_lease(struct request *q, struct uuid id, void (*done)(struct op *op))
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

static void look_over(struct job_watch *w)
{
    struct api_server *s = w->server;
    timers_add(s->timers, &w->timer, LOOK_MS);
    api_server_end_run(s);
}

static void ask_for_next(struct job_watch *w);

static void leased(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct job_watch *w = q->context;
    const struct found *f = &w->found[w->next++];
    if (op->rc) { /* the others would fare no better */
        log_warn("job_failed", kv_uuid("job", f->id), kv_err(&op->error));
        look_over(w);
        return;
    }
    if (q->write.lease.ret_held && !job_is_here(w->server, f->tenant, f->id)) {
        log_info("job_taken_over", kv_uuid("job", f->id));
        job_start(w->server, f->tenant, f->id);
    }
    ask_for_next(w);
}

static void ask_for_next(struct job_watch *w)
{
    struct api_server *s = w->server;
    for (; w->next < w->count; w->next++) {
        const struct found *f = &w->found[w->next];
        if (job_is_here(s, f->tenant, f->id) || !jobs_are_full(s)) {
            job_lease(w->carrier, f->id, leased);
            return;
        }
    }
    look_over(w);
}

static enum handled look(struct request *q, struct reader *r)
{
    struct job_watch *w = q->context;
    struct error e = { 0 };
    if (find_running(w, r, &q->arena, &e)) {
        log_warn("job_failed", kv_err(&e));
        look_over(w);
    } else {
        ask_for_next(w);
    }
    return HANDLED_LATER;
}

static void look_now(struct timer *timer)
{
    struct job_watch *w = container_of(timer, struct job_watch, timer);
    if (api_server_begin_run(w->server))
        request_later(w->carrier, look);
}

/* ---- beginning and end ---- */

static struct job_watch *watch_new(struct api_server *s)
{
    struct job_watch *w = xnew(*w);
    w->server = s;
    w->timer.fire = look_now;
    w->carrier = request_new_internal(s, HTTP_OTHER, "/job", 0, NULL);
    w->carrier->context = w;
    w->holder = uuid_next(&s->ids, clock_wall_ms(s->setup.clock));
    return w;
}

static void watch_free(struct job_watch *w)
{
    if (!w)
        return;
    request_free(w->carrier);
    free(w);
}

static enum err resume(struct api_server *s, struct error *e)
{
    struct reader *r = NULL;
    struct job_watch *w = watch_new(s);
    enum err rc = store_reader(s->setup.store, &r, e);
    if (rc == ERR_OK)
        rc = find_running(w, r, &w->carrier->arena, e);
    for (size_t i = 0; rc == ERR_OK && i < w->count; i++)
        job_start(s, w->found[i].tenant, w->found[i].id);
    reader_free(r);
    watch_free(w);
    return rc;
}

enum err jobs_begin(struct api_server *s, struct error *e)
{
    if (!store_is_shared(s->setup.store))
        return resume(s, e);
    s->job_watch = watch_new(s);
    timers_add(s->timers, &s->job_watch->timer, LOOK_MS);
    return ERR_OK;
}

void jobs_release(struct api_server *s)
{
    jobs_drop(s);
    watch_free(take(s->job_watch));
}
