#include "server/settings/fleet_url.h"

#include <stdio.h>

#include "events/amqp/events_amqp.h"
#include "events/kafka/events_kafka.h"
#include "events/redis/events_redis.h"
#include "lease/redis/lease_redis.h"
#include "platform/clock_system.h"
#include "queue/amqp/queue_amqp.h"
#include "queue/redis/queue_redis.h"
#include "server/settings/secret_url.h"

enum { URL_MAX = 4096 };

/* How to open the ports behind a URL scheme. `queue` opens the pushing and the taking handle, because they may share
 * state. */
struct fleet_scheme {
    const char *name;
    enum err (*queue)(struct str url, const struct fleet_setup *setup, struct async_io_ports *ret,
                      struct error *e); /* NULL: not a queue; the next two likewise */
    enum err (*events)(struct str url, struct events **ret, struct error *e);
    enum err (*lease)(struct str url, struct lease **ret, struct error *e);
};

/* ---- RabbitMQ ---- */

static enum err fleet_open_amqp_queue(struct str url, const struct fleet_setup *setup, struct async_io_ports *ret,
                                      struct error *e)
{
    if ((setup->filter && queue_amqp_can_filter(url, setup->filter, e)) ||
        queue_amqp_open(url, setup->names, &ret->queue, e))
        return e->code;
    if (setup->filter)
        ret->take = queue_amqp_twin(ret->queue);
    return ERR_OK;
}

/* ---- Redis ---- */

static enum err fleet_open_redis_queue(struct str url, const struct fleet_setup *setup, struct async_io_ports *ret,
                                       struct error *e)
{
    struct redis_setup redis = { .url = url, .clock = clock_system() };
    if (queue_redis_open(&redis, setup->names, &ret->queue, e))
        return e->code;
    return setup->filter ? queue_redis_open(&redis, setup->names, &ret->take, e) : ERR_OK;
}

static enum err fleet_open_redis_events(struct str url, struct events **ret, struct error *e)
{
    return events_redis_open(&(struct redis_setup){ .url = url, .clock = clock_system() }, ret, e);
}

static enum err fleet_open_redis_lease(struct str url, struct lease **ret, struct error *e)
{
    return lease_redis_open(&(struct redis_setup){ .url = url, .clock = clock_system() }, ret, e);
}

#define REDIS .queue = fleet_open_redis_queue, .events = fleet_open_redis_events, .lease = fleet_open_redis_lease

static const struct fleet_scheme schemes[] = {
    { .name = "redis", REDIS },
    { .name = "redis+sentinel", REDIS },
    { .name = "redis+unix", REDIS },
    { .name = "rediss", REDIS },
    { .name = "rediss+sentinel", REDIS },
    { .name = "amqp", .queue = fleet_open_amqp_queue, .events = events_amqp_open },
    { .name = "amqps", .queue = fleet_open_amqp_queue, .events = events_amqp_open },
    { .name = "kafka", .events = events_kafka_open },
};

static bool fleet_scheme_serves(const struct fleet_scheme *s, enum async_io_channel channel)
{
    switch (channel) {
    case ASYNC_IO_QUEUE:
    case ASYNC_IO_TAKE: return s->queue;
    case ASYNC_IO_PUBLISH:
    case ASYNC_IO_POLL: return s->events;
    case ASYNC_IO_LEASE: return s->lease;
    }
    return false;
}

static const struct fleet_scheme *fleet_scheme_of(struct str url)
{
    for (size_t i = 0; i < array_count(schemes); i++) {
        size_t n = strlen(schemes[i].name);
        if (str_starts(url, str_from(schemes[i].name)) && str_starts(str_sub(url, n, url.n), S("://")))
            return &schemes[i];
    }
    return NULL;
}

/* Writes the allowed schemes: "redis://, amqp:// or amqps://". */
static void fleet_list_schemes(enum async_io_channel channel, char *out, size_t size)
{
    const char *names[array_count(schemes)];
    size_t n = 0, at = 0;
    for (size_t i = 0; i < array_count(schemes); i++)
        if (fleet_scheme_serves(&schemes[i], channel))
            names[n++] = schemes[i].name;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s://", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
}

static enum err fleet_url_check(struct str url, const char *field, enum async_io_channel channel, struct error *e)
{
    char list[128];
    const struct fleet_scheme *s = fleet_scheme_of(url);
    if (s && fleet_scheme_serves(s, channel))
        return ERR_OK;
    fleet_list_schemes(channel, list, sizeof list);
    return error_field(e, field, "must be a URL that begins with %s, or file:/path with one", list);
}

