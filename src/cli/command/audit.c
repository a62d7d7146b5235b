/* belfry audit - prints the audit log: who changed what, and from where. */
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/time_text.h"

enum { COLUMNS = 11, PATH_BYTES = 2048 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "since", .type = OPTION_PAST, .value = "WHEN", .help = "only what was done since then: a time, a date, or how long ago, such as 2h" },
    { .flag = "until", .type = OPTION_PAST, .value = "WHEN", .help = "only what was done before then" },
    { .flag = "by", .type = OPTION_TEXT, .value = "KEY", .help = "only by this API key: its id (the ten characters behind bf_) or name; or cert:NAME, or system" },
    { .flag = "action", .type = OPTION_TEXT, .value = "ACTION", .help = "only this action; a * at the end stands for anything: 'DELETE *'" },
    { .flag = "object", .type = OPTION_TEXT, .value = "ID|NAME", .help = "only what was done to this task, queue, key …; a task or key may be given by its present name, too" },
    { .flag = "tenant", .type = OPTION_TEXT, .value = "TENANT", .help = "only of keys of this tenant; needs an admin key of 'default'" },
};
/* clang-format on */

static const char detail[] =
    "Needs the scope audit:read. An admin key of the tenant 'default' sees all tenants, every other key its own.\n"
    "Each request that changed something is one line, the latest first. A line with REFUSED tells of API keys that were\n"
    "wrong; COUNT is how many came from that address. BY and NAME are the names that the key and the object had then.\n"
    "REASON is what the act was given: of a pause, of a mute, of an archived dead letter.\n"
    "--json has the hash of the request's body, too.\n"
    "\n"
    "Examples:\n"
    "  belfry audit --since 2026-02-10 --until 2026-02-11\n"
    "  belfry audit --object 019c3f2e-7a40-7000-8000-000000000001\n"
    "  belfry audit --action 'DELETE *' --by 4RkP2vGq8Z --all --json\n";

static void audit_header(struct table *t)
{
    table_row(t, COLUMNS, "WHEN", "TENANT", "BY", "KEY", "ADDRESS", "ACTION", "OBJECT", "NAME", "COUNT", "OUTCOME",
              "REASON");
}

static const char *audit_cell(struct rows *r, const json_t *row, const char *member)
{
    struct str text = json_text_at(row, member);
    return table_text(&r->table, text.n ? text : S("-"));
}

/* "the bank is closed, until 2026-02-10 08:00:00Z" */
static const char *audit_reason(struct rows *r, const json_t *row)
{
    struct str reason = json_text_at(row, "details.reason");
    char until[TIME_TEXT];
    int64_t ms;
    if (!json_time_at(row, "details.until", &ms))
        return table_text(&r->table, reason.n ? reason : S("-"));
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, PATH_BYTES);
    time_text_utc(ms, until);
    buf_printf(&text, STR_FMT "%suntil %s", STR_ARG(reason), reason.n ? ", " : "", until);
    return table_text(&r->table, buf_str(&text));
}

static void audit_add_row(struct rows *r, const json_t *row)
{
    char when[TIME_TEXT] = "-", count[24];
    int64_t ms;
    if (json_time_at(row, "at", &ms))
        time_text_utc(ms, when);
    snprintf(count, sizeof count, "%lld", (long long)json_i64_at(row, "count", 0));
    table_row(&r->table, COLUMNS, when, audit_cell(r, row, "tenant"), audit_cell(r, row, "key_name"),
              audit_cell(r, row, "key"), audit_cell(r, row, "address"), audit_cell(r, row, "action"),
              audit_cell(r, row, "object"), audit_cell(r, row, "object_name"), count, audit_cell(r, row, "outcome"),
              audit_reason(r, row));
}

static enum err audit_add_filters(struct cli *cli, const struct options *o, struct buf *path, struct error *e)
{
    static const char *const texts[] = { "action", "tenant" };
    int64_t now_ms = clock_wall_ms(cli->clock);
    bool has_both = option_given(o, "since") && option_given(o, "until");
    if (has_both && option_past_ms(o, "until", now_ms) <= option_past_ms(o, "since", now_ms))
        return error_set(e, ERR_INVALID, "--until must be after --since");
    buf_text(path, "/v1/audit");
    query_add_past(path, o, "since", "from", now_ms);
    query_add_past(path, o, "until", "to", now_ms);
    for (size_t i = 0; i < array_count(texts); i++)
        if (option_given(o, texts[i]))
            query_add(path, texts[i], option_get(o, texts[i])->text);
    return ERR_OK;
}

