#pragma once
/* port/store.h - where tasks are: the hot path.
 *
 * Writes are operations. store_apply runs many of them as ONE transaction, in their order; when it returns ERR_OK all that
 * succeeded is durable. Each operation has its own result (op->rc): one that fails leaves no trace and does not touch its
 * neighbours. When store_apply itself fails, nothing of the batch is known to have happened: ERR_UNAVAILABLE may also mean
 * that the commit went through and its answer was lost. So every operation may be repeated: inserts carry ids made
 * beforehand, settles are fenced, a claim is read back by its id.
 *
 * Every adapter passes tests/conformance/store/store_suite.c, and the memory adapter is the model: random sequences of operations
 * give equal answers everywhere. Other nodes may write to the same store at the same time (store_is_shared). One thread calls store_apply at a time; readers have connections of their own, one a
 * thread, and see every transaction that was committed before the call, but where the caller said that it may lag. Arguments are borrowed until the operation is done;
 * results live in the operation's arena; an operation whose arena is too small fails with ERR_LIMIT and, like any other that
 * fails, leaves no trace. Operations see and change the rows of all tenants, but where they say otherwise; where a column is
 * not named below, it stays; cause, resolved_ms and resolution are kept of FAILED tasks only. Field and sentence of an error are promised only where they are named.
 * Texts are UTF-8 without NUL. Only what a target or a program said (output, error and last_error) may be any bytes: what is no text in
 * it comes back as it was, or as U+FFFD. */
#include "base/list.h"
#include "core/sharing/partition.h"
#include "core/sharing/slot.h"
#include "core/task/settle.h"
#include "core/task/spawn.h"
#include "core/task/task.h"
#include "port/catalog.h"
#include "port/op.h"
#include "port/store_fleet.h"

/* OP_INSERT: new tasks, all or none. A task whose id exists already, with the same created_ms, is the same insert repeated
 * and counts as done, whatever became of the task since; with another, ERR_CONFLICT, field "id". The record of an
 * idempotency key is looked at first. A new task waits for nothing yet: its waits_for is empty.
 * A task with a dedupe key takes it until its created_ms + dedupe_window_ms. If another task of the tenant holds that key still
 * (its time is not over at the new one's created_ms), ERR_CONFLICT, field "dedupe_key"; so also for two of one operation. From the
 * holder that `takes_over` names it takes the key all the same; were that a mere permission, two that come at once would both take it.
 * A task that is deleted or gone holds no key; an OCCURRENCE takes none, its task has it; an insert repeated takes nothing anew. Who
 * inserts asks reader_dedupe first and leaves out what is there; the conflict is for what came in between.
 * With a limit all tasks are of one tenant. If with them it had more than max_pending tasks that are not final, or with a RECURRING one
 * among them more than max_recurring of those, deleted ones apart, ERR_LIMIT, field of that name; what is there already does not
 * count anew.
 * Calendars: a RECURRING task that is not final goes by a calendar that is in its tenant's catalog: an insert or put that says
 * otherwise is ERR_INVALID, field "calendar". */
struct op_insert {
    struct op op;
    const struct task *tasks;
    size_t count;
    const struct uuid *takes_over;         /* NULL, or for each task from whom it may take its key; nil: from nobody */
    int64_t max_pending, max_recurring;    /* of the tenant; 0: no limit */
    const struct idempotency *idempotency; /* NULL: none */
};

