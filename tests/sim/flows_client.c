/* What users do to runs, as src/api/workflow does it for them. A request is tried again if its node dies or the store
 * does not answer. */
#include <stdlib.h>

#include "flows.h"
#include "sim.h"

enum {
    SECOND_US = 1000000,
    TRIES_MAX = 8,
    LOOKS = 20,
    SIGNALS_US = 15 * SECOND_US,
    RECALL_US = 500000,
    LOOK_AGAIN_US = 10000,
    VALUES = 100,
    ANSWER_BYTES = 1 << 20,
    READ_BYTES = 8 << 20,
    STOP_ROWS = 1000,
    POUNCES = 3,
    POUNCE_PERCENT = 40,
    POUNCE_US = 60000,
    RUNS_MAX = 100,
    CLAIMED_MAX = 400,
    DECIDES_PERCENT = 30,
};

struct flow_request {
    struct list link; /* in flows.requests */
    struct sim *sim;
    struct flow *flow;
    struct sim_node *at;
    timer_fn *attempt;
    int tries;
    union {
        struct op op;
        struct op_signal signal;
        struct op_stop stop;
        struct op_put put;
    } write;
    struct arena arena;

    struct signal_row row;
    struct uuid awaits;
    int64_t timeout_ms; /* of that step */
    uint32_t step;
    int sender;
    char name[8], by[8], payload[32];

    enum run_change change;
    bool compensate, unsure;
    struct uuid runs[RUNS_MAX]; /* the run and those within it */
    size_t run_count, run_at;
    struct fenced_id claimed[CLAIMED_MAX];
    size_t claimed_count, claimed_at;
    struct recall recall;
    struct task running, replace;
    int64_t until_us;
    enum action decision; /* on a step; CANCEL: skip */
    unsigned named;       /* steps of a retry: bit i, step i; 0: all that failed */
};

static void request_end(struct flow_request *r)
{
    list_remove(&r->link);
    arena_release(&r->arena);
    free(r);
}

static void refuse(struct flow_request *r, const char *why)
{
    trace(r->sim, "user: run %s: refused, %s", short_id(r->flow->id), why);
    r->sim->stats->refused++;
    r->flow->busy = false;
    request_end(r);
}

static void try_again(struct flow_request *r)
{
    struct sim *s = r->sim;
    if (++r->tries > TRIES_MAX)
        refuse(r, "tried too often");
    else
        after_us(s, between(s, 20000, 2 * SECOND_US), r->attempt, r);
}

static struct flow_request *request_new(struct sim *s, struct flow *f, timer_fn *attempt)
{
    struct flow_request *r = xnew(*r);
    *r = (struct flow_request){ .sim = s, .flow = f, .attempt = attempt };
    arena_init(&r->arena, READ_BYTES);
    list_push(&s->flows.requests, &r->link);
    return r;
}

static void submit(struct flow_request *r, void (*done)(struct op *op))
{
    arena_init(&r->write.op.arena, ANSWER_BYTES);
    r->write.op.done = done;
    r->write.op.context = r;
    writer_submit(&r->at->writer.base, &r->write.op);
}

/* The node hears of what the operation has released. */
static void tell_node(struct flow_request *r, uint64_t unblocked)
{
    const struct op *op = &r->write.op;
    if (!r->at->node || r->sim->ghost == r->at || (op->rc && op->rc != ERR_UNAVAILABLE))
        return;
    node_on_lanes_unblocked(r->at->node, op->rc ? UINT64_MAX : unblocked);
    r->at->poked = true;
}

/* ---- signals ---- */

static void signal_stored(struct op *op)
{
    struct flow_request *r = op->context;
    struct sim *s = r->sim;
    arena_release(&op->arena);
    tell_node(r, r->write.signal.ret_unblocked_lanes);
    if (s->ghost == r->at) {
        try_again(r);
    } else if (op->rc == ERR_OK) {
        trace(s, "user: acknowledged signal %s by %s to %s: %s", r->name, r->by, short_id(r->flow->id), r->payload);
        r->flow->signals[r->step][r->sender].acked = true;
        flows_judge_signals(s, r->flow, r->step);
        request_end(r);
    } else if (op->rc == ERR_CONFLICT) {
        trace(s, "user: signal %s by %s to %s: %s", r->name, r->by, short_id(r->flow->id), op->error.text);
        if (strcmp(op->error.field, "by") == 0)
            breach(s, BREACH_SIGNAL, "signal %s by %s to %s differs from the one before", r->name, r->by,
                   short_id(r->flow->id));
        request_end(r);
    } else {
        try_again(r);
    }
}

