/* Makes operations up; see store_model.h. What they point at lives in the model's arena until the next batch. */
#include "base/date.h"
#include "core/task/pause.h"
#include "store_model.h"

const char *const model_queues[2] = { "a", "b" };
const char *const model_names[4] = { "", "report", "report.daily", "clean%up" };
const char *const model_types[3] = { "", "mail", "sync" };
static const char *const model_hosts[2] = { "a.example", "b.example" };

size_t below(struct model *m, size_t n)
{
    return prng_below(&m->random, n);
}

bool chance(struct model *m, size_t percent)
{
    return below(m, 100) < percent;
}

struct str one_of(struct model *m, const char *const *v, size_t n)
{
    return str_from(v[below(m, n)]);
}

static void *copy_of(struct model *m, const void *p, size_t size)
{
    return memcpy(arena_alloc(&m->arena, size), p, size);
}

static int64_t near(struct model *m, int64_t low, int64_t high)
{
    return m->now_ms + prng_between(&m->random, low, high);
}

void model_know(struct model *m, const struct task *t)
{
    for (size_t i = 0; i < m->pool_count; i++)
        if (uuid_eq(m->pool[i].id, t->id))
            return;
    if (m->pool_count < POOL_MAX)
        m->pool[m->pool_count++] = (struct known){ t->id, t->tenant };
}

bool model_look(struct model *m, struct task *ret)
{
    while (m->pool_count) {
        size_t i = below(m, m->pool_count);
        if (reader_get(m->reader, m->pool[i].tenant, m->pool[i].id, &m->arena, ret, NULL) == ERR_OK)
            return true;
        m->pool[i] = m->pool[--m->pool_count];
    }
    return false;
}

/* A task of that state, if a few looks find one; else any. False: there is none at all. */
static bool look_for_state(struct model *m, enum task_state state, struct task *ret)
{
    for (int i = 0; i < 100; i++)
        if (!model_look(m, ret) || (ret->state == state && (!(ret->links & TASK_OPEN) || chance(m, 10))))
            break; /* an open one runs under no claim */
    return m->pool_count > 0;
}

static bool look_for_recurring(struct model *m, struct task *ret)
{
    for (int i = 0; i < 12 && model_look(m, ret); i++)
        if (ret->kind == TASK_RECURRING && (ret->state == TASK_SCHEDULED || i > 8))
            return true;
    return false;
}

/* ---- tasks ---- */

static void set_state(struct model *m, struct task *t, enum task_state state)
{
    t->state = state;
    t->completed_ms = task_is_final(state) ? m->now_ms : 0;
    if (state != TASK_RUNNING)
        t->claim = (struct uuid){ 0 };
}

static struct str some_text(struct model *m)
{
    static const char text[] = "0123456789012345678901234567890123456789";
    return (struct str){ text, below(m, sizeof text) };
}

/* Few keys, mostly with one limit each. */
static void set_key(struct model *m, struct task *t)
{
    static const char *const keys[] = { "x", "y", "z" };
    size_t i = below(m, array_count(keys));
    bool none = !chance(m, m->gated_percent);
    t->concurrency_key = none ? (struct str){ 0 } : str_from(keys[i]);
    t->concurrency_limit = none ? 0 : chance(m, 85) ? (int)i + 1 : 1 + (int)below(m, 3);
}

static enum overlap some_overlap(struct model *m)
{
    if (chance(m, 20))
        return OVERLAP_CANCEL_PREVIOUS;
    return chance(m, 80) ? (enum overlap)below(m, OVERLAP_CANCEL_PREVIOUS + 1) : OVERLAP_ALLOW;
}

/* Few, two of them of one class. */
static int some_priority(struct model *m)
{
    static const int priorities[] = { 2, 5, 7, 9 };
    return priorities[below(m, array_count(priorities))];
}

