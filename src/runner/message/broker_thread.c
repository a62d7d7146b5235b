/* One broker's thread. It is started when there is something for its broker, and ends by itself when there was nothing for a while; then its
 * connection is closed. An office is found by its key, the broker's address; one that a task brought along is its tenant's own.
 *
 * The lock is the runner's. A thread holds it only to take what waits and to put back what is done. */
#include <stdio.h>
#include <stdlib.h>

#include "platform/clock_system.h"
#include "runner/message/internal.h"

enum { IDLE_US = 60 * 1000000, KEY_MAX = MESSAGE_TARGET_BROKER_MAX + 4096 };

struct broker_thread {
    struct runner_message *r;
    struct str key;
    enum message_target_broker kind;
    char *url;
    struct judge judge;
    struct list waiting;
    pthread_cond_t work;
};

static const struct {
    const char *name;
    enum err (*open)(struct str url, struct judge *j, struct sender **ret, struct error *e);
} kinds[] = {
#ifdef HAVE_REDIS
    [MESSAGE_TARGET_REDIS] = { "Redis", sender_redis_new },
#endif
#ifdef HAVE_AMQP
    [MESSAGE_TARGET_AMQP] = { "RabbitMQ", sender_amqp_new },
#endif
#ifdef HAVE_KAFKA
    [MESSAGE_TARGET_KAFKA] = { "Kafka", sender_kafka_new },
#endif
    [MESSAGE_TARGET_KAFKA + 1] = { NULL, NULL },
};

/* Operators' addresses of Redis have more forms than users'. */
static enum message_target_broker sender_kind(struct str url)
{
    return str_starts(url, S("redis+")) ? MESSAGE_TARGET_REDIS : message_target_broker_of(url);
}

static enum err open_sender(enum message_target_broker kind, struct str url, struct judge *j, struct sender **ret,
                            struct error *e)
{
    if (!kinds[kind].open)
        return error_set(e, ERR_INVALID, "this belfry was built without a client for such a broker");
    return kinds[kind].open(url, j, ret, e);
}

enum err sender_check(struct str url, struct error *e)
{
    enum message_target_broker kind = sender_kind(url);
    if (kind == MESSAGE_TARGET_NAMED)
        return error_set(e, ERR_INVALID, "must be a URL that begins with redis://, amqp://, amqps:// or kafka://");
    struct judge anywhere = { 0 };
    struct sender *s = NULL;
    enum err rc = open_sender(kind, url, &anywhere, &s, e);
    if (s)
        s->ops->free(s);
    return rc;
}

/* ---- the thread ---- */

/* Each address that its names have, before anything is connected: what is connected to is judged once more. */
static bool may_connect(struct broker_thread *o)
{
    struct str rest = { 0 }, host;
    char name[MESSAGE_TARGET_HOST_MAX + 1];
    if (!o->judge.guard)
        return true;
    while (!o->judge.blocked && message_target_next_host(str_from(o->url), &rest, &host)) {
        bool found;
        snprintf(name, sizeof name, STR_FMT, STR_ARG(host));
        o->judge.blocked = !guard_allows_name(o->judge.guard, name, &found) && found;
    }
    return !o->judge.blocked;
}

