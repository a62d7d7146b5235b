#include "core/notify/notification.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/rfc3339.h"

const char *const notification_state_names[MESSAGE_STATES + 1] = {
#define X(name) [MESSAGE_##name] = #name,
    MESSAGE_STATE_MAP(X)
#undef X
};

static const char *const notification_act_names[MESSAGE_ACTS + 1] = {
#define X(name) [MESSAGE_ACT_##name] = #name,
    MESSAGE_ACT_MAP(X)
#undef X
};

/* ---- the document ---- */

struct notification_json {
    struct notification m;
    struct str id, incident, setting, task;
    struct json_array history;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct notification_act, member)
static const struct json_field act_fields[] = {
    { .name = "at_ms", .kind = JSON_KIND_I64, AT(at_ms), .required = true },
    { .name = "what", .kind = JSON_KIND_ENUM, AT(what), .names = notification_act_names, .required = true },
    { .name = "by", .kind = JSON_KIND_STR, AT(by), .nullable = true },
    { .name = "http_status", .kind = JSON_KIND_I64, AT(http_status), .nullable = true },
    { .name = "error", .kind = JSON_KIND_STR, AT(error), .nullable = true },
};
#undef AT
static const struct json_field act_field = { .name = "history", .kind = JSON_KIND_OBJECT, .fields = act_fields, .count = array_count(act_fields) };
#define AT(member) .offset = offsetof(struct notification_json, member)
static const struct json_field notification_fields[] = {
    { .name = "id", .kind = JSON_KIND_STR, AT(id), .required = true },
    { .name = "incident", .kind = JSON_KIND_STR, AT(incident), .nullable = true },
    { .name = "setting", .kind = JSON_KIND_STR, AT(setting), .required = true },
    { .name = "type", .kind = JSON_KIND_ENUM, AT(m.type), .names = notification_type_names, .required = true },
    { .name = "channel", .kind = JSON_KIND_ENUM, AT(m.channel), .names = channel_names, .required = true },
    { .name = "state", .kind = JSON_KIND_ENUM, AT(m.state), .names = notification_state_names, .required = true },
    { .name = "step", .kind = JSON_KIND_I64, AT(m.step) },
    { .name = "created_ms", .kind = JSON_KIND_I64, AT(m.created_ms) },
    { .name = "sent_ms", .kind = JSON_KIND_I64, AT(m.sent_ms) },
    { .name = "attempts", .kind = JSON_KIND_I64, AT(m.attempts) },
    { .name = "http_status", .kind = JSON_KIND_I64, AT(m.http_status) },
    { .name = "count", .kind = JSON_KIND_I64, AT(m.count) },
    { .name = "error", .kind = JSON_KIND_STR, AT(m.error) },
    { .name = "resent_ms", .kind = JSON_KIND_I64, AT(m.resent_ms) },
    { .name = "attempts_before", .kind = JSON_KIND_I64, AT(m.attempts_before) },
    { .name = "kind", .kind = JSON_KIND_STR, AT(m.kind) },
    { .name = "cause", .kind = JSON_KIND_STR, AT(m.cause) },
    { .name = "task", .kind = JSON_KIND_STR, AT(task) },
    { .name = "task_name", .kind = JSON_KIND_STR, AT(m.task_name) },
    { .name = "history", .kind = JSON_KIND_ARRAY, AT(history), .fields = &act_field, .count = 1, .size = sizeof(struct notification_act) },
};
#undef AT
/* clang-format on */

enum err notification_read(struct str doc, struct arena *a, struct notification *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct notification_json d = { 0 };
    bool fits = !json_parse(doc, &json, e) &&
                !json_read(json.root, notification_fields, array_count(notification_fields), &d, a, e) &&
                uuid_parse(d.id, &d.m.id) && uuid_parse(d.setting, &d.m.setting) &&
                (!d.incident.n || uuid_parse(d.incident, &d.m.incident)) &&
                (!d.task.n || uuid_parse(d.task, &d.m.task));
    if (!fits)
        return error_set(e, ERR_CORRUPT, "the document of a message cannot be read");
    d.m.history = d.history.v;
    d.m.history_count = d.history.n;
    *ret = d.m;
    return ERR_OK;
}

