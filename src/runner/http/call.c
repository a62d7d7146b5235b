/* One call. A libcurl handle keeps its options between uses. The header list and the parsed URL are also reused:
 * libcurl reads them again for each use. Only options that differ are set again. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/duration.h"
#include "core/task/retry_after.h"
#include "runner/http/internal.h"

enum {
    RECEIVE_BUFFER = 4096, /* small, because ten thousand calls may be in flight */
    DEFAULT_TIMEOUT_MS = 30000,
    TRUST_S = 3600, /* how long libcurl caches the certificates */
};

/* ---- libcurl callbacks ---- */

static curl_socket_t http_call_on_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)purpose;
    struct http_call *c = context;
    if (!guard_allows(&c->runner->guard, &to->addr)) {
        c->is_blocked = true;
        return CURL_SOCKET_BAD;
    }
    return http_poller_open_socket(c->runner->poller, c, to);
}

/* Called when the connection and TLS are established, just before the request is sent. The connection may be one that
 * was opened while its address was allowed. */
static int http_call_on_request(void *context, char *to_ip, char *from_ip, int to_port, int from_port)
{
    (void)from_ip;
    (void)from_port;
    struct http_call *c = context;
    struct address to;
    c->is_blocked = !address_parse(str_from(to_ip), &to) || !guard_allows_address(&c->runner->guard, to, to_port);
    c->is_reached = !c->is_blocked;
    return c->is_blocked ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t http_call_on_body(char *p, size_t size, size_t count, void *context)
{
    struct http_call *c = context;
    size_t n = size * count, room = c->output.max - c->output.n;
    buf_add(&c->output, (struct str){ p, min_of(n, room) });
    c->response_bytes += n;
    if (c->response_bytes <= c->runner->setup.response_max)
        return n;
    c->is_capped = true;
    return 0;
}

static size_t http_call_on_header(char *p, size_t size, size_t count, void *context)
{
    static const struct str wanted = { "retry-after:", 12 };
    struct http_call *c = context;
    struct str line = { p, size * count };
    c->header_bytes += line.n;
    if (c->header_bytes > RESPONSE_HEADERS_MAX) {
        c->is_head_too_long = true;
        return 0;
    }
    if (line.n > wanted.n && str_eq_nocase(str_sub(line, 0, wanted.n), wanted)) {
        struct str value = str_trim(str_sub(line, wanted.n, str_find(line, '\r', wanted.n)));
        snprintf(c->retry_after, sizeof c->retry_after, STR_FMT, STR_ARG(value));
    }
    return line.n;
}

/* ---- the libcurl handle ---- */

/* Makes libcurl cache the trusted certificates. It caches a certificate file only if no certificate folder is set;
 * otherwise it parses a hundred certificates for each new connection, which blocks the loop. On a system that has only
 * the folder, the folder is used. */
static void http_call_set_trust(struct http_call *c)
{
    char *file = NULL;
    if (c->runner->setup.ca_file)
        curl_easy_setopt(c->easy, CURLOPT_CAINFO, c->runner->setup.ca_file);
    else
        curl_easy_getinfo(c->easy, CURLINFO_CAINFO, &file);
    if (c->runner->setup.ca_file || (file && access(file, R_OK) == 0))
        curl_easy_setopt(c->easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(c->easy, CURLOPT_CA_CACHE_TIMEOUT, (long)TRUST_S);
}

/* Options that are set once for each handle. */
static void http_call_set_lasting_options(struct http_call *c)
{
    const struct runner_http *r = c->runner;
    CURL *h = c->easy;
    curl_easy_setopt(h, CURLOPT_PRIVATE, c);
    curl_easy_setopt(h, CURLOPT_CURLU, c->url);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(h, CURLOPT_USERAGENT, r->user_agent);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(h, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
    curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    http_call_set_trust(c);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, http_call_on_open_socket);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, c);
    curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, http_call_on_request);
    curl_easy_setopt(h, CURLOPT_PREREQDATA, c);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, http_call_on_body);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, http_call_on_header);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, c);
    http_poller_attach(r->poller, h);
}

