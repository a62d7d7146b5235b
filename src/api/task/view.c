/* Tasks as JSON. A field that the task's kind does not have is left out. A field that has no value yet is null. */
#include "api/task/body.h"
#include "api/task/secret_headers.h"
#include "core/sharing/slot.h"
#include "core/task/spawn.h"

static void task_view_kv_raw(struct jw *w, const char *name, struct str v)
{
    jw_key(w, name);
    jw_raw(w, v);
}

/* The next occurrence of a recurring task. It becomes a row of its own some seconds before its time, and the cursor is
 * then past it; and the cursor may be at a time that the rule leaves out: so the rule is asked, not the cursor. Once
 * the last of max_runs has had its time there is none, and the task is about to end. */
static int64_t task_view_next_occurrence(const struct task *t, const struct task_context *c)
{
    struct recurrence rule;
    struct occurrence next;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    bool ahead = c->zones && t->cursor_ms > c->now_ms;
    if (!ahead && t->schedule.max_runs && t->runs_count >= t->schedule.max_runs)
        return INT64_MAX;
    if (!c->zones || task_rule(t, c->zones, c->catalog, &rule, &base, NULL))
        return t->cursor_ms;
    bool left_out = !ahead && recurrence_next_entry(&rule, t->cursor_ms, t->cursor_ms + 1, &next) && !next.fires;
    int64_t from_ms = max_of(min_of(t->cursor_ms, c->now_ms), spawn_decided_until(t, &rule, c->now_ms));
    if ((!ahead && !left_out) || !recurrence_next(&rule, from_ms, &next))
        return t->cursor_ms; /* it is caught up on now */
    return next.at_ms;
}

bool task_next_execution(const struct task *t, const struct task_context *c, int64_t *ret_ms)
{
    if (task_is_final(t->state) || t->state == TASK_PAUSED || t->links & TASK_WAITS)
        return false;
    int64_t at_ms = t->kind == TASK_RECURRING ? task_view_next_occurrence(t, c) : t->due_ms;
    if (at_ms == INT64_MAX)
        return false;
    *ret_ms = at_ms;
    return true;
}

int64_t task_spread_ms(const struct task *t)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct str text = task_extra(t, "spread_seconds");
    if (t->kind == TASK_RECURRING)
        return t->schedule.spread_ms;
    return text.n && json_parse(text, &doc, NULL) == ERR_OK ? json_seconds_at(doc.root, "") : 0;
}

static void task_view_head(struct jw *w, const struct task *t, const struct task_context *c)
{
    jw_kv_uuid(w, "id", t->id);
    jw_kv_cstr(w, "status", task_state_name(task_shown_state(t, c->now_ms)));
}

static void task_view_next_execution(struct jw *w, const struct task *t, const struct task_context *c)
{
    int64_t next_ms = 0;
    bool known = task_next_execution(t, c, &next_ms);
    jw_key(w, "next_execution");
    if (known)
        jw_time(w, next_ms);
    else
        jw_null(w);
}

static void task_view_dst_policy(struct jw *w, const struct schedule *s)
{
    if (s->gap == DST_GAP_DEFAULT && s->repeat == DST_REPEAT_DEFAULT)
        return;
    jw_key(w, "dst_policy");
    jw_object(w);
    if (s->gap != DST_GAP_DEFAULT)
        jw_kv_cstr(w, "gap", gap_names[s->gap]);
    if (s->repeat != DST_REPEAT_DEFAULT)
        jw_kv_cstr(w, "overlap", repeat_names[s->repeat]);
    jw_object_end(w);
}

static void task_view_schedule(struct jw *w, const struct schedule *s)
{
    if (s->cron.n)
        jw_kv_str(w, "cron_expression", s->cron);
    else
        jw_kv_seconds(w, "interval_seconds", s->interval_ms);
    jw_kv_str(w, "time_zone", s->time_zone);
    if (s->calendar.n) {
        jw_kv_str(w, "calendar", s->calendar);
        jw_kv_cstr(w, "calendar_policy", calendar_policy_names[s->calendar_policy]);
    }
    task_view_dst_policy(w, s);
    jw_kv_time_or_null(w, "start_time", s->start_ms);
    jw_kv_time_or_null(w, "end_date", s->end_ms == INT64_MAX ? 0 : s->end_ms);
    jw_key(w, "max_runs");
    if (s->max_runs)
        jw_i64(w, s->max_runs);
    else
        jw_null(w);
    jw_kv_seconds(w, "spread_seconds", s->spread_ms);
    jw_kv_cstr(w, "catch_up_mode", catch_up_names[s->catch_up]);
    jw_kv_seconds(w, "catch_up_window_seconds", s->catch_up_window_ms);
    jw_kv_cstr(w, "overlap_policy", overlap_names[s->overlap]);
}

