/* A sliding window is a ring of BREAKER_SLICES slices. Counts leave the window one slice at a time. */
#include "core/sharing/breaker.h"

#include <assert.h>
#include <stdlib.h>

enum { JITTER_MS = 1000 };

/* clang-format off */
const struct breaker_rules breaker_host   = { .window_ms = 60000,  .total_min = 10, .failures_percent = 50,
                                              .open_ms = 30000, .follows_retry_after = true };
const struct breaker_rules breaker_tenant = { .window_ms = 300000, .total_min = 20, .failures_percent = 90,
                                              .hosts_min = 3, .open_ms = 60000 };
/* clang-format on */

const char *breaker_state_name(enum breaker_state s)
{
    static const char *const names[] = {
        [BREAKER_CLOSED] = "closed", [BREAKER_OPEN] = "open", [BREAKER_HALF_OPEN] = "half-open"
    };
    return names[s];
}

void breaker_init(struct breaker *b, const struct breaker_rules *rules, int64_t now_ms)
{
    assert(rules->window_ms >= BREAKER_SLICES && rules->open_ms > 0);
    *b = (struct breaker){ .rules = rules, .since_ms = now_ms, .seen_ms = now_ms };
}

/* ---- windows ---- */

static void breaker_window_clear(struct breaker_window *w)
{
    memset(w->slices, 0, sizeof w->slices);
    w->sum = (struct breaker_counts){ 0 };
}

static void breaker_window_slide(struct breaker_window *w, const struct breaker_rules *rules, int64_t now_ms)
{
    int64_t slice = now_ms / (rules->window_ms / BREAKER_SLICES);
    if (slice < w->slice || slice - w->slice >= BREAKER_SLICES) {
        breaker_window_clear(w);
        w->slice = slice;
    }
    while (w->slice < slice) {
        struct breaker_counts *oldest = &w->slices[++w->slice % BREAKER_SLICES];
        w->sum.total -= oldest->total;
        w->sum.failures -= oldest->failures;
        *oldest = (struct breaker_counts){ 0 };
    }
}

static void breaker_window_count(struct breaker_window *w, bool failure)
{
    struct breaker_counts *newest = &w->slices[w->slice % BREAKER_SLICES];
    newest->total++;
    newest->failures += failure;
    w->sum.total++;
    w->sum.failures += failure;
}

/* ---- time and state ---- */

static void breaker_shift_time(int64_t *time_ms, int64_t by_ms)
{
    if (*time_ms)
        *time_ms -= by_ms;
}

/* The clock was set back. Moves every stored time back by the same amount, so that remaining waits keep their length.
 * breaker_window_slide then clears the windows. */
static void breaker_move_times_back(struct breaker *b, int64_t by_ms)
{
    breaker_shift_time(&b->since_ms, by_ms);
    breaker_shift_time(&b->until_ms, by_ms);
    breaker_shift_time(&b->opened_ms, by_ms);
    breaker_shift_time(&b->alive_ms, by_ms);
    breaker_shift_time(&b->hold_until_ms, by_ms);
    breaker_shift_time(&b->trial_until_ms, by_ms);
    breaker_shift_time(&b->last_given_ms, by_ms);
    breaker_shift_time(&b->told_until_ms, by_ms);
}

static void breaker_set_state(struct breaker *b, enum breaker_state state, int64_t now_ms)
{
    b->state = state;
    b->since_ms = now_ms;
    b->until_ms = state == BREAKER_OPEN ? now_ms + b->rules->open_ms : 0;
    b->opened_ms = state == BREAKER_OPEN ? now_ms : b->opened_ms;
    b->trial_until_ms = 0;
}

/* Applies the state changes that are due by time alone. Returns the time that counts as now: if now_ms is up to
 * JITTER_MS behind the latest time seen, that time counts, because callers pass times in any order within a second.
 * Only a larger step back is treated as a clock that was set back. */