struct task model_task(struct model *m)
{
    struct task t = {
        .id = uuid_next(&m->ids, m->now_ms),
        .tenant = chance(m, 70) ? TENANT : OTHER_TENANT,
        .kind = chance(m, 70) ? TASK_ONE_TIME : TASK_RECURRING,
        .due_ms = near(m, -20, 40),
        .version = 1,
        .losses = chance(m, 3) ? SUSPECT_LOSSES : 0,
        .priority = some_priority(m),
        .queue = one_of(m, model_queues, array_count(model_queues)),
        .name = one_of(m, model_names, array_count(model_names)),
        .task_type = one_of(m, model_types, array_count(model_types)),
        .delivery = chance(m, 80) ? DELIVER_AT_LEAST_ONCE : DELIVER_AT_MOST_ONCE,
        .timeout_ms = 30000,
        .retry = RETRY_DEFAULT,
        .target = chance(m, 60)   ? TARGET_NOOP
                  : chance(m, 40) ? TARGET_WORKER
                  : chance(m, 60) ? TARGET_WORKFLOW
                                  : (enum target_kind)below(m, TARGET_NOOP + 1),
        .requires = chance(m, 10) ? S("eu,gpu") : (struct str){ 0 },
        .cpu_milli = chance(m, 3) ? 500 : 0,
        .memory_mb = chance(m, 3) ? 500 : 0,
        .aside = chance(m, 3) ? one_of(m, model_hosts, array_count(model_hosts)) : (struct str){ 0 },
        .recalled = chance(m, 3),
        .awaited_ms = m->now_ms % 5 ? 0 : m->now_ms - 19,
        .late_by = (enum late_cause)(m->now_ms % 5 ? 0 : m->now_ms / 5 % LATE_CAUSES),
        .payload = some_text(m),
        .target_config = some_text(m),
        .extra = m->now_ms % 3 ? (struct str){ 0 } : S("{\"expect\":{\"within_seconds\":60}}"),
        .created_ms = m->now_ms,
        .updated_ms = m->now_ms,
    };
    if (chance(m, 10))
        t.created_ms -= (int64_t)below(m, 6 * DAY_MS); /* it was due in days when it was made */
    else if (chance(m, 2))
        t.due_ms += (int64_t)below(m, 6 * DAY_MS);
    if (chance(m, 25))
        t.due_ms -= (int64_t)(1 + below(m, 3)) * AGEING_MS; /* it has waited for some levels */
    t.scheduled_ms = t.due_ms;
    set_key(m, &t);
    if (t.kind == TASK_RECURRING) {
        t.schedule.interval_ms = 5;
        t.schedule.catch_up = (enum catch_up)below(m, 3);
        t.schedule.catch_up_window_ms = (int64_t)below(m, 15);
        t.schedule.spread_ms = chance(m, 30) ? 1 + (int64_t)below(m, 20) : 0;
        t.schedule.end_ms = INT64_MAX;
        t.cursor_ms = near(m, -10, 40);
    }
    static const enum task_state others[] = { TASK_PAUSED, TASK_BLOCKED, TASK_SKIPPED };
    set_state(m, &t, chance(m, 80) ? TASK_SCHEDULED : others[below(m, array_count(others))]);
    return t;
}

static struct task make_occurrence(struct model *m, const struct task *parent, int64_t at_ms)
{
    struct task t = model_task(m);
    t.id = occurrence_id(parent->id, at_ms);
    t.tenant = parent->tenant;
    t.kind = TASK_OCCURRENCE;
    t.parent = parent->id;
    t.runs_count = chance(m, 80);
    t.overlap = some_overlap(m);
    t.scheduled_ms = at_ms;
    t.due_ms = max_of(at_ms, m->now_ms);
    t.cursor_ms = 0;
    t.schedule = (struct schedule){ 0 };
    if (chance(m, 25)) { /* a row of times that the rule left out */
        set_state(m, &t, TASK_SKIPPED);
        t.skipped_count = 1 + (int64_t)below(m, 4);
        t.cursor_ms = at_ms + 5 * (t.skipped_count - 1);
    }
    return t;
}

/* ---- operations ---- */

