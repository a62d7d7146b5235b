/* belfry breakers - lists and closes circuit breakers. */
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/time_text.h"
#include "cli/verbs.h"

enum { COLUMNS = 7 };

#define COLLECTION "/v1/breakers"

static const char detail[] =
    "  list            list the breakers that are not closed, the latest first\n"
    "  close ID|HOST   close one: the tasks that it holds run at once\n"
    "\n"
    "A breaker opens if most calls to a host fail, or if calls to many hosts of the tenant do (HOST is * then). While it is\n"
    "OPEN, its tasks wait. After RETRY it is HALF_OPEN: one task at a time is tried. If that succeeds, the breaker closes.\n"
    "FAILED is how many of the calls that opened it failed.\n"
    "\n"
    "Examples:\n"
    "  belfry breakers list\n"
    "  belfry breakers close api.example.com:443\n"
    "  belfry breakers close 019cb323-e500-7111-827d-7345cc1bc385\n";

static void breakers_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "HOST", "STATE", "SINCE", "RETRY", "FAILED", "REASON");
}

static void breakers_add_row(struct rows *r, const json_t *breaker)
{
    char calls[32], failures[32], failed[72];
    char since[TIME_TEXT] = "-", retry[TIME_TEXT] = "-";
    struct str name = json_text_at(breaker, "host");
    int64_t ms;
    if (json_time_at(breaker, "opened_at", &ms))
        time_text_utc(ms, since);
    if (json_time_at(breaker, "retry_at", &ms))
        time_text_utc(ms, retry);
    number_text(breaker, "failures", failures);
    number_text(breaker, "calls", calls);
    snprintf(failed, sizeof failed, "%s/%s", failures, calls);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(breaker, "id")),
              table_text(&r->table, name.n ? name : S("*")), table_text(&r->table, json_text_at(breaker, "state")),
              since, retry, failed, table_text(&r->table, json_text_at(breaker, "reason")));
}

static enum exit_code breakers_list(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = COLLECTION, .member = "breakers", .limit = INT64_MAX };
    struct rows r = { .header = breakers_header, .add = breakers_add_row, .keep = { 1, 7 } };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "no circuit breaker is open");
}

static enum exit_code breakers_close(struct verb_work *w)
{
    static const struct ids_source breakers = {
        .path = COLLECTION, .member = "breakers", .name = "host", .what = "circuit breaker", .list = "breakers list"
    };
    cleanup_with(buf_release) struct buf id;
    char path[VERB_PATH];
    buf_init(&id, VERB_PATH / 2);
    enum exit_code code = ids_pick(w->client, &breakers, str_from(w->name), &id);
    if (code)
        return code;
    snprintf(path, sizeof path, COLLECTION "/%s/close", buf_cstr(&id));
    return verb_call(w, &(struct client_request){ .method = "POST", .path = path, .about = w->name }, NULL, "closed");
}

static enum exit_code command_breakers_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = { { "list", NULL, false, false, breakers_list },
                                         { "close", "ID", false, 0, breakers_close } };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_breakers = {
    .name = "breakers",
    .words = "list|close [ID|HOST]",
    .summary = "list and close circuit breakers",
    .detail = detail,
    .run = command_breakers_run,
};
