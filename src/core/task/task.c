#include "core/task/task.h"

#include <assert.h>

#include "base/hash.h"
#include "base/json/json.h"

#define BIT(s) (1u << TASK_##s)

/* The legal transitions (docs/STATE_MACHINE.md describes them). A row is a state; its bits are the states that may
 * follow. */
static const unsigned moves[] = {
    [TASK_SCHEDULED] =
        BIT(RUNNING) | BIT(PAUSED) | BIT(BLOCKED) | BIT(CANCELLED) | BIT(SKIPPED) | BIT(EXPIRED) | BIT(COMPLETED),
    [TASK_BLOCKED] = BIT(SCHEDULED) | BIT(PAUSED) | BIT(CANCELLED) | BIT(SKIPPED) | BIT(EXPIRED) | BIT(COMPLETED),
    [TASK_PAUSED] = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(CANCELLED) | BIT(SKIPPED) | BIT(EXPIRED) | BIT(COMPLETED),
    [TASK_RUNNING] = BIT(COMPLETED) | BIT(FAILED) | BIT(CANCELLED) | BIT(SCHEDULED) | BIT(PAUSED) | BIT(BLOCKED) |
                     BIT(SKIPPED) | BIT(EXPIRED),
    [TASK_FAILED] = BIT(SCHEDULED) | BIT(COMPLETED),
    [TASK_COMPLETED] = 0,
    [TASK_CANCELLED] = 0,
    [TASK_SKIPPED] = 0,
    [TASK_EXPIRED] = 0,
};

/* By a retry of a run, for the run and its steps. */
static const unsigned moves_again[] = {
    [TASK_FAILED] = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(PAUSED) | BIT(COMPLETED),
    [TASK_CANCELLED] = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(PAUSED) | BIT(COMPLETED),
    [TASK_EXPIRED] = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(PAUSED) | BIT(COMPLETED),
    [TASK_SKIPPED] = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(PAUSED),
};

static const char *const state_names[] = {
#define X(name) [TASK_##name] = #name,
    TASK_STATE_MAP(X)
#undef X
};

const char *const target_kind_names[] = {
    [TARGET_HTTP] = "HTTP_CALLBACK", [TARGET_MESSAGE] = "QUEUE_MESSAGE", [TARGET_COMMAND] = "COMMAND",
    [TARGET_WORKER] = "WORKER",      [TARGET_WORKFLOW] = "WORKFLOW",     [TARGET_NOOP] = "NOOP",
    [TARGET_KINDS] = NULL,
};

const char *const target_kind_choices[] = {
    [TARGET_HTTP] = "HTTP_CALLBACK", [TARGET_MESSAGE] = "QUEUE_MESSAGE", [TARGET_COMMAND] = "",
    [TARGET_WORKER] = "WORKER",      [TARGET_WORKFLOW] = "WORKFLOW",     [TARGET_NOOP] = "NOOP",
    [TARGET_KINDS] = NULL,
};

bool task_may_become(enum task_state from, enum task_state to)
{
    assert((size_t)from < array_count(moves) && (size_t)to < array_count(moves));
    return moves[from] >> to & 1;
}

bool task_may_begin_again(enum task_state from, enum task_state to)
{
    return (size_t)from < array_count(moves_again) && moves_again[from] >> to & 1;
}

bool task_is_final(enum task_state s)
{
    return s == TASK_COMPLETED || s == TASK_CANCELLED || s == TASK_SKIPPED || s == TASK_EXPIRED || s == TASK_FAILED;
}

bool task_waits_for_parents(const struct task *t)
{
    return t->state == TASK_BLOCKED && t->waits_for.n == 0;
}

bool task_awaits_attempt(const struct task *t, int64_t now_ms)
{
    return t->links & TASK_AGAIN && !task_is_final(t->state) && t->due_ms > now_ms;
}

enum task_state task_shown_state(const struct task *t, int64_t now_ms)
{
    if (t->links & TASK_AWAITS && (t->state == TASK_SCHEDULED || t->state == TASK_RUNNING))
        return TASK_BLOCKED;
    if (t->links & TASK_OPENED && (t->state == TASK_SCHEDULED || t->state == TASK_RUNNING))
        return task_awaits_attempt(t, now_ms) && !uuid_is_nil(t->run) ? TASK_SCHEDULED : TASK_RUNNING;
    return t->state == TASK_RUNNING && t->due_ms > now_ms ? TASK_SCHEDULED : t->state;
}

const char *task_state_name(enum task_state s)
{
    assert((size_t)s < array_count(state_names));
    return state_names[s];
}

