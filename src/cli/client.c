/* All error messages about the server are here: unreachable, refused (problem+json), wrong key, answer is not JSON. */
#include "cli/client.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/uuid.h"
#include "cli/remedy.h"
#include "server/settings/options.h"

enum {
    TRIES = 3,
    PAUSE_MS = 200, /* before the second try; doubled before each later one */
    CONNECT_TIMEOUT_MS = 5000,
    ANSWER_TIMEOUT_MS = 60000,
    ANSWER_MAX = 256 << 20,
    STREAM_SILENT_S = 30, /* a stream says something each second */
    TEXT_MAX = 8192,
};

struct client {
    struct cli *cli;
    CURL *curl;
    struct buf server;   /* "http://127.0.0.1:8080", without a slash at the end */
    struct buf bearer;   /* "Authorization: Bearer …"; empty: no key was found */
    struct buf key_hint; /* end of the error sentence after a 401: which key was rejected, or where one was searched */
    bool is_loopback, has_deadline, is_patient;
    bool has_certificate, was_forbidden;
    struct error unreachable; /* of a patient client: the latest */
    struct uuid_gen ids;
    char why[CURL_ERROR_SIZE];
};

/* The response to one attempt. */
struct client_response {
    long status;
    struct buf body;
};

void client_free(struct client *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    buf_release(&c->server);
    buf_release(&c->bearer);
    buf_release(&c->key_hint);
    free(c);
}

void client_freep(struct client **c)
{
    client_free(*c);
}

void client_answer_release(struct client_answer *a)
{
    json_doc_release(&a->doc);
    buf_release(&a->body);
}

void client_json_line(struct buf *out, struct str json)
{
    size_t from = out->n;
    buf_add(out, json);
    for (size_t i = from; i < out->n; i++)
        if (out->p[i] == '\n' || out->p[i] == '\r')
            out->p[i] = ' ';
    buf_char(out, '\n');
}

/* ---- server URL and API key ---- */

/* Whether the host is localhost, 127.x.x.x or [::1]. libcurl has parsed the URL, so that "127.0.0.1@example.com"
 * does not count. */
static bool client_is_loopback_host(struct str host)
{
    if (str_eq_nocase(host, S("localhost")) || str_eq(host, S("[::1]")))
        return true;
    for (size_t i = 0; i < host.n; i++)
        if (!is_digit(host.p[i]) && host.p[i] != '.')
            return false;
    return str_starts(host, S("127."));
}

static enum err client_read_host(struct client *c, struct error *e)
{
    CURLU *url = curl_url();
    char *host = NULL;
    assert(url);
    bool is_url = curl_url_set(url, CURLUPART_URL, buf_cstr(&c->server), 0) == CURLUE_OK &&
                  curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK;
    c->is_loopback = is_url && client_is_loopback_host(str_from(host));
    curl_free(host);
    curl_url_cleanup(url);
    return is_url ? ERR_OK : error_field(e, "--server", "is not a URL: write it as http://127.0.0.1:8080");
}

static enum err client_read_server(struct client *c, const struct options *o, struct error *e)
{
    struct str url = option_get(o, "server")->text;
    while (url.n && url.p[url.n - 1] == '/')
        url.n--;
    if (!str_starts(url, S("http://")) && !str_starts(url, S("https://")))
        return error_field(e, "--server", "must begin with http:// or https://");
    buf_add(&c->server, url);
    return client_read_host(c, e);
}

/* If no key is given, uses admin.key in the data directory. A remote server gets that key only if --data-dir is
 * given: the default data directory belongs to a server on this machine, whose key must not be sent elsewhere. */
static void client_read_key_file(struct client *c, const struct options *o, struct buf *key)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, TEXT_MAX);
    options_data_dir(o, &path);
    buf_text(&path, "/admin.key");
    if (!c->is_loopback && !option_given(o, "data-dir")) {
        buf_text(&c->key_hint, "none was found in --key or BELFRY_KEY");
        return;
    }
    struct error why;
    if (options_read_secret_file(buf_cstr(&path), key, &why))
        buf_printf(&c->key_hint, "none was found in --key, BELFRY_KEY or %s",
                   why.code == ERR_NOT_FOUND ? buf_cstr(&path) : why.text);
    else
        buf_printf(&c->key_hint, "the key in %s is not accepted", buf_cstr(&path));
}