/* OP_CLAIM: due tasks of the lanes asked for, SCHEDULED → RUNNING, fence + 1. From each lane at most its quota, in the order
 * of due_ms then id; from all at most max, and it stops behind max_bytes. Only due_ms <= until_ms; AT_MOST_ONCE only
 * due_ms <= now_ms. Never RECURRING, WORKER or WORKFLOW tasks, but for a lease. A row of the claim itself (id, node) is kept while tasks
 * hold it. A claim id that exists already is an error of the caller: ERR_CONFLICT.
 * Lanes are served in the order they are given, none of them twice, and ret has that order too. A task's bytes are those of
 * its payload and its target_config; the task with which their sum reaches max_bytes is the last one taken, so a task of any
 * size is. What was left for later, by a quota or otherwise, counts in ret_next_due_ms; what no claim would ever take does
 * not; and what is due later than CLAIM_SIGHT_MS from now may count as if it were due then, also in a lane that has none such: whoever is
 * told that time or a later one looks again then. A node that is marked dead (OP_NODE_DEAD) claims nothing: ERR_CONFLICT, field "node".
 *
 * With `own`, tasks of other partitions are left to others until they are help_after_ms overdue: they are taken only if
 * due_ms + help_after_ms <= now_ms, and count in ret_next_due_ms as if that sum were their due_ms. Of suspects the same holds.
 *
 * Suspects (core/task/task.h) stand apart from their lanes, in lanes of their own: they count neither in a quota nor in a lane's
 * ret_next_due_ms. Of all lanes given together, whatever their quotas, at most max_suspects are taken after all others, in the
 * order of due_ms then id, within max and max_bytes.
 *
 * Slots (core/sharing/slot.h). A task that needs slots is taken if it holds or can take each of them, and takes them with the claim; a slot
 * is free if fewer than its limit hold that key and nobody in its line stands before the task. One that finds no slot is passed
 * over while due_ms > now_ms, and counts for ret_next_due_ms; so is one whose slot another node is seeing to at this moment, due or not,
 * and that counts as a conflict. From its due time on it is dealt with here, as slot_decide says, and
 * does not count in a quota or in max; its bytes do in max_bytes:
 *   SLOT_WAIT     BLOCKED, waits_for the key; keeps what slots it has taken before that one, and no others
 *   SLOT_SKIP     SKIPPED; last_error "skipped: the run of <RFC 3339> is not over", with the earliest scheduled_ms of a holder. If its
 *                 own runs_count is 1, that becomes 0, and one moves from its parent's runs_count (not below 0) to skipped_count
 *   SLOT_REPLACE  BLOCKED as well; of the holders those that are not RUNNING become CANCELLED, last_error "replaced by the run of
 *                 <RFC 3339>", which gives their slot away at once; those that are RUNNING, by this claim too, are in ret_replaced, for
 *                 the caller to abort. Others that wait for the key become CANCELLED too
 * updated_ms is now_ms, of a final one completed_ms as well; those that are BLOCKED, SKIPPED or CANCELLED when all is done are in
 * ret_gated, in no order. One claim deals with CLAIM_GATED_MAX tasks, then it stops; it leaves a lane behind when it has passed over as
 * many in it: a long line stalls nobody.
 *
 * A slot goes to who waits longest: whenever a holder lets go (a settle, a put, a claim that cancels; slot_outlives says which states
 * let go of which) or the first of a line leaves it, the first of the line that fits in, which is the BLOCKED task of that key with the
 * earliest due_ms, then id, holds it in the same transaction and is SCHEDULED again with its own due_ms, and so on while the next one
 * fits in; ret_unblocked_lanes has the bit of its lane (lane_bit), 0: there was none. It is claimed like any other, and its slot is there; by the very claim that gave it the
 * slot, if its turn is still to come. */
struct lane_quota {
    struct lane lane;
    size_t max;
    size_t ret_taken;
    int64_t ret_next_due_ms; /* the earliest due_ms left in this lane; INT64_MAX: none */
};

struct replaced {
    struct uuid id;
    int64_t fence;
    int64_t by_scheduled_ms; /* of the run that replaces it */
};

/* A claim by somebody outside (POST /v1/leases): it takes WORKER tasks and no others, whoever's partitions they are in, only what is
 * due at now_ms (until_ms and own are minded by store_apply). Each of them is under a lease from then on: until_ms, worker, and no progress yet; and the claim is handed (OP_HANDOFF)
 * from the start: what becomes of the node does not matter to it. */
struct lease_terms {
    int64_t until_ms;
    struct str worker; /* who has it, for those who look */
};

struct op_claim {
    struct op op;
    struct uuid claim, node;
    const struct lease_terms *lease; /* NULL: the node itself sees to the tasks */
    struct lane_quota *lanes;
    size_t lane_count;
    int64_t now_ms, until_ms;
    size_t max, max_bytes, max_suspects;
    const struct partitions *own; /* NULL: all */
    int64_t help_after_ms;        /* with own */
    struct tasks ret;             /* as they are after the claim, suspects last */
    struct tasks ret_gated;       /* what found no slot */
    struct replaced *ret_replaced;
    size_t ret_replaced_count;
    int64_t ret_next_due_ms;     /* the earliest due_ms left in these lanes; INT64_MAX: none */
    int64_t ret_next_suspect_ms; /* the same for suspects of these lanes */
    uint64_t ret_unblocked_lanes;
    size_t ret_conflicts; /* tasks that it would have taken if others were not taking them at that moment */
};

/* OP_CLAIMED: what a claim holds now, in no order; of an unknown one, nothing. For a node unsure whether its claim was
 * committed. */
struct op_claimed {
    struct op op;
    struct uuid claim;
    struct tasks ret;
};

/* OP_ORPHANS: RUNNING tasks of claims by nodes that do not live: marked dead (OP_NODE_DEAD), or not known at all; not of this node's own, in
 * any case, and not of claims that were handed (OP_HANDOFF). At most max, in no order. A node that has never beaten is not known. */
struct op_orphans {
    struct op op;
    struct uuid not_node;
    size_t max;
    struct tasks ret;
};

