#include "core/sharing/pools.h"

#include <stdio.h>

enum { SHOWN_MAX = 100 };

/* ---- one group ---- */

static bool pool_list_has(struct str list, struct str name)
{
    struct str one;
    while (str_cut(&list, ',', &one))
        if (str_eq(one, name))
            return true;
    return false;
}

static bool pool_knows_labels(const struct worker_group *g)
{
    return !str_eq(g->kind.labels, S(WORKER_LABELS_UNKNOWN));
}

/* How many of the required labels the group lacks; *ret_first is the first of them. */
static size_t pool_labels_missing(const struct worker_group *g, struct str required, struct str *ret_first)
{
    struct str label;
    size_t n = 0;
    if (!pool_knows_labels(g))
        return 0;
    while (str_cut(&required, ',', &label))
        if (!pool_list_has(g->kind.labels, label) && n++ == 0)
            *ret_first = label;
    return n;
}

static bool pool_has(int64_t there, int64_t needed)
{
    return there < 0 || needed <= there;
}

/* Whether the group meets one need of the lane. */
static bool pool_meets(const struct worker_group *g, enum pool_need need, const struct lane *lane, struct str tenant)
{
    struct str ignored;
    switch (need) {
    case POOL_QUEUE: return !g->kind.queues.n || pool_list_has(g->kind.queues, lane->queue);
    case POOL_TENANT: return !g->kind.tenants.n || pool_list_has(g->kind.tenants, tenant);
    case POOL_PRIORITY: return lane->priority >= g->kind.priority_min && lane->priority <= g->kind.priority_max;
    case POOL_LABEL: return pool_labels_missing(g, lane->requires, &ignored) == 0;
    case POOL_CPU: return pool_has(g->kind.cpu_milli, lane->cpu_milli);
    case POOL_MEMORY: return pool_has(g->kind.memory_mb, lane->memory_mb);
    case POOL_WORKER:
    case POOL_NOTHING: break;
    }
    return g->slots > 0;
}

/* The first need that the group does not meet. */
static enum pool_need pool_first_unmet(const struct worker_group *g, const struct lane *lane, struct str tenant)
{
    enum pool_need need = POOL_WORKER;
    while (need < POOL_NOTHING && pool_meets(g, need, lane, tenant))
        need++;
    return need;
}

bool worker_group_serves(const struct worker_group *g, const struct lane *lane, struct str tenant)
{
    return pool_first_unmet(g, lane, tenant) == POOL_NOTHING;
}

static int64_t pool_times(int64_t there, int64_t needed)
{
    return there < 0 || needed <= 0 ? INT32_MAX : there / needed;
}

int64_t worker_group_places(const struct worker_group *g, const struct lane *lane)
{
    int64_t each =
        min_of(pool_times(g->kind.cpu_milli, lane->cpu_milli), pool_times(g->kind.memory_mb, lane->memory_mb));
    return min_of(g->slots, g->workers * each);
}

int worker_kind_compare(const struct worker_kind *a, const struct worker_kind *b)
{
    int order = str_cmp(a->queues, b->queues);
    order = order ? order : str_cmp(a->tenants, b->tenants);
    order = order ? order : str_cmp(a->labels, b->labels);
    const int64_t x[] = { a->priority_min, a->priority_max, a->cpu_milli, a->memory_mb },
                  y[] = { b->priority_min, b->priority_max, b->cpu_milli, b->memory_mb };
    for (size_t i = 0; order == 0 && i < array_count(x); i++)
        order = (x[i] > y[i]) - (x[i] < y[i]);
    return order;
}

/* ---- what is missing ---- */

/* The group that is nearest to serving the lane. */
struct pool_nearest {
    const struct worker_group *group; /* NULL: there is none */
    enum pool_need unmet;
    size_t labels;       /* how many it lacks */
    struct str label;    /* the first of them */
    int64_t cpu, memory; /* the most that a group has which meets all needs before */
    bool met_by_another; /* a group that lacks something else meets that need */
};

