/* Nodes on one store, each with a clock and a writer of its own, whose answers the test decides. */
#include <stdlib.h>

#include "both_at.h"
#include "check.h"
#include "model/store_memory.h"
#include "node/cluster/membership.h"

#define WALL 1772532000000LL

enum { NODES = 3, BEAT = 500 };

struct member {
    struct world *world;
    struct clock clock;
    struct writer writer;
    struct list pending;
    struct membership *m;
    int64_t skew_us, corrected_us; /* of its machine; by what it was corrected, 0: not yet */
    int64_t heartbeat_ms;          /* 0: BEAT */
    int64_t behind_us;
    bool silent;  /* stopped: it is not stepped */
    bool cut_off; /* nothing of it reaches the store */
    bool lost;    /* no answer reaches it */
    bool fleet, aside;
    struct async_io *lease; /* NULL: the store's */
    int shares, found_dead, deaths;
};

struct world {
    struct store *store;
    int64_t steady_us;
    bool down, has_clock;
    struct member v[NODES];
};

static int64_t wall_us(struct clock *c)
{
    struct member *x = container_of(c, struct member, clock);
    return x->corrected_us ? x->world->steady_us + x->corrected_us : WALL * 1000 + x->world->steady_us + x->skew_us;
}

static int64_t machine_us(struct clock *c)
{
    struct member *x = container_of(c, struct member, clock);
    return WALL * 1000 + x->world->steady_us + x->skew_us;
}

static int64_t steady_ns(struct clock *c)
{
    return container_of(c, struct member, clock)->world->steady_us * 1000;
}

static void correct(struct clock *c, int64_t offset_us, int64_t behind_us)
{
    container_of(c, struct member, clock)->corrected_us = offset_us;
    container_of(c, struct member, clock)->behind_us = behind_us;
}

static const struct clock_ops clock_ops = { wall_us, steady_ns, correct, machine_us };

static void submit(struct writer *w, struct op *op)
{
    list_push(&container_of(w, struct member, writer)->pending, &op->link);
}

static const struct writer_ops writer_ops = { submit };

static void describe(void *context, struct jw *w)
{
    (void)context;
    jw_kv_i64(w, "running", 3);
}

static void partitions_changed(void *context)
{
    ((struct member *)context)->shares++;
}

static void found_dead(void *context)
{
    ((struct member *)context)->found_dead++;
}

static void recall_requested(void *context)
{
    (void)context;
}

static void died(void *context, struct uuid id)
{
    assert_false(uuid_is_nil(id));
    ((struct member *)context)->deaths++;
}

static struct member *start(struct world *w, int i, bool shared)
{
    struct member *x = &w->v[i];
    *x = (struct member){ .world = w,
                          .clock.ops = &clock_ops,
                          .writer.ops = &writer_ops,
                          .skew_us = x->skew_us,
                          .heartbeat_ms = x->heartbeat_ms,
                          .fleet = x->fleet,
                          .aside = x->aside,
                          .lease = x->lease };
    list_init(&x->pending);
    x->m = membership_new(&(struct membership_setup){ .writer = &x->writer,
                                                      .clock = &x->clock,
                                                      .name = S("test"),
                                                      .version = S("1"),
                                                      .seed = (uint64_t)i + 1 + (uint64_t)w->steady_us,
                                                      .shared = shared,
                                                      .fleet = x->fleet,
                                                      .aside = x->aside,
                                                      .lease = x->lease,
                                                      .heartbeat_ms = x->heartbeat_ms ? x->heartbeat_ms : BEAT,
                                                      .describe = describe,
                                                      .partitions_changed = partitions_changed,
                                                      .marked_dead = found_dead,
                                                      .found_dead = found_dead,
                                                      .recall_requested = recall_requested,
                                                      .died = died,
                                                      .context = x },
                          clock_now(&x->clock));
    return x;
}

static void answer_all(struct member *x, bool reaches)
{
    while (!list_empty(&x->pending)) {
        struct op *op = container_of(list_pop(&x->pending), struct op, link);
        struct error e;
        if (reaches)
            assert_ok(store_apply(x->world->store, &op, 1, &e), &e);
        else
            op->rc = error_set(&op->error, ERR_UNAVAILABLE, "down");
        if (reaches && x->lost)
            op->rc = error_set(&op->error, ERR_UNAVAILABLE, "the answer was lost");
        if (reaches && op->kind == OP_HEARTBEAT && x->world->has_clock)
            ((struct op_heartbeat *)op)->ret_store_us = WALL * 1000 + x->world->steady_us;
        op->done(op);
    }
}