static int64_t breaker_advance_time(struct breaker *b, int64_t now_ms)
{
    if (now_ms < b->seen_ms && now_ms >= b->seen_ms - JITTER_MS)
        now_ms = b->seen_ms;
    if (now_ms < b->seen_ms)
        breaker_move_times_back(b, b->seen_ms - now_ms);
    b->seen_ms = now_ms;
    breaker_window_slide(&b->window, b->rules, now_ms);
    breaker_window_slide(&b->for_tenant, &breaker_tenant, now_ms);
    if (b->state == BREAKER_OPEN && b->until_ms <= now_ms)
        breaker_set_state(b, BREAKER_HALF_OPEN, now_ms);
    if (b->trial_until_ms && b->trial_until_ms <= now_ms)
        b->trial_until_ms = 0;
    if (b->hold_until_ms <= now_ms)
        b->hold_until_ms = 0;
    return now_ms;
}

/* ---- asking ---- */

/* Returns when the next call may go; 0: now. */
static int64_t breaker_next_call_ms(const struct breaker *b, int64_t now_ms)
{
    int64_t at = b->hold_until_ms;
    if (b->state == BREAKER_OPEN)
        at = max_of(at, b->until_ms);
    if (b->trial_until_ms)
        at = max_of(at, min_of(b->trial_until_ms, now_ms + BREAKER_TRIAL_WAIT_MS));
    return at;
}

bool breaker_would_go(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    return breaker_next_call_ms(b, now_ms) == 0;
}

/* Spreads held calls over time: each gets a time one millisecond after the previous one. */
static int64_t breaker_assign_retry_time(struct breaker *b, int64_t from_ms)
{
    int64_t at = max_of(from_ms, b->last_given_ms + 1);
    if (at - from_ms >= BREAKER_SPREAD_MAX_MS)
        at = from_ms;
    b->last_given_ms = at;
    b->held++;
    return at;
}

struct breaker_answer breaker_ask(struct breaker *b, int64_t timeout_ms, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    int64_t at = breaker_next_call_ms(b, now_ms);
    if (at)
        return (struct breaker_answer){ .until_ms = breaker_assign_retry_time(b, at) };
    bool trial = b->state == BREAKER_HALF_OPEN;
    if (trial)
        b->trial_until_ms = now_ms + timeout_ms + BREAKER_TRIAL_GRACE_MS;
    return (struct breaker_answer){ .go = true, .trial = trial };
}

/* ---- reporting ---- */

enum breaker_sign breaker_sign_of(const struct outcome *o)
{
    if (o->kind == OUTCOME_OK)
        return BREAKER_ALIVE;
    if (o->kind != OUTCOME_FAILED)
        return BREAKER_NOTHING;
    switch (o->failure) {
    case FAILURE_CONNECT:
    case FAILURE_TLS:
    case FAILURE_TIMEOUT:
    case FAILURE_NETWORK: return BREAKER_FAILURE;
    case FAILURE_HTTP: return o->http_status >= 500 || o->http_status == 429 ? BREAKER_FAILURE : BREAKER_ALIVE;
    case FAILURE_NONE:
    case FAILURE_REFUSED:
    case FAILURE_INTERNAL: break;
    }
    return BREAKER_NOTHING;
}

void breaker_open(struct breaker *b, struct breaker_counts counts, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    assert(b->state == BREAKER_CLOSED);
    b->at_opening = counts;
    b->restored = false;
    breaker_set_state(b, BREAKER_OPEN, now_ms);
}

void breaker_restore(struct breaker *b, struct breaker_counts counts, int64_t until_ms, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    if (b->told && until_ms <= b->told_until_ms)
        return;
    b->at_opening = counts;
    breaker_set_state(b, BREAKER_OPEN, now_ms);
    b->until_ms = b->told_until_ms = until_ms;
    b->told = b->restored = true;
    (void)breaker_advance_time(b, now_ms);
}

void breaker_allow_trial(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    b->hold_until_ms = 0;
    if (b->state == BREAKER_OPEN)
        breaker_set_state(b, BREAKER_HALF_OPEN, now_ms);
}

static void breaker_recover(struct breaker *b, int64_t now_ms)
{
    breaker_set_state(b, BREAKER_CLOSED, now_ms);
    b->restored = false;
    breaker_window_clear(&b->window); /* outcomes from before the trial no longer count */
    b->held = 0;
}

