/* One job at work. It advances in turns: a turn makes sure that the job is ours, looks at its record and at what became of tasks
 * retried before, lists the next page, asks for the action on each task of it, several at a time, and saves how far it came; then it
 * waits as long as the job's pace says. A turn counts as a request that runs, so that the server does not stop under it; between turns
 * nothing does.
 *
 * A page is asked for by requests of our own, which end on any thread: the page's state is under the lock. */
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
    ARENA_MAX = 4 << 20,
    TROUBLE_MS = 1000,
    DETAIL_MAX = 300,
    PATH_TEXT = 128
};

struct job_run {
    struct list link; /* among the server's */
    struct api_server *server;
    struct request *carrier; /* never answered: what steps and saves run on */
    struct timer timer;
    int32_t tenant;
    struct uuid id;
    struct arena arena; /* the job's texts */
    struct job job;
    int64_t version;    /* of its record, as far as we know; 0: not read yet */
    struct uuid cursor; /* as the record has it */
    bool over;          /* nothing is left to do here: it has ended, or is another node's */

    pthread_mutex_t lock; /* over what follows, and the job's counts */
    struct uuid page[PAGE_MAX];
    size_t page_count, asked, answered;
};

static route_handler turn;

static void run_free(struct job_run *run)
{
    request_free(run->carrier);
    arena_release(&run->arena);
    pthread_mutex_destroy(&run->lock);
    free(run);
}

/* ---- the end of a turn ---- */

static void wake(struct timer *timer)
{
    struct job_run *run = container_of(timer, struct job_run, timer);
    if (api_server_begin_run(run->server)) /* else it goes on after the next start */
        request_later(run->carrier, turn);
}

static void turn_over(struct job_run *run, int64_t pause_ms)
{
    struct api_server *s = run->server;
    if (run->over) {
        pthread_mutex_lock(&s->lock);
        list_remove(&run->link);
        s->job_count--;
        pthread_mutex_unlock(&s->lock);
        run_free(run);
    } else {
        timers_add(s->timers, &run->timer, max_of(pause_ms, (int64_t)1));
    }
    api_server_end_run(s);
}

static enum handled leave(struct job_run *run)
{
    run->over = true;
    turn_over(run, 0);
    return HANDLED_LATER;
}

static void saved(struct job_run *run)
{
    const struct job *j = &run->job;
    run->version = run->carrier->job_change.ret_version;
    run->cursor = j->cursor;
    run->over = j->state != JOB_RUNNING;
    if (run->over)
        log_info("job_over", kv_uuid("job", run->id), kv_cstr("state", job_state_name(j->state)),
                 kv_i64("done", j->done), kv_i64("failed", j->failed));
}

/* The next turn reads what another has written meanwhile, or whether ours was written after all. */
static void save_done(struct op *op)
{
    struct job_run *run = request_finish_op(op)->context;
    bool outrun = op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND;
    if (op->rc == ERR_OK)
        saved(run);
    else if (!outrun)
        log_warn("job_save_failed", kv_uuid("job", run->id), kv_err(&op->error));
    turn_over(run, outrun ? 0 : op->rc ? TROUBLE_MS : job_pause_ms(&run->job, run->page_count));
}

static void save(struct job_run *run)
{
    struct request *q = run->carrier;
    struct jw w = respond_json(&q->response, 200); /* the doc stays in the response until it is written */
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
    request_submit(q, save_done);
}

static void finish(struct job_run *run, enum job_state state, struct str reason)
{
    run->job.state = state;
    run->job.reason = reason;
    run->job.finished_ms = clock_wall_ms(run->server->setup.clock);
    run->page_count = 0;
    save(run);
}

/* ---- a page ---- */

/* What a refusal says, for the list of what failed. */
static const char *detail_of(struct job_run *run, const struct request *child)
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

static void ask_for(struct job_run *run, struct uuid task);

