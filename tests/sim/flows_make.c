/* Workflows that users define, and runs of them. A definition is small, and has everything that a step can have. */
#include <stdlib.h>

#include "port/crypto.h"
#include "request.h"
#include "workflow/definition.h"

enum {
    TEXT_MAX = 64 << 10,
    PARENTS_MAX = 3,
    VALUES = 100, /* numbers in outputs are below */
    SECOND_US = 1000000,
    PURGED_MS = 10000,
    PURGED_ROWS = 20,
    RERUN_PERCENT = 30,
};

enum flow_kind { KIND_CALL, KIND_MAP, KIND_AWAIT, KIND_RUN, KIND_MAP_OF_RUNS };

/* A step while its definition is written. */
struct step_draft {
    enum flow_kind kind;
    enum dag_join join;
    uint32_t parents[PARENTS_MAX];
    size_t parent_count;
};

struct draft {
    struct sim *s;
    struct flow_definition *d;
    struct buf text;
    struct step_draft steps[FLOW_STEPS_MAX];
    uint32_t n;
};

/* ---- steps ---- */

/* The number in the output of a step. */
static void write_reference(struct draft *w, uint32_t step)
{
    static const char *const rests[] = { [KIND_CALL] = "/n",
                                         [KIND_MAP] = "/0/n",
                                         [KIND_AWAIT] = "/0/payload/n",
                                         [KIND_RUN] = "/n",
                                         [KIND_MAP_OF_RUNS] = "/0/n" };
    buf_printf(&w->text, "/steps/s%u/output%s", step, rests[w->steps[step].kind]);
}

static void write_value(struct draft *w, uint32_t step)
{
    buf_text(&w->text, "{\"$ref\":\"");
    write_reference(w, step);
    buf_printf(&w->text, "\",\"default\":%d}", FLOW_NO_VALUE);
}

static bool has_draft_parent(const struct step_draft *x, uint32_t parent)
{
    for (size_t i = 0; i < x->parent_count; i++)
        if (x->parents[i] == parent)
            return true;
    return false;
}

static void write_parents(struct draft *w, uint32_t step)
{
    struct sim *s = w->s;
    struct step_draft *x = &w->steps[step];
    int64_t wanted = step && chance(s, 80) ? between(s, 1, min_of(step, (uint32_t)PARENTS_MAX)) : 0;
    for (int64_t i = 0; i < wanted; i++) {
        uint32_t parent = (uint32_t)between(s, 0, step - 1);
        if (has_draft_parent(x, parent))
            continue;
        buf_printf(&w->text, "%s{\"step\":\"s%u\",\"type\":\"%s\"}", x->parent_count ? "," : ",\"depends_on\":[",
                   parent, dag_type_names[chance(s, 50) ? DAG_MUST_SUCCEED : between(s, 0, DAG_MUST_FAIL)]);
        x->parents[x->parent_count++] = parent;
    }
    x->join = chance(s, 60) ? DAG_ALL : (enum dag_join)between(s, DAG_ALL, DAG_SOME);
    if (x->parent_count)
        buf_printf(&w->text, "],\"join\":\"%s\"", dag_join_names[x->join]);
}

static void write_when(struct draft *w, uint32_t step)
{
    const struct step_draft *x = &w->steps[step];
    struct flow_step_facts *facts = &w->d->steps[step];
    facts->when_of = -1;
    if (!x->parent_count || x->join == DAG_ANY || !chance(w->s, 25))
        return;
    uint32_t of = x->parents[between(w->s, 0, (int64_t)x->parent_count - 1)];
    if (w->steps[of].kind != KIND_CALL && w->steps[of].kind != KIND_MAP) /* the model knows only what was answered */
        return;
    facts->when_of = (int)of;
    facts->when_below = between(w->s, 20, VALUES);
    buf_text(&w->text, ",\"when\":{\"ref\":\"");
    write_reference(w, of);
    buf_printf(&w->text, "\",\"op\":\"lt\",\"value\":%lld}", (long long)facts->when_below);
}