/* OP_SETTLE: verdicts on claimed tasks, each guarded by its fence: applied only if the task is RUNNING under exactly that
 * fence, else `stale`. The execution row is written with it; one of the same task and id is there already if this is a repeat.
 * An OCCURRENCE's parent gets last_run_ms. With `replace`, a recalled task becomes that row instead (state, fields and all;
 * version and fence as in the row).
 * Applied means: state, attempts, losses and last_error as in the verdict, due_ms too if it says SCHEDULED; no claim any more;
 * updated_ms is now_ms; with an execution, started_ms is its started_us in milliseconds; completed_ms is now_ms if the new
 * state is final, else 0. last_run_ms is the execution's started_us in milliseconds, unless the parent has a later one; without an
 * execution it stays. Of a FAILED one `cause` is the verdict's, else it becomes empty. A verdict EXPIRED or SKIPPED of an OCCURRENCE
 * whose runs_count is 1 makes that 0 and moves one from its parent's runs_count (not below 0) to skipped_count. A `replace` has the
 * verdict's execution written with it all the same. A stale settlement, a repeated one among them, changes nothing at all; it does not
 * fail the operation.
 * With `idempotency` there is exactly one settlement. The record of its key is looked at first, whatever the fence says, and is
 * kept if the settlement is applied: a stale one keeps none. So one that was applied and is repeated fails by its key. */
struct settlement {
    struct uuid id;
    int64_t fence;
    struct uuid parent; /* nil: none */
    struct verdict verdict;
    const struct task *replace; /* NULL: the verdict decides */
    bool stale;                 /* result */
};

struct op_settle {
    struct op op;
    struct settlement *v;
    size_t n;
    int64_t now_ms;
    const struct idempotency *idempotency; /* NULL: none */
    uint64_t ret_unblocked_lanes; /* somebody who waited for a slot is SCHEDULED again, and due: see OP_CLAIM */
};

/* OP_RECURRING: SCHEDULED recurring tasks with cursor_ms < until_ms, earliest first (then by id), at most max. Only those behind
 * `after` in that order, whether there is such a task or not: a page begins where the one before it ended, and with a nil id at a
 * time. What stands before it counts nowhere. With `own`, those of other partitions are given only if cursor_ms < help_until_ms, and
 * count in ret_next_ms as if their cursor were later by until_ms - help_until_ms; their order stays. */
struct op_recurring {
    struct op op;
    int64_t after_cursor_ms; /* with the next; both 0: from the earliest */
    struct uuid after_id;
    int64_t until_ms;
    size_t max;
    const struct partitions *own; /* NULL: all */
    int64_t help_until_ms;        /* with own; <= until_ms */
    struct tasks ret;
    int64_t ret_next_ms; /* the earliest cursor of a SCHEDULED one behind `after` that is not in ret; INT64_MAX: none */
};

/* OP_SPAWN: puts occurrences in and moves the cursor, if the task is SCHEDULED with that version and cursor still; else
 * ERR_CONFLICT and nothing (also if there is no such task). An occurrence that exists already stays as it is. The plan's runs and
 * skipped are added to the task's counts; one that has ended becomes COMPLETED, with updated_ms and completed_ms now_ms. */
struct op_spawn {
    struct op op;
    struct uuid id;
    int64_t version, cursor_ms; /* expected */
    const struct spawn_plan *plan;
    int64_t now_ms;
};

/* OP_CATCH_UP: takes back what was spawned ahead and missed, because nobody was running when it was due: the next spawn decides by
 * the task's catch_up_mode and window, as over what was never spawned. For SCHEDULED recurring tasks: a task's occurrences are looked
 * at from the latest (by id) back to the first that is SPAWNED_FOR_GOOD. Those of them that are SPAWNED_AHEAD are deleted, from the
 * earliest on that spawned_was_missed (core/task/spawn.h), if there is one, and as many are taken off the task's runs_count (not below
 * 0). The cursor becomes the moment of the earliest (scheduled_ms and the task's schedule_spread), unless it stands before that. So it
 * never goes back over an occurrence that stays. Done again, it finds nothing. What is deleted lets go of its slots, which go to who
 * waits for them; who that is, is not told: the caller looks at all lanes. Of a CATCH_UP_ALL task more than CATCH_UP_ALL_MAX are not
 * looked at: it keeps them all.
 * At most max recurring tasks are looked at: those behind `after` that have occurrences which wait (SCHEDULED, BLOCKED or PAUSED), in
 * the order of their ids. */
struct op_catch_up {
    struct op op;
    int64_t before_ms;
    struct uuid after; /* nil: from the first on */
    size_t max;
    size_t ret_withdrawn;
    struct uuid ret_after; /* where to go on; nil: all were looked at */
};

