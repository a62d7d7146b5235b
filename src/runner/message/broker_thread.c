/* A broker's thread. It starts with the first message for its broker and ends after 60 s without messages; its
 * connection is then closed. A thread is found by its key, the broker's address; for an address in a task, the tenant
 * is part of the key.
 *
 * Threads for addresses in tasks are limited, in total and by tenant, because each may be blocked by a broker that does
 * not answer. A message that finds none free comes again later; a thread that is idle then makes way for it.
 *
 * The lock is the runner's. A broker's thread holds it only to take waiting messages and to return results. */
#include <stdio.h>
#include <stdlib.h>

#include "platform/clock_system.h"
#include "runner/message/internal.h"

enum {
    IDLE_US = 60 * 1000000,
    KEY_MAX = MESSAGE_TARGET_BROKER_MAX + 4096,
    PLACE_MS = 1000, /* about how long a message needs a thread of its own */
    WAIT_MAX_MS = 60000,
};

/* A tenant that has used an address in a task. */
struct broker_tenant {
    int32_t number;
    size_t threads;
    int64_t last_place_ms; /* when the last message that found no thread comes again */
};

struct broker_thread {
    struct runner_message *r;
    struct thread_owner owner; /* the thread itself; protects the sender */
    struct str key;
    enum message_target_broker kind;
    char *url;
    struct peer_check check;
    struct list waiting;
    pthread_cond_t wake;
    struct broker_tenant *tenant; /* NULL: a trusted broker */
    bool is_delivering;
    bool makes_way; /* it ends, and takes no more messages */
};

static const struct {
    const char *name;
    enum err (*open)(struct str url, struct peer_check *check, struct message_sender **ret, struct error *e);
} broker_kinds[] = {
#ifdef HAVE_REDIS
    [MESSAGE_TARGET_REDIS] = { "Redis", message_sender_redis_new },
#endif
#ifdef HAVE_AMQP
    [MESSAGE_TARGET_AMQP] = { "RabbitMQ", message_sender_amqp_new },
#endif
#ifdef HAVE_KAFKA
    [MESSAGE_TARGET_KAFKA] = { "Kafka", message_sender_kafka_new },
#endif
    [MESSAGE_TARGET_KAFKA + 1] = { NULL, NULL },
};

/* Operators' Redis addresses have more schemes than users' addresses. */
static enum message_target_broker message_sender_kind(struct str url)
{
    return str_starts(url, S("redis+")) || str_starts(url, S("rediss+")) ? MESSAGE_TARGET_REDIS
                                                                         : message_target_broker_of(url);
}

static enum err message_sender_open(enum message_target_broker kind, struct str url, struct peer_check *check,
                                    struct message_sender **ret, struct error *e)
{
    if (!broker_kinds[kind].open)
        return error_set(e, ERR_INVALID, "this belfry was built without a client for this kind of broker");
    return broker_kinds[kind].open(url, check, ret, e);
}

enum err message_sender_check(struct str url, struct error *e)
{
    enum message_target_broker kind = message_sender_kind(url);
    if (kind == MESSAGE_TARGET_NAMED)
        return error_set(e, ERR_INVALID,
                         "must be a URL that begins with redis://, rediss://, amqp://, amqps:// or kafka://");
    struct peer_check anywhere = { 0 };
    struct message_sender *s = NULL;
    enum err rc = message_sender_open(kind, url, &anywhere, &s, e);
    if (s)
        s->ops->free(s);
    return rc;
}

/* ---- on the broker's thread ---- */

/* Resolves and checks each host of the address before connecting. The address that is connected to is checked again. A
 * name that does not exist counts as blocked: a task must not find out which of the two it is. */
static bool broker_thread_may_connect(struct broker_thread *t)
{
    struct str rest = { 0 }, host;
    char name[MESSAGE_TARGET_HOST_MAX + 1];
    if (!t->check.guard)
        return true;
    while (!t->check.blocked && message_target_next_host(str_from(t->url), &rest, &host)) {
        struct address literal;
        snprintf(name, sizeof name, STR_FMT, STR_ARG(host));
        t->check.has_names |= !address_parse(host, &literal);
        t->check.blocked = !guard_allows_name(t->check.guard, name);
    }
    return !t->check.blocked;
}

