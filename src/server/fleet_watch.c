#include "server/fleet_watch.h"

#include "base/log.h"

static void fleet_watch_log_change(struct fleet_watch *w, enum async_io_channel channel, const char *what)
{
    struct async_io_health h;
    async_io_threads_health(w->async_io, channel, &h);
    bool down = h.down_ms > 0;
    if (down && !w->down[channel])
        log_warn("backend_down", kv_cstr("what", what), kv_err(&h.why));
    else if (!down && w->down[channel])
        log_info("backend_back", kv_cstr("what", what));
    w->down[channel] = down;
}

void fleet_watch_check(struct fleet_watch *w)
{
    static const char *const what[ASYNC_IO_CHANNELS] = {
        [ASYNC_IO_QUEUE] = "queue",          [ASYNC_IO_TAKE] = "queue, taking", [ASYNC_IO_PUBLISH] = "events",
        [ASYNC_IO_POLL] = "events, polling", [ASYNC_IO_LEASE] = "lease",
    };
    for (int i = 0; i < ASYNC_IO_CHANNELS; i++)
        fleet_watch_log_change(w, (enum async_io_channel)i, what[i]);
}

const char *const fleet_backend_names[FLEET_BACKENDS] = {
    [FLEET_QUEUE] = "queue", [FLEET_EVENTS] = "events", [FLEET_LEASE] = "lease"
};

int64_t fleet_watch_down_ms(struct async_io *c, enum fleet_backend backend)
{
    static const enum fleet_backend of_channel[ASYNC_IO_CHANNELS] = {
        [ASYNC_IO_QUEUE] = FLEET_QUEUE, [ASYNC_IO_TAKE] = FLEET_QUEUE,  [ASYNC_IO_PUBLISH] = FLEET_EVENTS,
        [ASYNC_IO_POLL] = FLEET_EVENTS, [ASYNC_IO_LEASE] = FLEET_LEASE,
    };
    int64_t down_ms = 0;
    for (int i = 0; i < ASYNC_IO_CHANNELS; i++) {
        struct async_io_health h;
        if (of_channel[i] != backend)
            continue;
        async_io_threads_health(c, (enum async_io_channel)i, &h);
        down_ms = max_of(down_ms, h.down_ms);
    }
    return down_ms;
}

void fleet_watch_write(struct async_io *c, enum async_io_channel channel, int64_t now_ms, struct jw *w)
{
    struct async_io_health h;
    async_io_threads_health(c, channel, &h);
    if (h.down_ms)
        jw_kv_time(w, "down_since", now_ms - h.down_ms);
    else
        jw_kv_cstr(w, "down_since", NULL);
    if (h.down_ms)
        jw_kv_cstr(w, "error", h.why.text);
}
