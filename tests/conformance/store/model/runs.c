/* Runs of workflows in random sequences; see store_model.h. The graph of a run follows from its id, so that pages are
 * repeated with the same rows. */
#include <stdio.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)
#define number_same(what, a, b)                                                                                        \
    ((a) == (b) ? true : differ("%s: %lld and %lld", (what), (long long)(a), (long long)(b)))

enum { STEPS_MAX = 6, ITEMS_MAX = 5, PARENTS_PERCENT = 40, HASHES = 4, DEPTH_MAX = 2, LOOKS = 100 };
static const char *const model_signals[2] = { "go", "sign" };
static const char *const model_senders[3] = { "ann", "bob", "cid" };
static const char *const model_workflows[3] = { "deploy", "etl", "etl.daily" };

static void some_hash(struct model *m, uint8_t ret[DEFINITION_HASH])
{
    memset(ret, 0, DEFINITION_HASH);
    ret[0] = (uint8_t)below(m, HASHES);
}

const struct definition *model_definition(struct model *m, int32_t tenant)
{
    static const char *const texts[HASHES] = { "{}", "{\"steps\": []}", "{\"steps\": [1]}", "{\"steps\": [2]}" };
    struct definition *d = arena_array(&m->arena, struct definition, 1);
    *d = (struct definition){ .tenant = tenant };
    some_hash(m, d->hash);
    d->text = str_from(texts[d->hash[0]]);
    return d;
}

bool model_look_for_target(struct model *m, enum task_state state, enum target_kind target, struct task *ret)
{
    for (int i = 0; i < LOOKS && model_look(m, ret); i++)
        if (ret->state == state && ret->target == target)
            return true;
    return false;
}

/* A control task that runs under a claim, if a few looks find one. */
static bool look_for_control(struct model *m, bool step, struct task *ret)
{
    for (int i = 0; i < LOOKS; i++)
        if (!model_look(m, ret))
            return false;
        else if (ret->state == TASK_RUNNING && ret->target == TARGET_WORKFLOW && !(ret->links & TASK_OPEN) &&
                 (!step || !uuid_is_nil(ret->run)))
            return true;
    /* Behind a claim of the same batch this may succeed, so it is control work, too. */
    return chance(m, 10) && ret->target == TARGET_WORKFLOW && ret->fence > 0 &&
           (ret->state != TASK_RUNNING || ret->links & TASK_OPEN);
}

/* A run that was opened, mostly; else some task. */
static bool look_for_run(struct model *m, struct task *ret)
{
    struct run_row r;
    for (int i = 0; i < LOOKS && model_look(m, ret); i++)
        if (reader_run(m->reader, ret->tenant, ret->id, &m->arena, &r, NULL) == ERR_OK || chance(m, 1))
            return true;
    return false;
}

/* ---- OP_OPEN ---- */

static struct task some_step(struct model *m, const struct task *of, struct uuid run, int64_t place)
{
    struct task t = model_task(m);
    t.id = place_id(run, place);
    t.tenant = of->tenant;
    t.kind = TASK_ONE_TIME;
    t.run = run;
    t.place = place;
    t.name = (struct str){ 0 };
    t.schedule = (struct schedule){ 0 };
    t.cursor_ms = t.completed_ms = 0;
    t.state = TASK_SCHEDULED;
    t.target = t.id.b[14] % 3 == 0 ? TARGET_WORKFLOW : t.id.b[14] % 5 ? TARGET_NOOP : TARGET_WORKER;
    t.links = (chance(m, 50) ? TASK_KEEPS_OUTPUT : 0) | (chance(m, 20) ? TASK_PLANNED : 0);
    if (t.target == TARGET_WORKFLOW) { /* it goes on in the lane of control work, and takes no slot */
        t.concurrency_key = (struct str){ 0 };
        t.concurrency_limit = 0;
    }
    return t;
}

struct shape {
    size_t n;
    bool edges[STEPS_MAX][STEPS_MAX]; /* [child][parent] */
    enum dag_type types[STEPS_MAX][STEPS_MAX];
    enum dag_join joins[STEPS_MAX];
    bool ends[STEPS_MAX];
};

static struct prng prng_of(struct uuid id)
{
    struct prng random;
    uint64_t seed;
    memcpy(&seed, id.b + 8, sizeof seed);
    prng_init(&random, seed);
    return random;
}

