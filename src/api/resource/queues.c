/* Queues: the limits that a user sets, and their current state. A queue exists as soon as a task names it. Without
 * rules of its own it has the defaults. */
#include <stdlib.h>

#include "api/auth/sender.h"
#include "api/catalog/catalog_list.h"
#include "api/catalog/catalog_update.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/task/pause_body.h"
#include "base/json/json.h"
#include "core/sharing/queue_rules.h"

#define NO_SUCH_QUEUE "there is no such queue: it has neither rules nor tasks"
enum { RATE_MAX = 1000000, COUNT_MAX = 1000000 };

/* ---- the queues of a tenant ---- */

/* A pause whose time has passed is over, even if its end was not written to the store. */
static struct queue_rules queues_rules_at(struct queue_rules rules, int64_t now_ms)
{
    if (!rules.paused || queue_is_paused(&rules, now_ms))
        return rules;
    rules.paused = false;
    rules.resumed_ms = rules.paused_until_ms;
    rules.paused_by = rules.paused_reason = (struct str){ 0 };
    rules.paused_ms = rules.paused_until_ms = 0;
    return rules;
}

/* Whether the gate is a limit of the queue or of its tenant. */
static bool queues_gate_is_limit(enum lane_gate gate)
{
    return gate == LANE_RATE || gate == LANE_CONCURRENCY || gate == LANE_TENANT_LIMIT || gate == LANE_TENANT_SHARE;
}

/* standing NULL: its state is not known. If nothing is due, a limit holds nothing back: a node that shares a limit
 * with others gives its part back then, and its gate is closed until something is due. */
static void queues_write_state(struct jw *w, bool paused, const struct queue_standing *standing, int64_t due)
{
    bool throttled = due > 0 && standing && standing->known && queues_gate_is_limit(standing->hold.gate);
    jw_kv_cstr(w, "state", paused ? "paused" : throttled ? "throttled" : "open");
    jw_key(w, "running");
    if (standing)
        jw_i64(w, (int64_t)standing->held);
    else
        jw_null(w);
}

/* entry NULL: the queue has no rules of its own. */
static void queues_write(struct jw *w, struct str name, const struct queue_rules *rules,
                         const struct catalog_entry *entry, int64_t due, const struct queue_standing *standing)
{
    jw_object(w);
    jw_kv_str(w, "name", name);
    queue_rules_write(w, rules);
    queues_write_state(w, rules->paused, standing, due);
    if (due >= 0)
        jw_kv_i64(w, "due", due);
    if (entry)
        catalog_entry_members(w, entry);
    else
        jw_kv_i64(w, "version", 0);
    jw_object_end(w);
}

struct queue_found {
    struct str name;
    const struct catalog_entry *entry; /* NULL: it has tasks, but no rules */
};

static int queues_compare_found(const void *a, const void *b)
{
    const struct queue_found *x = a, *y = b;
    int order = str_cmp(x->name, y->name);
    return order ? order : (x->entry == NULL) - (y->entry == NULL);
}

/* All queues of a tenant, by name: those that have rules, and those that have tasks. */
static enum err queues_find_all(struct request *q, struct reader *r, struct queue_found **ret, size_t *ret_count,
                                struct error *e)
{
    struct catalog_entries entries;
    struct used_queues used = { 0 };
    size_t n = 0, kept = 0;
    if (catalog_read_all(q, r, CATALOG_QUEUE, q->who.tenant, &entries, e) ||
        reader_queues(r, q->who.tenant, &q->arena, &used, e))
        return e->code;
    struct queue_found *v = arena_array(&q->arena, struct queue_found, entries.n + used.n + 1);
    if (!v)
        return error_set(e, ERR_LIMIT, "the answer would be too large");
    for (size_t i = 0; i < entries.n; i++)
        v[n++] = (struct queue_found){ entries.v[i].name, &entries.v[i] };
    for (size_t i = 0; i < used.n; i++)
        v[n++] = (struct queue_found){ used.v[i], NULL };
    if (n)
        qsort(v, n, sizeof *v, queues_compare_found);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !str_eq(v[i].name, v[kept - 1].name))
            v[kept++] = v[i];
    *ret = v;
    *ret_count = kept;
    return ERR_OK;
}

