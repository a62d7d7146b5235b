/* belfry notify - settings of notifications, incidents, and what was sent. */
#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { SETTING_COLUMNS = 6, INCIDENT_COLUMNS = 7, SENT_COLUMNS = 7, CHECK_COLUMNS = 6, BODY_MAX = 64 * 1024 };
#define SETTINGS  "/v1/notification-settings"
#define INCIDENTS "/v1/incidents"
#define SENT      "/v1/notifications"
#define CHECKS    "/v1/checks"

/* clang-format off */
static const struct option options[] = {
    { .flag = "on", .type = OPTION_TEXT, .value = "LIST", .only = "add",
      .help = "what is told: success, failure, retry, missed, dead_letter, recovered, separated by commas; default: failure,recovered" },
    { .flag = "webhook", .type = OPTION_TEXT, .value = "URL", .only = "add", .help = "call this URL" },
    { .flag = "secret", .type = OPTION_TEXT, .value = "SECRET", .only = "add",
      .help = "with --webhook: sign with this secret, whsec_ and base64 of 24 to 64 bytes" },
    { .flag = "signing-key", .type = OPTION_TEXT, .value = "ID", .only = "add",
      .help = "with --webhook: sign with this signing key ('belfry signing-keys list')" },
    { .flag = "slack", .type = OPTION_TEXT, .value = "URL", .only = "add", .help = "call this incoming webhook of Slack" },
    { .flag = "push", .type = OPTION_TEXT, .value = "URL", .only = "add",
      .help = "call this ntfy server, with the topic as its path: https://ntfy.example.com/ops" },
    { .flag = "token", .type = OPTION_TEXT, .value = "TOKEN", .only = "add", .help = "with --push: bearer token" },
    { .flag = "email", .type = OPTION_TEXT, .value = "LIST", .only = "add", .help = "mail to these addresses, separated by commas" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .only = "add", .help = "only tasks of this queue; mail* for all that begin so" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .only = "add", .help = "only tasks of this name; backup* for all that begin so" },
    { .flag = "after", .type = OPTION_INT, .value = "N", .min = 1, .max = 100, .only = "add", .help = "tell after N failures in a row; default: 1" },
    { .flag = "wait", .type = OPTION_DURATION, .value = "DURATION", .max = 3600000, .only = "add",
      .help = "from the first happening to the message; default: 10s" },
    { .flag = "for", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = DURATION_MAX_MS, .only = "mute",
      .help = "for this duration; default: 1h" },
    { .flag = "all", .type = OPTION_FLAG, .only = "incidents", .help = "closed ones, too" },
    { .flag = "user", .type = OPTION_TEXT, .value = "ID", .only = "add|list", .help = "whose setting it is; list: only settings of this user" },
};
/* clang-format on */

static const char detail[] =
    "  list            list the settings\n"
    "  add NAME        add a setting; give one of --webhook, --slack, --push and --email\n"
    "  remove ID       remove a setting, by its id or its name\n"
    "  test ID         send a test message of a setting, and print what became of it\n"
    "  incidents       list open incidents, newest first\n"
    "  ack ID          acknowledge an incident: it is not repeated any more\n"
    "  mute ID         mute an incident for a time\n"
    "  checks          list the tasks that are expected to succeed in time, newest first\n"
    "  sent            list what was sent, newest first\n"
    "  resend ID       send a message again\n"
    "\n"
    "Examples:\n"
    "  belfry notify add ops --webhook https://hooks.example.com/belfry\n"
    "  belfry notify add mails --queue 'mail*' --on failure,dead_letter --slack https://hooks.slack.com/services/…\n"
    "  belfry notify test ops\n"
    "  belfry notify incidents\n"
    "  belfry notify checks\n"
    "  belfry notify mute 019cb323-e500-7111-827d-7345cc1bc385 --for 2h\n";

/* ---- settings ---- */

static void notify_header(struct table *t)
{
    table_row(t, SETTING_COLUMNS, "ID", "NAME", "TELLS", "BY", "TO", "STATE");
}

