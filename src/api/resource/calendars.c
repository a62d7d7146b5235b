/* Business calendars. A calendar is stored as one document, as its user wrote it: JSON, or the dates of an iCalendar
 * file. Tasks name calendars. So a calendar cannot be deleted while a task uses it, and when it changes, the
 * occurrences that were spawned with it and have not fired are made again (calendar_reapply.c). */
#include "api/catalog/catalog_list.h"
#include "api/catalog/catalog_update.h"
#include "api/resource/calendar_reapply.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "api/task/json.h"
#include "base/json/json.h"
#include "core/time/calendar_json.h"
#include "port/ical.h"

enum { USERS_SHOWN = 3, YEARS_BACK = 1, YEARS_AHEAD = 10, YEAR_DAYS = 366, ALL_WEEKDAYS = 0x7f, WEEKEND = 0x41 };

/* ---- reading ---- */

static enum err calendars_read_doc(struct request *q, const struct catalog_entry *entry, struct calendar_doc *ret,
                                   struct error *e)
{
    enum err rc = calendar_doc_read(entry->doc, &q->arena, ret, e);
    if (rc && rc != ERR_LIMIT)
        return error_set(e, ERR_CORRUPT, "calendar '" STR_FMT "' cannot be read", STR_ARG(entry->name));
    return rc;
}

static void calendars_write(struct jw *w, const struct catalog_entry *entry, const struct calendar_doc *doc)
{
    jw_object(w);
    jw_kv_str(w, "name", entry->name);
    calendar_doc_write(w, doc);
    catalog_entry_members(w, entry);
    jw_object_end(w);
}

/* A list shows the number of dates only: there may be thousands. */
static enum err calendars_write_brief(struct request *q, struct jw *w, const struct catalog_entry *entry,
                                      struct error *e)
{
    struct calendar_doc doc;
    if (calendars_read_doc(q, entry, &doc, e))
        return e->code;
    jw_object(w);
    jw_kv_str(w, "name", entry->name);
    calendar_head_write(w, &doc);
    jw_kv_i64(w, "excluded_count", (int64_t)doc.excluded_count);
    jw_kv_i64(w, "included_count", (int64_t)doc.included_count);
    catalog_entry_members(w, entry);
    jw_object_end(w);
    return ERR_OK;
}

enum handled calendars_list(struct request *q, struct reader *r)
{
    return catalog_list_answer(q, r, CATALOG_CALENDAR, "calendars", calendars_write_brief);
}

static enum err calendars_write_whole(struct request *q, struct jw *w, const struct catalog_entry *entry,
                                      struct error *e)
{
    struct calendar_doc doc;
    if (calendars_read_doc(q, entry, &doc, e))
        return e->code;
    calendars_write(w, entry, &doc);
    return ERR_OK;
}

enum handled calendars_get(struct request *q, struct reader *r)
{
    return catalog_get_answer(q, r, CATALOG_CALENDAR, q->name, "calendar", calendars_write_whole);
}

/* ---- writing ---- */

/* Query parameters for iCalendar files. */
struct import_options {
    int weekends; /* 1: exclude */
    struct str time_zone;
};

static enum err calendars_read_import_options(struct request *q, bool is_ical, struct import_options *ret,
                                              struct error *e)
{
    static const char *const weekends[] = { "exclude", NULL };
    static const struct query_field fields[] = {
        { "weekends", QUERY_CHOICE, offsetof(struct import_options, weekends), 0, 0, weekends },
        { "time_zone", QUERY_TEXT, offsetof(struct import_options, time_zone), 0, 64, NULL },
    };
    *ret = (struct import_options){ 0 };
    return query_read(q->query, fields, is_ical ? array_count(fields) : 0, ret, &q->arena, e);
}

static enum err calendars_import(struct request *q, const struct import_options *options, struct calendar_doc *ret,
                                 struct error *e)
{
    const struct api_setup *setup = &q->server->setup;
    int32_t today = (int32_t)day_of_second(floor_div(q->now_ms, 1000));
    cleanup_with(tz_unrefp) struct tz *zone = NULL;
    if (options->time_zone.n && task_zone(setup->zones, options->time_zone, &zone, e))
        return e->code;
    struct ical_options o = { .from_day = today - YEARS_BACK * YEAR_DAYS,
                              .until_day = today + YEARS_AHEAD * YEAR_DAYS,
                              .zone = zone,
                              .clock = setup->clock };
    struct ical_dates dates;
    enum err rc = ical_read(buf_str(&q->body), &o, &q->arena, &dates, e);
    if (rc)
        return rc;
    *ret = (struct calendar_doc){ .description = dates.name,
                                  .excluded_weekdays = options->weekends ? WEEKEND : 0,
                                  .excluded = dates.v,
                                  .excluded_count = dates.n };
    return ERR_OK;
}

