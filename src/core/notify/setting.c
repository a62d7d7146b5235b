#include "core/notify/setting.h"

#include "base/duration.h"
#include "base/json/json.h"
#include "core/target/address.h"
#include "core/target/target_url.h"

enum {
    URL_MAX = 2048,
    TOPIC_MAX = 64,
    SECRET_TEXT_MAX = 512,
    ADDRESS_MAX = 254,
    AFTER_MAX = 100,
    HOURLY_MAX = 3600,
    MINUTE_MS = 60000,
    HOUR_MS = 60 * MINUTE_MS,
};
#define SETTING_DAY_MS (24LL * HOUR_MS)

const char *const channel_names[CHANNEL_KINDS + 1] = {
#define X(name) [CHANNEL_##name] = #name,
    CHANNEL_MAP(X)
#undef X
};
static const char *const mode_names[] = { [SETTING_CHANGES] = "CHANGES", [SETTING_EVERY] = "EVERY", NULL };

/* ---- reading ---- */

/* clang-format off */
static const struct json_field address_field = { .name = "to", .kind = JSON_KIND_STR, .min = 3, .max = ADDRESS_MAX };
#define AT(member) .offset = offsetof(struct channel, member)
static const struct json_field channel_fields[] = {
    { .name = "url", .kind = JSON_KIND_STR, AT(url), .max = URL_MAX },
    { .name = "secret", .kind = JSON_KIND_STR, AT(secret), .max = SECRET_TEXT_MAX, .nullable = true },
    { .name = "signing_key", .kind = JSON_KIND_STR, AT(signing_key), .min = 1, .max = SETTING_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "topic", .kind = JSON_KIND_STR, AT(topic), .max = TOPIC_MAX },
    { .name = "token", .kind = JSON_KIND_STR, AT(token), .max = SECRET_TEXT_MAX, .nullable = true },
    { .name = "priority", .kind = JSON_KIND_I64, AT(priority), .min = 1, .max = 5 },
    { .name = "to", .kind = JSON_KIND_ARRAY, AT(to), .min = 1, .max = CHANNEL_TO_MAX, .fields = &address_field, .count = 1, .size = sizeof(struct str) },
    { .name = "old_secret", .kind = JSON_KIND_STR, AT(old_secret), .max = SECRET_TEXT_MAX },
    { .name = "old_secret_until", .kind = JSON_KIND_TIME, AT(old_until_ms) },
};
#undef AT
#define AT(member) .offset = offsetof(struct setting_step, member)
static const struct json_field step_fields[] = {
    { .name = "after", .kind = JSON_KIND_DURATION, AT(after_ms), .min = MINUTE_MS, .max = 7 * SETTING_DAY_MS, .required = true },
    { .name = "delivery_type", .kind = JSON_KIND_ENUM, AT(kind), .names = channel_names, .required = true },
    { .name = "delivery_config", .kind = JSON_KIND_OBJECT, AT(channel), .fields = channel_fields, .count = array_count(channel_fields), .required = true },
};
#undef AT
static const struct json_field step_field = { .name = "steps", .kind = JSON_KIND_OBJECT, .fields = step_fields, .count = array_count(step_fields) };
#define AT(member) .offset = offsetof(struct setting_json, s.member)
struct setting_json {
    struct setting s;
    struct json_array steps;
    bool has_steps;
};
static const struct json_field filter_fields[] = {
    { .name = "queue", .kind = JSON_KIND_STR, .offset = offsetof(struct setting, filter.queue) - offsetof(struct setting, filter), .max = SETTING_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "task_type", .kind = JSON_KIND_STR, .offset = offsetof(struct setting, filter.task_type) - offsetof(struct setting, filter), .max = SETTING_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "name", .kind = JSON_KIND_STR, .offset = offsetof(struct setting, filter.name) - offsetof(struct setting, filter), .max = SETTING_TEXT_MAX, .characters = true, .nullable = true },
};
static const struct json_field setting_fields[] = {
    { .name = "name", .kind = JSON_KIND_STR, AT(name), .max = SETTING_TEXT_MAX, .characters = true },
    { .name = "user_id", .kind = JSON_KIND_STR, AT(user_id), .max = SETTING_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "on_success", .kind = JSON_KIND_BOOL, AT(on_success) },
    { .name = "on_failure", .kind = JSON_KIND_BOOL, AT(on_failure) },
    { .name = "on_retry", .kind = JSON_KIND_BOOL, AT(on_retry) },
    { .name = "on_missed", .kind = JSON_KIND_BOOL, AT(on_missed) },
    { .name = "on_dead_letter", .kind = JSON_KIND_BOOL, AT(on_dead_letter) },
    { .name = "on_recovered", .kind = JSON_KIND_BOOL, AT(on_recovered) },
    { .name = "on_alert", .kind = JSON_KIND_BOOL, AT(on_alert) },
    { .name = "enabled", .kind = JSON_KIND_BOOL, AT(enabled) },
    { .name = "delivery_type", .kind = JSON_KIND_ENUM, AT(kind), .names = channel_names },
    { .name = "delivery_config", .kind = JSON_KIND_OBJECT, AT(channel), .fields = channel_fields, .count = array_count(channel_fields) },
    { .name = "filter", .kind = JSON_KIND_OBJECT, AT(filter), .fields = filter_fields, .count = array_count(filter_fields) },
    { .name = "mode", .kind = JSON_KIND_ENUM, AT(mode), .names = mode_names },
    { .name = "after", .kind = JSON_KIND_I64, AT(after), .min = 1, .max = AFTER_MAX },
    { .name = "group_wait", .kind = JSON_KIND_DURATION, AT(group_wait_ms), .min = 0, .max = HOUR_MS },
    { .name = "group_window", .kind = JSON_KIND_DURATION, AT(group_window_ms), .min = 1000, .max = SETTING_DAY_MS },
    { .name = "repeat_every", .kind = JSON_KIND_DURATION, AT(repeat_every_ms), .min = MINUTE_MS, .max = 30 * SETTING_DAY_MS },
    { .name = "max_per_hour", .kind = JSON_KIND_I64, AT(max_per_hour), .min = 1, .max = HOURLY_MAX },
    { .name = "muted_until", .kind = JSON_KIND_TIME, AT(muted_until_ms), .nullable = true },
    { .name = "steps", .kind = JSON_KIND_ARRAY, .offset = offsetof(struct setting_json, steps), .seen_offset = offsetof(struct setting_json, has_steps), .max = SETTING_STEPS_MAX, .fields = &step_field, .count = 1, .size = sizeof(struct setting_step) },
};
#undef AT
/* clang-format on */

