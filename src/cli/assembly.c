/* Threads: the caller's is the loop's (scheduler, worker, updater, outgoing calls); the batcher's writes the store; HTTP and API
 * threads serve the API. They meet in two places only: operations go to the batcher, and calls go to the loop (loop_call). */
#include "cli/assembly.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/events_memory.h"
#include "adapter/queue_memory.h"
#include "adapter/runner_http.h"
#include "adapter/runner_noop.h"
#include "adapter/store_sqlite.h"
#include "base/log.h"
#include "cli/node_view.h"
#include "http/auth.h"
#include "port/crypto.h"

enum {
    PEPPER_SIZE = 32,
    SPAWN_AHEAD_MS = 10000,
    ARM_MIN_MS = 100,
    ARM_MAX_MS = 1000,
    POLL_MS = 10000, /* should a nudge be lost: what was committed and never answered has none */
    VISIBILITY_MS = 4000,
    QUEUE_TIMEOUT_MS =
        86400000, /* a call waits for its host as long as it takes: our limit is not the task's failure */
    LANES_ARENA = 16 << 20,
    ENTRY_ARENA = 16 << 20,
    NEWS_MIN = 16,
    QUEUE_NAME_MAX = 128,
};

struct news_item {
    struct task task; /* only what scheduler_nudge looks at */
    char queue[QUEUE_NAME_MAX];
};

struct news {
    struct call call;
    pthread_mutex_t lock; /* over what follows */
    bool posted;          /* the call is on its way */
    bool rules;           /* the book has changed */
    uint64_t woke;        /* lanes of those who go on */
    struct news_item *v;
    size_t n, cap;
};

struct assembly {
    struct assembly_setup setup;
    struct metrics *metrics;
    struct store *store;
    struct book *book;
    char last_name[CATALOG_NAME_MAX]; /* of the catalog's walk */
    struct batcher *batcher;
    struct loop *loop;
    struct queue *queue;
    struct events *events;
    struct runner *runner_http, *runner_noop;
    struct node *node;
    struct http_server *http;
    uint8_t pepper[PEPPER_SIZE];
    char name[HOST_NAME_MAX + 32];

    uv_signal_t signals[2];
    uv_timer_t deadline;
    struct upkeep upkeep;
    uv_work_t stop_http;
    bool handles, stopping, draining;
    struct call stop_call;
    struct news news;
    struct node_view *view;
};

/* ---- files of the data directory ---- */

static enum err write_secret(const char *path, const void *data, size_t n, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, data, n) == (ssize_t)n && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return ok ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "write '%s': %s", path, strerror(why));
}

/* The pepper is made once; without it no key opens anything, so a damaged one stops the start. */
static enum err load_pepper(struct assembly *a, struct error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pepper", a->setup.data_dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        crypto_random(a->pepper, sizeof a->pepper);
        return write_secret(path, a->pepper, sizeof a->pepper, e);
    }
    ssize_t n = fd < 0 ? -1 : read(fd, a->pepper, sizeof a->pepper);
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof a->pepper)
        return error_set(e, ERR_CORRUPT,
                         "'%s' is not what Belfry wrote there: restore it from a backup; without it no API key works",
                         path);
    return ERR_OK;
}

static struct str pepper_of(struct assembly *a)
{
    return (struct str){ (const char *)a->pepper, sizeof a->pepper };
}

static enum err first_key(struct assembly *a, char ret_key[ASSEMBLY_KEY_TEXT], struct error *e)
{
    char text[AUTH_KEY_TEXT + 1] = "", line[AUTH_KEY_TEXT + 2], path[PATH_MAX];
    if (auth_bootstrap(a->store, pepper_of(a), clock_wall_ms(a->setup.clock), text, e))
        return e->code;
    snprintf(ret_key, ASSEMBLY_KEY_TEXT, "%s", text);
    if (!text[0])
        return ERR_OK;
    snprintf(path, sizeof path, "%s/admin.key", a->setup.data_dir);
    int n = snprintf(line, sizeof line, "%s\n", text);
    return write_secret(path, line, (size_t)n, e);
}

/* ---- the loop's side ---- */

