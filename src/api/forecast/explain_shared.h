#pragma once
/* api/forecast/explain_shared.h - what explain*.c share.
 *
 *  - explain.c: the answer, the reasons in the row, and the question to the node
 *  - explain_recurring.c: the next occurrence of a recurring task
 *
 * The thread that owns the request calls all functions. */
#include "api/server/internal.h"
#include "api/workflow/waits.h"
#include "core/time/recurrence.h"

enum { EXPLAIN_HOLDERS_SHOWN = 10, EXPLAIN_NOTE_MAX = 1024 };

/* What is known by another name than its id. */
struct explain_names {
    struct run_place place;
    struct str holders[SLOTS_MAX][EXPLAIN_HOLDERS_SHOWN]; /* the names of tasks that hold its slots; empty: none */
    int64_t deadline_ms;                                  /* of its run; 0: none */
    char begun[64]; /* of a recurring task that starts nothing: its runs under way, as the end of a sentence */
};

struct explain_query {
    struct explain_answer answer;
    struct request *q;
    struct task task; /* that the node explains */
    struct task row;  /* the same as it is stored */
    struct explain_holds holds;
    struct explain_facts facts;
    /* of a recurring task, whose next occurrence that is */
    struct task recurring;
    struct recurrence rule;
    struct rule_base base;
    struct occurrence next;
    struct explain_step left_out; /* text empty: no time of the schedule is left out before it */
};

struct explain_query *explain_query_new(struct request *q, const struct task *t);
/* Reads the facts of query->task and asks the node. `done` answers the request. */
enum handled explain_ask_node(struct request *q, struct reader *r, struct explain_query *query,
                              void (*done)(struct explain_answer *answer));
void explain_use_names(const struct request *q, const struct explain_facts *f, struct explanation *x);
enum handled explain_respond(struct request *q, const struct task *t, const struct explain_facts *facts,
                             const struct explanation *told);

enum handled explain_recurring(struct request *q, struct reader *r, const struct task *t); /* it is not PAUSED */
/* It is PAUSED; holds: its pause, which has an end. */
enum handled explain_recurring_paused(struct request *q, struct reader *r, const struct task *t,
                                      const struct explain_holds *holds);
