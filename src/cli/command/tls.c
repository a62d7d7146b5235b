/* belfry tls init - makes a private certificate authority and the certificates of a server and of a client. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/jsonw.h"
#include "cli/command/commands.h"
#include "platform/certificate_make.h"
#include "platform/directory.h"
#include "server/settings/options.h"

enum {
    TEXT_MAX = 16384,
    AUTHORITY_DAYS = 3650,
    HOSTS_MAX = 2 * OPTION_LIST_MAX, /* a certificate has no room for more */
    NAME_TEXT = 300,
    EARLIER_MS = 300000, /* clocks of other machines may be late */
};

#define CLIENT_NAME "client.belfry"

struct tls_init {
    struct cli *cli;
    const struct options *o;
    struct buf dir;
    char paths[6][PATH_MAX];
    char hosts[HOSTS_MAX][NAME_TEXT];
    const char *names[HOSTS_MAX];
    size_t host_count;
    bool reuses_authority;
};

enum tls_file { CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY, CLIENT_CERT, CLIENT_KEY };

static const char *const tls_file_names[] = {
    [CA_CERT] = "ca.crt",        [CA_KEY] = "ca.key",          [SERVER_CERT] = "server.crt",
    [SERVER_KEY] = "server.key", [CLIENT_CERT] = "client.crt", [CLIENT_KEY] = "client.key",
};

/* "DNS:NAME", or "IP:ADDRESS" if it looks like an address; once. */
static void tls_init_add_host(struct tls_init *t, struct str host)
{
    bool is_address = str_find(host, ':', 0) < host.n;
    bool has_letter = false;
    char name[NAME_TEXT];
    for (size_t i = 0; i < host.n; i++)
        has_letter |= !is_digit(host.p[i]) && host.p[i] != '.';
    snprintf(name, sizeof name, "%s:" STR_FMT, is_address || !has_letter ? "IP" : "DNS", STR_ARG(host));
    for (size_t i = 0; i < t->host_count; i++)
        if (str_eq_nocase(str_from(t->hosts[i]), str_from(name)))
            return;
    if (t->host_count == HOSTS_MAX)
        return;
    memcpy(t->hosts[t->host_count], name, sizeof name);
    t->names[t->host_count] = t->hosts[t->host_count];
    t->host_count++;
}

static void tls_init_on_old_host(void *context, const char *host)
{
    tls_init_add_host(context, str_from(host));
}

static void tls_init_add_hosts(struct tls_init *t)
{
    char machine[HOST_NAME_MAX + 1] = "";
    gethostname(machine, sizeof machine - 1);
    tls_init_add_host(t, S("localhost"));
    tls_init_add_host(t, S("127.0.0.1"));
    tls_init_add_host(t, S("::1"));
    if (machine[0])
        tls_init_add_host(t, str_from(machine));
    const struct option_value *given = option_get(t->o, "host");
    for (size_t i = 0; i < given->list_count; i++)
        tls_init_add_host(t, given->list[i]);
}

static enum err tls_init_prepare(struct tls_init *t, struct error *e)
{
    if (t->o->word_count > 1)
        buf_add(&t->dir, t->o->words[1]);
    else {
        options_data_dir(t->o, &t->dir);
        buf_text(&t->dir, "/tls");
    }
    if (!directory_make(buf_cstr(&t->dir)) || access(buf_cstr(&t->dir), W_OK))
        return error_set(e, ERR_INVALID, "%s is not a directory that can be written", buf_cstr(&t->dir));
    cleanup_with(free_charp) char *whole = realpath(buf_cstr(&t->dir), NULL); /* the settings are read elsewhere */
    buf_reset(&t->dir);
    buf_text(&t->dir, whole);
    for (size_t i = 0; i < array_count(tls_file_names); i++) {
        snprintf(t->paths[i], PATH_MAX, "%s/%s", buf_cstr(&t->dir), tls_file_names[i]);
        bool exists = access(t->paths[i], F_OK) == 0;
        t->reuses_authority |= exists && i <= CA_KEY;
        if (exists && i > CA_KEY && !option_get(t->o, "force")->number)
            return error_set(
                e, ERR_INVALID,
                "%s exists; --force replaces the certificates of server and client, and keeps the authority",
                t->paths[i]);
    }
    return ERR_OK;
}

static enum err tls_init_issue(struct tls_init *t, const struct certificate *by, bool is_client, struct error *e)
{
    static const char *const client_names[] = { "DNS:" CLIENT_NAME };
    struct certificate *made = NULL;
    struct certificate_order order = { .name = is_client ? CLIENT_NAME : "Belfry server",
                                       .names = is_client ? client_names : t->names,
                                       .name_count = is_client ? array_count(client_names) : t->host_count,
                                       .is_client = is_client,
                                       .from_ms = clock_wall_ms(t->cli->clock) - EARLIER_MS,
                                       .days = option_get(t->o, "days")->number };
    enum err rc = certificate_issue(by, &order, &made, e);
    if (rc == ERR_OK)
        rc = certificate_write(made, t->paths[is_client ? CLIENT_CERT : SERVER_CERT],
                               t->paths[is_client ? CLIENT_KEY : SERVER_KEY], e);
    certificate_free(made);
    return rc;
}

