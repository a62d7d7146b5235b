/* The status is a few numbers, copied after each step. There may be thousands of breakers: every BREAKERS_MS, at
 * most BREAKERS_SHOWN that are not closed are copied, so that status and metrics stay small. Nodes are copied after
 * a heartbeat that changed them. */
#include "server/node_view.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "core/target/target_url.h"

enum {
    BREAKERS_SHOWN = 50,
    MISSING_SHOWN = 50,
    RUNNING_SHOWN = 4096,
    BREAKERS_MS = 500,
    NODES_SHOWN = 2 * NODES_DEAD_SHOWN,
    NODE_TEXT = 96,
};

/* A text, cut off if it is too long. */
struct short_text {
    char p[NODE_TEXT];
    size_t n;
};

struct shown_node {
    struct uuid id;
    struct short_text name, version, state;
    bool alive, leader, runs_workflows, notifies;
    int64_t joined_ms, dead_ms, partitions, running, waiting, slots, lag_ms, skew_us, error_us;
    int64_t ended, ran_us, wanted_milli; /* for workers_wanted.h */
};

struct shown_nodes {
    struct shown_node v[NODES_SHOWN];
    size_t n;
};

struct shown_breaker {
    int32_t tenant;
    char host[TARGET_HOST_MAX];
    size_t host_size;
    struct breaker_status status;
};

struct shown_breakers {
    struct shown_breaker v[BREAKERS_SHOWN];
    size_t n;
};

struct shown_missing {
    struct {
        char text[POOL_MISSING_TEXT];
        size_t lanes;
    } v[MISSING_SHOWN];
    size_t n;
};

/* Tenants with tasks that run here. */
struct running_tenants {
    struct tenant_figure v[RUNNING_SHOWN];
    size_t n;
};

struct node_view {
    pthread_mutex_t lock; /* guards the next seven */
    struct node_status status;
    struct shown_breakers breakers;
    struct shown_missing missing;
    struct shown_nodes *nodes;
    struct running_tenants *running;
    int64_t wanted_milli;        /* what the last other leader said */
    int64_t leaderless_since_ms; /* 0: some node leads */
    int64_t breakers_read_ms;    /* this and the fields below belong to the loop thread */
    struct shown_breakers found;
    uint64_t generation; /* of the copied nodes */
};

struct node_view *node_view_new(void)
{
    struct node_view *v = xnew(*v);
    v->nodes = xnew(*v->nodes);
    v->running = xnew(*v->running);
    pthread_mutex_init(&v->lock, NULL);
    return v;
}

void node_view_free(struct node_view *v)
{
    if (!v)
        return;
    pthread_mutex_destroy(&v->lock);
    free(v->nodes);
    free(v->running);
    free(v);
}

static void node_view_on_breaker(void *context, const struct breaker_view *b)
{
    struct shown_breakers *to = context;
    if (to->n == BREAKERS_SHOWN)
        return;
    struct shown_breaker *s = &to->v[to->n++];
    s->tenant = b->tenant;
    s->status = b->status;
    s->host_size = min_of(b->host.n, sizeof s->host);
    if (s->host_size)
        memcpy(s->host, b->host.p, s->host_size);
}

static void node_view_on_missing(void *context, const struct pool_shortage *s, size_t lanes)
{
    struct shown_missing *to = context;
    if (to->n == MISSING_SHOWN)
        return;
    memcpy(to->v[to->n].text, s->missing, sizeof s->missing);
    to->v[to->n++].lanes = lanes;
}

static void node_view_on_tenant(void *context, int32_t tenant, size_t running)
{
    struct running_tenants *to = context;
    if (to->n < RUNNING_SHOWN)
        to->v[to->n++] = (struct tenant_figure){ .tenant = tenant, .n = (int64_t)running };
}

/* ---- nodes ---- */

static struct short_text node_view_shorten(struct str s)
{
    struct short_text t = { .n = min_of(s.n, (size_t)NODE_TEXT) };
    if (t.n)
        memcpy(t.p, s.p, t.n);
    return t;
}

static struct str node_view_text(const struct short_text *t)
{
    return (struct str){ t->p, t->n };
}

/* A node of another version may have written other members: unknown ones are ignored, missing ones are 0. */
static bool node_view_can(const json_t *doc, const char *what)
{
    const json_t *all = json_at(doc, "can");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (json_is_string(json_array_get(all, i)) && strcmp(json_string_value(json_array_get(all, i)), what) == 0)
            return true;
    return false;
}

