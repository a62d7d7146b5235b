/* Takes messages that are due, sends them, and records what became of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "core/notify/channel_formats.h"
#include "port/signer.h"
#include "server/notify/internal.h"

enum {
    SIGNATURES_MAX = 512,
    HEADER_MAX = 1024,
    BODY_MAX = 1 << 20,
    MESSAGES_LOOKED_AT = 200,
    SETTINGS_LOOKED_AT = 200,
    DISABLED_MS = 60000 /* a message of a disabled tenant is looked at again */
};

/* ---- the request ---- */

struct draft {
    struct channel_facts facts;
    struct channel channel; /* with its secrets opened */
    struct signer signer;   /* of its signing key */
    struct buf body;
    char headers[SENDER_HEADERS_MAX][HEADER_MAX];
    struct send_request request;
};

static void deliver_add_header(struct draft *d, const char *name, struct str value)
{
    size_t i = 0;
    while (d->request.headers[i])
        i++;
    snprintf(d->headers[i], HEADER_MAX, "%s: " STR_FMT, name, STR_ARG(value));
    d->request.headers[i] = d->headers[i];
}

static void deliver_sign(struct draft *d)
{
    cleanup_with(buf_release) struct buf signatures;
    char id[UUID_TEXT + 1], at[32];
    const struct notification *m = d->facts.message;
    int64_t now_s = d->facts.now_ms / 1000;
    struct str body = buf_str(&d->body);
    buf_init(&signatures, SIGNATURES_MAX);
    uuid_format(m->id, id);
    snprintf(at, sizeof at, "%lld", (long long)now_s);
    deliver_add_header(d, "webhook-id", str_from(id));
    deliver_add_header(d, "webhook-timestamp", str_from(at));
    if (d->signer.n) {
        signer_write(&d->signer, str_from(id), d->facts.now_ms, body, &signatures);
        signer_wipe(&d->signer);
        deliver_add_header(d, "webhook-signature", buf_str(&signatures));
    }
    if (!d->channel.secret.n)
        return;
    webhook_sign(d->channel.secret, str_from(id), now_s, body, &signatures);
    if (d->channel.old_secret.n && d->facts.now_ms < d->channel.old_until_ms) {
        buf_char(&signatures, ' ');
        webhook_sign(d->channel.old_secret, str_from(id), now_s, body, &signatures);
    }
    deliver_add_header(d, "webhook-signature", buf_str(&signatures));
}

static void deliver_write(struct draft *d, const struct notifier *n)
{
    const struct channel_facts *f = &d->facts;
    struct send_request *r = &d->request;
    r->url = d->channel.url;
    r->timeout_ms = MESSAGE_TIMEOUT_MS;
    switch ((enum channel_kind)f->message->channel) {
    case CHANNEL_HTTP_WEBHOOK: channel_webhook(f, &d->body); break;
    case CHANNEL_SLACK_WEBHOOK: channel_slack(f, &d->body); break;
    case CHANNEL_PUSH: channel_push(f, &d->channel, &d->body); break;
    case CHANNEL_EMAIL:
        channel_mail(f, &d->channel, n->setup.mail_from, &d->body);
        r->mail_from = n->setup.mail_from.p;
        r->mail_to = d->channel.to.v;
        r->mail_to_count = d->channel.to.n;
        break;
    }
    if (!r->mail_from)
        deliver_add_header(d, "Content-Type", S("application/json"));
    if (f->message->channel == CHANNEL_HTTP_WEBHOOK)
        deliver_sign(d);
    if (f->message->channel == CHANNEL_PUSH && d->channel.token.n) {
        char value[HEADER_MAX];
        snprintf(value, sizeof value, "Bearer " STR_FMT, STR_ARG(d->channel.token));
        deliver_add_header(d, "Authorization", str_from(value));
    }
    r->body = buf_str(&d->body);
}

/* A message whose key is gone is not sent without a signature. */
static enum err deliver_open_key(struct turn *t, const struct record *r, struct draft *d, struct error *e)
{
    const struct notifier_setup *setup = &t->notifier->setup;
    struct signing_key key;
    struct uuid id;
    if (!d->channel.signing_key.n)
        return ERR_OK;
    if (!uuid_parse(d->channel.signing_key, &id) ||
        catalog_cache_signing_key_of(setup->catalog, r->tenant, id, &t->arena, &key, e))
        return error_set(e, ERR_NOT_FOUND, "the signing key was removed");
    return signer_open(setup->secrets, r->tenant, &key, &d->signer, e);
}