static void send_signal(struct sim *s, void *context)
{
    struct flow_request *r = context;
    r->at = some_node(s);
    if (!r->at) {
        try_again(r);
        return;
    }
    r->row = (struct signal_row){ .run = r->flow->id,
                                  .name = str_from(r->name),
                                  .sender = str_from(r->by),
                                  .payload = str_from(r->payload),
                                  .rejects = r->flow->signals[r->step][r->sender].rejects,
                                  .time_ms = node_wall_ms(r->at) };
    r->write.signal = (struct op_signal){ .op = { .kind = OP_SIGNAL },
                                          .tenant = r->flow->tenant,
                                          .signal = &r->row,
                                          .steps = &r->awaits,
                                          .timeouts_ms = &r->timeout_ms,
                                          .n = 1 };
    submit(r, signal_stored);
}

static void plan_signal(struct sim *s, struct flow *f, uint32_t step, int sender)
{
    struct flow_signal *known = &f->signals[step][sender];
    struct flow_request *r = request_new(s, f, send_signal);
    if (!known->sent) {
        known->value = between(s, 0, VALUES);
        known->rejects = chance(s, 15);
    }
    known->sent = true;
    r->step = step;
    r->sender = sender;
    r->awaits = place_id(f->id, place_of_step(step));
    r->timeout_ms = f->definition->dag->steps[step].await.timeout_ms;
    snprintf(r->name, sizeof r->name, "g%u", step);
    snprintf(r->by, sizeof r->by, "u%d", sender);
    snprintf(r->payload, sizeof r->payload, "{\"n\":%lld}", (long long)known->value);
    after_us(s, between(s, 0, SIGNALS_US), send_signal, r);
}

/* Early, late, and some of them twice. */
void flows_send_signals(struct sim *s, struct flow *f)
{
    const struct dag *d = f->definition->dag;
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t n = d->steps[i].await.signal.n ? between(s, 0, FLOW_SENDERS) : 0;
        for (int k = 0; k < n; k++)
            plan_signal(s, f, i, (int)between(s, 0, FLOW_SENDERS - 1));
    }
}

/* ---- cancel, pause, resume: what waits ---- */

static void stop_next(struct flow_request *r);
static void stop_recall(struct flow_request *r);

static void stop_add(struct flow_request *r, const struct op_stop *op)
{
    for (size_t i = 0; i < op->ret_running_count && r->claimed_count < CLAIMED_MAX; i++)
        r->claimed[r->claimed_count++] = op->ret_running[i];
    for (size_t i = 0; i < op->ret_run_count && r->run_count < RUNS_MAX; i++)
        r->runs[r->run_count++] = op->ret_runs[i];
}

static void stop_stored(struct op *op)
{
    struct flow_request *r = op->context;
    bool is_map = (op->rc == ERR_NOT_FOUND || op->rc == ERR_CONFLICT) && r->run_at > 0; /* or a run that has ended */
    if (op->rc == ERR_OK)
        stop_add(r, &r->write.stop);
    arena_release(&op->arena);
    tell_node(r, r->write.stop.ret_unblocked_lanes);
    if (r->sim->ghost == r->at || (op->rc && !is_map)) {
        try_again(r);
        return;
    }
    r->run_at++;
    stop_next(r);
}

static void stop_next(struct flow_request *r)
{
    if (r->run_at == r->run_count) {
        stop_recall(r);
        return;
    }
    enum run_stop stop = r->compensate ? RUN_CANCELLED_AND_UNDONE : RUN_CANCELLED;
    r->write.stop = (struct op_stop){ .op = { .kind = OP_STOP },
                                      .tenant = r->flow->tenant,
                                      .run = r->runs[r->run_at],
                                      .change = r->change,
                                      .stop = r->change == RUN_CANCEL ? stop : RUN_GOES_ON,
                                      .why = S("a user asked for it"),
                                      .max = STOP_ROWS,
                                      .now_ms = node_wall_ms(r->at) };
    submit(r, stop_stored);
}

