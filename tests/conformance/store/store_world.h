#pragma once
/* tests/conformance/store/store_world.h - what each test of the store's suite starts with: an empty store, a reader,
 * fresh ids. */
#include "scratch.h"
#include "stores.h"
#include "task_eq.h"

enum { TENANT = 1, OTHER_TENANT = 2, ARENAS_MAX = 256 };
#define NOW INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */

struct world {
    struct store *store;
    struct reader *reader;
    struct arena arena; /* what readers answer */
    struct uuid_gen ids;
    char directory[SCRATCH_PATH];
    struct arena arenas[ARENAS_MAX]; /* of operations done */
    size_t arena_count;
    bool claims_late; /* claims have the late twin of each lane, too */
};

extern const struct store_adapter *adapter_under_test;

int world_open(void **state);
int world_close(void **state);
#define store_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

/* Tests of one area; store_suite.c strings them together. */
struct test_list {
    const struct CMUnitTest *v;
    size_t n;
};
extern const struct test_list insert_tests, claim_tests, settle_tests, recurring_tests, missed_tests, put_tests,
    read_tests;
extern const struct test_list slot_tests, line_tests, overlap_tests, suspect_tests;
extern const struct test_list dedupe_tests, catalog_tests, forget_tests, causes_tests, growth_tests, limits_tests;
extern const struct test_list node_tests, share_tests, partition_tests, hand_tests, retake_tests, lease_tests,
    worker_tests, breaker_tests, reseal_tests, far_tests, priority_tests, late_tests, join_tests, run_tests,
    run_change_tests, run_retry_tests, run_record_tests, audit_tests, stats_tests, incident_tests, change_tests;

/* Runs one operation, or several as one transaction; results live as long as the world. */
enum err world_apply(struct world *w, struct op *op);
void world_apply_all(struct world *w, struct op **ops, size_t n);

struct uuid fresh_id(struct world *w);
struct task some_task(struct world *w);      /* one-time, due NOW, in the lane of some_lane */
struct task some_recurring(struct world *w); /* cursor NOW + 1000 */
struct task some_occurrence(struct world *w, const struct task *parent, int64_t at_ms);
struct lane some_lane(void);
struct execution some_execution(struct world *w, const struct task *t);
struct idempotency some_idempotency(void);
struct op_insert insert_of(const struct task *tasks, size_t n);

void add_calendar(struct world *w, struct str name);              /* of TENANT; tasks go by what is there */
void insert(struct world *w, const struct task *tasks, size_t n); /* and expects that it works */
struct task get(struct world *w, struct uuid id);                 /* it is there, of its TENANT */
bool is_there(struct world *w, int32_t tenant, struct uuid id);

struct op_claim claim_of(struct world *w, struct lane_quota *lanes, size_t n);  /* until NOW, plenty of everything */
struct task claim_one(struct world *w, const struct task *t, struct uuid node); /* t is inserted and claimed, alone */
struct settlement settlement_of(const struct task *t, enum task_state next);
bool settle_with(struct world *w, struct settlement *v); /* true: applied, false: stale */
struct op_put put_of(const struct task *before, const struct task *after);
struct task_page list(struct world *w, const struct task_filter *f);

/* The page holds exactly these, in this order. */
void assert_ids(const struct tasks *t, const struct uuid *const *ids, size_t n);
#define assert_tasks(t, ...)                                                                                           \
    assert_ids((t), (const struct uuid *const[]){ __VA_ARGS__ }, array_count(((const struct uuid *[]){ __VA_ARGS__ })))
