/* Makes a task from a body, new or edited. Both take the same path: the body is read over what exists (the defaults, or
 * the task), its fields are checked together, and the row is written from them. Internally the error is never NULL. */
#include "api/task/body.h"
#include "api/task/secret_headers.h"
#include "api/task/target.h"
#include "api/task/target_merge.h"
#include "core/task/retry_rules.h"

enum { TIMEOUT_DEFAULT_MS = 30000 };

struct task_maker {
    const struct task_context *c;
    struct task_body b;
    const struct task *current; /* NULL: a new task */
    struct arena *a;
    struct error *e;
};

/* ---- the kind, and the fields that only one kind has ---- */

static enum err task_make_find_kind(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    bool repeats = b->has.cron || b->has.interval;
    if (m->current) {
        if (b->has.type && (enum task_kind)b->type != t->kind)
            return error_field(m->e, "type", "is %s and cannot be changed; create a new task", kind_names[t->kind]);
    } else if (b->has.type && b->type == TASK_RECURRING && !repeats) {
        return error_field(m->e, "type", "is RECURRING, so cron_expression or interval_seconds is required");
    } else {
        t->kind = b->has.type ? (enum task_kind)b->type : repeats ? TASK_RECURRING : TASK_ONE_TIME;
    }
    if (b->has.cron && b->has.interval)
        return error_field(m->e, "interval_seconds",
                           "cannot be given together with cron_expression; give one of the two");
    return ERR_OK;
}

#define HAS(member) offsetof(struct task_body, has.member)
static const struct {
    const char *name;
    size_t has;
    enum task_kind of;
} task_make_kind_fields[] = {
    { "run_at", HAS(run_at), TASK_ONE_TIME },
    { "scheduled_at", HAS(scheduled_at), TASK_ONE_TIME },
    { "delay", HAS(delay), TASK_ONE_TIME },
    { "cron_expression", HAS(cron), TASK_RECURRING },
    { "interval_seconds", HAS(interval), TASK_RECURRING },
    { "time_zone", HAS(time_zone), TASK_RECURRING },
    { "calendar", HAS(calendar), TASK_RECURRING },
    { "calendar_policy", HAS(calendar_policy), TASK_RECURRING },
    { "dst_policy", HAS(dst), TASK_RECURRING },
    { "start_time", HAS(start), TASK_RECURRING },
    { "end_date", HAS(end), TASK_RECURRING },
    { "max_runs", HAS(max_runs), TASK_RECURRING },
    { "catch_up_mode", HAS(catch_up), TASK_RECURRING },
    { "catch_up_window_seconds", HAS(catch_up_window), TASK_RECURRING },
    { "overlap_policy", HAS(overlap), TASK_RECURRING },
    { "depends_on", HAS(depends_on), TASK_ONE_TIME },
    { "join", HAS(join), TASK_ONE_TIME },
};

static enum err task_make_check_kind_fields(struct task_maker *m, enum task_kind kind)
{
    if (kind == TASK_OCCURRENCE && m->b.has.spread)
        return error_field(m->e, "spread_seconds", "is a field of the recurring task; change it there");
    for (size_t i = 0; i < array_count(task_make_kind_fields); i++) {
        bool has = *((const bool *)&m->b + task_make_kind_fields[i].has);
        if (!has || task_make_kind_fields[i].of == kind)
            continue;
        if (task_make_kind_fields[i].of == TASK_RECURRING)
            return error_field(m->e, task_make_kind_fields[i].name, "is only for recurring tasks");
        bool is_time = task_make_kind_fields[i].has < HAS(cron);
        return error_field(m->e, task_make_kind_fields[i].name, "is only for one-time tasks%s",
                           kind == TASK_RECURRING && is_time ? "; a recurring task begins at start_time" : "");
    }
    return ERR_OK;
}

/* ---- time ---- */