static struct shape shape_of(struct uuid run)
{
    struct prng random = prng_of(run);
    struct shape s = { .n = 1 + prng_below(&random, STEPS_MAX) };
    for (size_t i = 0; i < s.n; i++) {
        s.joins[i] = (enum dag_join)prng_below(&random, DAG_SOME + 1);
        s.ends[i] = true;
        for (size_t j = 0; j < i; j++) {
            s.edges[i][j] = prng_below(&random, 100) < PARENTS_PERCENT;
            s.types[i][j] = (enum dag_type)prng_below(&random, DAG_MUST_FAIL + 1);
            s.ends[j] = s.ends[j] && !s.edges[i][j];
        }
    }
    return s;
}

static struct open_row row_of_step(struct model *m, const struct task *run, const struct shape *s, size_t i, bool again)
{
    struct open_edge_row *edges = arena_array(&m->arena, struct open_edge_row, STEPS_MAX);
    struct open_row r = { .task = some_step(m, run, run->id, place_of_step((uint32_t)i)),
                          .join = s->joins[i],
                          .edges = edges,
                          .ends = s->ends[i] };
    for (size_t j = 0; j < i; j++)
        if (s->edges[i][j])
            edges[r.n++] = (struct open_edge_row){ place_id(run->id, place_of_step((uint32_t)j)), s->types[i][j],
                                                   again ? (enum edge_state)below(m, EDGE_STATES) : EDGE_OPEN };
    if (r.n) {
        r.task.state = TASK_BLOCKED;
        r.task.links |= TASK_WAITS | TASK_HAS_PARENTS;
    }
    for (size_t k = i + 1; k < s->n; k++)
        r.task.links |= s->edges[k][i] ? TASK_HAS_CHILDREN : 0;
    r.task.links |= r.ends ? TASK_HAS_CHILDREN : 0;
    r.task.created_ms += again ? (int64_t)below(m, 3) : 0; /* of a later opening, or of one that is repeated */
    r.has_output = r.task.links & TASK_KEEPS_OUTPUT && chance(m, 10);
    r.output = S("[1]");
    r.drops_signals = again && chance(m, 30);
    r.signal = r.drops_signals ? one_of(m, model_signals, array_count(model_signals)) : (struct str){ 0 };
    return r;
}

/* Those that wait come first. */
static struct open_row *rows_of_run(struct model *m, const struct task *run, bool again, size_t *ret_n)
{
    struct shape s = shape_of(run->id);
    struct open_row *v = arena_array(&m->arena, struct open_row, STEPS_MAX);
    size_t n = 0;
    for (int roots = 0; roots <= 1; roots++)
        for (size_t i = 0; i < s.n; i++) {
            struct open_row r = row_of_step(m, run, &s, i, again);
            if ((r.n == 0) == roots)
                v[n++] = r;
        }
    *ret_n = n;
    return v;
}

static struct open_row *rows_of_map(struct model *m, const struct task *step, size_t *ret_n)
{
    struct prng random = prng_of(step->id);
    size_t n = prng_below(&random, ITEMS_MAX + 1);
    struct open_row *v = arena_array(&m->arena, struct open_row, ITEMS_MAX);
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct open_row){ .task =
                                      some_step(m, step, step->run, place_of_item(place_step(step->place), (int64_t)i)),
                                  .ends = true };
        v[i].task.links |= TASK_HAS_CHILDREN;
    }
    *ret_n = n;
    return v;
}

static struct run_row *begin_of(struct model *m, const struct task *t, const struct run_row *outer)
{
    struct run_row *r = arena_array(&m->arena, struct run_row, 1);
    *r = (struct run_row){ .run = t->id,
                           .tenant = t->tenant,
                           .version = (int64_t)below(m, 3),
                           .root = outer ? outer->root : t->id,
                           .depth = outer ? outer->depth + 1 : 0,
                           .opened_ms = m->now_ms,
                           .deadline_ms = chance(m, 30) ? m->now_ms + 50 : 0 };
    some_hash(m, r->hash);
    if (chance(m, 50))
        r->workflow = one_of(m, model_workflows, array_count(model_workflows));
    return r;
}

static struct opening *opening_of(struct model *m, const struct task *t)
{
    for (size_t i = 0; i < OPENINGS; i++)
        if (uuid_eq(m->openings[i].task, t->id) && m->openings[i].fence == t->fence)
            return &m->openings[i];
    struct opening *o = &m->openings[m->opening_count++ % OPENINGS];
    *o = (struct opening){
        .task = t->id, .fence = t->fence, .size = 1 + below(m, 4), .again = t->links & TASK_OPENED && chance(m, 60)
    };
    return o;
}

