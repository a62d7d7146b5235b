/* Two nodes on one store: one requests a task that the other holds. */
#include <stdlib.h>

#include "both_at.h"
#include "check.h"
#include "model/store_memory.h"
#include "node/cluster/recall_requests.h"

enum { TENANT = 1, NOW = 1000000, ARENA = 1 << 20, DUE = NOW + 500, PRIORITY = 5 };

struct world {
    struct store *store;
    struct reader *reader;
    struct writer writer;
    struct list pending;
    struct uuid owner_id, asker_id;
    struct recall_requests *owner, *asker;
    struct task task; /* as it was claimed */
    struct task replace;
    struct recall recall;
    atomic_int state;
    int answers, grants;
    enum recall_grant grant, grant_others;
    int64_t now_ms;
    struct arena arena;
};

static struct world *the_world;

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    list_push(&the_world->pending, &op->link);
}

static void apply(struct world *w, struct op *op)
{
    struct error e;
    assert_int_equal(store_apply(w->store, &op, 1, &e), ERR_OK);
}

static void run(struct world *w, struct op *op)
{
    arena_init(&op->arena, ARENA);
    apply(w, op);
    assert_int_equal(op->rc, ERR_OK);
    arena_release(&op->arena);
}

static void settle_as(struct world *w, enum task_state next, int64_t due_ms)
{
    struct settlement s = { .id = w->task.id, .fence = w->task.fence, .verdict = { .next = next, .due_ms = due_ms } };
    struct op_settle op = { .op.kind = OP_SETTLE, .v = &s, .n = 1, .now_ms = w->now_ms };
    run(w, &op.op);
    assert_false(s.stale);
}

/* The test decides how the owner answers a request for the task, and for all others. */
static enum recall_grant grant(void *context, const struct recall_request *recall_request)
{
    struct world *w = context;
    w->grants++;
    if (!uuid_eq(recall_request->id, w->task.id))
        return w->grant_others;
    assert_true(recall_request->fence == w->task.fence);
    if (w->grant == RECALL_REQUEST_DONE)
        settle_as(w, recall_request->abort ? TASK_CANCELLED : TASK_SCHEDULED, w->now_ms + RECALL_REQUESTS_BACK_MS);
    return w->grant;
}

static void answered(struct recall *r)
{
    struct world *w = container_of(r, struct world, recall);
    w->answers++;
}

static struct recall_requests *make(struct world *w, const struct uuid *id)
{
    return recall_requests_new(
        &(struct recall_requests_setup){ .writer = &w->writer, .node = id, .grant = grant, .context = w });
}

static void beat(struct world *w, struct uuid id)
{
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT,
                               .node = { .id = id, .name = S("n"), .doc = S("{}") },
                               .now_ms = NOW };
    run(w, &op.op);
}

static void claim(struct world *w)
{
    struct lane_quota lane = { .lane = { .tenant = TENANT, .queue = S("mail"), .priority = PRIORITY }, .max = 1 };
    struct op_claim op = { .op.kind = OP_CLAIM,
                           .claim.b = { 7 },
                           .node = w->owner_id,
                           .lanes = &lane,
                           .lane_count = 1,
                           .now_ms = NOW,
                           .until_ms = NOW + 1000,
                           .max = 1,
                           .max_bytes = 1 << 20 };
    arena_init(&op.op.arena, ARENA);
    apply(w, &op.op);
    assert_int_equal(op.ret.n, 1);
    assert_true(task_copy(&w->arena, &op.ret.v[0], &w->task));
    arena_release(&op.op.arena);
}

static int setup(void **state)
{
    static const struct writer_ops ops = { submit };
    struct world *w = the_world = xnew(*w);
    struct error e;
    w->writer.ops = &ops;
    w->now_ms = NOW;
    w->owner_id.b[0] = 1;
    w->asker_id.b[0] = 2;
    list_init(&w->pending);
    arena_init(&w->arena, ARENA);
    w->store = store_memory_new();
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    beat(w, w->owner_id);
    beat(w, w->asker_id);
    struct task t = { .id.b = { 9 },
                      .tenant = TENANT,
                      .kind = TASK_ONE_TIME,
                      .state = TASK_SCHEDULED,
                      .priority = PRIORITY,
                      .queue = S("mail"),
                      .version = 1,
                      .target = TARGET_NOOP,
                      .created_ms = NOW,
                      .due_ms = DUE,
                      .scheduled_ms = DUE,
                      .retry.max_attempts = 1 };
    struct op_insert insert = { .op.kind = OP_INSERT, .tasks = &t, .count = 1 };
    run(w, &insert.op);
    claim(w);
    w->owner = make(w, &w->owner_id);
    w->asker = make(w, &w->asker_id);
    w->replace = w->task;
    w->replace.state = TASK_PAUSED;
    w->replace.version++;
    w->replace.claim = (struct uuid){ 0 };
    w->recall = (struct recall){ .running = &w->task, .replace = &w->replace, .state = &w->state, .done = answered };
    *state = w;
    return 0;
}