/* ---- what is claimed ---- */

static void stop_follow(struct sim *s, void *context);

static void stop_recalled(struct recall *recall)
{
    struct flow_request *r = recall->context;
    if (r->sim->ghost == r->at) {
        try_again(r);
        return;
    }
    struct flow_task *t = flows_task(r->sim, recall->running->id);
    r->unsure = r->unsure || (recall->result == RECALL_RUNNING && (!recall->known || recall->unsure || recall->told));
    if (t && recall->result == RECALL_RUNNING) /* also if it waits in the queue */
        t->fired_fence = recall->running->fence;
    stop_recall(r);
}

static void stop_replacement(struct flow_request *r)
{
    r->replace = r->running;
    r->replace.version++;
    r->replace.updated_ms = node_wall_ms(r->at);
    r->replace.claim = (struct uuid){ 0 };
    task_forget_delays(&r->replace);
    r->replace.state = r->change == RUN_PAUSE ? TASK_PAUSED : TASK_CANCELLED;
    if (r->change == RUN_PAUSE)
        return;
    r->replace.completed_ms = node_wall_ms(r->at);
    r->replace.last_error = S("a user asked for it");
}

/* Asks for the next claimed step. The planner sees itself that a control step is stopped. */
static void stop_recall(struct flow_request *r)
{
    struct sim *s = r->sim;
    struct error e;
    while (r->change != RUN_RESUME && r->claimed_at < r->claimed_count && s->steady_us < r->until_us) {
        const struct fenced_id *x = &r->claimed[r->claimed_at++];
        if (reader_get(s->reader, r->flow->tenant, x->id, &r->arena, &r->running, &e) ||
            r->running.state != TASK_RUNNING || r->running.fence != x->fence || r->running.target == TARGET_WORKFLOW)
            continue;
        stop_replacement(r);
        r->recall = (struct recall){ .running = &r->running,
                                     .replace = &r->replace,
                                     .abort = r->change == RUN_CANCEL,
                                     .lasts = r->change == RUN_PAUSE,
                                     .done = stop_recalled,
                                     .context = r };
        r->at->poked = true;
        node_recall(r->at->node, &r->recall); /* may be done, and r gone, before it returns */
        return;
    }
    after_us(s, 0, stop_follow, r);
}

/* ---- the answer ---- */

/* Steps that are still running, or wait again because a node gave them back. */
static void stop_count(struct flow_request *r, size_t *ret_running, size_t *ret_waiting)
{
    struct error e;
    *ret_running = *ret_waiting = 0;
    for (size_t i = 0; i < r->run_count; i++) {
        struct tasks v = { 0 };
        struct step_filter f = { .tenant = r->flow->tenant,
                                 .run = r->runs[i],
                                 .states = 1U << TASK_RUNNING | 1U << TASK_SCHEDULED,
                                 .limit = OPEN_ROWS_MAX };
        if (reader_steps(r->sim->reader, &f, &r->arena, &v, &e))
            abort();
        for (size_t k = 0; k < v.n; k++) {
            bool is_call = v.v[k].target != TARGET_WORKFLOW && place_kind(v.v[k].place) == PLACE_KIND_STEP;
            *ret_running += is_call && v.v[k].state == TASK_RUNNING;
            *ret_waiting += is_call && v.v[k].state == TASK_SCHEDULED;
        }
    }
}

/* promised: nothing of the run starts from now on. */
static void stop_acknowledge(struct flow_request *r, bool promised)
{
    static const char *const names[] = { "cancel", "pause", "resume" };
    trace(r->sim, "user: acknowledged %s of run %s%s", names[r->change], short_id(r->flow->id),
          promised ? "" : ", not all of it is done");
    if (promised)
        r->flow->quiet_us = r->change == RUN_RESUME ? INT64_MAX : r->sim->steady_us;
    r->flow->busy = false;
    request_end(r);
}

