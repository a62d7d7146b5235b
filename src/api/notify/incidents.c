/* Incidents: list, show, acknowledge, mute. */
#include "api/auth/sender.h"
#include "api/notify/record_change.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/date.h"
#include "base/json/json.h"

enum { MUTE_MAX_DAYS = 365, MUTE_DEFAULT_MS = 3600000 };

/* ---- showing ---- */

static void incidents_write(struct jw *w, const struct incident *i, const struct setting_names *names)
{
    bool is_open = incident_is_open(i);
    int64_t closed_ms = i->closed_ms ? i->closed_ms : i->last_ms;
    jw_object(w);
    jw_kv_uuid(w, "id", i->id);
    jw_kv_uuid(w, "setting", i->setting);
    jw_kv_str_or_null(w, "setting_name", setting_names_get(names, i->setting));
    jw_kv_cstr(w, "kind", incident_kind_names[i->kind]);
    jw_kv_str(w, "cause", i->cause);
    jw_kv_str_or_null(w, "detail", i->detail);
    jw_kv_cstr(w, "state", is_open ? "OPEN" : "CLOSED");
    jw_kv_i64(w, "count", i->count);
    jw_kv_time(w, "first_at", i->first_ms);
    jw_kv_time(w, "last_at", i->last_ms);
    jw_kv_time_or_null(w, "told_at", i->told_ms);
    jw_kv_i64(w, "told", i->told);
    jw_kv_time_or_null(w, "closed_at", is_open ? 0 : closed_ms);
    jw_kv_bool(w, "recovered", i->recovered);
    jw_kv_time_or_null(w, "acknowledged_at", i->acked_ms);
    jw_kv_str_or_null(w, "acknowledged_by", i->acked_by);
    jw_kv_time_or_null(w, "muted_until", i->muted_until_ms);
    jw_kv_i64(w, "recurring_failing", is_open ? (int64_t)i->recurring_count + i->recurring_more : 0);
    jw_key(w, "tasks");
    jw_array(w);
    for (size_t k = 0; k < i->task_count; k++)
        incident_write_task(w, &i->tasks[k]);
    jw_array_end(w);
    jw_object_end(w);
}

static enum err incidents_show(struct request *q, struct jw *w, const struct record *record,
                               const struct setting_names *names, struct error *e)
{
    struct incident x;
    if (incident_read(record->doc, &q->arena, &x, e))
        return e->code;
    incidents_write(w, &x, names);
    return ERR_OK;
}

struct incident_query {
    int64_t limit;
    struct str cursor;
    struct uuid setting;
    int state;
};

/* The store keeps groups of successes open for a while, so that more can be added to them. */
static enum err incidents_show_open(struct request *q, struct jw *w, const struct record *record,
                                    const struct setting_names *names, struct error *e)
{
    struct incident x;
    if (incident_read(record->doc, &q->arena, &x, e))
        return e->code;
    if (incident_is_open(&x))
        incidents_write(w, &x, names);
    return ERR_OK;
}

enum handled incidents_list(struct request *q, struct reader *r)
{
    static const char *const states[] = { "OPEN", "ALL", NULL };
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor",
          .kind = QUERY_TEXT,
          .offset = offsetof(struct incident_query, cursor),
          .max = SEAL_TEXT_MAX },
        { .name = "setting", .kind = QUERY_ID, .offset = offsetof(struct incident_query, setting) },
        { .name = "state", .kind = QUERY_CHOICE, .offset = offsetof(struct incident_query, state), .names = states },
    };
    struct incident_query p = { .limit = LIST_DEFAULT };
    struct record_filter f = { .kind = RECORD_INCIDENT, .tenant = q->who.tenant };
    struct error e = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &f.before, &e))
        return request_fail(q, &e);
    f.setting = p.setting;
    f.open = p.state == 1;
    f.limit = (size_t)p.limit;
    return records_answer(q, r, &f, "incidents", f.open ? incidents_show_open : incidents_show);
}