static enum err queues_rules_of(struct request *q, const struct queue_found *f, struct queue_rules *ret,
                                struct error *e)
{
    *ret = QUEUE_RULES_DEFAULT;
    enum err rc = f->entry ? queue_rules_read(f->entry->doc, &q->arena, ret, e) : ERR_OK;
    if (rc == ERR_OK)
        *ret = queues_rules_at(*ret, q->now_ms);
    return rc == ERR_OK ? ERR_OK : error_set(e, ERR_CORRUPT, "queue '" STR_FMT "' cannot be read", STR_ARG(f->name));
}

/* ---- shown with the state that the node knows ---- */

struct queue_view {
    struct request *q;
    struct queue_found *v;
    size_t n;
    struct queues_answer answer;
    struct pagination pages;
    bool is_list;
};

static enum err queues_show(struct request *q, struct reader *r, struct jw *w, size_t i, struct error *e)
{
    const struct queue_view *view = q->queues;
    const struct queue_found *f = &view->v[i];
    struct queue_rules rules;
    int64_t due = 0;
    if (queues_rules_of(q, f, &rules, e) || reader_queue_due(r, q->who.tenant, f->name, q->now_ms, &due, e))
        return e->code;
    queues_write(w, f->name, &rules, f->entry, due, view->answer.v ? &view->answer.v[i] : NULL);
    return ERR_OK;
}

static enum handled queues_show_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "queues");
    jw_array(&w);
    for (size_t i = 0; i < q->queues->n; i++)
        if (queues_show(q, r, &w, i, &e))
            return request_fail(q, &e);
    jw_array_end(&w);
    pagination_write(q, &w, &q->queues->pages);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static enum handled queues_show_one(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct jw w = respond_json(&q->response, 200);
    if (queues_show(q, r, &w, 0, &e))
        return request_fail(q, &e);
    if (q->queues->v[0].entry)
        respond_etag(&q->response, q->queues->v[0].entry->version);
    return HANDLED_DONE;
}

static void queues_on_node_answer(struct queues_answer *answer)
{
    struct queue_view *view = container_of(answer, struct queue_view, answer);
    request_later(view->q, view->is_list ? queues_show_list : queues_show_one);
}

/* Asks the node for the state of the queues, then continues on a pool thread. */
static enum handled queues_ask_node(struct request *q, struct reader *r, struct queue_view view)
{
    const struct api_setup *setup = &q->server->setup;
    q->queues = arena_new(&q->arena, struct queue_view);
    *q->queues = view;
    q->queues->q = q;
    if (!setup->queues || !view.n)
        return view.is_list ? queues_show_list(q, r) : queues_show_one(q, r);
    struct queues_answer *a = &q->queues->answer;
    *a = (struct queues_answer){ .done = queues_on_node_answer, .tenant = q->who.tenant, .n = view.n };
    a->v = arena_array(&q->arena, struct queue_standing, view.n);
    for (size_t i = 0; i < view.n; i++)
        a->v[i].name = view.v[i].name;
    setup->queues(setup->context, a);
    return HANDLED_LATER;
}

enum handled queues_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct name_page page;
    struct queue_found *v = NULL;
    size_t n = 0, from = 0;
    if (!name_page_read(q, &page))
        return HANDLED_DONE;
    if (queues_find_all(q, r, &v, &n, &e))
        return request_fail(q, &e);
    while (from < n && page.after.n && str_cmp(v[from].name, page.after) <= 0)
        from++;
    size_t shown = min_of(n - from, (size_t)page.limit);
    struct pagination p = { .limit = page.limit, .total = -1, .more = from + shown < n };
    if (p.more)
        p.next_name = v[from + shown - 1].name;
    return queues_ask_node(q, r, (struct queue_view){ .v = v + from, .n = shown, .pages = p, .is_list = true });
}

/* Whether a task has ever named this queue. */
static enum err queues_is_used(struct request *q, struct reader *r, bool *ret, struct error *e)
{
    struct used_queues used = { 0 };
    enum err rc = reader_queues(r, q->who.tenant, &q->arena, &used, e);
    *ret = false;
    for (size_t i = 0; rc == ERR_OK && i < used.n; i++)
        *ret = *ret || str_eq(used.v[i], q->name);
    return rc;
}

