/* Incidents, messages and checks; mute, unmute and show, which also take a setting. */
#include "base/duration.h"
#include "cli/command/notify/notify.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum {
    INCIDENT_COLUMNS = 8,
    SENT_COLUMNS = 9,
    CHECK_COLUMNS = 6,
    HISTORY_COLUMNS = 5,
    TASK_COLUMNS = 5,
    MUTE_DEFAULT_MS = 3600000
};

/* ---- incidents ---- */

static void notify_incident_header(struct table *t)
{
    table_row(t, INCIDENT_COLUMNS, "ID", "STATE", "SETTING", "KIND", "COUNT", "FIRST", "LAST", "ABOUT");
}

static const char *notify_time(const json_t *object, const char *member, char out[TIME_TEXT])
{
    int64_t ms;
    snprintf(out, TIME_TEXT, "-");
    if (json_time_at(object, member, &ms))
        time_text_utc(ms, out);
    return out;
}

/* The name of a task, else its id, else the cause. */
static struct str notify_about(const json_t *object, const char *name, const char *id)
{
    struct str text = json_text_at(object, name);
    text = text.n ? text : json_text_at(object, id);
    return text.n ? text : json_text_at(object, "cause");
}

static void notify_add_incident(struct rows *r, const json_t *incident)
{
    char count[32], first[TIME_TEXT], last[TIME_TEXT], state[CELL_TEXT];
    number_text(incident, "count", count);
    bool is_open = str_eq(json_text_at(incident, "state"), S("OPEN"));
    table_cell(json_text_at(incident, "state"), state);
    if (is_open && json_text_at(incident, "acknowledged_at").n)
        snprintf(state, sizeof state, "acknowledged");
    if (is_open)
        (void)notify_muted_text(incident, clock_wall_ms(r->cli->clock), state);
    table_row(&r->table, INCIDENT_COLUMNS, table_text(&r->table, json_text_at(incident, "id")), state,
              table_text(&r->table, json_text_at(incident, "setting_name")),
              table_text(&r->table, json_text_at(incident, "kind")), count, notify_time(incident, "first_at", first),
              notify_time(incident, "last_at", last),
              table_text(&r->table, notify_about(incident, "tasks[0].name", "tasks[0].id")));
}

enum exit_code notify_incidents(struct verb_work *w)
{
    bool all = option_given(w->o, "all") && option_get(w->o, "all")->number;
    struct pages p = { .client = w->client,
                       .path = all ? INCIDENTS : INCIDENTS "?state=OPEN",
                       .member = "incidents",
                       .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_incident_header, .add = notify_add_incident, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, INCIDENT_COLUMNS, all ? "there are no incidents" : "no incident is open");
}

enum exit_code notify_ack(struct verb_work *w)
{
    char path[VERB_PATH];
    snprintf(path, sizeof path, INCIDENTS "/%s/ack", w->name);
    return verb_call(w, &(struct client_request){ .method = "POST", .path = path, .about = w->name }, NULL,
                     "acknowledged");
}

/* ---- mute and show: by id, or of a setting by its name ---- */

/* Looks an id up as that of an incident, then, with `sent`, of a message. Else it is a setting. *ret is empty then. */
static enum exit_code notify_find(struct verb_work *w, const char *const *lists, struct client_answer *ret,
                                  char path[VERB_PATH])
{
    struct uuid id;
    for (; *lists && uuid_parse(str_from(w->name), &id); lists++) {
        struct client_request call = { .method = "GET", .path = path, .about = w->name, .may_be_missing = true };
        snprintf(path, VERB_PATH, "%s/%s", *lists, w->name);
        enum exit_code code = client_call(w->client, &call, ret);
        if (code || ret->doc.root)
            return code;
        client_answer_release(ret);
        *ret = (struct client_answer){ 0 };
    }
    return notify_setting_path(w, "", path);
}

static void notify_print_mute(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char text[CELL_TEXT] = "not muted";
    (void)notify_muted_text(doc->root, clock_wall_ms(w->cli->clock), text);
    buf_printf(out, "%s %s\n", w->name, text);
}

