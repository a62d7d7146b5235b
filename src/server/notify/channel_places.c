#include "server/notify/channel_places.h"

#include <assert.h>

#include "base/buf.h"
#include "core/target/target_url.h"

enum { KEY_MAX = 4096 };

/* Of Slack the URL itself: it may be encrypted, and then each setting is a place of its own. */
static struct str channel_host(enum channel_kind kind, const struct channel *c)
{
    struct target_url url;
    return kind != CHANNEL_SLACK_WEBHOOK && target_url_split(c->url, &url) ? url.host : c->url;
}

static uint64_t channel_hash(int32_t tenant, enum channel_kind kind, const struct channel *c)
{
    cleanup_with(buf_release) struct buf key;
    buf_init(&key, KEY_MAX);
    if (kind == CHANNEL_EMAIL)
        buf_text(&key, "mail"); /* one server for all tenants */
    else
        buf_printf(&key, "%d " STR_FMT, (int)tenant, STR_ARG(channel_host(kind, c)));
    return hash_bytes(HASH_STABLE, buf_str(&key));
}

int channel_places_get(struct channel_places *p, int32_t tenant, enum channel_kind kind, const struct channel *c,
                       int64_t now_ms)
{
    uint64_t hash = channel_hash(tenant, kind, c);
    int oldest = PLACE_NONE;
    for (size_t i = 0; i < p->n; i++) {
        if (p->v[i].hash == hash) {
            p->v[i].used_ms = now_ms;
            return (int)i;
        }
        if (!p->v[i].under_way && (oldest == PLACE_NONE || p->v[i].used_ms < p->v[oldest].used_ms))
            oldest = (int)i;
    }
    int at = p->n < PLACES_MAX ? (int)p->n++ : oldest;
    if (at != PLACE_NONE)
        p->v[at] = (struct channel_place){ .hash = hash, .used_ms = now_ms };
    return at;
}

bool channel_place_is_closed(const struct channel_place *p, int64_t now_ms)
{
    return now_ms < p->closed_until_ms;
}

bool channel_place_is_free(const struct channel_place *p, int64_t now_ms)
{
    return !channel_place_is_closed(p, now_ms) && p->under_way < PLACE_SLOTS && now_ms >= p->next_ms;
}

void channel_place_start(struct channel_place *p, enum channel_kind kind, int64_t now_ms)
{
    p->under_way++;
    p->next_ms = kind == CHANNEL_SLACK_WEBHOOK ? now_ms + PLACE_SLACK_MS : 0;
}

/* The first message after the time is a trial: if it fails, the place is closed again. */
void channel_place_end(struct channel_place *p, bool is_fault, int64_t now_ms)
{
    assert(p->under_way > 0);
    p->under_way--;
    p->failures = is_fault ? p->failures + 1 : 0;
    p->closed_until_ms = p->failures >= PLACE_FAILURES ? now_ms + PLACE_CLOSED_MS : 0;
}
