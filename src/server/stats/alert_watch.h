#pragma once
/* server/stats/alert_watch.h - judges the alerts once a minute, on the node that acts for all, and tells of those that
 * begin or end to fire.
 *
 * One thread: the backlog's, which has a reader. */
#include "core/stats/alert_rules.h"
#include "port/store.h"

/* An alert began to fire, or ended. It is the same alert if name and since_ms are: a new leader tells of it again. */
struct alert_news {
    struct alert alert;
    bool fires;
};

struct alert_watch {
    int64_t judged_ms; /* the end of the minute that was judged last; 0: none */
    struct alert alerts[ALERTS_MAX];
    size_t n; /* 0: nothing was judged since this node acts for all */
};

/* Judges the last minute, if it was not judged yet. Calls `tell` for each alert that begins or ends to fire. */
enum err alert_watch_step(struct alert_watch *w, struct reader *r, int64_t now_ms, const struct alert_facts *facts,
                          void (*tell)(void *context, const struct alert_news *news), void *context,
                          struct error *e) must_use;
void alert_watch_forget(struct alert_watch *w); /* another node acts for all */
