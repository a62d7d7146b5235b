#pragma once
/* port/store/incidents.h - what notifications are made of: hits, incidents, messages and checks, and OP_FOLD; and the
 * ends of pauses. A part of port/store.h.
 *
 * A hit says that something happened to tasks that a user may want to be told of. Operations leave hits behind, as they
 * leave audit rows:
 *
 *  1. A hit is written in the transaction of the operation, and only for a kind that somebody wants (struct hit_wants).
 *     hits_of_op says which ones. Hits are appended: no operation updates a row that another one writes.
 *  2. OP_SETTLE: a settlement that is not stale, by its ret_state: COMPLETED is a SUCCESS, FAILED a FAILURE, EXPIRED a
 *     MISSED with the cause "expired". SCHEDULED after a failed attempt is a RETRY.
 *  3. OP_SPAWN: a SKIPPED occurrence that was missed (WINDOW, ONE_FOR_ALL, MISSED) is a MISSED with the cause "skipped".
 *  4. OP_PUT: a task that becomes EXPIRED is a MISSED with the cause "expired".
 *  5. Settlements of one operation with the same tenant, kind and cause share a hit, up to HIT_TASKS_MAX tasks. After
 *     HITS_MAX hits of one operation, further tasks only count, in a hit with the cause "other".
 *
 * A record is an incident, a message about one, the check of a task, or the end of its pause. The store knows its
 * columns; only core/notify understands its doc.
 *
 * A check watches a task that has `expect` (core/notify/check.h) and is neither an OCCURRENCE nor a step:
 *
 *  6. OP_INSERT, OP_PUT and `replace` of OP_SETTLE make the record of a task's check due, in their transaction: next_ms
 *     becomes updated_ms of the task. If there is no such record, it is inserted, with version 1 and the doc {}; else
 *     its version rises by one, and the rest stays. An OP_INSERT that only repeats another one does the same. It
 *     is written after all operations of its batch: an OP_FOLD among them finds the version of before.
 *  7. No operation but OP_FOLD removes it. The notifier finds that the task is gone.
 *
 * A task whose pause has an end (core/task/pause.h) has a record, too:
 *
 *  8. The same operations make it due, in their transaction, if they write a PAUSED task whose pause has an end:
 *     next_ms becomes that end. The rest is as by rules 6 and 7. A task that was resumed, or whose pause has no end any
 *     more, keeps its record until that time: then nothing is to be done, and it is removed.
 *  9. A run that has started is paused by run_row.paused. Its record is written by OP_FOLD alone, and its doc is the
 *     pause. It counts while run_row.paused is set. */
#include "core/notify/hit.h"
#include "core/task/task.h"
#include "port/store/operation.h"

/* Which kinds are wanted, by tenant: bits 1 << enum hit_kind; of tenant 0: by any tenant. Any thread. */
struct hit_wants {
    unsigned (*of)(const struct hit_wants *w, int32_t tenant);
};

/* For stores: the hits of an operation that has been applied. Texts are in `texts`. */
struct hits {
    struct hit v[HITS_MAX + 1];
    size_t n;
    char texts[HITS_MAX + 1][HIT_TASKS_TEXT];
    char causes[HITS_MAX + 1][HIT_CAUSE_MAX];
    size_t tasks[HITS_MAX + 1];
};
void hits_of_op(const struct op *op, const struct hit_wants *wants, struct hits *ret);
/* Whether the operation may have hits at all: a cheap question before hits_of_op. */
bool op_may_hit(const struct op *op, const struct hit_wants *wants);

enum record_kind { RECORD_INCIDENT, RECORD_MESSAGE, RECORD_CHECK, RECORD_PAUSE };
enum { RECORD_KEY_MAX = 64, RECORD_DOC_MAX = 256 << 10, FOLD_HITS_MAX = 1000, FOLD_RECORDS_MAX = 1000 };

struct record {
    struct uuid id; /* begins with the time */
    enum record_kind kind;
    int32_t tenant;
    struct uuid setting;  /* nil: none */
    struct uuid incident; /* of a MESSAGE; of a CHECK or a PAUSE: its task */
    struct str key;       /* no two records have the same one; empty: none */
    int64_t version;      /* 1 for the first */
    int64_t next_ms;      /* when it is looked at next; 0: never */
    struct str doc;       /* JSON object */
};

/* For stores: the records of rules 6 and 8, one after the other, whatever the operation is; *at is 0 at first. The id
 * depends on the kind and the task alone. False: there are no more. */
bool op_next_record(const struct op *op, size_t *at, struct record *ret);
/* The id of the record of its pause. */
struct uuid pause_record_id(const struct task *t);

/* OP_FOLD - deletes hits and changes records, all or none, in their order.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. If one of the hits does not exist any more: ERR_CONFLICT, field "hits". So a hit counts once, whoever folds it.
 *  3. A change with version 0 inserts a record, with version 1. If there is one with this id or key: ERR_CONFLICT,
 *     field "version".
 *  4. Any other change names the version that it expects; another one, or none: ERR_CONFLICT, field "version". The
 *     record gets the next version, and key, next_ms and doc of the change. If another record has the key:
 *     ERR_CONFLICT, field "version". With `remove` the record is deleted.
 *  5. A doc of more than RECORD_DOC_MAX bytes: ERR_LIMIT, field "doc". */
struct record_change {
    struct record record;
    int64_t version; /* expected */
    bool remove;
};

struct op_fold {
    struct op op;
    const struct uuid *hits; /* ascending, like the records by id: two folds must not deadlock */
    size_t hit_count;
    const struct record_change *v;
    size_t n;
    const struct idempotency *idempotency; /* NULL: none */
};

/* For stores: rules 2 to 5. */
enum err fold_docs_fit(const struct op_fold *op, struct error *e) must_use;
enum err fold_hit_gone(struct error *e);
enum err fold_record_changed(struct error *e);

struct hit_list {
    struct hit *v;
    size_t n;
};

/* Newest first, by id, descending; with due_ms by next_ms, then id, ascending. A filter that is zero does not
 * filter. */
struct record_filter {
    enum record_kind kind;
    int32_t tenant; /* 0: all */
    struct uuid id; /* only this one */
    struct uuid setting, incident;
    struct str key;
    int64_t due_ms;     /* only records with 0 < next_ms <= due_ms */
    int64_t from_ms;    /* only ids of this time or later */
    int64_t until_ms;   /* only ids of an earlier time */
    bool open;          /* INCIDENTs: only those with a key */
    struct uuid before; /* only ids below it; nil: from the newest on */
    size_t limit;       /* at most LIST_MAX */
};

/* For stores: lowest <= id < below. */
void record_range_of(const struct record_filter *f, struct uuid *ret_lowest, struct uuid *ret_below);

struct record_page {
    struct record *v;
    size_t n;
    bool more;
};
