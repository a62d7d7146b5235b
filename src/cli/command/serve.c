/* belfry serve - runs a server: all roles in one process with the embedded store, or one node of a cluster. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "cli/command/check.h"
#include "cli/command/commands.h"
#include "platform/clock_system.h"
#include "platform/key_file.h"
#include "server/server.h"
#include "server/settings/guard_settings.h"
#include "server/settings/options.h"
#include "server/settings/secret_url.h"
#include "server/settings/store_url.h"
#include "store/sqlite/copy_mark.h"

enum { TEXT_MAX = 16384 };

static int64_t serve_log_clock(void *context)
{
    return clock_wall_ms(context);
}

/* A user of the API can make the server call any allowed address. If the API listens on loopback, only users of this
 * machine can reach it, and they can reach loopback addresses anyway. */
/* On a machine where only its own users reach the API, and while there is one tenant. */
static bool serve_allows_loopback_if_alone(const struct options *o)
{
    return !option_given(o, "allow-loopback") && options_listen_is_loopback(o, "listen");
}

/* Appends the URL of a listener, which the option `name` gives. for_client: 127.0.0.1 instead of a wildcard address,
 * which cannot be called. */
static void serve_add_url(struct buf *out, const struct options *o, const char *name, unsigned port, bool for_client)
{
    struct str listen = option_get(o, name)->text;
    size_t colon = listen.n;
    while (colon > 0 && listen.p[colon - 1] != ':')
        colon--;
    struct str host = str_sub(listen, 0, colon ? colon - 1 : 0);
    if (for_client && (str_eq(host, S("0.0.0.0")) || str_eq(host, S("[::]"))))
        host = S("127.0.0.1");
    buf_printf(out, "%s://" STR_FMT ":%u", option_given(o, "tls-cert") ? "https" : "http", STR_ARG(host), port);
}

/* Appends an option with a file that 'belfry tls init' makes beside the certificate of the server, if it is there. */
static void serve_add_tls_file(struct buf *out, const struct options *o, const char *flag, const char *name)
{
    char path[PATH_MAX];
    struct str cert = option_get(o, "tls-cert")->text;
    size_t slash = cert.n;
    while (slash > 0 && cert.p[slash - 1] != '/')
        slash--;
    snprintf(path, sizeof path, STR_FMT "%s", STR_ARG(str_sub(cert, 0, slash)), name);
    cleanup_with(free_charp) char *whole = realpath(path, NULL);
    if (!whole)
        return;
    buf_printf(out, " %s ", flag);
    cli_add_shell_word(out, str_from(whole));
}

/* Appends example commands for another terminal: this program, with --server and --data-dir if they are not the
 * defaults, and the files for TLS. */
static void serve_add_examples(struct cli *cli, const struct options *o, unsigned port, struct buf *out)
{
    static const char *const examples[] = {
        " add --in 5s --noop --name hello",
        " add --cron '* * * * *' --noop --name tick",
        " list",
    };
    cleanup_with(buf_release) struct buf where, url;
    buf_init(&where, TEXT_MAX);
    buf_init(&url, TEXT_MAX);
    serve_add_url(&url, o, "listen", port, true);
    if (!str_eq(buf_str(&url), S("http://127.0.0.1:8080"))) {
        buf_text(&where, " --server ");
        cli_add_shell_word(&where, buf_str(&url));
    }
    if (option_given(o, "tls-cert"))
        serve_add_tls_file(&where, o, "--ca", "ca.crt");
    if (option_get(o, "tls-require-client")->number) {
        serve_add_tls_file(&where, o, "--cert", "client.crt");
        serve_add_tls_file(&where, o, "--cert-key", "client.key");
    }
    if (option_given(o, "data-dir")) {
        const char *given = option_get(o, "data-dir")->text.p;
        cleanup_with(free_charp) char *whole =
            realpath(given, NULL); /* the other terminal may have another working directory */
        buf_text(&where, " --data-dir ");
        cli_add_shell_word(&where, str_from(whole ? whole : given));
    }
    buf_text(out, "Try, in another terminal:\n");
    for (size_t i = 0; i < array_count(examples); i++) {
        buf_text(out, "  ");
        cli_add_shell_word(out, str_from(cli->program));
        buf_printf(out, "%s%s\n", examples[i], buf_cstr(&where));
    }
}