static enum err task_make_set_time(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    if (b->has.run_at && b->has.scheduled_at)
        return error_field(m->e, "scheduled_at", "is another name of run_at; give one of the two");
    if (b->has.delay && (b->has.run_at || b->has.scheduled_at))
        return error_field(m->e, "delay", "cannot be given together with run_at; give one of the two");
    bool named = b->has.delay || b->has.run_at || b->has.scheduled_at;
    bool spreads = m->current && b->spread_ms != task_spread_ms(m->current);
    if (m->current && !named && !spreads)
        return ERR_OK;
    if (m->current && task_is_final(t->state))
        return error_field(m->e,
                           b->has.delay ? "delay"
                           : named      ? "run_at"
                                        : "spread_seconds",
                           "cannot be changed: the task is %s; retry it", task_state_name(t->state));
    int64_t now_ms = m->c->now_ms;
    if (named || !m->current)
        t->scheduled_ms = b->has.run_at         ? b->run_at_ms
                          : b->has.scheduled_at ? b->scheduled_at_ms
                                                : now_ms + b->delay_ms; /* no delay: now */
    int64_t at_ms = t->scheduled_ms + schedule_spread(&(struct schedule){ .spread_ms = b->spread_ms }, t->id);
    task_set_due(t, t->scheduled_ms);
    task_put_off(t, max_of(now_ms, at_ms) + (b->delay_ms ? m->c->behind_ms : 0),
                 at_ms > now_ms ? LATE_SPREAD : LATE_CREATED);
    return ERR_OK;
}

/* ---- retries ---- */

static enum err task_make_set_retry(struct task_maker *m, struct task *t)
{
    struct retry_body *r = &m->b.retry;
    if (m->b.has.max_retries && r->has.max_attempts)
        return error_field(m->e, "max_retries", "means retry.max_attempts - 1; give one of the two");
    if (m->b.has.max_retries)
        r->max_attempts = m->b.max_retries + 1;
    bool becomes_run = m->b.target == TARGET_WORKFLOW && (!m->current || m->current->target != TARGET_WORKFLOW);
    if (becomes_run && !m->b.has.max_retries && !r->has.max_attempts)
        r->max_attempts = 1; /* a further attempt runs again what failed, which its user asks for */
    if (!r->has.max_delay_ms)
        r->max_delay_ms = max_of(r->max_delay_ms, r->base_delay_ms);
    if (r->max_delay_ms < r->base_delay_ms)
        return error_field(m->e, "retry.max_delay_ms", "must be at least base_delay_ms, which is %lld",
                           (long long)r->base_delay_ms);
    if (r->rules && retry_rules_check(m->b.text.rules, m->e))
        return error_in(m->e, "retry.rules");
    t->retry = (struct retry_policy){
        .max_attempts = (int)r->max_attempts,
        .backoff = (enum backoff)r->backoff,
        .base_delay_ms = r->base_delay_ms,
        .max_delay_ms = r->max_delay_ms,
        .jitter = (enum jitter)r->jitter,
        .rules = m->b.text.rules,
    };
    return ERR_OK;
}

/* ---- target ---- */

static enum err task_make_keep_secrets(struct task_maker *m, enum target_kind kind, struct str config, struct task *t)
{
    struct secret_sealer sealer = { m->c->secrets, m->c->tenant, m->current ? task_secrets_row(m->current) : m->c->id,
                                    m->c->keeps_hidden, m->c->keeps_sealed };
    return secret_headers_keep(m->current, kind, config, &sealer, m->a, &t->target_config, m->e);
}

/* The payload of a task with a type is data of its user, and only names the url. Without a type it describes the target
 * and nothing else, so that a misspelled member is found. */
static enum err task_make_set_short_target(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    bool mixed = b->has.type_as_task_type && !json_object_get(b->payload, "body");
    struct str rest = { NULL, 0 };
    if (mixed ? target_from_mixed(b->payload, b->text.payload, m->a, &t->target_config, &rest, m->e)
              : target_from_short(b->payload, b->text.payload, m->a, &t->target_config, m->e))
        return error_in(m->e, "payload");
    t->target = TARGET_HTTP;
    t->payload = rest;
    return task_make_keep_secrets(m, TARGET_HTTP, t->target_config, t);
}

#define HAS_NO_EFFECT "has no effect for a WORKFLOW; give it to the steps of its definition"

/* No worker runs a workflow. An edit finds no such field in the task, and one in its body is refused likewise. */
static enum err task_make_check_workflow(struct task_maker *m)
{
    const struct task_body *b = &m->b;
    if (b->target != TARGET_WORKFLOW)
        return ERR_OK;
    const struct {
        const char *name;
        bool has;
    } rows[] = {
        { "payload", b->has.payload },
        { "timeout_ms", b->has.timeout },
        { "requires", b->has.requires },
        { "resources", b->has.resources },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (rows[i].has)
            return error_field(m->e, rows[i].name,
                               i ? HAS_NO_EFFECT : "has no effect for a WORKFLOW; give it as target_config.input");
    return ERR_OK;
}

/* The timeout in a stored target_config; 0: none. */
static int64_t task_make_config_timeout(struct str config)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (config.n == 0 || json_parse(config, &doc, NULL))
        return 0;
    return json_integer_value(json_object_get(doc.root, "timeout_ms"));
}

