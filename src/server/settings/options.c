#include "server/settings/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/dashboard/browser_origin.h"
#include "api/server/cors.h"
#include "base/duration.h"
#include "base/failpoint.h"
#include "base/sentence.h"
#include "http/listen.h"
#include "platform/file.h"

enum { SECRET_MAX = 4096 };

/* clang-format off */
const struct option server_options[] = {
    /* serve only: SERVE_ALONE rows. */
    { .key = "data_dir", .flag = "data-dir", .type = OPTION_TEXT, .value = "DIR",
      .help = "directory of the embedded store, its lock file and admin.key; default: ~/.local/share/belfry" },
    { .key = "store", .flag = "store", .type = OPTION_TEXT, .value = "URL",
      .help = "postgres://… of the database that the nodes of a cluster share, or file:/path of a file with that URL; default: SQLite in the data directory" },
    { .key = "store.read", .flag = "store-read", .type = OPTION_TEXT, .value = "URL",
      .help = "postgres://… of a replica that serves lists and history; default: the URL of --store" },
    { .key = "store.listen", .flag = "store-listen", .type = OPTION_TEXT, .value = "URL",
      .help = "postgres://… for LISTEN/NOTIFY between nodes, if --store goes through a connection pooler; default: the URL of --store" },
    { .key = "cluster.beat", .type = OPTION_DURATION, .value = "DURATION", .preset = "500ms", .min = 50, .max = 1000,
      .help = "interval of a node's heartbeats; after 5 intervals without one, the other nodes mark it dead" },
    { .key = "lease", .flag = "lease", .type = OPTION_TEXT, .value = "URL",
      .help = "redis://… or rediss://… of the lease that elects the leader, or file:/path of a file with that URL; default: the store elects it" },
    { .key = "roles", .flag = "roles", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated roles of this node: api, scheduler, worker, updater; default: all; with --queue: all but worker" },
    { .key = "queue.fallback", .type = OPTION_CHOICE, .value = "HOW", .choices = "self|wait", .preset = "self",
      .help = "while the queue is unreachable: self runs due tasks on this node, wait leaves them until the queue is back" },
    { .key = "queue.waiting", .type = OPTION_INT, .value = "N", .preset = "0", .min = 0, .max = 1000000,
      .help = "how many due tasks may wait in the queue for each pool of workers, in addition to those that it runs; 0: half of the pool's slots, and up to 100 while tasks end fast" },
    { .key = "scheduler.ahead_mb", .type = OPTION_INT, .value = "MB", .preset = "64", .min = 1, .max = 65536,
      .help = "how many MiB of tasks this node may claim before they are due; a task takes its payload, its target and about 1.2 KiB" },
    { .key = "metrics.tenants", .type = OPTION_INT, .value = "N", .preset = "50", .min = 0, .max = 200,
      .help = "how many tenants have series of their own in /metrics; the others are summed up as _other" },
    { .key = "api.listen", .flag = "listen", .type = OPTION_TEXT, .value = "ADDRESS", .preset = "127.0.0.1:8080",
      .help = "address and port of the API; port 0: any free port" },
    { .key = "api.admin_listen", .type = OPTION_TEXT, .value = "ADDRESS",
      .help = "address and port of a second listener for operators: health, metrics, status, workers, circuit breakers, tenants and API keys, with threads of its own; default: none" },
    { .key = "api.plaintext", .flag = "plaintext", .type = OPTION_FLAG, .preset = "false",
      .help = "allow plain HTTP on an address that other machines can reach; only behind a proxy that speaks TLS" },
    { .key = "api.tls.cert", .flag = "tls-cert", .type = OPTION_TEXT, .value = "FILE",
      .help = "certificate of the API and of its issuers (PEM); the API then speaks TLS only; read again when it changes; default: plain HTTP" },
    { .key = "api.tls.key", .flag = "tls-key", .type = OPTION_TEXT, .value = "FILE",
      .help = "private key of that certificate (PEM), not encrypted, not readable by every user" },
    { .key = "api.tls.client_ca", .flag = "tls-client-ca", .type = OPTION_TEXT, .value = "FILE",
      .help = "authorities whose client certificates are accepted (PEM); default: clients are not asked for a certificate" },
    { .key = "api.tls.require_client", .flag = "tls-require-client", .type = OPTION_FLAG, .preset = "false",
      .help = "refuse clients without a certificate of api.tls.client_ca" },
    { .key = "api.tls.handshake_timeout", .type = OPTION_DURATION, .value = "DURATION", .preset = "10s", .min = 100,
      .max = 600000, .help = "how long a client may take for the TLS handshake" },
    { .key = "api.tls.identities.*", .flag = "tls-identity", .type = OPTION_LIST, .value = "NAME=ID",
      .help = "tenant and scopes of a client certificate, such as billing=dns:billing.example.com acme tasks:write; it needs no API key then" },
    { .key = "api.cors_origins", .type = OPTION_TEXT, .value = "ORIGINS",
      .help = "origins whose web pages may call the API, separated by blanks, such as https://console.example.com; default: none" },
    { .key = "api.public_url", .flag = "public-url", .type = OPTION_TEXT, .value = "URL",
      .help = "address under which browsers see the server, such as https://belfry.example.com; default: its own, with TLS or on this machine" },
    { .flag = "login-link", .type = OPTION_FLAG, .preset = "false",
      .help = "print at the start a link that logs in to the dashboard as admin, once and within 60 s" },
    { .key = "api.require_idempotency_key", .type = OPTION_FLAG, .preset = "false",
      .help = "refuse state-changing requests that have no Idempotency-Key" },
    { .key = "api.http_threads", .type = OPTION_INT, .value = "N", .preset = "0", .min = 0, .max = 64,
      .help = "threads that read requests and send answers; 0: one for each processor, at most 4" },
    { .key = "api.connections", .type = OPTION_INT, .value = "N", .preset = "4096", .min = 16, .max = 1000000,
      .help = "how many connections the API has at most; from 90 % on, those without a valid key are closed, the longest idle first; at the limit also those with one" },
    { .key = "api.connections_per_address", .type = OPTION_INT, .value = "N", .preset = "1024", .min = 1, .max = 1000000,
      .help = "how many connections one address may have; of IPv6, the first 64 bits are the address" },
    { .key = "api.uri_kb", .type = OPTION_INT, .value = "KIB", .preset = "8", .min = 1, .max = 16,
      .help = "longest URI of a request" },
    { .key = "api.headers_kb", .type = OPTION_INT, .value = "KIB", .preset = "16", .min = 1, .max = 32,
      .help = "largest headers of a request, all together" },
    { .key = "api.headers_max", .type = OPTION_INT, .value = "N", .preset = "100", .min = 10, .max = 100,
      .help = "how many headers a request may have" },
    { .key = "api.header_timeout", .type = OPTION_DURATION, .value = "DURATION", .preset = "10s", .min = 100,
      .max = 600000, .help = "how long a client may take to send the headers of a request" },
    { .key = "api.body_timeout", .type = OPTION_DURATION, .value = "DURATION", .preset = "30s", .min = 100,
      .max = 3600000, .help = "how long a client may take to send the body of a request" },
    { .key = "api.idle_timeout", .type = OPTION_DURATION, .value = "DURATION", .preset = "1m", .min = 100,
      .max = 3600000, .help = "how long a connection stays open between two requests" },
    { .key = "api.idle_timeout_without_key", .type = OPTION_DURATION, .value = "DURATION", .preset = "5s", .min = 100,
      .max = 3600000, .help = "the same, before the first request and while no request had a valid key" },
    { .key = "api.bodies_mb", .type = OPTION_INT, .value = "MB", .preset = "512", .min = 64, .max = 65536,
      .help = "how many MiB of request bodies may be in memory; one tenant may use a quarter" },
    { .key = "api.answers_mb", .type = OPTION_INT, .value = "MB", .preset = "256", .min = 256, .max = 65536,
      .help = "how many MiB of answers may wait until clients read them; one tenant may use a quarter" },
    { .key = "api.reader_rate", .type = OPTION_INT, .value = "BYTES", .preset = "1024", .min = 1, .max = 1000000,
      .help = "a client that reads its answer with fewer bytes a second, over 10 s, is disconnected" },
    { .key = "retention.tasks", .type = OPTION_DURATION, .value = "DURATION", .preset = "7d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long finished tasks are kept" },
    { .key = "retention.dlq", .type = OPTION_DURATION, .value = "DURATION", .preset = "7d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long failed tasks are kept in the dead-letter queue; a resolved one then counts as a finished task" },
    { .key = "retention.executions", .type = OPTION_DURATION, .value = "DURATION", .preset = "90d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long executions (attempts and their output) are kept, even if their task is purged earlier" },
    { .key = "retention.archive_dir", .type = OPTION_TEXT, .value = "DIR",
      .help = "with --store: directory for archive files; each expired month of executions is written there before it is purged; default: no archive" },
    { .key = "retention.jobs", .type = OPTION_DURATION, .value = "DURATION", .preset = "7d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long finished jobs with their list of failures, and workers that are gone, are kept" },
    { .key = "retention.idempotency_keys", .type = OPTION_DURATION, .value = "DURATION", .preset = "1d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long a repeated Idempotency-Key gets the stored answer" },
    { .key = "retention.audit", .type = OPTION_DURATION, .value = "DURATION", .preset = "365d", .min = 1000,
      .max = DURATION_MAX_MS, .help = "how long rows of the audit log are kept" },
    { .key = "retention.interval", .type = OPTION_DURATION, .value = "DURATION", .preset = "1m", .min = 1000,
      .max = 86400000, .help = "how often expired rows are purged" },
    { .key = "smtp.url", .type = OPTION_TEXT, .value = "URL",
      .help = "mail server of notifications: smtps://HOST:PORT, or smtp://HOST:PORT, which must offer STARTTLS unless it is on this machine; default: no mail" },
    { .key = "smtp.from", .type = OPTION_TEXT, .value = "ADDRESS",
      .help = "sender of mail; required with smtp.url" },
    { .key = "smtp.user", .type = OPTION_TEXT, .value = "NAME", .help = "user name at the mail server; default: none" },
    { .key = "smtp.password", .type = OPTION_TEXT, .value = "SECRET",
      .help = "password at the mail server, or file:/path of a file with it" },
    { .key = "notify.email_domains", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated domains that notifications may be mailed to; * for all; default: none" },
    { .key = "notify.heartbeat_url", .type = OPTION_TEXT, .value = "URL",
      .help = "is called (GET) each minute by the leader while tasks can be claimed and notifications sent, so that a service outside notices if that ends; default: none" },
    /* serve and worker: SERVE_AND_WORKER rows. */
    { .flag = "config", .type = OPTION_TEXT, .value = "FILE",
      .help = "read settings from this file: key = value lines; [section] prefixes the keys below it" },
    { .key = "queue", .flag = "queue", .type = OPTION_TEXT, .value = "URL",
      .help = "redis://…, rediss://…, amqp://… or amqps://… of the queue that workers take tasks from, or file:/path of a file with that URL; default: none, tasks run in the server" },
    { .key = "events", .flag = "events", .type = OPTION_TEXT, .value = "URL",
      .help = "kafka://…, redis://…, rediss://…, amqp://… or amqps://… of the events by which workers report outcomes, or file:/path of a file with that URL; required with --queue" },
    { .key = "brokers.*", .flag = "broker", .type = OPTION_LIST, .value = "NAME=URL",
      .help = "a broker that QUEUE_MESSAGE tasks may name: redis://…, rediss://…, amqp://…, amqps://… or kafka://…, or file:/path of a file with that URL; NAME.tenants=LIST: the tenants that may use it, * for all, default: default; NAME.destinations=LIST: all that they may send to, such as orders.*; default: anything but Belfry's own" },
    { .key = "messages.connections_per_tenant", .type = OPTION_INT, .value = "N", .preset = "8", .min = 1, .max = 64,
      .help = "to how many brokers that are no brokers.NAME, but addresses in tasks, one tenant may be connected at once; the messages for others wait" },
    { .key = "worker.concurrency", .flag = "concurrency", .type = OPTION_INT, .value = "N", .preset = "1000",
      .min = 1, .max = 100000, .help = "how many tasks may run at once" },
    { .key = "worker.visibility", .flag = "visibility", .type = OPTION_DURATION, .value = "DURATION", .preset = "4s",
      .min = 1000, .max = 600000,
      .help = "how long a worker that has gone silent keeps the tasks it took from a Redis queue; then they are settled as lost, and most run again elsewhere" },
    { .key = "server.drain_deadline", .flag = "drain-deadline", .type = OPTION_DURATION, .value = "DURATION",
      .preset = "30s", .max = 3600000, .help = "after SIGTERM, how long running tasks may finish before they are aborted" },
    { .key = "http.allow_loopback", .flag = "allow-loopback", .type = OPTION_FLAG,
      .help = "let tasks of all tenants call loopback addresses of this machine; default of serve: only while the API listens on a loopback address and default is the only tenant; default of worker: no" },
    { .key = "http.allow", .flag = "allow", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated addresses that tasks of all tenants may call although they are not public: ranges such as 10.1.0.0/16, or an address and a port such as 127.0.0.1:8080 or [::1]:8080; default: none" },
    { .key = "http.ca_file", .flag = "ca-file", .type = OPTION_TEXT, .value = "FILE",
      .help = "trusted certificates (PEM) for https targets; default: $SSL_CERT_FILE, else the system's list" },
    { .key = "secrets.key_file", .type = OPTION_TEXT, .value = "FILE",
      .help = "file with the keys that encrypt secret headers of tasks in the store; every node and worker needs the same; default: secrets.key in the data directory, made at the first start of a single node; a cluster without one encrypts nothing" },
    { .key = "log.level", .flag = "log-level", .type = OPTION_CHOICE, .value = "LEVEL",
      .choices = "debug|info|warn|error", .preset = "info", .help = "lowest level that is logged" },
    { .key = "log.format", .flag = "log-format", .type = OPTION_CHOICE, .value = "FORMAT",
      .choices = "auto|logfmt|json", .preset = "auto", .help = "format of log lines; auto: logfmt on a terminal, else JSON" },
    { .key = "log.transitions", .type = OPTION_CHOICE, .value = "WHICH", .choices = "none|failures|all",
      .preset = "failures", .help = "which changes of the state of tasks are logged, as event transition: none, failures, or all; at most 1,000 a second" },
    { .key = "trace.endpoint", .type = OPTION_TEXT, .value = "URL",
      .help = "http://… or https://… of an OpenTelemetry collector that gets spans by OTLP (protobuf); without a path, /v1/traces is added; default: that of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else none" },
    { .key = "trace.ratio", .type = OPTION_TEXT, .value = "N", .preset = "0.01",
      .help = "which part of the traces that begin here is recorded, from 0 to 1; a caller who sends traceparent decides for its own; failures are always recorded" },
    { .key = "trace.state", .type = OPTION_FLAG, .preset = "false",
      .help = "send the caller's tracestate with calls and messages" },
    /* worker only: WORKER_ALONE rows. */
    { .key = "worker.queues", .flag = "queues", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated queues whose tasks this worker runs; default: all" },
    { .key = "worker.tenants", .flag = "tenants", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated names of tenants whose tasks this worker runs; default: all" },
    { .key = "worker.priorities", .flag = "priorities", .type = OPTION_TEXT, .value = "RANGE", .preset = "0-9",
      .help = "priorities of the tasks that this worker runs: a range such as 0-3, or one such as 7" },
    { .key = "worker.labels", .flag = "labels", .type = OPTION_TEXT, .value = "LIST",
      .help = "comma-separated labels of this worker; it runs tasks that require no other labels; default: none" },
    { .key = "worker.cpu", .flag = "cpu", .type = OPTION_TEXT, .value = "N",
      .help = "cores for tasks that declare their CPU need, such as 2 or 0.5; default: all cores of the machine" },
    { .key = "worker.memory_mb", .flag = "memory-mb", .type = OPTION_INT, .value = "N", .min = 1, .max = 1 << 30,
      .help = "memory in MB for tasks that declare their need; default: all memory of the machine or its control group" },
    { .key = "worker.listen", .flag = "listen", .type = OPTION_TEXT, .value = "ADDRESS",
      .help = "address and port of the worker's own /health, /ready and /metrics; default: none" },
};
/* clang-format on */

const char *options_getenv(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

/* Variables that are no settings: those of commands that ask a server, and those of tests and builds. */
static const char *const other_variables[] = {
    "BELFRY_SERVER",    "BELFRY_KEY",   "BELFRY_CA",          "BELFRY_CERT",      "BELFRY_CERT_KEY",
    "BELFRY_FAILPOINT", "BELFRY_BUILD", "BELFRY_SOURCE_ROOT", "BELFRY_SKIP_DEPS", "BELFRY_SEED",
};

/* The i-th known variable; false: there is none. An empty one is to be passed over. */
static bool options_known_variable(size_t i, char out[OPTION_ENV_TEXT])
{
    out[0] = '\0';
    if (i < array_count(other_variables)) {
        snprintf(out, OPTION_ENV_TEXT, "%s", other_variables[i]);
        return true;
    }
    i -= array_count(other_variables);
    if (i < SETTING_COUNT && server_options[i].key && !strchr(server_options[i].key, '*'))
        option_env_name(server_options[i].key, out);
    return i < SETTING_COUNT;
}

/* Writes the known name that is closest; the name itself if it is known; nothing if none is close. */
static void options_closest_variable(struct str name, char out[OPTION_ENV_TEXT])
{
    enum { PREFIX = sizeof "BELFRY_" - 1 }; /* all have it: it makes nothing similar */
    size_t best = SIZE_MAX, distance = 0;
    char known[OPTION_ENV_TEXT];
    out[0] = '\0';
    for (size_t i = 0; options_known_variable(i, known); i++) {
        struct str k = str_from(known);
        bool same = str_eq(k, name);
        bool close = k.n && suggest_is_close(str_sub(name, PREFIX, name.n), str_sub(k, PREFIX, k.n), &distance);
        if (!same && (!close || distance >= best))
            continue;
        best = distance;
        snprintf(out, OPTION_ENV_TEXT, "%s", known);
        if (same)
            return;
    }
}

void options_find_unknown_variables(void (*found)(void *context, struct str name, struct str closest), void *context)
{
    for (char **v = environ; *v; v++) {
        struct str whole = str_from(*v), name = str_sub(whole, 0, str_find(whole, '=', 0));
        char closest[OPTION_ENV_TEXT];
        if (!str_starts(name, S("BELFRY_")) || str_starts(name, S("BELFRY_TEST_")))
            continue;
        options_closest_variable(name, closest);
        if (!str_eq(str_from(closest), name))
            found(context, name, str_from(closest));
    }
}

void options_data_dir(const struct options *o, struct buf *out)
{
    const char *share = options_getenv("XDG_DATA_HOME"), *home = options_getenv("HOME");
    if (option_given(o, "data-dir"))
        buf_add(out, option_get(o, "data-dir")->text);
    else if (share && share[0] == '/') /* the XDG specification says to ignore relative paths */
        buf_printf(out, "%s/belfry", share);
    else if (home)
        buf_printf(out, "%s/.local/share/belfry", home);
    else
        buf_text(out, "/var/lib/belfry");
}

enum err options_read_config_file(struct options *o, const char *path, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct error why;
    buf_init(&text, OPTION_FILE_MAX);
    o->beside = server_options;
    o->beside_count = SETTING_COUNT;
    if (file_read(path, &text, &why))
        return error_set(e, ERR_INVALID, "%s", why.text);
    return options_parse_file(o, path, buf_str(&text), e);
}

enum err options_begin_process(const struct options *given, struct options **ret, struct error *e)
{
    union {
        const struct options *in;
        struct options *out;
    } values = { given }; /* the command line parsed them into writable values */
    struct options *o = *ret = values.out;
    const char *fail = options_getenv("BELFRY_FAILPOINT");
    if (option_given(o, "config") && options_read_config_file(o, option_get(o, "config")->text.p, e))
        return e->code;
    return fail ? failpoint_arm(str_from(fail), e) : ERR_OK;
}

enum err options_check_listen(const struct options *o, const char *name, struct error *e)
{
    return option_given(o, name) ? listen_address_check(option_get(o, name)->text.p, e) : ERR_OK;
}

struct trace_setup options_trace(const struct options *o)
{
    return (struct trace_setup){ .endpoint = option_get(o, "trace.endpoint")->text,
                                 .ratio = option_get(o, "trace.ratio")->text,
                                 .sends_state = option_get(o, "trace.state")->number };
}

enum err options_check_trace(const struct options *o, struct error *e)
{
    struct trace_setup setup = options_trace(o);
    return trace_setup_check(&setup, e);
}

enum err options_check_origins(const struct options *o, struct error *e)
{
    return cors_origins_check(option_get(o, "api.cors_origins")->text, e);
}

enum err options_check_public_url(const struct options *o, struct error *e)
{
    return public_url_check(option_get(o, "public-url")->text, e);
}

bool options_listen_is_loopback(const struct options *o, const char *name)
{
    const struct option_value *v = option_get(o, name);
    return !v->text.n || listen_is_loopback(v->text.p);
}

/* Writes "`--listen ADDRESS`". */
static void options_write_flag(const struct option *row, struct buf *out)
{
    if (!row->flag)
        return;
    buf_printf(out, "`--%s", row->flag);
    if (row->type != OPTION_FLAG)
        buf_printf(out, " %s", row->value);
    buf_char(out, '`');
}

static void options_write_values(const struct option *row, struct buf *out)
{
    struct str rest = row->choices ? str_from(row->choices) : S(""), choice;
    char text[RANGE_TEXT];
    if (row->type == OPTION_FLAG)
        buf_text(out, "`true`, `false`");
    for (const char *before = ""; str_cut(&rest, '|', &choice); before = ", ")
        buf_printf(out, "%s`" STR_FMT "`", before, STR_ARG(choice));
    if (row->type == OPTION_INT || row->type == OPTION_DURATION) {
        range_short_text((struct range){ .min = row->min,
                                         .max = row->max,
                                         .least = INT64_MIN,
                                         .most = INT64_MAX,
                                         .is_duration = row->type == OPTION_DURATION },
                         text);
        buf_text(out, text);
    }
}

void options_write_reference(struct buf *out)
{
    buf_text(out,
             "| in the file | environment | flag | default | values | what it does |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct option *row = &server_options[i];
        char name[OPTION_ENV_TEXT] = "";
        if (row->key && !strchr(row->key, '*'))
            option_env_name(row->key, name);
        const char *tick = row->key ? "`" : "";
        buf_printf(out, "| %s%s%s | %s%s%s | ", tick, row->key ? row->key : "", tick, tick, name, tick);
        options_write_flag(row, out);
        buf_printf(out, " | %s%s%s | ", row->preset ? "`" : "", row->preset ? row->preset : "", row->preset ? "`" : "");
        options_write_values(row, out);
        buf_printf(out, " | %s |\n", row->help);
    }
}

static struct str options_trim_secret(struct str s)
{
    while (s.n && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r'))
        s.n--;
    return str_trim(s);
}

enum err options_read_secret_file(const char *path, struct buf *out, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, SECRET_MAX);
    enum err rc = file_read(path, &text, e);
    if (rc && rc != ERR_LIMIT)
        return rc;
    struct str secret = options_trim_secret(buf_str(&text));
    if (rc || secret.n == 0)
        return error_set(e, ERR_INVALID, "%s %s", path, rc ? "is too long to be a secret" : "is empty");
    buf_add(out, secret);
    return ERR_OK;
}

enum err options_read_secret(struct str given, const char *field, struct buf *out, struct error *e)
{
    if (!str_starts(given, S("file:"))) {
        buf_add(out, given);
        return ERR_OK;
    }
    struct error why;
    if (options_read_secret_file(given.p + 5, out, &why)) /* option texts are NUL-terminated */
        return error_field(e, field, "cannot be read: %s", why.text);
    return ERR_OK;
}
