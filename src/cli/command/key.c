/* belfry key - creates, lists and revokes API keys. The secret of a key is printed only once.
 * belfry dashboard - prints a link that logs in to the dashboard once, with the rights of a key, and opens it. */
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"

enum { COLUMNS = 6, BODY_MAX = 64 * 1024 };
#define COLLECTION "/v1/api-keys"

/* clang-format off */
static const struct option options[] = {
    { .flag = "scopes", .type = OPTION_TEXT, .value = "LIST",
      .only = "create", .help = "what the key may do, such as tasks:read,tasks:write; admin: everything" },
    { .flag = "expires", .type = OPTION_TIME, .value = "TIME", .only = "create", .help = "the key expires at this time" },
    { .flag = "expires-in", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = DURATION_MAX_MS,
      .only = "create", .help = "the key expires after this duration" },
    { .flag = "tenant", .type = OPTION_TEXT, .value = "TENANT", .help = "keys of another tenant; requires an admin key of tenant 'default'" },
};
/* clang-format on */

static const char detail[] =
    "  create NAME     create a key; it is printed once and cannot be printed again\n"
    "  list            list all keys, without their secrets\n"
    "  revoke ID       revoke a key, by its id or its name; it stops working at once\n"
    "\n"
    "Scopes, for --scopes:\n"
    "  tasks:read, tasks:write            see tasks; create, change, cancel and run them\n"
    "  tasks:lease                        lease WORKER tasks and report their outcome, nothing else\n"
    "  dlq:read, dlq:write                see dead letters; retry and archive them\n"
    "  workflows:read, workflows:write    see workflows and their definitions; start and change them\n"
    "  workflows:signal                   send signals to workflows, as this key\n"
    "  workflows:signal-as                with workflows:signal: the same in the name of others\n"
    "  queues:read, queues:write          see queues; limit and pause them\n"
    "  calendars:read, calendars:write    see calendars; change them\n"
    "  notifications:read                 see notification settings, incidents and what was sent\n"
    "  notifications:write                change settings; acknowledge, mute, send again\n"
    "  signing-keys:read                  see signing keys, without their secrets\n"
    "  signing-keys:write                 make, rotate and remove signing keys\n"
    "  status:read, metrics:read          see the state of the server; its metrics\n"
    "  audit:read                         see who changed what: 'belfry audit'\n"
    "  admin                              everything, keys included\n"
    "\n"
    "Examples:\n"
    "  belfry key create deploy --scopes tasks:read,tasks:write --expires-in 90d\n"
    "  belfry key create acme-admin --scopes admin --tenant acme\n"
    "  belfry key list --tenant acme\n";

static void key_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "NAME", "TENANT", "SCOPES", "CREATED", "EXPIRES");
}

static void key_add_row(struct rows *r, const json_t *key)
{
    cleanup_with(buf_release) struct buf scopes;
    char created[CELL_TEXT], expires[CELL_TEXT];
    int64_t now_ms = clock_wall_ms(r->cli->clock);
    buf_init(&scopes, TASK_TEXT_MAX);
    joined_text(key, "scopes", &scopes);
    moment_text(key, "created_at", now_ms, created);
    moment_text(key, "expires_at", now_ms, expires);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(key, "id")),
              table_text(&r->table, json_text_at(key, "name")), table_text(&r->table, json_text_at(key, "tenant")),
              buf_cstr(&scopes), created, expires);
}

static void key_add_tenant(const struct verb_work *w, struct buf *path)
{
    if (option_given(w->o, "tenant"))
        query_add(path, "tenant", option_get(w->o, "tenant")->text);
}

static enum exit_code key_list(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, VERB_PATH * 4);
    buf_text(&path, COLLECTION);
    key_add_tenant(w, &path);
    struct pages p = { .client = w->client, .path = buf_cstr(&path), .member = "keys", .limit = INT64_MAX };
    struct rows r = { .header = key_header, .add = key_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "there are no keys");
}

static enum err key_write_body(const struct verb_work *w, struct buf *out, struct error *e)
{
    struct jw j;
    jw_init(&j, out);
    jw_object(&j);
    jw_kv_cstr(&j, "name", w->name);
    if (!option_given(w->o, "scopes"))
        return error_field(e, "--scopes", "is missing: give what the key may do, such as tasks:read,tasks:write");
    if (option_given(w->o, "expires") && option_given(w->o, "expires-in"))
        return error_field(e, "--expires-in", "and --expires exclude each other; give only one of them");
    struct str rest = option_get(w->o, "scopes")->text, scope;
    jw_key(&j, "scopes");
    jw_array(&j);
    while (str_cut(&rest, ',', &scope))
        jw_str(&j, str_trim(scope));
    jw_array_end(&j);
    if (option_given(w->o, "expires"))
        jw_kv_time(&j, "expires_at", option_get(w->o, "expires")->number);
    if (option_given(w->o, "expires-in"))
        jw_kv_time(&j, "expires_at", clock_wall_ms(w->cli->clock) + option_get(w->o, "expires-in")->number);
    if (option_given(w->o, "tenant"))
        jw_kv_str(&j, "tenant", option_get(w->o, "tenant")->text);
    jw_object_end(&j);
    return ERR_OK;
}

