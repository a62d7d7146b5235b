/* Hosts whose circuit breaker is open. A lane of such a host is closed: claiming from it would only put its tasks aside
 * again. When the breaker's time is over, one task of all lines of the host is claimed as a trial. Its result opens or
 * closes the breaker; if it has none, the next task is the trial. */
#include <assert.h>
#include <stdlib.h>

#include "core/sharing/breaker.h"
#include "core/target/target_url.h"
#include "node/scheduler/lanes_internal.h"

struct host_entry *lanes_find_host(const struct lanes *l, int32_t tenant, struct str host)
{
    struct host_key k = host_key_of(tenant, host);
    return map_get(&l->hosts, host_key_bytes(&k));
}

struct host_entry *lanes_add_host(struct lanes *l, int32_t tenant, struct str host)
{
    struct host_entry *h = lanes_find_host(l, tenant, host);
    if (h)
        return h;
    struct host_key k = host_key_of(tenant, host);
    h = xcalloc(1, sizeof *h + k.n);
    list_init(&h->lines);
    h->key_n = k.n;
    memcpy(h->key, k.p, k.n);
    map_put(&l->hosts, (struct str){ h->key, h->key_n }, h);
    return h;
}

void lanes_hosts_release(struct lanes *l)
{
    map_each (&l->hosts, slot) {
        assert(list_empty(&((struct host_entry *)slot->value)->lines));
        free(slot->value);
    }
    map_release(&l->hosts);
}

static void lanes_reopen_host(struct lanes *l, struct host_entry *h)
{
    list_each (&h->lines, link)
        lanes_reopen_line(l, container_of(link, struct line_entry, of_host));
}

void lanes_host_settled(struct lanes *l, struct host_entry *h)
{
    assert(h->held > 0);
    h->held--;
    if (h->open && h->held == 0)
        lanes_reopen_host(l, h);
}

/* A task that was claimed ahead may be ready, and waits for nothing but the next round. */
static void lanes_plan_host_ahead(struct lanes *l, struct host_entry *h)
{
    list_each (&h->lines, of_host) {
        struct line_entry *line = container_of(of_host, struct line_entry, of_host);
        list_each (&line->lanes, of_line)
            lane_plan_ahead(l, container_of(of_line, struct lane_entry, of_line));
    }
}

void lanes_open_breaker(struct lanes *l, int32_t tenant, struct str host, int64_t until_ms)
{
    struct host_entry *h = lanes_add_host(l, tenant, host);
    h->until_ms = h->open ? max_of(h->until_ms, until_ms) : until_ms;
    l->open_hosts += !h->open;
    h->open = true;
    lanes_plan_host_ahead(l, h);
}

void lanes_close_breaker(struct lanes *l, int32_t tenant, struct str host)
{
    struct host_entry *h = lanes_find_host(l, tenant, host);
    if (!h || !h->open)
        return;
    h->open = false;
    l->open_hosts--;
    lanes_reopen_host(l, h);
    lanes_plan_host_ahead(l, h);
}

void lanes_shift_breakers(struct lanes *l, int64_t by_ms)
{
    map_each (&l->hosts, slot)
        ((struct host_entry *)slot->value)->until_ms -= by_ms;
}

bool lanes_breaker_holds(struct lanes *l, int32_t tenant, struct str host, int64_t now_ms, struct str *ret_trial)
{
    struct host_entry *h = lanes_find_host(l, tenant, host);
    *ret_trial = (struct str){ 0 };
    if (!h || !h->open)
        return false;
    if (now_ms < h->until_ms || h->held)
        return true;
    h->until_ms = now_ms + BREAKER_TRIAL_WAIT_MS;
    *ret_trial = (struct str){ h->key + sizeof tenant, h->key_n - sizeof tenant };
    return false;
}

size_t lanes_breakers_open(const struct lanes *l)
{
    return l->open_hosts;
}
