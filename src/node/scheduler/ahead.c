/* Claims ahead: an ordinary disk stalls for most of a second now and then, and a claim waits for it. So tasks are
 * claimed seconds before they are due, and firing needs no disk.
 *
 * A task that was claimed ahead has no place: it counts neither among the slots nor in a limit of its queue or tenant.
 * When it is due, it takes a place if one is free and nobody else waits. Otherwise it is ready, and the rounds of
 * claims share the places among ready tasks and those in the store. A task that is ready for READY_MS goes back to the
 * store, with its due time and so with its turn: a backlog stays there. */
#include <stdlib.h>

#include "node/scheduler/internal.h"

enum {
    READY_MS = 1000,
    SLOW_MS = 150000,
    AHEAD_MAX_MS = 10000,
    AHEAD_BATCH = 2000,
    AHEAD_EACH_MS = 100,     /* between two claims ahead, unless something is due within a quarter of the window */
    AHEAD_TASK_BYTES = 1200, /* memory of a task besides its texts */
    AHEAD_CLAIM_BYTES = 8 << 20,
    FLEET_SPAN_MS = 250, /* of due times in one claim: it is handed over when its last task was pushed */
};

/* ---- places ---- */

static size_t ahead_bytes_of(const struct task *t)
{
    return AHEAD_TASK_BYTES + t->payload.n + t->target_config.n;
}

static void ahead_over(struct scheduler *s, struct held *h)
{
    h->ahead = false;
    s->ahead_count--;
    s->ahead_bytes -= ahead_bytes_of(h->armed->task);
    lanes_on_ahead_over(s->lanes, h->lane);
}

void scheduler_add_ahead(struct scheduler *s, struct armed *a)
{
    a->held->ahead = true;
    s->ahead_count++;
    s->ahead_bytes += ahead_bytes_of(a->task);
    lanes_on_claimed_ahead(s->lanes, a->held->lane);
}

void scheduler_give_place(struct scheduler *s, struct held *h)
{
    if (h->ahead)
        ahead_over(s, h);
    h->placed = true;
    lanes_on_claimed(s->lanes, h->lane);
}

void scheduler_leave_place(struct scheduler *s, struct held *h)
{
    if (!h->placed)
        return;
    h->placed = false;
    s->freed = true;
    lanes_on_settled(s->lanes, h->lane, h->taken_back);
}

bool scheduler_has_place(struct scheduler *s, const struct held *h)
{
    return lanes_may_run(s->lanes, h->lane, s->now.wall_ms);
}

bool scheduler_take_place(struct scheduler *s, struct armed *a)
{
    if (!lanes_anybody_waits(s->lanes, a->held->lane, s->now.wall_ms) && scheduler_has_place(s, a->held)) {
        scheduler_give_place(s, a->held);
        if (s->claiming)
            s->claiming->contested = true;
        return true;
    }
    enum late_cause by = lane_gate_cause(lanes_hold_of(s->lanes, a->held->lane, s->now.wall_ms).gate);
    a->late_by = by ? by : LATE_ROOM;
    a->ready_ms = s->now.steady_ms;
    list_push(&s->ready, &a->ready_since);
    s->ready_count++;
    lanes_ready_add(s->lanes, a->held->lane, &a->ready, a->task->due_ms);
    return false;
}

void scheduler_off_wheel(struct scheduler *s, struct armed *a)
{
    if (a->to_plan.at) {
        heap_remove(&s->to_plan, &a->to_plan);
        return;
    }
    if (!a->ready.at) {
        wheel_remove(&s->wheel, &a->entry);
        return;
    }
    list_remove(&a->ready_since);
    s->ready_count--;
    lanes_ready_remove(s->lanes, a->held->lane, &a->ready);
}

void scheduler_leave_armed(struct scheduler *s, struct armed *a)
{
    if (a->held->placed)
        lanes_on_unarmed(s->lanes, a->held->lane);
    else
        ahead_over(s, a->held);
}

void scheduler_return_ready(struct scheduler *s)
{
    while (!list_empty(&s->ready)) {
        struct armed *a = container_of(s->ready.next, struct armed, ready_since);
        if (a->ready_ms + READY_MS > s->now.steady_ms)
            return;
        scheduler_off_wheel(s, a);
        scheduler_end(s, a, OUTCOME_RETURNED);
    }
}

