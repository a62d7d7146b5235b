/* Gets tasks from the broker, while other threads use the same link.
 *
 * A quorum queue writes to disk which consumer got which message before it delivers it, and the broker answers one
 * basic.get after the other on a channel. So basic.gets go out on many channels in parallel, which lets the broker
 * write many deliveries at once. Their replies come in any order. Publishers number the tasks that they push, and
 * queue_amqp.c sorts received tasks by that number. */
#include "queue/amqp/internal.h"

enum err routes_count(struct queue_hub *hub, struct route *const *v, size_t n, const uint32_t **ret, struct error *e)
{
    struct rabbit_channel *c = &hub->link.channels[CHANNEL_CALLS];
    for (;;) {
        rabbit_calls_begin(&hub->link, CHANNEL_CALLS);
        for (size_t i = 0; i < n; i++)
            if (rabbit_send_count(&hub->link, CHANNEL_CALLS, v[i]->name, e))
                return e->code;
        enum err rc = rabbit_await_replies(&hub->link, CHANNEL_CALLS, n, e);
        *ret = c->ready;
        if (rc != ERR_NOT_FOUND)
            return rc;
        /* The queue was deleted. Declare it again: publishers do not notice, and need not. */
        struct route *gone = v[c->ready_count];
        if (rabbit_open_channel(&hub->link, CHANNEL_CALLS, false, e) ||
            rabbit_declare(&hub->link, CHANNEL_CALLS, gone->name, RABBIT_TASKS, NULL, e))
            return e->code;
    }
}

/* ---- basic.get ---- */

struct get_round {
    size_t asked[GET_CHANNELS];
    uint64_t generation; /* of the link that the gets were sent on */
};

/* Opens as many channels as the round can use and the broker allows. */
static enum err queue_amqp_open_get_channels(struct queue_hub *hub, size_t wanted, struct error *e)
{
    int limit = amqp_get_channel_max(hub->link.state) - CHANNEL_GET + 1; /* 0: the broker has no limit */
    uint16_t enough = (uint16_t)min_of(wanted, (size_t)(limit > 0 ? min_of(limit, GET_CHANNELS) : GET_CHANNELS));
    if (hub->get_channels >= enough)
        return ERR_OK;
    uint16_t more = (uint16_t)(enough - hub->get_channels);
    if (rabbit_open_channels(&hub->link, (uint16_t)(CHANNEL_GET + hub->get_channels), more, e))
        return e->code;
    hub->get_channels = enough;
    return ERR_OK;
}

static enum err queue_amqp_send_gets(struct queue_hub *hub, struct route *const *v, size_t n, struct get_round *g,
                                     struct error *e)
{
    size_t turn = 0;
    for (uint16_t c = 0; c < hub->get_channels; c++)
        rabbit_calls_begin(&hub->link, CHANNEL_GET + c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < v[i]->get_count; k++, turn = (turn + 1) % hub->get_channels) {
            if (rabbit_send_get(&hub->link, (uint16_t)(CHANNEL_GET + turn), v[i]->name, e))
                return e->code;
            g->asked[turn]++;
        }
    return ERR_OK;
}

static size_t queue_amqp_count_missing(const struct queue_hub *hub, const struct get_round *g)
{
    size_t missing = 0;
    for (size_t c = 0; c < GET_CHANNELS; c++)
        missing += g->asked[c] - min_of(g->asked[c], hub->link.channels[CHANNEL_GET + c].replies);
    return missing;
}

/* Releases the lock while it waits, because other threads acknowledge meanwhile. */
static enum err queue_amqp_await_gets(struct queue_hub *hub, const struct get_round *g, struct error *e)
{
    int64_t end = rabbit_now_ms() + RABBIT_CALL_MS;
    for (size_t missing = queue_amqp_count_missing(hub, g), before = missing; missing;
         missing = queue_amqp_count_missing(hub, g)) {
        if (missing != before) {
            before = missing;
            end = rabbit_now_ms() + RABBIT_CALL_MS;
        }
        if (rabbit_now_ms() >= end)
            return rabbit_connection_error(&hub->link, AMQP_STATUS_TIMEOUT, e);
        hub_wait(hub, end - rabbit_now_ms());
        if (!hub->link.state || hub->link.generation != g->generation)
            return error_set(e, ERR_UNAVAILABLE, "%s", hub->link.why.text);
        if (rabbit_pump(&hub->link, 0, e))
            return e->code;
    }
    return ERR_OK;
}

enum err routes_get_messages(struct queue_hub *hub, struct route *const *v, size_t n, struct error *e)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i]->get_count;
    if (sum == 0)
        return ERR_OK;
    if (queue_amqp_open_get_channels(hub, sum, e))
        return e->code;
    struct get_round g = { .generation = hub->link.generation };
    rabbit_cork(&hub->link, true);
    enum err rc = queue_amqp_send_gets(hub, v, n, &g, e);
    rabbit_cork(&hub->link, false);
    return rc ? rc : queue_amqp_await_gets(hub, &g, e);
}
