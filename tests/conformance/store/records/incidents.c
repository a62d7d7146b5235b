/* Hits that operations leave, OP_FOLD: records of incidents and messages, and checks and pauses that operations make due. */
#include <stdio.h>

#include "core/task/pause.h"
#include "store_world.h"

/* ---- hits ---- */

static unsigned want_all(const struct hit_wants *w, int32_t tenant)
{
    (void)w;
    return tenant == OTHER_TENANT ? 0 : 15;
}

static unsigned want_failures(const struct hit_wants *w, int32_t tenant)
{
    (void)w;
    (void)tenant;
    return 1U << HIT_FAILURE;
}

static const struct hit_wants all_wanted = { want_all }, failures_wanted = { want_failures };

static struct hit_list read_hits(struct world *w)
{
    struct hit_list ret = { 0 };
    struct error e = { 0 };
    assert_ok(reader_hits(w->reader, 100, &w->arena, &ret, &e), &e);
    return ret;
}

static struct settlement ended(struct world *w, const struct task *t, enum task_state next, const char *cause)
{
    struct settlement s = settlement_of(t, next);
    s.tenant = t->tenant;
    s.verdict.has_execution = true;
    s.verdict.execution = some_execution(w, t);
    s.verdict.execution.status = next == TASK_COMPLETED ? EXECUTION_COMPLETED : EXECUTION_FAILED;
    snprintf(s.verdict.cause.text, sizeof s.verdict.cause.text, "%s", cause);
    s.verdict.retry_cause = s.verdict.cause;
    if (next == TASK_SCHEDULED)
        s.verdict.due_ms = NOW + 5000;
    return s;
}

static struct task claimed(struct world *w, int32_t tenant)
{
    struct task t = some_task(w);
    t.tenant = tenant;
    return claim_one(w, &t, fresh_id(w));
}

static void settle_to(struct world *w, const struct task *t, enum task_state next, const char *cause)
{
    struct settlement s = ended(w, t, next, cause);
    assert_true(settle_with(w, &s));
}

static void assert_hit(const struct hit *h, enum hit_kind kind, const char *cause, int64_t count)
{
    assert_int_equal(h->kind, kind);
    assert_str(h->cause, cause);
    assert_int_equal(h->count, count);
    assert_int_equal(h->tenant, TENANT);
}

static void a_settle_leaves_a_hit_by_what_became_of_the_task(void **state) /* hits 1, 2 */
{
    static const struct {
        enum task_state next;
        enum hit_kind kind;
        const char *cause;
    } cases[] = { { TASK_COMPLETED, HIT_SUCCESS, "done" },
                  { TASK_FAILED, HIT_FAILURE, "0011223344556677" },
                  { TASK_SCHEDULED, HIT_RETRY, "0011223344556677" },
                  { TASK_EXPIRED, HIT_MISSED, "expired" } };
    struct world *w = *state;
    w->store->wants = &all_wanted;
    for (size_t i = 0; i < array_count(cases); i++) {
        struct task t = claimed(w, TENANT);
        settle_to(w, &t, cases[i].next, "0011223344556677");
        struct hit_list hits = read_hits(w);
        char id[UUID_TEXT + 1];
        assert_int_equal(hits.n, 1);
        assert_hit(&hits.v[0], cases[i].kind, cases[i].cause, 1);
        uuid_format(t.id, id);
        assert_str(hits.v[0].tasks, id);
        struct op_fold fold = { .op.kind = OP_FOLD, .hits = &hits.v[0].id, .hit_count = 1 };
        assert_ok(world_apply(w, &fold.op), &fold.op.error);
    }
}

static void a_settle_that_nobody_wants_to_know_of_leaves_none(void **state) /* hits 1 */
{
    struct world *w = *state;
    struct task a = claimed(w, TENANT), b = claimed(w, TENANT), c = claimed(w, OTHER_TENANT);
    settle_to(w, &a, TASK_FAILED, "00");
    w->store->wants = &failures_wanted;
    settle_to(w, &b, TASK_COMPLETED, "");
    w->store->wants = &all_wanted;
    settle_to(w, &c, TASK_FAILED, "00");
    assert_int_equal(read_hits(w).n, 0);
}