/* What became of the times of the rule that the row is about: skipped, or moved. */
static void task_view_ledger(struct jw *w, const struct task *t)
{
    struct str moved = task_extra(t, "moved");
    if (moved.n)
        task_view_kv_raw(w, "moved", moved);
    if ((t->state != TASK_SKIPPED && t->state != TASK_EXPIRED) || t->started_ms)
        return;
    jw_key(w, "skipped");
    jw_object(w);
    jw_kv_cstr(w, "reason", skip_reason_name(t));
    jw_kv_time(w, "from", t->scheduled_ms);
    jw_kv_time(w, "to", max_of(t->cursor_ms, t->scheduled_ms));
    jw_kv_i64(w, "count", skip_count(t));
    jw_object_end(w);
}

static void task_view_timing(struct jw *w, const struct task *t, const struct task_context *c)
{
    if (t->kind == TASK_RECURRING) {
        jw_key(w, "run_at");
        jw_null(w);
        task_view_schedule(w, &t->schedule);
    } else {
        jw_kv_time(w, "run_at", t->scheduled_ms);
        int64_t spread_ms = task_spread_ms(t);
        if (spread_ms)
            jw_kv_seconds(w, "spread_seconds", spread_ms);
    }
    if (t->kind == TASK_OCCURRENCE) {
        jw_kv_uuid(w, "parent_id", t->parent);
        jw_kv_time(w, "scheduled_for", t->scheduled_ms);
        task_view_ledger(w, t);
    }
    task_view_next_execution(w, t, c);
}

/* What a BLOCKED task waits for: a slot, or other tasks. */
static void task_view_waiting(struct jw *w, const struct task *t)
{
    jw_key(w, "waiting_for");
    jw_object(w);
    if (t->waits_for.n) {
        jw_kv_cstr(w, "kind", slot_kind_of(t->waits_for) == SLOT_OVERLAP ? "overlap" : "concurrency_key");
        jw_kv_str(w, "key", slot_key_name(t->waits_for));
    } else {
        jw_kv_cstr(w, "kind", "dependencies");
    }
    jw_object_end(w);
}

static void task_view_conflicts(struct jw *w, const struct task *t)
{
    int64_t expires_ms = task_expires_ms(t);
    if (t->concurrency_key.n) {
        jw_kv_str(w, "concurrency_key", t->concurrency_key);
        jw_kv_i64(w, "concurrency_limit", t->concurrency_limit);
    }
    if (t->waits_for.n || (task_waits_for_parents(t) && t->links & TASK_WAITS))
        task_view_waiting(w, t);
    if (t->dedupe_key.n) {
        jw_kv_str(w, "dedupe_key", t->dedupe_key);
        jw_kv_seconds(w, "dedupe_window_seconds", t->dedupe_window_ms);
        jw_kv_cstr(w, "dedupe_action", dedupe_names[t->dedupe]);
        if (t->dedupe_max_wait_ms)
            jw_kv_seconds(w, "dedupe_max_wait_seconds", t->dedupe_max_wait_ms);
    }
    if (t->expires_after_ms)
        jw_kv_seconds(w, "expires_after_seconds", t->expires_after_ms);
    if (t->kind != TASK_RECURRING && expires_ms != INT64_MAX)
        jw_kv_time(w, "expires_at", expires_ms);
}

/* The needs that a worker must meet. */
static void task_view_needs(struct jw *w, const struct task *t)
{
    struct str rest = t->requires, label;
    if (t->requires.n) {
        jw_key(w, "requires");
        jw_array(w);
        while (str_cut(&rest, ',', &label))
            jw_str(w, label);
        jw_array_end(w);
    }
    if (!t->cpu_milli && !t->memory_mb)
        return;
    jw_key(w, "resources");
    jw_object(w);
    if (t->cpu_milli) {
        jw_key(w, "cpu");
        jw_f64(w, (double)t->cpu_milli / 1000);
    }
    if (t->memory_mb)
        jw_kv_i64(w, "memory_mb", t->memory_mb);
    jw_object_end(w);
}

