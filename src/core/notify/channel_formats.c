#include "core/notify/channel_formats.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/rfc3339.h"

enum { SLACK_TEXT_MAX = 2900, TEXT_MAX = 64 << 10 };

/* buf_plain: no name can look like another line of the message. */
static void channel_add_line(struct buf *out, const char *what, struct str text)
{
    buf_printf(out, "%s: ", what);
    buf_plain(out, text);
    buf_char(out, '\n');
}

/* Where the dashboard shows the incident. Nothing, if that is not known. */
static void channel_link(const struct channel_facts *f, struct buf *out)
{
    char id[UUID_TEXT + 1];
    if (!f->site.n || !f->incident)
        return;
    uuid_format(f->incident->id, id);
    buf_printf(out, STR_FMT "%sui/#/alerts?incident=%s", STR_ARG(f->site), f->site.p[f->site.n - 1] == '/' ? "" : "/",
               id);
}

static const char *channel_verb(const struct incident *i)
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

static void channel_subject(const struct incident *i, struct buf *out)
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

void channel_title(const struct channel_facts *f, struct buf *out)
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
    channel_subject(i, out);
    if (f->message->type == MESSAGE_CLOSED && !i->told && i->kind != INCIDENT_ALERT)
        buf_printf(out, " %s, and%s", channel_verb(i), i->recovered ? "" : " then"); /* its only message */
    if (f->message->type == MESSAGE_CLOSED)
        buf_text(out, i->kind == INCIDENT_ALERT ? " has ended"
                      : i->recovered            ? " recovered"
                                                : " no longer counts: it was changed, or has ended");
    else
        buf_printf(out, " %s", channel_verb(i));
    if (f->message->type == MESSAGE_REPEATED)
        buf_text(out, ", again");
    if (f->message->type == MESSAGE_ESCALATED)
        buf_text(out, ", and nobody has acknowledged it");
}

static void channel_add_time(struct buf *out, const char *what, int64_t ms)
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(ms, text);
    buf_printf(out, "%s: %s\n", what, text);
}

/* The tasks of an incident have mostly the same error, which is above them. */
static void channel_add_task(struct buf *out, const struct incident_task *t, struct str above)
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
static struct str channel_reason(const struct incident *i)
{
    return i->kind == INCIDENT_ALERT ? i->detail : i->task_count ? i->tasks[0].error : S("");
}

static void channel_add_times(const struct incident *i, struct buf *out)
{
    if (i->count > 1)
        buf_printf(out, "Count: %lld\n", (long long)i->count);
    channel_add_time(out, "First", i->first_ms);
    if (i->last_ms != i->first_ms)
        channel_add_time(out, "Last", i->last_ms);
    if (i->closed_ms)
        channel_add_time(out, "Closed", i->closed_ms);
}

static void channel_add_ids(const struct incident *i, struct buf *out)
{
    char id[UUID_TEXT + 1];
    uuid_format(i->id, id);
    buf_printf(out, "Kind: %s\n", incident_kind_names[i->kind]);
    channel_add_line(out, "Cause", i->cause);
    buf_printf(out, "Incident: %s\n", id);
}

/* No text of a user begins a line. */
static void channel_add_incident(const struct channel_facts *f, struct buf *out)
{
    const struct incident *i = f->incident;
    struct str reason = channel_reason(i);
    if (reason.n)
        channel_add_line(out, f->message->type == MESSAGE_CLOSED ? "It was" : "Reason", reason);
    for (size_t k = 0; k < i->task_count; k++)
        channel_add_task(out, &i->tasks[k], reason);
    if (i->host.n)
        channel_add_line(out, "Host", i->host);
    channel_add_times(i, out);
    if (f->site.n) {
        buf_text(out, "Link: ");
        channel_link(f, out);
        buf_char(out, '\n');
    }
    channel_add_ids(i, out);
}

void channel_text(const struct channel_facts *f, struct buf *out)
{
    if (f->incident)
        channel_add_incident(f, out);
    else
        buf_text(out, f->message->type == MESSAGE_TEST ? "This is a test. Nothing happened.\n"
                                                       : "The limit max_per_hour of the setting was reached.\n");
    channel_add_line(out, "Setting", f->setting->name);
    channel_add_line(out, "Tenant", f->tenant);
}

/* ---- JSON ---- */

static void channel_write_link(struct jw *w, const char *name, const struct channel_facts *f)
{
    cleanup_with(buf_release) struct buf link;
    buf_init(&link, TEXT_MAX);
    channel_link(f, &link);
    if (link.n)
        jw_kv_str(w, name, buf_str(&link));
}