const struct idempotency *model_idempotency(struct model *m, size_t percent)
{
    struct idempotency i = {
        .tenant = chance(m, 50) ? TENANT : OTHER_TENANT,
        .key = { (uint8_t)below(m, 12) },
        .payload = { (uint8_t)below(m, 256) },
        .status = 200 + (int)below(m, 5),
        .answer = some_text(m),
        .created_ms = m->now_ms,
    };
    return chance(m, percent) ? copy_of(m, &i, sizeof i) : NULL;
}

/* Sometimes, where all are of one tenant; most often wide enough. */
static void limit(struct model *m, struct op_insert *op)
{
    for (size_t i = 1; i < op->count; i++)
        if (op->tasks[i].tenant != op->tasks[0].tenant)
            return;
    if (!chance(m, 10))
        return;
    op->max_pending = (int64_t)below(m, 400);
    op->max_recurring = (int64_t)below(m, 40);
}

static void make_insert(struct model *m, union any_op *op)
{
    struct task v[INSERT_MAX], there;
    struct uuid from[INSERT_MAX] = { 0 };
    size_t n = 1 + below(m, INSERT_MAX);
    bool takes_over = chance(m, 30);
    for (size_t i = 0; i < n; i++) {
        v[i] = model_task(m);
        if ((chance(m, 10) || m->pool_count == POOL_MAX) && model_look(m, &there)) {
            v[i].id = there.id; /* repeated, or clashing */
            v[i].tenant = there.tenant;
            v[i].created_ms = there.created_ms + (chance(m, 30) ? 1 : 0);
        }
        if (v[i].target == TARGET_WORKFLOW && v[i].kind == TASK_ONE_TIME)
            v[i].links = TASK_KEEPS_OUTPUT;
        model_dedupe(m, &v[i]);
        bool held = v[i].dedupe_key.n &&
                    reader_dedupe(m->reader, v[i].tenant, v[i].dedupe_key, v[i].created_ms, &from[i], NULL) == ERR_OK;
        if (!held || chance(m, 20)) /* nobody to take it from, or from another than who has it */
            from[i] = model_look(m, &there) ? there.id : v[i].id;
        model_know(m, &v[i]);
    }
    op->insert = (struct op_insert){ .op.kind = OP_INSERT,
                                     .tasks = copy_of(m, v, n * sizeof *v),
                                     .count = n,
                                     .takes_over = takes_over ? copy_of(m, from, n * sizeof *from) : NULL,
                                     .definition = chance(m, 5) ? model_definition(m, v[0].tenant) : NULL,
                                     .idempotency = model_idempotency(m, 12) };
    model_depend_insert(m, &op->insert);
    if (!op->insert.depends) /* a child that is skipped at once counts in no limit */
        limit(m, &op->insert);
}

/* Mostly of tasks that may be claimed. */
static struct lane some_lane_of(struct model *m)
{
    struct task t;
    if (chance(m, 20) && model_look_for_target(m, TASK_SCHEDULED, TARGET_WORKFLOW, &t))
        return task_lane(&t);
    if (chance(m, 90) && look_for_state(m, TASK_SCHEDULED, &t))
        return task_lane(&t);
    return (struct lane){ .tenant = chance(m, 70) ? TENANT : OTHER_TENANT,
                          .queue = one_of(m, model_queues, array_count(model_queues)),
                          .priority = some_priority(m),
                          .late = chance(m, 50) };
}

/* No lane twice, and no late one for a lease. */
static struct lane_quota *some_lanes(struct model *m, size_t max, bool leased, size_t *ret_count)
{
    struct lane_quota *v = arena_array(&m->arena, struct lane_quota, max);
    size_t n = 0;
    for (size_t i = 0; i < max; i++) {
        struct lane lane = some_lane_of(m);
        lane.late = lane.late && !leased;
        size_t j = 0;
        while (j < n && !lane_eq(&v[j].lane, &lane))
            j++;
        if (j == n)
            v[n++] = (struct lane_quota){ lane, below(m, 10) };
    }
    *ret_count = n;
    return v;
}

