#pragma once
/* tests/conformance/store/postgres/postgres_sessions.h - other sessions and other nodes on the database of a test. */
#include <pthread.h>
#include <time.h>

#include "store_world.h"

static char url[POSTGRES_URL];

static inline enum err open_here(const char *directory, struct store **ret, struct error *e)
{
    (void)directory;
    if (url[0])
        postgres_wipe(url);
    else
        postgres_make("sessions", url);
    return postgres_store_open(url, ret, e);
}

static const struct store_adapter here = { "postgres", open_here };

static inline void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* ---- an operation on a thread of its own ---- */

struct call {
    struct store *store;
    struct op *op;
    pthread_t thread;
    enum err rc;
    struct error e;
};

static inline void *run_call(void *context)
{
    struct call *c = context;
    c->rc = store_apply(c->store, &c->op, 1, &c->e);
    return NULL;
}

static inline void start(struct call *c, struct store *store, struct op *op)
{
    *c = (struct call){ .store = store, .op = op };
    if (!op->arena.max)
        arena_init(&op->arena, 1 << 26);
    assert_int_equal(pthread_create(&c->thread, NULL, run_call, c), 0);
}

/* Waits for the operation and returns its result. The caller releases its arena. */
static inline enum err finish(struct call *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    assert_ok(c->rc, &c->e);
    return c->op->rc;
}

static inline struct store *another_node(void)
{
    struct store *s;
    struct error e = { 0 };
    assert_ok(postgres_store_open(url, &s, &e), &e);
    return s;
}