struct http_call *http_call_new(struct http_tenant *tenant)
{
    struct http_call *c = xnew(*c);
    c->runner = tenant->runner;
    c->tenant = tenant;
    list_init(&c->link);
    arena_init(&c->texts, CALL_TEXT_MAX);
    buf_init(&c->output, c->runner->setup.output_max);
    c->easy = curl_easy_init();
    c->url = curl_url();
    if (!c->easy || !c->url)
        abort(); /* out of memory, as xmalloc */
    http_call_set_lasting_options(c);
    return c;
}

void http_call_free(struct http_call *c)
{
    curl_easy_cleanup(c->easy);
    curl_url_cleanup(c->url);
    arena_release(&c->texts);
    buf_release(&c->output);
    free(c);
}

void http_call_reset(struct http_call *c)
{
    arena_reset(&c->texts);
    buf_reset(&c->output);
    signer_wipe(&c->signer);
    c->http_run = NULL;
    c->run = NULL;
    c->host = NULL;
    c->is_started = c->is_reached = c->is_blocked = c->is_capped = c->is_head_too_long = c->lacks_file = false;
    c->response_bytes = c->header_bytes = 0;
    c->retry_after[0] = c->trace_id[0] = '\0';
}

/* ---- the task's target ---- */

static void http_call_free_text(char **p)
{
    curl_free(*p);
}

static char *http_call_url_part(const struct http_call *c, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(c->url, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static enum err http_call_refuse_url(struct error *e, const char *why)
{
    return error_field(e, "url", "%s", why);
}

static bool http_call_is_host_name(struct str s)
{
    return s.n < 254 && str_is_plain(s, "-._");
}

/* libcurl normalises the host: 0x7f.1 becomes 127.0.0.1, %61 becomes a. The host must be written as libcurl understands
 * it, so that a log, a reviewer and a proxy see the host that is called. */
static bool http_call_is_as_written(struct str url, struct str scheme, struct str host)
{
    size_t at = scheme.n + 3;
    return url.n >= at + host.n && str_eq(str_sub(url, scheme.n, at), S("://")) &&
           str_eq_nocase(str_sub(url, at, at + host.n), host);
}

static enum err http_call_check_host(const struct http_call *c, struct str scheme, struct str host, struct error *e)
{
    cleanup_with(http_call_free_text) char *zone = http_call_url_part(c, CURLUPART_ZONEID, 0);
    struct address a;
    if (zone)
        return http_call_refuse_url(e, "must not have an IPv6 zone");
    if (host.p[0] == '[')
        return ERR_OK; /* unambiguous */
    if (!http_call_is_host_name(host))
        return http_call_refuse_url(e, "has no valid host name");
    if (!http_call_is_as_written(c->webhook.url, scheme, host))
        return http_call_refuse_url(
            e, "must have its host written plainly: a name, or an address as four decimal numbers");
    size_t last = host.n;
    while (last > 0 && is_digit(host.p[last - 1]))
        last--;
    if (last < host.n && (last == 0 || host.p[last - 1] == '.') && !address_parse(host, &a))
        return http_call_refuse_url(e, "has no valid address");
    return ERR_OK;
}

static const char *http_call_url_error(CURLUcode rc)
{
    switch (rc) {
    case CURLUE_USER_NOT_ALLOWED: return "must not hold a user name or password";
    case CURLUE_BAD_SCHEME:
    case CURLUE_UNSUPPORTED_SCHEME: return "must start with http:// or https://";
    case CURLUE_BAD_PORT_NUMBER: return "has no valid port";
    default: return "is not a valid URL";
    }
}

/* Parses and checks the URL. The same parsed URL is used for the call. */
static enum err http_call_read_url(struct http_call *c, struct str *ret_host, struct error *e)
{
    CURLUcode rc = curl_url_set(c->url, CURLUPART_URL, c->webhook.url.p, CURLU_DISALLOW_USER);
    if (rc != CURLUE_OK)
        return http_call_refuse_url(e, http_call_url_error(rc));
    cleanup_with(http_call_free_text) char *scheme = http_call_url_part(c, CURLUPART_SCHEME, 0);
    cleanup_with(http_call_free_text) char *host = http_call_url_part(c, CURLUPART_HOST, 0);
    cleanup_with(http_call_free_text) char *port = http_call_url_part(c, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    int64_t number;
    if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        return http_call_refuse_url(e, "must start with http:// or https://");
    if (!host || !host[0])
        return http_call_refuse_url(e, "has no valid host name");
    if (!port || !str_to_i64(str_from(port), 1, 65535, &number))
        return http_call_refuse_url(e, "has no valid port");
    c->is_tls = scheme[4] == 's';
    struct str text = str_from(host);
    if (http_call_check_host(c, str_from(scheme), text, e))
        return e->code;
    if (text.p[0] == '[')
        text = str_sub(text, 1, text.n - 1);
    c->port = (long)number;
    return arena_str(&c->texts, text, ret_host) ? ERR_OK : error_set(e, ERR_LIMIT, "is too long");
}

enum err http_call_read(struct http_call *c, struct str *ret_host, struct error *e)
{
    const struct runner_http_setup *setup = &c->runner->setup;
    if (webhook_read(c->run->task, &c->texts, &c->webhook, e) ||
        secret_headers_open(setup->secrets, c->run->task, &c->webhook, &c->texts, e) ||
        signer_of_task(&setup->signing, setup->secrets, c->run->task, &c->signer, e))
        return e->code;
    return http_call_read_url(c, ret_host, e);
}

/* ---- the request ---- */

static void http_call_set_method(struct http_call *c)
{
    const struct webhook *w = &c->webhook;
    bool plain_get = w->method == METHOD_GET && !w->has_body, head = w->method == METHOD_HEAD;
    curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST,
                     plain_get || head || w->method == METHOD_POST ? NULL : webhook_method_name(w->method));
    curl_easy_setopt(c->easy, CURLOPT_NOBODY, (long)head);
    if (head)
        return;
    if (plain_get) {
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)w->body.n);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, w->body.n ? w->body.p : "");
}

