#pragma once
/* tests/sim/request.h - one request of a user, from the first try to the answer. */
#include "sim.h"

enum request_kind { REQUEST_CREATE, REQUEST_ACT, REQUEST_EDIT };

struct request {
    struct list link;
    struct sim *sim;
    struct sim_node *at; /* the node that it asks at this try */
    enum request_kind kind;
    enum action action;
    struct subject *subject;
    struct arena arena;
    union {
        struct op op;
        struct op_insert insert;
        struct op_put put;
    } write;
    int tries;
    bool answered; /* the user has an answer; what is still under way goes on without him */

    struct task *tasks; /* REQUEST_CREATE */
    size_t count;
    bool has_key;
    struct idempotency key;
    struct depends_on depends;           /* of tasks[0], which is alone then; n 0: nothing */
    const struct definition *definition; /* of tasks[0], if that is a run of a workflow; else NULL */

    struct task current; /* as it was read */
    struct action_plan plan;
    int64_t withdraw_from_ms;
    struct recurrence new_rule; /* of an edited schedule */
    bool has_new_rule;

    struct recall recall;
    struct task replace;
    struct timer *timer; /* the time limit of the recall */
    int64_t aborting_fence;
    struct tasks children; /* occurrences that may have to be recalled with their parent */
    size_t child;
    bool children_recalled;
};

/* make.c: what users ask for. */
void joins_make(struct request *r); /* joins.c: sometimes the task depends on others */
struct task some_task(struct sim *s, enum task_kind kind);
void make_one_time(struct request *r);
void make_run(struct request *r); /* flows_make.c */
void make_recurring(struct request *r);
void make_burst(struct request *r);
bool make_edit(struct request *r); /* false: there is nothing left to edit */