static enum err tls_init_make(struct tls_init *t, struct error *e)
{
    struct certificate *authority = NULL;
    enum err rc = ERR_OK;
    if (t->reuses_authority) {
        rc = certificate_read(t->paths[CA_CERT], t->paths[CA_KEY], &authority, e);
    } else {
        authority =
            certificate_authority_new("Belfry private CA", clock_wall_ms(t->cli->clock) - EARLIER_MS, AUTHORITY_DAYS);
        rc = certificate_write(authority, t->paths[CA_CERT], t->paths[CA_KEY], e);
    }
    if (rc == ERR_OK)
        rc = tls_init_issue(t, authority, false, e);
    if (rc == ERR_OK)
        rc = tls_init_issue(t, authority, true, e);
    for (size_t i = CA_CERT; rc && !t->reuses_authority && i <= CA_KEY; i++)
        (void)unlink(t->paths[i]); /* of no use without the others */
    certificate_free(authority);
    return rc;
}

static void tls_init_print_json(struct tls_init *t)
{
    static const char *const members[] = {
        [CA_CERT] = "ca",     [CA_KEY] = "ca_key",           [SERVER_CERT] = "cert",
        [SERVER_KEY] = "key", [CLIENT_CERT] = "client_cert", [CLIENT_KEY] = "client_key"
    };
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    buf_init(&out, TEXT_MAX * 8);
    jw_init(&w, &out);
    jw_object(&w);
    for (size_t i = 0; i < array_count(members); i++)
        jw_kv_cstr(&w, members[i], t->paths[i]);
    jw_key(&w, "hosts");
    jw_array(&w);
    for (size_t i = 0; i < t->host_count; i++)
        jw_str(&w, str_from(strchr(t->names[i], ':') + 1));
    jw_array_end(&w);
    jw_object_end(&w);
    buf_char(&out, '\n');
    cli_print(t->cli, &out);
}

static void tls_init_print(struct tls_init *t)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, TEXT_MAX * 8);
    buf_printf(&out, "%s the authority in %s; the certificate of the server is for",
               t->reuses_authority ? "Used" : "Made", buf_cstr(&t->dir));
    for (size_t i = 0; i < t->host_count; i++)
        buf_printf(&out, "%s %s", i ? "," : "", strchr(t->names[i], ':') + 1);
    buf_printf(&out,
               ".\n\nPut this into the file of --config:\n\n"
               "[api]\nlisten = 0.0.0.0:8443\n\n"
               "[api.tls]\ncert = %s\nkey = %s\nclient_ca = %s\n\n"
               "[api.tls.identities]\nclient = dns:" CLIENT_NAME " default admin\n\n"
               "Then, on a machine that has these files:\n\n",
               t->paths[SERVER_CERT], t->paths[SERVER_KEY], t->paths[CA_CERT]);
    buf_printf(&out, "  belfry list --server https://localhost:8443 --ca %s --cert %s --cert-key %s\n",
               t->paths[CA_CERT], t->paths[CLIENT_CERT], t->paths[CLIENT_KEY]);
    buf_printf(&out, "  curl --cacert %s --cert %s --key %s https://localhost:8443/v1/tasks\n", t->paths[CA_CERT],
               t->paths[CLIENT_CERT], t->paths[CLIENT_KEY]);
    buf_printf(&out, "\nKeep %s to yourself: it signs certificates that the server trusts.\n", t->paths[CA_KEY]);
    cli_print(t->cli, &out);
}

static enum exit_code command_tls_run(struct cli *cli, const struct options *o)
{
    struct tls_init *t = xnew(*t);
    struct error e = { 0 };
    enum exit_code code = EXIT_DONE;
    t->cli = cli;
    t->o = o;
    buf_init(&t->dir, PATH_MAX - NAME_TEXT);
    if (o->word_count < 1 || o->word_count > 2 || !str_eq(o->words[0], S("init"))) {
        error_set(&e, ERR_INVALID, "give 'init', and a directory if it is not the default one");
        code = cli_fail(cli, "tls", &e, EXIT_USAGE);
    } else {
        tls_init_add_hosts(t);
        enum err rc = tls_init_prepare(t, &e);
        if (!rc) /* with --force: those that it had */
            certificate_each_host(t->paths[SERVER_CERT], tls_init_on_old_host, t);
        if (rc || tls_init_make(t, &e))
            code = cli_fail(cli, "tls", &e, EXIT_REFUSED);
        else if (option_get(o, "json")->number)
            tls_init_print_json(t);
        else
            tls_init_print(t);
    }
    buf_release(&t->dir);
    free(t);
    return code;
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "host", .type = OPTION_LIST, .value = "NAME",
      .help = "another name or address of the server" },
    { .flag = "days", .type = OPTION_INT, .value = "N", .preset = "365", .min = 1, .max = 3650,
      .help = "how long the certificates of server and client are valid" },
    { .flag = "force", .type = OPTION_FLAG, .help = "replace the certificates of server and client" },
};
/* clang-format on */

const struct command command_tls = {
    .name = "tls",
    .words = "init [DIR]",
    .summary = "make certificates for the API",
    .detail =
        "Makes a private certificate authority, a certificate of the server for localhost, this machine's name and each --host,\n"
        "and one of a client. Prints the settings and commands that use them. If DIR already has an authority, that one signs:\n"
        "with --force this renews the certificates, and a running server takes them within 5 s. The certificate of the server\n"
        "keeps the names that it had; remove server.crt first to drop them. Without DIR: tls in the data directory.\n"
        "\n"
        "Examples:\n"
        "  belfry tls init\n"
        "  belfry tls init /etc/belfry/tls --host scheduler.example.com --host 192.0.2.7\n"
        "  belfry tls init /etc/belfry/tls --force     renew\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_tls_run,
    .asks_no_server = true,
};
