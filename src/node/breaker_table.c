/* An entry is one allocation. `dirty` says that the store does not know its latest change; while it is being written,
 * `sending` is set, and a change meanwhile makes it dirty again. An entry that has closed is kept until the store has
 * removed it. */
#include "node/breaker_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"
#include "base/uuid.h"
#include "core/target/target_url.h"

enum {
    BREAKERS_ARENA = 1 << 16,
    BREAKERS_RETRY_MS = 1000,
    FRESH_MS = 2000,     /* a reading of the store may be so much older than a change here */
    STALE_MS = 86400000, /* a breaker whose host nobody has called for so long after its time is removed */
};

struct breaker_entry {
    struct breaker_row row;
    bool closed, dirty, sending;
    bool seen;          /* in the rows that are being followed */
    int64_t changed_ms; /* steady: when it was last changed here */
    struct host_key key;
    char reason[BREAKER_REASON_MAX];
};

struct breaker_table {
    struct breaker_table_setup setup;
    struct uuid_gen ids;
    struct map entries; /* tenant and host → struct breaker_entry */
    size_t dirty;
    struct pending_op pending;
    struct op_breakers op;
    struct breaker_change *changes; /* of op, with the texts behind them */
    bool failed;                    /* the last write did, and that was logged */
    struct moment now;
};

struct breaker_table *breaker_table_new(const struct breaker_table_setup *setup)
{
    struct breaker_table *t = xnew(*t);
    t->setup = *setup;
    uuid_gen_init(&t->ids, setup->seed ^ 0xb4ea);
    map_init(&t->entries, HASH_STABLE);
    return t;
}

void breaker_table_free(struct breaker_table *t)
{
    if (!t)
        return;
    assert(!t->pending.in_flight);
    map_each (&t->entries, slot)
        free(slot->value);
    map_release(&t->entries);
    free(t);
}

/* ---- entries ---- */

static struct breaker_entry *breaker_table_get(const struct breaker_table *t, int32_t tenant, struct str host)
{
    struct host_key key = host_key_of(tenant, host);
    return map_get(&t->entries, host_key_bytes(&key));
}

static struct breaker_entry *breaker_table_add(struct breaker_table *t, int32_t tenant, struct str host)
{
    struct breaker_entry *x = xnew(*x);
    x->key = host_key_of(tenant, host);
    x->row = (struct breaker_row){ .tenant = tenant,
                                   .host = { x->key.p + sizeof tenant, x->key.n - sizeof tenant },
                                   .reason = { x->reason, 0 } };
    map_put(&t->entries, host_key_bytes(&x->key), x);
    return x;
}

static void breaker_table_remove(struct breaker_table *t, struct breaker_entry *x)
{
    t->dirty -= x->dirty;
    map_remove(&t->entries, host_key_bytes(&x->key));
    free(x);
}

/* Bytes that are no text do not matter: the store and the API take care of them. */
static void breaker_entry_set_reason(struct breaker_entry *x, const char *prefix, struct str reason)
{
    char text[BREAKER_REASON_MAX + 1];
    int n = snprintf(text, sizeof text, "%s" STR_FMT, prefix, STR_ARG(reason));
    x->row.reason.n = min_of((size_t)max_of(n, 0), sizeof x->reason);
    memcpy(x->reason, text, x->row.reason.n);
}

static void breaker_entry_note_failure(struct breaker_entry *x, const struct outcome *o, bool by_retry_after)
{
    char status[32];
    struct str why = o->error;
    if (!why.n && o->http_status)
        why = (struct str){ status, (size_t)snprintf(status, sizeof status, "HTTP %d", o->http_status) };
    breaker_entry_set_reason(x, by_retry_after ? BREAKER_RETRY_AFTER ": " : "", why);
}

static void breaker_table_mark(struct breaker_table *t, struct breaker_entry *x)
{
    t->dirty += !x->dirty;
    x->dirty = true;
    x->changed_ms = t->now.steady_ms;
}

/* The worker's breakers know a tenant's own one by an empty host. */
static struct str breaker_own_host(struct str host)
{
    return str_eq(host, BREAKER_ANY_HOST) ? S("") : host;
}

/* ---- what workers say ---- */

static void breaker_table_opened(struct breaker_table *t, const struct event *e, struct str host,
                                 const struct breaker_news *news)
{
    int32_t tenant = e->task.tenant;
    struct breaker_entry *x = breaker_table_get(t, tenant, host);
    bool is_new = !x || x->closed;
    if (!x)
        x = breaker_table_add(t, tenant, host);
    lanes_open_breaker(t->setup.lanes, tenant, host, news->until_ms);
    if (!is_new && news->until_ms <= x->row.until_ms)
        return;
    if (is_new) {
        x->closed = false;
        x->row.id = uuid_next(&t->ids, t->now.wall_ms);
        x->row.opened_ms = t->now.wall_ms;
        x->row.calls = news->counts.total;
        x->row.failures = news->counts.failures;
        x->row.reopened = -1;
    }
    x->row.until_ms = news->until_ms;
    x->row.reopened++;
    breaker_entry_note_failure(x, &e->outcome, news->by_retry_after);
    breaker_table_mark(t, x);
}