static enum err fleet_url_read(const struct options *o, const char *name, enum async_io_channel channel,
                               struct buf *ret, struct error *e)
{
    char field[32];
    snprintf(field, sizeof field, "--%s", name);
    if (secret_url_read(o, name, ret, e))
        return e->code;
    return ret->n ? fleet_url_check(buf_str(ret), field, channel, e) : ERR_OK;
}

static bool fleet_has_option(const struct options *o, const char *flag)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].flag && strcmp(o->rows[i].flag, flag) == 0)
            return true;
    return false;
}

enum err fleet_urls_read(const struct options *o, struct fleet_urls *ret, struct error *e)
{
    buf_init(&ret->queue, URL_MAX);
    buf_init(&ret->events, URL_MAX);
    buf_init(&ret->lease, URL_MAX);
    if (fleet_url_read(o, "queue", ASYNC_IO_QUEUE, &ret->queue, e) && options_end_at(o, e))
        return e->code;
    if (fleet_url_read(o, "events", ASYNC_IO_PUBLISH, &ret->events, e) && options_end_at(o, e))
        return e->code;
    return fleet_has_option(o, "lease") ? fleet_url_read(o, "lease", ASYNC_IO_LEASE, &ret->lease, e) : ERR_OK;
}

void fleet_urls_release(struct fleet_urls *u)
{
    buf_release(&u->queue);
    buf_release(&u->events);
    buf_release(&u->lease);
}

/* ---- opening the ports ---- */

static enum err fleet_open_ports(const struct fleet_setup *setup, struct async_io_ports *ret, struct error *e)
{
    struct str queue = buf_str(&setup->urls->queue), events = buf_str(&setup->urls->events),
               lease = buf_str(&setup->urls->lease);
    if (queue.n && fleet_scheme_of(queue)->queue(queue, setup, ret, e)) {
        bool of_worker = str_starts(str_from(e->field), S("worker.")); /* another setting, that this queue cannot do */
        return of_worker ? e->code : error_in(e, "--queue");
    }
    if (events.n && (fleet_scheme_of(events)->events(events, &ret->publish, e) ||
                     (setup->polls && fleet_scheme_of(events)->events(events, &ret->poll, e))))
        return error_in(e, "--events");
    return lease.n && fleet_scheme_of(lease)->lease(lease, &ret->lease, e) ? error_in(e, "--lease") : ERR_OK;
}

enum err fleet_open(const struct fleet_setup *setup, struct fleet *ret, struct error *e)
{
    *ret = (struct fleet){ 0 };
    if (fleet_open_ports(setup, &ret->ports, e)) {
        fleet_release(ret);
        return e->code;
    }
    const struct async_io_ports *p = &ret->ports;
    ret->wanted[ASYNC_IO_QUEUE] = p->queue;
    ret->wanted[ASYNC_IO_TAKE] = p->take;
    ret->wanted[ASYNC_IO_PUBLISH] = p->publish;
    ret->wanted[ASYNC_IO_POLL] = p->poll;
    ret->wanted[ASYNC_IO_LEASE] = p->lease;
    return ERR_OK;
}

void fleet_release(struct fleet *f)
{
    queue_free(take(f->ports.queue));
    queue_free(take(f->ports.take));
    events_free(take(f->ports.publish));
    events_free(take(f->ports.poll));
    lease_free(take(f->ports.lease));
}

enum err fleet_take_port(void *context, enum async_io_channel channel, struct async_io_ports *ret, struct error *e)
{
    struct async_io_ports *mine = &((struct fleet *)context)->ports;
    (void)e;
    switch (channel) {
    case ASYNC_IO_QUEUE: ret->queue = take(mine->queue); break;
    case ASYNC_IO_TAKE: ret->take = take(mine->take); break;
    case ASYNC_IO_PUBLISH: ret->publish = take(mine->publish); break;
    case ASYNC_IO_POLL: ret->poll = take(mine->poll); break;
    case ASYNC_IO_LEASE: ret->lease = take(mine->lease); break;
    }
    return ERR_OK;
}

enum err fleet_start_threads(struct fleet *f, struct loop *loop, struct async_io **ret, struct error *e)
{
    const struct queue *queue = f->ports.queue;
    struct async_io_threads_setup setup = {
        .loop = loop, .push_again = queue && queue->ops->push_again, .open = fleet_take_port, .context = f
    };
    memcpy(setup.wanted, f->wanted, sizeof setup.wanted);
    return async_io_threads_new(&setup, ret, e);
}
