/* Asking the broker for tasks, while other threads use the same link.
 *
 * A quorum queue writes down who was given what before it gives it, and a channel is answered one question after the other: many channels
 * side by side are what makes the broker write many down at once. Their answers come in any order; publishers number what they push, and
 * what comes is put in that order again (queue_amqp.c). */
#include <poll.h>
#include <unistd.h>

#include "queue/amqp/internal.h"

enum { LOOK_AGAIN_MS = 250 }; /* the longest that nobody looks whether the link has broken */

void hub_lock(struct queue_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
}

/* Whatever was read meanwhile may be what somebody waits for. */
void hub_unlock(struct queue_hub *hub)
{
    bool wake = hub->waiting > 0;
    pthread_mutex_unlock(&hub->lock);
    if (wake)
        (void)!write(hub->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void hub_wait(struct queue_hub *hub, int64_t ms)
{
    struct pollfd fds[] = { { .fd = rabbit_fd(&hub->link), .events = POLLIN },
                            { .fd = hub->wake_fd, .events = POLLIN } };
    uint64_t count;
    hub->waiting++;
    pthread_mutex_unlock(&hub->lock);
    (void)poll(fds, array_count(fds), (int)min_of(max_of(ms, 0), LOOK_AGAIN_MS));
    pthread_mutex_lock(&hub->lock);
    hub->waiting--;
    if (fds[1].revents)
        (void)!read(hub->wake_fd, &count, sizeof count);
}

enum err routes_count(struct queue_hub *hub, struct route *const *v, size_t n, const uint32_t **ret, struct error *e)
{
    struct rabbit_channel *c = &hub->link.channels[CHANNEL_ASK];
    for (;;) {
        rabbit_calls_begin(&hub->link, CHANNEL_ASK);
        for (size_t i = 0; i < n; i++)
            if (rabbit_send_count(&hub->link, CHANNEL_ASK, v[i]->name, e))
                return e->code;
        enum err rc = rabbit_await_replies(&hub->link, CHANNEL_ASK, n, e);
        *ret = c->ready;
        if (rc != ERR_NOT_FOUND)
            return rc;
        /* Somebody has deleted it: it is there again, and who pushes need not know. */
        struct route *gone = v[c->ready_count];
        if (rabbit_open_channel(&hub->link, CHANNEL_ASK, false, e) ||
            rabbit_declare(&hub->link, CHANNEL_ASK, gone->name, RABBIT_TASKS, NULL, e))
            return e->code;
    }
}

/* ---- getting ---- */

struct getting {
    size_t asked[GET_CHANNELS];
    uint64_t generation; /* of the link that was asked */
};

/* No more than are of use, nor than the broker allows. */
static enum err open_channels(struct queue_hub *hub, size_t wanted, struct error *e)
{
    int limit = amqp_get_channel_max(hub->link.state) - CHANNEL_GET + 1; /* it says 0 if it has none */
    uint16_t enough = (uint16_t)min_of(wanted, (size_t)(limit > 0 ? min_of(limit, GET_CHANNELS) : GET_CHANNELS));
    if (hub->get_channels >= enough)
        return ERR_OK;
    uint16_t more = (uint16_t)(enough - hub->get_channels);
    if (rabbit_open_channels(&hub->link, (uint16_t)(CHANNEL_GET + hub->get_channels), more, e))
        return e->code;
    hub->get_channels = enough;
    return ERR_OK;
}

static enum err ask_for_all(struct queue_hub *hub, struct route *const *v, size_t n, struct getting *g, struct error *e)
{
    size_t turn = 0;
    for (uint16_t c = 0; c < hub->get_channels; c++)
        rabbit_calls_begin(&hub->link, CHANNEL_GET + c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < v[i]->asked; k++, turn = (turn + 1) % hub->get_channels) {
            if (rabbit_send_get(&hub->link, (uint16_t)(CHANNEL_GET + turn), v[i]->name, e))
                return e->code;
            g->asked[turn]++;
        }
    return ERR_OK;
}

static size_t count_missing(const struct queue_hub *hub, const struct getting *g)
{
    size_t missing = 0;
    for (size_t c = 0; c < GET_CHANNELS; c++)
        missing += g->asked[c] - min_of(g->asked[c], hub->link.channels[CHANNEL_GET + c].replies);
    return missing;
}

/* Others acknowledge meanwhile, so this must not hold the lock as it waits. */
static enum err await_all(struct queue_hub *hub, const struct getting *g, struct error *e)
{
    int64_t end = rabbit_now_ms() + RABBIT_CALL_MS;
    for (size_t missing = count_missing(hub, g), before = missing; missing; missing = count_missing(hub, g)) {
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

enum err routes_get_asked(struct queue_hub *hub, struct route *const *v, size_t n, struct error *e)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i]->asked;
    if (sum == 0)
        return ERR_OK;
    if (open_channels(hub, sum, e))
        return e->code;
    struct getting g = { .generation = hub->link.generation };
    rabbit_cork(&hub->link, true);
    enum err rc = ask_for_all(hub, v, n, &g, e);
    rabbit_cork(&hub->link, false);
    return rc ? rc : await_all(hub, &g, e);
}
