#include "platform/ssrf_guard.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>

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

/* This machine's own addresses are blocked, because local services often trust connections from them. */
static void guard_collect_own(struct guard *g)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) == 0)
        for (struct ifaddrs *i = all; i && g->policy.own_count < GUARD_OWN_MAX; i = i->ifa_next)
            if (i->ifa_addr && address_of_sockaddr(i->ifa_addr, &g->own[g->policy.own_count]))
                g->policy.own_count++;
    if (all)
        freeifaddrs(all);
    g->policy.own = g->own;
}

void guard_init(struct guard *g, const struct guard_setup *setup)
{
    *g = (struct guard){ .setup = *setup };
    guard_copy_allowed(g);
    guard_collect_own(g);
}

void guard_release(struct guard *g)
{
    free(g->allowed);
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
    return !address_blocked(&now, a, port);
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

bool guard_allows_name(const struct guard *g, const char *name, bool *ret_found)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    *ret_found = getaddrinfo(name, NULL, &hints, &all) == 0 && all;
    bool allowed = *ret_found;
    for (const struct addrinfo *i = all; i && allowed; i = i->ai_next)
        allowed = guard_allows(g, i->ai_addr);
    if (all)
        freeaddrinfo(all);
    return allowed;
}