static void breaker_table_recovered(struct breaker_table *t, int32_t tenant, struct str host)
{
    struct breaker_entry *x = breaker_table_get(t, tenant, host);
    lanes_close_breaker(t->setup.lanes, tenant, host);
    if (!x || x->closed)
        return;
    x->closed = true;
    breaker_table_mark(t, x);
}

static void breaker_table_apply(struct breaker_table *t, const struct event *e, struct str host,
                                const struct breaker_news *news)
{
    const struct breaker_rules *rules = str_eq(host, BREAKER_ANY_HOST) ? &breaker_tenant : &breaker_host;
    const struct breaker_entry *x = breaker_table_get(t, e->task.tenant, host);
    struct breaker_news again = { .kind = BREAKER_OPENED, .until_ms = t->now.wall_ms + rules->open_ms };
    switch (news->kind) {
    case BREAKER_NO_NEWS: break;
    case BREAKER_OPENED: breaker_table_opened(t, e, host, news); break;
    case BREAKER_RECOVERED: breaker_table_recovered(t, e->task.tenant, host); break;
    case BREAKER_HELD: /* perhaps only by a trial that runs */
        lanes_open_breaker(t->setup.lanes, e->task.tenant, host, t->now.wall_ms + BREAKER_TRIAL_WAIT_MS);
        break;
    case BREAKER_TRIAL_FAILED:
        if (x && !x->closed)
            breaker_table_opened(t, e, host, &again);
        break;
    }
}

void breaker_table_on_news(struct breaker_table *t, const struct event *e, struct moment now)
{
    t->now = now;
    breaker_table_apply(t, e, e->host, &e->breakers.host);
    breaker_table_apply(t, e, BREAKER_ANY_HOST, &e->breakers.tenant);
}

/* ---- what other nodes and users say ---- */

static void breaker_table_close_here(struct breaker_table *t, int32_t tenant, struct str host)
{
    lanes_close_breaker(t->setup.lanes, tenant, host);
    (void)breakers_close(t->setup.own, tenant, breaker_own_host(host), t->now.wall_ms);
}

void breaker_table_on_closed(struct breaker_table *t, int32_t tenant, struct str host, struct moment now)
{
    struct breaker_entry *x = breaker_table_get(t, tenant, host);
    t->now = now;
    breaker_table_close_here(t, tenant, host);
    if (!x)
        return;
    x->closed = true;
    if (x->sending || x->dirty)
        breaker_table_mark(t, x); /* the store may get it after it was closed: it is removed once more */
    else
        breaker_table_remove(t, x);
}

/* Whether what the store had a moment ago may be older than this entry. */
static bool breaker_entry_is_newer(const struct breaker_entry *x, struct moment now)
{
    return x->dirty || x->sending || (x->changed_ms && now.steady_ms - x->changed_ms < FRESH_MS);
}

static void breaker_table_remove_stale(struct breaker_table *t, const struct breaker_row *row)
{
    struct breaker_entry *x = breaker_table_get(t, row->tenant, row->host);
    if (!x)
        x = breaker_table_add(t, row->tenant, row->host);
    x->seen = true;
    if (x->closed || breaker_entry_is_newer(x, t->now))
        return;
    x->closed = true;
    breaker_table_close_here(t, row->tenant, x->row.host);
    breaker_table_mark(t, x);
}

static void breaker_table_follow_row(struct breaker_table *t, const struct breaker_row *row)
{
    struct breaker_entry *x = breaker_table_get(t, row->tenant, row->host);
    if (row->until_ms < t->now.wall_ms - STALE_MS) {
        breaker_table_remove_stale(t, row);
        return;
    }
    if (x)
        x->seen = true;
    if (x && (breaker_entry_is_newer(x, t->now) || row->until_ms == x->row.until_ms))
        return;
    if (!x)
        x = breaker_table_add(t, row->tenant, row->host);
    struct str host = x->row.host, reason = x->row.reason;
    x->seen = true;
    x->row = *row;
    x->row.host = host;
    x->row.reason = reason;
    breaker_entry_set_reason(x, "", row->reason);
    lanes_open_breaker(t->setup.lanes, row->tenant, host, row->until_ms);
    breakers_restore(t->setup.own, row->tenant, breaker_own_host(host), row->until_ms,
                     (struct breaker_counts){ (int)row->calls, (int)row->failures }, t->now.wall_ms);
}

