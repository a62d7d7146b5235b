#pragma once
/* model/table.h - the rows of the memory store, and everything by which they are found.
 *
 * Rows change by being replaced: table_put makes a new one, moves it through the indexes and drops the old one, so that no index
 * can be forgotten. What is handed in is copied; what is handed out is borrowed until the next change. */
#include "base/list.h"
#include "base/map.h"
#include "model/order.h"
#include "port/store.h"
#include "store/common/claim_hold.h"

struct row {
    struct list link; /* among those its claim holds */
    unsigned holds;   /* bit k: the slot of kind k that it needs */
    struct task task; /* its texts lie behind the row */
};

/* There while tasks hold it. */
struct claim {
    struct uuid id, node;
    enum claim_hold hold;
    uint64_t epoch; /* of the queue that it was handed to; 0: not known */
    struct list rows;
};

struct lane_rows {
    struct lane lane;
    struct order due[2];      /* what a claim may take, by due_ms; [1]: what a lease may */
    struct order suspects[2]; /* the same of suspects */
    size_t blocked;           /* what a claim, no lease, may take one day */
    char *key;                /* which ends in the queue's name */
};

/* Of a slot key, while somebody holds it or waits for it. */
struct line {
    struct str key;
    struct order holders; /* by scheduled_ms; struct row */
    struct order waiting; /* by due_ms; struct row */
    char text[];
};

/* Rows as they were before a change that may have to be taken back. */
struct journal {
    struct row **v;
    size_t n, cap;
};

struct table {
    struct map rows;        /* id → struct row */
    struct order by_id;     /* struct row */
    struct map lanes;       /* lane_key → struct lane_rows */
    struct order recurring; /* SCHEDULED recurring tasks by cursor_ms; struct row */
    struct map claims;      /* id → struct claim */
    struct map lines;       /* slot key → struct line */
    struct journal *journal;
};

void table_init(struct table *t);
void table_release(struct table *t);

const struct task *table_get(const struct table *t, struct uuid id); /* NULL: none */
void table_put(struct table *t,
               const struct task *task); /* a new one, or in place of the one with its id, whose slots it keeps */
void table_put_holding(struct table *t, const struct task *task, unsigned holds); /* the same with these slots */
void table_drop(struct table *t, struct uuid id);                                 /* it is there */
unsigned table_holds(const struct table *t, struct uuid id);
const struct line *table_line(const struct table *t, struct str key); /* NULL: nobody holds it or waits for it */

/* From begin on old rows are kept, and what was handed out stays; until one of the others is called. No row comes in or goes
 * meanwhile. */
void table_begin(struct table *t, struct journal *j);
void table_commit(struct table *t);
void table_roll_back(struct table *t);

const struct lane_rows *table_lane(const struct table *t, struct lane lane); /* NULL: nothing was ever in it */
const struct claim *table_claim(const struct table *t, struct uuid id);      /* NULL: none */
/* Rows that say they are its are put next. */
void table_open_claim(struct table *t, struct uuid id, struct uuid node, enum claim_hold hold);
/* false: that node has no such claim */
bool table_hand_claim(struct table *t, struct uuid id, struct uuid node, uint64_t epoch);

static inline const struct task *task_at(const struct order *o, size_t i)
{
    return &((const struct row *)order_at(o, i)->value)->task;
}
