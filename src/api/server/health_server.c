/* Answers are made on the spot: nothing here waits for anybody. */
#include "api/server/health_server.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/server/listen.h"
#include "base/json/jsonw.h"

enum { ANSWER_MAX = 1 << 20, CONNECTIONS = 64, IDLE_S = 10 };

struct health_server {
    struct health_server_setup setup;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

struct answer {
    unsigned status;
    const char *type;
    struct buf body;
};

static void write_json(struct answer *a, unsigned status, const char *word, const char *more_name, const char *more)
{
    struct jw w;
    a->status = status;
    a->type = "application/json";
    jw_init(&w, &a->body);
    jw_object(&w);
    jw_kv_cstr(&w, "status", word);
    if (more)
        jw_kv_cstr(&w, more_name, more);
    jw_object_end(&w);
}

static void answer_health(struct health_server *v, struct answer *a)
{
    (void)v;
    write_json(a, 200, "ok", "version", BELFRY_VERSION);
}

static void answer_ready(struct health_server *v, struct answer *a)
{
    struct error e = { 0 };
    if (v->setup.ready(v->setup.context, &e))
        write_json(a, 200, "ready", NULL, NULL);
    else
        write_json(a, 503, "not ready", "detail", e.text);
}

static void answer_metrics(struct health_server *v, struct answer *a)
{
    a->status = 200;
    a->type = "text/plain; version=0.0.4";
    v->setup.metrics(v->setup.context, &a->body);
}

static void make_answer(struct health_server *v, const char *method, const char *path, struct answer *a)
{
    static const struct {
        const char *path;
        void (*answer)(struct health_server *v, struct answer *a);
    } rows[] = { { "/health", answer_health }, { "/ready", answer_ready }, { "/metrics", answer_metrics } };
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        write_json(a, 405, "error", "detail", "only GET");
        return;
    }
    for (size_t i = 0; i < array_count(rows); i++)
        if (strcmp(path, rows[i].path) == 0) {
            rows[i].answer(v, a);
            return;
        }
    write_json(a, 404, "error", "detail", "a worker has /health, /ready and /metrics");
}

static enum MHD_Result handle(void *context, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *body, size_t *body_size, void **mine)
{
    static int begun;
    struct health_server *v = context;
    (void)version;
    (void)body;
    if (!*mine || *body_size) { /* the first call has only the headers; a body is nothing to us */
        *mine = &begun;
        *body_size = 0;
        return MHD_YES;
    }
    struct answer a = { 0 };
    buf_init(&a.body, ANSWER_MAX);
    make_answer(v, method, path, &a);
    struct MHD_Response *r = MHD_create_response_from_buffer(a.body.n, a.body.p, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(r, "Content-Type", a.type);
    enum MHD_Result rc = MHD_queue_response(c, a.status, r);
    MHD_destroy_response(r);
    buf_release(&a.body);
    return rc;
}

enum err health_server_new(const struct health_server_setup *setup, struct health_server **ret, struct error *e)
{
    int fd = -1;
    if (listen_on(setup->listen, &fd, e))
        return e->code;
    struct health_server *v = xnew(*v);
    v->setup = *setup;
    v->port = listening_port(fd);
    v->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, v, MHD_OPTION_LISTEN_SOCKET, fd,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)IDLE_S, MHD_OPTION_END);
    if (!v->daemon) {
        close(fd);
        free(v);
        return error_set(e, ERR_UNAVAILABLE, "the HTTP server does not start");
    }
    *ret = v;
    return ERR_OK;
}

uint16_t health_server_port(const struct health_server *v)
{
    return v->port;
}

void health_server_free(struct health_server *v)
{
    if (!v)
        return;
    MHD_stop_daemon(v->daemon);
    free(v);
}