static void a_stale_or_returned_task_leaves_none(void **state) /* hits 2 */
{
    struct world *w = *state;
    w->store->wants = &all_wanted;
    struct task t = claimed(w, TENANT), back = claimed(w, TENANT);
    struct settlement s = ended(w, &t, TASK_FAILED, "00"), returned = settlement_of(&back, TASK_SCHEDULED);
    s.fence++;
    returned.tenant = TENANT;
    returned.verdict.due_ms = NOW;
    assert_false(settle_with(w, &s));
    assert_true(settle_with(w, &returned));
    assert_int_equal(read_hits(w).n, 0);
}

static void tasks_of_one_cause_share_hits_of_ten(void **state) /* hits 5 */
{
    enum { COUNT = 25 };
    struct world *w = *state;
    struct settlement v[COUNT];
    w->store->wants = &all_wanted;
    for (size_t i = 0; i < COUNT; i++) {
        struct task t = claimed(w, TENANT);
        v[i] = ended(w, &t, TASK_FAILED, i == 3 ? "bb" : "aa");
    }
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = COUNT, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct hit_list hits = read_hits(w);
    int64_t count = 0, names = 0;
    assert_int_equal(hits.n, 4);
    for (size_t i = 0; i < hits.n; i++) {
        count += hits.v[i].count;
        names += (int64_t)(hits.v[i].tasks.n + 1) / (UUID_TEXT + 1);
    }
    assert_int_equal(count, COUNT);
    assert_int_equal(names, COUNT);
}

static void causes_beyond_the_limit_are_one_other(void **state) /* hits 5 */
{
    enum { COUNT = HITS_MAX + 6 };
    struct world *w = *state;
    struct settlement v[COUNT];
    char cause[16];
    w->store->wants = &all_wanted;
    for (size_t i = 0; i < COUNT; i++) {
        struct task t = claimed(w, TENANT);
        snprintf(cause, sizeof cause, "%zu", i);
        v[i] = ended(w, &t, TASK_FAILED, cause);
    }
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = COUNT, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct hit_list hits = read_hits(w);
    size_t others = 0;
    assert_int_equal(hits.n, HITS_MAX + 1);
    for (size_t i = 0; i < hits.n; i++)
        if (str_eq(hits.v[i].cause, S("other"))) {
            others++;
            assert_int_equal(hits.v[i].count, COUNT - HITS_MAX);
        }
    assert_int_equal(others, 1);
}

static void missed_occurrences_leave_a_hit(void **state) /* hits 3 */
{
    struct world *w = *state;
    struct task parent = some_recurring(w);
    w->store->wants = &all_wanted;
    insert(w, &parent, 1);
    struct task skipped[2] = { some_occurrence(w, &parent, NOW + 1000), some_occurrence(w, &parent, NOW + 9000) };
    for (size_t i = 0; i < 2; i++) {
        skipped[i].state = TASK_SKIPPED;
        skipped[i].skipped_count = 4;
        skipped[i].last_error = i ? S("its day is excluded by the calendar") : S("missed (catch_up_mode SKIP_MISSED)");
    }
    struct spawn_plan plan = { .occurrences = { skipped, 2 }, .cursor_ms = NOW + 10000, .skipped = 8 };
    struct op_spawn op = { .op.kind = OP_SPAWN,
                           .id = parent.id,
                           .version = parent.version,
                           .cursor_ms = parent.cursor_ms,
                           .plan = &plan,
                           .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct hit_list hits = read_hits(w);
    assert_int_equal(hits.n, 1);
    assert_hit(&hits.v[0], HIT_MISSED, "skipped", 4);
}

static void a_task_that_a_put_expires_leaves_a_hit(void **state) /* hits 4 */
{
    struct world *w = *state;
    struct task t = some_task(w), next;
    w->store->wants = &all_wanted;
    insert(w, &t, 1);
    t = next = get(w, t.id);
    next.state = TASK_EXPIRED;
    next.completed_ms = next.updated_ms = NOW;
    next.version++;
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct hit_list hits = read_hits(w);
    assert_int_equal(hits.n, 1);
    assert_hit(&hits.v[0], HIT_MISSED, "expired", 1);
}

/* ---- OP_FOLD ---- */

static struct record some_record(struct world *w, enum record_kind kind, const char *key)
{
    return (struct record){ .id = fresh_id(w),
                            .kind = kind,
                            .tenant = TENANT,
                            .setting = fresh_id(w),
                            .key = str_from(key),
                            .next_ms = NOW,
                            .doc = S("{\"n\":1}") };
}

static enum err fold(struct world *w, const struct record_change *v, size_t n)
{
    struct op_fold op = { .op.kind = OP_FOLD, .v = v, .n = n };
    enum err rc = world_apply(w, &op.op);
    if (rc)
        assert_string_equal(op.op.error.field, "version");
    return rc;
}

static struct record_page read_records(struct world *w, struct record_filter f)
{
    struct record_page page = { 0 };
    struct error e = { 0 };
    f.limit = f.limit ? f.limit : 10;
    assert_ok(reader_records(w->reader, &f, &w->arena, &page, &e), &e);
    return page;
}

static void a_record_is_inserted_changed_and_removed_by_its_version(void **state) /* OP_FOLD 3, 4 */
{
    struct world *w = *state;
    struct record r = some_record(w, RECORD_INCIDENT, "k");
    assert_int_equal(fold(w, &(struct record_change){ .record = r }, 1), ERR_OK);
    assert_int_equal(fold(w, &(struct record_change){ .record = r }, 1), ERR_CONFLICT);
    struct record_page page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .tenant = TENANT });
    assert_int_equal(page.n, 1);
    assert_true(uuid_eq(page.v[0].id, r.id) && uuid_eq(page.v[0].setting, r.setting) && page.v[0].version == 1);
    assert_str(page.v[0].doc, "{\"n\":1}");
    r.doc = S("{\"n\":2}");
    r.key = (struct str){ 0 };
    r.next_ms = 0;
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 2 }, 1), ERR_CONFLICT);
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 1 }, 1), ERR_OK);
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT });
    assert_true(page.v[0].version == 2 && page.v[0].key.n == 0 && page.v[0].next_ms == 0);
    assert_str(page.v[0].doc, "{\"n\":2}");
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 1, .remove = true }, 1), ERR_CONFLICT);
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 2, .remove = true }, 1), ERR_OK);
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 2, .remove = true }, 1), ERR_CONFLICT);
}

