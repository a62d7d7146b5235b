/* Publishes tasks, wakeups for idle workers, and control messages (aborts, the time). */
#include <stdio.h>

#include "core/target/message.h"
#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

enum { TIME_EVERY_MS = 500 };

static struct route *queue_amqp_route_for(struct queue_hub *hub, const struct task *t)
{
    struct route_facts facts = route_of(hub, t, queue_tenant(hub->names, t->tenant));
    return routes_get(&hub->pushed, hub, &facts);
}

/* Connects and checks the epoch. */
static enum err queue_amqp_push_connect(struct queue_hub *hub, uint64_t epoch, struct pushed *ret, struct error *e)
{
    if (rabbit_connect_to_publish(&hub->push, e) || push_epoch_read(hub, e))
        return e->code;
    ret->epoch = hub->push_epoch;
    return epoch && epoch != hub->push_epoch ? queue_is_another(e) : ERR_OK;
}

static enum err queue_amqp_declare_routes(struct queue_hub *hub, const struct task *tasks, size_t n, struct error *e)
{
    for (size_t i = 0; i < hub->pushed.n; i++)
        hub->pushed.v[i]->push_count = 0;
    for (size_t i = 0; i < n; i++)
        if (catalogue_add(hub, queue_amqp_route_for(hub, &tasks[i]), e))
            return e->code == ERR_CONFLICT ? (e->code = ERR_UNAVAILABLE) : e->code;
    return ERR_OK;
}

/* The sort key of a task at the worker: higher classes first, and within a class the order of pushes. */
static void queue_amqp_write_order(struct queue_hub *hub, const struct route *r, char out[RABBIT_WORD])
{
    int64_t now_us = clock_wall_us(clock_system());
    hub->stamp_us = max_of(hub->stamp_us + 1, now_us);
    snprintf(out, RABBIT_WORD, "%d.%016llx", PRIORITY_MAX - r->facts.priority_max, (unsigned long long)hub->stamp_us);
}

static enum err queue_amqp_publish_task(struct queue_hub *hub, const struct task *t, struct error *e)
{
    struct jw w;
    char order[RABBIT_WORD];
    struct route *r = queue_amqp_route_for(hub, t);
    buf_reset(&hub->text);
    jw_init(&w, &hub->text);
    message_write_task(&w, t, queue_tenant(hub->names, t->tenant), queue_signing(hub->names, t));
    if (hub->text.full)
        return error_set(e, ERR_LIMIT, "a task is larger than %d MiB", TASK_TEXT_MAX >> 20);
    r->push_count++;
    new_queue_guard_add_copy(hub, r, buf_str(&hub->text), t->delivery == DELIVER_AT_MOST_ONCE);
    queue_amqp_write_order(hub, r, order);
    return rabbit_publish(&hub->push,
                          &(struct rabbit_envelope){ .key = str_from(r->name),
                                                     .body = buf_str(&hub->text),
                                                     .type = "task",
                                                     .message_id = order,
                                                     .mandatory = true },
                          e);
}

static enum err queue_amqp_publish_wakeup(struct queue_hub *hub, const struct route *r, size_t times, struct error *e)
{
    const struct rabbit_envelope wakeup = { .key = str_from(r->wakeup), .transient = true };
    for (; times; times--)
        if (rabbit_publish(&hub->push, &wakeup, e))
            return e->code;
    return ERR_OK;
}

/* Asks how many idle workers consume the wakeup queue, for each route with more than one new task. */
static enum err queue_amqp_count_idle_workers(struct queue_hub *hub, struct error *e)
{
    size_t questions = 0;
    rabbit_calls_begin(&hub->push, CHANNEL_CALLS);
    for (size_t i = 0; i < hub->pushed.n; i++)
        if (hub->pushed.v[i]->push_count > 1) {
            if (rabbit_send_declare_wakeup(&hub->push, CHANNEL_CALLS, hub->pushed.v[i]->wakeup, true, e))
                return e->code;
            questions++;
        }
    return rabbit_await_replies(&hub->push, CHANNEL_CALLS, questions, e);
}

/* Every route has got one wakeup. Publishes one more for each further task, at most one for each idle worker. */
static enum err queue_amqp_publish_more_wakeups(struct queue_hub *hub, struct error *e)
{
    size_t question = 0;
    for (size_t i = 0; i < hub->pushed.n; i++) {
        const struct route *r = hub->pushed.v[i];
        if (r->push_count < 2)
            continue;
        size_t idle_workers = hub->push.channels[CHANNEL_CALLS].consumers[question++];
        if (queue_amqp_publish_wakeup(hub, r, min_of(min_of(r->push_count, WAKEUP_MAX) - 1, idle_workers), e))
            return e->code;
    }
    return ERR_OK;
}

/* Published after the tasks are confirmed, so that a woken worker finds them. Each wakeup wakes one worker. Nothing
 * waits for their confirms. */
static void queue_amqp_publish_wakeups(struct queue_hub *hub)
{
    struct error ignored = { 0 };
    rabbit_publish_begin(&hub->push);
    for (size_t i = 0; i < hub->pushed.n; i++)
        if (queue_amqp_publish_wakeup(hub, hub->pushed.v[i], hub->pushed.v[i]->push_count > 0, &ignored))
            return;
    if (queue_amqp_count_idle_workers(hub, &ignored))
        return;
    rabbit_cork(&hub->push, true);
    if (queue_amqp_publish_more_wakeups(hub, &ignored) == ERR_OK)
        rabbit_cork(&hub->push, false);
}

