/* Invariants:
 *  - At most one heartbeat, one mark of a dead node and one renewal of the leader's lease are in flight.
 *  - sent_us is when the last answered heartbeat was sent. Other nodes count our silence from a later moment.
 *  - A peer's since_us is when we first saw its current count of heartbeats, or the end of a gap in our own. It has
 *    been silent from there until we sent the heartbeat whose answer shows the same count. Both errors are to our
 *    disadvantage, never to the peer's. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/cluster/membership_internal.h"

enum {
    FENCE_BEATS = 4,  /* unanswered for so long, nothing fires */
    LEASE_BEATS = 10, /* the length of the leader's lease */
    RENEW_BEATS = 3,
    DOC_MAX = 4096,
    SKEW_US = 500000, /* as of BelfryClockSkew */
};

struct membership *membership_new(const struct membership_setup *setup, struct moment now)
{
    assert(setup->heartbeat_ms > 0);
    struct membership *m = xnew(*m);
    m->setup = *setup;
    m->now = now;
    m->at_once = true;
    uuid_gen_init(&m->ids, setup->seed);
    m->id = uuid_next(&m->ids, now.wall_ms);
    buf_init(&m->doc, DOC_MAX);
    arena_init(&m->arena, MEMBERSHIP_ARENA);
    return m;
}

void membership_free(struct membership *m)
{
    if (!m)
        return;
    assert(!membership_in_flight(m));
    buf_release(&m->doc);
    arena_release(&m->arena);
    free(m->peers);
    free(m->sharers);
    free(m);
}

static int64_t membership_heartbeats_us(const struct membership *m, int64_t n)
{
    return n * m->setup.heartbeat_ms * US_PER_MS;
}

static int64_t membership_steady_us(const struct membership *m)
{
    return clock_steady_us(m->setup.clock);
}

/* ---- the leader's lease ---- */

static void membership_apply_lease(struct membership *m, bool held, struct uuid holder, int64_t ttl_ms)
{
    bool was_leader = membership_is_leader(m);
    bool ours = held && uuid_eq(holder, m->id) && ttl_ms > 0;
    m->leader_until_us = ours ? m->renewed_us + membership_heartbeats_us(m, LEASE_BEATS) : 0;
    if (ours && !was_leader)
        log_info("leads", kv_uuid("node", m->id));
}

/* If renewals stay without an answer, the lease runs out. */
static void membership_on_store_lease(struct op *op)
{
    struct membership *m = op->context;
    m->renewing = false;
    arena_release(&op->arena);
    if (op->rc == ERR_OK)
        membership_apply_lease(m, m->lease.ret_held, m->lease.holder, m->lease.ttl_ms);
}

static void membership_on_io_lease(struct io_request *e)
{
    struct membership *m = e->context;
    m->renewing = false;
    if (e->rc == ERR_OK)
        membership_apply_lease(m, m->io_request.ret_held, m->io_request.holder, m->io_request.ttl_ms);
}

static void membership_ask_for_lease(struct membership *m, int64_t ttl_ms)
{
    m->renewing = true;
    m->renewed_us = membership_steady_us(m);
    if (m->setup.lease) {
        m->io_request =
            (struct io_lease){ .io_request = { .kind = IO_LEASE, .done = membership_on_io_lease, .context = m },
                               .name = S("leader"),
                               .holder = m->id,
                               .ttl_ms = ttl_ms };
        async_io_submit(m->setup.lease, &m->io_request.io_request);
        return;
    }
    m->lease = (struct op_lease){ .op = { .kind = OP_LEASE, .done = membership_on_store_lease, .context = m },
                                  .name = S("leader"),
                                  .holder = m->id,
                                  .now_ms = m->now.wall_ms,
                                  .ttl_ms = ttl_ms };
    arena_init(&m->lease.op.arena, MEMBERSHIP_ARENA);
    writer_submit(m->setup.writer, &m->lease.op);
}

