/* A connection: connecting and reconnecting, the meaning of errors, and the pipeline.
 *
 * The socket is non-blocking: a request may exceed the buffers between client and server, and the server sends results
 * while the client still writes. Every wait has a time limit, because a network may drop packets silently. Results come
 * in groups, each closed by a sync. After an error the server skips the rest of the group and returns "skipped" for
 * each statement in it. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/internal.h"

enum {
    CONNECT_S = 3,     /* for each host */
    ANSWER_MS = 10000, /* the longest time that a statement may take */
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 2000,
    SQL_MAX = 1 << 16,
    NS_IN_MS = 1000000,
};

/* libpq before version 16 does not find the system's CAs by itself. */
#define SYSTEM_CAS "/etc/ssl/certs/ca-certificates.crt"

/* ---- errors ---- */

static bool pg_sqlstate_starts(const char *state, const char *with)
{
    return strncmp(state, with, strlen(with)) == 0;
}

/* Maps SQLSTATE classes. After these the same statement may succeed later: lost connections, missing resources, an
 * operator's intervention, a read-only server. */
static enum err pg_sqlstate_meaning(const char *state)
{
    static const char *const pass[] = { "08", "53", "57", "58", "40", "55P03", "25006", "28", "3D000" };
    for (size_t i = 0; i < array_count(pass); i++)
        if (pg_sqlstate_starts(state, pass[i]))
            return ERR_UNAVAILABLE;
    return ERR_CORRUPT;
}

/* The first line of PostgreSQL's message, without the position in the statement. */
static struct str pg_first_line(const char *text)
{
    struct str s = str_from(text);
    size_t n = 0;
    while (n < s.n && s.p[n] != '\n')
        n++;
    return (struct str){ s.p, n };
}

static enum err pg_fail_with(struct pg_conn *c, enum err rc, const char *text, struct error *e)
{
    struct str line = pg_first_line(text);
    c->failed = error_set(&c->failure, rc, "PostgreSQL: %.*s", (int)line.n, line.p);
    if (e)
        *e = c->failure;
    return rc;
}

enum err pg_fail(struct pg_conn *c, const PGresult *r, struct error *e)
{
    const char *state = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    const char *text = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!state)
        return pg_fail_with(c, ERR_UNAVAILABLE, PQerrorMessage(c->pg), e);
    c->retry = pg_sqlstate_starts(state, "40001") || pg_sqlstate_starts(state, "40P01");
    return pg_fail_with(c, pg_sqlstate_meaning(state), text ? text : state, e);
}

enum err pg_corrupt(struct pg_conn *c, const char *what, struct error *e)
{
    return pg_fail_with(c, ERR_CORRUPT, what, e);
}

static void pg_conn_disconnect(struct pg_conn *c)
{
    PQfinish(c->pg);
    c->pg = NULL;
    c->sent_count = c->awaited = c->group = 0;
    map_release(&c->prepared);
}

static enum err pg_conn_lose(struct pg_conn *c, const char *why, struct error *e)
{
    enum err rc = pg_fail_with(c, ERR_UNAVAILABLE, why, e);
    pg_conn_disconnect(c);
    return rc;
}

/* ---- TLS ---- */

/* libpq's default (sslmode=prefer) goes on without TLS if the server, or somebody on the way, says that there is none.
 * So for hosts other than this machine the default is verify-full. All false: the server is on this machine. */
struct pg_tls {
    bool is_default;    /* the operator chose no sslmode: verify-full */
    bool is_unverified; /* the operator chose an sslmode that does not check who the server is */
    bool has_root;      /* the operator named the CA */
};

static bool pg_tls_is_local_host(struct str host)
{
    return host.n == 0 || host.p[0] == '/' || host.p[0] == '@' || str_starts(host, S("127.")) ||
           str_eq(host, S("::1")) || str_eq_nocase(host, S("localhost"));
}

/* Hosts are separated by commas. If the address names none, libpq uses PGHOST or a Unix socket. */
static bool pg_tls_are_local_hosts(const char *hosts)
{
    struct str rest = str_from(hosts), host;
    while (str_cut(&rest, ',', &host))
        if (!pg_tls_is_local_host(host))
            return false;
    return true;
}

static const char *pg_tls_setting(const PQconninfoOption *options, const char *name)
{
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (strcmp(o->keyword, name) == 0)
            return o->val && o->val[0] ? o->val : o->envvar ? getenv(o->envvar) : NULL;
    return NULL;
}

