/* Threads: the caller's is the loop's; the courier's carry errands; that of the vitals sees copies of a few numbers under a lock. */
#include "server/worker_process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/server/health_server.h"
#include "base/log.h"
#include "core/time/offset.h"
#include "platform/async_io_threads.h"
#include "platform/clock_offset.h"
#include "platform/clock_system.h"
#include "platform/machine.h"
#include "port/crypto.h"
#include "server/fleet_watch.h"

enum {
    VISIBILITY_MS = 4000,
    LOOK_MS = 500,      /* how old what is known of the machine may be */
    GREET_MIN_MS = 200, /* between two tries to reach a queue that is not there yet */
    GREET_MAX_MS = 2000,
    GREET_ARENA = 1 << 20,
    TAKE_LONGEST_US = 5000000, /* from asking for a take to its answer */
    WATCH_MS = 500,
    LAST_WORDS_MS = 5000, /* behind the deadline of a drain, for what remains to be reported */
};

/* For other threads. */
struct seen {
    pthread_mutex_t lock;
    struct machine machine;
    bool stopping;
};

struct worker_process {
    struct worker_process_setup setup;
    struct clock *clock; /* the queue's time, once that is known */
    struct offset offset;
    struct metrics *metrics;
    struct loop *loop;
    struct fleet fleet; /* until the courier has taken it */
    struct async_io *async_io;
    struct runners runners;
    struct worker *worker;
    struct health_server *health_server;
    struct uuid id;
    char name[PROCESS_NAME_TEXT];

    struct io_take greeting; /* asks for nothing but the time */
    int64_t greet_ms;        /* how long to wait for the next */
    bool greeting_now;

    uv_signal_t signals[2];
    uv_timer_t deadline, again, watch;
    struct fleet_watch fleet_watch;
    bool handles, stopping, gave_up, left_behind;

    struct machine machine;
    const char *full; /* of what; NULL: there is room */
    int64_t looked_ms, cpu_us;
    double cpu_used; /* cores that this process was on, lately */
    struct seen seen;
};

static int64_t steady_ms(void)
{
    return clock_steady_ms(clock_system());
}

/* ---- the machine ---- */

static void measure_cpu(struct worker_process *p, int64_t now_ms)
{
    int64_t cpu_us = clock_cpu_us(getpid()), passed_ms = now_ms - p->looked_ms;
    if (p->looked_ms && passed_ms > 0)
        p->cpu_used = (double)(cpu_us - p->cpu_us) / (double)passed_ms / 1000;
    p->cpu_us = cpu_us;
}

static void look_at_machine(struct worker_process *p)
{
    int64_t now_ms = steady_ms();
    if (p->looked_ms && now_ms < p->looked_ms + LOOK_MS)
        return;
    measure_cpu(p, now_ms);
    p->looked_ms = now_ms;
    machine_look("", &p->machine);
    pthread_mutex_lock(&p->seen.lock);
    p->seen.machine = p->machine;
    pthread_mutex_unlock(&p->seen.lock);
}

/* A machine that others keep busy still runs one at a time: better late than never. One without memory runs none. */
static bool may_take(void *context)
{
    struct worker_process *p = context;
    look_at_machine(p);
    const char *full = machine_is_full(&p->machine);
    if (full && !p->full)
        log_warn("worker_full", kv_str("of", str_from(full)), kv_i64("memory_used_mb", p->machine.memory_used_mb),
                 kv_i64("memory_mb", p->machine.memory_mb), kv_i64("load", (int64_t)p->machine.load));
    else if (!full && p->full)
        log_info("worker_has_room");
    p->full = full;
    return !full || (full[0] == 'l' && worker_running(p->worker) == 0);
}

/* ---- the queue's time ---- */