static enum err client_read_key(struct client *c, const struct options *o, struct error *e)
{
    cleanup_with(buf_release) struct buf key;
    buf_init(&key, TEXT_MAX);
    const struct option_value *given = option_get(o, "key");
    const char *name = given->source == FROM_ENV ? "BELFRY_KEY" : "--key";
    if (given->text.p && options_read_secret(given->text, name, &key, e))
        return e->code;
    if (!given->text.p && c->has_certificate && !option_given(o, "data-dir"))
        buf_text(&c->key_hint, "the certificate of --cert stands for no tenant (api.tls.identities)");
    else if (!given->text.p)
        client_read_key_file(c, o, &key);
    else
        buf_printf(&c->key_hint, "the key of %s is not accepted", name);
    for (size_t i = 0; i < key.n; i++)
        if (key.p[i] <= ' ' || key.p[i] >= 0x7F)
            return error_field(e, name, "is not an API key: it contains blanks or unprintable characters");
    if (key.n)
        buf_printf(&c->bearer, "Authorization: Bearer %s", buf_cstr(&key));
    return ERR_OK;
}

static const char *client_file(const struct options *o, const char *flag)
{
    return option_given(o, flag) ? option_get(o, flag)->text.p : NULL;
}

/* curl says only at the first request that a file is missing, and not which one. */
static enum err client_check_files(struct client *c, const struct options *o, struct error *e)
{
    static const char *const flags[] = { "ca", "cert", "cert-key" };
    char name[16];
    for (size_t i = 0; i < array_count(flags); i++) {
        const char *path = client_file(o, flags[i]);
        snprintf(name, sizeof name, "--%s", flags[i]);
        if (path && access(path, R_OK))
            return error_field(e, name, "cannot be read: %s: %s", path, strerror(errno));
    }
    c->has_certificate = client_file(o, "cert") != NULL;
    if (client_file(o, "cert-key") && !c->has_certificate)
        return error_field(e, "--cert-key", "requires --cert");
    return ERR_OK;
}

static void client_setup_tls(struct client *c, const struct options *o)
{
    const char *ca = client_file(o, "ca"), *cert = client_file(o, "cert"), *key = client_file(o, "cert-key");
    if (ca)
        curl_easy_setopt(c->curl, CURLOPT_CAINFO, ca);
    if (cert) {
        curl_easy_setopt(c->curl, CURLOPT_SSLCERT, cert);
        curl_easy_setopt(c->curl, CURLOPT_SSLKEY, key ? key : cert);
    }
}

static size_t client_on_body(char *bytes, size_t size, size_t n, void *context)
{
    struct client_response *r = context;
    buf_add(&r->body, (struct str){ bytes, size * n });
    return r->body.full ? 0 : size * n;
}

static void client_setup_curl(struct client *c)
{
    c->curl = curl_easy_init();
    assert(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->why);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)ANSWER_TIMEOUT_MS);
    curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "Belfry/" BELFRY_VERSION);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, client_on_body);
    if (c->is_loopback)
        curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "*");
}

/* Only what is close to a variable of the client: others may be settings of a newer server. */
static void client_on_unknown_variable(void *context, struct str name, struct str closest)
{
    static const char *const ours[] = { "BELFRY_SERVER", "BELFRY_KEY",      "BELFRY_CA",
                                        "BELFRY_CERT",   "BELFRY_CERT_KEY", "BELFRY_DATA_DIR" };
    for (size_t i = 0; i < array_count(ours); i++)
        if (str_eq(closest, str_from(ours[i])))
            cli_on_unknown_variable(context, name, closest);
}

enum exit_code client_open(struct cli *cli, const struct options *o, struct client **ret)
{
    cleanup_with(client_freep) struct client *c = xnew(*c);
    c->cli = cli;
    buf_init(&c->server, TEXT_MAX);
    buf_init(&c->bearer, TEXT_MAX);
    buf_init(&c->key_hint, TEXT_MAX);
    uint64_t seed;
    ssize_t got = getrandom(&seed, sizeof seed, 0);
    assert(got == sizeof seed);
    uuid_gen_init(&c->ids, seed);
    struct error e;
    options_find_unknown_variables(client_on_unknown_variable, cli);
    if (client_check_files(c, o, &e) || client_read_server(c, o, &e) || client_read_key(c, o, &e))
        return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
    client_setup_curl(c);
    client_setup_tls(c, o);
    *ret = take(c);
    return EXIT_DONE;
}

struct cli *client_cli(const struct client *c)
{
    return c->cli;
}

void client_set_deadline(struct client *c, int64_t ms)
{
    c->has_deadline = true;
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)ms);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)ms);
}