static void task_view_retry(struct jw *w, const struct retry_policy *r)
{
    jw_key(w, "retry");
    jw_object(w);
    jw_kv_i64(w, "max_attempts", r->max_attempts);
    jw_kv_cstr(w, "backoff", backoff_names[r->backoff]);
    jw_kv_i64(w, "base_delay_ms", r->base_delay_ms);
    jw_kv_i64(w, "max_delay_ms", r->max_delay_ms);
    jw_kv_cstr(w, "jitter", jitter_names[r->jitter]);
    if (r->rules.n)
        task_view_kv_raw(w, "rules", r->rules);
    jw_object_end(w);
}

static void task_view_target(struct jw *w, const struct task *t, const char *target)
{
    jw_kv_cstr(w, "target_type", target ? target : target_kind_name(t->target));
    jw_key(w, "target_config");
    secret_headers_hide(w, t->target_config.n ? t->target_config : S("{}"));
    if (t->payload.n)
        task_view_kv_raw(w, "payload", t->payload);
    bool expects = t->kind != TASK_OCCURRENCE && uuid_is_nil(t->run);
    const char *const names[] = { TASK_METADATA, TASK_NOTIFY, expects ? TASK_EXPECT : NULL };
    for (size_t i = 0; i < array_count(names); i++) {
        struct str text = names[i] ? task_extra(t, names[i]) : S("");
        if (text.n)
            task_view_kv_raw(w, names[i], text);
    }
    if (!uuid_is_nil(t->run))
        jw_kv_uuid(w, "run", t->run);
}

static void task_view_progress(struct jw *w, const struct task *t)
{
    jw_kv_i64(w, "version", t->version);
    jw_kv_time(w, "created_at", t->created_ms);
    jw_kv_time(w, "updated_at", t->updated_ms);
    jw_kv_time_or_null(w, "started_at", t->started_ms);
    jw_kv_time_or_null(w, "completed_at", t->completed_ms);
    jw_kv_i64(w, "attempts", t->attempts);
    jw_kv_str_or_null(w, "last_error", t->last_error);
    if (t->cause.n)
        jw_kv_str(w, "cause", t->cause);
    if (t->resolved_ms)
        jw_kv_time(w, "resolved_at", t->resolved_ms);
    if (t->resolution.n)
        task_view_kv_raw(w, t->state == TASK_PAUSED ? "paused" : "resolution", t->resolution);
    if (t->kind != TASK_RECURRING)
        return;
    jw_kv_i64(w, "runs_count", max_of(t->runs_count - t->unstarted_count, (int64_t)0));
    jw_kv_i64(w, "skipped_count", t->skipped_count);
    jw_kv_time_or_null(w, "last_run_at", t->last_run_ms);
}

static void task_view_names(struct jw *w, const struct task *t)
{
    jw_kv_cstr(w, "type", kind_names[t->kind]);
    jw_kv_str_or_null(w, "name", t->name);
    jw_kv_str_or_null(w, "task_type", t->task_type);
    jw_kv_str(w, "queue", t->queue);
    jw_kv_i64(w, "priority", t->priority);
}

void task_members_as(struct jw *w, const struct task *t, const struct task_context *c, const char *target)
{
    task_view_head(w, t, c);
    task_view_names(w, t);
    task_view_timing(w, t, c);
    task_view_conflicts(w, t);
    jw_kv_cstr(w, "delivery", delivery_names[t->delivery]);
    jw_kv_i64_or_null(w, "timeout_ms", t->timeout_ms);
    task_view_retry(w, &t->retry);
    task_view_needs(w, t);
    task_view_target(w, t, target);
    task_view_progress(w, t);
}

void task_members(struct jw *w, const struct task *t, const struct task_context *c)
{
    task_members_as(w, t, c, NULL);
}

void task_to_json(struct jw *w, const struct task *t, const struct task_context *c)
{
    jw_object(w);
    task_members(w, t, c);
    jw_object_end(w);
}

/* What a list shows of a task: all but what is sent, to whom, and how it is tried again. */
void task_summary_to_json(struct jw *w, const struct task *t, const struct task_context *c)
{
    jw_object(w);
    task_view_head(w, t, c);
    task_view_names(w, t);
    task_view_timing(w, t, c);
    if (t->waits_for.n || (task_waits_for_parents(t) && t->links & TASK_WAITS))
        task_view_waiting(w, t);
    jw_kv_cstr(w, "target_type", target_kind_name(t->target));
    task_view_progress(w, t);
    jw_object_end(w);
}

void task_brief_members(struct jw *w, const struct task *t, const struct task_context *c)
{
    task_view_head(w, t, c);
    task_view_next_execution(w, t, c);
}

void task_brief_to_json(struct jw *w, const struct task *t, const struct task_context *c)
{
    jw_object(w);
    task_brief_members(w, t, c);
    jw_object_end(w);
}