/* The URLs of --store, --store-read and --store-listen; empty: not given. */
struct serve_store_urls {
    struct buf store, read, listen;
};

static void serve_store_urls_release(struct serve_store_urls *u)
{
    buf_release(&u->store);
    buf_release(&u->read);
    buf_release(&u->listen);
}

static enum err serve_store_urls_read(const struct options *o, struct serve_store_urls *ret, struct error *e)
{
    buf_init(&ret->store, TEXT_MAX);
    buf_init(&ret->read, TEXT_MAX);
    buf_init(&ret->listen, TEXT_MAX);
    if (store_url_read(o, "store", &ret->store, e) || store_url_read(o, "store-read", &ret->read, e) ||
        store_url_read(o, "store-listen", &ret->listen, e))
        return e->code;
    if (!ret->store.n && (ret->read.n || ret->listen.n))
        return error_field(e, ret->read.n ? "--store-read" : "--store-listen", "requires --store");
    if (!ret->store.n && option_given(o, "retention.archive_dir"))
        return error_field(e, "retention.archive_dir", "requires --store");
    return ERR_OK;
}

static const char *serve_url_or_null(struct buf *url)
{
    return url->n ? buf_cstr(url) : NULL;
}

static void serve_add_store(struct buf *out, const char *dir, struct buf *store)
{
    buf_text(out, store->n ? "store at " : "data in ");
    if (store->n)
        secret_url_show(buf_str(store), out);
    else
        buf_text(out, dir);
}

/* Returns whether the data directory has admin.key. Without it, the example commands would need a key. In a cluster, it
 * is only on the node that was started first; a copy, or a restore without secrets, has none. */
static bool serve_add_admin_key(struct buf *out, const char *dir, const char *key, bool is_first)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/admin.key", dir);
    bool exists = key[0] || access(path, F_OK) == 0;
    if (key[0])
        buf_printf(out, "%sThe admin key, printed once and stored in %s:\n  %s\n",
                   is_first ? "This is the first start. " : "", path, key);
    else if (exists)
        buf_printf(out, "The admin key is in %s.\n", path);
    else
        buf_text(out,
                 "This data directory has no admin.key: use --key or BELFRY_KEY with a key of this installation.\n");
    return exists;
}

static void serve_add_dashboard(struct buf *out, const struct options *o, const struct server *a, unsigned port)
{
    struct str public_url = option_get(o, "public-url")->text;
    const char *code = server_login_code(a);
    buf_text(out, code[0] ? "The dashboard, logged in once, within 60 s:\n  " : "The dashboard is at ");
    if (public_url.n)
        buf_add(out, public_url.p[public_url.n - 1] == '/' ? str_sub(public_url, 0, public_url.n - 1) : public_url);
    else
        serve_add_url(out, o, "listen", port, true);
    if (code[0])
        buf_printf(out, "/ui/#code=%s\n  Later, 'belfry dashboard' prints another.\n", code);
    else
        buf_text(out, "/ui/; 'belfry dashboard' prints a link that logs in.\n");
}

