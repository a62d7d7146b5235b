/* Tasks that somebody outside takes: OP_CLAIM with a lease, OP_LEASE_RENEW, OP_LEASES_EXPIRED, and how they are
 * read. */
#include "store_fleet.h"

/* ---- claiming by a lease ---- */

static void a_lease_takes_worker_tasks_and_no_others(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_worker_task(w), some_task(w), some_recurring(w) };
    v[2].target = TARGET_WORKFLOW;
    v[3].target = TARGET_WORKER;
    insert(w, v, 4);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = lease_from(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[1].id);
    const struct task *t = &op.ret.v[0];
    assert_true(t->state == TASK_RUNNING && t->fence == 1 && uuid_eq(t->claim, op.claim));
    assert_true(lane.ret_taken == 1 && lane.ret_next_due_ms == INT64_MAX && op.ret_next_due_ms == INT64_MAX);
    struct lease_row row;
    assert_true(is_leased(w, TENANT, t->id, &row));
    assert_true(row.fence == 1 && row.until_ms == NOW + 60000 && row.progress.n == 0);
    assert_str(row.worker, "w1");
}

static void a_lease_takes_only_what_is_due_in_the_order_of_its_time(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_worker_task(w), some_worker_task(w) };
    v[0].due_ms = NOW - 1;
    v[1].due_ms = NOW - 2;
    v[3].due_ms = NOW + 1;
    insert(w, v, 4);
    struct lane_quota lane = { some_lane(), 2 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.until_ms = NOW + 1000;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[1].id, &v[0].id);
    assert_true(op.ret_next_due_ms == NOW);
    lane = (struct lane_quota){ some_lane(), 10 };
    op = lease_from(w, &lane, 1);
    op.until_ms = NOW + 1000;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[2].id);
    assert_true(op.ret_next_due_ms == NOW + 1);
}

static void a_lease_takes_from_any_partition(void **state)
{
    struct world *w = *state;
    static const struct partitions none;
    struct task t = some_worker_task(w);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.own = &none;
    op.help_after_ms = 1000;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
}

static void a_lease_waits_for_slots_as_any_claim_does(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w) };
    v[0].concurrency_key = v[1].concurrency_key = S("k");
    v[0].concurrency_limit = v[1].concurrency_limit = 1;
    insert(w, v, 2);
    struct lane_quota lane = { some_lane(), 2 };
    struct op_claim op = lease_from(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[0].id);
    assert_tasks(&op.ret_gated, &v[1].id);
    struct settlement done = settlement_of(&op.ret.v[0], TASK_COMPLETED);
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &done, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &settle.op), &settle.op.error);
    assert_true(settle.ret_unblocked_lanes & lane_bit(some_lane()));
    struct tasks next = lease_some(w, 2);
    assert_tasks(&next, &v[1].id);
}

static void suspects_are_leased_behind_all_others(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_worker_task(w), some_task(w) };
    v[0].losses = v[1].losses = v[3].losses = SUSPECT_LOSSES;
    insert(w, v, 4);
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.max_suspects = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &v[2].id, &v[0].id);
    assert_true(op.ret_next_suspect_ms == NOW && op.ret_next_due_ms == INT64_MAX);
}

static void losses_make_a_leased_task_a_suspect_among_its_kind(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), leased = lease_one(w, &t);
    struct settlement v = settlement_of(&leased, TASK_SCHEDULED);
    v.verdict.losses = SUSPECT_LOSSES;
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 0);
    op = lease_from(w, &lane, 1);
    op.max_suspects = 5;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &t.id);
    assert_int_equal(lane.ret_taken, 0);
}

static void what_is_leased_is_nobodys_when_its_node_dies(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), other = fresh_id(w);
    beat(w, node);
    struct task t = some_worker_task(w);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.node = node;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(bury(w, node, 1));
    assert_false(beat(w, other).ret_has_orphans);
    assert_int_equal(left_behind(w, other).n, 0);
    assert_true(keep(w, &op.ret.v[0], NOW + 70000).ret_kept);
}

static void a_dead_node_leases_nothing(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    struct task t = some_worker_task(w);
    insert(w, &t, 1);
    assert_true(bury(w, node, 1));
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.node = node;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_false(is_leased(w, TENANT, t.id, &(struct lease_row){ 0 }));
}

static void a_lease_whose_answer_does_not_fit_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = lease_from(w, &lane, 1);
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_false(is_leased(w, TENANT, t.id, &(struct lease_row){ 0 }));
    assert_true(over_at(w, NOW, 5).ret_next_ms == INT64_MAX);
    assert_int_equal(lease_some(w, 5).n, 1);
}