static void close_handles(struct assembly *a)
{
    if (!a->handles)
        return;
    for (size_t i = 0; i < array_count(a->signals); i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    uv_close((uv_handle_t *)&a->deadline, NULL);
    upkeep_close(&a->upkeep);
    a->handles = false;
}

static int64_t step(void *context, int64_t now_us)
{
    struct assembly *a = context;
    if (!a->node)
        return INT64_MAX;
    int64_t wake = node_step(a->node, now_us);
    node_view_update(a->view, a->node, now_us / 1000);
    if (a->draining && !a->upkeep.busy && node_is_idle(a->node)) {
        close_handles(a);
        loop_stop(a->loop);
    }
    return wake;
}

static void on_deadline(uv_timer_t *timer)
{
    struct assembly *a = timer->data;
    log_warn("drain_deadline", kv_i64("running", (int64_t)node_status(a->node).running));
    node_give_up(a->node);
}

static void http_stopped(uv_work_t *work, int status)
{
    (void)status;
    struct assembly *a = work->data;
    a->draining = true;
    node_drain(a->node);
    uv_timer_start(&a->deadline, on_deadline, (uint64_t)a->setup.drain_ms, 0);
}

/* Blocks until the last request was answered, some of which wait for the loop: so not on the loop's thread. */
static void stop_http(uv_work_t *work)
{
    struct assembly *a = work->data;
    if (a->http)
        http_server_stop(a->http);
}

static void stop(struct assembly *a)
{
    if (a->stopping) {
        if (a->draining)
            node_give_up(a->node); /* asked twice: at once, then */
        return;
    }
    a->stopping = true;
    upkeep_stop(&a->upkeep);
    log_info("stopping", kv_i64("deadline_ms", a->setup.drain_ms));
    a->stop_http.data = a;
    uv_queue_work(loop_uv(a->loop), &a->stop_http, stop_http, http_stopped);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    stop(handle->data);
}

static void on_stop_call(struct call *c)
{
    stop(c->context);
}

void assembly_stop(struct assembly *a)
{
    loop_call(a->loop, &a->stop_call);
}

/* ---- from other threads to the node ---- */

/* The earliest time that matters of each lane among tasks written since the loop last looked. Many writes are one call. */
static bool joins(struct news_item *item, const struct task *t)
{
    struct task *known = &item->task;
    known->queue.p = item->queue; /* items move when there are more of them */
    bool recurring = t->kind == TASK_RECURRING;
    if ((known->kind == TASK_RECURRING) != recurring)
        return false;
    if (recurring) {
        known->cursor_ms = min_of(known->cursor_ms, t->cursor_ms);
        return true;
    }
    if (known->tenant != t->tenant || task_is_suspect(known) != task_is_suspect(t) ||
        priority_class_of(known->priority) != priority_class_of(t->priority) || !str_eq(known->queue, t->queue))
        return false;
    known->due_ms = min_of(known->due_ms, t->due_ms);
    return true;
}

static void add_news(struct news *n, const struct task *t)
{
    for (size_t i = n->n; i > 0; i--)
        if (joins(&n->v[i - 1], t))
            return;
    if (n->n == n->cap) {
        n->cap = max_of(n->cap * 2, (size_t)NEWS_MIN);
        n->v = xrealloc(n->v, n->cap * sizeof *n->v);
    }
    struct news_item *item = &n->v[n->n++];
    assert(t->queue.n <= sizeof item->queue);
    memcpy(item->queue, t->queue.p, t->queue.n);
    item->task = (struct task){ .kind = t->kind,
                                .state = t->state,
                                .tenant = t->tenant,
                                .priority = t->priority,
                                .losses = t->losses,
                                .due_ms = t->due_ms,
                                .cursor_ms = t->cursor_ms,
                                .queue.n = t->queue.n };
}

static void hear_news(struct call *c)
{
    struct assembly *a = c->context;
    struct news *n = &a->news;
    pthread_mutex_lock(&n->lock);
    n->posted = false;
    for (size_t i = 0; i < n->n && !a->draining; i++) {
        n->v[i].task.queue.p = n->v[i].queue;
        node_nudge(a->node, &n->v[i].task, 1, clock_wall_ms(a->setup.clock));
    }
    n->n = 0;
    if (n->woke && !a->draining)
        node_woke(a->node, n->woke);
    if (n->rules && !a->draining)
        node_rules_changed(a->node, clock_wall_ms(a->setup.clock));
    n->woke = 0;
    n->rules = false;
    pthread_mutex_unlock(&n->lock);
}

/* Under the lock: whether the call is to be made. */
static bool is_to_be_posted(struct news *n)
{
    bool post = !n->posted && (n->n > 0 || n->woke || n->rules);
    n->posted = n->posted || post;
    return post;
}

static void woke(void *context, uint64_t lanes)
{
    struct assembly *a = context;
    pthread_mutex_lock(&a->news.lock);
    a->news.woke |= lanes;
    bool post = is_to_be_posted(&a->news);
    pthread_mutex_unlock(&a->news.lock);
    if (post)
        loop_call(a->loop, &a->news.call);
}

void assembly_rules_changed(struct assembly *a)
{
    pthread_mutex_lock(&a->news.lock);
    a->news.rules = true;
    bool post = is_to_be_posted(&a->news);
    pthread_mutex_unlock(&a->news.lock);
    if (post)
        loop_call(a->loop, &a->news.call);
}

void assembly_nudge(struct assembly *a, const struct task *tasks, size_t count)
{
    struct news *n = &a->news;
    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < count; i++)
        if (tasks[i].state == TASK_SCHEDULED)
            add_news(n, &tasks[i]);
    bool post = is_to_be_posted(n);
    pthread_mutex_unlock(&n->lock);
    if (post)
        loop_call(a->loop, &n->call);
}