static enum err deliver_open_secrets(struct turn *t, const struct record *r, struct draft *d, struct error *e)
{
    struct channel_secret v[CHANNEL_SECRETS];
    channel_secrets((enum channel_kind)d->facts.message->channel, &d->channel, v);
    for (size_t i = 0; i < CHANNEL_SECRETS; i++) {
        struct secret_place at = { r->tenant, r->setting, str_from(v[i].field) };
        if (!secret_is_sealed(*v[i].text))
            continue;
        if (!t->notifier->setup.secrets)
            return error_set(e, ERR_NOT_FOUND, "this node has no key file");
        if (secret_open(t->notifier->setup.secrets, &at, *v[i].text, &t->arena, v[i].text, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- what became of it ---- */

enum deliver_result { DELIVER_SENT, DELIVER_FAILED, DELIVER_RETRIED };
static const char *const result_names[RESULTS] = { "sent", "failed", "retried" };

static void deliver_count(struct notifier *n, const struct notification *m, enum deliver_result r)
{
    pthread_mutex_lock(&n->lock);
    n->counts[m->channel][r]++;
    pthread_mutex_unlock(&n->lock);
}

/* Writes a message alone. A conflict: another node has taken it since. */
static enum err deliver_put(struct turn *t, const struct record *r, const struct notification *m, int64_t next_ms,
                            struct error *e)
{
    return turn_add_message(t, r->tenant, m, r->version, next_ms, S(""), e) ? e->code : turn_write(t, NULL, 0, e);
}

static enum err deliver_drop(struct turn *t, const struct record *r, struct notification *m, const char *why,
                             struct error *e)
{
    m->state = MESSAGE_DROPPED;
    m->error = str_from(why);
    return deliver_put(t, r, m, 0, e);
}

/* Whether the place is at fault, and not the message. */
static void deliver_end_place(struct notifier *n, const struct sent_message *d, const struct send_result *r,
                              int64_t now_ms)
{
    bool is_fault = !r->ok && (!r->http_status || r->http_status >= 500) && !r->is_final;
    if (d->place != PLACE_NONE)
        channel_place_end(&n->places.v[d->place], is_fault, now_ms);
}

static enum err deliver_note(struct turn *t, struct notification *m, enum notification_act_kind what, struct error *e)
{
    struct notification_act act = {
        .at_ms = t->now_ms, .what = (int)what, .http_status = m->http_status, .error = m->error
    };
    return notification_add_act(m, &act, &t->arena) ? ERR_OK : error_no_room(e);
}

static enum err deliver_record_result(struct turn *t, const struct sent_message *d, const struct send_result *r,
                                      struct error *e)
{
    struct notification m;
    int64_t next_ms = 0;
    if (notification_read(str_from(d->doc), &t->arena, &m, e))
        return e->code;
    m.http_status = r->http_status;
    m.error = str_from(r->error);
    if (r->ok) {
        m.state = MESSAGE_SENT;
        m.sent_ms = m.sent_ms ? m.sent_ms : t->now_ms;
    } else {
        next_ms = r->is_final ? 0 : notification_retry_at(&m, r->retry_after_ms, t->now_ms);
        m.state = next_ms ? MESSAGE_WAITING : MESSAGE_FAILED;
    }
    deliver_count(t->notifier, &m, r->ok ? DELIVER_SENT : next_ms ? DELIVER_RETRIED : DELIVER_FAILED);
    if (m.state == MESSAGE_FAILED)
        log_warn("notification_failed", kv_uuid("message", m.id), kv_uuid("setting", m.setting),
                 kv_i64("tenant", d->record.tenant), kv_str("error", m.error));
    if (deliver_note(t, &m, r->ok ? MESSAGE_ACT_SENT : MESSAGE_ACT_FAILED, e) ||
        deliver_put(t, &d->record, &m, next_ms, e))
        return e->code;
    if (m.state == MESSAGE_FAILED)
        notifier_on_failed(t, &d->record);
    return ERR_OK;
}

void notifier_on_result(struct notifier *n, const struct send_result *r)
{
    struct sent_message *d = r->context;
    struct turn t = { .notifier = n, .now_ms = clock_wall_ms(n->setup.clock) };
    struct error e = { 0 };
    failpoint("after_send");
    deliver_end_place(n, d, r, t.now_ms);
    arena_init(&t.arena, TURN_ARENA);
    if (deliver_record_result(&t, d, r, &e) && e.code != ERR_CONFLICT)
        log_warn("notification_not_recorded", kv_uuid("message", d->record.id), kv_err(&e));
    free(d->doc);
    *d = (struct sent_message){ 0 };
    arena_release(&t.arena);
}

/* ---- taking ---- */

/* Why a message is not sent; NULL: it is. The last group of an incident may be told in the turn that closes it. */
static const char *deliver_refusal(const struct turn *t, const struct channel_facts *f,
                                   const struct tenant_rules *tenant)
{
    const struct notification *m = f->message;
    bool nags = m->type == MESSAGE_REPEATED || m->type == MESSAGE_ESCALATED;
    if (!f->setting)
        return "the setting was removed";
    if (tenant->disabled && (m->type == MESSAGE_TEST || !notification_is_young(m, t->now_ms)))
        return "the tenant is disabled";
    if (m->type == MESSAGE_TEST)
        return NULL;
    if (!f->setting->enabled)
        return "the setting is disabled";
    if (m->step > (int64_t)f->setting->step_count)
        return "the setting has no such step any more";
    if ((m->step ? f->setting->steps[m->step - 1].kind : f->setting->kind) != m->channel)
        return "the setting has another delivery_type since";
    if (setting_is_muted(f->setting, t->now_ms) || (f->incident && t->now_ms < f->incident->muted_until_ms))
        return "muted";
    if (nags && f->incident && f->incident->acked_ms)
        return "acknowledged";
    bool is_over = f->incident && f->incident->closed_ms && !incident_is_every(f->incident, f->setting);
    return nags && is_over ? "closed" : NULL;
}

/* The incident of a message. */
struct deliver_incident {
    struct turn_incident x;
    int64_t next_ms;
};

static enum err deliver_read_incident(struct turn *t, const struct record *r, struct deliver_incident *scratch,
                                      const struct incident **ret, struct error *e)
{
    struct record_filter f = { .kind = RECORD_INCIDENT, .tenant = r->tenant, .id = r->incident, .limit = 1 };
    struct record_page page = { 0 };
    *ret = NULL;
    if (uuid_is_nil(r->incident))
        return ERR_OK;
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e) ||
        (page.n && incident_read(page.v[0].doc, &t->arena, &scratch->x.incident, e)))
        return e->code;
    if (!page.n)
        return ERR_OK;
    scratch->x.tenant = r->tenant;
    scratch->x.version = page.v[0].version;
    scratch->next_ms = page.v[0].next_ms;
    *ret = &scratch->x.incident;
    return ERR_OK;
}

/* From now on this node has the message, until MESSAGE_TAKEN_MS have passed. */
static enum err deliver_claim(struct turn *t, struct record *r, const struct notification *m, struct error *e)
{
    if (deliver_put(t, r, m, t->now_ms + MESSAGE_TAKEN_MS, e))
        return e->code;
    r->version++;
    return ERR_OK;
}

/* As deliver_claim, and the tasks that have joined go with the message. Both are written or none. */
static enum err deliver_claim_joined(struct turn *t, struct record *r, const struct notification *m,
                                     const struct deliver_incident *i, struct error *e)
{
    struct turn_incident told = i->x;
    struct notification about = *m;
    incident_tell_joined(&told.incident);
    notification_set_about(&about, &told.incident);
    return turn_add_incident(t, &told, i->next_ms, e) ? e->code : deliver_claim(t, r, &about, e);
}

/* Takes the message, and leaves in the incident what the message tells of (core/notify/incident.h, rule 9). If another
 * node changes the incident meanwhile, the tasks that have joined do not go with the message. */
static enum err deliver_claim_told(struct turn *t, struct record *r, struct notification *m, bool is_first,
                                   struct deliver_incident *i, struct error *e)
{
    struct incident *told = &i->x.incident;
    bool tells = m->type == MESSAGE_OPENED || m->type == MESSAGE_REPEATED;
    bool carries = tells && is_first && told->joined_ms && !told->closed_ms;
    enum err rc = carries ? deliver_claim_joined(t, r, m, i, e) : ERR_CONFLICT;
    if (rc == ERR_OK) {
        incident_tell_joined(told);
        notification_set_about(m, told);
    } else if (rc == ERR_CONFLICT) {
        rc = deliver_claim(t, r, m, e);
    }
    if (tells)
        *told = incident_before_joined(told);
    return rc;
}

static struct sent_message *deliver_slot(struct notifier *n)
{
    struct sent_message *d = n->deliveries;
    while (d->is_used)
        d++;
    return d;
}

static char *deliver_doc(const struct notification *m)
{
    struct buf doc;
    struct jw w;
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    notification_write(&w, m);
    return buf_take(&doc);
}

static void deliver_start(struct turn *t, const struct record *r, const struct notification *m, int place,
                          struct draft *d)
{
    struct notifier *n = t->notifier;
    struct sent_message *slot = deliver_slot(n);
    *slot = (struct sent_message){ .is_used = true, .place = place, .record = *r, .doc = deliver_doc(m) };
    slot->record.key = slot->record.doc = (struct str){ 0 };
    d->request.context = slot;
    if (place != PLACE_NONE)
        channel_place_start(&n->places.v[place], (enum channel_kind)m->channel, clock_wall_ms(n->setup.clock));
    failpoint("before_send");
    sender_start(n->sender, &d->request);
}

static const struct channel *deliver_channel(const struct channel_facts *f)
{
    int64_t step = f->message->step;
    return step ? &f->setting->steps[step - 1].channel : &f->setting->channel;
}

/* Whether the message has to wait for its place. If that is closed, the message is put off: it must not hide others
 * that are due. Somebody waits for a test, so it goes at once. */
static enum err deliver_wait(struct turn *t, const struct record *r, const struct channel_facts *f, int place,
                             bool *ret, struct error *e)
{
    struct notification m = *f->message;
    *ret = false;
    if (place == PLACE_NONE || m.type == MESSAGE_TEST)
        return ERR_OK;
    const struct channel_place *p = &t->notifier->places.v[place];
    *ret = !channel_place_is_free(p, t->now_ms);
    if (!channel_place_is_closed(p, t->now_ms))
        return ERR_OK;
    m.state = MESSAGE_WAITING;
    return deliver_put(t, r, &m, p->closed_until_ms, e);
}

/* The message is this node's. If its text cannot be made, that counts as a failed attempt. */
static enum err deliver_send(struct turn *t, const struct record *r, struct notification *m,
                             const struct channel_facts *f, int place, struct error *e)
{
    struct draft *d = arena_new(&t->arena, struct draft);
    if (!d)
        return error_no_room(e);
    d->facts = *f;
    d->channel = *deliver_channel(f);
    buf_init(&d->body, BODY_MAX);
    if (deliver_open_secrets(t, r, d, e) == ERR_OK && deliver_open_key(t, r, d, e) == ERR_OK) {
        deliver_write(d, t->notifier);
        deliver_start(t, r, m, place, d);
        buf_release(&d->body);
        return ERR_OK;
    }
    int64_t next_ms = notification_retry_at(m, -1, t->now_ms);
    struct error ignored;
    m->state = next_ms ? MESSAGE_WAITING : MESSAGE_FAILED;
    m->error = str_from(e->text);
    deliver_count(t->notifier, m, next_ms ? DELIVER_RETRIED : DELIVER_FAILED);
    if (deliver_note(t, m, MESSAGE_ACT_FAILED, &ignored))
        return ignored.code;
    return deliver_put(t, r, m, next_ms, &ignored);
}

static enum err deliver_take(struct turn *t, struct record *r, struct error *e)
{
    struct notification m;
    struct deliver_incident incident = { 0 };
    struct tenant_rules tenant = { 0 };
    struct channel_facts f = { .message = &m, .now_ms = t->now_ms, .site = t->notifier->setup.site };
    if (notification_read(r->doc, &t->arena, &m, e) || deliver_read_incident(t, r, &incident, &f.incident, e) ||
        notifier_setting(t, r->tenant, r->setting, &f.setting, e))
        return e->code;
    if (catalog_cache_tenant(t->notifier->setup.catalog, r->tenant, &t->arena, &tenant))
        f.tenant = tenant.name;
    if (m.state == MESSAGE_SENDING && deliver_note(t, &m, MESSAGE_ACT_LOST, e))
        return e->code;
    const char *why = deliver_refusal(t, &f, &tenant);
    if (why)
        return deliver_drop(t, r, &m, why, e);
    if (tenant.disabled && m.type != MESSAGE_TEST && notification_is_young(&m, t->now_ms)) {
        m.state = MESSAGE_WAITING; /* perhaps for a moment only */
        return deliver_put(t, r, &m, t->now_ms + DISABLED_MS, e);
    }
    int place = channel_places_get(&t->notifier->places, r->tenant, (enum channel_kind)m.channel, deliver_channel(&f),
                                   t->now_ms);
    bool waits;
    enum err rc = deliver_wait(t, r, &f, place, &waits, e);
    if (rc || waits)
        return rc;
    bool is_first = !m.attempts;
    if (!notification_take(&m, t->now_ms))
        return deliver_put(t, r, &m, 0, e);
    rc = deliver_claim_told(t, r, &m, is_first, &incident, e);
    return rc ? rc : deliver_send(t, r, &m, &f, place, e);
}

/* ---- tenants in turn ---- */

/* The messages of one tenant that are due. */
struct deliver_queue {
    int32_t tenant;
    struct record **v;
    size_t n, at; /* at: the next one */
};

struct deliver_queues {
    struct deliver_queue *v;
    size_t n;
};

static struct deliver_queue *deliver_queue_of(struct deliver_queues *all, int32_t tenant)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].tenant == tenant)
            return &all->v[i];
    return NULL;
}