/* hostaddr is the address that is connected to; host is then only the name in the certificate. */
static bool pg_tls_is_local(const PQconninfoOption *options)
{
    const char *address = pg_tls_setting(options, "hostaddr"), *host = pg_tls_setting(options, "host");
    return pg_tls_are_local_hosts(address ? address : host ? host : "");
}

static struct pg_tls pg_tls_of(const char *url)
{
    struct pg_tls tls = { 0 };
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    if (!options || pg_tls_is_local(options)) {
        PQconninfoFree(options);
        return tls;
    }
    const char *mode = pg_tls_setting(options, "sslmode");
    tls.is_default = !mode;
    tls.is_unverified = mode && strcmp(mode, "verify-full") != 0;
    tls.has_root = pg_tls_setting(options, "sslrootcert");
    PQconninfoFree(options);
    return tls;
}

bool store_postgres_is_unverified(const char *url)
{
    return pg_tls_of(url).is_unverified;
}

/* ---- connecting ---- */

/* Removes "name=value" from a URL's query. False if it is not there. */
static bool pg_url_take_setting(char *url, const char *setting)
{
    char *query = strchr(url, '?'), *at = query ? strstr(query, setting) : NULL;
    size_t n = strlen(setting);
    if (!at || (at[-1] != '?' && at[-1] != '&') || (at[n] != '\0' && at[n] != '&'))
        return false;
    if (at[n] == '&')
        memmove(at, at + n + 1, strlen(at + n + 1) + 1);
    else
        at[-1] = '\0';
    return true;
}

enum err pg_conn_init(struct pg_conn *c, const char *url, bool is_reader, struct clock *clock, struct error *e)
{
    *c = (struct pg_conn){
        .url = xstrdup(url), .clock = clock, .is_reader = is_reader, .backoff_max_ms = BACKOFF_MAX_MS
    };
    map_init(&c->prepared, HASH_STABLE);
    buf_init(&c->sql, SQL_MAX);
    c->prepare = !pg_url_take_setting(c->url, "prepare=off");
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(c->url, &why);
    if (!options) {
        struct str line = pg_first_line(why ? why : "out of memory");
        (void)error_field(e, "store", "is not an address of a PostgreSQL database: %.*s", (int)line.n, line.p);
        PQfreemem(why);
        return ERR_INVALID;
    }
    PQconninfoFree(options);
    return ERR_OK;
}

void pg_conn_release(struct pg_conn *c)
{
    PQfinish(c->pg);
    map_release(&c->prepared);
    buf_release(&c->sql);
    free(c->sent);
    free(c->url);
    *c = (struct pg_conn){ 0 };
}

static void pg_conn_on_notice(void *context, const PGresult *r)
{
    (void)context;
    (void)r;
}

/* Settings in the URL win over these defaults: of two values, libpq uses the later one. An empty value is none. */
static PGconn *pg_conn_open(const struct pg_conn *c)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", CONNECT_S);
    struct pg_tls tls = pg_tls_of(c->url);
    const char *const names[] = { "application_name",     "connect_timeout",  "keepalives_idle",
                                  "keepalives_interval",  "keepalives_count", "tcp_user_timeout",
                                  "target_session_attrs", "client_encoding",  "sslmode",
                                  "sslrootcert",          "dbname",           NULL };
    const char *const values[] = { "belfry",
                                   seconds,
                                   "10",
                                   "3",
                                   "3",
                                   "10000",
                                   c->is_reader ? "any" : "read-write",
                                   "UTF8",
                                   tls.is_default ? "verify-full" : "",
                                   tls.is_default && !tls.has_root ? SYSTEM_CAS : "",
                                   c->url,
                                   NULL };
    return PQconnectdbParams(names, values, 1);
}

static int64_t pg_conn_now_ns(const struct pg_conn *c)
{
    return clock_steady_ns(c->clock);
}

/* An operator who chose no sslmode has to learn of the default when it is the reason. */
static void pg_conn_add_remedy(struct pg_conn *c, struct error *e)
{
    const char *why = c->failure.text;
    if (!pg_tls_of(c->url).is_default || (!strstr(why, "SSL") && !strstr(why, "certificate")))
        return;
    size_t n = strlen(c->failure.text);
    snprintf(c->failure.text + n, sizeof c->failure.text - n,
             ". A server on another machine is checked (?sslmode=verify-full); name its CA by ?sslrootcert=FILE, or "
             "choose another sslmode");
    *e = c->failure;
}