static void tasks_that_wait_for_workers_are_among_a_queues_due(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_task(w) };
    v[1].due_ms = NOW + 5;
    insert(w, v, 3);
    struct error e = { 0 };
    int64_t n = 0;
    assert_ok(reader_queue_due(w->reader, TENANT, S("default"), NOW, &n, &e), &e);
    assert_int_equal(n, 2);
}

/* ---- OP_LEASE_RENEW ---- */

static void who_leased_a_task_goes_on_with_it(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), leased = lease_one(w, &t);
    struct lease_renewal k =
        keep_as(w, TENANT,
                (struct lease_renewal){
                    .id = t.id, .fence = leased.fence, .until_ms = NOW + 90000, .progress = S("{\"percent\":40}") });
    assert_true(k.ret_kept && !k.ret_ended);
    struct lease_row row;
    assert_true(is_leased(w, TENANT, t.id, &row));
    assert_int_equal(row.until_ms, NOW + 90000);
    assert_str(row.progress, "{\"percent\":40}");
    assert_str(row.worker, "w1");
    assert_true(keep(w, &leased, NOW + 50000).ret_kept); /* also less: it is what its worker says */
    assert_true(is_leased(w, TENANT, t.id, &row));
    assert_int_equal(row.until_ms, NOW + 50000);
    assert_str(row.progress, "{\"percent\":40}");
}

static void what_is_over_or_anothers_is_not_kept(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_task(w) };
    struct task leased = lease_one(w, &v[0]), done = lease_one(w, &v[1]), held = claim_one(w, &v[2], fresh_id(w));
    struct settlement s = settlement_of(&done, TASK_COMPLETED);
    assert_true(settle_with(w, &s));
    struct lease_renewal ks[] = {
        { .id = leased.id, .fence = leased.fence + 1, .until_ms = NOW + 1 },
        { .id = done.id, .fence = done.fence, .until_ms = NOW + 1 },
        { .id = held.id, .fence = held.fence, .until_ms = NOW + 1 },
        { .id = fresh_id(w), .fence = 1, .until_ms = NOW + 1 },
    };
    struct op_lease_renew op = {
        .op.kind = OP_LEASE_RENEW, .tenant = TENANT, .v = ks, .n = array_count(ks), .now_ms = NOW
    };
    for (size_t i = 0; i < op.n; i++)
        ks[i].ret_kept = ks[i].ret_ended = true;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    for (size_t i = 0; i < op.n; i++)
        assert_false(ks[i].ret_kept || ks[i].ret_ended);
    assert_false(keep_as(w, OTHER_TENANT, (struct lease_renewal){ .id = leased.id, .fence = leased.fence }).ret_kept);
    struct lease_row row;
    assert_true(is_leased(w, TENANT, leased.id, &row));
    assert_int_equal(row.until_ms, NOW + 60000);
}

static void several_are_kept_at_once_each_for_its_own_time(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w) };
    struct task a = lease_one(w, &v[0]), b = lease_one(w, &v[1]);
    struct lease_renewal ks[] = { { .id = b.id, .fence = b.fence, .until_ms = NOW + 2, .progress = S("2") },
                                  { .id = a.id, .fence = a.fence, .until_ms = NOW + 1, .progress = S("1") } };
    struct op_lease_renew op = { .op.kind = OP_LEASE_RENEW, .tenant = TENANT, .v = ks, .n = 2, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(ks[0].ret_kept && ks[1].ret_kept);
    struct lease_row x, y;
    assert_true(is_leased(w, TENANT, a.id, &x) && is_leased(w, TENANT, b.id, &y));
    assert_true(x.until_ms == NOW + 1 && y.until_ms == NOW + 2);
    assert_str(x.progress, "1");
    assert_str(y.progress, "2");
}

static void a_worker_is_told_each_time_that_its_user_wants_it_ended(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    beat(w, node);
    struct task t = some_worker_task(w);
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 5 };
    struct op_claim op = lease_from(w, &lane, 1);
    op.node = node;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task leased = op.ret.v[0];
    struct op_recall give_back = { .id = t.id, .fence = leased.fence };
    assert_ok(recall_with(w, &give_back), &give_back.op.error);
    assert_false(keep(w, &leased, NOW + 1).ret_ended);
    struct lease_row row;
    assert_true(is_leased(w, TENANT, t.id, &row) && !row.is_ended);
    struct op_recall recall_request = { .id = t.id, .fence = leased.fence, .abort = true };
    assert_ok(recall_with(w, &recall_request), &recall_request.op.error);
    assert_true(uuid_eq(recall_request.ret_owner, node));
    assert_true(keep(w, &leased, NOW + 1).ret_ended && keep(w, &leased, NOW + 1).ret_ended);
    assert_true(is_leased(w, TENANT, t.id, &row) && row.is_ended);
    assert_false(beat(w, node).ret_recall_requested); /* the node has nothing to give back */
    assert_int_equal(recall_requests_of(w, node, 5).ret_count, 0);
    assert_true(keep(w, &leased, NOW + 1).ret_ended);
    struct settlement v = settlement_of(&leased, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct tasks again = lease_some(w, 1);
    assert_false(keep(w, &again.v[0], NOW + 1).ret_ended);
    assert_true(is_leased(w, TENANT, t.id, &row) && !row.is_ended);
}