/* Some tasks of the run, each once. */
static void wait_for_others(struct model *m, struct op_open *op)
{
    struct step_filter f = { .tenant = op->tenant, .run = op->run, .limit = 1 + below(m, 4) };
    struct uuid *also = arena_array(&m->arena, struct uuid, f.limit);
    struct tasks steps;
    if (reader_steps(m->reader, &f, &m->arena, &steps, NULL))
        return;
    for (size_t i = 0; i < steps.n; i++)
        if (!uuid_eq(steps.v[i].id, op->id))
            also[op->also_count++] = steps.v[i].id;
    op->also = also;
}

/* The next page, or the same once more. */
static void cut_page(struct model *m, struct op_open *op, struct opening *o, const struct open_row *rows, size_t n)
{
    size_t from = min_of(o->page * o->size, n);
    op->first = o->page == 0;
    op->again = o->again;
    op->begun_ms = o->again && op->begin ? op->now_ms : 0;
    op->rows = rows + from;
    op->n = min_of(o->size, n - from);
    op->last = from + op->n == n;
    for (size_t i = 0; i < n; i++)
        op->expected += rows[i].ends;
    if (!op->first)
        op->begin = NULL;
    for (size_t i = 0; i < op->n; i++)
        model_know(m, &op->rows[i].task);
    o->page += op->fence == o->fence && chance(m, 85);
}

void model_make_open(struct model *m, union any_op *ret)
{
    struct task t;
    struct run_row outer;
    size_t n;
    if (!look_for_control(m, false, &t)) {
        model_make_claim(m, ret);
        return;
    }
    bool has_outer = !uuid_is_nil(t.run) && reader_run(m->reader, t.tenant, t.run, &m->arena, &outer, NULL) == ERR_OK;
    bool is_map = has_outer && place_item(t.place) < 0 && (t.id.b[15] & 1 || outer.depth == DEPTH_MAX);
    struct opening *o = opening_of(m, &t);
    o->page = t.links & TASK_OPENED || !m->first ? o->page : 0;
    ret->open = (struct op_open){ .op.kind = OP_OPEN,
                                  .tenant = t.tenant,
                                  .id = t.id,
                                  .fence = o->page ? t.fence : t.fence + chance(m, 3),
                                  .run = is_map ? t.run : t.id,
                                  .root = has_outer ? outer.root : t.id,
                                  .begin = is_map ? NULL : begin_of(m, &t, has_outer ? &outer : NULL),
                                  .despite_stop = o->despite_stop,
                                  .stop = (enum run_stop)below(m, RUN_AT_DEADLINE + 1),
                                  .max_broken = chance(m, 60) ? -1 : (int64_t)below(m, 2),
                                  .end_type = is_map ? DAG_MUST_SUCCEED : DAG_MUST_FINISH,
                                  .now_ms = m->now_ms };
    if (t.links & TASK_OPENED && o->page == 0 && chance(m, 25)) {
        ret->open.begin = NULL;
        ret->open.last = true;
        wait_for_others(m, &ret->open);
        return;
    }
    const struct open_row *rows = is_map ? rows_of_map(m, &t, &n) : rows_of_run(m, &t, o->again, &n);
    cut_page(m, &ret->open, o, rows, n);
}

/* ---- OP_AWAIT, OP_SIGNAL, OP_STOP, OP_DEFINE ---- */

void model_make_await(struct model *m, union any_op *ret)
{
    struct task t;
    struct signal_rows there;
    struct str name = one_of(m, model_signals, array_count(model_signals));
    if (!look_for_control(m, true, &t) || reader_signals(m->reader, t.run, name, &m->arena, &there, NULL)) {
        model_make_claim(m, ret);
        return;
    }
    ret->await = (struct op_await){ .op.kind = OP_AWAIT,
                                    .id = t.id,
                                    .fence = t.fence + chance(m, 3),
                                    .signal = name,
                                    .seen = there.n && chance(m, 30) ? there.n - 1 : there.n,
                                    .timeout_ms = chance(m, 50) ? (int64_t)below(m, 40) : 0,
                                    .now_ms = m->now_ms };
}

