/* belfry signing-keys - makes, imports, rotates and removes the keys that sign calls and messages. */
#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"
#include "core/target/signing_key.h"
#include "server/settings/options.h"

enum { COLUMNS = 7, BODY_MAX = 64 * 1024, SECRET_MAX = 4096 };
#define COLLECTION "/v1/signing-keys"

/* clang-format off */
static const struct option options[] = {
    { .flag = "host", .type = OPTION_TEXT, .value = "HOST", .only = "add",
      .help = "sign only what goes to this host; *.example.com: to the names below it; default: all that no other key signs" },
    { .flag = "algorithm", .type = OPTION_CHOICE, .choices = "HMAC_SHA256|ED25519", .value = "NAME", .only = "add|rotate",
      .help = "default: HMAC_SHA256; with rotate: the same as before" },
    { .flag = "secret", .type = OPTION_TEXT, .value = "SECRET", .only = "add|rotate",
      .help = "use this one, whsec_… or whsk_…, or file:/path of a file with it; default: make one" },
    { .flag = "overlap", .type = OPTION_DURATION, .value = "DURATION", .max = 30LL * 24 * 3600 * 1000, .only = "rotate",
      .help = "the secret of before signs as well for so long; 0s: no older secret signs any more; default: 24h" },
};
/* clang-format on */

static const char detail[] =
    "  list            list the keys, without their secrets\n"
    "  show ID         show a key, and until when its older secrets sign\n"
    "  add NAME        make a key; its secret, or its public key, is printed\n"
    "  rotate ID       make a new secret of a key; the one of before signs as well for a while\n"
    "  remove ID       remove a key: what it signed is sent without a signature\n"
    "\n"
    "A tenant has one key for all that it sends, and others for hosts. ID is the id of a key, the beginning of its id,\n"
    "or its name. A secret is printed once. A private key of ED25519 is never printed: receivers need the public one.\n"
    "\n"
    "Examples:\n"
    "  belfry signing-keys add default\n"
    "  belfry signing-keys add partner --host '*.example.com' --algorithm ED25519\n"
    "  belfry signing-keys rotate partner --overlap 48h\n";

static void signing_keys_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "NAME", "HOST", "ALGORITHM", "OLDER", "SIGN UNTIL", "CREATED");
}

/* Until when the last of the older secrets signs. */
static void signing_keys_until(const json_t *key, char out[TIME_TEXT])
{
    int64_t last_ms = 0, ms;
    snprintf(out, TIME_TEXT, "-");
    for (size_t i = 0; i < json_count_at(key, "older"); i++)
        if (json_time_at(json_array_get(json_at(key, "older"), i), "signs_until", &ms))
            last_ms = max_of(last_ms, ms);
    if (last_ms)
        time_text_utc(last_ms, out);
}

static void signing_keys_add_row(struct rows *r, const json_t *key)
{
    char created[CELL_TEXT], older[32], until[TIME_TEXT];
    struct str host = json_text_at(key, "host");
    moment_text(key, "created_at", clock_wall_ms(r->cli->clock), created);
    snprintf(older, sizeof older, "%zu", json_count_at(key, "older"));
    signing_keys_until(key, until);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(key, "id")),
              table_text(&r->table, json_text_at(key, "name")), host.n ? table_text(&r->table, host) : "all others",
              table_text(&r->table, json_text_at(key, "algorithm")), older, until, created);
}

static enum exit_code signing_keys_list(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = COLLECTION, .member = "signing_keys", .limit = INT64_MAX };
    struct rows r = { .header = signing_keys_header, .add = signing_keys_add_row, .keep = { 1 } };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "there are no signing keys");
}

static enum err signing_keys_write_secret(const struct verb_work *w, struct jw *j, struct error *e)
{
    cleanup_with(buf_release) struct buf secret;
    buf_init(&secret, SECRET_MAX);
    if (option_given(w->o, "algorithm"))
        jw_kv_cstr(j, "algorithm", signing_algorithm_names[option_get(w->o, "algorithm")->number]);
    if (!option_given(w->o, "secret"))
        return ERR_OK;
    if (options_read_secret(option_get(w->o, "secret")->text, "--secret", &secret, e))
        return e->code;
    jw_kv_str(j, "secret", buf_str(&secret));
    return ERR_OK;
}

