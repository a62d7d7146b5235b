#include "core/notify/incident.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json/json.h"

enum { KEY_CAUSE = 24 }; /* so many bytes of a cause fit into a key */

const char *const incident_kind_names[INCIDENT_KINDS + 1] = {
#define X(name) [INCIDENT_##name] = #name,
    INCIDENT_KIND_MAP(X)
#undef X
};

const char *const incident_change_names[INCIDENT_CHANGES + 1] = {
#define X(name) [INCIDENT_CHANGE_##name] = #name,
    INCIDENT_CHANGE_MAP(X)
#undef X
};

const char *const notification_type_names[MESSAGE_TYPES + 1] = {
    [MESSAGE_NONE] = "",
    [MESSAGE_OPENED] = "incident.opened",
    [MESSAGE_REPEATED] = "incident.repeated",
    [MESSAGE_ESCALATED] = "incident.escalated",
    [MESSAGE_CLOSED] = "incident.closed",
    [MESSAGE_TEST] = "test",
    [MESSAGE_SUPPRESSED] = "suppressed",
};

void incident_key(struct uuid setting, enum incident_kind kind, struct str cause, char out[INCIDENT_KEY_TEXT])
{
    char id[UUID_TEXT + 1];
    uuid_format(setting, id);
    if (cause.n <= KEY_CAUSE)
        snprintf(out, INCIDENT_KEY_TEXT, "%s:%d:" STR_FMT, id, (int)kind, STR_ARG(cause));
    else
        snprintf(out, INCIDENT_KEY_TEXT, "%s:%d:%.8s%016" PRIx64, id, (int)kind, cause.p,
                 hash_bytes(HASH_STABLE, cause));
}

/* ---- the document ---- */

struct incident_task_json {
    struct str id;
    struct incident_task t;
};

struct incident_json {
    struct incident i;
    struct str id, setting;
    struct json_array tasks, recurring;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct incident_task_json, member)
static const struct json_field task_fields[] = {
    { .name = "id", .kind = JSON_KIND_STR, AT(id), .required = true },
    { .name = "name", .kind = JSON_KIND_STR, AT(t.name), .nullable = true },
    { .name = "queue", .kind = JSON_KIND_STR, AT(t.queue), .nullable = true },
    { .name = "scheduled_for", .kind = JSON_KIND_TIME, AT(t.scheduled_ms), .nullable = true },
    { .name = "attempt", .kind = JSON_KIND_I64, AT(t.attempt) },
    { .name = "http_status", .kind = JSON_KIND_I64, AT(t.http_status), .nullable = true },
    { .name = "error", .kind = JSON_KIND_STR, AT(t.error), .nullable = true },
};
#undef AT
static const struct json_field task_field = { .name = "tasks", .kind = JSON_KIND_OBJECT, .fields = task_fields, .count = array_count(task_fields) };
static const struct json_field id_field = { .name = "recurring", .kind = JSON_KIND_STR };
#define AT(member) .offset = offsetof(struct incident_json, member)
static const struct json_field incident_fields[] = {
    { .name = "id", .kind = JSON_KIND_STR, AT(id), .required = true },
    { .name = "setting", .kind = JSON_KIND_STR, AT(setting), .required = true },
    { .name = "kind", .kind = JSON_KIND_ENUM, AT(i.kind), .names = incident_kind_names, .required = true },
    { .name = "cause", .kind = JSON_KIND_STR, AT(i.cause) },
    { .name = "detail", .kind = JSON_KIND_STR, AT(i.detail) },
    { .name = "host", .kind = JSON_KIND_STR, AT(i.host) },
    { .name = "count", .kind = JSON_KIND_I64, AT(i.count) },
    { .name = "first_ms", .kind = JSON_KIND_I64, AT(i.first_ms) },
    { .name = "last_ms", .kind = JSON_KIND_I64, AT(i.last_ms) },
    { .name = "fails", .kind = JSON_KIND_I64, AT(i.fails) },
    { .name = "told", .kind = JSON_KIND_I64, AT(i.told) },
    { .name = "told_ms", .kind = JSON_KIND_I64, AT(i.told_ms) },
    { .name = "told_count", .kind = JSON_KIND_I64, AT(i.told_count) },
    { .name = "first_told_ms", .kind = JSON_KIND_I64, AT(i.first_told_ms) },
    { .name = "steps_told", .kind = JSON_KIND_I64, AT(i.steps_told) },
    { .name = "joined_ms", .kind = JSON_KIND_I64, AT(i.joined_ms) },
    { .name = "joined", .kind = JSON_KIND_I64, AT(i.joined), .min = 0, .max = INCIDENT_TASKS_MAX },
    { .name = "closed_ms", .kind = JSON_KIND_I64, AT(i.closed_ms) },
    { .name = "recovered", .kind = JSON_KIND_BOOL, AT(i.recovered) },
    { .name = "changed", .kind = JSON_KIND_BOOL, AT(i.changed) },
    { .name = "acked_ms", .kind = JSON_KIND_I64, AT(i.acked_ms) },
    { .name = "acked_by", .kind = JSON_KIND_STR, AT(i.acked_by) },
    { .name = "muted_until_ms", .kind = JSON_KIND_I64, AT(i.muted_until_ms) },
    { .name = "tasks", .kind = JSON_KIND_ARRAY, AT(tasks), .fields = &task_field, .count = 1, .size = sizeof(struct incident_task_json) },
    { .name = "recurring", .kind = JSON_KIND_ARRAY, AT(recurring), .fields = &id_field, .count = 1, .size = sizeof(struct str) },
    { .name = "recurring_more", .kind = JSON_KIND_I64, AT(i.recurring_more) },
};
#undef AT
/* clang-format on */