struct setting setting_default(void)
{
    return (struct setting){ .enabled = true,
                             .kind = -1,
                             .after = 1,
                             .group_wait_ms = 10000,
                             .group_window_ms = 5LL * MINUTE_MS,
                             .repeat_every_ms = 4LL * HOUR_MS,
                             .max_per_hour = 60 };
}

/* null removes what the channel has. */
static void setting_clear(json_t *object, struct channel *c)
{
    const struct {
        const char *path;
        struct str *text;
    } rows[] = {
        { "delivery_config.secret", &c->secret },
        { "delivery_config.signing_key", &c->signing_key },
        { "delivery_config.token", &c->token },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (json_is_null(json_at(object, rows[i].path)))
            *rows[i].text = (struct str){ 0 };
}

enum err setting_read_object(json_t *object, struct arena *a, struct setting *into, struct error *e)
{
    struct setting_json d = { .s = *into };
    setting_clear(object, &d.s.channel);
    if (json_read(object, setting_fields, array_count(setting_fields), &d, a, e))
        return e->code;
    if (json_object_get(object, "muted_until") && json_is_null(json_object_get(object, "muted_until")))
        d.s.muted_until_ms = 0;
    if (d.has_steps) {
        d.s.steps = d.steps.v;
        d.s.step_count = d.steps.n;
    }
    *into = d.s;
    return ERR_OK;
}

enum err setting_read(struct str doc, struct arena *a, struct setting *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct setting s = setting_default();
    if (json_parse(doc, &json, e) || setting_read_object(json.root, a, &s, e))
        return e->code;
    *ret = s;
    return ERR_OK;
}

/* ---- rules between members ---- */

static bool setting_is_visible(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return true;
}

/* A host whose last label begins with a digit is an address, in four decimal numbers: 127.1 and 127.0x1 would be
 * understood as one, too. */
static bool setting_is_host(struct str host)
{
    struct address a;
    if (host.n > 2 && host.p[0] == '[')
        return host.p[host.n - 1] == ']' && address_parse(str_sub(host, 1, host.n - 1), &a);
    if (address_parse(host, &a))
        return true;
    bool is_rooted = host.n && host.p[host.n - 1] == '.';
    struct str name = str_sub(host, 0, is_rooted ? host.n - 1 : host.n), rest = name, label = { 0 };
    while (str_cut(&rest, '.', &label))
        continue;
    return target_is_host_name(name) && !is_digit(label.p[0]);
}

static enum err setting_check_url(struct str text, struct error *e)
{
    struct target_url url;
    int64_t port;
    bool is_http = str_starts(text, S("https://")) || str_starts(text, S("http://"));
    if (!is_http || !target_url_split(text, &url))
        return error_field(e, "url", "must start with https:// or http:// and a host");
    if (!setting_is_visible(text))
        return error_field(e, "url", "must be visible ASCII");
    if (url.user.n)
        return error_field(e, "url", "must not hold a user name or password");
    if (str_find(text, '#', 0) < text.n)
        return error_field(e, "url", "must not have a fragment (#)");
    size_t colon = str_find(url.host, ':', url.host.p[0] == '[' ? str_find(url.host, ']', 0) : 0);
    if (colon < url.host.n && !str_to_i64(str_sub(url.host, colon + 1, url.host.n), 1, UINT16_MAX, &port))
        return error_field(e, "url", "has no valid port");
    if (str_starts(url.path, S("\\")) || !setting_is_host(str_sub(url.host, 0, colon)))
        return error_field(e, "url",
                           "must have its host written plainly: a name, or an address as four decimal numbers");
    return ERR_OK;
}

/* The token goes into a header. */
static enum err setting_check_push(const struct channel *c, struct error *e)
{
    if (!c->topic.n)
        return error_field(e, "topic", "is required");
    if (!str_is_plain(c->topic, "-_"))
        return error_field(e, "topic", "must be letters, digits, '-' and '_'");
    return setting_is_visible(c->token) ? ERR_OK : error_field(e, "token", "must be visible ASCII without blanks");
}

/* Without % and !, by which old mail servers were told to pass a mail on to another domain. */
static bool setting_is_address(struct str s)
{
    size_t at = str_find(s, '@', 0);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~' || memchr("<>,;:\"()[]\\%!", s.p[i], 13))
            return false;
    return at > 0 && at + 1 < s.n && str_find(s, '@', at + 1) == s.n;
}

/* A member that the kind does not use. */
static enum err setting_check_unused(enum channel_kind kind, const struct channel *c, struct error *e)
{
    const struct {
        const char *name;
        bool is_there, is_used;
    } rows[] = {
        { "url", c->url.n > 0, kind != CHANNEL_EMAIL },
        { "secret", c->secret.n > 0, kind == CHANNEL_HTTP_WEBHOOK },
        { "signing_key", c->signing_key.n > 0, kind == CHANNEL_HTTP_WEBHOOK },
        { "topic", c->topic.n > 0, kind == CHANNEL_PUSH },
        { "token", c->token.n > 0, kind == CHANNEL_PUSH },
        { "priority", c->priority > 0, kind == CHANNEL_PUSH },
        { "to", c->to.n > 0, kind == CHANNEL_EMAIL },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (rows[i].is_there && !rows[i].is_used)
            return error_field(e, rows[i].name, "is not used by %s", channel_names[kind]);
    return ERR_OK;
}

static enum err setting_check_channel(int kind, const struct channel *c, struct error *e)
{
    if (setting_check_unused((enum channel_kind)kind, c, e))
        return e->code;
    if (c->secret.n && c->signing_key.n)
        return error_field(e, "signing_key", "and secret exclude each other; set one of them to null");
    if (kind == CHANNEL_EMAIL && !c->to.n)
        return error_field(e, "to", "is required: a list of addresses");
    const struct str *to = c->to.v;
    for (size_t i = 0; i < c->to.n; i++)
        if (!setting_is_address(to[i]))
            return error_field(e, "to", "'" STR_FMT "' is not an address", STR_ARG(to[i]));
    if (kind == CHANNEL_PUSH && setting_check_push(c, e))
        return e->code;
    bool sealed = kind == CHANNEL_SLACK_WEBHOOK && str_starts(c->url, S("enc:")); /* it was checked before */
    return kind == CHANNEL_EMAIL || sealed ? ERR_OK : setting_check_url(c->url, e);
}

enum err setting_check(const struct setting *s, struct error *e)
{
    const struct {
        const char *field;
        struct str text;
    } texts[] = { { "name", s->name }, { "user_id", s->user_id }, { "filter.name", s->filter.name } };
    for (size_t i = 0; i < array_count(texts); i++)
        if (str_has_control(texts[i].text))
            return error_field(e, texts[i].field, "must not hold control characters");
    if (s->kind < 0)
        return error_field(e, "delivery_type", "is required: EMAIL, SLACK_WEBHOOK, HTTP_WEBHOOK or PUSH");
    bool ends = s->on_failure || s->on_missed || s->on_dead_letter || s->on_alert; /* so that it can recover */
    if (!ends && !s->on_success && !s->on_retry)
        return error_field(
            e, "on_failure",
            "one of on_success, on_failure, on_retry, on_missed, on_dead_letter and on_alert must be true");
    if (s->on_recovered && !ends)
        return error_field(e, "on_recovered", "needs on_failure, on_missed, on_dead_letter or on_alert");
    if (setting_check_channel(s->kind, &s->channel, e))
        return error_in(e, "delivery_config");
    for (size_t i = 0; i < s->step_count; i++) {
        if (setting_check_channel(s->steps[i].kind, &s->steps[i].channel, e))
            return error_in(e, "steps");
        if (i && s->steps[i].after_ms <= s->steps[i - 1].after_ms)
            return error_field(e, "steps", "must be in the order of 'after'");
    }
    return ERR_OK;
}

/* ---- writing ---- */

void channel_secrets(enum channel_kind kind, struct channel *c, struct channel_secret ret[CHANNEL_SECRETS])
{
    ret[0] = (struct channel_secret){ "secret", &c->secret };
    ret[1] = (struct channel_secret){ "token", &c->token };
    ret[2] = kind == CHANNEL_SLACK_WEBHOOK ? (struct channel_secret){ "url", &c->url }
                                           : (struct channel_secret){ "secret", &c->old_secret };
}

static void setting_write_secret(struct jw *w, const char *name, struct str v, bool shown)
{
    if (v.n)
        jw_kv_str(w, name, shown ? S("***") : v);
}

static void setting_write_channel(struct jw *w, int kind, const struct channel *c, bool shown)
{
    const struct str *to = c->to.v;
    jw_kv_cstr(w, "delivery_type", channel_names[kind]);
    jw_key(w, "delivery_config");
    jw_object(w);
    if (c->url.n)
        jw_kv_str(w, "url", shown && kind == CHANNEL_SLACK_WEBHOOK ? S("***") : c->url);
    setting_write_secret(w, "secret", c->secret, shown);
    if (c->signing_key.n)
        jw_kv_str(w, "signing_key", c->signing_key);
    if (c->topic.n)
        jw_kv_str(w, "topic", c->topic);
    setting_write_secret(w, "token", c->token, shown);
    if (c->priority)
        jw_kv_i64(w, "priority", c->priority);
    if (c->to.n) {
        jw_key(w, "to");
        jw_array(w);
        for (size_t i = 0; i < c->to.n; i++)
            jw_str(w, to[i]);
        jw_array_end(w);
    }
    if (!shown && c->old_secret.n) {
        jw_kv_str(w, "old_secret", c->old_secret);
        jw_kv_time(w, "old_secret_until", c->old_until_ms);
    }
    jw_object_end(w);
}

static void setting_write_duration(struct jw *w, const char *name, int64_t ms)
{
    char text[DURATION_TEXT];
    duration_format(ms, text);
    jw_kv_cstr(w, name, text);
}

static void setting_write_filter(struct jw *w, const struct setting *s)
{
    jw_key(w, "filter");
    jw_object(w);
    if (s->filter.queue.n)
        jw_kv_str(w, "queue", s->filter.queue);
    if (s->filter.task_type.n)
        jw_kv_str(w, "task_type", s->filter.task_type);
    if (s->filter.name.n)
        jw_kv_str(w, "name", s->filter.name);
    jw_object_end(w);
}

static void setting_write_steps(struct jw *w, const struct setting *s, bool shown)
{
    jw_key(w, "steps");
    jw_array(w);
    for (size_t i = 0; i < s->step_count; i++) {
        jw_object(w);
        setting_write_duration(w, "after", s->steps[i].after_ms);
        setting_write_channel(w, s->steps[i].kind, &s->steps[i].channel, shown);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void setting_write(struct jw *w, const struct setting *s, bool shown)
{
    jw_kv_str(w, "name", s->name);
    jw_kv_str_or_null(w, "user_id", s->user_id);
    jw_kv_bool(w, "on_success", s->on_success);
    jw_kv_bool(w, "on_failure", s->on_failure);
    jw_kv_bool(w, "on_retry", s->on_retry);
    jw_kv_bool(w, "on_missed", s->on_missed);
    jw_kv_bool(w, "on_dead_letter", s->on_dead_letter);
    jw_kv_bool(w, "on_recovered", s->on_recovered);
    jw_kv_bool(w, "on_alert", s->on_alert);
    jw_kv_bool(w, "enabled", s->enabled);
    setting_write_channel(w, s->kind, &s->channel, shown);
    setting_write_filter(w, s);
    jw_kv_cstr(w, "mode", mode_names[s->mode]);
    jw_kv_i64(w, "after", s->after);
    setting_write_duration(w, "group_wait", s->group_wait_ms);
    setting_write_duration(w, "group_window", s->group_window_ms);
    setting_write_duration(w, "repeat_every", s->repeat_every_ms);
    jw_kv_i64(w, "max_per_hour", s->max_per_hour);
    jw_kv_time_or_null(w, "muted_until", s->muted_until_ms);
    setting_write_steps(w, s, shown);
}

/* ---- matching ---- */

unsigned setting_wants(const struct setting *s)
{
    unsigned wants = 0;
    if (!s->enabled)
        return 0;
    wants |= s->on_success ? 1U << HIT_SUCCESS : 0;
    wants |= s->on_failure || s->on_dead_letter ? 1U << HIT_FAILURE : 0;
    wants |= s->on_retry ? 1U << HIT_RETRY : 0;
    wants |= s->on_missed ? 1U << HIT_MISSED : 0;
    return wants;
}

static bool setting_text_matches(struct str pattern, struct str text)
{
    if (pattern.n && pattern.p[pattern.n - 1] == '*')
        return str_starts(text, str_sub(pattern, 0, pattern.n - 1));
    return !pattern.n || str_eq(pattern, text);
}

bool setting_matches(const struct setting *s, const struct task *t)
{
    return setting_text_matches(s->filter.queue, t->queue) && setting_text_matches(s->filter.task_type, t->task_type) &&
           setting_text_matches(s->filter.name, t->name);
}

static bool setting_is_named(const struct setting *s, struct uuid id, json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct str name = json_text_at(json_array_get(list, i), "");
        struct uuid named;
        if (name.n && (str_eq(name, s->name) || (uuid_parse(name, &named) && uuid_eq(named, id))))
            return true;
    }
    return false;
}

bool setting_is_told(const struct setting *s, struct uuid id, const struct task *t, struct str notify)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error ignored;
    if (!notify.n || json_parse(notify, &doc, &ignored))
        return setting_matches(s, t);
    return json_array_size(doc.root) && (setting_matches(s, t) || setting_is_named(s, id, doc.root));
}

bool setting_is_muted(const struct setting *s, int64_t now_ms)
{
    return now_ms < s->muted_until_ms;
}
