#pragma once
/* server/reencryption.h - encrypts the secrets of tasks again, after another key came to the front of the key file, so
 * that an older key can leave the file (port/secrets.h).
 *
 * One node does it for all: the leader, or the only one. While the store knows other keys than the first one of the
 * file, a thread walks through all tasks in batches, and pauses after each for as long as the batch took. If a walk
 * finds no secret of a key, the store drops that key. A walk that changed rows is followed by another one 10 s later: in
 * between, a request that had read a task before may have written its older secrets back. If the store knows one key
 * only, no task is read.
 *
 * The other nodes look, too, whether the store knows the key that they encrypt with, and note it again if not: so a node
 * that has not read the new file yet keeps the older key known. */
#include "base/json/jsonw.h"
#include "port/clock.h"
#include "port/secrets.h"
#include "port/store.h"

struct reencryption_setup {
    struct store *store;
    struct writer *writer;
    struct clock *clock;
    const struct secrets *secrets;
    /* Called on the thread of the re-encryption: whether this node does it; changes of what the store knows. */
    bool (*is_mine)(void *context);
    enum err (*note)(void *context, const struct key_print *k, struct error *e);
    enum err (*drop)(void *context, const struct key_print *k, struct error *e);
    void *context;
};

struct reencryption;

enum err reencryption_new(const struct reencryption_setup *setup, struct reencryption **ret, struct error *e) must_use;
void reencryption_free(struct reencryption *x); /* before the writer ends; NULL is fine */

/* Members of an object: the key that encrypts, the older ones that the store knows. Any thread. */
void reencryption_write_status(struct reencryption *x, struct jw *w);
