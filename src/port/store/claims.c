#include "port/store/claims.h"

#include "port/store/tasks.h"

bool partition_is_own(const struct partitions *own, struct uuid id)
{
    return !own || partitions_have(own, partition_of(id));
}

int64_t later_by(int64_t at_ms, int64_t delay_ms)
{
    return at_ms > INT64_MAX - delay_ms ? INT64_MAX : at_ms + delay_ms;
}

bool claim_is_own(const struct op_claim *op, struct uuid id)
{
    return partition_is_own(op->own, id);
}

int64_t claim_counts_as(const struct op_claim *op, struct uuid id, int64_t due_ms)
{
    return claim_is_own(op, id) ? due_ms : later_by(due_ms, op->help_after_ms);
}

bool claim_is_for(const struct op_claim *op, struct uuid id, int64_t due_ms)
{
    return claim_is_own(op, id) || later_by(due_ms, op->help_after_ms) <= op->now_ms;
}

struct claim_line claim_line_at(const struct op_claim *op, size_t i, size_t lane)
{
    return op->lines ? op->lines[i] : (struct claim_line){ .lanes = 1, .max = op->lanes[lane].max };
}

enum err node_is_dead(struct error *e)
{
    error_set(e, ERR_CONFLICT, "is marked dead: what it held is others' now");
    return error_in(e, "node");
}

/* ---- OP_SETTLE ---- */

bool settle_asks_parent(const struct settlement *v)
{
    enum task_state next = v->replace ? v->replace->state : v->verdict.next;
    bool waits = next == TASK_SCHEDULED || (v->replace && next == TASK_PAUSED);
    return waits && !uuid_is_nil(v->parent);
}

static bool settle_withdraws(const struct settle_schedule *of, const struct settlement *v)
{
    const struct verdict *d = &v->verdict;
    bool has_fired = d->has_execution || d->attempts || d->losses;
    return !v->replace && of->parent.state == TASK_PAUSED && of->runs_count && !has_fired;
}

bool settle_in_schedule(const struct settle_schedule *of, int64_t now_ms, struct settlement *v, struct task *row)
{
    struct verdict *d = &v->verdict;
    const struct task *p = &of->parent;
    bool is_retried = of->runs_count == 0 && of->started_ms && of->version > 1;
    if (of->links & TASK_OPENED || is_retried)
        return false;
    if (!schedule_is_cancelled(p))
        return settle_withdraws(of, v);
    if (v->replace) {
        *row = *v->replace;
        row->state = TASK_CANCELLED;
        row->updated_ms = row->completed_ms = now_ms;
        row->last_error = put_cancel_reason(p);
        v->replace = row;
        return false;
    }
    if (d->has_execution && d->execution.status == EXECUTION_FAILED) {
        d->next = TASK_FAILED;
        d->cause = d->retry_cause;
        return false;
    }
    d->next = TASK_CANCELLED;
    d->last_error = put_cancel_reason(p);
    return false;
}

/* ---- OP_RECALL ---- */

enum err recall_too_late(struct error *e)
{
    error_set(e, ERR_CONFLICT, "is not the one that the task is running under");
    return error_in(e, "fence");
}