static enum err queue_amqp_publish_all(struct queue_hub *hub, const struct task *tasks, size_t n, bool *ret_unsure,
                                       struct error *e)
{
    enum err rc = ERR_OK;
    rabbit_publish_begin(&hub->push);
    rabbit_cork(&hub->push, true);
    *ret_unsure = true;
    for (size_t i = 0; !rc && i < n; i++)
        rc = queue_amqp_publish_task(hub, &tasks[i], e);
    rabbit_cork(&hub->push, false);
    if (rc)
        return rc;
    if (rabbit_publish_end(&hub->push, e)) {
        if (e->code != ERR_NOT_FOUND)
            return e->code;
        /* A queue was deleted: close the connection, so that the next push declares it again. */
        *ret_unsure = hub->push.confirms.returned < n;
        rabbit_drop(&hub->push, e);
        return e->code = ERR_UNAVAILABLE;
    }
    *ret_unsure = false;
    queue_amqp_publish_wakeups(hub);
    return ERR_OK;
}

enum err queue_amqp_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                         struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    pthread_mutex_lock(&hub->push_lock);
    enum err rc = queue_amqp_push_connect(hub, epoch, ret, e);
    if (!rc)
        rc = new_queue_guard_resolve(hub, e);
    if (!rc)
        rc = queue_amqp_declare_routes(hub, tasks, n, e);
    if (!rc)
        rc = queue_amqp_publish_all(hub, tasks, n, &ret->unsure, e);
    new_queue_guard_push_ended(hub, rc == ERR_OK);
    pthread_mutex_unlock(&hub->push_lock);
    return rc;
}

/* Sends a message about a delivery to all workers: the worker that has the task acts on it, or the one that gets it
 * later. */
static enum err queue_amqp_tell_workers(struct queue_hub *hub, const char *type, struct fenced_id d, struct error *e)
{
    char text[UUID_TEXT + 32], task[UUID_TEXT + 1];
    uuid_format(d.id, task);
    snprintf(text, sizeof text, "%s %lld", task, (long long)d.fence);
    pthread_mutex_lock(&hub->push_lock);
    enum err rc = rabbit_connect_to_publish(&hub->push, e);
    if (!rc) {
        rabbit_publish_begin(&hub->push);
        const struct rabbit_envelope message = {
            .exchange = str_from(hub->control_name), .body = str_from(text), .type = type, .transient = true
        };
        rc = rabbit_publish(&hub->push, &message, e) || rabbit_publish_end(&hub->push, e) ? e->code : ERR_OK;
    }
    pthread_mutex_unlock(&hub->push_lock);
    return rc;
}

enum err queue_amqp_abort(struct queue *q, struct fenced_id d, struct error *e)
{
    return queue_amqp_tell_workers(hub_of(q), CONTROL_ABORT, d, e);
}

/* A task can be counted, not found: it may wait if any task of its route does. It is counted first: if it does not wait
 * then, a worker has it that hears of the message, or it was lost with its epoch. */
enum err queue_amqp_want_back(struct queue *q, const struct task *t, uint64_t epoch, enum want_back_answer *ret,
                              struct error *e)
{
    struct queue_hub *hub = hub_of(q);
    const struct fenced_id id = { t->id, t->fence };
    const struct route_facts facts = route_of(hub, t, queue_tenant(hub->names, t->tenant));
    const uint32_t *ready = NULL;
    hub_lock(hub);
    enum err rc = rabbit_connect(&hub->link, e) || epoch_read(hub, e) ? e->code : ERR_OK;
    if (!rc)
        rc = routes_count(hub, &(struct route *){ routes_get(&hub->routes, hub, &facts) }, 1, &ready, e);
    bool waits = !rc && ready[0] > 0;
    bool known = epoch_may_have(hub, &id, epoch);
    hub_unlock(hub);
    if (rc || queue_amqp_tell_workers(hub, CONTROL_WANT_BACK, id, e))
        return e->code;
    *ret = !known ? WANT_BACK_UNKNOWN : waits ? WANT_BACK_WAITS : WANT_BACK_TOLD;
    return ERR_OK;
}

/* Does not wait for the confirm: the time is published again soon. */
void queue_amqp_publish_time(struct queue_hub *hub)
{
    char text[32];
    struct error ignored = { 0 };
    pthread_mutex_lock(&hub->push_lock);
    if (rabbit_now_ms() - hub->time_published_ms >= TIME_EVERY_MS && !rabbit_connect_to_publish(&hub->push, &ignored)) {
        snprintf(text, sizeof text, "%lld", (long long)clock_wall_us(clock_system()));
        const struct rabbit_envelope message = {
            .exchange = str_from(hub->control_name), .body = str_from(text), .type = "time", .transient = true
        };
        rabbit_publish_begin(&hub->push);
        if (rabbit_publish(&hub->push, &message, &ignored) == ERR_OK)
            hub->time_published_ms = rabbit_now_ms();
    }
    pthread_mutex_unlock(&hub->push_lock);
}