/* A clock that is set forward while a message is being sent makes it due again. */
static bool deliver_is_sending(const struct notifier *n, struct uuid message)
{
    for (size_t i = 0; i < SENDER_SLOTS; i++)
        if (n->deliveries[i].is_used && uuid_eq(n->deliveries[i].record.id, message))
            return true;
    return false;
}

/* all->v has room for each of them. */
static enum err deliver_sort_page(struct turn *t, const struct record_page *page, struct deliver_queues *all,
                                  struct error *e)
{
    for (size_t i = 0; i < page->n; i++) {
        struct deliver_queue *q = deliver_queue_of(all, page->v[i].tenant);
        if (deliver_is_sending(t->notifier, page->v[i].id))
            continue;
        if (!q) {
            q = &all->v[all->n++];
            *q = (struct deliver_queue){ page->v[i].tenant, arena_array(&t->arena, struct record *, page->n), 0, 0 };
        }
        if (!q->v)
            return error_no_room(e);
        q->v[q->n++] = &page->v[i];
    }
    return ERR_OK;
}

/* Where the next turn goes on, behind the last setting of this page, or at the first one. */
static void deliver_note_hidden(struct notifier *n, const struct catalog_page *page)
{
    const struct catalog_entry *last = page->more ? &page->entries.v[page->entries.n - 1] : NULL;
    n->hidden_tenant = last ? last->tenant : 0;
    snprintf(n->hidden_after, sizeof n->hidden_after, STR_FMT, last ? (int)last->name.n : 0, last ? last->name.p : "");
}

