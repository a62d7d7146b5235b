#include "server/fleet_watch.h"

#include "base/log.h"

static void tell_of(struct fleet_watch *w, enum courier_place place, const char *what)
{
    struct courier_health h;
    courier_threads_health(w->courier, place, &h);
    bool down = h.down_ms > 0;
    if (down && !w->down[place])
        log_warn("backend_down", kv_cstr("what", what), kv_err(&h.why));
    else if (!down && w->down[place])
        log_info("backend_back", kv_cstr("what", what));
    w->down[place] = down;
}

void fleet_watch_look(struct fleet_watch *w)
{
    static const char *const what[COURIER_PLACES] = {
        [COURIER_QUEUE] = "queue",          [COURIER_TAKE] = "queue, taking", [COURIER_PUBLISH] = "events",
        [COURIER_POLL] = "events, polling", [COURIER_LEASE] = "lease",
    };
    for (int i = 0; i < COURIER_PLACES; i++)
        tell_of(w, (enum courier_place)i, what[i]);
}

void fleet_watch_write(struct courier *c, enum courier_place place, int64_t now_ms, struct jw *w)
{
    struct courier_health h;
    courier_threads_health(c, place, &h);
    if (h.down_ms)
        jw_kv_time(w, "down_since", now_ms - h.down_ms);
    else
        jw_kv_cstr(w, "down_since", NULL);
    if (h.down_ms)
        jw_kv_cstr(w, "error", h.why.text);
}