void client_set_patient(struct client *c, bool is_patient)
{
    c->is_patient = is_patient;
}

const char *client_why_unreachable(const struct client *c)
{
    return c->unreachable.text;
}

/* ---- requests ---- */

static void client_add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    assert(longer);
    *list = longer;
}

static void client_free_headers(struct curl_slist **list)
{
    curl_slist_free_all(*list);
}

static struct curl_slist *client_headers(struct client *c, const struct client_request *call)
{
    struct curl_slist *list = NULL;
    char line[512], id[UUID_TEXT + 1];
    client_add_header(&list, "Accept: application/json");
    client_add_header(&list, "Expect:"); /* do not wait for 100 Continue */
    if (c->bearer.n)
        client_add_header(&list, buf_cstr(&c->bearer));
    snprintf(line, sizeof line, "Content-Type: %s", call->type ? call->type : "application/json");
    client_add_header(&list, call->body.n ? line : "Content-Type:"); /* removes the header that curl would add */
    if (strcmp(call->method, "GET") != 0) {
        uuid_format(uuid_next(&c->ids, clock_wall_ms(c->cli->clock)), id);
        snprintf(line, sizeof line, "Idempotency-Key: %s", call->idempotency_key ? call->idempotency_key : id);
        client_add_header(&list, line);
    }
    if (call->if_version) {
        snprintf(line, sizeof line, "If-Match: \"%lld\"", (long long)call->if_version);
        client_add_header(&list, line);
    }
    return list;
}

static void client_set_request(struct client *c, const struct client_request *call, const struct curl_slist *headers)
{
    bool sends = strcmp(call->method, "GET") != 0 && strcmp(call->method, "DELETE") != 0;
    curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L); /* resets the method of the request before */
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, NULL);
    if (sends) {
        curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, call->body.n ? call->body.p : "");
    } else {
        curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
}

static CURLcode client_send_once(struct client *c, const char *path, struct client_response *r)
{
    cleanup_with(buf_release) struct buf url;
    buf_init(&url, TEXT_MAX * 2);
    buf_printf(&url, "%s%s", buf_cstr(&c->server), path);
    buf_reset(&r->body);
    c->why[0] = '\0';
    curl_easy_setopt(c->curl, CURLOPT_URL, buf_cstr(&url));
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, r);
    CURLcode rc = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &r->status);
    return rc;
}

/* The connection broke after it was established: it is unknown whether the server has processed the request. */
static bool client_connection_lost(CURLcode rc)
{
    return rc == CURLE_GOT_NOTHING || rc == CURLE_RECV_ERROR || rc == CURLE_SEND_ERROR || rc == CURLE_PARTIAL_FILE;
}

/* If the connection was lost, sends the request again with the same Idempotency-Key. The server may be restarting
 * (connection refused), or may still process the first request (409): then it is sent once more. */
static CURLcode client_send(struct client *c, const char *path, struct client_response *r)
{
    CURLcode rc = client_send_once(c, path, r);
    bool was_lost = !c->has_deadline && client_connection_lost(rc);
    for (int tries = 1; was_lost && tries < TRIES && (rc || r->status == 409); tries++) {
        nanosleep(&(struct timespec){ .tv_nsec = (PAUSE_MS << (tries - 1)) * 1000000L }, NULL);
        rc = client_send_once(c, path, r);
    }
    return rc;
}

/* ---- error messages ---- */

/* What to do about a TLS error; NULL: it is none that is known. */
static const char *client_tls_remedy(struct client *c, CURLcode rc)
{
    enum { EXPIRED = 10, UNKNOWN_FIRST = 18, UNKNOWN_LAST = 21 }; /* X509_V_ERR_… */
    long verified = 0;
    curl_easy_getinfo(c->curl, CURLINFO_SSL_VERIFYRESULT, &verified);
    if (strstr(c->why, "certificate required"))
        return "it requires a client certificate: --cert FILE --cert-key FILE";
    if (c->has_certificate && (strstr(c->why, "unknown ca") || strstr(c->why, "bad certificate")))
        return "it does not accept the certificate of --cert: none of its authorities (api.tls.client_ca) has signed it";
    if (strstr(c->why, "wrong version number"))
        return "it speaks plain HTTP: use http://";
    if (rc != CURLE_PEER_FAILED_VERIFICATION)
        return NULL;
    if (verified == EXPIRED)
        return "its certificate has expired";
    if (verified >= UNKNOWN_FIRST && verified <= UNKNOWN_LAST)
        return "its certificate is signed by an authority that this machine does not know: --ca FILE";
    return verified && !strstr(c->why, "subject name")
               ? NULL
               : "its certificate is for other names: use one of them in --server";
}

