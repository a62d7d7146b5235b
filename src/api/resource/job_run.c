/* A job that runs on this node. It advances in turns. A turn:
 * 1. Makes sure that this node holds the lease.
 * 2. Reads the record of the job, and checks the outcome of tasks that it retried before.
 * 3. Lists the next page of tasks and sends a request for each, several at a time.
 * 4. Saves the progress, then waits as long as the rate of the job requires.
 *
 * A turn counts as a run of the server (api_server_begin_run), so the server does not stop during a turn. Between turns
 * nothing runs.
 *
 * The requests for a page end on any thread: the lock guards the state of the page. All other fields belong to the
 * thread that runs the turn. */
#include <stdio.h>
#include <stdlib.h>

#include "api/resource/jobs.h"
#include "api/server/internal.h"
#include "base/json/json.h"
#include "base/log.h"

enum {
    PAGE_MAX = 256,
    AT_ONCE = 32,
    JOBS_MAX = 32,
    JOBS_MAX_PER_TENANT = 4,
    ARENA_MAX = 4 << 20,
    TROUBLE_MS = 1000,
    DETAIL_MAX = 300,
    PATH_TEXT = 128
};

struct job_run {
    struct list link; /* in api_server.jobs */
    struct api_server *server;
    struct request *internal; /* an internal request that is never answered: turns and saves run on it */
    struct timer timer;
    int32_t tenant;
    struct uuid id;
    struct arena arena; /* the texts of the job */
    struct job job;
    int64_t version;    /* of its record, as far as known here; 0: not read yet */
    struct uuid cursor; /* as in the record */
    bool over;          /* nothing is left to do here: the job has ended, or another node has it */

    pthread_mutex_t lock; /* guards the fields below and the counts of the job */
    struct uuid page[PAGE_MAX];
    size_t page_count, asked, answered;
};

static route_handler job_run_turn;

static void job_run_free(struct job_run *run)
{
    request_free(run->internal);
    arena_release(&run->arena);
    pthread_mutex_destroy(&run->lock);
    free(run);
}

/* ---- the end of a turn ---- */

static void job_run_on_timer(struct timer *timer)
{
    struct job_run *run = container_of(timer, struct job_run, timer);
    if (api_server_begin_run(run->server)) /* otherwise the job continues after the next start */
        request_later(run->internal, job_run_turn);
}

static void job_run_end_turn(struct job_run *run, int64_t pause_ms)
{
    struct api_server *s = run->server;
    if (run->over) {
        pthread_mutex_lock(&s->lock);
        list_remove(&run->link);
        s->job_count--;
        pthread_mutex_unlock(&s->lock);
        job_run_free(run);
    } else {
        timers_add(s->timers, &run->timer, max_of(pause_ms, (int64_t)1));
    }
    api_server_end_run(s);
}

static enum handled job_run_end(struct job_run *run)
{
    run->over = true;
    job_run_end_turn(run, 0);
    return HANDLED_LATER;
}

static void job_run_apply_saved(struct job_run *run)
{
    const struct job *j = &run->job;
    run->version = run->internal->job_change.ret_version;
    run->cursor = j->cursor;
    run->over = j->state != JOB_RUNNING;
    live_on_job(run->server->live, run->tenant, j);
    if (run->over)
        log_info("job_ended", kv_uuid("job", run->id), kv_cstr("state", job_state_name(j->state)),
                 kv_i64("done", j->done), kv_i64("failed", j->failed));
}

/* The next turn reads what another node wrote meanwhile, or finds that this save was written after all. */
static void job_run_on_saved(struct op *op)
{
    struct job_run *run = request_finish_op(op)->context;
    bool outrun = op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND;
    if (op->rc == ERR_OK)
        job_run_apply_saved(run);
    else if (!outrun)
        log_warn("job_save_failed", kv_uuid("job", run->id), kv_err(&op->error));
    job_run_end_turn(run, outrun ? 0 : op->rc ? TROUBLE_MS : job_pause_ms(&run->job, run->page_count));
}