static void membership_renew_lease(struct membership *m)
{
    bool wants = m->setup.shared && m->joined && m->ready && !m->leaving;
    if (wants && !m->renewing &&
        (!m->renewed_us || membership_steady_us(m) - m->renewed_us >= membership_heartbeats_us(m, RENEW_BEATS)))
        membership_ask_for_lease(m, LEASE_BEATS * m->setup.heartbeat_ms);
}

/* ---- heartbeats ---- */

static void membership_tell_skew(struct membership *m, int64_t error_us)
{
    bool is_skewed = max_of(m->skew_us, -m->skew_us) - error_us > SKEW_US;
    if (is_skewed && !m->is_skewed)
        log_warn("clock_skewed", kv_i64("behind_ms", m->skew_us / US_PER_MS));
    else if (!is_skewed && m->is_skewed)
        log_info("clock_agrees", kv_i64("behind_ms", m->skew_us / US_PER_MS));
    m->is_skewed = is_skewed;
}

static void membership_measure_clock(struct membership *m, int64_t store_us, int64_t now_us)
{
    if (!store_us)
        return;
    offset_add(&m->offset, m->asked_us, now_us, store_us);
    struct offset_view v = offset_view(&m->offset, now_us);
    m->skew_us = v.middle_us + now_us - clock_machine_us(m->setup.clock);
    membership_tell_skew(m, v.error_us);
    clock_correct(m->setup.clock, v.low_us, 2 * v.error_us);
}

/* Everything this node held belongs to others. */
static void membership_die(struct membership *m)
{
    log_error("found_dead", kv_uuid("node", m->id), kv_cstr("remedy", "it drops what it held and joins again"));
    m->id = uuid_next(&m->ids, m->now.wall_ms);
    m->joined = m->ready = false;
    m->sent_us = m->answered_us = m->leader_until_us = m->renewed_us = m->beats = 0;
    m->fires_until_ms = m->promised_ms = 0;
    m->peer_count = m->rows.n = m->workers.n = 0;
    m->generation++;
    m->active_peers = ACTIVE_PEERS_UNKNOWN;
    m->left = m->leaving;
    m->at_once = true;
    m->setup.died(m->setup.context, m->id);
}

static void membership_keep_rows(struct membership *m, struct op_heartbeat *b)
{
    arena_release(&m->arena);
    m->arena = b->op.arena;
    m->rows = b->ret;
    m->workers = b->ret_workers;
    m->generation++;
}

static void membership_apply_heartbeat(struct membership *m, int64_t now_us)
{
    struct op_heartbeat *b = &m->beat;
    bool gap = m->answered_us && now_us - m->answered_us > membership_heartbeats_us(m, DEAD_BEATS) / 2;
    bool first = !m->joined;
    membership_keep_rows(m, b);
    m->joined = true;
    m->beats = peers_row(m, m->id)->beats;
    m->sent_us = m->asked_us;
    m->answered_us = now_us;
    m->fires_until_ms = b->node.fires_until_ms;
    membership_measure_clock(m, b->ret_store_us, now_us);
    peers_watch(m, gap, now_us);
    if (m->active_peers == ACTIVE_PEERS_UNKNOWN)
        m->active_peers = m->setup.shared ? peers_active(m) : ACTIVE_PEERS_NONE;
    if (first)
        log_info("joined", kv_uuid("node", m->id), kv_i64("others", (int64_t)m->peer_count));
    if (!m->setup.shared)
        return;
    peers_share(m);
    peers_mark_silent_dead(m);
    if (b->ret_recall_requested)
        m->setup.recall_requested(m->setup.context);
    if (b->ret_has_orphans &&
        m->dead_held) /* since the heartbeat before: the node that marked them dead has had its time */
        m->setup.found_dead(m->setup.context);
    m->dead_held = b->ret_has_orphans;
}