static void stop_follow(struct sim *s, void *context)
{
    struct flow_request *r = context;
    size_t running, waiting;
    bool late = s->steady_us >= r->until_us;
    if (r->change != RUN_CANCEL) {
        stop_acknowledge(r, !late && !r->unsure);
        return;
    }
    stop_count(r, &running, &waiting);
    if (!running && !waiting)
        stop_acknowledge(r, true);
    else if (late)
        stop_acknowledge(r, false);
    else if (!waiting)
        after_us(s, LOOK_AGAIN_US, stop_follow, r);
    else if (!r->at->node)
        try_again(r);
    else {
        r->run_at = r->claimed_at = r->claimed_count = 0;
        stop_next(r);
    }
}

/* A run that undoes what it did has failed: it is not cancelled any more. */
static bool is_being_undone(const struct flow *f)
{
    for (size_t i = 0; i < f->task_count; i++)
        if (place_kind(f->tasks[i].place) == PLACE_KIND_UNDO && f->tasks[i].claimed_us)
            return true;
    return false;
}

static void stop_begin(struct sim *s, void *context)
{
    struct flow_request *r = context;
    struct flow *f = r->flow;
    struct task t;
    struct error e;
    r->at = some_node(s);
    arena_reset(&r->arena);
    if (!r->at) {
        try_again(r);
        return;
    }
    if (reader_get(s->reader, f->tenant, f->id, &r->arena, &t, &e) || !f->opened || task_is_final(t.state) ||
        (r->change == RUN_CANCEL && is_being_undone(f))) {
        refuse(r, "it is not open");
        return;
    }
    f->cancel_sent = f->cancel_sent || r->change == RUN_CANCEL;
    f->pause_sent = f->pause_sent || r->change == RUN_PAUSE;
    if (r->change == RUN_RESUME)
        f->quiet_us = INT64_MAX;
    r->runs[0] = f->id;
    r->run_count = 1;
    r->run_at = r->claimed_at = r->claimed_count = 0;
    r->unsure = false;
    r->until_us = s->steady_us + RECALL_US;
    stop_next(r);
}

/* ---- retry ---- */

static void retry_stored(struct op *op)
{
    struct flow_request *r = op->context;
    struct sim *s = r->sim;
    bool told = op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE;
    arena_release(&op->arena);
    if (s->ghost == r->at) {
        try_again(r);
        return;
    }
    if (told && r->at->node) {
        tell_node(r, op_unblocked(r->write.put.ret_unblocked_lanes, r->write.put.ret_arrivals_left));
        node_nudge(r->at->node, &r->replace, 1);
    }
    if (op->rc) {
        try_again(r);
        return;
    }
    trace(s, "user: acknowledged retry of run %s", short_id(r->flow->id));
    r->flow->busy = false;
    request_end(r);
}

static struct tasks retry_rows(struct flow_request *r, struct uuid run)
{
    struct tasks v = { 0 };
    struct error e;
    struct step_filter f = { .tenant = r->flow->tenant, .run = run, .limit = OPEN_ROWS_MAX };
    if (reader_steps(r->sim->reader, &f, &r->arena, &v, &e))
        abort();
    return v;
}

/* Whether all compensations of the run are COMPLETED; *ret_some: it has one. */
static bool retry_is_undone(struct flow_request *r, struct uuid run, bool *ret_some)
{
    struct tasks v = retry_rows(r, run);
    size_t total = 0, undone = 0;
    for (size_t i = 0; i < v.n; i++) {
        bool is_undo = place_kind(v.v[i].place) == PLACE_KIND_UNDO;
        total += is_undo;
        undone += is_undo && v.v[i].state == TASK_COMPLETED;
    }
    *ret_some = total > 0;
    return total > 0 && undone == total;
}

/* A run within it that failed and was undone cannot go on. */
static bool retry_is_undone_below(struct flow_request *r, struct uuid run, unsigned named)
{
    struct tasks v = retry_rows(r, run);
    bool some;
    for (size_t i = 0; i < v.n; i++) {
        const struct task *t = &v.v[i];
        bool failed = t->state == TASK_FAILED || t->state == TASK_EXPIRED || t->state == TASK_CANCELLED;
        bool is_chosen = !named || named >> place_step(t->place) & 1;
        if (!failed || t->target != TARGET_WORKFLOW || !(t->links & TASK_OPENED) || !is_chosen)
            continue;
        if (retry_is_undone(r, t->id, &some) || retry_is_undone_below(r, t->id, 0))
            return true;
    }
    return false;
}

