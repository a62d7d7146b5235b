/* belfry tenant - manages tenants and their limits. */
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/verbs.h"

enum { COLUMNS = 8, BODY_MAX = 64 * 1024 };
#define COLLECTION "/v1/tenants"
#define COUNT_MAX  1000000000000LL

/* clang-format off */
#define LIMIT(flag_, help_) { .flag = (flag_), .type = OPTION_INT, .value = "N", .min = 0, .max = COUNT_MAX, .help = (help_), .only = "create|set" }
static const struct option options[] = {
    LIMIT("max-running", "running tasks; 0: only limited by its fair share"),
    LIMIT("max-pending", "unfinished tasks; 0: no limit"),
    LIMIT("max-recurring", "recurring tasks; 0: no limit"),
    LIMIT("creates-per-second", "new tasks a second; 0: no limit"),
    LIMIT("payload-bytes", "bytes of payload and target of one task; 0: only the server's limit"),
};
/* clang-format on */

static const char detail[] =
    "Requires an admin key of the tenant 'default', which always exists.\n"
    "\n"
    "  create NAME     create a tenant; 'belfry key create … --tenant NAME' creates keys for it\n"
    "  list            list all tenants\n"
    "  show NAME       show a tenant with its usage\n"
    "  set NAME        change the limits of a tenant; only the given options change\n"
    "  disable NAME    disable a tenant: its keys are rejected and its tasks wait\n"
    "  enable NAME     enable a tenant again\n"
    "\n"
    "Examples:\n"
    "  belfry tenant create acme --max-pending 100000 --creates-per-second 50\n"
    "  belfry tenant set acme --max-running 20\n";

static const struct tenant_limit {
    const char *flag, *field;
} limits[] = {
    { "max-running", "max_running" },     { "max-pending", "max_pending" },
    { "max-recurring", "max_recurring" }, { "creates-per-second", "creates_per_second" },
    { "payload-bytes", "payload_bytes" },
};

static const struct named_fact facts[] = {
    { "Name", "name", FACT_TEXT },
    { "Number", "number", FACT_NUMBER },
    { "Disabled", "disabled", FACT_YES },
    { "Pending", "pending", FACT_NUMBER },
    { "Max pending", "max_pending", FACT_NUMBER },
    { "Recurring", "recurring", FACT_NUMBER },
    { "Max recurring", "max_recurring", FACT_NUMBER },
    { "Max running", "max_running", FACT_NUMBER },
    { "Creates a second", "creates_per_second", FACT_NUMBER },
    { "Payload bytes", "payload_bytes", FACT_NUMBER },
    { "Version", "version", FACT_NUMBER },
    { "Created", "created_at", FACT_MOMENT },
    { "Updated", "updated_at", FACT_MOMENT },
};

static void tenant_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "PENDING", "MAX", "RECURRING", "MAX", "RUNNING MAX", "CREATES/S");
}

static void tenant_add_row(struct rows *r, const json_t *tenant)
{
    char pending[32], max_pending[32], recurring[32], max_recurring[32], running[32], creates[32];
    number_text(tenant, "pending", pending);
    number_text(tenant, "max_pending", max_pending);
    number_text(tenant, "recurring", recurring);
    number_text(tenant, "max_recurring", max_recurring);
    number_text(tenant, "max_running", running);
    number_text(tenant, "creates_per_second", creates);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(tenant, "name")),
              json_is_true(json_at(tenant, "disabled")) ? "disabled" : "open", pending, max_pending, recurring,
              max_recurring, running, creates);
}

static enum exit_code tenant_list(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = COLLECTION, .member = "tenants", .limit = INT64_MAX };
    struct rows r = { .header = tenant_header, .add = tenant_add_row };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "there are no tenants");
}

static void tenant_print(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    named_facts_print(w->cli, doc->root, facts, array_count(facts), out);
}

static void tenant_write_limits(const struct options *o, struct jw *w)
{
    for (size_t i = 0; i < array_count(limits); i++)
        if (option_given(o, limits[i].flag))
            jw_kv_i64(w, limits[i].field, option_get(o, limits[i].flag)->number);
}

static void tenant_print_created(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    cleanup_with(buf_release) struct buf notice;
    buf_init(&notice, BODY_MAX);
    table_plain_text(json_text_at(doc->root, "notice"), SIZE_MAX, &notice);
    tenant_print(w, doc, out);
    if (notice.n)
        fprintf(w->cli->err, "belfry tenant: note: %s\n", buf_cstr(&notice));
}

static enum exit_code tenant_create(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct jw j;
    jw_init(&j, &body);
    jw_object(&j);
    jw_kv_cstr(&j, "name", w->name);
    tenant_write_limits(w->o, &j);
    jw_object_end(&j);
    struct client_request call = { .method = "POST", .path = COLLECTION, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, tenant_print_created, NULL);
}

static enum exit_code tenant_show(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = w->name }, tenant_print,
                     NULL);
}

static enum exit_code tenant_patch(struct verb_work *w, struct str body,
                                   void (*show_it)(struct verb_work *w, const struct json_doc *doc, struct buf *out),
                                   const char *done)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "PATCH", .path = path, .body = body, .about = w->name },
                     show_it, done);
}

static enum exit_code tenant_set(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct jw j;
    jw_init(&j, &body);
    jw_object(&j);
    tenant_write_limits(w->o, &j);
    jw_object_end(&j);
    if (str_eq(buf_str(&body), S("{}"))) {
        struct error e;
        error_set(&e, ERR_INVALID, "nothing to change: give a limit; 'belfry tenant --help' lists them");
        return cli_fail(w->cli, "tenant", &e, EXIT_USAGE);
    }
    return tenant_patch(w, buf_str(&body), tenant_print, NULL);
}

static enum exit_code tenant_disable(struct verb_work *w)
{
    return tenant_patch(w, S("{\"disabled\": true}"), NULL, "disabled");
}

static enum exit_code tenant_enable(struct verb_work *w)
{
    return tenant_patch(w, S("{\"disabled\": false}"), NULL, "enabled");
}

static enum exit_code command_tenant_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "create", "NAME", true, 0, tenant_create },   { "list", NULL, false, false, tenant_list },
        { "show", "NAME", true, 0, tenant_show },       { "set", "NAME", true, false, tenant_set },
        { "disable", "NAME", true, 0, tenant_disable }, { "enable", "NAME", true, false, tenant_enable },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_tenant = {
    .name = "tenant",
    .words = "create|list|show|set|disable|enable [NAME]",
    .summary = "create tenants and limit them",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_tenant_run,
};