/* OP_PUT: a user's change. Replaces the row by `task` if version, fence and state are still the expected ones, and of a
 * RECURRING task the cursor, which moves with its counts; else ERR_CONFLICT (field "version" if the version differs, else
 * "state"); ERR_NOT_FOUND if there is none or it was deleted.
 * With withdraw, for a RECURRING task: its OCCURRENCEs that are SCHEDULED, BLOCKED or PAUSED and never fired (no attempts, no
 * losses, no started_ms: what is retried by hand has fired) are deleted, and the cursor becomes the earliest moment among them
 * (scheduled_ms and task's schedule_spread) if that is earlier than task's cursor and not before withdraw_from_ms. That is: those
 * before withdraw_from_ms are deleted and have no say in where the cursor goes.
 * What was withdrawn has not run: its runs_count is taken off the task's (not below 0). One whose runs_count is 0 was asked for
 * by hand and has no say in where the cursor goes. Of last_run_ms the later one stays: it belongs to who settles.
 * The record of an idempotency key is looked at first, then whether there is such a task of task's tenant, then the version,
 * then state and fence. The row becomes `task` as it is, claim included, but for the cursor and what is said above. `also` comes in
 * last, so it is never withdrawn, and as OP_INSERT would put it in: ERR_CONFLICT, field "id", fails the whole.
 * Of slots it keeps those that it still needs and that outlive its new state (slot_is_kept); what was withdrawn or deleted lets go of
 * all. Then it is tidied (slot_tidy): who waits for a slot that it needs no more is SCHEDULED. Lines are looked at when all is done. The
 * same holds for a `replace` of OP_SETTLE. */
struct op_put {
    struct op op;
    const struct task *task;
    int64_t version, fence; /* expected, like the next two */
    enum task_state state;
    int64_t cursor_ms; /* of a RECURRING task */
    bool withdraw;
    int64_t withdraw_from_ms;
    const struct task
        *also; /* NULL, or one more task to insert in the same transaction (run-now of a recurring task) */
    const struct idempotency *idempotency;
    int64_t ret_cursor_ms; /* RECURRING: the cursor it has now */
    size_t ret_withdrawn;
    uint64_t ret_unblocked_lanes; /* as of OP_SETTLE: what was withdrawn or changed here let go of a slot */
};

/* API keys: stored hashed, looked up by id (SECURITY.md). OP_KEY_PUT replaces one of the same id; whether a key has expired is
 * for its reader to say. */
struct api_key {
    struct str id; /* the public part */
    int32_t tenant;
    uint8_t hash[32];
    struct str name, scopes;        /* scopes: words separated by blanks */
    int64_t created_ms, expires_ms; /* 0: never */
};

struct op_key_put {
    struct op op;
    const struct api_key *key;
    bool remove;                           /* the key of that id and tenant; ERR_NOT_FOUND if there is none */
    const struct idempotency *idempotency; /* its record is looked at first */
};

/* OP_CATALOG: changes to the catalog, all or none, in their order. Each names the version it expects: 0, there must be none yet;
 * -1, whatever is there. A version that differs is ERR_CONFLICT, field "version"; an entry that is expected, or to be removed, and not
 * there is ERR_NOT_FOUND. What is put gets the next version, updated_ms now_ms, and created_ms now_ms if it is new; tenant, kind, name
 * and doc are the change's. Once removed, an entry that comes again begins at version 1; ret_version of a removal is 0. A doc of more than
 * CATALOG_DOC_MAX bytes is ERR_LIMIT, field "doc". The record of an idempotency key is looked at first.
 * A CALENDAR that a RECURRING task of its tenant goes by, one that is neither final nor deleted, is not removed: ERR_CONFLICT, field
 * "calendar". */
struct catalog_change {
    struct catalog_entry entry;
    int64_t version; /* expected */
    bool remove;
    int64_t ret_version, ret_created_ms;
};

struct op_catalog {
    struct op op;
    struct catalog_change *v;
    size_t n;
    int64_t now_ms;
    const struct idempotency *idempotency;
};

/* For adapters: whether every doc is small enough. */
enum err catalog_docs_fit(const struct op_catalog *op, struct error *e) must_use;

/* For adapters too, so that all say the same of limits and calendars. */
bool task_needs_calendar(const struct task *t); /* RECURRING, neither final nor deleted, and goes by one */
enum err limit_reached(const char *field, int64_t limit, struct error *e);
enum err calendar_missing(struct str name, struct error *e);
enum err calendar_used(struct str name, struct error *e);

/* Partitions, for adapters: whether a task is for who asks at this time, and as when it counts if it was left. Of a task of its own,
 * and without `own`, that is its due_ms or cursor_ms. */
bool claim_is_for(const struct op_claim *op, struct uuid id, int64_t due_ms);
int64_t claim_counts_as(const struct op_claim *op, struct uuid id, int64_t due_ms);
bool recurring_gives(const struct op_recurring *op, struct uuid id, int64_t cursor_ms);
int64_t recurring_counts_as(const struct op_recurring *op, struct uuid id, int64_t cursor_ms);