/* "No route" → "no route"; "SSL: …" stays. */
static char client_lower_first(const char *text)
{
    return ascii_lower(text[0]) != text[0] && ascii_lower(text[1]) != text[1] ? text[0] : ascii_lower(text[0]);
}

static enum exit_code client_fail_unreachable(struct client *c, CURLcode rc)
{
    long os_errno = 0;
    curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &os_errno);
    const char *why = c->why[0] ? c->why : curl_easy_strerror(rc);
    bool by_system = rc == CURLE_COULDNT_CONNECT && os_errno;
    const char *remedy = client_tls_remedy(c, rc);
    if (by_system)
        why = strerror((int)os_errno);
    if (remedy)
        why = remedy;
    struct error e;
    if (rc == CURLE_SSL_CERTPROBLEM) {
        error_set(&e, ERR_INVALID,
                  "--cert and --cert-key must be a certificate and its key, in PEM form; without "
                  "--cert-key, the file of --cert must have both");
        return cli_fail(c->cli, c->cli->command->name, &e, EXIT_USAGE);
    }
    error_set(&e, ERR_UNAVAILABLE, "cannot reach %s (%c%s)%s", buf_cstr(&c->server), client_lower_first(why), why + 1,
              by_system && !c->is_patient ? "; is 'belfry serve' running?" : "");
    c->unreachable = e;
    return c->is_patient ? EXIT_UNREACHABLE : cli_fail(c->cli, c->cli->command->name, &e, EXIT_UNREACHABLE);
}

static enum exit_code client_fail_sentence(struct client *c, const struct client_request *call, struct str field,
                                           struct str sentence)
{
    struct error e = { .code = ERR_INVALID };
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 2 * sizeof e.text);
    remedy_write(sentence, &text);
    snprintf(e.field, sizeof e.field, STR_FMT, STR_ARG(field));
    snprintf(e.text, sizeof e.text, "%s", buf_cstr(&text));
    bool is_named = !call->about || strstr(e.text, call->about);
    if (!is_named && field.n)
        error_wrap(&e, STR_FMT, STR_ARG(field));
    if (!is_named)
        snprintf(e.field, sizeof e.field, "%s", call->about);
    return cli_fail(c->cli, c->cli->command->name, &e, EXIT_REFUSED);
}

static enum exit_code client_fail_key(struct client *c)
{
    struct error e;
    error_set(&e, ERR_INVALID, "the server at %s requires an API key; %s", buf_cstr(&c->server),
              buf_cstr(&c->key_hint));
    return cli_fail(c->cli, c->cli->command->name, &e, EXIT_REFUSED);
}

/* Whether a proxy, or a server that starts or stops, says that a later request may succeed. */
static bool client_is_unavailable(long status)
{
    return status >= 502 && status <= 504;
}

static enum exit_code client_note_unavailable(struct client *c, long status)
{
    error_set(&c->unreachable, ERR_UNAVAILABLE, "%s answers with status %ld", buf_cstr(&c->server), status);
    return EXIT_UNREACHABLE;
}

/* Prints each entry of the problem's `errors`; without entries its detail, its title, or the status. */
static enum exit_code client_fail_refused(struct client *c, const struct client_request *call,
                                          const struct client_response *r)
{
    cleanup_with(json_doc_release) struct json_doc problem = { 0 };
    struct error ignored;
    if (r->status == 401)
        return client_fail_key(c);
    char bare[64];
    snprintf(bare, sizeof bare, "the server answered with status %ld", r->status);
    if (json_parse(buf_str(&r->body), &problem, &ignored))
        return client_fail_sentence(c, call, S(""), str_from(bare));
    size_t count;
    const json_t *one;
    json_array_foreach (json_at(problem.root, "errors"), count, one)
        client_fail_sentence(c, call, json_text_at(one, "field"), json_text_at(one, "message"));
    struct str detail = json_text_at(problem.root, "detail"), title = json_text_at(problem.root, "title");
    if (!count)
        client_fail_sentence(c, call, S(""), detail.n ? detail : title.n ? title : str_from(bare));
    return EXIT_REFUSED;
}

static enum exit_code client_fail_not_json(struct client *c, const struct error *why)
{
    struct error e;
    error_set(&e, ERR_CORRUPT, "the answer of %s %s; is it a Belfry server?", buf_cstr(&c->server), why->text);
    return cli_fail(c->cli, c->cli->command->name, &e, EXIT_REFUSED);
}