static enum err pg_conn_back_off(struct pg_conn *c, struct error *e)
{
    c->backoff_ms = min_of(c->backoff_ms ? c->backoff_ms * 2 : BACKOFF_MIN_MS, c->backoff_max_ms);
    c->retry_at_ns = pg_conn_now_ns(c) + c->backoff_ms * NS_IN_MS;
    enum err rc = pg_conn_lose(c, PQerrorMessage(c->pg), e);
    pg_conn_add_remedy(c, e);
    return rc;
}

static enum err pg_conn_reconnect(struct pg_conn *c, struct error *e)
{
    if (c->failed && pg_conn_now_ns(c) < c->retry_at_ns) {
        *e = c->failure;
        return e->code;
    }
    c->pg = pg_conn_open(c);
    if (PQstatus(c->pg) != CONNECTION_OK || PQsetnonblocking(c->pg, 1) != 0 || !PQenterPipelineMode(c->pg))
        return pg_conn_back_off(c, e);
    PQsetNoticeReceiver(c->pg, pg_conn_on_notice, NULL);
    c->backoff_ms = 0;
    c->generation++;
    return ERR_OK;
}

enum err pg_conn_ready(struct pg_conn *c, struct error *e)
{
    if (c->pg && (c->sent_count || c->group || PQstatus(c->pg) != CONNECTION_OK))
        pg_conn_disconnect(c); /* an earlier caller left it in the middle of a statement */
    if (!c->pg && pg_conn_reconnect(c, e))
        return e->code;
    c->failed = ERR_OK;
    c->retry = c->answered = false;
    return ERR_OK;
}

/* ---- waiting ---- */

/* Waits until the socket is ready. False: the deadline has passed. */
static bool pg_conn_wait_socket(struct pg_conn *c, bool to_write, int64_t deadline_ns)
{
    struct pollfd p = { .fd = PQsocket(c->pg), .events = (short)(POLLIN | (to_write ? POLLOUT : 0)) };
    for (;;) {
        int64_t left_ms = (deadline_ns - pg_conn_now_ns(c) + NS_IN_MS - 1) / NS_IN_MS;
        int rc = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (rc >= 0 || errno != EINTR)
            return rc > 0;
    }
}

/* Writes as much of the buffer as possible without waiting. *ret_more: some is left. */
static enum err pg_conn_flush(struct pg_conn *c, bool *ret_more, struct error *e)
{
    int rc = PQflush(c->pg);
    *ret_more = rc > 0;
    return rc < 0 ? pg_conn_lose(c, PQerrorMessage(c->pg), e) : ERR_OK;
}

/* Waits until libpq has a complete result. */
static enum err pg_conn_wait_result(struct pg_conn *c, struct error *e)
{
    int64_t deadline_ns = pg_conn_now_ns(c) + (c->answer_ms ? c->answer_ms : ANSWER_MS) * NS_IN_MS;
    for (bool more = true;;) {
        if (more && pg_conn_flush(c, &more, e))
            return e->code;
        if (!PQisBusy(c->pg))
            return ERR_OK;
        if (!pg_conn_wait_socket(c, more, deadline_ns))
            return pg_conn_lose(c, "the server did not answer in time: the connection is closed", e);
        if (!PQconsumeInput(c->pg))
            return pg_conn_lose(c, PQerrorMessage(c->pg), e);
    }
}

static enum err pg_conn_next_result(struct pg_conn *c, PGresult **ret, struct error *e)
{
    if (pg_conn_wait_result(c, e))
        return e->code;
    *ret = PQgetResult(c->pg);
    return ERR_OK;
}

/* ---- sending ---- */

bool pg_in_flight(const struct pg_conn *c)
{
    return c->awaited > 0;
}

static void pg_conn_push_sent(struct pg_conn *c, struct pg_sent what)
{
    if (c->sent_count == c->sent_cap) {
        size_t cap = c->sent_cap * 2 + 16;
        struct pg_sent *v = xcalloc(cap, sizeof *v);
        for (size_t i = 0; i < c->sent_count; i++)
            v[i] = c->sent[(c->sent_first + i) % c->sent_cap];
        free(c->sent);
        c->sent = v;
        c->sent_cap = cap;
        c->sent_first = 0;
    }
    c->sent[(c->sent_first + c->sent_count++) % c->sent_cap] = what;
    c->awaited += !what.quiet;
}