/* Lines of one lane or several; together they have all lanes. */
static struct claim_line *some_lines(struct model *m, size_t lanes, size_t *ret_count)
{
    struct claim_line *v = arena_array(&m->arena, struct claim_line, lanes);
    size_t n = 0;
    for (size_t left = lanes; left > 0; left -= v[n++].lanes)
        v[n] = (struct claim_line){ 1 + below(m, chance(m, 50) ? left : min_of(left, (size_t)2)), below(m, 20) };
    *ret_count = n;
    return v;
}

void model_make_claim(struct model *m, union any_op *op)
{
    size_t count, lines = 0;
    const struct lease_terms *terms = model_terms(m);
    struct lane_quota *some = some_lanes(m, 1 + below(m, 80), terms != NULL, &count);
    struct claim_line *line = chance(m, 75) ? some_lines(m, count, &lines) : NULL;
    op->claim = (struct op_claim){
        .op.kind = OP_CLAIM,
        .claim = uuid_next(&m->ids, m->now_ms),
        .node = model_node(m),
        .lease = terms,
        .lanes = some,
        .lane_count = count,
        .lines = line,
        .line_count = lines,
        .now_ms = m->now_ms,
        .until_ms = m->now_ms + (int64_t)below(m, 30),
        .max = 1 + below(m, chance(m, 30) ? 4 : 40),
        .max_bytes = chance(m, 30) ? below(m, 120) : 1 << 20,
        .max_suspects = below(m, 4),
        .own = model_own(m),
        .help_after_ms = (int64_t)below(m, 20),
    };
    struct task t; /* behind another operation of the batch, the claim may be gone by then */
    if (m->first && chance(m, 10) && look_for_state(m, TASK_RUNNING, &t) && !uuid_is_nil(t.claim))
        op->claim.claim = t.claim;
}

static void make_claimed(struct model *m, union any_op *op)
{
    struct task t;
    bool known = look_for_state(m, TASK_RUNNING, &t) && t.state == TASK_RUNNING;
    op->claimed =
        (struct op_claimed){ .op.kind = OP_CLAIMED, .claim = known ? t.claim : uuid_next(&m->ids, m->now_ms) };
}

static void make_held(struct model *m, union any_op *op)
{
    op->held = (struct op_orphans){ .op.kind = OP_ORPHANS,
                                    .not_node = model_node(m),
                                    .max = chance(m, 50) ? 1 + below(m, 10) : 1000 };
}

static struct execution make_execution(struct model *m, const struct task *t)
{
    bool occurrence = t->kind == TASK_OCCURRENCE;
    char bytes[17];
    memcpy(bytes, t->id.b, 16);
    bytes[16] = (char)t->fence;
    return (struct execution){
        .id = uuid_derived(t->due_ms, (struct str){ bytes, sizeof bytes }),
        .tenant = t->tenant,
        .task = occurrence ? t->parent : t->id,
        .occurrence = occurrence ? t->id : (struct uuid){ 0 },
        .scheduled_ms = t->scheduled_ms,
        .due_ms = t->due_ms,
        .started_us = near(m, -10, 10) * 1000 + (int64_t)below(m, 1000),
        .completed_us = near(m, 10, 20) * 1000,
        .attempt = t->attempts + 1,
        .fence = t->fence,
        .status = (enum execution_status)below(m, 4),
        .http_status = (int)below(m, 600),
        .worker = S("node"),
        .error = some_text(m),
        .output = some_text(m),
    };
}

static bool is_of_cancelled(struct model *m, const struct task *t)
{
    struct task parent;
    return !uuid_is_nil(t->parent) && reader_get(m->reader, t->tenant, t->parent, &m->arena, &parent, NULL) == ERR_OK &&
           schedule_is_cancelled(&parent);
}

