/* Hits become incidents, and incidents become messages. The rules are in core/notify/incident.h; here they meet the
 * store. */
#include <stdio.h>

#include "base/log.h"
#include "core/target/target_url.h"
#include "server/notify/internal.h"

enum {
    REPLAN_APART_MS = 1000,
    INCIDENTS_LOOKED_AT = 50,
    EXECUTIONS_READ = 1,
    HOUR_MS = 3600000,
    NESTED_MAX = 16 /* runs within runs */
};

/* ---- messages of an incident ---- */

static const struct channel *fold_channel(const struct setting *s, int64_t step, int *ret_kind)
{
    *ret_kind = step ? s->steps[step - 1].kind : s->kind;
    return step ? &s->steps[step - 1].channel : &s->channel;
}

/* Whether the setting has had as many messages in the last hour as it may have. */
static enum err fold_is_capped(struct turn *t, const struct turn_incident *x, bool *ret, struct error *e)
{
    struct record_filter f = { .kind = RECORD_MESSAGE,
                               .tenant = x->tenant,
                               .setting = x->incident.setting,
                               .from_ms = t->now_ms - HOUR_MS,
                               .limit = (size_t)min_of(x->setting->max_per_hour, (int64_t)LIST_MAX) };
    struct arena_mark mark = arena_mark(&t->arena);
    struct record_page page = { 0 };
    size_t made = 0;
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < t->change_count; i++)
        made += t->changes[i].record.kind == RECORD_MESSAGE && uuid_eq(t->changes[i].record.setting, f.setting);
    *ret = (int64_t)(page.n + made) >= x->setting->max_per_hour;
    arena_rewind(&t->arena, mark);
    return ERR_OK;
}

static struct notification *fold_find_made(struct turn *t, struct uuid id, struct notification *scratch)
{
    struct error ignored;
    for (size_t i = 0; i < t->change_count; i++)
        if (uuid_eq(t->changes[i].record.id, id) &&
            notification_read(t->changes[i].record.doc, &t->arena, scratch, &ignored) == ERR_OK) {
            t->changes[i] = t->changes[--t->change_count];
            return scratch;
        }
    return NULL;
}

/* One message an hour says how many were not made. It waits for the end of the hour, and has a key until then. */
static enum err fold_suppress(struct turn *t, const struct turn_incident *x, struct error *e)
{
    char key[INCIDENT_KEY_TEXT], id[UUID_TEXT + 1];
    uuid_format(x->incident.setting, id);
    snprintf(key, sizeof key, "%s:suppressed", id);
    struct record_filter f = { .kind = RECORD_MESSAGE, .tenant = x->tenant, .key = str_from(key), .limit = 1 };
    struct record_page page = { 0 };
    int64_t version = 0, due_ms = (t->now_ms / HOUR_MS + 1) * HOUR_MS;
    struct notification m = { .id = uuid_derived_from(t->now_ms, x->incident.setting, due_ms),
                              .setting = x->incident.setting,
                              .type = MESSAGE_SUPPRESSED,
                              .created_ms = t->now_ms };
    (void)fold_channel(x->setting, 0, &m.channel);
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    if (page.n) {
        version = page.v[0].version;
        due_ms = page.v[0].next_ms;
        if (notification_read(page.v[0].doc, &t->arena, &m, e))
            return e->code;
    }
    struct notification made;
    if (fold_find_made(t, m.id, &made))
        m = made;
    m.count++;
    return turn_add_message(t, x->tenant, &m, version, due_ms, str_from(key), e);
}

static enum err fold_make_message(struct turn *t, const struct turn_incident *x, const struct incident_plan *p,
                                  struct error *e)
{
    struct notification m = { .id = notification_id(&x->incident, p, t->now_ms),
                              .incident = x->incident.id,
                              .setting = x->incident.setting,
                              .type = (int)p->tell,
                              .step = p->step,
                              .created_ms = t->now_ms };
    bool capped = false;
    notification_set_about(&m, &x->incident);
    (void)fold_channel(x->setting, p->step, &m.channel);
    if (fold_is_capped(t, x, &capped, e))
        return e->code;
    return capped ? fold_suppress(t, x, e) : turn_add_message(t, x->tenant, &m, 0, t->now_ms, S(""), e);
}