/* Appends the id of the key with this id or name; nothing if there is none. */
static enum exit_code audit_find_key(struct client *client, const struct options *o, struct str word, struct buf *ret)
{
    cleanup_with(buf_release) struct buf list;
    buf_init(&list, PATH_BYTES);
    buf_text(&list, "/v1/api-keys");
    if (option_given(o, "tenant"))
        query_add(&list, "tenant", option_get(o, "tenant")->text);
    struct ids_source keys = {
        .path = buf_cstr(&list), .member = "keys", .name = "name", .what = "key", .list = "key list", .optional = true
    };
    return ids_pick(client, &keys, word, ret);
}

/* A key that was deleted is in no list: a word that is no name of a key counts as an id. */
static enum exit_code audit_add_key(struct client *client, const struct options *o, struct buf *path)
{
    cleanup_with(buf_release) struct buf id;
    enum exit_code code = EXIT_DONE;
    buf_init(&id, PATH_BYTES);
    if (!option_given(o, "by"))
        return EXIT_DONE;
    struct str word = option_get(o, "by")->text;
    bool is_key = !str_eq(word, S("system")) && !str_starts(word, S("cert:"));
    if (str_starts(word, S("bf_")))
        word = str_sub(word, strlen("bf_"), word.n);
    else if (is_key)
        code = audit_find_key(client, o, word, &id);
    query_add(path, "key", id.n ? buf_str(&id) : word);
    return code;
}

/* Rows name an object as its path does: a task by its id, a queue by its name. */
static enum exit_code audit_print(struct cli *cli, const struct options *o, struct client *client, const char *filters,
                                  struct str object, const char *none, size_t *ret_count)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_BYTES);
    buf_text(&path, filters);
    if (object.n)
        query_add(&path, "object", object);
    struct pages p = { .client = client, .path = buf_cstr(&path), .member = "audit", .limit = pages_limit(o) };
    struct rows r = { .header = audit_header, .add = audit_add_row, .keep = { 1, 4, 7 } };
    enum exit_code code = rows_print(cli, o, &p, &r, COLUMNS, none);
    *ret_count = r.count;
    return code;
}

/* The id of the task or key that has this name now; empty: none has. */
static enum exit_code audit_find_object(struct client *client, const struct options *o, struct str word,
                                        struct buf *ret)
{
    cleanup_with(ids_release) struct ids found = { 0 };
    enum exit_code code = ids_find_word(client, word, "/v1/tasks", &found);
    if (found.n)
        buf_text(ret, found.v[0]);
    return code || found.n ? code : audit_find_key(client, o, word, ret);
}

static enum exit_code audit_print_object(struct cli *cli, const struct options *o, struct client *client,
                                         const char *filters, struct str object)
{
    static const char none[] =
        "no rows match; a task that was deleted or renamed, or that another tenant has, is found only by its id";
    struct uuid id;
    size_t n = 0;
    cleanup_with(buf_release) struct buf found;
    buf_init(&found, PATH_BYTES);
    if (!object.n)
        return audit_print(cli, o, client, filters, object,
                           strchr(filters, '?') ? "no rows match" : "there are no rows", &n);
    bool may_be_name = !uuid_parse(object, &id);
    enum exit_code code = audit_print(cli, o, client, filters, object, may_be_name ? NULL : "no rows match", &n);
    if (code || n || !may_be_name)
        return code;
    code = audit_find_object(client, o, object, &found);
    return code ? code : audit_print(cli, o, client, filters, found.n ? buf_str(&found) : object, none, &n);
}

static enum exit_code command_audit_run(struct cli *cli, const struct options *o)
{
    struct error e;
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf filters;
    buf_init(&filters, PATH_BYTES);
    if (audit_add_filters(cli, o, &filters, &e))
        return cli_fail(cli, "audit", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = audit_add_key(client, o, &filters);
    return code ? code : audit_print_object(cli, o, client, buf_cstr(&filters), option_get(o, "object")->text);
}

const struct command command_audit = {
    .name = "audit",
    .words = "",
    .summary = "print who changed what",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .shared_options = page_options,
    .shared_count = PAGE_OPTION_COUNT,
    .run = command_audit_run,
};
