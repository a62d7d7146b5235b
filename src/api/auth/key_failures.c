/* The lines of a minute are few, so they are searched one by one. */
#include "api/auth/key_failures.h"

static const int64_t second_ns = 1000000000;

static const char *const key_failure_names[] = {
#define X(id, name) [KEY_FAILURE_##id] = name,
    KEY_FAILURE_MAP(X)
#undef X
        NULL
};

const char *key_failure_name(enum key_failure reason)
{
    return key_failure_names[reason];
}

void key_failures_init(struct key_failures *f, struct clock *clock, struct metrics *metrics)
{
    *f = (struct key_failures){ .clock = clock, .metrics = metrics };
    pthread_mutex_init(&f->lock, NULL);
    peer_buckets_init(&f->addresses, KEY_FAILURES_PER_SECOND, KEY_FAILURES_PER_SECOND, KEY_FAILURES_ADDRESSES);
}

void key_failures_release(struct key_failures *f)
{
    peer_buckets_release(&f->addresses);
    pthread_mutex_destroy(&f->lock);
}

static bool key_failure_is_of_key(enum key_failure reason)
{
    return reason == KEY_FAILURE_REVOKED || reason == KEY_FAILURE_EXPIRED;
}

/* The line of this failure, which may be new; NULL: the minute has no more lines. */
static struct key_failure_row *key_failures_line(struct key_failures *f, const struct key_failure_row *one)
{
    bool known = key_failure_is_of_key(one->reason);
    struct key_failure_row *lines = f->lines[known];
    char key[PEER_KEY], other[PEER_KEY];
    struct str address = peer_key(&one->peer, key);
    for (size_t i = 0; i < f->line_count[known]; i++)
        if (lines[i].reason == one->reason && str_eq(peer_key(&lines[i].peer, other), address) &&
            strcmp(lines[i].who.key_id, one->who.key_id) == 0)
            return &lines[i];
    if (f->line_count[known] == KEY_FAILURES_LINES)
        return NULL;
    lines[f->line_count[known]] = *one;
    return &lines[f->line_count[known]++];
}

/* Whether to record it now: the first of its line, if nothing was in the last second. */
static bool key_failures_count(struct key_failures *f, const struct key_failure_row *one)
{
    int64_t now_ns = clock_steady_ns(f->clock);
    size_t lines_before = f->line_count[0] + f->line_count[1];
    struct key_failure_row *line = key_failures_line(f, one);
    bool is_new = f->line_count[0] + f->line_count[1] > lines_before;
    if (is_new && (!f->recorded_ns || now_ns - f->recorded_ns >= second_ns)) {
        f->recorded_ns = now_ns;
        return true;
    }
    if (line)
        line->count++;
    else
        f->others[one->reason]++;
    return false;
}

struct key_refusal key_failures_add(struct key_failures *f, const union peer *peer, enum key_failure reason,
                                    const struct identity *who)
{
    if (reason == KEY_FAILURE_MISSING) {
        metric_add_labelled(f->metrics, METRIC_KEY_FAILURES, key_failure_names, reason, 1);
        return (struct key_refusal){ 0 };
    }
    struct key_refusal refusal = { .row = { .peer = *peer, .who.tenant = TENANT_DEFAULT } };
    pthread_mutex_lock(&f->lock);
    refusal.limited =
        reason != KEY_FAILURE_MALFORMED && !peer_buckets_take(&f->addresses, peer, clock_steady_ms(f->clock), NULL);
    refusal.row.reason = refusal.limited ? KEY_FAILURE_LIMITED : reason;
    if (key_failure_is_of_key(refusal.row.reason))
        refusal.row.who = *who;
    refusal.is_due = key_failures_count(f, &refusal.row);
    refusal.starts = !f->has_timer;
    f->has_timer = true;
    pthread_mutex_unlock(&f->lock);
    refusal.row.count = 1;
    metric_add_labelled(f->metrics, METRIC_KEY_FAILURES, key_failure_names, refusal.row.reason, 1);
    return refusal;
}

/* A line that was counted goes on without a first row in the next minute; the others are removed. */
static size_t key_failures_take_lines(struct key_failures *f, bool known, struct key_failure_row *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < f->line_count[known]; i++)
        if (f->lines[known][i].count) {
            rows[n] = f->lines[known][i];
            f->lines[known][n] = f->lines[known][i];
            f->lines[known][n++].count = 0;
        }
    f->line_count[known] = n;
    return n;
}

size_t key_failures_take(struct key_failures *f, struct key_failure_row rows[KEY_FAILURES_ROWS], bool *ret_again)
{
    pthread_mutex_lock(&f->lock);
    size_t n = key_failures_take_lines(f, false, rows);
    n += key_failures_take_lines(f, true, rows + n);
    for (size_t reason = 0; reason < KEY_FAILURE_COUNT; reason++) {
        if (f->others[reason])
            rows[n++] = (struct key_failure_row){ .is_of_others = true,
                                                  .reason = (enum key_failure)reason,
                                                  .who.tenant = TENANT_DEFAULT,
                                                  .count = f->others[reason] };
        f->others[reason] = 0;
    }
    f->has_timer = n > 0;
    *ret_again = f->has_timer;
    pthread_mutex_unlock(&f->lock);
    return n;
}