/* Applies submitted operations to the store; of one kind, only so many. */
static void carry(struct world *w)
{
    for (struct list *link; (link = list_pop(&w->pending));) {
        struct op *op = container_of(link, struct op, link);
        apply(w, op);
        op->done(op);
    }
}

static void pass(struct world *w, int64_t ms)
{
    for (int64_t end = w->now_ms + ms; w->now_ms < end; w->now_ms++) {
        recall_requests_step(w->asker, both_at(w->now_ms));
        recall_requests_step(w->owner, both_at(w->now_ms));
        carry(w);
    }
}

static int teardown(void **state)
{
    struct world *w = *state;
    pass(w, RECALL_REQUESTS_WAIT_MS + 1000);
    recall_requests_free(w->owner);
    recall_requests_free(w->asker);
    reader_free(w->reader);
    store_free(w->store);
    arena_release(&w->arena);
    free(w);
    return 0;
}

static struct task row(struct world *w)
{
    struct task t;
    struct error e;
    assert_ok(reader_get(w->reader, TENANT, w->task.id, &w->arena, &t, &e), &e);
    return t;
}

static void ask(struct world *w)
{
    pass(w, 1);
    recall_requests_ask(w->asker, &w->recall);
    carry(w);
    recall_requests_on_notice(w->owner);
}

/* ---- requesting ---- */

static void what_another_node_gives_back_is_free(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_DONE;
    ask(w);
    pass(w, 50);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_int_equal(row(w).state, TASK_SCHEDULED);
    assert_true(row(w).due_ms >= w->now_ms + RECALL_REQUESTS_BACK_MS - 50); /* time enough to change it */
}

static void what_was_tried_and_failed_meanwhile_is_free_too(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_REFUSED;
    ask(w);
    pass(w, 50);
    settle_as(w, TASK_SCHEDULED, w->now_ms + 7);
    pass(w, 50);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_int_equal(row(w).version, 1); /* the caller decides what it becomes, on the row as it is */
}

static void the_wish_alone_reaches_its_owner_when_no_news_do(void **state)
{
    struct world *w = *state;
    struct op_heartbeat beats = { .op.kind = OP_HEARTBEAT,
                                  .node = { .id = w->owner_id, .doc = S("{}") },
                                  .now_ms = NOW };
    pass(w, 1);
    recall_requests_ask(w->asker, &w->recall);
    carry(w);
    run(w, &beats.op);
    assert_true(beats.ret_recall_requested);
}

static void what_is_aborted_elsewhere_is_looked_at_anew(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_DONE;
    w->recall.abort = true;
    ask(w);
    pass(w, 100);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_int_equal(row(w).state, TASK_CANCELLED);
}

static void what_runs_elsewhere_stays(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_REFUSED;
    ask(w);
    pass(w, RECALL_REQUESTS_WAIT_MS - 500); /* the caller says when it stops waiting */
    assert_int_equal(w->answers, 0);
    pass(w, 1000);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_RUNNING);
    assert_int_equal(row(w).state, TASK_RUNNING);
}

static void who_does_not_wait_any_more_asks_no_more(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_REFUSED;
    ask(w);
    pass(w, 50);
    atomic_store(&w->state, RECALL_GIVEN_UP);
    int before = w->grants;
    pass(w, 100);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_RUNNING);
    assert_int_equal(w->grants, before);
}

static void a_store_that_is_away_for_a_moment_is_asked_again(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_DONE;
    pass(w, 1);
    recall_requests_ask(w->asker, &w->recall);
    struct op *op = container_of(list_pop(&w->pending), struct op, link);
    op->rc = ERR_UNAVAILABLE;
    op->done(op);
    pass(w, 250);
    recall_requests_on_notice(w->owner);
    pass(w, 100);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_int_equal(w->answers, 1);
}

static void what_this_node_claimed_a_moment_ago_is_asked_for_again(void **state)
{
    struct world *w = *state;
    pass(w, 1);
    recall_requests_ask(w->owner, &w->recall);
    carry(w);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_RUNNING);
    assert_false(w->recall.known);
}