static void job_run_save(struct job_run *run)
{
    struct request *q = run->internal;
    struct jw w = respond_json(&q->response, 200); /* the document stays in the response until it is written */
    char *name = arena_array(&q->arena, char, UUID_TEXT + 1);
    uuid_format(run->id, name);
    job_write(&w, &run->job);
    q->job_change = (struct catalog_change){ .entry = { .tenant = run->tenant,
                                                        .kind = CATALOG_JOB,
                                                        .name = str_from(name),
                                                        .doc = buf_str(&q->response.body) },
                                             .version = run->version };
    q->write.catalog = (struct op_catalog){
        .op = { .kind = OP_CATALOG }, .v = &q->job_change, .n = 1, .now_ms = clock_wall_ms(run->server->setup.clock)
    };
    request_submit(q, job_run_on_saved);
}

static void job_run_finish(struct job_run *run, enum job_state state, struct str reason)
{
    run->job.state = state;
    run->job.reason = reason;
    run->job.finished_ms = clock_wall_ms(run->server->setup.clock);
    run->page_count = 0;
    job_run_save(run);
}

/* ---- one page ---- */

/* The sentence of a refusal, for the job's list of failures. */
static const char *job_run_detail_of(struct job_run *run, const struct request *child)
{
    struct json_doc doc;
    struct str detail = S("it was refused"), copy = { 0 };
    bool parsed = json_parse_answer(buf_str(&child->response.body), &doc, NULL) == ERR_OK;
    if (parsed && json_text_at(doc.root, "detail").p)
        detail = json_text_at(doc.root, "detail");
    bool kept =
        run->job.failure_count < JOB_FAILURES_MAX && arena_str(&run->arena, str_utf8_cut(detail, DETAIL_MAX), &copy);
    if (parsed)
        json_doc_release(&doc);
    return kept ? copy.p : "it was refused";
}

static void job_run_start_child(struct job_run *run, struct uuid task);

/* The answer is counted and the next task is taken under the same lock. While a child is outstanding, the run cannot
 * be freed. */
static void job_run_on_child_answer(struct request *child)
{
    struct job_run *run = child->context;
    pthread_mutex_lock(&run->lock);
    bool good = child->response.status < 400;
    job_count(&run->job, child->id, good ? NULL : job_run_detail_of(run, child));
    if (good && run->job.redrive && run->job.watched_count < JOB_WATCHED_MAX)
        run->job.watched[run->job.watched_count++] = child->id;
    run->answered++;
    bool over = run->answered == run->page_count, more = run->asked < run->page_count;
    struct uuid next = run->page[more ? run->asked : 0];
    run->asked += more;
    pthread_mutex_unlock(&run->lock);
    request_free(child);
    if (more)
        job_run_start_child(run, next);
    if (over) {
        run->job.cursor = run->page[run->page_count - 1];
        job_run_save(run);
    }
}

/* Each job has its own idempotency key: a request that is repeated after a restart is answered again, but not carried
 * out again. */
static struct request *job_run_make_child(struct job_run *run, struct uuid task)
{
    char id[UUID_TEXT + 1], job[UUID_TEXT + 1], path[PATH_TEXT], key[PATH_TEXT];
    uuid_format(task, id);
    uuid_format(run->id, job);
    bool removes = run->job.action == ACTION_DELETE;
    snprintf(path, sizeof path, "/v1/tasks/%s%s%s", id, removes ? "" : "/",
             removes ? "" : action_name(run->job.action));
    snprintf(key, sizeof key, "job-%s", job);
    struct request *q = request_new_internal(run->server, removes ? HTTP_DELETE : HTTP_POST, path, run->tenant, key);
    if (run->job.without_workflows)
        q->who.scopes = 1U << q->route->scope;
    if (run->job.pause.n)
        request_set_body(q, run->job.pause);
    if (run->job.action == ACTION_PAUSE) /* a pause says who made it */
        snprintf(q->who.key_id, sizeof q->who.key_id, STR_FMT, STR_ARG(run->job.by));
    q->context = run;
    q->on_answer = job_run_on_child_answer;
    return q;
}

static void job_run_start_child(struct job_run *run, struct uuid task)
{
    request_later(job_run_make_child(run, task), request_run);
}

static void job_run_start_page(struct job_run *run, const struct tasks *tasks)
{
    size_t n = min_of(tasks->n, (size_t)PAGE_MAX), first = min_of(n, (size_t)AT_ONCE);
    run->page_count = n;
    run->asked = first;
    run->answered = 0;
    for (size_t i = 0; i < n; i++)
        run->page[i] = tasks->v[i].id;
    for (size_t i = 0; i < first; i++)
        job_run_start_child(run,
                            tasks->v[i].id); /* once the last request is sent, the run may belong to another thread */
}