/* The next task is taken under the same lock as the answer is counted: so long as one is outstanding, the run is ours. */
static void child_answered(struct request *child)
{
    struct job_run *run = child->context;
    pthread_mutex_lock(&run->lock);
    bool good = child->response.status < 400;
    job_count(&run->job, child->id, good ? NULL : detail_of(run, child));
    if (good && run->job.redrive && run->job.watched_count < JOB_WATCHED_MAX)
        run->job.watched[run->job.watched_count++] = child->id;
    run->answered++;
    bool over = run->answered == run->page_count, more = run->asked < run->page_count;
    struct uuid next = run->page[more ? run->asked : 0];
    run->asked += more;
    pthread_mutex_unlock(&run->lock);
    request_free(child);
    if (more)
        ask_for(run, next);
    if (over) {
        run->job.cursor = run->page[run->page_count - 1];
        save(run);
    }
}

/* Its own key: asked for again after a restart, it is answered again and not done again. */
static struct request *make_child(struct job_run *run, struct uuid task)
{
    char id[UUID_TEXT + 1], job[UUID_TEXT + 1], path[PATH_TEXT], key[PATH_TEXT];
    uuid_format(task, id);
    uuid_format(run->id, job);
    bool removes = run->job.action == ACTION_DELETE;
    snprintf(path, sizeof path, "/v1/tasks/%s%s%s", id, removes ? "" : "/",
             removes ? "" : action_name(run->job.action));
    snprintf(key, sizeof key, "job-%s", job);
    struct request *q = request_new_internal(run->server, removes ? HTTP_DELETE : HTTP_POST, path, run->tenant, key);
    q->context = run;
    q->on_answer = child_answered;
    return q;
}

static void ask_for(struct job_run *run, struct uuid task)
{
    request_later(make_child(run, task), request_run);
}

static void ask_page(struct job_run *run, const struct tasks *tasks)
{
    size_t n = min_of(tasks->n, (size_t)PAGE_MAX), first = min_of(n, (size_t)AT_ONCE);
    run->page_count = n;
    run->asked = first;
    run->answered = 0;
    for (size_t i = 0; i < n; i++)
        run->page[i] = tasks->v[i].id;
    for (size_t i = 0; i < first; i++)
        ask_for(run, tasks->v[i].id); /* once the last is asked for, the run may be another thread's */
}

/* ---- a turn ---- */

/* Another has written the record. If it is as far as we know, or as we are, nobody has worked on it but us: what we have done and not
 * saved stands, and the change is a user's. Else another node was faster, and ours is forgotten: it goes on from there. */
static enum err take_in(struct job_run *run, const struct catalog_entry *entry, struct error *e)
{
    struct job now;
    enum err rc = job_read(entry->doc, &run->carrier->arena, &now, e);
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

static enum err read_record(struct job_run *run, struct reader *r, struct error *e)
{
    char name[UUID_TEXT + 1];
    struct catalog_entry entry;
    uuid_format(run->id, name);
    enum err rc = reader_catalog_get(r, run->tenant, CATALOG_JOB, str_from(name), &run->carrier->arena, &entry, e);
    return rc || entry.version == run->version ? rc : take_in(run, &entry, e);
}

static void look_at_watched(struct job_run *run, struct reader *r)
{
    struct job *j = &run->job;
    size_t left = 0;
    for (size_t i = 0; i < j->watched_count; i++) {
        struct task t;
        struct error e;
        enum err rc = reader_get(r, run->tenant, j->watched[i], &run->carrier->arena, &t, &e);
        enum job_outcome outcome = rc == ERR_OK ? job_outcome_of(&t) : JOB_UNKNOWN;
        j->succeeded += outcome == JOB_SUCCEEDED;
        j->failed_again += outcome == JOB_FAILED_AGAIN;
        if (outcome == JOB_UNKNOWN && rc != ERR_NOT_FOUND)
            j->watched[left++] = j->watched[i];
    }
    j->watched_count = left;
}

static enum err list_page(struct job_run *run, struct reader *r, size_t n, struct task_page *ret, struct error *e)
{
    struct task_filter f;
    const struct job *j = &run->job;
    struct arena *a = &run->carrier->arena;
    enum err rc = job_filter(j, run->tenant, a, &f, e);
    if (rc)
        return rc;
    f.before = j->cursor;
    f.limit = n;
    return reader_list(r, &f, a, ret, e);
}

static void go_on(struct job_run *run, struct reader *r)
{
    struct error e = { 0 };
    struct task_page page = { 0 };
    look_at_watched(run, r);
    size_t n = job_allowance(&run->job);
    if (run->job.state != JOB_RUNNING) {
        finish(run, run->job.state, run->job.reason);
    } else if (n == 0) {
        turn_over(run, job_pause_ms(&run->job, 0));
    } else if (list_page(run, r, n, &page, &e)) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&e));
        turn_over(run, TROUBLE_MS);
    } else if (page.tasks.n == 0) {
        finish(run, JOB_DONE, (struct str){ 0 });
    } else {
        ask_page(run, &page.tasks);
    }
}

