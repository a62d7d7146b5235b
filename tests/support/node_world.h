#pragma once
/* tests/support/node_world.h - a node that the test controls: the test decides the writer's results, ends the runs and
 * sets the clock. */
#include <stdlib.h>

#include "check.h"
#include "events/memory/events_memory.h"
#include "model/store_memory.h"
#include "node/node.h"
#include "platform/async_io_direct.h"
#include "platform/zoneinfo_system.h"
#include "queue/memory/queue_memory.h"

#define NOW 1772532000000LL

enum { TENANT = 1, HOUR = 3600000, SLOTS = 3, RUNS_MAX = 64 };

struct world {
    struct clock clock; /* the steady clock advances with the wall clock */
    struct store *store;
    struct reader *reader;
    struct queue *queue;
    struct events *events;
    struct async_io *async_io;
    struct zoneinfo *zones;
    struct metrics *metrics;
    struct writer writer;
    struct runner runner;
    struct list pending; /* ops */
    struct run *runs[RUNS_MAX];
    size_t run_count;
    struct node *node;
    struct catalog_cache *catalog;
    bool shared; /* other nodes may be on the store */
    size_t slots;
    int64_t now_ms;
    int64_t set_back_ms; /* by how much the wall clock was, in all */
    uint64_t lives;
};

static void (*change_setup)(struct node_setup *setup) __attribute__((unused)); /* NULL, or a test's own hook */
/* Of the current test: the callbacks reach it only through this. */
static struct world *the_world __attribute__((unused));

static inline void submit(struct writer *w, struct op *op)
{
    (void)w;
    list_push(&the_world->pending, &op->link);
}

static inline void submit_pair(struct writer *w, struct op *first, struct op *second)
{
    submit(w, first);
    submit(w, second);
}

static inline void start_run(struct runner *r, struct run *run)
{
    (void)r;
    the_world->runs[the_world->run_count++] = run;
}

static inline void abort_run(struct runner *r, struct run *run)
{
    (void)r;
    struct outcome o = { .kind = OUTCOME_CANCELLED, .retry_after_ms = -1, .started_us = 1, .completed_us = 1 };
    for (size_t i = 0; i < the_world->run_count; i++)
        if (the_world->runs[i] == run)
            the_world->runs[i] = the_world->runs[--the_world->run_count];
    run->done(run, &o);
}

static inline int64_t world_wall_us(struct clock *c)
{
    return container_of(c, struct world, clock)->now_ms * 1000;
}

/* It differs from wall time, as on a real machine: a time of the wrong kind is far off. */
static inline int64_t world_steady_ns(struct clock *c)
{
    const struct world *w = container_of(c, struct world, clock);
    return (w->now_ms - NOW + HOUR + w->set_back_ms) * 1000000;
}

static const struct clock_ops world_clock_ops = { .wall_us = world_wall_us, .steady_ns = world_steady_ns };
static const struct writer_ops writer_ops = { submit, submit_pair };
static const struct runner_ops runner_ops = { start_run, abort_run, NULL };

/* ---- the writer ---- */

static inline void set_clock(struct world *w, int64_t now_ms)
{
    w->set_back_ms += max_of(w->now_ms - now_ms, (int64_t)0);
    w->now_ms = now_ms;
}

static inline int64_t step_at(struct world *w, int64_t now_ms)
{
    set_clock(w, now_ms);
    return node_step(w->node, clock_now(&w->clock));
}

static inline struct op *next_op(struct world *w, enum op_kind kind)
{
    list_each (&w->pending, link) {
        struct op *op = container_of(link, struct op, link);
        if (op->kind == kind) {
            list_remove(link);
            return op;
        }
    }
    fail_msg("no operation %d was submitted", kind);
    abort();
}

static inline void apply_op(struct world *w, struct op *op)
{
    struct error e;
    assert_ok(store_apply(w->store, &op, 1, &e), &e);
}

static inline void answer_op(struct world *w, struct op *op)
{
    apply_op(w, op);
    op->done(op);
}

static inline void answer(struct world *w, enum op_kind kind)
{
    answer_op(w, next_op(w, kind));
}

static inline void answer_all(struct world *w)
{
    while (!list_empty(&w->pending))
        answer_op(w, container_of(list_pop(&w->pending), struct op, link));
}

/* The operation that was submitted first; there must be one. */
static inline struct op *first_op(struct world *w)
{
    return container_of(list_pop(&w->pending), struct op, link);
}