/* The timeout of the config wins. In an edit it must be changed in the config. A WORKER task has no limit unless one is
 * given: its lease ends if its worker falls silent. */
static enum err task_make_set_timeout(struct task_maker *m, int64_t config_ms, struct task *t)
{
    const struct task_body *b = &m->b;
    int64_t old_ms = m->current ? task_make_config_timeout(m->current->target_config) : 0;
    bool stays = old_ms && (!b->has.target_config || (config_ms && !json_object_get(b->target_config, "timeout_ms")));
    if (stays && b->has.timeout)
        return error_field(m->e, "timeout_ms", "is set by target_config.timeout_ms; change it there");
    bool removed = old_ms && b->has.target_config && !b->has.timeout;
    int64_t given_ms = config_ms ? config_ms : removed ? 0 : b->timeout_ms;
    bool unlimited = t->target == TARGET_WORKER || t->target == TARGET_WORKFLOW;
    t->timeout_ms = given_ms || unlimited ? given_ms : TIMEOUT_DEFAULT_MS;
    return ERR_OK;
}

/* The runner checks it again: an operator may have changed the rules, or have others for the workers. */
static enum err task_make_check_broker(struct task_maker *m, json_t *config)
{
    struct message_target target;
    struct tenant_rules tenant = { 0 };
    if (!m->c->brokers)
        return ERR_OK;
    if (m->c->catalog)
        (void)catalog_cache_tenant(m->c->catalog, m->c->tenant, m->a, &tenant);
    return message_target_check(config, m->a, &target, m->e) ||
                   broker_rules_check(m->c->brokers, &target, tenant.name, m->e)
               ? m->e->code
               : ERR_OK;
}

/* The config in the body; in an edit merged into the present one, or into nothing if the kind of target is another. */
static enum err task_make_set_config(struct task_maker *m, enum target_kind kind, int64_t *ret_timeout_ms,
                                     struct task *t)
{
    const struct task_body *b = &m->b;
    cleanup_with(json_doc_release) struct json_doc merged = { 0 };
    struct str text = b->text.target_config;
    json_t *config = b->target_config;
    if (m->current && json_is_object(config)) {
        struct str before = kind == m->current->target ? m->current->target_config : S("");
        if (kind == TARGET_WORKFLOW && target_unbind(before, config, m->a, &before, m->e))
            return m->e->code;
        if (target_merge(before, text, m->a, &text, m->e))
            return m->e->code;
        if (json_parse(text, &merged, m->e))
            return error_in(m->e, "target_config");
        config = merged.root;
    }
    if (target_check(kind, config, m->a, ret_timeout_ms, m->e) ||
        (kind == TARGET_MESSAGE && task_make_check_broker(m, config)))
        return error_in(m->e, "target_config");
    return task_make_keep_secrets(m, kind, text, t);
}

static enum err task_make_set_target(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    enum target_kind kind = (enum target_kind)b->target;
    if (task_make_check_workflow(m))
        return ERR_INVALID;
    bool is_new_kind = !m->current || kind != t->target;
    if (kind == TARGET_HTTP && is_new_kind && !b->has.target_config)
        return error_field(m->e, "target_config", "is required for an HTTP_CALLBACK: {\"url\": \"https://…\"}");
    if (kind == TARGET_WORKFLOW && is_new_kind && !b->has.target_config)
        return error_field(m->e, "target_config", "is required for a WORKFLOW: {\"workflow\": \"name\"}");
    if (kind == TARGET_MESSAGE && is_new_kind && !b->has.target_config)
        return error_field(m->e, "target_config",
                           "is required for a QUEUE_MESSAGE: {\"broker\": \"name\", \"destination\": \"…\"}");
    int64_t timeout_ms = 0;
    if (b->has.target_config && task_make_set_config(m, kind, &timeout_ms, t))
        return m->e->code;
    t->target = kind;
    if (is_new_kind) /* a step keeps its output if others refer to it */
        t->links = kind == TARGET_WORKFLOW ? t->links | TASK_KEEPS_OUTPUT : t->links & ~TASK_KEEPS_OUTPUT;
    if (!b->has.target_config && is_new_kind)
        t->target_config = (struct str){ NULL, 0 };
    return task_make_set_timeout(m, timeout_ms, t);
}