static void step(struct member *x)
{
    if (!x->m || x->silent)
        return;
    membership_step(x->m, clock_now(&x->clock));
    answer_all(x, !x->cut_off && !x->world->down);
    if (membership_active_peers(x->m) != ACTIVE_PEERS_UNKNOWN)
        membership_set_ready(x->m, true);
}

static void pass(struct world *w, int64_t ms)
{
    for (int64_t i = 0; i < ms; i += 50) {
        w->steady_us += 50000;
        for (int k = 0; k < NODES; k++)
            step(&w->v[k]);
    }
}

static void stop(struct member *x) /* as kill -9 does */
{
    answer_all(x, false);
    membership_free(take(x->m));
}

static int setup(void **state)
{
    struct world *w = xnew(*w);
    w->store = store_memory_new();
    w->steady_us = 1000000;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < NODES; i++)
        if (w->v[i].m)
            stop(&w->v[i]);
    store_free(w->store);
    free(w);
    return 0;
}

static size_t count_alive(const struct member *x)
{
    size_t n = 0;
    const struct node_rows *rows = membership_nodes(x->m);
    for (size_t i = 0; i < rows->n; i++)
        n += !rows->v[i].dead;
    return n;
}

static size_t share_of(const struct member *x)
{
    const struct partitions *own = membership_own(x->m);
    return own ? partitions_count(own) : PARTITIONS;
}

static void who_is_alone_beats_once(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, false);
    assert_int_equal(membership_step(x->m, both_at(WALL)), INT64_MAX);
    struct op_heartbeat *beat = (struct op_heartbeat *)container_of(x->pending.next, struct op, link);
    assert_true(beat->alone);
    answer_all(x, true);
    assert_true(membership_has_joined(x->m));
    assert_int_equal(membership_active_peers(x->m), ACTIVE_PEERS_NONE);
    w->steady_us += 3600LL * 1000000;
    membership_heartbeat_now(x->m);
    membership_forget_peers(x->m);
    assert_int_equal(membership_step(x->m, both_at(WALL + 3600000)), INT64_MAX);
    assert_true(list_empty(&x->pending)); /* an idle server writes nothing */
    assert_true(membership_may_fire(x->m) && membership_is_leader(x->m));
    assert_null(membership_own(x->m));
}

static void a_first_beat_that_fails_is_sent_again(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, false);
    w->down = true;
    pass(w, 2000);
    assert_false(membership_has_joined(x->m));
    w->down = false;
    pass(w, 1000);
    assert_true(membership_has_joined(x->m));
}

static void nodes_share_all_partitions_and_one_leads(void **state)
{
    struct world *w = *state;
    size_t sum = 0, leaders = 0;
    for (int i = 0; i < NODES; i++)
        start(w, i, true);
    pass(w, 3000);
    for (int i = 0; i < NODES; i++) {
        sum += share_of(&w->v[i]);
        leaders += membership_is_leader(w->v[i].m);
        assert_true(share_of(&w->v[i]) < PARTITIONS / 2);
        assert_int_equal(count_alive(&w->v[i]), NODES);
    }
    assert_int_equal(sum, PARTITIONS);
    assert_int_equal(leaders, 1);
}

static void who_is_silent_is_buried_within_three_seconds(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    assert_true(share_of(x) < PARTITIONS);
    stop(y);
    pass(w, 2400);
    assert_int_equal(count_alive(x), 2);
    pass(w, 1100);
    assert_int_equal(count_alive(x), 1);
    assert_true(x->found_dead > 0);
    assert_int_equal(share_of(x), PARTITIONS);
}

/* A setting that is changed node by node. */
static void who_beats_more_rarely_is_given_its_own_time(void **state)
{
    struct world *w = *state;
    w->v[0].heartbeat_ms = BEAT / 5;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 10000);
    assert_int_equal(x->deaths + y->deaths, 0);
    y->cut_off = true;
    int64_t cut_us = w->steady_us;
    while (membership_may_fire(y->m) && w->steady_us - cut_us < 10000000)
        pass(w, 50);
    assert_int_equal(x->found_dead, 0);
    pass(w, 2000);
    assert_true(x->found_dead > 0);
}

/* A node must wait longer before it marks another dead than the other goes on firing. */
static void who_is_cut_off_fires_nothing_long_before_it_is_buried(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    y->cut_off = true;
    int64_t cut_us = w->steady_us, stopped_us = 0, buried_us = 0;
    while (!buried_us && w->steady_us - cut_us < 10000000) {
        pass(w, 50);
        if (!stopped_us && !membership_may_fire(y->m))
            stopped_us = w->steady_us;
        if (x->found_dead)
            buried_us = w->steady_us;
    }
    assert_true(stopped_us && buried_us >= stopped_us + 300000);
    assert_true(stopped_us - cut_us <= 2000000);
    y->cut_off = false;
    pass(w, 600);
    assert_int_equal(y->deaths, 1);
    pass(w, 2000);
    assert_true(membership_may_fire(y->m));
    assert_int_equal(count_alive(x), 2);
}