/* Pins the name to the addresses that were checked. libcurl keeps the pin for all calls until a later call replaces
 * it. */
static void http_call_pin_addresses(struct http_call *c)
{
    struct curl_slist *pin = NULL;
    if (!c->host->is_literal) {
        size_t size = strlen(c->host->name) + ADDRESSES_TEXT + 16;
        char *text = arena_alloc(&c->texts, size);
        assert(text);
        snprintf(text, size, "+%s:%ld:%s", c->host->name, c->port, c->host->addresses);
        c->resolve = (struct curl_slist){ .data = text };
        pin = &c->resolve;
    }
    curl_easy_setopt(c->easy, CURLOPT_RESOLVE, pin);
}

void http_call_prepare(struct http_call *c)
{
    const struct task *t = c->run->task;
    c->started_us = clock_wall_us(c->runner->clock);
    c->timeout_ms = t->timeout_ms > 0 ? t->timeout_ms : DEFAULT_TIMEOUT_MS;
    if (c->webhook.timeout_ms > 0)
        c->timeout_ms = min_of(c->timeout_ms, c->webhook.timeout_ms);
    c->connect_ms = min_of(c->timeout_ms, c->runner->setup.connect_timeout_ms);
    http_call_set_headers(c, c->started_us);
    http_call_set_method(c);
    http_call_pin_addresses(c);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)c->timeout_ms);
    curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_ms);
    /* If a reused connection turns out to be closed, libcurl sends the request again. The first copy may have arrived,
     * so at-most-once tasks use a new connection. */
    bool fresh = t->delivery == DELIVER_AT_MOST_ONCE;
    if (fresh != c->wants_fresh)
        curl_easy_setopt(c->easy, CURLOPT_FRESH_CONNECT, (long)fresh);
    c->wants_fresh = fresh;
    /* Later calls to the host wait until the first one knows whether the host speaks HTTP/2, to share its
     * connection. */
    curl_easy_setopt(c->easy, CURLOPT_PIPEWAIT, (long)c->is_tls);
    c->is_started = true;
}