bool client_was_forbidden(const struct client *c)
{
    return c->was_forbidden;
}

enum exit_code client_call(struct client *c, const struct client_request *call, struct client_answer *ret)
{
    cleanup_with(client_free_headers) struct curl_slist *headers = client_headers(c, call);
    struct client_response r = { 0 };
    buf_init(&r.body, ANSWER_MAX);
    client_set_request(c, call, headers);
    CURLcode rc = client_send(c, call->path, &r);
    c->was_forbidden = !rc && r.status == 403;
    struct json_doc doc = { 0 };
    struct error e;
    enum exit_code code = EXIT_DONE;
    bool is_missing = !rc && r.status == 404 && call->may_be_missing;
    if (call->quiet && !is_missing && (rc || r.status < 200 || r.status > 299))
        code = EXIT_REFUSED;
    else if (rc)
        code = client_fail_unreachable(c, rc);
    else if (c->is_patient && client_is_unavailable(r.status))
        code = client_note_unavailable(c, r.status);
    else if (is_missing)
        buf_reset(&r.body);
    else if (r.status < 200 || r.status > 299)
        code = client_fail_refused(c, call, &r);
    else if (r.body.n && json_parse_answer(buf_str(&r.body), &doc, &e))
        code = client_fail_not_json(c, &e);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    if (code) {
        buf_release(&r.body);
        return code;
    }
    *ret = (struct client_answer){ .status = (int)r.status, .body = r.body, .doc = doc };
    return EXIT_DONE;
}

/* ---- streams ---- */

struct client_reading {
    struct client *client;
    struct event_stream *stream;
    const volatile sig_atomic_t *stop;
    struct client_response refused; /* the body of an answer that is no stream */
};

static size_t client_on_stream(char *bytes, size_t size, size_t n, void *context)
{
    struct client_reading *r = context;
    long status = 0;
    curl_easy_getinfo(r->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return client_on_body(bytes, size, n, &r->refused);
    return event_stream_feed(r->stream, (struct str){ bytes, size * n }) ? size * n : 0;
}

/* Called about each second, too. */
static int client_on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    const struct client_reading *r = context;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    return *r->stop;
}

static void client_set_reading(struct client *c, struct client_reading *r)
{
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, r ? client_on_stream : client_on_body);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, client_on_progress);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, r);
    curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, r ? 0L : 1L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, r ? 0L : (long)ANSWER_TIMEOUT_MS);
    curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, r ? 1L : 0L);
    curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, r ? (long)STREAM_SILENT_S : 0L);
}

static struct curl_slist *client_stream_headers(struct client *c, const struct event_stream *s)
{
    struct curl_slist *list = NULL;
    char line[512];
    client_add_header(&list, "Accept: text/event-stream");
    if (c->bearer.n)
        client_add_header(&list, buf_cstr(&c->bearer));
    snprintf(line, sizeof line, "Last-Event-ID: %s", buf_cstr(&s->last_id));
    if (s->last_id.n)
        client_add_header(&list, line);
    return list;
}

enum exit_code client_stream(struct client *c, const char *path, struct event_stream *s,
                             const volatile sig_atomic_t *stop)
{
    struct client_request call = { .method = "GET", .path = path };
    cleanup_with(client_free_headers) struct curl_slist *headers = client_stream_headers(c, s);
    cleanup_with(buf_release) struct buf url;
    struct client_reading r = { .client = c, .stream = s, .stop = stop };
    enum exit_code code = EXIT_DONE;
    buf_init(&r.refused.body, ANSWER_MAX);
    buf_init(&url, TEXT_MAX * 2);
    buf_printf(&url, "%s%s", buf_cstr(&c->server), path);
    event_stream_begin(s);
    client_set_request(c, &call, headers);
    client_set_reading(c, &r);
    c->why[0] = '\0';
    curl_easy_setopt(c->curl, CURLOPT_URL, buf_cstr(&url));
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &r);
    CURLcode rc = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &r.refused.status);
    if (*stop || s->is_stopped)
        code = EXIT_DONE;
    else if (rc)
        code = client_fail_unreachable(c, rc);
    else if (c->is_patient && client_is_unavailable(r.refused.status))
        code = client_note_unavailable(c, r.refused.status);
    else if (r.refused.status != 200)
        code = client_fail_refused(c, &call, &r.refused);
    client_set_reading(c, NULL);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    buf_release(&r.refused.body);
    return code;
}