/* Prints only the key to stdout, for scripts; the explanation goes to stderr. */
static void key_print(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    struct str key = json_text_at(doc->root, "key"), id = json_text_at(doc->root, "id");
    if (!key.n) { /* the request was repeated after a lost answer: the server does not store the secret */
        fprintf(w->cli->err,
                "The answer with the key was lost: run 'belfry key revoke " STR_FMT "%s', then create another key.\n",
                STR_ARG(id), w->cli->where);
        return;
    }
    buf_printf(out, STR_FMT "\n", STR_ARG(key));
    fprintf(w->cli->err,
            "This is key " STR_FMT ". It is printed only once: store it where only its user can read it.\n",
            STR_ARG(id));
}

static enum exit_code key_create(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct error e;
    if (key_write_body(w, &body, &e))
        return cli_fail(w->cli, "key", &e, EXIT_USAGE);
    struct client_request call = { .method = "POST", .path = COLLECTION, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, key_print, NULL);
}

static enum exit_code key_revoke(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf path, list, id;
    buf_init(&path, VERB_PATH * 4);
    buf_init(&list, VERB_PATH * 4);
    buf_init(&id, VERB_PATH);
    buf_text(&list, COLLECTION);
    key_add_tenant(w, &list);
    struct ids_source keys = { .path = buf_cstr(&list),
                               .member = "keys",
                               .name = "name",
                               .what = "key",
                               .list = "key list",
                               .elsewhere =
                                   option_given(w->o, "tenant") ? NULL : "keys of another tenant need --tenant NAME" };
    enum exit_code code = ids_pick(w->client, &keys, str_from(w->name), &id);
    if (code)
        return code;
    buf_printf(&path, COLLECTION "/%s", buf_cstr(&id));
    key_add_tenant(w, &path);
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = buf_cstr(&path), .about = w->name }, NULL,
                     "revoked");
}

static enum exit_code command_key_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "create", "NAME", false, 0, key_create },
        { "list", NULL, false, 0, key_list },
        { "revoke", "ID", false, 0, key_revoke },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_key = {
    .name = "key",
    .words = "create|list|revoke [NAME|ID]",
    .summary = "create, list and revoke API keys",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_key_run,
};

/* ---- belfry dashboard ---- */

/* clang-format off */
static const struct option dashboard_options[] = {
    { .flag = "open", .type = OPTION_FLAG, .help = "open the link in the browser of this desktop (xdg-open)" },
};
/* clang-format on */

static enum exit_code dashboard_open(struct cli *cli, const char *url)
{
    char program[] = "xdg-open";
    cleanup_with(free_charp) char *word = xstrdup(url);
    char *const argv[] = { program, word, NULL };
    pid_t pid;
    int failed = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
    if (!failed)
        return EXIT_DONE;
    fprintf(cli->err, "belfry dashboard: cannot start xdg-open (%s); open the link in a browser yourself\n",
            strerror(failed));
    return EXIT_REFUSED;
}

static enum exit_code dashboard_show(struct cli *cli, const struct options *o, struct client_answer *answer)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 64 * 1024);
    struct str url = json_text_at(answer->doc.root, "url");
    if (option_get(o, "json")->number) {
        client_json_line(&out, buf_str(&answer->body));
        cli_print(cli, &out);
        return EXIT_DONE;
    }
    if (!url.n) {
        fprintf(cli->err,
                "belfry dashboard: browsers may not use the server under the address of --server: run this on "
                "the machine of the server, or have api.public_url set\n");
        return EXIT_REFUSED;
    }
    buf_printf(&out, STR_FMT "\n", STR_ARG(url));
    cli_print(cli, &out);
    fprintf(cli->err, "The link logs in once, within 60 s, with the rights of this key.\n");
    buf_cut(&out, url.n);
    return option_get(o, "open")->number ? dashboard_open(cli, buf_cstr(&out)) : EXIT_DONE;
}

static enum exit_code command_dashboard_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct client_answer answer;
    enum exit_code code = client_open(cli, o, &client);
    if (!code)
        code = client_call(client, &(struct client_request){ .method = "POST", .path = "/v1/session/codes" }, &answer);
    if (code)
        return code;
    code = dashboard_show(cli, o, &answer);
    client_answer_release(&answer);
    return code;
}

const struct command command_dashboard = {
    .name = "dashboard",
    .words = "",
    .summary = "print a link that logs in to the dashboard",
    .detail =
        "The link works once, within 60 seconds, and logs in with the tenant and the scopes of the key of this\n"
        "command. The session ends after 12 hours, or when the key is revoked. Only the link goes to stdout.\n"
        "\n"
        "Browsers use the dashboard on the machine of the server, or over TLS: at api.public_url, if a proxy speaks\n"
        "TLS in front of the server.\n"
        "\n"
        "Examples:\n"
        "  belfry dashboard --open\n"
        "  belfry dashboard --server https://belfry.example.com --key file:/etc/belfry/operator.key\n",
    .options = dashboard_options,
    .option_count = array_count(dashboard_options),
    .run = command_dashboard_run,
};