/* It was marked dead, or even purged after that: then its count of heartbeats began anew. */
static bool membership_is_dead(const struct membership *m)
{
    const struct op_heartbeat *b = &m->beat;
    int64_t beats = 0;
    for (size_t i = 0; i < b->ret.n; i++)
        if (uuid_eq(b->ret.v[i].id, m->id))
            beats = b->ret.v[i].beats;
    return b->ret_dead || beats <= m->beats;
}

static void membership_on_heartbeat(struct op *op)
{
    struct membership *m = op->context;
    int64_t now_us = membership_steady_us(m);
    m->beating = false;
    m->left = m->left || m->beat.leave; /* if the last heartbeat was lost, other nodes notice the silence */
    bool dead = op->rc == ERR_OK && !m->left && membership_is_dead(m);
    if (op->rc == ERR_OK && !m->left && !dead) {
        m->failed = 0;
        membership_apply_heartbeat(m, now_us);
        return;
    }
    if (op->rc && !m->failed++) {
        m->failing_us = m->asked_us;
        log_warn("heartbeat_failed", kv_err(&op->error));
    }
    arena_release(&op->arena);
    if (dead)
        membership_die(m);
}

static const char *membership_state_name(const struct membership *m)
{
    return m->setup.aside ? "serving" : m->closing ? "leaving" : m->ready ? "ready" : "joining";
}

static void membership_write_doc(struct membership *m)
{
    struct jw w;
    buf_reset(&m->doc);
    jw_init(&w, &m->doc);
    jw_object(&w);
    jw_kv_cstr(&w, "state", membership_state_name(m)); /* the first member: see STATE */
    jw_kv_i64(&w, BEAT, m->setup.heartbeat_ms);
    jw_kv_bool(&w, "leader", membership_is_leader(m));
    jw_kv_i64(&w, "partitions", m->sharing ? (int64_t)partitions_count(&m->own) : m->ready ? PARTITIONS : 0);
    jw_key(&w, "can"); /* what a node of an older version does not do: see server/node_view.h */
    jw_array(&w);
    jw_str(&w, S("workflows"));
    jw_str(&w, S("notifications"));
    jw_array_end(&w);
    m->setup.describe(m->setup.context, &w);
    jw_object_end(&w);
}

/* It only rises: if the clock was set back, tasks of the time before may have fired. The first heartbeat promises
 * nothing, because its answer corrects the clock; the second one follows at once. */
static int64_t membership_promise_ms(struct membership *m)
{
    if (m->setup.shared && m->joined)
        m->promised_ms = max_of(m->promised_ms, m->now.wall_ms + FENCE_BEATS * m->setup.heartbeat_ms);
    return m->promised_ms;
}

static void membership_send_heartbeat(struct membership *m)
{
    membership_write_doc(m);
    m->beating = true;
    m->at_once = false;
    m->beat = (struct op_heartbeat){
        .op = { .kind = OP_HEARTBEAT, .done = membership_on_heartbeat, .context = m },
        .node = { .id = m->id,
                  .beats = m->beats,
                  .name = m->setup.name,
                  .version = m->setup.version,
                  .doc = buf_str(&m->doc),
                  .fires_until_ms = membership_promise_ms(m) },
        .now_ms = m->now.wall_ms,
        .alone = !m->setup.shared,
        .leave = m->leaving,
    };
    arena_init(&m->beat.op.arena, MEMBERSHIP_ARENA);
    m->asked_us = membership_steady_us(m);
    writer_submit(m->setup.writer, &m->beat.op);
}

/* It has just joined, or the wall clock was set forward: nothing may fire before the store knows of a later time. */
static bool membership_promise_is_over(const struct membership *m)
{
    return m->setup.shared && m->joined && m->promised_ms < m->now.wall_ms;
}