static void another_tenants_record_is_not_changed(void **state) /* OP_FOLD 4 */
{
    struct world *w = *state;
    struct record r = some_record(w, RECORD_INCIDENT, "k");
    assert_int_equal(fold(w, &(struct record_change){ .record = r }, 1), ERR_OK);
    r.tenant = OTHER_TENANT;
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 1 }, 1), ERR_CONFLICT);
    assert_int_equal(fold(w, &(struct record_change){ .record = r, .version = 1, .remove = true }, 1), ERR_CONFLICT);
}

static void two_records_do_not_have_one_key(void **state) /* OP_FOLD 3, 4 */
{
    struct world *w = *state;
    struct record a = some_record(w, RECORD_INCIDENT, "k"), b = some_record(w, RECORD_INCIDENT, "k"),
                  c = some_record(w, RECORD_INCIDENT, "other");
    assert_int_equal(fold(w, &(struct record_change){ .record = a }, 1), ERR_OK);
    assert_int_equal(fold(w, &(struct record_change){ .record = b }, 1), ERR_CONFLICT);
    assert_int_equal(fold(w, &(struct record_change){ .record = c }, 1), ERR_OK);
    c.key = S("k");
    assert_int_equal(fold(w, &(struct record_change){ .record = c, .version = 1 }, 1), ERR_CONFLICT);
    a.key = (struct str){ 0 };
    assert_int_equal(fold(w, &(struct record_change){ .record = a, .version = 1 }, 1), ERR_OK);
    assert_int_equal(fold(w, &(struct record_change){ .record = b }, 1), ERR_OK);
}

static void a_fold_that_fails_changes_nothing(void **state) /* OP_FOLD 2 */
{
    struct world *w = *state;
    struct task t = claimed(w, TENANT);
    w->store->wants = &all_wanted;
    settle_to(w, &t, TASK_FAILED, "aa");
    struct hit_list hits = read_hits(w);
    struct record_change v[2] = { { .record = some_record(w, RECORD_INCIDENT, "a") },
                                  { .record = some_record(w, RECORD_MESSAGE, ""), .version = 7 } };
    struct op_fold op = { .op.kind = OP_FOLD, .hits = &hits.v[0].id, .hit_count = 1, .v = v, .n = 2 };
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_int_equal(read_hits(w).n, 1);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT }).n, 0);
    v[1].version = 0;
    struct op_fold again = { .op.kind = OP_FOLD, .hits = &hits.v[0].id, .hit_count = 1, .v = v, .n = 2 };
    assert_ok(world_apply(w, &again.op), &again.op.error);
    assert_int_equal(read_hits(w).n, 0);
    struct op_fold late = { .op.kind = OP_FOLD, .hits = &hits.v[0].id, .hit_count = 1 };
    assert_int_equal(world_apply(w, &late.op), ERR_CONFLICT);
    assert_string_equal(late.op.error.field, "hits");
}