static struct pool_nearest pool_nearest_to(const struct worker_groups *all, const struct lane *lane, struct str tenant)
{
    struct pool_nearest best = { .unmet = POOL_WORKER };
    for (size_t i = 0; i < all->n; i++) {
        const struct worker_group *g = &all->v[i];
        struct pool_nearest x = { .group = g, .unmet = pool_first_unmet(g, lane, tenant) };
        x.labels = pool_labels_missing(g, lane->requires, &x.label);
        if (x.unmet > best.unmet || (x.unmet == best.unmet && x.unmet == POOL_LABEL && x.labels < best.labels)) {
            best = x;
            best.cpu = g->kind.cpu_milli;
            best.memory = g->kind.memory_mb;
        }
        if (x.unmet == best.unmet) {
            best.cpu = max_of(best.cpu, g->kind.cpu_milli);
            best.memory = max_of(best.memory, g->kind.memory_mb);
        }
    }
    struct lane one = *lane;
    one.requires = best.label;
    for (size_t i = 0; i < all->n; i++)
        best.met_by_another = best.met_by_another || pool_meets(&all->v[i], best.unmet, &one, tenant);
    return best;
}

/* "2", "0.5", "2.25" */
static void pool_write_cpus(int64_t milli, char out[24])
{
    snprintf(out, 24, "%.3f", (double)milli / 1000);
    size_t n = strlen(out);
    while (out[n - 1] == '0')
        n--;
    out[n - (out[n - 1] == '.')] = '\0';
}

static void pool_say_room(struct pool_shortage *s, const struct pool_nearest *near, const struct lane *lane)
{
    const char *who = near->met_by_another ? "the largest worker that could otherwise run it" : "the largest worker";
    char needed[24], most[24];
    if (s->need == POOL_CPU) {
        pool_write_cpus(lane->cpu_milli, needed);
        pool_write_cpus(near->cpu, most);
        snprintf(s->missing, sizeof s->missing, "cpu %s", needed);
        snprintf(s->reason, sizeof s->reason, "it needs %s CPU%s, and %s has %s", needed,
                 lane->cpu_milli == 1000 ? "" : "s", who, most);
        return;
    }
    snprintf(s->missing, sizeof s->missing, "memory_mb %lld", (long long)lane->memory_mb);
    snprintf(s->reason, sizeof s->reason, "it needs %lld MB of memory, and %s has %lld MB", (long long)lane->memory_mb,
             who, (long long)near->memory);
}

struct pool_shortage pool_shortage_of(const struct worker_groups *all, const struct lane *lane, struct str tenant)
{
    static const char *const nouns[] = { [POOL_QUEUE] = "queue", [POOL_TENANT] = "tenant", [POOL_LABEL] = "label" };
    struct pool_nearest near = pool_nearest_to(all, lane, tenant);
    struct pool_shortage s = { .need = near.unmet };
    const char *who = near.met_by_another ? "no worker that could otherwise run it" : "no worker";
    if (s.need == POOL_NOTHING)
        return s;
    if (s.need == POOL_WORKER) {
        snprintf(s.missing, sizeof s.missing, "worker");
        snprintf(s.reason, sizeof s.reason, "there is no worker");
    } else if (s.need == POOL_PRIORITY) {
        snprintf(s.missing, sizeof s.missing, "priority %d", lane->priority);
        snprintf(s.reason, sizeof s.reason, "%s serves priority %d", who, lane->priority);
    } else if (s.need == POOL_CPU || s.need == POOL_MEMORY) {
        pool_say_room(&s, &near, lane);
    } else {
        struct str name = s.need == POOL_QUEUE ? lane->queue : s.need == POOL_TENANT ? tenant : near.label;
        name = str_utf8_cut(name, SHOWN_MAX);
        snprintf(s.missing, sizeof s.missing, "%s " STR_FMT, nouns[s.need], STR_ARG(name));
        snprintf(s.reason, sizeof s.reason, "%s %s %s " STR_FMT, who, s.need == POOL_LABEL ? "has the" : "serves its",
                 nouns[s.need], STR_ARG(name));
    }
    return s;
}
