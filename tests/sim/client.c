/* What an API does for its users, as src/api does it: it reads the row, the core says what the row becomes, and the
 * writer changes it if it is still as it was read; otherwise it begins anew. A claimed task is recalled from its
 * owner.
 *
 * Three cases are easily forgotten:
 *  - A change whose answer was lost may have been made, so the node is nudged all the same.
 *  - For the same reason it is nudged if nothing was to be changed.
 *  - If a recurring task is stopped, its occurrences that are armed on the node are recalled, too. */
#include <assert.h>
#include <stdlib.h>

#include "request.h"
#include "support/random_bytes.h"

enum {
    TRIES_MAX = 8,
    RECALL_US = 500000,
    LOOK_AGAIN_US = 20000,
    CHILDREN_MAX = 100,
    SLEEPY_MS = 5000,
    POUNCE_PERCENT = 30,
    POUNCE_US = 60000,
    FLOW_PERCENT = 60,
};

static timer_fn attempt;

static void nudge(struct request *r, const struct task *t)
{
    struct sim *s = r->sim;
    struct task told = *t;
    if (!r->at->node || s->ghost == r->at)
        return;
    if (s->plant == PLANT_SLEEPY)
        told.due_ms += SLEEPY_MS;
    node_nudge(r->at->node, &told, 1);
    r->at->poked = true;
}

static void request_free(struct request *r)
{
    if (r->subject)
        r->subject->busy = false;
    list_remove(&r->link);
    arena_release(&r->write.op.arena);
    arena_release(&r->arena);
    free(r);
}

static bool stops(enum action a)
{
    return a == ACTION_CANCEL || a == ACTION_PAUSE || a == ACTION_DELETE;
}

/* ---- answers ---- */

static void refuse(struct request *r, const char *why)
{
    trace(r->sim, "user: refused, %s", why);
    r->sim->stats->refused++;
    request_free(r);
}

static void act_on(struct sim *s, struct subject *x);

/* A change right before the task is due, when it is claimed and armed: there a change is hardest. */
static void pounce(struct sim *s, void *context)
{
    struct subject *x = context;
    if (!s->healed && !x->busy && x->acked)
        act_on(s, x);
}

static void acknowledge(struct request *r)
{
    struct sim *s = r->sim;
    struct subject *x = r->subject ? r->subject : oracle_find(s, r->tasks[0].id);
    if (r->kind == REQUEST_CREATE) {
        for (size_t i = 0; i < r->count; i++)
            oracle_acked(s, oracle_find(s, r->tasks[i].id));
    } else if (r->kind == REQUEST_ACT && stops(r->action)) {
        oracle_quiet(s, r->subject, r->action);
    }
    if (r->kind == REQUEST_ACT && r->plan.has_also)
        oracle_acked(s, oracle_find(s, r->plan.also.id));
    trace(s, "user: acknowledged %s %s",
          r->kind == REQUEST_CREATE ? "create"
          : r->kind == REQUEST_EDIT ? "edit"
                                    : action_name(r->action),
          short_id(x->id));
    if (r->kind != REQUEST_ACT && !s->profile.isolation && !x->flow && chance(s, POUNCE_PERCENT)) {
        const struct task *t = r->kind == REQUEST_CREATE ? &r->tasks[0] : &r->plan.task;
        after_us(s, (t->due_ms - wall_ms(s)) * 1000 - between(s, 0, POUNCE_US), pounce, x);
    }
    request_free(r);
    if (!s->healed && !x->busy && !x->flow && chance(s, s->profile.impatient_percent))
        act_on(s, x);
}

static void try_again(struct request *r, int64_t delay_us)
{
    if (++r->tries > TRIES_MAX)
        refuse(r, "tried too often");
    else
        after_us(r->sim, delay_us, attempt, r);
}

static void connection_lost(struct request *r)
{
    if (r->answered)
        request_free(r);
    else
        try_again(r, between(r->sim, 100000, 6000000));
}

/* ---- creating ---- */

static void key_was_used(struct request *r)
{
    struct sim *s = r->sim;
    struct idempotency record;
    struct error e;
    struct uuid id;
    if (reader_idempotency(s->reader, r->key.tenant, r->key.key, &r->arena, &record, &e) ||
        record.answer.n != sizeof id.b) {
        breach(s, BREACH_TWICE_MADE, "a key was used and has no record");
        refuse(r, "no record");
        return;
    }
    memcpy(id.b, record.answer.p, sizeof id.b);
    assert(oracle_find(s, id));
    r->tasks[0].id = id;
    nudge(r, &r->tasks[0]);
    acknowledge(r);
}