static inline void start_node(struct world *w)
{
    w->queue = queue_memory_new();
    w->events = events_memory_new();
    w->async_io = async_io_direct_new(
        &(struct async_io_ports){ .queue = w->queue, .take = w->queue, .publish = w->events, .poll = w->events });
    struct node_setup setup = { .writer = &w->writer,
                                .clock = &w->clock,
                                .shared = w->shared,
                                .async_io = w->async_io,
                                .zones = w->zones,
                                .catalog = w->catalog,
                                .metrics = w->metrics,
                                .name = S("test"),
                                .seed = ++w->lives,
                                .slots = w->slots,
                                .spawn_ahead_ms = 10000,
                                .arm_min_ms = 50,
                                .arm_max_ms = 1000,
                                .visibility_ms = 30000 };
    setup.runners[TARGET_NOOP] = setup.runners[TARGET_HTTP] = &w->runner;
    if (change_setup)
        change_setup(&setup);
    w->node = node_new(&setup, clock_now(&w->clock));
    struct lane known[] = { { .tenant = TENANT, .queue = S("default"), .priority = PRIORITY_DEFAULT },
                            { .tenant = TENANT, .queue = S("default"), .priority = PRIORITY_DEFAULT, .late = true } };
    node_know_lanes(w->node, known, array_count(known));
    step_at(w, w->now_ms);
    answer(w, OP_HEARTBEAT); /* the node has joined */
}

static inline int setup_world(void **state, bool shared)
{
    struct world *w = the_world = xnew(*w);
    struct error e;
    w->now_ms = NOW;
    w->shared = shared;
    w->slots = SLOTS;
    w->catalog = catalog_cache_new();
    w->clock.ops = &world_clock_ops;
    w->writer.ops = &writer_ops;
    w->runner.ops = &runner_ops;
    w->store = store_memory_new();
    w->zones = zoneinfo_system_new(NULL);
    w->metrics = metrics_new();
    list_init(&w->pending);
    start_node(w);
    *state = w;
    return store_reader(w->store, &w->reader, &e) ? -1 : 0;
}

static inline int setup(void **state)
{
    return setup_world(state, false);
}

static inline void deny(struct world *w, enum op_kind kind, bool applied)
{
    struct op *op = next_op(w, kind);
    if (applied)
        apply_op(w, op);
    op->rc = error_set(&op->error, ERR_UNAVAILABLE, applied ? "the answer was lost" : "down");
    op->done(op);
}

/* Completes all operations until no more are submitted. */
static inline void settle_down(struct world *w)
{
    for (int i = 0; i < 2000; i++) {
        step_at(w, w->now_ms);
        if (list_empty(&w->pending))
            return;
        struct op *op = container_of(list_pop(&w->pending), struct op, link);
        apply_op(w, op);
        op->done(op);
    }
    fail_msg("it never comes to rest");
}

static inline void free_world(struct world *w)
{
    node_free(w->node);
    async_io_direct_free(w->async_io);
    queue_free(w->queue);
    events_free(w->events);
    reader_free(w->reader);
    store_free(w->store);
    zoneinfo_free(w->zones);
    catalog_cache_free(w->catalog);
    metrics_free(w->metrics);
    free(w);
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    node_drain(w->node);
    node_give_up(w->node);
    settle_down(w);
    assert_true(node_is_idle(w->node));
    assert_int_equal(node_status(w->node).scheduler.held, 0);
    free_world(w);
    return 0;
}

/* ---- tasks ---- */

static inline struct task plain_task(int n, int64_t due_ms)
{
    return (
        struct task){ .id = { { (uint8_t)(n >> 8), (uint8_t)n, 1 } },
                      .tenant = TENANT,
                      .state = TASK_SCHEDULED,
                      .due_ms = due_ms,
                      .scheduled_ms = due_ms,
                      .version = 1,
                      .priority = PRIORITY_DEFAULT,
                      .queue = S("default"),
                      .timeout_ms = 1000,
                      .target = TARGET_NOOP,
                      .retry = { .max_attempts = 3, .base_delay_ms = 500, .max_delay_ms = 500, .jitter = JITTER_NONE },
                      .schedule.end_ms = INT64_MAX,
                      .created_ms = NOW };
}

static inline struct task add_task(struct world *w, struct task t)
{
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
    arena_init(&op.op.arena, 4096);
    apply_op(w, &op.op);
    assert_ok(op.op.rc, &op.op.error);
    arena_release(&op.op.arena);
    node_nudge(w->node, &t, 1);
    return t;
}

static inline struct task task_due(struct world *w, int n, int64_t due_ms)
{
    return add_task(w, plain_task(n, due_ms));
}

/* The task as stored; its texts live as long as the arena. */
static inline struct task row_of(struct world *w, const struct task *t, struct arena *a)
{
    struct task row;
    struct error e;
    assert_ok(reader_get(w->reader, t->tenant, t->id, a, &row, &e), &e);
    return row;
}

/* What the node says of a row at this moment. holds: of the task itself; NULL: none. */
static inline void explain_held_row(struct world *w, const struct task *row, const struct explain_holds *holds,
                                    struct explanation *ret)
{
    cleanup_with(arena_release) struct arena a;
    struct explain_facts facts;
    struct error e;
    struct task t = holds ? explain_behind(row, holds, w->now_ms) : *row, counted = t;
    counted.state = row->state;
    arena_init(&a, 1 << 20);
    assert_ok(explain_read(w->reader, w->catalog, &counted, w->now_ms, &a, &facts, &e), &e);
    node_explain(w->node, &t, holds, &facts, w->now_ms, ret);
}

static inline void explain_row(struct world *w, const struct task *row, struct explanation *ret)
{
    explain_held_row(w, row, NULL, ret);
}

/* ---- queue rules ---- */