/* Some of the steps that failed. Of a run that was stopped the oracle does not know which were cancelled. */
static unsigned retry_choose(struct flow_request *r)
{
    struct sim *s = r->sim;
    struct tasks v = retry_rows(r, r->flow->id);
    unsigned named = 0;
    if (r->flow->stop != RUN_GOES_ON || !chance(s, 50))
        return 0;
    for (size_t i = 0; i < v.n; i++) {
        const struct task *t = &v.v[i];
        bool is_step = place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) < 0;
        bool failed = t->state == TASK_FAILED || t->state == TASK_EXPIRED || t->state == TASK_CANCELLED;
        named |= is_step && failed && chance(s, 50) ? 1U << place_step(t->place) : 0;
    }
    return named;
}

/* As src/api/workflow/retry.c. */
static bool retry_is_possible(struct flow_request *r)
{
    struct flow *f = r->flow;
    struct error e;
    bool has_undo;
    if (reader_get(r->sim->reader, f->tenant, f->id, &r->arena, &r->running, &e) || !f->opened ||
        !task_may_begin_again(r->running.state, TASK_SCHEDULED) || retry_is_undone(r, f->id, &has_undo))
        return false;
    r->named = has_undo ? 0 : retry_choose(r);
    return has_undo || !retry_is_undone_below(r, f->id, r->named);
}

static struct str retry_extra(struct flow_request *r)
{
    struct buf text;
    struct str kept;
    buf_init(&text, 256);
    for (unsigned i = 0; i < FLOW_STEPS_MAX; i++)
        if (r->named >> i & 1)
            buf_printf(&text, "%s\"s%u\"", text.n ? "," : "{\"retry_steps\":[", i);
    buf_text(&text, text.n ? "]}" : "");
    kept = flows_keep(r->sim, &text);
    buf_release(&text);
    return kept;
}

static void retry_begin(struct sim *s, void *context)
{
    struct flow_request *r = context;
    struct flow *f = r->flow;
    struct task *t = &r->replace;
    r->at = some_node(s);
    arena_reset(&r->arena);
    if (!r->at) {
        try_again(r);
        return;
    }
    if (!retry_is_possible(r)) {
        refuse(r, "it cannot be retried");
        return;
    }
    f->quiet_us = INT64_MAX;
    oracle_redriven(f->subject);
    *t = r->running;
    t->extra = retry_extra(r);
    t->version++;
    t->updated_ms = node_wall_ms(r->at);
    t->state = TASK_SCHEDULED;
    t->attempts = t->losses = 0;
    t->completed_ms = t->resolved_ms = 0;
    t->cause = t->resolution = t->last_error = (struct str){ NULL, 0 };
    t->claim = (struct uuid){ 0 };
    task_forget_delays(t);
    task_set_due(t, node_wall_ms(r->at));
    t->links = t->links & TASK_OPENED ? task_links_again(t->links) : t->links;
    r->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = t,
                                    .version = r->running.version,
                                    .fence = r->running.fence,
                                    .state = r->running.state };
    submit(r, retry_stored);
}

/* ---- decisions on steps ---- */

static void decision_stored(struct op *op)
{
    struct flow_request *r = op->context;
    struct sim *s = r->sim;
    bool told = op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE;
    arena_release(&op->arena);
    if (told && r->at->node && s->ghost != r->at) {
        tell_node(r, op_unblocked(r->write.put.ret_unblocked_lanes, r->write.put.ret_arrivals_left));
        node_nudge(r->at->node, &r->replace, 1);
    }
    if (s->ghost == r->at || (op->rc && op->rc != ERR_CONFLICT)) {
        try_again(r);
        return;
    }
    trace(s, "user: %s decision on step %u of run %s", op->rc ? "refused" : "acknowledged", r->step,
          short_id(r->flow->id));
    r->flow->busy = false;
    request_end(r);
}

