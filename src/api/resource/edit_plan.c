/* What a change makes of a task: the fields that the body changes, then the action. Nothing is stored here. */
#include <stdio.h>

#include "api/auth/sender.h"
#include "api/resource/edit_internal.h"
#include "api/server/request_context.h"
#include "api/server/request_input.h"

static size_t edit_skip_blanks(struct str text, size_t at)
{
    while (at < text.n && (text.p[at] == ' ' || (text.p[at] >= '\t' && text.p[at] <= '\r')))
        at++;
    return at;
}

/* Whether two JSON texts differ at most in their blanks: an edit merges a configuration into a text without any. */
static bool edit_is_same_config(struct str a, struct str b)
{
    bool in_string = false, escaped = false;
    for (size_t i = 0, j = 0;; i++, j++) {
        i = in_string ? i : edit_skip_blanks(a, i);
        j = in_string ? j : edit_skip_blanks(b, j);
        if (i == a.n || j == b.n)
            return i == a.n && j == b.n;
        if (a.p[i] != b.p[j])
            return false;
        in_string = in_string != (a.p[i] == '"' && !escaped);
        escaped = in_string && a.p[i] == '\\' && !escaped;
    }
}

/* Whether the patch leaves the task as it is. Values of secret headers show only in the stored text. */
static bool edit_is_same(struct request *q, const struct edit *edit)
{
    const struct task *was = &edit->current;
    struct task next = edit->plan.task;
    struct task_context c = request_context(q);
    cleanup_with(buf_release) struct buf before, after;
    struct jw w;
    buf_init(&before, ANSWER_MAX);
    buf_init(&after, ANSWER_MAX);
    next.version = was->version;
    next.updated_ms = was->updated_ms;
    if (was->state == TASK_RUNNING) /* it was claimed, and need not be recalled */
        next.state = was->state;
    if (next.due_ms != was->due_ms || next.cursor_ms != was->cursor_ms || next.state != was->state ||
        !edit_is_same_config(next.target_config, was->target_config) || !str_eq(next.payload, was->payload) ||
        !str_eq(next.extra, was->extra))
        return false;
    jw_init(&w, &before);
    task_to_json(&w, was, &c);
    jw_init(&w, &after);
    task_to_json(&w, &next, &c);
    return !before.full && str_eq(buf_str(&before), buf_str(&after));
}

static enum err edit_plan_patch(struct request *q, struct edit *edit, struct error *e)
{
    struct task_context c = request_context(q);
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    bool withdraw = false;
    enum err rc = request_read_object(q, &doc, e);
    if (rc == ERR_OK)
        rc = task_patch_json(&edit->current, &doc, &c, &q->arena, &edit->plan.task, &withdraw, e);
    edit->plan.withdraw = withdraw;
    edit->plan.changes = rc == ERR_OK && !edit_is_same(q, edit);
    /* An edited schedule starts now: an old cursor must not draw it into the past. */
    bool moved = edit->plan.task.cursor_ms != edit->current.cursor_ms;
    edit->withdraw_from_ms = moved ? q->now_ms : 0;
    return rc;
}

/* Who resolved a dead letter, how and why: JSON text that is stored with the task. */
static enum err edit_set_resolution(struct request *q, struct edit *edit, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    buf_init(&text, 8 * ARCHIVE_REASON_MAX);
    jw_init(&w, &text);
    jw_object(&w);
    jw_kv_cstr(&w, "how", "archived");
    jw_kv_cstr(&w, "by", q->who.key_id);
    if (edit->reason.n)
        jw_kv_str(&w, "reason", edit->reason);
    jw_object_end(&w);
    bool fits = arena_str(&q->arena, buf_str(&text), &edit->plan.task.resolution);
    return fits ? ERR_OK : error_set(e, ERR_LIMIT, "the reason does not fit");
}

/* As a run that is open says it. */
static enum err edit_set_canceller(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    char text[160];
    struct str by;
    if (sender_own_name(q, r, &by, e))
        return e->code;
    by = by.n ? str_utf8_cut(by, sizeof text / 2) : S("a job");
    snprintf(text, sizeof text, "cancelled by " STR_FMT, STR_ARG(by));
    return arena_str(&q->arena, str_from(text), &edit->plan.task.last_error) ? ERR_OK : error_no_room(e);
}

/* Notes who paused the task, why and until when. If it was paused already, that pause goes on: what the request gives
 * is changed. */
static enum err edit_set_pause(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    struct task *t = &edit->plan.task;
    struct pause was, p = { .since_ms = q->now_ms };
    bool is_new = edit->plan.changes;
    if (!is_new && pause_body_is_empty(&edit->pause))
        return ERR_OK;
    if (!is_new)
        p = task_pause(t, &q->arena, &was) ? was : (struct pause){ .since_ms = t->updated_ms };
    was = p;
    pause_body_apply(&edit->pause, &p);
    if (!is_new && str_eq(was.reason, p.reason) && was.until_ms == p.until_ms)
        return ERR_OK;
    if (sender_own_name(q, r, &p.by, e))
        return e->code;
    p.by = p.by.n ? p.by : S("a job");
    edit->plan.changes = true;
    t->version = edit->current.version + 1;
    t->updated_ms = q->now_ms;
    return task_set_pause(t, &p, &q->arena) ? ERR_OK : error_no_room(e);
}

/* Applies the action to the current task, or to the task as the patch made it. Both together are one edit and one
 * version. */
static enum err edit_plan_action(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    struct task from = edit->is_patch ? edit->plan.task : edit->current;
    enum err rc = task_act(&from, edit->action, edit->force, NULL, request_new_id(q), q->now_ms, &edit->plan, e);
    if (rc == ERR_OK && edit->plan.changes && !edit->plan.has_also)
        edit->plan.task.version = edit->current.version + 1;
    if (rc == ERR_OK && edit->action == ACTION_RETRY && from.links & TASK_OPENED)
        edit->plan.task.links = task_links_again(edit->plan.task.links); /* a run: what failed of it runs again */
    bool cancels = rc == ERR_OK && edit->action == ACTION_CANCEL && edit->plan.changes;
    if (cancels && from.target == TARGET_WORKFLOW && from.kind != TASK_RECURRING && edit_set_canceller(q, r, edit, e))
        return e->code;
    if (rc == ERR_OK && edit->action == ACTION_PAUSE)
        return edit_set_pause(q, r, edit, e);
    return rc == ERR_OK && edit->action == ACTION_ARCHIVE && edit->plan.changes ? edit_set_resolution(q, edit, e) : rc;
}

enum err edit_plan(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    edit->plan = (struct action_plan){ 0 };
    edit->withdraw_from_ms = 0;
    enum err rc = edit->is_patch ? edit_plan_patch(q, edit, e) : ERR_OK;
    return rc == ERR_OK && edit->has_action ? edit_plan_action(q, r, edit, e) : rc;
}