/* When it was asked is not known; not longer ago than a take takes. So only the lower bound is sharp, and that is what counts. */
static void queue_time(void *context, int64_t queue_us)
{
    struct worker_process *p = context;
    int64_t now_us = clock_steady_us(p->setup.clock);
    if (!queue_us)
        return;
    offset_add(&p->offset, now_us - TAKE_LONGEST_US, now_us, queue_us);
    struct offset_view v = offset_view(&p->offset, now_us);
    clock_correct(p->clock, v.low_us, 0);
}

/* ---- what it says of itself ---- */

static void write_words(struct jw *w, const char *name, const struct str *v, size_t n)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        jw_str(w, v[i]);
    jw_array_end(w);
}

static void describe(void *context, struct jw *w)
{
    struct worker_process *p = context;
    const struct queue_filter *f = &p->setup.filter;
    look_at_machine(p);
    write_words(w, "queues", f->queues, f->queue_count);
    write_words(w, "tenants", f->tenants, f->tenant_count);
    write_words(w, "labels", f->labels, f->label_count);
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
    if (p->full)
        jw_kv_cstr(w, "full", p->full);
}

static bool is_ready(void *context, struct error *e)
{
    struct worker_process *p = context;
    pthread_mutex_lock(&p->seen.lock);
    bool stopping = p->seen.stopping;
    pthread_mutex_unlock(&p->seen.lock);
    struct async_io_health take, publish;
    async_io_threads_health(p->async_io, ASYNC_IO_TAKE, &take);
    async_io_threads_health(p->async_io, ASYNC_IO_PUBLISH, &publish);
    if (stopping)
        error_set(e, ERR_UNAVAILABLE, "it is shutting down");
    else if (!take.answered || take.down_ms)
        error_set(e, ERR_UNAVAILABLE, "the queue does not answer: %s", take.why.text);
    else if (publish.down_ms)
        error_set(e, ERR_UNAVAILABLE, "the events do not answer: %s", publish.why.text);
    else
        return true;
    return false;
}

static void print_metrics(void *context, struct buf *out)
{
    struct worker_process *p = context;
    pthread_mutex_lock(&p->seen.lock);
    struct machine m = p->seen.machine;
    pthread_mutex_unlock(&p->seen.lock);
    metrics_print(p->metrics, out);
    buf_printf(out,
               "# HELP belfry_machine_memory_bytes Memory of the machine, or of its control group\n"
               "# TYPE belfry_machine_memory_bytes gauge\nbelfry_machine_memory_bytes %lld\n"
               "# HELP belfry_machine_memory_used_bytes Of that, what is in use\n"
               "# TYPE belfry_machine_memory_used_bytes gauge\nbelfry_machine_memory_used_bytes %lld\n"
               "# HELP belfry_machine_load How many wanted a core, over the last minute\n"
               "# TYPE belfry_machine_load gauge\nbelfry_machine_load %.2f\n",
               (long long)m.memory_mb << 20, (long long)m.memory_used_mb << 20, m.load);
}

static void on_watch(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    fleet_watch_look(&p->fleet_watch);
}

/* ---- the loop ---- */

static void close_handles(struct worker_process *p)
{
    if (!p->handles)
        return;
    for (size_t i = 0; i < array_count(p->signals); i++)
        uv_close((uv_handle_t *)&p->signals[i], NULL);
    uv_close((uv_handle_t *)&p->deadline, NULL);
    uv_close((uv_handle_t *)&p->again, NULL);
    uv_close((uv_handle_t *)&p->watch, NULL);
    p->handles = false;
}

static void end(struct worker_process *p)
{
    close_handles(p);
    loop_stop(p->loop);
}

static int64_t step(void *context, struct moment now)
{
    struct worker_process *p = context;
    if (p->handles && p->stopping && !p->worker && !p->greeting_now)
        end(p);
    if (!p->worker || !p->handles)
        return INT64_MAX;
    int64_t wake_ms = worker_step(p->worker, now, clock_behind_ms(p->clock));
    if (p->stopping && worker_is_idle(p->worker))
        end(p);
    return wake_ms;
}