static void node_view_read_doc(struct str text, struct shown_node *n)
{
    struct json_doc doc;
    struct error e;
    if (json_parse(text, &doc, &e))
        return;
    n->state = node_view_shorten(json_text_at(doc.root, "state"));
    n->leader = json_is_true(json_at(doc.root, "leader"));
    n->runs_workflows = node_view_can(doc.root, "workflows");
    n->notifies = node_view_can(doc.root, "notifications");
    n->partitions = json_i64_at(doc.root, "partitions", 0);
    n->running = json_i64_at(doc.root, "running", 0);
    n->waiting = json_i64_at(doc.root, "waiting", 0);
    n->slots = json_i64_at(doc.root, "slots", 0);
    n->ended = json_i64_at(doc.root, "ended", 0);
    n->ran_us = json_i64_at(doc.root, "ran_us", 0);
    n->wanted_milli = json_i64_at(doc.root, "wanted_milli", 0);
    n->lag_ms = json_i64_at(doc.root, "lag_ms", 0);
    n->skew_us = json_i64_at(doc.root, "skew_us", 0);
    n->error_us = json_i64_at(doc.root, "skew_error_us", 0);
    json_doc_release(&doc);
}

static void node_view_copy_node(const struct node_row *row, struct shown_node *n)
{
    *n = (struct shown_node){ .id = row->id,
                              .name = node_view_shorten(row->name),
                              .version = node_view_shorten(row->version),
                              .alive = !row->dead,
                              .joined_ms = row->joined_ms,
                              .dead_ms = row->dead_ms };
    if (row->dead)
        n->state = node_view_shorten(S("dead"));
    else
        node_view_read_doc(row->doc, n);
}

/* Reads the rows under the lock: they change with heartbeats only, which is rare. */
static void node_view_copy_nodes(struct node_view *v, const struct node *n)
{
    const struct node_rows *rows = node_others(n);
    if (v->generation == node_others_generation(n))
        return;
    v->generation = node_others_generation(n);
    v->nodes->n = min_of(rows->n, (size_t)NODES_SHOWN);
    for (size_t i = 0; i < v->nodes->n; i++)
        node_view_copy_node(&rows->v[i], &v->nodes->v[i]);
    for (size_t i = 0; i < v->nodes->n; i++)
        if (v->nodes->v[i].leader && !uuid_eq(v->nodes->v[i].id, v->status.id))
            v->wanted_milli = v->nodes->v[i].wanted_milli;
}

/* Replaces the figures of the last heartbeat of this node by its current ones. */
static void node_view_set_own_figures(struct shown_node *n, const struct node_status *s, int64_t now_ms)
{
    n->state = node_view_shorten(s->aside        ? S("serving")
                                 : s->draining   ? S("leaving")
                                 : s->recovering ? S("joining")
                                                 : S("ready"));
    n->leader = s->leader;
    n->partitions = (int64_t)s->partitions;
    n->running = (int64_t)s->running;
    n->waiting = (int64_t)(s->scheduler.ready + s->queued);
    n->skew_us = s->skew_us;
    n->error_us = s->error_us;
    int64_t oldest_ms = INT64_MAX;
    for (size_t i = 0; i < array_count(s->scheduler.oldest_due_ms); i++)
        oldest_ms = min_of(oldest_ms, s->scheduler.oldest_due_ms[i]);
    n->lag_ms = oldest_ms == INT64_MAX ? 0 : max_of(now_ms - oldest_ms, (int64_t)0);
}

static void node_view_write_node(struct jw *w, const struct shown_node *n)
{
    jw_object(w);
    jw_kv_uuid(w, "id", n->id);
    jw_kv_str(w, "name", node_view_text(&n->name));
    jw_kv_str(w, "version", node_view_text(&n->version));
    jw_kv_bool(w, "alive", n->alive);
    jw_kv_str(w, "state", node_view_text(&n->state));
    jw_kv_time(w, "joined_at", n->joined_ms);
    if (n->alive) {
        jw_kv_bool(w, "leader", n->leader);
        jw_kv_i64(w, "partitions", n->partitions);
        jw_kv_i64(w, "running", n->running);
        jw_kv_i64(w, "slots", n->slots);
        jw_kv_i64(w, "lag_ms", n->lag_ms);
        jw_key(w, "clock_offset_ms");
        jw_f64(w, (double)n->skew_us / 1000);
        jw_key(w, "clock_error_ms");
        jw_f64(w, (double)n->error_us / 1000);
    } else {
        jw_kv_time(w, "died_at", n->dead_ms);
    }
    jw_object_end(w);
}

