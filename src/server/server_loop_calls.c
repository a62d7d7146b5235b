/* Requests of API threads to the node. The node belongs to the loop thread, so each request runs there as a loop call.
 * The caller keeps the request's data until its answer is done. */
#include "server/server_internal.h"

#include <stdlib.h>

#include "api/live/live.h"

struct loop_request {
    struct call call;
    struct server *server;
    void (*run)(struct server *a, const void *about, void *answer);
    const void *about;
    void *answer;
};

static void loop_request_on_call(struct call *call)
{
    struct loop_request *q = container_of(call, struct loop_request, call);
    assert_owned(&q->server->loop_thread);
    q->run(q->server, q->about, q->answer);
    free(q);
}

static void loop_request_send(struct server *a, void (*run)(struct server *, const void *, void *), const void *about,
                              void *answer)
{
    struct loop_request *q = xnew(*q);
    *q = (struct loop_request){
        .call.fn = loop_request_on_call, .server = a, .run = run, .about = about, .answer = answer
    };
    loop_call(a->loop, &q->call);
}

/* ---- recall ---- */

struct recall_call {
    struct recall recall;
    struct recall_answer *answer;
    struct server *server;
};

static void server_on_recalled(struct recall *r)
{
    struct recall_call *c = container_of(r, struct recall_call, recall);
    if (r->result == RECALL_DONE) /* the node has nudged its scheduler; this nudges leasing, for a WORKER task */
        node_nudge(c->server->node, r->replace, 1);
    bool became = r->result == RECALL_DONE || (r->result == RECALL_ANSWERED && !r->settlement.stale &&
                                               r->settlement.ret_state == r->replace->state);
    struct task now = *r->replace;
    now.state = r->result == RECALL_DONE ? r->became : now.state;
    if (became)
        live_on_written(api_server_live(c->server->http), &now, 1);
    c->answer->result = r->result;
    c->answer->became = r->became;
    c->answer->known = r->known;
    c->answer->told = r->told;
    c->answer->unsure = r->unsure;
    c->answer->done(c->answer);
    free(c);
}

static void server_recall_on_loop(struct server *a, const void *about, void *answer)
{
    const struct recall_order *recall_request = about;
    struct recall_call *c = xnew(*c);
    c->server = a;
    c->answer = answer;
    c->recall = (struct recall){
        .running = recall_request->running,
        .replace = recall_request->replace,
        .idempotency = recall_request->record,
        .audit = recall_request->audit,
        .abort = recall_request->abort,
        .lasts = recall_request->lasts,
        .state = &c->answer->state,
        .over = c->answer->over,
        .done = server_on_recalled,
        .result = RECALL_RUNNING,
    };
    if (recall_is_given_up(&c->recall) && !c->recall.lasts)
        server_on_recalled(&c->recall);
    else
        node_recall(a->node, &c->recall);
}

void server_recall(void *context, const struct recall_order *recall_request, struct recall_answer *answer)
{
    loop_request_send(context, server_recall_on_loop, recall_request, answer);
}

/* ---- explanations and queues ---- */

static void server_explain_on_loop(struct server *a, const void *about, void *answer)
{
    struct explain_answer *x = answer;
    (void)about;
    node_explain(a->node, x->task, x->holds, x->facts, clock_wall_ms(a->setup.clock), &x->explanation);
    x->done(x);
}

void server_explain(void *context, struct explain_answer *answer)
{
    loop_request_send(context, server_explain_on_loop, NULL, answer);
}

static void server_queues_on_loop(struct server *a, const void *about, void *answer)
{
    (void)about;
    struct queues_answer *x = answer;
    for (size_t i = 0; i < x->n; i++)
        node_queue(a->node, x->tenant, clock_wall_ms(a->setup.clock), &x->v[i]);
    x->done(x);
}

void server_describe_queues(void *context, struct queues_answer *answer)
{
    loop_request_send(context, server_queues_on_loop, NULL, answer);
}

/* ---- leases ---- */

static void server_lease_on_loop(struct server *a, const void *about, void *answer)
{
    (void)about;
    node_lease(a->node, answer, clock_now(a->setup.clock));
}

void server_lease(void *context, struct lease_ask *ask)
{
    loop_request_send(context, server_lease_on_loop, NULL, ask);
}

struct lease_over_call {
    struct call call;
    struct server *server;
    int32_t tenant;
    uint64_t unblocked;
    struct str queue; /* its text follows the struct */
};

static void server_lease_over_on_loop(struct call *call)
{
    struct lease_over_call *end = container_of(call, struct lease_over_call, call);
    node_on_lease_settled(end->server->node, end->tenant, end->queue, end->unblocked);
    free(end);
}

void server_lease_over(void *context, const struct task *t, uint64_t unblocked)
{
    struct server *a = context;
    struct lease_over_call *end = xmalloc(sizeof *end + str_pack_size(t->queue));
    char *at = (char *)(end + 1);
    *end = (struct lease_over_call){
        .call.fn = server_lease_over_on_loop, .server = a, .tenant = t->tenant, .unblocked = unblocked
    };
    end->queue = str_pack(t->queue, &at);
    loop_call(a->loop, &end->call);
}