/* Of a setting it is a member; until_ms 0: the mute ends. */
static enum exit_code notify_set_mute(struct verb_work *w, int64_t until_ms)
{
    static const char *const lists[] = { INCIDENTS, NULL };
    cleanup_with(client_answer_release) struct client_answer incident = { 0 };
    cleanup_with(buf_release) struct buf body;
    char path[VERB_PATH], whole[VERB_PATH + 8];
    struct jw j;
    enum exit_code code = notify_find(w, lists, &incident, path);
    if (code)
        return code;
    bool is_incident = incident.doc.root;
    buf_init(&body, NOTIFY_BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (!is_incident)
        jw_kv_time_or_null(&j, "muted_until", until_ms);
    else if (until_ms)
        jw_kv_time(&j, "until", until_ms);
    jw_object_end(&j);
    snprintf(whole, sizeof whole, "%s%s", path, !is_incident ? "" : until_ms ? "/mute" : "/unmute");
    struct client_request call = {
        .method = is_incident ? "POST" : "PATCH", .path = whole, .body = buf_str(&body), .about = w->name
    };
    return verb_call(w, &call, notify_print_mute, NULL);
}

enum exit_code notify_mute(struct verb_work *w)
{
    struct error e;
    if (option_given(w->o, "for") && option_given(w->o, "until")) {
        error_set(&e, ERR_INVALID, "give one of --for and --until");
        return cli_fail(w->cli, "notify", &e, EXIT_USAGE);
    }
    int64_t for_ms = option_given(w->o, "for") ? option_get(w->o, "for")->number : MUTE_DEFAULT_MS;
    return notify_set_mute(w, option_given(w->o, "until") ? option_get(w->o, "until")->number
                                                          : clock_wall_ms(w->cli->clock) + for_ms);
}

enum exit_code notify_unmute(struct verb_work *w)
{
    return notify_set_mute(w, 0);
}

static const struct named_fact incident_facts[] = {
    { "Incident", "id", FACT_TEXT },
    { "State", "state", FACT_TEXT },
    { "Setting", "setting_name", FACT_TEXT },
    { "Kind", "kind", FACT_TEXT },
    { "Cause", "cause", FACT_TEXT },
    { "Detail", "detail", FACT_TEXT },
    { "Count", "count", FACT_NUMBER },
    { "First", "first_at", FACT_MOMENT },
    { "Last", "last_at", FACT_MOMENT },
    { "Told", "told_at", FACT_MOMENT },
    { "Acknowledged", "acknowledged_at", FACT_MOMENT },
    { "By", "acknowledged_by", FACT_TEXT },
    { "Muted until", "muted_until", FACT_MOMENT },
    { "Closed", "closed_at", FACT_MOMENT },
    { "Recovered", "recovered", FACT_YES },
};

static void notify_print_incident(struct verb_work *w, const json_t *incident, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    size_t i;
    const json_t *task, *tasks = json_at(incident, "tasks");
    named_facts_print(w->cli, incident, incident_facts, array_count(incident_facts), out);
    table_init(&t, TASK_COLUMNS);
    if (json_array_size(tasks))
        table_row(&t, TASK_COLUMNS, "TASK", "NAME", "QUEUE", "SCHEDULED", "ERROR");
    json_array_foreach (tasks, i, task) {
        char at[TIME_TEXT];
        table_row(&t, TASK_COLUMNS, table_text(&t, json_text_at(task, "id")),
                  table_text(&t, json_text_at(task, "name")), table_text(&t, json_text_at(task, "queue")),
                  notify_time(task, "scheduled_for", at), table_text(&t, json_text_at(task, "error")));
    }
    table_print(&t, out);
}

static const struct named_fact message_facts[] = {
    { "Message", "id", FACT_TEXT },
    { "State", "state", FACT_TEXT },
    { "Type", "type", FACT_TEXT },
    { "Setting", "setting_name", FACT_TEXT },
    { "By", "delivery_type", FACT_TEXT },
    { "Incident", "incident", FACT_TEXT },
    { "Kind", "kind", FACT_TEXT },
    { "Cause", "cause", FACT_TEXT },
    { "Task", "task_name", FACT_TEXT },
    { "Task id", "task_id", FACT_TEXT },
    { "Attempts", "attempts", FACT_NUMBER },
    { "Status", "http_status", FACT_NUMBER },
    { "Error", "error", FACT_TEXT },
    { "Created", "created_at", FACT_MOMENT },
    { "Sent", "sent_at", FACT_MOMENT },
    { "Sent again", "resent_at", FACT_MOMENT },
    { "Next attempt", "next_attempt_at", FACT_MOMENT },
};

static void notify_print_message(struct verb_work *w, const json_t *message, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    size_t i;
    const json_t *act, *history = json_at(message, "history");
    named_facts_print(w->cli, message, message_facts, array_count(message_facts), out);
    table_init(&t, HISTORY_COLUMNS);
    if (json_array_size(history))
        table_row(&t, HISTORY_COLUMNS, "AT", "WHAT", "BY", "STATUS", "ERROR");
    json_array_foreach (history, i, act) {
        char at[TIME_TEXT], status[32];
        number_text(act, "http_status", status);
        table_row(&t, HISTORY_COLUMNS, notify_time(act, "at", at), table_text(&t, json_text_at(act, "what")),
                  table_text(&t, json_text_at(act, "by")), status, table_text(&t, json_text_at(act, "error")));
    }
    table_print(&t, out);
}

static void notify_print_any(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    if (json_at(doc->root, "history"))
        notify_print_message(w, doc->root, out);
    else if (json_at(doc->root, "first_at"))
        notify_print_incident(w, doc->root, out);
    else
        notify_print_setting(w, doc->root, out);
}

enum exit_code notify_show(struct verb_work *w)
{
    static const char *const lists[] = { INCIDENTS, SENT, NULL };
    cleanup_with(client_answer_release) struct client_answer found = { 0 };
    char path[VERB_PATH];
    enum exit_code code = notify_find(w, lists, &found, path);
    struct client_request call = { .method = "GET", .path = path, .about = w->name };
    return code ? code : verb_call(w, &call, notify_print_any, NULL);
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
    char deadline[TIME_TEXT], last[TIME_TEXT];
    bool is_late = str_eq(json_text_at(check, "state"), S("LATE"));
    table_row(&r->table, CHECK_COLUMNS, table_text(&r->table, json_text_at(check, "task_id")),
              table_text(&r->table, json_text_at(check, "name")), table_text(&r->table, json_text_at(check, "state")),
              task_cell(&r->table, notify_expected_text, check),
              notify_time(check, is_late ? "missed_at" : "next_deadline", deadline),
              notify_time(check, "last_success", last));
}

enum exit_code notify_checks(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = CHECKS, .member = "checks", .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_check_header, .add = notify_add_check, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, CHECK_COLUMNS, "no task is expected to succeed in time");
}

