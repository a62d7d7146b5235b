#pragma once
/* server/notify/notifier.h - the notifier of a node: a thread that folds hits into incidents (port/store/incidents.h),
 * decides what is told and when (core/notify/incident.h), and sends the messages.
 *
 * Every node that schedules has one, and any of them may do the work: all changes name the version that they expect, so
 * a change that another node made first is done once. A message that a node has taken, and of which it does not report,
 * is sent again by any node after MESSAGE_TAKEN_MS, under the same id. It has its own slots: tasks do not delay it.
 *
 * It also judges the checks of tasks that are expected to succeed in time (core/notify/check.h). A missed deadline and
 * the new state of its check are one transaction: whatever dies in between, it is told once.
 *
 * And its thread ends pauses (server/pause/pause_ends.h): that is work of the same form, a record that is due, which
 * any node may do. */
#include "base/buf.h"
#include "base/metrics.h"
#include "core/notify/incident.h"
#include "core/stats/alert_rules.h"
#include "node/catalog_cache.h"
#include "port/clock.h"
#include "port/secrets.h"
#include "port/store.h"
#include "runner/notify/sender.h"

struct notifier_setup {
    struct store *store;
    struct writer *writer;
    struct clock *clock;
    struct catalog_cache *catalog;
    struct zoneinfo *zones;        /* of checks */
    const struct secrets *secrets; /* NULL: secrets are not encrypted */
    struct sender_setup sender;
    struct str mail_from;
    struct str site; /* api.public_url; empty: messages have no links */
    /* False while a node of the cluster does not know notifications: hits and alerts wait. NULL: there is none. */
    bool (*may_fold)(void *context);
    struct str heartbeat_url;       /* is called each minute while all is well; empty: none */
    bool (*is_well)(void *context); /* this node acts for all, and claims succeed. Once a minute */
    void (*resumed)(void *context, const struct task *t); /* a task was resumed at the end of its pause; NULL: none */
    void *context;
};

struct notifier;
enum err notifier_new(const struct notifier_setup *setup, struct notifier **ret, struct error *e) must_use;
void notifier_free(struct notifier *n);                     /* before the writer ends; NULL is fine */
void notifier_wake(struct notifier *n);                     /* a message was made. Any thread; NULL is fine */
void notifier_metrics(struct notifier *n, struct buf *out); /* lines of /metrics. Any thread; NULL is fine */
int64_t notifier_oldest_ms(struct notifier *n); /* since when something waits; 0: nothing. Any thread; NULL is fine */
/* Is called with what has changed, on the notifier's thread. When notifier_listen returns, the listener before it is
 * not called any more. NULL: none. Any thread; n NULL is fine. */
struct notifier_listener {
    void (*incident)(void *context, int32_t tenant, const struct incident *i, enum incident_change change);
    void (*task)(void *context, const struct task *t);
};
void notifier_listen(struct notifier *n, const struct notifier_listener *listener, void *context);
/* All alerts as they stand, on the node that acts for all; count 0: it does not any more. Any thread; NULL is fine. */
void notifier_on_alerts(struct notifier *n, const struct alert *v, size_t count);