static struct settlement make_settlement(struct model *m, const struct task *t)
{
    static const enum task_state next[] = { TASK_COMPLETED, TASK_SCHEDULED, TASK_SCHEDULED, TASK_SCHEDULED,
                                            TASK_FAILED,    TASK_CANCELLED, TASK_EXPIRED,   TASK_SKIPPED };
    int64_t fence = chance(m, 85) ? t->fence : t->fence + prng_between(&m->random, -1, 1);
    struct settlement v = {
        .id = t->id,
        .fence = max_of(fence, (int64_t)1),
        .parent = t->parent,
        .tenant = t->tenant,
        .verdict = { .next = next[below(m, array_count(next))],
                     .due_ms = near(m, 0, 30),
                     .awaited_ms = m->now_ms % 3 ? 0 : m->now_ms - 17,
                     .late_by = (enum late_cause)(m->now_ms % LATE_CAUSES),
                     .attempts = t->attempts + 1,
                     .losses = t->losses + (int)below(m, 2),
                     .has_execution = chance(m, 75),
                     .execution = make_execution(m, t),
                     .last_error = some_text(m) },
    };
    static const struct fingerprint causes[] = { { "0123456789abcdef" }, { "fedcba9876543210" }, { "" } };
    v.verdict.cause = causes[below(m, array_count(causes))];
    if (v.verdict.next == TASK_SCHEDULED && chance(m, 20))
        v.verdict.aside = one_of(m, model_hosts, array_count(model_hosts));
    v.verdict.recalled = v.verdict.next == TASK_SCHEDULED && chance(m, 20);
    bool of_cancelled = is_of_cancelled(m, t);
    if (!chance(m, of_cancelled ? 80 : 15))
        return v;
    struct task row = *t;
    row.version++;
    row.name = uuid_is_nil(t->run) ? one_of(m, model_names, array_count(model_names)) : t->name;
    row.due_ms = near(m, 0, 30);
    set_state(m, &row,
              chance(m, 10)                       ? TASK_CANCELLED
              : chance(m, of_cancelled ? 80 : 50) ? TASK_PAUSED
                                                  : TASK_SCHEDULED);
    if (chance(m, 30) && uuid_is_nil(t->run))
        set_key(m, &row);
    v.replace = copy_of(m, &row, sizeof row);
    return v;
}

void model_make_settle(struct model *m, union any_op *op)
{
    size_t n = 0, max = chance(m, 20) ? 1 : 1 + below(m, 6);
    struct settlement *v = arena_array(&m->arena, struct settlement, max);
    struct task t;
    while (n < max && look_for_state(m, TASK_RUNNING, &t))
        v[n++] = make_settlement(m, &t);
    op->settle = (struct op_settle){ .op.kind = OP_SETTLE,
                                     .v = v,
                                     .n = n,
                                     .now_ms = m->now_ms,
                                     .idempotency = n == 1 ? model_idempotency(m, 80) : NULL };
}

static void make_recurring(struct model *m, union any_op *op)
{
    op->recurring = (struct op_recurring){ .op.kind = OP_RECURRING,
                                           .until_ms = near(m, -10, 50),
                                           .max = chance(m, 50) ? 1 + below(m, 5) : 1000,
                                           .own = model_own(m),
                                           .taken_ms = (int64_t)below(m, 3) * 1000 };
    op->recurring.help_until_ms = op->recurring.until_ms - (int64_t)below(m, 20);
    struct task t;
    if (chance(m, 40) && look_for_recurring(m, &t)) {
        op->recurring.after_cursor_ms = chance(m, 90) ? t.cursor_ms : near(m, -10, 40);
        op->recurring.after_id = chance(m, 90) ? t.id : (struct uuid){ 0 };
    }
}

static void make_spawn(struct model *m, union any_op *op)
{
    struct task t = { .version = 1 }; /* or of nothing */
    if (!look_for_recurring(m, &t) || chance(m, 3))
        t.id = uuid_next(&m->ids, m->now_ms);
    size_t n = m->pool_count + 4 < POOL_MAX ? below(m, 4) : 0;
    struct spawn_plan plan = {
        { arena_array(&m->arena, struct task, 4), n }, t.cursor_ms + 5 * (int64_t)(n + 1), 1, 0, false, false
    };
    for (size_t i = 0; i < n; i++) {
        plan.occurrences.v[i] = make_occurrence(m, &t, t.cursor_ms + 5 * (int64_t)i);
        model_know(m, &plan.occurrences.v[i]);
    }
    plan.runs = (int64_t)n;
    plan.skipped = (int64_t)below(m, 3);
    plan.ended = chance(m, 8);
    op->spawn = (struct op_spawn){ .op.kind = OP_SPAWN,
                                   .id = t.id,
                                   .version = t.version + (chance(m, 8) ? 1 : 0),
                                   .cursor_ms = t.cursor_ms + (chance(m, 8) ? 1 : 0),
                                   .plan = copy_of(m, &plan, sizeof plan),
                                   .now_ms = m->now_ms };
}

