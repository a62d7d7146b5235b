#pragma once
/* tests/support/http_hosts.h - HTTP servers on many addresses of this machine, in a child process, which hold every request
 * until the test releases it. Their counters are in shared memory.
 *
 * They run in a child process, because each end of a connection needs a descriptor and the number of descriptors per
 * process is limited. Requests have no body. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HTTP_HOSTS_MAX = 64, HTTP_HOSTS_CONNECTIONS_MAX = 32768, HTTP_HOSTS_HEAD_MAX = 2048 };

struct http_hosts_seen {
    atomic_int open, open_max, requests;
};

struct http_hosts {
    int hosts;
    pid_t pid;
    int go;                    /* a byte releases the requests, closing it ends the process */
    int ports[HTTP_HOSTS_MAX]; /* on 127.0.1.1, 127.0.1.2, … */
    struct {
        atomic_int held; /* requests that wait for a response */
        struct http_hosts_seen host[HTTP_HOSTS_MAX];
    } * seen;
};

static inline void http_hosts_address(int i, char out[16])
{
    snprintf(out, 16, "127.0.1.%d", i + 1);
}

/* ---- the child process ---- */

struct http_hosts_connection {
    int host;
    bool is_open, is_held;
    size_t n;
    char head[HTTP_HOSTS_HEAD_MAX];
};

struct http_hosts_run {
    struct http_hosts *servers;
    int epoll_fd, listeners[HTTP_HOSTS_MAX];
    bool let_go;
    struct http_hosts_connection *at[HTTP_HOSTS_CONNECTIONS_MAX]; /* indexed by descriptor */
};

static inline void http_hosts_watch(struct http_hosts_run *r, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static inline void http_hosts_accept(struct http_hosts_run *r, int host)
{
    for (int fd; (fd = accept4(r->listeners[host], NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        if (fd >= HTTP_HOSTS_CONNECTIONS_MAX || !(r->at[fd] = calloc(1, sizeof *r->at[fd])))
            abort();
        r->at[fd]->host = host;
        r->at[fd]->is_open = true;
        r->servers->seen->host[host].open++;
        http_hosts_watch(r, fd);
    }
}

static inline void http_hosts_answer(struct http_hosts_run *r, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    if (r->at[fd]->is_held)
        r->servers->seen->held--;
    r->at[fd]->is_held = false;
    r->at[fd]->n = 0;
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
}

static inline void http_hosts_read(struct http_hosts_run *r, int fd)
{
    struct http_hosts_connection *c = r->at[fd];
    ssize_t n = recv(fd, c->head + c->n, sizeof c->head - c->n, 0);
    if (n <= 0) {
        if (c->is_held)
            r->servers->seen->held--;
        r->servers->seen->host[c->host].open--;
        free(c);
        r->at[fd] = NULL;
        close(fd);
        return;
    }
    c->n += (size_t)n;
    if (c->n < 4 || memcmp(c->head + c->n - 4, "\r\n\r\n", 4) != 0)
        return;
    r->servers->seen->host[c->host].requests++;
    c->is_held = true;
    r->servers->seen->held++;
    if (r->let_go)
        http_hosts_answer(r, fd);
}

static inline void http_hosts_let_go(struct http_hosts_run *r, int told)
{
    char c;
    if (read(told, &c, 1) != 1)
        _exit(0);
    r->let_go = true;
    for (int fd = 0; fd < HTTP_HOSTS_CONNECTIONS_MAX; fd++)
        if (r->at[fd] && r->at[fd]->is_held)
            http_hosts_answer(r, fd);
}

/* Called after all pending events were read: one connection may be closed before the next is opened, but be reported
 * later. */
static inline void http_hosts_note(struct http_hosts *c)
{
    for (int i = 0; i < c->hosts; i++)
        if (c->seen->host[i].open > c->seen->host[i].open_max)
            c->seen->host[i].open_max = c->seen->host[i].open;
}

static inline _Noreturn void http_hosts_serve(struct http_hosts_run *r, int told)
{
    r->epoll_fd = epoll_create1(0);
    http_hosts_watch(r, told);
    for (int i = 0; i < r->servers->hosts; i++)
        http_hosts_watch(r, r->listeners[i]);
    for (;;) {
        struct epoll_event ev[256];
        int n = epoll_wait(r->epoll_fd, ev, 256, 0);
        if (n == 0) {
            http_hosts_note(r->servers);
            n = epoll_wait(r->epoll_fd, ev, 256, -1);
        }
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd, host = 0;
            while (host < r->servers->hosts && r->listeners[host] != fd)
                host++;
            if (fd == told)
                http_hosts_let_go(r, told);
            else if (host < r->servers->hosts)
                http_hosts_accept(r, host);
            else
                http_hosts_read(r, fd);
        }
    }
}

/* ---- in the test's process ---- */

static inline bool http_hosts_listen(struct http_hosts *c, struct http_hosts_run *r, int i)
{
    char text[16];
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    http_hosts_address(i, text);
    inet_pton(AF_INET, text, &at.sin_addr);
    int fd = r->listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 1024) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    c->ports[i] = ntohs(at.sin_port);
    return ok;
}

static inline bool http_hosts_open(struct http_hosts *c, int hosts)
{
    struct http_hosts_run *r = calloc(1, sizeof *r);
    int ends[2];
    *c = (struct http_hosts){ .hosts = hosts };
    c->seen = mmap(NULL, sizeof *c->seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool ok = r && c->seen != MAP_FAILED && pipe(ends) == 0;
    for (int i = 0; ok && i < hosts; i++)
        ok = http_hosts_listen(c, r, i);
    if (!ok)
        return false;
    r->servers = c;
    c->pid = fork();
    if (c->pid == 0) {
        close(ends[1]);
        http_hosts_serve(r, ends[0]);
    }
    close(ends[0]);
    c->go = ends[1];
    for (int i = 0; i < hosts; i++)
        close(r->listeners[i]);
    free(r);
    return c->pid > 0;
}

static inline void http_hosts_release(struct http_hosts *c)
{
    (void)!write(c->go, "", 1);
}

static inline void http_hosts_close(struct http_hosts *c)
{
    close(c->go);
    waitpid(c->pid, NULL, 0);
    munmap(c->seen, sizeof *c->seen);
}
