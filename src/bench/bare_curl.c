/* A loop around libcurl and epoll that only makes calls: no limits, no headers of our own, no outcomes. */
#include "bench/bare_curl.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 256 };

struct bare_client {
    CURLM *multi;
    int epoll_fd;
    long timeout_ms;
    long left, running, failed;
    CURLcode why; /* error of the first failed call */
};

static int bare_curl_on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    (void)easy;
    struct bare_client *b = context;
    struct epoll_event ev = { .events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                              .data.fd = fd };
    int op = what == CURL_POLL_REMOVE ? EPOLL_CTL_DEL : known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    epoll_ctl(b->epoll_fd, op, fd, &ev);
    if (op == EPOLL_CTL_ADD)
        curl_multi_assign(b->multi, fd, b);
    return 0;
}

static int bare_curl_on_timer(CURLM *multi, long timeout_ms, void *context)
{
    (void)multi;
    ((struct bare_client *)context)->timeout_ms = timeout_ms;
    return 0;
}

static size_t bare_curl_on_body(char *p, size_t size, size_t n, void *context)
{
    (void)p;
    (void)context;
    return size * n;
}

static void bare_curl_restart_finished(struct bare_client *b)
{
    int queued;
    for (CURLMsg *m; (m = curl_multi_info_read(b->multi, &queued));) {
        CURL *easy = m->easy_handle;
        if (m->data.result != CURLE_OK && b->failed++ == 0)
            b->why = m->data.result;
        curl_multi_remove_handle(b->multi, easy);
        if (b->left > 0) {
            b->left--;
            curl_multi_add_handle(b->multi, easy);
        } else {
            b->running--;
            curl_easy_cleanup(easy);
        }
    }
}

static void bare_curl_loop(struct bare_client *b)
{
    int running;
    while (b->running > 0) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(b->epoll_fd, ev, EVENTS, (int)b->timeout_ms);
        for (int i = 0; i < n; i++)
            curl_multi_socket_action(b->multi, ev[i].data.fd,
                                     (ev[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                         (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0),
                                     &running);
        if (n == 0 || b->timeout_ms == 0)
            curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        bare_curl_restart_finished(b);
    }
}

static void bare_curl_start_call(struct bare_client *b, const struct bare_curl_load *l)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, l->url);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, l->payload);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, bare_curl_on_body);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    b->left--;
    b->running++;
    curl_multi_add_handle(b->multi, easy);
}

enum err bench_bare_curl(const struct bare_curl_load *l, double *ret_rate, struct error *e)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct bare_client b = { .multi = curl_multi_init(), .epoll_fd = epoll_create1(EPOLL_CLOEXEC), .left = l->calls };
    curl_multi_setopt(b.multi, CURLMOPT_SOCKETFUNCTION, bare_curl_on_socket);
    curl_multi_setopt(b.multi, CURLMOPT_SOCKETDATA, &b);
    curl_multi_setopt(b.multi, CURLMOPT_TIMERFUNCTION, bare_curl_on_timer);
    curl_multi_setopt(b.multi, CURLMOPT_TIMERDATA, &b);
    curl_multi_setopt(b.multi, CURLMOPT_MAXCONNECTS, l->concurrency);
    int64_t begun_ns = clock_steady_ns(l->clock);
    for (long i = 0; i < l->concurrency && b.left > 0; i++)
        bare_curl_start_call(&b, l);
    bare_curl_loop(&b);
    double took_s = (double)(clock_steady_ns(l->clock) - begun_ns) / 1e9;
    curl_multi_cleanup(b.multi);
    close(b.epoll_fd);
    curl_global_cleanup();
    if (b.failed)
        return error_set(e, ERR_UNAVAILABLE, "%ld of %ld bare calls to %s failed, the first: %s", b.failed, l->calls,
                         l->url, curl_easy_strerror(b.why));
    *ret_rate = (double)l->calls / took_s;
    return ERR_OK;
}