static const struct node_row *row_seen_by(const struct member *x, struct uuid id)
{
    const struct node_rows *rows = membership_nodes(x->m);
    for (size_t i = 0; i < rows->n; i++)
        if (uuid_eq(rows->v[i].id, id))
            return &rows->v[i];
    return NULL;
}

/* Other nodes read in its row which tasks a dead node cannot have fired. So the store knows of a time before the node
 * makes use of it, although the answer may be lost. */
static void a_node_fires_no_further_than_the_store_knows(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    assert_int_equal(membership_fires_until_ms(y->m), 0);
    pass(w, 3000);
    int64_t now_ms = wall_us(&y->clock) / 1000, until_ms = membership_fires_until_ms(y->m);
    assert_in_range(until_ms, now_ms + 3 * BEAT, now_ms + 4 * BEAT);
    y->lost = true; /* its heartbeats are applied, and it does not learn of it */
    pass(w, 1000);
    assert_int_equal(membership_fires_until_ms(y->m), until_ms);
    assert_true(row_seen_by(x, membership_id(y->m))->fires_until_ms > until_ms);
    y->lost = false;
    pass(w, 1000);
    assert_true(membership_fires_until_ms(y->m) > until_ms);
}

static void how_far_a_node_fires_does_not_fall_when_its_clock_is_set_back(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true);
    pass(w, 3000);
    int64_t until_ms = membership_fires_until_ms(x->m);
    x->skew_us -= 3600000000;
    pass(w, 3000);
    assert_int_equal(membership_fires_until_ms(x->m), until_ms);
    assert_int_equal(row_seen_by(x, membership_id(x->m))->fires_until_ms, until_ms);
}

/* Its clock may be far off before the store has corrected it. */
static void a_clock_that_was_not_corrected_yet_promises_nothing(void **state)
{
    struct world *w = *state;
    w->has_clock = true;
    w->v[0].skew_us = 3600000000;
    struct member *x = start(w, 0, true);
    pass(w, 3000);
    assert_in_range(membership_fires_until_ms(x->m), WALL, WALL + 4000 + 4 * BEAT);
    assert_true(membership_fires_until_ms(start(w, 1, false)->m) == INT64_MAX); /* nobody else would look */
}

/* The first node that is heard again must not count the silence of the others meanwhile. */
static void an_outage_of_the_store_kills_nobody(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < NODES; i++) {
        start(w, i, true);
        pass(w, 150);
    }
    for (int k = 0; k < BEAT / 50 * BEAT / 50;
         k++) { /* each order of the last to be heard and the first to be heard again */
        pass(w, 3000 + k * 50 % BEAT);
        w->down = true;
        pass(w, (k ? 4000 : 30000) + k * 50 / BEAT * 50);
        assert_false(membership_may_fire(w->v[0].m));
        w->down = false;
        pass(w, 3000);
        for (int i = 0; i < NODES; i++) {
            assert_int_equal(w->v[i].deaths, 0);
            assert_int_equal(count_alive(&w->v[i]), NODES);
            assert_true(membership_may_fire(w->v[i].m));
        }
    }
}

/* It sees counts that stood still for long, but it was not running while they did. */
static void who_was_stopped_buries_nobody_when_it_goes_on(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    w->down = x->silent = true; /* and meanwhile the store is down, too: the other could not send heartbeats */
    pass(w, 20000);
    w->down = x->silent = false;
    pass(w, 5000);
    assert_int_equal(x->deaths + y->deaths, 0);
}

static void who_was_stopped_for_long_finds_itself_dead_and_joins_again(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    struct uuid before = membership_id(y->m);
    y->silent = true;
    pass(w, 6000);
    assert_false(membership_may_fire(y->m)); /* the very first thing it asks */
    y->silent = false;
    pass(w, 3000);
    assert_int_equal(y->deaths, 1);
    assert_false(uuid_eq(before, membership_id(y->m)));
    assert_int_equal(membership_active_peers(y->m), ACTIVE_PEERS_SOME);
    assert_int_equal(share_of(x) + share_of(y), PARTITIONS);
}