/* Of the run that awaits something, if a few looks find a step of it. */
static struct task some_receiver(struct model *m)
{
    struct task t = model_task(m), run;
    for (int i = 0; i < LOOKS && model_look(m, &t); i++)
        if (t.links & TASK_AWAITS && !task_is_final(t.state) &&
            reader_get(m->reader, t.tenant, t.run, &m->arena, &run, NULL) == ERR_OK)
            return run;
    (void)look_for_run(m, &t);
    return t;
}

void model_make_signal(struct model *m, union any_op *ret)
{
    struct task run = some_receiver(m);
    struct step_filter f = { .tenant = run.tenant, .run = run.id, .limit = STEPS_READ_MAX };
    struct tasks steps = { 0 };
    struct signal_row *s = arena_array(&m->arena, struct signal_row, 1);
    *s = (struct signal_row){ .run = run.id,
                              .name = one_of(m, model_signals, array_count(model_signals)),
                              .sender = one_of(m, model_senders, array_count(model_senders)),
                              .payload = chance(m, 50) ? S("{\"ok\": 1}") : (struct str){ 0 },
                              .rejects = chance(m, 10),
                              .time_ms = m->now_ms };
    ret->signal = (struct op_signal){ .op.kind = OP_SIGNAL,
                                      .tenant = chance(m, 97) ? run.tenant : TENANT + OTHER_TENANT - run.tenant,
                                      .signal = s,
                                      .idempotency = model_idempotency(m, 12) };
    if (reader_steps(m->reader, &f, &m->arena, &steps, NULL))
        return;
    struct uuid *v = arena_array(&m->arena, struct uuid, steps.n + 1);
    int64_t *timeouts_ms = arena_array(&m->arena, int64_t, steps.n + 1);
    for (size_t i = 0; i < steps.n; i++) {
        if (!(steps.v[i].links & TASK_AWAITS) || !chance(m, 80))
            continue;
        timeouts_ms[ret->signal.n] = chance(m, 50) ? 0 : 1000;
        v[ret->signal.n++] = steps.v[i].id;
    }
    ret->signal.steps = v;
    ret->signal.timeouts_ms = timeouts_ms;
}

void model_make_stop(struct model *m, union any_op *ret)
{
    static const char *const reasons[] = { "stopped", "by ann" };
    struct task t = model_task(m);
    (void)look_for_run(m, &t);
    enum run_change change = chance(m, 12)   ? RUN_CANCEL
                             : chance(m, 15) ? RUN_CLOSE
                             : chance(m, 45) ? RUN_PAUSE
                                             : RUN_RESUME;
    ret->stop =
        (struct op_stop){ .op.kind = OP_STOP,
                          .tenant = t.tenant,
                          .run = t.id,
                          .change = change,
                          .stop = change == RUN_CANCEL ? (enum run_stop)(1 + below(m, RUN_AT_DEADLINE)) : RUN_GOES_ON,
                          .why = one_of(m, reasons, array_count(reasons)),
                          .max = chance(m, 30) ? 1 + below(m, 2) : OPEN_ROWS_MAX,
                          .now_ms = m->now_ms,
                          .idempotency = model_idempotency(m, 12) };
}

void model_make_define(struct model *m, union any_op *ret)
{
    int32_t tenant = chance(m, 70) ? TENANT : OTHER_TENANT;
    bool removes = chance(m, 20);
    ret->define = (struct op_define){ .op.kind = OP_DEFINE,
                                      .definition = removes ? NULL : model_definition(m, tenant),
                                      .tenant = tenant,
                                      .name = one_of(m, model_workflows, array_count(model_workflows)),
                                      .remove = removes,
                                      .now_ms = m->now_ms,
                                      .idempotency = model_idempotency(m, 12) };
}

/* ---- comparing ---- */

static bool same_stops(const struct op_stop *a, const struct op_stop *b, char why[WHY_MAX])
{
    if (!number_same("stopped steps", a->ret_changed, b->ret_changed) ||
        !number_same("more to stop", a->ret_more, b->ret_more) ||
        !number_same("running steps", a->ret_running_count, b->ret_running_count) ||
        !number_same("open steps", a->ret_run_count, b->ret_run_count))
        return false;
    for (size_t i = 0; i < a->ret_running_count; i++)
        if (!uuid_eq(a->ret_running[i].id, b->ret_running[i].id) || a->ret_running[i].fence != b->ret_running[i].fence)
            return differ("a running step differs");
    for (size_t i = 0; i < a->ret_run_count; i++)
        if (!uuid_eq(a->ret_runs[i], b->ret_runs[i]))
            return differ("an open step differs");
    if (b->ret_unblocked_lanes == UINT64_MAX && b->ret_changed && b->change != RUN_PAUSE && b->change != RUN_RESUME)
        return true; /* a store need not know whether somebody waits for these steps */
    return number_same("stop woke", a->ret_unblocked_lanes, b->ret_unblocked_lanes);
}