static void deliver(struct broker_thread *o, struct sender **sender, struct post **v, size_t n)
{
    struct error e = { 0 };
    o->judge.blocked = false;
    if (!*sender && may_connect(o) && open_sender(o->kind, str_from(o->url), &o->judge, sender, &e))
        o->judge.blocked = false;
    if (*sender) {
        (*sender)->ops->deliver(*sender, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        post_failed(v[i], FAILURE_REFUSED, false, o->judge.blocked ? "address is not allowed" : e.text);
}

static size_t take_waiting(struct broker_thread *o, struct post **v)
{
    size_t n = 0;
    while (n < BATCH_MAX && !list_empty(&o->waiting)) {
        v[n] = container_of(list_pop(&o->waiting), struct post, link);
        v[n++]->given = true;
    }
    return n;
}

static void put_back(struct runner_message *r, struct post **v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list_push(&r->done, &v[i]->link);
    uv_async_send(r->back);
}

/* False: nothing has come for so long that it may go. */
static bool await_work(struct broker_thread *o)
{
    struct timespec end = clock_condition_end(IDLE_US);
    while (list_empty(&o->waiting) && !o->r->closing)
        if (pthread_cond_timedwait(&o->work, &o->r->lock, &end))
            break;
    return !list_empty(&o->waiting);
}

static void *work(void *context)
{
    struct broker_thread *o = context;
    struct runner_message *r = o->r;
    struct sender *sender = NULL;
    struct post *v[BATCH_MAX];
    pthread_mutex_lock(&r->lock);
    while (await_work(o)) {
        size_t n = take_waiting(o, v);
        pthread_mutex_unlock(&r->lock);
        deliver(o, &sender, v, n);
        pthread_mutex_lock(&r->lock);
        put_back(r, v, n);
    }
    map_remove(&r->broker_threads, o->key);
    pthread_mutex_unlock(&r->lock);
    if (sender)
        sender->ops->free(sender);
    pthread_cond_destroy(&o->work);
    free_const(o->key.p);
    free(o->url);
    free(o);
    pthread_mutex_lock(&r->lock);
    if (--r->threads == 0)
        pthread_cond_signal(&r->empty);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- from the loop ---- */

static struct broker_thread *broker_thread_new(struct runner_message *r, struct str key, struct str url, bool trusted)
{
    struct broker_thread *o = xnew(*o);
    char *own_key = xmalloc(key.n + 1);
    memcpy(own_key, key.p, key.n);
    *o = (struct broker_thread){
        .r = r, .key = { own_key, key.n }, .kind = sender_kind(url), .url = xmalloc(url.n + 1)
    };
    memcpy(o->url, url.p, url.n);
    o->url[url.n] = '\0';
    o->judge.guard = trusted ? NULL : &r->guard;
    list_init(&o->waiting);
    clock_condition_init(&o->work);
    return o;
}

static bool start_thread(struct broker_thread *o)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, o))
        return false;
    pthread_detach(thread);
    return true;
}

static struct broker_thread *find_or_open(struct runner_message *r, struct str key, struct str url, bool trusted)
{
    struct broker_thread *o = map_get(&r->broker_threads, key);
    if (o || r->broker_threads.n >= BROKER_THREADS_MAX)
        return o;
    o = broker_thread_new(r, key, url, trusted);
    if (!start_thread(o)) {
        pthread_cond_destroy(&o->work);
        free_const(o->key.p);
        free(o->url);
        free(o);
        return NULL;
    }
    r->threads++;
    map_put(&r->broker_threads, o->key, o);
    return o;
}

enum err broker_thread_send(struct runner_message *r, struct post *p, struct str url, bool trusted, struct error *e)
{
    char key[KEY_MAX];
    int n = snprintf(key, sizeof key, "%d " STR_FMT, trusted ? -1 : p->run->task->tenant, STR_ARG(url));
    pthread_mutex_lock(&r->lock);
    struct broker_thread *o = find_or_open(r, (struct str){ key, min_of((size_t)n, sizeof key - 1) }, url, trusted);
    if (o) {
        p->broker_thread = o;
        list_push(&o->waiting, &p->link);
        pthread_cond_signal(&o->work);
    }
    pthread_mutex_unlock(&r->lock);
    return o ? ERR_OK
             : error_set(e, ERR_UNAVAILABLE, "connected to %d brokers already, and no more at once",
                         BROKER_THREADS_MAX);
}

bool broker_thread_take_back(struct runner_message *r, struct post *p)
{
    pthread_mutex_lock(&r->lock);
    bool waits = !p->given;
    if (waits)
        list_remove(&p->link);
    pthread_mutex_unlock(&r->lock);
    return waits;
}

void broker_threads_close(struct runner_message *r)
{
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    map_each (&r->broker_threads, slot)
        pthread_cond_signal(&((struct broker_thread *)slot->value)->work);
    while (r->threads)
        pthread_cond_wait(&r->empty, &r->lock);
    pthread_mutex_unlock(&r->lock);
}