static void write_body(struct draft *w, uint32_t step)
{
    const struct step_draft *x = &w->steps[step];
    struct flow_step_facts *facts = &w->d->steps[step];
    bool plain = x->kind == KIND_CALL && chance(w->s, 20);
    buf_printf(&w->text, ",\"target_type\":\"NOOP\",\"payload\":{\"d\":%d", w->d->number);
    if (!plain) {
        buf_text(&w->text, ",\"in\":{\"$ref\":\"/input/k\"},\"r\":[");
        for (size_t i = 0; i < x->parent_count; i++) {
            buf_text(&w->text, i ? "," : "");
            write_value(w, x->parents[i]);
            facts->refs[facts->ref_count++] = x->parents[i];
        }
        buf_printf(&w->text, "]%s", x->kind == KIND_MAP ? ",\"item\":{\"$ref\":\"/item\"}" : "");
    }
    buf_text(&w->text, "}");
}

static void write_call(struct draft *w, uint32_t step)
{
    struct sim *s = w->s;
    write_body(w, step);
    buf_printf(&w->text,
               ",\"timeout_ms\":%lld,\"retry\":{\"max_attempts\":%lld,\"base_delay_ms\":%lld,\"max_delay_ms\":3000}",
               (long long)between(s, 500, 5000), (long long)between(s, 1, 3), (long long)between(s, 100, 1000));
    if (chance(s, 10))
        buf_text(&w->text, ",\"delivery\":\"AT_MOST_ONCE\"");
}

static void write_run(struct draft *w)
{
    /* Only of names that were defined before it, so that none is within itself. */
    int names = w->d->name < 0 ? FLOW_NAMES : w->d->name;
    buf_printf(&w->text,
               ",\"target_type\":\"WORKFLOW\",\"target_config\":{\"workflow\":\"w%lld\",\"input\":{\"k\":{\"$ref\":"
               "\"/input/k\"},\"items\":{\"$ref\":\"/input/items\"}}},\"retry\":{\"max_attempts\":%lld,"
               "\"base_delay_ms\":100,\"max_delay_ms\":1000}",
               (long long)between(w->s, 0, names - 1), (long long)between(w->s, 1, 2));
}

static void write_map(struct draft *w)
{
    buf_text(&w->text, ",\"map\":{\"over\":{\"$ref\":\"/input/items\"}");
    if (chance(w->s, 60))
        buf_printf(&w->text, ",\"max_concurrent\":%lld", (long long)between(w->s, 1, 2));
    if (chance(w->s, 40))
        buf_printf(&w->text, ",\"max_failures\":%lld", (long long)between(w->s, 1, 3));
    buf_text(&w->text, "}");
}

static void write_await(struct draft *w, uint32_t step)
{
    struct sim *s = w->s;
    buf_printf(&w->text, ",\"await\":{\"signal\":\"g%u\",\"approvals\":%lld", step, (long long)between(s, 1, 2));
    if (chance(s, 80))
        buf_printf(&w->text, ",\"timeout\":\"%llds\"%s", (long long)between(s, 1, 20),
                   chance(s, 50) ? ",\"on_timeout\":{\"late\":true}" : "");
    buf_text(&w->text, "}");
}

static void write_rest(struct draft *w, uint32_t step)
{
    struct sim *s = w->s;
    if (chance(s, 20))
        buf_text(&w->text, ",\"may_fail\":true");
    if (chance(s, 10))
        buf_printf(&w->text, ",\"delay\":\"%llds\"", (long long)between(s, 1, 3));
    if (w->steps[step].kind == KIND_AWAIT || w->d->number % 3)
        return;
    buf_printf(&w->text,
               ",\"compensate\":{\"target_type\":\"NOOP\",\"payload\":{\"d\":%d,\"out\":{\"$ref\":\"/output/n\","
               "\"default\":%d}},\"retry\":{\"max_attempts\":3,\"base_delay_ms\":100,\"max_delay_ms\":1000}%s}",
               w->d->number, FLOW_NO_VALUE, chance(s, 30) ? ",\"if_attempted\":true" : "");
}

