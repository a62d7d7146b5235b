#pragma once
/* port/store.h - where tasks are stored: the front door.
 *
 * Writes are operations (port/store/operation.h). Their contracts are in port/store/: tasks.h, claims.h, schedules.h,
 * dependencies.h, catalog.h, nodes.h, fleet.h, breakers.h, stats.h, retention.h, and audit.h, incidents.h and changes.h
 * for what operations leave behind. Each contract is a numbered list; tests cite a rule as "OP_CLAIM 12". Reads are in
 * port/store/reader.h.
 *
 * What holds for every operation:
 *  1. store_apply runs many operations as ONE transaction, in their order. When it returns ERR_OK, everything that
 *     succeeded is durable.
 *  2. Each operation has its own result (op->rc). One that fails changes nothing and does not affect its neighbours.
 *  3. If store_apply itself fails, nothing is known of the batch: ERR_UNAVAILABLE may also mean that the commit
 *     succeeded and its answer was lost. So every operation can be repeated: inserts carry ids made beforehand, settles
 *     are fenced, a claim is read back by its id (OP_CLAIMED).
 *  4. Arguments are borrowed until the operation is done. Results are in the operation's arena. An operation whose
 *     arena is too small fails with ERR_LIMIT and changes nothing.
 *  5. Operations see and change the rows of all tenants, unless they say otherwise. A column that is not named stays.
 *     cause and resolved_ms are kept of FAILED tasks only, resolution of FAILED and PAUSED ones.
 *  6. Field and sentence of an error are promised only where a rule names them.
 *  7. Texts are UTF-8 without NUL. Only output, error and last_error, which targets and programs write, may be any
 *     bytes; bytes that are no text come back as they were, or as U+FFFD.
 *  8. One thread calls store_apply at a time. Other nodes may write to the same store at the same time
 *     (store_is_shared).
 *
 * Every store passes tests/conformance/store/store_suite.c. The model (tests/model) is the reference: random sequences
 * of operations give equal answers on every store. */
#include <stdatomic.h>

#include "port/store/audit.h"
#include "port/store/breakers.h"
#include "port/store/catalog.h"
#include "port/store/changes.h"
#include "port/store/claims.h"
#include "port/store/dependencies.h"
#include "port/store/fleet.h"
#include "port/store/incidents.h"
#include "port/store/nodes.h"
#include "port/store/reader.h"
#include "port/store/retention.h"
#include "port/store/runs.h"
#include "port/store/schedules.h"
#include "port/store/stats.h"
#include "port/store/tasks.h"
#include "port/writer.h"

struct store {
    const struct store_ops *ops;
    const struct hit_wants *wants; /* NULL: no hits are written. Set before the first store_apply */
    struct change_list *changes;   /* NULL: nobody is told of changes (store_tell_changes) */
    _Atomic(struct reader *) kept; /* by store_keep_reader; NULL: none */
};

/* watch and what follows are NULL in a store that no other node writes to. */
struct store_ops {
    enum err (*apply)(struct store *, struct op *const *ops, size_t n, struct error *);
    enum err (*reader)(struct store *, struct reader **ret, struct error *);
    void (*free)(struct store *);
    void (*watch)(struct store *, struct store_watch *);
    void (*barrier_wait)(struct store *, struct store_barrier *);
    bool (*barrier_cancel)(struct store *, struct store_barrier *);
    void (*catalog_applied)(struct store *, uint64_t catalog_change);
    void (*notify_settled)(struct store *, const struct fenced_id *settled, size_t n);
    void (*broadcast)(struct store *, struct str line);
};

enum {
    STORE_BATCH_MAX = 4096,
    CLAIM_MAX = 8192,
    CLAIM_GATED_MAX = 1000,
    CLAIM_SIGHT_MS = 3600000,
    LIST_MAX = 1000,
    DEDUPE_KEY_MAX = 256,
    CATCH_UP_ALL_MAX = 10000,
    SHARE_KEY_MAX = 300,
    NODES_DEAD_SHOWN = 100,
    STORE_BROADCAST_MAX = 7800,   /* bytes of a line */
    WORKER_SILENT_MS = 10000,     /* a worker not seen for so long, while others were, counts as gone */
    WORKER_GONE_MS = 60000,       /* a worker not seen for so long counts as gone */
    NODE_KEPT_MS = 60 * 60 * 1000 /* a dead node stays listed for so long */
};

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e) must_use;
/* From now on, the listener is told of changes of tasks (port/store/changes.h). It lives longer than the store. Not
 * while store_apply runs. */
void store_tell_changes(struct store *s, const struct change_listener *l);
enum err store_reader(struct store *s, struct reader **ret, struct error *e) must_use;
/* In place of reader_free: the next store_reader gets it, for a reader takes long to open. rc: how its use ended. */
void store_keep_reader(struct store *s, struct reader *r, enum err rc);

/* Sends notices of other nodes' changes to w from now on, until the next call. NULL: nobody listens; when the call
 * returns, no notice is being delivered. A store that no other node writes to sends none. */
void store_watch(struct store *s, struct store_watch *w);
bool store_is_shared(const struct store *s); /* other nodes may write to it */

/* Catalog barrier: calls back when every other live node has applied all changes of the catalog and of API keys that
 * this store's store_apply has committed so far. It calls back at once where no other node writes, or none watches. The
 * last OP_HEARTBEAT says which nodes live. A stopped node never answers, so the caller sets the time limit and then
 * cancels. store_barrier_cancel returns false if the callback is running or has run. Any thread. */
void store_barrier_wait(struct store *s, struct store_barrier *barrier);
bool store_barrier_cancel(struct store *s, struct store_barrier *barrier);

/* This node has applied the changes up to this number (store_notice.catalog_change). Any thread. */
void store_catalog_applied(struct store *s, uint64_t catalog_change);

/* Tells the other nodes that these tasks, whose claims may be theirs, are settled. Any thread. Does not wait; may be
 * lost. */
void store_notify_settled(struct store *s, const struct fenced_id *settled, size_t n);
/* Sends a line of text to the other nodes (store_notice.broadcast): 1 to STORE_BROADCAST_MAX bytes of printable ASCII.
 * Any thread. Does not wait; may be lost. */
void store_broadcast(struct store *s, struct str line);
void store_free(struct store *s);
