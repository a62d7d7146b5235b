#pragma once
/* tests/conformance/store/model/store_model.h - two stores that are told the same, and must answer the same.
 *
 * model_make makes operations up: few ids, few lanes, close times, so that they get in each other's way. It looks at
 * the first store to know what would make sense, and then mostly asks for that. */
#include "store_world.h"

union any_op {
    struct op op;
    struct op_insert insert;
    struct op_claim claim;
    struct op_claimed claimed;
    struct op_orphans held;
    struct op_settle settle;
    struct op_recurring recurring;
    struct op_spawn spawn;
    struct op_catch_up missed;
    struct op_put put;
    struct op_key_put key_put;
    struct op_catalog catalog;
    struct op_lease lease;
    struct op_purge forget;
    struct op_heartbeat beat;
    struct op_node_dead bury;
    struct op_limit_take share;
    struct op_recall recall_request;
    struct op_recall_list recall_requests;
    struct op_handoff hand;
    struct op_handed_off handed;
    struct op_running running;
    struct op_retake retake;
    struct op_lease_renew keep;
    struct op_reseal reseal;
    struct op_leases_expired leases_over;
    struct op_worker_report worker;
    struct op_breakers breakers;
    struct op_stats stats;
    struct op_arrive arrive;
    struct op_open open;
    struct op_await await;
    struct op_signal signal;
    struct op_stop stop;
    struct op_define define;
    struct op_fold fold;
};

enum { BATCH_MAX = 6, INSERT_MAX = 4, POOL_MAX = 300, NODES = 3, OPENINGS = 16, WHY_MAX = 256 };

/* What a run has seen: one that saw little proves little. */
struct tally {
    int done[OP_KINDS], refused[OP_KINDS];
#define TALLY_SIZES(X)                                                                                                 \
    X(claimed)                                                                                                         \
    X(merged)                                                                                                          \
    X(aside)                                                                                                           \
    X(late)                                                                                                            \
    X(recalled)                                                                                                        \
    X(settled)                                                                                                         \
    X(stale)                                                                                                           \
    X(pauses_cancelled)                                                                                                \
    X(withdrawn)                                                                                                       \
    X(cut)                                                                                                             \
    X(missed)                                                                                                          \
    X(forgotten)                                                                                                       \
    X(leases_lost)                                                                                                     \
    X(buried)                                                                                                          \
    X(nodes_dead)                                                                                                      \
    X(tokens)                                                                                                          \
    X(places)                                                                                                          \
    X(recall_requests)                                                                                                 \
    X(held)                                                                                                            \
    X(handed)                                                                                                          \
    X(running)                                                                                                         \
    X(retaken)                                                                                                         \
    X(leased)                                                                                                          \
    X(kept)                                                                                                            \
    X(ended)                                                                                                           \
    X(leases_over)                                                                                                     \
    X(blocked)                                                                                                         \
    X(skipped)                                                                                                         \
    X(cancelled)                                                                                                       \
    X(replaced)                                                                                                        \
    X(woken)                                                                                                           \
    X(suspects)                                                                                                        \
    X(opened)                                                                                                          \
    X(reopened)                                                                                                        \
    X(open_stopped)                                                                                                    \
    X(steps_stopped)                                                                                                   \
    X(signals_woke)                                                                                                    \
    X(told)                                                                                                            \
    X(deduped) /* of claims; woken: how many operations did */
#define X(member) size_t member;
    TALLY_SIZES(X)
#undef X
};

struct known {
    struct uuid id;
    int32_t tenant;
};

/* How far a task was opened under one of its claims. */
struct opening {
    struct uuid task;
    int64_t fence;
    size_t page, size;
    bool again, despite_stop;
};

struct model {
    struct prng random;
    struct uuid_gen ids, audit_ids;
    struct prng audit_random; /* of its own: whether operations leave audit rows changes nothing else */
    struct reader *reader;    /* of the first store */
    struct arena arena;       /* arguments of the batch being made, and what was looked at for it */
    int64_t now_ms;
    struct uuid nodes[NODES];    /* some beat, some are dead, some were never heard of */
    int64_t beats[NODES];        /* as they were told last */
    struct known pool[POOL_MAX]; /* tasks that may be there */
    size_t pool_count;
    struct opening openings[OPENINGS]; /* the latest */
    size_t opening_count;
    bool first;             /* of its batch */
    size_t gated_percent;   /* of the tasks need slots */
    size_t cancels_percent; /* of the puts cancel a recurring task that has a claimed occurrence */
    struct tally tally;
};

void model_make(struct model *m, union any_op *ret);
void model_make_claim(struct model *m, union any_op *ret);
void model_make_settle(struct model *m, union any_op *ret);
struct task_filter model_filter(struct model *m);
bool model_look(struct model *m, struct task *ret); /* some task that is there */
struct task model_task(struct model *m);            /* one that is new */
void model_know(struct model *m, const struct task *t);
size_t below(struct model *m, size_t n);
bool chance(struct model *m, size_t percent);
struct str one_of(struct model *m, const char *const *v, size_t n);
extern const char *const model_queues[2], *const model_names[4], *const model_types[3];