enum handled queues_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct catalog_entry *entry = arena_new(&q->arena, struct catalog_entry);
    struct queue_found *f = arena_new(&q->arena, struct queue_found);
    bool used = false;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    enum err rc = reader_catalog_get(r, q->who.tenant, CATALOG_QUEUE, q->name, &q->arena, entry, &e);
    *f = (struct queue_found){ q->name, rc == ERR_OK ? entry : NULL };
    if (rc && (rc != ERR_NOT_FOUND || queues_is_used(q, r, &used, &e)))
        return request_fail(q, &e);
    if (!f->entry && !used)
        return request_refuse(q, PROBLEM_NOT_FOUND, NO_SUCH_QUEUE);
    return queues_ask_node(q, r, (struct queue_view){ .v = f, .n = 1 });
}

/* ---- changes ---- */

struct queue_body {
    double rate;
    int64_t burst, concurrent, weight;
    json_t *paused, *ignored;
    struct pause_body pause;
    struct { /* the field is in the body; nullable fields: also if it is null */
        bool rate, burst, concurrent, weight, paused;
    } has;
};

#define ROW(text, kind_, member, seen, ...)                                                                            \
    {                                                                                                                  \
        .name = (text), .kind = JSON_KIND_##kind_, .offset = offsetof(struct queue_body, member),                      \
        .seen_offset = offsetof(struct queue_body, has.seen), .nullable = true, __VA_ARGS__                            \
    }

static const struct json_field queue_body_fields[] = {
    ROW("max_dispatches_per_second", F64, rate, rate, .max = RATE_MAX),
    ROW("max_burst", I64, burst, burst, .min = 1, .max = COUNT_MAX),
    ROW("max_concurrent", I64, concurrent, concurrent, .max = COUNT_MAX),
    ROW("weight", I64, weight, weight, .min = 1, .max = 1000),
    { .name = "paused",
      .kind = JSON_KIND_RAW,
      .offset = offsetof(struct queue_body, paused),
      .seen_offset = offsetof(struct queue_body, has.paused) },
    PAUSE_BODY_ROWS(struct queue_body, pause),
};

/* The answer of GET may be sent back. by and since are ignored: the server sets them. */
static const struct json_field paused_fields[] = {
    PAUSE_BODY_ROWS(struct queue_body, pause),
    { .name = "by", .kind = JSON_KIND_RAW, .offset = offsetof(struct queue_body, ignored) },
    { .name = "since", .kind = JSON_KIND_RAW, .offset = offsetof(struct queue_body, ignored) },
};

static enum err queues_check_pause(struct queue_body *b, int64_t now_ms, struct error *e)
{
    bool pauses = json_is_true(b->paused) || json_is_object(b->paused);
    if (b->has.paused && !pauses && !json_is_false(b->paused) && !json_is_null(b->paused))
        return error_field(e, "paused", "must be true or false");
    if (!pauses && (b->pause.reason.n || b->pause.until_ms || b->pause.for_ms))
        return error_field(e,
                           b->pause.reason.n   ? "reason"
                           : b->pause.until_ms ? "until"
                                               : "for",
                           "is only allowed with \"paused\": true");
    return pause_body_check_end(&b->pause, now_ms, e);
}

static enum err queues_read_body(struct request *q, struct queue_body *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    *ret = (struct queue_body){ 0 };
    if (request_read_object(q, &doc, e) ||
        json_read(doc.root, queue_body_fields, array_count(queue_body_fields), ret, &q->arena, e))
        return e->code;
    if (json_is_object(ret->paused) &&
        json_read(ret->paused, paused_fields, array_count(paused_fields), ret, &q->arena, e))
        return error_in(e, "paused");
    enum err rc = queues_check_pause(ret, q->now_ms, e);
    /* the document is freed: keep a value that outlives it */
    ret->paused = json_is_true(ret->paused) || json_is_object(ret->paused) ? json_true() : NULL;
    return rc;
}

/* In PUT a null field is the same as absent. In PATCH it sets the field back to its default. The rules hold the values
 * for absent fields. */
