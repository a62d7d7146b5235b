/* The body of a setting, made of options. An edit sends only what was given. */
#include "cli/command/notify/notify.h"
#include "cli/task_body.h"

enum { STEP_WORDS = 4, PLAIN_MAX = 40 };

const char *const notify_kinds[NOTIFY_KINDS] = { "success",     "failure",   "retry", "missed",
                                                 "dead_letter", "recovered", "alert" };

/* Channels by their options: X("--flag", its delivery_type). */
static const struct {
    const char *flag, *type;
} notify_channels[] = {
    { "webhook", "HTTP_WEBHOOK" },
    { "slack", "SLACK_WEBHOOK" },
    { "push", "PUSH" },
    { "email", "EMAIL" },
};

static struct str notify_text(const struct verb_work *w, const char *flag)
{
    return option_given(w->o, flag) ? option_get(w->o, flag)->text : (struct str){ 0 };
}

/* ---- what is told ---- */

static enum err notify_kind_of(struct str word, size_t *ret, struct error *e)
{
    for (*ret = 0; *ret < NOTIFY_KINDS; ++*ret)
        if (str_eq(word, str_from(notify_kinds[*ret])))
            return ERR_OK;
    return error_field(e, "--on",
                       "'" STR_FMT "' is none of success, failure, retry, missed, dead_letter, recovered, alert",
                       STR_ARG(str_utf8_cut(word, PLAIN_MAX)));
}

/* All of them: what is not named is not told any more. */
static enum err notify_write_kinds(struct jw *j, struct str list, struct error *e)
{
    bool is_told[NOTIFY_KINDS] = { 0 };
    struct str word;
    size_t kind;
    while (str_cut(&list, ',', &word)) {
        if (notify_kind_of(str_trim(word), &kind, e))
            return e->code;
        is_told[kind] = true;
    }
    for (size_t i = 0; i < NOTIFY_KINDS; i++) {
        char member[32];
        snprintf(member, sizeof member, "on_%s", notify_kinds[i]);
        jw_kv_bool(j, member, is_told[i]);
    }
    return ERR_OK;
}

/* ---- where it goes ---- */

/* ntfy takes messages at the root of the server; its address for people has the topic as its path. */
static enum err notify_write_push(struct jw *j, struct str url, const char *field, struct error *e)
{
    size_t slash = str_find(url, '/', min_of(url.n, (size_t)8));
    if (slash + 1 >= url.n)
        return error_field(e, field, "must have the topic as its path, such as https://ntfy.example.com/ops");
    jw_kv_str(j, "url", str_sub(url, 0, slash + 1));
    jw_kv_str(j, "topic", str_sub(url, slash + 1, url.n));
    return ERR_OK;
}

static void notify_write_addresses(struct jw *j, struct str list)
{
    struct str word;
    jw_key(j, "to");
    jw_array(j);
    while (str_cut(&list, ',', &word))
        jw_str(j, str_trim(word));
    jw_array_end(j);
}

static enum err notify_write_address(struct jw *j, const char *channel, struct str address, const char *field,
                                     struct error *e)
{
    if (strcmp(channel, "push") == 0)
        return notify_write_push(j, address, field, e);
    if (strcmp(channel, "email") == 0)
        notify_write_addresses(j, address);
    else
        jw_kv_str(j, "url", address);
    return ERR_OK;
}

/* An empty text removes it. */
static void notify_write_secret(const struct verb_work *w, struct jw *j, const char *flag, const char *member)
{
    if (!option_given(w->o, flag))
        return;
    jw_key(j, member);
    if (notify_text(w, flag).n)
        jw_str(j, notify_text(w, flag));
    else
        jw_null(j);
}

static enum err notify_write_channel(const struct verb_work *w, bool is_new, struct jw *j, struct error *e)
{
    static const char *const beside[] = { "secret", "signing-key", "token", "priority" };
    size_t given = 0, which = 0;
    bool has_config = false;
    enum err rc = ERR_OK;
    for (size_t i = 0; i < array_count(notify_channels); i++)
        if (notify_text(w, notify_channels[i].flag).n) {
            given++;
            which = i;
        }
    for (size_t i = 0; i < array_count(beside); i++)
        has_config = has_config || option_given(w->o, beside[i]);
    if (given > 1 || (is_new && !given))
        return error_set(e, ERR_INVALID, "give one of --webhook, --slack, --push and --email");
    if (!given && !has_config)
        return ERR_OK;
    if (given)
        jw_kv_cstr(j, "delivery_type", notify_channels[which].type);
    jw_key(j, "delivery_config");
    jw_object(j);
    if (given) {
        char field[16];
        const char *flag = notify_channels[which].flag;
        snprintf(field, sizeof field, "--%s", flag);
        rc = notify_write_address(j, flag, notify_text(w, flag), field, e);
    }
    notify_write_secret(w, j, "secret", "secret");
    notify_write_secret(w, j, "signing-key", "signing_key");
    notify_write_secret(w, j, "token", "token");
    if (option_given(w->o, "priority"))
        jw_kv_i64(j, "priority", option_get(w->o, "priority")->number);
    jw_object_end(j);
    return rc;
}