bool node_view_all_run_workflows(struct node_view *v)
{
    bool all = true;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->nodes->n; i++)
        all = all && (!v->nodes->v[i].alive || v->nodes->v[i].runs_workflows);
    pthread_mutex_unlock(&v->lock);
    return all;
}

bool node_view_all_notify(struct node_view *v)
{
    bool all = true;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->nodes->n; i++)
        all = all && (!v->nodes->v[i].alive || v->nodes->v[i].notifies);
    pthread_mutex_unlock(&v->lock);
    return all;
}

int64_t node_view_waiting(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    int64_t waiting = (int64_t)(v->status.scheduler.ready + v->status.queued);
    for (size_t i = 0; i < v->nodes->n; i++)
        if (v->nodes->v[i].alive && !uuid_eq(v->nodes->v[i].id, v->status.id))
            waiting += v->nodes->v[i].waiting;
    pthread_mutex_unlock(&v->lock);
    return waiting;
}

struct workload node_view_workload(struct node_view *v, const struct metrics *m)
{
    struct workload all = { .ended = metric_count(m, METRIC_TASKS_EXECUTED),
                            .ran_us = metric_count(m, METRIC_RUN_TIME) };
    int64_t nodes = 1, slots = (int64_t)metric_level(m, METRIC_WORKER_SLOTS);
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->nodes->n; i++) {
        const struct shown_node *n = &v->nodes->v[i];
        if (!n->alive || uuid_eq(n->id, v->status.id))
            continue;
        all.ended += n->ended;
        all.ran_us += n->ran_us;
        slots += n->slots;
        nodes++;
    }
    struct node_workers fleet = v->status.workers;
    pthread_mutex_unlock(&v->lock);
    all.slots = fleet.count ? (double)fleet.slots / (double)fleet.count : (double)slots / (double)nodes;
    all.slots = max_of(all.slots, 1.0);
    return all;
}

int64_t node_view_busy_milli(struct node_view *v, const struct metrics *m)
{
    int64_t slots = (int64_t)metric_level(m, METRIC_WORKER_SLOTS);
    pthread_mutex_lock(&v->lock);
    int64_t running = (int64_t)v->status.running;
    for (size_t i = 0; i < v->nodes->n; i++) {
        const struct shown_node *n = &v->nodes->v[i];
        if (!n->alive || uuid_eq(n->id, v->status.id))
            continue;
        running += n->running;
        slots += n->slots;
    }
    pthread_mutex_unlock(&v->lock);
    return slots ? running * 1000 / slots : 0;
}

/* The nodes that have partitions, as this node knows them. Returns how many. */
static size_t node_view_owners(struct node_view *v, struct uuid *ids, struct short_text *names)
{
    size_t n = 0;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->nodes->n; i++) {
        const struct shown_node *node = &v->nodes->v[i];
        bool own = uuid_eq(node->id, v->status.id);
        if (!node->alive || !(own ? (int64_t)v->status.partitions : node->partitions))
            continue;
        ids[n] = node->id;
        names[n++] = node->name;
    }
    pthread_mutex_unlock(&v->lock);
    return n;
}

void node_view_print_due(struct node_view *v, const int64_t by_partition[PARTITIONS], struct buf *out)
{
    struct uuid *ids = xcalloc(NODES_SHOWN, sizeof *ids);
    struct short_text *names = xcalloc(NODES_SHOWN, sizeof *names);
    size_t n = node_view_owners(v, ids, names);
    buf_text(out,
             "# HELP belfry_partition_due Due tasks in the store that wait, in the partitions of a node; only on the "
             "leader\n# TYPE belfry_partition_due gauge\n");
    for (size_t i = 0; i < n; i++) {
        struct partitions own = partitions_share(ids[i], ids, n);
        int64_t due = 0;
        for (int p = 0; p < PARTITIONS; p++)
            due += partitions_have(&own, p) ? by_partition[p] : 0;
        buf_text(out, "belfry_partition_due{node=\"");
        metric_print_label(node_view_text(&names[i]), out);
        buf_printf(out, "\"} %lld\n", (long long)due);
    }
    free(ids);
    free(names);
}