/* There are more messages than one page holds, perhaps all of one tenant: the others are asked for by name. Only
 * tenants with settings have messages that can be sent. A turn looks at the next SETTINGS_LOOKED_AT settings, so that
 * after a few turns each tenant was asked for, however many there are. */
static enum err deliver_add_hidden(struct turn *t, struct record_filter f, struct deliver_queues *all, struct error *e)
{
    struct notifier *n = t->notifier;
    struct catalog_filter settings = { .kind = CATALOG_NOTIFICATION,
                                       .all_tenants = true,
                                       .after_tenant = n->hidden_tenant,
                                       .after = str_from(n->hidden_after),
                                       .limit = SETTINGS_LOOKED_AT };
    struct catalog_page page = { 0 };
    if (reader_catalog_list(n->reader, &settings, &t->arena, &page, e))
        return e->code;
    f.limit = SENDER_SLOTS;
    for (size_t i = 0; i < page.entries.n; i++) {
        struct record_page found = { 0 };
        bool is_asked = i && page.entries.v[i].tenant == page.entries.v[i - 1].tenant;
        f.tenant = page.entries.v[i].tenant;
        if (is_asked || deliver_queue_of(all, f.tenant))
            continue;
        if (reader_records(n->reader, &f, &t->arena, &found, e) || deliver_sort_page(t, &found, all, e))
            return e->code;
    }
    deliver_note_hidden(n, &page);
    return ERR_OK;
}