enum err node_is_dead(struct error *e);    /* OP_CLAIM */
enum err recall_too_late(struct error *e); /* OP_RECALL */

/* OP_LEASE: takes or renews a named lease until now + ttl if it is free, expired (from that moment on) or already held by
 * holder; else ret_held is false, and it stays whose it is. */
struct op_lease {
    struct op op;
    struct str name;
    struct uuid holder;
    int64_t now_ms, ttl_ms;
    bool ret_held;
};

/* OP_PURGE: one small batch of upkeep: what is older than its limit goes, at most max of all together; which of them first is not
 * said. Idempotency records by created_ms; final tasks, deleted ones too, by completed_ms: FAILED ones that are not resolved by a limit
 * of their own; executions by completed_us (where they lie in months, once all of their month is as old); dedupe keys whose time was over before now_ms; catalog entries of kind JOB by updated_ms, if
 * their doc says {"state": …} other than "RUNNING"; dead nodes that hold no claim and died before now_ms - NODE_KEPT_MS; wishes that are
 * over; workers that were last seen before their limit; shares that nobody has asked for since then, with no place taken and a bucket that is full: what is begun anew is the same. A
 * limit of 0 forgets none of its kind. Gives a little of the freed space back to
 * the file system with it, where that is the adapter's to do. */
struct op_purge {
    struct op op;
    int64_t now_ms;
    int64_t idempotency_before_ms, tasks_before_ms, dlq_before_ms, executions_before_ms, jobs_before_ms;
    int64_t workers_before_ms; /* workers by seen_ms */
    size_t max;
    size_t ret_forgotten;
    bool ret_more; /* worth asking again soon: there may be more to forget, or to give back */
};

/* ---- nodes (DESIGN §7) ---- */

/* A process that claims tasks. It lives while its beats rise: whoever has seen them unchanged for long enough, and beat itself all the
 * time, may bury it. */
struct node_row {
    struct uuid id;
    struct str name, version; /* host and process; of the program */
    int64_t beats;            /* how many so far; the first is 1 */
    int64_t joined_ms;
    bool dead;
    int64_t dead_ms; /* since when it is; 0: it lives */
    struct str doc;  /* JSON for those who look at the cluster: lag, running, clock offset …; see http/nodes */
};

struct node_rows {
    struct node_row *v;
    size_t n;
};

/* OP_HEARTBEAT: this node lives: beats + 1, name, version and doc as given; the first one puts it in, with joined_ms now_ms. If it is
 * marked dead nothing changes but ret_dead, which says so: what it held is others' now, and it joins again under a new id.
 * `alone`: whoever else is there is dead (a process that owns its data directory knows that), as if buried. `leave`: it goes, and holds
 * nothing but what it has handed: its row and places are deleted, and it is not put in. ret has all nodes that are not dead, by id, this one among them unless
 * it left, and behind them at most NODES_DEAD_SHOWN dead ones, the latest joined_ms first, then by id. ret_store_us is the store's own clock at that moment, in microseconds since 1970; 0: it has none but the caller's.
 * ret_recall_requested: tasks that this node holds are wished back (OP_RECALL_LIST). ret_held_by_dead: OP_ORPHANS would find something. */
struct op_heartbeat {
    struct op op;
    struct node_row node; /* id, name, version, doc */
    int64_t now_ms;
    bool alone, leave;
    struct node_rows ret;
    bool ret_dead, ret_recall_requested, ret_held_by_dead;
    int64_t
        ret_worker_slots; /* of all workers of a fleet that were seen within WORKER_SILENT_MS and have not left, together */
    int64_t ret_store_us;
};

/* OP_NODE_DEAD: marks a node dead, dead_ms now_ms, if its beats are still those the caller saw, and lets go of its places; else ret_buried is
 * false, also of one that is dead already or unknown, and of one that is just being heard of: it is worth asking again. What it had
 * claimed is found by OP_ORPHANS from then on; nothing it claims later is. */
struct op_node_dead {
    struct op op;
    struct uuid node;
    int64_t beats, now_ms;
    bool ret_buried;
};

/* OP_LIMIT_TAKE: limits that hold for all nodes together (R3.7). Each is a row by its key; only what is limited has one. Of a rate, a node
 * takes tokens out of one bucket, which fills by `rate` a second up to `burst` (core/sharing/bucket.h) and begins full; what it did not use it
 * gives back. Of a concurrency, a node holds places: `want_places` is how many it wants from now on, and it gets at least what it held
 * before if it wants that many, and never so many that all nodes together hold more than `concurrency`. A limit that became smaller takes
 * from nobody what they hold: nobody gets more until it fits. What is given back is there before anything is taken. Without a rate a
 * bucket stays as it is, without a concurrency the node's places are given up. A node that is dead or unknown gets nothing and changes
 * nothing.
 * Which tasks a limit is about, its key says (share_subject). What runs of them without its node counts as places that are taken: what
 * is leased (struct lease_terms), and what nodes that do not live have handed (OP_HANDOFF), up to the places that they held. now_ms is the store's time (ret_store_us), where it has one: clocks that differ by more than a second would bring tokens. */
