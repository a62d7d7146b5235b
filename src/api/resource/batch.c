/* Creates many tasks in one operation and one transaction. An error of one element is reported in its place in the
 * answer; the other elements are created. */
#include "api/resource/dedupe.h"
#include "api/resource/tasks.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "api/task/json.h"
#include "api/workflow/run.h"
#include "base/json/json.h"

enum { BATCH_COUNT_MAX = 10000 };

struct batch {
    struct request *q;
    struct reader *reader;
    struct task_context context;
    struct creation *v;
    size_t n;
    bool has_keys; /* some elements have a dedupe_key */
};

static void batch_add_error(struct batch *b, const struct error *e)
{
    struct error *kept = arena_new(&b->q->arena, struct error);
    static const struct error no_room = { .code = ERR_LIMIT, .text = "does not fit in the memory allowed" };
    if (kept)
        *kept = *e;
    b->v[b->n++].error = kept ? kept : &no_room;
}

static void batch_add_element(struct batch *b, const struct json_doc *doc)
{
    struct request *q = b->q;
    struct error e = { 0 };
    struct task *t = &q->tasks[q->task_count];
    enum err rc = ERR_OK;
    b->context.id = request_new_id(q);
    if (json_object_get(doc->root, "idempotency_key"))
        rc = error_field(&e, "idempotency_key", "is for the whole request: send it as the header Idempotency-Key");
    if (rc == ERR_OK)
        rc = task_from_json(doc, &b->context, &q->arena, t, &e);
    if (rc == ERR_OK && t->target == TARGET_WORKFLOW && !identity_may(&q->who, SCOPE_WORKFLOWS_WRITE))
        rc = error_field(&e, "target_type", "can be WORKFLOW only if the API key has the scope 'workflows:write'");
    if (rc == ERR_OK && t->target == TARGET_WORKFLOW)
        rc = run_check_target(q, b->reader, t, &e);
    if (rc) {
        batch_add_error(b, &e);
        return;
    }
    q->task_count++;
    b->v[b->n++] = (struct creation){ .asked = t, .task = t };
    b->has_keys = b->has_keys || t->dedupe_key.n;
}

static bool batch_begin(struct batch *b, size_t count)
{
    struct request *q = b->q;
    if (count == 0 || count > BATCH_COUNT_MAX) {
        respond_problem(&q->response, PROBLEM_INVALID, "a batch has 1 to %d tasks, not %zu", BATCH_COUNT_MAX, count);
        return false;
    }
    q->tasks = arena_array(&q->arena, struct task, count);
    b->v = arena_array(&q->arena, struct creation, count);
    b->context = request_context(q);
    return true;
}

static bool batch_read_array(struct batch *b)
{
    struct request *q = b->q;
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(buf_str(&q->body), &doc, &e)) {
        request_fail(q, &e);
        return false;
    }
    if (!json_is_array(doc.root)) {
        request_refuse(q, PROBLEM_INVALID,
                       "a batch must be a JSON array of tasks, or one task per line as application/x-ndjson");
        return false;
    }
    size_t count = json_array_size(doc.root);
    if (!batch_begin(b, count))
        return false;
    struct json_part *parts = arena_array(&q->arena, struct json_part, count);
    json_parts(doc.text, parts, count);
    for (size_t i = 0; i < count; i++)
        batch_add_element(b, &(struct json_doc){ .root = json_array_get(doc.root, i), .text = parts[i].text });
    return true;
}

static bool batch_line_is_blank(struct str line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] != ' ' && line.p[i] != '\t' && line.p[i] != '\r')
            return false;
    return true;
}

static bool batch_read_lines(struct batch *b)
{
    size_t count = 0;
    struct str rest = buf_str(&b->q->body), line;
    while (str_cut(&rest, '\n', &line))
        count += !batch_line_is_blank(line);
    if (!batch_begin(b, count))
        return false;
    rest = buf_str(&b->q->body);
    while (str_cut(&rest, '\n', &line)) {
        struct error e = { 0 };
        cleanup_with(json_doc_release) struct json_doc doc = { 0 };
        if (batch_line_is_blank(line))
            continue;
        if (json_parse(line, &doc, &e))
            batch_add_error(b, &e);
        else
            batch_add_element(b, &doc);
    }
    return true;
}

/* ---- the answer ---- */

static void batch_write_refused(struct jw *w, const struct error *e)
{
    jw_object(w);
    jw_key(w, "error");
    problem_write(w, problem_of(e), e, NULL);
    jw_object_end(w);
}

static void batch_write_found(struct jw *w, const struct task *t, const struct task_context *c)
{
    jw_object(w);
    task_brief_members(w, t, c);
    jw_kv_bool(w, "deduplicated", true);
    jw_object_end(w);
}

static void batch_write_answer(struct request *q, const struct creation *v, size_t n)
{
    struct task_context c = request_context(q);
    struct jw w = respond_json(&q->response, 201);
    size_t failed = 0, found = 0;
    jw_object(&w);
    jw_key(&w, "tasks");
    jw_array(&w);
    for (size_t i = 0; i < n; i++) {
        if (v[i].error)
            batch_write_refused(&w, v[i].error);
        else if (v[i].found)
            batch_write_found(&w, v[i].task, &c);
        else
            task_brief_to_json(&w, v[i].task, &c);
        failed += v[i].error != NULL;
        found += v[i].found;
    }
    jw_array_end(&w);
    jw_kv_i64(&w, "created", (int64_t)(n - failed - found));
    jw_kv_i64(&w, "deduplicated", (int64_t)found);
    jw_kv_i64(&w, "failed", (int64_t)failed);
    jw_object_end(&w);
}

static enum handled batch_create_now(struct request *q, struct reader *r)
{
    struct batch *b = q->batch;
    buf_release(&q->body); /* the tasks hold everything that is needed of it */
    if (b->has_keys)
        return dedupe_create(q, r, b->v, b->n, batch_write_answer);
    batch_write_answer(q, b->v, b->n);
    if (q->task_count == 0)
        return HANDLED_DONE;
    q->write.insert = (struct op_insert){
        .op = { .kind = OP_INSERT }, .tasks = q->tasks, .count = q->task_count, .idempotency = request_record(q)
    };
    return request_submit(q, tasks_on_created);
}

enum handled batch_create(struct request *q, struct reader *r)
{
    struct batch *b = q->batch = arena_new(&q->arena, struct batch);
    bool lines = false;
    b->q = q;
    b->reader = r;
    media_type_is_known(q->head.content_type, &lines);
    if (!(lines ? batch_read_lines(b) : batch_read_array(b)))
        return HANDLED_DONE;
    return tenant_limits_take(q, r, q->task_count, batch_create_now);
}