/* ---- being requested ---- */

static void a_wish_that_comes_before_its_claim_is_looked_at_again(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_UNKNOWN;
    ask(w);
    pass(w, 30);
    assert_true(w->grants >= 2);
    w->grant = RECALL_REQUEST_DONE;
    pass(w, 100);
    assert_int_equal(w->recall.result, RECALL_FREED);
}

static void a_list_with_one_that_may_still_start_is_read_less_and_less_often(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_UNKNOWN;
    pass(w, 1);
    recall_requests_replace(w->asker, w->task.id, w->task.fence, w->now_ms); /* once */
    carry(w);
    recall_requests_on_notice(w->owner);
    pass(w, 2 * RECALL_REQUESTS_GIVE_UP_MS);
    assert_in_range(w->grants, 8, 13); /* after 25 ms five times, then after 50, 100, 200, 200 ms… */
    w->grant = RECALL_REQUEST_DONE;
    int before = w->grants;
    recall_requests_on_notice(w->owner);
    pass(w, 5);
    assert_int_equal(w->grants, before + 1);
}

static void one_that_nobody_waits_for_is_ended_all_the_same(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_DONE;
    pass(w, 1);
    recall_requests_replace(w->asker, w->task.id, w->task.fence, w->now_ms);
    carry(w);
    recall_requests_on_notice(w->owner);
    pass(w, 5);
    assert_int_equal(row(w).state, TASK_CANCELLED);
    assert_true(recall_requests_is_idle(w->asker));
}

static void who_is_asked_for_nothing_does_nothing(void **state)
{
    struct world *w = *state;
    assert_true(recall_requests_step(w->owner, both_at(w->now_ms)) == INT64_MAX);
    assert_true(recall_requests_is_idle(w->owner));
    recall_requests_on_notice(w->owner);
    pass(w, 10);
    assert_int_equal(w->grants, 0);
    assert_true(recall_requests_step(w->owner, both_at(w->now_ms)) == INT64_MAX);
}

/* Claims n more tasks for the owner, whose ids come before that of the task, and requests all of them. */
static void request_more(struct world *w, size_t n)
{
    struct lane_quota lane = { .lane = { .tenant = TENANT, .queue = S("mail"), .priority = PRIORITY }, .max = n };
    struct op_claim op = { .op.kind = OP_CLAIM,
                           .claim.b = { 8 },
                           .node = w->owner_id,
                           .lanes = &lane,
                           .lane_count = 1,
                           .now_ms = NOW,
                           .until_ms = NOW + 1000,
                           .max = n,
                           .max_bytes = 1 << 20 };
    for (size_t i = 0; i < n; i++) {
        struct task t = w->task;
        t.id = (struct uuid){ { 1, (uint8_t)(i >> 8), (uint8_t)i } };
        t.state = TASK_SCHEDULED;
        t.claim = (struct uuid){ { 0 } };
        t.fence = 0;
        struct op_insert insert = { .op.kind = OP_INSERT, .tasks = &t, .count = 1 };
        run(w, &insert.op);
    }
    arena_init(&op.op.arena, ARENA);
    apply(w, &op.op);
    assert_int_equal(op.ret.n, n);
    for (size_t i = 0; i < n; i++) {
        struct op_recall request = {
            .op.kind = OP_RECALL, .id = op.ret.v[i].id, .fence = op.ret.v[i].fence, .now_ms = NOW
        };
        run(w, &request.op);
    }
    arena_release(&op.op.arena);
}

static void requests_behind_many_that_are_refused_are_granted_and_none_is_read_again(void **state)
{
    enum { MANY = 2 * RECALL_REQUESTS_MAX + 10 };
    struct world *w = *state;
    request_more(w, MANY);
    w->grant_others = RECALL_REQUEST_REFUSED;
    w->grant = RECALL_REQUEST_DONE;
    ask(w);
    int64_t at_ms = w->now_ms;
    pass(w, 50);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_int_equal(w->grants, MANY + 1);
    recall_requests_on_notice(w->owner);
    pass(w, 50);
    assert_int_equal(w->grants, MANY + 1);
    assert_true(recall_requests_has_read(w->owner, both_at(at_ms).steady_ms));
}