bool same_run_answers(const union any_op *a, const union any_op *b, char why[WHY_MAX])
{
    switch (a->op.kind) {
    case OP_OPEN:
        return number_same("stopped", a->open.ret_stopped, b->open.ret_stopped) &&
               number_same("open left", a->open.ret_arrivals_left, b->open.ret_arrivals_left) &&
               number_same("open woke", a->open.ret_unblocked_lanes, b->open.ret_unblocked_lanes);
    case OP_AWAIT: return number_same("await woke", a->await.ret_unblocked_lanes, b->await.ret_unblocked_lanes);
    case OP_SIGNAL:
        return number_same("a signal again", a->signal.ret_repeated, b->signal.ret_repeated) &&
               number_same("signal woke", a->signal.ret_unblocked_lanes, b->signal.ret_unblocked_lanes);
    case OP_STOP: return same_stops(&a->stop, &b->stop, why);
    default:
        return number_same("version", a->define.ret_version, b->define.ret_version) &&
               number_same("created", a->define.ret_created_ms, b->define.ret_created_ms) &&
               number_same("changed", a->define.ret_changed, b->define.ret_changed);
    }
}

#define RUN_NUMBERS(X)                                                                                                 \
    X(tenant) X(version) X(depth) X(opened_ms) X(deadline_ms) X(tasks) X(generation) X(stop) X(paused)