void scheduler_return_overdue(struct scheduler *s, struct moment now)
{
    struct armed **overdue = xcalloc(s->armed_count + 1, sizeof *overdue);
    size_t n = 0;
    s->now = now;
    list_each (&s->armed, link) {
        struct armed *a = container_of(link, struct armed, link);
        if (!a->held->placed && a->task->due_ms < now.wall_ms)
            overdue[n++] = a;
    }
    for (size_t i = 0; i < n; i++) {
        struct held *h = overdue[i]->held;
        s->returning += !h->returned; /* it may be armed again: its outcome could not be published */
        h->returned = true;
        overdue[i]->late_by = LATE_DOWN;
        scheduler_off_wheel(s, overdue[i]);
        scheduler_end(s, overdue[i], OUTCOME_RETURNED);
    }
    free(overdue);
}

bool scheduler_is_returning(const struct scheduler *s)
{
    return s->returning > 0;
}

/* ---- claims ---- */

/* Twice the slowest claim of the last minutes. On a shared store other nodes take over after a few seconds, so the
 * window stays short. */
void scheduler_adapt_ahead(struct scheduler *s, int64_t took_ms)
{
    if (!s->setup.ahead_ms)
        return;
    if (s->now.steady_ms - s->slow_since_ms >= SLOW_MS) {
        s->slow_ms[1] = s->slow_ms[0];
        s->slow_ms[0] = 0;
        s->slow_since_ms = s->now.steady_ms;
    }
    s->slow_ms[0] = max_of(s->slow_ms[0], took_ms);
    int64_t wanted = 2 * max_of(s->slow_ms[0], s->slow_ms[1]);
    wanted = s->setup.shared ? s->setup.ahead_ms : min_of(max_of(wanted, s->setup.ahead_ms), (int64_t)AHEAD_MAX_MS);
    lanes_set_ahead(s->lanes, wanted);
    s->ahead_ms = wanted;
}

static bool ahead_may_claim(const struct scheduler *s)
{
    return s->ahead_ms && !s->claiming && s->begun && !s->suspended && !s->draining && !s->isolating &&
           s->now.steady_ms >= s->rules_come_ms && s->ahead_bytes < s->setup.ahead_bytes;
}

/* Wall: when a claim ahead is worth it. */
static int64_t ahead_claim_ms(const struct scheduler *s)
{
    int64_t next_ms = lanes_next_ahead_ms(s->lanes), each_ms = moment_wall_at(s->now, s->ahead_at_ms + AHEAD_EACH_MS);
    if (next_ms == INT64_MAX)
        return INT64_MAX;
    return max_of(next_ms, min_of(each_ms, next_ms + s->ahead_ms / 2));
}

void scheduler_claim_ahead(struct scheduler *s)
{
    if (!ahead_may_claim(s) || ahead_claim_ms(s) > s->now.wall_ms)
        return;
    struct claim *c = xnew(*c);
    size_t bytes = s->setup.ahead_bytes - s->ahead_bytes,
           room = min_of(bytes / AHEAD_TASK_BYTES + 1, (size_t)AHEAD_BATCH);
    int64_t span_ms = s->setup.fleet ? FLEET_SPAN_MS : s->ahead_ms;
    s->ahead_at_ms = s->now.steady_ms;
    if (lanes_ask_ahead(s->lanes, room, s->now, s->now.wall_ms + s->ahead_ms, span_ms, &c->round))
        scheduler_submit_claim(s, c, min_of(bytes, (size_t)AHEAD_CLAIM_BYTES));
    else
        free(c);
}

int64_t scheduler_next_ahead_ms(const struct scheduler *s)
{
    int64_t wake = lanes_next_ready_ms(s->lanes);
    if (!list_empty(&s->ready))
        wake = min_of(
            wake, moment_wall_at(s->now, container_of(s->ready.next, struct armed, ready_since)->ready_ms + READY_MS));
    return ahead_may_claim(s) ? min_of(wake, ahead_claim_ms(s)) : wake;
}
