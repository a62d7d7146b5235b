#pragma once
/* tests/support/sqlite_fixture.h - an SQLite store in its own directory, a few tasks, and the operations that most
 * tests start with. */
#include "check.h"
#include "late_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failing_vfs.h"
#include "scratch.h"
#include "store/sqlite/store_sqlite.h"

enum { NOW_MS = 1790000000 };

extern const size_t migrations_sqlite_count; /* files: two for each version */
static inline int newest_schema(void)
{
    return (int)migrations_sqlite_count / 2;
}

struct fixture {
    char directory[SCRATCH_PATH + 8];
    struct store *store;
    struct uuid_gen ids;
    struct arena arena;
};

static inline int set_up(void **state)
{
    struct fixture *f = xnew(*f);
    char made[SCRATCH_PATH];
    if (!scratch_make("belfry-test", made))
        return -1;
    snprintf(f->directory, sizeof f->directory, "%s/data", made);
    uuid_gen_init(&f->ids, 7);
    arena_init(&f->arena, 64 << 20);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    store_free(f->store);
    *strrchr(f->directory, '/') = '\0';
    (void)scratch_remove(f->directory);
    arena_release(&f->arena);
    free(f);
    return 0;
}

static inline void open_store(struct fixture *f)
{
    struct error e = { 0 };
    assert_ok(store_sqlite_open(f->directory, 0, &f->store, &e), &e);
}

static inline void close_store(struct fixture *f)
{
    store_free(take(f->store));
}

static const char *file_of(const struct fixture *f, const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return path;
}

/* Runs SQL on the file through a separate connection. */
static inline void edit_file(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file_of(f, "belfry.db"), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* The number that a query of that file, or of the store's own, answers with. */
static inline int64_t number_in(struct fixture *f, const char *name, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open_v2(file_of(f, name), &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static inline int64_t number(struct fixture *f, const char *sql)
{
    return number_in(f, "belfry.db", sql);
}

static inline struct task plain_task(struct fixture *f)
{
    return (struct task){ .id = uuid_next(&f->ids, NOW_MS),
                          .tenant = 1,
                          .due_ms = NOW_MS,
                          .scheduled_ms = NOW_MS,
                          .version = 1,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .timeout_ms = 1000,
                          .retry = RETRY_DEFAULT,
                          .target = TARGET_NOOP,
                          .created_ms = NOW_MS,
                          .updated_ms = NOW_MS };
}

static inline enum err try_apply(struct fixture *f, struct op *op, struct error *e)
{
    return store_apply(f->store, &op, 1, e);
}

static inline void apply(struct fixture *f, struct op *op)
{
    struct error e = { 0 };
    struct late_lanes late;
    late_lanes_add(&late, op);
    assert_ok(try_apply(f, op, &e), &e);
    late_lanes_fold(&late);
    assert_ok(op->rc, &op->error);
}

static inline void insert(struct fixture *f, const struct task *tasks, size_t n)
{
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = tasks, .count = n };
    apply(f, &op.op);
}

static inline enum err try_insert(struct fixture *f, const struct task *t, struct error *e)
{
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = t, .count = 1 };
    return try_apply(f, &op.op, e);
}

static inline struct op_claim claim_op(struct fixture *f, struct lane_quota *lane)
{
    struct op_claim op = { .op.kind = OP_CLAIM,
                           .claim = uuid_next(&f->ids, NOW_MS),
                           .node = { { 9 } },
                           .lanes = lane,
                           .lane_count = 1,
                           .now_ms = NOW_MS,
                           .until_ms = NOW_MS,
                           .max = CLAIM_MAX,
                           .max_bytes = SIZE_MAX };
    op.op.arena = f->arena;
    return op;
}

static struct lane_quota usual_lane = { { .tenant = 1, .queue = { "default", 7 }, .priority = PRIORITY_DEFAULT },
                                        CLAIM_MAX };

static inline struct tasks claim(struct fixture *f)
{
    struct op_claim op = claim_op(f, &usual_lane);
    apply(f, &op.op);
    f->arena = op.op.arena;
    return op.ret;
}

static inline void finish(struct fixture *f, const struct task *t, enum task_state next)
{
    struct settlement v = { .id = t->id,
                            .fence = t->fence,
                            .verdict = { .next = next, .attempts = 1, .has_execution = true } };
    v.verdict.execution = (struct execution){ .id = uuid_next(&f->ids, NOW_MS),
                                              .tenant = t->tenant,
                                              .task = t->id,
                                              .attempt = 1,
                                              .fence = t->fence,
                                              .started_us = NOW_MS * INT64_C(1000),
                                              .output = S("done") };
    struct op_settle op = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW_MS };
    apply(f, &op.op);
    assert_false(v.stale);
}

static inline struct reader *open_reader(struct fixture *f)
{
    struct reader *r;
    struct error e = { 0 };
    assert_ok(store_reader(f->store, &r, &e), &e);
    return r;
}

static inline enum err get(struct fixture *f, struct uuid id, struct task *ret)
{
    struct error e = { 0 };
    struct reader *r = open_reader(f);
    enum err rc = reader_get(r, 1, id, &f->arena, ret, &e);
    reader_free(r);
    return rc;
}

static inline struct store_counts counts(struct fixture *f)
{
    struct store_counts c;
    struct error e = { 0 };
    struct reader *r = open_reader(f);
    assert_ok(reader_counts(r, NOW_MS, &c, &e), &e);
    reader_free(r);
    return c;
}