static void created(struct op *op)
{
    struct request *r = op->context;
    if (r->sim->ghost == r->at) {
        connection_lost(r);
        return;
    }
    if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "idempotency-key") == 0) {
        key_was_used(r);
        return;
    }
    if (op->rc == ERR_INVALID && r->depends.n) {
        refuse(r, "a task that it depends on is gone");
        return;
    }
    if (op->rc == ERR_CONFLICT)
        breach(r->sim, BREACH_TWICE_MADE, "insert of %s: %s", short_id(r->tasks[0].id), op->error.text);
    for (size_t i = 0; i < r->count; i++)
        nudge(r, &r->tasks[i]);
    if (op->rc)
        try_again(r, between(r->sim, 20000, 500000));
    else
        acknowledge(r);
}

/* A server makes a new id for each request: only the idempotency key tells that two are the same. */
static void new_id(struct request *r)
{
    struct sim *s = r->sim;
    struct subject *before = oracle_find(s, r->tasks[0].id);
    r->tasks[0].id = uuid_next(&s->ids, wall_ms(s));
    oracle_add(s, &r->tasks[0])->rival = before;
}

static void submit_create(struct request *r)
{
    if (r->has_key && r->tries)
        new_id(r);
    r->write.insert =
        (struct op_insert){ .op = { .kind = OP_INSERT, .done = created, .context = r, .arena = r->write.op.arena },
                            .tasks = r->tasks,
                            .count = r->count,
                            .depends = r->depends.n ? &r->depends : NULL,
                            .definition = r->definition };
    if (r->has_key) {
        r->key.tenant = r->tasks[0].tenant;
        r->key.created_ms = wall_ms(r->sim);
        r->key.answer = (struct str){ (const char *)r->tasks[0].id.b, sizeof r->tasks[0].id.b };
        r->write.insert.idempotency = &r->key;
    }
    writer_submit(&r->at->writer.base, &r->write.op);
}

/* ---- changing: by the writer ---- */

static void stop_children(struct request *r);

static void put_done(struct op *op)
{
    struct request *r = op->context;
    struct sim *s = r->sim;
    if (s->ghost == r->at) {
        connection_lost(r);
        return;
    }
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE) {
        if (r->at->node)
            node_on_lanes_unblocked(
                r->at->node,
                op->rc ? UINT64_MAX : op_unblocked(r->write.put.ret_unblocked_lanes, r->write.put.ret_arrivals_left));
        r->plan.task.cursor_ms =
            op->rc ? wall_ms(s) : r->write.put.ret_cursor_ms; /* withdrawn occurrences set it back */
        nudge(r, &r->plan.task);
        if (r->plan.has_also)
            nudge(r, &r->plan.also);
    }
    if (op->rc == ERR_NOT_FOUND)
        refuse(r, "it is gone");
    else if (op->rc == ERR_CONFLICT)
        try_again(r, 0);
    else if (op->rc)
        try_again(r, between(s, 20000, 500000));
    else if (r->current.kind == TASK_RECURRING && r->kind == REQUEST_ACT && stops(r->action))
        stop_children(r);
    else
        acknowledge(r);
}

static void put(struct request *r)
{
    r->write.put = (struct op_put){
        .op = { .kind = OP_PUT, .done = put_done, .context = r, .arena = r->write.op.arena },
        .task = &r->plan.task,
        .version = r->current.version,
        .fence = r->current.fence,
        .state = r->current.state,
        .cursor_ms = r->current.cursor_ms,
        .withdraw = r->plan.withdraw,
        .withdraw_from_ms = r->withdraw_from_ms,
        .also = r->plan.has_also ? &r->plan.also : NULL,
    };
    writer_submit(&r->at->writer.base, &r->write.op);
}

/* ---- changing: by the owner of a claimed task ---- */

static void recall_took_too_long(struct sim *s, void *context)
{
    struct request *r = context;
    r->timer = NULL;
    r->answered = true; /* 409; the recall goes on */
    trace(s, "user: refused, not given back in time");
}

