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

enum { CROWD_HOSTS_MAX = 64, CROWD_CONNECTIONS_MAX = 32768, CROWD_HEAD_MAX = 2048 };

struct crowd_seen {
    atomic_int open, open_max, requests;
};

struct crowd {
    int hosts;
    pid_t pid;
    int go;                     /* a byte releases the requests, closing it ends the process */
    int ports[CROWD_HOSTS_MAX]; /* on 127.0.1.1, 127.0.1.2, … */
    struct {
        atomic_int held; /* requests that wait for a response */
        struct crowd_seen host[CROWD_HOSTS_MAX];
    } * seen;
};

static inline void crowd_host(int i, char out[16])
{
    snprintf(out, 16, "127.0.1.%d", i + 1);
}

/* ---- the child process ---- */

struct crowd_connection {
    int host;
    bool is_open, is_held;
    size_t n;
    char head[CROWD_HEAD_MAX];
};

struct crowd_run {
    struct crowd *crowd;
    int epoll_fd, listeners[CROWD_HOSTS_MAX];
    bool let_go;
    struct crowd_connection *at[CROWD_CONNECTIONS_MAX]; /* indexed by descriptor */
};

static inline void crowd_watch(struct crowd_run *r, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static inline void crowd_accept(struct crowd_run *r, int host)
{
    for (int fd; (fd = accept4(r->listeners[host], NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        if (fd >= CROWD_CONNECTIONS_MAX || !(r->at[fd] = calloc(1, sizeof *r->at[fd])))
            abort();
        r->at[fd]->host = host;
        r->at[fd]->is_open = true;
        r->crowd->seen->host[host].open++;
        crowd_watch(r, fd);
    }
}

static inline void crowd_answer(struct crowd_run *r, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    if (r->at[fd]->is_held)
        r->crowd->seen->held--;
    r->at[fd]->is_held = false;
    r->at[fd]->n = 0;
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
}

static inline void crowd_read(struct crowd_run *r, int fd)
{
    struct crowd_connection *c = r->at[fd];
    ssize_t n = recv(fd, c->head + c->n, sizeof c->head - c->n, 0);
    if (n <= 0) {
        if (c->is_held)
            r->crowd->seen->held--;
        r->crowd->seen->host[c->host].open--;
        free(c);
        r->at[fd] = NULL;
        close(fd);
        return;
    }
    c->n += (size_t)n;
    if (c->n < 4 || memcmp(c->head + c->n - 4, "\r\n\r\n", 4) != 0)
        return;
    r->crowd->seen->host[c->host].requests++;
    c->is_held = true;
    r->crowd->seen->held++;
    if (r->let_go)
        crowd_answer(r, fd);
}

static inline void crowd_let_go(struct crowd_run *r, int told)
{
    char c;
    if (read(told, &c, 1) != 1)
        _exit(0);
    r->let_go = true;
    for (int fd = 0; fd < CROWD_CONNECTIONS_MAX; fd++)
        if (r->at[fd] && r->at[fd]->is_held)
            crowd_answer(r, fd);
}

/* Called after all pending events were read: one connection may be closed before the next is opened, but be reported
 * later. */
static inline void crowd_note(struct crowd *c)
{
    for (int i = 0; i < c->hosts; i++)
        if (c->seen->host[i].open > c->seen->host[i].open_max)
            c->seen->host[i].open_max = c->seen->host[i].open;
}

static inline _Noreturn void crowd_serve(struct crowd_run *r, int told)
{
    r->epoll_fd = epoll_create1(0);
    crowd_watch(r, told);
    for (int i = 0; i < r->crowd->hosts; i++)
        crowd_watch(r, r->listeners[i]);
    for (;;) {
        struct epoll_event ev[256];
        int n = epoll_wait(r->epoll_fd, ev, 256, 0);
        if (n == 0) {
            crowd_note(r->crowd);
            n = epoll_wait(r->epoll_fd, ev, 256, -1);
        }
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd, host = 0;
            while (host < r->crowd->hosts && r->listeners[host] != fd)
                host++;
            if (fd == told)
                crowd_let_go(r, told);
            else if (host < r->crowd->hosts)
                crowd_accept(r, host);
            else
                crowd_read(r, fd);
        }
    }
}

/* ---- in the test's process ---- */

static inline bool crowd_listen(struct crowd *c, struct crowd_run *r, int i)
{
    char text[16];
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    crowd_host(i, text);
    inet_pton(AF_INET, text, &at.sin_addr);
    int fd = r->listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 1024) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    c->ports[i] = ntohs(at.sin_port);
    return ok;
}

static inline bool crowd_open(struct crowd *c, int hosts)
{
    struct crowd_run *r = calloc(1, sizeof *r);
    int ends[2];
    *c = (struct crowd){ .hosts = hosts };
    c->seen = mmap(NULL, sizeof *c->seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool ok = r && c->seen != MAP_FAILED && pipe(ends) == 0;
    for (int i = 0; ok && i < hosts; i++)
        ok = crowd_listen(c, r, i);
    if (!ok)
        return false;
    r->crowd = c;
    c->pid = fork();
    if (c->pid == 0) {
        close(ends[1]);
        crowd_serve(r, ends[0]);
    }
    close(ends[0]);
    c->go = ends[1];
    for (int i = 0; i < hosts; i++)
        close(r->listeners[i]);
    free(r);
    return c->pid > 0;
}

static inline void crowd_release(struct crowd *c)
{
    (void)!write(c->go, "", 1);
}

static inline void crowd_close(struct crowd *c)
{
    close(c->go);
    waitpid(c->pid, NULL, 0);
    munmap(c->seen, sizeof *c->seen);
}