static void a_doc_that_is_too_long_is_refused(void **state) /* OP_FOLD 5 */
{
    struct world *w = *state;
    struct record_change c = { .record = some_record(w, RECORD_INCIDENT, "a") };
    char *text = xcalloc(1, RECORD_DOC_MAX + 1);
    memset(text, ' ', RECORD_DOC_MAX + 1);
    c.record.doc = (struct str){ text, RECORD_DOC_MAX + 1 };
    struct op_fold op = { .op.kind = OP_FOLD, .v = &c, .n = 1 };
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    free(text);
}

static void a_repeated_request_is_known_by_its_key(void **state) /* OP_FOLD 1 */
{
    struct world *w = *state;
    struct idempotency key = some_idempotency();
    struct record_change c = { .record = some_record(w, RECORD_INCIDENT, "a") };
    struct op_fold op = { .op.kind = OP_FOLD, .v = &c, .n = 1, .idempotency = &key }, again = op;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(world_apply(w, &again.op), ERR_CONFLICT);
    assert_string_equal(again.op.error.field, "idempotency-key");
}

static void records_are_found_by_what_a_filter_says(void **state)
{
    struct world *w = *state;
    struct record a = some_record(w, RECORD_INCIDENT, "a"), b = some_record(w, RECORD_INCIDENT, ""),
                  m = some_record(w, RECORD_MESSAGE, "");
    b.next_ms = NOW - 5;
    m.incident = a.id;
    m.tenant = OTHER_TENANT;
    struct record_change v[] = { { .record = a }, { .record = b }, { .record = m } };
    assert_int_equal(fold(w, v, 3), ERR_OK);
    struct record_page page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT });
    assert_true(page.n == 2 && uuid_eq(page.v[0].id, b.id) && uuid_eq(page.v[1].id, a.id) && !page.more);
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .limit = 1 });
    assert_true(page.n == 1 && page.more);
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .before = b.id });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, a.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .id = a.id });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, a.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .open = true });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, a.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .key = S("a") });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, a.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .setting = b.setting });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, b.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .due_ms = NOW });
    assert_true(page.n == 2 && uuid_eq(page.v[0].id, b.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_INCIDENT, .due_ms = NOW - 1 });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, b.id));
    page = read_records(w, (struct record_filter){ .kind = RECORD_MESSAGE, .incident = a.id });
    assert_true(page.n == 1 && uuid_eq(page.v[0].id, m.id) && page.v[0].tenant == OTHER_TENANT);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_MESSAGE, .tenant = TENANT }).n, 0);
    int64_t at_ms = uuid_time_ms(a.id);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_MESSAGE, .until_ms = at_ms }).n, 0);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_MESSAGE, .from_ms = at_ms }).n, 1);
}

/* ---- checks ---- */

static struct task expected_task(struct world *w)
{
    struct task t = some_task(w);
    t.extra = S("{\"expect\":{\"within_seconds\":60}}");
    return t;
}

static struct record_page read_checks(struct world *w)
{
    return read_records(w, (struct record_filter){ .kind = RECORD_CHECK });
}

static void assert_check(const struct record *r, const struct task *of, int64_t version, int64_t next_ms)
{
    assert_true(uuid_eq(r->incident, of->id) && r->tenant == of->tenant && !r->key.n && uuid_is_nil(r->setting));
    assert_int_equal(r->version, version);
    assert_int_equal(r->next_ms, next_ms);
}