/* In how many microseconds the next heartbeat is due; INT64_MAX: not until something happens. */
static int64_t membership_next_heartbeat_us(const struct membership *m)
{
    if (m->beating || m->left)
        return INT64_MAX;
    if (m->at_once || membership_promise_is_over(m))
        return 0;
    bool enough = m->joined && !m->setup.shared && !m->setup.fleet && !m->leaving;
    if (enough)
        return INT64_MAX;
    return m->asked_us ? max_of(m->asked_us + membership_heartbeats_us(m, 1) - membership_steady_us(m), (int64_t)0) : 0;
}

/* ---- public functions ---- */

int64_t membership_step(struct membership *m, struct moment now)
{
    m->now = now;
    if (membership_next_heartbeat_us(m) == 0)
        membership_send_heartbeat(m);
    membership_renew_lease(m);
    int64_t wait_us = membership_next_heartbeat_us(m);
    return wait_us == INT64_MAX ? INT64_MAX : now.wall_ms + (wait_us + US_PER_MS - 1) / US_PER_MS;
}

void membership_heartbeat_now(struct membership *m)
{
    m->at_once = m->setup.shared || m->setup.fleet;
}

int64_t membership_failing_since_ms(const struct membership *m)
{
    return m->failed ? m->now.wall_ms - (membership_steady_us(m) - m->failing_us) / US_PER_MS : 0;
}

struct uuid membership_id(const struct membership *m)
{
    return m->id;
}

bool membership_has_joined(const struct membership *m)
{
    return m->joined;
}

bool membership_may_fire(const struct membership *m)
{
    return !m->setup.shared ||
           (m->joined && membership_steady_us(m) - m->sent_us < membership_heartbeats_us(m, FENCE_BEATS));
}

int64_t membership_fires_until_ms(const struct membership *m)
{
    return m->setup.shared ? m->fires_until_ms : INT64_MAX;
}

const struct partitions *membership_own(const struct membership *m)
{
    return m->sharing ? &m->own : NULL;
}

bool membership_is_leader(const struct membership *m)
{
    return !m->setup.shared || membership_steady_us(m) < m->leader_until_us;
}

enum active_peers membership_active_peers(const struct membership *m)
{
    return m->active_peers;
}

void membership_forget_peers(struct membership *m)
{
    if (!m->setup.shared)
        return;
    m->active_peers = ACTIVE_PEERS_UNKNOWN;
    m->at_once = true;
    for (size_t i = 0; i < m->peer_count; i++)
        m->peers[i].risen = false;
}

void membership_set_ready(struct membership *m, bool ready)
{
    if (m->ready == ready || (ready && m->setup.aside))
        return;
    m->ready = ready;
    if (!m->setup.shared)
        return;
    m->at_once = true;
    peers_share(m);
}

void membership_close(struct membership *m)
{
    m->closing = true;
    membership_set_ready(m, false);
}

void membership_leave(struct membership *m)
{
    if (m->leaving)
        return;
    if (m->setup.shared && membership_is_leader(m) && !m->renewing)
        membership_ask_for_lease(m, 0); /* over at once, so that another node need not wait */
    m->leaving = m->at_once = true;
    m->left = !m->joined && !m->beating;
}

bool membership_has_left(const struct membership *m)
{
    return m->left;
}

bool membership_in_flight(const struct membership *m)
{
    return m->beating || m->marking_dead || m->renewing;
}

const struct node_rows *membership_nodes(const struct membership *m)
{
    return &m->rows;
}

const struct worker_groups *membership_workers(const struct membership *m)
{
    return &m->workers;
}

size_t membership_ready_count(const struct membership *m)
{
    return max_of(m->ready_count, (size_t)1);
}

uint64_t membership_generation(const struct membership *m)
{
    return m->generation;
}

struct offset_view membership_offset(const struct membership *m)
{
    return offset_view(&m->offset, membership_steady_us(m));
}

int64_t membership_skew_us(const struct membership *m)
{
    return m->skew_us;
}
