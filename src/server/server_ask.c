/* A question is asked on any thread and answered on the loop's, where the node is; whoever asks keeps what it asks about until it has its
 * answer. */
#include <stdlib.h>

#include "server/server_internal.h"

struct question {
    struct call call;
    struct server *server;
    void (*put)(struct server *a, const void *about, void *answer);
    const void *about;
    void *answer;
};

static void put_on_loop(struct call *call)
{
    struct question *q = container_of(call, struct question, call);
    q->put(q->server, q->about, q->answer);
    free(q);
}

static void ask(struct server *a, void (*put)(struct server *, const void *, void *), const void *about, void *answer)
{
    struct question *q = xnew(*q);
    *q = (struct question){ .call.fn = put_on_loop, .server = a, .put = put, .about = about, .answer = answer };
    loop_call(a->loop, &q->call);
}

/* ---- recall ---- */

struct recalling {
    struct recall recall;
    struct recall_answer *answer;
    struct server *server;
};

static void recalled(struct recall *r)
{
    struct recalling *c = container_of(r, struct recalling, recall);
    if (r->result == RECALL_DONE)
        node_nudge(c->server->node, r->replace, 1);
    c->answer->result = r->result;
    c->answer->known = r->known;
    c->answer->done(c->answer);
    free(c);
}

static void put_recall(struct server *a, const void *about, void *answer)
{
    const struct recall_order *recall_request = about;
    struct recalling *c = xnew(*c);
    c->server = a;
    c->answer = answer;
    c->recall = (struct recall){
        .running = recall_request->running,
        .replace = recall_request->replace,
        .idempotency = recall_request->record,
        .abort = recall_request->abort,
        .given_up = &c->answer->given_up,
        .done = recalled,
        .result = RECALL_RUNNING,
    };
    if (atomic_load(&c->answer->given_up))
        recalled(&c->recall);
    else
        node_recall(a->node, &c->recall);
}

void server_recall(void *context, const struct recall_order *recall_request, struct recall_answer *answer)
{
    ask(context, put_recall, recall_request, answer);
}

/* ---- what the node knows ---- */

static void put_explain(struct server *a, const void *about, void *answer)
{
    struct explain_answer *x = answer;
    node_explain(a->node, about, clock_wall_ms(a->setup.clock), &x->explanation);
    x->done(x);
}

void server_explain(void *context, const struct task *t, struct explain_answer *answer)
{
    ask(context, put_explain, t, answer);
}

static void put_queues(struct server *a, const void *about, void *answer)
{
    (void)about;
    struct queues_answer *x = answer;
    for (size_t i = 0; i < x->n; i++)
        node_queue(a->node, x->tenant, clock_wall_ms(a->setup.clock), &x->v[i]);
    x->done(x);
}

void server_ask_queues(void *context, struct queues_answer *answer)
{
    ask(context, put_queues, NULL, answer);
}

/* ---- leases ---- */

static void put_lease(struct server *a, const void *about, void *answer)
{
    (void)about;
    node_lease(a->node, answer, clock_now(a->setup.clock));
}

void server_lease(void *context, struct lease_ask *ask_)
{
    ask(context, put_lease, NULL, ask_);
}

struct lease_end {
    struct call call;
    struct server *server;
    int32_t tenant;
    uint64_t unblocked;
    struct str queue; /* behind it */
};

static void end_on_loop(struct call *call)
{
    struct lease_end *end = container_of(call, struct lease_end, call);
    node_on_lease_settled(end->server->node, end->tenant, end->queue, end->unblocked);
    free(end);
}

void server_lease_over(void *context, const struct task *t, uint64_t unblocked)
{
    struct server *a = context;
    struct lease_end *end = xmalloc(sizeof *end + str_pack_size(t->queue));
    char *at = (char *)(end + 1);
    *end = (struct lease_end){ .call.fn = end_on_loop, .server = a, .tenant = t->tenant, .unblocked = unblocked };
    end->queue = str_pack(t->queue, &at);
    loop_call(a->loop, &end->call);
}