static enum handled step(struct request *q, struct reader *r)
{
    struct job_run *run = q->context;
    struct error e = { 0 };
    enum err rc = read_record(run, r, &e);
    if (rc == ERR_UNAVAILABLE) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&e));
        turn_over(run, TROUBLE_MS);
        return HANDLED_LATER;
    }
    if (rc && rc != ERR_NOT_FOUND)
        log_error("job_damaged", kv_uuid("job", run->id), kv_err(&e));
    if (rc || run->over)
        return leave(run);
    if (run->job.state != JOB_RUNNING)
        save(run); /* the last time failed */
    else if (run->job.cancelling)
        finish(run, JOB_CANCELLED, S("it was cancelled; what was done stays done"));
    else
        go_on(run, r);
    return HANDLED_LATER;
}

static void leased(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct job_run *run = q->context;
    if (op->rc) {
        log_warn("job_failed", kv_uuid("job", run->id), kv_err(&op->error));
        turn_over(run, TROUBLE_MS);
    } else if (q->write.lease.ret_held) {
        request_later(q, step);
    } else {
        leave(run);
    }
}

static enum handled turn(struct request *q, struct reader *r)
{
    struct job_run *run = q->context;
    arena_reset(&q->arena);
    run->page_count = 0;
    return run->server->job_watch ? job_lease(q, run->id, leased) : step(q, r);
}

/* ---- doors ---- */

static struct job_run *find_here(struct api_server *s, int32_t tenant, struct uuid id)
{
    list_each (&s->jobs, link) {
        struct job_run *run = container_of(link, struct job_run, link);
        if (run->tenant == tenant && uuid_eq(run->id, id))
            return run;
    }
    return NULL;
}

bool job_is_here(struct api_server *s, int32_t tenant, struct uuid id)
{
    pthread_mutex_lock(&s->lock);
    bool here = find_here(s, tenant, id);
    pthread_mutex_unlock(&s->lock);
    return here;
}

static struct job_run *run_new(struct api_server *s, int32_t tenant, struct uuid id)
{
    struct job_run *run = xnew(*run);
    run->server = s;
    run->tenant = tenant;
    run->id = id;
    run->timer.fire = wake;
    pthread_mutex_init(&run->lock, NULL);
    arena_init(&run->arena, ARENA_MAX);
    run->carrier = request_new_internal(s, HTTP_OTHER, "/job", tenant, NULL);
    run->carrier->context = run;
    return run;
}

/* Who asked for it and who found it may both come here. */
void job_start(struct api_server *s, int32_t tenant, struct uuid id)
{
    struct job_run *run = run_new(s, tenant, id);
    pthread_mutex_lock(&s->lock);
    bool here = find_here(s, tenant, id);
    if (!here) {
        list_push(&s->jobs, &run->link);
        s->job_count++;
    }
    pthread_mutex_unlock(&s->lock);
    if (here)
        run_free(run);
    else
        timers_add(s->timers, &run->timer, 1);
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
        run_free(run);
    }
}