static void serve_print_banner(struct cli *cli, const struct options *o, const struct server *a, const char *dir,
                               struct buf *store, const struct fleet_urls *fleet, const char *key,
                               const struct server_setup *setup)
{
    unsigned port = server_port(a), admin_port = server_admin_port(a);
    bool is_first = !server_has_useless_keys(a);
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 4 * TEXT_MAX);
    buf_text(&out, port ? "Belfry " BELFRY_VERSION " listens on " : "Belfry " BELFRY_VERSION " has no API (--roles)");
    if (port)
        serve_add_url(&out, o, "listen", port, false);
    if (admin_port) {
        buf_text(&out, ", for operators on ");
        serve_add_url(&out, o, "api.admin_listen", admin_port, false);
    }
    buf_text(&out, ", ");
    serve_add_store(&out, dir, store);
    if (fleet->queue.n) {
        buf_text(&out, ", queue at ");
        secret_url_show(buf_str(&fleet->queue), &out);
        buf_text(&out, ", events at ");
        secret_url_show(buf_str(&fleet->events), &out);
    }
    buf_char(&out, '\n');
    if (setup->loopback_if_alone && server_has_one_tenant(a))
        buf_text(&out, "Tasks may call loopback addresses of this machine while 'default' is the only tenant "
                       "(http.allow_loopback).\n");
    else if (setup->guard.allow_loopback && !setup->loopback_if_alone)
        buf_text(&out, "Tasks may call loopback addresses of this machine (http.allow_loopback).\n");
    if (port)
        serve_add_dashboard(&out, o, a, port);
    bool has_key = serve_add_admin_key(&out, dir, key, is_first);
    if (port && has_key)
        serve_add_examples(cli, o, port, &out);
    fputs(buf_cstr(&out), cli->err);
    fflush(cli->err);
}

enum { ROLE_API = 8 }; /* in addition to NODE_…; a node may have this role only */

static unsigned serve_role_of(struct str name)
{
    static const struct {
        const char *name;
        unsigned role;
    } rows[] = {
        { "api", ROLE_API }, { "scheduler", NODE_SCHEDULER }, { "worker", NODE_WORKER }, { "updater", NODE_UPDATER }
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_eq(name, str_from(rows[i].name)))
            return rows[i].role;
    return 0;
}

static enum err serve_parse_roles(const struct options *o, bool fleet, unsigned *ret, struct error *e)
{
    struct str rest = option_given(o, "roles") ? option_get(o, "roles")->text : S(""), word;
    *ret = rest.n ? 0 : ROLE_API | NODE_SCHEDULER | NODE_UPDATER | (fleet ? 0 : NODE_WORKER);
    while (str_cut(&rest, ',', &word)) {
        unsigned role = serve_role_of(str_trim(word));
        if (!role)
            return error_field(e, "--roles", "contains '" STR_FMT "': roles are api, scheduler, worker and updater",
                               STR_ARG(str_utf8_cut(str_trim(word), 40)));
        *ret |= role;
    }
    return ERR_OK;
}

/* Reads --roles. Without a fleet, a node must have all roles but api, because no other process can run its tasks. If
 * the store is not shared, it must have scheduler and updater, because no other node can. */
static enum err serve_read_roles(const struct options *o, bool fleet, bool shared, unsigned *ret, struct error *e)
{
    if (serve_parse_roles(o, fleet, ret, e))
        return e->code;
    if (!fleet && (*ret & NODE_ALL) != NODE_ALL)
        return error_field(e, "--roles", "must contain scheduler, worker and updater, unless --queue is given");
    if (*ret == NODE_WORKER)
        return error_field(e, "--roles", "contains only worker: use 'belfry worker' instead");
    if (!shared && (~*ret & (NODE_SCHEDULER | NODE_UPDATER)))
        return error_field(e, "--roles", "must contain scheduler and updater, unless --store is given");
    return ERR_OK;
}

static enum err serve_check_fleet(const struct options *o, const struct fleet_urls *u, struct error *e)
{
    if (u->queue.n && !u->events.n)
        return error_field(e, "--events", "is missing: with --queue, workers report their outcomes by it");
    if (u->events.n && !u->queue.n)
        return error_field(e, "--events", "requires --queue");
    if (u->lease.n && !u->queue.n)
        return error_field(e, "--lease", "requires --queue");
    if (!u->queue.n && (option_given(o, "queue.fallback") || option_given(o, "queue.waiting")))
        return error_field(e, option_given(o, "queue.fallback") ? "queue.fallback" : "queue.waiting",
                           "requires --queue");
    return ERR_OK;
}

