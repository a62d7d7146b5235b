/* Messages of notifications: what was sent; send one again; send a test. */
#include "api/auth/sender.h"
#include "api/notify/record_change.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/json/json.h"

enum { TESTS_A_MINUTE = 10, TEST_POLL_MS = 100, TEST_WAIT_MS = 10000, MINUTE_MS = 60000 };

/* ---- showing ---- */

static void messages_write(struct jw *w, const struct notification *m, struct str setting_name, int64_t next_ms)
{
    bool waits = m->state == MESSAGE_WAITING || m->state == MESSAGE_SENDING;
    jw_object(w);
    jw_kv_uuid(w, "id", m->id);
    jw_kv_uuid(w, "incident", m->incident);
    jw_kv_uuid(w, "setting", m->setting);
    jw_kv_str_or_null(w, "setting_name", setting_name);
    jw_kv_str_or_null(w, "kind", m->kind);
    jw_kv_str_or_null(w, "cause", m->cause);
    jw_kv_uuid(w, "task_id", m->task);
    jw_kv_str_or_null(w, "task_name", m->task_name);
    jw_kv_cstr(w, "type", notification_type_names[m->type]);
    jw_kv_cstr(w, "delivery_type", channel_names[m->channel]);
    jw_kv_i64(w, "step", m->step);
    jw_kv_cstr(w, "state", notification_state_names[m->state]);
    jw_kv_i64(w, "attempts", m->attempts);
    jw_kv_i64_or_null(w, "http_status", m->http_status);
    jw_kv_str_or_null(w, "error", m->error);
    jw_kv_time(w, "created_at", m->created_ms);
    jw_kv_time_or_null(w, "sent_at", m->sent_ms);
    jw_kv_time_or_null(w, "resent_at", m->resent_ms);
    jw_kv_time_or_null(w, "next_attempt_at", waits ? next_ms : 0);
    notification_write_history(w, m, true);
    jw_object_end(w);
}

static enum err messages_show(struct request *q, struct jw *w, const struct record *record,
                              const struct setting_names *names, struct error *e)
{
    struct notification x;
    if (notification_read(record->doc, &q->arena, &x, e))
        return e->code;
    messages_write(w, &x, setting_names_get(names, x.setting), record->next_ms);
    return ERR_OK;
}

struct message_query {
    int64_t limit;
    struct str cursor;
    struct uuid setting, incident;
};

enum handled messages_list(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor",
          .kind = QUERY_TEXT,
          .offset = offsetof(struct message_query, cursor),
          .max = SEAL_TEXT_MAX },
        { .name = "setting", .kind = QUERY_ID, .offset = offsetof(struct message_query, setting) },
        { .name = "incident", .kind = QUERY_ID, .offset = offsetof(struct message_query, incident) },
    };
    struct message_query p = { .limit = LIST_DEFAULT };
    struct record_filter f = { .kind = RECORD_MESSAGE, .tenant = q->who.tenant };
    struct error e = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &f.before, &e))
        return request_fail(q, &e);
    f.setting = p.setting;
    f.incident = p.incident;
    f.limit = (size_t)p.limit;
    return records_answer(q, r, &f, "notifications", messages_show);
}

enum handled messages_get(struct request *q, struct reader *r)
{
    return record_answer(q, r, RECORD_MESSAGE, messages_show);
}

/* ---- sending again ---- */

static enum err messages_make_resent(struct request *q, struct reader *r, struct record_change *c, struct error *e)
{
    struct notification_act act = { .at_ms = q->now_ms, .what = MESSAGE_ACT_RESENT };
    struct setting_names names;
    struct notification m;
    if (request_check_no_body(q, e) || notification_read(c->record.doc, &q->arena, &m, e))
        return e->code;
    if (m.state == MESSAGE_WAITING || m.state == MESSAGE_SENDING)
        return error_set(e, ERR_CONFLICT, "it is being sent");
    if (sender_own_name(q, r, &act.by, e) || setting_names_read(q, r, &names, e))
        return e->code;
    notification_resend(&m, q->now_ms);
    if (!notification_add_act(&m, &act, &q->arena))
        return error_no_room(e);
    c->record.next_ms = q->now_ms;
    struct jw w = respond_json(&q->response, 202);
    messages_write(&w, &m, setting_names_get(&names, m.setting), q->now_ms);
    return record_set_message(q, &c->record, &m, e);
}

enum handled messages_resend(struct request *q, struct reader *r)
{
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    return record_edit_begin(q, r, (struct record_edit){ .kind = RECORD_MESSAGE, .make = messages_make_resent });
}