bool task_state_parse(struct str text, enum task_state *ret)
{
    /* names that other schedulers use for the same states */
    static const struct {
        const char *name;
        enum task_state state;
    } aliases[] = {
        { "PENDING", TASK_SCHEDULED },
        { "IN_PROGRESS", TASK_RUNNING },
        { "SUCCESS", TASK_COMPLETED },
        { "DEAD_LETTERED", TASK_FAILED },
    };
    for (size_t i = 0; i < array_count(state_names); i++) {
        if (str_eq_nocase(text, str_from(state_names[i]))) {
            *ret = (enum task_state)i;
            return true;
        }
    }
    for (size_t i = 0; i < array_count(aliases); i++) {
        if (str_eq_nocase(text, str_from(aliases[i].name))) {
            *ret = aliases[i].state;
            return true;
        }
    }
    return false;
}

bool task_states_parse(struct str text, unsigned *ret)
{
    enum task_state state;
    if (str_eq_nocase(text, S("ACTIVE"))) {
        *ret = BIT(SCHEDULED) | BIT(BLOCKED) | BIT(RUNNING);
        return true;
    }
    bool known = task_state_parse(text, &state);
    if (known)
        *ret = 1U << state;
    return known;
}

const char *target_kind_name(enum target_kind k)
{
    assert((size_t)k < TARGET_KINDS);
    return target_kind_names[k];
}

const char *const priority_class_names[CLASSES] = {
    [CLASS_LOW] = "low", [CLASS_NORMAL] = "normal", [CLASS_HIGH] = "high"
};

enum priority_class priority_class_of(int priority)
{
    return priority >= 7 ? CLASS_HIGH : priority >= 4 ? CLASS_NORMAL : CLASS_LOW;
}

bool task_is_leased(const struct task *t)
{
    return t->target == TARGET_WORKER && !(t->links & TASK_PLANNED);
}

bool task_is_control(const struct task *t)
{
    return t->links & (TASK_OPENED | TASK_AWAITS) || (t->target == TARGET_WORKER && t->links & TASK_PLANNED);
}

struct lane task_lane(const struct task *t)
{
    bool control = task_is_control(t);
    struct lane lane = { .tenant = t->tenant, .queue = control ? S("") : t->queue, .priority = t->priority };
    if (control || t->target == TARGET_WORKER)
        return lane;
    lane.requires = t->requires;
    lane.cpu_milli = t->cpu_milli;
    lane.memory_mb = t->memory_mb;
    lane.host = t->aside;
    lane.late = task_is_late(t);
    return lane;
}

bool lane_eq(const struct lane *a, const struct lane *b)
{
    return a->tenant == b->tenant && a->priority == b->priority && a->cpu_milli == b->cpu_milli &&
           a->memory_mb == b->memory_mb && a->late == b->late && str_eq(a->queue, b->queue) &&
           str_eq(a->requires, b->requires) && str_eq(a->host, b->host);
}

int64_t lane_order_ms(const struct lane *lane, int64_t due_ms)
{
    int64_t ahead_ms = (int64_t)lane->priority * AGEING_MS;
    return due_ms < INT64_MIN + ahead_ms ? INT64_MIN : due_ms - ahead_ms;
}

uint64_t lane_bit(struct lane lane)
{
    uint64_t hash = hash_bytes(HASH_STABLE, lane.queue);
    hash = (hash ^ (uint64_t)lane.tenant * 16 ^ (uint64_t)lane.priority) * 0x9e3779b97f4a7c15;
    return (uint64_t)1 << (hash >> 58);
}

bool task_is_suspect(const struct task *t)
{
    return t->losses >= SUSPECT_LOSSES;
}

bool task_is_late(const struct task *t)
{
    return t->delivery == DELIVER_AT_MOST_ONCE || t->concurrency_key.n > 0 || t->recalled;
}

void task_forget_delays(struct task *t)
{
    t->aside = S("");
    t->recalled = false;
}

bool task_is_unstarted(const struct task *t, int64_t now_ms)
{
    bool waits = !task_is_final(t->state) && task_shown_state(t, now_ms) != TASK_RUNNING;
    return t->kind == TASK_OCCURRENCE && t->runs_count && waits && !t->attempts && !t->losses && !t->started_ms;
}

int64_t task_running_since_ms(const struct task *t)
{
    bool is_open = t->links & TASK_OPENED && t->started_ms;
    return is_open ? t->started_ms : max_of(t->due_ms, uuid_time_ms(t->claim));
}

int64_t task_leased_ms(const struct task *t)
{
    return uuid_time_ms(t->claim);
}

/* If nothing else put it off, it waited for a worker to ask for it. */
enum late_cause task_lease_late_cause(const struct task *t)
{
    return t->late_by ? t->late_by : LATE_ROOM;
}

bool task_is_called_off(const struct task *t)
{
    bool ended = t->state == TASK_CANCELLED || t->state == TASK_EXPIRED;
    return t->kind == TASK_OCCURRENCE && t->runs_count && ended && !t->started_ms;
}

int64_t task_awaited_ms(const struct task *t)
{
    return t->awaited_ms ? t->awaited_ms : t->due_ms;
}

