#pragma once
/* role/recovery.h - settles what earlier lives of this process had claimed when they died.
 *
 * What may have fired is lost, what cannot have is returned. It also finds the poison task (DESIGN §7): a suspect is failed if twice
 * in a row nothing else was running when its process died. Once may be chance: many things kill processes. Whether that was so is known in the end, and must still be known if we die before: so
 * whatever can not have been alone is not settled down to one. Nothing is claimed until recovery is over. */
#include "base/metrics.h"
#include "port/store.h"

struct recovery_setup {
    struct writer *writer;
    struct metrics *metrics;
    struct uuid node; /* not this one's claims */
    uint64_t seed;
    void (*nudge)(void *context, const struct task *t); /* as it may be now */
    void (*woke)(void *context, uint64_t woke);
    void *context;
};

struct recovery;

struct recovery *recovery_new(const struct recovery_setup *setup, int64_t now_ms);
void recovery_free(struct recovery *r); /* nothing is in flight; NULL is fine */

int64_t recovery_step(struct recovery *r, int64_t now_ms); /* when it wants to be called again */
void recovery_clock_set_back(struct recovery *r, int64_t now_ms);
void recovery_stop(struct recovery *r); /* ask for no more */
bool recovery_is_over(const struct recovery *r);
bool recovery_found_suspects(const struct recovery *r); /* that will run again */
bool recovery_in_flight(const struct recovery *r);