static void broker_thread_deliver(struct broker_thread *t, struct message_sender **sender, struct message_in_flight **v,
                                  size_t n)
{
    struct error e = { 0 };
    assert_owned(&t->owner);
    t->check.blocked = false;
    if (!*sender && broker_thread_may_connect(t) &&
        message_sender_open(t->kind, str_from(t->url), &t->check, sender, &e))
        t->check.blocked = false;
    if (*sender) {
        (*sender)->ops->deliver(*sender, v, n);
        return;
    }
    if (!t->check.blocked)
        message_tell_detail(&t->check, e.text);
    for (size_t i = 0; i < n; i++) {
        if (t->check.blocked)
            message_set_lost(v[i], &t->check, false, "");
        else
            message_set_failed(v[i], FAILURE_REFUSED, false, t->tenant ? e.text : "the broker's settings are wrong");
    }
}

static size_t broker_thread_take_waiting(struct broker_thread *t, struct message_in_flight **v)
{
    size_t n = 0;
    while (n < MESSAGE_BATCH_MAX && !list_empty(&t->waiting)) {
        v[n] = container_of(list_pop(&t->waiting), struct message_in_flight, link);
        v[n++]->taken = true;
    }
    return n;
}

static void broker_thread_report(struct runner_message *r, struct message_in_flight **v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list_push(&r->done, &v[i]->link);
    uv_async_send(r->wakeup);
}

/* Waits for messages. Returns false if none has arrived for IDLE_US, or if the runner is closing: the thread ends. */
static bool broker_thread_wait(struct broker_thread *t)
{
    struct timespec end = clock_condition_end(IDLE_US);
    while (list_empty(&t->waiting) && !t->r->closing && !t->makes_way)
        if (pthread_cond_timedwait(&t->wake, &t->r->lock, &end))
            break;
    return !list_empty(&t->waiting);
}

static void broker_thread_free(struct broker_thread *t)
{
    pthread_cond_destroy(&t->wake);
    free_const(t->key.p);
    free(t->url);
    free(t);
}

static void broker_thread_count(const struct broker_thread *t, int sign)
{
    if (!t->tenant)
        return;
    t->tenant->threads += (size_t)sign;
    t->r->stranger_threads += (size_t)sign;
}

static void *broker_thread_main(void *context)
{
    struct broker_thread *t = context;
    struct runner_message *r = t->r;
    struct message_sender *sender = NULL;
    struct message_in_flight *v[MESSAGE_BATCH_MAX];
    pthread_mutex_lock(&r->lock);
    thread_owner_take(&t->owner);
    while (broker_thread_wait(t)) {
        size_t n = broker_thread_take_waiting(t, v);
        t->is_delivering = true;
        pthread_mutex_unlock(&r->lock);
        broker_thread_deliver(t, &sender, v, n);
        pthread_mutex_lock(&r->lock);
        t->is_delivering = false;
        broker_thread_report(r, v, n);
    }
    map_remove(&r->broker_threads, t->key);
    broker_thread_count(t, -1);
    pthread_mutex_unlock(&r->lock);
    if (sender)
        sender->ops->free(sender);
    broker_thread_free(t);
    pthread_mutex_lock(&r->lock);
    if (--r->threads == 0)
        pthread_cond_signal(&r->all_ended);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- on the loop's thread ---- */

static struct broker_thread *broker_thread_new(struct runner_message *r, struct str key, struct str url,
                                               struct broker_tenant *tenant)
{
    struct broker_thread *t = xnew(*t);
    char *own_key = xmalloc(key.n + 1);
    memcpy(own_key, key.p, key.n);
    *t = (struct broker_thread){
        .r = r, .key = { own_key, key.n }, .kind = message_sender_kind(url), .url = xmalloc(url.n + 1)
    };
    memcpy(t->url, url.p, url.n);
    t->url[url.n] = '\0';
    t->tenant = tenant;
    t->check.tell = r->broker_failed;
    t->check.guard = tenant ? &r->guard : NULL;
    list_init(&t->waiting);
    clock_condition_init(&t->wake);
    return t;
}

static bool broker_thread_start(struct broker_thread *t)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, broker_thread_main, t))
        return false;
    pthread_detach(thread);
    return true;
}