static enum err task_make_set_any_target(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    t->payload = b->text.payload;
    if (m->current || b->has.target || b->has.target_config)
        return task_make_set_target(m, t);
    if (target_is_short(b->payload)) {
        enum err rc = task_make_set_short_target(m, t);
        return rc ? rc : task_make_set_timeout(m, 0, t);
    }
    if (b->has.type_as_task_type || m->c->only_times) {
        t->target = b->has.type_as_task_type ? TARGET_WORKER : TARGET_NOOP;
        return task_make_set_timeout(m, 0, t);
    }
    return error_field(m->e, "target_config",
                       "is required: {\"url\": \"https://…\"}, or a target_type that needs none");
}

/* ---- the row ---- */

static enum err task_make_check_size(struct task_maker *m, const struct task *t)
{
    size_t size = t->payload.n + t->target_config.n;
    bool named = !m->current || m->b.has.payload || m->b.has.target_config; /* otherwise it was accepted before */
    if (!named || !m->c->payload_bytes || size <= (size_t)m->c->payload_bytes)
        return ERR_OK;
    error_set(m->e, ERR_LIMIT, "is %lld for this tenant, and payload and target_config together have %zu",
              (long long)m->c->payload_bytes, size);
    return error_in(m->e, "payload_bytes");
}

static enum err task_make_row(struct task_maker *m, struct task *t)
{
    const struct task_body *b = &m->b;
    if (task_make_find_kind(m, t) || task_make_check_kind_fields(m, t->kind))
        return ERR_INVALID;
    t->name = b->name;
    t->task_type = b->task_type;
    t->queue = b->queue;
    t->priority = (int)b->priority;
    t->delivery = (enum delivery)b->delivery;
    enum err rc = task_make_set_retry(m, t);
    if (rc == ERR_OK)
        rc = task_set_conflicts(b, m->current, t, m->e);
    if (rc == ERR_OK)
        rc = task_set_depends(b, m->current, t, m->c, m->a, m->e);
    if (rc == ERR_OK)
        rc = task_make_set_any_target(m, t);
    if (rc == ERR_OK)
        rc = task_set_needs(b, m->a, t, m->e);
    if (rc == ERR_OK)
        rc = task_check_fleet(m->current, t, m->c, m->e);
    if (rc == ERR_OK)
        rc = task_make_check_size(m, t);
    if (rc == ERR_OK)
        rc = task_set_extra(b, m->c, m->a, t, m->e);
    if (rc == ERR_OK && t->kind == TASK_RECURRING)
        rc = task_set_schedule(b, m->current, m->c, t, m->e);
    else if (rc == ERR_OK)
        rc = task_make_set_time(m, t);
    return rc;
}

enum err task_from_json(const struct json_doc *body, const struct task_context *c, struct arena *a, struct task *ret,
                        struct error *e)
{
    struct error why = { 0 };
    struct task_maker m = { .c = c, .b = task_body_default, .a = a, .e = &why };
    struct task t = {
        .id = c->id,
        .tenant = c->tenant,
        .state = TASK_SCHEDULED,
        .version = 1,
        .created_ms = c->now_ms,
        .updated_ms = c->now_ms,
        .trace = c->trace,
    };
    enum err rc = task_body_read(body, &m.b, a, &why);
    if (rc == ERR_OK)
        rc = task_make_row(&m, &t);
    if (rc == ERR_OK && !task_copy(a, &t, ret))
        rc = error_no_room(&why);
    if (rc && e)
        *e = why;
    return rc;
}

/* ---- edits ---- */

static struct task_body task_make_body_of(const struct task *t)
{
    struct task_body b = task_body_default;
    const struct schedule *s = &t->schedule;
    b.type = t->kind;
    b.name = t->name;
    b.task_type = t->task_type;
    b.queue = t->queue;
    b.priority = t->priority;
    b.delivery = t->delivery;
    b.concurrency_key = t->concurrency_key;
    b.concurrency_limit = t->concurrency_limit;
    b.expires_ms = t->expires_after_ms;
    if (t->dedupe_key.n) {
        b.dedupe_key = t->dedupe_key;
        b.dedupe_window_ms = t->dedupe_window_ms;
        b.dedupe = t->dedupe;
        b.dedupe_max_wait_ms = t->dedupe_max_wait_ms;
    }
    b.timeout_ms = t->timeout_ms;
    b.required = t->requires;
    b.resources = (struct resources_body){ (double)t->cpu_milli / 1000, t->memory_mb };
    b.target = t->target;
    b.retry.max_attempts = t->retry.max_attempts;
    b.retry.base_delay_ms = t->retry.base_delay_ms;
    b.retry.max_delay_ms = t->retry.max_delay_ms;
    b.retry.backoff = t->retry.backoff;
    b.retry.jitter = t->retry.jitter;
    b.text.rules = t->retry.rules;
    b.text.payload = t->payload;
    b.text.target_config = t->target_config;
    b.spread_ms = task_spread_ms(t);
    if (t->kind != TASK_RECURRING)
        return b;
    b.cron = s->cron;
    b.interval_ms = s->interval_ms;
    b.time_zone = s->time_zone;
    b.calendar = s->calendar;
    b.calendar_policy = s->calendar_policy;
    b.dst = (struct dst_body){ s->gap, s->repeat };
    b.start_ms = s->start_ms;
    b.end_ms = s->end_ms;
    b.max_runs = s->max_runs;
    b.catch_up = s->catch_up;
    b.catch_up_window_ms = s->catch_up_window_ms;
    b.overlap = s->overlap;
    return b;
}

