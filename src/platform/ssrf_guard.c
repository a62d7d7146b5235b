#include "platform/ssrf_guard.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

bool address_of_sockaddr(const struct sockaddr *sa, struct address *ret)
{
    if (sa->sa_family == AF_INET) {
        *ret = (struct address){ .is_v6 = false };
        memcpy(ret->b, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
        return true;
    }
    if (sa->sa_family == AF_INET6) {
        *ret = (struct address){ .is_v6 = true };
        memcpy(ret->b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
        return true;
    }
    return false;
}

static int guard_port(const struct sockaddr *sa)
{
    return ntohs(sa->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port
                                           : ((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

static const struct address_range loopback[] = {
    { .first = { { 127 }, false }, .bits = 8 },
    { .first = { { [15] = 1 }, true }, .bits = 128 },
};

static void guard_copy_allowed(struct guard *g)
{
    size_t n = g->setup.allowed_count;
    g->allowed = xcalloc(n + array_count(loopback), sizeof *g->allowed);
    for (size_t i = 0; i < n; i++)
        g->allowed[i] = g->setup.allowed[i];
    for (size_t i = 0; i < array_count(loopback); i++)
        g->allowed[n + i] = loopback[i];
    g->policy.allowed = g->allowed;
    g->policy.allowed_count = n;
}

/* ---- this machine's own addresses ---- */

/* They are blocked, because local services often trust connections from them. The kernel tells when they change. */
struct guard_own {
    pthread_mutex_t lock;
    int changes; /* a netlink socket; -1: none, so they are read each time */
    struct address *v;
    size_t n, cap;
};

static int guard_own_watch(void)
{
    struct sockaddr_nl all = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&all, sizeof all)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Keeps the old ones if they cannot be read. */
static void guard_own_read(struct guard_own *own)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all))
        return;
    own->n = 0;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (own->n == own->cap) {
            own->cap = own->cap * 2 + 16;
            own->v = xrealloc(own->v, own->cap * sizeof *own->v);
        }
        if (i->ifa_addr && address_of_sockaddr(i->ifa_addr, &own->v[own->n]))
            own->n++;
    }
    freeifaddrs(all);
}

/* Takes all notices. What they say does not matter, and neither does one that was lost (ENOBUFS). */
static bool guard_own_changed(const struct guard_own *own)
{
    char notice[4096];
    bool changed = own->changes < 0;
    while (own->changes >= 0 && (recv(own->changes, notice, sizeof notice, 0) >= 0 || errno == ENOBUFS))
        changed = true;
    return changed;
}

static struct guard_own *guard_own_new(void)
{
    struct guard_own *own = xnew(*own);
    pthread_mutex_init(&own->lock, NULL);
    own->changes = guard_own_watch();
    guard_own_read(own);
    return own;
}

static void guard_own_free(struct guard_own *own)
{
    if (!own)
        return;
    if (own->changes >= 0)
        close(own->changes);
    pthread_mutex_destroy(&own->lock);
    free(own->v);
    free(own);
}

/* ---- the guard ---- */

void guard_init(struct guard *g, const struct guard_setup *setup)
{
    *g = (struct guard){ .setup = *setup };
    guard_copy_allowed(g);
    g->own = guard_own_new();
}

void guard_release(struct guard *g)
{
    free(g->allowed);
    guard_own_free(g->own);
    *g = (struct guard){ 0 };
}

static bool guard_loopback_holds(const struct guard *g)
{
    return g->setup.allow_loopback && (!g->setup.loopback_holds || g->setup.loopback_holds(g->setup.context));
}

bool guard_allows_address(const struct guard *g, struct address a, int port)
{
    struct address_policy now = g->policy;
    now.allowed_count += guard_loopback_holds(g) ? array_count(loopback) : 0;
    pthread_mutex_lock(&g->own->lock);
    if (guard_own_changed(g->own))
        guard_own_read(g->own);
    now.own = g->own->v;
    now.own_count = g->own->n;
    bool blocked = address_blocked(&now, a, port);
    pthread_mutex_unlock(&g->own->lock);
    return !blocked;
}

const char *guard_refusal(const struct guard *g, struct address a)
{
    bool is_loopback = false;
    for (size_t i = 0; i < array_count(loopback); i++)
        is_loopback = is_loopback || address_in(&loopback[i], a);
    return is_loopback && g->setup.allow_loopback && !guard_loopback_holds(g) ? GUARD_REFUSED_NOW : GUARD_REFUSED;
}

bool guard_allows(const struct guard *g, const struct sockaddr *to)
{
    struct address a;
    return address_of_sockaddr(to, &a) && guard_allows_address(g, a, guard_port(to));
}

bool guard_allows_peer(const struct guard *g, int fd)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t n = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && guard_allows(g, (const struct sockaddr *)&peer);
}

bool guard_allows_name(const struct guard *g, const char *name)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    bool allowed = getaddrinfo(name, NULL, &hints, &all) == 0 && all;
    for (const struct addrinfo *i = all; i && allowed; i = i->ai_next)
        allowed = guard_allows(g, i->ai_addr);
    if (all)
        freeaddrinfo(all);
    return allowed;
}