static void nudge(void *context, const struct task *tasks, size_t n)
{
    assembly_nudge(context, tasks, n);
}

struct recalling {
    struct call call;
    struct recall recall;
    struct recall_answer *answer;
    struct assembly *assembly;
};

static void recalled(struct recall *r)
{
    struct recalling *c = container_of(r, struct recalling, recall);
    if (r->result == RECALL_DONE)
        node_nudge(c->assembly->node, r->replace, 1, clock_wall_ms(c->assembly->setup.clock));
    c->answer->result = r->result;
    c->answer->known = r->known;
    c->answer->done(c->answer);
    free(c);
}

static void recall_on_loop(struct call *call)
{
    struct recalling *c = container_of(call, struct recalling, call);
    if (atomic_load(&c->answer->given_up)) {
        c->recall.result = RECALL_RUNNING;
        recalled(&c->recall);
        return;
    }
    node_recall(c->assembly->node, &c->recall);
}

static void recall(void *context, const struct recall_wish *wish, struct recall_answer *answer)
{
    struct assembly *a = context;
    struct recalling *c = xnew(*c);
    c->assembly = a;
    c->answer = answer;
    c->call.fn = recall_on_loop;
    c->recall = (struct recall){
        .running = wish->running,
        .replace = wish->replace,
        .idempotency = wish->record,
        .abort = wish->abort,
        .done = recalled,
    };
    loop_call(a->loop, &c->call);
}

struct explaining {
    struct call call;
    struct assembly *assembly;
    const struct task *task;
    struct explain_answer *answer;
};

static void explain_on_loop(struct call *call)
{
    struct explaining *x = container_of(call, struct explaining, call);
    node_explain(x->assembly->node, x->task, clock_wall_ms(x->assembly->setup.clock), &x->answer->explanation);
    x->answer->done(x->answer);
    free(x);
}

static void explain_task(void *context, const struct task *t, struct explain_answer *answer)
{
    struct explaining *x = xnew(*x);
    x->assembly = context;
    x->task = t;
    x->answer = answer;
    x->call.fn = explain_on_loop;
    loop_call(x->assembly->loop, &x->call);
}

/* How queues stand, as the loop knows it. */
struct asking {
    struct call call;
    struct assembly *assembly;
    struct queues_answer *answer;
};

static void answer_on_loop(struct call *call)
{
    struct asking *c = container_of(call, struct asking, call);
    struct queues_answer *answer = c->answer;
    for (size_t i = 0; i < answer->n; i++)
        node_queue(c->assembly->node, answer->tenant, clock_wall_ms(c->assembly->setup.clock), &answer->v[i]);
    free(c);
    answer->done(answer);
}

static void ask_queues(void *context, struct queues_answer *answer)
{
    struct assembly *a = context;
    struct asking *c = xnew(*c);
    c->assembly = a;
    c->answer = answer;
    c->call.fn = answer_on_loop;
    loop_call(a->loop, &c->call);
}

static void catalog_changed(void *context)
{
    assembly_rules_changed(context);
}

/* ---- what the API tells of the node ---- */

static void kv_time_or_null(struct jw *w, const char *name, int64_t ms)
{
    if (ms > 0 && ms < INT64_MAX)
        jw_kv_time(w, name, ms);
    else
        jw_kv_cstr(w, name, NULL);
}