void breaker_table_follow(struct breaker_table *t, const struct breaker_row *rows, size_t n, struct moment now)
{
    t->now = now;
    map_each (&t->entries, slot)
        ((struct breaker_entry *)slot->value)->seen = false;
    for (size_t i = 0; i < n; i++)
        breaker_table_follow_row(t, &rows[i]);
    struct breaker_entry **gone = xcalloc(t->entries.n + 1, sizeof *gone);
    size_t count = 0;
    map_each (&t->entries, slot) {
        struct breaker_entry *x = slot->value;
        if (!x->seen && !breaker_entry_is_newer(x, now))
            gone[count++] = x;
    }
    for (size_t i = 0; i < count; i++) {
        breaker_table_close_here(t, gone[i]->row.tenant, gone[i]->row.host);
        breaker_table_remove(t, gone[i]);
    }
    free(gone);
}

void breaker_table_on_clock_set_back(struct breaker_table *t, int64_t by_ms, int64_t now_ms)
{
    breakers_on_clock_set_back(t->setup.own, now_ms);
    lanes_shift_breakers(t->setup.lanes, by_ms);
    map_each (&t->entries, slot)
        ((struct breaker_entry *)slot->value)->row.until_ms -= by_ms;
}

/* ---- writing ---- */

static void breaker_table_written(struct breaker_table *t, struct breaker_entry *x, bool failed)
{
    x->sending = false;
    if (failed)
        breaker_table_mark(t, x);
    else if (x->closed && !x->dirty)
        breaker_table_remove(t, x);
}

static void breaker_table_on_done(struct op *op)
{
    struct breaker_table *t = op->context;
    bool failed = op->rc != ERR_OK;
    if (log_first_failure(&t->failed, failed))
        log_warn("breakers_not_written", kv_err(&op->error), kv_i64("breakers", (int64_t)t->op.n));
    for (size_t i = 0; i < t->op.n; i++) {
        struct breaker_entry *x = breaker_table_get(t, t->changes[i].row.tenant, t->changes[i].row.host);
        if (x)
            breaker_table_written(t, x, failed);
    }
    free(take(t->changes));
    pending_op_end(&t->pending, op);
    if (failed)
        pending_op_wait(&t->pending, t->now, BREAKERS_RETRY_MS);
}

/* The texts are copied: entries may change while they are being written. */
static void breaker_table_fill_op(struct breaker_table *t)
{
    size_t max = min_of(t->dirty, (size_t)BREAKERS_CHANGE_MAX), n = 0;
    t->changes = xmalloc(max * (sizeof *t->changes + TARGET_HOST_MAX + BREAKER_REASON_MAX + 2));
    char *at = (char *)(t->changes + max);
    map_each (&t->entries, slot) {
        struct breaker_entry *x = slot->value;
        if (!x->dirty || x->sending || n == max)
            continue;
        struct breaker_change *c = &t->changes[n++];
        *c = (struct breaker_change){ .row = x->row, .close = x->closed };
        c->row.host = str_pack(x->row.host, &at);
        c->row.reason = str_pack(x->row.reason, &at);
        if (c->close)
            c->row.id = (struct uuid){ 0 }; /* by its host: the store may have another node's opening of it */
        else
            c->row.reopened = 0;
        x->dirty = false;
        x->sending = true;
    }
    t->dirty -= n;
    t->op = (struct op_breakers){ .op = { .kind = OP_BREAKERS, .done = breaker_table_on_done, .context = t },
                                  .v = t->changes,
                                  .n = n };
}

int64_t breaker_table_step(struct breaker_table *t, struct moment now)
{
    t->now = now;
    if (!t->dirty)
        return INT64_MAX;
    if (pending_op_may_send(&t->pending, now)) {
        breaker_table_fill_op(t);
        pending_op_send(&t->pending, t->setup.writer, &t->op.op, BREAKERS_ARENA);
    }
    return t->dirty ? pending_op_wake(&t->pending, now) : INT64_MAX;
}

/* A store that does not answer keeps nobody from stopping. */
bool breaker_table_is_idle(const struct breaker_table *t)
{
    return !t->pending.in_flight && (!t->dirty || t->failed);
}

/* ---- for people ---- */

const struct breaker_row *breaker_table_find(const struct breaker_table *t, int32_t tenant, struct str host)
{
    const struct breaker_entry *x = breaker_table_get(t, tenant, host);
    return x && !x->closed ? &x->row : NULL;
}

void breaker_table_each(const struct breaker_table *t, int64_t now_ms,
                        void (*see)(void *context, const struct breaker_view *b), void *context)
{
    map_each (&t->entries, slot) {
        const struct breaker_entry *x = slot->value;
        bool waits = x->row.until_ms > now_ms;
        if (x->closed)
            continue;
        see(context, &(struct breaker_view){ .tenant = x->row.tenant,
                                             .host = breaker_own_host(x->row.host),
                                             .status = { .state = waits ? BREAKER_OPEN : BREAKER_HALF_OPEN,
                                                         .since_ms = x->row.opened_ms,
                                                         .until_ms = waits ? x->row.until_ms : 0,
                                                         .counts = { (int)x->row.calls, (int)x->row.failures } } });
    }
}