static void start_recall(struct request *r, const struct task *of, const struct task *replace, bool abort,
                         void (*done)(struct recall *))
{
    r->replace = *replace;
    r->recall = (struct recall){ .running = of, .replace = &r->replace, .abort = abort, .done = done, .context = r };
    r->timer = after_us(r->sim, RECALL_US, recall_took_too_long, r);
    r->at->poked = true;
    node_recall(r->at->node, &r->recall); /* may be done, and r gone, before it returns */
}

/* False: the user has stopped waiting, and the request is gone. */
static bool recall_ended(struct request *r)
{
    timer_cancel(r->sim, r->timer);
    r->timer = NULL;
    if (r->answered) {
        request_free(r);
        return false;
    }
    if (r->sim->ghost == r->at) {
        connection_lost(r);
        return false;
    }
    return true;
}

static void recalled(struct recall *recall)
{
    struct request *r = recall->context;
    if (!recall_ended(r))
        return;
    switch (recall->result) {
    case RECALL_DONE:
        nudge(r, &r->replace);
        acknowledge(r);
        break;
    case RECALL_ABORTING:
        r->aborting_fence = recall->running->fence;
        try_again(r, LOOK_AGAIN_US * 4);
        break;
    case RECALL_FREED: try_again(r, 0); break;
    case RECALL_RUNNING:
    case RECALL_ANSWERED: refuse(r, "it runs"); break;
    }
}

/* ---- stopping a recurring task: its armed occurrences are recalled, too ---- */

static void next_child(struct request *r);

static void child_recalled(struct recall *recall)
{
    struct request *r = recall->context;
    if (!recall_ended(r))
        return;
    if (recall->result == RECALL_FREED || (recall->result == RECALL_RUNNING && !recall->known)) {
        try_again(r, LOOK_AGAIN_US);
        return;
    }
    r->children_recalled = r->children_recalled || recall->result == RECALL_DONE;
    r->child++;
    next_child(r);
}

static void next_child(struct request *r)
{
    if (r->child == r->children.n) {
        if (r->children_recalled && r->action == ACTION_PAUSE)
            try_again(r, 0); /* they wait in the store again, and are withdrawn like all others */
        else
            acknowledge(r);
        return;
    }
    struct task replace = r->children.v[r->child];
    bool stays = replace.runs_count == 0 && r->action == ACTION_PAUSE;    /* requested by a user */
    bool retries = task_has_fired(&replace) && r->action == ACTION_PAUSE; /* a retry is no start */
    if (stays || retries) {
        r->child++;
        next_child(r);
        return;
    }
    replace.state = r->action == ACTION_PAUSE ? TASK_PAUSED : TASK_CANCELLED;
    replace.claim = (struct uuid){ 0 };
    replace.version++;
    start_recall(r, &r->children.v[r->child], &replace, false, child_recalled);
}

static void stop_children(struct request *r)
{
    struct error e;
    struct task_page page;
    struct task_filter f = {
        .tenant = r->subject->tenant, .states = 1u << TASK_RUNNING, .parent = r->subject->id, .limit = CHILDREN_MAX
    };
    r->children_recalled = false;
    r->child = 0;
    if (reader_list(r->sim->reader, &f, &r->arena, &page, &e)) {
        refuse(r, e.text);
        return;
    }
    r->children = page.tasks;
    next_child(r);
}

/* ---- one try ---- */

static enum err make_plan(struct request *r, struct error *e)
{
    struct sim *s = r->sim;
    r->withdraw_from_ms = 0;
    if (r->kind == REQUEST_EDIT)
        return make_edit(r) ? ERR_OK : error_set(e, ERR_CONFLICT, "nothing to edit");
    enum err rc =
        task_act(&r->current, r->action, false, NULL, uuid_next(&s->ids, wall_ms(s)), wall_ms(s), &r->plan, e);
    bool stopped = r->current.kind == TASK_RECURRING && stops(r->action) && !r->current.deleted;
    if (rc == ERR_OK && stopped) /* if it is stopped already: are all of its occurrences? */
        r->plan.changes = r->plan.withdraw = true;
    return rc;
}