static enum err incident_damaged(struct error *e)
{
    return error_set(e, ERR_CORRUPT, "the document of an incident cannot be read");
}

static enum err incident_take_lists(const struct incident_json *d, struct arena *a, struct incident *ret,
                                    struct error *e)
{
    const struct incident_task_json *tasks = d->tasks.v;
    const struct str *recurring = d->recurring.v;
    ret->tasks = arena_array(a, struct incident_task, INCIDENT_TASKS_MAX);
    ret->recurring = arena_array(a, struct uuid, d->recurring.n + INCIDENT_TASKS_MAX);
    if (!ret->tasks || !ret->recurring)
        return error_no_room(e);
    for (size_t i = 0; i < min_of(d->tasks.n, (size_t)INCIDENT_TASKS_MAX); i++) {
        ret->tasks[ret->task_count] = tasks[i].t;
        if (!uuid_parse(tasks[i].id, &ret->tasks[ret->task_count++].id))
            return incident_damaged(e);
    }
    for (size_t i = 0; i < d->recurring.n; i++)
        if (!uuid_parse(recurring[i], &ret->recurring[ret->recurring_count++]))
            return incident_damaged(e);
    return ERR_OK;
}

enum err incident_read(struct str doc, struct arena *a, struct incident *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct incident_json d = { 0 };
    if (json_parse(doc, &json, e) || json_read(json.root, incident_fields, array_count(incident_fields), &d, a, e))
        return e->code == ERR_LIMIT ? ERR_LIMIT : incident_damaged(e);
    if (!uuid_parse(d.id, &d.i.id) || !uuid_parse(d.setting, &d.i.setting))
        return incident_damaged(e);
    if (incident_take_lists(&d, a, &d.i, e))
        return e->code;
    *ret = d.i;
    return ERR_OK;
}

void incident_write_task(struct jw *w, const struct incident_task *t)
{
    jw_object(w);
    jw_kv_uuid(w, "id", t->id);
    jw_kv_str_or_null(w, "name", t->name);
    jw_kv_str_or_null(w, "queue", t->queue);
    jw_kv_time_or_null(w, "scheduled_for", t->scheduled_ms);
    jw_kv_i64(w, "attempt", t->attempt);
    jw_kv_i64_or_null(w, "http_status", t->http_status);
    jw_kv_str_or_null(w, "error", t->error);
    jw_object_end(w);
}

static void incident_write_lists(struct jw *w, const struct incident *i)
{
    char id[UUID_TEXT + 1];
    jw_key(w, "tasks");
    jw_array(w);
    for (size_t k = 0; k < i->task_count; k++)
        incident_write_task(w, &i->tasks[k]);
    jw_array_end(w);
    jw_key(w, "recurring");
    jw_array(w);
    for (size_t k = 0; k < i->recurring_count; k++) {
        uuid_format(i->recurring[k], id);
        jw_str(w, str_from(id));
    }
    jw_array_end(w);
    jw_kv_i64(w, "recurring_more", i->recurring_more);
}