static void an_insert_makes_the_checks_of_its_tasks_due(void **state) /* checks 6 */
{
    struct world *w = *state;
    struct task recurring = some_recurring(w),
                v[] = { expected_task(w), some_task(w), some_occurrence(w, &recurring, NOW) };
    v[1].extra = S("{\"metadata\":{\"expect\":1}}");
    v[2].extra = v[0].extra; /* inherited */
    insert(w, &recurring, 1);
    insert(w, v, 3);
    struct record_page page = read_checks(w);
    assert_int_equal(page.n, 1);
    assert_check(&page.v[0], &v[0], 1, v[0].updated_ms);
    assert_str(page.v[0].doc, "{}");
    insert(w, v, 1);
    page = read_checks(w);
    assert_int_equal(page.n, 1);
    assert_check(&page.v[0], &v[0], 2, v[0].updated_ms);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_CHECK, .due_ms = v[0].updated_ms }).n, 1);
}

static void an_insert_that_fails_makes_no_check(void **state) /* checks 6 */
{
    struct world *w = *state;
    struct task a = some_task(w), b = expected_task(w);
    insert(w, &a, 1);
    b.id = a.id;
    b.created_ms++;
    struct op_insert op = insert_of(&b, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_int_equal(read_checks(w).n, 0);
}

static void a_put_makes_the_check_due_again(void **state) /* checks 6, 7 */
{
    struct world *w = *state;
    struct task t = some_task(w), next;
    insert(w, &t, 1);
    for (int64_t i = 1; i <= 3; i++) {
        t = next = get(w, t.id);
        next.extra = expected_task(w).extra;
        next.version++;
        next.updated_ms = NOW + i;
        next.deleted = i == 3;
        struct op_put op = put_of(&t, &next);
        assert_ok(world_apply(w, &op.op), &op.op.error);
        struct record_page page = read_checks(w);
        assert_int_equal(page.n, 1);
        assert_check(&page.v[0], &t, i * 2 - 1, NOW + i);
        struct record_change looked_at = { .record = page.v[0], .version = page.v[0].version };
        looked_at.record.doc = S("{\"deadline_ms\":7}");
        looked_at.record.next_ms = NOW + 1000;
        assert_int_equal(fold(w, &looked_at, 1), ERR_OK);
        assert_str(read_checks(w).v[0].doc, "{\"deadline_ms\":7}");
    }
    struct op_put refused = put_of(&t, &next);
    assert_int_equal(world_apply(w, &refused.op), ERR_NOT_FOUND);
    assert_check(&read_checks(w).v[0], &t, 6, NOW + 1000);
}

static void operations_of_one_transaction_make_a_check_due_each(void **state) /* checks 6 */
{
    struct world *w = *state;
    struct task t = expected_task(w), next = t;
    next.version++;
    next.updated_ms = NOW + 5;
    struct op_insert made = insert_of(&t, 1);
    struct op_put changed = put_of(&t, &next);
    struct op *ops[] = { &made.op, &changed.op };
    struct error e = { 0 };
    assert_ok(store_apply(w->store, ops, 2, &e), &e);
    assert_ok(changed.op.rc, &changed.op.error);
    assert_check(&read_checks(w).v[0], &t, 2, NOW + 5);
}

static void a_row_that_replaces_a_claimed_task_makes_its_check_due(void **state) /* checks 6 */
{
    struct world *w = *state;
    struct task t = claimed(w, TENANT), row = t;
    row.state = TASK_SCHEDULED;
    row.claim = (struct uuid){ 0 };
    row.extra = expected_task(w).extra;
    row.version++;
    row.updated_ms = NOW + 7;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    assert_true(settle_with(w, &v));
    assert_check(&read_checks(w).v[0], &t, 1, NOW + 7);
}

/* ---- pauses ---- */

static struct record_page read_pauses(struct world *w)
{
    return read_records(w, (struct record_filter){ .kind = RECORD_PAUSE });
}

/* The task as it is, paused until then; 0: without end. */
static struct task paused_task(struct world *w, const struct task *t, int64_t until_ms)
{
    struct task next = *t;
    struct pause p = { .by = S("ops"), .reason = S("maintenance"), .since_ms = NOW, .until_ms = until_ms };
    next.state = TASK_PAUSED;
    next.version++;
    next.updated_ms = NOW + next.version;
    assert_true(task_set_pause(&next, &p, &w->arena));
    return next;
}

static void put(struct world *w, const struct task *t, const struct task *next)
{
    struct op_put op = put_of(t, next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static void a_pause_with_an_end_has_a_record_that_is_due_then(void **state) /* pauses 8 */
{
    struct world *w = *state;
    struct task t = some_task(w), next = paused_task(w, &t, NOW + 5000);
    insert(w, &t, 1);
    put(w, &t, &next);
    struct record_page page = read_pauses(w);
    assert_int_equal(page.n, 1);
    assert_check(&page.v[0], &t, 1, NOW + 5000);
    assert_str(page.v[0].doc, "{}");
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_PAUSE, .due_ms = NOW + 4999 }).n, 0);
    assert_int_equal(read_records(w, (struct record_filter){ .kind = RECORD_PAUSE, .due_ms = NOW + 5000 }).n, 1);
    t = get(w, t.id);
    assert_true(str_eq(t.resolution, next.resolution));
    assert_int_equal(task_paused_until_ms(&t), NOW + 5000);
}