/* What the oracle must know before it can happen. */
static void announce(struct request *r)
{
    struct sim *s = r->sim;
    struct subject *x = r->subject;
    if (r->kind == REQUEST_EDIT) {
        x->due_min_ms = min_of(x->due_min_ms, r->plan.task.scheduled_ms);
        x->withdrawn = true;
        if (r->has_new_rule) {
            x->schedule_edited = true;
            x->rules[x->rule_count++] = r->new_rule;
        }
        return;
    }
    x->stop_sent = x->stop_sent || r->action == ACTION_CANCEL || r->action == ACTION_DELETE;
    x->pause_sent = x->pause_sent || r->action == ACTION_PAUSE;
    x->force_sent = x->force_sent || r->action == ACTION_FORCE_COMPLETE;
    x->withdrawn = x->withdrawn || r->plan.withdraw;
    if (r->action == ACTION_RETRY)
        oracle_redriven(x);
    if (r->action == ACTION_RESUME || r->action == ACTION_RETRY ||
        (r->action == ACTION_RUN_NOW && r->current.kind != TASK_RECURRING))
        oracle_awake(s, x);
    if (r->plan.has_also) {
        struct subject *also = oracle_add(s, &r->plan.also);
        also->manual = true;
    }
}

static void attempt_change(struct request *r)
{
    struct sim *s = r->sim;
    struct error e;
    arena_reset(&r->arena);
    if (reader_get(s->reader, r->subject->tenant, r->subject->id, &r->arena, &r->current, &e) || make_plan(r, &e)) {
        refuse(r, e.text);
        return;
    }
    if (!r->plan.changes) {
        nudge(r, &r->current);
        acknowledge(r);
        return;
    }
    bool stop_for_good = r->kind == REQUEST_ACT && stops(r->action) && r->action != ACTION_PAUSE;
    announce(r);
    if (r->current.state != TASK_RUNNING)
        put(r);
    else if (r->aborting_fence == r->current.fence)
        try_again(r, LOOK_AGAIN_US * 4);
    else
        start_recall(r, &r->current, &r->plan.task, stop_for_good, recalled);
}

static void attempt(struct sim *s, void *context)
{
    struct request *r = context;
    r->at = some_node(s);
    if (!r->at)
        try_again(r, between(s, 200000, 4000000));
    else if (r->kind == REQUEST_CREATE)
        submit_create(r);
    else
        attempt_change(r);
}

/* ---- entry points ---- */

static struct subject *some_subject(struct sim *s)
{
    struct oracle *o = s->oracle;
    for (int tries = 0; tries < 8 && o->n; tries++) {
        struct subject *x = o->v[between(s, 0, (int64_t)o->n - 1)];
        if (x->acked && !x->busy && !x->manual && !x->flow && x->kind != TASK_OCCURRENCE)
            return x;
    }
    return NULL;
}

/* x NULL: creates something. */
static void act_on(struct sim *s, struct subject *x)
{
    static const enum action actions[] = { ACTION_CANCEL,  ACTION_PAUSE,   ACTION_PAUSE, ACTION_RESUME,
                                           ACTION_RESUME,  ACTION_RETRY,   ACTION_RETRY, ACTION_FORCE_COMPLETE,
                                           ACTION_RUN_NOW, ACTION_RUN_NOW, ACTION_DELETE };
    struct request *r = xnew(*r);
    r->sim = s;
    arena_init(&r->arena, 4 << 20);
    arena_init(&r->write.op.arena, 4096);
    list_push(&s->requests, &r->link);
    if (x) {
        r->subject = x;
        x->busy = true;
        r->kind = chance(s, 30) ? REQUEST_EDIT : REQUEST_ACT;
        r->action = actions[between(s, 0, array_count(actions) - 1)];
    } else if (s->profile.isolation) {
        make_burst(r);
    } else if (s->profile.flows && (chance(s, FLOW_PERCENT) || s->profile.purges)) {
        make_run(r);
    } else if (chance(s, 25)) {
        make_recurring(r);
    } else {
        make_one_time(r);
    }
    random_bytes(&s->random, r->key.key, sizeof r->key.key);
    attempt(s, r);
}

void client_act(struct sim *s)
{
    if (s->profile.flows && chance(s, FLOW_PERCENT / 2)) {
        flows_act(s);
        return;
    }
    act_on(s, !s->profile.isolation && chance(s, 45) ? some_subject(s) : NULL);
}

void client_free(struct sim *s)
{
    list_each (&s->requests, link)
        request_free(container_of(link, struct request, link));
}