/* Nobody takes what it has to say: the queue will notice that it is gone. */
static void on_silence(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    log_error("left_unreported", kv_i64("outcomes", (int64_t)worker_unpublished(p->worker)),
              kv_i64("running", (int64_t)worker_running(p->worker)));
    p->left_behind = true;
    end(p);
}

static void give_up(struct worker_process *p)
{
    if (p->gave_up || !p->worker)
        return;
    p->gave_up = true;
    worker_give_up(p->worker);
    uv_timer_start(&p->deadline, on_silence, LAST_WORDS_MS, 0);
}

static void on_deadline(uv_timer_t *timer)
{
    struct worker_process *p = timer->data;
    log_warn("drain_deadline", kv_i64("running", (int64_t)worker_running(p->worker)));
    give_up(p);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct worker_process *p = handle->data;
    (void)number;
    if (p->stopping) {
        give_up(p); /* asked twice: at once, then */
        return;
    }
    p->stopping = true;
    pthread_mutex_lock(&p->seen.lock);
    p->seen.stopping = true;
    pthread_mutex_unlock(&p->seen.lock);
    log_info("stopping", kv_i64("deadline_ms", p->setup.drain_ms));
    if (p->worker)
        worker_stop_taking(p->worker);
    uv_timer_start(&p->deadline, on_deadline, (uint64_t)p->setup.drain_ms, 0);
}

static void watch(struct worker_process *p)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    uv_loop_t *loop = loop_uv(p->loop);
    for (size_t i = 0; i < array_count(p->signals); i++) {
        uv_signal_init(loop, &p->signals[i]);
        p->signals[i].data = p;
        uv_signal_start(&p->signals[i], on_signal, numbers[i]);
    }
    uv_timer_t *const timers[] = { &p->deadline, &p->again, &p->watch };
    for (size_t i = 0; i < array_count(timers); i++) {
        uv_timer_init(loop, timers[i]);
        timers[i]->data = p;
    }
    uv_timer_start(&p->watch, on_watch, WATCH_MS, WATCH_MS);
    p->handles = true;
}

/* ---- beginning and end ---- */

static struct uuid new_id(struct clock *clock)
{
    struct uuid_gen ids;
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    uuid_gen_init(&ids, seed);
    return uuid_next(&ids, clock_wall_ms(clock));
}

static void make_worker(struct worker_process *p)
{
    struct worker_setup setup = {
        .async_io = p->async_io,
        .metrics = p->metrics,
        .id = p->id,
        .name = str_from(p->name),
        .version = S(BELFRY_VERSION),
        .slots = p->setup.slots,
        .visibility_ms = VISIBILITY_MS,
        .filter = &p->setup.filter,
        .cpu_milli = p->setup.cpu_milli,
        .memory_mb = p->setup.memory_mb,
        .fleet = true,
        .describe = describe,
        .may_take = may_take,
        .queue_time = queue_time,
        .context = p,
    };
    memcpy(setup.runners, p->runners.v, sizeof setup.runners);
    crypto_random(&setup.hash, sizeof setup.hash);
    p->worker = worker_new(&setup);
}

/* The queue says what time it is before the worker begins: no time of its own is ever mixed with that. */
static void greet(struct worker_process *p);

static void on_again(uv_timer_t *timer)
{
    greet(timer->data);
}

static void greeted(struct io_request *e)
{
    struct worker_process *p = e->context;
    struct taken taken = p->greeting.ret;
    arena_release(&p->greeting.arena);
    p->greeting_now = false;
    if (p->stopping)
        return;
    if (e->rc) {
        p->greet_ms = p->greet_ms ? min_of(2 * p->greet_ms, (int64_t)GREET_MAX_MS) : GREET_MIN_MS;
        uv_timer_start(&p->again, on_again, (uint64_t)p->greet_ms, 0);
        return;
    }
    queue_time(p, taken.queue_us);
    make_worker(p);
    log_info("worker_ready", kv_cstr("name", p->name), kv_i64("slots", (int64_t)p->setup.slots));
}

