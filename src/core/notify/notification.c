#include "core/notify/notification.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/rfc3339.h"

const char *const notification_state_names[MESSAGE_STATES + 1] = {
#define X(name) [MESSAGE_##name] = #name,
    MESSAGE_STATE_MAP(X)
#undef X
};

const char *const notification_act_names[MESSAGE_ACTS + 1] = {
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

static void notification_write_history(struct jw *w, const struct notification *m)
{
    jw_key(w, "history");
    jw_array(w);
    for (size_t i = 0; i < m->history_count; i++) {
        const struct notification_act *a = &m->history[i];
        jw_object(w);
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
    notification_write_history(w, m);
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

/* ---- texts ---- */

enum { SLACK_TEXT_MAX = 2900, TEXT_MAX = 64 << 10 };

/* buf_plain: no name can look like another line of the message. */
static void notification_add_line(struct buf *out, const char *what, struct str text)
{
    buf_printf(out, "%s: ", what);
    buf_plain(out, text);
    buf_char(out, '\n');
}

/* Where the dashboard shows the incident. Nothing, if that is not known. */
static void notification_link(const struct notification_facts *f, struct buf *out)
{
    char id[UUID_TEXT + 1];
    if (!f->site.n || !f->incident)
        return;
    uuid_format(f->incident->id, id);
    buf_printf(out, STR_FMT "%sui/#/alerts?incident=%s", STR_ARG(f->site), f->site.p[f->site.n - 1] == '/' ? "" : "/",
               id);
}

static const char *notification_verb(const struct incident *i)
{
    static const char *const verbs[INCIDENT_KINDS] = {
        [INCIDENT_SUCCESS] = "succeeded",
        [INCIDENT_FAILURE] = "failed",
        [INCIDENT_RETRY] = "will be retried",
        [INCIDENT_MISSED] = "missed",
        [INCIDENT_DEAD_LETTER] = "became a dead letter",
        [INCIDENT_ALERT] = "fires",
    };
    return verbs[i->kind];
}

static void notification_subject(const struct incident *i, struct buf *out)
{
    struct str name = i->task_count ? i->tasks[0].name : S("");
    if (i->kind == INCIDENT_ALERT) {
        buf_text(out, "alert ");
        buf_plain(out, i->cause);
        return;
    }
    if (!name.n) {
        buf_text(out, i->count == 1 ? "a task" : "tasks");
    } else {
        buf_char(out, '\'');
        buf_plain(out, str_utf8_cut(name, 100));
        buf_char(out, '\'');
    }
    bool all_shown = (size_t)i->count == i->task_count; /* each once */
    if (name.n && i->task_count > 1 && all_shown)
        buf_printf(out, " and %lld other%s", (long long)i->count - 1, i->count == 2 ? "" : "s");
    else if (i->count > 1)
        buf_printf(out, "%s (%lld times)", name.n && i->task_count > 1 ? " and others" : "", (long long)i->count);
}

void notification_title(const struct notification_facts *f, struct buf *out)
{
    const struct incident *i = f->incident;
    if (f->message->type == MESSAGE_TEST) {
        buf_text(out, "Belfry: test message");
        return;
    }
    if (f->message->type == MESSAGE_SUPPRESSED || !i) {
        buf_printf(out, "Belfry: %lld messages suppressed", (long long)f->message->count);
        return;
    }
    buf_text(out, "Belfry: ");
    notification_subject(i, out);
    if (f->message->type == MESSAGE_CLOSED && !i->told && i->kind != INCIDENT_ALERT)
        buf_printf(out, " %s, and%s", notification_verb(i), i->recovered ? "" : " then"); /* its only message */
    if (f->message->type == MESSAGE_CLOSED)
        buf_text(out, i->kind == INCIDENT_ALERT ? " has ended"
                      : i->recovered            ? " recovered"
                                                : " no longer counts: it was changed, or has ended");
    else
        buf_printf(out, " %s", notification_verb(i));
    if (f->message->type == MESSAGE_REPEATED)
        buf_text(out, ", again");
    if (f->message->type == MESSAGE_ESCALATED)
        buf_text(out, ", and nobody has acknowledged it");
}

static void notification_add_time(struct buf *out, const char *what, int64_t ms)
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(ms, text);
    buf_printf(out, "%s: %s\n", what, text);
}

/* The tasks of an incident have mostly the same error, which is above them. */
static void notification_add_task(struct buf *out, const struct incident_task *t, struct str above)
{
    char id[UUID_TEXT + 1], at[RFC3339_TEXT + 1];
    uuid_format(t->id, id);
    buf_text(out, "- ");
    buf_plain(out, t->name.n ? t->name : S("a task without a name"));
    if (t->queue.n)
        buf_printf(out, ", queue " STR_FMT, STR_ARG(t->queue));
    if (t->scheduled_ms) {
        rfc3339_format(t->scheduled_ms, at);
        buf_printf(out, ", of %s", at);
    }
    if (t->error.n && !str_eq(t->error, above)) {
        buf_text(out, ": ");
        buf_plain(out, t->error);
    }
    buf_printf(out, " (%s)\n", id);
}

/* Why it is told: the first thing that somebody wants to know. */
static struct str notification_reason(const struct incident *i)
{
    return i->kind == INCIDENT_ALERT ? i->detail : i->task_count ? i->tasks[0].error : S("");
}

static void notification_add_times(const struct incident *i, struct buf *out)
{
    if (i->count > 1)
        buf_printf(out, "Count: %lld\n", (long long)i->count);
    notification_add_time(out, "First", i->first_ms);
    if (i->last_ms != i->first_ms)
        notification_add_time(out, "Last", i->last_ms);
    if (i->closed_ms)
        notification_add_time(out, "Closed", i->closed_ms);
}

static void notification_add_ids(const struct incident *i, struct buf *out)
{
    char id[UUID_TEXT + 1];
    uuid_format(i->id, id);
    buf_printf(out, "Kind: %s\n", incident_kind_names[i->kind]);
    notification_add_line(out, "Cause", i->cause);
    buf_printf(out, "Incident: %s\n", id);
}

/* No text of a user begins a line. */
static void notification_add_incident(const struct notification_facts *f, struct buf *out)
{
    const struct incident *i = f->incident;
    struct str reason = notification_reason(i);
    if (reason.n)
        notification_add_line(out, f->message->type == MESSAGE_CLOSED ? "It was" : "Reason", reason);
    for (size_t k = 0; k < i->task_count; k++)
        notification_add_task(out, &i->tasks[k], reason);
    if (i->host.n)
        notification_add_line(out, "Host", i->host);
    notification_add_times(i, out);
    if (f->site.n) {
        buf_text(out, "Link: ");
        notification_link(f, out);
        buf_char(out, '\n');
    }
    notification_add_ids(i, out);
}

void notification_text(const struct notification_facts *f, struct buf *out)
{
    if (f->incident)
        notification_add_incident(f, out);
    else
        buf_text(out, f->message->type == MESSAGE_TEST ? "This is a test. Nothing happened.\n"
                                                       : "The limit max_per_hour of the setting was reached.\n");
    notification_add_line(out, "Setting", f->setting->name);
    notification_add_line(out, "Tenant", f->tenant);
}

/* ---- JSON ---- */

static void notification_write_link(struct jw *w, const char *name, const struct notification_facts *f)
{
    cleanup_with(buf_release) struct buf link;
    buf_init(&link, TEXT_MAX);
    notification_link(f, &link);
    if (link.n)
        jw_kv_str(w, name, buf_str(&link));
}

static void notification_write_incident(struct jw *w, const struct incident *i)
{
    jw_kv_uuid(w, "incident", i->id);
    jw_kv_cstr(w, "kind", incident_kind_names[i->kind]);
    jw_kv_cstr(w, "state", incident_is_open(i) ? "OPEN" : "CLOSED");
    jw_kv_str(w, "cause", i->cause);
    if (i->host.n)
        jw_kv_str(w, "host", i->host);
    if (i->detail.n)
        jw_kv_str(w, "detail", i->detail);
    jw_kv_i64(w, "count", i->count);
    jw_kv_time(w, "first_at", i->first_ms);
    jw_kv_time(w, "last_at", i->last_ms);
    if (i->closed_ms) {
        jw_kv_time(w, "closed_at", i->closed_ms);
        jw_kv_bool(w, "recovered", i->recovered);
    }
    jw_key(w, "tasks");
    jw_array(w);
    for (size_t k = 0; k < i->task_count; k++)
        incident_write_task(w, &i->tasks[k]);
    jw_array_end(w);
}

void notification_webhook(const struct notification_facts *f, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_cstr(&w, "type", notification_type_names[f->message->type]);
    jw_kv_time(&w, "timestamp", f->message->created_ms);
    jw_key(&w, "data");
    jw_object(&w);
    jw_kv_str(&w, "tenant", f->tenant);
    jw_kv_uuid(&w, "setting", f->message->setting);
    jw_kv_str(&w, "setting_name", f->setting->name);
    if (f->message->step)
        jw_kv_i64(&w, "step", f->message->step);
    if (f->message->type == MESSAGE_SUPPRESSED)
        jw_kv_i64(&w, "count", f->message->count);
    if (f->incident)
        notification_write_incident(&w, f->incident);
    notification_write_link(&w, "url", f);
    jw_object_end(&w);
    jw_object_end(&w);
}

/* Slack reads these three characters as markup. Ends before a character that has no room. */
static void notification_slack_escape(struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        bool is_first = ((unsigned char)text.p[i] & 0xC0) != 0x80;
        if (is_first && out->n + sizeof "&amp;" > SLACK_TEXT_MAX)
            return;
        switch (text.p[i]) {
        case '&': buf_text(out, "&amp;"); break;
        case '<': buf_text(out, "&lt;"); break;
        case '>': buf_text(out, "&gt;"); break;
        default: buf_char(out, text.p[i]);
        }
    }
}

static void notification_slack_block(struct jw *w, const char *type, struct str text)
{
    jw_object(w);
    jw_kv_cstr(w, "type", "section");
    jw_key(w, "text");
    jw_object(w);
    jw_kv_cstr(w, "type", type);
    jw_kv_str(w, "text", text);
    jw_object_end(w);
    jw_object_end(w);
}

void notification_slack(const struct notification_facts *f, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text, safe_title, safe;
    struct jw w;
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    buf_init(&safe_title, TEXT_MAX);
    buf_init(&safe, TEXT_MAX);
    notification_title(f, &title);
    notification_text(f, &text);
    notification_slack_escape(buf_str(&title), &safe_title);
    notification_slack_escape(buf_str(&text), &safe);
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_str(&w, "text", buf_str(&safe_title));
    jw_key(&w, "blocks");
    jw_array(&w);
    notification_slack_block(&w, "mrkdwn", buf_str(&safe_title));
    notification_slack_block(&w, "mrkdwn", buf_str(&safe));
    jw_array_end(&w);
    jw_object_end(&w);
}

void notification_push(const struct notification_facts *f, const struct channel *c, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text;
    struct jw w;
    bool is_bad = f->message->type != MESSAGE_CLOSED && f->incident && f->incident->kind != INCIDENT_SUCCESS;
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    notification_title(f, &title);
    notification_text(f, &text);
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_str(&w, "topic", c->topic);
    jw_kv_str(&w, "title", buf_str(&title));
    jw_kv_str(&w, "message", str_utf8_cut(buf_str(&text), SLACK_TEXT_MAX));
    jw_kv_i64(&w, "priority", c->priority ? c->priority : is_bad ? 4 : 3);
    jw_key(&w, "tags");
    jw_array(&w);
    jw_str(&w, is_bad ? S("warning") : S("white_check_mark"));
    jw_array_end(&w);
    notification_write_link(&w, "click", f);
    jw_object_end(&w);
}

/* ---- mail ---- */

/* RFC 4648, with padding, in lines of 76 characters. */
static void notification_base64(struct str bytes, size_t line, struct buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t n = min_of(bytes.n - i, (size_t)3);
        unsigned v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (unsigned char)bytes.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_char(out, k <= n ? letters[v >> (18 - 6 * k) & 63] : '=');
        if (line && (i / 3 + 1) % (line / 4) == 0)
            buf_text(out, "\r\n");
    }
}

