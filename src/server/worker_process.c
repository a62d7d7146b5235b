/* Threads: the loop thread is the caller of worker_process_run. I/O threads run requests to queue and events. The
 * health server's thread reads a few copied numbers under a lock (struct worker_process_shared). */
#include "server/worker_process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/server/health_server.h"
#include "base/log.h"
#include "base/thread_owner.h"
#include "core/time/offset.h"
#include "platform/async_io_threads.h"
#include "platform/clock_offset.h"
#include "platform/clock_system.h"
#include "platform/key_file.h"
#include "platform/machine.h"
#include "port/crypto.h"
#include "server/fleet_watch.h"
#include "server/settings/unverified_links.h"
#include "server/worker_room.h"

enum {
    MACHINE_MS = 500,     /* how old the figures of the machine may be */
    CONNECT_MIN_MS = 200, /* between two attempts to reach the queue at the start */
    CONNECT_MAX_MS = 2000,
    CONNECT_ARENA = 1 << 20,
    TAKE_LONGEST_US = 5000000, /* longest time from a take request to its answer */
    WATCH_MS = 500,
    REPORT_MS = 5000, /* after the drain deadline, to report the remaining outcomes */
    IDLE_MS = 1500,   /* how long a worker without tasks waits for the queue when it stops */
};

/* Copies for the health server's thread. */
struct worker_process_shared {
    pthread_mutex_t lock;
    struct machine machine;
    bool stopping;
};

struct worker_process {
    struct worker_process_setup setup;
    struct thread_owner loop_thread; /* taken while worker_process_run runs */
    struct clock *clock;             /* shows the queue's time once the first answer has come */
    struct offset offset;
    struct metrics *metrics;
    struct loop *loop;
    struct fleet fleet; /* owns each port until the I/O thread of that port takes it */
    struct async_io *async_io;
    struct runners runners;
    struct secrets secrets; /* n is 0: it has no key file */
    struct worker *worker;
    struct recent_fences *fences;
    struct transition_log *transitions;
    struct tracer *tracer; /* NULL: no spans are recorded */
    struct health_server *health_server;
    struct unverified_links unverified;
    struct uuid id;
    char name[PROCESS_NAME_TEXT];

    struct io_take first_take; /* takes no task; gets the queue's time */
    int64_t connect_ms;        /* pause before the next attempt */
    bool connecting;

    uv_signal_t signals[2];
    uv_timer_t deadline, again, watch;
    struct fleet_watch fleet_watch;
    bool handles_open, stopping, gave_up, unreported;
    bool left; /* it ended while requests to the queue or the events were under way */

    struct machine machine;
    enum worker_lack lack;
    int64_t measured_ms, cpu_us; /* of the last measurement */
    double cpu_used;             /* cores that this process used between the last two measurements */
    struct worker_process_shared shared;
};

static int64_t worker_process_steady_ms(void)
{
    return clock_steady_ms(clock_system());
}

/* ---- load of the machine ---- */

static void worker_process_measure_cpu(struct worker_process *p, int64_t now_ms)
{
    int64_t cpu_us = clock_cpu_us(getpid()), passed_ms = now_ms - p->measured_ms;
    if (p->measured_ms && passed_ms > 0)
        p->cpu_used = (double)(cpu_us - p->cpu_us) / (double)passed_ms / 1000;
    p->cpu_us = cpu_us;
}

static void worker_process_measure_machine(struct worker_process *p)
{
    int64_t now_ms = worker_process_steady_ms();
    if (p->measured_ms && now_ms < p->measured_ms + MACHINE_MS)
        return;
    worker_process_measure_cpu(p, now_ms);
    p->measured_ms = now_ms;
    machine_measure("", &p->machine);
    pthread_mutex_lock(&p->shared.lock);
    p->shared.machine = p->machine;
    pthread_mutex_unlock(&p->shared.lock);
}

static bool worker_process_may_take(void *context)
{
    struct worker_process *p = context;
    worker_process_measure_machine(p);
    enum worker_lack lack = worker_room_lack(&p->machine);
    if (lack && !p->lack)
        log_warn("worker_full", kv_cstr("of", worker_lack_name(lack)),
                 kv_i64("memory_used_mb", p->machine.memory_used_mb), kv_i64("memory_mb", p->machine.memory_mb),
                 kv_i64("load", (int64_t)p->machine.load));
    else if (!lack && p->lack)
        log_info("worker_has_room");
    p->lack = lack;
    return worker_room_may_take(lack, worker_running(p->worker));
}