static void write_status(void *context, struct jw *w)
{
    struct assembly *a = context;
    struct node_status s = node_view_status(a->view);
    char id[UUID_TEXT + 1];
    uuid_format(s.id, id);
    jw_key(w, "node");
    jw_object(w);
    jw_kv_cstr(w, "id", id);
    jw_kv_cstr(w, "name", a->name);
    jw_kv_bool(w, "recovering", s.recovering);
    jw_kv_bool(w, "draining", s.draining);
    jw_kv_i64(w, "lanes", (int64_t)s.scheduler.lanes);
    jw_kv_i64(w, "armed", (int64_t)s.scheduler.armed);
    jw_kv_i64(w, "queued", (int64_t)s.queued);
    jw_kv_i64(w, "running", (int64_t)s.running);
    jw_kv_i64(w, "slots", (int64_t)a->setup.slots);
    jw_kv_i64(w, "arm_window_ms", s.scheduler.window_ms);
    kv_time_or_null(w, "last_claim_at", s.scheduler.last_claim_ms);
    kv_time_or_null(w, "next_claim_at", s.scheduler.next_claim_ms);
    kv_time_or_null(w, "next_spawn_at", s.scheduler.next_spawn_ms);
    jw_key(w, "breakers");
    node_view_breakers(a->view, w);
    jw_object_end(w);
}

static void write_metrics(void *context, struct buf *out)
{
    struct assembly *a = context;
    node_view_metrics(a->view, clock_wall_ms(a->setup.clock), out);
}

static bool is_ready(void *context, struct error *e)
{
    struct assembly *a = context;
    struct node_status s = node_view_status(a->view);
    if (s.draining)
        error_set(e, ERR_UNAVAILABLE, "it is shutting down");
    return !s.draining;
}

/* ---- beginning and end ---- */

/* Thousands of calls at once are thousands of descriptors. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Batches come and go in pieces of a megabyte. Left to itself malloc maps and unmaps each, and the kernel clears every page
 * anew: a tenth of the time of a create. */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

static enum err know_lanes(struct assembly *a, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct reader *r = NULL;
    struct lane *lanes = NULL;
    size_t n = 0;
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = reader_lanes(r, &arena, &lanes, &n, e);
    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        node_know_lane(a->node, lanes[i]);
    reader_free(r);
    return rc;
}

/* An entry that can not be read is left out and said so: all else works on, and who needs it is told that it is not there. */
static enum err read_kind(struct assembly *a, struct reader *r, enum catalog_kind kind, struct error *e)
{
    struct catalog_filter f = { .kind = kind, .all_tenants = true, .limit = 1 };
    for (bool more = true; more;) {
        cleanup_with(arena_release) struct arena arena;
        arena_init(&arena, ENTRY_ARENA);
        struct catalog_page page = { 0 };
        struct error why = { 0 };
        if (reader_catalog_list(r, &f, &arena, &page, e))
            return e->code;
        more = page.entries.n > 0;
        if (!more)
            break;
        const struct catalog_entry *entry = &page.entries.v[0];
        if (book_put(a->book, entry, &why))
            log_error("catalog_unreadable", kv_str("name", entry->name), kv_i64("tenant", entry->tenant), kv_err(&why));
        f.after_tenant = entry->tenant;
        f.after = (struct str){ a->last_name, entry->name.n };
        memcpy(a->last_name, entry->name.p, entry->name.n);
    }
    return ERR_OK;
}

static enum err fill_book(struct assembly *a, struct error *e)
{
    static const enum catalog_kind kinds[] = { CATALOG_TENANT, CATALOG_QUEUE, CATALOG_CALENDAR };
    struct reader *r = NULL;
    a->book = book_new();
    enum err rc = store_reader(a->store, &r, e);
    for (size_t i = 0; rc == ERR_OK && i < array_count(kinds); i++)
        rc = read_kind(a, r, kinds[i], e);
    reader_free(r);
    return rc;
}

static void make_node(struct assembly *a)
{
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    snprintf(a->name, sizeof a->name, "%s:%d", host, (int)getpid());
    struct node_setup setup = {
        .writer = loop_writer(a->loop),
        .queue = a->queue,
        .events = a->events,
        .zones = a->setup.zones,
        .book = a->book,
        .metrics = a->metrics,
        .runners = { [TARGET_HTTP] = a->runner_http, [TARGET_NOOP] = a->runner_noop },
        .name = str_from(a->name),
        .seed = seed,
        .slots = a->setup.slots,
        .spawn_ahead_ms = SPAWN_AHEAD_MS,
        .arm_min_ms = ARM_MIN_MS,
        .arm_max_ms = ARM_MAX_MS,
        .poll_ms = POLL_MS,
        .visibility_ms = VISIBILITY_MS,
        .observe = a->setup.observe,
        .observe_context = a->setup.observe_context,
    };
    a->node = node_new(&setup, clock_wall_ms(a->setup.clock));
}