void notification_write_history(struct jw *w, const struct notification *m, bool shown)
{
    jw_key(w, "history");
    jw_array(w);
    for (size_t i = 0; i < m->history_count; i++) {
        const struct notification_act *a = &m->history[i];
        jw_object(w);
        if (shown)
            jw_kv_time(w, "at", a->at_ms);
        else
            jw_kv_i64(w, "at_ms", a->at_ms);
        jw_kv_cstr(w, "what", notification_act_names[a->what]);
        jw_kv_str_or_null(w, "by", a->by);
        jw_kv_i64_or_null(w, "http_status", a->http_status);
        jw_kv_str_or_null(w, "error", a->error);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void notification_write_about(struct jw *w, const struct notification *m)
{
    jw_kv_str(w, "kind", m->kind);
    jw_kv_str(w, "cause", m->cause);
    jw_kv_str(w, "task_name", str_utf8_cut(m->task_name, MESSAGE_NAME_MAX));
    if (!uuid_is_nil(m->task))
        jw_kv_uuid(w, "task", m->task);
}

void notification_write(struct jw *w, const struct notification *m)
{
    jw_object(w);
    jw_kv_uuid(w, "id", m->id);
    jw_kv_uuid(w, "incident", m->incident);
    jw_kv_uuid(w, "setting", m->setting);
    jw_kv_cstr(w, "type", notification_type_names[m->type]);
    jw_kv_cstr(w, "channel", channel_names[m->channel]);
    jw_kv_cstr(w, "state", notification_state_names[m->state]);
    jw_kv_i64(w, "step", m->step);
    jw_kv_i64(w, "created_ms", m->created_ms);
    jw_kv_i64(w, "sent_ms", m->sent_ms);
    jw_kv_i64(w, "attempts", m->attempts);
    jw_kv_i64(w, "http_status", m->http_status);
    jw_kv_i64(w, "count", m->count);
    jw_kv_str(w, "error", str_utf8_cut(m->error, MESSAGE_ERROR_MAX));
    jw_kv_i64(w, "resent_ms", m->resent_ms);
    jw_kv_i64(w, "attempts_before", m->attempts_before);
    notification_write_about(w, m);
    notification_write_history(w, m, false);
    jw_object_end(w);
}

void notification_set_about(struct notification *m, const struct incident *i)
{
    m->kind = str_from(incident_kind_names[i->kind]);
    m->cause = i->cause;
    if (!i->task_count)
        return;
    m->task = i->tasks[0].id;
    m->task_name = i->tasks[0].name;
}

/* ---- attempts ---- */

/* How often it was sent at first, and what became of it last, are what people ask for. */
bool notification_add_act(struct notification *m, const struct notification_act *act, struct arena *a)
{
    size_t n = m->history_count, dropped = n == MESSAGE_HISTORY_MAX;
    struct notification_act *v = arena_array(a, struct notification_act, n + 1);
    if (!v)
        return false;
    for (size_t i = 0; i < n; i++)
        v[i] = m->history[i && i + dropped < n ? i + dropped : i];
    n -= dropped;
    v[n] = *act;
    v[n].by = str_utf8_cut(act->by, MESSAGE_ACT_TEXT_MAX);
    v[n].error = str_utf8_cut(act->error, MESSAGE_ACT_TEXT_MAX);
    m->history = v;
    m->history_count = n + 1;
    return true;
}

void notification_resend(struct notification *m, int64_t now_ms)
{
    m->state = MESSAGE_WAITING;
    m->attempts_before = m->attempts;
    m->resent_ms = now_ms;
    m->error = (struct str){ 0 };
}

bool notification_is_used_up(const struct notification *m)
{
    return m->attempts - m->attempts_before >= MESSAGE_ATTEMPTS_MAX;
}

/* Its day begins again when it is resent. */
static int64_t notification_begun_ms(const struct notification *m)
{
    return max_of(m->created_ms, m->resent_ms);
}

bool notification_is_young(const struct notification *m, int64_t now_ms)
{
    return now_ms < notification_begun_ms(m) + MESSAGE_EXPIRES_MS;
}

bool notification_take(struct notification *m, int64_t now_ms)
{
    bool is_lost = m->state == MESSAGE_SENDING;
    if (is_lost && !notification_is_young(m, now_ms)) {
        m->state = MESSAGE_FAILED;
        m->error = S("no node that sent it has reported the result");
        return false;
    }
    m->attempts += !is_lost;
    m->state = MESSAGE_SENDING;
    return true;
}

int64_t notification_retry_at(const struct notification *m, int64_t asked_ms, int64_t now_ms)
{
    int64_t delay_ms = MESSAGE_RETRY_MS;
    if (notification_is_used_up(m) || m->type == MESSAGE_TEST)
        return 0;
    for (int64_t i = m->attempts_before + 1; i < m->attempts && delay_ms < MESSAGE_RETRY_MAX_MS; i++)
        delay_ms *= 4;
    int64_t end_ms = notification_begun_ms(m) + MESSAGE_EXPIRES_MS;
    int64_t at_ms = now_ms + min_of(delay_ms, (int64_t)MESSAGE_RETRY_MAX_MS);
    at_ms = max_of(at_ms, min_of(now_ms + asked_ms, end_ms - MESSAGE_LAST_MS));
    return at_ms < end_ms ? at_ms : 0;
}