/* A run is only within a definition that comes after its name. */
static enum flow_kind choose_kind(struct sim *s, const struct flow_definition *d)
{
    int64_t roll = between(s, 0, 99);
    if (roll < 15)
        return KIND_MAP;
    if (roll < 30)
        return KIND_AWAIT;
    if (roll < 40 && d->name != 0)
        return KIND_RUN;
    return roll < 43 && d->name < 0 ? KIND_MAP_OF_RUNS : KIND_CALL;
}

static void write_step(struct draft *w, uint32_t step)
{
    struct step_draft *x = &w->steps[step];
    x->kind = choose_kind(w->s, w->d);
    buf_printf(&w->text, "%s{\"name\":\"s%u\"", step ? "," : "", step);
    write_parents(w, step);
    write_when(w, step);
    if (x->kind == KIND_CALL || x->kind == KIND_MAP)
        write_call(w, step);
    else if (x->kind == KIND_AWAIT)
        write_await(w, step);
    else
        write_run(w);
    if (x->kind == KIND_MAP || x->kind == KIND_MAP_OF_RUNS)
        write_map(w);
    write_rest(w, step);
    buf_text(&w->text, "}");
}

/* ---- definitions ---- */

static void store_definition(struct sim *s, const struct flow_definition *d)
{
    char name[8];
    struct error e;
    int n = snprintf(name, sizeof name, "w%d", d->name);
    struct op_define define = { .op = { .kind = OP_DEFINE },
                                .definition = &d->row,
                                .tenant = d->tenant,
                                .name = { name, (size_t)n },
                                .now_ms = wall_ms(s) };
    struct op *op = &define.op;
    arena_init(&op->arena, 4096);
    if (store_apply(s->store, &op, 1, &e) || op->rc)
        abort();
    arena_release(&op->arena);
}

static struct flow_definition *flows_define(struct sim *s, int32_t tenant, int name)
{
    struct flow_definition *d = arena_new(&s->flows.memory, struct flow_definition);
    struct draft w = { .s = s, .d = d, .n = (uint32_t)between(s, 1, FLOW_STEPS_MAX) };
    struct task_context c = { .tenant = tenant, .now_ms = wall_ms(s) };
    struct error e;
    d->number = ++s->flows.definition_count;
    d->tenant = tenant;
    d->name = name;
    buf_init(&w.text, TEXT_MAX);
    buf_text(&w.text, "{\"steps\":[");
    for (uint32_t i = 0; i < w.n; i++)
        write_step(&w, i);
    d->result_of = (uint32_t)between(s, 0, w.n - 1);
    buf_text(&w.text, "],\"result\":{\"n\":");
    write_value(&w, d->result_of);
    buf_text(&w.text, "}}");
    d->text = flows_keep(s, &w.text);
    buf_release(&w.text);
    d->row = (struct definition){ .tenant = tenant, .text = d->text };
    crypto_sha256(d->text, d->row.hash);
    if (definition_read(d->text, &c, &d->dag, &e)) {
        fprintf(stderr, "seed %llu: %s: %s\n" STR_FMT "\n", (unsigned long long)s->seed, e.field, e.text,
                STR_ARG(d->text));
        abort();
    }
    list_push(&s->flows.definitions, &d->link);
    trace(s, "definition %d: " STR_FMT, d->number, STR_ARG(d->text));
    if (name >= 0)
        store_definition(s, d);
    return d;
}

/* ---- runs ---- */

static void write_input(const struct flow *f, struct buf *text)
{
    buf_text(text, "{\"definition\":\"");
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        buf_printf(text, "%02x", f->definition->row.hash[i]);
    buf_printf(text, "\",\"input\":{\"k\":%lld,\"items\":[", (long long)f->input);
    for (int64_t i = 0; i < f->items; i++)
        buf_printf(text, "%s%lld", i ? "," : "", (long long)(f->input + i));
    buf_text(text, "]}");
    if (f->deadline_ms)
        buf_printf(text, ",\"deadline_seconds\":%lld", (long long)f->deadline_ms / 1000);
    buf_text(text, "}");
}