/* ---- a test ---- */

/* A request that waits for the end of its test message. It is read again every TEST_POLL_MS: another node may send
 * it. */
struct message_test {
    struct timer timer;
    struct request *q;
    struct record_change change;
    struct str setting_name;
    int64_t until_ms;
};

static route_handler messages_look_at_test;

static void messages_on_test_timer(struct timer *timer)
{
    struct message_test *t = container_of(timer, struct message_test, timer);
    request_later(t->q, messages_look_at_test);
}

static enum handled messages_look_at_test(struct request *q, struct reader *r)
{
    struct message_test *t = q->context;
    struct error e = { 0 };
    struct record record;
    struct notification m;
    if (!request_still_allowed(q, r))
        return HANDLED_DONE;
    if (record_get(q, r, RECORD_MESSAGE, t->change.record.id, &record, &e) ||
        notification_read(record.doc, &q->arena, &m, &e))
        return request_fail(q, &e);
    bool waits = m.state == MESSAGE_WAITING || m.state == MESSAGE_SENDING;
    if (waits && clock_steady_ms(q->server->setup.clock) < t->until_ms) {
        timers_add(q->server->timers, &t->timer, TEST_POLL_MS);
        return HANDLED_LATER;
    }
    struct jw w = respond_json(&q->response, waits ? 202 : 200);
    messages_write(&w, &m, t->setting_name, record.next_ms);
    return HANDLED_DONE;
}

static void messages_on_test_made(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct message_test *t = q->context;
    const struct api_setup *setup = &q->server->setup;
    if (request_replayed(q, op))
        return;
    if (request_op_failed(q, op))
        return;
    if (setup->message_made)
        setup->message_made(setup->context);
    timers_add(q->server->timers, &t->timer, TEST_POLL_MS);
}

static enum err messages_check_tests(struct request *q, struct reader *r, bool *ret_many, struct error *e)
{
    struct record_filter f = {
        .kind = RECORD_MESSAGE, .tenant = q->who.tenant, .from_ms = q->now_ms - MINUTE_MS, .limit = LIST_MAX
    };
    struct record_page page = { 0 };
    int tests = 0;
    if (reader_records(r, &f, &q->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < page.n; i++)
        tests += uuid_is_nil(page.v[i].incident) && !page.v[i].key.n;
    *ret_many = tests >= TESTS_A_MINUTE;
    return ERR_OK;
}

static enum err messages_make_test(struct request *q, struct reader *r, struct message_test *t, struct error *e)
{
    char name[UUID_TEXT + 1];
    struct catalog_entry entry;
    struct setting s;
    uuid_format(q->id, name);
    enum err rc = reader_catalog_get(r, q->who.tenant, CATALOG_NOTIFICATION, str_from(name), &q->arena, &entry, e);
    if (rc == ERR_NOT_FOUND)
        return error_set(e, ERR_NOT_FOUND, "there is no such notification setting");
    if (rc || setting_read(entry.doc, &q->arena, &s, e))
        return e->code;
    q->object_name = s.name;
    struct notification m = {
        .id = request_new_id(q), .setting = q->id, .type = MESSAGE_TEST, .channel = s.kind, .created_ms = q->now_ms
    };
    t->change.record = (struct record){
        .id = m.id, .kind = RECORD_MESSAGE, .tenant = q->who.tenant, .setting = q->id, .next_ms = q->now_ms
    };
    struct jw w = respond_json(&q->response, 202); /* for a repeated request: the message is being sent */
    t->setting_name = s.name;
    messages_write(&w, &m, s.name, q->now_ms);
    return record_set_message(q, &t->change.record, &m, e);
}

enum handled messages_test(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    bool many = false;
    struct message_test *t = arena_new(&q->arena, struct message_test);
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (request_check_no_body(q, &e) || messages_check_tests(q, r, &many, &e))
        return request_fail(q, &e);
    if (many) {
        respond_problem(&q->response, PROBLEM_QUOTA, "at most %d tests a minute", TESTS_A_MINUTE);
        return HANDLED_DONE;
    }
    if (messages_make_test(q, r, t, &e))
        return request_fail(q, &e);
    t->q = q;
    t->timer.fire = messages_on_test_timer;
    t->until_ms = clock_steady_ms(q->server->setup.clock) + TEST_WAIT_MS;
    q->context = t;
    q->write.fold =
        (struct op_fold){ .op = { .kind = OP_FOLD }, .v = &t->change, .n = 1, .idempotency = request_record(q) };
    return request_submit(q, messages_on_test_made);
}