struct share {
    struct str key; /* what is limited: at most SHARE_KEY_MAX bytes */
    double rate;    /* tokens a second; 0: no bucket */
    int64_t burst;  /* >= 1 with a rate */
    int64_t want_tokens, give_back_tokens;
    int64_t concurrency; /* 0: no limit, and no places */
    int64_t want_places;
    int64_t ret_tokens, ret_places;
    int64_t
        ret_next_ms; /* if ret_tokens is less than wanted, when there will be one; INT64_MAX: never, for this node. Else now_ms */
};

/* "q:<tenant>:<queue>" is about the tasks of a queue, "t:<tenant>" about those of a tenant, any other key about none. */
struct share_subject {
    int32_t tenant;   /* 0: none */
    struct str queue; /* empty: any */
};
struct share_subject share_subject(struct str key);
bool share_is_about(const struct share_subject *subject, struct lane lane);

struct op_limit_take {
    struct op op;
    struct uuid node;
    struct share *v; /* no key twice */
    size_t n;
    int64_t now_ms;
};

/* OP_RECALL: asks whoever holds a RUNNING task to give it back, or to abort it if it has fired (abort). Kept until the task leaves that
 * claim: it is over once the task is not RUNNING under that fence. ret_owner is who holds it. A task that is not RUNNING under that
 * fence, or that no claim holds: ERR_CONFLICT, field "fence". Wished again it stays one wish, which aborts if either does and says by
 * what it is replaced if either does, as the later says it. Whoever has a leased task hears of it when he keeps it (OP_LEASE_RENEW), and its
 * node does not. */
struct op_recall {
    struct op op;
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* of the run that replaces it; 0: it is not replaced */
    int64_t now_ms;
    struct uuid ret_owner;
};

/* OP_RECALL_LIST: what is wished back of a node, at most max, in no order. Those of it that are over are deleted on the way. */
struct recall_request {
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* as in struct op_recall */
};

struct op_recall_list {
    struct op op;
    struct uuid node;
    size_t max;
    struct recall_request *ret;
    size_t ret_count;
};

/* ---- reading ---- */

/* Filters that are left at zero do not filter; several are joined by "and". Newest first (by id, falling). Deleted tasks are
 * found by nothing here: neither got, nor listed, nor counted. */
struct task_filter {
    int32_t tenant;
    unsigned states;         /* bit s: state s wanted; 0: any */
    bool by_kind, recurring; /* by_kind: only RECURRING (recurring), or only ONE_TIME */
    struct str name;         /* whole, or a prefix when it ends in '*' */
    struct str queue, task_type;
    struct str calendar;        /* RECURRING ones that go by it */
    struct str cause;           /* of FAILED ones */
    bool by_resolved, resolved; /* by_resolved: only FAILED ones that are resolved, or only those that are not */
    struct str waits_for;       /* those that wait for this slot */
    int64_t due_before_ms, due_after_ms; /* after <= due_ms < before; 0: no bound */
    struct uuid parent;                  /* occurrences of a recurring task; nil: none are listed, unless */
    bool occurrences;                    /* those of all recurring tasks are, next to the other tasks */
    struct uuid before;                  /* only ids below it; nil: from the newest on */
    size_t limit, offset;                /* for a list only: reader_count counts all pages together */
    bool may_lag;                        /* for a person: it need not show what was committed a moment ago */
};

struct task_page {
    struct tasks tasks;
    bool more;
    struct uuid next_before; /* if more: the page's last id */
};

/* Newest first, by id, falling. */
struct execution_filter {
    int32_t tenant;
    struct uuid task;  /* one-time or recurring; never nil */
    unsigned statuses; /* bit s; 0: any */
    struct uuid before;
    size_t limit;
    bool may_lag; /* as of tasks */
};

struct execution_page {
    struct executions executions;
    bool more;
    struct uuid next_before;
};

/* Dead letters, grouped: FAILED tasks that are not resolved, deleted ones apart. */
struct cause_group {
    struct str cause;
    int64_t count;                           /* up to 10,000 where counting is slow */
    int64_t first_failed_ms, last_failed_ms; /* completed_ms */
    struct uuid latest;                      /* the newest of them, by id */
    struct str last_error;                   /* its */
};

struct cause_groups {
    struct cause_group *v;
    size_t n;
};

struct key_list {
    struct api_key *v;
    size_t n;
};

/* Who holds a slot. */
struct slot_holder {
    struct uuid task;
    enum task_state state;
    int64_t scheduled_ms;
};

struct slot_holders {
    struct slot_holder *v;
    size_t n;
};