static void queues_apply_limits(const struct queue_body *b, struct queue_rules *rules)
{
    if (b->has.rate)
        rules->rate = b->rate;
    if (b->has.concurrent)
        rules->concurrent = b->concurrent;
    if (b->has.weight)
        rules->weight = b->weight ? b->weight : QUEUE_RULES_DEFAULT.weight;
    if (b->has.burst)
        rules->burst = b->burst;
    else if (b->has.rate)
        rules->burst = 0;
    if (rules->rate > 0 && rules->burst == 0) /* not given: the tokens of one second */
        rules->burst = max_of((int64_t)rules->rate, (int64_t)1);
}

static enum err queues_apply_pause(struct request *q, struct reader *r, const struct queue_body *b,
                                   struct queue_rules *rules, struct error *e)
{
    if (!b->has.paused)
        return ERR_OK;
    if (!b->paused) {
        bool was_paused = rules->paused;
        int64_t resumed_ms = was_paused ? q->now_ms : rules->resumed_ms;
        rules->paused = false;
        rules->paused_by = rules->paused_reason = (struct str){ 0 };
        rules->paused_ms = rules->paused_until_ms = 0;
        rules->resumed_ms = resumed_ms;
        return ERR_OK;
    }
    rules->paused_ms = rules->paused ? rules->paused_ms : q->now_ms; /* it was paused already: the pause goes on */
    rules->paused = true;
    rules->paused_reason = b->pause.reason;
    rules->paused_until_ms = b->pause.until_ms;
    q->act_reason = rules->paused_reason;
    q->act_until_ms = rules->paused_until_ms;
    return sender_own_name(q, r, &rules->paused_by, e);
}

/* A resume alone of a queue that nobody knows is a typing error. A pause or limits may come before the first task. */
static enum err queues_check_resume(struct request *q, struct reader *r, const struct queue_body *b, bool exists,
                                    struct error *e)
{
    bool limits = b->has.rate || b->has.burst || b->has.concurrent || b->has.weight, used = false;
    if (q->method != HTTP_PATCH || exists || limits || !b->has.paused || b->paused)
        return ERR_OK;
    if (queues_is_used(q, r, &used, e))
        return e->code;
    return used ? ERR_OK : error_set(e, ERR_NOT_FOUND, NO_SUCH_QUEUE);
}

static enum err queues_make(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct queue_body body;
    struct queue_rules old, rules;
    struct queue_found f = { c->name, c->exists ? &c->current : NULL };
    if (queues_read_body(q, &body, e) || queues_check_resume(q, r, &body, c->exists, e) ||
        queues_rules_of(q, &f, &old, e))
        return e->code;
    rules = old;
    if (q->method == HTTP_PUT) { /* PUT replaces the limits; a pause stays until a request ends it */
        rules.rate = 0;
        rules.burst = rules.concurrent = 0;
        rules.weight = QUEUE_RULES_DEFAULT.weight;
    }
    queues_apply_limits(&body, &rules);
    if (queues_apply_pause(q, r, &body, &rules, e))
        return e->code;
    struct jw w;
    jw_init(&w, c->doc);
    jw_object(&w);
    queue_rules_write(&w, &rules);
    jw_object_end(&w);
    if (catalog_update_set_doc(q, c, e))
        return e->code;
    w = respond_json(&q->response, 200);
    queues_write(&w, c->name, &rules, &c->v[0].entry, -1, NULL);
    respond_etag(&q->response, c->v[0].entry.version);
    return ERR_OK;
}

static enum err queues_make_removed(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    (void)r;
    if (!c->exists)
        return error_set(e, ERR_NOT_FOUND, "this queue has no rules of its own");
    c->v[0].remove = true;
    respond_nothing(&q->response);
    return ERR_OK;
}

static enum handled queues_change(struct request *q, struct reader *r,
                                  enum err (*make)(struct request *, struct reader *, struct catalog_update *,
                                                   struct error *))
{
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    return catalog_update_begin(
        q, r,
        (struct catalog_update){
            .kind = CATALOG_QUEUE, .tenant = q->who.tenant, .name = q->name, .what = "queue", .make = make });
}

enum handled queues_put(struct request *q, struct reader *r)
{
    return queues_change(q, r, queues_make);
}

enum handled queues_patch(struct request *q, struct reader *r)
{
    return queues_change(q, r, queues_make);
}

/* The tasks of the queue stay and follow the default rules. */
enum handled queues_delete(struct request *q, struct reader *r)
{
    return queues_change(q, r, queues_make_removed);
}
