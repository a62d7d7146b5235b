#pragma once
/* model/table.h - the rows of the memory store, and all indexes over them.
 *
 * A row changes by being replaced: table_put creates a new row, moves it through the indexes and frees the old one, so
 * no index can be forgotten. Arguments are copied; results are borrowed until the next change. */
#include "base/list.h"
#include "base/map.h"
#include "core/task/fence.h"
#include "model/order.h"
#include "port/store.h"
#include "store/common/claim_hold.h"

struct row {
    struct list link; /* in the list of its claim */
    unsigned holds;   /* bit k: it holds the slot of kind k */
    struct task task; /* its texts are stored behind the row */
};

/* Exists while it has tasks. */
struct claim {
    struct uuid id, node;
    enum claim_hold hold;
    uint64_t epoch; /* of the queue that the claim was handed to; 0: unknown */
    struct list rows;
};

struct lane_rows {
    struct lane lane;
    struct order due[2];      /* tasks that a claim may take, by due_ms; [1]: that a lease may take */
    struct order suspects[2]; /* the same for suspects */
    size_t later; /* BLOCKED and RUNNING tasks, and PAUSED steps, that a claim, not a lease, may take later */
    char *key;    /* ends with the lane's texts */
};

/* The holders and the waiting line of a slot key, and of an overlap slot the SCHEDULED and BLOCKED tasks that need it;
 * exists while there are any. */
struct line {
    struct str key;
    struct order holders; /* by scheduled_ms; struct row */
    struct order waiting; /* by due_ms; struct row */
    struct order coming;  /* by due_ms; struct row */
    char text[];
};

/* Old rows, for a change that may be rolled back. */
struct journal {
    struct row **v;
    size_t n, cap;
};

/* What rows were before an operation has changed, inserted or dropped them; each once. */
struct touched_row {
    struct uuid id;
    int state, links; /* CHANGE_NEW: there was none */
};

struct touched_rows {
    struct touched_row *v;
    size_t n, cap;
};

struct table {
    struct map rows;        /* id → struct row */
    struct order by_id;     /* struct row */
    struct map lanes;       /* table_lane_key → struct lane_rows */
    struct order recurring; /* SCHEDULED recurring tasks by cursor_ms; struct row */
    struct map claims;      /* id → struct claim */
    struct map lines;       /* slot key → struct line */
    int64_t fence_floor;
    struct journal *journal;
    struct touched_rows *touched; /* NULL: nobody wants to know */
};

void table_init(struct table *t);
void table_release(struct table *t);

const struct task *table_get(const struct table *t, struct uuid id); /* NULL: none */
/* Inserts the task, or replaces the row with its id and keeps that row's slots. */
void table_put(struct table *t, const struct task *task);
void table_put_holding(struct table *t, const struct task *task, unsigned holds); /* the same, with these slots */
void table_drop(struct table *t, struct uuid id);                                 /* it must exist */
unsigned table_holds(const struct table *t, struct uuid id);
const struct line *table_line(const struct table *t, struct str key); /* NULL: it has none of these */

/* From table_begin until table_commit or table_roll_back, old rows are kept, so that borrowed results stay valid. No
 * row may be inserted or deleted meanwhile. */
void table_begin(struct table *t, struct journal *j);
void table_commit(struct table *t);
void table_roll_back(struct table *t);

const struct lane_rows *table_lane(const struct table *t, struct lane lane); /* NULL: the lane never had a task */
const struct claim *table_claim(const struct table *t, struct uuid id);      /* NULL: none */
/* The caller puts rows that name the claim next. */
void table_open_claim(struct table *t, struct uuid id, struct uuid node, enum claim_hold hold);
/* False: that node has no such claim. */
bool table_hand_claim(struct table *t, struct uuid id, struct uuid node, uint64_t epoch);

static inline const struct task *task_at(const struct order *o, size_t i)
{
    return &((const struct row *)order_at(o, i)->value)->task;
}