static void channel_write_incident(struct jw *w, const struct incident *i)
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

void channel_webhook(const struct channel_facts *f, struct buf *out)
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
        channel_write_incident(&w, f->incident);
    channel_write_link(&w, "url", f);
    jw_object_end(&w);
    jw_object_end(&w);
}

/* Slack reads these three characters as markup. Ends before a character that has no room. */
static void channel_slack_escape(struct str text, struct buf *out)
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

static void channel_slack_block(struct jw *w, const char *type, struct str text)
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

void channel_slack(const struct channel_facts *f, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text, safe_title, safe;
    struct jw w;
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    buf_init(&safe_title, TEXT_MAX);
    buf_init(&safe, TEXT_MAX);
    channel_title(f, &title);
    channel_text(f, &text);
    channel_slack_escape(buf_str(&title), &safe_title);
    channel_slack_escape(buf_str(&text), &safe);
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_str(&w, "text", buf_str(&safe_title));
    jw_key(&w, "blocks");
    jw_array(&w);
    channel_slack_block(&w, "mrkdwn", buf_str(&safe_title));
    channel_slack_block(&w, "mrkdwn", buf_str(&safe));
    jw_array_end(&w);
    jw_object_end(&w);
}

void channel_push(const struct channel_facts *f, const struct channel *c, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text;
    struct jw w;
    bool is_bad = f->message->type != MESSAGE_CLOSED && f->incident && f->incident->kind != INCIDENT_SUCCESS;
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    channel_title(f, &title);
    channel_text(f, &text);
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
    channel_write_link(&w, "click", f);
    jw_object_end(&w);
}

/* ---- mail ---- */

/* RFC 4648, with padding, in lines of 76 characters. */
static void channel_base64(struct str bytes, size_t line, struct buf *out)
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

static void channel_mail_subject(struct str title, struct buf *out)
{
    enum { WORD = 42 }; /* an encoded word has at most 75 characters */
    buf_text(out, "Subject:");
    for (struct str rest = title; rest.n;) {
        struct str word = str_utf8_cut(rest, WORD);
        if (!word.n)
            break;
        buf_text(out, word.p == title.p ? " =?utf-8?B?" : "\r\n =?utf-8?B?");
        channel_base64(word, 0, out);
        buf_text(out, "?=");
        rest = str_sub(rest, word.n, rest.n);
    }
    buf_text(out, "\r\n");
}

static void channel_mail_date(int64_t ms, struct buf *out)
{
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    char at[RFC3339_TEXT + 1];
    int64_t month = 1;
    rfc3339_format(ms, at);
    (void)str_to_i64((struct str){ at + 5, 2 }, 1, 12, &month);
    buf_printf(out, "Date: %.2s %s %.4s %.8s +0000\r\n", at + 8, months[month - 1], at, at + 11);
}

void channel_mail(const struct channel_facts *f, const struct channel *c, struct str from, struct buf *out)
{
    cleanup_with(buf_release) struct buf title, text;
    const struct str *to = c->to.v;
    char id[UUID_TEXT + 1], incident[UUID_TEXT + 1];
    size_t at = str_find(from, '@', 0);
    struct str domain = at < from.n ? str_sub(from, at + 1, from.n) : S("belfry");
    buf_init(&title, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    channel_title(f, &title);
    channel_text(f, &text);
    uuid_format(f->message->id, id);
    uuid_format(f->message->incident, incident);
    buf_printf(out, "From: " STR_FMT "\r\nTo: ", STR_ARG(from));
    for (size_t i = 0; i < c->to.n; i++)
        buf_printf(out, "%s" STR_FMT, i ? ",\r\n " : "", STR_ARG(to[i]));
    buf_text(out, "\r\n");
    channel_mail_subject(buf_str(&title), out);
    channel_mail_date(f->message->created_ms, out);
    buf_printf(out, "Message-ID: <%s@" STR_FMT ">\r\n", id, STR_ARG(domain));
    if (f->incident)
        buf_printf(out, "In-Reply-To: <%s@" STR_FMT ">\r\nReferences: <%s@" STR_FMT ">\r\n", incident, STR_ARG(domain),
                   incident, STR_ARG(domain));
    buf_text(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                  "Content-Transfer-Encoding: base64\r\n\r\n");
    channel_base64(buf_str(&text), 76, out);
    buf_text(out, "\r\n");
}
