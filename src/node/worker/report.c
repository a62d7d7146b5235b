/* A report that could not be published is dropped: the next one is more recent. Only the last report, of a worker
 * that leaves, is repeated until it is published: otherwise other nodes wait until its silence is long enough. */
#include "base/log.h"
#include "node/worker/internal.h"

static void report_on_published(struct io_request *e)
{
    struct worker *w = e->context;
    w->reporting = false;
    if (e->rc == ERR_OK) {
        w->has_left = w->last_report.worker.left;
        return;
    }
    log_debug("report_failed", kv_err(&e->error));
    if (w->last_report.worker.left)
        w->report_at_ms = w->now.steady_ms + WORKER_RETRY_MS;
}

static void report_write_doc(struct worker *w)
{
    struct jw json;
    buf_reset(&w->doc);
    jw_init(&json, &w->doc);
    jw_object(&json);
    if (w->setup.describe)
        w->setup.describe(w->setup.context, &json);
    jw_object_end(&json);
}

/* The worker leaves: nothing more will be reported. */
static bool report_is_last(const struct worker *w)
{
    return w->stopped && worker_running(w) == 0 && worker_parked(w) == 0 && worker_unpublished(w) == 0 && !w->taking &&
           !w->arrived && !w->publishing;
}

static void report_submit(struct worker *w, bool left)
{
    report_write_doc(w);
    w->last_report = (struct event){ .kind = EVENT_WORKER,
                                     .worker = { .id = w->setup.id,
                                                 .name = w->setup.name,
                                                 .version = w->setup.version,
                                                 .slots = (int64_t)w->setup.slots,
                                                 .running = (int64_t)worker_running(w),
                                                 .left = left,
                                                 .kind = w->kind,
                                                 .doc = w->doc.full ? S("{}") : buf_str(&w->doc) } };
    w->report = (struct io_publish){ .io_request = { .kind = IO_PUBLISH, .done = report_on_published, .context = w },
                                     .v = &w->last_report,
                                     .n = 1 };
    w->report_at_ms = w->now.steady_ms + WORKER_REPORT_MS;
    w->reporting = true;
    async_io_submit(w->setup.async_io, &w->report.io_request);
}

int64_t worker_report(struct worker *w)
{
    if (!w->setup.fleet || w->has_left)
        return INT64_MAX;
    bool left = report_is_last(w);
    if (left && !w->last_report.worker.left)
        w->report_at_ms = w->now.steady_ms;
    if (!w->reporting && w->report_at_ms <= w->now.steady_ms)
        report_submit(w, left);
    return w->reporting || w->has_left ? INT64_MAX : moment_wall_at(w->now, w->report_at_ms);
}
