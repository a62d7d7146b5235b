/* Named definitions of workflows. A definition never changes: a name has versions. Runs keep the version that they were
 * opened with, so a name may be changed or removed at any time. */
#include <stdio.h>

#include "api/catalog/catalog_list.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_context.h"
#include "api/server/request_input.h"
#include "api/workflow/run.h"
#include "workflow/definition_secrets.h"

enum { WARNINGS_MAX = 20, HEADER_SHOWN = 128 };

static void definitions_write_members(struct jw *w, const struct workflow_row *row, const struct dag *d)
{
    char hash[2 * DEFINITION_HASH + 1];
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(hash + 2 * i, 3, "%02x", row->hash[i]);
    jw_kv_str(w, "name", row->name);
    jw_kv_i64(w, "version", row->version);
    jw_kv_cstr(w, "hash", hash);
    jw_kv_time(w, "created_at", row->created_ms);
    if (d)
        jw_kv_i64(w, "steps", d->n);
}

/* ---- reading ---- */

enum handled workflow_definitions_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct name_page page;
    struct workflow_rows rows = { 0 };
    char cursor[SEAL_TEXT_MAX + 1];
    if (!name_page_read(q, &page))
        return HANDLED_DONE;
    if (reader_workflows(r, q->who.tenant, page.after, (size_t)page.limit, &q->arena, &rows, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "definitions");
    jw_array(&w);
    for (size_t i = 0; i < rows.n; i++) {
        jw_object(&w);
        definitions_write_members(&w, &rows.v[i], NULL);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    struct pagination p = { .limit = page.limit, .total = -1, .more = rows.more && rows.n };
    if (p.more)
        p.next_name = rows.v[rows.n - 1].name;
    jw_kv_cstr(&w, "next_cursor", p.more ? seal_text(q, SEAL_CURSOR, p.next_name, cursor).p : NULL);
    pagination_write(q, &w, &p);
    jw_object_end(&w);
    return HANDLED_DONE;
}

struct definition_query {
    int64_t version;
};

enum handled workflow_definitions_get(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { .name = "version",
          .kind = QUERY_I64,
          .offset = offsetof(struct definition_query, version),
          .min = 1,
          .max = INT64_MAX },
    };
    struct error e = { 0 };
    struct definition_query p = { 0 };
    struct workflow_row row;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e))
        return request_fail(q, &e);
    if (run_find_workflow(q, r, q->name, p.version, &row, &e) ||
        definition_cache_get(q->server->definitions, r, q->who.tenant, row.hash, &d, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    definitions_write_members(&w, &row, d->dag);
    jw_key(&w, "definition");
    definition_secrets_hide(&w, d->dag->text);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- writing ---- */

/* The answer is stored with the change, so it is made before: from the latest version that was read. If another request
 * comes first, the client gets the version that its definition has; only the stored answer names another one. */
struct definition_put {
    struct str text; /* as it was given, with the secrets that were *** */
    struct definition definition;
    struct workflow_row row;
    uint32_t steps;
    bool exists, changed;
    struct sub_workflow *subs; /* those that are not stored, after definitions_check_subs */
    size_t sub_count;
    struct definition_dropped dropped[WARNINGS_MAX]; /* secret headers that the latest version has */
    size_t dropped_count;
};

/* A step that runs another workflow. */
struct sub_workflow {
    uint32_t step;
    struct str name;
    int64_t version; /* 0: the latest */
};

static void definitions_write_warning(struct jw *w, const char *field, const char *text)
{
    jw_object(w);
    jw_kv_cstr(w, "field", field);
    jw_kv_cstr(w, "message", text);
    jw_object_end(w);
}

static void definitions_write_dropped(struct jw *w, const struct definition_dropped *d)
{
    char field[HEADER_SHOWN + 96];
    snprintf(field, sizeof field, "steps[%zu].%starget_config.headers." STR_FMT, d->step,
             d->compensates ? "compensate." : "", STR_ARG(str_utf8_cut(d->header, HEADER_SHOWN)));
    definitions_write_warning(w, field,
                              "is a secret header of the version before, and this version has none; to keep its value, "
                              "send it as ***");
}

static void definitions_write_warnings(struct jw *w, const struct definition_put *p)
{
    char field[32], text[STEP_NAME_MAX + 128];
    jw_key(w, "warnings");
    jw_array(w);
    for (size_t i = 0; i < p->dropped_count; i++)
        definitions_write_dropped(w, &p->dropped[i]);
    for (size_t i = 0; i < min_of(p->sub_count, (size_t)WARNINGS_MAX); i++) {
        const struct sub_workflow *s = &p->subs[i];
        snprintf(field, sizeof field, "steps[%u]", s->step);
        if (s->version)
            snprintf(text, sizeof text, "the workflow '" STR_FMT "' has no version %lld yet", STR_ARG(s->name),
                     (long long)s->version);
        else
            snprintf(text, sizeof text, "no workflow is named '" STR_FMT "' yet", STR_ARG(s->name));
        definitions_write_warning(w, field, text);
    }
    jw_array_end(w);
}

/* Which workflows the steps run. */
static enum err definitions_find_subs(struct request *q, const struct dag *d, struct definition_put *p, struct error *e)
{
    p->subs = arena_array(&q->arena, struct sub_workflow, d->n);
    if (!p->subs)
        return error_no_room(e);
    for (uint32_t i = 0; i < d->n; i++) {
        cleanup_with(json_doc_release) struct json_doc doc = { 0 };
        struct sub_workflow *s = &p->subs[p->sub_count];
        if (!d->steps[i].is_workflow)
            continue;
        if (json_parse(d->steps[i].text, &doc, e))
            return e->code;
        s->step = i;
        s->version = json_i64_at(doc.root, "target_config.version", 0);
        if (!arena_str(&q->arena, json_text_at(doc.root, "target_config.workflow"), &s->name))
            return error_no_room(e);
        p->sub_count++;
    }
    return ERR_OK;
}

/* Leaves those that are not stored. They may be stored later, before a run comes to them. */
static enum err definitions_check_subs(struct request *q, struct reader *r, struct definition_put *p, struct error *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->sub_count && kept < WARNINGS_MAX; i++) {
        struct workflow_row row;
        const struct sub_workflow *s = &p->subs[i];
        enum err rc = reader_workflow(r, q->who.tenant, s->name, s->version, &q->arena, &row, e);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
        if (rc && !str_eq(s->name, q->name))
            p->subs[kept++] = *s;
    }
    p->sub_count = kept;
    return ERR_OK;
}

static void definitions_write_put(struct request *q, const struct definition_put *p)
{
    struct dag d = { .n = p->steps };
    struct jw w = respond_json(&q->response, p->exists ? 200 : 201);
    jw_object(&w);
    definitions_write_members(&w, &p->row, &d);
    jw_kv_bool(&w, "changed", p->changed);
    definitions_write_warnings(&w, p);
    jw_object_end(&w);
}

static void definitions_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct definition_put *p = q->context;
    const struct op_define *d = &q->write.define;
    if (request_replayed(q, op))
        return;
    if (op->rc)
        request_fail(q, &op->error);
    else if (d->ret_version != p->row.version || d->ret_created_ms != p->row.created_ms) {
        p->row.version = d->ret_version; /* another request came first: its version was not known */
        p->row.created_ms = d->ret_created_ms;
        p->changed = d->ret_changed;
        definitions_write_put(q, p);
    }
    request_answer(q);
}