/* ---- clock of the queue ---- */

/* The request was sent at an unknown time, at most TAKE_LONGEST_US ago. So only the lower bound of the offset is
 * exact, and only that is used. */
static void worker_process_on_queue_time(void *context, int64_t queue_us)
{
    struct worker_process *p = context;
    int64_t now_us = clock_steady_us(p->setup.clock);
    if (!queue_us)
        return;
    offset_add(&p->offset, now_us - TAKE_LONGEST_US, now_us, queue_us);
    struct offset_view v = offset_view(&p->offset, now_us);
    clock_correct(p->clock, v.low_us, 0);
}

/* ---- description, readiness and metrics ---- */

static void worker_process_write_list(struct jw *w, const char *name, const struct str *v, size_t n)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        jw_str(w, v[i]);
    jw_array_end(w);
}

static void worker_process_describe(void *context, struct jw *w)
{
    struct worker_process *p = context;
    const struct queue_filter *f = &p->setup.filter;
    worker_process_measure_machine(p);
    worker_process_write_list(w, "queues", f->queues, f->queue_count);
    worker_process_write_list(w, "tenants", f->tenants, f->tenant_count);
    worker_process_write_list(w, "labels", f->labels, f->label_count);
    jw_kv_i64(w, "priority_min", f->priority_min);
    jw_kv_i64(w, "priority_max", f->priority_max);
    jw_key(w, "cpu");
    jw_object(w);
    jw_kv_i64(w, "milli", p->setup.cpu_milli);
    jw_key(w, "used");
    jw_f64(w, p->cpu_used);
    jw_key(w, "load");
    jw_f64(w, p->machine.load);
    jw_object_end(w);
    jw_key(w, "memory");
    jw_object(w);
    jw_kv_i64(w, "mb", p->setup.memory_mb);
    jw_kv_i64(w, "machine_mb", p->machine.memory_mb);
    jw_kv_i64(w, "used_mb", p->machine.memory_used_mb);
    jw_object_end(w);
    if (p->lack)
        jw_kv_cstr(w, "full", worker_lack_name(p->lack));
}

static bool worker_process_is_ready(void *context, struct error *e)
{
    struct worker_process *p = context;
    pthread_mutex_lock(&p->shared.lock);
    bool stopping = p->shared.stopping;
    pthread_mutex_unlock(&p->shared.lock);
    struct async_io_health take, publish;
    async_io_threads_health(p->async_io, ASYNC_IO_TAKE, &take);
    async_io_threads_health(p->async_io, ASYNC_IO_PUBLISH, &publish);
    if (stopping)
        error_set(e, ERR_UNAVAILABLE, "the worker is shutting down");
    else if (!take.answered || take.down_ms)
        error_set(e, ERR_UNAVAILABLE, "the queue does not answer: %s", take.why.text);
    else if (publish.down_ms)
        error_set(e, ERR_UNAVAILABLE, "the events server does not answer: %s", publish.why.text);
    else
        return true;
    return false;
}

/* What concerns running. Outcomes are counted where they are settled, by the control nodes. */
static const enum metric worker_process_metrics[] = {
    METRIC_TASKS_HELD,    METRIC_TASKS_ASIDE,       METRIC_EXECUTION_DELAY,     METRIC_EXECUTION_TIME,
    METRIC_QUEUE_WAITING, METRIC_TASKS_PARKED,      METRIC_TASKS_RUNNING,       METRIC_WORKER_SLOTS,
    METRIC_UTILIZATION,   METRIC_TASKS_WITHOUT_KEY, METRIC_TRANSITIONS_DROPPED,
};