static enum err serve_read_tls(const struct options *o, unsigned roles, struct tls_settings *ret, struct error *e)
{
    if (tls_settings_read(o, clock_wall_ms(clock_system()), ret, e))
        return e->code;
    return roles & ROLE_API ? tls_settings_check_listen(o, ret, e) : ERR_OK;
}

/* A store does not know how it was named: completes its hint to the command that works here. */
static void serve_complete_hint(const struct options *o, struct error *e)
{
    static const char hint[] = "'belfry migrate up'";
    char *at = strstr(e->text, hint);
    const struct option_value *store = option_get(o, "store");
    if (!at || (store->source != FROM_FLAG && store->source != FROM_FILE))
        return; /* BELFRY_STORE counts for the hint, too */
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, TEXT_MAX);
    buf_add(&text, (struct str){ e->text, (size_t)(at - e->text) });
    buf_text(&text, "'belfry migrate up --store ");
    secret_url_show(store->text, &text);
    buf_printf(&text, "'%s", at + sizeof hint - 1);
    snprintf(e->text, sizeof e->text, "%s", buf_cstr(&text));
}

static void serve_warn_useless_keys(struct cli *cli, const struct server *a, const char *dir)
{
    if (server_has_useless_keys(a))
        fprintf(
            cli->err,
            "belfry serve: %s had no pepper, so a new one was made: no API key that was made before works. Stop the "
            "server and put the old pepper there, or create all keys again with the new admin key.\n",
            dir);
}

/* The tasks in this directory may run on the database, too. On a terminal the log is easily overlooked. */
static void serve_warn_copied(struct cli *cli, const char *dir)
{
    struct copy_mark mark;
    char when[RFC3339_TEXT + 1];
    if (!copy_mark_read(dir, &mark))
        return;
    rfc3339_format(mark.copied_ms, when);
    log_warn("data_was_copied", kv_cstr("copied_to", mark.address), kv_cstr("copied_at", when),
             kv_cstr("remedy", "start servers with --store; if the copy was a trial, remove the file copied-to"));
    if (isatty(fileno(cli->err)))
        fprintf(
            cli->err,
            "belfry serve: this data was copied to %s at %s. If servers run on that database, stop this one: both would "
            "run every task. If the copy was a trial, remove %s/copied-to.\n",
            mark.address, when, dir);
}

static void serve_warn(struct cli *cli, const struct server *a, const char *dir, bool is_embedded)
{
    serve_warn_useless_keys(cli, a, dir);
    if (is_embedded)
        serve_warn_copied(cli, dir);
}

static struct http_limits serve_http_limits(const struct options *o)
{
    return (struct http_limits){
        .threads = (size_t)option_get(o, "api.http_threads")->number,
        .connections = (size_t)option_get(o, "api.connections")->number,
        .connections_per_address = (size_t)option_get(o, "api.connections_per_address")->number,
        .uri_max = (size_t)option_get(o, "api.uri_kb")->number << 10,
        .headers_max = (size_t)option_get(o, "api.headers_kb")->number << 10,
        .field_max = (size_t)option_get(o, "api.headers_max")->number,
        .handshake_ms = option_get(o, "api.tls.handshake_timeout")->number,
        .header_ms = option_get(o, "api.header_timeout")->number,
        .body_ms = option_get(o, "api.body_timeout")->number,
        .idle_ms = option_get(o, "api.idle_timeout")->number,
        .idle_unknown_ms = option_get(o, "api.idle_timeout_without_key")->number,
        .body_total = (size_t)option_get(o, "api.bodies_mb")->number << 20,
        .answer_total = (size_t)option_get(o, "api.answers_mb")->number << 20,
        .reader_rate = (size_t)option_get(o, "api.reader_rate")->number,
    };
}