static enum err pg_conn_after_send(struct pg_conn *c, int ok, struct pg_sent what, struct error *e)
{
    if (!ok)
        return pg_conn_lose(c, PQerrorMessage(c->pg), e);
    pg_conn_push_sent(c, what);
    bool more;
    return pg_conn_flush(c, &more, e);
}

static int pg_sql_highest_param(const char *sql)
{
    int highest = 0;
    for (const char *p = strchr(sql, '$'); p; p = strchr(p + 1, '$')) {
        int named = 0;
        for (const char *digit = p + 1; is_digit(*digit); digit++)
            named = named * 10 + (*digit - '0');
        highest = max_of(highest, named);
    }
    return highest;
}

/* The statement's text with `$*` replaced by the numbered parameters. */
static const char *pg_sql_expand(struct pg_conn *c, const char *sql, int params)
{
    const char *star = strstr(sql, "$*");
    if (!star)
        return sql;
    buf_reset(&c->sql);
    int next = pg_sql_highest_param(sql) + 1;
    for (const char *from = sql; from; from = star ? star + 2 : NULL, star = from ? strstr(from, "$*") : NULL) {
        if (!star) {
            buf_text(&c->sql, from);
            break;
        }
        buf_add(&c->sql, (struct str){ from, (size_t)(star - from) });
        for (int i = next; i <= params; i++)
            buf_printf(&c->sql, "%s$%d", i == next ? "" : ", ", i);
    }
    assert(!c->sql.full);
    return buf_cstr(&c->sql);
}

static const struct pg_params no_params;

static enum err pg_conn_prepare(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p,
                                struct error *e)
{
    static char yes;
    if (map_get(&c->prepared, str_from(s->name)))
        return ERR_OK;
    (void)map_put(&c->prepared, str_from(s->name), &yes);
    return pg_conn_after_send(c, PQsendPrepare(c->pg, s->name, pg_sql_expand(c, s->sql, p->n), p->n, p->types),
                              (struct pg_sent){ .quiet = true, .prepares = s->name }, e);
}

enum { BINARY = 1 };

static enum err pg_conn_send(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, bool quiet,
                             struct error *e)
{
    const char *values[PG_PARAMS_MAX];
    int formats[PG_PARAMS_MAX];
    struct pg_sent what = { .quiet = quiet };
    p = p ? p : &no_params;
    if (!c->pg || c->failed) {
        *e = c->failure;
        return e->code;
    }
    if (p->bytes.full)
        return error_set(e, ERR_LIMIT, "the statement has more than 1 GiB of parameters: send smaller batches");
    for (int i = 0; i < p->n; i++) {
        values[i] = p->at[i] == SIZE_MAX ? NULL : p->bytes.p + p->at[i];
        formats[i] = BINARY;
    }
    if (!c->prepare)
        return pg_conn_after_send(c,
                                  PQsendQueryParams(c->pg, pg_sql_expand(c, s->sql, p->n), p->n, p->types, values,
                                                    p->lengths, formats, BINARY),
                                  what, e);
    if (pg_conn_prepare(c, s, p, e))
        return e->code;
    return pg_conn_after_send(c, PQsendQueryPrepared(c->pg, s->name, p->n, values, p->lengths, formats, BINARY), what,
                              e);
}

enum err pg_send(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e)
{
    return pg_conn_send(c, s, p, false, e);
}

enum err pg_queue(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct error *e)
{
    return pg_conn_send(c, s, p, true, e);
}

enum err pg_send_text(struct pg_conn *c, const char *sql, struct error *e)
{
    if (!c->pg || c->failed) {
        *e = c->failure;
        return e->code;
    }
    return pg_conn_after_send(c, PQsendQueryParams(c->pg, sql, 0, NULL, NULL, NULL, NULL, BINARY),
                              (struct pg_sent){ 0 }, e);
}

/* ---- reading results ---- */

/* Sends a sync behind the statements that were sent, if their group has none yet. */
static enum err pg_conn_sync_group(struct pg_conn *c, struct error *e)
{
    if (c->group)
        return ERR_OK;
    assert(c->sent_count > 0);
    if (!PQpipelineSync(c->pg))
        return pg_conn_lose(c, PQerrorMessage(c->pg), e);
    c->group = c->sent_count;
    return ERR_OK;
}