static void worker_process_print_metrics(void *context, bool exemplars, struct buf *out)
{
    struct worker_process *p = context;
    pthread_mutex_lock(&p->shared.lock);
    struct machine m = p->shared.machine;
    pthread_mutex_unlock(&p->shared.lock);
    if (exemplars)
        metrics_print_some_exemplars(p->metrics, worker_process_metrics, array_count(worker_process_metrics), out);
    else
        metrics_print_some(p->metrics, worker_process_metrics, array_count(worker_process_metrics), out);
    unverified_links_print_metrics(&p->unverified, out);
    buf_printf(out,
               "# HELP belfry_machine_memory_bytes Memory of the machine, or of its control group\n"
               "# TYPE belfry_machine_memory_bytes gauge\nbelfry_machine_memory_bytes %lld\n"
               "# HELP belfry_machine_memory_used_bytes Used memory of the machine, or of its control group\n"
               "# TYPE belfry_machine_memory_used_bytes gauge\nbelfry_machine_memory_used_bytes %lld\n"
               "# HELP belfry_machine_load Load average of the last minute\n"
               "# TYPE belfry_machine_load gauge\nbelfry_machine_load %.2f\n",
               (long long)m.memory_mb << 20, (long long)m.memory_used_mb << 20, m.load);
}

static void worker_process_on_watch(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    fleet_watch_check(&p->fleet_watch);
}

/* ---- the loop ---- */

static void worker_process_close_handles(struct worker_process *p)
{
    if (!p->handles_open)
        return;
    for (size_t i = 0; i < array_count(p->signals); i++)
        uv_close((uv_handle_t *)&p->signals[i], NULL);
    uv_close((uv_handle_t *)&p->deadline, NULL);
    uv_close((uv_handle_t *)&p->again, NULL);
    uv_close((uv_handle_t *)&p->watch, NULL);
    p->handles_open = false;
}

static void worker_process_end(struct worker_process *p)
{
    worker_process_close_handles(p);
    loop_stop(p->loop);
}

static int64_t worker_process_on_step(void *context, struct moment now)
{
    struct worker_process *p = context;
    assert_owned(&p->loop_thread);
    if (p->handles_open && p->stopping && !p->worker && !p->connecting)
        worker_process_end(p);
    if (!p->worker || !p->handles_open)
        return INT64_MAX;
    int64_t wake_ms = worker_step(p->worker, now, clock_behind_ms(p->clock));
    transition_log_tick(p->transitions);
    if (p->stopping && worker_is_idle(p->worker))
        worker_process_end(p);
    return wake_ms;
}

/* The outcomes could not be reported in time. The process ends; the queue's delivery timeout reports the tasks as
 * lost. */
static void worker_process_on_report_deadline(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    log_error("left_unreported", kv_i64("outcomes", (int64_t)worker_unpublished(p->worker)),
              kv_i64("running", (int64_t)worker_running(p->worker)));
    p->unreported = true;
    worker_process_end(p);
}

static void worker_process_give_up(struct worker_process *p)
{
    if (p->gave_up || !p->worker)
        return;
    p->gave_up = true;
    worker_give_up(p->worker);
    uv_timer_start(&p->deadline, worker_process_on_report_deadline, REPORT_MS, 0);
}

static void worker_process_on_drain_deadline(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    log_warn("drain_deadline", kv_i64("running", (int64_t)worker_running(p->worker)));
    worker_process_give_up(p);
}

/* The queue or the events do not answer, and it has no task and no outcome: nobody loses anything if it ends. The nodes
 * find out by its silence. */
static void worker_process_on_idle_deadline(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    const struct worker *w = p->worker;
    if (w && worker_running(w) + worker_parked(w) + worker_unpublished(w) > 0)
        return;
    log_warn("left_without_answer", kv_i64("waited_ms", IDLE_MS));
    p->left = true;
    worker_process_end(p);
}

static void worker_process_on_signal(uv_signal_t *handle, int number)
{
    struct worker_process *p = handle->data;
    (void)number;
    assert_owned(&p->loop_thread);
    if (p->stopping) {
        worker_process_give_up(p); /* a second signal: do not wait for running tasks */
        return;
    }
    p->stopping = true;
    pthread_mutex_lock(&p->shared.lock);
    p->shared.stopping = true;
    pthread_mutex_unlock(&p->shared.lock);
    log_info("stopping", kv_i64("deadline_ms", p->setup.drain_ms));
    if (p->worker)
        worker_stop_taking(p->worker);
    uv_timer_start(&p->deadline, worker_process_on_drain_deadline, (uint64_t)p->setup.drain_ms, 0);
    uv_timer_start(&p->again, worker_process_on_idle_deadline, IDLE_MS, IDLE_MS);
}