/* ---- OP_LEASES_EXPIRED ---- */

static void leases_are_over_from_their_time_on_the_longest_over_first(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_worker_task(w) };
    struct task a = lease_one(w, &v[0]), b = lease_one(w, &v[1]), c = lease_one(w, &v[2]);
    assert_true(keep(w, &a, NOW + 30).ret_kept && keep(w, &b, NOW + 10).ret_kept && keep(w, &c, NOW + 20).ret_kept);
    struct op_leases_expired none = over_at(w, NOW + 9, 10);
    assert_int_equal(none.ret.n, 0);
    assert_int_equal(none.ret_next_ms, NOW + 10);
    struct op_leases_expired one = over_at(w, NOW + 10, 10);
    assert_tasks(&one.ret, &b.id);
    assert_same_task(&b, &one.ret.v[0]);
    assert_int_equal(one.ret_next_ms, NOW + 20);
    struct op_leases_expired some = over_at(w, NOW + 100, 2);
    assert_tasks(&some.ret, &b.id, &c.id);
    assert_int_equal(some.ret_next_ms, NOW + 30);
    struct op_leases_expired all = over_at(w, NOW + 100, 3);
    assert_tasks(&all.ret, &b.id, &c.id, &a.id);
    assert_true(all.ret_next_ms == INT64_MAX);
}

static void tasks_that_expired_before_their_lease_are_found_in_the_order_of_that_time(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w), some_worker_task(w) };
    int64_t after_ms[] = { 2000, 1000, 0 };
    for (size_t i = 0; i < array_count(v); i++) {
        v[i].expires_after_ms = after_ms[i];
        insert(w, &v[i], 1);
    }
    int64_t first_ms = v[1].scheduled_ms + 1000;
    struct op_leases_expired none = {
        .op.kind = OP_LEASES_EXPIRED, .now_ms = first_ms - 1, .max = 1, .max_waiting = 5
    };
    assert_ok(world_apply(w, &none.op), &none.op.error);
    assert_int_equal(none.ret_waiting.n, 0);
    assert_int_equal(none.ret_next_waiting_ms, first_ms);
    struct op_leases_expired one = {
        .op.kind = OP_LEASES_EXPIRED, .now_ms = first_ms + 5000, .max = 1, .max_waiting = 1
    };
    assert_ok(world_apply(w, &one.op), &one.op.error);
    assert_tasks(&one.ret_waiting, &v[1].id);
    assert_int_equal(one.ret_next_waiting_ms, v[0].scheduled_ms + 2000);
    (void)lease_some(w, 3);
    struct op_leases_expired leased = {
        .op.kind = OP_LEASES_EXPIRED, .now_ms = NOW + 5000, .max = 1, .max_waiting = 5
    };
    assert_ok(world_apply(w, &leased.op), &leased.op.error);
    assert_int_equal(leased.ret_waiting.n, 0);
}

static void a_lease_that_is_over_is_kept_until_somebody_settles_it(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), leased = lease_one(w, &t);
    assert_int_equal(over_at(w, NOW + 60000, 1).ret.n, 1);
    assert_true(keep(w, &leased, NOW + 120000).ret_kept);
    assert_int_equal(over_at(w, NOW + 60000, 1).ret.n, 0);
}

static void leases_of_tasks_that_left_their_claim_are_no_more(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_worker_task(w), some_worker_task(w) };
    struct task done = lease_one(w, &v[0]), again = lease_one(w, &v[1]);
    struct settlement s = settlement_of(&done, TASK_COMPLETED);
    assert_true(settle_with(w, &s));
    s = settlement_of(&again, TASK_SCHEDULED);
    s.verdict.due_ms = NOW;
    assert_true(settle_with(w, &s));
    struct lease_row row;
    assert_false(is_leased(w, TENANT, done.id, &row) || is_leased(w, TENANT, again.id, &row));
    struct op_leases_expired op = over_at(w, NOW + 100000, 10);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_ms == INT64_MAX);
    assert_int_equal(lease_some(w, 5).n, 1);
    assert_true(is_leased(w, TENANT, again.id, &row) && row.fence == again.fence + 1 && row.until_ms == NOW + 60000);
    assert_int_equal(over_at(w, NOW + 60000, 10).ret.n, 1);
}