static int deliver_compare_queues(const void *a, const void *b)
{
    const struct deliver_queue *x = a, *y = b;
    return x->tenant < y->tenant ? -1 : x->tenant > y->tenant;
}

/* Where several tenants share a node, none has more than half of the slots. */
static bool deliver_has_slot(const struct notifier *n, int32_t tenant)
{
    size_t used = 0, most = catalog_cache_tenant_count(n->setup.catalog) > 1 ? SENDER_SLOTS / 2 : SENDER_SLOTS;
    for (size_t i = 0; i < SENDER_SLOTS; i++)
        used += n->deliveries[i].is_used && n->deliveries[i].record.tenant == tenant;
    return used < most && sender_room(n->sender);
}

/* One message of each tenant, then the next ones. The tenant behind the one that was served last is the first. */
static enum err deliver_take_in_turn(struct turn *t, struct deliver_queues *all, struct error *e)
{
    struct notifier *n = t->notifier;
    size_t first = 0, left = all->n;
    qsort(all->v, all->n, sizeof *all->v, deliver_compare_queues);
    while (first < all->n && all->v[first].tenant <= n->last_tenant)
        first++;
    for (size_t i = first; left && sender_room(n->sender); i++) {
        struct deliver_queue *q = &all->v[i % all->n];
        bool ends = q->at < q->n && (q->at + 1 == q->n || !deliver_has_slot(n, q->tenant));
        if (q->at < q->n && deliver_has_slot(n, q->tenant)) {
            const struct record *r = q->v[q->at];
            enum err rc = deliver_take(t, q->v[q->at++], e);
            turn_reset(t);
            n->last_tenant = q->tenant;
            if (rc == ERR_CORRUPT)
                log_error("message_unreadable", kv_uuid("message", r->id), kv_err(e));
            else if (rc && rc != ERR_CONFLICT)
                return rc;
        }
        if (ends) {
            q->at = q->n;
            left--;
        }
    }
    return ERR_OK;
}