enum err fold_carry_out(struct turn *t, struct turn_incident *x, bool recovered, struct error *e)
{
    struct incident_plan p;
    if (!x->version)
        turn_note(t, x, INCIDENT_CHANGE_OPENED);
    do {
        p = incident_plan(&x->incident, x->setting, recovered, t->now_ms);
        if (p.tell && fold_make_message(t, x, &p, e))
            return e->code;
        incident_carry_out(&x->incident, &p, t->now_ms);
        if (p.close || p.tell)
            turn_note(t, x, p.close ? INCIDENT_CHANGE_CLOSED : INCIDENT_CHANGE_TOLD);
    } while (p.tell && !p.close);
    return turn_add_incident(t, x, p.close ? 0 : p.next_ms, e);
}

/* ---- hits ---- */

/* The incident that a hit belongs to: one of this turn, one that is open in the store, or a new one. */
static struct turn_incident *fold_find(struct turn *t, struct uuid setting, enum incident_kind kind, struct str cause)
{
    for (size_t i = 0; i < t->incident_count; i++) {
        const struct incident *x = &t->incidents[i]->incident;
        if (uuid_eq(x->setting, setting) && x->kind == (int)kind && str_eq(x->cause, cause))
            return t->incidents[i];
    }
    return NULL;
}

static enum err fold_load(struct turn *t, int32_t tenant, struct turn_incident *ret, bool *ret_found, struct error *e)
{
    char key[INCIDENT_KEY_TEXT];
    struct record_page page = { 0 };
    incident_key(ret->incident.setting, (enum incident_kind)ret->incident.kind, ret->incident.cause, key);
    struct record_filter f = { .kind = RECORD_INCIDENT, .tenant = tenant, .key = str_from(key), .limit = 1 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    *ret_found = page.n > 0;
    if (page.n && incident_read(page.v[0].doc, &t->arena, &ret->incident, e))
        return e->code;
    ret->version = page.n ? page.v[0].version : 0;
    return ERR_OK;
}

/* Whether the setting may have one more open incident. */
static enum err fold_has_room(struct turn *t, int32_t tenant, struct uuid setting, bool *ret, struct error *e)
{
    struct record_filter f = {
        .kind = RECORD_INCIDENT, .tenant = tenant, .setting = setting, .open = true, .limit = INCIDENTS_OPEN_MAX
    };
    struct arena_mark mark = arena_mark(&t->arena);
    struct record_page page = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    size_t n = page.n;
    arena_rewind(&t->arena, mark);
    for (size_t i = 0; i < t->incident_count; i++)
        n += t->incidents[i]->version == 0 && uuid_eq(t->incidents[i]->incident.setting, setting);
    *ret = n < INCIDENTS_OPEN_MAX;
    return ERR_OK;
}

/* ---- causes of one host ---- */

/* Where a failure belongs: its cause, and the host that the task calls. */
struct fold_place {
    struct str cause, host, host_cause; /* "host:HOST"; empty: failures of this kind are not grouped by host */
    int64_t at_ms;
};

static enum err fold_place_of(struct turn *t, const struct hit *hit, const struct task *task, struct fold_place *ret,
                              struct error *e)
{
    char host[TARGET_HOST_MAX], cause[TARGET_HOST_MAX + 8];
    *ret = (struct fold_place){ .cause = hit->cause, .at_ms = hit->at_ms };
    if ((hit->kind != HIT_FAILURE && hit->kind != HIT_RETRY) || !task->target_config.n) /* the task is gone */
        return ERR_OK;
    struct str found = target_host(task, host);
    snprintf(cause, sizeof cause, "host:" STR_FMT, STR_ARG(found));
    bool fits = !found.n ||
                (arena_str(&t->arena, found, &ret->host) && arena_str(&t->arena, str_from(cause), &ret->host_cause));
    return fits ? ERR_OK : error_no_room(e);
}

static bool fold_is_cause_of(const struct incident *i, struct uuid setting, enum incident_kind kind,
                             const struct fold_place *p)
{
    return uuid_eq(i->setting, setting) && i->kind == (int)kind && str_eq(i->host, p->host);
}

/* How many open incidents the host has: in the store, and new ones of this turn. */
static enum err fold_count_host(struct turn *t, int32_t tenant, struct uuid setting, enum incident_kind kind,
                                const struct fold_place *p, size_t *ret, struct error *e)
{
    struct record_filter f = {
        .kind = RECORD_INCIDENT, .tenant = tenant, .setting = setting, .open = true, .limit = INCIDENTS_OPEN_MAX
    };
    struct arena_mark mark = arena_mark(&t->arena);
    struct record_page page = { 0 };
    struct incident i;
    *ret = 0;
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t k = 0; k < page.n; k++) {
        if (incident_read(page.v[k].doc, &t->arena, &i, e))
            return e->code;
        *ret += fold_is_cause_of(&i, setting, kind, p);
    }
    arena_rewind(&t->arena, mark);
    for (size_t k = 0; k < t->incident_count; k++)
        *ret += !t->incidents[k]->version && fold_is_cause_of(&t->incidents[k]->incident, setting, kind, p);
    return ERR_OK;
}