/* Mostly with an end. */
static void set_pause(struct model *m, struct task *t)
{
    struct pause p = { .by = S("ops"), .reason = some_text(m), .since_ms = m->now_ms };
    p.until_ms = chance(m, 70) ? near(m, 1, 40) : 0;
    if (!task_set_pause(t, &p, &m->arena))
        abort();
}

/* What a user might make of it. */
static struct task changed(struct model *m, const struct task *t)
{
    struct task next = *t;
    next.version++;
    next.updated_ms = m->now_ms;
    if (chance(m, 30) && uuid_is_nil(t->run)) /* steps have no names */
        next.name = one_of(m, model_names, array_count(model_names));
    if (chance(m, 30) && t->state != TASK_RUNNING) /* a queue's limit counts what runs by where it was claimed */
        next.queue = one_of(m, model_queues, array_count(model_queues));
    if (chance(m, 30))
        next.due_ms = near(m, 0, 40);
    if (chance(m, 10))
        next.priority = some_priority(m);
    next.requires = !chance(m, 10) ? t->requires : chance(m, 50) ? S("eu,gpu") : (struct str){ 0 };
    if (chance(m, 30))
        task_forget_delays(&next);
    bool is_control = t->target == TARGET_WORKFLOW && !uuid_is_nil(t->run); /* it takes no slot */
    if (chance(m, 30) && t->state != TASK_RUNNING && !is_control) /* what runs keeps its key: nobody edits it */
        set_key(m, &next);
    if (chance(m, 10) && t->state != TASK_RUNNING && t->kind == TASK_OCCURRENCE)
        next.overlap = some_overlap(m);
    if (chance(m, 10))
        next.losses = 0;
    if (t->state == TASK_FAILED && chance(m, 50)) {
        next.resolved_ms = m->now_ms;
        next.resolution = some_text(m);
    }
    if (chance(m, 30) && t->kind == TASK_RECURRING)
        next.cursor_ms = near(m, -10, 40);
    enum task_state state = chance(m, 60) ? TASK_SCHEDULED : (enum task_state)below(m, TASK_EXPIRED + 1);
    if (chance(m, 60) && state != TASK_RUNNING && task_may_become(t->state, state))
        set_state(m, &next, state);
    if (t->state == TASK_BLOCKED && chance(m, 30))
        set_state(m, &next, TASK_CANCELLED);                               /* or all would wait in the end */
    bool opens = t->target == TARGET_WORKFLOW && t->state == TASK_RUNNING; /* perhaps by an operation of this batch */
    next.deleted = chance(m, 5) && uuid_is_nil(t->run) && !opens && !(t->links & TASK_OPENED); /* these go as one */
    if (next.deleted && !task_is_final(next.state))
        set_state(m, &next, TASK_CANCELLED);
    if (next.state == TASK_PAUSED && uuid_is_nil(next.run) && chance(m, 60))
        set_pause(m, &next);
    return next;
}