/* ---- one turn ---- */

/* The record was written by someone else. If its cursor is the one that we read or the one that we have reached, only
 * this node has worked on the job: our unsaved progress counts, and the change is a user's. Otherwise another node has
 * worked on it: our unsaved progress is dropped, and the job continues from the record. */
static enum err job_run_merge_record(struct job_run *run, const struct catalog_entry *entry, struct error *e)
{
    struct job now;
    enum err rc = job_read(entry->doc, &run->internal->arena, &now, e);
    if (rc)
        return rc;
    bool ours = run->version && (uuid_eq(now.cursor, run->cursor) || uuid_eq(now.cursor, run->job.cursor));
    run->version = entry->version;
    run->cursor = now.cursor;
    run->over = now.state != JOB_RUNNING;
    if (ours) {
        run->job.cancelling = now.cancelling;
        return ERR_OK;
    }
    arena_reset(&run->arena);
    return job_read(entry->doc, &run->arena, &run->job, e);
}

static enum err job_run_read_record(struct job_run *run, struct reader *r, struct error *e)
{
    char name[UUID_TEXT + 1];
    struct catalog_entry entry;
    uuid_format(run->id, name);
    enum err rc = reader_catalog_get(r, run->tenant, CATALOG_JOB, str_from(name), &run->internal->arena, &entry, e);
    return rc || entry.version == run->version ? rc : job_run_merge_record(run, &entry, e);
}

static void job_run_check_retried(struct job_run *run, struct reader *r)
{
    struct job *j = &run->job;
    size_t left = 0;
    for (size_t i = 0; i < j->watched_count; i++) {
        struct task t;
        struct error e;
        enum err rc = reader_get(r, run->tenant, j->watched[i], &run->internal->arena, &t, &e);
        enum job_outcome outcome = rc == ERR_OK ? job_outcome_of(&t) : JOB_UNKNOWN;
        j->succeeded += outcome == JOB_SUCCEEDED;
        j->failed_again += outcome == JOB_FAILED_AGAIN;
        if (outcome == JOB_UNKNOWN && rc != ERR_NOT_FOUND)
            j->watched[left++] = j->watched[i];
    }
    j->watched_count = left;
}

static enum err job_run_list_page(struct job_run *run, struct reader *r, size_t n, struct task_page *ret,
                                  struct error *e)
{
    struct task_filter f;
    const struct job *j = &run->job;
    struct arena *a = &run->internal->arena;
    enum err rc = job_filter(j, run->tenant, clock_wall_ms(run->server->setup.clock), a, &f, e);
    if (rc)
        return rc;
    f.before = j->cursor;
    f.limit = n;
    return reader_list(r, &f, a, ret, e);
}

static void job_run_continue(struct job_run *run, struct reader *r)
{
    struct error e = { 0 };
    struct task_page page = { 0 };
    job_run_check_retried(run, r);
    size_t n = job_allowance(&run->job);
    if (run->job.state != JOB_RUNNING) {
        job_run_finish(run, run->job.state, run->job.reason);
    } else if (n == 0) {
        job_run_end_turn(run, job_pause_ms(&run->job, 0));
    } else if (job_run_list_page(run, r, n, &page, &e)) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&e));
        job_run_end_turn(run, TROUBLE_MS);
    } else if (page.tasks.n == 0) {
        job_run_finish(run, JOB_DONE, (struct str){ 0 });
    } else {
        job_run_start_page(run, &page.tasks);
    }
}