static enum err calendars_read_body(struct request *q, struct calendar_doc *ret, struct error *e)
{
    struct import_options options;
    bool is_ical = media_type_is_ical(q->head.content_type);
    if (calendars_read_import_options(q, is_ical, &options, e))
        return e->code;
    if (is_ical)
        return calendars_import(q, &options, ret, e);
    if (!q->body.n)
        return error_set(e, ERR_INVALID, "the body must be a JSON object");
    return calendar_doc_read(buf_str(&q->body), &q->arena, ret, e);
}

static enum err calendars_make(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    (void)r;
    struct calendar_doc doc;
    if (calendars_read_body(q, &doc, e))
        return e->code;
    if (doc.excluded_weekdays == ALL_WEEKDAYS && !doc.included_count)
        return error_field(e, "excluded_weekdays", "leaves no day: a task with this calendar would never run");
    struct jw w;
    jw_init(&w, c->doc);
    jw_object(&w);
    calendar_doc_write(&w, &doc);
    jw_object_end(&w);
    if (catalog_update_set_doc(q, c, e))
        return e->code;
    w = respond_json(&q->response, c->exists ? 200 : 201);
    calendars_write(&w, &c->v[0].entry, &doc);
    respond_etag(&q->response, c->v[0].entry.version);
    return ERR_OK;
}

static enum handled calendars_on_changed(struct request *q)
{
    return q->catalog_update->exists ? calendar_reapply(q, q->catalog_update->name) : HANDLED_DONE;
}

static struct catalog_update calendars_change(const struct request *q)
{
    return (struct catalog_update){
        .kind = CATALOG_CALENDAR, .tenant = q->who.tenant, .name = q->name, .what = "calendar"
    };
}

enum handled calendars_put(struct request *q, struct reader *r)
{
    struct catalog_update c = calendars_change(q);
    c.make = calendars_make;
    c.then = calendars_on_changed;
    return catalog_update_begin(q, r, c);
}

/* "Daily report (id), …": the tasks that use the calendar. */
static enum err calendars_refuse_used(const struct task_page *users, struct error *e)
{
    cleanup_with(buf_release) struct buf names;
    buf_init(&names, 2048);
    for (size_t i = 0; i < min_of(users->tasks.n, (size_t)USERS_SHOWN); i++) {
        char id[UUID_TEXT + 1], name[64];
        const struct task *t = &users->tasks.v[i];
        uuid_format(t->id, id);
        snprintf(name, sizeof name, STR_FMT, STR_ARG(str_utf8_cut(t->name, sizeof name - 1)));
        buf_printf(&names, "%s%s%s%s%s", i ? ", " : "", name, name[0] ? " (" : "", id, name[0] ? ")" : "");
    }
    return error_set(e, ERR_CONFLICT, "the calendar is used by recurring tasks: %s%s; change or cancel them first",
                     buf_cstr(&names), users->tasks.n > USERS_SHOWN ? " and others" : "");
}

/* The store checks this again in its transaction: if a task is created in between, the removal fails and starts
 * again. */
static enum err calendars_make_removed(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct task_page users = { 0 };
    struct task_filter f = calendar_users(q->who.tenant, c->name, USERS_SHOWN + 1);
    if (!c->exists)
        return catalog_update_not_found(c, e);
    if (reader_list(r, &f, &q->arena, &users, e))
        return e->code;
    if (users.tasks.n)
        return calendars_refuse_used(&users, e);
    c->v[0].remove = true;
    respond_nothing(&q->response);
    return ERR_OK;
}

enum handled calendars_delete(struct request *q, struct reader *r)
{
    struct catalog_update c = calendars_change(q);
    c.make = calendars_make_removed;
    return request_check_no_query(q) ? catalog_update_begin(q, r, c) : HANDLED_DONE;
}