/* Mostly the schedule begins anew at one of the rows of times that the rule left out. Sometimes one has changed since. */
static void cut_rows(struct model *m, struct task *recurring, struct op_put *op)
{
    struct task_filter f = {
        .tenant = recurring->tenant, .parent = recurring->id, .states = 1U << TASK_SKIPPED, .limit = LIST_MAX
    };
    struct task_page page = { 0 };
    assert_int_equal(reader_list(m->reader, &f, &m->arena, &page, NULL), ERR_OK);
    struct spawn_cut *v = arena_array(&m->arena, struct spawn_cut, page.tasks.n + 1);
    for (size_t i = 0; i < page.tasks.n; i++) {
        const struct task *t = &page.tasks.v[i];
        int64_t stays = t->skipped_count ? (int64_t)below(m, (size_t)t->skipped_count) : 0;
        if (chance(m, 60))
            v[op->cut_count++] = (struct spawn_cut){ .id = t->id,
                                                     .first_ms = t->scheduled_ms,
                                                     .last_was_ms = t->cursor_ms,
                                                     .count_was = t->skipped_count + (chance(m, 10) ? 1 : 0),
                                                     .last_ms = t->scheduled_ms + 5 * max_of(stays - 1, (int64_t)0),
                                                     .count = stays,
                                                     .error = some_text(m) };
    }
    op->cuts = v;
    if (op->cut_count && chance(m, 70))
        recurring->cursor_ms = v[below(m, op->cut_count)].first_ms + (int64_t)below(m, 10);
}

/* A recurring task that has a claimed occurrence, if a few looks find one. */
static bool look_for_claimed_from(struct model *m, struct task *ret)
{
    struct task t;
    for (int i = 0; i < 4 && look_for_state(m, TASK_RUNNING, &t); i++)
        if (!uuid_is_nil(t.parent) && reader_get(m->reader, t.tenant, t.parent, &m->arena, ret, NULL) == ERR_OK)
            return true;
    return false;
}

static void make_put(struct model *m, union any_op *op)
{
    struct task t = model_task(m), also = model_task(m), there; /* t: there is none, unless one is found */
    bool cancels = m->cancels_percent && chance(m, m->cancels_percent) && look_for_claimed_from(m, &t);
    if (!cancels && chance(m, 97) && !(chance(m, 50) && look_for_recurring(m, &t)))
        (void)model_look(m, &t);
    struct task changes = changed(m, &t), *next = copy_of(m, &changes, sizeof changes);
    if (cancels || t.links & TASK_OPEN) /* it cannot go on without its claim */
        set_state(m, next, TASK_CANCELLED);
    op->put = (struct op_put){ .op.kind = OP_PUT,
                               .task = next,
                               .version = t.version + (chance(m, 8) ? 1 : 0),
                               .fence = t.fence + (chance(m, 5) ? 1 : 0),
                               .state = chance(m, 95) || t.state == TASK_RUNNING ? t.state : TASK_PAUSED,
                               .cursor_ms = t.cursor_ms + (chance(m, 8) ? 1 : 0),
                               .withdraw = chance(m, 60),
                               .withdraw_from_ms = chance(m, 40) ? 0 : near(m, -20, 20),
                               .idempotency = model_idempotency(m, 12) };
    if (t.kind == TASK_RECURRING && chance(m, 60))
        cut_rows(m, next, &op->put);
    if (!chance(m, 20)) {
        model_depend_put(m, &op->put);
        return;
    }
    if (t.kind == TASK_RECURRING) {
        struct uuid id = also.id;
        also = make_occurrence(m, &t, m->now_ms);
        also.id = id;
    }
    if (chance(m, 20) && !op->put.withdraw && model_look(m, &there)) { /* run-now withdraws nothing */
        also.id = there.id;
        also.created_ms = there.created_ms + (chance(m, 50) ? 1 : 0);
    }
    if (uuid_eq(also.id, t.id) || m->pool_count == POOL_MAX)
        return;
    model_dedupe(m, &also);
    op->put.also = copy_of(m, &also, sizeof also);
    if (!op->put.withdraw && next->state == op->put.state) /* as run-now does it */
        op->put.max_pending = 1 + m->now_ms % 400;
    model_know(m, &also);
}

static void make_missed(struct model *m, union any_op *op)
{
    struct task t;
    op->missed = (struct op_catch_up){ .op.kind = OP_CATCH_UP,
                                       .before_ms = near(m, -15, 20),
                                       .max = chance(m, 50) ? 1 + below(m, 3) : 1000 };
    if (chance(m, 30) && look_for_recurring(m, &t))
        op->missed.after = t.id;
}