static struct retention serve_retention(const struct options *o)
{
    return (struct retention){ .tasks_ms = option_get(o, "retention.tasks")->number,
                               .dlq_ms = option_get(o, "retention.dlq")->number,
                               .executions_ms = option_get(o, "retention.executions")->number,
                               .idempotency_ms = option_get(o, "retention.idempotency_keys")->number,
                               .jobs_ms = option_get(o, "retention.jobs")->number,
                               .audit_ms = option_get(o, "retention.audit")->number,
                               .interval_ms = option_get(o, "retention.interval")->number };
}

static enum exit_code serve_run(struct cli *cli, const struct options *o, struct buf *store,
                                const struct fleet_urls *fleet, const struct server_setup *setup)
{
    char key[SERVER_KEY_TEXT];
    struct server *a = NULL;
    struct error e;
    if (server_new(setup, key, &a, &e)) {
        serve_complete_hint(o, &e);
        return cli_fail(cli, "serve", &e, EXIT_REFUSED);
    }
    serve_warn(cli, a, setup->data_dir, !setup->store_url);
    serve_print_banner(cli, o, a, setup->data_dir, store, fleet, key, setup);
    server_run(a);
    server_free(a);
    log_info("stopped");
    return EXIT_DONE;
}

static enum exit_code serve_until_stopped(struct cli *cli, const struct options *o, const char *dir,
                                          struct serve_store_urls *urls, struct fleet_urls *fleet,
                                          const struct brokers *brokers, const struct tls_settings *tls,
                                          const struct guard_setup *guard, const struct mail_settings *mail,
                                          unsigned roles)
{
    struct server_setup setup = {
        .clock = cli->clock,
        .zones = cli->zones,
        .data_dir = dir,
        .store_url = serve_url_or_null(&urls->store),
        .store_read_url = serve_url_or_null(&urls->read),
        .store_listen_url = serve_url_or_null(&urls->listen),
        .archive_dir = option_given(o, "retention.archive_dir") ? option_get(o, "retention.archive_dir")->text.p : NULL,
        .heartbeat_ms = option_get(o, "cluster.beat")->number,
        .fleet = fleet->queue.n ? fleet : NULL,
        .falls_back = option_get(o, "queue.fallback")->number == 0,
        .roles = roles,
        .queue_waiting = (size_t)option_get(o, "queue.waiting")->number,
        .listen = roles & ROLE_API ? option_get(o, "listen")->text.p : NULL,
        .tls = tls,
        .admin_listen = option_given(o, "api.admin_listen") ? option_get(o, "api.admin_listen")->text.p : NULL,
        .slots = (size_t)option_get(o, "concurrency")->number,
        .visibility_ms = option_get(o, "visibility")->number,
        .metric_tenants = (size_t)option_get(o, "metrics.tenants")->number,
        .ahead_bytes = (size_t)option_get(o, "scheduler.ahead_mb")->number << 20,
        .tenant_connections = (size_t)option_get(o, "messages.connections_per_tenant")->number,
        .guard = *guard,
        .mail = mail,
        .loopback_if_alone = serve_allows_loopback_if_alone(o),
        .key_file = option_given(o, "secrets.key_file") ? option_get(o, "secrets.key_file")->text.p : NULL,
        .ca_file = option_given(o, "ca-file") ? option_get(o, "ca-file")->text.p : options_getenv("SSL_CERT_FILE"),
        .brokers = brokers,
        .cors_origins = option_get(o, "api.cors_origins")->text,
        .public_url = option_get(o, "public-url")->text,
        .makes_login_code = roles & ROLE_API && option_get(o, "login-link")->number,
        .require_idempotency_key = option_get(o, "api.require_idempotency_key")->number,
        .http = serve_http_limits(o),
        .drain_ms = option_get(o, "drain-deadline")->number,
        .transitions = (enum transitions)option_get(o, "log.transitions")->number,
        .trace = options_trace(o),
        .retention = serve_retention(o),
    };
    return serve_run(cli, o, &urls->store, fleet, &setup);
}