void incident_write(struct jw *w, const struct incident *i)
{
    jw_object(w);
    jw_kv_uuid(w, "id", i->id);
    jw_kv_uuid(w, "setting", i->setting);
    jw_kv_cstr(w, "kind", incident_kind_names[i->kind]);
    jw_kv_str(w, "cause", i->cause);
    jw_kv_str(w, "detail", i->detail);
    jw_kv_str(w, "host", i->host);
    jw_kv_i64(w, "count", i->count);
    jw_kv_i64(w, "first_ms", i->first_ms);
    jw_kv_i64(w, "last_ms", i->last_ms);
    jw_kv_i64(w, "fails", i->fails);
    jw_kv_i64(w, "told", i->told);
    jw_kv_i64(w, "told_ms", i->told_ms);
    jw_kv_i64(w, "told_count", i->told_count);
    jw_kv_i64(w, "first_told_ms", i->first_told_ms);
    jw_kv_i64(w, "steps_told", i->steps_told);
    jw_kv_i64(w, "joined_ms", i->joined_ms);
    jw_kv_i64(w, "joined", i->joined);
    jw_kv_i64(w, "closed_ms", i->closed_ms);
    jw_kv_bool(w, "recovered", i->recovered);
    jw_kv_bool(w, "changed", i->changed);
    jw_kv_i64(w, "acked_ms", i->acked_ms);
    jw_kv_str(w, "acked_by", i->acked_by);
    jw_kv_i64(w, "muted_until_ms", i->muted_until_ms);
    incident_write_lists(w, i);
    jw_object_end(w);
}

/* ---- hits ---- */

bool incident_kind_of(const struct setting *s, enum hit_kind hit, bool is_dead_letter, enum incident_kind *ret)
{
    switch (hit) {
    case HIT_SUCCESS: *ret = INCIDENT_SUCCESS; return s->on_success;
    case HIT_RETRY: *ret = INCIDENT_RETRY; return s->on_retry;
    case HIT_MISSED: *ret = INCIDENT_MISSED; return s->on_missed;
    case HIT_FAILURE: break;
    }
    *ret = is_dead_letter && s->on_dead_letter ? INCIDENT_DEAD_LETTER : INCIDENT_FAILURE;
    return s->on_failure || *ret == INCIDENT_DEAD_LETTER;
}

bool incident_is_every(const struct incident *i, const struct setting *s)
{
    bool is_state = i->kind == INCIDENT_ALERT; /* and no happening */
    return !is_state && (s->mode == SETTING_EVERY || i->kind == INCIDENT_SUCCESS || i->kind == INCIDENT_RETRY);
}

bool incident_is_open(const struct incident *i)
{
    return !i->closed_ms && i->kind != INCIDENT_SUCCESS;
}

static bool incident_add_recurring(struct incident *i, struct uuid parent, struct arena *a)
{
    for (size_t k = 0; k < i->recurring_count; k++)
        if (uuid_eq(i->recurring[k], parent))
            return true;
    if (i->recurring_count >= INCIDENT_RECURRING_MAX) {
        i->recurring_more++;
        return true;
    }
    struct uuid *v = arena_array(a, struct uuid, i->recurring_count + 1);
    if (!v)
        return false;
    if (i->recurring_count)
        memcpy(v, i->recurring, i->recurring_count * sizeof *v);
    v[i->recurring_count++] = parent;
    i->recurring = v;
    return true;
}

bool incident_add_task(struct incident *i, const struct incident_task *t, struct uuid parent, struct arena *a)
{
    if (!i->tasks && !(i->tasks = arena_array(a, struct incident_task, INCIDENT_TASKS_MAX)))
        return false;
    size_t at = 0; /* of a task that is there already, the latest is shown */
    while (at < i->task_count && !uuid_eq(i->tasks[at].id, t->id))
        at++;
    if (at < INCIDENT_TASKS_MAX)
        i->tasks[at] = *t;
    i->task_count = max_of(i->task_count, min_of(at + 1, (size_t)INCIDENT_TASKS_MAX));
    return uuid_is_nil(parent) || incident_add_recurring(i, parent, a);
}

void incident_join(struct incident *i, const struct incident_task *t, int64_t at_ms)
{
    if (!i->told)
        return;
    size_t at = 0;
    while (at + 1 < i->task_count && !uuid_eq(i->tasks[at].id, t->id))
        at++;
    memmove(i->tasks + 1, i->tasks, at * sizeof *i->tasks);
    i->tasks[0] = *t;
    i->joined += (int64_t)at >= i->joined; /* else it is one of them */
    i->joined_ms = i->joined_ms ? min_of(i->joined_ms, at_ms) : at_ms;
    if (i->acked_ms) { /* the steps begin again with the next message */
        i->acked_ms = i->first_told_ms = i->steps_told = 0;
        i->acked_by = S("");
    }
}

void incident_tell_joined(struct incident *i)
{
    i->joined_ms = i->joined = 0;
}

struct incident incident_before_joined(const struct incident *i)
{
    struct incident before = *i;
    size_t joined = min_of((size_t)i->joined, i->task_count);
    before.tasks = joined ? i->tasks + joined : i->tasks;
    before.task_count -= joined;
    before.count = max_of(i->count - (int64_t)joined, (int64_t)1);
    incident_tell_joined(&before);
    return before;
}

/* ---- what to do ---- */

static bool incident_awaits_recovery(const struct incident *i, const struct setting *s)
{
    return i->kind == INCIDENT_ALERT || (i->recurring_count && !incident_is_every(i, s));
}