/* Whether a new cause belongs to the incident of its host: there is one, or the host has enough causes for one. */
static enum err fold_is_of_host(struct turn *t, int32_t tenant, struct uuid setting, enum incident_kind kind,
                                const struct fold_place *p, bool *ret, struct error *e)
{
    struct turn_incident x = { .incident = { .setting = setting, .kind = (int)kind, .cause = p->host_cause } };
    size_t n = 0;
    *ret = fold_find(t, setting, kind, p->host_cause) != NULL;
    if (*ret)
        return ERR_OK;
    if (fold_load(t, tenant, &x, ret, e) || (!*ret && fold_count_host(t, tenant, setting, kind, p, &n, e)))
        return e->code;
    *ret = *ret || n >= INCIDENT_HOST_CAUSES;
    return ERR_OK;
}

/* ---- opening ---- */

static enum err fold_open(struct turn *t, int32_t tenant, const struct turn_setting *s, enum incident_kind kind,
                          const struct fold_place *p, struct turn_incident **ret, struct error *e);

/* Another incident than that of the cause. */
static enum err fold_open_instead(struct turn *t, int32_t tenant, const struct turn_setting *s, enum incident_kind kind,
                                  const struct fold_place *p, struct str cause, struct turn_incident **ret,
                                  struct error *e)
{
    struct fold_place other = { .cause = cause, .at_ms = p->at_ms };
    *ret = fold_find(t, s->id, kind, cause);
    return *ret ? ERR_OK : fold_open(t, tenant, s, kind, &other, ret, e);
}

static enum err fold_open(struct turn *t, int32_t tenant, const struct turn_setting *s, enum incident_kind kind,
                          const struct fold_place *p, struct turn_incident **ret, struct error *e)
{
    struct turn_incident *x = arena_new(&t->arena, struct turn_incident);
    bool found = false, room = true, is_hosts = false;
    if (!x || t->incident_count == FOLD_INCIDENTS)
        return error_no_room(e);
    *x = (struct turn_incident){ .setting = &s->setting, .tenant = tenant };
    x->incident = (struct incident){
        .setting = s->id, .kind = (int)kind, .cause = p->cause, .host = p->host, .first_ms = p->at_ms
    };
    if (fold_load(t, tenant, x, &found, e))
        return e->code;
    if (!found && p->host_cause.n && fold_is_of_host(t, tenant, s->id, kind, p, &is_hosts, e))
        return e->code;
    if (is_hosts)
        return fold_open_instead(t, tenant, s, kind, p, p->host_cause, ret, e);
    if (!found && fold_has_room(t, tenant, s->id, &room, e))
        return e->code;
    if (!room && !str_eq(p->cause, S("other")))
        return fold_open_instead(t, tenant, s, kind, p, S("other"), ret, e);
    if (!found)
        x->incident.id = uuid_next(&t->notifier->ids, t->now_ms);
    t->incidents[t->incident_count++] = *ret = x;
    return ERR_OK;
}