static void requests_behind_many_that_come_before_their_claims_are_granted(void **state)
{
    struct world *w = *state;
    request_more(w, RECALL_REQUESTS_MAX + 10);
    w->grant_others = RECALL_REQUEST_UNKNOWN;
    w->grant = RECALL_REQUEST_DONE;
    ask(w);
    int64_t at_ms = both_at(w->now_ms).steady_ms;
    pass(w, 50);
    assert_int_equal(w->recall.result, RECALL_FREED);
    assert_false(recall_requests_has_read(w->owner, at_ms)); /* some claims may still arrive */
    pass(w, 2 * RECALL_REQUESTS_GIVE_UP_MS);
    recall_requests_on_notice(w->owner);
    pass(w, 50);
    assert_true(recall_requests_has_read(w->owner, at_ms));
}

/* ---- requests that last ---- */

static void request_lasting(struct world *w)
{
    pass(w, 1);
    w->recall.lasts = true;
    atomic_store(&w->state, RECALL_GIVEN_UP);
    recall_requests_ask(w->asker, &w->recall);
}

static void one_that_lasts_is_answered_when_its_owner_has_refused_it(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_UNKNOWN; /* it is on its way to a queue */
    request_lasting(w);
    carry(w);
    recall_requests_on_notice(w->owner);
    pass(w, 100);
    assert_int_equal(w->answers, 0);
    w->grant = RECALL_REQUEST_REFUSED;
    pass(w, 200);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_RUNNING);
    assert_true(w->recall.known && w->recall.decided);
}

static void one_that_lasts_is_unsure_if_its_owner_does_not_answer(void **state)
{
    struct world *w = *state;
    request_lasting(w);
    carry(w);
    pass(w, RECALL_REQUESTS_GIVE_UP_MS - 100);
    assert_int_equal(w->answers, 0);
    pass(w, 1000);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_RUNNING);
    assert_false(w->recall.known || w->recall.decided);
}

static void fail_first(struct world *w)
{
    struct op *op = container_of(list_pop(&w->pending), struct op, link);
    assert_int_equal(op->kind, OP_RECALL);
    op->rc = ERR_UNAVAILABLE;
    op->done(op);
}

static void one_that_lasts_is_sent_until_the_store_has_it_though_nobody_waits(void **state)
{
    struct world *w = *state;
    w->grant = RECALL_REQUEST_DONE;
    request_lasting(w);
    for (int64_t until_ms = w->now_ms + 2 * RECALL_REQUESTS_WAIT_MS; w->now_ms < until_ms; w->now_ms++) {
        recall_requests_step(w->asker, both_at(w->now_ms));
        if (!list_empty(&w->pending))
            fail_first(w);
    }
    assert_int_equal(w->answers, 0);
    pass(w, 300);
    recall_requests_on_notice(w->owner);
    pass(w, 500);
    assert_int_equal(w->answers, 1);
    assert_int_equal(w->recall.result, RECALL_FREED);
}

static void a_node_that_drains_does_not_wait_for_a_store_that_fails(void **state)
{
    struct world *w = *state;
    request_lasting(w);
    fail_first(w);
    assert_false(recall_requests_is_idle(w->asker));
    recall_requests_stop(w->asker);
    recall_requests_step(w->asker, both_at(w->now_ms));
    assert_true(recall_requests_is_idle(w->asker));
    assert_int_equal(w->answers, 1);
    assert_false(w->recall.known);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_another_node_gives_back_is_free),
        TEST(what_was_tried_and_failed_meanwhile_is_free_too),
        TEST(the_wish_alone_reaches_its_owner_when_no_news_do),
        TEST(what_is_aborted_elsewhere_is_looked_at_anew),
        TEST(what_runs_elsewhere_stays),
        TEST(who_does_not_wait_any_more_asks_no_more),
        TEST(a_store_that_is_away_for_a_moment_is_asked_again),
        TEST(what_this_node_claimed_a_moment_ago_is_asked_for_again),
        TEST(a_wish_that_comes_before_its_claim_is_looked_at_again),
        TEST(a_list_with_one_that_may_still_start_is_read_less_and_less_often),
        TEST(one_that_nobody_waits_for_is_ended_all_the_same),
        TEST(who_is_asked_for_nothing_does_nothing),
        TEST(requests_behind_many_that_are_refused_are_granted_and_none_is_read_again),
        TEST(requests_behind_many_that_come_before_their_claims_are_granted),
        TEST(one_that_lasts_is_answered_when_its_owner_has_refused_it),
        TEST(one_that_lasts_is_unsure_if_its_owner_does_not_answer),
        TEST(one_that_lasts_is_sent_until_the_store_has_it_though_nobody_waits),
        TEST(a_node_that_drains_does_not_wait_for_a_store_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