static void worker_process_start_handles(struct worker_process *p)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    uv_loop_t *loop = loop_uv(p->loop);
    for (size_t i = 0; i < array_count(p->signals); i++) {
        uv_signal_init(loop, &p->signals[i]);
        p->signals[i].data = p;
        uv_signal_start(&p->signals[i], worker_process_on_signal, numbers[i]);
    }
    uv_timer_t *const timers[] = { &p->deadline, &p->again, &p->watch };
    for (size_t i = 0; i < array_count(timers); i++) {
        uv_timer_init(loop, timers[i]);
        timers[i]->data = p;
    }
    uv_timer_start(&p->watch, worker_process_on_watch, WATCH_MS, WATCH_MS);
    p->handles_open = true;
}

/* ---- start and stop ---- */

static struct uuid worker_process_new_id(struct clock *clock)
{
    struct uuid_gen ids;
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    uuid_gen_init(&ids, seed);
    return uuid_next(&ids, clock_wall_ms(clock));
}

/* Control nodes log how attempts end, when they settle them. */
static void worker_process_on_started(void *context, const struct task *t)
{
    struct worker_process *p = context;
    transition_log_started(p->transitions, t);
}

static void worker_process_make_worker(struct worker_process *p)
{
    p->fences = recent_fences_new();
    struct worker_setup setup = {
        .async_io = p->async_io,
        .clock = p->clock,
        .metrics = p->metrics,
        .tracer = p->tracer,
        .fences = p->fences,
        .id = p->id,
        .name = str_from(p->name),
        .version = S(BELFRY_VERSION),
        .slots = p->setup.slots,
        .visibility_ms = p->setup.visibility_ms,
        .filter = &p->setup.filter,
        .cpu_milli = p->setup.cpu_milli,
        .memory_mb = p->setup.memory_mb,
        .fleet = true,
        .describe = worker_process_describe,
        .may_take = worker_process_may_take,
        .started = worker_process_on_started,
        .queue_time = worker_process_on_queue_time,
        .context = p,
    };
    memcpy(setup.runners, p->runners.v, sizeof setup.runners);
    crypto_random(&setup.hash, sizeof setup.hash);
    p->worker = worker_new(&setup);
}

/* The worker starts after the queue has told its time, so that it never mixes that with the time of this machine. */
static void worker_process_connect(struct worker_process *p);

static void worker_process_on_retry(uv_timer_t *timer)
{
    worker_process_connect(timer->data);
}

static void worker_process_on_connected(struct io_request *e)
{
    struct worker_process *p = e->context;
    struct taken taken = p->first_take.ret;
    arena_release(&p->first_take.arena);
    p->connecting = false;
    if (p->stopping)
        return;
    if (e->rc) {
        p->connect_ms = p->connect_ms ? min_of(2 * p->connect_ms, (int64_t)CONNECT_MAX_MS) : CONNECT_MIN_MS;
        uv_timer_start(&p->again, worker_process_on_retry, (uint64_t)p->connect_ms, 0);
        return;
    }
    worker_process_on_queue_time(p, taken.queue_us);
    worker_process_make_worker(p);
    log_info("worker_ready", kv_cstr("name", p->name), kv_i64("slots", (int64_t)p->setup.slots));
}

static void worker_process_connect(struct worker_process *p)
{
    p->first_take =
        (struct io_take){ .io_request = { .kind = IO_TAKE, .done = worker_process_on_connected, .context = p },
                          .ask = { .now_ms = clock_wall_ms(p->clock),
                                   .visibility_ms = p->setup.visibility_ms,
                                   .worker = p->id,
                                   .cpu_milli = -1,
                                   .memory_mb = -1 } };
    arena_init(&p->first_take.arena, CONNECT_ARENA);
    p->connecting = true;
    async_io_submit(p->async_io, &p->first_take.io_request);
}

static enum err worker_process_start_health_server(struct worker_process *p, struct error *e)
{
    struct health_server_setup setup = { .listen = p->setup.listen,
                                         .clock = clock_system(),
                                         .ready = worker_process_is_ready,
                                         .metrics = worker_process_print_metrics,
                                         .context = p };
    return p->setup.listen ? health_server_new(&setup, &p->health_server, e) : ERR_OK;
}