static void greet(struct worker_process *p)
{
    p->greeting = (struct io_take){ .io_request = { .kind = IO_TAKE, .done = greeted, .context = p },
                                    .ask = { .now_ms = clock_wall_ms(p->clock),
                                             .visibility_ms = VISIBILITY_MS,
                                             .worker = p->id,
                                             .cpu_milli = -1,
                                             .memory_mb = -1 } };
    arena_init(&p->greeting.arena, GREET_ARENA);
    p->greeting_now = true;
    async_io_submit(p->async_io, &p->greeting.io_request);
}

static enum err listen_for_others(struct worker_process *p, struct error *e)
{
    struct health_server_setup setup = {
        .listen = p->setup.listen, .ready = is_ready, .metrics = print_metrics, .context = p
    };
    return p->setup.listen ? health_server_new(&setup, &p->health_server, e) : ERR_OK;
}

static enum err assemble(struct worker_process *p, struct error *e)
{
    process_prepare();
    process_name(p->name);
    p->id = new_id(p->clock);
    look_at_machine(p);
    if (!p->setup.cpu_milli)
        p->setup.cpu_milli = p->machine.cpu_milli;
    if (!p->setup.memory_mb)
        p->setup.memory_mb = p->machine.memory_mb;
    struct loop_setup loop = { .clock = p->clock, .step = step, .context = p };
    struct fleet_setup fleet = { .urls = p->setup.fleet, .filter = &p->setup.filter };
    if (fleet_open(&fleet, &p->fleet, e) || loop_new(&loop, &p->loop, e))
        return e->code;
    struct runners_setup runners = { .loop = loop_uv(p->loop),
                                     .clock = p->clock,
                                     .slots = p->setup.slots,
                                     .allow_loopback = p->setup.allow_loopback,
                                     .ca_file = p->setup.ca_file,
                                     .brokers = p->setup.brokers };
    struct async_io_threads_setup async_io = {
        .loop = p->loop,
        .open = fleet_hand_over,
        .context = &p->fleet,
    };
    memcpy(async_io.wanted, p->fleet.wanted, sizeof async_io.wanted);
    if (runners_open(&runners, &p->runners, e) || async_io_threads_new(&async_io, &p->async_io, e))
        return e->code;
    p->fleet_watch.async_io = p->async_io;
    watch(p);
    greet(p);
    return listen_for_others(p, e);
}

enum err worker_process_new(const struct worker_process_setup *setup, struct worker_process **ret, struct error *e)
{
    struct worker_process *p = xnew(*p);
    struct error why = { 0 };
    p->setup = *setup;
    p->clock = clock_offset_new(setup->clock);
    p->metrics = metrics_new();
    pthread_mutex_init(&p->seen.lock, NULL);
    if (assemble(p, &why)) {
        worker_process_free(p);
        *e = why;
        return e->code;
    }
    *ret = p;
    return ERR_OK;
}

bool worker_process_run(struct worker_process *p)
{
    loop_run(p->loop);
    return !p->left_behind;
}

/* Who was left behind has errands and runs under way that nobody ends: the process ends, and they with it. */
void worker_process_free(struct worker_process *p)
{
    if (!p || p->left_behind)
        return;
    health_server_free(p->health_server);
    async_io_threads_free(p->async_io);
    fleet_release(&p->fleet);
    if (p->greeting_now)
        arena_release(&p->greeting.arena);
    if (p->loop)
        close_handles(p);
    worker_free(p->worker);
    p->worker = NULL;
    runners_free(&p->runners);
    loop_free(p->loop);
    clock_offset_free(p->clock);
    metrics_free(p->metrics);
    pthread_mutex_destroy(&p->seen.lock);
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
