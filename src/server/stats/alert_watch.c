#include "server/stats/alert_watch.h"

enum { ARENA_MAX = 16 << 20 };

static const struct alert *alert_watch_before(const struct alert_watch *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->alerts[i].name == name)
            return &w->alerts[i];
    return NULL;
}

static void alert_watch_compare(const struct alert_watch *w, const struct alert *now,
                                void (*tell)(void *context, const struct alert_news *news), void *context)
{
    const struct alert *before = alert_watch_before(w, now->name);
    bool fired = before && before->state == ALERT_FIRING, fires = now->state == ALERT_FIRING;
    if (now->severity == ALERT_NONE || fired == fires)
        return;
    struct alert_news news = { .alert = *now, .fires = fires };
    if (fired)
        news.alert.since_ms = before->since_ms;
    tell(context, &news);
}

enum err alert_watch_step(struct alert_watch *w, struct reader *r, int64_t now_ms, const struct alert_facts *facts,
                          void (*tell)(void *context, const struct alert_news *news), void *context, struct error *e)
{
    cleanup_with(stats_history_release) struct stats_history h = { 0 };
    cleanup_with(arena_release) struct arena a;
    struct alert now[ALERTS_MAX];
    int64_t end_ms = (now_ms - ALERTS_WRITTEN_MS) / STATS_MINUTE_MS * STATS_MINUTE_MS;
    arena_init(&a, ARENA_MAX);
    if (end_ms == w->judged_ms)
        return ERR_OK;
    if (reader_stats_history(r, STATS_ALL, end_ms, ALERTS_HISTORY_MINUTES, &a, &h, e))
        return e->code;
    size_t n = alerts_judge(&h, facts, now);
    for (size_t i = 0; i < n; i++)
        alert_watch_compare(w, &now[i], tell, context);
    memcpy(w->alerts, now, n * sizeof *now);
    w->n = n;
    w->judged_ms = end_ms;
    return ERR_OK;
}

void alert_watch_forget(struct alert_watch *w)
{
    *w = (struct alert_watch){ 0 };
}