/* With secrets, a text has another hash with each key. The same text is the same version, whatever key it was stored
 * with. */
static enum err definitions_compare(struct request *q, struct reader *r, const struct workflow_row *latest,
                                    struct error *e)
{
    struct definition_put *p = q->context;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    enum err rc = definition_cache_get(q->server->definitions, r, q->who.tenant, latest->hash, &d, e);
    if (rc)
        return rc == ERR_NOT_FOUND || rc == ERR_CORRUPT ? ERR_OK : rc; /* this version replaces it */
    if (str_eq(d->dag->text, p->text)) {
        memcpy(p->definition.hash, latest->hash, DEFINITION_HASH);
        return ERR_OK;
    }
    p->dropped_count = definition_secrets_dropped(p->text, d->dag->text, p->dropped, WARNINGS_MAX);
    for (size_t i = 0; i < p->dropped_count; i++)
        if (!arena_str(&q->arena, p->dropped[i].header, &p->dropped[i].header))
            return error_no_room(e);
    return ERR_OK;
}

static enum handled definitions_put(struct request *q, struct reader *r)
{
    struct definition_put *p = q->context;
    struct error e = { 0 };
    struct workflow_row latest;
    enum err rc = reader_workflow(r, q->who.tenant, q->name, 0, &q->arena, &latest, &e);
    if ((rc && rc != ERR_NOT_FOUND) || definitions_check_subs(q, r, p, &e) ||
        (!rc && definitions_compare(q, r, &latest, &e)))
        return request_fail(q, &e);
    p->exists = rc == ERR_OK;
    bool same = p->exists && memcmp(latest.hash, p->definition.hash, DEFINITION_HASH) == 0;
    p->changed = !same;
    p->row = (struct workflow_row){ .tenant = q->who.tenant,
                                    .name = q->name,
                                    .version = same        ? latest.version
                                               : p->exists ? latest.version + 1
                                                           : 1,
                                    .created_ms = same ? latest.created_ms : q->now_ms };
    memcpy(p->row.hash, p->definition.hash, DEFINITION_HASH);
    definitions_write_put(q, p);
    if (same)
        return request_store_record(q);
    q->write.define = (struct op_define){ .op = { .kind = OP_DEFINE },
                                          .definition = &p->definition,
                                          .tenant = q->who.tenant,
                                          .name = q->name,
                                          .now_ms = q->now_ms,
                                          .idempotency = request_record(q) };
    return request_submit(q, definitions_on_put);
}