static bool same_run_row(const struct run_row *a, const struct run_row *b, char why[WHY_MAX])
{
#define X(member)                                                                                                      \
    if (!number_same("a run's " #member, a->member, b->member))                                                        \
        return false;
    RUN_NUMBERS(X)
#undef X
    bool same = uuid_eq(a->run, b->run) && uuid_eq(a->root, b->root) && memcmp(a->hash, b->hash, sizeof a->hash) == 0 &&
                str_eq(a->workflow, b->workflow) && str_eq(a->stopped_by, b->stopped_by);
    return same ? true : differ("a run differs");
}

static bool same_steps(struct model *m, const struct task *run, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct step_filter f = { .tenant = run->tenant, .run = run->id, .limit = chance(m, 30) ? 1 + below(m, 4) : 100 };
    struct tasks x, y;
    f.states = chance(m, 20) ? 1u << below(m, TASK_EXPIRED + 1) : 0;
    f.by_step = chance(m, 20);
    f.step = (uint32_t)below(m, STEPS_MAX);
    f.shown_at_ms = f.step % 2 ? m->now_ms : 0; /* no draw of its own, as in model_filter */
    f.has_after = chance(m, 20);
    f.after = place_of_step((uint32_t)below(m, STEPS_MAX));
    if (reader_steps(a, &f, &m->arena, &x, NULL) || reader_steps(b, &f, &m->arena, &y, NULL))
        return differ("steps failed");
    if (!number_same("steps", x.n, y.n))
        return false;
    for (size_t i = 0; i < x.n; i++) {
        const char *field = task_difference(&x.v[i], &y.v[i]);
        if (field)
            return differ("step %zu differs in %s", i, field);
    }
    return true;
}

static bool same_outputs(struct model *m, struct uuid run, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    int64_t from = chance(m, 70) ? PLACE_RUN : place_of_step((uint32_t)below(m, STEPS_MAX));
    int64_t to = chance(m, 70) ? INT64_MAX : place_of_item((uint32_t)below(m, STEPS_MAX), 0);
    size_t max = 1 + below(m, 20);
    struct run_outputs x, y;
    if (reader_outputs(a, run, from, to, max, &m->arena, &x, NULL) ||
        reader_outputs(b, run, from, to, max, &m->arena, &y, NULL))
        return differ("outputs failed");
    if (!number_same("outputs", x.n, y.n))
        return false;
    for (size_t i = 0; i < x.n; i++)
        if (x.v[i].place != y.v[i].place || x.v[i].whole != y.v[i].whole || !str_eq(x.v[i].text, y.v[i].text))
            return differ("output %zu differs", i);
    return true;
}

static bool same_signals(struct model *m, struct uuid run, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct str name = one_of(m, model_signals, array_count(model_signals));
    struct signal_rows x, y;
    if (reader_signals(a, run, name, &m->arena, &x, NULL) || reader_signals(b, run, name, &m->arena, &y, NULL))
        return differ("signals failed");
    if (!number_same("signals", x.n, y.n))
        return false;
    for (size_t i = 0; i < x.n; i++) {
        const struct signal_row *p = &x.v[i], *q = &y.v[i];
        if (!uuid_eq(p->run, q->run) || !str_eq(p->name, q->name) || !str_eq(p->sender, q->sender) ||
            !str_eq(p->payload, q->payload) || p->rejects != q->rejects || p->time_ms != q->time_ms)
            return differ("signal %zu differs", i);
    }
    return true;
}

static bool same_workflow(const struct workflow_row *a, const struct workflow_row *b)
{
    return a->tenant == b->tenant && a->version == b->version && a->created_ms == b->created_ms &&
           str_eq(a->name, b->name) && memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

static bool same_definitions(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    int32_t tenant = chance(m, 70) ? TENANT : OTHER_TENANT;
    const struct definition *d = model_definition(m, tenant);
    struct str x, y, name = one_of(m, model_workflows, array_count(model_workflows));
    struct workflow_row p, q;
    struct workflow_rows v, u;
    int64_t version = (int64_t)below(m, 4);
    size_t max = 1 + below(m, 3);
    enum err rc = reader_definition(a, tenant, d->hash, &m->arena, &x, NULL);
    if (rc != reader_definition(b, tenant, d->hash, &m->arena, &y, NULL) || (!rc && !str_eq(x, y)))
        return differ("a definition differs");
    rc = reader_workflow(a, tenant, name, version, &m->arena, &p, NULL);
    if (rc != reader_workflow(b, tenant, name, version, &m->arena, &q, NULL) || (!rc && !same_workflow(&p, &q)))
        return differ("a workflow differs");
    struct str after = chance(m, 50) ? (struct str){ 0 } : name;
    if (reader_workflows(a, tenant, after, max, &m->arena, &v, NULL) ||
        reader_workflows(b, tenant, after, max, &m->arena, &u, NULL))
        return differ("workflows failed");
    if (!number_same("workflows", v.n, u.n) || !number_same("more workflows", v.more, u.more))
        return false;
    for (size_t i = 0; i < v.n; i++)
        if (!same_workflow(&v.v[i], &u.v[i]))
            return differ("workflow %zu differs", i);
    return true;
}

bool same_runs(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task t;
    struct run_row x, y;
    if (!same_definitions(m, a, b, why))
        return false;
    if (!look_for_run(m, &t))
        return true;
    enum err rc = reader_run(a, t.tenant, t.id, &m->arena, &x, NULL);
    if (!number_same("run", rc, reader_run(b, t.tenant, t.id, &m->arena, &y, NULL)))
        return false;
    return (rc || same_run_row(&x, &y, why)) && same_steps(m, &t, a, b, why) && same_outputs(m, t.id, a, b, why) &&
           same_signals(m, t.id, a, b, why);
}

void model_count_runs(struct tally *t, const union any_op *op)
{
    if (op->op.kind == OP_OPEN) {
        t->opened += op->open.last && !op->open.ret_stopped && !op->open.ret_arrivals_left;
        t->reopened += op->open.again && op->open.last && !op->open.ret_stopped && !op->open.ret_arrivals_left;
        t->open_stopped += op->open.ret_stopped;
    }
    if (op->op.kind == OP_STOP)
        t->steps_stopped += op->stop.ret_changed;
    if (op->op.kind == OP_SIGNAL)
        t->signals_woke += op->signal.ret_unblocked_lanes != 0;
}

/* ---- planted bugs ---- */

bool breaks_open_joins_at_once(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_OPEN)
        container_of(op, struct op_open, op)->max_broken = 0;
    return false;
}

bool begins_repeated_pages_anew(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_OPEN && container_of(op, struct op_open, op)->first)
        container_of(op, struct op_open, op)->again = true;
    return false;
}

bool drops_early_signals(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_AWAIT)
        container_of(op, struct op_await, op)->seen = SIZE_MAX;
    return false;
}

bool stops_one_step_too_many(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_STOP)
        container_of(op, struct op_stop, op)->max++;
    return false;
}

bool waits_for_nobody_else(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_OPEN)
        container_of(op, struct op_open, op)->also_count = 0;
    return false;
}
