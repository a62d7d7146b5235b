/* The other nodes, as the rows of the last heartbeat show them: which live, which share the partitions with us, which
 * are to be marked dead. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/cluster/membership_internal.h"

static bool peers_is_ready(const struct node_row *r)
{
    return str_starts(r->doc, S(STATE("ready")));
}

/* It schedules, or did until now. */
static bool peers_looks_after_tasks(const struct node_row *r)
{
    return peers_is_ready(r) || str_starts(r->doc, S(STATE("leaving")));
}

/* The interval that its document says; MEMBERSHIP_HEARTBEAT_MS if it says none. */
static int64_t peers_heartbeat_ms(const struct node_row *r)
{
    const struct str name = S("\"" BEAT "\":");
    struct str rest = r->doc, state, beat;
    int64_t ms;
    if (!str_cut(&rest, ',', &state) || !str_cut(&rest, ',', &beat) || !str_starts(beat, name))
        return MEMBERSHIP_HEARTBEAT_MS;
    return str_to_i64(str_sub(beat, name.n, beat.n), 1, INT32_MAX, &ms) ? ms : MEMBERSHIP_HEARTBEAT_MS;
}

static struct peer *peers_find(const struct membership *m, struct uuid id)
{
    for (size_t i = 0; i < m->peer_count; i++)
        if (uuid_eq(m->peers[i].id, id))
            return &m->peers[i];
    return NULL;
}

static struct peer peers_watch_one(const struct membership *m, const struct node_row *r, bool gap, int64_t now_us)
{
    const struct peer *before = peers_find(m, r->id);
    struct peer p = { .id = r->id, .beats = r->beats, .since_us = now_us, .heartbeat_ms = peers_heartbeat_ms(r) };
    if (!before)
        return p;
    p.risen = before->risen || r->beats != before->beats;
    if (r->beats == before->beats && !gap)
        p.since_us = before->since_us;
    return p;
}

void peers_watch(struct membership *m, bool gap, int64_t now_us)
{
    struct peer *peers = xcalloc(m->rows.n, sizeof *peers);
    size_t n = 0;
    for (size_t i = 0; i < m->rows.n; i++)
        if (!m->rows.v[i].dead && !uuid_eq(m->rows.v[i].id, m->id))
            peers[n++] = peers_watch_one(m, &m->rows.v[i], gap, now_us);
    free(m->peers);
    m->peers = peers;
    m->peer_count = n;
}

const struct node_row *peers_row(const struct membership *m, struct uuid id)
{
    for (size_t i = 0; i < m->rows.n; i++)
        if (uuid_eq(m->rows.v[i].id, id))
            return &m->rows.v[i];
    return NULL;
}

static bool peers_stands_aside(const struct node_row *r)
{
    return str_starts(r->doc, S(STATE("serving")));
}

/* Any order will do that is the same on all nodes. */
static bool peers_comes_before(const struct node_row *a, const struct node_row *b)
{
    return a->joined_ms != b->joined_ms ? a->joined_ms < b->joined_ms : uuid_cmp(a->id, b->id) < 0;
}

enum active_peers peers_active(const struct membership *m)
{
    const struct node_row *self = peers_row(m, m->id);
    bool waits = !self;
    for (size_t i = 0; i < m->peer_count; i++) {
        const struct node_row *r = peers_row(m, m->peers[i].id);
        if (m->peers[i].risen && peers_looks_after_tasks(r))
            return ACTIVE_PEERS_SOME;
        waits = waits || (!peers_stands_aside(r) && (!m->peers[i].risen || peers_comes_before(r, self)));
    }
    return waits ? ACTIVE_PEERS_UNKNOWN : ACTIVE_PEERS_NONE;
}

/* Keeps the list of nodes that share the partitions; whether it is the same as before. */
static bool peers_keep_sharers(struct membership *m, struct uuid *nodes, size_t n)
{
    bool same = n == m->ready_count && m->sharers && memcmp(nodes, m->sharers, n * sizeof *nodes) == 0;
    m->ready_count = n;
    free(m->sharers);
    m->sharers = nodes;
    return same;
}

void peers_share(struct membership *m)
{
    struct uuid *nodes = xcalloc(m->rows.n + 1, sizeof *nodes);
    struct partitions own = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < m->rows.n; i++) {
        const struct node_row *r = &m->rows.v[i];
        bool shares = uuid_eq(r->id, m->id) ? m->ready : peers_is_ready(r);
        if (!r->dead && shares)
            nodes[n++] = r->id;
    }
    bool sharing = n > 1 || (n == 1 && !m->ready);
    if (peers_keep_sharers(m, nodes, n) && sharing == m->sharing)
        return;
    if (sharing)
        own = partitions_share(m->id, nodes, n);
    bool changed = sharing != m->sharing || memcmp(&own, &m->own, sizeof own) != 0;
    m->sharing = sharing;
    m->own = own;
    if (changed)
        m->setup.partitions_changed(m->setup.context);
}

/* ---- marking nodes dead ---- */

static void peers_on_marked_dead(struct op *op)
{
    struct membership *m = op->context;
    m->marking_dead = false;
    arena_release(&op->arena);
    if (op->rc) {
        log_warn("mark_dead_failed", kv_err(&op->error));
        return;
    }
    m->at_once = true; /* the partitions are shared anew */
    if (!m->mark_dead.ret_marked_dead)
        return;
    log_warn("node_marked_dead", kv_uuid("node", m->mark_dead.node), kv_cstr("name", m->mark_dead_name));
    m->setup.marked_dead(m->setup.context);
}

/* By the longer interval of the two: a node with rare heartbeats also fires longer. */
static bool peers_is_silent(const struct membership *m, const struct peer *p)
{
    int64_t heartbeat_ms = max_of(m->setup.heartbeat_ms, p->heartbeat_ms);
    return m->asked_us - p->since_us >= DEAD_BEATS * heartbeat_ms * US_PER_MS;
}

/* One node at a time: the next heartbeat comes soon. */
void peers_mark_silent_dead(struct membership *m)
{
    const struct peer *silent = NULL;
    for (size_t i = 0; i < m->peer_count; i++)
        if (peers_is_silent(m, &m->peers[i]))
            silent = &m->peers[i];
    if (!silent || m->marking_dead)
        return;
    const struct node_row *row = peers_row(m, silent->id);
    struct str name = row ? row->name : S("");
    snprintf(m->mark_dead_name, sizeof m->mark_dead_name, STR_FMT, STR_ARG(name));
    m->marking_dead = true;
    m->mark_dead = (struct op_node_dead){ .op = { .kind = OP_NODE_DEAD, .done = peers_on_marked_dead, .context = m },
                                          .node = silent->id,
                                          .beats = silent->beats,
                                          .now_ms = m->now.wall_ms };
    arena_init(&m->mark_dead.op.arena, MEMBERSHIP_ARENA);
    writer_submit(m->setup.writer, &m->mark_dead.op);
}