static const char *const notify_kinds[] = {
    "success", "failure", "retry", "missed", "dead_letter", "recovered", "alert"
};

static void notify_kinds_text(const json_t *setting, struct buf *out)
{
    for (size_t i = 0; i < array_count(notify_kinds); i++) {
        char member[32];
        snprintf(member, sizeof member, "on_%s", notify_kinds[i]);
        if (json_is_true(json_at(setting, member)))
            buf_printf(out, "%s%s", out->n ? "," : "", notify_kinds[i]);
    }
}

/* The address, the first of several, or the server and its topic. */
static void notify_place_text(const json_t *setting, struct buf *out)
{
    struct str url = json_text_at(setting, "delivery_config.url"),
               topic = json_text_at(setting, "delivery_config.topic");
    table_plain_text(url.n ? url : json_text_at(setting, "delivery_config.to[0]"), SIZE_MAX, out);
    table_plain_text(topic, SIZE_MAX, out);
    size_t more = json_array_size(json_at(setting, "delivery_config.to"));
    if (more > 1)
        buf_printf(out, " and %zu more", more - 1);
}

/* "muted until 2026-02-10 08:00:00"; out is as it was if it is not muted now. */
static bool notify_muted_text(const json_t *of, int64_t now_ms, char out[CELL_TEXT])
{
    char until[WHEN_TEXT];
    int64_t until_ms;
    if (!json_time_at(of, "muted_until", &until_ms) || until_ms <= now_ms)
        return false;
    when_utc(until_ms, until);
    snprintf(out, CELL_TEXT, "muted until %s", until);
    return true;
}

static void notify_add_row(struct rows *r, const json_t *setting)
{
    char state[CELL_TEXT] = "enabled";
    if (!json_is_true(json_at(setting, "enabled")))
        snprintf(state, sizeof state, "disabled");
    else
        (void)notify_muted_text(setting, clock_wall_ms(r->cli->clock), state);
    table_row(&r->table, SETTING_COLUMNS, table_text(&r->table, json_text_at(setting, "id")),
              table_text(&r->table, json_text_at(setting, "name")), task_cell(&r->table, notify_kinds_text, setting),
              table_text(&r->table, json_text_at(setting, "delivery_type")),
              task_cell(&r->table, notify_place_text, setting), state);
}

static enum exit_code notify_list(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, BODY_MAX);
    buf_text(&path, SETTINGS);
    if (option_given(w->o, "user"))
        query_add(&path, "user_id", option_get(w->o, "user")->text);
    struct pages p = {
        .client = w->client, .path = buf_cstr(&path), .member = "notification_settings", .limit = INT64_MAX
    };
    struct rows r = { .header = notify_header, .add = notify_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, SETTING_COLUMNS, "there are no notification settings");
}

static struct str notify_text(const struct verb_work *w, const char *flag)
{
    return option_given(w->o, flag) ? option_get(w->o, flag)->text : (struct str){ 0 };
}

static enum err notify_write_kinds(const struct verb_work *w, struct jw *j, struct error *e)
{
    struct str rest = option_given(w->o, "on") ? option_get(w->o, "on")->text : S("failure,recovered"), word;
    while (str_cut(&rest, ',', &word)) {
        char member[32] = "";
        for (size_t i = 0; i < array_count(notify_kinds); i++)
            if (str_eq(str_trim(word), str_from(notify_kinds[i])))
                snprintf(member, sizeof member, "on_%s", notify_kinds[i]);
        if (!member[0])
            return error_field(
                e, "--on", "'" STR_FMT "' is none of success, failure, retry, missed, dead_letter, recovered, alert",
                STR_ARG(str_utf8_cut(word, 40)));
        jw_kv_bool(j, member, true);
    }
    return ERR_OK;
}