static struct broker_tenant *broker_tenant_of(struct runner_message *r, int32_t number)
{
    struct broker_tenant *tenant = map_get(&r->tenants, (struct str){ (const char *)&number, sizeof number });
    if (tenant)
        return tenant;
    tenant = xnew(*tenant);
    tenant->number = number;
    map_put(&r->tenants, (struct str){ (const char *)&tenant->number, sizeof tenant->number }, tenant);
    return tenant;
}

/* Whether the tenant may have one more thread. If not, an idle one ends: its own, if it has all that it may have. */
static bool broker_tenant_has_room(struct runner_message *r, const struct broker_tenant *tenant)
{
    bool has_all = tenant->threads >= r->tenant_connections;
    if (!has_all && r->stranger_threads < BROKER_THREADS_MAX)
        return true;
    map_each (&r->broker_threads, slot) {
        struct broker_thread *t = slot->value;
        if (!t->tenant || (has_all && t->tenant != tenant) || t->is_delivering || t->makes_way ||
            !list_empty(&t->waiting))
            continue;
        t->makes_way = true;
        pthread_cond_signal(&t->wake);
        break;
    }
    return false;
}

/* The messages of a tenant that find no thread come again one after the other. */
static int64_t broker_tenant_wait_ms(const struct runner_message *r, struct broker_tenant *tenant)
{
    int64_t now_ms = clock_steady_ms(r->clock),
            place_ms = max_of(PLACE_MS / (int64_t)r->tenant_connections, (int64_t)1);
    tenant->last_place_ms = min_of(max_of(tenant->last_place_ms, now_ms) + place_ms, now_ms + WAIT_MAX_MS);
    return tenant->last_place_ms - now_ms;
}

/* tenant is NULL for a trusted broker. Returns NULL if there is no room. */
static struct broker_thread *broker_thread_find_or_start(struct runner_message *r, struct str key, struct str url,
                                                         struct broker_tenant *tenant)
{
    struct broker_thread *t = map_get(&r->broker_threads, key);
    if (t)
        return t->makes_way ? NULL : t;
    if (tenant && !broker_tenant_has_room(r, tenant))
        return NULL;
    t = broker_thread_new(r, key, url, tenant);
    if (!broker_thread_start(t)) {
        broker_thread_free(t);
        return NULL;
    }
    r->threads++;
    broker_thread_count(t, 1);
    map_put(&r->broker_threads, t->key, t);
    return t;
}

enum err broker_thread_send(struct runner_message *r, struct message_in_flight *msg, struct str url, bool trusted,
                            int64_t *ret_wait_ms, struct error *e)
{
    assert_owned(&r->owner);
    char key[KEY_MAX];
    int n = snprintf(key, sizeof key, "%d " STR_FMT, trusted ? -1 : msg->run->task->tenant, STR_ARG(url));
    pthread_mutex_lock(&r->lock);
    struct broker_tenant *tenant = trusted ? NULL : broker_tenant_of(r, msg->run->task->tenant);
    struct broker_thread *t =
        broker_thread_find_or_start(r, (struct str){ key, min_of((size_t)n, sizeof key - 1) }, url, tenant);
    if (t) {
        msg->broker_thread = t;
        if (trusted && !t->check.broker[0]) /* before its first message, so the thread does not read it yet */
            snprintf(t->check.broker, sizeof t->check.broker, STR_FMT, STR_ARG(msg->target.broker));
        list_push(&t->waiting, &msg->link);
        pthread_cond_signal(&t->wake);
    } else {
        *ret_wait_ms = tenant ? broker_tenant_wait_ms(r, tenant) : PLACE_MS;
    }
    pthread_mutex_unlock(&r->lock);
    return t ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "waits: no connection to one more broker is free");
}

bool broker_thread_withdraw(struct runner_message *r, struct message_in_flight *msg)
{
    assert_owned(&r->owner);
    pthread_mutex_lock(&r->lock);
    bool is_waiting = !msg->taken;
    if (is_waiting)
        list_remove(&msg->link);
    pthread_mutex_unlock(&r->lock);
    return is_waiting;
}

void broker_threads_close(struct runner_message *r)
{
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    map_each (&r->broker_threads, slot)
        pthread_cond_signal(&((struct broker_thread *)slot->value)->wake);
    while (r->threads)
        pthread_cond_wait(&r->all_ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
}
