/* Rules that fire become incidents of the tenant default.
 *
 * The node that acts for all hands over how all rules stand, once a minute, and not only what has changed: so what a
 * leader did not finish, the next one does. The id of an incident is derived from the setting, the rule and the first
 * minute, so that two leaders open one incident. */
#include "api/auth/auth.h"
#include "server/notify/internal.h"

enum { DETAIL_MAX = 300 };

void notifier_on_alerts(struct notifier *n, const struct alert *v, size_t count)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    if (count)
        memcpy(n->alerts.v, v, count * sizeof *v);
    n->alerts.n = count;
    n->alerts_at++;
    pthread_mutex_unlock(&n->lock);
    if (count)
        sender_wake(n->sender);
}

static bool alerts_fire(const struct alert *a)
{
    return a->state == ALERT_FIRING && a->severity != ALERT_NONE;
}

static enum err alerts_describe(struct turn *t, const struct alert *a, struct str *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    char value[ALERT_TEXT], limit[ALERT_TEXT];
    buf_init(&out, DETAIL_MAX);
    alert_value_text(a, value);
    alert_limit_text(a, limit);
    buf_printf(&out, "%s. Severity: %s. Value: %s; it fires %s", a->summary, alert_severity_names[a->severity], value,
               limit);
    return arena_str(&t->arena, buf_str(&out), ret) ? ERR_OK : error_no_room(e);
}

static struct uuid alerts_incident_id(struct uuid setting, const struct alert *a)
{
    char key[INCIDENT_KEY_TEXT];
    incident_key(setting, INCIDENT_ALERT, str_from(a->name), key);
    return uuid_derived(a->since_ms, str_from(key));
}

static enum err alerts_open(struct turn *t, const struct turn_setting *s, const struct alert *a, struct error *e)
{
    struct turn_incident x = { .setting = &s->setting, .tenant = TENANT_DEFAULT };
    struct record_filter f = {
        .kind = RECORD_INCIDENT, .tenant = TENANT_DEFAULT, .id = alerts_incident_id(s->id, a), .limit = 1
    };
    struct record_page page = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    if (page.n) /* it was closed since: a minute was judged twice, with other figures */
        return ERR_OK;
    x.incident = (struct incident){ .id = f.id,
                                    .setting = s->id,
                                    .kind = INCIDENT_ALERT,
                                    .cause = str_from(a->name),
                                    .count = 1,
                                    .first_ms = a->since_ms,
                                    .last_ms = t->now_ms };
    if (alerts_describe(t, a, &x.incident.detail, e) || fold_carry_out(t, &x, false, e))
        return e->code;
    return turn_write(t, NULL, 0, e);
}

/* The rule of an open incident, if it still fires; else the incident ends. *ret: the rule; NULL: none. */
static enum err alerts_look_at(struct turn *t, const struct turn_setting *s, const struct record *r,
                               const struct alert_list *all, const struct alert **ret, struct error *e)
{
    struct turn_incident x = { .setting = &s->setting, .tenant = r->tenant, .version = r->version };
    *ret = NULL;
    if (incident_read(r->doc, &t->arena, &x.incident, e))
        return e->code;
    if (x.incident.kind != INCIDENT_ALERT)
        return ERR_OK;
    for (size_t i = 0; i < all->n; i++)
        if (alerts_fire(&all->v[i]) && str_eq(x.incident.cause, str_from(all->v[i].name)))
            *ret = &all->v[i];
    if (*ret)
        return ERR_OK;
    return fold_carry_out(t, &x, true, e) ? e->code : turn_write(t, NULL, 0, e);
}

static enum err alerts_fold_setting(struct turn *t, const struct turn_setting *s, const struct alert_list *all,
                                    struct error *e)
{
    struct record_filter f = {
        .kind = RECORD_INCIDENT, .tenant = TENANT_DEFAULT, .setting = s->id, .open = true, .limit = LIST_MAX
    };
    struct record_page page = { 0 };
    bool is_open[ALERTS_MAX] = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < page.n; i++) {
        const struct alert *rule;
        if (alerts_look_at(t, s, &page.v[i], all, &rule, e))
            return e->code;
        if (rule)
            is_open[rule - all->v] = true;
    }
    for (size_t i = 0; i < all->n; i++)
        if (alerts_fire(&all->v[i]) && !is_open[i] && alerts_open(t, s, &all->v[i], e))
            return e->code;
    return ERR_OK;
}

/* If another node was first, the next turn looks again. */
enum err notifier_fold_alerts(struct turn *t, struct error *e)
{
    struct notifier *n = t->notifier;
    const struct turn_tenant *settings;
    struct alert_list all;
    pthread_mutex_lock(&n->lock);
    uint64_t at = n->alerts_at;
    bool is_news = n->alerts.n && at != n->alerts_folded_at;
    all = n->alerts;
    pthread_mutex_unlock(&n->lock);
    if (!is_news || !notifier_may_fold(n))
        return ERR_OK;
    if (notifier_settings(t, TENANT_DEFAULT, &settings, e))
        return e->code;
    for (size_t i = 0; i < settings->n; i++) {
        const struct setting *s = &settings->v[i].setting;
        if (s->enabled && s->on_alert && alerts_fold_setting(t, &settings->v[i], &all, e))
            return e->code;
    }
    pthread_mutex_lock(&n->lock);
    n->alerts_folded_at = at;
    pthread_mutex_unlock(&n->lock);
    return ERR_OK;
}