/* ntfy takes messages at the root of the server; its address for people has the topic as its path. */
static enum err notify_write_push(struct jw *j, struct str url, struct str token, struct error *e)
{
    size_t slash = str_find(url, '/', min_of(url.n, (size_t)8));
    if (slash + 1 >= url.n)
        return error_field(e, "--push", "must have the topic as its path, such as https://ntfy.example.com/ops");
    jw_kv_str(j, "url", str_sub(url, 0, slash + 1));
    jw_kv_str(j, "topic", str_sub(url, slash + 1, url.n));
    if (token.n)
        jw_kv_str(j, "token", token);
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

static enum err notify_write_channel(const struct verb_work *w, struct jw *j, struct error *e)
{
    struct str webhook = notify_text(w, "webhook"), slack = notify_text(w, "slack"), push = notify_text(w, "push"),
               mail = notify_text(w, "email"), secret = notify_text(w, "secret");
    enum err rc = ERR_OK;
    if ((webhook.n > 0) + (slack.n > 0) + (push.n > 0) + (mail.n > 0) != 1)
        return error_set(e, ERR_INVALID, "give one of --webhook, --slack, --push and --email");
    jw_kv_cstr(j, "delivery_type", webhook.n ? "HTTP_WEBHOOK" : slack.n ? "SLACK_WEBHOOK" : push.n ? "PUSH" : "EMAIL");
    jw_key(j, "delivery_config");
    jw_object(j);
    if (webhook.n || slack.n)
        jw_kv_str(j, "url", webhook.n ? webhook : slack);
    if (secret.n)
        jw_kv_str(j, "secret", secret);
    if (option_given(w->o, "signing-key"))
        jw_kv_str(j, "signing_key", notify_text(w, "signing-key"));
    if (push.n)
        rc = notify_write_push(j, push, notify_text(w, "token"), e);
    if (mail.n)
        notify_write_addresses(j, mail);
    jw_object_end(j);
    return rc;
}

static void notify_write_filter(const struct verb_work *w, struct jw *j)
{
    jw_key(j, "filter");
    jw_object(j);
    if (option_given(w->o, "queue"))
        jw_kv_str(j, "queue", option_get(w->o, "queue")->text);
    if (option_given(w->o, "name"))
        jw_kv_str(j, "name", option_get(w->o, "name")->text);
    jw_object_end(j);
}

static enum err notify_write_body(const struct verb_work *w, struct buf *out, struct error *e)
{
    struct jw j;
    jw_init(&j, out);
    jw_object(&j);
    jw_kv_cstr(&j, "name", w->name);
    if (notify_write_kinds(w, &j, e) || notify_write_channel(w, &j, e))
        return e->code;
    notify_write_filter(w, &j);
    if (option_given(w->o, "user"))
        jw_kv_str(&j, "user_id", option_get(w->o, "user")->text);
    if (option_given(w->o, "after"))
        jw_kv_i64(&j, "after", option_get(w->o, "after")->number);
    if (option_given(w->o, "wait"))
        jw_kv_str(&j, "group_wait", option_get(w->o, "wait")->text);
    jw_object_end(&j);
    return ERR_OK;
}

static void notify_print_id(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    (void)w;
    buf_printf(out, STR_FMT "\n", STR_ARG(json_text_at(doc->root, "id")));
}

static enum exit_code notify_add(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    buf_init(&body, BODY_MAX);
    if (notify_write_body(w, &body, &e))
        return cli_fail(w->cli, "notify", &e, EXIT_USAGE);
    struct client_request call = { .method = "POST", .path = SETTINGS, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, notify_print_id, NULL);
}

/* Writes the path of the setting that the second argument names. */
static enum exit_code notify_setting_path(struct verb_work *w, const char *tail, char out[VERB_PATH])
{
    static const struct ids_source settings = { .path = SETTINGS,
                                                .member = "notification_settings",
                                                .name = "name",
                                                .what = "notification setting",
                                                .list = "notify list" };
    cleanup_with(buf_release) struct buf id;
    buf_init(&id, VERB_PATH / 2);
    enum exit_code code = ids_pick(w->client, &settings, str_from(w->name), &id);
    if (!code)
        snprintf(out, VERB_PATH, SETTINGS "/%s%s", buf_cstr(&id), tail);
    return code;
}

static enum exit_code notify_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    enum exit_code code = notify_setting_path(w, "", path);
    if (code)
        return code;
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL,
                     "removed");
}