/* After the last result of a group, reads the group's sync. */
static enum err pg_conn_read_sync(struct pg_conn *c, struct error *e)
{
    PGresult *r;
    if (--c->group > 0)
        return ERR_OK;
    if (pg_conn_next_result(c, &r, e))
        return e->code;
    bool ok = PQresultStatus(r) == PGRES_PIPELINE_SYNC;
    PQclear(r);
    return ok ? ERR_OK : pg_conn_lose(c, "the server sent an unexpected result", e);
}

/* Reads the result of the oldest statement that was sent, and the NULL that libpq returns behind it. */
static enum err pg_conn_read_result(struct pg_conn *c, PGresult **ret, struct error *e)
{
    PGresult *nothing;
    if (pg_conn_sync_group(c, e) || pg_conn_next_result(c, ret, e))
        return e->code;
    if (!*ret)
        return pg_conn_lose(c, "the server sent no result", e);
    if (pg_conn_next_result(c, &nothing, e)) {
        PQclear(*ret);
        return e->code;
    }
    c->awaited -= !c->sent[c->sent_first].quiet;
    c->sent_first = (c->sent_first + 1) % c->sent_cap;
    c->sent_count--;
    return ERR_OK;
}

/* After a failure, all later statements of the transaction fail with the same error. COMMIT too: PostgreSQL reports
 * success, but its command tag is ROLLBACK. */
static enum err pg_conn_check_result(struct pg_conn *c, const PGresult *r, struct error *e)
{
    if (c->failed) {
        *e = c->failure;
        return c->failed;
    }
    switch (PQresultStatus(r)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY: return ERR_OK;
    default: return pg_fail(c, r, e);
    }
}

static enum err pg_conn_get_one(struct pg_conn *c, PGresult **ret, struct error *e)
{
    PGresult *r = NULL;
    struct error ignored;
    const char *prepares = c->sent[c->sent_first].prepares;
    if (pg_conn_read_result(c, &r, e))
        return e->code;
    enum err rc = pg_conn_check_result(c, r, e);
    c->answered = c->answered || rc == ERR_OK;
    if (rc && prepares)
        (void)map_remove(&c->prepared, str_from(prepares));
    if (rc && PQstatus(c->pg) != CONNECTION_OK)
        pg_conn_disconnect(c);
    else if (pg_conn_read_sync(c, rc ? &ignored : e))
        rc = c->failed;
    if (rc)
        PQclear(r);
    else
        *ret = r;
    return rc;
}

static int64_t pg_result_affected(PGresult *r)
{
    int64_t n;
    return str_to_i64(str_from(PQcmdTuples(r)), 0, INT64_MAX, &n) ? n : 0; /* "" if the statement changes no rows */
}

enum err pg_get(struct pg_conn *c, struct pg_result *ret, struct error *e)
{
    for (;;) {
        PGresult *r = NULL;
        if (!c->pg || c->sent_count == 0) { /* it was lost with the connection */
            *e = c->failure;
            return e->code;
        }
        bool quiet = c->sent[c->sent_first].quiet;
        if (pg_conn_get_one(c, &r, e)) {
            if (quiet && pg_in_flight(c)) /* the statements behind it were skipped: their pg_get returns this error */
                continue;
            return e->code;
        }
        if (!quiet) {
            if (ret)
                *ret = (struct pg_result){ r, PQntuples(r), pg_result_affected(r) };
            else
                PQclear(r);
            return ERR_OK;
        }
        PQclear(r);
    }
}

enum err pg_run(struct pg_conn *c, const struct pg_statement *s, const struct pg_params *p, struct pg_result *ret,
                struct error *e)
{
    assert(!pg_in_flight(c));
    return pg_send(c, s, p, e) ? e->code : pg_get(c, ret, e);
}

enum err pg_exec(struct pg_conn *c, const char *sql, struct error *e)
{
    assert(!pg_in_flight(c));
    return pg_send_text(c, sql, e) ? e->code : pg_get(c, NULL, e);
}

enum err pg_rollback(struct pg_conn *c, const char *sql, struct error *e)
{
    struct error ignored;
    for (PGresult *r = NULL; c->pg && c->sent_count > 0;)
        if (!pg_conn_get_one(c, &r, &ignored))
            PQclear(r);
    if (!c->pg) {
        *e = c->failure;
        return e->code;
    }
    c->failed = ERR_OK;
    c->retry = false;
    return pg_exec(c, sql, e);
}