/* Prints only what the receiver needs to stdout, for scripts; the explanation goes to stderr. */
static void signing_keys_print(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    struct str secret = json_text_at(doc->root, "secret"), public_key = json_text_at(doc->root, "public_key");
    struct str id = json_text_at(doc->root, "id");
    if (secret.n || public_key.n)
        buf_printf(out, STR_FMT "\n", STR_ARG(secret.n ? secret : public_key));
    if (secret.n)
        fprintf(w->cli->err,
                "This is the secret of signing key " STR_FMT ". It is printed only once: give it to the receiver.\n",
                STR_ARG(id));
    else if (public_key.n)
        fprintf(w->cli->err, "This is the public key of signing key " STR_FMT ".\n", STR_ARG(id));
    else if (option_given(w->o, "secret"))
        fprintf(w->cli->err, "Signing key " STR_FMT " signs with the given secret.\n", STR_ARG(id));
    else /* the request was repeated after a lost answer: the server does not show the secret again */
        fprintf(w->cli->err,
                "The answer with the secret was lost: run 'belfry signing-keys rotate " STR_FMT " --overlap 0s%s'.\n",
                STR_ARG(id), w->cli->where);
}

static enum exit_code signing_keys_add(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    struct jw j;
    buf_init(&body, BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    jw_kv_cstr(&j, "name", w->name);
    if (option_given(w->o, "host"))
        jw_kv_str(&j, "host", option_get(w->o, "host")->text);
    if (signing_keys_write_secret(w, &j, &e))
        return cli_fail(w->cli, "signing-keys", &e, EXIT_USAGE);
    jw_object_end(&j);
    struct client_request call = { .method = "POST", .path = COLLECTION, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, signing_keys_print, NULL);
}

/* Writes the path of the key that the second argument names. */
static enum exit_code signing_keys_path(struct verb_work *w, const char *tail, char out[VERB_PATH])
{
    static const struct ids_source keys = {
        .path = COLLECTION, .member = "signing_keys", .name = "name", .what = "signing key", .list = "signing-keys list"
    };
    cleanup_with(buf_release) struct buf id;
    buf_init(&id, VERB_PATH / 2);
    enum exit_code code = ids_pick(w->client, &keys, str_from(w->name), &id);
    if (!code)
        snprintf(out, VERB_PATH, COLLECTION "/%s%s", buf_cstr(&id), tail);
    return code;
}

static void signing_keys_print_all(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    static const struct named_fact facts[] = {
        { "Signing key", "id", FACT_TEXT },
        { "Name", "name", FACT_TEXT },
        { "Host", "host", FACT_TEXT },
        { "Algorithm", "algorithm", FACT_TEXT },
        { "Public key", "public_key", FACT_TEXT },
        { "Created", "created_at", FACT_MOMENT },
        { "Changed", "updated_at", FACT_MOMENT },
    };
    static const struct named_fact older_facts[] = {
        { "Older secret", "algorithm", FACT_TEXT },
        { "Public key", "public_key", FACT_TEXT },
        { "Rotated", "rotated_at", FACT_MOMENT },
        { "Signs until", "signs_until", FACT_MOMENT },
    };
    named_facts_print(w->cli, doc->root, facts, array_count(facts), out);
    for (size_t i = 0; i < json_count_at(doc->root, "older"); i++) {
        buf_char(out, '\n');
        named_facts_print(w->cli, json_array_get(json_at(doc->root, "older"), i), older_facts, array_count(older_facts),
                          out);
    }
}

static enum exit_code signing_keys_show(struct verb_work *w)
{
    char path[VERB_PATH];
    enum exit_code code = signing_keys_path(w, "", path);
    if (code)
        return code;
    return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = w->name },
                     signing_keys_print_all, NULL);
}

static enum exit_code signing_keys_rotate(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    char path[VERB_PATH];
    struct error e;
    struct jw j;
    buf_init(&body, BODY_MAX);
    jw_init(&j, &body);
    jw_object(&j);
    if (option_given(w->o, "overlap"))
        jw_kv_str(&j, "overlap", option_get(w->o, "overlap")->text);
    if (signing_keys_write_secret(w, &j, &e))
        return cli_fail(w->cli, "signing-keys", &e, EXIT_USAGE);
    jw_object_end(&j);
    enum exit_code code = signing_keys_path(w, "/rotate", path);
    if (code)
        return code;
    struct client_request call = { .method = "POST", .path = path, .body = buf_str(&body), .about = w->name };
    return verb_call(w, &call, signing_keys_print, NULL);
}

static enum exit_code signing_keys_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    enum exit_code code = signing_keys_path(w, "", path);
    if (code)
        return code;
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL,
                     "removed");
}

static enum exit_code command_signing_keys_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "list", NULL, false, 0, signing_keys_list },     { "show", "ID", false, 0, signing_keys_show },
        { "add", "NAME", false, 0, signing_keys_add },     { "rotate", "ID", false, 0, signing_keys_rotate },
        { "remove", "ID", false, 0, signing_keys_remove },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_signing_keys = {
    .name = "signing-keys",
    .words = "list|show|add|rotate|remove [NAME|ID]",
    .summary = "make and rotate the keys that sign calls and messages",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_signing_keys_run,
};