/* As src/api/workflow/rerun.c. */
static struct flow *make_rerun(struct sim *s, struct flow *old, struct task *t)
{
    char id[UUID_TEXT + 1];
    struct buf text;
    uint32_t from = (uint32_t)between(s, 0, old->definition->dag->n - 1);
    t->tenant = old->tenant;
    uuid_format(old->id, id);
    buf_init(&text, TEXT_MAX);
    buf_printf(&text, "{\"rerun_of\":\"%s\",\"from\":\"s%u\"}", id, from);
    t->extra = flows_keep(s, &text);
    buf_release(&text);
    return flow_new_rerun(s, old, from, t->id);
}

static struct flow *make_first_run(struct sim *s, const struct task *t)
{
    struct flow *f = flow_new(s, flows_define(s, t->tenant, -1), t->id, NULL);
    f->input = between(s, 0, VALUES);
    f->deadline_ms = chance(s, 15) ? between(s, 1, 30) * 1000 : 0;
    f->max_attempts = chance(s, 80) ? 1 : 2;
    return f;
}

void make_run(struct request *r)
{
    struct sim *s = r->sim;
    struct task t = some_task(s, TASK_ONE_TIME);
    struct flow *old = chance(s, RERUN_PERCENT) ? flows_some_ended(s) : NULL;
    struct flow *f = old ? make_rerun(s, old, &t) : make_first_run(s, &t);
    struct buf text;
    buf_init(&text, TEXT_MAX);
    write_input(f, &text);
    t.target = TARGET_WORKFLOW;
    t.target_config = flows_keep(s, &text);
    buf_release(&text);
    t.payload = t.concurrency_key = S("");
    t.concurrency_limit = 0;
    t.expires_after_ms = t.timeout_ms = 0;
    t.delivery = DELIVER_AT_LEAST_ONCE;
    t.retry.max_attempts = f->max_attempts;
    t.links = TASK_KEEPS_OUTPUT;
    r->count = 1;
    r->tasks = arena_array(&r->arena, struct task, 1);
    r->tasks[0] = t;
    r->definition = &f->definition->row;
    f->subject = oracle_add(s, &t);
    f->subject->flow = true;
    s->stats->runs++;
}

/* ---- names, and what is kept ---- */

static void a_name_changes(struct sim *s, void *context)
{
    (void)context;
    if (!s->healed)
        flows_define(s, (int32_t)between(s, 1, s->profile.tenants), (int)between(s, 0, FLOW_NAMES - 1));
}

/* What ended a while ago is not kept. */
static void purge(struct sim *s, void *context)
{
    (void)context;
    int64_t before_ms = wall_ms(s) - PURGED_MS;
    struct op_purge purge_op = { .op = { .kind = OP_PURGE },
                                 .now_ms = wall_ms(s),
                                 .tasks_before_ms = before_ms,
                                 .dlq_before_ms = before_ms,
                                 .max = PURGED_ROWS };
    struct op *op = &purge_op.op;
    struct error e;
    arena_init(&op->arena, 4096);
    if (store_apply(s->store, &op, 1, &e) || op->rc)
        abort();
    arena_release(&op->arena);
    after_us(s, between(s, SECOND_US, 5 * SECOND_US), purge, NULL);
}

void flows_plan(struct sim *s)
{
    enum { CHANGES = 3 };
    if (!s->profile.flows)
        return;
    for (int32_t tenant = 1; tenant <= s->profile.tenants; tenant++)
        for (int name = 0; name < FLOW_NAMES; name++)
            flows_define(s, tenant, name);
    for (int i = 0; i < CHANGES; i++)
        after_us(s, between(s, 0, s->profile.length_us), a_name_changes, NULL);
    if (s->profile.purges)
        after_us(s, SECOND_US, purge, NULL);
}
