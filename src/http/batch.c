/* Many tasks at once: one operation, one transaction. What is wrong with one element is said in its place; the others go on.
 * The answer is written while the elements are read, so nothing is kept of those that failed. */
#include "base/json.h"
#include "http/impl.h"
#include "http/listing.h"
#include "http/task_json.h"

enum { BATCH_COUNT_MAX = 10000 };

struct batch {
    struct request *q;
    struct task_context context;
    struct jw w;
    size_t failed;
};

static void add_error(struct batch *b, const struct error *e)
{
    jw_object(&b->w);
    jw_key(&b->w, "error");
    problem_write(&b->w, problem_of(e->code), e, NULL);
    jw_object_end(&b->w);
    b->failed++;
}

static void add_element(struct batch *b, const struct json_doc *doc)
{
    struct request *q = b->q;
    struct error e = { 0 };
    struct task *t = &q->tasks[q->task_count];
    enum err rc = ERR_OK;
    b->context.id = request_new_id(q);
    if (json_object_get(doc->root, "idempotency_key"))
        rc = error_field(&e, "idempotency_key", "stands for a whole request: send it as the header Idempotency-Key");
    if (rc == ERR_OK)
        rc = task_from_json(doc, &b->context, &q->arena, t, &e);
    if (rc) {
        add_error(b, &e);
        return;
    }
    q->task_count++;
    task_brief_to_json(&b->w, t, &b->context);
}

static bool begin(struct batch *b, size_t count)
{
    struct request *q = b->q;
    if (count == 0 || count > BATCH_COUNT_MAX) {
        respond_problem(&q->response, PROBLEM_INVALID, "a batch has 1 to %d tasks, not %zu", BATCH_COUNT_MAX, count);
        return false;
    }
    q->tasks = arena_array(&q->arena, struct task, count);
    b->context = request_context(q);
    b->w = respond_json(&q->response, 201);
    jw_object(&b->w);
    jw_key(&b->w, "tasks");
    jw_array(&b->w);
    return true;
}

static bool read_array(struct batch *b)
{
    struct request *q = b->q;
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(buf_str(&q->body), &doc, &e)) {
        request_fail(q, &e);
        return false;
    }
    if (!json_is_array(doc.root)) {
        request_refuse(q, PROBLEM_INVALID, "a batch is an array of tasks, or a task a line as application/x-ndjson");
        return false;
    }
    size_t count = json_array_size(doc.root);
    if (!begin(b, count))
        return false;
    struct json_part *parts = arena_array(&q->arena, struct json_part, count);
    json_parts(doc.text, parts, count);
    for (size_t i = 0; i < count; i++)
        add_element(b, &(struct json_doc){ .root = json_array_get(doc.root, i), .text = parts[i].text });
    return true;
}

static bool is_blank(struct str line)
{
    for (size_t i = 0; i < line.n; i++)
        if (!strchr(" \t\r", line.p[i]))
            return false;
    return true;
}

static bool read_lines(struct batch *b)
{
    size_t count = 0;
    struct str rest = buf_str(&b->q->body), line;
    while (str_cut(&rest, '\n', &line))
        count += !is_blank(line);
    if (!begin(b, count))
        return false;
    rest = buf_str(&b->q->body);
    while (str_cut(&rest, '\n', &line)) {
        struct error e = { 0 };
        cleanup_with(json_doc_release) struct json_doc doc = { 0 };
        if (is_blank(line))
            continue;
        if (json_parse(line, &doc, &e))
            add_error(b, &e);
        else
            add_element(b, &doc);
    }
    return true;
}

enum handled batch_create(struct request *q, struct reader *r)
{
    (void)r;
    struct batch b = { .q = q };
    bool lines = false;
    media_type_is_known(q->head.content_type, &lines);
    if (!(lines ? read_lines(&b) : read_array(&b)))
        return HANDLED_DONE;
    jw_array_end(&b.w);
    jw_kv_i64(&b.w, "created", (int64_t)q->task_count);
    jw_kv_i64(&b.w, "failed", (int64_t)b.failed);
    jw_object_end(&b.w);
    buf_release(&q->body); /* what is needed of it is in the tasks */
    if (q->task_count == 0)
        return HANDLED_DONE;
    q->write.insert = (struct op_insert){
        .op = { .kind = OP_INSERT }, .tasks = q->tasks, .count = q->task_count, .idempotency = request_record(q)
    };
    return request_submit(q, tasks_created);
}
