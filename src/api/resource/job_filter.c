/* The filter of a job, as its request says it, becomes a filter of the store. */
#include "api/resource/jobs.h"
#include "api/resource/listing.h"
#include "base/json/json.h"

struct filter_body {
    struct str status, name, queue, task_type, cause;
    int64_t due_before_ms, due_after_ms, created_before_ms, created_after_ms;
    int kind; /* NO_KIND: any */
    bool has_all, all;
};
enum { NO_KIND = -1 };

#define ROW(text, type, member) .name = (text), .kind = JSON_KIND_##type, .offset = offsetof(struct filter_body, member)
static const char *const kinds[] = { "ONE_TIME", "RECURRING", NULL };
static const struct json_field fields[] = {
    { ROW("status", STR, status), .min = 1, .max = 255 },
    { ROW("type", ENUM, kind), .names = kinds },
    { ROW("name", STR, name), .min = 1, .max = NAME_FILTER_MAX, .characters = true },
    { ROW("queue", STR, queue), .min = 1, .max = 255, .characters = true },
    { ROW("task_type", STR, task_type), .min = 1, .max = 255, .characters = true },
    { ROW("cause", STR, cause), .min = 1, .max = FINGERPRINT_TEXT, .characters = true },
    { ROW("due_before", TIME, due_before_ms) },
    { ROW("due_after", TIME, due_after_ms) },
    { ROW("created_before", TIME, created_before_ms) },
    { ROW("created_after", TIME, created_after_ms) },
    { ROW("all", BOOL, all), .seen_offset = offsetof(struct filter_body, has_all) },
};

static enum err job_filter_read_states(struct str names, unsigned *ret, struct error *e)
{
    struct str rest = names, name;
    while (str_cut(&rest, ',', &name)) {
        unsigned states;
        if (!task_states_parse(str_trim(name), &states))
            return error_field(e, "filter.status",
                               "'" STR_FMT "' is not a status; statuses are SCHEDULED, PAUSED, FAILED and others",
                               STR_ARG(str_utf8_cut(name, 40)));
        *ret |= states;
    }
    return ERR_OK;
}

enum err job_filter(const struct job *j, int32_t tenant, int64_t now_ms, struct arena *a, struct task_filter *ret,
                    struct error *e)
{
    struct filter_body b = { .kind = NO_KIND };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(j->filter, &doc, e) || json_read(doc.root, fields, array_count(fields), &b, a, e)) {
        error_in(e, "filter");
        return e->code;
    }
    if (json_object_size(doc.root) == 0)
        return error_field(e, "filter", "is empty: name at least one field, or say {\"all\": true}");
    if (b.has_all && !b.all) /* alone it would select everything */
        return error_field(e, "filter.all", "can only be true; to select some tasks, leave it out");
    if (j->redrive && (b.status.n || b.kind != NO_KIND))
        return error_field(e, b.status.n ? "filter.status" : "filter.type",
                           "cannot be given here: a re-drive is for dead letters, which are FAILED");
    *ret = (struct task_filter){
        .tenant = tenant,
        .states = j->redrive ? 1U << TASK_FAILED : 0,
        .shown_at_ms = now_ms,
        .by_resolved = j->redrive,
        .occurrences = j->redrive || j->action == ACTION_RETRY, /* occurrences may have failed too */
        .by_kind = b.kind != NO_KIND,
        .recurring = b.kind == 1,
        .name = b.name,
        .queue = b.queue,
        .task_type = b.task_type,
        .cause = b.cause,
        .due_before_ms = b.due_before_ms,
        .due_after_ms = b.due_after_ms,
        .created_before_ms = b.created_before_ms,
        .created_after_ms = b.created_after_ms,
    };
    return job_filter_read_states(b.status, &ret->states, e);
}