static void another_end_moves_the_record_and_none_leaves_it(void **state) /* pauses 8 */
{
    struct world *w = *state;
    struct task t = some_task(w), first = paused_task(w, &t, NOW + 5000), later = paused_task(w, &first, NOW + 9000),
                without = paused_task(w, &later, 0), resumed = without;
    insert(w, &t, 1);
    put(w, &t, &first);
    put(w, &first, &later);
    assert_check(&read_pauses(w).v[0], &t, 2, NOW + 9000);
    put(w, &later, &without);
    assert_check(&read_pauses(w).v[0], &t, 2, NOW + 9000);
    resumed.state = TASK_SCHEDULED;
    resumed.version++;
    put(w, &without, &resumed);
    assert_int_equal(get(w, t.id).resolution.n, 0);
    assert_check(&read_pauses(w).v[0], &t, 2, NOW + 9000);
    struct record_change over = { .record = read_pauses(w).v[0], .version = 2, .remove = true };
    assert_int_equal(fold(w, &over, 1), ERR_OK);
    assert_int_equal(read_pauses(w).n, 0);
}

static void a_task_may_have_a_check_and_a_pause(void **state) /* checks 6, pauses 8 */
{
    struct world *w = *state;
    struct task t = expected_task(w), next = paused_task(w, &t, NOW + 5000);
    insert(w, &t, 1);
    put(w, &t, &next);
    assert_check(&read_checks(w).v[0], &t, 2, next.updated_ms);
    assert_check(&read_pauses(w).v[0], &t, 1, NOW + 5000);
}

static void a_claimed_task_that_is_paused_has_a_record(void **state) /* pauses 8 */
{
    struct world *w = *state;
    struct task t = claimed(w, TENANT), row = paused_task(w, &t, NOW + 5000);
    row.claim = (struct uuid){ 0 };
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    assert_true(settle_with(w, &v));
    assert_check(&read_pauses(w).v[0], &t, 1, NOW + 5000);
    assert_true(str_eq(get(w, t.id).resolution, row.resolution));
}

static const struct CMUnitTest tests[] = {
    store_test(a_settle_leaves_a_hit_by_what_became_of_the_task),
    store_test(a_settle_that_nobody_wants_to_know_of_leaves_none),
    store_test(a_stale_or_returned_task_leaves_none),
    store_test(tasks_of_one_cause_share_hits_of_ten),
    store_test(causes_beyond_the_limit_are_one_other),
    store_test(missed_occurrences_leave_a_hit),
    store_test(a_task_that_a_put_expires_leaves_a_hit),
    store_test(a_record_is_inserted_changed_and_removed_by_its_version),
    store_test(another_tenants_record_is_not_changed),
    store_test(two_records_do_not_have_one_key),
    store_test(a_fold_that_fails_changes_nothing),
    store_test(a_doc_that_is_too_long_is_refused),
    store_test(a_repeated_request_is_known_by_its_key),
    store_test(records_are_found_by_what_a_filter_says),
    store_test(an_insert_makes_the_checks_of_its_tasks_due),
    store_test(an_insert_that_fails_makes_no_check),
    store_test(a_put_makes_the_check_due_again),
    store_test(operations_of_one_transaction_make_a_check_due_each),
    store_test(a_row_that_replaces_a_claimed_task_makes_its_check_due),
    store_test(a_pause_with_an_end_has_a_record_that_is_due_then),
    store_test(another_end_moves_the_record_and_none_leaves_it),
    store_test(a_task_may_have_a_check_and_a_pause),
    store_test(a_claimed_task_that_is_paused_has_a_record),
};
const struct test_list incident_tests = { tests, array_count(tests) };