/* ---- for check-config ---- */

static enum err serve_check_brokers(const struct options *o, struct error *e)
{
    cleanup_with(brokers_release) struct brokers brokers;
    return brokers_read(o, &brokers, e);
}

static enum err serve_check_guard(const struct options *o, struct error *e)
{
    struct guard_settings allowed;
    struct guard_setup guard;
    return guard_settings_read(o, &allowed, &guard, e);
}

static enum err serve_check_store(const struct options *o, struct error *e)
{
    cleanup_with(serve_store_urls_release) struct serve_store_urls urls = { 0 };
    buf_init(&urls.store, TEXT_MAX);
    buf_init(&urls.read, TEXT_MAX);
    buf_init(&urls.listen, TEXT_MAX);
    if (store_url_read(o, "store", &urls.store, e) && options_end_at(o, e))
        return e->code;
    if (store_url_read(o, "store-read", &urls.read, e) && options_end_at(o, e))
        return e->code;
    return store_url_read(o, "store-listen", &urls.listen, e);
}

static enum err serve_check_fleet_urls(const struct options *o, struct error *e)
{
    cleanup_with(fleet_urls_release) struct fleet_urls fleet = { 0 };
    return fleet_urls_read(o, &fleet, e);
}

static enum err serve_check_roles(const struct options *o, struct error *e)
{
    unsigned roles;
    return serve_parse_roles(o, true, &roles, e);
}

static enum err serve_check_listen(const struct options *o, struct error *e)
{
    return options_check_listen(o, "listen", e) ? error_in(e, "--listen") : ERR_OK;
}

static enum err serve_check_admin_listen(const struct options *o, struct error *e)
{
    return options_check_listen(o, "api.admin_listen", e) ? error_in(e, "api.admin_listen") : ERR_OK;
}

static enum err serve_check_two_addresses(const struct options *o, struct error *e)
{
    struct str api = option_get(o, "listen")->text, admin = option_get(o, "api.admin_listen")->text;
    bool any_port = admin.n > 1 && str_eq(str_sub(admin, admin.n - 2, admin.n), S(":0"));
    if (admin.n && str_eq(api, admin) && !any_port)
        return error_field(e, "api.admin_listen", "is the address of api.listen; give another port");
    return ERR_OK;
}

static enum err serve_check_key_file(const struct options *o, struct error *e)
{
    struct error why;
    struct secrets keys;
    if (!option_given(o, "secrets.key_file"))
        return ERR_OK;
    if (key_file_load(option_get(o, "secrets.key_file")->text.p, &keys, &why))
        return error_field(e, "secrets.key_file", "%s", why.text);
    explicit_bzero(&keys, sizeof keys);
    return ERR_OK;
}

static enum err serve_check_mail(const struct options *o, struct error *e)
{
    struct mail_settings mail;
    return mail_settings_read(o, &mail, e);
}

/* An address that other machines can reach is refused as by serve, so that nobody learns of it at the start. */
static enum err serve_check_tls(const struct options *o, struct error *e)
{
    struct error ignored;
    struct tls_settings tls;
    unsigned roles = 0;
    bool is_address = !serve_check_listen(o, &ignored) && !serve_check_admin_listen(o, &ignored);
    if (tls_settings_read(o, clock_wall_ms(clock_system()), &tls, e))
        return e->code;
    return is_address && !serve_parse_roles(o, true, &roles, &ignored) && roles & ROLE_API
               ? tls_settings_check_listen(o, &tls, e)
               : ERR_OK;
}

value_check *const serve_value_checks[] = { serve_check_brokers,       serve_check_guard,        serve_check_store,
                                            serve_check_fleet_urls,    serve_check_roles,        serve_check_tls,
                                            serve_check_listen,        serve_check_admin_listen, options_check_origins,
                                            serve_check_two_addresses, serve_check_key_file,     serve_check_mail,
                                            options_check_public_url,  options_check_trace,      NULL };