/* Secrets that the client was not shown stay as they are in the latest version. */
static enum err definitions_keep_secrets(struct request *q, struct reader *r, struct str *text, struct error *e)
{
    struct workflow_row latest;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    enum err rc = reader_workflow(r, q->who.tenant, q->name, 0, &q->arena, &latest, e);
    if (!rc)
        rc = definition_cache_get(q->server->definitions, r, q->who.tenant, latest.hash, &d, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    return rc ? rc : definition_secrets_keep(*text, d->dag->text, &q->arena, text, e);
}

enum handled workflow_definitions_put(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task_context c = request_context(q);
    struct str text = buf_str(&q->body);
    cleanup_with(dag_freep) struct dag *d = NULL;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (step_name_check(q->name, &e)) {
        (void)error_in(&e, "name");
        return request_fail(q, &e);
    }
    if (text.n == 0)
        return request_refuse(q, PROBLEM_INVALID, "the body must be a definition: {\"steps\": […]}");
    if (str_contains_nocase(text, S("\"***\"")) && definitions_keep_secrets(q, r, &text, &e))
        return request_fail(q, &e);
    struct definition_errors *errors = arena_new(&q->arena, struct definition_errors);
    if (!errors)
        return request_refuse(q, PROBLEM_TOO_LARGE, "the definition does not fit in the memory allowed");
    if (definition_read_all(text, &c, &d, errors))
        return run_refuse_definition(q, errors, NULL);
    struct definition_put *p = arena_new(&q->arena, struct definition_put);
    p->text = text;
    p->steps = d->n;
    if (definitions_find_subs(q, d, p, &e) ||
        definition_secrets_seal(q->server->setup.secrets, q->who.tenant, text, &q->arena, &p->definition, &e))
        return request_fail(q, &e);
    q->context = p;
    return definitions_put(q, r);
}

static void definitions_on_deleted(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_NOT_FOUND)
        request_refuse(q, PROBLEM_NOT_FOUND, "there is no such workflow");
    else if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

enum handled workflow_definitions_delete(struct request *q, struct reader *r)
{
    (void)r;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    respond_nothing(&q->response);
    q->write.define = (struct op_define){ .op = { .kind = OP_DEFINE },
                                          .tenant = q->who.tenant,
                                          .name = q->name,
                                          .remove = true,
                                          .now_ms = q->now_ms,
                                          .idempotency = request_record(q) };
    return request_submit(q, definitions_on_deleted);
}