/* Over all tenants and kinds, deleted tasks apart. May lag a moment behind. */
struct store_counts {
    int64_t by_state[9]; /* enum task_state; counted up to 10,000 each where counting is slow */
    int64_t due;         /* SCHEDULED and not RECURRING, with due_ms <= now; up to 10,000 too */
};

/* What a tenant has, deleted tasks apart. */
struct tenant_usage {
    int64_t pending;   /* not final, of any kind */
    int64_t recurring; /* RECURRING ones among them */
};

/* Under which terms a task is leased. */
struct lease_row {
    int64_t fence, until_ms;
    struct str worker, progress;
};

struct reader {
    const struct reader_ops *ops;
};

struct reader_ops {
    enum err (*get)(struct reader *, int32_t tenant, struct uuid id, struct arena *, struct task *ret, struct error *);
    enum err (*list)(struct reader *, const struct task_filter *, struct arena *, struct task_page *ret,
                     struct error *);
    enum err (*count)(struct reader *, const struct task_filter *, size_t max, size_t *ret, struct error *);
    enum err (*executions)(struct reader *, const struct execution_filter *, struct arena *, struct execution_page *ret,
                           struct error *);
    enum err (*idempotency)(struct reader *, int32_t tenant, const uint8_t key[32], struct arena *,
                            struct idempotency *ret, struct error *);
    enum err (*key)(struct reader *, struct str id, struct arena *, struct api_key *ret, struct error *);
    enum err (*keys)(struct reader *, int32_t tenant, struct arena *, struct key_list *ret, struct error *);
    enum err (*dedupe)(struct reader *, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *);
    enum err (*slots)(struct reader *, struct str key, struct arena *, struct slot_holders *ret, struct error *);
    enum err (*causes)(struct reader *, int32_t tenant, size_t max, struct arena *, struct cause_groups *ret,
                       struct error *);
    enum err (*catalog_get)(struct reader *, int32_t tenant, enum catalog_kind, struct str name, struct arena *,
                            struct catalog_entry *ret, struct error *);
    enum err (*catalog_list)(struct reader *, const struct catalog_filter *, struct arena *, struct catalog_page *ret,
                             struct error *);
    enum err (*lanes)(struct reader *, struct arena *, struct lane **ret, size_t *ret_count, struct error *);
    enum err (*counts)(struct reader *, int64_t now_ms, struct store_counts *ret, struct error *);
    enum err (*queue_due)(struct reader *, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *);
    enum err (*usage)(struct reader *, int32_t tenant, struct tenant_usage *ret, struct error *);
    enum err (*lease)(struct reader *, int32_t tenant, struct uuid task, struct arena *, struct lease_row *ret,
                      struct error *);
    enum err (*workers)(struct reader *, struct uuid before, size_t max, struct arena *, struct worker_rows *ret,
                        struct error *);
    enum err (*clock)(struct reader *, int64_t *ret_us, struct error *); /* NULL: the store has none of its own */
    void (*free)(struct reader *);
};

struct store {
    const struct store_ops *ops;
};

/* What other nodes on the same store have just done, so that this one need not wait for its next poll. Called on a thread of the
 * store's; must not block. A nudge may be lost, and one may come for nothing. */
struct store_notice {
    bool due; /* something became due, or will before the next poll: at due_ms, in any lane */
    int64_t due_ms;
    bool lanes;     /* there may be lanes that this node does not know: read them anew */
    bool catalog;   /* the catalog or an API key has changed: who has taken that in says so (store_catalog_applied) */
    uint64_t heard; /* with what, then; 0: there is nobody who waits for it */
    bool recall_requested;   /* a task of this node's is wished back */
    struct uuid recall_node; /* whose it is, for who carries the news; nil: of several */
    bool given_back;         /* some node gave back a task that was wished */
    bool nodes;              /* one came, left or was buried */
    const struct fenced_id
        *settled; /* tasks that other nodes have settled for those who claimed them (store_tell); for the call */
    size_t settled_count;
    bool all; /* news may have been missed: look at everything */
};

struct store_watch {
    void (*heard)(struct store_watch *w, const struct store_notice *news);
    struct uuid node; /* whose wishes are meant, and whose own doings are no news */
};

/* Who waits until the other nodes heed what was changed of the catalog and of keys. */
struct store_barrier {
    void (*done)(struct store_barrier *barrier); /* on any thread, also before store_barrier_wait returns; once */
    struct list link;                            /* the store's, like the next */
    uint64_t number;
};