/* Dead nodes are purged after an hour: a node that slept longer must not take itself for new. */
static void who_was_dead_for_so_long_that_it_was_forgotten_joins_again(void **state)
{
    struct world *w = *state;
    start(w, 0, true);
    struct member *y = start(w, 1, true);
    pass(w, 3000);
    y->silent = true;
    pass(w, 6000);
    struct op_purge forget = { .op = { .kind = OP_PURGE }, .now_ms = WALL + 100LL * 3600000, .max = 100 };
    struct op *op = &forget.op;
    struct error e;
    arena_init(&op->arena, 1 << 16);
    assert_ok(store_apply(w->store, &op, 1, &e), &e);
    arena_release(&op->arena);
    y->silent = false;
    pass(w, 600);
    assert_int_equal(y->deaths, 1);
}

static void who_joins_others_knows_that_nothing_was_missed(void **state)
{
    struct world *w = *state;
    start(w, 0, true);
    pass(w, 3000);
    assert_int_equal(membership_active_peers(w->v[0].m), ACTIVE_PEERS_NONE);
    struct member *y = start(w, 1, true);
    pass(w, 50);
    assert_int_equal(membership_active_peers(y->m), ACTIVE_PEERS_UNKNOWN);
    pass(w, 1100);
    assert_int_equal(membership_active_peers(y->m), ACTIVE_PEERS_SOME);
}

static void after_the_end_of_all_the_first_to_come_knows_that_nobody_was_there(void **state)
{
    struct world *w = *state;
    start(w, 0, true);
    start(w, 1, true);
    pass(w, 3000);
    stop(&w->v[0]);
    stop(&w->v[1]);
    struct member *x = start(w, 2, true);
    pass(w, 2400);
    assert_int_equal(membership_active_peers(x->m), ACTIVE_PEERS_UNKNOWN);
    pass(w, 2000);
    assert_int_equal(membership_active_peers(x->m), ACTIVE_PEERS_NONE);
    assert_int_equal(count_alive(x), 1);
}

static void of_two_that_come_at_once_one_waits_for_the_other(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 100);
    pass(w, 4000);
    int nobody =
        (membership_active_peers(x->m) == ACTIVE_PEERS_NONE) + (membership_active_peers(y->m) == ACTIVE_PEERS_NONE);
    int others =
        (membership_active_peers(x->m) == ACTIVE_PEERS_SOME) + (membership_active_peers(y->m) == ACTIVE_PEERS_SOME);
    assert_int_equal(nobody, 1);
    assert_int_equal(others, 1);
}

static void who_leaves_is_gone_at_once_and_leads_no_longer(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    struct member *leader = membership_is_leader(x->m) ? x : y, *other = leader == x ? y : x;
    membership_close(leader->m);
    pass(w, 600);
    assert_int_equal(share_of(other), PARTITIONS);
    assert_int_equal(count_alive(other), 2);
    membership_leave(leader->m);
    pass(w, 50);
    assert_true(membership_has_left(leader->m));
    pass(w, 1600);
    assert_int_equal(count_alive(other), 1);
    assert_true(membership_is_leader(other->m));
    assert_int_equal(other->found_dead, 0);
}

static void two_never_lead_at_once(void **state)
{
    struct world *w = *state;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    struct member *leader = membership_is_leader(x->m) ? x : y, *other = leader == x ? y : x;
    leader->cut_off = true;
    for (int i = 0; i < 200; i++) {
        pass(w, 50);
        assert_false(membership_is_leader(leader->m) && membership_is_leader(other->m));
    }
    assert_true(membership_is_leader(other->m));
}

static void who_stands_aside_has_no_share_and_keeps_nobody_waiting(void **state)
{
    struct world *w = *state;
    w->v[0].aside = true;
    struct member *aside = start(w, 0, true);
    pass(w, 3000);
    struct member *x = start(w, 1, true);
    pass(w, 3000);
    assert_int_equal(membership_active_peers(x->m), ACTIVE_PEERS_NONE);
    assert_true(membership_is_leader(x->m));
    assert_false(membership_is_leader(aside->m));
    assert_null(membership_own(x->m)); /* all partitions are its own */
    assert_int_equal(membership_ready_count(x->m), 1);
}

static void a_node_of_a_fleet_goes_on_beating_on_a_store_of_its_own_and_hears_of_workers(void **state)
{
    struct world *w = *state;
    w->v[0].fleet = true;
    struct member *x = start(w, 0, false);
    pass(w, 1000);
    assert_int_equal(membership_workers(x->m)->n, 0);
    struct worker_row row = {
        .id = { { 3 } }, .name = S("w"), .version = S("1"), .doc = S("{}"), .slots = 40, .kind.labels = S("gpu")
    };
    struct op_worker_report op = {
        .op = { .kind = OP_WORKER_REPORT }, .v = &row, .n = 1, .now_ms = clock_wall_ms(&x->clock)
    };
    struct op *ops[] = { &op.op };
    struct error e;
    assert_ok(store_apply(w->store, ops, 1, &e), &e);
    membership_heartbeat_now(x->m); /* as after a report that changed something */
    pass(w, 1);
    const struct worker_groups *all = membership_workers(x->m);
    assert_int_equal(all->n, 1);
    assert_int_equal(all->v[0].slots, 40);
    assert_str(all->v[0].kind.labels, "gpu");
}