/* ---- what was sent ---- */

static void notify_sent_header(struct table *t)
{
    table_row(t, SENT_COLUMNS, "ID", "STATE", "SETTING", "TYPE", "ABOUT", "BY", "CREATED", "ATTEMPTS", "ERROR");
}

static void notify_add_sent(struct rows *r, const json_t *sent)
{
    char attempts[32], created[TIME_TEXT];
    number_text(sent, "attempts", attempts);
    table_row(&r->table, SENT_COLUMNS, table_text(&r->table, json_text_at(sent, "id")),
              table_text(&r->table, json_text_at(sent, "state")),
              table_text(&r->table, json_text_at(sent, "setting_name")),
              table_text(&r->table, json_text_at(sent, "type")),
              table_text(&r->table, notify_about(sent, "task_name", "task_id")),
              table_text(&r->table, json_text_at(sent, "delivery_type")), notify_time(sent, "created_at", created),
              attempts, table_text(&r->table, json_text_at(sent, "error")));
}

enum exit_code notify_sent(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = SENT, .member = "notifications", .limit = PAGES_LIMIT_MAX };
    struct rows r = { .header = notify_sent_header, .add = notify_add_sent, .keep = { 1, SENT_COLUMNS } };
    return rows_print(w->cli, w->o, &p, &r, SENT_COLUMNS, "nothing was sent yet");
}

enum exit_code notify_resend(struct verb_work *w)
{
    char path[VERB_PATH];
    snprintf(path, sizeof path, SENT "/%s/resend", w->name);
    return verb_call(w, &(struct client_request){ .method = "POST", .path = path, .about = w->name }, NULL,
                     "is sent again");
}
