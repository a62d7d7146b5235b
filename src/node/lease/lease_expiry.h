#pragma once
/* node/lease/lease_expiry.h - finds leases that are over and settles their tasks: lost, or cancelled if their users wanted them ended. */
#include "node/updater/settle_retry.h"

enum { LEASE_EXPIRY_ASK_MS = 1000, LEASE_EXPIRY_BATCH = 500 };

struct lease_expiry_setup {
    struct writer *writer;
    struct metrics *metrics;
    uint64_t seed;
    bool shared; /* other nodes give leases too: it is asked for ever */
    void (*settled)(void *context, const struct task *t, const struct event *e, const struct settlement *s);
    void (*unblocked)(void *context, uint64_t lanes);
    void (*batch_settled)(void *context);
    void *context;
};

struct lease_expiry;

struct lease_expiry *lease_expiry_new(const struct lease_expiry_setup *setup);
void lease_expiry_free(struct lease_expiry *l);                                   /* idle; NULL is fine */
int64_t lease_expiry_step(struct lease_expiry *l, struct moment now, bool leads); /* when to call again */
void lease_expiry_given(struct lease_expiry *l); /* a lease was given: there is one to look after */
void lease_expiry_stop(struct lease_expiry *l);
bool lease_expiry_is_idle(const struct lease_expiry *l);
