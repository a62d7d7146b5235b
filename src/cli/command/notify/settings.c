/* Settings: list, add, edit, remove, test. */
#include "cli/command/notify/notify.h"

#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum { SETTING_COLUMNS = 6 };

/* ---- texts ---- */

static void notify_kinds_text(const json_t *setting, struct buf *out)
{
    size_t from = out->n;
    for (size_t i = 0; i < NOTIFY_KINDS; i++) {
        char member[32];
        snprintf(member, sizeof member, "on_%s", notify_kinds[i]);
        if (json_is_true(json_at(setting, member)))
            buf_printf(out, "%s%s", out->n > from ? "," : "", notify_kinds[i]);
    }
}

/* The address, the first of several, or the server and its topic. Also of a step. */
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

bool notify_muted_text(const json_t *of, int64_t now_ms, char out[CELL_TEXT])
{
    char until[TIME_TEXT];
    int64_t until_ms;
    if (!json_time_at(of, "muted_until", &until_ms) || until_ms <= now_ms)
        return false;
    time_text_utc(until_ms, until);
    snprintf(out, CELL_TEXT, "muted until %s", until);
    return true;
}

static void notify_state_text(const struct cli *cli, const json_t *setting, char out[CELL_TEXT])
{
    snprintf(out, CELL_TEXT, "enabled");
    if (!json_is_true(json_at(setting, "enabled")))
        snprintf(out, CELL_TEXT, "disabled");
    else
        (void)notify_muted_text(setting, clock_wall_ms(cli->clock), out);
}

/* ---- list ---- */

static void notify_header(struct table *t)
{
    table_row(t, SETTING_COLUMNS, "ID", "NAME", "TELLS", "BY", "TO", "STATE");
}

static void notify_add_row(struct rows *r, const json_t *setting)
{
    char state[CELL_TEXT];
    notify_state_text(r->cli, setting, state);
    table_row(&r->table, SETTING_COLUMNS, table_text(&r->table, json_text_at(setting, "id")),
              table_text(&r->table, json_text_at(setting, "name")), task_cell(&r->table, notify_kinds_text, setting),
              table_text(&r->table, json_text_at(setting, "delivery_type")),
              task_cell(&r->table, notify_place_text, setting), state);
}

enum exit_code notify_list(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, NOTIFY_BODY_MAX);
    buf_text(&path, SETTINGS);
    if (option_given(w->o, "user"))
        query_add(&path, "user_id", option_get(w->o, "user")->text);
    struct pages p = {
        .client = w->client, .path = buf_cstr(&path), .member = "notification_settings", .limit = INT64_MAX
    };
    struct rows r = { .header = notify_header, .add = notify_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, SETTING_COLUMNS, "there are no notification settings");
}

/* ---- show ---- */

static const struct named_fact setting_facts[] = {
    { "Setting", "id", FACT_TEXT },
    { "Name", "name", FACT_TEXT },
    { "User", "user_id", FACT_TEXT },
    { "By", "delivery_type", FACT_TEXT },
    { "Queue", "filter.queue", FACT_TEXT },
    { "Type", "filter.task_type", FACT_TEXT },
    { "Task", "filter.name", FACT_TEXT },
    { "Mode", "mode", FACT_TEXT },
    { "After", "after", FACT_NUMBER },
    { "Wait", "group_wait", FACT_TEXT },
    { "Window", "group_window", FACT_TEXT },
    { "Repeats", "repeat_every", FACT_TEXT },
    { "Per hour", "max_per_hour", FACT_NUMBER },
    { "Changed", "updated_at", FACT_MOMENT },
};

/* The facts; then its state, what it tells and whom, in sentences. */
void notify_print_setting(struct verb_work *w, const json_t *setting, struct buf *out)
{
    char state[CELL_TEXT];
    notify_state_text(w->cli, setting, state);
    named_facts_print(w->cli, setting, setting_facts, array_count(setting_facts), out);
    buf_printf(out, "It is %s. It tells ", state);
    notify_kinds_text(setting, out);
    buf_text(out, " to ");
    notify_place_text(setting, out);
    buf_text(out, ".\n");
    size_t i;
    const json_t *step;
    json_array_foreach (json_at(setting, "steps"), i, step) {
        buf_printf(out, "Step %zu, after ", i + 1);
        table_plain_text(json_text_at(step, "after"), SIZE_MAX, out);
        buf_text(out, ": ");
        table_plain_text(json_text_at(step, "delivery_type"), SIZE_MAX, out);
        buf_text(out, " to ");
        notify_place_text(step, out);
        buf_char(out, '\n');
    }
}

/* ---- changes ---- */

static void notify_print_id(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    (void)w;
    buf_printf(out, STR_FMT "\n", STR_ARG(json_text_at(doc->root, "id")));
}

enum exit_code notify_add(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    buf_init(&body, NOTIFY_BODY_MAX);
    if (notify_write_body(w, true, &body, &e))
        return cli_fail(w->cli, "notify", &e, EXIT_USAGE);
    struct client_request call = { .method = "POST", .path = SETTINGS, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, notify_print_id, NULL);
}

enum exit_code notify_setting_path(struct verb_work *w, const char *tail, char out[VERB_PATH])
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

enum exit_code notify_edit(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    char path[VERB_PATH];
    buf_init(&body, NOTIFY_BODY_MAX);
    if (notify_write_body(w, false, &body, &e))
        return cli_fail(w->cli, "notify", &e, EXIT_USAGE);
    enum exit_code code = notify_setting_path(w, "", path);
    struct client_request call = { .method = "PATCH", .path = path, .body = buf_str(&body), .about = w->name };
    return code ? code : verb_call(w, &call, NULL, "changed");
}

enum exit_code notify_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    enum exit_code code = notify_setting_path(w, "", path);
    if (code)
        return code;
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL,
                     "removed");
}

/* ---- test ---- */

static const struct named_fact test_facts[] = {
    { "Message", "id", FACT_TEXT },          { "State", "state", FACT_TEXT },
    { "Type", "type", FACT_TEXT },           { "By", "delivery_type", FACT_TEXT },
    { "Attempts", "attempts", FACT_NUMBER }, { "Status", "http_status", FACT_NUMBER },
    { "Error", "error", FACT_TEXT },         { "Sent", "sent_at", FACT_MOMENT },
};

/* A test that was not received is an exit code. */
enum exit_code notify_test(struct verb_work *w)
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
    buf_init(&out, NOTIFY_BODY_MAX);
    if (w->json)
        client_json_line(&out, buf_str(&a.body));
    else
        named_facts_print(w->cli, a.doc.root, test_facts, array_count(test_facts), &out);
    cli_print(w->cli, &out);
    return str_eq(json_text_at(a.doc.root, "state"), S("FAILED")) ? EXIT_REFUSED : EXIT_DONE;
}
