/* A setting whose messages have all failed for five days is disabled: nobody reads them, and each costs eight attempts.
 * That is an act with an audit row, and the settings of the tenant default that want alerts are told of it. */
#include "api/auth/auth.h"
#include "api/server/audit.h"
#include "base/log.h"
#include "server/notify/internal.h"

#define FAILS_FOR_MS (5 * DAY_MS)
enum { DETAIL_MAX = 500, NAME_MAX_SHOWN = 100 };

/* ---- whether it fails ---- */

static enum err disable_state_of(struct turn *t, const struct record *r, enum notification_state *ret, struct error *e)
{
    struct notification m;
    if (notification_read(r->doc, &t->arena, &m, e))
        return e->code;
    *ret = (enum notification_state)m.state;
    return ERR_OK;
}

/* Whether a message of the last five days arrived. */
static enum err disable_some_arrived(struct turn *t, const struct record *of, bool *ret, struct error *e)
{
    struct record_filter f = { .kind = RECORD_MESSAGE,
                               .tenant = of->tenant,
                               .setting = of->setting,
                               .from_ms = t->now_ms - FAILS_FOR_MS,
                               .limit = LIST_MAX };
    struct record_page page = { .more = true };
    *ret = false;
    while (page.more && !*ret) {
        struct arena_mark mark = arena_mark(&t->arena);
        enum notification_state state = MESSAGE_FAILED;
        if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
            return e->code;
        for (size_t i = 0; i < page.n; i++) {
            if (disable_state_of(t, &page.v[i], &state, e))
                return e->code;
            *ret = *ret || state == MESSAGE_SENT;
            f.before = page.v[i].id;
        }
        arena_rewind(&t->arena, mark);
    }
    return ERR_OK;
}

/* Whether the last message before these days failed. If there was none, the setting has not failed for so long yet. */
static enum err disable_failed_before(struct turn *t, const struct record *of, bool *ret, struct error *e)
{
    struct record_filter f = { .kind = RECORD_MESSAGE,
                               .tenant = of->tenant,
                               .setting = of->setting,
                               .until_ms = t->now_ms - FAILS_FOR_MS,
                               .limit = 1 };
    struct record_page page = { 0 };
    enum notification_state state = MESSAGE_SENT;
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e) ||
        (page.n && disable_state_of(t, &page.v[0], &state, e)))
        return e->code;
    *ret = state == MESSAGE_FAILED;
    return ERR_OK;
}

/* ---- telling ---- */

static enum err disable_describe(struct turn *t, const struct record *of, const struct setting *s, struct str *ret,
                                 struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    struct tenant_rules tenant = { 0 };
    buf_init(&out, DETAIL_MAX);
    (void)catalog_cache_tenant(t->notifier->setup.catalog, of->tenant, &t->arena, &tenant);
    buf_printf(&out,
               "The notification setting '" STR_FMT "' of tenant '" STR_FMT
               "' was disabled: all its messages have failed for 5 days",
               STR_ARG(str_utf8_cut(s->name, NAME_MAX_SHOWN)), STR_ARG(tenant.name));
    return arena_str(&t->arena, buf_str(&out), ret) ? ERR_OK : error_no_room(e);
}

/* An incident that is over when it is told. Its id is derived: a node that comes back after a crash makes no second
 * one. */
static enum err disable_tell_one(struct turn *t, const struct turn_setting *to, const struct catalog_entry *entry,
                                 struct str detail, struct error *e)
{
    struct turn_incident x = { .setting = &to->setting, .tenant = TENANT_DEFAULT };
    struct incident_plan p = { .tell = MESSAGE_OPENED, .close = true };
    int64_t which = (int64_t)hash_bytes(HASH_STABLE, entry->name) ^ entry->version;
    x.incident = (struct incident){ .id = uuid_derived_from(entry->updated_ms, to->id, which),
                                    .setting = to->id,
                                    .kind = INCIDENT_ALERT,
                                    .cause = S("SettingDisabled"),
                                    .detail = detail,
                                    .count = 1,
                                    .first_ms = t->now_ms,
                                    .last_ms = t->now_ms };
    struct notification m = { .id = notification_id(&x.incident, &p, x.incident.first_ms),
                              .incident = x.incident.id,
                              .setting = to->id,
                              .type = MESSAGE_OPENED,
                              .channel = to->setting.kind,
                              .created_ms = t->now_ms };
    notification_set_about(&m, &x.incident);
    incident_carry_out(&x.incident, &p, t->now_ms);
    if (turn_add_message(t, TENANT_DEFAULT, &m, 0, t->now_ms, S(""), e) || turn_add_incident(t, &x, 0, e))
        return e->code;
    enum err rc = turn_write(t, NULL, 0, e);
    return rc == ERR_CONFLICT ? ERR_OK : rc;
}

static enum err disable_tell(struct turn *t, const struct record *of, const struct catalog_entry *entry,
                             const struct setting *s, struct error *e)
{
    const struct turn_tenant *all;
    struct str detail;
    if (notifier_settings(t, TENANT_DEFAULT, &all, e) || disable_describe(t, of, s, &detail, e))
        return e->code;
    for (size_t i = 0; i < all->n; i++) {
        const struct setting *to = &all->v[i].setting;
        bool is_told = to->enabled && to->on_alert && !uuid_eq(all->v[i].id, of->setting);
        if (is_told && disable_tell_one(t, &all->v[i], entry, detail, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- disabling ---- */

static enum err disable_write(struct turn *t, const struct catalog_entry *entry, struct setting *s, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, CATALOG_DOC_MAX);
    jw_init(&w, &doc);
    jw_object(&w);
    s->enabled = false;
    setting_write(&w, s, false);
    jw_object_end(&w);
    struct audit row = audit_by_system("disable notification setting", "notification_setting", entry->name, t->now_ms);
    row.tenant = entry->tenant;
    row.object_name = s->name;
    struct catalog_change c = { .entry = *entry, .version = entry->version };
    c.entry.doc = buf_str(&doc);
    struct op_catalog op = { .op = { .kind = OP_CATALOG, .audit = &row }, .v = &c, .n = 1, .now_ms = t->now_ms };
    arena_init(&op.op.arena, 4096);
    enum err rc = notifier_apply(t->notifier, &op.op, e);
    arena_release(&op.op.arena);
    return rc;
}

static enum err disable_setting(struct turn *t, const struct record *of, struct error *e)
{
    struct catalog_entry entry;
    struct setting s;
    char name[UUID_TEXT + 1];
    uuid_format(of->setting, name);
    enum err rc =
        reader_catalog_get(t->notifier->reader, of->tenant, CATALOG_NOTIFICATION, str_from(name), &t->arena, &entry, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc || setting_read(entry.doc, &t->arena, &s, e))
        return e->code;
    if (!s.enabled)
        return ERR_OK;
    log_warn("notification_setting_disabled", kv_uuid("setting", of->setting), kv_i64("tenant", of->tenant));
    rc = disable_tell(t, of, &entry, &s, e);
    return rc ? rc : disable_write(t, &entry, &s, e);
}

void notifier_on_failed(struct turn *t, const struct record *of)
{
    struct error e = { 0 };
    bool arrived = true, failed = false;
    bool known = disable_failed_before(t, of, &failed, &e) == ERR_OK &&
                 (!failed || disable_some_arrived(t, of, &arrived, &e) == ERR_OK);
    if (known && failed && !arrived && disable_setting(t, of, &e))
        known = false;
    if (!known)
        log_warn("notification_setting_not_judged", kv_uuid("setting", of->setting), kv_err(&e));
}