static void watch(struct assembly *a)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    uv_loop_t *loop = loop_uv(a->loop);
    for (size_t i = 0; i < array_count(a->signals); i++) {
        uv_signal_init(loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
    uv_timer_init(loop, &a->deadline);
    a->deadline.data = a;
    upkeep_start(&a->upkeep, loop, loop_writer(a->loop), a->setup.clock, a->metrics, &a->setup.retention);
    a->handles = true;
}

static enum err make_runners(struct assembly *a, struct error *e)
{
    struct runner_http_setup setup = RUNNER_HTTP_SETUP;
    setup.in_flight_max = a->setup.slots;
    setup.queue_timeout_ms = QUEUE_TIMEOUT_MS;
    setup.allow_loopback = a->setup.allow_loopback;
    setup.ca_file = a->setup.ca_file;
    a->runner_noop = runner_noop_new(a->setup.clock);
    a->runner_http = runner_http_new(loop_uv(a->loop), a->setup.clock, &setup, e);
    return a->runner_http ? ERR_OK : e->code;
}

static enum err serve_http(struct assembly *a, struct error *e)
{
    if (!a->setup.listen)
        return ERR_OK;
    struct http_setup setup = {
        .listen = a->setup.listen,
        .store = a->store,
        .writer = batcher_writer(a->batcher),
        .clock = a->setup.clock,
        .zones = a->setup.zones,
        .book = a->book,
        .metrics = a->metrics,
        .pepper = pepper_of(a),
        .require_idempotency_key = a->setup.require_idempotency_key,
        .context = a,
        .nudge = nudge,
        .recall = recall,
        .explain = explain_task,
        .status = write_status,
        .metrics_more = write_metrics,
        .ready = is_ready,
        .catalog_changed = catalog_changed,
        .queues = ask_queues,
    };
    return http_server_new(&setup, &a->http, e);
}

static enum err assemble(struct assembly *a, char ret_key[ASSEMBLY_KEY_TEXT], struct error *e)
{
    raise_descriptor_limit();
    keep_freed_memory();
    a->metrics = metrics_new();
    a->queue = queue_memory_new();
    a->events = events_memory_new();
    if (store_sqlite_open_at(a->setup.data_dir, clock_wall_ms(a->setup.clock), &a->store, e) || load_pepper(a, e) ||
        first_key(a, ret_key, e) || fill_book(a, e))
        return e->code;
    a->batcher = batcher_new(a->store, a->metrics, a->setup.clock);
    batcher_watch(a->batcher, woke, a);
    struct loop_setup loop = {
        .clock = a->setup.clock, .writer = batcher_writer(a->batcher), .step = step, .context = a
    };
    if (loop_new(&loop, &a->loop, e) || make_runners(a, e))
        return e->code;
    make_node(a);
    watch(a);
    a->stop_call = (struct call){ .fn = on_stop_call, .context = a };
    return know_lanes(a, e) ? e->code : serve_http(a, e);
}

enum err assembly_new(const struct assembly_setup *setup, char ret_key[ASSEMBLY_KEY_TEXT], struct assembly **ret,
                      struct error *e)
{
    struct assembly *a = xnew(*a);
    struct error why = { 0 };
    a->setup = *setup;
    a->view = node_view_new();
    pthread_mutex_init(&a->news.lock, NULL);
    a->news.call = (struct call){ .fn = hear_news, .context = a };
    ret_key[0] = '\0';
    enum err rc = assemble(a, ret_key, &why);
    if (rc) {
        assembly_free(a);
        if (e)
            *e = why;
        return rc;
    }
    *ret = a;
    return ERR_OK;
}

void assembly_run(struct assembly *a)
{
    loop_run(a->loop);
}

void assembly_free(struct assembly *a)
{
    if (!a)
        return;
    http_server_free(a->http);
    if (a->loop)
        close_handles(a);
    node_free(a->node);
    a->node = NULL;
    runner_free(a->runner_http);
    runner_free(a->runner_noop);
    batcher_free(a->batcher);
    loop_free(a->loop);
    queue_free(a->queue);
    events_free(a->events);
    store_free(a->store);
    book_free(a->book);
    metrics_free(a->metrics);
    node_view_free(a->view);
    pthread_mutex_destroy(&a->news.lock);
    free(a->news.v);
    free(a);
}

uint16_t assembly_port(const struct assembly *a)
{
    return a->http ? http_server_port(a->http) : 0;
}