static enum err worker_process_assemble(struct worker_process *p, struct error *e)
{
    process_prepare();
    process_share_descriptors(p->setup.slots, 0);
    process_name(p->name);
    p->id = worker_process_new_id(p->clock);
    worker_process_measure_machine(p);
    p->transitions = transition_log_new(&(struct transition_log_setup){
        .which = p->setup.transitions, .node = str_from(p->name), .clock = p->clock, .metrics = p->metrics });
    if (!p->setup.cpu_milli)
        p->setup.cpu_milli = p->machine.cpu_milli;
    if (!p->setup.memory_mb)
        p->setup.memory_mb = p->machine.memory_mb;
    struct loop_setup loop = { .clock = p->clock, .step = worker_process_on_step, .context = p };
    struct fleet_setup fleet = { .urls = p->setup.fleet, .filter = &p->setup.filter };
    if (process_open_tracer(&p->setup.trace, p->setup.ca_file, p->metrics, &p->tracer, e))
        return e->code;
    if ((p->setup.key_file && key_file_load(p->setup.key_file, &p->secrets, e)) || fleet_open(&fleet, &p->fleet, e) ||
        loop_new(&loop, &p->loop, e))
        return e->code;
    struct runners_setup runners = { .loop = loop_uv(p->loop),
                                     .clock = p->clock,
                                     .slots = p->setup.slots,
                                     .tenant_connections = p->setup.tenant_connections,
                                     .guard = p->setup.guard,
                                     .ca_file = p->setup.ca_file,
                                     .brokers = p->setup.brokers,
                                     .secrets = p->secrets.n ? &p->secrets : NULL,
                                     .sends_tracestate = p->setup.trace.sends_state };
    if (runners_open(&runners, &p->runners, e) || fleet_start_threads(&p->fleet, p->loop, &p->async_io, e))
        return e->code;
    p->fleet_watch.async_io = p->async_io;
    worker_process_start_handles(p);
    worker_process_connect(p);
    return worker_process_start_health_server(p, e);
}

enum err worker_process_new(const struct worker_process_setup *setup, struct worker_process **ret, struct error *e)
{
    struct worker_process *p = xnew(*p);
    struct error why = { 0 };
    p->setup = *setup;
    if (!p->setup.visibility_ms)
        p->setup.visibility_ms = WORKER_VISIBILITY_MS;
    p->clock = clock_offset_new(setup->clock);
    p->metrics = metrics_new();
    pthread_mutex_init(&p->shared.lock, NULL);
    unverified_links_add_fleet(&p->unverified, setup->fleet);
    unverified_links_add_brokers(&p->unverified, setup->brokers);
    unverified_links_warn(&p->unverified);
    if (worker_process_assemble(p, &why)) {
        worker_process_free(p);
        *e = why;
        return e->code;
    }
    *ret = p;
    return ERR_OK;
}

bool worker_process_run(struct worker_process *p)
{
    thread_owner_take(&p->loop_thread);
    loop_run(p->loop);
    thread_owner_drop(&p->loop_thread);
    return !p->unreported;
}

/* With unreported outcomes, or if it did not wait for an answer, requests and attempts are still under way and cannot
 * be ended: the exit of the process ends them. */
void worker_process_free(struct worker_process *p)
{
    if (!p || p->unreported || p->left)
        return;
    health_server_free(p->health_server);
    async_io_threads_free(p->async_io);
    fleet_release(&p->fleet);
    if (p->connecting)
        arena_release(&p->first_take.arena);
    if (p->loop)
        worker_process_close_handles(p);
    worker_free(p->worker);
    p->worker = NULL;
    recent_fences_free(p->fences);
    runners_free(&p->runners);
    loop_free(p->loop);
    tracer_free(p->tracer);
    transition_log_free(p->transitions);
    clock_offset_free(p->clock);
    metrics_free(p->metrics);
    pthread_mutex_destroy(&p->shared.lock);
    free(p);
}

uint16_t worker_process_port(const struct worker_process *p)
{
    return p->health_server ? health_server_port(p->health_server) : 0;
}

const char *worker_process_name(const struct worker_process *p)
{
    return p->name;
}