void breaker_close(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    breaker_recover(b, now_ms);
    breaker_window_clear(&b->for_tenant);
    b->hold_until_ms = 0;
    b->told = false;
}

bool breaker_is_exceeded(const struct breaker_rules *r, struct breaker_counts c)
{
    return c.total >= r->total_min && (int64_t)c.failures * 100 > (int64_t)c.total * r->failures_percent;
}

/* A success never opens a breaker, even if it completes total_min. */
static void breaker_count_outcome(struct breaker *b, bool failure, int64_t now_ms)
{
    breaker_window_count(&b->window, failure);
    if (failure && !b->rules->hosts_min && breaker_is_exceeded(b->rules, b->window.sum))
        breaker_open(b, b->window.sum, now_ms);
}

/* If the breaker is not closed, only a trial can change its state: the other calls started before it opened. */
void breaker_report(struct breaker *b, bool trial, const struct outcome *o, int64_t now_ms)
{
    enum breaker_sign sign = breaker_sign_of(o);
    now_ms = breaker_advance_time(b, now_ms);
    if (b->rules->follows_retry_after && sign == BREAKER_FAILURE && o->retry_after_ms > 0)
        b->hold_until_ms = max_of(b->hold_until_ms, now_ms + min_of(o->retry_after_ms, (int64_t)BREAKER_HOLD_MAX_MS));
    if (sign == BREAKER_ALIVE)
        b->alive_ms = now_ms;
    if (sign != BREAKER_NOTHING)
        breaker_window_count(&b->for_tenant, sign == BREAKER_FAILURE);
    if (b->state == BREAKER_CLOSED && sign != BREAKER_NOTHING)
        breaker_count_outcome(b, sign == BREAKER_FAILURE, now_ms);
    if (b->state == BREAKER_CLOSED || !trial)
        return;
    if (sign == BREAKER_ALIVE)
        breaker_recover(b, now_ms);
    else if (sign == BREAKER_FAILURE)
        breaker_set_state(b, BREAKER_OPEN, now_ms);
    else
        b->trial_until_ms = 0;
}

/* A hold by Retry-After counts as an opening: others must not send calls either. */
struct breaker_news breaker_news(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    int64_t until_ms = max_of(b->state == BREAKER_OPEN ? b->until_ms : 0, b->hold_until_ms);
    if (b->state == BREAKER_CLOSED && !until_ms) {
        struct breaker_news news = { .kind = b->told ? BREAKER_RECOVERED : BREAKER_NO_NEWS };
        b->told = false;
        return news;
    }
    if (!until_ms || (b->told && until_ms == b->told_until_ms))
        return (struct breaker_news){ 0 };
    b->told = true;
    b->told_until_ms = until_ms;
    bool closed = b->state == BREAKER_CLOSED;
    return (struct breaker_news){ .kind = BREAKER_OPENED,
                                  .by_retry_after = closed,
                                  .until_ms = until_ms,
                                  .counts = closed ? b->window.sum : b->at_opening };
}

/* ---- what a host says about its tenant ---- */

static bool breaker_is_recent(int64_t time_ms, int64_t now_ms)
{
    return time_ms && now_ms - time_ms < breaker_tenant.window_ms;
}

bool breaker_is_alive(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    return breaker_is_recent(b->alive_ms, now_ms);
}

struct breaker_counts breaker_counts_for_tenant(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    bool is_the_cause = b->state != BREAKER_CLOSED || breaker_is_recent(b->opened_ms, now_ms);
    return is_the_cause ? (struct breaker_counts){ 0 } : b->for_tenant.sum;
}

void breaker_forget_for_tenant(struct breaker *b)
{
    breaker_window_clear(&b->for_tenant);
}

struct breaker_status breaker_status(struct breaker *b, int64_t now_ms)
{
    now_ms = breaker_advance_time(b, now_ms);
    return (struct breaker_status){
        .state = b->state,
        .held_by_retry_after = b->hold_until_ms > 0,
        .since_ms = b->since_ms,
        .until_ms = breaker_next_call_ms(b, now_ms),
        .counts = b->state == BREAKER_CLOSED ? b->window.sum : b->at_opening,
        .held = b->held,
    };
}
