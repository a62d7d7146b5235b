#pragma once
/* api/live/live_log.h - the latest events of each tenant that is watched, so that a reader who lost its connection goes
 * on where it was.
 *
 * The events of a tenant have numbers without gaps. Of one tenant, LIVE_LOG_TENANT events are kept, of all together
 * LIVE_LOG_MAX: the oldest go first. Pure; the caller has the lock. */
#include "base/list.h"
#include "base/str.h"
#include "base/uuid.h"

enum { LIVE_LOG_MAX = 10000, LIVE_LOG_TENANT = 500 };

enum live_kind { LIVE_TASK, LIVE_JOB, LIVE_INCIDENT, LIVE_NODE };

/* Events of all tenants. */
struct live_log {
    struct list events; /* the oldest first */
    size_t n;
};

/* Events of one tenant. */
struct live_part {
    struct list events; /* the oldest first */
    size_t n;
    uint64_t last;   /* the number of the latest event; 0: there was none */
    uint64_t before; /* the events above this number, up to the last, are kept */
};

struct live_event {
    struct list link, of_tenant;
    struct live_part *part;
    uint64_t number;
    enum live_kind kind;
    struct uuid task, parent; /* of a task, like the next */
    struct str queue;
    struct str text; /* as it is sent, without its id; texts follow the struct */
};

void live_log_init(struct live_log *l);
void live_part_init(struct live_part *p);

/* Adds a copy of the event, with the next number. */
void live_log_add(struct live_log *l, struct live_part *p, const struct live_event *e);

/* Drops the events of a tenant that nobody watches any more. Its numbers go on: no earlier reader finds its place. */
void live_log_drop(struct live_log *l, struct live_part *p);

/* Whether all events after this number are kept. */
bool live_part_has_since(const struct live_part *p, uint64_t number);

/* The first event after this number; NULL: there is none. live_part_next: the one after it. */
const struct live_event *live_part_since(const struct live_part *p, uint64_t number);
const struct live_event *live_part_next(const struct live_part *p, const struct live_event *e);