enum handled incidents_get(struct request *q, struct reader *r)
{
    return record_answer(q, r, RECORD_INCIDENT, incidents_show);
}

/* ---- changes ---- */

/* The notifier looks at it again, and finds when it is due next. */
static enum err incidents_put(struct request *q, struct reader *r, struct record_change *c, const struct incident *i,
                              struct error *e)
{
    struct record_edit *edit = q->context;
    struct setting_names names;
    if (setting_names_read(q, r, &names, e))
        return e->code;
    edit->incident = *i;
    struct jw w = respond_json(&q->response, 200);
    incidents_write(&w, i, &names);
    c->record.next_ms = i->closed_ms ? 0 : q->now_ms;
    return record_set_incident(q, &c->record, i, e);
}

static enum err incidents_make_acked(struct request *q, struct reader *r, struct record_change *c, struct error *e)
{
    struct incident i;
    if (request_check_no_body(q, e) || incident_read(c->record.doc, &q->arena, &i, e))
        return e->code;
    if (!i.acked_ms) {
        i.acked_ms = q->now_ms;
        if (sender_own_name(q, r, &i.acked_by, e))
            return e->code;
    }
    return incidents_put(q, r, c, &i, e);
}

struct mute_body {
    int64_t for_ms, until_ms;
};

static enum err incidents_make_muted(struct request *q, struct reader *r, struct record_change *c, struct error *e)
{
    static const struct json_field fields[] = {
        { .name = "for",
          .kind = JSON_KIND_DURATION,
          .offset = offsetof(struct mute_body, for_ms),
          .min = 1000,
          .max = MUTE_MAX_DAYS * DAY_MS },
        { .name = "until", .kind = JSON_KIND_TIME, .offset = offsetof(struct mute_body, until_ms) },
    };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct mute_body body = { 0 };
    struct incident i;
    if (request_read_object(q, &doc, e) || json_read(doc.root, fields, array_count(fields), &body, &q->arena, e) ||
        incident_read(c->record.doc, &q->arena, &i, e))
        return e->code;
    if (body.for_ms && body.until_ms)
        return error_field(e, "for", "cannot be given together with until; give one of the two");
    if (body.until_ms && body.until_ms <= q->now_ms)
        return error_field(e, "until", "is in the past");
    i.muted_until_ms = body.until_ms ? body.until_ms : q->now_ms + (body.for_ms ? body.for_ms : MUTE_DEFAULT_MS);
    q->act_until_ms = i.muted_until_ms;
    return incidents_put(q, r, c, &i, e);
}

static enum err incidents_make_unmuted(struct request *q, struct reader *r, struct record_change *c, struct error *e)
{
    struct incident i;
    if (request_check_no_body(q, e) || incident_read(c->record.doc, &q->arena, &i, e))
        return e->code;
    i.muted_until_ms = 0;
    return incidents_put(q, r, c, &i, e);
}

enum handled incidents_ack(struct request *q, struct reader *r)
{
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    return record_edit_begin(q, r,
                             (struct record_edit){ .kind = RECORD_INCIDENT,
                                                   .make = incidents_make_acked,
                                                   .what_changes = INCIDENT_CHANGE_ACKNOWLEDGED });
}

enum handled incidents_mute(struct request *q, struct reader *r)
{
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    return record_edit_begin(q, r,
                             (struct record_edit){ .kind = RECORD_INCIDENT,
                                                   .make = incidents_make_muted,
                                                   .what_changes = INCIDENT_CHANGE_MUTED });
}

enum handled incidents_unmute(struct request *q, struct reader *r)
{
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    return record_edit_begin(q, r,
                             (struct record_edit){ .kind = RECORD_INCIDENT,
                                                   .make = incidents_make_unmuted,
                                                   .what_changes = INCIDENT_CHANGE_UNMUTED });
}