/* The status of the last attempt, for people. */
static int64_t fold_http_status(struct turn *t, const struct task *task)
{
    struct execution_filter f = { .tenant = task->tenant,
                                  .task = uuid_is_nil(task->parent) ? task->id : task->parent,
                                  .limit = EXECUTIONS_READ };
    struct execution_page page = { 0 };
    struct error ignored;
    bool found = reader_executions(t->notifier->reader, &f, &t->arena, &page, &ignored) == ERR_OK && page.executions.n;
    return found ? page.executions.v[0].http_status : 0;
}

/* How many occurrences of a recurring task failed in a row, up to max. */
static int64_t fold_fails(struct turn *t, const struct task *task, int64_t max)
{
    struct task_filter f = { .tenant = task->tenant,
                             .parent = task->parent,
                             .states = 1U << TASK_COMPLETED | 1U << TASK_FAILED,
                             .limit = (size_t)max,
                             .brief = true };
    struct task_page page = { 0 };
    struct error ignored;
    int64_t n = 0;
    if (reader_list(t->notifier->reader, &f, &t->arena, &page, &ignored))
        return 1;
    while ((size_t)n < page.tasks.n && page.tasks.v[n].state == TASK_FAILED)
        n++;
    return max_of(n, (int64_t)1);
}

/* A check is told at once, whatever `after` says. */
static int64_t fold_failures(struct turn *t, const struct turn_incident *x, const struct hit *hit,
                             const struct task *task)
{
    return str_eq(hit->cause, S(CAUSE_CHECK)) ? x->setting->after : fold_fails(t, task, x->setting->after);
}

static int64_t fold_members(const struct incident *i)
{
    return (int64_t)i->recurring_count + i->recurring_more;
}

static enum err fold_add(struct turn *t, struct turn_incident *x, const struct hit *hit, const struct task *task,
                         int64_t count, struct error *e)
{
    struct incident *i = &x->incident;
    bool is_occurrence = !uuid_is_nil(task->parent);
    struct incident_task shown = { .id = is_occurrence ? task->parent : task->id,
                                   .name = task->name,
                                   .queue = task->queue,
                                   .error = str_utf8_cut(task->last_error, INCIDENT_ERROR_MAX),
                                   .scheduled_ms = task->scheduled_ms,
                                   .attempt = task->attempts };
    i->count += count;
    i->first_ms = min_of(i->first_ms, hit->at_ms);
    i->last_ms = max_of(i->last_ms, hit->at_ms);
    if (i->task_count < INCIDENT_TASKS_MAX)
        shown.http_status = fold_http_status(t, task);
    if (is_occurrence && x->setting->after > 1)
        i->fails = max_of(i->fails, fold_failures(t, x, hit, task));
    int64_t members = fold_members(i);
    if (!incident_add_task(i, &shown, task->parent, &t->arena))
        return error_no_room(e);
    if (str_eq(hit->cause, S(CAUSE_CHECK)) && fold_members(i) > members)
        incident_join(i, &shown, t->now_ms); /* checks of one moment may be judged one after the other */
    return ERR_OK;
}

