#pragma once
/* node/lease/lease_expiry.h - finds leases that are over and settles their tasks: lost, or cancelled if their users wanted them ended. */
#include "node/updater/settle_retry.h"

enum { LEASE_ENDS_ASK_MS = 1000, LEASE_ENDS_BATCH = 500 };

struct lease_ends_setup {
    struct writer *writer;
    struct metrics *metrics;
    uint64_t seed;
    bool shared; /* other nodes give leases too: it is asked for ever */
    void (*settled)(void *context, const struct task *t, const struct event *e, const struct settlement *s);
    void (*woke)(void *context, uint64_t lanes);
    void (*batch_settled)(void *context);
    void *context;
};

struct lease_ends;

struct lease_ends *lease_ends_new(const struct lease_ends_setup *setup);
void lease_ends_free(struct lease_ends *l);                                /* idle; NULL is fine */
int64_t lease_ends_step(struct lease_ends *l, int64_t now_ms, bool leads); /* when to call again */
void lease_ends_given(struct lease_ends *l); /* a lease was given: there is one to look after */
void lease_ends_stop(struct lease_ends *l);
bool lease_ends_is_idle(const struct lease_ends *l);
