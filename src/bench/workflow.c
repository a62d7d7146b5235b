/* The scenario `workflow`: runs of workflows. Its parts stand in a table at the end of this file; here is what they
 * share. */
#include "bench/workflow.h"

#include <stdlib.h>

#include "base/json/json.h"
#include "bench/sample_groups.h"
#include "core/flow/place.h"

enum { ANSWER_MAX = 8 << 20 };

const char workflow_noop[] = "\"target_type\":\"NOOP\"";

/* ---- definitions ---- */

void workflow_body_begin(struct buf *out)
{
    buf_text(out, "{\"definition\":{\"steps\":[");
}

void workflow_body_step(struct buf *out, size_t step, const char *target, size_t from, size_t to)
{
    buf_printf(out, "%s{\"name\":\"s%zu\",%s", step ? "," : "", step, target);
    for (size_t i = from; i < to; i++)
        buf_printf(out, "%s\"s%zu\"", i == from ? ",\"depends_on\":[" : ",", i);
    buf_text(out, from < to ? "]}" : "}");
}

void workflow_body_end(struct buf *out)
{
    buf_text(out, "]}}");
}

/* ---- runs ---- */

enum err workflow_post(struct bench *b, struct str body, struct bench_run *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf answer;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct bench_request q = { .method = "POST", .path = "/v1/workflows", .body = body };
    buf_init(&answer, ANSWER_MAX);
    if (bench_send(b, &q, &answer, e))
        return e->code;
    const char *json = strstr(buf_cstr(&answer), "\r\n\r\n");
    struct bench_run r = { .posted_us = q.ret_sent_us, .took_us = q.ret_took_us };
    if (!json || json_parse_answer(str_from(json + 4), &doc, e) || !uuid_parse(json_text_at(doc.root, "id"), &r.id))
        return error_set(e, ERR_CORRUPT, "the answer to a new run has no id");
    *ret = r;
    return ERR_OK;
}

enum err workflow_post_and_wait(struct bench *b, struct str body, size_t tasks, struct bench_run *ret, struct error *e)
{
    bench_remove_samples(b);
    return workflow_post(b, body, ret, e) || bench_wait_settled(b, tasks + 1, 0, e) ? e->code : ERR_OK;
}

enum err workflow_samples(struct bench *b, const struct bench_run *r, size_t steps, const struct bench_sample ***ret,
                          struct error *e)
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    const struct bench_shared *shared = b->server.shared;
    const struct bench_sample **v = xcalloc(steps, sizeof(const struct bench_sample *));
    size_t n = atomic_load_explicit(&shared->n, memory_order_acquire), found = 0;
    for (size_t i = 0; i < steps; i++) {
        struct uuid id = place_id(r->id, place_of_step((uint32_t)i));
        sample_groups_add(&groups, (int)i, &id, 1);
    }
    for (size_t i = 0; i < n; i++) {
        int step = sample_groups_find(&groups, shared->v[i].id);
        if (step == SAMPLE_GROUP_NONE)
            continue;
        found += !v[step];
        v[step] = &shared->v[i];
    }
    if (found < steps) {
        free(v);
        return error_set(e, ERR_CORRUPT, "%zu of %zu steps have run", found, steps);
    }
    *ret = v;
    return ERR_OK;
}

enum err workflow_total_us(struct bench *b, const struct bench_run *r, int64_t *ret, struct error *e)
{
    const struct bench_shared *shared = b->server.shared;
    for (size_t i = atomic_load_explicit(&shared->n, memory_order_acquire); i > 0; i--) {
        if (uuid_cmp(shared->v[i - 1].id, r->id) != 0)
            continue;
        *ret = shared->v[i - 1].settled_us - r->posted_us;
        return ERR_OK;
    }
    return error_set(e, ERR_CORRUPT, "the run has not ended");
}

/* ---- figures ---- */

void workflow_add_rounds(struct bench *b, const char *name, int64_t *us, size_t n)
{
    qsort(us, n, sizeof *us, bench_compare_i64);
    size_t middle = n / 2;
    bench_add_figure(b, name, "ms", (double)us[middle] / 1000);
    bench_add_figure(b, "  slowest", "ms", (double)us[n - 1] / 1000);
}

size_t workflow_count(const struct bench *b, size_t otherwise)
{
    return min_of(bench_task_count(b, otherwise), otherwise);
}

/* ---- the scenario ---- */

static const struct workflow_part {
    const char *name;
    enum err (*run)(struct bench *b, struct error *e);
} workflow_parts[] = {
    { "chain", workflow_chain }, { "webhooks", workflow_webhooks },
    { "slow", workflow_slow },   { "fan", workflow_fan },
    { "map", workflow_map },     { "join", workflow_join },
    { "open", workflow_open },   { "throughput", workflow_throughput },
};

static bool workflow_is_wanted(const struct bench *b, const struct workflow_part *p)
{
    return !b->part.n || str_eq(b->part, str_from(p->name));
}

enum err bench_workflow_check(const struct bench *b, struct error *e)
{
    for (size_t i = 0; i < array_count(workflow_parts); i++)
        if (workflow_is_wanted(b, &workflow_parts[i]))
            return ERR_OK;
    return error_set(e, ERR_INVALID, "give one part: chain, webhooks, slow, fan, map, join, open or throughput");
}

enum err bench_workflow(struct bench *b, struct error *e)
{
    for (size_t i = 0; i < array_count(workflow_parts); i++) {
        const struct workflow_part *p = &workflow_parts[i];
        if (!workflow_is_wanted(b, p))
            continue;
        if ((!b->part.n && i > 0 && bench_replace_server(b, BENCH_SLOTS, e)) || p->run(b, e))
            return e->code;
    }
    return ERR_OK;
}
