/* Breakers, as the receiver sees them: a call that is held must go to a host that failed. Judged with one node, whose
 * worker has all breakers. */
#include "core/sharing/breaker.h"
#include "sim.h"

enum { SECOND_US = 1000000, HOST_MIN = 10, TENANT_HOSTS = 3 };
#define HOST_WINDOW_US   (60LL * SECOND_US)
#define HOST_OPEN_US     (30LL * SECOND_US - 1000) /* the node's clock has milliseconds */
#define TENANT_WINDOW_US (300LL * SECOND_US)

/* Over half of at least ten calls within a minute. The window moves in steps of 5 s, so it may be that much shorter. */
static bool has_failed(const struct sim *s, const struct sim_host *h)
{
    for (int64_t window_us = HOST_WINDOW_US - 5LL * SECOND_US; window_us <= HOST_WINDOW_US; window_us += SECOND_US) {
        size_t total = 0, failed = 0;
        for (size_t i = 0; i < min_of(h->answer_count, (size_t)ANSWERS_MAX); i++) {
            bool counts = s->steady_us - h->answers[i].us <= window_us;
            total += counts;
            failed += counts && h->answers[i].failed;
        }
        if (total >= HOST_MIN && failed * 2 > total)
            return true;
    }
    return false;
}

/* Only a failure opens a breaker. A trial that succeeds, after the breaker was open for its time, closes it: then
 * nothing that was before counts. */
void blame_answered(struct sim *s, const struct task *t, const struct outcome *o, int64_t started_us)
{
    int number = gates_host(t);
    enum breaker_sign sign = breaker_sign_of(o);
    if (number < 0 || sign == BREAKER_NOTHING || s->profile.isolation != ISOLATION_BREAKERS)
        return;
    struct sim_host *h = &gates_tenant(s, t)->hosts[number];
    bool failed = sign == BREAKER_FAILURE;
    size_t at = h->answer_count++ % ANSWERS_MAX;
    h->answers[at].us = s->steady_us;
    h->answers[at].failed = failed;
    if (failed && (h->open || has_failed(s, h))) {
        h->open = true;
        h->open_us = s->steady_us;
    } else if (!failed && h->open && started_us >= h->open_us + HOST_OPEN_US) {
        h->open = false;
        h->answer_count = 0;
    }
    if (!failed)
        h->well_us = s->steady_us;
}

/* Hosts of the tenant that failed within its window. */
static int failing_hosts(const struct sim *s, const struct sim_tenant *t)
{
    int n = 0;
    for (int i = 0; i < HOSTS; i++) {
        bool failed = false;
        for (size_t k = 0; k < min_of(t->hosts[i].answer_count, (size_t)ANSWERS_MAX); k++)
            failed = failed ||
                     (t->hosts[i].answers[k].failed && s->steady_us - t->hosts[i].answers[k].us <= TENANT_WINDOW_US);
        n += failed || t->hosts[i].open;
    }
    return n;
}

/* A host that answers well is held by its own breaker alone, if at all. */
void blame_judge(struct sim *s, const struct event *e)
{
    const struct subject *x = e->kind == EVENT_OUTCOME ? oracle_find(s, e->task.id) : NULL;
    bool held = x && (e->breakers.host.kind == BREAKER_HELD || e->breakers.tenant.kind == BREAKER_HELD);
    if (!held || s->profile.isolation != ISOLATION_BREAKERS)
        return;
    trace(s, "%s is held: " STR_FMT, short_id(x->id), STR_ARG(e->outcome.error));
    if (x->host < 0) {
        breach(s, BREACH_BLAME, "%s calls no host, and is held", short_id(x->id));
        return;
    }
    const struct sim_tenant *t = &s->gates.tenants[x->tenant - 1];
    const struct sim_host *h = &t->hosts[x->host];
    bool by_retry_after = wall_ms(s) < t->left_alone_ms[x->host];
    bool is_well = h->well_us && s->steady_us - h->well_us < TENANT_WINDOW_US / 2;
    bool by_tenant = !is_well && failing_hosts(s, t) >= TENANT_HOSTS;
    if (!h->open && !by_retry_after && !by_tenant)
        breach(s, BREACH_BLAME, "%s is held, and host %d is %s", short_id(x->id), x->host,
               is_well ? "well" : "not known to fail with others");
}