/* records.c */
const struct idempotency *model_idempotency(struct model *m, size_t percent); /* NULL: none, mostly */
void model_dedupe(struct model *m, struct task *t);                           /* gives it a key, now and then */
void model_make_key_put(struct model *m, union any_op *ret);
void model_make_catalog(struct model *m, union any_op *ret);
void model_make_forget(struct model *m, union any_op *ret);
bool same_catalog_changes(const struct op_catalog *a, const struct op_catalog *b, char why[WHY_MAX]);
bool same_other_records(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* nodes.c */
struct uuid model_node(struct model *m);
const struct partitions *model_own(struct model *m); /* NULL: all, half of the time */
void model_make_beat(struct model *m, union any_op *ret);
void model_make_bury(struct model *m, union any_op *ret);
void model_make_share(struct model *m, union any_op *ret);
void model_make_recall(struct model *m, union any_op *ret);
void model_make_recall_list(struct model *m, union any_op *ret);
void model_saw_nodes(struct model *m, const struct op_heartbeat *op); /* what it was told of them */
bool same_beats(const struct op_heartbeat *a, const struct op_heartbeat *b, char why[WHY_MAX]);
bool same_shares(const struct op_limit_take *a, const struct op_limit_take *b, char why[WHY_MAX]);
bool same_recall_requests(const struct op_recall_list *a, const struct op_recall_list *b, char why[WHY_MAX]);

/* fleet.c */
const struct lease_terms *model_terms(struct model *m); /* NULL: no lease, mostly */
void model_make_hand(struct model *m, union any_op *ret);
void model_make_handed(struct model *m, union any_op *ret);
void model_make_running(struct model *m, union any_op *ret);
void model_make_retake(struct model *m, union any_op *ret);
void model_make_keep(struct model *m, union any_op *ret);
void model_make_leases_over(struct model *m, union any_op *ret);
void model_make_worker(struct model *m, union any_op *ret);
const struct audit *model_audit(struct model *m); /* NULL: none */
void model_make_breakers(struct model *m, union any_op *ret);
void model_twin_fleet(struct model *m, union any_op *twin); /* gives it places of its own for results */
void model_count_fleet(struct tally *t, const union any_op *op);
bool same_running(const struct op_running *a, const struct op_running *b, char why[WHY_MAX]);
bool same_epochs(const struct op_handed_off *a, const struct op_handed_off *b, char why[WHY_MAX]);
bool same_keeps(const struct op_lease_renew *a, const struct op_lease_renew *b, char why[WHY_MAX]);
bool same_fleet(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* folds.c */
void model_make_fold(struct model *m, union any_op *ret);
bool same_folds(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* stats.c */
void model_make_stats(struct model *m, union any_op *ret);
bool same_stats(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* joins.c */
void model_depend_insert(struct model *m, struct op_insert *op); /* sometimes the first task gets parents */
void model_depend_put(struct model *m, struct op_put *op);       /* sometimes its edges change */
void model_make_arrive(struct model *m, union any_op *ret);
bool same_links(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* runs.c */
const struct definition *model_definition(struct model *m, int32_t tenant);
/* If a few looks find one. */
bool model_look_for_target(struct model *m, enum task_state state, enum target_kind target, struct task *ret);
void model_make_open(struct model *m, union any_op *ret);
void model_make_await(struct model *m, union any_op *ret);
void model_make_signal(struct model *m, union any_op *ret);
void model_make_stop(struct model *m, union any_op *ret);
void model_make_define(struct model *m, union any_op *ret);
void model_count_runs(struct tally *t, const union any_op *op);
bool same_run_answers(const union any_op *a, const union any_op *b, char why[WHY_MAX]);
bool same_runs(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* changes.c */
void model_listen(struct store *a, struct store *b);   /* both tell of changes from now on */
void model_listen_no_more(void);                       /* the stores were freed */
bool same_changes(struct tally *t, char why[WHY_MAX]); /* since the last time; if nobody listens: true */

/* reseal.c */
void model_make_reseal(struct model *m, union any_op *ret);
bool same_sealed(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);

/* Spoils an operation on its way in; true: it does not even arrive. */
typedef bool spoil_fn(struct op *op, struct prng *random);
spoil_fn breaks_open_joins_at_once, begins_repeated_pages_anew, drops_early_signals, stops_one_step_too_many,
    waits_for_nobody_else;
spoil_fn drops_one_minute_in_twenty;
spoil_fn keeps_hits_that_are_folded, writes_one_record_in_twenty_not_at_all;
spoil_fn forgets_parents, joins_any_for_all, ignores_changed_parents;
spoil_fn hands_nothing, hands_nothing_of_the_dead, hands_in_no_epoch, retakes_under_any_fence, retakes_what_is_large,
    leases_a_millisecond_too_long, keeps_leases_of_any_fence, leases_what_nodes_claim, hears_half_of_the_workers;
/* late.c */
spoil_fn forgets_recalls, gives_late_tasks_from_ordinary_lanes;
void fold_late_lanes(void); /* after a batch: what the latter has spoiled is as it was given */

/* Who held which slot when it was looked last. */
struct held {
    struct str key;
    struct uuid task;
    int64_t fence, version;
    enum task_state state;
};

struct watch {
    struct slot_keys keys;
    struct held *v;
    size_t n;
    struct arena arena; /* of v and its keys */
};
void watch_init(struct watch *w);
void watch_release(struct watch *w);

/* What is true of slots after every operation, as the reader tells it; else why holds what is wrong. */
bool slots_are_sound(struct watch *w, struct reader *r, char why[WHY_MAX]);

/* True if both say the same; else why holds the difference. */
bool same_results(const union any_op *a, const union any_op *b, char why[WHY_MAX]);
bool same_reads(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX]);