static inline void put_entry(struct world *w, int32_t tenant, enum catalog_kind kind, struct str name, struct str doc)
{
    struct error e;
    struct catalog_entry entry = { .tenant = tenant, .kind = kind, .name = name, .version = 1, .doc = doc };
    assert_ok(catalog_cache_put(w->catalog, &entry, &e), &e);
    node_rules_changed(w->node);
}

static inline void put_queue(struct world *w, const struct queue_rules *r)
{
    struct buf doc;
    struct jw jw;
    buf_init(&doc, 4096);
    jw_init(&jw, &doc);
    jw_object(&jw);
    queue_rules_write(&jw, r);
    jw_object_end(&jw);
    put_entry(w, TENANT, CATALOG_QUEUE, S("default"), buf_str(&doc));
    buf_release(&doc);
}

static inline void put_tenant(struct world *w, const struct tenant_rules *r)
{
    struct buf doc;
    struct jw jw;
    buf_init(&doc, 4096);
    jw_init(&jw, &doc);
    jw_object(&jw);
    tenant_rules_write(&jw, r);
    jw_object_end(&jw);
    put_entry(w, 0, CATALOG_TENANT, r->name, buf_str(&doc));
    buf_release(&doc);
}

/* A new node with that many slots. */
static inline void with_slots(struct world *w, size_t slots)
{
    settle_down(w);
    node_free(w->node);
    async_io_direct_free(w->async_io);
    queue_free(w->queue);
    events_free(w->events);
    w->slots = slots;
    start_node(w);
    settle_down(w);
}

/* The task without its texts. */
static inline struct task read_task(struct world *w, struct uuid id)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 16);
    assert_ok(reader_get(w->reader, TENANT, id, &a, &t, &e), &e);
    return t;
}

static inline enum task_state state_of(struct world *w, struct uuid id)
{
    return read_task(w, id).state;
}

/* Number of occurrences of a recurring task in this state. */
static inline size_t count_of(struct world *w, struct uuid parent, enum task_state state)
{
    struct task_filter f = { .tenant = TENANT, .parent = parent, .states = 1U << state };
    struct error e;
    size_t n;
    assert_ok(reader_count(w->reader, &f, 1000, &n, &e), &e);
    return n;
}

static inline void end_run(struct world *w, enum outcome_kind kind)
{
    struct outcome o = { .kind = kind,
                         .failure = kind == OUTCOME_FAILED ? FAILURE_TIMEOUT : FAILURE_NONE,
                         .retry_after_ms = -1,
                         .started_us = w->now_ms * 1000,
                         .completed_us = w->now_ms * 1000 };
    assert_true(w->run_count > 0);
    struct run *run = w->runs[--w->run_count];
    run->done(run, &o);
}

static inline bool is_running(const struct world *w, const struct task *t)
{
    for (size_t i = 0; i < w->run_count; i++)
        if (uuid_eq(w->runs[i]->task->id, t->id))
            return true;
    return false;
}

/* The start of every test: nothing to recover, no recurring tasks, one task claimed and waiting for NOW + 40. */
static inline struct task one_armed(struct world *w)
{
    struct task t = task_due(w, 1, NOW + 40);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    t.fence = 1;
    return t;
}

static inline struct task one_running(struct world *w)
{
    struct task t = one_armed(w);
    step_at(w, NOW + 40);
    assert_int_equal(w->run_count, 1);
    return t;
}

/* A node that is gone, or a process before this one, had claimed these tasks in one claim. They become as the store has
 * them. */
static inline void claimed_by_the_dead(struct world *w, struct task *tasks, size_t n)
{
    struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = tasks, .count = n };
    struct uuid_gen ids;
    uuid_gen_init(&ids, w->lives);
    struct lane_quota lane = { .lane = task_lane(tasks), .max = n };
    struct op_claim claim = { .op = { .kind = OP_CLAIM },
                              .claim = uuid_next(&ids, w->now_ms),
                              .node = { { 8 } },
                              .lanes = &lane,
                              .lane_count = 1,
                              .now_ms = w->now_ms,
                              .until_ms = w->now_ms + 1000,
                              .max = n,
                              .max_bytes = 1 << 30,
                              .max_suspects = n };
    arena_init(&insert.op.arena, 1 << 20);
    arena_init(&claim.op.arena, 64 << 20);
    apply_op(w, &insert.op);
    apply_op(w, &claim.op);
    assert_int_equal(claim.ret.n, n);
    for (size_t i = 0; i < n; i++) {
        tasks[i].state = TASK_RUNNING;
        tasks[i].fence = 1;
        tasks[i].claim = claim.claim;
    }
    arena_release(&insert.op.arena);
    arena_release(&claim.op.arena);
}

/* The process dies: its memory is lost, the store remains. */
static inline void die_and_start_again(struct world *w)
{
    struct store *store = w->store;
    w->store = store_memory_new(); /* the dying node writes here, not to the real store */
    node_drain(w->node);
    node_give_up(w->node);
    settle_down(w);
    node_free(w->node);
    async_io_direct_free(w->async_io);
    queue_free(w->queue);
    events_free(w->events);
    store_free(w->store);
    w->store = store;
    start_node(w);
}