/* As src/api/workflow/step_decisions.c. A step that is claimed is left alone: to recall it is the same as for a pause. */
static bool decision_make(struct flow_request *r)
{
    struct action_plan plan;
    struct error e;
    bool starts = r->decision == ACTION_RUN_NOW;
    const struct task *t = &r->running;
    bool opens = t->target == TARGET_WORKFLOW && !r->flow->definition->dag->steps[r->step].await.signal.n;
    if (task_is_final(t->state) || t->state == TASK_RUNNING || opens || (starts && t->links & TASK_AWAITS) ||
        task_act(t, starts ? ACTION_RUN_NOW : ACTION_FORCE_COMPLETE, true, NULL, (struct uuid){ 0 },
                 node_wall_ms(r->at), &plan, &e) ||
        !plan.changes)
        return false;
    r->replace = plan.task;
    r->replace.links = (r->replace.links | TASK_BY_HAND) & ~TASK_AWAITS;
    if (starts)
        return true;
    r->replace.state = r->decision == ACTION_CANCEL ? TASK_SKIPPED : TASK_COMPLETED;
    r->replace.last_error = r->decision == ACTION_CANCEL ? S("skipped by hand") : S("");
    return true;
}

static void decide_begin(struct sim *s, void *context)
{
    struct flow_request *r = context;
    struct flow *f = r->flow;
    struct error e;
    r->at = some_node(s);
    arena_reset(&r->arena);
    if (!r->at) {
        try_again(r);
        return;
    }
    struct uuid id = place_id(f->id, place_of_step(r->step));
    if (f->ended || f->stop != RUN_GOES_ON || reader_get(s->reader, f->tenant, id, &r->arena, &r->running, &e) ||
        !decision_make(r)) {
        refuse(r, "no decision is possible");
        return;
    }
    r->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = &r->replace,
                                    .version = r->running.version,
                                    .fence = r->running.fence,
                                    .state = r->running.state };
    submit(r, decision_stored);
}

/* ---- random requests ---- */

static struct flow *some_run(struct sim *s)
{
    size_t n = 0;
    list_each (&s->flows.runs, link)
        n += container_of(link, struct flow, link)->subject != NULL;
    if (!n)
        return NULL;
    int64_t at = between(s, 0, (int64_t)n - 1);
    list_each (&s->flows.runs, link) {
        struct flow *f = container_of(link, struct flow, link);
        if (f->subject && at-- == 0)
            return f;
    }
    return NULL;
}

/* What was ended may be half purged: a retry would not know all that was done. */
static void act_on(struct sim *s, struct flow *f)
{
    if (!f->opened || f->busy || s->healed || (f->ended && (s->profile.purges || f->was_rerun)))
        return;
    f->busy = true;
    static const enum action decisions[] = { ACTION_RUN_NOW, ACTION_FORCE_COMPLETE, ACTION_CANCEL };
    bool decides = !f->ended && chance(s, DECIDES_PERCENT);
    struct flow_request *r = request_new(s, f, f->ended ? retry_begin : decides ? decide_begin : stop_begin);
    r->decision = decisions[between(s, 0, 2)];
    r->step = (uint32_t)between(s, 0, (int64_t)f->definition->dag->n - 1);
    r->change = chance(s, 20) ? RUN_CANCEL : chance(s, 50) ? RUN_PAUSE : RUN_RESUME;
    r->compensate = chance(s, 50);
    r->attempt(s, r);
}

struct flow *flows_some_ended(struct sim *s)
{
    for (int i = 0; i < LOOKS && !s->profile.purges; i++) {
        struct flow *f = some_run(s);
        if (f && f->opened && f->ended && !f->busy)
            return f;
    }
    return NULL;
}

void flows_act(struct sim *s)
{
    struct flow *f = NULL;
    for (int i = 0; i < LOOKS && !(f && f->opened && !f->busy); i++)
        f = some_run(s);
    if (f)
        act_on(s, f);
}

static void pounce(struct sim *s, void *context)
{
    act_on(s, context);
}

void flows_pounce(struct sim *s, struct flow *f)
{
    for (int i = 0; i < POUNCES && f->subject && chance(s, POUNCE_PERCENT); i++)
        after_us(s, chance(s, 50) ? between(s, 0, POUNCE_US) : between(s, 0, 5 * SECOND_US), pounce, f);
}

void flows_free_requests(struct sim *s)
{
    if (!s->profile.flows)
        return;
    list_each (&s->flows.requests, link)
        request_end(container_of(link, struct flow_request, link));
}
