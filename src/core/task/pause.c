#include "core/task/pause.h"

#include <assert.h>

#include "base/json/json.h"

enum { PAUSE_TEXT_MAX = 1000, PAUSE_DOC_MAX = 16 << 10, PAUSE_ARENA = 32 << 10 };

/* clang-format off */
#define AT(member) .offset = offsetof(struct pause, member)
static const struct json_field pause_fields[] = {
    { .name = "by", .kind = JSON_KIND_STR, AT(by), .max = PAUSE_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "reason", .kind = JSON_KIND_STR, AT(reason), .max = PAUSE_TEXT_MAX, .characters = true, .nullable = true },
    { .name = "since", .kind = JSON_KIND_TIME, AT(since_ms), .required = true },
    { .name = "until", .kind = JSON_KIND_TIME, AT(until_ms), .nullable = true },
    { .name = "ending", .kind = JSON_KIND_TIME, AT(ending_ms) },
};
#undef AT
/* clang-format on */

bool pause_read(struct str doc, struct arena *a, struct pause *ret)
{
    cleanup_with(json_doc_release) struct json_doc parsed = { 0 };
    struct error e;
    *ret = (struct pause){ 0 };
    return doc.n && json_parse(doc, &parsed, &e) == ERR_OK &&
           json_read(parsed.root, pause_fields, array_count(pause_fields), ret, a, &e) == ERR_OK;
}

void pause_write(struct jw *w, const struct pause *p)
{
    jw_object(w);
    jw_kv_str_or_null(w, "by", p->by);
    jw_kv_str_or_null(w, "reason", p->reason);
    jw_kv_time(w, "since", p->since_ms);
    jw_kv_time_or_null(w, "until", p->until_ms);
    if (p->ending_ms)
        jw_kv_time(w, "ending", p->ending_ms);
    jw_object_end(w);
}

bool task_pause(const struct task *t, struct arena *a, struct pause *ret)
{
    return pause_read(t->state == TASK_PAUSED ? t->resolution : (struct str){ 0 }, a, ret);
}

int64_t task_paused_until_ms(const struct task *t)
{
    struct pause p;
    if (t->state != TASK_PAUSED || !t->resolution.n)
        return 0;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, PAUSE_ARENA);
    return task_pause(t, &a, &p) ? p.until_ms : 0;
}

bool task_set_pause(struct task *t, const struct pause *p, struct arena *a)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    assert(t->state == TASK_PAUSED);
    buf_init(&doc, PAUSE_DOC_MAX);
    jw_init(&w, &doc);
    pause_write(&w, p);
    return !doc.full && arena_str(a, buf_str(&doc), &t->resolution);
}
