/* What a user expects of a task, and who is told of it: `expect` and `notify`. They are kept in `extra`, with the other
 * fields that most tasks do not have. */
#include "api/task/body.h"
#include "base/sentence.h"
#include "core/notify/check.h"

enum { EXTRA_ROOM = 128, EXPECT_BYTES = 256, NOTIFY_MAX = 10, NOTIFY_BYTES = 200, NOTIFY_TEXT = 4096 };

static enum err task_expect_check(const struct task_body *b, const struct task *t, struct arena *a, bool *ret_is_none,
                                  struct error *e)
{
    struct expectation x = { 0 };
    bool is_own = t->kind != TASK_OCCURRENCE && uuid_is_nil(t->run);
    *ret_is_none = true;
    if (!is_own && b->has.expect)
        return error_field(e, TASK_EXPECT, "is only for tasks of their own, not for %s",
                           t->kind == TASK_OCCURRENCE ? "occurrences; change the recurring task" : "steps");
    if (!is_own)
        return ERR_OK;
    if (b->text.expect.n > EXPECT_BYTES)
        return error_field(e, TASK_EXPECT, "must be at most %d bytes long", EXPECT_BYTES);
    if (expectation_read(b->text.expect, t->kind == TASK_RECURRING, a, &x, e))
        return error_in(e, TASK_EXPECT);
    *ret_is_none = expectation_is_none(&x);
    return ERR_OK;
}

enum err task_check_read(const struct task *t, struct zoneinfo *zones, struct catalog_cache *catalog, struct arena *a,
                         struct task_check *ret, struct error *e)
{
    struct check_facts *f = &ret->facts;
    bool is_recurring = t->kind == TASK_RECURRING;
    f->task = t;
    if (expectation_read(task_extra(t, TASK_EXPECT), is_recurring, a, &f->expect, e))
        return e->code;
    if (expectation_is_none(&f->expect) || !is_recurring)
        return ERR_OK;
    if (task_rule(t, zones, catalog, &ret->schedule, &ret->base, e))
        return e->code;
    f->schedule = &ret->schedule;
    if (!f->expect.success_by.n)
        return ERR_OK;
    if (expectation_rule(&f->expect, t, ret->base.zone, ret->base.calendar, &ret->deadlines, e))
        return e->code;
    f->deadlines = &ret->deadlines;
    return ERR_OK;
}

/* Settings that exist: a name that nobody has would never tell anybody. */
static enum err task_notify_check(const struct task_body *b, const struct task_context *c, struct error *e)
{
    json_t *list = b->notify;
    if (!list || json_is_null(list))
        return ERR_OK;
    if (!json_is_array(list) || json_array_size(list) > NOTIFY_MAX || b->text.notify.n > NOTIFY_TEXT)
        return error_field(e, TASK_NOTIFY, "must be a list of at most %d ids or names of notification settings",
                           NOTIFY_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct str name = json_text_at(json_array_get(list, i), "");
        char quoted[QUOTE_TEXT];
        quote_text(name, quoted);
        if (!name.n || name.n > NOTIFY_BYTES || str_has_control(name))
            return error_field(e, TASK_NOTIFY, "must hold ids or names of notification settings");
        if (c->catalog && !catalog_cache_has_setting(c->catalog, c->tenant, name))
            return error_field(e, TASK_NOTIFY, "%s is neither the id nor the name of a notification setting", quoted);
    }
    return ERR_OK;
}

static void task_extra_put(struct jw *w, const char *name, struct str text)
{
    if (!text.n)
        return;
    jw_key(w, name);
    jw_raw(w, text);
}

/* The spread of a one-time task is among them: it is part of due_ms already. */
enum err task_set_extra(const struct task_body *b, const struct task_context *c, struct arena *a, struct task *t,
                        struct error *e)
{
    bool spreads = t->kind == TASK_ONE_TIME && b->spread_ms, expects_nothing;
    struct str expect = b->text.expect;
    if (task_expect_check(b, t, a, &expects_nothing, e) || task_notify_check(b, c, e))
        return e->code;
    expect = expects_nothing ? (struct str){ NULL, 0 } : expect;
    struct str rerun_of = task_extra(t, TASK_RERUN_OF), from = task_extra(t, TASK_RERUN_FROM);
    t->extra = (struct str){ NULL, 0 };
    if (!b->text.metadata.n && !expect.n && !b->text.notify.n && !spreads && !rerun_of.n)
        return ERR_OK;
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    buf_init(&out, expect.n + b->text.metadata.n + b->text.notify.n + rerun_of.n + from.n + EXTRA_ROOM);
    jw_init(&w, &out);
    jw_object(&w);
    task_extra_put(&w, TASK_EXPECT, expect); /* the first one: the store looks for it */
    task_extra_put(&w, TASK_METADATA, b->text.metadata);
    task_extra_put(&w, TASK_NOTIFY, b->text.notify);
    task_extra_put(&w, TASK_RERUN_OF, rerun_of);
    task_extra_put(&w, TASK_RERUN_FROM, from);
    if (spreads)
        jw_kv_seconds(&w, "spread_seconds", b->spread_ms);
    jw_object_end(&w);
    return !out.full && arena_str(a, buf_str(&out), &t->extra) ? ERR_OK : error_no_room(e);
}