static void make_lease(struct model *m, union any_op *op)
{
    static const char *const names[] = { "leader", "other" };
    op->lease = (struct op_lease){ .op.kind = OP_LEASE,
                                   .name = one_of(m, names, 2),
                                   .holder = model_node(m),
                                   .now_ms = m->now_ms,
                                   .ttl_ms = (int64_t)below(m, 200) };
}

void model_make(struct model *m, union any_op *ret)
{
    static const struct {
        void (*make)(struct model *, union any_op *);
        size_t weight;
    } rows[] = {
        { make_insert, 26 },       { model_make_claim, 25 },   { make_claimed, 5 },
        { make_held, 5 },          { model_make_settle, 36 },  { make_recurring, 5 },
        { make_spawn, 20 },        { make_put, 20 },           { make_missed, 7 },
        { make_lease, 8 },         { model_make_key_put, 3 },  { model_make_catalog, 10 },
        { model_make_forget, 5 },  { model_make_beat, 12 },    { model_make_bury, 4 },
        { model_make_share, 12 },  { model_make_recall, 24 },  { model_make_recall_list, 16 },
        { model_make_hand, 12 },   { model_make_handed, 5 },   { model_make_running, 5 },
        { model_make_retake, 16 }, { model_make_keep, 26 },    { model_make_leases_over, 6 },
        { model_make_worker, 4 },  { model_make_breakers, 4 }, { model_make_arrive, 4 },
        { model_make_open, 40 },   { model_make_await, 16 },   { model_make_signal, 12 },
        { model_make_stop, 10 },   { model_make_define, 3 },   { model_make_stats, 8 },
        { model_make_reseal, 6 },  { model_make_fold, 16 },
    };
    size_t sum = 0, i = 0;
    for (size_t j = 0; j < array_count(rows); j++)
        sum += rows[j].weight;
    size_t at = below(m, sum);
    while (at >= rows[i].weight)
        at -= rows[i++].weight;
    rows[i].make(m, ret);
    ret->op.audit = model_audit(m);
}

struct task_filter model_filter(struct model *m)
{
    struct task t;
    struct task_filter f = { .tenant = chance(m, 70) ? TENANT : OTHER_TENANT, .limit = 1 + below(m, 20) };
    if (chance(m, 30))
        f.states |= 1u << below(m, 9);
    if (chance(m, 30))
        f.states |= 1u << below(m, 9);
    f.by_kind = chance(m, 20);
    f.recurring = chance(m, 50);
    static const char *const names[] = { "report", "report*", "*", "clean%*", "r*", "nothing" };
    if (chance(m, 20))
        f.name = one_of(m, names, array_count(names));
    if (chance(m, 20))
        f.queue = one_of(m, model_queues, array_count(model_queues));
    if (chance(m, 20))
        f.task_type = one_of(m, model_types, array_count(model_types));
    if (chance(m, 20))
        f.due_before_ms = near(m, -20, 40);
    if (chance(m, 20))
        f.due_after_ms = near(m, -20, 40);
    if (chance(m, 10) && model_look(m, &t))
        f.created_before_ms = t.created_ms + below(m, 3);
    if (chance(m, 10) && model_look(m, &t))
        f.created_after_ms = t.created_ms + below(m, 3);
    f.brief = chance(m, 20);
    if (chance(m, 25) && look_for_recurring(m, &t))
        f.parent = t.id;
    f.occurrences = chance(m, 50);
    f.runs = chance(m, 15);
    if (chance(m, 15) && look_for_state(m, TASK_BLOCKED, &t))
        f.waits_for = t.waits_for;
    if (chance(m, 15) && look_for_state(m, TASK_FAILED, &t))
        f.cause = t.cause;
    f.by_resolved = chance(m, 15);
    f.resolved = chance(m, 50);
    f.shown_at_ms = f.resolved ? m->now_ms : 0; /* no draw of its own: the minima are for this sequence */
    if (chance(m, 30) && model_look(m, &t))
        f.before = t.id;
    if (chance(m, 20) && model_look(m, &t))
        f.from = t.id;
    f.offset = chance(m, 20) ? below(m, 5) : 0;
    return f;
}