/* A job acts for the key that created it. Why it must end; empty: it may go on. The scopes of a key never change. */
static enum err job_run_check_key(struct job_run *run, struct reader *r, struct str *ret_reason, struct error *e)
{
    struct api_key key;
    *ret_reason = S("");
    if (run->job.by.n != AUTH_ID) /* it was not created by a key */
        return ERR_OK;
    enum err rc = reader_key(r, run->job.by, &run->internal->arena, &key, e);
    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && key.expires_ms < 0))
        *ret_reason = S("the API key that created the job was revoked; tasks that it has changed stay changed");
    else if (rc == ERR_OK && key.expires_ms && key.expires_ms <= clock_wall_ms(run->server->setup.clock))
        *ret_reason = S("the API key that created the job has expired; tasks that it has changed stay changed");
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum handled job_run_step(struct request *q, struct reader *r)
{
    struct job_run *run = q->context;
    struct error e = { 0 };
    struct str reason = { 0 };
    enum err rc = job_run_read_record(run, r, &e);
    if (rc == ERR_OK && !run->over)
        rc = job_run_check_key(run, r, &reason, &e);
    if (rc == ERR_UNAVAILABLE) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&e));
        job_run_end_turn(run, TROUBLE_MS);
        return HANDLED_LATER;
    }
    if (rc && rc != ERR_NOT_FOUND)
        log_error("job_damaged", kv_uuid("job", run->id), kv_err(&e));
    if (rc || run->over)
        return job_run_end(run);
    if (run->job.state != JOB_RUNNING)
        job_run_save(run); /* the last save failed */
    else if (run->job.cancelling)
        job_run_finish(run, JOB_CANCELLED, S("the job was cancelled; tasks that it has changed stay changed"));
    else if (reason.n)
        job_run_finish(run, JOB_STOPPED, reason);
    else
        job_run_continue(run, r);
    return HANDLED_LATER;
}

static void job_run_on_leased(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct job_run *run = q->context;
    if (op->rc) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&op->error));
        job_run_end_turn(run, TROUBLE_MS);
    } else if (q->write.lease.ret_held) {
        request_later(q, job_run_step);
    } else {
        job_run_end(run);
    }
}

static enum handled job_run_turn(struct request *q, struct reader *r)
{
    struct job_run *run = q->context;
    arena_reset(&q->arena);
    run->page_count = 0;
    return run->server->job_watch ? job_take_lease(q, run->id, job_run_on_leased) : job_run_step(q, r);
}

/* ---- start and stop ---- */

static struct job_run *job_run_find(struct api_server *s, int32_t tenant, struct uuid id)
{
    list_each (&s->jobs, link) {
        struct job_run *run = container_of(link, struct job_run, link);
        if (run->tenant == tenant && uuid_eq(run->id, id))
            return run;
    }
    return NULL;
}

bool job_runs_here(struct api_server *s, int32_t tenant, struct uuid id)
{
    pthread_mutex_lock(&s->lock);
    bool here = job_run_find(s, tenant, id);
    pthread_mutex_unlock(&s->lock);
    return here;
}

static struct job_run *job_run_new(struct api_server *s, int32_t tenant, struct uuid id)
{
    struct job_run *run = xnew(*run);
    run->server = s;
    run->tenant = tenant;
    run->id = id;
    run->timer.fire = job_run_on_timer;
    pthread_mutex_init(&run->lock, NULL);
    arena_init(&run->arena, ARENA_MAX);
    run->internal = request_new_internal(s, HTTP_OTHER, "/job", tenant, NULL);
    run->internal->context = run;
    return run;
}

/* Both the request that creates a job and the search for jobs may call this. */
void job_start(struct api_server *s, int32_t tenant, struct uuid id)
{
    struct job_run *run = job_run_new(s, tenant, id);
    pthread_mutex_lock(&s->lock);
    bool here = job_run_find(s, tenant, id);
    if (!here) {
        list_push(&s->jobs, &run->link);
        s->job_count++;
    }
    pthread_mutex_unlock(&s->lock);
    if (here)
        job_run_free(run);
    else
        timers_add(s->timers, &run->timer, 1);
}

bool jobs_are_full_for(struct api_server *s, int32_t tenant)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    list_each (&s->jobs, link)
        n += container_of(link, struct job_run, link)->tenant == tenant;
    pthread_mutex_unlock(&s->lock);
    return n >= JOBS_MAX_PER_TENANT;
}

bool jobs_are_full(struct api_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool full = s->job_count >= JOBS_MAX;
    pthread_mutex_unlock(&s->lock);
    return full;
}

void jobs_drop(struct api_server *s)
{
    list_each (&s->jobs, link) {
        struct job_run *run = container_of(link, struct job_run, link);
        list_remove(link);
        job_run_free(run);
    }
}