/* `notify` of the task; a step that has none has that of its run. */
static enum err fold_notify_of(struct turn *t, const struct task *task, struct str *ret, struct error *e)
{
    struct task outer = *task;
    *ret = task_extra(task, TASK_NOTIFY);
    for (int depth = 0; !ret->n && !uuid_is_nil(outer.run) && depth < NESTED_MAX; depth++) {
        enum err rc = reader_get(t->notifier->reader, task->tenant, outer.run, &t->arena, &outer, e);
        if (rc == ERR_NOT_FOUND)
            return ERR_OK;
        if (rc)
            return rc;
        *ret = task_extra(&outer, TASK_NOTIFY);
    }
    return ERR_OK;
}

enum err fold_happening(struct turn *t, const struct hit *hit, const struct task *task, int64_t count, struct error *e)
{
    const struct turn_tenant *all;
    struct fold_place place;
    struct str notify;
    if (notifier_settings(t, hit->tenant, &all, e) || fold_notify_of(t, task, &notify, e) ||
        fold_place_of(t, hit, task, &place, e))
        return e->code;
    for (size_t i = 0; i < all->n; i++) {
        const struct turn_setting *s = &all->v[i];
        enum incident_kind kind;
        bool is_dead = task->state == TASK_FAILED && uuid_is_nil(task->run);
        if (!s->setting.enabled || !incident_kind_of(&s->setting, hit->kind, is_dead, &kind) ||
            !setting_is_told(&s->setting, s->id, task, notify))
            continue;
        struct turn_incident *x = fold_find(t, s->id, kind, hit->cause);
        if (!x && fold_open(t, hit->tenant, s, kind, &place, &x, e))
            return e->code;
        if (fold_add(t, x, hit, task, count, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err fold_task(struct turn *t, const struct hit *hit, struct uuid id, int64_t count, struct error *e)
{
    struct task task = { 0 };
    enum err rc = reader_get(t->notifier->reader, hit->tenant, id, &t->arena, &task, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc)
        task = (struct task){ .id = id, .tenant = hit->tenant };
    return fold_happening(t, hit, &task, count, e);
}

/* The tasks that a hit does not name count with the last one that it names. */
static enum err fold_hit(struct turn *t, const struct hit *hit, struct error *e)
{
    struct str rest = hit->tasks, word;
    int64_t left = hit->count;
    while (str_cut(&rest, ' ', &word)) {
        struct uuid id;
        if (!uuid_parse(word, &id))
            continue;
        if (fold_task(t, hit, id, rest.n ? 1 : max_of(left, (int64_t)1), e))
            return e->code;
        left--;
    }
    return hit->tasks.n ? ERR_OK : fold_task(t, hit, (struct uuid){ { 0 } }, hit->count, e);
}

enum err fold_carry_out_all(struct turn *t, struct error *e)
{
    for (size_t i = 0; i < t->incident_count; i++)
        if (fold_carry_out(t, t->incidents[i], false, e))
            return e->code;
    t->incident_count = 0;
    return ERR_OK;
}

enum err notifier_fold(struct turn *t, bool *ret_more, struct error *e)
{
    struct hit_list hits = { 0 };
    struct uuid ids[FOLD_HITS];
    size_t n = 0;
    if (reader_hits(t->notifier->reader, FOLD_HITS, &t->arena, &hits, e))
        return e->code;
    t->notifier->oldest_hit_ms = hits.n ? hits.v[0].at_ms : 0;
    if (!notifier_may_fold(t->notifier))
        return ERR_OK;
    const size_t enough = FOLD_INCIDENTS - HIT_TASKS_MAX * 2;
    for (; n < hits.n && t->incident_count < enough && t->arena.total < t->arena.max / 2; n++) {
        ids[n] = hits.v[n].id;
        if (fold_hit(t, &hits.v[n], e))
            return e->code;
    }
    *ret_more = n > 0;
    return fold_carry_out_all(t, e) ? e->code : turn_write(t, ids, n, e);
}

/* ---- recovery ---- */

/* A recurring task has recovered if its last attempt succeeded after the incident's last hit. It does not count any
 * more if it was changed since, or has ended; a pause is no change. A one-time task is in the list for the sake of its
 * check: if it FAILED or is tried again, it has not recovered. */
enum recovery { RECOVERY_NOT_YET, RECOVERY_SUCCEEDED, RECOVERY_CHANGED };

static enum err fold_task_recovered(struct turn *t, const struct turn_incident *x, struct uuid id, enum recovery *ret,
                                    struct error *e)
{
    struct arena_mark mark = arena_mark(&t->arena);
    struct execution_filter f = { .tenant = x->tenant, .task = id, .limit = 1 };
    struct execution_page page = { 0 };
    struct task task = { 0 };
    enum err rc = reader_get(t->notifier->reader, x->tenant, id, &t->arena, &task, e);
    bool is_recurring = task.kind == TASK_RECURRING;
    bool failed = !is_recurring && task.state == TASK_FAILED && !task.resolved_ms;
    bool gone = rc == ERR_NOT_FOUND || (!rc && (task.deleted || (task_is_final(task.state) && !failed)));
    bool edited =
        !rc && is_recurring && task.version > 1 && task.updated_ms > x->incident.last_ms && task.state != TASK_PAUSED;
    bool unexpected = !rc && str_eq(x->incident.cause, S(CAUSE_CHECK)) && !task_extra(&task, TASK_EXPECT).n;
    rc = rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (!rc)
        rc = reader_executions(t->notifier->reader, &f, &t->arena, &page, e);
    const struct execution *last = !rc && page.executions.n ? &page.executions.v[0] : NULL;
    bool succeeded = last && last->status == EXECUTION_COMPLETED && last->completed_us / 1000 >= x->incident.last_ms;
    *ret = succeeded ? RECOVERY_SUCCEEDED : gone || edited || unexpected ? RECOVERY_CHANGED : RECOVERY_NOT_YET;
    arena_rewind(&t->arena, mark);
    return rc;
}

/* Takes out the tasks that have recovered, up to the first one that has not. */
static enum err fold_recovered(struct turn *t, struct turn_incident *x, bool *ret, struct error *e)
{
    struct incident *i = &x->incident;
    size_t n = 0;
    enum recovery of = RECOVERY_SUCCEEDED;
    while (n < i->recurring_count && of) {
        if (fold_task_recovered(t, x, i->recurring[n], &of, e))
            return e->code;
        i->changed = i->changed || of == RECOVERY_CHANGED;
        n += of != RECOVERY_NOT_YET;
    }
    *ret = n == i->recurring_count && n > 0;
    if (*ret)
        return ERR_OK;
    i->recurring += n;
    i->recurring_count -= n;
    return ERR_OK;
}

/* ---- incidents of which nothing changes ---- */

static bool fold_waits(const struct notifier *n, const struct record *r, int64_t now_ms)
{
    for (size_t i = 0; i < LOOKED_AT_MAX; i++)
        if (uuid_eq(n->looked_at[i].id, r->id) && n->looked_at[i].version == r->version)
            return now_ms < n->looked_at[i].next_ms;
    return false;
}

/* False: there is no room. An entry that is long due is of an incident that has changed since. */
static bool fold_remember(struct notifier *n, const struct record *r, int64_t next_ms, int64_t now_ms)
{
    struct looked_at *at = NULL;
    for (size_t i = 0; i < LOOKED_AT_MAX; i++) {
        struct looked_at *x = &n->looked_at[i];
        if (uuid_eq(x->id, r->id)) {
            at = x;
            break;
        }
        if (x->next_ms < now_ms - RECOVERY_LATEST_MS)
            at = x;
    }
    if (at)
        *at = (struct looked_at){ r->id, r->version, next_ms };
    return at != NULL;
}

/* Whether the look has found nothing to write, and the next one comes soon. */
static bool fold_is_unchanged(struct turn *t, const struct record *r, const struct turn_incident *x, bool recovered,
                              size_t recurring)
{
    struct incident_plan p = incident_plan(&x->incident, x->setting, recovered, t->now_ms);
    bool same = !p.tell && !p.close && x->incident.recurring_count == recurring;
    return same && p.next_ms && p.next_ms <= t->now_ms + RECOVERY_LATEST_MS &&
           fold_remember(t->notifier, r, p.next_ms, t->now_ms);
}

static enum err fold_look_at(struct turn *t, const struct record *r, struct error *e)
{
    struct turn_incident x = { .tenant = r->tenant, .version = r->version };
    bool recovered = false;
    if (incident_read(r->doc, &t->arena, &x.incident, e) || notifier_setting(t, r->tenant, r->setting, &x.setting, e))
        return e->code;
    bool wanted = x.setting && x.setting->enabled && (x.incident.kind != INCIDENT_ALERT || x.setting->on_alert);
    if (!wanted) { /* the setting was removed, disabled or changed */
        x.incident.closed_ms = t->now_ms;
        turn_note(t, &x, INCIDENT_CHANGE_CLOSED);
        return turn_add_incident(t, &x, 0, e) ? e->code : turn_write(t, NULL, 0, e);
    }
    size_t recurring = x.incident.recurring_count;
    if (!incident_is_every(&x.incident, x.setting) && fold_recovered(t, &x, &recovered, e))
        return e->code;
    if (fold_is_unchanged(t, r, &x, recovered, recurring))
        return ERR_OK;
    return fold_carry_out(t, &x, recovered, e) ? e->code : turn_write(t, NULL, 0, e);
}

/* ---- settings that were changed ---- */

/* By its setting as it is now, the incident has something to do earlier than it was planned. */
static enum err fold_replan(struct turn *t, const struct record *r, struct error *e)
{
    const struct setting *s;
    struct incident i;
    if (incident_read(r->doc, &t->arena, &i, e) || notifier_setting(t, r->tenant, r->setting, &s, e))
        return e->code;
    struct incident_plan p = { 0 };
    if (s && s->enabled)
        p = incident_plan(&i, s, false, t->now_ms);
    bool same = p.next_ms && !p.tell && !p.close && p.next_ms >= r->next_ms - REPLAN_APART_MS;
    return same ? ERR_OK : fold_look_at(t, r, e);
}

enum err notifier_replan(struct turn *t, struct error *e)
{
    struct notifier *n = t->notifier;
    uint64_t generation = catalog_cache_generation(n->setup.catalog);
    if (n->planned_for != generation) {
        n->planned_for = generation;
        n->is_replanning = true;
        n->replanned = (struct uuid){ { 0 } };
    }
    struct record_filter f = {
        .kind = RECORD_INCIDENT, .open = true, .before = n->replanned, .limit = INCIDENTS_LOOKED_AT
    };
    struct record_page page = { 0 };
    if (!n->is_replanning)
        return ERR_OK;
    if (reader_records(n->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t k = 0; k < page.n; k++) {
        enum err rc = fold_replan(t, &page.v[k], e);
        turn_reset(t);
        if (rc && rc != ERR_CONFLICT && rc != ERR_CORRUPT) /* the first is changed by another node, the other is told */
            return rc;
        n->replanned = page.v[k].id;
    }
    n->is_replanning = page.more && page.n;
    return ERR_OK;
}

/* ---- incidents that are due ---- */

enum err notifier_look_at_incidents(struct turn *t, bool *ret_more, struct error *e)
{
    struct record_filter f = { .kind = RECORD_INCIDENT, .due_ms = t->now_ms, .limit = INCIDENTS_LOOKED_AT };
    struct record_page page = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    *ret_more = page.more;
    for (size_t i = 0; i < page.n; i++) {
        if (fold_waits(t->notifier, &page.v[i], t->now_ms))
            continue;
        enum err rc = fold_look_at(t, &page.v[i], e);
        turn_reset(t);
        if (rc == ERR_CORRUPT)
            log_error("incident_unreadable", kv_uuid("incident", page.v[i].id), kv_err(e));
        else if (rc && rc != ERR_CONFLICT)
            return rc;
    }
    return ERR_OK;
}
