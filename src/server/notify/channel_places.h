#pragma once
/* server/notify/channel_places.h - where messages go, as this node has seen it: a tenant's host, the URL of a Slack
 * webhook, or the mail server. Pure.
 *
 *  1. A place has at most PLACE_SLOTS messages under way, so that one that stalls does not take all slots.
 *  2. After PLACE_FAILURES failures in a row it is closed for PLACE_CLOSED_MS. A failure is one of the place, such as
 *     a timeout or a 5xx status, and not one of the message.
 *  3. A Slack webhook gets one message a second. */
#include "core/notify/setting.h"

enum {
    PLACES_MAX = 256,
    PLACE_SLOTS = 4,
    PLACE_FAILURES = 4,
    PLACE_CLOSED_MS = 30000,
    PLACE_SLACK_MS = 1000,
    PLACE_NONE = -1,
};

struct channel_place {
    uint64_t hash;
    int under_way, failures;
    int64_t closed_until_ms;
    int64_t next_ms; /* the next message may go then */
    int64_t used_ms;
};

struct channel_places {
    struct channel_place v[PLACES_MAX];
    size_t n;
};

/* The place of a channel. One that is not used is given up for a new one; PLACE_NONE: all are used. */
int channel_places_get(struct channel_places *p, int32_t tenant, enum channel_kind kind, const struct channel *c,
                       int64_t now_ms);
bool channel_place_is_closed(const struct channel_place *p, int64_t now_ms);
bool channel_place_is_free(const struct channel_place *p, int64_t now_ms); /* a message may go now */
void channel_place_start(struct channel_place *p, enum channel_kind kind, int64_t now_ms);
void channel_place_end(struct channel_place *p, bool is_fault, int64_t now_ms);