/* ---- the outcome ---- */

static struct outcome http_call_make_outcome(struct http_call *c, enum outcome_kind kind, bool sent)
{
    int64_t now_us = clock_wall_us(c->runner->clock);
    return (struct outcome){
        .kind = kind,
        .sent = sent,
        .retry_after_ms = -1,
        .started_us = c->is_started ? c->started_us : now_us,
        .completed_us = c->is_started ? max_of(now_us, c->started_us) : now_us,
        .output = buf_str(&c->output),
        .worker = c->run->worker,
        .trace_id = str_from(c->trace_id),
    };
}

struct outcome http_call_failure(struct http_call *c, enum failure failure, const char *why)
{
    struct outcome o = http_call_make_outcome(c, OUTCOME_FAILED, c->is_reached);
    o.failure = failure;
    o.error = str_from(why);
    return o;
}

struct outcome http_call_lacks_key(struct http_call *c, const char *why)
{
    struct outcome o = http_call_make_outcome(c, OUTCOME_HELD, false);
    o.lacks_key = true;
    o.retry_after_ms = SECRETS_RETRY_MS;
    o.error = str_from(why);
    return o;
}

/* That is no fault of the target. */
struct outcome http_call_lacks_file(struct http_call *c)
{
    struct outcome o = http_call_make_outcome(c, OUTCOME_HELD, false);
    o.lacks_file = true;
    o.retry_after_ms = FILES_RETRY_MS;
    o.error = S("no file descriptor is free for its connection");
    return o;
}

/* It may wait for the address of its host, or for a call of its host to end: then it never began. */
struct outcome http_call_cancelled(struct http_call *c)
{
    struct outcome o = http_call_make_outcome(c, OUTCOME_CANCELLED, c->is_reached);
    if (!c->is_started)
        o.started_us = 0;
    o.error = S("cancelled");
    return o;
}

/* A response arrived: its status decides. */
static struct outcome http_call_answered(struct http_call *c)
{
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    bool ok = status >= 200 && status < 300;
    struct outcome o = http_call_make_outcome(c, ok ? OUTCOME_OK : OUTCOME_FAILED, true);
    o.http_status = (int)status;
    if (ok)
        return o;
    o.failure = FAILURE_HTTP;
    snprintf(c->error, sizeof c->error, "HTTP %ld", status);
    o.error = str_from(c->error);
    if (c->retry_after[0])
        o.retry_after_ms = retry_after_ms(str_from(c->retry_after), o.completed_us / 1000);
    return o;
}

static struct outcome http_call_timed_out(struct http_call *c)
{
    char limit[DURATION_TEXT];
    duration_format(c->is_reached ? c->timeout_ms : c->connect_ms, limit);
    snprintf(c->error, sizeof c->error, c->is_reached ? "timed out after %s" : "no connection after %s", limit);
    return http_call_failure(c, FAILURE_TIMEOUT, c->error);
}

static struct outcome http_call_not_connected(struct http_call *c)
{
    if (c->lacks_file)
        return http_call_lacks_file(c);
    if (c->is_blocked && c->host->is_literal)
        return http_call_failure(c, FAILURE_REFUSED, guard_refusal(&c->host->runner->guard, c->host->literal));
    if (c->is_blocked)
        return http_call_failure(c, FAILURE_CONNECT, GUARD_NOT_FOUND);
    long os_error = 0;
    curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_error);
    return http_call_failure(c, FAILURE_CONNECT, os_error == ECONNREFUSED ? "connection refused" : "could not connect");
}