static void a_user_may_take_a_leased_task_back(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), leased = lease_one(w, &t), next = leased;
    next.state = TASK_CANCELLED;
    next.claim = (struct uuid){ 0 };
    struct settlement v = settlement_of(&leased, TASK_CANCELLED);
    v.replace = &next;
    assert_true(settle_with(w, &v));
    assert_false(keep(w, &leased, NOW + 1).ret_kept);
    assert_int_equal(over_at(w, NOW + 100000, 10).ret.n, 0);
}

/* Its fences begin anew with it. It leaves its claim by a settlement, or by OP_PUT. */
static void an_occurrence_that_is_made_again_is_not_under_its_old_lease(void **state)
{
    struct world *w = *state;
    for (int by_put = 0; by_put <= 1; by_put++) {
        struct task parent = some_recurring(w), o = some_occurrence(w, &parent, NOW), edited = parent;
        o.target = TARGET_WORKER;
        insert(w, &parent, 1);
        struct task leased = lease_one(w, &o), paused = leased;
        paused.state = TASK_PAUSED;
        paused.claim = (struct uuid){ 0 };
        struct settlement v = settlement_of(&leased, TASK_SCHEDULED);
        struct op_put put = put_of(&leased, &paused), withdraw = put_of(&parent, &edited);
        v.replace = &paused;
        assert_true(by_put ? world_apply(w, &put.op) == ERR_OK : settle_with(w, &v));
        edited.version++;
        withdraw.withdraw = true;
        assert_ok(world_apply(w, &withdraw.op), &withdraw.op.error);
        assert_false(is_there(w, TENANT, o.id));
        o.target = TARGET_NOOP;
        struct task claimed = claim_one(w, &o, fresh_id(w));
        struct lease_row row;
        assert_int_equal(claimed.fence, leased.fence);
        assert_false(is_leased(w, TENANT, o.id, &row) || keep(w, &claimed, NOW + 1).ret_kept);
        assert_int_equal(over_at(w, NOW + 60000, 10).ret.n, 0);
    }
}

static void an_over_answer_that_does_not_fit_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w);
    lease_one(w, &t);
    struct op_leases_expired op = { .op.kind = OP_LEASES_EXPIRED, .now_ms = NOW + 60000, .max = 5 };
    arena_init(&op.op.arena, 64);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_int_equal(over_at(w, NOW + 60000, 5).ret.n, 1);
}

/* ---- reading ---- */

static void a_lease_is_its_tenants_alone_to_see(void **state)
{
    struct world *w = *state;
    struct task t = some_worker_task(w), other = some_task(w);
    lease_one(w, &t);
    claim_one(w, &other, fresh_id(w));
    struct lease_row row;
    assert_true(is_leased(w, TENANT, t.id, &row));
    assert_false(is_leased(w, OTHER_TENANT, t.id, &row));
    assert_false(is_leased(w, TENANT, other.id, &row));
    assert_false(is_leased(w, TENANT, fresh_id(w), &row));
}

static const struct CMUnitTest tests[] = {
    store_test(a_lease_takes_worker_tasks_and_no_others),
    store_test(a_lease_takes_only_what_is_due_in_the_order_of_its_time),
    store_test(a_lease_takes_from_any_partition),
    store_test(a_lease_waits_for_slots_as_any_claim_does),
    store_test(suspects_are_leased_behind_all_others),
    store_test(losses_make_a_leased_task_a_suspect_among_its_kind),
    store_test(what_is_leased_is_nobodys_when_its_node_dies),
    store_test(a_dead_node_leases_nothing),
    store_test(a_lease_whose_answer_does_not_fit_leaves_no_trace),
    store_test(tasks_that_wait_for_workers_are_among_a_queues_due),
    store_test(who_leased_a_task_goes_on_with_it),
    store_test(what_is_over_or_anothers_is_not_kept),
    store_test(several_are_kept_at_once_each_for_its_own_time),
    store_test(a_worker_is_told_each_time_that_its_user_wants_it_ended),
    store_test(leases_are_over_from_their_time_on_the_longest_over_first),
    store_test(tasks_that_expired_before_their_lease_are_found_in_the_order_of_that_time),
    store_test(a_lease_that_is_over_is_kept_until_somebody_settles_it),
    store_test(leases_of_tasks_that_left_their_claim_are_no_more),
    store_test(a_user_may_take_a_leased_task_back),
    store_test(an_occurrence_that_is_made_again_is_not_under_its_old_lease),
    store_test(an_over_answer_that_does_not_fit_leaves_no_trace),
    store_test(a_lease_is_its_tenants_alone_to_see),
};
const struct test_list lease_tests = { tests, array_count(tests) };