static struct uuid lease_holder;
static bool lease_let_go_early;

static void submit_lease(struct async_io *c, struct io_request *e)
{
    (void)c;
    struct io_lease *x = container_of(e, struct io_lease, io_request);
    bool ours = uuid_is_nil(lease_holder) || uuid_eq(lease_holder, x->holder);
    lease_let_go_early = lease_let_go_early || !x->ttl_ms;
    if (ours)
        lease_holder = x->ttl_ms ? x->holder : (struct uuid){ 0 };
    x->ret_held = ours && x->ttl_ms;
    e->rc = ERR_OK;
    e->done(e);
}

static void who_leads_may_be_for_another_to_say(void **state)
{
    static const struct async_io_ops ops = { submit_lease, NULL, NULL };
    struct async_io lease = { .ops = &ops };
    struct world *w = *state;
    lease_holder = (struct uuid){ 0 };
    lease_let_go_early = false;
    w->v[0].lease = w->v[1].lease = &lease;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 8000);
    struct member *leader = membership_is_leader(x->m) ? x : y, *other = leader == x ? y : x;
    assert_true(membership_is_leader(leader->m) && !membership_is_leader(other->m));
    assert_true(uuid_eq(lease_holder, membership_id(leader->m)));
    membership_close(leader->m);
    membership_leave(leader->m);
    assert_true(lease_let_go_early);
    pass(w, 3000);
    assert_true(membership_is_leader(other->m));
}

static void clocks_that_differ_are_corrected_by_the_stores(void **state)
{
    struct world *w = *state;
    w->has_clock = true;
    w->v[0].skew_us = 5000000;
    w->v[1].skew_us = -90000000;
    struct member *x = start(w, 0, true), *y = start(w, 1, true);
    pass(w, 3000);
    int64_t store_us = WALL * 1000 + w->steady_us;
    assert_true(llabs(clock_wall_us(&x->clock) - store_us) < 1000);
    assert_true(llabs(clock_wall_us(&y->clock) - store_us) < 1000);
    assert_true(clock_wall_us(&x->clock) <= store_us);
    assert_true(clock_wall_us(&x->clock) + x->behind_us >= store_us);
    assert_true(clock_wall_us(&y->clock) + y->behind_us >= store_us);
    assert_int_equal(membership_skew_us(x->m) / 1000000, -5);
    assert_int_equal(membership_skew_us(y->m) / 1000000, 90);
}

int main(void)
{
#define member_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        member_test(who_is_alone_beats_once),
        member_test(a_first_beat_that_fails_is_sent_again),
        member_test(nodes_share_all_partitions_and_one_leads),
        member_test(who_is_silent_is_buried_within_three_seconds),
        member_test(who_beats_more_rarely_is_given_its_own_time),
        member_test(who_is_cut_off_fires_nothing_long_before_it_is_buried),
        member_test(a_node_fires_no_further_than_the_store_knows),
        member_test(how_far_a_node_fires_does_not_fall_when_its_clock_is_set_back),
        member_test(a_clock_that_was_not_corrected_yet_promises_nothing),
        member_test(an_outage_of_the_store_kills_nobody),
        member_test(who_was_stopped_buries_nobody_when_it_goes_on),
        member_test(who_was_stopped_for_long_finds_itself_dead_and_joins_again),
        member_test(who_was_dead_for_so_long_that_it_was_forgotten_joins_again),
        member_test(who_joins_others_knows_that_nothing_was_missed),
        member_test(after_the_end_of_all_the_first_to_come_knows_that_nobody_was_there),
        member_test(of_two_that_come_at_once_one_waits_for_the_other),
        member_test(who_leaves_is_gone_at_once_and_leads_no_longer),
        member_test(two_never_lead_at_once),
        member_test(who_stands_aside_has_no_share_and_keeps_nobody_waiting),
        member_test(a_node_of_a_fleet_goes_on_beating_on_a_store_of_its_own_and_hears_of_workers),
        member_test(who_leads_may_be_for_another_to_say),
        member_test(clocks_that_differ_are_corrected_by_the_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