/* If no other node writes to the store, messages that are being sent were those of the process before this one: they
 * are due. */
enum err notifier_take_messages(struct turn *t, struct error *e)
{
    struct notifier *n = t->notifier;
    bool first = !n->took && !store_is_shared(n->setup.store);
    struct record_filter f = { .kind = RECORD_MESSAGE,
                               .due_ms = t->now_ms + (first ? MESSAGE_TAKEN_MS : 0),
                               .limit = MESSAGES_LOOKED_AT };
    struct record_page page = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    n->oldest_message_ms = page.n ? page.v[0].next_ms : 0;
    struct deliver_queues all = { 0 };
    all.v = arena_array(&t->arena, struct deliver_queue, MESSAGES_LOOKED_AT + SETTINGS_LOOKED_AT);
    if (!all.v)
        return error_no_room(e);
    if (deliver_sort_page(t, &page, &all, e) || (page.more && deliver_add_hidden(t, f, &all, e)) ||
        deliver_take_in_turn(t, &all, e))
        return e->code;
    n->took = true;
    return ERR_OK;
}

/* ---- metrics ---- */

void notifier_metrics(struct notifier *n, struct buf *out)
{
    if (!n)
        return;
    int64_t now_ms = clock_wall_ms(n->setup.clock), oldest_ms = notifier_oldest_ms(n);
    pthread_mutex_lock(&n->lock);
    buf_text(out,
             "# HELP belfry_notifications_total Messages of notifications that this node has sent or tried to send.\n"
             "# TYPE belfry_notifications_total counter\n");
    for (size_t c = 0; c < CHANNEL_KINDS; c++)
        for (size_t r = 0; r < RESULTS; r++)
            buf_printf(out, "belfry_notifications_total{channel=\"%s\",result=\"%s\"} %lld\n", channel_names[c],
                       result_names[r], (long long)n->counts[c][r]);
    pthread_mutex_unlock(&n->lock);
    double age = oldest_ms ? (double)max_of(now_ms - oldest_ms, (int64_t)0) / 1000 : 0;
    buf_printf(out,
               "# HELP belfry_notification_oldest_seconds How long something is due to be told, and is not.\n"
               "# TYPE belfry_notification_oldest_seconds gauge\nbelfry_notification_oldest_seconds %.3f\n",
               age);
}
