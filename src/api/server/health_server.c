/* Every answer is made at once on the HTTP thread. Nothing here waits. */
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

struct health_server_answer {
    unsigned status;
    const char *type;
    struct buf body;
};

static void health_server_write_json(struct health_server_answer *a, unsigned status, const char *word,
                                     const char *more_name, const char *more)
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

static void health_server_answer_health(struct health_server *v, struct health_server_answer *a)
{
    (void)v;
    health_server_write_json(a, 200, "ok", "version", BELFRY_VERSION);
}

static void health_server_answer_ready(struct health_server *v, struct health_server_answer *a)
{
    struct error e = { 0 };
    if (v->setup.ready(v->setup.context, &e))
        health_server_write_json(a, 200, "ready", NULL, NULL);
    else
        health_server_write_json(a, 503, "not ready", "detail", e.text);
}

static void health_server_answer_metrics(struct health_server *v, struct health_server_answer *a)
{
    a->status = 200;
    a->type = "text/plain; version=0.0.4";
    v->setup.metrics(v->setup.context, &a->body);
}

static void health_server_make_answer(struct health_server *v, const char *method, const char *path,
                                      struct health_server_answer *a)
{
    static const struct {
        const char *path;
        void (*answer)(struct health_server *v, struct health_server_answer *a);
    } rows[] = { { "/health", health_server_answer_health },
                 { "/ready", health_server_answer_ready },
                 { "/metrics", health_server_answer_metrics } };
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        health_server_write_json(a, 405, "error", "detail", "only GET and HEAD are supported");
        return;
    }
    for (size_t i = 0; i < array_count(rows); i++)
        if (strcmp(path, rows[i].path) == 0) {
            rows[i].answer(v, a);
            return;
        }
    health_server_write_json(a, 404, "error", "detail",
                             "there is nothing at this path; a worker serves /health, /ready and /metrics");
}

static enum MHD_Result health_server_on_access(void *context, struct MHD_Connection *c, const char *path,
                                               const char *method, const char *version, const char *body,
                                               size_t *body_size, void **mine)
{
    static int begun;
    struct health_server *v = context;
    (void)version;
    (void)body;
    if (!*mine || *body_size) { /* the first call has only the headers; a body is ignored */
        *mine = &begun;
        *body_size = 0;
        return MHD_YES;
    }
    struct health_server_answer a = { 0 };
    buf_init(&a.body, ANSWER_MAX);
    health_server_make_answer(v, method, path, &a);
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
    if (listen_socket_open(setup->listen, &fd, e))
        return e->code;
    struct health_server *v = xnew(*v);
    v->setup = *setup;
    v->port = listen_socket_port(fd);
    v->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, health_server_on_access, v,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (!v->daemon) {
        close(fd);
        free(v);
        return error_set(e, ERR_UNAVAILABLE, "libmicrohttpd could not start the HTTP server on '%s'", setup->listen);
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
