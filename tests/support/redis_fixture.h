#pragma once
/* tests/support/redis_fixture.h - handles to the Redis server in BELFRY_TEST_REDIS: see with-redis and
 * with-redis-tls. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "events/redis/events_redis.h"
#include "lease/redis/lease_redis.h"
#include "platform/clock_system.h"
#include "queue/redis/queue_redis.h"

enum { REDIS_URL = 512 };

static inline const char *redis_server(void)
{
    const char *url = getenv("BELFRY_TEST_REDIS");
    if (!url) {
        fprintf(stderr, "BELFRY_TEST_REDIS names no server: run this by tests/support/with-redis\n");
        exit(2);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return url;
}

/* The server's address, with a unique key prefix. */
static inline void redis_url(const char *prefix, char out[REDIS_URL])
{
    const char *server = redis_server();
    snprintf(out, REDIS_URL, "%s%cprefix=%s", server, strchr(server, '?') ? '&' : '?', prefix);
}

static inline struct queue *redis_queue(const char *url, const struct queue_names *names)
{
    struct queue *q = NULL;
    struct error e = { 0 };
    struct redis_setup setup = { .url = str_from(url), .clock = clock_system() };
    assert_ok(queue_redis_open(&setup, names, &q, &e), &e);
    return q;
}

static inline struct events *redis_events(const char *url)
{
    struct events *ev = NULL;
    struct error e = { 0 };
    struct redis_setup setup = { .url = str_from(url), .clock = clock_system() };
    assert_ok(events_redis_open(&setup, &ev, &e), &e);
    return ev;
}

static inline struct lease *redis_lease(const char *url)
{
    struct lease *l = NULL;
    struct error e = { 0 };
    struct redis_setup setup = { .url = str_from(url), .clock = clock_system() };
    assert_ok(lease_redis_open(&setup, &l, &e), &e);
    return l;
}