double node_view_wanted_before(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    int64_t milli = v->wanted_milli;
    pthread_mutex_unlock(&v->lock);
    return (double)milli / 1000;
}

void node_view_set_running(struct node_view *v, struct tenant_metrics *to)
{
    pthread_mutex_lock(&v->lock);
    tenant_metrics_set(to, TENANT_RUNNING, v->running->v, v->running->n);
    pthread_mutex_unlock(&v->lock);
}

int64_t node_view_running_of(struct node_view *v, int32_t tenant)
{
    int64_t running = 0;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->running->n; i++)
        running += v->running->v[i].tenant == tenant ? v->running->v[i].n : 0;
    pthread_mutex_unlock(&v->lock);
    return running;
}

void node_view_nodes(struct node_view *v, int64_t now_ms, struct jw *w)
{
    struct shown_nodes *all = xnew(*all);
    pthread_mutex_lock(&v->lock);
    struct node_status s = v->status;
    all->n = v->nodes->n;
    memcpy(all->v, v->nodes->v, all->n * sizeof *all->v);
    pthread_mutex_unlock(&v->lock);
    jw_array(w);
    for (size_t i = 0; i < all->n; i++) {
        if (uuid_eq(all->v[i].id, s.id) && all->v[i].alive)
            node_view_set_own_figures(&all->v[i], &s, now_ms);
        node_view_write_node(w, &all->v[i]);
    }
    jw_array_end(w);
    free(all);
}

static bool node_view_has_leader(const struct node_view *v)
{
    bool found = v->status.leader;
    for (size_t i = 0; !found && i < v->nodes->n; i++)
        found = v->nodes->v[i].alive && v->nodes->v[i].leader && !uuid_eq(v->nodes->v[i].id, v->status.id);
    return found;
}

struct alert_facts node_view_alert_facts(struct node_view *v)
{
    struct alert_facts facts = { 0 };
    pthread_mutex_lock(&v->lock);
    facts.leaderless_since_ms = v->leaderless_since_ms;
    facts.store_lost_since_ms = v->status.store_lost_ms;
    facts.claim_failures = v->status.scheduler.claim_failures;
    facts.clock_set_ms = v->status.clock_set_ms;
    facts.clock_jump_ms = v->status.clock_jump_ms;
    for (size_t i = 0; i < v->nodes->n; i++)
        facts.nodes += v->nodes->v[i].alive;
    pthread_mutex_unlock(&v->lock);
    facts.nodes = max_of(facts.nodes, (int64_t)1);
    return facts;
}

/* ---- status, breakers and metrics ---- */

void node_view_update(struct node_view *v, struct node *n, int64_t now_ms)
{
    bool look = now_ms < v->breakers_read_ms || now_ms >= v->breakers_read_ms + BREAKERS_MS;
    if (look) {
        v->breakers_read_ms = now_ms;
        v->found.n = 0;
        node_each_breaker(n, now_ms, node_view_on_breaker, &v->found);
    }
    pthread_mutex_lock(&v->lock);
    v->status = node_status(n);
    node_view_copy_nodes(v, n);
    if (node_view_has_leader(v))
        v->leaderless_since_ms = 0;
    else if (!v->leaderless_since_ms)
        v->leaderless_since_ms = now_ms;
    if (look && (v->found.n || v->breakers.n)) {
        v->breakers.n = v->found.n;
        memcpy(v->breakers.v, v->found.v, v->found.n * sizeof *v->found.v);
    }
    if (look) {
        v->missing.n = 0;
        node_each_missing(n, node_view_on_missing, &v->missing);
        v->running->n = 0;
        node_each_tenant(n, node_view_on_tenant, v->running);
    }
    pthread_mutex_unlock(&v->lock);
}

struct node_status node_view_status(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    struct node_status s = v->status;
    pthread_mutex_unlock(&v->lock);
    return s;
}

static struct shown_breakers node_view_copy_breakers(struct node_view *v)
{
    pthread_mutex_lock(&v->lock);
    struct shown_breakers b = v->breakers;
    pthread_mutex_unlock(&v->lock);
    return b;
}

static struct str node_view_breaker_host(const struct shown_breaker *b)
{
    return (struct str){ b->host, b->host_size };
}

