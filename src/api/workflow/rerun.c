/* A new run of the definition of one that has ended. It takes over the steps before those that are run again. */
#include <stdio.h>

#include "api/resource/tasks.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/task/body.h"
#include "api/workflow/retry.h"
#include "core/flow/place.h"

struct rerun_body {
    struct str from, name;
    json_t *input;
};

/* The same definition, and the given input or the same. */
static enum err rerun_set_config(struct request *q, const struct workflow_run *run, struct str input, struct task *t,
                                 struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    char hash[2 * DEFINITION_HASH + 1];
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(hash + 2 * i, 3, "%02x", run->row.hash[i]);
    buf_init(&text, 2 * RUN_RESULT_MAX);
    jw_init(&w, &text);
    jw_object(&w);
    if (run->row.workflow.n) {
        jw_kv_str(&w, "workflow", run->row.workflow);
        jw_kv_i64(&w, "version", run->row.version);
    }
    jw_kv_cstr(&w, "definition", hash); /* the name may have been removed since */
    if (input.n) {
        jw_key(&w, "input");
        jw_raw(&w, input);
    }
    if (run->config.deadline_ms)
        jw_kv_seconds(&w, "deadline_seconds", run->config.deadline_ms);
    jw_object_end(&w);
    return !text.full && arena_str(&q->arena, buf_str(&text), &t->target_config) ? ERR_OK : error_no_room(e);
}

static enum err rerun_make(struct request *q, const struct workflow_run *run, const struct rerun_body *b,
                           struct str input, struct error *e)
{
    const struct task *o = &run->task;
    char id[UUID_TEXT + 1], more[UUID_TEXT + STEP_NAME_MAX + 64];
    *q->tasks = (struct task){ .id = request_new_id(q),
                               .tenant = o->tenant,
                               .state = TASK_SCHEDULED,
                               .due_ms = q->now_ms,
                               .scheduled_ms = q->now_ms,
                               .version = 1,
                               .priority = o->priority,
                               .queue = o->queue,
                               .name = b->name.n ? b->name : o->name,
                               .task_type = o->task_type,
                               .delivery = o->delivery,
                               .expires_after_ms = o->expires_after_ms,
                               .concurrency_key = o->concurrency_key,
                               .concurrency_limit = o->concurrency_limit,
                               .retry = o->retry,
                               .links = TASK_KEEPS_OUTPUT,
                               .target = TARGET_WORKFLOW,
                               .created_ms = q->now_ms,
                               .updated_ms = q->now_ms };
    uuid_format(o->id, id);
    int n = snprintf(more, sizeof more, "\"" TASK_RERUN_OF "\":\"%s\",\"" TASK_RERUN_FROM "\":\"" STR_FMT "\"", id,
                     STR_ARG(b->from));
    if (rerun_set_config(q, run, input.n ? input : run->config.input, q->tasks, e))
        return e->code;
    return run_add_extra(q, q->tasks, o, (struct str){ more, (size_t)n }, e);
}

static enum err rerun_check(struct request *q, struct reader *r, const struct workflow_run *run,
                            const struct rerun_body *b, struct error *e)
{
    uint32_t step;
    struct error why;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (!run->opened || !task_is_final(run->task.state))
        return error_set(e, ERR_CONFLICT, "the run is %s; only a run that has ended can be run again",
                         task_state_name(task_shown_state(&run->task, q->now_ms)));
    if (run_definition(q, r, run, &d, e))
        return e->code;
    return dag_find_or_explain(d->dag, b->from, &step, &why) ? error_field(e, "from", "%s", why.text) : ERR_OK;
}

enum handled workflows_rerun(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "from",
          .kind = JSON_KIND_STR,
          .offset = offsetof(struct rerun_body, from),
          .min = 1,
          .max = 4 * STEP_NAME_MAX,
          .required = true },
        { .name = "input", .kind = JSON_KIND_RAW, .offset = offsetof(struct rerun_body, input) },
        { .name = "name",
          .kind = JSON_KIND_STR,
          .offset = offsetof(struct rerun_body, name),
          .min = 1,
          .max = NAME_CHARACTERS,
          .characters = true,
          .nullable = true },
    };
    struct error e = { 0 };
    struct workflow_run run;
    struct rerun_body b = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    q->tasks = arena_new(&q->arena, struct task);
    q->task_count = 1;
    q->depends = arena_new(&q->arena, struct depends_on);
    if (!request_check_no_query(q) || !run_is_possible(q))
        return HANDLED_DONE;
    if (run_read(q, r, &run, &e) || request_read_object(q, &doc, &e) ||
        json_read(doc.root, fields, array_count(fields), &b, &q->arena, &e) || rerun_check(q, r, &run, &b, &e))
        return request_fail(q, &e);
    if (str_has_control(b.name)) {
        (void)error_field(&e, "name", "must not hold control characters");
        return request_fail(q, &e);
    }
    struct str input = b.input ? json_member_text(&doc, "input") : S("");
    if (rerun_make(q, &run, &b, input, &e))
        return request_fail(q, &e);
    return tenant_limits_take(q, r, 1, tasks_create_now);
}