/* ---- steps ---- */

/* "15m slack https://…", and perhaps a secret. The server checks the rest. */
static enum err notify_write_step(struct jw *j, struct str text, struct error *e)
{
    struct str word, v[STEP_WORDS] = { 0 };
    size_t n = 0, which = 0;
    while (str_cut(&text, ' ', &word))
        if (word.n && n < STEP_WORDS)
            v[n++] = word;
    while (which < array_count(notify_channels) && !str_eq(v[1], str_from(notify_channels[which].flag)))
        which++;
    if (n < 3 || which == array_count(notify_channels))
        return error_field(e, "--step",
                           "must be how long after, then webhook, slack, push or email, then the address, such as "
                           "'15m slack https://hooks.slack.com/services/…'");
    jw_object(j);
    jw_kv_str(j, "after", v[0]);
    jw_kv_cstr(j, "delivery_type", notify_channels[which].type);
    jw_key(j, "delivery_config");
    jw_object(j);
    enum err rc = notify_write_address(j, notify_channels[which].flag, v[2], "--step", e);
    if (n == STEP_WORDS)
        jw_kv_str(j, strcmp(notify_channels[which].flag, "push") == 0 ? "token" : "secret", v[3]);
    jw_object_end(j);
    jw_object_end(j);
    return rc;
}

/* One empty step: none at all. */
static enum err notify_write_steps(const struct verb_work *w, struct jw *j, struct error *e)
{
    const struct option_value *steps = option_get(w->o, "step");
    if (!option_given(w->o, "step"))
        return ERR_OK;
    jw_key(j, "steps");
    jw_array(j);
    for (size_t i = 0; i < steps->list_count; i++)
        if (steps->list[i].n && notify_write_step(j, steps->list[i], e))
            return e->code;
    jw_array_end(j);
    return ERR_OK;
}

/* ---- the others ---- */

static void notify_write_filter(const struct verb_work *w, struct jw *j)
{
    static const struct {
        const char *flag, *member;
    } rows[] = { { "queue", "queue" }, { "task-type", "task_type" }, { "name", "name" } };
    bool is_open = false;
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!option_given(w->o, rows[i].flag))
            continue;
        if (!is_open) {
            jw_key(j, "filter");
            jw_object(j);
        }
        is_open = true;
        jw_kv_str(j, rows[i].member, option_get(w->o, rows[i].flag)->text);
    }
    if (is_open)
        jw_object_end(j);
}

static void notify_write_members(const struct verb_work *w, struct jw *j)
{
    static const struct {
        const char *flag, *member;
        bool is_number;
    } rows[] = {
        { "rename", "name", false },
        { "user", "user_id", false },
        { "after", "after", true },
        { "wait", "group_wait", false },
        { "window", "group_window", false },
        { "repeat-every", "repeat_every", false },
        { "max-per-hour", "max_per_hour", true },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!option_given(w->o, rows[i].flag))
            continue;
        const struct option_value *v = option_get(w->o, rows[i].flag);
        if (rows[i].is_number)
            jw_kv_i64(j, rows[i].member, v->number);
        else
            jw_kv_str(j, rows[i].member, v->text);
    }
    if (option_given(w->o, "mode"))
        jw_kv_cstr(j, "mode", option_get(w->o, "mode")->number ? "EVERY" : "CHANGES");
    if (option_given(w->o, "enable") || option_given(w->o, "disable"))
        jw_kv_bool(j, "enabled", option_given(w->o, "enable"));
}

enum err notify_write_body(const struct verb_work *w, bool is_new, struct buf *out, struct error *e)
{
    struct jw j;
    struct str on = is_new ? S("failure,recovered") : S("");
    if (option_given(w->o, "enable") && option_given(w->o, "disable"))
        return error_set(e, ERR_INVALID, "give one of --enable and --disable");
    jw_init(&j, out);
    jw_object(&j);
    if (is_new)
        jw_kv_cstr(&j, "name", w->name);
    if (option_given(w->o, "on"))
        on = option_get(w->o, "on")->text;
    if ((on.n && notify_write_kinds(&j, on, e)) || notify_write_channel(w, is_new, &j, e))
        return e->code;
    notify_write_filter(w, &j);
    notify_write_members(w, &j);
    if (notify_write_steps(w, &j, e))
        return e->code;
    jw_object_end(&j);
    if (task_sets_apply(w->o, NULL, out, e))
        return e->code;
    return str_eq(buf_str(out), S("{}")) ? error_set(e, ERR_INVALID, "give at least one option of what to change")
                                         : ERR_OK;
}
