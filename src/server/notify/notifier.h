#pragma once
/* server/notify/notifier.h - the notifier of a node: a thread that folds hits into incidents (port/store/incidents.h),
 * decides what is told and when (core/notify/incident.h), and sends the messages.
 *
 * Every node that schedules has one, and any of them may do the work: all changes name the version that they expect, so
 * a change that another node made first is done once. A message that a node has taken, and of which it does not report,
 * is sent again by any node after MESSAGE_TAKEN_MS, under the same id. It has its own slots: tasks do not delay it.
 *
 * It also judges the checks of tasks that are expected to succeed in time (core/notify/check.h). A missed deadline and
 * the new state of its check are one transaction: whatever dies in between, it is told once. */
#include "base/buf.h"
#include "base/metrics.h"
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
};

struct notifier;
enum err notifier_new(const struct notifier_setup *setup, struct notifier **ret, struct error *e) must_use;
void notifier_free(struct notifier *n);                     /* before the writer ends; NULL is fine */
void notifier_wake(struct notifier *n);                     /* a message was made. Any thread; NULL is fine */
void notifier_metrics(struct notifier *n, struct buf *out); /* lines of /metrics. Any thread; NULL is fine */