/* Explains a certificate error by OpenSSL's verify result (openssl/x509_vfy.h), which libcurl passes on. libcurl
 * compares the host name first; if that fails, OpenSSL's result is still NOT_ASKED. */
static struct outcome http_call_not_verified(struct http_call *c)
{
    enum { NOT_ASKED = 1, NOT_YET_VALID = 9, EXPIRED = 10, SELF_SIGNED = 18, UNKNOWN_ROOT, NO_ISSUER, NO_CHAIN };
    long result = 0;
    curl_easy_getinfo(c->easy, CURLINFO_SSL_VERIFYRESULT, &result);
    const char *why = "certificate is not trusted";
    switch (result) {
    case NOT_ASKED: why = "certificate is for another name"; break;
    case NOT_YET_VALID: why = "certificate is not valid yet"; break;
    case EXPIRED: why = "certificate has expired"; break;
    case SELF_SIGNED:
    case UNKNOWN_ROOT:
    case NO_ISSUER:
    case NO_CHAIN: why = "certificate is from an issuer that is not trusted"; break;
    default: break;
    }
    return http_call_failure(c, FAILURE_TLS, why);
}

/* Sentences for libcurl's codes; a code that is not listed is an internal error. The sentences tell the user what to
 * fix, and reveal nothing about our network. */
static const struct {
    CURLcode code;
    enum failure failure;
    const char *why;
} meanings[] = {
    { CURLE_COULDNT_RESOLVE_HOST, FAILURE_CONNECT, GUARD_NOT_FOUND },
    { CURLE_SSL_CONNECT_ERROR, FAILURE_TLS, "TLS handshake failed" },
    { CURLE_SSL_CACERT_BADFILE, FAILURE_TLS, "list of trusted certificates not readable" },
    { CURLE_SSL_CIPHER, FAILURE_TLS, "TLS handshake failed" },
    { CURLE_SSL_ISSUER_ERROR, FAILURE_TLS, "certificate is not trusted" },
    { CURLE_SSL_INVALIDCERTSTATUS, FAILURE_TLS, "certificate is not trusted" },
    { CURLE_GOT_NOTHING, FAILURE_NETWORK, "connection closed without a response" },
    { CURLE_SEND_ERROR, FAILURE_NETWORK, "connection was lost" },
    { CURLE_RECV_ERROR, FAILURE_NETWORK, "connection was lost" },
    { CURLE_PARTIAL_FILE, FAILURE_NETWORK, "response ended early" },
    { CURLE_HTTP2, FAILURE_NETWORK, "connection was lost" },
    { CURLE_HTTP2_STREAM, FAILURE_NETWORK, "connection was lost" },
    { CURLE_WEIRD_SERVER_REPLY, FAILURE_NETWORK, "response is not HTTP" },
    { CURLE_UNSUPPORTED_PROTOCOL, FAILURE_NETWORK, "response is not HTTP" },
    { CURLE_BAD_CONTENT_ENCODING, FAILURE_NETWORK, "response is not HTTP" },
};

struct outcome http_call_outcome(struct http_call *c, CURLcode code)
{
    if (c->is_head_too_long)
        return http_call_failure(c, FAILURE_NETWORK, "response headers are too long");
    if (code == CURLE_OK || c->is_capped)
        return http_call_answered(c);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return http_call_timed_out(c);
    if (code == CURLE_COULDNT_CONNECT || (code == CURLE_ABORTED_BY_CALLBACK && c->is_blocked))
        return http_call_not_connected(c);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return http_call_not_verified(c);
    for (size_t i = 0; i < array_count(meanings); i++)
        if (meanings[i].code == code)
            return http_call_failure(c, meanings[i].failure, meanings[i].why);
    snprintf(c->error, sizeof c->error, "call failed: %s", curl_easy_strerror(code));
    return http_call_failure(c, FAILURE_INTERNAL, c->error);
}
