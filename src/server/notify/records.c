/* What the notifier reads and writes. A turn gathers its changes and writes them as one OP_FOLD. */
#include <stdlib.h>

#include "base/failpoint.h"
#include "server/notify/internal.h"

static void notifier_on_applied(struct op *op)
{
    struct notifier *n = op->context;
    pthread_mutex_lock(&n->lock);
    n->applied = true;
    pthread_cond_signal(&n->wakeup);
    pthread_mutex_unlock(&n->lock);
}

enum err notifier_apply(struct notifier *n, struct op *op, struct error *e)
{
    assert_owned(&n->owner);
    op->done = notifier_on_applied;
    op->context = n;
    pthread_mutex_lock(&n->lock);
    n->applied = false;
    pthread_mutex_unlock(&n->lock);
    writer_submit(n->setup.writer, op);
    pthread_mutex_lock(&n->lock);
    while (!n->applied)
        pthread_cond_wait(&n->wakeup, &n->lock);
    pthread_mutex_unlock(&n->lock);
    if (op->rc)
        *e = op->error;
    return op->rc;
}

/* ---- settings ---- */

/* A setting that cannot be read wants nothing. */
static enum err notifier_read_settings(struct turn *t, struct turn_tenant *ret, struct error *e)
{
    struct catalog_filter f = { .kind = CATALOG_NOTIFICATION, .tenant = ret->tenant, .limit = CATALOG_LIST_MAX };
    struct catalog_page page = { 0 };
    if (reader_catalog_list(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    ret->v = arena_array(&t->arena, struct turn_setting, page.entries.n + 1);
    if (!ret->v)
        return error_no_room(e);
    for (size_t i = 0; i < page.entries.n; i++) {
        struct turn_setting *s = &ret->v[ret->n];
        if (uuid_parse(page.entries.v[i].name, &s->id) &&
            setting_read(page.entries.v[i].doc, &t->arena, &s->setting, NULL) == ERR_OK)
            ret->n++;
    }
    return ERR_OK;
}

enum err notifier_settings(struct turn *t, int32_t tenant, const struct turn_tenant **ret, struct error *e)
{
    for (size_t i = 0; i < t->tenant_count; i++)
        if (t->tenants[i].tenant == tenant) {
            *ret = &t->tenants[i];
            return ERR_OK;
        }
    struct turn_tenant *v = arena_array(&t->arena, struct turn_tenant, t->tenant_count + 1);
    if (!v)
        return error_no_room(e);
    if (t->tenant_count)
        memcpy(v, t->tenants, t->tenant_count * sizeof *v);
    v[t->tenant_count].tenant = tenant;
    if (notifier_read_settings(t, &v[t->tenant_count], e))
        return e->code;
    t->tenants = v;
    *ret = &v[t->tenant_count++];
    return ERR_OK;
}

enum err notifier_setting(struct turn *t, int32_t tenant, struct uuid id, const struct setting **ret, struct error *e)
{
    const struct turn_tenant *all;
    if (notifier_settings(t, tenant, &all, e))
        return e->code;
    *ret = NULL;
    for (size_t i = 0; i < all->n; i++)
        if (uuid_eq(all->v[i].id, id))
            *ret = &all->v[i].setting;
    return ERR_OK;
}

/* ---- changes ---- */

static enum err turn_add(struct turn *t, struct record_change c, struct buf *doc, struct error *e)
{
    if (t->change_count == FOLD_RECORDS_MAX)
        return error_set(e, ERR_LIMIT, "a turn of the notifier changes too much");
    if (doc->full || !arena_str(&t->arena, buf_str(doc), &c.record.doc) ||
        !arena_str(&t->arena, c.record.key, &c.record.key))
        return error_no_room(e);
    t->changes[t->change_count++] = c;
    return ERR_OK;
}

enum err turn_add_incident(struct turn *t, const struct turn_incident *x, int64_t next_ms, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    char key[INCIDENT_KEY_TEXT] = "";
    const struct incident *i = &x->incident;
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    incident_write(&w, i);
    if (!i->closed_ms)
        incident_key(i->setting, (enum incident_kind)i->kind, i->cause, key);
    struct record r = { .id = i->id,
                        .kind = RECORD_INCIDENT,
                        .tenant = x->tenant,
                        .setting = i->setting,
                        .key = str_from(key),
                        .next_ms = next_ms };
    return turn_add(t, (struct record_change){ .record = r, .version = x->version }, &doc, e);
}

enum err turn_add_message(struct turn *t, int32_t tenant, const struct notification *m, int64_t version,
                          int64_t next_ms, struct str key, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    notification_write(&w, m);
    struct record r = { .id = m->id,
                        .kind = RECORD_MESSAGE,
                        .tenant = tenant,
                        .setting = m->setting,
                        .incident = m->incident,
                        .key = key,
                        .next_ms = next_ms };
    return turn_add(t, (struct record_change){ .record = r, .version = version }, &doc, e);
}

enum err turn_add_check(struct turn *t, const struct record *r, const struct check *c, int64_t next_ms, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    struct record_change change = { .record = *r, .version = r->version, .remove = next_ms < 0 };
    change.record.next_ms = next_ms;
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    check_write(&w, c);
    return turn_add(t, change, &doc, e);
}

/* ---- live events ---- */

/* Without room readers miss it, and the store has it. */
void turn_note(struct turn *t, const struct turn_incident *x, enum incident_change change)
{
    struct turn_news *n = arena_new(&t->arena, struct turn_news);
    if (!n)
        return;
    *n = (struct turn_news){ .next = t->news, .tenant = x->tenant, .incident = x->incident, .change = change };
    t->news = n;
}

static struct turn_news *turn_oldest_first(struct turn_news *news)
{
    struct turn_news *first = NULL;
    while (news) {
        struct turn_news *next = news->next;
        news->next = first;
        first = news;
        news = next;
    }
    return first;
}

static void turn_tell(struct turn *t)
{
    struct notifier *n = t->notifier;
    pthread_mutex_lock(&n->listener_lock);
    for (const struct turn_news *x = turn_oldest_first(t->news); x && n->listener; x = x->next)
        n->listener->incident(n->listener_context, x->tenant, &x->incident, x->change);
    pthread_mutex_unlock(&n->listener_lock);
}

void notifier_tell_task(struct notifier *n, const struct task *t)
{
    pthread_mutex_lock(&n->listener_lock);
    if (n->listener)
        n->listener->task(n->listener_context, t);
    pthread_mutex_unlock(&n->listener_lock);
}

/* ---- writing ---- */

void turn_reset(struct turn *t)
{
    t->change_count = 0;
    t->news = NULL;
}

static int turn_compare_changes(const void *a, const void *b)
{
    return uuid_cmp(((const struct record_change *)a)->record.id, ((const struct record_change *)b)->record.id);
}

enum err turn_write(struct turn *t, const struct uuid *hits, size_t hit_count, struct error *e)
{
    struct op_fold op = {
        .op = { .kind = OP_FOLD }, .hits = hits, .hit_count = hit_count, .v = t->changes, .n = t->change_count
    };
    if (!t->change_count && !hit_count)
        return ERR_OK;
    qsort(t->changes, t->change_count, sizeof *t->changes, turn_compare_changes);
    arena_init(&op.op.arena, 4096);
    failpoint("before_fold");
    enum err rc = notifier_apply(t->notifier, &op.op, e);
    failpoint("after_fold");
    arena_release(&op.op.arena);
    if (rc == ERR_OK && t->news)
        turn_tell(t);
    turn_reset(t);
    return rc;
}
