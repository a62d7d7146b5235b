#include "core/task/execution_json.h"

static void execution_write(struct jw *w, const struct execution *x, bool with_output)
{
    static const char *const statuses[] = { [EXECUTION_COMPLETED] = "COMPLETED",
                                            [EXECUTION_FAILED] = "FAILED",
                                            [EXECUTION_LOST] = "LOST",
                                            [EXECUTION_CANCELLED] = "CANCELLED" };
    jw_kv_uuid(w, "id", x->id);
    jw_kv_uuid(w, "task_id", x->task);
    jw_kv_uuid(w, "occurrence_id", x->occurrence);
    jw_kv_time(w, "scheduled_for", x->scheduled_ms);
    jw_kv_i64(w, "attempt_number", x->attempt);
    jw_kv_cstr(w, "status", statuses[x->status]);
    jw_kv_time_or_null(w, "started_at", x->started_us / 1000);
    jw_kv_time_or_null(w, "completed_at", x->completed_us / 1000);
    jw_key(w, "delay_ms");
    if (x->started_us)
        jw_f64(w, (double)(x->started_us - x->due_ms * 1000) / 1000);
    else
        jw_null(w);
    jw_kv_cstr(w, "delay_cause", x->late_by ? late_cause_names[x->late_by] : NULL);
    jw_kv_str_or_null(w, "worker", x->worker);
    jw_key(w, "http_status");
    if (x->http_status)
        jw_i64(w, x->http_status);
    else
        jw_null(w);
    jw_kv_str_or_null(w, "error_message", x->error);
    if (with_output)
        jw_kv_str_or_null(w, "output", x->output);
    jw_kv_str_or_null(w, "trace_id", x->trace_id);
    jw_kv_i64(w, "fence", x->fence);
}

void execution_facts(struct jw *w, const struct execution *x)
{
    execution_write(w, x, false);
}

void execution_members(struct jw *w, const struct execution *x)
{
    execution_write(w, x, true);
}

void execution_to_json(struct jw *w, const struct execution *x)
{
    jw_object(w);
    execution_members(w, x);
    jw_object_end(w);
}