static const struct named_fact sent_facts[] = {
    { "Message", "id", FACT_TEXT },          { "State", "state", FACT_TEXT },
    { "Type", "type", FACT_TEXT },           { "By", "delivery_type", FACT_TEXT },
    { "Attempts", "attempts", FACT_NUMBER }, { "Status", "http_status", FACT_NUMBER },
    { "Error", "error", FACT_TEXT },         { "Sent", "sent_at", FACT_MOMENT },
};

/* A test that was not received is an exit code. */
static enum exit_code notify_test(struct verb_work *w)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf out;
    char path[VERB_PATH];
    enum exit_code code = notify_setting_path(w, "/test", path);
    struct client_request call = { .method = "POST", .path = path, .about = w->name };
    if (code == EXIT_DONE)
        code = client_call(w->client, &call, &a);
    if (code)
        return code;
    buf_init(&out, BODY_MAX);
    if (w->json)
        client_json_line(&out, buf_str(&a.body));
    else
        named_facts_print(w->cli, a.doc.root, sent_facts, array_count(sent_facts), &out);
    cli_print(w->cli, &out);
    return str_eq(json_text_at(a.doc.root, "state"), S("FAILED")) ? EXIT_REFUSED : EXIT_DONE;
}

/* ---- incidents ---- */

static void notify_incident_header(struct table *t)
{
    table_row(t, INCIDENT_COLUMNS, "ID", "STATE", "KIND", "COUNT", "FIRST", "LAST", "TASK");
}

static const char *notify_time(const json_t *object, const char *member, char out[WHEN_TEXT])
{
    int64_t ms;
    snprintf(out, WHEN_TEXT, "-");
    if (json_time_at(object, member, &ms))
        when_utc(ms, out);
    return out;
}

static void notify_add_incident(struct rows *r, const json_t *incident)
{
    char count[32], first[WHEN_TEXT], last[WHEN_TEXT], state[CELL_TEXT];
    struct str name = json_text_at(incident, "tasks[0].name");
    number_text(incident, "count", count);
    bool is_open = str_eq(json_text_at(incident, "state"), S("OPEN"));
    table_cell(json_text_at(incident, "state"), state);
    if (is_open && json_text_at(incident, "acknowledged_at").n)
        snprintf(state, sizeof state, "acknowledged");
    if (is_open)
        (void)notify_muted_text(incident, clock_wall_ms(r->cli->clock), state);
    table_row(&r->table, INCIDENT_COLUMNS, table_text(&r->table, json_text_at(incident, "id")), state,
              table_text(&r->table, json_text_at(incident, "kind")), count, notify_time(incident, "first_at", first),
              notify_time(incident, "last_at", last),
              table_text(&r->table, name.n ? name : json_text_at(incident, "tasks[0].id")));
}

static enum exit_code notify_incidents(struct verb_work *w)
{
    bool all = option_given(w->o, "all") && option_get(w->o, "all")->number;
    struct pages p = { .client = w->client,
                       .path = all ? INCIDENTS : INCIDENTS "?state=OPEN",
                       .member = "incidents",
                       .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_incident_header, .add = notify_add_incident, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, INCIDENT_COLUMNS, all ? "there are no incidents" : "no incident is open");
}

static enum exit_code notify_ack(struct verb_work *w)
{
    char path[VERB_PATH];
    snprintf(path, sizeof path, INCIDENTS "/%s/ack", w->name);
    return verb_call(w, &(struct client_request){ .method = "POST", .path = path, .about = w->name }, NULL,
                     "acknowledged");
}

static void notify_print_mute(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char text[CELL_TEXT] = "muted";
    (void)notify_muted_text(doc->root, clock_wall_ms(w->cli->clock), text);
    buf_printf(out, "%s %s\n", w->name, text);
}