struct store_ops {
    enum err (*apply)(struct store *, struct op *const *ops, size_t n, struct error *);
    enum err (*reader)(struct store *, struct reader **ret, struct error *);
    void (*free)(struct store *);
    void (*watch)(struct store *, struct store_watch *);   /* NULL: nobody else writes here */
    void (*await)(struct store *, struct store_barrier *); /* with the next two: NULL like `watch` */
    bool (*barrier_cancel)(struct store *, struct store_barrier *);
    void (*heeded)(struct store *, uint64_t heard);
    void (*tell)(struct store *, const struct fenced_id *settled, size_t n); /* NULL like `watch` */
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
    WORKER_SILENT_MS = 10000,     /* a worker that has not been seen for so long is taken for gone */
    NODE_KEPT_MS = 60 * 60 * 1000 /* of a dead one, so that who looks at the cluster sees that it died */
};

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e) must_use;
enum err store_reader(struct store *s, struct reader **ret, struct error *e) must_use;
/* From now on, until the next call; NULL: nobody listens any more, and when it returns nobody is being told. Of a store that nobody else
 * writes to there is nothing to hear. */
void store_watch(struct store *s, struct store_watch *w);
bool store_is_shared(const struct store *s); /* other nodes may write to it */

/* Calls back when every other node that lives has said that it heeds all catalog changes and keys that this store's store_apply has committed
 * so far; at once where nobody else writes, or nobody watches. Who lives is what the last OP_HEARTBEAT saw. A node that is stopped says nothing:
 * the caller sets the bound, and forgets. False: it is being called back. */
void store_barrier_wait(struct store *s, struct store_barrier *barrier);
bool store_barrier_cancel(struct store *s, struct store_barrier *barrier);

/* This node goes by what it was told of up to here (store_notice.heard). Any thread. */
void store_catalog_applied(struct store *s, uint64_t heard);

/* Tells the other nodes that these tasks are settled, whose claims may be theirs. Any thread; does not wait; may be lost. */
void store_tell(struct store *s, const struct fenced_id *settled, size_t n);
void store_free(struct store *s);

/* ERR_NOT_FOUND where there is none: also for another tenant's. */
enum err reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                    struct error *e) must_use;
enum err reader_list(struct reader *r, const struct task_filter *f, struct arena *a, struct task_page *ret,
                     struct error *e) must_use;
enum err reader_count(struct reader *r, const struct task_filter *f, size_t max, size_t *ret, struct error *e) must_use;
enum err reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                           struct execution_page *ret, struct error *e) must_use;
enum err reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                            struct idempotency *ret, struct error *e) must_use;
enum err reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e) must_use;
/* The tenant's keys, by id; at most LIST_MAX. */
enum err reader_keys(struct reader *r, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e) must_use;
/* The task that holds a dedupe key at now_ms; ERR_NOT_FOUND: nobody, also if that task is deleted or gone. */
enum err reader_dedupe(struct reader *r, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *e) must_use;
/* By scheduled_ms, then id; at most LIST_MAX. */
enum err reader_slots(struct reader *r, struct str key, struct arena *a, struct slot_holders *ret,
                      struct error *e) must_use;
/* The largest groups first, then by cause; at most max. */
enum err reader_causes(struct reader *r, int32_t tenant, size_t max, struct arena *a, struct cause_groups *ret,
                       struct error *e) must_use;
enum err reader_catalog_get(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                            struct catalog_entry *ret, struct error *e) must_use;
enum err reader_catalog_list(struct reader *r, const struct catalog_filter *f, struct arena *a,
                             struct catalog_page *ret, struct error *e) must_use;
/* Every lane that holds a SCHEDULED or BLOCKED task which a claim may take at its time, each once, in no order; lanes that hold
 * none may be among them. */
enum err reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count,
                      struct error *e) must_use;
enum err reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e) must_use;
/* How many tasks of a queue a claim could take now; up to 10,000 where counting is slow. May lag a moment behind. */
enum err reader_queue_due(struct reader *r, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *e) must_use;
enum err reader_usage(struct reader *r, int32_t tenant, struct tenant_usage *ret, struct error *e) must_use;
/* Of a task that is RUNNING by a lease; else ERR_NOT_FOUND. */
enum err reader_lease(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct lease_row *ret,
                      struct error *e) must_use;
/* By id, falling, those below `before` (nil: from the highest on): at most max, up to LIST_MAX. */
enum err reader_workers(struct reader *r, struct uuid before, size_t max, struct arena *a, struct worker_rows *ret,
                        struct error *e) must_use;
/* The store's own clock, as OP_HEARTBEAT tells it; 0: it has none but the caller's. */
enum err reader_clock(struct reader *r, int64_t *ret_us, struct error *e) must_use;
void reader_free(struct reader *r);

/* ---- who carries operations to a store ---- */

/* A writer takes operations from any thread, gathers them into transactions (claims and settles before the rest, those of
 * one kind in the order they came) and calls op->done after the commit, on the thread of whoever drives it. */
struct writer {
    const struct writer_ops *ops;
};

struct writer_ops {
    void (*submit)(struct writer *, struct op *op);
};

static inline void writer_submit(struct writer *w, struct op *op)
{
    w->ops->submit(w, op);
}
