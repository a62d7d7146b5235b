/* Makes the node, and passes on what it tells: to streams of live events, the log of transitions and the tracer. */
#include "api/live/live.h"
#include "node/trace/spans.h"
#include "platform/last_fire.h"
#include "port/crypto.h"
#include "server/server_internal.h"

enum {
    SPAWN_AHEAD_MS = 20000, /* twice as far as tasks are claimed at most */
    ARM_MIN_MS = 100,
    ARM_MAX_MS = 1000,
    AHEAD_MS = 3000,
    AHEAD_BYTES = 64 << 20,
    POLL_MS = 10000, /* covers lost nudges: a write that was committed, but whose answer was lost, sends none */
    LANES_ARENA = 16 << 20,
};

/* ---- what the node tells those who watch; loop thread ---- */

static void server_on_settled(void *context, const struct event *e, const struct settlement *s)
{
    struct server *a = context;
    if (a->setup.observe)
        a->setup.observe(a->setup.observe_context, e, s);
    if (a->http)
        live_on_settled(api_server_live(a->http), e, s, str_from(a->name));
    transition_log_settled(a->transitions, &e->task, &e->outcome, s);
    if (spans_may_add_run(a->tracer, &e->task, &e->outcome))
        spans_add_run(a->tracer, &e->task, &e->outcome, s, clock_wall_us(a->setup.clock));
}

static void server_on_started(void *context, const struct task *t)
{
    struct server *a = context;
    if (a->http)
        live_on_started(api_server_live(a->http), t);
    transition_log_started(a->transitions, t);
}

static void server_on_opened(void *context, const struct task *t)
{
    struct server *a = context;
    if (a->http)
        live_on_opened(api_server_live(a->http), t);
}

static void server_on_spawned(void *context, const struct task *occurrence)
{
    struct server *a = context;
    if (a->http)
        live_on_spawned(api_server_live(a->http), occurrence);
    transition_log_created(a->transitions, occurrence, 1);
}

static void server_on_expired(void *context, const struct task *t, enum task_state from)
{
    struct server *a = context;
    if (a->http)
        live_on_written(api_server_live(a->http), t, 1);
    transition_log_changed(a->transitions, t, from);
}

/* The store has told of a task that found no slot (port/store/changes.h). */
static void server_on_gated(void *context, const struct task *t, bool is_missed)
{
    struct server *a = context;
    if (a->http)
        live_on_written(api_server_live(a->http), t, 1);
    if (is_missed)
        transition_log_created(a->transitions, t, 1);
}

static void server_describe(void *context, struct jw *w)
{
    struct server *a = context;
    if (a->http)
        live_describe(api_server_live(a->http), w);
}

static void server_before_fire(void *context, int64_t now_ms)
{
    struct server *a = context;
    last_fire_note(a->last_fire, now_ms);
}

void server_make_node(struct server *a)
{
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    struct node_setup setup = {
        .writer = loop_writer(a->loop),
        .planner = planner_threads_planner(a->planner),
        .clock = a->setup.clock,
        .version = S(BELFRY_VERSION),
        .async_io = a->async_io,
        .zones = a->setup.zones,
        .catalog = a->catalog,
        .needs = a->needs,
        .metrics = a->metrics,
        .tracer = a->tracer,
        .name = str_from(a->name),
        .seed = seed,
        .slots = a->setup.slots,
        .roles = a->setup.roles,
        .shared = store_is_shared(a->store),
        .heartbeat_ms = a->setup.heartbeat_ms,
        .spawn_ahead_ms = SPAWN_AHEAD_MS,
        .arm_min_ms = ARM_MIN_MS,
        .arm_max_ms = ARM_MAX_MS,
        .ahead_ms = AHEAD_MS,
        .ahead_bytes = a->setup.ahead_bytes ? a->setup.ahead_bytes : AHEAD_BYTES,
        .poll_ms = POLL_MS,
        .visibility_ms = a->setup.visibility_ms ? a->setup.visibility_ms : WORKER_VISIBILITY_MS,
        .knows_last_fire = a->last_fire != NULL && a->last_fired_ms != INT64_MAX,
        .last_fired_ms = a->last_fired_ms,
        .before_fire = server_before_fire,
        .observe = server_on_settled,
        .observe_started = server_on_started,
        .observe_spawned = server_on_spawned,
        .observe_opened = server_on_opened,
        .observe_gated = server_on_gated,
        .observe_expired = server_on_expired,
        .describe = server_describe,
        .observe_context = a,
    };
    memcpy(setup.runners, a->runners.v, sizeof setup.runners);
    server_fleet_set_up_node(a, &setup);
    a->node = node_new(&setup, clock_now(a->setup.clock));
}

struct uuid server_node_id(void *context)
{
    struct server *a = context;
    return node_view_status(a->view).id;
}

bool server_acts_for_all(void *context)
{
    struct server *a = context;
    return !store_is_shared(a->store) || node_view_status(a->view).leader;
}

enum err server_load_lanes(struct server *a, struct error *e)
{
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, LANES_ARENA);
    struct reader *r = NULL;
    struct lane *lanes = NULL;
    struct breaker_rows breakers = { 0 };
    size_t n = 0;
    enum err rc = store_reader(a->store, &r, e);
    if (rc == ERR_OK)
        rc = catalog_watcher_read_breakers(r, &arena, &breakers, e);
    if (rc == ERR_OK)
        rc = reader_lanes(r, &arena, &lanes, &n, e);
    if (rc == ERR_OK) {
        node_follow_breakers(a->node, breakers.v, breakers.n); /* before anything is claimed */
        node_know_lanes(a->node, lanes, n);
    }
    store_keep_reader(a->store, r, rc);
    return rc;
}