void node_view_breakers(struct node_view *v, struct jw *w)
{
    struct shown_breakers all = node_view_copy_breakers(v);
    jw_array(w);
    for (size_t i = 0; i < all.n; i++) {
        const struct shown_breaker *b = &all.v[i];
        jw_object(w);
        jw_kv_i64(w, "tenant", b->tenant);
        if (b->host_size)
            jw_kv_str(w, "host", node_view_breaker_host(b));
        jw_kv_cstr(w, "state", breaker_state_name(b->status.state));
        jw_kv_bool(w, "retry_after", b->status.held_by_retry_after);
        jw_kv_time(w, "since", b->status.since_ms);
        if (b->status.until_ms)
            jw_kv_time(w, "until", b->status.until_ms);
        jw_kv_i64(w, "failures", b->status.counts.failures);
        jw_kv_i64(w, "calls", b->status.counts.total);
        jw_kv_i64(w, "held", b->status.held);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void node_view_print_waits(const struct node_status *s, int64_t now_ms, struct buf *out)
{
    buf_printf(
        out,
        "# HELP belfry_oldest_wait_seconds How long the oldest due task of a priority class has waited for its start\n"
        "# TYPE belfry_oldest_wait_seconds gauge\n");
    for (size_t i = 0; i < CLASSES; i++) {
        int64_t due_ms = s->scheduler.oldest_due_ms[i];
        int64_t wait_ms = due_ms == INT64_MAX ? 0 : max_of(now_ms - due_ms, (int64_t)0);
        buf_printf(out, "belfry_oldest_wait_seconds{class=\"%s\"} %lld.%03lld\n", priority_class_names[i],
                   (long long)(wait_ms / 1000), (long long)(wait_ms % 1000));
    }
}

static void node_view_print_cluster(const struct node_status *s, struct buf *out)
{
    buf_printf(out,
               "# HELP belfry_clock_offset_seconds Clock of the store minus clock of this machine\n"
               "# TYPE belfry_clock_offset_seconds gauge\nbelfry_clock_offset_seconds %.6f\n"
               "# HELP belfry_clock_error_seconds Uncertainty of belfry_clock_offset_seconds\n"
               "# TYPE belfry_clock_error_seconds gauge\nbelfry_clock_error_seconds %.6f\n"
               "# HELP belfry_leader 1 if this node is the leader of its cluster\n"
               "# TYPE belfry_leader gauge\nbelfry_leader %d\n"
               "# HELP belfry_partitions Partitions of the tasks that this node owns, of 256\n"
               "# TYPE belfry_partitions gauge\nbelfry_partitions %zu\n",
               (double)s->skew_us / 1e6, (double)s->error_us / 1e6, s->leader, s->partitions);
}

static void node_view_print_missing(struct node_view *v, struct buf *out)
{
    buf_text(out, "# HELP belfry_lanes_without_worker Lanes (tenant, queue, priority and needs) with due tasks that no "
                  "worker can run, by what is missing, at most 50\n# TYPE belfry_lanes_without_worker gauge\n");
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->missing.n; i++) {
        buf_text(out, "belfry_lanes_without_worker{missing=\"");
        metric_print_label(str_from(v->missing.v[i].text), out);
        buf_printf(out, "\"} %zu\n", v->missing.v[i].lanes);
    }
    pthread_mutex_unlock(&v->lock);
}

void node_view_metrics(struct node_view *v, int64_t now_ms, struct buf *out)
{
    struct node_status s = node_view_status(v);
    struct shown_breakers all = node_view_copy_breakers(v);
    node_view_print_waits(&s, now_ms, out);
    node_view_print_cluster(&s, out);
    node_view_print_missing(v, out);
    buf_printf(
        out,
        "# HELP belfry_breaker_state Circuit breakers that are not closed, at most 50: 1 open, 2 half-open; an empty host "
        "means the tenant's own breaker\n# TYPE belfry_breaker_state gauge\n");
    for (size_t i = 0; i < all.n; i++) {
        const struct shown_breaker *b = &all.v[i];
        buf_printf(out, "belfry_breaker_state{tenant=\"%d\",host=\"", (int)b->tenant);
        metric_print_label(node_view_breaker_host(b), out); /* nothing has checked the host in a URL */
        buf_printf(out, "\"} %d\n", (int)b->status.state);
    }
}