static enum err task_make_check_may_change(const struct task *t, int64_t now_ms, struct error *e)
{
    enum task_state state = task_shown_state(t, now_ms);
    if (t->deleted)
        return error_set(e, ERR_NOT_FOUND, "the task was deleted");
    if (state == TASK_RUNNING)
        return error_set(e, ERR_CONFLICT,
                         "the task is RUNNING and cannot be changed; wait for it to end, or cancel it");
    if (task_is_final(state) && state != TASK_FAILED && t->target == TARGET_WORKFLOW && t->kind != TASK_RECURRING) {
        char id[UUID_TEXT + 1];
        uuid_format(t->id, id);
        return error_set(e, ERR_CONFLICT, "the run is %s and cannot be changed; use POST /v1/workflows/%s/rerun",
                         task_state_name(state), id);
    }
    if (task_is_final(state) && state != TASK_FAILED)
        return error_set(e, ERR_CONFLICT, "the task is %s and cannot be changed; create a new task",
                         task_state_name(state));
    return ERR_OK;
}

/* If a BLOCKED task changed its concurrency key or its time, it no longer waits for the old slot. It becomes SCHEDULED,
 * and asks for a slot again when it is due. */
static void task_make_unblock(const struct task *before, struct task *t)
{
    bool same = str_eq(before->concurrency_key, t->concurrency_key) &&
                before->concurrency_limit == t->concurrency_limit && before->due_ms == t->due_ms;
    if (t->state != TASK_BLOCKED || !t->waits_for.n || same)
        return;
    t->state = TASK_SCHEDULED;
    t->waits_for = (struct str){ NULL, 0 };
}

static enum err task_make_patch(struct task_maker *m, const struct json_doc *body, struct task *t)
{
    if (task_make_check_may_change(t, m->c->now_ms, m->e))
        return m->e->code;
    m->b = task_make_body_of(t);
    m->b.text.metadata = task_extra(t, TASK_METADATA);
    m->b.text.expect = task_extra(t, TASK_EXPECT);
    m->b.text.notify = task_extra(t, TASK_NOTIFY);
    enum err rc = task_body_read(body, &m->b, m->a, m->e);
    if (rc)
        return rc;
    t->version++;
    t->updated_ms = m->c->now_ms;
    task_forget_delays(t);
    if (t->state == TASK_RUNNING) { /* claimed, but not fired: the caller recalls it first */
        t->state = TASK_SCHEDULED;
        t->claim = (struct uuid){ 0 };
    }
    rc = task_make_row(m, t);
    if (rc == ERR_OK)
        task_make_unblock(m->current, t);
    return rc;
}

enum err task_patch_json(const struct task *current, const struct json_doc *body, const struct task_context *c,
                         struct arena *a, struct task *ret, bool *ret_reschedules, struct error *e)
{
    struct error why = { 0 };
    struct task_maker m = { .c = c, .current = current, .a = a, .e = &why };
    struct task t = *current;
    enum err rc = task_make_patch(&m, body, &t);
    bool does_other = t.target != current->target || !str_eq(t.target_config, current->target_config) ||
                      !str_eq(t.payload, current->payload);
    if (current->target == TARGET_WORKFLOW && does_other)
        t.links |= TASK_NEW_INPUT;
    if (rc == ERR_OK && !task_copy(a, &t, ret))
        rc = error_no_room(&why);
    if (rc == ERR_OK)
        *ret_reschedules = t.kind == TASK_RECURRING;
    if (rc && e)
        *e = why;
    return rc;
}