static void notification_mail_subject(struct str title, struct buf *out)
{
    enum { WORD = 42 }; /* an encoded word has at most 75 characters */
    buf_text(out, "Subject:");
    for (struct str rest = title; rest.n;) {
        struct str word = str_utf8_cut(rest, WORD);
        if (!word.n)
            break;
        buf_text(out, word.p == title.p ? " =?utf-8?B?" : "\r\n =?utf-8?B?");
        notification_base64(word, 0, out);
        buf_text(out, "?=");
        rest = str_sub(rest, word.n, rest.n);
    }
    buf_text(out, "\r\n");
}

static void notification_mail_date(int64_t ms, struct buf *out)
{
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    char at[RFC3339_TEXT + 1];
    int64_t month = 1;
    rfc3339_format(ms, at);
    (void)str_to_i64((struct str){ at + 5, 2 }, 1, 12, &month);
    buf_printf(out, "Date: %.2s %s %.4s %.8s +0000\r\n", at + 8, months[month - 1], at, at + 11);
}

void notification_mail(const struct notification_facts *f, const struct channel *c, struct str from, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text;
    const struct str *to = c->to.v;
    char id[UUID_TEXT + 1], incident[UUID_TEXT + 1];
    size_t at = str_find(from, '@', 0);
    struct str domain = at < from.n ? str_sub(from, at + 1, from.n) : S("belfry");
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    notification_title(f, &title);
    notification_text(f, &text);
    uuid_format(f->message->id, id);
    uuid_format(f->message->incident, incident);
    buf_printf(out, "From: " STR_FMT "\r\nTo: ", STR_ARG(from));
    for (size_t i = 0; i < c->to.n; i++)
        buf_printf(out, "%s" STR_FMT, i ? ",\r\n " : "", STR_ARG(to[i]));
    buf_text(out, "\r\n");
    notification_mail_subject(buf_str(&title), out);
    notification_mail_date(f->message->created_ms, out);
    buf_printf(out, "Message-ID: <%s@" STR_FMT ">\r\n", id, STR_ARG(domain));
    if (f->incident)
        buf_printf(out, "In-Reply-To: <%s@" STR_FMT ">\r\nReferences: <%s@" STR_FMT ">\r\n", incident, STR_ARG(domain),
                   incident, STR_ARG(domain));
    buf_text(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                  "Content-Transfer-Encoding: base64\r\n\r\n");
    notification_base64(buf_str(&text), 76, out);
    buf_text(out, "\r\n");
}