enum err serve_check_together(const struct options *o, struct error *e)
{
    cleanup_with(serve_store_urls_release) struct serve_store_urls urls = { 0 };
    cleanup_with(fleet_urls_release) struct fleet_urls fleet = { 0 };
    struct tls_settings tls;
    unsigned roles;
    if (serve_store_urls_read(o, &urls, e) || fleet_urls_read(o, &fleet, e) || serve_check_fleet(o, &fleet, e))
        return e->code;
    return serve_read_roles(o, fleet.queue.n > 0, urls.store.n > 0, &roles, e) || serve_read_tls(o, roles, &tls, e)
               ? e->code
               : ERR_OK;
}

static enum exit_code command_serve_run(struct cli *cli, const struct options *given)
{
    cleanup_with(buf_release) struct buf dir;
    buf_init(&dir, TEXT_MAX);
    struct options *o;
    struct error e;
    if (options_begin_process(given, &o, &e))
        return cli_fail(cli, "serve", &e, EXIT_USAGE);
    options_find_unknown_variables(cli_on_unknown_variable, cli);
    cleanup_with(serve_store_urls_release) struct serve_store_urls urls = { 0 };
    cleanup_with(fleet_urls_release) struct fleet_urls fleet = { 0 };
    unsigned roles;
    cleanup_with(brokers_release) struct brokers brokers;
    struct tls_settings tls;
    struct guard_settings allowed;
    struct guard_setup guard;
    struct mail_settings mail;
    if (brokers_read(o, &brokers, &e) || guard_settings_read(o, &allowed, &guard, &e) ||
        serve_store_urls_read(o, &urls, &e) || fleet_urls_read(o, &fleet, &e) || serve_check_fleet(o, &fleet, &e) ||
        serve_read_roles(o, fleet.queue.n > 0, urls.store.n > 0, &roles, &e) || serve_read_tls(o, roles, &tls, &e) ||
        options_check_origins(o, &e) || options_check_public_url(o, &e) || options_check_trace(o, &e) ||
        mail_settings_read(o, &mail, &e))
        return cli_fail(cli, "serve", &e, EXIT_USAGE);
    brokers_close_own(&brokers, buf_str(&fleet.queue), buf_str(&fleet.events));
    options_data_dir(o, &dir);
    log_open(&(struct log_setup){ .fd = 2,
                                  .format = (enum log_format)option_get(o, "log-format")->number,
                                  .level = (enum log_level)option_get(o, "log-level")->number,
                                  .now_ms = serve_log_clock,
                                  .context = cli->clock });
    return serve_until_stopped(cli, o, buf_cstr(&dir), &urls, &fleet, &brokers, &tls, &guard, &mail, roles);
}

const struct command command_serve = {
    .name = "serve",
    .words = "",
    .summary = "run the server",
    .detail =
        "Settings come from flags, the environment (such as BELFRY_API_LISTEN), the file of --config, and defaults, in this\n"
        "order; docs/CONFIGURATION.md lists them. SIGTERM and SIGINT drain: running tasks finish, and claimed tasks that have\n"
        "not started are handed back. A second signal does not wait for running tasks.\n"
        "'belfry status' and 'belfry top' print what the server does. GET /health and GET /ready are for probes and need no key.\n"
        "\n"
        "Examples:\n"
        "  belfry serve\n"
        "  belfry serve --listen 127.0.0.1:0 --data-dir /tmp/try\n"
        "  belfry serve --store file:/etc/belfry/store     a node of a cluster; the file contains postgres://user:password@host/db\n"
        "  belfry serve --store file:/etc/belfry/store --queue redis://queue --events redis://queue     a fleet: see belfry worker\n",
    .options = server_options,
    .option_count = SERVER_OPTION_COUNT,
    .run = command_serve_run,
};