static int64_t incident_muted_until(const struct incident *i, const struct setting *s)
{
    return max_of(i->muted_until_ms, s->muted_until_ms);
}

static bool incident_is_grave(const struct incident *i, const struct setting *s)
{
    return i->kind == INCIDENT_ALERT || (i->recurring_count ? max_of(i->fails, (int64_t)1) : i->count) >= s->after;
}

static int64_t incident_recovery_ms(const struct incident *i, int64_t now_ms)
{
    int64_t tenth_ms = (now_ms - i->last_ms) / 10;
    if (i->kind == INCIDENT_ALERT)
        return now_ms + ALERT_LOOK_MS;
    return now_ms + max_of(min_of(tenth_ms, (int64_t)RECOVERY_LATEST_MS), (int64_t)RECOVERY_EVERY_MS);
}

/* Whether something has happened that no message tells of. */
static bool incident_has_news(const struct incident *i, const struct setting *s)
{
    if (!i->told)
        return incident_is_grave(i, s);
    return incident_is_every(i, s) && !i->acked_ms && i->count > i->told_count;
}

/* The message that is due next, and when. INT64_MAX: none. */
static int64_t incident_next_message(const struct incident *i, const struct setting *s, struct incident_plan *ret)
{
    bool told = i->told > 0;
    int64_t at_ms = INT64_MAX;
    ret->tell = told ? MESSAGE_REPEATED : MESSAGE_OPENED;
    if (!told && incident_is_grave(i, s))
        at_ms = i->first_ms + s->group_wait_ms;
    if (told && !i->acked_ms)
        at_ms = i->told_ms + (incident_has_news(i, s) ? s->group_window_ms : s->repeat_every_ms);
    if (told && i->joined_ms)
        at_ms = min_of(at_ms, max_of(i->joined_ms + s->group_wait_ms, i->told_ms + JOINED_APART_MS));
    if (i->first_told_ms && !i->acked_ms && (size_t)i->steps_told < s->step_count) {
        int64_t step_ms = i->first_told_ms + s->steps[i->steps_told].after_ms;
        if (step_ms <= at_ms) {
            ret->tell = MESSAGE_ESCALATED;
            ret->step = i->steps_told + 1;
            at_ms = step_ms;
        }
    }
    return at_ms == INT64_MAX ? at_ms : max_of(at_ms, incident_muted_until(i, s));
}

struct incident_plan incident_plan(const struct incident *i, const struct setting *s, bool recovered, int64_t now_ms)
{
    struct incident_plan p = { 0 };
    if (i->closed_ms)
        return p;
    bool awaits = incident_awaits_recovery(i, s);
    int64_t message_ms = incident_next_message(i, s, &p);
    int64_t quiet_ms = i->last_ms + max_of(s->group_window_ms, s->group_wait_ms);
    if (awaits && recovered) {
        bool is_wanted = i->told ? s->on_recovered : incident_is_grave(i, s);
        bool is_told = is_wanted && now_ms >= incident_muted_until(i, s);
        return (struct incident_plan){ .tell = is_told ? MESSAGE_CLOSED : MESSAGE_NONE, .close = true };
    }
    if (message_ms <= now_ms)
        return (struct incident_plan){ .tell = p.tell, .step = p.step, .next_ms = now_ms };
    if (!awaits && quiet_ms <= now_ms && !incident_has_news(i, s)) /* what is muted, or too young, is told first */
        return (struct incident_plan){ .close = true };
    int64_t end_ms = awaits ? incident_recovery_ms(i, now_ms) : max_of(quiet_ms, now_ms + 1000);
    return (struct incident_plan){ .next_ms = min_of(message_ms, end_ms) };
}

void incident_carry_out(struct incident *i, const struct incident_plan *p, int64_t now_ms)
{
    if (p->tell == MESSAGE_OPENED || p->tell == MESSAGE_REPEATED) {
        i->told++;
        i->told_ms = now_ms;
        i->told_count = i->count;
        incident_tell_joined(i);
        i->first_told_ms = i->first_told_ms ? i->first_told_ms : now_ms;
    }
    if (p->tell == MESSAGE_ESCALATED)
        i->steps_told = p->step;
    if (p->close) {
        i->closed_ms = now_ms;
        i->recovered = (i->recurring_count > 0 || i->kind == INCIDENT_ALERT) && !i->changed;
    }
}

struct uuid notification_id(const struct incident *i, const struct incident_plan *p, int64_t now_ms)
{
    int64_t place = p->step * MESSAGE_TYPES + (int64_t)p->tell;
    return uuid_derived_from(now_ms, i->id, i->told * (SETTING_STEPS_MAX + 1) * MESSAGE_TYPES + place);
}