static enum exit_code notify_mute(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    char path[VERB_PATH];
    struct jw j;
    buf_init(&body, BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (option_given(w->o, "for"))
        jw_kv_str(&j, "for", option_get(w->o, "for")->text);
    jw_object_end(&j);
    snprintf(path, sizeof path, INCIDENTS "/%s/mute", w->name);
    struct client_request call = { .method = "POST", .path = path, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, notify_print_mute, NULL);
}

/* ---- checks ---- */

static void notify_check_header(struct table *t)
{
    table_row(t, CHECK_COLUMNS, "TASK", "NAME", "STATE", "EXPECTED", "DEADLINE", "LAST SUCCESS");
}

static void notify_expected_text(const json_t *check, struct buf *out)
{
    struct str by = json_text_at(check, "expect.success_by"), days = json_text_at(check, "expect.days");
    char text[DURATION_TEXT];
    duration_format(json_seconds_at(check, "expect.within_seconds"), text);
    if (by.n)
        buf_printf(out, "by " STR_FMT "%s" STR_FMT, STR_ARG(by), days.n ? " " : "", STR_ARG(days));
    else
        buf_printf(out, "within %s", text);
}

/* Of a task that is late, the deadline that it missed. */
static void notify_add_check(struct rows *r, const json_t *check)
{
    char deadline[WHEN_TEXT], last[WHEN_TEXT];
    bool is_late = str_eq(json_text_at(check, "state"), S("LATE"));
    table_row(&r->table, CHECK_COLUMNS, table_text(&r->table, json_text_at(check, "task_id")),
              table_text(&r->table, json_text_at(check, "name")), table_text(&r->table, json_text_at(check, "state")),
              task_cell(&r->table, notify_expected_text, check),
              notify_time(check, is_late ? "missed_at" : "next_deadline", deadline),
              notify_time(check, "last_success", last));
}

static enum exit_code notify_checks(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = CHECKS, .member = "checks", .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_check_header, .add = notify_add_check, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, CHECK_COLUMNS, "no task is expected to succeed in time");
}

/* ---- what was sent ---- */

static void notify_sent_header(struct table *t)
{
    table_row(t, SENT_COLUMNS, "ID", "STATE", "TYPE", "BY", "CREATED", "ATTEMPTS", "ERROR");
}

static void notify_add_sent(struct rows *r, const json_t *sent)
{
    char attempts[32], created[WHEN_TEXT];
    number_text(sent, "attempts", attempts);
    table_row(&r->table, SENT_COLUMNS, table_text(&r->table, json_text_at(sent, "id")),
              table_text(&r->table, json_text_at(sent, "state")), table_text(&r->table, json_text_at(sent, "type")),
              table_text(&r->table, json_text_at(sent, "delivery_type")), notify_time(sent, "created_at", created),
              attempts, table_text(&r->table, json_text_at(sent, "error")));
}

static enum exit_code notify_sent(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = SENT, .member = "notifications", .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_sent_header, .add = notify_add_sent, .keep = { 1, 7 } };
    return rows_print(w->cli, w->o, &p, &r, SENT_COLUMNS, "nothing was sent yet");
}

static enum exit_code notify_resend(struct verb_work *w)
{
    char path[VERB_PATH];
    snprintf(path, sizeof path, SENT "/%s/resend", w->name);
    return verb_call(w, &(struct client_request){ .method = "POST", .path = path, .about = w->name }, NULL,
                     "is sent again");
}

static enum exit_code command_notify_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "list", NULL, false, 0, notify_list },
        { "add", "NAME", false, 0, notify_add },
        { "remove", "ID", false, 0, notify_remove },
        { "test", "ID", false, 0, notify_test },
        { "incidents", NULL, false, 0, notify_incidents },
        { "ack", "ID", true, 0, notify_ack },
        { "mute", "ID", true, 0, notify_mute },
        { "checks", NULL, false, 0, notify_checks },
        { "sent", NULL, false, 0, notify_sent },
        { "resend", "ID", true, 0, notify_resend },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_notify = {
    .name = "notify",
    .words = "list|add|remove|test|incidents|ack|mute|checks|sent|resend [NAME|ID]",
    .summary = "be told of failures, and see what was told",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_notify_run,
};