void task_put_off(struct task *t, int64_t due_ms, enum late_cause by)
{
    int64_t awaited_ms = task_awaited_ms(t);
    t->awaited_ms = awaited_ms == due_ms ? 0 : awaited_ms;
    t->late_by = due_ms - awaited_ms < LATE_MS ? LATE_NONE : by;
    t->due_ms = due_ms;
}

void task_set_due(struct task *t, int64_t due_ms)
{
    t->due_ms = due_ms;
    t->awaited_ms = 0;
    t->late_by = LATE_NONE;
}

int64_t task_expires_ms(const struct task *t)
{
    int64_t expires_ms;
    if (t->expires_after_ms == 0 || __builtin_add_overflow(t->scheduled_ms, t->expires_after_ms, &expires_ms))
        return INT64_MAX;
    return expires_ms;
}

bool task_may_expire(const struct task *t)
{
    bool waits = t->state == TASK_SCHEDULED || (t->state == TASK_BLOCKED && t->waits_for.n);
    return waits && t->expires_after_ms && t->kind != TASK_RECURRING && !t->deleted &&
           !(t->links & (TASK_OPENED | TASK_AWAITS));
}

struct str task_extra(const struct task *t, const char *name)
{
    struct json_cursor c = { .text = t->extra };
    struct str member, value, wanted = str_from(name);
    while (t->extra.n && json_next(&c, &member, &value))
        if (str_eq(member, wanted))
            return value;
    return (struct str){ NULL, 0 };
}

enum { TEXTS = 19 };

static void task_texts(struct task *t, struct str *ret[TEXTS])
{
    struct str *const texts[TEXTS] = {
        &t->queue,
        &t->name,
        &t->task_type,
        &t->retry.rules,
        &t->target_config,
        &t->payload,
        &t->extra,
        &t->trace,
        &t->schedule.cron,
        &t->schedule.time_zone,
        &t->schedule.calendar,
        &t->last_error,
        &t->concurrency_key,
        &t->waits_for,
        &t->dedupe_key,
        &t->cause,
        &t->resolution,
        &t->requires,
        &t->aside,
    };
    memcpy(ret, texts, sizeof texts);
}

bool task_copy(struct arena *a, const struct task *t, struct task *ret)
{
    struct task copy = *t;
    struct str *texts[TEXTS];
    task_texts(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++)
        if (texts[i]->n && !arena_str(a, *texts[i], texts[i]))
            return false;
    *ret = copy;
    return true;
}

size_t task_text_size(const struct task *t)
{
    struct task view = *t;
    struct str *texts[TEXTS];
    task_texts(&view, texts);
    size_t size = 0;
    for (size_t i = 0; i < TEXTS; i++)
        size += str_pack_size(*texts[i]);
    return size;
}

struct task task_pack(const struct task *t, char *at)
{
    struct task copy = *t;
    struct str *texts[TEXTS];
    task_texts(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++)
        *texts[i] = str_pack(*texts[i], &at);
    return copy;
}

/* The user wrote one field, so the faulty part of the expression is named in the sentence. */
static enum err task_cron_error(const struct error *why, struct error *e)
{
    bool whole = strcmp(why->field, "expression") == 0;
    return error_field(e, "cron_expression", "%s%s%s", whole ? "" : why->field, whole ? "" : ": ", why->text);
}

/* Spreads tasks evenly over a time span: the same task always gets the same place. */
static uint64_t task_spread_hash(struct uuid task)
{
    return hash_bytes(HASH_STABLE, uuid_bytes(&task));
}

int64_t schedule_spread(const struct schedule *s, struct uuid task)
{
    return recurrence_spread(&(struct recurrence){ .spread_ms = s->spread_ms, .hash = task_spread_hash(task) });
}

enum err schedule_rule(const struct schedule *s, struct uuid task, const struct tz *zone,
                       const struct calendar *calendar, int64_t created_ms, struct recurrence *ret, struct error *e)
{
    uint64_t hash = task_spread_hash(task);
    struct recurrence r = {
        .kind = s->cron.n ? RECUR_CRON : RECUR_INTERVAL,
        .interval_ms = s->interval_ms,
        .zone = zone,
        .gap = s->gap,
        .repeat = s->repeat,
        .calendar = calendar,
        .calendar_policy = s->calendar_policy,
        .start_ms = s->start_ms ? s->start_ms : created_ms,
        .end_ms = s->end_ms,
        .spread_ms = s->spread_ms,
        .hash = hash,
    };
    struct error why;
    if (r.kind == RECUR_CRON && cron_parse(s->cron, hash, &r.cron, &why))
        return task_cron_error(&why, e);
    *ret = r;
    return ERR_OK;
}

struct uuid occurrence_id(struct uuid parent, int64_t scheduled_ms)
{
    return uuid_derived_from(scheduled_ms, parent, scheduled_ms);
}
